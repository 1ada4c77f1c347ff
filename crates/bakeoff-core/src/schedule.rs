//! Computes when each operation is due.
//!
//! A closed load has no schedule: an operation is due when the previous one ends. The operations of an open load are
//! due even if no client is free, which makes the waiting clients of a stalled server visible. The rate may change
//! over time. Its integral gives the operations due by a time, and the inverse gives the next due time.
//!
//! A schedule covers one *share* of a load: the part of one thread and one node. The shares add up to exactly the
//! whole load, so threads and generators need not communicate while they run.
//!
//! Not here: the clock, sending, the shares of threads and nodes (`lanes`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::study::Arrivals;

/// Identifies one of several equal parts of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadShare {
    /// Index of the part, from 0.
    pub index: u32,
    /// Number of parts.
    pub of: u32,
}

impl LoadShare {
    /// Whole load as a single part.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Returns true if this number belongs to the part; the parts take numbers in turn.
    #[inline]
    pub fn has(self, number: u64) -> bool {
        self.of == 1 || number % u64::from(self.of) == u64::from(self.index)
    }

    /// Returns how many of the numbers from 0 to `count`, exclusive, belong to the part.
    #[inline]
    pub fn count(self, count: u64) -> u64 {
        let (index, of) = (u64::from(self.index), u64::from(self.of));
        count.saturating_sub(index).div_ceil(of)
    }

    /// Returns the nth number that belongs to the part.
    #[inline]
    pub fn nth(self, nth: u64) -> u64 {
        nth * u64::from(self.of) + u64::from(self.index)
    }
}

/// Selects the operations of a load that one thread sends to one node.
///
/// Operations are numbered from 0 in due order. They go to a ring of places in turn, and each node has one or more
/// places. A node's operations go to its threads in turn. So the number decides the node before a free client is
/// chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Places of the node in the ring, ascending; at least one.
    pub places: Arc<[u32]>,
    /// Number of places in the ring.
    pub ring: u32,
    /// Index among the node's threads, from 0.
    pub index: u32,
    /// Number of the node's threads.
    pub of: u32,
}

impl Turn {
    /// Returns the turn for a share of a load on a single node.
    pub fn of_share(share: LoadShare) -> Self {
        Self { places: [share.index].into(), ring: share.of, index: 0, of: 1 }
    }

    /// Returns true if its places are distinct places of the ring, and its index is one of the node's threads.
    fn is_valid(&self) -> bool {
        self.index < self.of
            && self.places.is_sorted_by(|one, next| one < next)
            && self.places.last().is_some_and(|last| *last < self.ring)
    }

    /// Returns the number in the whole load of this turn's `nth` operation.
    fn number(&self, nth: u64) -> u64 {
        let of_node = u64::from(self.index) + u64::from(self.of) * nth;
        if let [place] = *self.places {
            return u64::from(self.ring) * of_node + u64::from(place);
        }
        let each = self.places.len() as u64;
        let place = self.places[(of_node % each) as usize];
        u64::from(self.ring) * (of_node / each) + u64::from(place)
    }

    /// Returns how many operations of this turn have a number below `number`.
    fn count_below(&self, number: u64) -> u64 {
        let (rounds, rest) = (number / u64::from(self.ring), number % u64::from(self.ring));
        let begun = self.places.iter().filter(|&&place| u64::from(place) < rest).count() as u64;
        let of_node = rounds * self.places.len() as u64 + begun;
        of_node.saturating_sub(u64::from(self.index)).div_ceil(u64::from(self.of))
    }

    /// Returns the number of such turns that make up the whole load.
    fn parts(&self) -> f64 {
        f64::from(self.ring) * f64::from(self.of) / self.places.len() as f64
    }

    /// Returns a number that is unique among the turns of a load.
    fn id(&self) -> u32 {
        self.ring.wrapping_mul(self.index).wrapping_add(self.places[0])
    }
}

