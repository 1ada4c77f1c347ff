//! Builds a large record with everything that a page shows: three systems, eight loads, five trials of thirty seconds,
//! sampled nodes, a machine baseline and published figures.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use bakeoff_core::check::{CheckName, Verdict};
use bakeoff_core::histogram::{Latencies, PackedLatencies};
use bakeoff_core::measurement::{ErrorKind, Measurement, OperationFigures, Second, SecondFigures};
use bakeoff_core::plan::Trial;
use bakeoff_core::record::{BaselineAppends, BaselineRoundTrips, Check, MachineBaseline, Record};
use bakeoff_core::study::{Arrivals, Load, Metric, Operation, Publication, PublishedValue, Stop};
use bakeoff_core::trial_samples::{Column, Phase, Series, TrialSamples};

use super::building::{Trials as _, closed, failing, record, study, workload};

/// Start of the clients, in seconds of the trial.
const BEGAN: f64 = 3.2;
const WARMUP: u64 = 5;
const SECONDS: u64 = 30;

/// Returns a deterministic pseudo-random number from 0 to 1.
fn noise(seed: u64) -> f64 {
    let mixed = (seed ^ 0x9e37_79b9).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 32)) >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns two thousand latencies of a second, most of them near 1 ms.
fn second(seed: u64, scale: f64) -> Latencies {
    let mut latencies = Latencies::default();
    for number in 0..2000 {
        let place = noise(seed * 7919 + number);
        let long = if place > 0.995 { 30.0 * (place - 0.995) / 0.005 } else { 0.0 };
        let ms = scale * (0.6 + 0.8 * noise(number * 31 + seed) + long);
        latencies.record(Duration::from_secs_f64(ms / 1e3));
    }
    latencies
}

/// Caches a few seconds, because packing histograms takes most of the time.
static SECOND: LazyLock<Vec<[(Latencies, PackedLatencies); 3]>> = LazyLock::new(|| {
    let of = |seed: u64, scale: f64| {
        let latencies = second(seed, scale);
        let packed = latencies.pack();
        (latencies, packed)
    };
    (0..10).map(|seed| [1.0, 1.7, 2.4].map(|scale| of(seed, scale))).collect()
});

/// Returns a stage at about `rate` puts per second.
fn measured(system: usize, trial: u64, rate: u64, length: u64) -> Measurement {
    let mut figures = OperationFigures::default();
    let mut seconds = Vec::new();
    for number in 0..length {
        let (latencies, packed) = &SECOND[((number + trial) % 10) as usize][system];
        let verified = (rate as f64 * (0.92 + 0.16 * noise(trial * 100 + number))) as u64;
        figures.verified += verified;
        figures.response.merge(latencies);
        figures.service.merge(latencies);
        let one = SecondFigures {
            verified,
            errors: 0,
            response: packed.clone(),
            service: packed.clone(),
            failed: None,
        };
        let operations = BTreeMap::from([("put".to_owned(), one)]);
        seconds.push(Second { second: number as u32, operations });
    }
    figures.verified_in_window = figures.verified;
    Measurement {
        window: Duration::from_secs(length),
        operations: BTreeMap::from([("put".to_owned(), figures)]),
        seconds,
        generator_threads: 2,
        ..Measurement::default()
    }
}

