//! The generator in this process: of a run without places, or of an agent.
//!
//! Holds the keys of its share, and their ledger, for a whole trial.
//!
//! Not here: the loop (`bakeoff_engine`), an agent's orders (`serve`), CPU affinity (`machines::affinity`).

use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bakeoff_core::ledger::audit_keys;
use bakeoff_core::linearizability::history::History;
use bakeoff_core::linearizability::judged_history::{HistoryVerdict, JudgedHistory};
use bakeoff_core::measurement::Measurement;
use bakeoff_core::plan;
use bakeoff_core::read_write_split;
use bakeoff_core::record::GeneratorPart;
use bakeoff_core::schedule::{self, LoadShare};
use bakeoff_core::study::{Arrivals, Load, Stop, Workload};
use bakeoff_core::workload::mix64;
use bakeoff_engine::start_barrier::{StartBarrier, StartGate};
use bakeoff_engine::watch::{StudyWatchers, WatchControl, WatchDisturbance};
use bakeoff_engine::works::keyed::{Findings, KeyedState, Reading, Source};
use bakeoff_engine::{Connections, Drive, EngineError, LoadProgress, Seconds};
use bakeoff_systems::KvLoad;
use bakeoff_systems::declaration::fitting_clients;

use super::error::GeneratorError;
use super::generator::{
    Control, Fill, Generator, GeneratorResult, ReadBackRequest, StageRequest, StageResult, Start,
};
use super::http;
use super::split_load::{self, SplitLoad};
use crate::machines::order::{LedgerSize, NEWEST, ReadBack};

/// Time ahead at which this process sets the start of its load.
const LEAD: Duration = Duration::from_millis(5);
/// Most clients that read back.
const READERS_MAX: u32 = 32;
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Most times that a key is read until a read succeeds.
const ATTEMPTS_MAX: u32 = 10;
/// Attempts for few keys, although none of them could be read.
const VAIN_ATTEMPTS: u32 = 3;
/// Pause before a further attempt.
const READ_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Most reasons for unread keys to keep.
const ERRORS_MAX: usize = 3;

/// Drives its share of loads in this process.
#[derive(Clone)]
pub(crate) struct LocalGenerator {
    keyed: Arc<KeyedState>,
    workload: Arc<Workload>,
    /// The judged history, until it is exported.
    judged: Arc<Mutex<Option<History>>>,
    /// Control of the watchers, while a load has some.
    watching: Arc<Mutex<Option<WatchControl>>>,
}

impl LocalGenerator {
    /// Creates a generator that owns these keys, its share of the workload's keys.
    pub(crate) fn new(keyed: Arc<KeyedState>, workload: Workload) -> Self {
        let (judged, watching) = (Arc::default(), Arc::default());
        Self { keyed, workload: Arc::new(workload), judged, watching }
    }

    pub(super) fn keyed(&self) -> &Arc<KeyedState> {
        &self.keyed
    }

    pub(super) fn workload(&self) -> &Workload {
        &self.workload
    }

    fn share(&self) -> LoadShare {
        self.keyed.share()
    }

    /// Writes every key of its share once.
    pub(super) fn write_keys(
        &self,
        fill: &Fill<'_>,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&LoadProgress),
    ) -> Result<Measurement, EngineError> {
        let share = self.share();
        let count = share.count(self.workload.keys.count);
        let clients = (fill.clients / share.of).max(1);
        let driven = fill.to.system.drive(KvLoad {
            nodes: fill.to.nodes,
            keyed: &self.keyed,
            source: &mut |_| Source::Fill,
            reading: Reading { reads: self.workload.reads, ..NEWEST },
            drive: &Drive::once(count, clients, fill.to.threads, fill.timeout),
            barrier: None,
            interrupted: stop,
            progress,
        });
        driven.map(|(measurement, _)| measurement)
    }

