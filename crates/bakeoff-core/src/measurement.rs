//! Measurement of a load; parts of it add up exactly.
//!
//! Only operations that were due after warm-up are in a measurement. `response` runs from the
//! moment an operation was due, `service` from the moment it was sent; both hold the verified
//! successes alone. How long failures had waited is kept apart from them: `unanswered` for those
//! that ended by waiting (timeouts, no connection, never sent), `failed` for all others. Percentiles
//! are of both together, failures ranked last ([`OperationFigures::responses`]), so that no operation
//! leaves the picture by failing. Throughput counts verified successes only.
//!
//! Not here: who measures (the engine), how it is shown (`report`).

mod addresses;
mod delayed_ack;
mod errors;
mod operation;
#[cfg(test)]
mod shares_tests;
mod stalls;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::histogram::{HistogramError, Latencies};
use crate::staleness::Staleness;
use crate::units::{self, count_text};

pub use addresses::UsedAddress;
pub use delayed_ack::{DelayedAcks, PausedEnds};
pub use errors::{EXAMPLES_MAX, ErrorKind, ErrorText, Errors, Example, TEXTS_MAX};
pub use operation::{OperationFigures, Second, SecondFigures};
pub use stalls::{GeneratorStall, STALL_MIN, STALLS_MAX, longest_stalls};

/// Conditions on the longest silence know it from this length on.
pub const SILENCE_MIN: Duration = Duration::from_millis(500);

/// Shorter silences are not recorded: a scheduler's time slice is as long.
pub const SILENCE_RECORDED_MIN: Duration = Duration::from_millis(10);

/// A silence is a stall from this many times the longer of two times on: the median service time, and the mean time
/// between two successes. Servers that answer in batches have silences as long as an operation takes.
pub const STALL_TIMES: u32 = 10;

/// A system stood still if nothing succeeded for this share of the window: p99 of a closed load hides as much.
pub const STOOD_STILL_MIN: f64 = 0.01;

/// A load's last silence says that the system gave out from this many times the mean time between successes on.
const GAVE_OUT_GAPS: f64 = 3.0;

/// Throughput and the number of verified operations are told apart from this share of the successes on.
pub const ACCOUNTED_FROM: f64 = 0.01;

/// Most silences that are kept, the longest of them.
pub const SILENCES_MAX: usize = 1000;

/// Most moments of an open load's first requests that are kept.
pub const SENT_MAX: usize = 1000;

/// Most nodes that are told apart; of more, each would have too few answers to say anything.
pub const TARGETS_MAX: usize = 16;

/// A time in which no operation succeeded though at least one was due from its beginning to its end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Silence {
    /// When it began, in seconds since measuring began.
    pub from: f64,
    /// Its length in seconds; at least [`SILENCE_MIN`], and from format 3 on less if it is a stall.
    pub seconds: f64,
}

/// Figures of one of several nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetFigures {
    /// Which, as `127.0.0.1:2379`.
    pub node: String,
    /// Verified successes.
    pub verified: u64,
    /// Failures, those that were never sent left out.
    pub errors: u64,
    /// From sent to done: verified successes, and operations that timed out.
    pub service: Latencies,
}

impl TargetFigures {
    /// Adds all that `other` has of the same node.
    pub fn merge(&mut self, other: &Self) {
        self.verified += other.verified;
        self.errors += other.errors;
        self.service.merge(&other.service);
    }

    /// Forgets everything but which node it is; keeps the histogram's memory.
    pub fn clear(&mut self) {
        (self.verified, self.errors) = (0, 0);
        self.service.clear();
    }
}

/// TLS handshakes of the clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshakes {
    /// With certificates and a key exchange of their own.
    pub full: u64,
    /// Number that took up the session of an earlier connection.
    pub resumed: u64,
}

