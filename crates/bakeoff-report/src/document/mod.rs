//! A report's content as a document of blocks, without a format.
//!
//! The first screen gives the answer: a heading, what supports it, the picture, key figures, what was verified, and
//! warnings. The rest follows on the page, is folded in Markdown, and is left out of a terminal.
//!
//! Not here: figures (`model`), verdicts (`derive`), formats (`render`), charts (`render::html`).

pub(crate) mod folded_sections;
pub(crate) mod key_figures;
pub(crate) mod line;
pub(crate) mod linearizability;
pub(crate) mod nodes;
pub(crate) mod outages;
pub(crate) mod picture;
mod pictures;
pub(crate) mod published_figures;
pub(crate) mod report;
pub(crate) mod sentences;
pub(crate) mod sheet;
pub(crate) mod side_questions;
pub(crate) mod staleness;
pub(crate) mod table;
pub(crate) mod tables;
pub(crate) mod verification;
pub(crate) mod watches;
pub(crate) mod words;

use bakeoff_core::units::plural;

use crate::derive::comparison::Comparison;
use crate::derive::fairness::Weight;
use crate::derive::findings::{Bearing, Cause, Finding};
use crate::document::linearizability::Drawing;
use crate::document::picture::Picture;
use crate::document::report::Report;
use side_questions::SideQuestion;
use table::{Table, Tone};

/// One block of a document.
#[derive(Debug, Clone)]
pub(crate) enum Block {
    /// Heading of the following blocks.
    Heading(String),
    /// A paragraph.
    Text(Tone, String),
    /// A list item with a mark.
    Item(Item),
    Table(Table),
    /// Operations that show a violation.
    Violation(Drawing),
    Warnings(Vec<Warnings>),
    /// A fold with its summary line.
    Fold(String, Vec<Block>),
}

/// A list item.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) tone: Tone,
    /// `audit: `, `! ` or spaces.
    pub(crate) mark: &'static str,
    pub(crate) text: String,
}

impl Item {
    /// Returns true if the item adds details to the one above.
    pub(crate) fn is_detail(&self) -> bool {
        self.mark == "  "
    }
}

/// Findings with the same cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Warnings {
    pub(crate) cause: Cause,
    pub(crate) texts: Vec<String>,
}

impl Warnings {
    /// Returns their heading: `stalled (3)`.
    pub(crate) fn heading(&self) -> String {
        format!("{} ({})", self.cause.name(), self.texts.len())
    }
}

/// Creates a list item.
pub(crate) fn item(tone: Tone, mark: &'static str, text: String) -> Block {
    Block::Item(Item { tone, mark, text })
}

/// Returns all blocks. `wide`: cells of tables have room for a clause.
pub(crate) fn blocks(report: &Report, wide: bool) -> Vec<Block> {
    let mut blocks = first(report);
    blocks.extend(fairness(report));
    blocks.extend(folded_sections::blocks(report, wide));
    blocks
}

/// Most workloads and loads that the first screen shows in full. With more, only the deciding one is.
const IN_FULL: usize = 2;

/// Returns the first screen.
pub(crate) fn first(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::Text(Tone::Strong, report.headline.verdict.clone())];
    blocks.push(Block::Text(Tone::Plain, report.headline.support.join(" ")));
    blocks.extend(report.violations.iter().cloned().map(Block::Violation));
    blocks.extend(report.conclusion.iter().map(|line| item(Tone::Plain, "- ", line.clone())));
    if let Some((table, conditions)) = published(report) {
        blocks.push(Block::Table(table));
        blocks.push(Block::Text(Tone::Faint, conditions));
    }
    let run: Vec<_> = report.comparisons.iter().filter(|one| one.was_run()).collect();
    let figures = key_figures(report);
    let legends = legends(report, &figures);
    blocks.extend(figures.into_iter().map(Block::Table));
    blocks.extend(legends.into_iter().map(|text| Block::Text(Tone::Faint, text)));
    blocks.extend(watches(report).into_iter().map(Block::Table));
    let side = side_questions(report).into_iter();
    blocks.extend(side.map(|one| Block::Fold(one.answer, vec![Block::Table(one.figures)])));
    if run.len() > 1 {
        let found = sentences::found(&report.header.study, &report.sentences).into_iter();
        let found = found.map(|line| item(Tone::Plain, "", line)).collect();
        blocks.push(Block::Fold("findings for each load".to_owned(), found));
    }
    if !run.is_empty() {
        let facts = verification::verified(report).into_iter();
        let facts: Vec<String> = facts.map(|(label, value)| format!("{label}: {value}")).collect();
        blocks.push(Block::Text(Tone::Faint, format!("{}.", facts.join("; "))));
    }
    let warnings = warnings(&report.findings);
    if !warnings.is_empty() {
        blocks.push(Block::Warnings(warnings));
    }
    let listed = |texts: Vec<String>| -> Vec<Block> {
        texts.into_iter().map(|text| item(Tone::Plain, "- ", text)).collect()
    };
    for Explanations { system, texts } in explanations(&report.findings) {
        let heading = format!("what explains {system}'s figures ({})", texts.len());
        blocks.push(Block::Fold(heading, listed(texts)));
    }
    let notes = notes(&report.findings);
    if !notes.is_empty() {
        blocks.push(Block::Fold(format!("other notes ({})", notes.len()), listed(notes)));
    }
    blocks
}

