//! Makes values whose origin can be verified, byte for byte.
//!
//! A value of at least [`PROOF_SIZE`] bytes names its key, its writer, its sequence number and a checksum of the
//! three. A shorter one has room only for its number, encrypted with its key. A value of another key then decrypts to
//! a number that was never assigned. So neither needs a table of written values.
//!
//! Not here: the values that a read may find (`ledger`).

use std::fmt;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{ValueSizes, mix64};

const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-";
const FILLER_SIZE: usize = 1 << 16;
/// Minimum size in bytes of a value that has room for its whole proof.
pub const PROOF_SIZE: usize = 36;
/// Digits of the number in a shorter value, as many as the shortest value has.
const NUMBER_DIGITS: usize = super::VALUE_SIZE_MIN as usize;
/// Bits of that number, and of half of it.
const NUMBER_BITS: u32 = 6 * NUMBER_DIGITS as u32;
const HALF_BITS: u32 = NUMBER_BITS / 2;
/// Maximum number of digits of a checksum.
const CHECK_DIGITS: usize = 11;

/// Identifies the write of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the writing client.
    pub writer: u32,
    /// Sequence number of the write within its key, from 1, below 2^48.
    pub sequence: u64,
}

/// Describes why a value is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Corruption {
    /// Wrong length: bytes seen, bytes expected.
    Length(usize, usize),
    /// A value of another key, of another run, or not ours.
    Foreign,
    /// Offset of the first byte that differs from the written value.
    Byte(usize),
}

impl fmt::Display for Corruption {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(seen, expected) => {
                write!(to, "value has {seen} bytes instead of {expected}")
            }
            Self::Foreign => write!(to, "value was not written to this key by this run"),
            Self::Byte(offset) => {
                write!(to, "value differs from the written one at byte {offset}")
            }
        }
    }
}

/// Makes and verifies values.
///
/// A value is 11 digits of its key's fingerprint, 6 of its writer, 8 of its sequence number, 11 of a checksum over
/// the three, then filler derived from the checksum. A digit carries six bits and is a letter, a number, `_` or `-`,
/// so values survive JSON and URLs. A value below [`PROOF_SIZE`] is 5 digits of its encrypted sequence number, up to
/// 11 of the checksum, then filler.
#[derive(Debug, Clone)]
pub struct Values {
    sizes: ValueSizes,
    seed: u64,
    filler: Vec<u8>,
}

impl Values {
    /// Makes values of these sizes. Values of another `seed` do not verify.
    pub fn new(sizes: ValueSizes, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let filler = (0..FILLER_SIZE).map(|_| DIGITS[rng.random_range(0..64)]).collect();
        Self { sizes, seed, filler }
    }

    /// Appends the value that `stamp` writes to key `index`.
    #[inline]
    pub fn write_value(&self, index: u64, stamp: Stamp, out: &mut Vec<u8>) {
        let fingerprint = self.fingerprint(index);
        let size = self.size(fingerprint, stamp.sequence);
        if size < PROOF_SIZE {
            return self.write_short(fingerprint, stamp.sequence, size, out);
        }
        let checksum = self.checksum(fingerprint, stamp);
        write_digits(fingerprint, 11, out);
        write_digits(u64::from(stamp.writer), 6, out);
        write_digits(stamp.sequence, 8, out);
        write_digits(checksum, 11, out);
        self.write_filler(checksum, size - PROOF_SIZE, out);
    }

    fn write_short(&self, fingerprint: u64, sequence: u64, size: usize, out: &mut Vec<u8>) {
        let number = sequence & ((1 << NUMBER_BITS) - 1);
        write_digits(encrypt(number, fingerprint), NUMBER_DIGITS as u32, out);
        let checksum = self.checksum(fingerprint, Stamp { writer: 0, sequence: number });
        let digits = (size - NUMBER_DIGITS).min(CHECK_DIGITS);
        write_digits(checksum, digits as u32, out);
        self.write_filler(checksum, size - NUMBER_DIGITS - digits, out);
    }

    #[inline]
    fn write_filler(&self, checksum: u64, mut missing: usize, out: &mut Vec<u8>) {
        let mut from = checksum as usize % FILLER_SIZE;
        while missing > 0 {
            let part = missing.min(FILLER_SIZE - from);
            out.extend_from_slice(&self.filler[from..from + part]);
            missing -= part;
            from = 0;
        }
    }

