//! The tables of a comparison, as text in cells, for terminal and Markdown.
//!
//! Not here: cells and columns (`table`), the matrix of the first screen (`matrix`).

use bakeoff_core::check::Verdict;
use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::read_write_split::Side;
use bakeoff_core::search::TriedRate;
use bakeoff_core::stats::Figure;
use bakeoff_core::study::Operation;
use bakeoff_core::units::{figure_text, share_text};

use super::table::{Cell, Column, Table};
use crate::derive::comparison::Comparison;
use crate::derive::judgement::Judgement;
use crate::derive::machine_baseline::Limits;
use crate::model::contender::Contender;
use crate::model::figures::Figures;
use crate::model::quantity::{Point, Quantity};

/// Start-up times up to this many seconds count as equal and are not shown.
const READY_SOON: f64 = 1.0;

/// A row of the main table.
enum Row {
    Of(Quantity),
    /// The highest rate that keeps this objective.
    HighestRate(String),
    Requests,
    /// Reads that found a value, and reads that found none.
    HitsAndMisses,
    /// Smallest to largest value over the trials.
    Spread(Quantity),
    Audits,
    Trials,
}

impl Row {
    fn label(&self) -> String {
        match self {
            Self::Of(quantity) => quantity.label(),
            Self::HighestRate(objective) => format!("highest rate that keeps {objective} /s"),
            Self::Requests => "requests verified of all".to_owned(),
            Self::HitsAndMisses => "reads: hits, misses".to_owned(),
            Self::Spread(quantity) => format!("{}, range", quantity.label()),
            Self::Audits => "audits".to_owned(),
            Self::Trials => "trials used of all run".to_owned(),
        }
    }

    /// Returns the cell with a system's measured figure. `wide`: it has room for a clause.
    fn ours(&self, of: &Contender, wide: bool) -> Cell {
        match self {
            Self::Trials => trials(of).into(),
            Self::Audits => audits(of),
            _ if of.valid_count() == 0 => unused(of),
            Self::Of(Quantity::CpuPublished | Quantity::MemoryPublished) => Cell::Missing,
            Self::Of(quantity) => figure(*quantity, of, wide),
            Self::HighestRate(_) => {
                shown(of.shown(Quantity::HighestRate), |found| Quantity::HighestRate.text(found))
            }
            Self::Requests => {
                let text = |quantity: Quantity| quantity.text(of.shown(quantity));
                format!("{} of {}", text(Quantity::Verified), text(Quantity::Requests)).into()
            }
            Self::HitsAndMisses => {
                let text = |quantity: Quantity| quantity.text(of.shown(quantity));
                format!("{}, {}", text(Quantity::Hits), text(Quantity::Misses)).into()
            }
            Self::Spread(quantity) => spread(*quantity, of),
        }
    }

    fn published(&self, of: &Contender) -> Cell {
        let quantity = match self {
            Self::Of(quantity) => *quantity,
            Self::Requests => Quantity::Requests,
            Self::HighestRate(_) => Quantity::HighestRate,
            Self::Spread(_) | Self::HitsAndMisses | Self::Audits | Self::Trials => {
                return Cell::Missing;
            }
        };
        Cell::or_missing(
            of.published.get(&quantity).map(|&value| quantity.text(Some(value).into())),
        )
    }
}

/// Returns the cell of a system without a valid trial.
pub(crate) fn unused(of: &Contender) -> Cell {
    if of.trials.is_empty() { Cell::Missing } else { Cell::NotValid }
}

/// Returns the cell of a figure, which may be absent.
pub(crate) fn shown(figure: Figure, text: impl Fn(Figure) -> String) -> Cell {
    match figure {
        Figure::Absent => Cell::Missing,
        figure => text(figure).into(),
    }
}

/// Returns the cell of one quantity. `wide`: it has room for a clause.
fn figure(quantity: Quantity, of: &Contender, wide: bool) -> Cell {
    let figure = of.shown(quantity);
    match quantity {
        Quantity::ThroughputMean => shown(figure, |figure| {
            let text = quantity.text(figure);
            match of.errors_worth_saying() {
                Some(share) => format!("{text} ({} errors)", share_text(share)),
                None => text,
            }
        }),
        Quantity::Errors => shown(figure, |figure| {
            let text = quantity.text(figure);
            match of.error_share() {
                Some(share) if share > 0.0 => format!("{text} ({})", share_text(share)),
                _ => text,
            }
        }),
        Quantity::Response(Point::P99) if wide => shown(figure, |figure| match figure {
            failed @ Figure::Failed { .. } => quantity.text(failed),
            figure => quantity.short(figure),
        }),
        _ => shown(figure, |figure| quantity.short(figure)),
    }
}

