//! Keeps the load generator off the CPUs that a system's nodes are pinned to, during a load.
//!
//! New threads inherit their parent's CPUs. It is therefore enough to pin the thread that drives the load to the
//! remaining CPUs. The rest of bakeoff keeps its own.
//!
//! Not here: pinning nodes (`host`), driving (`engine`).

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// Pins this thread until it is dropped, then restores its CPUs.
pub struct Affinity {
    before: CpuSet,
    cpus: Vec<u32>,
    shared: bool,
}

impl Affinity {
    /// Pins this thread, and threads it starts, to the CPUs without pinned nodes. If there are none, to the CPUs with
    /// the fewest pinned nodes. Unpinned nodes may run on any CPU. Returns `None` if no node is pinned. The error is a
    /// reason for a verdict.
    pub fn from<'a>(nodes: impl Iterator<Item = &'a [u32]>) -> Option<Result<Self, AffinityError>> {
        let nodes: Vec<&[u32]> = nodes.collect();
        nodes.iter().any(|cpus| !cpus.is_empty()).then(|| Self::to_the_rest(&nodes))
    }

    fn to_the_rest(nodes: &[&[u32]]) -> Result<Self, AffinityError> {
        let before = sched_getaffinity(None).map_err(AffinityError::Unknown)?;
        let own = (0..CpuSet::MAX_CPU).filter(|&cpu| before.is_set(cpu)).map(|cpu| cpu as u32);
        let pinned = |cpu: u32| nodes.iter().filter(|cpus| cpus.contains(&cpu)).count();
        let own: Vec<(u32, usize)> = own.map(|cpu| (cpu, pinned(cpu))).collect();
        let fewest = own.iter().map(|&(_, nodes)| nodes).min().unwrap_or(0);
        let cpus: Vec<u32> =
            own.iter().filter(|&&(_, nodes)| nodes == fewest).map(|&(cpu, _)| cpu).collect();
        if fewest > 0 && cpus.len() == own.len() {
            return Err(AffinityError::NoneLeft);
        }
        let mut rest = CpuSet::new();
        cpus.iter().for_each(|&cpu| rest.set(cpu as usize));
        sched_setaffinity(None, &rest).map_err(AffinityError::Refused)?;
        let affinity = Self { before, cpus, shared: fewest > 0 };
        match sched_getaffinity(None) {
            Ok(now) if now == rest => Ok(affinity),
            _ => Err(AffinityError::NotKept),
        }
    }
}

/// The CPUs of a generator next to pinned nodes.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct GeneratorCpus {
    /// CPUs that the generator is pinned to, in order; empty if no node is pinned.
    pub cpus: Vec<u32>,
    /// Reason why nodes share CPUs with the generator; `None` if they do not.
    pub not_apart: Option<String>,
}

impl From<&Result<Affinity, AffinityError>> for GeneratorCpus {
    fn from(affinity: &Result<Affinity, AffinityError>) -> Self {
        match affinity {
            Ok(Affinity { cpus, shared, .. }) => {
                let why = "no CPU is free: it uses those with the fewest pinned nodes";
                Self { cpus: cpus.clone(), not_apart: shared.then(|| why.to_owned()) }
            }
            Err(why) => Self { cpus: Vec::new(), not_apart: Some(why.to_string()) },
        }
    }
}

/// The reason why a load generator has no CPUs of its own.
#[derive(Debug, thiserror::Error)]
pub enum AffinityError {
    /// Reading this process's CPUs failed.
    #[error("cannot read the CPUs of this process: {0}")]
    Unknown(#[source] Errno),
    /// The nodes are pinned to all CPUs of this process.
    #[error("the nodes are pinned to all CPUs that bakeoff may use, so it shares them")]
    NoneLeft,
    /// The kernel refused the new CPUs.
    #[error("cannot pin this thread: {0}")]
    Refused(#[source] Errno),
    /// The kernel accepted the new CPUs but did not apply them.
    #[error("this thread was pinned but runs on other CPUs")]
    NotKept,
}

impl Drop for Affinity {
    fn drop(&mut self) {
        // Going back to its previous CPUs is always allowed.
        sched_setaffinity(None, &self.before).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Vec<u32> {
        let now = sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU).filter(|&cpu| now.is_set(cpu)).map(|cpu| cpu as u32).collect()
    }

    #[test]
    fn affinity_covers_child_threads_and_is_restored() {
        let all = own();
        let Some((first, rest)) = all.split_first().filter(|(_, rest)| !rest.is_empty()) else {
            return; // one CPU leaves none
        };
        let taken: &[u32] = &[*first];
        let affinity = Affinity::from([taken, taken].into_iter()).unwrap();
        let affinity = affinity.unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(affinity.cpus, rest);
        assert_eq!(std::thread::spawn(own).join().unwrap(), rest);
        drop(affinity);
        assert_eq!(own(), all);
    }

    #[test]
    fn generator_shares_the_least_used_cpus_if_none_is_free() {
        let all = own();
        let [first, .., last] = all[..] else { return };
        let gates: Vec<u32> = all.iter().copied().filter(|&cpu| cpu != last).collect();
        let nodes = [&all[..], &gates, &[first], &[]];
        let affinity =
            Affinity::from(nodes.into_iter()).unwrap().unwrap_or_else(|why| panic!("{why}"));
        assert!(affinity.shared && affinity.cpus == [last]);
    }

    #[test]
    fn sets_no_affinity_without_pinned_nodes_or_if_all_cpus_are_pinned_alike() {
        let all = own();
        assert!(Affinity::from([&[][..], &[]].into_iter()).is_none());
        let why = Affinity::from([&all[..], &all].into_iter()).unwrap().err().unwrap();
        assert!(matches!(why, AffinityError::NoneLeft), "{why}");
        assert_eq!(own(), all);
    }
}
