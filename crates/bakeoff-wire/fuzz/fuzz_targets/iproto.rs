//! Feeds the decoder a Tarantool server's answers to the requests of the transcripts, whole and in pieces, and any
//! bytes to the MessagePack decoder. The requests are sent after the greeting and one more packet.
#![no_main]

#[path = "../../tests/transcripts/requests.rs"]
#[allow(dead_code)]
mod requests;
mod cuts;

use bakeoff_wire::iproto::{Event, Request};
use bakeoff_wire::msgpack;
use libfuzzer_sys::fuzz_target;

fn outcome<'a>(first: &[u8], pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, bool) {
    let mut session = requests::iproto();
    let mut out = Vec::new();
    let mut seen = Vec::new();
    let mut on = |event: Event<'_>| {
        seen.push(match event {
            Event::Answer { sync, result: Ok(data) } => {
                assert_eq!(data.len(), data.clone().count());
                format!("{sync:?} {:?}", data.collect::<Vec<_>>())
            }
            event => format!("{event:?}"),
        });
    };
    if session.receive(first, &mut out, &mut on).is_err() {
        return (seen, false);
    }
    for (place, request) in requests::iproto_asks().into_iter().enumerate() {
        if let Ok(sync) = session.request(request, &mut out)
            && place % 5 == 4
        {
            session.give_up(sync);
        }
    }
    for piece in pieces {
        if session.receive(piece, &mut out, &mut on).is_err() {
            assert!(session.receive(b"", &mut out, &mut |_| {}).is_err());
            assert!(session.request(Request::Ping, &mut out).is_err());
            return (seen, false);
        }
    }
    (seen, true)
}

/// Visits all parts of a value, which must be complete.
fn walk(value: msgpack::Value<'_>) {
    match value {
        msgpack::Value::Array(values) => {
            assert_eq!(values.len(), values.clone().count());
            values.for_each(walk);
        }
        msgpack::Value::Map(entries) => {
            assert_eq!(entries.len(), entries.clone().count());
            entries.for_each(|(key, value)| {
                walk(key);
                walk(value);
            });
        }
        _ => {}
    }
}

fuzz_target!(|input: &[u8]| {
    let (first, rest) = input.split_at(requests::iproto_begins(input));
    assert_eq!(outcome(first, [rest].into_iter()), outcome(first, cuts::cuts(rest)));
    if let Ok((value, rest)) = msgpack::read(input) {
        let mut again = Vec::new();
        msgpack::put(&value, &mut again);
        assert!(again.len() <= input.len() - rest.len() + 4);
        walk(value);
    }
});
