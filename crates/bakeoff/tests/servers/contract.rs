//! Tests the contract of every system: start, load, read back, crash, read back, stop, nothing left.
//!
//! The cases come from `contract.json` in each folder of `bakeoff-systems`, so that a new system without one fails by
//! name. `bakeoff install` provides the programs. A missing program is reported as ignored with the reason, and counted
//! on the last line. In CI that is a failure, unless the machine lacks a requirement.
//!
//! Few clusters run at once (`main`): the tests check them, and do not compare them.

use std::collections::BTreeSet;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::support::case::{Case, CaseTests, Contract, ExtraTest, case, contracts, with};
use crate::support::skip::SkippedTests;
use crate::support::{AUDITS, Bench, CommandOutput, Run, array, audit, bakeoff, figure, text};

/// Case for tests of loads, running servers and TLS.
pub(super) const ETCD_ALONE: Case = Case { needs: &["go"], ..case("etcd", "3.6", 1) };

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    let mut tests = vec![Trial::test("every_system_has_a_contract_case", || {
        every_system_has_a_contract_case();
        Ok(())
    })];
    for Contract { cases, .. } in contracts() {
        for CaseTests { case, also } in cases {
            let kept = "a_system_keeps_its_contract_and_leaves_nothing_running";
            tests.push(with(kept, case, skipped, keeps_its_contract));
            for more in also {
                let (name, test): (_, fn(&Case)) = match more {
                    ExtraTest::FreshReads => (
                        "reads_are_as_fresh_as_asked_for_from_leader_and_followers",
                        reads_are_as_fresh_as_asked_for,
                    ),
                    ExtraTest::CompareAndSet => (
                        "compare_and_set_loses_no_update_of_short_keys_and_values",
                        compares_and_sets,
                    ),
                    ExtraTest::Watches => {
                        ("watchers_observe_the_writes_of_others", watchers_observe_writes)
                    }
                    ExtraTest::Leases => {
                        ("leases_last_while_they_are_kept_and_then_expire", leases_last)
                    }
                    ExtraTest::Locks => {
                        ("a_lock_has_one_holder_and_loses_no_update", locks_have_one_holder)
                    }
                    ExtraTest::Transactions => {
                        ("a_transaction_is_seen_whole", transactions_are_whole)
                    }
                    ExtraTest::SessionsAndInserts => (
                        "sessions_are_let_pass_or_refused_and_keys_are_inserted",
                        checks_and_inserts,
                    ),
                };
                tests.push(with(name, case, skipped, test));
            }
        }
    }
    type Test = fn(&Case);
    let more: [(&str, Test); 3] = [
        ("scans_leases_and_watches_are_those_of_etcds_own_benchmark", scans_leases_and_watches),
        ("an_open_load_keeps_its_rate", an_open_load_keeps_its_rate),
        ("a_client_has_as_many_in_flight_as_asked_for", many_are_in_flight),
    ];
    for (name, test) in more {
        tests.push(with(name, ETCD_ALONE, skipped, test));
    }
    tests
}

fn every_system_has_a_contract_case() {
    let contracts = contracts();
    let covered: BTreeSet<&str> = contracts.iter().map(|contract| contract.kind).collect();
    let systems = CommandOutput::run(bakeoff().arg("systems")).ends_with(0).stdout;
    let listed: BTreeSet<&str> =
        systems.lines().filter(|line| !line.is_empty() && !line.starts_with(' ')).collect();
    assert_eq!(listed, covered, "`bakeoff systems` lists what the contract covers");
    for Contract { kind, cases, elsewhere } in &contracts {
        match (cases.as_slice(), elsewhere) {
            ([], None) => panic!("`contract.json` of `{kind}` has neither cases nor `elsewhere`"),
            ([], Some(_)) => continue,
            (_, Some(_)) => panic!("`contract.json` of `{kind}` has both cases and `elsewhere`"),
            (_, None) => {}
        }
        let block =
            systems.split("\n\n").find(|block| block.lines().next() == Some(*kind)).unwrap();
        let alone = block.lines().any(|line| line.split_whitespace().eq(["nodes", "1"]));
        let many = cases.iter().any(|asked| asked.case.nodes > 1);
        assert!(alone || many, "`{kind}` can have several nodes, and no case has");
    }
}

