//! Tests watchers with the bytes of a scripted server.

use bakeoff_core::watch::WatchStart;
use bakeoff_engine::transport::Target;

use super::*;
use crate::Memory;

/// Number of an event, which answers no request.
const EVENT: i32 = -1;
/// zxid of events of servers before 3.9.
const UNKNOWN: i64 = -1;
const NO_NODE: i32 = -101;

const CREATED: i32 = 1;
const DELETED: i32 = 2;
const DATA: i32 = 3;
const CHILDREN: i32 = 4;

fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    [&(body.len() as u32).to_be_bytes()[..], &body].concat()
}

fn text(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text].concat()
}

/// Returns a reply: number of its request, zxid, error, and the rest.
fn reply(number: i32, zxid: i64, error: i32, rest: &[u8]) -> Vec<u8> {
    frame(&[&number.to_be_bytes(), &zxid.to_be_bytes(), &error.to_be_bytes(), rest])
}

/// Returns the reply to a connecting client: a new session with a timeout of 4 s.
fn granted() -> Vec<u8> {
    let password = [&16_i32.to_be_bytes()[..], &[7; 16]].concat();
    frame(&[&[0; 4], &4000_i32.to_be_bytes(), &[1; 8], &password, &[0]])
}

/// Returns the reply that adds a watch, with zxid 5.
fn added() -> Vec<u8> {
    reply(1, 5, 0, &[0; 4])
}

fn event(zxid: i64, change: i32, path: &str) -> Vec<u8> {
    let state = 3_i32.to_be_bytes();
    let rest = [&change.to_be_bytes()[..], &state, &text(path.as_bytes())].concat();
    reply(EVENT, zxid, 0, &rest)
}

/// Returns the content of a node that was set by transaction `mzxid`.
fn content(number: i32, zxid: i64, value: &[u8], mzxid: i64) -> Vec<u8> {
    let stat = [&1_i64.to_be_bytes()[..], &mzxid.to_be_bytes(), &[0; 52]].concat();
    reply(number, zxid, 0, &[text(value), stat].concat())
}

fn children(number: i32, names: &[&str]) -> Vec<u8> {
    let names: Vec<Vec<u8>> = names.iter().map(|name| text(name.as_bytes())).collect();
    let count = (names.len() as u32).to_be_bytes();
    reply(number, 9, 0, &[&count[..], &names.concat()].concat())
}

/// A watcher with what its session has sent.
struct Watched {
    session: ZooKeeperWatchSession,
    out: Vec<u8>,
}

