//! Parses option values: times, rates, shares, `NAME=VALUE`.
//!
//! Not here: the syntax of durations and rates (`bakeoff_core::units`).

use std::borrow::Cow;
use std::time::Duration;

use bakeoff_core::units::{self, Unreadable};

/// Rates per second at the start and the end of a ramp.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ramp {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// An option value that is rejected.
#[derive(Debug, thiserror::Error)]
pub(super) enum ValueError {
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("it must be at most a week")]
    LongerThanAWeek,
    #[error("it must be longer than zero")]
    NoTime,
    #[error("it must be at least one an hour")]
    LessThanOneAnHour,
    #[error("it must be at most 100,000,000 per second")]
    RateTooHigh,
    #[error("write the first and the last rate: `100..2000`")]
    NoRange,
    #[error("nothing is ever due at these rates: one must be above zero")]
    NothingDue,
    #[error("write NAME=VALUE, such as `delay=2ms`")]
    NoOption,
    #[error("it must be from 0.1% to 90%")]
    LossOutOfRange,
    #[error("write a port from 1 to 65535, or 0 for a free one")]
    NoPort,
    #[error("write a whole number: `1000`, `1k` or `1e3`")]
    NoCount,
    #[error("it must be from 1 to {}", units::count_text(*.0))]
    CountOutOfRange(u64),
}

/// Longest time of a load. Sums of such times cannot overflow.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Parses the time of a load or of a part of it, at most a week.
pub(super) fn time(text: &str) -> Result<Duration, ValueError> {
    match units::parse_duration(text)? {
        time if time > LONGEST => Err(ValueError::LongerThanAWeek),
        time => Ok(time),
    }
}

/// Parses a time above zero.
pub(super) fn time_above_zero(text: &str) -> Result<Duration, ValueError> {
    match time(text)? {
        Duration::ZERO => Err(ValueError::NoTime),
        time => Ok(time),
    }
}

/// Expands a power of ten, as in `1.5k/s` or `1e3`, to plain digits. Returns other text unchanged.
fn in_digits(text: &str) -> Cow<'_, str> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let exponent = rest
        .strip_prefix(['e', 'E'])
        .map(|rest| rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())));
    let (power, rest) = match (rest.chars().next(), exponent) {
        (Some('k' | 'K'), _) => (3, &rest[1..]),
        (Some('M'), _) => (6, &rest[1..]),
        (Some('G'), _) => (9, &rest[1..]),
        (_, Some((power, rest))) => match power.parse() {
            Ok(power @ 0..=12) => (power, rest),
            _ => return Cow::Borrowed(text),
        },
        _ => return Cow::Borrowed(text),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') {
        return Cow::Borrowed(text);
    }
    let padded = format!("{fraction:0<power$}");
    let (more, fraction) = padded.split_at(power);
    let point = if fraction.is_empty() { "" } else { "." };
    Cow::Owned(format!("{whole}{more}{point}{fraction}{rest}"))
}

/// Parses a whole number from 1 to `most`.
fn count(text: &str, most: u64) -> Result<u64, ValueError> {
    match in_digits(text.trim()).parse::<u64>() {
        Ok(count) if (1..=most).contains(&count) => Ok(count),
        Ok(_) => Err(ValueError::CountOutOfRange(most)),
        Err(_) => Err(ValueError::NoCount),
    }
}

pub(super) fn clients(text: &str) -> Result<u32, ValueError> {
    count(text, 1_000_000).map(|count| count as u32)
}

pub(super) fn requests(text: &str) -> Result<u64, ValueError> {
    count(text, u64::MAX)
}

/// Parses a request rate, from one per hour to 100,000,000 per second.
pub(super) fn rate(text: &str) -> Result<f64, ValueError> {
    match units::parse_rate(&in_digits(text.trim()))? {
        rate if rate < 1.0 / 3600.0 => Err(ValueError::LessThanOneAnHour),
        rate if rate > 100e6 => Err(ValueError::RateTooHigh),
        rate => Ok(rate),
    }
}

/// Parses `FROM..TO`.
pub(super) fn ramp(text: &str) -> Result<Ramp, ValueError> {
    let (from, to) = text.split_once("..").ok_or(ValueError::NoRange)?;
    // A ramp may start or end at zero, but not both.
    let end = |text: &str| match units::parse_rate(text) {
        Ok(0.0) => Ok(0.0),
        _ => rate(text),
    };
    let ramp = Ramp { from: end(from)?, to: end(to)? };
    if ramp.from.max(ramp.to) == 0.0 {
        return Err(ValueError::NothingDue);
    }
    Ok(ramp)
}

/// Parses a port; 0 stands for a free one.
pub(super) fn port(text: &str) -> Result<u16, ValueError> {
    text.parse().map_err(|_| ValueError::NoPort)
}

/// Parses `NAME=VALUE`.
pub(super) fn option(text: &str) -> Result<(String, String), ValueError> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(ValueError::NoOption),
    }
}

/// Parses a loss such as `5%`.
pub(super) fn loss(text: &str) -> Result<f64, ValueError> {
    match units::parse_share(text)? {
        share if (0.001..=0.9).contains(&share) => Ok(share),
        _ => Err(ValueError::LossOutOfRange),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_ten_are_written_out() {
        for (text, digits) in [
            ("1k", "1000"),
            ("1.5k/s", "1500/s"),
            ("1e3", "1000"),
            ("2.25E1/m", "22.5/m"),
            ("3M", "3000000"),
            ("1G", "1000000000"),
            ("12", "12"),
            ("0.5/s", "0.5/s"),
            ("1e99", "1e99"),
            ("e3", "e3"),
            ("1.2.3k", "1.2.3k"),
            ("k", "k"),
        ] {
            assert_eq!(in_digits(text), digits, "{text}");
        }
        assert_eq!(rate("2k").unwrap(), 2000.0);
        assert_eq!(rate("6e1/m").unwrap(), 1.0);
    }

    #[test]
    fn counts_are_whole_and_within_bounds() {
        assert_eq!(clients("1k").unwrap(), 1000);
        assert_eq!(requests("1e6").unwrap(), 1_000_000);
        for text in ["0", "2M", "1e7"] {
            assert!(matches!(clients(text), Err(ValueError::CountOutOfRange(1_000_000))), "{text}");
        }
        for text in ["", "1.5", "-1", "1.2345k", "many", "1kk"] {
            assert!(matches!(clients(text), Err(ValueError::NoCount)), "{text}");
        }
    }
}
