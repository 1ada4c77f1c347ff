//! Tests the rules of [`super`] one by one. The replays of real servers are in `tests/`.

use super::head::USUAL_FIELDS;
use super::*;
use proptest::prelude::*;

const LIMITS: Limits = Limits { max_head: 200, max_body: 100, kept_body: 100 };

fn describe(response: &Response<'_>) -> String {
    let body = String::from_utf8_lossy(response.body);
    format!("{} `{body}`{}", response.status, if response.keep_alive { "" } else { " close" })
}

/// Feeds an answer in pieces of `size` bytes and closes. Returns the responses and the outcome.
fn outcome(is_head: bool, answer: &[u8], size: usize) -> (Vec<String>, Result<(), String>) {
    let mut connection = Connection::new(LIMITS);
    let mut out = Vec::new();
    connection.send_raw(is_head, b"raw", &mut out).unwrap();
    let mut seen = Vec::new();
    let mut on = |response: Response<'_>| seen.push(describe(&response));
    let mut result = Ok(());
    for piece in answer.chunks(size) {
        result = result.and_then(|()| connection.receive(piece, &mut out, &mut on));
    }
    let result = result.and_then(|()| connection.closed(&mut on)).map_err(|error| error.what);
    (seen, result)
}

fn check_as(is_head: bool, answer: &str, expected: Result<&str, &str>) {
    for size in (1..=answer.len()).rev() {
        let (seen, result) = outcome(is_head, answer.as_bytes(), size);
        match expected {
            Ok(expected) => assert_eq!((seen, result), (vec![expected.into()], Ok(()))),
            Err(what) => assert_eq!((seen, result), (vec![], Err(format!("http1: {what}")))),
        }
    }
}

fn check(answer: &str, expected: Result<&str, &str>) {
    check_as(false, answer, expected);
}

#[test]
fn body_has_the_stated_length() {
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Ok("200 `hello`"));
    check("HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n", Ok("200 ``"));
    check("HTTP/1.1 404 \r\nA: b\r\nContent-Length:  2 \r\n\r\nno", Ok("404 `no`"));
}

#[test]
fn truncated_body_is_an_error_with_the_missing_bytes() {
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
        Err("closed with 2 bytes of the body missing"),
    );
    check("HTTP/1.1 200 OK\r\nConte", Err("closed after 22 bytes of a head"));
    assert_eq!(outcome(false, b"", 1).1, Err("http1: closed before a response".into()));
}

#[test]
fn chunks_are_joined_without_extensions_and_trailers() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let check = |rest: &str, expected| check(&format!("{head}{rest}"), expected);
    check("5\r\nhello\r\n0\r\n\r\n", Ok("200 `hello`"));
    check(
        "2;name=value\r\nhe\r\n003 ; x\r\nllo\r\n0;last\r\nTrailer: x\r\nB: c\r\n\r\n",
        Ok("200 `hello`"),
    );
    check("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", Ok("200 `01234567890123456789`"));
}

#[test]
fn truncated_chunk_is_an_error() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let check = |rest: &str, expected| check(&format!("{head}{rest}"), Err(expected));
    check("5\r\nhel", "closed with 2 bytes of a chunk missing");
    check("5\r\nhello\r\n", "closed before the last chunk");
    check("5\r\nhello\r\n0\r\n", "closed before the last chunk");
    check("5\r\nhello\r\n0\r\nTrailer: x\r\n", "closed before the last chunk");
}

#[test]
fn malformed_chunk_is_an_error() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let check = |rest: &str, expected| check(&format!("{head}{rest}"), Err(expected));
    check("\r\n", "a chunk without a size");
    check("g\r\n", "a chunk without a size");
    check("5x\r\n", "a chunk size that is not a number");
    check("-1\r\n", "a chunk without a size");
    check("0000000000005\r\n", "a chunk size of more than 12 digits");
    check("ffffffffffff\r\n", "a body of more than 100 bytes");
    check("5\rhello", "a carriage return without a line feed");
    check("5;\nhello", "a line feed in a chunk extension");
    check("2\r\nhello\r\n", "a chunk longer than its size");
    check("0\r\n\rx", "a carriage return without a line feed");
    check(&format!("1;{}\r\n", "x".repeat(300)), "a chunk extension of more than 200 bytes");
    check(&format!("0\r\n{}\r\n", "x".repeat(300)), "trailers of more than 200 bytes");
}

