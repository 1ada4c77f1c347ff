//! Renders a report as one self-contained HTML file: no network, no other file, no third-party script.
//!
//! The summary comes first, then the warnings, then the charts behind them. Our own code writes the charts as SVG, so
//! they follow the page's light or dark colours, print well and can be read aloud. Everything is readable without
//! JavaScript. With it, readers can choose the trial of time series and save the data.
//!
//! Each module is one section.
//!
//! Not here: the figures (`comparison`, `figures`, `drawn`).

mod blocks;
mod data;
mod fair;
mod frame;
mod judged;
mod machine;
mod method;
mod nodes;
mod page;
mod percentiles;
mod scale;
mod spread;
mod staleness;
mod svg;
mod sweep;
mod timeline;
mod trials;

use bakeoff_core::record::Record;
use bakeoff_core::units::trials_text;

use crate::derive::comparison::Comparison;
use crate::document::report::Report;
use crate::document::{self, words};
use crate::model::contender::Contender;

use page::{Section, escape, paragraph};

/// Renders the whole report. `record`: its source, which can be saved from the page.
pub fn html(report: &Report, record: &Record) -> String {
    let study = &report.header.study;
    let title = words::title(study);
    let mut top = format!("<h1>{}</h1>", escape(&title));
    top.push_str(&blocks::blocks(&document::first(report)));
    top.push_str(&paragraph("provenance", &words::provenance(report)));
    let mut sections = vec![
        Section { id: "systems", heading: "Side by side", body: spread::section(report) },
        Section { id: "fairness", heading: "Fairness", body: fair::section(report) },
        Section { id: "judged", heading: "Judged", body: judged::section(report) },
    ];
    sections.extend(unless_empty("staleness", "Staleness", staleness::section(report)));
    sections.extend([
        Section { id: "clients", heading: "Clients", body: sweep::section(report) },
        Section { id: "latency", heading: "Latency", body: percentiles::section(report) },
        Section { id: "time", heading: "Over time", body: timeline::section(report) },
    ]);
    sections.extend(unless_empty("nodes", "Nodes", nodes::section(report)));
    sections.extend([
        Section { id: "trials", heading: "Trials", body: trials::section(report) },
        Section { id: "machine", heading: "Set-up", body: machine::section(report) },
        Section { id: "method", heading: "Method", body: method::section(report) },
    ]);
    let room: usize = sections.iter().map(|section| section.body.len()).sum();
    let (body, blocks) = data::section(report, record, room);
    sections.push(Section { id: "data", heading: "Data", body });
    page::page(&title, &top, &sections, &blocks)
}

fn unless_empty(id: &'static str, heading: &'static str, body: String) -> Option<Section> {
    (!body.is_empty()).then_some(Section { id, heading, body })
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
