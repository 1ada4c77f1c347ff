//! Analyses the files of small loads.

use super::*;
use crate::dbtester::config;
use crate::dbtester::files::{METRICS_HEADER, TIMESERIES_HEADER};

const CONFIG: &str = "\
test_title: Write 1M keys
test_description: |
  - one machine
all_database_id_list: [etcd__tip, consul__v1_0_2]
datatbase_id_to_config_client_machine_agent_control:
  etcd__tip:
    database_description: etcd tip (Go 1.8.0)
    peer_ips: [10.0.0.1, 10.0.0.2]
    benchmark_options: {type: write, request_number: 4000, connection_client_numbers: [1, 10]}
  consul__v1_0_2:
    database_description: Consul v1.0.2
    peer_ips: [10.0.0.3]
    benchmark_options: {type: write, request_number: 4000, connection_client_numbers: [1, 10]}
datatbase_id_to_config_analyze_machine_initial:
  etcd__tip: {path_prefix: out/e, server_system_metrics_interpolated_path_list: [1.csv, 2.csv]}
  consul__v1_0_2: {path_prefix: out/c, server_system_metrics_interpolated_path_list: [1.csv]}
analyze_all_aggregated_output:
  all_aggregated_output_path_csv: out/all.csv
  all_aggregated_output_path_txt: out/all.md
analyze_plot_path_prefix: out
analyze_plot_list:
- {column: AVG-LATENCY-MS, x_axis: Second, y_axis: Latency(millisecond)}
- {column: AVG-READ-BYTES-DELTA, x_axis: Second, y_axis: Bytes}
analyze_readme:
  output_path: out/README.md
  images:
  - {title: latency, path: https://example.org/AVG-LATENCY-MS.svg, type: remote}
  - {title: cpu, path: out/AVG-CPU.svg, type: local}
";

/// Returns a metrics file as dbtester writes it, for the seconds 100 to 103.
fn metrics(cpu: &str, rss: &str) -> String {
    let mut frame = Frame::new(METRICS_HEADER);
    for second in 99..=104 {
        let field = |name: &str| match name {
            "UNIX-SECOND" => second.to_string(),
            "PROGRAM" | "STATE" | "DEVICE" | "INTERFACE" | "TIME(READS)" => "words".to_owned(),
            "CPU-NUM" => cpu.to_owned(),
            "VMRSS-NUM" => rss.to_owned(),
            "SECTORS-READ-DELTA" => "8".to_owned(),
            "RECEIVE-BYTES-NUM-DELTA" => "1000".to_owned(),
            "EXTRA" => "1".to_owned(),
            _ => "0".to_owned(),
        };
        frame.rows.push(METRICS_HEADER.map(field).to_vec());
    }
    frame.csv()
}

fn texts<'a>(analysis: &'a Analysis, failures: &str) -> Input<'a> {
    let mut texts = BTreeMap::new();
    for (place, path) in analysis.servers.iter().enumerate() {
        let cpu = ["10.00", "30.00"][place];
        texts.insert(path.as_str(), metrics(cpu, "24576000"));
    }
    let mut put = |file: ResultFile, text: String| {
        texts.insert(analysis.paths[&file].as_str(), text);
    };
    put(ResultFile::ClientMetricsInterpolated, metrics("50.00", "16000000"));
    let seconds = "UNIX-SECOND,CONTROL-CLIENT-NUM,MIN-LATENCY-MS,AVG-LATENCY-MS,MAX-LATENCY-MS,AVG-THROUGHPUT\n\
                   100,1,1.5,2,5,100\n101,1,1,2,4,1000\n102,1,1,2,4,1500\n102,10,2,6,9,500\n103,10,0,0,0,0\n\
                   104,10,2,8,9,890\n";
    put(ResultFile::Timeseries, seconds.to_owned());
    let summary = format!(
        "TOTAL-SECONDS,4.5000\nREQUESTS-PER-SECOND,888.8888\nSLOWEST-LATENCY-MS,9.0000\nFASTEST-LATENCY-MS,1.0000\n\
         AVERAGE-LATENCY-MS,3.9000\nSTDDEV-LATENCY-MS,1.0000\n{failures}"
    );
    put(ResultFile::DistributionSummary, summary);
    let percentiles =
        "LATENCY-PERCENTILE,LATENCY-MS\np10,1.100000\np50,2.000000\np99,8.900000\np99.9,\n";
    put(ResultFile::DistributionPercentile, percentiles.to_owned());
    let keys = "KEYS,MIN-LATENCY-MS,AVG-LATENCY-MS,MAX-LATENCY-MS\n1000,1.5,2,5\n2000,1,2,4\n";
    put(ResultFile::LatencyByKey, keys.to_owned());
    let disk = "INDEX,DATABASE-ENDPOINT,DISK-SPACE-USAGE,DISK-SPACE-USAGE-BYTES-NUM\n0,10.0.0.1:2379,1 MB,1000000\n";
    put(ResultFile::DiskUsage, disk.to_owned());
    Input { analysis, texts }
}

