//! Adds up the workers' measurements, second by second, while they run.
//!
//! Each worker records into its own slice and hands it over each second. The collector merges and encodes it, and
//! returns the memory. So the loop takes no locks, memory does not grow with the number of operations, and progress
//! can be shown during the load.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use bakeoff_core::histogram::{Latencies, PackedLatencies};
use bakeoff_core::measurement::{
    DueTimes, EXAMPLES_MAX, Errors, GeneratorStall, Handshakes, LoadPart, Measurement,
    OperationFigures, PartSilences, PausedEnds, SENT_MAX, SILENCE_MIN, SILENCE_RECORDED_MIN,
    Second, SecondFigures, Silence, StepCounts, StepSeries, TargetFigures, UsedAddress,
    longest_stalls,
};
use bakeoff_core::ranked_latencies::{Percentile, RankedLatencies};
use bakeoff_core::staleness::Staleness;
use serde::{Deserialize, Serialize};

use super::latency_batch::LatencyBatch;
use super::transport::Handshake;
use super::{Seconds, Window};

/// Holds one worker's measurements of one second.
pub(super) struct Slice {
    pub(super) worker: usize,
    pub(super) second: u32,
    pub(super) operations: Vec<OperationFigures>,
    /// Times of operations that were sent when due, by operation; all operations of a closed load are. They belong to
    /// both distributions of the operation, so the loop records them once.
    pub(super) on_time: Vec<LatencyBatch>,
    /// Figures by node; empty if nodes are not reported separately.
    pub(super) targets: Vec<TargetFigures>,
    /// Staleness by node; empty if it is not judged.
    pub(super) staleness: Vec<Staleness>,
    /// Steps in which operations ended, each with its number since measuring began.
    pub(super) steps: Vec<(u32, StepCounts)>,
    /// Successes of parts in steps: the step, the part (each operation, then each node), and the count.
    pub(super) part_steps: Vec<(u32, usize, u64)>,
    /// Intervals without success although operations were due.
    pub(super) silences: Vec<Span>,
    pub(super) handshakes: Handshakes,
    /// Addresses that names changed to.
    pub(super) addresses: Vec<UsedAddress>,
    pub(super) schedule_lag: Latencies,
    /// Sampled send times, in nanoseconds since measuring began.
    pub(super) sent: Vec<u64>,
    pub(super) timer_lag: Latencies,
    pub(super) receive_lag: LatencyBatch,
    pub(super) undelayed: LatencyBatch,
    /// Answers read first in their batch. Each counts as zero receive lag.
    pub(super) prompt: u64,
    /// Intervals in which the worker stalled.
    pub(super) stalls: Vec<Span>,
    pub(super) connection_errors: Errors,
    pub(super) disconnected: Duration,
    pub(super) unserved_clients: u64,
    pub(super) clients_with_work: u64,
    pub(super) clients_without_success: u64,
    pub(super) late_clients: u64,
    pub(super) unconnected_clients: u64,
    pub(super) reissued: u64,
    pub(super) closed_idle: u64,
    pub(super) paused_ends: PausedEnds,
    pub(super) warmup_operations: u64,
    pub(super) last_of_warmup: u64,
    pub(super) carried_over: u64,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    pub(super) last_end: Option<Instant>,
    pub(super) interrupted: bool,
    pub(super) keys_exhausted: bool,
}

/// Interval from start to end.
pub(super) type Span = (Instant, Instant);

impl Slice {
    pub(super) fn new(worker: usize, operations: usize, targets: usize, aged: usize) -> Self {
        Self {
            worker,
            second: 0,
            operations: vec![OperationFigures::default(); operations],
            on_time: (0..operations).map(|_| LatencyBatch::default()).collect(),
            targets: vec![TargetFigures::default(); targets],
            staleness: vec![Staleness::default(); aged],
            steps: Vec::new(),
            part_steps: Vec::new(),
            silences: Vec::new(),
            handshakes: Handshakes::default(),
            addresses: Vec::new(),
            schedule_lag: Latencies::default(),
            sent: Vec::new(),
            timer_lag: Latencies::default(),
            receive_lag: LatencyBatch::default(),
            undelayed: LatencyBatch::default(),
            prompt: 0,
            stalls: Vec::new(),
            connection_errors: Errors::default(),
            disconnected: Duration::ZERO,
            unserved_clients: 0,
            clients_with_work: 0,
            clients_without_success: 0,
            late_clients: 0,
            unconnected_clients: 0,
            reissued: 0,
            closed_idle: 0,
            paused_ends: PausedEnds::default(),
            warmup_operations: 0,
            last_of_warmup: 0,
            carried_over: 0,
            bytes_sent: 0,
            bytes_received: 0,
            last_end: None,
            interrupted: false,
            keys_exhausted: false,
        }
    }

