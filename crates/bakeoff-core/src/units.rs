//! Parses and formats quantities: sizes, durations, rates, shares.
//!
//! Parsing is strict. A study that says `10s` instead of `10ms`, or an ambiguous `1G`, would measure something else
//! than intended. So every unit has one spelling, and the error for a near miss suggests it.
//!
//! Not here: the position of a quantity in a file (`study::parse` adds that).

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::secrets;

/// Number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct ByteCount(pub u64);

/// Explains why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {hint}")]
pub struct Unreadable {
    /// Fault as a sentence without a full stop: `` `10 mb` is not a size ``.
    pub what: String,
    /// Suggested spelling.
    pub hint: String,
}

const SIZE_HINT: &str = "write bytes as a whole number, or a number and a unit: `64KiB`, `10MB`";
const SIZE_UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

impl FromStr for ByteCount {
    type Err = Unreadable;

    /// Parses `1024`, `64KiB`, `1GiB`, `10MB`, `1.5GiB`.
    fn from_str(text: &str) -> Result<ByteCount, Unreadable> {
        let text = text.trim();
        let not = |hint: &str| unreadable(text, "a size", hint);
        let (number, unit) = split_number(text).ok_or_else(|| not(SIZE_HINT))?;
        let scale = match SIZE_UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, scale)) => *scale,
            None if unit.is_empty() => 1,
            None => return Err(not(&size_unit_hint(number, unit))),
        };
        let bytes = number
            .times(scale)
            .ok_or_else(|| not("it is more bytes than 64 bits can count, or not a whole number"))?;
        Ok(ByteCount(bytes))
    }
}

fn size_unit_hint(number: Decimal<'_>, unit: &str) -> String {
    let lower = unit.to_ascii_lowercase();
    if let Some((name, _)) = SIZE_UNITS.iter().find(|(name, _)| name.to_ascii_lowercase() == lower)
    {
        return format!("did you mean `{number}{name}`?");
    }
    match lower.as_str() {
        "k" | "m" | "g" | "t" => {
            let letter = lower.to_ascii_uppercase();
            format!("did you mean `{number}{letter}iB` (powers of 1024) or `{number}{letter}B`?")
        }
        _ => SIZE_HINT.to_owned(),
    }
}

impl fmt::Display for ByteCount {
    /// Formats three significant digits and a binary unit: `512 B`, `64 KiB`, `1.5 GiB`.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        let mut units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].into_iter();
        let mut unit = units.next().unwrap_or("B");
        // 1023.5 would round to 1024 of the smaller unit.
        while value >= 1023.5 {
            let Some(next) = units.next() else { break };
            unit = next;
            value /= 1024.0;
        }
        let digits = if value >= 99.95 { 0 } else { usize::from(value >= 9.995) };
        let text = match digits {
            0 if value >= 99.95 => format!("{value:.0}"),
            1 => format!("{value:.1}"),
            _ => format!("{value:.2}"),
        };
        write!(to, "{} {unit}", without_trailing_zeros(&text))
    }
}

/// Holds a non-negative decimal number as text, so that `0.1` stays exact.
#[derive(Debug, Clone, Copy)]
struct Decimal<'a> {
    whole: &'a str,
    fraction: &'a str,
}

impl Decimal<'_> {
    /// Returns the number times `scale`, if that is a whole number of 64 bits.
    fn times(self, scale: u64) -> Option<u64> {
        let whole = if self.whole.is_empty() { 0 } else { self.whole.parse::<u64>().ok()? };
        let fraction = self.fraction.trim_end_matches('0');
        let tenths = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let part = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? };
        let part = part.checked_mul(u128::from(scale))?;
        if part % tenths != 0 {
            return None;
        }
        whole.checked_mul(scale)?.checked_add(u64::try_from(part / tenths).ok()?)
    }

    fn as_f64(self) -> Option<f64> {
        self.to_string().parse().ok().filter(|value: &f64| value.is_finite())
    }
}

