//! Drives the writes and the reads of a workload at the same time, on separate nodes.
//!
//! Two loads on the same keys start together, each with its own clients and threads, and their measurements are added
//! up. They share one ledger: a read at a follower is judged by what the leader acknowledged.
//!
//! Not here: splitting a load (`bakeoff_core::read_write_split`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};

use bakeoff_core::measurement::Measurement;
use bakeoff_core::ranked_latencies::Percentile;
use bakeoff_core::read_write_split::SplitHalf;
use bakeoff_core::schedule;
use bakeoff_core::study::{Arrivals, Stop};
use bakeoff_core::workload::mix64;
use bakeoff_engine::start_barrier::{StartBarrier, StartGate};
use bakeoff_engine::works::keyed::{KeyedState, Reading, Source};
use bakeoff_engine::{Drive, EngineError, LoadProgress};
use bakeoff_systems::{Access, KvLoad, System};

/// Settings that both halves share.
pub(crate) struct SplitLoad<'a> {
    pub(crate) system: &'static dyn System,
    pub(crate) keyed: &'a Arc<KeyedState>,
    pub(crate) reading: Reading,
    /// Settings of the whole stage. A half has its own clients, threads, arrivals and end.
    pub(crate) drive: &'a Drive,
    /// Seed of keys, values and arrivals.
    pub(crate) seed: u64,
    pub(crate) interrupted: &'a AtomicBool,
}

/// Drives both halves from the time that `gate` returns. `nodes`: targets of each half. Returns the measurement and the
/// number of the first operation that was not begun. Each half numbers its own operations, so it visits ordered keys in
/// their order.
pub(crate) fn drive(
    split: &SplitLoad<'_>,
    halves: &[SplitHalf; 2],
    nodes: [&[Access]; 2],
    gate: StartGate,
    progress: &mut dyn FnMut(&LoadProgress),
) -> Result<(Measurement, u64), EngineError> {
    let barrier = &StartBarrier::gated(2, gate);
    let (to_progress, lives) = channel();
    let [writes, reads] = std::thread::scope(|scope| {
        let begun = [0, 1].map(|place| {
            let (half, nodes) = (&halves[place], nodes[place]);
            let to_progress = to_progress.clone();
            let mut tell = move |live: &LoadProgress| {
                to_progress.send((place, live.clone())).ok();
            };
            scope.spawn(move || {
                let driven = drive_half(split, half, nodes, barrier, &mut tell);
                if driven.is_err() {
                    barrier.fail();
                }
                driven
            })
        });
        drop(to_progress);
        tell_both(&lives, halves, progress);
        begun.map(|half| half.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    add_up(writes, reads)
}

/// A measurement, and the number of the first operation that was not begun.
type HalfResult = Result<(Measurement, u64), EngineError>;

/// Adds up the measurements of both halves. If one half failed, returns its error, not the interrupt of the other.
fn add_up(one: HalfResult, other: HalfResult) -> HalfResult {
    match (one, other) {
        (Ok((mut whole, next)), Ok((measurement, others_next))) => {
            whole.add_next_to(&measurement);
            Ok((whole, next.max(others_next)))
        }
        (Err(EngineError::Interrupted), Err(error)) | (Err(error), _) | (_, Err(error)) => {
            Err(error)
        }
    }
}

/// Drives the writes or the reads.
fn drive_half(
    split: &SplitLoad<'_>,
    half: &SplitHalf,
    nodes: &[Access],
    barrier: &StartBarrier,
    progress: &mut dyn FnMut(&LoadProgress),
) -> Result<(Measurement, u64), EngineError> {
    let first_ticket = split.drive.first_ticket;
    // The halves draw keys and arrivals independently.
    let side = if half.workload.writes() { 1 } else { 2 };
    let drawn = mix64(split.seed ^ mix64(first_ticket) ^ mix64(side));
    let drive = Drive {
        clients: half.stage.clients,
        arrivals: schedule::paced(half.arrivals),
        stop: half.stage.stop,
        threads: half.threads,
        seed: drawn,
        own_operations: own_operations(split, half, drawn),
        ..split.drive.clone()
    };
    let (mut measurement, next) = split.system.drive(KvLoad {
        nodes,
        keyed: split.keyed,
        source: &mut |_| Source::mix(&half.workload, split.seed, drawn),
        reading: split.reading,
        drive: &drive,
        barrier: Some(barrier),
        interrupted: split.interrupted,
        progress,
    })?;
    if let [only] = nodes {
        measurement.tell_of_only_node(&only.target.address.to_string());
    }
    Ok((measurement, next))
}

/// Returns the number of operations of this generator, if the half is a closed load that ends by a count and is shared.
fn own_operations(split: &SplitLoad<'_>, half: &SplitHalf, drawn: u64) -> Option<u64> {
    let share = split.drive.share;
    match (half.stage.stop, half.arrivals) {
        (Stop::Operations(count), Arrivals::Closed) if share.of > 1 => {
            let mut source = Source::mix(&half.workload, split.seed, drawn);
            Some(source.count_owned(split.drive.first_ticket, count, share))
        }
        _ => None,
    }
}

/// Returns the slower of two longest responses. A failure only gives a lower bound.
pub(crate) fn slower(one: Percentile, other: Percentile) -> Percentile {
    let (quicker, slower) = if one.least() < other.least() { (one, other) } else { (other, one) };
    match (quicker, slower) {
        (Percentile::AtLeast(_), Percentile::At(least)) => Percentile::AtLeast(least),
        _ => slower,
    }
}

/// Reports each second once both halves have reported it. Percentiles cannot be added up, so only the longest response
/// is reported.
fn tell_both(
    lives: &Receiver<(usize, LoadProgress)>,
    halves: &[SplitHalf; 2],
    progress: &mut dyn FnMut(&LoadProgress),
) {
    let mut waiting: [Vec<LoadProgress>; 2] = [Vec::new(), Vec::new()];
    for (place, live) in lives {
        let other = &mut waiting[1 - place];
        let Some(same) = other.iter().position(|one| one.second == live.second) else {
            waiting[place].push(live);
            continue;
        };
        let before = other.swap_remove(same);
        let [ours, theirs] = [place, 1 - place].map(|place| f64::from(halves[place].threads));
        progress(&LoadProgress {
            second: live.second,
            verified: live.verified + before.verified,
            errors: live.errors + before.errors,
            p50: Percentile::Nothing,
            p99: Percentile::Nothing,
            max: slower(live.max, before.max),
            // Each half reports the use of the whole process relative to its own threads' CPUs.
            busy: (live.busy * ours + before.busy * theirs) / 2.0 / (ours + theirs),
        });
    }
}
