//! Tests commands on the machines of a places file over SSH: `doctor --on`, `load --on`, `dbtester control --on`.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::support::certificates::Certificates;
use crate::support::hosts::{COORDINATOR, CanaryNextTo, Hosts};
use crate::support::skip::{SkipReason, SkippedTests};
use crate::support::wait_for;

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    vec![
        skipped.unless_lacking(
            "machines_commands::doctor_tells_of_each_machine_with_others_down",
            doctor_with_one_down,
        ),
        skipped.unless_lacking(
            "machines_commands::programs_are_sent_ahead_and_removed",
            prepared_and_cleared,
        ),
        skipped.unless_lacking("machines_commands::two_generators_share_a_load", shared_load),
        skipped.unless_lacking("machines_commands::dbtester_runs_on_its_peers", dbtester_on_peers),
    ]
}

fn bakeoff(hosts: &Hosts, words: &[&str], on: &Path) -> Output {
    let mut command = hosts.command(env!("CARGO_BIN_EXE_bakeoff"));
    command.args(words).arg("--on").arg(on).current_dir(hosts.dir()).output().unwrap()
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

/// Returns the section of a machine in `doctor`'s output.
fn part<'a>(output: &'a str, machine: &str) -> &'a str {
    let begin = output.find(&format!("{machine}\n")).unwrap_or_else(|| panic!("{output}"));
    let part = &output[begin..];
    part.split("\n\n").next().unwrap_or(part)
}

fn doctor_with_one_down() -> Result<(), SkipReason> {
    let mut hosts = Hosts::new(3)?;
    let places = hosts.places(&[1, 2], &[3]);
    let study = "title: one command\nsystems: {own: {kind: process, process: {command: [sleep, '{port}']}, limits: {cpu: 1}}}\n\
                 workloads: {all: {mix: {request: 1}, request: {path: /}}}\n\
                 loads: {steady: {clients: 1, stop: {after: 1s}}}\n";
    let canary = hosts.dir().join("study.yaml");
    fs::write(&canary, study).unwrap();
    let canary = canary.display().to_string();
    let whole = bakeoff(&hosts, &["doctor", &canary], &places);
    let output = text(&whole);
    assert!(whole.status.success(), "{output}");
    for machine in ["h1", "h2", "h3"] {
        let part = part(&output, machine);
        for words in
            ["the one sent)", "round trip", "within 0.1 s of this machine's", "a sync takes"]
        {
            assert!(part.contains(words), "{machine} without `{words}`:\n{output}");
        }
        assert!(!part.contains("  missing"), "{output}");
    }
    assert!(part(&output, "h1").contains("free at 198.18.0.1: "), "{output}");
    assert!(!part(&output, "h3").contains("free at"), "it takes no servers:\n{output}");
    assert!(part(&output, "h1").contains("connects  this machine to it, directly"), "{output}");
    assert!(!part(&output, "h3").contains("connects"), "it takes no servers:\n{output}");

    fs::remove_dir(hosts.own(1).join("data")).unwrap();
    hosts.kill(2);
    let ended = bakeoff(&hosts, &["doctor", &canary], &places);
    let output = text(&ended);
    assert_eq!(ended.status.code(), Some(3), "{output}");
    assert!(part(&output, "h1").contains("missing   a writable folder for data"), "{output}");
    assert!(part(&output, "h1").contains("free at 198.18.0.1: "), "{output}");
    assert!(part(&output, "h2").contains("missing   cannot start the agent on `h2`"), "{output}");
    assert!(part(&output, "h3").contains("a sync takes"), "{output}");
    Ok(())
}