#[test]
fn some_responses_have_no_body_despite_their_headers() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    check_as(true, head, Ok("200 ``"));
    check_as(true, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Ok("200 ``"));
    check("HTTP/1.1 204 No Content\r\n\r\n", Ok("204 ``"));
    check("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", Ok("304 ``"));
}

#[test]
fn interim_responses_and_line_breaks_are_limited() {
    for (endless, what) in [
        ("HTTP/1.1 100 Continue\r\n\r\n", "interim responses"),
        ("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", "interim responses"),
        ("\r\n", "line breaks"),
    ] {
        let flood = endless.repeat((2 << 20) / endless.len());
        for size in [7, 64 << 10] {
            let (seen, result) = outcome(false, flood.as_bytes(), size);
            let expected = format!("http1: more than 1 MiB of {what} without an answer");
            assert_eq!((seen, result), (vec![], Err(expected)));
        }
    }
    // The limit is for each response.
    let mut connection = Connection::new(LIMITS);
    let answer = "HTTP/1.1 100 Continue\r\n\r\n".repeat(1000) + "HTTP/1.1 204 None\r\n\r\n";
    for _ in 0..100 {
        connection.send_raw(false, b"raw", &mut Vec::new()).unwrap();
        connection.receive(answer.as_bytes(), &mut Vec::new(), &mut |_| {}).unwrap();
    }
}

#[test]
fn interim_responses_are_skipped() {
    check(
        "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        Ok("200 `ok`"),
    );
    check("HTTP/1.1 101 Switching Protocols\r\n\r\n", Err("an unrequested switch of protocols"));
}

#[test]
fn body_without_a_length_lasts_until_the_close() {
    check("HTTP/1.1 200 OK\r\n\r\nall of it", Ok("200 `all of it` close"));
    check("HTTP/1.0 200 OK\r\n\r\n", Ok("200 `` close"));
}

#[test]
fn connection_continues_unless_it_must_close() {
    let length = "Content-Length: 0\r\n\r\n";
    check(&format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{length}"), Ok("200 `` close"));
    check(&format!("HTTP/1.1 200 OK\r\nConnection: a, Close\r\n{length}"), Ok("200 `` close"));
    check(&format!("HTTP/1.0 200 OK\r\n{length}"), Ok("200 `` close"));
    check(&format!("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n{length}"), Ok("200 ``"));
}

#[test]
fn ambiguous_length_is_rejected() {
    let check = |fields: &str, expected| {
        check(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nhello"), Err(expected));
    };
    check("Content-Length: 5\r\nContent-Length: 6", "two different fields content-length");
    check("Content-Length: 5, 6", "two different lengths in content-length");
    for value in ["5,", "5, x", "+5", "-5", "0x5", "", "9999999999999999999999"] {
        let field = format!("Content-Length: {value}");
        check(&field, "a content-length that is not a number");
    }
    check("Content-Length: 101", "a body of more than 100 bytes");
    check("Transfer-Encoding: gzip", "a transfer-encoding other than chunked");
    check("Transfer-Encoding: gzip, chunked", "a transfer-encoding other than chunked");
}

#[test]
fn refuses_bytes_that_are_not_http() {
    check("SSH-2.0-OpenSSH\r\n", Err("the answer is not HTTP/1"));
    check(
        "\x15\x03\x01\x00\x02",
        Err("the answer is a TLS alert: this port may speak TLS, try https://"),
    );
    check("HTTP/2 200\r\n\r\n", Err("the answer is not HTTP/1"));
    check("HTTP/1.1 099 OK\r\n\r\n", Err("a status of 99"));
    let long = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(300));
    check(&long, Err("a head of more than 200 bytes"));
    for head in ["HTTP/1.1 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n"] {
        let (seen, result) = outcome(false, head.as_bytes(), 1000);
        assert!(seen.is_empty() && result.unwrap_err().contains("a malformed head"));
    }
}

/// Returns the responses and their oddities, fed in pieces of any size.
fn odd(count: u32, answer: &[u8], limits: &Limits) -> Vec<(String, Vec<Oddity>)> {
    let mut met: Vec<Vec<(String, Vec<Oddity>)>> = Vec::new();
    for size in [1, 7, answer.len()] {
        let mut connection = Connection::new(limits.clone());
        connection.expect(false, count).unwrap();
        let mut seen = Vec::new();
        for piece in answer.chunks(size) {
            let mut on = |response: Response<'_>| {
                seen.push((describe(&response), response.oddities.iter().collect()));
            };
            connection.receive(piece, &mut Vec::new(), &mut on).unwrap();
        }
        met.push(seen);
    }
    assert!(met.iter().all(|one| *one == met[0]), "{met:?}");
    met.remove(0)
}

