//! The load of a trial: keys before it, then its stages or the tries of a search, on one cluster.
//!
//! Not here: where clients connect to (`routes`), writes and reads on nodes of their own (`split_load`), the
//! loop itself (`bakeoff_engine`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::check::Verdict;
use bakeoff_core::check::machine::generators_together;
use bakeoff_core::measurement::Measurement;
use bakeoff_core::plan;
use bakeoff_core::read_write_split;
use bakeoff_core::record::StageRecord;
use bakeoff_core::schedule;
use bakeoff_core::schedule::LoadShare;
use bakeoff_core::search::{CONFIRM_TIMES, Found, Next, Search, Tried, least_rate};
use bakeoff_core::study::{Arrivals, Find, Load, Operation, Stop, Workload};
use bakeoff_core::units::count_text;
use bakeoff_core::workload::mix64;
use bakeoff_engine::works::keyed::{Keyed, Reading, Source};
use bakeoff_engine::{Connections, Drive, Live, Seconds, Window};
use bakeoff_host::disturbance::Stretch;

use super::routes::Routes;
use super::split_load::{self, SplitLoad};
use super::{Combination, Ended, TrialContext, TrialRunner, neighbours};
use crate::cluster::Ready;
use crate::cluster::contenders::Contender;
use crate::event::{Event, Reporter};
use crate::generators::drive::{Generators, StageDriven};
use crate::generators::order::StageOrder;
use crate::systems::declaration::Lists;
use crate::systems::{Access, KvLoad};

/// A ZooKeeper takes 60 connections of one address unless it is told otherwise, those that just ended among them.
const FILL_CLIENTS_MAX: u32 = 32;
const FILL_TIMEOUT: Duration = Duration::from_secs(30);
/// With fewer operations due in a try, nothing would be known of a percentile.
const DUE_MIN: f64 = 10.0;

/// The routes of all stages of a load, and their keys.
#[derive(Clone, Copy)]
pub(super) struct Driven<'a> {
    pub(super) nodes: &'a Routes,
    pub(super) keyed: &'a Arc<Keyed>,
    /// The generators on other machines, where the run has places.
    pub(super) generators: Option<Generators<'a>>,
}

/// Returns whether no other stage can follow.
fn is_over(stage: &StageRecord) -> bool {
    stage.measurement.interrupted || stage.measurement.keys_exhausted
}

impl Combination<'_> {
    /// Returns how reads are judged under this workload.
    fn reading(&self) -> Reading {
        let Self { contender, workload, .. } = *self;
        Reading {
            reads: workload.reads,
            may_be_stale: contender.system.may_be_stale(&contender.found, workload.reads),
            lists_are_complete: lists_are_complete(contender.system.declares().lists, workload),
        }
    }
}

/// Returns whether each list of a workload must have every key of its directory.
fn lists_are_complete(lists: Lists, workload: &Workload) -> bool {
    let is_short = lists == Lists::ShortBesideWriters && workload.writes();
    workload.fill && !is_short && !workload.mix.contains_key(&Operation::Delete)
}

