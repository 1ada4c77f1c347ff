//! Fixed results for tests of rendering.

use std::time::Duration;

use bakeoff_core::condition::Figures;
use bakeoff_core::histogram::Latencies;
use bakeoff_core::measurement::{
    ErrorKind, Example, HttpAnswers, Measurement, OperationFigures, Second, SecondFigures,
};
use bakeoff_core::ranked_latencies::Percentile;
use bakeoff_core::schedule::Spacing;
use bakeoff_core::search::{self, FoundRate, TriedRate};
use bakeoff_core::study::{ERRORS_MAX, Stop};
use bakeoff_engine::{Drive, LoadProgress};

use super::result::{Gate, LoadResult, Part};
use super::search_result::{SearchResult, Try};
use super::settings::{Course, RequestShown, Settings};

/// Returns a load of one second at `rate` per second. Responses take from 1 to `slowest_ms` ms.
pub(super) fn part(rate: f64, slowest_ms: u64) -> Part {
    let mut figures = OperationFigures::default();
    let count = rate as u64;
    for number in 0..count {
        let micros = 1000 + number * (slowest_ms - 1) * 1000 / (count - 1);
        figures.response.record(Duration::from_micros(micros));
        figures.service.record(Duration::from_micros(micros / 2));
    }
    (figures.verified, figures.verified_in_window) = (count, count);
    let mut schedule_lag = Latencies::default();
    schedule_lag.record_many(Duration::from_micros(12), count);
    let second = SecondFigures {
        verified: count,
        errors: 0,
        response: figures.response.pack(),
        service: figures.service.pack(),
        failed: None,
    };
    let operations = [(NAME.to_owned(), second)].into();
    let undelayed = figures.response.clone();
    let measurement = Measurement {
        window: Duration::from_secs(1),
        operations: [(NAME.to_owned(), figures)].into(),
        seconds: vec![Second { second: 0, operations }],
        schedule_lag,
        undelayed,
        answers: HttpAnswers {
            statuses: [(200, count)].into(),
            bytes: count * 100,
            body_bytes: count * 6,
        },
        generator_cpu: Duration::from_micros(count * 10),
        generator_threads: 2,
        generator_busiest: 0.25,
        ..Measurement::default()
    };
    Part {
        rate: Some(rate),
        measurement,
        seconds: vec![LoadProgress {
            second: 0,
            verified: count,
            errors: 0,
            p50: Percentile::At(Duration::from_millis(1)),
            p99: Percentile::At(Duration::from_millis(slowest_ms)),
            max: Percentile::At(Duration::from_millis(slowest_ms)),
            busy: 0.25,
        }],
        reasons: Vec::new(),
        generators: Vec::new(),
    }
}

const NAME: &str = "GET http://127.0.0.1:8080/";

/// Turns `count` successes into failures. Their answer contains an escape code.
pub(super) fn with_errors(mut part: Part, count: u64) -> Part {
    let figures = part.measurement.operations.get_mut(NAME).unwrap();
    figures.verified -= count;
    figures.verified_in_window -= count;
    fail_slowest(&mut figures.response, &mut figures.failed, count);
    fail_slowest(&mut figures.service, &mut Latencies::default(), count);
    let errors = figures.errors.entry(ErrorKind::Status).or_default();
    errors.count = count;
    errors.examples.push(Example {
        at_seconds: 0.25,
        node: "127.0.0.1:8080".into(),
        what: "status 500: \u{1b}[31mred".into(),
    });
    let statuses = [(200, figures.verified), (500, count)].into();
    part.measurement.answers.statuses = statuses;
    part.measurement.undelayed = part.measurement.total().response;
    judged(part)
}

/// Moves the `count` slowest latencies from one distribution to the failures of another.
fn fail_slowest(from: &mut Latencies, to: &mut Latencies, count: u64) {
    let all: Vec<(Duration, u64)> = from.recorded().collect();
    let mut kept = from.count() - count;
    from.clear();
    for (latency, times) in all {
        let stays = times.min(kept);
        kept -= stays;
        from.record_many(latency, stays);
        to.record_many(latency, times - stays);
    }
}

/// Sets the reasons why the part is not valid from its measurement.
pub(super) fn judged(part: Part) -> Part {
    Part { reasons: search::invalid_because(&part.measurement, ERRORS_MAX), ..part }
}

pub(super) fn settings() -> Settings {
    Settings {
        requests: vec![RequestShown {
            name: NAME.into(),
            method: "GET".into(),
            url: "http://127.0.0.1:8080/".into(),
            header_names: vec!["Authorization".into()],
            body_bytes: 0,
            weight: 1,
        }],
        rows: None,
        course: Course::Rate(1000.0),
        spacing: Spacing::Constant,
        http2: false,
        unix_socket: None,
        insecure: false,
        is_random: false,
        drive: Drive {
            clients: 256,
            stop: Stop::After(Duration::from_secs(1)),
            seed: 7,
            ..Drive::once(1, 1, 2, Duration::from_secs(10))
        },
    }
}

/// Returns the result of a load at one rate, with conditions checked.
pub(super) fn result(whole: Part, gates: &[&str]) -> LoadResult {
    let figures = Figures::from_measurement(&whole.measurement);
    let gate = |text: &&str| Gate::check(&text.parse().unwrap(), &figures);
    LoadResult {
        settings: settings(),
        gates: gates.iter().map(gate).collect(),
        whole,
        steps: Vec::new(),
        peak_rss_bytes: Some(12 << 20),
    }
}

/// Returns a search that found 4,000/s.
pub(super) fn search() -> SearchResult {
    let tried = |rate: f64, slowest_ms: u64, confirming: bool, broken_by: &[&str]| {
        let part = part(rate, slowest_ms);
        let latency = part.measurement.total().responses().percentile(0.99).latency();
        let broken_by = broken_by.iter().map(|&why| why.to_owned()).collect();
        let tried =
            TriedRate { rate, confirming, broken_by, void: false, disturbed_by: Vec::new() };
        Try { tried, part, latency: latency.map(|latency| latency.as_secs_f64()) }
    };
    SearchResult {
        settings: Settings {
            course: Course::FindMax { first: 1000.0, objective: Vec::new() },
            ..settings()
        },
        objective: vec!["p99 < 20ms".parse().unwrap()],
        tries: vec![
            tried(1000.0, 2, false, &[]),
            tried(2000.0, 3, false, &[]),
            tried(4000.0, 8, false, &[]),
            tried(8000.0, 900, false, &["p99 is 891 ms"]),
            tried(4200.0, 40, false, &["p99 is 39.6 ms"]),
            tried(4000.0, 9, true, &[]),
        ],
        found: Some(FoundRate::Rate(4000.0)),
        reasons: Vec::new(),
    }
}
