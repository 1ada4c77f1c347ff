//! Draws the operations that show a violation as intervals, one row each.
//!
//! A row's drawing is stretched to the width that is there, so it is readable on a phone. Its label stays text.
//!
//! Not here: positions (`document::linearizability`).

use std::fmt::Write as _;

use bakeoff_core::units::plural;

use crate::document::linearizability::{Drawing, DrawnOperation};

use super::page::escape;

/// Returns the figure of a violation.
pub(super) fn figure(of: &Drawing) -> String {
    let (rows, more) = of.first_rows();
    let mut html = format!(
        "<figure class=\"violation\"><figcaption><b>{}</b></figcaption>",
        escape(&of.title)
    );
    html.extend(rows.iter().map(|one| row(one, of.last)));
    if more > 0 {
        let more = plural(more, "more operation");
        let _ = write!(html, "<p class=\"small\">and {more}</p>");
    }
    html.push_str("</figure>");
    html
}

fn row(of: &DrawnOperation, last: usize) -> String {
    let (from, to) = (of.from, of.to.unwrap_or(last).max(of.from));
    let end = match of.to {
        Some(_) => mark(to),
        None => String::new(),
    };
    let class = if of.to.is_some() { "bar" } else { "bar open" };
    format!(
        "<div><span>{}</span><b>{}</b><svg viewBox=\"0 0 {last} 16\" preserveAspectRatio=\"none\" \
         aria-hidden=\"true\"><line class=\"base\" x1=\"0\" y1=\"8\" x2=\"{last}\" y2=\"8\"/>\
         <line class=\"{class}\" x1=\"{from}\" y1=\"8\" x2=\"{to}\" y2=\"8\"/>{}{end}</svg></div>",
        escape(&of.client),
        escape(&of.action),
        mark(from)
    )
}

/// Returns the mark of a start or an end.
fn mark(at: usize) -> String {
    format!("<line class=\"bar\" x1=\"{at}\" y1=\"2\" x2=\"{at}\" y2=\"14\"/>")
}
