//! What the record says of this machine, and the wall clock.
//!
//! The one place that reads the time of day. Not here: what servers use while they run
//! (`host::observe`).

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use bakeoff_core::record::Environment;
use bakeoff_core::units::{count_text, parse_duration};
use jiff::SignedDuration;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::failure::Failure;
use crate::host::disk;

/// Lets the wall clock jump, for tests of the check that sees it: `AFTER,BY`, as in `2s,-5s`. It
/// jumps by BY once, AFTER the first trial began.
const CLOCK_STEP: &str = "BAKEOFF_CLOCK_STEP";

/// Says that others work on this machine, like `--shared-machine`, where it is `1`: for tests that run
/// beside each other.
const SHARED_MACHINE: &str = "BAKEOFF_SHARED_MACHINE";

/// Whether bakeoff's environment says that others work on this machine.
pub(crate) fn is_machine_shared() -> bool {
    std::env::var(SHARED_MACHINE).is_ok_and(|value| value == "1")
}

/// The time now, in UTC: `2026-11-21T20:24:50Z`.
pub(crate) fn utc_now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The time now, in seconds since 1970, as the machine's clock has it: somebody may set it.
/// Trials begin and end with a reading.
pub(crate) fn wall_clock() -> f64 {
    static FIRST: OnceLock<(jiff::Timestamp, Option<Step>)> = OnceLock::new();
    let now = jiff::Timestamp::now();
    let asked = || std::env::var(CLOCK_STEP).ok().and_then(|text| parse_step(&text));
    let (first, step) = FIRST.get_or_init(|| (now, asked()));
    let jump = step.as_ref().filter(|step| now.duration_since(*first) >= step.after);
    let jump = jump.map_or(0.0, |step| step.by.as_secs_f64());
    now.as_duration().as_secs_f64() + jump
}

struct Step {
    after: SignedDuration,
    by: SignedDuration,
}

fn parse_step(text: &str) -> Option<Step> {
    let (after, by) = text.split_once(',')?;
    let (is_back, by) = by.strip_prefix('-').map_or((false, by), |by| (true, by));
    let signed = |text: &str| SignedDuration::try_from(parse_duration(text).ok()?).ok();
    let by = signed(by)?;
    Some(Step { after: signed(after)?, by: if is_back { -by } else { by } })
}

/// The time now as a name for a folder: `2026-11-21-202450`.
pub(crate) fn utc_folder() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d-%H%M%S").to_string()
}

/// A value as a study writes it, which for `$NAME` is what bakeoff's own environment holds; an error
/// says that it holds none. What comes back may be secret.
pub(crate) fn expanded(value: &str) -> Result<String, String> {
    match value.strip_prefix('$') {
        None => Ok(value.to_owned()),
        Some(name) => std::env::var(name).map_err(|_| {
            format!("the study asks for `${name}`, which is not set in bakeoff's environment")
        }),
    }
}

/// CPUs that this process may run on.
pub(crate) fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// Raises the limit on open files as far as the system lets us, and returns it.
fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    let now =
        if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    now.unwrap_or(u64::MAX)
}

/// What generator and canary each have open besides connections, generously: polls, timers, logs,
/// pipes and the like.
pub(crate) const OTHER_FILES: u64 = 200;

/// Raises the limit on open files and returns it, if so many clients can have a socket each.
pub(crate) fn open_files_for(clients: u32) -> Result<u64, Failure> {
    let allowed = raise_open_files();
    let needed = u64::from(clients) + OTHER_FILES;
    if needed <= allowed {
        return Ok(allowed);
    }
    Err(Failure::input(
        format!(
            "{} clients need {} open files, and this process may have {}",
            count_text(clients.into()),
            count_text(needed),
            count_text(allowed)
        ),
        "raise the limit (`ulimit -Hn`), or use fewer clients",
    ))
}

/// Describes the machine, and measures the disk that holds `dir`.
/// `shared_with_servers`: whether any are started here; they are not pinned apart.
pub(crate) fn describe(
    dir: &Path,
    threads: u32,
    open_files: u64,
    shared_with_servers: bool,
) -> Result<Environment, Failure> {
    let uname = rustix::system::uname();
    let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let disk = disk::measure(dir)?;
    Ok(Environment {
        kernel: format!("{} {}", word(uname.sysname()), word(uname.release())),
        cpu_model: field_of("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
        cpus: cpus(),
        memory_bytes: field_of("/proc/meminfo", "MemTotal")
            .and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok())
            .map_or(0, |kib| kib * 1024),
        file_system: disk.filesystem,
        disk_free_bytes: disk.free_bytes,
        disk_sync_median_us: Some(disk.append.median.as_secs_f64() * 1e6),
        disk_sync_p99_us: Some(disk.append.p99.as_secs_f64() * 1e6),
        open_files_max: open_files,
        generator_threads: threads,
        shared_with_servers,
        shared_machine: false,
        floor: None,
    })
}

/// The value of `name` in a file of `name : value` lines.
fn field_of(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_clock_goes_either_way() {
        let step = parse_step("2s,-500ms").unwrap();
        let by = SignedDuration::from_millis(-500);
        assert_eq!((step.after, step.by), (SignedDuration::from_secs(2), by));
        assert_eq!(parse_step("0s,5s").unwrap().by, SignedDuration::from_secs(5));
        assert!(["", "2s", "2s,", "x,1s", "-2s,1s"].iter().all(|text| parse_step(text).is_none()));
    }
}
