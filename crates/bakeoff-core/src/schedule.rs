//! When each operation is due.
//!
//! A closed load has no schedule: an operation is due when the one before it ended. An open load's
//! operations are due whether or not anybody is free to send them; that is what makes a stalled
//! server's waiting clients visible.
//!
//! A schedule is made for one *share* of a load. The shares of one load, put together, are exactly
//! that load, so that threads, and later machines, need not talk to each other while they work.
//!
//! Not here: the clock, and who sends.

use std::time::Duration;

use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::study::Arrivals;

/// One of equal parts of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Which part, from 0.
    pub index: u32,
    /// How many parts.
    pub of: u32,
}

/// The due times of one share of an open load, since the load began.
#[derive(Debug)]
pub struct OpenSchedule {
    share: Share,
    number: u64,
    distance: Distance,
}

#[derive(Debug)]
enum Distance {
    /// Seconds between two operations of the whole load.
    Constant(f64),
    /// Mean seconds between two of this share; the last one's time; the generator.
    Poisson(f64, f64, Box<Xoshiro256PlusPlus>),
}

impl OpenSchedule {
    /// The share's schedule, or `None` for a closed load. Rates are operations per second, above
    /// zero.
    pub fn new(arrivals: Arrivals, share: Share, seed: u64) -> Option<Self> {
        let distance = match arrivals {
            Arrivals::Closed => return None,
            Arrivals::Constant { rate } => Distance::Constant(1.0 / rate),
            Arrivals::Poisson { rate } => Distance::Poisson(
                f64::from(share.of) / rate,
                0.0,
                Box::new(Xoshiro256PlusPlus::seed_from_u64(seed ^ u64::from(share.index) << 32)),
            ),
        };
        Some(Self { share, number: 0, distance })
    }

    /// Operations of this share per second, on average.
    pub fn rate(&self) -> f64 {
        match self.distance {
            Distance::Constant(distance) => 1.0 / (distance * f64::from(self.share.of)),
            Distance::Poisson(mean, ..) => 1.0 / mean,
        }
    }

    /// When the next operation of this share is due.
    pub fn next_due(&mut self) -> Duration {
        let seconds = match &mut self.distance {
            Distance::Constant(distance) => {
                let place = self.number * u64::from(self.share.of) + u64::from(self.share.index);
                place as f64 * *distance
            }
            Distance::Poisson(mean, at, rng) => {
                let draw: f64 = Exp1.sample(rng);
                *at += *mean * draw;
                *at
            }
        };
        self.number += 1;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(arrivals: Arrivals, of: u32, each: usize) -> Vec<Duration> {
        let mut all: Vec<Duration> = (0..of)
            .flat_map(|index| {
                let mut schedule = OpenSchedule::new(arrivals, Share { index, of }, 1).unwrap();
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
            let rate = OpenSchedule::new(arrivals, Share { index: 1, of: 3 }, 1).unwrap().rate();
            assert!((rate - 300.0).abs() < 1e-9, "{rate}");
        }
    }

    #[test]
    fn a_closed_load_has_no_schedule() {
        assert!(OpenSchedule::new(Arrivals::Closed, Share { index: 0, of: 1 }, 1).is_none());
    }
}
