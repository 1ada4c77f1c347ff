//! Tests the rules of [`super`] one by one. The replays of real servers are in `tests/`.

use super::*;
use crate::Busy;
use crate::hpack::HeaderBlock;
use proptest::prelude::*;

/// Builds the server's side of a connection.
#[derive(Default)]
struct Peer {
    bytes: Vec<u8>,
}

impl Peer {
    /// Starts with SETTINGS of these identifiers and values.
    fn new(settings: &[(u16, u32)]) -> Self {
        Self::default().settings(settings)
    }

    fn frame(mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Self {
        put_frame_header(&mut self.bytes, payload.len(), kind, flags, stream);
        self.bytes.extend_from_slice(payload);
        self
    }

    fn settings(self, settings: &[(u16, u32)]) -> Self {
        let mut payload = Vec::new();
        for (id, value) in settings {
            payload.extend(id.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        self.frame(SETTINGS, 0, 0, &payload)
    }

    fn headers(self, stream: u32, flags: u8, fields: &[(&str, &str)]) -> Self {
        self.frame(HEADERS, flags | END_HEADERS, stream, &block(fields))
    }

    fn window_update(self, stream: u32, increment: u32) -> Self {
        self.frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
    }
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        Encoder::new(4096).encode_once(name.as_bytes(), value.as_bytes(), &mut block);
    }
    block
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn receive(
    connection: &mut Connection,
    peer: &[u8],
    out: &mut Vec<u8>,
) -> Result<Vec<String>, ProtocolError> {
    let mut events = Vec::new();
    connection.receive(peer, out, &mut |stream, event| {
        let event = match event {
            Event::Piece { status, content, stop } => {
                *stop = content == b"stop";
                format!("{status} piece `{}`", text(content))
            }
            Event::Response(response) => {
                let trailers: Vec<_> = response
                    .trailers
                    .iter()
                    .map(|(name, value)| format!(" {}={}", text(name), text(value)))
                    .collect();
                format!("{} `{}`{}", response.status, text(response.body), trailers.concat())
            }
            Event::Reset { code } => format!("reset {code}"),
            Event::Malformed { what } => format!("malformed: {what}"),
        };
        events.push(format!("{}: {event}", stream.number()));
    })?;
    Ok(events)
}

/// Returns a connection that has opened three streams.
fn with_three_requests() -> Connection {
    let mut connection = Connection::new(Settings { max_body: 1000, ..Settings::default() });
    let mut out = Vec::new();
    connection.open(&mut out);
    let get = connection.prepare(&[(":method", "GET"), (":path", "/")]);
    for _ in 0..3 {
        connection.request(get, &[], &mut out).unwrap();
    }
    connection
}

fn check(peer: Peer, expected: &[&str]) {
    let mut connection = with_three_requests();
    let events = receive(&mut connection, &peer.bytes, &mut Vec::new());
    assert_eq!(events.unwrap(), expected);
    for size in 1..20 {
        let mut connection = with_three_requests();
        let mut events = Vec::new();
        for piece in peer.bytes.chunks(size) {
            events.extend(receive(&mut connection, piece, &mut Vec::new()).unwrap());
        }
        assert_eq!(events, expected, "in pieces of {size}");
    }
}

fn check_refused(peer: Peer, expected: &str) {
    let mut connection = with_three_requests();
    let error = receive(&mut connection, &peer.bytes, &mut Vec::new()).unwrap_err();
    assert_eq!(error.what, format!("http2: {expected}"));
    assert_eq!(connection.capacity(), 0);
    assert!(receive(&mut connection, &[], &mut Vec::new()).is_err());
}

/// Returns the frames that the client wrote: type, flags, stream, payload.
fn frames(out: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    frames_up_to(out, LEAST_FRAME_SIZE as usize)
}

fn frames_up_to(mut out: &[u8], size: usize) -> Vec<(u8, u8, u32, Vec<u8>)> {
    out = out.strip_prefix(PREFACE).unwrap_or(out);
    let mut frames = Vec::new();
    while !out.is_empty() {
        let length = u32::from_be_bytes([0, out[0], out[1], out[2]]) as usize;
        assert!(length <= size);
        let (whole, rest) = out.split_at(FRAME_HEADER + length);
        let frame = Frame::new(whole);
        frames.push((frame.kind, frame.flags, frame.stream, frame.payload.to_vec()));
        out = rest;
    }
    frames
}

const OK: &[(&str, &str)] = &[(":status", "200")];

#[test]
fn response_is_reported_whole_for_any_framing() {
    check(Peer::new(&[]).headers(1, END_STREAM, OK), &["1: 200 ``"]);
    check(Peer::new(&[]).headers(1, 0, OK).frame(DATA, END_STREAM, 1, b"body"), &["1: 200 `body`"]);
    check(
        Peer::new(&[])
            .headers(1, 0, OK)
            .frame(DATA, 0, 1, b"bo")
            .headers(3, 0, &[(":status", "404")])
            .frame(DATA, PADDED, 1, b"\x02dyxx")
            .frame(DATA, END_STREAM, 3, b"other")
            .headers(1, END_STREAM, &[("grpc-status", "0")]),
        &["3: 404 `other`", "1: 200 `body` grpc-status=0"],
    );
}

#[test]
fn header_block_can_be_continued() {
    let block = block(&[(":status", "200"), ("a", "b")]);
    check(
        Peer::new(&[])
            .frame(HEADERS, END_STREAM, 1, &block[..2])
            .frame(CONTINUATION, 0, 1, &block[2..3])
            .frame(CONTINUATION, END_HEADERS, 1, &block[3..]),
        &["1: 200 ``"],
    );
}

#[test]
fn interim_responses_are_skipped() {
    check(
        Peer::new(&[])
            .headers(1, 0, &[(":status", "103"), ("link", "x")])
            .headers(1, END_STREAM, OK),
        &["1: 200 ``"],
    );
}

#[test]
fn unknown_frames_and_late_frames_are_ignored() {
    check(
        Peer::new(&[(0x99, 7)])
            .frame(0x42, 0xff, 1, b"extension")
            .frame(PRIORITY, 0, 1, &[0; 5])
            .headers(1, END_STREAM, OK)
            .frame(DATA, END_STREAM, 1, b"late")
            .frame(RST_STREAM, 0, 1, &[0; 4])
            .window_update(1, 5),
        &["1: 200 ``"],
    );
}

#[test]
fn reset_ends_only_its_stream() {
    check(
        Peer::new(&[]).frame(RST_STREAM, 0, 3, &[0, 0, 0, 7]).headers(1, END_STREAM, OK),
        &["3: reset 7", "1: 200 ``"],
    );
}

#[test]
fn malformed_response_ends_only_its_stream() {
    let first = Peer::new(&[]).headers(1, 0, OK);
    check(first.headers(1, 0, OK), &["1: malformed: trailers that do not end the stream"]);
    let first = Peer::new(&[]).headers(1, 0, OK);
    check(
        first.frame(DATA, 0, 1, &[0; 900]).frame(DATA, 0, 1, &[0; 101]),
        &["1: malformed: a body larger than the limit"],
    );
    check(
        Peer::new(&[]).frame(DATA, 0, 1, b"x").headers(3, END_STREAM, &[("a", "b")]).headers(
            5,
            END_STREAM,
            &[(":status", "200"), ("content-length", "5")],
        ),
        &[
            "1: malformed: a body before the headers",
            "3: malformed: no valid status",
            "5: malformed: a body of another size than content-length",
        ],
    );
}

#[test]
fn goaway_refuses_unprocessed_and_further_requests() {
    let goaway = [0, 0, 0, 1, 0, 0, 0, 0];
    check(
        Peer::new(&[]).frame(GOAWAY, 0, 0, &goaway).headers(1, END_STREAM, OK),
        &["3: reset 7", "5: reset 7", "1: 200 ``"],
    );
    let mut connection = with_three_requests();
    let peer = Peer::new(&[]).frame(GOAWAY, 0, 0, &goaway);
    receive(&mut connection, &peer.bytes, &mut Vec::new()).unwrap();
    assert_eq!(connection.capacity(), 0);
    assert_eq!(connection.going_away().unwrap().last_stream, 1);
}

#[test]
fn peer_that_breaks_the_protocol_is_rejected() {
    let new = || Peer::new(&[]);
    check_refused(Peer::default().headers(1, 0, OK), "the peer did not begin with SETTINGS");
    check_refused(
        Peer { bytes: b"HTTP/1.1 400 Bad Request\r\n".to_vec() },
        "the server speaks HTTP/1 on this port, leave HTTP/2 out",
    );
    check_refused(
        Peer { bytes: b"<!DOCTYPE HTML>\n<html>".to_vec() },
        "the server speaks HTTP/1 on this port, leave HTTP/2 out",
    );
    check_refused(new().frame(DATA, 0, 0, b""), "a frame for stream 0, never opened");
    check_refused(new().headers(2, 0, OK), "a frame for stream 2, never opened");
    check_refused(new().headers(7, 0, OK), "a frame for stream 7, never opened");
    check_refused(new().frame(PUSH_PROMISE, 0, 1, b""), "a push although pushes are disabled");
    check_refused(new().frame(CONTINUATION, 0, 1, b""), "a CONTINUATION without a header block");
    check_refused(
        new().frame(HEADERS, 0, 1, b"").frame(DATA, 0, 1, b""),
        "a header block was interrupted",
    );
    check_refused(
        new().headers(1, 0, OK).frame(DATA, PADDED, 1, b"\x05abcd"),
        "more padding than frame",
    );
    check_refused(new().frame(DATA, PADDED, 1, b""), "more padding than frame");
    check_refused(
        new().frame(HEADERS, WITH_PRIORITY | END_HEADERS, 1, b"abc"),
        "HEADERS too short for its flags",
    );
    check_refused(new().frame(PING, 0, 0, b"short"), "a PING of the wrong size");
    check_refused(new().frame(PING, 0, 1, &[0; 8]), "frame type 6 on a stream");
    check_refused(new().frame(SETTINGS, 0, 0, b"short"), "SETTINGS of a wrong size");
    check_refused(new().window_update(0, 0), "a window update of 0");
    check_refused(new().window_update(0, MAX_31_BIT), "a window of more than 31 bits");
    check_refused(new().settings(&[(5, 100)]), "a frame size out of range");
    check_refused(Peer { bytes: vec![0, 0x40, 1, 0, 0, 0, 0, 0, 0] }, "a frame of 16385 bytes");
}

#[test]
fn peer_must_not_exceed_the_windows() {
    let mut peer = Peer::new(&[]).headers(1, 0, OK);
    for _ in 0..5 {
        // This stream has ended by then, so only the connection's window counts.
        peer = peer.frame(DATA, 0, 1, &[0; 16_000]);
    }
    let mut connection = Connection::new(Settings { connection_window: 0, ..Settings::default() });
    let mut out = Vec::new();
    let get = connection.prepare(&[(":method", "GET")]);
    connection.request(get, &[], &mut out).unwrap();
    out.clear();
    receive(&mut connection, &peer.bytes, &mut out).unwrap();
    let updates = frames(&out).into_iter().filter(|frame| frame.0 == WINDOW_UPDATE).count();
    assert_eq!(updates, 1, "replenished in batches");
}

#[test]
fn stream_window_of_a_long_body_is_replenished() {
    let mut connection = Connection::new(Settings { max_body: 100_000, ..Settings::default() });
    let mut out = Vec::new();
    let get = connection.prepare(&[(":method", "GET")]);
    connection.request(get, &[], &mut out).unwrap();
    out.clear();
    let mut peer = Peer::new(&[]).headers(1, 0, OK);
    for _ in 0..6 {
        peer = peer.frame(DATA, 0, 1, &[b'x'; 16_000]);
    }
    peer = peer.frame(DATA, END_STREAM, 1, b"");
    let events = receive(&mut connection, &peer.bytes, &mut out).unwrap();
    assert_eq!(events, [format!("1: 200 `{}`", "x".repeat(96_000))]);
    let updates = frames(&out).into_iter().filter(|f| (f.0, f.2) == (WINDOW_UPDATE, 1));
    assert_eq!(updates.count(), 1);
}

#[test]
fn body_in_pieces_is_passed_on_without_a_limit() {
    let mut connection = Connection::new(Settings { max_body: 10, ..Settings::default() });
    let mut out = Vec::new();
    let get = connection.prepare(&[(":method", "GET"), (":path", "/")]);
    let stream = connection.request(get, &[], &mut out).unwrap();
    connection.request(get, &[], &mut out).unwrap();
    connection.in_pieces(stream);
    let peer = Peer::new(&[])
        .headers(1, 0, OK)
        .headers(3, 0, OK)
        .frame(DATA, 0, 1, b"eight by")
        .frame(DATA, 0, 1, b"")
        .frame(DATA, 0, 3, b"other")
        .frame(DATA, END_STREAM, 1, b"tes, and more")
        .frame(DATA, END_STREAM, 3, b"s");
    let expected =
        ["1: 200 piece `eight by`", "1: 200 piece `tes, and more`", "1: 200 ``", "3: 200 `others`"];
    assert_eq!(receive(&mut connection, &peer.bytes, &mut out).unwrap(), expected);
}

#[test]
fn body_in_pieces_can_be_stopped() {
    let mut connection = with_three_requests();
    connection.in_pieces(StreamId(3));
    let peer = Peer::new(&[])
        .headers(3, 0, OK)
        .frame(DATA, 0, 3, b"go on")
        .frame(DATA, 0, 3, b"stop")
        .frame(DATA, END_STREAM, 3, b"late")
        .headers(5, END_STREAM, OK);
    let mut out = Vec::new();
    let events = receive(&mut connection, &peer.bytes, &mut out).unwrap();
    assert_eq!(events, ["3: 200 piece `go on`", "3: 200 piece `stop`", "5: 200 ``"]);
    let cancel = code::CANCEL.to_be_bytes().to_vec();
    assert!(frames(&out).contains(&(RST_STREAM, 0, 3, cancel)));
    assert_eq!(connection.in_flight(), 1);
}

#[test]
fn long_headers_are_continued() {
    let mut connection = Connection::new(Settings::default());
    let long = "x".repeat(40_000);
    let headers = connection.prepare(&[(":method", "GET"), ("long", &long)]);
    let mut out = Vec::new();
    connection.request(headers, &[b"body"], &mut out).unwrap();
    let shape: Vec<_> = frames(&out).iter().map(|frame| (frame.0, frame.1)).collect();
    let expected =
        [(HEADERS, 0), (CONTINUATION, 0), (CONTINUATION, END_HEADERS), (DATA, END_STREAM)];
    assert_eq!(shape, expected);
}

#[test]
fn early_answer_ends_the_request() {
    let mut connection = Connection::new(Settings::default());
    let mut out = Vec::new();
    let post = connection.prepare(&[(":method", "POST")]);
    connection.request(post, &[&[0; 100_000]], &mut out).unwrap();
    out.clear();
    let peer = Peer::new(&[]).headers(1, END_STREAM, &[(":status", "413")]);
    let events = receive(&mut connection, &peer.bytes, &mut out).unwrap();
    assert_eq!(events, ["1: 413 ``"]);
    assert_eq!(frames(&out).last().unwrap(), &(RST_STREAM, 0, 1, vec![0, 0, 0, 8]));
    assert_eq!(connection.in_flight(), 0);
}

#[test]
fn cancelled_request_is_not_reported() {
    let mut connection = with_three_requests();
    let mut out = Vec::new();
    connection.cancel(StreamId(3), &mut out);
    connection.cancel(StreamId(3), &mut out);
    assert_eq!(frames(&out), [(RST_STREAM, 0, 3, vec![0, 0, 0, 8])]);
    let fields = &[(":status", "200"), ("a", "b")];
    let peer = Peer::new(&[]).headers(3, 0, fields).frame(DATA, END_STREAM, 3, b"late");
    let peer = peer.headers(1, END_STREAM, OK);
    assert_eq!(receive(&mut connection, &peer.bytes, &mut out).unwrap(), ["1: 200 ``"]);
}

#[test]
fn headers_of_a_cancelled_request_update_the_table() {
    let mut connection = with_three_requests();
    let mut out = Vec::new();
    connection.cancel(StreamId(3), &mut out);
    let mut encoder = Encoder::new(4096);
    let mut blocks = [Vec::new(), Vec::new()];
    for block in &mut blocks {
        encoder.encode(b":status", b"299", block);
    }
    assert_eq!(blocks[1].len(), 1);
    let flags = END_STREAM | END_HEADERS;
    let peer = Peer::new(&[]).frame(HEADERS, flags, 3, &blocks[0]);
    let peer = peer.frame(HEADERS, flags, 1, &blocks[1]);
    assert_eq!(receive(&mut connection, &peer.bytes, &mut out).unwrap(), ["1: 299 ``"]);
}

#[test]
fn table_and_frame_size_of_the_peer_are_obeyed() {
    let mut connection = Connection::new(Settings::default());
    let mut out = Vec::new();
    receive(&mut connection, &Peer::new(&[(1, 0), (5, 20_000)]).bytes, &mut out).unwrap();
    let post = connection.prepare(&[(":method", "POST"), ("a", "b")]);
    let mut blocks = Vec::new();
    for _ in 0..2 {
        out.clear();
        connection.request(post, &[&[b'x'; 18_000]], &mut out).unwrap();
        let frames = frames_up_to(&out, 20_000);
        assert_eq!(frames.len(), 2);
        blocks.push(frames[0].3.clone());
    }
    assert_eq!(blocks, [b"\x20\x83\x00\x01a\x01b".to_vec(), b"\x83\x00\x01a\x01b".to_vec()]);
}

#[test]
fn pings_are_answered_and_settings_acknowledged() {
    let mut connection = with_three_requests();
    let mut out = Vec::new();
    let peer = Peer::new(&[]).frame(PING, 0, 0, b"12345678").frame(PING, ACK, 0, &[0; 8]);
    receive(&mut connection, &peer.bytes, &mut out).unwrap();
    let expected = [(SETTINGS, ACK, 0, vec![]), (PING, ACK, 0, b"12345678".to_vec())];
    assert_eq!(frames(&out), expected);
    assert_eq!(connection.pings_answered(), 1);
}

#[test]
fn frames_that_complete_nothing_are_limited() {
    let interim = block(&[(":status", "103")]);
    let cases: [(u8, u8, u32, &[u8]); 10] = [
        (PING, 0, 0, &[0; 8]),
        (PING, ACK, 0, &[0; 8]),
        (SETTINGS, 0, 0, &[]),
        (SETTINGS, ACK, 0, &[]),
        (WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        (WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
        (PRIORITY, 0, 1, &[0; 5]),
        (0x99, 0, 0, b"extension"),
        (HEADERS, END_HEADERS, 3, &interim),
        (DATA, 0, 1, &[]),
    ];
    for (kind, flags, stream, payload) in cases {
        let mut connection = with_three_requests();
        let begun = Peer::new(&[]).headers(1, 0, OK).bytes;
        receive(&mut connection, &begun, &mut Vec::new()).unwrap();
        let peer = |_| Peer::default().frame(kind, flags, stream, payload).bytes;
        let flood: Vec<u8> = (0..1000).flat_map(peer).collect();
        let mut received = 0;
        let error = loop {
            received += flood.len();
            match receive(&mut connection, &flood, &mut Vec::new()) {
                Ok(_) => assert!(received < 2 << 20, "{kind:#x} {flags}"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.starts_with("http2: more than 1 MiB of "), "{kind:#x}: {error}");
    }
    // Of an endless header block, too.
    let unended = Peer::new(&[]).frame(HEADERS, 0, 1, &[]);
    let endless = (0..200_000).fold(unended, |peer, _| peer.frame(CONTINUATION, 0, 1, &[]));
    check_refused(endless, "more than 1 MiB of frames that complete nothing without an answer");
}

#[test]
fn peer_that_requests_answers_and_reads_none_is_rejected() {
    for (kind, payload) in [(PING, &[0; 8][..]), (SETTINGS, &[])] {
        let mut connection = with_three_requests();
        let get = connection.prepare(&[(":method", "GET"), (":path", "/")]);
        receive(&mut connection, &Peer::new(&[]).bytes, &mut Vec::new()).unwrap();
        let (mut out, mut rounds) = (Vec::new(), 0);
        let error = loop {
            rounds += 1;
            // The responses allow further frames.
            let stream = connection.request(get, &[], &mut Vec::new()).unwrap().number();
            let peer = (0..1000).fold(Peer::default(), |peer, _| peer.frame(kind, 0, 0, payload));
            let flood = peer.headers(stream, END_STREAM, OK).bytes;
            match receive(&mut connection, &flood, &mut out) {
                Ok(_) => assert!(rounds < 200, "{} bytes wait", out.len()),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("PING and SETTINGS"), "{error}");
        assert!(out.len() <= (1 << 20) + FRAME_HEADER + 8, "{}", out.len());
    }
}

#[test]
fn repeated_request_needs_one_byte_per_header_field() {
    let mut connection = Connection::new(Settings::default());
    let headers = [(":method", "POST"), (":path", "/a/b"), ("te", "trailers"), ("x", "y")];
    let post = connection.prepare(&headers);
    let mut lengths = Vec::new();
    for _ in 0..3 {
        let mut out = Vec::new();
        connection.request(post, &[b"body"], &mut out).unwrap();
        lengths.push(out.len() - (2 * FRAME_HEADER + 4));
    }
    assert_eq!(lengths, [1 + 6 + 13 + 5, 4, 4]);
}

#[test]
fn body_waits_for_both_windows() {
    let mut connection = Connection::new(Settings::default());
    let mut out = Vec::new();
    receive(&mut connection, &Peer::new(&[(4, 10)]).bytes, &mut out).unwrap();
    let post = connection.prepare(&[(":method", "POST")]);
    out.clear();
    connection.request(post, &[b"0123", b"4567", b"89ab"], &mut out).unwrap();
    assert_eq!(frames(&out)[1..], [(DATA, 0, 1, b"0123456789".to_vec())]);
    out.clear();
    receive(&mut connection, &Peer::default().window_update(0, 100).bytes, &mut out).unwrap();
    assert!(out.is_empty());
    receive(&mut connection, &Peer::default().settings(&[(4, 11)]).bytes, &mut out).unwrap();
    assert_eq!(frames(&out)[1..], [(DATA, 0, 1, b"a".to_vec())]);
    out.clear();
    receive(&mut connection, &Peer::default().window_update(1, 100).bytes, &mut out).unwrap();
    assert_eq!(frames(&out), [(DATA, END_STREAM, 1, b"b".to_vec())]);
}

#[test]
fn open_request_continues_until_the_response() {
    let mut connection = Connection::new(Settings::default());
    let mut out = Vec::new();
    receive(&mut connection, &Peer::new(&[(4, 6)]).bytes, &mut out).unwrap();
    let post = connection.prepare(&[(":method", "POST")]);
    out.clear();
    let open = connection.request_open(post, &[b"01", b"23"], &mut out).unwrap();
    assert_eq!(frames(&out)[0].1 & END_STREAM, 0);
    assert_eq!(frames(&out)[1..], [(DATA, 0, 1, b"0123".to_vec())]);
    out.clear();
    connection.send_more(open, &[b"4567"], &mut out).unwrap();
    assert_eq!(frames(&out), [(DATA, 0, 1, b"45".to_vec())], "the window has room for two");
    out.clear();
    connection.send_more(open, &[b"89"], &mut out).unwrap();
    assert!(out.is_empty(), "it waits behind the rest");
    receive(&mut connection, &Peer::default().window_update(1, 100).bytes, &mut out).unwrap();
    assert_eq!(frames(&out), [(DATA, 0, 1, b"6789".to_vec())]);
    let whole = connection.request(post, &[b"x"], &mut out).unwrap();
    assert_eq!(connection.send_more(whole, &[b"y"], &mut out), Err(Busy));
    out.clear();
    let peer = Peer::default().headers(1, END_STREAM, OK);
    assert_eq!(receive(&mut connection, &peer.bytes, &mut out).unwrap(), ["1: 200 ``"]);
    assert_eq!(frames(&out), [(RST_STREAM, 0, 1, vec![0, 0, 0, 8])], "the request never ended");
    assert_eq!(connection.send_more(open, &[b"z"], &mut out), Err(Busy));
}

#[test]
fn open_requests_wait_for_the_window_of_the_connection_in_order() {
    let mut connection = Connection::new(Settings::default());
    let mut out = Vec::new();
    receive(&mut connection, &Peer::new(&[(4, 1 << 20)]).bytes, &mut out).unwrap();
    let post = connection.prepare(&[(":method", "POST")]);
    let open = connection.request_open(post, &[b"a"], &mut out).unwrap();
    connection.request(post, &[&vec![b'x'; 70_000]], &mut out).unwrap();
    out.clear();
    connection.send_more(open, &[b"b"], &mut out).unwrap();
    assert!(out.is_empty(), "the other request is first");
    receive(&mut connection, &Peer::default().window_update(0, 20_000).bytes, &mut out).unwrap();
    let data: Vec<_> = frames(&out).into_iter().map(|frame| (frame.2, frame.3.len())).collect();
    assert_eq!(data, [(3, 4_466), (1, 1)]);
}

#[test]
fn blocked_requests_are_sent_in_order() {
    let mut connection = Connection::new(Settings::default());
    let mut out = Vec::new();
    receive(&mut connection, &Peer::new(&[(4, 1 << 20)]).bytes, &mut out).unwrap();
    let post = connection.prepare(&[(":method", "POST")]);
    let body = vec![b'x'; 40_000];
    for _ in 0..3 {
        connection.request(post, &[&body], &mut out).unwrap();
    }
    let cancelled = connection.request(post, &[&body], &mut out).unwrap();
    connection.cancel(cancelled, &mut out);
    for _ in 0..3 {
        let update = Peer::default().window_update(0, 20_000);
        receive(&mut connection, &update.bytes, &mut out).unwrap();
    }
    let data: Vec<_> = frames(&out).into_iter().filter(|frame| frame.0 == DATA).collect();
    assert!(data.iter().map(|frame| frame.2).is_sorted());
    let ended: Vec<_> = data.iter().filter(|f| f.1 == END_STREAM).map(|f| f.2).collect();
    assert_eq!(ended, [1, 3, 5]);
    assert_eq!(data.iter().map(|frame| frame.3.len()).sum::<usize>(), 120_000);
}

#[test]
fn small_bodies_use_up_the_connection_window_too() {
    let mut connection = Connection::new(Settings::default());
    let mut out = Vec::new();
    let post = connection.prepare(&[(":method", "POST")]);
    for _ in 0..70 {
        connection.request(post, &[&[b'x'; 1000]], &mut out).unwrap();
    }
    let sent = |out: &[u8]| -> usize {
        let data = frames(out).into_iter().filter(|frame| frame.0 == DATA);
        data.map(|frame| frame.3.len()).sum()
    };
    assert_eq!(sent(&out), FIRST_WINDOW as usize);
    let update = Peer::new(&[]).window_update(0, 10_000);
    receive(&mut connection, &update.bytes, &mut out).unwrap();
    assert_eq!(sent(&out), 70_000);
}

#[test]
fn capacity_follows_the_peer_next_to_a_long_stream() {
    let settings = Settings { max_streams: 4, ..Settings::default() };
    let mut connection = Connection::new(settings);
    let get = connection.prepare(&[(":method", "GET")]);
    let mut out = Vec::new();
    receive(&mut connection, &Peer::new(&[(3, 2)]).bytes, &mut out).unwrap();
    let long = connection.request(get, &[], &mut out).unwrap();
    for _ in 0..20 {
        assert_eq!(connection.capacity(), 1);
        let short = connection.request(get, &[], &mut out).unwrap();
        assert_ne!(short.slot(connection.slots()), long.slot(connection.slots()));
        assert_eq!(connection.request(get, &[], &mut out), Err(Busy));
        let peer = Peer::default().headers(short.number(), END_STREAM, OK);
        assert_eq!(receive(&mut connection, &peer.bytes, &mut out).unwrap().len(), 1);
    }
    let peer = Peer::default().headers(long.number(), END_STREAM, OK);
    assert_eq!(receive(&mut connection, &peer.bytes, &mut out).unwrap(), ["1: 200 ``"]);
}

#[test]
fn additional_fields_are_ordered_around_the_prepared_ones() {
    let mut connection = Connection::new(Settings::default());
    let get = connection.prepare(&[(":method", "GET"), ("a", "b")]);
    let mut decoder = Decoder::new(4096, 1000);
    for _ in 0..3 {
        let mut out = Vec::new();
        connection.request_with(get, &[(b"c", b"d"), (b":path", b"/x")], &[], &mut out).unwrap();
        let mut fields = HeaderBlock::new();
        decoder.decode(&frames(&out)[0].3, &mut fields).unwrap();
        let names: Vec<_> = fields.view().iter().map(|(name, _)| text(name)).collect();
        assert_eq!(names, [":path", ":method", "a", "c"]);
    }
}

proptest! {
    #[test]
    fn arbitrary_frames_never_panic_and_memory_is_bounded(
        frames in proptest::collection::vec(
            (0u8..11, any::<u8>(), 0u32..9, proptest::collection::vec(any::<u8>(), 0..40)),
            0..40),
        size in 1usize..100,
    ) {
        let mut peer = Peer::new(&[]).headers(5, 0, OK);
        for (kind, flags, stream, payload) in frames {
            peer = peer.frame(kind, flags, stream, &payload);
        }
        let mut connection = with_three_requests();
        connection.in_pieces(StreamId(5));
        let mut out = Vec::new();
        let whole = receive(&mut connection, &peer.bytes, &mut out);
        let mut connection = with_three_requests();
        connection.in_pieces(StreamId(5));
        let mut split_out = Vec::new();
        let mut events = Ok(Vec::new());
        for piece in peer.bytes.chunks(size) {
            match (receive(&mut connection, piece, &mut split_out), &mut events) {
                (Ok(more), Ok(events)) => events.extend(more),
                (Err(error), _) => { events = Err(error); break }
                _ => {}
            }
        }
        prop_assert_eq!(events, whole);
        prop_assert_eq!(split_out, out);
    }
}
