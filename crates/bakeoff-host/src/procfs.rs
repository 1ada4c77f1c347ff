//! Reads `/proc`: process groups, descendants, usage.
//!
//! The kernel reuses process IDs. An ID identifies a process only together with its start time (`proc_pid_stat(5)`,
//! fields 1 and 22).

use std::collections::HashMap;

use rustix::process::{Pid, PidfdFlags, Signal};

/// CPU time and page faults of processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ProcessUsage {
    /// Clock ticks in user mode.
    pub(super) user_ticks: u64,
    pub(super) system_ticks: u64,
    pub(super) faults_minor: u64,
    pub(super) faults_major: u64,
}

impl ProcessUsage {
    /// Returns the clock ticks of both kinds together.
    pub(super) fn ticks(&self) -> u64 {
        self.user_ticks + self.system_ticks
    }

    fn with(&self, other: &Self, join: fn(u64, u64) -> u64) -> Self {
        Self {
            user_ticks: join(self.user_ticks, other.user_ticks),
            system_ticks: join(self.system_ticks, other.system_ticks),
            faults_minor: join(self.faults_minor, other.faults_minor),
            faults_major: join(self.faults_major, other.faults_major),
        }
    }

    /// Returns the sum.
    pub(super) fn and(&self, other: &Self) -> Self {
        self.with(other, |a, b| a.saturating_add(b))
    }

    /// Returns the difference to an earlier sample; 0 where that is larger.
    pub(super) fn less(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    /// Returns the larger value of each field.
    pub(super) fn most(&self, other: &Self) -> Self {
        self.with(other, u64::max)
    }
}

/// `PF_KTHREAD` in a process's flags (`linux/sched.h`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The fields of `/proc/PID/stat` that bakeoff uses; `proc_pid_stat(5)`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) pid: i32,
    /// State letter. `Z` is a process that has exited and was not reaped.
    pub(super) state: u8,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// True for a kernel thread.
    pub(super) is_kernel: bool,
    /// Usage of the process itself.
    pub(super) own: ProcessUsage,
    /// Usage of children that it has waited for, including theirs.
    pub(super) waited: ProcessUsage,
    pub(super) threads: u64,
    /// Start time, in clock ticks since boot.
    pub(super) start_ticks: u64,
    pub(super) rss_pages: u64,
}

impl Stat {
    /// Returns true if the process is neither a zombie nor dead.
    pub(super) fn lives(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// Reads a process's entry; `None` if there is no such process.
pub(super) fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads a process's entry and its program's name. The kernel keeps 15 bytes of the name.
pub(super) fn named(pid: i32) -> Option<(String, Stat)> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = parse_stat(&text)?;
    let begin = text.iter().position(|&b| b == b'(')? + 1;
    let end = text.iter().rposition(|&b| b == b')')?;
    let name = String::from_utf8_lossy(text.get(begin..end)?);
    // A process may set any name; drop control characters, because the name is printed.
    Some((name.chars().filter(|c| !c.is_control()).collect(), stat))
}

pub(super) fn parse_stat(text: &[u8]) -> Option<Stat> {
    // The name is in parentheses and may itself contain spaces and parentheses.
    let name_end = text.iter().rposition(|&b| b == b')')?;
    let pid = std::str::from_utf8(text.split(|&b| b == b' ').next()?).ok()?.parse().ok()?;
    let fields = std::str::from_utf8(text.get(name_end + 2..)?).ok()?;
    let fields = fields.split_ascii_whitespace().collect::<Vec<_>>();
    // `field` counts as in the manual page, whose third field is our first.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        pid,
        state: *fields.first()?.as_bytes().first()?,
        parent: number(4)? as i32,
        group: number(5)? as i32,
        is_kernel: number(9)? & KERNEL_THREAD != 0,
        own: ProcessUsage {
            faults_minor: number(10)?,
            faults_major: number(12)?,
            user_ticks: number(14)?,
            system_ticks: number(15)?,
        },
        waited: ProcessUsage {
            faults_minor: number(11)?,
            faults_major: number(13)?,
            user_ticks: number(16)?,
            system_ticks: number(17)?,
        },
        threads: number(20)?,
        start_ticks: number(22)?,
        rss_pages: number(24)?,
    })
}

