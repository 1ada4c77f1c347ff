//! Tests loads against misbehaving servers: they end in time, count every operation once and by kind, and count only
//! real successes.
//!
//! Not here: wrong answers to key-value requests (`checks`).

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::hostile::{Behaviour, Hostile};
use crate::support::http2::{GrpcAnswer, Http2, Http2Behaviour};
use crate::support::schema;
use crate::support::{Bench, CommandOutput, array, bakeoff, skipped, text};

/// Maximum time of a load, far above the expected one because a machine may be busy.
const ENDED_WITHIN: Duration = Duration::from_secs(30);

/// Loads a server for a second with four clients that wait half a second for an answer.
fn load(server: &Hostile, more: &[&str]) -> (Value, CommandOutput) {
    let mut command = bakeoff();
    command.args(["load", &server.url(), "--clients", "4", "--threads", "2", "--json"]);
    command.args(["--for", "1s", "--timeout", "500ms"]).args(more);
    let began = Instant::now();
    let ran = CommandOutput::run(&mut command);
    assert!(began.elapsed() < ENDED_WITHIN, "{:?}", began.elapsed());
    let result = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| {
        panic!("no JSON: {error}\n{}\nstderr:\n{}", ran.stdout, ran.stderr)
    });
    schema::allow("load", &result);
    (result, ran)
}

