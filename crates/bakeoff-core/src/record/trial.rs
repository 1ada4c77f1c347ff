//! The line of a trial: its stages, usage, audits and checks, and how it ended.
//!
//! Not here: what a measurement holds (`crate::measurement`), how checks judge (`crate::check`).

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{BaselineAppends, Durability};
use crate::log_findings::NodeLog;
use crate::measurement::Measurement;
use crate::memory::NodesMemory;
use crate::observed::{Metered, Observed};
use crate::plan::Trial;
use crate::search::{Found, Tried};
use crate::units;
use crate::verdict::{Audit, Cause, Check, Verdict};

/// One trial, once.
///
/// Each field is one of the record's line, which stays flat, so that old ones load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Which.
    pub trial: Trial,
    /// When it began, in UTC.
    pub started: String,
    /// From the first launch to a cluster with a leader.
    #[serde(default, with = "units::duration")]
    pub ready_after: Duration,
    /// Whether the cluster was kept from an earlier trial or ran already, so that nothing was launched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// Endpoints of a cluster that ran already which accepted no connection, so that the trial went without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Whether another bakeoff worked on this machine meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beside_another: bool,
    /// True if it was skipped because its system had failed to start before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_tried: bool,
    /// Name of the node that led when the load began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// Name of the node that led when the load had ended, where that was another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_after: Option<String>,
    /// The nodes that clients connected to.
    pub targets: Vec<String>,
    /// Keys written before the load, unmeasured.
    #[serde(default)]
    pub filled: u64,
    /// Measurements, stage by stage.
    pub stages: Vec<StageRecord>,
    /// Usage of each node and of the generator while the load ran.
    pub usage: Vec<Usage>,
    /// Memory of all nodes together; `None` if it is not known, and in records before format 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<NodesMemory>,
    /// Reading back what was acknowledged.
    pub audits: Vec<Audit>,
    /// Everything else that was checked.
    pub checks: Vec<Check>,
    /// Syncs observed for acknowledged writes, of a system that claims disks; since format 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// Its end.
    pub outcome: TrialOutcome,
    /// Samples from its beginning to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// Complaints in the nodes' own logs while the load ran; nodes without any are absent.
    #[serde(
        rename = "said",
        alias = "log_findings",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub log_findings: Vec<NodeLog>,
    /// The CPUs that the load generator was kept to, away from those that the nodes are pinned to;
    /// empty where it was not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generator_cpus: Vec<u32>,
    /// Result of its search for a rate; `None` without a search, or where it did not end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
    /// Durable appends of the disk, measured again before the first trial of each later round.
    #[serde(
        rename = "floor_appends",
        alias = "baseline_appends",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub baseline_appends: Vec<BaselineAppends>,
    /// The machines of the run, where it has places; each with its own samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineTrial>,
}

/// One of the machines of a run during a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineTrial {
    /// Its name in the places file.
    pub name: String,
    /// CPUs that may be used there.
    pub cpus: u32,
    /// The servers that it had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
    /// The part that it had in driving the load, stage by stage; empty for one that drove none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generated: Vec<GeneratorPart>,
    /// Its samples, their times counted from the trial's beginning.
    pub observed: Observed,
}

/// One generator's part in a stage of a load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GeneratorPart {
    /// Clients of the stage that were its own.
    pub clients: u32,
    /// Verified successes.
    pub verified: u64,
    /// Failures.
    pub errors: u64,
    /// How much later than asked it began, in microseconds, by its own clock.
    pub late_us: f64,
    /// By how much its clock may be off, in microseconds: half of the shortest round trip.
    pub clock_error_us: f64,
    /// CPU time of its process during the window.
    #[serde(with = "units::duration")]
    pub cpu: Duration,
    /// The share of a CPU that the busiest of its threads used.
    pub busiest: f64,
    /// The CPUs that it kept to, where servers of its machine are pinned to others; empty where none is pinned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// Why servers that are pinned on its machine did not have their CPUs for themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_apart: Option<String>,
}

/// End of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ended", content = "why")]
pub enum TrialOutcome {
    /// As planned.
    Completed,
    /// The user ended it; what was measured by then is here.
    Interrupted,
    /// It could not go on.
    Failed(String),
    /// A machine of the run was lost: nothing is known of the system.
    MachineLost(String),
}