/// Returns the IDs of all processes.
pub(super) fn pids() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the members of a process group and their descendants, which may have left it.
pub(super) fn family(group: i32) -> Vec<Stat> {
    let all = pids().into_iter().filter_map(stat).collect::<Vec<_>>();
    let mut family = all.iter().filter(|s| s.group == group).copied().collect::<Vec<_>>();
    let mut next = 0;
    while next < family.len() {
        let parent = family[next].pid;
        let known = |s: &Stat| family.iter().any(|f| f.pid == s.pid);
        let children = all.iter().filter(|s| s.parent == parent && !known(s)).copied();
        let children = children.collect::<Vec<_>>();
        family.extend(children);
        next += 1;
    }
    family
}

/// Returns the bytes that a process read from storage and wrote to it (`proc_pid_io(5)`).
pub(super) fn io(pid: i32) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    Some((field(&text, "read_bytes:")?, field(&text, "write_bytes:")?))
}

/// Memory of a process, in bytes, with shared pages divided among their processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Proportional {
    /// Private pages, plus 1/*n* of each page that *n* processes map, plus private hugetlbfs pages.
    pub(super) own: u64,
    /// Hugetlbfs pages that other processes map too. The kernel does not report how many.
    pub(super) shared_huge: u64,
    /// Private pages that the process has written. Unlike `own`, it does not change when another process maps the
    /// same file.
    pub(super) private: u64,
}

/// Reads a process's proportional memory. Expensive: the kernel walks all of its pages.
pub(super) fn proportional(pid: i32) -> Option<Proportional> {
    parse_proportional(&std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?)
}

/// Parses `smaps_rollup` (`proc_pid_smaps(5)`). Its `Pss` includes transparent huge pages but not hugetlbfs pages,
/// which databases use for buffers.
fn parse_proportional(text: &str) -> Option<Proportional> {
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    // Kernels without hugetlbfs lack these lines.
    let huge = |name| bytes(name).unwrap_or(0);
    Some(Proportional {
        own: bytes("Pss")?.saturating_add(huge("Private_Hugetlb")),
        shared_huge: huge("Shared_Hugetlb"),
        private: bytes("Private_Dirty")?.saturating_add(huge("Private_Hugetlb")),
    })
}

/// Scheduler counters of one thread; the kernel keeps no sums per process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct OfThread {
    pub(super) switches_voluntary: u64,
    pub(super) switches_involuntary: u64,
    /// Nanoseconds in which the thread was runnable without a CPU; `None` if the kernel does not count them.
    pub(super) waited_ns: Option<u64>,
}

impl OfThread {
    pub(super) fn add(&mut self, other: &Self) {
        self.switches_voluntary += other.switches_voluntary;
        self.switches_involuntary += other.switches_involuntary;
        self.waited_ns =
            other.waited_ns.map(|ns| self.waited_ns.unwrap_or(0) + ns).or(self.waited_ns);
    }
}

/// Reads the scheduler counters of a process's threads, by thread ID.
pub(super) fn threads(pid: i32) -> HashMap<i32, OfThread> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return HashMap::new();
    };
    let of_thread = |entry: std::fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let text = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let wait = std::fs::read_to_string(entry.path().join("schedstat")).ok();
        // Fields: time on a CPU, time waiting for one, time slices (`Documentation/scheduler/sched-stats.rst`).
        let wait = wait.and_then(|text| text.split_ascii_whitespace().nth(1)?.parse().ok());
        let of_thread = OfThread {
            switches_voluntary: field(&text, "voluntary_ctxt_switches:")?,
            switches_involuntary: field(&text, "nonvoluntary_ctxt_switches:")?,
            waited_ns: wait,
        };
        Some((id, of_thread))
    };
    threads.filter_map(|entry| of_thread(entry.ok()?)).collect()
}

/// Returns the number of a process's open file descriptors.
pub(super) fn open_files(pid: i32) -> Option<u64> {
    let path = format!("/proc/{pid}/fd");
    // Since Linux 6.2, the directory's size is this number.
    match std::fs::metadata(&path).ok()?.len() {
        0 => Some(std::fs::read_dir(path).ok()?.count() as u64),
        count => Some(count),
    }
}

