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

use super::procfs::{self, Stat};

/// How many commands are told.
const COMMANDS: usize = 3;

/// All processes at a moment.
pub(super) struct Scan {
    at: f64,
    /// By id and start time: what it had used, and its parent.
    processes: HashMap<(i32, u64), (u64, i32)>,
}

impl Scan {
    /// `at`: seconds since the trial began.
    pub(super) fn take(at: f64) -> Self {
        let stats = procfs::pids().into_iter().filter_map(procfs::stat);
        let one = |stat: Stat| ((stat.pid, stat.start_ticks), (ticks(&stat), stat.parent));
        Self { at, processes: stats.map(one).collect() }
    }

    /// Returns the CPU time that all but `ours` have used since then.
    pub(super) fn since(&self, at: f64, ours: impl Fn(i32) -> bool) -> Strangers {
        let now: Vec<(String, Stat)> =
            procfs::pids().into_iter().filter_map(procfs::named).collect();
        // What one that is gone had used before is in the count of whoever waited for it.
        let there: HashSet<(i32, u64)> =
            now.iter().map(|(_, stat)| (stat.pid, stat.start_ticks)).collect();
        let mut inherited: HashMap<i32, u64> = HashMap::new();
        for (_, (ticks, parent)) in self.processes.iter().filter(|(id, _)| !there.contains(id)) {
            *inherited.entry(*parent).or_default() += ticks;
        }
        let (mut kernel, mut kernel_unseen) = (0, true);
        let mut commands: BTreeMap<String, u64> = BTreeMap::new();
        for (name, stat) in now {
            let before = self.processes.get(&(stat.pid, stat.start_ticks));
            let before = before.map_or(0, |(ticks, _)| *ticks);
            let inherited = inherited.get(&stat.pid).copied().unwrap_or(0);
            let waited = stat.waited.ticks();
            let grown = ticks(&stat).saturating_sub(before + inherited.min(waited));
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

/// Returns the CPU time of it and of those that it waited for.
fn ticks(stat: &Stat) -> u64 {
    stat.own.ticks() + stat.waited.ticks()
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
        wait_for("its time", || procfs::stat(pid).is_some_and(|stat| ticks(&stat) >= 30));
        let all_but_it = |one: i32| one != pid;
        let found = scan.since(3.0, all_but_it);
        assert!(used(&found) >= 0.3, "{found:?}");
        assert_eq!((found.from, found.to, found.commands.len()), (1.0, 3.0, 1));
        assert_eq!(scan.since(3.0, |_| true).commands, []);
        burning.kill().unwrap();
        burning.wait().unwrap();
    }
}
