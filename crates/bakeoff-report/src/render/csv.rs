//! A report as CSV (RFC 4180): a header row, then one row a trial, in the order of the run.
//!
//! Numbers have full precision and their unit in the column's name. A figure that does not exist is
//! an empty field, and so is a latency beyond an hour, which `beyond_one_hour` then names. Where
//! failures reach a percentile, or it has too few operations, it is empty and `none_because` tells why.
//!
//! Not here: figures of several trials together (JSON has them).

use bakeoff_core::plan;
use bakeoff_core::stats::Figure;
use bakeoff_core::units::is_harmful;

use crate::derive::comparison::Comparison;
use crate::document::report::Report;
use crate::model::quantity::Quantity;
use crate::model::trial::TrialFigures;
use crate::render::json::none_because;

/// One row a trial; lines end in CR LF.
pub fn csv(report: &Report) -> String {
    let mut quantities: Vec<Quantity> = report
        .comparisons
        .iter()
        .flat_map(|one| &one.contenders)
        .flat_map(|one| &one.trials)
        .flat_map(|trial| trial.measured.figures.keys().copied())
        .collect();
    quantities.sort_unstable();
    quantities.dedup();
    let fixed = [
        "study",
        "scale",
        "trial",
        "round",
        "system",
        "workload",
        "load",
        "load_kind",
        "started",
        "valid",
        "invalid_because",
    ];
    let head = fixed.into_iter().map(str::to_owned);
    let head = head.chain(quantities.iter().map(|quantity| quantity.name()));
    let mut text = line(head.chain(["beyond_one_hour", "none_because"].map(str::to_owned)));

    let mut trials: Vec<(&Comparison, &str, &TrialFigures)> = Vec::new();
    for comparison in &report.comparisons {
        for one in &comparison.contenders {
            trials.extend(one.trials.iter().map(|trial| (comparison, one.system.as_str(), trial)));
        }
    }
    trials.sort_by_key(|(.., trial)| trial.number);
    for (comparison, system, trial) in trials {
        let study = &report.header.study;
        let fixed = [
            study.name.clone(),
            study.scale.to_string(),
            trial.number.to_string(),
            trial.round.to_string(),
            system.to_owned(),
            comparison.workload.name.clone(),
            comparison.load.name.clone(),
            plan::load_kind(&comparison.load).to_owned(),
            trial.started.clone(),
            trial.valid().to_string(),
            trial.validity.invalid_because.join("; "),
        ];
        let figures = quantities.iter().map(|quantity| {
            trial.get(*quantity).value().map_or_else(String::new, |value| value.to_string())
        });
        let beyond = trial.measured.figures.iter().filter(|(_, figure)| **figure == Figure::Beyond);
        let beyond: Vec<String> = beyond.map(|(quantity, _)| quantity.name()).collect();
        let none = trial.measured.figures.iter().filter_map(|(&quantity, &figure)| {
            Some(format!("{}: {}", quantity.name(), none_because(quantity, figure)?))
        });
        let last = [beyond.join(" "), none.collect::<Vec<_>>().join(" | ")];
        text.push_str(&line(fixed.into_iter().chain(figures).chain(last)));
    }
    text
}

fn line(fields: impl Iterator<Item = String>) -> String {
    let mut line = fields.map(|field| quoted(&field)).collect::<Vec<_>>().join(",");
    line.push_str("\r\n");
    line
}

/// A field; within quotes where it holds what would end it, and with an apostrophe before what a
/// spreadsheet would take for a formula. Control characters but line breaks become spaces, which no reader of
/// tables wants.
fn quoted(field: &str) -> String {
    let clean: String = field
        .chars()
        .map(|char| if is_harmful(char) && !matches!(char, '\r' | '\n') { ' ' } else { char })
        .collect();
    // A spreadsheet would compute what begins so; a number may.
    let is_formula = clean.starts_with(['=', '+', '-', '@', '\r', '\n']);
    let clean = match is_formula && clean.parse::<f64>().is_err() {
        true => format!("'{clean}"),
        false => clean,
    };
    if clean.contains(['"', ',', '\r', '\n']) {
        return format!("\"{}\"", clean.replace('"', "\"\""));
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"no\""), "\"say \"\"no\"\"\"");
        assert_eq!(quoted("two\nlines"), "\"two\nlines\"");
        assert_eq!(quoted("a\u{1b}[31m"), "a [31m");
        assert_eq!(quoted("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
        assert_eq!(
            (quoted("@a"), quoted("-x"), quoted("-1.5")),
            ("'@a".into(), "'-x".into(), "-1.5".into())
        );
        assert_eq!(quoted("\u{1b}=1"), " =1");
    }
}
