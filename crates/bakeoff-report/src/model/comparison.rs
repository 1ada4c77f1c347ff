//! One workload under one load: every system's trials, combined.
//!
//! Only valid trials are combined. The others are kept beside them with their reasons, to be shown
//! and never used.
//!
//! Not here: words (`words`), rows and columns (`tables`).

use std::collections::BTreeMap;

use bakeoff_core::check::{Cause, Verdict};
use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::plan;
use bakeoff_core::record::Record;
use bakeoff_core::search::Found;
use bakeoff_core::stats::{self, Figure, Summary};
use bakeoff_core::study::{Clusters, Load, Operation, Study, System, Workload};
use bakeoff_core::units::{share_text, trials_text};
use bakeoff_core::workload::mix64;

use crate::derive::judgement::{Judgement, LedBy};
use crate::derive::machine_baseline::Limits;
use crate::derive::position::Position;
use crate::model::contradicted;
use crate::model::figures::{self, Combined, Quantity};
pub(crate) use crate::model::trial::TrialFigures;

/// More errors than this share of all operations must be said wherever a rate is praised.
const ERRORS_WORTH_SAYING: f64 = 0.01;
/// From this share on the operations failed, and the rate is none.
const MOSTLY_ERRORS: f64 = 0.5;

/// All systems under one workload and one load.
#[derive(Debug, Clone)]
pub(crate) struct Comparison {
    pub(crate) workload: Workload,
    pub(crate) load: Load,
    pub(crate) contenders: Vec<Contender>,
    /// How they compare, figure by figure and pair by pair; empty where fewer than two take part.
    pub(crate) judgements: Vec<Judgement>,
    /// What the machine itself can do, where that bears on it.
    pub(crate) limits: Option<Limits>,
    /// Whether the place within a round mattered; `None` where that cannot be told.
    pub(crate) position: Option<Position>,
    /// The systems whose trials all ran on the same servers: kept ones, or those at endpoints.
    same_servers: Vec<String>,
}

/// One system there.
#[derive(Debug, Clone)]
pub(crate) struct Contender {
    pub(crate) system: String,
    /// Its place in the study, which is drawn alike everywhere.
    pub(crate) look: usize,
    /// Trials that the run was to have.
    pub(crate) planned: usize,
    /// All that were run, in order.
    pub(crate) trials: Vec<TrialFigures>,
    /// Figures from the literature.
    pub(crate) published: BTreeMap<Quantity, f64>,
    /// The same for single operations of the mix.
    pub(crate) published_of: BTreeMap<(Operation, Quantity), f64>,
    /// What the literature says of them.
    pub(crate) notes: Vec<String>,
    /// What contradicts the rate that its searches found.
    pub(crate) contradicted: Option<String>,
}

impl Contender {
    pub(crate) fn valid(&self) -> impl Iterator<Item = &TrialFigures> {
        self.trials.iter().filter(|trial| trial.valid())
    }

    pub(crate) fn valid_count(&self) -> usize {
        self.valid().count()
    }

    /// One quantity over the valid trials.
    pub(crate) fn summary(&self, quantity: Quantity) -> Summary {
        self.summary_of(quantity, None)
    }

    /// The same of a stage, by its place; of whole trials where there is none.
    pub(crate) fn summary_of(&self, quantity: Quantity, stage: Option<usize>) -> Summary {
        stats::summary(self.valid().map(|trial| trial.of_stage(quantity, stage)))
    }

    /// Returns whether it fell behind what an open load offered, in any valid trial.
    pub(crate) fn fell_behind(&self) -> bool {
        self.valid().any(TrialFigures::fell_behind)
    }

    /// What a table shows for it.
    pub(crate) fn shown(&self, quantity: Quantity) -> Figure {
        self.shown_of(quantity, None)
    }

    /// The same of a stage, by its place; of whole trials where there is none.
    pub(crate) fn shown_of(&self, quantity: Quantity, stage: Option<usize>) -> Figure {
        combined(quantity, self.valid().map(|trial| trial.of_stage(quantity, stage)))
    }

    /// The same for one operation.
    pub(crate) fn operation(&self, name: &str, quantity: Quantity) -> Figure {
        let figure = |trial: &TrialFigures| {
            let of = trial.operations.get(name).and_then(|figures| figures.get(&quantity));
            of.copied().unwrap_or(Figure::Absent)
        };
        combined(quantity, self.valid().map(figure))
    }

