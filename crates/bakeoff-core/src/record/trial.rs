//! Defines the line of a trial: its stages, usage, audits, checks and outcome.
//!
//! Not here: the contents of a measurement (`crate::measurement`), the judgement of checks (`crate::check`).

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{BaselineAppends, Durability, Injection};
use crate::linearizability::judged_history::JudgedHistory;
use crate::log_findings::NodeLog;
use crate::measurement::Measurement;
use crate::memory::NodesMemory;
use crate::plan::Trial;
use crate::search::{FoundRate, TriedRate};
use crate::trial_samples::{MetricsSubject, TrialSamples};
use crate::units;
use crate::verdict::{Audit, Cause, Check, Verdict};

/// Holds one trial.
///
/// Each field belongs to the record's line, which stays flat, so that old ones load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialRecord {
    /// Planned trial.
    pub trial: Trial,
    /// Start of the trial, in UTC.
    pub started: String,
    /// Time from the first launch to a cluster with a leader.
    #[serde(default, with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub ready_after: Duration,
    /// True if the cluster was kept from an earlier trial or ran already, so nothing was launched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// Endpoints of a running cluster that accepted no connection and were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// True if another bakeoff used this machine during the trial.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub another_bakeoff: bool,
    /// True if it was skipped because its system had failed to start before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_tried: bool,
    /// Name of the leader when the load began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// Name of the leader after the load, if it was another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_after: Option<String>,
    /// Nodes that clients connected to.
    pub targets: Vec<String>,
    /// Keys written before the load, unmeasured.
    #[serde(default)]
    pub filled: u64,
    /// Measurements, stage by stage.
    pub stages: Vec<StageRecord>,
    /// Further runs of the load, each with a fault; empty for a study without faults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub injections: Vec<Injection>,
    /// Usage of each node and of the generator while the load ran.
    pub usage: Vec<Usage>,
    /// Memory of all nodes together; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<NodesMemory>,
    /// Results of reading back acknowledged writes.
    pub audits: Vec<Audit>,
    /// All other checks.
    pub checks: Vec<Check>,
    /// Verdict on the history of its operations; `None` unless the study checks linearizability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linearizability: Option<JudgedHistory>,
    /// Syncs observed for acknowledged writes of a system that claims disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// Outcome of the trial.
    pub outcome: TrialOutcome,
    /// Samples from start to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<TrialSamples>,
    /// Findings in the nodes' logs while the load ran; nodes without any are absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log_findings: Vec<NodeLog>,
    /// CPUs that the load generator was restricted to, separate from pinned nodes; empty without restriction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generator_cpus: Vec<u32>,
    /// Result of its search for a rate; `None` without a search, or if it did not end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<FoundRate>,
    /// Durable appends of the disk, measured again before the first trial of each later round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baseline_appends: Vec<BaselineAppends>,
    /// Machines of the run, if it has places, each with its own samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineTrial>,
}

/// Describes one of the machines of a run during a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineTrial {
    /// Name in the places file.
    pub name: String,
    /// Number of usable CPUs.
    pub cpus: u32,
    /// Servers on the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
    /// Its share in driving the load, stage by stage; empty if it drove none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generated: Vec<GeneratorPart>,
    /// Samples, with times counted from the start of the trial.
    pub observed: TrialSamples,
    /// Its clocks around the trial; `None` if the machine was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<MachineClock>,
}

/// Holds the wall clock minus the monotonic clock of one machine, in seconds. The difference between both times is the
/// time by which its wall clock was set, or the machine slept.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineClock {
    /// Before the trial.
    pub wall_before: f64,
    /// After the trial.
    pub wall_after: f64,
}

/// Describes one generator's share in a stage of a load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GeneratorPart {
    /// Its clients of the stage.
    pub clients: u32,
    /// Verified successes.
    pub verified: u64,
    /// Failures.
    pub errors: u64,
    /// Delay of its start after the agreed time, in microseconds, by its own clock.
    pub late_us: f64,
    /// Possible error of its clock in microseconds: half of the shortest round trip.
    pub clock_error_us: f64,
    /// CPU time of its process during the window.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub cpu: Duration,
    /// CPU share of its busiest thread.
    pub busiest: f64,
    /// CPUs that it was restricted to if servers of its machine are pinned to others; empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// Reason why pinned servers on its machine did not have their CPUs to themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_apart: Option<String>,
}

/// Names the outcome of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "ended", content = "why")]
pub enum TrialOutcome {
    /// The trial ran as planned.
    Completed,
    /// The user interrupted it; the measurements so far are kept.
    Interrupted,
    /// The trial could not continue, for this reason.
    Failed(String),
    /// A machine of the run was lost, so nothing is known about the system.
    MachineLost(String),
}

impl TrialOutcome {
    /// Returns true if it ended early for a reason outside its system, and must run again.
    pub fn is_broken_off(&self) -> bool {
        matches!(self, Self::Interrupted | Self::MachineLost(_))
    }
}

/// Describes one stage of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageRecord {
    /// Number of clients.
    pub clients: u32,
    /// Time at which its clients began, in seconds since the trial began.
    #[serde(default)]
    pub began: f64,
    /// Start of its measured window, with clients connected and warm, in seconds since the trial began; `None` if it
    /// never began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_from: Option<f64>,
    /// Measurement of the stage.
    pub measurement: Measurement,
    /// Tried rate of a search and its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<TriedRate>,
}

