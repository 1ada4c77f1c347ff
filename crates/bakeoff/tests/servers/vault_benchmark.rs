//! Tests `bakeoff vault-benchmark` against a real Vault, and against a server that only refuses.
//!
//! `bakeoff install` provides Vault and OpenBao. Without them, tests that need one are reported as ignored with the
//! reason, and counted on the last line. In CI that is a failure, unless the machine lacks a requirement.

mod fake;
mod server;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use fake::{Answers, Fake, answer};
pub(crate) use server::stop_shared;
use server::{Plain, Process, dev, free_ports, initialise, plain, shared, three};

use crate::support::certificates::Certificates;
use crate::support::skip::{SkipReason, SkippedTests};
use crate::support::{CommandOutput, bakeoff, has, text, wait_for};

/// Must not appear in any output.
const TOKEN: &str = "the-root-of-a-test";
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A program, or the reason why it is missing.
struct FoundProgram {
    system: &'static str,
    /// Tools to install it: without at least one of them, the machine lacks it regardless of the network.
    needs: &'static [&'static str],
    program: Result<PathBuf, String>,
}

impl FoundProgram {
    fn find(system: &'static str, version: &str, needs: &'static [&'static str]) -> Self {
        let ran = CommandOutput::run(bakeoff().args(["install", &format!("{system}@{version}")]));
        let program = match ran.code {
            Some(0) => Ok(program(system)),
            code => {
                assert_eq!(code, Some(3), "{}", ran.stderr);
                let why: Vec<&str> =
                    ran.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
                Err(format!("{system} not found: {}", why.join("; ")))
            }
        };
        Self { system, needs, program }
    }
}

/// Returns a system's path from `bakeoff systems`.
fn program(system: &str) -> PathBuf {
    let systems = CommandOutput::run(bakeoff().arg("systems")).ends_with(0).stdout;
    let block = systems.split("\n\n").find(|block| block.starts_with(&format!("{system}\n")));
    let runs = block.unwrap().lines().find_map(|line| line.trim().strip_prefix("runs "));
    PathBuf::from(runs.expect("it was installed").trim())
}

/// Returns a test that needs a program. Tests of Vault share a server, so they run one after another.
fn with(name: &str, find: Find, skipped: &SkippedTests, test: fn(&Path)) -> Trial {
    static TURN: Mutex<()> = Mutex::new(());
    skipped.unless_lacking(name, move || {
        let had = find();
        let _turn =
            (had.system == "vault").then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
        let program = had.program.as_ref().map_err(|why| {
            // A program that needs no tool is in no registry.
            let cannot = had.needs.is_empty() || had.needs.iter().any(|tool| !has(tool));
            if cannot { SkipReason::Machine(why.clone()) } else { SkipReason::Program(why.clone()) }
        })?;
        test(program);
        Ok(())
    })
}

/// Program of a server, found by the first test that needs it.
type Find = fn() -> &'static FoundProgram;

fn no_server() -> &'static FoundProgram {
    static HAD: LazyLock<FoundProgram> =
        LazyLock::new(|| FoundProgram { system: "none", needs: &[], program: Ok(PathBuf::new()) });
    &HAD
}

fn vault() -> &'static FoundProgram {
    static HAD: LazyLock<FoundProgram> =
        LazyLock::new(|| FoundProgram::find("vault", "1.21", &["go"]));
    &HAD
}

