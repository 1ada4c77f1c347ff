//! Renders a report as one self-contained HTML file: no network, no other file, no third-party script.
//!
//! The summary comes first, then the warnings, then the charts behind them. Our own code writes the charts as SVG, so
//! they follow the page's light or dark colours, print well and can be read aloud. Everything is readable without
//! JavaScript. With it, readers can choose the trial of time series and save the data.
//!
//! Each module is one section.
//!
//! Not here: the figures (`comparison`, `figures`, `curves`).

pub(crate) mod card;
mod curve;
mod data;
mod fairness_sheet;
mod fan_out;
mod figures;
mod first_screen;
mod frame;
mod judgements;
mod leases;
mod line_chart;
mod live;
mod machine;
mod method;
mod nodes;
mod outages;
mod page;
mod percentiles;
mod picture;
mod scale;
pub mod site;
mod staleness;
mod strip;
mod svg;
mod sweep;
mod timeline;
mod trend;
mod trials;
mod violation;
mod watches;

use bakeoff_core::record::Record;
use bakeoff_core::units::trials_text;

use crate::derive::comparison::Comparison;
use crate::document::report::Report;
use crate::document::{self, verification, words};
use crate::model::contender::Contender;

use page::Section;

pub use live::live_page;
pub use trend::trend_page;

/// Renders the whole report. `record` is its source, and `text` the bytes of that record, to save from the page.
pub fn html(report: &Report, record: &Record, text: &[u8]) -> String {
    rendered(report, Some((record, text)))
}

/// Renders the whole report for a folder in which `record.jsonl` lies next to it.
pub fn html_next_to_record(report: &Report) -> String {
    rendered(report, None)
}

fn rendered(report: &Report, record: Option<(&Record, &[u8])>) -> String {
    let charts = first_screen::charts(report);
    let mut sections = Vec::new();
    let mut add = |id, heading, answer: String, body: String| {
        if !body.is_empty() {
            sections.push(Section { id, heading, answer, body });
        }
    };
    add("faults", "Faults", answers::faults(report), outages::section(report));
    add(
        "watches",
        "Watches",
        document::watches::answer(&report.comparisons),
        watches::section(report),
    );
    add(
        "figures",
        "All figures",
        "every percentile, error and cost".into(),
        figures::section(report, charts.pictured),
    );
    add("ratios", "Ratios and intervals", answers::ratios(report), judgements::section(report));
    add("staleness", "Staleness", "age of reads at each node".into(), staleness::section(report));
    add(
        "clients",
        "Throughput by clients",
        "throughput and p99 at each number of clients".into(),
        sweep::section(report),
    );
    add(
        "latency",
        "Latency distribution",
        "p10 to p99.99, each system's trials and their median".into(),
        percentiles::section(report),
    );
    add(
        "time",
        "Over time",
        "rate, latency, CPU, memory of each second".into(),
        timeline::section(report),
    );
    add("nodes", "Nodes", "CPU, memory and throttling of each node".into(), nodes::section(report));
    add("fairness", "Fairness", answers::fairness(report), fairness_sheet::section(report));
    add(
        "trials",
        "Trials",
        format!("{} valid", verification::trials(report)),
        trials::section(report),
    );
    add(
        "setup",
        "Systems and machine",
        "versions, settings, limits of the machine".into(),
        machine::section(report),
    );
    add("method", "Method", verification::rules(report), method::section(report));
    let room: usize = sections.iter().map(|section| section.body.len()).sum();
    let (body, blocks) = match record {
        Some((record, text)) => data::section(report, record, text, room),
        None => (data::ADJACENT.to_owned(), String::new()),
    };
    let answer = "report, trials and record as files".to_owned();
    sections.push(Section { id: "data", heading: "Data", answer, body });
    let mut top = first_screen::screen(report, &charts);
    top.push_str(&first_screen::contents(&sections));
    top.push_str(&first_screen::made(report));
    page::page(&words::title(&report.header.study), &top, &sections, &blocks)
}

/// The answers of sections, for the table of contents.
mod answers {
    use bakeoff_core::units::plural;

    use crate::derive::fairness::Weight;
    use crate::document::report::Report;

    pub(super) fn ratios(report: &Report) -> String {
        let judged = || report.comparisons.iter().flat_map(|one| &one.judgements);
        let ratios = judged().filter(|one| one.answer.is_some()).count();
        let proven = judged().filter(|one| one.claims()).count();
        match ratios {
            0 => "nothing was compared".to_owned(),
            ratios => format!(
                "{}; {} proven",
                plural(ratios as u64, "ratio"),
                plural(proven as u64, "difference")
            ),
        }
    }

    pub(super) fn faults(report: &Report) -> String {
        let systems = report.comparisons.iter().flat_map(|one| &one.outages);
        let systems = systems.flat_map(|fault| &fault.systems);
        let injections: usize = systems.map(|one| one.injections.len()).sum();
        format!("rate, latency and failures around {}", plural(injections as u64, "injection"))
    }

    pub(super) fn fairness(report: &Report) -> String {
        let rows = |weight| report.fairness.rows.iter().filter(|row| row.weight == weight).count();
        let decide = match rows(Weight::Decides) {
            0 => "none decides by itself".to_owned(),
            count => format!("{count} may decide"),
        };
        format!(
            "{} equal; {} differ, {decide}",
            plural(rows(Weight::Same) as u64, "condition"),
            rows(Weight::Decides) + rows(Weight::Matters)
        )
    }
}

/// Returns how a load's figures were measured, for captions: `closed load; after 1s of warm-up; …`.
fn how(of: &Comparison) -> String {
    let kind = if of.is_open() {
        "Open load: operations are due at a rate, whether or not a client is free"
    } else {
        "Closed load: a client's next operation waits for its last"
    };
    let warmup = match of.load.warmup.is_zero() {
        true => "no warm-up",
        false => "warm-up excluded",
    };
    let counts: Vec<usize> = of.contenders.iter().map(Contender::valid_count).collect();
    let (least, most) = (counts.iter().min().copied(), counts.iter().max().copied());
    let trials = match (least.unwrap_or(0), most.unwrap_or(0)) {
        (least, most) if least == most => trials_text(most),
        (least, most) => format!("{least} to {most} trials"),
    };
    format!("{kind}; {warmup}; {trials} of each system used")
}

/// Returns `create under steady`.
fn place(of: &Comparison) -> String {
    format!("{} under {}", of.workload.name, of.load.name)
}