fn prepared_and_cleared() -> Result<(), SkipReason> {
    let hosts = Hosts::bare(2)?;
    let places = hosts.places(&[1], &[2]);
    let study = hosts.dir().join("study.yaml");
    let own = "title: one command\nsystems: {own: {kind: process, process: {command: [sleep, '{port}']}}}\n\
               workloads: {all: {mix: {request: 1}, request: {path: /}}}\n\
               loads: {steady: {clients: 1, stop: {after: 1s}}}\n";
    fs::write(&study, own).unwrap();
    let study = study.display().to_string();
    let prepare = || {
        let ended = bakeoff(&hosts, &["run", &study, "--prepare"], &places);
        let output = text(&ended);
        assert!(ended.status.success() && output.contains("nothing was run"), "{output}");
        output
    };
    let output = prepare();
    for machine in ["h1", "h2"] {
        for words in
            [format!("sending bakeoff to `{machine}`: "), format!("sent bakeoff to `{machine}`: ")]
        {
            assert!(output.contains(&words), "{words}: {output}");
        }
    }
    let cache = |number: usize| hosts.own(number).join("cache/bakeoff");
    let size = fs::metadata(env!("CARGO_BIN_EXE_bakeoff")).unwrap().len();
    for number in [1, 2] {
        let agents = fs::read_dir(cache(number).join("agents")).unwrap().flatten();
        let sizes: Vec<u64> = agents.map(|entry| entry.metadata().unwrap().len()).collect();
        assert_eq!(sizes, [size]);
    }
    assert!(cache(1).join("sent").is_dir() && !cache(2).join("sent").exists(), "{output}");
    assert!(!hosts.dir().join("runs").exists());
    assert!(!prepare().contains("sending "), "both have it");

    fs::write(cache(1).join("notes"), "mine").unwrap();
    let cleared = bakeoff(&hosts, &["clear-cache"], &places);
    let output = text(&cleared);
    assert!(cleared.status.success(), "{output}");
    assert!(output.contains("h1: freed ") && output.contains("h2: freed "), "{output}");
    for number in [1, 2] {
        assert!(!cache(number).join("agents").exists() && !cache(number).join("sent").exists());
    }
    assert!(cache(1).join("notes").exists());
    Ok(())
}

