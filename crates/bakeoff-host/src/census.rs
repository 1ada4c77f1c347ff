//! Finds the processes of each node in `/proc`, and sums up what they use.
//!
//! A node is its server process and all that descends from it or is in its group. Counters go on
//! over restarts: what a process had used when it was last seen is kept when it is gone.
//!
//! A child that lives and ends between two looks is never seen itself. What it used is in its
//! parent's counters of children that were waited for (`cutime` and others, `proc_pid_stat(5)`).
//! These hold the time of children too that were seen while they lived, so that the two must not be
//! added: of each process the larger counts of what its waited-for children had used and of what those
//! children that were seen had used when they were seen last. Where a process waits for its children the former
//! is larger; where it leaves them to the kernel (`SIGCHLD` ignored) it is zero. What is missed is what
//! an unseen child used that nobody waited for.
//!
//! The resident memory of a node with several processes counts the pages that they share once for
//! each of them. Linux counts CPU time in ticks of `CLK_TCK`, commonly 10 ms.
//!
//! Not here: when to look and what becomes of it (`observe`), sockets, the machine.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;

use bakeoff_core::observed::Column;

use super::procfs::{self, OfThread, Proportional, Stat, Used};

/// Whose processes a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kinship {
    /// The leader, its descendants, and all in its group.
    Node,
    /// The leader alone.
    Alone,
    /// The leader's descendants that are nobody else's, without the leader.
    Descendants,
}

/// A process and its family.
pub(super) struct Family {
    /// The leader's id, over all restarts; 0 while there is none.
    pub(super) pid: Arc<AtomicI32>,
    kinship: Kinship,
    members: HashMap<i32, Member>,
    joined: u64,
    /// The usage of members that are gone and were waited for by no other member.
    gone: Used,
    gone_io: Option<Io>,
    threads_gone: OfThread,
    /// The values reported last: a counter never goes back.
    told: Used,
    told_io: Option<Io>,
}

/// Bytes fetched from storage, and sent to it.
type Io = (u64, u64);

struct Member {
    start_ticks: u64,
    parent: i32,
    /// Whether it has ended, and was not waited for.
    ended: bool,
    own: Used,
    /// Of children that it waited for.
    waited: Used,
    /// The same when it was first seen: of children that were never seen.
    waited_before: Option<Used>,
    /// The usage of known children when they were seen last.
    left: Used,
    io: Option<Io>,
    left_io: Option<Io>,
    rss_pages: u64,
    thread_count: u64,
    threads: HashMap<i32, OfThread>,
    open_files: Option<u64>,
}

impl Member {
    fn new(stat: &Stat) -> Self {
        Self {
            start_ticks: stat.start_ticks,
            parent: stat.parent,
            ended: false,
            own: Used::default(),
            waited: Used::default(),
            waited_before: None,
            left: Used::default(),
            io: None,
            left_io: None,
            rss_pages: 0,
            thread_count: 0,
            threads: HashMap::new(),
            open_files: None,
        }
    }

    fn see(&mut self, stat: &Stat) {
        self.own = stat.own;
        self.waited = stat.waited;
        self.waited_before.get_or_insert(stat.waited);
        self.parent = stat.parent;
        self.ended = !stat.lives();
        (self.rss_pages, self.thread_count) = (stat.rss_pages, stat.threads);
        // The counters of one that has ended can be read until it is waited for; what it did to the
        // disk cannot.
        self.io = procfs::io(stat.pid).or(self.io);
    }

    /// Returns the usage of children that it waited for since it was first seen.
    fn waited_since(&self) -> Used {
        self.waited.less(&self.waited_before.unwrap_or_default())
    }

    /// Returns its own usage and that of its children that are gone.
    fn used(&self) -> Used {
        let children = self.waited_since().most(&self.left);
        self.own.and(&self.waited_before.unwrap_or_default()).and(&children)
    }

