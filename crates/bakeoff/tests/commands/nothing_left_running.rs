//! Kills bakeoff in every way that a user can, and checks that no server is left.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::support::Bench;
use crate::support::held::{NODE, hold, runs, wait_for};

#[test]
fn kill_9_of_bakeoff_leaves_nothing_running() {
    hold().ends_by(Signal::KILL);
}

#[test]
fn kill_9_of_a_run_leaves_record_and_logs_but_no_data() {
    let bench = Bench::new(
        "title: t\nsystems:\n  one: {kind: canary}\nworkloads:\n  work: {mix: {put: 1}, keys: {count: 100}}\n\
         loads:\n  load: {clients: 1, warmup: 0s, stop: {after: 60s}}\ntrials: 1\n",
    );
    let mut child = bench.command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let trial = || Some(bench.runs().first()?.join("trials/01-one-work-load"));
    let has = |name: &str| trial().is_some_and(|trial| trial.join(name).exists());
    wait_for("data", || has("nodes/one-1"));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the end of the data", || !has("nodes/one-1"));
    assert!(has("logs") && bench.runs()[0].join("record.jsonl").exists());
    crate::support::nothing_runs_in(bench.path());
}

#[test]
fn sigterm_sighup_and_sigint_of_bakeoff_leave_nothing_running() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        hold().ends_by(signal);
    }
}

#[test]
fn ctrl_c_in_the_terminal_leaves_nothing_running() {
    let mut held = hold();
    kill_process_group(Pid::from_child(&held.bakeoff), Signal::INT).unwrap();
    held.bakeoff.wait().unwrap();
    held.leaves_nothing();
}

#[test]
fn warden_ignores_termination_signals() {
    let held = hold();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        kill_process(Pid::from_raw(held.warden).unwrap(), signal).unwrap();
    }
    std::thread::sleep(Duration::from_millis(100));
    assert!(runs(held.warden));
    held.ends_by(Signal::KILL);
}

#[test]
fn servers_die_with_bakeoff_even_without_a_warden() {
    let mut held = hold();
    kill_process(Pid::from_raw(held.warden).unwrap(), Signal::KILL).unwrap();
    wait_for("the end of the warden", || !runs(held.warden));
    assert!(held.nodes.iter().all(|&id| runs(id)), "they do not need it to live");
    held.bakeoff.kill().unwrap();
    held.bakeoff.wait().unwrap();
    for &id in &held.nodes {
        wait_for("the end of a node", || !runs(id));
    }
}

#[test]
fn shim_without_its_parent_runs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("made");
    let mut shim = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    // Process 1 is not this shim's parent, as if bakeoff had died meanwhile.
    shim.args(["__exec", "--parent", "1", "--", "touch"]).arg(&made).stdin(Stdio::null());
    assert_eq!(shim.status().unwrap().code(), Some(126));
    assert!(!made.exists());
}

#[test]
fn preparation_commands_end_with_bakeoff() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    let script = format!("echo $$; {NODE}");
    command.arg("__hold").arg(dir.path()).args(["1,before", "sh", "-c", &script]);
    let mut bakeoff = command.stdout(Stdio::null()).process_group(0).spawn().unwrap();
    let mut ids: Vec<i32> = Vec::new();
    wait_for("its processes", || {
        let log = std::fs::read_to_string(dir.path().join("logs/node-1.log")).unwrap_or_default();
        ids = log.lines().filter_map(|line| line.parse().ok()).collect();
        ids.len() == 3
    });
    assert!(ids.iter().all(|&id| runs(id)), "all run at first");
    kill_process(Pid::from_child(&bakeoff), Signal::KILL).unwrap();
    bakeoff.wait().unwrap();
    for id in ids {
        wait_for(&format!("the end of {id}"), || !runs(id));
    }
}
