//! Holds the measurement of a load. Parts of it add up exactly.
//!
//! It covers only operations that were due after the warm-up. `response` runs from due to done, `service` from sent
//! to done; both contain only verified successes. The waiting times of failures are separate: `unanswered` for
//! failures that ended by waiting (timeouts, no connection, never sent), `failed` for all others. Percentiles combine
//! them, with failures ranked last ([`OperationFigures::responses`]), so no operation disappears by failing.
//! Throughput counts only verified successes.
//!
//! Not here: measuring (the engine), presentation (`report`).

mod addresses;
mod delayed_ack;
mod dues;
mod errors;
mod operation;
mod parts;
#[cfg(test)]
mod shares_tests;
mod stalls;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::histogram::{HistogramError, Latencies};
use crate::staleness::Staleness;
use crate::units::{self, count_text};
use crate::watch::WatchFigures;

pub use addresses::UsedAddress;
pub use delayed_ack::{DelayedAcks, PausedEnds};
pub use dues::DueTimes;
pub use errors::{EXAMPLES_MAX, ErrorKind, ErrorText, Errors, Example, TEXTS_MAX};
pub use operation::{OperationFigures, Second, SecondFigures};
pub use parts::{LoadPart, PartSilences};
pub use stalls::{GeneratorStall, STALL_MIN, STALLS_MAX, longest_stalls};
pub use steps::{STEP, STEPS_MAX, StepCounts, StepSeries};

/// Minimum length of a silence that conditions consider.
pub const SILENCE_MIN: Duration = Duration::from_millis(500);

/// Minimum length of a recorded silence. A scheduler's time slice can be as long.
pub const SILENCE_RECORDED_MIN: Duration = Duration::from_millis(10);

/// Factor from which a silence is a stall, relative to the longer of the median service time and the mean time
/// between successes. Servers that answer in batches have silences as long as an operation takes.
pub const STALL_TIMES: u32 = 10;

/// Minimum share of the window without success at which a system stood still. The p99 of a closed load hides as much.
pub const STOOD_STILL_MIN: f64 = 0.01;

/// Factor from which a load's last silence means that the system gave out, relative to the mean time between
/// successes.
const GAVE_OUT_GAPS: f64 = 3.0;

/// Minimum share of successes by which throughput and verified operations must differ to be reported separately.
pub const ACCOUNTED_FROM: f64 = 0.01;

/// Maximum number of kept silences; the longest are kept.
pub const SILENCES_MAX: usize = 1000;

/// Maximum number of kept send times of an open load's first requests.
pub const SENT_MAX: usize = 1000;

/// Maximum number of nodes with separate figures. With more, each has too few answers.
pub const TARGETS_MAX: usize = 16;

/// Describes a time in which no operation succeeded although at least one was due throughout.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Silence {
    /// Start in seconds since measuring began.
    pub from: f64,
    /// Length in seconds; at least 0.5 ([`SILENCE_MIN`]), or less if it is a stall.
    pub seconds: f64,
}

/// Holds the figures of one of several nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TargetFigures {
    /// Address of the node, such as `127.0.0.1:2379`.
    pub node: String,
    /// Verified successes.
    pub verified: u64,
    /// Failures, except operations that were never sent.
    pub errors: u64,
    /// Time from sent to done, for verified successes and timeouts.
    pub service: Latencies,
}

impl TargetFigures {
    /// Adds the figures of `other`, for the same node.
    pub fn merge(&mut self, other: &Self) {
        self.verified += other.verified;
        self.errors += other.errors;
        self.service.merge(&other.service);
    }

    /// Clears all figures but keeps the node and the histogram's memory.
    pub fn clear(&mut self) {
        (self.verified, self.errors) = (0, 0);
        self.service.clear();
    }
}

/// Counts TLS handshakes of the clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Handshakes {
    /// Full handshakes.
    pub full: u64,
    /// Handshakes that resumed an earlier session.
    pub resumed: u64,
}

impl Handshakes {
    /// Returns the number of all handshakes.
    pub fn all(&self) -> u64 {
        self.full + self.resumed
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.full += other.full;
        self.resumed += other.resumed;
    }

    fn is_none(&self) -> bool {
        self.all() == 0
    }
}

/// Counts HTTP answers, without those of the warm-up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HttpAnswers {
    /// Responses by status, successes and failures. Followed redirects are left out.
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes of whole responses, including heads.
    pub bytes: u64,
    /// Bytes of bodies, without their transfer coding.
    pub body_bytes: u64,
}

