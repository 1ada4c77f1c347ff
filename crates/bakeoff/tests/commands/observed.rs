//! Tests a trial's samples of nodes and machine, and the checks on them.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::support::canary::{Canary, alone};
use crate::support::watched::{bench, check, trial};
use crate::support::{Bench, CommandOutput, array, bakeoff, text};

fn numbers(list: &Value) -> Vec<f64> {
    array(list).iter().map(|number| number.as_f64().expect("a number")).collect()
}

#[test]
fn samples_cover_the_whole_trial() {
    // Socket samples are spaced by their cost, and other tests leave thousands of sockets on a machine.
    let _alone = alone();
    let bench = bench("", "{clients: 8, warmup: 500ms, stop: {after: 5s}}");
    CommandOutput::run(&mut bench.command()).ends_with(0);
    let trial = trial(&bench);
    let observed = &trial["observed"];

    let phases = array(&observed["phases"]);
    let names = phases.iter().map(|phase| text(&phase["name"])).collect::<Vec<_>>();
    let expected = [
        "starting",
        "filling",
        "load",
        "counting syncs",
        "reading back",
        "killing and restarting",
        "reading back",
        "stopping",
    ];
    assert_eq!(names, expected);
    let time = |phase: usize, end: &str| phases[phase][end].as_f64().unwrap();
    for phase in 1..phases.len() {
        assert_eq!(time(phase, "from"), time(phase - 1, "to"));
    }
    let (from, to) = (time(2, "from"), time(2, "to"));
    assert!(to - from >= 5.5, "warm-up and load");
    let began = trial["stages"][0]["began"].as_f64().unwrap();
    assert!((from..to).contains(&began), "{began} in {from}..{to}");

    let nodes = array(&observed["nodes"]);
    let names = nodes.iter().map(|node| text(&node["name"])).collect::<Vec<_>>();
    assert_eq!(names, ["generator", "canary-1"]);
    let machine = &observed["machine"];
    for series in nodes.iter().chain([machine]) {
        let at = numbers(&series["at"]);
        assert!(at.is_sorted() && at.len() > 15, "{at:?}");
        for (name, values) in series["columns"].as_object().unwrap() {
            assert_eq!(numbers(values).len(), at.len(), "{name}");
        }
    }
    // Growth of a column during the load.
    let grew = |series: &Value, column: &str| {
        let at = numbers(&series["at"]);
        let values = numbers(&series["columns"][column]);
        let before = |time: f64| at.iter().rposition(|&look| look <= time).unwrap_or(0);
        values[before(to)] - values[before(from)]
    };
    let (generator, canary) = (&nodes[0], &nodes[1]);
    for series in [generator, canary] {
        for column in ["cpu-user", "socket-sent", "socket-received", "switches-voluntary"] {
            assert!(grew(series, column) > 0.0, "{} {column}", series["name"]);
        }
    }
    assert!(grew(machine, "busy") > 0.0);
    // All bytes between these two have two ends. Their samples are taken at different times, so they differ by at most
    // one interval.
    let (sent, received) = (grew(generator, "socket-sent"), grew(canary, "socket-received"));
    let counted = numbers(&canary["columns"]["socket-received"]);
    let apart = counted.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    assert!(apart < received / 5.0, "{counted:?}");
    assert!((sent - received).abs() <= apart, "sent {sent}, received {received}, {apart} at once");
    let cost: f64 = observed["cost"].as_f64().unwrap();
    assert!(cost > 0.0 && cost < to, "{cost}");

    let usage = array(&trial["usage"]);
    let canary = usage.iter().find(|one| one["name"] == "canary-1").unwrap();
    for field in ["threads_max", "open_files_max", "sent_bytes", "received_bytes", "data_bytes"] {
        assert!(canary[field].as_u64() > Some(0), "{field}: {canary}");
    }
    assert!(canary["cpu_mean_percent"].as_f64() > Some(0.0));
    assert!(canary.get("throttled_seconds").is_none(), "nothing limits it");
    for name in ["clock", "disk"] {
        assert_eq!(check(&trial, name)["verdict"], "passed");
    }
}

