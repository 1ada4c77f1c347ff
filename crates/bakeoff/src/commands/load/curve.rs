//! Renders the result of a search for the highest rate: the answer, the curve and its knee.
//!
//! Not here: the search (`find`), the Kneedle algorithm (`knee`).

use std::time::Duration;

use bakeoff_core::condition::Condition;
use bakeoff_core::ranked_latencies::RankedLatencies;
use bakeoff_core::search::{ABRUPT, FoundRate, TriedRate, far_below};
use bakeoff_core::units::{count_text, latency_text, rate_text};
use bakeoff_report::Style;
use bakeoff_report::load_json::{FoundJson, FoundKind, Knee, LoadOutput, SearchJson, TryJson};
use serde_json::Value;

use super::json;
use super::knee::knee;
use super::page::{Page, figure, head, latency, percent};
use super::search_result::{SearchResult, Try};

/// Columns of the chart's plot area.
const CHART_WIDTH: usize = 60;
/// Lines of the chart's plot area.
const CHART_HEIGHT: usize = 12;

impl SearchResult {
    /// Returns the tries sorted by rate. A confirmation comes after the first try of its rate.
    fn by_rate(&self) -> Vec<&Try> {
        let mut tries: Vec<&Try> = self.tries.iter().collect();
        tries.sort_by(|a, b| a.tried.rate.total_cmp(&b.tried.rate));
        tries
    }

    /// Returns the rate at the curve's knee. Ignores void tries and tries without a latency.
    fn knee(&self) -> Option<f64> {
        let valid = self.tries.iter().filter(|one| !one.tried.void);
        let points = valid.filter_map(|one| Some((one.tried.rate, one.latency?)));
        knee(&points.collect::<Vec<_>>())
    }

    /// Returns the name and the limit of the latency that the curve shows. It is the first latency of the objective, or
    /// p99 without a limit.
    fn curve_of(&self) -> (&str, Option<Duration>) {
        let condition = self.objective.iter().find(|one| one.latency_limit().is_some());
        condition.map_or(("p99", None), |one| (one.name(), one.latency_limit()))
    }

    fn objective_text(&self) -> String {
        let texts: Vec<String> = self.objective.iter().map(Condition::to_string).collect();
        texts.join(" and ")
    }

    /// Returns a note if the latencies at `rate` are far below the objective.
    fn far_below(&self, rate: f64) -> Option<String> {
        let last = self.tries.iter().rev().find(|one| one.tried.rate == rate)?;
        let far = far_below(&self.objective, &last.part.measurement)?;
        Some(format!("{far}: {ABRUPT}"))
    }

    /// Returns the answer as sentences. The flag is true if the search found the highest rate, or no limit.
    fn answer(&self) -> (bool, Vec<String>) {
        let objective = self.objective_text();
        let Some(found) = self.found else {
            let kept = self.tries.iter().filter(|one| one.tried.broken_by.is_empty());
            let best = kept.map(|one| one.tried.rate).reduce(f64::max);
            let best = best.map_or("none so far".to_owned(), rate_text);
            let what = format!(
                "stopped before the end of the search; highest rate that kept {objective}: {best}"
            );
            return (false, vec![what]);
        };
        match found {
            FoundRate::Rate(rate) => {
                let known = self.is_answer();
                let what = if known { "Highest rate that keeps" } else { "A rate that keeps" };
                let mut lines = vec![format!(
                    "{what} {objective}: {} (twice, the second time for longer)",
                    rate_text(rate)
                )];
                if let Some(broken) = self.broken_above(rate) {
                    let why = broken.tried.broken_by.join("; ");
                    lines.push(format!("{} broke it: {why}", rate_text(broken.tried.rate)));
                }
                lines.extend(
                    self.far_below(rate).map(|far| format!("At {}, {far}", rate_text(rate))),
                );
                if !known {
                    lines.push(
                        "that try was not valid, so the server may be able to do more: not a valid \
                         answer"
                            .to_owned(),
                    );
                }
                (known, lines)
            }
            FoundRate::NoLimit(rate) => {
                (true, vec![format!("every rate kept {objective}, up to {}", rate_text(rate))])
            }
            FoundRate::Nothing(_) if self.tries.iter().all(|one| one.tried.void) => {
                let why = self.tries.last().map(|one| one.tried.disturbed_by.join("; "));
                let line = "no answer: the generator or the machine was disturbed at every rate, so nothing is known \
                            about the server";
                (false, [Some(line.to_owned()), why].into_iter().flatten().collect())
            }
            FoundRate::Nothing(rate) => {
                let mut lines =
                    vec![format!("no rate keeps {objective}, down to {}", rate_text(rate))];
                lines.extend(self.tries.last().map(|one| one.tried.broken_by.join("; ")));
                (false, lines)
            }
            FoundRate::OutOfTime(rate) => (
                false,
                vec![format!(
                    "no answer: the search ran out of time before it confirmed a rate; {} kept \
                     {objective} once",
                    rate_text(rate)
                )],
            ),
            FoundRate::Unsteady(rate) => (
                false,
                vec![format!(
                    "no stable rate: rates down to {} kept {objective} once and then broke it; \
                     make each try longer with `--for`",
                    rate_text(rate)
                )],
            ),
        }
    }
}

