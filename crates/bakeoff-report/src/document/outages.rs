//! Costs of faults as picture and tables: a panel for each fault, systems against faults, and all figures of a fault.
//!
//! Not here: the outages and their comparison (`derive::outages`), the charts (`render::html::outages`).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use bakeoff_core::measurement::LoadPart;
use bakeoff_core::stats::and;
use bakeoff_core::stats::clusters::BoundedFigure;
use bakeoff_core::stats::judge::{Finding, TestResult};
use bakeoff_core::stats::rounds::Preference;
use bakeoff_core::units::{capitalized, count_text, figure_text, plural, share_text};
use bakeoff_core::watch::WatchCounts;

use super::picture::{Dot, Panel, Picture, Row, number};
use super::table::{Cell, Column, Table};
use super::tables::{shown, trials};
use crate::derive::comparison::Comparison;
use crate::derive::effects;
use crate::derive::outages::{
    FaultOutages, InjectionFigures, LOST_MIN, SystemOutages, bound, bounded, seconds_text, shorter,
};
use crate::model::changed_keys::ChangedKeys;
use crate::model::contender::Contender;
use crate::model::quantity::{Point, Quantity};

/// Meaning of a dot in the picture.
pub(crate) const DOT: &str = "an injection";

/// Returns the picture of a load with faults: a panel for each fault, with a dot for each injection. All panels have the
/// systems in one order, because only the first one shows their names.
pub(super) fn picture(of: &Comparison) -> Picture {
    Picture {
        place: of.place(),
        load: format!("{}: operations due after a fault and not served in time", of.load_text()),
        order: None,
        is_gate: false,
        dot: DOT,
        panels: of.outages.iter().map(|fault| panel(of, fault)).collect(),
    }
}

fn panel(comparison: &Comparison, of: &FaultOutages) -> Panel {
    let mut places: Vec<usize> = (0..of.systems.len()).collect();
    let lost = |place: &usize| {
        of.systems[*place].service_lost().unwrap_or(BoundedFigure::at_least(f64::MAX))
    };
    // A system that broke a guarantee leads nothing.
    let broken = |place: &usize| of.systems[*place].broken;
    places.sort_by(|a, b| broken(a).cmp(&broken(b)).then_with(|| shorter(lost(a), lost(b))));
    let leader = places.first().copied().filter(|_| !of.pairs.is_empty());
    let leads = leader.map(|place| (place, lost(&place).drawn().max(LOST_MIN)));
    let rows = systems(comparison).map(|system| {
        let Some(place) = of.systems.iter().position(|one| one.system == system.system) else {
            return Row { value: "not injected".to_owned(), ..Row::without_figure(system) };
        };
        let bar = leads.and_then(|(leader, median)| {
            let interval = against(of, place, leader)?.interval;
            Some((interval.0 * median, interval.1 * median))
        });
        row(comparison, &of.systems[place], bar)
    });
    Panel {
        title: capitalized(&format!("seconds of service lost, {}", of.fault.text())),
        better: Preference::Less,
        unit: " s",
        rows: rows.collect(),
        says: leads.map_or_else(String::new, |(leader, _)| says(of, leader, &places)),
        leader: leads.map(|(place, median)| (of.systems[place].system.clone(), median)),
        limit: None,
    }
}

/// Returns the systems that any fault happened to, in the order of the report.
fn systems(of: &Comparison) -> impl Iterator<Item = &SystemOutages> {
    let find = |system: &str| {
        let mut all = of.outages.iter().flat_map(|fault| &fault.systems);
        all.find(|one| one.system == system)
    };
    of.contenders.iter().filter_map(move |one| find(&one.system))
}

/// Returns the answer about a system relative to another one.
fn against(of: &FaultOutages, place: usize, leader: usize) -> Option<TestResult> {
    of.pairs.iter().find_map(|(a, b, answer)| match (*a, *b) {
        pair if pair == (place, leader) => Some(*answer),
        pair if pair == (leader, place) => Some(answer.turned()),
        _ => None,
    })
}

