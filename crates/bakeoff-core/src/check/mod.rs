//! Checks, audits and their verdicts. "Not checked" is a verdict of its own and never passes for a success.
//!
//! Not here: what is sampled and read back (the binary).

mod causes;
pub mod explained;
mod measured;
mod name;
mod stationary;

pub use measured::{gave_out, measured, unserved};
pub use name::{Cause, CheckName};

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::measurement::Measurement;
use crate::units::{count_text, figure_text, latency_text, plural};

pub mod machine;

/// The busiest thread of the generator may use this share of a CPU; above it nobody knows whether
/// the server or the generator set the pace.
pub const BUSIEST_MAX: f64 = 0.9;
/// Loads shorter than this tell nothing of how busy a thread is.
const BUSY_AFTER: Duration = Duration::from_secs(1);
/// Schedule lag that 1 % of an open load's operations may exceed. A later one is allowed where it is at most
/// [`SCHEDULE_LAG_SHARE_MAX`] of what 1 % of the responses take.
pub const SCHEDULE_LAG_MAX: Duration = Duration::from_millis(1);
/// See [`SCHEDULE_LAG_MAX`].
pub const SCHEDULE_LAG_SHARE_MAX: f64 = 0.1;

/// A thread of the generator may stand still for this share of the window, counted from
/// [`STALL_MIN`](crate::measurement::STALL_MIN) on: more than one in a thousand operations met it
/// above that, and the p99.9 is the generator's.
pub const STALLED_SHARE_MAX: f64 = 0.001;
/// A CPU limit may hold the generator back for this share of the window; the kernel does so for tens of milliseconds at a
/// time.
pub const THROTTLED_SHARE_MAX: f64 = 0.001;
/// Answers may wait behind others in the generator for this share of the median response time before a
/// median below [`LAG_MATTERS_BELOW`] is said to be the generator's, too.
pub const LAG_SHARE_MAX: f64 = 0.1;
/// See [`LAG_SHARE_MAX`].
pub const LAG_MATTERS_BELOW: Duration = Duration::from_millis(1);

/// Returns why a load says more of the generator than of the server; empty when it does not.
pub fn generator_limits(measurement: &Measurement) -> Vec<String> {
    let limits =
        [generator_busy, generator_throttled, schedule_lagged, generator_stalled, answers_waited];
    limits.into_iter().filter_map(|limit| limit(measurement)).collect()
}

/// Returns whether the generator's busiest thread was at its limit.
pub fn generator_busy(measurement: &Measurement) -> Option<String> {
    let busy = measurement.generator_busiest > BUSIEST_MAX && measurement.window >= BUSY_AFTER;
    busy.then(|| {
        format!(
            "the generator's busiest thread used {} % of its CPU: the server might do more, or \
             answer sooner",
            figure_text(measurement.generator_busiest * 100.0)
        )
    })
}

/// Returns whether a CPU limit held the generator back for long enough to be seen in the percentiles.
pub fn generator_throttled(measurement: &Measurement) -> Option<String> {
    let share = measurement.generator_throttled.as_secs_f64() / measurement.window.as_secs_f64();
    (share > THROTTLED_SHARE_MAX).then(|| {
        format!(
            "a CPU limit held the generator back for {} of {}: give it more CPU (`cpu.max` of its cgroup, `limits.cpu` of \
             its pod)",
            latency_text(measurement.generator_throttled),
            latency_text(measurement.window)
        )
    })
}

/// Returns whether an open load's schedule was not kept though clients were free; never of a closed load,
/// which has no schedule to fall behind.
pub fn schedule_lagged(measurement: &Measurement) -> Option<String> {
    let schedule_lag = measurement.schedule_lag.quantile(0.99)?;
    let response = measurement.total().response.quantile(0.99).unwrap_or_default();
    (schedule_lag > SCHEDULE_LAG_MAX.max(response.mul_f64(SCHEDULE_LAG_SHARE_MAX))).then(|| {
        format!(
            "the generator could not keep the schedule: 1 % of operations went out {} late or \
             later though a client was free",
            latency_text(schedule_lag)
        )
    })
}

