//! Tests the quality of a trial's samples: gaps between requests, dependence, intervals.
//!
//! Lancet (Kogias, Mallon and Bugnion, USENIX ATC 2019) checks its own load generator. Before it trusts an interval,
//! it tests that the gaps between its requests follow the requested distribution, and that its samples are
//! independent. We do the same with a record's contents: the send times of the first requests, and a distribution for
//! each second.
//!
//! Not here: comparing systems (`judge`), testing that a load was stationary (`check`).

use std::time::Duration;

use crate::ranked_latencies::RankedLatencies;

/// Anderson–Darling statistic above which gaps are not exponential, at a level of 1 %, for an exponential
/// distribution whose mean is estimated from the sample (Stephens, JASA 69(347), 1974).
pub const ANDERSON_DARLING_MAX: f64 = 1.959;

/// Minimum number of gaps for a test.
pub const GAPS_MIN: usize = 100;

/// Minimum number of seconds for an interval and for dependence.
pub const SECONDS_MIN: usize = 8;

/// Half-width of an interval in standard errors, for 95 %.
const STANDARD_ERRORS: f64 = 1.96;

/// Returns the Anderson–Darling statistic of gaps against an exponential distribution with their mean, adjusted for
/// their number. Returns `None` for fewer than [`GAPS_MIN`] gaps, or if all are zero.
///
/// `A² = -n - 1/n Σ (2i - 1) (ln z_i + ln (1 - z_(n+1-i)))` with `z = 1 - exp(-gap / mean)`, sorted; adjusted by `1 +
/// 0.6 / n`. Gaps share any unit and are not negative.
pub fn anderson_darling(gaps: &[f64]) -> Option<f64> {
    let count = gaps.len();
    let mean = gaps.iter().sum::<f64>() / count as f64;
    if count < GAPS_MIN || !mean.is_finite() || mean <= 0.0 {
        return None;
    }
    // Two requests sent at the same time are only as close as the clock's resolution.
    let mut scaled: Vec<f64> = gaps.iter().map(|gap| (gap / mean).max(1e-9)).collect();
    scaled.sort_by(f64::total_cmp);
    let sum: f64 = (0..count)
        .map(|place| {
            let below = -(-scaled[place]).exp_m1();
            let above = -scaled[count - 1 - place];
            (2 * place + 1) as f64 * (below.ln() + above)
        })
        .sum();
    let n = count as f64;
    Some((-n - sum / n) * (1.0 + 0.6 / n))
}

/// Returns Spearman's rank correlation of pairs, from -1 to 1. Returns `None` for fewer than three pairs, or if one
/// side is constant. Equal values share their mean rank.
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let a = ranks(pairs.iter().map(|pair| pair.0));
    let b = ranks(pairs.iter().map(|pair| pair.1));
    let mean = (pairs.len() as f64 + 1.0) / 2.0;
    let product = |x: &[f64], y: &[f64]| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum()
    };
    let scatter = (product(&a, &a) * product(&b, &b)).sqrt();
    (scatter > 0.0).then(|| product(&a, &b) / scatter)
}

fn ranks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let values: Vec<f64> = values.collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let same = |&&place: &&usize| values[place] == values[order[from]];
        let count = order[from..].iter().take_while(same).count();
        let mean = from as f64 + (count as f64 + 1.0) / 2.0;
        order[from..from + count].iter().for_each(|&place| ranks[place] = mean);
        from += count;
    }
    ranks
}

/// Holds a quantile's interval, computed from the seconds of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuantileInterval {
    /// Lower end of the 95 % interval.
    pub low: Duration,
    /// Upper end of the 95 % interval.
    pub high: Duration,
    /// Spearman's rank correlation of neighbouring seconds' shares above the quantile; `None` if they are all equal.
    pub dependence: Option<f64>,
}

impl QuantileInterval {
    /// Returns true if neighbouring seconds depend on each other, at a level of 1 %. The interval is then too narrow.
    /// `seconds` is their number.
    pub fn is_dependent(&self, seconds: usize) -> bool {
        // For independent pairs, the correlation times the root of their number minus one is about normal.
        let pairs = seconds.saturating_sub(1) as f64;
        self.dependence.is_some_and(|dependence| dependence * (pairs - 1.0).max(0.0).sqrt() > 2.326)
    }
}