fn openbao() -> &'static FoundProgram {
    static HAD: LazyLock<FoundProgram> =
        LazyLock::new(|| FoundProgram::find("openbao", "2.7", &[]));
    &HAD
}

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    type Test = fn(&Path);
    let all: [(&str, &str, Find, Test); 10] = [
        ("what_is_measured_is_reported_alike_in_all_forms", "vault", vault, reports_hold_together),
        ("an_interrupt_at_any_moment_leaves_nothing", "vault", vault, an_interrupt_leaves_nothing),
        (
            "an_open_load_says_when_its_plan_was_not_kept",
            "vault",
            vault,
            an_open_load_keeps_its_plan_or_says_so,
        ),
        (
            "each_server_of_a_cluster_has_its_load_and_its_report",
            "vault",
            vault,
            clusters_are_loaded,
        ),
        (
            "a_server_that_cannot_serve_is_named",
            "vault",
            vault,
            names_what_keeps_a_server_from_serving,
        ),
        ("a_load_outlives_its_leader", "vault", vault, a_load_outlives_its_leader),
        ("a_namespace_that_is_not_there", "openbao", openbao, namespaces),
        (
            "a_second_interrupt_ends_the_clean_up_and_says_what_stays",
            "no server",
            no_server,
            a_second_interrupt,
        ),
        (
            "mistakes_of_the_file_are_reported_with_their_lines",
            "no server",
            no_server,
            diagnostics_are_reported,
        ),
        ("what_a_standby_answers_is_named_and_counted", "no server", no_server, standbys_are_named),
    ];
    all.map(|(name, system, find, test)| with(&format!("{name} ({system})"), find, skipped, test))
        .into()
}

/// Returns `bakeoff vault-benchmark run` with a file, without helpful environment variables.
fn command(dir: &Path, address: &str, token: &str, file: &str, options: &[&str]) -> Command {
    let path = dir.join("test.hcl");
    std::fs::write(&path, file).unwrap();
    let mut command = bakeoff();
    for (name, _) in std::env::vars() {
        if name.starts_with("VAULT_") || name.starts_with("BAO_") {
            command.env_remove(name);
        }
    }
    command.env("VAULT_ADDR", address).env("VAULT_TOKEN", token);
    command.args(["vault-benchmark", "run", &format!("-config={}", path.display())]).args(options);
    command
}

/// Returns the output after checking that it does not contain the token.
#[track_caller]
fn quiet(output: Output) -> CommandOutput {
    let ran = CommandOutput::from_output(output);
    assert!(!ran.stdout.contains(TOKEN) && !ran.stderr.contains(TOKEN), "the token is printed");
    ran
}

#[track_caller]
fn run(server: &Plain, file: &str, options: &[&str]) -> CommandOutput {
    let dir = tempfile::tempdir().unwrap();
    let mut command = command(dir.path(), &server.url(), &server.token, file, options);
    quiet(command.output().unwrap())
}

/// Runs a file, and returns the JSON report and the output. Asserts the exit code.
#[track_caller]
fn report(server: &Plain, file: &str, options: &[&str], code: i32) -> (Value, CommandOutput) {
    let ran = run(server, file, &[options, &["-report_mode=json"]].concat()).ends_with(code);
    (serde_json::from_str(&ran.stdout).expect("a JSON report"), ran)
}

fn count(metrics: &Value, name: &str) -> u64 {
    metrics[name].as_u64().unwrap_or_else(|| panic!("no `{name}` in {metrics}"))
}

/// Returns a file with one test for all requests.
fn one(kind: &str, config: &str) -> String {
    format!("test \"{kind}\" \"only\" {{\n  weight = 100\n  config {{\n    {config}\n  }}\n}}\n")
}

const WEIGHTS: [(&str, u64, &str); 10] = [
    ("kvv1_read", 16, "numkvs = 20"),
    ("kvv1_write", 10, "numkvs = 20\nkvsize = 100"),
    ("kvv2_read", 16, "numkvs = 20"),
    ("kvv2_write", 10, "numkvs = 20"),
    ("transit_encrypt", 10, "keys {\ntype = \"aes256-gcm96\"\n}"),
    ("pki_issue", 6, "setup_delay = \"10ms\"\nrole {\nkey_type = \"ec\"\nkey_bits = 256\n}"),
    ("userpass_auth", 6, ""),
    ("approle_auth", 6, ""),
    ("seal_status", 10, ""),
    ("health", 10, ""),
];