fn analyzed(failures: &str) -> (Config, Result<AnalysisOutput, AnalysisError>) {
    let (config, _) = config::read("t.yaml", CONFIG).unwrap();
    let inputs = config.analyses.iter().map(|(&one, analysis)| (one, texts(analysis, failures)));
    let result = analyze(&config, &inputs.collect());
    (config, result)
}

fn file(analyzed: &AnalysisOutput, path: &str) -> String {
    let found = analyzed.files.iter().find(|(name, _)| name == path);
    found.unwrap_or_else(|| panic!("no {path}")).1.clone()
}

#[test]
fn the_table_has_the_rows_of_dbtester() {
    let failed = "\"ERROR: \"\"timeout\"\"\",10\n";
    let (_, analyzed) = analyzed(failed);
    let analyzed = analyzed.unwrap();
    let expected = "\
+---------------------------------------+------------------+---------------+
|                                       | etcd-tip-go1.8.0 | consul-v1.0.2 |
+---------------------------------------+------------------+---------------+
|                         TOTAL-SECONDS |       4.5000 sec |    4.5000 sec |
|                  TOTAL-REQUEST-NUMBER |            4,000 |         4,000 |
|                        MAX-THROUGHPUT |    2,000 req/sec | 2,000 req/sec |
|                        AVG-THROUGHPUT |      888 req/sec |   888 req/sec |
|                        MIN-THROUGHPUT |        0 req/sec |     0 req/sec |
|                       FASTEST-LATENCY |        1.0000 ms |     1.0000 ms |
|                           AVG-LATENCY |        3.9000 ms |     3.9000 ms |
|                       SLOWEST-LATENCY |        9.0000 ms |     9.0000 ms |
|                           Latency p10 |      1.100000 ms |   1.100000 ms |
|                           Latency p25 |                - |             - |
|                           Latency p50 |      2.000000 ms |   2.000000 ms |
|                           Latency p75 |                - |             - |
|                           Latency p90 |                - |             - |
|                           Latency p95 |                - |             - |
|                           Latency p99 |      8.900000 ms |   8.900000 ms |
|                         Latency p99.9 |                - |             - |
|      SERVER-TOTAL-NETWORK-RX-DATA-SUM |            10 kB |        5.0 kB |
|      SERVER-TOTAL-NETWORK-TX-DATA-SUM |              0 B |           0 B |
|           CLIENT-TOTAL-NETWORK-RX-SUM |           6.0 kB |        6.0 kB |
|           CLIENT-TOTAL-NETWORK-TX-SUM |              0 B |           0 B |
|                  SERVER-MAX-CPU-USAGE |          20.00 % |       10.00 % |
|               SERVER-MAX-MEMORY-USAGE |            25 MB |         25 MB |
|                  CLIENT-MAX-CPU-USAGE |          50.00 % |       50.00 % |
|               CLIENT-MAX-MEMORY-USAGE |            16 MB |         16 MB |
|                    CLIENT-ERROR-COUNT |               10 |            10 |
|  SERVER-AVG-READS-COMPLETED-DELTA-SUM |                0 |             0 |
|    SERVER-AVG-SECTORS-READS-DELTA-SUM |               80 |            40 |
| SERVER-AVG-WRITES-COMPLETED-DELTA-SUM |                0 |             0 |
|  SERVER-AVG-SECTORS-WRITTEN-DELTA-SUM |                0 |             0 |
|           SERVER-AVG-DISK-SPACE-USAGE |           1.0 MB |        1.0 MB |
+---------------------------------------+------------------+---------------+


etcd__tip errors:
\"timeout\" (count 10)
consul__v1_0_2 errors:
\"timeout\" (count 10)
";
    assert_eq!(analyzed.table, expected);
    assert_eq!(file(&analyzed, "out/all.txt"), expected, "the name ends in txt whatever was asked");
    let csv = file(&analyzed, "out/all.csv");
    assert_eq!(csv.lines().next(), Some(",etcd-tip-go1.8.0,consul-v1.0.2"));
    assert!(csv.contains("\nTOTAL-REQUEST-NUMBER,\"4,000\",\"4,000\"\n"), "{csv}");
    assert!(
        csv.contains("\nSERVER-TOTAL-NETWORK-RX-DATA-BYTES-SUM-RAW,10000.00,5000.00\n"),
        "{csv}"
    );
    assert!(csv.contains("\nLatency p99.9,,\n"), "{csv}");
}

