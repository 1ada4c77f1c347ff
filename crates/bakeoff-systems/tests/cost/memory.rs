//! Counts in how many places of a traced process's memory a value is.
//!
//! A copy that was made on the way of a value is still there when the value is sent, because nothing clears memory.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use memchr::memmem;
use nix::unistd::Pid;

use super::generator::VALUE_SIZE;

/// Bytes by which a value is recognized.
const MARK: usize = 64;

/// Returns bytes from the middle of the value in a message, which is its longest part. `None` for a message without a
/// value.
pub(crate) fn mark(message: &[u8]) -> Option<Vec<u8>> {
    let from = (message.len() > VALUE_SIZE).then_some(message.len() / 2)?;
    message.get(from..from + MARK).map(<[u8]>::to_vec)
}

/// Memory of a stopped process.
pub(crate) struct Memory {
    bytes: File,
    process: Pid,
}

impl Memory {
    pub(crate) fn open(process: Pid) -> Option<Self> {
        Some(Self { bytes: File::open(format!("/proc/{process}/mem")).ok()?, process })
    }

    /// Reads up to `length` bytes from an address.
    pub(crate) fn read(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        let count = self.bytes.read_at(&mut bytes, address).ok()?;
        bytes.truncate(count);
        Some(bytes)
    }

    /// Returns the number of places in its writable memory that hold these bytes.
    pub(crate) fn places(&self, mark: &[u8]) -> usize {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.process)).unwrap_or_default();
        let finder = memmem::Finder::new(mark);
        let places = maps.lines().filter_map(writable).filter_map(|range| {
            let length = usize::try_from(range.end - range.start).ok()?;
            Some(finder.find_iter(&self.read(range.start, length)?).count())
        });
        places.sum()
    }
}

/// Returns the addresses of a line of `maps` (`proc_pid_maps(5)`), if the process alone may write there.
fn writable(line: &str) -> Option<Range<u64>> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    words.next()?.starts_with("rw-p").then_some(address(from)?..address(to)?)
}
