//! Breaks and heals the disk of a node, with proof.
//!
//! An order that was answered is no proof. A process in the node's mount namespace (`bakeoff __probe`) writes a file
//! there and syncs it, as the node would: it is timed, or waits, or is refused.
//!
//! Not here: how the disk breaks (`bakeoff_disk`).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::study::DiskFault;
use bakeoff_core::units::figure_text;
use bakeoff_disk::Order;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use super::volatile_disk::VolatileDisk;
use super::{helper_process, shim};

/// Internal command: `bakeoff __probe PARENT DISK DIR`.
pub(super) const COMMAND: &str = "__probe";

/// Time after which a sync that has not returned is proof of a stall.
const HELD_FOR: Duration = Duration::from_millis(300);
/// Maximum time for the disk to be as ordered.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(2);
/// Bytes that a probe writes.
const PROBE_BYTES: usize = 4096;

/// Result of a probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ProbeResult {
    /// The write and its sync took this many seconds.
    Synced(f64),
    /// The disk has no space.
    NoSpace,
    /// Another reason of a failure.
    Failed(String),
}

/// Fault of a disk, and the probe that it holds.
#[derive(Default)]
pub(super) struct FaultyDisk {
    fault: Option<DiskFault>,
    held: Option<Probe>,
}

impl VolatileDisk {
    /// Breaks the disk, and returns the proof.
    pub(super) fn break_by(&self, fault: DiskFault) -> Result<String, String> {
        self.broken().fault = Some(fault);
        self.obey(Order::Fault(Some(fault)))?;
        let mut probe = Probe::begin(self)?;
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
            match Probe::begin(self)?.answer(FOLLOWED_WITHIN)? {
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

/// A process that writes to a node's disk. Dropping it kills the process.
struct Probe {
    child: Child,
    answer: mpsc::Receiver<Option<ProbeResult>>,
}

impl Probe {
    fn begin(disk: &VolatileDisk) -> Result<Self, String> {
        let (within, dir) = (disk.pid().to_string(), disk.dir());
        let args = [OsStr::new(&within), dir.as_os_str()];
        let mut child = helper_process::start_ours(COMMAND, args, Stdio::null())?;
        let stdout = child.stdout.take().expect("was piped");
        let (sender, answer) = mpsc::channel();
        let probe = Self { child, answer };
        let read = move || {
            let mut line = String::new();
            let read = BufReader::new(stdout).read_line(&mut line);
            let probed = read.ok().and_then(|_| serde_json::from_str(&line).ok());
            sender.send(probed).ok();
        };
        let thread = std::thread::Builder::new().name("probe".into());
        thread.spawn(read).map_err(|error| error.to_string())?;
        Ok(probe)
    }

    /// Waits for the result; `None` if it does not come in time.
    fn answer(&mut self, within: Duration) -> Result<Option<ProbeResult>, String> {
        match self.answer.recv_timeout(within) {
            Ok(Some(probed)) => Ok(Some(probed)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => {
                Err("the probe of its disk ended without a result".to_owned())
            }
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        helper_process::end_ours(&mut self.child);
    }
}

/// Runs the command: prints a [`ProbeResult`].
pub(super) fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let probed = probe(&args.collect::<Vec<_>>()).unwrap_or_else(ProbeResult::Failed);
    let line = serde_json::to_string(&probed).unwrap_or_default();
    let mut out = std::io::stdout();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn probe(args: &[OsString]) -> Result<ProbeResult, String> {
    let [parent, disk, dir] = args else { return Err("needs a parent, a disk and a path".into()) };
    let parent = parent.to_str().and_then(|parent| Pid::from_raw(parent.parse().ok()?));
    shim::within(disk).map_err(|error| format!("cannot enter its mount namespace: {error}"))?;
    // A change of privileges clears the signal, so it is set after that.
    let set = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    set.map_err(|error| format!("cannot set the parent-death signal: {error}"))?;
    if rustix::process::getppid() != parent {
        return Err("bakeoff has ended".to_owned());
    }
    let path = PathBuf::from(dir).join(format!(".bakeoff-probe-{}", std::process::id()));
    let synced = synced(&path);
    fs::remove_file(&path).ok();
    match synced {
        Ok(took) => Ok(ProbeResult::Synced(took.as_secs_f64())),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOSPC) => {
            Ok(ProbeResult::NoSpace)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Writes a new file and syncs it. Returns the time that both took.
fn synced(path: &Path) -> std::io::Result<Duration> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    let began = clock::now();
    file.write_all(&[0; PROBE_BYTES])?;
    file.sync_all()?;
    Ok(began.elapsed())
}

#[cfg(test)]
mod tests {
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
