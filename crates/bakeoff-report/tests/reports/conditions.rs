//! Tests the conditions of claims: a claim names everything that favours its winner besides the product, and the winner then
//! has no star.

use std::time::Duration;

use bakeoff_core::check::Verdict;
use bakeoff_core::measurement::{ErrorKind, Silence};
use bakeoff_core::record::{AckLocation, Freshness, Gate, Record};
use bakeoff_core::study::{HttpRequest, Operation, Payload, ReadConsistency, Stop};
use bakeoff_report::compare::RunComparison;
use bakeoff_report::comparison;
use bakeoff_report::reproduce::Reproduction;
use bakeoff_report::{self as report, Extent, Report};
use serde_json::Value;

use super::after_title;
use super::building::{Trials as _, closed, failing, measured, page_of, record, study, workload};
use super::{PLAIN, full, millis, put};

/// Returns a record of three rounds in which `quick` has 1.7 times the throughput of `safe`.
fn quick_and_safe(operation: Operation, change: impl FnOnce(&mut Record)) -> Record {
    let load = closed("steady", &[16], Stop::After(Duration::from_secs(4)));
    let work = workload("work", &[(operation, 1)], "steady");
    let mut record = record(study(&["quick", "safe"], work, load, 3));
    let name = operation.name();
    for round in 0..3 {
        let of = |rate: u64, ms: u64| measured(name, rate, Duration::from_secs(4), millis(ms));
        record.run("quick", vec![(16, of(500 + 10 * round, 2))]);
        record.run("safe", vec![(16, of(300 - 10 * round, 4))]);
    }
    change(&mut record);
    record
}

fn places(quick: AckLocation, safe: AckLocation) -> impl FnOnce(&mut Record) {
    move |record| {
        for (system, place) in record.header.systems.iter_mut().zip([quick, safe]) {
            system.guarantees.acknowledged_in = Some(place);
        }
    }
}

/// Checks that a claim has this condition in every output format, and that its winner has no star.
#[track_caller]
fn is_conditional(record: &Record, condition: &str) {
    let report = Report::new(record);
    let sentence = report.sentence();
    let (claim, _) = sentence.split_once("; quick's p99").unwrap_or((sentence, ""));
    assert!(claim.starts_with("quick sustained 1.76 times safe's "), "{sentence}");
    assert!(claim.contains(&format!(", but {condition}")), "{sentence}");
    let glance = report::terminal(&report, &PLAIN, Extent::Glance);
    assert!(!glance.contains(" * "), "{glance}");
    let heading = after_title(&glance).lines().next().unwrap_or_default();
    assert!(heading.contains(&format!(", but {condition}")), "{heading}");
    for text in [&glance, &report::markdown(&report), &page_of(record)] {
        assert!(text.contains(condition), "no `{condition}` in\n{text}");
    }
    let json = report::json(&report);
    let comparison = &json["comparisons"][0];
    assert_eq!(comparison["best"], Value::Null);
    assert_eq!(comparison["fastest_under_unequal_conditions"], "quick");
    assert!(comparison["sentence"].as_str().unwrap().contains(condition));
    let leading = &comparison["judgements"][0];
    assert_eq!(leading["conditions"][0]["favours"], "quick", "{leading}");
    // The replication has the same condition.
    let again = Reproduction::new(record, record);
    let claim = &again.claims[0].claim;
    let words = leading["conditions"][0]["words"].as_str().unwrap();
    assert!(claim.contains(&format!(", but {words}")), "{claim}");
}

/// Checks that a claim is unconditional, and that its winner has the star.
#[track_caller]
fn is_unconditional(record: &Record) {
    let report = Report::new(record);
    let sentence = report.sentence();
    assert!(sentence.starts_with("quick sustained 1.76 times safe's "), "{sentence}");
    assert!(!sentence.contains(", but "), "{sentence}");
    let glance = report::terminal(&report, &PLAIN, Extent::Glance);
    assert!(glance.contains(" * ") && !glance.contains(", but "), "{glance}");
    assert_eq!(report::json(&report)["comparisons"][0]["best"], "quick");
}