/// Returns samples of three nodes, the generator and the machine, once a second.
pub(crate) fn observed(system: &str, seed: u64) -> TrialSamples {
    let end = BEGAN + (WARMUP + SECONDS) as f64;
    let phase = |name: &str, from: f64, to: f64| Phase { name: name.to_owned(), from, to };
    let at: Vec<f64> = (0..47).map(f64::from).collect();
    let counter = |rate: f64, seed: u64| -> Vec<f64> {
        let mut sum = 0.0;
        let grown = at.iter().map(|time| {
            let busy = if *time > BEGAN && *time < end { 1.0 } else { 0.1 };
            sum += rate * busy * (0.8 + 0.4 * noise(seed + *time as u64));
            (sum * 1000.0f64).round() / 1000.0
        });
        grown.collect()
    };
    let series = |name: String, share: f64, seed: u64| Series {
        columns: BTreeMap::from([
            (Column::CpuUser, counter(0.35 * share, seed)),
            (Column::CpuSystem, counter(0.15 * share, seed + 1)),
            (Column::CpuWait, counter(0.02, seed + 7)),
            (Column::Resident, at.iter().map(|t| 6e7 + 1e6 * share * t.round()).collect()),
            (Column::Threads, at.iter().map(|_| 12.0).collect()),
            (Column::OpenFiles, at.iter().map(|_| 130.0).collect()),
            (Column::SwitchesVoluntary, counter(9000.0, seed + 5)),
            (Column::DiskWritten, counter(3e6 * share, seed + 2)),
            (Column::DiskRead, counter(10.0, seed + 6)),
            (Column::SocketSent, counter(2e6 * share, seed + 3)),
            (Column::SocketReceived, counter(3e6 * share, seed + 4)),
        ]),
        name,
        at: at.clone(),
    };
    let node = |number: u64| {
        series(format!("{system}-{number}"), 1.0 / number as f64, seed + 100 * number)
    };
    TrialSamples {
        interval: Duration::from_secs(1),
        cost: Duration::from_millis(90),
        phases: vec![
            phase("starting", 0.0, 2.1),
            phase("filling", 2.1, BEGAN),
            phase("load", BEGAN, end),
            phase("reading back", end, end + 2.0),
            phase("killing and restarting", end + 2.0, end + 4.5),
            phase("reading back", end + 4.5, end + 6.5),
            phase("stopping", end + 6.5, end + 7.0),
        ],
        nodes: (1..=3).map(node).chain([series("generator".into(), 0.8, seed + 900)]).collect(),
        machine: Series {
            name: "machine".into(),
            columns: BTreeMap::from([
                (Column::Busy, counter(1.4, seed)),
                (Column::Steal, counter(0.02, seed + 1)),
                (Column::DiskBusy, counter(0.6, seed + 2)),
            ]),
            at: at.clone(),
        },
        ..TrialSamples::default()
    }
}

pub(crate) fn machine_baseline() -> MachineBaseline {
    let clients = [1, 10, 100, 1000];
    MachineBaseline {
        append_bytes: 1024,
        appends: clients
            .map(|clients| BaselineAppends {
                clients,
                per_second: 2400.0 * f64::from(clients).powf(0.4),
                per_second_mean: None,
                quickest_us: Some(310.0),
            })
            .to_vec(),
        round_trips: clients
            .map(|clients| BaselineRoundTrips {
                clients,
                per_second: 21_000.0 * f64::from(clients).powf(0.3),
                generator_cpu_us: 9.2,
                server_cpu_us: 6.1,
            })
            .to_vec(),
    }
}

/// Returns a record of six closed loads, a sweep and an open load. A trial of each system fails a check.
pub(crate) fn large() -> Record {
    with(|_| true)
}

/// Returns the same run, ended after `trials` trials.
pub(crate) fn first(trials: u32) -> Record {
    with(|trial| trial.number < trials)
}

/// Returns the same run with the trials of one load.
pub(crate) fn under(load: &str) -> Record {
    with(|trial| trial.load == load)
}

