//! Tests the answer of a study: its question, the published figures, the conclusion.

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::record::Record;
use bakeoff_core::study::{DecidingPlace, Metric, Publication, PublishedValue};
use bakeoff_report::{self as report, Extent, Report};
use serde_json::Value;

use super::building::{closed, failing};
use super::{PLAIN, millis, put, repeated};

/// Returns the run of [`repeated`], in which etcd is the faster one, with published throughputs.
fn with_published(etcd: f64, zookeeper: f64) -> Record {
    let mut record = repeated();
    let published = |system: &str, metric: Metric, value: f64| PublishedValue {
        system: system.to_owned(),
        workload: "create".to_owned(),
        load: "steady".to_owned(),
        operation: None,
        fault: None,
        metric,
        value,
        note: None,
    };
    let study = &mut record.header.study;
    study.publication = Some(Publication {
        title: "a table".to_owned(),
        hardware: "16 vCPUs".to_owned(),
        versions: Some("etcd 3.1".to_owned()),
    });
    study.published = vec![
        published("zookeeper", Metric::LatencyP99Ms, 8.0),
        published("etcd", Metric::ThroughputMean, etcd),
        published("zookeeper", Metric::ThroughputMean, zookeeper),
        published("zookeeper", Metric::Errors, 13.0),
    ];
    record
}

fn json(record: &Record) -> Value {
    report::json(&Report::new(record))
}

fn support(json: &Value) -> Vec<&str> {
    json["support"].as_array().unwrap().iter().filter_map(Value::as_str).collect()
}

#[test]
fn published_order_that_holds_is_the_first_support() {
    let record = with_published(3000.0, 1000.0);
    let json = json(&record);
    assert!(json["verdict"].as_str().unwrap().starts_with("etcd sustained"), "{json}");
    let order = "The published order by throughput holds: etcd over zookeeper; the ratio was 3.00, here 1.76.";
    assert_eq!(support(&json)[0], order);
    assert_eq!(json["published"]["order_is_reversed"], false);
    let figures = json["published"]["figures"].as_array().unwrap();
    let names: Vec<_> = figures.iter().map(|one| [&one["system"], &one["quantity"]]).collect();
    let rate = "throughput_mean_per_second";
    assert_eq!(names[..2], [["etcd", rate], ["zookeeper", rate]], "the deciding figure is first");
    assert_eq!(names.len(), 3, "a number of errors depends on the length of the load");
    let ratio = figures[0]["ratio"].as_f64().unwrap();
    assert!((0.16..0.18).contains(&ratio), "{ratio}");
}

#[test]
fn published_order_that_does_not_hold_is_the_heading() {
    let record = with_published(1000.0, 1100.0);
    let json = json(&record);
    let heading = "The published order by throughput does not hold: zookeeper led etcd by 1.10 times, here etcd leads \
                   by 1.76.";
    assert_eq!(json["verdict"], heading);
    assert!(support(&json)[0].starts_with("etcd sustained 1.76 times"), "{json}");
    for text in [
        report::terminal(&Report::new(&record), &PLAIN, Extent::Glance),
        report::markdown(&Report::new(&record)),
        report::html_next_to_record(&Report::new(&record)),
        report::card(&Report::new(&record)),
    ] {
        assert!(text.contains("The published order by throughput does not hold"), "{text}");
    }
}

#[test]
fn published_order_is_open_without_a_proven_difference() {
    let mut record = with_published(1000.0, 900.0);
    for (trial, rate) in record.trials.iter_mut().zip([500, 400, 450, 550, 420, 480]) {
        trial.stages[0].measurement = put(rate, 4, millis(2));
    }
    let json = json(&record);
    let order = support(&json)[0];
    assert!(
        order.starts_with(
            "The published order by throughput is not shown for etcd over zookeeper (1.11 times"
        ),
        "{order}"
    );
    assert_eq!(json["published"]["order_is_reversed"], false);
}

#[test]
fn published_figures_are_on_every_first_screen() {
    let record = with_published(3000.0, 1000.0);
    let of = Report::new(&record);
    let glance = report::terminal(&of, &PLAIN, Extent::Glance);
    assert!(glance.contains("system and figure"), "{glance}");
    assert!(glance.contains(" etcd, puts/s "), "{glance}");
    let conditions = "published: a table: 16 vCPUs; etcd 3.1. Here: all on";
    for text in [
        report::markdown(&of),
        report::html_next_to_record(&of).replace("Published: ", "published: "),
    ] {
        assert!(text.contains("zookeeper, p99"), "{text}");
        assert!(text.contains(conditions), "{text}");
    }
}

