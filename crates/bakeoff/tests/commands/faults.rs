//! Tests faults during a load: what was done to nodes is proven, and what came of it is measured.
//!
//! Not here: real systems (`servers`), the figures of an outage (`bakeoff_core::outage`).

use std::process::{Command, Stdio};
use std::time::Duration;

use bakeoff_core::measurement::LoadPart;
use bakeoff_core::outage::{StepOutage, outage, part_outages, step_outages};
use bakeoff_core::record::Injection;
use bakeoff_host::network;
use serde_json::Value;

use crate::support::canary::alone;
use crate::support::{
    Bench, CommandOutput, NETWORKS, Run, array, can_refuse_namespaces, decode, nothing_runs_in,
    path_to_ours, processes_of, skipped, text, wait_for, without_namespaces,
};

/// Returns a study of one canary with faults. The load is open and takes three seconds.
fn study(canary: &str, faults: &str) -> String {
    format!(
        "title: t\nsystems:\n  canary: {{kind: canary, {canary}}}\n\
         workloads: {{work: {{mix: {{put: 1, get: 1}}, keys: {{count: 200}}}}}}\n\
         loads: {{steady: {{rate: 1000/s, clients: 12, warmup: 200ms, timeout: 1s, stop: {{after: 3s}}}}}}\n\
         faults: {{{faults}}}\ntrials: 1\n"
    )
}

fn injections(run: &Run) -> Vec<Value> {
    let record = run.record();
    let trial = record.iter().find(|line| line["line"] == "trial").expect("a trial");
    array(&trial["injections"]).to_vec()
}

/// Returns the outage of a fault's first injection in seconds, and the time from the fault to its end.
fn outage_of(run: &Run, fault: &str) -> (f64, f64) {
    let all = injections(run);
    let one = all.iter().find(|one| one["fault"] == fault).expect("an injection");
    let injection: Injection = serde_json::from_value(one.clone()).expect("an injection");
    let (from, healed) = (injection.from().unwrap(), injection.healed().unwrap());
    let outage = outage(&injection).expect("the fault happened");
    (outage.seconds.unwrap_or_else(|| panic!("{outage:?}")), healed - from)
}

#[test]
fn faults_are_proven_and_their_outages_measured() {
    let faults = "paused: {pause: leader, at: 500ms, for: 700ms}, \
                  killed: {kill: leader, at: 500ms, restart-after: 500ms}, \
                  stopped: {stop: node-1, at: 500ms, restart-after: 500ms}, \
                  rolling: {restart: each, at: 500ms, every: 500ms}";
    let run = Bench::new(&study("options: {sync: each}", faults)).run();
    nothing_runs_in(run.bench.path());
    assert!(!run.invalid_because().contains("injection"), "{}", run.invalid_because());
    let injections = injections(&run);
    assert_eq!(injections.len(), 4, "{injections:#?}");
    for injection in &injections {
        let hits = array(&injection["hits"]);
        assert_eq!((hits.len(), &injection["unproven"]), (1, &Value::Null), "{injection:#}");
        let number = |name: &str| hits[0][name].as_f64().unwrap();
        assert!(number("from") >= 0.5, "{injection:#}");
        assert!(number("from") <= number("seen") && number("seen") <= number("to"));
        assert_eq!(array(&hits[0]["nodes"]), ["canary-1"]);
        assert_eq!(injection["audit"]["verdict"]["verdict"], "passed", "{injection:#}");
    }
    let proof = |fault: &str| {
        let one = injections.iter().find(|one| one["fault"] == fault).unwrap();
        array(&one["hits"][0]["proof"]).iter().map(text).collect::<Vec<_>>().join("; ")
    };
    assert!(proof("paused").contains("stood still; "), "{}", proof("paused"));
    assert!(proof("killed").contains("`canary-1` was killed by SIGKILL"), "{}", proof("killed"));
    assert!(proof("stopped").contains("SIGTERM") || proof("stopped").contains("exit code"));
    // The only node was down from the fault to its end.
    for fault in ["paused", "killed", "stopped"] {
        let (outage, lasted) = outage_of(&run, fault);
        assert!(outage > lasted * 0.8, "{fault}: {outage} of {lasted}");
        assert!(lasted > 0.45, "{fault}: {lasted}");
    }
    // Figures of the comparison are those of the undisturbed load alone: 1,000/s for 3 s.
    assert_eq!(run.figure("requests"), 3000.0);
}

