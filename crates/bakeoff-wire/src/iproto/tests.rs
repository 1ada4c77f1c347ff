//! Tests the rules of [`super`] one by one. The replays of real servers are in `tests/`.

use super::*;
use proptest::prelude::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|digits| digits[0] << 4 | digits[1]).collect()
}

/// Returns packets, each given as hexadecimal text without its length.
fn packets(packets: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for packet in packets {
        let packet = bytes(packet);
        msgpack::put_unsigned(packet.len() as u64, &mut out);
        out.extend(packet);
    }
    out
}

/// Returns a greeting with the salt 0, 1, 2, ….
fn greeting() -> Vec<u8> {
    let version = "Tarantool 2.6.0 (Binary) 6a8a3e4c-0000-4000-8000-000000000000";
    let salt = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    format!("{version:<63}\n{salt:<63}\n").into_bytes()
}

fn receive(session: &mut Session, input: &[u8]) -> Result<Vec<String>, ProtocolError> {
    let mut events = Vec::new();
    session.receive(input, &mut Vec::new(), &mut |event| {
        events.push(match event {
            Event::Answer { sync, result: Ok(data) } => {
                format!("{} {:?}", sync.number(), data.collect::<Vec<_>>())
            }
            Event::Answer { sync, result: Err(error) } => format!("{} {error}", sync.number()),
            Event::Ready { version } => format!("ready {version}"),
            Event::Refused(error) => format!("refused: {error}"),
        });
    })?;
    Ok(events)
}

fn ready() -> Session {
    let mut session = Session::guest();
    assert_eq!(receive(&mut session, &greeting()).unwrap(), ["ready 2.6.0"]);
    session
}

/// Returns a session with pings in flight. Their numbers are 2^32, 2 × 2^32 + 1 and 3 × 2^32 + 2.
fn with_pings() -> Session {
    let mut session = ready();
    for place in 0..3 {
        let sync = session.request(Request::Ping, &mut Vec::new()).unwrap();
        assert_eq!((sync.number() >> 32, sync.place()), (place as u64 + 1, place));
    }
    session
}

const FIRST: &str = "01 cf 0000000100000000";
const SECOND: &str = "01 cf 0000000200000001";
const THIRD: &str = "01 cf 0000000300000002";

fn check(answers: &[&str], expected: Result<&[&str], &str>) {
    let result = receive(&mut with_pings(), &packets(answers));
    match (&result, expected) {
        (Ok(events), Ok(expected)) => assert_eq!(events, expected),
        (Err(error), Err(expected)) => assert_eq!(error.what, format!("tarantool: {expected}")),
        _ => panic!("{result:?}, not {expected:?}"),
    }
}

#[test]
fn password_is_proved_with_the_salt_and_never_sent() {
    let mut session = Session::new("bench", "pencil");
    let mut out = Vec::new();
    assert_eq!(session.request(Request::Ping, &mut out), Err(Busy));
    session.receive(&greeting(), &mut out, &mut |event| panic!("{event:?}")).unwrap();
    let proof = "c4 14 30ee9121d94389a4529efeb391f70f00f7de61f1";
    let body = format!("82 23 a5 62656e6368 21 92 a9 636861702d73686131 {proof}");
    let packet = bytes(&format!("82 00 07 {FIRST} {body}"));
    let length = (packet.len() as u32).to_be_bytes();
    assert_eq!(out, [&[0xce][..], &length, &packet].concat());
    assert_eq!(session.request(Request::Ping, &mut out), Err(Busy), "not before the answer");

    let answers = packets(&[&format!("82 00 00 {FIRST}")]);
    assert_eq!(receive(&mut session, &answers).unwrap(), ["ready 2.6.0"]);
    assert_eq!(session.capacity(), 1000);
}

#[test]
fn refused_user_cannot_send_requests() {
    let mut session = Session::new("bench", "crayon");
    receive(&mut session, &greeting()).unwrap();
    let answers = packets(&[&format!("82 00 cd 802f {FIRST} 81 31 a2 6e6f")]);
    let expects = ["refused: no (ER_PASSWORD_MISMATCH, 47)"];
    assert_eq!(receive(&mut session, &answers).unwrap(), expects);
    assert_eq!(session.request(Request::Ping, &mut Vec::new()), Err(Busy));
}