/// Asserts that a load has no reason against its server, and ends with 0 unless it has one against the machine.
#[track_caller]
fn serves_well(result: &Value, ran: &CommandOutput) {
    let reasons = array(&result["reasons"]);
    for reason in reasons {
        let check = text(reason).split(':').next();
        assert!(!matches!(check, Some("answers" | "errors" | "successes")), "{reasons:?}");
    }
    assert_eq!(ran.code, Some(i32::from(!reasons.is_empty())), "{reasons:?}");
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// Asserts that every request failed in one of these ways and was counted once.
#[track_caller]
fn fails(behaviour: Behaviour, kinds: &[&str], more: &[&str]) -> Value {
    let server = Hostile::start(behaviour);
    let (result, ran) = load(&server, more);
    let errors = result["errors"].as_object().expect("errors by kind");
    let of = |kind: &&str| errors.get(*kind).map_or(0, count);
    let failed: u64 = errors.values().map(count).sum();
    assert!(failed > 0, "{behaviour:?}: {result:#}");
    assert_eq!(kinds.iter().map(of).sum::<u64>(), failed, "{behaviour:?}: {errors:?}");
    assert_eq!(count(&result["requests"]), failed, "{behaviour:?}: each once");
    assert_eq!(count(&result["verified"]), 0, "{behaviour:?}");
    assert_eq!(result["requests_per_second"], 0.0, "{behaviour:?}: no rate of successes");
    assert!(result["response"]["p50_us"].is_null(), "{behaviour:?}: no latency of success");
    assert_eq!(result["valid"], false, "{behaviour:?}");
    assert!(!ran.stderr.contains("panicked"), "{behaviour:?}: {}", ran.stderr);
    ran.ends_with(1);
    result
}

#[test]
fn answers_without_http_are_protocol_errors() {
    for behaviour in
        [Behaviour::Garbage, Behaviour::EndlessHeaders, Behaviour::BadLength, Behaviour::BadChunks]
    {
        fails(behaviour, &["protocol"], &[]);
    }
}

#[test]
fn early_end_of_a_connection_is_not_a_success() {
    fails(Behaviour::TruncatedBody, &["protocol", "reset"], &[]);
    fails(Behaviour::ClosesUnanswered, &["reset"], &[]);
    fails(Behaviour::Resets, &["reset"], &[]);
}

#[test]
fn silent_servers_time_out() {
    for behaviour in [Behaviour::NeverAnswers, Behaviour::Drips] {
        let result = fails(behaviour, &["timeout"], &[]);
        let failed = count(&result["requests"]);
        // Four clients with half a second each, for one second and the rest.
        assert!((4..=16).contains(&failed), "{behaviour:?}: {failed}");
    }
}

#[test]
fn plain_text_at_a_tls_port_ends_the_load() {
    let server = Hostile::start(Behaviour::SpeaksTls);
    let hint = "this port speaks TLS: try `https://`";
    let load = |more: &[&str]| {
        let sent = server.requests();
        let ran = CommandOutput::run(bakeoff().args(["load", &server.url()]).args(more));
        (ran, server.requests() - sent)
    };
    for more in [&["--for", "20s"][..], &["--for", "20s", "--rate", "100/s"]] {
        let (ran, sent) = load(more);
        ran.ends_with(4).complains(&["refuses plain text: status 400", hint]);
        assert!(more.len() == 2 || sent <= 200, "{sent} of 2,000");
    }
    let (ran, _) = load(&["--requests", "100", "--expect-status", "400"]);
    ran.ends_with(0);
    let study = format!(
        "title: t\nsystems:\n  web: {{kind: http, endpoints: [\"{}\"]}}\nworkloads:\n  pages: \
         {{mix: {{request: 1}}, request: {{path: /}}}}\nloads:\n  few: {{clients: 2, rate: 100/s, stop: {{after: 20s}}}}\ntrials: 1\n",
        server.url().trim_end_matches('/')
    );
    let sent = server.requests();
    CommandOutput::run(&mut Bench::new(&study).command()).ends_with(1).complains(&[hint]);
    assert!(server.requests() - sent <= 200);
}

/// Returns the errors by kind, and the number of repeated requests.
fn outcome(server: &Hostile, more: &[&str]) -> (Value, u64) {
    let (result, _) = load(server, more);
    assert!(count(&result["requests"]) > 8, "{result:#}");
    (result["errors"].clone(), count(&result["reissued"]))
}

#[test]
fn request_on_a_closed_idle_connection_is_repeated_if_safe() {
    let server = Hostile::start(Behaviour::ClosesKept);
    let (errors, reissued) = outcome(&server, &[]);
    assert_eq!((&errors, reissued > 0), (&json!({}), true), "{reissued}");
    let (errors, reissued) = outcome(&server, &["--method", "POST"]);
    assert_eq!((count(&errors["closed"]) > 0, reissued), (true, 0), "{errors}");
    assert_eq!(errors.as_object().map(serde_json::Map::len), Some(1), "{errors}");
}

#[test]
fn early_answer_counts() {
    let server = Hostile::start(Behaviour::RefusesBodies);
    let body = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(body.path(), vec![b'x'; 4 << 20]).unwrap();
    let body = body.path().display().to_string();
    let (errors, _) = outcome(&server, &["--method", "POST", "--body-file", &body]);
    let (answered, all) = (count(&errors["status"]), errors.as_object().unwrap().values());
    let all: u64 = all.map(count).sum();
    // The kernel drops received bytes if a reset arrives first.
    assert!(answered * 10 >= all * 9, "{errors}");
}

#[test]
fn refused_clients_report_the_reason_and_back_off() {
    let server = Hostile::start(Behaviour::TurnsAway);
    let (result, _) = load(&server, &[]);
    let seen = format!("{} {}", result["error_examples"], result["connection_errors"]);
    assert!(seen.contains("429"), "{result:#}");
    assert_eq!((count(&result["verified"]), &result["valid"]), (0, &Value::Bool(false)));
}

#[test]
fn unprocessed_streams_are_repeated() {
    let run = |ways: Http2Behaviour| {
        let server = Http2::start(ways);
        let mut command = bakeoff();
        command.args(["load", &format!("http://{}/", server.address), "--http2", "--json"]);
        command.args(["--clients", "4", "--in-flight", "8", "--requests", "2000"]);
        let ran = CommandOutput::run(&mut command);
        let result: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(result["errors"], json!({}), "{ways:?}: {result:#}");
        assert_eq!(count(&result["verified"]), 2000, "{ways:?}");
        (count(&result["reissued"]), server.connections())
    };
    let (reissued, connections) =
        run(Http2Behaviour { goes_away_after: Some(100), ..Http2Behaviour::default() });
    assert!(reissued > 0 && connections >= 20, "{reissued} {connections}");
    let (reissued, _) = run(Http2Behaviour { refuses_each: Some(10), ..Http2Behaviour::default() });
    assert!(reissued >= 200, "{reissued}");
    // The server's SETTINGS give it before the first request.
    let (reissued, _) = run(Http2Behaviour { streams_max: Some(1), ..Http2Behaviour::default() });
    assert_eq!(reissued, 0);
}

#[test]
fn grpc_call_succeeds_by_its_own_status() {
    use GrpcAnswer::{NoStatus, Status, TrailersOnly};
    let plain = None;
    let cases: [(Option<GrpcAnswer>, &[&str], Option<&str>); 7] = [
        (Some(Status("0")), &[], None),
        (Some(Status("3")), &[], Some("gRPC INVALID_ARGUMENT: in words")),
        (Some(TrailersOnly("16")), &[], Some("gRPC UNAUTHENTICATED: in words")),
        (Some(Status("99")), &[], Some("gRPC status 99: in words")),
        (Some(NoStatus), &[], Some("gRPC UNKNOWN: HTTP status 200 and no grpc-status")),
        (plain, &[], None),
        // The answer is not one to a call.
        (
            plain,
            &["--header", "content-type: application/grpc+proto"],
            Some("gRPC UNKNOWN: HTTP status 200 and no grpc-status"),
        ),
    ];
    for (grpc, more, expected) in cases {
        let server = Http2::start(Http2Behaviour { grpc, ..Http2Behaviour::default() });
        let url = format!("http://{}", server.address);
        let mut command = bakeoff();
        command.args(["load", &url, "--http2", "--json", "--clients", "2", "--requests", "40"]);
        let ran = CommandOutput::run(command.args(more));
        let result: Value = serde_json::from_str(&ran.stdout).unwrap();
        let failed = if expected.is_some() { 40 } else { 0 };
        assert_eq!(count(&result["verified"]), 40 - failed, "{grpc:?}: {result:#}");
        assert_eq!(count(&result["errors"]["status"]), failed, "{grpc:?}");
        assert_eq!(count(&result["statuses"]["200"]), 40, "{grpc:?}: those of HTTP");
        let what = result["error_examples"][0]["what"].as_str();
        assert_eq!(what, expected, "{grpc:?}");
        if grpc.is_none() {
            continue;
        }
        let study = format!(
            "title: t\nsystems:\n  web: {{kind: http, endpoints: [\"{url}\"]}}\nworkloads:\n  calls: \
             {{mix: {{request: 1}}, request: {{path: /a.B/C, http2: true}}}}\nloads:\n  few: {{clients: 2, stop: {{operations: 40}}}}\ntrials: 1\n",
        );
        let ran = CommandOutput::run(&mut Bench::new(&study).command());
        let ran = ran.ends_with(i32::from(expected.is_some()));
        if let Some(what) = expected {
            ran.complains(&[what]);
        }
    }
}

#[test]
fn error_statuses_do_not_count_as_throughput() {
    let result = fails(Behaviour::Errors, &["status"], &["--warmup", "0s"]);
    let answered = count(&result["statuses"]["500"]);
    assert!(answered >= count(&result["requests"]), "{}", result["statuses"]);
}

#[test]
fn redirects_are_failures_unless_expected() {
    for behaviour in [Behaviour::Redirects, Behaviour::RedirectsNowhere] {
        let server = Hostile::start(behaviour);
        let (result, ran) = load(&server, &["--expect-status", "302", "--rate", "200"]);
        serves_well(&result, &ran);
        assert!(count(&result["verified"]) > 0);
        assert!(count(&result["statuses"]["302"]) >= count(&result["verified"]));
        let result = fails(behaviour, &["status"], &[]);
        let what = result["error_examples"][0]["what"].to_string();
        assert!(what.contains("status 302 (a redirect, which is not followed)"), "{what}");
    }
}

#[test]
fn closed_connections_are_failures() {
    let server = Hostile::start(Behaviour::ClosesAtOnce);
    let (result, ran) = load(&server, &[]);
    assert_eq!((count(&result["verified"]), &result["valid"]), (0, &Value::Bool(false)));
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    ran.ends_with(1);
}

#[test]
fn unrequested_answer_is_a_failure() {
    let server = Hostile::start(Behaviour::AnswersTwice);
    let (result, _) = load(&server, &[]);
    let (verified, asked) = (count(&result["verified"]), server.requests());
    assert!(verified <= asked, "{verified} successes of {asked} requests");
}

#[test]
fn reports_surplus_bytes_after_a_body() {
    let server = Hostile::start(Behaviour::AnswersTwice);
    let mut command = bakeoff();
    command.args(["load", &server.url(), "--clients", "4", "--for", "1s", "--timeout", "500ms"]);
    let ran = CommandOutput::run(&mut command);
    assert!(ran.stdout.contains("Connections lost or refused: "), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("an answer without a request: `HTTP/1.1 200 OK`"),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains("Errors: none"), "{}", ran.stdout);
}

/// Returns true if this machine's kernel delays acknowledgements on loopback, measured with a plain client.
fn delays_acknowledgements(server: &Hostile) -> bool {
    let mut socket = TcpStream::connect(server.address()).unwrap();
    let mut slow = || {
        let began = Instant::now();
        socket.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"hello") {
            let mut bytes = [0; 1024];
            let count = socket.read(&mut bytes).unwrap();
            answer.extend_from_slice(&bytes[..count]);
        }
        began.elapsed() >= Duration::from_millis(39)
    };
    (0..60).filter(|_| slow()).count() >= 20
}

