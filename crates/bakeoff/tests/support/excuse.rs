//! Excuses a trial that other work on the machine spoilt, if the trial's own samples show that work.
//!
//! A slow generator fails the same checks as one that got no CPU. So a failed check alone excuses nothing. Tests share
//! the machine (`--shared-machine`), and such a run does not check for steal and neighbours. Both checks are made here,
//! from the samples in the record and with bakeoff's own limits: 5 % of the machine's CPU time.
//!
//! Every excuse is reported. `.ci/run` counts them and fails above its limit.
//!
//! Not here: skipped tests (`skip`).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bakeoff_core::check::machine::{NEIGHBOURS_MAX, neighbours, steal};
use bakeoff_core::check::{CheckName, Verdict};
use bakeoff_core::record::{RecordLine, RunHeader, TrialRecord};
use bakeoff_core::trial_samples::{Column, PhaseName, Series, TrialSamples};
use serde_json::Value;

use super::skip::report;
use super::{array, folders, text};

/// Checks that also fail for honest systems on a machine that is too busy.
pub(crate) const OF_THE_MACHINE: [&str; 7] =
    ["generator", "schedule", "timers", "receive lag", "steal", "neighbours", "stationary"];

/// Returns true if the reason is the failure of a check that a busy machine can cause.
fn is_of_the_machine(why: &str) -> bool {
    why.split_once(": ").is_some_and(|(check, _)| OF_THE_MACHINE.contains(&check))
}

/// Returns the folders of the runs that a command writes or resumes, by its arguments.
pub(super) fn runs_of(command: &Command) -> Vec<PathBuf> {
    let words: Vec<&Path> = command.get_args().map(Path::new).collect();
    let after = |option: &str| {
        let at = words.iter().position(|word| word.as_os_str() == option)?;
        words.get(at + 1).map(|path| command.get_current_dir().unwrap_or(Path::new("")).join(path))
    };
    let mut runs: Vec<PathBuf> = after("--resume").into_iter().collect();
    runs.extend(after("--out").or_else(|| after("--output")).iter().flat_map(|out| folders(out)));
    runs
}

/// Header and trials of a run's record.
struct RunRecord {
    header: RunHeader,
    /// Last line of each trial, by its number: a trial that was broken off runs again.
    trials: BTreeMap<u32, TrialRecord>,
}

impl RunRecord {
    fn read(run: &Path) -> Result<Self, String> {
        let fault = |why: &dyn std::fmt::Display| format!("`{}`: {why}", run.display());
        let record = std::fs::read_to_string(run.join("record.jsonl"));
        let record = record.map_err(|error| fault(&error))?;
        let (mut header, mut trials) = (None, BTreeMap::new());
        for line in record.lines().filter_map(|line| RecordLine::parse(line).ok()) {
            match line {
                RecordLine::Run(run) => header = Some(run),
                RecordLine::Trial(trial) => _ = trials.insert(trial.trial.number, trial),
                RecordLine::Resumed(_) | RecordLine::Extended(_) | RecordLine::End(_) => {}
            }
        }
        Ok(Self { header: header.ok_or_else(|| fault(&"its record has no header"))?, trials })
    }

    /// Returns the trial of an entry in the report, which counts from 1.
    fn trial(&self, entry: &Value) -> Result<&TrialRecord, String> {
        let number = entry["number"].as_u64().and_then(|number| number.checked_sub(1));
        let number = number.and_then(|number| u32::try_from(number).ok());
        let trial = number.and_then(|number| self.trials.get(&number));
        trial.ok_or_else(|| format!("the record does not have trial {}", entry["number"]))
    }

    /// Returns the excuse of an invalid trial. The error says why nothing excuses it.
    fn excuse(&self, trial: &TrialRecord) -> Result<String, String> {
        let (number, title) = (trial.trial.number + 1, &self.header.study.title);
        let reasons = trial.invalid_because();
        if let Some(why) = reasons.iter().find(|why| !is_of_the_machine(why)) {
            return Err(format!("trial {number}: {why}"));
        }
        let reasons = reasons.join("; ");
        match disturbance(trial, self.header.environment.cpus) {
            Some(seen) => Ok(format!("trial {number} of `{title}`: {reasons}; {seen}")),
            None => Err(format!("trial {number}: {reasons}; its samples show no other work")),
        }
    }

