//! Compares whole reports, because scripts rely on the layout.

use std::io::Write as _;

use super::*;

fn latencies(milliseconds: &[u64]) -> Latencies {
    let mut latencies = Latencies::default();
    milliseconds.iter().for_each(|each| latencies.record(Duration::from_millis(*each)));
    latencies
}

fn report() -> Report {
    let seconds = Duration::from_secs;
    let fast = latencies(&[1, 2, 3, 4]);
    let nothing = latencies(&[]);
    let (none, good) = (BTreeMap::new(), BTreeMap::from([(200, 4)]));
    let bad = BTreeMap::from([(0, 1), (403, 2)]);
    let errors = BTreeMap::from([("403 Forbidden".to_owned(), 2), ("hung up".to_owned(), 1)]);
    let blank = BTreeMap::new();
    let figures = |name, requests, successes, latencies, statuses, errors| Figures {
        name,
        requests,
        successes,
        latencies,
        statuses,
        errors,
        bytes_in: requests * 100,
        bytes_out: requests * 10,
        first_sent: seconds(0),
        last_sent: seconds(2),
        last_done: seconds(2) + Duration::from_millis(500),
    };
    let tests = [
        figures("op10", 4, 4, &fast, &good, &none),
        figures("op2", 3, 0, &nothing, &bad, &errors),
        Figures { last_done: seconds(0), ..figures("idle", 0, 0, &nothing, &blank, &none) },
    ];
    let annotations = [("testname".to_owned(), "x".to_owned())];
    let began = 1_700_000_000.0;
    Report::new("http://a:8200", began, &tests, &annotations, vec!["not kept".to_owned()])
}

#[test]
fn terse_report_has_a_line_per_test_and_a_total() {
    let expected = "\
Target: http://a:8200
op     count  rate  throughput  mean       95th%       99th%       successRatio
idle   0      0.00  0.00        0s         0s          0s          0.00%
op2    3      1.50  0.00        -          -           -           0.00%
op10   4      2.00  1.60        2.50016ms  4.001791ms  4.001791ms  100.00%
---    ---    ---   ---         ---        ---         ---         ---
TOTAL  7      3.50  1.60        2.50016ms  4.001791ms  4.001791ms  57.14%
";
    assert_eq!(report().render(ReportMode::Terse), expected);
}

#[test]
fn verbose_report_has_a_paragraph_per_test() {
    let verbose = report().render(ReportMode::Verbose);
    let expected = "
op2
Requests      [total, rate, throughput]         3, 1.50, 0.00
Duration      [total, attack, wait]             2.5s, 2s, 500ms
Latencies     [min, mean, 50, 90, 95, 99, max]  -, -, -, -, -, -, -
Bytes In      [total, mean]                     300, 100.00
Bytes Out     [total, mean]                     30, 10.00
Success       [ratio]                           0.00%
Status Codes  [code:count]                      0:1  403:2  \nError Set:
403 Forbidden
hung up
";
    assert!(verbose.contains(expected), "{verbose}");
    assert!(
        verbose
            .contains("\nTOTAL\nRequests      [total, rate, throughput]         7, 3.50, 1.60\n")
    );
    assert!(
        verbose.contains("Status Codes  [code:count]                      0:1  200:4  403:2  \n")
    );
    let idle = "Latencies     [min, mean, 50, 90, 95, 99, max]  0s, 0s, 0s, 0s, 0s, 0s, 0s\n";
    assert!(verbose.contains(idle), "{verbose}");
}

#[test]
fn review_of_json_equals_the_first_report() {
    let report = report();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "{}\n{}", report.render(ReportMode::Json), report.render(ReportMode::Json))
        .unwrap();
    let read = json::read(file.path()).unwrap();
    assert_eq!(read.len(), 2);
    assert_eq!(read[0].render(ReportMode::Terse), report.render(ReportMode::Terse));
    assert_eq!(read[1].render(ReportMode::Verbose), report.render(ReportMode::Verbose));
    assert_eq!(
        (&*read[0].notes, &read[0].annotations["testname"]),
        (&["not kept".into()][..], &"x".into())
    );
}

#[test]
fn json_has_vegetas_names() {
    let json: serde_json::Value = serde_json::from_str(&report().render(ReportMode::Json)).unwrap();
    let test = &json["metrics"]["op10"];
    assert_eq!(test["earliest"], "2023-11-14T22:13:20Z");
    assert_eq!(test["end"], "2023-11-14T22:13:22.5Z");
    assert_eq!(
        (&test["duration"], &test["wait"]),
        (&2_000_000_000_i64.into(), &500_000_000.into())
    );
    assert_eq!(test["status_codes"]["200"], 4);
    assert!(test["latencies"]["50th"].is_i64() && test["latencies"]["total"].is_i64());
    assert!(json["metrics"]["op2"]["latencies"]["mean"].is_null());
    assert_eq!(json["metrics"]["idle"]["latest"], "0001-01-01T00:00:00Z");
    assert_eq!(json["metrics"]["total"]["requests"], 7);
    assert_eq!(json["metrics"]["op2"]["errors"], serde_json::json!(["403 Forbidden", "hung up"]));
}

#[test]
fn review_accepts_results_of_vault_benchmark() {
    let check = |text: &str, expected: Result<&str, &str>| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        match (json::read(file.path()), expected) {
            (Ok(reports), Ok(expected)) => {
                assert!(reports[0].render(ReportMode::Terse).contains(expected))
            }
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (read, _) => panic!("{read:?}"),
        }
    };
    let times = r#"{"total":5,"mean":1500000,"50th":1,"90th":1,"95th":2,"99th":3,"max":3,"min":1}"#;
    let theirs = format!(
        r#"{{"target_addr":"http://b:1","metrics":{{"r":{{"latencies":{times},"requests":2,
        "rate":1,"throughput":1.5,"success":1,"status_codes":{{"200":2}},"errors":[]}}}}}}"#
    );
    check(&theirs, Ok("r   2      1.00  1.50        1.5ms  2ns    3ns    100.00%"));
    check("", Err("it holds no results"));
    check("{}", Err("target_addr"));
    check("[1", Err("cannot review"));
    let hostile = r#"{"target_addr":"\u001b[2J","metrics":{}}"#;
    check(hostile, Ok("Target: \u{fffd}[2J"));
}

#[test]
fn times_are_written_as_go_writes_them() {
    let check = |nanoseconds: i64, text: &str| assert_eq!(time_text(Some(nanoseconds)), text);
    check(0, "0s");
    check(999, "999ns");
    check(1_500, "1.5µs");
    check(18_996_123, "18.996123ms");
    check(2_010_000_000, "2.01s");
    check(90_000_000_000, "1m30s");
    check(3_600_000_000_000, "1h0m0s");
    check(3_725_500_000_000, "1h2m5.5s");
    check(-1_500, "-1.5µs");
    assert_eq!(time_text(None), "-");
}

#[test]
fn names_are_in_natural_order() {
    let mut names = ["b", "test11", "test2", "test02", "a", "2", "test", "test2a"];
    names.sort_by(|a, b| natural(a, b));
    assert_eq!(names, ["2", "a", "b", "test", "test2", "test2a", "test02", "test11"]);
}
