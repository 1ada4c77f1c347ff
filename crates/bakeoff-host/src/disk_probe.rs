//! Probes the disk of a node: writes a file in its mount namespace (`bakeoff __probe`) and syncs it.
//!
//! Not here: what a probe proves (`disk_fault`).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use bakeoff_clock as clock;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use super::{helper_process, shim};

/// Internal command: `bakeoff __probe PARENT DISK DIR`.
pub(super) const COMMAND: &str = "__probe";

/// Bytes that a probe writes.
const PROBE_BYTES: usize = 4096;

/// Result of a probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ProbeResult {
    /// The write and its sync took this many seconds.
    Synced(f64),
    /// The disk has no space.
    NoSpace,
    /// Another reason of a failure.
    Failed(String),
}

/// A process that writes to a node's disk. Dropping it kills the process.
pub(super) struct Probe {
    child: Child,
    answer: mpsc::Receiver<Option<ProbeResult>>,
}

impl Probe {
    /// Starts to write below `dir`, in the mount namespace of the process `pid`.
    pub(super) fn begin(pid: i32, dir: &Path) -> Result<Self, String> {
        let within = pid.to_string();
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
    pub(super) fn answer(&mut self, within: Duration) -> Result<Option<ProbeResult>, String> {
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
