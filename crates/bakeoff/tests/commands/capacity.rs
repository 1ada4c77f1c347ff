//! Tests searches for the highest rate that keeps an objective, against the canary.
//!
//! The highest rate of a canary with a fixed delay is known: clients divided by delay.
//!
//! Searches take longer than all other tests here. Tests start in the order of their module names, and this one is
//! early.

use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::canary::search;
use crate::support::{Bench, Busy, CommandOutput, Run, array, figure, reasons, skipped, text};

/// Returns a study of these systems with one search.
fn study(systems: &str, load: &str, trials: u32) -> String {
    format!(
        "title: t\nsystems:\n{systems}workloads:\n  reads: {{mix: {{get: 1}}, keys: {{count: 100}}, \
         values: {{size: 100}}}}\nloads:\n  limit: {{{load}}}\ntrials: {trials}\n"
    )
}

fn canary(name: &str, delay: &str) -> String {
    format!("  {name}: {{kind: canary, options: {{sync: none, delay: {delay}}}}}\n")
}

/// Long delays, so that a busy machine adds little to them.
const LOAD: &str =
    "rate: 150/s, clients: 20, warmup: 0s, stop: {after: 700ms}, find: {objective: p90 < 600ms}";

#[test]
fn search_compares_systems_by_their_highest_kept_rate() {
    let _alone = search();
    let systems = canary("quick", "50ms") + &canary("slow", "100ms");
    let judged =
        |run: &Run| run.trials().iter().any(|trial| crate::support::reasons(trial).is_empty());
    let run = (0..3).map(|_| Bench::new(&study(&systems, LOAD, 3)).run()).find(judged);
    let run = run.expect("the machine had time for a trial of one of three runs");
    let comparison = &run.report["comparisons"][0];
    assert_eq!(run.trials().len(), 6);
    // 20 clients and 50 ms give 400/s, 100 ms give 200/s. A p90 needs 100 operations per try.
    for (place, most) in [(0, 400.0), (1, 200.0)] {
        let system = &comparison["systems"][place];
        let spoilt = |trial: &&Value| run.excuses(trial);
        let judged: Vec<&Value> =
            array(&system["trials"]).iter().filter(|trial| !spoilt(trial)).collect();
        if judged.is_empty() {
            skipped(&format!("no search found the rate of {most}/s: other work spoilt them all"));
        }
        for trial in judged {
            let rate = figure(trial, "highest_rate_per_second");
            assert!((most * 0.6..=most * 1.06).contains(&rate), "{rate} of {most}: {trial}");
            let search = &trial["search"];
            assert_eq!(search["result"]["found"], "rate");
            assert_eq!(search["result"]["rate"], rate);
            let tries = array(&search["tries"]);
            let confirmed = |one: &&Value| one["confirming"] == true && one["kept"] == true;
            let last = tries.iter().rfind(confirmed).expect("it was confirmed");
            assert_eq!(last["rate_per_second"], rate);
            // The bound was tried again, and failed.
            let last = tries.last().unwrap();
            assert!(
                last["kept"] == false && last["rate_per_second"].as_f64() > Some(rate),
                "{last}"
            );
            let broken = tries.iter().filter(|one| one["kept"] == false);
            let above = broken.filter_map(|one| one["rate_per_second"].as_f64());
            let least = above.filter(|&broken| broken > rate).fold(f64::INFINITY, f64::min);
            assert!(least <= rate * 1.12, "{least} was broken, and {rate} found");
            // The trial's figures come from the confirming try.
            let throughput = figure(trial, "throughput_mean_per_second");
            assert!((throughput / rate - 1.0).abs() < 0.2, "{throughput} at {rate}");
            assert!(figure(trial, "seconds") < 2.5, "{trial}");
        }
    }
    let sentence = text(&comparison["sentence"]);
    let output = "times slow's highest rate that keeps p90 < 600ms under reads/limit (open load; 95 % interval";
    if run.ran.code == Some(0) {
        assert!(
            sentence.starts_with("quick sustained ") && sentence.contains(output),
            "{sentence}"
        );
        let leading = array(&comparison["judgements"]).iter().find(|one| one["leading"] == true);
        assert_eq!(leading.unwrap()["quantity"], "highest_rate_per_second");
    }
    let shown = CommandOutput::run(
        crate::support::bakeoff().args(["report", "--all"]).arg(&run.bench.runs()[0]),
    )
    .stdout;
    for words in
        ["highest rate that keeps p90 < 600ms /s", "rates tried in each system's", "kept, again"]
    {
        assert!(shown.contains(words), "no `{words}` in:\n{shown}");
    }
    let csv = run.bench.runs()[0].join("trials.csv");
    let args = ["--format", "csv"];
    let csv = std::fs::read_to_string(csv).unwrap_or_else(|_| {
        CommandOutput::run(
            crate::support::bakeoff().arg("report").arg(&run.bench.runs()[0]).args(args),
        )
        .stdout
    });
    assert!(csv.lines().next().unwrap().contains("highest_rate_per_second"), "{csv}");
    let html = std::fs::read_to_string(run.bench.runs()[0].join("report.html")).unwrap();
    assert!(html.contains("highest rate that keeps p90 &lt; 600ms /s"));
    let usage = array(&run.record()[1]["usage"]).len();
    assert!(usage > 1, "what the servers used is that of the last try");
}