impl TrialOutcome {
    /// Returns whether it ended before its time for a reason that is not its system's: it is to be run again.
    pub fn is_broken_off(&self) -> bool {
        matches!(self, Self::Interrupted | Self::MachineLost(_))
    }
}

/// One stage of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    /// Clients that worked.
    pub clients: u32,
    /// When its clients began, in seconds since the trial began.
    #[serde(default)]
    pub began: f64,
    /// When its measured window began, with clients connected and warm, in seconds since the trial
    /// began; `None` in records of format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_from: Option<f64>,
    /// Their measurement.
    pub measurement: Measurement,
    /// The rate that was tried, of a search for one, and whether it kept the objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<Tried>,
}

/// Usage of one process while the load ran.
///
/// Each field is one sum over the samples; a record stays flat, so that old ones load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The node's name, or `generator`.
    pub name: String,
    /// Mean CPU over the load, in percent of one core.
    pub cpu_mean_percent: f64,
    /// Most CPU in one sampling interval, in percent of one core.
    pub cpu_max_percent: f64,
    /// Most resident memory; `None` if it was not read within the measured windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_max_bytes: Option<u64>,
    /// Most resident memory in which pages that its processes share count once; `None` if it was not read
    /// within the measured windows, and in records of format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pss_max_bytes: Option<u64>,
    /// Most processes; 0 in records of format 1.
    #[serde(default)]
    pub processes_max: u64,
    /// Bytes written to disk.
    pub written_bytes: u64,
    /// Time that a CPU limit held its threads back; `None` where nothing limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_seconds: Option<f64>,
    /// Periods of its CPU limit in which it ran; `None` where nothing limits it, or where they were
    /// not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periods: Option<u64>,
    /// In how many of them its limit held it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periods_throttled: Option<u64>,
    /// Most threads.
    #[serde(default)]
    pub threads_max: u64,
    /// Most open files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files_max: Option<u64>,
    /// Bytes fetched from disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes sent over TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// Bytes received over TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
    /// Most disk space of its data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_bytes: Option<u64>,
    /// Subject of its figures, where the node's own metrics told them: CPU and resident memory alone, and all
    /// others are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics_of: Option<Metered>,
}

impl StageRecord {
    /// Returns from when to when it was measured, in seconds since the trial began. Of a record of format
    /// 1 the time that connecting took is not known, and left out. `warmup`: the load's.
    pub fn window(&self, warmup: Duration) -> (f64, f64) {
        let from = self.measured_from.unwrap_or(self.began + warmup.as_secs_f64());
        (from, from + self.measurement.window.as_secs_f64())
    }
}

impl TrialRecord {
    /// The stages that its figures are of: all, or of a search for a rate the try that its answer rests
    /// on. That is the last that kept the objective at the rate that was found, or at any where none was;
    /// where none did, the last of all.
    pub fn figured(&self) -> &[StageRecord] {
        self.stages.get(self.figured_places()).unwrap_or_default()
    }

    /// Returns the places of [`Self::figured`] among the stages.
    pub fn figured_places(&self) -> Range<usize> {
        if self.stages.iter().all(|stage| stage.tried.is_none()) {
            return 0..self.stages.len();
        }
        let found = match self.found {
            Some(Found::Rate(rate)) => Some(rate),
            _ => None,
        };
        let is_it = |tried: &Tried| tried.kept() && found.is_none_or(|rate| rate == tried.rate);
        let kept = |stage: &StageRecord| stage.tried.as_ref().is_some_and(is_it);
        let last = self.stages.len().saturating_sub(1);
        let place = self.stages.iter().rposition(kept).unwrap_or(last);
        place..place + 1
    }

    /// All stages that its figures are of as one; `None` when none was measured.
    pub fn measurement(&self) -> Option<Measurement> {
        let (first, later) = self.figured().split_first()?;
        let mut whole = first.measurement.clone();
        later.iter().for_each(|stage| whole.append(&stage.measurement));
        Some(whole)
    }

