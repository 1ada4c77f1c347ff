//! Compares two runs: the changes of each system under each workload and load, and whether they exceed chance.
//!
//! The statistics are those within a run, with two differences. Trials of two runs share no rounds, and differ by
//! everything that varies between runs. A change is therefore proven only if further runs show how much that is. And
//! intervals are compared with limits, so all intervals of a family hold together. A family is one workload under one
//! load: every system that both runs have, and every shown figure.
//!
//! Not here: conditions on changes (`fail_if`), two builds in one run (`gate`), many runs (`trend`), the spread between
//! runs (`runs`), texts of reasons (`not_judged`), rendering (`render::compared`), the statistics (`stats::judge`).

mod differences;
pub(crate) mod fail_if;
mod gate;
pub(crate) mod not_judged;
mod runs;
pub(crate) mod trend;

use bakeoff_core::record::{Gate, Record, RunHeader};
use bakeoff_core::stats::gate::{Shortfall, SlowTrials};
use bakeoff_core::stats::judge::{self, Correction, Finding, Question, Scale, TestResult, Trials};
use bakeoff_core::stats::rounds::Preference;
use bakeoff_core::stats::{FEW_FROM, Figure, Summary, TOO_FEW, TRIALS_MIN};
use serde_json::Value;

use crate::derive::conditions::lesser_guarantees;
use crate::derive::durability;
use crate::derive::judgement::{self, JUDGED, better, clients, label, subjects};
use crate::derive::nodes;
use crate::model::contender::Contender;
use crate::model::contest::Contest;
use crate::model::quantity::Quantity;

pub use fail_if::{FailIf, FailIfOutcome};
pub use gate::{GateError, GateOutcome};
pub use runs::{is_of_the_same_study, is_same_machine};
pub use trend::{LeftOut, Trend, TrendRun};

use differences::unlike;
use fail_if::signed;
use not_judged::{NotJudged, Side, UnprovenReason};
use runs::{FigureQuery, RunSpread};

/// Two compared runs.
#[derive(Debug, Clone)]
pub struct RunComparison {
    pub(crate) base: String,
    pub(crate) new: String,
    /// Differences: parts that only one run has, or that are configured or done differently.
    pub(crate) differences: Vec<String>,
    /// Number of runs from which the spread between runs is known.
    pub(crate) runs: Option<usize>,
    /// Reason why nothing can be proven.
    pub(crate) unproven: Option<UnprovenReason>,
    pub(crate) sections: Vec<Section>,
    /// Conditions on changes with their outcomes, in order.
    pub(crate) outcomes: Vec<(String, FailIfOutcome)>,
    /// The gate's settings, if both are builds of a system in one run.
    pub(crate) gate: Option<Gate>,
    /// True if trials of a gate are invalid for another reason than the machine.
    pub(crate) own_failures: bool,
    /// Guarantees and checks that favour the new one, as clauses.
    pub(crate) weaker: Vec<String>,
    /// Guarantees that a gate's builds broke, a sentence each.
    pub(crate) broken: Vec<String>,
    /// Fewest rounds of a judged ratio of a gate.
    pub(crate) fewest_rounds: Option<usize>,
    /// Rounds that a gate lacks.
    pub(crate) shortfall: Option<Shortfall>,
}

/// One workload under one load.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub(crate) place: String,
    pub(crate) load_kind: &'static str,
    /// Kind of load: `closed load, 64 clients`.
    pub(crate) load: String,
    pub(crate) family: usize,
    pub(crate) changes: Vec<Change>,
}

/// One figure of one system.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) system: String,
    pub(crate) quantity: Quantity,
    /// Clients in the stage of a sweep; `None` for the whole load.
    pub(crate) clients: Option<u32>,
    pub(crate) base: Summary,
    pub(crate) new: Summary,
    /// Ratio of the new median to the base's, or their difference, if both have one.
    pub(crate) ratio: Option<f64>,
    /// Result for the new run relative to the base; `None` if it cannot be judged.
    pub(crate) answer: Option<TestResult>,
    /// Reason why it is not judged.
    pub(crate) why_not: Option<NotJudged>,
    /// Trials of a gate that would answer, if those that ran do not.
    more_trials: Option<gate::MoreTrials>,
    /// Slow trials of a gate's new build that the base's do not explain.
    pub(crate) slow: Option<SlowTrials>,
}

