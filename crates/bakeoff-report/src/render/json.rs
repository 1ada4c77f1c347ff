//! Renders a report as JSON.
//!
//! Numbers have full precision, and units in their names. A missing figure is `null`. A latency above an hour is also
//! `null` and named under `beyond_one_hour`. A percentile that failures reach, or that has too few operations, is
//! `null`, with the reason in `none_because`. A figure that includes failures is `null`, with its lower bound in
//! `at_least`.

use bakeoff_core::check::{Audit, Cause};
use bakeoff_core::plan;
use bakeoff_core::search::TriedRate;
use bakeoff_core::stats::Figure;
use serde_json::{Map, Value, json};

use crate::derive::comparison::Comparison;
use crate::derive::judgement::{JudgedAs, Judgement};
use crate::derive::leader::{Leader, leader, rankings_text};
use crate::derive::method::Assessment;
use crate::derive::outages::{FaultOutages, InjectionFigures, SystemOutages};
use crate::derive::position::Position;
use crate::derive::published_figures::{self, PublishedFigure};
use crate::derive::{findings, log_findings, machine_baseline, staleness};
use crate::document::report::Report;
use crate::document::{sentences, words};
use crate::model::contender::{Contender, not_checked};
use crate::model::figures::Figures;
use crate::model::quantity::{Aggregation, Quantity};
use crate::model::trial::TrialFigures;

/// Version of the JSON. Raised when a name or a meaning changes, but not for additions.
pub const FORMAT: u32 = 1;

/// Renders the whole report.
pub fn json(report: &Report) -> Value {
    let header = &report.header;
    let study = &header.study;
    json!({
        "format": FORMAT,
        "title": words::title(study),
        "study": study.name,
        "quick": study.is_quick,
        "scale": study.scale,
        "verdict": report.headline.verdict,
        "support": report.headline.support,
        "conclusion": report.conclusion,
        "published": report.deciding().and_then(published),
        "broken_guarantees": report.broken,
        "summary": report.summary(),
        "sentence": report.sentence,
        "sentences": report.sentences,
        "families": sentences::families(&report.comparisons),
        "findings": report.findings(),
        "fairness": report.fairness,
        "method": report.method.iter().map(demand).collect::<Vec<_>>(),
        "complete": report.complete,
        "trials_planned": header.order.len(),
        "trials_run": report.trials_run,
        "rounds": {
            "count": header.rounds,
            "at_most": study.trials,
            "answered_after": report.answered_after,
        },
        "started": header.started,
        "ended": report.ended,
        "bakeoff": header.bakeoff,
        "seed": header.seed,
        "environment": header.environment,
        "systems": header.systems,
        "publication": study.publication,
        "comparisons": report.comparisons.iter().map(comparison).collect::<Vec<_>>(),
    })
}

/// Renders the deciding workload's published figures, each with the run's own; `None` without any.
fn published(of: &Comparison) -> Option<Value> {
    let order = published_figures::order(of);
    let figure = |one: &PublishedFigure<'_>| {
        json!({
            "system": one.system.system,
            "operation": one.subject.operation,
            "quantity": one.subject.quantity.name(),
            "published": one.published,
            "measured": number(one.subject.quantity, one.measured),
            "ratio": one.ratio(),
        })
    };
    let figures = published_figures::figures(of);
    (!figures.is_empty()).then(|| {
        json!({
            "workload": of.workload.name,
            "load": of.load.name,
            "order": order.as_ref().map(|order| &order.sentence),
            "order_is_reversed": order.map(|order| order.is_reversed),
            "figures": figures.iter().map(figure).collect::<Vec<_>>(),
        })
    })
}

fn demand(of: &Assessment) -> Value {
    json!({"by": of.demand.by, "asks": of.demand.asks, "met": of.met.name(), "why": of.why})
}

fn comparison(of: &Comparison) -> Value {
    let (best, unequal) = match leader(of) {
        Leader::Proven(name) => (Some(name), None),
        Leader::Unequal(name) => (None, Some(name)),
        Leader::NotShown | Leader::NotJudged => (None, None),
    };
    json!({
        "workload": of.workload.name,
        "load": of.load.name,
        "load_kind": plan::load_kind(&of.load),
        "load_text": of.load_text(),
        "workload_asked": of.workload,
        "load_asked": of.load,
        "sentence": of.sentence(),
        "order": rankings_text(of),
        "best": best,
        "fastest_under_unequal_conditions": unequal,
        "findings": findings::findings(of).into_iter().map(|one| one.text).collect::<Vec<_>>(),
        "order_effect": of.position.as_ref().map(Position::json),
        "judgements": of.judgements.iter().map(judgement).collect::<Vec<_>>(),
        "machine_baseline": machine_baseline::bounds(of, of.limits.as_ref()),
        "faults": of.outages.iter().map(fault).collect::<Vec<_>>(),
        "systems": of.contenders.iter().map(contender).collect::<Vec<_>>(),
    })
}

