//! Tests the studies of dbtester configurations, and rejected configurations.

use bakeoff_core::study::SourcedStudy;
use bakeoff_core::study::{Arrivals, KeyOrder, ReadConsistency, Servers, Stop};
use clap::Parser as _;

use super::study::{StudyRequest, study_request};
use super::*;
use crate::cli::{Cli, Command, ControlArgs};

/// Returns a configuration of three databases with one benchmark each.
fn configuration(benchmarks: [&str; 3]) -> String {
    let ids = ["etcd__v3_3", "zookeeper__r3_5_3_beta", "consul__v1_0_2"];
    let group = |(id, benchmark): (&str, &str)| {
        format!(
            "  {id}:\n    peer_ips: [127.0.0.1]\n    benchmark_options: {{key_size_bytes: 64, value_size_bytes: 64, {benchmark}}}\n    \
             benchmark_steps: {{step1_start_database: true, step2_stress_database: true, step3_stop_database: true}}\n"
        )
    };
    let groups: String = ids.into_iter().zip(benchmarks).map(group).collect();
    format!(
        "test_title: Keys\nall_database_id_list: [{}]\ndatatbase_id_to_config_client_machine_agent_control:\n{groups}",
        ids.join(", ")
    )
}

fn args(more: &[&str]) -> Box<ControlArgs> {
    let words = ["bakeoff", "dbtester", "control", "-c", "t.yaml"];
    match Cli::parse_from(words.iter().chain(more)).command {
        Command::Dbtester(DbtesterCommand::Control(args)) => args,
        other => panic!("{other:?}"),
    }
}

fn file(text: String) -> ConfigFile {
    let (config, _) = dbtester::read("t.yaml", &text).unwrap();
    ConfigFile { name: "t.yaml".to_owned(), text, config }
}

/// Returns the error of a configuration that is rejected.
fn refused(text: String, more: &[&str]) -> String {
    match study_request(&file(text), &args(more)) {
        Err(failure) => failure.to_string(),
        Ok(StudyRequest { sourced, .. }) => panic!("{sourced:?}"),
    }
}

const WRITES: &str = "type: write, request_number: 5000";

#[test]
fn databases_with_the_same_benchmark_are_compared() {
    let of = |connections: u32, clients: u32| {
        format!("{WRITES}, connection_number: {connections}, client_number: {clients}")
    };
    let [etcd, zookeeper, consul] = [of(100, 1000), of(700, 700), of(500, 500)];
    let file = file(configuration([&etcd, &zookeeper, &consul]));
    let StudyRequest { sourced: SourcedStudy { study, .. }, databases, .. } =
        study_request(&file, &args(&["--scale", "0.5"])).unwrap();
    let names: Vec<&str> = study.systems.iter().map(|system| system.name.as_str()).collect();
    assert_eq!(names, ["etcd-v3-3", "zookeeper-r3-5-3-beta", "consul-v1-0-2"]);
    let [shared, alone] = &study.loads[..] else { panic!("{:?}", study.loads) };
    assert_eq!(
        (shared.name.as_str(), &shared.clients[..], shared.in_flight),
        ("closed-etcd", &[100][..], 10)
    );
    assert_eq!(databases[0].clients_each, 10);
    assert_eq!((alone.name.as_str(), alone.in_flight), ("closed-zookeeper-consul", 1));
    assert_eq!(
        (alone.clients_on("zookeeper-r3-5-3-beta"), alone.clients_on("consul-v1-0-2")),
        (&[700][..], &[500][..])
    );
    assert_eq!(alone.stop, Stop::Operations(2500), "scaled");
    let [writes, _] = &study.workloads[..] else { panic!("{:?}", study.workloads) };
    assert_eq!(
        (writes.keys.order, writes.keys.count, writes.fill),
        (KeyOrder::Unique, 2500, false)
    );
    assert_eq!(study.systems[0].options["quota"], "8000000000", "as dbtester has it by default");
    assert_eq!(study.systems[1].options["tick-time"], "2000ms");
}

#[test]
fn steps_are_stages_and_a_rate_is_an_open_load() {
    let steps = format!("{WRITES}, connection_client_numbers: [1, 10, 50]");
    let rate = "type: read, request_number: 5000, connection_number: 10, client_number: 10, stale_read: true, \
                rate_limit_requests_per_second: 1000";
    let file = file(configuration([&steps, &steps, rate]));
    let StudyRequest { sourced: SourcedStudy { study, .. }, .. } =
        study_request(&file, &args(&[])).unwrap();
    assert_eq!(
        (study.loads[0].name.as_str(), &study.loads[0].clients[..]),
        ("sweep-etcd-zookeeper", &[1, 10, 50][..])
    );
    assert_eq!(study.loads[1].arrivals, Arrivals::Constant { rate: 1000.0 });
    let reads = &study.workloads[1];
    assert_eq!(
        (reads.reads, reads.keys.order, reads.fill),
        (ReadConsistency::Stale, KeyOrder::Same, true)
    );
}

