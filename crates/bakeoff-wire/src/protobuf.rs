//! Implements the protobuf wire format as far as hand-written messages need it.
//!
//! Messages are written directly into a buffer. A nested message needs its length first, which the `*_len` functions
//! compute. Messages are read as a sequence of fields, and the reader picks those it knows. So nothing is generated
//! or allocated.
//!
//! Source: <https://protobuf.dev/programming-guides/encoding/>.
//!
//! Not here: schemas, groups (long deprecated), zigzag integers, packed fields (a packed field is [`Value::Bytes`],
//! which [`varint`] can split).

use crate::ProtocolError;

/// Returns the bytes that `value` takes as a varint: 1 to 10.
pub const fn varint_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Returns the bytes of a varint field, including the tag. A field with the default, 0, is absent in proto3 and takes
/// none.
pub const fn uint_len(field: u32, value: u64) -> usize {
    if value == 0 { 0 } else { varint_len((field as u64) << 3) + varint_len(value) }
}

/// Returns the bytes of a length-delimited field with `length` bytes of content, including the tag.
pub const fn bytes_len(field: u32, length: usize) -> usize {
    varint_len((field as u64) << 3) + varint_len(length as u64) + length
}

/// Appends a varint.
pub fn put_varint(out: &mut Vec<u8>, value: u64) {
    let mut rest = value;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends a varint field; also for `int64` (cast to `u64`), `bool` and enums. Writes nothing for 0, as proto3
/// specifies.
pub fn put_uint(out: &mut Vec<u8>, field: u32, value: u64) {
    if value != 0 {
        put_varint(out, u64::from(field) << 3);
        put_varint(out, value);
    }
}

/// Appends a `bytes` or `string` field, even if empty.
pub fn put_bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    put_message_header(out, field, value.len());
    out.extend_from_slice(value);
}

/// Begins a nested message. The caller must append exactly `length` bytes of its fields next.
pub fn put_message_header(out: &mut Vec<u8>, field: u32, length: usize) {
    put_varint(out, u64::from(field) << 3 | 2);
    put_varint(out, length as u64);
}

/// Holds the content of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// Wire type 0: integers (cast an `int64` back with `as i64`), `bool`, enums.
    Varint(u64),
    /// Wire type 1, little-endian.
    Fixed64(u64),
    /// Wire type 2: `bytes`, `string`, nested messages, packed fields.
    Bytes(&'a [u8]),
    /// Wire type 5, little-endian.
    Fixed32(u32),
}

impl<'a> Value<'a> {
    /// Returns the integer, or 0 for another wire type.
    pub fn as_uint(self) -> u64 {
        if let Value::Varint(value) = self { value } else { 0 }
    }

    /// Returns the bytes, or an empty slice for another wire type.
    pub fn as_bytes(self) -> &'a [u8] {
        if let Value::Bytes(bytes) = self { bytes } else { &[] }
    }
}

/// Splits a varint off the front of `rest`.
///
/// # Errors
/// Fails if it is truncated or longer than 64 bits.
pub fn varint(rest: &mut &[u8]) -> Result<u64, ProtocolError> {
    let mut value = 0u64;
    for (at, &byte) in rest.iter().enumerate().take(10) {
        if at == 9 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *rest = rest.get(at + 1..).unwrap_or_default();
            return Ok(value);
        }
    }
    Err(ProtocolError::new(if rest.len() < 10 {
        "protobuf: a truncated varint"
    } else {
        "protobuf: a varint of more than 64 bits"
    }))
}

/// Iterates over the fields of one message in order: number and content. Ends after an error.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Starts at the first field of `message`.
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn field(&mut self) -> Result<(u32, Value<'a>), ProtocolError> {
        let tag = varint(&mut self.rest)?;
        let number = u32::try_from(tag >> 3).ok().filter(|n| (1..1 << 29).contains(n));
        let number = number.ok_or_else(|| ProtocolError::new("protobuf: a bad field number"))?;
        let value = match tag & 7 {
            0 => Value::Varint(varint(&mut self.rest)?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = varint(&mut self.rest)?;
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            other => {
                return Err(ProtocolError::new(format!("protobuf: wire type {other}")));
            }
        };
        Ok((number, value))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtocolError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or_else(|| ProtocolError::new("protobuf: a truncated field"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let (taken, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or_else(|| ProtocolError::new("protobuf: a truncated field"))?;
        self.rest = rest;
        Ok(*taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), ProtocolError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(message: &[u8], expected: Result<&[(u32, Value<'_>)], &str>) {
        let fields: Result<Vec<_>, _> = Fields::new(message).collect();
        let fields = fields.as_deref().map_err(|error| error.what.as_str());
        assert_eq!(fields, expected);
    }

    #[test]
    fn fields_come_with_number_and_content() {
        check(&[], Ok(&[]));
        check(&[0x08, 0x96, 0x01], Ok(&[(1, Value::Varint(150))]));
        check(b"\x12\x07testing", Ok(&[(2, Value::Bytes(b"testing"))]));
        check(&[0x0d, 1, 0, 0, 0], Ok(&[(1, Value::Fixed32(1))]));
        check(&[0x09, 1, 0, 0, 0, 0, 0, 0, 0], Ok(&[(1, Value::Fixed64(1))]));
    }

    #[test]
    fn malformed_messages_are_errors() {
        check(&[0x08], Err("protobuf: a truncated varint"));
        check(&[0x08, 0x80], Err("protobuf: a truncated varint"));
        check(&[0xff; 11], Err("protobuf: a varint of more than 64 bits"));
        check(&[0x12, 2, 0], Err("protobuf: a truncated field"));
        check(&[0x0d, 0, 0, 0], Err("protobuf: a truncated field"));
        check(&[0x0b], Err("protobuf: wire type 3"));
        check(&[0x00, 0], Err("protobuf: a bad field number"));
    }

    #[test]
    fn negative_int64_takes_ten_bytes() {
        assert_eq!(varint_len(-1i64 as u64), 10);
        let mut out = Vec::new();
        put_uint(&mut out, 1, -1i64 as u64);
        check(&out, Ok(&[(1, Value::Varint(u64::MAX))]));
    }

    proptest! {
        #[test]
        fn written_messages_are_read_back_and_have_the_computed_length(
            field in 1u32..1 << 29, value in 1u64.., bytes: Vec<u8>,
        ) {
            let mut out = Vec::new();
            let inner = uint_len(field, value) + bytes_len(field, bytes.len());
            put_message_header(&mut out, field, inner);
            let before = out.len();
            put_uint(&mut out, field, value);
            put_bytes(&mut out, field, &bytes);
            prop_assert_eq!(out.len() - before, inner);
            prop_assert_eq!(out.len(), bytes_len(field, inner));
            let outer: Vec<_> = Fields::new(&out).collect();
            prop_assert_eq!(&outer, &[Ok((field, Value::Bytes(&out[before..])))]);
            let fields: Vec<_> = Fields::new(&out[before..]).collect();
            prop_assert_eq!(
                fields, [Ok((field, Value::Varint(value))), Ok((field, Value::Bytes(&bytes)))]);
        }

        #[test]
        fn arbitrary_messages_never_panic(message: Vec<u8>) {
            let _ = Fields::new(&message).count();
        }
    }
}
