//! Describes the machine that bakeoff runs on, for the record.
//!
//! Not here: the wall clock (`bakeoff_clock::wall`), the resources that servers use (`bakeoff_host::observe`).

use std::fs;
use std::path::Path;

use bakeoff_core::record::Environment;
use bakeoff_engine::open_files;
use bakeoff_host::{disk, hardware};

use crate::error::FleetError;

/// ID of the installation, as systemd and D-Bus use it.
const MACHINE_ID: &str = "/etc/machine-id";
/// Digits of its hash to record.
const MACHINE_ID_DIGITS: usize = 16;

/// Returns the machine's total memory in bytes; 0 if the kernel does not report it.
pub fn memory_bytes() -> u64 {
    field_of("/proc/meminfo", "MemTotal")
        .and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

/// Describes the machine and measures the disk that holds `dir`. `shared_with_servers`: true if servers start here and
/// share CPUs with the load generator.
pub fn describe(
    dir: &Path,
    threads: u32,
    open_files: u64,
    shared_with_servers: bool,
) -> Result<Environment, FleetError> {
    let uname = rustix::system::uname();
    let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let disk = disk::measure(dir)?;
    Ok(Environment {
        host: Some(word(uname.nodename())).filter(|host| !host.is_empty()),
        machine_id: machine_id(),
        kernel: format!("{} {}", word(uname.sysname()), word(uname.release())),
        cpu_model: field_of("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
        cpus: open_files::cpus(),
        memory_bytes: memory_bytes(),
        file_system: disk.filesystem,
        disk_free_bytes: disk.free_bytes,
        disk_sync_least_us: Some(disk.append.least.as_secs_f64() * 1e6),
        disk_sync_median_us: Some(disk.append.median.as_secs_f64() * 1e6),
        disk_sync_p99_us: Some(disk.append.p99.as_secs_f64() * 1e6),
        open_files_max: open_files,
        generator_threads: threads,
        shared_with_servers,
        shared_machine: false,
        hardware: Some(hardware::describe(dir)),
        machine_baseline: None,
        machines: Vec::new(),
        network: Vec::new(),
    })
}

/// Returns a name of the machine that does not reveal its ID, which other programs keep secret.
fn machine_id() -> Option<String> {
    let hash = bakeoff_install::sha256_of(Path::new(MACHINE_ID)).ok()?;
    // The SHA-256 of an empty file names no machine.
    let is_empty = fs::metadata(MACHINE_ID).is_ok_and(|file| file.len() == 0);
    (!is_empty).then(|| hash.chars().take(MACHINE_ID_DIGITS).collect())
}

/// Returns the value of `name` in a file of `name : value` lines.
fn field_of(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}