impl fmt::Display for Decimal<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.fraction.is_empty() { "" } else { "." };
        write!(to, "{}{dot}{}", self.whole, self.fraction)
    }
}

/// Splits a leading number from the text after it, without the space between them.
fn split_number(text: &str) -> Option<(Decimal<'_>, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at(digits(text));
    if whole.is_empty() {
        return None;
    }
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    Some((Decimal { whole, fraction }, rest.trim_start()))
}

fn unreadable(text: &str, quantity: &str, hint: &str) -> Unreadable {
    Unreadable { what: format!("`{}` is not {quantity}", shown(text)), hint: hint.to_owned() }
}

const DURATION_HINT: &str = "write a number and a unit: `500ms`, `30s`, `5m`, `1h`, `1m30s`";
const DURATION_UNITS: [(&str, u64); 7] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];

/// Parses `500ms`, `30s`, `5m`, `1h`, `1m30s`, `0s`.
///
/// # Errors
/// Fails if a unit is missing, unknown or out of order, or if the duration exceeds 584 years.
pub fn parse_duration(text: &str) -> Result<Duration, Unreadable> {
    let text = text.trim();
    let not = |hint: &str| unreadable(text, "a duration", hint);
    let mut rest = text;
    let mut nanos = 0u64;
    let mut larger = u64::MAX;
    while !rest.is_empty() || text.is_empty() {
        let (number, after) = split_number(rest).ok_or_else(|| not(DURATION_HINT))?;
        let length = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(length);
        let Some((_, scale)) = DURATION_UNITS.iter().find(|(name, _)| *name == unit.trim_end())
        else {
            return Err(not(&duration_unit_hint(text, number, unit.trim_end())));
        };
        if *scale >= larger {
            return Err(not("larger units come first, and each once: `1h30m`"));
        }
        larger = *scale;
        nanos = number
            .times(*scale)
            .and_then(|part| nanos.checked_add(part))
            .ok_or_else(|| not("it is too long, or finer than a nanosecond"))?;
        rest = after;
    }
    Ok(Duration::from_nanos(nanos))
}

fn duration_unit_hint(text: &str, number: Decimal<'_>, unit: &str) -> String {
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" => {
            // Hundreds are usually meant as milliseconds.
            let unit =
                if number.as_f64().is_some_and(|number| number >= 100.0) { "ms" } else { "s" };
            return format!("it has no unit; did you mean `{}{unit}`?", shown(text));
        }
        "sec" | "secs" | "second" | "seconds" => "s",
        "min" | "mins" | "minute" | "minutes" => "m",
        "hr" | "hrs" | "hour" | "hours" => "h",
        "msec" | "millis" | "milliseconds" => "ms",
        "usec" | "micros" | "microseconds" => "us",
        _ => return DURATION_HINT.to_owned(),
    };
    format!("did you mean `{number}{unit}`?")
}

const RATE_HINT: &str = "write operations per second, minute or hour: `1000/s`, `60/m`, `10/h`";

/// Parses `1000/s`, `60/m`, `10/h` or a plain number, which is per second. Returns operations per second.
///
/// # Errors
/// Fails for anything but a number, or for another unit.
pub fn parse_rate(text: &str) -> Result<f64, Unreadable> {
    let text = text.trim();
    let not = |hint: &str| unreadable(text, "a rate", hint);
    let (number, rest) = split_number(text).ok_or_else(|| not(RATE_HINT))?;
    let seconds = match rest {
        "" | "/s" => 1.0,
        "/m" => 60.0,
        "/h" => 3600.0,
        "/sec" | "/second" | "rps" | "ops/s" | "s" => {
            return Err(not(&format!("did you mean `{number}/s`?")));
        }
        "/min" | "/minute" => return Err(not(&format!("did you mean `{number}/m`?"))),
        _ => return Err(not(RATE_HINT)),
    };
    number.as_f64().map(|value| value / seconds).ok_or_else(|| not(RATE_HINT))
}

const SHARE_HINT: &str = "write a percentage, `1%`, or a number from 0 to 1, `0.01`";