/// Returns a study of one system. Workloads and loads are YAML of one line each.
fn study(system: &str, workloads: &[&str], loads: &[&str]) -> String {
    let lines = |lines: &[&str]| lines.iter().map(|line| format!("  {line}\n")).collect::<String>();
    format!(
        "title: A contract\nsystems:\n  {system}\nworkloads:\n{}loads:\n{}trials: 1\n",
        lines(workloads),
        lines(loads)
    )
}

pub(super) fn bench(system: &str, workloads: &[&str], loads: &[&str]) -> Bench {
    Bench::new(&study(system, workloads, loads))
}

pub(super) fn run(system: &str, workloads: &[&str], loads: &[&str]) -> Run {
    to_its_end(bench(system, workloads, loads))
}

pub(super) fn to_its_end(bench: Bench) -> Run {
    let run = bench.run();
    crate::support::nothing_runs_in(run.bench.path());
    run
}

/// Asserts that all trials are valid and all operations succeeded.
pub(super) fn all_is_well(run: &Run, operations: f64) {
    let exposed = run.ran.stderr.contains("where other machines may reach it");
    assert!(!exposed, "{}", run.ran.stderr);
    assert!(!run.trials().is_empty(), "{}", run.ran.stderr);
    for trial in run.trials() {
        run.excuses(trial);
        assert_eq!(figure(trial, "errors"), 0.0, "{trial}");
        assert_eq!(figure(trial, "requests_verified"), operations, "{trial}");
    }
}

fn keeps_its_contract(case: &Case) {
    // Composite systems take longer.
    let operations = if case.parts.is_empty() { 1200 } else { 400 };
    let reads = reads(case);
    // Masters each keep their own of two concurrent writes, so each key gets one write.
    let (keys, order) = if case.masters { (operations, ", order: unique") } else { (120, "") };
    let known = operations_of(case.kind);
    let can_list = known.iter().any(|operation| operation == "list");
    let list = if can_list { "list: 10, " } else { "" };
    let run = run(
        &case.in_study(),
        &[&format!(
            "all: {{mix: {{put: 30, get: 30, delete: 20, {list}read-modify-write: 10}}, \
             keys: {{count: {keys}, per-directory: 40{order}}}, values: {{size: [8, 256]}}{reads}}}"
        )],
        &[&format!("counted: {{clients: 6, stop: {{operations: {operations}}}, timeout: 30s}}")],
    );
    all_is_well(&run, f64::from(operations));
    let trial = run.trial();
    let done = ["put", "get", "delete", "list", "read-modify-write"];
    for operation in done.into_iter().filter(|&operation| operation != "list" || can_list) {
        let verified = trial["measurement"]["operations"][operation]["verified"].as_f64();
        assert!(verified.is_some_and(|count| count > 0.0), "no `{operation}`: {trial}");
    }
    audits_passed(&run);
    for when in AUDITS {
        let found = array(&trial["audits"]).iter().find(|audit| audit["when"] == when).unwrap();
        assert!(found["read"].as_u64().unwrap() > 100, "{found}");
    }
    if case.masters {
        assert!(trial["leader"].is_null(), "{trial}");
    } else {
        let leader = text(&trial["leader"]);
        assert!(leader.starts_with(&format!("{}-", case.called())), "leader `{leader}`");
    }

    let record = run.record();
    let [header, trial, end] = record.as_slice() else { panic!("{} lines", record.len()) };
    assert_eq!(end["complete"], true);
    assert_eq!(trial["filled"], keys);
    let balanced = case.parts.iter().any(|part| part.role == "balancer");
    let targets = if balanced { 1 } else { case.targets as usize };
    assert_eq!(array(&trial["targets"]).len(), targets);
    let system = &header["systems"][0];
    assert_eq!(system["nodes"], case.nodes);
    assert!(text(&system["version"]).starts_with(case.version), "{system}");
    assert!(!text(&system["source"]).is_empty(), "{system}");
    if case.kind != "canary" {
        let sha256 = text(&system["sha256"]);
        assert!(sha256.len() == 64 && sha256.bytes().all(|b| b.is_ascii_hexdigit()), "{system}");
    }
    for setting in array(&system["settings"]) {
        assert!(!text(&setting["name"]).is_empty(), "{setting}");
        assert!(text(&setting["reason"]).len() > 10, "a setting without a reason: {setting}");
    }
    for guarantee in ["replication", "acknowledged", "reads"] {
        assert!(!text(&system["guarantees"][guarantee]).is_empty(), "{guarantee}: {system}");
    }
    // All nodes, including parts, and the generator were sampled.
    let parts: usize = case.parts.iter().map(|part| part.processes).sum();
    let watched = case.nodes as usize + parts + 1;
    assert_eq!(array(&trial["usage"]).len(), watched, "{}", trial["usage"]);
    let recorded: BTreeSet<&str> =
        array(&system["parts"]).iter().map(|one| text(&one["kind"])).collect();
    assert_eq!(recorded, case.parts.iter().map(|part| part.kind).collect(), "{system}");
}

