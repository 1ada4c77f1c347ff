//! Tests real access gateways: NGINX with Tarantool, gates that must not let requests pass, and failures.
//!
//! Not here: Tarantool alone (`bakeoff_systems`), full handshakes per connection (`bakeoff_engine`).

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::case::{Case, Part, cached, case, install, part, with};
use crate::support::certificates::Certificates;
use crate::support::skip::{SkipReason, SkippedTests};
use crate::support::{Bench, CommandOutput, Run, array, audit, decode, figure, folders, text};

const DEBIAN: &[&str] = &["apt-get", "dpkg-deb"];
const GATE: Case = Case {
    needs: DEBIAN,
    parts: &[
        Part { needs: DEBIAN, ..part("rights", "tarantool") },
        Part { needs: DEBIAN, ..part("protected", "nginx") },
    ],
    ..case("access-gateway", "", 1)
};

/// Time of the audit that no request passed unchecked.
const PASSAGES: &str = "during the load";
const REQUEST: &str = "request: {path: /a.gif, expect: {body-size: 43}}";
const BOTH: &str = "rights: {kind: tarantool}, protected: {kind: nginx}";

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    type Test = fn(&Case);
    let tests: [(&str, Test); 11] = [
        ("who_may_passes_and_who_may_not_is_refused", each_gate),
        ("a_greeting_that_is_waited_for_again_fails_every_second_request", greets_again),
        ("a_gate_that_asks_nobody_is_caught", asks_nobody),
        ("a_connector_that_cannot_work_is_named_with_nginx_s_words", cannot_work),
        ("what_fails_in_the_gate_does_not_pass", fails_closed),
        ("nothing_passes_once_tarantool_is_gone", tarantool_is_killed),
        ("a_certificate_that_does_not_match_is_refused", certificates),
        ("a_slow_resource_is_waited_for", slow_resource),
        ("nginx_by_itself_is_a_system", nginx_alone),
        ("a_gate_that_other_tools_load_knows_the_sessions_of_its_workload", for_other_tools),
        ("a_gate_that_cannot_be_is_refused_at_its_place", refused),
    ];
    let mut tests: Vec<Trial> = tests.map(|(name, test)| with(name, GATE, skipped, test)).into();
    tests.push(with(
        "the_upstream_module_passes_who_may_and_auth_request_is_caught",
        GATE,
        skipped,
        upstream_module,
    ));
    tests
}

fn bench(systems: &[&str], workload: &str, load: &str) -> Bench {
    let systems: String = systems.iter().map(|line| format!("  {line}\n")).collect();
    Bench::new(&format!(
        "title: Gates\nsystems:\n{systems}workloads:\n  work: {{{workload}}}\nloads:\n  load: {{{load}}}\n\
         trials: 1\n"
    ))
}

/// Returns a gate with these options: `, options: {…}` or nothing.
fn gate(name: &str, options: &str) -> String {
    format!("{name}: {{kind: access-gateway{options}, parts: {{{BOTH}}}}}")
}

#[track_caller]
fn run(bench: Bench) -> Run {
    let run = bench.run();
    crate::support::nothing_runs_in(run.bench.path());
    run
}

/// Returns the audit's number of passed requests and of granted ones.
#[track_caller]
fn passages(trial: &Value) -> (u64, u64) {
    let audits = array(&trial["audits"]);
    let found = audits.iter().find(|audit| audit["when"] == PASSAGES);
    let found = found.unwrap_or_else(|| panic!("no such audit: {trial}"));
    assert_eq!(found["of"], "passages", "{found}");
    (found["read"].as_u64().unwrap(), found["acknowledged"].as_u64().unwrap())
}

fn verified(trial: &Value, operation: &str) -> f64 {
    trial["measurement"]["operations"][operation]["verified"].as_f64().unwrap_or_default()
}

