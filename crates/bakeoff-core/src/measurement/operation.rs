//! Figures of one operation, over a load and in one of its seconds.
//!
//! Not here: adding up a load (`Measurement`), ranking failures (`crate::ranked`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{EXAMPLES_MAX, ErrorKind, Errors, Example};
use crate::histogram::{HistogramError, Latencies, PackedLatencies};
use crate::ranked::Ranked;
use crate::units;

/// One operation's figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationFigures {
    /// Verified successes.
    pub verified: u64,
    /// Verified successes that ended inside the measured window, also of operations that were due
    /// before it; what throughput is made of.
    pub verified_in_window: u64,
    /// Number of verified reads that were allowed to be stale and were.
    #[serde(rename = "old_reads", alias = "stale_reads", default)]
    pub stale_reads: u64,
    /// Number of verified reads of a key that found a value. Records of earlier builds do not tell.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub hits: u64,
    /// Number of verified reads of a key that found none, and rightly so: it was never written, or it was deleted.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub misses: u64,
    /// From due to done, of verified successes.
    pub response: Latencies,
    /// From sent to done, of verified successes.
    pub service: Latencies,
    /// From due to failed, for failures that are not in `unanswered`.
    pub failed: Latencies,
    /// From due to done, of the failures among `failed` that were complete answers: a status, a wrong value.
    #[serde(default, skip_serializing_if = "Latencies::is_empty")]
    pub failed_answers: Latencies,
    /// From sent to done, of the same failures.
    #[serde(default, skip_serializing_if = "Latencies::is_empty")]
    pub failed_answers_service: Latencies,
    /// From due to given up: operations that timed out, found no connection or were never sent. In
    /// records of format 1 they are among `response`.
    #[serde(default, skip_serializing_if = "Latencies::is_empty")]
    pub unanswered: Latencies,
    /// From sent to given up: operations that timed out. In records of format 1 they are among
    /// `service`.
    #[serde(default, skip_serializing_if = "Latencies::is_empty")]
    pub unanswered_service: Latencies,
    /// Failures by kind.
    pub errors: BTreeMap<ErrorKind, Errors>,
}

impl OperationFigures {
    /// All failures.
    pub fn error_count(&self) -> u64 {
        self.errors.values().map(|errors| errors.count).sum()
    }

    /// Failures of one kind.
    pub fn errors_of(&self, kind: ErrorKind) -> u64 {
        self.errors.get(&kind).map_or(0, |errors| errors.count)
    }

