//! Pins this process, and all processes it starts later, to some of the machine's CPUs.
//!
//! Not here: pinning one server (`shim`), keeping a generator off the servers' CPUs (the binary's `trial::affinity`).

use std::io;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use bakeoff_core::units::ranges_text;

/// Pins all threads of this process to these CPUs. New threads and processes inherit this.
///
/// # Errors
/// When a CPU may not be used, or the kernel refuses.
pub fn keep_to(cpus: &[u32]) -> Result<(), CpuSetError> {
    let now = sched_getaffinity(None).map_err(CpuSetError::Refused)?;
    let may: Vec<u32> =
        (0..CpuSet::MAX_CPU).filter(|&cpu| now.is_set(cpu)).map(|cpu| cpu as u32).collect();
    if let Some(&lacking) = cpus.iter().find(|cpu| !may.contains(cpu)) {
        return Err(CpuSetError::Lacking { lacking, may });
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu as usize));
    for thread in std::fs::read_dir("/proc/self/task").map_err(CpuSetError::Threads)? {
        let name = thread.map_err(CpuSetError::Threads)?.file_name();
        let Some(thread) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
        else {
            continue;
        };
        match sched_setaffinity(Some(thread), &set) {
            // A thread that has ended needs no pinning.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(CpuSetError::Refused(error)),
        }
    }
    Ok(())
}

/// The reason why a process cannot be pinned.
#[derive(Debug, thiserror::Error)]
pub enum CpuSetError {
    /// A CPU that does not exist, or that the process may not use.
    #[error(
        "bakeoff cannot use CPU {lacking} there, only {}\nhint: set `cpus` in the places file to CPUs \
         of that machine",
        ranges_text(.may)
    )]
    Lacking {
        /// Number of the CPU.
        lacking: u32,
        /// CPUs that the process may use.
        may: Vec<u32>,
    },
    /// Listing the threads of the process failed.
    #[error("cannot list bakeoff's threads there: {0}")]
    Threads(#[source] io::Error),
    /// The kernel refused the affinity.
    #[error("cannot pin bakeoff to CPUs there: {0}")]
    Refused(#[source] Errno),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_cpu_is_rejected_and_usable_ones_are_listed() {
        let why = keep_to(&[0, 1023]).unwrap_err().to_string();
        assert!(why.starts_with("bakeoff cannot use CPU 1023 there, only 0"), "{why}");
    }
}
