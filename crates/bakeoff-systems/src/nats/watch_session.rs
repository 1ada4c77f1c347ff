//! Watches keys over one connection, with a consumer for each watcher.
//!
//! Works like the ordered consumer of NATS' own clients. The server pushes messages to the watcher's own inbox, and
//! numbers them. If a number is missing, or no heartbeat comes, the session creates another consumer, which continues
//! after the last message. A consumer lives in the memory of one server, so this happens whenever that server ends.
//!
//! The stream keeps one message of each key. So a watcher that lags behind skips values that are overwritten meanwhile.
//! A new consumer may send messages again, which ADR-17 of <https://github.com/nats-io/nats-architecture-and-design>
//! allows; the session drops those before the place at which it asked to continue.
//!
//! Not here: subjects and JSON (`bucket`), when to connect and to which server (`bakeoff_engine::watch`).

use std::collections::HashMap;
use std::time::Duration;

use bakeoff_core::watch::WatchStart;
use bakeoff_engine::watch::{WatchNews, WatchSession, WatcherRequest};
use bakeoff_engine::work::Session;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::nats::{self, Event, Message};

use super::bucket::{self, ApiAnswer, DeliveredMessage};
use super::greeting::{Greeting, GreetingError};

/// Number of the subscription to answers of JetStream's API. Those of watchers follow.
const ANSWERS: u64 = 1;
/// Status of a server's control messages.
const CONTROL: u16 = 100;
/// Looks without a message or heartbeat after which a consumer is taken for dead. There is a look each
/// [`bucket::HEARTBEAT_EVERY`], so two heartbeats are missing then. NATS' own clients wait as long.
const SILENT_LOOKS_MAX: u32 = 3;
/// Looks without an answer after which a consumer is requested again. A cluster creates many one after another.
const UNANSWERED_LOOKS_MAX: u32 = 8;

/// One connection of watchers.
pub(super) struct NatsWatchSession {
    session: nats::Session,
    /// CONNECT options of the client, credentials included.
    connect: String,
    /// Name of this connection, unique in the cluster; empty before the handshake.
    name: String,
    open: bool,
    /// Number of the last subscription.
    last_subscription: u64,
    /// Watchers by the subscription of their present consumer.
    watchers: HashMap<u64, Watcher>,
    /// True if bytes arrived since the last look for silent consumers.
    received: bool,
    /// Consumers created again since the last news.
    renewed: u64,
}

/// A watcher and its present consumer.
struct Watcher {
    number: u32,
    filter: Vec<u8>,
    /// First messages of its consumer while `next` is unknown.
    from: WatchStart,
    /// True once the server has created its first consumer.
    is_created: bool,
    /// True until the server answers the request for the present consumer.
    awaits_answer: bool,
    /// Stream sequence at which the present consumer was asked to start; `None` for later messages only.
    asked_from: Option<u64>,
    /// Stream sequence at which the next consumer starts; `None` until the server has named one.
    next: Option<u64>,
    /// Number of the present consumer's last message; 0 before the first.
    consumer_sequence: u64,
    /// Looks since its last message or heartbeat.
    silent_looks: u32,
}

/// Reaction to a message of a consumer.
enum Reaction {
    None,
    /// Answer this request of the server's flow control.
    Answer(Vec<u8>),
    /// Create another consumer, because messages are missing.
    Renew,
}

impl NatsWatchSession {
    /// Returns a session. `connect`: the client's CONNECT options.
    pub(super) fn new(connect: String) -> Self {
        Self {
            session: nats::Session::default(),
            connect,
            name: String::new(),
            open: false,
            last_subscription: ANSWERS,
            watchers: HashMap::new(),
            received: false,
            renewed: 0,
        }
    }

    /// Processes the greeting of a server.
    fn on_greeting(&mut self, info: &[u8], out: &mut Vec<u8>) -> Result<(), GreetingError> {
        if !self.name.is_empty() {
            return Ok(()); // the server reports a change in its cluster
        }
        self.name = Greeting::read(info)?.connection();
        self.session.connect(&self.connect, out);
        self.session.subscribe(self.answers_to("*").as_bytes(), ANSWERS, out);
        self.session.ping(out);
        Ok(())
    }

    /// Returns the subject for answers that concern a subscription.
    fn answers_to(&self, subscription: impl std::fmt::Display) -> String {
        format!("_INBOX.{}.api.{subscription}", self.name)
    }