impl HttpAnswers {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        self.bytes += other.bytes;
        self.body_bytes += other.body_bytes;
    }

    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Holds the measurement of one load, or of one stage of it.
///
/// Its fields are those of a record, which stays flat.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measurement {
    /// Length of the measured window. For a load by count, it ends with the last operation, or when the next one
    /// would have been due if they are evenly spaced.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub window: Duration,
    /// Figures by operation: `put`, `get`, ….
    pub operations: BTreeMap<String, OperationFigures>,
    /// Figures of each second.
    pub seconds: Vec<Second>,
    /// Counts in steps of 100 ms ([`STEP`]); empty unless a fault happened during the load.
    #[serde(default, skip_serializing_if = "StepSeries::is_empty")]
    pub steps: StepSeries,
    /// Times without success by node and by operation; empty unless a fault happened during the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub part_silences: Vec<PartSilences>,
    /// Due times of failures and slow successes; empty in records.
    #[serde(default, skip_serializing_if = "DueTimes::is_empty")]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub dues: DueTimes,
    /// Operations that ended before measuring began.
    pub warmup_operations: u64,
    /// Successes in the last second of the warm-up, or in all of a shorter one.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub last_of_warmup: u64,
    /// Operations due in the warm-up that succeeded within the window. Only throughput counts them.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub carried_over: u64,
    /// Time that clients spent without a connection, added up, without the warm-up.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub disconnected: Duration,
    /// Clients that had only failures since measuring began.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub unserved_clients: u64,
    /// Clients that had an operation since measuring began.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub clients_with_work: u64,
    /// Clients among these without a success within the window.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub clients_without_success: u64,
    /// Clients that got their first connection after the load had begun.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub late_clients: u64,
    /// Clients that never got a connection.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub unconnected_clients: u64,
    /// Operations sent again because the server did not process them: it refused them, or closed a kept connection
    /// before it answered. Their times begin when they were first due.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub reissued: u64,
    /// Kept connections that the server closed while idle.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub closed_idle: u64,
    /// Answers whose last bytes came after a pause.
    #[serde(default, skip_serializing_if = "PausedEnds::is_none")]
    pub paused_ends: PausedEnds,
    /// Tolerated deviations from HTTP, in words: `folded header fields`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub oddities: BTreeSet<String>,
    /// Counts of HTTP answers; empty for other protocols.
    #[serde(default, skip_serializing_if = "HttpAnswers::is_none")]
    pub answers: HttpAnswers,
    /// Addresses that clients connected to, in the order of first use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<UsedAddress>,
    /// Connections that were lost or could not be reopened, by observation.
    pub connection_errors: Errors,
    /// TLS handshakes of the clients, including those before the load and in its warm-up.
    #[serde(default, skip_serializing_if = "Handshakes::is_none")]
    pub handshakes: Handshakes,
    /// Time from due to sent that the generator caused. Waits for a free client or a connection do not count. If such
    /// an operation fell due while the generator stood still, the time until it continued counts. Empty for a closed
    /// load.
    pub schedule_lag: Latencies,
    /// Lateness of each timer wake-up. Empty if the generator only waited for answers.
    #[serde(default, skip_serializing_if = "Latencies::is_empty")]
    pub timer_lag: Latencies,
    /// Time that ready answers waited behind others, from the first read after `epoll_wait` returned. One value for
    /// the ready answers of a connection.
    #[serde(default, skip_serializing_if = "Latencies::is_empty")]
    pub receive_lag: Latencies,
    /// Response times of successes, each without its own delays in the generator: the schedule lag, and the time for which
    /// its answer may have been unread. The system's own times are between these and the measured ones.
    #[serde(default, skip_serializing_if = "Latencies::is_empty")]
    pub undelayed: Latencies,
    /// Stalls of the generator's threads, in order of time; at most 100 ([`STALLS_MAX`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<GeneratorStall>,
    /// Send times of the first operations of a Poisson load, in nanoseconds since measuring began, in order and
    /// complete; at most 1,000 ([`SENT_MAX`]). Empty for other loads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<u64>,
    /// CPU time that bakeoff itself used during the window, user and system.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub generator_cpu: Duration,
    /// Time for which its cgroup's CPU limit throttled the generator during the load.
    #[serde(default, with = "units::duration", skip_serializing_if = "Duration::is_zero")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub generator_throttled: Duration,
    /// Number of generator threads.
    pub generator_threads: u32,
    /// CPU share of the busiest thread while the load ran, 0 to 1. Waiting without sleeping (`--precision`) does not
    /// count.
    #[serde(default)]
    pub generator_busiest: f64,
    /// Bytes that the generator sent while the load ran, including the warm-up; under TLS before encryption.
    #[serde(default)]
    pub bytes_sent: u64,
    /// Bytes that it received while the load ran, including the warm-up; under TLS after decryption.
    #[serde(default)]
    pub bytes_received: u64,
    /// True if the user interrupted the load.
    #[serde(default)]
    pub interrupted: bool,
    /// True if the workload's unique keys ran out before the end of the load.
    #[serde(default)]
    pub keys_exhausted: bool,
    /// Figures by node, in the order in which clients connect to them. Empty for one node, or more than 16
    /// ([`TARGETS_MAX`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetFigures>,
    /// Times without success, in order; at most 1,000 ([`SILENCES_MAX`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silences: Vec<Silence>,
    /// Total length of all stalls, including shorter ones than are kept ([`SILENCES_MAX`]).
    #[serde(default, with = "units::duration", skip_serializing_if = "Duration::is_zero")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub stalled_for: Duration,
    /// Start of the silence that lasted to the end of the load, in seconds since measuring began. From then on
    /// operations failed and none succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_from: Option<f64>,
    /// Staleness of reads by node; empty if it was not measured. More than 16 nodes ([`TARGETS_MAX`]) share one entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub staleness: Vec<Staleness>,
    /// Describes what the watchers observed; absent without watchers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<Box<WatchFigures>>,
}

