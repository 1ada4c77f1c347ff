//! Tests [`super`] against a scripted server. The replays of real servers are in `tests/`.

use super::*;
use crate::hpack::Encoder;
use proptest::prelude::*;

type Fields<'a> = &'a [(&'a str, &'a str)];

fn frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
    bytes.extend([0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream]);
    bytes.extend(payload);
}

fn block(fields: Fields<'_>) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        Encoder::new(4096).encode_once(name.as_bytes(), value.as_bytes(), &mut block);
    }
    block
}

/// Answers one call with headers, a body and trailers. Without trailers it sends only the headers.
fn check(
    headers: Fields<'_>,
    body: &[u8],
    trailers: Fields<'_>,
    expected: Result<&[u8], (u32, &str)>,
) {
    let mut client = Client::new("localhost", false, &[("token", "secret")]);
    let mut out = Vec::new();
    client.open(&mut out);
    let method = client.method("/service/Method");
    let call = client.call(method, b"request", &mut out).unwrap();
    let mut peer = Vec::new();
    frame(&mut peer, 4, 0, 0, &[]);
    frame(&mut peer, 1, if trailers.is_empty() { 5 } else { 4 }, 1, &block(headers));
    if !trailers.is_empty() {
        frame(&mut peer, 0, 0, 1, body);
        frame(&mut peer, 1, 5, 1, &block(trailers));
    }
    let mut seen = 0;
    client
        .receive(&peer, &mut out, &mut |id, result| {
            assert_eq!(id, call);
            let result = result.map_err(|status| (status.code, status.message.into_owned()));
            assert_eq!(result, expected.map_err(|(code, text)| (code, text.to_owned())));
            seen += 1;
        })
        .unwrap();
    assert_eq!(seen, 1);
    assert_eq!(client.in_flight(), 0);
}

const OK: Fields<'_> = &[(":status", "200"), ("content-type", "application/grpc")];
const DONE: Fields<'_> = &[("grpc-status", "0"), ("grpc-message", "")];

#[test]
fn message_with_status_0_is_a_success() {
    check(OK, b"\0\0\0\0\x05hello", DONE, Ok(b"hello"));
    check(OK, b"\0\0\0\0\0", DONE, Ok(b""));
}

#[test]
fn status_is_read_from_trailers_or_headers() {
    let fields: Fields<'_> = &[("grpc-status", "5"), ("grpc-message", "no%20such%E2%82%AC %zz%")];
    check(OK, b"", fields, Err((5, "no such\u{20ac} %zz%")));
    let fields: Fields<'_> = &[(":status", "200"), ("grpc-status", "14")];
    check(fields, b"", &[], Err((14, "")));
}

#[test]
fn http_status_without_grpc_status_is_mapped() {
    for (status, code) in [("503", 14), ("404", 12), ("401", 16), ("200", 2), ("418", 2)] {
        let text = format!("HTTP status {status} and no grpc-status");
        check(&[(":status", status)], b"", &[], Err((code, &text)));
    }
}

#[test]
fn call_is_encoded_as_grpc_specifies() {
    let mut client = Client::new("localhost:1", false, &[("token", "secret")]);
    let mut out = Vec::new();
    let method = client.method("/service/Method");
    client.call(method, b"message", &mut out).unwrap();
    let (headers, data) = out.split_at(9 + usize::from(out[2]));
    let mut fields = crate::hpack::HeaderBlock::new();
    crate::hpack::Decoder::new(4096, 1000).decode(&headers[9..], &mut fields).unwrap();
    let expected: Fields<'_> = &[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/service/Method"),
        (":authority", "localhost:1"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("user-agent", concat!("bakeoff/", env!("CARGO_PKG_VERSION"))),
        ("token", "secret"),
    ];
    let expected = expected.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    assert!(fields.view().iter().eq(expected));
    assert_eq!(data, b"\0\0\x0c\0\x01\0\0\0\x01\0\0\0\0\x07message");
}

#[test]
fn reset_call_gets_the_status_of_its_cause() {
    for (http2_code, code) in [(7, 14), (8, 1), (11, 8), (12, 7), (2, 13)] {
        let mut client = Client::new("localhost", true, &[]);
        let mut out = Vec::new();
        let method = client.method("/service/Method");
        client.call(method, b"", &mut out).unwrap();
        let mut peer = Vec::new();
        frame(&mut peer, 4, 0, 0, &[]);
        frame(&mut peer, 3, 0, 1, &[0, 0, 0, http2_code]);
        let mut seen = Vec::new();
        client.receive(&peer, &mut out, &mut |_, r| seen.push(r.unwrap_err().code)).unwrap();
        assert_eq!(seen, [code]);
    }
}

