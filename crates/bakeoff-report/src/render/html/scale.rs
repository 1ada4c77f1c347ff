//! Axes: the position of values, and the ticks.
//!
//! Ticks are round in the displayed unit: powers of ten with their halves and fifths, for bytes powers of 1024.
//!
//! Not here: drawing (`svg`).

use std::time::Duration;

use bakeoff_core::units::{ByteCount, count_text, figure_text, latency_text};

/// Ratio of the largest to the smallest value from which an axis is logarithmic.
pub(super) const LOG_FROM: f64 = 30.0;

/// Unit of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// A number, or a number per second.
    Count,
    /// A number in the unit of the caption.
    Number,
    /// Milliseconds, formatted as latencies.
    Latency,
    /// Percent.
    Percent,
    /// Bytes, or bytes per second.
    Bytes,
    /// Seconds of a trial.
    Seconds,
    /// `1 / (1 - quantile)`, formatted as a percentile.
    Percentile,
}

impl Unit {
    /// Formats a value for a tick.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::Count if value.fract() == 0.0 && value >= 0.0 => count_text(value as u64),
            Self::Count | Self::Number | Self::Seconds => plain(&figure_text(value)),
            Self::Percent => format!("{} %", plain(&figure_text(value))),
            Self::Bytes => ByteCount(value.max(0.0) as u64).to_string(),
            Self::Latency if value == 0.0 => "0".to_owned(),
            Self::Latency => match Duration::try_from_secs_f64(value / 1e3) {
                Ok(latency) => {
                    let text = latency_text(latency);
                    match text.split_once(' ') {
                        Some((number, unit)) => format!("{} {unit}", plain(number)),
                        None => text,
                    }
                }
                Err(_) => String::new(),
            },
            Self::Percentile if value <= 1.0 => "0 %".to_owned(),
            Self::Percentile => {
                let digits = (value.log10().round() as usize).saturating_sub(2);
                let text = format!("{:.digits$}", 100.0 - 100.0 / value);
                format!("p{}", text.trim_end_matches('%'))
            }
        }
    }
}

/// Removes trailing zeros of a fraction.
fn plain(text: &str) -> String {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text.to_owned()
    }
}

/// One axis: maps values to positions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    pub(super) unit: Unit,
    log: bool,
    low: f64,
    high: f64,
    /// Position of `low`; `to` is that of `high`.
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Axis {
    /// Creates an axis from zero to a round value of at least `most`.
    pub(super) fn linear(unit: Unit, most: f64, about: usize) -> Self {
        let most = if most > 0.0 && most.is_finite() { most } else { 1.0 };
        let step = round_step(unit, most / about as f64);
        let steps = (most / step - 1e-9).ceil().max(1.0);
        let ticks = (0..=steps as usize).map(|n| n as f64 * step).collect();
        Self { unit, log: false, low: 0.0, high: steps * step, from: 0.0, to: 1.0, ticks }
    }

    /// Creates an axis exactly from `low` to `high`, with round ticks between them.
    pub(super) fn stretch(unit: Unit, low: f64, high: f64, about: usize) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        let step = round_step(unit, (high - low) / about as f64);
        let first = (low / step - 1e-9).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        let ticks = (first..=last).map(|n| n as f64 * step).collect();
        Self { unit, log: false, low, high, from: 0.0, to: 1.0, ticks }
    }

    /// Creates a logarithmic axis, from a round value of at most `least` to one of at least `most`.
    pub(super) fn log(unit: Unit, least: f64, most: f64) -> Self {
        let least = if least > 0.0 && least.is_finite() { least } else { 1.0 };
        let most = if most > least && most.is_finite() { most } else { least * 10.0 };
        let rounded = |value: f64, up: bool| {
            let decade = 10f64.powf(value.log10().floor());
            let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
            let fits = |step: &f64| *step >= value * (1.0 - 1e-9);
            match up {
                true => steps.into_iter().find(fits).unwrap_or(steps[3]),
                false => {
                    let below = |step: &f64| *step <= value * (1.0 + 1e-9);
                    steps.into_iter().rev().find(below).unwrap_or(steps[0])
                }
            }
        };
        let (low, mut high) = (rounded(least, false), rounded(most, true));
        if high <= low {
            high = low * 10.0;
        }
        let within = |value: &f64| *value >= low * (1.0 - 1e-9) && *value <= high * (1.0 + 1e-9);
        let decades = || (low.log10().floor() as i32 - 1)..=(high.log10().ceil() as i32);
        let few = (high / low).log10() < 2.4;
        let multiples: &[f64] = if few { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let ticks = decades()
            .flat_map(|decade| multiples.iter().map(move |times| times * 10f64.powi(decade)))
            .filter(within)
            .collect();
        Self { unit, log: true, low, high, from: 0.0, to: 1.0, ticks }
    }

    /// Creates an axis from zero, or a logarithmic one if the values differ widely.
    pub(super) fn fitting(unit: Unit, values: &[f64], about: usize) -> Self {
        let known = || values.iter().copied().filter(|value| value.is_finite());
        let most = known().fold(0.0, f64::max);
        let least = known().fold(f64::INFINITY, f64::min);
        if least > 0.0 && most / least > LOG_FROM {
            Self::log(unit, least, most)
        } else {
            Self::linear(unit, most, about)
        }
    }

    /// Returns the axis placed between two positions.
    pub(super) fn between(mut self, from: f64, to: f64) -> Self {
        (self.from, self.to) = (from, to);
        self
    }

    /// Returns true if the axis is logarithmic.
    pub(super) fn is_log(&self) -> bool {
        self.log
    }

    /// Returns the largest value of the axis.
    pub(super) fn high(&self) -> f64 {
        self.high
    }

    /// Returns the position of a value; the end of the axis if the value lies beyond.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Returns the position of a value, or NaN for NaN.
    pub(super) fn at_or_gap(&self, value: f64) -> f64 {
        if value.is_nan() { f64::NAN } else { self.at(value) }
    }

    /// Returns the ticks whose texts do not touch, with the middle of each text. A tick without room is left out.
    /// `digit`: width of a digit, `gap`: least space between texts, `ends`: where texts must end.
    pub(super) fn ticks_apart(
        &self,
        digit: f64,
        gap: f64,
        ends: (f64, f64),
    ) -> impl Iterator<Item = (f64, String)> {
        let mut free_from = f64::NEG_INFINITY;
        self.ticks().filter_map(move |(at, text)| {
            let half = text.chars().count() as f64 * digit / 2.0;
            let middle = at.max(ends.0 + half).min(ends.1 - half);
            let has_room = middle - half >= free_from;
            if has_room {
                free_from = middle + half + gap;
            }
            has_room.then_some((middle, text))
        })
    }

    /// Returns the ticks with their positions.
    pub(super) fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        self.ticks.iter().map(|&tick| (self.at(tick), self.unit.text(tick)))
    }
}

