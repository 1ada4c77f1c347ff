//! Draws up the pictures of a report: one for each workload and load that ran.
//!
//! Not here: the pictures of faults (`outages`), judgements (`derive::judgement`).

use std::cmp::Reverse;

use bakeoff_core::read_write_split::Side;
use bakeoff_core::stats::rounds::Preference;
use bakeoff_core::stats::{self, Figure, and};
use bakeoff_core::units::{capitalized, plural};

use super::outages;
use super::picture::{Dot, Limit, Panel, Picture, Row, number};
use crate::derive::comparison::Comparison;
use crate::derive::headline::counted;
use crate::derive::judgement::{self, JudgedAs, Judgement};
use crate::derive::leader::{deciding, rankings_text};
use crate::model::changed_keys::ChangedKeys;
use crate::model::contender::Contender;
use crate::model::quantity::Quantity;

/// Largest limit of the machine that is drawn, as a multiple of the best median. One further away explains nothing.
const LIMIT_MAX: f64 = 20.0;

/// Returns the pictures of all workloads and loads that ran, in the study's order.
pub(crate) fn pictures(of: &[Comparison], is_gate: bool) -> Vec<Picture> {
    let run: Vec<&Comparison> = of.iter().filter(|one| one.was_run()).collect();
    // Systems keep one order in the whole report: the first load's.
    let order = run.first().map(|one| in_order(one)).unwrap_or_default();
    run.iter().map(|one| picture(one, &order, is_gate)).collect()
}

/// Returns the systems by the deciding figure, the best first.
fn in_order(of: &Comparison) -> Vec<usize> {
    let by = deciding(of)[0];
    let rank = |one: &Contender| match (one.shown(by).value(), judgement::better(by)) {
        _ if one.left_out(&of.place(), false).is_some() => f64::INFINITY,
        (Some(value), Preference::More) => -value,
        (Some(value), Preference::Less) => value,
        (None, _) => f64::INFINITY,
    };
    let mut contenders: Vec<&Contender> = of.contenders.iter().collect();
    contenders.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
    contenders.into_iter().map(|one| one.look).collect()
}

/// Returns the systems of a load in the report's order.
fn ordered<'a>(of: &'a Comparison, order: &[usize]) -> Vec<&'a Contender> {
    let mut contenders: Vec<&Contender> = of.contenders.iter().collect();
    contenders.sort_by_key(|one| order.iter().position(|look| *look == one.look));
    contenders
}

fn picture(of: &Comparison, order: &[usize], is_gate: bool) -> Picture {
    if !of.outages.is_empty() {
        return outages::picture(of);
    }
    let panels = match (of.is_split(), of.load.clients.len()) {
        (true, _) => Side::BOTH.map(Quantity::ThroughputOf).to_vec(),
        (false, 1) => vec![of.compared(), latency(of)],
        // Percentiles over all stages would mix waits of few and of many clients.
        (false, _) => vec![of.compared()],
    };
    let load = match (&of.load.find, of.is_open()) {
        (Some(find), _) => format!("search for the highest rate that keeps {}", find.text()),
        (None, true) => format!(
            "{}: operations are due at a rate, whether or not a client is free",
            of.load_text()
        ),
        (None, false) => format!(
            "{}: a client's next operation waits for the answer to its last",
            of.load_text()
        ),
    };
    Picture {
        place: of.place(),
        load,
        order: rankings_text(of).filter(|_| !is_gate),
        is_gate,
        dot: "a trial",
        panels: panels
            .into_iter()
            .map(|quantity| panel(of, quantity, order))
            .chain(power_cuts(of, order))
            .collect(),
    }
}

/// Returns the panel of what each system lost in power cuts, a dot for each trial; `None` if the power was not cut.
fn power_cuts(of: &Comparison, order: &[usize]) -> Option<Panel> {
    let rows: Vec<Row> = ordered(of, order).into_iter().filter_map(power_cuts_row).collect();
    (!rows.is_empty()).then(|| Panel {
        title: "Acknowledged keys changed by power cuts".to_owned(),
        better: Preference::Less,
        unit: " keys",
        rows,
        leader: None,
        limit: None,
        says: "A dot is a trial; its keys are lost, or have older or wrong values.".to_owned(),
    })
}

