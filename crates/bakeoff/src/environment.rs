//! What the record says of this machine, and the wall clock.
//!
//! The one place that reads the time of day. Not here: what servers use while they run
//! (`host::observe`).

use std::fs;
use std::path::Path;

use bakeoff_core::record::Environment;
use bakeoff_core::units::count_text;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::failure::Failure;
use crate::host::disk;

/// The time now, in UTC: `2026-11-21T20:24:50Z`.
pub(crate) fn utc_now() -> String {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
    now.to_string()
}

/// The time now as a name for a folder: `2026-11-21-202450`.
pub(crate) fn utc_folder() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d-%H%M%S").to_string()
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

/// Polls, timers, logs, pipes and the like.
const OTHER_FILES: u64 = 200;

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
