//! Reads dbtester's configurations, and refuses faulty ones.

use super::*;

/// Returns a configuration that uses every section.
pub(crate) fn example() -> String {
    "\
test_title: Write 1M keys
test_description: |
  - one machine
config_client_machine_initial:
  path_prefix: bench
  log_path: client-control.log
  client_system_metrics_path: client-system-metrics.csv
  google_cloud_storage_sub_directory: 2018Q1/write-1M
all_database_id_list: [zookeeper__r3_5_3_beta, etcd__v3_3]
datatbase_id_to_config_client_machine_agent_control:
  etcd__v3_3:
    database_description: etcd v3.3.0 (Go 1.9.2)
    peer_ips:
    - 10.138.0.2
    - 127.0.0.1
    database_port_to_connect: 2379
    agent_port_to_connect: 3500
    etcd__v3_3:
      snap_count: 100000
      quota_size_bytes: 8000000000
    benchmark_options:
      type: write
      request_number: 1_000_000
      connection_number: 100
      client_number: 1000
      connection_client_numbers: []
      rate_limit_requests_per_second: 0
      same_key: no
      key_size_bytes: 256
      value_size_bytes: 1024
      stale_read: false
    benchmark_steps: {step1_start_database: true, step2_stress_database: true, step3_stop_database: true}
  zookeeper__r3_5_3_beta:
    database_description: Zookeeper r3.5.3-beta (Java 8)
    peer_ips: [localhost]
    zookeeper__r3_5_3_beta: {java_d_jute_max_buffer: 33554432, java_xms: 50G, tick_time: 2000}
    benchmark_options: {type: read, request_number: 10, connection_client_numbers: [1, 10]}
datatbase_id_to_config_analyze_machine_initial:
  etcd__v3_3:
    path_prefix: 2018Q1/write-1M/etcd-v3.3.0-go1.9.2
    client_latency_by_key_number_path: keys.csv
    server_system_metrics_interpolated_path_list:
    - 1-server-system-metrics-interpolated.csv
analyze_plot_list:
- {column: AVG-LATENCY-MS, x_axis: Second, y_axis: Latency(millisecond)}
analyze_readme:
  output_path: README.md
  images:
  - {title: a, path: https://example.org/a.svg, type: remote}
"
    .to_owned()
}

#[test]
fn a_configuration_reads_as_dbtester_reads_it() {
    let (config, notes) = read("t.yaml", &example()).unwrap();
    let databases: Vec<_> = config.groups.iter().map(|group| group.database).collect();
    assert_eq!(databases, [Database::Zookeeper, Database::EtcdV3_3], "the order of the list");
    let etcd = config.group(Database::EtcdV3_3).unwrap();
    assert_eq!(etcd.tag(), "etcd-v3.3.0-go1.9.2");
    assert_eq!(etcd.benchmark.requests.value, 1_000_000);
    assert_eq!(etcd.benchmark.work.value, Some(WorkType::Write));
    assert!(!etcd.flags.contains_key("snapshot_count"), "the misspelt one is not taken for it");
    assert_eq!(etcd.flags["quota_size_bytes"].value, "8000000000");
    assert_eq!(etcd.nodes.iter().map(Node::is_loopback).collect::<Vec<_>>(), [false, true]);
    let zookeeper = config.group(Database::Zookeeper).unwrap();
    assert_eq!((zookeeper.nodes[0].database_port, zookeeper.nodes[0].agent_port), (2181, 3500));
    assert_eq!(zookeeper.flags["java_xms"].value, "50G");
    let analysis = &config.analyses[&Database::EtcdV3_3];
    let prefix = "2018Q1/write-1M/etcd-v3.3.0-go1.9.2-";
    assert_eq!(analysis.paths[&ResultFile::LatencyByKey], format!("{prefix}keys.csv"));
    assert_eq!(analysis.paths[&ResultFile::AllAggregated], format!("{prefix}all-aggregated.csv"));
    assert_eq!(analysis.servers, [format!("{prefix}1-server-system-metrics-interpolated.csv")]);
    assert_eq!(
        notes,
        [
            "t.yaml:19:7: `snap_count` is not a field of `etcd__v3_3` and is ignored, as in dbtester; did you mean \
          `snapshot_count`?"
        ]
    );
}

/// Reads the example with `from` replaced, and compares the diagnostics with `expected`.
fn refused(from: &str, to: &str, expected: &str) {
    let text = example();
    assert!(text.contains(from), "the example has no `{from}`");
    let printed = read("t.yaml", &text.replacen(from, to, 1)).expect_err("it is wrong").to_string();
    assert_eq!(printed, expected);
}

#[test]
fn faults_are_reported_with_their_place() {
    refused(
        "all_database_id_list: [zookeeper__r3_5_3_beta, etcd__v3_3]",
        "all_database_id_list: [zookeeper__r3_4_9, etcd__v3_3]",
        "error: `zookeeper__r3_4_9` is no database of dbtester
 --> t.yaml:9:24
  |
9 | all_database_id_list: [zookeeper__r3_4_9, etcd__v3_3]
  |                        ^^^^^^^^^^^^^^^^^
hint: its databases: `etcd__other`, `etcd__tip`, `etcd__v3_2`, `etcd__v3_3`, `zookeeper__r3_5_3_beta`, \
         `consul__v1_0_2`, `zetcd__beta` and `cetcd__beta`",
    );
    refused(
        "request_number: 1_000_000",
        "request_number: many",
        "error: `request_number` must be a whole number, 0 or more, not `many`
  --> t.yaml:23:23
   |
23 |       request_number: many
   |                       ^^^^",
    );
    refused(
        "quota_size_bytes: 8000000000",
        "quota_size_bytes: 8000000001",
        "error: `quota_size_bytes` must be at most 8000000000, not `8000000001`
  --> t.yaml:20:25
   |
20 |       quota_size_bytes: 8000000001
   |                         ^^^^^^^^^^",
    );
    refused(
        "peer_ips: [localhost]",
        "peer_ips: []",
        "error: `zookeeper__r3_5_3_beta` has no `peer_ips`
  --> t.yaml:33:3
   |
33 |   zookeeper__r3_5_3_beta:
   |   ^^^^^^^^^^^^^^^^^^^^^^
hint: add `peer_ips: [127.0.0.1]`, one address per node",
    );
}

#[test]
fn only_clients_of_etcd_share_connections() {
    refused(
        "request_number: 10, connection_client_numbers: [1, 10]",
        "request_number: 10, connection_number: 5, client_number: 10",
        "error: `zookeeper__r3_5_3_beta` has 5 connections and 10 clients, but only etcd clients can share connections
  --> t.yaml:37:76
   |
37 |     benchmark_options: {type: read, request_number: 10, connection_number: 5, client_number: 10}
   |                                                                            ^
hint: write `connection_number: 10`",
    );
}

#[test]
fn files_have_the_names_that_dbtester_gives_them() {
    let names: Vec<String> =
        ResultFile::OF_ANALYSIS.into_iter().map(ResultFile::usual_name).collect();
    assert_eq!(names[1], "client-latency-throughput-timeseries.csv");
    assert_eq!(names[6], "server-disk-space-usage-summary.csv");
    assert_eq!(names[10], "all-aggregated.csv");
}