/// Returns the range of a quantity over the trials.
fn spread(quantity: Quantity, of: &Contender) -> Cell {
    let summary = of.summary(quantity);
    if summary.trials < 2 {
        return Cell::Missing;
    }
    let end = |figure| match figure {
        Figure::Failed { .. } => "none".to_owned(),
        figure => quantity.short(figure),
    };
    let (least, most) = (end(summary.min), end(summary.max));
    match summary.min {
        Figure::Failed { .. } | Figure::TooFew { .. } => least.into(),
        _ => format!("{least} to {most}").into(),
    }
}

/// Returns `5 of 5`: the used trials of those that ran.
pub(crate) fn trials(of: &Contender) -> String {
    let (used, run) = (of.valid_count(), of.run_count());
    if run == of.planned {
        format!("{used} of {run}")
    } else {
        format!("{used} of {run} ({} planned)", of.planned)
    }
}

/// Returns the overall audit result of a system's trials.
fn audits(of: &Contender) -> Cell {
    let verdicts =
        || of.trials.iter().flat_map(|trial| &trial.verdicts.audits).map(|audit| &audit.verdict);
    let without = of.trials.iter().any(|trial| trial.verdicts.audits.is_empty());
    if verdicts().any(Verdict::failed) {
        Cell::Failed
    } else if verdicts().next().is_none() {
        if of.trials.is_empty() { Cell::Missing } else { "none".into() }
    } else if verdicts().all(Verdict::passed) && !without {
        "passed".into()
    } else if verdicts().any(Verdict::passed) {
        "partly not checked".into()
    } else {
        "not checked".into()
    }
}

/// Returns the side-by-side table. `wide`: its cells have room for a clause.
pub(crate) fn main(of: &Comparison, wide: bool) -> Table {
    let rows = rows(of);
    let column = |head: Vec<String>, cell: &dyn Fn(&Row) -> Cell| Column {
        head,
        cells: rows.iter().map(cell).collect(),
    };
    let any_published = of.contenders.iter().any(|one| !one.published.is_empty());
    let group = |one: &Contender| {
        let name = one.system.clone();
        let head =
            if any_published { vec![name.clone(), "measured".into()] } else { vec![name.clone()] };
        let mut columns = vec![column(head, &|row| row.ours(one, wide))];
        if !one.published.is_empty() {
            columns.push(column(vec![name, "published".into()], &|row| row.published(one)));
        }
        columns
    };
    Table {
        title: Some(format!("figures, {}", of.load_text())),
        corner: String::new(),
        labels: rows.iter().map(Row::label).collect(),
        groups: of.contenders.iter().map(group).collect(),
    }
}

