//! Feeds the decoder a Redis server's answers to the commands of the transcript, whole and in pieces.
#![no_main]

#[path = "../../tests/transcripts/requests.rs"]
#[allow(dead_code)]
mod requests;
mod cuts;

use bakeoff_wire::resp::{Reply, Session};
use libfuzzer_sys::fuzz_target;

/// Visits all parts of an array, which must be readable.
fn walk(reply: &Reply<'_>) {
    if let Reply::Array(replies) | Reply::Push(replies) = reply {
        assert_eq!(replies.len(), replies.clone().count());
        replies.clone().for_each(|reply| walk(&reply));
    }
}

fn outcome<'a>(
    mut session: Session,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<String>, bool) {
    let mut out = Vec::new();
    for words in requests::RESP {
        let _ = session.request(words, &mut out);
    }
    let mut seen = Vec::new();
    let mut on = |reply: Reply<'_>| {
        walk(&reply);
        seen.push(format!("{reply:?}"));
    };
    for piece in pieces {
        if session.receive(piece, &mut on).is_err() {
            assert!(session.receive(b"", &mut |_| {}).is_err());
            return (seen, false);
        }
    }
    (seen, true)
}

fuzz_target!(|input: &[u8]| {
    // An array's text includes the bytes after it, which differ between pieces, so only the end is compared.
    for new in [Session::default, Session::version_3] {
        let (whole, cut) = (outcome(new(), [input].into_iter()), outcome(new(), cuts::cuts(input)));
        assert_eq!((whole.0.len(), whole.1), (cut.0.len(), cut.1));
    }
});
