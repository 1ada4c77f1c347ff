//! Finds the processes of each node in `/proc`, and adds up their usage.
//!
//! A node is its server process with all descendants and group members. Counters continue over restarts: the last usage
//! seen of a process is kept when it is gone.
//!
//! A child that starts and ends between two samples is never seen itself. Its usage is in its parent's counters of
//! waited-for children (`cutime` and others, `proc_pid_stat(5)`). Those counters also hold the time of children that
//! were seen, so the two must not be added. Each process therefore contributes the larger of two values: the usage of
//! its waited-for children, and the last usage seen of its children. The first is larger if the process waits for its
//! children. It is zero if the process leaves them to the kernel (`SIGCHLD` ignored). Only the usage of an unseen child
//! that no process waited for is missed.
//!
//! The resident memory of a node with several processes counts shared pages once per process. Linux counts CPU time in
//! ticks of `CLK_TCK`, commonly 10 ms.
//!
//! Not here: when to sample, and the use of the samples (`observe`), sockets, the machine.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;

use bakeoff_core::trial_samples::Column;

use super::procfs::{self, OfThread, ProcessUsage, Proportional, Stat};

/// The processes that belong to a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kinship {
    /// The leader, its descendants, and all members of its group.
    Node,
    /// The leader and its descendants. Members of its group may have nothing to do with it.
    Tree,
    /// The leader alone.
    Alone,
    /// The leader's descendants that belong to no other family, without the leader.
    Descendants,
}

/// A leading process and its family.
pub(super) struct Family {
    /// The leader's ID, updated at restarts; 0 while there is no leader.
    pub(super) pid: Arc<AtomicI32>,
    kinship: Kinship,
    members: HashMap<i32, Member>,
    joined: u64,
    /// Usage of gone members that no other member waited for.
    gone: ProcessUsage,
    gone_io: Option<Io>,
    threads_gone: OfThread,
    /// Values reported last, so that a counter never decreases.
    reported: ProcessUsage,
    reported_io: Option<Io>,
}

/// Bytes read from storage, and written to it.
type Io = (u64, u64);

struct Member {
    start_ticks: u64,
    parent: i32,
    /// True if it has ended and was not waited for.
    ended: bool,
    own: ProcessUsage,
    /// Usage of children that it waited for.
    waited: ProcessUsage,
    /// `waited` when the process was first seen: usage of children that were never seen.
    waited_before: Option<ProcessUsage>,
    /// Last usage seen of known children that are gone.
    left: ProcessUsage,
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
            own: ProcessUsage::default(),
            waited: ProcessUsage::default(),
            waited_before: None,
            left: ProcessUsage::default(),
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
        // The CPU counters of an ended process stay readable until it is reaped; its disk counters do not.
        self.io = procfs::io(stat.pid).or(self.io);
    }

    /// Returns the usage of children that it waited for since it was first seen.
    fn waited_since(&self) -> ProcessUsage {
        self.waited.less(&self.waited_before.unwrap_or_default())
    }

    /// Returns its own usage and that of its gone children.
    fn used(&self) -> ProcessUsage {
        let children = self.waited_since().most(&self.left);
        self.own.and(&self.waited_before.unwrap_or_default()).and(&children)
    }

    /// Returns the storage usage, with that of gone children. `/proc/PID/io` includes a child once its parent has
    /// waited for it. Every process has page faults, so their count shows whether the parent waited.
    fn used_io(&self) -> Option<Io> {
        let waits = self.waited_since().faults_minor >= self.left.faults_minor;
        if waits { self.io } else { sum(self.io, self.left_io) }
    }
}

/// Memory of a node's processes, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FamilyMemory {
    /// All pages, shared ones once. Shared hugetlbfs pages count as the same pages, so only the largest process's share
    /// counts. That is a lower bound.
    pub(super) proportional: u64,
    /// Private pages that were written.
    pub(super) private: u64,
}

