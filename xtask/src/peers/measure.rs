//! Runs a program to its end and tells what it used.
//!
//! CPU time is read from `/proc/PID/stat` when the process has ended and before it is reaped: then
//! it is whole, all threads and all children that were waited for included. Linux gives it in ticks
//! of `CLK_TCK`, commonly 10 ms, so runs should use seconds. Peak memory is the kernel's high-water
//! mark (`VmHWM`), which is gone once the process has ended; it is read every few milliseconds, and
//! as a mark never falls, only growth in the last of them can be missed.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::Failure;

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What a process used from its start to its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    /// User and system, all threads.
    pub(super) cpu: Duration,
    pub(super) rss_bytes_max: u64,
}

/// Lets this thread, and what it starts from now on, run on one CPU; all that it may, for `None`.
pub(super) fn pin(cpu: Option<usize>, allowed: &CpuSet) -> Result<(), Failure> {
    let set = match cpu {
        None => *allowed,
        Some(cpu) => {
            let mut set = CpuSet::new();
            set.set(cpu);
            set
        }
    };
    sched_setaffinity(None, &set).map_err(|error| format!("cannot choose CPUs: {error}"))
}

/// Runs `command` with its output in `log`; an exit code other than 0 is a failure.
pub(super) fn run(mut command: Command, log: &Path) -> Result<(Used, String), Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let cannot = |what: &str, error: &dyn std::fmt::Display| format!("cannot {what}: {error}");
    let file = File::create(log).map_err(|error| cannot("write a log", &error))?;
    let errors = file.try_clone().map_err(|error| cannot("write a log", &error))?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .spawn()
        .map_err(|error| cannot(&format!("run `{name}`"), &error))?;
    let used = watch(&child);
    if used.is_err() {
        child.kill().ok();
    }
    let status = child.wait().map_err(|error| cannot("wait for a process", &error))?;
    let output = fs::read(log).map_err(|error| cannot("read a log", &error))?;
    let output = String::from_utf8_lossy(&output).into_owned();
    if !status.success() {
        let end: Vec<&str> = output.lines().rev().take(12).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        return Err(format!("`{name}` ended with {status}\n  {}", end.join("\n  ")));
    }
    Ok((used?, output))
}

/// Waits for the end without reaping.
fn watch(child: &Child) -> Result<Used, Failure> {
    let pid = Pid::from_child(child);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let mut rss_bytes_max = 0;
    loop {
        let ended =
            waitid(WaitId::Pid(pid), options).map_err(|error| format!("waitid: {error}"))?;
        if ended.is_some() {
            let cpu = cpu_of(child.id()).ok_or("cannot read what a process used")?;
            return Ok(Used { cpu, rss_bytes_max });
        }
        rss_bytes_max = rss_bytes_max.max(high_water(child.id()).unwrap_or(0));
        thread::sleep(LOOK_EVERY);
    }
}

fn high_water(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// `proc_pid_stat(5)`, fields 14 to 17: own and waited-for children's time, user and system.
fn cpu_of(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = &stat[stat.rfind(')')? + 1..]; // begins with field 3
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(14 - 3)
        .take(4)
        .map(|field| field.parse::<u64>().ok())
        .sum::<Option<u64>>()?;
    Some(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_works_is_seen_to_have_used_cpu_and_memory() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut shell = Command::new("sh");
        shell.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done"]);
        let (used, output) = run(shell, &dir.path().join("log")).expect("it runs");
        assert_eq!(output, "done\n");
        assert!(used.cpu >= Duration::from_millis(20), "{used:?}");
        assert!(used.rss_bytes_max > 100_000, "{used:?}");
    }

    #[test]
    fn a_process_that_fails_is_told_with_its_last_words() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo no such luck; exit 3"]);
        let failure = run(shell, &dir.path().join("log")).expect_err("it fails");
        assert!(failure.contains("no such luck") && failure.contains('3'), "{failure}");
    }
}
