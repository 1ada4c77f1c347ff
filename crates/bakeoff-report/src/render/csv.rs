//! Renders a report as CSV (RFC 4180): a header, then one row per trial, in the order of the run.
//!
//! Numbers have full precision, and units in the column's name. A missing figure is an empty field. So is a latency
//! above an hour, which `beyond_one_hour` names. A percentile that failures reach, or that has too few operations, is
//! also empty; `none_because` has the reason.
//!
//! A study with faults has two columns for each, in seconds: the service lost and the outage of each of the trial's
//! injections, separated by blanks. `<0.02` is an upper bound, `>14` a lower one, and `1.2*` does not count.
//!
//! Not here: figures over several trials (JSON has them).

use bakeoff_core::outage::Outage;
use bakeoff_core::plan;
use bakeoff_core::stats::Figure;
use bakeoff_core::stats::clusters::BoundedFigure;
use bakeoff_core::units::is_harmful;

use crate::derive::comparison::Comparison;
use crate::derive::outages::{InjectionFigures, bound};
use crate::document::report::Report;
use crate::model::quantity::Quantity;
use crate::model::trial::TrialFigures;
use crate::render::json::none_because;

/// Renders the report with one row per trial. Lines end in CR LF.
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
    let faults = || report.header.study.faults.iter().filter(|fault| fault.alone);
    let names = faults()
        .flat_map(|fault| FAULT_COLUMNS.map(|(name, _)| format!("{name}_seconds_{}", fault.name)));
    let last = ["beyond_one_hour", "none_because"].map(str::to_owned);
    let mut text = line(head.chain(last).chain(names));

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
        let of_faults = faults().flat_map(|fault| {
            FAULT_COLUMNS.map(|(_, of)| costs(comparison, &fault.name, (system, trial.number), of))
        });
        text.push_str(&line(fixed.into_iter().chain(figures).chain(last).chain(of_faults)));
    }
    text
}

/// A column of each fault: name, and figure of an injection.
type FaultColumn = (&'static str, fn(&Outage) -> BoundedFigure);

const FAULT_COLUMNS: [FaultColumn; 2] =
    [("service_lost", |of| of.service_lost), ("outages", Outage::length)];

/// Returns a figure of a trial's injections by one fault, in their order.
fn costs(
    comparison: &Comparison,
    fault: &str,
    (system, trial): (&str, u32),
    of: fn(&Outage) -> BoundedFigure,
) -> String {
    let of_fault = comparison.outages.iter().filter(|one| one.fault.name == fault);
    let of_system = of_fault.flat_map(|one| &one.systems).filter(|one| one.system == system);
    let own = of_system.flat_map(|one| &one.injections).filter(|one| one.place.0 == trial);
    let text = |one: &InjectionFigures| {
        let figure = of(&one.outage);
        let microseconds = (figure.drawn() * 1e6).round() / 1e6;
        let mark = if one.left_out.is_some() { "*" } else { "" };
        format!("{}{microseconds}{mark}", bound(figure).trim_end())
    };
    own.map(text).collect::<Vec<_>>().join(" ")
}

fn line(fields: impl Iterator<Item = String>) -> String {
    let mut line = fields.map(|field| quoted(&field)).collect::<Vec<_>>().join(",");
    line.push_str("\r\n");
    line
}

/// Returns a field in quotes if necessary. A text that a spreadsheet would take for a formula gets an apostrophe.
/// Control characters except line breaks become spaces.
fn quoted(field: &str) -> String {
    let clean: String = field
        .chars()
        .map(|char| if is_harmful(char) && !matches!(char, '\r' | '\n') { ' ' } else { char })
        .collect();
    // A spreadsheet would evaluate such a text; a number is allowed.
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
    fn fields_are_quoted_if_necessary() {
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
