//! Bounds what a late generator may have added to response times.
//!
//! Response times count from the due time. A generator that sends late, reads late or stands still lengthens them, each
//! by at most its own delay. So its lateness never makes a system look better, and it is judged by what it may have
//! spoilt: a p99 of 20 ms bears a delay of 1.9 ms, a p99 of 2 ms does not.
//!
//! The generator records each response time a second time, without the operation's own delays. The system's own times
//! are between the two. So the generator added at most the difference to any percentile.
//!
//! Not here: the checks (`validity`), the comparison of systems (`report`).

use std::time::Duration;

use crate::histogram::Latencies;
use crate::measurement::Measurement;
use crate::ranked_latencies::{TAILS, sample_min};
use crate::units::{latency_text, share_text};

/// Largest share of a percentile that the generator may have added to one that is reported without reserve. Beyond it the
/// percentile is an upper bound.
pub const ADDED_SHARE_MAX: f64 = 0.1;
/// Largest share of a reported percentile that the generator may have added in a valid trial.
const SPOILT_SHARE: f64 = 0.5;
/// Addition that is always allowed. A virtual machine takes about 50 µs to wake a thread, and now and then ten times as
/// long. Differences between systems are never claimed within the addition.
const ADDED_FREE: Duration = Duration::from_micros(500);
/// Percentiles that may be reported.
const REPORTED: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

/// A kind of delay in the generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delay {
    /// It sent late.
    Sending,
    /// It read answers late.
    Reading,
    /// It stood still.
    Stall,
}

/// A reported percentile to which the generator may have added too much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InflatedPercentile {
    /// Name of the percentile.
    name: &'static str,
    response: Duration,
    added: Duration,
    /// The delay that added most.
    pub by: Delay,
}

impl InflatedPercentile {
    /// Returns `the generator may have added up to 1.9 ms to the p99 of 2.1 ms`.
    pub fn text(&self) -> String {
        format!(
            "the generator may have added up to {} to the {} of {}",
            latency_text(self.added),
            self.name,
            latency_text(self.response)
        )
    }
}

/// Returns the reported percentiles among these, with their response times and what was added.
fn reported(
    of: &Measurement,
    among: &'static [(&'static str, f64)],
) -> impl Iterator<Item = (&'static str, Duration, Duration)> {
    let response = of.total().response;
    let added = added(of);
    among.iter().filter_map(move |&(name, quantile)| {
        // Of too few operations the median is shown as if it were known.
        let is_reported = quantile == 0.5 || response.count() >= sample_min(quantile);
        let measured = response.quantile(quantile).filter(|_| is_reported)?;
        Some((name, measured, added(quantile)?))
    })
}

/// Returns the first reported percentile of an open load that the generator's delays may have spoilt. Latencies of a
/// closed load follow from the number of clients.
pub fn spoilt(of: &Measurement) -> Option<InflatedPercentile> {
    if of.schedule_lag.is_empty() {
        return None;
    }
    let too_much = |response, added| is_beyond(SPOILT_SHARE, response, added);
    let (name, response, added) =
        reported(of, &TAILS).find(|&(_, response, added)| too_much(response, added))?;
    // What fell due in a stall was sent late.
    let longest = of.stalls.iter().map(|stall| stall.seconds).fold(0.0, f64::max);
    let by = match longest < added.as_secs_f64() {
        true if of.receive_lag.quantile(0.99) > of.schedule_lag.quantile(0.99) => Delay::Reading,
        true => Delay::Sending,
        false => Delay::Stall,
    };
    Some(InflatedPercentile { name, response, added, by })
}

/// Returns true if what was added is more than a share of a response time, and more than is always allowed.
fn is_beyond(share: f64, response: Duration, added: Duration) -> bool {
    added > response.mul_f64(share).max(ADDED_FREE)
}

/// Returns true if a percentile is only an upper bound of the system's own.
pub fn is_bound(response: Duration, added: Duration) -> bool {
    is_beyond(ADDED_SHARE_MAX, response, added)
}

/// Returns what the generator may have added to quantiles of the response time of successes; `None` without any, or if
/// delays were not recorded.
pub fn added(of: &Measurement) -> impl Fn(f64) -> Option<Duration> {
    let response = of.total().response;
    let undelayed = of.undelayed.clone();
    move |quantile| added_to(&response, &undelayed, quantile)
}

/// Returns what the generator may have added to a quantile of these response times, given the same ones without its
/// delays; `None` if either has no values.
pub(crate) fn added_to(
    response: &Latencies,
    undelayed: &Latencies,
    quantile: f64,
) -> Option<Duration> {
    Some(response.quantile(quantile)?.saturating_sub(undelayed.quantile(quantile)?))
}

/// Says what the generator may have added to reported percentiles; `None` if it is less than a tenth of each.
pub fn text(of: &Measurement) -> Option<String> {
    let much = reported(of, &REPORTED).filter(|(_, response, added)| {
        added.as_secs_f64() > ADDED_SHARE_MAX * response.as_secs_f64()
    });
    let much: Vec<String> = much
        .map(|(name, response, added)| {
            let share = share_text(added.as_secs_f64() / response.as_secs_f64());
            format!("{} ({share}) to {name}", latency_text(added))
        })
        .collect();
    (!much.is_empty()).then(|| {
        format!(
            "the generator's own delays may have added up to {}: differences of so much say nothing of the server",
            crate::stats::and(&much)
        )
    })
}
