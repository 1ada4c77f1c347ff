//! Prints wrk's output, line for line, and wrk2's additions.
//!
//! Programs parse this output, so lines, columns and units are wrk's. The figures are bakeoff's. `notes` reports
//! differences on standard error, never between these lines.
//!
//! Not here: the source of the figures (`mod`), the format of numbers (`units`).

use std::fmt::Write as _;
use std::time::Duration;

use super::options::Options;
use super::spread::Spread;
use super::units::{binary, column, fixed, metric, microseconds, seconds};

/// Percentiles of wrk's distribution.
const PERCENTILES: [f64; 4] = [50.0, 75.0, 90.0, 99.0];
/// Percentiles of wrk2's distribution.
const MORE_PERCENTILES: [f64; 8] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0];
/// Lines of the detailed spectrum for each halving of the distance to 100 %.
const TICKS_PER_HALF_DISTANCE: f64 = 5.0;
/// Buckets and sub-buckets of bakeoff's histograms, printed in the footer of the spectrum. They keep three digits from
/// a nanosecond to an hour.
const BUCKETS: (u32, u32) = (32, 2048);

/// Number of socket errors of each kind in wrk's output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SocketErrors {
    pub(super) connect: u64,
    pub(super) read: u64,
    pub(super) write: u64,
    pub(super) timeout: u64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) runtime: Duration,
    /// Number of answers, errors included.
    pub(super) complete: u64,
    /// Bytes received, heads included.
    pub(super) bytes: u64,
    pub(super) socket_errors: SocketErrors,
    /// Answers with a status above 399.
    pub(super) status_errors: u64,
    /// Microseconds, for answers with any status and for timed-out requests.
    pub(super) latency: Spread,
    /// Figures of the successes, which wrk does not print; they go to standard error.
    pub(super) successes: Successes,
    /// Microseconds from sending.
    pub(super) uncorrected: Spread,
    /// Requests per second of each thread, in each tenth of a second.
    pub(super) rates: Spread,
}

/// Figures of the requests that succeeded.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Successes {
    /// Answers with status 2xx or 3xx per second.
    pub(super) rate: f64,
    /// Latencies in microseconds.
    pub(super) latency: Spread,
}

/// Returns the first lines of the output.
pub(super) fn heading(options: &Options) -> String {
    format!(
        "Running {} test @ {}\n  {} threads and {} connections\n",
        seconds(options.duration.as_secs()),
        options.url.shown,
        options.threads,
        options.connections
    )
}

/// Returns the lines after the load.
pub(super) fn report(figures: &Figures, options: &Options) -> String {
    let mut text = String::new();
    write(&mut text, figures, options).expect("writing to memory does not fail");
    text
}

fn write(to: &mut String, figures: &Figures, options: &Options) -> std::fmt::Result {
    writeln!(to, "  Thread Stats{:>6}{:>11}{:>8}{:>12}", "Avg", "Stdev", "Max", "+/- Stdev")?;
    write_row(to, "Latency", &figures.latency, microseconds)?;
    write_row(to, "Req/Sec", &figures.rates, metric)?;
    if options.rate.is_some() {
        if options.latency {
            write_spectrum(to, "Recorded Latency", &figures.latency)?;
        }
        if options.uncorrected {
            let what = "Uncorrected Latency (measured without taking delayed starts into account)";
            writeln!(to)?;
            write_spectrum(to, what, &figures.uncorrected)?;
        }
    } else if options.latency {
        writeln!(to, "  Latency Distribution")?;
        for percentile in PERCENTILES {
            let value = microseconds(figures.latency.percentile(percentile) as f64);
            writeln!(to, "{percentile:>7.0}%{}", column(&value, 10))?;
        }
    }
    let runtime = figures.runtime.as_secs_f64();
    let bytes = binary(figures.bytes as f64);
    writeln!(
        to,
        "  {} requests in {}, {bytes}B read",
        figures.complete,
        microseconds(runtime * 1e6)
    )?;
    let SocketErrors { connect, read, write, timeout } = figures.socket_errors;
    if connect + read + write + timeout > 0 {
        writeln!(
            to,
            "  Socket errors: connect {connect}, read {read}, write {write}, timeout {timeout}"
        )?;
    }
    if figures.status_errors > 0 {
        writeln!(to, "  Non-2xx or 3xx responses: {}", figures.status_errors)?;
    }
    let per_second = |count: u64| if runtime > 0.0 { count as f64 / runtime } else { 0.0 };
    writeln!(to, "Requests/sec: {:>9}", fixed(per_second(figures.complete), 2))?;
    writeln!(to, "Transfer/sec: {:>10}B", binary(per_second(figures.bytes)))
}