impl RunComparison {
    /// Compares `new` with `base` and evaluates the conditions. `known`: further runs; those of the base's study on the
    /// same machine show the spread between runs.
    pub fn new(base: &Record, new: &Record, known: &[Record], conditions: &[FailIf]) -> Self {
        let (base, new) = (&*durability::lowered(base), &*durability::lowered(new));
        let (before, after) = (Contest::all(base), Contest::all(new));
        let between = RunSpread::new(base, new, known);
        let mut sections = Vec::new();
        let mut weaker: Vec<String> = Vec::new();
        for ours in &after {
            let Some(theirs) = before.iter().find(|one| one.place() == ours.place()) else {
                continue;
            };
            sections.push(Section::new(theirs, ours, &between, conditions));
            for new in &ours.contenders {
                let base = theirs.contenders.iter().find(|one| one.system == new.system);
                let name = format!("{} in the new run", new.system);
                weaker
                    .extend(base.iter().flat_map(|base| lesser_guarantees(new, base, ours, &name)));
            }
        }
        weaker.sort_unstable();
        weaker.dedup();
        let mut found = differences(["base run", "new run"], base, new, &before, &after);
        found.splice(0..0, weaker.iter().cloned());
        let broken = [("base run", &before), ("new run", &after)].map(|(run, contests)| {
            let all = Contest::broken_guarantees(contests.iter()).into_iter();
            all.map(|one| format!("{run}: {one}")).collect::<Vec<_>>()
        });
        found.splice(0..0, broken.concat());
        let mut compared = Self {
            base: named(base),
            new: named(new),
            differences: found,
            runs: between.runs(),
            unproven: match between {
                RunSpread::Unknown(why) => Some(why),
                RunSpread::OneRun | RunSpread::Runs(_) => None,
            },
            sections,
            outcomes: Vec::new(),
            gate: None,
            own_failures: false,
            broken: Vec::new(),
            weaker,
            fewest_rounds: None,
            shortfall: None,
        };
        compared.outcomes =
            conditions.iter().map(|one| (one.to_string(), one.ask(&compared))).collect();
        compared
    }

    /// Returns the outcome of each condition, in the order in which they were given.
    pub fn outcomes(&self) -> &[(String, FailIfOutcome)] {
        &self.outcomes
    }

    /// Returns the confidence of the intervals: `95 %`.
    pub(crate) fn confidence_text(&self) -> &'static str {
        match self.gate {
            None => "95 %",
            Some(_) => gate::CONFIDENCE,
        }
    }

    /// Returns how far a change may exceed its limit without having to be ruled out.
    fn slack(&self, scale: Scale) -> f64 {
        match (&self.gate, scale) {
            (None, _) => 0.0,
            (Some(gate), Scale::Ratio) => gate.detect,
            (Some(_), Scale::Points) => gate::ERRORS_SLACK,
        }
    }

    fn changes(&self) -> impl Iterator<Item = (&Section, &Change)> {
        self.sections
            .iter()
            .flat_map(|section| section.changes.iter().map(move |change| (section, change)))
    }
}