fn power_cuts_row(of: &Contender) -> Option<Row> {
    let audits = of.trials.iter().flat_map(|trial| {
        let audits = trial.verdicts.audits.iter();
        audits.filter_map(move |audit| Some((trial, audit, audit.power_cuts?)))
    });
    let (mut dots, mut cuts) = (Vec::new(), 0);
    for (trial, audit, made) in audits {
        let changed = ChangedKeys::found_by(audit).all();
        cuts += made.cuts;
        dots.push(Dot {
            value: changed as f64,
            valid: true,
            says: format!(
                "{}, trial {:02}: {} in {}",
                of.system,
                trial.number,
                plural(changed, "key"),
                plural(made.cuts.into(), "power cut")
            ),
        });
    }
    let values = dots.iter().map(|dot| Figure::Value(dot.value));
    let median = stats::summary(values).median.value();
    (!dots.is_empty()).then(|| Row {
        system: of.system.clone(),
        sub: plural(cuts.into(), "power cut"),
        look: of.look,
        median,
        value: median.map_or_else(String::new, number),
        dots,
        bar: None,
        published: Vec::new(),
        broken_clients: None,
    })
}

/// Returns the latency next to throughput: the deciding one, or a high percentile.
fn latency(of: &Comparison) -> Quantity {
    let is_latency = |one: &Quantity| matches!(one, Quantity::Response(_) | Quantity::Watch(_));
    let decides = deciding(of).into_iter().find(is_latency);
    decides.unwrap_or(Quantity::Response(of.tail(None)))
}

fn panel(of: &Comparison, quantity: Quantity, order: &[usize]) -> Panel {
    let better = judgement::better(quantity);
    let contenders = ordered(of, order);
    let judged: Vec<&Judgement> = of
        .judgements
        .iter()
        .filter(|one| one.quantity == quantity && one.stage.is_none() && one.answer.is_some())
        .collect();
    let is_judged =
        |one: &Contender| judged.iter().any(|of| of.a == one.system || of.b == one.system);
    let leader = contenders
        .iter()
        .filter(|one| is_judged(one))
        .filter_map(|one| Some((*one, one.shown(quantity).value()?)))
        .min_by(|(_, a), (_, b)| match better {
            Preference::More => b.total_cmp(a),
            Preference::Less => a.total_cmp(b),
        });
    let rows: Vec<Row> = contenders
        .iter()
        .map(|one| {
            let bar = leader.and_then(|(leader, median)| {
                let pair =
                    pair(&judged, &leader.system, &one.system).filter(|pair| !has_too_few(pair))?;
                let answer = pair.answer?;
                let answer = if pair.a == one.system { answer } else { answer.turned() };
                let (low, high) = answer.interval;
                Some((low * median, high * median))
            });
            row(one, quantity, bar)
        })
        .collect();
    let is_rate = better == Preference::More;
    let most = rows.iter().filter_map(|row| row.median).fold(0.0, f64::max);
    Panel {
        title: title(of, quantity),
        better,
        unit: if is_rate { " per second" } else { " ms" },
        says: leader.map_or_else(String::new, |(leader, _)| says(&judged, leader, &contenders)),
        leader: leader.map(|(one, median)| (one.system.clone(), median)),
        limit: (quantity == Quantity::ThroughputMean)
            .then(|| limit(of))
            .flatten()
            .filter(|limit| limit.per_second <= LIMIT_MAX * most),
        rows,
    }
}

/// Returns the machine's limit: the disk's if a system waits for it, else loopback's. A sweep has one for each stage.
fn limit(of: &Comparison) -> Option<Limit> {
    let [clients] = of.load.clients.as_slice() else { return None };
    let (limits, under_way) = (of.limits.as_ref()?, clients.saturating_mul(of.load.in_flight));
    let waits = limits.any_waits_for_disk(of.contenders.iter().map(|one| one.system.as_str()));
    if let Some(per_second) = limits.disk(under_way).filter(|_| waits) {
        let rate = match limits.disk_range(under_way) {
            Some((least, most)) => format!("{} to {}", number(least), number(most)),
            None => number(per_second),
        };
        let text = format!("{rate} synced appends per second");
        return Some(Limit { per_second, name: "limit of this disk", text });
    }
    let per_second = limits.loopback(under_way)?;
    let text = format!("{} round trips per second", number(per_second));
    Some(Limit { per_second, name: "limit of loopback", text })
}