fn mixed(duration: &str) -> String {
    let test = |(kind, weight, config): &(&str, u64, &str)| {
        format!("test \"{kind}\" \"{kind}\" {{\nweight = {weight}\nconfig {{\n{config}\n}}\n}}\n")
    };
    let tests: String = WEIGHTS.iter().map(test).collect();
    format!("duration = \"{duration}\"\ncleanup = true\nworkers = 4\n{tests}")
}

/// Returns the count column of a terse report by its first column.
fn terse_counts(report: &str) -> BTreeMap<&str, u64> {
    let rows = report.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.len() == 8 && row[7].ends_with('%'))
        .map(|row| {
            assert_eq!(row[7], "100.00%", "{row:?}");
            (row[0], row[1].parse().unwrap())
        })
        .collect()
}

fn reports_hold_together(program: &Path) {
    let server = shared(program);
    let before = server.belongings();
    let (json, ran) = report(server, &mixed("4s"), &["-annotate=a=b,c=d"], 0);
    assert_eq!(json["target_addr"], server.url());
    assert_eq!(json["annotations"], json!({ "a": "b", "c": "d" }));
    assert!(ran.stderr.contains("2112"), "metrics are not served: {}", ran.stderr);
    let metrics = json["metrics"].as_object().unwrap();
    let total = &metrics["total"];
    let all = count(total, "requests");
    assert!(all > 200, "{all} requests in 4 s");
    assert_eq!(metrics.len(), WEIGHTS.len() + 1);
    let mut sum = 0;
    for (kind, weight, _) in WEIGHTS {
        let test = &metrics[kind];
        assert_eq!(test["success"], 1.0, "{kind}: {test}");
        let requests = count(test, "requests");
        // Five standard deviations of a draw.
        let expected = all as f64 * weight as f64 / 100.0;
        let off = (requests as f64 - expected).abs();
        assert!(off <= 5.0 * expected.sqrt() + 1.0, "{kind}: {requests} of {all}");
        let statuses = test["status_codes"].as_object().unwrap();
        let answered: u64 = statuses.values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(answered, requests, "{kind}: {test}");
        assert_eq!(test["errors"], json!([]));
        let times: Vec<u64> = ["min", "50th", "90th", "95th", "99th", "max"]
            .map(|name| count(&test["latencies"], name))
            .into();
        assert!(times.is_sorted() && times[0] > 0, "{kind}: {times:?}");
        sum += requests;
    }
    assert_eq!(sum, all);
    assert!(count(&metrics["kvv1_write"]["bytes_out"], "total") > 100);
    let seconds = count(total, "duration") as f64 / 1e9;
    assert!((3.0..4.5).contains(&seconds), "{seconds} s of 4 s");
    assert_eq!(server.belongings(), before, "the clean-up leaves nothing");

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("results.json");
    std::fs::write(&file, &ran.stdout).unwrap();
    let review = |mode: &str| {
        let file = format!("-results_file={}", file.display());
        let arguments = ["vault-benchmark", "review", &file, &format!("-report_mode={mode}")];
        CommandOutput::run(bakeoff().args(arguments)).ends_with(0).stdout
    };
    let terse = review("terse");
    let counts = terse_counts(&terse);
    assert_eq!(counts.len(), WEIGHTS.len() + 1, "{terse}");
    assert_eq!(counts["TOTAL"], all);
    assert!(WEIGHTS.iter().all(|(kind, ..)| counts[kind] == count(&metrics[*kind], "requests")));
    let verbose = review("verbose");
    let successes = verbose.lines().filter(|line| line.contains("100.00%")).count();
    assert_eq!(successes, WEIGHTS.len() + 1, "{verbose}");

    // The same formats directly from a run.
    let file = one("kvv2_read", "numkvs = 5");
    let ran = run(server, &file, &["-duration=1s", "-cleanup", "-report_mode=terse"]).ends_with(0);
    let counts = terse_counts(&ran.stdout);
    assert!(counts["only"] > 0 && counts["only"] == counts["TOTAL"], "{}", ran.stdout);
    let ran = run(server, &file, &["-duration=1s", "-cleanup", "-report_mode=verbose"]);
    assert_eq!(ran.ends_with(0).stdout.matches("100.00%").count(), 2);
    assert_eq!(server.belongings(), before);
}

