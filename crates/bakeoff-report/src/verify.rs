//! Whether a record holds together: its lines are linked, its trials follow from study and seed, its counts agree with its
//! histograms, and its checks come out again as they were recorded.
//!
//! It tells a record that was damaged or altered by hand from one that was not. Whoever writes all lines anew and keeps
//! them consistent is found only by the hash of the last line, published elsewhere.
//!
//! Not here: files, and whether the reports beside the record are those that it yields (the binary).

use std::collections::BTreeSet;

use bakeoff_core::check;
use bakeoff_core::measurement::{Measurement, OperationFigures};
use bakeoff_core::record::chain::Links;
use bakeoff_core::record::{Complaint, Record, TrialRecord};
use bakeoff_core::repeat::follows_plan;
use bakeoff_core::units::{count_text, plural};
use serde_json::{Value, json};

/// Outcome of looking at one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is as it should be.
    Holds,
    /// It is not.
    Fails,
    /// The record does not have what it takes to tell.
    CannotTell,
}

impl Outcome {
    /// The word for it: `holds`, `fails`, `cannot tell`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Its name: `lines`.
    pub what: String,
    /// Its outcome.
    pub outcome: Outcome,
    /// The observation, in a sentence without its full stop.
    pub seen: String,
}

impl Verified {
    /// Tells of one thing.
    pub fn new(what: &str, outcome: Outcome, seen: impl Into<String>) -> Self {
        Self { what: what.to_owned(), outcome, seen: seen.into() }
    }

    /// Tells the faults of one thing, the first few of them; without any it holds, as `otherwise` says.
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

    /// The same for programs.
    pub fn json(&self) -> Value {
        json!({"what": self.what, "outcome": self.outcome.word(), "seen": self.seen})
    }
}

/// How many faults of one thing are told.
const FAULTS_SHOWN: usize = 3;
/// The format since which failures are in histograms of their own.
const TOLD_APART_SINCE: u32 = 2;

/// Looks at a record: the links of its lines, what was read of it, and what could not be.
pub fn verify(links: &Links, record: &Record, complaints: &[Complaint]) -> Vec<Verified> {
    vec![lines(links, complaints), trials(record), counts(record), checks(record)]
}

fn lines(links: &Links, complaints: &[Complaint]) -> Verified {
    let faults: Vec<String> =
        complaints.iter().chain(&links.broken).map(ToString::to_string).collect();
    if faults.is_empty() && links.linked == 0 && links.lines > 1 {
        let seen = "no line is linked to the one before: a bakeoff of before wrote them";
        return Verified::new("lines", Outcome::CannotTell, seen);
    }
    let lines = plural(links.lines as u64, "line");
    Verified::of_faults("lines", &faults, format!("{lines}, each linked to the one before"))
}

/// The order of trials follows from the study and the seed, and each trial is one of it, at most once.
fn trials(record: &Record) -> Verified {
    let header = &record.header;
    if header.format < TOLD_APART_SINCE {
        let seen = "records of format 1 were planned otherwise";
        return Verified::new("trials", Outcome::CannotTell, seen);
    }
    let mut faults = Vec::new();
    // A gate's later trials depend on figures, and its builds take turns in an order of its own.
    let planned = header.gate.is_none();
    // A load of a URL is recorded as a study that nobody planned.
    let is_study = header.study.systems.iter().any(bakeoff_core::study::System::is_started);
    if planned && is_study && !follows_plan(record) {
        faults.push("the order of trials does not follow from study and seed".to_owned());
    }
    for trial in &record.trials {
        let name = &trial.trial;
        if !header.order.contains(name) {
            faults.push(format!("trial {} is none of the order", name.number + 1));
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
                "trial {} ran on {}, and the run on {}",
                trial.trial.number + 1,
                text(&used),
                text(&machines)
            ));
        }
    }
    let (done, all) = (record.trials.len(), header.order.len());
    let seed = header.seed;
    Verified::of_faults(
        "trials",
        &faults,
        format!("{done} of {all} trials, in an order that follows from study and seed {seed}"),
    )
}

/// The counts of each stage agree with its histograms and with its seconds.
fn counts(record: &Record) -> Verified {
    if record.header.format < TOLD_APART_SINCE {
        let seen = "records of format 1 do not tell failures from successes in their histograms";
        return Verified::new("counts", Outcome::CannotTell, seen);
    }
    let mut faults = Vec::new();
    let mut histograms = 0;
    for trial in &record.trials {
        for stage in &trial.stages {
            for (name, figures) in &stage.measurement.operations {
                let found = unlike_counts(&stage.measurement, name, figures);
                let place = || format!("trial {}, {name}", trial.trial.number + 1);
                faults.extend(found.into_iter().map(|fault| format!("{}: {fault}", place())));
                histograms += 4 + stage.measurement.seconds.len();
            }
        }
    }
    let histograms = count_text(histograms as u64);
    Verified::of_faults(
        "counts",
        &faults,
        format!("operations and errors agree with {histograms} histograms"),
    )
}

/// Returns what of an operation's counts disagrees with its histograms.
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
            format!("{} {what} and {} {of}", count_text(count), count_text(other))
        })
        .collect()
}

/// The checks that follow from a trial's measurement come out as they were recorded.
fn checks(record: &Record) -> Verified {
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
            // A bakeoff of before did not make it.
            if !known.contains(check.name.as_str()) {
                continue;
            }
            again += 1;
            if !was_recorded(trial, &check) {
                faults.push(format!(
                    "trial {}: check `{}` comes out otherwise than it was recorded",
                    trial.trial.number + 1,
                    check.name.as_str()
                ));
            }
        }
    }
    let again = plural(again, "check");
    Verified::of_faults(
        "checks",
        &faults,
        format!("{again} made again, all with the recorded verdict"),
    )
}

/// Returns whether a trial's record has this verdict, whatever its words.
fn was_recorded(trial: &TrialRecord, check: &bakeoff_core::record::Check) -> bool {
    let mut of_name = trial.checks.iter().filter(|one| one.name == check.name);
    let alike = |one: &bakeoff_core::record::Check| {
        std::mem::discriminant(&one.verdict) == std::mem::discriminant(&check.verdict)
    };
    of_name.any(alike)
}
