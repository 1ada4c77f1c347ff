//! The page's frame, and elements that sections share: escaped text, tables, figures.
//!
//! Every text from a study, server or record passes [`escape`]; there is no other way into the page. The page's policy
//! allows only its own style and script, by their hashes. Even a text that slipped through could neither run nor load
//! anything.
//!
//! Not here: the content of sections.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::document::table::{Cell, Table, Tone};
use crate::document::words::brief;
use bakeoff_core::units::is_harmful;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// Script of the live page, which runs after [`SCRIPT`].
const LIVE: &str = include_str!("live.js");

/// Escapes a text for HTML. Control characters, and those that change the direction of writing, become visible.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' => escaped.push(' '),
            '\u{0}'..='\u{1f}' => {
                escaped.push(char::from_u32(0x2400 + char as u32).unwrap_or('\u{fffd}'));
            }
            // XML has no place for the last two.
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            char if is_harmful(char) => escaped.push('\u{fffd}'),
            char => escaped.push(char),
        }
    }
    escaped
}

/// A section of the page.
#[derive(Debug)]
pub(super) struct Section {
    /// Anchor.
    pub(super) id: &'static str,
    pub(super) heading: &'static str,
    /// Answer of the section, in a few words.
    pub(super) answer: String,
    /// HTML.
    pub(super) body: String,
}

impl Section {
    /// Creates a section of a page without a table of contents.
    pub(super) fn plain(id: &'static str, heading: &'static str, body: String) -> Self {
        Self { id, heading, answer: String::new(), body }
    }
}

/// Assembles the whole page. `top` and `data` are HTML.
pub(super) fn page(title: &str, top: &str, sections: &[Section], data: &str) -> String {
    assembled(title, top, sections, data, &[SCRIPT])
}

/// Assembles the live page, which connects to its server.
pub(super) fn live(title: &str, top: &str) -> String {
    assembled(title, top, &[], "", &[SCRIPT, LIVE])
}

fn assembled(
    title: &str,
    top: &str,
    sections: &[Section],
    data: &str,
    scripts: &[&'static str],
) -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    let room = sections.iter().map(|section| section.body.len()).sum::<usize>() + data.len();
    let mut page = String::with_capacity(room + (1 << 16));
    let hashes: Vec<String> =
        scripts.iter().map(|script| format!("'sha256-{}'", hash(script))).collect();
    let connects = if scripts.contains(&LIVE) { "connect-src 'self'; " } else { "" };
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'sha256-{}'; script-src {}; {connects}base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{}</title>\n<style>{STYLE}</style></head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the report</a>\n\
         <main id=\"main\" tabindex=\"-1\"><article aria-labelledby=\"verdict\">",
        hash(STYLE),
        hashes.join(" "),
        escape(title),
    );
    page.push_str(top);
    page.push_str("</article>");
    for Section { id, heading, body, .. } in sections {
        let heading = escape(heading);
        let _ = write!(
            page,
            "\n<section id=\"{id}\" aria-labelledby=\"{id}-h\"><h2 id=\"{id}-h\">{heading}</h2>\n\
             {body}</section>"
        );
    }
    page.push_str("\n</main>\n");
    page.push_str(data);
    scripts.iter().for_each(|script| page.push_str(&format!("<script>{script}</script>\n")));
    page.push_str("</body></html>\n");
    page
}

/// Returns a paragraph with a class; empty without text.
pub(super) fn paragraph(class: &str, text: &str) -> String {
    match (class, text) {
        (_, "") => String::new(),
        ("", text) => format!("<p>{}</p>", escape(text)),
        (class, text) => format!("<p class=\"{class}\">{}</p>", escape(text)),
    }
}

/// Returns a list; empty without items.
pub(super) fn list(class: &str, items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items: String = items.iter().map(|item| format!("<li>{}</li>", escape(item))).collect();
    format!("<ul class=\"{class}\">{items}</ul>")
}

/// Folds `inner`, which is HTML, below a summary.
pub(super) fn details(summary: &str, inner: &str) -> String {
    format!("<details><summary>{}</summary>{inner}</details>", escape(summary))
}

/// Assembles a figure: title, drawing, how it was measured, and a table. All but the texts are HTML.
pub(super) fn figure(title: &str, legend: &str, svg: &str, how: &str, table: &str) -> String {
    let table = if table.is_empty() { String::new() } else { details("As a table", table) };
    format!(
        "<figure><figcaption>{}</figcaption>{legend}{svg}{}{table}</figure>",
        escape(title),
        paragraph("how", how),
    )
}

/// Returns a table of texts in a scrolling box. The first cell of each row is its heading.
pub(super) fn grid(caption: &str, head: &[String], rows: &[Vec<String>]) -> String {
    let cells = |row: &Vec<String>| row.iter().map(|text| Cell::from(text.as_str())).collect();
    cells_grid(caption, head, &rows.iter().map(cells).collect::<Vec<_>>(), false)
}

