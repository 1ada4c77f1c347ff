//! Implements HPACK, the header compression of HTTP/2 (RFC 7541).
//!
//! The encoder is made for repeated requests. A field enters the dynamic table when it is first sent and takes one
//! byte afterwards. The encoder never evicts, so prepared blocks stay valid; a field that no longer fits is sent as a
//! literal. Literals are sent without Huffman coding, because they are sent only once and CPU time is scarce.
//!
//! The decoder copies fields into a reusable [`HeaderBlock`], so decoding allocates nothing once the buffers have
//! grown.
//!
//! Not here: frames (`http2`), the meaning of headers.

use std::collections::VecDeque;

use crate::ProtocolError;
use crate::hpack_tables::{CODES, EMITS, FAILS, MAY_END, STATIC, STEPS};

/// Default size of the dynamic table in bytes (RFC 9113 section 6.5.2).
pub const DEFAULT_TABLE_SIZE: usize = 4096;

/// Size of an entry beyond its name and value, in bytes (RFC 7541 section 4.1).
const ENTRY_OVERHEAD: usize = 32;

/// Stores decoded header fields, in order, in one reusable buffer.
#[derive(Debug, Clone, Default)]
pub struct HeaderBlock {
    bytes: Vec<u8>,
    fields: Vec<Field>,
}

#[derive(Debug, Clone, Copy)]
struct Field {
    start: u32,
    name: u32,
    value: u32,
}

impl HeaderBlock {
    /// Creates an empty block.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all fields but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
    }

    /// Returns a view of the fields.
    pub fn view(&self) -> Headers<'_> {
        Headers { block: self }
    }

    fn push(&mut self, name: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.close(start, name.len());
    }

    /// Adds a field from the bytes appended since `start`; the first `name` bytes are its name.
    fn close(&mut self, start: usize, name: usize) {
        let value = self.bytes.len() - start - name;
        // The list limit keeps all values far below 4 GiB.
        self.fields.push(Field { start: start as u32, name: name as u32, value: value as u32 });
    }

    fn listed_size(&self) -> usize {
        self.bytes.len() + ENTRY_OVERHEAD * self.fields.len()
    }
}

/// Gives access to the header fields of a response or its trailers.
#[derive(Debug, Clone, Copy)]
pub struct Headers<'a> {
    block: &'a HeaderBlock,
}

impl<'a> Headers<'a> {
    /// Returns the first value of the field `name`, which must be in lower case as in HTTP/2.
    pub fn get(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.iter().find(|(its, _)| *its == name).map(|(_, value)| value)
    }

    /// Returns names and values in the order received.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let block = self.block;
        block.fields.iter().map(move |field| {
            let name = field.start as usize;
            let value = name + field.name as usize;
            let end = value + field.value as usize;
            (
                block.bytes.get(name..value).unwrap_or_default(),
                block.bytes.get(value..end).unwrap_or_default(),
            )
        })
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.block.fields.len()
    }

    /// Returns true if there are no fields.
    pub fn is_empty(&self) -> bool {
        self.block.fields.is_empty()
    }
}

/// Decodes received header blocks.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// Table size that the peer's encoder may use; it may choose less.
    allowed: usize,
    list_limit: usize,
}

impl Decoder {
    /// Creates a decoder. The peer may use a dynamic table of `table_size` bytes. A header list above `list_limit`
    /// bytes is rejected, counted as in RFC 9113 section 6.5.2: name, value and 32 per field.
    pub fn new(table_size: usize, list_limit: usize) -> Self {
        Self {
            table: Table::new(table_size),
            allowed: table_size,
            list_limit: list_limit.min(1 << 30),
        }
    }

    /// Appends the fields of one complete header block to `into`.
    ///
    /// # Errors
    /// Fails if the block violates RFC 7541 or exceeds the list limit. The tables of both sides then differ, so the
    /// connection is unusable.
    pub fn decode(&mut self, block: &[u8], into: &mut HeaderBlock) -> Result<(), ProtocolError> {
        self.decode_fields(block, into).map_err(|what| ProtocolError::new(format!("hpack: {what}")))
    }

