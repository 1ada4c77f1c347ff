//! Runs the tools that fetch and build (`apt-get`, `dpkg`, `go`, `npm`), and programs that print their version.
//!
//! Each child has its own process group, so an interrupt ends all its descendants. A tool's output goes to a log. Time
//! is counted in polls, because nothing here is measured and only `bakeoff-clock` reads the clock.
//!
//! Not here: servers under test (`bakeoff_host`).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::error::{Failure, SourceError};
use super::refusal::{AskError, short};

/// Interval between checks of a child.
const POLL: Duration = Duration::from_millis(50);
/// Interval between progress messages of a long step.
const SAY_EVERY: Duration = Duration::from_secs(15);
/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// Most output to read back, in bytes.
const READ_BACK_MAX: u64 = 8 << 20;
/// Number of a failed tool's last lines to show.
const TAIL_LINES: usize = 8;

/// A message about an installation, in one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallMessage<'a> {
    /// A step that begins, a result, or something to know.
    Step(&'a str),
    /// The state of a long step. It replaces the state before.
    State(&'a str),
}

/// Receiver of messages, and source of the user's interrupt.
pub(super) struct Watcher<'a> {
    /// Called with each message.
    pub(super) progress: &'a mut dyn FnMut(InstallMessage<'_>),
    /// Set when the user interrupts.
    pub(super) stop: &'a AtomicBool,
}

impl Watcher<'_> {
    /// Reports a step, a result, or something to know.
    pub(super) fn say(&mut self, line: &str) {
        (self.progress)(InstallMessage::Step(line));
    }

    /// Reports the state of a long step.
    pub(super) fn goes_on(&mut self, line: &str) {
        (self.progress)(InstallMessage::State(line));
    }

    /// Returns true if the user has interrupted.
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

pub(super) struct Call<'a> {
    /// Step for progress messages and errors: `etcd 3.6.16: compiling`.
    pub(super) doing: &'a str,
    /// File to append the tool's output to.
    pub(super) log: &'a Path,
    /// Time after which the tool is killed.
    pub(super) limit: Duration,
}

impl Call<'_> {
    /// Runs the tool to its end. A nonzero exit code is a failure with the last lines of output.
    pub(super) fn run(
        &self,
        command: &mut Command,
        watcher: &mut Watcher<'_>,
    ) -> Result<(), SourceError> {
        let (mut log, start) = self.open_log(command)?;
        let stdout = log.try_clone().map_err(|e| SourceError::io("write", self.log, &e))?;
        let stderr = log.try_clone().map_err(|e| SourceError::io("write", self.log, &e))?;
        let status = self.wait(command.stdout(stdout).stderr(stderr), watcher)?;
        if status.success() {
            return Ok(());
        }
        Err(self.failure(&format!("{} failed: {}", self.doing, ending(status)), &mut log, start))
    }

    /// Runs the tool to its end and returns its standard output.
    pub(super) fn read(
        &self,
        command: &mut Command,
        watcher: &mut Watcher<'_>,
    ) -> Result<String, SourceError> {
        let (mut log, start) = self.open_log(command)?;
        let stderr = log.try_clone().map_err(|e| SourceError::io("write", self.log, &e))?;
        let mut out = tempfile::tempfile()
            .map_err(|e| SourceError::io("make a temporary file in", &std::env::temp_dir(), &e))?;
        let stdout = out.try_clone().map_err(|e| SourceError::io("write", self.log, &e))?;
        let status = self.wait(command.stdout(stdout).stderr(stderr), watcher)?;
        let text = read_back(&mut out, 0);
        let _ = log.write_all(text.as_bytes());
        if status.success() {
            return Ok(text);
        }
        Err(self.failure(&format!("{} failed: {}", self.doing, ending(status)), &mut log, start))
    }

    fn open_log(&self, command: &Command) -> Result<(File, u64), SourceError> {
        let mut log = OpenOptions::new()
            .create(true)
            .append(true)
            .read(true)
            .open(self.log)
            .map_err(|e| SourceError::io("open the log", self.log, &e))?;
        let _ = writeln!(log, "$ {}", line_of(command));
        let start = log.seek(SeekFrom::End(0)).unwrap_or(0);
        Ok((log, start))
    }

    fn wait(
        &self,
        command: &mut Command,
        watcher: &mut Watcher<'_>,
    ) -> Result<ExitStatus, SourceError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let spawned = spawn_when_free(command.stdin(Stdio::null()).process_group(0));
        let mut child = Group(
            spawned.map_err(|e| SourceError::failed(format!("cannot start `{program}`: {e}")))?,
        );
        let mut waited = Duration::ZERO;
        let mut reported_at = Duration::ZERO;
        loop {
            match child.0.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(e) => {
                    return Err(SourceError::failed(format!("cannot wait for `{program}`: {e}")));
                }
            }
            if watcher.stopped() {
                return Err(SourceError::Interrupted);
            }
            if waited >= self.limit {
                let mut failure = Failure {
                    what: format!("{} timed out after {}", self.doing, short(waited)),
                    ..Failure::default()
                };
                failure.log = Some(self.log.to_owned());
                return Err(SourceError::Failed(failure));
            }
            if waited - reported_at >= SAY_EVERY {
                reported_at = waited;
                watcher.goes_on(&format!("{}, {} so far", self.doing, short(waited)));
            }
            thread::sleep(POLL);
            waited += POLL;
        }
    }

    fn failure(&self, what: &str, log: &mut File, start: u64) -> SourceError {
        let text = read_back(log, start);
        SourceError::Failed(Failure {
            what: what.to_owned(),
            output: tail(&text),
            log: Some(self.log.to_owned()),
        })
    }
}

