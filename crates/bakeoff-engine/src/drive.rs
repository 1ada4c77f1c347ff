//! Drives one stage of a load: starts its threads together and adds up their measurements.
//!
//! Not here: the loop of a thread (`worker`), the measurement (`collector`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use bakeoff_core::lanes::{self, deal};
use bakeoff_core::measurement::{Measurement, SENT_MAX};
use bakeoff_core::schedule::{LoadShare, OpenSchedule, RateProfile, Spacing, counted, span_of};
use bakeoff_core::study::Stop;

use super::collector::{Collector, LoadProgress, Message};
use super::lookup::{self, Lookups};
use super::own_limits::{self, HELD_MAX};
use super::peer::{Peer, aged, figures_by_node};
use super::start_barrier::{START_DELAY, StartBarrier};
use super::work::{Outline, Work};
use super::worker::{ClientSlots, Lane, Outlet, Part, SharedState, Worker};
use super::{Connections, Drive, EngineError, Window, clock};

/// Drives one stage of a load. All loads of `barrier` begin at the same time.
///
/// Clients connect to `peers` in turn, and an open load deals its operations to them in turn. `works` makes each
/// worker's work. `progress` is called each second. Returns the measurement and the number of the first operation
/// that was not started.
///
/// The loop is compiled for each kind of work. Other crates call it through `works`, so it is compiled in this crate.
pub(crate) fn drive<W: Work>(
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
        slots: outline.slots.map(|all| ClientSlots { all, clients: drive.clients }),
        connect_within: outline.connect_within,
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