#[test]
fn malformed_success_is_an_error() {
    check(OK, b"", DONE, Err((13, "success without a message")));
    check(OK, b"\0\0\0", DONE, Err((13, "success without a message")));
    let whole = Err((13, "not exactly one whole message"));
    check(OK, b"\0\0\0\0\x05hell", DONE, whole);
    check(OK, b"\0\0\0\0\x01a\0\0\0\0\0", DONE, whole);
    let compressed = Err((13, "a compressed message, which was not offered"));
    check(OK, b"\x01\0\0\0\x01a", DONE, compressed);
    check(OK, b"", &[("grpc-status", "00")], Err((2, "a grpc-status that is not a code")));
    check(OK, b"", &[("grpc-status", "x")], Err((2, "a grpc-status that is not a code")));
}

/// Returns the events of a streaming call and a unary call next to it.
fn replies(client: &mut Client, peer: &[u8], out: &mut Vec<u8>) -> Vec<String> {
    let mut seen = Vec::new();
    client
        .receive_replies(peer, out, &mut |call, reply| {
            let number = call.number();
            seen.push(match reply {
                CallReply::Message(message) => {
                    format!("{number} message {}", message.escape_ascii())
                }
                CallReply::Ended(Ok(())) => format!("{number} ended"),
                CallReply::Ended(Err(status)) => format!("{number} ended: {status}"),
                CallReply::Answer(Ok(message)) => {
                    format!("{number} answer {}", message.escape_ascii())
                }
                CallReply::Answer(Err(status)) => format!("{number} answer: {status}"),
            });
        })
        .unwrap();
    seen
}

/// Returns a client with a streaming call, 1, and a unary call, 3. Messages may have 100 bytes.
fn with_a_stream(out: &mut Vec<u8>) -> (Client, CallId) {
    let settings = http2::Settings { max_body: 100, ..http2::Settings::default() };
    let mut client = Client::with_settings("localhost", false, &[], settings);
    client.open(out);
    let method = client.method("/service/Method");
    let stream = client.call_streaming(method, b"watch", out).unwrap();
    client.call(method, b"request", out).unwrap();
    (client, stream)
}

/// Answers the streaming call with DATA frames, then lets the peer send `after`.
fn check_stream(pieces: &[&[u8]], after: impl Fn(&mut Vec<u8>), expected: &[&str]) {
    let mut peer = Vec::new();
    frame(&mut peer, 4, 0, 0, &[]);
    frame(&mut peer, 1, 4, 1, &block(OK));
    for piece in pieces {
        frame(&mut peer, 0, 0, 1, piece);
    }
    after(&mut peer);
    for size in [1, 2, 7, peer.len()] {
        let mut out = Vec::new();
        let (mut client, _) = with_a_stream(&mut out);
        let seen: Vec<String> =
            peer.chunks(size).flat_map(|some| replies(&mut client, some, &mut out)).collect();
        assert_eq!(seen, expected, "in pieces of {size}");
        // Finished streams are forgotten, others continue.
        let over = expected.iter().any(|reply| reply.starts_with("1 ended"));
        assert_eq!(client.streaming.is_empty(), over);
    }
}

#[test]
fn messages_of_a_stream_are_split_for_any_framing() {
    let nothing = |_: &mut Vec<u8>| {};
    check_stream(&[b"\0\0\0\0\x02ab"], nothing, &["1 message ab"]);
    let three = &["1 message ab", "1 message ", "1 message c"];
    check_stream(&[b"\0\0\0\0\x02ab\0\0\0\0\0\0\0\0\0\x01c"], nothing, three);
    check_stream(&[b"\0\0", b"\0\0\x02a", b"b\0\0\0\0\0\0", b"\0\0\0\x01", b"c"], nothing, three);
    check_stream(&[b"", b"\0\0\0\0\x02a"], nothing, &[]);
}

#[test]
fn stream_does_not_affect_unary_calls() {
    let other = |peer: &mut Vec<u8>| {
        frame(peer, 1, 4, 3, &block(OK));
        frame(peer, 0, 0, 3, b"\0\0\0\0\x05hello");
        frame(peer, 1, 5, 3, &block(DONE));
        frame(peer, 0, 0, 1, b"b");
    };
    check_stream(&[b"\0\0\0\0\x02a"], other, &["3 answer hello", "1 message ab"]);
}

#[test]
fn stream_ends_with_its_status() {
    let trailers =
        |fields: Fields<'static>| move |peer: &mut Vec<u8>| frame(peer, 1, 5, 1, &block(fields));
    let hello: &[u8] = b"\0\0\0\0\x05hello";
    check_stream(&[hello], trailers(DONE), &["1 message hello", "1 ended"]);
    let gone: Fields<'_> = &[("grpc-status", "14"), ("grpc-message", "gone")];
    check_stream(&[], trailers(gone), &["1 ended: gRPC UNAVAILABLE: gone"]);
    let reset = |peer: &mut Vec<u8>| frame(peer, 3, 0, 1, &[0, 0, 0, 8]);
    let expected = "1 ended: gRPC CANCELLED: stream reset with HTTP/2 code 8";
    check_stream(&[hello], reset, &["1 message hello", expected]);
    let cut = "1 ended: gRPC INTERNAL: the call ended within a message";
    check_stream(&[b"\0\0\0\0\x05hell"], trailers(DONE), &[cut]);
}

