//! Everything that a report shows, computed once from a record.
//!
//! Not here: blocks (`document`), formats (`render`).

use bakeoff_core::record::{MachineBaseline, Record, RunHeader};
use bakeoff_core::units::capitalized;

use super::linearizability::Drawing;
use super::picture::Picture;
use super::pictures::pictures;
use super::sentences;
use crate::compare::RunComparison;
use crate::derive::comparison::Comparison;
use crate::derive::findings::{self, Finding};
use crate::derive::headline::{self, Headline};
use crate::derive::{conclusion, durability, fairness, leader, machine_baseline, method};
use crate::model::contest::Contest;

/// Everything that a report shows, computed once from a record.
#[derive(Debug, Clone)]
pub struct Report {
    pub(crate) header: RunHeader,
    /// Time at which the run ended normally, in UTC.
    pub(crate) ended: Option<String>,
    /// True if every trial of the order ran to its end.
    pub(crate) complete: bool,
    pub(crate) trials_run: usize,
    /// Number of rounds after which an adaptive run stopped early.
    pub(crate) answered_after: Option<u32>,
    pub(crate) comparisons: Vec<Comparison>,
    /// The answer, as every format begins.
    pub(crate) headline: Headline,
    /// Conclusions for a reader who must choose, a sentence each.
    pub(crate) conclusion: Vec<String>,
    /// Sentences about broken guarantees, a system each.
    pub(crate) broken: Vec<String>,
    /// The smallest violation of each system whose history no order explains.
    pub(crate) violations: Vec<Drawing>,
    pub(crate) pictures: Vec<Picture>,
    pub(crate) sentences: Vec<String>,
    pub(crate) sentence: String,
    /// Summary of the run in a few lines; empty if nothing ran.
    pub(crate) summary: Vec<String>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) fairness: fairness::Sheet,
    pub(crate) method: Vec<method::Assessment>,
}

impl Report {
    /// Computes the report. A record without trials yields a report that says so.
    pub fn new(record: &Record) -> Report {
        let record = &*durability::lowered(record);
        let comparisons = Comparison::all(record);
        let mut sentences: Vec<String> =
            comparisons.iter().filter_map(Comparison::sentence).collect();
        let mixed = findings::other_machines(record);
        let mut findings: Vec<Finding> = mixed.iter().cloned().collect();
        findings.extend(findings::incomplete(record));
        findings.extend(findings::repeated(record));
        findings.extend(findings::another_bakeoff(record));
        findings.extend(findings::degraded(record));
        findings.extend(durability::findings(record));
        let fairness = fairness::sheet(record, &comparisons);
        let method = method::answers(record, &fairness);
        let unequal = fairness.findings.iter().cloned();
        findings.extend(unequal.map(|text| Finding::of_run(findings::Cause::Unequal, text)));
        findings.extend(comparisons.iter().flat_map(findings::findings));
        sentences.extend(sentences::together(&comparisons));
        let run: Vec<&Comparison> = comparisons.iter().filter(|one| one.was_run()).collect();
        let mut summary = leader::summary(&run);
        let scale = sentences::scale(&record.header.study);
        let has_question = record.header.study.question.is_some();
        let mut headline = headline::headline(&comparisons, has_question, scale);
        let mut conclusion = run.first().map_or_else(Vec::new, |one| conclusion::conclusion(one));
        let contests = || run.iter().map(|one| &***one);
        let broken = Contest::broken_guarantees(contests());
        let violations = Contest::violations(contests()).into_iter().filter_map(|one| {
            let (number, shown) = one.violation.as_ref()?;
            Some(Drawing::new(shown, &format!("{}, trial {number:02}: ", one.system)))
        });
        let violations = violations.collect();
        // A gate has its own rules. Its run has one verdict in every format.
        if let Some(verdict) = RunComparison::gate(record).ok().and_then(|gate| gate.verdict()) {
            (sentences, summary) = (vec![verdict.clone()], vec![verdict.clone()]);
            headline = Headline { verdict: format!("{verdict}."), support: Vec::new() };
            conclusion.clear();
        }
        // No figure of such a run is that of one machine.
        if let Some(mixed) = mixed {
            let answer =
                std::mem::replace(&mut headline.verdict, format!("{}.", capitalized(&mixed.text)));
            headline.support.insert(0, answer);
            sentences.insert(0, mixed.text.clone());
            summary.insert(0, mixed.text);
        }
        let sentence = sentences::found(&record.header.study, &sentences).join(" ");
        Report {
            header: record.header.clone(),
            ended: record.end.as_ref().map(|end| end.ended.clone()),
            complete: record.is_complete(),
            answered_after: record.answered_after(),
            trials_run: record.trials.iter().filter(|trial| !trial.not_tried).count(),
            headline,
            conclusion: conclusion.iter().map(|line| format!("{}.", capitalized(line))).collect(),
            broken,
            violations,
            pictures: pictures(&comparisons, record.header.gate.is_some()),
            summary,
            comparisons,
            sentences,
            sentence,
            findings,
            fairness,
            method,
        }
    }

    /// Returns the workload and load that carries the study's question, or the first that ran.
    pub(crate) fn deciding(&self) -> Option<&Comparison> {
        self.comparisons.iter().find(|one| one.was_run())
    }

    /// Returns the findings in one paragraph: a sentence for each workload and load. Includes the scale if the study
    /// was scaled.
    pub fn sentence(&self) -> &str {
        &self.sentence
    }

    /// Returns the answer that every format begins with, and the sentences that support it.
    pub fn answer(&self) -> Vec<String> {
        let verdict = std::iter::once(&self.headline.verdict);
        verdict.chain(&self.headline.support).cloned().collect()
    }

    /// Returns a summary of the run in a few sentences. Includes the scale if the study was scaled.
    pub fn summary(&self) -> Vec<String> {
        sentences::summary(&self.header.study, &self.summary)
    }

    /// Returns warnings to read before any figure: an incomplete run, differences that may decide, mostly failed
    /// systems, failed audits, invalid trials. They are clauses without full stops; usually there are none.
    pub fn findings(&self) -> Vec<String> {
        self.findings.iter().map(|finding| finding.text.clone()).collect()
    }

    /// Returns the fairness sheet: differences between the systems besides the product.
    pub fn fairness(&self) -> &fairness::Sheet {
        &self.fairness
    }

    /// Returns which published rules for measurements the run meets, in the order of [`method::DEMANDS`].
    pub fn method(&self) -> &[method::Assessment] {
        &self.method
    }

    /// Returns the machine baseline, if it was measured.
    pub fn machine_baseline(&self) -> Option<&MachineBaseline> {
        self.header.environment.machine_baseline.as_ref()
    }

    /// Returns each system's share of the machine baseline, stage by stage, under this workload and load. Empty if no
    /// baseline applies.
    pub fn bounds(&self, workload: &str, load: &str) -> Vec<machine_baseline::BaselineShare> {
        let here = |of: &&Comparison| of.workload.name == workload && of.load.name == load;
        self.comparisons
            .iter()
            .find(here)
            .map_or_else(Vec::new, |one| machine_baseline::bounds(one, one.limits.as_ref()))
    }
}