#[test]
fn stepped_clock_invalidates_a_trial_and_repeats_its_round() {
    for (step, way) in [("300ms,5s", "set forward by 5"), ("300ms,-1h", "set back by 3,60")] {
        let bench = bench("", "{clients: 2, warmup: 0s, stop: {after: 1s}}");
        let ran = CommandOutput::run(bench.command().env("BAKEOFF_CLOCK_STEP", step)).ends_with(0);
        assert!(ran.stderr.contains("clock: the machine's clock was"), "{}", ran.stderr);
        let repeated = "1 extra round under work/load: a stepped clock disturbed round 1";
        assert!(ran.stdout.contains(repeated) && ran.stderr.contains(repeated), "{ran:?}");
        let lines = bench.record();
        let trials: Vec<&Value> = lines.iter().filter(|line| line["line"] == "trial").collect();
        let [spoilt, again] = &trials[..] else { panic!("{trials:?}") };
        let why = text(&check(spoilt, "clock")["why"]);
        assert!(why.contains(way), "{why}");
        assert_eq!(check(again, "clock")["verdict"], "passed", "{again}");
    }
}

#[test]
fn another_bakeoff_on_the_machine_is_reported_and_recorded() {
    let canary = Canary::start("");
    let mut other = bakeoff();
    other.args(["load", &canary.url("/health"), "--rate", "50/s", "--for", "60s"]);
    let mut other = other.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let bench = Bench::new(
        "title: Two\nsystems: {one: {kind: canary}}\nworkloads: {reads: {mix: {get: 1}, keys: {count: 9}}}\n\
         loads: {load: {clients: 1, warmup: 0s, stop: {operations: 50}}}\ntrials: 1\n",
    );
    std::thread::sleep(Duration::from_secs(1)); // until it has reported it
    let ran = CommandOutput::run(bench.command().env_remove("BAKEOFF_SHARED_MACHINE"));
    other.kill().and_then(|()| other.wait()).unwrap();
    assert!(ran.stderr.contains("another bakeoff is running on this machine"), "{}", ran.stderr);
    let record = bench.record();
    let trial = record.iter().find(|line| line["line"] == "trial").expect("there is a trial");
    assert_eq!(trial["another_bakeoff"], true);
    assert!(ran.stdout.contains("another bakeoff worked on the machine during 1 of 1 trial"));
}

#[test]
fn memory_is_sampled_within_a_short_load() {
    let bench = Bench::new(
        "title: A canary that grows\n\
         systems: {canary: {kind: canary, nodes: 2, options: {hold: 64MiB}}}\n\
         workloads: {work: {mix: {put: 1}, keys: {count: 200}}}\n\
         loads: {load: {clients: 4, warmup: 0s, stop: {after: 700ms}}}\n\
         trials: 1\n",
    );
    CommandOutput::run(&mut bench.command()).ends_with(0);
    let trial = trial(&bench);
    let memory = &trial["memory"];
    let bytes = |of: &Value| of.as_u64().unwrap_or_else(|| panic!("{memory}"));
    let (sum, node) = (bytes(&memory["sum_max_bytes"]), bytes(&memory["node_max_bytes"]));
    assert!(node > 64 << 20 && sum >= node && sum < node + (64 << 20), "{memory}");
    let resident = array(&trial["usage"]).iter().find(|one| one["name"] == "canary-1").unwrap();
    assert!(resident["rss_max_bytes"].as_u64() > Some(64 << 20), "{resident}");
    let window = trial["stages"][0]["measured_from"].as_f64().unwrap();
    let readings = numbers(&trial["observed"]["memory"][0]["at"]);
    let within = readings.iter().filter(|at| (window..window + 0.8).contains(*at));
    assert!(within.count() >= 2, "{readings:?} since {window}");
}
