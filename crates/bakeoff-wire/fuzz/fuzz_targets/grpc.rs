//! Feeds the decoder a gRPC server's answers to the calls of the transcripts, whole and in pieces.
#![no_main]

#[path = "../../tests/transcripts/asked.rs"]
#[allow(dead_code)]
mod asked;
mod cuts;

use bakeoff_wire::grpc::Client;
use libfuzzer_sys::fuzz_target;

fn outcome<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, bool) {
    let mut client = Client::new("localhost", false, &[("a", "b")]);
    let mut out = Vec::new();
    client.open(&mut out);
    for (path, message) in asked::etcd() {
        let method = client.method(path);
        client.call(method, &message, &mut out).unwrap();
    }
    let mut seen = Vec::new();
    for piece in pieces {
        let result = client.receive(piece, &mut out, &mut |call, result| {
            if let Err(status) = &result {
                // A server may say what it likes, but success is no failure.
                assert!(status.code != 0, "a failure with the code of success");
            }
            seen.push(format!("{call:?} {result:?}"));
        });
        if result.is_err() {
            return (seen, false);
        }
    }
    (seen, true)
}

fuzz_target!(|input: &[u8]| {
    assert_eq!(outcome([input].into_iter()), outcome(cuts::cuts(input)));
});
