//! Renders whole reports from made-up records and compares them with reviewed files in `snapshots/`.
//! `BLESS=1 cargo test -p bakeoff-report --test reports` writes these files.

mod adaptive;
mod altered;
mod answer;
mod baseline;
mod building;
mod collapsing;
mod compared;
mod conditions;
mod damaged_records;
mod durability;
mod fairness;
mod faults;
mod headline;
mod html;
mod large;
mod linearizability;
mod method;
mod noticed;
mod reached;
mod searched;
mod split;
mod watches;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use bakeoff_core::check::{CheckName, Verdict};
use bakeoff_core::measurement::{ErrorKind, Measurement};
use bakeoff_core::record::{Check, Record, TrialOutcome};
use bakeoff_core::staleness::{Age, ReadAge, StaleBy, Staleness};
use bakeoff_core::study::{
    Arrivals, HttpRequest, Metric, Operation, Payload, Publication, PublishedValue,
    ReadConsistency, Stop,
};
use bakeoff_report::{self as report, Extent, Report, Style};
use serde_json::Value;

use building::{
    KILLED, Trials as _, audit, closed, failing, machine_baseline, measured, record, study,
    workload,
};

const PLAIN: Style = Style { width: None, colour: false };
const NARROW: Style = Style { width: Some(80), colour: false };
const COLOURED: Style = Style { width: Some(80), colour: true };

/// Returns the full text for a terminal.
fn full(report: &Report, style: &Style) -> String {
    report::terminal(report, style, Extent::Full)
}

