//! Compares the linearizability check with porcupine, on histories of real etcd and ZooKeeper, and of canaries that
//! violate it.
//!
//! Porcupine is the checker of etcd's own robustness tests. It searches for an order, while bakeoff compares zones.
//!
//! Not here: the check against canaries (`tests/commands`), against a search on random histories
//! (`bakeoff_core::linearizability`).

use std::process::Command;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::contract::ETCD_ALONE;
use crate::support::case::{Case, case, with};
use crate::support::go_tool::{GoMain, GoTool};
use crate::support::skip::{SkipReason, SkippedTests};
use crate::support::{Bench, CommandOutput, text};

const PORCUPINE: GoTool = GoTool {
    name: "porcupine",
    requires: &["github.com/anishathalye/porcupine@v1.3.1"],
    main: GoMain::Text(include_str!("porcupine/main.go")),
    tags: "",
};

const ETCD: Case = Case { needs: &["go"], ..case("etcd", "3.6", 3) };
const ZOOKEEPER: Case = case("zookeeper", "3.9", 3);

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    vec![
        with("porcupine_judges_histories_as_bakeoff_does", ETCD_ALONE, skipped, judges_alike),
        with("porcupine_judges_histories_as_bakeoff_does", ETCD, skipped, judges_alike),
        with("porcupine_judges_histories_as_bakeoff_does", ZOOKEEPER, skipped, judges_alike),
        skipped.unless_lacking("porcupine_judges_histories_of_canaries_as_bakeoff_does", canaries),
    ]
}

/// Runs a study that keeps histories, and compares the verdicts of each trial. Returns the trials.
fn compared(systems: &str, mix: &str, load: &str) -> Result<Vec<Value>, SkipReason> {
    let porcupine = PORCUPINE.program()?;
    let bench = Bench::new(&format!(
        "title: Histories\nsystems:\n{systems}workloads: {{work: {{mix: {mix}, keys: {{count: 10}}, \
         values: {{size: 64}}, fill: false}}}}\nloads: {{load: {load}}}\n\
         audit: {{kill: at-rest, linearizability: true, history: true}}\ntrials: 1\n"
    ));
    let ran = CommandOutput::run(bench.command().args(["--threads", "2"]));
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let trials: Vec<Value> =
        bench.record().into_iter().filter(|line| line["line"] == "trial").collect();
    for trial in &trials {
        let judged = &trial["linearizability"];
        let file = bench.runs()[0].join(text(&judged["file"]));
        let theirs = CommandOutput::run(Command::new(&porcupine).arg(&file)).ends_with(0).stdout;
        let count = |verdict: &str| {
            theirs.lines().filter(|line| line.split(' ').next() == Some(verdict)).count() as u64
        };
        let ours = |name: &str| judged[name].as_u64().unwrap_or(0);
        // Keys with a delete of unknown outcome are not always judged.
        let open = ours("keys_deleted");
        let between = |count: u64, least: u64| (least..=least + open).contains(&count);
        assert!(between(count("violated"), ours("keys_violated")), "{judged}\n{theirs}");
        assert!(
            between(count("linearizable"), ours("keys") - ours("keys_violated")),
            "{judged}\n{theirs}"
        );
        let shown = format!("violated {}", text(&judged["violation"]["key"]));
        assert!(judged["violation"].is_null() || theirs.contains(&shown), "{shown}: {theirs}");
    }
    Ok(trials)
}

fn judges_alike(case: &Case) -> Result<(), SkipReason> {
    let mix = "{put: 40, get: 40, compare-and-set: 20}";
    let deletes = "{put: 30, get: 30, compare-and-set: 20, delete: 20}";
    // Some operations time out.
    for (mix, timeout) in [(mix, "10s"), (mix, "12ms"), (deletes, "10s"), (deletes, "12ms")] {
        let load = format!(
            "{{clients: 8, warmup: 0s, stop: {{after: 2s}}, timeout: {timeout}, errors-max: 100%}}"
        );
        let trials = compared(&format!("  {}\n", case.in_study()), mix, &load)?;
        let judged = &trials[0]["linearizability"];
        // On a busy machine most operations of 12 ms time out.
        assert!(judged["operations"].as_u64().unwrap() > 40, "{judged}");
        // A key with a delete of unknown outcome may not be judged, and on a busy machine each has one.
        let is_judged = (mix, timeout) != (deletes, "12ms") || judged["keys"] != 0;
        let found = if is_judged { "linearizable" } else { "not-checked" };
        assert_eq!(judged["found"], found, "{judged}");
        if (mix, timeout) != (deletes, "12ms") {
            assert_eq!(judged["keys"], 10, "{judged}");
        }
    }
    Ok(())
}

fn canaries() -> Result<(), SkipReason> {
    let canary = |name: &str, options: &str| {
        format!("  {name}: {{kind: canary, nodes: 3, options: {{sync: none, {options}}}}}\n")
    };
    let systems = [
        canary("stale-read", "stale: 0.3%"),
        canary("lost-update", "lose: 0.3%"),
        canary("dirty-read", "dirty: 0.3%"),
        canary("reordering", "reorder: 0.3%"),
        canary("split-brain", "split-after: 800ms"),
        canary("honest", "error: 2%, refuse: 1%, deny: 2%, delay: 60ms, delay-share: 2%"),
    ];
    let load =
        "{clients: 6, warmup: 0s, stop: {operations: 20000}, timeout: 30ms, errors-max: 100%}";
    for mix in ["{put: 50, get: 50}", "{put: 40, get: 40, delete: 20}"] {
        judges_canaries_alike(&systems.concat(), mix, load)?;
    }
    Ok(())
}

fn judges_canaries_alike(systems: &str, mix: &str, load: &str) -> Result<(), SkipReason> {
    let trials = compared(systems, mix, load)?;
    let judged = trials.iter().map(|trial| (&trial["trial"]["system"], &trial["linearizability"]));
    let violated = judged.filter(|(_, judged)| judged["found"] == "violated");
    let violated: Vec<&str> = violated.map(|(system, _)| text(system)).collect();
    assert!(violated.len() >= 3 && !violated.contains(&"honest"), "{violated:?}");
    Ok(())
}
