//! Describes a report in JSON.
//!
//! Numbers have full precision, and units in their names. A missing figure is `null`. A latency above an hour is also
//! `null` and named under `beyond_one_hour`. A percentile that failures reach, or that has too few operations, is
//! `null`, with the reason in `none_because`. A figure that includes failures is `null`, with its lower bound in
//! `at_least`.
//!
//! Not here: the measurement of a trial (`model::measurement`).

use std::collections::BTreeMap;

use bakeoff_core::check::{Audit, Cause};
use bakeoff_core::linearizability::judged_history::JudgedHistory;
use bakeoff_core::memory::MemoryOf;
use bakeoff_core::outage::{Outage, PartOutage, StepOutage};
use bakeoff_core::plan;
use bakeoff_core::record::{Check, Environment, FaultHit, RoundCount, SystemRecord};
use bakeoff_core::search::{FoundRate, TriedRate};
use bakeoff_core::stats::Figure;
use bakeoff_core::stats::clusters::BoundedFigure;
use bakeoff_core::study::{Fault, Load, Operation, Publication, Workload};
use bakeoff_core::watch::GuaranteeOutcome;
use serde::Serialize;
use serde_json::{Number, Value};

use super::{FORMAT, none_because, number, written};
use crate::derive::comparison::Comparison;
use crate::derive::fairness::Sheet;
use crate::derive::judgement::{JudgedAs, Judgement};
use crate::derive::leader::{Leader, leader, rankings_text};
use crate::derive::log_findings::{self, Complaint};
use crate::derive::machine_baseline::{self, BaselineShare};
use crate::derive::method::Assessment;
use crate::derive::outages::{FaultOutages, InjectionFigures, SystemOutages};
use crate::derive::position::{OrderEffect, Position};
use crate::derive::published_figures::{self, PublishedFigure};
use crate::derive::staleness::{self, NodeStaleness};
use crate::derive::{conditions::FavouringCondition, findings};
use crate::document::report::Report;
use crate::document::{sentences, words};
use crate::model::changed_keys::ChangedKeys;
use crate::model::contender::{Contender, not_checked};
use crate::model::figures::Figures;
use crate::model::measurement::{MeasurementSummary, WatchSummary};
use crate::model::nodes::NodeFigures;
use crate::model::quantity::{Aggregation, Quantity};
use crate::model::trial::TrialFigures;

/// Renders the whole report.
pub fn json(report: &Report) -> Value {
    written(ReportJson::new(report))
}

/// Holds what `bakeoff run --json` prints, and `report.json`. Fields may be added within a `format`.
/// Percentiles rank failures above all successes. A percentile that failures reach is null.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ReportJson<'a> {
    /// Version of this form.
    format: u32,
    /// Subject of the study in one line.
    title: String,
    /// Name of the study.
    study: &'a str,
    /// True for the quick form of the study.
    quick: bool,
    /// Factor that the counts of the file were scaled by.
    scale: f64,
    /// Folder of the run; `None` in `report.json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    /// The answer in one sentence, with nothing that is not proven.
    verdict: &'a str,
    /// Sentences that support the verdict: intervals, conditions, what is not ranked.
    support: &'a [String],
    /// Conclusions for a reader who must choose, at most five sentences; empty if nothing was compared.
    conclusion: &'a [String],
    /// Published figures of the deciding workload and load, each with the run's own.
    published: Option<PublishedJson<'a>>,
    /// Proven violations, a sentence for each system. Such a system is not ranked.
    broken_guarantees: &'a [String],
    /// Order of the systems under each workload and load, or the reason why they have none.
    summary: Vec<String>,
    /// The answer in one sentence.
    sentence: &'a str,
    /// Further sentences.
    sentences: &'a [String],
    /// Number of workloads and loads with something judged.
    families: usize,
    /// Warnings.
    findings: Vec<String>,
    /// Differences between the systems besides the product.
    fairness: &'a Sheet,
    /// Published rules for measurements, and whether the run met them.
    method: Vec<DemandJson<'a>>,
    /// True if the run was not interrupted.
    complete: bool,
    /// Number of planned trials.
    trials_planned: usize,
    /// Number of trials that were run.
    trials_run: usize,
    /// Rounds of the run.
    rounds: RoundsJson,
    /// Start of the run, in UTC.
    started: &'a str,
    /// End of the run, in UTC; `None` if it was killed.
    ended: Option<&'a str>,
    /// Version of the program that ran it.
    bakeoff: &'a str,
    /// Seed of the order, the keys, the values and the arrivals.
    seed: u64,
    /// Machine of the run.
    environment: &'a Environment,
    /// Systems as resolved, in the study's order.
    systems: &'a [SystemRecord],
    /// Source of the published figures.
    publication: Option<&'a Publication>,
    /// All systems under each workload and load.
    comparisons: Vec<ComparisonJson<'a>>,
}

