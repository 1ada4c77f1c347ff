//! Renders blocks of the document as HTML: sentences, lists, tables, warnings, folds.
//!
//! Not here: the choice of blocks (`document`), charts (one module per section).

use crate::document::table::{Table, Tone};
use crate::document::{Block, Item, Warnings};

use super::page::{details, escape, list, paragraph, table};

/// Returns the HTML of blocks.
pub(super) fn blocks(of: &[Block]) -> String {
    let mut html = String::new();
    let mut items: Vec<String> = Vec::new();
    for block in of {
        if let Block::Item(Item { mark, text, .. }) = block {
            items.push(format!("{}{text}", mark.trim_start()));
            continue;
        }
        html.push_str(&list("notes", &std::mem::take(&mut items)));
        html.push_str(&one(block));
    }
    html.push_str(&list("notes", &items));
    html
}

fn one(of: &Block) -> String {
    match of {
        Block::Heading(text) => format!("<h3>{}</h3>", escape(text)),
        Block::Text(Tone::Strong, text) => {
            format!("<div class=\"found\">{}</div>", paragraph("", text))
        }
        Block::Text(Tone::Alarm, text) => paragraph("invalid", text),
        Block::Text(Tone::Faint, text) => paragraph("how", text),
        Block::Text(Tone::Plain, text) => paragraph("", text),
        Block::Item(_) => String::new(),
        Block::Table(of) => titled("Each system's deciding figure", of),
        Block::Short(of) => of.iter().map(short).collect(),
        Block::Warnings(groups) => {
            let groups: String = groups.iter().map(warnings).collect();
            format!(
                "<div class=\"findings\" role=\"note\"><h2>Warnings, by cause</h2>{groups}</div>"
            )
        }
        Block::Fold(summary, of) => details(summary, &blocks(of)),
    }
}

/// Renders a block that stands in for a fold.
fn short(of: &Block) -> String {
    match of {
        Block::Table(of) => titled("Key figures", of),
        other => one(other),
    }
}

/// Renders a table with its title.
fn titled(otherwise: &str, of: &Table) -> String {
    table(of.title.as_deref().unwrap_or(otherwise), of)
}

/// Renders the findings of one cause: a single one in a line, several in a fold.
fn warnings(of: &Warnings) -> String {
    match of.texts.as_slice() {
        [only] => format!("<p><strong>{}</strong>: {}</p>", escape(of.cause.name()), escape(only)),
        several => details(&of.heading(), &list("", several)),
    }
}
