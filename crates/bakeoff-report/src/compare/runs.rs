//! How far runs of one study on one machine lie apart.
//!
//! Trials of one run share what was so during that run: where the kernel put pages, how a disk felt,
//! which links a build happened to lay out well. They repeat it, and say nothing of the next run. So two
//! runs differ by more than their trials do, and only further runs of the same study tell by how
//! much.
//!
//! Not here: the model (`stats::judge`), the reasons in words (`not_judged`), where records of further runs are found (the binary).

use bakeoff_core::record::{Environment, Record, RunHeader};
use bakeoff_core::stats::TRIALS_MIN;
use bakeoff_core::stats::judge::{RUNS_MIN, Trials};
use serde_json::Value;

use super::not_judged::{NotJudged, Side, Unproven};
use super::{Subject, figures};
use crate::model::contest::Contest;

/// Machines whose memory differs by no more are the same: kernels keep some of it to themselves.
const SAME_MEMORY: f64 = 0.01;

/// Knowledge of how far runs lie apart.
#[derive(Debug)]
pub(super) enum Between {
    /// Both are the same run.
    OneRun,
    /// All runs of the study that are known, the base among them and the new one not.
    Runs(Vec<Vec<Contest>>),
    /// Nobody can tell, because of this.
    Unknown(Unproven),
}

/// Returns whether what is learned from `other` holds for the machine and the study of `base`: everything that
/// was asked is the same but the number of trials, and so is the machine.
pub fn is_of_the_same_study(base: &RunHeader, other: &RunHeader) -> bool {
    let asked = |header: &RunHeader| {
        let mut study = header.study.clone();
        // Words, and how often.
        (study.title, study.description) = (String::new(), None);
        (study.publication, study.published, study.trials) = (None, Vec::new(), 0);
        study
    };
    asked(base) == asked(other) && machines_differ(base, other).is_none()
}

/// Names the differences between the machines of two runs.
fn machines_differ(one: &RunHeader, other: &RunHeader) -> Option<&'static str> {
    let memory = |of: &Environment| of.memory_bytes as f64;
    let (one, other) = (&one.environment, &other.environment);
    if (memory(one) - memory(other)).abs() > SAME_MEMORY * memory(one) {
        return Some("memory");
    }
    let facts = |of: &Environment| {
        [
            ("the processor", Value::from(of.cpu_model.clone())),
            ("the number of CPUs", of.cpus.into()),
            ("the kernel", of.kernel.clone().into()),
            ("the file system", of.file_system.clone().into()),
            ("the generator's threads", of.generator_threads.into()),
            ("what shares the machine", of.shared_with_servers.into()),
        ]
    };
    // Records of before do not tell it.
    if let (Some(one), Some(other)) = (&one.hardware, &other.hardware)
        && one != other
    {
        return Some("hardware or kernel settings");
    }
    let (one, other) = (facts(one), facts(other));
    let unlike = one.iter().zip(&other).find(|((_, one), (_, other))| one != other);
    unlike.map(|((what, _), _)| *what)
}

fn is_the_same_run(one: &Record, other: &Record) -> bool {
    (&one.header.started, one.header.seed) == (&other.header.started, other.header.seed)
        && one.header.study == other.header.study
}

impl Between {
    /// Learns from `known` runs, of which any may be of something else, or one of the two.
    pub(super) fn new(base: &Record, new: &Record, known: &[Record]) -> Self {
        if is_the_same_run(base, new) {
            return Self::OneRun;
        }
        if let Some(what) = machines_differ(&base.header, &new.header) {
            return Self::Unknown(Unproven::OtherMachine(what));
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
            return Self::Unknown(Unproven::TooFewRuns(runs.len()));
        }
        Self::Runs(runs.into_iter().map(Contest::all).collect())
    }

    /// Returns how many runs tell.
    pub(super) fn runs(&self) -> Option<usize> {
        match self {
            Self::Runs(runs) => Some(runs.len()),
            Self::OneRun | Self::Unknown(_) => None,
        }
    }

    /// The trials of both as they are to be judged; or why nobody can.
    pub(super) fn trials(
        &self,
        of: Asked<'_>,
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

/// Which figure of whom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) place: &'a str,
    pub(super) system: &'a str,
    pub(super) subject: Subject,
}
