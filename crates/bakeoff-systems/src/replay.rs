//! Replays recorded bytes of real servers to sessions, for the tests in the folders.
//!
//! `transcript.bin` in a folder holds every byte that the server sent on one connection. The answers must not depend
//! on how the bytes are split. Altered bytes may end the session but must never cause a panic.
//!
//! Not here: older transcripts of sessions without a system (`crates/bakeoff-wire/tests`).

use std::fmt::Debug;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;

use bakeoff_core::study::Operation;
use bakeoff_engine::routes;
use bakeoff_engine::work::Tag;
use bakeoff_engine::works::keyed::{Answer, KvSession, Request};

use super::exchange::PATIENCE;
use super::{Access, System, running_system, testing};

pub(crate) fn request<'a>(operation: Operation, key: &'a [u8], value: &'a [u8]) -> Request<'a> {
    Request { number: 1, value, ..Request::new(operation, key) }
}

/// Sends all requests at once, and compares the answers to a folder's `transcript.bin`: whole, in pieces of 1 to 40
/// bytes, and with random alterations. `BAKEOFF_RECORD=1` first records a new transcript from a real server.
pub(crate) fn check<S: KvSession>(
    system: &'static dyn System,
    make: impl Fn() -> S,
    requests: &[Request<'_>],
    expected: &[&str],
) {
    let folder = system.kind().name.replace('-', "_");
    let systems = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let path = systems.join(folder).join("transcript.bin");
    if std::env::var_os("BAKEOFF_RECORD").is_some() {
        record(system, make(), requests, &path);
    }
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let heard = |pieces: &mut dyn Iterator<Item = &[u8]>| answers(&mut make(), requests, pieces);
    assert_eq!(heard(&mut [&bytes[..]].into_iter()), (texts(expected), None), "whole");
    for size in 1..=40 {
        let cut = heard(&mut bytes.chunks(size));
        assert_eq!(cut, (texts(expected), None), "in pieces of {size}");
    }
    bakeoff_fuzz::run(system.kind().name, &[&bytes], &["\r\n", " ", "\0"], |input| {
        let (whole, cut) = (heard(&mut [input].into_iter()), heard(&mut input.chunks(7)));
        assert_eq!(whole, cut, "a split input gives the same answers");
    });
}

fn texts(expected: &[&str]) -> Vec<String> {
    expected.iter().map(|&text| text.to_owned()).collect()
}

/// Returns the answers as texts, and the error that ended the session.
fn answers<S: KvSession>(
    session: &mut S,
    requests: &[Request<'_>],
    pieces: &mut dyn Iterator<Item = &[u8]>,
) -> (Vec<String>, Option<String>) {
    let mut out = Vec::new();
    ask(session, requests, &mut out);
    let mut seen = Vec::new();
    for piece in pieces {
        let on = &mut |tag, answer: Answer<'_>| seen.push(format!("{tag} {}", text(answer)));
        if let Err(error) = session.receive(piece, &mut out, on) {
            let again = session.receive(b"", &mut out, &mut |_, _| {});
            assert!(again.is_err(), "an error must be permanent");
            return (seen, Some(error.what));
        }
    }
    (seen, None)
}

fn ask<S: KvSession>(session: &mut S, requests: &[Request<'_>], out: &mut Vec<u8>) {
    session.open(out);
    for (tag, request) in (1..).zip(requests) {
        assert!(session.request(tag as Tag, request, out), "request {tag} was refused");
    }
}

/// Returns an answer as text; for a long value, only its length.
fn text(answer: Answer<'_>) -> String {
    let value = |value: &[u8]| match value.len() {
        0..=60 => value.escape_ascii().to_string(),
        length => format!("{length} bytes"),
    };
    fn debug(name: &str, what: impl Debug) -> String {
        format!("{name} {what:?}")
    }
    match answer {
        Answer::Done => "done".to_owned(),
        Answer::Value(bytes) => format!("value {}", value(bytes)),
        Answer::Versioned(bytes, version) => format!("value {} version {version}", value(bytes)),
        Answer::DoneAt(place) => format!("done at {place}"),
        Answer::Conflict => "conflict".to_owned(),
        Answer::Recreated => "recreated".to_owned(),
        Answer::MissingAt(place) => format!("missing at {place}"),
        Answer::Missing => "missing".to_owned(),
        Answer::Names(names) => debug("names", names.map(value).collect::<Vec<_>>()),
        Answer::Pairs(pairs) => {
            debug("pairs", pairs.map(|(key, _)| value(key)).collect::<Vec<_>>())
        }
        Answer::Group(values, version) => {
            let values = values.map(|one| one.map(value)).collect::<Vec<_>>();
            debug(&format!("group with version {version}:"), values)
        }
        Answer::Unprocessed(why) => format!("unprocessed: {why}"),
        Answer::Refused(_, why) => format!("refused: {why}"),
        Answer::Failed(_, why) => format!("failed: {why}"),
        Answer::Granted(name) => format!("granted {name}"),
        Answer::Again => "again".to_owned(),
        Answer::Held { token, .. } => format!("held with token {token}"),
        Answer::NotHeld { at_grant } => debug("not held, at the grant:", at_grant),
        Answer::LeaseExpired(lasts) => format!("the lease of {lasts:?} expired"),
    }
}

/// Sends all requests at once to a running server. Returns the answers as texts, and the server's bytes.
pub(crate) fn ask_server<S: KvSession>(
    mut session: S,
    requests: &[Request<'_>],
    node: &Access,
) -> (Vec<String>, Vec<u8>) {
    let mut socket = routes::connect(node.target.address, PATIENCE).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut out, mut seen, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    ask(&mut session, requests, &mut out);
    let mut buffer = [0; 64 << 10];
    while seen.len() < requests.len() {
        socket.write_all(&out).unwrap();
        out.clear();
        let count = socket.read(&mut buffer).unwrap();
        assert!(count > 0, "the server closed after {seen:?}");
        bytes.extend_from_slice(&buffer[..count]);
        let on = &mut |tag, answer: Answer<'_>| seen.push(format!("{tag} {}", text(answer)));
        session.receive(&buffer[..count], &mut out, on).unwrap();
    }
    (seen, bytes)
}

/// Starts the system, sends the requests and stores all received bytes.
fn record<S: KvSession>(
    system: &'static dyn System,
    session: S,
    requests: &[Request<'_>],
    path: &Path,
) {
    let program = testing::program(system, &[]).expect("its program is found");
    let study_system = testing::study_system(system.kind().name, 1, &[]);
    let running = running_system::start(system, &study_system, Some(program));
    let (_, bytes) = ask_server(session, requests, &running.ready.nodes[0]);
    fs::write(path, bytes).unwrap();
    running.stopped();
}