impl Measurement {
    /// Returns the verified successes of all operations.
    pub fn verified(&self) -> u64 {
        self.operations.values().map(|figures| figures.verified).sum()
    }

    /// Returns the failures of all operations.
    pub fn error_count(&self) -> u64 {
        self.operations.values().map(OperationFigures::error_count).sum()
    }

    /// Returns the failures of all operations that were sent.
    pub fn failed_count(&self) -> u64 {
        self.error_count() - self.errors_of(ErrorKind::Dropped)
    }

    /// Returns the failures of one kind, of all operations.
    pub fn errors_of(&self, kind: ErrorKind) -> u64 {
        self.operations.values().map(|figures| figures.errors_of(kind)).sum()
    }

    /// Returns the examples of failures, by operation and kind.
    pub fn error_examples(&self) -> impl Iterator<Item = (ErrorKind, &Example)> {
        let errors = self.operations.values().flat_map(|figures| &figures.errors);
        errors.flat_map(|(&kind, errors)| errors.examples.iter().map(move |e| (kind, e)))
    }

    /// Returns verified successes per second over the measured window; `None` for an empty window.
    pub fn throughput(&self) -> Option<f64> {
        let verified = self.verified_in_window();
        (!self.window.is_zero()).then(|| verified as f64 / self.window.as_secs_f64())
    }

    /// Returns the successes within the window, which throughput is based on.
    pub fn verified_in_window(&self) -> u64 {
        self.operations.values().map(|figures| figures.verified_in_window).sum()
    }

    /// Returns the successes of operations that were due in the window and ended after it.
    pub fn ended_late(&self) -> u64 {
        let due_and_done = self.verified_in_window().saturating_sub(self.carried_over);
        self.verified().saturating_sub(due_and_done)
    }

    /// Explains the difference between throughput and the number of verified operations, if it is large enough.
    pub fn accounting(&self) -> Option<String> {
        let (within, early, late) =
            (self.verified_in_window(), self.carried_over, self.ended_late());
        let worth = |count: u64| count as f64 > ACCOUNTED_FROM * within as f64;
        let early = worth(early).then(|| {
            format!(
                "{} of them were due in the warm-up and count in no other figure",
                count_text(early)
            )
        });
        let late = worth(late).then(|| {
            format!("{} more succeeded after that time and do not count in it", count_text(late))
        });
        let parts: Vec<String> = early.into_iter().chain(late).collect();
        (!parts.is_empty()).then(|| {
            let within = count_text(within);
            format!("throughput is of the {within} successes within the time: {}", parts.join("; "))
        })
    }

