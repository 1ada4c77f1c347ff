//! Renders a report for a terminal, or for a file.
//!
//! Without a terminal, lines have their full length. In a terminal, nothing is wider than it: tables are split by
//! columns, and prose is wrapped. All foreign text (a server's error, say) passes one function that makes control
//! characters visible. A record therefore cannot send escape codes to a terminal.

use bakeoff_core::units::harmless;

use bakeoff_core::units::plural;

use crate::derive::method;
use crate::document::line::shortened;
use crate::document::linearizability::Drawing;
use crate::document::report::Report;
use crate::document::table::{Column, Table, Tone};
use crate::document::{self, Block, Item, Warnings, verification, words};

use super::bars::bars;

/// Appearance of a terminal's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal; `None` without a terminal, for unlimited lines.
    pub width: Option<u16>,
    /// True if escape codes are allowed.
    pub colour: bool,
}

/// How much of a report to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The answer in at most 21 lines, in a log 26: verdict, conclusion, published figures, bars with intervals, key
    /// figures, a line for each cause of warnings.
    Glance,
    /// Everything.
    Full,
}

/// Columns from which a table's cells may hold a clause.
const WIDE: usize = 110;
/// Columns that a table adds to the text of a cell.
const PADDING: usize = 2;

/// Lines at a glance in a terminal of 80 columns or more. With the paths that follow, they fill a screen of 24.
const SCREEN_LINES: usize = 21;
/// Lines at a glance in a log.
const LOG_LINES: usize = 26;
/// Lines of the conclusion at a glance in a terminal.
const SCREEN_CONCLUSIONS: usize = 3;
/// Lines that warnings have in any case.
const WARNING_LINES: usize = 3;
/// Facts about what was verified.
const FACTS: usize = 3;
/// Width of bars without a terminal.
const WIDE_ENOUGH: usize = 110;
/// Longest line without a terminal.
const LOG_LINE: usize = 220;

/// Returns a report as text, ending in a newline. The text mentions what is left out.
pub fn terminal(report: &Report, style: &Style, extent: Extent) -> String {
    let mut page = Page { style: *style, text: String::new() };
    if extent == Extent::Glance {
        page.glance(report);
        return page.text;
    }
    page.line(Tone::Strong, &words::title(&report.header.study));
    page.line(Tone::Faint, &words::provenance(report));
    page.line(Tone::Faint, &format!("machine: {}", words::machine(&report.header.environment)));
    page.gap();
    page.blocks(&document::blocks(report, page.width() >= WIDE));
    page.text
}

/// Returns which published rules for measurements the run meets, with evidence, as text ending in a newline.
pub fn demands(report: &Report, style: &Style) -> String {
    let mut page = Page { style: *style, text: String::new() };
    page.line(Tone::Strong, &words::title(&report.header.study));
    page.line(Tone::Faint, &words::provenance(report));
    for answer in &report.method {
        let colour = alarm(answer.met == method::Compliance::No);
        page.gap();
        page.line(Tone::Strong, answer.demand.by);
        page.item(Tone::Plain, "  ", &format!("rule: {}", answer.demand.asks));
        page.item(colour, "  ", &format!("this run: {}: {}", answer.met.name(), answer.why));
        page.item(Tone::Faint, "  ", &format!("shown by: {}", answer.demand.shown_by));
        page.item(Tone::Faint, "  ", &format!("bakeoff lacks: {}", answer.demand.lacks));
    }
    page.gap();
    page.line(Tone::Plain, &method::summary(&report.method));
    page.text
}

/// Findings about one cause or system, for a line at a glance.
struct Remark {
    tone: Tone,
    /// `! trials not valid`, or a system.
    about: String,
    texts: Vec<String>,
}

/// Returns the findings in the order in which they matter: what may change the answer, then what explains figures.
fn remarks(report: &Report) -> Vec<Remark> {
    let findings = &report.findings;
    let warning = |Warnings { cause, texts }| Remark {
        tone: Tone::Alarm,
        about: format!("! {}", cause.name()),
        texts,
    };
    let plain = |about: String, texts| Remark { tone: Tone::Plain, about, texts };
    let mut found: Vec<Remark> = document::warnings(findings).into_iter().map(warning).collect();
    let explained = document::explanations(findings).into_iter();
    found.extend(explained.map(|one| plain(format!("  {}", one.system), one.texts)));
    let notes = document::notes(findings);
    found.extend((!notes.is_empty()).then(|| plain("  other".to_owned(), notes)));
    found
}

