//! Tests reports of faults: verdict, figures of each system, injections that do not count.

use std::time::Duration;

use bakeoff_core::check::{Audit, CheckName, Verdict};
use bakeoff_core::measurement::{
    ErrorKind, GeneratorStall, LoadPart, Measurement, PartSilences, Silence, StepCounts,
    StepSeries, TargetFigures,
};
use bakeoff_core::record::{
    Check, FaultHit, HitCost, Injection, Record, RoundCount, StageRecord, chain,
};
use bakeoff_core::study::fault::{DiskBreak, MaintenanceRun, Pause, Sequence};
use bakeoff_core::study::{
    Arrivals, DiskFault, Fault, FaultAction, FaultNode, FaultTarget, Load, Maintenance, Metric,
    Operation, PublishedValue, Stop,
};
use bakeoff_report::fairness::Weight;
use bakeoff_report::{self as report, Extent, Report, verify};
use serde_json::Value;

use super::building::{Trials as _, audit, closed, measured, page_of, record, study, workload};
use super::fairness::{row, texts};
use super::{PLAIN, after_title};

const WINDOW: Duration = Duration::from_secs(10);

/// Returns a record of paused leaders with an injection a trial. `outages` has the seconds of each system's injections.
fn paused(outages: &[(&str, &[f64])]) -> Record {
    let rate = Arrivals::Constant { rate: 1000.0 };
    let load = Load { arrivals: rate, ..closed("steady", &[8], Stop::After(WINDOW)) };
    let work = workload("write", &[(Operation::Put, 1)], "steady");
    let systems: Vec<&str> = outages.iter().map(|(system, _)| *system).collect();
    let trials = outages.iter().map(|(_, all)| all.len() as u32).max().unwrap_or(1);
    let mut study = study(&systems, work, load, trials);
    study.faults = vec![Fault {
        name: "leader-paused".into(),
        action: FaultAction::Pause(Pause { lasts: Duration::from_secs(3) }),
        target: FaultTarget { part: None, node: FaultNode::Leader },
        at: Duration::from_secs(2),
        systems: Vec::new(),
        alone: true,
    }];
    let mut record = record(study);
    for (system, lengths) in outages {
        for &length in *lengths {
            let of = measured("put", 1000, WINDOW, Duration::from_millis(1));
            let trial = record.run(system, vec![(8, of)]);
            trial.injections = vec![injection(1, length)];
        }
    }
    record
}

/// Moves all injections of a system to its first trial, whose cluster they then share.
fn on_one_cluster(record: &mut Record) {
    let mut systems: Vec<String> = Vec::new();
    let mut moved: Vec<(String, Injection)> = Vec::new();
    record.trials.retain_mut(|trial| {
        let system = trial.trial.system.clone();
        let is_first = !systems.contains(&system);
        moved.extend(trial.injections.drain(..).map(|one| (system.clone(), one)));
        systems.push(system);
        is_first
    });
    for trial in &mut record.trials {
        let own = moved.iter().filter(|(system, _)| *system == trial.trial.system);
        let numbered = (1..).zip(own).map(|(repeat, (_, one))| Injection { repeat, ..one.clone() });
        trial.injections = numbered.collect();
    }
}

/// Returns a system's injection by its place among all of them.
fn nth<'a>(record: &'a mut Record, system: &str, place: usize) -> &'a mut Injection {
    let own = record.trials.iter_mut().filter(|trial| trial.trial.system == system);
    own.flat_map(|trial| &mut trial.injections).nth(place).expect("an injection")
}

fn all<'a>(record: &'a mut Record, system: &str) -> impl Iterator<Item = &'a mut Injection> {
    let own = record.trials.iter_mut().filter(move |trial| trial.trial.system == system);
    own.flat_map(|trial| &mut trial.injections)
}

/// Sets the failures of each step, of 100 operations.
fn fail(measurement: &mut Measurement, failed_at: impl Fn(u32) -> u64) {
    measurement.steps = StepSeries::default();
    for at in 0..100u32 {
        let errors = failed_at(at);
        measurement.steps.add(at, &StepCounts { verified: 100 - errors, errors, unknown: 0 });
    }
    let errors: u64 = measurement.steps.errors.iter().sum();
    let figures = measurement.operations.get_mut("put").expect("puts");
    (figures.verified, figures.verified_in_window) = (10_000 - errors, 10_000 - errors);
    figures.errors.entry(ErrorKind::Status).or_default().count = errors;
}

