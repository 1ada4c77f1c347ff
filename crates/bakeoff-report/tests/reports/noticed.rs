//! Tests the findings above the tables: stalls, slow nodes, bimodal latencies, failures of one duration, throttled
//! nodes, log lines of servers.

use std::time::Duration;

use bakeoff_core::log_findings::{Level, LogKind, NodeLog};
use bakeoff_core::measurement::{
    ErrorKind, Example, Measurement, Silence, TargetFigures, UsedAddress,
};
use bakeoff_core::record::Record;
use bakeoff_core::study::{Limits, Operation, Stop};
use bakeoff_report::{self as report, Report};

use super::PLAIN;
use super::building::{Trials as _, closed, measured, page_of, record, study, workload};
use super::full;

/// Returns the findings about an etcd with these measurements in its three trials.
fn findings(trials: [Measurement; 3]) -> Vec<String> {
    Report::new(&of_trials(trials)).findings().to_vec()
}

fn of_trials(trials: [Measurement; 3]) -> Record {
    let load = closed("steady", &[64], Stop::After(Duration::from_secs(4)));
    let reads = workload("reads", &[(Operation::Get, 1)], "steady");
    let mut record = record(study(&["etcd"], reads, load, 3));
    for trial in trials {
        record.run("etcd", vec![(64, trial)]);
    }
    record
}

fn plain() -> Measurement {
    measured("get", 500, Duration::from_secs(4), Duration::from_millis(2))
}

fn silent(times: &[(f64, f64)]) -> Measurement {
    let silences = times.iter().map(|&(from, seconds)| Silence { from, seconds }).collect();
    Measurement { silences, ..plain() }
}

/// Returns a measurement of three nodes with these service times in milliseconds and this number of answers each.
fn nodes(milliseconds: [u64; 3], answers: u64) -> Measurement {
    let node = |(place, &latency): (usize, &u64)| {
        let mut of = TargetFigures {
            node: format!("127.0.0.1:{}", 9000 + place),
            verified: answers,
            ..TargetFigures::default()
        };
        of.service.record_many(Duration::from_millis(latency), answers);
        of
    };
    let targets = milliseconds.iter().enumerate().map(node).collect();
    Measurement { targets, ..plain() }
}

#[test]
fn stall_is_reported_with_its_length_and_time() {
    let found = findings([plain(), silent(&[(0.5, 0.6), (2.0, 1.02)]), plain()]);
    let wording = "etcd stalled in 1 of 3 trials under reads/steady: \
                nothing succeeded for 1.02 s, from 2.00 s on (trial 2)";
    assert_eq!(found, [wording]);
    let found = findings([plain(), silent(&[(1.0, 0.6)]), silent(&[(1.0, 0.9)])]);
    assert!(found[0].ends_with("900 ms, from 1.00 s on (trial 3, the longest)"), "{found:?}");
}

#[test]
fn pause_between_long_operations_is_no_stall() {
    let slow = || measured("get", 10, Duration::from_secs(4), Duration::from_millis(200));
    let silences = vec![Silence { from: 1.0, seconds: 1.5 }];
    let found = findings([Measurement { silences, ..slow() }, slow(), slow()]);
    assert_eq!(found, [""; 0]);
}

#[test]
fn slow_node_is_reported_with_its_factor() {
    let found = findings([nodes([2, 20, 3], 500), nodes([2, 30, 2], 500), nodes([2, 2, 2], 500)]);
    let wording = "etcd-2 of etcd answered 6.67 times slower than the other nodes under reads/steady \
                in 2 of 3 trials: service time p50 20.0 ms against 3.00 ms (trial 1)";
    assert_eq!(found, [wording]);
}

#[test]
fn node_is_not_slow_by_a_small_or_rare_difference_or_few_answers() {
    let alike = || nodes([2, 2, 2], 500);
    assert_eq!(findings([nodes([2, 5, 2], 500), nodes([2, 5, 2], 500), alike()]), [""; 0]);
    assert_eq!(findings([nodes([2, 20, 2], 500), alike(), alike()]), [""; 0]);
    let few = || nodes([2, 20, 2], 19);
    assert_eq!(findings([few(), few(), few()]), [""; 0]);
    // If most nodes are slow, no single node is reported.
    let most = || nodes([2, 20, 20], 500);
    assert_eq!(findings([most(), most(), most()]), [""; 0]);
}

