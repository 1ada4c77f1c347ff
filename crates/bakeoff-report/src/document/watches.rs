//! What watchers observed, as tables and lines: key figures, all figures, guarantees, faults of events.
//!
//! Each latency stands next to the share of versions that it is about.
//!
//! Not here: figures (`model::watches`), sentences (`derive::watches`), the chart (`render::html::watches`).

use bakeoff_core::stats::Figure;
use bakeoff_core::study::Watchers;
use bakeoff_core::units::{count_text, duration_text, plural, share_text};
use bakeoff_core::watch::{GuaranteeState, WatchGuarantee, WatchRange};

use super::line::AuditLine;
use super::table::{Cell, Column, Table};
use super::tables::{shown, unused};
use crate::derive::comparison::Comparison;
use crate::model::contender::Contender;
use crate::model::quantity::{Point, Quantity, WatchCount, WatchQuantity};

/// Most examples of faults that a line has.
const EXAMPLES: usize = 3;
/// Most interruptions that a line has.
const INTERRUPTIONS: usize = 3;

/// A column of the key figures: heading and quantity.
type KeyColumn = (&'static str, WatchQuantity);

/// Columns before that of the guarantees.
const KNOWN: [KeyColumn; 2] =
    [("known p99", WatchQuantity::Known(Point::P99)), ("versions", WatchQuantity::Delivered)];
/// Columns after it. A narrow terminal leaves out the last ones.
const WAY: [KeyColumn; 4] = [
    ("first p50", WatchQuantity::First(Point::P50)),
    ("last p50", WatchQuantity::Last(Point::P50)),
    ("last p99", WatchQuantity::Last(Point::P99)),
    ("known p50", WatchQuantity::Known(Point::P50)),
];

/// Rows that are shown if any system has the figure.
const FIGURES: [WatchQuantity; 28] = [
    WatchQuantity::Watchers,
    WatchQuantity::Connections,
    WatchQuantity::Delivered,
    WatchQuantity::Known(Point::P50),
    WatchQuantity::Known(Point::P99),
    WatchQuantity::Known(Point::P999),
    WatchQuantity::Known(Point::Slowest),
    WatchQuantity::Acknowledged(Point::P50),
    WatchQuantity::First(Point::P50),
    WatchQuantity::First(Point::P99),
    WatchQuantity::Last(Point::P50),
    WatchQuantity::Last(Point::P99),
    WatchQuantity::DueToLast(Point::P50),
    WatchQuantity::DueToLast(Point::P99),
    WatchQuantity::AfterAcknowledgement(Point::P50),
    WatchQuantity::AfterAcknowledgement(Point::P99),
    WatchQuantity::Early,
    WatchQuantity::Writes(Point::P99),
    WatchQuantity::WritesAlone(Point::P99),
    WatchQuantity::SetupRate,
    WatchQuantity::ServerMemory,
    WatchQuantity::CatchUp(Point::P50),
    WatchQuantity::CatchUp(Point::Slowest),
    WatchQuantity::OldEventRate,
    WatchQuantity::RequestsPerEvent,
    WatchQuantity::BytesPerEvent,
    WatchQuantity::CpuPerEvent,
    WatchQuantity::LongestSilence,
];

fn figure(of: &Contender, quantity: WatchQuantity) -> Figure {
    of.shown(Quantity::Watch(quantity))
}

fn cell(of: &Contender, quantity: WatchQuantity) -> Cell {
    match of.valid_count() {
        0 => unused(of),
        _ => shown(figure(of, quantity), |figure| Quantity::Watch(quantity).short(figure)),
    }
}

/// Returns the key figures with a row for each system; `None` without watchers.
pub(crate) fn key_figures(of: &Comparison) -> Option<Table> {
    let watched: Vec<&Contender> =
        of.contenders.iter().filter(|one| one.watches().is_some()).collect();
    if watched.is_empty() {
        return None;
    }
    let column = |(head, quantity): &KeyColumn| Column {
        head: vec![(*head).to_owned()],
        cells: watched.iter().map(|one| cell(one, *quantity)).collect(),
    };
    let guarantees = Column {
        head: vec!["guarantees".to_owned()],
        cells: watched.iter().map(|one| kept(one)).collect(),
    };
    let columns = KNOWN.iter().map(column).chain([guarantees]).chain(WAY.iter().map(column));
    let watchers = of.workload.watchers.as_deref();
    let count = watchers.map(|watchers| plural(watchers.count.into(), "watcher"));
    let all = watchers.map_or("watchers".to_owned(), in_brief);
    Some(Table {
        title: Some(format!("{all}, {}", of.place())),
        corner: count.unwrap_or_else(|| "watchers".to_owned()),
        labels: watched.iter().map(|one| one.system.clone()).collect(),
        groups: columns.map(|one| vec![one]).collect(),
    })
}

/// Returns whether a system kept its guarantees: `kept`, `3 broken`.
fn kept(of: &Contender) -> Cell {
    let Some(judged) = of.watches() else { return Cell::Missing };
    let broken = judged.broken().count();
    let is_tested = |state: GuaranteeState| state == GuaranteeState::Kept;
    match (broken, judged.counts.phantoms) {
        (0, 0) if judged.guarantees.iter().any(|one| is_tested(one.state)) => "kept".into(),
        (0, 0) => "not tested".into(),
        (0, _) => Cell::NotRanked("unexplained".to_owned()),
        (broken, _) => Cell::NotRanked(format!("{broken} broken")),
    }
}

/// Returns all figures, with a column for each system; `None` without watchers.
pub(crate) fn figures(of: &Comparison) -> Option<Table> {
    if !of.is_watched() {
        return None;
    }
    let is_known = |quantity: &WatchQuantity| {
        of.contenders.iter().any(|one| figure(one, *quantity) != Figure::Absent)
    };
    let is_counted = |count: &WatchCount| {
        let count = WatchQuantity::Count(*count);
        let more = |one: &Contender| figure(one, count).value().is_some_and(|value| value > 0.0);
        of.contenders.iter().any(more)
    };
    let counts = WatchCount::ALL.into_iter().filter(is_counted).map(WatchQuantity::Count);
    let rows: Vec<WatchQuantity> = FIGURES.into_iter().filter(is_known).chain(counts).collect();
    let column = |one: &Contender| Column {
        head: vec![one.system.clone()],
        cells: rows.iter().map(|quantity| cell(one, *quantity)).collect(),
    };
    Some(Table {
        title: Some(format!("watchers, {}", of.load_text())),
        corner: "figure".to_owned(),
        labels: rows.iter().map(|quantity| Quantity::Watch(*quantity).label()).collect(),
        groups: of.contenders.iter().map(|one| vec![column(one)]).collect(),
    })
}

/// Returns the guarantees of watches by system: the worst state over all loads and injections of all trials. `None`
/// without watchers.
pub(crate) fn guarantees(of: &Comparison) -> Option<Table> {
    if !of.is_watched() {
        return None;
    }
    let column = |one: &Contender| {
        let judged = one.watches();
        let state = |guarantee: &WatchGuarantee| judged.as_ref()?.state(*guarantee);
        let cells =
            WatchGuarantee::ALL.iter().map(|one| state(one).map_or(Cell::Missing, state_cell));
        Column { head: vec![one.system.clone()], cells: cells.collect() }
    };
    let label = |guarantee: &WatchGuarantee| format!("{guarantee}: {}", meaning(*guarantee));
    Some(Table {
        title: Some("guarantees of watches, the worst of all loads and faults".to_owned()),
        corner: "guarantee".to_owned(),
        labels: WatchGuarantee::ALL.iter().map(label).collect(),
        groups: of.contenders.iter().map(|one| vec![column(one)]).collect(),
    })
}

fn state_cell(of: GuaranteeState) -> Cell {
    match of {
        GuaranteeState::Kept => "kept".into(),
        GuaranteeState::Broken(times) => Cell::NotRanked(format!("BROKEN ({})", count_text(times))),
        GuaranteeState::NotPromised(0) => "not promised".into(),
        GuaranteeState::NotPromised(times) => {
            format!("not promised ({})", count_text(times)).into()
        }
        GuaranteeState::NotReached => "not reached".into(),
    }
}

/// Returns what a guarantee says, in a few words.
fn meaning(of: WatchGuarantee) -> &'static str {
    match of {
        WatchGuarantee::Ordered => "events in the order of writes",
        WatchGuarantee::Unique => "no event twice",
        WatchGuarantee::Atomic => "a write's events together",
        WatchGuarantee::Reliable => "no event missing",
        WatchGuarantee::Resumable => "nothing missing after a resume",
        WatchGuarantee::Bookmarkable => "nothing before progress",
    }
}

