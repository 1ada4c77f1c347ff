//! Starts processes of a cluster with their output in a log, finds them by a mark, and kills them.
//!
//! Kills through a process handle, which cannot refer to another process later.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::error::ClusterError;
use super::process_id::{ProcessId, Stat, all};
use super::run::{MARK, Run};

/// Returns a child of a process, if there is one.
pub(super) fn child_of(parent: u32) -> Option<ProcessId> {
    let is_child =
        |pid: &i32| Stat::read(*pid).is_some_and(|stat| u32::try_from(stat.parent) == Ok(parent));
    all().find(is_child).and_then(ProcessId::read)
}

/// Returns the ids of the processes whose environment marks them as this cluster's.
pub(super) fn marked(run: &Run) -> Vec<i32> {
    all().filter(|&pid| is_marked(pid, run.name())).collect()
}

fn is_marked(pid: i32, name: &str) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    let wanted = format!("{MARK}={name}");
    let holds = environment.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes());
    holds && Stat::read(pid).is_some_and(|stat| stat.is_alive())
}

/// Kills a process if it is marked as this cluster's.
pub(super) fn kill_marked(pid: i32, run: &Run) {
    let Some(raw) = Pid::from_raw(pid) else { return };
    // Open the handle before the check, so that both refer to the same process.
    let Ok(handle) = pidfd_open(raw, PidfdFlags::empty()) else { return };
    if is_marked(pid, run.name()) {
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
}

/// Kills a process that is in a cgroup of the cluster.
pub(super) fn kill_in_cgroup(pid: i32, cgroup: &Path) {
    let Some(raw) = Pid::from_raw(pid) else { return };
    let Ok(handle) = pidfd_open(raw, PidfdFlags::empty()) else { return };
    let holds = fs::read_to_string(cgroup.join("cgroup.procs"))
        .is_ok_and(|pids| pids.lines().any(|line| line.parse() == Ok(pid)));
    if holds {
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
}

/// A server of the cluster, which outlives this program.
#[derive(Debug)]
pub(super) struct Server {
    name: String,
    child: Child,
}

impl Server {
    /// Starts a program with the cluster's mark, in a separate process group, with its output in a log.
    pub(super) fn start(run: &Run, name: &str, mut command: Command) -> Result<Self, ClusterError> {
        let log = run.log(name);
        let file = File::options().create(true).append(true).open(&log);
        let file = file.map_err(ClusterError::file("write", &log))?;
        let copy = file.try_clone().map_err(ClusterError::file("write", &log))?;
        command.stdin(Stdio::null()).stdout(file).stderr(copy);
        command.env(MARK, run.name()).current_dir("/");
        // A separate group, so that an interrupt at the terminal does not reach it.
        command.process_group(0);
        let child = command.spawn().map_err(|error| cannot_start(command.get_program(), error))?;
        Ok(Self { name: name.to_owned(), child })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Checks that the server still runs.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn check(&mut self, run: &Run) -> Result<(), ClusterError> {
        match self.child.try_wait() {
            Ok(Some(_)) => Err(ClusterError::ServerEnded {
                name: self.name.clone(),
                log: run.log(&self.name),
                last: last_lines(&run.log(&self.name), 5),
            }),
            _ => Ok(()),
        }
    }
}

pub(super) fn last_lines(path: &Path, count: usize) -> String {
    let text = fs::read(path).unwrap_or_default();
    last_of(&String::from_utf8_lossy(&text), count)
}

fn last_of(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Runs a program to its end and returns its standard output. The error has the last lines of its output.
pub(super) fn finish(command: &mut Command, within: Duration) -> Result<String, ClusterError> {
    let program = title(command);
    let starts = command.get_program().to_owned();
    let cannot = |error| cannot_start(&starts, error);
    let mut written =
        [tempfile::tempfile().map_err(cannot)?, tempfile::tempfile().map_err(cannot)?];
    command.stdin(Stdio::null());
    command.stdout(written[0].try_clone().map_err(cannot)?);
    command.stderr(written[1].try_clone().map_err(cannot)?);
    let mut child = command.spawn().map_err(cannot)?;
    let give_up = Instant::now() + within;
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(cannot)? {
            break status;
        }
        if Instant::now() > give_up {
            let _ = child.kill();
            let _ = child.wait();
            return Err(ClusterError::TooLong { program, within });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    let mut texts = [String::new(), String::new()];
    for (file, text) in written.iter_mut().zip(&mut texts) {
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(cannot)?;
        *text = String::from_utf8_lossy(&bytes).into_owned();
    }
    let [output, complaints] = texts;
    if status.success() {
        return Ok(output);
    }
    let last = if complaints.trim().is_empty() { &output } else { &complaints };
    Err(ClusterError::Ended { program, how: status.to_string(), last: last_of(last, 8) })
}

/// Runs a program to its end with its output shown.
pub(super) fn follow(command: &mut Command) -> Result<(), ClusterError> {
    let status = command.status().map_err(|error| cannot_start(command.get_program(), error))?;
    match status.success() {
        true => Ok(()),
        false => Err(ClusterError::Ended {
            program: title(command),
            how: status.to_string(),
            last: String::new(),
        }),
    }
}

fn cannot_start(program: &OsStr, error: std::io::Error) -> ClusterError {
    ClusterError::Start { program: program.to_string_lossy().into_owned(), error }
}

/// Returns a command's name for messages: its program and first words, without a prefix that enters a namespace.
fn title(command: &Command) -> String {
    let mut words: Vec<&OsStr> =
        std::iter::once(command.get_program()).chain(command.get_args()).collect();
    if let Some(at) = words.iter().position(|word| *word == "--") {
        words.drain(..=at);
    }
    let file =
        |word: &&OsStr| Path::new(word).file_name().unwrap_or(word).to_string_lossy().into_owned();
    words.iter().take(3).map(file).collect::<Vec<_>>().join(" ")
}

/// Pauses between two checks. A check may start a program, which slows down a busy machine.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(320);

/// Waits until `is_so` returns true.
///
/// # Errors
/// With the result of `late` if it stays false.
pub(super) fn wait_until(
    within: Duration,
    mut is_so: impl FnMut() -> Result<bool, ClusterError>,
    late: impl FnOnce() -> ClusterError,
) -> Result<(), ClusterError> {
    let give_up = Instant::now() + within;
    let mut pause = FIRST_PAUSE;
    while !is_so()? {
        if Instant::now() > give_up {
            return Err(late());
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marked_processes_are_found_and_killed() {
        let dir = tempfile::tempdir().unwrap();
        let start = |mark: &str| {
            let mut sleep = Command::new("sleep");
            sleep.arg("60").env(MARK, mark).spawn().unwrap()
        };
        let run = Run::at(dir.path());
        let (mut ours, mut others) = (start(run.name()), start("bakeoff-cluster-other"));
        let [our_pid, other_pid] = [&ours, &others].map(|child| child.id().try_into().unwrap());
        // A started process has its own environment only after a moment.
        let found = || marked(&run).contains(&our_pid);
        wait_until(Duration::from_secs(5), || Ok(found()), || panic!("not found")).unwrap();
        assert!(!marked(&run).contains(&other_pid));
        kill_marked(other_pid, &run);
        kill_marked(our_pid, &run);
        ours.wait().unwrap();
        assert!(others.try_wait().unwrap().is_none());
        others.kill().unwrap();
        others.wait().unwrap();
        assert!(!found());
    }

    #[test]
    fn error_of_a_failed_program_has_its_last_output() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; exit 3"]);
        let error = finish(&mut command, Duration::from_secs(5)).unwrap_err().to_string();
        assert!(
            error.contains("`sh -c echo one; echo two >&2; exit 3` ended with exit status: 3"),
            "{error}"
        );
        assert!(error.ends_with("\n  two"), "{error}");
        let mut command = Command::new("no-such-program-at-all");
        let error = finish(command.args(["--", "true"]), Duration::from_secs(5)).unwrap_err();
        assert!(error.to_string().starts_with("cannot run `no-such-program-at-all`"), "{error}");
        let mut command = Command::new("sleep");
        let error = finish(command.arg("60"), Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, ClusterError::TooLong { .. }), "{error}");
    }
}
