//! Operation mixes, key orders, self-checking values.

/// The shortest value, in bytes, that can carry its own proof.
pub const VALUE_SIZE_MIN: u64 = 36;
/// The shortest key in bytes: `bakeoff/` and 16 hexadecimal digits.
pub const KEY_SIZE_MIN: u64 = 24;
/// What a directory adds to a key in bytes: `d`, eight hexadecimal digits, `/`.
pub const DIRECTORY_SIZE: u64 = 10;