#[test]
fn maintenance_is_timed_and_proven_by_its_answer() {
    let faults = "compacted: {run: compact, at: 500ms}";
    let run = Bench::new(&study("options: {compact: 700ms}", faults)).run();
    let injections = injections(&run);
    let hit = &injections[0]["hits"][0];
    assert_eq!(injections[0]["unproven"], Value::Null, "{injections:#?}");
    assert_eq!(array(&hit["nodes"]), ["canary-1"]);
    assert_eq!(array(&hit["proof"]), ["`compact` of `canary-1`: answered 204"]);
    assert_eq!(hit["seen"], hit["to"]);
    let (outage, lasted) = outage_of(&run, "compacted");
    assert!((0.7..0.8).contains(&lasted), "{lasted}");
    assert!((outage - 0.7).abs() < 0.05, "{outage}");
}

/// Returns the operations of each effect of the first injection that failed or have an unknown outcome.
fn costs(run: &Run) -> Vec<u64> {
    let one = injections(run).swap_remove(0);
    let injection: Injection = serde_json::from_value(one).expect("an injection");
    assert_eq!(injection.unproven, None);
    let costs = injection.hits.iter().map(|hit| hit.cost.clone().expect("a cost"));
    costs.map(|cost| cost.failed + cost.unknown).collect()
}

#[test]
fn repeated_maintenance_costs_operations_each_time() {
    let faults = "often: {run: compact, at: 1100ms, every: 500ms, times: 3}";
    let study = study("options: {compact: 300ms}", faults).replace("timeout: 1s", "timeout: 100ms");
    let run = Bench::new(&study).run();
    let from = |hit: &Value| hit["from"].as_f64().unwrap();
    let begins: Vec<f64> = array(&injections(&run)[0]["hits"]).iter().map(from).collect();
    for (begun, planned) in begins.iter().zip([1.1, 1.6, 2.1]) {
        assert!((planned..planned + 0.1).contains(begun), "{begins:?}");
    }
    // All 12 clients wait in each stop until their operations time out, twice.
    let costs = costs(&run);
    assert_eq!(costs.len(), 3, "{costs:?}");
    assert!(costs.iter().all(|cost| *cost >= 12), "{costs:?}");
    let injection: Injection = serde_json::from_value(injections(&run).swap_remove(0)).unwrap();
    let outage = outage(&injection).expect("the fault happened");
    let longest = outage.seconds.expect("it stood still");
    assert!(
        outage.service_lost.least > 1.5 * longest,
        "three stops cost more than one: {outage:?}"
    );
}

#[test]
fn failures_belong_to_the_effect_that_caused_them() {
    let _alone = alone();
    let faults = "kept: {run: compact, at: 0s, alone: false}, again: {run: compact, at: 0s, alone: false}, \
                  paused: {pause: leader, at: 0s, for: 1500ms, alone: false}, \
                  all: {sequence: [kept, paused, again], at: 500ms, rest: 1s}";
    // Other work on the machine delays operations by up to some 300 ms.
    let study = study("options: {compact: 1ms}", faults).replace("timeout: 1s", "timeout: 600ms");
    // On a busy machine, clients need a while after the pause.
    let study = study.replace("after: 3s", "after: 7s");
    let run = Bench::new(&study).run();
    // They end up to 600 ms after they are due. A busy machine may add single ones.
    let costs = costs(&run);
    let [kept, paused, again] = costs[..] else { panic!("{costs:?}") };
    assert!(paused >= 12 && (kept + again) * 4 < paused, "{costs:?}");
}

