//! Makes operations: mixes, key orders, and values that prove themselves.
//!
//! Every key is derived from its number, and every value from its key, its writer and its sequence
//! number. So a read can be verified byte for byte from a few machine words, and an audit needs to
//! remember only sequence numbers.
//!
//! Not here: when an operation is due (`schedule`), what a read may return after which writes
//! (`ledger`).

use std::collections::BTreeMap;
use std::fmt;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

use crate::study::{KeyOrder, Keys, Operation};

/// The shortest value, in bytes, that can carry its own proof.
pub const VALUE_SIZE_MIN: u64 = 36;
/// The shortest key in bytes: `bakeoff/` and 16 hexadecimal digits.
pub const KEY_SIZE_MIN: u64 = 24;
/// Bytes that a directory adds to a key: `d`, eight hexadecimal digits, `/`.
pub const DIRECTORY_SIZE: u64 = 10;
/// Beginning of every key, so that a load never touches keys of anybody else.
pub const KEY_PREFIX: &str = "bakeoff/";

const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-";
const FILLER_SIZE: usize = 1 << 16;

/// Turns a 64-bit number into one that looks unrelated; a bijection (SplitMix64's finalizer,
/// Steele, Lea and Flood 2014).
pub fn mix64(mut value: u64) -> u64 {
    value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The names of a workload's keys.
#[derive(Debug, Clone)]
pub struct KeySpace {
    count: u64,
    size: usize,
    per_directory: u64,
}

impl KeySpace {
    /// The key space of a workload.
    pub fn new(keys: &Keys) -> Self {
        Self { count: keys.count, size: keys.size as usize, per_directory: keys.per_directory }
    }

    /// Returns how many keys there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns how many keys share a directory; 0 when there are no directories.
    pub fn per_directory(&self) -> u64 {
        self.per_directory
    }

    /// Returns how many directories there are.
    pub fn directories(&self) -> u64 {
        if self.per_directory == 0 { 0 } else { self.count.div_ceil(self.per_directory) }
    }

    /// Appends the name of key `index` to `out`. Names sort as their numbers do.
    pub fn write_key(&self, index: u64, out: &mut Vec<u8>) {
        let start = out.len();
        match index.checked_div(self.per_directory) {
            None => out.extend_from_slice(KEY_PREFIX.as_bytes()),
            Some(directory) => self.write_directory(directory, out),
        }
        write_hex(index, 16, out);
        out.resize(start + self.size, b'k');
    }

    /// Appends the name of a directory, which ends in `/`.
    pub fn write_directory(&self, directory: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(KEY_PREFIX.as_bytes());
        out.push(b'd');
        write_hex(directory, 8, out);
        out.push(b'/');
    }

    /// The number of the key whose name, or whose name's last part, this is.
    pub fn index_of(&self, name: &[u8]) -> Option<u64> {
        let last = name.rsplit(|&byte| byte == b'/').next()?;
        let digits = last.get(..16)?;
        let text = std::str::from_utf8(digits).ok()?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        u64::from_str_radix(text, 16).ok().filter(|&index| index < self.count)
    }
}

fn write_hex(value: u64, digits: u32, out: &mut Vec<u8>) {
    for place in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(value >> (4 * place)) as usize & 15]);
    }
}

/// Writer of a value, and the number of the write among those of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The writing client.
    pub writer: u32,
    /// The key's own sequence number of this write; from 1. Below 2^48.
    pub sequence: u64,
}

/// Fault of a value that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Corruption {
    /// It has another length: bytes seen, bytes expected.
    Length(usize, usize),
    /// It is the value of some other key, of another run, or not one of ours.
    Foreign,
    /// The first byte that differs from what was written is at this offset.
    Byte(usize),
}

impl fmt::Display for Corruption {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(seen, expected) => {
                write!(to, "value has {seen} bytes where {expected} were written")
            }
            Self::Foreign => write!(to, "value was not written to this key by this run"),
            Self::Byte(offset) => {
                write!(to, "value differs from what was written at byte {offset}")
            }
        }
    }
}

/// Makes and verifies values of one size.
///
/// A value is 11 digits of its key's fingerprint, 6 of its writer, 8 of its sequence number, 11 of
/// a checksum over the three, then filler that follows from the checksum; a digit carries six bits
/// and is a letter, a number, `_` or `-`, so that values survive JSON and URLs.
#[derive(Debug, Clone)]
pub struct Values {
    size: usize,
    seed: u64,
    filler: Vec<u8>,
}

impl Values {
    /// Values of `size` bytes. Values of another `seed` do not verify.
    pub fn new(size: u64, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let filler = (0..FILLER_SIZE).map(|_| DIGITS[rng.random_range(0..64)]).collect();
        Self { size: size as usize, seed, filler }
    }

    /// The size of every value in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Appends the value that `stamp` writes to key `index`.
    pub fn write_value(&self, index: u64, stamp: Stamp, out: &mut Vec<u8>) {
        let fingerprint = self.fingerprint(index);
        let checksum = self.checksum(fingerprint, stamp);
        write_digits(fingerprint, 11, out);
        write_digits(u64::from(stamp.writer), 6, out);
        write_digits(stamp.sequence, 8, out);
        write_digits(checksum, 11, out);
        let mut missing = self.size - VALUE_SIZE_MIN as usize;
        let mut from = checksum as usize % FILLER_SIZE;
        while missing > 0 {
            let part = missing.min(FILLER_SIZE - from);
            out.extend_from_slice(&self.filler[from..from + part]);
            missing -= part;
            from = 0;
        }
    }