fn each_gate(_: &Case) {
    const OPERATIONS: f64 = 600.0;
    let master_master = "master-master: {kind: access-gateway, options: {workers: 2}, parts: {rights: \
                         {kind: tarantool, nodes: 2}, protected: {kind: nginx}}}";
    let checked = run(bench(
        &[
            &gate("pooled", ""),
            &gate("alone", ", options: {connector: per-request}"),
            master_master,
        ],
        &format!("mix: {{request: 80%, denied: 20%}}, keys: {{count: 50}}, {REQUEST}"),
        &format!("clients: 6, stop: {{operations: {OPERATIONS}}}"),
    ));
    assert_eq!(checked.trials().len(), 3, "{}", checked.ran.stderr);
    for trial in checked.trials() {
        checked.excuses(trial);
        assert_eq!(
            figure(trial, "requests_verified"),
            OPERATIONS,
            "{} {trial}",
            trial["measurement"]["error_examples"]
        );
        let (granted, denied) = (verified(trial, "request"), verified(trial, "denied"));
        assert!(granted > 400.0 && denied > 60.0, "{granted} {denied}");
        assert_eq!(audit(trial, PASSAGES), "passed", "{trial}");
        // Both witnesses agree exactly with the answers to clients.
        assert_eq!(passages(trial), (granted as u64, granted as u64), "{trial}");
    }
    let system = &checked.record()[0]["systems"][0];
    for setting in array(&system["settings"]) {
        assert!(text(&setting["reason"]).len() > 10, "a setting without a reason: {setting}");
    }
    for name in ["access_log", "ssl_session_cache", "access_by_lua", "lua_socket_*_timeout"] {
        let settings = array(&system["settings"]);
        assert!(settings.iter().any(|one| one["name"] == name), "{name}: {system}");
    }
    let unchecked = run(bench(
        &["unchecked: {kind: access-gateway, options: {connector: none}, parts: {protected: {kind: nginx}}}"],
        &format!("mix: {{request: 1}}, {REQUEST}"),
        "clients: 6, keep-alive: off, tls-resumption: off, stop: {operations: 120}",
    ))
    .ended_well();
    assert_eq!(unchecked.figure("requests_verified"), 120.0);
    assert_eq!(unchecked.audit(PASSAGES), "absent", "without checks nothing is guaranteed");
}

/// Only GitHub has the module's sources, and not every network reaches it.
fn upstream_module(_: &Case) -> Result<(), SkipReason> {
    install("nginx-upstream-module").map_err(SkipReason::Machine)?;
    const PARTS: &str = "rights: {kind: tarantool, nodes: 2, options: {guest-access: on}}, protected: {kind: nginx}";
    let gate = |connector: &str| {
        format!(
            "{connector}: {{kind: access-gateway, options: {{connector: {connector}}}, parts: {{{PARTS}}}}}"
        )
    };
    let run_of = |connector: &str| {
        run(bench(
            &[&gate(connector)],
            &format!("mix: {{request: 80%, denied: 20%}}, keys: {{count: 50}}, {REQUEST}"),
            "clients: 6, stop: {operations: 600}",
        ))
    };
    let right = run_of("upstream");
    assert_eq!(right.figure("requests_verified"), 600.0, "{}", right.trial());
    let granted = verified(right.trial(), "request") as u64;
    assert_eq!(passages(right.trial()), (granted, granted), "{}", right.trial());
    assert_eq!(right.audit(PASSAGES), "passed", "{}", right.trial());

    let wrong = run_of("auth-request");
    let (passed, granted) = passages(wrong.trial());
    assert!(passed == 600 && (400..540).contains(&granted), "{passed} {granted}");
    assert_eq!(wrong.audit(PASSAGES), "failed", "{}", wrong.trial());
    let why = wrong.invalid_because();
    assert!(why.contains("requests passed unchecked"), "{why}");
    Ok(())
}