/// Renders for a terminal, ending in a newline.
pub(super) fn text(result: &SearchResult, style: Style) -> String {
    let mut page = Page { style, text: String::new() };
    page.opening(&result.settings);
    page.gap();
    table(&mut page, result);
    page.gap();
    for line in chart(result) {
        page.row(None, &line);
    }
    page.gap();
    let (name, _) = result.curve_of();
    match result.knee() {
        Some(rate) => {
            page.line(None, &format!("Knee of {name}: {} (Kneedle)", rate_text(rate)));
        }
        None => page.dim(&format!("The curve of {name} has no knee (Kneedle)")),
    }
    let (found, lines) = result.answer();
    for (place, line) in lines.iter().enumerate() {
        match (found, place) {
            (true, 0) => page.good(line),
            (false, 0) => page.alarm(line),
            _ => page.line(None, line),
        }
    }
    for reason in &result.reasons {
        page.alarm(&format!("not valid: {reason}"));
    }
    page.text
}

fn table(page: &mut Page, result: &SearchResult) {
    let (name, _) = result.curve_of();
    let mut heads = vec!["verified /s", "errors", "response p50", "p99"];
    let own = name.trim_start_matches("response ");
    if !["p50", "p99"].contains(&own) {
        heads.push(name);
    }
    heads.extend(["schedule lag p99", "generator", "objective"]);
    let mut rows = vec![head("rate", heads.iter().copied())];
    for one in result.by_rate() {
        let measurement = &one.part.measurement;
        let total = measurement.total();
        let response = total.responses();
        let mut row = vec![
            rate_text(one.tried.rate),
            figure(measurement.throughput()),
            count_text(measurement.error_count()),
            response.percentile(0.5).text(),
            response.percentile(0.99).text(),
        ];
        if heads.contains(&name) && !["p50", "p99"].contains(&own) {
            row.push(latency(one.latency.map(Duration::from_secs_f64)));
        }
        let verdict = match one.tried.broken_by.is_empty() {
            true => "kept",
            false if one.tried.void => "not valid",
            false => "broken",
        };
        let again = if one.tried.confirming { " again" } else { "" };
        row.extend([
            RankedLatencies::of_values(&measurement.schedule_lag).percentile(0.99).text(),
            percent(measurement.generator_busiest),
            format!("{verdict}{again}"),
        ]);
        rows.push(row);
    }
    page.table(&rows);
}

/// Mark of a void try, which says nothing about the server.
const VOID: char = '×';

/// Returns the mark of a try.
fn mark(tried: &TriedRate) -> char {
    match tried.kept() {
        true => '●',
        false if tried.void => VOID,
        false => '○',
    }
}

