//! Tests `bakeoff etcd-benchmark` against etcd's own benchmark and a real etcd.
//!
//! The layout is compared byte by byte with that of etcd's own code, which Go builds from the module proxy: for equal
//! numbers with its package `report`, and for each subcommand with the whole program. Without Go these tests are skipped.
//!
//! Not here: servers that do not answer (`commands`), flags and answers in detail (`bakeoff_compat::etcd_benchmark`).

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bakeoff_compat::etcd_benchmark::perfdash;
use bakeoff_compat::etcd_benchmark::report::{
    self, Distribution, Precision, ReportFigures, SecondPoint,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use libtest_mimic::Trial;
use serde_json::{Value, json};

use super::contract::ETCD_ALONE;
use super::own_clusters::{Etcd, identity};
use crate::support::case::{Case, with};
use crate::support::certificates::Certificates;
use crate::support::go_tool::{GoMain, GoTool};
use crate::support::skip::{SkipReason, SkippedTests};
use crate::support::{CommandOutput, array, bakeoff, text};

/// etcd's own benchmark.
const ORIGINAL: GoTool = GoTool {
    name: "etcd-benchmark",
    requires: &["go.etcd.io/etcd/v3/tools/benchmark@v3.7.1"],
    main: GoMain::Package("go.etcd.io/etcd/v3/tools/benchmark"),
    tags: "",
};

/// The package that prints its reports, fed with given times.
const REPORT: GoTool = GoTool {
    name: "etcd-report",
    requires: &["go.etcd.io/etcd/pkg/v3@v3.7.1"],
    main: GoMain::Text(include_str!("etcd_benchmark/report.go")),
    tags: "",
};

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    type Test = fn(&Case);
    let all: [(&str, Test); 8] = [
        ("etcd_benchmark_writes_the_keys_that_its_flags_name", keys_are_those_of_the_flags),
        ("etcd_benchmark_reads_ranges_pages_and_counts", ranges_are_read),
        ("etcd_benchmark_commits_transactions_without_conflicts", transactions_are_isolated),
        ("etcd_benchmark_renews_leases_on_a_stream_of_each_client", leases_are_renewed),
        ("etcd_benchmark_times_the_events_of_watchers_from_their_puts", events_are_timed),
        ("etcd_benchmark_reports_failures_and_exits_with_1", failures_are_reported),
        ("etcd_benchmark_uses_tls_and_hides_passwords", tls_and_passwords),
        ("etcd_benchmark_counts_late_requests_from_when_they_were_due", late_requests),
    ];
    let mut tests: Vec<Trial> =
        all.into_iter().map(|(name, test)| with(name, ETCD_ALONE, skipped, test)).collect();
    let layout = "etcd_benchmark_has_the_layout_of_the_original";
    tests.push(with(layout, ETCD_ALONE, skipped, |_: &Case| {
        layouts_are_those_of_the_original(&ORIGINAL.program()?);
        Ok::<(), SkipReason>(())
    }));
    let report = "etcd_benchmark_prints_equal_numbers_byte_for_byte";
    tests.push(skipped.unless_lacking(report, || {
        equal_numbers_are_equal_bytes(&REPORT.program()?);
        Ok(())
    }));
    tests
}

/// Runs `bakeoff etcd-benchmark` against an etcd.
fn ours(etcd: &Etcd, words: &str) -> CommandOutput {
    ours_in(Path::new("."), etcd, words)
}

fn ours_in(folder: &Path, etcd: &Etcd, words: &str) -> CommandOutput {
    let mut command = bakeoff();
    command.current_dir(folder).arg("etcd-benchmark").args(arguments(etcd, words));
    command.env_remove("ARTIFACTS").env_remove("BAKEOFF_USER");
    CommandOutput::run(&mut command)
}

fn arguments(etcd: &Etcd, words: &str) -> Vec<String> {
    let endpoints = format!("--endpoints=127.0.0.1:{}", etcd.port);
    let word = |word: &str| if word == "''" { String::new() } else { word.to_owned() };
    std::iter::once(endpoints).chain(words.split_whitespace().map(word)).collect()
}