#[test]
fn maintenance_that_is_not_done_makes_the_trial_not_valid() {
    let faults = "compacted: {run: compact, at: 500ms}";
    let bench = Bench::new(&study("options: {compact: 5s}", faults));
    let run = bench.run();
    let why = "the load ended before `compact` of `canary-1` did";
    assert_eq!(injections(&run)[0]["unproven"], why);
    let not_valid = format!("not valid: injections: injection 1 of `compacted`: {why}");
    assert!(run.ran.stderr.contains(&not_valid), "{}", run.ran.stderr);
    // The load is as short in each round.
    let repeated = run.record().iter().any(|line| line["line"] == "extended");
    assert!(!repeated, "{}", run.ran.stderr);
}

#[test]
fn clients_of_the_broken_node_are_out_and_others_are_not() {
    let _alone = alone();
    let faults = "paused: {pause: node-2, at: 500ms, for: 900ms}";
    let run = Bench::new(&study("nodes: 3", faults)).run();
    let record = run.record();
    let trial = record.iter().find(|line| line["line"] == "trial").expect("a trial");
    let names: Vec<String> = serde_json::from_value(trial["targets"].clone()).expect("names");
    let injection: Injection = serde_json::from_value(trial["injections"][0].clone()).unwrap();
    let parts = part_outages(&injection, &names);
    assert_eq!(parts.len(), 5, "{parts:#?}");
    for one in &parts {
        let is_broken = one.part == LoadPart::Node("canary-2".into());
        assert_eq!(one.broken, is_broken, "{one:?}");
        match one.seconds {
            None => assert!(!is_broken, "{parts:#?}"),
            Some(seconds) if is_broken => assert!(seconds >= 0.6, "{parts:#?}"),
            // Other tests may hold the machine for a moment.
            Some(seconds) => assert!(seconds < 0.4, "{parts:#?}"),
        }
    }
    let undisturbed = &trial["stages"][0]["measurement"];
    assert!(undisturbed["part_silences"].is_null(), "undisturbed loads have no parts");
}

#[test]
fn sequence_is_one_run_with_an_outage_for_each_fault() {
    let faults = "paused: {pause: leader, at: 0s, for: 300ms}, \
                  killed: {kill: leader, at: 0s, restart-after: 500ms, alone: false}, \
                  both: {sequence: [paused, killed], at: 300ms, rest: 600ms}";
    let run = Bench::new(&study("nodes: 1", faults)).run_with(&["--faults", "both"]);
    let injections = injections(&run);
    let [both] = &injections[..] else { panic!("{injections:#?}") };
    assert_eq!((&both["fault"], &both["unproven"]), (&"both".into(), &Value::Null), "{both:#}");
    let [first, second] = array(&both["hits"]) else { panic!("{both:#}") };
    assert_eq!((&first["fault"], &second["fault"]), (&"paused".into(), &"killed".into()));
    let number = |of: &Value, name: &str| of[name].as_f64().unwrap_or_else(|| panic!("{of}"));
    assert!(number(first, "from") >= 0.3, "{first}");
    assert!(number(second, "from") >= number(first, "to") + 0.6, "{both:#}");
    let injection: Injection = serde_json::from_value(both.clone()).expect("an injection");
    let steps = step_outages(&injection);
    let [paused, killed] = &steps[..] else { panic!("{steps:#?}") };
    let length = |of: &StepOutage| of.seconds.unwrap_or_default();
    assert!(length(paused) > 0.2 && length(killed) > 0.4, "{steps:#?}");
    let longest = length(paused).max(length(killed));
    assert_eq!(outage(&injection).unwrap().seconds, Some(longest), "the longest of all");
}

