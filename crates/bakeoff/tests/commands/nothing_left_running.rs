//! Kills bakeoff in every way that a user can, and looks for servers that still run.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// A bakeoff that runs two nodes, each with a child in a session of its own and one that is not.
struct Held {
    bakeoff: Child,
    warden: i32,
    nodes: Vec<i32>,
    children: Vec<i32>,
    _dir: tempfile::TempDir,
}

/// Each node ignores what it can, and prints the ids of its children.
const NODE: &str = "trap '' TERM INT HUP; sleep 600 & echo $!; setsid sleep 600 & echo $!; \
                    while :; do sleep 600; done";

fn hold() -> Held {
    hold_so("2")
}

/// `how`: as `__hold` takes it.
fn hold_so(how: &str) -> Held {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    command.arg("__hold").arg(dir.path()).args([how, "sh", "-c", NODE]);
    // A group of its own, so that a test can signal the group as a terminal does.
    let mut bakeoff = command.stdout(Stdio::piped()).process_group(0).spawn().unwrap();
    let out = BufReader::new(bakeoff.stdout.take().unwrap());
    let ids = out.lines().take(3).map(|line| line.unwrap().parse().unwrap()).collect::<Vec<_>>();
    let mut children = Vec::new();
    wait_for("the children", || {
        let logs = (1..=2).map(|n| dir.path().join(format!("logs/node-{n}.log")));
        let text = logs.filter_map(|log| std::fs::read_to_string(log).ok()).collect::<String>();
        children = text.lines().filter_map(|line| line.parse().ok()).collect();
        children.len() == 4
    });
    let held = Held { bakeoff, warden: ids[0], nodes: ids[1..].to_vec(), children, _dir: dir };
    assert!(held.nodes.iter().chain(&held.children).all(|&id| runs(id)), "all run at first");
    assert!(runs(held.warden));
    held
}

impl Held {
    fn ends_by(mut self, signal: Signal) {
        let pid = Pid::from_child(&self.bakeoff);
        kill_process(pid, signal).unwrap();
        self.bakeoff.wait().unwrap();
        self.leaves_nothing();
    }

    fn leaves_nothing(&self) {
        for (what, ids) in [("node", &self.nodes), ("child", &self.children)] {
            for &id in ids {
                wait_for(&format!("the end of {what} {id}"), || !runs(id));
            }
        }
        wait_for("the end of the warden", || !runs(self.warden));
    }
}

impl Drop for Held {
    /// A failed test must not leave what it complains of.
    fn drop(&mut self) {
        let _ = self.bakeoff.kill();
        let _ = self.bakeoff.wait();
        for &group in &self.nodes {
            let _ = kill_process_group(Pid::from_raw(group).unwrap(), Signal::KILL);
        }
        for id in self.nodes.iter().chain(&self.children).chain([&self.warden]) {
            if runs(*id) {
                let _ = kill_process(Pid::from_raw(*id).unwrap(), Signal::KILL);
            }
        }
    }
}

/// Whether a process is there and no zombie.
fn runs(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" Z"))
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{what} did not come to be within 10 s");
}

#[test]
fn kill_9_of_bakeoff_leaves_nothing_running() {
    hold().ends_by(Signal::KILL);
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
fn the_warden_ignores_what_asks_it_to_end() {
    let held = hold();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        kill_process(Pid::from_raw(held.warden).unwrap(), signal).unwrap();
    }
    std::thread::sleep(Duration::from_millis(100));
    assert!(runs(held.warden));
    held.ends_by(Signal::KILL);
}

#[test]
fn without_its_warden_the_servers_themselves_still_die_with_bakeoff() {
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
fn a_shim_whose_parent_is_gone_runs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("made");
    let mut shim = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    // Process 1 is not this shim's parent, as bakeoff would not be had it died meanwhile.
    shim.args(["__exec", "--parent", "1", "--", "touch"]).arg(&made).stdin(Stdio::null());
    assert_eq!(shim.status().unwrap().code(), Some(126));
    assert!(!made.exists());
}

#[test]
fn nodes_that_refuse_to_be_root_end_with_bakeoff() {
    // Where tests run as an ordinary user this is the same as without.
    hold_so("2,never-root").ends_by(Signal::KILL);
}

#[test]
fn what_runs_before_a_node_ends_with_bakeoff() {
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
