//! Builds small, deterministic records.

use std::collections::BTreeMap;
use std::time::Duration;

use bakeoff_core::check::{Audit, CheckName, Verdict};
use bakeoff_core::histogram::Latencies;
use bakeoff_core::measurement::{
    ErrorKind, Example, Measurement, OperationFigures, Second, SecondFigures,
};
use bakeoff_core::memory::{MemoryOf, NodesMemory};
use bakeoff_core::plan;
use bakeoff_core::record::chain::Chain;
use bakeoff_core::record::{
    AckLocation, BaselineAppends, BaselineRoundTrips, Check, Environment, FORMAT, Freshness,
    Guarantees, MachineBaseline, Record, RecordLine, RunEnd, RunHeader, Setting, StageRecord,
    SystemRecord, TrialOutcome, TrialRecord, Usage,
};
use bakeoff_core::study::{
    Arrivals, Clusters, KeyOrder, Keys, LinearizabilityCheck, Load, Operation, Payload,
    ReadConsistency, Routing, Stop, Study, System, Targets, ValueSizes, Workload,
};
use bakeoff_core::watch::{
    GuaranteeOutcome, GuaranteeState, WatchCounts, WatchFigures, WatchGuarantee,
};
use bakeoff_report::{Report, html};

pub(crate) const KILLED: &str = "after kill -9 and restart of all nodes";

/// Returns the lines of a record as in its file.
pub(crate) fn lines_of(record: &Record) -> Vec<String> {
    let mut lines = vec![RecordLine::Run(record.header.clone())];
    lines.extend(record.trials.iter().cloned().map(RecordLine::Trial));
    lines.extend(record.end.clone().map(RecordLine::End));
    let mut chain = Chain::default();
    lines.iter().map(|line| chain.link(line)).collect()
}

/// Returns the text of a record's file.
pub(crate) fn text_of(record: &Record) -> String {
    lines_of(record).concat()
}

/// Renders a record as a page.
pub(crate) fn page_of(record: &Record) -> String {
    html(&Report::new(record), record, text_of(record).as_bytes())
}

/// Returns a study of these systems with one workload and load.
pub(crate) fn study(systems: &[&str], workload: Workload, load: Load, trials: u32) -> Study {
    let system = |name: &&str| System {
        name: (*name).to_owned(),
        kind: (*name).to_owned(),
        version: None,
        program: None,
        nodes: 3,
        options: BTreeMap::new(),
        limits: None,
        servers: Default::default(),
        metrics: Vec::new(),
        tls: None,
        credentials: None,
        parts: BTreeMap::new(),
        process: None,
    };
    Study {
        name: "made-up".to_owned(),
        title: "A made-up comparison".to_owned(),
        description: None,
        systems: systems.iter().map(system).collect(),
        workloads: vec![workload],
        loads: vec![load],
        question: None,
        faults: Vec::new(),
        repeat: 1,
        trials,
        audit_keys: 1000,
        kill: None,
        linearizability: LinearizabilityCheck::Off,
        power_cuts: None,
        bit_flip: None,
        sample_every: Duration::from_secs(1),
        clusters: Clusters::Fresh,
        publication: None,
        published: Vec::new(),
        quick: None,
        is_quick: false,
        scale: 1.0,
    }
}

pub(crate) fn workload(name: &str, mix: &[(Operation, u32)], load: &str) -> Workload {
    Workload {
        name: name.to_owned(),
        mix: mix.iter().copied().collect(),
        keys: Keys { count: 10_000, size: 256, order: KeyOrder::Unique, per_directory: 0 },
        payload: Payload::Values(ValueSizes::Fixed(1024)),
        with: BTreeMap::new(),
        reads: ReadConsistency::Linearizable,
        fill: false,
        watchers: None,
        loads: vec![load.to_owned()],
        systems: Vec::new(),
    }
}

pub(crate) fn closed(name: &str, clients: &[u32], stop: Stop) -> Load {
    Load {
        name: name.to_owned(),
        clients: clients.to_vec(),
        clients_for: BTreeMap::new(),
        arrivals: Arrivals::Closed,
        in_flight: 1,
        stop,
        warmup: Duration::from_secs(1),
        timeout: Duration::from_secs(10),
        targets: Routing::Same(Targets::All),
        keep_alive: true,
        tls_resumption: true,
        errors_max: 0.1,
        find: None,
    }
}