/// Returns the inodes of a process's open sockets.
pub(super) fn sockets(pid: i32) -> Vec<u32> {
    let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let inode = |entry: std::fs::DirEntry| {
        let target = std::fs::read_link(entry.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    files.filter_map(|entry| inode(entry.ok()?)).collect()
}

/// Returns the arguments of a process; empty if it is gone or not ours.
pub(super) fn args(pid: i32) -> Vec<String> {
    let text = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    text.split(|&byte| byte == 0).map(|arg| String::from_utf8_lossy(arg).into_owned()).collect()
}

/// Returns the environment that a process was started with; empty if it is gone or not ours.
pub(super) fn environment(pid: i32) -> Vec<(String, String)> {
    let text = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let variables = text.split('\0').filter_map(|variable| variable.split_once('='));
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Returns the clock ticks per second.
pub(super) fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// Returns the number after a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// Kills a process, unless its ID has been reused.
pub(super) fn kill(whom: &Stat) {
    signal(whom, Signal::KILL);
}

/// Sends a signal to a process, unless another one has its ID by now.
pub(super) fn signal(whom: &Stat, signal: Signal) {
    let Some(pid) = Pid::from_raw(whom.pid) else { return };
    let still_it = || stat(whom.pid).is_some_and(|now| now.start_ticks == whom.start_ticks);
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        // From here on the descriptor identifies the process, even if its ID is reused.
        Ok(fd) if still_it() => drop(rustix::process::pidfd_send_signal(fd, signal)),
        Ok(_) => {}
        // Kernels before 5.3: the ID could be reused only between these two calls.
        Err(_) if still_it() => drop(rustix::process::kill_process(pid, signal)),
        Err(_) => {}
    }
}

/// Returns the ID and the state letter of each thread of a process that lives.
pub(super) fn thread_states(pid: i32) -> Vec<(i32, u8)> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let state = |entry: std::io::Result<std::fs::DirEntry>| {
        let stat = parse_stat(&std::fs::read(entry.ok()?.path().join("stat")).ok()?)?;
        stat.lives().then_some((stat.pid, stat.state))
    };
    entries.filter_map(state).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_parentheses_and_spaces_does_not_shift_fields() {
        let line =
            b"42 (a) b (c) S 7 42 1 0 -1 4194304 11 12 13 14 15 16 17 18 20 0 19 0 21 1000 23 9\n";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.pid, stat.state, stat.parent, stat.group), (42, b'S', 7, 42));
        let used = |faults_minor, faults_major, user_ticks, system_ticks| ProcessUsage {
            faults_minor,
            faults_major,
            user_ticks,
            system_ticks,
        };
        assert_eq!((stat.own, stat.waited), (used(11, 13, 15, 16), used(12, 14, 17, 18)));
        assert_eq!(stat.threads, 19);
        assert_eq!((stat.start_ticks, stat.rss_pages), (21, 23));
    }

    #[test]
    fn gone_process_has_no_proportional_memory() {
        let us = std::process::id() as i32;
        let resident = stat(us).unwrap().rss_pages * rustix::param::page_size() as u64;
        if let Some(Proportional { own, .. }) = proportional(us) {
            assert!(own > 0 && own < resident * 2, "{own} of {resident}");
        }
        assert_eq!(proportional(i32::MAX), None);
    }

    #[test]
    fn hugetlbfs_pages_are_added_to_pss() {
        let rollup = "00400000-7ffd1000 ---p 00000000 00:00 0    [rollup]\n\
                      Rss:               24000 kB\nPss:               20000 kB\nPss_Anon:          19000 kB\n\
                      Private_Clean:      3000 kB\nPrivate_Dirty:     18000 kB\n\
                      AnonHugePages:      8192 kB\nShared_Hugetlb:   65536 kB\nPrivate_Hugetlb:   4096 kB\n\
                      Swap:                  0 kB\n";
        let expected =
            Proportional { own: 24_096 << 10, shared_huge: 65_536 << 10, private: 22_096 << 10 };
        assert_eq!(parse_proportional(rollup), Some(expected));
        let without = "Pss:                 100 kB\nPrivate_Dirty:        60 kB\n";
        let expected = Proportional { own: 100 << 10, shared_huge: 0, private: 60 << 10 };
        assert_eq!(parse_proportional(without), Some(expected), "a kernel without hugetlbfs");
        assert_eq!(parse_proportional("Pss_Anon: 5 kB\n"), None);
        assert_eq!(parse_proportional("Pss: 99999999999999999999 kB\n"), None);
    }

    #[test]
    fn finds_itself_but_not_a_gone_process() {
        let me = std::process::id() as i32;
        assert!(pids().contains(&me));
        assert!(stat(me).unwrap().lives());
        assert_eq!(stat(i32::MAX), None);
    }
}