/// Most rows of a table that is shown whole. Longer ones scroll.
const SHOWN_ROWS_MAX: usize = 40;

/// Returns a table of typed cells in a scrolling box. `stacks`: on a narrow screen each row is a list of its cells.
fn cells_grid(caption: &str, head: &[String], rows: &[Vec<Cell>], stacks: bool) -> String {
    let class = match (rows.len() <= SHOWN_ROWS_MAX, stacks) {
        (true, true) => "scroll all stacks",
        (true, false) => "scroll all",
        (false, true) => "scroll stacks",
        (false, false) => "scroll",
    };
    let mut table = open(caption, class);
    let numbers: Vec<bool> = (0..head.len()).map(|column| is_numbers(rows, column)).collect();
    let cell = |(place, text): (usize, &String)| {
        let class = if numbers[place] { " class=\"n\"" } else { "" };
        match text.is_empty() {
            // A header without a text would be read aloud as nothing.
            true => "<td></td>".to_owned(),
            false => format!("<th scope=\"col\"{class}>{}</th>", escape(text)),
        }
    };
    let cells: String = head.iter().enumerate().map(cell).collect();
    let _ = write!(table, "<thead><tr>{cells}</tr></thead><tbody>");
    for row in rows {
        table.push_str("<tr>");
        for (place, cell) in row.iter().enumerate() {
            let text = cell.text();
            let text = match brief(&text).filter(|_| place > 0) {
                Some(brief) => details(&brief, &escape(&text)),
                None => escape(&text),
            };
            let tone = match cell.tone() {
                Tone::Plain => "",
                Tone::Strong => "best",
                Tone::Faint => "faint",
                Tone::Alarm => "alarm",
            };
            let number = if numbers[place] { "n" } else { "" };
            let class = format!("{number} {tone}");
            let label = match stacks {
                true => format!(" data-label=\"{}\"", escape(&head[place])),
                false => String::new(),
            };
            let _ = match (place, class.trim()) {
                (0, _) => write!(table, "<th scope=\"row\">{text}</th>"),
                (_, "") => write!(table, "<td{label}>{text}</td>"),
                (_, class) => write!(table, "<td class=\"{class}\"{label}>{text}</td>"),
            };
        }
        table.push_str("</tr>");
    }
    table.push_str("</tbody></table></div>");
    table
}

/// Returns true if a column holds numbers, which are aligned right and never wrapped.
fn is_numbers(rows: &[Vec<Cell>], column: usize) -> bool {
    let cells = || rows.iter().filter_map(|row| row.get(column)).filter_map(Cell::figure);
    let short = |cell: &str| {
        cell.chars().count() <= 24
            && cell.starts_with(|first: char| first.is_ascii_digit() || "–<>-×".contains(first))
    };
    column > 0 && cells().any(|cell| cell != "–") && cells().all(short)
}

/// Renders a table that terminal and Markdown share.
pub(super) fn table(caption: &str, of: &Table) -> String {
    rendered(caption, of, false)
}

/// Renders a table of the first screen, which has no room to scroll on a narrow one.
pub(super) fn stacking_table(caption: &str, of: &Table) -> String {
    rendered(caption, of, true)
}

fn rendered(caption: &str, of: &Table, stacks: bool) -> String {
    let columns: Vec<_> = of.groups.iter().flatten().collect();
    let corner = [of.corner.clone()];
    let head: Vec<String> =
        corner.into_iter().chain(columns.iter().map(|column| column.head.join(" "))).collect();
    let row = |(place, label): (usize, &String)| {
        let cells = columns.iter().map(|column| column.cells[place].clone());
        std::iter::once(Cell::from(label.as_str())).chain(cells).collect()
    };
    let rows: Vec<Vec<Cell>> = of.labels.iter().enumerate().map(row).collect();
    cells_grid(caption, &head, &rows, stacks)
}

fn open(caption: &str, class: &str) -> String {
    // A scrolling box must be reachable by keyboard, so it needs a name.
    let caption = escape(caption);
    format!(
        "<div class=\"{class}\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table>\
         <caption>{caption}</caption>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_escaped() {
        assert_eq!(
            escape("<script>alert('1')</script>"),
            "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;"
        );
        assert_eq!(escape("a\u{1b}[31m\nb\u{202e}c\u{85}"), "a\u{241b}[31m b\u{fffd}c\u{fffd}");
        assert_eq!(escape("\" onload=\""), "&quot; onload=&quot;");
    }

    #[test]
    fn style_and_script_can_be_embedded() {
        for text in [STYLE, SCRIPT, LIVE] {
            assert!(!text.contains("</"));
            for outside in ["https:", "@import", "url(", "fetch(", "eval(", "innerHTML"] {
                assert!(!text.contains(outside), "{outside}");
            }
            // The name of SVG's elements is no address.
            assert!(!text.replace("http://www.w3.org/2000/svg", "").contains("http:"));
        }
    }
}
