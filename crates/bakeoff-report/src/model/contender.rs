//! One system under one workload and load: its trials, combined.
//!
//! Only valid trials are combined. Invalid ones are kept with their reasons, to be shown but never used.
//!
//! Not here: all systems together (`contest`), differences between them (`derive::judgement`).

use std::collections::BTreeMap;
use std::fmt;

use bakeoff_core::check::{CheckName, Verdict};
use bakeoff_core::measurement::{ErrorKind, STOOD_STILL_MIN};
use bakeoff_core::plan;
use bakeoff_core::record::{Record, SystemRecord, TrialRecord};
use bakeoff_core::search::{ABRUPT, FoundRate, TriedRate, far_below};
use bakeoff_core::stats::{self, Figure, Summary};
use bakeoff_core::study::{Load, Operation, Workload};
use bakeoff_core::units::{rate_text, share_text, trials_text};

use crate::model::contradictions;
use crate::model::guarantees::{self, BrokenGuarantees};
use crate::model::quantity::{Aggregation, Quantity};
use crate::model::trial::TrialFigures;
use crate::model::watches::JudgedWatches;

/// Share of errors above which a report mentions them next to a rate.
const ERRORS_WORTH_SAYING: f64 = 0.01;
/// Share of errors from which a rate counts as a failure.
const MOSTLY_ERRORS: f64 = 0.5;

/// One system under one workload and load.
#[derive(Debug, Clone)]
pub(crate) struct Contender {
    pub(crate) system: String,
    /// Guarantees, nodes and parts, as recorded.
    pub(crate) is: SystemRecord,
    /// Index in the study, which sets its colour in all charts.
    pub(crate) look: usize,
    /// True if it ran next to other work (`--shared-machine`).
    pub(crate) on_shared_machine: bool,
    /// Number of planned trials.
    pub(crate) planned: usize,
    /// All trials that ran or were skipped, in order.
    pub(crate) trials: Vec<TrialFigures>,
    /// Published figures.
    pub(crate) published: BTreeMap<Quantity, f64>,
    /// Published figures of single operations of the mix.
    pub(crate) published_of: BTreeMap<(Operation, Quantity), f64>,
    /// Notes on the published figures.
    pub(crate) notes: Vec<String>,
    /// Guarantees that it broke in any trial of the run.
    pub(crate) broken: Option<BrokenGuarantees>,
    /// Evidence against the rate that its searches found.
    pub(crate) contradicted: Option<String>,
    /// Description of a latency far below the objective at the rate found.
    pub(crate) far_below: Option<String>,
}

impl Contender {
    pub(crate) fn valid(&self) -> impl Iterator<Item = &TrialFigures> {
        self.trials.iter().filter(|trial| trial.valid())
    }

    pub(crate) fn valid_count(&self) -> usize {
        self.valid().count()
    }

    /// Returns the number of its trials that ran, without skipped ones.
    pub(crate) fn run_count(&self) -> usize {
        self.trials.iter().filter(|trial| !trial.validity.not_tried).count()
    }

    /// Summarizes a quantity over the valid trials.
    pub(crate) fn summary(&self, quantity: Quantity) -> Summary {
        self.summary_of(quantity, None)
    }

    /// Summarizes a quantity of a stage, by index; of whole trials if `stage` is `None`.
    pub(crate) fn summary_of(&self, quantity: Quantity, stage: Option<usize>) -> Summary {
        stats::summary(self.valid().map(|trial| trial.of_stage(quantity, stage)))
    }

    /// Returns true if it fell behind the offered rate of an open load in any valid trial.
    pub(crate) fn fell_behind(&self) -> bool {
        self.valid().any(TrialFigures::fell_behind)
    }

    /// Returns the figure for tables.
    pub(crate) fn shown(&self, quantity: Quantity) -> Figure {
        self.shown_of(quantity, None)
    }

    /// Returns the figure of a stage, by index; of whole trials if `stage` is `None`.
    pub(crate) fn shown_of(&self, quantity: Quantity, stage: Option<usize>) -> Figure {
        combined(quantity, self.valid().map(|trial| trial.of_stage(quantity, stage)))
    }

    /// Returns the figure of one operation.
    pub(crate) fn operation(&self, name: &str, quantity: Quantity) -> Figure {
        let figure = |trial: &TrialFigures| {
            let of = trial.measured.operations.get(name).and_then(|figures| figures.get(&quantity));
            of.copied().unwrap_or(Figure::Absent)
        };
        combined(quantity, self.valid().map(figure))
    }

    /// Returns the figure of the `nth` stage (from 0) with this number of clients.
    pub(crate) fn stage(&self, clients: u32, nth: usize, quantity: Quantity) -> Figure {
        let figure = |trial: &TrialFigures| {
            let with = trial.measured.stages.iter().filter(|(stage, _)| *stage == clients);
            let figures = with.map(|(_, figures)| figures).nth(nth);
            figures.and_then(|of| of.get(&quantity)).copied().unwrap_or(Figure::Absent)
        };
        combined(quantity, self.valid().map(figure))
    }

