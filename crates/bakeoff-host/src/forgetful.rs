//! Starts the file system that holds a node's directory, and cuts its power.
//!
//! It is a process of ours (`bakeoff __disk`), which the node's processes share a mount namespace with. It ends with
//! bakeoff like any server: by the kernel, by the warden, and because its input closes.
//!
//! Not here: the file system (`bakeoff_disk`), entering its namespace (`shim`), breaking its disk (`disk_fault`).

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use bakeoff_disk::{DiskReply, Dropped, Order, Unsynced};

use super::disk_fault::Broken;
use super::{child, launcher, procfs};

/// A mounted file system. Dropping it ends its process, and with the last process of the node the mount.
pub(super) struct ForgetfulDisk {
    child: Mutex<Child>,
    pid: i32,
    dir: PathBuf,
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    broken: Mutex<Broken>,
}

impl ForgetfulDisk {
    /// Mounts a file system on a directory, with the files that are there.
    pub(super) fn mount(dir: &Path) -> Result<Self, String> {
        use std::os::unix::process::CommandExt as _;

        let text = |error: std::io::Error| error.to_string();
        let mut command = launcher::ourselves();
        command.args([bakeoff_disk::COMMAND, &std::process::id().to_string()]).arg(dir);
        let (mark, marked) = launcher::mark();
        command.env_clear().env(mark, marked).current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        launcher::guard().map_err(text)?;
        let mut child = launcher::spawn(command).map_err(text)?;
        let pid = child.id() as i32;
        let start_ticks = procfs::stat(pid).map_or(0, |stat| stat.start_ticks);
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let pipes = stdin.zip(stdout.map(BufReader::new)).expect("were piped");
        let disk = Self {
            child: Mutex::new(child),
            pid,
            dir: dir.to_owned(),
            pipes: Mutex::new(pipes),
            broken: Mutex::default(),
        };
        launcher::watch(pid, start_ticks).map_err(text)?;
        let mounted = answer(&mut disk.pipes().1)?;
        match mounted {
            DiskReply::Ready => Ok(disk),
            other => Err(reason(other)),
        }
    }

    /// Returns the process whose mount namespace has the file system.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the directory that it is mounted on.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns what is broken of it.
    pub(super) fn broken(&self) -> MutexGuard<'_, Broken> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops what was not synced. No process may use the file system.
    pub(super) fn cut(&self, seed: u64, unsynced: Unsynced) -> Result<Dropped, String> {
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
        let mut line = serde_json::to_vec(&order).unwrap_or_default();
        line.push(b'\n');
        let mut pipes = self.pipes();
        let sent = pipes.0.write_all(&line);
        sent.map_err(|error| format!("its file system has ended: {error}"))?;
        answer(&mut pipes.1)
    }

    fn pipes(&self) -> MutexGuard<'_, (ChildStdin, BufReader<ChildStdout>)> {
        self.pipes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer(from: &mut BufReader<ChildStdout>) -> Result<DiskReply, String> {
    let mut line = String::new();
    let read = from.read_line(&mut line);
    read.map_err(|error| format!("its file system has ended: {error}"))?;
    serde_json::from_str(&line).map_err(|_| "its file system has ended".to_owned())
}

impl Drop for ForgetfulDisk {
    fn drop(&mut self) {
        child::end(self.child.get_mut().unwrap_or_else(PoisonError::into_inner));
        launcher::forget(self.pid);
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
        ForgetfulDisk::mount(dir.path()).map(drop)
    };
    TRIED.get_or_init(attempt).clone()
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use rustix::process::Signal;
    use tempfile::TempDir;

    use super::*;
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
        let dropped = process.cut_power(1, Unsynced::Lost).unwrap();
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
        let why = process.cut_power(1, Unsynced::Lost).unwrap_err();
        assert_eq!(why, "its directory is on the machine's file system");
        assert!(process.is_alive());
    }
}
