//! Breaks and heals the disk of a node, with proof.
//!
//! An order that was answered is no proof. A probe writes a file and syncs it, as the node would: it is timed, or
//! waits, or is refused.
//!
//! Not here: how the disk breaks (`bakeoff_disk`), the probe (`disk_probe`).

use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::study::DiskFault;
use bakeoff_core::units::figure_text;
use bakeoff_disk::Order;

use super::disk_probe::{Probe, ProbeResult};
use super::volatile_disk::{FaultyDisk, VolatileDisk};

/// Time after which a sync that has not returned is proof of a stall.
const HELD_FOR: Duration = Duration::from_millis(300);
/// Maximum time for the disk to be as ordered.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(2);
impl VolatileDisk {
    /// Breaks the disk, and returns the proof.
    pub(super) fn break_by(&self, fault: DiskFault) -> Result<String, String> {
        self.broken().fault = Some(fault);
        self.obey(Order::Fault(Some(fault)))?;
        let mut probe = Probe::begin(self.pid(), self.dir())?;
        match fault {
            DiskFault::Slow { sync_delay } => match probe.answer(sync_delay + FOLLOWED_WITHIN)? {
                Some(ProbeResult::Synced(took)) if took >= sync_delay.as_secs_f64() => {
                    Ok(format!("a sync took {}", took_text(took)))
                }
                other => Err(unproven(other.as_ref())),
            },
            DiskFault::Stalled => match probe.answer(HELD_FOR)? {
                None => {
                    self.broken().held = Some(probe);
                    let held = took_text(HELD_FOR.as_secs_f64());
                    Ok(format!("a sync did not return within {held}"))
                }
                other => Err(unproven(other.as_ref())),
            },
            DiskFault::Full => match probe.answer(FOLLOWED_WITHIN)? {
                Some(ProbeResult::NoSpace) => {
                    Ok("a new file found no space left on the disk".into())
                }
                other => Err(unproven(other.as_ref())),
            },
        }
    }

    /// Heals the disk, and returns the proof.
    pub(super) fn heal(&self) -> Result<String, String> {
        let FaultyDisk { fault: was, held } = std::mem::take(&mut *self.broken());
        self.obey(Order::Fault(None))?;
        let returned = match held.map(|mut probe| probe.answer(FOLLOWED_WITHIN)) {
            None => "",
            Some(Ok(Some(ProbeResult::Synced(_)))) => "the held sync returned, and ",
            Some(other) => return Err(unproven(other?.as_ref())),
        };
        let limit = match was {
            Some(DiskFault::Slow { sync_delay }) => sync_delay,
            _ => FOLLOWED_WITHIN,
        };
        let deadline = clock::now() + FOLLOWED_WITHIN;
        loop {
            match Probe::begin(self.pid(), self.dir())?.answer(FOLLOWED_WITHIN)? {
                Some(ProbeResult::Synced(took)) if took < limit.as_secs_f64() => {
                    return Ok(format!("{returned}a sync took {}", took_text(took)));
                }
                // A busy machine may be slow for a moment.
                Some(ProbeResult::Synced(_)) if clock::now() < deadline => {}
                other => return Err(unproven(other.as_ref())),
            }
        }
    }

    /// Answers the requests that wait, so that a killed process can end. The fault stays known.
    pub(super) fn release(&self) {
        if self.broken().fault.is_some() {
            // If the file system has ended, nothing waits for it.
            self.obey(Order::Fault(None)).ok();
        }
    }

    /// Breaks the disk again after [`Self::release`], for the next process.
    pub(super) fn break_again(&self) -> Result<(), String> {
        self.broken().fault.map_or(Ok(()), |fault| self.obey(Order::Fault(Some(fault))))
    }
}

fn took_text(seconds: f64) -> String {
    match seconds < 1.0 {
        true => format!("{} ms", figure_text(seconds * 1e3)),
        false => format!("{} s", figure_text(seconds)),
    }
}