    /// Returns the name of a watcher's consumer.
    fn consumer(&self, subscription: u64) -> String {
        format!("{}-w{subscription}", self.name)
    }

    /// Subscribes to a new inbox, and requests a consumer that sends to it.
    fn create(&mut self, watcher: Watcher, out: &mut Vec<u8>) {
        self.last_subscription += 1;
        let subscription = self.last_subscription;
        let (consumer, inbox) =
            (self.consumer(subscription), format!("_INBOX.{}.{subscription}", self.name));
        self.session.subscribe(inbox.as_bytes(), subscription, out);
        let create = bucket::CONSUMER_CREATE.as_bytes();
        let subject = [create, consumer.as_bytes(), b".", &watcher.filter].concat();
        let payload =
            bucket::watcher(&consumer, &watcher.filter, &inbox, watcher.next, watcher.from);
        let reply = self.answers_to(subscription);
        self.session.publish(&subject, reply.as_bytes(), &payload, out);
        let watcher = Watcher {
            awaits_answer: true,
            asked_from: watcher.next,
            consumer_sequence: 0,
            silent_looks: 0,
            ..watcher
        };
        self.watchers.insert(subscription, watcher);
    }

    /// Replaces a watcher's consumer.
    fn renew(&mut self, subscription: u64, out: &mut Vec<u8>) {
        let Some(watcher) = self.watchers.remove(&subscription) else { return };
        self.session.unsubscribe(subscription, out);
        self.delete(subscription, out);
        self.create(watcher, out);
        self.renewed += 1;
    }

    /// Deletes a consumer, without waiting for the answer.
    fn delete(&self, subscription: u64, out: &mut Vec<u8>) {
        let subject = format!("{}{}", bucket::CONSUMER_DELETE, self.consumer(subscription));
        // Subscription 0 is none, so the answer is ignored.
        self.session.publish(subject.as_bytes(), self.answers_to(0).as_bytes(), b"", out);
    }

    /// Processes a message of the server.
    fn on_message(
        &mut self,
        message: &Message<'_>,
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<(), ProtocolError> {
        if message.subscription == ANSWERS {
            self.on_answer(message, on);
            return Ok(());
        }
        let subscription = message.subscription;
        // Messages of a replaced consumer may still be in transit.
        let Some(watcher) = self.watchers.get_mut(&subscription) else { return Ok(()) };
        match watcher.on_message(message, on)? {
            Reaction::None => {}
            Reaction::Answer(to) => self.session.publish(&to, b"", b"", out),
            Reaction::Renew => self.renew(subscription, out),
        }
        Ok(())
    }

    /// Processes an answer to the creation of a consumer. Ignores answers to deletions, and late ones.
    fn on_answer(&mut self, message: &Message<'_>, on: &mut dyn FnMut(WatchNews<'_>)) {
        let last = message.subject.rsplit(|&byte| byte == b'.').next().unwrap_or_default();
        let subscription = std::str::from_utf8(last).ok().and_then(|text| text.parse::<u64>().ok());
        let Some(watcher) = subscription.and_then(|number| self.watchers.get_mut(&number)) else {
            return;
        };
        let number = watcher.number;
        let why = match message.headers.status() {
            Some(503) => "503: JetStream does not answer".to_owned(),
            Some(status) => status.to_string(),
            None => match serde_json::from_slice::<ApiAnswer<'_>>(message.payload) {
                Err(error) => format!("an answer that is not JSON: {error}"),
                Ok(ApiAnswer { error: Some(error), .. }) => error.text(),
                Ok(answer) => {
                    let place = answer.delivered.map(|delivered| delivered.stream_seq);
                    watcher.next = watcher.next.or(place.map(|place| place.saturating_add(1)));
                    (watcher.awaits_answer, watcher.silent_looks) = (false, 0);
                    if !std::mem::replace(&mut watcher.is_created, true) {
                        on(WatchNews::Created { watcher: number, place });
                    }
                    return;
                }
            },
        };
        on(WatchNews::Ended { watcher: number, why });
    }
}

