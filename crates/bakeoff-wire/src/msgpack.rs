//! Implements MessagePack encoding and decoding.
//!
//! Source: "MessagePack specification" (<https://github.com/msgpack/msgpack/blob/master/spec.md>). Values borrow from
//! the input. Nothing is copied, and no memory is reserved for a claimed length. Lists and maps are checked before
//! use: complete, and nested at most [`DEPTH_MAX`] deep.
//!
//! Not here: the meaning of values (`iproto`), the content of extensions.

use std::fmt;

use rmp::{Marker, encode};

/// Maximum nesting depth of lists and maps.
pub const DEPTH_MAX: u32 = 32;

/// Holds a decoded value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// Null value.
    Nil,
    /// Boolean value.
    Bool(bool),
    /// Non-negative integer.
    Unsigned(u64),
    /// Negative integer. Non-negative ones are written and read as [`Value::Unsigned`].
    Signed(i64),
    /// Floating-point number.
    Float(f64),
    /// Text that was not checked to be UTF-8.
    Text(&'a [u8]),
    /// Binary data.
    Bytes(&'a [u8]),
    /// List of values.
    Array(Array<'a>),
    /// Keys and their values.
    Map(Map<'a>),
    /// Extension of an application-defined type.
    Extension(i8, &'a [u8]),
}

impl<'a> Value<'a> {
    /// Returns the content of text or binary data.
    pub fn bytes(&self) -> Option<&'a [u8]> {
        match *self {
            Self::Text(bytes) | Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns a non-negative integer.
    pub fn unsigned(&self) -> Option<u64> {
        match *self {
            Self::Unsigned(number) => Some(number),
            _ => None,
        }
    }
}

/// Iterates over the values of a list, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Array<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> Iterator for Array<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        let left = self.left.checked_sub(1)?;
        let (value, rest) = read(self.rest).ok()?;
        (self.left, self.rest) = (left, rest);
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Array<'_> {}

/// Iterates over the entries of a map, in order. Keys may repeat.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Map<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> Iterator for Map<'a> {
    type Item = (Value<'a>, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.left.checked_sub(1)?;
        let (key, rest) = read(self.rest).ok()?;
        let (value, rest) = read(rest).ok()?;
        (self.left, self.rest) = (left, rest);
        Some((key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Map<'_> {}

/// Explains why bytes are not a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end before the value does.
    Truncated,
    /// No value begins with this byte.
    Reserved,
    /// Lists and maps are nested more than [`DEPTH_MAX`] deep.
    TooDeep,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "a truncated value",
            Self::Reserved => "a byte that begins no value",
            Self::TooDeep => "values that are nested too deep",
        })
    }
}

/// Decodes the first value. Also returns the remaining bytes.
///
/// # Errors
/// Fails if the bytes do not start with a complete value.
pub fn read(input: &[u8]) -> Result<(Value<'_>, &[u8]), DecodeError> {
    let (head, rest) = head(input)?;
    Ok(match head {
        Head::Value(value) => (value, rest),
        Head::Array(left) => {
            let (content, rest) = whole(rest, u64::from(left))?;
            (Value::Array(Array { rest: content, left }), rest)
        }
        Head::Map(left) => {
            let (content, rest) = whole(rest, 2 * u64::from(left))?;
            (Value::Map(Map { rest: content, left }), rest)
        }
    })
}

/// Holds the start of a value: all of it, unless it contains others.
enum Head<'a> {
    Value(Value<'a>),
    Array(u32),
    Map(u32),
}

fn head(input: &[u8]) -> Result<(Head<'_>, &[u8]), DecodeError> {
    let (&first, rest) = input.split_first().ok_or(DecodeError::Truncated)?;
    let (value, rest) = match Marker::from_u8(first) {
        Marker::Null => (Value::Nil, rest),
        Marker::False => (Value::Bool(false), rest),
        Marker::True => (Value::Bool(true), rest),
        Marker::FixPos(number) => (Value::Unsigned(number.into()), rest),
        Marker::FixNeg(number) => (Value::Signed(number.into()), rest),
        Marker::U8 => number(rest, 1, Value::Unsigned)?,
        Marker::U16 => number(rest, 2, Value::Unsigned)?,
        Marker::U32 => number(rest, 4, Value::Unsigned)?,
        Marker::U64 => number(rest, 8, Value::Unsigned)?,
        Marker::I8 => number(rest, 1, |bits| whole_number((bits as i8).into()))?,
        Marker::I16 => number(rest, 2, |bits| whole_number((bits as i16).into()))?,
        Marker::I32 => number(rest, 4, |bits| whole_number((bits as i32).into()))?,
        Marker::I64 => number(rest, 8, |bits| whole_number(bits as i64))?,
        Marker::F32 => number(rest, 4, |bits| Value::Float(f32::from_bits(bits as u32).into()))?,
        Marker::F64 => number(rest, 8, |bits| Value::Float(f64::from_bits(bits)))?,
        Marker::FixStr(length) => bytes(rest, length.into(), Value::Text)?,
        Marker::Str8 => counted(rest, 1, Value::Text)?,
        Marker::Str16 => counted(rest, 2, Value::Text)?,
        Marker::Str32 => counted(rest, 4, Value::Text)?,
        Marker::Bin8 => counted(rest, 1, Value::Bytes)?,
        Marker::Bin16 => counted(rest, 2, Value::Bytes)?,
        Marker::Bin32 => counted(rest, 4, Value::Bytes)?,
        Marker::FixExt1 => extension(rest, 1)?,
        Marker::FixExt2 => extension(rest, 2)?,
        Marker::FixExt4 => extension(rest, 4)?,
        Marker::FixExt8 => extension(rest, 8)?,
        Marker::FixExt16 => extension(rest, 16)?,
        Marker::Ext8 => unsigned(rest, 1).and_then(|(length, rest)| extension(rest, length))?,
        Marker::Ext16 => unsigned(rest, 2).and_then(|(length, rest)| extension(rest, length))?,
        Marker::Ext32 => unsigned(rest, 4).and_then(|(length, rest)| extension(rest, length))?,
        Marker::FixArray(count) => return Ok((Head::Array(count.into()), rest)),
        Marker::FixMap(count) => return Ok((Head::Map(count.into()), rest)),
        // Counts have at most four bytes.
        Marker::Array16 => return unsigned(rest, 2).map(|(n, rest)| (Head::Array(n as u32), rest)),
        Marker::Array32 => return unsigned(rest, 4).map(|(n, rest)| (Head::Array(n as u32), rest)),
        Marker::Map16 => return unsigned(rest, 2).map(|(n, rest)| (Head::Map(n as u32), rest)),
        Marker::Map32 => return unsigned(rest, 4).map(|(n, rest)| (Head::Map(n as u32), rest)),
        Marker::Reserved => return Err(DecodeError::Reserved),
    };
    Ok((Head::Value(value), rest))
}

fn whole_number(number: i64) -> Value<'static> {
    u64::try_from(number).map_or(Value::Signed(number), Value::Unsigned)
}

/// Splits off `count` values, which may be nested.
fn whole(input: &[u8], count: u64) -> Result<(&[u8], &[u8]), DecodeError> {
    // Values still missing at each depth. The first list or map counts as one level.
    let mut due = [0_u64; DEPTH_MAX as usize];
    due[0] = count;
    let (mut depth, mut rest) = (0, input);
    loop {
        if due[depth] == 0 {
            if depth == 0 {
                return Ok(input.split_at(input.len() - rest.len()));
            }
            depth -= 1;
            continue;
        }
        due[depth] -= 1;
        let (head, after) = head(rest)?;
        rest = after;
        let inside = match head {
            Head::Value(_) => continue,
            Head::Array(count) => u64::from(count),
            Head::Map(count) => 2 * u64::from(count),
        };
        depth += 1;
        *due.get_mut(depth).ok_or(DecodeError::TooDeep)? = inside;
    }
}

/// Decoded value and the remaining bytes.
type DecodeResult<'a> = Result<(Value<'a>, &'a [u8]), DecodeError>;

/// Decodes a number of `width` bytes; `make` converts its bits.
fn number<'a>(input: &'a [u8], width: usize, make: fn(u64) -> Value<'static>) -> DecodeResult<'a> {
    unsigned(input, width).map(|(bits, rest)| (make(bits), rest))
}

fn bytes<'a>(input: &'a [u8], length: u64, make: fn(&'a [u8]) -> Value<'a>) -> DecodeResult<'a> {
    split(input, length).map(|(bytes, rest)| (make(bytes), rest))
}

/// Decodes a length of `width` bytes, and that many bytes.
fn counted<'a>(input: &'a [u8], width: usize, make: fn(&'a [u8]) -> Value<'a>) -> DecodeResult<'a> {
    unsigned(input, width).and_then(|(length, rest)| bytes(rest, length, make))
}

/// Decodes an extension's type, and `length` bytes.
fn extension(input: &[u8], length: u64) -> DecodeResult<'_> {
    let (&kind, rest) = input.split_first().ok_or(DecodeError::Truncated)?;
    let (bytes, rest) = split(rest, length)?;
    Ok((Value::Extension(kind as i8, bytes), rest))
}