/// The text so far.
pub(crate) struct Page {
    pub(crate) style: Style,
    pub(crate) text: String,
}

impl Page {
    /// Writes all blocks.
    fn blocks(&mut self, blocks: &[Block]) {
        for block in blocks {
            match block {
                Block::Heading(text) => self.heading(text),
                Block::Text(tone, text) => self.line(*tone, text),
                Block::Item(Item { tone, mark, text }) => self.item(*tone, mark, text),
                Block::Table(table) => {
                    self.gap();
                    self.table(table);
                }
                Block::Violation(drawing) => {
                    self.gap();
                    self.violation(drawing, usize::MAX);
                }
                Block::Warnings(groups) => {
                    self.heading("warnings, by cause");
                    for group in groups {
                        self.line(Tone::Alarm, &group.heading());
                        for text in &group.texts {
                            self.item(Tone::Alarm, "! ", text);
                        }
                    }
                }
                Block::Fold(summary, blocks) => {
                    self.heading(summary);
                    self.blocks(blocks);
                }
            }
        }
    }

    /// Writes the answer: heading, support, bars or a row for each load, warnings, what was verified.
    fn glance(&mut self, report: &Report) {
        let width = self.style.width.map_or(WIDE_ENOUGH, |_| self.width());
        // A log has no width to keep to.
        let line_max = self.style.width.map_or(LOG_LINE, |_| width);
        let title = words::title(&report.header.study);
        self.push(Tone::Faint, &shortened(&format!("{title}; {}", words::when(report)), line_max));
        self.line(Tone::Strong, &report.headline.verdict);
        // A log scrolls. A screen has 24 lines.
        let is_log = self.style.width.is_none();
        let (lines_max, conclusions) = match self.style.width {
            Some(_) => (SCREEN_LINES, SCREEN_CONCLUSIONS),
            None => (LOG_LINES, usize::MAX),
        };
        let support_lines = if report.conclusion.is_empty() { 3 } else { 2 };
        let mut support = wrap(&report.headline.support.join(" "), self.width());
        if support.len() > support_lines {
            support.truncate(support_lines);
            let last = support.pop().unwrap_or_default();
            support.push(shortened(&format!("{last} …"), width));
        }
        support.retain(|line| !line.is_empty());
        support.iter().for_each(|line| self.push(Tone::Plain, line));
        if let Some(drawing) = report.violations.first() {
            self.violation(drawing, width);
        }
        for line in report.conclusion.iter().take(conclusions) {
            self.push(Tone::Plain, &shortened(&format!("- {line}"), line_max));
        }
        let figures = document::key_figures(report);
        if !figures.is_empty() {
            self.gap();
        }
        let remarks = remarks(report);
        let used = self.text.lines().count();
        let published = document::published(report);
        // Of what is left, one line is for what was verified, and at least one for warnings.
        let remarked = if published.is_some() { 1 } else { WARNING_LINES };
        let mut room = lines_max.saturating_sub(used + 1 + remarks.len().min(remarked));
        if let Some((table, _)) = published {
            // The run's own figures of all systems have room in any case, with their headings.
            let own: usize = figures.iter().map(|table| table.labels.len() + 1).sum();
            let columns: Vec<&Column> = table.groups.iter().flatten().collect();
            let lines = grid(&table, &columns, self.style.colour);
            let lines: Vec<(Tone, String)> =
                lines.into_iter().map(|(line, _)| (Tone::Plain, line)).collect();
            let before = self.text.lines().count();
            // As many rows as systems: those of the deciding figure.
            let systems = report.deciding().map_or(0, |one| one.contenders.len());
            let most = room.saturating_sub(own).max(3);
            self.first_lines(&lines, (systems + 2).min(most), "published figure");
            room = room.saturating_sub(self.text.lines().count() - before);
        }
        let watches = document::watches(report);
        let watches: Vec<(Tone, String)> =
            watches.first().map_or_else(Vec::new, |of| self.compact(of, width));
        // Of a long list of systems, their bars come first.
        let watches_room = watches.len().min(room / 2);
        room = room.saturating_sub(watches_room);
        let side = document::side_questions(report);
        let side_room = side.len().min(room / 2);
        let each = (room - side_room) / figures.len().max(1);
        for (number, (picture, figures)) in report.pictures.iter().zip(&figures).enumerate() {
            let lines = bars(picture, figures, width);
            // No system of the deciding load is left out, and none at all in a log, which scrolls.
            let room = if number == 0 || is_log { lines.len() } else { each };
            self.first_lines(&lines, room, "system");
        }
        let watches_room = if is_log { watches.len() } else { watches_room };
        if watches_room > 2 || watches_room == watches.len() {
            self.first_lines(&watches, watches_room, "system");
        }
        let side: Vec<(Tone, String)> = side
            .into_iter()
            .map(|one| (Tone::Faint, shortened(&format!(" {}", one.answer), line_max)))
            .collect();
        self.first_lines(&side, side_room, "load");
        let used = self.text.lines().count();
        let room = lines_max.saturating_sub(used + 1).max(1);
        self.remarks(&remarks, room, line_max);
        let facts = verification::verified(report).into_iter().take(FACTS);
        let facts: Vec<String> = facts.map(|(label, value)| format!("{label}: {value}")).collect();
        let all = "`--all` shows everything";
        let facts = shortened(&facts.join("; "), line_max.saturating_sub(all.len() + 2));
        let facts = if facts.is_empty() { facts } else { format!("{facts}; ") };
        self.push(Tone::Faint, &format!("{facts}{all}"));
    }

