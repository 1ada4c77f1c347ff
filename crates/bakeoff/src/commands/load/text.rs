//! Renders the result of a load for a terminal.
//!
//! The rate of verified successes comes first, with the errors below it. A load of mostly errors then cannot pass for
//! a fast one. Text from servers passes `harmless`, so that no answer can send escape codes to a terminal.
//!
//! Not here: JSON (`json`), the curve of `--find-max` (`curve`), the bars for each second (`timeline`).

use std::collections::BTreeSet;
use std::time::Duration;

use bakeoff_core::lateness;
use bakeoff_core::measurement::{Second, SecondFigures, Silence};
use bakeoff_core::ranked_latencies::{Percentile, RankedLatencies};
use bakeoff_core::units::{ByteCount, count_text, harmless, latency_text, plural, rate_text};
use bakeoff_report::Style;

use super::generator_parts::{self, GeneratorShown};
use super::page::{Page, figure, head, percent};
use super::result::{LoadResult, Part};
use crate::messages::Glyphs;

/// Maximum number of examples for each kind of error.
const EXAMPLES_SHOWN: usize = 2;
/// Maximum number of listed stalls.
const STALLS_SHOWN: usize = 3;
/// Maximum number of rows of a ramp.
const RAMP_ROWS: u32 = 10;
/// Maximum number of requests with a row of their own.
const REQUESTS_SHOWN: usize = 20;

/// Names and values of the quantiles in tables and JSON.
pub(super) const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

/// Renders the result, ending in a newline.
pub(super) fn text(result: &LoadResult, style: Style, glyphs: Glyphs) -> String {
    let mut page = Page { style, text: String::new() };
    page.opening(&result.settings);
    page.gap();
    page.rates(&result.whole);
    page.gap();
    page.latencies(&result.whole);
    page.timeline(result, glyphs);
    page.gap();
    page.answers(&result.whole);
    page.generator(result);
    if result.settings.requests.len() > 1 {
        page.gap();
        page.requests(result);
    }
    if !result.steps.is_empty() {
        page.gap();
        page.steps(&result.steps);
    }
    let any_second = result.whole.measurement.window.as_secs() > 0;
    if let Some(ramp) = result.settings.ramp().filter(|_| any_second) {
        page.gap();
        page.ramp(&result.whole, ramp);
    }
    page.gap();
    page.verdict(result);
    page.text
}

/// Summarizes a step: rate, p99 and errors.
pub(super) fn in_short(part: &Part) -> String {
    let total = part.measurement.total();
    let p99 = total.responses().percentile(0.99).text();
    let errors = match total.error_count() {
        0 => "no errors".to_owned(),
        errors => plural(errors, "error"),
    };
    format!("{} verified/s, p99 {p99}, {errors}", figure(part.measurement.throughput()))
}

