//! Counts the system calls of a traced process, thread by thread, and serves it while it waits.
//!
//! Of a few messages it also counts the copies of their values (`memory`).
//!
//! A process may trace its children without any right (`ptrace(2)`), unless a container forbids it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use memchr::memmem;
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::generator::{LOADS, VALUE_SIZE};
use super::memory::{Memory, mark};
use super::servers::Server;

/// Messages whose values are looked for, of each direction.
const SAMPLES: usize = 4;
/// Calls of a thread before the first such message.
const SAMPLED_AFTER: i64 = 1000;

/// Why a process could not be traced.
pub(crate) enum TraceError {
    /// The kernel does not allow it.
    Forbidden(String),
    Failed(String),
}

impl From<Errno> for TraceError {
    fn from(error: Errno) -> Self {
        Self::Failed(format!("tracing failed: {error}"))
    }
}

/// Results of a traced process.
pub(crate) struct Traced {
    pub(crate) output: String,
    /// Calls of each thread that it started, in the order of their start.
    pub(crate) threads: Vec<Calls>,
    /// Fewest places in memory that held a value when it was sent; `None` if none was sent. Values are cut from one
    /// table, so a few have bytes in common by chance.
    pub(crate) sent_places: Option<usize>,
    /// Fewest places that a value was copied to from the buffer that it was received in; `None` if none was received.
    pub(crate) received_copies: Option<usize>,
}

/// System calls by their number.
#[derive(Clone, Default)]
pub(crate) struct Calls(BTreeMap<libc::c_long, i64>);

impl Calls {
    pub(crate) fn total(&self) -> i64 {
        self.0.values().sum()
    }

    /// Returns the calls without those of another thread.
    pub(crate) fn less(&self, other: &Self) -> Self {
        let mut calls = self.clone();
        for (number, count) in &other.0 {
            *calls.0.entry(*number).or_default() -= count;
        }
        calls
    }