/// Describes the rounds of a run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RoundsJson {
    /// Rule by which their number was chosen.
    count: RoundCount,
    /// Number of rounds in the study.
    at_most: u32,
    /// Number of rounds after which an adaptive run stopped early.
    answered_after: Option<u32>,
}

/// Describes a published rule for measurements.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DemandJson<'a> {
    /// Source of the rule.
    by: &'static str,
    /// The rule.
    asks: &'static str,
    /// Result: `met`, `in part`, `not met` or `not asked`.
    met: &'static str,
    /// Evidence in the record.
    why: &'a str,
}

/// Compares published figures with the run's own.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PublishedJson<'a> {
    /// Name of the workload.
    workload: &'a str,
    /// Name of the load.
    load: &'a str,
    /// Whether the published order of the systems holds, as a sentence; `None` with fewer than two systems.
    order: Option<String>,
    /// True if a pair of systems is proven to be in the other order.
    order_is_reversed: Option<bool>,
    /// Figures; those that decide come first.
    figures: Vec<PublishedFigureJson<'a>>,
}

/// Compares a published figure with the run's own.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PublishedFigureJson<'a> {
    /// Name of the system.
    system: &'a str,
    /// Operation of the mix; `None` for all together.
    operation: Option<Operation>,
    /// Name of the figure, with its unit.
    quantity: String,
    /// Published figure.
    published: f64,
    /// Median of the valid trials; `None` if it is no number, such as a percentile that failures reach.
    measured: Option<Number>,
    /// Measured figure divided by the published one.
    ratio: Option<f64>,
}

/// Compares all systems under one workload and load.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ComparisonJson<'a> {
    /// Name of the workload.
    workload: &'a str,
    /// Name of the load.
    load: &'a str,
    /// `closed` if clients wait for their answers, `open` if operations are due at a rate.
    load_kind: &'static str,
    /// The load in a few words: `closed load, 64 clients`.
    load_text: String,
    /// Workload of the study.
    workload_asked: &'a Workload,
    /// Load of the study.
    load_asked: &'a Load,
    /// Comparing sentence.
    sentence: Option<String>,
    /// Order of the systems by the deciding figure, as far as it is proven: `nginx, haproxy > caddy, traefik`.
    order: Option<String>,
    /// System that is proven better than each other ranked one, under equal conditions.
    best: Option<String>,
    /// System that is proven better, under conditions that favour it.
    fastest_under_unequal_conditions: Option<String>,
    /// Warnings.
    findings: Vec<String>,
    /// Effect of the place within a round.
    order_effect: Option<OrderEffect>,
    /// Comparisons of two systems by a figure.
    judgements: Vec<JudgementJson<'a>>,
    /// Throughput of each system compared with the machine baseline.
    machine_baseline: Vec<BaselineShare>,
    /// Outages of each fault; empty without faults.
    faults: Vec<FaultJson<'a>>,
    /// Each system.
    systems: Vec<ContenderJson<'a>>,
}

/// Compares the systems by one fault. Times are in seconds.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FaultJson<'a> {
    /// Fault of the study.
    fault: &'a Fault,
    /// System that is proven to lose less service than all others.
    least_service_lost: Option<&'a str>,
    /// Systems that the fault happens to.
    systems: Vec<SystemOutagesJson<'a>>,
}

/// Holds the outages of one system by one fault.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SystemOutagesJson<'a> {
    /// Name of the system.
    system: &'a str,
    /// Operations due after the fault and not served in time, as seconds of the whole load: the median over clusters of the mean of each.
    service_lost: Option<BoundedFigure>,
    /// 95 % interval of the service lost over clusters; `None` with too few clusters, or if the figure of one is a bound.
    service_lost_interval: Option<(f64, f64)>,
    /// Longest time without a success: the median over clusters of the mean of each.
    outage: Option<BoundedFigure>,
    /// Published outages in seconds, the shortest first.
    published: &'a [f64],
    /// Notes on the published outages.
    published_notes: &'a [String],
    /// Acknowledged keys that changed, in all injections.
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "bakeoff_core::schema::Flat<ChangedKeysJson>"))]
    changed: ChangedKeysJson,
    /// Each injection.
    injections: Vec<InjectionJson<'a>>,
}