    /// Returns the cause for which its figures must not be used; `None` when they may be.
    ///
    /// Wrong answers and lost writes are the system's doing whatever else was amiss. For all else a
    /// disturbed machine is an excuse. A generator at its limit is none for failures: a system that
    /// fails at once keeps it busy.
    pub fn cause(&self) -> Option<Cause> {
        let failed = |verdict: &Verdict| verdict.failed();
        let checks = || self.checks.iter().filter(|check| failed(&check.verdict));
        if self.audits.iter().any(|audit| failed(&audit.verdict))
            || checks().any(|check| check.name.is_of_correctness())
        {
            return Some(Cause::System);
        }
        let ended = match &self.outcome {
            TrialOutcome::Completed => None,
            TrialOutcome::Interrupted => Some(Cause::User),
            TrialOutcome::Failed(_) => Some(Cause::System),
            TrialOutcome::MachineLost(_) => Some(Cause::Machine),
        };
        let causes: Vec<Cause> = checks().map(Check::cause).chain(ended).collect();
        // What the system may have done to the generator outranks what else the generator lacked.
        let unclear = checks().any(|check| check.cause == Some(Cause::Unclear));
        let order = [Cause::Machine, Cause::System, Cause::Generator, Cause::User, Cause::Unclear];
        let first = order.into_iter().find(|cause| causes.contains(cause));
        match first {
            Some(Cause::Generator | Cause::User) if unclear => Some(Cause::Unclear),
            first => first,
        }
    }

    /// Returns whether it failed before its servers were ready.
    pub fn never_ready(&self) -> bool {
        matches!(self.outcome, TrialOutcome::Failed(_)) && self.ready_after.is_zero()
    }

    /// Returns the reasons for which its figures must not be used; empty when they may be.
    pub fn invalid_because(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        match &self.outcome {
            TrialOutcome::Completed => {}
            TrialOutcome::Interrupted => reasons.push("interrupted before its end".to_owned()),
            TrialOutcome::Failed(why) | TrialOutcome::MachineLost(why) => reasons.push(why.clone()),
        }
        let audits = self.audits.iter().map(|audit| (audit.when.as_str(), &audit.verdict));
        let checks = self.checks.iter().map(|check| (check.name.as_str(), &check.verdict));
        for (name, verdict) in audits.chain(checks) {
            if let Verdict::Failed(why) = verdict {
                reasons.push(format!("{name}: {why}"));
            }
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts the cause of a trial that ended so, with these checks failed.
    fn check(ended: &str, failed: &[&str], audit_failed: bool, expected: Option<Cause>) {
        let verdict = serde_json::json!({"verdict": "failed", "why": "so"});
        let checks: Vec<_> = failed
            .iter()
            .map(|name| serde_json::json!({"name": name, "verdict": verdict}))
            .collect();
        let mut audits = Vec::new();
        if audit_failed {
            audits.push(Audit::new("later", Verdict::Failed("so".into())));
        }
        let mut outcome = serde_json::json!({"ended": ended});
        if ["failed", "machine-lost"].contains(&ended) {
            outcome["why"] = "it was not ready".into();
        }
        let trial: TrialRecord = serde_json::from_value(serde_json::json!({
            "trial": {"number": 0, "round": 0, "system": "s", "workload": "w", "load": "l", "seed": 1},
            "started": "", "ready_after": 1.0, "targets": [], "stages": [], "usage": [],
            "audits": audits, "checks": checks, "outcome": outcome
        }))
        .expect("it is a trial");
        assert_eq!(trial.cause(), expected, "{ended} {failed:?} {audit_failed}");
        assert_eq!(trial.cause().is_none(), trial.invalid_because().is_empty());
    }

    #[test]
    fn the_machine_excuses_failures_and_never_lost_or_wrong_data() {
        check("completed", &[], false, None);
        check("completed", &["errors"], false, Some(Cause::System));
        check("completed", &["errors", "neighbours"], false, Some(Cause::Machine));
        check("failed", &["disk"], false, Some(Cause::Machine));
        check("failed", &[], false, Some(Cause::System));
        check("machine-lost", &[], false, Some(Cause::Machine));
        check("machine-lost", &["errors"], false, Some(Cause::Machine));
        check("machine-lost", &[], true, Some(Cause::System));
        check("completed", &["answers", "steal"], false, Some(Cause::System));
        check("completed", &["steal"], true, Some(Cause::System));
    }

    #[test]
    fn a_busy_generator_excuses_no_failures() {
        check("completed", &["generator"], false, Some(Cause::Generator));
        check("completed", &["generator", "errors"], false, Some(Cause::System));
        check("completed", &["schedule", "stationary"], false, Some(Cause::Generator));
        check("completed", &["stationary"], false, Some(Cause::Unclear));
        check("completed", &["stationary", "servers"], false, Some(Cause::System));
        check("interrupted", &["stationary"], false, Some(Cause::User));
        check("interrupted", &["errors"], false, Some(Cause::System));
    }
}