/// Returns the tables of a workload and load.
pub(crate) fn tables(of: &Comparison) -> impl Iterator<Item = Table> {
    figures(of).into_iter().chain(guarantees(of))
}

/// Returns a line for each system with faults, and one for each whose watches were interrupted.
pub(crate) fn lines(of: &Comparison) -> Vec<AuditLine> {
    let mut lines = Vec::new();
    for one in &of.contenders {
        let Some(judged) = one.watches() else { continue };
        let name = &one.system;
        let examples: Vec<&str> =
            judged.counts.examples.iter().map(String::as_str).take(EXAMPLES).collect();
        if let Some(failure) = judged.failure() {
            let examples = if examples.is_empty() {
                String::new()
            } else {
                format!("; {}", examples.join("; "))
            };
            lines.push(AuditLine { text: format!("{name} {failure}{examples}"), failed: true });
        } else if !examples.is_empty() {
            let text = format!("{name}'s watchers, as allowed: {}", examples.join("; "));
            lines.push(AuditLine { text, failed: false });
        }
        let count = judged.interruptions.len();
        if count > 0 {
            let shown: Vec<&str> =
                judged.interruptions.iter().map(String::as_str).take(INTERRUPTIONS).collect();
            let more = if count > shown.len() { ", …" } else { "" };
            let text = format!("watches of {name} were interrupted: {}{more}", shown.join("; "));
            lines.push(AuditLine { text, failed: false });
        }
    }
    lines
}