/// Returns the interval of a quantile (0 to 1) of all operations, with failures ranked last. Returns `None` for fewer
/// than [`SECONDS_MIN`] seconds with operations, or if the quantile or an end of the interval falls among the
/// failures or beyond an hour.
///
/// Latencies within a second are correlated, so the seconds are the sampling units, not the latencies. The share
/// above the quantile is a ratio of sums over seconds, and its standard error comes from the scatter of the seconds.
/// The interval's ends are the quantiles one such interval of the share away (Woodruff, JASA 47(260), 1952).
pub fn quantile_interval(
    seconds: &[RankedLatencies<'_>],
    quantile: f64,
) -> Option<QuantileInterval> {
    let seconds: Vec<&RankedLatencies<'_>> =
        seconds.iter().filter(|second| second.count() > 0).collect();
    if seconds.len() < SECONDS_MIN {
        return None;
    }
    let whole = RankedLatencies::sum(seconds.iter().copied());
    let at = whole.at(quantile).latency()?;
    let all = whole.count() as f64;
    let shares: Vec<(f64, f64)> = seconds
        .iter()
        .map(|second| (second.count_above(at) as f64, second.count() as f64))
        .collect();
    let above = shares.iter().map(|(above, _)| above).sum::<f64>() / all;
    let count = shares.len() as f64;
    let squares: f64 = shares.iter().map(|(over, of)| (over - above * of).powi(2)).sum();
    let error = (squares * count / (count - 1.0)).sqrt() / all;
    let end =
        |side: f64| whole.at((quantile + side * STANDARD_ERRORS * error).clamp(0.0, 1.0)).latency();
    let parts: Vec<f64> = shares.iter().map(|(above, of)| above / of).collect();
    let neighbours: Vec<(f64, f64)> = parts.windows(2).map(|pair| (pair[0], pair[1])).collect();
    Some(QuantileInterval { low: end(-1.0)?, high: end(1.0)?, dependence: spearman(&neighbours) })
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use rand::{RngExt as _, SeedableRng as _};
    use rand_distr::{Distribution as _, Exp1};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::histogram::Latencies;

    fn exponential(rng: &mut Xoshiro256PlusPlus, count: usize) -> Vec<f64> {
        (0..count).map(|_| Exp1.sample(rng)).collect()
    }

    /// Returns the share of samples of 500 gaps that are rejected.
    fn refused(spoil: impl Fn(f64) -> f64) -> f64 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let samples = 1000;
        let over = (0..samples).filter(|_| {
            let gaps: Vec<f64> = exponential(&mut rng, 500).into_iter().map(&spoil).collect();
            anderson_darling(&gaps).unwrap() > ANDERSON_DARLING_MAX
        });
        over.count() as f64 / f64::from(samples)
    }

    #[test]
    fn rejects_exponential_gaps_once_in_a_hundred() {
        let share = refused(|gap| gap);
        assert!((0.002..0.020).contains(&share), "{share}");
    }

    #[test]
    fn rejects_rounded_or_evenly_spaced_gaps() {
        // A timer that wakes ten times per mean gap is fine; one that wakes once is not.
        let share = refused(|gap| gap.ceil());
        assert!(share > 0.99, "{share}");
        let share = refused(|gap| 0.7 + 0.3 * gap);
        assert!(share > 0.99, "{share}");
    }

    #[test]
    fn few_gaps_and_zero_gaps_are_not_tested() {
        assert_eq!(anderson_darling(&[1.0; GAPS_MIN - 1]), None);
        assert_eq!(anderson_darling(&[0.0; GAPS_MIN]), None);
        assert_eq!(anderson_darling(&[]), None);
    }

    #[test]
    fn correlates_ranks_instead_of_values() {
        let check = |pairs: &[(f64, f64)], expected: Option<f64>| {
            let found = spearman(pairs);
            let same = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-9,
                (found, expected) => found == expected,
            };
            assert!(same, "{found:?} is not {expected:?}");
        };
        check(&[(1.0, 1.0), (2.0, 100.0), (3.0, 1e9)], Some(1.0));
        check(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)], Some(-1.0));
        check(&[(1.0, 5.0), (2.0, 5.0), (3.0, 5.0)], None);
        check(&[(1.0, 2.0), (2.0, 1.0)], None);
        // Two values share the ranks 1 and 2.
        check(&[(1.0, 1.0), (1.0, 2.0), (3.0, 3.0)], Some(0.866_025_403_784_438_6));
    }

    /// Returns seconds of 1,000 exponential latencies, scaled by a factor per second.
    fn seconds(
        rng: &mut Xoshiro256PlusPlus,
        factors: impl Iterator<Item = f64>,
    ) -> Vec<RankedLatencies<'static>> {
        factors
            .map(|factor| {
                let mut second = Latencies::default();
                exponential(rng, 1000)
                    .into_iter()
                    .for_each(|one| second.record(Duration::from_secs_f64(one * factor * 1e-3)));
                RankedLatencies::new(Cow::Owned(second), Cow::Owned(Latencies::default()), 0)
            })
            .collect()
    }

    #[test]
    fn interval_covers_the_true_p99_at_its_confidence() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
        let truth = 1e-3 * 100.0_f64.ln();
        let runs = 120;
        let held = (0..runs).filter(|_| {
            let seconds = seconds(&mut rng, std::iter::repeat_n(1.0, 20));
            let interval = quantile_interval(&seconds, 0.99).unwrap();
            interval.low.as_secs_f64() <= truth && truth <= interval.high.as_secs_f64()
        });
        let share = held.count() as f64 / f64::from(runs);
        assert!((0.89..=0.99).contains(&share), "{share}");
    }

    #[test]
    fn interval_widens_if_seconds_scatter_more_than_chance() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(13);
        let width = |of: &[RankedLatencies<'_>]| {
            let interval = quantile_interval(of, 0.99).unwrap();
            (interval.high - interval.low).as_secs_f64()
        };
        let even = width(&seconds(&mut rng, std::iter::repeat_n(1.0, 20)));
        let factors: Vec<f64> = (0..20).map(|_| rng.random_range(0.5..1.5)).collect();
        let uneven = width(&seconds(&mut rng, factors.into_iter()));
        assert!(uneven > 2.0 * even, "{uneven} and {even}");
    }

    #[test]
    fn correlated_seconds_are_found_dependent() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(17);
        let drifting = (0..30).map(|second| 1.0 + f64::from(second) / 10.0);
        let drifting = quantile_interval(&seconds(&mut rng, drifting), 0.9).unwrap();
        assert!(drifting.is_dependent(30), "{drifting:?}");
        let level =
            quantile_interval(&seconds(&mut rng, std::iter::repeat_n(1.0, 30)), 0.9).unwrap();
        assert!(!level.is_dependent(30), "{level:?}");
    }

    #[test]
    fn interval_that_reaches_failures_is_none() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(23);
        let mut failing = |failures: u64| {
            let seconds = seconds(&mut rng, std::iter::repeat_n(1.0, 20)).into_iter();
            let failures = move |one: RankedLatencies<'static>| {
                let successes = Cow::Owned(one.successes().clone());
                RankedLatencies::new(successes, Cow::Owned(Latencies::default()), failures)
            };
            seconds.map(failures).collect::<Vec<_>>()
        };
        let sound = quantile_interval(&failing(0), 0.99).unwrap();
        let some = quantile_interval(&failing(5), 0.99).unwrap();
        assert!(some.low > sound.low, "half of a percent ranks above: {some:?} and {sound:?}");
        assert_eq!(quantile_interval(&failing(20), 0.99), None);
    }

    #[test]
    fn few_seconds_yield_no_interval() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(19);
        let few = seconds(&mut rng, std::iter::repeat_n(1.0, SECONDS_MIN - 1));
        assert_eq!(quantile_interval(&few, 0.5), None);
        assert_eq!(quantile_interval(&[], 0.5), None);
    }
}
