//! One trial, condensed for reports.
//!
//! Not here: several trials together (`comparison`), computing figures (`figures`).

use std::collections::BTreeMap;

use bakeoff_core::check::{Audit, Cause};
use bakeoff_core::linearizability::judged_history::JudgedHistory;
use bakeoff_core::log_findings::NodeLog;
use bakeoff_core::measurement::{DelayedAcks, ErrorKind, ErrorText, Errors, Example, Measurement};
use bakeoff_core::memory::MemoryOf;
use bakeoff_core::read_write_split::{self, Side};
use bakeoff_core::record::{Check, Injection, StageRecord, TrialOutcome, TrialRecord};
use bakeoff_core::search::{FoundRate, TriedRate};
use bakeoff_core::staleness::Staleness;
use bakeoff_core::stats::Figure;
use bakeoff_core::study::{Load, Study, Workload};

use crate::model::anomalies::{self, Bimodal, SimilarFailures, SlowNode, Stall};
use crate::model::churn::{self, Frequency, FrequentEvent};
use crate::model::curves::TrialCurves;
use crate::model::figures::{self, Figures};
use crate::model::measurement::MeasurementSummary;
use crate::model::nodes::{self, NodeFigures};
use crate::model::quantity::{self, Quantity};
use crate::model::watches::JudgedWatches;

/// Smallest share of due operations done in time with which a system has kept up.
const KEPT_UP: f64 = 0.99;

/// One trial, condensed.
#[derive(Debug, Clone)]
pub(crate) struct TrialFigures {
    /// Number of its folder, from 1.
    pub(crate) number: u32,
    pub(crate) round: u32,
    pub(crate) started: String,
    pub(crate) validity: Validity,
    pub(crate) measured: MeasuredFigures,
    pub(crate) verdicts: Verdicts,
    pub(crate) errors: TrialErrors,
    pub(crate) anomalies: Anomalies,
    pub(crate) servers: Servers,
    /// Data of its charts.
    pub(crate) drawn: TrialCurves,
}

/// Validity of a trial, and how it ended.
#[derive(Debug, Clone)]
pub(crate) struct Validity {
    /// Reasons why it must not be used; empty for a valid trial.
    pub(crate) invalid_because: Vec<String>,
    /// Cause of an invalid trial; `None` if it is valid.
    pub(crate) cause: Option<Cause>,
    pub(crate) interrupted: bool,
    /// True if it was skipped because its system had failed to start before.
    pub(crate) not_tried: bool,
    pub(crate) keys_exhausted: bool,
}

/// Rates, latencies and usage of a trial, of its parts, and of a search's tries.
#[derive(Debug, Clone)]
pub(crate) struct MeasuredFigures {
    /// Figures; empty if nothing was measured.
    pub(crate) figures: Figures,
    pub(crate) operations: BTreeMap<String, Figures>,
    /// Measurement for JSON; `None` if nothing was measured.
    pub(crate) measurement: Option<Box<MeasurementSummary>>,
    /// Figures of each stage, with its number of clients.
    pub(crate) stages: Vec<(u32, Figures)>,
    /// Rates that a search tried, in order.
    pub(crate) tries: Vec<(TriedRate, Figures)>,
    /// Result of the search.
    pub(crate) found: Option<FoundRate>,
}

/// Audits and checks of a trial.
#[derive(Debug, Clone)]
pub(crate) struct Verdicts {
    pub(crate) audits: Vec<Audit>,
    pub(crate) checks: Vec<Check>,
    /// Verdict on the history of its operations; `None` if it was not to be judged.
    pub(crate) history: Option<JudgedHistory>,
    /// Guarantees of watches, in the load and all injections; `None` without watchers.
    pub(crate) watches: Option<JudgedWatches>,
}

/// Errors of a trial's operations and connections.
#[derive(Debug, Clone)]
pub(crate) struct TrialErrors {
    /// First error of each kind; `None` stands for lost connections.
    pub(crate) examples: Vec<(Option<ErrorKind>, Example)>,
    /// Error texts by kind, the most frequent of each kind first.
    pub(crate) error_texts: Vec<(ErrorKind, ErrorText)>,
    /// Wrong or stale answers while faults were injected.
    pub(crate) untrue_in_injections: u64,
}

