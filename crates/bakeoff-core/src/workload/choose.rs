//! Chooses what each operation does, from its number and the seed alone.
//!
//! Not here: the names of keys (`names`), due times (`schedule`).

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_xoshiro::SplitMix64;

use super::{KeyOrder, Keys, Operation, mix64};

/// Permutes `0..count` pseudo-randomly: a Feistel network on the next power of four, repeated until the result is in
/// range.
#[derive(Debug, Clone)]
pub struct Permutation {
    count: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    /// Creates the permutation of `0..count` for `seed`.
    pub fn new(count: u64, seed: u64) -> Self {
        let bits = 64 - count.saturating_sub(1).leading_zeros();
        Self { count, half_bits: bits.div_ceil(2).max(1), seed }
    }

    /// Returns the image of `index`, which is taken modulo the count.
    #[inline]
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

/// Chooses what each operation does. Only its number and the seed decide, on any thread.
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
    Hotspot {
        hot: u64,
        share: f64,
        keys: Permutation,
    },
    /// Recently written keys; `None` makes all keys equally popular.
    Latest {
        back: Option<Zipf<f64>>,
        writes: u32,
    },
    Same,
}

impl Chooser {
    /// Creates a chooser for this mix and these keys. `run_seed` scrambles keys, the same for a whole trial; `seed`
    /// is the load's.
    pub fn new(mix: &BTreeMap<Operation, u32>, keys: &Keys, run_seed: u64, seed: u64) -> Self {
        let scrambled = || Permutation::new(keys.count, run_seed);
        // An exponent of 0 is not a valid Zipf law. The parser rejects worse ones.
        let zipf = |exponent| Zipf::new(keys.count as f64, exponent).ok();
        let order = match keys.order {
            KeyOrder::Sequential => Order::Sequential,
            KeyOrder::Unique => Order::Unique(scrambled()),
            KeyOrder::Uniform => Order::Uniform,
            KeyOrder::Zipfian { exponent } => match zipf(exponent) {
                Some(zipf) => Order::Zipfian(zipf, scrambled()),
                None => Order::Uniform,
            },
            KeyOrder::Hotspot { keys: part, operations: share } => {
                let hot = ((keys.count as f64 * part).round() as u64).clamp(1, keys.count.max(1));
                Order::Hotspot { hot, share, keys: scrambled() }
            }
            KeyOrder::Latest { exponent } => {
                let writes = mix.iter().filter(|(operation, _)| operation.writes());
                let writes = writes.map(|(_, &weight)| weight).sum();
                Order::Latest { back: zipf(exponent), writes }
            }
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

    /// Returns the seed of the load.
    #[inline]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the index of the next operation in the mix (in the order of [`Operation`]) and the number of its key.
    /// `ticket` numbers the trial's operations across all threads, from 0. Returns `None` once the unique keys are
    /// used up.
    #[inline]
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
            Order::Hotspot { hot, share, keys } => {
                let is_hot = rng.random::<f64>() < *share || *hot == self.count;
                let place = if is_hot { 0..*hot } else { *hot..self.count };
                keys.apply(rng.random_range(place))
            }
            Order::Latest { back, writes } => {
                return Some(self.latest(ticket, back.as_ref(), *writes, &mut rng));
            }
            Order::Same => 0,
        };
        if self.operations.len() == 1 {
            return Some((0, key));
        }
        Some((self.draw(|_| true, self.weight_sum, &mut rng), key))
    }

    /// Spreads writes evenly among the operations, so that a ticket determines the number of earlier writes. The n-th
    /// write goes to key n, and starts over after the last key. Other operations look back from the newest key.
    fn latest(
        &self,
        ticket: u64,
        back: Option<&Zipf<f64>>,
        writes: u32,
        rng: &mut SplitMix64,
    ) -> (usize, u64) {
        let all = u128::from(self.weight_sum.max(1));
        let before = |ticket: u64| (u128::from(ticket) * u128::from(writes) / all) as u64;
        let written = before(ticket);
        if before(ticket.saturating_add(1)) > written {
            return (self.draw(Operation::writes, writes, rng), written % self.count);
        }
        let back = match back {
            Some(zipf) => zipf.sample(rng) as u64 - 1,
            None => rng.random_range(0..self.count),
        };
        // Before the first write the last key is the newest, because keys were filled in order.
        let newest = written % self.count + self.count - 1;
        let others = self.weight_sum - writes;
        (self.draw(|operation| !operation.writes(), others, rng), (newest - back) % self.count)
    }

