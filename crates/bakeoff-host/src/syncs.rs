//! Counts the syncs of a server's processes by tracing them, outside of any measurement.
//!
//! The kernel keeps no count of a process's syncs that an ordinary user may read. `/proc/PID/io` has bytes,
//! `/proc/diskstats` has the flushes of a whole disk, and tracepoints and eBPF need root. Tracing does not: a process
//! may trace its descendants (`ptrace(2)`; Yama's `ptrace_scope` 0 and 1 allow it). Tracing slows every system call
//! down, so it covers only a few unmeasured writes, and leaves no lasting change.
//!
//! New processes and threads are traced too. When the tracing thread ends, the kernel releases all of them, however
//! bakeoff ended. Syncs that tracing cannot see (`io_uring`, `io_submit`) make the count incomplete.
//!
//! Not here: the writes made meanwhile (the binary), conclusions from the count (`bakeoff_core::record::durability`).

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use bakeoff_clock as clock;
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, gettid};
use serde::{Deserialize, Serialize};

use super::procfs;

/// Time limit for all threads of a server to stop once and be traced.
const ATTACH_WITHIN: Duration = Duration::from_secs(5);
/// Time limit for the kernel to release all threads.
const DETACH_WITHIN: Duration = Duration::from_secs(1);
/// Polls without an event before the tracer sleeps.
const LOOKS: u32 = 200;
const SLEEP: Duration = Duration::from_micros(50);

/// Syncs of a server's processes while they were traced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncsSeen {
    /// Number of completed syncs.
    pub syncs: u64,
    /// Reason why there may have been more; `None` if all were seen.
    pub incomplete: Option<String>,
}

impl SyncsSeen {
    /// Returns an empty count with the reason.
    pub fn unseen(why: impl Into<String>) -> Self {
        Self { syncs: 0, incomplete: Some(why.into()) }
    }
}

/// Traces a server's processes until it is dropped.
pub(super) struct SyncTracer {
    stop: Arc<AtomicBool>,
    group: i32,
    thread: Option<JoinHandle<SyncsSeen>>,
}

impl SyncTracer {
    /// Traces a process group and its descendants. Returns once all their threads are traced.
    ///
    /// # Errors
    /// A reason, if the kernel forbids tracing.
    pub(super) fn begin(group: i32) -> Result<Self, String> {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, attached) = mpsc::sync_channel(1);
        let stopping = Arc::clone(&stop);
        let trace = move || {
            let mut tracing = Tracing { group, ..Tracing::default() };
            let begun = tracing.attach();
            let failed = begun.is_err();
            ready.send(begun).ok();
            match failed {
                true => SyncsSeen::default(),
                false => tracing.follow(&stopping),
            }
        };
        let thread = std::thread::Builder::new()
            .name("sync-tracer".into())
            .spawn(trace)
            .map_err(|error| format!("cannot start a thread to trace it: {error}"))?;
        let tracer = Self { stop, group, thread: Some(thread) };
        attached.recv().map_err(|_| "the tracing thread ended".to_owned())??;
        Ok(tracer)
    }

    /// Ends tracing and returns the syncs seen.
    pub(super) fn end(mut self) -> SyncsSeen {
        self.join().unwrap_or_else(|| SyncsSeen::unseen("the tracing thread panicked"))
    }

    fn join(&mut self) -> Option<SyncsSeen> {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.thread.take()?.join().ok();
        let deadline = clock::now() + DETACH_WITHIN;
        // The thread may end shortly before the kernel has released all threads.
        while tracer_of(self.group).is_some() && clock::now() < deadline {
            std::thread::sleep(SLEEP);
        }
        seen
    }
}

impl Drop for SyncTracer {
    fn drop(&mut self) {
        self.join();
    }
}

/// Returns true if a thread has ended or is about to end.
fn is_ending(thread: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{thread}/stat")) else { return true };
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_none_or(|state| matches!(state, 'Z' | 'X'))
}

/// Returns the thread that traces a process or thread; `None` if there is none.
fn tracer_of(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    tracer.trim().parse().ok().filter(|&tracer| tracer != 0)
}

/// A system call in progress in a traced thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Sync,
    /// May sync invisibly.
    Hidden(&'static str),
    Other,
}

/// Why tracing stopped.
#[derive(Debug)]
enum TraceEnd {
    /// The server exited.
    Ended,
    Kernel(Errno),
}

impl From<Errno> for TraceEnd {
    fn from(error: Errno) -> Self {
        Self::Kernel(error)
    }
}