impl Watched {
    /// Connects a watcher of a key, or of a prefix that ends with `/`.
    fn new(name: &str, after: u64) -> Self {
        let node = Access {
            name: "zookeeper-1".into(),
            authority: "127.0.0.1:1".into(),
            target: Target { address: ([127, 0, 0, 1], 1).into(), tls: None },
            memory: Memory::default(),
        };
        let mut session = ZooKeeperWatchSession::new(&node);
        session.open(&mut Vec::new());
        let mut watched = Self { session, out: Vec::new() };
        assert_eq!(watched.news(&granted()), [""; 0]);
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

    /// Returns number, operation and path of the requests sent since the last call.
    fn sent(&mut self) -> Vec<(i32, i32, String)> {
        let bytes = std::mem::take(&mut self.out);
        let int = |at: usize| i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let (mut sent, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let path = &bytes[at + 16..at + 16 + int(at + 12) as usize];
            sent.push((int(at + 4), int(at + 8), String::from_utf8(path.to_vec()).unwrap()));
            at += 4 + int(at) as usize;
        }
        sent
    }
}

fn request(number: i32, operation: i32, path: &str) -> (i32, i32, String) {
    (number, operation, path.to_owned())
}

const GET_DATA: i32 = 4;
const GET_CHILDREN: i32 = 8;
const SYNC: i32 = 9;
const ADD_WATCH: i32 = 106;

#[test]
fn watcher_of_a_key_reads_it_after_each_event() {
    let mut watched = Watched::new("bakeoff/a", 0);
    assert_eq!(watched.out.last(), Some(&0)); // not recursive
    assert_eq!(watched.sent(), [request(1, ADD_WATCH, "/bakeoff/a")]);
    assert_eq!(watched.news(&added()), ["7 created at Some(5)"]);
    for (number, zxid, change) in [(2, 6, CREATED), (3, 8, DATA)] {
        assert_eq!(watched.news(&event(zxid, change, "/bakeoff/a")), ["asked"]);
        assert_eq!(watched.sent(), [request(number, GET_DATA, "/bakeoff/a")]);
        let expected = format!("7 Some({}) bakeoff/a: value", zxid + 1);
        assert_eq!(watched.news(&content(number, zxid + 1, b"value", zxid)), [expected]);
    }
    assert_eq!(watched.news(&event(9, CHILDREN, "/bakeoff/a")), [""; 0]);
    assert_eq!(watched.sent(), []);
}

#[test]
fn watcher_of_a_prefix_reads_the_nodes_below_it() {
    let mut watched = Watched::new("bakeoff/", 0);
    assert_eq!(watched.out.last(), Some(&1)); // recursive
    assert_eq!(watched.sent(), [request(1, ADD_WATCH, "/bakeoff")]);
    let events = [
        added(),
        event(6, DATA, "/bakeoff"),
        event(7, DATA, "/bakeoff/b"),
        event(8, DATA, "/bakeoff/a"),
    ];
    assert_eq!(watched.news(&events.concat()), ["7 created at Some(5)", "asked", "asked"]);
    let reads = [request(2, GET_DATA, "/bakeoff/b"), request(3, GET_DATA, "/bakeoff/a")];
    assert_eq!(watched.sent(), reads);
    // Node b has changed since, and its read is the first. Places rise all the same.
    let contents = [content(2, 9, b"late", 9), content(3, 9, b"early", 8)].concat();
    assert_eq!(
        watched.news(&contents),
        ["7 Some(9) bakeoff/b: late", "7 Some(9) bakeoff/a: early"]
    );
}

#[test]
fn directory_has_no_event_and_its_children_are_read() {
    let mut watched = Watched::new("bakeoff/", 0);
    watched.news(&added());
    watched.news(&event(6, CREATED, "/bakeoff/d0"));
    watched.sent();
    assert_eq!(watched.news(&content(2, 6, MADE_BY.as_bytes(), 6)), ["asked"]);
    assert_eq!(watched.sent(), [request(3, GET_CHILDREN, "/bakeoff/d0")]);
    assert_eq!(watched.news(&children(3, &["a"])), ["asked"]);
    assert_eq!(watched.sent(), [request(4, GET_DATA, "/bakeoff/d0/a")]);
    let news = watched.news(&content(4, 9, b"one", 7));
    assert_eq!(news, ["7 Some(9) bakeoff/d0/a: one"]);
}

#[test]
fn events_during_a_read_cause_at_most_one_more() {
    // The zxids of two events during the read, that of the read value, and whether it is read again.
    for (events, mzxid, again) in [
        ([UNKNOWN, UNKNOWN], 9, true),
        ([7, 8], 7, true),
        ([7, 8], 8, false),
        ([8, UNKNOWN], 8, true),
    ] {
        let mut watched = Watched::new("bakeoff/a", 0);
        watched.news(&added());
        watched.news(&event(6, DATA, "/bakeoff/a"));
        watched.sent();
        let during = events.map(|zxid| event(zxid, DATA, "/bakeoff/a")).concat();
        assert_eq!(watched.news(&during), [""; 0]);
        let mut expected = vec!["7 Some(9) bakeoff/a: one"];
        expected.extend(again.then_some("asked"));
        assert_eq!(watched.news(&content(2, 9, b"one", mzxid)), expected);
        assert_eq!(watched.sent().len(), usize::from(again));
    }
}

#[test]
fn deletion_is_reported_by_its_event_alone() {
    let mut watched = Watched::new("bakeoff/a", 0);
    watched.news(&added());
    watched.sent();
    let events = [event(6, DATA, "/bakeoff/a"), event(7, DELETED, "/bakeoff/a")].concat();
    assert_eq!(watched.news(&events), ["7 Some(7) bakeoff/a: deleted", "asked"]);
    assert_eq!(watched.news(&reply(2, 7, NO_NODE, b"")), [""; 0]);
    let news = watched.news(&event(UNKNOWN, DELETED, "/bakeoff/a"));
    assert_eq!(news, ["7 None bakeoff/a: deleted"]);
}

#[test]
fn resumed_watcher_reads_the_state_after_a_sync() {
    let state = content(3, 12, b"three", 11);
    let missing = reply(3, 12, NO_NODE, b"");
    for (answer, expected) in
        [(state, "7 Some(12) bakeoff/a: three"), (missing, "7 Some(12) bakeoff/a: deleted")]
    {
        let mut watched = Watched::new("bakeoff/a", 10);
        let requests = [request(1, ADD_WATCH, "/bakeoff/a"), request(2, SYNC, "/bakeoff/a")];
        assert_eq!(watched.sent(), requests);
        assert_eq!(watched.news(&added()), ["7 created at Some(5)"]);
        assert_eq!(watched.news(&reply(2, 11, 0, &text(b"/bakeoff/a"))), ["asked", "asked"]);
        assert_eq!(watched.sent(), [request(3, GET_DATA, "/bakeoff/a")]);
        assert_eq!(watched.news(&answer), [expected]);
    }
}

#[test]
fn deletion_before_the_sync_is_read_like_a_change() {
    let mut watched = Watched::new("bakeoff/a", 10);
    watched.sent();
    let lagging = [added(), event(6, DELETED, "/bakeoff/a")].concat();
    assert_eq!(watched.news(&lagging), ["7 created at Some(5)", "asked"]);
    assert_eq!(watched.news(&reply(2, 11, 0, &text(b"/bakeoff/a"))), ["asked"]);
    // The read was sent before the answer to the sync came, so it is repeated.
    let news = watched.news(&content(3, 12, b"three", 11));
    assert_eq!(news, ["7 Some(12) bakeoff/a: three", "asked"]);
}

#[test]
fn resumed_watcher_of_a_prefix_reads_all_nodes() {
    let mut watched = Watched::new("bakeoff/", 10);
    watched.sent();
    watched.news(&[added(), reply(2, 11, 0, &text(b"/bakeoff"))].concat());
    assert_eq!(watched.sent(), [request(3, GET_CHILDREN, "/bakeoff")]);
    assert_eq!(watched.news(&children(3, &["a", "b"])), ["asked", "asked"]);
    let reads = [request(4, GET_DATA, "/bakeoff/a"), request(5, GET_DATA, "/bakeoff/b")];
    assert_eq!(watched.sent(), reads);
    // Node a was deleted since. Its event comes.
    let answers = [event(12, DELETED, "/bakeoff/a"), reply(4, 12, NO_NODE, b"")].concat();
    assert_eq!(watched.news(&answers), ["7 Some(12) bakeoff/a: deleted"]);
}

#[test]
fn reads_in_flight_are_limited() {
    let mut watched = Watched::new("bakeoff/", 10);
    watched.news(&[added(), reply(2, 11, 0, &text(b"/bakeoff"))].concat());
    watched.sent();
    let names: Vec<String> = (0..150).map(|number| format!("k{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(watched.news(&children(3, &names)).len(), IN_FLIGHT_MAX);
    assert_eq!(watched.news(&content(4, 12, b"v", 3)), ["7 Some(12) bakeoff/k0: v", "asked"]);
    assert_eq!(watched.sent().last(), Some(&request(104, GET_DATA, "/bakeoff/k100")));
}

#[test]
fn refused_requests_end_the_watcher() {
    let mut watched = Watched::new("bakeoff/a", 0);
    let expected =
        "7 ended: adding a watch: Unimplemented (-6), watchers need ZooKeeper 3.6 or newer";
    assert_eq!(watched.news(&reply(1, 5, -6, b"")), [expected]);
    let mut watched = Watched::new("bakeoff/a", 0);
    watched.news(&[added(), event(6, DATA, "/bakeoff/a")].concat());
    let news = watched.news(&reply(2, 6, -102, b""));
    assert_eq!(news, ["7 ended: reading `/bakeoff/a`: NoAuth (-102)"]);
    assert!(!watched.session.is_ending());
    let mut watched = Watched::new("bakeoff/a", 3);
    watched.news(&added());
    let news = watched.news(&reply(2, 6, -112, b""));
    assert_eq!(news, ["7 ended: sync: SessionExpired (-112)"]);
    assert!(watched.session.is_ending());
}

#[test]
fn silent_session_pings_well_within_the_granted_timeout() {
    let watched = Watched::new("bakeoff/a", 0);
    assert_eq!(watched.session.keep_alive_every(), Some(Duration::from_millis(400)));
}

#[test]
fn any_split_of_the_bytes_gives_the_same_news() {
    let stages = [
        [added(), event(6, DATA, "/bakeoff/a")].concat(),
        [content(2, 6, b"one", 6), event(7, DELETED, "/bakeoff/a")].concat(),
    ];
    let mut watched = Watched::new("bakeoff/a", 0);
    let whole: Vec<String> = stages.iter().flat_map(|stage| watched.news(stage)).collect();
    assert_eq!(whole.len(), 4);
    for size in 1..stages[1].len() {
        let mut watched = Watched::new("bakeoff/a", 0);
        let pieces = stages.iter().flat_map(|stage| stage.chunks(size));
        let news: Vec<String> = pieces.flat_map(|piece| watched.news(piece)).collect();
        assert_eq!(news, whole, "pieces of {size} bytes");
    }
}

#[test]
fn malformed_bytes_are_errors() {
    for (bytes, expected) in [
        (event(6, DATA, "bakeoff/a"), "an event of a path that does not begin with `/`"),
        (event(6, DATA, ""), "an event of a path that does not begin with `/`"),
        (reply(EVENT, 6, 0, &[0; 3]), "zookeeper: a truncated reply"),
        (content(2, 6, b"one", 6), "zookeeper: a reply to 2 without a request"),
        (vec![0xff; 4], "zookeeper: a reply of -1 bytes"),
    ] {
        let mut watched = Watched::new("bakeoff/a", 0);
        watched.news(&added());
        assert_eq!(watched.receive(&bytes).unwrap_err().what, expected);
    }
}

#[test]
fn paths_of_a_server_are_limited() {
    let mut watched = Watched::new("bakeoff/", 0);
    watched.news(&added());
    let mut name = vec![b'/'; 1 << 20];
    let error = (0..100).find_map(|number| {
        name[1] = number;
        watched.receive(&event(6, DELETED, std::str::from_utf8(&name).unwrap())).err()
    });
    assert_eq!(error.unwrap().what, "more than 64 MiB of paths of watched nodes");
}
