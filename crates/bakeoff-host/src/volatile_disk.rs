//! Starts the file system that holds a node's directory, and cuts its power.
//!
//! It is a process of ours (`bakeoff __disk`), which the node's processes share a mount namespace with.
//!
//! Not here: the file system (`bakeoff_disk`), entering its namespace (`shim`), breaking its disk (`disk_fault`).

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use bakeoff_core::study::DiskFault;
use bakeoff_disk::{CutLosses, DiskReply, Order, UnsyncedFate};

use super::disk_probe::Probe;
use super::helper_process::HelperProcess;

/// A mounted file system. Dropping it ends its process, and with the last process of the node the mount.
pub(super) struct VolatileDisk {
    helper: HelperProcess,
    dir: PathBuf,
    broken: Mutex<FaultyDisk>,
}

/// Fault of a disk, and the probe that it holds.
#[derive(Default)]
pub(super) struct FaultyDisk {
    pub(super) fault: Option<DiskFault>,
    pub(super) held: Option<Probe>,
}

impl VolatileDisk {
    /// Mounts a file system on a directory, with the files that are there.
    pub(super) fn mount(dir: &Path) -> Result<Self, String> {
        let helper = HelperProcess::start("its file system", bakeoff_disk::COMMAND, [dir])?;
        match helper.answer()? {
            DiskReply::Ready => Ok(Self { helper, dir: dir.to_owned(), broken: Mutex::default() }),
            other => Err(reason(other)),
        }
    }

    /// Returns the process whose mount namespace has the file system.
    pub(super) fn pid(&self) -> i32 {
        self.helper.pid()
    }

    /// Returns the directory that it is mounted on.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns what is broken of it.
    pub(super) fn broken(&self) -> MutexGuard<'_, FaultyDisk> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops what was not synced. No process may use the file system.
    pub(super) fn cut(&self, seed: u64, unsynced: UnsyncedFate) -> Result<CutLosses, String> {
        match self.order(Order::Cut { seed, unsynced })? {
            DiskReply::Cut(dropped) => Ok(dropped),
            other => Err(reason(other)),
        }
    }

    /// Makes everything durable that was written so far.
    pub(super) fn write_back(&self) -> Result<(), String> {
        self.obey(Order::WriteBack)
    }

    /// Gives an order that has no result.
    pub(super) fn obey(&self, order: Order) -> Result<(), String> {
        match self.order(order)? {
            DiskReply::Ready => Ok(()),
            other => Err(reason(other)),
        }
    }

    fn order(&self, order: Order) -> Result<DiskReply, String> {
        self.helper.order(&order)
    }
}

fn reason(answer: DiskReply) -> String {
    match answer {
        DiskReply::Failed(why) => why,
        other => format!("its file system answered {other:?}"),
    }
}

/// Tries whether this machine can mount such a file system.
///
/// # Errors
/// A reason, such as a missing `/dev/fuse`, or forbidden user namespaces.
pub fn support() -> Result<(), String> {
    static TRIED: OnceLock<Result<(), String>> = OnceLock::new();
    let attempt = || {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        VolatileDisk::mount(dir.path()).map(drop)
    };
    TRIED.get_or_init(attempt).clone()
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::io::Write as _;

    use rustix::process::Signal;
    use tempfile::TempDir;

    use super::*;
    use crate::procfs;
    use crate::tests::{launch, sh, wait_for};
    use crate::{NodeDisk, NodeFile, NodeSpec, Process};

    /// Returns true if this machine cannot run the test, and says so.
    pub(crate) fn is_lacking() -> bool {
        let lacking = support().err();
        if let Some(why) = &lacking {
            // `eprintln!` would be captured.
            writeln!(std::io::stderr(), "skipped: {why}").unwrap();
        }
        lacking.is_some()
    }

    fn forgetful(dir: &TempDir, script: &str) -> NodeSpec {
        let contents = b"given".to_vec();
        let given = NodeFile { path: "conf/a".into(), contents, mode: crate::FileMode::Readable };
        NodeSpec { disk: NodeDisk::Forgetful, files: vec![given], ..sh(dir, script) }
    }

    /// Describes a node that runs a script, and whose disk can break.
    pub(crate) fn breakable(dir: &TempDir, script: &str) -> NodeSpec {
        NodeSpec { disk: NodeDisk::Breakable, ..sh(dir, script) }
    }

    fn wait_for_line(process: &Process, line: &str) {
        wait_for(line, || process.log_tail(100).lines.iter().any(|seen| seen == line));
    }

    const SCRIPT: &str = "echo \"found $(ls | tr '\\n' ' ')$(cat conf/a kept moved 2>/dev/null)\"; \
        printf 1 > kept; sync kept; printf 2 >> kept; printf 3 > lost; mv conf/a moved; \
        echo written; exec sleep 60";

    #[test]
    fn a_power_cut_takes_what_was_not_synced_and_nothing_else() {
        if is_lacking() {
            return;
        }
        let dir = TempDir::new().unwrap();
        let process = launch(forgetful(&dir, SCRIPT)).unwrap();
        wait_for_line(&process, "written");
        assert!(process.log_tail(100).lines.contains(&"found conf tmp given".to_owned()));
        assert!(!dir.path().join("node-1/kept").exists(), "others see the directory below");
        // A killed process loses nothing.
        process.signal(Signal::KILL);
        process.restart().unwrap();
        wait_for_line(&process, "found conf kept lost moved tmp 12given");
        wait_for("a second line", || {
            let log = process.log_tail(100).lines;
            log.iter().filter(|line| *line == "written").count() == 2
        });
        let dropped = process.cut_power(1, UnsyncedFate::Lost).unwrap();
        assert!(dropped.bytes >= 1 && dropped.names >= 1 && dropped.syncs == 2, "{dropped:?}");
        process.restart().unwrap();
        // The sync has committed the journal, so the names of the first start are there, but not the data of `lost`.
        wait_for_line(&process, "found conf kept lost moved tmp 1given");
        assert_eq!(
            process
                .log_tail(100)
                .lines
                .iter()
                .filter(|line| line.contains("bakeoff restarts"))
                .count(),
            2
        );
    }

    #[test]
    fn mounts_end_with_their_node() {
        if is_lacking() {
            return;
        }
        let dir = TempDir::new().unwrap();
        let process = launch(forgetful(&dir, "echo up; exec sleep 60")).unwrap();
        wait_for_line(&process, "up");
        let is_mounted = |file: &str| {
            fs::read_to_string(file)
                .unwrap_or_default()
                .lines()
                .any(|line| line.starts_with("bakeoff ") && line.contains(" fuse"))
        };
        assert!(is_mounted(&format!("/proc/{}/mounts", process.pid().unwrap())));
        assert!(!is_mounted("/proc/self/mounts"));
        drop(process);
        let of_ours = format!("{}\0{}", bakeoff_disk::COMMAND, std::process::id());
        let disks = || {
            let args = |pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let node = dir.path().join("node-1").display().to_string();
            procfs::pids()
                .into_iter()
                .map(args)
                .filter(|a| a.contains(&of_ours) && a.contains(&node))
                .count()
        };
        assert_eq!(disks(), 0);
    }

    #[test]
    fn an_ordinary_directory_has_no_power_to_cut() {
        let dir = TempDir::new().unwrap();
        let process = launch(sh(&dir, "exec sleep 60")).unwrap();
        let why = process.cut_power(1, UnsyncedFate::Lost).unwrap_err();
        assert_eq!(why, "its directory is on the machine's file system");
        assert!(process.is_alive());
    }
}