/// Describes the rate of all operations over time. Rates are finite and not negative.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum RateProfile {
    /// Constant rate.
    Constant {
        /// Operations per second.
        rate: f64,
    },
    /// Linear change from one rate to another, which then stays. Once it reaches zero, nothing is due.
    Ramp {
        /// Initial operations per second.
        from: f64,
        /// Final operations per second.
        to: f64,
        /// Duration of the change.
        over: Duration,
    },
    /// Successive rates, each for a time; the last one stays.
    Steps(Vec<Step>),
}

/// Describes a part of [`RateProfile::Steps`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Operations per second.
    pub rate: f64,
    /// Duration; ignored for the last step.
    pub lasts: Duration,
}

/// Selects the spacing of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Spacing {
    /// Evenly: one operation each time the integral of the rate reaches a whole number.
    Constant,
    /// Randomly and independently, like calls by many people.
    Poisson,
}

/// Converts a study's arrivals to a rate profile and its spacing; `None` for a closed load. Rates are operations per
/// second, above zero.
pub fn paced(arrivals: Arrivals) -> Option<(RateProfile, Spacing)> {
    match arrivals {
        Arrivals::Closed => None,
        Arrivals::Constant { rate } => Some((RateProfile::Constant { rate }, Spacing::Constant)),
        Arrivals::Poisson { rate } => Some((RateProfile::Constant { rate }, Spacing::Poisson)),
    }
}

/// Generates the due times of one share of an open load, relative to its start.
#[derive(Debug)]
pub struct OpenSchedule {
    turn: Turn,
    curve: Curve,
    place: Place,
}

/// Tracks the operations of the whole load before the next one of this share.
#[derive(Debug)]
enum Place {
    /// Number of earlier operations of this share.
    Constant(u64),
    /// Position of a Poisson process of rate one, and its random numbers.
    Poisson(f64, Box<Xoshiro256PlusPlus>),
}

impl OpenSchedule {
    /// Creates the share's schedule; `None` for a closed load. Rates are operations per second, above zero.
    pub fn new(arrivals: Arrivals, share: LoadShare, seed: u64) -> Option<Self> {
        let (pace, spacing) = paced(arrivals)?;
        Some(Self::paced(&pace, spacing, Turn::of_share(share), seed))
    }

    /// Creates the schedule of a turn under a rate that may change.
    pub fn paced(pace: &RateProfile, spacing: Spacing, turn: Turn, seed: u64) -> Self {
        debug_assert!(turn.is_valid(), "{turn:?}");
        let place = match spacing {
            Spacing::Constant => Place::Constant(0),
            Spacing::Poisson => {
                let seed = seed ^ (u64::from(turn.id()) << 32);
                Place::Poisson(0.0, Box::new(Xoshiro256PlusPlus::seed_from_u64(seed)))
            }
        };
        Self { turn, curve: Curve::new(pace), place }
    }

    /// Returns this share's operations per second once the rate no longer changes.
    pub fn rate(&self) -> f64 {
        self.curve.last.from / self.turn.parts()
    }

    /// Returns the average number of this share's operations due between two times.
    pub fn due_between(&self, from: Duration, to: Duration) -> f64 {
        let count = self.curve.count_until(to) - self.curve.count_until(from);
        count.max(0.0) / self.turn.parts()
    }

    /// Returns the due time of this share's next operation; [`Duration::MAX`] if there are no more.
    pub fn next_due(&mut self) -> Duration {
        let count = match &mut self.place {
            Place::Constant(nth) => {
                let number = self.turn.number(*nth);
                *nth += 1;
                number as f64
            }
            Place::Poisson(at, rng) => {
                let draw: f64 = Exp1.sample(rng);
                *at += draw * self.turn.parts();
                *at
            }
        };
        self.curve.due(count)
    }
}

