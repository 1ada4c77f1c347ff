//! Prints the report of etcd's benchmark from figures: summary, histogram, percentiles, seconds and errors.
//!
//! The layout is that of `pkg/report` in etcd 3.7, byte for byte for equal numbers, so programs that read it read this.
//! Percentiles are values by rank without interpolation, and a rank that was not reached has no line.
//!
//! Not here: the source of the figures (`super::run`), the JSON for perfdash (`perfdash`).

use std::fmt::Write as _;
use std::time::Duration;

/// Percentiles of a report.
const PERCENTILES: [f64; 8] = [10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

/// Bars of the histogram, besides the first, which holds the fastest result.
const STEPS: usize = 10;

/// Length of the longest bar, in characters.
const BAR_MAX: u64 = 40;

/// Form of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// Four digits after the point.
    Four,
    /// As many digits as the number needs (`--precise`).
    All,
}

impl Precision {
    fn number(self, number: f64) -> String {
        match self {
            Self::Four => format!("{number:.4}"),
            Self::All => shortest(number),
        }
    }

    fn seconds(self, seconds: f64) -> String {
        format!("{} secs", self.number(seconds))
    }
}

/// Times of successes in seconds, ascending, each with the number of results.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distribution {
    steps: Vec<(f64, u64)>,
    count: u64,
}

impl Distribution {
    /// Returns the distribution of these times, which must ascend.
    pub fn new(steps: impl IntoIterator<Item = (Duration, u64)>) -> Self {
        let steps: Vec<_> =
            steps.into_iter().map(|(time, count)| (time.as_secs_f64(), count)).collect();
        let count = steps.iter().map(|(_, count)| count).sum();
        Self { steps, count }
    }

    /// Returns the number of results.
    pub fn count(&self) -> u64 {
        self.count
    }

    fn fastest(&self) -> f64 {
        self.steps.first().map_or(0.0, |step| step.0)
    }

    fn slowest(&self) -> f64 {
        self.steps.last().map_or(0.0, |step| step.0)
    }

    fn mean(&self) -> f64 {
        self.steps.iter().map(|&(time, count)| time * count as f64).sum::<f64>() / self.count as f64
    }

    fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares = self.steps.iter().map(|&(time, count)| (time - mean).powi(2) * count as f64);
        (squares.sum::<f64>() / self.count as f64).sqrt()
    }

    /// Returns the time of a rank, counted from 0.
    fn at(&self, rank: u64) -> f64 {
        let mut seen = 0;
        let step = self.steps.iter().find(|(_, count)| {
            seen += count;
            seen > rank
        });
        step.map_or(0.0, |step| step.0)
    }

    /// Returns the percentiles of a report in seconds; 0 for one that was not reached.
    ///
    /// A percentile is the first result whose share of earlier results is large enough. Each takes a result of its own,
    /// so a few results reach only the first percentiles.
    pub(super) fn percentiles(&self) -> [(f64, f64); PERCENTILES.len()] {
        let share = |rank: u64| rank as f64 * 100.0 / self.count as f64;
        let mut next = 0;
        PERCENTILES.map(|percentile| {
            let mut rank = next.max((percentile * self.count as f64 / 100.0) as u64);
            while rank > next && share(rank - 1) >= percentile {
                rank -= 1;
            }
            while rank < self.count && share(rank) < percentile {
                rank += 1;
            }
            next = rank.saturating_add(1);
            (percentile, if rank < self.count { self.at(rank) } else { 0.0 })
        })
    }
}

/// Results that were sent in one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SecondPoint {
    /// Shortest time.
    pub least: Duration,
    /// Sum of all times.
    pub total: Duration,
    /// Longest time.
    pub most: Duration,
    /// Number of results.
    pub count: u64,
}

/// Figures of a report.
#[derive(Debug, Clone, Default)]
pub struct ReportFigures {
    /// Times of successes.
    pub times: Distribution,
    /// Length of the load.
    pub total: Duration,
    /// Results by the second since 1970 in which they were sent (`--sample`). Seconds without results may be missing.
    pub seconds: Option<Vec<(i64, SecondPoint)>>,
    /// Number of failures with the same text, and the text.
    pub errors: Vec<(u64, String)>,
}

impl ReportFigures {
    fn per_second(&self) -> f64 {
        self.times.count as f64 / self.total.as_secs_f64()
    }
}