impl Handshakes {
    /// All of them.
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

/// Answers over HTTP besides their times. Those of the warm-up are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpAnswers {
    /// Responses by status, successes and failures alike. Redirects that were followed are left out.
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes of whole responses, heads included.
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

/// Measurement of one load, or of one stage of it.
///
/// Its fields are a record's, which stays flat: old records load by the same names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Length of the measured window: the asked-for time; of a load by count the time to the last operation's end, and
    /// until the next would have been due where they are evenly spaced.
    #[serde(with = "units::duration")]
    pub window: Duration,
    /// By operation: `put`, `get`, ….
    pub operations: BTreeMap<String, OperationFigures>,
    /// Second by second.
    pub seconds: Vec<Second>,
    /// Operations that ended before measuring began.
    pub warmup_operations: u64,
    /// Successes within the window of operations that were due before measuring began: throughput has them, and no
    /// other figure does.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub carried_over: u64,
    /// Time that clients spent without a connection, all clients added up, warm-up not counted.
    #[serde(with = "units::duration")]
    pub disconnected: Duration,
    /// Clients that had only failures since measuring began. Before format 3: since the load began.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub unserved_clients: u64,
    /// Clients that had an operation since measuring began; 0 in records before format 3.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub clients_with_work: u64,
    /// Of these, clients that had no success within the window.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub clients_without_success: u64,
    /// Operations that were sent again because the server had not processed them: it refused them, or closed a kept
    /// connection before it answered. Their times begin when they were first due.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub reissued: u64,
    /// Kept connections that the server closed while nothing was under way on them.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub closed_idle: u64,
    /// Answers whose last bytes came after a pause.
    #[serde(default, skip_serializing_if = "PausedEnds::is_none")]
    pub paused_ends: PausedEnds,
    /// Deviations from HTTP that were met and read over, in words: `folded header fields`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub oddities: BTreeSet<String>,
    /// Answers over HTTP besides their times; none of other protocols.
    #[serde(default, skip_serializing_if = "HttpAnswers::is_none")]
    pub answers: HttpAnswers,
    /// Addresses that clients connected to, in the order in which they were first used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<UsedAddress>,
    /// Connections that were lost or could not be had again, by what was seen.
    pub connection_errors: Errors,
    /// TLS handshakes of the clients, those before the load began and of its warm-up among them.
    #[serde(default, skip_serializing_if = "Handshakes::is_none")]
    pub handshakes: Handshakes,
    /// From due to sent, for operations that did not have to wait for a free client or a
    /// connection: the generator's own lateness. Of those that had to and fell due while the
    /// generator stood still, until it went on. Empty for a closed load.
    #[serde(rename = "slip", alias = "schedule_lag")]
    pub schedule_lag: Latencies,
    /// By how much each timer's wake-up was late: from when a thread had asked to be woken until it
    /// was. Empty where nothing was waited for but answers.
    #[serde(default, skip_serializing_if = "Latencies::is_empty")]
    pub timer_lag: Latencies,
    /// Time that ready answers waited behind others: from the first that was read after `epoll_wait` returned,
    /// one value for the answers that a connection had ready.
    #[serde(default, skip_serializing_if = "Latencies::is_empty")]
    pub receive_lag: Latencies,
    /// When a thread of the generator stood still, in order of time; at most [`STALLS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<GeneratorStall>,
    /// When the first operations of a Poisson load were sent, in nanoseconds since measuring began,
    /// in order and without gaps between them; at most [`SENT_MAX`]. Empty for other loads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<u64>,
    /// CPU time that bakeoff itself used during the window, user and system.
    #[serde(with = "units::duration")]
    pub generator_cpu: Duration,
    /// Time for which a CPU limit of its cgroup held the generator back during the load.
    #[serde(default, with = "units::duration", skip_serializing_if = "Duration::is_zero")]
    pub generator_throttled: Duration,
    /// Threads that the generator worked with.
    pub generator_threads: u32,
    /// Which share of a CPU the busiest of them used while the load ran, 0 to 1; waiting without
    /// sleeping (`--precision`) is not counted.
    #[serde(default)]
    pub generator_busiest: f64,
    /// Bytes that the generator sent while the load ran, warm-up included; under TLS those before
    /// encryption.
    #[serde(default)]
    pub bytes_sent: u64,
    /// Bytes that it received, likewise; under TLS those after decryption.
    #[serde(default)]
    pub bytes_received: u64,
    /// The load was ended before its time, by the user.
    #[serde(default)]
    pub interrupted: bool,
    /// The workload's unique keys ran out before the load's time was over.
    #[serde(default)]
    pub keys_exhausted: bool,
    /// By node, in the order in which clients connect to them; empty where there is one node, or
    /// more than [`TARGETS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetFigures>,
    /// When nothing succeeded for a while, in order of time; at most [`SILENCES_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silences: Vec<Silence>,
    /// Length of all stalls together, those beyond [`SILENCES_MAX`] included; zero in records before format 3.
    #[serde(default, with = "units::duration", skip_serializing_if = "Duration::is_zero")]
    pub stalled_for: Duration,
    /// When the silence began in which the load ended, in seconds since measuring began: operations failed in it, and
    /// none succeeded any more, not even after the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_from: Option<f64>,
    /// Staleness of reads by node; empty where it was not measured. Of more than [`TARGETS_MAX`] nodes, all as one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub staleness: Vec<Staleness>,
}

