//! Tests watched puts of a session against a scripted server.

use bakeoff_core::study::Operation;
use bakeoff_engine::transport::Target;
use bakeoff_engine::work::{Session as _, Tag};
use bakeoff_engine::works::keyed::{Answer, KvSession as _, Request};
use bakeoff_wire::protobuf::{put_bytes, put_uint};

use super::lock::LockRules;
use super::session::EtcdSession;
use crate::{Access, Memory};

const KEY: &[u8] = b"bakeoff/1";

/// A session and the next bytes from its server.
struct Desk {
    session: EtcdSession,
    server: Vec<u8>,
}

impl Desk {
    /// Opens a session of four concurrent operations. Its first `watch` opens stream 1.
    fn new() -> Self {
        let node = Access {
            name: "etcd-1".into(),
            authority: "localhost:1".into(),
            target: Target { address: ([127, 0, 0, 1], 1).into(), tls: None },
            memory: Memory::default(),
        };
        let mut session = EtcdSession::new(&node, 4, 60, LockRules { fences: true, renews: true });
        session.open(&mut Vec::new());
        let mut desk = Self { session, server: Vec::new() };
        desk.frame(4, 0, 0, &[]);
        desk
    }

    /// Returns a session with a watcher, whose operation 7 put `one` on stream 3.
    fn with_a_put() -> Self {
        let mut desk = Self::new();
        desk.watch(7, b"one");
        desk.created(1);
        assert!(desk.receive().is_empty());
        desk
    }

    fn watch(&mut self, tag: Tag, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let request = Request { number: 1, value, ..Request::new(Operation::Watch, KEY) };
        assert!(self.session.request(tag, &request, &mut out));
        out
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
        self.server.extend([0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream]);
        self.server.extend(payload);
    }

    fn message(&mut self, stream: u8, message: &[u8]) {
        let payload = [&[0, 0, 0, 0, message.len() as u8], message].concat();
        self.frame(0, 0, stream, &payload);
    }

    /// Ends a stream with a status.
    fn trailers(&mut self, stream: u8, status: u8) {
        self.frame(1, 5, stream, &[b"\0\x0bgrpc-status\x01", &[b'0' + status][..]].concat());
    }

    /// Sends that the watcher of a stream was created.
    fn created(&mut self, stream: u8) {
        self.frame(1, 4, stream, &[0x88]); // `:status` 200
        let mut message = Vec::new();
        put_uint(&mut message, 3, 1);
        self.message(stream, &message);
    }

    /// Acknowledges the put of a stream.
    fn acknowledge(&mut self, stream: u8, revision: u64) {
        let (mut header, mut message) = (Vec::new(), Vec::new());
        put_uint(&mut header, 3, revision);
        put_bytes(&mut message, 1, &header);
        self.frame(1, 4, stream, &[0x88]);
        self.message(stream, &message);
        self.trailers(stream, 0);
    }

    /// Sends the watcher of a stream an event of a write.
    fn event(&mut self, stream: u8, revision: u64, key: &[u8], value: &[u8]) {
        let (mut pair, mut event, mut message) = (Vec::new(), Vec::new(), Vec::new());
        put_bytes(&mut pair, 1, key);
        put_uint(&mut pair, 3, revision);
        put_bytes(&mut pair, 5, value);
        put_bytes(&mut event, 2, &pair);
        put_bytes(&mut message, 11, &event);
        self.message(stream, &message);
    }

    /// Makes the session receive the server's bytes. Returns the operations that ended, and their results.
    fn receive(&mut self) -> Vec<String> {
        let mut ended = Vec::new();
        let server = std::mem::take(&mut self.server);
        self.session
            .receive(&server, &mut Vec::new(), &mut |tag, answer| {
                ended.push(match answer {
                    Answer::Done => format!("{tag}: done"),
                    Answer::Failed(kind, what) => format!("{tag}: {}: {what}", kind.name()),
                    _ => format!("{tag}: another answer"),
                });
            })
            .unwrap();
        ended
    }
}

#[test]
fn watched_put_is_sent_once_its_watcher_is_there() {
    let mut desk = Desk::new();
    let sent = |out: &[u8], what: &[u8]| out.windows(what.len()).any(|some| some == what);
    let out = desk.watch(7, b"one");
    assert!(sent(&out, KEY) && !sent(&out, b"one"), "only the watch is sent");
    desk.created(1);
    let mut out = Vec::new();
    let server = std::mem::take(&mut desk.server);
    desk.session.receive(&server, &mut out, &mut |_, _| panic!("nothing has ended")).unwrap();
    assert!(sent(&out, b"one"));
    assert!(sent(&desk.watch(8, b"two"), b"two"), "the second is sent at once");
}

