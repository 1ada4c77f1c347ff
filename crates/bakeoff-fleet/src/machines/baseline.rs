//! Measures the machine baseline before the first trial: an upper bound for every system. Measures the disk again
//! before each further round. In a run with places, each machine does so through its agent.
//!
//! The baseline has durable appends to the disk of the servers' data, and round trips over loopback to a server that
//! does nothing. Both use the study's numbers of clients. The server is the canary at `/health`: it reads a request,
//! answers with an empty body, and keeps nothing. It has one thread, so it is no bound for a server on many CPUs.
//!
//! If measuring fails, bakeoff warns and runs the study without a baseline.
//!
//! Not here: the disk (`host::disk`), the use of a baseline in reports (`bakeoff_report::machine_baseline`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::record::{BaselineAppends, BaselineRoundTrips, MachineBaseline};
use bakeoff_core::study::{Stop, Study};
use bakeoff_core::units::parse_duration;
use bakeoff_engine::Drive;
use bakeoff_engine::works::http::{self, Plan, Request, Url};
use bakeoff_files as files;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{self as host, Host, NodeSpec, Probe, Process, disk};
use bakeoff_systems::own_servers::CANARY;
use serde::{Deserialize, Serialize};

use crate::error::FleetError;
use bakeoff_engine::open_files::OTHER_FILES;

/// Most numbers of clients to measure.
const POINTS_MAX: usize = 8;
/// Most clients, for any load: more clients change nothing.
const CLIENTS_MAX: u32 = 2000;
const WARM_UP: Duration = Duration::from_millis(100);
/// Longest measurement for one number of clients, and for all together.
const MEASURE: Duration = Duration::from_millis(300);
const MEASURE_ALL: Duration = Duration::from_secs(2);
/// Environment variable with a shorter time per number of clients, such as `20ms`. For tests of other features, which
/// would otherwise load the machine.
const MEASURE_OTHERWISE: &str = "BAKEOFF_BASELINE_FOR";
/// Time after which the remaining numbers of clients are skipped, so that a baseline does not delay a study.
const GIVE_UP_AFTER: Duration = Duration::from_secs(8);
const TIMEOUT: Duration = Duration::from_secs(5);
const READY_WITHIN: Duration = Duration::from_secs(10);
const STOP_GRACE: Duration = Duration::from_secs(1);

/// The machine baseline to measure, on this machine or another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BaselineOrder {
    /// Folder for the servers' data.
    dir: PathBuf,
    /// Size of an append, in bytes; 0 if the machine holds no data.
    append_bytes: u64,
    /// Numbers of clients.
    clients: Vec<u32>,
    threads: u32,
    /// Longest measurement of round trips for one number of clients.
    measure: Duration,
    /// Longest measurement of durable appends for one number of clients.
    commit: Duration,
}

impl BaselineOrder {
    /// Creates the order for a study on a machine whose data is below `dir`.
    pub(crate) fn new(study: &Study, dir: &Path, threads: u32) -> Self {
        // If bakeoff starts no servers, the data is on another party's disk.
        let append_bytes = append_bytes(study).filter(|_| study.starts_any()).unwrap_or(0);
        Self {
            dir: dir.to_owned(),
            append_bytes,
            clients: points(study, CLIENTS_MAX),
            threads,
            measure: at_most(MEASURE),
            commit: at_most(disk::COMMITS_FOR),
        }
    }

    /// Adapts the order to another machine. `holds_data`: true if servers write there.
    pub(crate) fn at(&self, dir: &Path, holds_data: bool) -> Self {
        let append_bytes = if holds_data { self.append_bytes } else { 0 };
        Self { dir: dir.to_owned(), append_bytes, ..self.clone() }
    }

    /// Measures this machine, with at most `open_files` open files.
    ///
    /// # Errors
    /// When the measurement fails.
    pub(crate) fn measure(
        mut self,
        open_files: u64,
        interrupted: &AtomicBool,
    ) -> Result<MachineBaseline, FleetError> {
        let most = u32::try_from(open_files.saturating_sub(OTHER_FILES)).unwrap_or(u32::MAX);
        self.clients.iter_mut().for_each(|clients| *clients = (*clients).min(most.max(1)));
        self.clients.dedup();
        let own = self.dir.join("baseline");
        let measured = machine_baseline(&self, &own, interrupted);
        files::remove(&own).ok();
        measured
    }
}

/// Progress of the baseline measurement.
#[derive(Debug)]
pub enum BaselineEvent<'a> {
    /// Measuring begins.
    Started {
        /// Machines measured at the same time.
        machines: usize,
    },
    /// A machine could not be measured; the run continues.
    Failed {
        /// Reason.
        failure: &'a FleetError,
    },
}