/// Returns a record of this study without trials.
pub(crate) fn record(study: Study) -> Record {
    let systems = study.systems.iter().map(|system| described(&system.name)).collect();
    let order = plan::plan(&study, 42);
    Record {
        header: RunHeader {
            format: FORMAT,
            bakeoff: "0.1.0".to_owned(),
            bakeoff_sha256: None,
            started: "2026-11-21T20:24:50Z".to_owned(),
            study,
            source: None,
            seed: 42,
            order,
            environment: Environment {
                host: None,
                machine_id: None,
                kernel: "Linux 6.1.0-18-amd64".to_owned(),
                cpu_model: "Made-up Processor".to_owned(),
                cpus: 2,
                memory_bytes: 8 << 30,
                file_system: "ext4".to_owned(),
                disk_free_bytes: 100 << 30,
                disk_sync_least_us: None,
                disk_sync_median_us: Some(342.0),
                disk_sync_p99_us: Some(1240.0),
                open_files_max: 1 << 20,
                generator_threads: 2,
                shared_with_servers: true,
                shared_machine: false,
                hardware: None,
                machine_baseline: None,
                machines: Vec::new(),
                network: Vec::new(),
            },
            systems,
            rounds: bakeoff_core::record::RoundCount::Fixed,
            gate: None,
        },
        trials: Vec::new(),
        resumed: Vec::new(),
        extended: Vec::new(),
        end: Some(RunEnd {
            ended: "2026-11-21T20:30:00Z".to_owned(),
            complete: true,
            answered_after: None,
        }),
    }
}

/// Returns the baseline of a machine whose disk syncs 400 times a second.
pub(crate) fn machine_baseline(clients: &[u32]) -> MachineBaseline {
    let appends = |&clients: &u32| BaselineAppends {
        clients,
        per_second: 400.0 * f64::from(clients),
        per_second_mean: None,
        quickest_us: Some(1000.0),
    };
    let round_trips = |&clients: &u32| BaselineRoundTrips {
        clients,
        per_second: 10_000.0 * f64::from(clients).sqrt(),
        generator_cpu_us: 12.0,
        server_cpu_us: 10.0,
    };
    MachineBaseline {
        append_bytes: 1280,
        appends: clients.iter().map(appends).collect(),
        round_trips: clients.iter().map(round_trips).collect(),
    }
}

fn described(name: &str) -> SystemRecord {
    SystemRecord {
        name: name.to_owned(),
        kind: name.to_owned(),
        version: Some("3.6.1".to_owned()),
        source: Some(format!("Go module {name}.example/server@v3.6.1")),
        sha256: Some("0123456789abcdef".repeat(4)),
        date: None,
        upgrade: None,
        already_running: false,
        tls_version: None,
        between: None,
        encryption_between: None,
        nodes: 3,
        guarantees: Guarantees {
            replication: "to a majority of 3 nodes".to_owned(),
            acknowledged: "when it is on the disks of a majority".to_owned(),
            reads: "linearizable, or stale from one node".to_owned(),
            acknowledged_in: Some(AckLocation::MajorityDisks),
            claimed_in: None,
            freshness: BTreeMap::from([
                (ReadConsistency::Linearizable, Freshness::Linearizable),
                (ReadConsistency::Stale, Freshness::NodeAsked),
            ]),
        },
        parts: Vec::new(),
        authentication: None,
        settings: vec![Setting {
            name: "max-connections".to_owned(),
            value: "0".to_owned(),
            reason: "its default of 60 is fewer than the load's clients".to_owned(),
        }],
    }
}

impl Trials for Record {}

/// Adds trials to a record.
pub(crate) trait Trials: AsRecord {
    /// Adds the next planned trial of a system, with these stages (clients, measurement).
    fn run(&mut self, system: &str, stages: Vec<(u32, Measurement)>) -> &mut TrialRecord {
        let record = self.record();
        let done = |number: u32| record.trials.iter().any(|trial| trial.trial.number == number);
        let next = |trial: &&plan::Trial| trial.system == system && !done(trial.number);
        let trial = record.header.order.iter().find(next).expect("a planned trial").clone();
        record.trials.push(TrialRecord {
            trial,
            started: "2026-11-21T20:25:00Z".to_owned(),
            ready_after: Duration::from_millis(850),
            kept: false,
            another_bakeoff: false,
            not_tried: false,
            missing: Vec::new(),
            leader: Some(format!("{system}-1")),
            leader_after: None,
            targets: (1..=3).map(|node| format!("{system}-{node}")).collect(),
            filled: 0,
            stages: stages
                .into_iter()
                .map(|(clients, measurement)| StageRecord {
                    clients,
                    began: 0.0,
                    measured_from: None,
                    measurement,
                    tried: None,
                })
                .collect(),
            injections: Vec::new(),
            usage: usage(system),
            memory: Some(NodesMemory {
                of: MemoryOf::Resident,
                sum_max_bytes: 600_000_000,
                node_max_bytes: 300_000_000,
                moments: 10,
                private_sum_max_bytes: None,
            }),
            audits: vec![audit("after the load"), audit(KILLED)],
            checks: vec![Check::new(CheckName::Limits, Verdict::Passed)],
            linearizability: None,
            outcome: TrialOutcome::Completed,
            observed: None,
            log_findings: Vec::new(),
            generator_cpus: Vec::new(),
            found: None,
            baseline_appends: Vec::new(),
            durability: None,
            machines: Vec::new(),
        });
        record.trials.last_mut().expect("the trial just added")
    }
}

pub(crate) trait AsRecord {
    fn record(&mut self) -> &mut Record;
}

impl AsRecord for Record {
    fn record(&mut self) -> &mut Record {
        self
    }
}