/// A child. Dropping it before its end kills its whole process group.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        let group = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        let signal = |signal| {
            if let Some(group) = group {
                let _ = kill_process_group(group, signal);
            }
        };
        signal(Signal::TERM);
        let mut waited = Duration::ZERO;
        while waited < GRACE && matches!(self.0.try_wait(), Ok(None)) {
            thread::sleep(POLL);
            waited += POLL;
        }
        signal(Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Runs a program with short output, and returns its standard output and standard error.
pub(super) fn ask(command: &mut Command, limit: Duration) -> Result<String, AskError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut out = tempfile::tempfile().map_err(AskError::NoFile)?;
    let stdout = out.try_clone().map_err(AskError::NoFile)?;
    let stderr = out.try_clone().map_err(AskError::NoFile)?;
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0);
    let spawned = spawn_when_free(command);
    let mut child = Group(spawned.map_err(|e| AskError::NotStarted(program.clone(), e))?);
    let mut waited = Duration::ZERO;
    let status = loop {
        match child.0.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if waited >= limit => {
                return Err(AskError::Silent(program, limit));
            }
            Ok(None) => {}
            Err(e) => return Err(AskError::NotWaitedFor(program, e)),
        }
        // Most programs end within tens of milliseconds. A longer pause would slow down listings of systems.
        let pause = Duration::from_millis(5);
        thread::sleep(pause);
        waited += pause;
    };
    let text = read_back(&mut out, 0);
    if status.success() {
        return Ok(text);
    }
    let last = tail(&text).pop().unwrap_or_default();
    Err(AskError::Failed { line: line_of(command), ended: ending(status), last })
}

/// Starts a program, and retries while its file is busy. A new file is busy while another thread's child, between fork
/// and exec, still holds it open for writing.
fn spawn_when_free(command: &mut Command) -> io::Result<Child> {
    for _ in 0..40 {
        match command.spawn() {
            Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy => thread::sleep(POLL / 2),
            other => return other,
        }
    }
    command.spawn()
}

/// Finds an executable in the absolute directories of `path`.
pub(super) fn on_path(name: &str, path: Option<&std::ffi::OsStr>) -> Option<PathBuf> {
    std::env::split_paths(path?)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|file| is_executable(file))
}

/// Returns true if the path is a file that this user may execute.
pub(super) fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit code".to_owned(),
    }
}

