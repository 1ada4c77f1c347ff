//! Tests the first lines of a report: claims, facts that need no comparison, and why nothing was compared.

use std::time::Duration;

use bakeoff_core::measurement::{ErrorKind, Measurement};
use bakeoff_core::record::{Record, TrialOutcome};
use bakeoff_core::study::{Arrivals, HttpRequest, Load, Operation, Payload, Stop};
use bakeoff_report::{self as report, Extent, Report};
use serde_json::Value;

use super::PLAIN;
use super::after_title;
use super::building::{Trials as _, closed, failing, measured, record, study, workload};

fn glance(record: &Record) -> String {
    report::terminal(&Report::new(record), &PLAIN, Extent::Glance)
}

/// Returns a record of requests under two closed loads; `rate` is by system, load and round.
fn gateways(systems: &[&str], rounds: u32, rate: impl Fn(&str, &str, u64) -> u64) -> Record {
    let busy = closed("busy", &[32], Stop::After(Duration::from_secs(4)));
    let more = closed("more", &[64], Stop::After(Duration::from_secs(4)));
    let mut work = workload("h1", &[(Operation::Request, 1)], "busy");
    work.loads.push("more".to_owned());
    work.payload = Payload::Request(HttpRequest::default());
    let mut study = study(systems, work, busy, rounds);
    study.loads.push(more);
    let mut record = record(study);
    for planned in record.header.order.clone() {
        let rate = rate(&planned.system, &planned.load, u64::from(planned.round));
        let of = measured("request", rate, Duration::from_secs(4), Duration::from_millis(2));
        let clients = if planned.load == "busy" { 32 } else { 64 };
        // Trials run in the planned order.
        record.run(&planned.system, vec![(clients, of)]);
    }
    record
}

/// The four gateways: the first two are alike, and so are the last two.
fn four(rounds: u32) -> Record {
    gateways(&["nginx", "caddy", "haproxy", "traefik"], rounds, |system, _, round| {
        let noise = 10 * ((round * 7 + system.len() as u64) % 3);
        match system {
            "nginx" | "haproxy" => 900 + noise,
            _ => 300 + noise,
        }
    })
}

#[test]
fn headline_ranks_in_groups_above_the_key_figures() {
    let record = four(5);
    let report = Report::new(&record);
    let line = "h1/busy (closed load, 32 clients) and h1/more (closed load, 64 clients): by throughput \
                nginx, haproxy > caddy, traefik.";
    assert_eq!(report.summary(), [line]);
    let text = glance(&record);
    assert!(
        after_title(&text)
            .starts_with("nginx and haproxy lead under both loads by 2.94 times or more.\n"),
        "{text}"
    );
    let head = text.lines().find(|one| one.contains("requests/s")).expect("key figures");
    let columns = ["h1/busy", "requests/s", "ratio", "p99", "errors", "trials"];
    assert!(columns.iter().all(|column| head.contains(column)), "{head}");
    // Each load has its bars, the leaders first.
    let bars = text.lines().filter(|one| one.starts_with(" traefik ") && one.contains('█'));
    assert_eq!(bars.count(), 2, "{text}");
    let json = report::json(&report);
    assert_eq!(json["comparisons"][0]["order"], "nginx, haproxy > caddy, traefik");
    assert_eq!(json["summary"][0], line);
}

#[test]
fn failures_are_reported_without_a_comparison() {
    let mut record = gateways(&["pooled", "greets-again"], 1, |_, _, _| 500);
    for trial in &mut record.trials {
        if trial.trial.system == "greets-again" && trial.trial.load == "busy" {
            let of = &mut trial.stages[0].measurement;
            let failures = of.verified();
            *of = failing(of.clone(), "request", ErrorKind::Timeout, failures);
        }
    }
    let expected = [
        "greets-again failed 50.0 % of its requests under h1/busy (closed load, 32 clients).",
        "h1/busy (closed load, 32 clients) and h1/more (closed load, 64 clients): one trial per \
         system, nothing is compared.",
    ];
    assert_eq!(Report::new(&record).summary(), expected);
    let text = glance(&record);
    assert!(
        after_title(&text)
            .starts_with("pooled 488/s, greets-again 488/s (50.0 % failed), one trial each: run 3"),
        "{text}"
    );
    assert!(text.contains(" 488 "), "its medians: {text}");
}