fn title(of: &Comparison, quantity: Quantity) -> String {
    let title = match quantity {
        Quantity::HighestRate => "highest rate that keeps the objective, per second".to_owned(),
        Quantity::ThroughputMean | Quantity::ThroughputOf(_) => {
            format!("{} per second", counted(of, quantity))
        }
        // The share image has little room.
        judgement::KNOWN => "p99 time to know, ms".to_owned(),
        other => format!("{}, ms", judgement::what(other)),
    };
    // `p99` is written so everywhere.
    match title.chars().nth(1).is_some_and(|char| char.is_ascii_digit()) {
        true => title,
        false => capitalized(&title),
    }
}

fn pair<'a>(judged: &[&'a Judgement], leader: &str, other: &str) -> Option<&'a Judgement> {
    judged.iter().copied().find(|one| one.is_of(leader, other).is_some())
}

fn row(of: &Contender, quantity: Quantity, bar: Option<(f64, f64)>) -> Row {
    let dots = of.trials.iter().filter_map(|trial| {
        let value = trial.get(quantity).value().filter(|value| value.is_finite())?;
        let why = trial.validity.invalid_because.join("; ");
        let why = if why.is_empty() { why } else { format!("; not valid: {why}") };
        let says = format!("{}, trial {:02}: {}{why}", of.system, trial.number, number(value));
        Some(Dot { value, valid: trial.valid(), says })
    });
    let median = of.shown(quantity).value();
    let value = match (of.trials.is_empty(), of.valid_count(), median) {
        (true, ..) => "not run".to_owned(),
        (false, 0, _) => "not valid".to_owned(),
        (false, _, Some(median)) => number(median),
        (false, _, None) => quantity.short(of.shown(quantity)),
    };
    Row {
        system: of.system.clone(),
        sub: sub(of),
        look: of.look,
        dots: dots.collect(),
        median,
        value,
        bar,
        published: of.published.get(&quantity).copied().into_iter().collect(),
        broken_clients: None,
    }
}

/// Returns the version, or for a composite system its kind.
fn sub(of: &Contender) -> String {
    of.is.version.clone().unwrap_or_default()
}

/// Returns true if too few trials compare: they could not have shown even a tenfold difference. Such a pair has no bar.
fn has_too_few(of: &Judgement) -> bool {
    matches!(of.verdict, JudgedAs::NoneShown { min_detectable } if min_detectable > 10.0)
}

/// Returns what the bars show: `zookeeper's bar ends left of etcd's line: the difference is proven.`
fn says(judged: &[&Judgement], leader: &Contender, contenders: &[&Contender]) -> String {
    let (mut proven, mut not_shown, mut few) = (Vec::new(), Vec::new(), Vec::new());
    for one in contenders.iter().filter(|one| one.system != leader.system) {
        let Some(pair) = pair(judged, &leader.system, &one.system) else { continue };
        let name = one.system.as_str();
        match pair.verdict {
            JudgedAs::Higher | JudgedAs::Lower => proven.push(name),
            _ if has_too_few(pair) => few.push(name),
            _ => not_shown.push(name),
        }
    }
    let than = format!("different from {}", leader.system);
    let mut parts: Vec<(String, usize)> = [
        (format!("proven {than}: "), proven),
        (format!("not shown {than}: "), not_shown),
        (format!("too few trials to compare with {}: ", leader.system), few),
    ]
    .into_iter()
    .filter(|(_, names)| !names.is_empty())
    .map(|(text, names)| (format!("{text}{}", and(&names)), names.len()))
    .collect();
    parts.sort_by_key(|(_, count)| Reverse(*count));
    let text = parts.into_iter().map(|(text, _)| text).collect::<Vec<_>>().join("; ");
    match text.is_empty() {
        true => text,
        false => format!("{}.", capitalized(&text)),
    }
}
