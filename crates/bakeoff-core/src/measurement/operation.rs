//! Holds the figures of one operation, over a load and in each second.
//!
//! Not here: adding up a load (`Measurement`), ranking failures (`crate::ranked_latencies`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{EXAMPLES_MAX, ErrorKind, Errors, Example};
use crate::histogram::{HistogramError, Latencies, PackedLatencies};
use crate::ranked_latencies::RankedLatencies;
use crate::units;

/// Holds the figures of one operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OperationFigures {
    /// Verified successes.
    pub verified: u64,
    /// Verified successes that ended inside the measured window, including operations due before it. Throughput is
    /// based on them.
    pub verified_in_window: u64,
    /// Verified reads that were allowed to be stale, and were.
    pub stale_reads: u64,
    /// Verified reads of a key that found a value.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub hits: u64,
    /// Verified reads of a key that correctly found none: it was never written, or deleted.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub misses: u64,
    /// Time from due to done, for verified successes.
    pub response: Latencies,
    /// Time from sent to done, for verified successes.
    pub service: Latencies,
    /// Time from due to failed, for failures that are not in `unanswered`.
    pub failed: Latencies,
    /// Time from due to done, for the failures in `failed` that were complete answers: a status, a wrong value.
    #[serde(default, skip_serializing_if = "Latencies::is_empty")]
    pub failed_answers: Latencies,
    /// Time from sent to done, for the failures in `failed_answers`.
    #[serde(default, skip_serializing_if = "Latencies::is_empty")]
    pub failed_answers_service: Latencies,
    /// Time from due to given up, for operations that timed out, found no connection or were never sent.
    #[serde(default, skip_serializing_if = "Latencies::is_empty")]
    pub unanswered: Latencies,
    /// Time from sent to given up, for operations that timed out.
    #[serde(default, skip_serializing_if = "Latencies::is_empty")]
    pub unanswered_service: Latencies,
    /// Failures by kind.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::KeyedMap<ErrorKind, Errors>"))]
    pub errors: BTreeMap<ErrorKind, Errors>,
}

impl OperationFigures {
    /// Returns the number of all failures.
    pub fn error_count(&self) -> u64 {
        self.errors.values().map(|errors| errors.count).sum()
    }

    /// Returns true if each success and each failure has its times, and each group is within the others.
    pub fn adds_up(&self) -> bool {
        self.response.count() == self.verified
            && self.service.count() == self.verified
            && self.hits + self.misses <= self.verified
            && self.stale_reads <= self.verified
            && self.failed.count() + self.unanswered.count() == self.error_count()
            && self.failed_answers.count() <= self.failed.count()
            && self.unanswered_service.count() <= self.unanswered.count()
    }

    /// Returns the number of failures of one kind.
    pub fn errors_of(&self, kind: ErrorKind) -> u64 {
        self.errors.get(&kind).map_or(0, |errors| errors.count)
    }

    /// Returns the number of failures of unknown outcome.
    pub fn unknown_count(&self) -> u64 {
        let unknown = self.errors.iter().filter(|(kind, _)| kind.has_unknown_outcome());
        unknown.map(|(_, errors)| errors.count).sum()
    }

