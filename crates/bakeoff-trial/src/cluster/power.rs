//! Cuts the power of a cluster's nodes, whose file systems then drop what was not synced.
//!
//! Not here: what they drop (`bakeoff_disk`), the writes meanwhile (`trial::power`).

use std::time::Duration;

use bakeoff_core::workload::mix64;
use bakeoff_host::{CutLosses, HostError, Process, UnsyncedFate};
use rustix::process::Signal;

use super::ReadyCluster;

/// Time for which a node lags before the power of another one is cut.
const LAGS: Duration = Duration::from_millis(300);
/// Time for the node that lagged and the one that lost its power to elect a leader without the others.
const ALONE: Duration = Duration::from_secs(3);

impl ReadyCluster {
    /// Makes everything durable that the nodes wrote so far, as the kernel does with pages that are dirty for 30 s: a
    /// power cut seldom hits servers in their first half minute.
    ///
    /// # Errors
    /// Fails with a message if a node's file system failed.
    pub(crate) fn write_back(&self) -> Result<(), String> {
        self.processes().try_for_each(|process| {
            process.write_back().map_err(|why| format!("{}: {why}", process.name()))
        })
    }

    /// Cuts the power of all nodes and parts at once. They can be restarted.
    ///
    /// # Errors
    /// Fails with a message if a node's file system failed.
    pub(crate) fn cut_power(&self, seed: u64, unsynced: UnsyncedFate) -> Result<CutLosses, String> {
        for process in self.processes() {
            process.signal(Signal::KILL);
        }
        let mut all = CutLosses::default();
        for (number, process) in (0..).zip(self.processes()) {
            all += cut(process, mix64(seed ^ number), unsynced)?;
        }
        Ok(all)
    }

    /// Cuts the power of one node. Another one is paused before that, so that it lags, and the rest at the cut.
    ///
    /// # Errors
    /// Fails with a message if the node's file system failed.
    pub(crate) fn cut_power_of_one(
        &self,
        seed: u64,
        unsynced: UnsyncedFate,
    ) -> Result<(CutLosses, PowerCutRoles), String> {
        let apart = self.apart(seed).ok_or("it has no nodes of its own")?;
        self.pause(&apart.lagging)?;
        std::thread::sleep(LAGS);
        self.pause(&apart.others)?;
        let victim = self.some(&[apart.victim]).next().ok_or("it has no nodes of its own")?;
        Ok((cut(victim, seed, unsynced)?, apart))
    }

    /// Starts the node without power again, alone with the one that lagged. They are a majority of three, and what only
    /// the paused nodes hold is lost if they elect a leader. Then continues all.
    ///
    /// # Errors
    /// Fails if the node does not start.
    pub(crate) fn rejoin(&self, apart: &PowerCutRoles) -> Result<(), HostError> {
        self.some(&apart.lagging).for_each(|process| process.signal(Signal::CONT));
        let started = self.some(&[apart.victim]).try_for_each(Process::restart);
        if !apart.lagging.is_empty() {
            std::thread::sleep(ALONE);
        }
        self.some(&apart.others).for_each(|process| process.signal(Signal::CONT));
        started
    }

    /// Chooses a victim among all nodes, and divides the others of its member.
    fn apart(&self, seed: u64) -> Option<PowerCutRoles> {
        let count = self.processes().count() as u64;
        let victim = (seed.checked_rem(count)?) as usize;
        let mut first = 0;
        let members = self.members().map(|member| {
            let nodes = first..first + member.processes.len();
            first = nodes.end;
            nodes
        });
        let member = members.into_iter().find(|nodes| nodes.contains(&victim))?;
        let mut others: Vec<usize> = member.filter(|&node| node != victim).collect();
        let lags = mix64(seed).checked_rem(others.len() as u64).map(|index| index as usize);
        let lagging = lags.map(|index| others.swap_remove(index)).into_iter().collect();
        Some(PowerCutRoles { victim, lagging, others })
    }

    fn pause(&self, nodes: &[usize]) -> Result<(), String> {
        self.some(nodes).try_for_each(|process| process.pause().map(drop))
    }

    fn some(&self, nodes: &[usize]) -> impl Iterator<Item = &Process> {
        let all = self.processes().enumerate();
        all.filter(|(index, _)| nodes.contains(index)).map(|(_, process)| process)
    }
}

/// Nodes by their number among all processes of a cluster.
pub(crate) struct PowerCutRoles {
    victim: usize,
    /// The node that missed the last writes; none in a cluster of one.
    lagging: Vec<usize>,
    others: Vec<usize>,
}

fn cut(process: &Process, seed: u64, unsynced: UnsyncedFate) -> Result<CutLosses, String> {
    let dropped = process.cut_power(seed, unsynced);
    dropped.map_err(|why| format!("{}: {why}", process.name()))
}