    /// Drives its share of a stage, from the time that `gate` returns. Returns the measurement and the number of the
    /// first operation that was not begun.
    pub(super) fn drive(
        &self,
        of: &StageRequest<'_>,
        gate: StartGate,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&LoadProgress),
    ) -> Result<(Measurement, u64), GeneratorError> {
        let (system, threads) = (of.to.system, of.to.threads);
        let (seed, share) = (of.seed, self.share());
        let drawn = mix64(seed ^ mix64(of.first_ticket));
        let own_operations = match (of.stage.stop, of.arrivals) {
            (Stop::Operations(count), Arrivals::Closed) if share.of > 1 => {
                let mut source = Source::mix(of.workload, seed, drawn);
                Some(source.count_owned(of.first_ticket, count, share))
            }
            _ => None,
        };
        let drive = Drive {
            arrivals: schedule::paced(of.arrivals),
            threads,
            seed: mix64(seed ^ of.first_ticket),
            first_ticket: of.first_ticket,
            moments: of.moments.clone(),
            share,
            own_operations,
            ..drive_of(of.load, &of.stage)
        };
        if let Some(requests) = of.requests {
            let measurement = http::drive(requests, drive, gate, stop, progress)?;
            return Ok((measurement, of.first_ticket));
        }
        let Some(watchers) = of.workload.watchers.as_deref() else {
            return self.drive_keyed(of, &drive, gate, stop, progress);
        };
        let versions = self.keyed.begin_versions();
        let nodes = of.reads_to.unwrap_or(of.to.nodes);
        let watched = system.watch(nodes, watchers, &self.keyed, &versions, stop);
        let driven = watched.map_err(GeneratorError::from).and_then(|party| {
            *self.watching() = party.as_ref().map(StudyWatchers::control);
            let warmup = drive.warmup;
            let measured = Box::new(move || {
                let start = gate()?;
                versions.measure_from(start + warmup);
                Some(start)
            });
            let driven = self.drive_keyed(of, &drive, measured, stop, progress);
            let figures = party.map(|party| party.figures(stop));
            let (measurement, next_ticket) = driven?;
            Ok((Measurement { watch: figures.map(Box::new), ..measurement }, next_ticket))
        });
        *self.watching() = None;
        self.keyed.end_versions();
        driven
    }

    /// Disturbs the watchers of the running load, and returns the evidence.
    pub(super) fn disturb(&self, how: WatchDisturbance) -> Result<String, GeneratorError> {
        let control = self.watching().clone();
        control.and_then(|control| control.disturb(how)).ok_or(GeneratorError::NoWatchers)
    }

    fn watching(&self) -> MutexGuard<'_, Option<WatchControl>> {
        self.watching.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drives its share of a stage of a keyed workload.
    fn drive_keyed(
        &self,
        of: &StageRequest<'_>,
        drive: &Drive,
        gate: StartGate,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&LoadProgress),
    ) -> Result<(Measurement, u64), GeneratorError> {
        let (system, seed) = (of.to.system, of.seed);
        let drawn = mix64(seed ^ mix64(of.first_ticket));
        let (keyed, reading) = (&self.keyed, of.reading);
        let Some(reads) = of.reads_to else {
            return Ok(system.drive(KvLoad {
                nodes: of.to.nodes,
                keyed,
                source: &mut |_| Source::mix(of.workload, seed, drawn),
                reading,
                drive,
                barrier: Some(&StartBarrier::gated(1, gate)),
                interrupted: stop,
                progress,
            })?);
        };
        let halves = read_write_split::halves(of.workload, &of.stage, of.arrivals, of.to.threads);
        let halves = halves.expect("only a workload with writes and reads is split");
        let split = SplitLoad { system, keyed, reading, drive, seed, interrupted: stop };
        Ok(split_load::drive(&split, &halves, [of.to.nodes, reads], gate, progress)?)
    }

    /// Returns the number of its keys with acknowledged writes.
    pub(super) fn count_acknowledged(&self) -> LedgerSize {
        let ledger = &self.keyed.ledger;
        LedgerSize { keys: ledger.acknowledged().len() as u64, stride: ledger.stride() }
    }

    /// Returns the name of a key in a history.
    fn key_name(&self, key: u32) -> String {
        self.keyed.space.short_name(key.into())
    }

    fn judged(&self) -> MutexGuard<'_, Option<History>> {
        self.judged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Judges the history of its keys, and ends recording. Holds the history for [`Self::write_history`].
    pub(super) fn judge_keys(&self) -> JudgedHistory {
        let Some(recorded) = self.keyed.history() else {
            let why = "the generator recorded no history".to_owned();
            let verdict = HistoryVerdict::NotChecked(why);
            return JudgedHistory { verdict, ..JudgedHistory::default() };
        };
        let mut history = recorded.take();
        let verdict = history.judge(&|key| self.key_name(key));
        *self.judged() = Some(history);
        verdict
    }

    /// Writes the judged history, one operation a line, and frees its memory. `None` only frees it.
    pub(super) fn write_history(&self, to: Option<&mut dyn Write>) -> Result<(), GeneratorError> {
        let (Some(history), Some(to)) = (self.judged().take(), to) else { return Ok(()) };
        for line in history.lines(&|key| self.key_name(key)) {
            let mut line = serde_json::to_vec(&line).unwrap_or_default();
            line.push(b'\n');
            to.write_all(&line).map_err(GeneratorError::History)?;
        }
        Ok(())
    }

    /// Reads back each of its acknowledged keys, or the `keys_max` chosen by [`audit_keys::choose`]. A key whose read
    /// fails is read again, as long as others can be read.
    pub(super) fn read_keys(
        &self,
        ask: &ReadBackRequest<'_>,
        stop: &AtomicBool,
    ) -> Result<ReadBack, EngineError> {
        let ledger = &self.keyed.ledger;
        let keys = audit_keys::choose(ledger.acknowledged(), ask.keys_max, ask.seed);
        let read = ReadBack {
            asked: keys.len() as u64,
            claimed: ledger.claiming_fully(&keys),
            ..ReadBack::default()
        };
        if keys.is_empty() {
            return Ok(read);
        }
        let findings = Arc::new(Mutex::new(Findings::default()));
        let found = || findings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unread = keys;
        let mut attempts = 1;
        let measurement = loop {
            let measurement = self.read_once(&unread, &findings, ask, stop)?;
            let before = unread.len();
            unread.retain(|&key| !found().has_read(key));
            if attempts > 1 {
                found().repeated += (before - unread.len()) as u64;
            }
            let in_vain = unread.len() == before
                && (attempts >= VAIN_ATTEMPTS || unread.len() > READERS_MAX as usize);
            let is_over = unread.is_empty() || in_vain || measurement.interrupted;
            if is_over || attempts == ATTEMPTS_MAX {
                break measurement;
            }
            attempts += 1;
            std::thread::sleep(READ_AGAIN_AFTER);
        };
        let errors = measurement.error_examples().map(|(_, example)| example.what.clone());
        let errors = errors.take(ERRORS_MAX).collect();
        let findings = std::mem::take(&mut *found());
        Ok(ReadBack { findings, interrupted: measurement.interrupted, errors, ..read })
    }

    /// Reads each of these keys once.
    fn read_once(
        &self,
        keys: &[u64],
        findings: &Arc<Mutex<Findings>>,
        ask: &ReadBackRequest<'_>,
        stop: &AtomicBool,
    ) -> Result<Measurement, EngineError> {
        let readers = fitting_clients(ask.to.system, ask.to.nodes, READERS_MAX);
        let keys: Arc<[u64]> = keys.into();
        let (measurement, _) = ask.to.system.drive(KvLoad {
            nodes: ask.to.nodes,
            keyed: &self.keyed,
            source: &mut |_| Source::Audit(keys.clone(), findings.clone()),
            reading: NEWEST,
            drive: &Drive::once(keys.len() as u64, readers, 1, READ_TIMEOUT),
            barrier: None,
            interrupted: stop,
            progress: &mut |_| {},
        })?;
        Ok(measurement)
    }
}

