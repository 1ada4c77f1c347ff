//! Detects latencies with two modes: most around one time, many around a much longer one, and hardly any between.
//!
//! Percentiles hide this. A median in one mode and a 75th percentile in the other look like a system that is sometimes
//! slow. Two modes mean that two different things happen to requests.
//!
//! The rule looks for a gap: a stretch whose ends differ at least by the factor [`GAP_TIMES`] and that holds at most
//! [`BETWEEN_MAX`] of the answers, with [`MODE_MIN`] of them on either side. Answers must be denser on **both** sides
//! than in the gap, at least [`DENSER`] times, on a logarithmic and on a linear scale. In a distribution with one mode,
//! one side of any stretch is farther from the mode than the stretch and so no denser. Such a distribution is therefore
//! accepted however long its tail, apart from chance. Against chance, enough answers must be missing in the gap
//! ([`MISSING_MIN`]).
//!
//! Tests of unimodality (Hartigan and Hartigan, The Dip Test of Unimodality, Annals of Statistics 13(1), 1985) detect
//! any dip at all. With a hundred thousand answers they find dips that no reader would call one.
//!
//! Not here: the choice of latencies (`anomalies`).

use std::time::Duration;

use bakeoff_core::histogram::Latencies;
use bakeoff_core::units::{latency_text, share_text};

/// Smallest ratio of a gap's far end to its near end,
const GAP_TIMES: f64 = 2.0;
/// and its smallest width: a timer's tick or a second hop explains less.
const GAP_MIN: Duration = Duration::from_millis(1);
/// Largest share of the answers in the gap.
const BETWEEN_MAX: f64 = 0.01;
/// Smallest share of the answers on either side: less is a tail,
const MODE_MIN: f64 = 0.05;
/// and their smallest number.
const ANSWERS_MIN: u64 = 20;
/// Smallest ratio of the density on either side to that in the gap.
const DENSER: f64 = 10.0;
/// Fewest answers that the gap would hold if it were as dense as either side.
const MISSING_MIN: f64 = 20.0;
/// Ratio of the steps in which edges of gaps are searched.
const STEP: f64 = 1.1;
/// Smallest relative width of a mode: histograms are no more precise.
const WIDTH_MIN: f64 = 0.01;

/// Two modes and the gap between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Modes {
    pub(crate) lower: Mode,
    pub(crate) upper: Mode,
    /// Answers in the gap.
    pub(crate) between: u64,
    /// Start of the gap: slowest answer of the lower mode.
    pub(crate) near: Duration,
    /// End of the gap: fastest answer of the upper mode.
    pub(crate) edge: Duration,
}

/// One of the two modes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mode {
    pub(crate) answers: u64,
    /// The 5th and the 95th percentile of its answers.
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

impl Modes {
    fn all(&self) -> f64 {
        (self.lower.answers + self.between + self.upper.answers) as f64
    }

    /// Returns `52.4 % took 16.9 ms to 25.8 ms, 47.5 % took 499 ms to 505 ms, 0.10 % between`.
    pub(crate) fn text(&self) -> String {
        let part = |mode: &Mode| {
            let (from, to) = (latency_text(mode.from), latency_text(mode.to));
            let share = share_text(mode.answers as f64 / self.all());
            if from == to {
                format!("{share} took {from}")
            } else {
                format!("{share} took {from} to {to}")
            }
        };
        let between = match self.between {
            0 => "none between".to_owned(),
            some => format!("{} between", share_text(some as f64 / self.all())),
        };
        format!("{}, {}, {between}", part(&self.lower), part(&self.upper))
    }

    /// Returns the number of answers in the smaller mode.
    pub(crate) fn smaller(&self) -> u64 {
        self.lower.answers.min(self.upper.answers)
    }
}

/// Returns the widest gap in these latencies and the modes on either side; `None` if there is no gap.
pub(crate) fn modes(latencies: &Latencies) -> Option<Modes> {
    let answers = Answers::count(latencies);
    let all = answers.all();
    let least = ANSWERS_MIN.max((MODE_MIN * all as f64).ceil() as u64);
    // Answers above an hour share one bucket, whatever their real times.
    if all < 2 * least || latencies.saturated() > 0 {
        return None;
    }
    let steps = answers.steps();
    let mut widest: Option<(f64, Modes)> = None;
    for (place, &(_, last)) in steps.iter().enumerate() {
        for &(first, _) in &steps[place + 1..] {
            let (near, far) = (answers.times[last], answers.times[first]);
            let times = far / near.max(1.0);
            let wide = times >= GAP_TIMES && far - near >= GAP_MIN.as_nanos() as f64;
            if !wide || widest.as_ref().is_some_and(|(most, _)| times <= *most) {
                continue;
            }
            let between = answers.before(first) - answers.before(last + 1);
            let (below, above) = (answers.before(last + 1), all - answers.before(first));
            let few_between = between as f64 <= BETWEEN_MAX * all as f64;
            if below < least || above < least || !few_between {
                continue;
            }
            let sides = [0..answers.before(last + 1), answers.before(first)..all];
            let is_peak = |side: &std::ops::Range<u64>| {
                answers
                    .missing(side, near, far)
                    .iter()
                    .all(|&missing| missing >= MISSING_MIN && missing >= DENSER * between as f64)
            };
            if sides.iter().all(is_peak) {
                let [lower, upper] = sides.map(|side| answers.mode(&side));
                let [near, edge] = [near, far].map(|time| Duration::from_nanos(time as u64));
                widest = Some((times, Modes { lower, upper, between, near, edge }));
            }
        }
    }
    widest.map(|(_, modes)| modes)
}