fn injection(repeat: u32, outage: f64) -> Injection {
    let mut measurement = measured("put", 1000, WINDOW, Duration::from_millis(1));
    measurement.silences = vec![Silence { from: 2.0, seconds: outage }];
    fail(&mut measurement, |at| {
        let time = f64::from(at) / 10.0;
        ((2.0 + outage - time.max(2.0)).clamp(0.0, 0.1) * 1000.0).round() as u64
            * u64::from(time > 1.95)
    });
    let hit = FaultHit {
        fault: None,
        nodes: vec!["etcd-1".into()],
        from: 2.0,
        seen: Some(2.001),
        to: Some(5.0),
        proof: vec!["9 threads stood still".into(), "9 threads went on".into()],
        cost: None,
    };
    Injection {
        fault: "leader-paused".into(),
        repeat,
        stage: StageRecord {
            clients: 8,
            began: 20.0,
            measured_from: Some(21.0),
            measurement,
            tried: None,
        },
        hits: vec![hit],
        unproven: None,
        stalls_explained: None,
        audit: Some(audit("after injection 1 of leader-paused")),
    }
}

fn verdict(record: &Record) -> String {
    report::json(&Report::new(record))["verdict"].as_str().expect("a text").to_owned()
}

fn systems(record: &Record) -> Vec<Value> {
    let report = report::json(&Report::new(record));
    report["comparisons"][0]["faults"][0]["systems"].as_array().expect("systems").clone()
}

#[test]
fn verdict_has_each_outage_with_its_interval() {
    let record = paused(&[("etcd", &[1.2, 1.1, 1.3, 1.2]), ("consul", &[2.9, 3.0, 3.1, 3.0])]);
    let verdict = verdict(&record);
    assert!(
        verdict.starts_with(
            "Leader paused for 3s: etcd was out for 1.20 s and lost 1.20 s of service (95 % interval 1.0"
        ),
        "{verdict}"
    );
    let consul = ", 4 injections on 4 clusters), consul was out for 3.00 s and lost 3.00 s (2.8";
    assert!(verdict.contains(consul), "{verdict}");
    assert!(verdict.ends_with("; neither lost an acknowledged write."), "{verdict}");
    let text = report::terminal(&Report::new(&record), &PLAIN, Extent::Glance);
    assert!(after_title(&text).starts_with("Leader paused for 3s: "), "{text}");
    assert!(text.contains("leader-paused  writes lost"), "{text}");
    let row = text.lines().find(|line| line.starts_with(" etcd")).expect("a row");
    assert!(row.contains("1.20 (1.0") && row.contains(") *"), "{row}");
}

#[test]
fn verdict_names_the_service_lost_without_an_outage() {
    let mut record = paused(&[("etcd", &[0.005, 0.005, 0.005]), ("consul", &[2.9, 3.0, 3.1])]);
    let none = "etcd had no outage of 10.4 ms or more and lost no service (3 injections on";
    assert!(verdict(&record).contains(none), "{}", verdict(&record));
    let consul = ", consul was out for 3.00 s and lost 3.00 s of service (95 % interval 2.";
    assert!(verdict(&record).contains(consul), "{}", verdict(&record));
    for one in all(&mut record, "etcd") {
        // Half of the operations fail for 3 s, of 8 s that the load goes on.
        let half = |at| if (20..50).contains(&at) { 50 } else { 0 };
        fail(&mut one.stage.measurement, half);
    }
    let verdict = verdict(&record);
    let failed = "ms or more and lost 1.50 s of service (95 % interval 1.50 to 1.50, 3 injections";
    assert!(verdict.contains(failed), "{verdict}");
}

