//! What a run leaves behind: JSON Lines, versioned, one line a trial.
//!
//! The first line tells what was asked, of whom, where and in which order; then comes a line for
//! each trial, written and synced as it ends; the last line says that the run ended by itself. All
//! that a report shows comes from here, so that it can be rendered again years later. A record whose
//! end is missing or torn is read as far as it goes, and what is wrong with it is told with its
//! line.
//!
//! Not here: files (the binary), tables (`report`). Every field: `docs/record-format.md`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::check::{Audit, Cause, CheckName, Verdict};
use crate::log_findings::NodeLog;
use crate::measurement::Measurement;
use crate::observed::Observed;
use crate::plan::Trial;
use crate::search::{Found, Tried};
use crate::study::{ReadConsistency, Study};
use crate::units;

/// The version of the format that this program writes. It reads this one and older ones.
pub const FORMAT: u32 = 2;

/// One line of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "line")]
#[allow(clippy::large_enum_variant, reason = "there are few lines, and they are boxed nowhere")]
pub enum Line {
    /// The first.
    Run(RunHeader),
    /// One for each trial.
    Trial(TrialRecord),
    /// The run went on here, after a crash or an interruption.
    Resumed(RunResumed),
    /// Trials were added to the order here, because those before scattered too much.
    Extended(RunExtended),
    /// The last, of a run that was not killed.
    End(RunEnd),
}

/// What was asked, of whom, where, in which order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// That program's version.
    pub bakeoff: String,
    /// When the run began, in UTC: `2026-11-21T20:24:50Z`.
    pub started: String,
    /// The study, with all defaults filled in.
    pub study: Study,
    /// What the order, the keys, the values and the arrivals follow from.
    pub seed: u64,
    /// The trials in the order in which they run. Read back, a gate's that was extended holds all of them.
    pub order: Vec<Trial>,
    /// The machine.
    pub environment: Environment,
    /// The contenders as they really are, in the study's order.
    pub systems: Vec<SystemRecord>,
    /// What a gate asks of the run, which is of two builds of one system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
}

/// What `bakeoff gate` asks: with the trials, all that it takes to judge the run again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// The study's name for the system of which `base` and `new` are builds.
    pub system: String,
    /// The conditions, as they were given; none asks for what stops a merge by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fail_if: Vec<String>,
    /// The loss that must not pass unnoticed, as a part of the base's figure.
    pub detect: f64,
    /// How many trials of each build there may be, where the scatter of those before asks for more; without
    /// it their number is fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials_max: Option<u32>,
}

/// The machine that a run took place on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// `Linux 6.1.0-18-amd64`.
    pub kernel: String,
    /// `Intel(R) Xeon(R) Processor`.
    pub cpu_model: String,
    /// CPUs that bakeoff may run on.
    pub cpus: u32,
    /// All memory.
    pub memory_bytes: u64,
    /// Type of the file system that holds the servers' data: `ext4`.
    pub file_system: String,
    /// Free space there when the run began.
    pub disk_free_bytes: u64,
    /// A 1 KiB append made durable there, before the run: median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_sync_median_us: Option<f64>,
    /// The same, 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_sync_p99_us: Option<f64>,
    /// How many files, sockets among them, bakeoff may have open.
    pub open_files_max: u64,
    /// Threads of the load generator.
    pub generator_threads: u32,
    /// Whether generator and servers share the machine, and its CPUs.
    pub shared_with_servers: bool,
    /// Whether bakeoff was told that others work on the machine, so that neighbours are not checked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared_machine: bool,
    /// What the machine itself can do, measured before the first trial.
    #[serde(
        rename = "floor",
        alias = "machine_baseline",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub machine_baseline: Option<MachineBaseline>,
}

/// The machine's own limits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineBaseline {
    /// Bytes of each append.
    pub append_bytes: u64,
    /// Durable appends to the disk that holds the servers' data, for each number of clients whose
    /// appends share one sync.
    pub appends: Vec<BaselineAppends>,
    /// Round trips over loopback to a server that does nothing, for each number of clients.
    pub round_trips: Vec<BaselineRoundTrips>,
}

