//! Drives the load of a trial: fills keys, then runs its stages or the tries of a search on one cluster.
//!
//! Not here: the nodes that clients connect to (`routes`), generators (`bakeoff_fleet::generators`), the loop
//! (`bakeoff_engine`).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::check::Verdict;
use bakeoff_core::check::causes::with_hint;
use bakeoff_core::check::machine::generators_together;
use bakeoff_core::histogram::Latencies;
use bakeoff_core::measurement::{DueTimes, Measurement, StepSeries};
use bakeoff_core::plan;
use bakeoff_core::record::{GeneratorPart, StageRecord};
use bakeoff_core::search::{CONFIRM_TIMES, FoundRate, Next, Search, TriedRate, least_rate};
use bakeoff_core::study::{Arrivals, Find, Operation, Stop, Workload};
use bakeoff_core::units::count_text;
use bakeoff_engine::works::keyed::Reading;
use bakeoff_engine::{LoadProgress, Window};
use bakeoff_systems::declaration::Lists;

use super::routes::Routes;
use super::{Combination, TrialContext, TrialEnd, TrialRunner, neighbours};
use crate::cluster::ReadyCluster;
use crate::cluster::contenders::PreparedSystem;
use crate::event::{Event, Reporter};
use bakeoff_fleet::generators::all_generators::{Generators, StageCallbacks, StageTotal};
use bakeoff_fleet::generators::generator::{Fill, StageRequest, StageTarget};
use bakeoff_fleet::machines::requests::Requests;
use bakeoff_systems::declaration::fitting_clients;

/// Maximum clients that fill. A ZooKeeper accepts 60 connections from one address by default, including recently closed
/// ones.
const FILL_CLIENTS_MAX: u32 = 32;
const FILL_TIMEOUT: Duration = Duration::from_secs(30);
/// Minimum operations due in a try. With fewer, no percentile is known.
const DUE_MIN: f64 = 10.0;

/// Targets and generators of all stages of a load.
#[derive(Clone, Copy)]
pub(super) struct LoadDriver<'a> {
    pub(super) to: Destination<'a>,
    pub(super) generators: &'a Generators<'a>,
}

/// Targets of a load's operations.
#[derive(Clone, Copy)]
pub(super) enum Destination<'a> {
    /// Nodes of a system.
    Nodes(&'a Routes),
    /// Servers that the requests name.
    Requests(&'a Requests),
}

/// Returns true if no other stage can follow.
pub(super) fn is_over(stage: &StageRecord) -> bool {
    stage.measurement.interrupted || stage.measurement.keys_exhausted
}

impl Combination<'_> {
    /// Returns the rules that judge reads under this workload.
    fn reading(&self) -> Reading {
        let Self { contender, workload, .. } = *self;
        Reading {
            reads: workload.reads,
            may_be_stale: contender.system.may_be_stale(&contender.found, workload.reads),
            lists_are_complete: lists_are_complete(contender.system.declares().lists, workload),
        }
    }
}

/// Returns true if each list must contain every key of its directory.
fn lists_are_complete(lists: Lists, workload: &Workload) -> bool {
    let is_short = lists == Lists::ShortNextToWriters && workload.writes();
    workload.fill && !is_short && !workload.mix.contains_key(&Operation::Delete)
}