/// Counts for each turn its operations among the first `count` of the whole load that are due from `from`. These are
/// its operations in a load that ends by a count. `turns` must be all turns of one load. If the rate drops to zero,
/// there may be fewer.
///
/// Constant spacing is counted. Poisson arrivals are drawn as the turns will draw them, about 10 ns each, a
/// thousandth of the load's time at 100,000/s.
pub fn counted(
    pace: &RateProfile,
    spacing: Spacing,
    turns: &[Turn],
    seed: u64,
    from: Duration,
    count: u64,
) -> Vec<u64> {
    let curve = Curve::new(pace);
    let counts: Vec<u64> = match spacing {
        Spacing::Constant => {
            let first = curve.first_due(from);
            let last = first.saturating_add(count);
            turns.iter().map(|turn| turn.count_below(last) - turn.count_below(first)).collect()
        }
        Spacing::Poisson => {
            // Up to this time there are fewer than `count`, with a margin of eight standard deviations.
            let sure = count as f64 - 8.0 * (count as f64).sqrt();
            let sure = curve.due(curve.count_until(from) + sure.max(0.0));
            let drawn = |alone_until| drawn(pace, turns, seed, from, count, alone_until);
            drawn(sure.max(from)).or_else(|| drawn(from)).unwrap_or_default()
        }
    };
    debug_assert!(counts.iter().sum::<u64>() <= count, "{counts:?} of {count} operations");
    counts
}

/// Returns the time from `from` until the operation after the first `count` is due. That is the duration of a load of
/// `count` operations. Returns `None` if the rate drops to zero before.
pub fn span_of(pace: &RateProfile, from: Duration, count: u64) -> Option<Duration> {
    let curve = Curve::new(pace);
    let next = curve.first_due(from).saturating_add(count);
    let due = curve.due(next as f64);
    (due < Duration::MAX).then(|| due.saturating_sub(from))
}

/// Implements [`counted`] for Poisson arrivals: turn by turn up to `alone_until`, where their order does not matter,
/// then merged. Returns `None` if more than `count` are due by `alone_until`.
fn drawn(
    pace: &RateProfile,
    turns: &[Turn],
    seed: u64,
    from: Duration,
    count: u64,
    alone_until: Duration,
) -> Option<Vec<u64>> {
    let mut counts = vec![0; turns.len()];
    let mut schedules = Vec::new();
    let mut next = BinaryHeap::new();
    for (place, turn) in turns.iter().enumerate() {
        let mut schedule = OpenSchedule::paced(pace, Spacing::Poisson, turn.clone(), seed);
        let mut due = schedule.next_due();
        while due < alone_until {
            counts[place] += u64::from(due >= from);
            due = schedule.next_due();
        }
        schedules.push(schedule);
        next.push(Reverse((due, place)));
    }
    let mut left = count.checked_sub(counts.iter().sum())?;
    while left > 0
        && let Some(Reverse((due, place))) = next.pop()
        && due < Duration::MAX
    {
        counts[place] += 1;
        left -= 1;
        next.push(Reverse((schedules[place].next_due(), place)));
    }
    Some(counts)
}

/// Integrates the rate: operations due by a time, and the inverse. The rate is linear in each piece, so the count is
/// at most quadratic.
#[derive(Debug)]
struct Curve {
    changing: Vec<Piece>,
    /// Piece after the others.
    last: Piece,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    /// Start in seconds since the load began.
    begins: f64,
    /// Operations due before the piece.
    before: f64,
    /// Operations per second at the start.
    from: f64,
    /// Half of the rate's change per second.
    bend: f64,
}