/// Returns `1,000 watchers of all keys`.
fn in_brief(of: &Watchers) -> String {
    let range = match of.of {
        WatchRange::Prefix => "of all keys",
        WatchRange::Key => "of one key each",
    };
    format!("{} {range}", plural(of.count.into(), "watcher"))
}

/// Describes the watchers of a workload: `1,000 watchers of all keys on 30 connections`.
pub(crate) fn text(of: &Watchers) -> String {
    let mut text = format!("{} on {}", in_brief(of), plural(of.connections.into(), "connection"));
    if !of.from.is_now() {
        text += ", from the oldest event on";
    }
    if of.previous {
        text += ", with previous values";
    }
    if !of.progress.is_zero() {
        text += &format!(", progress requested every {}", duration_text(of.progress));
    }
    if !of.churn.is_zero() {
        text += &format!(", one connection closed every {}", duration_text(of.churn));
    }
    if let Some(slow) = of.slow {
        let (every, pause) = (duration_text(slow.every), duration_text(slow.pause));
        let connections = plural(slow.connections.into(), "connection");
        text += &format!(", {connections} not read for {pause} every {every}");
    }
    text
}

/// Returns the answer of the section for a table of contents.
pub(crate) fn answer(of: &[Comparison]) -> String {
    let contenders = of.iter().flat_map(|one| &one.contenders);
    let (mut kept, mut broken) = (0, 0);
    for judged in contenders.filter_map(Contender::watches) {
        if judged.has_failed() { broken += 1 } else { kept += 1 }
    }
    match broken {
        0 => "when watchers knew a write, versions, guarantees kept".to_owned(),
        _ => format!(
            "guarantees broken by {} of {}",
            count_text(broken),
            plural(broken + kept, "system")
        ),
    }
}

/// Returns the share of versions that a system's watchers observed, as text.
pub(crate) fn versions_text(of: &Contender) -> Option<String> {
    figure(of, WatchQuantity::Delivered).value().map(share_text)
}
