//! Tests watchers with the bytes of a scripted server.

use bakeoff_core::watch::WatchStart;
use bakeoff_engine::transport::Target;

use super::*;
use crate::{ClientToken, Memory};

fn answer(status: u16, index: u64, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} -\r\nX-Consul-Index: {index}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Returns keys below `bakeoff/` as Consul's JSON has them.
fn keys(keys: &[(&str, u64, &str)]) -> String {
    let key = |(name, index, value): &(&str, u64, &str)| {
        let value = STANDARD.encode(value);
        format!(
            r#"{{"LockIndex":0,"Key":"bakeoff/{name}","Flags":0,"Value":"{value}","CreateIndex":1,"ModifyIndex":{index}}}"#
        )
    };
    format!("[{}]", keys.iter().map(key).collect::<Vec<_>>().join(","))
}

/// A watcher with what its session has sent.
struct Watched {
    session: ConsulWatchSession,
    out: Vec<u8>,
}

impl Watched {
    /// Connects a watcher of a key, or of a prefix that ends with `/`.
    fn new(name: &str, after: u64) -> Self {
        Self::with_memory(name, after, Memory::default())
    }

    fn with_memory(name: &str, after: u64, memory: Memory) -> Self {
        let node = Access {
            name: "consul-1".into(),
            authority: "here".into(),
            target: Target { address: ([127, 0, 0, 1], 1).into(), tls: None },
            memory,
        };
        let mut watched = Self { session: ConsulWatchSession::new(&node), out: Vec::new() };
        let is_prefix = name.ends_with('/');
        let name = name.as_bytes();
        let request = WatcherRequest {
            watcher: 7,
            name,
            is_prefix,
            after,
            from: WatchStart::Now,
            previous: false,
        };
        watched.session.watch(&request, &mut watched.out);
        watched
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<Vec<String>, ProtocolError> {
        let mut news = Vec::new();
        self.session.receive(bytes, &mut self.out, &mut |piece| {
            news.push(match piece {
                WatchNews::Created { watcher, place } => format!("{watcher} created at {place:?}"),
                WatchNews::Event { watcher, place, key, value } => {
                    let value = value.map(|value| value.escape_ascii().to_string());
                    let value = value.unwrap_or_else(|| "deleted".to_owned());
                    format!("{watcher} {place:?} {}: {value}", key.escape_ascii())
                }
                WatchNews::Ended { watcher, why } => format!("{watcher} ended: {why}"),
                WatchNews::Asked => "asked".to_owned(),
                other => format!("{other:?}"),
            });
        })?;
        Ok(news)
    }

    fn news(&mut self, bytes: &[u8]) -> Vec<String> {
        self.receive(bytes).unwrap()
    }

    /// Returns the targets of the requests sent since the last call.
    fn sent(&mut self) -> Vec<String> {
        let bytes = String::from_utf8(std::mem::take(&mut self.out)).unwrap();
        let lines = bytes.lines().filter_map(|line| line.strip_prefix("GET "));
        lines.filter_map(|line| line.strip_suffix(" HTTP/1.1")).map(str::to_owned).collect()
    }
}

#[test]
fn watcher_of_a_key_queries_again_from_each_index() {
    let mut watched = Watched::new("bakeoff/a", 0);
    assert_eq!(watched.out, b"GET /v1/kv/bakeoff/a HTTP/1.1\r\nHost: here\r\n\r\n");
    watched.sent();
    let news = watched.news(&answer(200, 5, &keys(&[("a", 5, "one")])));
    assert_eq!(news, ["7 created at Some(5)", "asked"]);
    assert_eq!(watched.sent(), ["/v1/kv/bakeoff/a?index=5&wait=5s"]);
    let news = watched.news(&answer(200, 8, &keys(&[("a", 8, "two")])));
    assert_eq!(news, ["7 Some(8) bakeoff/a: two", "asked"]);
    // The wait has ended without a change.
    let news = watched.news(&answer(200, 8, &keys(&[("a", 8, "two")])));
    assert_eq!(news, ["asked"]);
    let asked = "/v1/kv/bakeoff/a?index=8&wait=5s";
    assert_eq!(watched.sent(), [asked, asked]);
}

#[test]
fn missing_key_has_an_event_only_if_it_existed() {
    let mut watched = Watched::new("bakeoff/a", 0);
    assert_eq!(watched.news(&answer(404, 5, "")), ["7 created at Some(5)", "asked"]);
    assert_eq!(watched.news(&answer(404, 6, "")), ["asked"]);
    let news = watched.news(&answer(200, 7, &keys(&[("a", 7, "one")])));
    assert_eq!(news, ["7 Some(7) bakeoff/a: one", "asked"]);
    assert_eq!(watched.news(&answer(404, 8, "")), ["7 Some(8) bakeoff/a: deleted", "asked"]);
    assert_eq!(watched.news(&answer(404, 9, "")), ["asked"]);
}

#[test]
fn changes_below_a_prefix_come_in_the_order_of_their_indexes() {
    let mut watched = Watched::new("bakeoff/", 0);
    assert_eq!(watched.sent(), ["/v1/kv/bakeoff/?recurse"]);
    let state = keys(&[("a", 3, "a1"), ("b", 5, "b1"), ("c", 4, "c1")]);
    assert_eq!(watched.news(&answer(200, 5, &state)), ["7 created at Some(5)", "asked"]);
    assert_eq!(watched.sent(), ["/v1/kv/bakeoff/?recurse&index=5&wait=5s"]);
    let state = keys(&[("a", 9, "a2"), ("b", 5, "b1"), ("d", 8, "")]);
    let expected = [
        "7 Some(8) bakeoff/d: ",
        "7 Some(9) bakeoff/a: a2",
        "7 Some(10) bakeoff/c: deleted",
        "asked",
    ];
    assert_eq!(watched.news(&answer(200, 10, &state)), expected);
}

#[test]
fn index_that_falls_starts_the_queries_again() {
    let mut watched = Watched::new("bakeoff/a", 0);
    watched.news(&answer(200, 50, &keys(&[("a", 50, "one")])));
    watched.news(&answer(200, 51, &keys(&[("a", 51, "two")])));
    watched.sent();
    assert_eq!(watched.news(&answer(404, 7, "")), ["7 None bakeoff/a: deleted", "asked"]);
    assert_eq!(watched.sent(), ["/v1/kv/bakeoff/a"]);
    let news = watched.news(&answer(200, 9, &keys(&[("a", 9, "three")])));
    assert_eq!(news, ["7 None bakeoff/a: three", "asked"]);
    assert_eq!(watched.sent(), ["/v1/kv/bakeoff/a?index=9&wait=5s"]);
}

#[test]
fn index_0_is_asked_as_1() {
    let mut watched = Watched::new("bakeoff/a", 0);
    watched.sent();
    watched.news(&answer(404, 0, ""));
    assert_eq!(watched.sent(), ["/v1/kv/bakeoff/a?index=1&wait=5s"]);
}

#[test]
fn resumed_watcher_reports_what_was_written_since() {
    let mut watched = Watched::new("bakeoff/", 5);
    assert_eq!(watched.sent(), ["/v1/kv/bakeoff/?recurse"]);
    let state = keys(&[("a", 9, "a2"), ("b", 5, "b1"), ("c", 6, "c2")]);
    let expected =
        ["7 created at Some(9)", "7 Some(6) bakeoff/c: c2", "7 Some(9) bakeoff/a: a2", "asked"];
    assert_eq!(watched.news(&answer(200, 9, &state)), expected);
    let mut watched = Watched::new("bakeoff/a", 5);
    let expected = ["7 created at Some(9)", "7 Some(9) bakeoff/a: deleted", "asked"];
    assert_eq!(watched.news(&answer(404, 9, "")), expected);
}

#[test]
fn server_without_a_leader_ends_the_watcher() {
    let mut watched = Watched::new("bakeoff/a", 0);
    watched.news(&answer(404, 5, ""));
    watched.sent();
    let news = watched.news(&answer(500, 0, "No cluster leader"));
    assert_eq!(news, ["7 ended: 500: No cluster leader"]);
    assert_eq!(watched.sent(), [""; 0]);
}

#[test]
fn connection_that_the_server_closes_gets_no_query() {
    let mut watched = Watched::new("bakeoff/a", 0);
    watched.sent();
    let bytes =
        b"HTTP/1.1 404 -\r\nX-Consul-Index: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(watched.news(bytes), ["7 created at Some(5)"]);
    assert!(watched.session.is_ending() && watched.out.is_empty());
}

#[test]
fn queries_have_the_token_of_the_clients() {
    let memory = Memory::default();
    memory.keep(ClientToken("secret".into()));
    let watched = Watched::with_memory("bakeoff/a", 0, memory);
    let expected = b"GET /v1/kv/bakeoff/a HTTP/1.1\r\nHost: here\r\nX-Consul-Token: secret\r\n\r\n";
    assert_eq!(watched.out.escape_ascii().to_string(), expected.escape_ascii().to_string());
}

#[test]
fn silent_server_is_noticed() {
    assert_eq!(Watched::new("bakeoff/a", 0).session.keep_alive_every(), Some(WAIT));
}

#[test]
fn any_split_of_the_bytes_gives_the_same_news() {
    let chunked = "HTTP/1.1 200 OK\r\nX-Consul-Index: 9\r\nTransfer-Encoding: chunked\r\n\r\n";
    let body = keys(&[("a", 9, "two")]);
    let chunked = format!("{chunked}{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).into_bytes();
    let answers = [answer(200, 5, &keys(&[("a", 5, "one")])), chunked, answer(404, 10, "")];
    let expected = [
        "7 created at Some(5)",
        "asked",
        "7 Some(9) bakeoff/a: two",
        "asked",
        "7 Some(10) bakeoff/a: deleted",
        "asked",
    ];
    for size in 1..answers[1].len() + 1 {
        let mut watched = Watched::new("bakeoff/a", 0);
        let pieces = answers.iter().flat_map(|answer| answer.chunks(size));
        let news: Vec<String> = pieces.flat_map(|piece| watched.news(piece)).collect();
        assert_eq!(news, expected, "pieces of {size} bytes");
    }
}

#[test]
fn malformed_answers_are_errors() {
    let without_index = b"HTTP/1.1 404 -\r\nContent-Length: 0\r\n\r\n".to_vec();
    let with_text = b"HTTP/1.1 404 -\r\nX-Consul-Index: -1\r\nContent-Length: 0\r\n\r\n".to_vec();
    let no_base64 = r#"[{"Key":"bakeoff/a","ModifyIndex":9,"Value":"?"}]"#;
    for (bytes, expected) in [
        (without_index, "an answer without a valid X-Consul-Index"),
        (with_text, "an answer without a valid X-Consul-Index"),
        (answer(200, 9, ""), "an answer that is no list of keys: "),
        (answer(200, 9, "[{}]"), "an answer that is no list of keys: "),
        (
            answer(200, 9, r#"[{"Key":"a","ModifyIndex":-1}]"#),
            "an answer that is no list of keys: ",
        ),
        (answer(200, 9, no_base64), "a value that is not base64: "),
        (b"not HTTP".to_vec(), "http1: "),
    ] {
        let mut watched = Watched::new("bakeoff/a", 0);
        watched.news(&answer(404, 5, ""));
        let error = watched.receive(&bytes).unwrap_err();
        assert!(error.what.starts_with(expected), "{error}");
    }
}