/// Durable appends when so many wait for each sync (group commit).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BaselineAppends {
    /// Appends that share one sync.
    pub clients: u32,
    /// Appends made durable per second, by the median time of a write and its sync.
    pub per_second: f64,
    /// The same by the mean time, in which the slow ones are too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second_mean: Option<f64>,
    /// The least time that one write and its sync took, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quickest_us: Option<f64>,
}

/// Round trips over loopback to a server that does nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BaselineRoundTrips {
    /// Clients, each with one request under way.
    pub clients: u32,
    /// Round trips per second.
    pub per_second: f64,
    /// CPU time of the generator for each, in microseconds.
    pub generator_cpu_us: f64,
    /// CPU time of the server for each, in microseconds.
    pub server_cpu_us: f64,
}

/// A contender as it really is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemRecord {
    /// The study's name for it.
    pub name: String,
    /// `etcd`.
    pub kind: String,
    /// The program's or the running system's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where the program came from: `Debian package etcd-server 3.4.23+dfsg-4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// SHA-256 of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// When the program was built, or its version was made: `2024-10-29`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Whether it ran already and was only loaded.
    pub already_running: bool,
    /// What it is spoken to in, where that is TLS: the version that a running system agreed to,
    /// `TLS 1.3`, or `TLS` for one that is started so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_version: Option<String>,
    /// How its clients say who they are, beyond what TLS does: `a token with each request`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<String>,
    /// How what it is made of speaks to each other, where it says so: `mTLS, TLS 1.3`, `plain HTTP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<String>,
    /// Whether that is encrypted; records before it was kept say so in [`Self::between`] alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption_between: Option<Encryption>,
    /// Nodes.
    pub nodes: u32,
    /// What it guarantees.
    #[serde(rename = "promises", alias = "guarantees")]
    pub guarantees: Guarantees,
    /// Settings that depart from the system's own defaults, each with its reason.
    pub settings: Vec<Setting>,
    /// What else it is made of, in the order in which it is started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartRecord>,
}

/// A part of a system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartRecord {
    /// `storage`.
    pub role: String,
    /// What it is, as a system; its name is the system's and the role.
    #[serde(flatten)]
    pub part: SystemRecord,
}

/// What a system guarantees, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarantees {
    /// How data is replicated.
    pub replication: String,
    /// When a write is acknowledged.
    pub acknowledged: String,
    /// What reads may return, by how they are asked for.
    pub reads: String,
    /// Where a write is when it is acknowledged; `None` where that is not known: in records from
    /// before it was said, and of systems that bakeoff did not start and configure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_in: Option<Acknowledged>,
    /// What reads return, by how they are asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub freshness: BTreeMap<ReadConsistency, Freshness>,
}

/// Where a write is, at the least, when it is acknowledged. What is in a kernel's page cache
/// survives the program and not a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acknowledged {
    /// One node's own memory.
    Memory,
    /// The page cache of one node's kernel.
    PageCache,
    /// One node's disk.
    Disk,
    /// The own memory of a majority of the nodes.
    MajorityMemory,
    /// The page caches of a majority's kernels.
    MajorityPageCaches,
    /// A majority's disks.
    MajorityDisks,
}

/// What a read returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Freshness {
    /// The newest acknowledged value, as if there were one copy.
    Linearizable,
    /// What the leader has: old only if it was deposed and does not know yet.
    Leader,
    /// What the node asked has, which may be old.
    NodeAsked,
}

/// A setting that departs from a system's own default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// `maxClientCnxns`.
    pub name: String,
    /// `0`.
    pub value: String,
    /// Why it departs.
    pub reason: String,
}