fn greets_again(_: &Case) {
    let run = run(bench(
        &[&gate("again", ", options: {connector: greets-again, socket-timeout: 200ms}")],
        &format!("mix: {{request: 1}}, keys: {{count: 50}}, {REQUEST}"),
        "clients: 8, warmup: 0s, stop: {after: 3s}",
    ));
    let trial = run.trial();
    let (right, failed) = (run.figure("requests_verified"), run.figure("errors"));
    let share = failed / (right + failed);
    assert!((0.35..0.65).contains(&share), "{failed} of {} failed", right + failed);
    assert!(run.invalid_because().contains("% of operations failed"), "{}", run.invalid_because());
    let record = run.record();
    let figures = &record[1]["stages"][0]["measurement"]["operations"]["request"];
    // In nanoseconds: nothing fails before the timeout, and successes are done long before.
    let failures = decode(&figures["failed"]);
    assert_eq!(failures.len() as f64, failed);
    let lasted = |at: f64| failures.value_at_quantile(at) / 1_000_000;
    assert!(
        (195..260).contains(&lasted(0.05)) && lasted(0.5) < 300,
        "{} {}",
        lasted(0.05),
        lasted(0.5)
    );
    let fine = decode(&figures["response"]).value_at_quantile(0.5) / 1_000_000;
    assert!(fine < 100, "{fine} ms");
    assert_eq!(audit(trial, PASSAGES), "passed", "{trial}");
    let log = std::fs::read_to_string(logs(&run.bench).join("again-1.log")).unwrap();
    let lines = log.lines().filter(|line| line.contains("lua tcp socket read timed out"));
    assert!(lines.count() as f64 >= failed * 0.9, "{log}");
}

