//! Parses the published figures of a study.

use std::collections::BTreeSet;

use super::loads::ReadLoad;
use super::systems::ReadSystem;
use super::workloads::ReadWorkload;
use crate::study::fields::{self, FIGURE};
use crate::study::reading::{Fields, number};
use crate::study::tree::{ByteRange, DiagnosticSink, Node};
use crate::study::{Fault, Metric, Operation, PublishedValue};
use crate::suggest::{list, suggest};
use crate::units::shown;

pub(super) fn read(
    sink: &mut DiagnosticSink<'_>,
    top: &Fields<'_>,
    systems: &[ReadSystem<'_>],
    workloads: &[ReadWorkload],
    loads: &[ReadLoad],
    faults: Option<&[Fault]>,
) -> Vec<PublishedValue> {
    if top.node("published").is_none() {
        return Vec::new();
    }
    let mut known = BTreeSet::new();
    let mut published = Vec::new();
    for item in top.list(sink, "published").unwrap_or_default() {
        for (at, one) in entry(sink, item, systems, workloads, loads, faults).unwrap_or_default() {
            let names = (one.system.clone(), one.workload.clone(), one.load.clone());
            let key = (names, one.operation, one.fault.clone(), one.metric);
            if known.insert(key) {
                published.push(one);
            } else {
                let what = format!(
                    "`{}` of `{}` in `{}` under `{}` is published twice",
                    one.metric, one.system, one.workload, one.load
                );
                sink.add(&at, what);
            }
        }
    }
    published
}

fn entry(
    sink: &mut DiagnosticSink<'_>,
    item: &Node,
    systems: &[ReadSystem<'_>],
    workloads: &[ReadWorkload],
    loads: &[ReadLoad],
    faults: Option<&[Fault]>,
) -> Option<Vec<(ByteRange, PublishedValue)>> {
    let at = item.at.start..item.at.start + 1;
    let fields = Fields::open(sink, &fields::PUBLISHED, "a published figure", &at, item)?;
    let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let known = names(systems.iter().map(|system| system.name.as_str()).collect());
    let system = reference(sink, &fields, "system", &known);
    let known = names(workloads.iter().map(|workload| workload.name.as_str()).collect());
    let workload = reference(sink, &fields, "workload", &known)
        .and_then(|name| workloads.iter().find(|workload| workload.name == name));
    let load = workload.and_then(|workload| load(sink, &fields, workload, loads));
    let operation = fields.word(sink, "operation", Operation::ALL);
    if let (Some(operation), Some(workload)) = (operation, workload)
        && !workload.mix_at.contains_key(&operation)
    {
        let what = format!("workload `{}` has no `{operation}` in its mix", workload.name);
        let names: Vec<_> = workload.mix_at.keys().map(|operation| operation.name()).collect();
        sink.hint(fields.value_at("operation"), what, format!("it has {}", list(&names)));
    }
    let note = fields.text(sink, "note");
    let figures = figures(sink, &fields)?;
    let fault = fault(sink, &fields, system.as_deref(), faults, &figures)?;
    let (system, workload, load) = (system?, workload?.name.clone(), load?);
    let one = |(at, metric, value)| {
        let (system, workload, load) = (system.clone(), workload.clone(), load.clone());
        let (fault, note) = (fault.clone(), note.clone());
        (at, PublishedValue { system, workload, load, operation, fault, metric, value, note })
    };
    Some(figures.into_iter().map(one).collect())
}

/// Parses the fault of published outages; `Some(None)` for other figures.
fn fault(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    system: Option<&str>,
    faults: Option<&[Fault]>,
    figures: &[(ByteRange, Metric, f64)],
) -> Option<Option<String>> {
    let is_outage = |metric: Metric| matches!(metric, Metric::OutageMinS | Metric::OutageMaxS);
    let given = fields.node("fault").is_some();
    if let Some((at, metric, _)) = figures.iter().find(|one| is_outage(one.1) != given) {
        let (what, hint) = match given {
            true => ("a `fault`", "with `fault`, write `outage-min-s` and `outage-max-s`"),
            false => ("no `fault`", "add the fault that caused the outage, `fault: leader-killed`"),
        };
        sink.hint(at, format!("`{metric}` of {} with {what}", fields.what), hint);
        return None;
    }
    if !given {
        return Some(None);
    }
    let befalls = |one: &&Fault| system.is_none_or(|system| one.befalls(system));
    let known: Vec<String> = faults?.iter().filter(befalls).map(|one| one.name.clone()).collect();
    reference(sink, fields, "fault", &known).map(Some)
}

/// Returns the name in a field if the study has it.
fn reference(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    noun: &str,
    known: &[String],
) -> Option<String> {
    let name = fields.text(sink, noun)?;
    if known.contains(&name) {
        return Some(name);
    }
    let what = format!("unknown {noun} `{}` in {}", shown(&name), fields.what);
    let hint = suggest(&name, known.iter().map(String::as_str), &format!("known {noun}s:"));
    sink.hint(fields.value_at(noun), what, hint);
    None
}

fn load(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    workload: &ReadWorkload,
    loads: &[ReadLoad],
) -> Option<String> {
    if fields.node("load").is_some() {
        let all: Vec<_> = loads.iter().map(|load| load.name.clone()).collect();
        let load = reference(sink, fields, "load", &all)?;
        if workload.loads.contains(&load) {
            return Some(load);
        }
        let what = format!("workload `{}` does not use load `{load}`", workload.name);
        let names: Vec<_> = workload.loads.iter().map(String::as_str).collect();
        sink.hint(fields.value_at("load"), what, format!("its loads: {}", list(&names)));
        return None;
    }
    match workload.loads.as_slice() {
        [only] => Some(only.clone()),
        [] => None,
        several => {
            let names: Vec<_> = several.iter().map(String::as_str).collect();
            let what = format!("{} does not name its load", fields.what);
            let hint =
                format!("workload `{}` has the loads {}; add `load`", workload.name, list(&names));
            sink.hint(&fields.at, what, hint);
            None
        }
    }
}

fn figures(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
) -> Option<Vec<(ByteRange, Metric, f64)>> {
    let has = |name| fields.node(name).is_some();
    match (has("metric"), has("value"), has("figures")) {
        (true, true, false) => {
            let metric = fields.word(sink, "metric", Metric::ALL);
            let value = fields.number(sink, "value");
            Some(vec![(fields.value_at("metric").clone(), metric?, value?)])
        }
        (false, false, true) => {
            let mut figures = Vec::new();
            let entries = fields.entries(sink, "figures")?;
            if entries.is_empty() {
                sink.add(fields.value_at("figures"), "`figures` is empty");
            }
            for entry in entries {
                let metric = Metric::ALL.iter().find(|metric| metric.name() == entry.key);
                if metric.is_none() {
                    let what = format!("unknown metric `{}`", shown(&entry.key));
                    let names = Metric::NAMES.iter().copied();
                    let hint = suggest(&entry.key, names, "known metrics:");
                    sink.hint(&entry.key_at, what, hint);
                }
                let value = number(sink, &shown(&entry.key), &FIGURE, &entry.node);
                if let (Some(metric), Some(value)) = (metric, value) {
                    figures.push((entry.key_at.clone(), *metric, value));
                }
            }
            Some(figures)
        }
        _ => {
            let hint = "write either `metric: throughput-mean` and `value: 2921`, or \
                        `figures: {throughput-mean: 2921}`";
            let what = format!("{} needs one metric and its value, or figures", fields.what);
            sink.hint(&fields.at, what, hint);
            None
        }
    }
}