/// Parses `1%` or `0.01`. Returns a number from 0 to 1.
///
/// # Errors
/// Fails for anything but a number, or for more than 100 %.
pub fn parse_share(text: &str) -> Result<f64, Unreadable> {
    let text = text.trim();
    let not = |hint: &str| unreadable(text, "a share", hint);
    let (number, rest) = split_number(text).ok_or_else(|| not(SHARE_HINT))?;
    let whole = match rest {
        "" => 1.0,
        "%" => 100.0,
        _ => return Err(not(SHARE_HINT)),
    };
    let share = number.as_f64().ok_or_else(|| not(SHARE_HINT))? / whole;
    if share <= 1.0 {
        Ok(share)
    } else if rest.is_empty() && share <= 100.0 {
        Err(not(&format!("it is more than 100 %; did you mean `{number}%`?")))
    } else {
        Err(not("it is more than 100 %"))
    }
}

/// Returns a text to quote in a message: cut to 60 characters, with harmless control characters.
pub fn shown(text: &str) -> String {
    cut(text, 60)
}

/// Maximum characters that are kept of a server's text.
pub const SERVER_TEXT_MAX: usize = 300;

/// Returns a server's text for storage and display: cut to [`SERVER_TEXT_MAX`] characters, with harmless control
/// characters and masked [secrets].
pub fn server_text(text: &str) -> String {
    cut(&secrets::masked(text), SERVER_TEXT_MAX)
}

/// Cuts a text to `most` characters, and replaces control characters.
fn cut(text: &str, most: usize) -> String {
    let mut characters = text.chars().map(|c| if is_harmful(c) { '\u{fffd}' } else { c });
    let mut kept: String = characters.by_ref().take(most).collect();
    if characters.next().is_some() {
        kept.push('…');
    }
    kept
}

/// Returns true if a count is zero, which a record omits.
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Returns true for control characters, and for characters that change the writing direction, end a line or are
/// invisible (Unicode's `Bidi_Control`, line separators, U+FEFF).
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{feff}'
        )
}

