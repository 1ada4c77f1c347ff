//! Orders systems within rounds, and draws the pauses between trials.
//!
//! Each round has a random order. A fixed pattern such as A B B A repeats every four trials, and a disturbance of the
//! same period then looks like a difference. Randomness alone does not protect few rounds: two systems have the same
//! order in all of three rounds in a quarter of runs. So the third round reverses the first. No pair of systems then
//! keeps its order in all rounds, nor swaps it each round. The simulation is in `tests/statistics/order.rs`.
//!
//! Not here: the other contents of a round (`plan`).

use std::time::Duration;

use rand::Rng;
use rand::seq::SliceRandom as _;

use super::Trial;
use crate::workload::mix64;

/// Longest pause before a trial. It spreads the starts of trials over the periods of timers that tick several times a
/// second. The order handles slower disturbances.
pub const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Separates pauses from other draws of a trial's seed.
const PAUSES: u64 = 0x0070_6175_7365;

/// Returns the pause before a trial, uniform from 0 to [`PAUSE_MAX`]. The first trial of a run has none.
pub fn pause_before(trial: &Trial) -> Duration {
    if trial.number == 0 {
        return Duration::ZERO;
    }
    let draw = mix64(trial.seed ^ mix64(PAUSES ^ u64::from(trial.number)));
    PAUSE_MAX.mul_f64((draw >> 11) as f64 / (1_u64 << 53) as f64)
}

/// Generates the rounds of one workload and load.
#[derive(Debug)]
pub struct RoundOrders {
    systems: usize,
    /// Number of rounds drawn.
    drawn: u32,
    first: Vec<usize>,
}

impl RoundOrders {
    /// Starts before the first round of this number of systems.
    pub fn new(systems: usize) -> Self {
        Self { systems, drawn: 0, first: Vec::new() }
    }

    /// Returns the systems in the order of the next round, by their index in the study.
    pub fn next_round(&mut self, rng: &mut impl Rng) -> Vec<usize> {
        self.drawn += 1;
        if self.drawn == 3 {
            return self.first.iter().rev().copied().collect();
        }
        let mut order: Vec<usize> = (0..self.systems).collect();
        order.shuffle(rng);
        if self.drawn == 1 {
            self.first.clone_from(&order);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::SeedableRng as _;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    fn rounds(systems: usize, rounds: usize, seed: u64) -> Vec<Vec<usize>> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut orders = RoundOrders::new(systems);
        (0..rounds).map(|_| orders.next_round(&mut rng)).collect()
    }

    #[test]
    fn every_round_has_every_system_once() {
        for systems in 1..=8 {
            for mut round in rounds(systems, 9, 5) {
                round.sort_unstable();
                assert_eq!(round, (0..systems).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn no_pair_keeps_its_order_or_swaps_it_each_round() {
        for seed in 0..200 {
            let rounds = rounds(4, 3, seed);
            let leads = |round: &[usize], a, b| {
                round.iter().position(|one| *one == a) < round.iter().position(|one| *one == b)
            };
            for (a, b) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
                assert_ne!(leads(&rounds[0], a, b), leads(&rounds[2], a, b), "{seed}: {rounds:?}");
            }
        }
    }

    #[test]
    fn every_order_that_the_rule_allows_occurs() {
        // Two bits for the first three rounds, and one for each further one.
        let all: HashSet<_> = (0..500).map(|seed| rounds(2, 6, seed)).collect();
        assert_eq!(all.len(), 32);
        assert_eq!(rounds(5, 9, 3), rounds(5, 9, 3));
    }

    #[test]
    fn pauses_are_short_and_spread_evenly() {
        let trial = |number| Trial {
            number,
            round: number / 2,
            system: "a".to_owned(),
            workload: "w".to_owned(),
            load: "l".to_owned(),
            seed: u64::from(number / 2),
        };
        assert_eq!(pause_before(&trial(0)), Duration::ZERO);
        let pauses: Vec<Duration> = (1..=4000).map(|number| pause_before(&trial(number))).collect();
        assert!(pauses.iter().all(|pause| *pause < PAUSE_MAX));
        let mean = pauses.iter().sum::<Duration>() / 4000;
        assert!(mean.abs_diff(PAUSE_MAX / 2) < PAUSE_MAX / 40, "{mean:?}");
        assert_eq!(pauses[0], pause_before(&trial(1)));
    }
}
