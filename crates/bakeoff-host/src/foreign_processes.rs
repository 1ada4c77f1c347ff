//! Attributes the CPU time of processes outside the trial, by two scans of all processes.
//!
//! The total is known exactly: it is the rest of the machine's busy time. The commands come from two scans, shortly
//! before measuring begins and after it ends. A process that begins and ends in between appears only if its parent
//! waited for it.
//!
//! Kernel threads work on behalf of any process. They are not neighbours, and their time is separate. A container does
//! not see them, so their time stays in the rest.
//!
//! Not here: the verdict (core's `check`), the times of the scans (`observe`).

use std::collections::{BTreeMap, HashMap, HashSet};

use bakeoff_core::trial_samples::{Command, ForeignCpu};

use super::machine;
use super::procfs::{self, Stat};

/// Number of commands in the report.
const COMMANDS: usize = 3;

/// All processes at one moment.
pub(super) struct Scan {
    at: f64,
    /// Earlier usage, by process ID and start time.
    processes: HashMap<(i32, u64), EarlierCpuTime>,
}

/// CPU time, in clock ticks, that a process had used by the scan.
#[derive(Debug, Clone, Copy, Default)]
struct EarlierCpuTime {
    own: u64,
    /// Time of children that it had waited for.
    waited: u64,
    parent: i32,
}

impl EarlierCpuTime {
    fn new(stat: &Stat) -> Self {
        Self { own: stat.own.ticks(), waited: stat.waited.ticks(), parent: stat.parent }
    }
}

impl Scan {
    /// Scans all processes. `at`: seconds since the trial began.
    pub(super) fn take(at: f64) -> Self {
        let stats = procfs::pids().into_iter().filter_map(procfs::stat);
        let one = |stat: Stat| ((stat.pid, stat.start_ticks), EarlierCpuTime::new(&stat));
        Self { at, processes: stats.map(one).collect() }
    }

    /// Returns, by process ID, the CPU time from before the scan that processes have since taken over from gone
    /// descendants. The time of a gone process is in its parent's count, or in that of the next living ancestor.
    fn inherited(&self, there: &HashSet<(i32, u64)>) -> HashMap<i32, u64> {
        let gone: HashMap<i32, &EarlierCpuTime> = (self.processes.iter())
            .filter(|(id, _)| !there.contains(id))
            .map(|((pid, _), before)| (*pid, before))
            .collect();
        let mut inherited: HashMap<i32, u64> = HashMap::new();
        for before in gone.values() {
            let mut parent = before.parent;
            // Bounds the walk: no chain of parents is longer than the number of processes, even with reused IDs.
            for _ in 0..gone.len() {
                let Some(next) = gone.get(&parent) else { break };
                parent = next.parent;
            }
            *inherited.entry(parent).or_default() += before.own + before.waited;
        }
        inherited
    }

    /// Returns the CPU time that all processes except `ours` have used since the scan.
    pub(super) fn since(&self, at: f64, ours: impl Fn(i32) -> bool) -> ForeignCpu {
        let now: Vec<(String, Stat)> =
            procfs::pids().into_iter().filter_map(procfs::named).collect();
        let there: HashSet<(i32, u64)> =
            now.iter().map(|(_, stat)| (stat.pid, stat.start_ticks)).collect();
        let inherited = self.inherited(&there);
        let most = machine::cpus_online().map_or(u64::MAX, |cpus| {
            ((at - self.at) * procfs::ticks_per_second() * f64::from(cpus)).ceil() as u64
        });
        let (mut kernel, mut kernel_unseen) = (0, true);
        let mut commands: BTreeMap<String, u64> = BTreeMap::new();
        for (name, stat) in now {
            let before = self.processes.get(&(stat.pid, stat.start_ticks)).copied();
            let before = before.unwrap_or_default();
            let inherited = inherited.get(&stat.pid).copied().unwrap_or(0);
            let own = stat.own.ticks().saturating_sub(before.own);
            let waited = stat.waited.ticks().saturating_sub(before.waited + inherited);
            // More than the machine could have used: it adopted an old process whose parent is unknown.
            let waited = if own + waited > most { 0 } else { waited };
            let grown = own + waited;
            if stat.is_kernel {
                kernel += grown;
                kernel_unseen = false;
            } else if !ours(stat.pid) && grown > 0 {
                *commands.entry(name).or_default() += grown;
            }
        }
        let seconds = |ticks: u64| ticks as f64 / procfs::ticks_per_second();
        let mut commands: Vec<Command> = commands
            .into_iter()
            .map(|(name, ticks)| Command { name, seconds: seconds(ticks) })
            .collect();
        commands.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        commands.truncate(COMMANDS);
        let kernel_seconds = seconds(kernel);
        ForeignCpu { from: self.at, to: at, kernel_seconds, kernel_unseen, commands }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::wait_for;
    use super::*;

    #[test]
    fn child_of_process_2_need_not_be_a_kernel_thread() {
        // As in a container, where any process can have ID 2.
        let line = |flags: u64| {
            format!("31 (etcd) S 2 31 31 0 -1 {flags} 5 0 0 0 400 100 0 0 20 0 9 0 77 0 900")
        };
        let is_kernel = |flags| procfs::parse_stat(line(flags).as_bytes()).unwrap().is_kernel;
        assert!(!is_kernel(0x0040_0000));
        assert!(is_kernel(0x0020_8040), "`PF_KTHREAD` among others");
    }

    #[test]
    fn busy_foreign_process_is_named() {
        let scan = Scan::take(1.0);
        let mut burning = std::process::Command::new("sh");
        let mut burning = burning.args(["-c", "while :; do :; done"]).spawn().unwrap();
        let pid = burning.id() as i32;
        let used = |of: &ForeignCpu| {
            of.commands.iter().find(|one| one.name == "sh").map_or(0.0, |one| one.seconds)
        };
        wait_for("its time", || procfs::stat(pid).is_some_and(|stat| stat.own.ticks() >= 30));
        let all_but_it = |one: i32| one != pid;
        let found = scan.since(3.0, all_but_it);
        assert!(used(&found) >= 0.3, "{found:?}");
        assert_eq!((found.from, found.to, found.commands.len()), (1.0, 3.0, 1));
        assert_eq!(scan.since(3.0, |_| true).commands, []);
        burning.kill().unwrap();
        burning.wait().unwrap();
    }

    /// As after an hour of a build: the shell waits for `make`, which had waited for a compiler.
    #[test]
    fn time_inherited_from_before_the_scan_does_not_count() {
        let before = |parent, own, waited| EarlierCpuTime { own, waited, parent };
        let processes = HashMap::from([
            ((10, 1), before(1, 5, 0)),
            ((11, 2), before(10, 20, 300)),
            ((12, 3), before(11, 3880, 0)),
            ((13, 4), before(1, 700, 0)),
        ]);
        let scan = Scan { at: 0.0, processes };
        let there = HashSet::from([(10, 1)]);
        // The shell now has the time of its gone child and grandchild, and process 1 that of an orphan.
        assert_eq!(scan.inherited(&there), HashMap::from([(10, 4200), (1, 700)]));
    }
}
