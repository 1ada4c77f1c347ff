//! Values that prove whose they are, byte for byte.
//!
//! Not here: which of a key's values a read may find (`ledger`).

use std::fmt;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{VALUE_SIZE_MIN, mix64};

const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-";
const FILLER_SIZE: usize = 1 << 16;

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
}
