//! Tests reports on loads that search for the highest rate that keeps an objective.

use std::time::Duration;

use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::{Record, RecordLine, write_line};
use bakeoff_core::search::{FoundRate, TriedRate};
use bakeoff_core::study::{Arrivals, Find, Load, Operation, Stop};
use bakeoff_report::{self as report, Report};

use super::PLAIN;
use super::building::{Trials as _, closed, measured, page_of, record, study, workload};
use super::full;

fn tried(rate: f64, confirming: bool, broken_by: &[&str]) -> TriedRate {
    let broken_by = broken_by.iter().map(|&why| why.to_owned()).collect();
    TriedRate { rate, confirming, broken_by, void: false, disturbed_by: Vec::new() }
}

fn at(rate: f64) -> Measurement {
    measured("request", rate as u64, Duration::from_secs(2), Duration::from_millis(2))
}

/// Returns a record of two systems under a search, with these results of each trial.
fn searched(results: [&[FoundRate]; 2]) -> Record {
    searched_next_to(results, None)
}

/// Adds a load at a fixed rate, with these response times.
fn searched_next_to(results: [&[FoundRate]; 2], adjacent: Option<(f64, [Duration; 2])>) -> Record {
    let load = Load {
        arrivals: Arrivals::Constant { rate: 100.0 },
        find: Some(Find { objective: vec!["p99 < 50ms".into(), "errors < 1%".into()] }),
        ..closed("limit", &[64], Stop::After(Duration::from_secs(2)))
    };
    let pages = workload("pages", &[(Operation::Request, 1)], "limit");
    let mut study = study(&["old", "new"], pages, load, results[0].len() as u32);
    if let Some((rate, _)) = adjacent {
        study.workloads[0].loads.push("fixed".to_owned());
        let arrivals = Arrivals::Constant { rate };
        let load = closed("fixed", &[64], Stop::After(Duration::from_secs(2)));
        study.loads.push(Load { arrivals, ..load });
    }
    let mut record = record(study);
    let mut rounds = [0, 0];
    for planned in record.header.order.clone() {
        let name = planned.system.as_str();
        let place = usize::from(name == "new");
        if let Some((rate, took)) = adjacent.filter(|_| planned.load == "fixed") {
            let window = Duration::from_secs(2);
            record.run(name, vec![(64, measured("request", rate as u64, window, took[place]))]);
        } else {
            let (results, round) = (results[place], rounds[place]);
            rounds[place] += 1;
            let tries = match results[round] {
                FoundRate::Rate(rate) => vec![
                    tried(100.0, false, &[]),
                    tried(rate * 1.1, false, &["p99 is 810 ms"]),
                    tried(rate, true, &[]),
                ],
                FoundRate::NoLimit(rate) => vec![tried(rate, false, &[])],
                FoundRate::Nothing(rate)
                | FoundRate::Unsteady(rate)
                | FoundRate::OutOfTime(rate) => {
                    vec![tried(rate, false, &["p99 is 60.0 ms"])]
                }
            };
            let stages = tries.iter().map(|tried| (64, at(tried.rate))).collect();
            let trial = record.run(name, stages);
            trial.found = Some(results[round]);
            for (stage, tried) in trial.stages.iter_mut().zip(tries) {
                stage.tried = Some(tried);
            }
        }
    }
    record
}

fn rates(rates: [f64; 3]) -> [FoundRate; 3] {
    rates.map(FoundRate::Rate)
}

#[test]
fn systems_are_compared_by_the_highest_rate_alone() {
    let record = searched([&rates([400.0, 410.0, 405.0]), &rates([800.0, 790.0, 810.0])]);
    let report = Report::new(&record);
    let sentence = report.sentence();
    let wording = "times old's highest rate that keeps p99 < 50ms and errors < 1% under pages/limit (open load; 95 %";
    assert!(sentence.starts_with("new sustained 1.98 "), "{sentence}");
    assert!(sentence.contains(wording) && sentence.contains("medians 800 and 405"), "{sentence}");
    let json = report::json(&report);
    let comparison = &json["comparisons"][0];
    let judged = comparison["judgements"].as_array().unwrap();
    let names: Vec<&str> = judged.iter().filter_map(|one| one["quantity"].as_str()).collect();
    assert_eq!(names[0], "highest_rate_per_second");
    assert!(judged[0]["leading"] == true, "{}", judged[0]);
    let of_its_own_rate = |name: &&str| name.contains("throughput") || name.contains("response");
    assert!(!names.iter().any(of_its_own_rate), "{names:?}");
    let trial = &comparison["systems"][0]["trials"][0];
    assert_eq!(trial["figures"]["highest_rate_per_second"], 400.0);
    assert_eq!(trial["figures"]["seconds"], 2.0, "of the last try only");
    assert_eq!(trial["search"]["tries"].as_array().unwrap().len(), 3);
    assert_eq!(trial["search"]["tries"][1]["broken_by"][0], "p99 is 810 ms");
}

