//! Names the keys of a workload.
//!
//! Each name follows from the key's number, and can be parsed back.
//!
//! Not here: the choice of the next key (`choose`).

use super::{KEY_PREFIX, KEY_SIZE_USUAL, Keys};

/// Names a workload's keys.
///
/// A name is `bakeoff/`, the directory if there are directories, and 16 hexadecimal digits, padded to its size. A
/// name too short for that has as many five-bit digits as fit. An even shorter one has no `bakeoff/`.
#[derive(Debug, Clone)]
pub struct KeySpace {
    count: u64,
    size: usize,
    per_directory: u64,
    form: Form,
}

/// Selects the form of the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Prefix and 16 hexadecimal digits.
    Usual,
    /// Prefix and as many five-bit digits as fit.
    Short,
    /// Five-bit digits only.
    Bare,
}

impl KeySpace {
    /// Creates the key space of a workload.
    pub fn new(keys: &Keys) -> Self {
        let form = match keys.size {
            KEY_SIZE_USUAL.. => Form::Usual,
            size if size >= prefixed_size(keys.count) => Form::Short,
            _ => Form::Bare,
        };
        let (count, size) = (keys.count, keys.size as usize);
        Self { count, size, per_directory: keys.per_directory, form }
    }

    /// Returns the number of keys.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of keys per directory; 0 without directories.
    #[inline]
    pub fn per_directory(&self) -> u64 {
        self.per_directory
    }

    /// Returns the number of directories.
    pub fn directories(&self) -> u64 {
        if self.per_directory == 0 { 0 } else { self.count.div_ceil(self.per_directory) }
    }

    /// Returns the name of key `index` for messages, at most 48 bytes. The rest of a longer name is filler.
    pub fn short_name(&self, index: u64) -> String {
        let mut name = Vec::new();
        self.write_key(index, &mut name);
        name.truncate(48);
        name.escape_ascii().to_string()
    }

    /// Appends the name of key `index` to `out`. Names sort in the order of their numbers.
    #[inline]
    pub fn write_key(&self, index: u64, out: &mut Vec<u8>) {
        let start = out.len();
        if self.form != Form::Usual {
            if self.form == Form::Short {
                out.extend_from_slice(KEY_PREFIX.as_bytes());
            }
            let digits = self.size - (out.len() - start);
            return write_base32(index, digits, out);
        }
        match index.checked_div(self.per_directory) {
            None => out.extend_from_slice(KEY_PREFIX.as_bytes()),
            Some(directory) => self.write_directory(directory, out),
        }
        write_hex(index, 16, out);
        out.resize(start + self.size, b'k');
    }

    /// Appends the name of a directory, which ends in `/`.
    #[inline]
    pub fn write_directory(&self, directory: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(KEY_PREFIX.as_bytes());
        out.push(b'd');
        write_hex(directory, 8, out);
        out.push(b'/');
    }

    /// Returns the number of the key with this name, or with this last part of a name.
    pub fn index_of(&self, name: &[u8]) -> Option<u64> {
        let last = name.rsplit(|&byte| byte == b'/').next()?;
        if self.form != Form::Usual {
            return read_base32(last).filter(|&index| index < self.count);
        }
        let digits = last.get(..16)?;
        let text = std::str::from_utf8(digits).ok()?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        u64::from_str_radix(text, 16).ok().filter(|&index| index < self.count)
    }
}

/// Returns the size in bytes of the shortest names for `count` keys: each byte holds five bits of a number.
pub fn bare_size(count: u64) -> u64 {
    let bits = u64::from(64 - count.saturating_sub(1).leading_zeros());
    bits.div_ceil(5).max(1)
}

/// Returns the size in bytes of the shortest names that begin with [`KEY_PREFIX`], which marks our keys.
pub fn prefixed_size(count: u64) -> u64 {
    KEY_PREFIX.len() as u64 + bare_size(count)
}

#[inline]
fn write_hex(value: u64, digits: u32, out: &mut Vec<u8>) {
    let digit = |place| b"0123456789abcdef"[(value >> (4 * place)) as usize & 15];
    out.extend((0..digits).rev().map(digit));
}

const BASE32: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

#[inline]
fn write_base32(value: u64, digits: usize, out: &mut Vec<u8>) {
    let digit = |place| BASE32[value.checked_shr(5 * place).unwrap_or(0) as usize & 31];
    out.extend((0..digits as u32).rev().map(digit));
}

fn read_base32(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |value, &byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'v' => byte - b'a' + 10,
            _ => return None,
        };
        (value >> 59 == 0).then_some(value << 5 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::KeyOrder;

    fn keys(count: u64, order: KeyOrder) -> Keys {
        Keys { count, size: 64, order, per_directory: 0 }
    }

    #[test]
    fn key_has_its_size_and_parses_to_its_number() {
        for per_directory in [0, 7] {
            let space = KeySpace::new(&Keys { per_directory, ..keys(1000, KeyOrder::Uniform) });
            let mut name = Vec::new();
            space.write_key(999, &mut name);
            assert_eq!(name.len(), 64);
            assert_eq!(space.index_of(&name), Some(999));
        }
    }

    #[test]
    fn foreign_name_has_no_number() {
        let space = KeySpace::new(&keys(10, KeyOrder::Uniform));
        for name in
            ["", "x", "bakeoff/000000000000000z", "bakeoff/00000000000000ff", "+00000000000001"]
        {
            assert_eq!(space.index_of(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn short_names_have_their_size_sort_and_parse_to_their_numbers() {
        for (count, size) in [(1000, 23), (1000, 10), (1000, 8), (32, 9), (32, 1), (1 << 40, 8)] {
            let space = KeySpace::new(&Keys { size, ..keys(count, KeyOrder::Uniform) });
            let mut before = Vec::new();
            for index in [0, 1, count / 2, count - 1] {
                let mut name = Vec::new();
                space.write_key(index, &mut name);
                assert_eq!(name.len() as u64, size);
                assert_eq!(space.index_of(&name), Some(index), "{count} of {size} bytes");
                assert!(index == 0 || name > before);
                before = name;
            }
        }
    }

    #[test]
    fn names_have_the_prefix_if_it_fits() {
        let name = |count, size| {
            let mut name = Vec::new();
            KeySpace::new(&Keys { size, ..keys(count, KeyOrder::Uniform) })
                .write_key(31, &mut name);
            String::from_utf8(name).unwrap()
        };
        assert_eq!(name(32, 9), "bakeoff/v");
        assert_eq!(name(33, 10), "bakeoff/0v");
        assert_eq!(name(33, 9), "00000000v");
        assert_eq!((bare_size(1), bare_size(32), bare_size(33)), (1, 1, 2));
        assert_eq!(prefixed_size(10_000), 11);
    }
}
