//! Attributes failed and delayed operations to the effect of a fault that began last before they were due.
//!
//! A fault may happen several times in one load, as a configuration that changes each second does. The operations that
//! were due from one effect to the next belong to the first of the two. Those that were due before the first effect
//! belong to none.
//!
//! Not here: the figures of the whole injection (`crate::outage`).

use crate::measurement::Measurement;
use crate::outage::delayed_from;
use crate::record::{FaultHit, HitCost};

/// Counts the operations of each effect. Leaves a single effect out, and all if some failures were not kept.
pub fn attribute(hits: &mut [FaultHit], measurement: &Measurement) {
    let times = &measurement.dues;
    if hits.len() < 2 || times.left_out > 0 {
        return;
    }
    let microseconds = |seconds: f64| (seconds * 1e6).max(0.0) as u64;
    let begins: Vec<u64> = hits.iter().map(|hit| microseconds(hit.from)).collect();
    let limit =
        delayed_from(measurement, hits[0].from).map(|limit| microseconds(limit.as_secs_f64()));
    // A shorter limit than that of the kept successes would count too few.
    let limit = limit.filter(|limit| *limit >= times.slow_from);
    for (place, hit) in hits.iter_mut().enumerate() {
        let until = begins.get(place + 1).copied().unwrap_or(u64::MAX);
        let is_own = |due: &u64| (begins[place]..until).contains(due);
        let count = |times: &[u64]| times.iter().filter(|due| is_own(due)).count() as u64;
        let delayed = |limit: u64| {
            times.slow.iter().filter(|(due, took)| is_own(due) && *took > limit).count() as u64
        };
        hit.cost = Some(HitCost {
            failed: count(&times.failed),
            unknown: count(&times.unknown),
            delayed: limit.map(delayed),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::histogram::Latencies;
    use crate::measurement::{ErrorKind, Second, SecondFigures};

    /// Returns a load whose p99 was 10 ms in each of its first two seconds.
    fn measurement() -> Measurement {
        let mut response = Latencies::default();
        response.record_many(Duration::from_millis(10), 2000);
        let figures = SecondFigures {
            verified: 2000,
            errors: 0,
            response: response.pack(),
            service: response.pack(),
            failed: None,
        };
        let second =
            |second| Second { second, operations: [("get".into(), figures.clone())].into() };
        Measurement { seconds: [0, 1].map(second).into(), ..Measurement::default() }
    }

    fn hits(begins: &[f64]) -> Vec<FaultHit> {
        begins.iter().map(|&from| FaultHit { from, ..FaultHit::default() }).collect()
    }

    fn counts(hits: &[FaultHit]) -> Vec<(u64, u64, Option<u64>)> {
        let costs = hits.iter().filter_map(|hit| hit.cost.as_ref());
        costs.map(|cost| (cost.failed, cost.unknown, cost.delayed)).collect()
    }

    #[test]
    fn operations_belong_to_the_last_effect_that_began_before_they_were_due() {
        let mut load = measurement();
        let at = Duration::from_micros;
        for due in [1_999_999, 2_000_000, 2_999_999, 4_000_000, 9_000_000] {
            load.dues.add_failure(at(due), ErrorKind::Status);
        }
        load.dues.add_failure(at(3_500_000), ErrorKind::Timeout);
        let slow = Duration::from_millis(21);
        load.dues.add_success(at(3_100_000), slow);
        load.dues.add_success(at(3_200_000), Duration::from_millis(19));
        // It ended during the last effect, and was due during the first.
        load.dues.add_success(at(2_500_000), Duration::from_secs(2));
        let mut hits = hits(&[2.0, 3.0, 4.0]);
        attribute(&mut hits, &load);
        assert_eq!(counts(&hits), [(2, 0, Some(1)), (0, 1, Some(1)), (2, 0, Some(0))]);
    }

    #[test]
    fn counts_without_all_times_are_unknown() {
        let mut load = measurement();
        load.dues.slow_from = 21_000;
        let mut of_load = hits(&[2.0, 3.0]);
        attribute(&mut of_load, &load);
        assert_eq!(counts(&of_load), [(0, 0, None), (0, 0, None)]);
        load.dues.left_out = 1;
        let mut of_load = hits(&[2.0, 3.0]);
        attribute(&mut of_load, &load);
        assert_eq!(counts(&of_load), []);
        let mut single = hits(&[2.0]);
        attribute(&mut single, &measurement());
        assert_eq!(counts(&single), [], "the figures of the injection are its own");
    }
}
