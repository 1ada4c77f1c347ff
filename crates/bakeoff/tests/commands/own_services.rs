//! Tests the user's own services as systems: commands that bakeoff starts, and endpoints.
//!
//! The commands are bakeoff's own servers and shells, which every machine has.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::certificates::Certificates;
use crate::support::http2::Http2;
use crate::support::{Bench, CommandOutput, Run, array, figure, path_to_ours, reasons, text};

fn command(bench: &Bench) -> Command {
    let mut command = bench.command();
    command.env("PATH", path_to_ours());
    command
}

fn run(study: &str) -> Run {
    let bench = Bench::new(study);
    let ran = CommandOutput::run(command(&bench).arg("--json"));
    let report = serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|error| panic!("{error}\n{}\n{}", ran.stdout, ran.stderr));
    crate::support::nothing_runs_in(bench.path());
    Run { report, ran, bench }
}

/// Returns a study of one system with these fields, loaded at `/health`.
fn study(system: &str) -> String {
    format!(
        "title: t\nsystems:\n  web: {{{system}}}\nworkloads:\n  pages: {{mix: {{request: 1}}, \
         request: {{path: /health}}}}\nloads:\n  few: {{clients: 2, stop: {{operations: 200}}}}\ntrials: 1\n"
    )
}

/// Returns a system with bakeoff's own server as its command, with further arguments and fields.
fn canary(arguments: &str, fields: &str) -> String {
    study(&format!(
        "kind: process, process: {{command: [bakeoff, __canary, --listen, \"127.0.0.1:{{port}}\", \
         --data, \"{{dir}}/data\"{arguments}]{fields}}}"
    ))
}

/// Asserts that a study is rejected before its load.
#[track_caller]
fn refused(study: &str, code: i32, output: &[&str]) -> Bench {
    let bench = Bench::new(study);
    let ran = CommandOutput::run(&mut command(&bench)).ends_with(code);
    ran.complains(output);
    crate::support::nothing_runs_in(bench.path());
    bench
}

/// Asserts that a study starts and its only trial fails.
#[track_caller]
fn fails(study: &str, output: &[&str]) {
    let run = run(study);
    let why = run.invalid_because();
    assert!(!why.is_empty(), "{}", run.ran.stdout);
    run.ran.complains(output);
}

#[test]
fn documented_study_runs_with_documented_findings() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/own-services.md");
    let document = std::fs::read_to_string(document).unwrap();
    let (_, rest) = document.split_once("```yaml\n").unwrap();
    let (study, _) = rest.split_once("```").unwrap();
    let run = run(study).ended_well();
    let comparison = &run.report["comparisons"][0];
    let sentence = text(&comparison["sentence"]);
    // A busy machine may leave too few trials for a claim.
    let all_valid = run.trials().into_iter().all(|trial| reasons(trial).is_empty());
    let claim = " times old's operations per second under pages/busy";
    match all_valid {
        true => {
            assert!(sentence.contains(claim) && sentence.contains("new sustained "), "{sentence}")
        }
        false => assert!(!sentence.contains(claim), "{sentence}"),
    }
    for trial in run.trials() {
        assert_eq!(figure(trial, "errors"), 0.0, "{trial}");
    }
    let header = &run.record()[0];
    for system in array(&header["systems"]) {
        assert_eq!(text(&system["sha256"]).len(), 64, "{system}");
        assert!(text(&system["source"]).starts_with("found on PATH: /"), "{system}");
        assert_eq!(system["version"], Value::Null, "no version is queried");
        assert_eq!(text(&system["parts"][0]["role"]), "backend");
    }
    // Both the gateway and its backend are sampled.
    let usage = &run.record()[2]["usage"];
    let names: Vec<&str> = array(usage).iter().map(|one| text(&one["name"])).collect();
    assert!(names.iter().any(|name| name.contains("backend")), "{names:?}");
}