/// Replaces control characters in text from others, such as a server's error or a record's name. It then cannot send
/// escape codes to a terminal.
pub fn harmless(text: &str) -> String {
    text.chars().map(|c| if is_harmful(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Escapes harmful characters in JSON for terminals and pages, without changing its meaning.
pub fn harmless_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        // Line breaks occur only between JSON's tokens, never in its strings.
        if is_harmful(c) && c != '\n' {
            let _ = write!(text, "\\u{:04x}", u32::from(c));
        } else {
            text.push(c);
        }
    }
    text
}

/// Formats a whole number with thousands separators: `12,345`.
pub fn count_text(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats ascending numbers as ranges: `0-3, 8`.
pub fn ranges_text(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let text = |run: &[u32]| match run {
        [first, .., last] => format!("{first}-{last}"),
        run => run.iter().map(u32::to_string).collect(),
    };
    runs.map(text).collect::<Vec<_>>().join(", ")
}

/// Formats a count of things: `1 client`, `1,200 clients`.
pub fn plural(count: u64, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {what}{s}", count_text(count))
}

/// Formats a count of trials: `1 trial`, `12 trials`.
pub fn trials_text(count: usize) -> String {
    plural(count as u64, "trial")
}

/// Returns a text with its first letter as a capital.
pub fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Formats a share in percent: `98.8 %`.
pub fn share_text(share: f64) -> String {
    let percent = share * 100.0;
    // Rounding must not show a small share as zero, or an incomplete one as 100 %.
    match percent {
        p if p > 0.0 && p < 0.01 => "< 0.01 %".to_owned(),
        p if p > 99.9 && p < 100.0 => "> 99.9 %".to_owned(),
        p if p < 1.0 => format!("{p:.2} %"),
        p if p < 100.0 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// Formats a figure: three significant digits below 100, whole with thousands separators above.
pub fn figure_text(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let (sign, size) = if value < 0.0 { ("-", -value) } else { ("", value) };
    let text = if size >= 99.95 {
        // The cast saturates only far beyond any count.
        count_text(size.round() as u64)
    } else if size >= 9.995 {
        format!("{size:.1}")
    } else if size >= 0.0095 || size == 0.0 {
        format!("{size:.2}")
    } else {
        format!("{size:.4}")
    };
    format!("{sign}{text}")
}

/// Formats a latency with three significant digits: `850 ns`, `342 µs`, `1.24 ms`, `2.63 s`.
pub fn latency_text(latency: Duration) -> String {
    let nanos = latency.as_nanos() as f64;
    let (value, unit) = match nanos {
        n if n < 999.5 => return format!("{n:.0} ns"),
        n if n < 999.5e3 => (n / 1e3, "µs"),
        n if n < 999.5e6 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let text = match value {
        v if v >= 99.95 => count_text(v.round() as u64),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    };
    format!("{text} {unit}")
}

/// Formats a duration as in a study, exact to the millisecond: `500ms`, `1m30s`, `2h`.
pub fn duration_text(duration: Duration) -> String {
    if duration < Duration::from_millis(1) && !duration.is_zero() {
        return latency_text(duration).replace(' ', "");
    }
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    let parts = [
        (seconds / 3600, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
        (millis.into(), "ms"),
    ];
    let text: String =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Formats a rate: `1,000/s`.
pub fn rate_text(per_second: f64) -> String {
    format!("{}/s", without_trailing_zeros(&figure_text(per_second)))
}

/// Turns `1.50` into `1.5` and `2.00` into `2`.
fn without_trailing_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Serializes a `Duration` as seconds, a JSON number.
pub mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes seconds with a fraction.
    pub fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(value.as_secs_f64())
    }

    /// Reads seconds. Fails for negative and non-finite numbers.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(from)?;
        Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: fmt::Debug>(read: Result<T, Unreadable>, expected: &str) {
        let got = match read {
            Ok(value) => format!("{value:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected);
    }

    #[test]
    fn ranges_are_written_short() {
        assert_eq!(ranges_text(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
        assert_eq!(ranges_text(&[]), "");
    }

    #[test]
    fn sizes_have_decimal_and_binary_units() {
        let check =
            |text: &str, expected: &str| check(text.parse::<ByteCount>().map(|b| b.0), expected);
        check("1024", "1024");
        check("64KiB", "65536");
        check("1GiB", "1073741824");
        check("10MB", "10000000");
        check("1.5 GiB", "1610612736");
        check("0B", "0");
    }

    #[test]
    fn ambiguous_size_is_rejected() {
        let check = |text: &str, expected: &str| check(text.parse::<ByteCount>(), expected);
        check("1G", "`1G` is not a size; did you mean `1GiB` (powers of 1024) or `1GB`?");
        check("64kib", "`64kib` is not a size; did you mean `64KiB`?");
        check("big", &format!("`big` is not a size; {SIZE_HINT}"));
        check("-1", &format!("`-1` is not a size; {SIZE_HINT}"));
        check("1e3", &format!("`1e3` is not a size; {SIZE_HINT}"));
        check("", &format!("`` is not a size; {SIZE_HINT}"));
        let too_many = "it is more bytes than 64 bits can count, or not a whole number";
        check("1.5", &format!("`1.5` is not a size; {too_many}"));
        check("99999999TiB", &format!("`99999999TiB` is not a size; {too_many}"));
    }

    #[test]
    fn durations_have_units() {
        let check = |text: &str, expected: &str| check(parse_duration(text), expected);
        check("500ms", "500ms");
        check("30s", "30s");
        check("5m", "300s");
        check("1h", "3600s");
        check("1m30s", "90s");
        check("1h 30m", "5400s");
        check("1.5s", "1.5s");
        check("0s", "0ns");
        check("20µs", "20µs");
    }

    #[test]
    fn duration_without_a_unit_is_rejected() {
        let check = |text: &str, expected: &str| check(parse_duration(text), expected);
        check("30", "`30` is not a duration; it has no unit; did you mean `30s`?");
        check("30sec", "`30sec` is not a duration; did you mean `30s`?");
        check("30 minutes", "`30 minutes` is not a duration; did you mean `30m`?");
        check("soon", &format!("`soon` is not a duration; {DURATION_HINT}"));
        check("", &format!("`` is not a duration; {DURATION_HINT}"));
        check("-1s", &format!("`-1s` is not a duration; {DURATION_HINT}"));
        let order = "larger units come first, and each once: `1h30m`";
        check("30s1m", &format!("`30s1m` is not a duration; {order}"));
        check("1s1s", &format!("`1s1s` is not a duration; {order}"));
        let long = "it is too long, or finer than a nanosecond";
        check("9999999999h", &format!("`9999999999h` is not a duration; {long}"));
        check("0.5ns", &format!("`0.5ns` is not a duration; {long}"));
    }

    #[test]
    fn rates_are_per_second_by_default() {
        let check = |text: &str, expected: &str| check(parse_rate(text), expected);
        check("1000/s", "1000.0");
        check("60/m", "1.0");
        check("36/h", "0.01");
        check("2.5", "2.5");
        check("0/s", "0.0");
        check("10/sec", "`10/sec` is not a rate; did you mean `10/s`?");
        check("10/d", &format!("`10/d` is not a rate; {RATE_HINT}"));
        check("fast", &format!("`fast` is not a rate; {RATE_HINT}"));
        check("-1/s", &format!("`-1/s` is not a rate; {RATE_HINT}"));
    }

    #[test]
    fn share_is_at_most_100_percent() {
        let check = |text: &str, expected: &str| check(parse_share(text), expected);
        check("1%", "0.01");
        check("0.01", "0.01");
        check("100 %", "1.0");
        check("1", "1.0");
        check("5", "`5` is not a share; it is more than 100 %; did you mean `5%`?");
        check("101%", "`101%` is not a share; it is more than 100 %");
        check("half", &format!("`half` is not a share; {SHARE_HINT}"));
    }

    #[test]
    fn quantities_are_formatted_for_reading() {
        assert_eq!(ByteCount(512).to_string(), "512 B");
        assert_eq!(ByteCount(65536).to_string(), "64 KiB");
        assert_eq!(ByteCount(1536).to_string(), "1.5 KiB");
        assert_eq!(ByteCount(1_300_000_000).to_string(), "1.21 GiB");
        assert_eq!(ByteCount(1_048_575).to_string(), "1 MiB");
        assert_eq!(ByteCount(u64::MAX).to_string(), "16 EiB");
        assert_eq!(count_text(0), "0");
        assert_eq!(count_text(999), "999");
        assert_eq!(count_text(12_345), "12,345");
        assert_eq!(count_text(1_000_000), "1,000,000");
        assert_eq!(figure_text(2921.4), "2,921");
        assert_eq!(figure_text(13.94), "13.9");
        assert_eq!(figure_text(6.62), "6.62");
        assert_eq!(figure_text(-0.5), "-0.50");
        assert_eq!(figure_text(f64::NAN), "–");
        assert_eq!(latency_text(Duration::from_nanos(850)), "850 ns");
        assert_eq!(latency_text(Duration::from_micros(342)), "342 µs");
        assert_eq!(latency_text(Duration::from_micros(1240)), "1.24 ms");
        assert_eq!(latency_text(Duration::from_nanos(999_600)), "1.00 ms");
        assert_eq!(latency_text(Duration::from_millis(20_615)), "20.6 s");
        assert_eq!(latency_text(Duration::from_secs(3600)), "3,600 s");
        assert_eq!(duration_text(Duration::ZERO), "0s");
        assert_eq!(duration_text(Duration::from_millis(90_500)), "1m30s500ms");
        assert_eq!(duration_text(Duration::from_secs(7200)), "2h");
        assert_eq!(duration_text(Duration::from_micros(20)), "20.0µs");
        assert_eq!(rate_text(1000.0), "1,000/s");
        assert_eq!(rate_text(0.5), "0.5/s");
    }
}
