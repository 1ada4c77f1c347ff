//! Replays transcripts of real servers, cut in every way, and expects the same events.
//!
//! A transcript holds all bytes that a server sent on one connection; `requests.rs` holds the requests. The
//! expectations come from the servers' own tools and documentation.
//!
//! Not here: input that no real server sends (the tests next to the code, and `fuzz`).

mod requests;

use bakeoff_wire::protobuf::{Fields, Value};
use bakeoff_wire::zookeeper::{self, Event, Reply, Resumption, Session};
use bakeoff_wire::{grpc, http1, http2, iproto, msgpack, nats, postgres, resp};
use proptest::prelude::*;

fn transcript(name: &str) -> Vec<u8> {
    let path = format!("{}/transcripts/{name}.bin", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Cuts at the given places, modulo the length.
fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % bytes.len()).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// Replays a transcript whole, in equal pieces of all sizes up to 40, and cut at random.
fn check(name: &str, replay: impl Fn(&[&[u8]]) -> Vec<String>, expected: &[&str]) {
    let bytes = transcript(name);
    assert_eq!(replay(&[&bytes]), expected, "{name}");
    for size in 1..40 {
        let pieces: Vec<_> = bytes.chunks(size).collect();
        assert_eq!(replay(&pieces), expected, "{name} in pieces of {size}");
    }
    proptest!(ProptestConfig::with_cases(100), |(cuts: Vec<usize>)| {
        prop_assert_eq!(replay(&pieces(&bytes, &cuts)), expected);
    });
}

fn key_value(message: &[u8]) -> String {
    let (mut key, mut value, mut version) = ("", &[][..], 0);
    for field in Fields::new(message) {
        match field.unwrap() {
            (1, Value::Bytes(bytes)) => key = std::str::from_utf8(bytes).unwrap(),
            (4, Value::Varint(number)) => version = number,
            (5, Value::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    let value = match value.len() {
        0..20 => String::from_utf8_lossy(value).into_owned(),
        length => format!("{length} bytes"),
    };
    format!(" {key}={value} (version {version})")
}

/// Describes a message of etcd's KV service: its key-values are in field 2; of other fields the numbers are listed.
fn etcd_answer(method: &str, message: &[u8]) -> String {
    let mut text = String::new();
    for field in Fields::new(message) {
        match field.unwrap() {
            (1, Value::Bytes(header)) => {
                let fields: Vec<_> = Fields::new(header).map(|field| field.unwrap().0).collect();
                assert_eq!(fields, [1, 2, 3, 4], "cluster, member, revision, term");
            }
            (2, Value::Bytes(version)) if method.contains("Maintenance") => {
                text += &format!(" {}", String::from_utf8_lossy(version));
                break;
            }
            (2, Value::Bytes(bytes)) => text += &key_value(bytes),
            (number, Value::Varint(value)) => text += &format!(" {number}:{value}"),
            (number, _) => text += &format!(" {number}"),
        }
    }
    text
}

/// Makes all calls at once and replays the answers.
fn replay_etcd(pieces: &[&[u8]]) -> Vec<String> {
    let mut client = grpc::Client::new("localhost", false, &[]);
    let mut out = Vec::new();
    client.open(&mut out);
    let calls: Vec<_> = requests::etcd()
        .into_iter()
        .map(|(path, message)| {
            let method = client.method(path);
            (path, client.call(method, &message, &mut out).unwrap())
        })
        .collect();
    let mut seen = Vec::new();
    for piece in pieces {
        client
            .receive(piece, &mut out, &mut |id, result| {
                let (path, _) = calls.iter().find(|(_, call)| *call == id).unwrap();
                let name = path.rsplit('/').next().unwrap();
                seen.push(match result {
                    Ok(message) => format!("{name}{}", etcd_answer(path, message)),
                    Err(status) => format!("{name} {status}"),
                });
            })
            .unwrap();
    }
    assert_eq!(client.in_flight(), 0);
    seen
}

fn check_etcd(name: &str, version: &str) {
    let status = format!("Status {version}");
    let expected = [
        "Put",
        "Put /bakeoff/a=one (version 1)",
        "Range /bakeoff/a=two (version 2) 4:1",
        "Range",
        "Txn 2:1 3",
        "Range /bakeoff/a=two (version 2) /bakeoff/b=by transaction (version 1) 4:2",
        "Put",
        "Range /bakeoff/large=20000 bytes (version 1) 4:1",
        "DeleteRange 2:3",
        &status,
        "Put gRPC INVALID_ARGUMENT: etcdserver: key is not provided",
        "Nothing gRPC UNIMPLEMENTED: unknown method Nothing for service etcdserverpb.KV",
    ];
    check(name, replay_etcd, &expected);
}

#[test]
fn etcd_3_4_session_is_decoded() {
    check_etcd("etcd-3.4.23", "3.4.23");
}

#[test]
fn etcd_3_6_session_is_decoded() {
    check_etcd("etcd-3.6.16", "3.6.16");
}

fn zookeeper_event(event: Event<'_>) -> String {
    let result = match event {
        Event::Connected { timeout_ms, .. } => return format!("connected for {timeout_ms} ms"),
        Event::Expired => return "expired".into(),
        Event::Pong => return "pong".into(),
        Event::Watched { change, path, .. } => return format!("{change:?} {path}"),
        Event::Reply { xid, result, .. } => (xid.number(), result),
    };
    match result {
        (xid, Err(error)) => format!("{xid} {error}"),
        (xid, Ok(Reply::Stat(stat))) => {
            assert_eq!(stat.data_length, 3);
            format!("{xid} version {}, {} children", stat.version, stat.num_children)
        }
        (xid, Ok(Reply::Data { data, stat })) => {
            format!("{xid} {} at version {}", String::from_utf8_lossy(data), stat.version)
        }
        (xid, Ok(Reply::Children(names))) => {
            let mut names: Vec<_> = names.collect();
            names.sort_unstable();
            format!("{xid} {}", names.join(" "))
        }
        (xid, Ok(reply)) => format!("{xid} {reply:?}"),
    }
}

/// Sends all requests once the session is connected and replays the answers.
fn replay_zookeeper(mut session: Session, pieces: &[&[u8]]) -> Vec<String> {
    let mut out = Vec::new();
    session.open(&mut out);
    let mut seen = Vec::new();
    // The reply to the connection request comes first, and no request is possible before it.
    let bytes = pieces.concat();
    let (connected, _) = bytes.split_at(41);
    session.receive(connected, &mut out, &mut |event| seen.push(zookeeper_event(event))).unwrap();
    if session.capacity() > 0 {
        for request in requests::zookeeper() {
            match request {
                Some(request) => assert!(session.request(request, &mut out).is_ok()),
                None => session.ping(&mut out),
            }
        }
    }
    let mut skip = connected.len();
    for piece in pieces {
        let skipped = skip.min(piece.len());
        skip -= skipped;
        let event = &mut |event: Event<'_>| seen.push(zookeeper_event(event));
        session.receive(&piece[skipped..], &mut out, event).unwrap();
    }
    seen
}

#[test]
fn zookeeper_session_is_decoded() {
    let expected = [
        "connected for 10000 ms",
        "1 Created(\"/bakeoff\")",
        "2 NodeExists (-110)",
        "3 Created(\"/bakeoff/e\")",
        "4 Created(\"/bakeoff/s0000000001\")",
        "5 version 0, 2 children",
        "6 one at version 0",
        "7 version 1, 2 children",
        "8 BadVersion (-103)",
        "9 version 2, 2 children",
        "10 e s0000000001",
        "pong",
        "11 Synced",
        "12 NotEmpty (-111)",
        "13 BadVersion (-103)",
        "14 Deleted",
        "15 Deleted",
        "16 Deleted",
        "17 NoNode (-101)",
        "18 Closed",
    ];
    let replay = |pieces: &[&[u8]]| replay_zookeeper(Session::new(10_000), pieces);
    check("zookeeper-3.9.3-session", replay, &expected);
}

#[test]
fn zookeeper_session_is_resumed_or_expired() {
    let resumption = Resumption { session_id: 1, password: [0; 16], last_zxid: 0 };
    let cases = [
        ("zookeeper-3.9.3-resumed", "connected for 1000 ms"),
        ("zookeeper-3.9.3-expired", "expired"),
    ];
    for (name, expected) in cases {
        let bytes = transcript(name);
        for size in 1..=bytes.len() {
            let limits = zookeeper::Limits::default();
            let mut session = Session::with_limits(1000, Some(resumption), limits);
            let mut seen = Vec::new();
            for piece in bytes.chunks(size) {
                let event = &mut |event: Event<'_>| seen.push(zookeeper_event(event));
                session.receive(piece, &mut Vec::new(), event).unwrap();
            }
            assert_eq!(seen, [expected]);
        }
    }
}

fn replay_http1(request: &str, pieces: &[&[u8]]) -> Vec<String> {
    let mut connection = http1::Connection::new(http1::Limits::default());
    let mut out = Vec::new();
    connection.send_raw(request.starts_with("HEAD"), request.as_bytes(), &mut out).unwrap();
    let mut seen = Vec::new();
    let mut on = |response: http1::Response<'_>| {
        let body = match response.body.len() {
            0..40 => String::from_utf8_lossy(response.body).trim_end().replace('\n', "|"),
            length => format!("{length} bytes"),
        };
        let kind = response.headers.get("Content-Type").unwrap_or_default();
        let kind = String::from_utf8_lossy(kind);
        let end = if response.keep_alive { "" } else { ", then the end" };
        seen.push(format!("{} {kind}: {body}{end}", response.status));
    };
    for piece in pieces {
        connection.receive(piece, &mut out, &mut on).unwrap();
    }
    connection.closed(&mut on).unwrap();
    seen
}

#[test]
fn http_1_servers_are_decoded() {
    let expected = [
        "200 text/plain: hello from a file",
        "200 text/plain: ",
        "200 text/plain: /b.shtml included|hello from a file",
        "200 text/plain: 40000 bytes",
        "404 text/html: 153 bytes",
        "204 : ",
        "304 : ",
        "200 text/plain: /b.shtml included|hello from a file, then the end",
        "200 text/plain: bye, then the end",
        "200 text/plain: got it",
        "200 application/json: 63 bytes",
        "200 application/json: 4229 bytes",
        "400 application/json: 54 bytes",
    ];
    assert_eq!(requests::HTTP1.len(), expected.len());
    for ((name, request), expected) in requests::HTTP1.iter().zip(expected) {
        check(&format!("http1-{name}"), |pieces| replay_http1(request, pieces), &[expected]);
    }
}

/// Sends all requests at once and replays the answers.
fn replay_http2(pieces: &[&[u8]]) -> Vec<String> {
    let mut connection = http2::Connection::new(http2::Settings::default());
    let mut out = Vec::new();
    connection.open(&mut out);
    for (method, path, body) in requests::HTTP2 {
        let headers = connection.prepare(&[
            (":method", method),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
        ]);
        connection.request(headers, &[body], &mut out).unwrap();
    }
    let mut seen = Vec::new();
    for piece in pieces {
        connection
            .receive(piece, &mut out, &mut |stream, event| {
                let http2::Event::Response(response) = event else { panic!("{event:?}") };
                let kind = response.headers.get(b"content-type").unwrap_or_default();
                seen.push(format!(
                    "{} {} {} {}",
                    stream.number(),
                    response.status,
                    String::from_utf8_lossy(kind),
                    response.body.len(),
                ));
            })
            .unwrap();
    }
    assert_eq!(connection.in_flight(), 0);
    seen
}

#[test]
fn http_2_server_is_decoded() {
    let expected = [
        "1 200 text/plain 18",
        "3 200 text/plain 0",
        "5 200 text/plain 37",
        "7 200 text/plain 40000",
        "9 404 text/html 153",
        "11 204  0",
        "13 200 text/plain 7",
        "15 200 text/plain 7",
        "17 200 text/plain 18",
    ];
    check("http2-nginx-1.22.1", replay_http2, &expected);
}

#[test]
fn every_transcript_is_replayed() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/transcripts");
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".bin").map(str::to_owned))
        .collect();
    names.sort_unstable();
    // `check` names every replayed file, and an unknown name fails.
    let tests = include_str!("main.rs");
    let http1 = |name: &str| requests::HTTP1.iter().any(|(one, _)| name == format!("http1-{one}"));
    let named = |name: &String| tests.contains(&format!("\"{name}\"")) || http1(name);
    names.retain(|name| !named(name));
    assert!(names.is_empty(), "no test replays {names:?}");
}