/// Counts acknowledged keys that changed; `None` if they were not read back.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ChangedKeysJson {
    /// Missing keys.
    lost: Option<u64>,
    /// Keys with an older value.
    older: Option<u64>,
    /// Keys with a value that was not written to them.
    wrong: Option<u64>,
}

/// Holds the figures of one injection of a fault.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct InjectionJson<'a> {
    /// Number of the trial, from 1.
    trial: u32,
    /// Number of the injection in its trial, from 1.
    repeat: u32,
    /// Number of the cluster, from 1. Trials on a kept cluster share it.
    cluster: usize,
    /// Time of the fault since measuring began.
    from: f64,
    /// Time of its end; `None` if it did not end.
    healed: Option<f64>,
    /// Figures of the injection.
    outage: &'a Outage,
    /// Outages of each node's clients and of each operation; empty without several.
    parts: &'a [PartOutage],
    /// Outages of each fault of a sequence; empty for a single fault.
    sequence: &'a [StepOutage],
    /// Effects of the fault, in the order of their times.
    effects: &'a [FaultHit],
    /// Reason why it does not count.
    left_out: Option<&'a str>,
    /// Acknowledged keys that changed.
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "bakeoff_core::schema::Flat<ChangedKeysJson>"))]
    changed: ChangedKeysJson,
    /// Wrong or stale answers.
    untrue: u64,
    /// Renewals of leases that had expired.
    leases_expired: u64,
    /// Describes what watchers observed; absent without watchers.
    #[serde(skip_serializing_if = "Option::is_none")]
    watch: Option<&'a WatchSummary>,
}

/// Compares two systems by a figure.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct JudgementJson<'a> {
    /// First system.
    a: &'a str,
    /// Second system.
    b: &'a str,
    /// Name of the figure.
    quantity: String,
    /// Stage of a sweep; `None` for the whole load.
    stage: Option<StageJson>,
    /// True if the load was run for this figure.
    leading: bool,
    /// Median of `a`.
    a_median: Option<Number>,
    /// Median of `b`.
    b_median: Option<Number>,
    /// Ratio of `a` to `b`.
    ratio: Option<f64>,
    /// Confidence interval of the ratio.
    interval: Option<[f64; 2]>,
    /// Confidence of this interval, 0 to 1, corrected for the other comparisons.
    confidence_of_this_interval: Option<f64>,
    /// Uncorrected 95 % bootstrap interval.
    bootstrap_interval_alone: Option<[f64; 2]>,
    /// Rounds in which both had a valid trial with this figure.
    rounds: usize,
    /// Number of comparisons that the interval is corrected for.
    corrected_for: usize,
    /// Verdict: `higher`, `lower`, `none-shown`, `not-claimed`, `too-few` or `not-judged`.
    verdict: &'static str,
    /// Differences besides the product that favour the winner.
    conditions: Vec<FavouringCondition>,
    /// True if the claim holds at 5 % across the whole report; `None` if it is no leading claim.
    holds_in_whole_report: Option<bool>,
    /// Uncorrected p value.
    p_value_alone: Option<f64>,
    /// Medians of `a` and `b` if trials that the system itself spoiled counted as the worst.
    medians_at_worst: Option<[Option<Number>; 2]>,
    /// Minimum detectable effect, if no difference is shown.
    would_have_seen_ratio: Option<f64>,
    /// The judgement in words.
    words: String,
}

/// Names a stage of a sweep.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StageJson {
    /// Number, from 1.
    number: usize,
    /// Number of clients.
    clients: u32,
}

