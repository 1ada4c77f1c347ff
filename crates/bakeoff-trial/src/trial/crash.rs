//! Kills all nodes of a cluster during writes.
//!
//! A kill at rest finds servers that had the whole time of reading back to write their data to disk. So a short load of
//! writes, which is not measured, runs during the kill. Writes acknowledged before the kill must be there afterwards.
//! The outcome of the others is unknown.
//!
//! Not here: reading back (`audit`), restarting (`cluster`).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::check::KilledUnderLoad;
use bakeoff_core::plan::Stage;
use bakeoff_core::study::{Arrivals, KeyOrder, Load, Operation, Stop, Workload};
use bakeoff_core::workload::mix64;
use bakeoff_systems::{Access, System};

use bakeoff_fleet::generators::all_generators::{Generators, StageCallbacks};
use bakeoff_fleet::generators::error::GeneratorError;
use bakeoff_fleet::generators::generator::{StageRequest, StageTarget};
use bakeoff_fleet::machines::order::NEWEST;

/// Minimum time of writing before the kill.
const BEFORE: Duration = Duration::from_secs(1);
/// Maximum additional time by the trial's seed, so that kills hit different points of a server's periodic work.
const SPREAD_MS: u64 = 1000;
/// Time in which answers sent before the kill arrive.
const ARRIVING: Duration = Duration::from_millis(100);
/// Maximum time of the load. It is normally stopped much earlier.
const LONGEST: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(5);
const CHECK_EVERY: Duration = Duration::from_millis(10);

/// Writes that run during a kill.
pub(crate) struct Writes<'a> {
    pub(crate) system: &'static dyn System,
    pub(crate) nodes: &'a [Access],
    pub(crate) workload: &'a Workload,
    pub(crate) load: &'a Load,
    pub(crate) clients: u32,
    pub(crate) threads: u32,
    pub(crate) seed: u64,
    pub(crate) generators: &'a Generators<'a>,
}

impl Writes<'_> {
    /// Runs a closed load of writes without warm-up, until it ends or `enough` is set. Returns the number of
    /// acknowledged writes. Calls `begun` with the start time.
    pub(super) fn make(
        &self,
        of: &RepeatedWrites<'_>,
        enough: &AtomicBool,
        begun: &mut dyn FnMut(Instant),
    ) -> Result<u64, GeneratorError> {
        let load = Load {
            warmup: Duration::ZERO,
            timeout: self.load.timeout.min(TIMEOUT),
            keep_alive: true,
            in_flight: of.in_flight,
            ..self.load.clone()
        };
        let ask = StageRequest {
            to: StageTarget {
                system: self.system,
                nodes: self.nodes,
                resumed: self.load.tls_resumption,
                threads: self.threads,
            },
            reads_to: None,
            requests: None,
            workload: of.workload,
            load: &load,
            stage: of.stage,
            arrivals: Arrivals::Closed,
            first_ticket: 0,
            seed: of.seed,
            reading: NEWEST,
            moments: None,
        };
        let driven = self.generators.stage(
            &ask,
            StageCallbacks {
                stop: &|| enough.load(Ordering::Relaxed),
                progress: &mut |_| {},
                begun,
            },
        )?;
        Ok(driven.measurement.verified())
    }
}

/// Writes that are repeated after the load.
pub(super) struct RepeatedWrites<'a> {
    pub(super) workload: &'a Workload,
    pub(super) stage: Stage,
    pub(super) in_flight: u32,
    pub(super) seed: u64,
}

/// Returns the repeatable writes of a workload; `None` without puts. Keys that are written once are chosen evenly.
fn again(workload: &Workload) -> Option<Workload> {
    let mut writes = workload.clone();
    writes.mix.retain(|&operation, _| is_put(operation) || operation == Operation::Delete);
    if !writes.mix.keys().any(|&operation| is_put(operation)) {
        return None;
    }
    if writes.keys.order == KeyOrder::Unique {
        writes.keys.order = KeyOrder::Uniform;
    }
    Some(writes)
}