impl Watcher {
    /// Processes a message of its consumer.
    fn on_message(
        &mut self,
        message: &Message<'_>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<Reaction, ProtocolError> {
        self.silent_looks = 0;
        match message.headers.status() {
            Some(CONTROL) => return Ok(self.on_control(message)),
            Some(status) => {
                let text = String::from_utf8_lossy(message.headers.description()).into_owned();
                on(WatchNews::Ended { watcher: self.number, why: format!("{status}: {text}") });
                return Ok(Reaction::None);
            }
            None => {}
        }
        let Some(delivered) = bucket::delivered(message.reply) else {
            let reply = message.reply.escape_ascii();
            return Err(ProtocolError::new(format!("an event without a place: `{reply}`")));
        };
        let DeliveredMessage { stream_sequence, consumer_sequence, .. } = delivered;
        if consumer_sequence != self.consumer_sequence.saturating_add(1) {
            return Ok(Reaction::Renew);
        }
        self.consumer_sequence = consumer_sequence;
        if self.asked_from.is_some_and(|from| stream_sequence < from) {
            return Ok(Reaction::None);
        }
        self.next = Some(stream_sequence.saturating_add(1));
        // Markers of deleted keys, and of expired ones, are the only messages with these headers.
        let is_gone = [bucket::OPERATION, bucket::MARKER]
            .into_iter()
            .any(|name| message.headers.get(name).is_some());
        on(WatchNews::Event {
            watcher: self.number,
            place: Some(stream_sequence),
            key: bucket::name(message.subject),
            value: (!is_gone).then_some(message.payload),
        });
        Ok(Reaction::None)
    }

    fn silent_looks_max(&self) -> u32 {
        if self.awaits_answer { UNANSWERED_LOOKS_MAX } else { SILENT_LOOKS_MAX }
    }

    /// Processes a heartbeat or a request of the server's flow control.
    fn on_control(&self, message: &Message<'_>) -> Reaction {
        let header = |name| message.headers.get(name);
        let last = header("Nats-Last-Consumer").and_then(|text| std::str::from_utf8(text).ok());
        let last = last.and_then(|text| text.parse::<u64>().ok());
        if last.is_some_and(|last| last != self.consumer_sequence) {
            return Reaction::Renew;
        }
        // A heartbeat repeats a request that was not answered yet.
        match (message.reply, header("Nats-Consumer-Stalled")) {
            (&[], None | Some(&[])) => Reaction::None,
            (&[], Some(stalled)) => answer_to(stalled),
            (reply, _) => answer_to(reply),
        }
    }
}

/// Returns the answer to a request of the server's flow control, unless it names no subject.
fn answer_to(subject: &[u8]) -> Reaction {
    match subject.iter().all(u8::is_ascii_graphic) {
        true => Reaction::Answer(subject.to_vec()),
        false => Reaction::None,
    }
}

impl Session for NatsWatchSession {
    fn open(&mut self, _: &mut Vec<u8>) {}

    fn is_open(&self) -> bool {
        self.open
    }

    fn begins_tls(&self) -> bool {
        !self.name.is_empty()
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        for &subscription in self.watchers.keys() {
            self.delete(subscription, out);
        }
    }

    fn keep_alive_every(&self) -> Option<Duration> {
        Some(bucket::HEARTBEAT_EVERY)
    }

    /// Also looks for silent consumers, unless nothing at all was read.
    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        self.session.ping(out);
        if !std::mem::take(&mut self.received) {
            return;
        }
        let mut silent = Vec::new();
        for (&subscription, watcher) in &mut self.watchers {
            watcher.silent_looks += 1;
            if watcher.silent_looks >= watcher.silent_looks_max() {
                silent.push(subscription);
            }
        }
        silent.into_iter().for_each(|subscription| self.renew(subscription, out));
    }
}