#[test]
fn winner_without_sync_has_a_condition_and_no_star() {
    use AckLocation::{Disk, MajorityDisks, Memory, PageCache};
    let puts = |quick, safe| quick_and_safe(Operation::Put, places(quick, safe));
    is_conditional(&puts(PageCache, Disk), "it acknowledges writes before they are on disk");
    // Acknowledged in the memory of one of three nodes; `everysec` against `always`.
    is_conditional(
        &puts(Memory, MajorityDisks),
        "it acknowledges writes in one node's memory, not on a majority's disks",
    );
    is_conditional(&puts(Memory, Disk), "it acknowledges writes before they are on disk");
    is_conditional(
        &puts(Memory, PageCache),
        "it acknowledges writes in one node's memory, not in the page cache of one node",
    );
    // A winner that syncs more has no condition.
    is_unconditional(&puts(MajorityDisks, Memory));
    is_unconditional(&puts(Memory, Memory));
    // Durability does not matter for workloads that only read.
    is_unconditional(&quick_and_safe(Operation::Get, places(Memory, MajorityDisks)));
}

#[test]
fn unknown_durability_is_not_taken_as_equal() {
    let record = quick_and_safe(Operation::Put, |record| {
        record.header.systems[0].guarantees.acknowledged_in = None;
    });
    is_conditional(&record, "where it keeps acknowledged writes is unknown");
}

#[test]
fn one_node_against_three_has_no_star() {
    let alone = |operation| {
        quick_and_safe(operation, |record| {
            record.header.systems[0].nodes = 1;
            record.header.systems[0].guarantees.acknowledged_in = Some(AckLocation::Disk);
        })
    };
    is_conditional(&alone(Operation::Put), "it is one node against 3");
    is_conditional(&alone(Operation::Get), "it is one node against 3");
    // A larger cluster that wins survives more failures.
    is_unconditional(&quick_and_safe(Operation::Put, |record| {
        record.header.systems[1].nodes = 1;
        record.header.systems[1].guarantees.acknowledged_in = Some(AckLocation::Disk);
    }));
}

#[test]
fn stale_reads_against_linearizable_ones_have_no_star() {
    let fresh = |quick, safe| {
        quick_and_safe(Operation::Get, |record| {
            record.header.study.workloads[0].reads = ReadConsistency::Default;
            for (system, is) in record.header.systems.iter_mut().zip([quick, safe]) {
                system.guarantees.freshness.insert(ReadConsistency::Default, is);
            }
        })
    };
    is_conditional(&fresh(Freshness::NodeAsked, Freshness::Linearizable), "its reads may be stale");
    is_unconditional(&fresh(Freshness::Linearizable, Freshness::NodeAsked));
}

#[test]
fn unaudited_winner_has_no_star() {
    let unaudited = |system: &'static str| {
        quick_and_safe(Operation::Put, |record| {
            for trial in record.trials.iter_mut().filter(|one| one.trial.system == system) {
                for audit in &mut trial.audits {
                    audit.verdict = Verdict::NotChecked("it runs elsewhere".to_owned());
                }
            }
        })
    };
    is_conditional(&unaudited("quick"), "its writes were not read back");
    is_unconditional(&unaudited("safe"));
}

#[test]
fn fast_failures_are_in_the_claim() {
    // The slowest 0.9 % fail with 503 within a millisecond.
    let sheds = |system: &'static str| {
        quick_and_safe(Operation::Put, |record| {
            for trial in record.trials.iter_mut().filter(|one| one.trial.system == system) {
                let of = &mut trial.stages[0].measurement;
                let failures = of.verified() / 110;
                *of = failing(of.clone(), "put", ErrorKind::Status, failures);
            }
        })
    };
    is_conditional(&sheds("quick"), "0.88 % of quick's operations failed");
    let report = Report::new(&sheds("safe"));
    assert!(!report.sentence().contains("failed"), "{}", report.sentence());
    is_unconditional(&sheds("safe"));
}

