//! Collects HTTP results other than times: statuses, bytes and, on request, single results.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_core::measurement::HttpAnswers;
use bakeoff_wire::http1::Oddities;

use crate::work::OperationTiming;

/// Sampling interval of a thread's rate, the same as in wrk.
const RATE_EVERY: Duration = Duration::from_millis(100);

/// Holds results of an HTTP load that are not in its measurement, without the warm-up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answers {
    /// Responses per second of one thread, one value per thread and tenth of a second.
    pub rates: Vec<f64>,
    /// Single results up to the requested number, in the order in which each thread saw them.
    pub results: Vec<SingleResult>,
}

/// Describes one response.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SingleResult {
    /// Time when it was sent, or its connection was started, since the load began.
    pub at: Duration,
    /// Time from due to done.
    pub response: Duration,
    /// Time from sent to done.
    pub service: Duration,
    pub status: u16,
    /// Bytes of the body.
    pub body_bytes: u64,
}

/// Adds up the answers of an HTTP load.
#[derive(Default)]
pub(super) struct AllAnswers {
    pub(super) counted: HttpAnswers,
    /// Tolerated deviations from the protocol.
    pub(super) oddities: Oddities,
    pub(super) answers: Answers,
}

/// Collects one worker's part of [`AllAnswers`].
pub(super) struct Tally {
    answers: Arc<Mutex<AllAnswers>>,
    start: Option<Instant>,
    measure: Option<Instant>,
    measuring: bool,
    /// True if responses wait in `fresh` until they are timed: before measuring, and for single results.
    timing: bool,
    /// Maximum number of single results.
    capture: u64,
    /// Responses by status. The array avoids a lookup.
    statuses: Box<[u64; 1000]>,
    bytes_received: u64,
    body_bytes: u64,
    rates: Vec<f64>,
    results: Vec<SingleResult>,
    /// Responses received but not yet timed.
    fresh: Vec<(u16, usize)>,
    timed: usize,
    since_sample: u64,
    sampled_at: Option<Instant>,
    oddities: Oddities,
}

impl Tally {
    pub(super) fn new(capture: u64, answers: Arc<Mutex<AllAnswers>>) -> Self {
        Self {
            answers,
            start: None,
            measure: None,
            measuring: false,
            timing: true,
            capture,
            statuses: Box::new([0; 1000]),
            bytes_received: 0,
            body_bytes: 0,
            rates: Vec::new(),
            results: Vec::new(),
            fresh: Vec::new(),
            timed: 0,
            since_sample: 0,
            sampled_at: None,
            oddities: Oddities::default(),
        }
    }

    pub(super) fn begin(&mut self, start: Instant, measure: Instant) {
        self.start = Some(start);
        self.measure = Some(measure);
        self.measuring = start == measure;
        self.timing = !self.measuring || self.capture > 0;
        self.sampled_at = Some(start);
    }

    /// Counts received bytes. Earlier responses have been timed by now.
    #[inline]
    pub(super) fn received(&mut self, bytes: usize) {
        if self.timing {
            self.fresh.clear();
            self.timed = 0;
        }
        if self.measuring {
            self.bytes_received += bytes as u64;
        }
    }

    #[inline]
    pub(super) fn met(&mut self, oddities: Oddities) {
        self.oddities |= oddities;
    }

    /// Counts a complete response.
    #[inline]
    pub(super) fn answer(&mut self, status: u16, body_bytes: usize) {
        if self.timing {
            self.fresh.push((status, body_bytes));
        } else {
            self.count(status, body_bytes);
        }
    }

    #[inline]
    fn count(&mut self, status: u16, body_bytes: usize) {
        self.since_sample += 1;
        if let Some(count) = self.statuses.get_mut(usize::from(status)) {
            *count += 1;
        }
        self.body_bytes += body_bytes as u64;
    }

    /// Records the times of the next complete response.
    #[inline]
    pub(super) fn answered(&mut self, moments: &OperationTiming) {
        if self.timing {
            self.time(moments);
        }
    }

    fn time(&mut self, moments: &OperationTiming) {
        let Some(&(status, body_bytes)) = self.fresh.get(self.timed) else { return };
        self.timed += 1;
        if !self.measuring {
            self.measuring = self.measure.is_some_and(|measure| moments.due >= measure);
            if !self.measuring {
                return;
            }
            self.timing = self.capture > 0 || self.timed < self.fresh.len();
        }
        self.count(status, body_bytes);
        if (self.results.len() as u64) < self.capture
            && let Some(start) = self.start
        {
            self.results.push(SingleResult {
                at: moments.sent.saturating_duration_since(start),
                response: moments.done.saturating_duration_since(moments.due),
                service: moments.done.saturating_duration_since(moments.sent),
                status,
                body_bytes: body_bytes as u64,
            });
        }
    }

    pub(super) fn tick(&mut self, now: Instant) {
        let Some(before) = self.sampled_at else { return };
        let passed = now.saturating_duration_since(before);
        if passed >= RATE_EVERY {
            self.rates.push(self.since_sample as f64 / passed.as_secs_f64());
            self.since_sample = 0;
            self.sampled_at = Some(now);
        }
    }

    pub(super) fn ended(&mut self) {
        // A worker that panicked still leaves consistent counts.
        let mut all = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        // Status 0 stands for a stream that was reset.
        for (status, &count) in (0..).zip(self.statuses.iter()).skip(1).filter(|(_, n)| **n > 0) {
            *all.counted.statuses.entry(status).or_default() += count;
        }
        all.counted.bytes += self.bytes_received;
        all.counted.body_bytes += self.body_bytes;
        all.oddities |= self.oddities;
        all.answers.rates.append(&mut self.rates);
        all.answers.results.append(&mut self.results);
    }
}