impl Generator for LocalGenerator {
    fn fill(&self, fill: &Fill<'_>, control: Control<'_>) -> GeneratorResult<Measurement> {
        let measurement = self.write_keys(fill, control.stop, control.live)?;
        Ok(Box::new(|| Ok(measurement)))
    }

    fn stage(
        &self,
        of: &StageRequest<'_>,
        start: &Arc<Start>,
        control: Control<'_>,
    ) -> GeneratorResult<StageResult> {
        let all = Arc::clone(start);
        let gate = Box::new(move || all.ready(LEAD));
        let (measurement, next_ticket) = self.drive(of, gate, control.stop, control.live)?;
        let part = GeneratorPart {
            clients: self.share().count(of.stage.clients.into()) as u32,
            verified: measurement.verified(),
            errors: measurement.error_count(),
            cpu: measurement.generator_cpu,
            busiest: measurement.generator_busiest,
            ..GeneratorPart::default()
        };
        Ok(Box::new(move || Ok(StageResult { measurement, next_ticket, part })))
    }

    fn acknowledged(&self) -> Result<LedgerSize, GeneratorError> {
        Ok(self.count_acknowledged())
    }

    fn read_back(
        &self,
        ask: &ReadBackRequest<'_>,
        stop: &AtomicBool,
    ) -> Result<ReadBack, GeneratorError> {
        Ok(self.read_keys(ask, stop)?)
    }

    fn disturb_watchers(&self, how: WatchDisturbance) -> Result<String, GeneratorError> {
        self.disturb(how)
    }

    fn judge_history(&self) -> Result<JudgedHistory, GeneratorError> {
        Ok(self.judge_keys())
    }

    fn export_history(&self, to: Option<&mut dyn Write>) -> Result<(), GeneratorError> {
        self.write_history(to)
    }
}

/// Returns the settings for a stage, without arrivals, threads and share.
fn drive_of(load: &Load, stage: &plan::Stage) -> Drive {
    Drive {
        clients: stage.clients,
        in_flight: load.in_flight,
        connections: match load.keep_alive {
            true => Connections::Kept,
            false => Connections::OneEach,
        },
        arrivals: None,
        spin: Duration::ZERO,
        warmup: load.warmup,
        stop: stage.stop,
        timeout: load.timeout,
        seconds: Seconds::Kept,
        threads: 1,
        seed: 0,
        first_ticket: 0,
        moments: None,
        share: LoadShare::WHOLE,
        own_operations: None,
    }
}
