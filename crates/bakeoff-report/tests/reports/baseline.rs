//! Tests how a report compares systems with the limits of disk and loopback.

use bakeoff_core::record::{AckLocation, BaselineRoundTrips, Record};
use bakeoff_core::study::{Arrivals, Operation, Payload, Stop, ValueSizes};
use bakeoff_report::{self as report, Report};

use super::building::{Trials as _, closed, measured, record, study, workload};
use super::{PLAIN, full, millis, repeated};

/// Returns the lines about the machine baseline; checks that terminal and Markdown have the same.
fn baseline_lines(record: &Record) -> Vec<String> {
    let report = Report::new(record);
    let text = full(&report, &PLAIN);
    let about = |line: &&str| {
        ["this disk", "this one disk", "loopback and"].iter().any(|words| line.contains(words))
    };
    let lines: Vec<String> = text.lines().filter(about).map(str::to_owned).collect();
    let markdown = report::markdown(&report);
    assert!(lines.iter().all(|line| markdown.contains(line.as_str())), "{markdown}");
    lines
}

#[test]
fn share_of_the_baseline_is_reported_only_if_it_applies() {
    let shares = |lines: &[String]| lines.first().cloned().unwrap_or_default();
    let lines = baseline_lines(&repeated());
    assert_eq!(
        lines,
        [
            "etcd reaches 1.9 % and zookeeper 1.1 % of what this disk can commit with 64 clients \
             (25,600 appends/s of 1.25 KiB, all of them sharing each sync)",
            "the nodes of etcd and zookeeper all sync to this one disk: if it handles one \
             sync at a time, 3 nodes can reach about 33 % of that",
            "etcd reaches 0.62 % and zookeeper 0.35 % of what loopback and this generator do with \
             64 clients and a server that does nothing (80,000 round trips/s)",
        ]
    );
    // The disk is no baseline for values of another size, reads, checks, an open load, or systems on other machines.
    let mut large = repeated();
    large.header.study.workloads[0].payload = Payload::Values(ValueSizes::Fixed(100_000));
    let mut mixed = repeated();
    mixed.header.study.workloads[0].mix.insert(Operation::Get, 1);
    let mut checks = repeated();
    checks.header.study.workloads[0].mix = [(Operation::CheckAccess, 1)].into();
    let mut elsewhere = repeated();
    for system in &mut elsewhere.header.systems {
        system.already_running = true;
    }
    for record in [&large, &mixed, &checks, &elsewhere] {
        let lines = baseline_lines(record);
        assert!(lines.len() == 1 && shares(&lines).contains("loopback"), "{lines:?}");
    }
    // Operations in flight on one connection share round trips.
    let mut deep = repeated();
    let machine_baseline = deep.header.environment.machine_baseline.as_mut().unwrap();
    let with_more = machine_baseline.round_trips.last().unwrap().clone();
    machine_baseline.round_trips.push(BaselineRoundTrips { clients: 128, ..with_more });
    assert!(baseline_lines(&deep).iter().any(|line| line.contains("loopback")));
    deep.header.study.loads[0].in_flight = 2;
    assert!(baseline_lines(&deep).iter().all(|line| !line.contains("loopback")));
    let mut open = repeated();
    open.header.study.loads[0].arrivals = Arrivals::Poisson { rate: 500.0 };
    assert!(baseline_lines(&open).is_empty());
    assert_eq!(Report::new(&open).bounds("create", "steady"), []);
}

#[test]
fn early_acknowledgements_are_not_compared_with_the_disk() {
    let mut record = repeated();
    record.header.systems[1].guarantees.acknowledged_in = Some(AckLocation::MajorityPageCaches);
    let lines = baseline_lines(&record);
    assert!(lines[0].starts_with("etcd reaches 1.9 % of what this disk can commit"), "{lines:?}");
    let wording = "zookeeper is not compared with this disk: it acknowledges earlier (in the page \
                caches of a majority)";
    assert!(lines.iter().any(|line| line == wording), "{lines:?}");
    let bounds = Report::new(&record).bounds("create", "steady");
    let zookeeper = bounds.iter().find(|bound| bound.system == "zookeeper").unwrap();
    assert!(zookeeper.disk.is_none() && zookeeper.loopback.is_some());
}

