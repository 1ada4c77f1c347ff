//! Feeds the decoder a canary's frames, whole and in pieces. What was read must be written as it was.
#![no_main]

mod cuts;

use bakeoff_wire::canary::{self, Session};
use libfuzzer_sys::fuzz_target;

fn outcome<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, bool) {
    let mut session = Session::default();
    let mut seen = Vec::new();
    session.receive(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", &mut |_| Ok(())).unwrap();
    for piece in pieces {
        let received = session.receive(piece, &mut |frame| {
            let mut bytes = Vec::new();
            frame.write(&mut bytes);
            seen.push(bytes);
            Ok(())
        });
        if received.is_err() {
            assert!(session.receive(b"", &mut |_| Ok(())).is_err());
            return (seen, false);
        }
    }
    (seen, true)
}

fuzz_target!(|input: &[u8]| {
    let (frames, is_whole) = outcome([input].into_iter());
    assert!(input.starts_with(&frames.concat()));
    assert_eq!((frames, is_whole), outcome(cuts::cuts(input)));
    Session::default().receive(input, &mut |_| Ok(())).ok();
    canary::read(input).ok();
});