/// Patterns in a trial that its figures alone would hide.
#[derive(Debug, Clone)]
pub(crate) struct Anomalies {
    /// Longest time in which nothing succeeded, if it is worth mentioning.
    pub(crate) stall: Option<Stall>,
    /// Nodes that answered much more slowly than the others.
    pub(crate) slow_nodes: Vec<SlowNode>,
    /// Latencies of one operation with two modes.
    pub(crate) bimodal: Option<Bimodal>,
    /// Failures of about the same duration.
    pub(crate) lasted: Option<SimilarFailures>,
    /// Answers that took as long as a delayed acknowledgement.
    pub(crate) delayed_acks: Option<DelayedAcks>,
    /// Changes of the addresses that names resolved to during the load.
    pub(crate) moved_names: Vec<String>,
}

/// The servers of a trial: usage, events, logs, staleness.
#[derive(Debug, Clone)]
pub(crate) struct Servers {
    pub(crate) leader: Option<String>,
    pub(crate) nodes: Vec<NodeFigures>,
    /// Measure of their memory; `None` if its sum is unknown.
    pub(crate) memory_of: Option<MemoryOf>,
    /// Frequent events of nodes, with their rates per second.
    pub(crate) often: BTreeMap<FrequentEvent, Frequency>,
    /// Findings in the nodes' logs.
    pub(crate) log_findings: Vec<NodeLog>,
    /// Staleness of reads by node; empty if it was not measured.
    pub(crate) staleness: Vec<Staleness>,
}

impl TrialFigures {
    pub(crate) fn new(
        record: &TrialRecord,
        workload: &Workload,
        load: &Load,
        study: &Study,
    ) -> Self {
        let system = study.systems.iter().find(|one| one.name == record.trial.system);
        let split = read_write_split::is_split(workload, load).then_some(workload);
        let whole = record.measurement();
        let whole = whole.as_deref();
        let total = whole.map(Measurement::total);
        let mut invalid_because = record.invalid_because();
        if whole.is_none() && invalid_because.is_empty() {
            invalid_because.push("nothing was measured".to_owned());
        }
        Self {
            number: record.trial.number + 1,
            round: record.trial.round + 1,
            started: record.started.clone(),
            validity: Validity {
                // A trial that measured nothing without a known reason counts as a failure of the system.
                cause: record.cause().or((!invalid_because.is_empty()).then_some(Cause::System)),
                invalid_because,
                interrupted: record.outcome == TrialOutcome::Interrupted,
                not_tried: record.not_tried,
                keys_exhausted: whole.is_some_and(|whole| whole.keys_exhausted),
            },
            measured: MeasuredFigures::new(record, whole, split),
            verdicts: Verdicts {
                audits: record.all_audits().cloned().collect(),
                checks: record.checks.clone(),
                history: record.linearizability.clone(),
                watches: JudgedWatches::of_trial(record),
            },
            errors: TrialErrors {
                examples: whole.map_or_else(Vec::new, examples),
                error_texts: total.as_ref().map_or_else(Vec::new, |total| {
                    let texts = |(&kind, errors): (&ErrorKind, &Errors)| {
                        errors.texts.iter().map(|text| (kind, text.clone())).collect::<Vec<_>>()
                    };
                    total.errors.iter().flat_map(texts).collect()
                }),
                untrue_in_injections: record.injections.iter().map(untrue).sum(),
            },
            anomalies: Anomalies {
                stall: whole.and_then(|whole| anomalies::stall(record, whole)),
                // Nodes for writes and nodes for reads are not comparable.
                slow_nodes: whole
                    .as_ref()
                    .filter(|_| !load.targets.is_split())
                    .map_or_else(Vec::new, |whole| anomalies::slow_nodes(record, whole)),
                bimodal: anomalies::bimodal(record),
                lasted: total.as_ref().and_then(|total| anomalies::similar_failures(&total.failed)),
                delayed_acks: whole.and_then(Measurement::delayed_acks),
                moved_names: whole.into_iter().flat_map(Measurement::moved_names).collect(),
            },
            servers: Servers {
                leader: record.leader.clone(),
                nodes: nodes::of_trial(record, whole, system),
                memory_of: record.memory.map(|memory| memory.of),
                often: churn::of_trial(record),
                log_findings: record.log_findings.clone(),
                staleness: whole.map_or_else(Vec::new, |whole| whole.staleness.clone()),
            },
            drawn: TrialCurves::new(record, (load.warmup, &study.faults), whole),
        }
    }

    pub(crate) fn valid(&self) -> bool {
        self.validity.invalid_because.is_empty()
    }