#[test]
fn seconds_in_which_steps_meet_count_each_step_by_its_requests() {
    let (_, analyzed) = analyzed("ERROR,0\n");
    let analyzed = analyzed.unwrap();
    let all = Frame::read(&file(&analyzed, "out/e-all-aggregated.csv")).unwrap();
    let column = |name: &str| all.column(name).unwrap();
    assert_eq!(
        all.header[..14],
        [
            "UNIX-SECOND",
            "SECOND",
            "AVG-CLIENT-NUM",
            "CONTROL-CLIENT-NUM",
            "MIN-LATENCY-MS",
            "AVG-THROUGHPUT",
            "AVG-LATENCY-MS",
            "MAX-LATENCY-MS",
            "CUMULATIVE-THROUGHPUT",
            "AVG-CPU",
            "MAX-CPU",
            "AVG-SYSTEM-LOAD-1-MIN",
            "AVG-VMRSS-MB",
            "AVG-WRITES-COMPLETED",
        ]
    );
    assert_eq!(all.header.last().unwrap(), "CLIENT-NUM-2");
    assert_eq!(all.header.len(), 29 + 2 * 20);
    assert_eq!(column("AVG-THROUGHPUT"), ["100", "1000", "2000", "0", "890"]);
    assert_eq!(
        column("AVG-LATENCY-MS"),
        ["2", "2", "3", "", "8"],
        "three of four requests took 2 ms"
    );
    assert_eq!(column("CUMULATIVE-THROUGHPUT"), ["100", "1100", "3100", "3100", "3990"]);
    assert_eq!(column("MAX-CPU")[0], "30.00");
    let steps = file(&analyzed, "out/AVG-LATENCY-MS-BY-CLIENT-NUM-aggregated.csv");
    assert_eq!(
        steps,
        "CONTROL-CLIENT-NUM,AVG-LATENCY-MS-etcd-tip-go1.8.0,AVG-LATENCY-MS-consul-v1.0.2\n\
         1,2.0000,2.0000\n10,7.2806,7.2806\n"
    );
}

