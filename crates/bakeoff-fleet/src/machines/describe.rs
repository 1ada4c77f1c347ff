//! Describes a machine to whoever asks whether it can be used: kernel, CPUs, memory, disk, limits, programs.
//!
//! Not here: how the answer is judged and shown (the binary's `commands::doctor`).

use std::path::{Path, PathBuf};

use bakeoff_host::{LimitSupport, disk, limit_support};
use serde::{Deserialize, Serialize};

use crate::environment;

/// The folder for servers' data where a places file names none.
const DATA: &str = "/var/tmp";

/// A machine, described by its agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachineTold {
    /// `Linux 6.1.0-18-amd64`.
    pub kernel: String,
    /// `x86_64`.
    pub arch: String,
    /// All memory of the machine; 0 if its kernel reports none.
    pub memory_bytes: u64,
    /// The folder for servers' data.
    pub data: PathBuf,
    /// The disk that holds `data`.
    pub disk: DiskTold,
    /// Limits of servers that can be applied there.
    pub limits: Vec<LimitSupport>,
}

/// The disk of the data folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskTold {
    /// Appends of 1 KiB were made durable there.
    Works {
        /// Type of the file system, such as `ext4`.
        file_system: String,
        /// Free space.
        free_bytes: u64,
        /// Median time of an append with its sync.
        sync_median_us: f64,
    },
    /// The words of what failed.
    Fails(String),
}

/// Describes this machine; `data` is the folder for servers' data.
pub(crate) fn describe(data: Option<&Path>) -> MachineTold {
    let uname = rustix::system::uname();
    let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let data = data.unwrap_or(Path::new(DATA));
    let disk = match disk::measure(data) {
        Ok(disk) => DiskTold::Works {
            file_system: disk.filesystem,
            free_bytes: disk.free_bytes,
            sync_median_us: disk.append.median.as_secs_f64() * 1e6,
        },
        Err(error) => DiskTold::Fails(error.to_string()),
    };
    MachineTold {
        kernel: format!("{} {}", word(uname.sysname()), word(uname.release())),
        arch: word(uname.machine()),
        memory_bytes: environment::memory_bytes(),
        data: data.to_owned(),
        disk,
        limits: limit_support(),
    }
}
