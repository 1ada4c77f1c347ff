//! Renders a report as Markdown, for a pull request or a wiki: the first screen, with the rest folded.
//!
//! Text from records is escaped, so that it cannot create headings, links or HTML.

use std::fmt::Write as _;

use crate::document::report::Report;
use crate::document::table::{Cell, Table, Tone};
use crate::document::{self, Block, Item, Warnings, words};
use bakeoff_core::units::{harmless, is_harmful};

/// Columns of a drawing.
const MONOSPACED: usize = 100;

/// Returns a report as GitHub-flavoured Markdown, ending in a newline.
pub fn markdown(report: &Report) -> String {
    let mut page = Page::default();
    page.paragraph(&format!("# {}", escape(&words::title(&report.header.study))));
    page.blocks(&document::blocks(report, true));
    page.paragraph(&escape(&words::provenance(report)));
    let machine = words::machine(&report.header.environment);
    page.paragraph(&format!("Machine: {}", escape(&machine)));
    format!("{}\n", page.text.trim_end())
}

/// The text so far.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.text, "{text}\n");
    }

    fn blocks(&mut self, blocks: &[Block]) {
        let mut items: Vec<String> = Vec::new();
        // Details only follow a line without a mark.
        let mut was_mark = true;
        for block in blocks {
            if let Block::Item(item) = block {
                match items.last_mut() {
                    Some(above) if item.is_detail() && !was_mark => {
                        above.push_str(&format!("\n  - {}", in_a_list(item)));
                    }
                    _ => {
                        was_mark = !item.mark.is_empty();
                        items.push(in_a_list(item));
                    }
                }
                continue;
            }
            self.items(&mut items);
            match block {
                Block::Heading(text) => self.paragraph(&format!("## {}", escape(text))),
                Block::Text(Tone::Strong | Tone::Alarm, text) => {
                    self.paragraph(&format!("**{}**", escape(text)));
                }
                Block::Text(_, text) => self.paragraph(&escape(text)),
                Block::Table(of) => {
                    if let Some(title) = &of.title {
                        self.paragraph(&format!("### {}", escape(title)));
                    }
                    self.paragraph(&table(of));
                }
                Block::Violation(drawing) => {
                    self.paragraph(&format!("**{}**", escape(&drawing.title)));
                    // Names of clients come from records: an indented block has no end that they could forge.
                    let lines = drawing.lines(MONOSPACED).into_iter();
                    let lines = lines.map(|line| format!("    {}", harmless(&line)));
                    self.paragraph(&lines.collect::<Vec<_>>().join("\n"));
                }
                Block::Warnings(groups) => {
                    self.paragraph("## Warnings, by cause");
                    self.paragraph(&list(groups.iter().map(warnings)));
                }
                Block::Fold(summary, blocks) => {
                    // Markdown resumes after a blank line.
                    let summary = html(summary);
                    self.paragraph(&format!("<details><summary>{summary}</summary>"));
                    self.blocks(blocks);
                    self.paragraph("</details>");
                }
                Block::Item(_) => {}
            }
        }
        self.items(&mut items);
    }

    /// Ends a list.
    fn items(&mut self, items: &mut Vec<String>) {
        if !items.is_empty() {
            self.paragraph(&list(items.drain(..)));
        }
    }
}

fn in_a_list(of: &Item) -> String {
    let text = format!("{}{}", of.mark.trim_start_matches(['!', '-', ' ']), of.text);
    match of.tone {
        _ if of.mark == "! " => format!("**{}**", escape(&text)),
        Tone::Alarm | Tone::Strong => format!("**{}**", escape(&text)),
        _ => escape(&text),
    }
}

/// Renders the findings of one cause: a single one in the line, several below it.
fn warnings(of: &Warnings) -> String {
    let heading = format!("**{}**", escape(&of.heading()));
    match of.texts.as_slice() {
        [only] => format!("{heading}: {}", escape(only)),
        several => {
            let each = several.iter().map(|text| format!("\n  - {}", escape(text)));
            format!("{heading}{}", each.collect::<String>())
        }
    }
}

pub(crate) fn list(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().map(|item| format!("- {item}")).collect::<Vec<_>>().join("\n")
}

/// Renders a table. A heading with several lines is joined.
pub(crate) fn table(of: &Table) -> String {
    let columns = || of.groups.iter().flatten();
    let head = columns().map(|column| format!(" {} |", escape(&column.head.join(" "))));
    let mut lines = vec![format!("| {} |{}", escape(&of.corner), head.collect::<String>())];
    lines.push(format!("| --- |{}", columns().map(|_| " ---: |").collect::<String>()));
    for (row, label) in of.labels.iter().enumerate() {
        let cells = columns().map(|column| format!(" {} |", in_markdown(&column.cells[row])));
        lines.push(format!("| {} |{}", escape(label), cells.collect::<String>()));
    }
    lines.join("\n")
}

/// Renders a cell. The best one is bold.
fn in_markdown(of: &Cell) -> String {
    match of {
        Cell::Best(figure) => format!("**{}** \\*", escape(figure)),
        other => escape(&other.text()),
    }
}

/// Escapes a text inside HTML, where a backslash would be literal.
fn html(text: &str) -> String {
    let text: String = text.chars().map(|one| if is_harmful(one) { ' ' } else { one }).collect();
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    unlinked(&text)
}

/// Invisible separator that breaks up what a hub would turn into a link or a mention.
const NOTHING: &str = "<!-- -->";

/// Escapes a text for one line of Markdown, including extensions of hubs: bare links, `@name`, `#number`.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => {
                escaped.push('\\');
                escaped.push(char);
            }
            // A backslash before `<` would still start HTML for some readers.
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            char if is_harmful(char) => escaped.push(' '),
            char => escaped.push(char),
        }
    }
    unlinked(&escaped)
}

/// Breaks up bare links, mentions and references.
fn unlinked(text: &str) -> String {
    text.replace('@', &format!("@{NOTHING}"))
        .replace('#', &format!("#{NOTHING}"))
        .replace("://", &format!(":{NOTHING}//"))
        .replace("www.", &format!("www{NOTHING}."))
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn foreign_text_is_escaped() {
        assert_eq!(escape("a|b\nc"), "a\\|b c");
        assert_eq!(escape("<img src=x>"), "&lt;img src=x>");
        assert_eq!(escape("@all #1 a@b.c"), "@<!-- -->all #<!-- -->1 a@<!-- -->b.c");
        assert_eq!(escape("https://x www.y"), "https:<!-- -->//x www<!-- -->.y");
        assert_eq!(escape("a\u{202e}b"), "a b");
        assert_eq!(escape("`*[x](y)*`"), "\\`\\*\\[x\\](y)\\*\\`");
    }
}