#[test]
fn injections_are_repeated_in_one_order_for_all_systems() {
    let faults = "a: {pause: leader, at: 100ms, for: 50ms}, b: {kill: leader, at: 100ms, restart-after: 50ms}";
    let study = study("nodes: 1", faults).replace("after: 3s", "after: 500ms");
    let study = study.replace("systems:\n", "systems:\n  other: {kind: canary}\n") + "repeat: 2\n";
    let run = Bench::new(&study).run();
    let orders: Vec<Vec<(String, u64)>> = run
        .record()
        .iter()
        .filter(|line| line["line"] == "trial")
        .map(|trial| {
            let of =
                |one: &Value| (text(&one["fault"]).to_owned(), one["repeat"].as_u64().unwrap());
            array(&trial["injections"]).iter().map(of).collect()
        })
        .collect();
    assert_eq!(orders[0], orders[1]);
    let repeats: Vec<u64> = orders[0].iter().map(|(_, repeat)| *repeat).collect();
    assert_eq!(repeats, [1, 1, 2, 2]);
    assert_ne!(orders[0][0].0, orders[0][1].0);
}

#[test]
fn stale_answer_in_a_fault_fails_the_trial() {
    // The canary splits after the undisturbed load and amid the injection.
    let faults = "paused: {pause: node-2, at: 2s, for: 200ms}";
    let study = study("nodes: 3, options: {split-after: 9s}", faults)
        .replace("rate: 1000/s, clients: 12", "rate: 200/s, clients: 6")
        .replace("after: 3s", "after: 6s");
    let run = Bench::new(&study).run();
    let record = run.record();
    let trial = record.iter().find(|line| line["line"] == "trial").expect("a trial");
    let undisturbed = &trial["stages"][0]["measurement"]["operations"];
    let untrue = |operations: &Value| {
        let of = |name: &str| operations["get"]["errors"][name]["count"].as_u64().unwrap_or(0);
        of("stale-value") + of("wrong-value")
    };
    assert_eq!(untrue(undisturbed), 0, "{undisturbed:#}");
    let injected = &trial["injections"][0]["stage"]["measurement"]["operations"];
    assert!(untrue(injected) > 0, "{injected:#}");
    let reasons = run.invalid_because();
    assert!(reasons.contains("answers: injection 1 of `paused`: "), "{reasons}");
    run.ran.ends_with(1);
}

#[test]
fn kill_that_the_study_asks_for_is_no_event() {
    let faults = "killed: {kill: leader, at: 500ms, restart-after: 2500ms}";
    let study = study("options: {sync: each}", faults).replace("after: 3s", "after: 6s");
    let bench = Bench::new(&(study + "sample-every: 200ms\n"));
    let ran = CommandOutput::run(bench.command().arg("--all"));
    let record = bench.record();
    let trial = record.iter().find(|line| line["line"] == "trial").expect("a trial");
    let proof = trial["injections"][0]["hits"][0]["proof"].to_string();
    assert!(proof.contains("killed by SIGKILL"), "{proof}");
    let node = array(&trial["observed"]["nodes"]).iter().find(|node| node["name"] == "canary-1");
    let memory = array(&node.expect("samples")["columns"]["resident"]);
    let is_down = |bytes: &Value| bytes.as_f64() == Some(0.0);
    assert!(memory.iter().skip_while(|bytes| is_down(bytes)).any(is_down), "{memory:?}");
    assert!(!ran.stdout.contains("had ended by itself"), "{}", ran.stdout);
}

#[test]
fn write_lost_in_a_fault_is_found_after_it() {
    let faults = "killed: {kill: leader, at: 1s, restart-after: 100ms}";
    let run = Bench::new(&study("options: {lose-on-restart: 50%}", faults)).run();
    let audit = &injections(&run)[0]["audit"];
    assert_eq!(audit["when"], "after injection 1 of killed");
    assert_eq!(audit["verdict"]["verdict"], "failed", "{audit:#}");
    let reasons = run.invalid_because();
    assert!(reasons.contains("after injection 1 of killed"), "{reasons}");
    let verdict = text(&run.report["verdict"]);
    // A key that was written before has its older value then.
    let says = ["lost ", "returned older values for "];
    let says = says.iter().any(|words| verdict.contains(words));
    assert!(says && verdict.contains(" acknowledged key"), "{verdict}");
}