#[test]
fn rejects_malformed_greetings() {
    let greets = |greeting: &[u8], user: Option<(&str, &str)>, expected: &str| {
        let mut session = Session::with_limits(user, Limits::default());
        let error = receive(&mut session, greeting).unwrap_err();
        assert_eq!(error.what, format!("tarantool: {expected}"));
    };
    let not_binary = String::from_utf8(greeting()).unwrap().replace("(Binary)", "(Lua console)");
    let not_binary = &not_binary.as_bytes()[..GREETING_SIZE];
    greets(not_binary, None, "not a greeting of the binary protocol");
    greets(&[b'x'; GREETING_SIZE], None, "not a greeting of the binary protocol");
    let mut unsalted = greeting();
    unsalted[64..].fill(b' ');
    greets(&unsalted, Some(("a", "b")), "a greeting without a salt");
    unsalted[64..68].copy_from_slice(b"AAEC");
    greets(&unsalted, Some(("a", "b")), "a greeting without a salt");
    // The guest needs no salt.
    let mut session = Session::guest();
    assert_eq!(receive(&mut session, &unsalted).unwrap(), ["ready 2.6.0"]);
}

fn check_request(request: Request<'_>, kind: &str, body: &str) {
    let mut session = ready();
    let mut out = Vec::new();
    session.request(request, &mut out).unwrap();
    let packet = bytes(&format!("82 00 {kind} {FIRST} {body}"));
    assert_eq!(out[0], 0xce);
    assert_eq!(out[1..5], (packet.len() as u32).to_be_bytes());
    assert_eq!(out[5..], packet);
}

#[test]
fn requests_are_encoded_as_the_server_expects() {
    let arguments = &[Value::Unsigned(7), Value::Nil];
    let key = &[Value::Text(b"a")];
    let tuple = &[Value::Text(b"a"), Value::Bytes(b"b")];
    let (space, index) = (512, 1);
    check_request(Request::Ping, "40", "80");
    check_request(Request::Call { function: "f", arguments }, "0a", "82 22 a166 21 92 07 c0");
    check_request(Request::Eval { expression: "f", arguments }, "08", "82 27 a166 21 92 07 c0");
    check_request(
        Request::Select {
            space,
            index,
            iterator: IteratorType::GreaterOrEqual,
            offset: 2,
            limit: 3,
            key,
        },
        "01",
        "86 10 cd0200 11 01 12 03 13 02 14 05 20 91 a161",
    );
    check_request(Request::Insert { space, tuple }, "02", "82 10 cd0200 21 92 a161 c40162");
    check_request(Request::Replace { space, tuple }, "03", "82 10 cd0200 21 92 a161 c40162");
    check_request(Request::Delete { space, index, key }, "05", "83 10 cd0200 11 01 20 91 a161");
}

#[test]
fn answers_come_in_any_order_and_the_schema_version_is_ignored() {
    check(
        &[
            &format!("83 00 ce 00000000 {THIRD} 05 ce 0000004e 81 30 91 92 a161 01"),
            &format!("83 05 01 {FIRST} 00 00 80"),
            &format!("83 00 ce 00008003 {SECOND} 05 ce 0000004e 82 31 a2 6e6f 52 80"),
        ],
        Ok(&[
            "12884901890 [Array(Array { rest: [161, 97, 1], left: 2 })]",
            "4294967296 []",
            "8589934593 no (ER_TUPLE_FOUND, 3)",
        ]),
    );
    // A ping's answer may have no body.
    check(&[&format!("82 00 00 {FIRST}")], Ok(&["4294967296 []"]));
}

#[test]
fn skips_packets_before_the_answer() {
    let pushed = format!("82 00 cc 80 {FIRST} 81 30 91 01");
    check(&[&pushed, &pushed, &format!("82 00 00 {FIRST} 80")], Ok(&["4294967296 []"]));
}

#[test]
fn answer_without_a_request_is_an_error() {
    let first = format!("82 00 00 {FIRST} 80");
    let unrequested = "an answer to 4294967296, which is not in flight";
    check(&[&first, &first], Err(unrequested));
    check(&["82 00 00 01 00 80"], Err("an answer to 0, which is not in flight"));
    let unrequested = "an answer to 18446744073709551615, which is not in flight";
    check(&["82 00 00 01 cf ffffffffffffffff 80"], Err(unrequested));
}

