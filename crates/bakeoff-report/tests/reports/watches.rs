//! Tests how a report shows watches: the answer, figures next to the share of versions, guarantees, faults.

use std::path::Path;
use std::time::Duration;

use bakeoff_core::check::{CheckName, Verdict};
use bakeoff_core::histogram::Latencies;
use bakeoff_core::memory::MemoryGrowth;
use bakeoff_core::record::{Check, FaultHit, Injection, Record, StageRecord};
use bakeoff_core::study::fault::Pause;
use bakeoff_core::study::{
    Arrivals, Fault, FaultAction, FaultNode, FaultTarget, Load, Operation, Stop, Watchers,
};
use bakeoff_core::watch::{CatchUp, GuaranteeState, WatchFigures, WatchGuarantee, WatchRange};
use bakeoff_report::{Extent, Report, card, csv, json, markdown, terminal};
use serde_json::Value;

use super::building::{self, Trials as _, audit, closed, measured, page_of, study, workload};
use super::{NARROW, after_title, full, millis};

/// Writes of each trial.
const WRITES: u64 = 1500;
/// Promises of etcd.
const ALL: &[WatchGuarantee] = WatchGuarantee::ALL;
/// Promises of a system that may skip versions.
const FEW: &[WatchGuarantee] = &[WatchGuarantee::Ordered, WatchGuarantee::Reliable];

/// Returns a record of 1,000 watchers on these systems, in five trials each: soonest time to know in milliseconds, share
/// of versions, guarantees.
fn record_of(systems: &[(&str, u64, f64, &[WatchGuarantee])]) -> Record {
    let load = Load {
        arrivals: Arrivals::Constant { rate: 50.0 },
        ..closed("steady", &[16], Stop::After(Duration::from_secs(30)))
    };
    let mut work = workload("prefix", &[(Operation::Put, 1)], "steady");
    work.watchers = Some(Box::new(Watchers {
        count: 1000,
        of: WatchRange::Prefix,
        connections: 30,
        ..Watchers::default()
    }));
    let names: Vec<&str> = systems.iter().map(|of| of.0).collect();
    let mut record = building::record(study(&names, work, load, 5));
    for planned in record.header.order.clone() {
        let of = systems.iter().find(|of| of.0 == planned.system).expect("a planned system");
        let noise = Duration::from_micros(100 * u64::from(planned.round));
        let (soonest, share, guarantees) = (millis(of.1) + noise, of.2, of.3);
        let mut puts = measured("put", 50, Duration::from_secs(30), soonest / 2);
        puts.watch = Some(Box::new(building::watched(WRITES, soonest, share, guarantees)));
        let trial = record.run(&planned.system, vec![(16, puts)]);
        trial.checks.push(Check::new(CheckName::Watches, Verdict::Passed));
    }
    record
}

/// Returns a record of three systems: one is fast and complete, one slow, one skips versions.
pub(super) fn watched() -> Record {
    let mut record =
        record_of(&[("etcd", 3, 1.0, ALL), ("zookeeper", 9, 1.0, FEW), ("consul", 12, 0.38, FEW)]);
    for watch in all(&mut record, "consul") {
        watch.requests = watch.counts.events;
    }
    record
}

/// Returns the figures of each stage of a system.
fn all<'a>(record: &'a mut Record, system: &str) -> impl Iterator<Item = &'a mut WatchFigures> {
    let own = record.trials.iter_mut().filter(move |trial| trial.trial.system == system);
    own.flat_map(|trial| &mut trial.stages)
        .filter_map(|stage| stage.measurement.watch.as_deref_mut())
}

/// Sets the state of a guarantee.
fn set(watch: &mut WatchFigures, guarantee: WatchGuarantee, state: GuaranteeState) {
    let outcome = watch.guarantees.iter_mut().find(|one| one.guarantee == guarantee);
    outcome.expect("a judged guarantee").state = state;
}

/// Returns a record in which etcd lost events in its first trial.
fn broken() -> Record {
    let mut record = watched();
    let watch = all(&mut record, "etcd").next().expect("a trial");
    set(watch, WatchGuarantee::Reliable, GuaranteeState::Broken(212));
    watch.counts.lost = 212;
    watch.counts.examples = vec!["watcher 3: version 5 of key 1 never came <b>".to_owned()];
    let failed = Verdict::Failed("not reliable (212 times)".to_owned());
    record.trials.iter_mut().find(|trial| trial.trial.system == "etcd").expect("a trial").checks =
        vec![Check::new(CheckName::Watches, failed)];
    record
}