#[test]
fn drift_of_the_undisturbed_load_leaves_the_trial_valid() {
    let _alone = alone();
    let study = study(
        "options: {delay: 1ms, warm-up: 2500ms}",
        "paused: {pause: leader, at: 2s, for: 500ms}",
    );
    let run = Bench::new(&study.replace("after: 3s", "after: 8s")).run();
    let record = run.record();
    let trial = record.iter().find(|line| line["line"] == "trial").expect("a trial");
    let mut checks = array(&trial["checks"]).iter();
    let check = checks.find(|check| check["name"] == "stationary").expect("the check");
    let why = text(&check["verdict"]["why"]);
    assert_eq!(check["verdict"]["verdict"], "not-checked", "{check:#}");
    assert!(why.starts_with("outages are compared, and only canary's undisturbed load"), "{why}");
    assert!(!run.invalid_because().contains("stationary"), "{}", run.invalid_because());
}

#[test]
fn leader_of_a_process_is_refused_before_the_run() {
    let command = "[bakeoff, __canary, --listen, \"{address}:{port}\", --data, \"{dir}/data\"]";
    let bench = Bench::new(&format!(
        "title: t\nsystems:\n  web: {{kind: process, nodes: 2, process: {{command: {command}, ready: /health}}}}\n\
         workloads: {{work: {{mix: {{request: 1}}, request: {{path: /health}}}}}}\n\
         loads: {{steady: {{rate: 100/s, clients: 2, warmup: 0s, stop: {{after: 1s}}}}}}\n\
         faults: {{paused: {{pause: leader, at: 100ms, for: 50ms}}}}\ntrials: 1\n"
    ));
    let ran = CommandOutput::run(bench.command().env("PATH", path_to_ours()));
    let what = "bakeoff cannot know which node of system `web` leads";
    ran.ends_with(2).complains(&[what, "study.yaml:6:26", "name its nodes by number"]);
}

#[test]
fn fault_reaches_servers_of_another_machine() {
    let faults = "paused: {pause: leader, at: 500ms, for: 700ms}";
    let bench = Bench::new(&study("nodes: 1", faults));
    let places = bench.path().join("places.yaml");
    std::fs::write(&places, "machines: {me: {here: true, servers: true, generator: true}}\n")
        .unwrap();
    let run = bench.run_with(&["--on", places.to_str().unwrap()]);
    assert!(!run.invalid_because().contains("injection"), "{}", run.invalid_because());
    let (outage, lasted) = outage_of(&run, "paused");
    assert!(outage > lasted * 0.8, "{outage} of {lasted}");
    nothing_runs_in(run.bench.path());
}

/// Prints that a test is skipped, and returns true, if this machine lacks something.
fn lacks(support: Result<(), String>) -> bool {
    let why = support.err();
    why.iter().for_each(|why| skipped(why));
    why.is_some()
}

#[test]
fn cut_networks_are_proven_and_their_outages_measured() {
    if !lacks(network::support(false)) {
        are_proven_and_measured(|bench| bench.command());
    }
}

#[test]
fn relays_cut_networks_where_the_kernel_refuses_namespaces() {
    if lacks(can_refuse_namespaces(NETWORKS)) {
        return;
    }
    let run = are_proven_and_measured(|bench| without_namespaces(NETWORKS, &bench.command()));
    let machines = &run.bench.record()[0]["environment"]["machines"];
    assert_eq!(machines[0]["relayed_to"], "127.198.19.1", "{machines:#}");
    let page = std::fs::read_to_string(run.bench.runs()[0].join("report.html")).unwrap();
    assert!(page.contains("relays carry all connections"));
    run.ran.complains(&["relays cut the network instead", "docs/faults.md"]);
}

