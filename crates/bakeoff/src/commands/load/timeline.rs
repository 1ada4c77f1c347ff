//! Renders each second of a load as bars in a terminal's text.
//!
//! A figure over a whole load hides its bad seconds. A second without a success has no bar, so a stall shows as a gap,
//! and a separate row marks it. Bars begin at 0, so that their heights can be compared.
//!
//! Not here: numbers (`json`), charts (`bakeoff_report`).

use std::time::Duration;

use bakeoff_core::ranked_latencies::Percentile;
use bakeoff_core::units::{figure_text, latency_text, plural};

use super::page::Page;
use super::result::{LoadResult, Part};
use crate::messages::Glyphs;

/// Minimum length of a load with bars, in seconds. Bars of a shorter one add nothing to the other lines.
const SECONDS_MIN: usize = 3;
/// Minimum length of the last second. A shorter one has too few requests for a rate.
const PARTIAL_MIN: f64 = 0.5;
/// Maximum bars of a row without a terminal.
const BARS_MAX: usize = 60;
/// Minimum and maximum bars of a row on a terminal.
const BARS_ON_TERMINAL: (usize, usize) = (10, 120);
/// Columns of a row for its name and its scale.
const LABEL_COLUMNS: usize = 40;
/// Mark of a latency that falls among failures.
const UNKNOWN: char = '?';

/// One second of a load, or several consecutive ones.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bar {
    /// Number of seconds without a success.
    silent: u32,
    /// Verified successes per second.
    rate: f64,
    /// Failures per second.
    errors: f64,
    /// Highest p99 of the seconds.
    p99: Height,
    max: Height,
}

#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum Height {
    /// No bar.
    Nothing,
    /// Height in the row's unit, above 0.
    Known(f64),
    /// Latency that falls among failures, which rank above all numbers.
    Unknown,
}

impl Page {
    /// Adds a gap and a row of bars for each figure. Adds nothing for a load of less than three seconds.
    pub(super) fn timeline(&mut self, result: &LoadResult, glyphs: Glyphs) {
        let parts = match result.steps.as_slice() {
            [] => std::slice::from_ref(&result.whole),
            steps => steps,
        };
        let seconds: Vec<Bar> = parts.iter().flat_map(seconds).collect();
        if seconds.len() < SECONDS_MIN {
            return;
        }
        let (fewest, most) = BARS_ON_TERMINAL;
        let room = self.style.width.map_or(BARS_MAX, |width| {
            usize::from(width).saturating_sub(LABEL_COLUMNS).clamp(fewest, most)
        });
        let each = seconds.len().div_ceil(room);
        let bars: Vec<Bar> = seconds.chunks(each).map(Bar::merged).collect();
        self.gap();
        self.dim(&match each {
            1 => format!("Second by second, {} s; bars begin at 0", seconds.len()),
            _ => format!(
                "Over {} s, {each} s a bar (highest latencies); bars begin at 0",
                seconds.len()
            ),
        });
        let rate = |value: f64| if value > 0.0 { Height::Known(value) } else { Height::Nothing };
        let latency = |seconds: f64| latency_text(Duration::from_secs_f64(seconds));
        let rows = [
            bars_row("verified /s", bars.iter().map(|bar| rate(bar.rate)), glyphs, figure_text),
            bars_row("errors /s", bars.iter().map(|bar| rate(bar.errors)), glyphs, figure_text),
            bars_row("p99", bars.iter().map(|bar| bar.p99), glyphs, latency),
            bars_row("max", bars.iter().map(|bar| bar.max), glyphs, latency),
        ];
        for row in rows.iter().flatten() {
            self.row(None, row);
        }
        if rows.iter().flatten().any(|row| row.contains(UNKNOWN)) {
            self.dim(&format!("  {UNKNOWN}: no number, because failures reach it"));
        }
        let silent: u32 = bars.iter().map(|bar| bar.silent).sum();
        if silent > 0 {
            let marks = bars.iter().map(|bar| if bar.silent > 0 { 'x' } else { ' ' });
            let scale = format!("in {}", plural(silent.into(), "second"));
            self.alarm_row(&row("no success", marks.collect(), &scale));
        }
    }
}

/// Returns a figure's row; `None` if no second has a number.
fn bars_row(
    name: &str,
    heights: impl Iterator<Item = Height>,
    glyphs: Glyphs,
    text: impl Fn(f64) -> String,
) -> Option<String> {
    let heights: Vec<Height> = heights.collect();
    let known = || {
        heights.iter().filter_map(|height| match height {
            Height::Known(value) => Some(*value),
            Height::Nothing | Height::Unknown => None,
        })
    };
    let highest = known().reduce(f64::max)?;
    let lowest = known().fold(highest, f64::min);
    let bars = heights.iter().map(|height| match height {
        Height::Nothing => ' ',
        Height::Known(value) => glyphs.bar(value / highest),
        Height::Unknown => UNKNOWN,
    });
    let (lowest, highest) = (text(lowest), text(highest));
    let scale = if lowest == highest { highest } else { format!("{lowest} to {highest}") };
    Some(row(name, bars.collect(), &scale))
}

fn row(name: &str, bars: String, scale: &str) -> String {
    format!("  {name:<11}  {bars}  {scale}")
}

/// Returns one bar for each second of a part's window, including seconds without responses.
fn seconds(part: &Part) -> Vec<Bar> {
    let window = part.measurement.window.as_secs_f64();
    let count = window.trunc() as usize + usize::from(window.fract() >= PARTIAL_MIN);
    let mut seconds = vec![Bar::EMPTY; count];
    for live in &part.seconds {
        let Some(bar) = seconds.get_mut(live.second as usize) else { continue };
        let length = (window - f64::from(live.second)).min(1.0);
        *bar = Bar {
            silent: u32::from(live.verified == 0),
            rate: live.verified as f64 / length,
            errors: live.errors as f64 / length,
            p99: Height::from(live.p99),
            max: Height::from(live.max),
        };
    }
    seconds
}