/// Returns whether a thread of the generator stood still for long enough to be seen in the percentiles.
pub fn generator_stalled(measurement: &Measurement) -> Option<String> {
    let (thread, stalled) = measurement.most_stalled()?;
    let of_thread = || measurement.stalls.iter().filter(|stall| stall.thread == thread);
    let longest = of_thread().max_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    (stalled.as_secs_f64() > measurement.window.as_secs_f64() * STALLED_SHARE_MAX).then(|| {
        let length = Duration::try_from_secs_f64(longest.seconds).unwrap_or_default();
        let from = Duration::try_from_secs_f64(longest.from).unwrap_or_default();
        let more = match of_thread().count() - 1 {
            0 => String::new(),
            more => format!(" (and {} more of at least 100 ms)", count_text(more as u64)),
        };
        format!(
            "the generator stood still for {}, from {} on{more}: what was due or answered meanwhile \
             waited for it and not for the server",
            latency_text(length),
            latency_text(from)
        )
    })
}

/// Returns whether answers to an open load waited in the generator, behind others, for a good part of their
/// time. Of a closed load latencies follow from the number of clients, and are not what it asks for.
pub fn answers_waited(measurement: &Measurement) -> Option<String> {
    if measurement.schedule_lag.is_empty() {
        return None;
    }
    let lag = measurement.receive_lag.quantile(0.99)?;
    let response = measurement.total().response.quantile(0.99).unwrap_or_default();
    (lag > SCHEDULE_LAG_MAX.max(response.mul_f64(SCHEDULE_LAG_SHARE_MAX))).then(|| {
        format!(
            "1 % of answers that had arrived waited {} or longer until the generator read them",
            latency_text(lag)
        )
    })
}

/// Returns which share of a median response time below a millisecond 1 % of answers waited in the generator,
/// behind others; `None` where that is no more than [`LAG_SHARE_MAX`], or the median is longer.
pub fn lag_share(measurement: &Measurement) -> Option<f64> {
    let lag = measurement.receive_lag.quantile(0.99)?;
    let median = measurement.total().response.quantile(0.5)?;
    let share = lag.as_secs_f64() / median.as_secs_f64().max(f64::MIN_POSITIVE);
    (median < LAG_MATTERS_BELOW && share > LAG_SHARE_MAX).then_some(share)
}

/// Returns why latencies below a millisecond are partly the generator's; `None` where they are the server's,
/// or longer. It makes no trial invalid: throughput and longer latencies stand.
pub fn lag_in_latencies(measurement: &Measurement) -> Option<String> {
    let (share, lag) = (lag_share(measurement)?, measurement.receive_lag.quantile(0.99)?);
    Some(format!(
        "1 % of answers waited {} or longer behind others until the generator read them, {} % of the \
         median response time: differences of so much below 1 ms say nothing of the server",
        latency_text(lag),
        figure_text(share * 100.0)
    ))
}

/// The outcome of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict", content = "why")]
pub enum Verdict {
    /// It was checked and holds.
    Passed,
    /// It was checked and does not hold, because of this.
    Failed(String),
    /// It could not be checked, because of this.
    NotChecked(String),
}

impl Verdict {
    /// Returns whether it was checked and holds.
    pub fn passed(&self) -> bool {
        *self == Self::Passed
    }

    /// Returns whether it was checked and does not hold.
    pub fn failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    /// Returns why it does not hold; `None` where it does, or was not checked.
    pub fn into_failure(self) -> Option<String> {
        match self {
            Self::Failed(why) => Some(why),
            Self::Passed | Self::NotChecked(_) => None,
        }
    }
}

