//! Drives a load: connects the clients, starts them together and adds up their measurements.
//!
//! Uses threads and `epoll`, no async runtime. Everything between an operation's due time and its bytes on the wire
//! is here, and can be read in one sitting.
//!
//! Not here: operations and the verification of answers (implementors of `work::Work`), the configuration of a load
//! (`bakeoff_core::study`).

pub mod address;
pub mod blocking_http;
mod client;
mod collector;
mod error;
mod latency_batch;
mod lookup;
pub mod open_files;
mod own_limits;
pub mod window_signal;
pub use own_limits::ports_exhausted;
pub mod peer;
pub mod routes;
pub mod start_barrier;
pub mod timer;
pub mod tls;
pub mod transport;
mod turns;
pub mod work;
mod worker;
pub mod works;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use bakeoff_core::lanes::{self, deal};
use bakeoff_core::measurement::{Measurement, SENT_MAX, TARGETS_MAX, TargetFigures};
use bakeoff_core::schedule::{LoadShare, OpenSchedule, RateProfile, Spacing, counted, span_of};
use bakeoff_core::staleness::Staleness;
use bakeoff_core::study::Stop;
use bakeoff_core::units::ByteCount;

use address::Address;
pub use bakeoff_clock as clock;
pub use collector::LoadProgress;
use collector::{Collector, Message};
pub use error::LoadError;
use lookup::Lookups;
use peer::Peer;
use start_barrier::StartBarrier;
use window_signal::MomentSender;
use work::{Outline, Work};
use worker::{Lane, Outlet, Part, SharedState, Worker};

/// Delay from the last client's connection to the start of the load.
const START_DELAY: Duration = Duration::from_millis(5);

/// Chooses between kept connections and one per operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// Each client keeps one connection. All are open before the load begins, unless the server accepts some late.
    Kept,
    /// Each operation opens its own connection. Response and service time include that.
    OneEach,
}

/// Chooses whether the measurement keeps the histograms of each past second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seconds {
    /// Keeps them in the measurement, packed to a few kilobytes a second.
    Kept,
    /// Passes a few figures to `progress` and drops the rest. Memory use does not grow with the load's duration.
    Told,
}

/// Configures one stage of a load.
#[derive(Debug, Clone)]
pub struct Drive {
    /// Number of clients. Each has one connection with [`Connections::Kept`].
    pub clients: u32,
    /// Maximum operations in flight per client; 1 with [`Connections::OneEach`].
    pub in_flight: u32,
    /// Kept connections, or one per operation.
    pub connections: Connections,
    /// Rate and spacing of an open load; `None` for a closed load.
    pub arrivals: Option<(RateProfile, Spacing)>,
    /// Time before an operation of an open load is due from which a thread waits without sleeping. Zero leaves the
    /// wait to the kernel's timer.
    pub spin: Duration,
    /// Warm-up time before measuring begins.
    pub warmup: Duration,
    /// Duration or number of operations after which measuring ends.
    pub stop: Stop,
    /// Time after which an unanswered operation counts as failed.
    pub timeout: Duration,
    /// Whether the measurement keeps the histograms of each second.
    pub seconds: Seconds,
    /// Maximum number of worker threads. The engine never starts more threads than clients.
    pub threads: u32,
    /// Seed of the arrival times.
    pub seed: u64,
    /// Number of the first operation. A later stage continues the count of the previous one.
    pub first_ticket: u64,
    /// Receives the start and end of measuring.
    pub moments: Option<MomentSender>,
    /// This generator's share of the load. Clients, arrivals and operations are those of the whole load. Every
    /// generator has as many threads as this one.
    pub share: LoadShare,
    /// This generator's operations, for a closed load that ends by a count; `None` means all of them.
    pub own_operations: Option<u64>,
}

impl Drive {
    /// Returns a closed load that starts each of `count` operations once, for a fill or an audit.
    pub fn once(count: u64, clients_max: u32, threads: u32, timeout: Duration) -> Self {
        Self {
            clients: u64::from(clients_max).min(count) as u32,
            in_flight: 1,
            connections: Connections::Kept,
            arrivals: None,
            spin: Duration::ZERO,
            warmup: Duration::ZERO,
            stop: Stop::Operations(count),
            timeout,
            seconds: Seconds::Told,
            threads,
            seed: 0, // a closed load has no arrivals to draw
            first_ticket: 0,
            moments: None,
            share: LoadShare::WHOLE,
            own_operations: None,
        }
    }
}