    fn decode_fields(&mut self, block: &[u8], into: &mut HeaderBlock) -> Result<(), &'static str> {
        let mut rest = block;
        let mut seen_field = false;
        while let Some(&first) = rest.first() {
            if first & 0x80 != 0 {
                // Indexed field, RFC 7541 section 6.1.
                let index = integer(&mut rest, 7)?;
                let (name, value) = self.table.entry(index)?;
                into.push(name, value);
            } else if first & 0xe0 == 0x20 {
                // Table size update, section 6.3; only allowed at the beginning, section 4.2.
                if seen_field {
                    return Err("a table size update after a field");
                }
                let size = integer(&mut rest, 5)? as usize;
                if size > self.allowed {
                    return Err("a table size update above what was allowed");
                }
                self.table.resize(size);
                continue;
            } else {
                // Literal with indexing (section 6.2.1), without (6.2.2), or never indexed (6.2.3).
                let indexing = first & 0x40 != 0;
                let index = integer(&mut rest, if indexing { 6 } else { 4 })?;
                let start = into.bytes.len();
                if index == 0 {
                    string(&mut rest, &mut into.bytes)?;
                } else {
                    let (name, _) = self.table.entry(index)?;
                    into.bytes.extend_from_slice(name);
                }
                let name = into.bytes.len() - start;
                string(&mut rest, &mut into.bytes)?;
                into.close(start, name);
                if indexing {
                    self.table.insert(into.bytes.get(start..).unwrap_or_default(), name);
                }
            }
            seen_field = true;
            if into.listed_size() > self.list_limit {
                return Err("header list larger than the limit");
            }
        }
        Ok(())
    }
}

/// Stores the dynamic table: entries follow each other in one buffer that is compacted from time to time.
#[derive(Debug)]
struct Table {
    bytes: Vec<u8>,
    /// Entries, newest last. `start` counts from the first byte ever inserted.
    entries: VecDeque<TableEntry>,
    /// Value of that count for `bytes[0]`.
    base: u64,
    size: usize,
    limit: usize,
}

#[derive(Debug, Clone, Copy)]
struct TableEntry {
    start: u64,
    name: u32,
    value: u32,
}

impl TableEntry {
    fn cost(&self) -> usize {
        self.name as usize + self.value as usize + ENTRY_OVERHEAD
    }
}

impl Table {
    fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), entries: VecDeque::new(), base: 0, size: 0, limit }
    }

    /// Returns name and value at a protocol index: 1 to 61 are static, then newest first.
    fn entry(&self, index: u32) -> Result<(&[u8], &[u8]), &'static str> {
        let index = (index as usize).checked_sub(1).ok_or("index 0")?;
        if let Some(&entry) = STATIC.get(index) {
            return Ok(entry);
        }
        let newest_first = index - STATIC.len();
        let at =
            self.entries.len().checked_sub(newest_first + 1).ok_or("an index beyond the table")?;
        let entry = self.entries.get(at).ok_or("an index beyond the table")?;
        let name = (entry.start - self.base) as usize;
        let value = name + entry.name as usize;
        let end = value + entry.value as usize;
        Ok((
            self.bytes.get(name..value).unwrap_or_default(),
            self.bytes.get(value..end).unwrap_or_default(),
        ))
    }

    fn resize(&mut self, limit: usize) {
        self.limit = limit;
        self.evict(0);
    }

    /// Evicts the oldest entries until `room` more bytes fit or the table is empty.
    fn evict(&mut self, room: usize) {
        while self.size + room > self.limit {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.size -= oldest.cost();
        }
    }

    /// Inserts a field, given as name and value in one slice. A field larger than the table empties it, which is
    /// allowed (RFC 7541 section 4.4).
    fn insert(&mut self, field: &[u8], name: usize) {
        let entry = TableEntry {
            start: self.base + self.bytes.len() as u64,
            name: name as u32,
            value: (field.len() - name) as u32,
        };
        self.evict(entry.cost());
        if entry.cost() > self.limit {
            return;
        }
        self.size += entry.cost();
        self.entries.push_back(entry);
        self.bytes.extend_from_slice(field);
        if self.bytes.len() > 2 * self.limit {
            let first = self.entries.front().map_or(entry.start, |oldest| oldest.start);
            self.bytes.drain(..(first - self.base) as usize);
            self.base = first;
        }
    }
}

/// Parses an integer with a prefix of `bits` bits (RFC 7541 section 5.1), at most 2^28: larger ones are never valid
/// here.
fn integer(rest: &mut &[u8], bits: u32) -> Result<u32, &'static str> {
    let (&first, mut bytes) = rest.split_first().ok_or("a truncated integer")?;
    let mask = (1u32 << bits) - 1;
    let mut value = u32::from(first) & mask;
    if value == mask {
        let mut shift = 0;
        loop {
            let (&byte, after) = bytes.split_first().ok_or("a truncated integer")?;
            bytes = after;
            if shift > 21 {
                return Err("an integer that is too large");
            }
            value += u32::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = bytes;
    Ok(value)
}

/// Appends a string literal (RFC 7541 section 5.2) to `into`.
fn string(rest: &mut &[u8], into: &mut Vec<u8>) -> Result<(), &'static str> {
    let huffman = rest.first().ok_or("a truncated string")? & 0x80 != 0;
    let length = integer(rest, 7)? as usize;
    let (text, after) = rest.split_at_checked(length).ok_or("a truncated string")?;
    *rest = after;
    if huffman {
        huffman_decode(text, into)
    } else {
        into.extend_from_slice(text);
        Ok(())
    }
}