    /// The same for the `nth` stage (from 0) with this number of clients.
    pub(crate) fn stage(&self, clients: u32, nth: usize, quantity: Quantity) -> Figure {
        let figure = |trial: &TrialFigures| {
            let with = trial.stages.iter().filter(|(stage, _)| *stage == clients);
            let figures = with.map(|(_, figures)| figures).nth(nth);
            figures.and_then(|of| of.get(&quantity)).copied().unwrap_or(Figure::Absent)
        };
        combined(quantity, self.valid().map(figure))
    }

    /// The part of all operations that failed: of its valid trials, or of all where none is valid.
    pub(crate) fn error_share(&self) -> Option<f64> {
        let all = self.valid_count() == 0;
        let sum = |quantity| -> f64 {
            let used = self.trials.iter().filter(|trial| all || trial.valid());
            used.map(|trial| trial.number_of(quantity)).sum()
        };
        let requests = sum(Quantity::Requests);
        (requests > 0.0).then(|| sum(Quantity::Errors) / requests)
    }

    /// Returns whether errors must be said beside its rate.
    pub(crate) fn errors_worth_saying(&self) -> Option<f64> {
        self.error_share().filter(|&share| share > ERRORS_WORTH_SAYING)
    }

    /// Returns whether its rate is no success.
    pub(crate) fn mostly_errors(&self) -> Option<f64> {
        self.error_share().filter(|&share| share >= MOSTLY_ERRORS)
    }

    /// What became of the operations that were no successes.
    pub(crate) fn failed(&self) -> &'static str {
        let dropped = Quantity::ErrorsOf(ErrorKind::Dropped);
        let any = self.trials.iter().any(|trial| trial.number_of(dropped) > 0.0);
        if any { "failed or were dropped" } else { "failed" }
    }

    /// Returns how many of its trials failed an audit.
    pub(crate) fn audits_failed(&self) -> usize {
        let failed = |trial: &&TrialFigures| trial.audits.iter().any(|a| a.verdict.failed());
        self.trials.iter().filter(failed).count()
    }

    /// Answers that were wrong or too old, in all its trials.
    fn untrue_answers(&self) -> f64 {
        let kinds = [ErrorKind::WrongValue, ErrorKind::StaleValue].map(Quantity::ErrorsOf);
        let one =
            |trial: &TrialFigures| kinds.iter().map(|kind| trial.number_of(*kind)).sum::<f64>();
        self.trials.iter().map(one).sum()
    }

    /// Returns what the sentence must know of it; `of` is where, and `compared` what it compares.
    fn for_the_sentence(
        &self,
        of: &Comparison,
        compared: Quantity,
        place: &str,
    ) -> stats::Contender {
        let name = &self.system;
        let rates: Vec<f64> = self.valid().filter_map(|t| t.get(compared).value()).collect();
        let mut caveats = Vec::new();
        if let Some(share) = self.errors_worth_saying() {
            let failed = self.failed();
            caveats.push(format!("{} of {name}'s operations {failed}", share_text(share)));
        }
        if self.untrue_answers() > 0.0 {
            caveats.push(format!("{name} gave wrong or stale answers"));
        }
        // Over the stages of a sweep it would mix few clients' with many's.
        let p99 = match self.shown(P99) {
            Figure::Absent => None,
            _ if of.load.clients.len() > 1 => None,
            figure => Some(P99.text(figure)),
        };
        stats::Contender {
            name: name.clone(),
            kept_up: of.is_open()
                && compared == Quantity::ThroughputMean
                && !rates.is_empty()
                && self.valid().all(TrialFigures::kept_up),
            left_out: self.left_out(place, rates.is_empty()),
            failed: self.own_failures(),
            rates,
            p99,
            caveats,
        }
    }

    /// Returns which of its trials failed through its own doing, and how, as a clause.
    fn own_failures(&self) -> Option<String> {
        let own: Vec<&TrialFigures> =
            self.trials.iter().filter(|trial| trial.cause == Some(Cause::System)).collect();
        let first = own.first()?.invalid_because.first()?;
        let how = if own.len() == self.audits_failed() {
            "failed an audit".to_owned()
        } else {
            let how = first.split_once("; ").map_or(first.as_str(), |(how, _)| how);
            let more = if own.len() > 1 { ", …" } else { "" };
            format!("failed through its own doing ({how}{more})")
        };
        let (name, of) = (&self.system, trials_text(self.trials.len()));
        Some(format!("{} of {name}'s {of} {how}", own.len()))
    }

    /// Why it is not ranked, if it is not.
    pub(crate) fn left_out(&self, place: &str, no_rate: bool) -> Option<String> {
        let name = &self.system;
        if self.trials.is_empty() {
            return Some(format!("{name} was not run under {place}"));
        }
        if self.valid_count() == 0 {
            let first = self.trials[0].invalid_because.join("; ");
            let more = if self.trials.len() > 1 { ", …" } else { "" };
            let of = trials_text(self.trials.len());
            return Some(format!("{name} has no valid trial ({of} run: {first}{more})"));
        }
        if let Some(share) = self.mostly_errors() {
            let share = share_text(share);
            let failed = self.failed();
            return Some(format!("{name} is not ranked, as {share} of its operations {failed}"));
        }
        if self.valid().all(|trial| matches!(trial.found, Some(Found::Nothing(_)))) {
            return Some(format!("{name} kept its objective under {place} at no rate"));
        }
        if let Some(why) = &self.contradicted {
            return Some(format!("{name}'s highest rate is not ranked: {why}"));
        }
        no_rate.then(|| format!("{name} has no rate, as nothing was measured"))
    }
}

