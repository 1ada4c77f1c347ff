//! Splits a load in two: writes go to some nodes, reads to others.
//!
//! The two halves run in parallel. The mix divides an open load's rate and operations between them, and every load's
//! clients, at least one each. In a closed load the mix no longer decides the frequency of operations, because each
//! half runs at its own speed.
//!
//! Not here: driving the halves (the binary).

use crate::plan::Stage;
use crate::study::{Arrivals, Load, Operation, Stop, Workload};

/// Selects a half of a split load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Operations that write keys.
    Writes,
    /// All other operations.
    Reads,
}

impl Side {
    /// Both halves, in the order of [`halves`].
    pub const BOTH: [Self; 2] = [Self::Writes, Self::Reads];

    /// Returns the name: `writes` or `reads`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Writes => "writes",
            Self::Reads => "reads",
        }
    }

    /// Returns true if an operation belongs to this half.
    pub fn has(self, operation: Operation) -> bool {
        operation.writes() == (self == Self::Writes)
    }
}

/// Returns true if a load drives a workload's writes and reads separately, each at its own speed.
pub fn is_split(workload: &Workload, load: &Load) -> bool {
    load.targets.is_split() && workload.can_split()
}

/// Describes one half of a split load.
#[derive(Debug, Clone, PartialEq)]
pub struct SplitHalf {
    /// Workload with only this half's operations.
    pub workload: Workload,
    /// Clients, and condition that ends it.
    pub stage: Stage,
    /// Arrivals of its operations.
    pub arrivals: Arrivals,
    /// Number of threads that drive it.
    pub threads: u32,
}

/// Splits a workload into its writes and its reads. Operations that do neither join the reads.
///
/// Returns `None` if the workload has only one half. A stage needs at least two clients, and two operations if it
/// ends by count.
pub fn halves(
    workload: &Workload,
    stage: &Stage,
    arrivals: Arrivals,
    threads: u32,
) -> Option<[SplitHalf; 2]> {
    let of = |side: Side| {
        let mut half = workload.clone();
        half.mix.retain(|&operation, _| side.has(operation));
        let weight: u64 = half.mix.values().map(|&weight| u64::from(weight)).sum();
        (half, weight)
    };
    let ((writing, writes), (reading, reads)) = (of(Side::Writes), of(Side::Reads));
    if writes == 0 || reads == 0 {
        return None;
    }
    let part = writes as f64 / (writes + reads) as f64;
    // Splits `all` into two whole numbers above zero.
    let shared = |all: u64| {
        let ours = ((all as f64 * part).round() as u64).clamp(1, all.saturating_sub(1).max(1));
        [ours, all.saturating_sub(ours).max(1)]
    };
    let [ours, theirs] = shared(u64::from(stage.clients)).map(|clients| clients as u32);
    let stops = match stage.stop {
        Stop::After(time) => [Stop::After(time); 2],
        Stop::Operations(operations) => shared(operations).map(Stop::Operations),
    };
    let paced = |part: f64| match arrivals {
        Arrivals::Closed => Arrivals::Closed,
        Arrivals::Constant { rate } => Arrivals::Constant { rate: rate * part },
        Arrivals::Poisson { rate } => Arrivals::Poisson { rate: rate * part },
    };
    let driven = shared(u64::from(threads.max(1))).map(|threads| threads as u32);
    let half = |workload, clients, stop, part, threads| SplitHalf {
        workload,
        stage: Stage { clients, stop },
        arrivals: paced(part),
        threads,
    };
    Some([
        half(writing, ours, stops[0], part, driven[0]),
        half(reading, theirs, stops[1], 1.0 - part, driven[1]),
    ])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::study::Operation;

    fn workload(mix: &[(Operation, u32)]) -> Workload {
        let mix: Vec<_> =
            mix.iter().map(|(operation, weight)| (operation.name(), weight)).collect();
        serde_json::from_value(serde_json::json!({
            "name": "w", "mix": mix.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            "keys": {"count": 10, "size": 64, "order": "uniform", "per_directory": 0},
            "value_size": 100, "reads": "stale", "fill": true, "loads": []
        }))
        .expect("it is a workload")
    }

    fn divided(
        mix: &[(Operation, u32)],
        clients: u32,
        stop: Stop,
        arrivals: Arrivals,
        threads: u32,
    ) -> [SplitHalf; 2] {
        let stage = Stage { clients, stop };
        halves(&workload(mix), &stage, arrivals, threads).expect("it writes and reads")
    }

    #[test]
    fn counts_are_divided_by_the_mix_without_remainder() {
        let mix = [
            (Operation::Put, 8),
            (Operation::Delete, 2),
            (Operation::Get, 80),
            (Operation::List, 10),
        ];
        for (clients, operations, threads) in
            [(2, 2, 1), (10, 997, 2), (33, 1000, 4), (1000, 10_000_001, 64)]
        {
            let arrivals = Arrivals::Poisson { rate: 500.0 };
            let [writes, reads] =
                divided(&mix, clients, Stop::Operations(operations), arrivals, threads);
            assert_eq!(writes.workload.mix.len(), 2);
            assert!(writes.workload.mix.keys().all(|operation| operation.writes()));
            assert!(reads.workload.mix.keys().all(|operation| !operation.writes()));
            assert_eq!(writes.stage.clients + reads.stage.clients, clients);
            assert!(writes.stage.clients >= 1 && reads.stage.clients >= 1);
            let count = |half: &SplitHalf| match half.stage.stop {
                Stop::Operations(count) => count,
                Stop::After(_) => 0,
            };
            assert_eq!(count(&writes) + count(&reads), operations);
            let rates = [&writes, &reads].map(|half| half.arrivals.rate().expect("it is open"));
            assert!((rates[0] - 50.0).abs() < 1e-9 && (rates[1] - 450.0).abs() < 1e-9, "{rates:?}");
            // One thread cannot do both halves.
            assert_eq!(writes.threads + reads.threads, threads.max(2));
        }
    }

    #[test]
    fn time_is_not_shared_and_a_closed_load_stays_closed() {
        let stop = Stop::After(Duration::from_secs(3));
        let mix = [(Operation::Put, 1), (Operation::Get, 999)];
        let [writes, reads] = divided(&mix, 10, stop, Arrivals::Closed, 2);
        assert_eq!((writes.stage.stop, reads.stage.stop), (stop, stop));
        assert_eq!((writes.arrivals, reads.arrivals), (Arrivals::Closed, Arrivals::Closed));
        assert_eq!((writes.stage.clients, reads.stage.clients), (1, 9));
    }

    #[test]
    fn workload_that_only_reads_is_not_split() {
        let stage = Stage { clients: 4, stop: Stop::Operations(100) };
        let only = |operation| halves(&workload(&[(operation, 1)]), &stage, Arrivals::Closed, 2);
        assert_eq!(only(Operation::Get), None);
        assert_eq!(only(Operation::Put), None);
    }
}