    /// Draws an operation of some kind by weight; the weights of that kind add up to `sum`.
    fn draw(&self, of_kind: fn(Operation) -> bool, sum: u32, rng: &mut SplitMix64) -> usize {
        let mut draw = rng.random_range(0..sum.max(1));
        for (place, &(operation, weight)) in self.operations.iter().enumerate() {
            if !of_kind(operation) {
                continue;
            }
            if draw < weight {
                return place;
            }
            draw -= weight;
        }
        0
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
        fn permutation_hits_every_number_once(count in 1_u64..2000, seed: u64) {
            let permutation = Permutation::new(count, seed);
            let mut seen: Vec<u64> = (0..count).map(|index| permutation.apply(index)).collect();
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..count));
        }
    }

    #[test]
    fn mix_is_kept_within_sampling_error() {
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
    fn most_popular_zipfian_key_has_its_share() {
        let mix = BTreeMap::from([(Operation::Get, 1)]);
        let order = KeyOrder::Zipfian { exponent: 0.99 };
        let chooser = Chooser::new(&mix, &keys(1000, order), 1, 2);
        let mut counts = vec![0_u32; 1000];
        for ticket in 0..100_000 {
            counts[chooser.choose(ticket).unwrap().1 as usize] += 1;
        }
        // Share of the first key: 1 / sum of k^-0.99 for k in 1..=1000 is 0.1289.
        let most = f64::from(*counts.iter().max().unwrap()) / 100_000.0;
        assert!((0.12..0.14).contains(&most), "{most}");
    }

    #[test]
    fn hot_keys_have_their_share_and_cold_ones_the_rest() {
        let mix = BTreeMap::from([(Operation::Get, 1)]);
        let order = KeyOrder::Hotspot { keys: 0.2, operations: 0.8 };
        let chooser = Chooser::new(&mix, &keys(1000, order), 1, 2);
        let mut counts = vec![0_u32; 1000];
        for ticket in 0..100_000 {
            counts[chooser.choose(ticket).unwrap().1 as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let hot: u32 = counts[..200].iter().sum();
        assert!((79_000..81_000).contains(&hot), "{hot} of 100,000 at 200 keys");
        assert!(counts[999] > 0, "no key is left out");
    }

    #[test]
    fn latest_writes_rotate_and_reads_look_back_from_the_newest() {
        let mix =
            BTreeMap::from([(Operation::Put, 5), (Operation::Get, 90), (Operation::Delete, 5)]);
        let chooser = Chooser::new(&mix, &keys(100, KeyOrder::Latest { exponent: 0.99 }), 1, 2);
        let (mut next, mut puts, mut newest_read, mut reads) = (0, 0, 0, 0);
        for ticket in 0..10_000 {
            let (place, key) = chooser.choose(ticket).unwrap();
            // Operations in the order of `Operation`: put, get, delete.
            if place == 1 {
                reads += 1;
                newest_read += u32::from(key == (next + 99) % 100);
            } else {
                assert_eq!(key, next, "ticket {ticket}");
                next = (next + 1) % 100;
                puts += u32::from(place == 0);
            }
        }
        assert_eq!(reads, 9_000);
        assert!((400..600).contains(&puts), "{puts} of 1,000 writes");
        // Share of the newest key: 1 / sum of k^-0.99 for k in 1..=100 is 0.190.
        assert!((0.17..0.21).contains(&(f64::from(newest_read) / 9_000.0)), "{newest_read}");
    }
}
