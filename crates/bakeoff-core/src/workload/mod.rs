//! Makes operations: mixes, key orders and verifiable values.
//!
//! Every key follows from its number, and every value from its key, its writer and its sequence number. So a read is
//! verified byte for byte from a few machine words, and an audit only needs sequence numbers.
//!
//! Not here: due times (`schedule`), the values that a read may return (`ledger`).

mod choose;
mod keys;
mod names;
mod operation;
mod sizes;
mod values;

pub use choose::{Chooser, Permutation};
pub use keys::{KeyOrder, Keys};
pub use names::{KeySpace, bare_size, prefixed_size};
pub use operation::Operation;
pub use sizes::ValueSizes;
pub use values::{Corruption, PROOF_SIZE, Stamp, Values};

/// Minimum size of a value in bytes: its number takes five digits.
pub const VALUE_SIZE_MIN: u64 = 5;
/// Usual minimum size of a key in bytes: `bakeoff/` and 16 hexadecimal digits. Shorter keys have fewer digits, see
/// [`KeySpace`].
pub const KEY_SIZE_USUAL: u64 = 24;
/// Bytes that a directory adds to a key: `d`, eight hexadecimal digits, `/`.
pub const DIRECTORY_SIZE: u64 = 10;
/// Prefix of every key, so that a load never touches foreign keys.
pub const KEY_PREFIX: &str = "bakeoff/";

/// Scrambles a 64-bit number by a bijection (SplitMix64's finalizer, Steele, Lea and Flood 2014).
#[inline]
pub fn mix64(mut value: u64) -> u64 {
    value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