fn verdict(record: &Record) -> String {
    json(&Report::new(record))["verdict"].as_str().expect("a text").to_owned()
}

/// Returns a text on one line.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn heading_says_how_soon_watchers_knew_and_what_they_got() {
    let record = record_of(&[("etcd", 3, 1.0, ALL), ("zookeeper", 9, 1.0, FEW)]);
    let expected = "etcd told 1,000 watchers of a write within 32.7 ms (p99), zookeeper within 94.1 ms; \
                    both delivered every version.";
    assert_eq!(verdict(&record), expected);
    let report = json(&Report::new(&record));
    let judged = report["comparisons"][0]["judgements"].as_array().expect("judgements");
    let leading: Vec<&Value> = judged.iter().filter(|one| one["leading"] == true).collect();
    assert_eq!(leading.len(), 1, "{leading:?}");
    assert_eq!(leading[0]["quantity"], "watch_known_p99_ms");
    assert_eq!(report["comparisons"][0]["best"], "etcd");
    let share = ", consul 38.0 % of them, the last one always.";
    assert!(verdict(&watched()).ends_with(share), "{}", verdict(&watched()));
    // Nothing is said of the last version if it did not come.
    let mut record = watched();
    all(&mut record, "consul").for_each(|watch| watch.counts.undelivered = 1);
    assert!(verdict(&record).ends_with(", consul 38.0 % of them."), "{}", verdict(&record));
}

#[test]
fn systems_without_a_proven_difference_are_not_ordered() {
    let record = record_of(&[("etcd", 9, 1.0, ALL), ("zookeeper", 9, 1.0, FEW)]);
    let verdict = verdict(&record);
    let none =
        "No difference shown between etcd and zookeeper in p99 time until watchers know a write";
    assert!(verdict.starts_with(none), "{verdict}");
}

#[test]
fn difference_within_the_generators_lag_is_not_claimed() {
    let mut record = record_of(&[("etcd", 8, 1.0, ALL), ("zookeeper", 9, 1.0, FEW)]);
    let told = |record: &Record| verdict(record).starts_with("etcd told");
    assert!(told(&record), "{}", verdict(&record));
    for watch in all(&mut record, "zookeeper") {
        watch.receive_lag.record_many(millis(50), 10_000);
    }
    assert!(!told(&record), "{}", verdict(&record));
}

#[test]
fn single_system_says_how_soon_its_watchers_knew() {
    let verdict = verdict(&record_of(&[("etcd", 3, 1.0, ALL)]));
    let expected =
        "etcd told 1,000 watchers of a write within 32.7 ms (p99); every version was delivered.";
    assert_eq!(verdict, expected);
}

#[test]
fn broken_promise_leads_every_form_and_is_never_ranked() {
    let record = broken();
    let report = Report::new(&record);
    let broken =
        "etcd broke a guarantee of its watches: 212 of 7,500,000 events were lost (reliable)";
    let forms = [
        ("glance", terminal(&report, &NARROW, Extent::Glance)),
        ("terminal", full(&report, &NARROW)),
        ("markdown", markdown(&report).replace('\\', "")),
        ("html", page_of(&record)),
        ("image", card(&report).replace("</text>", " ")),
        ("json", json(&report)["verdict"].to_string()),
    ];
    for (form, text) in forms {
        let mut text = text;
        // The image has its lines in elements.
        while let (Some(from), true) = (text.find("<text"), form == "image") {
            let to = from + text[from..].find('>').expect("the end of an element");
            text.replace_range(from..=to, "");
        }
        let text = plain(&text);
        let place = text.find(broken).unwrap_or_else(|| panic!("{form} lacks it:\n{text}"));
        let told = text.find("told 1,000 watchers");
        assert!(told.is_none_or(|told| place < told), "{form}:\n{text}");
    }
    assert!(!page_of(&record).contains("never came <b>"), "an example is escaped");
    let json = json(&report);
    assert!(json["comparisons"][0]["best"] != "etcd", "{json}");
    let etcd = &json["comparisons"][0]["systems"][0];
    let reliable = |of: &Value| {
        let all = of["watch_guarantees"].as_array().expect("guarantees").clone();
        all.into_iter().find(|one| one["guarantee"] == "reliable").expect("it was judged")
    };
    assert_eq!(reliable(etcd)["state"]["broken"], 212);
    assert_eq!(reliable(&etcd["trials"][1])["state"], "kept");
}

