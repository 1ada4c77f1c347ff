//! Runs the measured loop: sends and counts the requests of all tests, mixed by weight.
//!
//! Over HTTP/1.1 each worker is a connection with one request in flight. Over HTTP/2 all workers are streams of one
//! connection, as in the original, whose client opens no second one. Without `-rps` the load is closed. With it the
//! load is open: requests are due at fixed times whatever the server does, and response times count from there.
//!
//! A success has a status from 200 to 299. The original also counts redirects, which a standby sends without doing any
//! work.
//!
//! Not here: the requests (`request`), the output (`report`), the loop itself (`engine`).

mod counts;
mod source;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bakeoff_core::histogram::Latencies;
use bakeoff_core::measurement::{ErrorKind, Measurement, OperationFigures};
use bakeoff_core::schedule::LoadShare;
use bakeoff_core::schedule::{RateProfile, Spacing};
use bakeoff_core::study::Stop;
use bakeoff_engine::LoadError;
use bakeoff_engine::peer::Peer;
use bakeoff_engine::work::Failure as Unexpected;
use bakeoff_engine::works::http::{self, Protocol};
use bakeoff_engine::{Connections, Drive, Seconds};

use self::counts::TestCounts;
use self::source::{Templates, TestSource};
use super::client::TIMEOUT;
use super::request::{Draw, Template};
use super::server::Server;
use super::trouble::message;

#[derive(Clone)]
pub(super) struct WeightedTemplate {
    pub(super) name: String,
    /// Percentage of all requests.
    pub(super) weight: u32,
    pub(super) template: Template,
}

/// Rate, duration and connections of a load.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) workers: u32,
    /// Requests per second of an open load; `None` for a closed one.
    pub(super) rps: Option<u32>,
    pub(super) duration: Duration,
    pub(super) keep_alive: bool,
    /// True to use HTTP/2 if the server offers it.
    pub(super) http2: bool,
    /// Seed for the mix of tests and for the variable parts of templates.
    pub(super) seed: u64,
}

#[derive(Debug, Clone)]
pub(super) struct TestFigures {
    pub(super) name: String,
    /// Requests that were sent, or that failed before.
    pub(super) requests: u64,
    pub(super) successes: u64,
    /// From due to done, for successes and timed-out requests. With an open load also requests that were never sent,
    /// with the time they had waited.
    pub(super) latencies: Latencies,
    /// Answers by status; 0 for requests without an answer.
    pub(super) statuses: BTreeMap<u16, u64>,
    /// Failures by description.
    pub(super) errors: BTreeMap<String, u64>,
    /// Bytes of response bodies.
    pub(super) bytes_in: u64,
    /// Bytes of request bodies.
    pub(super) bytes_out: u64,
    /// Times of the first request, the last request and the last answer, since the load began.
    pub(super) first_sent: Duration,
    pub(super) last_sent: Duration,
    pub(super) last_done: Duration,
}

#[derive(Debug)]
pub(super) struct Outcome {
    /// Figures in the order of the tests.
    pub(super) tests: Vec<TestFigures>,
    /// Start of the load, in seconds since 1970.
    pub(super) began: f64,
    /// Requests that were due but never sent, because no worker was free.
    pub(super) dropped: u64,
    pub(super) measurement: Measurement,
}

struct Plan {
    seed: u64,
    tests: Vec<WeightedTemplate>,
    /// Index of the test that each hundredth of the requests belongs to.
    by_percent: [usize; 100],
}

impl Plan {
    /// The configuration ensures that weights add up to 100.
    fn new(tests: Vec<WeightedTemplate>, seed: u64) -> Self {
        let mut by_percent = [0; 100];
        let places = tests.iter().enumerate();
        let each = places.flat_map(|(place, test)| (0..test.weight).map(move |_| place));
        by_percent.iter_mut().zip(each).for_each(|(slot, place)| *slot = place);
        Self { seed, tests, by_percent }
    }

    #[inline]
    fn draw(&self, ticket: u64) -> (usize, Draw) {
        let draw = Draw::new(self.seed, ticket);
        (self.by_percent[draw.percent as usize], draw)
    }

    fn test_of(&self, ticket: u64) -> usize {
        self.draw(ticket).0
    }

    /// Checks an answer.
    #[inline]
    fn judge(&self, test: usize, status: u16, body: &[u8]) -> Result<(), Unexpected> {
        if !(200..300).contains(&status) {
            return Err(refused(status, body));
        }
        match self.tests[test].template.holds {
            Some(text) if !contains(body, text.as_bytes()) => Err(wrong(status, text)),
            _ => Ok(()),
        }
    }
}

fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

#[cold]
fn refused(status: u16, body: &[u8]) -> Unexpected {
    let what = match message(body) {
        words if words.is_empty() => status_text(status),
        words => format!("{}: {words}", status_text(status)),
    };
    Unexpected::new(ErrorKind::Status, what)
}

#[cold]
fn wrong(status: u16, text: &str) -> Unexpected {
    let what = format!("{}, without `{text}`", status_text(status));
    Unexpected::new(ErrorKind::WrongValue, what)
}

/// Returns a status as Go names it: `403 Forbidden`.
pub(super) fn status_text(status: u16) -> String {
    let name = match status {
        200 => "OK",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        412 => "Precondition Failed",
        413 => "Request Entity Too Large",
        429 => "Too Many Requests",
        472 => "disaster recovery secondary",
        473 => "performance standby",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => return status.to_string(),
    };
    format!("{status} {name}")
}

