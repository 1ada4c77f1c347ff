//! Tests the cost of generators to a coordinator: its memory grows little for each.
//!
//! Tests share the machine, so this one only checks memory. `figures` measures more sizes with CPU time, and draws the
//! picture of `docs/machines.md`, which has the command.

mod figures;
mod pair;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libtest_mimic::Trial;
use serde_json::Value;

use crate::support::hosts::Hosts;
use crate::support::skip::{SkipReason, SkippedTests};

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    let name = "machines_scale::coordinator_grows_by_little_for_each_generator";
    let mut tests = vec![skipped.unless_lacking(name, memory_of_a_coordinator)];
    // Take minutes, and run only by name.
    if let Some(out) = std::env::var_os("BAKEOFF_SCALE").map(PathBuf::from) {
        let program = std::env::var_os("BAKEOFF_PROGRAM").map(PathBuf::from);
        let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_bakeoff").into());
        fs::create_dir_all(&out).unwrap();
        let (to, by) = (out.clone(), program.clone());
        let figures = move || figures::take(&program, &out);
        tests.push(skipped.unless_lacking("machines_scale::figures", figures));
        tests.push(skipped.unless_lacking("machines_scale::pairs", move || pair::take(&by, &to)));
    }
    tests
}

/// Returns a study with small operations, with a length in seconds and a number of servers.
fn study(servers: usize, seconds: u64) -> String {
    // A canary has at most five nodes.
    let system = match servers {
        0..=5 => format!("{{kind: canary, nodes: {servers}, options: {{sync: none}}}}"),
        _ => format!("{{kind: etcd, nodes: {servers}}}"),
    };
    format!(
        "\
title: Many generators
systems:
  servers: {system}
workloads:
  mixed: {{mix: {{put: 1, get: 1}}, keys: {{count: 1000, order: uniform}}, values: {{size: 64}}}}
loads:
  steady: {{rate: 500/s, clients: 40, stop: {{after: {seconds}s}}}}
trials: 1
"
    )
}

/// Maximum growth of a coordinator per generator in bytes (docs/machines.md has measurements).
const GROWTH_MAX: u64 = 2 << 20;

/// Cost of a run to its coordinator.
struct Cost {
    /// Maximum memory in bytes.
    memory: u64,
    /// CPU seconds at each sample, with the time of day.
    cpu: Vec<(f64, f64)>,
    /// CPU seconds of all `ssh` processes at each sample.
    carriers_cpu: Vec<(f64, f64)>,
    /// Maximum total memory of all `ssh` processes.
    carriers_memory: u64,
}

impl Cost {
    /// Runs a study and samples its coordinator.
    fn watch(hosts: &Hosts, program: &Path, study: &Path, places: &Path) -> Self {
        let runs = hosts.dir().join("runs");
        fs::remove_dir_all(&runs).ok();
        let mut command = hosts.command(&program.display().to_string());
        command.arg("run").arg(study).arg("--on").arg(places).args(["--shared-machine", "--out"]);
        let stderr = fs::File::create(hosts.dir().join("stderr")).unwrap();
        let mut child = command.arg(runs).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
        let pid = child.id();
        let mut cost =
            Self { memory: 0, cpu: Vec::new(), carriers_cpu: Vec::new(), carriers_memory: 0 };
        loop {
            cost.memory = cost.memory.max(memory(pid, "VmHWM:"));
            let at = time_of_day();
            cost.cpu.extend(cpu(pid).map(|cpu| (at, cpu)));
            let carriers = children(pid);
            let used: f64 = carriers.iter().filter_map(|&pid| cpu(pid)).sum();
            cost.carriers_cpu.push((at, used));
            let held = carriers.iter().map(|&pid| memory(pid, "VmRSS:")).sum();
            cost.carriers_memory = cost.carriers_memory.max(held);
            if let Some(ended) = child.try_wait().unwrap() {
                let stderr = fs::read_to_string(hosts.dir().join("stderr")).unwrap_or_default();
                // 1 means not valid, which a shared machine causes at times.
                assert!(matches!(ended.code(), Some(0 | 1)), "{ended}: {stderr}");
                return cost;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Returns a field of a process's status, in bytes.
fn memory(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
}

/// Returns the CPU time of a process, in seconds.
fn cpu(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let used = rest.split(' ').skip(11).take(2).filter_map(|word| word.parse::<f64>().ok());
    Some(used.sum::<f64>() / rustix::param::clock_ticks_per_second() as f64)
}

/// Returns the children of a process, by any of its threads.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split(' ').filter_map(|word| word.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Returns the seconds since midnight in UTC.
fn time_of_day() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs_f64() % 86_400.0
}

/// Returns the start and the end of the only trial's load as times of day. The start is exact to a second.
fn load_of(hosts: &Hosts) -> (f64, f64) {
    let run = fs::read_dir(hosts.dir().join("runs")).unwrap().flatten().next().unwrap();
    let record = fs::read_to_string(run.path().join("record.jsonl")).unwrap();
    let lines = record.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let trial = lines.into_iter().find(|line| line["line"] == "trial").unwrap();
    let started = trial["started"].as_str().unwrap();
    let clock = started.split(['T', 'Z']).nth(1).unwrap();
    let began = clock.split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap());
    let phases = trial["observed"]["phases"].as_array().unwrap();
    let load = phases.iter().find(|phase| phase["name"] == "load").unwrap();
    let time = |field: &str| load[field].as_f64().unwrap();
    (began + 1.0 + time("from"), began + time("to"))
}

fn memory_of_a_coordinator() -> Result<(), SkipReason> {
    let hosts = Hosts::bare(8)?;
    let file = hosts.dir().join("study.yaml");
    fs::write(&file, study(3, 3)).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_bakeoff"));
    let cost = |generators: usize| {
        let generators: Vec<usize> = (4..4 + generators).collect();
        let places = hosts.places(&[1, 2, 3], &generators);
        Cost::watch(&hosts, program, &file, &places).memory
    };
    let (one, five) = (cost(1), cost(5));
    assert!(five.saturating_sub(one) <= 4 * GROWTH_MAX, "{one} and {five} bytes");
    Ok(())
}
