//! Tests parsing and judging conditions.

use proptest::prelude::*;

use super::*;
use crate::histogram::LATENCY_MAX_NS;
use crate::measurement::{ErrorKind, OperationFigures, Silence};

/// Returns a second with 100 responses of each of 1 to 100 ms, with a tenth as service time.
fn second() -> Measurement {
    let mut figures =
        OperationFigures { verified: 10_000, verified_in_window: 10_000, ..Default::default() };
    for ms in 1..=100 {
        figures.response.record_many(Duration::from_millis(ms), 100);
        figures.service.record_many(Duration::from_micros(ms * 100), 100);
    }
    let mut measurement = Measurement { window: Duration::from_secs(1), ..Default::default() };
    measurement.operations.insert("GET /".into(), figures);
    measurement.schedule_lag.record_many(Duration::from_micros(50), 10_000);
    measurement
}

fn some() -> Figures {
    Figures::from_measurement(&second())
}

/// Returns the figures of that second with `count` additional failures of a kind, after this time.
fn failing(count: u64, kind: ErrorKind, after: Duration) -> Figures {
    let mut measurement = second();
    let figures = measurement.operations.values_mut().next().unwrap();
    figures.errors.entry(kind).or_default().count = count;
    match kind {
        ErrorKind::Timeout | ErrorKind::Dropped => figures.unanswered.record_many(after, count),
        _ => figures.failed.record_many(after, count),
    }
    if kind == ErrorKind::Timeout {
        figures.unanswered_service.record_many(after, count);
    }
    Figures::from_measurement(&measurement)
}

fn nothing() -> Figures {
    Figures::from_measurement(&Measurement::default())
}

#[track_caller]
fn check(text: &str, figures: &Figures, expected: &str) {
    let found = match text.parse::<Condition>() {
        Ok(condition) => format!("{:?}", condition.check(figures)),
        Err(misread) => misread.to_string(),
    };
    assert_eq!(found, expected, "{text}");
}

#[test]
fn upper_bound_decides_what_both_bounds_decide() {
    let mut measurement = second();
    (1..=100)
        .for_each(|ms| measurement.undelayed.record_many(Duration::from_micros(ms * 600), 100));
    let figures = Figures::from_measurement(&measurement);
    check("p90 < 95ms", &figures, "Holds(\"p90 is 90.0 ms\")");
    check("p90 < 50ms", &figures, "HoldsNot(\"p90 is 90.0 ms\")");
    let unknown = "Unknown(\"p90 is unknown: to 90.0 ms the generator may have added 36.0 ms\")";
    check("p90 < 70ms", &figures, unknown);
    check("service p90 < 70ms", &figures, "Holds(\"service p90 is 9.00 ms\")");
}

#[test]
fn figure_is_compared_with_its_limit() {
    let check = |text, expected| check(text, &some(), expected);
    check("p50 > 49ms", "Holds(\"p50 is 50.0 ms\")");
    check("p50 < 49ms", "HoldsNot(\"p50 is 50.0 ms\")");
    check("p99>90ms", "Holds(\"p99 is 99.0 ms\")");
    check("  p99.9   <=   1s ", "Holds(\"p99.9 is 100 ms\")");
    check("max >= 100ms", "Holds(\"max is 100 ms\")");
    check("service p50 < 5.1ms", "Holds(\"service p50 is 5.00 ms\")");
    check("response p50 < 5.1ms", "HoldsNot(\"response p50 is 50.0 ms\")");
    check("schedule lag p99 > 100us", "HoldsNot(\"schedule lag p99 is 50.0 µs\")");
    check("schedule lag p99 > 100us", "HoldsNot(\"schedule lag p99 is 50.0 µs\")");
    check("mean < 60ms", "Holds(\"mean is 50.5 ms\")");
    check("throughput < 10000/s", "HoldsNot(\"throughput is 10,000/s\")");
    check("rate <= 10000", "Holds(\"rate is 10,000/s\")");
    let failing = failing(2500, ErrorKind::Reset, Duration::ZERO);
    let check = |text, expected| super::tests::check(text, &failing, expected);
    check("errors > 2499", "Holds(\"errors is 2,500\")");
    check("errors > 20%", "HoldsNot(\"errors is 20.0 %\")");
    check("errors >= 20 %", "Holds(\"errors is 20.0 %\")");
}

