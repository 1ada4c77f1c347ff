//! Tests the fairness sheet and the machine baseline of real runs.

use std::process::Stdio;
use std::time::Duration;

use crate::support::{BASELINE_FOR, Bench, CommandOutput, array, text, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A small demo: only the sync of the log differs.
const STUDY: &str = "title: Two canaries\n\
    systems:\n  synced: {kind: canary, options: {sync: each}}\n  \
    unsynced: {kind: canary, options: {sync: none}}\n\
    workloads: {write: {mix: {put: 1}, keys: {count: 500, size: 64}, values: {size: 256}}}\n\
    loads: {sweep: {clients: [1, 16], stop: {operations: 400}}}\n\
    trials: 1\n";

#[test]
fn sheet_of_one_system_twice_shows_only_option_differences() {
    let run = Bench::new(STUDY).run();
    crate::support::nothing_runs_in(run.bench.path());
    let sheet = &run.report["fairness"];
    let rows = array(&sheet["rows"]);
    let row = |what: &str| rows.iter().find(|row| row["what"] == what).unwrap();
    let differing: Vec<(&str, &str)> = rows
        .iter()
        .filter(|row| ["matters", "decides"].contains(&text(&row["weight"])))
        // Delays differ between trials, like other work on this machine.
        .filter(|row| row["what"] != "delays in the generator")
        .map(|row| (text(&row["what"]), text(&row["weight"])))
        .collect();
    let expected = [
        ("a write is acknowledged", "decides"),
        ("syncs observed", "matters"),
        ("non-default settings", "matters"),
    ];
    assert_eq!(differing, expected, "{rows:#?}");
    let cells = &row("a write is acknowledged")["cells"];
    assert_eq!(text(&cells[0]), "on one node's disk");
    assert_eq!(text(&cells[1]), "in the page cache of one node");

    // The difference is above every table of the report.
    let finding = "acknowledged writes are not equally safe: synced acknowledges a write on one \
                   node's disk; unsynced acknowledges a write in the page cache of one node; a power \
                   cut may take what unsynced acknowledged";
    assert_eq!(array(&run.report["findings"])[0], finding);
    let shown = CommandOutput::run(
        crate::support::bakeoff().args(["report", "--all"]).arg(&run.bench.runs()[0]),
    )
    .stdout;
    let place = |part: &str| shown.find(part).unwrap_or_else(|| panic!("no `{part}` in:\n{shown}"));
    let output = "! a write is acknowledged: synced: on one node's disk";
    assert!(place(finding) < place(output));
    assert!(place(output) < place("total seconds"));

    // A put of 64 and 256 bytes sends those and a head; its answer is only a head.
    let bytes = |what: &str| text(&row(what)["cells"][0]).to_owned();
    let count = |text: &str| text.strip_suffix(" B").unwrap().parse::<f64>().unwrap();
    let (sent, received) = (bytes("bytes per request"), bytes("bytes per response"));
    assert!((64.0 + 256.0..600.0).contains(&count(&sent)), "{sent}");
    assert!((20.0..200.0).contains(&count(&received)), "{received}");
}

#[test]
fn run_starts_with_the_machine_baseline() {
    let run = Bench::new(STUDY).run();
    crate::support::nothing_runs_in(run.bench.path());
    let header = &run.record()[0];
    let baseline = &header["environment"]["machine_baseline"];
    assert_eq!(baseline["append_bytes"], 320);
    let clients = |of: &Value| -> Vec<u64> {
        array(of).iter().filter_map(|point| point["clients"].as_u64()).collect()
    };
    assert_eq!(clients(&baseline["appends"]), [1, 16]);
    assert_eq!(clients(&baseline["round_trips"]), [1, 16]);
    let number = |of: &Value, name: &str| of[name].as_f64().unwrap();
    let appends = array(&baseline["appends"]);
    for point in appends.iter().chain(array(&baseline["round_trips"])) {
        assert!(number(point, "per_second") > 0.0, "{point}");
    }
    // More clients share each sync, so the rate cannot drop much, whatever else the disk does.
    let rate = |place: usize| number(&appends[place], "per_second");
    assert!(rate(1) > rate(0) / 2.0, "{baseline}");
    for point in array(&baseline["round_trips"]) {
        // More than zero and below a second of CPU each.
        let generator = number(point, "generator_cpu_us");
        assert!(generator > 0.0 && generator < 1e6, "{point}");
        assert!(number(point, "server_cpu_us") < 1e6, "{point}");
    }
    // Its files are gone, and every stage of every system is compared with it.
    assert!(!run.bench.runs()[0].join("baseline").exists());
    let bounds = array(&run.report["comparisons"][0]["machine_baseline"]);
    assert_eq!(bounds.len(), 4, "{bounds:#?}");
    for bound in bounds {
        // Only synced appends are compared with it.
        let waits = bound["system"] == "synced";
        assert_eq!(bound["disk"].is_null(), !waits, "{bound}");
        let limits = if waits { &["disk", "loopback"][..] } else { &["loopback"][..] };
        for &limit in limits {
            let share = number(&bound[limit], "share");
            let of = number(bound, "throughput") / number(&bound[limit], "per_second");
            assert!((share - of).abs() < 1e-9 && share > 0.0, "{bound}");
        }
    }
}

#[test]
fn interrupted_machine_baseline_leaves_nothing() {
    let clients: Vec<String> = (1..=8).map(|count| count.to_string()).collect();
    let study = STUDY.replace("[1, 16]", &format!("[{}]", clients.join(", ")));
    let bench = Bench::new(&study);
    let mut command = bench.command();
    command.env_remove(BASELINE_FOR).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let server =
        || crate::support::processes_of(bench.path()).iter().any(|one| one.contains("/baseline/"));
    wait_for("the server that does nothing", Duration::from_secs(30), server);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ran = CommandOutput::from_output(child.wait_with_output().unwrap());
    ran.ends_with(130);
    crate::support::nothing_runs_in(bench.path());
    let runs = bench.runs();
    assert!(runs.iter().all(|run| !run.join("baseline").exists()), "{runs:?}");
}
