//! `bakeoff __warden MARK [SECONDS]`: kills every server once bakeoff is gone, however it ended.
//!
//! It reads lines from a pipe that only bakeoff holds: `watch GROUP START`, `forget GROUP`, `folder PATH`, `group
//! PATH`, `keep folder PATH` and `keep group PATH`, with paths in hexadecimal. When the pipe closes, it kills the
//! watched groups and every process with bakeoff's mark in its environment. Servers fork helpers, and some open
//! sessions of their own, while the parent-death signal (`shim`) reaches only the server. Then it removes the servers'
//! folders and cgroups that are left. A bakeoff that ends in order has already done all this.
//!
//! With SECONDS, it also kills a bakeoff that has been stopped for that long: an agent that no longer reads.
//!
//! Ctrl-C and signals to bakeoff's group do not end it: it has its own session and ignores termination signals.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_files as files;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::cgroup;
use super::procfs::{self, Stat};
use super::warden_line::{Leftover, MARK, READY};

pub(super) fn run(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let mark = args.next().unwrap_or_default();
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        // A handler that only sets a flag ignores the signal.
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
    // Fails only for the leader of a group, which needs it less.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"bakeoff-warden");
    if write_ready().is_err() {
        return ExitCode::FAILURE;
    }
    if let Some(seconds) = args.next().and_then(|text| text.to_str()?.parse().ok()) {
        let mark = mark.clone();
        std::thread::spawn(move || end_if_stopped(&mark, seconds));
    }

    let mut watched = std::collections::BTreeMap::<i32, u64>::new();
    let mut leftovers = Vec::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["watch", group, start] => {
                if let (Ok(group), Ok(start)) = (group.parse(), start.parse()) {
                    watched.insert(group, start);
                }
            }
            [kind @ ("folder" | "group"), path] => leftovers.extend(Leftover::read(kind, path)),
            ["keep", kind, path] => {
                let kept = Leftover::read(kind, path);
                leftovers.retain(|leftover| Some(leftover) != kept.as_ref());
            }
            ["forget", group] => drop(group.parse().map(|group: i32| watched.remove(&group))),
            _ => {}
        }
    }

    let marked = [MARK.as_bytes(), b"=", mark.as_encoded_bytes()].concat();
    let all_ended = end_all(&watched, &marked);
    leftovers.iter().for_each(remove);
    if all_ended { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Kills the marked bakeoff once it has been stopped for `seconds`; its pipe then closes.
fn end_if_stopped(mark: &OsStr, seconds: u32) {
    let numbers = mark.to_str().and_then(|mark| mark.split_once('.'));
    let (pid, start) = numbers.unwrap_or_default();
    let (Ok(pid), Ok(start)) = (pid.parse(), start.parse::<u64>()) else { return };
    let mut stopped = 0;
    while let Some(stat) = procfs::stat(pid).filter(|stat| stat.start_ticks == start) {
        stopped = if stat.state == b'T' { stopped + 1 } else { 0 };
        if stopped > seconds {
            procfs::kill(&stat);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Kills the servers' processes that are left. Returns true if none is left.
fn end_all(watched: &std::collections::BTreeMap<i32, u64>, marked: &[u8]) -> bool {
    // Repeat: a process may fork between the scan and the kill.
    for _ in 0..100 {
        let left = left_running(watched, marked);
        if left.is_empty() {
            return true;
        }
        left.iter().for_each(procfs::kill);
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Removes a leftover. Ignores errors, because no one is left to report them to.
fn remove(leftover: &Leftover) {
    match leftover {
        Leftover::Folder(path) => {
            // A link in its place leads to something that is not ours.
            if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                files::remove(path).ok();
            }
        }
        Leftover::Group(path) => cgroup::remove_when_left(path),
    }
}

fn write_ready() -> std::io::Result<()> {
    let mut out = std::io::stdout();
    out.write_all(READY.as_bytes())?;
    out.flush()
}

fn left_running(watched: &std::collections::BTreeMap<i32, u64>, marked: &[u8]) -> Vec<Stat> {
    let us = std::process::id() as i32;
    let all = procfs::pids().into_iter().filter_map(procfs::stat);
    all.filter(|stat| {
        stat.pid != us && stat.lives() && (in_a_group(stat, watched) || is_marked(stat, marked))
    })
    .collect()
}

/// Returns true if a process is in a watched group, and the group's ID was not reused.
fn in_a_group(stat: &Stat, watched: &std::collections::BTreeMap<i32, u64>) -> bool {
    let Some(&start) = watched.get(&stat.group) else { return false };
    match procfs::stat(stat.group) {
        Some(leader) => leader.start_ticks == start,
        // The leader is gone. Its ID stays taken while the group has members, and each of them started after the
        // leader. An older process means that the ID was reused.
        None => stat.start_ticks >= start,
    }
}

/// Returns true if a process was started with this variable, `NAME=VALUE`, in its environment.
pub(super) fn is_marked(stat: &Stat, marked: &[u8]) -> bool {
    // Readable for our own user's processes, which are those that we may kill.
    std::fs::read(format!("/proc/{}/environ", stat.pid))
        .is_ok_and(|environ| environ.split(|&b| b == 0).any(|variable| variable == marked))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};

    use bakeoff_clock as clock;
    use rustix::process::{Pid, Signal, kill_process};

    use super::*;
    use crate::{launcher, warden_line};

    #[test]
    fn a_recycled_process_id_is_never_killed() {
        // Its own group: the leader of the test runner's group may be gone.
        let mut sleeper = std::process::Command::new("sleep");
        let mut sleeper = sleeper.arg("60").process_group(0).spawn().unwrap();
        let leader = procfs::stat(sleeper.id() as i32).unwrap();
        let in_group_since = |start| in_a_group(&leader, &[(leader.group, start)].into());
        let start = leader.start_ticks;
        let found = [start, start + 1, start.wrapping_sub(1)].map(in_group_since);
        sleeper.kill().and_then(|()| sleeper.wait()).unwrap();
        assert_eq!(found, [true, false, false]);
    }

    /// Kills a test's processes, even if the test panics.
    struct KillOnDrop(Child);

    impl Drop for KillOnDrop {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn stopped_process_is_killed_only_with_a_time_limit() {
        let guarded = |seconds: &[&str]| {
            let sleeper = KillOnDrop(Command::new("sleep").arg("60").spawn().unwrap());
            let start = procfs::stat(sleeper.0.id() as i32).unwrap().start_ticks;
            let mut warden = launcher::ourselves();
            warden.args([warden_line::COMMAND, &format!("{}.{start}", sleeper.0.id())]);
            // Its input stays open, as that of a stopped agent does.
            warden.args(seconds).stdin(Stdio::piped()).stdout(Stdio::null());
            (sleeper, KillOnDrop(warden.spawn().unwrap()))
        };
        let mut all = [guarded(&["1"]), guarded(&[]), guarded(&["1"])];
        for (sleeper, _) in &all[..2] {
            kill_process(Pid::from_child(&sleeper.0), Signal::STOP).unwrap();
        }
        let until = clock::now() + Duration::from_secs(20);
        while all[0].0.0.try_wait().unwrap().is_none() {
            assert!(clock::now() < until, "the stopped one lives");
            std::thread::sleep(Duration::from_millis(20));
        }
        for (sleeper, _) in &mut all[1..] {
            assert!(sleeper.0.try_wait().unwrap().is_none(), "one that is no agent, or runs");
        }
    }
}