/// Sends one query after another, each when the server waits for one.
fn replay_postgres(pieces: &[&[u8]]) -> Vec<String> {
    let bytes = pieces.concat();
    let mut cuts: Vec<usize> = Vec::new();
    for piece in pieces {
        cuts.push(cuts.last().unwrap_or(&0) + piece.len());
    }
    let mut session = requests::postgres();
    let mut out = Vec::new();
    session.open(&mut out);
    let mut questions = requests::POSTGRES.iter();
    let mut seen = Vec::new();
    let mut at = 0;
    for turn in requests::postgres_turns(&bytes) {
        let mut begin = at;
        at += turn.len();
        let within = cuts.iter().copied().filter(|cut| (begin..at).contains(cut));
        for end in within.chain([at]).collect::<Vec<_>>() {
            let mut on = |event: postgres::Event<'_>| match event {
                postgres::Event::Ready => seen.push("ready".into()),
                postgres::Event::Failed(error) => seen.push(error.to_string()),
                postgres::Event::Parameter(name, value) => {
                    if ["server_version", "application_name"].contains(&name) {
                        seen.push(format!("{name}={value}"));
                    }
                }
                postgres::Event::Row(row) => {
                    let text = |value: Option<&[u8]>| match value {
                        None => "NULL".into(),
                        Some(value) if value.len() > 99 => format!("{} bytes", value.len()),
                        Some(value) => format!("`{}`", String::from_utf8_lossy(value)),
                    };
                    seen.push(row.map(text).collect::<Vec<_>>().join(" "));
                }
            };
            session.receive(&bytes[begin..end], &mut out, &mut on).unwrap();
            begin = end;
        }
        if let Some(question) = questions.next().filter(|_| !turn.is_empty()) {
            session.query(question, &mut out);
        }
    }
    seen
}

