//! A load against servers that misbehave ends in time, with every operation counted once and by
//! kind, and calls nothing a success that was none.
//!
//! Not here: wrong answers to key-value requests (`checks`).

#![allow(clippy::disallowed_methods, reason = "a test times what it sees from outside")]

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use support::hostile::{Behaviour, Hostile};

/// What a naive client gets: all bytes until the end, or until `wait` has passed without any.
fn ask(server: &Hostile, wait: Duration) -> (Vec<u8>, Option<ErrorKind>) {
    let mut socket = TcpStream::connect(server.address()).unwrap();
    socket.set_read_timeout(Some(wait)).unwrap();
    let mut bytes = Vec::new();
    let sent = socket.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let ended = sent.and_then(|()| socket.read_to_end(&mut bytes)).err().map(|e| e.kind());
    (bytes, ended)
}

#[test]
fn each_hostile_server_does_what_it_is_named_for() {
    let check = |behaviour, begins: &str, length: std::ops::Range<usize>, ended: &[ErrorKind]| {
        let server = Hostile::start(behaviour);
        let (bytes, seen) = ask(&server, Duration::from_millis(300));
        assert!(bytes.starts_with(begins.as_bytes()), "{behaviour:?}: {bytes:?}");
        assert!(length.contains(&bytes.len()), "{behaviour:?}: {} bytes", bytes.len());
        let expected = seen.map_or(ended.is_empty(), |seen| ended.contains(&seen));
        assert!(expected, "{behaviour:?}: {seen:?}");
        let began = Instant::now();
        drop(server);
        assert!(began.elapsed() < Duration::from_secs(5), "{behaviour:?} did not stop");
    };
    let open = &[ErrorKind::WouldBlock][..];
    let broken = &[ErrorKind::ConnectionReset, ErrorKind::BrokenPipe][..];
    check(Behaviour::Honest, "HTTP/1.1 200 OK", 40..80, open);
    check(Behaviour::Garbage, "\x16\x03\x01", 20..40, &[]);
    check(Behaviour::TruncatedBody, "HTTP/1.1 200 OK", 40..60, &[]);
    check(Behaviour::EndlessHeaders, "HTTP/1.1 200 OK", 10_000_000..10_000_100, &[]);
    let (_, seen) = ask(&Hostile::start(Behaviour::ClosesAtOnce), Duration::from_secs(5));
    assert!(seen.is_none_or(|seen| broken.contains(&seen)), "{seen:?}");
    check(Behaviour::ClosesUnanswered, "", 0..1, &[]);
    check(Behaviour::Resets, "", 0..1, broken);
    check(Behaviour::NeverAnswers, "", 0..1, open);
    check(Behaviour::Redirects, "HTTP/1.1 302 Found", 40..120, open);
    check(Behaviour::RedirectsNowhere, "HTTP/1.1 302 Found", 30..60, open);
    check(Behaviour::Errors, "HTTP/1.1 500", 40..80, open);
    check(Behaviour::BadLength, "HTTP/1.1 200 OK", 40..60, &[]);
    check(Behaviour::BadChunks, "HTTP/1.1 200 OK", 50..90, &[]);
    check(Behaviour::AnswersTwice, "HTTP/1.1 200 OK", 80..100, open);
    let server = Hostile::start(Behaviour::Drips);
    let began = Instant::now();
    let (bytes, seen) = ask(&server, Duration::from_secs(2));
    assert!(bytes.starts_with(b"HTTP/1.1 200 OK") && bytes.ends_with(b"dd"), "{bytes:?}");
    assert_eq!(
        (seen, began.elapsed() > Duration::from_secs(3)),
        (Some(ErrorKind::WouldBlock), true)
    );
}