/// Cumulated counts of answers by time.
struct Answers {
    /// Times in nanoseconds, ascending.
    times: Vec<f64>,
    /// Number of answers up to each time.
    counts: Vec<u64>,
}

impl Answers {
    fn count(latencies: &Latencies) -> Self {
        let (mut times, mut counts, mut all) = (Vec::new(), Vec::new(), 0);
        for (time, count) in latencies.recorded() {
            all += count;
            times.push(time.as_nanos() as f64);
            counts.push(all);
        }
        Self { times, counts }
    }

    fn all(&self) -> u64 {
        self.counts.last().copied().unwrap_or(0)
    }

    /// Returns the number of answers faster than those at an index.
    fn before(&self, place: usize) -> u64 {
        place.checked_sub(1).map_or(0, |before| self.counts[before])
    }

    /// Groups the times into steps of a ratio. Returns the first and last index of each non-empty step.
    fn steps(&self) -> Vec<(usize, usize)> {
        let step = |time: f64| (time.max(1.0).ln() / STEP.ln()).floor() as i64;
        let mut steps: Vec<(usize, usize)> = Vec::new();
        for (place, &time) in self.times.iter().enumerate() {
            match steps.last_mut() {
                Some((first, last)) if step(self.times[*first]) == step(time) => *last = place,
                _ => steps.push((place, place)),
            }
        }
        steps
    }

    /// Returns the time of the answer with this number, from 0 in ascending order.
    fn time(&self, number: u64) -> f64 {
        let place = self.counts.partition_point(|&count| count <= number);
        self.times[place.min(self.times.len() - 1)]
    }

    /// Returns a quantile of the answers with these numbers.
    fn quantile(&self, of: &std::ops::Range<u64>, part: f64) -> f64 {
        let length = of.end - of.start;
        self.time(of.start + ((length as f64 * part) as u64).min(length - 1))
    }

    /// Returns the number of answers that would lie between two times if they were as dense as the middle four fifths
    /// of these answers: on a logarithmic and on a linear scale.
    fn missing(&self, of: &std::ops::Range<u64>, near: f64, far: f64) -> [f64; 2] {
        let (low, high) = (self.quantile(of, 0.1).max(1.0), self.quantile(of, 0.9).max(1.0));
        let middle = 0.8 * (of.end - of.start) as f64;
        let (wide_log, wide) =
            ((high / low).ln().max(WIDTH_MIN), (high - low).max(WIDTH_MIN * low));
        [middle / wide_log * (far / near.max(1.0)).ln(), middle / wide * (far - near)]
    }