/// Returns the lines of standard error, without the warning about tests that run at the same time.
fn warnings(ran: &CommandOutput) -> Vec<&str> {
    let lines = ran.stderr.lines();
    lines.filter(|line| !line.contains("another bakeoff is running on this machine")).collect()
}

/// Runs etcd's own benchmark, which may not take longer than a minute.
fn theirs(program: &Path, folder: &Path, etcd: &Etcd, words: &str) -> String {
    let mut command = Command::new("timeout");
    command.arg("60").arg(program).args(arguments(etcd, words)).current_dir(folder);
    let output = command.env_remove("ARTIFACTS").output().expect("`timeout` runs");
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("its output is UTF-8")
}

/// Replaces each number by `N`, drops bars, and keeps one line of figures of seconds.
fn masked(output: &str) -> String {
    let mut masked = String::new();
    for line in output.split_inclusive('\n') {
        let mut numbers = String::new();
        for c in line.replace('∎', "").chars() {
            match c {
                '0'..='9' if numbers.ends_with('N') => {}
                '0'..='9' => numbers.push('N'),
                _ => numbers.push(c),
            }
        }
        // `%g` and Go's durations have points and exponents only if they need them.
        for (form, plain) in [
            ("N.N", "N"),
            ("Ne-N", "N"),
            ("N.Ne-N", "N"),
            ("µs", "ms"),
            ("Nns", "Nms"),
            ("Ns,", "Nms,"),
        ] {
            numbers = numbers.replace(form, plain);
        }
        let is_second = numbers.starts_with("N,Nms,");
        if !is_second || !masked.ends_with(&numbers) {
            masked.push_str(&numbers);
        }
    }
    masked
}

fn layouts_are_those_of_the_original(original: &Path) {
    let etcd = Etcd::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let fill = "put --total=300 --key-space-size=300 --sequential-keys";
    theirs(original, folder.path(), &etcd, fill);
    for words in [
        "put --total=1200",
        "put --total=3 --check-hashkv",
        "--precise put --total=1200",
        "--sample --clients=4 --conns=2 put --total=1200 --rate=800",
        "range foo --total=1200",
        "range --prefix --total=1200 --consistency=s --keys-only",
        "--clients 3 range a z --total 1200 --limit 5 --precise",
        "txn-put --total=1200 --key-space-size=8 --txn-ops=4",
        // As `rw-benchmark.sh` of etcd calls it.
        "txn-mixed '' --conns=1 --clients=2 --total=3000 --rw-ratio=1 --limit=100 --val-size=64",
        "stm --total=1200 --keys=9 --keys-per-txn=3",
        "--clients=3 --sample lease-keepalive --total=1200",
        "watch --streams=3 --watch-per-stream=20 --watched-key-total=4 --key-space-size=8 --put-total=400",
        "--sample --clients=3 watch --put-total=30 --put-rate=20",
        "--precise watch-latency --streams=2 --watchers-per-stream=3 --put-total=1200 --put-rate=2000",
        "watch-get --watchers=4000 --streams=2",
        "--report-perfdash put --total=1200",
        "--report-perfdash watch-get --watchers=4000",
        "--report-perfdash txn-mixed --total=3000",
    ] {
        let theirs = theirs(original, folder.path(), &etcd, words);
        let ours = ours_in(folder.path(), &etcd, words).ends_with(0).stdout;
        let (ours, our_reports) = without_reports(&ours);
        let (theirs, their_reports) = without_reports(&theirs);
        assert_eq!(our_reports, their_reports, "{words}");
        let layout = |output: &str| {
            let lines = masked(output);
            // The original has no line for a percentile of 0 s, which an event before its acknowledgement has there.
            let is_kept =
                |line: &&str| !words.contains("watch-latency") || !line.starts_with("  N% in ");
            lines.split_inclusive('\n').filter(is_kept).collect::<String>()
        };
        assert_eq!(layout(&ours), layout(&theirs), "{words}\nours:\n{ours}\ntheirs:\n{theirs}");
    }
    perfdash_reads_both(&folder.path().join("_artifacts"));
}