    /// Clears all figures but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.operations.iter_mut().for_each(OperationFigures::clear);
        self.on_time.iter_mut().for_each(LatencyBatch::clear);
        self.targets.iter_mut().for_each(TargetFigures::clear);
        self.staleness.iter_mut().for_each(Staleness::clear);
        self.steps.clear();
        self.part_steps.clear();
        self.silences.clear();
        self.handshakes = Handshakes::default();
        self.addresses.clear();
        self.schedule_lag.clear();
        self.sent.clear();
        self.timer_lag.clear();
        self.receive_lag.clear();
        self.undelayed.clear();
        self.prompt = 0;
        self.stalls.clear();
        self.connection_errors = Errors::default();
        self.disconnected = Duration::ZERO;
        self.unserved_clients = 0;
        (self.clients_with_work, self.clients_without_success) = (0, 0);
        (self.late_clients, self.unconnected_clients) = (0, 0);
        (self.reissued, self.closed_idle) = (0, 0);
        self.paused_ends = PausedEnds::default();
        (self.warmup_operations, self.last_of_warmup) = (0, 0);
        self.carried_over = 0;
        (self.bytes_sent, self.bytes_received) = (0, 0);
        self.last_end = None;
        self.interrupted = false;
        self.keys_exhausted = false;
    }

    /// Counts a TLS handshake.
    pub(super) fn count_handshake(&mut self, agreed: Handshake) {
        match agreed {
            Handshake::Anew => self.handshakes.full += 1,
            Handshake::Resumed => self.handshakes.resumed += 1,
        }
    }
}

/// Messages from a worker to the collector.
pub(super) enum Message {
    /// All clients are connected.
    Connected,
    /// A client could not connect; the worker has ended.
    NotConnected,
    /// A second is over.
    Slice(Box<Slice>),
    /// The worker has ended and sent its last slice. `busy` is its share of a CPU, `dues` are the times that it kept.
    Ended { worker: usize, busy: f64, dues: DueTimes },
}

/// Reports the progress of a load, each second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadProgress {
    /// Seconds measured so far.
    pub second: u32,
    /// Verified successes in the last second.
    pub verified: u64,
    /// Failures in the last second.
    pub errors: u64,
    /// Median response time of all operations in the last second.
    pub p50: Percentile,
    /// 99th percentile of the response time of all operations in the last second.
    pub p99: Percentile,
    /// Slowest response in the last second.
    pub max: Percentile,
    /// Generator's CPU use since the last report, as a share of the CPUs that its threads could use.
    pub busy: f64,
}

/// Adds up slices.
pub(super) struct Collector {
    names: Vec<String>,
    /// Merged slices of seconds that some workers have not finished.
    open: BTreeMap<u32, Vec<OperationFigures>>,
    /// First second that was not reported yet.
    next: u32,
    /// Last second that each worker has handed over; `None` once it has ended.
    passed: Vec<Option<u32>>,
    recycle: Vec<Sender<Box<Slice>>>,
    total: Vec<OperationFigures>,
    /// Successes by step, of each operation and then of each node.
    part_steps: Vec<StepSeries>,
    /// Silences by worker.
    silences: Vec<Vec<Span>>,
    /// Send times by worker.
    sent: Vec<Vec<u64>>,
    /// Stalls by worker.
    stalls: Vec<Vec<Span>>,
    last_end: Option<Instant>,
    measurement: Measurement,
    seconds: Seconds,
}

impl Collector {
    pub(super) fn new(
        names: Vec<String>,
        targets: Vec<TargetFigures>,
        staleness: Vec<Staleness>,
        recycle: Vec<Sender<Box<Slice>>>,
        seconds: Seconds,
    ) -> Self {
        Self {
            silences: vec![Vec::new(); recycle.len()],
            sent: vec![Vec::new(); recycle.len()],
            stalls: vec![Vec::new(); recycle.len()],
            seconds,
            total: vec![OperationFigures::default(); names.len()],
            part_steps: vec![StepSeries::default(); names.len() + targets.len()],
            names,
            open: BTreeMap::new(),
            next: 0,
            passed: vec![Some(0); recycle.len()],
            recycle,
            last_end: None,
            measurement: Measurement { targets, staleness, ..Measurement::default() },
        }
    }