#[test]
fn running_database_is_loaded_at_its_address() {
    let one = format!("{WRITES}, connection_number: 1, client_number: 1");
    let text = configuration([&one, &one, &one]).replace("127.0.0.1", "10.0.0.7");
    let text = text.replace("step1_start_database: true", "step1_start_database: false");
    let file = file(text);
    let StudyRequest { sourced: SourcedStudy { study, .. }, .. } =
        study_request(&file, &args(&["--database-id", "etcd__v3_3"])).unwrap();
    let [etcd] = &study.systems[..] else { panic!("{:?}", study.systems) };
    let Servers::Running(endpoints) = &etcd.servers else { panic!("{:?}", etcd.servers) };
    assert_eq!(endpoints[0].authority(), "10.0.0.7:2379");
    assert!(etcd.options.is_empty(), "options of a running database are not set");
}

#[test]
fn rejects_invalid_benchmarks_with_their_line() {
    let good = format!("{WRITES}, connection_number: 1, client_number: 1");
    let error = |etcd: &str| refused(configuration([etcd, &good, &good]), &[]);
    let check = |etcd: &str, expected: &[&str]| {
        let error = error(etcd);
        for part in expected.iter().chain(&["\n --> t.yaml:6:", "^"]) {
            assert!(error.contains(part), "`{part}` is not in:\n{error}");
        }
    };
    check(
        &format!("{WRITES}, connection_number: 3, client_number: 10"),
        &["10 clients of `etcd__v3_3` cannot share 3 connections evenly"],
    );
    check(
        &format!("{WRITES}, connection_number: 9000, client_number: 9000"),
        &["`etcd__v3_3` has 9000 clients for only 5000 requests"],
    );
    check(
        &format!("{WRITES}, connection_number: 1, client_number: 500"),
        &["`etcd__v3_3` can have at most 100 clients per connection"],
    );
    check(
        &format!("{WRITES}, connection_client_numbers: [1, 2], rate_limit_requests_per_second: 10"),
        &["`etcd__v3_3` has a rate and steps of clients"],
    );
    check(
        &format!("{WRITES}, connection_number: 0, client_number: 0"),
        &["`etcd__v3_3` has no clients"],
    );
    check(
        "type: watch, request_number: 1",
        &["`type` of `etcd__v3_3` must be `write`, `read` or `read-oneshot`"],
    );
    let small = configuration([&good, &good, &good]).replacen(
        "value_size_bytes: 64",
        "value_size_bytes: 2",
        1,
    );
    let error = refused(small, &[]);
    assert!(
        error.contains("values of `etcd__v3_3` must have 5 to 1500000 bytes, not 2"),
        "{error}"
    );
}

#[test]
fn rejects_unsupported_benchmarks_of_a_product() {
    let good = format!("{WRITES}, connection_number: 1, client_number: 1");
    let oneshot = "type: read-oneshot, request_number: 10, connection_number: 1, client_number: 1";
    let error = refused(configuration([&good, oneshot, &good]), &[]);
    assert!(
        error.contains("`zookeeper__r3_5_3_beta` uses sessions, so bakeoff opens none"),
        "{error}"
    );
    let heap = configuration([&good, &good, &good]).replace(
        "  zookeeper__r3_5_3_beta:\n",
        "  zookeeper__r3_5_3_beta:\n    zookeeper__r3_5_3_beta: {java_xmx: 900000G}\n",
    );
    let error = refused(heap.clone(), &[]);
    assert!(error.contains("1 heaps of 900000G exceed this machine's "), "{error}");
    let with_heap = file(heap);
    let StudyRequest { sourced: SourcedStudy { study, .. }, .. } =
        study_request(&with_heap, &args(&["--zookeeper-heap", "512MiB"])).unwrap();
    assert_eq!(study.systems[1].options["heap"], "512MiB");
    let error = refused(configuration([&good, &good, &good]), &["--build", "etcd=3.6"]);
    assert!(error.contains("--build: `etcd` is not a dbtester database"), "{error}");
}
