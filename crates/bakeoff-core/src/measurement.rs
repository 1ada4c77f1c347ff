//! What driving a load yields; parts of it add up exactly.
//!
//! Only operations that were due after warm-up are in a measurement. `response` runs from the
//! moment an operation was due, `service` from the moment it was sent; both hold the verified
//! successes alone. How long failures had waited is kept apart from them: `unanswered` for those
//! that ended by waiting (timeouts, no connection, never sent), `failed` for all others. Percentiles
//! are of both together, failures ranked last ([`OperationFigures::responses`]), so that no operation
//! leaves the picture by failing. Throughput counts verified successes only.
//!
//! Not here: who measures (the engine), how it is shown (`report`).

mod stalls;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fingerprint::fingerprint_of_answer;
use crate::histogram::{HistogramError, Latencies, PackedLatencies};
use crate::ranked::Ranked;
use crate::staleness::Staleness;
use crate::units;

pub use stalls::{GeneratorStall, STALL_MIN, STALLS_MAX, longest_stalls};

/// Why an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// No connection could be had for as long as the operation's timeout.
    Refused,
    /// The connection broke while the operation was under way.
    Reset,
    /// No answer came in time.
    Timeout,
    /// The answer broke the protocol's rules.
    Protocol,
    /// The system answered that it could not, or would not.
    Status,
    /// The answer was not what was written.
    WrongValue,
    /// The answer was older than what the system had guaranteed.
    StaleValue,
    /// It was due, and the load ended before anybody was free to send it.
    #[serde(rename = "unsent", alias = "dropped")]
    Dropped,
}

impl ErrorKind {
    /// Every kind, in the order of tables.
    pub const ALL: [Self; 8] = [
        Self::Refused,
        Self::Reset,
        Self::Timeout,
        Self::Protocol,
        Self::Status,
        Self::WrongValue,
        Self::StaleValue,
        Self::Dropped,
    ];

    /// Returns whether errors of this kind differ in what was seen of them, so that it is counted.
    pub fn is_told_by_its_text(self) -> bool {
        !matches!(self, Self::Refused | Self::Timeout | Self::Dropped)
    }

    /// Returns its name in tables and sentences.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dropped => "dropped",
            _ => self.key(),
        }
    }

    /// Returns its name in the keys and values of JSON, which stays as it was first written.
    pub fn key(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
            Self::Status => "status",
            Self::WrongValue => "wrong value",
            Self::StaleValue => "stale value",
            Self::Dropped => "unsent",
        }
    }
}

/// How many examples of each kind of error are kept.
pub const EXAMPLES_MAX: usize = 3;

/// How many texts of each kind of error are told apart; errors with further texts are only counted.
pub const TEXTS_MAX: usize = 16;

/// Shorter times without a success are not told: a slow sync is no stall.
pub const SILENCE_MIN: Duration = Duration::from_millis(500);

/// How many silences are kept, the longest of them.
pub const SILENCES_MAX: usize = 100;

/// How many moments of an open load's first requests are kept.
pub const SENT_MAX: usize = 1000;

/// How many nodes are told apart; of more, each would have too few answers to say anything.
pub const TARGETS_MAX: usize = 16;

/// A time in which no operation succeeded though at least one was due from its beginning to its end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Silence {
    /// When it began, in seconds since measuring began.
    pub from: f64,
    /// How long it was, in seconds; at least [`SILENCE_MIN`].
    pub seconds: f64,
}

/// What one of several nodes answered.
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

/// Errors of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub examples: Vec<Example>,
    /// What they said, without what varies from one to the next, and how many said it; at most
    /// [`TEXTS_MAX`], the most frequent first. Empty for kinds whose name says all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<ErrorText>,
}

/// Errors that said the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorText {
    /// What they said: `503: no leader`.
    pub text: String,
    /// How many.
    pub count: u64,
}

impl Errors {
    /// Counts what an error said.
    fn count_text(&mut self, what: &str) {
        // Most say the same each time, and then the text itself is what it says.
        if let Some(same) = self.texts.iter_mut().find(|one| one.text == what) {
            same.count += 1;
            return;
        }
        self.add_text(&fingerprint_of_answer(what), 1);
    }