const POSTGRES_SAYS: [&str; 20] = [
    "application_name=",
    "server_version=15.18 (Debian 15.18-0+deb12u1)",
    "ready",
    "`1` NULL ``",
    "`1`",
    "`2`",
    "`3`",
    "ready",
    "ready",
    "column \"nothing\" does not exist (42703)",
    "ready",
    "`1`",
    "division by zero (22012)",
    "ready",
    "ready",
    "application_name=bakeoff",
    "ready",
    "20000 bytes",
    "ready",
    "ready",
];

#[test]
fn postgresql_session_with_a_password_is_decoded() {
    check("postgresql-15.18-session", replay_postgres, &POSTGRES_SAYS);
}

#[test]
fn postgresql_session_without_a_password_is_decoded() {
    check("postgresql-15.18-trusted", replay_postgres, &POSTGRES_SAYS);
}

#[test]
fn postgresql_reports_a_wrong_password() {
    let says = ["password authentication failed for user \"bench\" (28P01)"];
    check("postgresql-15.18-refused", replay_postgres, &says);
}

fn iproto_value(value: msgpack::Value<'_>) -> String {
    use msgpack::Value;
    match value {
        Value::Nil => "nil".into(),
        Value::Bool(yes) => yes.to_string(),
        Value::Unsigned(number) => number.to_string(),
        Value::Signed(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Text(text) if text.len() > 99 => format!("{} bytes of text", text.len()),
        Value::Text(text) => format!("'{}'", String::from_utf8_lossy(text)),
        Value::Bytes(bytes) => format!("bytes {}", bytes.escape_ascii()),
        Value::Array(values) => iproto_values(values),
        Value::Map(entries) => {
            let entry = |(key, value)| format!("{}: {}", iproto_value(key), iproto_value(value));
            format!("{{{}}}", entries.map(entry).collect::<Vec<_>>().join(", "))
        }
        Value::Extension(kind, bytes) => format!("extension {kind} of {}", bytes.len()),
    }
}

fn iproto_values(values: msgpack::Array<'_>) -> String {
    format!("[{}]", values.map(iproto_value).collect::<Vec<_>>().join(", "))
}

/// Sends all requests as soon as possible. Answers are named by their requests, in the order of arrival.
fn replay_iproto(pieces: &[&[u8]]) -> Vec<String> {
    let mut session = requests::iproto();
    let mut out = Vec::new();
    let mut seen = Vec::new();
    let mut syncs: Vec<iproto::SyncId> = Vec::new();
    let bytes = pieces.concat();
    let begins = requests::iproto_begins(&bytes);
    let mut at = 0;
    for piece in pieces {
        // Send possible requests before reading the rest.
        let (before, after) = piece.split_at(begins.saturating_sub(at).min(piece.len()));
        at += piece.len();
        for piece in [before, after] {
            let mut on = |event: iproto::Event<'_>| {
                seen.push(match event {
                    iproto::Event::Ready { version } => format!("ready {version}"),
                    iproto::Event::Refused(error) => format!("refused: {error}"),
                    iproto::Event::Answer { sync, result } => {
                        let place = syncs.iter().position(|&one| one == sync).unwrap();
                        match result {
                            Ok(data) => format!("{place} {}", iproto_values(data)),
                            Err(error) => format!("{place} {error}"),
                        }
                    }
                });
            };
            session.receive(piece, &mut out, &mut on).unwrap();
            if syncs.is_empty() && session.capacity() > 0 {
                let asks = requests::iproto_asks();
                syncs.extend(asks.iter().map(|&ask| session.request(ask, &mut out).unwrap()));
            }
        }
    }
    seen
}

