//! Tests the rules of [`super`] one by one. The replays of real servers are in `tests/`.

use super::*;
use proptest::prelude::*;

/// Returns frames, each given as hexadecimal text.
fn frames(frames: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in frames {
        let digits: Vec<u8> =
            frame.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
        framed(&mut bytes, |out| out.extend(digits.chunks(2).map(|d| d[0] << 4 | d[1])));
    }
    bytes
}

const CONNECTED: &str = "00000000 00002710 0000000000000007 00000010 \
                         000102030405060708090a0b0c0d0e0f 00";

fn receive(session: &mut Session, input: &[u8]) -> Result<Vec<String>, ProtocolError> {
    let mut events = Vec::new();
    session.receive(input, &mut Vec::new(), &mut |event| {
        events.push(match event {
            Event::Reply { xid, result: Ok(Reply::Children(names)), .. } => {
                format!("{} {:?}", xid.number(), names.collect::<Vec<_>>())
            }
            Event::Reply { xid, result: Ok(reply), .. } => {
                format!("{} {reply:?}", xid.number())
            }
            Event::Reply { xid, result: Err(error), .. } => format!("{} {error}", xid.number()),
            event => format!("{event:?}"),
        });
    })?;
    Ok(events)
}

/// Returns a connected session that has requested a creation, children, a deletion and its end.
fn with_requests() -> Session {
    let mut session = Session::new(10_000);
    receive(&mut session, &frames(&[CONNECTED])).unwrap();
    let mut out = Vec::new();
    let create = Request::Create { path: "/a", data: b"", mode: CreateMode::Ephemeral };
    for request in [
        create,
        Request::GetChildren { path: "/" },
        Request::Delete { path: "/a", version: None },
        Request::Close,
    ] {
        session.request(request, &mut out).unwrap();
    }
    session
}

fn check(replies: &[&str], expected: Result<&[&str], &str>) {
    let result = receive(&mut with_requests(), &frames(replies));
    match (&result, expected) {
        (Ok(events), Ok(expected)) => assert_eq!(events, expected),
        (Err(error), Err(expected)) => assert_eq!(error.what, format!("zookeeper: {expected}")),
        _ => panic!("{result:?}, not {expected:?}"),
    }
}

#[test]
fn session_starts_with_the_granted_timeout() {
    let mut session = Session::new(30_000);
    let mut out = Vec::new();
    session.open(&mut out);
    assert_eq!(out.len(), 4 + 45);
    assert_eq!(session.request(Request::Close, &mut out), Err(Busy));
    let events = receive(&mut session, &frames(&[CONNECTED])).unwrap();
    assert_eq!(events, ["Connected { session_id: 7, timeout_ms: 10000 }"]);
    assert_eq!(session.capacity(), 1000);
    assert_eq!(session.resumption().unwrap().session_id, 7);
}

fn check_request(request: Request<'_>, expected: &str) {
    let mut session = Session::new(10_000);
    receive(&mut session, &frames(&[CONNECTED])).unwrap();
    let mut out = Vec::new();
    session.request(request, &mut out).unwrap();
    assert_eq!(out, frames(&[&format!("00000001 {expected}")]));
}

#[test]
fn requests_are_encoded_as_the_server_expects() {
    let (path, data) = ("/a", &b"b"[..]);
    let acl = "00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65";
    // Flags of `CreateMode`: 1 is ephemeral, 2 is sequential.
    for (mode, flags) in [
        (CreateMode::Persistent, 0),
        (CreateMode::Ephemeral, 1),
        (CreateMode::PersistentSequential, 2),
        (CreateMode::EphemeralSequential, 3),
    ] {
        let expected = format!("00000001 00000002 2f61 00000001 62 {acl} {flags:08x}");
        check_request(Request::Create { path, data, mode }, &expected);
    }
    check_request(Request::Delete { path, version: None }, "00000002 00000002 2f61 ffffffff");
    check_request(Request::Exists { path, watch: false }, "00000003 00000002 2f61 00");
    check_request(Request::Exists { path, watch: true }, "00000003 00000002 2f61 01");
    check_request(Request::GetData { path }, "00000004 00000002 2f61 00");
    check_request(
        Request::SetData { path, data, version: Some(7) },
        "00000005 00000002 2f61 00000001 62 00000007",
    );
    check_request(Request::GetChildren { path }, "00000008 00000002 2f61 00");
    check_request(Request::Sync { path }, "00000009 00000002 2f61");
    for (mode, number) in [(WatchMode::Persistent, 0), (WatchMode::PersistentRecursive, 1)] {
        let expected = format!("0000006a 00000002 2f61 {number:08x}");
        check_request(Request::AddWatch { path, mode }, &expected);
    }
    check_request(Request::Close, "fffffff5");
}