impl WatchSession for NatsWatchSession {
    fn watch(&mut self, request: &WatcherRequest<'_>, out: &mut Vec<u8>) {
        let mut filter = Vec::with_capacity(request.name.len() + 16);
        bucket::write_subject(request.name, &mut filter);
        let watcher = Watcher {
            number: request.watcher,
            filter,
            from: request.from,
            is_created: false,
            awaits_answer: true,
            asked_from: None,
            next: (request.after > 0).then(|| request.after.saturating_add(1)),
            consumer_sequence: 0,
            silent_looks: 0,
        };
        self.create(watcher, out);
    }

    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<(), ProtocolError> {
        self.received = true;
        let mut session = std::mem::take(&mut self.session);
        let mut wrong = None;
        let mut further = Vec::new();
        let received = session.receive(input, out, &mut |event| {
            let taken = match event {
                Event::Info(info) => self
                    .on_greeting(info, &mut further)
                    .map_err(|error| ProtocolError::new(error.to_string())),
                Event::Pong => {
                    self.open = true;
                    Ok(())
                }
                Event::Error(error) => {
                    let error = String::from_utf8_lossy(error);
                    Err(ProtocolError::new(format!("the server said: {error}")))
                }
                Event::Message(message) => self.on_message(&message, &mut further, on),
            };
            if let Err(error) = taken {
                wrong.get_or_insert(error);
            }
        });
        self.session = session;
        out.append(&mut further);
        received?;
        (0..std::mem::take(&mut self.renewed)).for_each(|_| on(WatchNews::Asked));
        wrong.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "INFO {\"server_id\":\"NSERVER\",\"server_name\":\"n\",\"version\":\"2.12.4\",\
                        \"client_id\":7,\"jetstream\":true}\r\n";
    const CREATED: &str =
        r#"{"name":"NSERVER7-w2","delivered":{"consumer_seq":0,"stream_seq":40}}"#;

    /// Returns an open session with watcher 5 of a key, whose consumer is not created yet, and the request for that.
    fn requested(after: u64, from: WatchStart) -> (NatsWatchSession, String) {
        let (mut session, mut out) = (NatsWatchSession::new("{}".to_owned()), Vec::new());
        assert!(!session.is_open() && !session.begins_tls());
        session.receive(INFO.as_bytes(), &mut out, &mut |_| {}).unwrap();
        assert!(session.begins_tls(), "it has been greeted");
        let sent = String::from_utf8(out).unwrap();
        assert_eq!(sent, "CONNECT {}\r\nSUB _INBOX.NSERVER7.api.* 1\r\nPING\r\n");
        session.receive(b"PONG\r\n", &mut Vec::new(), &mut |_| {}).unwrap();
        assert!(session.is_open());
        let (name, mut out) = (b"bakeoff/d1/a", Vec::new());
        let (watcher, is_prefix, previous) = (5, false, false);
        let request = WatcherRequest { watcher, name, is_prefix, after, from, previous };
        session.watch(&request, &mut out);
        (session, String::from_utf8(out).unwrap())
    }

    /// Returns a session whose watcher exists.
    fn watching() -> NatsWatchSession {
        let (mut session, _) = requested(0, WatchStart::Now);
        let (news, _) = heard(&mut session, &answer(2, CREATED));
        assert_eq!(news, ["created 5 at Some(40)"]);
        session
    }

    fn text(news: &WatchNews<'_>) -> String {
        match news {
            WatchNews::Created { watcher, place } => format!("created {watcher} at {place:?}"),
            WatchNews::Event { watcher, place, key, value } => {
                let value = value.map_or("gone".into(), String::from_utf8_lossy);
                format!("{watcher}: {}={value} at {place:?}", key.escape_ascii())
            }
            WatchNews::Ended { watcher, why } => format!("{watcher} ended: {why}"),
            WatchNews::Asked => "asked".to_owned(),
            other => format!("{other:?}"),
        }
    }

    /// Feeds the server's bytes to a session. Returns the news, and the bytes that the session sends.
    fn heard(session: &mut NatsWatchSession, bytes: &str) -> (Vec<String>, String) {
        let (mut out, mut seen) = (Vec::new(), Vec::new());
        session.receive(bytes.as_bytes(), &mut out, &mut |news| seen.push(text(&news))).unwrap();
        (seen, String::from_utf8(out).unwrap())
    }

    fn answer(subscription: u64, payload: &str) -> String {
        let length = payload.len();
        format!("MSG _INBOX.NSERVER7.api.{subscription} 1 {length}\r\n{payload}\r\n")
    }

    fn event(subscription: u64, stream: u64, consumer: u64, headers: &str, value: &str) -> String {
        let reply = format!("$JS.ACK.KV_bakeoff.NSERVER7-w2.1.{stream}.{consumer}.17.0");
        let headers = format!("NATS/1.0\r\n{headers}\r\n");
        let (head, total) = (headers.len(), headers.len() + value.len());
        format!(
            "HMSG $KV.bakeoff.d1.a {subscription} {reply} {head} {total}\r\n{headers}{value}\r\n"
        )
    }

    fn control(subscription: u64, reply: &str, headers: &str) -> String {
        let headers = format!("NATS/1.0 100 Idle Heartbeat\r\n{headers}\r\n");
        let length = headers.len();
        format!("HMSG _INBOX.NSERVER7.2 {subscription} {reply}{length} {length}\r\n{headers}\r\n")
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn watcher_is_an_ordered_consumer() {
        let (_, sent) = requested(0, WatchStart::Now);
        assert!(sent.starts_with("SUB _INBOX.NSERVER7.2 2\r\nPUB $JS.API.CONSUMER.CREATE.KV_bakeoff.NSERVER7-w2.$KV.bakeoff.d1.a _INBOX.NSERVER7.api.2 "), "{sent}");
        for part in [
            r#""deliver_policy":"new""#,
            r#""deliver_subject":"_INBOX.NSERVER7.2""#,
            r#""filter_subject":"$KV.bakeoff.d1.a""#,
            r#""idle_heartbeat":2000000000"#,
        ] {
            assert!(sent.contains(part), "{part} in {sent}");
        }
        let (_, sent) = requested(0, WatchStart::Oldest);
        assert!(sent.contains(r#""deliver_policy":"all""#), "{sent}");
        for from in [WatchStart::Now, WatchStart::Oldest] {
            let (_, sent) = requested(40, from);
            assert!(sent.contains(r#""deliver_policy":"by_start_sequence""#), "{sent}");
            assert!(sent.contains(r#""opt_start_seq":41"#), "{sent}");
        }
    }

    #[test]
    fn events_hold_places_and_values() {
        let mut session = watching();
        let bytes = event(2, 41, 1, "", "one")
            + &event(2, 43, 2, "KV-Operation: DEL\r\n", "")
            + &event(2, 44, 3, "Nats-Marker-Reason: MaxAge\r\n", "")
            + &event(9, 45, 1, "", "of a replaced consumer");
        let (news, sent) = heard(&mut session, &bytes);
        assert_eq!(
            news,
            ["5: a=one at Some(41)", "5: a=gone at Some(43)", "5: a=gone at Some(44)"]
        );
        assert_eq!(sent, "");
    }

    #[test]
    fn missing_message_creates_another_consumer_after_the_last_event() {
        let lost_event = event(2, 45, 3, "", "three");
        let lost_heartbeat = control(2, "", "Nats-Last-Consumer: 2\r\nNats-Last-Stream: 45\r\n");
        for lost in [lost_event, lost_heartbeat] {
            let mut session = watching();
            heard(&mut session, &event(2, 41, 1, "", "one"));
            let (news, sent) = heard(&mut session, &lost);
            assert_eq!(news, ["asked"]);
            assert!(sent.starts_with("UNSUB 2\r\n"), "{sent}");
            assert!(sent.contains("CONSUMER.DELETE.KV_bakeoff.NSERVER7-w2 "), "{sent}");
            assert!(sent.contains("SUB _INBOX.NSERVER7.3 3\r\n"), "{sent}");
            assert!(sent.contains(r#""opt_start_seq":42"#), "{sent}");
            assert_eq!(heard(&mut session, &event(2, 46, 4, "", "four")).0, NONE);
            let bytes =
                answer(3, CREATED) + &event(3, 41, 1, "", "one") + &event(3, 45, 2, "", "x");
            let (news, _) = heard(&mut session, &bytes);
            assert_eq!(news, ["5: a=x at Some(45)"], "a repeat from before the start is dropped");
        }
    }

    #[test]
    fn consumer_without_heartbeats_is_replaced() {
        let mut session = watching();
        let look = |session: &mut NatsWatchSession| {
            heard(session, "PONG\r\n");
            let mut out = Vec::new();
            session.keep_alive(&mut out);
            String::from_utf8(out).unwrap()
        };
        for _ in 0..5 {
            assert_eq!(look(&mut session), "PING\r\n");
            let heartbeat = control(2, "", "Nats-Last-Consumer: 0\r\n");
            assert_eq!(heard(&mut session, &heartbeat), (vec![], String::new()));
        }
        assert_eq!(
            (look(&mut session), look(&mut session)),
            ("PING\r\n".into(), "PING\r\n".into())
        );
        let mut unread = Vec::new();
        session.keep_alive(&mut unread);
        assert_eq!(unread, b"PING\r\n", "nothing was read, so nothing can be missing");
        let sent = look(&mut session);
        assert!(sent.contains(r#""opt_start_seq":41"#), "{sent}");
        assert_eq!(heard(&mut session, "PONG\r\n").0, ["asked"]);
        let unanswered: Vec<_> = (0..8).map(|_| look(&mut session).len() > 6).collect();
        assert_eq!(unanswered, [false, false, false, false, false, false, false, true]);
    }

    #[test]
    fn flow_control_is_answered_at_once() {
        let mut session = watching();
        let request = control(2, "$JS.FC.KV_bakeoff.x.1 ", "");
        let (news, sent) = heard(&mut session, &request);
        assert_eq!((news, sent.as_str()), (vec![], "PUB $JS.FC.KV_bakeoff.x.1 0\r\n\r\n"));
        let stalled = "Nats-Last-Consumer: 0\r\nNats-Consumer-Stalled: $JS.FC.KV_bakeoff.x.2\r\n";
        let (_, sent) = heard(&mut session, &control(2, "", stalled));
        assert_eq!(sent, "PUB $JS.FC.KV_bakeoff.x.2 0\r\n\r\n");
        let evil = "Nats-Consumer-Stalled: a 0\r\n";
        assert_eq!(heard(&mut session, &control(2, "", evil)).1, "", "not a subject");
    }

    #[test]
    fn refused_watcher_has_ended() {
        for (bytes, expected) in [
            (
                answer(2, r#"{"error":{"code":503,"err_code":10008,"description":"no leader"}}"#),
                "5 ended: 503: no leader (10008)",
            ),
            (
                "HMSG _INBOX.NSERVER7.api.2 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n".to_owned(),
                "5 ended: 503: JetStream does not answer",
            ),
            (
                control(2, "", "").replace("100 Idle Heartbeat", "409 Consumer Ended"),
                "5 ended: 409: Consumer Ended",
            ),
        ] {
            let (mut session, _) = requested(0, WatchStart::Now);
            assert_eq!(heard(&mut session, &bytes).0, [expected]);
        }
    }

    #[test]
    fn close_deletes_the_consumers() {
        let mut out = Vec::new();
        watching().close(&mut out);
        let sent = String::from_utf8(out).unwrap();
        assert!(sent.contains("CONSUMER.DELETE.KV_bakeoff.NSERVER7-w2 "), "{sent}");
    }

    #[test]
    fn event_without_a_place_is_an_error() {
        let mut session = watching();
        let bytes = b"MSG $KV.bakeoff.d1.a 2 3\r\none\r\n";
        let error = session.receive(bytes, &mut Vec::new(), &mut |_| {}).unwrap_err();
        assert_eq!(error.what, "an event without a place: ``");
    }

    #[test]
    fn split_or_altered_bytes_give_the_same_news() {
        let outcome = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let (mut session, _) = requested(0, WatchStart::Now);
            let (mut out, mut seen) = (Vec::new(), Vec::new());
            for piece in pieces {
                let on = &mut |news: WatchNews<'_>| seen.push(text(&news));
                if let Err(error) = session.receive(piece, &mut out, on) {
                    return (seen, Some(error.what));
                }
            }
            (seen, None)
        };
        let bytes = [
            answer(2, CREATED),
            event(2, 41, 1, "", "one"),
            control(2, "", "Nats-Last-Consumer: 1\r\n"),
            control(2, "$JS.FC.x ", ""),
            event(2, 44, 2, "KV-Operation: PURGE\r\n", ""),
        ];
        let bytes = bytes.concat();
        let whole = outcome(&mut [bytes.as_bytes()].into_iter());
        assert_eq!(whole.0.len(), 3);
        for at in 1..bytes.len() {
            let (head, tail) = bytes.as_bytes().split_at(at);
            assert_eq!(outcome(&mut [head, tail].into_iter()), whole, "split at {at}");
        }
        let words = ["\r\n", " ", ".", "NATS/1.0 100", "HMSG", "Nats-Last-Consumer: 9\r\n"];
        bakeoff_fuzz::run("nats watchers", &[bytes.as_bytes()], &words, |input| {
            outcome(&mut input.chunks(7));
        });
    }
}