/// Returns the number of workloads and loads that the first screen shows in full.
pub(crate) fn shown_in_full(report: &Report) -> usize {
    let run = report.pictures.len();
    if run > IN_FULL { 1 } else { run }
}

/// Returns the workloads and loads that ran, the deciding one first, each with its picture.
fn pictured(report: &Report) -> impl Iterator<Item = (&Comparison, &Picture)> {
    report.comparisons.iter().filter(|one| one.was_run()).zip(&report.pictures)
}

/// Returns the key figures of the workloads and loads that the first screen shows in full.
pub(crate) fn key_figures(report: &Report) -> Vec<Table> {
    let shown = pictured(report).take(shown_in_full(report));
    shown.map(|(one, picture)| key_figures::key_figures(one, picture)).collect()
}

/// Returns the key figures of watchers, of the workloads and loads that the first screen shows in full.
pub(crate) fn watches(report: &Report) -> Vec<Table> {
    let shown = pictured(report).take(shown_in_full(report));
    shown.filter_map(|(one, _)| watches::key_figures(one)).collect()
}

/// Returns the workloads and loads that the first screen shows in a line.
pub(crate) fn side_questions(report: &Report) -> Vec<SideQuestion> {
    let side = pictured(report).skip(shown_in_full(report));
    side.map(|(one, picture)| SideQuestion::new(one, picture)).collect()
}

/// Returns the published figures of the deciding workload and load, and the differences of the conditions.
pub(crate) fn published(report: &Report) -> Option<(Table, String)> {
    let of = report.deciding()?;
    Some((published_figures::table(of)?, published_figures::conditions(report, of)))
}

/// Returns the notes below these tables of key figures.
pub(crate) fn legends(report: &Report, figures: &[Table]) -> Vec<String> {
    let has_best = figures.iter().any(key_figures::has_best);
    let best = has_best.then(|| key_figures::LEGEND.to_owned());
    let unequal = key_figures::has_unequal(report).then(|| key_figures::UNEQUAL.to_owned());
    best.into_iter().chain(unequal).chain(sentences::together(&report.comparisons)).collect()
}

/// Findings that explain one system's figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Explanations {
    pub(crate) system: String,
    pub(crate) texts: Vec<String>,
}

/// Returns the findings that explain figures, system by system.
pub(crate) fn explanations(findings: &[Finding]) -> Vec<Explanations> {
    let mut found: Vec<Explanations> = Vec::new();
    for finding in findings.iter().filter(|one| one.cause.bearing() == Bearing::Figures) {
        let Some(system) = &finding.system else { continue };
        // The heading names the system.
        let text = finding.text.strip_prefix(&format!("{system} ")).unwrap_or(&finding.text);
        let text = text.to_owned();
        match found.iter_mut().find(|one| one.system == *system) {
            Some(known) => known.texts.push(text),
            None => found.push(Explanations { system: system.clone(), texts: vec![text] }),
        }
    }
    found
}

/// Returns the findings that bear on nothing.
pub(crate) fn notes(findings: &[Finding]) -> Vec<String> {
    let notes = findings.iter().filter(|one| one.cause.bearing() == Bearing::Nothing);
    notes.map(|one| one.text.clone()).collect()
}

/// Returns the findings that may change the answer, by cause, the most serious cause first.
pub(crate) fn warnings(findings: &[Finding]) -> Vec<Warnings> {
    let mut groups: Vec<Warnings> = Vec::new();
    let warnings = findings.iter().filter(|one| one.cause.bearing() == Bearing::Answer);
    for Finding { cause, text, .. } in warnings {
        match groups.iter_mut().find(|group| group.cause == *cause) {
            Some(group) => group.texts.push(text.clone()),
            None => groups.push(Warnings { cause: *cause, texts: vec![text.clone()] }),
        }
    }
    groups.sort_by_key(|group| group.cause);
    groups
}

/// Returns the fairness sheet: differences first, then the rest in a fold.
pub(crate) fn fairness(report: &Report) -> Vec<Block> {
    let sheet = &report.fairness;
    if sheet.systems.len() < 2 {
        return Vec::new();
    }
    let differing = sheet.differing();
    let heading = "fairness: differences between the systems besides the product";
    let mut blocks = vec![Block::Heading(heading.to_owned())];
    if differing.is_empty() {
        blocks.push(Block::Text(Tone::Plain, "no known difference".to_owned()));
    }
    blocks.extend(differing.into_iter().map(|row| {
        let mark = if row.weight == Weight::Decides { "! " } else { "  " };
        item(Tone::Plain, mark, words::fairness_row(row, &sheet.systems))
    }));
    let rest = words::fairness_rest(sheet);
    if !rest.is_empty() {
        let count = sheet.same().count() + sheet.unknown().count();
        let summary =
            format!("fairness: {} equal for all, or unknown", plural(count as u64, "fact"));
        let items = rest.into_iter().map(|line| item(Tone::Faint, "  ", line));
        blocks.push(Block::Fold(summary, items.collect()));
    }
    blocks
}