fn split(input: &[u8], length: u64) -> Result<(&[u8], &[u8]), DecodeError> {
    let length = usize::try_from(length).map_err(|_| DecodeError::Truncated)?;
    input.split_at_checked(length).ok_or(DecodeError::Truncated)
}

/// Decodes a big-endian number of 1, 2, 4 or 8 bytes.
fn unsigned(input: &[u8], width: usize) -> Result<(u64, &[u8]), DecodeError> {
    let (bytes, rest) = input.split_at_checked(width).ok_or(DecodeError::Truncated)?;
    Ok((bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)), rest))
}

/// Appends a value in its shortest encoding.
pub fn put(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Nil => written(encode::write_nil(out)),
        Value::Bool(yes) => written(encode::write_bool(out, *yes)),
        Value::Unsigned(number) => put_unsigned(*number, out),
        Value::Signed(number) => written(encode::write_sint(out, *number)),
        Value::Float(number) => written(encode::write_f64(out, *number)),
        Value::Text(text) => put_text(text, out),
        Value::Bytes(bytes) => put_bytes(bytes, out),
        Value::Array(array) => {
            put_array(array.left, out);
            out.extend_from_slice(array.rest);
        }
        Value::Map(map) => {
            put_map(map.left, out);
            out.extend_from_slice(map.rest);
        }
        Value::Extension(kind, bytes) => {
            written(encode::write_ext_meta(out, length(bytes), *kind));
            out.extend_from_slice(bytes);
        }
    }
}