fn write_row(
    to: &mut String,
    name: &str,
    spread: &Spread,
    unit: impl Fn(f64) -> String,
) -> std::fmt::Result {
    writeln!(
        to,
        "    {name:<10}{}{}{}{:>8}%",
        column(&unit(spread.mean()), 8),
        column(&unit(spread.stdev()), 10),
        column(&unit(spread.max() as f64), 9),
        fixed(spread.within_stdev(), 2)
    )
}

/// Writes wrk2's distribution: percentiles, then the spectrum in milliseconds, in the format of HdrHistogram's tools.
fn write_spectrum(to: &mut String, what: &str, spread: &Spread) -> std::fmt::Result {
    writeln!(to, "  Latency Distribution (HdrHistogram - {what})")?;
    for percentile in MORE_PERCENTILES {
        let value = microseconds(quantile(spread, percentile) as f64);
        writeln!(to, "{percentile:>7.3}%{}", column(&value, 10))?;
    }
    writeln!(to, "\n  Detailed Percentile spectrum:")?;
    writeln!(
        to,
        "{:>12} {:>12} {:>12} {:>12}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    for (value, percentile, count) in spectrum(spread) {
        let share = percentile / 100.0;
        let value = value as f64 / 1000.0;
        writeln!(to, "{value:>12.3} {share:>12.6} {count:>12} {:>12.2}", 1.0 / (1.0 - share))?;
    }
    let [mean, stdev] = [spread.mean(), spread.stdev()].map(|figure| figure / 1000.0);
    let (max, count) = (spread.max() as f64 / 1000.0, spread.count());
    let (buckets, sub_buckets) = BUCKETS;
    writeln!(to, "#[Mean    = {mean:>12.3}, StdDeviation   = {stdev:>12.3}]")?;
    writeln!(to, "#[Max     = {max:>12.3}, Total count    = {count:>12}]")?;
    writeln!(to, "#[Buckets = {buckets:>12}, SubBuckets     = {sub_buckets:>12}]")?;
    writeln!(to, "{:-<58}", "")
}

/// Returns HdrHistogram's percentile: the smallest recorded value whose cumulative count reaches the rank.
fn quantile(spread: &Spread, percentile: f64) -> u64 {
    let rank = ((percentile / 100.0 * spread.count() as f64 + 0.5) as u64).max(1);
    let mut below = 0;
    let reaches = |&&(_, count): &&(u64, u64)| {
        below += count;
        below >= rank
    };
    spread.values().iter().find(reaches).map_or(0, |&(value, _)| value)
}