    /// Merges a slice; returns the seconds that it completes.
    pub(super) fn take(&mut self, mut slice: Box<Slice>) -> Vec<LoadProgress> {
        let Slice { worker, second, .. } = *slice;
        debug_assert!(
            self.passed[worker].is_some_and(|passed| passed <= second),
            "worker {worker} records second {second} after {:?}",
            self.passed[worker]
        );
        debug_assert_eq!(slice.operations.len(), self.names.len());
        debug_assert_eq!(slice.targets.len(), self.measurement.targets.len());
        debug_assert_eq!(slice.staleness.len(), self.measurement.staleness.len());
        let merged = self
            .open
            .entry(second)
            .or_insert_with(|| vec![OperationFigures::default(); self.names.len()]);
        for (ours, theirs) in merged.iter_mut().zip(&slice.operations) {
            ours.merge(theirs);
        }
        for (ours, on_time) in merged.iter_mut().zip(&mut slice.on_time) {
            let on_time = on_time.all();
            if !on_time.is_empty() {
                ours.response.merge(on_time);
                ours.service.merge(on_time);
            }
            debug_assert!(ours.adds_up(), "{ours:?}");
        }
        let measurement = &mut self.measurement;
        for (ours, theirs) in measurement.targets.iter_mut().zip(&slice.targets) {
            ours.merge(theirs);
        }
        for (ours, theirs) in measurement.staleness.iter_mut().zip(&slice.staleness) {
            ours.merge(theirs);
        }
        slice.steps.iter().for_each(|(place, step)| measurement.steps.add(*place, step));
        for &(place, part, verified) in &slice.part_steps {
            self.part_steps[part].add(place, &StepCounts { verified, ..StepCounts::default() });
        }
        self.silences[worker].append(&mut slice.silences);
        debug_assert!(
            self.silences[worker].is_sorted_by(|one, next| one.1 <= next.0),
            "the silences of a worker follow each other"
        );
        self.sent[worker].append(&mut slice.sent);
        measurement.handshakes.merge(&slice.handshakes);
        measurement.use_addresses(slice.addresses.drain(..));
        self.stalls[worker].append(&mut slice.stalls);
        measurement.schedule_lag.merge(&slice.schedule_lag);
        measurement.timer_lag.merge(&slice.timer_lag);
        measurement.receive_lag.merge(slice.receive_lag.all());
        measurement.undelayed.merge(slice.undelayed.all());
        measurement.receive_lag.record_many(Duration::ZERO, slice.prompt);
        measurement.connection_errors.count += slice.connection_errors.count;
        measurement.connection_errors.examples.extend(slice.connection_errors.examples.clone());
        measurement.connection_errors.examples.truncate(EXAMPLES_MAX);
        measurement.disconnected += slice.disconnected;
        measurement.unserved_clients += slice.unserved_clients;
        measurement.clients_with_work += slice.clients_with_work;
        measurement.clients_without_success += slice.clients_without_success;
        measurement.late_clients += slice.late_clients;
        measurement.unconnected_clients += slice.unconnected_clients;
        measurement.reissued += slice.reissued;
        measurement.closed_idle += slice.closed_idle;
        measurement.paused_ends.merge(&slice.paused_ends);
        measurement.warmup_operations += slice.warmup_operations;
        measurement.last_of_warmup += slice.last_of_warmup;
        measurement.carried_over += slice.carried_over;
        measurement.bytes_sent += slice.bytes_sent;
        measurement.bytes_received += slice.bytes_received;
        measurement.interrupted |= slice.interrupted;
        measurement.keys_exhausted |= slice.keys_exhausted;
        self.last_end = self.last_end.max(slice.last_end);
        self.passed[worker] = self.passed[worker].map(|_| second + 1);
        slice.clear(); // outside of the workers' loop
        self.recycle[worker].send(slice).ok();
        self.close_seconds()
    }

    /// Marks a worker as ended; returns the seconds that this completes.
    pub(super) fn ended(&mut self, worker: usize, busy: f64, dues: &DueTimes) -> Vec<LoadProgress> {
        debug_assert!(self.passed[worker].is_some(), "worker {worker} ended twice");
        self.measurement.dues.merge(dues);
        self.passed[worker] = None;
        let busiest = &mut self.measurement.generator_busiest;
        *busiest = busiest.max(busy);
        self.close_seconds()
    }