impl Page {
    fn rates(&mut self, part: &Part) {
        let (all, verified) = (part.requests(), part.measurement.verified());
        let rate = part.measurement.throughput().map_or_else(|| "–".to_owned(), rate_text);
        let line = format!(
            "Verified successes: {rate} ({} of {} in {:.2} s)",
            count_text(verified),
            plural(all, "request"),
            part.measurement.window.as_secs_f64()
        );
        if verified * 2 < all {
            self.alarm(&line)
        } else {
            self.bold(&line)
        }
        if let Some(text) = part.measurement.accounting() {
            self.line(None, &format!("  {text}"));
        }
        let errors = part.errors();
        let lost = &part.measurement.connection_errors;
        if errors.is_empty() && lost.count > 0 {
            let lost = plural(lost.count, "connection");
            self.alarm(&format!(
                "Errors: no request failed, but {lost} broke or could not be opened"
            ));
        } else if errors.is_empty() {
            self.line(None, "Errors: none");
        } else {
            let count: u64 = errors.iter().map(|(_, count)| count).sum();
            let share = percent(count as f64 / all.max(1) as f64);
            self.alarm(&format!("Errors: {} ({share} of all requests)", count_text(count)));
        }
        for (kind, count) in errors {
            self.line(None, &format!("  {}: {}", kind.name(), count_text(count)));
            let mut shown = BTreeSet::new();
            for example in part.examples(kind, EXAMPLES_SHOWN) {
                if !shown.insert(&example.what) {
                    continue;
                }
                let (at, node) = (example.at_seconds, &example.node);
                self.dim(&format!("    after {at:.2} s, {node}: {}", example.what));
            }
        }
        let mut stalls: Vec<&Silence> = part.measurement.stalled().collect();
        stalls.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        if !stalls.is_empty() {
            let more = match stalls.len().saturating_sub(STALLS_SHOWN) {
                0 => String::new(),
                more => format!(", and {} more", count_text(more as u64)),
            };
            let shown: Vec<String> =
                stalls.into_iter().take(STALLS_SHOWN).map(stall_text).collect();
            let shown = shown.join(", ");
            let share = part.measurement.stood_still();
            let share = share
                .map_or_else(String::new, |share| format!(": {} of the window", percent(share)));
            self.alarm(&format!("Stalled: nothing succeeded for {shown}{more}{share}"));
        }
        for note in part.measurement.notes_on_the_network() {
            self.line(None, &note);
        }
        if lost.count > 0 {
            self.line(None, &format!("Connections lost or refused: {}", count_text(lost.count)));
            if let Some(example) = lost.examples.first() {
                let (at, node) = (example.at_seconds, &example.node);
                self.dim(&format!("    after {at:.2} s, {node}: {}", example.what));
            }
        }
    }

