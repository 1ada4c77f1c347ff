//! Feeds the decoder an HTTP/1.1 response, whole and in pieces, to GET or (if its length is odd) to HEAD.
#![no_main]

mod cuts;

use bakeoff_wire::http1::{Connection, Limits, Response};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { max_head: 2000, max_body: 5000, kept_body: 4000 };

fn outcome<'a>(is_head: bool, pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, bool) {
    let mut connection = Connection::new(LIMITS);
    let mut out = Vec::new();
    connection.send_raw(is_head, b"x", &mut out).unwrap();
    let mut seen = Vec::new();
    let mut on = |response: Response<'_>| {
        assert!(response.body.len() <= response.length && response.length <= LIMITS.max_body);
        let fields: Vec<_> = response.headers.iter().collect();
        seen.push(format!(
            "{} {fields:?} {:?} {}",
            response.status, response.body, response.keep_alive
        ));
    };
    for piece in pieces {
        if connection.receive(piece, &mut out, &mut on).is_err() {
            assert!(connection.is_over());
            assert!(connection.receive(b"", &mut out, &mut on).is_err());
            return (seen, false);
        }
    }
    let closed = connection.closed(&mut on).is_ok();
    (seen, closed)
}

fuzz_target!(|input: &[u8]| {
    let is_head = input.len() % 2 == 1 && input.len() > 300;
    assert_eq!(outcome(is_head, [input].into_iter()), outcome(is_head, cuts::cuts(input)));
});
