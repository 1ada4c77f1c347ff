//! Tests how a report shows the verdicts on histories, and the operations of a violation.

use bakeoff_core::check::{Audit, CheckName, Verdict};
use bakeoff_core::linearizability::ViolationKind;
use bakeoff_core::linearizability::judged_history::{
    HistoryVerdict, JudgedHistory, KeptHistory, LegalPrefix, OperationOutcome, ShownAction,
    ShownOperation, ShownViolation,
};
use bakeoff_core::measurement::{ErrorKind, Errors};
use bakeoff_core::record::{Check, Record};
use bakeoff_report::{Extent, Report, card, json, markdown, terminal};

use super::building::page_of;
use super::{NARROW, full, repeated};

fn operation(client: u32, action: ShownAction, times: (f64, Option<f64>)) -> ShownOperation {
    ShownOperation {
        client,
        node: format!("etcd-{client}"),
        action,
        outcome: match times.1 {
            Some(_) => OperationOutcome::Done,
            None => OperationOutcome::Unknown,
        },
        start_ms: times.0,
        end_ms: times.1,
    }
}

fn linearizable() -> JudgedHistory {
    JudgedHistory { operations: 1200, keys: 9, ..JudgedHistory::default() }
}

/// Returns a verdict whose violation shows an unknown write, a later one, and a stale read.
fn violated() -> JudgedHistory {
    let operations = vec![
        operation(1, ShownAction::Write { value: 7 }, (-2.5, None)),
        operation(2, ShownAction::Write { value: 8 }, (1.0, Some(2.0))),
        operation(3, ShownAction::Read { value: Some(7) }, (3.0, Some(4.25))),
    ];
    let legal = LegalPrefix { operations: 40, of: 90, until_ms: Some(2.0) };
    let key = "k|`<b>".to_owned();
    let kind = ViolationKind::Disordered;
    JudgedHistory {
        verdict: HistoryVerdict::Violated,
        keys_violated: 1,
        violation: Some(ShownViolation { key, kind, operations, more: 2, legal }),
        kept: Some(KeptHistory {
            file: "trials/01/history.jsonl".to_owned(),
            ..KeptHistory::default()
        }),
        ..linearizable()
    }
}

/// Returns a record in which the first trial of etcd has this verdict, and all others are linearizable.
fn with(first: JudgedHistory, check: Verdict) -> Record {
    let mut record = repeated();
    record.trials.iter_mut().for_each(|trial| trial.linearizability = Some(linearizable()));
    record.trials[0].linearizability = Some(first);
    record.trials[0].checks.push(Check::new(CheckName::Linearizability, check));
    record
}

#[test]
fn violation_is_shown_in_every_form() {
    let record = with(violated(), Verdict::Failed("1 of 9 keys".to_owned()));
    let report = Report::new(&record);
    let terminal = full(&report, &NARROW).replace("\n  ", " ");
    let page = markdown(&report);
    let html = page_of(&record);
    for (form, text) in [("terminal", &terminal), ("markdown", &page), ("html", &html)] {
        for part in ["client 1 at etcd-1", "write 7", "4.250", "├", "▸", "and 2 more"] {
            assert!(text.contains(part), "{form} lacks `{part}`:\n{text}");
        }
    }
    assert!(!html.contains("k|`<b>") && !page.contains("<b>"), "the key's name is escaped");
    let trial = &json(&report)["comparisons"][0]["systems"][0]["trials"][0]["linearizability"];
    assert_eq!(trial["found"], "violated");
    assert_eq!(trial["violation"]["operations"][2]["value"], 7);
}

/// Returns each form of a report, by its name.
fn forms(record: &Record) -> Vec<(&'static str, String)> {
    let report = Report::new(record);
    vec![
        ("glance", terminal(&report, &NARROW, Extent::Glance)),
        ("terminal", full(&report, &NARROW)),
        ("markdown", markdown(&report)),
        ("html", page_of(record)),
        ("image", card(&report)),
        ("json", json(&report)["verdict"].to_string()),
    ]
}