    /// Returns one of its figures.
    pub(crate) fn get(&self, quantity: Quantity) -> Figure {
        self.measured.figures.get(&quantity).copied().unwrap_or(Figure::Absent)
    }

    /// Returns a figure of a stage, by index; of the whole trial if `stage` is `None`.
    pub(crate) fn of_stage(&self, quantity: Quantity, stage: Option<usize>) -> Figure {
        let Some(place) = stage else { return self.get(quantity) };
        let figures = self.measured.stages.get(place).map(|(_, figures)| figures);
        figures.and_then(|of| of.get(&quantity)).copied().unwrap_or(Figure::Absent)
    }

    pub(crate) fn number_of(&self, quantity: Quantity) -> f64 {
        self.get(quantity).value().unwrap_or(0.0)
    }

    /// Returns true if the due operations were done in time.
    pub(crate) fn kept_up(&self) -> bool {
        let seconds = self.number_of(Quantity::Seconds);
        let in_time = |rate: Quantity, requests: Quantity| {
            self.number_of(rate) * seconds >= KEPT_UP * self.number_of(requests)
        };
        in_time(Quantity::ThroughputMean, Quantity::Requests)
            && Side::BOTH
                .into_iter()
                .all(|side| in_time(Quantity::ThroughputOf(side), Quantity::RequestsOf(side)))
    }

    /// Returns true if more than 1 % of the due operations were answered after the window or never sent, besides those
    /// normally in flight (Little's law). The queue then kept growing.
    pub(crate) fn fell_behind(&self) -> bool {
        let (requests, seconds) =
            (self.number_of(Quantity::Requests), self.number_of(Quantity::Seconds));
        let in_time = self.number_of(Quantity::ThroughputMean) * seconds;
        let dropped = self.number_of(Quantity::ErrorsOf(ErrorKind::Dropped));
        let late = self.number_of(Quantity::Verified) - in_time + dropped;
        let service = self.number_of(Quantity::OfSuccesses(quantity::Point::P50)).min(
            self.get(Quantity::Service(quantity::Point::P50)).value().unwrap_or(f64::INFINITY),
        );
        let under_way = (requests / seconds.max(f64::MIN_POSITIVE) * service / 1e3).ceil() + 1.0;
        late - under_way > (1.0 - KEPT_UP) * requests
    }
}

impl MeasuredFigures {
    /// Collects the figures. `split`: the workload, if the load drives its writes and reads as two loads.
    fn new(record: &TrialRecord, whole: Option<&Measurement>, split: Option<&Workload>) -> Self {
        let each = |whole: &Measurement| {
            let one = |(name, operation)| (String::clone(name), figures::of_operation(operation));
            whole.operations.iter().map(one).collect()
        };
        let with_halves = |mut figures: Figures, of: &Measurement| {
            figures.extend(split.iter().flat_map(|workload| figures::of_halves(workload, of)));
            figures
        };
        let stage = |stage: &StageRecord| {
            (stage.clients, with_halves(figures::of_stage(stage), &stage.measurement))
        };
        let of_trial = |whole: &Measurement| with_halves(figures::of_trial(record, whole), whole);
        Self {
            figures: whole.map_or_else(Figures::new, of_trial),
            operations: whole.map_or_else(BTreeMap::new, each),
            measurement: whole.map(|whole| Box::new(MeasurementSummary::new(whole))),
            stages: record.figured().iter().map(stage).collect(),
            tries: record.stages.iter().filter_map(tried).collect(),
            found: record.found,
        }
    }
}

fn tried(stage: &StageRecord) -> Option<(TriedRate, Figures)> {
    Some((stage.tried.clone()?, figures::of_stage(stage)))
}

/// Counts the wrong or stale answers of an injection.
pub(crate) fn untrue(of: &Injection) -> u64 {
    let measurement = &of.stage.measurement;
    measurement.errors_of(ErrorKind::StaleValue) + measurement.errors_of(ErrorKind::WrongValue)
}

fn examples(whole: &Measurement) -> Vec<(Option<ErrorKind>, Example)> {
    let total = whole.total();
    let first = |errors: &Errors| errors.examples.first().cloned();
    let kinds =
        total.errors.iter().filter_map(|(&kind, errors)| Some((Some(kind), first(errors)?)));
    let connections = first(&whole.connection_errors).map(|example| (None, example));
    kinds.chain(connections).collect()
}