fn line_of(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}

fn read_back(file: &mut File, start: u64) -> String {
    let mut bytes = Vec::new();
    let read = |file: &mut File, bytes: &mut Vec<u8>| -> io::Result<u64> {
        let end = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(start.max(end.saturating_sub(READ_BACK_MAX))))?;
        file.take(READ_BACK_MAX).read_to_end(bytes).map(|n| n as u64)
    };
    let _ = read(file, &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn tail(text: &str) -> Vec<String> {
    let printable =
        |line: &str| -> String { line.chars().filter(|c| !c.is_control()).take(300).collect() };
    let lines: Vec<String> =
        text.lines().map(printable).filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn failing_tool_shows_its_last_lines_and_keeps_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("x.log");
        let stop = AtomicBool::new(false);
        let mut watcher = Watcher { progress: &mut |_| {}, stop: &stop };
        let call = Call { doing: "trying", log: &log, limit: Duration::from_secs(5) };
        let failed = call.run(
            &mut shell("for i in 1 2 3 4 5 6 7 8 9 10; do echo line $i >&2; done; exit 3"),
            &mut watcher,
        );
        let Err(SourceError::Failed(failure)) = failed else { panic!("{failed:?}") };
        assert!(failure.what.contains("exit code 3"), "{}", failure.what);
        assert_eq!(failure.output.len(), TAIL_LINES);
        assert_eq!(failure.output.last().unwrap(), "line 10");
        let kept = std::fs::read_to_string(failure.log.unwrap()).unwrap();
        assert!(kept.starts_with("$ sh -c") && kept.contains("line 1\n"));
    }

    #[test]
    fn interrupt_ends_a_tool_and_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("x.log");
        let pid_file = dir.path().join("pid");
        let stop = AtomicBool::new(false);
        let script = format!("sleep 60 & echo $! > {}; wait", pid_file.display());
        let result = thread::scope(|scope| {
            let ended = scope.spawn(|| {
                let mut watcher = Watcher { progress: &mut |_| {}, stop: &stop };
                let call = Call { doing: "sleeping", log: &log, limit: Duration::from_secs(30) };
                call.run(&mut shell(&script), &mut watcher)
            });
            while std::fs::read_to_string(&pid_file).unwrap_or_default().trim().is_empty() {
                thread::sleep(Duration::from_millis(10));
            }
            stop.store(true, Ordering::Relaxed);
            ended.join().unwrap()
        });
        assert!(matches!(result, Err(SourceError::Interrupted)));
        let pid = std::fs::read_to_string(&pid_file).unwrap();
        let state =
            || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        // The process was killed, but ends only once it gets a CPU.
        let ended = |state: &str| state.is_empty() || state.contains(") Z");
        let tries = (0..200).find(|_| {
            ended(&state()) || {
                thread::sleep(Duration::from_millis(10));
                false
            }
        });
        assert!(tries.is_some(), "the grandchild still runs: {}", state());
    }

    #[test]
    fn hanging_tool_times_out() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("x.log");
        let stop = AtomicBool::new(false);
        let mut watcher = Watcher { progress: &mut |_| {}, stop: &stop };
        let call = Call { doing: "sleeping", log: &log, limit: Duration::from_millis(200) };
        let error = call.run(&mut shell("sleep 60"), &mut watcher).unwrap_err().to_string();
        assert!(error.contains("timed out"), "{error}");
        assert!(
            ask(&mut shell("sleep 60"), Duration::from_millis(100))
                .unwrap_err()
                .to_string()
                .contains("did not answer")
        );
    }

    #[test]
    fn absent_tool_and_invalid_output_cause_no_panic() {
        assert!(
            ask(&mut Command::new("/no/such/tool"), POLL)
                .unwrap_err()
                .to_string()
                .contains("cannot start")
        );
        let output = ask(&mut shell("printf '\\377\\376\\000'"), Duration::from_secs(5)).unwrap();
        assert!(!output.is_empty());
    }
}
