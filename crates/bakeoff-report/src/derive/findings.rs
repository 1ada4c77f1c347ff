//! Findings to read before any figure, each with its cause.
//!
//! Not here: grouping and showing them (`document`), detecting them (`anomalies`, `nodes`, `churn`, `log_findings`,
//! `position`, `fairness`).

use std::collections::BTreeMap;

use bakeoff_core::check::Cause as Doing;
use bakeoff_core::record::{Record, RepeatedRound, TrialOutcome};
use bakeoff_core::repeat;
use bakeoff_core::search::FoundRate;
use bakeoff_core::units::{rate_text, share_text, trials_text};

use super::{anomalies, churn, log_findings, nodes, watches};
use crate::derive::comparison::Comparison;
use crate::model::contender::Contender;

/// Share of misses from which a report warns about reads.
const MOSTLY_MISSES: f64 = 0.5;

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) cause: Cause,
    /// System that it is about; `None` for the whole run.
    pub(crate) system: Option<String>,
    /// Clause without a full stop.
    pub(crate) text: String,
}

impl Finding {
    /// Returns a finding about the whole run.
    pub(crate) fn of_run(cause: Cause, text: String) -> Self {
        Self { cause, system: None, text }
    }
}

/// Significance of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bearing {
    /// The answer of the run may be another.
    Answer,
    /// It explains a system's figures.
    Figures,
    /// It was dealt with, or concerns details.
    Nothing,
}

/// Cause of a finding. The order is that of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    Machines,
    Incomplete,
    Failed,
    Audit,
    Durability,
    NotValid,
    Repeated,
    AnotherBakeoff,
    Degraded,
    Unequal,
    Metrics,
    FellBehind,
    Misses,
    Search,
    Abrupt,
    KeysUsedUp,
    Throttled,
    Stall,
    SlowNode,
    SameDuration,
    Bimodal,
    DelayedAck,
    Moved,
    Watches,
    Order,
    Turnover,
    Log,
}

impl Cause {
    /// Returns what findings with this cause bear on.
    pub(crate) fn bearing(self) -> Bearing {
        match self {
            Self::Machines
            | Self::Incomplete
            | Self::Failed
            | Self::Audit
            | Self::Durability
            | Self::NotValid
            | Self::AnotherBakeoff
            | Self::Degraded
            | Self::Unequal
            | Self::FellBehind
            | Self::Misses
            | Self::Search
            | Self::KeysUsedUp
            | Self::Order => Bearing::Answer,
            Self::Abrupt
            | Self::Throttled
            | Self::Stall
            | Self::SlowNode
            | Self::SameDuration
            | Self::Bimodal
            | Self::DelayedAck
            | Self::Moved
            | Self::Watches
            | Self::Turnover
            | Self::Log => Bearing::Figures,
            Self::Repeated | Self::Metrics => Bearing::Nothing,
        }
    }

    /// Returns the heading of findings with this cause.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Machines => "trials of different machines",
            Self::Incomplete => "incomplete run",
            Self::Failed => "operations failed",
            Self::Audit => "audit failed",
            Self::Durability => "durability not as claimed",
            Self::NotValid => "trials not valid",
            Self::Repeated => "rounds repeated",
            Self::AnotherBakeoff => "another bakeoff on the machine",
            Self::Degraded => "nodes missing",
            Self::Unequal => "unequal conditions that may decide",
            Self::Metrics => "metrics of nodes",
            Self::FellBehind => "fell behind the offered load",
            Self::Misses => "reads that found nothing",
            Self::Search => "highest rate not found",
            Self::Abrupt => "latency far below the objective at the highest rate",
            Self::KeysUsedUp => "unique keys used up",
            Self::Throttled => "throttled by a CPU limit",
            Self::Stall => "stalled",
            Self::SlowNode => "slow node",
            Self::SameDuration => "failures of the same duration",
            Self::Bimodal => "bimodal latencies",
            Self::DelayedAck => "delayed ACKs",
            Self::Moved => "names with new addresses",
            Self::Watches => "watches interrupted",
            Self::Order => "order within rounds mattered",
            Self::Turnover => "frequent new connections or processes",
            Self::Log => "errors in the servers' logs",
        }
    }
}