/// Returns how a stage of a load is driven, but for its arrivals and its threads.
pub(crate) fn drive_of(load: &Load, stage: &plan::Stage) -> Drive {
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

impl TrialRunner<'_, '_> {
    /// Drives the load, stage by stage, on the same cluster.
    pub(super) fn stages(&mut self, driven: &Driven<'_>) -> Result<Vec<StageRecord>, Ended> {
        let Combination { trial, load, .. } = self.of;
        let mut first_ticket = 0;
        let mut stages = Vec::new();
        for stage in plan::stages(load, &trial.system) {
            let (stage, next) = self.stage(driven, &stage, load.arrivals, first_ticket)?;
            first_ticket = next;
            let over = is_over(&stage);
            stages.push(stage);
            if over {
                break;
            }
        }
        Ok(stages)
    }

    /// Looks for the highest rate that keeps an objective, one after the other on the same cluster. Each
    /// try is in the record as it ends; yields what they came to, unless they were broken off.
    pub(super) fn search(
        &mut self,
        driven: &Driven<'_>,
        find: &Find,
    ) -> Result<Option<Found>, Ended> {
        let Combination { trial, load, .. } = self.of;
        let objective = find.conditions().map_err(Ended::failed)?;
        let (Some(first), Stop::After(time)) = (load.arrivals.rate(), load.stop) else {
            return Err(Ended::failed("a search begins at a rate and tries each for a time"));
        };
        let clients = load.clients_on(&trial.system).first().copied().unwrap_or(1);
        let by_chance = matches!(load.arrivals, Arrivals::Poisson { .. });
        let least = least_rate(&objective, time, by_chance).max(DUE_MIN / time.as_secs_f64());
        let mut search = Search::new(first).not_below(least);
        let mut first_ticket = 0;
        loop {
            let (rate, confirming) = match search.next() {
                Next::Done(found) => return Ok(Some(found)),
                Next::Try(rate) => (rate, false),
                Next::Confirm(rate) => (rate, true),
            };
            let time = if confirming { time * CONFIRM_TIMES } else { time };
            let stage = plan::Stage { clients, stop: Stop::After(time) };
            let arrivals = load.arrivals.at(rate);
            let stretch = Stretch::begin();
            let (mut stage, next) = self.stage(driven, &stage, arrivals, first_ticket)?;
            first_ticket = next;
            let disturbed_by = self.disturbances_of(&stage, &stretch)?;
            let tried = Tried::judged(rate, confirming, &stage.measurement, &objective)
                .disturbed_by(disturbed_by);
            let over = is_over(&stage);
            if !over {
                search.take(&tried);
                self.reporter.report(&Event::RateTried { tried: &tried });
            }
            stage.tried = Some(tried);
            self.record.stages.push(stage);
            if over {
                return Ok(None);
            }
        }
    }

    /// Tells what disturbed a stage that has just ended, on this machine or, where the run has places, on any of its
    /// machines. Nothing where that cannot be told.
    fn disturbances_of(
        &self,
        stage: &StageRecord,
        stretch: &Stretch,
    ) -> Result<Vec<String>, Ended> {
        let window = stage.window(self.of.load.warmup);
        let is_measured = window.1 > window.0;
        let TrialContext { study, shared_machine, .. } = *self.context;
        if let Some(watch) = &self.sampling.watch {
            if !is_measured {
                return Ok(Vec::new());
            }
            let seen = watch.so_far()?;
            let mut disturbed_by =
                neighbours::disturbed_elsewhere(study, shared_machine, &seen, window);
            let parts = self.parts.last().map(Vec::as_slice).unwrap_or_default();
            let together = generators_together(parts.iter(), stage.measurement.window);
            disturbed_by.extend(together.and_then(Verdict::into_failure));
            return Ok(disturbed_by);
        }
        let mut disturbed_by = stretch.disturbed_by();
        if is_measured {
            let observed = self.sampling.sampler.so_far();
            let asked = self.of.contender.asked;
            let verdict = neighbours::check(study, shared_machine, asked, &observed, &[window]);
            disturbed_by.extend(verdict.into_failure());
        }
        Ok(disturbed_by)
    }

    /// Drives one stage of a load; yields the number of the next operation too.
    fn stage(
        &mut self,
        driven: &Driven<'_>,
        stage: &plan::Stage,
        arrivals: Arrivals,
        first_ticket: u64,
    ) -> Result<(StageRecord, u64), Ended> {
        let Combination { contender, trial, workload, .. } = self.of;
        let Driven { nodes, keyed, generators } = *driven;
        let system = contender.system;
        let seed = trial.seed;
        let reading = self.of.reading();
        if let Some(generators) = generators {
            return self.shared_stage(&generators, nodes, stage, arrivals, first_ticket);
        }
        let moments = self.sampling.moments();
        let drive = Drive {
            arrivals: schedule::paced(arrivals),
            threads: self.context.threads,
            seed: mix64(seed ^ first_ticket),
            first_ticket,
            moments: Some(moments.clone()),
            ..drive_of(self.of.load, stage)
        };
        let clients = stage.clients;
        let began = self.sampling.seconds();
        self.reporter.report(&Event::LoadStarted { clients });
        let reporter = &mut *self.reporter;
        let progress = &mut |live: &Live| reporter.report(&Event::Observed { clients, live });
        let interrupted = self.context.interrupted;
        let (mut measurement, next_ticket) = match nodes {
            Routes::Split { writes, reads } => {
                let threads = self.context.threads;
                let halves = read_write_split::halves(workload, stage, arrivals, threads);
                let halves = halves.expect("only what writes and reads is driven apart");
                let split = SplitLoad { system, keyed, reading, drive: &drive, seed, interrupted };
                split_load::drive(&split, &halves, [writes, reads], None, progress)?
            }
            Routes::Same(nodes) => system.drive(KvLoad {
                nodes,
                keyed,
                source: &mut |_| Source::mix(workload, seed, mix64(seed ^ mix64(first_ticket))),
                reading,
                drive: &drive,
                together: None,
                interrupted,
                progress,
            })?,
        };
        nodes.name(&mut measurement.staleness);
        let measured_from = self.sampling.measured_from(&moments);
        Ok((StageRecord { clients, began, measured_from, measurement, tried: None }, next_ticket))
    }
}

impl TrialRunner<'_, '_> {
    /// Has generators on other machines drive one stage, each its share.
    fn shared_stage(
        &mut self,
        generators: &Generators<'_>,
        nodes: &Routes,
        stage: &plan::Stage,
        arrivals: Arrivals,
        first_ticket: u64,
    ) -> Result<(StageRecord, u64), Ended> {
        let Combination { contender, trial, workload, load } = self.of;
        let resumed = load.tls_resumption;
        let to = |nodes: &[Access]| generators.to(contender.system, nodes, resumed);
        let (to, reads_to) = match nodes {
            Routes::Same(nodes) => (to(nodes)?, None),
            Routes::Split { writes, reads } => (to(writes)?, Some(to(reads)?)),
        };
        let clients = stage.clients;
        let order = StageOrder {
            workload: workload.clone(),
            load: load.clone(),
            clients,
            stop: stage.stop,
            arrivals,
            first_ticket,
            seed: trial.seed,
            reading: self.of.reading(),
            to,
            reads_to,
        };
        let began = self.sampling.seconds();
        let moments = self.sampling.moments();
        self.reporter.report(&Event::LoadStarted { clients });
        let reporter = &mut *self.reporter;
        let progress = &mut |live: &Live| reporter.report(&Event::Observed { clients, live });
        let sampling = &self.sampling;
        let begun = &mut |start: Instant| {
            let window = Window::new(start, load.warmup, stage.stop);
            moments.begins(&window);
            if let Some(watch) = &sampling.watch {
                watch.moments(&window);
            }
        };
        let driven = generators.stage(&order, self.context.interrupted, progress, begun)?;
        let StageDriven { mut measurement, next_ticket, start, parts } = driven;
        nodes.name(&mut measurement.staleness);
        let measured_from = Some(self.sampling.seconds_at(start + load.warmup));
        self.parts.push(parts);
        Ok((StageRecord { clients, began, measured_from, measurement, tried: None }, next_ticket))
    }
}

/// How often it is looked whether servers that are filled still run.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The same of servers on other machines, which takes a round trip each.
const LOOK_ELSEWHERE_EVERY: Duration = Duration::from_millis(100);

/// How often a fill tells how far it has come.
const FILL_TOLD_EVERY: Duration = Duration::from_secs(10);

/// Writes every key once, and reports how many are written now and then. Any failure ends the trial: reads would be
/// judged wrongly.
pub(super) fn fill(
    context: &TrialContext<'_>,
    reporter: &mut dyn Reporter,
    contender: &Contender<'_>,
    cluster: &Ready,
    keyed: &Arc<Keyed>,
    workload: &Workload,
) -> Result<u64, Ended> {
    let count = workload.keys.count;
    if let Some(generators) = context.generators() {
        return shared_fill(context, contender, cluster, &generators, count);
    }
    let written = AtomicU64::new(0);
    let drive = Drive::once(count, FILL_CLIENTS_MAX, context.threads, FILL_TIMEOUT);
    let reading = Reading { reads: workload.reads, may_be_stale: false, lists_are_complete: false };
    let stop = AtomicBool::new(false);
    let (measurement, _) = std::thread::scope(|scope| {
        let filling = scope.spawn(|| {
            contender.system.drive(KvLoad {
                nodes: &cluster.nodes,
                keyed,
                source: &mut |_| Source::Fill,
                reading,
                drive: &drive,
                together: None,
                interrupted: &stop,
                progress: &mut |live| _ = written.fetch_add(live.verified, Ordering::Relaxed),
            })
        });
        let mut told = clock::now();
        // Without a server each of the keys that are left would wait for its timeout.
        while !filling.is_finished() {
            if context.interrupted.load(Ordering::Relaxed) || !cluster.died().is_empty() {
                stop.store(true, Ordering::Relaxed);
            }
            if told.elapsed() >= FILL_TOLD_EVERY {
                told = clock::now();
                let written = written.load(Ordering::Relaxed);
                reporter.report(&Event::Filling { written, keys: count });
            }
            std::thread::sleep(LOOK_EVERY);
        }
        filling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    filled(context, contender, cluster, &measurement, count)
}

/// Has generators on other machines write every key once, each its own.
fn shared_fill(
    context: &TrialContext<'_>,
    contender: &Contender<'_>,
    cluster: &Ready,
    generators: &Generators<'_>,
    count: u64,
) -> Result<u64, Ended> {
    let to = generators.to(contender.system, &cluster.nodes, true)?;
    let stop = AtomicBool::new(false);
    let (clients, timeout) = (FILL_CLIENTS_MAX, FILL_TIMEOUT);
    let measurement = std::thread::scope(|scope| {
        let filling = scope.spawn(|| generators.fill(&to, clients, timeout, &stop));
        while !filling.is_finished() {
            if context.interrupted.load(Ordering::Relaxed) || !cluster.died().is_empty() {
                stop.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(LOOK_ELSEWHERE_EVERY);
        }
        filling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    filled(context, contender, cluster, &measurement, count)
}

/// Judges whether all keys were written.
fn filled(
    context: &TrialContext<'_>,
    contender: &Contender<'_>,
    cluster: &Ready,
    measurement: &Measurement,
    count: u64,
) -> Result<u64, Ended> {
    if context.interrupted.load(Ordering::Relaxed) {
        return Err(Ended::Interrupted);
    }
    let died = cluster.died();
    if !died.is_empty() {
        let written = count_text(measurement.verified());
        return Err(Ended::failed(format!(
            "{}, when {written} of {} keys had been written before the load",
            died.join(", "),
            count_text(count)
        )));
    }
    if measurement.verified() < count {
        let written = count_text(measurement.verified());
        let first = measurement.error_examples().next();
        let first = first.map(|(_, example)| format!("{}: {}", example.node, example.what));
        let first = first.unwrap_or_default();
        return Err(Ended::failed(format!(
            "only {written} of {} keys could be written before the load: {first}",
            count_text(count)
        )));
    }
    contender.system.settle(&cluster.nodes)?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use bakeoff_core::study::parse;

    use super::*;
    use crate::systems::{by_kind, kinds};

    #[test]
    fn lists_of_nats_may_be_short_beside_writers_alone() {
        let complete = |kind: &str, mix: &str| {
            let text = format!(
                "title: t\nsystems: {{kv: {{kind: {kind}}}}}\n\
                 workloads: {{w: {{mix: {{{mix}}}, keys: {{count: 10, per-directory: 5}}, reads: default}}}}\n\
                 loads: {{l: {{clients: 1, stop: {{after: 1s}}}}}}\n"
            );
            let study = parse("t", "t.yaml", &text, &kinds());
            let study = study.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
            let lists = by_kind(kind).unwrap().declares().lists;
            lists_are_complete(lists, &study.workloads[0])
        };
        assert!(complete("nats", "list: 1, get: 1"));
        assert!(!complete("nats", "list: 1, put: 1"));
        assert!(complete("etcd", "list: 1, put: 1"));
        assert!(!complete("etcd", "list: 1, delete: 1"));
    }
}