fn shared_load() -> Result<(), SkipReason> {
    let mut hosts = Hosts::new(2)?;
    let canary = CanaryNextTo::start(&hosts, hosts.command(env!("CARGO_BIN_EXE_bakeoff")));
    let places = hosts.places(&[], &[1, 2]);
    let url = |path: &str| format!("http://{}{path}", canary.address);
    let load = |words: &[&str]| {
        let ended = bakeoff(&hosts, &[&["load"], words].concat(), &places);
        let output = text(&ended);
        // 1 means that a figure is not valid, because other work shares this machine. All figures are there.
        assert!(matches!(ended.status.code(), Some(0 | 1)), "{words:?}: {output}");
        ended
    };
    let json = |words: &[&str]| -> Value {
        serde_json::from_slice(&load(&[words, &["--json"]].concat()).stdout).unwrap()
    };
    let health = url("/health");

    // A closed load of a fixed number: exactly that many from both.
    load(&["-X", "PUT", "--body", "value", &url("/kv/key"), "-n", "5", "-c", "2"]);
    let before = canary.stat(&hosts, "gets");
    let closed = json(&[&url("/kv/key"), "-n", "301", "-c", "5", "-H", "X-One: 1"]);
    assert_eq!(canary.stat(&hosts, "gets") - before, 301, "{closed:#}");
    assert_eq!((&closed["requests"], &closed["verified"]), (&json!(301), &json!(301)));
    assert_eq!(closed["statuses"], json!({"200": 301}));
    assert_eq!(closed["body_bytes"], 301 * 5);
    let each = &closed["generators"]["each"];
    assert_eq!((&each[0]["machine"], &each[0]["clients"]), (&json!("h1"), &json!(3)));
    assert_eq!((&each[1]["clients"], &each[1]["verified"]), (&json!(2), &json!(150)));

    // An open load: the full rate, and starts as close as the clocks. Enough clients, so that some are free for due
    // requests while the machine is busy: nothing makes up for the last ones.
    let apart = |of: &Value| of["generators"]["began_within_us"].as_f64().unwrap();
    let try_open = || {
        let open = json(&[&health, "--rate", "400", "--for", "2s", "-c", "64"]);
        // Reported late ones invalidate the load: 1 % of two seconds is allowed.
        let reasons = open["reasons"].as_array().unwrap();
        let is_reported =
            reasons.iter().any(|why| why.as_str().unwrap().contains("generators began up to"));
        assert_eq!(is_reported, apart(&open) > 20_000.0, "{open:#}");
        open
    };
    // A busy machine may reach a generator late.
    let mut open = try_open();
    for _ in 0..2 {
        if apart(&open) < 10_000.0 {
            break;
        }
        open = try_open();
    }
    assert_eq!(open["requests"], 800, "{open:#}");
    let mut nearest = apart(&closed).min(apart(&open));
    for _ in 0..10 {
        if nearest < 1000.0 {
            break;
        }
        nearest = nearest.min(apart(&json(&[&health, "-n", "20", "-c", "2"])));
    }
    assert!(nearest > 0.0 && nearest < 1000.0, "{nearest} µs apart at best: {open:#}");
    assert!(apart(&open) < 10_000.0, "{open:#}");
    // Answers at the end of a second may fall into the next. After the last second, only a load with a fixed number
    // continues.
    let counted = json(&[&health, "--rate", "400", "-n", "800", "-c", "64"]);
    assert_eq!(counted["generators"]["each"][0]["verified"], 400, "{counted:#}");
    let seconds: Vec<u64> = counted["seconds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|second| second["verified"].as_u64().unwrap())
        .collect();
    assert!((350..=400).contains(&seconds[0]), "{counted:#}");
    assert_eq!(seconds.iter().sum::<u64>(), 800, "{counted:#}");

    // As a run: its record has the generators and their machines.
    let runs = hosts.dir().join("runs").display().to_string();
    load(&[&health, "--rate", "400", "--for", "1s", "-c", "64", "--out", &runs]);
    let run = fs::read_dir(&runs).unwrap().flatten().next().unwrap().path();
    let record = fs::read_to_string(run.join("record.jsonl")).unwrap();
    let lines: Vec<Value> =
        record.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["environment"]["machines"][1]["name"], "h2");
    let second = &lines[1]["machines"][1];
    assert_eq!(second["generated"][0]["verified"], 200, "{second:#}");
    let nodes = second["observed"]["nodes"].as_array().unwrap();
    assert!(nodes.iter().any(|node| node["name"] == "generator on h2"), "{nodes:#?}");
    let checks = lines[1]["checks"].as_array().unwrap();
    assert!(checks.iter().any(|check| check["name"] == "generators together"), "{checks:#?}");

    // A search: each try is shared. No server runs, so it goes down to the lowest rate.
    let search = [
        "--find-max",
        "--slo",
        "p50 < 1s",
        "--rate",
        "40",
        "--for",
        "500ms",
        "-c",
        "2",
        "--warmup",
        "0s",
    ];
    let nothing = url("/nothing");
    let words = [&[&*nothing][..], &search, &["--json"]].concat();
    let found = bakeoff(&hosts, &[&["load"], &words[..]].concat(), &places);
    let result: Value =
        serde_json::from_slice(&found.stdout).unwrap_or_else(|_| panic!("{}", text(&found)));
    let tries = result["tries"].as_array().unwrap();
    assert!(!tries.is_empty() && tries[0]["generators"]["each"][1]["errors"] == 10, "{result:#}");

    // Sequences are unique across generators, so all keys written once exist.
    let puts = canary.stat(&hosts, "puts");
    let words = url("/kv/k{sequence}");
    load(&["-X", "PUT", "--body", "value", &words, "-n", "60", "-c", "4"]);
    assert_eq!(canary.stat(&hosts, "puts") - puts, 60);
    for key in ["k0", "k1", "k29", "k57"] {
        load(&[&url(&format!("/kv/{key}")), "-n", "2", "-c", "2"]);
    }

    let output = text(&load(&[&health, "--steps", "100,200", "--for", "1s", "-c", "64"]));
    assert!(output.contains("2 generators began within "), "{output}");
    assert!(output.contains("h1: 32 clients, 150 verified, 0 errors"), "{output}");

    shows_certificates(&hosts, &places);

    // Rejected with the generator's error.
    let few = bakeoff(&hosts, &["load", &health, "-c", "1"], &places);
    assert_eq!(few.status.code(), Some(2));
    assert!(text(&few).contains("1 client cannot be split across 2 generators"), "{}", text(&few));
    let away = bakeoff(&hosts, &["load", "http://198.18.0.254:9/"], &places);
    assert_eq!(away.status.code(), Some(4));
    assert!(text(&away).contains("on `h1`: could not connect"), "{}", text(&away));
    let mut command = hosts.command(env!("CARGO_BIN_EXE_bakeoff"));
    command.args(["load", &url("/kv/key"), "--for", "60s", "-c", "2", "--on"]).arg(&places);
    let before = canary.stat(&hosts, "gets");
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("a shared load", Duration::from_secs(20), || canary.stat(&hosts, "gets") > before);
    let agents = hosts.processes(2, " agent ");
    let pid = agents[0].split(' ').next().unwrap();
    let mut ssh = hosts.command("ssh");
    ssh.arg("-F").arg(hosts.config()).args(["h2", "kill", "-9", pid]);
    assert!(ssh.status().unwrap().success());
    let ended = running.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(4), "{}", text(&ended));
    assert!(text(&ended).contains("lost the connection to `h2`"), "{}", text(&ended));
    hosts.kill(2);
    let lost = bakeoff(&hosts, &["load", &health], &places);
    assert_eq!(lost.status.code(), Some(4));
    assert!(text(&lost).contains("cannot start the agent on `h2`"), "{}", text(&lost));
    Ok(())
}