/// Renders the outages of one fault. Times are in seconds.
fn fault(of: &FaultOutages) -> Value {
    let system = |one: &SystemOutages| {
        json!({
            "system": one.system,
            "service_lost": one.service_lost(),
            "service_lost_interval": one.interval(),
            "outage": one.outage(),
            "published": one.published,
            "published_notes": one.notes,
            "lost": one.changed().map(|keys| keys.lost),
            "older": one.changed().map(|keys| keys.older),
            "wrong": one.changed().map(|keys| keys.wrong),
            "injections": one.injections.iter().map(injection).collect::<Vec<_>>(),
        })
    };
    json!({
        "fault": of.fault,
        "least_service_lost": of.best().map(|place| &of.systems[place].system),
        "systems": of.systems.iter().map(system).collect::<Vec<_>>(),
    })
}

fn injection(of: &InjectionFigures) -> Value {
    json!({
        "trial": of.place.0,
        "repeat": of.place.1,
        "cluster": of.cluster,
        "from": of.from,
        "healed": of.healed,
        "outage": of.outage,
        "parts": of.parts,
        "sequence": of.sequence,
        "effects": of.effects,
        "left_out": of.left_out,
        "lost": of.changed.map(|keys| keys.lost),
        "older": of.changed.map(|keys| keys.older),
        "wrong": of.changed.map(|keys| keys.wrong),
        "untrue": of.untrue,
        "leases_expired": of.leases_expired,
    })
}

/// Renders the comparison of two systems by a figure. `ratio` is `a` divided by `b`.
fn judgement(of: &Judgement) -> Value {
    let min_detectable = match of.verdict {
        JudgedAs::NoneShown { min_detectable } => Some(min_detectable),
        _ => None,
    };
    json!({
        "a": of.a,
        "b": of.b,
        "quantity": of.quantity.name(),
        "stage": of.stage.map(|stage| json!({"number": stage + 1, "clients": of.clients})),
        "leading": of.leading,
        "a_median": number(of.quantity, of.medians.0),
        "b_median": number(of.quantity, of.medians.1),
        "ratio": of.answer.map(|answer| answer.ratio),
        "interval": of.answer.map(|answer| [answer.interval.0, answer.interval.1]),
        "confidence_of_this_interval": of.answer.map(|answer| answer.confidence),
        "bootstrap_interval_alone": of.bootstrap.map(|(low, high)| [low, high]),
        "rounds": of.rounds,
        "corrected_for": of.family,
        "verdict": of.verdict_name(),
        "conditions": of.winner().map_or_else(Vec::new, |winner| {
            of.conditions.iter().map(|one| one.json(winner)).collect()
        }),
        "holds_in_whole_report": of.in_report,
        "p_value_alone": of.answer.map(|answer| answer.p_value),
        "medians_at_worst": of.worst.map(|(a, b)| {
            let at_worst = |value| number(of.quantity, Figure::from(Some(value)));
            [at_worst(a), at_worst(b)]
        }),
        "would_have_seen_ratio": min_detectable,
        "words": of.words(),
    })
}

fn contender(of: &Contender) -> Value {
    let not_checked: Vec<Value> = not_checked(&of.trials)
        .into_iter()
        .map(|(what, why, trials)| json!({"what": what.to_string(), "why": why, "trials": trials}))
        .collect();
    json!({
        "system": of.system,
        "valid": of.valid_count() > 0,
        "trials_planned": of.planned,
        "trials_run": of.run_count(),
        "trials_valid": of.valid_count(),
        "error_share": of.error_share(),
        "figures": combined(of),
        "published_notes": of.notes,
        "not_checked": not_checked,
        "staleness": staleness::json(&staleness::nodes(of)),
        "servers_said": log_findings::complaints(of),
        "trials": of.trials.iter().map(trial).collect::<Vec<_>>(),
    })
}

/// Renders every quantity over the valid trials, with the published figure.
fn combined(of: &Contender) -> Value {
    let mut quantities: Vec<Quantity> =
        of.trials.iter().flat_map(|trial| trial.measured.figures.keys().copied()).collect();
    quantities.extend(of.published.keys());
    quantities.sort_unstable();
    quantities.dedup();
    let one = |quantity: Quantity| {
        let summary = of.summary(quantity);
        let mut figure = Map::new();
        let name = match quantity.combined() {
            Aggregation::Median => "median",
            Aggregation::Sum => "sum",
        };
        figure.insert(name.into(), number(quantity, of.shown(quantity)));
        figure.insert("min".into(), number(quantity, summary.min));
        figure.insert("max".into(), number(quantity, summary.max));
        figure.insert("trials".into(), summary.trials.into());
        let bounds = [(name, of.shown(quantity)), ("min", summary.min), ("max", summary.max)];
        let beyond: Vec<&str> = bounds
            .iter()
            .filter(|(_, figure)| *figure == Figure::Beyond)
            .map(|(name, _)| *name)
            .collect();
        if !beyond.is_empty() {
            figure.insert("beyond_one_hour".into(), beyond.into());
        }
        match of.shown(quantity) {
            Figure::AtLeast(least) => {
                figure.insert("at_least".into(), least.into());
            }
            shown => figure.extend(
                none_because(quantity, shown).map(|why| ("none_because".to_owned(), why.into())),
            ),
        }
        if let Some(&published) = of.published.get(&quantity) {
            figure.insert("published".into(), published.into());
        }
        (quantity.name(), Value::Object(figure))
    };
    Value::Object(quantities.into_iter().map(one).collect())
}

