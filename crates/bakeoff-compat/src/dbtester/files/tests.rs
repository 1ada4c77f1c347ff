//! Converts a small trial, and checks the columns of every file.

use std::time::Duration;

use bakeoff_core::histogram::Latencies;
use bakeoff_core::record::{StageRecord, TrialRecord};
use serde_json::{Value, json};

use super::*;

fn latencies(milliseconds: impl IntoIterator<Item = u64>) -> Latencies {
    let mut latencies = Latencies::default();
    milliseconds.into_iter().for_each(|ms| latencies.record(Duration::from_millis(ms)));
    latencies
}

/// Returns figures with successes of these latencies in milliseconds, and with failures after 5 ms.
fn figures(milliseconds: &[u64], failed: usize) -> Value {
    let of = serde_json::to_value(latencies(milliseconds.iter().copied())).unwrap();
    let waits = serde_json::to_value(latencies(vec![5; failed])).unwrap();
    let errors = match failed {
        0 => json!({}),
        count => json!({"timeout": {"count": count, "examples": []}}),
    };
    json!({
        "verified": milliseconds.len(), "verified_in_window": milliseconds.len(), "stale_reads": 0, "response": of, "service": of,
        "failed": waits, "errors": errors,
    })
}

/// Returns a stage with these figures, in the format of a record.
fn stage(clients: u32, from: f64, put: Value, seconds: Vec<Value>) -> Value {
    let empty = serde_json::to_value(Latencies::default()).unwrap();
    json!({
        "clients": clients, "began": from - 0.05, "measured_from": from,
        "measurement": {
            "window": seconds.len() as f64, "operations": {"put": put}, "seconds": seconds, "warmup_operations": 0,
            "disconnected": 0.0, "connection_errors": {"count": 0, "examples": []}, "schedule_lag": empty,
            "generator_cpu": 0.0, "generator_threads": 1, "bytes_sent": 3050, "bytes_received": 6100,
        },
    })
}

/// Returns a trial of two steps with one node and the generator, sampled every half second. It begins at
/// 2026-11-24T23:42:58Z and measures from 0.25 s on.
pub(in crate::dbtester) fn trial() -> TrialRecord {
    let second = |second: u32, milliseconds: &[u64]| {
        let packed = serde_json::to_value(latencies(milliseconds.iter().copied()).pack()).unwrap();
        json!({"second": second, "operations": {"put": {
            "verified": milliseconds.len(), "errors": 0, "response": packed, "service": packed,
        }}})
    };
    let first = stage(1, 0.25, figures(&[4, 8, 12], 0), vec![second(0, &[4, 8]), second(2, &[12])]);
    let later = stage(2, 3.75, figures(&[20, 26], 2), vec![second(0, &[20, 26])]);
    let series = |name: &str| {
        let at: Vec<f64> = (0..12).map(|look| f64::from(look) / 2.0).collect();
        let grows = |by: f64| at.iter().map(|at| at * by).collect::<Vec<_>>();
        json!({"name": name, "at": at, "columns": {
            "cpu-user": grows(0.5), "cpu-system": grows(0.25), "resident": vec![24_576_000.0; at.len()],
            "disk-written": grows(5120.0), "socket-received": grows(1000.0), "socket-sent": grows(500.0),
            "switches-voluntary": grows(10.0), "open-files": vec![7.0; at.len()],
        }})
    };
    let record = json!({
        "trial": {"number": 0, "round": 0, "system": "etcd-tip", "workload": "write", "load": "sweep", "seed": 1},
        "started": "2026-11-24T23:42:58Z", "targets": ["etcd-tip-1"], "stages": [first, later],
        "usage": [
            {"name": "generator", "processes_max": 1, "cpu_mean_percent": 1.0, "cpu_max_percent": 1.0, "rss_max_bytes": 1,
             "written_bytes": 0},
            {"name": "etcd-tip-1", "processes_max": 1, "cpu_mean_percent": 1.0, "cpu_max_percent": 1.0, "rss_max_bytes": 1,
             "written_bytes": 0, "data_bytes": 105_381_888},
        ],
        "audits": [], "checks": [], "outcome": {"ended": "completed"},
        "observed": {
            "interval": 0.5, "cost": 0.0, "phases": [{"name": "load", "from": 0.2, "to": 4.75}],
            "nodes": [series("generator"), series("etcd-tip-1")], "machine": series("machine"),
        },
    });
    serde_json::from_value(record).unwrap()
}