    /// Returns the response times of all due operations, with failures ranked last.
    pub fn responses(&self) -> RankedLatencies<'_> {
        let mut waits = Cow::Borrowed(&self.failed);
        if !self.unanswered.is_empty() {
            waits.to_mut().merge(&self.unanswered);
        }
        RankedLatencies::new(Cow::Borrowed(&self.response), waits, self.error_count())
    }

    /// Returns the service times of all sent operations, with failures ranked last. For failures other than timeouts
    /// the time in flight is unknown.
    pub fn services(&self) -> RankedLatencies<'_> {
        let never_sent = [ErrorKind::Dropped, ErrorKind::Refused].map(|kind| self.errors_of(kind));
        let failures = self.error_count() - never_sent.iter().sum::<u64>();
        RankedLatencies::new(
            Cow::Borrowed(&self.service),
            Cow::Borrowed(&self.unanswered_service),
            failures,
        )
    }

    /// Returns the time from due to answered or given up, for any answer. Other load generators show this
    /// distribution. Broken connections are not included.
    pub fn answered_and_unanswered(&self) -> Latencies {
        merged([&self.response, &self.failed_answers, &self.unanswered])
    }

    /// Returns the time from sent to answered or given up, for any answer.
    pub fn answered_and_unanswered_service(&self) -> Latencies {
        merged([&self.service, &self.failed_answers_service, &self.unanswered_service])
    }

    /// Returns the time from due to done or failed of every operation.
    pub fn all_waits(&self) -> Latencies {
        merged([&self.response, &self.failed, &self.unanswered])
    }

    /// Returns the service times of successes and of timeouts.
    pub fn service_and_unanswered(&self) -> Latencies {
        merged([&self.service, &self.unanswered_service])
    }

    /// Counts a failure with its text, and keeps it as an example if it is one of the first.
    pub fn count_error(&mut self, kind: ErrorKind, example: impl FnOnce() -> Example) {
        if self.count_without_text(kind) {
            self.keep_error_text(kind, example());
        }
    }

    /// Counts a failure. Returns true if its text is needed.
    fn count_without_text(&mut self, kind: ErrorKind) -> bool {
        let errors = self.errors.entry(kind).or_default();
        errors.count += 1;
        errors.examples.len() < EXAMPLES_MAX || kind.varies_in_its_text()
    }

    /// Keeps the text of a counted failure.
    fn keep_error_text(&mut self, kind: ErrorKind, mut example: Example) {
        let errors = self.errors.entry(kind).or_default();
        example.cut();
        if kind.varies_in_its_text() {
            errors.count_text(&example.what);
        }
        if errors.examples.len() < EXAMPLES_MAX {
            errors.examples.push(example);
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.verified += other.verified;
        self.verified_in_window += other.verified_in_window;
        self.stale_reads += other.stale_reads;
        self.hits += other.hits;
        self.misses += other.misses;
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.failed.merge(&other.failed);
        self.failed_answers.merge(&other.failed_answers);
        self.failed_answers_service.merge(&other.failed_answers_service);
        self.unanswered.merge(&other.unanswered);
        self.unanswered_service.merge(&other.unanswered_service);
        for (&kind, theirs) in &other.errors {
            self.errors.entry(kind).or_default().merge(theirs);
        }
    }

    /// Clears all figures but keeps the histograms' memory.
    pub fn clear(&mut self) {
        self.response.clear();
        self.service.clear();
        self.failed.clear();
        self.failed_answers.clear();
        self.failed_answers_service.clear();
        self.unanswered.clear();
        self.unanswered_service.clear();
        self.errors.clear();
        (self.verified, self.verified_in_window, self.stale_reads) = (0, 0, 0);
        (self.hits, self.misses) = (0, 0);
    }
}

/// Merges several distributions.
fn merged<const N: usize>(parts: [&Latencies; N]) -> Latencies {
    let mut all = Latencies::default();
    parts.into_iter().for_each(|part| all.merge(part));
    all
}

/// Holds the figures of one operation in one second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SecondFigures {
    /// Verified successes that ended in this second and inside the measured window.
    pub verified: u64,
    /// Failures that ended in this second.
    pub errors: u64,
    /// Time from due to done, for verified successes.
    pub response: PackedLatencies,
    /// Time from sent to done, for verified successes.
    pub service: PackedLatencies,
    /// Time from due to failed, for all failures. `None` without failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<PackedLatencies>,
}

impl SecondFigures {
    /// Adds another generator's figures of the same operation in the same second, distribution by distribution.
    ///
    /// # Errors
    /// Fails if a text is not a histogram.
    pub fn merge(&mut self, other: &Self) -> Result<(), HistogramError> {
        let merged = |ours: &PackedLatencies, theirs: &PackedLatencies| {
            let mut all = ours.unpack()?;
            all.merge(&theirs.unpack()?);
            Ok::<_, HistogramError>(all.pack())
        };
        self.verified += other.verified;
        self.errors += other.errors;
        self.response = merged(&self.response, &other.response)?;
        self.service = merged(&self.service, &other.service)?;
        self.failed = match (self.failed.take(), &other.failed) {
            (Some(ours), Some(theirs)) => Some(merged(&ours, theirs)?),
            (ours, theirs) => ours.or_else(|| theirs.clone()),
        };
        Ok(())
    }

    /// Returns the response times of the operations that ended in this second, with failures ranked last. Fails if
    /// the text is not a histogram.
    pub fn responses(&self) -> Result<RankedLatencies<'static>, HistogramError> {
        let response = self.response.unpack()?;
        let waits = self.failed.as_ref().map(PackedLatencies::unpack).transpose()?;
        Ok(RankedLatencies::new(
            Cow::Owned(response),
            Cow::Owned(waits.unwrap_or_default()),
            self.errors,
        ))
    }
}

/// Holds one second of a load, by operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Second {
    /// Seconds since measuring began.
    pub second: u32,
    /// Operations that occurred in this second.
    pub operations: BTreeMap<String, SecondFigures>,
}

impl Second {
    /// Returns the response times of all operations, with failures ranked last. Fails if a text is not a histogram.
    pub fn responses(&self) -> Result<RankedLatencies<'static>, HistogramError> {
        RankedLatencies::all(self.operations.values().map(SecondFigures::responses))
    }

    /// Returns a percentile of all operations; `None` if it is a failure, or too few operations ended.
    pub fn percentile(&self, quantile: f64) -> Option<Duration> {
        self.responses().ok()?.percentile(quantile).latency()
    }

    /// Returns the verified successes of all operations.
    pub fn verified(&self) -> u64 {
        self.operations.values().map(|figures| figures.verified).sum()
    }
}