#[test]
fn tarantool_session_is_decoded_in_the_order_of_answers() {
    let expected = [
        "ready 2.6.0",
        "1 []",
        "2 [7, 'a', nil]",
        "3 [[1, 'a']]",
        "4 Duplicate key exists in unique index 'primary' in space 'bakeoff' (ER_TUPLE_FOUND, 3)",
        "5 [[1, bytes b]]",
        "6 [[2, 'c']]",
        "7 [[1, bytes b]]",
        "8 [[1, bytes b], [2, 'c']]",
        "9 [[1, bytes b]]",
        "10 []",
        "11 [[1, bytes b]]",
        "12 []",
        "13 [[2, 'c']]",
        "14 Space '599' does not exist (ER_NO_SUCH_SPACE, 36)",
        "15 Procedure 'nothing' is not defined (ER_NO_SUCH_PROC, 33)",
        "16 eval:1: no (ER_PROC_LUA, 32)",
        "17 [2.5, -3, {'a': [true, false]}, []]",
        "18 [20000 bytes of text]",
        "0 ['late']",
    ];
    check("tarantool-2.6.0-session", replay_iproto, &expected);
}

#[test]
fn tarantool_reports_a_wrong_password() {
    let says = ["refused: Incorrect password supplied for user 'bench' (ER_PASSWORD_MISMATCH, 47)"];
    check("tarantool-2.6.0-refused", replay_iproto, &says);
}