fn usage(system: &str) -> Vec<Usage> {
    let node = |number: u32| Usage {
        name: format!("{system}-{number}"),
        cpu_mean_percent: 50.0,
        cpu_max_percent: f64::from(100 + number * 10),
        rss_max_bytes: Some(u64::from(number) * 100_000_000),
        written_bytes: 1 << 20,
        ..Usage::default()
    };
    let generator = Usage { name: "generator".into(), cpu_mean_percent: 31.4, ..node(9) };
    (1..=3).map(node).chain([generator]).collect()
}

pub(crate) fn audit(when: &str) -> Audit {
    Audit { acknowledged: 10_000, read: 1000, ..Audit::new(when, Verdict::Passed) }
}

/// Returns `count` latencies from `least` to about 11 times that, most of them short.
fn latencies(count: u64, least: Duration) -> Latencies {
    let mut latencies = Latencies::default();
    for number in 0..count {
        let place = (number as f64 + 0.5) / count as f64;
        latencies.record(least.mul_f64(1.0 + 10.0 * place.powi(8)));
    }
    latencies
}

/// Returns a measurement of one operation at `rate` per second for `window`.
pub(crate) fn measured(op: &str, rate: u64, window: Duration, fastest: Duration) -> Measurement {
    let seconds = window.as_secs_f64().ceil() as u32;
    let in_second = |second: u32| rate - rate / 10 + u64::from(second % 3) * (rate / 10);
    let verified = (0..seconds).map(in_second).sum();
    let latencies = latencies(verified, fastest);
    let figures = OperationFigures {
        verified,
        verified_in_window: verified,
        response: latencies.clone(),
        service: latencies.clone(),
        ..OperationFigures::default()
    };
    let slice = |second: u32| Second {
        second,
        operations: BTreeMap::from([(
            op.to_owned(),
            SecondFigures {
                verified: in_second(second),
                errors: 0,
                response: Latencies::default().pack(),
                service: Latencies::default().pack(),
                failed: None,
            },
        )]),
    };
    Measurement {
        window,
        operations: BTreeMap::from([(op.to_owned(), figures)]),
        seconds: (0..seconds).map(slice).collect(),
        generator_threads: 2,
        ..Measurement::default()
    }
}

/// Returns what 1,000 watchers of `writes` writes observed: the median one knew a write after `soonest`. All guarantees
/// of `promised` are kept, and each watcher observed `share` of the versions.
pub(crate) fn watched(
    writes: u64,
    soonest: Duration,
    share: f64,
    promised: &[WatchGuarantee],
) -> WatchFigures {
    let state = |guarantee: &WatchGuarantee| match guarantee {
        of if !promised.contains(of) => GuaranteeState::NotPromised(0),
        WatchGuarantee::Atomic | WatchGuarantee::Resumable => GuaranteeState::NotReached,
        _ => GuaranteeState::Kept,
    };
    let outcome =
        |&guarantee: &WatchGuarantee| GuaranteeOutcome { guarantee, state: state(&guarantee) };
    let expected = writes * 1000;
    let delivered = (expected as f64 * share).round() as u64;
    let times = |least: Duration| match share {
        1.0 => latencies(writes, least),
        // No write reached all watchers.
        _ => Latencies::default(),
    };
    WatchFigures {
        watchers: 1000,
        connections: 30,
        setup: Duration::from_millis(400),
        counts: WatchCounts { events: delivered, expected, delivered, ..WatchCounts::default() },
        guarantees: WatchGuarantee::ALL.iter().map(outcome).collect(),
        known: latencies(writes * 10, soonest),
        first: times(soonest / 4),
        last: times(soonest * 3 / 2),
        due_to_last: times(soonest * 2),
        after_acknowledgement: times(soonest),
        before_acknowledgement: writes / 4,
        timed: writes,
        requests: 0,
        bytes_received: delivered * 312,
        cpu: Duration::from_micros(delivered),
        receive_lag: latencies(100, Duration::from_micros(20)),
        longest_silence: Duration::from_millis(45),
        interruptions: Vec::new(),
        alone: Latencies::default(),
        catch_up: None,
        server_memory: None,
    }
}

/// Adds `count` errors of one kind.
pub(crate) fn failing(mut of: Measurement, op: &str, kind: ErrorKind, count: u64) -> Measurement {
    let figures = of.operations.get_mut(op).expect("a measured operation");
    let example = || Example {
        at_seconds: 1.25,
        node: "127.0.0.1:2379".to_owned(),
        what: "answered \u{1b}[31m`busy`|now\u{1b}[0m".to_owned(),
    };
    (0..count).for_each(|_| figures.count_error(kind, example));
    let waits = match kind {
        ErrorKind::Timeout | ErrorKind::Refused | ErrorKind::Dropped => &mut figures.unanswered,
        _ => &mut figures.failed,
    };
    waits.record_many(Duration::from_millis(250), count);
    if kind == ErrorKind::Timeout {
        figures.unanswered_service.record_many(Duration::from_millis(250), count);
    }
    of
}