    /// Returns the time, in seconds since measuring began, from which nothing succeeded. Returns `None` if only a few
    /// further successes were to be expected before the end.
    pub fn gave_out(&self) -> Option<f64> {
        let window = self.window.as_secs_f64();
        let verified = self.verified_in_window();
        let gap = window / verified.max(1) as f64;
        self.silent_from.filter(|from| verified > 0 && window - from >= GAVE_OUT_GAPS * gap)
    }

    /// Returns the minimum length of a stall: the longest of [`STALL_TIMES`] the median service time, [`STALL_TIMES`]
    /// the mean time between successes, and twice the median of the slowest kind of operation. All clients of a
    /// closed load may wait for that kind at once.
    pub fn stall_min(&self) -> Duration {
        let median = |figures: &OperationFigures| figures.service.quantile(0.5).unwrap_or_default();
        let slowest = self.operations.values().map(median).max().unwrap_or_default();
        let successes = u32::try_from(self.verified_in_window().max(1)).unwrap_or(u32::MAX);
        let usual = median(&self.total()).max(self.window / successes) * STALL_TIMES;
        usual.max(slowest * 2).max(SILENCE_RECORDED_MIN)
    }

    /// Returns the stalls to report: all if the system [stood still](Self::stood_still), else those of
    /// [`SILENCE_MIN`] or more.
    pub fn stalled(&self) -> impl Iterator<Item = &Silence> {
        let least = match self.stood_still() {
            Some(_) => self.stall_min(),
            None => self.stall_min().max(SILENCE_MIN),
        };
        self.silences.iter().filter(move |silence| silence.seconds >= least.as_secs_f64())
    }

    /// Returns the share of the window in which the system stood still, 0 to 1; `None` below [`STOOD_STILL_MIN`].
    ///
    /// A closed load sends nothing while its clients wait, so its percentiles hide most of such a time.
    pub fn stood_still(&self) -> Option<f64> {
        let window = self.window.as_secs_f64();
        let share = self.stalled_for.as_secs_f64() / window;
        (window > 0.0 && share >= STOOD_STILL_MIN).then(|| share.min(1.0))
    }

    /// Takes all silences of the load, in order of time. Keeps the longest stalls, and silences for conditions.
    pub fn keep_silences(&mut self, all: Vec<Silence>) {
        self.silences = all;
        let stall_min = self.sum_stalls();
        let least = stall_min.min(SILENCE_MIN).as_secs_f64();
        self.silences.retain(|silence| silence.seconds >= least);
        longest(&mut self.silences);
    }

    /// Recomputes the total length of stalls. Returns the minimum length of a stall.
    fn sum_stalls(&mut self) -> Duration {
        let stall_min = self.stall_min();
        let least = stall_min.as_secs_f64();
        let lengths = self.silences.iter().map(|silence| silence.seconds);
        let seconds: f64 = lengths.filter(|&seconds| seconds >= least).sum();
        self.stalled_for = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        stall_min
    }

    /// Returns the length of the longest silence; zero if none reached [`SILENCE_MIN`].
    pub fn longest_silence(&self) -> Duration {
        let longest = self.silences.iter().map(|silence| silence.seconds).fold(0.0, f64::max);
        Duration::try_from_secs_f64(longest).unwrap_or_default()
    }

    /// Returns the minimum and maximum of verified successes in any whole second of the window; `None` without a
    /// whole second. Only for a single stage: appended ones have partial seconds in between.
    pub fn throughput_range(&self) -> Option<(u64, u64)> {
        let whole = self.window.as_secs();
        let within = || self.seconds.iter().filter(|slice| u64::from(slice.second) < whole);
        let counts = || within().map(Second::verified);
        // A second without a slice had no success.
        let least = if (within().count() as u64) < whole { Some(0) } else { counts().min() };
        Some((least.filter(|_| whole > 0)?, counts().max().unwrap_or(0)))
    }

    /// Returns the combined figures of all operations.
    pub fn total(&self) -> OperationFigures {
        let mut total = OperationFigures::default();
        self.operations.values().for_each(|figures| total.merge(figures));
        total
    }