/// Returns a first screen without its first line, the title.
fn after_title(glance: &str) -> &str {
    glance.split_once('\n').expect("a title").1
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn put(rate: u64, seconds: u64, fastest: Duration) -> Measurement {
    measured("put", rate, Duration::from_secs(seconds), fastest)
}

/// Returns a record of two systems under a closed load, three trials each; one system is clearly faster.
fn repeated() -> Record {
    let load = closed("steady", &[64], Stop::After(Duration::from_secs(4)));
    let create = workload("create", &[(Operation::Put, 1)], "steady");
    let mut record = record(study(&["etcd", "zookeeper"], create, load, 3));
    record.header.environment.machine_baseline = Some(machine_baseline(&[64]));
    for round in 0..3 {
        record.run("etcd", vec![(64, put(500 + 10 * round, 4, millis(2)))]);
        record.run("zookeeper", vec![(64, put(300 - 10 * round, 4, millis(4)))]);
    }
    record
}

/// Returns a record of a sweep at a scale of 0.01, with published figures.
fn scaled_sweep() -> Record {
    let load = closed("sweep", &[1, 10, 100], Stop::Operations(3000));
    let create = workload("create", &[(Operation::Put, 1)], "sweep");
    let mut study = study(&["etcd", "zookeeper", "consul"], create, load, 1);
    study.scale = 0.01;
    study.publication = Some(Publication {
        title: "dbtester 2017Q1".to_owned(),
        hardware: "3 servers and 1 client machine of 16 vCPUs".to_owned(),
        versions: Some("etcd 3.1, ZooKeeper 3.4.9, Consul 0.7.4".to_owned()),
    });
    let figures = [
        ("etcd", Metric::Seconds, 342.3),
        ("etcd", Metric::ThroughputMax, 34747.0),
        ("etcd", Metric::ThroughputMean, 2921.0),
        ("etcd", Metric::LatencyP99Ms, 60.18),
        ("etcd", Metric::ServerCpuMaxPercent, 431.0),
        ("etcd", Metric::ServerMemoryMaxBytes, 1.3e9),
        ("etcd", Metric::Errors, 0.0),
        ("zookeeper", Metric::ThroughputMin, 0.0),
        ("zookeeper", Metric::LatencyMaxMs, 2626.0),
        ("zookeeper", Metric::Errors, 13.0),
    ];
    let published = |(system, metric, value): (&str, Metric, f64)| PublishedValue {
        system: system.to_owned(),
        workload: "create".to_owned(),
        load: "sweep".to_owned(),
        operation: None,
        fault: None,
        metric,
        value,
        note: (system == "zookeeper").then(|| "with 13 lost connections".to_owned()),
    };
    study.published = figures.into_iter().map(published).collect();
    let mut record = record(study);
    record.header.environment.machine_baseline = Some(machine_baseline(&[1, 100]));
    for (system, rate) in [("etcd", 1000), ("zookeeper", 1200), ("consul", 400)] {
        let stage = |place: u64, clients: u32| {
            let window = Duration::from_secs_f64(2.4 - 0.5 * place as f64);
            (clients, measured("put", rate * (place + 1), window, millis(1 + 3 * place)))
        };
        record.run(system, vec![stage(0, 1), stage(1, 10), stage(2, 100)]);
    }
    record
}

/// Returns a record of a closed load with a failed audit, many errors, and a failed start.
fn troubled() -> Record {
    let load = closed("steady", &[64], Stop::After(Duration::from_secs(4)));
    let create = workload("create", &[(Operation::Put, 1)], "steady");
    let mut record = record(study(&["etcd", "zookeeper", "consul"], create, load, 3));
    for round in 0..3 {
        // Fast, but loses acknowledged writes.
        let trial = record.run("etcd", vec![(64, put(900 + round, 4, millis(1)))]);
        if round == 1 {
            trial.audits[1].lost = 3;
            trial.audits[1].verdict =
                Verdict::Failed("of 1,000 acknowledged keys read back 3 are lost".to_owned());
        }
        // Answers errors quickly.
        let errors = failing(put(10, 4, millis(1)), "put", ErrorKind::Status, 4000);
        let trial = record.run("zookeeper", vec![(64, errors)]);
        let verdict = Verdict::NotChecked("this machine has no cgroups".to_owned());
        trial.checks = vec![Check::new(CheckName::Limits, verdict)];
        // Never starts.
        let trial = record.run("consul", Vec::new());
        trial.audits.clear();
        trial.outcome = TrialOutcome::Failed("consul-2 was not ready after 30s".to_owned());
    }
    record
}

/// Returns a record of an open load of stale reads and writes; one system falls behind.
fn open_mix() -> Record {
    let load = bakeoff_core::study::Load {
        arrivals: Arrivals::Poisson { rate: 500.0 },
        ..closed("offered", &[100], Stop::After(Duration::from_secs(4)))
    };
    let mix = [(Operation::Get, 90), (Operation::Put, 10)];
    let mut mixed = workload("mixed", &mix, "offered");
    mixed.reads = ReadConsistency::Stale;
    mixed.fill = true;
    let mut record = record(study(&["etcd", "consul"], mixed, load, 1));
    let both = |gets: u64, dropped: u64| {
        let mut whole = measured("get", gets, Duration::from_secs(4), millis(1));
        let puts = put(50, 4, millis(3));
        whole.operations.extend(puts.operations);
        let get = whole.operations.get_mut("get").expect("a measured operation");
        get.stale_reads = 17;
        for late in [20, 30, 4000] {
            whole.schedule_lag.record(Duration::from_micros(late));
        }
        if dropped > 0 {
            get.response.record(Duration::from_secs(4000));
            get.verified += 1;
            whole.disconnected = millis(1500);
            whole.connection_errors.count = 2;
        }
        failing(whole, "get", ErrorKind::Dropped, dropped)
    };
    // The first node's values are 1 to 40 ms stale; half of the second's are unknown.
    let aged = |mut whole: Measurement, system: &str, forgotten: u32| {
        let of = |(node, reads, stale): (u32, u32, u32)| {
            let node = format!("{system}-{node}");
            let mut of = Staleness { node, ..Staleness::default() };
            (stale..reads).for_each(|_| of.count(ReadAge::Fresh));
            for nth in 1..=stale {
                let age = millis(u64::from(nth * 4));
                let age =
                    if nth > stale - forgotten { Age::AtLeast(age) } else { Age::Exactly(age) };
                of.count(ReadAge::Stale(Some(StaleBy { age, behind: nth })));
            }
            of
        };
        whole.staleness = [(2, 120, 10), (3, 80, 0)].map(of).into();
        whole
    };
    record.run("etcd", vec![(100, aged(both(450, 0), "etcd", 0))]);
    let trial = record.run("consul", vec![(100, aged(both(200, 1000), "consul", 5))]);
    trial.audits[1].verdict = Verdict::NotChecked("it runs elsewhere".to_owned());
    record
}

/// Returns a record of a run that the user ended in the second of six trials.
fn incomplete() -> Record {
    let mut whole = repeated();
    whole.trials.truncate(2);
    let second = &mut whole.trials[1];
    second.outcome = TrialOutcome::Interrupted;
    second.audits.clear();
    if let Some(end) = &mut whole.end {
        end.complete = false;
    }
    whole
}

/// Returns all records of this file with their reports.
fn all() -> &'static [(&'static str, Record, Report)] {
    static ALL: LazyLock<Vec<(&str, Record, Report)>> = LazyLock::new(|| {
        let records = [
            ("repeated", repeated()),
            ("scaled-sweep", scaled_sweep()),
            ("troubled", troubled()),
            ("open-mix", open_mix()),
            ("incomplete", incomplete()),
            ("watched", watches::watched()),
        ];
        let with_report = |(name, record)| {
            let report = Report::new(&record);
            (name, record, report)
        };
        records.into_iter().map(with_report).collect()
    });
    &ALL
}