impl Section {
    fn new(base: &Contest, new: &Contest, between: &RunSpread, conditions: &[FailIf]) -> Self {
        let (place, compared) = (new.place(), new.compared());
        let (base_load, new_load) = (&base.load, &new.load);
        let mut changes = Vec::new();
        let mut questions = Vec::new();
        for ours in &new.contenders {
            let Some(theirs) = base.contenders.iter().find(|one| one.system == ours.system) else {
                continue;
            };
            let asked: Vec<Quantity> = conditions
                .iter()
                .filter(|one| one.is_about(&place, &ours.system))
                .map(FailIf::quantity)
                .collect();
            let more = asked.iter().copied().filter(|quantity| !JUDGED.contains(quantity));
            let mut quantities: Vec<Quantity> = JUDGED.into_iter().chain(more).collect();
            quantities.sort_unstable();
            quantities.dedup();
            // In a search, each run's times belong to its own rate.
            quantities.retain(|quantity| {
                asked.contains(quantity)
                    || compared != Quantity::HighestRate
                    || !is_at_own_rate(*quantity)
            });
            // Sums over halves at different speeds are shown only as not judged, and only if a condition asks for them.
            let split = new.is_split() || base.is_split();
            quantities.retain(|one| asked.contains(one) || !split || !one.mixes_halves());
            let stages = base_load.clients.len().max(new_load.clients.len());
            let subjects = quantities.into_iter().flat_map(|quantity| subjects(quantity, stages));
            for judgement::Subject { quantity, stage } in subjects {
                let (base, new) =
                    (theirs.summary_of(quantity, stage), ours.summary_of(quantity, stage));
                if base.trials == 0 && new.trials == 0 && !asked.contains(&quantity) {
                    continue;
                }
                let scale = scale(quantity);
                let subject = Subject { quantity, stage, scale };
                let with = stage.map(|stage| {
                    (clients(base_load, theirs, stage), clients(new_load, ours, stage))
                });
                let figures = refuse_mixed(split && quantity.mixes_halves())
                    .and_then(|()| same_clients(with))
                    .and_then(|()| same_memory(quantity, theirs, ours))
                    .and_then(|()| figures(theirs, subject, Side::BaseRun))
                    .and_then(|base| Ok((figures(ours, subject, Side::NewRun)?, base)));
                let medians = (new.median.value(), base.median.value());
                let ratio = match (&figures, medians) {
                    (Ok(_), (Some(new), Some(base))) => Some(scale.between(new, base)),
                    _ => None,
                };
                let asked_of = FigureQuery { place: &place, system: &ours.system, subject };
                let trials = figures.and_then(|(new, base)| match new.len().min(base.len()) {
                    // Too few trials is the reason to report, whatever is known of other runs.
                    few if few < TRIALS_MIN => Ok(Trials::Apart(new, base)),
                    _ => between.trials(asked_of, new, base),
                });
                let (trials, why_not) = match trials {
                    Ok(trials) => (trials, None),
                    Err(why) => (Trials::Apart(Vec::new(), Vec::new()), Some(why)),
                };
                // The figures of conditions lead; without conditions, that of the load.
                let leading = match conditions {
                    [] => {
                        let halves = matches!(quantity, Quantity::ThroughputOf(_));
                        (quantity == compared || halves) && stage.is_none()
                    }
                    _ => asked.contains(&quantity),
                };
                questions.push(Question { trials, leading, scale });
                let system = ours.system.clone();
                changes.push(Change {
                    system,
                    quantity,
                    clients: with.map(|(_, new)| new),
                    base,
                    new,
                    ratio,
                    answer: None,
                    why_not,
                    more_trials: None,
                    slow: None,
                });
            }
        }
        let answers = judge::judge(&questions, Correction::AtOnce);
        let family = answers.iter().flatten().count();
        for (change, answer) in changes.iter_mut().zip(answers) {
            if answer.is_none() && change.why_not.is_none() {
                change.why_not = Some(NotJudged::TooFewTrials {
                    base: change.base.trials,
                    new: change.new.trials,
                });
            }
            change.answer = answer;
        }
        let load_kind = bakeoff_core::plan::load_kind(&new.load);
        Self { place, load_kind, load: new.load_text(), family, changes }
    }
}

/// Returns true if each run of a search has this figure at its own rate.
fn is_at_own_rate(quantity: Quantity) -> bool {
    matches!(
        quantity,
        Quantity::Response(_)
            | Quantity::ResponseOf(..)
            | Quantity::ThroughputOf(_)
            | Quantity::Watch(_)
    )
}

/// Returns the scale of a figure. Errors may be 0, so they are compared as shares.
pub(crate) fn scale(quantity: Quantity) -> Scale {
    if quantity == Quantity::ErrorShare { Scale::Points } else { Scale::Ratio }
}

/// A compared figure.
#[derive(Debug, Clone, Copy)]
struct Subject {
    quantity: Quantity,
    /// Index of the stage of a sweep; `None` for the whole load.
    stage: Option<usize>,
    scale: Scale,
}