#[test]
fn session_resumes_with_its_last_transaction() {
    let mut session = with_requests();
    let replies =
        ["00000001 0000000000000009 00000000 00000002 2f61", "00000002 ffffffffffffffff ffffff9b"];
    receive(&mut session, &frames(&replies)).unwrap();
    let mut session = Session::resume(1000, session.resumption().unwrap());
    let mut out = Vec::new();
    session.open(&mut out);
    let expected = "00000000 0000000000000009 000003e8 0000000000000007 \
                    00000010 000102030405060708090a0b0c0d0e0f 00";
    assert_eq!(out, frames(&[expected]));
}

#[test]
fn timeout_of_0_means_an_expired_session() {
    let gone = "00000000 00000000 0000000000000000 00000010 \
                00000000000000000000000000000000 00";
    let mut session =
        Session::resume(1000, Resumption { session_id: 7, password: [0; 16], last_zxid: 9 });
    assert_eq!(receive(&mut session, &frames(&[gone])).unwrap(), ["Expired"]);
    assert_eq!(session.capacity(), 0);
    assert_eq!(session.resumption(), None);
}

#[test]
fn replies_are_decoded_by_their_request() {
    check(
        &[
            "00000001 0000000000000005 00000000 00000002 2f61",
            "fffffffe 0000000000000005 00000000",
            "ffffffff ffffffffffffffff 00000000 00000003 00000003 00000001 2f",
            "00000002 0000000000000005 00000000 00000002 00000001 61 00000002 6263",
            "00000003 0000000000000006 ffffff9b",
            "00000004 0000000000000007 00000000",
        ],
        Ok(&[
            "1 Created(\"/a\")",
            "Pong",
            "Watched { change: Data, state: 3, path: \"/\", zxid: None }",
            "2 [\"a\", \"bc\"]",
            "3 NoNode (-101)",
            "4 Closed",
        ]),
    );
}

/// Returns a connected session that has requested a watch.
fn with_watch() -> Session {
    let mut session = Session::new(10_000);
    receive(&mut session, &frames(&[CONNECTED])).unwrap();
    let mode = WatchMode::PersistentRecursive;
    session.request(Request::AddWatch { path: "/a", mode }, &mut Vec::new()).unwrap();
    session
}

/// Start of a reply to request 1, and of an event without a zxid.
const REPLY: &str = "00000001 0000000000000005 00000000";
const EVENT: &str = "ffffffff ffffffffffffffff 00000000";

#[test]
fn events_name_the_change_the_node_and_the_transaction() {
    let mut session = with_watch();
    assert_eq!(
        receive(&mut session, &frames(&[&format!("{REPLY} 00000000")])).unwrap(),
        ["1 Watching"]
    );
    for (number, change) in [
        (1, "Created"),
        (2, "Deleted"),
        (3, "Data"),
        (4, "Children"),
        (7, "Other(7)"),
        (-1, "Other(-1)"),
    ] {
        for (zxid, seen) in [("ffffffffffffffff", "None"), ("0000000100000009", "Some(4294967305)")]
        {
            let event = format!("ffffffff {zxid} 00000000 {number:08x} 00000003 00000002 2f61");
            let expected =
                format!("Watched {{ change: {change}, state: 3, path: \"/a\", zxid: {seen} }}");
            assert_eq!(receive(&mut session, &frames(&[&event])).unwrap(), [expected]);
        }
    }
    assert_eq!(session.in_flight(), 0);
}

#[test]
fn malformed_events_and_watches_are_errors() {
    for (frame, expected) in [
        (format!("{REPLY} ffffff99"), "a watch was added with BadVersion (-103)"),
        (REPLY.to_owned(), "a truncated reply"),
        (format!("{EVENT} 00000003 00000003"), "a truncated reply"),
        (format!("{EVENT} 00000003 00000003 00000002 2f"), "a truncated reply"),
        (format!("{EVENT} 00000003 00000003 00000001 ff"), "text that is not UTF-8"),
        (format!("{EVENT} 00000003 00000003 00000001 2f 00"), "a reply that is 1 bytes too long"),
    ] {
        let error = receive(&mut with_watch(), &frames(&[&frame])).unwrap_err();
        assert_eq!(error.what, format!("zookeeper: {expected}"));
    }
}

