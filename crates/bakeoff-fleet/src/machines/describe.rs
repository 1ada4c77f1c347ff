//! Describes a machine for `bakeoff doctor`: kernel, CPUs, memory, disk, limits.
//!
//! Not here: judging and showing the answer (the binary's `commands::doctor`).

use std::path::{Path, PathBuf};

use bakeoff_host::{LimitSupport, disk, limit_support};
use serde::{Deserialize, Serialize};

use crate::environment;

/// Default folder for servers' data.
pub(super) const DATA: &str = "/var/tmp";

/// An agent's description of its machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachineTold {
    /// Operating system and release: `Linux 6.1.0-18-amd64`.
    pub kernel: String,
    /// Architecture: `x86_64`.
    pub arch: String,
    /// Total memory in bytes; 0 if the kernel does not report it.
    pub memory_bytes: u64,
    /// Folder for servers' data.
    pub data: PathBuf,
    /// Disk that holds `data`.
    pub disk: DiskTold,
    /// Kinds of limits, each with its support on this machine.
    pub limits: Vec<LimitSupport>,
}

/// State of the disk of the data folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskTold {
    /// Durable appends of 1 KiB succeeded.
    Works {
        /// File system type, such as `ext4`.
        file_system: String,
        /// Free space, in bytes.
        free_bytes: u64,
        /// Median time of a durable append, in microseconds.
        sync_median_us: f64,
    },
    /// The appends failed, with this error.
    Fails(String),
}

/// Describes this machine. `data`: folder for servers' data, `/var/tmp` if `None`.
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
