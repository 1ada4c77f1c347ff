//! Chooses the next rate in a search for the highest that keeps an objective.
//!
//! The search doubles the rate until one breaks the objective (or halves it until one keeps it), bisects the gap down
//! to 5 %, and tries the winner again for longer. A search picks the luckiest of its tries, so a single success is no
//! evidence. If the winner fails its second try, the next lower rate becomes the candidate.
//!
//! A single failure is no evidence either: an early hiccup of the machine would cap the whole search. So a rate
//! counts as broken once two of up to three tries broke it. After the answer is confirmed, the rate above it is tried
//! again. If that one then keeps the objective, the search continues above it.
//!
//! A try during a disturbance of the machine or the generator is void: it is repeated, at most twice, and does not
//! count.
//!
//! The total time of all tries is bounded: see [`LONGEST`].
//!
//! Not here: running a try (the binary), judging it (`tried_rate`).

mod tried_rate;

pub use tried_rate::{ABRUPT, TriedRate, far_below, invalid_because};

pub use crate::condition::least_rate;

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Length of a confirmation, in tries.
pub const CONFIRM_TIMES: u32 = 2;

/// Maximum length of a search, in tries. Then it ends with what it knows. A confirmation counts as [`CONFIRM_TIMES`]
/// tries.
pub const LONGEST: u32 = 48;

/// Returns the maximum duration of a search with this time and warm-up per try.
pub fn longest(time: Duration, warmup: Duration) -> Duration {
    // The last try may begin with the time of one left, and be a confirmation.
    (time + warmup) * (LONGEST + CONFIRM_TIMES - 1)
}

/// Largest ratio of the lowest broken rate to the highest kept one at the end.
const GAP: f64 = 1.05;
/// Maximum doublings or halvings: from 1,000/s to a billion, or to one in a quarter of an hour.
const DOUBLINGS_MAX: u32 = 20;
/// Maximum candidates that are confirmed before the search gives up.
const CONFIRMATIONS_MAX: u32 = 4;
/// Number of tries that must agree that a rate is broken, or kept after one broke it.
const VOTES: u32 = 2;
/// Maximum repetitions of a void try.
const VOIDS_MAX: u32 = 2;
/// Maximum times that a search continues above a bound that did not hold.
const REOPENED_MAX: u32 = 4;

/// Names the next step of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Try this rate.
    Try(f64),
    /// Try this rate again, for longer.
    Confirm(f64),
    /// The search is over.
    Done(FoundRate),
}

/// Holds the result of a search. Rates are operations per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "found", content = "rate")]
pub enum FoundRate {
    /// Highest rate that kept the objective twice.
    Rate(f64),
    /// Highest tried rate; every rate kept the objective.
    NoLimit(f64),
    /// Lowest tried rate; no rate kept the objective.
    Nothing(f64),
    /// Lowest rate that kept the objective once and then broke it.
    Unsteady(f64),
    /// Rate that kept the objective once before the search ran out of time.
    OutOfTime(f64),
}

/// Names the purpose of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    /// Narrows the gap.
    Narrow,
    /// Confirms the winner.
    Confirm,
    /// Checks the bound above the answer.
    Bound,
}

/// Counts the tries of one rate for one purpose.
#[derive(Debug, Clone, Copy, Default)]
struct Votes {
    kept: u32,
    broken: u32,
    void: u32,
}

impl Votes {
    /// Adds a try. Returns whether the rate is kept, once that is decided.
    fn add(&mut self, tried: &TriedRate) -> Option<bool> {
        if tried.void {
            self.void += 1;
            // If every try was disturbed, the rate does not count as kept.
            return (self.void > VOIDS_MAX).then_some(false);
        }
        match tried.kept() {
            true => self.kept += 1,
            false => self.broken += 1,
        }
        match (self.kept, self.broken) {
            (1, 0) | (VOTES.., _) => Some(true),
            (_, VOTES..) => Some(false),
            _ => None,
        }
    }
}

/// Holds the state of a search.
#[derive(Debug, Clone)]
pub struct Search {
    /// Rate to try.
    rate: f64,
    aim: Aim,
    votes: Votes,
    kept: Option<f64>,
    /// Rates above `kept` that broke the objective, the lowest first.
    broken: Vec<f64>,
    /// Lowest rate known to break the objective after a second check.
    settled: f64,
    /// Highest confirmed rate.
    answer: Option<f64>,
    doublings: u32,
    confirmations: u32,
    reopened: u32,
    /// Used part of [`LONGEST`].
    spent: u32,
    /// Lowest rate to try.
    least: f64,
    done: Option<FoundRate>,
}

