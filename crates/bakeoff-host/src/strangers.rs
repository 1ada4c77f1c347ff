//! Whose the CPU time is that belongs to nobody of a trial: all processes, before and after.
//!
//! How much it was is known exactly, as what is left of the machine's running time. Which commands it
//! was is known from two scans, a moment before measuring begins and after it ended; what began
//! and ended in between shows only where somebody waited for it.
//!
//! The kernel's own threads work for whoever asked them to. They are nobody's neighbours, and are
//! told apart. In a container they are not seen, and what they used stays among the rest.
//!
//! Not here: what follows (core's `check`), when to scan (`observe`).

use std::collections::{BTreeMap, HashMap, HashSet};

use bakeoff_core::observed::{Command, Strangers};

use super::machine;
use super::procfs::{self, Stat};

/// How many commands are told.
const COMMANDS: usize = 3;

/// All processes at a moment.
pub(super) struct Scan {
    at: f64,
    /// By id and start time.
    processes: HashMap<(i32, u64), Before>,
}

/// CPU time in clock ticks that a process had used by the scan.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    own: u64,
    /// That of children that it had waited for.
    waited: u64,
    parent: i32,
}

impl Before {
    fn new(stat: &Stat) -> Self {
        Self { own: stat.own.ticks(), waited: stat.waited.ticks(), parent: stat.parent }
    }
}

impl Scan {
    /// `at`: seconds since the trial began.
    pub(super) fn take(at: f64) -> Self {
        let stats = procfs::pids().into_iter().filter_map(procfs::stat);
        let one = |stat: Stat| ((stat.pid, stat.start_ticks), Before::new(&stat));
        Self { at, processes: stats.map(one).collect() }
    }

    /// Returns the CPU time before the scan that processes now count as that of children they waited for, by their
    /// ids. What one that is gone had used is in the count of its parent, or of the next that is there.
    fn inherited(&self, there: &HashSet<(i32, u64)>) -> HashMap<i32, u64> {
        let gone: HashMap<i32, &Before> = (self.processes.iter())
            .filter(|(id, _)| !there.contains(id))
            .map(|((pid, _), before)| (*pid, before))
            .collect();
        let mut inherited: HashMap<i32, u64> = HashMap::new();
        for before in gone.values() {
            let mut parent = before.parent;
            // No chain of parents is longer than there are processes, whatever ids were given out again.
            for _ in 0..gone.len() {
                let Some(next) = gone.get(&parent) else { break };
                parent = next.parent;
            }
            *inherited.entry(parent).or_default() += before.own + before.waited;
        }
        inherited
    }

    /// Returns the CPU time that all but `ours` have used since then.
    pub(super) fn since(&self, at: f64, ours: impl Fn(i32) -> bool) -> Strangers {
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
            // It adopted one that had run for long, and whose parent nobody knows any more.
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
        Strangers { from: self.at, to: at, kernel_seconds, kernel_unseen, commands }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::wait_for;
    use super::*;

    #[test]
    fn a_child_of_process_2_is_no_kernel_thread() {
        // As in a container, where any process can have that number.
        let line = |flags: u64| {
            format!("31 (etcd) S 2 31 31 0 -1 {flags} 5 0 0 0 400 100 0 0 20 0 9 0 77 0 900")
        };
        let is_kernel = |flags| procfs::parse_stat(line(flags).as_bytes()).unwrap().is_kernel;
        assert!(!is_kernel(0x0040_0000));
        assert!(is_kernel(0x0020_8040), "`PF_KTHREAD` among others");
    }

    #[test]
    fn a_stranger_that_burns_is_named() {
        let scan = Scan::take(1.0);
        let mut burning = std::process::Command::new("sh");
        let mut burning = burning.args(["-c", "while :; do :; done"]).spawn().unwrap();
        let pid = burning.id() as i32;
        let used = |of: &Strangers| {
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
    fn time_of_before_that_a_shell_inherits_is_nobodys() {
        let before = |parent, own, waited| Before { own, waited, parent };
        let processes = HashMap::from([
            ((10, 1), before(1, 5, 0)),
            ((11, 2), before(10, 20, 300)),
            ((12, 3), before(11, 3880, 0)),
            ((13, 4), before(1, 700, 0)),
        ]);
        let scan = Scan { at: 0.0, processes };
        let there = HashSet::from([(10, 1)]);
        // What its parent and that one's parent had is the shell's now, and an orphan's the first process's.
        assert_eq!(scan.inherited(&there), HashMap::from([(10, 4200), (1, 700)]));
    }
}