    /// Returns whether `value` is one that was made for key `index`, byte for byte.
    pub fn verify(&self, index: u64, value: &[u8]) -> Result<Stamp, Corruption> {
        if value.len() != self.size {
            return Err(Corruption::Length(value.len(), self.size));
        }
        let fingerprint = self.fingerprint(index);
        let read = |from: usize, to: usize| read_digits(&value[from..to]);
        if read(0, 11) != Some(fingerprint) {
            return Err(Corruption::Foreign);
        }
        let (Some(writer), Some(sequence), Some(checksum)) =
            (read(11, 17), read(17, 25), read(25, 36))
        else {
            return Err(Corruption::Byte(11));
        };
        // Six digits hold more than a writer's number: what is above it is no part of any value.
        let Ok(writer) = u32::try_from(writer) else { return Err(Corruption::Byte(11)) };
        let stamp = Stamp { writer, sequence };
        if checksum != self.checksum(fingerprint, stamp) {
            return Err(Corruption::Byte(11));
        }
        let mut at = VALUE_SIZE_MIN as usize;
        let mut from = checksum as usize % FILLER_SIZE;
        while at < value.len() {
            let part = (value.len() - at).min(FILLER_SIZE - from);
            let (seen, written) = (&value[at..at + part], &self.filler[from..from + part]);
            if seen != written {
                let differs = seen.iter().zip(written).position(|(seen, written)| seen != written);
                return Err(Corruption::Byte(at + differs.unwrap_or(0)));
            }
            at += part;
            from = 0;
        }
        Ok(stamp)
    }

    fn fingerprint(&self, index: u64) -> u64 {
        mix64(self.seed ^ mix64(index))
    }

    fn checksum(&self, fingerprint: u64, stamp: Stamp) -> u64 {
        mix64(fingerprint ^ mix64(stamp.sequence ^ mix64(u64::from(stamp.writer))))
    }
}

fn write_digits(value: u64, digits: u32, out: &mut Vec<u8>) {
    for place in (0..digits).rev() {
        out.push(DIGITS[(value >> (6 * place)) as usize & 63]);
    }
}

/// `None` for what no number is written as: foreign characters, or more than 64 bits.
fn read_digits(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |value, &digit| {
        let six_bits = match digit {
            b'0'..=b'9' => digit - b'0',
            b'A'..=b'Z' => digit - b'A' + 10,
            b'_' => 36,
            b'a'..=b'z' => digit - b'a' + 37,
            b'-' => 63,
            _ => return None,
        };
        (value >> 58 == 0).then_some(value << 6 | u64::from(six_bits))
    })
}

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

    #[test]
    fn a_key_has_its_size_and_tells_its_number() {
        for per_directory in [0, 7] {
            let space = KeySpace::new(&Keys { per_directory, ..keys(1000, KeyOrder::Uniform) });
            let mut name = Vec::new();
            space.write_key(999, &mut name);
            assert_eq!(name.len(), 64);
            assert_eq!(space.index_of(&name), Some(999));
        }
    }

    #[test]
    fn a_name_that_is_not_ours_has_no_number() {
        let space = KeySpace::new(&keys(10, KeyOrder::Uniform));
        for name in
            ["", "x", "bakeoff/000000000000000z", "bakeoff/00000000000000ff", "+00000000000001"]
        {
            assert_eq!(space.index_of(name.as_bytes()), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_written_value_verifies(index: u64, writer: u32, sequence in 1_u64..1 << 48, size in 36_u64..200_000) {
            let values = Values::new(size, 7);
            let mut value = Vec::new();
            values.write_value(index, Stamp { writer, sequence }, &mut value);
            prop_assert_eq!(value.len() as u64, size);
            prop_assert_eq!(values.verify(index, &value), Ok(Stamp { writer, sequence }));
        }

        // The first digits of each number among them, which could hold more than it has.
        #[test]
        fn any_change_of_the_numbers_is_seen(at in 0_usize..36, change in 1_u8..) {
            let values = Values::new(36, 7);
            let mut value = Vec::new();
            values.write_value(3, Stamp { writer: 1, sequence: 9 }, &mut value);
            value[at] ^= change;
            prop_assert!(values.verify(3, &value).is_err());
        }

        #[test]
        fn any_changed_byte_is_seen(at in 0_usize..1024, change in 1_u8..) {
            let values = Values::new(1024, 7);
            let mut value = Vec::new();
            values.write_value(3, Stamp { writer: 1, sequence: 9 }, &mut value);
            value[at] ^= change;
            prop_assert!(values.verify(3, &value).is_err());
        }

        #[test]
        fn a_permutation_hits_every_number_once(count in 1_u64..2000, seed: u64) {
            let permutation = Permutation::new(count, seed);
            let mut seen: Vec<u64> = (0..count).map(|index| permutation.apply(index)).collect();
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..count));
        }
    }

    #[test]
    fn a_value_of_another_key_run_or_length_is_not_accepted() {
        let values = Values::new(100, 7);
        let mut value = Vec::new();
        values.write_value(3, Stamp { writer: 1, sequence: 1 }, &mut value);
        assert_eq!(values.verify(4, &value), Err(Corruption::Foreign));
        assert_eq!(Values::new(100, 8).verify(3, &value), Err(Corruption::Foreign));
        assert_eq!(values.verify(3, &value[..99]), Err(Corruption::Length(99, 100)));
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
