//! Tests `bakeoff load` for users and scripts, against the canary.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::canary::{Canary, alone, search};
use crate::support::schema;
use crate::support::{
    CommandOutput, array, bakeoff, close_for_all, folders, listener_apart, record, text,
};

pub(crate) fn load(arguments: &[&str]) -> CommandOutput {
    CommandOutput::run(bakeoff().arg("load").args(arguments))
}

/// Returns the result as JSON and the exit code.
#[track_caller]
pub(crate) fn result(arguments: &[&str]) -> (Value, Option<i32>) {
    let ran = load(&[arguments, &["--json"]].concat());
    let result = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| {
        panic!("standard output is no JSON: {error}\n{}\nstderr:\n{}", ran.stdout, ran.stderr)
    });
    schema::allow("load", &result);
    (result, ran.code)
}

/// Returns a count of each request, in the order of the requests. Counts by kind are added up.
pub(crate) fn of_requests(result: &Value, count: &str) -> Vec<u64> {
    let names = array(&result["settings"]["requests"]).iter().map(|one| text(&one["name"]));
    let sum = |count: &Value| match count {
        Value::Object(kinds) => kinds.values().filter_map(Value::as_u64).sum(),
        count => count.as_u64().unwrap(),
    };
    names.map(|name| sum(&result["operations"][name][count])).collect()
}

/// Slow enough that the generator is not the limit.
const SLOW: &str = "--delay 5ms";

#[test]
fn closed_load_sends_the_requested_number() {
    let _alone = alone();
    let canary = Canary::with_value(SLOW);
    let before = canary.stat("gets");
    let (result, code) = result(&[&canary.url("/kv/key"), "-n", "300", "-c", "4"]);
    assert_eq!(code, Some(0), "{:#}", result["reasons"]);
    assert_eq!((&result["requests"], &result["verified"]), (&json!(300), &json!(300)));
    assert_eq!(canary.stat("gets") - before, 300);
    assert_eq!(result["statuses"], json!({"200": 300}));
    assert_eq!(result["body_bytes"], 300 * "value".len());
    assert_eq!(result["errors"], json!({}));
    assert_eq!(result["settings"]["clients"], 4);
    let p50 = result["response"]["p50_us"].as_f64().unwrap();
    assert!((5000.0..15_000.0).contains(&p50), "{p50} µs of a server that takes 5 ms");
    let rate = result["requests_per_second"].as_f64().unwrap();
    assert!((200.0..=800.0).contains(&rate), "{rate}/s");
    assert!(result["peak_rss_bytes"].as_u64() > Some(1 << 20));
}

#[test]
fn open_load_keeps_its_rate_and_measures_schedule_lag() {
    let _alone = alone();
    let canary = Canary::start("");
    let (result, _) = result(&[&canary.url("/health"), "--rate", "500", "--for", "2s"]);
    assert_eq!(result["requests"], 1000, "due in two seconds");
    assert_eq!(result["settings"]["warmup_seconds"], 1.0, "as in studies");
    assert_eq!(result["schedule_lag"]["count"], 1000);
    assert!(result["schedule_lag"]["p50_us"].as_f64() > Some(0.0));
    assert_eq!(array(&result["seconds"]).len(), 2);
}

#[test]
fn few_requests_at_a_rate_are_reported_at_that_rate() {
    let _alone = alone();
    let canary = Canary::start("");
    let (result, _) = result(&[&canary.url("/health"), "--rate", "10", "-n", "5"]);
    let rate = result["requests_per_second"].as_f64().unwrap();
    assert!((9.0..=10.0).contains(&rate), "5 requests at 10/s take 0.5 s: {rate}/s");
}

#[test]
fn throughput_shows_carry_over_from_warmup() {
    let canary = Canary::with_value(SLOW);
    let overload = ["--rate", "600", "-c", "1", "--warmup", "1s", "--for", "1s"];
    let url = canary.url("/kv/key");
    let arguments = [&[url.as_str()][..], &overload].concat();
    let (result, _) = result(&arguments);
    let count = |name: &str| result[name].as_u64().expect(name);
    assert!(count("carried_over") > 50, "{result:#}");
    let rate = result["requests_per_second"].as_f64().unwrap();
    assert!((rate - count("verified_in_window") as f64).abs() < 1.0, "{rate}/s of 1 s");
    let said = load(&arguments).stdout;
    assert!(
        said.contains(" of them were due in the warm-up and count in no other figure"),
        "{said}"
    );
}