#[test]
fn second_between_two_steps_does_not_lower_throughput() {
    let (config, _) = config::read("t.yaml", CONFIG).unwrap();
    let analysis = &config.analyses[&Database::Consul];
    let mut input = texts(analysis, "ERROR,0\n");
    let seconds = "UNIX-SECOND,CONTROL-CLIENT-NUM,MIN-LATENCY-MS,AVG-LATENCY-MS,MAX-LATENCY-MS,AVG-THROUGHPUT\n\
                   100,1,1,1,1,5\n101,1,1,1,1,70\n103,10,1,1,1,60\n104,10,1,1,1,5\n";
    input.texts.insert(&analysis.paths[&ResultFile::Timeseries], seconds.to_owned());
    let summary = &analysis.paths[&ResultFile::DistributionSummary];
    input.texts.insert(summary, "REQUESTS-PER-SECOND,65.0000\nERROR,0\n".to_owned());
    let analyzed = analyze(&config, &BTreeMap::from([(Database::Consul, input)])).unwrap();
    let row = |name: &str| analyzed.table.lines().find(|line| line.contains(name)).unwrap();
    assert!(row(" MIN-THROUGHPUT ").contains(" 60 req/sec "), "{}", analyzed.table);
    assert!(row(" MAX-THROUGHPUT ").contains(" 70 req/sec "), "{}", analyzed.table);
}

#[test]
fn mean_throughput_lies_between_the_least_and_the_most() {
    let (config, _) = config::read("t.yaml", CONFIG).unwrap();
    let analysis = &config.analyses[&Database::Consul];
    // A load of 0.4 s, and one whose only whole second is its slowest, or its fastest.
    for (seconds, mean, most, least) in [
        ("100,1,1,1,1,400\n", "1000.0000", "1,000", "400"),
        ("100,1,1,1,1,900\n101,1,1,1,1,700\n102,1,1,1,1,800\n", "960.0000", "960", "700"),
        ("100,1,1,1,1,100\n101,1,1,1,1,900\n102,1,1,1,1,100\n", "500.0000", "900", "500"),
    ] {
        let mut input = texts(analysis, "ERROR,0\n");
        let header = TIMESERIES_HEADER.join(",");
        let path = &analysis.paths[&ResultFile::Timeseries];
        input.texts.insert(path, format!("{header}\n{seconds}"));
        let summary = format!("REQUESTS-PER-SECOND,{mean}\nERROR,0\n");
        input.texts.insert(&analysis.paths[&ResultFile::DistributionSummary], summary);
        let analyzed = analyze(&config, &BTreeMap::from([(Database::Consul, input)])).unwrap();
        let row = |name: &str| analyzed.table.lines().find(|line| line.contains(name)).unwrap();
        let is = |name: &str, rate: &str| row(name).contains(&format!(" {rate} req/sec "));
        assert!(is(" MAX-THROUGHPUT ", most), "{}", analyzed.table);
        assert!(is(" MIN-THROUGHPUT ", least), "{}", analyzed.table);
    }
}

#[test]
fn plot_files_hold_all_databases() {
    let (_, analyzed) = analyzed("ERROR,0\n");
    let analyzed = analyzed.unwrap();
    let header = |path: &str| file(&analyzed, path).lines().next().unwrap_or_default().to_owned();
    let (e, c) = ("etcd-tip-go1.8.0", "consul-v1.0.2");
    assert_eq!(header("out/AVG-LATENCY-MS.csv"), format!("AVG-LATENCY-MS-{e},AVG-LATENCY-MS-{c}"));
    assert_eq!(
        header("out/AVG-LATENCY-MS-BY-KEY.csv"),
        format!("KEYS-{e},AVG-LATENCY-MS-{e},KEYS-{c},AVG-LATENCY-MS-{c}")
    );
    assert_eq!(
        header("out/AVG-WRITE-BYTES-NUM-DELTA-BY-KEY.csv"),
        format!(
            "KEYS-{e},AVG-WRITE-BYTES-NUM-DELTA-{e},AVG-WRITE-BYTES-{e},KEYS-{c},AVG-WRITE-BYTES-NUM-DELTA-{c},\
             AVG-WRITE-BYTES-{c}"
        )
    );
    let memory = file(&analyzed, "out/e-server-memory-by-key-number.csv");
    assert!(
        memory.starts_with("KEYS,MIN-VMRSS-MB,AVG-VMRSS-MB,MAX-VMRSS-MB\n1000,24.58,24.58,24.58\n")
    );
    let svg = file(&analyzed, "out/AVG-LATENCY-MS.svg");
    assert!(svg.contains("etcd-tip-go1.8.0") && svg.ends_with("</svg>\n"), "{svg}");
    let curve = svg.lines().find(|line| line.contains("<title>etcd-tip")).unwrap();
    assert_eq!(curve.matches('M').count(), 2, "the second without an answer is a gap: {curve}");
    let [note] = &analyzed.notes[..] else { panic!("{:?}", analyzed.notes) };
    assert!(note.contains("`AVG-READ-BYTES-DELTA`") && note.contains("AVG-READ-BYTES-NUM-DELTA"));
}