impl<'a> TrialRunner<'a, '_> {
    /// Drives the load: its stages, or the tries of a search. Completed ones are in the record even after a failure.
    pub(super) fn drive(&mut self, driven: &LoadDriver<'_>) -> Result<(), TrialEnd> {
        match &self.of.load.find {
            None => self.record.stages = self.stages(driven)?,
            Some(find) => self.record.found = self.search(driven, find)?,
        }
        Ok(())
    }

    /// Drives the load stage by stage on one cluster.
    fn stages(&mut self, driven: &LoadDriver<'_>) -> Result<Vec<StageRecord>, TrialEnd> {
        let Combination { trial, load, .. } = self.of;
        let mut stages = Vec::new();
        for stage in plan::stages(load, &trial.system) {
            let alone = self.writes_alone(driven, &stage, load.arrivals)?;
            let mut stage = self.stage(driven, &stage, load.arrivals)?;
            if let Some(watch) = &mut stage.measurement.watch {
                watch.alone = alone;
            }
            let over = is_over(&stage);
            stages.push(stage);
            if over {
                break;
            }
        }
        Ok(stages)
    }

    /// Searches for the highest rate that keeps an objective, with all tries on one cluster. Adds each try to the
    /// record when it ends. Returns `None` if the search was interrupted.
    fn search(
        &mut self,
        driven: &LoadDriver<'_>,
        find: &Find,
    ) -> Result<Option<FoundRate>, TrialEnd> {
        let Combination { trial, load, .. } = self.of;
        let objective = find.conditions().map_err(TrialEnd::failed)?;
        let (Some(first), Stop::After(time)) = (load.arrivals.rate(), load.stop) else {
            return Err(TrialEnd::failed("a search needs a first rate, and a time for each try"));
        };
        let clients = load.clients_on(&trial.system).first().copied().unwrap_or(1);
        let by_chance = matches!(load.arrivals, Arrivals::Poisson { .. });
        let least = least_rate(&objective, time, by_chance).max(DUE_MIN / time.as_secs_f64());
        let mut search = Search::new(first).not_below(least);
        loop {
            let (rate, confirming) = match search.next() {
                Next::Done(found) => return Ok(Some(found)),
                Next::Try(rate) => (rate, false),
                Next::Confirm(rate) => (rate, true),
            };
            let time = if confirming { time * CONFIRM_TIMES } else { time };
            let stage = plan::Stage { clients, stop: Stop::After(time) };
            let arrivals = load.arrivals.at(rate);
            let mut stage = self.stage(driven, &stage, arrivals)?;
            let disturbed_by = self.disturbances_of(&stage)?;
            let tried = TriedRate::judged(rate, confirming, &stage.measurement, &objective)
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

    /// Returns the disturbances of a stage that just ended, on any machine. Empty if they cannot be known.
    fn disturbances_of(&self, stage: &StageRecord) -> Result<Vec<String>, TrialEnd> {
        let window = stage.window(self.of.load.warmup);
        if window.1 <= window.0 {
            return Ok(Vec::new());
        }
        let TrialContext { study, shared_machine, .. } = *self.context;
        let (seen, unattributed) = (self.sampling.so_far()?, self.sampling.unattributed());
        let mut disturbed_by =
            neighbours::disturbed(study, unattributed, (&seen, shared_machine), window);
        let parts = self.parts.last().map(Vec::as_slice).unwrap_or_default();
        let together = generators_together(parts.iter(), stage.measurement.window);
        disturbed_by.extend(together.and_then(Verdict::into_failure));
        Ok(disturbed_by)
    }

    /// Drives one undisturbed stage of a load.
    fn stage(
        &mut self,
        driven: &LoadDriver<'_>,
        stage: &plan::Stage,
        arrivals: Arrivals,
    ) -> Result<StageRecord, TrialEnd> {
        let (mut driven, parts) = self.drive_stage(driven, stage, arrivals, &mut |_| {})?;
        driven.measurement.steps = StepSeries::default();
        driven.measurement.part_silences = Vec::new();
        driven.measurement.dues = DueTimes::default();
        self.parts.push(parts);
        Ok(driven)
    }

    /// Drives a stage without its workload's watchers, and returns the response times of its writes. Empty if the workload
    /// has no watchers.
    fn writes_alone(
        &mut self,
        driven: &LoadDriver<'_>,
        stage: &plan::Stage,
        arrivals: Arrivals,
    ) -> Result<Latencies, TrialEnd> {
        let mut alone = Latencies::default();
        if self.of.workload.watchers.is_none() {
            return Ok(alone);
        }
        let unwatched = Workload { watchers: None, ..self.of.workload.clone() };
        self.reporter.report(&Event::LoadStarted { clients: stage.clients });
        let interrupted = self.context.interrupted;
        let total = driven.generators.stage(
            &self.request(driven, &unwatched, *stage, arrivals),
            StageCallbacks {
                stop: &|| interrupted.load(Ordering::Relaxed),
                progress: &mut |_| {},
                begun: &mut |_| {},
            },
        )?;
        self.next_ticket = total.next_ticket;
        for (operation, figures) in &total.measurement.operations {
            let operation = Operation::ALL.iter().find(|one| one.name() == operation);
            if operation.is_some_and(|operation| operation.writes()) {
                alone.merge(&figures.response);
            }
        }
        Ok(alone)
    }

    /// Returns the request for a stage of this trial's load with `workload`, without a receiver of its times.
    fn request<'r>(
        &self,
        driven: &LoadDriver<'r>,
        workload: &'r Workload,
        stage: plan::Stage,
        arrivals: Arrivals,
    ) -> StageRequest<'r>
    where
        'a: 'r,
    {
        let Combination { contender, trial, load, .. } = self.of;
        let (nodes, reads_to, requests) = match driven.to {
            Destination::Nodes(nodes) => {
                let (writes, reads) = nodes.writes_and_reads();
                (writes, reads, None)
            }
            Destination::Requests(requests) => (&[][..], None, Some(requests)),
        };
        StageRequest {
            to: StageTarget {
                system: contender.system,
                nodes,
                resumed: load.tls_resumption,
                threads: self.context.threads,
            },
            reads_to,
            requests,
            workload,
            load,
            stage,
            arrivals,
            first_ticket: self.next_ticket,
            seed: trial.seed,
            reading: self.of.reading(),
            moments: None,
        }
    }

    /// Drives one stage of a load, and calls `measures` with the time at which measuring begins. Also returns each
    /// generator's part.
    pub(super) fn drive_stage(
        &mut self,
        driven: &LoadDriver<'_>,
        stage: &plan::Stage,
        arrivals: Arrivals,
        measures: &mut dyn FnMut(Instant),
    ) -> Result<(StageRecord, Vec<GeneratorPart>), TrialEnd> {
        let (workload, load) = (self.of.workload, self.of.load);
        let LoadDriver { to, generators } = *driven;
        let clients = stage.clients;
        let began = self.sampling.seconds();
        let moments = self.sampling.moments();
        let ask = StageRequest {
            moments: Some(moments.clone()),
            ..self.request(driven, workload, *stage, arrivals)
        };
        self.reporter.report(&Event::LoadStarted { clients });
        let (reporter, sampling) = (&mut *self.reporter, &self.sampling);
        let interrupted = self.context.interrupted;
        let driven = generators.stage(
            &ask,
            StageCallbacks {
                stop: &|| interrupted.load(Ordering::Relaxed),
                progress: &mut |live: &LoadProgress| {
                    let nodes = &*sampling.last_samples();
                    reporter.report(&Event::Observed { clients, live, nodes });
                },
                begun: &mut |start: Instant| {
                    let window = Window::new(start, load.warmup, stage.stop);
                    sampling.measures(&moments, &window);
                    measures(window.measured().0);
                },
            },
        )?;
        let StageTotal { mut measurement, next_ticket, parts } = driven;
        if let Destination::Nodes(nodes) = to {
            nodes.name(&mut measurement.staleness);
        }
        let measured_from = self.sampling.measured_from(&moments);
        self.next_ticket = next_ticket;
        Ok((StageRecord { clients, began, measured_from, measurement, tried: None }, parts))
    }
}