/// Returns a finding about a run that was resumed on machines that had changed.
pub(crate) fn other_machines(record: &Record) -> Option<Finding> {
    let changes = record.machine_changes();
    let text = format!("this run mixes machines: {}", changes.join("; "));
    (!changes.is_empty()).then(|| Finding::of_run(Cause::Machines, text))
}

/// Returns a finding about an incomplete run.
pub(crate) fn incomplete(record: &Record) -> Option<Finding> {
    if record.is_complete() {
        return None;
    }
    let run = record.trials.iter().filter(|trial| !trial.not_tried).count();
    let all = trials_text(record.header.order.len());
    let broken_off =
        record.trials.iter().map(|trial| &trial.outcome).find(|one| one.is_broken_off());
    let how = match (broken_off, &record.end) {
        (Some(TrialOutcome::MachineLost(_)), _) => "; a machine was lost in the last one",
        (Some(_), _) => "; the last one was interrupted",
        (None, Some(_)) => "; then the run ended",
        (None, None) => "; the run was killed or is still running",
    };
    let text = format!("incomplete: {run} of {all} ran{how}");
    Some(Finding::of_run(Cause::Incomplete, text))
}

/// Returns findings about rounds that replace rounds spoilt by the machine.
pub(crate) fn repeated(record: &Record) -> Vec<Finding> {
    let repeats: Vec<RepeatedRound> =
        record.extended.iter().flat_map(|one| one.repeats.iter().cloned()).collect();
    let finding = |text| Finding::of_run(Cause::Repeated, text);
    repeat::texts(&repeats).into_iter().map(finding).collect()
}

/// Returns a finding about trials during which another bakeoff worked on the machine.
pub(crate) fn another_bakeoff(record: &Record) -> Option<Finding> {
    let adjacent = record.trials.iter().filter(|trial| trial.another_bakeoff).count();
    let all = trials_text(record.trials.iter().filter(|trial| !trial.not_tried).count());
    let text = format!("another bakeoff worked on the machine during {adjacent} of {all}");
    (adjacent > 0).then(|| Finding::of_run(Cause::AnotherBakeoff, text))
}

/// Returns findings about systems that ran without some of their endpoints.
pub(crate) fn degraded(record: &Record) -> Vec<Finding> {
    let mut lacking: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for one in record.trials.iter().filter(|trial| !trial.missing.is_empty()) {
        *lacking.entry((&one.trial.system, one.missing.join(", "))).or_default() += 1;
    }
    let text = |((system, missing), trials): ((&str, String), usize)| {
        format!(
            "{system} ran without {missing} in {}: no connection was accepted there",
            trials_text(trials)
        )
    };
    lacking.into_iter().map(text).map(|text| Finding::of_run(Cause::Degraded, text)).collect()
}

/// Returns the findings about a workload under a load, system by system.
pub(crate) fn findings(of: &Comparison) -> Vec<Finding> {
    let place = of.place();
    let open = of.is_open() && of.load.find.is_none();
    let mut found = Vec::new();
    for one in &of.contenders {
        found.extend(of_contender(one, &place));
        if open && one.fell_behind() {
            let text = format!(
                "{} fell behind the offered rate under {place}: its response times depend on how \
                 long the load ran, and are not judged",
                one.system
            );
            found.push(Finding {
                cause: Cause::FellBehind,
                system: Some(one.system.clone()),
                text,
            });
        }
    }
    let order = of.position.as_ref().and_then(|position| position.finding(&place));
    found.extend(order.map(|text| Finding::of_run(Cause::Order, text)));
    found
}