/// Removes the lines about reports for perfdash, and returns them masked and sorted. The original prints them while other
/// lines are printed, so their place varies, even within a line.
fn without_reports(output: &str) -> (String, Vec<String>) {
    const BEGIN: &str = "Successfully created a JSON perf report at ";
    let mut rest = output.to_owned();
    let mut reports = Vec::new();
    while let Some(begin) = rest.find(BEGIN) {
        let end = rest[begin..].find('\n').map_or(rest.len(), |end| begin + end + 1);
        reports.push(masked(&rest[begin..end]));
        rest.replace_range(begin..end, "");
    }
    reports.sort();
    (rest, reports)
}

/// Reads reports as perfdash's `parsePerfData` does: `data` is a map of numbers, `labels` one of texts.
fn perfdash_reads_both(folder: &Path) {
    let mut operations = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(report["version"], "v1", "{name}");
        for item in array(&report["dataItems"]) {
            let data: BTreeMap<String, f64> = serde_json::from_value(item["data"].clone()).unwrap();
            let labels: BTreeMap<String, String> =
                serde_json::from_value(item["labels"].clone()).unwrap();
            assert_eq!(data.keys().collect::<Vec<_>>(), ["Perc50", "Perc90", "Perc99"], "{name}");
            assert!(data.values().all(|time| (0.001..10_000.0).contains(time)), "{name}: {data:?}");
            assert_eq!(item["unit"], "ms", "{name}");
            let operation = labels["Operation"].clone();
            let begins = format!("EtcdAPI_benchmark_{}_2", operation.to_lowercase());
            assert!(name.starts_with(&begins) && name.ends_with("Z.json"), "{name}");
            let masked = masked(&text);
            let same = operations.entry(operation).or_insert_with(|| masked.clone());
            assert_eq!(*same, masked, "{name}");
        }
    }
    let all: Vec<&str> = operations.keys().map(String::as_str).collect();
    assert_eq!(all, ["PUT", "TXN-MIXED-READ", "TXN-MIXED-WRITE", "WATCH-GET"]);
}

/// Results with equal and unequal times, in ascending order: start and length in nanoseconds.
fn results(count: u64) -> Vec<(u64, u64)> {
    let mut results: Vec<(u64, u64)> = (0..count)
        .map(|number| {
            let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            (1_700_000_000_000_000_000 + scattered * 700, 90_000 + scattered % 7_000 * 331)
        })
        .collect();
    results.sort_by_key(|(_, length)| *length);
    results
}

fn equal_numbers_are_equal_bytes(program: &Path) {
    let folder = tempfile::tempdir().unwrap();
    for count in [0, 1, 2, 3, 9, 40, 100, 101, 999, 1001, 3000] {
        for (precision, format) in [(Precision::Four, "%4.4f"), (Precision::All, "%g")] {
            for form in ["whole", "sample"] {
                let errors = if count % 2 == 0 { 0 } else { 3 };
                let results = results(count);
                let mut input: String =
                    results.iter().map(|(start, length)| format!("{start} {length}\n")).collect();
                input.push_str(&"error etcdserver: no leader\n".repeat(errors));
                let named = format!("test-{count}-{form}");
                let printed = printed(program, &[format, &named, form], folder.path(), &input);
                let (_, theirs) = printed.split_once('\x0c').unwrap();
                // How long their process took is the only number that the test cannot choose.
                let total = theirs.lines().find_map(|line| line.strip_prefix("  Total:\t"));
                let total = total.and_then(|total| total.split(' ').next());
                let total = total.map_or(0.0, |total| total.parse::<f64>().unwrap());
                let mut seconds: BTreeMap<i64, SecondPoint> = BTreeMap::new();
                for &(start, length) in &results {
                    let length = Duration::from_nanos(length);
                    let point = seconds
                        .entry((start / 1_000_000_000) as i64)
                        .or_insert(SecondPoint { least: length, ..SecondPoint::default() });
                    point.least = point.least.min(length);
                    point.most = point.most.max(length);
                    point.total += length;
                    point.count += 1;
                }
                let times = results.iter().map(|(_, length)| (Duration::from_nanos(*length), 1));
                let figures = ReportFigures {
                    times: Distribution::new(times),
                    total: Duration::from_secs_f64(total),
                    seconds: (form == "sample").then(|| seconds.into_iter().collect()),
                    errors: (errors > 0)
                        .then(|| (errors as u64, "etcdserver: no leader".to_owned()))
                        .into_iter()
                        .collect(),
                };
                let ours = report::text(&figures, precision);
                // Four digits of the total are too few to tell the rate.
                let known = |text: &str| match precision {
                    Precision::All => text.to_owned(),
                    Precision::Four => {
                        let lines = text.split_inclusive('\n');
                        lines.filter(|line| !line.contains("Requests/sec:")).collect()
                    }
                };
                assert_eq!(known(&ours), known(theirs), "{count} results, {format}, {form}");
                let file = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path());
                let file = file
                    .into_iter()
                    .find(|path| path.to_str().unwrap().contains(&format!("benchmark_{named}_")));
                let json = fs::read_to_string(file.unwrap()).unwrap();
                assert_eq!(perfdash::json(&named, &figures.times), json, "{count} results");
            }
        }
    }
}