impl Curve {
    fn new(pace: &RateProfile) -> Self {
        let (parts, last) = match pace {
            RateProfile::Constant { rate } => (Vec::new(), *rate),
            RateProfile::Ramp { from, to, over } => (vec![(*from, *to, *over)], *to),
            RateProfile::Steps(steps) => match steps.split_last() {
                Some((last, steps)) => (
                    steps.iter().map(|step| (step.rate, step.rate, step.lasts)).collect(),
                    last.rate,
                ),
                None => (Vec::new(), 0.0),
            },
        };
        let (mut begins, mut before) = (0.0, 0.0);
        let mut changing = Vec::new();
        for (from, to, over) in parts {
            let seconds = over.as_secs_f64();
            if seconds > 0.0 {
                let bend = (to - from) / (2.0 * seconds);
                changing.push(Piece { begins, before, from, bend });
                begins += seconds;
                before += f64::midpoint(from, to) * seconds;
            }
        }
        let last = Piece { begins, before, from: last, bend: 0.0 };
        debug_assert!(
            changing.iter().chain([&last]).is_sorted_by(|one: &&Piece, next| {
                one.begins <= next.begins && one.before <= next.before
            }),
            "pieces follow each other: {changing:?}, {last:?}"
        );
        Self { changing, last }
    }

    /// Returns the last piece for which `began` holds. It must hold for all earlier ones, and for the first.
    fn piece(&self, began: impl Fn(&Piece) -> bool) -> &Piece {
        if began(&self.last) {
            return &self.last;
        }
        let after = self.changing.partition_point(began);
        self.changing.get(after.saturating_sub(1)).unwrap_or(&self.last)
    }

    fn count_until(&self, time: Duration) -> f64 {
        let seconds = time.as_secs_f64();
        let piece = self.piece(|piece| piece.begins <= seconds);
        let within = seconds - piece.begins;
        piece.before + within * (piece.from + piece.bend * within)
    }

    /// Returns the due time of the operation after `count` others; [`Duration::MAX`] for never.
    fn due(&self, count: f64) -> Duration {
        Duration::try_from_secs_f64(self.time_of(count)).unwrap_or(Duration::MAX)
    }

    /// Returns the number of the first operation due from `from`, with constant spacing.
    fn first_due(&self, from: Duration) -> u64 {
        // Rounding may be off in either direction.
        let mut number = self.count_until(from).ceil().max(0.0) as u64;
        while number > 0 && self.due((number - 1) as f64) >= from {
            number -= 1;
        }
        while self.due(number as f64) < from {
            number += 1;
        }
        number
    }