/// Tests access checks, concurrent requests per connection, and inserts of new keys.
fn checks_and_inserts(case: &Case) {
    const OPERATIONS: u64 = 4000;
    let mix = "{insert: 25, ping: 25, check-access: 25, denied: 25%}";
    let keys = format!("{{count: {OPERATIONS}, order: unique}}");
    let run = run(
        &case.in_study(),
        &[&format!("asked: {{mix: {mix}, keys: {keys}, reads: default}}")],
        &[&format!("deep: {{clients: 2, in-flight: 64, stop: {{operations: {OPERATIONS}}}}}")],
    );
    all_is_well(&run, OPERATIONS as f64);
    let trial = run.trial();
    let verified = |operation: &str| {
        let verified = trial["measurement"]["operations"][operation]["verified"].as_f64();
        verified.unwrap_or_else(|| panic!("no `{operation}`: {trial}"))
    };
    for operation in ["insert", "ping", "check-access", "denied"] {
        assert!((800.0..1200.0).contains(&verified(operation)), "{operation}: {trial}");
    }
    for when in AUDITS {
        assert_eq!(audit(trial, when), "passed", "{trial}");
        let found = array(&trial["audits"]).iter().find(|audit| audit["when"] == when).unwrap();
        assert_eq!(found["read"].as_f64(), Some(verified("insert")), "{found}");
    }
}

/// Returns the `reads` field for a system without linearizable reads.
fn reads(case: &Case) -> String {
    let comma = if case.reads.is_empty() { "" } else { ", reads: " };
    format!("{comma}{}", case.reads)
}

fn operations_of(kind: &str) -> Vec<String> {
    let shown = CommandOutput::run(bakeoff().args(["systems", kind])).ends_with(0).stdout;
    let row = shown.lines().find_map(|line| line.trim().strip_prefix("operations "));
    row.unwrap_or_default().split(',').map(|operation| operation.trim().to_owned()).collect()
}

/// Asserts that every audit passed. A system that acknowledges from memory may lose writes in a kill, and its audit
/// says so.
fn audits_passed(run: &Run) {
    let guaranteed = &run.record()[0]["systems"][0]["guarantees"]["acknowledged_in"];
    let [after_load, after_kill] = AUDITS;
    for trial in run.trials() {
        assert_eq!(audit(trial, after_load), "passed", "{trial}");
        match audit(trial, after_kill) {
            "passed" => {}
            "not-checked" if guaranteed == "memory" => {
                let audits = array(&trial["audits"]);
                let found = audits.iter().find(|audit| audit["when"] == after_kill);
                let why = text(&found.unwrap()["verdict"]["why"]);
                assert!(why.contains("which breaks no guarantee"), "{why}");
            }
            verdict => panic!("{verdict} after a kill: {trial}"),
        }
    }
}

/// Few keys and several clients, so that tries conflict.
fn compares_and_sets(case: &Case) {
    const OPERATIONS: u32 = 1200;
    let run = run(
        &case.in_study(),
        &[&format!(
            "swap: {{mix: {{compare-and-set: 60, get: 40}}, keys: {{count: 3, size: 9}}, \
             values: {{size: {{from: 5, to: 200}}}}{}}}",
            reads(case)
        )],
        &[&format!("counted: {{clients: 8, stop: {{operations: {OPERATIONS}}}, timeout: 30s}}")],
    );
    all_is_well(&run, f64::from(OPERATIONS));
    audits_passed(&run);
}