    /// Response times of all operations that were due, failures ranked last.
    pub fn responses(&self) -> Ranked<'_> {
        let failures = self.error_count();
        let (response, old) = self.successes(&self.response, failures);
        let mut waits = Cow::Borrowed(&self.failed);
        for more in [Some(&self.unanswered), old.as_ref()].into_iter().flatten() {
            if !more.is_empty() {
                waits.to_mut().merge(more);
            }
        }
        Ranked::new(response, waits, failures)
    }

    /// Service times of all operations that were sent, failures ranked last. How long other failures
    /// than timeouts had been under way is not known.
    pub fn services(&self) -> Ranked<'_> {
        let never_sent = [ErrorKind::Dropped, ErrorKind::Refused].map(|kind| self.errors_of(kind));
        let failures = self.error_count() - never_sent.iter().sum::<u64>();
        let (service, old) = self.successes(&self.service, failures);
        let mut waits = Cow::Borrowed(&self.unanswered_service);
        if let Some(old) = old {
            waits.to_mut().merge(&old);
        }
        Ranked::new(service, waits, failures)
    }

    /// The successes among these latencies, and failures that are among them in records of format 1:
    /// those had waited for as long as they might, and are taken for the slowest.
    fn successes<'a>(
        &self,
        of: &'a Latencies,
        failures: u64,
    ) -> (Cow<'a, Latencies>, Option<Latencies>) {
        let surplus = of.count().saturating_sub(self.verified).min(failures);
        if surplus == 0 {
            return (Cow::Borrowed(of), None);
        }
        let mut successes = of.clone();
        let old = successes.split_off_slowest(surplus);
        (Cow::Owned(successes), Some(old))
    }

    /// Returns how long each operation took from its due moment until it was answered, whatever the answer, or
    /// given up. Other load generators show this distribution. Connections that broke are not in it.
    pub fn answered_and_unanswered(&self) -> Latencies {
        merged([&self.response, &self.failed_answers, &self.unanswered])
    }

    /// Returns the same from the moment each was sent.
    pub fn answered_and_unanswered_service(&self) -> Latencies {
        merged([&self.service, &self.failed_answers_service, &self.unanswered_service])
    }

    /// Returns the time from due to done or failed of every operation, whatever became of it.
    pub fn all_waits(&self) -> Latencies {
        merged([&self.response, &self.failed, &self.unanswered])
    }

    /// Returns the service times of successes and of operations that timed out.
    pub fn service_and_unanswered(&self) -> Latencies {
        merged([&self.service, &self.unanswered_service])
    }

    /// Counts a failure with what it said, and keeps it as an example if it is among the first.
    pub fn count_error(&mut self, kind: ErrorKind, example: impl FnOnce() -> Example) {
        if self.count_untold(kind) {
            self.tell_error(kind, example());
        }
    }

    /// Counts a failure, and returns whether its text is wanted.
    fn count_untold(&mut self, kind: ErrorKind) -> bool {
        let errors = self.errors.entry(kind).or_default();
        errors.count += 1;
        errors.examples.len() < EXAMPLES_MAX || kind.is_told_by_its_text()
    }

    /// Keeps the text of a failure that was counted.
    fn tell_error(&mut self, kind: ErrorKind, mut example: Example) {
        let errors = self.errors.entry(kind).or_default();
        example.cut();
        if kind.is_told_by_its_text() {
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

    /// Forgets everything; keeps the histograms' memory.
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

/// Returns these distributions as one.
fn merged<const N: usize>(parts: [&Latencies; N]) -> Latencies {
    let mut all = Latencies::default();
    parts.into_iter().for_each(|part| all.merge(part));
    all
}

/// One operation in one second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SecondFigures {
    /// Verified successes that ended in this second and inside the measured window.
    pub verified: u64,
    /// Failures that ended in this second.
    pub errors: u64,
    /// From due to done, of verified successes.
    pub response: PackedLatencies,
    /// From sent to done, of verified successes.
    pub service: PackedLatencies,
    /// From due to failed, of all failures; absent where there was none, and in records of format 1,
    /// where those that waited are among `response`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<PackedLatencies>,
}

impl SecondFigures {
    /// Adds what another generator measured of the same operation in the same second, distribution by distribution.
    ///
    /// # Errors
    /// When a text is no histogram.
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

    /// Response times of the operations that ended in this second, failures ranked last; an error
    /// when the text is no histogram.
    pub fn responses(&self) -> Result<Ranked<'static>, HistogramError> {
        let mut response = self.response.unpack()?;
        let waits = match &self.failed {
            Some(failed) => failed.unpack()?,
            // Format 1: those that waited are the slowest of what is more than the successes.
            None if self.errors > 0 => {
                let surplus = response.count().saturating_sub(self.verified).min(self.errors);
                response.split_off_slowest(surplus)
            }
            None => Latencies::default(),
        };
        Ok(Ranked::new(Cow::Owned(response), Cow::Owned(waits), self.errors))
    }
}

/// One second of a load, by operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Seconds since measuring began.
    pub second: u32,
    /// Its operations; those that did not occur are absent.
    pub operations: BTreeMap<String, SecondFigures>,
}

impl Second {
    /// Response times of all its operations, failures ranked last; an error when a text is no
    /// histogram.
    pub fn responses(&self) -> Result<Ranked<'static>, HistogramError> {
        Ranked::all(self.operations.values().map(SecondFigures::responses))
    }

    /// Verified successes of all operations.
    pub fn verified(&self) -> u64 {
        self.operations.values().map(|figures| figures.verified).sum()
    }
}
