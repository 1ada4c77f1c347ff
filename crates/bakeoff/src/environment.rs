//! Describes this machine for the record.
//!
//! Not here: the wall clock (`bakeoff_clock::wall`), what servers use while they run
//! (`host::observe`).

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::path::Path;
use std::sync::OnceLock;

use bakeoff_core::record::Environment;
use bakeoff_core::study::{Study, System};
use bakeoff_engine::open_files;
use bakeoff_host::beside::Presence;
use bakeoff_host::{disk, hardware};

use crate::failure::Failure;

/// Says that others work on this machine, like `--shared-machine`, where it is `1`: for tests that run
/// beside each other.
const SHARED_MACHINE: &str = "BAKEOFF_SHARED_MACHINE";

/// Returns whether bakeoff's environment says that others work on this machine.
pub(crate) fn is_machine_shared() -> bool {
    std::env::var(SHARED_MACHINE).is_ok_and(|value| value == "1")
}

/// Refuses a machine whose root lacks what servers are started and watched by: a chroot may.
pub(crate) fn refuse_bare_root() -> Result<(), Failure> {
    let needed = [
        ("/proc/self/exe", "mount -t proc proc /proc"),
        ("/dev/null", "mount --bind the host's /dev, or mknod /dev/null"),
    ];
    match needed.into_iter().find(|(path, _)| !Path::new(path).exists()) {
        None => Ok(()),
        Some((path, mend)) => Err(Failure::machine(format!(
            "`{path}` is not there, and bakeoff starts and watches servers by it\nhint: this may be a chroot: `{mend}`"
        ))),
    }
}

/// Returns whether another bakeoff measures on this machine, and says to others from the first call on that this one
/// does. `false` where others work on this machine anyway, as bakeoff was told.
pub(crate) fn is_another_bakeoff_here() -> bool {
    static PRESENCE: OnceLock<Presence> = OnceLock::new();
    PRESENCE.get_or_init(Presence::announce).is_another() && !is_machine_shared()
}

/// Returns all memory of the machine; 0 where the kernel does not tell.
pub(crate) fn memory_bytes() -> u64 {
    field_of("/proc/meminfo", "MemTotal")
        .and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

/// Returns true if an endpoint of a system that runs already is this machine's.
pub(crate) fn is_loaded_here(study: &Study) -> bool {
    // Only an address of its own can be bound.
    let is_own = |address: SocketAddr| UdpSocket::bind((address.ip(), 0)).is_ok();
    let endpoints = study.systems.iter().flat_map(System::endpoints);
    let mut found = endpoints.filter_map(|one| (&*one.host, one.port).to_socket_addrs().ok());
    found.any(|mut addresses| addresses.any(is_own))
}

/// Describes the machine, and measures the disk that holds `dir`.
/// `shared_with_servers`: whether any are started here; nothing keeps them and the load generator on CPUs of their own.
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
        cpus: open_files::cpus(),
        memory_bytes: memory_bytes(),
        file_system: disk.filesystem,
        disk_free_bytes: disk.free_bytes,
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

/// Returns the SHA-256 of the bakeoff that runs; `None` where its file cannot be read.
pub(crate) fn own_sha256() -> Option<String> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    FOUND.get_or_init(|| bakeoff_install::sha256_of(Path::new("/proc/self/exe")).ok()).clone()
}

/// The value of `name` in a file of `name : value` lines.
fn field_of(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}