/// Watchers of one key each, and of all keys.
fn watchers_observe_writes(case: &Case) {
    let workload = |of: &str| {
        format!(
            "{of}: {{mix: {{put: 4, delete: 1}}, keys: {{count: 8}}, values: {{size: [8, 256]}}, \
             watchers: {{count: 12, of: {of}}}}}"
        )
    };
    let run = run(
        &case.in_study(),
        &[&workload("key"), &workload("prefix")],
        &["steady: {rate: 50/s, clients: 4, warmup: 500ms, stop: {after: 3s}}"],
    );
    assert_eq!(run.trials().len(), 2, "{}", run.ran.stderr);
    for trial in run.trials() {
        run.excuses(trial);
        let counts = &trial["measurement"]["watch"]["counts"];
        assert!(counts["delivered"].as_u64() > Some(0), "{trial}");
        for fault in ["lost", "undelivered", "repeated", "reordered", "phantoms"] {
            assert!(counts[fault].is_null(), "{fault}: {counts}");
        }
    }
}

/// Operations of etcd's `benchmark` that other stores lack, with its keys and values of 8 bytes.
fn scans_leases_and_watches(case: &Case) {
    const OPERATIONS: u32 = 1000;
    let run = run(
        &case.in_study(),
        &[
            "scan: {mix: {scan: 90, put: 10}, keys: {count: 300, size: 8}, values: {size: 8}, with: {scan: 20}}",
            "lease: {mix: {grant-lease: 1, keep-lease: 9}, keys: {count: 4}}",
            "watch: {mix: {watch: 90, get: 10}, keys: {count: 300, size: 8}, values: {size: 8}}",
            "large: {mix: {watch: 1}, keys: {count: 4, size: 8}, values: {size: {from: 8, to: 20KiB}}}",
        ],
        &[&format!("counted: {{clients: 4, stop: {{operations: {OPERATIONS}}}, timeout: 30s}}")],
    );
    all_is_well(&run, f64::from(OPERATIONS));
    let mixes: [&[&str]; 4] =
        [&["scan", "put"], &["grant-lease", "keep-lease"], &["watch", "get"], &["watch"]];
    for (trial, operations) in run.trials().into_iter().zip(mixes) {
        for &operation in operations {
            let verified = trial["measurement"]["operations"][operation]["verified"].as_f64();
            assert!(verified.is_some_and(|count| count > 0.0), "no `{operation}`: {trial}");
        }
    }
}

/// Leases of ten seconds, the least of Consul, are kept. Leases of one second are refused by a system whose least is
/// longer. Elsewhere they are gone after five seconds without a renewal, which is no fault of the system.
fn leases_last(case: &Case) {
    const OPERATIONS: u32 = 1000;
    let kept = run(
        &case.in_study(),
        &["kept: {mix: {grant-lease: 1, keep-lease: 9}, keys: {count: 40}, reads: default, \
           with: {lease-ttl: 10}}"],
        &[&format!("counted: {{clients: 4, stop: {{operations: {OPERATIONS}}}, timeout: 30s}}")],
    );
    all_is_well(&kept, f64::from(OPERATIONS));
    let short = run(
        &case.in_study(),
        &["short: {mix: {keep-lease: 1}, keys: {count: 5}, reads: default, with: {lease-ttl: 1}}"],
        &["rare: {rate: 1/s, clients: 5, warmup: 0s, stop: {after: 12s}}"],
    );
    let text = short.report.to_string();
    let expected = match case.kind {
        "etcd" => "granted for 2 s in place of 1 s",
        "consul" => "Invalid Session TTL",
        _ => "of a lease of 1.00 s",
    };
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("was gone within"), "{text}");
}

/// Few locks and many clients, so that most of them wait.
fn locks_have_one_holder(case: &Case) {
    const OPERATIONS: u32 = 400;
    let run = run(
        &case.in_study(),
        &[&format!("locks: {{mix: {{lock: 1}}, keys: {{count: 2}}{}}}", reads(case))],
        &[&format!("counted: {{clients: 12, stop: {{operations: {OPERATIONS}}}, timeout: 30s}}")],
    );
    all_is_well(&run, f64::from(OPERATIONS));
    audits_passed(&run);
}

