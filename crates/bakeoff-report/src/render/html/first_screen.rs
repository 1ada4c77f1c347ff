//! The page's first screen: the answer, its picture, key figures, what was verified, warnings, and the table of
//! contents with each section's answer.
//!
//! Not here: texts and values (`document`), the picture (`picture`, `curve`).

use std::fmt::Write as _;

use bakeoff_core::units::{capitalized, harmless, plural};

use crate::document::line::shortened;
use crate::document::report::Report;
use crate::document::side_questions::SideQuestion;
use crate::document::table::Table;
use crate::document::{self, verification, words};

use super::page::{Section, details, escape, list, paragraph, stacking_table, table};
use super::{curve, outages, picture, violation};

/// Sentences that support the answer; the rest is folded.
const SUPPORT_MAX: usize = 3;
/// Longest part of a warning in its line; the rest is folded.
const WARNING: usize = 111;

/// Returns the first screen, without its table of contents.
pub(super) fn screen(report: &Report, charts: &Charts) -> String {
    let header = &report.header;
    let mut html = format!(
        "<p class=\"study\"><span>{}</span><span>{}</span></p><h1 id=\"verdict\">{}</h1>",
        escape(&words::title(&header.study)),
        escape(&words::when(report)),
        escape(&report.headline.verdict)
    );
    let (shown, more) =
        report.headline.support.split_at(report.headline.support.len().min(SUPPORT_MAX));
    html.push_str(&paragraph("support", &shown.join(" ")));
    html.push_str(&folded("More on the answer", more));
    html.extend(report.violations.iter().map(violation::figure));
    html.push_str(&list("conclusion", &report.conclusion));
    html.push_str(&charts.drawn);
    if let Some((of, conditions)) = document::published(report) {
        html.push_str("<h2 id=\"published\">Published and measured</h2>");
        // The key figures below have the place as their caption, and no two regions may share a name.
        let place = report.deciding().map_or_else(String::new, |of| of.place_and_load());
        html.push_str(&table(&format!("Published and measured, {place}"), &of));
        html.push_str(&paragraph("small", &format!("{}.", capitalized(&conditions))));
    }
    let tables = document::key_figures(report);
    if !tables.is_empty() {
        html.push_str("<h2 id=\"key\">Key figures</h2>");
        let rendered = |of: &Table| stacking_table(of.title.as_deref().unwrap_or_default(), of);
        html.extend(tables.iter().map(&rendered));
        html.extend(document::legends(report, &tables).iter().map(|text| paragraph("small", text)));
        let watched = document::watches(report);
        if !watched.is_empty() {
            html.push_str("<h2 id=\"told\">Watchers</h2>");
            html.extend(watched.iter().map(rendered));
        }
        let side = document::side_questions(report);
        if !side.is_empty() {
            html.push_str("<h2 id=\"side\">Side questions</h2>");
            let fold = |one: &SideQuestion| {
                details(&one.answer, &stacking_table(&one.answer, &one.figures))
            };
            html.extend(side.iter().map(fold));
        }
        html.push_str("<h2>Verified</h2><dl class=\"facts\">");
        for (label, value) in verification::verified(report) {
            let (label, value) = (escape(label), escape(&value));
            let _ = write!(html, "<div><dt>{label}</dt><dd>{value}</dd></div>");
        }
        html.push_str("</dl>");
    }
    let warnings = document::warnings(&report.findings);
    if !warnings.is_empty() {
        let count: usize = warnings.iter().map(|one| one.texts.len()).sum();
        let _ = write!(html, "<h2 id=\"warnings\">Warnings <span>{count}</span></h2>");
        html.extend(warnings.iter().map(|one| remark(&capitalized(one.cause.name()), &one.texts)));
    }
    let explanations = document::explanations(&report.findings);
    let notes = document::notes(&report.findings);
    if !explanations.is_empty() || !notes.is_empty() {
        html.push_str("<h2 id=\"explained\">What explains the figures</h2>");
        html.extend(explanations.iter().map(|one| remark(&one.system, &one.texts)));
        html.push_str(&folded(&plural(notes.len() as u64, "other note"), &notes));
    }
    html
}

/// Charts of the first screen.
pub(super) struct Charts {
    /// HTML.
    pub(super) drawn: String,
    /// Number of loads whose picture is among them.
    pub(super) pictured: usize,
}

/// Returns the pictures of the loads that the screen shows in full, and the curve of the deciding workload.
pub(super) fn charts(report: &Report) -> Charts {
    let shown = &report.pictures[..document::shown_in_full(report)];
    // The time line of a fault explains its dots, so it comes first.
    let mut drawn = report.deciding().map_or_else(String::new, outages::time_line);
    drawn.extend(shown.iter().map(|one| picture::picture(one, 2)));
    if !shown.is_empty() {
        drawn.push_str(&picture::legend(shown));
    }
    drawn.extend(report.deciding().map(|one| curve::curve(report, one)));
    Charts { drawn, pictured: shown.len() }
}

/// Renders findings in a line: their cause or system, the first fact, and the others folded.
fn remark(about: &str, texts: &[String]) -> String {
    let Some(first) = texts.first() else { return String::new() };
    let others = texts.len() - 1;
    let cut = shortened(first, WARNING);
    let is_cut = cut != *first;
    let more = if others > 0 { format!(" (and {others} more)") } else { String::new() };
    let line = format!("<b>{}.</b> {}{more}", escape(about), escape(&cut));
    if !is_cut && others == 0 {
        return format!("<p class=\"warning\">{line}</p>");
    }
    let rest = list("notes", if is_cut { texts } else { &texts[1..] });
    format!("<details class=\"warning\"><summary>{line}</summary>{rest}</details>")
}

/// Returns the table of contents. Each entry has its section's answer.
pub(super) fn contents(sections: &[Section]) -> String {
    let mut html = String::from(
        "<h2 id=\"details\">Details</h2><nav aria-label=\"Details\"><ol class=\"toc\">",
    );
    for Section { id, heading, answer, .. } in sections {
        let (heading, answer) = (escape(heading), escape(answer));
        let _ = write!(html, "<li><a href=\"#{id}\">{heading}</a><span>{answer}</span></li>");
    }
    html.push_str("</ol></nav>");
    html.push_str(&paragraph(
        "paper",
        "On paper: the answer, all figures and every trial. The page has the rest.",
    ));
    html
}

/// Returns the last line: the machine, the version, and how to repeat the run.
pub(super) fn made(report: &Report) -> String {
    let header = &report.header;
    let machine = harmless(&words::machine(&header.environment));
    format!(
        "<p class=\"small made\">{}. bakeoff {}, seed {}{}. Repeat: <code>{}</code></p>",
        escape(&machine),
        escape(&header.bakeoff),
        header.seed,
        escape(&words::rounds(report)),
        escape(&header.repeat_command())
    )
}

/// Folds notes below a summary; empty without notes.
pub(super) fn folded(summary: &str, notes: &[String]) -> String {
    if notes.is_empty() { String::new() } else { details(summary, &list("notes", notes)) }
}
