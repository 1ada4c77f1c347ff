//! The folded sections of a report: all tables of each workload and load, the method, the systems.
//!
//! Not here: the first screen (`document`), tables (`tables`), texts (`words`).

use super::table::Tone;
use super::{Block, item, tables, words};
use super::{linearizability, nodes, outages, staleness as staleness_table, watches};
use crate::derive::comparison::Comparison;
use crate::derive::{log_findings, machine_baseline, method, staleness};
use crate::document::report::Report;

/// Returns the folded blocks. `wide`: cells of tables have room for a clause.
pub(crate) fn blocks(report: &Report, wide: bool) -> Vec<Block> {
    let study = &report.header.study;
    let mut blocks = Vec::new();
    blocks.extend(
        report
            .comparisons
            .iter()
            .map(|one| Block::Fold(words::heading(study, one), comparison(report, one, wide))),
    );
    let demands = report.method.iter().map(|answer| {
        let text = format!("{}: {}: {}", answer.demand.by, answer.met.name(), answer.why);
        item(Tone::Faint, "", text)
    });
    let summary = method::summary(&report.method);
    blocks.push(Block::Fold(summary, demands.collect()));
    let mut systems = Vec::new();
    for system in &report.header.systems {
        let (line, details) = words::system(system);
        systems.push(item(Tone::Plain, "", line));
        systems.extend(details.into_iter().map(|detail| item(Tone::Faint, "  ", detail)));
    }
    blocks.push(Block::Fold("systems and their settings".to_owned(), systems));
    blocks
}

/// Returns the section of one workload and load.
fn comparison(report: &Report, of: &Comparison, wide: bool) -> Vec<Block> {
    let mut blocks = vec![Block::Text(Tone::Faint, words::workload(of))];
    if !of.was_run() {
        blocks.push(Block::Text(Tone::Alarm, "no trial ran".to_owned()));
        return blocks;
    }
    blocks.extend(words::combination(of).map(|text| Block::Text(Tone::Faint, text)));
    blocks.push(Block::Table(tables::main(of, wide)));
    if let Some(table) = tables::judgements(of) {
        blocks.push(Block::Table(table));
        blocks.extend(words::unjudged(of).into_iter().map(|line| item(Tone::Faint, "", line)));
    }
    let mut lines = |tone: Tone, mark: &'static str, lines: Vec<String>| {
        blocks.extend(lines.into_iter().map(|line| item(tone, mark, line)));
    };
    lines(Tone::Plain, "", machine_baseline::lines(of, of.limits.as_ref()));
    lines(Tone::Faint, "", words::published(report, of));
    lines(Tone::Plain, "", words::seconds(of).into_iter().chain(words::latencies(of)).collect());
    lines(Tone::Alarm, "", words::invalid(of));
    lines(Tone::Plain, "event: ", words::events(of));
    for line in words::audits(of) {
        let tone = if line.failed { Tone::Alarm } else { Tone::Plain };
        lines(tone, "audit: ", vec![line.text]);
    }
    for line in linearizability::lines(of).into_iter().chain(watches::lines(of)) {
        let tone = if line.failed { Tone::Alarm } else { Tone::Plain };
        lines(tone, "", vec![line.text]);
    }
    lines(Tone::Plain, "", words::unchecked(of));
    lines(Tone::Plain, "", staleness::lines(of));
    lines(Tone::Faint, "error: ", words::errors(of));
    lines(Tone::Faint, "server log: ", log_findings::lines(of));
    let more = [
        tables::tries(of),
        nodes::table(of),
        tables::stages(of),
        tables::operations(of),
        staleness_table::table(of),
    ];
    let more = more.into_iter().flatten().chain(linearizability::tables(of));
    let more = more.chain(watches::tables(of));
    let more = more.chain(of.outages.iter().map(outages::table));
    blocks.extend(more.map(Block::Table));
    blocks
}