    /// Returns the time, in seconds from the start, at which `count` operations have fallen due. Infinity if that
    /// never happens.
    fn time_of(&self, count: f64) -> f64 {
        let piece = self.piece(|piece| piece.before <= count);
        let within = (count - piece.before).max(0.0);
        let rate_then = (piece.from * piece.from + 4.0 * piece.bend * within).max(0.0).sqrt();
        // Use the form of the quadratic root that loses no digits, through the mean of the initial and the final
        // rate.
        let mean_rate = f64::midpoint(piece.from, rate_then);
        if mean_rate > 0.0 {
            piece.begins + within / mean_rate
        } else if std::ptr::eq(piece, &raw const self.last) {
            f64::INFINITY
        } else {
            // Very start of a ramp up from zero.
            piece.begins
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dues(arrivals: Arrivals, of: u32, each: usize) -> Vec<Duration> {
        let mut all: Vec<Duration> = (0..of)
            .flat_map(|index| {
                let mut schedule = OpenSchedule::new(arrivals, LoadShare { index, of }, 1).unwrap();
                (0..each).map(move |_| schedule.next_due()).collect::<Vec<_>>()
            })
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn constant_shares_add_up_to_the_whole() {
        let constant = Arrivals::Constant { rate: 1000.0 };
        assert_eq!(dues(constant, 4, 250), dues(constant, 1, 1000));
        assert_eq!(dues(constant, 1, 1000)[999], Duration::from_micros(999_000));
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread_of_an_exponential() {
        for of in [1, 4] {
            let dues = dues(Arrivals::Poisson { rate: 1000.0 }, of, 100_000 / of as usize);
            let gaps: Vec<f64> = dues.windows(2).map(|w| (w[1] - w[0]).as_secs_f64()).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance =
                gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            assert!((mean - 0.001).abs() < 0.000_02, "mean {mean}");
            assert!((variance.sqrt() / mean - 1.0).abs() < 0.03, "of {of}: {variance}");
        }
    }

    #[test]
    fn the_rates_of_shares_add_up() {
        for arrivals in [Arrivals::Constant { rate: 900.0 }, Arrivals::Poisson { rate: 900.0 }] {
            let rate =
                OpenSchedule::new(arrivals, LoadShare { index: 1, of: 3 }, 1).unwrap().rate();
            assert!((rate - 300.0).abs() < 1e-9, "{rate}");
        }
    }

    #[test]
    fn closed_load_has_no_schedule() {
        assert!(OpenSchedule::new(Arrivals::Closed, LoadShare { index: 0, of: 1 }, 1).is_none());
    }

    const WHOLE: LoadShare = LoadShare { index: 0, of: 1 };

    /// Returns all due times until nothing more is due, or until `end`.
    fn until(
        end: Duration,
        pace: &RateProfile,
        spacing: Spacing,
        share: LoadShare,
    ) -> Vec<Duration> {
        let mut schedule = OpenSchedule::paced(pace, spacing, Turn::of_share(share), 1);
        std::iter::repeat_with(|| schedule.next_due()).take_while(|&due| due < end).collect()
    }

    fn ramp(from: f64, to: f64, seconds: f64) -> RateProfile {
        RateProfile::Ramp { from, to, over: Duration::from_secs_f64(seconds) }
    }

    fn steps(steps: &[(f64, f64)]) -> RateProfile {
        let step = |&(rate, lasts)| Step { rate, lasts: Duration::from_secs_f64(lasts) };
        RateProfile::Steps(steps.iter().map(step).collect())
    }

    #[test]
    fn ramp_spaces_operations_by_the_integral_of_the_rate() {
        // A ramp from 0 to 200/s in 2 s has 50 t² operations after t seconds.
        let dues = until(Duration::from_secs(3), &ramp(0.0, 200.0, 2.0), Spacing::Constant, WHOLE);
        for (number, seconds) in [(0, 0.0), (50, 1.0), (200, 2.0), (300, 2.5)] {
            assert_eq!(dues[number], Duration::from_secs_f64(seconds), "number {number}");
        }
        assert_eq!(dues.len(), 400);
    }

    #[test]
    fn nothing_is_due_after_a_ramp_to_zero() {
        for spacing in [Spacing::Constant, Spacing::Poisson] {
            let dues = until(Duration::MAX, &ramp(100.0, 0.0, 2.0), spacing, WHOLE);
            assert!(
                dues.iter().all(|due| due.as_secs_f64() < 2.0),
                "{spacing:?}: {:?}",
                dues.last()
            );
            assert!((60..140).contains(&dues.len()), "{spacing:?}: {}", dues.len());
            if spacing == Spacing::Constant {
                assert_eq!(dues.len(), 100, "the area of the triangle");
            }
        }
        for pace in [RateProfile::Constant { rate: 0.0 }, ramp(0.0, 0.0, 1.0), steps(&[])] {
            assert_eq!(until(Duration::MAX, &pace, Spacing::Constant, WHOLE), [], "{pace:?}");
        }
    }

    #[test]
    fn steps_follow_each_other_and_the_last_stays() {
        let pace = steps(&[(100.0, 1.0), (0.0, 1.0), (10.0, 0.5)]);
        let dues = until(Duration::from_secs(4), &pace, Spacing::Constant, WHOLE);
        let of_second = |n| dues.iter().filter(|due| due.as_secs() == n).count();
        assert_eq!([0, 1, 2, 3].map(of_second), [100, 0, 10, 10]);
        assert_eq!(dues[100], Duration::from_secs(2), "right when the pause ends");
    }

    #[test]
    fn poisson_arrivals_follow_a_ramp() {
        let pace = ramp(1000.0, 9000.0, 10.0);
        for of in [1, 4] {
            let shares = (0..of).map(|index| LoadShare { index, of });
            let end = Duration::from_secs(12);
            let dues: Vec<Duration> =
                shares.flat_map(|share| until(end, &pace, Spacing::Poisson, share)).collect();
            let whole = OpenSchedule::paced(&pace, Spacing::Poisson, Turn::of_share(WHOLE), 1);
            for second in 0..12 {
                let from = Duration::from_secs(second);
                let expected = whole.due_between(from, from + Duration::from_secs(1));
                let seen = dues.iter().filter(|due| due.as_secs() == second).count() as f64;
                // Four standard deviations.
                let off = (seen - expected).abs() / expected.sqrt();
                assert!(off < 4.0, "of {of}, second {second}: {seen} of {expected}");
            }
        }
    }

    fn paces() -> impl Strategy<Value = RateProfile> {
        let rate = || prop_oneof![Just(0.0), 0.1..2000.0_f64];
        let time = || prop_oneof![Just(0.0), 0.001..3.0_f64];
        prop_oneof![
            rate().prop_map(|rate| RateProfile::Constant { rate }),
            (rate(), rate(), time()).prop_map(|(from, to, over)| ramp(from, to, over)),
            prop::collection::vec((rate(), time()), 0..5).prop_map(|parts| steps(&parts)),
        ]
    }

    const END: Duration = Duration::from_secs(4);

    proptest! {
        #[test]
        fn shares_of_any_pace_add_up_to_the_whole(pace in paces(), of in 1..5u32) {
            let shares = (0..of).map(|index| LoadShare { index, of });
            let mut all: Vec<Duration> =
                shares.flat_map(|share| until(END, &pace, Spacing::Constant, share)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, until(END, &pace, Spacing::Constant, WHOLE));
        }

        #[test]
        fn due_times_never_go_back(pace in paces(), poisson in any::<bool>()) {
            let spacing = if poisson { Spacing::Poisson } else { Spacing::Constant };
            prop_assert!(until(END, &pace, spacing, WHOLE).is_sorted());
        }

        #[test]
        fn due_between_matches_the_schedule(
            pace in paces(), a in 0.0..4.0_f64, b in 0.0..4.0_f64, of in 1..5u32,
        ) {
            let (a, b) = (Duration::from_secs_f64(a.min(b)), Duration::from_secs_f64(a.max(b)));
            let mut computed = 0.0;
            for index in 0..of {
                let turn = Turn::of_share(LoadShare { index, of });
                computed += OpenSchedule::paced(&pace, Spacing::Constant, turn, 1).due_between(a, b);
            }
            let dues = until(b, &pace, Spacing::Constant, WHOLE);
            let seen = dues.iter().filter(|&&due| due >= a).count() as f64;
            prop_assert!((seen - computed).abs() <= 1.001, "{} seen, {} said", seen, computed);
        }

        #[test]
        fn final_rate_matches_the_profile(pace in paces()) {
            let schedule = OpenSchedule::paced(&pace, Spacing::Constant, Turn::of_share(WHOLE), 1);
            let late = Duration::from_secs(1000);
            let computed = schedule.due_between(late, late + Duration::from_secs(1));
            prop_assert!((computed - schedule.rate()).abs() < 1e-6, "{} and {}", computed, schedule.rate());
        }
    }

    #[test]
    fn span_ends_when_the_next_operation_would_be_due() {
        let span =
            |pace: &RateProfile, from, count| span_of(pace, Duration::from_secs(from), count);
        let even = RateProfile::Constant { rate: 10.0 };
        assert_eq!(span(&even, 0, 5), Some(Duration::from_millis(500)));
        assert_eq!(span(&even, 3, 20), Some(Duration::from_secs(2)));
        let over = Duration::from_secs(1);
        let ending = RateProfile::Ramp { from: 10.0, to: 0.0, over };
        assert_eq!(span(&ending, 0, 50), None);
    }
}