/// Describes one system under one workload and load.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ContenderJson<'a> {
    /// Name of the system.
    system: &'a str,
    /// True if any trial is valid.
    valid: bool,
    /// Number of planned trials.
    trials_planned: usize,
    /// Number of trials that were run.
    trials_run: usize,
    /// Number of valid trials.
    trials_valid: usize,
    /// Share of failed operations in all trials.
    error_share: Option<f64>,
    /// Each figure over the valid trials, by its name with its unit.
    figures: BTreeMap<String, CombinedFigure>,
    /// Notes of the publication.
    published_notes: &'a [String],
    /// Checks that were not made.
    not_checked: Vec<NotCheckedJson>,
    /// Staleness of reads by node, over all trials.
    staleness: Vec<NodeStaleness>,
    /// Guarantees of watches, over all loads and injections of all trials, the worst state of each; empty without
    /// watchers.
    watch_guarantees: Vec<GuaranteeOutcome>,
    /// Findings in the logs of the nodes.
    servers_said: Vec<Complaint>,
    /// Each trial.
    trials: Vec<TrialJson<'a>>,
}

/// Describes a check that was not made.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NotCheckedJson {
    /// The check.
    what: String,
    /// Reason.
    why: String,
    /// Number of trials.
    trials: usize,
}

/// Holds a figure over all trials.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum CombinedNumber {
    /// Median of the trials.
    Median(Option<Number>),
    /// Sum of the trials, for counts.
    Sum(Option<Number>),
}

/// Describes a figure over several trials.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CombinedFigure {
    /// Median or sum.
    #[serde(flatten)]
    combined: CombinedNumber,
    /// Minimum of the trials.
    min: Option<Number>,
    /// Maximum of the trials.
    max: Option<Number>,
    /// Number of trials.
    trials: usize,
    /// Those of these figures that are latencies beyond an hour, and null.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    beyond_one_hour: Vec<&'static str>,
    /// Lower bound of a figure that includes failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    /// Reason for a missing figure: failures reach it, or it had too few operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    none_because: Option<String>,
    /// Published figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<f64>,
}

/// Holds figures by name. A name ends in the unit: `response_p99_ms`, `throughput_mean_per_second`. A figure that does not exist is null.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FiguresJson {
    /// Figures.
    #[serde(flatten)]
    figures: BTreeMap<String, Option<Number>>,
    /// Names of the figures that are latencies beyond an hour; they are null.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    beyond_one_hour: Vec<String>,
    /// Reason for a missing figure, by its name: failures reach it, or it had too few operations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    none_because: BTreeMap<String, String>,
    /// Lower bounds of figures that include failures, by name; they are null.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    at_least: BTreeMap<String, f64>,
}

/// Describes one trial.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TrialJson<'a> {
    /// Number of the trial, from 1.
    number: u32,
    /// Number of its round, from 1.
    round: u32,
    /// Start of the trial, in UTC.
    started: &'a str,
    /// Name of the leader when the load began.
    leader: Option<&'a str>,
    /// True if its figures may be used.
    valid: bool,
    /// Reasons why they must not be used.
    invalid_because: &'a [String],
    /// Cause of an invalid trial.
    cause: Option<Cause>,
    /// True if the user interrupted it.
    interrupted: bool,
    /// Figures of the trial.
    figures: FiguresJson,
    /// Measurement of the trial, as `bakeoff load --json` describes it; `None` if nothing was measured.
    measurement: Option<&'a MeasurementSummary>,
    /// Staleness of reads by node.
    staleness: Vec<NodeStaleness>,
    /// Each stage.
    stages: Vec<StageFigures>,
    /// Search for a rate.
    search: Option<SearchFigures<'a>>,
    /// Response times with two modes.
    two_modes: Option<TwoModes<'a>>,
    /// Duration of failures that all lasted about as long, in words.
    failures_lasted: Option<String>,
    /// Usage of each node.
    nodes: &'a [NodeFigures],
    /// Measure of the nodes' memory; `None` if its sum is unknown.
    memory_of: Option<MemoryOf>,
    /// Events: kills, restarts, nodes that ended, another leader.
    events: Vec<EventJson<'a>>,
    /// Results of reading acknowledged writes back.
    audits: &'a [Audit],
    /// All other checks.
    checks: &'a [Check],
    /// Verdict on the history of its operations; `None` unless the study checks it.
    linearizability: Option<&'a JudgedHistory>,
    /// Guarantees of watches, over its load and all its injections; empty without watchers.
    watch_guarantees: &'a [GuaranteeOutcome],
}

/// Holds the figures of a stage.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StageFigures {
    /// Number of clients.
    clients: u32,
    /// Figures of the stage.
    figures: FiguresJson,
}

/// Describes a search for a rate.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SearchFigures<'a> {
    /// Result; `None` if the search did not end.
    result: Option<FoundRate>,
    /// Tried rates, in order.
    tries: Vec<TryFigures<'a>>,
}