fn unproven(probed: Option<&ProbeResult>) -> String {
    match probed {
        None => "a sync of its disk did not return".to_owned(),
        Some(ProbeResult::Synced(took)) => format!("a sync of its disk took {}", took_text(*took)),
        Some(ProbeResult::NoSpace) => "its disk has no space".to_owned(),
        Some(ProbeResult::Failed(why)) => format!("its disk could not be probed: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use rustix::process::Signal;
    use tempfile::TempDir;

    use super::*;
    use crate::tests::{launch, wait_for};
    use crate::volatile_disk::tests::{breakable, is_lacking};
    use crate::{NodeSpec, Process};

    const DELAY: Duration = Duration::from_millis(300);
    const SLOW: DiskFault = DiskFault::Slow { sync_delay: DELAY };
    /// Writes and syncs one file after another, a line for each.
    const SYNCS: &str = "while :; do \
        if dd if=/dev/zero of=data bs=512 count=1 conv=fsync 2>/dev/null; then echo synced; else echo refused; fi; \
        done";

    fn lines(process: &Process, word: &str) -> usize {
        process.log_tail(100_000).lines.iter().filter(|line| *line == word).count()
    }

    fn node(dir: &TempDir) -> NodeSpec {
        breakable(dir, SYNCS)
    }

    #[test]
    fn disk_faults_are_proven_and_healed() {
        if is_lacking() {
            return;
        }
        let dir = TempDir::new().unwrap();
        let process = launch(node(&dir)).unwrap();
        wait_for("syncs", || lines(&process, "synced") > 2);

        let proof = process.break_disk(SLOW).unwrap();
        assert!(proof.starts_with("a sync took 3"), "{proof}");
        let (before, began) = (lines(&process, "synced"), clock::now());
        wait_for("a slow sync", || lines(&process, "synced") >= before + 3);
        assert!(began.elapsed() > DELAY * 2);
        let proof = process.heal_disk().unwrap();
        assert!(proof.starts_with("a sync took "), "{proof}");

        let proof = process.break_disk(DiskFault::Stalled).unwrap();
        assert_eq!(proof, "a sync did not return within 300 ms");
        let before = lines(&process, "synced");
        std::thread::sleep(DELAY);
        assert_eq!(lines(&process, "synced"), before);
        let proof = process.heal_disk().unwrap();
        assert!(proof.starts_with("the held sync returned, and a sync took "), "{proof}");
        wait_for("syncs", || lines(&process, "synced") > before);

        assert_eq!(lines(&process, "refused"), 0);
        process.break_disk(DiskFault::Full).unwrap();
        // `dd` empties the file first, so each write needs a block.
        wait_for("a refused write", || lines(&process, "refused") > 2);
        process.heal_disk().unwrap();
        let before = lines(&process, "synced");
        wait_for("syncs", || lines(&process, "synced") > before);
    }

    #[test]
    fn killed_process_ends_though_its_disk_stands_still_and_the_fault_stays() {
        if is_lacking() {
            return;
        }
        // Its leader waits in a write, and the kernel does not let it end.
        let dir = TempDir::new().unwrap();
        let script = "exec dd if=/dev/zero of=data bs=512 oflag=dsync status=none";
        let process = launch(breakable(&dir, script)).unwrap();
        process.break_disk(DiskFault::Stalled).unwrap();
        std::thread::sleep(DELAY);
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || {
            process.signal(Signal::KILL);
            drop(process);
            ended.send(()).ok();
        });
        end.recv_timeout(Duration::from_secs(20)).expect("it ends");

        let dir = TempDir::new().unwrap();
        let process = launch(node(&dir)).unwrap();
        wait_for("syncs", || lines(&process, "synced") > 2);
        process.break_disk(DiskFault::Stalled).unwrap();
        process.restart().unwrap();
        let before = lines(&process, "synced");
        std::thread::sleep(DELAY);
        assert_eq!(lines(&process, "synced"), before, "the new process waits as well");
        process.heal_disk().unwrap();
        wait_for("syncs", || lines(&process, "synced") > before);
    }

    #[test]
    fn disk_of_the_machine_is_not_broken() {
        let dir = TempDir::new().unwrap();
        let process = launch(crate::tests::sh(&dir, "exec sleep 60")).unwrap();
        let why = process.break_disk(DiskFault::Full).unwrap_err();
        assert_eq!(why, "its directory is on the machine's file system");
    }
}
