//! Feeds the decoder a NATS server's answers to a client, whole and in pieces.
#![no_main]

mod cuts;

use bakeoff_wire::nats::{Event, Session};
use libfuzzer_sys::fuzz_target;

/// Returns all events, whether the session continues, and its answers.
fn outcome<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, bool, Vec<u8>) {
    let mut session = Session::default();
    let mut out = Vec::new();
    let mut seen = Vec::new();
    let mut on = |event: Event<'_>| {
        if let Event::Message(message) = &event {
            let headers = message.headers;
            let _ = (headers.status(), headers.description(), headers.get("KV-Operation"));
        }
        seen.push(format!("{event:?}"));
    };
    for piece in pieces {
        if session.receive(piece, &mut out, &mut on).is_err() {
            assert!(session.receive(b"", &mut out, &mut |_| {}).is_err());
            return (seen, false, out);
        }
    }
    (seen, true, out)
}

fuzz_target!(|input: &[u8]| {
    assert_eq!(outcome([input].into_iter()), outcome(cuts::cuts(input)));
});