/// A run in progress.
struct BenchmarkRun {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    seen: String,
    _dir: tempfile::TempDir,
}

impl BenchmarkRun {
    fn new(server: &Plain, file: &str, options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = command(dir.path(), &server.url(), &server.token, file, options);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr, seen: String::new(), _dir: dir }
    }

    /// Reads the output until it contains this.
    #[track_caller]
    fn says(&mut self, what: &str) {
        while !self.seen.lines().last().is_some_and(|line| line.contains(what)) {
            let read = self.stderr.read_line(&mut self.seen).unwrap();
            assert!(read > 0, "it ended and never said `{what}`:\n{}", self.seen);
        }
    }

    fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    #[track_caller]
    fn end(mut self) -> CommandOutput {
        self.stderr.read_to_string(&mut self.seen).unwrap();
        let mut output = self.child.wait_with_output().unwrap();
        output.stderr = self.seen.into_bytes();
        quiet(output)
    }
}

fn an_interrupt_leaves_nothing(program: &Path) {
    let server = shared(program);
    let before = server.belongings();
    // During the set-up, which would take minutes.
    let begun = BenchmarkRun::new(server, &one("kvv2_read", "numkvs = 5000000"), &["-cleanup"]);
    wait_for("a mount", READY_WITHIN, || server.belongings() != before);
    begun.interrupt();
    let ran = begun.end().ends_with(130).complains(&["cleaning up"]);
    assert_eq!(ran.stdout, "", "nothing was measured");
    assert_eq!(server.belongings(), before, "{}", ran.stderr);

    // During the load: the results so far are printed.
    let options = ["-cleanup", "-duration=60s", "-report_mode=json"];
    let mut begun = BenchmarkRun::new(server, &mixed("60s"), &options);
    begun.says("starting the load");
    std::thread::sleep(Duration::from_millis(700));
    let interrupted = Instant::now();
    begun.interrupt();
    let ran = begun.end().ends_with(130).complains(&["cleaning up"]);
    assert!(interrupted.elapsed() < Duration::from_secs(20), "it ended late");
    let report: Value = serde_json::from_str(&ran.stdout).expect("a report");
    assert!(count(&report["metrics"]["total"], "requests") > 10, "{report}");
    assert_eq!(server.belongings(), before, "{}", ran.stderr);
}

fn a_second_interrupt(_: &Path) {
    // A server that never deletes anything, so that the second signal always hits a clean-up.
    let slow = Fake::start(|method, path| match (method, path) {
        ("DELETE", _) => None,
        _ => Some((200, "{\"data\":{}}")),
    });
    let server = plain(slow.port, TOKEN);
    let file = one("kvv1_read", "numkvs = 1");
    let mut begun = BenchmarkRun::new(&server, &file, &["-cleanup", "-duration=60s"]);
    begun.says("starting the load");
    begun.interrupt();
    begun.says("cleaning up");
    // Two signals within a second count as one.
    std::thread::sleep(Duration::from_millis(1200));
    let interrupted = Instant::now();
    begun.interrupt();
    let ran = begun.end().ends_with(130);
    assert!(interrupted.elapsed() < Duration::from_secs(10), "it ended late");
    ran.complains(&["left on the server: `sys/mounts/"]);
}