/// Creates a folder with the test's own connectors.
fn connectors(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn own(dir: &Path, module: &str) -> String {
    let path = dir.display();
    gate("own", &format!(", options: {{connector: {{path: \"{path}\", module: {module}}}}}"))
}

fn asks_nobody(_: &Case) {
    // One never queries rights; the other reuses one answer for all clients.
    let dir = connectors(&[
        ("yes.lua", "return { check = function() return true end }"),
        (
            "remembers.lua",
            "local pooled = require 'bakeoff.pooled'\nlocal heard = 0\n\
             return { check = function(session, resource, server)\n\
               if session:sub(1, 7) ~= 'session' then return false end\n\
               heard = heard + 1\n\
               if heard > 100 then return true end\n\
               return pooled.check(session, resource, server)\n\
             end }",
        ),
    ]);
    for (module, granted) in [("yes", 0), ("remembers", 100)] {
        let run = run(bench(
            &[&own(dir.path(), module)],
            &format!("mix: {{request: 1}}, keys: {{count: 50}}, {REQUEST}"),
            "clients: 4, stop: {operations: 300}",
        ));
        // Clients do not notice: all requests succeed.
        assert_eq!(run.figure("requests_verified"), 300.0);
        assert_eq!(run.audit(PASSAGES), "failed", "{module}: {}", run.trial());
        assert_eq!(passages(run.trial()), (300, granted));
        let why = run.invalid_because();
        let unchecked = format!(
            "{} requests passed unchecked: 300 in all, with {granted} granted",
            300 - granted
        );
        assert!(why.contains(&unchecked), "{why}");
    }
    let denied = run(bench(
        &[&own(dir.path(), "yes")],
        &format!("mix: {{request: 1, denied: 1}}, keys: {{count: 50}}, {REQUEST}"),
        "clients: 2, stop: {operations: 40}",
    ));
    assert!(
        denied.invalid_because().contains("it passed without permission"),
        "{}",
        denied.trial()
    );
}

fn cannot_work(_: &Case) {
    let dir = connectors(&[
        ("broken.lua", "local absent = require 'not_there'\nreturn {}"),
        ("nothing.lua", "return 'nothing'"),
        ("syntax.lua", "return {"),
        ("raises.lua", "return { check = function() error('a fault at once') end }"),
    ]);
    for (module, words) in [
        ("absent.module", "module 'absent.module' not found"),
        ("broken", "module 'not_there' not found"),
        ("nothing", "module `nothing` has no known calling convention"),
        ("syntax", "unexpected symbol near '<eof>'"),
        ("raises", "a fault at once"),
    ] {
        let bench = bench(
            &[&own(dir.path(), module)],
            &format!("mix: {{request: 1}}, {REQUEST}"),
            "clients: 1, stop: {operations: 1}",
        );
        let ran = CommandOutput::run(&mut bench.command());
        let named = ["system `own` cannot be loaded", "the connector", "own-1", words, "hint: "];
        ran.ends_with(4).complains(&named);
        let log = std::fs::read_to_string(logs(&bench).join("own-1.log")).unwrap();
        assert!(log.contains("[error]") && log.contains(words), "{log}");
    }
}

fn fails_closed(_: &Case) {
    let dir = connectors(&[
        (
            "raises.lua",
            "return { check = function(session)\n\
               if session == 'nobody' then return false end\n\
               error('a fault of the test')\n\
             end }",
        ),
        (
            "says_nothing.lua",
            "return { check = function(session)\n\
               if session == 'nobody' then return false end\n\
               return nil, 'nothing to say'\n\
             end }",
        ),
        ("says_much.lua", "return { check = function() return 1 end }"),
    ]);
    for (module, status, words) in [
        ("raises", "500", "a fault of the test"),
        ("says_nothing", "503", "nothing to say"),
        ("says_much", "503", "nobody said whether it may pass"),
    ] {
        let run = run(bench(
            &[&own(dir.path(), module)],
            &format!("mix: {{request: 1}}, keys: {{count: 50}}, {REQUEST}"),
            "clients: 2, stop: {operations: 60}",
        ));
        assert_eq!(run.figure("errors"), 60.0, "{module}: {}", run.trial());
        assert!(run.invalid_because().contains(&format!("status: {status}")), "{}", run.trial());
        assert_eq!(run.audit(PASSAGES), "passed");
        assert_eq!(passages(run.trial()), (0, 0), "{module}");
        let log = std::fs::read_to_string(logs(&run.bench).join("own-1.log")).unwrap();
        assert!(log.contains(words), "{log}");
    }
}

/// Returns the folder of the only trial.
fn trial_of(bench: &Bench) -> PathBuf {
    let runs = bench.runs();
    let trials = runs.first().map(|run| folders(&run.join("trials"))).unwrap_or_default();
    trials.into_iter().next().unwrap_or_default()
}

fn logs(bench: &Bench) -> PathBuf {
    trial_of(bench).join("logs")
}

/// A run in progress.
struct GatewayRun {
    bench: Bench,
    bakeoff: Child,
}

impl GatewayRun {
    /// Starts a study and waits until its gate has served requests.
    fn start(bench: Bench) -> Self {
        let stdout = std::fs::File::create(bench.path().join("stdout")).unwrap();
        let stderr = std::fs::File::create(bench.path().join("stderr")).unwrap();
        let mut command = bench.command();
        let bakeoff = command.arg("--json").stdout(stdout).stderr(stderr).spawn().unwrap();
        let mut going = Self { bench, bakeoff };
        crate::support::wait_for("a load", Duration::from_secs(60), || {
            let ended = going.bakeoff.try_wait().unwrap();
            assert!(ended.is_none(), "it ended early: {}", going.output());
            going.served().is_some_and(|served| served > 200)
        });
        going
    }

    fn output(&self) -> String {
        std::fs::read_to_string(self.bench.path().join("stderr")).unwrap_or_default()
    }

    fn node(&self, name: &str) -> PathBuf {
        trial_of(&self.bench).join("nodes").join(name)
    }

    /// Returns the number of requests that the gate has answered, once it reports one.
    fn served(&self) -> Option<u64> {
        let config = std::fs::read_to_string(self.node("own-1").join("nginx.conf")).ok()?;
        let mut listens = config.lines().filter_map(|line| line.trim().strip_prefix("listen "));
        let status = listens.next_back()?.trim_end_matches(';').to_owned();
        let mut stream = TcpStream::connect(status).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
        stream.write_all(b"GET /status HTTP/1.0\r\n\r\n").ok()?;
        let mut output = String::new();
        stream.read_to_string(&mut output).ok()?;
        let numbers =
            output.lines().skip_while(|line| !line.starts_with("server accepts")).nth(1)?;
        numbers.split_whitespace().nth(2)?.parse().ok()
    }

    fn processes(&self, node: &str) -> Vec<Pid> {
        let all = crate::support::processes_of(&self.node(node));
        let pids = all.iter().filter_map(|one| one.split(':').next()?.parse().ok());
        pids.filter_map(Pid::from_raw).collect()
    }

    fn signal(&self, node: &str, signal: Signal) {
        let processes = self.processes(node);
        assert!(!processes.is_empty(), "nothing runs of {node}");
        for pid in processes {
            kill_process(pid, signal).ok();
        }
    }

    /// Waits for the end.
    fn done(mut self) -> Run {
        let status = self.bakeoff.wait().unwrap();
        let stdout = std::fs::read_to_string(self.bench.path().join("stdout")).unwrap();
        let stderr = self.output();
        let report = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}\n{stderr}"));
        crate::support::nothing_runs_in(&self.bench.out());
        let runs = self.bench.runs();
        let ran = CommandOutput { code: status.code(), stdout, stderr, runs };
        Run { report, ran, bench: self.bench }
    }
}