/// Runs an open load of 1,500/s with 400 clients, and stops bakeoff for `stops` during it.
fn stopped_load(canary: &Canary, path: &str, stops: Duration) -> Value {
    let mut command = bakeoff();
    command.args(["load", &canary.url(path), "--rate", "1500", "-c", "400", "--for", "3s"]);
    let child = command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    if !stops.is_zero() {
        kill_process(pid, Signal::STOP).unwrap();
        std::thread::sleep(stops);
        kill_process(pid, Signal::CONT).unwrap();
    }
    serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn distinguishes_a_stalled_generator_from_a_stalled_server() {
    let _alone = alone();
    let stops = Duration::from_millis(150);
    // Some 150 answers arrive while bakeoff stands still, half of them for each of two threads.
    let result = stopped_load(&Canary::start("--truth constant:100ms"), "/truth", stops);
    let reasons = result["reasons"].to_string();
    assert_eq!(result["valid"], false);
    assert!(reasons.contains("the generator stood still for 1"), "{reasons}");
    assert!(reasons.contains("the generator may have added up to 1"), "{reasons}");
    let stalls = array(&result["generator"]["stalls"]);
    assert!(stalls.iter().any(|one| one["seconds"].as_f64() >= Some(0.13)), "{stalls:?}");
    // Operations that fell due meanwhile and then waited for a client were late because of the generator.
    let late = result["schedule_lag"]["p99_us"].as_f64().unwrap();
    assert!(late > 50_000.0, "225 of 4,500 fell due within 150 ms: {late} µs");
    let p99 = |result: &Value, of: &str| result[of]["p99_us"].as_f64().unwrap();
    let shown = [p99(&result, "response"), p99(&result, "undelayed")];
    assert!(shown[0] > 150_000.0 && shown[1] < 130_000.0, "the server took 100 ms: {shown:?}");
    // The counterpart: the server stalls, the generator does not.
    let twin = Canary::start("--stall 150ms --stall-after 1500ms");
    let result = stopped_load(&twin, "/health", Duration::ZERO);
    for figure in ["response", "undelayed"] {
        assert!(result[figure]["max_us"].as_f64() > Some(130_000.0), "{}", result[figure]);
    }
    let reasons = result["reasons"].to_string();
    let stalls = array(&result["generator"]["stalls"]);
    // Unless the machine stalled the generator, which it then reports.
    assert_eq!(reasons.contains("stood still"), !stalls.is_empty(), "{reasons}");
}

#[test]
fn load_with_only_errors_is_invalid_and_has_no_rate() {
    let canary = Canary::start("--error 100%");
    let (result, code) = result(&[&canary.url("/kv/key"), "-n", "100", "-c", "2"]);
    assert_eq!(code, Some(1));
    assert_eq!(result["requests_per_second"], 0.0);
    assert_eq!(result["errors"], json!({"status": 100}));
    assert_eq!(result["statuses"], json!({"500": 100}));
    assert_eq!(result["response"]["p50_us"], Value::Null);
    assert!(text(&result["reasons"][0]).contains("errors: 100 % of operations failed"));
    let shown = load(&[&canary.url("/kv/key"), "-n", "100", "-c", "2"]).ends_with(1).stdout;
    assert!(shown.contains("\nVerified successes: 0/s (0 of 100"), "{shown}");
}

/// A server that ends during the load.
const ENDS: &str = "--delay 5ms --die-after 3s";

#[test]
fn server_that_ends_during_the_load_makes_it_invalid() {
    let canary = Canary::with_value(ENDS);
    let (result, code) =
        result(&[&canary.url("/kv/key"), "-c", "4", "--for", "5s", "--fail-if", "errors > 10%"]);
    assert_eq!((code, &result["valid"]), (Some(1), &json!(false)));
    let why = text(&result["reasons"][0]);
    assert!(
        why.starts_with("successes: nothing succeeded from ") && why.ends_with(" s on, of 5.0 s"),
        "{why}"
    );
    assert_eq!(result["gates"][0]["failed"], false, "errors alone would not fail the gate");
    // Each client has one unanswered operation, besides those in flight at the end.
    assert_eq!(result["errors"]["refused"], 4, "{}", result["errors"]);
    let silences = array(&result["silences"]);
    let last = silences.last().expect("it ended in silence");
    let ended = last["from"].as_f64().unwrap() + last["seconds"].as_f64().unwrap();
    assert!((ended - 5.0).abs() < 0.01, "{silences:?}");
    let seconds = array(&result["seconds"]);
    let numbers: Vec<u64> = seconds.iter().filter_map(|one| one["second"].as_u64()).collect();
    assert!(numbers.starts_with(&[0, 1, 2, 3, 4]), "each second, the empty ones too: {seconds:?}");
    assert_eq!(seconds[4]["verified"], 0);
}

#[test]
fn stall_is_reported_and_can_be_a_condition() {
    let canary = Canary::with_value("--delay 5ms --stall 1200ms --stall-after 2500ms");
    let url = canary.url("/kv/key");
    let with = ["--fail-if", "p90 > 100ms", "--fail-if", "longest-silence > 1s"];
    let ran = load(&[&[&*url, "-c", "4", "--for", "4s"], &with[..]].concat()).ends_with(1);
    for part in [
        "\nStalled: nothing succeeded for 1.2",
        "\npassed: --fail-if `p90 > 100ms`",
        "\nFAILED: --fail-if `longest-silence > 1s`: longest-silence is 1.2",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let steady = load(&[&url, "-c", "4", "--for", "2s", "--fail-if", "longest-silence > 500ms"]);
    steady.ends_with(0);
}

#[test]
fn answer_later_than_the_timeout_is_a_timeout() {
    let canary = Canary::with_value(SLOW);
    let url = canary.url("/kv/key");
    let (result, code) = result(&[&url, "-n", "200", "-c", "4", "--timeout", "2ms"]);
    assert_eq!((code, &result["verified"]), (Some(1), &json!(0)));
    assert_eq!(result["errors"], json!({"timeout": 200}), "no connection was refused");
}

#[test]
fn answers_without_http_are_counted() {
    let canary = Canary::start("--garbage 100%");
    let (result, code) = result(&[&canary.url("/kv/key"), "-n", "20", "-c", "2"]);
    assert_eq!(code, Some(1));
    assert_eq!(result["errors"], json!({"protocol": 20}), "{:#}", result["error_examples"]);
}

#[test]
fn fail_if_condition_decides_the_exit_code() {
    let _alone = alone();
    let canary = Canary::with_value(SLOW);
    let url = canary.url("/kv/key");
    let with = |condition: &str| load(&[&url, "-n", "100", "-c", "2", "--fail-if", condition]);
    let shown = with("p90 > 4ms").ends_with(1).stdout;
    assert!(shown.contains("\nFAILED: --fail-if `p90 > 4ms`: p90 is "), "{shown}");
    let shown = with("p90 > 1h").ends_with(0).stdout;
    assert!(shown.contains("\nvalid\npassed: --fail-if `p90 > 1h`: p90 is "), "{shown}");
    with("errors > 0").ends_with(0);
    let shown = with("schedule lag p90 < 1h").ends_with(1).stdout;
    assert!(shown.contains("schedule lag p90 is unknown"), "no figure, no pass: {shown}");
}

#[test]
fn expectations_define_success() {
    let canary = Canary::with_value("");
    let (key, none) = (canary.url("/kv/key"), canary.url("/kv/none"));
    let errors = |url: &str, flags: &[&str]| {
        let (result, _) = result(&[&[url, "-n", "10", "-c", "1"], flags].concat());
        result["errors"].clone()
    };
    assert_eq!(errors(&none, &[]), json!({"status": 10}));
    assert_eq!(errors(&none, &["--expect-status", "2xx,404"]), json!({}));
    assert_eq!(errors(&key, &["--expect-status", "404"]), json!({"status": 10}));
    assert_eq!(errors(&key, &["--expect-body", "alu"]), json!({}));
    assert_eq!(errors(&key, &["--expect-body", "other"]), json!({"wrong-value": 10}));
    // SHA-256 of `value`, by sha256sum.
    let right = "sha256:cd42404d52ad55ccfa9aca4adc828aa5800ad9d385a0671fbcbf724118320619";
    assert_eq!(errors(&key, &["--expect-body", right]), json!({}));
    let wrong = right.replace("cd42", "cd43");
    assert_eq!(errors(&key, &["--expect-body", &wrong]), json!({"wrong-value": 10}));
}

#[test]
fn targets_file_is_used_by_weight() {
    let canary = Canary::start("");
    let body = canary.dir.path().join("body.txt");
    std::fs::write(&body, "0123456789").unwrap();
    let targets = canary.dir.path().join("targets.txt");
    let (put, get) = (canary.url("/kv/a"), canary.url("/health"));
    let file = format!("PUT {put}\nContent-Type: text/plain\n@{}\n\n3 GET {get}\n", body.display());
    std::fs::write(&targets, file).unwrap();
    let (result, _) = result(&["--targets", targets.to_str().unwrap(), "-n", "400", "-c", "1"]);
    assert_eq!(result["statuses"], json!({"200": 300, "204": 100}));
    assert_eq!(result["url"], Value::Null);
    assert_eq!(of_requests(&result, "requests"), [100, 300]);
    assert_eq!(canary.stat("puts"), 100);
}

#[test]
fn lost_connections_count_for_requests_of_their_server() {
    let (living, ending) = (Canary::with_value(SLOW), Canary::with_value(ENDS));
    let urls = [ending.url("/kv/key"), living.url("/kv/key"), ending.url("/health")];
    let rate = ["--for", "4s", "-c", "6", "--rate", "300/s"];
    let (result, _) = result(&[&[&*urls[0], &urls[1], &urls[2]], &rate[..]].concat());
    let errors = of_requests(&result, "errors");
    assert!(errors[0] > 50 && errors[2] > 50, "{errors:?}");
    assert_eq!(errors[1], 0, "{errors:?}");
}

#[test]
fn no_keepalive_opens_a_connection_per_request() {
    let canary = Canary::start("");
    let before = canary.stat("connections");
    load(&[&canary.url("/health"), "-n", "50", "-c", "2", "--no-keepalive"]);
    let connections = canary.stat("connections") - before;
    assert!((50..60).contains(&connections), "{connections}");
}

#[test]
fn steps_and_ramps_print_rows() {
    let _alone = alone();
    let canary = Canary::start("");
    let url = canary.url("/health");
    let (stepped, _) = result(&[&url, "--steps", "100,300", "--for", "1s"]);
    let steps = array(&stepped["steps"]);
    let counts: Vec<u64> = steps.iter().map(|step| step["requests"].as_u64().unwrap()).collect();
    assert_eq!(counts, [100, 300]);
    assert_eq!(stepped["requests"], 400);
    let (ramped, _) = result(&[&url, "--ramp", "100..300", "--for", "2s"]);
    let count = ramped["requests"].as_u64().unwrap();
    assert!((398..=402).contains(&count), "200/s on average for two seconds: {count}");
    let seconds = array(&ramped["seconds"]);
    let verified = |second: usize| seconds[second]["verified"].as_u64().unwrap();
    assert!(verified(0) < 170 && verified(1) > 230, "{seconds:?}");
}

/// Ten clients at 50 ms reach at most 200/s.
#[test]
fn search_finds_the_highest_rate_within_an_objective() {
    let _alone = search();
    let canary = Canary::with_value("--delay 50ms");
    let url = canary.url("/kv/key");
    let search = ["--find-max", "--slo", "p90 < 100ms", "--rate", "110", "-c", "10"];
    let (result, code) =
        result(&[&[url.as_str()], &search[..], &["--for", "1s", "--warmup", "100ms"]].concat());
    let found = &result["found"];
    let rate = found["rate"].as_f64().expect("a rate");
    assert!(rate <= 215.0, "{rate}");
    // A busy machine may make the answer a lower bound.
    match (code, text(&found["kind"])) {
        (Some(0), "rate") => assert!(rate >= 100.0, "{rate}"),
        (Some(1), "at-least") => return,
        other => panic!("{other:?}: {:#}", found["sentences"]),
    }
    let tries = array(&result["tries"]);
    assert!(tries.iter().any(|one| one["kept"] == false && one["rate"].as_f64() > Some(rate)));
    assert!(tries.iter().any(|one| one["confirming"] == true && one["kept"] == true));
}

#[test]
fn reports_a_missing_server_at_once() {
    let listener = listener_apart();
    let address = listener.local_addr().unwrap();
    close_for_all(listener);
    let began = Instant::now();
    load(&[&format!("http://ann:hunter2@{address}/"), "-H", "Authorization: hunter2"])
        .ends_with(4)
        .complains(&["could not connect to `http://", &address.to_string(), "hint: "])
        .says_nothing_of("hunter2");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn accepts_option_names_of_other_tools() {
    let _alone = alone();
    let canary = Canary::with_value("");
    let ran = load(&["-X", "get", &canary.url("/health"), "-n", "1e2", "-c", "2", "--json"]);
    let result: Value = serde_json::from_str(&ran.ends_with(0).stdout).unwrap();
    assert_eq!((&result["requests"], &result["statuses"]["200"]), (&json!(100), &json!(100)));
    let mut command = bakeoff();
    command.args(["load", "--targets", "-", "-n", "50", "-c", "1", "--json"]);
    let quiet = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = quiet.spawn().unwrap();
    let targets = format!("GET {}\n", canary.url("/health"));
    child.stdin.take().unwrap().write_all(targets.as_bytes()).unwrap();
    let ran = CommandOutput::from_output(child.wait_with_output().unwrap()).ends_with(0);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(result["verified"], 50);
}

#[test]
fn newest_runs_have_names() {
    let canary = Canary::start("");
    let dir = TempDir::new().unwrap();
    let here =
        |arguments: &[&str]| CommandOutput::run(bakeoff().current_dir(dir.path()).args(arguments));
    here(&["report", "latest"]).ends_with(2).complains(&["there is no run `latest` in `runs`"]);
    for number in ["100", "200", "300"] {
        let url = canary.url("/health");
        here(&["load", &url, "-n", number, "-c", "1", "--output", "runs"]).ends_with(0);
    }
    let requests = |run: &str| {
        let ran = here(&["report", run, "--format", "json"]).ends_with(0);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        crate::support::figure(crate::support::trials(&report)[0], "requests_verified")
    };
    assert_eq!(requests("latest"), 300.0);
    assert_eq!(requests("latest~2"), 100.0);
    here(&["verify", "latest"]).ends_with(0);
    let compared = here(&["compare", "latest~1", "latest"]);
    assert!(
        compared.stdout.contains("stop.operations: 200 -> 300"),
        "{}{}",
        compared.stdout,
        compared.stderr
    );
    here(&["report", "latest~3"]).ends_with(2).complains(&["there is no run `latest~3`"]);
}

#[test]
fn bad_input_ends_with_2_and_its_position() {
    let url = "http://127.0.0.1:1/";
    let bad = |arguments: &[&str], output: &[&str]| {
        load(arguments).ends_with(2).complains(output);
    };
    bad(&["ftp://a/"], &["`ftp` is not a scheme"]);
    bad(&[url, "-c", "10", "-n", "5"], &["10 clients cannot share 5 requests", "hint: "]);
    bad(&[url, "--fail-if", "p99 > 20"], &["did you mean `20ms`?", "\n        ^^"]);
    bad(&[url, "--arrivals", "poisson"], &["--rate"]);
    let few = [url, "--find-max", "--slo", "p99.9 < 20ms", "--rate", "50"];
    bad(&few, &["needs 10,000 requests, but the first try has 250", "hint: "]);
    bad(&[url, "--find-max"], &["--slo"]);
    bad(&[url, "-H", "no colon"], &["`--header`"]);
    bad(&["--targets", "/nowhere"], &["cannot read the targets file `/nowhere`"]);
}

#[test]
fn interrupted_load_prints_its_figures() {
    let canary = Canary::with_value(SLOW);
    let mut command = bakeoff();
    command.args(["load", &canary.url("/kv/key"), "-c", "2", "--for", "60s", "--json"]);
    command.args(["--warmup", "0s"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let began = Instant::now();
    let ran = CommandOutput::from_output(child.wait_with_output().unwrap()).ends_with(130);
    assert!(began.elapsed() < Duration::from_secs(5));
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&result["interrupted"], &result["valid"]), (&json!(true), &json!(false)));
    assert!(result["verified"].as_u64() > Some(50), "{}", result["verified"]);
}

#[test]
fn writes_plain_lines_to_a_pipe() {
    let canary = Canary::start("");
    let ran = load(&[&canary.url("/health"), "-n", "10"]);
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.contains('\x1b') && !text.contains('\r'), "{text:?}");
    }
    assert_eq!(ran.stderr, "", "only the result shows the settings");
    assert_eq!(ran.stdout.matches(&canary.url("/health")).count(), 1, "{}", ran.stdout);
}

impl CommandOutput {
    /// Fails the test if the output contains this text.
    #[track_caller]
    pub(crate) fn says_nothing_of(self, secret: &str) -> Self {
        for text in [&self.stdout, &self.stderr] {
            assert!(!text.contains(secret), "{text}");
        }
        self
    }
}

/// Loads with `--out`, and returns the output, the record and the run's folder.
#[track_caller]
fn recorded(out: &TempDir, arguments: &[&str]) -> (CommandOutput, Vec<Value>, PathBuf) {
    let ran = load(&[arguments, &["--out", out.path().to_str().unwrap()]].concat());
    let run = folders(out.path()).pop().unwrap_or_else(|| panic!("no run: {ran:?}"));
    let record = record(&run);
    assert_eq!(record.last().map(|line| text(&line["line"])), Some("end"), "{ran:?}");
    (ran, record, run)
}

#[test]
fn load_stores_a_run_for_report_compare_and_history() {
    let _alone = alone();
    let canary = Canary::with_value(SLOW);
    let url = format!("http://ann:hunter2@{}/kv/key?token=hunter2", canary.address);
    let out = tempfile::tempdir().unwrap();
    let arguments = [&*url, "-H", "X-Key: hunter2", "-c", "4", "--rate", "200", "--for", "1s"];
    let (ran, record, run) = recorded(&out, &arguments);
    let plain = load(&arguments);
    let first =
        |ran: &CommandOutput| ran.stdout.lines().take(3).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(first(&ran), first(&plain), "what is printed stays");
    assert!(ran.stdout.contains(&format!("\nRun: {}\n", run.display())), "{}", ran.stdout);
    let [header, trial, end] = &record[..] else { panic!("{} lines", record.len()) };
    assert_eq!((&end["complete"], &header["study"]["name"]), (&json!(true), &json!("load")));
    assert_eq!(header["study"]["workloads"][0]["request"]["path"], "/kv/key?token=***");
    let measured = &trial["stages"][0]["measurement"]["operations"]["request"];
    assert_eq!(measured["verified"], 200, "{trial}");
    assert!(trial["observed"]["nodes"][0]["name"] == "generator", "{}", trial["observed"]);
    let checks: Vec<&str> = array(&trial["checks"]).iter().map(|one| text(&one["name"])).collect();
    for check in ["generator", "schedule", "errors", "stationary", "clock"] {
        assert!(checks.contains(&check), "{checks:?}");
    }
    for file in ["record.jsonl", "report.html", "report.md", "report.csv", "report.json"] {
        let text = std::fs::read_to_string(run.join(file)).unwrap();
        assert!(!text.contains("hunter2"), "{file}");
    }
    let (_, _, later) = recorded(&out, &arguments);
    let output =
        |arguments: &[&str]| CommandOutput::run(bakeoff().args(arguments)).ends_with(0).stdout;
    let (run, later) = (run.to_str().unwrap(), later.to_str().unwrap());
    assert!(output(&["report", run]).contains("service"));
    assert!(output(&["compare", run, later]).contains("service"));
    let listed = output(&["history", "--out", out.path().to_str().unwrap()]);
    assert!(listed.contains(run) && listed.contains(later), "{listed}");
}

#[test]
fn steps_become_trials_and_a_search_one_trial() {
    let _alone = search();
    let canary = Canary::with_value("--delay 50ms");
    let url = canary.url("/kv/key");
    let out = tempfile::tempdir().unwrap();
    let (_, record, _) = recorded(&out, &[&url, "--steps", "50,100", "--for", "1s", "-c", "20"]);
    let loads: Vec<&str> = record[1..3].iter().map(|one| text(&one["trial"]["load"])).collect();
    assert_eq!(loads, ["at-50/s", "at-100/s"]);
    let search = ["--find-max", "--slo", "p90 < 120ms", "--rate", "100", "-c", "10"];
    let more = ["--for", "1s", "--warmup", "100ms"];
    let (_, record, _) = recorded(&out, &[&[url.as_str()], &search[..], &more[..]].concat());
    let trial = &record[1];
    assert_eq!(record[0]["study"]["loads"][0]["find"]["objective"], json!(["p90 < 120ms"]));
    assert!(!trial["found"].is_null(), "{}", trial["outcome"]);
    assert!(array(&trial["stages"]).len() > 3);
    assert!(
        array(&trial["stages"]).iter().all(|stage| stage["tried"]["rate"].as_f64() > Some(0.0))
    );
}

#[test]
fn failed_load_leaves_no_run() {
    let out = tempfile::tempdir().unwrap();
    let out_flag = ["--out", out.path().to_str().unwrap()];
    load(&[&["http://127.0.0.1:1/"], &out_flag[..]].concat()).ends_with(4);
    load(&[&["http://127.0.0.1:1/", "--ramp", "1..2"], &out_flag[..]].concat()).ends_with(2);
    assert!(folders(out.path()).is_empty());
}

#[test]
fn rejects_framing_headers_and_reads_bodies_from_files() {
    let canary = Canary::start("");
    let url = canary.url("/kv/key");
    for (header, what) in [
        ("Content-Length: 3", "bakeoff writes `Content-Length` itself, from the body"),
        ("transfer-encoding: chunked", "bakeoff writes `transfer-encoding` itself, from the body"),
    ] {
        let ran = load(&[&url, "-n", "1", "-H", header]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
    }
    let ran = load(&[&url, "-n", "1", "-H", "Host: a", "-H", "host: b"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    let file = canary.dir.path().join("body");
    std::fs::write(&file, "from a file").unwrap();
    let body = format!("@{}", file.display());
    load(&[&url, "-n", "1", "-c", "1", "--method", "put", "--body", &body]).ends_with(0);
    let got = ["-n", "1", "-c", "1", "--expect-body", "from a file"];
    load(&[&[url.as_str()][..], &got].concat()).ends_with(0);
    let ran = load(&[&url, "-n", "2", "-c", "1", "--method", "head"]);
    assert!(ran.stdout.contains("HEAD http://") && ran.stdout.contains("405: 2"), "{}", ran.stdout);
}

/// A server that never answers: only its kernel accepts connections.
fn hung() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/health", listener.local_addr().unwrap());
    (listener, url)
}

/// Its clients hang since the warm-up, so none of their requests is due in the window.
#[test]
fn hung_server_makes_a_closed_load_invalid() {
    let (one, other) = (Canary::start(SLOW), Canary::start(SLOW));
    let (_listener, hung) = hung();
    let urls = [one.url("/health"), other.url("/health"), hung];
    let load = ["--clients", "6", "--for", "1s", "--warmup", "300ms", "--timeout", "3s"];
    let (result, code) = result(&[&[&*urls[0], &urls[1], &urls[2]], &load[..]].concat());
    assert_eq!((code, &result["valid"]), (Some(1), &json!(false)));
    // Each client requests all three in turn, and waits for the hanging one.
    assert_eq!(result["errors"], json!({"timeout": 6}));
    let reasons = result["reasons"].to_string();
    assert!(reasons.contains("6 of 6 clients had only failures"), "{reasons}");
}

#[test]
fn third_of_an_open_load_that_fails_makes_it_invalid() {
    let (one, other) = (Canary::start(""), Canary::start(""));
    let (_listener, hung) = hung();
    let urls = [one.url("/health"), other.url("/health"), hung];
    let load = ["--clients", "60", "--rate", "300", "--for", "1s", "--timeout", "500ms"];
    let (result, code) = result(&[&[&*urls[0], &urls[1], &urls[2]], &load[..]].concat());
    assert_eq!((code, &result["valid"]), (Some(1), &json!(false)));
    let reasons = result["reasons"].to_string();
    // Operations due in the window are dropped behind earlier ones.
    assert!(
        reasons.contains("succeeded (100 failed): the figures describe the other"),
        "{reasons}"
    );
}

#[test]
fn clients_without_completions_make_a_load_invalid() {
    let canary = Canary::with_value("--delay 1500ms");
    let load = ["--clients", "8", "--for", "500ms", "--warmup", "100ms"];
    let (result, code) = result(&[&[&*canary.url("/kv/key")], &load[..]].concat());
    assert_eq!((code, &result["valid"]), (Some(1), &json!(false)));
    let reasons = result["reasons"].to_string();
    assert!(reasons.contains("8 of 8 clients completed nothing within the window"), "{reasons}");
    assert!(reasons.contains("load for longer, or with fewer clients"), "{reasons}");
}