impl Measurement {
    /// Verified successes of all operations.
    pub fn verified(&self) -> u64 {
        self.operations.values().map(|figures| figures.verified).sum()
    }

    /// Failures of all operations.
    pub fn error_count(&self) -> u64 {
        self.operations.values().map(OperationFigures::error_count).sum()
    }

    /// Failures of what was sent, of all operations.
    pub fn failed_count(&self) -> u64 {
        self.error_count() - self.errors_of(ErrorKind::Dropped)
    }

    /// Failures of one kind, of all operations.
    pub fn errors_of(&self, kind: ErrorKind) -> u64 {
        self.operations.values().map(|figures| figures.errors_of(kind)).sum()
    }

    /// The examples of failures, operation by operation and kind by kind.
    pub fn error_examples(&self) -> impl Iterator<Item = (ErrorKind, &Example)> {
        let errors = self.operations.values().flat_map(|figures| &figures.errors);
        errors.flat_map(|(&kind, errors)| errors.examples.iter().map(move |e| (kind, e)))
    }

    /// Verified successes per second over the measured window; `None` for an empty window.
    pub fn throughput(&self) -> Option<f64> {
        let verified = self.verified_in_window();
        (!self.window.is_zero()).then(|| verified as f64 / self.window.as_secs_f64())
    }

    /// Successes within the window: what throughput is made of.
    pub fn verified_in_window(&self) -> u64 {
        self.operations.values().map(|figures| figures.verified_in_window).sum()
    }

    /// Successes of operations that were due in the window and ended after it.
    pub fn ended_late(&self) -> u64 {
        let due_and_done = self.verified_in_window().saturating_sub(self.carried_over);
        self.verified().saturating_sub(due_and_done)
    }

    /// Tells by what throughput differs from the number of verified operations, where that is worth saying.
    pub fn accounting(&self) -> Option<String> {
        let (within, early, late) =
            (self.verified_in_window(), self.carried_over, self.ended_late());
        let worth = |count: u64| count as f64 > ACCOUNTED_FROM * within as f64;
        let early = worth(early).then(|| {
            format!(
                "{} of them were due in the warm-up, and are in no other figure",
                count_text(early)
            )
        });
        let late = worth(late).then(|| {
            format!("{} more succeeded after that time, too late for it", count_text(late))
        });
        let parts: Vec<String> = early.into_iter().chain(late).collect();
        (!parts.is_empty()).then(|| {
            let within = count_text(within);
            format!("throughput is of the {within} successes within the time: {}", parts.join("; "))
        })
    }

    /// Returns from when on nothing succeeded any more, in seconds since measuring began: so long before the end
    /// that a few further successes were to be expected.
    pub fn gave_out(&self) -> Option<f64> {
        let window = self.window.as_secs_f64();
        let verified = self.verified_in_window();
        let gap = window / verified.max(1) as f64;
        self.silent_from.filter(|from| verified > 0 && window - from >= GAVE_OUT_GAPS * gap)
    }

    /// Returns the length from which on a silence is a stall: [`STALL_TIMES`] the median service time or the mean time
    /// between two successes, or twice the median of the slowest kind of operation, whichever is longest. All clients of
    /// a closed load may wait for that kind at once.
    pub fn stall_min(&self) -> Duration {
        let median = |figures: &OperationFigures| figures.service.quantile(0.5).unwrap_or_default();
        let slowest = self.operations.values().map(median).max().unwrap_or_default();
        let successes = u32::try_from(self.verified_in_window().max(1)).unwrap_or(u32::MAX);
        let usual = median(&self.total()).max(self.window / successes) * STALL_TIMES;
        usual.max(slowest * 2).max(SILENCE_RECORDED_MIN)
    }

    /// Returns the stalls that a user should know: all if the system [stood still](Self::stood_still), else those of
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

    /// Takes all silences of the load, in order of time. Keeps the longest stalls, and silences that conditions know.
    pub fn keep_silences(&mut self, all: Vec<Silence>) {
        self.silences = all;
        let stall_min = self.sum_stalls();
        let least = stall_min.min(SILENCE_MIN).as_secs_f64();
        self.silences.retain(|silence| silence.seconds >= least);
        longest(&mut self.silences);
    }

