//! Computes wrk's statistics of whole numbers: microseconds, or requests per second.
//!
//! Provides `latency` and `requests` in `done`, and the tables. The rules (sample standard deviation, rank of a
//! percentile) are wrk's, except that the 100th percentile is the largest value, where wrk returns 0.
//!
//! Not here: recording (`bakeoff_core::histogram`), and wrk's computed latencies. No value is ever added to the
//! measured ones; [`Spread::back_fill`] only counts those that wrk would have added.

use std::collections::BTreeMap;

use bakeoff_core::histogram::Latencies;

/// Values in ascending order, with their counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Spread {
    values: Vec<(u64, u64)>,
    count: u64,
}

impl FromIterator<(u64, u64)> for Spread {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(values: I) -> Self {
        let mut counts = BTreeMap::new();
        for (value, count) in values.into_iter().filter(|&(_, count)| count > 0) {
            *counts.entry(value).or_default() += count;
        }
        let count = counts.values().sum();
        Self { values: counts.into_iter().collect(), count }
    }
}

impl Spread {
    /// Converts latencies to microseconds.
    pub(super) fn of_latencies(latencies: &Latencies) -> Self {
        let microseconds = |nanoseconds: u128| ((nanoseconds + 500) / 1000) as u64;
        latencies.recorded().map(|(value, count)| (microseconds(value.as_nanos()), count)).collect()
    }

    /// Converts rates to whole requests per second.
    pub(super) fn of_rates(rates: &[f64]) -> Self {
        rates.iter().map(|&rate| (rate as u64, 1)).collect()
    }

    /// Returns the number of recorded values.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of distinct values.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns the values in ascending order, with their counts.
    pub(super) fn values(&self) -> &[(u64, u64)] {
        &self.values
    }

    /// Returns the smallest value; 0 without values.
    pub(super) fn min(&self) -> u64 {
        self.values.first().map_or(0, |&(value, _)| value)
    }

    /// Returns the largest value; 0 without values.
    pub(super) fn max(&self) -> u64 {
        self.values.last().map_or(0, |&(value, _)| value)
    }

    /// Returns the mean; 0 without values.
    pub(super) fn mean(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        self.weighted(|value| value) / self.count as f64
    }

    /// Returns the sample standard deviation; 0 for fewer than two values.
    pub(super) fn stdev(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let mean = self.mean();
        (self.weighted(|value| (value - mean).powi(2)) / (self.count - 1) as f64).sqrt()
    }

    /// Returns the percentage of values within one standard deviation of the mean; NaN without values.
    pub(super) fn within_stdev(&self) -> f64 {
        let (mean, stdev) = (self.mean(), self.stdev());
        let within = |value: u64| (mean - stdev..=mean + stdev).contains(&(value as f64));
        let values = self.values.iter().filter(|&&(value, _)| within(value));
        values.map(|(_, count)| count).sum::<u64>() as f64 / self.count as f64 * 100.0
    }

    /// Returns the value at a percentile, 0 to 100; 0 without values.
    pub(super) fn percentile(&self, percentile: f64) -> u64 {
        let rank = (percentile / 100.0 * self.count as f64 + 0.5).round() as u64;
        let mut below = 0;
        let reaches = |&&(_, count): &&(u64, u64)| {
            below += count;
            below >= rank.min(self.count)
        };
        self.values.iter().find(reaches).map_or(0, |&(value, _)| value)
    }

    /// Returns the number of latencies that wrk would have computed. For each latency above twice the average time per
    /// request of a connection, wrk adds one shorter by that time, and so on.
    pub(super) fn back_fill(&self, interval: u64) -> u64 {
        let steps = |value: u64| (value.saturating_sub(1) / interval.max(1)).saturating_sub(1);
        self.values.iter().map(|&(value, count)| steps(value).saturating_mul(count)).sum()
    }

    fn weighted(&self, of: impl Fn(f64) -> f64) -> f64 {
        self.values.iter().map(|&(value, count)| of(value as f64) * count as f64).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn measure(values: &[u64]) -> Spread {
        values.iter().map(|&value| (value, 1)).collect()
    }

    #[test]
    fn figures_follow_wrks_rules() {
        let spread = measure(&[2, 4, 4, 4, 5, 5, 7, 9]);
        assert_eq!((spread.min(), spread.max(), spread.mean()), (2, 9, 5.0));
        assert!((spread.stdev() - 2.138).abs() < 0.001, "{}", spread.stdev());
        assert_eq!(spread.within_stdev(), 75.0);
        assert_eq!((spread.count(), spread.len()), (8, 5));
        assert_eq!(spread.values()[1], (4, 3));
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let spread = measure(&[10, 20, 30, 40]);
        let check = |percentile, value| assert_eq!(spread.percentile(percentile), value);
        check(0.0, 10);
        check(50.0, 30); // wrk's rank is half a value above the usual one
        check(99.0, 40);
        check(100.0, 40);
        assert_eq!(measure(&[7]).percentile(50.0), 7);
    }

    #[test]
    fn empty_spread_has_nan_share() {
        let nothing = Spread::default();
        assert_eq!(
            (nothing.min(), nothing.max(), nothing.mean(), nothing.stdev()),
            (0, 0, 0.0, 0.0)
        );
        assert!(nothing.within_stdev().is_nan());
        assert_eq!(nothing.percentile(99.0), 0);
    }

    /// Runs wrk's own loop: while the value less the interval is above the interval.
    fn added(value: i64, interval: i64) -> u64 {
        let (mut added, mut at) = (0, value - interval);
        while value >= 2 * interval && at > interval {
            added += 1;
            at -= interval;
        }
        added
    }

    #[test]
    fn counts_what_wrk_would_add() {
        for value in 1..60 {
            for interval in 1..30 {
                let ours = measure(&[value]).back_fill(interval);
                assert_eq!(ours, added(value as i64, interval as i64), "{value} by {interval}");
            }
        }
    }

    #[test]
    fn latencies_become_microseconds() {
        let mut latencies = Latencies::default();
        latencies.record_many(Duration::from_nanos(1_400), 2);
        latencies.record(Duration::from_nanos(600));
        assert_eq!(Spread::of_latencies(&latencies).values(), [(1, 3)]);
        assert_eq!(Spread::of_rates(&[10.9, 10.1, 3.0]).values(), [(3, 1), (10, 2)]);
    }
}
