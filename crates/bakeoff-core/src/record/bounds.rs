//! Bounds what a record may hold, which may come from an untrusted source.
//!
//! A line is checked before it is parsed. Each number has a bound, a tighter one for fields that count things or
//! seconds, and all numbers of a record together have one. So no sum can exceed 64 bits, and no loop over seconds or
//! trials runs forever. Texts and lists have bounds, and so has the memory that a report takes for all objects: no record
//! needs more than 512 MiB and twice its own size.
//!
//! Not here: the consistency of values, histograms (`crate::histogram`), the study of a resumed run.

use std::fmt;

use super::RunHeader;
use crate::study::{NAMES_MAX, TRIALS_MAX};

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

/// Memory that the objects and numbers of a record may take in a report, besides as many bytes as the record has.
const MEMORY_MAX: u64 = 384 << 20;

/// Memory that a report takes for an object of a field, in bytes, measured with thousands of them. A page has a row or
/// a picture for most.
const OBJECTS: &[(&[u8], u64)] =
    &[(b"stages", 18 << 10), (b"injections", 18 << 10), (b"audits", 5 << 10), (b"checks", 4 << 10)];
/// The same for a line, which may be a trial.
const LINE: u64 = 14 << 10;
/// The same for the figures of an operation.
const OPERATION: u64 = 18 << 10;
/// The same for an object within `seconds`. Each operation has three of them a second.
const OF_A_SECOND: u64 = 700;
/// The same for any other object.
const OTHER: u64 = 2 << 10;
/// The same for a number.
const NUMBER: u64 = 24;

/// Maximum numbers of one list: samples of almost three days, once a second.
const LIST_MAX: u64 = 250_000;

/// Maximum length of a text in bytes: that of a histogram, or of all texts of a study.
const TEXT_MAX: usize = 1 << 20;
/// Maximum length of a text that a report repeats.
const NAME_MAX: usize = 4 << 10;
/// Fields with such texts.
const NAMES: &[&[u8]] = &[b"kind", b"load", b"name", b"node", b"system", b"title", b"workload"];

/// Describes what no run of bakeoff records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutOfBounds {
    /// A number is too large, alone or with those before it.
    Number { field: String, number: String, bound: u64 },
    /// A text is too long.
    Text { field: String, bytes: usize, bound: usize },
    /// A list has too many numbers.
    List { field: String },
    /// The study has too many parts of one sort.
    Study { field: &'static str, count: u64, bound: u64 },
    /// A report would take too much memory.
    Memory,
}

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { field, number, bound } => {
                write!(f, "`{field}` is {number}, and at most {bound} is possible")
            }
            Self::Text { field, bytes, bound } => {
                write!(f, "`{field}` has {bytes} bytes, and at most {bound} are possible")
            }
            Self::List { field } => {
                write!(f, "`{field}` has more than {LIST_MAX} numbers")
            }
            Self::Study { field, count, bound } => {
                write!(f, "the study has {count} {field}, and at most {bound} are possible")
            }
            Self::Memory => f.write_str("with this line a report would take too much memory"),
        }
    }
}

/// Adds up what a record's lines hold so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    /// Sum of all numbers, each rounded up to a whole one.
    numbers: u64,
    /// Bytes of all lines.
    bytes: u64,
    /// Memory that a report takes, in bytes.
    memory: u64,
}

/// A list or an object that has not ended yet.
struct Open<'a> {
    /// Field that it is the value of, or whose list it belongs to.
    field: &'a [u8],
    /// Numbers in it.
    numbers: u64,
}

impl Sums {
    /// Adds a line, unless it is refused.
    ///
    /// # Errors
    /// Fails if a number, a text or a sum exceeds its bound. Invalid JSON is not an error here.
    pub(crate) fn add(&mut self, line: &[u8]) -> Result<(), OutOfBounds> {
        let mut sums = *self;
        sums.add_values(line)?;
        *self = sums;
        Ok(())
    }

    fn add_values(&mut self, line: &[u8]) -> Result<(), OutOfBounds> {
        self.bytes += line.len() as u64;
        let mut open: Vec<Open<'_>> = Vec::new();
        let (mut at, mut key) = (0, &line[..0]);
        while let Some(&byte) = line.get(at) {
            let rest = line.get(at..).unwrap_or_default();
            at += match byte {
                b'"' => {
                    let end = end_of_string(rest, 1);
                    let content = rest.get(1..end).unwrap_or_default();
                    match rest.get(end + 1) {
                        Some(b':') => key = content,
                        _ => check_text(key, content)?,
                    }
                    end + 1
                }
                b'0'..=b'9' => {
                    let length = rest.iter().position(|&byte| !is_of_number(byte));
                    let number = &rest[..length.unwrap_or(rest.len())];
                    self.add_number(key, number)?;
                    if let Some(list) = open.last_mut() {
                        list.numbers += 1;
                        if list.numbers > LIST_MAX {
                            return Err(OutOfBounds::List { field: shown(key) });
                        }
                    }
                    number.len()
                }
                b'{' | b'[' => {
                    if byte == b'{' {
                        self.take(object_memory(key, &open))?;
                    }
                    open.push(Open { field: key, numbers: 0 });
                    1
                }
                b'}' | b']' => {
                    // The next value of a list belongs to the field of that list again.
                    key = open.pop().map_or(key, |ended| ended.field);
                    1
                }
                _ => 1,
            };
        }
        Ok(())
    }