/// Subject of an audit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Audited {
    /// Keys that were acknowledged, and are read back.
    #[default]
    Writes,
    /// Requests that somebody granted, and that were let through: never more than were granted.
    Passages,
}

impl Audited {
    fn is_writes(&self) -> bool {
        *self == Self::Writes
    }
}

/// Result of reading acknowledged writes back, or of counting requests that were let through.
///
/// Its fields are a record's, which stays flat: old records load by the same names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// When: `after the load`, `after kill -9 and restart of all nodes`.
    pub when: String,
    /// Its subject.
    #[serde(default, skip_serializing_if = "Audited::is_writes")]
    pub of: Audited,
    /// Keys with an acknowledged write; of passages, requests that were granted.
    pub acknowledged: u64,
    /// Number that was read back; of passages, number of requests that were let through.
    pub read: u64,
    /// Number that was gone.
    pub lost: u64,
    /// Number with another value than was written, or an older one than was acknowledged.
    pub wrong: u64,
    /// Number of these with an older write than was acknowledged: an update is lost.
    #[serde(default, skip_serializing_if = "crate::units::is_zero")]
    pub older: u64,
    /// Number that could not be read.
    pub unreadable: u64,
    /// Number of those to be read back whose loss would have been noticed; `None` where nobody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<u64>,
    /// In the midst of what the nodes were killed before, if they were killed under load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_load: Option<KilledUnderLoad>,
    /// Reason for a kill at rest, where it was to be under load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_rest_because: Option<String>,
    /// Whether what was found is guaranteed by nobody: a system that acknowledges once a write is in
    /// memory may lose it in a kill.
    #[serde(
        rename = "unpromised",
        alias = "unguaranteed",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub unguaranteed: bool,
    /// The first of each, by key.
    pub examples: Vec<String>,
    /// Its verdict.
    pub verdict: Verdict,
}

impl Audit {
    /// An audit in which nothing has been read.
    pub fn new(when: &str, verdict: Verdict) -> Self {
        Self {
            when: when.to_owned(),
            of: Audited::Writes,
            acknowledged: 0,
            read: 0,
            lost: 0,
            wrong: 0,
            older: 0,
            unreadable: 0,
            claimed: None,
            under_load: None,
            at_rest_because: None,
            unguaranteed: false,
            examples: Vec::new(),
            verdict,
        }
    }
}

/// Writes under way when all nodes were killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KilledUnderLoad {
    /// Clients that wrote.
    pub clients: u32,
    /// Time for which they had written, in milliseconds.
    pub after_ms: u64,
    /// Writes that were acknowledged in that time.
    pub acknowledged: u64,
}

/// Requests that were granted and that were let through, each by the word of who did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passages {
    /// By whom rights are known.
    pub granted: u64,
    /// To what is protected.
    pub passed: u64,
}