#[test]
fn violation_that_nothing_excludes_is_shown_and_breaks_nothing() {
    let mut record = watched();
    for watch in all(&mut record, "zookeeper") {
        set(watch, WatchGuarantee::Unique, GuaranteeState::NotPromised(2));
        watch.counts.repeated = 2;
    }
    let report = Report::new(&record);
    assert_eq!(json(&report)["broken_guarantees"], serde_json::json!([]));
    let text = full(&report, &NARROW);
    let row = text.lines().find(|line| line.contains("unique: no event twice")).expect("a row");
    assert!(row.contains("kept") && row.contains("not promised (10)"), "{row}");
}

#[test]
fn guarantees_are_the_worst_of_loads_and_injections() {
    let mut record = watched();
    with_fault(&mut record);
    let trial = record.trials.iter_mut().find(|one| one.trial.system == "etcd").expect("a trial");
    let watch = trial.injections[0].stage.measurement.watch.as_deref_mut().expect("watchers");
    set(watch, WatchGuarantee::Resumable, GuaranteeState::Broken(7));
    let text = full(&Report::new(&record), &NARROW);
    let row = text.lines().find(|line| line.contains("resumable: ")).expect("a row");
    assert!(row.contains("BROKEN (7)"), "{row}");
    assert!(verdict(&record).contains("7 events were lost on a resume (resumable)"));
}

#[test]
fn figures_stand_next_to_the_share_of_versions() {
    let report = Report::new(&watched());
    let glance = terminal(&report, &NARROW, Extent::Glance);
    assert!(glance.lines().count() <= 21, "{glance}");
    assert!(glance.lines().all(|line| line.chars().count() <= 80), "{glance}");
    assert!(!after_title(&glance).starts_with("Not decided"), "{glance}");
    let head = glance.lines().find(|line| line.starts_with(" 1,000 watchers")).expect("a block");
    assert!(head.contains("versions") && head.contains("guarantees"), "{head}");
    let consul = glance.lines().rfind(|line| line.starts_with(" consul"));
    assert!(consul.is_some_and(|row| row.contains("38.0 %") && row.contains("kept")), "{glance}");
    let text = full(&report, &NARROW);
    for row in
        ["versions observed", "time to know p99", "write to last watcher p99", "requests per event"]
    {
        assert!(text.contains(row), "no {row}:\n{text}");
    }
    assert!(plain(&text).contains("1,000 watchers of all keys on 30 connections"), "{text}");
    assert!(plain(&text).contains("watches: 17,850,000 events, guarantees kept"), "{text}");
}

#[test]
fn figures_are_in_csv_and_json() {
    let record = watched();
    let report = Report::new(&record);
    let head = csv(&report).lines().next().expect("a header").to_owned();
    for name in ["watch_known_p99_ms", "watch_delivered_share", "watch_last_p99_ms", "watch_events"]
    {
        assert!(head.split(',').any(|column| column == name), "{name}: {head}");
    }
    let json = json(&report);
    let consul = &json["comparisons"][0]["systems"][2];
    assert_eq!(consul["figures"]["watch_delivered_share"]["median"], 0.38);
    assert_eq!(consul["trials"][0]["measurement"]["watch"]["watchers"], 1000);
}

/// Adds a fault with an injection to each trial: watchers were silent for 1.2 s and got an event twice.
fn with_fault(record: &mut Record) {
    record.header.study.faults = vec![Fault {
        name: "leader-paused".into(),
        action: FaultAction::Pause(Pause { lasts: Duration::from_secs(3) }),
        target: FaultTarget { part: None, node: FaultNode::Leader },
        at: Duration::from_secs(2),
        systems: Vec::new(),
        alone: true,
    }];
    for trial in &mut record.trials {
        let mut measurement = measured("put", 50, Duration::from_secs(30), millis(2));
        let mut watch = building::watched(WRITES, millis(3), 1.0, ALL);
        watch.longest_silence = millis(1200);
        watch.counts.resumes = 30;
        if trial.trial.system == "zookeeper" {
            watch.counts.repeated = 34;
            set(&mut watch, WatchGuarantee::Unique, GuaranteeState::NotPromised(34));
        }
        measurement.watch = Some(Box::new(watch));
        let hit =
            FaultHit { nodes: vec!["n-1".into()], from: 2.0, to: Some(5.0), ..FaultHit::default() };
        trial.injections = vec![Injection {
            fault: "leader-paused".into(),
            repeat: 1,
            stage: StageRecord {
                clients: 16,
                began: 40.0,
                measured_from: Some(41.0),
                measurement,
                tried: None,
            },
            hits: vec![hit],
            unproven: None,
            stalls_explained: None,
            audit: Some(audit("after injection 1 of leader-paused")),
        }];
    }
}