/// Appends a non-negative integer.
pub fn put_unsigned(number: u64, out: &mut Vec<u8>) {
    written(encode::write_uint(out, number));
}

/// Appends text.
pub fn put_text(text: &[u8], out: &mut Vec<u8>) {
    written(encode::write_str_len(out, length(text)));
    out.extend_from_slice(text);
}

/// Appends binary data.
pub fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    written(encode::write_bin_len(out, length(bytes)));
    out.extend_from_slice(bytes);
}

/// Begins a list; `count` values must follow.
pub fn put_array(count: u32, out: &mut Vec<u8>) {
    written(encode::write_array_len(out, count));
}

/// Begins a map; `count` pairs of key and value must follow.
pub fn put_map(count: u32, out: &mut Vec<u8>) {
    written(encode::write_map_len(out, count));
}

/// Returns a length in MessagePack's 32 bits. Lengths of 4 GiB or more cannot be encoded and wrap.
fn length(bytes: &[u8]) -> u32 {
    bytes.len() as u32
}

/// Unwraps a write to memory, which cannot fail.
fn written<T, E: fmt::Debug>(result: Result<T, E>) {
    result.expect("memory takes all bytes");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
        digits.chunks(2).map(|digits| digits[0] << 4 | digits[1]).collect()
    }

    fn check(hex: &str, expected: Result<Value<'_>, DecodeError>) {
        let input = bytes(hex);
        let read = read(&input).map(|(value, rest)| {
            assert!(rest.is_empty(), "{hex}: {} bytes are left", rest.len());
            value
        });
        assert_eq!(read, expected, "{hex}");
    }

    #[test]
    fn every_format_of_the_specification_is_read() {
        use Value::{Bool, Bytes, Extension, Float, Nil, Signed, Text, Unsigned};
        check("c0", Ok(Nil));
        check("c2", Ok(Bool(false)));
        check("c3", Ok(Bool(true)));
        check("7f", Ok(Unsigned(127)));
        check("cc ff", Ok(Unsigned(255)));
        check("cd ffff", Ok(Unsigned(65_535)));
        check("ce ffffffff", Ok(Unsigned(u32::MAX.into())));
        check("cf ffffffffffffffff", Ok(Unsigned(u64::MAX)));
        check("e0", Ok(Signed(-32)));
        check("ff", Ok(Signed(-1)));
        check("d0 80", Ok(Signed(-128)));
        check("d0 7f", Ok(Unsigned(127)));
        check("d1 8000", Ok(Signed(-32_768)));
        check("d2 80000000", Ok(Signed(i32::MIN.into())));
        check("d3 8000000000000000", Ok(Signed(i64::MIN)));
        check("ca 3fc00000", Ok(Float(1.5)));
        check("cb 3ff8000000000000", Ok(Float(1.5)));
        check("a2 6162", Ok(Text(b"ab")));
        check("d9 02 6162", Ok(Text(b"ab")));
        check("da 0002 6162", Ok(Text(b"ab")));
        check("db 00000002 6162", Ok(Text(b"ab")));
        check("c4 02 6162", Ok(Bytes(b"ab")));
        check("c5 0002 6162", Ok(Bytes(b"ab")));
        check("c6 00000002 6162", Ok(Bytes(b"ab")));
        check("d4 fe 61", Ok(Extension(-2, b"a")));
        check("d6 01 61626364", Ok(Extension(1, b"abcd")));
        check("c7 03 01 616263", Ok(Extension(1, b"abc")));
        check("c8 0003 01 616263", Ok(Extension(1, b"abc")));
        check("c9 00000003 01 616263", Ok(Extension(1, b"abc")));
    }

    #[test]
    fn lists_and_maps_are_iterated_without_a_copy() {
        for hex in ["92 01 92 02 a1 61", "dc 0002 01 92 02 a1 61", "dd 00000002 01 92 02 a1 61"] {
            let input = bytes(hex);
            let (Value::Array(mut list), b"") = read(&input).unwrap() else { panic!("{hex}") };
            assert_eq!(list.len(), 2);
            assert_eq!(list.next(), Some(Value::Unsigned(1)));
            let Some(Value::Array(inner)) = list.next() else { panic!("{hex}") };
            assert_eq!(inner.collect::<Vec<_>>(), [Value::Unsigned(2), Value::Text(b"a")]);
            assert_eq!(list.next(), None);
        }
        for hex in ["81 01 c0", "de 0001 01 c0", "df 00000001 01 c0"] {
            let input = bytes(hex);
            let (Value::Map(map), b"") = read(&input).unwrap() else { panic!("{hex}") };
            assert_eq!(map.collect::<Vec<_>>(), [(Value::Unsigned(1), Value::Nil)]);
        }
    }

    #[test]
    fn rejects_malformed_values() {
        check("", Err(DecodeError::Truncated));
        check("c1", Err(DecodeError::Reserved));
        check("92 01", Err(DecodeError::Truncated));
        check("92 01 c1", Err(DecodeError::Reserved));
        check("81 01", Err(DecodeError::Truncated));
        check("cd ff", Err(DecodeError::Truncated));
        check("a3 6162", Err(DecodeError::Truncated));
        check("d4 01", Err(DecodeError::Truncated));
        // Claimed lengths reserve no memory.
        check("dd ffffffff", Err(DecodeError::Truncated));
        check("df ffffffff 01", Err(DecodeError::Truncated));
        check("c6 ffffffff", Err(DecodeError::Truncated));
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |depth: usize| [vec![0x91; depth], vec![0xc0]].concat();
        assert!(read(&nested(DEPTH_MAX as usize)).is_ok());
        assert_eq!(read(&nested(DEPTH_MAX as usize + 1)), Err(DecodeError::TooDeep));
        assert_eq!(read(&nested(1_000_000)), Err(DecodeError::TooDeep));
    }

    /// Generates a value that owns its content.
    #[derive(Debug, Clone)]
    enum OwnedValue {
        Plain(i128),
        Float(f64),
        Text(Vec<u8>),
        Bytes(Vec<u8>),
        Extension(i8, Vec<u8>),
        Array(Vec<OwnedValue>),
        Map(Vec<(OwnedValue, OwnedValue)>),
    }

    fn owned() -> impl Strategy<Value = OwnedValue> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..300);
        let leaf = prop_oneof![
            any::<u64>().prop_map(|number| OwnedValue::Plain(number.into())),
            any::<i64>().prop_map(|number| OwnedValue::Plain(number.into())),
            (-200_i128..70_000).prop_map(OwnedValue::Plain),
            any::<f64>().prop_filter("is itself", |n| !n.is_nan()).prop_map(OwnedValue::Float),
            bytes().prop_map(OwnedValue::Text),
            bytes().prop_map(OwnedValue::Bytes),
            (any::<i8>(), bytes()).prop_map(|(kind, bytes)| OwnedValue::Extension(kind, bytes)),
        ];
        leaf.prop_recursive(4, 64, 20, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..20).prop_map(OwnedValue::Array),
                proptest::collection::vec((inner.clone(), inner), 0..20).prop_map(OwnedValue::Map),
            ]
        })
    }

    fn written(value: &OwnedValue, out: &mut Vec<u8>) {
        match value {
            OwnedValue::Plain(number) => match u64::try_from(*number) {
                Ok(number) => put(&Value::Unsigned(number), out),
                Err(_) => put(&Value::Signed(*number as i64), out),
            },
            OwnedValue::Float(number) => put(&Value::Float(*number), out),
            OwnedValue::Text(text) => put(&Value::Text(text), out),
            OwnedValue::Bytes(bytes) => put(&Value::Bytes(bytes), out),
            OwnedValue::Extension(kind, bytes) => put(&Value::Extension(*kind, bytes), out),
            OwnedValue::Array(values) => {
                put_array(values.len() as u32, out);
                values.iter().for_each(|value| written(value, out));
            }
            OwnedValue::Map(entries) => {
                put_map(entries.len() as u32, out);
                entries.iter().for_each(|(key, value)| {
                    written(key, out);
                    written(value, out);
                });
            }
        }
    }

    fn is(value: &Value<'_>, expected: &OwnedValue) -> bool {
        match (value, expected) {
            (Value::Unsigned(number), OwnedValue::Plain(other)) => i128::from(*number) == *other,
            (Value::Signed(number), OwnedValue::Plain(other)) => i128::from(*number) == *other,
            (Value::Float(number), OwnedValue::Float(other)) => number == other,
            (Value::Text(bytes), OwnedValue::Text(other)) => bytes == other,
            (Value::Bytes(bytes), OwnedValue::Bytes(other)) => bytes == other,
            (Value::Extension(kind, bytes), OwnedValue::Extension(other, others)) => {
                kind == other && bytes == others
            }
            (Value::Array(values), OwnedValue::Array(others)) => {
                values.len() == others.len()
                    && values.clone().zip(others).all(|(value, other)| is(&value, other))
            }
            (Value::Map(entries), OwnedValue::Map(others)) => {
                entries.len() == others.len()
                    && entries.clone().zip(others).all(|((key, value), (other, others))| {
                        is(&key, other) && is(&value, others)
                    })
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn written_values_are_read_back(value in owned()) {
            let mut out = Vec::new();
            written(&value, &mut out);
            let (seen, rest) = read(&out).unwrap();
            prop_assert!(rest.is_empty() && is(&seen, &value), "{:?}", seen);
            let mut again = Vec::new();
            put(&seen, &mut again);
            prop_assert_eq!(again, out);
        }

        #[test]
        fn any_bytes_are_a_value_or_an_error(input: Vec<u8>) {
            if let Ok((value, rest)) = read(&input) {
                let mut again = Vec::new();
                put(&value, &mut again);
                prop_assert!(again.len() <= input.len() - rest.len() + 4, "a float may grow");
            }
        }
    }
}