/// Compares the text with the snapshot of this name, or writes the snapshot if `BLESS` is set.
fn check(name: &str, got: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, got).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(got == expected, "{name} differs; `BLESS=1` rewrites it; the text is now:\n{got}");
}

#[test]
fn reports_equal_their_snapshots() {
    for (name, _, report) in all() {
        check(&format!("{name}.txt"), &full(report, &PLAIN));
        let glance = report::terminal(report, &PLAIN, Extent::Glance);
        check(&format!("{name}.glance.txt"), &glance);
        check(&format!("{name}.md"), &report::markdown(report));
        if ["scaled-sweep", "open-mix", "watched"].contains(name) {
            check(&format!("{name}.80.txt"), &full(report, &NARROW));
        }
        if *name == "incomplete" {
            // One snapshot shows the structure; another test checks the numbers.
            let json = serde_json::to_string_pretty(&report::json(report)).unwrap() + "\n";
            check(&format!("{name}.json"), &json);
        }
    }
}

#[test]
fn first_screen_fits_a_screen() {
    let mut many = repeated();
    let load = many.header.study.loads[0].clone();
    for number in 0..15 {
        let load = bakeoff_core::study::Load { name: format!("more-{number}"), ..load.clone() };
        many.header.study.workloads[0].loads.push(load.name.clone());
        many.header.study.loads.push(load);
    }
    for record in [large::large(), large::hostile(), many, troubled()] {
        let report = Report::new(&record);
        for width in [80, 100, 140] {
            let style = Style { width: Some(width), colour: false };
            let text = report::terminal(&report, &style, Extent::Glance);
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines.len() <= 21, "{} lines\n{text}", lines.len());
            let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(longest <= width.into(), "{longest} columns\n{text}");
            assert!(text.contains("--all"), "{text}");
        }
        let text = report::terminal(&report, &PLAIN, Extent::Glance);
        assert!(text.lines().count() <= 26, "{text}");
    }
    let text = report::terminal(&Report::new(&large::large()), &PLAIN, Extent::Glance);
    assert!(
        text.contains(" create/c64: etcd 2,542/s") && text.contains("\n! trials not valid: "),
        "{text}"
    );
}

#[test]
fn best_is_marked_only_if_proven() {
    let glance = |record: &Record| report::terminal(&Report::new(record), &PLAIN, Extent::Glance);
    let text = glance(&repeated());
    assert!(
        after_title(&text).starts_with("etcd sustained 1.76 times zookeeper's puts per second.\n"),
        "{text}"
    );
    assert!(text.contains(" 497 * "), "{text}");
    let mut alike = repeated();
    for trial in &mut alike.trials {
        let rate = 400 + u64::from(trial.trial.round) * 10;
        trial.stages[0].measurement = put(rate, 4, millis(2));
    }
    let text = glance(&alike);
    let heading = "No difference shown between etcd and zookeeper in throughput.\n";
    assert!(after_title(&text).starts_with(heading) && !text.contains('*'), "{text}");
    let mut once = repeated();
    once.trials.truncate(2);
    assert!(
        after_title(&glance(&once))
            .starts_with("etcd 488/s, zookeeper 293/s, one trial each: run 3 to compare"),
        "{}",
        glance(&once)
    );
    assert!(glance(&troubled()).contains("not valid"));
}