    /// The same of storage. What a child did to it is its parent's once that has waited for it, so that
    /// `/proc/PID/io` holds it. Any process meets page faults: they tell whether it was waited for.
    fn used_io(&self) -> Option<Io> {
        let waits = self.waited_since().faults_minor >= self.left.faults_minor;
        if waits { self.io } else { sum(self.io, self.left_io) }
    }
}

/// Returns the memory of a node's processes together. Pages of hugetlbfs that several map are taken for the same
/// ones: of them there are at least as many as one process maps.
fn together(processes: &[Proportional]) -> u64 {
    let own: u64 = processes.iter().map(|one| one.own).sum();
    own + processes.iter().map(|one| one.shared_huge).max().unwrap_or(0)
}

fn sum(one: Option<Io>, other: Option<Io>) -> Option<Io> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0 + other.0, one.1 + other.1)),
        (one, other) => one.or(other),
    }
}

impl Family {
    pub(super) fn new(pid: Arc<AtomicI32>, kinship: Kinship) -> Self {
        Self {
            pid,
            kinship,
            members: HashMap::new(),
            joined: 0,
            gone: Used::default(),
            gone_io: None,
            threads_gone: OfThread::default(),
            told: Used::default(),
            told_io: None,
        }
    }

    /// The ids of its processes as the last census found them.
    pub(super) fn pids(&self) -> Vec<i32> {
        self.members.keys().copied().collect()
    }

    /// Lets go of members that turn out to be somebody else's; what they had used stays.
    fn keep(&mut self, is_its_own: impl Fn(i32) -> bool) {
        let gone = &mut self.gone;
        self.members.retain(|&pid, member| {
            let keeps = is_its_own(pid);
            if !keeps {
                *gone = gone.and(&member.used());
            }
            keeps
        });
    }

    fn join(&mut self, stat: &Stat) {
        self.members.insert(stat.pid, Member::new(stat));
        self.joined += 1;
    }

    /// Looks at each member, and lets go of those that are gone.
    fn see(&mut self) {
        // Parents first: a child that ends meanwhile is then missed in its parent until the next
        // look, and not counted twice.
        let mut pids: Vec<(u64, i32)> =
            self.members.iter().map(|(&pid, member)| (member.start_ticks, pid)).collect();
        pids.sort_unstable();
        let mut gone = Vec::new();
        for (start_ticks, pid) in pids {
            let Some(member) = self.members.get_mut(&pid) else { continue };
            match procfs::stat(pid).filter(|stat| stat.start_ticks == start_ticks) {
                Some(stat) => member.see(&stat),
                None => gone.push(pid),
            }
        }
        // Children first, so that what they leave goes with their parent where that is gone too.
        for pid in gone.into_iter().rev() {
            let Some(member) = self.members.remove(&pid) else { continue };
            member.threads.values().for_each(|of| self.threads_gone.add(of));
            match self.members.get_mut(&member.parent).filter(|_| self.kinship != Kinship::Alone) {
                Some(parent) => {
                    parent.left = parent.left.and(&member.used());
                    parent.left_io = sum(parent.left_io, member.used_io());
                }
                None => {
                    self.gone = self.gone.and(&member.used());
                    self.gone_io = sum(self.gone_io, member.used_io());
                }
            }
        }
    }

    /// Returns the usage of all members so far, those that are gone among them.
    fn used(&mut self) -> (Used, Option<Io>) {
        let (mut total, mut io) = (self.gone, self.gone_io);
        for member in self.members.values() {
            // bakeoff itself waits for the nodes, whose time is theirs.
            let used = if self.kinship == Kinship::Alone { member.own } else { member.used() };
            total = total.and(&used);
            io = sum(io, member.used_io());
        }
        self.told = self.told.most(&total);
        self.told_io = match (self.told_io, io) {
            (Some(told), Some(io)) => Some((told.0.max(io.0), told.1.max(io.1))),
            (told, io) => io.or(told),
        };
        (self.told, self.told_io)
    }