    fn latencies(&mut self, part: &Part) {
        let total = part.measurement.total();
        if total.verified == 0 {
            self.line(None, "No latencies: no request succeeded");
            return;
        }
        let (response, service) = (total.responses(), total.services());
        let (schedule_lag, alone) = (
            RankedLatencies::of_values(&part.measurement.schedule_lag),
            RankedLatencies::of_values(response.successes()),
        );
        let mut columns: Vec<(&str, &RankedLatencies<'_>)> =
            vec![("response", &response), ("service", &service)];
        let receive_lag = RankedLatencies::of_values(&part.measurement.receive_lag);
        if schedule_lag.count() > 0 {
            columns.push(("schedule lag", &schedule_lag));
            if receive_lag.count() > 0 {
                columns.push(("receive lag", &receive_lag));
            }
        }
        if response.failed_share() > 0.0 {
            columns.push(("response of successes", &alone));
        }
        let mut rows = vec![head("", columns.iter().map(|(name, _)| *name))];
        let mut row = |name: &str, of: &dyn Fn(&RankedLatencies<'_>) -> Percentile| {
            let cells = columns.iter().map(|(_, ranked)| of(ranked).text());
            rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
        };
        for (name, quantile) in QUANTILES {
            row(name, &|ranked| ranked.percentile(quantile));
        }
        row("max", &|ranked| ranked.max());
        row("mean", &|ranked| ranked.mean());
        self.table(&rows);
        if let Some(note) = lateness::text(&part.measurement) {
            self.line(None, &note);
        }
        if let Some(text) = failed_text(&response) {
            self.alarm(&text);
        }
        if let Some(text) = too_few_text(&response) {
            self.line(None, &text);
        }
        if let Some(waited) = part.waited().filter(|&share| share >= 0.01) {
            let text = format!(
                "{} of requests waited for a free client or a connection. The wait counts in the \
                 response time; more `--clients` may shorten it",
                percent(waited)
            );
            self.line(None, &text);
        }
    }

    fn answers(&mut self, part: &Part) {
        let answers = &part.measurement.answers;
        let statuses: Vec<String> = answers
            .statuses
            .iter()
            .map(|(status, count)| format!("{status}: {}", count_text(*count)))
            .collect();
        let statuses = if statuses.is_empty() { "none".to_owned() } else { statuses.join(", ") };
        self.line(None, &format!("Statuses: {statuses}"));
        let seconds = part.measurement.window.as_secs_f64();
        let per_second = (answers.bytes as f64 / seconds.max(1e-9)) as u64;
        self.line(
            None,
            &format!(
                "Received: {} ({}/s), bodies {}",
                ByteCount(answers.bytes),
                ByteCount(per_second),
                ByteCount(answers.body_bytes)
            ),
        );
    }

    fn generator(&mut self, result: &LoadResult) {
        let part = &result.whole;
        let mut parts = vec![
            plural(u64::from(part.measurement.generator_threads), "thread"),
            format!("the busiest at {} of a CPU", percent(part.measurement.generator_busiest)),
        ];
        if let Some(each) = part.cpu_per_request() {
            parts.push(format!("{} of CPU time a request", latency_text(each)));
        }
        if let Some(bytes) = result.peak_rss_bytes {
            parts.push(format!("at most {} of memory", ByteCount(bytes)));
        }
        self.line(None, &format!("Generator: {}", parts.join(", ")));
        let generators = &part.generators;
        if generators.is_empty() {
            return;
        }
        let apart = Duration::from_secs_f64(generator_parts::began_within_us(generators) / 1e6);
        let count = plural(generators.len() as u64, "generator");
        self.line(None, &format!("  {count} began within {}", latency_text(apart)));
        for GeneratorShown { machine, part } in generators {
            self.dim(&format!(
                "    {machine}: {}, {} verified, {}, the busiest thread at {} of a CPU",
                plural(u64::from(part.clients), "client"),
                count_text(part.verified),
                plural(part.errors, "error"),
                percent(part.busiest),
            ));
        }
    }

    fn requests(&mut self, result: &LoadResult) {
        let measurement = &result.whole.measurement;
        let heads = ["verified /s", "requests", "errors", "response p50", "p99", "max"];
        let mut rows = vec![head("request", heads)];
        let seconds = measurement.window.as_secs_f64();
        for request in result.settings.requests.iter().take(REQUESTS_SHOWN) {
            let Some(figures) = measurement.operations.get(&request.name) else { continue };
            let rate = (seconds > 0.0).then(|| figures.verified_in_window as f64 / seconds);
            let response = figures.responses();
            rows.push(vec![
                harmless(&request.name),
                figure(rate),
                count_text(figures.verified + figures.error_count()),
                count_text(figures.error_count()),
                response.percentile(0.5).text(),
                response.percentile(0.99).text(),
                response.max().text(),
            ]);
        }
        self.table(&rows);
        let more = result.settings.requests.len().saturating_sub(REQUESTS_SHOWN);
        if more > 0 {
            self.dim(&format!(
                "and {} more; `--json` has them all",
                plural(more as u64, "request")
            ));
        }
    }

    fn steps(&mut self, steps: &[Part]) {
        let heads = [
            "verified /s",
            "errors",
            "response p50",
            "p90",
            "p99",
            "max",
            "schedule lag p99",
            "generator",
            "",
        ];
        let mut rows = vec![head("rate", heads)];
        for step in steps {
            let measurement = &step.measurement;
            let total = measurement.total();
            let mut row = vec![
                step.rate.map(rate_text).unwrap_or_default(),
                figure(measurement.throughput()),
                count_text(measurement.error_count()),
            ];
            row.extend(response_cells(&total.responses()));
            row.push(RankedLatencies::of_values(&measurement.schedule_lag).percentile(0.99).text());
            row.push(percent(measurement.generator_busiest));
            let valid = step.reasons.is_empty();
            row.push(if valid { "" } else { "not valid" }.to_owned());
            rows.push(row);
        }
        self.table(&rows);
    }

    /// Adds a ramp as a table with at most [`RAMP_ROWS`] rows, each of whole seconds.
    fn ramp(&mut self, part: &Part, (from, to): (f64, f64)) {
        let measurement = &part.measurement;
        let whole = measurement.window.as_secs() as u32;
        let each = whole.div_ceil(RAMP_ROWS).max(1);
        let heads = ["rate", "verified /s", "errors", "response p50", "p90", "p99", "max"];
        let mut rows = vec![head("seconds", heads)];
        for begin in (0..whole).step_by(each as usize) {
            let end = (begin + each).min(whole);
            let within = |second: &&Second| (begin..end).contains(&second.second);
            let seconds = || measurement.seconds.iter().filter(within);
            let verified: u64 = seconds().map(Second::verified).sum();
            let figures = || seconds().flat_map(|second| second.operations.values());
            let errors: u64 = figures().map(|figures| figures.errors).sum();
            // `all` fails only on histograms that do not decode. bakeoff encoded these.
            let response = RankedLatencies::all(figures().map(SecondFigures::responses));
            let middle = f64::from(begin + end) / 2.0 / measurement.window.as_secs_f64();
            let mut row = vec![
                format!("{begin} to {end}"),
                rate_text(from + (to - from) * middle),
                figure(Some(verified as f64 / f64::from(end - begin))),
                count_text(errors),
            ];
            row.extend(response.iter().flat_map(response_cells));
            rows.push(row);
        }
        self.table(&rows);
    }

    fn verdict(&mut self, result: &LoadResult) {
        let reasons = result.reasons();
        if reasons.is_empty() {
            self.good("valid");
        }
        for reason in reasons {
            self.alarm(&format!("not valid: {reason}"));
        }
        for gate in &result.gates {
            let (condition, seen) = (&gate.condition, gate.seen());
            if gate.failed() {
                self.alarm(&format!("FAILED: --fail-if `{condition}`: {seen}"));
            } else {
                self.good(&format!("passed: --fail-if `{condition}`: {seen}"));
            }
        }
    }
}

/// Returns a stall's length and start: `2.00 s (from 1.00 s on)`.
fn stall_text(silence: &Silence) -> String {
    let Silence { from, seconds } = silence;
    let length = Duration::try_from_secs_f64(*seconds).unwrap_or_default();
    format!("{} (from {from:.2} s on)", latency_text(length))
}

/// Returns p50, p90, p99 and the maximum, as cells of a row.
fn response_cells(response: &RankedLatencies<'_>) -> impl Iterator<Item = String> {
    let quantiles = [0.5, 0.9, 0.99].map(|quantile| response.percentile(quantile));
    quantiles.into_iter().chain([response.max()]).map(Percentile::text)
}

/// Names the lowest percentile that falls among failures. `None` if failures reach no percentile.
fn failed_text(response: &RankedLatencies<'_>) -> Option<String> {
    let reached =
        QUANTILES.iter().find_map(|(name, quantile)| match response.percentile(*quantile) {
            Percentile::Failed(failed) => Some((name, failed)),
            _ => None,
        });
    let (name, failed) = reached?;
    Some(format!(
        "No response time from {name} on: {}. Failed requests have no answer and rank last",
        failed.text()
    ))
}

/// Names the percentiles that need more requests. `None` if all have enough.
fn too_few_text(response: &RankedLatencies<'_>) -> Option<String> {
    let few =
        QUANTILES.iter().filter_map(|(name, quantile)| match response.percentile(*quantile) {
            Percentile::TooFew { needed, .. } => {
                Some(format!("{name} needs {}", count_text(needed)))
            }
            _ => None,
        });
    let few: Vec<String> = few.collect();
    let had = plural(response.count(), "request");
    (!few.is_empty()).then(|| format!("{had} are too few: {}", few.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::super::settings::Course;
    use super::super::testing::{judged, part, result, with_errors};
    use super::*;
    use crate::cli::Ramp;

    const PLAIN: Style = Style { width: None, colour: false };

    fn text(result: &LoadResult, style: Style) -> String {
        super::text(result, style, Glyphs::Blocks)
    }

    #[test]
    fn renders_a_result() {
        let shown = text(&result(part(1000.0, 11), &["p99 > 20ms", "mean > 5ms"]), PLAIN);
        assert_eq!(
            shown,
            "\
GET http://127.0.0.1:8080/
open load, 1,000/s constant, 256 clients, 1s

Verified successes: 1,000/s (1,000 of 1,000 requests in 1.00 s)
Errors: none

       response  service  schedule lag
p50     6.00 ms  3.00 ms       12.0 µs
p75     8.50 ms  4.25 ms       12.0 µs
p90     10.0 ms  5.00 ms       12.0 µs
p95     10.5 ms  5.25 ms       12.0 µs
p99     10.9 ms  5.45 ms       12.0 µs
p99.9   too few  too few       too few
max     11.0 ms  5.50 ms       12.0 µs
mean    6.00 ms  3.00 ms       12.0 µs
1,000 requests are too few: p99.9 needs 10,000

Statuses: 200: 1,000
Received: 97.7 KiB (97.7 KiB/s), bodies 5.86 KiB
Generator: 2 threads, the busiest at 25.0 % of a CPU, 10.0 µs of CPU time a request, at most 12 MiB of memory

valid
passed: --fail-if `p99 > 20ms`: p99 is 10.9 ms
FAILED: --fail-if `mean > 5ms`: mean is 6.00 ms
"
        );
    }

    #[test]
    fn errors_do_not_count_as_throughput() {
        let shown = text(&result(with_errors(part(1000.0, 11), 990), &["p99 > 20ms"]), PLAIN);
        let mut lines = shown.lines().skip(3);
        assert_eq!(lines.next(), Some("Verified successes: 10/s (10 of 1,000 requests in 1.00 s)"));
        assert_eq!(lines.next(), Some("Errors: 990 (99.0 % of all requests)"));
        assert_eq!(lines.next(), Some("  status: 990"));
        assert!(
            lines.next().is_some_and(|line| line.starts_with("    after 0.25 s, 127.0.0.1:8080"))
        );
        assert!(shown.contains("\nnot valid: most requests failed: 990 of 1,000\n"), "{shown}");
        assert!(!shown.contains("\nvalid"), "{shown}");
        assert!(!shown.contains('\u{1b}'), "a server's escape codes are removed");
    }

    #[test]
    fn load_without_success_has_no_latency_and_passes_no_condition() {
        let mut all_failed = result(with_errors(part(100.0, 11), 100), &["p99 > 20ms"]);
        let shown = text(&all_failed, PLAIN);
        assert!(shown.contains("\nNo latencies: no request succeeded\n"), "{shown}");
        let gate = "\nFAILED: --fail-if `p99 > 20ms`: p99 is unknown: there was no success\n";
        assert!(shown.contains(gate), "{shown}");
        all_failed.steps = vec![all_failed.whole.clone()];
        let row = text(&all_failed, PLAIN);
        let row = row.lines().find(|line| line.starts_with("100/s")).unwrap();
        assert!(row.contains("100 % failed  100 % failed  too few"), "{row}");
    }

    #[test]
    fn percentiles_among_failures_show_the_failed_share() {
        let mut half = with_errors(part(1000.0, 11), 490);
        let figures = half.measurement.operations.values_mut().next().unwrap();
        figures.response.clear();
        figures.response.record_many(Duration::from_micros(12_300), 510);
        figures.service = figures.response.clone();
        figures.failed.clear();
        figures.failed.record_many(Duration::from_millis(503), 490);
        half.measurement.undelayed = half.measurement.total().response;
        let shown = text(&result(half, &["p99 > 1s"]), PLAIN);
        let table = shown.split("\n\n").find(|part| part.contains("p50 ")).unwrap();
        assert_eq!(
            table,
            "            response        service  schedule lag  response of successes
p50          12.3 ms        12.3 ms       12.0 µs                12.3 ms
p75    49.0 % failed  49.0 % failed       12.0 µs                12.3 ms
p90    49.0 % failed  49.0 % failed       12.0 µs                12.3 ms
p95    49.0 % failed  49.0 % failed       12.0 µs                12.3 ms
p99    49.0 % failed  49.0 % failed       12.0 µs                too few
p99.9        too few        too few       too few                too few
max         ≥ 503 ms      ≥ 12.3 ms       12.0 µs                12.3 ms
mean        ≥ 253 ms      ≥ 12.3 ms       12.0 µs                12.3 ms
No response time from p75 on: 49.0 % failed; those after 503 ms. Failed requests have no answer and rank last
1,000 requests are too few: p99.9 needs 10,000"
        );
    }

    #[test]
    fn overloaded_generator_invalidates_the_result() {
        let mut busy = part(1000.0, 11);
        busy.measurement.generator_busiest = 0.97;
        let shown = text(&result(judged(busy), &[]), PLAIN);
        assert!(
            shown.contains("\nnot valid: the generator's busiest thread used 97.0 %"),
            "{shown}"
        );
        let mut late = part(1000.0, 11);
        late.measurement.schedule_lag.record_many(Duration::from_millis(5), 100);
        late.measurement.undelayed = part(1000.0, 3).measurement.undelayed;
        let shown = text(&result(judged(late), &[]), PLAIN);
        assert!(shown.contains("\nnot valid: the generator may have added up to "), "{shown}");
        assert!(shown.contains(": it could not keep the schedule, and 1 % of"), "{shown}");
    }

    #[test]
    fn delays_are_noted_next_to_short_latencies() {
        let mut quick = part(1000.0, 2);
        quick.measurement.receive_lag.record_many(Duration::from_micros(30), 1000);
        let shown = text(&result(quick.clone(), &[]), PLAIN);
        assert!(
            shown.contains("\n       response  service  schedule lag  receive lag\n"),
            "{shown}"
        );
        assert!(!shown.contains("may have added"), "{shown}");
        let figures = quick.measurement.operations.values_mut().next().unwrap();
        for times in [&mut figures.response, &mut figures.service] {
            times.record_many(Duration::from_micros(200), 2000);
        }
        quick.measurement.undelayed.record_many(Duration::from_micros(170), 2000);
        let shown = text(&result(quick, &[]), PLAIN);
        let note = "\nthe generator's own delays may have added up to 30.";
        assert!(shown.contains(note) && shown.contains(" to p50"), "{shown}");
    }

    #[test]
    fn each_step_has_a_row_and_reasons_name_their_step() {
        let mut steps = result(part(1000.0, 11), &[]);
        let mut busy = part(2000.0, 21);
        busy.measurement.generator_busiest = 0.97;
        let busy = judged(busy);
        steps.whole.append(&busy);
        steps.steps = vec![part(1000.0, 11), busy];
        steps.settings.course = Course::Steps(vec![1000.0, 2000.0]);
        let shown = text(&steps, PLAIN);
        assert!(shown.contains("open load, constant, 1,000/s then 2,000/s, 256 clients, 1s each"));
        let rows = shown.split("\n\n").find(|part| part.starts_with("rate")).unwrap();
        assert_eq!(
            rows,
            "\
rate     verified /s  errors  response p50      p90      p99      max  schedule lag p99  generator
1,000/s        1,000       0       6.00 ms  10.0 ms  10.9 ms  11.0 ms           12.0 µs     25.0 %
2,000/s        2,000       0       11.0 ms  19.0 ms  20.8 ms  21.0 ms           12.0 µs     97.0 %  not valid"
        );
        assert!(shown.contains("\nnot valid: at 2,000/s: the generator's busiest"), "{shown}");
    }

    #[test]
    fn ramp_is_shown_in_stretches_of_seconds() {
        let mut ramp = result(part(1000.0, 11), &[]);
        let later = part(2000.0, 21);
        ramp.whole.append(&later);
        ramp.whole.rate = Some(1500.0);
        ramp.settings.course = Course::Ramp(Ramp { from: 500.0, to: 2500.0 });
        let shown = text(&ramp, PLAIN);
        assert!(shown.contains("open load, constant, from 500/s to 2,500/s"), "{shown}");
        let rows = shown.split("\n\n").find(|part| part.starts_with("seconds")).unwrap();
        assert_eq!(
            rows,
            "\
seconds     rate  verified /s  errors  response p50      p90      p99      max
0 to 1   1,000/s        1,000       0       6.00 ms  10.0 ms  10.9 ms  11.0 ms
1 to 2   2,000/s        2,000       0       11.0 ms  19.0 ms  20.8 ms  21.0 ms"
        );
    }

    #[test]
    fn wraps_prose_on_a_narrow_terminal() {
        let style = Style { width: Some(40), colour: false };
        let shown = text(&result(part(1000.0, 11), &["p99 > 20ms"]), style);
        assert!(shown.lines().all(|line| line.chars().count() <= 40), "{shown}");
        assert!(shown.contains("\n  of memory") || shown.contains("memory\n"), "{shown}");
    }

    #[test]
    fn colours_the_verdict_on_a_terminal() {
        let style = Style { width: None, colour: true };
        let shown = text(&result(part(1000.0, 11), &[]), style);
        assert!(shown.contains("\x1b[32mvalid\x1b[0m"), "{shown:?}");
    }
}
