//! Makes the keys and values of etcd's benchmark.
//!
//! A key is the prefix and `--key-size` bytes: the key's number as Go's `binary.PutVarint` writes it (zigzag, seven bits
//! a byte), then zeros. etcd's benchmark reuses the bytes of the key before, so a short number keeps the tail of a longer
//! one, and more keys exist than `--key-space-size` says. Here a number has one key.
//!
//! Not here: which operation writes which key (`calls`).

use bakeoff_core::workload::mix64;
use bakeoff_wire::protobuf;

/// Keys that a load writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) prefix: String,
    /// Bytes after the prefix.
    pub(super) size: usize,
    pub(super) space: u64,
    pub(super) order: KeyOrder,
}

/// Order in which the keys are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyOrder {
    Sequential,
    Random,
}

/// Returns the bytes that the largest number of a key space takes.
pub(super) fn bytes_needed(space: u64) -> usize {
    let zigzag = space.saturating_sub(1).saturating_mul(2);
    protobuf::varint_len(zigzag)
}

/// Writes the keys of a load.
#[derive(Debug, Clone)]
pub(super) struct KeyWriter {
    keys: Keys,
    seed: u64,
}

impl KeyWriter {
    /// Creates a writer. `seed` decides about random keys.
    pub(super) fn new(keys: Keys, seed: u64) -> Self {
        Self { keys, seed }
    }

    /// Replaces `key` by the key of write number `write`.
    pub(super) fn write(&self, write: u64, key: &mut Vec<u8>) {
        let number = match self.keys.order {
            KeyOrder::Sequential => write % self.keys.space,
            KeyOrder::Random => scattered(write, self.seed) % self.keys.space,
        };
        key.clear();
        key.extend_from_slice(self.keys.prefix.as_bytes());
        protobuf::put_varint(key, number.saturating_mul(2));
        key.resize(self.keys.prefix.len() + self.keys.size, 0);
    }
}

/// Returns a random number for operation `number`.
pub(super) fn scattered(number: u64, seed: u64) -> u64 {
    mix64(mix64(seed) ^ number)
}

/// Returns a random number from 0 up to 1, without 1, for operation `number`.
pub(super) fn random_share(number: u64, seed: u64) -> f64 {
    // A double has 53 bits of precision.
    (scattered(number, seed) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn writer(prefix: &str, size: usize, space: u64, order: KeyOrder) -> KeyWriter {
        KeyWriter::new(Keys { prefix: prefix.to_owned(), size, space, order }, 7)
    }

    #[test]
    fn a_key_is_the_zigzag_number_and_zeros() {
        let mut key = vec![9; 20];
        let keys = writer("p/", 4, 1000, KeyOrder::Sequential);
        for (write, expected) in [
            (0, &b"p/\0\0\0\0"[..]),
            (1, b"p/\x02\0\0\0"),
            (63, b"p/\x7e\0\0\0"),
            (64, b"p/\x80\x01\0\0"),
            (1000, b"p/\0\0\0\0"),
        ] {
            keys.write(write, &mut key);
            assert_eq!(key, expected, "{write}");
        }
    }

    #[test]
    fn a_key_space_has_as_many_keys_as_it_says() {
        let mut all = BTreeSet::new();
        let keys = writer("", 8, 300, KeyOrder::Random);
        let mut key = Vec::new();
        for write in 0..10_000 {
            keys.write(write, &mut key);
            all.insert(key.clone());
        }
        assert_eq!(all.len(), 300);
    }

    #[test]
    fn numbers_take_up_to_ten_bytes() {
        for (space, bytes) in [(1, 1), (64, 1), (65, 2), (8192, 2), (8193, 3), (u64::MAX, 10)] {
            assert_eq!(bytes_needed(space), bytes, "{space}");
        }
    }

    #[test]
    fn shares_are_spread_evenly() {
        let below = (0..10_000).filter(|&number| random_share(number, 1) < 0.3).count();
        assert!((2_800..3_200).contains(&below), "{below}");
    }
}
