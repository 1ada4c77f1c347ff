//! Tests `bakeoff dbtester` as a user of dbtester runs it: a configuration, real etcd and ZooKeeper, and dbtester's
//! files.
//!
//! Not here: configurations in full, and exact contents of files (`bakeoff_compat::dbtester`).

use std::path::Path;

use libtest_mimic::Trial;

use crate::support::case::{Case, case, with};
use crate::support::skip::SkippedTests;
use crate::support::{AUDITS, CommandOutput, array, bakeoff, text};

const STORES: Case = case("zookeeper", "", 1);

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    type Test = fn(&Case);
    let all: [(&str, Test); 3] = [
        ("dbtester_writes_its_files_for_both_databases", both_databases_leave_files),
        ("dbtester_reads_one_key_of_one_database", one_database_is_read),
        ("dbtester_refuses_other_machines_and_programs_that_are_gone", others_are_refused),
    ];
    all.into_iter().map(|(name, test)| with(name, STORES, skipped, test)).collect()
}

/// Returns a configuration of both databases. `machine` is the address of ZooKeeper's first node.
fn configuration(machine: &str, benchmark: &str) -> String {
    let group = |id: &str, name: &str, ips: &str, flags: &str| {
        format!(
            "  {id}:\n    database_description: {name}\n    peer_ips: {ips}\n    {id}: {flags}\n    benchmark_options:\n      \
             {{{benchmark}, key_size_bytes: 64, value_size_bytes: 256}}\n    benchmark_steps: {{step1_start_database: true, \
             step2_stress_database: true, step3_stop_database: true, step4_upload_logs: true}}\n"
        )
    };
    let etcd = group(
        "etcd__tip",
        "etcd tip (Go 1.8.0)",
        "[127.0.0.1, 127.0.0.2, 127.0.0.3]",
        "{snap_count: 100000}",
    );
    let flags = "{java_d_jute_max_buffer: 33554432, java_xms: 256M, java_xmx: 256M, max_client_connections: 5000}";
    let ips = format!("[{machine}]");
    let zookeeper = group("zookeeper__r3_5_3_beta", "Zookeeper (Java 8)", &ips, flags);
    let analysis = |id: &str, tag: &str, nodes: u32| {
        let servers =
            (1..=nodes).map(|node| format!("{node}-server-system-metrics-interpolated.csv"));
        let servers = servers.collect::<Vec<_>>().join(", ");
        format!(
            "  {id}: {{path_prefix: result/{tag}, server_system_metrics_interpolated_path_list: [{servers}]}}\n"
        )
    };
    format!(
        "test_title: Write few keys\nconfig_client_machine_initial: {{path_prefix: home}}\nall_database_id_list: [etcd__tip, \
         zookeeper__r3_5_3_beta]\ndatatbase_id_to_config_client_machine_agent_control:\n{etcd}{zookeeper}\
         datatbase_id_to_config_analyze_machine_initial:\n{}{}\
         analyze_all_aggregated_output: {{all_aggregated_output_path_csv: result/all.csv, all_aggregated_output_path_txt: \
         result/all.txt}}\nanalyze_plot_path_prefix: result\nanalyze_plot_list: [{{column: AVG-THROUGHPUT, x_axis: Second, \
         y_axis: Requests}}]\nanalyze_readme: {{output_path: result/README.md}}\n",
        analysis("etcd__tip", "etcd-tip-go1.8.0", 3),
        analysis("zookeeper__r3_5_3_beta", "zookeeper-java8", 1),
    )
}

/// `bakeoff dbtester COMMAND --config c.yaml` in a folder that holds the configuration.
fn dbtester(dir: &Path, arguments: &[&str]) -> CommandOutput {
    let mut command = bakeoff();
    command.current_dir(dir).arg("dbtester").args(arguments).args(["--config", "c.yaml"]);
    if arguments[0] == "control" {
        // Absolute, because the test uses printed paths from another folder.
        command.arg("--out").arg(dir.join("runs"));
    }
    CommandOutput::run(&mut command)
}

fn lines(path: &Path) -> Vec<String> {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(str::to_owned).collect()
}

/// Returns the sum of a column of whole numbers.
fn sum(lines: &[String], column: &str) -> u64 {
    let place = lines[0].split(',').position(|name| name == column).expect("a column");
    let numbers = lines[1..].iter().map(|line| line.split(',').nth(place).unwrap().parse::<u64>());
    numbers.map(|number| number.unwrap_or(0)).sum()
}