#[test]
fn plain_style_has_no_escape_codes() {
    for (name, _, report) in all() {
        for style in [PLAIN, NARROW] {
            let text = full(report, &style);
            assert!(!text.contains('\u{1b}'), "{name}");
        }
        assert!(!report::markdown(report).contains('\u{1b}'), "{name}");
    }
}

#[test]
fn colour_adds_only_escape_codes() {
    for (name, _, report) in all() {
        let mut text = full(report, &COLOURED);
        assert!(text.contains("\u{1b}[1m"), "{name}");
        for code in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m"] {
            text = text.replace(code, "");
        }
        assert_eq!(text, full(report, &NARROW), "{name}");
    }
}

#[test]
fn nothing_is_wider_than_the_terminal() {
    for (name, _, report) in all() {
        for width in [60, 80, 120] {
            let style = Style { width: Some(width), colour: false };
            let text = full(report, &style);
            for line in text.lines() {
                let long = line.chars().count();
                assert!(long <= usize::from(width), "{name} at {width} has {long}: {line}");
            }
        }
    }
}

#[test]
fn every_output_names_the_scale() {
    let report = Report::new(&scaled_sweep());
    for text in [full(&report, &PLAIN), report::markdown(&report)] {
        let title = text.lines().next().unwrap();
        assert!(title.contains("scaled to 0.01 of the study's counts"), "{title}");
    }
    assert!(report.sentence().contains("0.01"), "{}", report.sentence());
    let json = report::json(&report);
    assert_eq!(json["scale"], 0.01);
    assert!(json["title"].as_str().unwrap().contains("0.01"));
}

#[test]
fn every_output_names_the_quick_form() {
    let mut record = scaled_sweep();
    record.header.study.is_quick = true;
    let report = Report::new(&record);
    let expected = "quick form, scaled to 0.01 of the study's counts";
    for text in [full(&report, &PLAIN), report::markdown(&report)] {
        let title = text.lines().next().unwrap();
        assert!(title.contains(expected), "{title}");
    }
    let json = report::json(&report);
    assert!(json["quick"] == true && json["title"].as_str().unwrap().contains(expected), "{json}");
    record.header.study.scale = 1.0;
    let title = full(&Report::new(&record), &PLAIN);
    assert!(title.lines().next().unwrap().ends_with("(quick form)"), "{title}");
}

#[test]
fn numbers_in_json_are_those_of_the_record() {
    for (name, record, report) in all() {
        let text = report::json(report).to_string();
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["format"], 1);
        let systems = json["comparisons"][0]["systems"].as_array().unwrap();
        let mut seen = 0;
        for system in systems {
            for shown in system["trials"].as_array().unwrap() {
                let number = shown["number"].as_u64().unwrap() - 1;
                let trial =
                    record.trials.iter().find(|one| u64::from(one.trial.number) == number).unwrap();
                seen += 1;
                assert_eq!(shown["valid"], trial.invalid_because().is_empty(), "{name}");
                let Some(whole) = trial.measurement() else { continue };
                let figures = &shown["figures"];
                let total = whole.total();
                let same = |name: &str, number: Option<f64>| {
                    assert_eq!(figures[name].as_f64(), number, "{name}");
                };
                let ms = |latency: Option<Duration>| latency.map(|l| l.as_nanos() as f64 / 1e6);
                same("seconds", Some(whole.window.as_secs_f64()));
                same("throughput_mean_per_second", whole.throughput());
                same("requests_verified", Some(whole.verified() as f64));
                same("errors", Some(whole.error_count() as f64));
                let (responses, services) = (total.responses(), total.services());
                same("response_p50_ms", ms(responses.percentile(0.5).latency()));
                same("response_p99_ms", ms(responses.percentile(0.99).latency()));
                same("response_max_ms", ms(responses.max().latency()));
                same("service_mean_ms", ms(services.mean().latency()));
                same("server_cpu_max_of_one_node_percent", Some(130.0));
                same("server_cpu_max_sum_of_nodes_percent", Some(360.0));
                same("server_memory_max_sum_of_nodes_bytes", Some(6e8));
            }
        }
        assert_eq!(seen, record.trials.len(), "{name}");
    }
}