/// Returns the findings about one system there.
fn of_contender(of: &Contender, place: &str) -> Vec<Finding> {
    let name = &of.system;
    let mut found = Vec::new();
    let mut add = |cause: Cause, texts: Vec<String>| {
        let finding = |text| Finding { cause, system: Some(name.clone()), text };
        found.extend(texts.into_iter().map(finding));
    };
    let one = |text: Option<String>| text.into_iter().collect::<Vec<String>>();
    add(
        Cause::Failed,
        one(of.mostly_errors().map(|share| {
            let (share, failed) = (share_text(share), of.failed());
            format!("most operations of {name} under {place} {failed} ({share}): it is not ranked")
        })),
    );
    let (failed, run) = (of.audits_failed(), of.trials.len());
    let all = trials_text(run);
    let audit =
        (failed > 0).then(|| format!("{name} failed the audit in {failed} of {all} under {place}"));
    add(Cause::Audit, one(audit));
    add(Cause::NotValid, one(not_valid(of, place)));
    let used_up = of.valid().any(|trial| trial.validity.keys_exhausted).then(|| {
        format!("{name} used up the workload's unique keys under {place} before the load ended")
    });
    add(Cause::KeysUsedUp, one(used_up));
    let misses = of.miss_share().filter(|&share| share >= MOSTLY_MISSES).map(|share| {
        let share = share_text(share);
        format!(
            "{share} of the reads of {name} under {place} found no value, since the keys have none"
        )
    });
    add(Cause::Misses, one(misses));
    add(Cause::Metrics, nodes::metrics(of, place));
    add(Cause::Search, searches(of, place));
    let abrupt = of.far_below.as_ref().map(|far| format!("{name} under {place}: {far}"));
    add(Cause::Abrupt, one(abrupt));
    add(Cause::Stall, one(anomalies::stalls(of, place)));
    let delayed = anomalies::delayed_acks_of(of, place);
    // The cause of two modes is more useful than their times.
    let bimodal = anomalies::bimodal_of(of, place).filter(|_| delayed.is_none());
    add(Cause::Bimodal, one(bimodal));
    add(Cause::DelayedAck, one(delayed));
    add(Cause::Moved, anomalies::moved_names_of(of, place));
    add(Cause::Watches, one(watches::interrupted(of, place)));
    add(Cause::SameDuration, one(anomalies::failures_of(of, place)));
    add(Cause::SlowNode, anomalies::slow_nodes_of(of, place));
    add(Cause::Throttled, nodes::findings(of, place));
    add(Cause::Turnover, churn::findings(of, place));
    add(Cause::Log, one(log_findings::finding(of, place)));
    found
}

/// Returns a finding about its invalid trials, with the causes.
fn not_valid(of: &Contender, place: &str) -> Option<String> {
    let (name, run) = (&of.system, of.trials.len());
    match run - of.valid_count() {
        0 => None,
        invalid if invalid == run => Some(format!("{name} has no valid trial under {place}")),
        invalid => {
            let (all, causes) = (trials_text(run), causes(of));
            Some(format!(
                "{name} under {place}: {invalid} of {all} not valid and left out (cause: {causes})"
            ))
        }
    }
}

/// Returns the causes of its invalid trials: `machine 2, system 1`.
fn causes(of: &Contender) -> String {
    let words = [
        (Doing::System, "system"),
        (Doing::Machine, "machine"),
        (Doing::Generator, "generator"),
        (Doing::User, "study or user"),
        (Doing::Unclear, "unclear"),
    ];
    let count =
        |doing| of.trials.iter().filter(|trial| trial.validity.cause == Some(doing)).count();
    let known = words.into_iter().map(|(doing, words)| (count(doing), words));
    let known: Vec<(usize, &str)> = known.filter(|(count, _)| *count > 0).collect();
    match known.as_slice() {
        [(_, only)] => (*only).to_owned(),
        several => {
            let each = several.iter().map(|(count, words)| format!("{words} {count}"));
            each.collect::<Vec<_>>().join(", ")
        }
    }
}

/// Returns findings about valid trials whose search did not find the highest rate.
fn searches(of: &Contender, place: &str) -> Vec<String> {
    let (name, all) = (&of.system, trials_text(of.valid_count()));
    let mut found = Vec::new();
    if let Some(why) = &of.contradicted {
        found.push(format!("{name}'s highest rate under {place} is too low: {why}"));
    }
    let mut count = |what: &str, is_it: fn(FoundRate) -> Option<f64>| {
        let rates: Vec<f64> = of.valid().filter_map(|trial| is_it(trial.measured.found?)).collect();
        if let Some(last) = rates.last() {
            let (count, last) = (rates.len(), rate_text(*last));
            found.push(format!(
                "{name} kept its objective under {place} in {count} of {all} {what} {last}"
            ));
        }
    };
    count("at no rate, down to", |found| match found {
        FoundRate::Nothing(rate) => Some(rate),
        _ => None,
    });
    count("at every rate that was tried, up to", |found| match found {
        FoundRate::NoLimit(rate) => Some(rate),
        _ => None,
    });
    found
}