    /// Returns the fewest operations of its valid trials, or of a stage of them; `None` if unknown.
    pub(crate) fn operations_min(&self, stage: Option<usize>) -> Option<u64> {
        let count = |trial: &TrialFigures| trial.of_stage(Quantity::Requests, stage).value();
        self.valid().filter_map(count).map(|count| count as u64).min()
    }

    /// Returns the share of failed operations, over its valid trials, or over all if none is valid.
    pub(crate) fn error_share(&self) -> Option<f64> {
        let all = self.valid_count() == 0;
        let sum = |quantity| -> f64 {
            let used = self.trials.iter().filter(|trial| all || trial.valid());
            used.map(|trial| trial.number_of(quantity)).sum()
        };
        let requests = sum(Quantity::Requests);
        (requests > 0.0).then(|| sum(Quantity::Errors) / requests)
    }

    /// Returns the share of errors if it must be mentioned next to the rate.
    pub(crate) fn errors_worth_saying(&self) -> Option<f64> {
        self.error_share().filter(|&share| share > ERRORS_WORTH_SAYING)
    }

    /// Returns the share of its verified reads that found no value; `None` without reads.
    pub(crate) fn miss_share(&self) -> Option<f64> {
        let sum = |quantity| -> f64 { self.valid().map(|trial| trial.number_of(quantity)).sum() };
        let (hits, misses) = (sum(Quantity::Hits), sum(Quantity::Misses));
        (hits + misses > 0.0).then(|| misses / (hits + misses))
    }

    /// Returns the share of errors if it is so high that the rate counts as a failure.
    pub(crate) fn mostly_errors(&self) -> Option<f64> {
        self.error_share().filter(|&share| share >= MOSTLY_ERRORS)
    }

    /// Returns the verb for its unsuccessful operations.
    pub(crate) fn failed(&self) -> &'static str {
        let dropped = Quantity::ErrorsOf(ErrorKind::Dropped);
        let any = self.trials.iter().any(|trial| trial.number_of(dropped) > 0.0);
        if any { "failed or were dropped" } else { "failed" }
    }

    /// Returns the mean share of the window in which nothing succeeded, over its valid trials; `None` below
    /// [`STOOD_STILL_MIN`].
    pub(crate) fn stood_still(&self) -> Option<f64> {
        let sum: f64 = self.valid().map(|trial| trial.number_of(Quantity::StoodStill)).sum();
        Some(sum / self.valid_count().max(1) as f64).filter(|&share| share >= STOOD_STILL_MIN)
    }

    /// Returns that share if no other work on the machine can have caused it.
    pub(crate) fn stood_still_by_itself(&self) -> Option<f64> {
        self.stood_still().filter(|_| !self.on_shared_machine)
    }

    /// Returns how completely the writes of its valid trials were read back.
    pub(crate) fn audited(&self) -> AuditCoverage {
        let audits = || self.valid().flat_map(|trial| &trial.verdicts.audits);
        let lacking = self.valid().any(|trial| trial.verdicts.audits.is_empty());
        match (audits().any(|audit| audit.verdict.passed()), lacking) {
            (false, _) => AuditCoverage::No,
            (true, false) if audits().all(|audit| audit.verdict.passed()) => AuditCoverage::Fully,
            (true, _) => AuditCoverage::Partly,
        }
    }

    /// Returns how it kept the guarantees of its watches in all its trials, valid or not; `None` without watchers.
    pub(crate) fn watches(&self) -> Option<JudgedWatches> {
        let judged = self.trials.iter().filter_map(|trial| trial.verdicts.watches.clone());
        JudgedWatches::sum(judged)
    }

    /// Returns the number of its trials that failed an audit.
    pub(crate) fn audits_failed(&self) -> usize {
        let failed =
            |trial: &&TrialFigures| trial.verdicts.audits.iter().any(|a| a.verdict.failed());
        self.trials.iter().filter(failed).count()
    }

    /// Returns why it is not ranked; `None` if it is.
    pub(crate) fn left_out(&self, place: &str, no_rate: bool) -> Option<String> {
        let name = &self.system;
        if self.trials.is_empty() {
            return Some(format!("{name} did not run under {place}"));
        }
        if let Some(broken) = &self.broken {
            return Some(format!("{name} is not ranked: it {}", broken.text()));
        }
        if self.valid_count() == 0 {
            let first = self.trials[0].validity.invalid_because.join("; ");
            let more = if self.trials.len() > 1 { ", …" } else { "" };
            let (of, skipped) = (self.run_count(), self.trials.len() - self.run_count());
            let skipped = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
            let of = trials_text(of);
            return Some(format!("{name} has no valid trial ({of} run{skipped}: {first}{more})"));
        }
        if let Some(share) = self.mostly_errors() {
            let share = share_text(share);
            let failed = self.failed();
            return Some(format!("{name} is not ranked: {share} of its operations {failed}"));
        }
        if self.valid().all(|trial| matches!(trial.measured.found, Some(FoundRate::Nothing(_)))) {
            return Some(format!("{name} kept its objective at no rate under {place}"));
        }
        if let Some(why) = &self.contradicted {
            return Some(format!("{name}'s highest rate is not ranked: {why}"));
        }
        no_rate.then(|| format!("{name} has no rate: nothing was measured"))
    }
}

