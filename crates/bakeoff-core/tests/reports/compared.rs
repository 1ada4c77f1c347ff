//! Judgements, and two runs side by side, of records made by hand.

use bakeoff_core::record::Record;
use bakeoff_core::report::compare::{self, Compared, FailIf, Outcome};
use bakeoff_core::report::{self, Report};
use serde_json::Value;

use super::{PLAIN, millis, put, repeated};

/// What was judged of a quantity of the first pair.
fn judged(record: &Record, quantity: &str) -> Value {
    let json = report::json(&Report::new(record));
    let all =
        json["comparisons"][0]["judgements"].as_array().expect("there are judgements").clone();
    let found = all.into_iter().find(|one| one["quantity"] == quantity);
    found.unwrap_or_else(|| panic!("{quantity} is not judged"))
}

#[test]
fn every_judgement_tells_what_it_was_made_by() {
    let record = repeated();
    let rate = judged(&record, "throughput_mean_per_second");
    assert_eq!((&rate["verdict"], &rate["leading"]), (&"higher".into(), &true.into()));
    assert_eq!((&rate["rounds"], &rate["corrected_for"]), (&3.into(), &5.into()));
    assert!(rate["words"].as_str().unwrap().starts_with("etcd's throughput was 1.76 times"));
    let memory = judged(&record, "server_memory_max_sum_of_nodes_bytes");
    assert_eq!(memory["verdict"], "none-shown");
    assert!(memory["would_have_seen_ratio"].as_f64().unwrap() > 1.0);
    for one in [&rate, &memory] {
        let (low, high) =
            (one["interval"][0].as_f64().unwrap(), one["interval"][1].as_f64().unwrap());
        let ratio = one["ratio"].as_f64().unwrap();
        assert!(low <= ratio && ratio <= high, "{one}");
        assert_eq!(low > 1.0 || high < 1.0, one["verdict"] != "none-shown", "{one}");
    }
}

#[test]
fn a_round_without_a_valid_trial_of_both_is_no_round() {
    let mut record = repeated();
    record.trials[0].outcome = bakeoff_core::record::Outcome::Failed("it broke".to_owned());
    let rate = judged(&record, "throughput_mean_per_second");
    assert_eq!((&rate["verdict"], &rate["rounds"]), (&"too-few".into(), &2.into()));
    assert_eq!(rate["interval"], Value::Null);
}

#[test]
fn a_report_is_the_same_each_time() {
    let record = repeated();
    assert_eq!(report::json(&Report::new(&record)), report::json(&Report::new(&record)));
}

/// The same run with all throughputs of etcd changed.
fn changed(factor: f64) -> Record {
    let mut record = repeated();
    for trial in record.trials.iter_mut().filter(|trial| trial.trial.system == "etcd") {
        let rate = (500.0 + 10.0 * f64::from(trial.trial.round)) * factor;
        trial.stages[0].measurement = put(rate as u64, 4, millis(2));
    }
    record
}

fn asked(base: &Record, new: &Record, condition: &str) -> Outcome {
    let condition: FailIf = condition.parse().unwrap_or_else(|error| panic!("{error}"));
    let compared = Compared::new(base, new, std::slice::from_ref(&condition));
    condition.check_names(&compared).unwrap_or_else(|error| panic!("{error}"));
    compared.outcomes()[0].1.clone()
}

#[test]
fn a_condition_is_proven_only_beyond_its_interval() {
    let (base, new) = (repeated(), changed(0.7));
    let proven = |condition| matches!(asked(&base, &new, condition), Outcome::Proven(_));
    let unclear = |condition| matches!(asked(&base, &new, condition), Outcome::CannotTell(_));
    assert!(proven("throughput < -5%"));
    assert!(proven("create/steady etcd: throughput < -15%"));
    assert!(unclear("throughput < -30%"), "the interval holds the limit");
    assert_eq!(asked(&base, &new, "throughput < -60%"), Outcome::HoldsNot);
    assert_eq!(asked(&base, &new, "zookeeper: throughput < -20%"), Outcome::HoldsNot);
    assert_eq!(asked(&base, &new, "throughput > +20%"), Outcome::HoldsNot);
    assert_eq!(asked(&base, &new, "errors > 1%"), Outcome::HoldsNot);
    let mut short = new.clone();
    short.trials.truncate(4);
    let unclear = asked(&base, &short, "etcd: throughput < -5%");
    let Outcome::CannotTell(why) = unclear else { panic!("{unclear:?}") };
    assert_eq!(why, ["create/steady etcd: too few valid trials: 3 and 2"]);
}

#[test]
fn what_is_not_the_same_in_both_runs_is_said_above_the_table() {
    let base = repeated();
    let mut new = changed(1.0);
    new.header.environment.cpus = 4;
    new.header.study.workloads[0].value_size = 256;
    new.header.systems[0].version = Some("3.6.2".to_owned());
    new.header.study.systems[1].name = "consul".to_owned();
    let compared = Compared::new(&base, &new, &[]);
    let text = compare::terminal(&compared, &PLAIN);
    let above = text.split("corrected for").next().unwrap();
    for expected in [
        "! the machine differs: cpus 2 and 4",
        "! workload create differs: value_size 1024 and 256",
        "! system etcd differs: version 3.6.1 and 3.6.2",
        "! system zookeeper is only in the base run",
        "! system consul is only in the new run",
    ] {
        assert!(above.contains(expected), "{expected}\n{text}");
    }
    let same = Compared::new(&base, &base, &[]);
    assert_eq!(compare::json(&same)["differences"].as_array().map(Vec::len), Some(0));
    for text in [text, compare::markdown(&compared)] {
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
