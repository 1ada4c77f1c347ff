//! What a coordinator costs as generators are added: its memory grows by little for each.
//!
//! CPU time is looked at by hand (docs/scale.md): a test has no machine to itself.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use libtest_mimic::Trial;

use crate::support::hosts::Hosts;
use crate::support::skip::{Lacking, Skipped};

pub(crate) fn tests(skipped: &Skipped) -> Vec<Trial> {
    let name = "machines_scale::coordinator_grows_by_little_for_each_generator";
    vec![skipped.unless_lacking(name, memory_of_a_coordinator)]
}

const STUDY: &str = "\
title: Many generators
systems:
  canary: {kind: canary, nodes: 3, options: {sync: none}}
workloads:
  mixed: {mix: {put: 1, get: 1}, keys: {count: 1000, order: uniform}, values: {size: 64}}
loads:
  steady: {rate: 500/s, clients: 20, stop: {after: 3s}}
trials: 1
";
/// The most that a coordinator may grow by for each generator. The aim is 2 MiB (docs/scale.md has what was seen); a
/// debug build's memory scatters by half of one.
const GROWTH_MAX: u64 = 3 << 20;

/// Most memory that a run's coordinator had, in bytes, and its CPU time in seconds.
fn cost(hosts: &Hosts, study: &Path, places: &Path) -> (u64, f64) {
    let mut command = hosts.command(env!("CARGO_BIN_EXE_bakeoff"));
    command.arg("run").arg(study).arg("--on").arg(places).args(["--shared-machine", "--out"]);
    command.arg(hosts.dir().join("runs")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let (mut most, mut cpu) = (0, 0.0);
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        most = most.max(kib.unwrap_or(0) << 10);
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        if let Some((_, rest)) = stat.rsplit_once(") ") {
            let used = rest.split(' ').skip(11).take(2).filter_map(|word| word.parse::<f64>().ok());
            cpu = used.sum::<f64>() / ticks;
        }
        if let Some(ended) = child.try_wait().unwrap() {
            assert!(matches!(ended.code(), Some(0 | 1)), "{ended}");
            return (most, cpu);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn memory_of_a_coordinator() -> Result<(), Lacking> {
    let hosts = Hosts::new(8)?;
    let study = hosts.dir().join("study.yaml");
    fs::write(&study, STUDY).unwrap();
    let mut costs = Vec::new();
    for generators in [1, 5] {
        let generators: Vec<usize> = (4..4 + generators).collect();
        let places = hosts.places(&[1, 2, 3], &generators);
        costs.push(cost(&hosts, &study, &places));
    }
    let [(one, _), (five, _)] = costs[..] else { unreachable!("two runs") };
    assert!(five.saturating_sub(one) <= 4 * GROWTH_MAX, "{costs:?}");
    if std::env::var_os("BAKEOFF_SCALE").is_some() {
        return Err(Lacking::Machine(format!("only asked for figures: {costs:?}")));
    }
    Ok(())
}
