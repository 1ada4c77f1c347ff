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

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Resources that a process used from its start to its end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    /// All threads.
    pub(super) user: Duration,
    pub(super) system: Duration,
    pub(super) rss_bytes_max: u64,
}

impl Used {
    pub(super) fn cpu(&self) -> Duration {
        self.user + self.system
    }
}

/// Lets this thread, and what it starts from now on, run on one CPU; all that it may, for `None`.
pub(crate) fn pin(cpu: Option<usize>, allowed: &CpuSet) -> Result<(), Failure> {
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

/// Where a program runs, and how it may end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The one CPU that it has.
    pub(crate) cpu: Option<usize>,
    pub(crate) allowed: &'a CpuSet,
    /// The exit codes that are no failure.
    pub(crate) codes: &'a [i32],
}

impl Place<'_> {
    /// Runs `command` with its output in `log` and its errors beside it, and tells what it printed.
    pub(crate) fn run(&self, command: Command, log: &Path) -> Result<(Used, String), Failure> {
        self.run_watched(command, log, &mut |_| ())
    }

    /// The same; `look` is called with the process's number every few milliseconds.
    pub(super) fn run_watched(
        &self,
        mut command: Command,
        log: &Path,
        look: &mut dyn FnMut(u32),
    ) -> Result<(Used, String), Failure> {
        let name = command.get_program().to_string_lossy().into_owned();
        let cannot = |what: &str, error: &dyn std::fmt::Display| format!("cannot {what}: {error}");
        let file = File::create(log).map_err(|error| cannot("write a log", &error))?;
        let error_log = log.with_extension("err");
        let errors = File::create(&error_log).map_err(|error| cannot("write a log", &error))?;
        // The program inherits the CPU; who watches it must not take its time.
        pin(self.cpu, self.allowed)?;
        let started = command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn();
        pin(None, self.allowed)?;
        let mut child = started.map_err(|error| cannot(&format!("run `{name}`"), &error))?;
        let used = watch(&child, look);
        if used.is_err() {
            child.kill().ok();
        }
        let status = child.wait().map_err(|error| cannot("wait for a process", &error))?;
        let read = |path: &Path| {
            let bytes = fs::read(path).map_err(|error| cannot("read a log", &error))?;
            Ok::<_, Failure>(String::from_utf8_lossy(&bytes).into_owned())
        };
        let output = read(log)?;
        if !status.code().is_some_and(|code| self.codes.contains(&code)) {
            let whole = output + &read(&error_log)?;
            let end: Vec<&str> = whole.lines().rev().take(12).collect();
            let end: Vec<&str> = end.into_iter().rev().collect();
            return Err(format!("`{name}` ended with {status}\n  {}", end.join("\n  ")));
        }
        Ok((used?, output))
    }
}

/// Waits for the end without reaping.
fn watch(child: &Child, look: &mut dyn FnMut(u32)) -> Result<Used, Failure> {
    let pid = Pid::from_child(child);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let mut rss_bytes_max = 0;
    loop {
        let ended =
            waitid(WaitId::Pid(pid), options).map_err(|error| format!("waitid: {error}"))?;
        if ended.is_some() {
            let (user, system) = cpu_of(child.id()).ok_or("cannot read what a process used")?;
            return Ok(Used { user, system, rss_bytes_max });
        }
        rss_bytes_max = rss_bytes_max.max(memory(child.id(), "VmHWM:").unwrap_or(0));
        look(child.id());
        thread::sleep(LOOK_EVERY);
    }
}

/// A line of `/proc/PID/status` in bytes: `VmHWM:` the most memory so far, `VmRSS:` that of now.
pub(super) fn memory(pid: u32, line: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|text| text.strip_prefix(line))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// `proc_pid_stat(5)`, fields 14 to 17: own and waited-for children's time, user and system.
pub(super) fn cpu_of(pid: u32) -> Option<(Duration, Duration)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = &stat[stat.rfind(')')? + 1..]; // begins with field 3
    let ticks: Vec<u64> = after_name
        .split_whitespace()
        .skip(14 - 3)
        .take(4)
        .map(|field| field.parse::<u64>().ok())
        .collect::<Option<_>>()?;
    let [user, system, user_waited, system_waited] = ticks.try_into().ok()?;
    Some((time(user + user_waited), time(system + system_waited)))
}

/// Returns the CPU time of the whole machine since its start: `proc_stat(5)`, all but idle,
/// waiting for disks, and what a hypervisor took.
pub(super) fn machine_cpu() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let first = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> =
        first.split_whitespace().map(|field| field.parse().ok()).collect::<Option<_>>()?;
    // user, nice, system, idle, iowait, irq, softirq
    let worked = [0, 1, 2, 5, 6].iter().map(|&field| fields.get(field).copied().unwrap_or(0));
    Some(time(worked.sum()))
}

fn time(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anywhere(command: Command, log: &Path) -> Result<(Used, String), Failure> {
        let allowed = rustix::thread::sched_getaffinity(None).expect("CPUs");
        Place { cpu: None, allowed: &allowed, codes: &[0] }.run(command, log)
    }

    #[test]
    fn a_process_that_works_is_seen_to_have_used_cpu_and_memory() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            "echo nothing >&2; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done",
        ]);
        let (used, output) = anywhere(shell, &dir.path().join("log")).expect("it runs");
        assert_eq!(output, "done\n");
        assert!(used.cpu() >= Duration::from_millis(20), "{used:?}");
        assert!(used.rss_bytes_max > 100_000, "{used:?}");
    }

    #[test]
    fn a_process_that_fails_is_told_with_its_last_words() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo no such luck; exit 3"]);
        let failure = anywhere(shell, &dir.path().join("log")).expect_err("it fails");
        assert!(failure.contains("no such luck") && failure.contains('3'), "{failure}");
    }
}
