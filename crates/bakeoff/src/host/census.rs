//! Which processes are a node, and what they have used, from `/proc`.
//!
//! A node is its server process and all that descends from it or is in its group. Counters go on
//! over restarts: what a process had used when it was last seen is kept when it is gone. What it
//! used after that, and a child that lived and ended between two looks, is missed; both are short.
//!
//! The resident memory of a node with several processes counts the pages that they share once for
//! each of them. Linux counts CPU time in ticks of `CLK_TCK`, commonly 10 ms.
//!
//! Not here: when to look and what becomes of it (`observe`), sockets, the machine.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;

use bakeoff_core::observed::Column;

use super::procfs::{self, OfThread, Stat};

/// A process and its family.
pub(super) struct Family {
    /// The leader's id, over all restarts; 0 while there is none.
    pub(super) pid: Arc<AtomicI32>,
    /// Whether its descendants count as it.
    pub(super) with_descendants: bool,
    members: HashMap<i32, Member>,
    /// What members that are gone had used.
    gone: Used,
    threads_gone: OfThread,
}

struct Member {
    start_ticks: u64,
    used: Used,
    threads: HashMap<i32, OfThread>,
    open_files: Option<u64>,
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    user_ticks: u64,
    system_ticks: u64,
    faults_minor: u64,
    faults_major: u64,
    io: Option<(u64, u64)>,
}

impl Used {
    fn of(stat: &Stat) -> Self {
        Self {
            user_ticks: stat.user_ticks,
            system_ticks: stat.system_ticks,
            faults_minor: stat.faults_minor,
            faults_major: stat.faults_major,
            io: procfs::io(stat.pid),
        }
    }

    fn add(&mut self, other: &Self) {
        self.user_ticks += other.user_ticks;
        self.system_ticks += other.system_ticks;
        self.faults_minor += other.faults_minor;
        self.faults_major += other.faults_major;
        let sum = |a: Option<(u64, u64)>, b: (u64, u64)| {
            let (read, written) = a.unwrap_or_default();
            (read + b.0, written + b.1)
        };
        self.io = other.io.map(|io| sum(self.io, io)).or(self.io);
    }
}

impl Family {
    pub(super) fn new(pid: Arc<AtomicI32>, with_descendants: bool) -> Self {
        Self {
            pid,
            with_descendants,
            members: HashMap::new(),
            gone: Used::default(),
            threads_gone: OfThread::default(),
        }
    }

    /// The ids of its processes as the last census found them.
    pub(super) fn pids(&self) -> Vec<i32> {
        self.members.keys().copied().collect()
    }

    fn join(&mut self, stat: &Stat) {
        let member = Member {
            start_ticks: stat.start_ticks,
            used: Used::default(),
            threads: HashMap::new(),
            open_files: None,
        };
        self.members.insert(stat.pid, member);
    }

    /// What it has used so far and what it holds now. `thoroughly`: what costs a system call for
    /// each thread is read too, and is not among the columns otherwise.
    pub(super) fn look(&mut self, thoroughly: bool) -> Vec<(Column, f64)> {
        let (mut total, mut of_threads) = (Used::default(), OfThread::default());
        let (mut rss_pages, mut threads, mut open_files) = (0, 0, None);
        let (gone, threads_gone) = (&mut self.gone, &mut self.threads_gone);
        self.members.retain(|&pid, member| {
            let stat = procfs::stat(pid).filter(|stat| stat.start_ticks == member.start_ticks);
            if let Some(stat) = &stat {
                // The last figures of one that has ended can be read until it is reaped; what it
                // did to the disk cannot.
                let io = member.used.io;
                member.used = Used::of(stat);
                member.used.io = member.used.io.or(io);
            }
            let Some(stat) = stat.filter(Stat::lives) else {
                gone.add(&member.used);
                member.threads.values().for_each(|of| threads_gone.add(of));
                return false;
            };
            if thoroughly {
                let old = std::mem::replace(&mut member.threads, procfs::threads(pid));
                let ended = old.iter().filter(|(id, _)| !member.threads.contains_key(id));
                ended.for_each(|(_, of)| threads_gone.add(of));
                member.open_files = procfs::open_files(pid);
            }
            member.threads.values().for_each(|of| of_threads.add(of));
            total.add(&member.used);
            rss_pages += stat.rss_pages;
            threads += stat.threads;
            if let Some(of_member) = member.open_files {
                open_files = Some(open_files.unwrap_or(0) + of_member);
            }
            true
        });
        total.add(gone);
        of_threads.add(threads_gone);
        if self.members.is_empty() {
            open_files = Some(0);
        }
        let ticks_per_second = procfs::ticks_per_second();
        // The kernel adds what a child did to the disk to whoever reaps it: to bakeoff all that
        // its servers did.
        let io = total.io.filter(|_| self.with_descendants);
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
            (Column::Processes, self.members.len() as f64),
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
}

impl Census {
    /// Whether a leader has come or gone since the last census.
    pub(super) fn is_outdated(&self, leaders: &[i32]) -> bool {
        self.leaders != leaders
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
            if leader != 0
                && !family.members.contains_key(&leader)
                && let Some(stat) = procfs::stat(leader).filter(Stat::lives)
            {
                family.join(&stat);
            }
            if leader != 0 {
                found.insert(leader, family.with_descendants.then_some(index));
            }
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
            let by_group = by_group.filter(|&index| families[index].with_descendants);
            let owner = by_group.or_else(|| found.get(&stat.parent).copied().flatten());
            if let Some(index) = owner.filter(|_| stat.lives())
                && !families[index].members.contains_key(&stat.pid)
            {
                families[index].join(&stat);
            }
            found.insert(stat.pid, owner);
        }
        self.owners = found;
    }
}
