//! Feeds the decoder a ZooKeeper server's answers to the requests of the transcripts, whole and in pieces. The
//! requests are sent after the first 41 bytes, normally the reply to the connection request. One for a watch precedes
//! their last one, which ends the session.
#![no_main]

#[path = "../../tests/transcripts/requests.rs"]
#[allow(dead_code)]
mod requests;
mod cuts;

use bakeoff_wire::zookeeper::{Event, Reply, Request, Session, WatchMode};
use libfuzzer_sys::fuzz_target;

fn outcome<'a>(first: &[u8], pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, bool) {
    let mut session = Session::new(10_000);
    let mut out = Vec::new();
    session.open(&mut out);
    let mut seen = Vec::new();
    let mut on = |event: Event<'_>| {
        seen.push(match event {
            Event::Reply { xid, result: Ok(Reply::Children(names)), .. } => {
                assert_eq!(names.len(), names.clone().count());
                format!("{xid:?} {:?}", names.collect::<Vec<_>>())
            }
            event => format!("{event:?}"),
        });
    };
    if session.receive(first, &mut out, &mut on).is_err() {
        return (seen, false);
    }
    let mut requests = requests::zookeeper();
    let watch = Request::AddWatch { path: "/bakeoff", mode: WatchMode::PersistentRecursive };
    requests.insert(requests.len().saturating_sub(1), Some(watch));
    for request in requests {
        match request {
            Some(request) => _ = session.request(request, &mut out),
            None => session.ping(&mut out),
        }
    }
    for piece in pieces {
        if session.receive(piece, &mut out, &mut on).is_err() {
            assert!(session.receive(b"", &mut out, &mut |_| {}).is_err());
            return (seen, false);
        }
    }
    (seen, true)
}

fuzz_target!(|input: &[u8]| {
    let (first, rest) = input.split_at(input.len().min(41));
    assert_eq!(outcome(first, [rest].into_iter()), outcome(first, cuts::cuts(rest)));
});
