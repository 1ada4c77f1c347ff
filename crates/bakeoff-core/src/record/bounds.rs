//! Bounds the numbers of a record, which may come from an untrusted source.
//!
//! A line's numbers are checked before it is parsed. Each has a bound, a tighter one for fields that count things or
//! seconds, and all numbers of a record together have one. So no sum can exceed 64 bits, and no loop over seconds or
//! trials runs forever.
//!
//! Not here: the consistency of values, histograms (`crate::histogram`), the study of a resumed run.

use std::fmt;

/// Maximum magnitude of any field.
const NUMBER_MAX: u64 = 1_000_000_000_000_000;

/// Maximum of a field that counts seconds, trials or clients: three years in seconds.
const COUNT_MAX: u64 = 100_000_000;

/// Fields that count seconds, trials, rounds, clients or threads.
const COUNTS: &[&[u8]] = &[
    b"at",
    b"began",
    b"before",
    b"clients",
    b"disconnected",
    b"every",
    b"from",
    b"generator_cpu",
    b"generator_threads",
    b"in_flight",
    b"measured_from",
    b"nodes",
    b"number",
    b"ready_after",
    b"round",
    b"sample_every",
    b"second",
    b"seconds",
    b"thread",
    b"timeout",
    b"to",
    b"trials",
    b"warmup",
    b"window",
];

/// Fields that hold any 64-bit number, and are never added up.
const ANY: &[&[u8]] = &[b"seed"];

/// Maximum sum of all numbers of a record. Numbers that are counted twice still fit 64 bits.
const SUM_MAX: u64 = 1 << 62;

/// Describes a number that no run of bakeoff records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutOfBounds {
    field: String,
    number: String,
    bound: u64,
}

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, number, bound } = self;
        write!(f, "`{field}` is {number}, and at most {bound} is possible")
    }
}

/// Adds a line's numbers to `sum`, each rounded up to a whole number.
///
/// # Errors
/// Fails if a number, or the sum, exceeds its bound. Invalid JSON is not an error here.
pub(crate) fn check(line: &str, sum: &mut u64) -> Result<(), OutOfBounds> {
    let bytes = line.as_bytes();
    let (mut at, mut key) = (0, &bytes[..0]);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = end_of_string(bytes, at + 1);
                if bytes.get(end + 1) == Some(&b':') {
                    key = bytes.get(at + 1..end).unwrap_or_default();
                }
                at = end + 1;
            }
            b'0'..=b'9' => {
                let rest = bytes.get(at..).unwrap_or_default();
                let length = rest.iter().position(|&byte| !is_of_number(byte));
                let number = &rest[..length.unwrap_or(rest.len())];
                at += number.len();
                let value = magnitude(number);
                let bound = match key {
                    key if ANY.contains(&key) => continue,
                    key if COUNTS.contains(&key) => COUNT_MAX,
                    _ => NUMBER_MAX,
                };
                *sum = sum.saturating_add(value);
                let bound = if *sum > SUM_MAX { SUM_MAX } else { bound };
                if value > bound || *sum > SUM_MAX {
                    let text = |bytes: &[u8]| {
                        String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned()
                    };
                    return Err(OutOfBounds { field: text(key), number: text(number), bound });
                }
            }
            _ => at += 1,
        }
    }
    Ok(())
}

/// Returns the end of the string whose text begins at `from`: its closing quote, or the end of input.
fn end_of_string(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-')
}

/// Returns a number's magnitude, rounded up and saturated at 64 bits.
fn magnitude(number: &[u8]) -> u64 {
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit());
    let whole = digits
        .fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    if number.iter().all(u8::is_ascii_digit) {
        return whole;
    }
    if !number.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        return whole.saturating_add(1);
    }
    let value = std::str::from_utf8(number).ok().and_then(|text| text.parse::<f64>().ok());
    value.map_or(u64::MAX, |value| value.abs().ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> Option<String> {
        check(line, &mut 0).err().map(|out| out.to_string())
    }

    #[test]
    fn numbers_beyond_their_bounds_are_rejected_with_their_field() {
        assert_eq!(refused("{\"window\":60.5,\"verified\":1000000000000000}"), None);
        let window = refused("{\"window\":1e12}").unwrap();
        assert_eq!(window, "`window` is 1e12, and at most 100000000 is possible");
        assert!(refused("{\"window\": -1e300}").unwrap().starts_with("`window` is 1e300"));
        assert!(refused("{\"verified\":1000000000000001}").unwrap().starts_with("`verified`"));
        assert!(refused("{\"at\":[1,2,99999999999]}").unwrap().starts_with("`at`"));
        assert!(refused("{\"x\":99999999999999999999999999}").unwrap().starts_with("`x`"));
        assert_eq!(refused("{\"seed\":18446744073709551615}"), None);
    }

    #[test]
    fn numbers_inside_texts_do_not_count() {
        assert_eq!(refused("{\"why\":\"99999999999999999999 \\\" 1e99\",\"to\":1}"), None);
        assert_eq!(refused("\"99999999999999999999"), None);
        assert_eq!(refused("\"\\"), None);
    }

    #[test]
    fn numbers_that_sum_beyond_64_bits_are_rejected() {
        let mut sum = 0;
        let line = format!("[{}1]", "1000000000000000,".repeat(1000));
        let all = (0..10).map(|_| check(&line, &mut sum)).collect::<Vec<_>>();
        assert_eq!(all.iter().position(Result::is_err), Some(4));
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_checked(line in "[\\[\\]{}\":,\\\\a-z0-9eE.+-]{0,80}") {
            check(&line, &mut 0).ok();
        }
    }
}