fn tarantool_is_killed(_: &Case) {
    let going = GatewayRun::start(bench(
        &[&gate("own", "")],
        &format!("mix: {{request: 1}}, keys: {{count: 50}}, {REQUEST}"),
        "clients: 8, warmup: 0s, stop: {after: 4s}",
    ));
    going.signal("own-rights-1", Signal::KILL);
    let run = going.done();
    let trial = run.trial();
    assert!(run.figure("errors") > 100.0, "{trial}");
    let why = run.invalid_because();
    assert!(why.contains("own-rights-1") && why.contains("SIGKILL"), "{why}");
    // The number of granted requests is known, and no more passed.
    assert_eq!(audit(trial, PASSAGES), "passed", "{trial}");
    let (passed, granted) = passages(trial);
    assert!(passed as f64 >= run.figure("requests_verified") && granted - passed <= 8, "{trial}");
}

fn slow_resource(_: &Case) {
    let going = GatewayRun::start(bench(
        &[&gate("own", "")],
        &format!("mix: {{request: 1}}, keys: {{count: 50}}, {REQUEST}"),
        "clients: 8, warmup: 0s, stop: {after: 3s}, timeout: 5s",
    ));
    going.signal("own-protected-1", Signal::STOP);
    std::thread::sleep(Duration::from_millis(800));
    going.signal("own-protected-1", Signal::CONT);
    let run = going.done();
    assert_eq!(run.figure("errors"), 0.0, "{}", run.trial());
    assert_eq!(run.audit(PASSAGES), "passed");
    let slowest =
        decode(&run.record()[1]["stages"][0]["measurement"]["operations"]["request"]["response"]);
    assert!(slowest.max() > 700_000_000, "{} ns", slowest.max());
}

/// An NGINX started by the test.
struct OwnNginx {
    child: Child,
    dir: tempfile::TempDir,
    port: u16,
}

impl Drop for OwnNginx {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        crate::support::nothing_runs_in(self.dir.path());
    }
}

fn nginx(certificates: &Certificates) -> OwnNginx {
    let dir = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (cert, key) = (certificates.path("server.pem"), certificates.path("server.key"));
    let (cert, key) = (cert.display(), key.display());
    // As a single process, so that its end ends all.
    let config = format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\nevents {{}}\nhttp {{\n\
         access_log off;\nclient_body_temp_path a;\nproxy_temp_path b;\nfastcgi_temp_path c;\n\
         uwsgi_temp_path d;\nscgi_temp_path e;\nserver {{\nlisten 127.0.0.1:{port} ssl;\n\
         ssl_certificate {cert};\nssl_certificate_key {key};\nlocation / {{ empty_gif; }}\n}}\n}}\n"
    );
    std::fs::write(dir.path().join("nginx.conf"), config).unwrap();
    let mut command = Command::new(cached("nginx"));
    command.args(["-p", "./", "-c", "nginx.conf"]).current_dir(dir.path());
    let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let own = OwnNginx { child, dir, port };
    crate::support::wait_for("NGINX", Duration::from_secs(10), || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    own
}