#[test]
fn relays_are_refused_before_systems_that_announce_where_they_listen() {
    if lacks(can_refuse_namespaces(NETWORKS)) {
        return;
    }
    let study = study("nodes: 1", "isolated: {isolate: leader, at: 500ms, for: 700ms}");
    let study = study.replace("kind: canary", "kind: memcached");
    let bench = Bench::new(&study.replace("count: 200}", "count: 200}, reads: default"));
    let ran = CommandOutput::run(&mut without_namespaces(NETWORKS, &bench.command()));
    let wanted = "no relay can stand before memcached";
    ran.ends_with(2).complains(&[wanted, "--faults"]);
}

#[test]
fn relays_refuse_to_lose_packets() {
    if lacks(can_refuse_namespaces(NETWORKS)) {
        return;
    }
    let lossy = "lossy: {delay: leader, by: 5ms, loss: 1%, at: 500ms, for: 700ms}";
    let bench = Bench::new(&study("nodes: 1", lossy));
    let ran = CommandOutput::run(&mut without_namespaces(NETWORKS, &bench.command()));
    ran.ends_with(2).complains(&["fault `lossy` cannot lose packets here", "leave `loss` out"]);
}

/// Cuts the network of two nodes in four ways and delays it, with bakeoff started by this command.
fn are_proven_and_measured(command: impl Fn(&Bench) -> Command) -> Run {
    let faults = "isolated: {isolate: leader, at: 500ms, for: 900ms}, \
                  deaf: {isolate: leader, at: 500ms, for: 900ms, direction: in}, \
                  half-open: {isolate: leader, at: 500ms, for: 2s, existing: only}, \
                  apart: {partition: [[node-1], [node-2]], at: 500ms, for: 900ms}, \
                  late: {delay: leader, by: 100ms, at: 500ms, for: 900ms}";
    let study = study("nodes: 2", faults).replace("timeout: 1s", "timeout: 300ms");
    let bench = Bench::new(&study);
    let command = command(&bench);
    let run = bench.run_by(command);
    nothing_runs_in(run.bench.path());
    let injections = injections(&run);
    let proof = |fault: &str| {
        let one = injections.iter().find(|one| one["fault"] == fault).unwrap();
        assert!(one["unproven"].is_null(), "{one:#}");
        assert_eq!(one["audit"]["verdict"]["verdict"], "passed", "{one:#}");
        array(&one["hits"][0]["proof"]).iter().map(text).collect::<Vec<_>>().join("; ")
    };
    // Two nodes and the clients: four paths touch a node, and two join the others.
    assert_eq!(
        proof("isolated"),
        "4 probes and a byte on 4 open connections did not pass, 2 probes elsewhere did; 6 probes arrived"
    );
    let two = "2 probes and a byte on 2 open connections did not pass, 4 probes elsewhere did";
    assert_eq!(proof("deaf"), format!("{two}; 6 probes arrived"));
    assert_eq!(proof("apart"), format!("{two}; 6 probes arrived"));
    let late = proof("late");
    assert!(late.starts_with("probes took 10") && late.ends_with("; 6 probes arrived"), "{late}");
    let late = injections.iter().find(|one| one["fault"] == "late").unwrap();
    let operations = late["stage"]["measurement"]["operations"].as_object().unwrap();
    let slowest = operations.values().map(|one| decode(&one["response"]).max()).max().unwrap();
    assert!(slowest >= 200_000_000, "there and back: {slowest} ns");
    let half_open = proof("half-open");
    let new = "a byte on 4 of them did not pass, 6 new probes did; 6 probes arrived";
    assert!(half_open.contains(new), "{half_open}");
    for fault in ["isolated", "deaf"] {
        let (outage, lasted) = outage_of(&run, fault);
        assert!(outage > lasted * 0.8, "{fault}: {outage} of {lasted}");
    }
    // Clients give their connections up after 300 ms, and new ones pass.
    let (outage, lasted) = outage_of(&run, "half-open");
    assert!(outage > 0.25 && outage < lasted * 0.8, "{outage} of {lasted}");
    run
}