#[test]
fn watched_put_is_done_when_both_have_come() {
    let mut desk = Desk::with_a_put();
    desk.acknowledge(3, 20);
    assert!(desk.receive().is_empty(), "the event is missing");
    desk.event(1, 20, KEY, b"one");
    assert_eq!(desk.receive(), ["7: done"]);

    desk.watch(7, b"two");
    desk.event(1, 21, KEY, b"two");
    assert!(desk.receive().is_empty(), "the acknowledgement is missing");
    desk.acknowledge(5, 21);
    assert_eq!(desk.receive(), ["7: done"]);
}

#[test]
fn events_belong_to_puts_by_revision() {
    let mut desk = Desk::with_a_put();
    desk.watch(8, b"two");
    // Another client writes the same key before, between and after.
    for (revision, value) in [(18, b"one"), (19, b"two"), (20, b"any"), (21, b"one"), (22, b"any")]
    {
        desk.event(1, revision, KEY, value);
    }
    assert!(desk.receive().is_empty());
    desk.acknowledge(3, 21);
    assert_eq!(desk.receive(), ["7: done"]);
    desk.acknowledge(5, 19);
    assert_eq!(desk.receive(), ["8: done"]);
}

#[test]
fn event_of_another_value_or_key_is_wrong() {
    let wrong = "7: wrong value: the event with the put's revision";
    let value = format!("{wrong} has another value: 4 bytes instead of 3");
    let key = format!("{wrong} is not a put of its key");
    for (name, put, expected) in [(KEY, &b"none"[..], value), (b"bakeoff/2", b"one", key)] {
        for event_first in [false, true] {
            let mut desk = Desk::with_a_put();
            if event_first {
                desk.event(1, 20, name, put);
            }
            desk.acknowledge(3, 20);
            if !event_first {
                desk.event(1, 20, name, put);
            }
            assert_eq!(desk.receive(), [expected.as_str()]);
        }
    }
}

#[test]
fn cancelled_watch_fails_what_waits_and_the_next_creates_another() {
    let cancelled = |desk: &mut Desk| {
        let mut message = Vec::new();
        put_uint(&mut message, 4, 1);
        put_bytes(&mut message, 6, b"permission denied");
        desk.message(1, &message);
    };
    let reset = |desk: &mut Desk| desk.frame(3, 0, 1, &[0, 0, 0, 8]);
    let ended = |desk: &mut Desk| desk.trailers(1, 0);
    type End<'a> = &'a dyn Fn(&mut Desk);
    let ends: [(End<'_>, &str); 3] = [
        (&cancelled, "permission denied"),
        (&reset, "gRPC CANCELLED: stream reset with HTTP/2 code 8"),
        (&ended, "the server sends no more events"),
    ];
    for (end, why) in ends {
        let mut desk = Desk::with_a_put();
        desk.watch(8, b"two");
        desk.acknowledge(3, 20);
        end(&mut desk);
        let mut failed = desk.receive();
        failed.sort();
        let expected = [7, 8].map(|tag| format!("{tag}: status: the watch ended: {why}"));
        assert_eq!(failed, expected);
        // The put of tag 8 was dropped too, so its answer does not belong to the next operation.
        desk.watch(8, b"three");
        desk.acknowledge(5, 21);
        desk.created(7);
        assert!(desk.receive().is_empty());
        desk.acknowledge(9, 22);
        desk.event(7, 22, KEY, b"three");
        assert_eq!(desk.receive(), ["8: done"]);
    }
}

#[test]
fn missed_event_costs_the_watcher() {
    let mut desk = Desk::with_a_put();
    desk.watch(8, b"two");
    desk.acknowledge(3, 20);
    assert!(desk.receive().is_empty());
    assert!(desk.session.abandon(7, &mut Vec::new()));
    let expected = "8: status: the watcher was dropped after a missing event";
    assert_eq!(desk.receive(), [expected]);
    desk.watch(7, b"three");
    desk.created(7);
    assert!(desk.receive().is_empty());
    // A put that was not acknowledged in time does not cost the watcher.
    desk.watch(8, b"four");
    assert!(desk.session.abandon(8, &mut Vec::new()));
    desk.acknowledge(9, 30);
    desk.event(7, 30, KEY, b"three");
    assert_eq!(desk.receive(), ["7: done"]);
}

#[test]
fn refused_put_fails_alone() {
    let mut desk = Desk::with_a_put();
    desk.watch(8, b"two");
    desk.frame(1, 4, 3, &[0x88]);
    desk.trailers(3, 8);
    desk.acknowledge(5, 20);
    desk.event(1, 20, KEY, b"two");
    assert_eq!(desk.receive(), ["7: status: gRPC RESOURCE_EXHAUSTED", "8: done"]);
    // Nothing of it remains for the next operation.
    desk.watch(7, b"three");
    desk.acknowledge(7, 21);
    desk.event(1, 21, KEY, b"three");
    assert_eq!(desk.receive(), ["7: done"]);
}