impl fmt::Display for TraceEnd {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => to.write_str("it exited while it was traced"),
            Self::Kernel(error) => write!(to, "tracing failed: {error}"),
        }
    }
}

#[derive(Default)]
struct Tracing {
    /// Process ID of the server, which is also its group's.
    group: i32,
    /// Threads that are traced, found here or in an event.
    known: HashSet<i32>,
    /// Threads that have not stopped for the first time.
    pending: HashSet<i32>,
    /// System calls in progress, by thread.
    calls: HashMap<i32, Call>,
    seen: SyncsSeen,
}

impl Tracing {
    /// Seizes all threads of a group and its descendants, and makes each stop at its system calls.
    fn attach(&mut self) -> Result<(), String> {
        let deadline = clock::now() + ATTACH_WITHIN;
        // Repeat: a thread may start another one before it is seized.
        while self.seize_new()? {
            while !self.pending.is_empty() {
                self.handle_next().map_err(|lost| lost.to_string())?;
                if clock::now() > deadline {
                    return Err(format!("not all of its threads stopped within {ATTACH_WITHIN:?}"));
                }
            }
        }
        match self.known.is_empty() {
            true => Err("none of its processes runs".to_owned()),
            false => Ok(()),
        }
    }

    /// Seizes threads that are not traced yet. Returns true if there were any.
    fn seize_new(&mut self) -> Result<bool, String> {
        let options = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK
            | Options::PTRACE_O_TRACEEXEC;
        let before = self.known.len();
        for process in procfs::family(self.group).iter().filter(|process| process.lives()) {
            for thread in procfs::threads(process.pid).into_keys() {
                if self.known.contains(&thread) {
                    continue;
                }
                let id = Pid::from_raw(thread);
                match ptrace::seize(id, options).and_then(|()| ptrace::interrupt(id)) {
                    Ok(()) => _ = (self.known.insert(thread), self.pending.insert(thread)),
                    Err(Errno::ESRCH) => {}
                    // A traced thread started it, so its first stop is on its way.
                    Err(Errno::EPERM) if tracer_of(thread) == Some(gettid().as_raw()) => {
                        _ = (self.known.insert(thread), self.pending.insert(thread));
                    }
                    // The kernel also returns EPERM for a thread that is ending (`ptrace_attach`).
                    Err(Errno::EPERM) if is_ending(thread) => {}
                    Err(error) => return Err(format!("the kernel forbids tracing it: {error}")),
                }
            }
        }
        Ok(self.known.len() > before)
    }

    /// Counts syncs until `stop` is set.
    fn follow(mut self, stop: &AtomicBool) -> SyncsSeen {
        while !stop.load(Ordering::Relaxed) {
            if let Err(lost) = self.handle_next() {
                self.seen.incomplete = Some(lost.to_string());
                break;
            }
        }
        if self.seen.incomplete.is_none() && procfs::family(self.group).iter().any(uses_io_uring) {
            self.seen.incomplete =
                Some("it uses io_uring, whose syncs are invisible to tracing".to_owned());
        }
        self.seen
    }

