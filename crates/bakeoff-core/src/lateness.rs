//! Bounds what a late generator may have added to response times.
//!
//! Response times count from the due time. A generator that sends late, reads late or stands still lengthens them, each
//! by at most its own delay. So its lateness never makes a system look better, and it is judged by what it may have
//! spoilt: a p99 of 20 ms bears a delay of 1.9 ms, a p99 of 2 ms does not.
//!
//! Let R(q) be the measured quantile of the response times, S(q) that of the delays in sending and V(q) that of the
//! delays in reading. All but a share d of operations were delayed by at most S(1 - d), and all but a share d by at
//! most V(1 - d). So the true q-quantile is at least R(q - 2d) - S(1 - d) - V(1 - d), for any d. Service times count
//! from the sending, so the same holds for their quantile R'(q - d) without S. A stall hits the answers in flight,
//! which are in neither record: a share p of operations, by which q falls further. The largest of these bounds counts.
//!
//! Not here: the checks (`validity`), the comparison of systems (`report`).

use std::time::Duration;

use crate::histogram::Latencies;
use crate::measurement::{Measurement, OperationFigures};
use crate::ranked::{TAILS, sample_min};
use crate::units::{latency_text, share_text};

/// Largest share of a reported percentile that the generator may have added in a valid trial.
pub const ADDED_SHARE_MAX: f64 = 0.1;
/// Addition that is always allowed. A virtual machine takes about 50 µs to wake a thread, and now and then ten times as
/// long. Differences between systems are never claimed within the addition.
const ADDED_FREE: Duration = Duration::from_micros(500);
/// Shares d of operations that are taken to be delayed by more than the bound; see the module.
const SHARES: [f64; 9] = [0.0005, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3];
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
pub struct Spoilt {
    /// Name of the percentile.
    name: &'static str,
    response: Duration,
    added: Duration,
    /// The delay that added most.
    pub by: Delay,
}

impl Spoilt {
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

/// Response times of all successes of a load, and the generator's delays.
#[derive(Clone, Copy)]
struct Responses<'a> {
    response: &'a Latencies,
    service: &'a Latencies,
    sending: &'a Latencies,
    reading: &'a Latencies,
    /// Share of operations that were in flight when a generator thread stood still, 0 to 1.
    hit: f64,
}

impl<'a> Responses<'a> {
    /// `total`: the figures of all operations of the load.
    fn new(of: &'a Measurement, total: &'a OperationFigures) -> Self {
        Self {
            response: &total.response,
            service: &total.service,
            sending: &of.schedule_lag,
            reading: &of.receive_lag,
            hit: hit(of, &total.response),
        }
    }

    /// Returns the response times with only one of the delays.
    fn with(&self, only: Delay, none: &'a Latencies) -> Self {
        let of = |delay, delays| if only == delay { delays } else { none };
        Self {
            sending: of(Delay::Sending, self.sending),
            reading: of(Delay::Reading, self.reading),
            hit: if only == Delay::Stall { self.hit } else { 0.0 },
            ..*self
        }
    }

    /// Returns what the generator may have added to a quantile; `None` without successes.
    fn added(&self, quantile: f64) -> Option<Duration> {
        let measured = self.response.quantile(quantile)?;
        if self.sending.is_empty() && self.reading.is_empty() && self.hit == 0.0 {
            return Some(Duration::ZERO);
        }
        let least = SHARES.iter().map(|&share| self.least(quantile, share)).max();
        Some(measured.saturating_sub(least.unwrap_or_default()))
    }

    /// Returns a lower bound of the true quantile. `share`: operations that may have been delayed by more.
    fn least(&self, quantile: f64, share: f64) -> Duration {
        let longest = |delays: &Latencies| delays.quantile(1.0 - share).unwrap_or_default();
        let used = |delays: &Latencies| if delays.is_empty() { 0.0 } else { share };
        let at = |times: &Latencies, spent: f64| {
            let left = quantile - self.hit - spent;
            if left > 0.0 { times.quantile(left).unwrap_or_default() } else { Duration::ZERO }
        };
        let (sending, reading) = (used(self.sending), used(self.reading));
        let by_response = at(self.response, sending + reading)
            .saturating_sub(longest(self.sending) + longest(self.reading));
        let by_service = at(self.service, reading).saturating_sub(longest(self.reading));
        by_response.max(by_service)
    }

    /// Returns the reported percentiles among these, with their response times and what was added.
    fn reported(
        &self,
        among: &'static [(&'static str, f64)],
    ) -> impl Iterator<Item = (&'static str, Duration, Duration)> {
        let count = self.response.count();
        // Of too few operations the median is shown as if it were known.
        let is_reported = move |quantile: f64| quantile == 0.5 || count >= sample_min(quantile);
        among.iter().filter(move |(_, quantile)| is_reported(*quantile)).filter_map(
            |&(name, quantile)| {
                Some((name, self.response.quantile(quantile)?, self.added(quantile)?))
            },
        )
    }
}

/// Returns the share of operations that were in flight when a generator thread stood still. By Little's law as many are
/// in flight as fall due in a response time, but at most one a client.
fn hit(of: &Measurement, response: &Latencies) -> f64 {
    if of.stalls.is_empty() || response.is_empty() {
        return 0.0;
    }
    let all = response.count() as f64;
    let rate = all / of.window.as_secs_f64().max(f64::MIN_POSITIVE);
    let in_flight = (rate * response.quantile(0.99).unwrap_or_default().as_secs_f64()).ceil() + 1.0;
    let clients = match of.clients_with_work {
        0 => f64::INFINITY,
        clients => clients as f64,
    };
    (of.stalls.len() as f64 * in_flight.min(clients) / all).min(1.0)
}

/// Returns the first reported percentile that the generator's delays may have spoilt. In a closed load only stalls count:
/// its latencies follow from the number of clients.
pub fn spoilt(of: &Measurement) -> Option<Spoilt> {
    let none = Latencies::default();
    let total = of.total();
    let all = Responses::new(of, &total);
    let is_open = !of.schedule_lag.is_empty();
    let judged = if is_open { all } else { all.with(Delay::Stall, &none) };
    let too_much = |response: Duration, added: Duration| {
        added > response.mul_f64(ADDED_SHARE_MAX).max(ADDED_FREE)
    };
    let (name, response, added) =
        judged.reported(&TAILS).find(|&(_, response, added)| too_much(response, added))?;
    let quantile = TAILS.iter().find(|(one, _)| *one == name)?.1;
    let most = [Delay::Sending, Delay::Reading]
        .into_iter()
        .max_by_key(|&one| all.with(one, &none).added(quantile));
    // What fell due in a stall was sent late.
    let longest = of.stalls.iter().map(|stall| stall.seconds).fold(0.0, f64::max);
    let by = match (is_open, most) {
        (true, Some(most)) if longest < added.as_secs_f64() => most,
        _ => Delay::Stall,
    };
    Some(Spoilt { name, response, added, by })
}

/// Returns what the generator may have added to quantiles of the response time of successes; `None` without any.
pub fn added(of: &Measurement) -> impl Fn(f64) -> Option<Duration> {
    let total = of.total();
    move |quantile| Responses::new(of, &total).added(quantile)
}

/// Says what the generator may have added to reported percentiles; `None` if it is less than a tenth of each.
pub fn text(of: &Measurement) -> Option<String> {
    let total = of.total();
    let responses = Responses::new(of, &total);
    let much = responses.reported(&REPORTED).filter(|(_, response, added)| {
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
