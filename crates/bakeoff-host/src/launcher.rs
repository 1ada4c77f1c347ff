//! Starts processes: the one thread that forks, and bakeoff's end of the warden's pipe.
//!
//! The kernel sends a parent-death signal when the *thread* that forked ends, not the process. A server started from a
//! worker thread would die with that thread. So one thread, which lives as long as bakeoff, forks all processes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc};

use super::{procfs, warden_line};

type Job = (Command, mpsc::SyncSender<io::Result<Child>>);

/// Starts a process from the thread that lives as long as bakeoff.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    static LAUNCHER: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let launcher = LAUNCHER.get_or_init(|| {
        let (jobs, queue) = mpsc::channel::<Job>();
        let serve = move || {
            for (mut command, reply) in queue {
                let _ = reply.send(command.spawn());
            }
        };
        std::thread::Builder::new()
            .name("launcher".into())
            .spawn(serve)
            .expect("a thread can be started");
        jobs
    });
    let (reply, answer) = mpsc::sync_channel(1);
    launcher.send((command, reply)).expect("the launcher lives as long as the process");
    answer.recv().expect("the launcher answers every job")
}

/// Returns a command that starts bakeoff itself, for its internal commands.
///
/// `/proc/self/exe` is the running binary, even if its file was replaced since.
pub(super) fn ourselves() -> Command {
    use std::os::unix::process::CommandExt;
    #[cfg(any(test, feature = "for-tests"))]
    if let Some(built) = built_next_to_the_tests() {
        return Command::new(built);
    }
    let mut command = Command::new("/proc/self/exe");
    command.arg0("bakeoff");
    command
}

/// Returns the path of bakeoff's own program, for nodes that bakeoff itself implements.
pub fn own_program() -> PathBuf {
    #[cfg(any(test, feature = "for-tests"))]
    if let Some(built) = built_next_to_the_tests() {
        return built;
    }
    std::env::current_exe().unwrap_or_else(|_| "bakeoff".into())
}

/// Returns the program built next to the tests, because a test runner lacks the internal commands. Returns `None`
/// outside a test runner.
#[cfg(any(test, feature = "for-tests"))]
fn built_next_to_the_tests() -> Option<PathBuf> {
    let runner = std::env::current_exe().expect("a test runner has a path");
    let deps = runner.parent().filter(|folder| folder.ends_with("deps"))?;
    let program = deps.with_file_name(if cfg!(test) { "bakeoff-host" } else { "bakeoff" });
    assert!(program.is_file(), "`cargo build` came first (`cargo test` does it): {program:?}");
    Some(program)
}

/// Returns the environment variable that marks every server and its descendants. The warden finds them by it, even
/// outside their groups.
pub(super) fn mark() -> &'static (&'static str, String) {
    static MARK: OnceLock<(&'static str, String)> = OnceLock::new();
    MARK.get_or_init(|| {
        let pid = std::process::id();
        let start = procfs::stat(pid as i32).map_or(0, |stat| stat.start_ticks);
        (warden_line::MARK, format!("{pid}.{start}"))
    })
}

/// Starts the warden if needed. From then on, marked processes end with bakeoff, even before their group is registered.
pub(super) fn guard() -> io::Result<()> {
    line().send("")
}

/// Registers a process group that the warden kills when bakeoff ends.
pub(super) fn watch(group: i32, start_ticks: u64) -> io::Result<()> {
    let mut line = line();
    line.watched.insert(group, start_ticks);
    line.send(&format!("watch {group} {start_ticks}\n"))
}

/// Removes a process group that is gone from the warden's list.
pub(super) fn forget(group: i32) {
    let mut line = line();
    line.watched.remove(&group);
    line.tell(&format!("forget {group}\n"));
}

/// Registers a folder that the warden removes when bakeoff ends without removing it.
pub(super) fn remove_folder(dir: &Path) -> io::Result<()> {
    line().note(warden_line::Leftover::Folder(dir.to_owned()))
}

/// Removes a folder from the warden's list.
pub(super) fn keep_folder(dir: &Path) {
    line().keep(&warden_line::Leftover::Folder(dir.to_owned()));
}

/// Registers a cgroup, with its subgroups, that the warden removes when bakeoff ends.
pub(super) fn remove_group(dir: &Path) -> io::Result<()> {
    line().note(warden_line::Leftover::Group(dir.to_owned()))
}

/// Makes the warden kill this process, and then all it started, once it has been stopped (`SIGSTOP`) for 30 s. An agent
/// calls this before it launches anything, because a stopped agent cannot notice that its coordinator is gone.
pub fn end_if_stopped() {
    line().ends_if_stopped = true;
}

#[derive(Default)]
struct Line {
    ends_if_stopped: bool,
    warden: Option<(Child, ChildStdin)>,
    watched: BTreeMap<i32, u64>,
    leftovers: BTreeSet<warden_line::Leftover>,
}

fn line() -> MutexGuard<'static, Line> {
    static LINE: OnceLock<Mutex<Line>> = OnceLock::new();
    LINE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

impl Line {
    fn keep(&mut self, leftover: &warden_line::Leftover) {
        self.leftovers.remove(leftover);
        self.tell(&format!("keep {}", leftover.line()));
    }

    /// Sends the warden an update that it does not depend on. Ignores a dead warden.
    fn tell(&mut self, text: &str) {
        if let Some((_, stdin)) = &mut self.warden {
            let _ = stdin.write_all(text.as_bytes());
        }
    }

    fn note(&mut self, leftover: warden_line::Leftover) -> io::Result<()> {
        let text = leftover.line();
        match self.leftovers.insert(leftover) {
            true => self.send(&text),
            false => Ok(()),
        }
    }

    fn send(&mut self, text: &str) -> io::Result<()> {
        if let Some((_, stdin)) = &mut self.warden
            && stdin.write_all(text.as_bytes()).is_ok()
        {
            return Ok(());
        }
        // No warden yet, or it was killed: start one and send it everything.
        if let Some((mut dead, _)) = self.warden.take() {
            let _ = dead.kill();
            let _ = dead.wait();
        }
        let (child, mut stdin) = start_warden(self.ends_if_stopped)?;
        for (group, start_ticks) in &self.watched {
            stdin.write_all(format!("watch {group} {start_ticks}\n").as_bytes())?;
        }
        for leftover in &self.leftovers {
            stdin.write_all(leftover.line().as_bytes())?;
        }
        self.warden = Some((child, stdin));
        Ok(())
    }
}

fn start_warden(ends_if_stopped: bool) -> io::Result<(Child, ChildStdin)> {
    let mut command = ourselves();
    command.args([warden_line::COMMAND, &mark().1]);
    if ends_if_stopped {
        command.arg(warden_line::STOPPED_MAX.to_string());
    }
    // Without our standard error, a pipeline (`bakeoff … 2>&1 | less`) does not wait for the warden.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.env_clear().current_dir("/");
    let mut child = spawn(command)?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let (stdin, stdout) = (stdin.expect("was piped"), stdout.expect("was piped"));
    // Until the warden has its own session, Ctrl-C would kill it too.
    let mut greeting = String::new();
    BufReader::new(stdout).read_line(&mut greeting)?;
    if greeting != warden_line::READY {
        let _ = child.kill();
        let _ = child.wait();
        return Err(io::Error::other("the warden did not start"));
    }
    Ok((child, stdin))
}

/// Returns the warden's process ID, if it runs. For tests that kill it.
pub(super) fn warden_pid() -> Option<u32> {
    line().warden.as_ref().map(|(child, _)| child.id())
}