    /// Handles the next stop or exit of any thread, or sleeps briefly.
    fn handle_next(&mut self) -> Result<(), TraceEnd> {
        // Peek first: the thread that waits for the server must reap it.
        let flags = WaitPidFlag::WSTOPPED
            | WaitPidFlag::WEXITED
            | WaitPidFlag::WNOHANG
            | WaitPidFlag::__WNOTHREAD;
        let mut looks = 0;
        let seen = loop {
            match waitid(Id::All, flags | WaitPidFlag::WNOWAIT) {
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) if looks < LOOKS => {
                    looks += 1;
                    std::thread::yield_now();
                }
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => {
                    std::thread::sleep(SLEEP);
                    return Ok(());
                }
                Err(Errno::EINTR) => {}
                seen => break seen?,
            }
        };
        if let WaitStatus::Exited(ended, _) | WaitStatus::Signaled(ended, ..) = seen {
            let ended = ended.as_raw();
            if ended == self.group {
                return Err(TraceEnd::Ended);
            }
            self.pending.remove(&ended);
            self.calls.remove(&ended);
        }
        let Some(thread) = seen.pid() else { return Ok(()) };
        // Consumes the event. If it is an exit, the parent can see it only afterwards.
        let stopped = waitid(Id::Pid(thread), flags)?;
        let (thread, signal) = match stopped {
            WaitStatus::PtraceSyscall(thread) => {
                self.on_syscall(thread.as_raw());
                (thread, None)
            }
            // A signal on its way; the thread continues.
            WaitStatus::PtraceEvent(thread, signal, 0) => (thread, Some(signal)),
            WaitStatus::PtraceEvent(thread, ..) => {
                self.known.insert(thread.as_raw());
                self.pending.remove(&thread.as_raw());
                (thread, None)
            }
            WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
            _ => return Ok(()),
        };
        match ptrace::syscall(thread, signal) {
            // The thread was killed meanwhile.
            Err(Errno::ESRCH) => Ok(()),
            gone_on => Ok(gone_on?),
        }
    }

    /// Records a system call at its start, and counts a sync at its end.
    fn on_syscall(&mut self, thread: i32) {
        match self.calls.remove(&thread) {
            None => {
                let text = std::fs::read_to_string(format!("/proc/{thread}/syscall"));
                let call = text.map_or(Call::Other, |text| classify(thread, &text));
                self.calls.insert(thread, call);
            }
            Some(Call::Sync) => self.seen.syncs += 1,
            Some(Call::Hidden(name)) => {
                let why = || format!("it calls {name}, whose syncs are invisible to tracing");
                self.seen.incomplete.get_or_insert_with(why);
            }
            Some(Call::Other) => {}
        }
    }
}

/// Classifies a system call by a thread's line in `/proc/TID/syscall`: its number and arguments (`proc(5)`).
fn classify(thread: i32, line: &str) -> Call {
    let mut words = line.split_ascii_whitespace();
    let number = words.next().and_then(|word| word.parse::<libc::c_long>().ok());
    let args: Vec<u64> =
        words.map_while(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).collect();
    let arg = |place: usize| args.get(place).copied().unwrap_or(0);
    let has = |place: usize, bits: libc::c_int| arg(place) & bits as u64 != 0;
    match number {
        Some(libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_sync | libc::SYS_syncfs) => {
            Call::Sync
        }
        Some(libc::SYS_msync) if has(2, libc::MS_SYNC) => Call::Sync,
        Some(libc::SYS_pwritev2) if has(5, libc::RWF_DSYNC | libc::RWF_SYNC) => Call::Sync,
        Some(
            libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_pwrite64
            | libc::SYS_pwritev
            | libc::SYS_pwritev2,
        ) if is_synchronous(thread, arg(0)) => Call::Sync,
        Some(libc::SYS_io_uring_enter) => Call::Hidden("io_uring_enter"),
        Some(libc::SYS_io_submit) => Call::Hidden("io_submit"),
        _ => Call::Other,
    }
}

/// Returns true if a file was opened so that writes return only once they are on disk.
fn is_synchronous(thread: i32, file: u64) -> bool {
    let flags = || {
        let text = std::fs::read_to_string(format!("/proc/{thread}/fdinfo/{file}")).ok()?;
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
        i32::from_str_radix(flags.trim(), 8).ok()
    };
    flags().is_some_and(|flags| flags & libc::O_DSYNC != 0)
}

fn uses_io_uring(process: &procfs::Stat) -> bool {
    let Ok(files) = std::fs::read_dir(format!("/proc/{}/fd", process.pid)) else { return false };
    let target = |file: std::fs::DirEntry| std::fs::read_link(file.path()).ok();
    files
        .filter_map(|file| target(file.ok()?))
        .any(|target| target.to_string_lossy().contains("[io_uring]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syncs_are_distinguished_from_other_calls() {
        let (sync, msync) = (libc::SYS_fdatasync, libc::SYS_msync);
        for (line, call) in [
            (format!("{sync} 0x9 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f00"), Call::Sync),
            (format!("{msync} 0x7f00 0x1000 0x4 0x0 0x0 0x0 0x7ffd 0x7f00"), Call::Sync),
            (format!("{msync} 0x7f00 0x1000 0x1 0x0 0x0 0x0 0x7ffd 0x7f00"), Call::Other),
            (format!("{} 0x9 0x0", libc::SYS_write), Call::Other),
            (format!("{} 0x9", libc::SYS_io_uring_enter), Call::Hidden("io_uring_enter")),
            ("running".to_owned(), Call::Other),
            ("-1 0x7ffd 0x7f00".to_owned(), Call::Other),
            (String::new(), Call::Other),
        ] {
            assert_eq!(classify(i32::MAX, &line), call, "{line}");
        }
    }
}
