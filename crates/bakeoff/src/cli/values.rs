//! Reads the values of flags: times, rates, shares, options.
//!
//! Not here: the forms of durations and rates themselves (`bakeoff_core::units`).

use std::fmt;
use std::time::Duration;

use bakeoff_core::units::{self, Unreadable};

/// `--ramp`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ramp {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// A value that a flag cannot have.
#[derive(Debug)]
pub(super) enum ValueError {
    Unreadable(Unreadable),
    LongerThanAWeek,
    NoTime,
    LessThanOneAnHour,
    RateTooHigh,
    NoRange,
    /// A ramp from nothing to nothing.
    NothingDue,
    NoOption,
    LossOutOfRange,
}

impl fmt::Display for ValueError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Unreadable(error) => return error.fmt(to),
            Self::LongerThanAWeek => "it is longer than a week",
            Self::NoTime => "it has to be longer than nothing",
            Self::LessThanOneAnHour => "it has to be at least one an hour",
            Self::RateTooHigh => "it is more than 100,000,000 a second",
            Self::NoRange => "write the first and the last rate: `100..2000`",
            Self::NothingDue => "nothing is ever due at these rates",
            Self::NoOption => "an option is NAME=VALUE: `delay=2ms`",
            Self::LossOutOfRange => "a loss is from 0.1% to 90%",
        })
    }
}

impl std::error::Error for ValueError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Unreadable> for ValueError {
    fn from(error: Unreadable) -> Self {
        Self::Unreadable(error)
    }
}

/// The longest time of a load, so that sums of times stay times.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Reads the time that a load takes, or a part of it.
pub(super) fn time(text: &str) -> Result<Duration, ValueError> {
    match units::parse_duration(text)? {
        time if time > LONGEST => Err(ValueError::LongerThanAWeek),
        time => Ok(time),
    }
}

/// Reads a time that cannot be zero.
pub(super) fn time_above_zero(text: &str) -> Result<Duration, ValueError> {
    match time(text)? {
        Duration::ZERO => Err(ValueError::NoTime),
        time => Ok(time),
    }
}

/// Reads a rate at which requests are due.
pub(super) fn rate(text: &str) -> Result<f64, ValueError> {
    match units::parse_rate(text)? {
        rate if rate < 1.0 / 3600.0 => Err(ValueError::LessThanOneAnHour),
        rate if rate > 100e6 => Err(ValueError::RateTooHigh),
        rate => Ok(rate),
    }
}

/// Reads `FROM..TO`.
pub(super) fn ramp(text: &str) -> Result<Ramp, ValueError> {
    let (from, to) = text.split_once("..").ok_or(ValueError::NoRange)?;
    // Down to nothing and up from it is a ramp too, but nothing all the time is none.
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

/// Reads `NAME=VALUE`, of an option.
pub(super) fn option(text: &str) -> Result<(String, String), ValueError> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(ValueError::NoOption),
    }
}

/// Reads `5%`, of a loss.
pub(super) fn loss(text: &str) -> Result<f64, ValueError> {
    match units::parse_share(text)? {
        share if (0.001..=0.9).contains(&share) => Ok(share),
        _ => Err(ValueError::LossOutOfRange),
    }
}