/// Returns what the package `report` prints for an input.
fn printed(program: &Path, arguments: &[&str], folder: &Path, input: &str) -> String {
    let mut command = Command::new("timeout");
    command.arg("60").arg(program).args(arguments).arg(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("`timeout` runs");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the keys of an etcd in a range, with their values.
fn pairs(etcd: &Etcd, from: &[u8], end: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let body = json!({"key": STANDARD.encode(from), "range_end": STANDARD.encode(end)});
    let answer = etcd.try_ask("/v3/kv/range", &body).expect("etcd answers");
    let bytes = |value: &Value| STANDARD.decode(value.as_str().unwrap_or_default()).unwrap();
    let all = answer["kvs"].as_array().cloned().unwrap_or_default();
    all.iter().map(|kv| (bytes(&kv["key"]), bytes(&kv["value"]))).collect()
}

fn keys_are_those_of_the_flags(_: &Case) {
    let etcd = Etcd::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("figures.json");
    let words = format!(
        "--clients=7 --conns=3 --json {} put --prefix=p/ --key-size=4 --val-size=33 --total=500 --key-space-size=100 \
         --sequential-keys",
        file.display()
    );
    let ran = ours(&etcd, &words).ends_with(0);
    assert!(ran.stdout.starts_with("\nSummary:\n  Total:\t"), "{}", ran.stdout);
    let found = pairs(&etcd, b"p/", b"p0");
    let mut expected: Vec<Vec<u8>> = (0u8..100)
        .map(|number| match number {
            0..64 => vec![b'p', b'/', 2 * number, 0, 0, 0],
            _ => vec![b'p', b'/', (2 * number) | 0x80, 1, 0, 0],
        })
        .collect();
    expected.sort();
    assert_eq!(found.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(), expected);
    assert!(found.iter().all(|(_, value)| value.len() == 33 && *value == found[0].1));
    let figures: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(figures["operations"]["put"]["verified"], 500);
    assert_eq!(figures["operations"]["put"]["failed"], 0);
    assert_eq!(figures["notes"], json!([]), "{}", ran.stderr);
    let connections = array(&figures["measurement"]["addresses"]);
    assert_eq!(connections.len(), 1, "{connections:?}");

    // A mixed load writes its own keys and reads the range that the command line names.
    let ran = ours(&etcd, "txn-mixed p/ p0 --total=400 --key-space-size=3 --rw-ratio=3 --limit=10")
        .ends_with(0);
    let totals: Vec<u64> = ran
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("Total ")?.split(": ").nth(1)?.parse().ok())
        .collect();
    assert_eq!(totals.iter().sum::<u64>(), 400);
    assert!((250..350).contains(&totals[0]), "three reads for a write: {totals:?}");
    // Readers such as etcd's `rw-benchmark.sh` take the second field of these lines.
    let rates = ran.stdout.lines().filter(|line| line.contains("Requests/sec"));
    let rates: Vec<f64> =
        rates.map(|l| l.split_whitespace().nth(1).unwrap().parse().unwrap()).collect();
    assert!(rates.len() == 2 && rates.iter().all(|rate| *rate > 0.0), "{rates:?}");
    assert_eq!(pairs(&etcd, b"\0", b"p").len(), 3);

    let ran =
        ours(&etcd, "txn-put --total=40 --key-space-size=12 --txn-ops=12 --key-size=2 --clients=3");
    assert_eq!(warnings(&ran.ends_with(0)), [""; 0]);
    assert_eq!(pairs(&etcd, b"\0", b"\x19").iter().filter(|(key, _)| key.len() == 2).count(), 12);
}

fn ranges_are_read(_: &Case) {
    let etcd = Etcd::start(&[]);
    let fill = "put --prefix=k --key-size=8 --total=12345 --key-space-size=12345 --sequential-keys --clients=50";
    ours(&etcd, fill).ends_with(0);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("figures.json");
    for (words, bytes) in [
        ("range k --prefix --total=3", 12_345 * 25),
        ("range k --prefix --paginate --total=3", 12_345 * 25),
        ("range k --prefix --keys-only --total=3", 12_345 * 15),
        ("range k --prefix --limit=100 --total=3", 100 * 25),
        ("range k l --total=3 --consistency=s", 12_345 * 25),
        ("range k --prefix --count-only --total=3", 3),
        ("range kk --total=3", 3),
    ] {
        let ran = ours(&etcd, &format!("--json {} {words}", file.display())).ends_with(0);
        assert!(ran.stdout.starts_with("bench with "), "{words}: {}", ran.stdout);
        let figures: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(figures["operations"]["range"]["verified"], 3, "{words}");
        let received = figures["measurement"]["bytes_received"].as_u64().unwrap() / 3;
        assert!(received >= bytes, "{words}: {received} bytes an answer");
    }
    let streamed = ours(&etcd, "range k --prefix --stream --total=2");
    // RangeStream is new in etcd 3.7, and the installed one may be older.
    if streamed.code == Some(1) {
        assert!(
            streamed.stdout.contains("[2]\trpc error: code = Unimplemented desc = "),
            "{}",
            streamed.stdout
        );
    } else {
        streamed.ends_with(0);
    }
    let before = revision(&etcd);
    ours(&etcd, "put --total=3000 --compact-interval=20ms --compact-index-delta=10").ends_with(0);
    let body = json!({"key": STANDARD.encode("k"), "revision": (before + 5).to_string()});
    assert_eq!(etcd.try_ask("/v3/kv/range", &body), None, "the revision was compacted");
}

fn transactions_are_isolated(_: &Case) {
    let etcd = Etcd::start(&[]);
    for isolation in ["r", "s", "ss"] {
        let before = version(&etcd, &[0; 16]);
        let words = format!(
            "--clients=8 --conns=2 stm --isolation={isolation} --txn-wr-percent=100 --total=200"
        );
        let ran = ours(&etcd, &words).ends_with(0);
        assert!(ran.stdout.starts_with("\nSummary:\n"), "{}", ran.stdout);
        assert!(ran.stderr.contains("met a conflict and were tried again"), "{}", ran.stderr);
        // Each transaction read the version before its own, so none was lost.
        assert_eq!(version(&etcd, &[0; 16]) - before, 200, "{isolation}");
    }
    // By default half of the transactions write their key.
    let before = version(&etcd, &[0; 16]);
    ours(&etcd, "stm --isolation=c --total=400").ends_with(0);
    let written = version(&etcd, &[0; 16]) - before;
    assert!((140..260).contains(&written), "{written} of 400 transactions wrote");
    ours(&etcd, "--clients=4 stm --keys=20 --keys-per-txn=10 --isolation=ss --total=100")
        .ends_with(0);
    ours(&etcd, "stm --keys-per-txn=0 --total=10").ends_with(0);
}

/// Returns how many times a key was written.
fn version(etcd: &Etcd, key: &[u8]) -> u64 {
    let answer = etcd.try_ask("/v3/kv/range", &json!({"key": STANDARD.encode(key)}));
    let answer = answer.expect("etcd answers");
    let version = answer["kvs"][0]["version"].as_str();
    version.map_or(0, |version| version.parse().unwrap())
}

fn leases_are_renewed(_: &Case) {
    let etcd = Etcd::start(&[]);
    let streams = |etcd: &Etcd| -> f64 {
        let name = "grpc_server_started_total{grpc_method=\"LeaseKeepAlive\",";
        let metrics = metrics(etcd);
        let lines = metrics.lines().filter(|line| line.starts_with(name));
        lines.map(|line| line.split(' ').next_back().unwrap().parse::<f64>().unwrap()).sum()
    };
    let before = streams(&etcd);
    let ran = ours(&etcd, "--clients=5 --conns=2 lease-keepalive --total=300").ends_with(0);
    assert!(ran.stdout.starts_with("\nSummary:\n"), "{}", ran.stdout);
    assert_eq!(streams(&etcd) - before, 5.0, "one for each client");
    let answer = etcd.try_ask("/v3/lease/leases", &json!({})).expect("etcd answers");
    assert_eq!(array(&answer["leases"]).len(), 5);
}

fn metrics(etcd: &Etcd) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", etcd.port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

fn revision(etcd: &Etcd) -> u64 {
    let body = json!({"key": STANDARD.encode("a")});
    let answer = etcd.try_ask("/v3/kv/range", &body).expect("etcd answers");
    text(&answer["header"]["revision"]).parse().unwrap()
}

fn failures_are_reported(_: &Case) {
    let etcd = Etcd::start(&[]);
    let ran = ours(&etcd, "--clients=2 put --total=6 --val-size=2000000").ends_with(1);
    assert_eq!(ran.stdout, "\nError distribution:\n  [6]\tetcdserver: request is too large\n\n");
    assert!(ran.stderr.contains("6 of 6 operations failed"), "{}", ran.stderr);
    let ran = ours(&etcd, "range '' --total=2").ends_with(1);
    assert!(ran.stdout.contains("  [2]\tetcdserver: key is not provided\n"), "{}", ran.stdout);
    // Half of the operations fail: the others are reported, and the exit code tells.
    let ran = ours(&etcd, "txn-mixed --total=200 --val-size=2000000").ends_with(1);
    assert!(ran.stdout.contains("\tetcdserver: request is too large\n"), "{}", ran.stdout);
    assert_eq!(ran.stdout.matches("Requests/sec:").count(), 1, "{}", ran.stdout);
}

fn events_are_timed(_: &Case) {
    let etcd = Etcd::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("figures.json");
    let run = |words: &str| {
        let ran = ours(&etcd, &format!("--json {} {words}", file.display())).ends_with(0);
        let figures: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        (ran, figures)
    };
    let (ran, figures) = run(
        "--clients=3 watch --streams=5 --watch-per-stream=8 --watched-key-total=4 --key-space-size=4 \
         --sequential-keys --put-total=200",
    );
    let counts = &figures["measurement"]["watch"]["counts"];
    // 200 puts of 4 keys, each with 10 of 40 watchers.
    assert_eq!((&counts["expected"], &counts["delivered"]), (&json!(2000), &json!(2000)));
    let watchers = &figures["watchers"];
    assert_eq!(watchers["creation"]["count"], 40);
    assert_eq!(watchers["event_from_sent"]["count"], 2000);
    let p50 = |what: &str| watchers[what]["p50_seconds"].as_f64().unwrap();
    // A watcher's loop takes microseconds. An event takes as long as its put.
    let put = figures["operations"]["put"]["p50"]["from_sent_seconds"].as_f64().unwrap();
    assert!(p50("event_from_sent") > put / 4.0, "{watchers}, put {put}");
    assert!(ran.stderr.contains("40 watchers received 2,000 events"), "{}", ran.stderr);

    let (ran, figures) = run("watch-latency --prevkv --put-total=50 --put-rate=500");
    assert_eq!(figures["watchers"]["event_from_sent"]["count"], 50 * 100);
    assert!(ran.stdout.starts_with("\nPut summary:\n\nSummary:\n"), "{}", ran.stdout);

    let (ran, figures) = run("watch-get --watchers=500 --events=5");
    assert_eq!(figures["measurement"]["watch"]["counts"]["delivered"], 2500);
    assert!(figures["operations"]["watch-get"]["verified"].as_u64() > Some(0), "{figures}");
    assert!(ran.stderr.contains("500 watchers existed after "), "{}", ran.stderr);
}

fn tls_and_passwords(_: &Case) {
    let certificates = Certificates::new();
    let etcd = Etcd::start(&identity(&certificates));
    let ca = certificates.path("ca.pem").display().to_string();
    let secure = |more: &str, words: &str| {
        let mut command = bakeoff();
        let endpoint = format!("--endpoints=127.0.0.1:{}", etcd.tls_port);
        command.args(["etcd-benchmark", &endpoint]).args(more.split_whitespace());
        command.args(words.split_whitespace());
        command
    };
    let put = "put --total=50";
    let ran = CommandOutput::run(&mut secure(&format!("--cacert {ca}"), put));
    assert_eq!(warnings(&ran.ends_with(0)), [""; 0]);
    let untrusted = format!("--endpoints=https://127.0.0.1:{}", etcd.tls_port);
    let insecure = ["etcd-benchmark", &untrusted, "--insecure-skip-tls-verify", "put", "--total=5"];
    CommandOutput::run(bakeoff().args(insecure)).ends_with(0);
    let refused = CommandOutput::run(bakeoff().args(["etcd-benchmark", &untrusted, "put"]));
    assert!(matches!(refused.code, Some(2 | 4)), "{}", refused.stderr);

    etcd.enable_users();
    let without = ours(&etcd, put).ends_with(1);
    assert!(without.stdout.contains("\tetcdserver: user name is empty\n"), "{}", without.stdout);
    let ran = ours(&etcd, "--user=root:of-the-root put --total=50").ends_with(0);
    assert!(ran.stderr.contains("BAKEOFF_USER=USER:PASSWORD hides it"), "{}", ran.stderr);
    for words in ["--user=root:wrong-password put", "--user=root:of-the-low put"] {
        let ran = ours(&etcd, words).ends_with(4);
        assert!(
            ran.stderr.contains("authentication failed, invalid user ID or password"),
            "{}",
            ran.stderr
        );
        assert!(!ran.stderr.contains("wrong-password") && !ran.stderr.contains("of-the-low"));
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("figures.json");
    let mut command = bakeoff();
    command.env("BAKEOFF_USER", "root:of-the-root").arg("etcd-benchmark");
    let words = format!("--user root --json {} put --total=50 --check-hashkv", file.display());
    let ran = CommandOutput::run(command.args(arguments(&etcd, &words))).ends_with(0);
    assert_eq!(warnings(&ran), [""; 0]);
    assert!(ran.stdout.contains("\nHashKV Summary:\n\tHashKV: "), "{}", ran.stdout);
    let written = fs::read_to_string(&file).unwrap();
    assert!(!written.contains("of-the-root") && !ran.stdout.contains("of-the-root"));
    // Without a terminal there is nobody to ask.
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(env!("CARGO_BIN_EXE_bakeoff")).args([
        "etcd-benchmark",
        "--user=root",
        "put",
    ]);
    let ran =
        CommandOutput::run(command.env_remove("BAKEOFF_USER").stdin(Stdio::null())).ends_with(2);
    assert!(ran.stderr.contains("no password for `root`"), "{}", ran.stderr);
}

fn late_requests(_: &Case) {
    let etcd = Etcd::start(&[]);
    let began = Instant::now();
    let ran = ours(&etcd, "--clients=4 put --total=300 --rate=200").ends_with(0);
    let took = began.elapsed();
    assert!((1.3..20.0).contains(&took.as_secs_f64()), "300 puts at 200 a second took {took:?}");
    assert!(ran.stderr.contains("counted from when each operation was due"), "{}", ran.stderr);
    let total = ran.stdout.lines().find_map(|line| line.strip_prefix("  Requests/sec:\t")).unwrap();
    let rate: f64 = total.parse().unwrap();
    assert!((150.0..210.0).contains(&rate), "{}", ran.stdout);
    // One client cannot keep up with this rate, so most of the time is waiting, which the report does not have.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("figures.json");
    let words = format!("--json {} range --prefix --total=20000 --rate=1000000", file.display());
    ours(&etcd, &words).ends_with(0);
    let figures: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let p50 = &figures["operations"]["range"]["p50"];
    let [due, sent] = ["from_due_seconds", "from_sent_seconds"].map(|of| p50[of].as_f64().unwrap());
    assert!(due > 20.0 * sent, "{due} s from due, {sent} s from sent");
}
