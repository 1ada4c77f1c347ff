//! Chooses what each operation does, by its number and the seed alone.
//!
//! Not here: the names of keys (`names`), when an operation is due (`schedule`).

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_xoshiro::SplitMix64;

use super::mix64;
use crate::study::{KeyOrder, Keys, Operation};

/// A bijection of `0..count` onto itself that looks random: a Feistel network on the next power of
/// four, walked until it falls inside.
#[derive(Debug, Clone)]
pub struct Permutation {
    count: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    /// The permutation of `0..count` that belongs to `seed`.
    pub fn new(count: u64, seed: u64) -> Self {
        let bits = 64 - count.saturating_sub(1).leading_zeros();
        Self { count, half_bits: bits.div_ceil(2).max(1), seed }
    }

    /// Returns where `index` goes; `index` is taken modulo the count.
    pub fn apply(&self, index: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let mut value = index % self.count;
        loop {
            let (mut left, mut right) = (value >> self.half_bits, value & mask);
            for round in 0..4 {
                let mixed = mix64(right ^ self.seed.rotate_left(16 * round)) & mask;
                (left, right) = (right, left ^ mixed);
            }
            value = left << self.half_bits | right;
            if value < self.count {
                return value;
            }
        }
    }
}

/// Chooses what each operation does: its number and the seed alone decide, whichever thread asks.
#[derive(Debug)]
pub struct Chooser {
    operations: Vec<(Operation, u32)>,
    weight_sum: u32,
    order: Order,
    count: u64,
    seed: u64,
}

#[derive(Debug)]
enum Order {
    Sequential,
    Unique(Permutation),
    Uniform,
    Zipfian(Zipf<f64>, Permutation),
    Same,
}

impl Chooser {
    /// A chooser for this mix and these keys. `run_seed` scrambles keys, the same ones for a whole trial;
    /// `seed` is that of the load.
    pub fn new(mix: &BTreeMap<Operation, u32>, keys: &Keys, run_seed: u64, seed: u64) -> Self {
        let order = match keys.order {
            KeyOrder::Sequential => Order::Sequential,
            KeyOrder::Unique => Order::Unique(Permutation::new(keys.count, run_seed)),
            KeyOrder::Uniform => Order::Uniform,
            KeyOrder::Zipfian { exponent } => match Zipf::new(keys.count as f64, exponent) {
                Ok(zipf) => Order::Zipfian(zipf, Permutation::new(keys.count, run_seed)),
                Err(_) => Order::Uniform, // an exponent of 0; parsing lets nothing worse through
            },
            KeyOrder::Same => Order::Same,
        };
        Self {
            operations: mix.iter().map(|(&operation, &weight)| (operation, weight)).collect(),
            weight_sum: mix.values().sum(),
            order,
            count: keys.count,
            seed,
        }
    }

    /// The seed of the load.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The place of the next operation in the mix (in the order of [`Operation`]) and the number of
    /// its key. `ticket` counts the trial's operations, all threads together, from 0. `None`: the
    /// unique keys are used up.
    pub fn choose(&self, ticket: u64) -> Option<(usize, u64)> {
        let mut rng = SplitMix64::seed_from_u64(mix64(self.seed ^ mix64(ticket)));
        let key = match &self.order {
            Order::Sequential => ticket % self.count,
            Order::Unique(_) if ticket >= self.count => return None,
            Order::Unique(permutation) => permutation.apply(ticket),
            Order::Uniform => rng.random_range(0..self.count),
            Order::Zipfian(zipf, permutation) => {
                permutation.apply(zipf.sample(&mut rng) as u64 - 1)
            }
            Order::Same => 0,
        };
        if self.operations.len() == 1 {
            return Some((0, key));
        }
        let mut draw = rng.random_range(0..self.weight_sum);
        for (place, &(_, weight)) in self.operations.iter().enumerate() {
            if draw < weight {
                return Some((place, key));
            }
            draw -= weight;
        }
        Some((0, key))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(count: u64, order: KeyOrder) -> Keys {
        Keys { count, size: 64, order, per_directory: 0 }
    }

    proptest! {
        #[test]
        fn a_permutation_hits_every_number_once(count in 1_u64..2000, seed: u64) {
            let permutation = Permutation::new(count, seed);
            let mut seen: Vec<u64> = (0..count).map(|index| permutation.apply(index)).collect();
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..count));
        }
    }

    #[test]
    fn a_mix_is_kept_within_sampling_error() {
        let mix = BTreeMap::from([(Operation::Put, 10), (Operation::Get, 90)]);
        let chooser = Chooser::new(&mix, &keys(100, KeyOrder::Uniform), 1, 2);
        let puts = (0..100_000).filter(|&ticket| chooser.choose(ticket).unwrap().0 == 0).count();
        assert!((9_500..10_500).contains(&puts), "{puts} puts of 100,000");
    }

    #[test]
    fn unique_keys_run_out() {
        let mix = BTreeMap::from([(Operation::Put, 1)]);
        let chooser = Chooser::new(&mix, &keys(3, KeyOrder::Unique), 1, 2);
        assert!(chooser.choose(2).is_some());
        assert_eq!(chooser.choose(3), None);
    }

    #[test]
    fn the_most_popular_zipfian_key_has_its_share() {
        let mix = BTreeMap::from([(Operation::Get, 1)]);
        let order = KeyOrder::Zipfian { exponent: 0.99 };
        let chooser = Chooser::new(&mix, &keys(1000, order), 1, 2);
        let mut counts = vec![0_u32; 1000];
        for ticket in 0..100_000 {
            counts[chooser.choose(ticket).unwrap().1 as usize] += 1;
        }
        // 1 / sum of k^-0.99 for k in 1..=1000 is 0.1289.
        let most = f64::from(*counts.iter().max().unwrap()) / 100_000.0;
        assert!((0.12..0.14).contains(&most), "{most}");
    }
}