#[test]
fn longest_silence_is_known_from_half_a_second_on() {
    let silence = Silence { from: 1.0, seconds: 2.0 };
    let silent = Measurement { silences: vec![silence], ..second() };
    let silent = Figures::from_measurement(&silent);
    check("longest-silence > 500ms", &silent, "Holds(\"longest-silence is 2.00 s\")");
    check("longest silence <= 1s", &silent, "HoldsNot(\"longest silence is 2.00 s\")");
    check("longest-silence > 500ms", &some(), "HoldsNot(\"longest-silence is below 500 ms\")");
    check("longest-silence < 500ms", &some(), "Holds(\"longest-silence is below 500 ms\")");
    let refused = "longest-silence > 20ms".parse::<Condition>().unwrap_err();
    assert!(refused.what.contains("from 500 ms on"), "{refused}");
}

#[test]
fn failures_are_later_than_every_success() {
    let two = failing(200, ErrorKind::Dropped, Duration::from_secs(2));
    let check_two = |text: &str, expected: &str| check(text, &two, expected);
    check_two("p97 < 98.5ms", "HoldsNot(\"p97 is 99.0 ms\")");
    check_two("service p97 < 9.75ms", "Holds(\"service p97 is 9.71 ms\")");
    let why = "2.0 % failed; those after 2.00 s";
    check_two("p99 < 1h", &format!("Unknown(\"p99 is unknown: {why}\")"));
    check_two("p99 < 1s", &format!("HoldsNot(\"p99 is at least 2.00 s: {why}\")"));
    check_two("p99 > 1s", &format!("Holds(\"p99 is at least 2.00 s: {why}\")"));
    check_two("p99 > 3s", &format!("Unknown(\"p99 is unknown: {why}\")"));
    check_two("max < 1h", "Unknown(\"max is unknown: some failed\")");
    check_two("mean < 60ms", "HoldsNot(\"mean is at least 88.7 ms: some failed\")");
    // A quick error is not a quick answer.
    let quick = failing(200, ErrorKind::Status, Duration::from_millis(1));
    let why = "2.0 % failed; those after 1.00 ms";
    let holds = format!("HoldsNot(\"p99 is at least 100 ms: {why}\")");
    check("p99 < 20ms", &quick, &holds);
    check("service p99 < 20ms", &quick, "Unknown(\"service p99 is unknown: 2.0 % failed\")");
}

#[test]
fn limit_beyond_the_timeout_is_never_kept_with_timeouts() {
    let timeouts = failing(526, ErrorKind::Timeout, Duration::from_secs(10));
    let why = "5.0 % failed; those after 10.0 s";
    for text in ["p99 > 15s", "p99 < 15s", "service p99 <= 15s", "service p99 >= 15s"] {
        let name = text.split([' ', '<', '>']).next().unwrap();
        let name = if name == "service" { "service p99" } else { name };
        check(text, &timeouts, &format!("Unknown(\"{name} is unknown: {why}\")"));
    }
    let at_least = format!("is at least 10.0 s: {why}");
    check("p99 < 5s", &timeouts, &format!("HoldsNot(\"p99 {at_least}\")"));
    check("p99 > 5s", &timeouts, &format!("Holds(\"p99 {at_least}\")"));
    check("p90 < 15s", &timeouts, "Holds(\"p90 is 95.0 ms\")");
}

#[test]
fn percentile_of_too_few_operations_is_unknown() {
    let mut few = second();
    let figures = few.operations.values_mut().next().unwrap();
    (figures.verified, figures.response) = (412, Default::default());
    figures.response.record_many(Duration::from_millis(1), 412);
    let figures = Figures::from_measurement(&few);
    let why = "p99 is unknown: too few: 412 of 1,000 operations";
    check("p99 < 1h", &figures, &format!("Unknown(\"{why}\")"));
    check("p90 < 1h", &figures, "Holds(\"p90 is 1.00 ms\")");
    let needs = |text: &str| text.parse::<Condition>().unwrap().sample_min();
    assert_eq!(needs("schedule lag p99.9 < 1ms"), Some(10_000));
    assert_eq!((needs("max < 1s"), needs("errors < 1%")), (None, None));
}

#[test]
fn missing_figure_makes_a_condition_unknown() {
    let check_nothing = |text, expected| check(text, &nothing(), expected);
    check_nothing("p99 < 1h", "Unknown(\"p99 is unknown: there was no success\")");
    check_nothing("p99 > 1ns", "Unknown(\"p99 is unknown: there was no success\")");
    check_nothing("throughput > 1/s", "Unknown(\"throughput is unknown: no time passed\")");
    check_nothing(
        "errors < 1%",
        "Unknown(\"errors is unknown: nothing ended that they could be a share of\")",
    );
    check_nothing("errors < 1", "Holds(\"errors is 0\")");
    let schedule_lag =
        "Unknown(\"schedule lag p99 is unknown: a closed load has no due times to be late for\")";
    check_nothing("schedule lag p99 < 1ms", schedule_lag);
    let mut saturated = second();
    let figures = saturated.operations.values_mut().next().unwrap();
    (figures.verified, figures.response) = (10_001, figures.response.clone());
    figures.response.record(Duration::from_nanos(LATENCY_MAX_NS * 2));
    let saturated = Figures::from_measurement(&saturated);
    let beyond = "max is at least 3,600 s: it is longer than an hour";
    check("max > 1ms", &saturated, &format!("Holds(\"{beyond}\")"));
    check("p50 > 1ms", &saturated, "Holds(\"p50 is 51.0 ms\")");
}