pub(in crate::dbtester) fn made() -> TrialFiles {
    let record = trial();
    let endpoints = ["10.138.0.2:2379".to_owned()];
    let (program, clients_each, requests) = ("etcd", 10, 7);
    let measured =
        DatabaseTrial { record: &record, program, clients_each, requests, endpoints: &endpoints };
    files(&measured).unwrap()
}

fn check(file: ResultFile, expected: &str) {
    let made = made();
    let (_, text) = made.client.iter().find(|(role, _)| *role == file).unwrap();
    assert_eq!(text, expected);
}

#[test]
fn seconds_of_both_steps_follow_each_other_and_silent_ones_have_no_latency() {
    // The window begins within 23:42:58, which is 1795563778.
    check(
        ResultFile::Timeseries,
        "UNIX-SECOND,CONTROL-CLIENT-NUM,MIN-LATENCY-MS,AVG-LATENCY-MS,MAX-LATENCY-MS,AVG-THROUGHPUT\n\
         1795563779,10,3.999744,6.001152,8.003583,2\n\
         1795563780,10,,,,0\n\
         1795563781,10,11.993088,11.997184,12.001279,1\n\
         1795563782,20,19.988480,22.994944,26.001407,2\n",
    );
    check(
        ResultFile::LatencyByKey,
        "KEYS,MIN-LATENCY-MS,AVG-LATENCY-MS,MAX-LATENCY-MS\n7,3.999744,6.001152,8.003583\n",
    );
}

#[test]
fn failures_are_counted_and_take_the_place_of_the_slowest() {
    check(
        ResultFile::DistributionSummary,
        "TOTAL-SECONDS,3.0000\nREQUESTS-PER-SECOND,1.6667\nSLOWEST-LATENCY-MS,26.0014\n\
         FASTEST-LATENCY-MS,3.9997\nAVERAGE-LATENCY-MS,13.9979\nSTDDEV-LATENCY-MS,8.0001\n\
         \"ERROR: \"\"timeout\"\"\",2\n",
    );
    check(ResultFile::DistributionAll, "LATENCY-MS,COUNT\n0,2\n10,1\n20,2\n");
}

#[test]
fn percentiles_that_failures_reach_are_empty() {
    let put = figures(&[vec![10; 250], vec![30; 20]].concat(), 30);
    let stage: StageRecord = serde_json::from_value(stage(1, 0.0, put, Vec::new())).unwrap();
    assert_eq!(
        percentiles(&stage.measurement).csv(),
        "LATENCY-PERCENTILE,LATENCY-MS\np10,10.002431\np25,10.002431\np50,10.002431\np75,10.002431\n\
         p90,30.015487\np95,\np99,\np99.9,\n"
    );
}

#[test]
fn disk_usage_is_listed_by_configured_address() {
    check(
        ResultFile::DiskUsage,
        "INDEX,DATABASE-ENDPOINT,DISK-SPACE-USAGE,DISK-SPACE-USAGE-BYTES-NUM\n\
         0,10.138.0.2:2379,105 MB,105381888\n",
    );
}