    /// Sums the stalls up again, after other silences were recorded. Returns the length of the shortest possible one.
    fn sum_stalls(&mut self) -> Duration {
        let stall_min = self.stall_min();
        let least = stall_min.as_secs_f64();
        let lengths = self.silences.iter().map(|silence| silence.seconds);
        let seconds: f64 = lengths.filter(|&seconds| seconds >= least).sum();
        self.stalled_for = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        stall_min
    }

    /// Returns how long the longest silence was; zero where none was as long as [`SILENCE_MIN`].
    pub fn longest_silence(&self) -> Duration {
        let longest = self.silences.iter().map(|silence| silence.seconds).fold(0.0, f64::max);
        Duration::try_from_secs_f64(longest).unwrap_or_default()
    }

    /// The fewest and the most verified successes in any whole second of the window; `None` when it
    /// holds no whole second. To be asked of one stage: appended ones have broken seconds between.
    pub fn throughput_range(&self) -> Option<(u64, u64)> {
        let whole = self.window.as_secs();
        let within = || self.seconds.iter().filter(|slice| u64::from(slice.second) < whole);
        let counts = || within().map(Second::verified);
        // A second without a slice had no success.
        let least = if (within().count() as u64) < whole { Some(0) } else { counts().min() };
        Some((least.filter(|_| whole > 0)?, counts().max().unwrap_or(0)))
    }

    /// All operations' figures as one.
    pub fn total(&self) -> OperationFigures {
        let mut total = OperationFigures::default();
        self.operations.values().for_each(|figures| total.merge(figures));
        total
    }

    /// Appends a stage that ran after this one: windows add up, and seconds follow on, so that a
    /// stage's last, broken second still counts as one of its own.
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

    /// Adds what was measured beside this at the same time, from the same moment on, of other
    /// operations. Nothing succeeded where neither had a success.
    pub fn add_beside(&mut self, other: &Self) {
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
        let beside =
            |stall: &GeneratorStall| GeneratorStall { thread: threads + stall.thread, ..*stall };
        self.stalls.extend(other.stalls.iter().map(beside));
        longest_stalls(&mut self.stalls);
        // Each saw what the whole process used.
        self.generator_cpu = self.generator_cpu.max(other.generator_cpu);
        self.generator_threads += other.generator_threads;
        self.add_counts(other);
        self.sum_stalls();
        self.connection_errors.examples.sort_by(|a, b| a.at_seconds.total_cmp(&b.at_seconds));
    }

    /// Adds what another generator measured of the same load at the same time, from the same moment on: the same
    /// operations, other keys, another process. Distributions add up exactly, second by second.
    ///
    /// # Errors
    /// When a text of `other` is no histogram.
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
        // Seconds are merged: those that are here already must not take the place of what was added.
        let seconds = other.seconds.iter();
        let new =
            seconds.filter(|theirs| self.seconds.iter().all(|ours| ours.second != theirs.second));
        let rest = Self { seconds: new.cloned().collect(), ..other.clone() };
        self.add_beside(&rest);
        self.generator_cpu = cpu;
        // Gaps between the first requests of one generator say nothing of the whole's.
        self.sent.clear();
        Ok(())
    }

    /// Adds counts, which add up alike whenever they were measured.
    fn add_counts(&mut self, other: &Self) {
        for theirs in &other.targets {
            match self.targets.iter_mut().find(|ours| ours.node == theirs.node) {
                Some(ours) => ours.merge(theirs),
                None => self.targets.push(theirs.clone()),
            }
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
        self.carried_over += other.carried_over;
        self.handshakes.merge(&other.handshakes);
        self.disconnected += other.disconnected;
        self.unserved_clients += other.unserved_clients;
        self.clients_with_work += other.clients_with_work;
        self.clients_without_success += other.clients_without_success;
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
        self.generator_throttled += other.generator_throttled;
        self.generator_busiest = self.generator_busiest.max(other.generator_busiest);
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.interrupted |= other.interrupted;
        self.keys_exhausted |= other.keys_exhausted;
    }

    /// Returns what was met on the way that is no failure, a sentence each without a full stop.
    pub fn notes_on_the_network(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.notes_on_names().collect();
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

    /// Says of the only node that was asked what is told of each of several.
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

/// The parts that are in both, no shorter than [`SILENCE_RECORDED_MIN`]; each list in order of time.
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