#[test]
fn median_is_the_value_of_a_trial() {
    let json = report::json(&Report::new(&repeated()));
    let etcd = &json["comparisons"][0]["systems"][0];
    let mut rates: Vec<f64> = etcd["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| trial["figures"]["throughput_mean_per_second"].as_f64().unwrap())
        .collect();
    rates.sort_by(f64::total_cmp);
    let figure = &etcd["figures"]["throughput_mean_per_second"];
    assert_eq!(figure["median"].as_f64(), Some(rates[1]));
    assert_eq!(figure["min"].as_f64(), Some(rates[0]));
    assert_eq!(figure["max"].as_f64(), Some(rates[2]));
}

#[test]
fn partial_last_second_is_no_minimum() {
    let load = closed("sweep", &[1, 10], Stop::Operations(100));
    let create = workload("create", &[(Operation::Put, 1)], "sweep");
    let mut record = record(study(&["etcd"], create, load, 1));
    let stage = |rate| {
        let mut stage = measured("put", rate, millis(6100), millis(1));
        // The seventh second lasted only 100 ms.
        stage.seconds[6].operations.get_mut("put").unwrap().verified = 3;
        stage
    };
    record.run("etcd", vec![(1, stage(100)), (10, stage(200))]);
    let json = report::json(&Report::new(&record));
    let figures = &json["comparisons"][0]["systems"][0]["trials"][0]["figures"];
    assert_eq!(figures["throughput_min_per_second"], 90.0);
    assert_eq!(figures["throughput_max_per_second"], 220.0);

    // Stages shorter than a second have no such figure.
    record.trials[0].stages[1].measurement.window = millis(900);
    record.trials[0].stages[0].measurement.window = millis(1900);
    let json = report::json(&Report::new(&record));
    let figures = &json["comparisons"][0]["systems"][0]["trials"][0]["figures"];
    assert_eq!(figures["throughput_max_per_second"], Value::Null);
}

#[test]
fn published_figures_are_in_the_json() {
    let json = report::json(&Report::new(&scaled_sweep()));
    let etcd = &json["comparisons"][0]["systems"][0]["figures"];
    assert_eq!(etcd["throughput_mean_per_second"]["published"], 2921.0);
    assert_eq!(etcd["response_p99_ms"]["published"], 60.18);
    assert_eq!(etcd["server_cpu_max_as_published_percent"]["published"], 431.0);
    assert_eq!(etcd["server_cpu_max_as_published_percent"]["median"], Value::Null);
}

#[test]
fn invalid_trial_is_shown_but_not_used() {
    let json = report::json(&Report::new(&troubled()));
    let etcd = &json["comparisons"][0]["systems"][0];
    assert_eq!((&etcd["trials_valid"], &etcd["trials_run"]), (&2.into(), &3.into()));
    assert_eq!(etcd["figures"]["requests"]["trials"], 2);
    let text = full(&Report::new(&troubled()), &PLAIN);
    assert!(text.contains("not valid: trial "), "{text}");
}

#[test]
fn system_with_mostly_errors_is_not_ranked() {
    let report = Report::new(&troubled());
    let finding = "most operations of zookeeper under create/steady failed";
    assert!(report.findings().iter().any(|one| one.contains(finding)), "{:?}", report.findings());
    assert!(report.sentence().contains("zookeeper is not ranked"), "{}", report.sentence());
}

#[test]
fn sentence_names_a_failed_audit() {
    let report = Report::new(&troubled());
    let lost = "etcd is not ranked: it lost 3 of 1,000 acknowledged keys after kill -9";
    assert!(report.sentence().contains(lost), "{}", report.sentence());
}

#[test]
fn audit_samples_are_counted_per_trial() {
    let mut record = repeated();
    for (number, trial) in (0..).zip(&mut record.trials) {
        trial.audits[0].acknowledged += number * 100;
        trial.audits[0].claimed = Some(1000);
        trial.audits[1].claimed = Some(990 - number);
    }
    let text = full(&Report::new(&record), &PLAIN);
    for line in [
        "etcd: a sample of 1,000 of 10,000 to 10,400 acknowledged keys read back after the load (in \
         each of 3 trials)\n",
        "etcd: a sample of 1,000 of 10,000 acknowledged keys read back after kill -9 and restart of \
         all nodes (in each of 3 trials), 986 to 990 of them able to show a loss\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn unchecked_audit_is_not_shown_as_passed() {
    let mut record = repeated();
    for trial in &mut record.trials {
        for audit in &mut trial.audits {
            audit.verdict = Verdict::NotChecked("not requested".to_owned());
        }
    }
    let report = Report::new(&record);
    for text in [full(&report, &PLAIN), report::markdown(&report)] {
        assert!(!text.contains("passed"), "{text}");
        assert!(text.contains("not checked: audit after the load: not requested (3 trials)"));
    }
}

#[test]
fn latency_beyond_an_hour_is_not_a_number() {
    let mut record = repeated();
    for trial in &mut record.trials {
        let put = trial.stages[0].measurement.operations.get_mut("put").unwrap();
        put.response.record(Duration::from_secs(5000));
    }
    let report = Report::new(&record);
    let text = full(&report, &PLAIN);
    let slowest = text.lines().find(|line| line.contains("response time slowest")).unwrap();
    assert_eq!(slowest.matches("> 1 h").count(), 2, "{slowest}");
    let json = report::json(&report);
    let figure = &json["comparisons"][0]["systems"][0]["figures"]["response_max_ms"];
    assert_eq!(figure["median"], Value::Null);
    assert_eq!(figure["beyond_one_hour"][0], "median");
}

#[test]
fn trial_of_a_lost_machine_is_not_counted_against_its_system_and_runs_again() {
    let mut record = incomplete();
    record.trials[1].outcome = TrialOutcome::MachineLost("`h4` is lost".to_owned());
    assert_eq!(
        record.missing().len(),
        5,
        "the trial of the lost machine, and the four that did not run"
    );
    let report = Report::new(&record);
    let findings = report.findings();
    let expected = "incomplete: 2 of 6 trials ran; a machine was lost in the last one";
    assert!(findings.iter().any(|one| one == expected), "{findings:?}");
    assert_eq!(record.trials[1].cause(), Some(bakeoff_core::check::Cause::Machine));
    let whole = full(&report, &NARROW);
    assert!(whole.contains("not valid: trial 01 (zookeeper, round 1): `h4` is lost"), "{whole}");
}

#[test]
fn record_without_trials_renders() {
    let mut record = repeated();
    record.trials.clear();
    record.end = None;
    let report = Report::new(&record);
    assert_eq!(report.sentence(), "nothing was measured.");
    let expected = "incomplete: 0 of 6 trials ran; the run was killed or is still running";
    assert_eq!(report.findings(), [expected]);
    assert!(full(&report, &NARROW).contains("no trial ran"));
    report::markdown(&report);
    report::json(&report);
}

#[test]
fn sweep_with_different_clients_per_system_shows_every_stage() {
    let mut load = closed("sweep", &[1, 10], Stop::Operations(100));
    load.clients_for = BTreeMap::from([("etcd".to_owned(), vec![5, 5])]);
    let create = workload("create", &[(Operation::Put, 1)], "sweep");
    let mut record = record(study(&["etcd", "consul"], create, load, 1));
    record.run("etcd", vec![(5, put(100, 1, millis(1))), (5, put(200, 1, millis(1)))]);
    record.run("consul", vec![(1, put(50, 1, millis(1))), (10, put(60, 1, millis(1)))]);
    record.trials[0].audits = vec![audit(KILLED)];
    let text = full(&Report::new(&record), &PLAIN);
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip_while(|line| !line.starts_with(" clients"))
        .skip(3)
        .take(4)
        .map(|line| line.split_whitespace().take(2).collect())
        .collect();
    assert_eq!(rows, [["1", "–"], ["5", "90"], ["5", "180"], ["10", "–"]], "{text}");
}

#[test]
fn workload_line_mentions_http2() {
    let text = |http2: bool| {
        let mut record = repeated();
        let request = HttpRequest { http2, ..HttpRequest::default() };
        record.header.study.workloads[0].payload = Payload::Request(request);
        full(&Report::new(&record), &PLAIN)
    };
    assert!(text(true).contains("over HTTP/2"));
    assert!(!text(false).contains("over HTTP/2"));
}