    /// Verifies a value of key `index` byte for byte and returns its stamp. For a value below [`PROOF_SIZE`] the
    /// writer is 0, and the sequence number is known modulo 2^30, which exceeds the writes to one key.
    ///
    /// # Errors
    /// Describes why the value is wrong.
    #[inline]
    pub fn verify(&self, index: u64, value: &[u8]) -> Result<Stamp, Corruption> {
        if let ValueSizes::Fixed(size) = self.sizes
            && value.len() != size as usize
        {
            return Err(Corruption::Length(value.len(), size as usize));
        }
        let fingerprint = self.fingerprint(index);
        if value.len() < PROOF_SIZE {
            return self.verify_short(fingerprint, value);
        }
        let read = |from: usize, to: usize| read_digits(&value[from..to]);
        if read(0, 11) != Some(fingerprint) {
            return Err(Corruption::Foreign);
        }
        let (Some(writer), Some(sequence), Some(checksum)) =
            (read(11, 17), read(17, 25), read(25, 36))
        else {
            return Err(Corruption::Byte(11));
        };
        // Six digits can hold more than a writer's number. A larger one is not part of any value.
        let Ok(writer) = u32::try_from(writer) else { return Err(Corruption::Byte(11)) };
        let stamp = Stamp { writer, sequence };
        if checksum != self.checksum(fingerprint, stamp) {
            return Err(Corruption::Byte(11));
        }
        self.verify_size(fingerprint, sequence, value)?;
        self.verify_filler(checksum, value, PROOF_SIZE)?;
        Ok(stamp)
    }

    fn verify_short(&self, fingerprint: u64, value: &[u8]) -> Result<Stamp, Corruption> {
        let Some((number, rest)) = value.split_at_checked(NUMBER_DIGITS) else {
            return Err(Corruption::Length(value.len(), self.sizes.least() as usize));
        };
        let Some(number) = read_digits(number) else { return Err(Corruption::Foreign) };
        let stamp = Stamp { writer: 0, sequence: decrypt(number, fingerprint) };
        let checksum = self.checksum(fingerprint, stamp);
        let digits = rest.len().min(CHECK_DIGITS);
        let known = checksum & mask(6 * digits as u32);
        // A number that does not match its check belongs to another key, or to none.
        if read_digits(&rest[..digits]) != Some(known) {
            return Err(Corruption::Foreign);
        }
        self.verify_size(fingerprint, stamp.sequence, value)?;
        self.verify_filler(checksum, value, NUMBER_DIGITS + digits)?;
        Ok(stamp)
    }

    #[inline]
    fn verify_size(&self, fingerprint: u64, sequence: u64, value: &[u8]) -> Result<(), Corruption> {
        match self.size(fingerprint, sequence) {
            size if size == value.len() => Ok(()),
            size => Err(Corruption::Length(value.len(), size)),
        }
    }

    #[inline]
    fn verify_filler(&self, checksum: u64, value: &[u8], mut at: usize) -> Result<(), Corruption> {
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
        Ok(())
    }

    /// Returns the size of a key's write. It follows from the number, so a read knows it too.
    #[inline]
    fn size(&self, fingerprint: u64, sequence: u64) -> usize {
        if let ValueSizes::Fixed(size) = self.sizes {
            return size as usize;
        }
        let number = sequence & mask(NUMBER_BITS);
        self.sizes.pick(mix64(fingerprint.rotate_left(32) ^ mix64(number))) as usize
    }

    #[inline]
    fn fingerprint(&self, index: u64) -> u64 {
        mix64(self.seed ^ mix64(index))
    }

    #[inline]
    fn checksum(&self, fingerprint: u64, stamp: Stamp) -> u64 {
        mix64(fingerprint ^ mix64(stamp.sequence ^ mix64(u64::from(stamp.writer))))
    }
}

#[inline]
fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Encrypts a number of [`NUMBER_BITS`] bits by a Feistel network of four rounds.
fn encrypt(number: u64, key: u64) -> u64 {
    let (left, right) = (number >> HALF_BITS, number & mask(HALF_BITS));
    let (left, right) = (0..4)
        .fold((left, right), |(left, right), round| (right, left ^ scramble(right, key, round)));
    left << HALF_BITS | right
}

fn decrypt(number: u64, key: u64) -> u64 {
    let (left, right) = (number >> HALF_BITS & mask(HALF_BITS), number & mask(HALF_BITS));
    let (left, right) = (0..4)
        .rev()
        .fold((left, right), |(left, right), round| (right ^ scramble(left, key, round), left));
    left << HALF_BITS | right
}

fn scramble(half: u64, key: u64, round: u32) -> u64 {
    mix64(half ^ key.rotate_left(16 * round)) & mask(HALF_BITS)
}