/// Returns true if it writes values, and can be repeated.
fn is_put(operation: Operation) -> bool {
    matches!(operation, Operation::Put | Operation::Move)
}

/// Returns the repeatable puts of a workload; `None` without puts.
pub(crate) fn puts_again(workload: &Workload) -> Option<Workload> {
    let mut puts = again(workload)?;
    puts.mix.retain(|&operation, _| is_put(operation));
    Some(puts)
}

/// Calls `strike`, which ends nodes, during a load of writes. Returns the load, or the reason why there was none.
pub(crate) fn under_load(
    of: &Writes<'_>,
    interrupted: &AtomicBool,
    strike: impl FnOnce(),
) -> Result<KilledUnderLoad, NotUnderLoad> {
    let Some(workload) = &again(of.workload) else {
        strike();
        return Err(NotUnderLoad::NoWrites);
    };
    let seed = mix64(of.seed ^ 0x6b69_6c6c);
    let after = BEFORE + Duration::from_millis(seed % SPREAD_MS);
    let stage = Stage { clients: of.clients, stop: Stop::After(LONGEST) };
    let writes = RepeatedWrites { workload, stage, in_flight: of.load.in_flight, seed };
    let (enough, begun) = (&AtomicBool::new(false), &OnceLock::new());
    let (driven, under_way, after_ms) = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            of.make(&writes, enough, &mut |at| {
                begun.set(at).ok();
            })
        });
        let goes_on = || !writing.is_finished() && !interrupted.load(Ordering::Relaxed);
        let wrote_long = || begun.get().is_some_and(|at| clock::now() > *at + after);
        while goes_on() && !wrote_long() {
            std::thread::sleep(CHECK_EVERY);
        }
        strike();
        let killed = clock::now();
        let after_ms = begun.get().map_or(0, |at| (killed - *at).as_millis() as u64);
        let under_way = !writing.is_finished();
        std::thread::sleep(ARRIVING);
        enough.store(true, Ordering::Relaxed);
        (writing.join(), under_way, after_ms)
    });
    match driven {
        Ok(Ok(acknowledged)) if under_way && acknowledged > 0 => {
            Ok(KilledUnderLoad { clients: of.clients, after_ms, acknowledged })
        }
        Ok(Ok(_)) => Err(NotUnderLoad::NothingAcknowledged),
        Ok(Err(error)) => Err(NotUnderLoad::NotDriven(error)),
        Err(_) => Err(NotUnderLoad::BrokeOff),
    }
}

/// Reason why no writes ran during a kill.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotUnderLoad {
    #[error("its workload has no writes that can be repeated")]
    NoWrites,
    #[error("no write was acknowledged while it was under load")]
    NothingAcknowledged,
    #[error(transparent)]
    NotDriven(GeneratorError),
    #[error("the load ended unexpectedly")]
    BrokeOff,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(mix: &str, order: &str) -> Workload {
        let text = format!(
            "title: t\nsystems:\n  a: {{kind: canary}}\nworkloads:\n  w: {{mix: {mix}, keys: \
             {{count: 100, order: {order}}}}}\nloads:\n  l: {{clients: 1, stop: {{after: 1s}}}}\n\
             trials: 1\n"
        );
        let kinds = bakeoff_systems::kinds();
        bakeoff_core::study::parse("t", "t.yaml", &text, &kinds).unwrap().workloads.remove(0)
    }

    #[test]
    fn kill_load_has_only_writes_and_repeats_keys() {
        let writes = again(&workload("{put: 1, get: 9}", "unique")).unwrap();
        assert_eq!(writes.mix.keys().collect::<Vec<_>>(), [&Operation::Put]);
        assert_eq!(writes.keys.order, KeyOrder::Uniform);
        let writes = again(&workload("{put: 3, delete: 1}", "sequential")).unwrap();
        assert_eq!(writes.keys.order, KeyOrder::Sequential);
        assert_eq!(again(&workload("{get: 1}", "uniform")), None);
    }
}
