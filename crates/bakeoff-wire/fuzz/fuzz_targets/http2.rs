//! Feeds the decoder an HTTP/2 server's answers to four requests, whole and in pieces. Two requests have bodies
//! larger than its windows. Events and answers must be the same.
#![no_main]

mod cuts;

use bakeoff_wire::http2::{Connection, Event, Settings};
use libfuzzer_sys::fuzz_target;

fn outcome<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, Vec<u8>, bool) {
    let mut connection =
        Connection::new(Settings { max_streams: 5, max_body: 30_000, kept_body: 20_000, ..Settings::default() });
    let mut out = Vec::new();
    connection.open(&mut out);
    let get = connection.prepare(&[(":method", "GET"), ("a", "b")]);
    let put = connection.prepare(&[(":method", "PUT")]);
    for _ in 0..2 {
        connection.request(get, &[], &mut out).unwrap();
        connection.request(put, &[&[7; 50_000]], &mut out).unwrap();
    }
    let mut seen = Vec::new();
    let mut over = Vec::new();
    for piece in pieces {
        let result = connection.receive(piece, &mut out, &mut |stream, event| {
            assert!(!over.contains(&stream), "two ends of one stream");
            over.push(stream);
            seen.push(match event {
                Event::Response(response) => {
                    let fields: Vec<_> =
                        response.headers.iter().chain(response.trailers.iter()).collect();
                    format!("{stream:?} {} {fields:?} {:?}", response.status, response.body)
                }
                event => format!("{stream:?} {event:?}"),
            });
        });
        if result.is_err() {
            assert!(connection.receive(b"", &mut out, &mut |_, _| {}).is_err());
            assert_eq!(connection.capacity(), 0);
            return (seen, out, false);
        }
    }
    assert_eq!(connection.in_flight() + over.len(), 4);
    assert!(connection.capacity() + connection.in_flight() <= 5);
    (seen, out, true)
}

fuzz_target!(|input: &[u8]| {
    assert_eq!(outcome([input].into_iter()), outcome(cuts::cuts(input)));
});