#[test]
fn highest_rate_has_a_row_and_a_column_and_its_tries_a_table() {
    let record = searched([&rates([400.0, 410.0, 405.0]), &rates([800.0, 790.0, 810.0])]);
    let report = Report::new(&record);
    let row = "highest rate that keeps p99 < 50ms and errors < 1% /s";
    let text = full(&report, &PLAIN);
    let line = text.lines().find(|line| line.contains(row)).expect("a row");
    assert_eq!(line.split_whitespace().rev().take(2).collect::<Vec<_>>(), ["800", "405"]);
    for words in ["rates tried in each system's first valid trial", "broken", "kept, again"] {
        assert!(text.contains(words), "no `{words}` in\n{text}");
    }
    assert!(report::markdown(&report).contains("### rates tried in each system"));
    assert!(page_of(&record).contains("highest rate that keeps p99 &lt; 50ms"));
    let csv = report::csv(&report);
    let column =
        csv.lines().next().unwrap().split(',').position(|one| one == "highest_rate_per_second");
    let column = column.expect("a column");
    let values: Vec<&str> =
        csv.lines().skip(1).map(|line| line.split(',').nth(column).unwrap()).collect();
    assert!(values.contains(&"400") && values.contains(&"810"), "{values:?}");
}

#[test]
fn system_without_a_rate_is_not_ranked_and_one_such_trial_forbids_a_ratio() {
    let none = [FoundRate::Nothing(10.0); 3];
    let report = Report::new(&searched([&none, &rates([800.0, 790.0, 810.0])]));
    let sentence = report.sentence();
    assert!(sentence.contains("old kept its objective at no rate under pages/limit"), "{sentence}");
    assert!(sentence.starts_with("new had 800/s as the highest rate that keeps"), "{sentence}");
    let text = full(&report, &PLAIN);
    assert!(text.contains("at no rate, down to 10/s"), "{text}");

    let some = [FoundRate::Rate(400.0), FoundRate::Nothing(10.0), FoundRate::Rate(405.0)];
    let report = Report::new(&searched([&some, &rates([800.0, 790.0, 810.0])]));
    let text = full(&report, &PLAIN);
    assert!(text.contains("old had a trial in which no rate kept the objective"), "{text}");
    assert!(!report.sentence().contains("sustained"), "{}", report.sentence());
}

#[test]
fn rate_that_another_load_contradicts_is_reported_and_not_ranked() {
    let found = || [rates([114.0, 120.0, 110.0]), rates([800.0, 790.0, 810.0])];
    let adjacent = |rate, took: [u64; 2]| {
        let [old, new] = found();
        let took = took.map(Duration::from_micros);
        Report::new(&searched_next_to([&old, &new], Some((rate, took))))
    };
    // `old` keeps the objective at this rate, `new` does not.
    let report = adjacent(1500.0, [2000, 40_000]);
    let wording = "its search found 114/s, but it kept the same objective at 1,500/s in 3 of 3 trials \
                under fixed";
    let sentence = report.sentence();
    assert!(
        sentence.contains(&format!("old's highest rate is not ranked: {wording}")),
        "{sentence}"
    );
    assert!(sentence.contains("new had 800/s as the highest rate that keeps"), "{sentence}");
    let text = full(&report, &PLAIN);
    assert!(text.contains(&format!("old's highest rate under pages/limit is too low: {wording}")));
    // A lower rate, or one that was not kept, does not contradict.
    for report in [adjacent(100.0, [2000, 2000]), adjacent(1500.0, [40_000, 40_000])] {
        let sentence = report.sentence();
        assert!(!sentence.contains("not ranked"), "{sentence}");
    }
}

#[test]
fn search_survives_writing_and_reading() {
    let record = searched([&rates([400.0, 410.0, 405.0]), &[FoundRate::NoLimit(900.0); 3]]);
    let line = write_line(&RecordLine::Trial(record.trials[0].clone()));
    assert!(
        line.contains(r#""found":{"found":"#) && line.contains(r#""tried":{"rate":"#),
        "{line}"
    );
    assert_eq!(RecordLine::parse(&line).unwrap(), RecordLine::Trial(record.trials[0].clone()));
}