/// Rejects a figure that mixes writes and reads at different speeds.
fn refuse_mixed(mixes_halves: bool) -> Result<(), NotJudged> {
    if mixes_halves { Err(NotJudged::MixesHalves) } else { Ok(()) }
}

/// Rejects a stage with different clients in the two runs.
fn same_clients(base_and_new: Option<(u32, u32)>) -> Result<(), NotJudged> {
    match base_and_new {
        Some((base, new)) if base != new => Err(NotJudged::OtherClients(base)),
        _ => Ok(()),
    }
}

/// Rejects a comparison of proportional with resident memory.
fn same_memory(quantity: Quantity, base: &Contender, new: &Contender) -> Result<(), NotJudged> {
    nodes::other_memory(quantity, base, new).map_or(Ok(()), |of| Err(NotJudged::OtherMemory(of)))
}

/// Returns the figures of a system's valid trials. The error says why they are not comparable.
fn figures(of: &Contender, subject: Subject, side: Side) -> Result<Vec<f64>, NotJudged> {
    let Subject { quantity, stage, scale } = subject;
    if let Some(share) = of.mostly_errors().filter(|_| quantity != Quantity::ErrorShare) {
        return Err(NotJudged::MostlyFailed { side, share });
    }
    let mut figures = Vec::new();
    for trial in of.valid() {
        let figure = trial.of_stage(quantity, stage);
        if let Some(why) = figure.incomparable() {
            return Err(NotJudged::Incomparable { side, why });
        }
        match figure {
            Figure::Value(value) if value <= 0.0 && scale == Scale::Ratio => {
                return Err(NotJudged::Zero(side));
            }
            Figure::Value(value) => figures.push(value),
            _ => {}
        }
    }
    Ok(figures)
}

impl Change {
    /// Returns the label of its row: `p99, 64 clients`.
    pub(crate) fn label(&self) -> String {
        label(self.quantity, self.clients)
    }

    /// Returns the change: a ratio minus one, or the difference of shares.
    pub(crate) fn change(&self) -> Option<f64> {
        Some(self.relative(self.ratio?))
    }

    /// Returns the interval of the change.
    pub(crate) fn interval(&self) -> Option<(f64, f64)> {
        let (low, high) = self.answer?.interval;
        Some((self.relative(low), self.relative(high)))
    }

    fn relative(&self, value: f64) -> f64 {
        match scale(self.quantity) {
            Scale::Ratio => value - 1.0,
            Scale::Points => value,
        }
    }

    /// Describes the slow trials of a gate's new build.
    fn slow_text(&self) -> Option<String> {
        self.slow.as_ref().map(|slow| gate::slow_text(slow, self.new.trials))
    }

    pub(crate) fn verdict(&self) -> &'static str {
        match self.answer.map(|answer| answer.finding) {
            None => "not judged",
            Some(Finding::Higher) => "higher",
            Some(Finding::Lower) => "lower",
            Some(Finding::NoneShown { .. }) => "none shown",
        }
    }

    /// Returns the minimum detectable effect, if no difference is shown.
    pub(crate) fn min_detectable(&self) -> Option<f64> {
        Some(self.relative(self.least()?))
    }

    /// Returns the minimum detectable effect as a loss: `-4.8 %` of a throughput, `+5.1 %` of a response time. `too few
    /// trials` stands for more than a tenfold one.
    pub(crate) fn min_detectable_text(&self) -> Option<String> {
        let (least, scale) = (self.least()?, scale(self.quantity));
        Some(match (scale, better(self.quantity)) {
            (Scale::Ratio, _) if least > FEW_FROM => TOO_FEW.to_owned(),
            (Scale::Ratio, Preference::More) => signed(self.relative(1.0 / least), scale),
            _ => signed(self.relative(least), scale),
        })
    }

    /// Returns the ratio above 1, or the difference, that would have been declared.
    fn least(&self) -> Option<f64> {
        match self.answer?.finding {
            Finding::NoneShown { min_detectable } => Some(min_detectable),
            Finding::Higher | Finding::Lower => None,
        }
    }
}

fn named(record: &Record) -> String {
    let header = &record.header;
    format!("{} of {}, bakeoff {}", header.study.name, header.started, header.bakeoff)
}