/// Explains why a load could not run.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The engine could not connect to a node before the load began.
    #[error("could not connect a client to `{address}`: {what}")]
    Unreachable {
        /// Address of the node.
        address: Address,
        /// Reason in words.
        what: String,
    },
    /// A server answered plain text by saying that it speaks TLS.
    #[error("`{address}` refuses plain text: {what}")]
    SpeaksTls {
        /// Address of the node.
        address: Address,
        /// The server's answer, in words.
        what: String,
    },
    /// The load has fewer clients than generators.
    #[error("there are fewer clients than generators")]
    NoClients,
    /// This machine has no free local port. Holds the reason and a hint.
    #[error("{0}")]
    NoPorts(String),
    /// Incomplete answers that are verified as a whole need more memory than the limit, 2 GiB.
    #[error(
        "answers that are verified as a whole hold more than {} of the generator's memory: use fewer clients, or \
         do not verify them",
        ByteCount(HELD_MAX as u64)
    )]
    HoldsTooMuch,
    /// The user interrupted the load before it began.
    #[error("interrupted before the load began")]
    Interrupted,
    /// The kernel refused a socket, a thread or a timer.
    #[error("the load generator failed: {0}")]
    Io(#[from] io::Error),
}

/// Holds the start of the load and the measured interval.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Due time of the first operations.
    start: Instant,
    measure: Instant,
    /// Time after which no operation is sent; `None` if the load ends by a count.
    end: Option<Instant>,
}

impl Window {
    /// Returns the window of a load that begins at `start`.
    pub fn new(start: Instant, warmup: Duration, stop: Stop) -> Self {
        let measure = start + warmup;
        let end = match stop {
            Stop::After(time) => Some(measure + time),
            Stop::Operations(_) => None,
        };
        Self { start, measure, end }
    }

    /// Returns the start of measuring, and its end if the load stops by time.
    pub fn measured(&self) -> (Instant, Option<Instant>) {
        (self.measure, self.end)
    }

    fn second_of(&self, at: Instant) -> u32 {
        at.saturating_duration_since(self.measure).as_secs() as u32
    }

    /// Returns true if this second, counted from the start of measuring, begins before the load ends.
    fn begins(&self, second: u32) -> bool {
        let begin = self.measure + Duration::from_secs(second.into());
        self.end.is_none_or(|end| begin < end)
    }

    fn seconds_at(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.measure).as_secs_f64()
    }

    /// Returns true if `at` lies in the measured window.
    fn holds(&self, at: Instant) -> bool {
        at >= self.measure && self.end.is_none_or(|end| at <= end)
    }

    /// Returns true if `at` lies in the last second before measuring.
    fn ends_warmup(&self, at: Instant) -> bool {
        at < self.measure && at + Duration::from_secs(1) > self.measure
    }

    /// Returns how much of `from..to` lies in the measured window.
    fn overlap(&self, from: Instant, to: Instant) -> Duration {
        let from = from.max(self.measure);
        let to = self.end.map_or(to, |end| to.min(end));
        to.saturating_duration_since(from)
    }
}