#[test]
fn claim_mentions_that_the_winner_stood_still() {
    let still = quick_and_safe(Operation::Put, |record| {
        for trial in record.trials.iter_mut().filter(|one| one.trial.system == "quick") {
            let silence = Silence { from: 1.0, seconds: 0.8 };
            trial.stages[0].measurement.keep_silences(vec![silence]);
        }
    });
    is_conditional(&still, "quick stood still for 20.0 % of the window");
    let sentence = Report::new(&still).sentence().to_owned();
    assert!(!sentence.contains("p99"), "its p99 hides that: {sentence}");
    assert_eq!(sentence.matches("stood still").count(), 1, "{sentence}");
}

#[test]
fn services_have_no_conditions_about_data() {
    is_unconditional(&quick_and_safe(Operation::Put, |record| {
        places(AckLocation::Memory, AckLocation::MajorityDisks)(record);
        record.header.systems[0].nodes = 1;
        record.header.study.workloads[0].payload = Payload::Request(HttpRequest::default());
    }));
}

#[test]
fn sentence_has_a_verdict_on_response_times() {
    let sentence = |record: &Record| Report::new(record).sentence().to_owned();
    let words = sentence(&quick_and_safe(Operation::Put, |_| {}));
    let expected = "; quick's p99 response time was lower (20.5 ms against 41.0 ms).";
    assert!(words.ends_with(expected), "{words}");
    let alike = quick_and_safe(Operation::Put, |record| {
        for (nth, trial) in (0u64..).zip(&mut record.trials) {
            let rate = if trial.trial.system == "quick" { 500 } else { 300 };
            let took = Duration::from_micros(2000 + 100 * (nth * 7 % 5));
            trial.stages[0].measurement = put(rate, 4, took);
        }
    });
    let words = sentence(&alike);
    assert!(words.contains("; quick's p99 response time showed no difference ("), "{words}");
    // One trial is not judged.
    let mut once = quick_and_safe(Operation::Put, |_| {});
    once.trials.truncate(2);
    assert!(!sentence(&once).contains("p99"), "{}", sentence(&once));
}

#[test]
fn difference_is_not_claimed_within_what_the_generator_may_have_added() {
    let quick = |lag: u64| {
        quick_and_safe(Operation::Put, |record| {
            for trial in &mut record.trials {
                let (rate, took) = match trial.trial.system.as_str() {
                    "quick" => (500, 30),
                    _ => (300, 40),
                };
                let mut of = put(rate, 4, Duration::from_micros(took));
                let undelayed = took.saturating_sub(lag);
                of.undelayed.record_many(Duration::from_micros(undelayed), 1000);
                trial.stages[0].measurement = of;
            }
        })
    };
    let p50 = |record: &Record| {
        let json = report::json(&Report::new(record));
        let all = json["comparisons"][0]["judgements"].as_array().unwrap().clone();
        all.into_iter().find(|one| one["quantity"] == "response_p50_ms").unwrap()
    };
    let within = p50(&quick(500));
    assert_eq!(within["verdict"], "not-claimed", "{within}");
    let why = "not claimed: the generator's own delays may have added as much";
    assert!(within["words"].as_str().unwrap().ends_with(why), "{within}");
    assert_eq!(p50(&quick(1))["verdict"], "lower");
    let sentence = Report::new(&quick(500)).sentence().to_owned();
    assert!(sentence.contains("quick's p99 response time is not claimed to differ"), "{sentence}");
}