fn both_databases_leave_files(_: &Case) {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join("result").join(name);
    let steps = "type: write, request_number: 20000, connection_client_numbers: [4, 16]";
    std::fs::write(dir.path().join("c.yaml"), configuration("10.138.0.2", steps)).unwrap();
    let ran = dbtester(dir.path(), &["control", "--here", "--scale", "0.1", "--seed", "7"]);
    let ran = ran.ends_with(0).complains(&[
        "c.yaml:8:17: `snap_count` is not a field of `etcd__tip` and is ignored, as in dbtester; did you mean \
         `snapshot_count`?",
        "this machine replaces 1 machine of the configuration",
        "`max_client_connections` is ignored",
        "bakeoff uploads nothing",
    ]);
    assert!(ran.stdout.contains("etcd__tip: 14 files in ./result"), "{}", ran.stdout);
    for (tag, nodes) in [("etcd-tip-go1.8.0", 3), ("zookeeper-java8", 1)] {
        let seconds = lines(&file(&format!("{tag}-client-latency-throughput-timeseries.csv")));
        assert_eq!(sum(&seconds, "AVG-THROUGHPUT"), 2000, "{seconds:?}");
        let clients: Vec<&str> =
            seconds[1..].iter().map(|line| line.split(',').nth(1).unwrap()).collect();
        assert!(clients.contains(&"4") && clients.contains(&"16"), "{clients:?}");
        for node in 1..=nodes {
            let metrics =
                lines(&file(&format!("{tag}-{node}-server-system-metrics-interpolated.csv")));
            assert!(
                metrics[0].starts_with("UNIX-NANOSECOND,UNIX-SECOND,PROGRAM,"),
                "{}",
                metrics[0]
            );
            assert!(sum(&metrics, "WRITE-BYTES-DELTA") > 500_000, "{metrics:?}");
        }
        let disk = lines(&file(&format!("{tag}-server-disk-space-usage-summary.csv")));
        assert_eq!(disk.len(), nodes + 1, "{disk:?}");
    }
    let again = dir.path().join("again");
    let from = ["control", "--here", "--results", "again", "--from"];
    let mut command = bakeoff();
    command
        .current_dir(dir.path())
        .arg("dbtester")
        .args(from)
        .arg("latest")
        .args(["--config", "c.yaml"]);
    CommandOutput::run(&mut command).ends_with(0);
    let name = "result/etcd-tip-go1.8.0-client-latency-throughput-timeseries.csv";
    assert_eq!(
        lines(&again.join(name)),
        lines(&dir.path().join(name)),
        "a record yields the same files again"
    );
    let study = record(dir.path(), "run")["study"].clone();
    let options = &study["systems"][1]["options"];
    assert_eq!((text(&options["heap"]), text(&options["init-limit"])), ("256MiB", "5"));
    assert_eq!(text(&study["systems"][0]["options"]["snapshot-count"]), "100000");
    let audits = record(dir.path(), "trial")["audits"].clone();
    let names: Vec<&str> = array(&audits).iter().map(|audit| text(&audit["when"])).collect();
    assert_eq!(names, AUDITS);

    let analyzed = dbtester(dir.path(), &["analyze"]).ends_with(0);
    assert!(
        analyzed.stdout.contains("| etcd-tip-go1.8.0 | zookeeper-java8 |"),
        "{}",
        analyzed.stdout
    );
    let all = lines(&file("all.csv"));
    assert_eq!(all[0], ",etcd-tip-go1.8.0,zookeeper-java8");
    assert_eq!(all[2], "TOTAL-REQUEST-NUMBER,\"2,000\",\"2,000\"");
    let by_clients = lines(&file("AVG-THROUGHPUT-BY-CLIENT-NUM-aggregated.csv"));
    assert_eq!(
        by_clients[1..].iter().map(|line| line.split(',').next().unwrap()).collect::<Vec<_>>(),
        ["4", "16"]
    );
    assert!(lines(&file("README.md")).contains(&"##### Write few keys".to_owned()));
    assert!(!dir.path().join("home").exists(), "files of one database alone go there");
}