#[test]
fn words_in_braces_reach_arguments_environment_and_files() {
    let study = study(
        r#"kind: process, nodes: 2, process: {command: [sh, -c, "env > seen; cp conf/a.conf was; exec bakeoff __canary --listen $LISTEN --data $DATA"], environment: {LISTEN: "127.0.0.1:{port}", DATA: "{dir}/data", WHO: "{node} at {here}, {{port}}", OF_OURS: $OF_A_TEST}, files: {conf/a.conf: "server { listen {port}; admin {port:admin}; ${port} {{ x }} }"}, ready: /health}"#,
    );
    let bench = Bench::new(&study);
    // Data is deleted after a trial, so the test reads the second start's files during the run.
    let mut command = command(&bench);
    command.env("OF_A_TEST", "a secret value");
    let null = std::process::Stdio::null;
    let mut child = command.stdout(null()).stderr(null()).spawn().unwrap();
    let (mut seen, mut conf) = (Vec::new(), Vec::new());
    crate::support::wait_for("both nodes' files", Duration::from_secs(20), || {
        seen = files_named(bench.path(), "seen", "OF_OURS");
        conf = files_named(bench.path(), "was", "}");
        seen.len() + conf.len() == 4 || child.try_wait().unwrap().is_some()
    });
    child.wait().unwrap();
    assert_eq!(seen.len(), 2, "{seen:?}");
    let here = std::env::current_dir().unwrap();
    let who: Vec<&str> = seen.iter().flat_map(|text| text.lines()).collect();
    for node in ["web-1", "web-2"] {
        let expected = format!("WHO={node} at {}, {{port}}", here.display());
        assert!(who.contains(&&*expected), "{who:?}");
    }
    assert!(who.contains(&"OF_OURS=a secret value"), "{who:?}");
    let conf = conf.first().expect("a file was written");
    let words: Vec<&str> = conf.split([' ', ';']).collect();
    let port = |place: usize| words[place].parse::<u16>().unwrap();
    assert_ne!(port(3), port(6), "{conf}");
    assert!(conf.ends_with("; ${port} {{ x }} }"), "{conf}");
    let record = std::fs::read_to_string(bench.runs()[0].join("record.jsonl")).unwrap();
    assert!(!record.contains("a secret value") && record.contains("$OF_A_TEST"));
}

/// Returns the texts of files with this name below a folder, if they contain `holding`.
fn files_named(dir: &Path, name: &str, holding: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_named(&path, name, holding));
        } else if path.file_name().is_some_and(|file| file == name) {
            found.extend(std::fs::read_to_string(&path).ok().filter(|text| text.contains(holding)));
        }
    }
    found
}

#[test]
fn program_and_version_are_checked_before_starting_anything() {
    let command = |word: &str, more: &str| {
        study(&format!("kind: process, process: {{command: [{word}, \"{{port}}\"]}}{more}"))
    };
    let absent = command("no-such-program-anywhere", "");
    let output = ["the command of web begins with `no-such-program-anywhere`", "is not on `PATH`"];
    let bench = refused(&absent, 3, &output);
    assert_eq!(bench.runs().iter().filter(|run| run.join("trials").exists()).count(), 0);
    refused(&command("./not/here", ""), 3, &["`./not/here`, which does not exist", "hint: a path"]);
    let ours = env!("CARGO_PKG_VERSION");
    refused(
        &command("bakeoff", ", version: \"99.1\""),
        3,
        &[&format!("reports version `{ours}`, but `99.1` was requested")],
    );
    let versioned =
        canary("", ", ready: /health").replace("kind:", &format!("version: {ours}, kind:"));
    let run = run(&versioned).ended_well();
    assert_eq!(run.record()[0]["systems"][0]["version"], ours);
}