#[test]
fn malformed_message_ends_only_its_stream() {
    let after = |peer: &mut Vec<u8>| {
        frame(peer, 0, 0, 1, b"\0\0\0\0\x01a");
        frame(peer, 1, 5, 1, &block(DONE));
    };
    let ended = "1 ended: gRPC INTERNAL: a compressed message, which was not offered";
    check_stream(&[b"\x01\0\0\0\x01a"], after, &[ended]);
    let ended = "1 ended: gRPC INTERNAL: a message larger than the limit";
    check_stream(&[b"\0\0\0\0\x01a", b"\0\0\0\0\x65"], after, &["1 message a", ended]);
    let mut out = Vec::new();
    let (mut client, _) = with_a_stream(&mut out);
    out.clear();
    let mut peer = Vec::new();
    frame(&mut peer, 4, 0, 0, &[]);
    frame(&mut peer, 1, 4, 1, &block(OK));
    frame(&mut peer, 0, 0, 1, b"\0\0\0\0\x65");
    replies(&mut client, &peer, &mut out);
    assert!(out.ends_with(b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08"), "RST_STREAM with CANCEL");
    assert_eq!(client.in_flight(), 1);
}

#[test]
fn body_of_an_http_error_is_not_a_message() {
    let mut out = Vec::new();
    let (mut client, _) = with_a_stream(&mut out);
    let mut peer = Vec::new();
    frame(&mut peer, 4, 0, 0, &[]);
    frame(&mut peer, 1, 4, 1, &block(&[(":status", "503")]));
    frame(&mut peer, 0, 1, 1, b"<html>\0\0\0");
    let expected = "1 ended: gRPC UNAVAILABLE: HTTP status 503 and no grpc-status";
    assert_eq!(replies(&mut client, &peer, &mut out), [expected]);
}

#[test]
fn windows_of_a_long_stream_are_replenished() {
    let mut out = Vec::new();
    let (mut client, stream) = with_a_stream(&mut out);
    let mut peer = Vec::new();
    frame(&mut peer, 4, 0, 0, &[]);
    frame(&mut peer, 1, 4, 1, &block(OK));
    replies(&mut client, &peer, &mut out);
    out.clear();
    let mut peer = Vec::new();
    frame(&mut peer, 0, 0, 1, &[&[0, 0, 0, 0, 100][..], &[b'x'; 100]].concat());
    let mut updates = 0;
    // More than six times the first window of 65,535 bytes.
    for _ in 0..4000 {
        assert_eq!(replies(&mut client, &peer, &mut out).len(), 1);
        updates += out.windows(9).filter(|some| *some == b"\0\0\x04\x08\0\0\0\0\x01").count();
        out.clear();
    }
    assert!((6..20).contains(&updates), "{updates} updates of the stream's window");
    client.cancel(stream, &mut out);
    assert!(replies(&mut client, &peer, &mut out).is_empty() && client.streaming.is_empty());
}

proptest! {
    #[test]
    fn any_split_of_any_stream_gives_the_same_replies(
        // Mostly short uncompressed messages, some with wrong lengths.
        messages in proptest::collection::vec(
            (0u8..20, 0u8..4, proptest::collection::vec(any::<u8>(), 0..120)), 0..12),
        frame_size in 1usize..80,
        size in 1usize..90,
        ends: bool,
    ) {
        let mut body = Vec::new();
        for (lie, compressed, message) in messages {
            let length = message.len() as u8 + u8::from(lie == 1);
            body.extend([u8::from(lie == 0 && compressed == 1), 0, 0, 0, length]);
            body.extend(message);
        }
        let mut peer = Vec::new();
        frame(&mut peer, 4, 0, 0, &[]);
        frame(&mut peer, 1, 4, 1, &block(OK));
        for piece in body.chunks(frame_size) {
            frame(&mut peer, 0, 0, 1, piece);
        }
        if ends {
            frame(&mut peer, 1, 5, 1, &block(DONE));
        }
        let mut whole_out = Vec::new();
        let (mut client, _) = with_a_stream(&mut whole_out);
        let whole = replies(&mut client, &peer, &mut whole_out);
        let mut out = Vec::new();
        let (mut client, _) = with_a_stream(&mut out);
        let split: Vec<String> =
            peer.chunks(size).flat_map(|some| replies(&mut client, some, &mut out)).collect();
        prop_assert_eq!(split, whole);
        prop_assert_eq!(out, whole_out);
        prop_assert!(client.streaming.iter().all(|incoming| incoming.held() <= 105));
    }
}
