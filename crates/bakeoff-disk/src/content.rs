//! Holds the bytes of one file in blocks that the live file and its durable copy share.
//!
//! A block that is not there reads as zeros, so a preallocated file of 64 MB costs nothing until it is written.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a block: the page size of the kernel and the usual block size of ext4.
pub(crate) const BLOCK: usize = 4096;
/// Bytes that a disk writes as one: a block may be torn between two sectors.
pub(crate) const SECTOR: usize = 512;

/// A shared block. Writing to one that is shared copies it first.
pub(crate) type Block = Arc<[u8; BLOCK]>;

/// Size and blocks of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) size: u64,
    pub(crate) blocks: BTreeMap<u64, Block>,
}

impl Content {
    /// Reads up to `length` bytes; fewer at the end of the file.
    pub(crate) fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut read = Vec::with_capacity(length.min(left));
        while read.len() < length.min(left) {
            let (number, from) = place(offset + read.len() as u64);
            let count = (BLOCK - from).min(length.min(left) - read.len());
            match self.blocks.get(&number) {
                Some(block) => read.extend_from_slice(&block[from..from + count]),
                None => read.resize(read.len() + count, 0),
            }
        }
        read
    }

    /// Writes bytes and extends the file if needed. Calls `touched` with each written block's number.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8], mut touched: impl FnMut(u64)) {
        let mut written = 0;
        while written < data.len() {
            let (number, from) = place(offset + written as u64);
            let count = (BLOCK - from).min(data.len() - written);
            let block = self.blocks.entry(number).or_insert_with(zeros);
            Arc::make_mut(block)[from..from + count]
                .copy_from_slice(&data[written..written + count]);
            touched(number);
            written += count;
        }
        self.size = self.size.max(offset + data.len() as u64);
    }

    /// Cuts the file off, or extends it with zeros.
    pub(crate) fn resize(&mut self, size: u64) {
        if size < self.size {
            self.zero(size, self.size - size);
        }
        self.size = size;
    }

    /// Sets bytes to zero without changing the size. Frees whole blocks.
    pub(crate) fn zero(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length);
        let numbers = offset / BLOCK as u64..=end / BLOCK as u64;
        let there: Vec<u64> = self.blocks.range(numbers).map(|(&number, _)| number).collect();
        for number in there {
            let start = number * BLOCK as u64;
            let from = offset.saturating_sub(start).min(BLOCK as u64) as usize;
            let to = (end - start.min(end)).min(BLOCK as u64) as usize;
            if from == 0 && (to == BLOCK || start + to as u64 >= self.size) {
                self.blocks.remove(&number);
            } else if let Some(block) = self.blocks.get_mut(&number).filter(|_| from < to) {
                Arc::make_mut(block)[from..to].fill(0);
            }
        }
    }

    /// Returns the bytes of a block that are inside the file.
    pub(crate) fn bytes_in(&self, number: u64) -> u64 {
        self.size.saturating_sub(number * BLOCK as u64).min(BLOCK as u64)
    }
}

/// Returns a block of zeros.
pub(crate) fn zeros() -> Block {
    Arc::new([0; BLOCK])
}

fn place(offset: u64) -> (u64, usize) {
    (offset / BLOCK as u64, (offset % BLOCK as u64) as usize)
}
