//! Every trial: validity, checks, errors by kind.
//!
//! Not here: the checks (`check`, `record`).

use bakeoff_core::check::Verdict;
use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::units::{count_text, share_text};

use crate::derive::comparison::Comparison;
use crate::document::report::Report;
use crate::document::words;
use crate::model::quantity::{Point, Quantity};
use crate::model::trial::TrialFigures;

use super::page::{grid, list, paragraph};
use super::place;

pub(super) fn section(report: &Report) -> String {
    let mut html = paragraph(
        "how",
        "A trial is valid if it ran to its end and no audit and no check failed. A check that could not \
         be made does not make it invalid, but is listed.",
    );
    html.push_str(&grid("Every trial", &head(), &rows(report)));
    html.push_str(&errors(report));
    let lines: Vec<String> = report
        .comparisons
        .iter()
        .flat_map(|of| {
            words::audits(of).into_iter().map(move |line| format!("{}: {}", place(of), line.text))
        })
        .collect();
    if !lines.is_empty() {
        html.push_str("<h3>Audits of acknowledged writes</h3>");
        html.push_str(&list("notes", &lines));
    }
    html
}

fn head() -> Vec<String> {
    let head = [
        "trial",
        "round",
        "system",
        "workload and load",
        "valid",
        "throughput /s",
        "p99",
        "errors",
        "audits",
        "checks passed",
        "not checked",
    ];
    head.map(str::to_owned).to_vec()
}

fn rows(report: &Report) -> Vec<Vec<String>> {
    let mut rows: Vec<(u32, Vec<String>)> = Vec::new();
    for comparison in &report.comparisons {
        for one in &comparison.contenders {
            rows.extend(
                one.trials.iter().map(|trial| (trial.number, row(comparison, &one.system, trial))),
            );
        }
    }
    rows.sort_by_key(|(number, _)| *number);
    rows.into_iter().map(|(_, row)| row).collect()
}

fn row(of: &Comparison, system: &str, trial: &TrialFigures) -> Vec<String> {
    let text = |quantity: Quantity| quantity.text(trial.get(quantity));
    let valid = match trial.valid() {
        true => "valid".to_owned(),
        false => format!("NOT VALID: {}", trial.validity.invalid_because.join("; ")),
    };
    let audits = match trial.verdicts.audits.len() {
        0 => "none".to_owned(),
        all => {
            let passed =
                trial.verdicts.audits.iter().filter(|audit| audit.verdict.passed()).count();
            format!("{passed} of {all} passed")
        }
    };
    let passed = trial.verdicts.checks.iter().filter(|check| check.verdict.passed());
    let passed: Vec<&str> = passed.map(|check| check.name.as_str()).collect();
    let audits_unchecked = trial.verdicts.audits.iter().filter_map(|audit| match &audit.verdict {
        Verdict::NotChecked(why) => Some(format!("audit {}: {why}", audit.when)),
        _ => None,
    });
    let unchecked = trial.verdicts.checks.iter().filter_map(|check| match &check.verdict {
        Verdict::NotChecked(why) => Some(format!("{}: {why}", check.name)),
        _ => None,
    });
    let unchecked: Vec<String> = unchecked.chain(audits_unchecked).collect();
    vec![
        format!("{:02}", trial.number),
        trial.round.to_string(),
        system.to_owned(),
        place(of),
        valid,
        text(Quantity::ThroughputMean),
        text(Quantity::Response(Point::P99)),
        text(Quantity::Errors),
        audits,
        or_dash(passed.join(", ")),
        or_dash(unchecked.join("; ")),
    ]
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "–".to_owned() } else { text }
}

/// Returns a table of errors by kind over all trials, with the first of each.
fn errors(report: &Report) -> String {
    let mut rows = Vec::new();
    for comparison in report.comparisons.iter().filter(|one| one.was_run()) {
        for one in &comparison.contenders {
            for kind in ErrorKind::ALL.into_iter().map(Some).chain([None]) {
                let quantity = kind.map_or(Quantity::ConnectionErrors, Quantity::ErrorsOf);
                let sum = |quantity| -> f64 {
                    let counts = one.trials.iter().filter_map(|trial| trial.get(quantity).value());
                    counts.sum()
                };
                let count = sum(quantity);
                if count == 0.0 {
                    continue;
                }
                let examples = one.trials.iter().flat_map(|trial| &trial.errors.examples);
                let first =
                    examples.filter(|(of, _)| *of == kind).map(|(_, example)| example).next();
                let share = match kind {
                    Some(_) => share_text(count / sum(Quantity::Requests).max(1.0)),
                    None => "–".to_owned(),
                };
                rows.push(vec![
                    one.system.clone(),
                    place(comparison),
                    kind.map_or("connection lost", ErrorKind::name).to_owned(),
                    quantity.text(bakeoff_core::stats::Figure::Value(count)),
                    share,
                    first.map_or("–".to_owned(), |example| example.what.clone()),
                    first.map_or("–".to_owned(), |example| {
                        format!("{} after {:.1} s", example.node, example.at_seconds)
                            .trim()
                            .to_owned()
                    }),
                ]);
            }
        }
    }
    if rows.is_empty() {
        return "<h3>Errors</h3><p>No operation failed.</p>".to_owned();
    }
    let head = ["system", "workload and load", "kind", "count", "of all", "first example", "where"];
    let caption = "Errors by kind, in all trials, valid or not";
    let errors = grid(caption, &head.map(str::to_owned), &rows);
    format!("<h3>Errors</h3>{errors}{}", error_texts(report))
}

/// Lists the texts of errors, the most frequent first; empty if each kind has only one text.
fn error_texts(report: &Report) -> String {
    let mut rows = Vec::new();
    let mut any_others = false;
    for comparison in report.comparisons.iter().filter(|one| one.was_run()) {
        for one in &comparison.contenders {
            for (kind, text, count, others) in words::error_texts(one) {
                any_others |= others;
                let (name, count) = (one.system.clone(), count_text(count));
                rows.push(vec![name, place(comparison), kind.name().to_owned(), count, text]);
            }
        }
    }
    if !any_others {
        return String::new();
    }
    let head = ["system", "workload and load", "kind", "count", "what"].map(str::to_owned);
    grid("Errors by text, in all trials, without varying parts", &head, &rows)
}
