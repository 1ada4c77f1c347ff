//! Whether the machine was disturbed over a stretch of time, by what can be told at once.
//!
//! Not here: checks of a whole trial, from what was sampled (core's `check::machine`).

use std::time::Instant;

use bakeoff_clock as clock;
use bakeoff_core::check::machine::steal_between;

use super::{machine, procfs};

/// A stretch of time that began.
pub struct Stretch {
    began: Instant,
    /// The time stolen by the hypervisor until then, in seconds of all CPUs.
    stolen: Option<f64>,
}

impl Stretch {
    /// Begins now.
    pub fn begin() -> Self {
        Self { began: clock::now(), stolen: stolen() }
    }

    /// Returns the disturbances of the machine until now.
    pub fn disturbed_by(&self) -> Vec<String> {
        let seconds = (clock::now() - self.began).as_secs_f64();
        let grown = stolen().zip(self.stolen).map(|(after, before)| after - before);
        let cpus = machine::cpus_online().unwrap_or(0);
        grown.and_then(|stolen| steal_between(stolen, cpus, seconds)).into_iter().collect()
    }
}

/// `proc_stat(5)`: the eighth figure of all CPUs' line.
fn stolen() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: u64 = line.split_ascii_whitespace().nth(7)?.parse().ok()?;
    Some(ticks as f64 / procfs::ticks_per_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_at_all_is_not_disturbed() {
        assert_eq!(Stretch::begin().disturbed_by(), Vec::<String>::new());
        if std::fs::read_to_string("/proc/stat").is_ok() {
            assert!(stolen().is_none_or(|seconds| seconds >= 0.0));
        }
    }
}