/// Returns the same run with the trials that `run` selects.
fn with(run: impl Fn(&Trial) -> bool) -> Record {
    let stop = Stop::After(Duration::from_secs(SECONDS));
    let warmup = Duration::from_secs(WARMUP);
    let load = |name: String, clients: &[u32]| Load { warmup, ..closed(&name, clients, stop) };
    let mut loads: Vec<Load> =
        [1, 4, 16, 64, 256, 1000].map(|clients| load(format!("c{clients}"), &[clients])).to_vec();
    loads.push(Load { warmup: Duration::ZERO, ..load("sweep".into(), &[1, 10, 100, 400, 1000]) });
    let arrivals = Arrivals::Poisson { rate: 1000.0 };
    loads.push(Load { arrivals, ..load("offered".into(), &[100]) });

    let mut put = workload("create", &[(Operation::Put, 1)], "");
    put.loads = loads.iter().map(|load| load.name.clone()).collect();
    let systems = ["etcd", "zookeeper", "consul"];
    let mut study = study(&systems, put, loads[0].clone(), 5);
    study.loads = loads;
    study.title = "etcd, ZooKeeper and Consul under write load".to_owned();
    study.publication = Some(Publication {
        title: "dbtester 2017Q1".to_owned(),
        hardware: "3 servers and 1 client machine of 16 vCPUs".to_owned(),
        versions: None,
    });
    let published = |system: &str, load: &str, metric, value| PublishedValue {
        system: system.to_owned(),
        workload: "create".to_owned(),
        load: load.to_owned(),
        operation: None,
        fault: None,
        metric,
        value,
        note: None,
    };
    study.published = vec![
        published("etcd", "c64", Metric::ThroughputMean, 2921.0),
        published("zookeeper", "c64", Metric::ThroughputMean, 34_000.0),
        published("etcd", "c64", Metric::LatencyP99Ms, 12.0),
    ];
    let mut record = record(study);
    record.header.environment.machine_baseline = Some(machine_baseline());
    for trial in record.header.order.clone().into_iter().filter(run) {
        let number = trial.number;
        let place = systems.iter().position(|name| *name == trial.system).expect("it is one");
        let clients = record.header.study.loads.iter().find(|load| load.name == trial.load);
        let clients = clients.expect("it is the study's").clients.clone();
        let base = [900.0, 1300.0, 500.0][place];
        let rate = |clients: u32| (base * (1.0 + f64::from(clients)).powf(0.25)) as u64;
        let length = SECONDS / clients.len() as u64;
        let stages = clients
            .iter()
            .map(|&clients| (clients, measured(place, u64::from(number), rate(clients), length)));
        let stages: Vec<(u32, Measurement)> = stages.collect();
        let one = record.run(&trial.system, stages);
        one.trial.clone_from(&trial);
        one.observed = Some(observed(&trial.system, u64::from(number)));
        for (nth, stage) in one.stages.iter_mut().enumerate() {
            stage.began = BEGAN + (nth as u64 * length) as f64;
        }
        if trial.round == 2 && trial.load == "c64" {
            let why = "the generator's busiest thread used 97 % of its CPU".to_owned();
            one.checks.push(Check::new(CheckName::Generator, Verdict::Failed(why)));
        }
        if trial.round == 1 && trial.load == "c256" && place == 1 {
            let stage = &mut one.stages[0].measurement;
            *stage = failing(stage.clone(), "put", ErrorKind::Timeout, 37);
        }
    }
    record.trials.sort_by_key(|trial| trial.trial.number);
    record
}

/// Returns a record with hostile texts: markup, scripts and control characters.
pub(crate) fn hostile() -> Record {
    let mut record = first(6);
    let script = "</title></script><script>document.title = 'run'</script>\u{1b}[31m\u{202e}\u{0}";
    record.header.study.title = script.to_owned();
    record.header.study.description = Some(script.to_owned());
    record.header.systems[0].version = Some(script.to_owned());
    record.header.systems[0].settings[0].reason = "\"><img src=x onerror=alert(1)>".to_owned();
    record.header.environment.cpu_model = script.to_owned();
    for trial in &mut record.trials {
        let stage = &mut trial.stages[0].measurement;
        *stage = failing(stage.clone(), "put", ErrorKind::Status, 12);
        for figures in stage.operations.values_mut() {
            for errors in figures.errors.values_mut() {
                errors.examples[0].what = format!("answered `{script}`");
                errors.examples[0].node = "<b>127.0.0.1</b>".to_owned();
            }
        }
        trial.audits[0].verdict = Verdict::Failed(format!("lost {script}"));
        if let Some(observed) = &mut trial.observed {
            observed.nodes[0].name = "<i>node</i>\t\u{7}".to_owned();
            observed.phases[0].name = "<u>starting</u>".to_owned();
        }
    }
    record
}