impl FamilyMemory {
    fn sum(processes: &[Proportional]) -> Self {
        let added = |part: fn(&Proportional) -> u64| processes.iter().map(part).sum::<u64>();
        let shared_huge = processes.iter().map(|one| one.shared_huge).max().unwrap_or(0);
        Self { proportional: added(|one| one.own) + shared_huge, private: added(|one| one.private) }
    }
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
            gone: ProcessUsage::default(),
            gone_io: None,
            threads_gone: OfThread::default(),
            reported: ProcessUsage::default(),
            reported_io: None,
        }
    }

    /// Returns the process IDs that the last census found.
    pub(super) fn pids(&self) -> Vec<i32> {
        self.members.keys().copied().collect()
    }

    /// Drops processes that turn out not to belong to this family. Their usage so far stays in its total.
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

    /// Samples each member and drops those that are gone.
    fn see(&mut self) {
        // Parents first: a child that ends meanwhile is then missing from its parent until the next sample, but not
        // counted twice.
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
        // Children first, so that their usage passes to a parent that is gone too.
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

    /// Returns the usage of all members so far, including gone ones.
    fn used(&mut self) -> (ProcessUsage, Option<Io>) {
        let (mut total, mut io) = (self.gone, self.gone_io);
        for member in self.members.values() {
            // bakeoff itself waits for the nodes, so its waited-for time is theirs.
            let used = if self.kinship == Kinship::Alone { member.own } else { member.used() };
            total = total.and(&used);
            io = sum(io, member.used_io());
        }
        self.reported = self.reported.most(&total);
        self.reported_io = match (self.reported_io, io) {
            (Some(reported), Some(io)) => Some((reported.0.max(io.0), reported.1.max(io.1))),
            (reported, io) => io.or(reported),
        };
        (self.reported, self.reported_io)
    }

    /// Returns the family's memory, or `None` if that of a process cannot be read.
    pub(super) fn memory(&self) -> Option<FamilyMemory> {
        let living = self.members.iter().filter(|(_, member)| !member.ended);
        // A process that has ended meanwhile holds no memory.
        let of_member = |(&pid, _): (&i32, &Member)| {
            let ended = || procfs::stat(pid).is_none().then(Proportional::default);
            procfs::proportional(pid).or_else(ended)
        };
        Some(FamilyMemory::sum(&living.map(of_member).collect::<Option<Vec<_>>>()?))
    }

    /// Returns the number of processes that joined since the first census.
    pub(super) fn joined(&self) -> u64 {
        self.joined
    }

    /// Returns the CPU time of all members so far, in seconds.
    pub(super) fn cpu(&mut self) -> f64 {
        self.see();
        self.used().0.ticks() as f64 / procfs::ticks_per_second()
    }

    /// Samples the usage so far and the current resources. `thoroughly`: also reads the columns that need a system call
    /// per thread; without it they are left out.
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
        // The kernel adds a child's disk usage to the process that reaps it. For bakeoff that would be all its servers'
        // usage.
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

/// Assigns processes to families. Looks each process up only once, because ancestry does not change.
#[derive(Default)]
pub(super) struct Census {
    leaders: Vec<i32>,
    /// Family index by process; `None` for a process outside all families.
    owners: HashMap<i32, Option<usize>>,
    /// Processes found outside all families.
    strangers: u64,
}

impl Census {
    /// Returns true if a leader has started or ended since the last census.
    pub(super) fn is_outdated(&self, leaders: &[i32]) -> bool {
        self.leaders != leaders
    }

    /// Returns true if a process belonged to a family in the last census.
    pub(super) fn is_ours(&self, pid: i32) -> bool {
        self.owners.get(&pid).is_some_and(Option::is_some)
    }

    /// Returns the number of processes found outside all families so far.
    pub(super) fn strangers(&self) -> u64 {
        self.strangers
    }

    /// Finds new members. `leaders`: current leader of each family, 0 for none.
    pub(super) fn take(&mut self, families: &mut [&mut Family], leaders: Vec<i32>) {
        if leaders != self.leaders {
            // A node's processes may have been seen before the node was registered.
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
            // bakeoff leads two families; its children belong to the later one.
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
        // Parents usually have lower IDs than their children, but IDs wrap around.
        unknown.sort_by_key(|stat| stat.start_ticks);
        for stat in unknown {
            // Kernel threads are in group 0, which is also the leader of a node that is down.
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
        // A node's processes belong to bakeoff until the node is registered.
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

    /// Creates a member with these values.
    fn member(start_ticks: u64, parent: i32, own: u64, waited: u64) -> Member {
        let used = |user_ticks| ProcessUsage { user_ticks, ..ProcessUsage::default() };
        let own = used(own);
        Member {
            start_ticks,
            parent,
            own,
            waited: used(waited),
            waited_before: Some(ProcessUsage::default()),
            ..Member::new(&Stat::default())
        }
    }

    fn family(members: Vec<(i32, Member)>) -> Family {
        let mut family = Family::new(Arc::default(), Kinship::Node);
        family.members = members.into_iter().collect();
        family
    }

    /// IDs that no process has.
    const GONE: [i32; 2] = [i32::MAX - 1, i32::MAX];

    #[test]
    fn waited_for_child_counts_once() {
        let us = std::process::id() as i32;
        let start = procfs::stat(us).unwrap().start_ticks;
        // Gone children of this process; its real usage is far less than theirs.
        let mut of = family(vec![
            (us, member(start, 1, 0, 0)),
            (GONE[0], member(start + 1, us, 70_000, 5_000)),
            (GONE[1], member(start + 2, GONE[0], 20_000, 0)),
        ]);
        let before = of.used().0.user_ticks;
        assert_eq!(before, 95_000);
        of.see();
        let left = of.members[&us].left.user_ticks;
        // A grandchild's 20,000 exceed the 5,000 that its parent had waited for when last seen.
        assert_eq!(left, 90_000, "it goes with its parent");
        assert!(of.used().0.user_ticks >= before, "a counter never goes back");
        // After waiting, the parent's own count holds all of them, and the unseen ones.
        let ours = of.members.get_mut(&us).unwrap();
        ours.waited = ProcessUsage { user_ticks: 99_000, ..ProcessUsage::default() };
        ours.waited_before = Some(ProcessUsage::default());
        ours.own = ProcessUsage::default();
        assert_eq!(of.used().0.user_ticks, 99_000);
    }

    #[test]
    fn shared_huge_pages_count_once() {
        let process = |own, shared_huge| Proportional { own, shared_huge, private: own - 1 };
        let all = FamilyMemory::sum(&[process(3, 100), process(4, 80), process(5, 0)]);
        assert_eq!(all, FamilyMemory { proportional: 112, private: 9 });
        assert_eq!(FamilyMemory::sum(&[]), FamilyMemory { proportional: 0, private: 0 });
    }

    fn pid_of(process: &crate::Process) -> Arc<AtomicI32> {
        Arc::new(AtomicI32::new(process.pid().unwrap()))
    }

    #[test]
    fn shared_pages_count_once() {
        const TEXT: f64 = 16.0 * 1024.0 * 1024.0;
        let dir = TempDir::new().unwrap();
        // The second and third shell are forked from the first and do not write to its text.
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
        let Some(memory) = family.memory() else {
            return; // a kernel without `smaps_rollup`
        };
        let once = memory.proportional as f64;
        let private = memory.private as f64;
        assert!(private < TEXT, "{memory:?}: three processes share the text");
        assert!(once >= TEXT, "{once} bytes do not hold the text");
        assert!(once < 0.6 * resident, "{once} of {resident}: shared pages count once");
    }

    #[test]
    fn short_lived_children_count_for_their_node() {
        let dir = TempDir::new().unwrap();
        // Each subshell uses a few milliseconds and ends; then the shell prints its children's usage.
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
        // `times` prints user and system time of the shell, and on a second line those of its children.
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