/// Returns the differences between two runs: other causes of a change than the product, and reasons why runs are not
/// comparable. `names`: how to call the runs, such as `base run`.
pub(crate) fn differences(
    names: [&str; 2],
    base: &Record,
    new: &Record,
    before: &[Contest],
    after: &[Contest],
) -> Vec<String> {
    let mut found = Vec::new();
    for (run, record) in names.into_iter().zip([base, new]) {
        if !record.is_complete() {
            found.push(format!("the {run} is incomplete"));
        }
    }
    for (run, comparisons) in names.into_iter().zip([before, after]) {
        let limited = comparisons.iter().find_map(Contest::of_these_servers);
        found.extend(limited.map(|limited| format!("{run}: {limited}")));
    }
    let places = |all: &[Contest]| all.iter().map(Contest::place).collect::<Vec<_>>();
    only(names, "", &places(before), &places(after), &mut found);
    let systems = |of: &Record| -> Vec<String> {
        of.header.study.systems.iter().map(|system| system.name.clone()).collect()
    };
    only(names, "system ", &systems(base), &systems(new), &mut found);
    found.extend(header_differences(&base.header, &new.header));
    found
}

/// Returns the differences between the descriptions of two runs: studies, systems, machines, bakeoff.
fn header_differences(old: &RunHeader, now: &RunHeader) -> Vec<String> {
    let mut found = Vec::new();
    let value = |of: &dyn Fn() -> serde_json::Result<Value>| of().unwrap_or(Value::Null);
    let mut compare = |what: &str, one: Value, other: Value| {
        let mut changed = Vec::new();
        unlike("", &one, &other, &mut changed);
        if !changed.is_empty() {
            found.push(format!("{what} differs: {}", changed.join("; ")));
        }
    };
    for ours in &now.study.workloads {
        let Some(theirs) = old.study.workloads.iter().find(|one| one.name == ours.name) else {
            continue;
        };
        let of = |one: &bakeoff_core::study::Workload| {
            let bare = bakeoff_core::study::Workload { loads: Vec::new(), ..one.clone() };
            value(&|| serde_json::to_value(&bare))
        };
        compare(&format!("workload {}", ours.name), of(theirs), of(ours));
    }
    for ours in &now.study.loads {
        let Some(theirs) = old.study.loads.iter().find(|one| one.name == ours.name) else {
            continue;
        };
        let of = |one: &bakeoff_core::study::Load| value(&|| serde_json::to_value(one));
        compare(&format!("load {}", ours.name), of(theirs), of(ours));
    }
    for ours in &now.study.systems {
        let Some(theirs) = old.study.systems.iter().find(|one| one.name == ours.name) else {
            continue;
        };
        let asked = |one: &bakeoff_core::study::System| value(&|| serde_json::to_value(one));
        compare(&format!("configuration of {}", ours.name), asked(theirs), asked(ours));
        let real = |header: &RunHeader| {
            let is_it = |one: &&bakeoff_core::record::SystemRecord| one.name == ours.name;
            let system = header.systems.iter().find(is_it);
            value(&|| serde_json::to_value(system))
        };
        compare(&format!("system {}", ours.name), real(old), real(now));
    }
    let machine = |header: &RunHeader| {
        let mut machine = value(&|| serde_json::to_value(&header.environment));
        // Measurements always differ.
        if let Some(fields) = machine.as_object_mut() {
            for measured in [
                "disk_free_bytes",
                "disk_sync_least_us",
                "disk_sync_median_us",
                "disk_sync_p99_us",
                "machine_baseline",
            ] {
                fields.remove(measured);
            }
        }
        machine
    };
    compare("the machine", machine(old), machine(now));
    let bakeoff = |header: &RunHeader| Value::from(header.bakeoff.clone());
    compare("bakeoff's version", bakeoff(old), bakeoff(now));
    found
}

fn only(names: [&str; 2], what: &str, base: &[String], new: &[String], found: &mut Vec<String>) {
    for (run, (ours, theirs)) in names.into_iter().zip([(base, new), (new, base)]) {
        let missing = ours.iter().filter(|one| !theirs.contains(one));
        found.extend(missing.map(|one| format!("{what}{one} is only in the {run}")));
    }
}
