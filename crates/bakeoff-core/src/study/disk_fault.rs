//! Describes what happens to the disk of a node.
//!
//! Not here: the fault as a whole (`fault`), the disk (`bakeoff_disk`).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{FaultAction, Study, System};
use crate::units::{self, duration_text};

/// Names what happens to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "disk")]
pub enum DiskFault {
    /// Each sync takes longer.
    Slow {
        /// Time by which each sync takes longer.
        #[serde(with = "units::duration")]
        sync_delay: Duration,
    },
    /// Syncs and writes wait until it is healed.
    Stalled,
    /// It has no space: `ENOSPC`.
    Full,
}

impl fmt::Display for DiskFault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slow { sync_delay } => {
                write!(to, "slower by {} a sync", duration_text(*sync_delay))
            }
            Self::Stalled => to.write_str("stalled"),
            Self::Full => to.write_str("full"),
        }
    }
}

impl Study {
    /// Returns the disk faults that happen to a system. Its nodes then run on file systems of bakeoff's own.
    pub fn disk_faults_of(&self, system: &str) -> impl Iterator<Item = DiskFault> {
        self.faults_of(system).filter_map(|fault| match fault.action {
            FaultAction::Disk { fault, .. } => Some(fault),
            _ => None,
        })
    }

    /// Returns the first system whose disks break; `None` without such a fault.
    pub fn with_disk_faults(&self) -> Option<&System> {
        self.systems.iter().find(|system| self.disk_faults_of(&system.name).next().is_some())
    }
}