/// Draws the curve as lines of text: latency upwards on a logarithmic scale, rate to the right. `┄` is the limit.
fn chart(result: &SearchResult) -> Vec<String> {
    let (name, limit) = result.curve_of();
    let limit = limit.map(|limit| limit.as_secs_f64()).filter(|&limit| limit > 0.0);
    let points: Vec<(f64, f64, char)> = result
        .tries
        .iter()
        .filter_map(|one| Some((one.tried.rate, one.latency?, mark(&one.tried))))
        .filter(|(_, latency, _)| *latency > 0.0)
        .collect();
    let latencies = points.iter().map(|point| point.1).chain(limit);
    let (low, high) = latencies.fold((f64::INFINITY, 0.0f64), |(a, b), y| (a.min(y), b.max(y)));
    let right = points.iter().map(|point| point.0).fold(0.0, f64::max);
    if points.is_empty() || right <= 0.0 {
        return vec![format!(
            "No curve: no try has {name}, because too few requests were sent or too many failed"
        )];
    }
    let span = (high / low).ln().max(f64::MIN_POSITIVE);
    let column = |rate: f64| (rate / right * (CHART_WIDTH - 1) as f64).round() as usize;
    let line_of = |latency: f64| {
        let up = (latency / low).ln() / span * (CHART_HEIGHT - 1) as f64;
        CHART_HEIGHT - 1 - (up.round() as usize).min(CHART_HEIGHT - 1)
    };
    let mut field = vec![vec![' '; CHART_WIDTH]; CHART_HEIGHT];
    if let Some(limit) = limit {
        field[line_of(limit)].fill('┄');
    }
    let any_void = points.iter().any(|(.., mark)| *mark == VOID);
    for (rate, latency, mark) in points {
        field[line_of(latency)][column(rate)] = mark;
    }
    let label = |seconds: f64| latency_text(Duration::from_secs_f64(seconds));
    let mut labels = vec![String::new(); CHART_HEIGHT];
    labels[line_of(low)] = label(low);
    labels[line_of(high)] = label(high);
    if let Some(limit) = limit {
        labels[line_of(limit)] = label(limit);
    }
    let wide = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let mut lines = vec![format!(
        "{name} against rate; ● kept, ○ broken{}{}",
        if any_void { ", × not valid" } else { "" },
        if limit.is_some() { ", ┄ the limit" } else { "" },
    )];
    for (label, row) in labels.iter().zip(field) {
        let row: String = row.into_iter().collect();
        let pad = " ".repeat(wide - label.chars().count());
        lines.push(format!("{pad}{label} │{}", row.trim_end()));
    }
    lines.push(format!("{} └{}", " ".repeat(wide), "─".repeat(CHART_WIDTH)));
    let right_label = rate_text(right);
    let between = " ".repeat((CHART_WIDTH + 1).saturating_sub(right_label.chars().count() + 1));
    lines.push(format!("{} 0{between}{right_label}", " ".repeat(wide)));
    lines
}