#[test]
fn rejects_unsound_study_with_its_line() {
    let check = |system: &str, output: &[&str]| {
        refused(&study(system), 2, &[&["study.yaml:3:"], output].concat());
    };
    let begin = study("").lines().nth(2).unwrap().find('{').unwrap() + 2;
    let marked = |system: &str, word: &str, output: &[&str]| {
        let column = begin + system.find(word).unwrap();
        let carets = "^".repeat(word.len());
        let place = format!("study.yaml:3:{column}\n");
        refused(&study(system), 2, &[&[&*place, &carets], output].concat());
    };
    marked(
        r#"kind: process, process: {command: [sh, -c, "{port} {prt}"]}"#,
        "{prt}",
        &["unknown word `{prt}`", "did you mean `{port}`?"],
    );
    marked(
        r#"kind: process, process: {command: [sh, "{port}"], environment: {AT: "{adress}"}}"#,
        "{adress}",
        &["`AT`: unknown word `{adress}`", "did you mean `{address}`?"],
    );
    check(
        "kind: process, process: {command: [sh, -c, x]}",
        &["no text holds `{port}`", "use kind `http`"],
    );
    marked(
        r#"kind: process, process: {command: [sh, "{port}"], files: {a: "x {backend}"}}"#,
        "{backend}",
        &["file `a`: `{backend}` refers to a part that it does not have"],
    );
    check(
        r#"kind: process, process: {command: ["{here}/x", "{port}"]}"#,
        &["does not start with a program"],
    );
    check(
        r#"kind: process, program: ./x, process: {command: [x, "{port}"]}"#,
        &["it has a `program`, but its command already starts with one"],
    );
    check(
        r#"kind: process, endpoints: ["http://127.0.0.1:80"]"#,
        &["a service that already runs has no command", "write `kind: http`"],
    );
    check("kind: http", &["it has no `endpoints`", "`process`"]);
    refused(
        &canary("", ", environment: {A: $NOT_SET_ANYWHERE}"),
        2,
        &["study.yaml:3:", "`$NOT_SET_ANYWHERE` is not set in bakeoff's environment"],
    );
}

#[test]
fn ended_command_is_named_with_the_end_of_its_log() {
    let ends = r#"kind: process, process: {command: [sh, -c, "echo no such license >&2; exit 3", "{port}"]}"#;
    fails(&study(ends), &["`web-1` ended with exit code 3", "| no such license", ".log"]);
}

#[test]
fn system_that_cannot_start_is_skipped_after_two_trials() {
    let ends = r#"kind: process, process: {command: [sh, -c, "echo no such license >&2; exit 3", "{port}"]}"#;
    let lame = study(ends).lines().nth(2).unwrap().replace("  web:", "  lame:");
    let two = canary("", "").replace("systems:\n", &format!("systems:\n{lame}\n"));
    let two = two.replace("trials: 1", "trials: 4");
    let bench = Bench::new(&two);
    let ran = CommandOutput::run(&mut command(&bench)).ends_with(4);
    let skipped =
        "`lame` failed to start twice with the same error; skipping its other trials (2): ";
    let ran = ran.complains(&[skipped, "| no such license"]);
    assert_eq!(ran.stderr.matches("| no such license").count(), 2, "{}", ran.stderr);
    let record = crate::support::record(&bench.has_trials(8));
    let of = |system: &str| -> Vec<Value> {
        let trials = record.iter().filter(|line| line["trial"]["system"] == system);
        trials.map(|trial| trial["outcome"].clone()).collect()
    };
    assert!(of("web").iter().all(|outcome| outcome["ended"] == "completed"), "{record:?}");
    let lame = of("lame");
    assert!(lame.iter().all(|outcome| outcome["ended"] == "failed"), "{lame:?}");
    let not_tried = lame[2]["why"].as_str().unwrap();
    assert!(not_tried.starts_with("not tried: it failed to start twice: "), "{not_tried}");
    let counted = "lame has no valid trial (2 trials run, 2 skipped: ";
    let sentence = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(sentence.contains(counted), "{}", ran.stdout);
}

#[test]
fn daemonising_command_is_ended_with_a_hint() {
    let study = canary("", "").replace("command: [bakeoff,", "command: [setsid, -f, bakeoff,");
    let output =
        ["`web-1` ended with exit code 0", "and left these running: ", "in the foreground"];
    fails(&study, &output);
}

#[test]
fn taken_port_restarts_the_command_on_another() {
    // It reports its port as taken once, as if another process were faster.
    let dir = tempfile::tempdir().unwrap();
    let tried = dir.path().join("tried");
    let tried = tried.display();
    let script = format!(
        "if [ ! -e {tried} ]; then touch {tried}; echo listen: address already in use >&2; exit 1; fi; \
         exec bakeoff __canary --listen 127.0.0.1:{{port}} --data {{dir}}/data"
    );
    let study = study(&format!("kind: process, process: {{command: [sh, -c, \"{script}\"]}}"));
    let run = run(&study).ended_well();
    run.ran.complains(&["another process took a port; starting again on other ports"]);
    // With a port chosen by the user, there is no other attempt.
    std::fs::remove_file(dir.path().join("tried")).unwrap();
    let bench = Bench::new(&study);
    let ran = CommandOutput::run(command(&bench).args(["--base-port", "23500"]));
    ran.ends_with(4).complains(&["hint: another process may hold a port; try `--base-port`"]);
}

