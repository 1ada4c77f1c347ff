//! Adaptive runs: when they may stop, and what their reports say.

use std::time::Duration;

use bakeoff_core::record::{Record, RoundCount, RunEnd, chain};
use bakeoff_core::study::{Operation, Stop};
use bakeoff_report::verify::{self, Outcome};
use bakeoff_report::{Extent, Report, Style, is_answered, json, terminal};

use crate::building::{Trials as _, closed, measured, record, study, workload};

const PLAIN: Style = Style { width: None, colour: false };

/// A run of up to five rounds that stopped after these, with the rates of two systems round by round.
fn stopped(rates: &[(u64, u64)]) -> Record {
    let load = closed("steady", &[64], Stop::After(Duration::from_secs(5)));
    let workload = workload("create", &[(Operation::Put, 1)], "steady");
    let mut record = record(study(&["etcd", "zookeeper"], workload, load, 5));
    record.header.rounds = RoundCount::Adaptive;
    for &(one, other) in rates {
        for (system, rate) in [("etcd", one), ("zookeeper", other)] {
            let figures = measured("put", rate, Duration::from_secs(5), Duration::from_millis(1));
            record.run(system, vec![(64, figures)]);
        }
    }
    let answered_after = Some(rates.len() as u32);
    record.finish(RunEnd { ended: String::new(), complete: true, answered_after });
    record
}

fn is_verified(record: &Record) -> bool {
    let found = verify::verify(&chain::check(b""), record, &[]);
    found.iter().any(|one| one.what == "trials" && one.outcome == Outcome::Holds)
}

const CLEAR: [(u64, u64); 3] = [(4000, 2000), (4040, 2010), (3980, 1990)];
const UNCLEAR: [(u64, u64); 3] = [(4000, 3000), (4000, 3900), (4000, 3500)];
const SAME: [(u64, u64); 4] = [(4000, 4010), (4010, 4000), (4005, 4005), (4000, 4004)];

#[test]
fn run_may_stop_once_a_difference_is_proven() {
    assert!(is_answered(&stopped(&CLEAR)));
    assert!(!is_answered(&stopped(&SAME)), "a slow start may still come");
    assert!(!is_answered(&stopped(&UNCLEAR)));
    assert!(!is_answered(&stopped(&CLEAR[..2])), "two rounds claim nothing");
}

#[test]
fn early_stop_is_reported_and_judged_at_its_own_level() {
    let record = stopped(&CLEAR);
    assert!(record.is_complete());
    assert!((record.false_alarms() - 0.005).abs() < 1e-12, "half of the 1 % of two looks");
    let report = Report::new(&record);
    let text = terminal(&report, &PLAIN, Extent::Full);
    assert!(text.contains("3 of up to 5 rounds: they answered every leading question"), "{text}");
    assert!(text.contains("etcd sustained at least 1.9"), "{text}");
    assert!(!text.contains("sustained 2.0"), "{text}");
    let json = json(&report);
    assert_eq!(json["rounds"]["answered_after"], 3);
    let judged = json["comparisons"][0]["judgements"].as_array().unwrap();
    let leading = judged.iter().find(|one| one["leading"] == true).unwrap();
    let confidence = leading["confidence_of_this_interval"].as_f64().unwrap();
    assert!(confidence >= 0.995, "at the level of its look, {confidence}");
}

#[test]
fn stop_without_an_answer_is_not_verified() {
    assert!(is_verified(&stopped(&CLEAR)));
    assert!(!is_verified(&stopped(&UNCLEAR)));
    let mut fixed = stopped(&CLEAR);
    fixed.header.rounds = RoundCount::Fixed;
    assert!(!is_verified(&fixed), "a fixed number of rounds cannot stop early");
}
