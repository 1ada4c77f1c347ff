//! Starts processes of ours that take orders: a line of JSON for each order, a line for each answer.
//!
//! A helper ends like any server: by the kernel, by the warden, and because its input closes.
//!
//! Not here: the orders (`bakeoff_disk`, `network`).

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{child, launcher, procfs};

/// A running helper process. Dropping it ends its process.
pub(super) struct HelperProcess {
    /// Its service in messages: `its file system`.
    name: &'static str,
    child: Mutex<Child>,
    pid: i32,
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
}

impl HelperProcess {
    /// Starts one of bakeoff's internal commands, with the ID of this process as its first argument.
    pub(super) fn start(
        name: &'static str,
        command: &str,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Self, String> {
        let mut child = start_ours(command, args, Stdio::piped())?;
        let pid = child.id() as i32;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let pipes = stdin.zip(stdout.map(BufReader::new)).expect("were piped");
        Ok(Self { name, child: Mutex::new(child), pid, pipes: Mutex::new(pipes) })
    }

    /// Returns its process ID.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends an order and waits for the answer.
    pub(super) fn order<T: DeserializeOwned>(&self, order: &impl Serialize) -> Result<T, String> {
        let mut line = serde_json::to_vec(order).map_err(|error| error.to_string())?;
        line.push(b'\n');
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        let (to, from) = &mut *pipes;
        to.write_all(&line).map_err(|error| format!("{} has ended: {error}", self.name))?;
        self.read(from)
    }

    /// Waits for an answer that follows no order: the first one.
    pub(super) fn answer<T: DeserializeOwned>(&self) -> Result<T, String> {
        self.read(&mut self.pipes.lock().unwrap_or_else(PoisonError::into_inner).1)
    }

    fn read<T: DeserializeOwned>(&self, from: &mut BufReader<ChildStdout>) -> Result<T, String> {
        let mut line = String::new();
        let read = from.read_line(&mut line);
        read.map_err(|error| format!("{} has ended: {error}", self.name))?;
        serde_json::from_str(&line).map_err(|_| format!("{} has ended", self.name))
    }
}

impl Drop for HelperProcess {
    fn drop(&mut self) {
        end_ours(self.child.get_mut().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Starts one of bakeoff's internal commands, with the ID of this process as its first argument. Its output is piped,
/// and the warden ends it with bakeoff.
pub(super) fn start_ours(
    command: &str,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    stdin: Stdio,
) -> Result<Child, String> {
    use std::os::unix::process::CommandExt as _;

    let text = |error: std::io::Error| error.to_string();
    let mut ours = launcher::ourselves();
    ours.args([command, &std::process::id().to_string()]).args(args);
    let (mark, marked) = launcher::mark();
    ours.env_clear().env(mark, marked).current_dir("/").process_group(0);
    ours.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::null());
    launcher::guard().map_err(text)?;
    let mut child = launcher::spawn(ours).map_err(text)?;
    let pid = child.id() as i32;
    let start_ticks = procfs::stat(pid).map_or(0, |stat| stat.start_ticks);
    if let Err(error) = launcher::watch(pid, start_ticks) {
        end_ours(&mut child);
        return Err(text(error));
    }
    Ok(child)
}

/// Kills a process of ours, and takes it off the warden's list.
pub(super) fn end_ours(child: &mut Child) {
    child::end(child);
    launcher::forget(child.id() as i32);
}