const P99: Quantity = Quantity::Response(figures::Point::P99);

/// The figures of several trials as one.
fn combined(quantity: Quantity, figures: impl Iterator<Item = Figure>) -> Figure {
    match quantity.combined() {
        Combined::Median => stats::summary(figures).median,
        Combined::Sum => figures.filter_map(Figure::value).reduce(|a, b| a + b).into(),
    }
}

impl Comparison {
    /// Every workload under each of its loads, in the study's order.
    pub(crate) fn all(record: &Record) -> Vec<Self> {
        let mut all = Self::unjudged(record);
        for (place, one) in (0..).zip(&mut all) {
            one.judgements = one.judged(mix64(record.header.seed ^ place));
            one.limits = Limits::from_record(record, one);
        }
        let mut judgements: Vec<&mut Judgement> =
            all.iter_mut().flat_map(|one| &mut one.judgements).collect();
        Judgement::hold_in_report(&mut judgements);
        let count = all.len();
        for one in &mut all {
            one.position = Position::judge(one, count);
        }
        all
    }

    /// The same for whom figures are enough: its systems are not compared with each other.
    pub(crate) fn unjudged(record: &Record) -> Vec<Self> {
        let study = &record.header.study;
        let mut all = Vec::new();
        for workload in &study.workloads {
            for load in study.loads.iter().filter(|load| workload.loads.contains(&load.name)) {
                let systems = study.systems.iter().enumerate();
                let put_to_it = systems.filter(|(_, system)| workload.is_done_by(system));
                let one = Self {
                    contenders: put_to_it
                        .map(|(look, system)| contender(record, &system.name, look, workload, load))
                        .collect(),
                    judgements: Vec::new(),
                    workload: workload.clone(),
                    load: load.clone(),
                    limits: None,
                    position: None,
                    same_servers: same_servers(study, workload),
                };
                all.push(one);
            }
        }
        all
    }

    /// `create/steady`.
    pub(crate) fn place(&self) -> String {
        format!("{}/{}", self.workload.name, self.load.name)
    }

    pub(crate) fn is_open(&self) -> bool {
        plan::load_kind(&self.load) == "open"
    }

    /// What its systems are compared by.
    pub(crate) fn compared(&self) -> Quantity {
        match self.load.find {
            Some(_) => Quantity::HighestRate,
            None => Quantity::ThroughputMean,
        }
    }

