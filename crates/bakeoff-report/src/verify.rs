//! Checks a record's consistency: links between lines, the order of trials, counts against histograms, and verdicts
//! against a recomputation.
//!
//! It detects damage and edits by hand. It cannot detect a record rewritten consistently as a whole; only a separately
//! published hash of the last line can.
//!
//! Not here: files, and the comparison with the reports next to the record (the binary).

use std::collections::BTreeSet;

use bakeoff_core::check;
use bakeoff_core::measurement::{Measurement, OperationFigures};
use bakeoff_core::plan;
use bakeoff_core::record::chain::Links;
use bakeoff_core::record::{Complaint, Record, RoundCount, TrialRecord};
use bakeoff_core::repeat::follows_plan;
use bakeoff_core::stats::sequential;
use bakeoff_core::units::{count_text, plural};
use bakeoff_core::watch::WatchFigures;
use serde_json::{Value, json};

/// Outcome of verifying one aspect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The record is consistent.
    Holds,
    /// The record is inconsistent.
    Fails,
    /// The record lacks the data for this check.
    CannotTell,
}

impl Outcome {
    /// Returns the outcome's text: `holds`, `fails`, `cannot tell`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// A verified aspect of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedAspect {
    /// Name of the aspect: `lines`.
    pub what: String,
    /// Result.
    pub outcome: Outcome,
    /// Observation, as a sentence without its full stop.
    pub seen: String,
}

impl VerifiedAspect {
    /// Creates the result for one aspect.
    pub fn new(what: &str, outcome: Outcome, seen: impl Into<String>) -> Self {
        Self { what: what.to_owned(), outcome, seen: seen.into() }
    }

    /// Creates a result from faults: `Fails` with the first few of them, or `Holds` with `otherwise` if there are none.
    fn of_faults(what: &str, faults: &[String], otherwise: String) -> Self {
        match faults {
            [] => Self::new(what, Outcome::Holds, otherwise),
            faults => {
                let more = faults.len().saturating_sub(FAULTS_SHOWN);
                let more = if more > 0 { format!("; and {more} more") } else { String::new() };
                let shown = faults[..faults.len().min(FAULTS_SHOWN)].join("; ");
                Self::new(what, Outcome::Fails, shown + &more)
            }
        }
    }

    /// Returns the result as JSON.
    pub fn json(&self) -> Value {
        json!({"what": self.what, "outcome": self.outcome.word(), "seen": self.seen})
    }
}

/// Most faults to show for one aspect.
const FAULTS_SHOWN: usize = 3;

/// Verifies a record, given the links of its lines and the complaints from reading it.
pub fn verify(links: &Links, record: &Record, complaints: &[Complaint]) -> Vec<VerifiedAspect> {
    let rest = [lines(links, complaints), trials(record), counts(record), checks(record)];
    machines(record).into_iter().chain(rest).collect()
}

/// Checks that a resumed run continued on the machines that it began on. `None` if it was not resumed.
fn machines(record: &Record) -> Option<VerifiedAspect> {
    let changes = record.machine_changes();
    let times = plural(record.resumed.len() as u64, "time");
    let otherwise = format!("resumed {times} on the same machines");
    (!record.resumed.is_empty()).then(|| VerifiedAspect::of_faults("machines", &changes, otherwise))
}

fn lines(links: &Links, complaints: &[Complaint]) -> VerifiedAspect {
    let faults: Vec<String> =
        complaints.iter().chain(&links.broken).map(ToString::to_string).collect();
    let lines = plural(links.lines as u64, "line");
    VerifiedAspect::of_faults("lines", &faults, format!("{lines}, each linked to the previous one"))
}

/// Checks that the order of trials follows from study and seed, and that each trial is in that order at most once.
fn trials(record: &Record) -> VerifiedAspect {
    let header = &record.header;
    let mut faults = Vec::new();
    // A load of a URL is recorded as a study without a planned order.
    let is_study = header.study.systems.iter().any(bakeoff_core::study::System::is_started);
    if is_study && !follows_plan(record) {
        faults.push("the order of trials does not follow from study and seed".to_owned());
    }
    if let Some(rounds) = record.answered_after() {
        let looked = sequential::looks_after(rounds, header.study.trials);
        if header.rounds != RoundCount::Adaptive || !looked || !crate::is_answered(record) {
            faults.push(format!("the run stopped after {rounds} rounds without an answer"));
        }
    }
    for trial in &record.trials {
        let name = &trial.trial;
        if !header.order.contains(name) {
            faults.push(format!("trial {} is not in the order of trials", name.number + 1));
        }
    }
    for trial in &record.trials {
        let planned = plan::injections(&header.study, &trial.trial);
        let planned = planned.into_iter().map(|(fault, repeat)| (fault.name.as_str(), repeat));
        let ran = trial.injections.iter().map(|one| (one.fault.as_str(), one.repeat));
        if !planned.take(trial.injections.len()).eq(ran) {
            let number = trial.trial.number + 1;
            faults.push(format!("the injections of trial {number} do not follow from its seed"));
        }
    }
    let machines: Vec<&str> = header.environment.machines.iter().map(|one| &*one.name).collect();
    for trial in record.trials.iter().filter(|trial| !trial.stages.is_empty()) {
        let used: Vec<&str> = trial.machines.iter().map(|one| &*one.name).collect();
        if used != machines {
            let text = |names: &[&str]| match names {
                [] => "the coordinator alone".to_owned(),
                names => names.join(", "),
            };
            faults.push(format!(
                "trial {} ran on {}, but the run on {}",
                trial.trial.number + 1,
                text(&used),
                text(&machines)
            ));
        }
    }
    let (done, all) = (record.trials.len(), header.order.len());
    let seed = header.seed;
    VerifiedAspect::of_faults(
        "trials",
        &faults,
        format!("{done} of {all} trials, in an order that follows from study and seed {seed}"),
    )
}