/// Returns a round step of about this size.
fn round_step(unit: Unit, about: f64) -> f64 {
    if unit == Unit::Bytes && about > 1.0 {
        let power = 1024f64.powi((about.log2() / 10.0).floor() as i32);
        let steps = [1.0, 2.0, 4.0, 5.0, 10.0, 20.0, 25.0, 50.0, 64.0, 100.0, 128.0, 200.0, 256.0];
        let fits = steps.into_iter().chain([512.0, 1024.0]).find(|step| step * power >= about);
        return fits.unwrap_or(1024.0) * power;
    }
    let decade = 10f64.powf(about.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let step = steps.into_iter().find(|step| step * decade >= about * (1.0 - 1e-9));
    let step = step.unwrap_or(10.0) * decade;
    // A count has no fractions.
    if unit == Unit::Count { step.max(1.0) } else { step }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<String> {
        axis.ticks().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_in_the_displayed_unit() {
        assert_eq!(
            texts(&Axis::linear(Unit::Count, 1740.0, 5)),
            ["0", "500", "1,000", "1,500", "2,000"]
        );
        assert_eq!(
            texts(&Axis::linear(Unit::Bytes, 1e8, 4)),
            ["0 B", "25 MiB", "50 MiB", "75 MiB", "100 MiB"]
        );
        assert_eq!(
            texts(&Axis::linear(Unit::Latency, 1.9, 4)),
            ["0", "500 µs", "1 ms", "1.5 ms", "2 ms"]
        );
        assert_eq!(texts(&Axis::log(Unit::Latency, 0.3, 400.0)), ["1 ms", "10 ms", "100 ms"]);
        assert_eq!(texts(&Axis::log(Unit::Count, 1.0, 1000.0)), ["1", "10", "100", "1,000"]);
        assert_eq!(texts(&Axis::log(Unit::Count, 10.0, 40.0)), ["10", "20", "50"]);
        assert_eq!(
            texts(&Axis::log(Unit::Percentile, 1.0, 10_000.0)),
            ["0 %", "p90", "p99", "p99.9", "p99.99"]
        );
        assert_eq!(texts(&Axis::stretch(Unit::Seconds, 0.0, 12.3, 6)), ["0", "5", "10"]);
    }

    #[test]
    fn texts_of_ticks_never_touch_and_end_within_their_space() {
        let axis = Axis::log(Unit::Count, 5000.0, 20_000.0).between(0.0, 100.0);
        assert_eq!(texts(&axis), ["5,000", "10,000", "20,000"]);
        let apart = |digit| axis.ticks_apart(digit, 1.0, (0.0, 100.0)).collect::<Vec<_>>();
        let all: Vec<_> = apart(4.0).into_iter().map(|(_, text)| text).collect();
        assert_eq!(all, ["5,000", "10,000", "20,000"]);
        let few = apart(10.0);
        assert_eq!(few, [(25.0, "5,000".to_owned())], "its text begins at the end of the axis");
    }

    #[test]
    fn value_beyond_an_axis_is_drawn_at_its_end() {
        let axis = Axis::linear(Unit::Count, 10.0, 5).between(100.0, 0.0);
        assert_eq!((axis.at(0.0), axis.at(10.0), axis.at(1e9)), (100.0, 0.0, 0.0));
        let axis = Axis::log(Unit::Count, 1.0, 100.0).between(0.0, 10.0);
        assert_eq!((axis.at(0.0), axis.at(10.0), axis.at(-3.0)), (0.0, 5.0, 0.0));
    }

    #[test]
    fn axis_without_values_is_valid() {
        for axis in [
            Axis::fitting(Unit::Count, &[], 5),
            Axis::fitting(Unit::Latency, &[0.0, f64::NAN], 5),
            Axis::log(Unit::Latency, f64::NAN, 0.0),
            Axis::stretch(Unit::Seconds, 0.0, 0.0, 5),
        ] {
            assert!(axis.at(0.5).is_finite() && axis.ticks().count() < 20, "{axis:?}");
        }
    }
}