fn certificates(_: &Case) {
    let certificates = Certificates::new();
    let own = nginx(&certificates);
    let study = |ca: &str| {
        let (port, ca) = (own.port, certificates.path(ca));
        let system = format!(
            "gate: {{kind: access-gateway, endpoints: [\"https://127.0.0.1:{port}\"], tls: {{ca: \"{}\"}}}}",
            ca.display()
        );
        bench(
            &[&system],
            &format!("mix: {{request: 1}}, {REQUEST}"),
            "clients: 2, stop: {operations: 50}",
        )
    };
    let good = study("ca.pem").run().ended_well();
    assert_eq!(good.figure("requests_verified"), 50.0);
    let refused = CommandOutput::run(&mut study("other.pem").command());
    refused.ends_with(4).complains(&["certificate", "127.0.0.1", "hint: "]);
}

fn nginx_alone(_: &Case) {
    for (options, size, settings) in [
        ("", 43, ""),
        (", options: {body-size: 64KiB, tls: on, workers: 2}", 65_536, "ssl_session_cache"),
    ] {
        let run = run(bench(
            &[&format!("web: {{kind: nginx{options}}}")],
            &format!("mix: {{request: 1}}, keys: {{count: 100}}, request: {{path: \"/{{key}}\", expect: {{body-size: {size}}}}}"),
            "clients: 4, stop: {operations: 200}",
        ))
        .ended_well();
        assert_eq!(run.figure("requests_verified"), 200.0, "{}", run.trial());
        let record = run.record();
        let system = &record[0]["systems"][0];
        assert!(text(&system["version"]).starts_with("1."), "{system}");
        let all = array(&system["settings"]);
        assert!(settings.is_empty() || all.iter().any(|one| one["name"] == settings), "{system}");
    }
}

fn for_other_tools(_: &Case) {
    let mix = format!("mix: {{request: 1}}, keys: {{count: 5}}, {REQUEST}");
    let bench = bench(&[&gate("pooled", "")], &mix, "clients: 1, stop: {operations: 1}");
    let mut command = crate::support::bakeoff();
    command.arg("start").arg(bench.path().join("study.yaml")).args(["--json", "--for", "30s"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let json: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(text(&json["workload"]), "work");
    let url = format!("{}/a.gif", text(&json["clients"][0]["url"]));
    for (session, status) in [("session-4", "200"), ("session-5", "403")] {
        let cookie = format!("Cookie: session={session}");
        let args = ["load", &url, "-n", "20", "-c", "2", "-H", &cookie, "--json", "--ca"];
        let ran =
            CommandOutput::run(crate::support::bakeoff().args(args).arg(text(&json["ca_file"])));
        let result: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(result["statuses"][status], 20, "{session}: {}", ran.stderr);
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    crate::support::nothing_runs_in(bench.path());
}

fn refused(_: &Case) {
    let refused = |systems: &str, mix: &str, named: &[&str]| {
        let bench = bench(
            &[systems],
            &format!("mix: {{{mix}}}, {REQUEST}"),
            "clients: 1, stop: {operations: 1}",
        );
        CommandOutput::run(&mut bench.command()).ends_with(2).complains(named);
    };
    let open = "own: {kind: access-gateway, options: {connector: none}, parts: {protected: {kind: nginx}}}";
    refused(
        open,
        "denied: 1",
        &["cannot `denied`", "lets every request pass", "`systems`", "study.yaml:5"],
    );
    let alone = "own: {kind: access-gateway, parts: {protected: {kind: nginx}}}";
    refused(alone, "request: 1", &["it has no `rights` to ask", "rights: {kind: tarantool}"]);
    let nothing = "own: {kind: access-gateway, parts: {rights: {kind: tarantool}}}";
    refused(nothing, "request: 1", &["it protects nothing"]);
    let half = gate("own", ", options: {connector: {path: ./x}}");
    refused(&half, "request: 1", &["needs both a path and a module"]);
    let which = gate("own", ", options: {connector: own}");
    refused(&which, "request: 1", &["needs a path and a module"]);
    let login = gate("own", ", options: {connector: upstream}");
    refused(&login, "request: 1", &["does not log in", "guest-access: on"]);
    let unused = gate("own", ", options: {upstream-module: ./x.so}");
    refused(&unused, "request: 1", &["does not use nginx_upstream_module"]);
    refused(
        &gate("own", ", options: {workers: 0}"),
        "request: 1",
        &["`workers` must be 1 to 1024"],
    );
}