/// Loads a server that demands certificates with the coordinator's.
fn shows_certificates(hosts: &Hosts, places: &Path) {
    let certificates = Certificates::for_address(COORDINATOR);
    let listener = hosts.listener();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let shown = Arc::new(AtomicU64::new(0));
    certificates.serve(listener, Some(Arc::clone(&shown)));
    let [ca, cert, key] = ["ca.pem", "server.pem", "server.key"]
        .map(|name| certificates.path(name).display().to_string());
    let words = ["load", &url, "-n", "40", "-c", "4", "--json", "--ca", &ca];
    let own = ["--cert", &cert, "--key", &key];
    let ended = bakeoff(hosts, &[&words[..], &own].concat(), places);
    let result: Value =
        serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("{}", text(&ended)));
    assert_eq!((&result["verified"], &result["errors"]), (&json!(40), &json!({})), "{result:#}");
    // Four clients, and each generator's probe.
    assert_eq!(shown.load(Ordering::Relaxed), 6);

    // A study of a server that already runs, with files of this machine.
    let study = hosts.dir().join("endpoint.yaml");
    let text_of = format!(
        "title: Endpoint\nsystems:\n  web: {{kind: http, endpoints: [\"{url}\"], tls: {{ca: {ca}, cert: {cert}, key: {key}}}}}\n\
         workloads: {{get: {{mix: {{request: 1}}, request: {{path: /}}}}}}\n\
         loads: {{few: {{clients: 4, stop: {{operations: 200}}}}}}\ntrials: 1\n"
    );
    fs::write(&study, text_of).unwrap();
    let runs = hosts.dir().join("endpoint-runs").display().to_string();
    let study = study.display().to_string();
    // A run needs a machine for servers, even if it starts none.
    let with_servers = hosts.places(&[1], &[1, 2]);
    let ended = bakeoff(hosts, &["run", &study, "--shared-machine", "--out", &runs], &with_servers);
    hosts.places(&[], &[1, 2]);
    let run = fs::read_dir(&runs).into_iter().flatten().flatten().next();
    let run = run.unwrap_or_else(|| panic!("{}", text(&ended)));
    let record = fs::read_to_string(run.path().join("record.jsonl")).unwrap();
    let trial: Value = serde_json::from_str(record.lines().nth(1).unwrap()).unwrap();
    let figures = &trial["stages"][0]["measurement"]["operations"]["request"];
    assert_eq!(figures["verified"], 200, "{}", text(&ended));
    assert!(!record.contains("PRIVATE KEY"));

    // TLS 1.3 refuses a client after its handshake.
    let without = bakeoff(hosts, &words, places);
    assert_eq!(without.status.code(), Some(4), "{}", text(&without));
    assert!(text(&without).contains("`--cert FILE` and `--key FILE`"), "{}", text(&without));
    let missing = bakeoff(hosts, &[&words[..], &["--cert", "/nowhere.pem"]].concat(), places);
    assert_eq!(missing.status.code(), Some(2));
    let wanted = "`/nowhere.pem` cannot be used for TLS";
    assert!(text(&missing).contains(wanted), "{}", text(&missing));
}