#[test]
fn timeouts_alone_give_no_latency() {
    let mut measurement = second();
    let figures = measurement.operations.values_mut().next().unwrap();
    figures.verified = 0; // all recorded operations timed out
    figures.errors.entry(ErrorKind::Timeout).or_default().count = 10_000;
    let figures = Figures::from_measurement(&measurement);
    check("p99 < 2s", &figures, "Unknown(\"p99 is unknown: there was no success\")");
}

#[test]
fn points_at_the_wrong_word() {
    let check = |text, expected: &str| check(text, &some(), expected);
    check(
        "p99 > 20",
        "`20` is not a duration; it has no unit; did you mean `20ms`?\n  p99 > 20\n        ^^",
    );
    let figures = |name: &str, hint: &str| format!("`{name}` is not a figure; {hint}{METRICS}");
    check(
        "p999 > 20ms",
        &format!("{}\n  p999 > 20ms\n  ^^^^", figures("p999", "did you mean `p99.9`? ")),
    );
    check(
        "P99 > 20ms",
        &format!("{}\n  P99 > 20ms\n  ^^^", figures("P99", "did you mean `p99`? ")),
    );
    check("p0 > 1s", &format!("{}\n  p0 > 1s\n  ^^", figures("p0", "")));
    check("µ p9 > 1s", &format!("{}\n  µ p9 > 1s\n  ^^^^", figures("µ p9", "")));
    check(
        "p99 == 20ms",
        "`==` is not a comparison; use one of `<`, `<=`, `>` and `>=`\n  p99 == 20ms\n      ^^",
    );
    check("p99", "`p99`: a condition compares a figure with a limit: `p99 > 20ms`\n  p99\n  ^^^");
    check("", "``: a condition compares a figure with a limit: `p99 > 20ms`\n  \n  ^");
    check(
        "errors > 0.1",
        "`0.1` is not a number of errors; write a count, `0`, or their share of all operations, \
         `0.1%`\n  errors > 0.1\n           ^^^",
    );
    check(
        "throughput < 10ms",
        "`10ms` is not a rate; write operations per second, minute or hour: `1000/s`, `60/m`, \
         `10/h`\n  throughput < 10ms\n               ^^^^",
    );
    check("p99 <", "there is no limit after the comparison: write `20ms`\n  p99 <\n       ^");
    check("> 1s", &format!("there is no figure before the comparison; {METRICS}\n  > 1s\n  ^"));
}

proptest! {
    #[test]
    fn parsing_never_panics(text in "\\PC*") {
        if let Err(misread) = text.parse::<Condition>() {
            prop_assert!(misread.to_string().contains('^'));
        }
    }

    #[test]
    fn condition_like_text_never_panics(
        text in "(response |service |schedule lag )?(p[0-9.]{0,8}|max|mean|errors|rate) ?[<>=!]{0,3} ?[0-9.]{0,6} ?(ms|s|%|/s|µs|h)?"
    ) {
        if let Ok(condition) = text.parse::<Condition>() {
            condition.check(&some());
            condition.check(&nothing());
            let again: Condition = condition.to_string().parse().unwrap();
            prop_assert_eq!(again, condition);
        }
    }

    #[test]
    fn four_comparisons_divide_the_line(figure in 0u32..5, limit in 0u32..5) {
        let holds = |operator: Operator| operator.holds(figure, limit);
        prop_assert_ne!(holds(Operator::Below), holds(Operator::AtLeast));
        prop_assert_ne!(holds(Operator::Above), holds(Operator::AtMost));
        prop_assert_eq!(holds(Operator::AtMost) && holds(Operator::AtLeast), figure == limit);
    }
}

#[test]
fn least_rate_gives_an_objective_enough_operations() {
    let least = |texts: &[&str], seconds, by_chance| {
        let objective: Vec<Condition> = texts.iter().map(|text| text.parse().unwrap()).collect();
        least_rate(&objective, Duration::from_secs(seconds), by_chance)
    };
    assert_eq!(least(&["p99 < 1s", "p50 < 1s"], 4, false), 250.0);
    assert_eq!(least(&["p99.9 < 1s"], 5, false), 2000.0);
    assert_eq!(least(&["p99.9 < 1s"], 5, true), 2060.0);
    assert_eq!(least(&["max < 1s", "errors < 1%"], 5, true), 0.0);
}
