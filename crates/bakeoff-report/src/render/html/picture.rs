//! The picture of a workload and load on the page: throughput on the left, the deciding latency on the right.
//!
//! Not here: the values (`document::picture`), dots and bars (`strip`).

use std::fmt::Write as _;

use bakeoff_core::stats::rounds::Preference;

use crate::document::picture::{Panel, Picture, number};

use super::page::{escape, paragraph};
use super::strip::{BROKEN_CLIENTS, ROW, RowWidth, Strip};
use super::svg::{LOOKS, outline};

/// Returns the picture with its heading. `level`: 2 on the first screen, 3 in a section.
pub(super) fn picture(of: &Picture, level: u8) -> String {
    let order = of.order.as_ref().map_or_else(String::new, |order| {
        let spoken = order.replace(" > ", " before ");
        format!(
            "<b><span aria-hidden=\"true\">{}</span><span class=\"hide\">{}</span></b>",
            escape(order),
            escape(&spoken)
        )
    });
    let mut html = format!(
        "<h{level} class=\"place\">{} <span>{}</span>{order}</h{level}><div class=\"pair\">",
        escape(&of.place),
        escape(&of.load)
    );
    html.extend(of.panels.iter().map(panel));
    html.push_str("</div>");
    html
}

fn panel(of: &Panel) -> String {
    let strip = Strip::new(of, RowWidth::Page);
    let better = match of.better {
        Preference::More => "more is better",
        Preference::Less => "less is better",
    };
    let log = if strip.is_log() { ", logarithmic" } else { "" };
    let limit = of.limit.as_ref().map_or_else(String::new, |limit| {
        format!("<span class=\"lim\">{} {}</span>", limit.name, number(limit.per_second))
    });
    let mut html = format!(
        "<figure><figcaption><b>{}</b><span>{better}{log}</span>{limit}<span class=\"vh\">median</span>\
         </figcaption>",
        escape(&of.title)
    );
    for row in &of.rows {
        let _ = write!(
            html,
            "<div class=\"row s{}\"><span class=\"name\"><b>{}</b><span class=\"sub\">{}</span></span>\
             <svg role=\"img\" aria-label=\"{}\">{}</svg><span class=\"value\">{}</span></div>",
            row.look % LOOKS,
            escape(&row.system),
            escape(&row.sub),
            escape(&strip.label(row)),
            strip.row(row),
            escape(&row.value)
        );
    }
    let _ = write!(
        html,
        "<div class=\"row ax\"><span class=\"name\"></span><svg class=\"ticks\" aria-hidden=\"true\">{}\
         </svg><span class=\"value\"></span></div>",
        strip.axis()
    );
    let beyond: Vec<String> = of
        .rows
        .iter()
        .flat_map(|row| row.published.iter().map(move |&value| (&row.system, value)))
        .filter(|(_, value)| !strip.shows(*value))
        .map(|(name, value)| format!("Published for {name}, beyond this axis: {}.", number(value)))
        .collect();
    let says: Vec<&str> =
        std::iter::once(of.says.as_str()).chain(beyond.iter().map(String::as_str)).collect();
    html.push_str(&paragraph("says", says.join(" ").trim()));
    html.push_str("</figure>");
    html
}

/// Returns the legend of the pictures that the report shows.
pub(super) fn legend(of: &[Picture]) -> String {
    let panels = || of.iter().flat_map(|one| &one.panels);
    let rows = || panels().flat_map(|panel| &panel.rows);
    let mut looks: Vec<usize> = rows().map(|row| row.look % LOOKS).collect();
    looks.sort_unstable();
    looks.dedup();
    let marks: String = looks
        .iter()
        .map(|look| {
            format!(
                "<svg viewBox=\"-7 -8 14 16\" class=\"one s{look}\" aria-hidden=\"true\">\
                 <path class=\"mark\" d=\"{}\"/></svg>",
                outline(*look, 0.0, 0.0)
            )
        })
        .collect();
    let dot = of.first().map_or("a trial", |one| one.dot);
    let mut entries = vec![(marks, dot.to_owned())];
    let mut add = |drawing: &str, text: String| {
        let svg = format!("<svg viewBox=\"0 0 26 16\" aria-hidden=\"true\">{drawing}</svg>");
        entries.push((svg, text));
    };
    if rows().flat_map(|row| &row.dots).any(|dot| !dot.valid) {
        add(
            "<g transform=\"translate(13 8)\"><path class=\"mark hollow s0\" d=\"M-4.5 0a4.5 4.5 0 1 0 9 \
             0a4.5 4.5 0 1 0 -9 0z\"/><path class=\"cross\" d=\"M-6-6L6 6M-6 6L6-6\"/></g>",
            format!("{dot} that does not count"),
        );
    }
    add("<line class=\"median\" x1=\"13\" x2=\"13\" y1=\"0\" y2=\"16\"/>", "median".to_owned());
    if panels().any(|panel| panel.leader.is_some()) {
        let lead = "<line class=\"lead\" x1=\"13\" x2=\"13\" y1=\"0\" y2=\"16\"/>";
        add(lead, "the leader's median".to_owned());
    }
    if rows().any(|row| row.bar.is_some()) {
        let bar = "<path class=\"bar\" d=\"M2 8H24M2 3V13M24 3V13\"/>";
        add(bar, "95 % interval against that median".to_owned());
    }
    if let Some(limit) = panels().find_map(|panel| panel.limit.as_ref()) {
        let cap = "<line class=\"cap\" x1=\"13\" x2=\"13\" y1=\"0\" y2=\"16\"/>";
        add(cap, format!("{}: {}", limit.name, limit.text));
    }
    if rows().any(|row| !row.published.is_empty()) {
        let ring = "<path class=\"published\" d=\"M13 1L20 8L13 15L6 8z\"/>";
        add(ring, "published".to_owned());
    }
    if rows().any(|row| row.broken_clients.is_some()) {
        let mark = format!(
            "<path class=\"broken\" transform=\"translate(13 -3)\" d=\"{BROKEN_CLIENTS}\"/>"
        );
        add(&mark, "outage of the broken nodes' clients, median".to_owned());
    }
    let items: String = entries
        .into_iter()
        .map(|(drawing, text)| format!("<li>{drawing}{}</li>", escape(&text)))
        .collect();
    format!("<ul class=\"legend\" aria-label=\"Legend\">{items}</ul>")
}

/// Height of a row in the style sheet.
const _: () = assert!(ROW == 46.0, "style.css has the same height");