/// Completeness of the audits, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AuditCoverage {
    /// No audit took place.
    No,
    /// Some audits took place.
    Partly,
    /// All audits of all trials took place.
    Fully,
}

/// Combines the figures of several trials.
fn combined(quantity: Quantity, figures: impl Iterator<Item = Figure>) -> Figure {
    match quantity.combined() {
        Aggregation::Median => stats::summary(figures).median,
        Aggregation::Sum => figures.filter_map(Figure::value).reduce(|a, b| a + b).into(),
    }
}

/// Describes the last valid search with latencies far below the objective; `None` unless most searches had them.
fn found_far_below<'a>(
    trials: impl Iterator<Item = &'a TrialRecord>,
    load: &Load,
) -> Option<String> {
    let objective = load.find.as_ref()?.conditions().ok()?;
    let found = |trial: &TrialRecord| match trial.found {
        Some(FoundRate::Rate(rate)) if trial.invalid_because().is_empty() => Some(rate),
        _ => None,
    };
    let distances = |trial: &TrialRecord| {
        let (rate, broken) =
            (found(trial)?, trial.stages.iter().filter_map(|of| of.tried.as_ref()));
        let far = far_below(&objective, &*trial.measurement()?)?;
        let broken = TriedRate::broken_above(broken, rate).map(|broken| {
            let why = broken.broken_by.join("; ");
            format!(" ({} broke it: {why})", rate_text(broken.rate))
        });
        Some(format!("at {}, {far}: {ABRUPT}{}", rate_text(rate), broken.unwrap_or_default()))
    };
    let searched = trials.filter(|trial| found(trial).is_some());
    let distances: Vec<Option<String>> = searched.map(distances).collect();
    let all = distances.len();
    let mut far = distances.into_iter().flatten().collect::<Vec<_>>();
    if far.len() * 2 > all { far.pop() } else { None }
}

pub(super) fn contender(
    record: &Record,
    system: &str,
    look: usize,
    workload: &Workload,
    load: &Load,
) -> Contender {
    let here = |trial: &plan::Trial| {
        trial.system == system && trial.workload == workload.name && trial.load == load.name
    };
    let published = || {
        record.header.study.published.iter().filter(|one| {
            one.system == system && one.workload == workload.name && one.load == load.name
        })
    };
    let figures = published().filter(|one| one.fault.is_none());
    let mut notes: Vec<String> = figures.filter_map(|one| one.note.clone()).collect();
    notes.dedup();
    Contender {
        system: system.to_owned(),
        is: record
            .header
            .systems
            .iter()
            .find(|one| one.name == system)
            .cloned()
            .unwrap_or_default(),
        look,
        on_shared_machine: record.header.environment.shared_machine,
        broken: guarantees::broken(record, system),
        contradicted: contradictions::by(record, system, workload, load),
        far_below: found_far_below(record.trials.iter().filter(|one| here(&one.trial)), load),
        planned: record.header.order.iter().filter(|trial| here(trial)).count(),
        trials: record
            .trials
            .iter()
            .filter(|record| here(&record.trial))
            .map(|trial| TrialFigures::new(trial, workload, load, &record.header.study))
            .collect(),
        published: published()
            .filter(|one| one.operation.is_none())
            .filter_map(|one| Some((Quantity::of_metric(one.metric)?, one.value)))
            .collect(),
        published_of: published()
            .filter_map(|one| Some(((one.operation?, Quantity::of_metric(one.metric)?), one.value)))
            .collect(),
        notes,
    }
}

/// An audit, by its moment, or a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MissingVerdict {
    Audit(String),
    Check(CheckName),
}

impl fmt::Display for MissingVerdict {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Audit(when) => write!(to, "audit {when}"),
            Self::Check(name) => name.fmt(to),
        }
    }
}

/// Returns the unchecked audits and checks of these trials, each with the reason and the number of trials.
pub(crate) fn not_checked(trials: &[TrialFigures]) -> Vec<(MissingVerdict, String, usize)> {
    let mut found: Vec<(MissingVerdict, String, usize)> = Vec::new();
    for trial in trials {
        let audits = trial
            .verdicts
            .audits
            .iter()
            .map(|audit| (MissingVerdict::Audit(audit.when.clone()), &audit.verdict));
        let checks = trial
            .verdicts
            .checks
            .iter()
            .map(|check| (MissingVerdict::Check(check.name), &check.verdict));
        for (name, verdict) in audits.chain(checks) {
            let Verdict::NotChecked(why) = verdict else { continue };
            match found.iter_mut().find(|(n, w, _)| *n == name && w == why) {
                Some((_, _, count)) => *count += 1,
                None => found.push((name, why.clone(), 1)),
            }
        }
    }
    found
}