#[test]
fn the_readme_is_laid_out_as_dbtester_does() {
    let (_, analyzed) = analyzed("ERROR,0\n");
    let analyzed = analyzed.unwrap();
    let readme = file(&analyzed, "out/README.md");
    let table = &analyzed.table;
    assert_eq!(
        readme,
        format!(
            "\n\n<br><br><hr>\n##### Write 1M keys\n\n- one machine\n\n\n```\n{table}```\n\n\n\
             <img src=\"https://example.org/AVG-LATENCY-MS.svg\" alt=\"latency\">\n\n\n\n\
             ![cpu](./AVG-CPU.svg)\n\n\n\n"
        )
    );
}

#[test]
fn error_names_the_broken_file() {
    let (config, _) = config::read("t.yaml", CONFIG).unwrap();
    let analysis = &config.analyses[&Database::EtcdTip];
    let printed = |file: ResultFile, text: &str| {
        let mut input = texts(analysis, "ERROR,0\n");
        input.texts.insert(analysis.paths[&file].as_str(), text.to_owned());
        analyze(&config, &BTreeMap::from([(Database::EtcdTip, input)])).unwrap_err().to_string()
    };
    assert_eq!(
        printed(ResultFile::Timeseries, "UNIX-SECOND\n1\n"),
        "`out/e-client-latency-throughput-timeseries.csv`: it has no column `CONTROL-CLIENT-NUM`"
    );
    let seconds = "UNIX-SECOND,CONTROL-CLIENT-NUM,MIN-LATENCY-MS,AVG-LATENCY-MS,MAX-LATENCY-MS,AVG-THROUGHPUT\n";
    assert_eq!(
        printed(ResultFile::Timeseries, seconds),
        "`out/e-client-latency-throughput-timeseries.csv` has no rows: nothing was measured"
    );
    assert_eq!(
        printed(ResultFile::Timeseries, &format!("{seconds}1,1,1,1,1,1\n9000000000,1,1,1,1,1\n")),
        "`out/e-client-latency-throughput-timeseries.csv` covers more seconds or requests than any load"
    );
    assert_eq!(
        printed(ResultFile::DistributionSummary, "ERROR: x,many\n"),
        "`out/e-client-latency-distribution-summary.csv`: `many` in row 1 of column `ERROR: x` is not a number"
    );
}

#[test]
fn analyze_reads_the_files_of_control() {
    let (config, _) = config::read("t.yaml", CONFIG).unwrap();
    let analysis = &config.analyses[&Database::Consul];
    let made = crate::dbtester::files::tests::made();
    let mut texts = BTreeMap::new();
    for (file, text) in made.client {
        if let Some(path) = analysis.paths.get(&file) {
            texts.insert(path.as_str(), text);
        }
    }
    texts.insert(&analysis.servers[0], made.servers[0].interpolated.clone());
    let input = Input { analysis, texts };
    let analyzed = analyze(&config, &BTreeMap::from([(Database::Consul, input)])).unwrap();
    assert!(analyzed.table.contains("|                  TOTAL-REQUEST-NUMBER |             7 |"));
    // The load ended half a second into its last second.
    assert!(
        analyzed.table.contains("|      SERVER-TOTAL-NETWORK-RX-DATA-SUM |        4.0 kB |"),
        "{}",
        analyzed.table
    );
}
