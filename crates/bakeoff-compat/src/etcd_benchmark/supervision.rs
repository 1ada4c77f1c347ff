//! Runs threads next to a load: one ends it if nothing succeeds any more, one compacts the history.
//!
//! etcd's benchmark waits for ever when its servers are gone. Here each operation fails after `--timeout`, and a load
//! without a success for that long ends.
//!
//! Not here: the load (`run`), calls of a compaction (`control`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bakeoff_core::units::plural;
use bakeoff_engine::works::grpc::CallTargets;
use bakeoff_engine::{LoadError, LoadProgress};

use super::control::Control;
use super::options::Compaction;

/// Time between two checks of a thread next to a load.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// Outcome of a load that was supervised.
pub(super) struct SupervisedLoad<T> {
    pub(super) load: T,
    /// True if the load was ended because nothing succeeded any more.
    pub(super) gave_up: bool,
    /// Sentences about compactions that failed.
    pub(super) failures: Vec<String>,
}

/// Runs a load. Ends it when one of `ends` is true, or after `patience` without a success. `compaction` names the servers
/// that compact, and the time that each call may take.
pub(super) fn supervise<T>(
    ends: &[&AtomicBool],
    patience: Duration,
    compaction: Option<(Compaction, &CallTargets, Duration)>,
    load: impl FnOnce(&AtomicBool, &mut dyn FnMut(&LoadProgress)) -> T,
) -> SupervisedLoad<T> {
    let began = bakeoff_clock::now();
    let elapsed = || bakeoff_clock::now().saturating_duration_since(began);
    let milliseconds = || u64::try_from(elapsed().as_millis()).unwrap_or(u64::MAX);
    let (stop, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let (gave_up, succeeded_at) = (AtomicBool::new(false), AtomicU64::new(0));
    let watch = || {
        while !ended.load(Ordering::Relaxed) {
            let succeeded_at = Duration::from_millis(succeeded_at.load(Ordering::Relaxed));
            if elapsed().saturating_sub(succeeded_at) > patience && !stop.load(Ordering::Relaxed) {
                gave_up.store(true, Ordering::Relaxed);
                stop.store(true, Ordering::Relaxed);
            }
            if ends.iter().any(|end| end.load(Ordering::Relaxed)) {
                stop.store(true, Ordering::Relaxed);
            }
            thread::sleep(CHECK_EVERY);
        }
    };
    let (load, failures) = thread::scope(|scope| {
        scope.spawn(watch);
        let compactions = compaction.map(|(compaction, targets, timeout)| {
            let ended = &ended;
            scope.spawn(move || compact(compaction, targets, timeout, ended))
        });
        // Threads end with the load, also if it panics.
        let end = SetOnDrop(&ended);
        let load = load(&stop, &mut |progress| {
            if progress.verified > 0 {
                succeeded_at.store(milliseconds(), Ordering::Relaxed);
            }
        });
        drop(end);
        (load, compactions.and_then(|thread| thread.join().ok()).unwrap_or_default())
    });
    SupervisedLoad { load, gave_up: gave_up.load(Ordering::Relaxed), failures }
}

/// Sets a flag at its end, also after a panic.
pub(super) struct SetOnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Compacts in intervals until the load has ended. Returns sentences about failures.
fn compact(
    Compaction { interval, keeps }: Compaction,
    targets: &CallTargets,
    timeout: Duration,
    ended: &AtomicBool,
) -> Vec<String> {
    let control = Control::new(targets, 0, timeout, ended);
    let (mut count, mut first) = (0, None);
    let mut next = bakeoff_clock::now() + interval;
    while !ended.load(Ordering::Relaxed) {
        if bakeoff_clock::now() < next {
            thread::sleep(CHECK_EVERY.min(interval));
            continue;
        }
        next = bakeoff_clock::now() + interval;
        match control.compact(keeps) {
            Ok(_) | Err(LoadError::Interrupted) => {}
            // The load has ended, and with it this call.
            Err(_) if ended.load(Ordering::Relaxed) => {}
            Err(error) => {
                count += 1;
                first.get_or_insert_with(|| error.what());
            }
        }
    }
    let failed = |what| format!("{} failed: {what}", plural(count, "compaction"));
    first.map(failed).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> AtomicBool {
        AtomicBool::new(false)
    }

    fn wait_for(stop: &AtomicBool) {
        let until = bakeoff_clock::now() + Duration::from_secs(10);
        while !stop.load(Ordering::Relaxed) {
            assert!(bakeoff_clock::now() < until, "the load is not ended");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn load_without_a_success_is_ended() {
        let ran = supervise(&[&never()], Duration::from_millis(50), None, |stop, _| wait_for(stop));
        assert!(ran.gave_up && ran.failures.is_empty());
    }

    #[test]
    fn interrupt_is_passed_on() {
        let interrupted = AtomicBool::new(true);
        let ran =
            supervise(&[&interrupted], Duration::from_secs(60), None, |stop, _| wait_for(stop));
        assert!(!ran.gave_up);
    }

    #[test]
    fn load_that_ends_by_itself_is_left_alone() {
        let patience = Duration::from_secs(60);
        let ran = supervise(&[&never()], patience, None, |stop, _| stop.load(Ordering::Relaxed));
        assert!(!ran.load && !ran.gave_up);
    }
}
