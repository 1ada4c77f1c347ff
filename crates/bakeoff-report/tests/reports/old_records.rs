//! Tests old records and damaged ones.

use bakeoff_core::log_findings::NodeLog;
use bakeoff_core::record::{self, BaselineAppends, Record};
use bakeoff_report::{self as report, Report};

use super::building::text_of;
use super::{NARROW, check, full, incomplete};

/// Records that older versions wrote, with their numbers of trials. Do not regenerate them.
const KEPT: [(&str, &str, usize); 2] = [
    ("format-1", include_str!("../records/format-1.jsonl"), 2),
    ("format-2", include_str!("../records/format-2.jsonl"), 2),
];

#[test]
fn old_records_load_and_render() {
    for (name, text, trials) in KEPT {
        let (record, complaints) = record::read(text).unwrap();
        assert_eq!(complaints, [], "{name}");
        assert_eq!(record.trials.len(), trials, "{name}");
        let report = Report::new(&record);
        check(&format!("{name}.80.txt"), &full(&report, &NARROW));
        report::markdown(&report);
        report::json(&report);
    }
}

#[test]
fn records_survive_writing_and_reading() {
    for (name, written, _) in super::all() {
        let (read, complaints) = record::read(text_of(written)).unwrap();
        assert_eq!(complaints, [], "{name}");
        assert!(read == *written, "{name}");
    }
}

/// Fields whose name in records is older than in the code; both names load.
const RENAMED: [(&str, &str); 9] = [
    ("promises", "guarantees"),
    ("slip", "schedule_lag"),
    ("old_reads", "stale_reads"),
    ("ages", "exact"),
    ("said", "log_findings"),
    ("floor", "machine_baseline"),
    ("floor_appends", "baseline_appends"),
    ("unsent", "dropped"),
    ("unpromised", "unguaranteed"),
];

#[test]
fn renamed_fields_load_by_both_names() {
    let kept = KEPT.map(|(_, text, _)| text.to_owned());
    let mut rest = super::repeated();
    let trial = &mut rest.trials[0];
    trial.log_findings = vec![NodeLog { node: "etcd-1".into(), lines: 1, ..NodeLog::default() }];
    trial.baseline_appends = vec![BaselineAppends { clients: 1, ..BaselineAppends::default() }];
    trial.audits[0].unguaranteed = true;
    let texts: Vec<String> = super::all()
        .iter()
        .map(|(_, record, _)| text_of(record))
        .chain(kept)
        .chain([text_of(&rest)])
        .collect();
    for (old, new) in RENAMED {
        let (old, new) = (format!("\"{old}\":"), format!("\"{new}\":"));
        assert!(texts.iter().any(|text| text.contains(&old)), "no record has {old}");
        for text in &texts {
            assert!(!text.contains(&new), "{new} is written");
            let (by_old, _) = record::read(text).unwrap();
            let (by_new, complaints) = record::read(text.replace(&old, &new)).unwrap();
            assert_eq!(complaints, [], "{new}");
            assert!(by_new == by_old, "{new}");
        }
    }
}

fn complaints(text: &str) -> (Record, Vec<String>) {
    let (record, complaints) = record::read(text).unwrap();
    (record, complaints.iter().map(ToString::to_string).collect())
}

fn refused(text: &str) -> String {
    record::read(text).unwrap_err().to_string()
}

#[test]
fn torn_last_line_loses_only_that_line() {
    let whole = text_of(&incomplete());
    let torn = &whole[..whole.len() - 20];
    let (record, complaints) = complaints(torn);
    assert_eq!(complaints, ["line 4: torn: the run was killed while it was written"]);
    assert_eq!((record.trials.len(), &record.end), (2, &None));
    assert!(full(&Report::new(&record), &NARROW).contains("2 of 6 trials"));

    let in_a_trial = whole.lines().next().unwrap().len() + 500;
    let (record, complaints) = self::complaints(&whole[..in_a_trial]);
    assert_eq!(complaints, ["line 2: torn: the run was killed while it was written"]);
    assert!(record.trials.is_empty());
}

#[test]
fn garbage_line_is_named_and_skipped() {
    let whole = text_of(&incomplete());
    let (first, rest) = whole.split_once('\n').unwrap();
    let (record, complaints) = complaints(&format!("{first}\n\u{0}\u{0}garbage\n{rest}"));
    assert_eq!(complaints.len(), 1);
    assert!(complaints[0].starts_with("line 2: not a line of a record: "), "{complaints:?}");
    assert_eq!(record.trials.len(), 2);
    assert!(record.end.is_some());
}

#[test]
fn second_run_in_a_record_is_named_and_ignored() {
    let whole = text_of(&incomplete());
    let (record, complaints) = complaints(&format!("{whole}{whole}"));
    assert_eq!(complaints, ["line 5: a second run begins here; the rest is ignored"]);
    assert_eq!(record.trials.len(), 2);
}

#[test]
fn newer_format_is_refused() {
    let whole = text_of(&incomplete());
    let newer = whole.replacen("\"format\":5", "\"format\":6", 1);
    assert_eq!(
        refused(&newer),
        "line 1: the record has format 6, and this program reads formats up to 5; use a newer \
         bakeoff"
    );
}

#[test]
fn file_that_is_no_record_is_refused() {
    assert_eq!(refused(""), "line 1: the record is empty");
    assert!(refused("\n").starts_with("line 1: this is not a record of a run: "));
    assert!(refused("hello\n").starts_with("line 1: this is not a record of a run: "));
    assert!(
        refused("{\"format\":1}\n").starts_with("line 1: the run's description cannot be read")
    );
    let end = "{\"line\":\"end\",\"format\":1,\"ended\":\"\",\"complete\":true}\n";
    assert_eq!(
        refused(end),
        "line 1: a record begins with its run, and this line is something else"
    );
}
