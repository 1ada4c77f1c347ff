//! A report's content, before it has a form: one document of blocks.
//!
//! The first screen answers at a glance: a few sentences, a matrix, key figures, warnings by cause. What explains it is
//! folded away, and every form decides what folding means: HTML and Markdown fold, a terminal leaves
//! out.
//!
//! Not here: the figures (`model`), the verdicts (`derive`), the forms (`render`), charts (`render::html`).

pub(crate) mod matrix;
pub(crate) mod nodes;
pub(crate) mod report;
pub(crate) mod rest;
pub(crate) mod sentences;
pub(crate) mod sheet;
pub(crate) mod staleness;
pub(crate) mod table;
pub(crate) mod tables;
pub(crate) mod words;

use bakeoff_core::units::plural;

use crate::derive::fairness::Weight;
use crate::derive::findings::{Cause, Finding};
use crate::document::report::Report;
use table::{Table, Tone};

/// One block of a document.
#[derive(Debug, Clone)]
pub(crate) enum Block {
    /// The heading of what follows.
    Heading(String),
    /// A paragraph.
    Text(Tone, String),
    /// A line of a list, behind a mark.
    Item(Item),
    Table(Table),
    /// Replaces a fold that is left out; nothing where folds are shown.
    Short(Vec<Block>),
    Warnings(Vec<Warnings>),
    /// A fold with its summary: not for the first look.
    Fold(String, Vec<Block>),
}

/// A line of a list.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) tone: Tone,
    /// `audit: `, `! ` or spaces.
    pub(crate) mark: &'static str,
    pub(crate) text: String,
}

impl Item {
    /// Returns whether it tells more of the line above.
    pub(crate) fn is_detail(&self) -> bool {
        self.mark == "  "
    }
}

/// Findings of one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Warnings {
    pub(crate) cause: Cause,
    pub(crate) texts: Vec<String>,
}

impl Warnings {
    /// Returns what is said above them: `stalled (3)`.
    pub(crate) fn heading(&self) -> String {
        format!("{} ({})", self.cause.name(), self.texts.len())
    }
}

/// Returns the line of a list.
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

/// Returns the first screen.
pub(crate) fn first(report: &Report) -> Vec<Block> {
    let lines = sentences::summary(&report.header.study, &report.summary).into_iter();
    let mut blocks: Vec<Block> = lines.map(|line| Block::Text(Tone::Strong, line)).collect();
    let run: Vec<_> = report.comparisons.iter().filter(|one| one.was_run()).collect();
    if !run.is_empty() {
        let matrix = matrix::matrix(report);
        let legend = matrix::has_best(&matrix).then(|| matrix::LEGEND.to_owned());
        blocks.push(Block::Table(matrix));
        let unequal = matrix::has_unequal(report).then(|| matrix::UNEQUAL.to_owned());
        blocks.extend(legend.into_iter().chain(unequal).map(|text| Block::Text(Tone::Faint, text)));
    }
    if let [only] = run[..] {
        blocks.push(Block::Short(vec![Block::Table(tables::short(only))]));
    }
    if run.len() > 1 {
        blocks.push(Block::Table(matrix::key_figures(&run)));
    }
    let together = sentences::together(&report.comparisons);
    blocks.extend(together.map(|text| Block::Text(Tone::Faint, text)));
    if run.len() > 1 {
        let found = sentences::found(&report.header.study, &report.sentences).into_iter();
        let found = found.map(|line| item(Tone::Plain, "", line)).collect();
        blocks.push(Block::Fold("what was found, load by load".to_owned(), found));
    }
    if !report.findings.is_empty() {
        blocks.push(Block::Warnings(by_cause(&report.findings)));
    }
    blocks
}

/// Groups findings by their cause, the gravest cause first.
fn by_cause(findings: &[Finding]) -> Vec<Warnings> {
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

/// Returns the fairness sheet: what differs first, then what does not, folded.
pub(crate) fn fairness(report: &Report) -> Vec<Block> {
    let sheet = &report.fairness;
    if sheet.systems.len() < 2 {
        return Vec::new();
    }
    let differing = sheet.differing();
    let heading = "fairness: what differs between the contenders besides the product";
    let mut blocks = vec![Block::Heading(heading.to_owned())];
    if differing.is_empty() {
        blocks.push(Block::Text(Tone::Plain, "nothing that is known".to_owned()));
    }
    blocks.extend(differing.into_iter().map(|row| {
        let mark = if row.weight == Weight::Decides { "! " } else { "  " };
        item(Tone::Plain, mark, words::fairness_row(row, &sheet.systems))
    }));
    let rest = words::fairness_rest(sheet);
    if !rest.is_empty() {
        let count = sheet.same().count() + sheet.unknown().count();
        let summary =
            format!("fairness: {} the same for all, or not known", plural(count as u64, "fact"));
        let items = rest.into_iter().map(|line| item(Tone::Faint, "  ", line));
        blocks.push(Block::Fold(summary, items.collect()));
    }
    blocks
}