/// Returns the first line of a kind in the record of the only run below a folder.
fn record(dir: &Path, kind: &str) -> serde_json::Value {
    let run = std::fs::read_dir(dir.join("runs")).unwrap().next().unwrap().unwrap().path();
    let lines = lines(&run.join("record.jsonl"));
    let lines = lines.iter().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.into_iter().find(|line| text(&line["line"]) == kind).expect("a line of this kind")
}

fn one_database_is_read(_: &Case) {
    let dir = tempfile::tempdir().unwrap();
    let reads = "type: read, request_number: 2000, connection_number: 4, client_number: 20";
    let whole = configuration("127.0.0.1", reads);
    // ZooKeeper's clients do not share connections.
    let (etcd, zookeeper) = whole.split_once("  zookeeper__").unwrap();
    let zookeeper = zookeeper.replacen("connection_number: 4", "connection_number: 20", 1);
    std::fs::write(dir.path().join("c.yaml"), format!("{etcd}  zookeeper__{zookeeper}")).unwrap();
    let one = ["control", "--database-id", "etcd__tip", "--seed", "7"];
    dbtester(dir.path(), &one).ends_with(2).complains(&[
        "error: folder `home` does not exist\n --> c.yaml:2:46",
        "hint: `--path-prefix .` writes the files of `control` to the current folder",
    ]);
    std::fs::create_dir(dir.path().join("home")).unwrap();
    dbtester(dir.path(), &one).ends_with(0);
    let own = dir.path().join("home/client-latency-distribution-summary.csv");
    let summary = lines(&own);
    let names: Vec<&str> = summary.iter().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(
        names,
        [
            "TOTAL-SECONDS",
            "REQUESTS-PER-SECOND",
            "SLOWEST-LATENCY-MS",
            "FASTEST-LATENCY-MS",
            "AVERAGE-LATENCY-MS",
            "STDDEV-LATENCY-MS",
            "ERROR"
        ]
    );
    let load = record(dir.path(), "run")["study"]["loads"][0].clone();
    assert_eq!(
        (load["clients"].clone(), load["in_flight"].as_u64()),
        (serde_json::json!([4]), Some(5))
    );
    let seconds = lines(&dir.path().join("home/client-latency-throughput-timeseries.csv"));
    assert_eq!(
        seconds[1].split(',').nth(1),
        Some("20"),
        "five clients of dbtester's on each connection"
    );
}

fn others_are_refused(_: &Case) {
    let dir = tempfile::tempdir().unwrap();
    let writes = "type: write, request_number: 20, connection_number: 1, client_number: 1";
    let whole = configuration("10.138.0.2", writes);
    std::fs::write(dir.path().join("c.yaml"), &whole).unwrap();
    dbtester(dir.path(), &["control"]).ends_with(2).complains(&[
        "error: `10.138.0.2` is another machine, but without `--on` databases run on this one\n  --> c.yaml:14:16",
        "hint: use `--here` to run all nodes on this machine",
    ]);
    dbtester(dir.path(), &["control", "--database-id", "etcd__v3_3"]).ends_with(2).complains(&[
        "`c.yaml` has no database `etcd__v3_3`",
        "hint: its databases: `etcd__tip` and `zookeeper__r3_5_3_beta`",
    ]);
    dbtester(dir.path(), &["analyze"]).ends_with(2).complains(&[
        "cannot read `./result/etcd-tip-go1.8.0-1-server-system-metrics-interpolated.csv` of `etcd__tip`",
        "hint: `bakeoff dbtester control` writes it",
    ]);
    let gone = whole.replace("zookeeper__r3_5_3_beta", "zetcd__beta");
    std::fs::write(
        dir.path().join("c.yaml"),
        gone.replace("zetcd__beta: {java", "zetcd_flags: {java"),
    )
    .unwrap();
    dbtester(dir.path(), &["control", "--here"]).ends_with(2).complains(&[
        "error: the program of `zetcd__beta`, a proxy of 2016, is no longer available",
        "hint: remove it from `all_database_id_list`",
    ]);
    let mut agent = bakeoff();
    agent.args(["dbtester", "agent", "--network-interface", "eth0", "--agent-port", ":3500"]);
    let agent = CommandOutput::run(&mut agent).ends_with(0);
    assert!(agent.stdout.starts_with("There is no agent to start"), "{}", agent.stdout);
}