/// Holds the figures of a tried rate.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TryFigures<'a> {
    /// Tried rate.
    rate_per_second: f64,
    /// True for the longer second try of the best rate.
    confirming: bool,
    /// True if it kept the objective.
    kept: bool,
    /// Reasons why it did not.
    broken_by: &'a [String],
    /// True if the generator or the machine was disturbed.
    says_nothing_of_the_system: bool,
    /// Figures of the try.
    figures: FiguresJson,
}

/// Describes response times with two modes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TwoModes<'a> {
    /// Name of the operation.
    operation: &'a str,
    /// Clients of the stage.
    clients: u32,
    /// True if they include answered failures.
    with_failures: bool,
    /// The modes in words.
    words: String,
}

/// Describes an event of a trial.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EventJson<'a> {
    /// Time in seconds since the trial began.
    at_seconds: f64,
    /// The event in words.
    what: &'a str,
}

impl<'a> ReportJson<'a> {
    fn new(report: &'a Report) -> Self {
        let header = &report.header;
        let study = &header.study;
        Self {
            format: FORMAT,
            title: words::title(study),
            study: &study.name,
            quick: study.is_quick,
            scale: study.scale,
            run: None,
            verdict: &report.headline.verdict,
            support: &report.headline.support,
            conclusion: &report.conclusion,
            published: report.deciding().and_then(PublishedJson::new),
            broken_guarantees: &report.broken,
            summary: report.summary(),
            sentence: &report.sentence,
            sentences: &report.sentences,
            families: sentences::families(&report.comparisons),
            findings: report.findings(),
            fairness: &report.fairness,
            method: report.method.iter().map(DemandJson::new).collect(),
            complete: report.complete,
            trials_planned: header.order.len(),
            trials_run: report.trials_run,
            rounds: RoundsJson {
                count: header.rounds,
                at_most: study.trials,
                answered_after: report.answered_after,
            },
            started: &header.started,
            ended: report.ended.as_deref(),
            bakeoff: &header.bakeoff,
            seed: header.seed,
            environment: &header.environment,
            systems: &header.systems,
            publication: study.publication.as_ref(),
            comparisons: report.comparisons.iter().map(ComparisonJson::new).collect(),
        }
    }
}

impl<'a> PublishedJson<'a> {
    /// Describes the published figures of the deciding workload; `None` without any.
    fn new(of: &'a Comparison) -> Option<Self> {
        let order = published_figures::order(of);
        let figure = |one: PublishedFigure<'a>| PublishedFigureJson {
            system: &one.system.system,
            operation: one.subject.operation,
            quantity: one.subject.quantity.name(),
            published: one.published,
            measured: number(one.subject.quantity, one.measured),
            ratio: one.ratio(),
        };
        let figures = published_figures::figures(of);
        (!figures.is_empty()).then(|| Self {
            workload: &of.workload.name,
            load: &of.load.name,
            order_is_reversed: order.as_ref().map(|order| order.is_reversed),
            order: order.map(|order| order.sentence),
            figures: figures.into_iter().map(figure).collect(),
        })
    }
}

impl<'a> DemandJson<'a> {
    fn new(of: &'a Assessment) -> Self {
        Self { by: of.demand.by, asks: of.demand.asks, met: of.met.name(), why: &of.why }
    }
}

impl<'a> ComparisonJson<'a> {
    fn new(of: &'a Comparison) -> Self {
        let (best, unequal) = match leader(of) {
            Leader::Proven(name) => (Some(name.to_owned()), None),
            Leader::Unequal(name) => (None, Some(name.to_owned())),
            Leader::NotShown | Leader::NotJudged => (None, None),
        };
        Self {
            workload: &of.workload.name,
            load: &of.load.name,
            load_kind: plan::load_kind(&of.load),
            load_text: of.load_text(),
            workload_asked: &of.workload,
            load_asked: &of.load,
            sentence: of.sentence(),
            order: rankings_text(of),
            best,
            fastest_under_unequal_conditions: unequal,
            findings: findings::findings(of).into_iter().map(|one| one.text).collect(),
            order_effect: of.position.as_ref().map(Position::summary),
            judgements: of.judgements.iter().map(JudgementJson::new).collect(),
            machine_baseline: machine_baseline::bounds(of, of.limits.as_ref()),
            faults: of.outages.iter().map(FaultJson::new).collect(),
            systems: of.contenders.iter().map(ContenderJson::new).collect(),
        }
    }
}