fn an_open_load_keeps_its_plan_or_says_so(program: &Path) {
    let server = shared(program);
    let file = one("kvv1_read", "numkvs = 5");
    let open = |rate: &str, workers: &str| {
        report(server, &file, &["-cleanup", "-duration=2s", rate, workers], 0)
    };
    let (kept, ran) = open("-rps=20", "-workers=8");
    let requests = count(&kept["metrics"]["only"], "requests");
    assert!((38..=41).contains(&requests), "{requests} in 2 s at 20/s");
    assert!(!ran.stderr.contains("due but never sent"), "{}", ran.stderr);
    let (missed, ran) = open("-rps=200000", "-workers=2");
    let requests = count(&missed["metrics"]["only"], "requests");
    assert!(requests < 300_000, "no server does that: {requests}");
    // Each request is either sent or dropped; the last one may be due at the very end.
    let all = ["of 399,999 requests", "of 400,000 requests", "of 400,001 requests"];
    assert!(all.iter().any(|all| ran.stderr.contains(all)), "{}", ran.stderr);
    ran.complains(&["due but never sent", "no worker was free"]);
    assert!(text(&missed["notes"][0]).contains("due but never sent"), "{missed}");
}

fn clusters_are_loaded(program: &Path) {
    let server = shared(program);
    let before = server.belongings();
    // One server with two names, unknown to the load.
    let dir = tempfile::tempdir().unwrap();
    let cluster = dir.path().join("cluster.json");
    let other = server.url().replace("127.0.0.1", "localhost");
    let addresses = json!({ "vault_addrs": [server.url(), other], "token": TOKEN });
    std::fs::write(&cluster, addresses.to_string()).unwrap();
    let named = format!("-cluster_json={}", cluster.display());
    let options = [&*named, "-duration=1s", "-cleanup", "-report_mode=json", "-debug"];
    let file = one("kvv2_write", "numkvs = 5");
    let mut command = command(dir.path(), "http://127.0.0.1:1", "", &file, &options);
    let ran = quiet(command.env_remove("VAULT_TOKEN").output().unwrap()).ends_with(0);
    let reports: Vec<Value> = serde_json::Deserializer::from_str(&ran.stdout)
        .into_iter()
        .collect::<Result<_, _>>()
        .expect("JSON reports");
    let targets: Vec<&str> = reports.iter().map(|report| text(&report["target_addr"])).collect();
    assert_eq!(targets, [server.url(), other]);
    for report in &reports {
        assert!(count(&report["metrics"]["only"], "requests") > 0, "{report}");
        assert_eq!(report["metrics"]["only"]["success"], 1.0, "{report}");
    }
    assert!(ran.stderr.contains("`only`: POST /v1/"), "-debug shows a request: {}", ran.stderr);
    assert_eq!(server.belongings(), before);
}