    fn add_text(&mut self, text: &str, count: u64) {
        let room = self.texts.len() < TEXTS_MAX;
        match self.texts.iter_mut().find(|one| one.text == text) {
            Some(same) => same.count += count,
            None if room => {
                self.texts.push(ErrorText { text: text.to_owned(), count });
            }
            None => {}
        }
    }

    /// Adds all of `other`: counts exactly, texts as far as there is room for them.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.examples.extend(other.examples.iter().cloned());
        self.examples.sort_by(|a, b| a.at_seconds.total_cmp(&b.at_seconds));
        self.examples.truncate(EXAMPLES_MAX);
        other.texts.iter().for_each(|one| self.add_text(&one.text, one.count));
        self.texts.sort_by(|a, b| b.count.cmp(&a.count).then(a.text.cmp(&b.text)));
    }
}

/// TLS handshakes of the clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshakes {
    /// With certificates and a key exchange of their own.
    pub full: u64,
    /// That took up the session of an earlier connection.
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

/// One error, as it was seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Example {
    /// When, in seconds since measuring began.
    pub at_seconds: f64,
    /// Which node was asked, as `127.0.0.1:2379`.
    pub node: String,
    /// What it was.
    pub what: String,
}

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
    /// From due to done, of verified successes.
    pub response: Latencies,
    /// From sent to done, of verified successes.
    pub service: Latencies,
    /// From due to failed, for failures that are not in `unanswered`.
    pub failed: Latencies,
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

    /// All that ended by being answered or by being given up, as one distribution of times whatever
    /// became of them: what other load generators show, and no measure of a system.
    pub fn response_and_unanswered(&self) -> Latencies {
        let mut all = self.response.clone();
        all.merge(&self.unanswered);
        all
    }

    /// The same of service times.
    pub fn service_and_unanswered(&self) -> Latencies {
        let mut all = self.service.clone();
        all.merge(&self.unanswered_service);
        all
    }

    /// Counts a failure with what it said, and keeps it as an example if it is among the first.
    pub fn count_error(&mut self, kind: ErrorKind, example: impl FnOnce() -> Example) {
        let errors = self.errors.entry(kind).or_default();
        errors.count += 1;
        let first = errors.examples.len() < EXAMPLES_MAX;
        if !first && !kind.is_told_by_its_text() {
            return;
        }
        let example = example();
        if kind.is_told_by_its_text() {
            errors.count_text(&example.what);
        }
        if first {
            errors.examples.push(example);
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.verified += other.verified;
        self.verified_in_window += other.verified_in_window;
        self.stale_reads += other.stale_reads;
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.failed.merge(&other.failed);
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
        self.unanswered.clear();
        self.unanswered_service.clear();
        self.errors.clear();
        (self.verified, self.verified_in_window, self.stale_reads) = (0, 0, 0);
    }
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

/// What driving one load, or one stage of it, yielded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Length of the measured window: the asked-for time, or the time to the last operation's end.
    #[serde(with = "units::duration")]
    pub window: Duration,
    /// By operation: `put`, `get`, ….
    pub operations: BTreeMap<String, OperationFigures>,
    /// Second by second.
    pub seconds: Vec<Second>,
    /// Operations that ended before measuring began.
    pub warmup_operations: u64,
    /// Time that clients spent without a connection, all clients added up, warm-up not counted.
    #[serde(with = "units::duration")]
    pub disconnected: Duration,
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
    /// How long answers that were ready waited behind others: from the first that was read after
    /// `epoll_wait` returned, one value for each read of a connection.
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
    /// How old what reads returned was, by node; empty where that was not measured. Of more than
    /// [`TARGETS_MAX`] nodes, all as one.
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
        let verified: u64 = self.operations.values().map(|f| f.verified_in_window).sum();
        (!self.window.is_zero()).then(|| verified as f64 / self.window.as_secs_f64())
    }

    /// The fewest and the most verified successes in any whole second of the window; `None` when it
    /// holds no whole second. To be asked of one stage: appended ones have broken seconds between.
    pub fn throughput_range(&self) -> Option<(u64, u64)> {
        let whole = self.window.as_secs() as u32;
        let count = |second: u32| {
            let place = self.seconds.binary_search_by_key(&second, |slice| slice.second);
            place.map_or(0, |place| self.seconds[place].verified())
        };
        let counts = || (0..whole).map(count);
        Some((counts().min()?, counts().max()?))
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
        let moved = |stall: &GeneratorStall| GeneratorStall { from: before + stall.from, ..*stall };
        self.stalls.extend(later.stalls.iter().map(moved));
        longest_stalls(&mut self.stalls);
        let offset = self.seconds.last().map_or(0, |last| last.second + 1);
        self.seconds.extend(
            later.seconds.iter().map(|s| Second { second: s.second + offset, ..s.clone() }),
        );
        self.window += later.window;
        self.generator_cpu += later.generator_cpu;
        self.generator_threads = self.generator_threads.max(later.generator_threads);
        self.add_counts(later);
    }

    /// Adds what was measured beside this at the same time, from the same moment on, of other
    /// operations. Nothing succeeded where neither had a success.
    pub fn add_beside(&mut self, other: &Self) {
        self.silences = common(&self.silences, &other.silences);
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
        self.connection_errors.examples.sort_by(|a, b| a.at_seconds.total_cmp(&b.at_seconds));
    }

    /// What adds up alike, whenever it was measured.
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
        self.handshakes.merge(&other.handshakes);
        self.disconnected += other.disconnected;
        self.connection_errors.count += other.connection_errors.count;
        self.connection_errors.examples.extend(other.connection_errors.examples.iter().cloned());
        self.connection_errors.examples.truncate(EXAMPLES_MAX);
        self.schedule_lag.merge(&other.schedule_lag);
        self.timer_lag.merge(&other.timer_lag);
        self.receive_lag.merge(&other.receive_lag);
        self.generator_busiest = self.generator_busiest.max(other.generator_busiest);
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.interrupted |= other.interrupted;
        self.keys_exhausted |= other.keys_exhausted;
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

