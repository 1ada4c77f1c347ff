//! Feeds the decoder a PostgreSQL server's answers to the queries of the transcripts, whole and in pieces. The nonce
//! is the transcripts', so that the server's proof is valid.
#![no_main]

#[path = "../../tests/transcripts/requests.rs"]
#[allow(dead_code)]
mod requests;
mod cuts;

use bakeoff_wire::postgres::Event;
use libfuzzer_sys::fuzz_target;

/// Returns the answers, the requests, and whether the protocol was kept.
fn outcome<'a, P: Iterator<Item = &'a [u8]>>(
    input: &'a [u8],
    cut: impl Fn(&'a [u8]) -> P,
) -> (Vec<String>, Vec<u8>, bool) {
    let mut session = requests::postgres();
    let mut out = Vec::new();
    session.open(&mut out);
    let mut seen = Vec::new();
    let mut questions = requests::POSTGRES.iter();
    for turn in requests::postgres_turns(input) {
        for piece in cut(turn) {
            let taken = session.receive(piece, &mut out, &mut |event| {
                seen.push(match event {
                    Event::Row(row) => format!("{:?}", row.collect::<Vec<_>>()),
                    event => format!("{event:?}"),
                });
            });
            if taken.is_err() {
                assert!(session.receive(b"", &mut out, &mut |_| {}).is_err());
                assert!(!session.query("SELECT 1", &mut out));
                // The pieces before the error may have been answered already.
                return (seen, out, false);
            }
        }
        if let Some(question) = questions.next() {
            session.query(question, &mut out);
        }
    }
    (seen, out, true)
}

fuzz_target!(|input: &[u8]| {
    assert_eq!(outcome(input, |turn| [turn].into_iter()), outcome(input, cuts::cuts));
});
