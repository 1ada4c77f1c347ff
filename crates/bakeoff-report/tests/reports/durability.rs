//! Tests how a report shows observed syncs, and lowers a claim that they contradict.

use bakeoff_core::check::{Audit, PowerCutsMade, Verdict};
use bakeoff_core::record::{AckLocation, Durability, NodeSyncs, Record};
use bakeoff_report::Report;
use bakeoff_report::compare::RunComparison;
use bakeoff_report::fairness::Weight;
use bakeoff_report::reproduce::Reproduction;
use bakeoff_report::{self as report, comparison};

use super::building::{audit, page_of};
use super::fairness::{check, row, texts};
use super::{NARROW, PLAIN, full, repeated};

/// Returns the durability probe of a trial: 50 writes and these syncs on one node.
fn probe(syncs: u64, unsafe_settings: &[&str]) -> Option<Durability> {
    let node = vec![NodeSyncs { name: "zookeeper-1".into(), syncs }];
    let seen = Durability::judged(AckLocation::Disk, 50, 1, vec![node]);
    Some(seen.with_unsafe_settings(unsafe_settings.iter().map(|one| (*one).into()).collect()))
}

#[test]
fn observed_syncs_lower_a_claim_of_disk_durability() {
    let observed = |record: &mut Record| {
        record.trials.iter_mut().for_each(|trial| trial.durability = probe(50, &[]));
        // One of its trials is enough.
        let second = record.trials.iter().position(|one| one.trial.system == "zookeeper").unwrap();
        record.trials[second].durability = probe(0, &["`-Dzookeeper.forceSync=no` on zookeeper-1"]);
    };
    let mut record = repeated();
    observed(&mut record);
    let report = Report::new(&record);
    let why =
        "ran with `-Dzookeeper.forceSync=no` on zookeeper-1: 0 syncs for 50 acknowledged writes";
    let finding = format!("zookeeper claims a majority's disks for acknowledged writes, but {why}");
    assert_eq!(report.findings()[0], finding);
    let seen = row(&report, "syncs observed");
    assert_eq!(seen.weight, Weight::Decides);
    assert_eq!(texts(&seen), ["by a majority for each write", why]);
    let unequal = "acknowledged writes are not equally safe: etcd acknowledges a write on a majority's \
                   disks; zookeeper acknowledges a write in the page caches of a majority; a power cut \
                   may take what zookeeper acknowledged";
    check(
        observed,
        "a write is acknowledged",
        Weight::Decides,
        [
            "on a majority's disks",
            "observed in the page caches of a majority, claimed on a majority's disks",
        ],
        Some(unequal),
    );
    let text = full(&report, &NARROW);
    assert!(text.contains("durability not as claimed"), "{text}");
}

#[test]
fn unchecked_syncs_are_unknown_and_lower_nothing() {
    check(
        |record| {
            record.trials.iter_mut().for_each(|trial| trial.durability = probe(50, &[]));
            let why = "the kernel forbids tracing it";
            record.trials[0].durability = Some(Durability::not_checked(why));
        },
        "syncs observed",
        Weight::Unknown,
        ["not checked: the kernel forbids tracing it", "by a majority for each write"],
        None,
    );
}

#[test]
fn comparisons_and_replications_use_observed_durability() {
    let honest = repeated();
    let mut cheats = honest.clone();
    cheats.header.started = "2026-11-22T20:24:50Z".to_owned();
    for trial in cheats.trials.iter_mut().filter(|trial| trial.trial.system == "etcd") {
        trial.durability = probe(0, &[]);
    }
    let compared = comparison::terminal(&RunComparison::new(&honest, &cheats, &[], &[]), &PLAIN);
    let words = "etcd in the new run acknowledges writes before they are on disk";
    assert!(compared.contains(words), "{compared}");
    let claim = &Reproduction::new(&cheats, &honest).claims[0].claim;
    assert!(claim.ends_with(", but etcd acknowledges writes before they are on disk"), "{claim}");
}

#[test]
fn loss_beyond_any_guarantee_is_no_silent_pass() {
    let mut record = repeated();
    let trial = record.trials.first_mut().expect("a trial");
    let why = "1,000 keys are lost, which breaks no guarantee".to_owned();
    let cut = audit("after a power cut of all nodes");
    trial.audits.push(Audit { lost: 1000, verdict: Verdict::NotChecked(why), ..cut });
    let text = full(&Report::new(&record), &PLAIN);
    assert!(
        text.contains("beyond any guarantee, the systems lost 1,000 acknowledged keys"),
        "{text}"
    );
    assert!(text.contains("keys, kept as guaranteed") && !text.contains("none lost"), "{text}");
}

/// Returns a run whose power was cut, by system: the cut that took keys, and their number of 1,000.
fn with_cuts(found: &[(&str, Option<u32>, u64)]) -> Record {
    let mut record = repeated();
    for trial in &mut record.trials {
        let of = found.iter().find(|(system, ..)| *system == trial.trial.system);
        let &(_, found_in, lost) = of.expect("the system");
        let cuts = found_in.unwrap_or(5);
        let power_cuts = Some(PowerCutsMade { cuts, found_in, ..PowerCutsMade::default() });
        let verdict = match found_in {
            Some(_) => Verdict::NotChecked("keys are lost, which breaks no guarantee".into()),
            None => Verdict::Passed,
        };
        let cut = audit("after a power cut of all nodes");
        trial.audits.push(Audit { lost, read: 1000, power_cuts, verdict, ..cut });
    }
    record.trials.truncate(2);
    record.header.order.truncate(2);
    record
}

fn verdict_of_cuts(found: &[(&str, Option<u32>, u64)]) -> String {
    let report = report::json(&Report::new(&with_cuts(found)));
    report["verdict"].as_str().expect("a text").to_owned()
}

#[test]
fn page_draws_what_each_system_lost_in_power_cuts() {
    let title = "Acknowledged keys changed by power cuts";
    let page = page_of(&with_cuts(&[("etcd", None, 0), ("zookeeper", Some(1), 892)]));
    assert!(page.contains(title));
    for label in ["etcd: 1 trial from 0.00 to 0.00 keys", "zookeeper: 1 trial from 892 to 892 keys"]
    {
        assert!(page.contains(label), "{label}");
    }
    assert!(!page_of(&repeated()).contains(title));
}

#[test]
fn heading_says_who_lost_writes_in_power_cuts() {
    assert_eq!(
        verdict_of_cuts(&[("etcd", None, 0), ("zookeeper", Some(1), 892)]),
        "zookeeper lost 892 of 1,000 acknowledged keys in power cut 1; etcd lost none in 5 power cuts."
    );
    assert_eq!(
        verdict_of_cuts(&[("etcd", Some(2), 0), ("zookeeper", Some(3), 7)]),
        "etcd did not start again after power cut 2; zookeeper lost 7 of 1,000 acknowledged keys in power cut 3."
    );
    let kept = verdict_of_cuts(&[("etcd", None, 0), ("zookeeper", None, 0)]);
    assert!(!kept.contains("power cut"), "a run without losses is decided by its figures: {kept}");
}
