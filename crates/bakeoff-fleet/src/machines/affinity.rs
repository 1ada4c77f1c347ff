//! Keeps the load generator off the CPUs that a system's nodes are pinned to, while it is loaded.
//!
//! Threads begin with the CPUs of the one that starts them, so it is enough to keep the thread that
//! drives the load to the CPUs that are left: what it starts stays there, and everything else of
//! bakeoff is as it was.
//!
//! Not here: pinning nodes (`host`), driving (`engine`).

use std::fmt;

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// The CPU affinity of this thread, restored when it is dropped.
pub struct Affinity {
    before: CpuSet,
    cpus: Vec<u32>,
    shared: bool,
}

impl Affinity {
    /// Keeps this thread, and those that it will start, to CPUs that none of the nodes is pinned to;
    /// where there are none, to those that the fewest are pinned to. Nodes that are pinned to none may
    /// run on any. `None` where no node is pinned; an error says why it cannot be, ready to stand in
    /// a verdict.
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

/// Result of keeping a generator off the CPUs that nodes are pinned to.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Kept {
    /// The CPUs that it keeps to, in order; none where no node is pinned.
    pub cpus: Vec<u32>,
    /// Why nodes do not have their CPUs for themselves.
    pub not_apart: Option<String>,
}

impl From<&Result<Affinity, AffinityError>> for Kept {
    fn from(affinity: &Result<Affinity, AffinityError>) -> Self {
        match affinity {
            Ok(Affinity { cpus, shared, .. }) => {
                let why = "no CPU is left over: it keeps to those that the fewest nodes have";
                Self { cpus: cpus.clone(), not_apart: shared.then(|| why.to_owned()) }
            }
            Err(why) => Self { cpus: Vec::new(), not_apart: Some(why.to_string()) },
        }
    }
}

/// A load generator without CPUs of its own.
#[derive(Debug)]
pub enum AffinityError {
    /// The CPUs of this process could not be read.
    Unknown(Errno),
    /// The nodes are pinned to all CPUs of this process.
    NoneLeft,
    /// The kernel refused the new CPUs.
    Refused(Errno),
    /// The kernel accepted the new CPUs and did not apply them.
    NotKept,
}

impl fmt::Display for AffinityError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(error) => {
                write!(to, "the CPUs of this process cannot be seen: {error}")
            }
            Self::NoneLeft => write!(
                to,
                "its nodes are pinned to all CPUs that bakeoff may run on, so that none is left: it shares \
                 them"
            ),
            Self::Refused(error) => write!(to, "this thread cannot be pinned: {error}"),
            Self::NotKept => {
                write!(to, "this thread was pinned, and runs elsewhere all the same")
            }
        }
    }
}

impl std::error::Error for AffinityError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unknown(error) | Self::Refused(error) => Some(error),
            Self::NoneLeft | Self::NotKept => None,
        }
    }
}

impl Drop for Affinity {
    fn drop(&mut self) {
        // Where it was before it may be again.
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
    fn generator_shares_the_least_used_cpus_where_none_is_left() {
        let all = own();
        let [first, .., last] = all[..] else { return };
        let gates: Vec<u32> = all.iter().copied().filter(|&cpu| cpu != last).collect();
        let nodes = [&all[..], &gates, &[first], &[]];
        let affinity =
            Affinity::from(nodes.into_iter()).unwrap().unwrap_or_else(|why| panic!("{why}"));
        assert!(affinity.shared && affinity.cpus == [last]);
    }

    #[test]
    fn sets_no_affinity_without_pinned_nodes_or_where_all_cpus_are_pinned_alike() {
        let all = own();
        assert!(Affinity::from([&[][..], &[]].into_iter()).is_none());
        let why = Affinity::from([&all[..], &all].into_iter()).unwrap().err().unwrap();
        assert!(matches!(why, AffinityError::NoneLeft), "{why}");
        assert_eq!(own(), all);
    }
}