/// Returns the rows that this comparison needs.
fn rows(of: &Comparison) -> Vec<Row> {
    let response_p99 = Quantity::Response(Point::P99);
    let any = |quantity: Quantity| {
        let more = |figure: Figure| figure.value().is_some_and(|value| value > 0.0);
        of.contenders.iter().any(|one| more(one.shown(quantity)))
    };
    let known = |quantity: Quantity| {
        let known = |one: &Contender| one.shown(quantity) != Figure::Absent;
        of.contenders.iter().any(known)
    };
    let published =
        |quantity: Quantity| of.contenders.iter().any(|one| one.published.contains_key(&quantity));
    let repeated = of.contenders.iter().any(|one| one.valid_count() > 1);
    let ready_after = |one: &Contender| one.shown(Quantity::ReadyAfter).value();
    let slow_start = of.contenders.iter().filter_map(ready_after).any(|after| after > READY_SOON);

    let mut rows = Vec::new();
    if let Some(find) = &of.load.find {
        rows.push(Row::HighestRate(find.text()));
        if repeated {
            rows.push(Row::Spread(Quantity::HighestRate));
        }
    }
    if slow_start {
        rows.push(Row::Of(Quantity::ReadyAfter));
    }
    for side in Side::BOTH.into_iter().filter(|_| of.is_split()) {
        rows.push(Row::Of(Quantity::ThroughputOf(side)));
        if repeated {
            rows.push(Row::Spread(Quantity::ThroughputOf(side)));
        }
        rows.extend([Point::P50, Point::P99].map(|at| Row::Of(Quantity::ResponseOf(side, at))));
    }
    rows.extend([
        Row::Of(Quantity::Seconds),
        Row::Requests,
        Row::Of(Quantity::ThroughputMax),
        Row::Of(Quantity::ThroughputMean),
    ]);
    if repeated {
        rows.push(Row::Spread(Quantity::ThroughputMean));
    }
    rows.push(Row::Of(Quantity::ThroughputMin));
    for point in Point::ALL {
        rows.push(Row::Of(Quantity::Response(point)));
        if point == Point::P99 && repeated {
            rows.push(Row::Spread(response_p99));
        }
    }
    // If failures reach a percentile, add the percentiles of successes.
    let reached = |one: &Contender| matches!(one.shown(response_p99), Figure::Failed { .. });
    if of.contenders.iter().any(reached) {
        let points = [Point::Mean, Point::P50, Point::P99];
        rows.extend(points.map(|point| Row::Of(Quantity::OfSuccesses(point))));
    }
    if of.is_open() {
        rows.extend([Point::P50, Point::P99].map(|point| Row::Of(Quantity::Service(point))));
        let lags = [Point::P50, Point::P99, Point::Slowest];
        rows.extend(lags.map(|point| Row::Of(Quantity::ScheduleLag(point))));
    }
    for point in [Point::P99, Point::Slowest] {
        let lag = Quantity::ReceiveLag(point);
        if any(lag) && (of.is_open() || point == Point::P99) {
            rows.push(Row::Of(lag));
        }
    }
    let added = Quantity::Added(Point::P99);
    if any(added) {
        rows.push(Row::Of(added));
    }
    if any(Quantity::Beyond) {
        rows.push(Row::Of(Quantity::Beyond));
    }
    rows.push(Row::Of(Quantity::Errors));
    for kind in ErrorKind::ALL {
        let quantity = Quantity::ErrorsOf(kind);
        if any(quantity) || (kind == ErrorKind::Dropped && of.is_open()) {
            rows.push(Row::Of(quantity));
        }
    }
    if any(Quantity::StoodStill) {
        rows.push(Row::Of(Quantity::StoodStill));
    }
    let apart = [Quantity::CarriedOver, Quantity::EndedLate].into_iter();
    rows.extend(apart.filter(|&quantity| known(quantity)).map(Row::Of));
    if known(Quantity::Hits) {
        rows.push(Row::HitsAndMisses);
    }
    if of.workload.reads == bakeoff_core::study::ReadConsistency::Stale && of.reads()
        || any(Quantity::StaleReads)
    {
        rows.push(Row::Of(Quantity::StaleReads));
    }
    for quantity in [
        Quantity::LateClients,
        Quantity::UnconnectedClients,
        Quantity::Reissued,
        Quantity::ClosedIdle,
        Quantity::ConnectionErrors,
        Quantity::Disconnected,
    ] {
        if any(quantity) {
            rows.push(Row::Of(quantity));
        }
    }
    for quantity in [
        Quantity::CpuNodeMax,
        Quantity::CpuSum,
        Quantity::CpuPublished,
        Quantity::CpuPerOperation,
        Quantity::Throttled,
        Quantity::MemoryNodeMax,
        Quantity::MemorySum,
        Quantity::MemoryPrivate,
        Quantity::MemoryResident,
        Quantity::MemoryPublished,
        Quantity::WrittenPerOperation,
        Quantity::GeneratorCpu,
        Quantity::HandshakesFull,
        Quantity::HandshakesResumed,
    ] {
        if known(quantity) || published(quantity) {
            rows.push(Row::Of(quantity));
        }
    }
    // Shares below 1 % explain nothing.
    let worth = |quantity| {
        let value = |one: &Contender| one.shown(quantity).value().unwrap_or(0.0);
        of.contenders.iter().any(|one| value(one) >= 0.01)
    };
    for quantity in [Quantity::PressureCpu, Quantity::PressureIo, Quantity::PressureMemory] {
        if worth(quantity) {
            rows.push(Row::Of(quantity));
        }
    }
    let audited =
        |one: &Contender| one.trials.iter().any(|trial| !trial.verdicts.audits.is_empty());
    if of.writes() || of.contenders.iter().any(audited) {
        rows.push(Row::Audits);
    }
    rows.push(Row::Trials);
    rows
}

