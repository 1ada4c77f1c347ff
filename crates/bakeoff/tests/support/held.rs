//! Runs a bakeoff with child processes, for tests that kill it.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// A bakeoff with two nodes, each with one child in its own session and one in the node's.
pub(crate) struct NodesWithChildren {
    pub(crate) bakeoff: Child,
    pub(crate) warden: i32,
    pub(crate) nodes: Vec<i32>,
    children: Vec<i32>,
    _dir: tempfile::TempDir,
}

/// Shell script of a node: ignores signals, and prints its children's ids.
pub(crate) const NODE: &str = "trap '' TERM INT HUP; sleep 600 & echo $!; setsid sleep 600 & echo $!; \
                    while :; do sleep 600; done";

pub(crate) fn hold() -> NodesWithChildren {
    hold_so("2")
}

/// Starts it with the first argument `how` of `__hold`.
pub(crate) fn hold_so(how: &str) -> NodesWithChildren {
    let dir = tempfile::tempdir().unwrap();
    // Background test runs ignore SIGINT, and children inherit that.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,HUP,TERM,QUIT", env!("CARGO_BIN_EXE_bakeoff")]);
    command.arg("__hold").arg(dir.path()).args([how, "sh", "-c", NODE]);
    // Its own group, so that a test can signal the group like a terminal.
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
    let held = NodesWithChildren {
        bakeoff,
        warden: ids[0],
        nodes: ids[1..].to_vec(),
        children,
        _dir: dir,
    };
    assert!(held.nodes.iter().chain(&held.children).all(|&id| runs(id)), "all run at first");
    assert!(runs(held.warden));
    held
}

impl NodesWithChildren {
    pub(crate) fn ends_by(mut self, signal: Signal) {
        let pid = Pid::from_child(&self.bakeoff);
        kill_process(pid, signal).unwrap();
        self.bakeoff.wait().unwrap();
        self.leaves_nothing();
    }

    pub(crate) fn leaves_nothing(&self) {
        for (what, ids) in [("node", &self.nodes), ("child", &self.children)] {
            for &id in ids {
                wait_for(&format!("the end of {what} {id}"), || !runs(id));
            }
        }
        wait_for("the end of the warden", || !runs(self.warden));
    }
}

impl Drop for NodesWithChildren {
    /// A failed test must not leave processes.
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

/// Returns true if a process exists and is not a zombie.
pub(crate) fn runs(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" Z"))
}

pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{what} did not come to be within 30 s");
}