    /// Returns a table as lines without its title. The last columns are left out if they have no room.
    fn compact(&self, of: &Table, width: usize) -> Vec<(Tone, String)> {
        let columns = parts(of, width).into_iter().next().unwrap_or_default();
        let lines = grid(of, &columns, self.style.colour).into_iter();
        lines.map(|(line, _)| (Tone::Plain, line)).collect()
    }

    /// Writes lines with a heading as far as there is room, and the number of those left out.
    fn first_lines(&mut self, lines: &[(Tone, String)], room: usize, what: &str) {
        let shown = if lines.len() <= room { lines.len() } else { room.saturating_sub(1).max(2) };
        for (tone, line) in lines.iter().take(shown) {
            // The cells of a table are painted already.
            match tone {
                Tone::Plain => {
                    self.text.push_str(line);
                    self.text.push('\n');
                }
                tone => self.push(*tone, line),
            }
        }
        let left = lines.len().saturating_sub(shown);
        if left > 0 {
            let more = plural(left as u64, &format!("more {what}"));
            self.line(Tone::Faint, &format!(" … {more}: `--all`"));
        }
    }

    /// Writes a line for each cause or system, within `room` lines.
    fn remarks(&mut self, of: &[Remark], room: usize, width: usize) {
        let shown = if of.len() <= room { of.len() } else { room - 1 };
        for Remark { tone, about, texts } in &of[..shown] {
            let first = texts.first().map_or("", String::as_str);
            let more = match texts.len() {
                0 | 1 => String::new(),
                count => format!(" (and {} more)", count - 1),
            };
            let room = width.saturating_sub(more.chars().count());
            let line = shortened(&format!("{about}: {first}"), room);
            self.push(*tone, &format!("{line}{more}"));
        }
        let left = |tone: Tone| -> usize {
            of[shown..].iter().filter(|one| one.tone == tone).map(|one| one.texts.len()).sum()
        };
        let (warnings, notes) = (left(Tone::Alarm), left(Tone::Plain));
        match (warnings, notes) {
            (0, 0) => {}
            (0, notes) => {
                let notes = plural(notes as u64, "more note");
                self.push(Tone::Plain, &format!("  {notes} on the figures: `--all`"));
            }
            (warnings, notes) => {
                let warnings = plural(warnings as u64, "more warning");
                let notes = match notes {
                    0 => String::new(),
                    notes => format!(", {}", plural(notes as u64, "note")),
                };
                self.push(Tone::Alarm, &format!("! {warnings}{notes}: `--all`"));
            }
        }
    }

    /// Draws the operations of a violation below its title, which is cut at `width`.
    fn violation(&mut self, of: &Drawing, width: usize) {
        self.push(Tone::Strong, &shortened(&of.title, width));
        let width = self.style.width.map_or(WIDE_ENOUGH, |_| self.width());
        of.lines(width).iter().for_each(|line| self.push(Tone::Plain, line));
    }

    fn heading(&mut self, text: &str) {
        self.gap();
        self.line(Tone::Strong, text);
    }

    fn width(&self) -> usize {
        self.style.width.map_or(usize::MAX, |width| usize::from(width.max(20)))
    }

    pub(crate) fn gap(&mut self) {
        self.text.push('\n');
    }

    /// Writes one line, after making its text harmless.
    fn push(&mut self, tone: Tone, text: &str) {
        self.text.push_str(&painted(&harmless(text), tone, self.style.colour));
        self.text.push('\n');
    }

    /// Writes prose, wrapped between words.
    pub(crate) fn line(&mut self, tone: Tone, text: &str) {
        self.item(tone, "", text);
    }