#[test]
fn flapping_system_is_judged_by_the_service_it_lost() {
    let mut record = paused(&[("flapping", &[0.61; 3]), ("refusing", &[1.2, 1.21, 1.19])]);
    for (one, more) in all(&mut record, "flapping").zip(0..) {
        // One success each 0.4 s for 4 s.
        let failed = |at| match at {
            20..60 if at % 4 == 0 => 99,
            20..60 => 100,
            60 => more,
            _ => 0,
        };
        fail(&mut one.stage.measurement, failed);
    }
    let said = verdict(&record);
    let flapping = "flapping was out for at most 0.61 s at a time, and lost 3.99 s of service (";
    assert!(said.contains(flapping), "{said}");
    assert!(said.contains("refusing was out for 1.20 s and lost 1.20 s ("), "{said}");
    let json = report::json(&Report::new(&record));
    assert_eq!(json["comparisons"][0]["faults"][0]["least_service_lost"], "refusing");
}

#[test]
fn injections_of_one_cluster_count_once() {
    let mut record = paused(&[("etcd", &[1.2, 1.1, 1.3]), ("consul", &[2.9, 3.0, 3.1])]);
    on_one_cluster(&mut record);
    let said = verdict(&record);
    let one = "lost 1.20 s of service (3 injections on 1 cluster), consul was out";
    assert!(said.contains(one), "{said}");
    assert!(said.contains("; too few clusters to compare; "), "{said}");
    // A trial that keeps the cluster of the one before adds none.
    let mut kept = paused(&[("etcd", &[1.2, 1.1, 1.3])]);
    kept.trials[1].kept = true;
    let clusters: Vec<u64> = systems(&kept)[0]["injections"]
        .as_array()
        .expect("injections")
        .iter()
        .map(|one| one["cluster"].as_u64().expect("a number"))
        .collect();
    assert_eq!(clusters, [1, 1, 2]);
}

#[test]
fn verdict_counts_the_injections_of_each_system_if_they_differ() {
    let record = paused(&[("etcd", &[1.2, 1.1, 1.3, 1.2]), ("consul", &[2.9, 3.0, 3.1])]);
    let verdict = verdict(&record);
    assert!(verdict.contains(", 4 injections on 4 clusters), consul was"), "{verdict}");
    assert!(verdict.contains(", 3 injections on 3 clusters); "), "{verdict}");
}

#[test]
fn verdict_names_operations_that_were_out_much_longer() {
    let mut record = paused(&[("etcd", &[0.005, 0.005, 0.005]), ("consul", &[2.9, 3.0, 3.1])]);
    for (system, lengths) in [("etcd", [4.0, 5.0, 6.0]), ("consul", [3.5; 3])] {
        for (one, seconds) in all(&mut record, system).zip(lengths) {
            let silence = Silence { from: 2.0, seconds };
            one.stage.measurement.part_silences = vec![PartSilences {
                part: LoadPart::Operation("put".into()),
                silences: vec![silence],
            }];
        }
    }
    let verdict = verdict(&record);
    assert!(verdict.starts_with("Leader paused for 3s: etcd had no outage of "), "{verdict}");
    assert!(verdict.contains(
        " or more (put for 5.00 s) and lost no service (3 injections on 3 clusters), consul was"
    ));
    assert_eq!(verdict.matches("put for").count(), 1, "{verdict}");
}

#[test]
fn older_values_are_not_called_lost() {
    let mut record = paused(&[("etcd", &[1.2, 1.1, 1.3])]);
    let lost = |record: &mut Record, lost, wrong, older| {
        let audit = nth(record, "etcd", 1).audit.as_mut().expect("an audit");
        *audit = Audit { lost, wrong, older, ..audit.clone() };
        audit.verdict = Verdict::Failed("read back".into());
    };
    lost(&mut record, 0, 7, 7);
    let older = "etcd returned older values for 7 of 1,000 acknowledged keys after injection ";
    assert!(verdict(&record).starts_with(older), "{}", verdict(&record));
    let support = report::json(&Report::new(&record))["support"].to_string();
    assert!(support.contains("; etcd returned older values for 7 acknowledged keys"));
    lost(&mut record, 1, 7, 7);
    let both = "etcd lost 1 and returned older values for 7 of 1,000 acknowledged keys after ";
    assert!(verdict(&record).starts_with(both), "{}", verdict(&record));
    let says = report::json(&Report::new(&record))["support"].to_string();
    let words = "; etcd lost 1 acknowledged key and returned older values for 7";
    assert!(says.contains(words), "{says}");
    lost(&mut record, 0, 9, 7);
    let json = &systems(&record)[0];
    let of = |name: &str| json[name].as_u64().unwrap();
    assert_eq!((of("lost"), of("older"), of("wrong")), (0, 7, 2));
    let text = report::terminal(&Report::new(&record), &PLAIN, Extent::Full);
    assert!(text.contains("writes lost") && text.contains("older values"), "{text}");
    for (label, count) in [("lost", "none"), ("with older values", "7"), ("with wrong values", "2")]
    {
        let label = format!("acknowledged keys {label}");
        let row = text.lines().find(|line| line.contains(&label)).expect("a row");
        assert!(row.trim_end().ends_with(&format!(" {count}")), "{row}");
    }
}

