//! Keeps this process and all that it will start to some of the machine's CPUs.
//!
//! Not here: pinning one server (`shim`), keeping a generator off servers' CPUs (the binary's `trial::affinity`).

use std::io;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use bakeoff_core::units::ranges_text;

/// Keeps all threads of this process to these CPUs; threads and processes that they start inherit it.
///
/// # Errors
/// When one of the CPUs may not be used, or the kernel refuses.
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
            // A thread that has ended runs on no CPU.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(CpuSetError::Refused(error)),
        }
    }
    Ok(())
}

/// The reason why a process cannot keep to CPUs.
#[derive(Debug, thiserror::Error)]
pub enum CpuSetError {
    /// A CPU that is not there, or that the process may not use.
    #[error(
        "it has no CPU {lacking} for bakeoff, which may use {}\nhint: `cpus` in the places file names CPUs \
         of the machine",
        ranges_text(.may)
    )]
    Lacking {
        /// The CPU.
        lacking: u32,
        /// Those that it may use.
        may: Vec<u32>,
    },
    /// The threads of the process cannot be listed.
    #[error("its threads cannot be listed: {0}")]
    Threads(#[source] io::Error),
    /// The kernel refuses.
    #[error("it cannot keep to some of its CPUs: {0}")]
    Refused(#[source] Errno),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_that_is_not_there_is_refused_with_those_that_are() {
        let why = keep_to(&[0, 1023]).unwrap_err().to_string();
        assert!(why.starts_with("it has no CPU 1023 for bakeoff, which may use 0"), "{why}");
    }
}