fn huffman_decode(text: &[u8], into: &mut Vec<u8>) -> Result<(), &'static str> {
    into.reserve(text.len() * 8 / 5);
    let mut state = 0u8;
    for &byte in text {
        for bits in [byte >> 4, byte & 0xf] {
            let step = STEPS[state as usize][bits as usize];
            if step.what != 0 {
                if step.what & FAILS != 0 {
                    return Err("the end-of-string symbol in a Huffman string");
                }
                debug_assert_eq!(step.what, EMITS);
                into.push(step.octet);
            }
            state = step.next;
        }
    }
    if MAY_END[state as usize] { Ok(()) } else { Err("wrong padding of a Huffman string") }
}

/// Appends the Huffman code of `text`, padded with one-bits (RFC 7541 section 5.2).
///
/// Only tests use it; the [`Encoder`] does not.
pub fn huffman_encode(text: &[u8], into: &mut Vec<u8>) {
    let mut bits = 0u64;
    let mut count = 0u32;
    for &octet in text {
        let (code, length) = CODES[octet as usize];
        bits = (bits << length) | u64::from(code);
        count += u32::from(length);
        while count >= 8 {
            count -= 8;
            into.push((bits >> count) as u8);
        }
    }
    if count > 0 {
        into.push((((bits << 8) | 0xff) >> count) as u8);
    }
}

/// Encodes fields into header blocks.
#[derive(Debug)]
pub struct Encoder {
    /// Entries, oldest first.
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    size: usize,
    limit: usize,
    /// Maximum table size that we use, even if the peer allows more.
    wanted: usize,
    /// True if the next block must announce that the table was emptied and has a new limit.
    resized: bool,
    version: u64,
}

impl Encoder {
    /// Creates an encoder with a dynamic table of up to `table_size` bytes, capped at [`DEFAULT_TABLE_SIZE`].
    pub fn new(table_size: usize) -> Self {
        let wanted = table_size.min(DEFAULT_TABLE_SIZE);
        Self {
            entries: Vec::new(),
            size: 0,
            limit: wanted,
            wanted,
            // A limit other than the protocol's default must be announced.
            resized: wanted != DEFAULT_TABLE_SIZE,
            version: 0,
        }
    }

    /// Returns a number that changes whenever earlier blocks become invalid.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Applies the peer's SETTINGS_HEADER_TABLE_SIZE in bytes. If the limit changes, the table is emptied and the
    /// next block announces it.
    pub fn peer_allows(&mut self, table_size: usize) {
        let limit = table_size.min(self.wanted);
        if limit != self.limit {
            self.entries.clear();
            self.size = 0;
            self.limit = limit;
            self.resized = true;
            self.version += 1;
        }
    }

    /// Begins a block, and announces a changed table.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if self.resized {
            self.resized = false;
            self.version += 1;
            // RFC 7541 section 4.2: the smallest intermediate size, then the final one.
            put_integer(out, 0x20, 5, 0);
            if self.limit > 0 {
                put_integer(out, 0x20, 5, self.limit as u32);
            }
        }
    }

    /// Appends a field that will be repeated: an index if the table has it, otherwise a literal that enters the
    /// table, or a plain literal if the table is full.
    pub fn encode(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let known = STATIC.iter().position(|field| *field == (name, value)).map(|at| at + 1);
        let index = known.or_else(|| {
            let at = self.entries.iter().position(|(n, v)| **n == *name && **v == *value)?;
            Some(STATIC.len() + self.entries.len() - at)
        });
        if let Some(index) = index {
            return put_integer(out, 0x80, 7, index as u32);
        }
        let cost = name.len() + value.len() + ENTRY_OVERHEAD;
        if self.size + cost > self.limit {
            return literal(out, 0x00, 4, name, value);
        }
        literal(out, 0x40, 6, name, value);
        self.entries.push((name.into(), value.into()));
        self.size += cost;
        self.version += 1;
    }

    /// Appends a field that will not be repeated, without changing the table.
    pub fn encode_once(&self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        literal(out, 0x00, 4, name, value);
    }
}

fn literal(out: &mut Vec<u8>, pattern: u8, bits: u32, name: &[u8], value: &[u8]) {
    // Only static names are referenced, because their indices never change.
    match STATIC.iter().position(|(its, _)| *its == name) {
        Some(at) => put_integer(out, pattern, bits, at as u32 + 1),
        None => {
            out.push(pattern);
            put_string(out, name);
        }
    }
    put_string(out, value);
}

fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    put_integer(out, 0, 7, text.len() as u32);
    out.extend_from_slice(text);
}

fn put_integer(out: &mut Vec<u8>, pattern: u8, bits: u32, value: u32) {
    let mask = (1u32 << bits) - 1;
    if value < mask {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests;