    pub(super) fn is_done(&self) -> bool {
        self.passed.iter().all(Option::is_none)
    }

    fn close_seconds(&mut self) -> Vec<LoadProgress> {
        let passed_by_all = self.passed.iter().flatten().min().copied().unwrap_or(u32::MAX);
        let mut lives = Vec::new();
        while let Some(entry) = self.open.first_entry() {
            if *entry.key() >= passed_by_all {
                break;
            }
            let (second, merged) = entry.remove_entry();
            // An idle worker may sleep through a whole second, which is then empty.
            lives.extend((self.next..second).map(|empty| self.close_second(empty, &[])));
            lives.push(self.close_second(second, &merged));
            self.next = self.next.max(second + 1);
        }
        lives
    }

    fn close_second(&mut self, second: u32, merged: &[OperationFigures]) -> LoadProgress {
        debug_assert!(second >= self.next, "second {second} was reported, before {}", self.next);
        let mut closed = Second { second, operations: BTreeMap::new() };
        let (mut response, mut waits) = (Latencies::default(), Latencies::default());
        let (mut verified, mut errors) = (0, 0);
        for ((name, figures), total) in self.names.iter().zip(merged).zip(&mut self.total) {
            total.merge(figures);
            if figures.verified_in_window == 0 && figures.verified == 0 && figures.errors.is_empty()
            {
                continue;
            }
            response.merge(&figures.response);
            waits.merge(&figures.failed);
            waits.merge(&figures.unanswered);
            verified += figures.verified_in_window;
            errors += figures.error_count();
            if self.seconds == Seconds::Told {
                continue;
            }
            closed.operations.insert(
                name.clone(),
                SecondFigures {
                    verified: figures.verified_in_window,
                    errors: figures.error_count(),
                    response: figures.response.pack(),
                    service: figures.service.pack(),
                    failed: packed_failures(figures),
                },
            );
        }
        if !closed.operations.is_empty() {
            self.measurement.seconds.push(closed);
        }
        let response = RankedLatencies::new(Cow::Owned(response), Cow::Owned(waits), errors);
        LoadProgress {
            second,
            verified,
            errors,
            p50: response.percentile(0.5),
            p99: response.percentile(0.99),
            max: response.max(),
            busy: 0.0, // the caller fills it in
        }
    }

    /// Returns the measurement once all workers have ended. `shortest` is the minimum duration of the load.
    pub(super) fn finish(mut self, window: &Window, shortest: Duration) -> Measurement {
        debug_assert!(!self.is_done() || self.open.is_empty(), "a second was not added up");
        let last_end = self.last_end.unwrap_or(window.measure);
        let end =
            if self.measurement.interrupted { last_end } else { window.end.unwrap_or(last_end) };
        let lasted = end.saturating_duration_since(window.measure);
        self.measurement.window =
            if self.measurement.interrupted { lasted } else { lasted.max(shortest) };
        self.measurement.silent_from = silent_from(&self.silences, window.measure, end);
        self.measurement.sent = first_sent(&self.sent);
        self.measurement.stalls = stalls(&self.stalls, window.measure);
        self.measurement.part_silences = self.part_silences();
        self.measurement.operations = self.names.into_iter().zip(self.total).collect();
        // The operations decide which silences count as stalls.
        self.measurement.keep_silences(silences(&self.silences, window.measure, end));
        self.measurement
    }
}

impl Collector {
    /// Returns the silences of each operation and of each node. A single one is the whole load.
    fn part_silences(&self) -> Vec<PartSilences> {
        let operations = self.names.iter().cloned().map(LoadPart::Operation);
        let nodes = self.measurement.targets.iter().map(|of| LoadPart::Node(of.node.clone()));
        let (several, window) = (self.names.len() > 1, self.measurement.window);
        let parts = operations.chain(nodes).zip(&self.part_steps);
        let parts = parts.filter(|(part, _)| several || matches!(part, LoadPart::Node(_)));
        parts.map(|(part, steps)| PartSilences::find(part, &steps.verified, window)).collect()
    }
}

/// Returns the send times that all workers sampled, in order. Each worker stops sampling at its own time, so later
/// times would be incomplete.
fn first_sent(of_workers: &[Vec<u64>]) -> Vec<u64> {
    let until = of_workers.iter().map(|sent| sent.last().copied().unwrap_or(0)).min().unwrap_or(0);
    let all = of_workers.iter().flatten().copied();
    let mut sent: Vec<u64> = all.filter(|&at| at <= until).collect();
    sent.sort_unstable();
    sent.truncate(SENT_MAX);
    sent
}