#[test]
fn unambiguous_oddities_are_accepted_and_recorded() {
    let check = |fields: &str, body: &str, oddity| {
        let answer = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{body}");
        let limits = Limits { max_head: 200 << 10, ..LIMITS };
        assert_eq!(
            odd(1, answer.as_bytes(), &limits),
            [("200 `hello`".into(), vec![oddity])],
            "{oddity:?}"
        );
    };
    let length = "Content-Length: 5";
    check("Content-Length: 5\r\nContent-Length: 5", "hello", Oddity::RepeatedLength);
    check("Content-Length : 5", "hello", Oddity::BlankBeforeColon);
    check("A: b\r\n  c\r\nContent-Length: 5", "hello", Oddity::FoldedField);
    check("Transfer-Encoding: identity\r\nContent-Length: 5", "hello", Oddity::IdentityCoding);
    let chunks = "5\r\nhello\r\n0\r\n\r\n";
    check("Content-Length: 9\r\nTransfer-Encoding: chunked", chunks, Oddity::LengthNextToChunks);
    let many = "X: y\r\n".repeat(200) + length;
    check(&many, "hello", Oddity::ManyFields);
    let large = format!("X: {}\r\n{length}", "y".repeat(65 << 10));
    check(&large, "hello", Oddity::LargeHead);
}

#[test]
fn line_breaks_between_responses_are_skipped() {
    let one = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let all = format!("{one}\r\n{one}\r\n\r\n{one}");
    let odd = odd(3, all.as_bytes(), &LIMITS);
    let expected = [vec![], vec![Oddity::LineBreaksBetween], vec![Oddity::LineBreaksBetween]];
    assert_eq!(odd.into_iter().map(|(_, met)| met).collect::<Vec<_>>(), expected);
}

#[test]
fn body_beyond_the_kept_bytes_is_counted_and_dropped() {
    let limits = Limits { max_body: usize::MAX, kept_body: 4, ..LIMITS };
    let chunks = "12c\r\n".to_owned() + &"x".repeat(300) + "\r\n0\r\n\r\n";
    let plain = "x".repeat(300);
    for (head, body) in [
        ("Content-Length: 300\r\n\r\n", &plain),
        ("Transfer-Encoding: chunked\r\n\r\n", &chunks),
        ("Connection: close\r\n\r\n", &plain),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{head}{body}");
        let mut connection = Connection::new(limits.clone());
        connection.expect(false, 1).unwrap();
        let mut seen = Vec::new();
        let mut on = |response: Response<'_>| seen.push((response.body.len(), response.length));
        for piece in answer.as_bytes().chunks(50) {
            connection.receive(piece, &mut Vec::new(), &mut on).unwrap();
            assert!(connection.body.capacity() <= 8, "{}", connection.body.capacity());
        }
        connection.closed(&mut on).unwrap();
        assert_eq!(seen, [(4, 300)], "{head}");
    }
}

#[test]
fn answer_without_a_request_is_quoted() {
    let mut connection = Connection::new(LIMITS);
    let refusal = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n";
    let error = connection.receive(refusal, &mut Vec::new(), &mut |_| {}).unwrap_err();
    assert_eq!(error.what, "http1: an answer without a request: `HTTP/1.1 429 Too Many Requests`");
}

#[test]
fn bytes_between_responses_are_an_error() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokay";
    let (seen, result) = outcome(false, answer, 1000);
    assert_eq!(seen, ["200 `ok`"]);
    assert_eq!(result, Err("http1: 2 bytes after the body: it is longer than its Content-Length, or they belong to no request".into()));
    let mut connection = Connection::new(LIMITS);
    assert!(connection.receive(b"x", &mut Vec::new(), &mut |_| {}).is_err());
    assert!(connection.is_over());
    assert!(connection.receive(b"", &mut Vec::new(), &mut |_| {}).is_err());
}

