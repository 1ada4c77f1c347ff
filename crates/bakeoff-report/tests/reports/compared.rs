//! Tests judgements, comparisons of two runs, and gates.

use std::time::Duration;

use bakeoff_core::check::{CheckName, Verdict};
use bakeoff_core::memory::{MemoryOf, NodesMemory};
use bakeoff_core::record::{Check, Record};
use bakeoff_core::study::{Operation, Payload, Stop, ValueSizes};
use bakeoff_core::trial_samples::MetricsSubject;
use bakeoff_report::compare::{FailIf, FailIfOutcome, RunComparison, Trend, TrendRun};
use bakeoff_report::comparison;
use bakeoff_report::{self as report, Report};
use serde_json::Value;

use super::building::{Trials as _, closed, record, study, workload};
use super::{PLAIN, millis, put, repeated};

/// Returns the first pair's judgement of a quantity.
fn judged(record: &Record, quantity: &str) -> Value {
    let json = report::json(&Report::new(record));
    let all =
        json["comparisons"][0]["judgements"].as_array().expect("there are judgements").clone();
    let found = all.into_iter().find(|one| one["quantity"] == quantity);
    found.unwrap_or_else(|| panic!("{quantity} is not judged"))
}

#[test]
fn judgements_have_their_evidence() {
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
fn round_without_valid_trials_of_both_is_not_counted() {
    let mut record = repeated();
    record.trials[0].outcome = bakeoff_core::record::TrialOutcome::Failed("it broke".to_owned());
    let rate = judged(&record, "throughput_mean_per_second");
    assert_eq!((&rate["verdict"], &rate["rounds"]), (&"too-few".into(), &2.into()));
    assert_eq!(rate["interval"], Value::Null);
}

#[test]
fn memory_of_machines_is_not_compared_with_that_of_processes() {
    const MEMORY: &str = "server_memory_max_sum_of_nodes_bytes";
    let mut record = repeated();
    let set_source = |record: &mut Record, system: &str, of: MetricsSubject| {
        let trials = record.trials.iter_mut().filter(|trial| trial.trial.system == system);
        let nodes = trials.flat_map(|trial| &mut trial.usage);
        nodes.filter(|node| node.name != "generator").for_each(|node| node.metrics_of = Some(of));
    };
    let systems = [0, 1].map(|place: usize| record.header.study.systems[place].name.clone());
    set_source(&mut record, &systems[0], MetricsSubject::Machine);
    let memory = judged(&record, MEMORY);
    assert_eq!(memory["verdict"], "not-judged");
    let words = memory["words"].as_str().unwrap();
    assert!(words.contains("'s figure covers whole machines, "), "{words}");
    set_source(&mut record, &systems[1], MetricsSubject::Machine);
    assert_eq!(judged(&record, MEMORY)["verdict"], "none-shown");
}

#[test]
fn figures_of_only_some_nodes_are_not_shown() {
    const CPU: &str = "server_cpu_mean_sum_of_nodes_percent";
    let mut record = repeated();
    let cpu = |record: &Record| {
        let json = report::json(&Report::new(record));
        json["comparisons"][0]["systems"][0]["trials"][0]["figures"][CPU].clone()
    };
    assert!(cpu(&record).is_number(), "{}", cpu(&record));
    for trial in &mut record.trials {
        let verdict = Verdict::NotChecked("metrics of n could not be read: gone".to_owned());
        trial.checks.push(Check::new(CheckName::Metrics, verdict));
    }
    assert_eq!(cpu(&record), Value::Null);
    let json = report::json(&Report::new(&record));
    let findings = json["comparisons"][0]["findings"].to_string();
    assert!(findings.contains("metrics of n could not be read: gone ("), "{findings}");
}

#[test]
fn report_is_deterministic() {
    let record = repeated();
    assert_eq!(report::json(&Report::new(&record)), report::json(&Report::new(&record)));
}

/// Returns the run with all throughputs of etcd multiplied by `factor`.
fn changed(factor: f64) -> Record {
    let mut record = repeated();
    for trial in record.trials.iter_mut().filter(|trial| trial.trial.system == "etcd") {
        let rate = (500.0 + 10.0 * f64::from(trial.trial.round)) * factor;
        trial.stages[0].measurement = put(rate as u64, 4, millis(2));
    }
    record
}

/// Returns runs of the study of [`repeated`], each with slightly different figures.
fn history(runs: u32) -> Vec<Record> {
    let run = |nth: u32| {
        let mut record = changed(1.0 + 0.004 * (f64::from(nth % 5) - 2.0));
        record.header.started = format!("2026-10-{:02}T08:00:00Z", nth + 1);
        record
    };
    (0..runs).map(run).collect()
}

#[test]
fn trend_follows_private_memory_where_it_is_known() {
    let followed = |is_read: bool| -> Vec<String> {
        let mut runs = history(6);
        for trial in runs.iter_mut().flat_map(|run| &mut run.trials) {
            trial.memory = Some(NodesMemory {
                of: MemoryOf::Proportional,
                sum_max_bytes: 9 << 20,
                node_max_bytes: 3 << 20,
                moments: 2,
                private_sum_max_bytes: is_read.then_some(5 << 20),
            });
        }
        let of_run = |(nth, run): (usize, &Record)| TrendRun::new(nth.to_string(), run, None);
        let runs = runs.iter().enumerate().map(of_run).collect();
        let trend = report::trend::json(&Trend::new("x", runs, Vec::new()).unwrap());
        let all = trend["series"].as_array().unwrap();
        let etcd = all.iter().filter(|one| one["system"] == "etcd");
        let names = etcd.map(|one| one["quantity"].as_str().unwrap().to_owned());
        names.filter(|name| name.contains("memory")).collect()
    };
    assert_eq!(followed(true), ["server_memory_private_max_sum_of_nodes_bytes"]);
    assert_eq!(followed(false), ["server_memory_max_sum_of_nodes_bytes"]);
}

/// Returns the run with a later start.
fn later(mut record: Record) -> Record {
    record.header.started = "2026-11-30T08:00:00Z".to_owned();
    record
}

fn asked(base: &Record, new: &Record, known: &[Record], condition: &str) -> FailIfOutcome {
    asked_all(base, new, known, &[condition]).remove(0)
}

fn asked_all(
    base: &Record,
    new: &Record,
    known: &[Record],
    conditions: &[&str],
) -> Vec<FailIfOutcome> {
    let read = |text: &&str| text.parse().unwrap_or_else(|error| panic!("{error}"));
    let conditions: Vec<FailIf> = conditions.iter().map(read).collect();
    let compared = RunComparison::new(base, new, known, &conditions);
    for condition in &conditions {
        condition.check_names(&compared).unwrap_or_else(|error| panic!("{error}"));
    }
    compared.outcomes().iter().map(|(_, outcome)| outcome.clone()).collect()
}

#[test]
fn condition_is_proven_only_outside_the_interval() {
    let (base, new, known) = (repeated(), later(changed(0.7)), history(8));
    let proven = ["throughput < -5%", "create/steady etcd: throughput < -15%"];
    let unclear = ["throughput < -30%"];
    let holds_not =
        ["throughput < -60%", "zookeeper: throughput < -20%", "throughput > +20%", "errors > 1%"];
    let all = [&proven[..], &unclear, &holds_not].concat();
    for (condition, outcome) in all.iter().zip(asked_all(&base, &new, &known, &all)) {
        let expected = match outcome {
            FailIfOutcome::Proven(_) => proven.contains(condition),
            FailIfOutcome::CannotTell(_) => unclear.contains(condition),
            FailIfOutcome::HoldsNot => holds_not.contains(condition),
        };
        assert!(expected, "{condition}: {outcome:?}");
    }
    let mut short = new.clone();
    short.trials.truncate(4);
    let unclear = asked(&base, &short, &known, "etcd: throughput < -5%");
    let FailIfOutcome::CannotTell(why) = unclear else { panic!("{unclear:?}") };
    assert_eq!(why, ["create/steady etcd: too few valid trials: 3 and 2"]);
}

#[test]
fn nothing_is_proven_between_two_runs_alone() {
    let (base, new) = (repeated(), later(changed(0.5)));
    let why =
        |known: &[Record], new: &Record| match asked(&base, new, known, "etcd: throughput < -5%") {
            FailIfOutcome::CannotTell(why) => why.join("; "),
            other => panic!("{other:?}"),
        };
    let alone = why(&[], &new);
    assert!(alone.contains("but 1 is known; `bakeoff gate` runs both"), "{alone}");
    assert!(alone.ends_with("or run the base's study 4 times more"), "{alone}");
    assert!(why(&history(3), &new).ends_with("once more"));
    // Copies, and runs of another study or machine, do not count.
    let copies = vec![history(1)[0].clone(); 8];
    assert!(why(&copies, &new).contains("2 are known"));
    let mut others = history(8);
    others.iter_mut().for_each(|one| {
        one.header.study.workloads[0].payload = Payload::Values(ValueSizes::Fixed(1))
    });
    assert!(why(&others, &new).contains("1 is known"));
    let mut others = history(8);
    others.iter_mut().for_each(|one| one.header.environment.kernel = "another".to_owned());
    assert!(why(&others, &new).contains("1 is known"));
    let mut elsewhere = new.clone();
    elsewhere.header.environment.cpus = 64;
    let moved = why(&history(8), &elsewhere);
    assert!(moved.contains("the number of CPUs differs between the two runs"), "{moved}");
    // The change is shown without a verdict.
    let compared = RunComparison::new(&base, &new, &[], &[]);
    let json = comparison::json(&compared);
    let change = &json["comparisons"][0]["changes"][0];
    assert_eq!((&change["verdict"], &change["interval"]), (&"not-judged".into(), &Value::Null));
    assert!(change["change"].as_f64().is_some_and(|change| change < -0.4), "{change}");
    assert!(
        comparison::terminal(&compared, &PLAIN)
            .contains("nothing can be proven: the spread between runs")
    );
    assert!(
        comparison::markdown(&compared)
            .contains("**nothing can be proven: the spread between runs")
    );
}

#[test]
fn spread_between_runs_widens_the_interval() {
    let (base, new) = (repeated(), later(changed(0.9)));
    let near = asked(&base, &new, &history(8), "etcd: throughput < 0%");
    assert!(matches!(near, FailIfOutcome::Proven(_)), "{near:?}");
    let mut far = history(8);
    for (nth, record) in far.iter_mut().enumerate() {
        let off = changed(1.0 + 0.05 * (nth as f64 - 3.5));
        record.trials = off.trials;
    }
    let far = asked(&base, &new, &far, "etcd: throughput < 0%");
    assert!(matches!(far, FailIfOutcome::CannotTell(_)), "{far:?}");
    let known = comparison::json(&RunComparison::new(&base, &new, &history(8), &[]));
    assert_eq!(known["runs_known"], 9);
}

#[test]
fn run_does_not_differ_from_itself() {
    let base = repeated();
    assert_eq!(asked(&base, &base, &[], "throughput < -60%"), FailIfOutcome::HoldsNot);
}

#[test]
fn differences_of_two_runs_are_above_the_table() {
    let base = repeated();
    let mut new = changed(1.0);
    new.header.environment.cpus = 4;
    new.header.study.workloads[0].payload = Payload::Values(ValueSizes::Fixed(256));
    new.header.systems[0].version = Some("3.6.2".to_owned());
    new.header.study.systems[1].name = "consul".to_owned();
    let compared = RunComparison::new(&base, &new, &history(5), &[]);
    let text = comparison::terminal(&compared, &PLAIN);
    let above = text.split("create/steady, ").next().unwrap();
    for expected in [
        "! the machine differs: cpus: 2 -> 4",
        "! workload create differs: value_size: 1024 -> 256",
        "! system etcd differs: version: 3.6.1 -> 3.6.2",
        "! system zookeeper is only in the base run",
        "! system consul is only in the new run",
    ] {
        assert!(above.contains(expected), "{expected}\n{text}");
    }
    let same = RunComparison::new(&base, &base, &[], &[]);
    assert_eq!(comparison::json(&same)["differences"].as_array().map(Vec::len), Some(0));
    for text in [text, comparison::markdown(&compared)] {
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}

/// Trials of one process share that process's luck.
#[test]
fn trials_on_the_same_servers_are_qualified() {
    use bakeoff_core::study::Clusters;
    let note = "ran on the same servers";
    let mut record = repeated();
    assert!(!Report::new(&record).sentence().contains(note));
    record.header.study.clusters = Clusters::Kept;
    let sentence = Report::new(&record).sentence().to_owned();
    let expected = "; each of etcd and zookeeper ran all its trials on the same servers: the figures \
                    describe these servers and may not represent the products";
    assert!(sentence.contains(expected), "{sentence}");
    let json = comparison::json(&RunComparison::new(&repeated(), &later(record), &[], &[]));
    let differences = json["differences"].to_string();
    assert!(differences.contains("new run: each of etcd and zookeeper"), "{differences}");
    let mut record = repeated();
    let endpoint = bakeoff_core::study::Endpoint { tls: false, host: "kv".to_owned(), port: 2181 };
    record.header.study.systems[1].servers = bakeoff_core::study::Servers::Running(vec![endpoint]);
    let sentence = Report::new(&record).sentence().to_owned();
    assert!(
        sentence.contains("all trials of zookeeper ran on the same servers: its"),
        "{sentence}"
    );
}

/// Returns a gate's run in which the new build's throughput is `factor` times the base's, with about 1 % of noise.
fn gate(factor: f64, rounds: u32, fail_if: &[&str]) -> Record {
    let mut record = repeated();
    record.header.gate = Some(bakeoff_core::record::Gate {
        system: "etcd".to_owned(),
        fail_if: fail_if.iter().map(|text| (*text).to_owned()).collect(),
        detect: 0.05,
        trials_max: None,
    });
    let named = |name: &mut String| *name = if name == "etcd" { "base" } else { "new" }.to_owned();
    record.header.study.systems.iter_mut().for_each(|system| named(&mut system.name));
    record.header.systems.iter_mut().for_each(|system| named(&mut system.name));
    record.header.study.published.clear();
    record.header.study.trials = rounds;
    record.header.order = bakeoff_core::plan::plan(&record.header.study, 42);
    let of = |trial: &bakeoff_core::plan::Trial| {
        let noise = f64::from((trial.round * 7 + 3 * u32::from(trial.system == "new")) % 5) - 2.0;
        let rate =
            2000.0 * (1.0 + 0.007 * noise) * if trial.system == "new" { factor } else { 1.0 };
        let mut one = record.trials[0].clone();
        one.trial = trial.clone();
        one.stages[0].measurement = put(rate as u64, 4, millis(2));
        one
    };
    let trials = record.header.order.iter().map(of).collect();
    Record { trials, ..record }
}

#[track_caller]
fn gated(record: &Record, expected: bakeoff_report::compare::GateOutcome) -> String {
    let compared = RunComparison::gate(record).unwrap_or_else(|error| panic!("{error}"));
    let text = comparison::terminal(&compared, &PLAIN);
    assert_eq!(compared.passed(), Some(expected), "{text}");
    assert!(comparison::markdown(&compared).starts_with("# Two builds of etcd\n"));
    text
}

#[test]
fn gate_stops_a_loss_and_passes_if_one_is_ruled_out() {
    use bakeoff_report::compare::GateOutcome;
    let text = gated(&gate(0.93, 10, &[]), GateOutcome::No);
    assert!(text.contains("stop: proven for the new build of etcd: create/steady: "), "{text}");
    assert!(text.contains("99.9 % interval"), "{text}");
    let text = gated(&gate(1.0, 10, &[]), GateOutcome::Yes);
    assert!(
        text.contains(
            "pass: no condition is proven for the new build of etcd, and a loss of 5.0 % in its ordinary \
             trials is ruled out; 10 trials of each: a build that is slow in fewer than 26 % of its trials \
             could have passed undetected"
        ),
        "{text}"
    );
    gated(&gate(1.1, 10, &[]), GateOutcome::Yes);
    // The report leaves the verdict to the gate, which has another confidence level.
    let faster = gate(1.1, 10, &[]);
    let text = report::terminal(&Report::new(&faster), &PLAIN, report::Extent::Glance);
    assert!(!text.contains("* best") && !text.contains("new > base"), "{text}");
    // With too few rounds the verdict is unknown.
    gated(&gate(1.0, 3, &[]), GateOutcome::CannotTell);
    let text = gated(&gate(0.97, 4, &[]), GateOutcome::CannotTell);
    let more = "figures scatter by 1.5 % between trials, so about 12 trials of each build are needed, and 4 ran";
    assert!(text.contains(&format!("a loss of 5.0 % is still possible: {more}.")), "{text}");
    assert!(!text.contains("+2"), "a throughput is lost by at most 100 %: {text}");
    // Given conditions replace the default.
    gated(&gate(0.93, 10, &["throughput < -20%"]), GateOutcome::Yes);
    gated(&gate(0.7, 10, &["create/steady etcd: throughput < -20%"]), GateOutcome::No);
    gated(&gate(0.93, 10, &["errors > 1%"]), GateOutcome::Yes);
    assert!(RunComparison::gate(&repeated()).is_err());
}

#[test]
fn slow_trial_of_the_new_build_does_not_pass_a_gate_silently() {
    use bakeoff_report::compare::GateOutcome;
    let halved = |mut record: Record, system: &str, at: u32| {
        let of = |one: &&mut bakeoff_core::record::TrialRecord| {
            one.trial.system == system && one.trial.round == at
        };
        let trial = record.trials.iter_mut().find(of).unwrap();
        trial.stages[0].measurement = put(1600, 4, millis(2));
        record
    };
    let record = halved(gate(1.0, 60, &[]), "new", 7);
    let text = gated(&record, GateOutcome::CannotTell);
    let slow = "1 of its 60 trials was slow (worse by up to 21 %, and none of the base's)";
    assert!(
        text.contains(&format!(
            "inconclusive: no condition is proven for the new build of etcd, but {slow}"
        )),
        "{text}"
    );
    assert_eq!(text.matches(slow).count(), 2, "the condition names it too: {text}");
    let json = comparison::json(&RunComparison::gate(&record).unwrap());
    assert_eq!(json["gate"]["slow_share_unseen"], Value::Null);
    assert_eq!(json["comparisons"][0]["changes"][0]["slow_trials"], 1);
    // Slow trials of both builds, or of the base alone, do not count against the new build.
    gated(&halved(record, "base", 12), GateOutcome::Yes);
    gated(&halved(gate(1.0, 60, &[]), "base", 12), GateOutcome::Yes);
}

#[test]
fn gate_lets_a_loss_below_its_margin_pass_unless_a_condition_forbids_it() {
    use bakeoff_report::compare::GateOutcome;
    let exact = "throughput < 0%";
    gated(&gate(0.993, 200, &[]), GateOutcome::Yes);
    gated(&gate(0.993, 200, &[exact]), GateOutcome::No);
    let text = gated(&gate(0.97, 60, &[]), GateOutcome::No);
    assert!(text.contains("throughput mean /s is lower by more than 1.00 %: proven"), "{text}");
}

#[test]
fn gate_stops_for_more_errors_than_noise() {
    use bakeoff_core::measurement::ErrorKind;
    use bakeoff_report::compare::GateOutcome;
    let failing = |every: u32, errors: u64| {
        let mut record = gate(1.0, 14, &[]);
        for trial in &mut record.trials {
            if trial.trial.system == "new" && trial.trial.round % every == 0 {
                let operation = trial.stages[0].measurement.operations.values_mut().next().unwrap();
                operation.errors.entry(ErrorKind::Refused).or_default().count = errors;
            }
        }
        record
    };
    // About 8,000 operations in each trial: 0.9 % of them fail, and one in 112,000.
    let text = gated(&failing(1, 72), GateOutcome::No);
    assert!(text.contains("errors > +0%: proven"), "{text}");
    gated(&failing(100, 1), GateOutcome::Yes);
    // As many failures in one trial as in all others may be chance, so the gate does not pass.
    gated(&failing(100, 72), GateOutcome::CannotTell);
}

#[test]
fn gate_distinguishes_a_failing_build_from_a_disturbed_machine() {
    use bakeoff_core::check::{CheckName, Verdict};
    use bakeoff_core::record::{Check, TrialOutcome as Ended};
    use bakeoff_report::compare::GateOutcome;
    let mut broken = gate(1.0, 10, &[]);
    broken.trials[3].outcome = Ended::Failed("it ended".to_owned());
    gated(&broken, GateOutcome::NotValid);
    // A disturbed round is dropped; nine remain.
    let mut disturbed = gate(1.0, 10, &[]);
    let verdict = Verdict::Failed("a neighbour".to_owned());
    disturbed.trials[3].checks.push(Check::new(CheckName::Steal, verdict));
    let text = gated(&disturbed, GateOutcome::Yes);
    assert!(text.contains("not valid"), "{text}");
    let mut slower = broken;
    slower.trials = gate(0.9, 10, &[]).trials;
    gated(&slower, GateOutcome::No);
}

#[test]
fn runs_of_a_sweep_are_compared_stage_by_stage() {
    let run = |day: u64, slowest: u64| {
        let load = closed("sweep", &[8, 64], Stop::After(Duration::from_secs(4)));
        let create = workload("create", &[(Operation::Put, 1)], "sweep");
        let mut record = record(study(&["etcd"], create, load, 3));
        record.header.started = format!("2026-10-{day:02}T08:00:00Z");
        for round in 0..3 {
            let luck = 10 * round + day % 5;
            let few = put(500 + luck, 4, Duration::from_micros(2000 + luck));
            let many = put(600 + luck, 4, Duration::from_micros(slowest + luck));
            record.run("etcd", vec![(8, few), (64, many)]);
        }
        record
    };
    let known: Vec<Record> = (1..9).map(|day| run(day, 5000)).collect();
    let (base, new) = (&known[0], run(20, 9000));
    let compared = comparison::json(&RunComparison::new(base, &new, &known, &[]));
    let changes = compared["comparisons"][0]["changes"].as_array().unwrap();
    let verdict = |quantity: &str, clients: Value| {
        let is_it = |one: &&Value| one["quantity"] == quantity && one["clients"] == clients;
        changes.iter().find(is_it).map(|one| one["verdict"].as_str().unwrap().to_owned())
    };
    assert_eq!(verdict("response_p99_ms", 8.into()).as_deref(), Some("none-shown"));
    assert_eq!(verdict("response_p99_ms", 64.into()).as_deref(), Some("higher"));
    assert_eq!(verdict("response_p99_ms", Value::Null), None, "no latency of all stages");
    assert_eq!(verdict("throughput_mean_per_second", Value::Null).as_deref(), Some("none-shown"));
    let outcome = asked(base, &new, &known, "p99 > +10%");
    let FailIfOutcome::Proven(places) = outcome else { panic!("{outcome:?}") };
    assert!(places[0].starts_with("create/sweep etcd with 64 clients: +"), "{places:?}");
}