#[test]
fn metrics_of_a_second_cover_that_second() {
    let made = made();
    let [server] = &made.servers[..] else { panic!("one node") };
    let frame = Frame::read(&server.interpolated).unwrap();
    assert_eq!(frame.header, METRICS_HEADER);
    let column = |name: &str| frame.column(name).unwrap();
    assert_eq!(
        column("UNIX-SECOND"),
        ["1795563778", "1795563779", "1795563780", "1795563781", "1795563782", "1795563783"]
    );
    assert_eq!(column("CPU-NUM")[1..5], ["75.00"; 4]);
    assert_eq!(column("CPU")[1], "75.00 %");
    assert_eq!(column("SECTORS-WRITTEN-DELTA")[1], "10");
    assert_eq!(column("RECEIVE-BYTES-NUM-DELTA")[1..], ["1000", "1000", "1000", "1000", "500"]);
    assert_eq!(column("VMRSS-NUM")[0], "24576000");
    assert_eq!(column("VMRSS")[0], "25 MB");
    assert_eq!(column("VOLUNTARY-CTXT-SWITCHES")[1], "12", "1.25 s after the first look");
    assert_eq!(column("NON-VOLUNTARY-CTXT-SWITCHES")[1], "", "not sampled");
    assert_eq!(column("EXTRA"), ["10", "10", "10", "10", "20", "20"]);
    let looks = Frame::read(&server.raw).unwrap();
    assert_eq!(looks.rows.len(), 11, "up to the first after the load, at 5 s");
    assert_eq!(looks.column("CPU-NUM").unwrap()[..2], ["", "75.00"]);
}

#[test]
fn client_bytes_come_from_the_generator() {
    let made = made();
    let interpolated = ResultFile::ClientMetricsInterpolated;
    let (_, text) = made.client.iter().find(|(role, _)| *role == interpolated).unwrap();
    let sent = Frame::read(text).unwrap().numbers("TRANSMIT-BYTES-NUM-DELTA").unwrap();
    let sum: f64 = sent.into_iter().flatten().sum();
    assert_eq!(sum, 2.0 * 3050.0, "of both steps, though the samples say 500 a second");
}

#[test]
fn each_thousand_keys_has_the_second_of_its_first_write() {
    let of = |seconds: &[u64], requests| -> Vec<(u64, Option<u64>)> {
        let found = by_keys(seconds, |second| *second, requests);
        found.into_iter().map(|(keys, second)| (keys, second.copied())).collect()
    };
    assert_eq!(
        of(&[500], 500),
        [(500, Some(500))],
        "dbtester has nothing of fewer than a thousand"
    );
    assert_eq!(
        of(&[1778, 1000], 2778),
        [(1000, Some(1778)), (2000, Some(1778)), (2778, Some(1000))]
    );
    assert_eq!(of(&[1000], 3000), [(1000, Some(1000)), (2000, None), (3000, None)]);
    assert_eq!(of(&[], 0), []);
}

#[test]
fn client_samples_come_from_places_machines_and_server_samples_from_the_trial() {
    let mut record = trial();
    let mut observed = record.observed.take().unwrap();
    let (mut client, servers): (Vec<Series>, Vec<Series>) =
        observed.nodes.into_iter().partition(is_client);
    let machine = |name: &str, series: Series, generated: Value| {
        let nodes =
            serde_json::to_value([Series { name: format!("{} on {name}", series.name), ..series }]);
        serde_json::from_value(json!({
            "name": name, "cpus": 2, "generated": generated,
            "observed": {"interval": 0.5, "cost": 0.0, "phases": [], "nodes": nodes.unwrap(),
                         "machine": {"name": "machine", "at": [], "columns": {}}},
        }))
        .unwrap()
    };
    let client = client.remove(0);
    let agent = Series { name: "agent".to_owned(), ..client.clone() };
    let part = json!([{"clients": 1, "verified": 1, "errors": 0, "late_us": 0.0, "clock_error_us": 1.0, "cpu": 0.0,
                       "busiest": 0.1}]);
    record.machines = vec![machine("h1", agent, json!([])), machine("h4", client, part)];
    observed.nodes = servers;
    record.observed = Some(observed);
    let (client, servers) = sampled(&record);
    assert_eq!(client.map(|series| &*series.name), Some("generator on h4"));
    let names: Vec<&str> = servers.iter().map(|series| &*series.name).collect();
    assert_eq!(names, ["etcd-tip-1"], "and no agent");
}