#[test]
fn next_request_waits_for_the_response() {
    let mut connection = Connection::new(LIMITS);
    let mut out = Vec::new();
    for _ in 0..3 {
        assert!(connection.is_ready());
        connection.send_raw(false, b"x", &mut out).unwrap();
        assert_eq!(connection.send_raw(false, b"x", &mut out), Err(Busy));
        let answer = b"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 2\r\n\r\nok";
        let mut values = Vec::new();
        connection
            .receive(answer, &mut out, &mut |response| {
                values.push(response.headers.get("x-a").map(<[u8]>::to_vec));
            })
            .unwrap();
        assert_eq!(values, [Some(b"b".to_vec())]);
    }
    assert_eq!(connection.closed(&mut |_| {}), Ok(()));
}

fn check_request(request: &Request<'_>, expected: &str) {
    let mut out = Vec::new();
    Connection::new(LIMITS).request(request, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn request_states_the_length_of_its_body() {
    let headers = &[("host", "h")];
    let request = Request { method: "GET", target: "/", headers, ..Request::default() };
    check_request(&request, "GET / HTTP/1.1\r\nhost: h\r\n\r\n");
    let request = Request { method: "PUT", ..request };
    check_request(&request, "PUT / HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n");
    let request = Request { body: b"ab", ..request };
    check_request(&request, "PUT / HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nab");
    let headers = &[("Content-Length", "2")];
    let request = Request { headers, ..request };
    check_request(&request, "PUT / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab");
}

#[test]
fn held_body_is_sent_on_consent() {
    let request = Request {
        method: "PUT",
        target: "/",
        body: b"ab",
        expect_continue: true,
        ..Request::default()
    };
    let mut connection = Connection::new(LIMITS);
    let mut out = Vec::new();
    for _ in 0..2 {
        out.clear();
        connection.request(&request, &mut out).unwrap();
        assert!(out.ends_with(b"expect: 100-continue\r\n\r\n"));
        out.clear();
        connection.receive(b"HTTP/1.1 100 \r\n\r\n", &mut out, &mut |_| {}).unwrap();
        assert_eq!(out, b"ab");
        connection.send_held_body(&mut out);
        assert_eq!(out, b"ab");
        connection.receive(b"HTTP/1.1 204 \r\n\r\n", &mut out, &mut |_| {}).unwrap();
    }
}

#[test]
fn refused_body_ends_the_connection() {
    let request =
        Request { method: "PUT", body: b"ab", expect_continue: true, ..Request::default() };
    let mut connection = Connection::new(LIMITS);
    let mut out = Vec::new();
    connection.request(&request, &mut out).unwrap();
    let mut seen = Vec::new();
    let answer = b"HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n";
    connection.receive(answer, &mut out, &mut |r| seen.push(describe(&r))).unwrap();
    assert_eq!(seen, ["417 `` close"]);
    assert!(connection.is_over());
}

proptest! {
    #[test]
    fn any_split_of_any_input_gives_the_same_events(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            "HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 C\r\n\r\n", "Content-Length: 3\r\n", "\r\n",
            "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n", "0\r\n\r\n", "abc", "\n", "\r",
            "HTTP/1.0 404 N\n", "Connection: close\r\n", ":", "x", " ", "3;x\r\n", "A: b\n",
        ]), 0..12),
        size in 1usize..50,
        is_head: bool,
    ) {
        let answer = parts.concat();
        let whole = outcome(is_head, answer.as_bytes(), 10_000);
        let (seen, result) = outcome(is_head, answer.as_bytes(), size);
        prop_assert_eq!(seen, whole.0);
        // The text about surplus bytes depends on how many arrived at once.
        let without_digits = |result: Result<(), String>| {
            result.map_err(|what| match what.contains("without a request") {
                true => "bytes after the body: it is longer than its Content-Length, or they belong to no request".to_owned(),
                false => what.replace(|c: char| c.is_ascii_digit(), "").replace("http:  bytes", "bytes"),
            })
        };
        prop_assert_eq!(without_digits(result), without_digits(whole.1));
    }

    #[test]
    fn body_is_the_same_in_any_chunks(
        chunks in proptest::collection::vec("[a-z]{1,9}", 0..9), size in 1usize..50,
    ) {
        let coded: Vec<_> =
            chunks.iter().map(|c| format!("{:x}\r\n{c}\r\n", c.len())).collect();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", coded.concat());
        let expected = (vec![format!("200 `{}`", chunks.concat())], Ok(()));
        prop_assert_eq!(outcome(false, answer.as_bytes(), size), expected);
    }
}