/// Returns the workers' stalls, all within the window.
fn stalls(of_workers: &[Vec<Span>], measure: Instant) -> Vec<GeneratorStall> {
    let of_worker = |(thread, spans): (u32, &Vec<Span>)| {
        let converted = |&(from, to): &Span| GeneratorStall {
            thread,
            from: (from - measure).as_secs_f64(),
            seconds: (to - from).as_secs_f64(),
        };
        spans.iter().map(converted).collect::<Vec<_>>()
    };
    let mut stalls = (0..).zip(of_workers).flat_map(of_worker).collect();
    longest_stalls(&mut stalls);
    stalls
}

/// Returns the start of the silence in which all workers ended. Returns `None` if a worker did not end in silence or
/// succeeded after the window.
fn silent_from(of_workers: &[Vec<Span>], measure: Instant, end: Instant) -> Option<f64> {
    let last =
        |spans: &Vec<Span>| spans.last().filter(|&&(_, to)| to == end).map(|&(from, _)| from);
    let begins: Option<Vec<Instant>> = of_workers.iter().map(last).collect();
    let from = begins?.into_iter().max()?;
    (end.saturating_duration_since(from) >= SILENCE_MIN).then_some(())?;
    Some(from.saturating_duration_since(measure).as_secs_f64())
}

/// Returns the times of all failures; `None` if there are none.
fn packed_failures(of: &OperationFigures) -> Option<PackedLatencies> {
    if of.failed.is_empty() && of.unanswered.is_empty() {
        return None;
    }
    let mut failed = of.failed.clone();
    failed.merge(&of.unanswered);
    Some(failed.pack())
}

/// Returns the intervals in the window in which all workers were silent.
fn silences(of_workers: &[Vec<Span>], measure: Instant, end: Instant) -> Vec<Silence> {
    let window = vec![(measure, end)];
    let common = of_workers.iter().fold(window, |common, spans| overlaps(&common, spans));
    let converted = |(from, to): Span| Silence {
        from: (from - measure).as_secs_f64(),
        seconds: (to - from).as_secs_f64(),
    };
    common.into_iter().map(converted).collect()
}

/// Returns the common parts of two lists of intervals that are at least [`SILENCE_RECORDED_MIN`] long. Each list is
/// in order of time.
fn overlaps(ours: &[Span], theirs: &[Span]) -> Vec<Span> {
    let mut found = Vec::new();
    let (mut i, mut j) = (0, 0);
    while let (Some(a), Some(b)) = (ours.get(i), theirs.get(j)) {
        let (from, to) = (a.0.max(b.0), a.1.min(b.1));
        if to.saturating_duration_since(from) >= SILENCE_RECORDED_MIN {
            found.push((from, to));
        }
        if a.1 < b.1 {
            i += 1;
        } else {
            j += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn only_times_sampled_by_all_workers_are_kept() {
        assert_eq!(first_sent(&[vec![1, 5, 9], vec![2, 3, 6, 7]]), [1, 2, 3, 5, 6, 7]);
        assert_eq!(first_sent(&[vec![1, 5, 9], Vec::new()]), [0; 0]);
        assert_eq!(first_sent(&[(0..5000).collect()]).len(), SENT_MAX);
    }

    #[test]
    fn silence_needs_all_workers_to_be_silent() {
        let measure = clock::now();
        let at = |milliseconds: u64| measure + Duration::from_millis(milliseconds);
        let spans = |of: &[(u64, u64)]| -> Vec<Span> {
            of.iter().map(|&(from, to)| (at(from), at(to))).collect()
        };
        let first = spans(&[(0, 1000), (2000, 4000), (5000, 9000)]);
        let second = spans(&[(600, 2600), (3000, 3400), (4900, 5600), (6000, 6005), (7000, 8000)]);
        let found = silences(&[first.clone(), second], measure, at(7600));
        let found: Vec<(f64, f64)> = found.iter().map(|one| (one.from, one.seconds)).collect();
        // The interval 6000 to 6005 is too short. The window's end cuts the last one.
        let expected = [(0.6, 0.4), (2.0, 0.6), (3.0, 0.4), (5.0, 0.6), (7.0, 0.6)];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            let off = (found.0 - expected.0).abs() + (found.1 - expected.1).abs();
            assert!(off < 1e-6, "{found:?} is not {expected:?}");
        }
        assert!(silences(&[first, Vec::new()], measure, at(7600)).is_empty());
    }
}