    fn mode(&self, of: &std::ops::Range<u64>) -> Mode {
        let time = |part| Duration::from_nanos(self.quantile(of, part) as u64);
        Mode { answers: of.end - of.start, from: time(0.05), to: time(0.95) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// Draws times in milliseconds by the inverse of a distribution.
    struct TimeSampler(Xoshiro256PlusPlus, Latencies);

    impl TimeSampler {
        fn new(seed: u64) -> Self {
            Self(Xoshiro256PlusPlus::seed_from_u64(seed), Latencies::default())
        }

        fn and(mut self, answers: u64, milliseconds: impl Fn(f64) -> f64) -> Self {
            for _ in 0..answers {
                let time = milliseconds(self.0.random::<f64>()).max(1e-6);
                // A tail without its end is still a tail.
                if time > 3e6 {
                    continue;
                }
                self.1.record(Duration::from_secs_f64(time / 1e3));
            }
            self
        }

        fn modes(&self) -> Option<Modes> {
            modes(&self.1)
        }
    }

    /// Distributes times around a median, with this deviation of the logarithm (logistic).
    fn around(median: f64, deviation: f64) -> impl Fn(f64) -> f64 {
        move |part| {
            let part = part.clamp(1e-9, 1.0 - 1e-9);
            median * ((part / (1.0 - part)).ln() * deviation * 0.5513).exp()
        }
    }

    fn exponential(mean: f64) -> impl Fn(f64) -> f64 {
        move |part| -mean * (1.0 - part).ln()
    }

    fn pareto(least: f64, exponent: f64) -> impl Fn(f64) -> f64 {
        move |part| least * (1.0 - part).powf(-1.0 / exponent)
    }

    fn uniform(from: f64, to: f64) -> impl Fn(f64) -> f64 {
        move |part| from + (to - from) * part
    }

    #[test]
    fn gate_that_times_out_every_other_time_has_two_modes() {
        let drawn =
            TimeSampler::new(1).and(1899, uniform(17.0, 26.0)).and(1868, uniform(499.0, 508.0));
        let found = drawn.modes().expect("it has");
        assert_eq!((found.lower.answers, found.upper.answers, found.between), (1899, 1868, 0));
        let text = found.text();
        assert!(text.starts_with("50.4 % took 17.") && text.ends_with(", none between"), "{text}");
        assert!(text.contains("49.6 % took 500 ms to 508 ms"), "{text}");
        assert!((490..=500).contains(&found.edge.as_millis()), "{found:?}");
    }

    #[test]
    fn two_modes_are_found_despite_some_answers_between() {
        let drawn = TimeSampler::new(2)
            .and(9000, around(2.0, 0.3))
            .and(900, around(200.0, 0.1))
            .and(40, uniform(10.0, 150.0));
        let found = drawn.modes().expect("it has");
        assert!((30..100).contains(&found.between), "{found:?}");
        assert!((890..=905).contains(&found.upper.answers), "{found:?}");
    }

    #[test]
    fn one_mode_with_any_tail_is_accepted() {
        for seed in 0..3 {
            for answers in [100, 300, 3_000, 30_000] {
                let one = |what: &str, drawn: TimeSampler| {
                    assert_eq!(drawn.modes(), None, "{what}, {answers} answers, seed {seed}");
                };
                let new = || TimeSampler::new(seed);
                one("constant", new().and(answers, |_| 5.0));
                one("narrow", new().and(answers, uniform(5.0, 5.2)));
                one("ticks", new().and(answers, |part| (part * 4.0).ceil() * 0.25));
                one("uniform", new().and(answers, uniform(0.0, 1000.0)));
                one("exponential", new().and(answers, exponential(8.0)));
                for deviation in [0.05, 0.5, 1.5, 3.0] {
                    one("around", new().and(answers, around(4.0, deviation)));
                }
                for exponent in [0.2, 0.5, 1.0, 2.0] {
                    one("pareto", new().and(answers, pareto(1.0, exponent)));
                }
                let part = |share: f64| (answers as f64 * share) as u64;
                let stall =
                    new().and(part(0.75), around(1.0, 0.2)).and(part(0.25), uniform(0.0, 1e3));
                one("a second's stall of an open load", stall);
                let shoulder =
                    new().and(part(0.7), around(1.0, 0.4)).and(part(0.3), around(4.0, 0.5));
                one("a shoulder", shoulder);
                let seldom =
                    new().and(part(0.97), around(1.0, 0.2)).and(part(0.03), around(500.0, 0.1));
                one("a tail of 3 %", seldom);
            }
        }
    }

    #[test]
    fn few_answers_are_inconclusive() {
        assert_eq!(TimeSampler::new(0).modes(), None);
        assert_eq!(TimeSampler::new(0).and(1, |_| 1.0).modes(), None);
        let of =
            |lower, upper| TimeSampler::new(3).and(lower, |_| 5.0).and(upper, |_| 500.0).modes();
        assert_eq!(of(100, 19), None);
        assert!(of(100, 20).is_some());
    }

    #[test]
    fn modes_less_than_a_millisecond_apart_are_ignored() {
        let of = |times: f64| {
            TimeSampler::new(4)
                .and(900, |_| 0.05 * times)
                .and(900, |_| 0.9 * times)
                .modes()
                .is_some()
        };
        assert_eq!((of(1.0), of(2.0)), (false, true));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn two_distant_modes_are_always_found(
            seed in any::<u64>(),
            answers in 200..4000_u64,
            share in 0.1..0.9,
            median in 0.5..20.0,
            times in 15.0..500.0,
            lower in 0.02..0.3,
            upper in 0.005..0.3,
        ) {
            let above = (answers as f64 * share) as u64;
            let drawn = TimeSampler::new(seed)
                .and(answers - above, around(median, lower))
                .and(above, around(median * times, upper));
            let found = drawn.modes();
            prop_assert!(found.is_some());
            let off = found.unwrap().upper.answers.abs_diff(above);
            prop_assert!(off as f64 <= 0.03 * answers as f64, "{:?} of {}", found, above);
        }

        #[test]
        fn one_mode_is_never_two(
            seed in any::<u64>(),
            answers in 1..8000_u64,
            median in 0.01..2000.0,
            deviation in 0.001..4.0,
        ) {
            prop_assert_eq!(TimeSampler::new(seed).and(answers, around(median, deviation)).modes(), None);
        }

        #[test]
        fn arbitrary_latencies_are_accepted(
            nanoseconds in prop::collection::vec((0..8_000_000_000_000_u64, 1..200_u64), 0..60),
        ) {
            let mut latencies = Latencies::default();
            for (time, count) in nanoseconds {
                latencies.record_many(Duration::from_nanos(time), count);
            }
            if let Some(found) = modes(&latencies) {
                let all = found.lower.answers + found.between + found.upper.answers;
                prop_assert_eq!(all, latencies.count());
                prop_assert!(found.lower.to < found.upper.from);
            }
        }
    }
}