/// Returns the spectrum's lines: value, share, and cumulative count. Steps get finer towards 100 %, as in
/// HdrHistogram's percentile iterator.
fn spectrum(spread: &Spread) -> Vec<(u64, f64, u64)> {
    let mut lines = Vec::new();
    let (mut below, mut next) = (0, 0.0_f64);
    for &(value, count) in spread.values() {
        below += count;
        let here = 100.0 * below as f64 / spread.count() as f64;
        while next <= here {
            lines.push((value, next, below));
            let half_distance = 2_f64.powf((100.0 / (100.0 - next)).log2().floor() + 1.0);
            next += 100.0 / (TICKS_PER_HALF_DISTANCE * half_distance);
            if below == spread.count() {
                break;
            }
        }
    }
    if spread.count() > 0 {
        lines.push((spread.max(), 100.0, spread.count()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::options::{self, WrkCommand};
    use super::*;

    fn options(text: &str) -> Options {
        match options::parse(text.split_whitespace().map(OsString::from)) {
            Ok(WrkCommand::Run(options)) => *options,
            other => panic!("{other:?}"),
        }
    }

    fn figures() -> Figures {
        Figures {
            runtime: Duration::from_millis(10_000),
            complete: 123_456,
            bytes: 30_000_000,
            latency: [(100, 50), (200, 30), (900, 15), (12_000, 5)].into_iter().collect(),
            uncorrected: [(90, 100)].into_iter().collect(),
            rates: [(6000, 10), (6500, 10)].into_iter().collect(),
            ..Figures::default()
        }
    }

    #[test]
    fn closed_load_prints_as_wrk() {
        let options = options("-t2 -c10 --latency http://127.0.0.1:8080/");
        let expected = "\
Running 10s test @ http://127.0.0.1:8080/
  2 threads and 10 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   845.00us    2.59ms  12.00ms   95.00%
    Req/Sec     6.25k   256.49     6.50k   100.00%
  Latency Distribution
     50%  200.00us
     75%  200.00us
     90%    0.90ms
     99%   12.00ms
  123456 requests in 10.00s, 28.61MB read
Requests/sec:  12345.60
Transfer/sec:      2.86MB
";
        assert_eq!(heading(&options) + &report(&figures(), &options), expected);
    }

    #[test]
    fn error_lines_appear_only_with_errors() {
        let options = options("http://h/");
        let mut figures = figures();
        assert!(!report(&figures, &options).contains("rrors"));
        figures.socket_errors = SocketErrors { connect: 1, read: 2, write: 0, timeout: 3 };
        figures.status_errors = 4;
        let text = report(&figures, &options);
        assert!(
            text.contains("  Socket errors: connect 1, read 2, write 0, timeout 3\n"),
            "{text}"
        );
        assert!(text.contains("  Non-2xx or 3xx responses: 4\n"), "{text}");
    }

    #[test]
    fn empty_run_prints_nan_shares() {
        let text = report(&Figures::default(), &options("http://h/"));
        assert!(text.contains("    Latency     0.00us    0.00us   0.00us    -nan%\n"), "{text}");
        assert!(text.contains("  0 requests in 0.00us, 0.00B read\n"), "{text}");
    }

    #[test]
    fn open_load_prints_as_wrk2() {
        let text = report(&figures(), &options("-R 1000 -U http://h/"));
        let recorded = "\
  Latency Distribution (HdrHistogram - Recorded Latency)
 50.000%  100.00us
 75.000%  200.00us
 90.000%    0.90ms
 99.000%   12.00ms
 99.900%   12.00ms
 99.990%   12.00ms
 99.999%   12.00ms
100.000%   12.00ms

  Detailed Percentile spectrum:
       Value   Percentile   TotalCount 1/(1-Percentile)

       0.100     0.000000           50         1.00
";
        assert!(text.contains(recorded), "{text}");
        let end = "\
      12.000     1.000000          100          inf
#[Mean    =        0.845, StdDeviation   =        2.587]
#[Max     =       12.000, Total count    =          100]
#[Buckets =           32, SubBuckets     =         2048]
----------------------------------------------------------

  Latency Distribution (HdrHistogram - Uncorrected Latency (measured without taking delayed starts into account))
 50.000%   90.00us
";
        assert!(text.contains(end), "{text}");
    }

    #[test]
    fn spectrum_ends_at_the_total_count() {
        let spread: Spread = (1..=1000).map(|value| (value, 1)).collect();
        let lines = spectrum(&spread);
        assert!(lines.is_sorted_by(|a, b| a.0 <= b.0 && a.1 < b.1), "{lines:?}");
        assert_eq!(lines.last(), Some(&(1000, 100.0, 1000)));
        let half = lines.iter().find(|line| line.1 >= 50.0).unwrap();
        assert_eq!(*half, (500, 50.0, 500));
        assert!(spectrum(&Spread::default()).is_empty());
    }
}
