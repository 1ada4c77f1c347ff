//! Differences between the systems: each pair's ratios with their intervals.
//!
//! Not here: the statistics (`stats::judge`), the choice of figures (`judgement`).

use crate::derive::comparison::Comparison;
use crate::derive::judgement::{JudgedAs, Judgement};
use crate::document::report::Report;
use crate::document::{tables, words};

use super::frame::Frame;
use super::page::{details, escape, list, paragraph, table};
use super::place;
use super::scale::{Axis, Unit};

const FRAME: Frame = Frame::ROWS;
/// Height of one comparison: its name above its interval.
const ROW: f64 = 38.0;

pub(super) fn section(report: &Report) -> String {
    let mut html = paragraph(
        "how",
        "A ratio of 1 means no difference. A difference is claimed if the interval, corrected for all \
         comparisons of its table, does not include 1. Trials are compared round by round.",
    );
    for comparison in report.comparisons.iter().filter(|one| one.was_run()) {
        html.push_str(&format!("<article><h3>{}</h3>", escape(&place(comparison))));
        match tables::judgements(comparison) {
            Some(judged) => {
                let family = comparison.judgements.iter().map(|one| one.family).max().unwrap_or(0);
                let how = format!(
                    "Bars: 95 % intervals, corrected for {family} comparisons. Thick with a round \
                     mark: a difference is shown."
                );
                html.push_str(&paragraph("how", &how));
                html.push_str("<div class=\"charts\">");
                html.push_str(&charts(comparison));
                html.push_str("</div>");
                let caption = judged.title.as_deref().unwrap_or_default();
                html.push_str(&details("As a table", &table(caption, &judged)));
            }
            None => html.push_str("<p>Nothing was compared.</p>"),
        }
        html.push_str(&list("notes", &words::unjudged(comparison)));
        html.push_str("</article>");
    }
    html
}

/// Returns a chart for each judged figure.
fn charts(of: &Comparison) -> String {
    let mut subjects: Vec<&Judgement> = of.judgements.iter().collect();
    subjects.dedup_by(|a, b| a.is_about_what(b));
    let chart = |subject: &Judgement| {
        let judged: Vec<&Judgement> = of
            .judgements
            .iter()
            .filter(|one| one.is_about_what(subject) && one.answer.is_some())
            .collect();
        if judged.is_empty() { String::new() } else { chart(of, &judged) }
    };
    subjects.into_iter().map(chart).collect()
}

/// Returns the chart of one figure: a row with the interval for each pair, and a line at ratio 1.
fn chart(of: &Comparison, judged: &[&Judgement]) -> String {
    let intervals = || judged.iter().filter_map(|one| one.answer.map(|answer| answer.interval));
    let finite = |value: &f64| value.is_finite() && *value > 0.0;
    let least = intervals().map(|one| one.0).filter(finite).fold(1.0, f64::min);
    let most = intervals().map(|one| one.1).filter(finite).fold(1.0, f64::max);
    let axis = FRAME.across(Axis::log(Unit::Count, least.min(0.9), most.max(1.1)));
    let bottom = 6.0 + ROW * judged.len() as f64;
    let label = "ratio (logarithmic); left of the line: first is lower, right: first is higher";
    let mut svg = FRAME.with_axis_below(&axis, bottom, label);
    svg.line("baseline", axis.at(1.0), 0.0, axis.at(1.0), bottom);
    for (place, one) in judged.iter().enumerate() {
        let (base, middle) = (6.0 + ROW * place as f64 + 14.0, 6.0 + ROW * place as f64 + 27.0);
        let Some(answer) = one.answer else { continue };
        svg.text("name", "start", FRAME.left, base, &format!("{} by {}", one.a, one.b));
        svg.text(
            "value",
            "end",
            FRAME.right,
            base,
            &format!("{}: {}", one.ratio().unwrap_or_default(), one.found()),
        );
        let (from, to) = (axis.at(answer.interval.0), axis.at(answer.interval.1));
        let shown = matches!(one.verdict, JudgedAs::Higher | JudgedAs::Lower);
        let class = if shown { "interval shown" } else { "interval" };
        svg.line(class, from, middle, to, middle);
        svg.line(class, from, middle - 5.0, from, middle + 5.0);
        svg.line(class, to, middle - 5.0, to, middle + 5.0);
        svg.mark(if shown { 0 } else { 1 }, "judged", axis.at(answer.ratio), middle, &one.words());
    }
    let words: Vec<String> = judged.iter().map(|one| one.words()).collect();
    let what = judged.first().map_or(String::new(), |one| one.what());
    let title = format!("Ratio of {what}, {}", place(of));
    super::page::figure(&title, "", &svg.finish(&title, &words.join("; ")), "", "")
}
