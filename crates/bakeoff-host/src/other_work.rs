//! Observes the work of other programs before a run begins, while bakeoff itself waits.
//!
//! Not here: other programs during a trial (`observe`), what they spoil (core's `check`).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_core::trial_samples::{Column, Command};

use super::foreign_processes::Scan;
use super::machine::{Machine, cpus_online};

/// Interval between looks at the interrupt.
const STEP: Duration = Duration::from_millis(50);

/// CPU time of other programs.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherWork {
    /// Length of the observation in seconds.
    pub seconds: f64,
    /// Number of online CPUs.
    pub cpus: u32,
    /// CPU seconds of other programs, without the kernel's own threads.
    pub used: f64,
    /// CPU seconds that the hypervisor gave to others; `None` if the kernel does not report them.
    pub stolen: Option<f64>,
    /// Programs that used the most, at most three.
    pub commands: Vec<Command>,
}

/// Observes other programs for `window`, or until `interrupted` is true. Returns `None` if the kernel does not tell the
/// machine's busy time.
pub fn other_work(window: Duration, interrupted: &AtomicBool) -> Option<OtherWork> {
    let machine = Machine::new(Path::new("/"));
    let time = |row: &[(Column, f64)], of: Column| {
        row.iter().find(|(column, _)| *column == of).map(|(_, seconds)| *seconds)
    };
    let (begun, scan, before) = (bakeoff_clock::now(), Scan::take(0.0), machine.sample());
    while begun.elapsed() < window && !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(STEP);
    }
    let (seconds, after) = (begun.elapsed().as_secs_f64(), machine.sample());
    let own = i32::try_from(std::process::id()).ok();
    let foreign = scan.since(seconds, |pid| Some(pid) == own);
    let grown = |of: Column| Some(time(&after, of)? - time(&before, of)?);
    Some(OtherWork {
        seconds,
        cpus: cpus_online()?,
        used: (grown(Column::Busy)? - foreign.kernel_seconds).max(0.0),
        stolen: grown(Column::Steal),
        commands: foreign.commands,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn busy_program_is_seen_and_bakeoff_is_not() {
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let work = other_work(Duration::from_millis(500), &AtomicBool::new(false)).unwrap();
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(work.used > 0.05 && work.seconds >= 0.5, "{work:?}");
        assert!(!work.commands.is_empty(), "{work:?}");
        let own = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert!(work.commands.iter().all(|one| one.name != own.trim()), "{work:?}");
    }

    #[test]
    fn interrupt_ends_the_observation() {
        let begun = bakeoff_clock::now();
        other_work(Duration::from_secs(600), &AtomicBool::new(true));
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}