#[test]
fn system_that_failed_is_placed_by_all_its_trials() {
    let mut record = with_published(3000.0, 1000.0);
    let mut zookeeper: Vec<_> =
        record.trials.iter_mut().filter(|trial| trial.trial.system == "zookeeper").collect();
    for trial in &mut zookeeper {
        trial.stages[0].measurement = failing(put(60, 4, millis(2)), "put", ErrorKind::Status, 300);
    }
    let of = json(&record);
    let order = support(&of).into_iter().find(|line| line.contains("published order")).unwrap();
    assert!(order.contains("holds: etcd over zookeeper"), "{order}");
    let failed = of["conclusion"].as_array().unwrap().iter().filter_map(Value::as_str);
    let failed: Vec<&str> = failed.filter(|line| line.contains("failed")).collect();
    assert!(failed[0].contains("of zookeeper's operations failed"), "{failed:?}");
    // One trial of it is better than one of the other's.
    let trial = record.trials.iter_mut().find(|trial| trial.trial.system == "etcd").unwrap();
    trial.stages[0].measurement = put(10, 4, millis(2));
    let of = json(&record);
    let order = support(&of).into_iter().find(|line| line.contains("published order")).unwrap();
    assert!(order.contains("is not shown for etcd over zookeeper"), "{order}");
}

#[test]
fn heading_of_one_trial_each_has_the_figures() {
    let mut record = repeated();
    record.header.study.trials = 1;
    record.trials.truncate(2);
    record.header.order.truncate(2);
    let of = json(&record);
    assert_eq!(
        of["verdict"],
        "etcd 488/s, zookeeper 293/s, one trial each: run 3 to compare (--trials 3)."
    );
    assert!(support(&of)[0].starts_with("Measured under create/steady"), "{of}");
    assert_eq!(of["conclusion"].as_array().map(Vec::len), Some(1), "{of}");
}

/// Returns a run with three loads of the same workload; in the last one zookeeper is faster.
fn three_loads() -> Record {
    let mut record = repeated();
    let study = &mut record.header.study;
    let stop = study.loads[0].stop;
    for name in ["second", "third"] {
        study.loads.push(closed(name, &[64], stop));
        study.workloads[0].loads.push(name.to_owned());
    }
    for name in ["second", "third"] {
        for mut trial in record.trials.clone().into_iter().take(6) {
            trial.trial.load = name.to_owned();
            trial.trial.number = record.header.order.len() as u32;
            if name == "third" && trial.trial.system == "zookeeper" {
                let rate = 900 + 10 * u64::from(trial.trial.round);
                trial.stages[0].measurement = put(rate, 4, millis(1));
            }
            record.header.order.push(trial.trial.clone());
            record.trials.push(trial);
        }
    }
    record
}

#[test]
fn question_of_a_study_leads_its_answer() {
    let mut record = three_loads();
    let of = json(&record);
    assert_eq!(of["comparisons"][0]["load"], "steady", "the first one by default");
    assert!(
        of["verdict"].as_str().unwrap().contains("under"),
        "no load is named as the question: {of}"
    );
    record.header.study.question =
        Some(DecidingPlace { workload: "create".to_owned(), load: "third".to_owned() });
    let of = json(&record);
    assert_eq!(of["comparisons"][0]["load"], "third");
    assert!(of["verdict"].as_str().unwrap().starts_with("zookeeper sustained"), "{of}");
    let glance = report::terminal(&Report::new(&record), &PLAIN, Extent::Glance);
    assert!(
        glance.contains("create/steady: etcd 497/s, zookeeper 283/s; etcd > zookeeper"),
        "{glance}"
    );
    let page = report::html_next_to_record(&Report::new(&record));
    let [third, steady] = ["create/third", "create/steady: etcd 497/s"].map(|text| page.find(text));
    assert!(third.is_some() && third < steady, "the question's picture comes first");
    assert!(page.contains("Side questions"), "{page}");
}

#[test]
fn conclusion_names_choice_and_costs() {
    let of = json(&repeated());
    let lines: Vec<&str> =
        of["conclusion"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(lines[0].starts_with("Take etcd for throughput"), "{lines:?}");
    assert!(
        lines[1].starts_with("The servers' CPU time per operation and memory: etcd "),
        "{lines:?}"
    );
    assert!(lines.len() <= 5);
    let gate = json(&super::scaled_sweep());
    assert!(gate["conclusion"].as_array().unwrap().len() <= 5);
}
