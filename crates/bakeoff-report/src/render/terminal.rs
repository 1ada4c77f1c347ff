//! A report as a terminal shows it, or a file that it is sent to.
//!
//! Without a terminal: plain lines as long as they are. In one: nothing wider than it, by breaking
//! a table's columns over several tables and prose between words. What others wrote (a server's
//! error, say) passes one place where control characters become visible, so that no record can
//! send escape codes to a terminal.

use bakeoff_core::units::harmless;

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table as Grid};

use crate::derive::fairness::Weight;
use crate::derive::{floor, method, nodes, said, stale};
use crate::document::tables::{self, Column, Table};
use crate::document::words;
use crate::{Report, Style};

pub(crate) const BOLD: &str = "1";
pub(crate) const DIM: &str = "2";
pub(crate) const RED: &str = "31";
/// Words that a table's cells have in red.
const ALARMING: [&str; 2] = ["not valid", "FAILED"];
/// From so many columns on a table's cells may hold a clause.
const WIDE: usize = 110;
/// What a grid adds to the text of a cell.
const PADDING: usize = 2;

/// The whole report as text, ending in a newline.
pub fn terminal(report: &Report, style: &Style) -> String {
    let mut page = Page { style: *style, text: String::new() };
    let study = &report.header.study;
    page.line(Some(BOLD), &words::title(study));
    page.line(Some(DIM), &words::provenance(report));
    page.line(Some(DIM), &format!("machine: {}", words::machine(&report.header.environment)));
    if !report.findings.is_empty() {
        page.gap();
        for finding in &report.findings {
            page.item(Some(RED), "! ", finding);
        }
    }
    page.gap();
    for system in &report.header.systems {
        let (line, details) = words::system(system);
        page.line(None, &line);
        for detail in details {
            page.item(Some(DIM), "  ", &detail);
        }
    }
    for comparison in &report.comparisons {
        page.gap();
        page.line(Some(BOLD), &words::heading(study, comparison));
        page.line(Some(DIM), &words::workload(comparison));
        if comparison.contenders.iter().all(|one| one.trials.is_empty()) {
            page.line(Some(RED), "no trial was run");
            continue;
        }
        if let Some(combination) = words::combination(comparison) {
            page.line(Some(DIM), &combination);
        }
        page.table(&tables::main(comparison, page.width() >= WIDE));
        if let Some(table) = tables::judgements(comparison) {
            page.table(&table);
            for line in words::unjudged(comparison) {
                page.item(Some(DIM), "", &line);
            }
        }
        for line in floor::lines(comparison) {
            page.item(None, "", &line);
        }
        for line in words::published(report, comparison) {
            page.item(Some(DIM), "", &line);
        }
        for line in words::seconds(comparison).into_iter().chain(words::latencies(comparison)) {
            page.line(None, &line);
        }
        for line in words::invalid(comparison) {
            page.item(Some(RED), "", &line);
        }
        for line in words::audits(comparison) {
            page.item(line.failed.then_some(RED), "audit: ", &line.text);
        }
        for line in words::unchecked(comparison) {
            page.item(None, "", &line);
        }
        for line in words::errors(comparison) {
            page.item(Some(DIM), "error: ", &line);
        }
        for line in said::lines(comparison) {
            page.item(Some(DIM), "server said: ", &line);
        }
        for line in stale::lines(comparison) {
            page.item(None, "", &line);
        }
        let more = [
            tables::tries(comparison),
            nodes::table(comparison),
            tables::stages(comparison),
            tables::operations(comparison),
        ];
        for table in more.into_iter().chain([stale::table(comparison)]).flatten() {
            page.gap();
            page.table(&table);
        }
    }
    if report.fairness.systems.len() > 1 {
        page.gap();
        page.line(Some(BOLD), "fairness: what differs between the contenders besides the product");
        for row in report.fairness.differing() {
            let mark = if row.weight == Weight::Decides { "! " } else { "  " };
            page.item(None, mark, &words::fairness_row(row, &report.fairness.systems));
        }
        for line in words::fairness_rest(&report.fairness) {
            page.item(Some(DIM), "  ", &line);
        }
    }
    page.gap();
    page.line(Some(DIM), &method::summary(&report.method));
    for line in words::found(study, &report.sentences) {
        page.line(Some(BOLD), &line);
    }
    page.text
}

/// Which of the field's demands on a measurement the run met, and what says so, as text ending in a
/// newline.
pub fn demands(report: &Report, style: &Style) -> String {
    let mut page = Page { style: *style, text: String::new() };
    page.line(Some(BOLD), &words::title(&report.header.study));
    page.line(Some(DIM), &words::provenance(report));
    for answer in &report.method {
        let colour = (answer.met == method::Met::No).then_some(RED);
        page.gap();
        page.line(Some(BOLD), answer.demand.by);
        page.item(None, "  ", &format!("asks: {}", answer.demand.asks));
        page.item(colour, "  ", &format!("here: {}: {}", answer.met.name(), answer.why));
        page.item(Some(DIM), "  ", &format!("shown by: {}", answer.demand.shown_by));
        page.item(Some(DIM), "  ", &format!("lacks: {}", answer.demand.lacks));
    }
    page.gap();
    page.line(None, &method::summary(&report.method));
    page.text
}

