//! The names of a workload's keys.
//!
//! Each follows from the key's number, and tells it.
//!
//! Not here: which key is next (`choose`).

use super::KEY_PREFIX;
use crate::study::Keys;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::KeyOrder;

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
}