impl Search {
    /// Begins at a rate above zero.
    pub fn new(first: f64) -> Self {
        Self {
            rate: first,
            aim: Aim::Narrow,
            votes: Votes::default(),
            kept: None,
            broken: Vec::new(),
            settled: f64::INFINITY,
            answer: None,
            doublings: 0,
            confirmations: 0,
            reopened: 0,
            spent: 0,
            least: 0.0,
            done: None,
        }
    }

    /// Sets the lowest rate to try. Below it almost nothing would be due during a try.
    pub fn not_below(self, least: f64) -> Self {
        Self { least, ..self }
    }

    /// Returns the next step.
    pub fn next(&self) -> Next {
        match (self.done, self.aim) {
            (Some(found), _) => Next::Done(found),
            (None, Aim::Confirm) => Next::Confirm(self.rate),
            (None, Aim::Narrow | Aim::Bound) => Next::Try(self.rate),
        }
    }

    /// Records the result of the step from [`Self::next`].
    pub fn take(&mut self, tried: &TriedRate) {
        self.spent += if self.aim == Aim::Confirm { CONFIRM_TIMES } else { 1 };
        if let Some(kept) = self.votes.add(tried) {
            self.votes = Votes::default();
            self.note(kept);
        }
        if self.done.is_none() && self.spent >= LONGEST {
            self.done = Some(match (self.answer, self.kept) {
                (Some(answer), _) => FoundRate::Rate(answer),
                (None, Some(kept)) => FoundRate::OutOfTime(kept),
                (None, None) => FoundRate::Nothing(self.rate),
            });
        }
    }

    /// Records whether the rate from [`Self::next`] keeps the objective.
    fn note(&mut self, kept: bool) {
        match (self.aim, kept) {
            (Aim::Narrow, true) => {
                self.kept = Some(self.rate);
                self.narrow();
            }
            (Aim::Narrow, false) => {
                self.break_at(self.rate);
                self.narrow();
            }
            (Aim::Confirm, true) => {
                self.answer = Some(self.rate);
                self.kept = Some(self.rate);
                match self.broken.first().filter(|&&bound| bound < self.settled) {
                    Some(&bound) if self.reopened < REOPENED_MAX => {
                        (self.rate, self.aim) = (bound, Aim::Bound);
                    }
                    _ => self.done = Some(FoundRate::Rate(self.rate)),
                }
            }
            (Aim::Confirm, false) => self.give_way(),
            (Aim::Bound, true) => {
                self.reopened += 1;
                self.broken.retain(|&broken| broken != self.rate);
                (self.kept, self.aim) = (Some(self.rate), Aim::Narrow);
                self.narrow();
            }
            (Aim::Bound, false) => self.done = self.answer.map(FoundRate::Rate),
        }
    }

    fn break_at(&mut self, rate: f64) {
        let place = self.broken.partition_point(|&broken| broken < rate);
        self.broken.insert(place, rate);
    }

    /// Handles a winner that failed its second try.
    fn give_way(&mut self) {
        self.confirmations += 1;
        self.settled = self.settled.min(self.rate);
        self.break_at(self.rate);
        let lower = round(self.rate / GAP);
        match self.answer {
            // It had to exceed an earlier answer, and does not.
            Some(answer) if lower <= answer => self.done = Some(FoundRate::Rate(answer)),
            Some(answer) if self.confirmations >= CONFIRMATIONS_MAX => {
                self.done = Some(FoundRate::Rate(answer));
            }
            None if self.confirmations >= CONFIRMATIONS_MAX => {
                self.done = Some(FoundRate::Unsteady(self.rate));
            }
            _ => self.rate = lower,
        }
    }

    fn narrow(&mut self) {
        match (self.kept, self.broken.first().copied()) {
            (Some(kept), Some(broken)) => {
                // The geometric mean searches small rates as finely as large ones.
                let middle = round((kept * broken).sqrt());
                if broken <= kept * GAP || middle <= kept || middle >= broken {
                    (self.rate, self.aim) = (kept, Aim::Confirm);
                } else {
                    self.rate = middle;
                }
            }
            (Some(kept), None) if self.doublings == DOUBLINGS_MAX => {
                self.done = Some(FoundRate::NoLimit(kept));
            }
            (None, Some(broken))
                if self.doublings == DOUBLINGS_MAX || broken / 2.0 < self.least =>
            {
                self.done = Some(FoundRate::Nothing(broken));
            }
            (Some(kept), None) => {
                self.rate = kept * 2.0;
                self.doublings += 1;
            }
            (None, Some(broken)) => {
                self.rate = broken / 2.0;
                self.doublings += 1;
            }
            (None, None) => {}
        }
    }
}