    /// Bytes of its memory, what its processes share counted once; `None` where one of them does not tell.
    pub(super) fn proportional(&self) -> Option<u64> {
        let living = self.members.iter().filter(|(_, member)| !member.ended);
        // One that has ended meanwhile holds nothing.
        let of_member = |(&pid, _): (&i32, &Member)| {
            let ended = || procfs::stat(pid).is_none().then(Proportional::default);
            procfs::proportional(pid).or_else(ended)
        };
        Some(together(&living.map(of_member).collect::<Option<Vec<_>>>()?))
    }

    /// Returns how many processes joined it since it was first looked at.
    pub(super) fn joined(&self) -> u64 {
        self.joined
    }

    /// The seconds of CPU that all have used so far.
    pub(super) fn cpu(&mut self) -> f64 {
        self.see();
        self.used().0.ticks() as f64 / procfs::ticks_per_second()
    }

    /// Samples its usage so far and its resources now. `thoroughly`: what costs a system call for
    /// each thread is read too, and is not among the columns otherwise.
    pub(super) fn sample(&mut self, thoroughly: bool) -> Vec<(Column, f64)> {
        let mut of_threads = OfThread::default();
        let (mut rss_pages, mut threads, mut open_files, mut living) = (0, 0, None, 0);
        self.see();
        for (&pid, member) in &mut self.members {
            if thoroughly && !member.ended {
                let old = std::mem::replace(&mut member.threads, procfs::threads(pid));
                let ended = old.iter().filter(|(id, _)| !member.threads.contains_key(id));
                ended.for_each(|(_, of)| self.threads_gone.add(of));
                member.open_files = procfs::open_files(pid);
            }
            member.threads.values().for_each(|of| of_threads.add(of));
            if member.ended {
                continue;
            }
            living += 1;
            rss_pages += member.rss_pages;
            threads += member.thread_count;
            if let Some(of_member) = member.open_files {
                open_files = Some(open_files.unwrap_or(0) + of_member);
            }
        }
        of_threads.add(&self.threads_gone);
        if living == 0 {
            open_files = Some(0);
        }
        let (total, io) = self.used();
        let ticks_per_second = procfs::ticks_per_second();
        // The kernel adds what a child did to the disk to whoever reaps it: to bakeoff all that
        // its servers did.
        let io = io.filter(|_| self.kinship == Kinship::Node);
        let optional = [
            (Column::DiskRead, io.map(|io| io.0 as f64)),
            (Column::DiskWritten, io.map(|io| io.1 as f64)),
        ];
        let thorough = [
            (Column::CpuWait, of_threads.waited_ns.map(|ns| ns as f64 / 1e9)),
            (Column::OpenFiles, open_files.map(|count| count as f64)),
            (Column::SwitchesVoluntary, Some(of_threads.switches_voluntary as f64)),
            (Column::SwitchesInvoluntary, Some(of_threads.switches_involuntary as f64)),
        ];
        let known = [
            (Column::CpuUser, total.user_ticks as f64 / ticks_per_second),
            (Column::CpuSystem, total.system_ticks as f64 / ticks_per_second),
            (Column::Resident, rss_pages as f64 * rustix::param::page_size() as f64),
            (Column::Processes, f64::from(living)),
            (Column::Threads, threads as f64),
            (Column::FaultsMinor, total.faults_minor as f64),
            (Column::FaultsMajor, total.faults_major as f64),
        ];
        let optional = optional.into_iter().chain(thorough.into_iter().filter(|_| thoroughly));
        let there = optional.filter_map(|(column, value)| Some((column, value?)));
        known.into_iter().chain(there).collect()
    }
}

/// Knows which process belongs to which family, and asks about each only once: a process keeps its
/// forebears.
#[derive(Default)]
pub(super) struct Census {
    leaders: Vec<i32>,
    /// The family's index, or none of them.
    owners: HashMap<i32, Option<usize>>,
    /// How many processes were found that are nobody's.
    strangers: u64,
}

impl Census {
    /// Returns whether a leader has come or gone since the last census.
    pub(super) fn is_outdated(&self, leaders: &[i32]) -> bool {
        self.leaders != leaders
    }