    /// Appends a stage that ran after this one. Windows add up and seconds continue, so a stage's last partial second
    /// stays separate.
    pub fn append(&mut self, later: &Self) {
        let before = self.window.as_secs_f64();
        let moved = |silence: &Silence| Silence { from: before + silence.from, ..*silence };
        self.silences.extend(later.silences.iter().map(moved));
        longest(&mut self.silences);
        self.silent_from = later.silent_from.map(|from| before + from);
        let moved = |stall: &GeneratorStall| GeneratorStall { from: before + stall.from, ..*stall };
        self.stalls.extend(later.stalls.iter().map(moved));
        longest_stalls(&mut self.stalls);
        let offset = self.seconds.last().map_or(0, |last| last.second + 1);
        self.seconds.extend(
            later.seconds.iter().map(|s| Second { second: s.second + offset, ..s.clone() }),
        );
        self.window += later.window;
        self.stalled_for += later.stalled_for;
        self.generator_cpu += later.generator_cpu;
        self.generator_threads = self.generator_threads.max(later.generator_threads);
        self.add_counts(later);
    }

    /// Adds a measurement of other operations that ran at the same time. A silence remains only where both were
    /// silent.
    pub fn add_next_to(&mut self, other: &Self) {
        self.steps.add_next_to(&other.steps);
        self.dues.merge(&other.dues);
        for theirs in &other.part_silences {
            match self.part_silences.iter_mut().find(|ours| ours.part == theirs.part) {
                Some(ours) => ours.silences = common(&ours.silences, &theirs.silences),
                None => self.part_silences.push(theirs.clone()),
            }
        }
        self.silences = common(&self.silences, &other.silences);
        let silent = self.silent_from.zip(other.silent_from);
        self.silent_from = silent.map(|(ours, theirs)| ours.max(theirs));
        for theirs in &other.seconds {
            match self.seconds.binary_search_by_key(&theirs.second, |ours| ours.second) {
                Ok(place) => {
                    let ours = &mut self.seconds[place].operations;
                    ours.extend(
                        theirs.operations.iter().map(|(name, of)| (name.clone(), of.clone())),
                    );
                }
                Err(place) => self.seconds.insert(place, theirs.clone()),
            }
        }
        self.window = self.window.max(other.window);
        let threads = self.generator_threads;
        let adjacent =
            |stall: &GeneratorStall| GeneratorStall { thread: threads + stall.thread, ..*stall };
        self.stalls.extend(other.stalls.iter().map(adjacent));
        longest_stalls(&mut self.stalls);
        // Each measured the CPU use of the whole process.
        self.generator_cpu = self.generator_cpu.max(other.generator_cpu);
        self.generator_threads += other.generator_threads;
        self.add_counts(other);
        self.sum_stalls();
        self.connection_errors.examples.sort_by(|a, b| a.at_seconds.total_cmp(&b.at_seconds));
    }

    /// Adds another generator's measurement of the same load: the same operations and time, other keys, another
    /// process. Distributions add up exactly, second by second.
    ///
    /// # Errors
    /// Fails if a text of `other` is not a histogram.
    pub fn add_share(&mut self, other: &Self) -> Result<(), HistogramError> {
        for theirs in &other.seconds {
            let place = self.seconds.binary_search_by_key(&theirs.second, |ours| ours.second);
            let Ok(place) = place else { continue };
            for (name, figures) in &theirs.operations {
                match self.seconds[place].operations.get_mut(name) {
                    Some(ours) => ours.merge(figures)?,
                    None => {
                        drop(self.seconds[place].operations.insert(name.clone(), figures.clone()))
                    }
                }
            }
        }
        let cpu = self.generator_cpu + other.generator_cpu;
        // Seconds are merged in place, so later ones must not overwrite them.
        let seconds = other.seconds.iter();
        let new =
            seconds.filter(|theirs| self.seconds.iter().all(|ours| ours.second != theirs.second));
        let rest = Self { seconds: new.cloned().collect(), ..other.clone() };
        self.add_next_to(&rest);
        self.generator_cpu = cpu;
        // The send times of one generator do not show the gaps of the whole load.
        self.sent.clear();
        Ok(())
    }