/// Checks the counts of each stage against its histograms and seconds.
fn counts(record: &Record) -> VerifiedAspect {
    let mut faults = Vec::new();
    let mut histograms = 0;
    for trial in &record.trials {
        let injected = trial.injections.iter().map(|one| &one.stage);
        for stage in trial.stages.iter().chain(injected) {
            for (name, figures) in &stage.measurement.operations {
                let found = unlike_counts(&stage.measurement, name, figures);
                let place = || format!("trial {}, {name}", trial.trial.number + 1);
                faults.extend(found.into_iter().map(|fault| format!("{}: {fault}", place())));
                histograms += 4 + stage.measurement.seconds.len();
            }
            if let Some(watch) = stage.measurement.watch.as_deref() {
                let place = || format!("trial {}, watchers", trial.trial.number + 1);
                let found = unlike_watch_counts(watch).into_iter();
                faults.extend(found.map(|fault| format!("{}: {fault}", place())));
                histograms += WATCH_HISTOGRAMS;
            }
        }
    }
    let histograms = count_text(histograms as u64);
    VerifiedAspect::of_faults(
        "counts",
        &faults,
        format!("operations and errors agree with {histograms} histograms"),
    )
}

/// Returns each disagreement between an operation's counts and its histograms.
fn unlike_counts(of: &Measurement, name: &str, figures: &OperationFigures) -> Vec<String> {
    let of_seconds = || of.seconds.iter().filter_map(|second| second.operations.get(name));
    let in_seconds: u64 = of_seconds().map(|second| second.verified).sum();
    let packed = of_seconds().map(|second| second.response.unpack().map_or(0, |all| all.count()));
    let packed: u64 = packed.sum();
    let failures = figures.failed.count() + figures.unanswered.count();
    let pairs = [
        ("verified operations", figures.verified, "response times", figures.response.count()),
        ("verified operations", figures.verified, "service times", figures.service.count()),
        ("errors", figures.error_count(), "times of failures", failures),
        ("verified operations", figures.verified, "response times of all seconds", packed),
        (
            "operations in the window",
            figures.verified_in_window,
            "those of all seconds",
            in_seconds,
        ),
    ];
    let unlike = pairs.into_iter().filter(|(_, count, _, other)| count != other);
    unlike
        .map(|(what, count, of, other)| {
            format!("{} {what}, but {} {of}", count_text(count), count_text(other))
        })
        .collect()
}

/// Number of compared histograms of watchers.
const WATCH_HISTOGRAMS: usize = 3;

/// Returns each disagreement between the counts of watchers and their histograms.
fn unlike_watch_counts(of: &WatchFigures) -> Vec<String> {
    let (first, last) = (of.first.count(), of.last.count());
    let pairs = [
        ("times to the first watcher", first, "to the last", last),
        (
            "times to the last watcher",
            last,
            "after the acknowledgement",
            of.after_acknowledgement.count(),
        ),
        (
            "versions observed",
            of.counts.delivered,
            "expected",
            of.counts.delivered.min(of.counts.expected),
        ),
        (
            "early observations",
            of.before_acknowledgement,
            "timed",
            of.before_acknowledgement.min(of.timed),
        ),
    ];
    let unlike = pairs.into_iter().filter(|(_, count, _, other)| count != other);
    unlike
        .map(|(what, count, of, other)| {
            format!("{} {what}, but {} {of}", count_text(count), count_text(other))
        })
        .collect()
}

/// Recomputes the checks that follow from a trial's measurement, and compares their verdicts.
fn checks(record: &Record) -> VerifiedAspect {
    let mut faults = Vec::new();
    let mut again = 0;
    for trial in record.trials.iter().filter(|trial| !trial.stages.is_empty()) {
        let load = record.header.study.loads.iter().find(|load| load.name == trial.trial.load);
        let Some(load) = load else {
            faults
                .push(format!("trial {} has a load that the study lacks", trial.trial.number + 1));
            continue;
        };
        let known: BTreeSet<_> = trial.checks.iter().map(|check| check.name.as_str()).collect();
        for check in check::measured(load, trial, trial.observed.as_ref()) {
            // An older bakeoff did not have this check.
            if !known.contains(check.name.as_str()) {
                continue;
            }
            again += 1;
            if !was_recorded(trial, &check) {
                faults.push(format!(
                    "trial {}: check `{}` now has another verdict than the recorded one",
                    trial.trial.number + 1,
                    check.name.as_str()
                ));
            }
        }
    }
    let again = plural(again, "check");
    VerifiedAspect::of_faults(
        "checks",
        &faults,
        format!("{again} recomputed, all with the recorded verdict"),
    )
}

/// Returns true if a trial's record has a check with this verdict, regardless of its reason.
fn was_recorded(trial: &TrialRecord, check: &bakeoff_core::record::Check) -> bool {
    let mut of_name = trial.checks.iter().filter(|one| one.name == check.name);
    let alike = |one: &bakeoff_core::record::Check| {
        std::mem::discriminant(&one.verdict) == std::mem::discriminant(&check.verdict)
    };
    of_name.any(alike)
}
