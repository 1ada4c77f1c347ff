//! Runs a program to its end and measures its resources.
//!
//! CPU time is read from `/proc/PID/stat` after the process has exited and before it is reaped. Then it includes all
//! threads and all children that were waited for. Linux reports it in ticks of `CLK_TCK`, usually 10 ms, so runs
//! should take seconds. Peak memory is the kernel's high-water mark (`VmHWM`), which vanishes with the process. It is
//! read every few milliseconds. The mark never falls, so only growth after the last reading is missed.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::Failure;

const LOOK_EVERY: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct ResourceUse {
    /// CPU time of all threads.
    pub(super) user: Duration,
    pub(super) system: Duration,
    pub(super) rss_bytes_max: u64,
}

impl ResourceUse {
    pub(super) fn cpu(&self) -> Duration {
        self.user + self.system
    }
}

/// Limits this thread, and programs that it starts, to one CPU. `None`: all allowed CPUs.
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

/// CPU of a program, and its accepted exit codes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// CPU to run on, if limited to one.
    pub(crate) cpu: Option<usize>,
    pub(crate) allowed: &'a CpuSet,
    /// Exit codes that are not failures.
    pub(crate) codes: &'a [i32],
}

impl Place<'_> {
    /// Runs `command` with its output in `log` and its errors in a file next to it. Returns its usage and output.
    pub(crate) fn run(
        &self,
        command: Command,
        log: &Path,
    ) -> Result<(ResourceUse, String), Failure> {
        self.run_watched(command, log, &mut |_| ())
    }

    /// Runs `command` and calls `look` with its process id every few milliseconds.
    pub(super) fn run_watched(
        &self,
        mut command: Command,
        log: &Path,
        look: &mut dyn FnMut(u32),
    ) -> Result<(ResourceUse, String), Failure> {
        let name = command.get_program().to_string_lossy().into_owned();
        let cannot = |what: &str, error: &dyn std::fmt::Display| format!("cannot {what}: {error}");
        let file = File::create(log).map_err(|error| cannot("write a log", &error))?;
        let error_log = log.with_extension("err");
        let errors = File::create(&error_log).map_err(|error| cannot("write a log", &error))?;
        // The program inherits the CPU. Its observer must run elsewhere.
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

/// Waits for the end without reaping the process.
fn watch(child: &Child, look: &mut dyn FnMut(u32)) -> Result<ResourceUse, Failure> {
    let pid = Pid::from_child(child);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let mut rss_bytes_max = 0;
    loop {
        let ended =
            waitid(WaitId::Pid(pid), options).map_err(|error| format!("waitid: {error}"))?;
        if ended.is_some() {
            let (user, system) =
                cpu_of(child.id()).ok_or("cannot read the CPU time of a process")?;
            return Ok(ResourceUse { user, system, rss_bytes_max });
        }
        rss_bytes_max = rss_bytes_max.max(memory(child.id(), "VmHWM:").unwrap_or(0));
        look(child.id());
        thread::sleep(LOOK_EVERY);
    }
}

/// Returns a value of `/proc/PID/status` in bytes: `VmHWM:` for the peak memory, `VmRSS:` for the current.
pub(super) fn memory(pid: u32, line: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|text| text.strip_prefix(line))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// Returns user and system time, own and of waited-for children: `proc_pid_stat(5)`, fields 14 to 17.
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

/// Returns the busy CPU time of the whole machine since its start, without idle time, disk waits, and time taken by a
/// hypervisor: `proc_stat(5)`.
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

    fn anywhere(command: Command, log: &Path) -> Result<(ResourceUse, String), Failure> {
        let allowed = rustix::thread::sched_getaffinity(None).expect("CPUs");
        Place { cpu: None, allowed: &allowed, codes: &[0] }.run(command, log)
    }

    #[test]
    fn measures_cpu_and_memory_of_a_busy_process() {
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
    fn error_of_a_failed_process_has_its_last_output() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo no such luck; exit 3"]);
        let failure = anywhere(shell, &dir.path().join("log")).expect_err("it fails");
        assert!(failure.contains("no such luck") && failure.contains('3'), "{failure}");
    }
}
