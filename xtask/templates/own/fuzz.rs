//! Feeds the decoder a Newcomer server's answers to the requests of the transcript, whole and in pieces.
#![no_main]

#[path = "../../tests/transcripts/asked.rs"]
#[allow(dead_code)]
mod asked;
mod cuts;

use bakeoff_wire::newcomer::Session;
use libfuzzer_sys::fuzz_target;

fn outcome<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, bool) {
    let mut session = Session::default();
    let mut out = Vec::new();
    for (words, value) in asked::NEWCOMER {
        let _ = session.request(words, *value, &mut out);
    }
    let mut seen = Vec::new();
    for piece in pieces {
        if session.receive(piece, &mut |reply| seen.push(format!("{reply:?}"))).is_err() {
            assert!(session.receive(b"", &mut |_| {}).is_err());
            return (seen, false);
        }
    }
    (seen, true)
}

fuzz_target!(|input: &[u8]| {
    assert_eq!(outcome([input].into_iter()), outcome(cuts::cuts(input)));
});