impl Bar {
    /// A second without successes and failures.
    const EMPTY: Self =
        Self { silent: 1, rate: 0.0, errors: 0.0, p99: Height::Nothing, max: Height::Nothing };

    /// Merges several seconds into one bar: mean rates, and the highest latencies.
    fn merged(bars: &[Self]) -> Self {
        let count = bars.len() as f64;
        let highest = |height: fn(&Self) -> Height| {
            let heights = bars.iter().map(height);
            heights.fold(Height::Nothing, |a, b| if b > a { b } else { a })
        };
        Self {
            silent: bars.iter().map(|bar| bar.silent).sum(),
            rate: bars.iter().map(|bar| bar.rate).sum::<f64>() / count,
            errors: bars.iter().map(|bar| bar.errors).sum::<f64>() / count,
            p99: highest(|bar| bar.p99),
            max: highest(|bar| bar.max),
        }
    }
}

impl From<Percentile> for Height {
    fn from(percentile: Percentile) -> Self {
        match percentile {
            Percentile::Nothing | Percentile::TooFew { .. } => Self::Nothing,
            Percentile::At(latency) => Self::Known(latency.as_secs_f64()),
            Percentile::Beyond | Percentile::AtLeast(_) | Percentile::Failed(_) => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use bakeoff_engine::LoadProgress;
    use bakeoff_report::Style;

    use super::super::testing::{part, result};
    use super::super::text::text;
    use super::*;

    /// Returns a load from the successes and the slowest latency, in milliseconds, of each second. 0 successes make an
    /// empty second.
    fn load(seconds: &[(u64, u64)]) -> LoadResult {
        let mut whole = part(1000.0, 11);
        let one = whole.seconds[0].clone();
        whole.measurement.window = Duration::from_secs(seconds.len() as u64);
        whole.seconds = (0..)
            .zip(seconds)
            .map(|(second, &(verified, slowest))| {
                let latency = match verified {
                    0 => Percentile::Nothing,
                    _ => Percentile::At(Duration::from_millis(slowest)),
                };
                LoadProgress { second, verified, p99: latency, max: latency, ..one.clone() }
            })
            .collect();
        result(whole, &[])
    }

    #[track_caller]
    fn check(load: &LoadResult, width: Option<u16>, glyphs: Glyphs, expected: &str) {
        let shown = text(load, Style { width, colour: false }, glyphs);
        let block = shown.split("\n\n").find(|part| part.contains("\n  max  "));
        assert_eq!(block.unwrap_or("none"), expected, "{shown}");
    }

    #[test]
    fn stall_is_a_marked_gap_between_bars() {
        let stalled =
            load(&[(1000, 8), (990, 9), (0, 0), (0, 0), (100, 2100), (1000, 11), (500, 8)]);
        check(
            &stalled,
            None,
            Glyphs::Blocks,
            "\
Second by second, 7 s; bars begin at 0
  verified /s  ██  ▁█▄  100 to 1,000
  p99          ▁▁  █▁▁  8.00 ms to 2.10 s
  max          ▁▁  █▁▁  8.00 ms to 2.10 s
  no success     xx     in 2 seconds",
        );
        check(
            &stalled,
            None,
            Glyphs::Ascii,
            "\
Second by second, 7 s; bars begin at 0
  verified /s  ##  _#-  100 to 1,000
  p99          __  #__  8.00 ms to 2.10 s
  max          __  #__  8.00 ms to 2.10 s
  no success     xx     in 2 seconds",
        );
    }

    #[test]
    fn loads_of_less_than_three_seconds_have_no_bars() {
        check(&load(&[(10, 1), (10, 1)]), None, Glyphs::Blocks, "none");
    }

    #[test]
    fn merged_seconds_of_long_loads_still_show_stalls() {
        let mut seconds = vec![(1000, 2); 40];
        seconds[13] = (0, 0);
        seconds[20].1 = 400;
        check(
            &load(&seconds),
            Some(60),
            Glyphs::Ascii,
            "\
Over 40 s, 2 s a bar (highest latencies); bars begin at 0
  verified /s  ######-#############  500 to 1,000
  p99          __________#_________  2.00 ms to 400 ms
  max          __________#_________  2.00 ms to 400 ms
  no success         x               in 1 second",
        );
    }

    #[test]
    fn partial_second_is_scaled_and_a_short_one_dropped() {
        let mut partial = load(&[(1000, 2), (1000, 2), (1000, 2), (600, 2)]);
        partial.whole.measurement.window = Duration::from_millis(3600);
        let row = |load: &LoadResult| {
            let shown = text(load, Style { width: None, colour: false }, Glyphs::Ascii);
            shown.lines().find(|line| line.contains("verified /s")).unwrap().to_owned()
        };
        assert_eq!(row(&partial), "  verified /s  ####  1,000");
        partial.whole.measurement.window = Duration::from_millis(3001);
        assert_eq!(row(&partial), "  verified /s  ###  1,000");
    }

    #[test]
    fn latency_among_failures_has_no_number() {
        let mut failing = load(&[(1000, 2), (900, 2), (1000, 2)]);
        let failed = &mut failing.whole.seconds[1];
        failed.errors = 100;
        failed.max = Percentile::AtLeast(Duration::from_millis(2));
        check(
            &failing,
            None,
            Glyphs::Ascii,
            "\
Second by second, 3 s; bars begin at 0
  verified /s  ###  900 to 1,000
  errors /s     #   100
  p99          ###  2.00 ms
  max          #?#  2.00 ms
  ?: no number, because failures reach it",
        );
    }
}