#[test]
fn malformed_answers_are_errors() {
    check(&["01"], Err("a packet without a header"));
    check(&[""], Err("a truncated value"));
    check(&[&format!("81 {FIRST}")], Err("a header without a type"));
    check(&["81 00 00"], Err("a header without a number"));
    check(&[&format!("82 00 00 {FIRST} 91 01")], Err("a body that is not a map"));
    check(&[&format!("82 00 00 {FIRST} 80 80")], Err("a packet that is 1 bytes too long"));
    check(&[&format!("82 00 00 {FIRST} 81 30 01")], Err("an answer that is not a list"));
    check(&[&format!("82 00 00 {FIRST} 81 30 dd ffffffff")], Err("a truncated value"));
    check(&[&format!("82 00 40 {FIRST} 80")], Err("a packet of type 64"));
    check(&[&format!("82 00 00 {FIRST} c1")], Err("a byte that begins no value"));
    let starts = |input: &[u8], expected: &str| {
        let mut session = with_pings();
        let error = receive(&mut session, input).unwrap_err();
        assert_eq!(error.what, format!("tarantool: {expected}"));
        let error = receive(&mut session, &[]).unwrap_err();
        assert_eq!(error.what, "tarantool: received after an error");
        assert_eq!(session.request(Request::Ping, &mut Vec::new()), Err(Busy));
    };
    starts(b"\xa1", "a packet that does not begin with its length");
    starts(b"\xce\x7f\xff\xff\xff", "a packet larger than the limit");
    starts(b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "a packet larger than the limit");
}

#[test]
fn error_has_its_code_and_a_limited_text() {
    let expects = |error: &str, expected: &str| {
        let answer = packets(&[&format!("82 00 {error} {FIRST} 81 31 a2 6e6f")]);
        assert_eq!(receive(&mut with_pings(), &answer).unwrap(), [expected]);
    };
    expects("cd 802a", "4294967296 no (ER_ACCESS_DENIED, 42)");
    expects("cd 8000", "4294967296 no (tarantool error 0)");
    expects("cf ffffffffffffffff", "4294967296 no (tarantool error 4294967295)");
    let long = format!("82 00 cd 8020 {FIRST} 81 31 da 0bb8 {}", "c3a4".repeat(1500));
    let mut kept = 0;
    let on = &mut |event: Event<'_>| {
        if let Event::Answer { result: Err(error), .. } = event {
            kept = error.message.len();
        }
    };
    with_pings().receive(&packets(&[&long]), &mut Vec::new(), on).unwrap();
    assert_eq!(kept, MESSAGE_MAX);
}

#[test]
fn abandoned_request_keeps_its_place_until_answered() {
    let limits = Limits { max_in_flight: 2, ..Limits::default() };
    let mut session = Session::with_limits(None, limits);
    receive(&mut session, &greeting()).unwrap();
    let ask = |session: &mut Session| session.request(Request::Ping, &mut Vec::new());
    let (first, _) = (ask(&mut session).unwrap(), ask(&mut session).unwrap());
    assert_eq!(ask(&mut session), Err(Busy));
    session.give_up(first);
    assert_eq!(ask(&mut session), Err(Busy));
    assert_eq!(session.in_flight(), 2);
    // Its answer is dropped, and then its place is free again.
    let answer = packets(&[&format!("82 00 00 {FIRST} 80")]);
    assert_eq!(receive(&mut session, &answer).unwrap(), [""; 0]);
    let third = ask(&mut session).unwrap();
    assert_eq!((third.place(), third.number() >> 32), (first.place(), 3));
    session.give_up(first); // already answered
    let answer = packets(&["82 00 00 01 cf 0000000300000000 80"]);
    assert_eq!(receive(&mut session, &answer).unwrap(), ["12884901888 []"]);
}

proptest! {
    #[test]
    fn any_split_of_any_input_gives_the_same_events(
        answers in proptest::collection::vec(
            (0_u64..4, any::<bool>(), proptest::collection::vec(any::<u8>(), 0..12)), 0..8),
        size in 1_usize..50,
    ) {
        let mut input = Vec::new();
        for (which, error, rest) in answers {
            let mut packet = Vec::new();
            msgpack::put_map(2, &mut packet);
            let kind = if error { ERROR } else { OK };
            for (key, value) in [(KEY_TYPE, kind), (KEY_SYNC, (which + 1) << 32 | which)] {
                msgpack::put_unsigned(key, &mut packet);
                msgpack::put_unsigned(value, &mut packet);
            }
            if rest.len() % 2 == 0 {
                // A valid body.
                msgpack::put_map(1, &mut packet);
                msgpack::put_unsigned(KEY_DATA, &mut packet);
                msgpack::put_array(1, &mut packet);
                msgpack::put_bytes(&rest, &mut packet);
            } else {
                packet.extend(rest);
            }
            msgpack::put_unsigned(packet.len() as u64, &mut input);
            input.extend(packet);
        }
        let whole = receive(&mut with_pings(), &input);
        let mut session = with_pings();
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