fn trial(of: &TrialFigures) -> Value {
    let operations: Map<String, Value> =
        of.measured.operations.iter().map(|(name, of)| (name.clone(), figures(of))).collect();
    let stages: Vec<Value> = of
        .measured
        .stages
        .iter()
        .map(|(clients, of)| json!({"clients": clients, "figures": figures(of)}))
        .collect();
    let errors: Vec<Value> = of
        .errors
        .examples
        .iter()
        .map(|(kind, example)| {
            let kind = kind.map_or("connection lost", bakeoff_core::measurement::ErrorKind::key);
            json!({
                "kind": kind,
                "at_seconds": example.at_seconds,
                "node": example.node,
                "what": example.what,
            })
        })
        .collect();
    json!({
        "number": of.number,
        "round": of.round,
        "started": of.started,
        "leader": of.servers.leader,
        "valid": of.valid(),
        "invalid_because": of.validity.invalid_because,
        "cause": of.validity.cause.map(Cause::name),
        "interrupted": of.validity.interrupted,
        "keys_exhausted": of.validity.keys_exhausted,
        "figures": figures(&of.measured.figures),
        "operations": operations,
        "staleness": staleness::json(&of.servers.staleness),
        "stages": stages,
        "search": search(of),
        "first_errors": errors,
        "errors_said": of.errors.error_texts.iter().map(|(kind, one)| json!({
            "kind": kind.key(), "text": one.text, "count": one.count,
        })).collect::<Vec<_>>(),
        "two_humps": of.anomalies.bimodal.as_ref().map(|found| json!({
            "operation": found.operation,
            "clients": found.clients,
            "with_failures": found.with_failures,
            "words": found.modes.text(),
        })),
        "failures_lasted": of.anomalies.lasted.map(|lasted| lasted.text()),
        "nodes": of.servers.nodes,
        "memory_of": of.servers.memory_of,
        "events": of.drawn.timeline.events.iter().map(|event| json!({
            "at_seconds": event.at, "what": event.text,
        })).collect::<Vec<_>>(),
        "audits": of.verdicts.audits.iter().map(audit).collect::<Vec<_>>(),
        "checks": of.verdicts.checks,
        "linearizability": of.verdicts.history,
    })
}

/// Renders the result of a search with each tried rate in order; null for other loads.
fn search(of: &TrialFigures) -> Value {
    if of.measured.tries.is_empty() {
        return Value::Null;
    }
    let tried = |(tried, of): &(TriedRate, Figures)| {
        json!({
            "rate_per_second": tried.rate,
            "confirming": tried.confirming,
            "kept": tried.kept(),
            "broken_by": tried.broken_by,
            "says_nothing_of_the_system": tried.void,
            "figures": figures(of),
        })
    };
    let tries: Vec<Value> = of.measured.tries.iter().map(tried).collect();
    json!({"result": of.measured.found, "tries": tries})
}

fn audit(of: &Audit) -> Value {
    serde_json::to_value(of).unwrap_or(Value::Null)
}

fn figures(of: &Figures) -> Value {
    let mut figures: Map<String, Value> =
        of.iter().map(|(quantity, figure)| (quantity.name(), number(*quantity, *figure))).collect();
    let beyond: Vec<String> = of
        .iter()
        .filter(|(_, figure)| **figure == Figure::Beyond)
        .map(|(quantity, _)| quantity.name())
        .collect();
    if !beyond.is_empty() {
        figures.insert("beyond_one_hour".into(), beyond.into());
    }
    let all = || of.iter().map(|(&quantity, &figure)| (quantity, figure));
    let none: Map<String, Value> = all()
        .filter_map(|(quantity, figure)| {
            Some((quantity.name(), none_because(quantity, figure)?.into()))
        })
        .collect();
    if !none.is_empty() {
        figures.insert("none_because".into(), none.into());
    }
    let least: Map<String, Value> = all()
        .filter_map(|(quantity, figure)| match figure {
            Figure::AtLeast(least) => Some((quantity.name(), least.into())),
            _ => None,
        })
        .collect();
    if !least.is_empty() {
        figures.insert("at_least".into(), least.into());
    }
    Value::Object(figures)
}

/// Returns why there is no number although something was measured.
pub(crate) fn none_because(quantity: Quantity, figure: Figure) -> Option<String> {
    match figure {
        Figure::Failed { .. } => Some(quantity.text(figure).replacen("none: ", "", 1)),
        Figure::TooFew { .. } => Some(quantity.text(figure)),
        _ => None,
    }
}

pub(crate) fn number(quantity: Quantity, figure: Figure) -> Value {
    match figure.value() {
        // A median of two counts may lie between them.
        Some(value) if quantity.is_count() && value.fract() == 0.0 => (value as u64).into(),
        value => value.map_or(Value::Null, Value::from),
    }
}