/// Returns what the bars show.
fn says(of: &FaultOutages, leader: usize, places: &[usize]) -> String {
    let name = |place: usize| of.systems[place].system.as_str();
    let others = places.iter().copied().filter(|place| *place != leader);
    let (proven, not_shown): (Vec<usize>, Vec<usize>) = others.partition(|place| {
        against(of, *place, leader).is_some_and(|answer| answer.finding == Finding::Higher)
    });
    let clause = |text: &str, places: &[usize]| {
        let names: Vec<&str> = places.iter().map(|place| name(*place)).collect();
        (!names.is_empty()).then(|| format!("{text} than {}: {}.", name(leader), and(&names)))
    };
    let clauses =
        [clause("Proven to lose more", &proven), clause("Not shown to lose more", &not_shown)];
    clauses.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

impl Row {
    /// Returns a row of a system without a figure.
    fn without_figure(of: &SystemOutages) -> Self {
        Self {
            system: of.system.clone(),
            sub: String::new(),
            look: of.look,
            dots: Vec::new(),
            median: None,
            value: String::new(),
            bar: None,
            published: Vec::new(),
            broken_clients: None,
        }
    }
}

fn row(comparison: &Comparison, of: &SystemOutages, bar: Option<(f64, f64)>) -> Row {
    let dots = of.injections.iter().map(|one| {
        let (trial, repeat) = one.place;
        let value = one.outage.service_lost.drawn();
        let says = format!("{}, trial {trial:02}, injection {repeat}: {}", of.system, text(one));
        let valid = one.left_out.is_none();
        let why =
            one.left_out.as_ref().map_or_else(String::new, |why| format!("; left out: {why}"));
        Dot { value, valid, says: says + &why }
    });
    let contender = comparison.contenders.iter().find(|one| one.system == of.system);
    Row {
        sub: contender.and_then(|one| one.is.version.clone()).unwrap_or_default(),
        dots: dots.collect(),
        median: of.service_lost().map(BoundedFigure::drawn),
        value: of.service_lost().map_or_else(
            || "not valid".to_owned(),
            |lost| format!("{}{}", bound(lost), number(lost.drawn())),
        ),
        bar,
        published: of.published.clone(),
        broken_clients: of_clients(of, true).map(BoundedFigure::drawn),
        ..Row::without_figure(of)
    }
}

/// Returns the median outage of the clients of the broken nodes, or of the others.
fn of_clients(of: &SystemOutages, broken: bool) -> Option<BoundedFigure> {
    of.part(|part| matches!(part.part, LoadPart::Node(_)) && part.broken == broken)
}

/// Words the cost of one injection: `3.90 s of service lost, longest outage 0.61 s`.
fn text(of: &InjectionFigures) -> String {
    let lost = bounded(of.outage.service_lost);
    format!("{lost} of service lost, longest outage {}", length_text(of))
}

/// Returns the service that each system lost by each fault, next to its undisturbed throughput and latency.
pub(super) fn key_figures(of: &Comparison) -> Table {
    let rows: Vec<&Contender> = of.contenders.iter().collect();
    let column = |head: &str, cell: &dyn Fn(&Contender) -> Cell| {
        let cells = rows.iter().map(|one| match (one.trials.is_empty(), one.valid_count()) {
            (true, _) => Cell::Missing,
            (false, 0) => Cell::NotValid,
            _ => cell(one),
        });
        vec![Column { head: vec![head.to_owned()], cells: cells.collect() }]
    };
    let mut groups: Vec<Vec<Column>> = Vec::new();
    for fault in &of.outages {
        let best = fault.best();
        let cells = rows.iter().map(|one| {
            let place = fault.systems.iter().position(|system| system.system == one.system);
            match place {
                None => Cell::NotMeasured,
                Some(place) => cell(&fault.systems[place], best == Some(place)),
            }
        });
        groups.push(vec![Column { head: vec![fault.fault.name.clone()], cells: cells.collect() }]);
    }
    let changed = rows.iter().map(|one| {
        let of_system = of.outages.iter().flat_map(|fault| &fault.systems);
        let own = of_system.filter(|system| system.system == one.system);
        own.filter_map(SystemOutages::changed).reduce(|a, b| a + b)
    });
    let changed: Vec<Option<ChangedKeys>> = changed.collect();
    for (head, count, is_always) in KEYS {
        let counts: Vec<Option<u64>> = changed.iter().map(|keys| keys.map(count)).collect();
        if is_always || counts.iter().flatten().any(|count| *count > 0) {
            let cells = counts.iter().map(|count| Cell::or_missing(count.map(none_or_count)));
            groups.push(vec![Column { head: vec![head.to_owned()], cells: cells.collect() }]);
        }
    }
    for (head, quantity) in [
        ("undisturbed /s", Quantity::ThroughputMean),
        ("undisturbed p99", Quantity::Response(Point::P99)),
    ] {
        let cell = |one: &Contender| shown(one.shown(quantity), |figure| quantity.short(figure));
        groups.push(column(head, &cell));
    }
    let count = |one: &&Contender| trials(one).into();
    let counts = rows.iter().map(count).collect();
    groups.push(vec![Column { head: vec!["trials".to_owned()], cells: counts }]);
    Table {
        title: Some(format!("{}: seconds of service lost", of.place_and_load())),
        corner: "system".to_owned(),
        labels: rows.iter().map(|one| one.system.clone()).collect(),
        groups,
    }
}

fn counted_text(of: &SystemOutages) -> String {
    let (counted, all) = (of.counted().count() as u64, of.injections.len() as u64);
    match counted == all {
        true => count_text(all),
        false => format!("{} of {}", count_text(counted), count_text(all)),
    }
}

/// Returns the failed operations: `40 (20 leases expired)`.
fn failed_text(of: &SystemOutages) -> String {
    let failed = count_text(of.sum(|one| one.outage.failed));
    match of.sum(|one| one.leases_expired) {
        0 => failed,
        expired => format!("{failed} ({} expired)", plural(expired, "lease")),
    }
}

fn none_or_count(count: u64) -> String {
    if count == 0 { "none".to_owned() } else { count_text(count) }
}

/// Columns of the key figures about keys that were read back: head, count, and true if the column is always shown.
type KeysColumn = (&'static str, fn(ChangedKeys) -> u64, bool);

const KEYS: [KeysColumn; 3] = [
    ("writes lost", |keys| keys.lost, true),
    ("older values", |keys| keys.older, false),
    ("wrong values", |keys| keys.wrong, false),
];

/// Returns the service that one system lost: `1.21 (1.13 to 1.29)`.
fn cell(of: &SystemOutages, is_best: bool) -> Cell {
    let Some(lost) = of.service_lost() else { return Cell::NotValid };
    let interval = of.interval().map_or_else(String::new, |(low, high)| {
        format!(" ({} to {})", figure_text(low), figure_text(high))
    });
    let text = format!("{}{}{interval}", bound(lost), figure_text(lost.drawn()));
    if is_best { Cell::Best(text) } else { Cell::Text(text) }
}

/// A figure of a fault: its name and its text for a system. `{tail}` is the name of a percentile.
type OutageFigure = (&'static str, fn(&SystemOutages) -> Option<String>);

const FIGURES: [OutageFigure; 18] = [
    ("injections", |of| Some(counted_text(of))),
    ("service lost, median", |of| of.service_lost().map(bounded)),
    ("outage, median", |of| of.outage().map(bounded)),
    ("outage, shortest", |of| of.counted().min_by(by_length).map(length_text)),
    ("outage, longest", |of| of.counted().max_by(by_length).map(length_text)),
    ("outage of the broken nodes' clients, median", |of| of_clients(of, true).map(bounded)),
    ("outage of the other nodes' clients, median", |of| of_clients(of, false).map(bounded)),
    ("fault to first success", |of| of.median(|one| one.outage.first_success).map(seconds_text)),
    ("end of the fault to full rate", |of| of.median(|one| one.outage.full_rate).map(seconds_text)),
    ("end of the fault to {tail} within twice of before", |of| {
        of.median(|one| one.outage.tail_back).map(seconds_text)
    }),
    ("operations failed", |of| Some(failed_text(of))),
    ("operations of unknown outcome", |of| Some(count_text(of.sum(|one| one.outage.unknown)))),
    ("operations delayed", |of| {
        let delayed = of.injections.iter().map(|one| one.outage.delayed);
        delayed.sum::<Option<u64>>().map(count_text)
    }),
    ("operations due and not done", |of| {
        of.median(|one| Some(one.outage.lost_share)).map(share_text)
    }),
    ("wrong or stale answers", |of| Some(none_or_count(of.sum(|one| one.untrue)))),
    ("acknowledged keys lost", |of| of.changed().map(|keys| none_or_count(keys.lost))),
    ("acknowledged keys with older values", |of| {
        of.changed().map(|keys| none_or_count(keys.older))
    }),
    ("acknowledged keys with wrong values", |of| {
        of.changed().map(|keys| none_or_count(keys.wrong))
    }),
];

/// Figures of watchers, in the same form. They are shown if any system has watchers.
const WATCHES: [OutageFigure; 7] = [
    ("watchers: longest silence", |of| of.watch_silence().map(seconds_text)),
    ("watchers resumed", |of| watched(of, |counts| counts.resumes)),
    ("watchers: events lost", |of| {
        watched(of, |counts| counts.lost.saturating_add(counts.lost_on_resume))
    }),
    ("watchers: versions never delivered", |of| watched(of, |counts| counts.undelivered)),
    ("watchers: events repeated", |of| watched(of, |counts| counts.repeated)),
    ("watchers: events out of order", |of| watched(of, |counts| counts.reordered)),
    ("watchers: reports of a lost history", |of| watched(of, |counts| counts.histories_gone)),
];

/// Formats a count of a system's watchers; `None` without watchers.
fn watched(of: &SystemOutages, count: fn(&WatchCounts) -> u64) -> Option<String> {
    of.watch_silence().map(|_| none_or_count(count(&of.watch_counts())))
}

fn by_length(a: &&InjectionFigures, b: &&InjectionFigures) -> Ordering {
    shorter(a.outage.length(), b.outage.length())
}

/// Formats the outage of one injection: `1.21 s`, `< 20 ms`.
fn length_text(of: &InjectionFigures) -> String {
    bounded(of.outage.length())
}

/// Returns all figures of a fault, with a column for each system.
pub(crate) fn table(of: &FaultOutages) -> Table {
    let operations: BTreeSet<&str> =
        of.systems.iter().flat_map(SystemOutages::operations).collect();
    let is_published = of.systems.iter().any(|one| !one.published.is_empty());
    let effects = effects::figures(of);
    let is_watched = of.systems.iter().any(|one| one.watch_silence().is_some());
    let watches = if is_watched { &WATCHES[..] } else { &[] };
    let column = |system: &SystemOutages| {
        let figures = FIGURES.iter().chain(watches).map(|(_, text)| text(system));
        let by_operation = operations
            .iter()
            .map(|name| system.part(|part| part.part.is_operation(name)).map(bounded));
        let by_step = of.fault.action.steps().iter().map(|fault| system.step(fault).map(bounded));
        let by_effect = effects.iter().map(|(_, text)| text(&of.fault, system));
        let published = is_published.then(|| system.published_text());
        let cells = by_effect.chain(figures).chain(by_operation).chain(by_step).chain(published);
        let cells = cells.map(Cell::or_missing);
        Column { head: vec![system.system.clone()], cells: cells.collect() }
    };
    let labels = FIGURES.iter().chain(watches);
    let labels = labels.map(|(name, _)| name.replace("{tail}", of.tail));
    let by_operation = operations.iter().map(|name| format!("outage of `{name}`, median"));
    let by_step = of.fault.action.steps().iter().map(|fault| format!("outage in {fault}, median"));
    let by_effect = effects.iter().map(|(name, _)| (*name).to_owned());
    let published = is_published.then(|| "outage, published".to_owned());
    let labels = by_effect.chain(labels).chain(by_operation).chain(by_step);
    Table {
        title: Some(format!("{}: {}", of.fault.name, of.fault.text())),
        corner: "figure".to_owned(),
        labels: labels.chain(published).collect(),
        groups: of.systems.iter().map(|one| vec![column(one)]).collect(),
    }
}