#[test]
fn reports_delayed_acks_of_split_answers() {
    let server = Hostile::start(Behaviour::WritesTwice);
    if !delays_acknowledgements(&server) {
        return skipped("this machine acknowledges at once on loopback");
    }
    let url = server.url();
    // From the first request, and also on used connections.
    for warmup in ["0s", "3s"] {
        let arguments = ["load", &url, "-c", "8", "--for", "3s", "--warmup", warmup];
        let ran = CommandOutput::run(bakeoff().args(arguments));
        let cause = "ended 40 to 48 ms after they began: this is what a delayed ACK looks like";
        assert!(ran.stdout.contains(cause), "{warmup}: {}", ran.stdout);
        let ran = CommandOutput::run(bakeoff().args(arguments).arg("--json"));
        let result: Value = serde_json::from_str(&ran.stdout).unwrap();
        let share = result["delayed_ack_share"].as_f64().unwrap_or_default();
        assert!((0.3..=1.0).contains(&share), "{warmup}: {share}");
    }
    let ran = CommandOutput::run(bakeoff().args(["hey", "-c", "8", "-z", "2s", &url]));
    assert!(ran.stderr.contains("this is what a delayed ACK looks like"), "{ran:?}");
    let ran = CommandOutput::run(bakeoff().args(["wrk", "-c", "8", "-t", "2", "-d", "2s", &url]));
    assert!(ran.stderr.contains("this is what a delayed ACK looks like"), "{ran:?}");
    let (result, _) = load(&Hostile::start(Behaviour::Honest), &[]);
    assert_eq!(result["delayed_ack_share"], Value::Null);
}