#[test]
fn search_does_not_rank_a_system_without_a_kept_rate() {
    let _alone = search();
    let load =
        "rate: 40/s, clients: 20, warmup: 0s, stop: {after: 1s}, find: {objective: p50 < 150ms}";
    let run = Bench::new(&study(&canary("slow", "200ms"), load, 1)).run().ended_well();
    let trial = run.trial();
    let search = &trial["search"];
    assert_eq!(search["result"]["found"], "nothing");
    let tries = array(&search["tries"]).iter();
    let mut rates: Vec<f64> = tries.filter_map(|one| one["rate_per_second"].as_f64()).collect();
    rates.dedup(); // each is tried until two tries agree
    assert_eq!(rates, [40.0, 20.0], "with fewer operations nothing would be known of a median");
    assert_eq!(figure(trial, "highest_rate_per_second"), 0.0);
    let sentence = text(&run.report["comparisons"][0]["sentence"]);
    if !reasons(trial).is_empty() {
        skipped("a search without a kept rate has no findings: other work spoilt its trial");
        return assert!(sentence.contains("slow has no valid trial"), "{sentence}");
    }
    let says = "slow kept its objective at no rate under reads/limit";
    assert!(sentence.contains(says), "{sentence}");
    let findings =
        text(&run.report["findings"][0]).to_owned() + &run.report["findings"].to_string();
    assert!(findings.contains("at no rate, down to 20/s"), "{findings}");
    let shown = CommandOutput::run(
        crate::support::bakeoff().args(["report", "--all"]).arg(&run.bench.runs()[0]),
    )
    .stdout;
    let row = shown.lines().find(|line| line.starts_with(" highest rate that keeps")).unwrap();
    assert!(row.trim_end().ends_with("none"), "{row}");
}

#[test]
fn try_next_to_a_busy_neighbour_is_void() {
    let _alone = search();
    // Other work on this machine may hide the neighbour.
    let misses: Vec<String> = (0..3).map_while(|_| next_to_busy_neighbours().err()).collect();
    assert!(misses.len() < 3, "in none of 3 attempts: {misses:#?}");
}

/// Runs a search next to busy neighbours, from a rate that is kept to twice that rate. Returns a try that misses them,
/// or that is not void although it failed.
fn next_to_busy_neighbours() -> Result<(), String> {
    let bench = Bench::new(&study(&canary("one", "50ms"), &LOAD.replace("150/s", "300/s"), 1));
    // One per CPU, to stand out among other neighbours.
    let neighbours = [(); 2].map(|()| Busy::begin(&["sh"]).expect("there is `sh`"));
    let mut command = bench.command();
    interrupt_after(3, command.arg("--json").env_remove("BAKEOFF_SHARED_MACHINE"), &bench);
    drop(neighbours);
    let record = bench.record();
    let trial = record.iter().find(|line| line["line"] == "trial").expect("there is a trial");
    let stages = array(&trial["stages"]);
    for stage in stages {
        let tried = &stage["tried"];
        let kept = tried["broken_by"].as_array().is_none_or(Vec::is_empty);
        let reasons = array(&tried["disturbed_by"]);
        let named = |why: &Value| {
            text(why).contains("of this machine's CPU time") && text(why).contains("`sh` (")
        };
        if !reasons.iter().any(named) || tried["void"] != !kept {
            return Err(tried.to_string());
        }
    }
    let broken = stages.iter().find(|stage| stage["tried"]["void"] == true);
    broken.map(drop).ok_or_else(|| format!("no try was broken: {trial}"))
}

#[test]
fn interrupted_search_keeps_its_tries() {
    let _alone = search();
    let bench = Bench::new(&study(&canary("quick", "50ms"), LOAD, 2));
    interrupt_after(2, &mut bench.command(), &bench);
    let record = bench.record();
    let trial = &record[1];
    assert_eq!(trial["outcome"]["ended"], "interrupted");
    assert_eq!(trial["found"], Value::Null);
    let stages = array(&trial["stages"]);
    assert!(stages.len() >= 2 && stages[0]["tried"]["rate"] == 150.0, "{stages:?}");
    assert!(stages.iter().all(|stage| stage["tried"].is_object()), "{stages:?}");
    // The interrupted run can be rendered.
    let shown = CommandOutput::run(
        crate::support::bakeoff().arg("report").arg(&bench.runs()[0]).arg("--json"),
    );
    assert!(shown.stdout.contains("interrupted before its end"), "{}", shown.stderr);
}

/// Runs a search, and interrupts it after a number of reported tries.
fn interrupt_after(tries: usize, command: &mut Command, bench: &Bench) {
    let log = bench.path().join("stderr");
    command.stdout(std::process::Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    crate::support::wait_for("as many tries", Duration::from_secs(60), || {
        std::fs::read_to_string(&log).unwrap().matches("/s: ").count() >= tries
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    crate::support::nothing_runs_in(bench.path());
}