#[test]
fn published_outages_stand_next_to_measured_ones() {
    let mut record = paused(&[("etcd", &[1.2, 1.1, 1.3]), ("consul", &[2.9, 3.0, 3.1])]);
    let published = |metric, value| PublishedValue {
        system: "consul".into(),
        workload: "write".into(),
        load: "steady".into(),
        operation: None,
        fault: Some("leader-paused".into()),
        metric,
        value,
        note: Some("issue 7".into()),
    };
    record.header.study.published =
        vec![published(Metric::OutageMaxS, 3.1), published(Metric::OutageMinS, 2.5)];
    let found = systems(&record);
    assert_eq!(found[1]["published"], serde_json::json!([2.5, 3.1]));
    assert_eq!(found[0]["published"], serde_json::json!([]));
    let report = Report::new(&record);
    let text = report::terminal(&report, &PLAIN, Extent::Full);
    let row = text.lines().find(|line| line.contains("outage, published")).expect("a row");
    assert!(row.trim_end().ends_with("2.50 to 3.10 s"), "{row}");
    assert!(text.contains("published for consul, leader-paused: out for 2.50 to 3.10 s (issue 7)"));
    let page = page_of(&record);
    assert_eq!(page.matches("<title>published for consul: ").count(), 2, "a mark for each end");
}

#[test]
fn difference_that_is_not_proven_is_not_claimed() {
    let alike = paused(&[("etcd", &[1.2, 2.1, 1.6]), ("consul", &[1.9, 1.1, 2.2])]);
    assert!(verdict(&alike).contains("; no difference is shown; "), "{}", verdict(&alike));
    let few = paused(&[("etcd", &[1.2, 1.1]), ("consul", &[3.0, 3.1])]);
    assert!(verdict(&few).contains("; too few clusters to compare; "), "{}", verdict(&few));
}

#[test]
fn outage_that_ended_with_a_stall_of_the_generator_does_not_count() {
    let mut record = paused(&[("etcd", &[1.2, 1.1, 2.9])]);
    let stall = GeneratorStall { thread: 0, from: 3.2, seconds: 1.8 };
    nth(&mut record, "etcd", 2).stage.measurement.stalls = vec![stall];
    let system = &systems(&record)[0];
    let median = system["outage"]["least"].as_f64().expect("a median");
    assert!((median - 1.15).abs() < 1e-9, "{median}");
    let why = system["injections"][2]["left_out"].as_str().expect("a reason");
    assert!(why.starts_with("the generator stood still for 1,800 ms"), "{why}");
    let html = page_of(&record);
    assert!(html.contains("2 of 3"), "the table says how many count");
    nth(&mut record, "etcd", 2).stalls_explained = Some("the system's own nodes".into());
    let system = &systems(&record)[0];
    assert!(system["injections"][2]["left_out"].is_null(), "the nodes caused the stall");
}

/// Returns the cell of the only system in the table of the first fault.
fn cell(record: &Record, figure: &str) -> String {
    let html = page_of(record);
    let row = html.split("<tr").skip(1).find(|row| row.contains(figure)).expect("a row");
    let cell = row.split("<td").nth(1).expect("a cell");
    let (_, text) = cell.split_once('>').expect("a tag");
    text.split('<').next().unwrap_or_default().to_owned()
}

