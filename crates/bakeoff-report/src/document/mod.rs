//! A report's content as a document of blocks, without a format.
//!
//! The first screen gives the answer: a heading, what supports it, the picture, key figures, what was verified, and
//! warnings. The rest follows on the page, is folded in Markdown, and is left out of a terminal.
//!
//! Not here: figures (`model`), verdicts (`derive`), formats (`render`), charts (`render::html`).

pub(crate) mod linearizability;
pub(crate) mod matrix;
pub(crate) mod nodes;
pub(crate) mod outages;
pub(crate) mod picture;
pub(crate) mod report;
pub(crate) mod rest;
pub(crate) mod sentences;
pub(crate) mod sheet;
pub(crate) mod staleness;
pub(crate) mod table;
pub(crate) mod tables;
pub(crate) mod verified;
pub(crate) mod words;

use bakeoff_core::units::plural;

use crate::derive::fairness::Weight;
use crate::derive::findings::{Cause, Finding};
use crate::document::linearizability::Drawing;
use crate::document::report::Report;
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
    blocks.extend(rest::rest(report, wide));
    blocks
}

/// Most workloads and loads with a picture on the first screen.
pub(crate) const PICTURES: usize = 2;

/// Returns the first screen.
pub(crate) fn first(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::Text(Tone::Strong, report.headline.verdict.clone())];
    blocks.push(Block::Text(Tone::Plain, report.headline.support.join(" ")));
    blocks.extend(report.violations.iter().cloned().map(Block::Violation));
    let run: Vec<_> = report.comparisons.iter().filter(|one| one.was_run()).collect();
    let figures = key_figures(report);
    let legends = legends(report, &figures);
    blocks.extend(figures.into_iter().map(Block::Table));
    blocks.extend(legends.into_iter().map(|text| Block::Text(Tone::Faint, text)));
    if run.len() > 1 {
        let found = sentences::found(&report.header.study, &report.sentences).into_iter();
        let found = found.map(|line| item(Tone::Plain, "", line)).collect();
        blocks.push(Block::Fold("findings for each load".to_owned(), found));
    }
    if !run.is_empty() {
        let facts = verified::verified(report).into_iter();
        let facts: Vec<String> = facts.map(|(label, value)| format!("{label}: {value}")).collect();
        blocks.push(Block::Text(Tone::Faint, format!("{}.", facts.join("; "))));
    }
    let warnings = by_cause(&report.findings);
    if !warnings.is_empty() {
        blocks.push(Block::Warnings(warnings));
    }
    blocks
}

/// Returns the key figures: a table for each of a few loads, or one with a row for each load.
pub(crate) fn key_figures(report: &Report) -> Vec<Table> {
    let run: Vec<_> = report.comparisons.iter().filter(|one| one.was_run()).collect();
    match run.len() {
        0 => Vec::new(),
        few if few <= PICTURES => {
            let pictures = run.iter().zip(&report.pictures);
            pictures.map(|(one, picture)| matrix::key_figures(one, picture)).collect()
        }
        _ => vec![matrix::matrix(report)],
    }
}

/// Returns the notes below these tables of key figures.
pub(crate) fn legends(report: &Report, figures: &[Table]) -> Vec<String> {
    let has_best = figures.iter().any(matrix::has_best);
    let best = has_best.then(|| matrix::LEGEND.to_owned());
    let unequal = matrix::has_unequal(report).then(|| matrix::UNEQUAL.to_owned());
    best.into_iter().chain(unequal).chain(sentences::together(&report.comparisons)).collect()
}

/// Groups findings by cause, the most serious cause first.
pub(crate) fn by_cause(findings: &[Finding]) -> Vec<Warnings> {
    let mut groups: Vec<Warnings> = Vec::new();
    for Finding { cause, text } in findings {
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