    /// Returns whether a process belonged to a family when the last census was taken.
    pub(super) fn is_ours(&self, pid: i32) -> bool {
        self.owners.get(&pid).is_some_and(Option::is_some)
    }

    /// Returns how many processes were found so far that are nobody's.
    pub(super) fn strangers(&self) -> u64 {
        self.strangers
    }

    /// Looks for members that are new. `leaders`: the families' leaders now, 0 for none.
    pub(super) fn take(&mut self, families: &mut [&mut Family], leaders: Vec<i32>) {
        if leaders != self.leaders {
            // A node's processes may have been seen before it was known to be there.
            self.owners.clear();
            self.leaders = leaders;
        }
        let mut found = HashMap::new();
        let mut unknown = Vec::new();
        for (index, family) in families.iter_mut().enumerate() {
            let leader = self.leaders[index];
            if leader == 0 {
                continue;
            }
            if family.kinship != Kinship::Descendants
                && !family.members.contains_key(&leader)
                && let Some(stat) = procfs::stat(leader).filter(Stat::lives)
            {
                family.join(&stat);
            }
            // bakeoff leads two families: its children are of the one that comes later.
            found.insert(leader, Some(index));
        }
        for pid in procfs::pids() {
            if let Some(owner) = self.owners.get(&pid) {
                found.entry(pid).or_insert(*owner);
            } else if !found.contains_key(&pid)
                && let Some(stat) = procfs::stat(pid)
            {
                unknown.push(stat);
            }
        }
        // Parents mostly have lower ids than their children, but ids wrap around.
        unknown.sort_by_key(|stat| stat.start_ticks);
        for stat in unknown {
            // The kernel's own threads are in group 0, which is also how a node that is down looks.
            let leads = |&leader: &i32| leader != 0 && leader == stat.group;
            let by_group = self.leaders.iter().position(leads);
            let by_group = by_group.filter(|&index| families[index].kinship == Kinship::Node);
            let owner = by_group.or_else(|| found.get(&stat.parent).copied().flatten());
            if let Some(index) = owner.filter(|_| stat.lives())
                && families[index].kinship != Kinship::Alone
                && !families[index].members.contains_key(&stat.pid)
            {
                families[index].join(&stat);
            }
            self.strangers += u64::from(owner.is_none());
            found.insert(stat.pid, owner);
        }
        // A node's processes are bakeoff's until it is known to be there.
        for (index, family) in families.iter_mut().enumerate() {
            if family.kinship == Kinship::Descendants {
                family.keep(|pid| found.get(&pid).copied().flatten() == Some(index));
            }
        }
        self.owners = found;
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::super::tests::{launch, sh, wait_for};
    use super::*;

    /// A member as if it had been seen.
    fn member(start_ticks: u64, parent: i32, own: u64, waited: u64) -> Member {
        let used = |user_ticks| Used { user_ticks, ..Used::default() };
        let own = used(own);
        Member {
            start_ticks,
            parent,
            own,
            waited: used(waited),
            waited_before: Some(Used::default()),
            ..Member::new(&Stat::default())
        }
    }

    fn family(members: Vec<(i32, Member)>) -> Family {
        let mut family = Family::new(Arc::default(), Kinship::Node);
        family.members = members.into_iter().collect();
        family
    }

    /// Ids that no process has.
    const GONE: [i32; 2] = [i32::MAX - 1, i32::MAX];

    #[test]
    fn time_of_a_child_that_was_seen_and_waited_for_counts_once() {
        let us = std::process::id() as i32;
        let start = procfs::stat(us).unwrap().start_ticks;
        // Children of this process that are gone; what `see` reads of us is far less than they had.
        let mut of = family(vec![
            (us, member(start, 1, 0, 0)),
            (GONE[0], member(start + 1, us, 70_000, 5_000)),
            (GONE[1], member(start + 2, GONE[0], 20_000, 0)),
        ]);
        let before = of.used().0.user_ticks;
        assert_eq!(before, 95_000);
        of.see();
        let left = of.members[&us].left.user_ticks;
        // A grandchild's 20,000 are more than the 5,000 that its parent had waited for when seen last.
        assert_eq!(left, 90_000, "it goes with its parent");
        assert!(of.used().0.user_ticks >= before, "a counter never goes back");
        // Waited for: the parent's own count holds them all, and those never seen.
        let ours = of.members.get_mut(&us).unwrap();
        ours.waited = Used { user_ticks: 99_000, ..Used::default() };
        ours.waited_before = Some(Used::default());
        ours.own = Used::default();
        assert_eq!(of.used().0.user_ticks, 99_000);
    }

    #[test]
    fn huge_pages_that_processes_share_count_once() {
        let process = |own, shared_huge| Proportional { own, shared_huge };
        assert_eq!(together(&[process(3, 100), process(4, 80), process(5, 0)]), 112);
        assert_eq!(together(&[]), 0);
    }

    fn pid_of(process: &crate::Process) -> Arc<AtomicI32> {
        Arc::new(AtomicI32::new(process.pid().unwrap()))
    }

    #[test]
    fn pages_that_processes_share_count_once() {
        const TEXT: f64 = 16.0 * 1024.0 * 1024.0;
        let dir = TempDir::new().unwrap();
        // The second and third shell are forked from the first, and write nothing of its text.
        let script = "text=$(head -c 16777216 /dev/zero | tr '\\0' x); \
                      (sleep 60; :) & (sleep 60; :) & wait";
        let process = launch(sh(&dir, script)).unwrap();
        let mut family = Family::new(pid_of(&process), Kinship::Node);
        let mut census = Census::default();
        let mut resident = 0.0;
        wait_for("three shells with the text", || {
            let leaders = vec![family.pid.load(std::sync::atomic::Ordering::Acquire)];
            census.take(&mut [&mut family], leaders);
            let sample = family.sample(false);
            let is_it = |(column, _): &&(Column, f64)| *column == Column::Resident;
            resident = sample.iter().find(is_it).map_or(0.0, |(_, bytes)| *bytes);
            family.pids().len() == 5 && resident > 3.0 * TEXT
        });
        let Some(once) = family.proportional() else {
            return; // a kernel without `smaps_rollup`
        };
        let once = once as f64;
        assert!(once >= TEXT, "{once} bytes do not hold the text");
        assert!(once < 0.6 * resident, "{once} of {resident}: shared pages count once");
    }

    #[test]
    fn time_of_many_short_lived_children_is_their_nodes() {
        let dir = TempDir::new().unwrap();
        // Each subshell burns some milliseconds and ends; then the shell tells what its children used.
        let script = "n=0; while [ $n -lt 150 ]; do \
                      (i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done); n=$((n+1)); done; \
                      times > used; exec sleep 60";
        let process = launch(sh(&dir, script)).unwrap();
        let mut family = Family::new(pid_of(&process), Kinship::Node);
        let mut census = Census::default();
        let mut look = || {
            let leaders = vec![family.pid.load(std::sync::atomic::Ordering::Acquire)];
            census.take(&mut [&mut family], leaders);
            family.cpu()
        };
        let file = process.dir().join("used");
        let mut seen = 0.0;
        wait_for("the end of its work", || {
            seen = look();
            std::fs::read_to_string(&file).is_ok_and(|text| text.lines().count() == 2)
        });
        seen = look().max(seen);
        // `times` writes user and system time of the shell, and on a second line of its children.
        let text = std::fs::read_to_string(&file).unwrap();
        let seconds = |word: &str| {
            let (minutes, rest) = word.trim_end_matches('s').split_once('m').unwrap();
            minutes.parse::<f64>().unwrap() * 60.0 + rest.parse::<f64>().unwrap()
        };
        let used: f64 = text.split_ascii_whitespace().map(seconds).sum();
        assert!(used > 0.3, "{text}");
        assert!((seen / used - 1.0).abs() < 0.1, "{seen} of {used} s were attributed: {text}");
    }
}