    /// Formats the calls per operation, without rare ones: `1.000 sendto, 1.000 recvfrom, 0.062 epoll_wait`.
    pub(crate) fn per(&self, operations: f64) -> String {
        let is_shown = |count: i64| count.abs() as f64 / operations >= 0.001;
        let mut calls: Vec<_> = self.0.iter().filter(|(_, count)| is_shown(**count)).collect();
        calls.sort_by_key(|(_, count)| -**count);
        let each = calls.iter().map(|(number, count)| {
            format!("{:.3} {}", **count as f64 / operations, name(**number))
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

/// Returns the name of a call that a generator makes.
fn name(number: libc::c_long) -> String {
    let name = match number {
        libc::SYS_sendto => "sendto",
        libc::SYS_recvfrom => "recvfrom",
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => "epoll_wait",
        libc::SYS_epoll_pwait => "epoll_pwait",
        libc::SYS_epoll_ctl => "epoll_ctl",
        libc::SYS_read => "read",
        libc::SYS_write => "write",
        libc::SYS_futex => "futex",
        libc::SYS_clock_gettime => "clock_gettime",
        libc::SYS_timerfd_settime => "timerfd_settime",
        libc::SYS_mmap => "mmap",
        libc::SYS_munmap => "munmap",
        libc::SYS_madvise => "madvise",
        number => return format!("call {number}"),
    };
    name.to_owned()
}

/// Runs a command to its end, and counts the calls of all threads but its first. It begins with a byte on its
/// standard input.
pub(crate) fn trace(command: &mut Command, server: &mut Server) -> Result<Traced, TraceError> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| TraceError::Failed(error.to_string()))?;
    let pid = Pid::from_raw(child.id().cast_signed());
    let options =
        Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL;
    if let Err(error) = ptrace::seize(pid, options) {
        child.kill().and_then(|()| child.wait()).ok();
        return Err(TraceError::Forbidden(error.to_string()));
    }
    let mut tracing = Tracing {
        first: pid,
        threads: Vec::new(),
        inside: HashMap::new(),
        server,
        sent: Vec::new(),
        received: Vec::new(),
        reading: None,
    };
    begin(&mut child)?;
    let code = tracing.follow()?;
    let mut output = String::new();
    let read = child.stdout.take().map(|mut stdout| stdout.read_to_string(&mut output));
    match (code, read) {
        (0, Some(Ok(_))) => {
            let threads = tracing.threads.into_iter().map(|(_, calls)| calls).collect();
            let sent_places = tracing.sent.into_iter().min();
            let received_copies = tracing.received.into_iter().min();
            Ok(Traced { output, threads, sent_places, received_copies })
        }
        _ => Err(TraceError::Failed(format!("the generator exited with {code}"))),
    }
}

fn begin(child: &mut Child) -> Result<(), TraceError> {
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(b"\n").map_err(|error| TraceError::Failed(error.to_string()))
}

/// A system call in progress.
#[derive(Clone)]
struct Call {
    number: libc::c_long,
    arguments: Vec<u64>,
}

impl Call {
    /// Reads a line of `/proc/TID/syscall`: number and arguments.
    fn read(thread: Pid) -> Self {
        let line = fs::read_to_string(format!("/proc/{thread}/syscall")).unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let number = words.next().and_then(|word| word.parse().ok()).unwrap_or(-1);
        let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        Self { number, arguments: words.map_while(hex).collect() }
    }

    fn argument(&self, place: usize) -> u64 {
        self.arguments.get(place).copied().unwrap_or_default()
    }

    /// Returns true for a read of a machine's clock. It is a call only on machines whose clock a program cannot read
    /// by itself (`vdso(7)`).
    fn reads_clock(&self) -> bool {
        let clocks = [
            libc::CLOCK_REALTIME,
            libc::CLOCK_MONOTONIC,
            libc::CLOCK_REALTIME_COARSE,
            libc::CLOCK_MONOTONIC_COARSE,
        ];
        let clock = self.argument(0);
        self.number == libc::SYS_clock_gettime && clocks.iter().any(|&one| one as u64 == clock)
    }
}

struct Tracing<'a> {
    first: Pid,
    threads: Vec<(Pid, Calls)>,
    /// Threads that are in a system call.
    inside: HashMap<Pid, Call>,
    server: &'a mut Server,
    /// Places that held each sampled value when it was sent.
    sent: Vec<usize>,
    /// Copies of each sampled value that was received.
    received: Vec<usize>,
    /// Mark of the value that was received last, and the number of places that held it then.
    reading: Option<(Vec<u8>, usize)>,
}

impl Tracing<'_> {
    /// Follows all threads until the process exits, and returns its code.
    fn follow(&mut self) -> Result<i32, TraceError> {
        loop {
            // Other tests trace generators of their own, from their own threads.
            match waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD))? {
                WaitStatus::PtraceSyscall(thread) => {
                    self.on_syscall(thread);
                    self.resume(thread, None)?;
                }
                WaitStatus::PtraceEvent(thread, ..) => self.resume(thread, None)?,
                WaitStatus::Stopped(thread, signal) => self.resume(thread, Some(signal))?,
                WaitStatus::Exited(thread, code) if thread == self.first => return Ok(code),
                WaitStatus::Signaled(thread, signal, _) if thread == self.first => {
                    return Err(TraceError::Failed(format!("the generator got {signal}")));
                }
                _ => {}
            }
        }
    }

    /// Lets a thread go on. The first one only waits for the others, so its calls are not of interest.
    fn resume(&self, thread: Pid, signal: Option<Signal>) -> Result<(), TraceError> {
        let resumed = match thread == self.first {
            true => ptrace::cont(thread, signal),
            false => ptrace::syscall(thread, signal),
        };
        match resumed {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn on_syscall(&mut self, thread: Pid) {
        if let Some(call) = self.inside.remove(&thread) {
            if call.number == libc::SYS_recvfrom && self.samples(thread, self.received.len()) {
                self.on_received(&call);
            }
            return;
        }
        let call = Call::read(thread);
        if let Some((mark, places)) = self.reading.take()
            && let Some(memory) = Memory::open(self.first)
        {
            self.received.push(memory.places(&mark).saturating_sub(places));
        }
        if call.number == libc::SYS_sendto && self.samples(thread, self.sent.len()) {
            self.on_send(&call);
        }
        if !call.reads_clock() {
            *self.calls(thread).0.entry(call.number).or_default() += 1;
        }
        // Whatever else it calls, it has sent all that it has to send for now.
        if !matches!(call.number, libc::SYS_sendto | libc::SYS_recvfrom) {
            self.server.serve();
        }
        self.inside.insert(thread, call);
    }

    fn calls(&mut self, thread: Pid) -> &mut Calls {
        let place = self.threads.iter().position(|(known, _)| *known == thread);
        let place = place.unwrap_or_else(|| {
            self.threads.push((thread, Calls::default()));
            self.threads.len() - 1
        });
        &mut self.threads[place].1
    }

    /// Returns true if a message of this thread may be a sample: one of the last load. `known` are the samples so far.
    fn samples(&mut self, thread: Pid, known: usize) -> bool {
        known < SAMPLES && self.threads.len() >= LOADS && self.calls(thread).total() > SAMPLED_AFTER
    }

    /// Counts the places that hold the value of a request.
    fn on_send(&mut self, call: &Call) {
        let Some(memory) = Memory::open(self.first) else { return };
        let message = memory.read(call.argument(1), call.argument(2) as usize);
        self.sent
            .extend(message.and_then(|message| mark(&message)).map(|mark| memory.places(&mark)));
    }

    /// Counts the places that hold the value of an answer before it is read.
    fn on_received(&mut self, call: &Call) {
        let Some(memory) = Memory::open(self.first) else { return };
        let Some(answer) = memory.read(call.argument(1), 2 * VALUE_SIZE) else { return };
        let is_here = |mark: &&Vec<u8>| memmem::find(&answer, mark).is_some();
        let Some(mark) = self.server.marks().find(is_here).cloned() else { return };
        let places = memory.places(&mark);
        self.reading = Some((mark, places));
    }
}
