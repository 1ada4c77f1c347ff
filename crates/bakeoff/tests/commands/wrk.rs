//! Tests `bakeoff wrk` for users and scripts, against a canary.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::canary::{Canary, alone};
use crate::support::{CommandOutput, bakeoff, close_for_all, listener_apart};
use rustix::process::{Pid, Signal, kill_process};

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/commands/scripts/wrk").join(name)
}

/// Writes a short script, deleted with the returned folder.
fn small_script(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("small.lua");
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    (dir, path)
}

fn wrk(options: &str) -> Command {
    let mut command = bakeoff();
    command.arg("wrk").args(options.split_whitespace());
    command
}

/// Returns the number after these words in a line.
#[track_caller]
fn number_after(text: &str, words: &str) -> f64 {
    let rest = text.split(words).nth(1).unwrap_or_else(|| panic!("`{words}` is not in:\n{text}"));
    let word = rest.split_whitespace().next().unwrap_or_default();
    word.trim_end_matches(',').parse().unwrap_or_else(|_| panic!("`{words}{word}`:\n{text}"))
}

/// Returns N of `  N requests in …`.
#[track_caller]
fn requests(text: &str) -> f64 {
    let line = text.lines().find(|line| line.contains(" requests in "));
    let line = line.unwrap_or_else(|| panic!("no count in:\n{text}"));
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Masks numbers and units in a line; parsers rely on the rest.
fn shape(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let numeric = word.starts_with(|c: char| c.is_ascii_digit());
        if numeric && !word.ends_with("%") { "N" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn plain_run_prints_only_wrks_lines() {
    let _alone = alone();
    let canary = Canary::start("");
    let url = canary.url("/stats");
    let ran = CommandOutput::run(wrk("-t2 -c4 -d1s --latency").arg(&url)).ends_with(0);
    let lines: Vec<String> = ran.stdout.lines().map(shape).collect();
    let within = |line: &String| line.rsplit_once(' ').unwrap().0.to_owned();
    assert_eq!(
        lines[..3],
        [
            format!("Running N test @ {url}"),
            "N threads and N connections".into(),
            "Thread Stats Avg Stdev Max +/- Stdev".into(),
        ]
    );
    assert_eq!(
        (within(&lines[3]), within(&lines[4])),
        ("Latency N N N".into(), "Req/Sec N N N".into())
    );
    assert_eq!(
        lines[5..],
        [
            "Latency Distribution",
            "50% N",
            "75% N",
            "90% N",
            "99% N",
            "N requests in N N read",
            "Requests/sec: N",
            "Transfer/sec: N",
        ]
    );
    assert!(requests(&ran.stdout) > 10.0, "{}", ran.stdout);
    assert!(ran.stdout.contains(" requests in 1.00s, "), "{}", ran.stdout);
    for line in ran.stderr.lines() {
        assert!(line.starts_with("note: "), "{}", ran.stderr);
    }
}

#[test]
fn script_callbacks_run_in_order() {
    let _alone = alone();
    let canary = Canary::start("");
    let mut command = wrk("-t2 -c2 -d1 -s");
    command.arg(script("items.lua")).arg(canary.url("/")).args(["--", "two"]);
    let ran = CommandOutput::run(&mut command).ends_with(0);
    let out: Vec<&str> = ran.stdout.lines().collect();
    let address = canary.address;
    assert_eq!(out[0], format!("thread 1 of two, against {address}"));
    assert_eq!(out[1], format!("thread 2 of two, against {address}"));
    assert!(out[2].starts_with("Running 1s test @ "), "{}", ran.stdout);
    let [.., transfer, done, latency] = &out[..] else { panic!("{}", ran.stdout) };
    assert!(transfer.starts_with("Transfer/sec:"), "{}", ran.stdout);
    // Thread 1's first request was the one that wrk builds before the run and does not send.
    assert!(done.contains("done: 21 written, ") && done.contains(", 0 wrong, "), "{done}");
    let answered = done.rsplit(", ").next().unwrap().trim_end_matches(" answered");
    assert_eq!(answered.parse::<f64>().unwrap(), requests(&ran.stdout));
    assert_eq!(*latency, "latency: true");
}

#[test]
fn pipelined_requests_are_counted_one_by_one() {
    let _alone = alone();
    let canary = Canary::start("");
    let mut command = wrk("-t1 -c2 -d1 -s");
    let ran =
        CommandOutput::run(command.arg(script("batch.lua")).arg(canary.url("/"))).ends_with(0);
    let count = requests(&ran.stdout);
    assert!(count > 30.0 && !ran.stdout.contains("Socket errors"), "{}", ran.stdout);
    let answers = number_after(&ran.stdout, "batches: ");
    assert!(answers % 3.0 == 0.0 && answers >= count && answers <= count + 6.0, "{}", ran.stdout);
}

#[test]
fn failures_count_in_wrks_lines_and_a_note_has_successes() {
    let _alone = alone();
    let canary = Canary::start("--error 50%");
    let ran = CommandOutput::run(wrk("-t1 -c2 -d1").arg(canary.url("/kv/missing"))).ends_with(0);
    // Half of them fail, the other half does not find the key.
    assert!(number_after(&ran.stdout, "Requests/sec:") > 0.0, "{}", ran.stdout);
    let bad = number_after(&ran.stdout, "Non-2xx or 3xx responses: ");
    assert_eq!(bad, requests(&ran.stdout));
    ran.complains(&["answers failed", "successes alone: 0.00 requests/sec, no latency"]);
}

#[test]
fn late_answers_are_timeouts() {
    let canary = Canary::start("--stall 10s --stall-after 300ms");
    let begun = Instant::now();
    let ran =
        CommandOutput::run(wrk("-t1 -c3 -d1 --timeout 1").arg(canary.url("/stats"))).ends_with(0);
    assert!(begun.elapsed() < Duration::from_secs(6), "it does not wait for ever");
    assert_eq!(number_after(&ran.stdout, "timeout "), 3.0, "{}", ran.stdout);
    assert!(number_after(&ran.stdout, "Requests/sec:") > 0.0);
    ran.complains(&["3 requests had no answer within 1s"]);
}

#[test]
fn open_load_keeps_its_rate_and_prints_wrk2s_lines() {
    let _alone = alone();
    let canary = Canary::start("");
    let ran =
        CommandOutput::run(wrk("-t2 -c4 -d1 -R 200 -U").arg(canary.url("/stats"))).ends_with(0);
    assert!((199.0..=200.0).contains(&requests(&ran.stdout)), "{}", ran.stdout);
    for line in [
        "  Latency Distribution (HdrHistogram - Recorded Latency)\n 50.000%",
        "\n  Detailed Percentile spectrum:\n       Value   Percentile   TotalCount 1/(1-Percentile)\n\n",
        "     1.000000          200          inf\n#[Mean    = ",
        "  Latency Distribution (HdrHistogram - Uncorrected Latency (",
    ] {
        assert!(ran.stdout.contains(line), "`{line}` is not in:\n{}", ran.stdout);
    }
}

#[test]
fn script_error_during_the_run_keeps_the_figures() {
    let _alone = alone();
    let canary = Canary::start("");
    for more in ["-d5", "-d5 -R 400"] {
        let begun = Instant::now();
        let mut command = wrk("-t2 -c2 -s");
        command.arg(script("tired.lua")).args(more.split(' ')).arg(canary.url("/"));
        let ran = CommandOutput::run(&mut command).ends_with(2);
        assert!(begun.elapsed() < Duration::from_secs(4), "the run ends when the script does");
        let count = requests(&ran.stdout);
        assert!((39.0..=80.0).contains(&count), "{}", ran.stdout);
        assert!(ran.stdout.ends_with(&format!("done after {count}\n")), "{}", ran.stdout);
        assert!(
            !ran.stderr.contains("were due"),
            "what was not due yet is not missing: {}",
            ran.stderr
        );
        ran.complains(&[
            "tired.lua` failed in `request`, thread ",
            "tired.lua:7: attempt to perform arithmetic",
        ]);
    }
}

#[test]
fn broken_scripts_end_before_the_load() {
    let canary = Canary::start("");
    for (text, output) in [
        ("function request(\n", "small.lua:2: "),
        ("\nerror('no')", "failed in its main chunk, thread 1"),
        ("function setup() error('no') end", "failed in `setup`"),
        ("function init() error('no') end", "failed in `init`, thread 1"),
        ("function request() return 5 end", "it returned integer instead of a request's text"),
        ("function request() return 'nonsense' end", "incomplete request at 1:1"),
        ("function request() return wrk.format() .. 'x' end", "incomplete request at 4:1"),
    ] {
        let (_dir, path) = small_script(text);
        let begun = Instant::now();
        let ran = CommandOutput::run(wrk("-d20 -s").arg(path).arg(canary.url("/"))).ends_with(2);
        assert!(begun.elapsed() < Duration::from_secs(10), "{text}");
        assert!(!ran.stdout.contains("Running"), "{text}");
        if !text.starts_with("\nerror") {
            ran.complains(&[output]);
        } else {
            ran.complains(&["failed in its main chunk", "small.lua:2: no"]);
        }
    }
}

#[test]
fn script_may_end_the_program() {
    let _alone = alone();
    let canary = Canary::start("");
    let (_dir, path) = small_script("function done() io.write('bye') os.exit(7) end");
    let ran =
        CommandOutput::run(wrk("-t1 -c1 -d1 -s").arg(path).arg(canary.url("/stats"))).ends_with(7);
    assert!(ran.stdout.ends_with("bye"), "{}", ran.stdout);
}

#[test]
fn threads_may_have_their_own_servers() {
    let _alone = alone();
    let (one, two) = (Canary::start(""), Canary::start("--error 100%"));
    let mut command = wrk("-t2 -c4 -d1 -s");
    command.arg(script("two.lua")).env("SECOND_PORT", two.address.port().to_string());
    let ran = CommandOutput::run(command.arg(one.url("/kv/x"))).ends_with(0);
    assert!(ran.stdout.starts_with(&format!("to {}\nto {}\n", one.address, two.address)));
    let bad = number_after(&ran.stdout, "Non-2xx or 3xx responses: ");
    assert!(bad > 0.0 && bad < requests(&ran.stdout), "{}", ran.stdout);
}

#[test]
fn bad_command_lines_print_the_usage_and_end_with_2() {
    for (options, output) in [
        ("-d 500ms http://127.0.0.1:1/", "`-d`: `500ms` is not a time"),
        ("-t4 -c2 http://127.0.0.1:1/", "number of connections must be >= threads"),
        ("nonsense", "invalid URL: nonsense"),
        ("", "the URL is missing"),
        ("-s /nowhere/x.lua http://127.0.0.1:1/", "`/nowhere/x.lua` cannot be read"),
    ] {
        let ran = CommandOutput::run(&mut wrk(options)).ends_with(2);
        let usage = ran.stdout.starts_with("Usage: wrk <options> <url>");
        assert_eq!(usage, !options.starts_with("-s"), "{}", ran.stdout);
        ran.complains(&[output]);
    }
    for options in ["-h", "--help", "-v"] {
        CommandOutput::run(&mut wrk(options)).ends_with(0);
    }
}

#[test]
fn reports_a_missing_server() {
    let listener = listener_apart();
    let address = listener.local_addr().unwrap();
    close_for_all(listener);
    let ran = CommandOutput::run(&mut wrk(&format!("http://{address}/"))).ends_with(4);
    ran.complains(&[&format!("unable to connect to {address}: Connection refused")]);
    let ran = CommandOutput::run(&mut wrk("http://nosuch.invalid/")).ends_with(4);
    ran.complains(&["error: unable to resolve nosuch.invalid:http "]);
}

#[test]
fn interrupted_wrk_run_prints_its_figures() {
    let _alone = alone();
    let canary = Canary::start("");
    let mut command = wrk("-t1 -c1 -d60");
    command.arg(canary.url("/stats")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ran = CommandOutput::from_output(child.wait_with_output().unwrap()).ends_with(130);
    assert!(requests(&ran.stdout) > 0.0 && ran.stdout.contains("Requests/sec:"), "{}", ran.stdout);
}
