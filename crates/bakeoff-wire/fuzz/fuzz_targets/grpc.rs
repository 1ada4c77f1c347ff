//! Feeds the decoder a gRPC server's answers to the calls of the transcripts, whole and in pieces. A second pass
//! makes every other call a streaming one.
#![no_main]

#[path = "../../tests/transcripts/requests.rs"]
#[allow(dead_code)]
mod requests;
mod cuts;

use bakeoff_wire::grpc::{CallReply, Client};
use libfuzzer_sys::fuzz_target;

fn outcome<'a>(streaming: bool, pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, bool) {
    let mut client = Client::new("localhost", false, &[("a", "b")]);
    let mut out = Vec::new();
    client.open(&mut out);
    let mut streams = Vec::new();
    for (place, (path, message)) in requests::etcd().into_iter().enumerate() {
        let method = client.method(path);
        if streaming && place % 2 == 0 {
            streams.push(client.call_streaming(method, &message, &mut out).unwrap());
        } else {
            client.call(method, &message, &mut out).unwrap();
        }
    }
    let mut seen = Vec::new();
    for piece in pieces {
        let result = client.receive_replies(piece, &mut out, &mut |call, reply| {
            if let CallReply::Answer(Err(status)) | CallReply::Ended(Err(status)) = &reply {
                // A server may send any status, but success is not a failure.
                assert!(status.code != 0, "a failure with the code of success");
            }
            // A finished call reports nothing more.
            assert_eq!(streams.contains(&call), !matches!(reply, CallReply::Answer(_)));
            if matches!(reply, CallReply::Ended(_)) {
                streams.retain(|stream| *stream != call);
            }
            seen.push(format!("{call:?} {reply:?}"));
        });
        if result.is_err() {
            return (seen, false);
        }
    }
    (seen, true)
}

fuzz_target!(|input: &[u8]| {
    for streaming in [false, true] {
        let whole = outcome(streaming, [input].into_iter());
        assert_eq!(whole, outcome(streaming, cuts::cuts(input)));
    }
});