#[inline]
fn write_digits(value: u64, digits: u32, out: &mut Vec<u8>) {
    let digit = |place| DIGITS[(value >> (6 * place)) as usize & 63];
    out.extend((0..digits).rev().map(digit));
}

/// Parses digits. Returns `None` for foreign characters or more than 64 bits.
#[inline]
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
        fn written_value_verifies(index: u64, writer: u32, sequence in 1_u64..1 << 48, size in 36_u64..200_000) {
            let values = Values::new(ValueSizes::Fixed(size), 7);
            let mut value = Vec::new();
            values.write_value(index, Stamp { writer, sequence }, &mut value);
            prop_assert_eq!(value.len() as u64, size);
            prop_assert_eq!(values.verify(index, &value), Ok(Stamp { writer, sequence }));
        }

        #[test]
        fn short_value_verifies(index: u64, writer: u32, sequence in 1_u64..1 << 30, size in 5_u64..36) {
            let values = Values::new(ValueSizes::Fixed(size), 7);
            let mut value = Vec::new();
            values.write_value(index, Stamp { writer, sequence }, &mut value);
            prop_assert_eq!(value.len() as u64, size);
            prop_assert_eq!(values.verify(index, &value), Ok(Stamp { writer: 0, sequence }));
        }

        #[test]
        fn values_of_several_sizes_verify_and_cannot_be_cut(index: u64, sequence in 1_u64..1 << 30) {
            for sizes in [
                ValueSizes::Listed(vec![5, 20, 36, 100, 70_000]),
                ValueSizes::Range { from: 5, to: 80 },
            ] {
                let values = Values::new(sizes, 7);
                let mut value = Vec::new();
                values.write_value(index, Stamp { writer: 0, sequence }, &mut value);
                prop_assert_eq!(values.verify(index, &value), Ok(Stamp { writer: 0, sequence }));
                value.pop();
                prop_assert!(values.verify(index, &value).is_err() || value.len() < 9);
            }
        }

        // With three check digits one in 2^18 would pass.
        #[test]
        fn any_changed_byte_of_a_short_value_is_detected(at in 0_usize..8, change in 1_u8..) {
            let values = Values::new(ValueSizes::Fixed(8), 7);
            let mut value = Vec::new();
            values.write_value(3, Stamp { writer: 1, sequence: 9 }, &mut value);
            value[at] ^= change;
            prop_assert!(values.verify(3, &value).is_err());
        }

        // Includes the first digits of each number, which could hold more than it has.
        #[test]
        fn any_changed_number_is_detected(at in 0_usize..36, change in 1_u8..) {
            let values = Values::new(ValueSizes::Fixed(36), 7);
            let mut value = Vec::new();
            values.write_value(3, Stamp { writer: 1, sequence: 9 }, &mut value);
            value[at] ^= change;
            prop_assert!(values.verify(3, &value).is_err());
        }

        #[test]
        fn any_changed_byte_is_detected(at in 0_usize..1024, change in 1_u8..) {
            let values = Values::new(ValueSizes::Fixed(1024), 7);
            let mut value = Vec::new();
            values.write_value(3, Stamp { writer: 1, sequence: 9 }, &mut value);
            value[at] ^= change;
            prop_assert!(values.verify(3, &value).is_err());
        }
    }

    #[test]
    fn value_of_another_key_run_or_length_is_rejected() {
        let values = Values::new(ValueSizes::Fixed(100), 7);
        let mut value = Vec::new();
        values.write_value(3, Stamp { writer: 1, sequence: 1 }, &mut value);
        assert_eq!(values.verify(4, &value), Err(Corruption::Foreign));
        assert_eq!(
            Values::new(ValueSizes::Fixed(100), 8).verify(3, &value),
            Err(Corruption::Foreign)
        );
        assert_eq!(values.verify(3, &value[..99]), Err(Corruption::Length(99, 100)));
    }

    /// A value that is only a number, if read from another key, gives a number that was never assigned.
    #[test]
    fn shortest_value_of_another_key_has_an_unassigned_number() {
        let values = Values::new(ValueSizes::Fixed(5), 7);
        let mut plausible = 0;
        for index in 0..10_000 {
            let mut value = Vec::new();
            values.write_value(index, Stamp { writer: 1, sequence: 1 }, &mut value);
            let said = values.verify(index + 1, &value).unwrap();
            plausible += u32::from(said.sequence <= 1000);
        }
        assert!(plausible <= 2, "{plausible} of 10,000; 0.01 are expected");
    }
}