#[test]
fn program_changed_during_a_run_fails_later_trials() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("server");
    // It changes when it starts, as if rebuilt.
    let text = "#!/bin/sh\necho '# another build' >> \"$0\"\nexec bakeoff __canary --listen $1 --data $2\n";
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let study = study(&format!(
        "kind: process, process: {{command: [\"{}\", \"127.0.0.1:{{port}}\", \"{{dir}}/data\"]}}",
        script.display()
    ));
    let run = run(&study.replace("trials: 1", "trials: 2"));
    let valid: Vec<bool> = run.trials().iter().map(|trial| trial["valid"] == true).collect();
    assert!(!valid[1], "{valid:?}");
    let wording =
        ["`web` is not the one that this run began with", "was changed or replaced since"];
    run.ran.complains(&wording);
}

#[test]
fn reports_a_command_on_another_port() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let began = Instant::now();
    let listens = format!(
        "kind: process, process: {{command: [bakeoff, __canary, --listen, \"127.0.0.1:{free}\", \
         --data, \"{{dir}}/{{port}}\"]}}"
    );
    let output = format!("`web-1` listens on 127.0.0.1:{free} instead of 127.0.0.1:");
    let log = format!("| canary: listening on 127.0.0.1:{free}");
    fails(&study(&listens), &[&output, &log, "hint: make it listen at the study's address"]);
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
}

#[test]
fn failing_ready_path_is_not_ready() {
    let slow = canary(", --slow-start, 1500ms", ", ready: /health");
    let run = run(&slow).ended_well();
    // It starts a moment before the wait.
    assert!(run.figure("ready_after_seconds") >= 1.0, "{}", run.figure("ready_after_seconds"));
    let by_port = self::run(&slow.replace(", ready: /health", "")).figure("ready_after_seconds");
    assert!(by_port < 1.0, "{by_port}");
}

#[test]
fn endpoint_over_tls_is_verified_and_loaded() {
    let certificates = Certificates::new();
    let address = certificates.server();
    let trusting = |ca: &str| {
        let ca = certificates.path(ca);
        study(&format!(
            "kind: http, endpoints: [\"https://{address}\"], tls: {{ca: \"{}\"}}",
            ca.display()
        ))
    };
    let run = run(&trusting("ca.pem")).ended_well();
    assert_eq!(run.figure("requests_verified"), 200.0);
    assert_eq!(run.record()[0]["systems"][0]["tls_version"], "TLS 1.3");

    let began = Instant::now();
    let endpoint = address.to_string();
    let output = [
        "system `web` cannot be loaded",
        &endpoint,
        "no trusted authority signed its certificate",
        "`ca`",
    ];
    refused(&trusting("other.pem"), 4, &output);
    refused(&trusting("absent.pem"), 2, &["absent.pem` cannot be read: No such file"]);
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());

    // Plain HTTP to a TLS port fails, and TLS to a plain port.
    let plain = study(&format!("kind: http, endpoints: [\"http://{address}\"]"));
    let run = self::run(&plain);
    assert_eq!(run.figure("requests_verified"), 0.0);
    assert!(run.invalid_because().contains("no operation succeeded"), "{}", run.ran.stdout);
}

#[test]
fn endpoint_without_a_ca_uses_the_machines_trust_store() {
    let certificates = Certificates::new();
    let address = certificates.server();
    let study = study(&format!("kind: http, endpoints: [\"https://{address}\"]"));
    let trusting = |ca: &str| {
        let bench = Bench::new(&study);
        let ran = CommandOutput::run(command(&bench).env("SSL_CERT_FILE", certificates.path(ca)));
        (bench, ran)
    };
    let (bench, ran) = trusting("ca.pem");
    ran.ends_with(0);
    let record = crate::support::record(&bench.has_trials(1));
    assert_eq!(record[0]["systems"][0]["tls_version"], "TLS 1.3");
    let (_, ran) = trusting("other.pem");
    let output = [
        "system `web` cannot be loaded",
        "no trusted authority signed its certificate",
        "hint: set the authority that signed it as `ca` in the study's `tls`",
    ];
    ran.ends_with(4).complains(&output);
}