/// Returns the text of a report in which 800 of etcd's 1,000 watchers, or all, caught up with old events.
fn caught_up(all_did: bool) -> String {
    let mut record = watched();
    for watch in all(&mut record, "etcd") {
        let count = if all_did { 1000 } else { 800 };
        let mut took = Latencies::default();
        took.record_many(millis(40), count - 1);
        took.record_many(millis(250), 1);
        let catch_up = CatchUp { watchers: 1000, events: 50_000, took, lasted: millis(250) };
        watch.catch_up = Some(Box::new(catch_up));
    }
    plain(&full(&Report::new(&record), &NARROW))
}

#[test]
fn catch_up_is_a_bound_if_a_watcher_never_caught_up() {
    for (all_did, sign) in [(true, ""), (false, "≥ ")] {
        let text = caught_up(all_did);
        for row in [
            format!("time to catch up p50 {sign}40.0 ms"),
            format!("time to catch up slowest {sign}250 ms"),
            "old events /s 200,000".to_owned(),
        ] {
            assert!(text.contains(&row), "no `{row}` in {text}");
        }
    }
}

#[test]
fn memory_of_a_watcher_is_no_number_within_the_variation() {
    let mut record = watched();
    for (system, after_bytes) in [("etcd", 60_000_000), ("zookeeper", 51_500_000)] {
        let (before_bytes, variation_bytes) = (50_000_000, 2_000_000);
        for watch in all(&mut record, system) {
            let memory = MemoryGrowth { before_bytes, after_bytes, variation_bytes };
            watch.server_memory = Some(memory);
        }
    }
    let text = plain(&full(&Report::new(&record), &NARROW));
    assert!(text.contains("server memory per watcher 9.77 KiB too few"), "{text}");
}

#[test]
fn faults_show_what_watchers_met() {
    let mut record = watched();
    with_fault(&mut record);
    let report = Report::new(&record);
    let text = plain(&report.answer().join(" "));
    let etcd = "etcd's watchers had no event for up to 1.20 s and lost none";
    let zookeeper = "zookeeper's watchers had no event for up to 1.20 s, got 170 events twice";
    assert!(text.contains(etcd) && text.contains(zookeeper), "{text}");
    let table = full(&report, &NARROW);
    for row in ["watchers: longest silence", "watchers resumed", "watchers: events repeated"] {
        assert!(table.contains(row), "no {row}:\n{table}");
    }
    let json = json(&report);
    let injection = &json["comparisons"][0]["faults"][0]["systems"][1]["injections"][0];
    assert_eq!(injection["watch"]["counts"]["repeated"], 34);
    write("faulted", &record);
}

#[test]
fn reports_without_watchers_show_nothing_of_them() {
    let record = super::repeated();
    let report = Report::new(&record);
    let head = csv(&report).lines().next().expect("a header").to_owned();
    assert!(!head.contains("watch"), "{head}");
    let texts = [
        full(&report, &NARROW),
        markdown(&report),
        json(&report)["comparisons"][0]["systems"].to_string(),
    ];
    for text in texts {
        assert!(!text.contains("watcher"), "{text}");
    }
}

#[test]
fn page_draws_the_way_of_a_write() {
    for (name, record) in [("watched", watched()), ("broken-watches", broken())] {
        let page = page_of(&record);
        for part in
            ["<section id=\"watches\"", "way-bar", "last watcher (p99)", "100 % of versions"]
        {
            assert!(page.contains(part), "{name} lacks {part}");
        }
        assert!(!page.contains("NaN") && !page.contains("style=\""), "{name}");
        write(name, &record);
    }
}

/// Writes a page for a look in a browser.
fn write(name: &str, record: &Record) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
    std::fs::write(&path, page_of(record)).expect("a written page");
    std::fs::write(path.with_extension("svg"), card(&Report::new(record)))
        .expect("a written image");
}