/// The parts that are in both, no shorter than [`SILENCE_MIN`]; each list in order of time.
fn common(ours: &[Silence], theirs: &[Silence]) -> Vec<Silence> {
    let both = ours.iter().flat_map(|a| theirs.iter().map(move |b| (a, b)));
    let overlap = |(a, b): (&Silence, &Silence)| {
        let from = a.from.max(b.from);
        let seconds = (a.from + a.seconds).min(b.from + b.seconds) - from;
        (seconds >= SILENCE_MIN.as_secs_f64()).then_some(Silence { from, seconds })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::staleness::{Age, Seen, StaleBy};

    fn of_node(node: &str, milliseconds: &[u64]) -> TargetFigures {
        let mut of = TargetFigures { node: node.to_owned(), ..TargetFigures::default() };
        for &latency in milliseconds {
            of.verified += 1;
            of.service.record(Duration::from_millis(latency));
        }
        of
    }

    #[test]
    fn appended_stages_add_up_by_node_and_their_silences_follow_on() {
        let stage = |targets, silences| Measurement {
            window: Duration::from_secs(4),
            targets,
            silences,
            ..Measurement::default()
        };
        let silence = |from| Silence { from, seconds: 0.7 };
        let mut whole = stage(vec![of_node("a", &[1]), of_node("b", &[2])], vec![silence(1.0)]);
        whole.append(&stage(vec![of_node("b", &[3]), of_node("a", &[4])], vec![silence(2.0)]));
        assert_eq!(whole.targets, [of_node("a", &[1, 4]), of_node("b", &[2, 3])]);
        assert_eq!(whole.silences, [silence(1.0), silence(6.0)]);
    }

    #[test]
    fn stalls_of_appended_stages_follow_on_and_those_beside_are_of_other_threads() {
        let stage = |stalls: &[(u32, f64, f64)]| Measurement {
            window: Duration::from_secs(4),
            generator_threads: 2,
            stalls: stalls
                .iter()
                .map(|&(thread, from, seconds)| GeneratorStall { thread, from, seconds })
                .collect(),
            ..Measurement::default()
        };
        let mut whole = stage(&[(0, 1.0, 0.2), (1, 1.0, 0.3)]);
        assert_eq!(whole.most_stalled(), Some((1, Duration::from_millis(300))));
        whole.append(&stage(&[(0, 2.0, 0.2)]));
        assert_eq!(whole.most_stalled(), Some((0, Duration::from_millis(400))));
        assert_eq!(whole.stalls[2], GeneratorStall { thread: 0, from: 6.0, seconds: 0.2 });
        whole.add_beside(&stage(&[(0, 3.0, 0.25)]));
        assert_eq!(whole.stalls[2], GeneratorStall { thread: 2, from: 3.0, seconds: 0.25 });
        assert_eq!(whole.most_stalled(), Some((0, Duration::from_millis(400))));
        let text = serde_json::to_string(&Measurement::default()).unwrap();
        assert!(!text.contains("stalls") && !text.contains("_lag"), "{text}");
    }

    #[test]
    fn bytes_of_appended_stages_add_up() {
        let stage = |bytes_sent, bytes_received| Measurement {
            bytes_sent,
            bytes_received,
            ..Measurement::default()
        };
        let mut whole = stage(1, 20);
        whole.append(&stage(300, 4000));
        assert_eq!((whole.bytes_sent, whole.bytes_received), (301, 4020));
    }

    #[test]
    fn handshakes_of_stages_and_of_what_was_measured_beside_add_up() {
        let of = |full, resumed| Measurement {
            handshakes: Handshakes { full, resumed },
            ..Measurement::default()
        };
        let mut whole = of(1, 20);
        whole.append(&of(300, 0));
        whole.add_beside(&of(0, 4000));
        assert_eq!(whole.handshakes, Handshakes { full: 301, resumed: 4020 });
        let text = serde_json::to_string(&Measurement::default()).unwrap();
        assert!(!text.contains("handshakes"), "{text}");
    }

    #[test]
    fn errors_are_counted_by_what_they_said_and_few_texts_are_kept() {
        let example = |what: String| Example { what, ..Example::default() };
        let mut figures = OperationFigures::default();
        for number in 0..40 {
            figures.count_error(ErrorKind::Status, || example("500".to_owned()));
            figures.count_error(ErrorKind::Status, || example(format!("503: took {number} ms")));
            figures.count_error(ErrorKind::Timeout, || example("no answer".to_owned()));
        }
        let mut other = OperationFigures::default();
        for word in "abcdefghijklmnopqrstuvwxyz".chars() {
            other.count_error(ErrorKind::Status, || example(format!("500: {word}")));
        }
        other.count_error(ErrorKind::Status, || example("500".to_owned()));
        figures.merge(&other);
        let status = &figures.errors[&ErrorKind::Status];
        assert_eq!((status.count, status.texts.len()), (107, TEXTS_MAX));
        let text = |text: &str, count| ErrorText { text: text.to_owned(), count };
        // The other had no room left for its last.
        assert_eq!(status.texts[..2], [text("500", 40), text("503: took N ms", 40)]);
        assert!(figures.errors[&ErrorKind::Timeout].texts.is_empty());
    }

    #[test]
    fn operations_of_old_records_that_waited_are_told_from_successes() {
        let mut old = OperationFigures { verified: 60, ..OperationFigures::default() };
        old.response.record_many(Duration::from_millis(2), 60);
        old.response.record_many(Duration::from_secs(1), 40);
        old.service = old.response.clone();
        old.errors.entry(ErrorKind::Timeout).or_default().count = 40;
        let mut new = old.clone();
        new.response.clear();
        new.response.record_many(Duration::from_millis(2), 60);
        new.service = new.response.clone();
        new.unanswered.record_many(Duration::from_secs(1), 40);
        new.unanswered_service = new.unanswered.clone();
        for figures in [&old, &new] {
            for ranked in [figures.responses(), figures.services()] {
                assert_eq!(ranked.count(), 100);
                let p90 = ranked.percentile(0.9);
                assert_eq!(p90.why_not().as_deref(), Some("40.0 % failed; those after 1.00 s"));
                assert_eq!(ranked.percentile(0.5).text(), "2.00 ms");
            }
        }
        assert_eq!(new.response_and_unanswered(), old.response);
        let second = |of: &OperationFigures, failed: Option<&Latencies>| SecondFigures {
            verified: 60,
            errors: 40,
            response: of.response.pack(),
            service: of.service.pack(),
            failed: failed.map(Latencies::pack),
        };
        for second in [second(&old, None), second(&new, Some(&new.unanswered))] {
            let ranked = second.responses().unwrap();
            assert_eq!((ranked.count(), ranked.failed_share()), (100, 0.4));
            assert_eq!(ranked.max().text(), "≥ 1.00 s");
        }
        // What was never sent has no service time, and quick errors are failures too.
        old.errors.entry(ErrorKind::Dropped).or_default().count = 10;
        old.errors.entry(ErrorKind::Status).or_default().count = 30;
        assert_eq!((old.responses().count(), old.services().count()), (140, 130));
    }

    #[test]
    fn of_many_silences_the_longest_are_kept_in_order_of_time() {
        let mut all: Vec<Silence> = (0..=SILENCES_MAX)
            .map(|at| Silence { from: at as f64, seconds: if at == 3 { 0.5 } else { 0.6 } })
            .collect();
        longest(&mut all);
        assert_eq!(all.len(), SILENCES_MAX);
        assert!(all.is_sorted_by(|a, b| a.from < b.from));
        assert!(all.iter().all(|silence| silence.from != 3.0));
    }

    #[test]
    fn parallel_measurements_add_up_over_the_same_window() {
        let side = |name: &str, node: &str, milliseconds: u64, silences: &[(f64, f64)]| {
            let mut figures = OperationFigures { verified: 10, ..OperationFigures::default() };
            figures.verified_in_window = 10;
            figures.service.record(Duration::from_millis(milliseconds));
            figures.count_error(ErrorKind::Dropped, Example::default);
            figures.count_error(ErrorKind::Reset, Example::default);
            let second = |second| {
                let latencies = Latencies::default().pack();
                let of = SecondFigures {
                    verified: 5,
                    errors: 0,
                    response: latencies.clone(),
                    service: latencies,
                    failed: None,
                };
                Second { second, operations: [(name.to_owned(), of)].into() }
            };
            let silences = silences.iter().map(|&(from, seconds)| Silence { from, seconds });
            let mut of = Measurement {
                window: Duration::from_secs(4),
                operations: [(name.to_owned(), figures)].into(),
                seconds: vec![second(0), second(milliseconds as u32)],
                silences: silences.collect(),
                generator_cpu: Duration::from_secs(2),
                generator_threads: 1,
                ..Measurement::default()
            };
            of.tell_of_only_node(node);
            of
        };
        let mut whole = side("put", "a", 2, &[(0.5, 1.0), (3.0, 0.9)]);
        whole.add_beside(&side("get", "b", 1, &[(1.0, 2.6)]));
        assert_eq!(whole.window, Duration::from_secs(4));
        assert_eq!(whole.throughput(), Some(5.0));
        assert_eq!((whole.generator_cpu, whole.generator_threads), (Duration::from_secs(2), 2));
        let seconds: Vec<(u32, u64)> =
            whole.seconds.iter().map(|one| (one.second, one.verified())).collect();
        assert_eq!(seconds, [(0, 10), (1, 5), (2, 5)]);
        let nodes: Vec<(&str, u64, u64)> =
            whole.targets.iter().map(|of| (of.node.as_str(), of.verified, of.errors)).collect();
        assert_eq!(nodes, [("a", 10, 1), ("b", 10, 1)]);
        let silences: Vec<(f64, f64)> =
            whole.silences.iter().map(|one| (one.from, one.seconds)).collect();
        assert_eq!(silences.len(), 2, "{silences:?}");
        assert!((silences[0].0 - 1.0).abs() < 1e-9 && (silences[0].1 - 0.5).abs() < 1e-9);
        assert!((silences[1].0 - 3.0).abs() < 1e-9 && (silences[1].1 - 0.6).abs() < 1e-9);
    }

    #[test]
    fn staleness_of_appended_stages_adds_up_by_node() {
        let stage = |nodes: &[(&str, Seen)]| {
            let one = |&(node, seen): &(&str, Seen)| {
                let mut of = Staleness { node: node.to_owned(), ..Staleness::default() };
                of.count(seen);
                of
            };
            Measurement { staleness: nodes.iter().map(one).collect(), ..Measurement::default() }
        };
        let lag = StaleBy { age: Age::Exactly(Duration::from_millis(3)), behind: 2 };
        let mut whole = stage(&[("a", Seen::Fresh), ("b", Seen::Stale(Some(lag)))]);
        whole.append(&stage(&[("b", Seen::Fresh), ("c", Seen::Fresh)]));
        let counts: Vec<(&str, u64, u64)> =
            whole.staleness.iter().map(|of| (of.node.as_str(), of.reads, of.stale)).collect();
        assert_eq!(counts, [("a", 1, 0), ("b", 2, 1), ("c", 1, 0)]);
    }
}