    /// `puts` where clients do nothing else, or `operations`.
    fn counted(&self) -> &'static str {
        match self.workload.mix.keys().collect::<Vec<_>>().as_slice() {
            [Operation::Put] => "puts",
            [Operation::Get] => "gets",
            [Operation::Delete] => "deletes",
            [Operation::List] => "lists",
            _ => "operations",
        }
    }

    /// What was found, in a sentence without its full stop; `None` when no trial was run.
    pub(crate) fn sentence(&self) -> Option<String> {
        if !self.was_run() {
            return None;
        }
        let place = self.place();
        let compared = self.compared();
        let contenders = self.contenders.iter();
        let contenders: Vec<_> =
            contenders.map(|one| one.for_the_sentence(self, compared, &place)).collect();
        let judged = |a: usize, b: usize| {
            let (a, b) = (&self.contenders[a].system, &self.contenders[b].system);
            let of_this = self
                .judgements
                .iter()
                .filter(|one| one.quantity == compared && one.stage.is_none());
            of_this.filter_map(|one| one.comparing(a, b)).next()
        };
        let wording = match &self.load.find {
            Some(find) => stats::sentence_of_rates(&find.text(), &place, &contenders, &judged),
            None => stats::sentence(self.counted(), &place, self.is_open(), &contenders, &judged),
        };
        Some(match self.of_these_servers() {
            Some(limited) => format!("{wording}; {limited}"),
            None => wording,
        })
    }

    /// That trials on the same servers repeat what is so of these, in a clause: how they were placed, how
    /// their data lies, which of several equal ways they took at their start.
    pub(crate) fn of_these_servers(&self) -> Option<String> {
        let names: Vec<&str> = self.same_servers.iter().map(String::as_str).collect();
        match names[..] {
            [] => None,
            [name] => Some(format!(
                "all trials of {name} ran on the same servers: its figures are about these and may not \
                 be the product's"
            )),
            _ => Some(format!(
                "all trials of {} ran on the same servers each: their figures are about these and may \
                 not be the products'",
                stats::and(&names)
            )),
        }
    }

    /// Returns how those that are ranked compare.
    fn judged(&self, seed: u64) -> Vec<Judgement> {
        let (place, open) = (self.place(), self.is_open());
        let compared = self.compared();
        let has_rate = |one: &&Contender| one.shown(compared) != Figure::Absent;
        let ranked: Vec<&Contender> = self
            .contenders
            .iter()
            .filter(|one| has_rate(one) && one.left_out(&place, false).is_none())
            .collect();
        let for_what = match self.load.find {
            Some(_) => LedBy::HighestRate,
            None if open && ranked.iter().all(|one| one.valid().all(TrialFigures::kept_up)) => {
                LedBy::Response
            }
            None => LedBy::Throughput,
        };
        Judgement::all(&ranked, for_what, &self.load, seed)
    }

    /// Returns whether any trial of it was run.
    pub(crate) fn was_run(&self) -> bool {
        self.contenders.iter().any(|one| !one.trials.is_empty())
    }

    /// Returns whether clients read.
    pub(crate) fn reads(&self) -> bool {
        self.workload.reads_any()
    }

    /// Returns whether clients write, so that there is something to audit.
    pub(crate) fn writes(&self) -> bool {
        self.workload.writes()
    }
}

/// The systems of which no trial had servers of its own.
fn same_servers(study: &Study, workload: &Workload) -> Vec<String> {
    let put_to_it = study.systems.iter().filter(|system| workload.is_done_by(system));
    let same = |system: &&System| !system.is_started() || study.clusters == Clusters::Kept;
    put_to_it.filter(same).map(|system| system.name.clone()).collect()
}

fn contender(
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
    let mut notes: Vec<String> = published().filter_map(|one| one.note.clone()).collect();
    notes.dedup();
    Contender {
        system: system.to_owned(),
        look,
        contradicted: contradicted::by(record, system, workload, load),
        planned: record.header.order.iter().filter(|trial| here(trial)).count(),
        trials: record
            .trials
            .iter()
            .filter(|record| here(&record.trial))
            .map(|trial| {
                let asked = record.header.study.systems.iter().find(|one| one.name == system);
                TrialFigures::new(trial, load, asked)
            })
            .collect(),
        published: published()
            .filter(|one| one.operation.is_none())
            .map(|one| (Quantity::of_metric(one.metric), one.value))
            .collect(),
        published_of: published()
            .filter_map(|one| Some(((one.operation?, Quantity::of_metric(one.metric)), one.value)))
            .collect(),
        notes,
    }
}

/// What was not checked in these trials: what, why, and in how many.
pub(crate) fn not_checked(trials: &[TrialFigures]) -> Vec<(String, String, usize)> {
    let mut found: Vec<(String, String, usize)> = Vec::new();
    for trial in trials {
        let audits =
            trial.audits.iter().map(|audit| (format!("audit {}", audit.when), &audit.verdict));
        let checks = trial.checks.iter().map(|check| (check.name.to_string(), &check.verdict));
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