#[test]
fn disk_that_changes_between_rounds_is_reported_as_a_range_and_a_mean() {
    let mut record = repeated();
    let first = record.header.environment.machine_baseline.as_mut().unwrap();
    first.appends[0].per_second_mean = Some(20_000.0);
    let of_round = |factor: f64| {
        let mut points = super::machine_baseline(&[64]).appends;
        points[0].per_second *= factor;
        points[0].per_second_mean = Some(20_000.0 * factor);
        points
    };
    let begins = |record: &Record, round| {
        record.trials.iter().position(|trial| trial.trial.round == round).unwrap()
    };
    let (second, third) = (begins(&record, 1), begins(&record, 2));
    record.trials[second].baseline_appends = of_round(0.5);
    record.trials[third].baseline_appends = of_round(1.25);
    assert_eq!(
        baseline_lines(&record)[0],
        "etcd reaches 1.6 % to 3.9 % and zookeeper 0.88 % to 2.2 % of what this disk can commit with \
         64 clients (12,800 to 32,000 appends/s of 1.25 KiB by the median sync, 20,000 by the mean, \
         all of them sharing each sync)"
    );
}

#[test]
fn throughput_above_the_disk_limit_is_explained() {
    // 64 clients, 400 syncs a second and no sync faster than 1 ms: 25,600/s, and at most 64,000/s.
    let faster = |rate: u64, place: AckLocation| {
        let mut record = repeated();
        record.header.systems[1].guarantees.acknowledged_in = Some(place);
        for trial in record.trials.iter_mut().filter(|one| one.trial.system == "zookeeper") {
            trial.stages[0].measurement = measured("put", rate, millis(4000), millis(1));
        }
        let lines = baseline_lines(&record);
        lines.into_iter().find(|line| line.starts_with("zookeeper did more"))
    };
    let check = |rate, place, expected: Option<&str>| {
        assert_eq!(faster(rate, place).as_deref(), expected, "{rate}");
    };
    check(25_000, AckLocation::MajorityPageCaches, None);
    check(30_000, AckLocation::MajorityPageCaches, None);
    check(
        30_000,
        AckLocation::MajorityDisks,
        Some(
            "zookeeper did more than this disk committed in the baseline: the disk was faster \
             during these trials, or these writes were not all on disk when acknowledged",
        ),
    );
    check(
        70_000,
        AckLocation::MajorityDisks,
        Some(
            "zookeeper did more than this disk can commit: these writes were not all on disk when \
             acknowledged, because a write took less time than the fastest sync observed on this \
             disk",
        ),
    );
}

#[test]
fn sweep_has_a_limit_for_each_number_of_clients() {
    let load = closed("sweep", &[1, 10, 100, 1000], Stop::Operations(400));
    let create = workload("create", &[(Operation::Put, 1)], "sweep");
    let mut record = record(study(&["etcd"], create, load, 1));
    record.header.environment.machine_baseline = Some(super::machine_baseline(&[1, 100]));
    let stage = |clients, rate| (clients, measured("put", rate, millis(1000), millis(1)));
    record.run("etcd", vec![stage(1, 100), stage(10, 800), stage(100, 600), stage(1000, 500)]);
    let report = Report::new(&record);
    let bounds = report.bounds("create", "sweep");
    let limit = |place: usize| {
        let bound = &bounds[place];
        (bound.clients, bound.disk.map(|share| share.per_second.round()))
    };
    // Interpolated between 400/s with one client and 40,000/s with a hundred.
    let seen: Vec<_> = (0..bounds.len()).map(limit).collect();
    assert_eq!(seen, [(1, Some(400.0)), (10, Some(4000.0)), (100, Some(40_000.0))]);
    let lines = baseline_lines(&record);
    assert!(
        lines[0].starts_with(
            "etcd reaches at best 18 % of what this disk can commit with 10 clients (4,000 "
        ),
        "{lines:?}"
    );
}
