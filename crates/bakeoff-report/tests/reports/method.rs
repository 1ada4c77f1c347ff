//! Tests which published rules for measurements a run meets, by its record.

use std::time::Duration;

use bakeoff_core::check::{Audit, CheckName, Verdict};
use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::{Check, Record};
use bakeoff_core::study::{Arrivals, Endpoint, Servers};
use bakeoff_report::{self as report, Report};
use rand::SeedableRng as _;
use rand_distr::{Distribution as _, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{NARROW, check, open_mix, repeated};

/// Returns the answer to the rule whose source starts with `by`.
fn answer(record: &Record, by: &str) -> (String, String) {
    let report = Report::new(record);
    let found = report.method().iter().find(|answer| answer.demand.by.starts_with(by));
    let found = found.expect("one of the twelve rules");
    (found.met.name().to_owned(), found.why.clone())
}

fn expect(record: &Record, by: &str, met: &str, why: &str) {
    let (found, because) = answer(record, by);
    assert!(found == met && because.contains(why), "{by}: {found}: {because}");
}

fn every_stage(record: &mut Record, mut change: impl FnMut(&mut Measurement)) {
    let stages = record.trials.iter_mut().flat_map(|trial| &mut trial.stages);
    stages.for_each(|stage| change(&mut stage.measurement));
}

fn fail(record: &mut Record, name: CheckName) {
    let verdict = Verdict::Failed("so".to_owned());
    record.trials[0].checks.push(Check::new(name, verdict));
}

#[test]
fn each_rule_has_an_answer() {
    check("method.80.txt", &report::demands(&Report::new(&repeated()), &NARROW));
}

#[test]
fn closed_loads_show_fewer_stalls_than_open_ones() {
    expect(&repeated(), "Tene", "in part", "all loads are closed");
    expect(&repeated(), "Schroeder", "met", "closed: steady");
    let mut open = open_mix();
    expect(&open, "Tene", "met", "1 of 1 load");
    expect(&open, "Schroeder", "met", "open: offered");
    fail(&mut open, CheckName::Schedule);
    expect(&open, "Tene", "in part", "1 trial fell behind schedule");
}

#[test]
fn unvaried_conditions_are_reported() {
    expect(&repeated(), "Mytkowicz", "met", "3 rounds");
    let mut first = repeated();
    // One system always goes first.
    first.header.order.sort_by_key(|trial| (trial.round, trial.system.clone()));
    expect(&first, "Mytkowicz", "in part", "the seed did not draw the order");
    expect(&open_mix(), "Mytkowicz", "not met", "one round");
    let mut running = repeated();
    for system in &mut running.header.study.systems {
        let host = "127.0.0.1".to_owned();
        let endpoint = Endpoint { tls: false, host, port: 2379 };
        system.servers = Servers::Running(vec![endpoint]);
    }
    expect(&running, "Mytkowicz", "not met", "ran already");
}

#[test]
fn trials_on_the_same_servers_meet_the_rule_in_part() {
    expect(&repeated(), "Zhang", "in part", "closed loads only");
    expect(&open_mix(), "Zhang", "not met", "1 trial of each");
    let mut kept = repeated();
    kept.header.study.clusters = bakeoff_core::study::Clusters::Kept;
    expect(&kept, "Zhang", "in part", "one process's luck");
}

/// Returns a record of a Poisson load with exponential gaps changed by `spoil`.
fn sent_at(spoil: impl Fn(f64) -> f64) -> Record {
    let mut record = repeated();
    record.header.study.loads[0].arrivals = Arrivals::Poisson { rate: 1000.0 };
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    every_stage(&mut record, |measured| {
        let mut at = 0.0;
        measured.sent = (0..1000)
            .map(|_| {
                let gap: f64 = Exp1.sample(&mut rng);
                at += spoil(gap) * 1e6;
                at as u64
            })
            .collect();
    });
    record
}

#[test]
fn gaps_that_are_not_exponential_are_reported() {
    let (_, why) = answer(&sent_at(|gap| gap), "Kogias");
    assert!(
        why.contains("gaps: Anderson–Darling at most ") && why.contains(" in 6 stages"),
        "{why}"
    );
    let statistic = |record: &Record| -> f64 {
        let (_, why) = answer(record, "Kogias");
        let text = why.split("at most ").nth(1).and_then(|rest| rest.split(' ').next());
        text.and_then(|text| text.parse().ok()).expect("a number")
    };
    assert!(statistic(&sent_at(|gap| gap)) < 2.5);
    assert!(statistic(&sent_at(|gap| gap.max(0.3))) > 10.0);
    expect(&repeated(), "Kogias", "in part", "no Poisson load");
}

#[test]
fn wrong_answers_and_unknown_versions_are_reported() {
    expect(&repeated(), "Raasveldt", "met", "answers verified");
    let mut wrong = repeated();
    fail(&mut wrong, CheckName::Answers);
    expect(&wrong, "Raasveldt", "not met", "in 1 trial");
    expect(&repeated(), "SPEC", "met", "2 programs and 2 settings");
    let mut unknown = repeated();
    unknown.header.systems[1].sha256 = None;
    expect(&unknown, "SPEC", "in part", "unknown for zookeeper");
}

#[test]
fn the_shortest_window_counts() {
    expect(&repeated(), "MLPerf", "not met", "the shortest window is 4s");
    let mut long = repeated();
    every_stage(&mut long, |measured| measured.window = Duration::from_secs(600));
    expect(&long, "MLPerf", "met", "10m");
    every_stage(&mut long, |measured| measured.window = Duration::from_secs(30));
    expect(&long, "MLPerf", "in part", "30s");
}

#[test]
fn machine_baseline_warm_up_and_audits_are_checked() {
    expect(&repeated(), "Kasture", "in part", "share the machine");
    let mut bare = repeated();
    bare.header.environment.machine_baseline = None;
    expect(&bare, "Kasture", "not met", "no machine baseline was measured");
    let mut busy = repeated();
    fail(&mut busy, CheckName::Generator);
    expect(&busy, "Kasture", "in part", "the generator limited 1 trial");

    expect(&repeated(), "criterion", "in part", "no check for a steady state");
    let mut cold = repeated();
    cold.header.study.loads[0].warmup = Duration::ZERO;
    expect(&cold, "criterion", "in part", "no warm-up in steady");

    expect(&repeated(), "Jepsen", "in part", "12 audits of acknowledged writes, 0 of them failed");
    let mut unread = repeated();
    for trial in &mut unread.trials {
        trial.audits = vec![Audit::new("later", Verdict::NotChecked("no".to_owned()))];
    }
    expect(&unread, "Jepsen", "not met", "no acknowledged write was read back");
    expect(&repeated(), "ClickBench", "met", "`bakeoff reproduce record.jsonl` repeats it");
}