impl Passages {
    /// Judges a gate: nothing may pass unchecked. A grant that was not made use of, since the client had left,
    /// is no fault.
    pub fn audit(self, when: &str) -> Audit {
        let Self { granted, passed } = self;
        let verdict = match passed.saturating_sub(granted) {
            0 => Verdict::Passed,
            unchecked => Verdict::Failed(format!(
                "{} passed unchecked: {} in all, with {} granted",
                plural(unchecked, "request"),
                count_text(passed),
                count_text(granted),
            )),
        };
        Audit {
            of: Audited::Passages,
            acknowledged: granted,
            read: passed,
            ..Audit::new(when, verdict)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Latencies;
    use crate::measurement::{GeneratorStall, OperationFigures};

    /// An open load of ten seconds whose operations went out `schedule_lag` late and took `response`.
    fn measured(busiest: f64, schedule_lag_us: u64, response_us: u64) -> Measurement {
        let of = |us| {
            let mut latencies = Latencies::default();
            latencies.record_many(Duration::from_micros(us), 100);
            latencies
        };
        let figures = OperationFigures { response: of(response_us), ..OperationFigures::default() };
        Measurement {
            window: Duration::from_secs(10),
            generator_busiest: busiest,
            schedule_lag: of(schedule_lag_us),
            operations: [("get".to_owned(), figures)].into(),
            ..Measurement::default()
        }
    }

    fn check(measurement: &Measurement, expected: &[&str]) {
        let reasons = generator_limits(measurement);
        assert_eq!(reasons.len(), expected.len(), "{reasons:?}");
        for (reason, expected) in reasons.iter().zip(expected) {
            assert!(reason.contains(expected), "{reason}");
        }
    }

    #[test]
    fn a_generator_without_room_is_told_from_one_with() {
        check(&measured(0.9, 10, 100), &[]);
        check(&measured(0.91, 10, 100), &["91.0 % of its CPU"]);
        let short = Measurement { window: Duration::from_millis(900), ..measured(1.0, 10, 100) };
        check(&short, &[]);
    }

    #[test]
    fn a_schedule_that_was_not_kept_is_told_when_it_matters() {
        check(&measured(0.1, 990, 1_000), &[]);
        check(&measured(0.1, 1_100, 2_000), &["could not keep the schedule"]);
        check(&measured(0.1, 1_100, 20_000), &[]);
        check(&measured(0.95, 5_000, 20_000), &["95.0 %", "could not keep the schedule"]);
    }

    #[test]
    fn a_generator_that_stood_still_is_told_whatever_the_load() {
        let stall = |thread, seconds| GeneratorStall { thread, from: 3.2, seconds };
        let stalled = |seconds, stalls: &[GeneratorStall]| Measurement {
            window: Duration::from_secs(seconds),
            schedule_lag: Latencies::default(),
            stalls: stalls.to_vec(),
            ..measured(0.1, 10, 1_000)
        };
        let why = "the generator stood still for 150 ms, from 3.20 s on";
        check(&stalled(10, &[stall(0, 0.15)]), &[why]);
        check(&stalled(160, &[stall(0, 0.15)]), &[]);
        check(&stalled(160, &[stall(0, 0.1), stall(1, 0.1)]), &[]);
        check(&stalled(160, &[stall(1, 0.1), stall(1, 0.1)]), &["(and 1 more of at least 100 ms)"]);
    }

    #[test]
    fn answers_that_waited_in_the_generator_are_told_when_it_matters() {
        let lagged = |lag_us, response_us| {
            let mut of = measured(0.1, 10, response_us);
            of.receive_lag.record_many(Duration::from_micros(lag_us), 100);
            of
        };
        check(&lagged(990, 1_000), &[]);
        check(&lagged(1_100, 2_000), &["answers that had arrived waited 1.1"]);
        check(&lagged(1_100, 20_000), &[]);
        check(&Measurement { schedule_lag: Latencies::default(), ..lagged(1_100, 2_000) }, &[]);
        let note = |lag_us, response_us| lag_in_latencies(&lagged(lag_us, response_us));
        assert_eq!(note(40, 500), None);
        assert_eq!(note(400, 1_100), None);
        let why = note(60, 500).expect("12 % of half a millisecond");
        assert!(why.contains("12.0 % of the median response time"), "{why}");
    }

    #[test]
    fn more_that_passed_than_was_granted_passed_unchecked() {
        let audit = |granted, passed| Passages { granted, passed }.audit("during the load");
        assert!(audit(0, 0).verdict.passed());
        assert!(audit(10_000, 9_999).verdict.passed());
        assert!(audit(10_000, 10_000).verdict.passed());
        let Verdict::Failed(why) = audit(10_000, 12_001).verdict else { panic!("it passed") };
        assert_eq!(why, "2,001 requests passed unchecked: 12,001 in all, with 10,000 granted");
        let one = audit(1, 0);
        assert_eq!((one.acknowledged, one.read, one.of), (1, 0, Audited::Passages));
    }
}