#[test]
fn single_system_is_not_compared() {
    let load = closed("steady", &[64], Stop::After(Duration::from_secs(4)));
    let mut record =
        record(study(&["etcd"], workload("create", &[(Operation::Put, 1)], "steady"), load, 3));
    for _ in 0..3 {
        let puts = measured("put", 500, Duration::from_secs(4), Duration::from_millis(2));
        record.run("etcd", vec![(64, puts)]);
    }
    let expected = "etcd did 488 puts per second under create/steady (closed load, 64 clients) in 3 \
                    trials; p99 response time 20.5 ms; one system: nothing is compared.";
    assert_eq!(Report::new(&record).summary(), [expected]);
}

/// Returns a record of two systems that keep up with `rate` for four seconds; one takes half the time of the other.
fn offered(rate: u64) -> Record {
    let load = Load {
        arrivals: Arrivals::Constant { rate: rate as f64 },
        ..closed("slow", &[16], Stop::After(Duration::from_secs(4)))
    };
    let create = workload("certificates", &[(Operation::Put, 1)], "slow");
    let mut record = record(study(&["openbao", "vault"], create, load, 3));
    let of = |milliseconds: u64, nth: u64| -> Measurement {
        let took = Duration::from_micros(1000 * milliseconds + 10 * nth);
        measured("put", rate, Duration::from_secs(4), took)
    };
    for round in 0..3 {
        record.run("openbao", vec![(16, of(20, round))]);
        record.run("vault", vec![(16, of(40, round))]);
    }
    record
}

#[test]
fn highest_supported_percentile_decides() {
    for (rate, operations, point) in
        [(300, 1170, "p99"), (60, 234, "p95"), (40, 156, "p90"), (10, 39, "p50")]
    {
        let record = offered(rate);
        let json = report::json(&Report::new(&record));
        let comparison = &json["comparisons"][0];
        let seen = comparison["systems"][0]["figures"]["requests"]["median"].as_u64();
        assert_eq!(seen, Some(operations));
        let leading: Vec<_> = comparison["judgements"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["leading"] == true)
            .collect();
        assert_eq!(leading.len(), 1, "{leading:?}");
        assert_eq!(leading[0]["quantity"], format!("response_{point}_ms"));
        assert_eq!(leading[0]["verdict"], "lower");
        let sentence = comparison["sentence"].as_str().unwrap();
        let claim = format!(
            "(open load, {rate}/s) in 3 trials each; vault's {point} response time was 2.00 times \
             openbao's (open load, {rate}/s; 95 % interval "
        );
        assert!(sentence.contains(&claim), "{sentence}");
        let text = glance(&record);
        let heading = format!("openbao's {point} response time was 0.50 of vault's.\n");
        assert!(after_title(&text).starts_with(&heading), "{text}");
    }
}

#[test]
fn too_few_operations_for_a_percentile_are_named() {
    let record = offered(4);
    let sentence = Report::new(&record).sentence().to_owned();
    let cause = "p50 response time of openbao and vault (open load, 4/s) not judged: openbao had a \
                 trial with too few: 16 of 20 operations";
    assert!(sentence.contains(cause), "{sentence}");
}

#[test]
fn skipped_trials_are_not_counted_as_run() {
    let mut record = four(4);
    for trial in record.trials.iter_mut().filter(|trial| trial.trial.system == "caddy") {
        trial.stages.clear();
        trial.not_tried = trial.trial.round >= 2;
        trial.outcome = TrialOutcome::Failed("exit code 3".to_owned());
    }
    let report = Report::new(&record);
    let said = "caddy has no valid trial (2 trials run, 2 skipped: exit code 3, …)";
    assert!(report.sentence().contains(said), "{}", report.sentence());
    let json = report::json(&report);
    let caddy = |system: &&Value| system["system"] == "caddy";
    let systems = json["comparisons"][0]["systems"].as_array().unwrap();
    let caddy = systems.iter().find(caddy).unwrap();
    assert_eq!((&caddy["trials_planned"], &caddy["trials_run"]), (&4.into(), &2.into()));
    assert_eq!(json["trials_run"], 28, "of 32");
    let text = report::terminal(&report, &PLAIN, Extent::Full);
    assert!(text.contains("0 of 2 (4 planned)"), "{text}");
}