#[test]
fn only_requested_events_come_without_limit() {
    let path = "2f".repeat(1000);
    let event = format!("{EVENT} 00000003 00000003 000003e8 {path}");
    let events = frames(&[&event]).repeat(2000);
    assert_eq!(receive(&mut with_watch(), &events).unwrap().len(), 2000);
    let error = receive(&mut with_requests(), &events).unwrap_err();
    assert_eq!(error.what, "zookeeper: more than 1 MiB of notifications without an answer");
}

#[test]
fn replies_out_of_order_or_without_request_are_errors() {
    check(&["00000002 0000000000000005 00000000"], Err("a reply to 2 instead of 1"));
    let error = "0000000000000005 ffffff9b";
    let all: Vec<_> = (1..6).map(|xid| format!("{xid:08x} {error}")).collect();
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    check(&all, Err("a reply to 5 without a request"));
}

#[test]
fn malformed_replies_are_errors() {
    check(&["00000001 0000000000000005"], Err("a truncated reply"));
    check(&["00000001 0000000000000005 00000000 00000002 2f"], Err("a truncated reply"));
    check(&["00000001 0000000000000005 00000000 fffffff0"], Err("a negative length"));
    check(&["00000001 0000000000000005 00000000 00000001 ff"], Err("text that is not UTF-8"));
    check(
        &["00000001 0000000000000005 00000000 00000001 2f 00"],
        Err("a reply that is 1 bytes too long"),
    );
    let mut session = with_requests();
    let error = receive(&mut session, &[0x7f, 0xff, 0xff, 0xff]).unwrap_err();
    assert_eq!(error.what, "zookeeper: a reply of 2147483647 bytes");
    let error = receive(&mut session, &[]).unwrap_err();
    assert_eq!(error.what, "zookeeper: received after an error");
    let error = receive(&mut with_requests(), &[0x80, 0, 0, 0]).unwrap_err();
    assert_eq!(error.what, "zookeeper: a reply of -2147483648 bytes");
}

#[test]
fn list_shorter_than_its_count_is_an_error() {
    check(
        &[
            "00000001 0000000000000005 ffffff92",
            "00000002 0000000000000005 00000000 7fffffff 00000001 61",
        ],
        Err("a truncated reply"),
    );
}

#[test]
fn request_numbers_wrap_before_they_become_negative() {
    let mut session = with_requests();
    session.next = Xid(i32::MAX);
    session.oldest = Xid(i32::MAX);
    session.state = State::Connected;
    session.in_flight.clear();
    let mut out = Vec::new();
    let mut ask = || session.request(Request::Sync { path: "/" }, &mut out).unwrap().number();
    assert_eq!((ask(), ask()), (i32::MAX, 1));
    let replies = ["7fffffff 0000000000000005 ffffff9b", "00000001 0000000000000005 ffffff9b"];
    assert_eq!(receive(&mut session, &frames(&replies)).unwrap().len(), 2);
}

#[test]
fn requests_in_flight_are_limited() {
    let limits = Limits { max_in_flight: 2, ..Limits::default() };
    let mut session = Session::with_limits(1000, None, limits);
    receive(&mut session, &frames(&[CONNECTED])).unwrap();
    let mut ask = || session.request(Request::Sync { path: "/" }, &mut Vec::new()).is_ok();
    assert_eq!([ask(), ask(), ask()], [true, true, false]);
}

proptest! {
    #[test]
    fn any_split_of_any_input_gives_the_same_events(
        replies in proptest::collection::vec(
            (-1i32..6, any::<bool>(), proptest::collection::vec(0u8..4, 0..40)), 0..8),
        size in 1usize..50,
    ) {
        let mut input = Vec::new();
        for (number, error, rest) in replies {
            framed(&mut input, |out| {
                put_int(out, number);
                put_long(out, 1);
                put_int(out, -i32::from(error));
                out.extend(rest);
            });
        }
        let whole = receive(&mut with_requests(), &input);
        let mut session = with_requests();
        let mut events = Ok(Vec::new());
        for piece in input.chunks(size) {
            match (receive(&mut session, piece), &mut events) {
                (Ok(more), Ok(events)) => events.extend(more),
                (Err(error), _) => { events = Err(error); break }
                _ => {}
            }
        }
        prop_assert_eq!(events, whole);
    }
}