/// Describes the usage of one process while the load ran.
///
/// Each field is one sum over the samples. A record stays flat, so that old ones load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// Name of the node, or `generator`.
    pub name: String,
    /// Mean CPU over the load, in percent of one core.
    pub cpu_mean_percent: f64,
    /// Maximum CPU in one sampling interval, in percent of one core.
    pub cpu_max_percent: f64,
    /// Maximum resident memory; `None` if it was not read within the measured windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_max_bytes: Option<u64>,
    /// Maximum resident memory, counting pages shared by its processes once. `None` if it was not read within the
    /// measured windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pss_max_bytes: Option<u64>,
    /// Maximum number of processes.
    pub processes_max: u64,
    /// Bytes written to disk.
    pub written_bytes: u64,
    /// Time for which a CPU limit throttled its threads; `None` without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_seconds: Option<f64>,
    /// Periods of its CPU limit in which it ran; `None` without a limit, or if they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periods: Option<u64>,
    /// Periods in which its CPU limit throttled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periods_throttled: Option<u64>,
    /// Maximum number of threads.
    #[serde(default)]
    pub threads_max: u64,
    /// Maximum number of open files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files_max: Option<u64>,
    /// Bytes read from disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes sent over TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// Bytes received over TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
    /// Maximum disk space of its data directory in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_bytes: Option<u64>,
    /// Subject of the figures, if they come from the node's own metrics. Then only CPU and resident memory are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics_of: Option<MetricsSubject>,
}

impl StageRecord {
    /// Returns the measured interval, in seconds since the trial began. `warmup` is the load's, for
    /// a stage whose measured window never began.
    pub fn window(&self, warmup: Duration) -> (f64, f64) {
        let from = self.measured_from.unwrap_or(self.began + warmup.as_secs_f64());
        (from, from + self.measurement.window.as_secs_f64())
    }
}

impl TrialRecord {
    /// Returns the stages that the trial's figures come from. These are all stages, or for a search the try that its
    /// answer rests on: the last one that kept the objective at the found rate, or at any rate if none was found, or
    /// else the last of all.
    pub fn figured(&self) -> &[StageRecord] {
        self.stages.get(self.figured_places()).unwrap_or_default()
    }

    /// Returns the range of [`Self::figured`] among the stages.
    pub fn figured_places(&self) -> Range<usize> {
        if self.stages.iter().all(|stage| stage.tried.is_none()) {
            return 0..self.stages.len();
        }
        let found = match self.found {
            Some(FoundRate::Rate(rate)) => Some(rate),
            _ => None,
        };
        let is_it = |tried: &TriedRate| tried.kept() && found.is_none_or(|rate| rate == tried.rate);
        let kept = |stage: &StageRecord| stage.tried.as_ref().is_some_and(is_it);
        let last = self.stages.len().saturating_sub(1);
        let place = self.stages.iter().rposition(kept).unwrap_or(last);
        place..place + 1
    }

    /// Returns the combined measurement of the stages in [`Self::figured`]; `None` without one.
    pub fn measurement(&self) -> Option<Cow<'_, Measurement>> {
        let (first, later) = self.figured().split_first()?;
        let mut whole = Cow::Borrowed(&first.measurement);
        later.iter().for_each(|stage| whole.to_mut().append(&stage.measurement));
        Some(whole)
    }

    /// Returns the audits after the load and those after each injection.
    pub fn all_audits(&self) -> impl Iterator<Item = &Audit> {
        self.audits.iter().chain(self.injections.iter().filter_map(|one| one.audit.as_ref()))
    }

    /// Returns the cause of an invalid trial; `None` if it is valid.
    ///
    /// Wrong answers and lost writes are always the system's fault. For all other failures a disturbed machine is an
    /// excuse. A generator at its limit does not excuse failures, because a system that fails at once keeps it busy.
    pub fn cause(&self) -> Option<Cause> {
        let failed = |verdict: &Verdict| verdict.failed();
        let checks = || self.checks.iter().filter(|check| failed(&check.verdict));
        if self.all_audits().any(|audit| failed(&audit.verdict))
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
        // A possible effect of the system on the generator outranks other limits of the generator.
        let unclear = checks().any(|check| check.cause == Some(Cause::Unclear));
        let order = [Cause::Machine, Cause::System, Cause::Generator, Cause::User, Cause::Unclear];
        let first = order.into_iter().find(|cause| causes.contains(cause));
        match first {
            Some(Cause::Generator | Cause::User) if unclear => Some(Cause::Unclear),
            first => first,
        }
    }

    /// Returns true if it failed before its servers were ready.
    pub fn never_ready(&self) -> bool {
        matches!(self.outcome, TrialOutcome::Failed(_)) && self.ready_after.is_zero()
    }

    /// Returns why its figures must not be used; empty for a valid trial.
    pub fn invalid_because(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        match &self.outcome {
            TrialOutcome::Completed => {}
            TrialOutcome::Interrupted => reasons.push("interrupted before its end".to_owned()),
            TrialOutcome::Failed(why) | TrialOutcome::MachineLost(why) => reasons.push(why.clone()),
        }
        let audits = self.all_audits().map(|audit| (audit.when.as_str(), &audit.verdict));
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

    /// Asserts the cause of a trial with this outcome and these failed checks.
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
    fn machine_excuses_failures_but_never_lost_or_wrong_data() {
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
    fn busy_generator_does_not_excuse_failures() {
        check("completed", &["generator"], false, Some(Cause::Generator));
        check("completed", &["generator", "errors"], false, Some(Cause::System));
        check("completed", &["schedule", "stationary"], false, Some(Cause::Generator));
        check("completed", &["stationary"], false, Some(Cause::Unclear));
        check("completed", &["stationary", "servers"], false, Some(Cause::System));
        check("interrupted", &["stationary"], false, Some(Cause::User));
        check("interrupted", &["errors"], false, Some(Cause::System));
    }
}