#[test]
fn every_output_names_the_kind_of_load() {
    let record = quick_and_safe(Operation::Put, |_| {});
    let report = Report::new(&record);
    let kind = "closed load, 16 clients";
    let glance = report::terminal(&report, &PLAIN, Extent::Glance);
    let page = page_of(&record);
    for text in [&report.sentence().to_owned(), &glance, &full(&report, &PLAIN), &page] {
        assert!(text.contains(kind), "{text}");
    }
    let json = report::json(&report);
    assert_eq!(json["comparisons"][0]["load_text"], kind);
    assert!(json["comparisons"][0]["judgements"][0]["words"].as_str().unwrap().contains(kind));
    let compared =
        RunComparison::new(&record, &record, &[], &["throughput < -5%".parse().unwrap()]);
    let text = comparison::terminal(&compared, &PLAIN);
    assert!(text.contains(&format!("work/steady, {kind}; ")), "{text}");
}

#[test]
fn comparison_names_weaker_guarantees_of_the_new_run() {
    let base = quick_and_safe(Operation::Put, |_| {});
    let mut new = base.clone();
    new.header.started = "2026-11-22T20:24:50Z".to_owned();
    new.header.systems[0].guarantees.acknowledged_in = Some(AckLocation::MajorityMemory);
    let text = |base: &Record, new: &Record| {
        comparison::terminal(&RunComparison::new(base, new, &[], &[]), &PLAIN)
    };
    let words = "! quick in the new run acknowledges writes before they are on disk";
    assert!(text(&base, &new).contains(words), "{}", text(&base, &new));
    assert!(!text(&new, &base).contains("acknowledges writes"), "it guarantees more");
}

#[test]
fn condition_against_some_systems_names_them() {
    let load = closed("steady", &[16], Stop::After(Duration::from_secs(4)));
    let work = workload("work", &[(Operation::Put, 1)], "steady");
    let mut record = record(study(&["redis", "etcd", "nats"], work, load, 3));
    for round in 0..3 {
        record.run("redis", vec![(16, put(900 + round, 4, millis(1)))]);
        record.run("etcd", vec![(16, put(300 + round, 4, millis(4)))]);
        record.run("nats", vec![(16, put(500 + round, 4, millis(2)))]);
    }
    let kept = [AckLocation::Memory, AckLocation::MajorityDisks, AckLocation::Memory];
    for (system, place) in record.header.systems.iter_mut().zip(kept) {
        system.guarantees.acknowledged_in = Some(place);
    }
    let report = Report::new(&record);
    let condition = "but it acknowledges writes in one node's memory, not on a majority's disks \
                     (unlike etcd)";
    assert!(report.sentence().contains(condition), "{}", report.sentence());
    let glance = report::terminal(&report, &PLAIN, Extent::Glance);
    let heading = "redis sustained 1.80 times nats's puts per second and 2.99 times etcd's, but redis \
                   acknowledges writes in one node's memory";
    assert!(after_title(&glance).starts_with(heading), "{glance}");
}

#[test]
fn passing_gate_names_weaker_guarantees() {
    let load = closed("steady", &[16], Stop::After(Duration::from_secs(4)));
    let work = workload("work", &[(Operation::Put, 1)], "steady");
    let mut record = record(study(&["base", "new"], work, load, 8));
    for round in 0..8 {
        record.run("base", vec![(16, put(300 + round, 4, millis(4)))]);
        record.run("new", vec![(16, put(500 + round, 4, millis(2)))]);
    }
    let fail_if = vec!["throughput < -5%".to_owned()];
    let system = "etcd".to_owned();
    record.header.gate = Some(Gate { system, fail_if, detect: 0.05, trials_max: None });
    let text = |record: &Record| {
        comparison::terminal(&RunComparison::gate(record).expect("it is a gate"), &PLAIN)
    };
    let words = "but the new build acknowledges writes before they are on disk";
    assert!(
        text(&record).contains("\npass: ") && !text(&record).contains(words),
        "{}",
        text(&record)
    );
    record.header.systems[1].guarantees.acknowledged_in = Some(AckLocation::MajorityPageCaches);
    assert!(
        text(&record).contains(&format!("could have passed undetected; {words}.")),
        "{}",
        text(&record)
    );
}