impl<'a> FaultJson<'a> {
    fn new(of: &'a FaultOutages) -> Self {
        Self {
            fault: &of.fault,
            least_service_lost: of.best().map(|place| &*of.systems[place].system),
            systems: of.systems.iter().map(SystemOutagesJson::new).collect(),
        }
    }
}

impl<'a> SystemOutagesJson<'a> {
    fn new(of: &'a SystemOutages) -> Self {
        Self {
            system: &of.system,
            service_lost: of.service_lost(),
            service_lost_interval: of.interval(),
            outage: of.outage(),
            published: &of.published,
            published_notes: &of.notes,
            changed: ChangedKeysJson::new(of.changed()),
            injections: of.injections.iter().map(InjectionJson::new).collect(),
        }
    }
}

impl ChangedKeysJson {
    fn new(of: Option<ChangedKeys>) -> Self {
        Self {
            lost: of.map(|keys| keys.lost),
            older: of.map(|keys| keys.older),
            wrong: of.map(|keys| keys.wrong),
        }
    }
}

impl<'a> InjectionJson<'a> {
    fn new(of: &'a InjectionFigures) -> Self {
        Self {
            trial: of.place.0,
            repeat: of.place.1,
            cluster: of.cluster,
            from: of.from,
            healed: of.healed,
            outage: &of.outage,
            parts: &of.parts,
            sequence: &of.sequence,
            effects: &of.effects,
            left_out: of.left_out.as_deref(),
            changed: ChangedKeysJson::new(of.changed),
            untrue: of.untrue,
            leases_expired: of.leases_expired,
            watch: of.watch.as_deref(),
        }
    }
}

impl<'a> JudgementJson<'a> {
    fn new(of: &'a Judgement) -> Self {
        let min_detectable = match of.verdict {
            JudgedAs::NoneShown { min_detectable } => Some(min_detectable),
            _ => None,
        };
        let stage = |stage: usize| StageJson { number: stage + 1, clients: of.clients };
        Self {
            a: &of.a,
            b: &of.b,
            quantity: of.quantity.name(),
            stage: of.stage.map(stage),
            leading: of.leading,
            a_median: number(of.quantity, of.medians.0),
            b_median: number(of.quantity, of.medians.1),
            ratio: of.answer.map(|answer| answer.ratio),
            interval: of.answer.map(|answer| [answer.interval.0, answer.interval.1]),
            confidence_of_this_interval: of.answer.map(|answer| answer.confidence),
            bootstrap_interval_alone: of.bootstrap.map(|(low, high)| [low, high]),
            rounds: of.rounds,
            corrected_for: of.family,
            verdict: of.verdict_name(),
            conditions: of.winner().map_or_else(Vec::new, |winner| {
                of.conditions.iter().map(|one| one.favouring(winner)).collect()
            }),
            holds_in_whole_report: of.in_report,
            p_value_alone: of.answer.map(|answer| answer.p_value),
            medians_at_worst: of
                .worst
                .map(|(a, b)| [a, b].map(|value| number(of.quantity, Figure::from(Some(value))))),
            would_have_seen_ratio: min_detectable,
            words: of.words(),
        }
    }
}

impl<'a> ContenderJson<'a> {
    fn new(of: &'a Contender) -> Self {
        let not_checked = not_checked(&of.trials).into_iter();
        let not_checked = not_checked.map(|(what, why, trials)| NotCheckedJson {
            what: what.to_string(),
            why,
            trials,
        });
        Self {
            system: &of.system,
            valid: of.valid_count() > 0,
            trials_planned: of.planned,
            trials_run: of.run_count(),
            trials_valid: of.valid_count(),
            error_share: of.error_share(),
            figures: combined(of),
            published_notes: &of.notes,
            not_checked: not_checked.collect(),
            staleness: staleness::summaries(&staleness::nodes(of)),
            watch_guarantees: of.watches().map(|judged| judged.guarantees).unwrap_or_default(),
            servers_said: log_findings::complaints(of),
            trials: of.trials.iter().map(TrialJson::new).collect(),
        }
    }
}