/// Returns a configuration of etcd on these machines.
fn configuration(peers: &str) -> String {
    format!(
        "test_title: Write few keys\nall_database_id_list: [etcd__tip]\n\
         datatbase_id_to_config_client_machine_agent_control:\n  etcd__tip:\n    database_description: etcd tip\n    peer_ips: \
         [{peers}]\n    etcd__tip: {{snapshot_count: 100000}}\n    benchmark_options: {{type: write, request_number: 2000, \
         connection_number: 4, client_number: 8, key_size_bytes: 64, value_size_bytes: 256}}\n    benchmark_steps: \
         {{step1_start_database: true, step2_stress_database: true, step3_stop_database: true, step4_upload_logs: \
         false}}\ndatatbase_id_to_config_analyze_machine_initial:\n  etcd__tip: {{path_prefix: result/etcd, \
         server_system_metrics_interpolated_path_list: [1-server-system-metrics-interpolated.csv, \
         2-server-system-metrics-interpolated.csv]}}\n"
    )
}

fn dbtester_on_peers() -> Result<(), SkipReason> {
    let hosts = Hosts::new(4)?;
    let places = hosts.places(&[1, 2, 3], &[4]);
    let file = hosts.dir().join("c.yaml");
    let control = |peers: &str| {
        fs::write(&file, configuration(peers)).unwrap();
        let runs = hosts.dir().join("runs").display().to_string();
        let words =
            ["dbtester", "control", "-c", "c.yaml", "--shared-machine", "--seed", "7", "--out"];
        bakeoff(&hosts, &[&words[..], &[&runs]].concat(), &places)
    };
    for (peers, wanted) in [
        ("198.18.0.9", "no machine of the places file has the address `198.18.0.9`"),
        ("198.18.0.4", "`198.18.0.4` is the address of `h4`, which takes no servers"),
        ("198.18.0.1, 198.18.0.1", "`198.18.0.1` is the address of two nodes"),
    ] {
        let refused = control(peers);
        assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
        assert!(text(&refused).contains(wanted), "{}", text(&refused));
        assert!(text(&refused).contains("--> c.yaml:6:"), "{}", text(&refused));
    }

    // Each node runs on the configuration's machine, in the configuration's order.
    let ended = control("198.18.0.3, 198.18.0.1");
    let output = text(&ended);
    assert!(matches!(ended.status.code(), Some(0 | 1)), "{output}");
    let run = fs::read_dir(hosts.dir().join("runs")).unwrap().flatten().next().unwrap().path();
    let record = fs::read_to_string(run.join("record.jsonl")).unwrap();
    let mut lines = record.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let trial = lines.find(|line| line["line"] == "trial").unwrap_or_else(|| panic!("{output}"));
    let names: Vec<&Value> =
        trial["machines"].as_array().unwrap().iter().map(|machine| &machine["name"]).collect();
    assert_eq!(names, ["h3", "h1", "h4"], "{:#}", trial["machines"]);
    let written = hosts.dir().join("result/etcd-client-latency-throughput-timeseries.csv");
    let written = fs::read_to_string(&written).unwrap_or_else(|error| panic!("{error}: {output}"));
    assert!(written.lines().count() > 1, "{written}");
    // Metrics are of the servers and the generator, not of agents.
    let resident = |node: &Value| node["columns"]["resident"][0].as_f64().unwrap();
    let nodes = trial["observed"]["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2, "{nodes:#?}");
    let generator = trial["machines"][2]["observed"]["nodes"].as_array().unwrap();
    let files = [("1-server", &nodes[0]), ("2-server", &nodes[1]), ("client", &generator[0])];
    for (name, node) in files {
        let metrics = hosts.dir().join(format!("result/etcd-{name}-system-metrics.csv"));
        let metrics = fs::read_to_string(metrics).unwrap();
        let (head, row) = metrics.split_once('\n').unwrap();
        let place = head.split(',').position(|column| column == "VMRSS-NUM").unwrap();
        let first = row.split(',').nth(place).unwrap();
        assert_eq!(first.parse::<f64>().unwrap(), resident(node), "{name}: {metrics}");
    }
    Ok(())
}