/// Returns a measurement. Half of its requests take about 20 ms, and the others fail after 500 ms.
fn timing_out() -> Measurement {
    let mut of = measured("get", 50, Duration::from_secs(4), Duration::from_millis(20));
    let get = of.operations.get_mut("get").expect("it was measured");
    (get.response, get.service) = Default::default();
    for number in 0..200_u64 {
        let quick = Duration::from_micros(17_000 + number * 45);
        get.response.record(quick);
        get.service.record(quick);
        get.failed.record(Duration::from_micros(500_100 + number * 25));
        let example = || Example {
            at_seconds: 0.5,
            node: "127.0.0.1:8443".into(),
            what: format!("500: request {number} of the gate"),
        };
        get.count_error(ErrorKind::Status, example);
    }
    get.verified = 200;
    of
}

#[test]
fn bimodal_latencies_and_failures_of_one_duration_are_reported() {
    let found = findings([timing_out(), timing_out(), plain()]);
    let modes = "etcd's operations, including failed ones, are bimodal under reads/steady in 2 of \
                 3 trials: 50.0 % took 17.5 ms to 25.6 ms, 50.0 % took 500 ms to 505 ms, none \
                 between; 100 % of the slow ones failed (trial 1)";
    let lasted = "etcd under reads/steady in 2 of 3 trials: all 200 failures lasted 500 ms to 505 ms, \
                  which suggests a timeout of 500ms behind the server (trial 1); they were 200 × `status`: 500: request N of the gate";
    for wording in [modes, lasted] {
        assert!(found.iter().any(|one| one == wording), "{wording}\nis not in {found:#?}");
    }
    let once = findings([timing_out(), plain(), plain()]);
    assert!(!once.iter().any(|one| one.contains("bimodal") || one.contains("lasted")), "{once:?}");
}

/// Returns a measurement. Half of its answers wait for a delayed acknowledgement.
fn delayed() -> Measurement {
    let mut of = plain();
    let get = of.operations.get_mut("get").expect("it was measured");
    get.service.record_many(Duration::from_millis(41), get.service.count());
    of
}

#[test]
fn delayed_acks_are_reported_by_cause_and_not_as_bimodal() {
    let found = findings([delayed(), plain(), delayed()]);
    let begins = "etcd under reads/steady in 2 of 3 trials, such as trial 1: 50.0 % of answers took 40 to \
                  48 ms, the quicker ones ";
    let [only] = &found[..] else { panic!("{found:#?}") };
    assert!(only.starts_with(begins) && only.contains("set TCP_NODELAY"), "{only}");
    let once = findings([delayed(), plain(), plain()]);
    assert_eq!(once, [""; 0]);
}

#[test]
fn name_with_a_new_address_is_reported_with_the_time() {
    let used = |address: &str, since| UsedAddress {
        address: address.to_owned(),
        name: Some("kv:2379".to_owned()),
        since,
    };
    let addresses = vec![used("10.0.0.1:2379", None), used("10.0.0.2:2379", Some(1.5))];
    let found = findings([plain(), Measurement { addresses, ..plain() }, plain()]);
    let wording = "etcd under reads/steady: `kv:2379` led to 10.0.0.2:2379 from 1.50 s on, after \
                   a connection had failed (trial 2)";
    assert_eq!(found, [wording]);
}

#[test]
fn kinds_of_operations_and_stages_may_take_different_times() {
    let slow = |milliseconds| measured("put", 500, Duration::from_secs(4), milliseconds);
    let mut both = plain();
    both.operations.extend(slow(Duration::from_millis(200)).operations);
    assert_eq!(findings([both.clone(), both.clone(), both]), [""; 0]);
    let mut record = of_trials([plain(), plain(), plain()]);
    for trial in &mut record.trials {
        let mut second = trial.stages[0].clone();
        second.measurement = slow(Duration::from_millis(200));
        second.clients = 1000;
        trial.stages.push(second);
    }
    assert_eq!(Report::new(&record).findings(), [""; 0]);
}