fn transactions_are_whole(case: &Case) {
    const OPERATIONS: u32 = 1200;
    let run = run(
        &case.in_study(),
        &[
            &format!("few: {{mix: {{move: 1, look: 3}}, keys: {{count: 3}}{}}}", reads(case)),
            &format!(
                "wide: {{mix: {{move: 1, look: 3}}, keys: {{count: 100}}, values: {{size: 64}}, with: {{group: 64}}{}}}",
                reads(case)
            ),
        ],
        &[&format!("counted: {{clients: 12, stop: {{operations: {OPERATIONS}}}, timeout: 30s}}")],
    );
    all_is_well(&run, f64::from(OPERATIONS));
    audits_passed(&run);
}

fn reads_are_as_fresh_as_asked_for(case: &Case) {
    const OPERATIONS: u64 = 400;
    let load = |targets: &str| {
        format!(
            "{targets}: {{clients: 4, targets: {targets}, stop: {{operations: {OPERATIONS}}}, timeout: 30s}}"
        )
    };
    let study = study(
        &case.in_study(),
        &[
            "fresh: {mix: {get: 70, put: 30}, keys: {count: 40}, reads: linearizable, loads: [followers]}",
            "stale: {mix: {get: 1}, keys: {count: 40}, reads: stale, loads: [leader, followers]}",
        ],
        &[&load("leader"), &load("followers")],
    );
    // One cluster serves all three trials; other tests start one each.
    let run = to_its_end(Bench::new(&(study + "clusters: kept\n")));
    all_is_well(&run, OPERATIONS as f64);
    let record = run.record();
    let trials: Vec<&Value> = record.iter().filter(|line| line["line"] == "trial").collect();
    assert_eq!(trials.len(), 3);
    for trial in trials {
        let leader = text(&trial["leader"]);
        let targets: Vec<&str> = array(&trial["targets"]).iter().map(text).collect();
        match text(&trial["trial"]["load"]) {
            "leader" => assert_eq!(targets, [leader]),
            _ => assert!(targets.len() == 2 && !targets.contains(&leader), "{targets:?} {leader}"),
        }
    }
}

fn an_open_load_keeps_its_rate(case: &Case) {
    let load = |name: &str| {
        let rest = "clients: 16, stop: {after: 3s}, warmup: 500ms";
        format!("{name}: {{rate: 400/s, arrivals: {name}, {rest}}}")
    };
    let run = run(
        &case.in_study(),
        &["reads: {mix: {get: 1}, keys: {count: 100}, reads: stale}"],
        &[&load("constant"), &load("poisson")],
    );
    assert_eq!(run.trials().len(), 2);
    for trial in run.trials() {
        run.excuses(trial);
        // With a fixed seed, even Poisson arrivals are always the same.
        let due = figure(trial, "requests");
        assert!((1140.0..=1260.0).contains(&due), "{due} fell due in 3 s at 400/s: {trial}");
        // On a busy machine the last ones may not be sent in time.
        assert_eq!(figure(trial, "errors"), figure(trial, "errors_dropped"), "{trial}");
        let rate = figure(trial, "throughput_mean_per_second");
        assert!((300.0..=420.0).contains(&rate), "{rate} of 400/s: {trial}");
        assert!(
            trial["figures"]["schedule_lag_p50_ms"].is_number(),
            "an open load measures its lag"
        );
    }
    let header = &run.record()[0];
    let loads = header["study"]["loads"].to_string();
    assert!(loads.contains("oisson") && loads.contains("onstant"), "{loads}");
}

fn many_are_in_flight(case: &Case) {
    const OPERATIONS: u64 = 2000;
    let run = run(
        &case.in_study(),
        &["writes: {mix: {put: 1}, keys: {count: 1000}}"],
        &[&format!("deep: {{clients: 2, in-flight: 8, stop: {{operations: {OPERATIONS}}}}}")],
    );
    all_is_well(&run, OPERATIONS as f64);
    // Little's law: operations in flight are throughput times latency. Two connections with one operation each could
    // not exceed two.
    let trial = run.trial();
    let under_way =
        figure(trial, "throughput_mean_per_second") * figure(trial, "service_mean_ms") / 1e3;
    assert!((4.0..=17.0).contains(&under_way), "{under_way} were under way: {trial}");
}