/// Drives one stage of a load. All loads of `barrier` begin at the same time.
///
/// Clients connect to `peers` in turn, and an open load deals its operations to them in turn. `works` makes each
/// worker's work. `progress` is called each second. Returns the measurement and the number of the first operation
/// that was not started.
///
/// The loop is compiled for each kind of work. Other crates call it through `works`, so it is compiled in this crate.
fn drive<W: Work>(
    peers: &[Peer],
    drive: &Drive,
    barrier: Option<&StartBarrier>,
    mut works: impl FnMut(LoadShare) -> W,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&LoadProgress),
) -> Result<(Measurement, u64), EngineError> {
    let all = drive.threads.saturating_mul(drive.share.of).clamp(1, drive.clients);
    let places = places(peers);
    let dealt = deal(&places, drive.clients, all);
    let own = own_threads(drive, dealt);
    let of = own.len() as u32;
    if own.is_empty() {
        return Err(EngineError::NoClients);
    }
    let shared = SharedState {
        tickets: AtomicU64::new(drive.first_ticket),
        begun: AtomicU64::new(0),
        aborted: AtomicBool::new(false),
        interrupted,
        peers,
        reached: places.iter().map(|_| AtomicBool::new(false)).collect(),
        places,
        lookups: Lookups::new(peers),
    };
    let (to_collector, messages) = mpsc::channel();
    thread::scope(|scope| {
        let mut starts = Vec::new();
        let mut recycle = Vec::new();
        let mut workers = Vec::new();
        let mut outline = Outline::default();
        for (index, Thread { number, lanes: dealt, counts }) in (0..).zip(own) {
            let share = LoadShare { index: number, of: all };
            let (give_back, recycled) = mpsc::channel();
            let (start, started) = mpsc::channel();
            let work = works(share);
            outline = work.outline();
            let worker = Worker::new(
                work,
                part(drive, &dealt, &outline, LoadShare { index, of }),
                open_lanes(drive, dealt, &mut counts.into_iter()),
                &shared,
                Outlet { to_collector: to_collector.clone(), recycled },
            )?;
            let to_collector = to_collector.clone();
            let work_on = move || work_on(worker, &to_collector, &started);
            workers.push(
                thread::Builder::new()
                    .name(format!("load-{index}"))
                    .spawn_scoped(scope, work_on)?,
            );
            starts.push(start);
            recycle.push(give_back);
        }
        drop(to_collector);
        let staleness = if outline.judges_age { aged(peers) } else { Vec::new() };
        let collector = Collector::new(
            outline.operations,
            figures_by_node(peers),
            staleness,
            recycle,
            drive.seconds,
        );
        let collected = collect(drive, barrier, collector, &messages, &starts, progress);
        drop(starts);
        for worker in workers {
            match worker.join() {
                Ok(ended) => ended?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        let mut measurement = collected.ok_or(EngineError::Interrupted)?;
        measurement.generator_threads = of;
        let during_the_load = std::mem::take(&mut measurement.addresses);
        measurement.use_addresses(peers.iter().map(|peer| lookup::used(&peer.address, None)));
        measurement.use_addresses(during_the_load);
        Ok((measurement, shared.tickets.load(std::sync::atomic::Ordering::Relaxed)))
    })
}

/// Holds one thread of this generator: its number among all threads, its lanes and the number of operations per lane.
struct Thread {
    number: u32,
    lanes: Vec<lanes::Lane>,
    counts: Vec<u64>,
}

/// Returns this generator's threads. Generators take the threads of the whole load in turn.
fn own_threads(drive: &Drive, dealt: Vec<Vec<lanes::Lane>>) -> Vec<Thread> {
    let mut counts = count_by_lane(drive, &dealt).into_iter();
    let numbered = (0..).zip(dealt).map(|(number, lanes)| {
        let counts = counts.by_ref().take(lanes.len()).collect();
        Thread { number, lanes, counts }
    });
    numbered.filter(|thread| drive.share.has(thread.number.into())).collect()
}

/// Creates one set of counters per node. Returns an empty list for a single node, whose counters would repeat the
/// total, and for more than [`TARGETS_MAX`] nodes.
fn figures_by_node(peers: &[Peer]) -> Vec<TargetFigures> {
    let of =
        |peer: &Peer| TargetFigures { node: peer.address.to_string(), ..TargetFigures::default() };
    let several = (2..=TARGETS_MAX).contains(&peers.len());
    if several { peers.iter().map(of).collect() } else { Vec::new() }
}

/// Creates one staleness record per node, or one for all nodes if there are more than [`TARGETS_MAX`].
fn aged(peers: &[Peer]) -> Vec<Staleness> {
    let of = |node: String| Staleness { node, ..Staleness::default() };
    match peers.len() {
        0..=TARGETS_MAX => peers.iter().map(|peer| of(peer.address.to_string())).collect(),
        many => vec![of(format!("all {many} nodes"))],
    }
}

/// Returns for each peer the index of the first peer that is the same server.
fn places(peers: &[Peer]) -> Vec<usize> {
    let server =
        |peer: &Peer| (peer.address.to_string(), peer.tls.as_ref().map(|tls| tls.name.clone()));
    let mut first = HashMap::new();
    let place = |(place, peer)| *first.entry(server(peer)).or_insert(place);
    peers.iter().enumerate().map(place).collect()
}

/// Returns the measured operations of each lane, thread by thread, for an open load that ends by a count. The load
/// ends with the last due operation, no matter which thread sends it.
fn count_by_lane(drive: &Drive, dealt: &[Vec<lanes::Lane>]) -> Vec<u64> {
    let (Some((pace, spacing)), Stop::Operations(count)) = (&drive.arrivals, drive.stop) else {
        return Vec::new();
    };
    let turns: Vec<_> = dealt.iter().flatten().map(|lane| lane.turn.clone()).collect();
    counted(pace, *spacing, &turns, drive.seed, drive.warmup, count)
}

/// Returns the shortest duration of an evenly spaced load that ends by a count. It includes the gap after the last
/// operation. Zero for other loads.
fn shortest(drive: &Drive) -> Duration {
    match (&drive.arrivals, drive.stop) {
        (Some((pace, Spacing::Constant)), Stop::Operations(count)) => {
            span_of(pace, drive.warmup, count).unwrap_or_default()
        }
        _ => Duration::ZERO,
    }
}

/// Maximum bytes of incomplete answers that all clients hold together. One answer's body may have up to 1 GiB.
const HELD_MAX: usize = if cfg!(test) { 8 << 20 } else { 2 << 30 };

/// Returns one worker's part of a stage.
fn part(drive: &Drive, dealt: &[lanes::Lane], outline: &Outline, share: LoadShare) -> Part {
    let turns = outline.turns.clone().filter(|_| drive.arrivals.is_none());
    let of_lane = |(place, lane): (usize, &lanes::Lane)| {
        lane.clients.iter().map(move |&(client, node)| (client, node, place)).collect::<Vec<_>>()
    };
    let mut clients: Vec<_> = dealt.iter().enumerate().flat_map(of_lane).collect();
    clients.sort_unstable();
    let mut per_client = 1;
    if let Some(turns) = turns.as_ref().filter(|_| drive.connections == Connections::Kept) {
        per_client = turns.servers();
        let connections = |(client, _, lane)| {
            (0..per_client).map(move |server| (client, turns.node(client, server), lane))
        };
        clients = clients.into_iter().flat_map(connections).collect();
    }
    Part {
        worker: share.index as usize,
        operations: outline.operations.len(),
        judges_age: outline.judges_age,
        begins_short: outline.begins_short,
        is_shared: drive.share.of > 1,
        clients,
        per_client,
        turns,
        in_flight: drive.in_flight,
        connections: drive.connections,
        spin: drive.spin,
        timeout: drive.timeout,
        held_max: HELD_MAX / share.of as usize,
        // If the rate changes, the gaps do not share one distribution.
        sample_sent: match drive.arrivals {
            Some((RateProfile::Constant { .. }, Spacing::Poisson)) => SENT_MAX,
            _ => 0,
        },
        budget: match drive.stop {
            Stop::After(_) => None,
            Stop::Operations(count) => Some(drive.own_operations.unwrap_or(count)),
        },
    }
}

/// Returns a worker's lanes, each with its count from `counts` if the load ends by a count. Empty for a closed load.
fn open_lanes(
    drive: &Drive,
    dealt: Vec<lanes::Lane>,
    counts: &mut impl Iterator<Item = u64>,
) -> Vec<Lane> {
    let Some((pace, spacing)) = &drive.arrivals else { return Vec::new() };
    let lane = |lane: lanes::Lane| {
        let schedule = OpenSchedule::paced(pace, *spacing, lane.turn, drive.seed);
        Lane::new(lane.place, schedule, counts.next())
    };
    dealt.into_iter().map(lane).collect()
}

fn work_on<W: Work>(
    mut worker: Worker<'_, W>,
    to_collector: &Sender<Message>,
    started: &Receiver<Window>,
) -> Result<(), EngineError> {
    if let Err(error) = worker.connect() {
        to_collector.send(Message::NotConnected).ok();
        return Err(error);
    }
    to_collector.send(Message::Connected).ok();
    match started.recv() {
        Ok(window) => worker.run(window),
        Err(_) => Ok(()), // another worker failed to connect and reports why
    }
}

/// Waits until all workers are connected, starts them, and adds up their results until they end. Returns `None` if a
/// worker failed to connect.
fn collect(
    drive: &Drive,
    barrier: Option<&StartBarrier>,
    mut collector: Collector,
    messages: &Receiver<Message>,
    starts: &[Sender<Window>],
    progress: &mut dyn FnMut(&LoadProgress),
) -> Option<Measurement> {
    for _ in starts {
        match messages.recv() {
            Ok(Message::Connected) => {}
            _ => return None,
        }
    }
    let start = match barrier {
        None => clock::now() + START_DELAY,
        Some(barrier) => barrier.start()?,
    };
    let window = Window::new(start, drive.warmup, drive.stop);
    drive.moments.iter().for_each(|moments| moments.begins(&window));
    let cpu_before = clock::process_cpu();
    let throttled_before = own_limits::throttled();
    let mut seen = (start, cpu_before);
    for start in starts {
        start.send(window).ok()?;
    }
    while !collector.is_done() {
        let complete = match messages.recv() {
            Ok(Message::Slice(slice)) => collector.take(slice),
            Ok(Message::Ended { worker, busy, dues }) => collector.ended(worker, busy, &dues),
            Ok(Message::Connected | Message::NotConnected) => Vec::new(),
            Err(_) => break,
        };
        if complete.is_empty() {
            continue;
        }
        let now = (clock::now(), clock::process_cpu());
        let could = (now.0 - seen.0).as_secs_f64() * starts.len() as f64;
        let busy = (now.1.saturating_sub(seen.1)).as_secs_f64() / could.max(f64::MIN_POSITIVE);
        seen = now;
        // Operations that end after the window are awaited, but that time is not a second of the load.
        let reported =
            complete.into_iter().filter(|live| live.errors > 0 || window.begins(live.second));
        reported.for_each(|live| progress(&LoadProgress { busy, ..live }));
    }
    drive.moments.iter().for_each(|moments| moments.ended(&window));
    let mut measurement = collector.finish(&window, shortest(drive));
    measurement.generator_throttled = own_limits::throttled().saturating_sub(throttled_before);
    measurement.generator_cpu = clock::process_cpu().saturating_sub(cpu_before);
    Some(measurement)
}