#[test]
fn cut_networks_need_networks_of_their_own() {
    let faults = "isolated: {isolate: leader, at: 500ms, for: 700ms}";
    let bench = Bench::new(&study("nodes: 1", faults));
    let places = bench.path().join("places.yaml");
    std::fs::write(&places, "machines: {me: {here: true, servers: true, generator: true}}\n")
        .unwrap();
    let ran = CommandOutput::run(bench.command().args(["--on", places.to_str().unwrap()]));
    let wanted = "fault `isolated` cannot `isolate` nodes on other machines";
    ran.ends_with(2).complains(&[wanted, "without `--on`"]);
}

#[test]
fn kill_9_of_bakeoff_during_a_cut_leaves_no_namespace() {
    if !lacks(network::support(false)) {
        kill_9_during_a_cut_leaves_nothing("__network", |bench| bench.command());
    }
}

#[test]
fn kill_9_of_bakeoff_during_a_cut_leaves_no_relay() {
    if !lacks(can_refuse_namespaces(NETWORKS)) {
        let command = |bench: &Bench| without_namespaces(NETWORKS, &bench.command());
        kill_9_during_a_cut_leaves_nothing("__relays", command);
    }
}

/// Kills bakeoff during a cut. `holder`: the internal command whose process makes the cut.
fn kill_9_during_a_cut_leaves_nothing(holder: &str, command: impl Fn(&Bench) -> Command) {
    let faults = "isolated: {isolate: leader, at: 200ms, for: 2500ms}";
    let bench = Bench::new(&study("nodes: 2", faults));
    let mut command = command(&bench);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let holder = format!("{holder}\0{}\0", child.id());
    let holds = || {
        let pids = std::fs::read_dir("/proc").unwrap().flatten();
        let arguments =
            |pid: std::fs::DirEntry| std::fs::read_to_string(pid.path().join("cmdline"));
        pids.flat_map(arguments).any(|arguments| arguments.contains(&holder))
    };
    let within = Duration::from_secs(60);
    wait_for("nodes in a network", within, || holds() && processes_of(bench.path()).len() > 1);
    std::thread::sleep(Duration::from_secs(2));
    child.kill().unwrap();
    child.wait().unwrap();
    nothing_runs_in(bench.path());
    wait_for("the end of the network", Duration::from_secs(10), || !holds());
}

#[test]
fn kill_9_of_bakeoff_during_a_pause_leaves_nothing() {
    let faults = "paused: {pause: leader, at: 200ms, for: 2500ms}";
    let bench = Bench::new(&study("nodes: 1", faults));
    let mut child = bench.command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_stopped = |process: &String| {
        let pid = process.split(':').next().unwrap_or_default();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|fields| fields.starts_with('T'))
    };
    wait_for("the pause", Duration::from_secs(60), || {
        processes_of(bench.path()).iter().any(is_stopped)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    nothing_runs_in(bench.path());
}

#[test]
fn option_chooses_faults() {
    let faults = "a: {pause: leader, at: 100ms, for: 50ms}, b: {kill: leader, at: 100ms, restart-after: 50ms}";
    let study = study("nodes: 1", faults).replace("after: 3s", "after: 500ms");
    let run = Bench::new(&study).run_with(&["--faults", "b", "--repeat", "2"]);
    let names: Vec<Value> = injections(&run).iter().map(|one| one["fault"].clone()).collect();
    assert_eq!(names, ["b", "b"]);
    let bench = Bench::new(&study);
    let ran = CommandOutput::run(bench.command().args(["--faults", "other"]));
    ran.ends_with(2).complains(&["has no fault `other`", "its faults: `a` and `b`"]);
}