/// Runs the load until its duration is over or `interrupted` is set.
pub(super) fn drive(
    server: &Server,
    tests: Vec<WeightedTemplate>,
    settings: &Settings,
    interrupted: &AtomicBool,
) -> Result<Outcome, LoadError> {
    bakeoff_engine::open_files::raise_for(settings.workers)?;
    let over_two = server.target_two.as_ref().filter(|_| settings.http2);
    let one_connection = over_two.is_some() && settings.keep_alive;
    let drive = Drive {
        clients: if one_connection { 1 } else { settings.workers },
        in_flight: if one_connection { settings.workers } else { 1 },
        connections: match settings.keep_alive {
            true => Connections::Kept,
            false => Connections::OneEach,
        },
        arrivals: settings
            .rps
            .map(|rate| (RateProfile::Constant { rate: f64::from(rate) }, Spacing::Constant)),
        spin: Duration::ZERO,
        warmup: Duration::ZERO,
        stop: Stop::After(settings.duration),
        timeout: TIMEOUT,
        seconds: Seconds::Told,
        threads: bakeoff_engine::open_files::cpus().max(1),
        seed: settings.seed,
        first_ticket: 0,
        moments: None,
        share: LoadShare::WHOLE,
        own_operations: None,
    };
    let plan = Arc::new(Plan::new(tests, settings.seed));
    let counts = Arc::new(Mutex::new(vec![TestCounts::default(); plan.tests.len()]));
    let began = bakeoff_clock::wall::seconds();
    let (protocol, target) = match over_two {
        None => (Protocol::One, &server.target),
        Some(target) => (Protocol::Two, target),
    };
    let peers = [Peer::new(target, &server.authority)];
    let templates = Arc::new(Templates::new(&plan, server, settings.keep_alive));
    let mut source =
        |_| -> Box<dyn http::Source> { Box::new(TestSource::new(&plan, &templates, &counts)) };
    let (driven, _) =
        http::drive_sources(protocol, &peers, &drive, None, &mut source, interrupted, &mut |_| {})?;
    let measurement = driven.measurement;
    let counted = std::mem::take(&mut *counts.lock().unwrap_or_else(PoisonError::into_inner));
    let tests = plan.tests.iter().zip(counted).map(|(test, counts)| {
        let none = OperationFigures::default();
        figures(&test.name, measurement.operations.get(&test.name).unwrap_or(&none), counts)
    });
    Ok(Outcome {
        tests: tests.collect(),
        began,
        dropped: measurement.errors_of(ErrorKind::Dropped),
        measurement,
    })
}

fn figures(name: &str, measured: &OperationFigures, counts: TestCounts) -> TestFigures {
    let mut errors = BTreeMap::new();
    let (mut unanswered, mut dropped) = (0, 0);
    for (&kind, seen) in &measured.errors {
        match kind {
            // Answers with a status are listed by status instead.
            ErrorKind::Status => {}
            ErrorKind::Dropped => dropped = seen.count,
            ErrorKind::WrongValue => {
                let what = seen.examples.first().map_or(kind.name(), |example| &example.what);
                *errors.entry(what.to_owned()).or_default() += seen.count;
            }
            _ => {
                unanswered += seen.count;
                let example = seen.examples.first().map(|example| &*example.what);
                let what = match example {
                    Some(what) if !what.is_empty() => format!("{}: {what}", kind.name()),
                    _ => kind.name().to_owned(),
                };
                *errors.entry(what).or_default() += seen.count;
            }
        }
    }
    let mut statuses = counts.statuses;
    for (&status, &count) in statuses.iter().filter(|(status, _)| !(200..300).contains(*status)) {
        *errors.entry(status_text(status)).or_default() += count;
    }
    if unanswered > 0 {
        statuses.insert(0, unanswered);
    }
    TestFigures {
        name: name.to_owned(),
        requests: measured.verified + measured.error_count() - dropped,
        successes: measured.verified,
        latencies: measured.all_waits(),
        statuses,
        errors,
        bytes_in: counts.bytes_in,
        bytes_out: counts.bytes_out,
        first_sent: counts.first_sent.unwrap_or_default(),
        last_sent: counts.last_sent,
        last_done: counts.last_done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(weight: u32, holds: Option<&'static str>) -> WeightedTemplate {
        let template = Template::fixed("GET", "/v1/x".into(), String::new());
        WeightedTemplate {
            name: format!("t{weight}"),
            weight,
            template: Template { holds, ..template },
        }
    }

    #[test]
    fn weights_become_shares_of_the_requests() {
        let plan = Plan::new(vec![loaded(70, None), loaded(0, None), loaded(30, None)], 1);
        let mut shares = [0_u32; 3];
        for ticket in 0..10_000 {
            shares[plan.test_of(ticket)] += 1;
        }
        assert_eq!(shares[1], 0);
        assert!((6800..7200).contains(&shares[0]), "{shares:?}");
    }

    #[test]
    fn redirects_and_negative_answers_are_failures() {
        let plan = Plan::new(vec![loaded(100, Some("\"valid\":true"))], 1);
        let judge = |status, body: &str| {
            plan.judge(0, status, body.as_bytes()).map_err(|failure| (failure.kind, failure.what))
        };
        assert_eq!(judge(200, "{\"data\":{\"valid\":true}}"), Ok(()));
        let (kind, _) = judge(200, "{\"data\":{\"valid\":false}}").unwrap_err();
        assert_eq!(kind, ErrorKind::WrongValue);
        let (kind, what) = judge(307, "").unwrap_err();
        assert_eq!((kind, &*what), (ErrorKind::Status, "307 Temporary Redirect"));
    }
}