/// Asserts that each form begins with a broken guarantee of etcd, which is the fastest, and ranks it nowhere.
#[track_caller]
fn leads_with(record: &Record, guarantee: &str) {
    for (form, text) in forms(record) {
        let plain = text.replace("</tspan>", " ").split_whitespace().collect::<Vec<_>>().join(" ");
        let place = plain.find(guarantee).unwrap_or_else(|| panic!("{form} lacks it:\n{text}"));
        for later in ["sustained", "is not ranked", "nothing is compared", "was out for"] {
            assert!(plain.find(later).is_none_or(|later| place < later), "{form}: {later}\n{text}");
        }
    }
    let glance = terminal(&Report::new(record), &NARROW, Extent::Glance);
    assert!(glance.lines().count() <= 17, "{glance}");
    let json = json(&Report::new(record));
    assert!(text(&json["broken_guarantees"][0]).contains(guarantee), "{json}");
    let of = &json["comparisons"][0];
    assert!(of["best"].is_null() && of["fastest_under_unequal_conditions"].is_null(), "{of}");
}

fn text(of: &serde_json::Value) -> &str {
    of.as_str().unwrap_or_default()
}

#[test]
fn broken_guarantee_leads_every_form_and_is_never_ranked() {
    assert_eq!(json(&Report::new(&repeated()))["comparisons"][0]["best"], "etcd");
    let violated = with(violated(), Verdict::Failed("1 of 9 keys".to_owned()));
    leads_with(&violated, "etcd is not linearizable: 1 of 9 keys (in 1 of 3 trials)");
    let mut stale = repeated();
    let figures = stale.trials[0].stages[0].measurement.operations.values_mut().next().unwrap();
    let errors = Errors { count: 3, ..Errors::default() };
    figures.errors.insert(ErrorKind::StaleValue, errors);
    leads_with(&stale, "etcd gave 3 stale answers");
    let mut lost = repeated();
    let failed = Audit::new("after the load", Verdict::Failed("2 lost".to_owned()));
    lost.trials[0].audits.push(Audit { lost: 2, read: 1000, ..failed });
    leads_with(&lost, "etcd lost 2 of 1,000 acknowledged keys after the load");
}

#[test]
fn loss_that_nothing_excludes_is_no_broken_guarantee() {
    let allowed = JudgedHistory { unguaranteed: true, ..violated() };
    let report = Report::new(&with(allowed, Verdict::NotChecked("so".to_owned())));
    let json = json(&report);
    assert_eq!(json["broken_guarantees"], serde_json::json!([]));
    assert_eq!(json["comparisons"][0]["best"], "etcd");
}

#[test]
fn verdicts_are_among_the_verified_facts() {
    let fact = |first: JudgedHistory, check| {
        let record = with(first, check);
        let text = full(&Report::new(&record), &NARROW);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, fact) = text.split_once("linearizability: ").expect("it is a fact");
        fact.split(';').next().unwrap_or_default().to_owned()
    };
    assert_eq!(fact(linearizable(), Verdict::Passed), "held in 6 trials");
    assert_eq!(fact(violated(), Verdict::Failed("so".to_owned())), "violated in 1 trial");
    let allowed = JudgedHistory { unguaranteed: true, ..violated() };
    let not_checked = || Verdict::NotChecked("so".to_owned());
    assert_eq!(fact(allowed, not_checked()), "not held in 1 trial, as allowed");
    let verdict = HistoryVerdict::Undecided("too long".to_owned());
    let undecided = JudgedHistory { verdict, ..linearizable() };
    assert_eq!(fact(undecided, not_checked()), "held in 5 trials");
}

#[test]
fn trials_without_the_check_show_nothing_of_it() {
    let record = repeated();
    let text = full(&Report::new(&record), &NARROW);
    assert!(!text.contains("linearizability: ") && !text.contains("NOT LINEARIZABLE"), "{text}");
}