/// Interval between two reports of a fill's progress.
const FILL_REPORTED_EVERY: Duration = Duration::from_secs(10);

/// Writes every key once, with progress reports. Any failure ends the trial, because reads would be misjudged.
pub(super) fn fill(
    context: &TrialContext<'_>,
    reporter: &mut dyn Reporter,
    contender: &PreparedSystem<'_>,
    cluster: &ReadyCluster,
    generators: &Generators<'_>,
    keys: u64,
) -> Result<u64, TrialEnd> {
    let to = StageTarget {
        system: contender.system,
        nodes: &cluster.nodes,
        resumed: true,
        threads: context.threads,
    };
    let (mut written, mut reported) = (0, clock::now());
    let clients = fitting_clients(contender.system, &cluster.nodes, FILL_CLIENTS_MAX);
    let fill = Fill { to, clients, timeout: FILL_TIMEOUT };
    let measurement = generators.fill(
        &fill,
        StageCallbacks {
            // Without a server, each remaining key would wait for its timeout.
            stop: &|| context.interrupted.load(Ordering::Relaxed) || !cluster.died().is_empty(),
            progress: &mut |live| {
                written += live.verified;
                if reported.elapsed() >= FILL_REPORTED_EVERY {
                    reported = clock::now();
                    reporter.report(&Event::Filling { written, keys });
                }
            },
            begun: &mut |_| {},
        },
    )?;
    filled(context, contender, cluster, &measurement, keys)
}

/// Returns an error unless all keys were written.
fn filled(
    context: &TrialContext<'_>,
    contender: &PreparedSystem<'_>,
    cluster: &ReadyCluster,
    measurement: &Measurement,
    count: u64,
) -> Result<u64, TrialEnd> {
    if context.interrupted.load(Ordering::Relaxed) {
        return Err(TrialEnd::Interrupted);
    }
    let died = cluster.died();
    if !died.is_empty() {
        let written = count_text(measurement.verified());
        return Err(TrialEnd::failed(format!(
            "{}, after {written} of {} keys had been written before the load",
            died.join(", "),
            count_text(count)
        )));
    }
    if measurement.verified() < count {
        let written = count_text(measurement.verified());
        let first = measurement.error_examples().next();
        let first =
            first.map(|(_, example)| format!("{}: {}", example.node, with_hint(&example.what)));
        let first = first.unwrap_or_default();
        return Err(TrialEnd::failed(format!(
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
    use bakeoff_systems::{by_kind, kinds};

    use super::*;

    #[test]
    fn lists_of_nats_may_be_incomplete_only_with_writers() {
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