#[test]
fn clients_of_broken_nodes_and_operations_have_rows_of_their_own() {
    let mut record = paused(&[("etcd", &[1.2, 1.1, 1.3])]);
    let mark = "<path class=\"broken\" d=";
    assert_eq!(cell(&record, "outage of the broken nodes"), "–", "an older record has no parts");
    assert!(!page_of(&record).contains(mark));
    for trial in &mut record.trials {
        trial.targets = vec!["etcd-1".into(), "etcd-2".into()];
    }
    for (one, more) in all(&mut record, "etcd").zip([0.0, 0.1, 0.2]) {
        let target =
            |node: &str| TargetFigures { node: node.into(), verified: 500, ..Default::default() };
        let part = |part, silences: &[(f64, f64)]| PartSilences {
            part,
            silences: silences.iter().map(|&(from, seconds)| Silence { from, seconds }).collect(),
        };
        let measurement = &mut one.stage.measurement;
        measurement.targets = vec![target("a:1"), target("b:1")];
        measurement.part_silences = vec![
            part(LoadPart::Node("a:1".into()), &[(2.1, 3.0 + more)]),
            part(LoadPart::Node("b:1".into()), &[]),
            part(LoadPart::Operation("put".into()), &[(2.1, 7.9)]),
        ];
    }
    assert_eq!(cell(&record, "outage of the broken nodes"), "3.10 s");
    let html = page_of(&record);
    assert_eq!(html.matches(mark).count(), 1, "the picture has a mark for the system");
    assert!(html.contains("etcd: the broken nodes&#39; clients were out for 3.10 s"), "{html}");
    assert_eq!(cell(&record, "outage of the other nodes"), "&lt; 0.20 s");
    assert_eq!(cell(&record, "outage of `put`, median"), "&gt; 7.90 s");
    let part = &systems(&record)[0]["injections"][0]["parts"][0];
    assert_eq!((&part["node"], &part["broken"]), (&"etcd-1".into(), &true.into()), "{part}");
}

/// Only the first panel of two shows the names of the rows.
#[test]
fn panels_have_the_systems_in_one_order() {
    let mut record = paused(&[("etcd", &[1.2, 1.1, 1.3]), ("zookeeper", &[2.2, 2.1, 2.3])]);
    let again = Fault { name: "again".into(), ..record.header.study.faults[0].clone() };
    record.header.study.faults.push(again);
    for trial in &mut record.trials {
        let length = if trial.trial.system == "etcd" { 2.2 } else { 1.2 };
        trial.injections.push(Injection { fault: "again".into(), ..injection(1, length) });
    }
    let page = page_of(&record);
    let panels = page.split("<figure").filter(|one| one.contains("econds of service lost"));
    let names = |panel: &str| {
        let names = panel.split("class=\"name\"").skip(1);
        let name = |text: &str| text.split_once("<b>")?.1.split('<').next().map(str::to_owned);
        names.filter_map(name).collect::<Vec<_>>()
    };
    let orders: Vec<Vec<String>> = panels.map(names).filter(|names| !names.is_empty()).collect();
    assert_eq!(orders, [["etcd", "zookeeper"], ["etcd", "zookeeper"]]);
}

#[test]
fn faults_of_a_sequence_have_rows_of_their_own() {
    let mut record = paused(&[("etcd", &[1.2, 1.1, 1.3])]);
    let mut faults = record.header.study.faults.clone();
    faults[0].alone = false;
    faults.push(Fault { name: "kept".into(), ..faults[0].clone() });
    let sequence = Sequence {
        faults: vec!["leader-paused".into(), "kept".into()],
        rest: Duration::from_secs(1),
    };
    faults.push(Fault {
        name: "staircase".into(),
        action: FaultAction::Sequence(sequence),
        alone: true,
        ..faults[0].clone()
    });
    record.header.study.faults = faults;
    for one in all(&mut record, "etcd") {
        one.fault = "staircase".into();
        one.hits[0].fault = Some("leader-paused".into());
        one.hits.push(FaultHit {
            fault: Some("kept".into()),
            from: 7.0,
            to: Some(7.5),
            ..one.hits[0].clone()
        });
        one.stage.measurement.silences.push(Silence { from: 7.0, seconds: 0.25 });
    }
    assert_eq!(cell(&record, "outage in leader-paused, median"), "1.20 s");
    // Each chart has a band for each fault, and one in its legend.
    let html = page_of(&record);
    let chart = html.split("<figure").find(|one| one.contains("staircase: successes")).unwrap();
    assert_eq!(chart.matches("class=\"band\"").count(), 3, "{chart}");
    assert_eq!(cell(&record, "outage in kept, median"), "0.25 s");
    let verdict = verdict(&record);
    assert!(
        verdict.starts_with("Leader-paused and kept, one after another: etcd was out for 1.20 s"),
        "{verdict}"
    );
    assert!(
        verdict.contains(" for 1.20 s (leader-paused 1.20 s, kept 0.25 s) and lost 1.20 s"),
        "{verdict}"
    );
}