    /// Reports the excuse of an invalid trial, once.
    fn count(&self, run: &Path, trial: &TrialRecord) -> Result<(), String> {
        static COUNTED: Mutex<BTreeSet<(PathBuf, u32)>> = Mutex::new(BTreeSet::new());
        let excuse = self.excuse(trial)?;
        let mut counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.insert((run.to_owned(), trial.trial.number)) {
            report("excused", &excuse);
        }
        Ok(())
    }
}

/// Excuses all invalid trials of the run with this report, among these runs.
///
/// # Errors
/// Returns the first reason that no other work explains.
pub(super) fn excuse_report(report: &Value, runs: &[PathBuf]) -> Result<(), String> {
    let started = text(&report["started"]);
    let is_it = |run: &&PathBuf| {
        started.is_empty() && runs.len() == 1
            || RunRecord::read(run).is_ok_and(|record| record.header.started == started)
    };
    let run = runs.iter().rfind(is_it);
    excuse_run(run.ok_or("no record shows what else the machine did")?)
}

/// Excuses all invalid trials of a run, at least one.
///
/// # Errors
/// Returns the first reason that no other work explains.
pub(crate) fn excuse_run(run: &Path) -> Result<(), String> {
    let record = RunRecord::read(run)?;
    let is_invalid = |trial: &&TrialRecord| !trial.invalid_because().is_empty();
    let invalid: Vec<&TrialRecord> = record.trials.values().filter(is_invalid).collect();
    if invalid.is_empty() {
        return Err("no trial of its record is invalid".to_owned());
    }
    invalid.into_iter().try_for_each(|trial| record.count(run, trial))
}

/// Returns the excuse of a trial, by its entry in the report, without counting it. `None` if the trial is valid.
///
/// # Errors
/// Returns the reason why the trial is invalid, if no other work explains it.
pub(crate) fn excuse_of(run: &Path, trial: &Value) -> Result<Option<String>, String> {
    if array(&trial["invalid_because"]).is_empty() {
        return Ok(None);
    }
    let record = RunRecord::read(run)?;
    record.excuse(record.trial(trial)?).map(Some)
}

/// Excuses a trial, by its entry in the report. Returns false if the trial is valid.
///
/// # Errors
/// As [`excuse_of`].
pub(super) fn excuse_trial(run: &Path, trial: &Value) -> Result<bool, String> {
    if array(&trial["invalid_because"]).is_empty() {
        return Ok(false);
    }
    let record = RunRecord::read(run)?;
    record.count(run, record.trial(trial)?).map(|()| true)
}

/// Returns the steal or the work of others that a trial's samples show; `None` if they show neither. `cpus` are those
/// of this machine.
fn disturbance(trial: &TrialRecord, cpus: u32) -> Option<String> {
    let is_of_others = |name| matches!(name, CheckName::Steal | CheckName::Neighbours);
    let mut checks = trial.checks.iter().filter(|check| is_of_others(check.name));
    if let Some(why) = checks.find_map(|check| check.verdict.clone().into_failure()) {
        return Some(why);
    }
    let windows = trial.figured().iter().map(|stage| stage.window(Duration::ZERO));
    let windows: Vec<(f64, f64)> = windows.filter(|(from, to)| to > from).collect();
    machines(trial, cpus).into_iter().find_map(|(cpus, samples)| {
        let load = samples.phases.iter().find(|phase| phase.name == PhaseName::Load.text());
        let stolen = load.map(|load| steal(&samples.machine, cpus, load.from, load.to));
        let others = || neighbours(&samples, &windows, cpus, NEIGHBOURS_MAX).into_failure();
        stolen.and_then(Verdict::into_failure).or_else(others)
    })
}