/// Returns the table of judgements, with a group of columns for each pair; `None` if there are none.
pub(crate) fn judgements(of: &Comparison) -> Option<Table> {
    let family = of.judgements.iter().filter(|one| one.answer.is_some()).count();
    if family == 0 {
        return None;
    }
    let corrected = match family {
        1 => "95 % interval".to_owned(),
        _ => format!("95 % intervals corrected for {family} comparisons"),
    };
    let mut subjects: Vec<&Judgement> = of.judgements.iter().collect();
    subjects.dedup_by(|a, b| a.is_about_what(b));
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for one in &of.judgements {
        if !pairs.contains(&(&one.a, &one.b)) {
            pairs.push((&one.a, &one.b));
        }
    }
    let group = |&(a, b): &(&str, &str)| {
        let column = |head: &str, cell: fn(&Judgement) -> Option<String>| Column {
            head: vec![a.to_owned(), format!("by {b}"), head.to_owned()],
            cells: subjects
                .iter()
                .map(|subject| {
                    let is_it =
                        |one: &&Judgement| one.is_about_what(subject) && one.a == a && one.b == b;
                    Cell::or_missing(of.judgements.iter().find(is_it).and_then(cell))
                })
                .collect(),
        };
        vec![
            column("ratio", Judgement::ratio),
            column("95 % interval", Judgement::interval),
            column("verdict", |one| Some(one.found())),
            column("min. detectable", Judgement::min_detectable),
            column("bootstrap", Judgement::bootstrap),
        ]
    };
    Some(Table {
        title: Some(format!("ratios of medians, {corrected}, {}", of.load_text())),
        corner: String::new(),
        labels: subjects.iter().map(|subject| subject.label()).collect(),
        groups: pairs.iter().map(group).collect(),
    })
}

/// Returns the table by operation of a mix; `None` for a single operation.
pub(crate) fn operations(of: &Comparison) -> Option<Table> {
    if of.workload.mix.len() < 2 {
        return None;
    }
    let listed = [
        (Quantity::Verified, "verified"),
        (Quantity::Misses, "misses"),
        (Quantity::Errors, "errors"),
        (Quantity::Response(Point::Mean), "response time mean"),
        (Quantity::Response(Point::P50), "response time p50"),
        (Quantity::Response(Point::P95), "response time p95"),
        (Quantity::Response(Point::P99), "response time p99"),
    ];
    let rows: Vec<(Operation, Quantity, String)> = of
        .workload
        .mix
        .keys()
        .flat_map(|&op| {
            let known = move |quantity: Quantity| {
                let figure = |one: &Contender| one.operation(op.name(), quantity);
                of.contenders.iter().any(|one| figure(one) != Figure::Absent)
            };
            let of = listed.iter().filter(move |(of, _)| *of != Quantity::Misses || known(*of));
            of.map(move |(quantity, label)| (op, *quantity, format!("{op}: {label}")))
        })
        .collect();
    let cell = |one: &Contender, op: Operation, quantity: Quantity| match one.valid_count() {
        0 => unused(one),
        _ => shown(one.operation(op.name(), quantity), |figure| quantity.short(figure)),
    };
    let published = |one: &Contender, op: Operation, quantity: Quantity| {
        // A published count of requests is compared with verified requests.
        let of = if quantity == Quantity::Verified { Quantity::Requests } else { quantity };
        Cell::or_missing(one.published_of.get(&(op, of)).map(|&value| of.text(Some(value).into())))
    };
    let any_published = of.contenders.iter().any(|one| !one.published_of.is_empty());
    let group = |one: &Contender| {
        let column = |wording: &str, cell: &dyn Fn(&Contender, Operation, Quantity) -> Cell| {
            let mut head = vec![one.system.clone()];
            head.extend(any_published.then(|| wording.to_owned()));
            let cells = rows.iter().map(|(op, quantity, _)| cell(one, *op, *quantity)).collect();
            Column { head, cells }
        };
        let mut columns = vec![column("measured", &cell)];
        if !one.published_of.is_empty() {
            columns.push(column("published", &published));
        }
        columns
    };
    Some(Table {
        title: Some(format!("by operation, {}", of.load_text())),
        corner: String::new(),
        labels: rows.iter().map(|(_, _, label)| label.clone()).collect(),
        groups: of.contenders.iter().map(group).collect(),
    })
}