#[test]
fn lost_write_is_in_the_verdict_although_its_trial_is_not_valid() {
    let mut record = paused(&[("etcd", &[1.2, 1.1, 1.3]), ("consul", &[3.0, 3.1, 2.9])]);
    let audit = nth(&mut record, "consul", 1).audit.as_mut().expect("an audit");
    audit.lost = 12;
    audit.verdict = bakeoff_core::check::Verdict::Failed("12 are lost".into());
    let promise = "consul lost 12 of 1,000 acknowledged keys after injection 1 of leader-paused.";
    assert_eq!(verdict(&record), promise);
    let json = report::json(&Report::new(&record));
    let outages = json["support"].to_string();
    assert!(outages.contains("; consul lost 12 acknowledged keys."), "{outages}");
    // It leads nothing, however short its outage.
    for one in record.trials.iter_mut().flat_map(|trial| &mut trial.injections) {
        one.audit.iter_mut().for_each(|audit| audit.verdict = Verdict::Passed);
    }
    let least = |record: &Record| {
        let json = report::json(&Report::new(record));
        json["comparisons"][0]["faults"][0]["least_service_lost"].clone()
    };
    assert_eq!(least(&record), "etcd");
    let audit = nth(&mut record, "etcd", 0).audit.as_mut().expect("an audit");
    (audit.lost, audit.verdict) = (1, Verdict::Failed("1 is lost".into()));
    assert!(least(&record).is_null());
}

#[test]
fn outages_count_although_the_undisturbed_load_is_not_valid() {
    let of = |name, cause| {
        let mut record = paused(&[("etcd", &[1.2, 1.1, 1.3]), ("consul", &[2.9, 3.0, 3.1])]);
        let failed = Verdict::Failed("it stood still for 282 ms: too long".to_owned());
        let consul = record.trials.iter_mut().find(|trial| trial.trial.system == "consul");
        consul.expect("a trial").checks.push(Check { cause, ..Check::new(name, failed) });
        record
    };
    let whole = verdict(&paused(&[("etcd", &[1.2, 1.1, 1.3]), ("consul", &[2.9, 3.0, 3.1])]));
    for name in CheckName::ALL.iter().copied() {
        assert_eq!(verdict(&of(name, None)), whole, "{name}");
    }
    let record = of(CheckName::Timers, None);
    let report = &Report::new(&record);
    let note = "of consul is not valid (timers): its throughput and latency do not count, its proven outages do";
    let text = report::terminal(report, &PLAIN, Extent::Glance);
    assert!(text.contains("consul was out for 3.00 s"), "{text}");
    let row = text.lines().find(|line| line.starts_with(" consul")).expect("a row");
    assert!(row.contains("3.00 (") && row.contains("2 of 3"), "{row}");
    let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped.contains(note), "{text}");
    assert!(report::markdown(report).contains(note));
    assert!(report::html_next_to_record(report).contains(note));
    assert!(report::json(report)["support"].to_string().contains(note));
    assert!(report::card(report).contains("trials valid: 5 of 6"));
    let rows = report::csv(report);
    assert!(rows.contains("timers: it stood still"), "{rows}");
    assert!(
        rows.lines()
            .next()
            .unwrap()
            .ends_with(",service_lost_seconds_leader-paused,outages_seconds_leader-paused"),
        "{rows}"
    );
    assert!(rows.lines().any(|row| row.ends_with(",2.9,2.9")), "{rows}");
}