/// One trial, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Which.
    pub trial: Trial,
    /// When it began, in UTC.
    pub started: String,
    /// From the first launch to a cluster with a leader.
    #[serde(default, with = "units::duration")]
    pub ready_after: Duration,
    /// Name of the node that led when the load began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// The nodes that clients connected to.
    pub targets: Vec<String>,
    /// Keys written before the load, unmeasured.
    #[serde(default)]
    pub filled: u64,
    /// What was measured, stage by stage.
    pub stages: Vec<StageRecord>,
    /// What each node and the generator used while the load ran.
    pub usage: Vec<Usage>,
    /// Reading back what was acknowledged.
    pub audits: Vec<Audit>,
    /// Everything else that was checked.
    pub checks: Vec<Check>,
    /// How it ended.
    pub outcome: Outcome,
    /// What was sampled from its beginning to its end.
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
    /// What its search for a rate came to; `None` where none was looked for, or not to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
    /// Of the first trial of a round but the first: the disk's durable appends, measured again before it.
    #[serde(
        rename = "floor_appends",
        alias = "baseline_appends",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub baseline_appends: Vec<BaselineAppends>,
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ended", content = "why")]
pub enum Outcome {
    /// As planned.
    Completed,
    /// The user ended it; what was measured by then is here.
    Interrupted,
    /// It could not go on.
    Failed(String),
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
    /// What they measured.
    pub measurement: Measurement,
    /// The rate that was tried, of a search for one, and whether it kept the objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<Tried>,
}

/// What one process used while the load ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The node's name, or `generator`.
    pub name: String,
    /// Mean CPU over the load, in percent of one core.
    pub cpu_mean_percent: f64,
    /// Most CPU in one sampling interval, in percent of one core.
    pub cpu_max_percent: f64,
    /// Most resident memory.
    pub rss_max_bytes: u64,
    /// Most resident memory in which pages that its processes share count once; `None` where that was not
    /// seen, and in records of format 1.
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
}

/// One thing that was checked about a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Which.
    pub name: CheckName,
    /// What was found.
    pub verdict: Verdict,
}

/// That a run went on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResumed {
    /// When, in UTC.
    pub resumed: String,
    /// Version of the program that went on with it.
    pub bakeoff: String,
}

/// That a gate was given more trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunExtended {
    /// When, in UTC.
    pub extended: String,
    /// How often each build is run in all, in place of the study's number.
    pub trials: u32,
    /// How often it was to be run before.
    pub before: u32,
    /// The trials that are added to the order.
    pub order: Vec<Trial>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// When, in UTC.
    pub ended: String,
    /// Whether all trials of the order were run.
    pub complete: bool,
}

/// Whether bytes on their way are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encryption {
    /// They are not.
    Plain,
    /// They are, by TLS.
    Tls,
}

impl SystemRecord {
    /// Returns whether what it is made of encrypts what it says to each other; `None` where nobody says.
    pub fn encryption_between(&self) -> Option<Encryption> {
        let of_words = |words: &String| match words.contains("TLS") {
            true => Encryption::Tls,
            false => Encryption::Plain,
        };
        self.encryption_between.or_else(|| self.between.as_ref().map(of_words))
    }