/// Returns the report. Without any success it has only the errors.
pub fn text(figures: &ReportFigures, precision: Precision) -> String {
    let mut text = String::new();
    write_report(figures, precision, &mut text).expect("writing to memory does not fail");
    text
}

fn write_report(
    figures: &ReportFigures,
    precision: Precision,
    to: &mut String,
) -> std::fmt::Result {
    let ReportFigures { times, total, seconds, errors } = figures;
    if times.count > 0 {
        let seconds_of = |time| precision.seconds(time);
        writeln!(to, "\nSummary:")?;
        writeln!(to, "  Total:\t{}.", seconds_of(total.as_secs_f64()))?;
        writeln!(to, "  Slowest:\t{}.", seconds_of(times.slowest()))?;
        writeln!(to, "  Fastest:\t{}.", seconds_of(times.fastest()))?;
        writeln!(to, "  Average:\t{}.", seconds_of(times.mean()))?;
        writeln!(to, "  Stddev:\t{}.", seconds_of(times.deviation()))?;
        writeln!(to, "  Requests/sec:\t{}", precision.number(figures.per_second()))?;
        write_histogram(times, precision, to)?;
        writeln!(to, "\nLatency distribution:")?;
        for (percentile, time) in times.percentiles().into_iter().filter(|(_, time)| *time > 0.0) {
            writeln!(to, "  {percentile}% in {}.", seconds_of(time))?;
        }
        if let Some(seconds) = seconds {
            write_seconds(seconds, to)?;
        }
    }
    if !errors.is_empty() {
        writeln!(to, "\nError distribution:")?;
        for (count, text) in errors {
            writeln!(to, "  [{count}]\t{text}")?;
        }
    }
    Ok(())
}

fn write_histogram(
    times: &Distribution,
    precision: Precision,
    to: &mut String,
) -> std::fmt::Result {
    let (fastest, slowest) = (times.fastest(), times.slowest());
    let width = (slowest - fastest) / STEPS as f64;
    let bounds: [f64; STEPS + 1] = std::array::from_fn(|step| match step {
        STEPS => slowest,
        _ => fastest + width * step as f64,
    });
    let mut counts = [0; STEPS + 1];
    let mut bar = 0;
    for &(time, count) in &times.steps {
        while bar < STEPS && time > bounds[bar] {
            bar += 1;
        }
        counts[bar] += count;
    }
    let most = counts.iter().copied().max().unwrap_or_default().max(1);
    writeln!(to, "\nResponse time histogram:")?;
    for (bound, count) in bounds.into_iter().zip(counts) {
        let bar = "∎".repeat((count * BAR_MAX / most) as usize);
        writeln!(to, "  {} [{count}]\t|{bar}", precision.number(bound))?;
    }
    Ok(())
}

/// Writes a line for each second from the first to the last, also for those without results.
fn write_seconds(seconds: &[(i64, SecondPoint)], to: &mut String) -> std::fmt::Result {
    writeln!(to, "\nSample in one second (unix latency throughput):")?;
    writeln!(to, "UNIX-SECOND,MIN-LATENCY-MS,AVG-LATENCY-MS,MAX-LATENCY-MS,AVG-THROUGHPUT")?;
    let mut next = seconds.first().map(|(second, _)| *second);
    for &(second, point) in seconds {
        while let Some(missing) = next.filter(|next| *next < second) {
            writeln!(to, "{missing},0s,0s,0s,0")?;
            next = Some(missing + 1);
        }
        next = Some(second + 1);
        let nanoseconds = point.total.as_nanos() / u128::from(point.count.max(1));
        let mean = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        let [least, mean, most] = [point.least, mean, point.most].map(duration);
        writeln!(to, "{second},{least},{mean},{most},{}", point.count)?;
    }
    writeln!(to)
}

/// Formats a number as Go's `%g`: the shortest digits that identify it, with an exponent for very large and very small
/// numbers.
pub(super) fn shortest(number: f64) -> String {
    if !number.is_finite() {
        return match number {
            f64::INFINITY => "+Inf".to_owned(),
            f64::NEG_INFINITY => "-Inf".to_owned(),
            _ => "NaN".to_owned(),
        };
    }
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => number.to_string(),
    }
}