/// Returns the CPUs and samples of each machine of a trial. All machines of a test run on this machine's kernel, so
/// each counts the processes of all of them as bakeoff's.
fn machines(trial: &TrialRecord, cpus: u32) -> Vec<(u32, Cow<'_, TrialSamples>)> {
    if trial.machines.is_empty() {
        return trial.observed.iter().map(|samples| (cpus, Cow::Borrowed(samples))).collect();
    }
    let attributed = |place: usize| {
        let mut samples = trial.machines[place].observed.clone();
        for (_, other) in trial.machines.iter().enumerate().filter(|(other, _)| *other != place) {
            samples.nodes.extend(other.observed.nodes.iter().cloned());
            samples.nodes.extend(helpers(&other.observed.machine));
        }
        (trial.machines[place].cpus, Cow::Owned(samples))
    };
    (0..trial.machines.len()).map(attributed).collect()
}

/// Returns the CPU time of a machine's helper processes as that of a node.
fn helpers(machine: &Series) -> Option<Series> {
    let time = machine.columns.get(&Column::Helpers)?;
    let columns = [(Column::CpuUser, time.clone()), (Column::CpuSystem, vec![0.0; time.len()])];
    Some(Series { name: "helpers".to_owned(), at: machine.at.clone(), columns: columns.into() })
}

#[cfg(test)]
#[allow(unused_imports, reason = "test programs with a harness of their own have no such tests")]
mod tests {
    use serde_json::json;

    use super::super::Bench;
    use super::*;

    /// Work besides that of the trial, as a share of all CPUs.
    #[derive(Clone, Copy, Default)]
    struct OtherWork {
        neighbours: f64,
        stolen: f64,
    }

    /// Gives a recorded trial a failed check, and samples in which nothing but this work ran.
    fn rewrite(run: &Path, check: &str, other: OtherWork) {
        let mut lines = super::super::record(run);
        let cpus = lines[0]["environment"]["cpus"].as_f64().expect("the machine has CPUs");
        let trial = &mut lines[1];
        trial["checks"] = json!([{"name": check, "verdict": {"verdict": "failed", "why": "late"}}]);
        let observed = &mut trial["observed"];
        observed["strangers"] = json!([]);
        let series = observed["nodes"].as_array_mut().expect("nodes were sampled");
        series.iter_mut().for_each(|node| grow(node, &[("cpu-user", 0.0), ("cpu-system", 0.0)]));
        let (busy, stolen) = (other.neighbours * cpus, other.stolen * cpus);
        grow(&mut observed["machine"], &[("busy", busy), ("steal", stolen), ("helpers", 0.0)]);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(run.join("record.jsonl"), text).expect("a record can be written");
    }

    /// Replaces counters of a series by ones that grow by these amounts each second.
    fn grow(series: &mut Value, counters: &[(&str, f64)]) {
        let at: Vec<f64> = array(&series["at"]).iter().filter_map(Value::as_f64).collect();
        for (name, rate) in counters {
            series["columns"][*name] = at.iter().map(|at| at * rate).collect();
        }
    }

    #[test]
    fn failed_check_is_excused_only_if_the_samples_show_other_work() {
        let run = Bench::new(
            "title: t\nsystems: {c: {kind: canary, options: {sync: none}}}\n\
             workloads: {w: {mix: {get: 1}, keys: {count: 10}}}\n\
             loads: {l: {clients: 1, rate: 100/s, warmup: 0s, stop: {after: 1s}}}\ntrials: 1\n",
        )
        .run();
        let folder = run.bench.runs().remove(0);
        let excuse = |check: &str, other| {
            rewrite(&folder, check, other);
            let mut entry = run.trial().clone();
            entry["invalid_because"] = json!(["late"]);
            excuse_of(&folder, &entry)
        };
        let quiet = OtherWork { neighbours: 0.02, stolen: 0.02 };
        let why = excuse("schedule", quiet).unwrap_err();
        assert_eq!(why, "trial 1: schedule: late; its samples show no other work");
        for (other, seen) in [
            (OtherWork { neighbours: 0.4, ..quiet }, "others used 40."),
            (OtherWork { stolen: 0.4, ..quiet }, "the hypervisor gave 40."),
        ] {
            let excuse = excuse("schedule", other).unwrap().expect("the trial is invalid");
            assert!(excuse.contains(seen), "{excuse}");
        }
        let busy = OtherWork { neighbours: 0.4, stolen: 0.4 };
        assert_eq!(excuse("errors", busy).unwrap_err(), "trial 1: errors: late");
    }
}