/// Returns the table of tried rates in each system's first valid trial; `None` without a search.
pub(crate) fn tries(of: &Comparison) -> Option<Table> {
    let find = of.load.find.as_ref()?;
    let tries = |one: &Contender| {
        one.valid().next().map_or(Vec::new(), |trial| trial.measured.tries.clone())
    };
    let rows = of.contenders.iter().map(|one| tries(one).len()).max().filter(|&rows| rows > 0)?;
    let group = |one: &Contender| {
        let tries = tries(one);
        let column = |head: &str, cell: &dyn Fn(&(TriedRate, Figures)) -> Cell| Column {
            head: vec![one.system.clone(), head.to_owned()],
            cells: (0..rows).map(|row| tries.get(row).map_or(Cell::Missing, cell)).collect(),
        };
        let figure = |quantity: Quantity| {
            move |(_, of): &(TriedRate, Figures)| {
                let figure = of.get(&quantity).copied().unwrap_or(Figure::Absent);
                shown(figure, |figure| quantity.short(figure))
            }
        };
        let kept = |(tried, _): &(TriedRate, Figures)| {
            let again = if tried.confirming { ", again" } else { "" };
            match (tried.kept(), tried.void) {
                (true, _) => format!("kept{again}").into(),
                (false, true) if again.is_empty() => Cell::NotValid,
                (false, true) => Cell::NotRanked(format!("not valid{again}")),
                (false, false) => format!("broken{again}").into(),
            }
        };
        vec![
            column("rate /s", &|(tried, _)| figure_text(tried.rate).into()),
            column("p99", &figure(Quantity::Response(Point::P99))),
            column("errors", &figure(Quantity::Errors)),
            column("objective", &kept),
        ]
    };
    Some(Table {
        title: Some(format!(
            "rates tried in each system's first valid trial, {}; objective: {}",
            of.load_text(),
            find.text()
        )),
        corner: "try".to_owned(),
        labels: (1..=rows).map(|row| row.to_string()).collect(),
        groups: of.contenders.iter().map(group).collect(),
    })
}

/// Returns the table by stage of a sweep; `None` for a single stage.
pub(crate) fn stages(of: &Comparison) -> Option<Table> {
    let (load, load_limits) = (&of.load, &of.limits);
    let lists = || std::iter::once(&load.clients).chain(load.clients_for.values());
    if lists().all(|clients| clients.len() < 2) {
        return None;
    }
    // A sweep may return to a number of clients, which is then a separate stage.
    let mut stages: Vec<(u32, usize)> = Vec::new();
    for clients in of.contenders.iter().map(|one| load.clients_on(&one.system)) {
        for (place, &count) in clients.iter().enumerate() {
            let nth = clients[..place].iter().filter(|&&before| before == count).count();
            if !stages.contains(&(count, nth)) {
                stages.push((count, nth));
            }
        }
    }
    if !load.clients_for.is_empty() {
        stages.sort_unstable();
    }
    let listed = [
        (Quantity::ThroughputMean, "mean /s"),
        (Quantity::Response(Point::P50), "p50"),
        (Quantity::Response(Point::P99), "p99"),
        (Quantity::Errors, "errors"),
    ];
    let cell = |one: &Contender, (clients, nth): (u32, usize), quantity: Quantity| match one
        .valid_count()
    {
        0 => unused(one),
        _ => shown(one.stage(clients, nth, quantity), |figure| quantity.text(figure)),
    };
    let column = |one: &Contender, (quantity, label): (Quantity, &str)| Column {
        head: vec![one.system.clone(), label.to_owned()],
        cells: stages.iter().map(|&stage| cell(one, stage, quantity)).collect(),
    };
    let limit = |head: &str, of: fn(&Limits, u32) -> Option<f64>| {
        let limits = load_limits.as_ref()?;
        let cells: Vec<Option<f64>> = stages
            .iter()
            .map(|(clients, _)| of(limits, clients.saturating_mul(load.in_flight)))
            .collect();
        let text = |rate: &Option<f64>| Cell::or_missing(rate.map(figure_text));
        cells.iter().any(Option::is_some).then(|| Column {
            head: vec!["baseline".to_owned(), head.to_owned()],
            cells: cells.iter().map(text).collect(),
        })
    };
    let machine_baseline: Vec<Column> = limit("disk /s", Limits::disk)
        .into_iter()
        .chain(limit("loopback /s", Limits::loopback))
        .collect();
    Some(Table {
        title: Some(format!("by stage, {}: throughput, response time", of.load_text())),
        corner: "clients".to_owned(),
        labels: stages.iter().map(|(clients, _)| clients.to_string()).collect(),
        groups: of
            .contenders
            .iter()
            .map(|one| match one.valid_count() {
                // One "not valid" is enough.
                0 => vec![column(one, (Quantity::ThroughputMean, ""))],
                _ => listed.iter().map(|&what| column(one, what)).collect(),
            })
            .chain((!machine_baseline.is_empty()).then_some(machine_baseline))
            .collect(),
    })
}