#[test]
fn injection_is_left_out_by_itself() {
    let mut record = paused(&[("etcd", &[1.2, 1.1, 1.3]), ("consul", &[2.9, 3.0, 3.1])]);
    nth(&mut record, "etcd", 0).unproven = Some("no leader was found".to_owned());
    let failed = Verdict::Failed("injection 1 of `leader-paused`".to_owned());
    record.trials[0].checks.push(Check::new(CheckName::Injections, failed));
    let json = systems(&record);
    let injections = json[0]["injections"].as_array().expect("injections");
    let left_out: Vec<bool> = injections.iter().map(|one| !one["left_out"].is_null()).collect();
    assert_eq!(left_out, [true, false, false]);
    let verdict = verdict(&record);
    assert!(
        verdict.contains("etcd was out for 1.20 s")
            && verdict.contains("2 injections on 2 clusters"),
        "{verdict}"
    );
}

#[test]
fn expired_leases_are_counted_as_such() {
    let mut record = paused(&[("etcd", &[1.2, 1.1, 1.3])]);
    let figures = &mut nth(&mut record, "etcd", 2).stage.measurement;
    let figures = figures.operations.get_mut("put").expect("puts");
    figures.errors.entry(ErrorKind::LeaseExpired).or_default().count = 20;
    let verdict = verdict(&record);
    assert!(verdict.contains("; 20 leases of etcd expired; no acknowledged write"), "{verdict}");
    let text = report::terminal(&Report::new(&record), &PLAIN, Extent::Full);
    assert!(text.contains("20 (20 leases expired)"), "{text}");
}

#[test]
fn system_without_a_proven_injection_is_shown_as_not_valid() {
    let mut record = paused(&[("etcd", &[1.2, 1.1]), ("consul", &[2.9, 3.0])]);
    for one in all(&mut record, "consul") {
        one.unproven = Some("no leader was found".to_owned());
    }
    let text = report::terminal(&Report::new(&record), &PLAIN, Extent::Glance);
    let row = text.lines().find(|line| line.starts_with(" consul")).expect("a row");
    assert!(row.contains("not valid") && !text.contains("not run"), "{text}");
}

#[test]
fn outage_until_the_end_of_the_load_is_a_lower_bound() {
    let mut record = paused(&[("etcd", &[1.2, 1.2, 1.2]), ("consul", &[1.1, 1.2, 1.3])]);
    let last = |one: &mut Injection| {
        one.stage.measurement.silences.clear();
        one.stage.measurement.silent_from = Some(2.0);
        fail(&mut one.stage.measurement, |at| if at >= 20 { 100 } else { 0 });
    };
    last(nth(&mut record, "etcd", 0));
    let said = verdict(&record);
    assert!(said.contains("etcd was out for 1.20 s and lost 1.20 s of service (3 inj"), "{said}");
    assert!(said.contains("; no difference is shown; "), "{said}");
    all(&mut record, "etcd").for_each(last);
    let said = verdict(&record);
    let at_least =
        "etcd was out for at least 8.00 s and lost at least 8.00 s of service (3 injections";
    assert!(said.contains(at_least), "{said}");
    assert!(!said.contains("no difference"), "8 s or more are proven longer than 1.2 s: {said}");
    assert_eq!(systems(&record)[0]["service_lost"]["most"], Value::Null);
}

#[test]
fn injections_in_another_order_than_their_seed_gives_are_found() {
    let trials = |record: &Record| {
        let found = verify::verify(&chain::check(b""), record, &[]);
        found.into_iter().find(|one| one.what == "trials").expect("the check").seen
    };
    let mut record = paused(&[("etcd", &[1.2])]);
    record.header.study.repeat = 3;
    record.trials[0].injections =
        (1..).zip([1.2, 1.1, 1.3]).map(|(at, length)| injection(at, length)).collect();
    assert!(
        trials(&record).starts_with("1 of 1 trials, in an order that follows from study and seed")
    );
    record.trials[0].injections.swap(0, 1);
    assert_eq!(trials(&record), "the injections of trial 1 do not follow from its seed");
}