    /// Returns where an acknowledged write is; `None` for a system that somebody else configured.
    pub fn acknowledged_in(&self) -> Option<Acknowledged> {
        self.guarantees.acknowledged_in.filter(|_| !self.already_running)
    }
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
        if self.stages.iter().all(|stage| stage.tried.is_none()) {
            return &self.stages;
        }
        let found = match self.found {
            Some(Found::Rate(rate)) => Some(rate),
            _ => None,
        };
        let is_it = |tried: &Tried| tried.kept() && found.is_none_or(|rate| rate == tried.rate);
        let kept = |stage: &StageRecord| stage.tried.as_ref().is_some_and(is_it);
        let last = self.stages.len().saturating_sub(1);
        let place = self.stages.iter().rposition(kept).unwrap_or(last);
        self.stages.get(place..=place).unwrap_or_default()
    }

    /// All stages that its figures are of as one; `None` when none was measured.
    pub fn measurement(&self) -> Option<Measurement> {
        let (first, later) = self.figured().split_first()?;
        let mut whole = first.measurement.clone();
        later.iter().for_each(|stage| whole.append(&stage.measurement));
        Some(whole)
    }

    /// Whose doing it is that its figures must not be used; `None` when they may be.
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
            Outcome::Completed => None,
            Outcome::Interrupted => Some(Cause::User),
            Outcome::Failed(_) => Some(Cause::System),
        };
        let causes: Vec<Cause> = checks().map(|check| check.name.cause()).chain(ended).collect();
        let order = [Cause::Machine, Cause::System, Cause::Generator, Cause::User, Cause::Unclear];
        order.into_iter().find(|cause| causes.contains(cause))
    }

    /// Why its figures must not be used; empty when they may be.
    pub fn invalid_because(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        match &self.outcome {
            Outcome::Completed => {}
            Outcome::Interrupted => reasons.push("interrupted before its end".to_owned()),
            Outcome::Failed(why) => reasons.push(why.clone()),
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

/// A run, read back.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// What was asked.
    pub header: RunHeader,
    /// The trials that were run, in order.
    pub trials: Vec<TrialRecord>,
    /// When it went on after it had been interrupted or killed.
    pub resumed: Vec<RunResumed>,
    /// When a gate was given more trials.
    pub extended: Vec<RunExtended>,
    /// How it ended; `None` when it was killed.
    pub end: Option<RunEnd>,
}

impl Record {
    /// Adds a trial; one that was run again takes the place of what was broken off.
    fn take(&mut self, trial: TrialRecord) {
        self.trials.retain(|before| before.trial.number != trial.trial.number);
        self.trials.push(trial);
    }

    /// Adds trials to the order.
    fn extend(&mut self, by: RunExtended) {
        self.header.study.trials = by.trials;
        self.header.order.extend(by.order.iter().cloned());
        self.extended.push(by);
        self.end = None;
    }

    /// The trials of the order that were not run to their end, in order.
    pub fn missing(&self) -> Vec<Trial> {
        let is_there = |one: &&TrialRecord| one.outcome != Outcome::Interrupted;
        let done: Vec<u32> =
            self.trials.iter().filter(is_there).map(|one| one.trial.number).collect();
        self.header.order.iter().filter(|trial| !done.contains(&trial.number)).cloned().collect()
    }

    /// Returns whether every trial of the order is here and was run to its end.
    pub fn is_complete(&self) -> bool {
        self.missing().is_empty()
    }
}

/// Something wrong with a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "line {}: {}", self.line, self.what)
    }
}

/// One line of a record, as text with its newline.
pub fn write_line(line: &Line) -> String {
    let mut text = serde_json::to_string(line).expect("a record holds nothing that JSON cannot");
    text.push('\n');
    text
}

/// Reads a record as far as it can be read. Without a first line that makes sense nothing can.
pub fn read(text: &str) -> Result<(Record, Vec<Complaint>), Complaint> {
    let mut lines = (1..).zip(text.split_inclusive('\n'));
    let (_, first) =
        lines.next().ok_or(Complaint { line: 1, what: "the record is empty".into() })?;
    let header = read_header(first).map_err(|what| Complaint { line: 1, what })?;
    let mut record =
        Record { header, trials: Vec::new(), resumed: Vec::new(), extended: Vec::new(), end: None };
    let mut complaints = Vec::new();
    for (number, line) in lines {
        let complaint = |what: String| Complaint { line: number, what };
        match serde_json::from_str(line) {
            Ok(Line::Trial(trial)) => record.take(trial),
            // What ended before, did not.
            Ok(Line::Resumed(resumed)) => {
                record.resumed.push(resumed);
                record.end = None;
            }
            Ok(Line::Extended(extended)) => record.extend(extended),
            Ok(Line::End(end)) => record.end = Some(end),
            Ok(Line::Run(_)) => {
                // Its trials are not this run's.
                complaints.push(complaint("a second run begins here; the rest is ignored".into()));
                break;
            }
            Err(_) if !line.ends_with('\n') => {
                complaints.push(complaint("torn: the run was killed while it was written".into()));
            }
            Err(error) => complaints.push(complaint(format!("not a line of a record: {error}"))),
        }
    }
    Ok((record, complaints))
}

fn read_header(line: &str) -> Result<RunHeader, String> {
    #[derive(Deserialize)]
    struct Peek {
        format: u32,
    }
    let peek: Peek = serde_json::from_str(line)
        .map_err(|error| format!("this is no record of a run: {error}"))?;
    if peek.format > FORMAT {
        return Err(format!(
            "the record has format {}, and this program reads formats up to {FORMAT}; use a newer bakeoff",
            peek.format
        ));
    }
    match serde_json::from_str(line) {
        Ok(Line::Run(header)) => Ok(header),
        Ok(_) => Err("a record begins with its run, and this line is something else".into()),
        Err(error) => Err(format!("the run's description cannot be read: {error}")),
    }
}
