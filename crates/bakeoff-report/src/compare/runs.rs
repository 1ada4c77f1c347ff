//! Determines the spread between runs of one study on one machine.
//!
//! Trials of one run share its circumstances: the kernel's placement of pages, the state of the disk, the layout of the
//! binary. They say nothing about the next run. Two runs therefore differ more than their trials do, and only further
//! runs of the same study show by how much.
//!
//! Not here: the model (`stats::judge`), texts of reasons (`not_judged`), finding records of further runs (the binary).

use bakeoff_core::record::{Environment, Record, RunHeader};
use bakeoff_core::stats::TRIALS_MIN;
use bakeoff_core::stats::judge::{RUNS_MIN, Trials};
use bakeoff_core::study::Study;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::not_judged::{NotJudged, Side, UnprovenReason};
use super::{Subject, figures};
use crate::model::contest::Contest;

/// Largest relative difference in memory between equal machines: kernels reserve some of it.
const SAME_MEMORY: f64 = 0.01;

/// Knowledge about the spread between runs.
#[derive(Debug)]
pub(super) enum RunSpread {
    /// Both are the same run.
    OneRun,
    /// All known runs of the study, including the base but not the new one.
    Runs(Vec<Vec<Contest>>),
    /// Unknown, for this reason.
    Unknown(UnprovenReason),
}

/// Returns true if `other` has the same study and machine as `base`. Only the number of trials and texts may differ.
pub fn is_of_the_same_study(base: &RunHeader, other: &RunHeader) -> bool {
    key_difference(base, other).is_none()
}

/// Returns what keeps two runs from being compared: their study, or a property of their machines.
pub(super) fn key_difference(base: &RunHeader, other: &RunHeader) -> Option<&'static str> {
    match asked(base) == asked(other) {
        true => machines_differ(base, other),
        false => Some("the study"),
    }
}

/// Returns a study without what may differ between its runs: texts, what reports begin with, and the number of trials.
/// A quick form differs from its study only by what it runs.
fn asked(header: &RunHeader) -> Study {
    let mut study = header.study.clone();
    (study.title, study.description) = (String::new(), None);
    (study.publication, study.published, study.trials) = (None, Vec::new(), 0);
    (study.question, study.is_quick) = (None, false);
    study
}

/// Returns short hashes of what makes runs comparable: the study and the machine.
pub(super) fn key(of: &RunHeader) -> [String; 2] {
    let machine = |of: &Environment| {
        // Equal machines differ slightly in memory.
        let gib = (of.memory_bytes as f64 / f64::from(1 << 30)).round();
        let machine = (facts(of).map(|(_, fact)| fact), &of.hardware);
        serde_json::to_string(&(machine, gib)).unwrap_or_default()
    };
    let others = of.environment.machines.iter().map(|one| machine(&one.environment));
    let machines: String = std::iter::once(machine(&of.environment)).chain(others).collect();
    [serde_json::to_string(&asked(of)).unwrap_or_default(), machines].map(|text| {
        let digest = Sha256::digest(text.as_bytes());
        digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    })
}

/// Returns true if two runs were on the same machine, or on alike ones.
pub fn is_same_machine(one: &RunHeader, other: &RunHeader) -> bool {
    machines_differ(one, other).is_none()
}

/// Returns the first difference between the machines of two runs.
fn machines_differ(one: &RunHeader, other: &RunHeader) -> Option<&'static str> {
    let (one, other) = (&one.environment, &other.environment);
    if one.machines.len() != other.machines.len() {
        return Some("the number of machines");
    }
    let mut pairs = one.machines.iter().zip(&other.machines);
    differ(one, other)
        .or_else(|| pairs.find_map(|(one, other)| differ(&one.environment, &other.environment)))
}

/// Returns the first difference between two machines.
fn differ(one: &Environment, other: &Environment) -> Option<&'static str> {
    let memory = |of: &Environment| of.memory_bytes as f64;
    if (memory(one) - memory(other)).abs() > SAME_MEMORY * memory(one) {
        return Some("memory");
    }
    // It is unknown where /proc is hidden.
    if let (Some(one), Some(other)) = (&one.hardware, &other.hardware)
        && one != other
    {
        return Some("hardware or kernel settings");
    }
    let (one, other) = (facts(one), facts(other));
    let unlike = one.iter().zip(&other).find(|((_, one), (_, other))| one != other);
    unlike.map(|((what, _), _)| *what)
}

/// Returns the properties of a machine that affect figures, without hardware and memory.
fn facts(of: &Environment) -> [(&'static str, Value); 6] {
    [
        ("the processor", Value::from(of.cpu_model.clone())),
        ("the number of CPUs", of.cpus.into()),
        ("the kernel", of.kernel.clone().into()),
        ("the file system", of.file_system.clone().into()),
        ("the generator's threads", of.generator_threads.into()),
        ("what shares the machine", of.shared_with_servers.into()),
    ]
}

fn is_the_same_run(one: &Record, other: &Record) -> bool {
    (&one.header.started, one.header.seed) == (&other.header.started, other.header.seed)
        && one.header.study == other.header.study
}

impl RunSpread {
    /// Selects the usable ones of the `known` runs, which may include other studies and the two runs themselves.
    pub(super) fn new(base: &Record, new: &Record, known: &[Record]) -> Self {
        if is_the_same_run(base, new) {
            return Self::OneRun;
        }
        if let Some(what) = machines_differ(&base.header, &new.header) {
            return Self::Unknown(UnprovenReason::OtherMachine(what));
        }
        let mut runs: Vec<&Record> = vec![base];
        for one in known {
            let counts = is_of_the_same_study(&base.header, &one.header)
                && !is_the_same_run(new, one)
                && !runs.iter().any(|other| is_the_same_run(one, other));
            if counts {
                runs.push(one);
            }
        }
        if runs.len() < RUNS_MIN {
            return Self::Unknown(UnprovenReason::TooFewRuns(runs.len()));
        }
        Self::Runs(runs.into_iter().map(Contest::all).collect())
    }

    /// Returns the number of runs behind the spread.
    pub(super) fn runs(&self) -> Option<usize> {
        match self {
            Self::Runs(runs) => Some(runs.len()),
            Self::OneRun | Self::Unknown(_) => None,
        }
    }

    /// Returns the trials of both runs in the form to judge. The error says why that is impossible.
    pub(super) fn trials(
        &self,
        of: FigureQuery<'_>,
        new: Vec<f64>,
        base: Vec<f64>,
    ) -> Result<Trials, NotJudged> {
        let runs = match self {
            Self::OneRun => return Ok(Trials::Apart(new, base)),
            Self::Unknown(why) => return Err(NotJudged::Unproven(*why)),
            Self::Runs(runs) => runs,
        };
        let here = |run: &Vec<Contest>| {
            let section = run.iter().find(|one| one.place() == of.place)?;
            let system = section.contenders.iter().find(|one| one.system == of.system)?;
            let trials = figures(system, of.subject, Side::EarlierRun).ok()?;
            (trials.len() >= TRIALS_MIN).then_some(trials)
        };
        let runs: Vec<Vec<f64>> = runs.iter().filter_map(here).collect();
        if runs.len() < RUNS_MIN {
            return Err(NotJudged::InFewRuns(runs.len()));
        }
        Ok(Trials::Runs { first: new, second: base, runs })
    }
}

/// Place, system and figure in question.
#[derive(Debug, Clone, Copy)]
pub(super) struct FigureQuery<'a> {
    pub(super) place: &'a str,
    pub(super) system: &'a str,
    pub(super) subject: Subject,
}