fn resp_reply(reply: resp::Reply<'_>) -> String {
    use resp::Reply;
    let text = |bytes: &[u8]| match bytes.len() {
        0..100 => bytes.escape_ascii().to_string(),
        length => format!("{length} bytes"),
    };
    match reply {
        Reply::Status(status) => text(status),
        Reply::Error(error) => format!("error: {}", text(error)),
        Reply::Integer(number) => number.to_string(),
        Reply::Bulk(bytes) => format!("`{}`", text(bytes)),
        Reply::Nil => "nil".into(),
        Reply::Array(replies) | Reply::Push(replies) => {
            format!("[{}]", replies.map(resp_reply).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Sends all commands at once.
fn replay_resp(asked: &[&[&[u8]]], pieces: &[&[u8]]) -> Vec<String> {
    let mut session = resp::Session::default();
    let mut out = Vec::new();
    for words in asked {
        session.request(words, &mut out).unwrap();
    }
    let mut seen = Vec::new();
    for piece in pieces {
        session.receive(piece, &mut |reply| seen.push(resp_reply(reply))).unwrap();
    }
    seen
}

#[test]
fn redis_session_is_decoded() {
    let expected = [
        "PONG",
        "OK",
        "`one`",
        "nil",
        "OK",
        "`two`",
        "OK",
        "`20000 bytes`",
        "OK",
        r"`\r\n$5\r\n\x00\xff`",
        "OK",
        "``",
        "[`0`, [`bakeoff/a`]]",
        "[`two`, nil]",
        "1",
        "0",
        "0",
        "error: ERR value is not an integer or out of range",
        "1",
        "error: WRONGTYPE Operation against a key holding the wrong kind of value",
        r"error: ERR unknown command \'NOTHING\', with args beginning with: \'at\' \'all\' ",
        "[`0`, []]",
        "[]",
        "nil",
        "[1, [2, `three`, nil], []]",
        "-7",
        "OK",
    ];
    check("redis-7.0.15-session", |pieces| replay_resp(requests::RESP, pieces), &expected);
}

#[test]
fn redis_reports_missing_permissions() {
    let expected = [
        "error: NOAUTH Authentication required.",
        "error: WRONGPASS invalid username-password pair or user is disabled.",
        "OK",
        "OK",
        "`one`",
        "error: NOPERM this user has no permissions to access one of the keys used as arguments",
        r"error: NOPERM this user has no permissions to run the \'del\' command",
    ];
    let replay = |pieces: &[&[u8]]| replay_resp(requests::RESP_SIGNED_IN, pieces);
    check("redis-7.0.15-signed-in", replay, &expected);
}

/// Returns the events. Answers name the subject of their request.
fn replay_nats(pieces: &[&[u8]]) -> Vec<String> {
    let mut session = nats::Session::default();
    let (mut out, mut sent) = (Vec::new(), Vec::new());
    session.connect(requests::NATS_CONNECT, &mut sent);
    let asked = requests::nats();
    let answered = |subject: &[u8]| {
        let number = std::str::from_utf8(subject.strip_prefix(b"inbox.")?).ok()?;
        Some(asked.get(number.parse::<usize>().ok()?)?.0.to_owned())
    };
    let mut seen = Vec::new();
    let text = |bytes: &[u8]| match bytes.len() {
        0..100 => bytes.escape_ascii().to_string(),
        length => format!("{length} bytes"),
    };
    for piece in pieces {
        let mut on = |event: nats::Event<'_>| {
            seen.push(match event {
                nats::Event::Info(info) => format!("info of {} bytes", info.len()),
                nats::Event::Pong => "pong".to_owned(),
                nats::Event::Error(error) => format!("error: {}", text(error)),
                nats::Event::Message(message) => {
                    assert_eq!(message.subscription, 7);
                    let headers = message.headers;
                    let subject = message.subject;
                    let mut replied = answered(subject).unwrap_or_else(|| text(subject));
                    if !message.reply.is_empty() {
                        replied += &format!(" (reply to {})", text(message.reply));
                    }
                    if let Some(status) = headers.status() {
                        replied += &format!(" {status} {}", text(headers.description()));
                    }
                    for name in ["KV-Operation", "Nats-Sequence", "Nats-Msg-Size", "A", "B"] {
                        if let Some(value) = headers.get(name) {
                            replied += &format!(" {name}={}", text(value));
                        }
                    }
                    format!("{replied}: {}", text(message.payload))
                }
            });
        };
        session.receive(piece, &mut out, &mut on).unwrap();
    }
    assert!(sent.starts_with(b"CONNECT {"));
    assert_eq!(out, b"PONG\r\n", "it was pinged once");
    seen
}

#[test]
fn nats_session_is_decoded() {
    let ack = |seq: u32| format!(r#"{{\"stream\":\"KV_bakeoff\", \"seq\":{seq}}}"#);
    let expected = [
        "info of 260 bytes",
        "error: Invalid Subject",
        "pong",
        "$JS.API.STREAM.INFO.KV_bakeoff: 158 bytes",
        "$KV.bakeoff.d.a 503 : ",
        "$JS.API.STREAM.CREATE.KV_bakeoff: 656 bytes",
        &format!("$KV.bakeoff.d.a: {}", ack(1)),
        &format!("$KV.bakeoff.d.b: {}", ack(2)),
        "$JS.API.DIRECT.GET.KV_bakeoff.$KV.bakeoff.d.a Nats-Sequence=1: one",
        r"$JS.API.DIRECT.GET.KV_bakeoff.$KV.bakeoff.d.b Nats-Sequence=2: \r\nMSG a 1 1\r\n\x00\xff",
        "$JS.API.DIRECT.GET.KV_bakeoff.$KV.bakeoff.missing 404 Message Not Found: ",
        "$JS.API.STREAM.MSG.GET.KV_bakeoff: 161 bytes",
        "$JS.API.STREAM.MSG.GET.KV_bakeoff: 130 bytes",
        &format!("$KV.bakeoff.large: {}", ack(3)),
        "$JS.API.DIRECT.GET.KV_bakeoff.$KV.bakeoff.large Nats-Sequence=3: 20000 bytes",
        &format!("$KV.bakeoff.d.a: {}", ack(4)),
        "$JS.API.DIRECT.GET.KV_bakeoff.$KV.bakeoff.d.a KV-Operation=DEL Nats-Sequence=4: ",
        "$JS.API.STREAM.MSG.GET.KV_bakeoff: 200 bytes",
        "$JS.API.CONSUMER.CREATE.KV_bakeoff.list.$KV.bakeoff.d.>: 578 bytes",
        "$KV.bakeoff.d.b (reply to $JS.ACK.KV_bakeoff.list.1.2.1.1795409602724499946.1) Nats-Msg-Size=15: ",
        "$KV.bakeoff.d.a (reply to $JS.ACK.KV_bakeoff.list.1.4.2.1795409605348495020.0) KV-Operation=DEL Nats-Msg-Size=0: ",
        r#"$JS.API.CONSUMER.DELETE.KV_bakeoff.list: {\"type\":\"io.nats.jetstream.api.v1.consumer_delete_response\",\"success\":true}"#,
        "inbox.echo (reply to inbox.19) A=1 B=: to ourselves",
        r#"$JS.API.STREAM.DELETE.KV_bakeoff: {\"type\":\"io.nats.jetstream.api.v1.stream_delete_response\",\"success\":true}"#,
    ];
    check("nats-2.9.10-session", replay_nats, &expected);
}

#[test]
fn nats_reports_a_wrong_token() {
    let replay = |pieces: &[&[u8]]| {
        let (mut session, mut seen) = (nats::Session::default(), Vec::new());
        for piece in pieces {
            let mut on = |event: nats::Event<'_>| {
                seen.push(match event {
                    nats::Event::Info(info) => format!("info of {} bytes", info.len()),
                    nats::Event::Error(error) => String::from_utf8_lossy(error).into_owned(),
                    event => format!("{event:?}"),
                });
            };
            session.receive(piece, &mut Vec::new(), &mut on).unwrap();
        }
        seen
    };
    check("nats-2.9.10-refused", replay, &["info of 263 bytes", "Authorization Violation"]);
}