/// Returns a record of an etcd whose second node is limited to 0.1 CPU; `throttled` counts periods, by trial.
fn limited(throttled: [u64; 3]) -> Record {
    let mut record = of_trials([plain(), plain(), plain()]);
    record.header.study.systems[0].limits =
        Some(Limits { cpu: Some(0.1), memory: None, cpus: Vec::new() });
    for (trial, throttled) in record.trials.iter_mut().zip(throttled) {
        let usage = &mut trial.usage[1];
        usage.cpu_mean_percent = 9.9;
        (usage.periods, usage.periods_throttled) = (Some(40), Some(throttled));
        usage.throttled_seconds = Some(3.5);
    }
    record
}

#[test]
fn throttled_node_is_reported_with_its_limit() {
    let report = Report::new(&limited([39, 38, 4]));
    let wording = "etcd-2 of etcd was throttled in 95.0 % of its CPU limit's periods under reads/steady \
                in 2 of 3 trials, and used 0.10 of a core: its limit of 0.1 CPU, not the program, set \
                the pace";
    assert_eq!(report.findings(), [wording]);
    let text = full(&report, &PLAIN);
    let row = text.lines().find(|line| line.trim_start().starts_with("etcd-2 ")).expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        cells[..9],
        ["etcd-2", "10", "%", "0.10", "95.0", "%", "3.50", "203", "µs"],
        "{text}"
    );
    assert!(text.contains("CPU throttling, most throttled node (share of periods)"), "{text}");
    assert_eq!(Report::new(&limited([39, 4, 4])).findings(), [""; 0]);
    let mut at_times = limited([39, 38, 30]);
    at_times.trials.iter_mut().for_each(|trial| trial.usage[1].cpu_mean_percent = 4.0);
    let found = Report::new(&at_times).findings().join("\n");
    assert!(
        found.ends_with("used 0.04 of a core: its limit of 0.1 CPU slowed it at times"),
        "{found}"
    );
    let plain = full(&Report::new(&of_trials([plain(), plain(), plain()])), &PLAIN);
    assert!(!plain.contains("throttled"), "{plain}");
}

#[test]
fn log_findings_are_shown_with_their_count_and_an_example() {
    let kind = |level, what: &str, count| LogKind {
        level,
        what: what.to_owned(),
        count,
        example: format!("12:00:00 {what} <b>1</b>"),
    };
    let mut record = of_trials([plain(), plain(), plain()]);
    for trial in &mut record.trials[..2] {
        let kinds = vec![
            kind(Level::Warning, "slow fsync", 900),
            kind(Level::Error, "lua tcp socket read timed out", 40),
            kind(Level::Critical, "worker exited", 2),
        ];
        trial.log_findings =
            vec![NodeLog { node: "etcd-1".into(), lines: 950, kinds, unread_bytes: 0 }];
    }
    let report = Report::new(&record);
    let wording = "etcd's servers logged 84 errors during the load under \
                reads/steady: 80 × on etcd-1: lua tcp socket read timed out; 4 × on etcd-1: worker \
                exited";
    assert_eq!(report.findings(), [wording]);
    let text = full(&report, &PLAIN);
    for line in [
        "server log: etcd-1: 80 × error in 2 trials: lua tcp socket read timed out; first: 12:00:00",
        "server log: etcd-1: 1,800 × warning in 2 trials: slow fsync",
        "server log: etcd: 16 further lines of other kinds",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(report::markdown(&report).contains("80 × error in 2 trials"));
    let page = page_of(&record);
    assert!(page.contains("<section id=\"nodes\""), "there is a section of nodes");
    assert!(page.contains("lua tcp socket read timed out &lt;b&gt;1&lt;/b&gt;"));
    assert_eq!(
        report::json(&report)["comparisons"][0]["systems"][0]["servers_said"][0]["count"],
        80
    );
}