#[test]
fn failed_requests_are_shown_by_the_change_that_cost_them() {
    let mut record = paused(&[("etcd", &[0.2, 0.3])]);
    let fault = &mut record.header.study.faults[0];
    let (operation, every) = (Maintenance::ChangeRoutes, Duration::from_secs(1));
    fault.action = FaultAction::Run(MaintenanceRun { operation, every, times: 3, keep: 0 });
    for (one, costs) in all(&mut record, "etcd").zip([[0, 7, 2], [0, 5, 0]]) {
        let hit = |(place, failed)| FaultHit {
            from: 2.0 + f64::from(place),
            to: Some(2.25 + f64::from(place)),
            cost: Some(HitCost { failed, unknown: 0, delayed: Some(0) }),
            ..one.hits[0].clone()
        };
        one.hits = (0..).zip(costs).map(hit).collect();
    }
    assert_eq!(cell(&record, "change until the gateway has it, median"), "0.25 s");
    let failed = "failed and unknown outcomes by effect";
    assert_eq!(cell(&record, failed), "14 (12 in change 2, 2 in change 3)");
    assert_eq!(cell(&record, "delayed operations by effect"), "none");
    let verdict = verdict(&record);
    assert!(verdict.starts_with("Routes changed 3 times, every 1s: etcd was out for"), "{verdict}");
    assert!(verdict.contains("; changes arrived after 0.25 s in etcd"), "{verdict}");
    // Each chart has a band for each change, and one in its legend.
    let html = page_of(&record);
    let chart = html.split("<figure").find(|one| one.contains("leader-paused: successes")).unwrap();
    assert_eq!(chart.matches("class=\"band\"").count(), 4, "{chart}");
    let json = report::json(&Report::new(&record));
    let effect = "/comparisons/0/faults/0/systems/0/injections/1/effects/1/cost/failed";
    assert_eq!(json.pointer(effect), Some(&5.into()), "{}", json["comparisons"][0]["faults"]);
}

#[test]
fn disk_that_can_break_differs_from_the_machines() {
    let mut record = paused(&[("etcd", &[1.0]), ("consul", &[1.0])]);
    let fault = &mut record.header.study.faults[0];
    let lasts = Duration::from_secs(3);
    fault.action = FaultAction::Disk(DiskBreak { fault: DiskFault::Full, lasts });
    let seen = |record: &Record| {
        let report = Report::new(record);
        let found = report.fairness().findings.iter().find(|text| text.contains("disks differ"));
        (row(&report, "disk of the nodes"), found.cloned())
    };
    let (both, finding) = seen(&record);
    let own = "a file system in memory that can break";
    assert_eq!((texts(&both), finding), (vec![own, own], None));

    record.header.study.faults[0].systems = vec!["etcd".into()];
    let (one, finding) = seen(&record);
    assert_eq!((one.weight, texts(&one)), (Weight::Decides, vec![own, "the machine's disk"]));
    let wanted = format!("the nodes' disks differ: etcd on {own}, consul on the machine's disk");
    assert_eq!(finding, Some(wanted));
}

#[test]
fn command_that_repeats_a_run_names_what_was_chosen() {
    let mut header = paused(&[("etcd", &[1.0])]).header;
    assert_eq!(header.repeat_command(), "bakeoff reproduce record.jsonl");
    header.study.name = "kv-failover".into();
    (header.study.scale, header.rounds) = (0.01, RoundCount::Fixed);
    let faults = "--faults leader-paused --repeat 1";
    let wanted = format!("bakeoff run kv-failover --scale 0.01 --trials 1 {faults} --seed 42");
    assert_eq!(header.repeat_command(), wanted);
    header.study.is_quick = true;
    let wanted = wanted.replace(" --scale", " --quick --scale");
    assert_eq!(header.repeat_command(), wanted);
    header.study.is_quick = false;
    (header.study.scale, header.rounds) = (1.0, RoundCount::Adaptive);
    header.study.faults[0].alone = false;
    assert_eq!(header.repeat_command(), "bakeoff run kv-failover --seed 42");
}