/// Rounds to three significant digits, so that users can retype the rate.
fn round(rate: f64) -> f64 {
    let digits = rate.log10().floor() as i32 - 2;
    // Scale by a whole power of ten in either direction, so that 35.3 stays 35.3.
    let scale = 10f64.powi(digits.abs());
    if digits < 0 { (rate * scale).round() / scale } else { (rate / scale).round() * scale }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    fn tried(rate: f64, kept: bool, void: bool) -> TriedRate {
        let broken_by = if kept { Vec::new() } else { vec!["p99 is 9 ms".to_owned()] };
        TriedRate { rate, confirming: false, broken_by, void, disturbed_by: Vec::new() }
    }

    /// Searches a server that keeps the objective up to a rate. Returns the result and the tries.
    fn search(first: f64, mut keeps: impl FnMut(Next) -> bool) -> (FoundRate, Vec<Next>) {
        let mut search = Search::new(first);
        let mut tries = Vec::new();
        loop {
            match search.next() {
                Next::Done(found) => return (found, tries),
                next => {
                    tries.push(next);
                    let (Next::Try(rate) | Next::Confirm(rate)) = next else { unreachable!() };
                    search.take(&tried(rate, keeps(next), false));
                }
            }
            assert!(tries.len() <= LONGEST as usize, "{tries:?}");
        }
    }

    fn up_to(limit: f64) -> impl FnMut(Next) -> bool {
        move |next| matches!(next, Next::Try(rate) | Next::Confirm(rate) if rate <= limit)
    }

    #[test]
    fn search_doubles_bisects_confirms_and_checks_the_bound() {
        let (found, tries) = search(1000.0, up_to(5500.0));
        let expected =
            [1000.0, 2000.0, 4000.0, 8000.0, 8000.0, 5660.0, 5660.0, 4760.0, 5190.0, 5420.0];
        let mut expected: Vec<Next> = expected.map(Next::Try).to_vec();
        expected.extend([Next::Confirm(5420.0), Next::Try(5660.0), Next::Try(5660.0)]);
        assert_eq!((found, tries), (FoundRate::Rate(5420.0), expected));
    }

    #[test]
    fn server_slower_than_the_first_rate_is_found_from_above() {
        let (found, tries) = search(1000.0, up_to(30.0));
        assert_eq!(tries[2], Next::Try(500.0));
        assert!(matches!(found, FoundRate::Rate(rate) if rate > 28.0 && rate <= 30.0), "{found:?}");
    }

    #[test]
    fn one_broken_try_of_three_does_not_count() {
        let mut hiccups = [1000.0, 5420.0, 5190.0].into_iter().collect::<Vec<f64>>();
        let mut keeps = up_to(5500.0);
        let (found, _) = search(1000.0, |next| {
            let (Next::Try(rate) | Next::Confirm(rate)) = next else { unreachable!() };
            match hiccups.iter().position(|&one| one == rate) {
                Some(place) => {
                    hiccups.remove(place);
                    false
                }
                None => keeps(next),
            }
        });
        assert_eq!(found, FoundRate::Rate(5420.0));
    }

    #[test]
    fn search_continues_above_a_bound_that_does_not_hold() {
        let mut stalled = 0;
        let mut keeps = up_to(5500.0);
        // Simulates a machine that stalls for two tries.
        let (found, tries) = search(1000.0, |next| {
            stalled += 1;
            !(2..=3).contains(&stalled) && keeps(next)
        });
        assert_eq!(tries[1..3], [Next::Try(2000.0); 2]);
        assert!(matches!(found, FoundRate::Rate(rate) if rate > 5200.0), "{found:?} {tries:?}");
    }

    #[test]
    fn winner_that_fails_again_yields_to_a_lower_rate() {
        let mut keeps = up_to(5500.0);
        let (found, tries) = search(1000.0, |next| match next {
            Next::Confirm(rate) => rate <= 5200.0,
            next => keeps(next),
        });
        assert_eq!(found, FoundRate::Rate(5160.0));
        assert_eq!(tries.last(), Some(&Next::Confirm(5160.0)));
    }

    #[test]
    fn search_stops_at_its_lowest_rate() {
        let mut search = Search::new(100.0).not_below(20.0);
        for rate in [100.0, 100.0, 50.0, 50.0, 25.0, 25.0] {
            assert_eq!(search.next(), Next::Try(rate));
            search.take(&tried(rate, false, false));
        }
        assert_eq!(search.next(), Next::Done(FoundRate::Nothing(25.0)));
    }

    #[test]
    fn void_try_is_repeated_and_does_not_count() {
        let mut search = Search::new(100.0);
        for (kept, void) in [(false, true), (false, false), (false, true), (true, false)] {
            assert_eq!(search.next(), Next::Try(100.0));
            search.take(&tried(100.0, kept, void));
        }
        search.take(&tried(100.0, true, false));
        assert_eq!(search.next(), Next::Try(200.0), "two of three kept it");
        for _ in 0..3 {
            assert_eq!(search.next(), Next::Try(200.0));
            search.take(&tried(200.0, false, true));
        }
        assert_eq!(search.next(), Next::Try(141.0), "three times is enough");
    }

    #[test]
    fn search_ends_in_time_with_what_it_knows() {
        // No two consecutive tries agree, so each rate needs three.
        let mut count = 0;
        let (found, tries) = search(1000.0, |_| {
            count += 1;
            count % 3 != 1
        });
        assert!(matches!(found, FoundRate::OutOfTime(_)), "{found:?}");
        let time: u32 = tries
            .iter()
            .map(|next| if matches!(next, Next::Confirm(_)) { CONFIRM_TIMES } else { 1 })
            .sum();
        assert!((LONGEST..LONGEST + CONFIRM_TIMES).contains(&time), "{time}");
    }

    #[test]
    fn results_are_stored_by_name() {
        let check = |found: FoundRate, text: &str| {
            assert_eq!(serde_json::to_string(&found).unwrap(), text);
            assert_eq!(serde_json::from_str::<FoundRate>(text).unwrap(), found);
        };
        check(FoundRate::Rate(5420.0), r#"{"found":"rate","rate":5420.0}"#);
        check(FoundRate::Nothing(12.5), r#"{"found":"nothing","rate":12.5}"#);
    }

    #[test]
    fn search_gives_up_if_nothing_can_be_found() {
        assert!(matches!(search(1000.0, |_| true).0, FoundRate::NoLimit(rate) if rate > 1e9));
        assert!(matches!(search(1000.0, |_| false).0, FoundRate::Nothing(rate) if rate < 0.001));
        let unsteady = search(1000.0, |next| matches!(next, Next::Try(rate) if rate < 3000.0));
        assert!(matches!(unsteady.0, FoundRate::Unsteady(_)), "{unsteady:?}");
    }

    /// Searches a server that keeps 50,000/s. The machine has a hiccup in 3 % of tries, and in 6 % of confirmations,
    /// which are longer. Returns the share of searches that end below 90 % of the truth.
    fn too_low() -> f64 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let low = (0..2000).filter(|_| {
            let found = search(1000.0, |next| match next {
                Next::Try(rate) => rate <= 50_000.0 && !rng.random_bool(0.03),
                Next::Confirm(rate) => rate <= 50_000.0 && !rng.random_bool(0.06),
                Next::Done(_) => unreachable!("it is not over"),
            });
            !matches!(found.0, FoundRate::Rate(rate) if (45_000.0..=50_000.0).contains(&rate))
        });
        low.count() as f64 / 2000.0
    }

    #[test]
    fn machine_hiccups_make_few_searches_end_low() {
        let share = too_low();
        assert!(share <= 0.02, "{share}");
    }

    proptest! {
        #[test]
        fn found_rate_is_kept_and_within_five_percent(first in 1.0f64..1e5, limit in 1.0f64..1e6) {
            let (found, tries) = search(first, up_to(limit));
            let FoundRate::Rate(rate) = found else { panic!("{found:?}") };
            prop_assert!(rate <= limit && rate * 1.06 > limit, "{} of {}", rate, limit);
            // Seventeen halvings, each broken twice, and the gap between the last two.
            prop_assert!(tries.len() <= 49, "{:?}", tries);
        }

        #[test]
        fn search_always_ends(answers in prop::collection::vec(any::<bool>(), 100)) {
            let mut answers = answers.into_iter();
            search(1000.0, |_| answers.next().unwrap());
        }
    }
}