/// Describes every quantity over the valid trials, with the published figure.
fn combined(of: &Contender) -> BTreeMap<String, CombinedFigure> {
    let mut quantities: Vec<Quantity> =
        of.trials.iter().flat_map(|trial| trial.measured.figures.keys().copied()).collect();
    quantities.extend(of.published.keys());
    quantities.sort_unstable();
    quantities.dedup();
    let one = |quantity: Quantity| {
        let (summary, shown) = (of.summary(quantity), of.shown(quantity));
        let value = number(quantity, shown);
        let (name, combined) = match quantity.combined() {
            Aggregation::Median => ("median", CombinedNumber::Median(value)),
            Aggregation::Sum => ("sum", CombinedNumber::Sum(value)),
        };
        let bounds = [(name, shown), ("min", summary.min), ("max", summary.max)];
        let beyond = bounds.into_iter().filter(|(_, figure)| *figure == Figure::Beyond);
        let figure = CombinedFigure {
            combined,
            min: number(quantity, summary.min),
            max: number(quantity, summary.max),
            trials: summary.trials,
            beyond_one_hour: beyond.map(|(name, _)| name).collect(),
            at_least: match shown {
                Figure::AtLeast(least) => Some(least),
                _ => None,
            },
            none_because: none_because(quantity, shown),
            published: of.published.get(&quantity).copied(),
        };
        (quantity.name(), figure)
    };
    quantities.into_iter().map(one).collect()
}

impl FiguresJson {
    fn new(of: &Figures) -> Self {
        let all = || of.iter().map(|(&quantity, &figure)| (quantity, figure));
        let least = |(quantity, figure): (Quantity, Figure)| match figure {
            Figure::AtLeast(least) => Some((quantity.name(), least)),
            _ => None,
        };
        Self {
            figures: all().map(|(name, figure)| (name.name(), number(name, figure))).collect(),
            beyond_one_hour: all()
                .filter(|(_, figure)| *figure == Figure::Beyond)
                .map(|(quantity, _)| quantity.name())
                .collect(),
            none_because: all()
                .filter_map(|(name, figure)| Some((name.name(), none_because(name, figure)?)))
                .collect(),
            at_least: all().filter_map(least).collect(),
        }
    }
}

impl<'a> TrialJson<'a> {
    fn new(of: &'a TrialFigures) -> Self {
        let stage = |(clients, of): &(u32, Figures)| StageFigures {
            clients: *clients,
            figures: FiguresJson::new(of),
        };
        Self {
            number: of.number,
            round: of.round,
            started: &of.started,
            leader: of.servers.leader.as_deref(),
            valid: of.valid(),
            invalid_because: &of.validity.invalid_because,
            cause: of.validity.cause,
            interrupted: of.validity.interrupted,
            figures: FiguresJson::new(&of.measured.figures),
            measurement: of.measured.measurement.as_deref(),
            staleness: staleness::summaries(&of.servers.staleness),
            stages: of.measured.stages.iter().map(stage).collect(),
            search: SearchFigures::new(of),
            two_modes: of.anomalies.bimodal.as_ref().map(|found| TwoModes {
                operation: &found.operation,
                clients: found.clients,
                with_failures: found.with_failures,
                words: found.modes.text(),
            }),
            failures_lasted: of.anomalies.lasted.map(|lasted| lasted.text()),
            nodes: &of.servers.nodes,
            memory_of: of.servers.memory_of,
            events: of
                .drawn
                .timeline
                .events
                .iter()
                .map(|event| EventJson { at_seconds: event.at, what: &event.text })
                .collect(),
            audits: &of.verdicts.audits,
            checks: &of.verdicts.checks,
            linearizability: of.verdicts.history.as_ref(),
            watch_guarantees: of.verdicts.watches.as_ref().map_or(&[], |judged| &judged.guarantees),
        }
    }
}

impl<'a> SearchFigures<'a> {
    /// Describes a search with each tried rate in order; `None` for other loads.
    fn new(of: &'a TrialFigures) -> Option<Self> {
        let tried = |(tried, of): &'a (TriedRate, Figures)| TryFigures {
            rate_per_second: tried.rate,
            confirming: tried.confirming,
            kept: tried.kept(),
            broken_by: &tried.broken_by,
            says_nothing_of_the_system: tried.void,
            figures: FiguresJson::new(of),
        };
        let tries: Vec<_> = of.measured.tries.iter().map(tried).collect();
        (!tries.is_empty()).then_some(Self { result: of.measured.found, tries })
    }
}
