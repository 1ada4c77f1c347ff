//! Answers of an HTTP load besides times: statuses, bytes, single results where they are wanted.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_core::measurement::HttpAnswers;
use bakeoff_wire::http1::Oddities;

use crate::work::OperationTiming;

/// How often the rate of a thread is sampled: as often as wrk does.
const RATE_EVERY: Duration = Duration::from_millis(100);

/// Answers of an HTTP load that no measurement has. Warm-up is left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answers {
    /// Responses a second of one thread, in each tenth of a second of each thread.
    pub rates: Vec<f64>,
    /// Single results, as far as they were asked for, in the order in which each thread saw them.
    pub results: Vec<SingleResult>,
}

/// One response.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SingleResult {
    /// When it was sent, or a connection for it begun, since the load began.
    pub at: Duration,
    /// From due to done.
    pub response: Duration,
    /// From sent to done.
    pub service: Duration,
    pub status: u16,
    /// Bytes of its body.
    pub body_bytes: u64,
}

/// All answers of an HTTP load.
#[derive(Default)]
pub(super) struct AllAnswers {
    pub(super) counted: HttpAnswers,
    /// Deviations from the protocol that were met and read over.
    pub(super) oddities: Oddities,
    pub(super) answers: Answers,
}

/// One worker's part of [`AllAnswers`].
pub(super) struct Tally {
    answers: Arc<Mutex<AllAnswers>>,
    start: Option<Instant>,
    measure: Option<Instant>,
    measuring: bool,
    /// Whether responses wait in `fresh` until they are timed: before measuring, and where single
    /// results are wanted.
    timing: bool,
    /// How many single results are kept.
    capture: u64,
    /// By status; small enough to be added to without looking.
    statuses: Box<[u64; 1000]>,
    bytes_received: u64,
    body_bytes: u64,
    rates: Vec<f64>,
    results: Vec<SingleResult>,
    /// Responses received and not timed yet.
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

    /// So many bytes came; what was received before has been timed.
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

    /// Remembers deviations from the protocol.
    #[inline]
    pub(super) fn met(&mut self, oddities: Oddities) {
        self.oddities |= oddities;
    }

    /// A response is complete.
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

    /// The next of the responses that are complete was timed.
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
        // A worker that panicked has left whole numbers behind.
        let mut all = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        // A stream that was reset has no status and is counted as 0.
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