fn names_what_keeps_a_server_from_serving(program: &Path) {
    let file = one("kvv1_read", "numkvs = 5");
    let refused = |server: &Plain, code: i32, parts: &[&str]| {
        run(server, &file, &["-duration=1s", "-cleanup"]).ends_with(code).complains(parts);
    };
    let good = shared(program);
    let before = good.belongings();
    refused(
        &Plain { address: good.address, token: "hvs.no-such".into() },
        2,
        &["error: ", "the token is invalid or expired", "hint: set the token with `-vault_token`"],
    );
    let [unused, port, tls_port] = free_ports();
    refused(&plain(unused, TOKEN), 4, &["is unreachable", "hint: is the server running"]);

    // One server with a plain text listener and a TLS listener.
    let certificates = Certificates::new();
    let path = |name: &str| certificates.path(name).display().to_string();
    let config = json!({
        "storage": { "inmem": {} },
        "disable_mlock": true,
        "api_addr": format!("http://127.0.0.1:{port}"),
        "listener": [
            { "tcp": { "address": format!("127.0.0.1:{port}"), "tls_disable": true } },
            { "tcp": {
                "address": format!("127.0.0.1:{tls_port}"),
                "cluster_address": "127.0.0.1:0",
                "tls_cert_file": path("server.pem"),
                "tls_key_file": path("server.key"),
            } },
        ],
    });
    std::fs::write(path("server.json"), config.to_string()).unwrap();
    let arguments = [format!("-config={}", path("server.json"))];
    let process = Process::start(program, tempfile::tempdir().unwrap(), &arguments);
    let mut server = plain(port, "none-yet");
    let up = || server.try_ask("GET", "sys/seal-status", &Value::Null).is_some();
    wait_for("a server", READY_WITHIN, up);
    refused(&server, 4, &["is not initialised (501)", "hint: initialise it"]);
    let (token, key) = initialise(&server);
    server.token = token;
    refused(&server, 4, &["is sealed (503)", "hint: unseal it"]);
    server.ask("PUT", "sys/unseal", &json!({ "key": key }));
    wait_for("an open server", READY_WITHIN, || {
        server.try_ask("GET", "sys/health", &Value::Null).is_some_and(|(status, _)| status == 200)
    });

    let over_tls = |address: &str, ca: Option<&str>, code: i32, parts: &[&str]| {
        let mut command = command(
            &certificates.path(""),
            address,
            &server.token,
            &file,
            &["-duration=1s", "-cleanup"],
        );
        if let Some(ca) = ca {
            command.arg(format!("-ca_pem_file={}", path(ca)));
        }
        quiet(command.output().unwrap()).ends_with(code).complains(parts);
    };
    let address = format!("https://127.0.0.1:{tls_port}");
    over_tls(&address, Some("ca.pem"), 0, &["benchmark complete"]);
    for ca in [Some("other.pem"), None] {
        over_tls(&address, ca, 4, &["no trusted authority signed its certificate", "-ca_pem_file"]);
    }
    over_tls(&format!("https://127.0.0.1:{port}"), None, 4, &["TLS", "if not, write `http://`"]);
    over_tls(&address, Some("absent.pem"), 2, &["absent.pem"]);
    assert!(!process.log().contains("panic"), "{}", process.log());
    assert_eq!(good.belongings(), before);
}

fn a_load_outlives_its_leader(program: &Path) {
    let mut nodes = three(program);
    let standby = Plain { address: nodes[1].1.address, token: nodes[1].1.token.clone() };
    let before = standby.belongings();
    let options = ["-cleanup", "-duration=3s", "-workers=4", "-report_mode=json"];
    let mut begun = BenchmarkRun::new(&standby, &one("kvv1_write", "numkvs = 5"), &options);
    begun.says("is a standby (429)");
    begun.says("starting the load");
    // So late that there is no leader yet when the clean-up begins.
    std::thread::sleep(Duration::from_millis(2500));
    nodes[0].0.kill();
    let ran = begun.end().complains(&["cleaning up", "failed: "]);
    // Most requests may fail: standbys without a leader answer at once.
    assert!(matches!(ran.code, Some(0 | 1)), "{:?} {}", ran.code, ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout).expect("a report");
    let metrics = &report["metrics"]["only"];
    let (requests, success) = (count(metrics, "requests"), metrics["success"].as_f64().unwrap());
    let errors = metrics["error_counts"].as_object().unwrap();
    let failed: u64 = errors.values().map(|count| count.as_u64().unwrap()).sum();
    assert!(failed > 0 && success > 0.0 && success < 1.0, "{metrics}");
    assert_eq!(failed, requests - (success * requests as f64).round() as u64, "{metrics}");
    assert!(!ran.stderr.contains("left on the server"), "{}", ran.stderr);
    let leader = standby.ask("GET", "sys/leader", &Value::Null);
    assert_ne!(text(&leader["leader_address"]), nodes[0].1.url(), "another one leads");
    assert_eq!(standby.belongings(), before, "{}", ran.stderr);
}