/// Formats a duration as Go prints it: `1.5ms`, `850µs`, `1m2.5s`, `0s`.
pub(super) fn duration(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    let (value, unit) = match nanoseconds {
        0 => return "0s".to_owned(),
        1..1_000 => return format!("{nanoseconds}ns"),
        1_000..1_000_000 => (nanoseconds * 1_000_000, "µs"),
        1_000_000..1_000_000_000 => (nanoseconds * 1_000, "ms"),
        _ => (nanoseconds, "s"),
    };
    let (whole, rest) = (value / 1_000_000_000, value % 1_000_000_000);
    let fraction = match rest {
        0 => String::new(),
        _ => format!(".{rest:09}").trim_end_matches('0').to_owned(),
    };
    if unit != "s" {
        return format!("{whole}{fraction}{unit}");
    }
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}{fraction}s"),
        (0, _) => format!("{minutes}m{seconds}{fraction}s"),
        _ => format!("{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

/// Formats a number of bytes as etcd's benchmark does, in powers of 1,000: `20 kB`, `1.2 MB`.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 10 {
        return format!("{bytes} B");
    }
    let power = (bytes as f64).log10() / 3.0;
    let power = (power.floor() as usize).min(UNITS.len() - 1);
    let value = (bytes as f64 / 1000f64.powi(power as i32) * 10.0 + 0.5).floor() / 10.0;
    let digits = usize::from(value < 10.0);
    format!("{value:.digits$} {}", UNITS[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution(milliseconds: &[u64]) -> Distribution {
        Distribution::new(milliseconds.iter().map(|&time| (Duration::from_millis(time), 1)))
    }

    #[test]
    fn a_percentile_that_was_not_reached_has_no_line() {
        let reached = |times: &Distribution| {
            times.percentiles().iter().filter(|(_, time)| *time > 0.0).count()
        };
        assert_eq!(reached(&distribution(&[])), 0);
        assert_eq!(reached(&distribution(&[1])), 0);
        assert_eq!(reached(&distribution(&[1, 2, 3])), 2);
        let hundred: Vec<u64> = (1..=100).collect();
        let percentiles = distribution(&hundred).percentiles();
        assert_eq!(percentiles[6], (99.0, 0.1));
        assert_eq!(percentiles[7], (99.9, 0.0));
        let thousand: Vec<u64> = (1..=1001).collect();
        assert_eq!(reached(&distribution(&thousand)), 8);
    }

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (number, text) in [
            (0.0, "0"),
            (0.000123, "0.000123"),
            (0.0000123, "1.23e-05"),
            (12.0, "12"),
            (1234567.5, "1.2345675e+06"),
            (1e22, "1e+22"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(shortest(number), text, "{number}");
        }
        for (nanoseconds, text) in [
            (0, "0s"),
            (999, "999ns"),
            (1_500, "1.5µs"),
            (1_234_567, "1.234567ms"),
            (2_000_000_000, "2s"),
            (62_500_000_000, "1m2.5s"),
            (3_600_000_000_000, "1h0m0s"),
        ] {
            assert_eq!(duration(Duration::from_nanos(nanoseconds)), text);
        }
    }

    #[test]
    fn failures_alone_have_no_summary() {
        let errors = vec![(3, "etcdserver: no leader".to_owned())];
        let figures = ReportFigures { errors, ..ReportFigures::default() };
        let expected = "\nError distribution:\n  [3]\tetcdserver: no leader\n";
        assert_eq!(text(&figures, Precision::Four), expected);
        assert_eq!(text(&ReportFigures::default(), Precision::All), "");
    }

    #[test]
    fn a_second_without_results_has_a_line() {
        let point = SecondPoint {
            least: Duration::from_micros(500),
            total: Duration::from_millis(3),
            most: Duration::from_millis(2),
            count: 2,
        };
        let figures = ReportFigures {
            times: distribution(&[1, 2]),
            total: Duration::from_secs(1),
            seconds: Some(vec![(10, point), (12, point)]),
            errors: Vec::new(),
        };
        let text = text(&figures, Precision::Four);
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        let filled = "10,500µs,1.5ms,2ms,2";
        assert_eq!(lines[1..4], ["12,500µs,1.5ms,2ms,2", "11,0s,0s,0s,0", filled], "{text}");
    }
}