    /// Writes prose after a mark; continuation lines are indented.
    pub(crate) fn item(&mut self, tone: Tone, mark: &str, text: &str) {
        let hang = if mark.trim().is_empty() { mark.len() + 2 } else { 2 };
        let room = self.width().saturating_sub(mark.len().max(hang));
        for (number, line) in wrap(text, room).into_iter().enumerate() {
            let before = if number == 0 { mark.to_owned() } else { " ".repeat(hang) };
            self.push(tone, &format!("{before}{line}"));
        }
    }

    pub(crate) fn table(&mut self, table: &Table) {
        if let Some(title) = &table.title {
            self.line(Tone::Strong, title);
        }
        for columns in parts(table, self.width()) {
            let lines = grid(table, &columns, self.style.colour);
            let rule = "─".repeat(lines.iter().map(|(_, long)| *long).max().unwrap_or(0));
            let head = columns.iter().map(|column| column.head.len()).max().unwrap_or(0).max(1);
            self.push(Tone::Plain, &rule);
            for (number, (line, _)) in lines.iter().enumerate() {
                if number == head {
                    self.push(Tone::Plain, &rule);
                }
                // The cells' texts were made harmless before.
                self.text.push_str(line);
                self.text.push('\n');
            }
            self.push(Tone::Plain, &rule);
        }
    }
}

/// Adds the escape codes of a tone, if they are allowed.
fn painted(text: &str, tone: Tone, colour: bool) -> String {
    let code = match tone {
        Tone::Strong => "1",
        Tone::Faint => "2",
        Tone::Alarm => "31",
        Tone::Plain => "",
    };
    let text = harmless(text);
    if !colour || code.is_empty() || text.is_empty() {
        return text;
    }
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Returns the alarm tone if `is_one` is true.
fn alarm(is_one: bool) -> Tone {
    if is_one { Tone::Alarm } else { Tone::Plain }
}

/// Splits a table that is too wide by columns: as many groups as fit, at least one. A group that is too wide by itself
/// is split too.
fn parts(table: &Table, width: usize) -> Vec<Vec<&Column>> {
    let labels = widest(std::iter::once(&table.corner).chain(&table.labels).cloned());
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
    let cells = column.cells.iter().map(|cell| cell.text().into_owned());
    widest(column.head.iter().cloned().chain(cells))
}

fn widest(texts: impl Iterator<Item = String>) -> usize {
    texts.map(|text| harmless(&text).chars().count()).max().unwrap_or(0) + PADDING
}

/// Formats some of the columns, with labels on the left and cells on the right. Returns each line with its length
/// without escape codes.
fn grid(table: &Table, columns: &[&Column], colour: bool) -> Vec<(String, usize)> {
    let labels = widest(std::iter::once(&table.corner).chain(&table.labels).cloned()) - PADDING;
    let heads = columns.iter().map(|column| column.head.len()).max().unwrap_or(0).max(1);
    let line = |label: &str, cells: &[(String, Tone)]| {
        let label = harmless(label);
        let mut text = format!(" {label:labels$} ");
        let mut long = labels + PADDING;
        // No trailing spaces.
        let last = cells.iter().rposition(|(cell, _)| !cell.is_empty());
        for ((cell, tone), column) in
            cells.iter().zip(columns).take(last.map_or(0, |last| last + 1))
        {
            let room = column_width(column) - PADDING;
            let cell = harmless(cell);
            let before = " ".repeat(room.saturating_sub(cell.chars().count()));
            text.push_str(&format!(" {before}{} ", painted(&cell, *tone, colour)));
            long += room + PADDING;
        }
        let trimmed = text.trim_end().len();
        long = long.saturating_sub(text.len() - trimmed);
        text.truncate(trimmed);
        (text, long)
    };
    let head = |number: usize| {
        let cells: Vec<(String, Tone)> = columns
            .iter()
            .map(|column| (column.head.get(number).cloned().unwrap_or_default(), Tone::Plain))
            .collect();
        line(if number == 0 { &table.corner } else { "" }, &cells)
    };
    let row = |(number, label): (usize, &String)| {
        let cells: Vec<(String, Tone)> = columns
            .iter()
            .map(|column| (column.cells[number].text().into_owned(), column.cells[number].tone()))
            .collect();
        line(label, &cells)
    };
    (0..heads).map(head).chain(table.labels.iter().enumerate().map(row)).collect()
}

/// Wraps a text into lines of at most `width` characters, except for longer words.
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