/// Measures this machine, with at most `open_files` open files. Returns `None` if that fails, which is reported.
pub(super) fn measure(
    order: BaselineOrder,
    open_files: u64,
    report: &mut dyn FnMut(BaselineEvent<'_>),
    interrupted: &AtomicBool,
) -> Result<Option<MachineBaseline>, FleetError> {
    report(BaselineEvent::Started { machines: 1 });
    match order.measure(open_files, interrupted) {
        _ if interrupted.load(Ordering::Relaxed) => Err(FleetError::INTERRUPTED),
        Ok(machine_baseline) => Ok(Some(machine_baseline)),
        Err(failure) => {
            report(BaselineEvent::Failed { failure: &failure });
            Ok(None)
        }
    }
}

/// Measures the disk again between two rounds, for the same numbers of clients as before the first. Returns nothing if
/// the first measurement is missing or this one fails.
pub(super) fn again(
    dir: &Path,
    first: Option<&MachineBaseline>,
    interrupted: &AtomicBool,
) -> Vec<BaselineAppends> {
    let commits = first.and_then(|first| commits_again(first, dir));
    commits.and_then(|commits| commits.measure(interrupted).ok()).unwrap_or_default()
}

/// Returns the durable appends measured before the first round, as an order for `dir`; `None` if there were none.
pub(crate) fn commits_again(first: &MachineBaseline, dir: &Path) -> Option<disk::Commits> {
    let clients: Vec<u32> = first.appends.iter().map(|point| point.clients).collect();
    (!clients.is_empty()).then(|| disk::Commits {
        dir: dir.to_owned(),
        bytes: first.append_bytes,
        clients,
        each: at_most(disk::COMMITS_FOR),
    })
}

/// Returns the longest measurement for one number of clients: `usual`, unless the environment variable sets another.
fn at_most(usual: Duration) -> Duration {
    let otherwise = std::env::var(MEASURE_OTHERWISE).ok();
    otherwise.and_then(|text| parse_duration(&text).ok()).unwrap_or(usual)
}

/// Returns, for each number of clients, the rate of the fastest disk. No system with data on these disks can exceed it.
pub(crate) fn quickest(disks: &[Vec<BaselineAppends>]) -> Vec<BaselineAppends> {
    let mut best: BTreeMap<u32, BaselineAppends> = BTreeMap::new();
    for point in disks.iter().flatten() {
        let Some(known) = best.get_mut(&point.clients) else {
            best.insert(point.clients, point.clone());
            continue;
        };
        let least = [known.quickest_us, point.quickest_us].into_iter().flatten();
        let quickest_us = least.min_by(f64::total_cmp);
        if point.per_second > known.per_second {
            known.clone_from(point);
        }
        known.quickest_us = quickest_us;
    }
    best.into_values().collect()
}

fn machine_baseline(
    order: &BaselineOrder,
    dir: &Path,
    interrupted: &AtomicBool,
) -> Result<MachineBaseline, FleetError> {
    let began = clock::now();
    files::make_dirs(dir).map_err(|error| FleetError::file("make", dir, &error))?;
    let BaselineOrder { append_bytes: bytes, clients, threads, .. } = order;
    let appends = match bytes {
        0 => Vec::new(),
        &bytes => {
            let (dir, clients, each) = (dir.to_owned(), clients.clone(), order.commit);
            disk::Commits { dir, bytes, clients, each }.measure(interrupted)?
        }
    };
    let server = launch(dir)?;
    let ready = plan(&server)?.ready(true)?;
    let mut round_trips = Vec::new();
    let measure = (MEASURE_ALL / clients.len().max(1) as u32).min(order.measure);
    for &clients in clients {
        if began.elapsed() > GIVE_UP_AFTER {
            break;
        }
        round_trips.extend(drive(&ready, &server, clients, *threads, measure, interrupted)?);
    }
    host::terminate_all(&[server], STOP_GRACE);
    Ok(MachineBaseline { append_bytes: *bytes, appends, round_trips })
}

/// Returns the numbers of operations that a study's loads may have in flight, without duplicates. At most eight, evenly
/// spread, including the smallest and the largest.
fn points(study: &Study, most: u32) -> Vec<u32> {
    let used = |name: &String| study.workloads.iter().any(|work| work.loads.contains(name));
    let loads = study.loads.iter().filter(|load| used(&load.name));
    let mut counts: Vec<u32> = loads
        .flat_map(|load| {
            let stages = study.systems.iter().flat_map(|system| load.clients_on(&system.name));
            stages.map(|clients| clients.saturating_mul(load.in_flight).clamp(1, most.max(1)))
        })
        .collect();
    counts.sort_unstable();
    counts.dedup();
    if counts.len() <= POINTS_MAX {
        return counts;
    }
    let last = counts.len() - 1;
    (0..POINTS_MAX).map(|place| counts[place * last / (POINTS_MAX - 1)]).collect()
}

/// Returns the size of a key and its value in the first workload that writes.
fn append_bytes(study: &Study) -> Option<u64> {
    let work = study.workloads.iter().find(|work| work.writes())?;
    Some(work.keys.size + work.value_size().unwrap_or(0))
}

/// Starts the server that does nothing, on any free port. The user's ports are for the trials.
fn launch(dir: &Path) -> Result<Process, FleetError> {
    let port = Allocator::new(None).take()?;
    let node = dir.join("server");
    let args = [
        CANARY.to_owned(),
        "--listen".into(),
        format!("127.0.0.1:{port}"),
        "--data".into(),
        node.join("data").display().to_string(),
        "--sync".into(),
        "none".into(),
    ];
    let spec = NodeSpec {
        name: "baseline".into(),
        program: std::env::current_exe().unwrap_or_else(|_| "bakeoff".into()),
        args: args.into_iter().map(Into::into).collect(),
        dir: node,
        ports: vec![("client".into(), port)],
        limits: None,
        ..NodeSpec::default()
    };
    Ok(Host::new(dir)?.launch(spec)?)
}

/// Waits until the server listens and returns a plan of requests to it.
fn plan(server: &Process) -> Result<Plan, FleetError> {
    let address = format!("127.0.0.1:{}", server.port("client"));
    let never = AtomicBool::new(false);
    host::await_ready(std::slice::from_ref(server), READY_WITHIN, &never, || {
        match std::net::TcpStream::connect(&address) {
            Ok(_) => Probe::Ready,
            Err(error) => Probe::NotYet(error.to_string()),
        }
    })?;
    let url = Url::parse(&format!("http://{address}/health"))
        .map_err(|what| FleetError::machine(format!("the baseline's own address: {what}")))?;
    Ok(Plan::new(vec![Request::get(url)]))
}

/// Measures one number of clients. Returns `None` if a request failed.
fn drive(
    ready: &http::Ready,
    server: &Process,
    clients: u32,
    threads: u32,
    measure: Duration,
    interrupted: &AtomicBool,
) -> Result<Option<BaselineRoundTrips>, FleetError> {
    let drive = Drive {
        warmup: WARM_UP.min(measure),
        stop: Stop::After(measure),
        ..Drive::once(clients.into(), clients, threads, TIMEOUT)
    };
    let cpu_before = server.cpu_used();
    let measured = ready.drive(&drive, interrupted, &mut |_| {})?.measurement;
    let cpu = server.cpu_used().zip(cpu_before).map(|(after, before)| after.saturating_sub(before));
    let all = measured.verified() + measured.warmup_operations;
    let (Some(per_second), Some(server_cpu)) = (measured.throughput(), cpu) else {
        return Ok(None);
    };
    if measured.error_count() > 0 || measured.verified() == 0 {
        return Ok(None);
    }
    let micros = |cpu: Duration| cpu.as_secs_f64() * 1e6 / all as f64;
    Ok(Some(BaselineRoundTrips {
        clients,
        per_second,
        generator_cpu_us: micros(measured.generator_cpu),
        server_cpu_us: micros(server_cpu),
    }))
}

#[cfg(test)]
mod tests {
    use bakeoff_systems as systems;

    use super::*;

    fn study(loads: &str) -> Study {
        let text = format!(
            "title: t\nsystems:\n  a: {{kind: canary}}\nworkloads:\n  \
             read: {{mix: {{get: 1}}, keys: {{count: 100, size: 50}}, values: {{size: 64}}}}\n  \
             write: {{mix: {{put: 1}}, keys: {{count: 100, size: 40}}, values: {{size: 100}}}}\n\
             loads:\n{loads}\ntrials: 1\n"
        );
        bakeoff_core::study::parse("t", "t.yaml", &text, &systems::kinds()).unwrap()
    }

    #[test]
    fn measures_the_loads_client_counts_but_at_most_eight() {
        let check = |loads: &str, most: u32, expected: &[u32]| {
            assert_eq!(points(&study(loads), most), expected, "{loads}");
        };
        check("  a: {clients: 16, stop: {after: 1s}}", 2000, &[16]);
        check(
            "  a: {clients: [1, 10], stop: {after: 1s}}\n  b: {clients: 10, stop: {after: 1s}}",
            2000,
            &[1, 10],
        );
        check("  a: {clients: [1, 5000], stop: {after: 1s}}", 2000, &[1, 2000]);
        let many: Vec<String> = (1..=20).map(|count| count.to_string()).collect();
        check(
            &format!("  a: {{clients: [{}], stop: {{after: 1s}}}}", many.join(", ")),
            2000,
            &[1, 3, 6, 9, 11, 14, 17, 20],
        );
    }

    #[test]
    fn append_size_is_key_plus_value() {
        assert_eq!(append_bytes(&study("  a: {clients: 1, stop: {after: 1s}}")), Some(140));
    }

    #[test]
    fn best_disk_of_several_is_the_limit() {
        let point = |clients, per_second, quickest| BaselineAppends {
            clients,
            per_second,
            per_second_mean: Some(per_second / 2.0),
            quickest_us: Some(quickest),
        };
        let slow = vec![point(1, 100.0, 5.0), point(8, 900.0, 7.0)];
        let quick = vec![point(1, 300.0, 6.0), point(8, 500.0, 4.0)];
        let best = [point(1, 300.0, 5.0), point(8, 900.0, 4.0)];
        assert_eq!(quickest(&[slow, quick]), best);
        assert_eq!(quickest(&[]), []);
    }
}