#[test]
fn honest_server_of_these_tests_succeeds() {
    let server = Hostile::start(Behaviour::Honest);
    let (result, ran) = load(&server, &["--rate", "200"]);
    serves_well(&result, &ran);
    assert!(result["errors"].as_object().is_some_and(serde_json::Map::is_empty), "{result:#}");
    assert!(count(&result["verified"]) > 0 && count(&result["verified"]) <= server.requests());
}

/// Returns the answer to a simple client: all bytes until the end, or until a pause of `wait`.
fn ask(server: &Hostile, wait: Duration) -> (Vec<u8>, Option<ErrorKind>) {
    let mut socket = TcpStream::connect(server.address()).unwrap();
    socket.set_read_timeout(Some(wait)).unwrap();
    let mut bytes = Vec::new();
    let sent = socket.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let ended = sent.and_then(|()| socket.read_to_end(&mut bytes)).err().map(|e| e.kind());
    (bytes, ended)
}

#[test]
fn each_hostile_server_misbehaves_as_named() {
    let check = |behaviour, begins: &str, length: std::ops::Range<usize>, ended: &[ErrorKind]| {
        let server = Hostile::start(behaviour);
        let (bytes, seen) = ask(&server, Duration::from_millis(300));
        assert!(bytes.starts_with(begins.as_bytes()), "{behaviour:?}: {bytes:?}");
        assert!(length.contains(&bytes.len()), "{behaviour:?}: {} bytes", bytes.len());
        let expected = seen.map_or(ended.is_empty(), |seen| ended.contains(&seen));
        assert!(expected, "{behaviour:?}: {seen:?}");
        let began = Instant::now();
        drop(server);
        assert!(began.elapsed() < Duration::from_secs(5), "{behaviour:?} did not stop");
    };
    let open = &[ErrorKind::WouldBlock][..];
    let broken = &[ErrorKind::ConnectionReset, ErrorKind::BrokenPipe][..];
    check(Behaviour::Honest, "HTTP/1.1 200 OK", 40..80, open);
    check(Behaviour::Garbage, "\x16\x03\x01", 20..40, &[]);
    check(Behaviour::TruncatedBody, "HTTP/1.1 200 OK", 40..60, &[]);
    check(Behaviour::EndlessHeaders, "HTTP/1.1 200 OK", 10_000_000..10_000_100, &[]);
    let (_, seen) = ask(&Hostile::start(Behaviour::ClosesAtOnce), Duration::from_secs(5));
    assert!(seen.is_none_or(|seen| broken.contains(&seen)), "{seen:?}");
    check(Behaviour::ClosesUnanswered, "", 0..1, &[]);
    check(Behaviour::Resets, "", 0..1, broken);
    check(Behaviour::NeverAnswers, "", 0..1, open);
    check(Behaviour::Redirects, "HTTP/1.1 302 Found", 40..120, open);
    check(Behaviour::RedirectsNowhere, "HTTP/1.1 302 Found", 30..60, open);
    check(Behaviour::Errors, "HTTP/1.1 500", 40..80, open);
    check(Behaviour::BadLength, "HTTP/1.1 200 OK", 40..60, &[]);
    check(Behaviour::BadChunks, "HTTP/1.1 200 OK", 50..90, &[]);
    check(Behaviour::AnswersTwice, "HTTP/1.1 200 OK", 80..100, open);
    let server = Hostile::start(Behaviour::Drips);
    let began = Instant::now();
    let (bytes, seen) = ask(&server, Duration::from_secs(2));
    assert!(bytes.starts_with(b"HTTP/1.1 200 OK") && bytes.ends_with(b"dd"), "{bytes:?}");
    assert_eq!(
        (seen, began.elapsed() > Duration::from_secs(3)),
        (Some(ErrorKind::WouldBlock), true)
    );
}
