//! All figures of each workload and load: its picture, unless the first screen has it, and every table.
//!
//! Not here: comparing (`derive`), the tables' contents (`document::tables`).

use crate::derive::comparison::Comparison;
use crate::derive::machine_baseline;
use crate::document::report::Report;
use crate::document::{linearizability, sentences, tables, words};

use super::page::{escape, list, paragraph, table};
use super::{first_screen, picture, place};

/// Returns the section. `pictured`: number of loads whose picture is on the first screen.
pub(super) fn section(report: &Report, pictured: usize) -> String {
    let mut html = String::new();
    let run: Vec<&Comparison> = report.comparisons.iter().filter(|one| one.was_run()).collect();
    if run.len() > pictured {
        html.push_str(&picture::legend(&report.pictures[pictured..]));
    }
    if run.len() > 1 {
        let found = sentences::found(&report.header.study, &report.sentences);
        html.push_str(&first_screen::folded("The finding of each load in a sentence", &found));
    }
    for comparison in &report.comparisons {
        let number = run.iter().position(|one| std::ptr::eq(*one, comparison));
        html.push_str(&one(report, comparison, number.filter(|number| *number >= pictured)));
    }
    html
}

/// Returns one workload and load. `picture`: index of the picture to show.
fn one(report: &Report, of: &Comparison, picture: Option<usize>) -> String {
    let heading = words::heading(&report.header.study, of);
    let mut html = format!("<article><h3>{}</h3>", escape(&heading));
    html.push_str(&paragraph("how", &words::workload(of)));
    if !of.was_run() {
        html.push_str(&paragraph("", "No trial ran."));
        html.push_str("</article>");
        return html;
    }
    if let Some(drawn) = picture.and_then(|number| report.pictures.get(number)) {
        html.push_str(&picture::picture(drawn, 4));
    }
    html.push_str(&words::combination(of).map_or(String::new(), |text| paragraph("how", &text)));
    html.push_str(&table(&format!("All figures, {heading}"), &tables::main(of, true)));
    let more = [tables::tries(of), tables::stages(of), tables::operations(of)].into_iter();
    for more in more.flatten().chain(linearizability::tables(of)) {
        let caption = format!("{}, {}", place(of), more.title.as_deref().unwrap_or_default());
        html.push_str(&table(&caption, &more));
    }
    let notes: Vec<String> = machine_baseline::lines(of, of.limits.as_ref())
        .into_iter()
        .chain(words::published(report, of))
        .chain(words::seconds(of))
        .chain(words::latencies(of))
        .chain(words::audits(of).into_iter().map(|line| format!("audit: {}", line.text)))
        .chain(linearizability::lines(of).into_iter().map(|line| line.text))
        .chain(words::unchecked(of))
        .collect();
    html.push_str(&list("notes", &notes));
    html.push_str("</article>");
    html
}