fn namespaces(program: &Path) {
    let (_process, server) = dev(program);
    let before = server.belongings();
    let file = one("kvv1_read", "numkvs = 5");
    let options = ["-duration=1s", "-cleanup", "-vault_namespace=nowhere"];
    let ran = run(&server, &file, &options).ends_with(2);
    ran.complains(&["there is no namespace `nowhere`", "hint: make it first"]);
    server.ask("PUT", "sys/namespaces/nowhere", &json!({}));
    run(&server, &file, &options).ends_with(0);
    assert_eq!(server.belongings(), before);
}

fn diagnostics_are_reported(_: &Path) {
    // Nothing listens there, and nothing is sent.
    let server = plain(1, TOKEN);
    let file = "duration = \"1s\"\ntest \"kvv9_read\" \"a\" {\n  weight = 50\n}\ntest \"kvv1_read\" \
                \"b\" {\n  weight = 50\n  config {\n    numkv = 5\n  }\n}\n";
    run(&server, file, &[]).ends_with(2).complains(&[
        "error: unknown test type `kvv9_read`\n --> ",
        "test.hcl:2:6",
        "numkv",
        "test.hcl:8:5",
    ]);
    run(&server, &one("kube_auth", ""), &[]).ends_with(2).complains(&["kube_auth", "test.hcl:1:6"]);
    let weight = one("kvv1_read", "").replace("100", "99");
    run(&server, &weight, &[]).ends_with(2).complains(&["99", "100", "test.hcl:"]);
    run(&server, &one("health", ""), &["-worker=1"]).ends_with(2).complains(&["worker"]);
}

fn standbys_are_named(_: &Path) {
    let file = one("seal_status", "");
    let options = ["-duration=500ms", "-rps=40", "-report_mode=json"];
    // Health states that forbid a load, and some that only give a warning.
    let healths: [(Answers, i32, &str); 5] = [
        (|_, path| answer(path, 429, 200), 0, "is a standby (429)"),
        (|_, path| answer(path, 473, 200), 0, "is a performance standby (473)"),
        (|_, path| answer(path, 472, 200), 4, "is a disaster recovery secondary (472)"),
        (|_, path| answer(path, 501, 200), 4, "is not initialised (501)"),
        (|_, path| answer(path, 503, 200), 4, "is sealed (503)"),
    ];
    for (answers, code, what) in healths {
        let fake = Fake::start(answers);
        let ran = run(&plain(fake.port, TOKEN), &file, &options).ends_with(code);
        ran.complains(&[what]);
    }
    // Answers to the load count by status and are no success.
    let loads: [(Answers, &str); 5] = [
        (|_, path| answer(path, 200, 429), "429 Too Many Requests"),
        (|_, path| answer(path, 200, 472), "472 disaster recovery secondary"),
        (|_, path| answer(path, 200, 473), "473 performance standby"),
        (|_, path| answer(path, 200, 503), "503 Service Unavailable"),
        (|_, path| answer(path, 200, 307), "307 Temporary Redirect"),
    ];
    for (answers, name) in loads {
        let fake = Fake::start(answers);
        let (report, ran) = report(&plain(fake.port, TOKEN), &file, &options[..2], 1);
        let metrics = &report["metrics"]["only"];
        let requests = count(metrics, "requests");
        assert!((18..=21).contains(&requests), "{requests} in 0.5 s at 40/s");
        assert_eq!(metrics["success"], 0.0);
        assert_eq!(metrics["error_counts"], json!({ name: requests }), "{metrics}");
        assert!(metrics["latencies"]["50th"].is_number(), "as in vault-benchmark: {metrics}");
        ran.complains(&[&format!("failed: {requests} × {name}")]);
    }
    // A set-up that a standby permanently refuses ends with its name.
    let fake = Fake::start(|_, path| answer(path, 200, 472));
    let ran = run(&plain(fake.port, TOKEN), &one("kvv1_read", "numkvs = 1"), &["-duration=1s"]);
    ran.ends_with(4).complains(&["was answered 472", "hint: give the address of the primary"]);
}