/// Sends `count` requests as one batch and feeds `answers` in pieces of `size`. Returns the responses and the
/// outcome.
fn pipelined(count: u32, answers: &[u8], size: usize) -> (Vec<String>, Result<bool, String>) {
    let mut connection = Connection::new(LIMITS);
    connection.expect(false, count).unwrap();
    let mut seen = Vec::new();
    let mut on = |response: Response<'_>| seen.push(describe(&response));
    let mut result = Ok(());
    for piece in answers.chunks(size) {
        result = result.and_then(|()| connection.receive(piece, &mut Vec::new(), &mut on));
    }
    (seen, result.map(|()| connection.is_ready()).map_err(|error| error.what))
}

#[test]
fn batch_ends_with_its_last_response() {
    let one = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    let other = "HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n";
    let all = [one, one, other, one].concat();
    let seen: Vec<String> =
        ["200 `hi`", "200 `hi`", "404 `no`", "200 `hi`"].map(str::to_owned).into();
    for size in (1..=all.len()).rev() {
        assert_eq!(pipelined(4, all.as_bytes(), size), (seen.clone(), Ok(true)), "{size}");
        assert_eq!(pipelined(5, all.as_bytes(), size), (seen.clone(), Ok(false)), "{size}");
        assert!(pipelined(3, all.as_bytes(), size).1.is_err(), "{size}");
    }
}

#[test]
fn no_answers_are_expected_after_a_close() {
    let all =
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n";
    let (seen, result) = pipelined(2, all.as_bytes(), all.len());
    assert_eq!(seen, ["200 `` close"]);
    assert_eq!(result, Err("http1: 17 bytes after the last response".into()));
}

#[test]
fn known_head_is_not_mistaken_for_a_longer_one() {
    let mut connection = Connection::new(LIMITS);
    let mut seen = Vec::new();
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789",
        "HTTP/1.1 500 OK\r\nContent-Length: 1\r\n\r\nc",
    ] {
        connection.expect(false, 1).unwrap();
        let mut on = |response: Response<'_>| {
            let length = response.headers.get("content-length").unwrap();
            seen.push(format!("{} {}", describe(&response), length.escape_ascii()));
        };
        connection.receive(answer.as_bytes(), &mut Vec::new(), &mut on).unwrap();
    }
    // For HEAD, the same head has no body.
    connection.expect(true, 1).unwrap();
    let head = b"HTTP/1.1 500 OK\r\nContent-Length: 1\r\n\r\n";
    connection.receive(head, &mut Vec::new(), &mut |r| seen.push(describe(&r))).unwrap();
    assert_eq!(seen, ["200 `a` 1", "200 `b` 1", "200 `0123456789` 10", "500 `c` 1", "500 ``"]);
}

proptest! {
    #[test]
    fn fields_are_what_httparse_finds(
        fields in prop::collection::vec(("[a-zA-Z-]{1,12}", "[ -~\t]{0,20}"), 0..10)
    ) {
        let fields: Vec<_> =
            fields.into_iter().filter(|(name, _)| name.to_lowercase() != "content-length").collect();
        let mut text = "HTTP/1.1 200 OK\r\n".to_owned();
        for (name, value) in &fields {
            text += &format!("{name}: {value}\r\n");
        }
        text += "Content-Length: 0\r\n\r\n";
        let mut room = [httparse::EMPTY_HEADER; USUAL_FIELDS];
        let mut found = httparse::Response::new(&mut room);
        found.parse(text.as_bytes()).unwrap();
        let expected: Vec<_> = found.headers.iter().map(|h| (h.name, h.value.trim_ascii())).collect();
        let ours: Vec<_> = Headers { head: text.as_bytes() }.iter().collect();
        prop_assert_eq!(ours, expected);
    }
}
