//! Keeps the load generator off the CPUs that a system's nodes are pinned to, while it is loaded.
//!
//! Threads begin with the CPUs of the one that starts them, so it is enough to keep the thread that
//! drives the load to the CPUs that are left: what it starts stays there, and everything else of
//! bakeoff is as it was.
//!
//! Not here: pinning nodes (`host`), driving (`engine`).

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// This thread, kept apart until it is dropped.
pub(crate) struct Apart {
    before: CpuSet,
    cpus: Vec<u32>,
}

impl Apart {
    /// Keeps this thread, and those that it will start, to CPUs that none of the nodes is pinned to.
    /// `None` where no node is pinned; an error says why it cannot be, ready to stand in a verdict.
    pub(crate) fn from<'a>(nodes: impl Iterator<Item = &'a [u32]>) -> Option<Result<Self, String>> {
        let nodes: Vec<&[u32]> = nodes.collect();
        if nodes.iter().all(|cpus| cpus.is_empty()) {
            return None;
        }
        if nodes.iter().any(|cpus| cpus.is_empty()) {
            return Some(Err(
                "not all of its nodes are pinned to CPUs, so that none is left".into()
            ));
        }
        Some(Self::to_the_rest(&nodes))
    }

    fn to_the_rest(nodes: &[&[u32]]) -> Result<Self, String> {
        let unknown = |error| format!("the CPUs of this process cannot be seen: {error}");
        let before = sched_getaffinity(None).map_err(unknown)?;
        let mut rest = before;
        for &cpu in nodes.iter().copied().flatten() {
            rest.unset(cpu as usize);
        }
        let cpus: Vec<u32> =
            (0..CpuSet::MAX_CPU).filter(|&cpu| rest.is_set(cpu)).map(|cpu| cpu as u32).collect();
        if cpus.is_empty() {
            let taken: std::collections::BTreeSet<u32> =
                nodes.iter().copied().flatten().copied().collect();
            let taken = taken.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            return Err(format!(
                "its nodes are pinned to CPUs {taken}, and bakeoff may run on no others: it shares them"
            ));
        }
        sched_setaffinity(None, &rest)
            .map_err(|error| format!("this thread cannot be pinned: {error}"))?;
        let apart = Self { before, cpus };
        match sched_getaffinity(None) {
            Ok(now) if now == rest => Ok(apart),
            _ => Err("this thread was pinned, and runs elsewhere all the same".to_owned()),
        }
    }

    /// The CPUs that are left, in order.
    pub(crate) fn cpus(&self) -> &[u32] {
        &self.cpus
    }
}

impl Drop for Apart {
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
    fn a_thread_is_kept_apart_with_what_it_starts_and_then_goes_back() {
        let all = own();
        let Some((first, rest)) = all.split_first().filter(|(_, rest)| !rest.is_empty()) else {
            return; // one CPU leaves none
        };
        let taken: &[u32] = &[*first];
        let apart = Apart::from([taken, taken].into_iter()).unwrap();
        let apart = apart.unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(apart.cpus(), rest);
        assert_eq!(std::thread::spawn(own).join().unwrap(), rest);
        drop(apart);
        assert_eq!(own(), all);
    }

    #[test]
    fn it_is_not_kept_apart_where_nothing_or_not_all_is_pinned_or_nothing_is_left() {
        let all = own();
        assert!(Apart::from([&[][..], &[]].into_iter()).is_none());
        let why = |nodes: &[&[u32]]| Apart::from(nodes.iter().copied()).unwrap().err().unwrap();
        assert!(why(&[&[0], &[]]).contains("not all of its nodes"));
        assert!(why(&[&all, &[0]]).contains("may run on no others"));
        assert_eq!(own(), all);
    }
}