#[test]
fn unreachable_endpoint_is_named() {
    let down = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // Each waits ten seconds for the endpoint.
    thread::scope(|scope| {
        for (scheme, tls) in [("http", ""), ("https", ", tls: {insecure: true}")] {
            let study = study(&format!("kind: http, endpoints: [\"{scheme}://{down}\"]{tls}"));
            scope.spawn(move || {
                refused(&study, 4, &[&down.to_string(), "Connection refused", "within 10s"]);
            });
        }
    });
}

#[test]
fn unexpected_answer_is_a_failure() {
    let wrong = canary("", ", ready: /health").replace(
        "request: {path: /health}",
        "request: {path: /health, expect: {contains: not there}}",
    );
    let run = run(&wrong);
    let why = run.invalid_because();
    assert!(why.contains("with a body without `not there`"), "{why}");
    let expecting = |expect: &str| {
        let study = canary("", ", ready: /health");
        self::run(
            &study.replace("{path: /health}", &format!("{{path: /health, expect: {expect}}}")),
        )
    };
    let other = expecting("{headers: {Content-Length: \"1\"}}").invalid_because();
    assert!(other.contains("200 with the header `Content-Length: 0` instead of `1`"), "{other}");
    let none = expecting("{headers: {X-None: \"1\"}}").invalid_because();
    assert!(none.contains("200 without the header `X-None: 1`"), "{none}");
    let run = expecting("{status: [201-204, \"404\"]}");
    assert_eq!(run.figure("requests_verified"), 0.0);
    let operation = &run.record()[1]["stages"][0]["measurement"]["operations"]["request"];
    assert_eq!(operation["errors"]["status"]["count"], 200, "{operation}");
    let run = expecting("{status: [204, 2xx], headers: {content-LENGTH: 0}}").ended_well();
    assert_eq!(run.figure("requests_verified"), 200.0);
}

#[test]
fn study_requests_use_http2_if_configured() {
    // The server answers once four requests are in flight on a connection, which HTTP/1.1 never reaches. At the end,
    // two clients may be left with two each.
    let server = Http2::answering_together(4);
    let study = format!(
        "title: t\nsystems:\n  web: {{kind: http, endpoints: [\"http://{}\"]}}\nworkloads:\n  pages: \
         {{mix: {{request: 1}}, keys: {{count: 9}}, request: {{method: POST, path: \"/a/{{key}}\", \
         http2: true, headers: {{x-one: one}}, body: text, expect: {{headers: {{Content-Type: text/plain}}, body-size: 5, contains: ell}}}}}}\n\
         loads:\n  few: {{clients: 1, in-flight: 4, stop: {{operations: 200}}, timeout: 2s}}\ntrials: 1\n",
        server.address
    );
    let run = run(&study).ended_well();
    assert_eq!(figure(run.trial(), "errors"), 0.0, "{}", run.trial());
    assert_eq!((server.connections(), server.requests()), (1, 200));
    let run = self::run(&study.replace("text/plain", "text/html"));
    let why = run.invalid_because();
    assert!(
        why.contains("200 with the header `Content-Type: text/plain` instead of `text/html`"),
        "{why}"
    );
}

#[test]
fn reports_a_service_without_http2_over_tls() {
    let certificates = Certificates::new();
    let (address, ca) = (certificates.server(), certificates.path("ca.pem"));
    let study = format!(
        "title: t\nsystems:\n  web: {{kind: http, endpoints: [\"https://{address}\"], tls: {{ca: {}}}}}\n\
         workloads:\n  pages: {{mix: {{request: 1}}, request: {{http2: true}}}}\nloads:\n  few: \
         {{clients: 2, stop: {{operations: 20}}}}\ntrials: 1\n",
        ca.display()
    );
    fails(&study, &["does not offer HTTP/2 over TLS"]);
}