    fn add_number(&mut self, field: &[u8], number: &[u8]) -> Result<(), OutOfBounds> {
        self.take(NUMBER)?;
        let bound = match field {
            field if ANY.contains(&field) => return Ok(()),
            field if COUNTS.contains(&field) => COUNT_MAX,
            _ => NUMBER_MAX,
        };
        let value = magnitude(number);
        self.numbers = self.numbers.saturating_add(value);
        let bound = if self.numbers > SUM_MAX { SUM_MAX } else { bound };
        if value > bound || self.numbers > SUM_MAX {
            return Err(OutOfBounds::Number { field: shown(field), number: shown(number), bound });
        }
        Ok(())
    }

    fn take(&mut self, bytes: u64) -> Result<(), OutOfBounds> {
        self.memory += bytes;
        if self.memory > MEMORY_MAX + self.bytes { Err(OutOfBounds::Memory) } else { Ok(()) }
    }
}

/// Checks that a run's study, and the number of its trials, are of a size that can be run. Pages grow with each pair of
/// systems.
///
/// # Errors
/// Fails with the first of its parts that are too many.
pub(crate) fn check_plan(header: &RunHeader, ordered: usize) -> Result<(), OutOfBounds> {
    let study = &header.study;
    let parts = [
        ("systems", study.systems.len().max(header.systems.len()) as u64, NAMES_MAX as u64),
        ("workloads", study.workloads.len() as u64, NAMES_MAX as u64),
        ("loads", study.loads.len() as u64, NAMES_MAX as u64),
        ("planned trials", study.planned_trials().max(ordered as u64), TRIALS_MAX),
    ];
    let too_many = parts.into_iter().find(|(_, count, bound)| count > bound);
    too_many.map_or(Ok(()), |(field, count, bound)| Err(OutOfBounds::Study { field, count, bound }))
}

/// Returns the memory that a report takes for an object of this field, in bytes.
fn object_memory(field: &[u8], open: &[Open<'_>]) -> u64 {
    if open.is_empty() {
        return LINE;
    }
    if open.iter().any(|around| around.field == b"seconds") {
        return OF_A_SECOND;
    }
    if open.last().is_some_and(|around| around.field == b"operations") {
        return OPERATION;
    }
    OBJECTS.iter().find(|(of, _)| *of == field).map_or(OTHER, |(_, bytes)| *bytes)
}

fn check_text(field: &[u8], text: &[u8]) -> Result<(), OutOfBounds> {
    let bound = if NAMES.contains(&field) { NAME_MAX } else { TEXT_MAX };
    match text.len() {
        bytes if bytes > bound => Err(OutOfBounds::Text { field: shown(field), bytes, bound }),
        _ => Ok(()),
    }
}

/// Returns the beginning of a field's name or of a number, for a message.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned()
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
        Sums::default().add(line.as_bytes()).err().map(|out| out.to_string())
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
        let mut sums = Sums::default();
        let line = format!("[{}1]", "1000000000000000,".repeat(1000));
        let all = (0..10).map(|_| sums.add(line.as_bytes())).collect::<Vec<_>>();
        assert_eq!(all.iter().position(Result::is_err), Some(4));
    }

    /// Returns the number of equal objects in this field that one line may have.
    fn objects_in(before: &str, object: &str, after: &str) -> usize {
        let fits = |count: usize| {
            refused(&format!("{before}{}{object}{after}", format!("{object},").repeat(count - 1)))
                .is_none()
        };
        let (mut some, mut too_many) = (1, 10_000_000);
        while some + 1 < too_many {
            let count = (some + too_many) / 2;
            *(if fits(count) { &mut some } else { &mut too_many }) = count;
        }
        some
    }

    #[test]
    fn objects_that_take_more_memory_are_fewer() {
        let other = objects_in("{\"x\":[", "{\"stages\":1}", "]}");
        let stage = objects_in("{\"stages\":[", "{\"x\":1}", "]}");
        assert!(stage * 8 < other, "{stage} stages, {other} others");
        let second = "{\"operations\":{\"put\":{\"response\":{}}}}";
        let second = objects_in("{\"stages\":[{\"seconds\":[", second, "]}]}");
        assert!(stage * 4 < second, "{second} seconds");
        let operation = objects_in("{\"stages\":[", "{\"operations\":{\"put\":{}}}", "]}");
        assert!(operation < stage, "{operation} stages with an operation");
    }

    #[test]
    fn overlong_texts_and_lists_are_rejected() {
        let title = |length| refused(&format!("{{\"title\":\"{}\"}}", "x".repeat(length)));
        assert_eq!(title(NAME_MAX), None);
        let why = "`title` has 4097 bytes, and at most 4096 are possible";
        assert_eq!(title(NAME_MAX + 1).unwrap(), why);
        let text = |length| refused(&format!("{{\"body\":[1,\"{}\"]}}", "x".repeat(length)));
        assert_eq!(text(TEXT_MAX), None);
        assert!(text(TEXT_MAX + 1).unwrap().starts_with("`body` has 1048577 bytes"));
        let list = |count: usize| refused(&format!("{{\"at\":[{}0]}}", "0,".repeat(count - 1)));
        assert_eq!(list(250_000), None);
        assert_eq!(list(250_001).unwrap(), "`at` has more than 250000 numbers");
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_checked(line in "[\\[\\]{}\":,\\\\a-z0-9eE.+-]{0,80}") {
            Sums::default().add(line.as_bytes()).ok();
        }
    }
}