/// The text so far.
pub(crate) struct Page {
    pub(crate) style: Style,
    pub(crate) text: String,
}

impl Page {
    fn width(&self) -> usize {
        self.style.width.map_or(usize::MAX, |width| usize::from(width.max(20)))
    }

    pub(crate) fn gap(&mut self) {
        self.text.push('\n');
    }

    /// One line, whose text is made harmless.
    fn push(&mut self, code: Option<&str>, text: &str) {
        let text = harmless(text);
        match code.filter(|_| self.style.colour && !text.is_empty()) {
            Some(code) => self.text.push_str(&format!("\x1b[{code}m{text}\x1b[0m")),
            None => self.text.push_str(&text),
        }
        self.text.push('\n');
    }

    /// Prose, broken between words.
    pub(crate) fn line(&mut self, code: Option<&str>, text: &str) {
        self.item(code, "", text);
    }

    /// The same behind a mark; later lines are indented.
    pub(crate) fn item(&mut self, code: Option<&str>, mark: &str, text: &str) {
        let hang = if mark.trim().is_empty() { mark.len() + 2 } else { 2 };
        let room = self.width().saturating_sub(mark.len().max(hang));
        for (number, line) in wrap(text, room).into_iter().enumerate() {
            let before = if number == 0 { mark.to_owned() } else { " ".repeat(hang) };
            self.push(code, &format!("{before}{line}"));
        }
    }

    pub(crate) fn table(&mut self, table: &Table) {
        if let Some(title) = &table.title {
            self.line(Some(BOLD), title);
        }
        for columns in parts(table, self.width()) {
            let text = grid(table, &columns).to_string();
            let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
            let wide = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
            let rule = "─".repeat(wide);
            let head = columns.iter().map(|column| column.head.len()).max().unwrap_or(0).max(1);
            self.table_line(&rule);
            for (number, line) in lines.into_iter().enumerate() {
                if number == head {
                    self.table_line(&rule);
                }
                self.table_line(line);
            }
            self.table_line(&rule);
        }
    }

    fn table_line(&mut self, line: &str) {
        let mut text = harmless(line);
        if self.style.colour {
            for word in ALARMING {
                text = text.replace(word, &format!("\x1b[{RED}m{word}\x1b[0m"));
            }
        }
        self.text.push_str(&text);
        self.text.push('\n');
    }
}

/// The columns of each part of a table that is too wide: as many groups as fit, at least one; the
/// columns of a group that is too wide alone go as they fit.
fn parts(table: &Table, width: usize) -> Vec<Vec<&Column>> {
    let labels = widest(std::iter::once(&table.corner).chain(&table.labels));
    let room = width.saturating_sub(labels);
    let wide =
        |columns: &[&Column]| columns.iter().map(|column| column_width(column)).sum::<usize>();
    let mut parts: Vec<Vec<&Column>> = Vec::new();
    for group in &table.groups {
        let whole: Vec<&Column> = group.iter().collect();
        let pieces: Vec<Vec<&Column>> = if wide(&whole) <= room {
            vec![whole]
        } else {
            whole.into_iter().map(|column| vec![column]).collect()
        };
        for piece in pieces {
            match parts.last_mut() {
                Some(part) if wide(part) + wide(&piece) <= room => part.extend(piece),
                _ => parts.push(piece),
            }
        }
    }
    parts
}

fn column_width(column: &Column) -> usize {
    widest(column.head.iter().chain(&column.cells))
}

fn widest<'a>(texts: impl Iterator<Item = &'a String>) -> usize {
    texts.map(|text| harmless(text).chars().count()).max().unwrap_or(0) + PADDING
}

/// The cells of some of the columns, aligned; no rules, as comfy-table cannot draw them without
/// widening what is between two columns.
fn grid(table: &Table, columns: &[&Column]) -> Grid {
    let mut grid = Grid::new();
    grid.load_style(NOTHING);
    grid.set_content_arrangement(ContentArrangement::Disabled);
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let left = |text: &str| Cell::new(harmless(text));
    let head = |column: &Column| {
        right(column.head.iter().map(|line| harmless(line)).collect::<Vec<_>>().join("\n"))
    };
    grid.set_header(
        std::iter::once(left(&table.corner)).chain(columns.iter().map(|column| head(column))),
    );
    for (row, label) in table.labels.iter().enumerate() {
        let cells = columns.iter().map(|column| right(harmless(&column.cells[row])));
        grid.add_row(std::iter::once(left(label)).chain(cells));
    }
    grid
}

/// Lines of at most `width` characters, as far as words allow it.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let (mut line, mut long) = (String::new(), 0);
    for word in text.split_whitespace() {
        let word_long = word.chars().count();
        if long > 0 && long + 1 + word_long > width {
            lines.push(std::mem::take(&mut line));
            long = 0;
        }
        if long > 0 {
            line.push(' ');
            long += 1;
        }
        line.push_str(word);
        long += word_long;
    }
    lines.push(line);
    lines
}