/// Renders for `--json`. docs/load.md explains the fields.
pub(super) fn json(result: &SearchResult) -> Value {
    let (kind, rate) = match result.found {
        Some(FoundRate::Rate(rate)) if result.is_answer() => (FoundKind::Rate, Some(rate)),
        Some(FoundRate::Rate(rate)) => (FoundKind::AtLeast, Some(rate)),
        Some(FoundRate::NoLimit(rate)) => (FoundKind::NoLimit, Some(rate)),
        Some(FoundRate::Nothing(_)) => (FoundKind::Nothing, None),
        Some(FoundRate::Unsteady(_)) => (FoundKind::Unsteady, None),
        Some(FoundRate::OutOfTime(_)) => (FoundKind::OutOfTime, None),
        None => (FoundKind::Interrupted, None),
    };
    let (_, sentences) = result.answer();
    let tries = result.tries.iter().map(|one| TryJson {
        step: json::step(&one.part),
        confirming: one.tried.confirming,
        kept: one.tried.broken_by.is_empty(),
        broken_by: one.tried.broken_by.clone(),
    });
    let output = LoadOutput::Search(SearchJson {
        header: json::header(&result.settings),
        objective: result.objective.iter().map(Condition::to_string).collect(),
        found: FoundJson { kind, rate, sentences },
        knee: Knee {
            of: result.curve_of().0.to_string(),
            rate: result.knee(),
            method: "Kneedle, S = 1",
        },
        valid: result.is_valid(),
        reasons: result.reasons.clone(),
        tries: tries.collect(),
    });
    output.json()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::search;
    use super::*;

    const PLAIN: Style = Style { width: None, colour: false };

    #[test]
    fn shows_a_table_a_chart_and_the_answer() {
        assert_eq!(
            text(&search(), PLAIN),
            "\
GET http://127.0.0.1:8080/
open load, constant, 256 clients, 1s

rate     verified /s  errors  response p50      p99  schedule lag p99  generator   objective
1,000/s        1,000       0       1.50 ms  1.99 ms           12.0 µs     25.0 %        kept
2,000/s        2,000       0       2.00 ms  2.98 ms           12.0 µs     25.0 %        kept
4,000/s        4,000       0       4.50 ms  7.93 ms           12.0 µs     25.0 %        kept
4,000/s        4,000       0       5.00 ms  8.92 ms           12.0 µs     25.0 %  kept again
4,200/s        4,200       0       20.5 ms  39.6 ms           12.0 µs     25.0 %      broken
8,000/s        8,000       0        451 ms   891 ms           12.0 µs     25.0 %      broken

p99 against rate; ● kept, ○ broken, ┄ the limit
 891 ms │                                                           ○
        │
        │
        │
        │
        │
        │                               ○
20.0 ms │┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄
        │                              ●
        │                              ●
        │               ●
1.99 ms │       ●
        └────────────────────────────────────────────────────────────
        0                                                     8,000/s

Knee of p99: 4,000/s (Kneedle)
Highest rate that keeps p99 < 20ms: 4,000/s (twice, the second time for longer)
4,200/s broke it: p99 is 39.6 ms
"
        );
    }

    #[test]
    fn reports_a_search_without_an_answer() {
        let mut result = search();
        result.found = Some(FoundRate::Nothing(1.0));
        let shown = text(&result, PLAIN);
        assert!(shown.contains("\nno rate keeps p99 < 20ms, down to 1/s\n"), "{shown}");
        assert_eq!(json(&result)["found"]["rate"], Value::Null);
        result.found = None;
        let shown = text(&result, PLAIN);
        assert!(shown.contains("stopped before the end of the search"), "{shown}");
        assert!(shown.contains("kept p99 < 20ms: 4,000/s"), "{shown}");
    }

    #[test]
    fn invalid_try_makes_the_answer_a_lower_bound() {
        let mut result = search();
        result.tries[4].part.measurement.generator_busiest = 0.99;
        let tried = result.tries[4].tried.clone();
        result.tries[4].tried = tried.disturbed_by(["the generator's busiest thread".to_owned()]);
        let shown = text(&result, PLAIN);
        assert!(shown.contains("the server may be able to do more: not a valid answer"), "{shown}");
        assert!(!shown.contains("Highest rate"), "{shown}");
        assert!(shown.contains("○ broken, × not valid, ┄ the limit"), "{shown}");
        assert!(!result.is_answer());
        assert_eq!(json(&result)["found"]["kind"], "at-least");
        // A repeated try of the same rate replaces the void one.
        let mut again = result.tries[4].clone();
        again.part.measurement.generator_busiest = 0.2;
        again.tried.disturbed_by.clear();
        again.tried.void = false;
        result.tries.push(again);
        assert!(result.is_answer());
    }

    #[test]
    fn tries_without_latency_have_no_chart() {
        let mut result = search();
        result.tries.iter_mut().for_each(|one| one.latency = None);
        assert!(text(&result, PLAIN).contains("No curve: no try has p99"));
        result.tries.truncate(1);
        result.tries[0].latency = Some(0.001);
        text(&result, PLAIN);
        result.tries.clear();
        text(&result, PLAIN);
    }

    #[test]
    fn json_holds_the_answer_and_all_tries() {
        let json = json(&search());
        assert_eq!(
            (&json["found"]["kind"], &json["found"]["rate"]),
            (&json!("rate"), &json!(4000.0))
        );
        assert_eq!(json["knee"]["of"], "p99");
        let tries = json["tries"].as_array().unwrap();
        assert_eq!(tries.len(), 6);
        assert_eq!(tries[3]["broken_by"], json!(["p99 is 891 ms"]));
        assert_eq!((&tries[5]["confirming"], &tries[5]["kept"]), (&json!(true), &json!(true)));
    }
}