    /// Adds counts, which add up the same for sequential and parallel parts.
    fn add_counts(&mut self, other: &Self) {
        for theirs in &other.targets {
            match self.targets.iter_mut().find(|ours| ours.node == theirs.node) {
                Some(ours) => ours.merge(theirs),
                None => self.targets.push(theirs.clone()),
            }
        }
        // Only one generator has watchers, and a load with watchers has one stage.
        if self.watch.is_none() {
            self.watch.clone_from(&other.watch);
        }
        for theirs in &other.staleness {
            match self.staleness.iter_mut().find(|ours| ours.node == theirs.node) {
                Some(ours) => ours.merge(theirs),
                None => self.staleness.push(theirs.clone()),
            }
        }
        for (name, figures) in &other.operations {
            self.operations.entry(name.clone()).or_default().merge(figures);
        }
        self.warmup_operations += other.warmup_operations;
        self.last_of_warmup += other.last_of_warmup;
        self.carried_over += other.carried_over;
        self.handshakes.merge(&other.handshakes);
        self.disconnected += other.disconnected;
        self.unserved_clients += other.unserved_clients;
        self.clients_with_work += other.clients_with_work;
        self.clients_without_success += other.clients_without_success;
        self.late_clients += other.late_clients;
        self.unconnected_clients += other.unconnected_clients;
        self.reissued += other.reissued;
        self.closed_idle += other.closed_idle;
        self.paused_ends.merge(&other.paused_ends);
        self.oddities.extend(other.oddities.iter().cloned());
        self.answers.merge(&other.answers);
        self.use_addresses(other.addresses.iter().cloned());
        self.connection_errors.count += other.connection_errors.count;
        self.connection_errors.examples.extend(other.connection_errors.examples.iter().cloned());
        self.connection_errors.examples.truncate(EXAMPLES_MAX);
        self.schedule_lag.merge(&other.schedule_lag);
        self.timer_lag.merge(&other.timer_lag);
        self.receive_lag.merge(&other.receive_lag);
        self.undelayed.merge(&other.undelayed);
        self.generator_throttled += other.generator_throttled;
        self.generator_busiest = self.generator_busiest.max(other.generator_busiest);
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.interrupted |= other.interrupted;
        self.keys_exhausted |= other.keys_exhausted;
    }

    /// Describes clients that the server accepted late or never, one sentence each, without a full stop.
    pub fn notes_on_clients(&self) -> impl Iterator<Item = String> {
        let counts = [
            ("Connected only after the load had begun", self.late_clients),
            ("Never connected, as the server did not accept them", self.unconnected_clients),
        ];
        let met = counts.into_iter().filter(|(_, count)| *count > 0);
        met.map(|(what, count)| format!("{what}: {}", units::plural(count, "client")))
    }

    /// Describes deviations that are not failures, one sentence each, without a full stop.
    pub fn notes_on_the_network(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.notes_on_names().chain(self.notes_on_clients()).collect();
        if self.reissued > 0 {
            let requests = units::plural(self.reissued, "request");
            notes.push(format!("Sent again, as the server had not processed them: {requests}"));
        }
        if self.closed_idle > 0 {
            let connections = units::plural(self.closed_idle, "connection");
            notes.push(format!("Closed by the server between two requests: {connections}"));
        }
        let odd: Vec<&str> = self.oddities.iter().map(String::as_str).collect();
        if !odd.is_empty() {
            notes.push(format!("The server sends responses with {}", odd.join(", and with ")));
        }
        notes.extend(self.delayed_acks().map(|found| found.text()));
        notes
    }

    /// Fills in the figures of the only node, which otherwise exist only for several nodes.
    pub fn tell_of_only_node(&mut self, node: &str) {
        let total = self.total();
        self.targets = vec![TargetFigures {
            node: node.to_owned(),
            verified: total.verified,
            errors: self.failed_count(),
            service: total.service_and_unanswered(),
        }];
    }
}

/// Returns the common parts of two lists of silences that are at least [`SILENCE_RECORDED_MIN`] long. Each list is in
/// order of time.
fn common(ours: &[Silence], theirs: &[Silence]) -> Vec<Silence> {
    let both = ours.iter().flat_map(|a| theirs.iter().map(move |b| (a, b)));
    let overlap = |(a, b): (&Silence, &Silence)| {
        let from = a.from.max(b.from);
        let seconds = (a.from + a.seconds).min(b.from + b.seconds) - from;
        (seconds >= SILENCE_RECORDED_MIN.as_secs_f64()).then_some(Silence { from, seconds })
    };
    let mut found = both.filter_map(overlap).collect();
    longest(&mut found);
    found
}

/// Keeps the [`SILENCES_MAX`] longest, in order of time.
pub fn longest(silences: &mut Vec<Silence>) {
    if silences.len() > SILENCES_MAX {
        silences.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        silences.truncate(SILENCES_MAX);
    }
    silences.sort_by(|a, b| a.from.total_cmp(&b.from));
}
