//! Maps key-value operations onto requests to JetStream.
//!
//! A `put` is a message to the key's subject, and is done when the stream acknowledges it. A `list` works as in NATS'
//! own clients. It creates a consumer that delivers the last message of each subject below the directory, requests its
//! messages, and deletes it. All of that is one operation.
//!
//! Each operation has its own reply subject, so that a late answer is not taken for that of the next operation.

use std::fmt::Write as _;
use std::time::Duration;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::study::{Operation, ReadConsistency};
use bakeoff_core::units::ByteCount;
use bakeoff_engine::work::{Session, Tag};
use bakeoff_engine::works::keyed::{Answer, KvSession, Request};
use bakeoff_wire::ProtocolError;
use bakeoff_wire::nats::{self, Event, Message};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::bucket::{self, ApiAnswer, DeliveredMessage};
use super::greeting::{Greeting, GreetingError};

/// Number of the only subscription.
const SUBSCRIPTION: u64 = 1;
/// Bytes of answers that a server holds for a client before it cuts that client off as a slow consumer, without a word:
/// `max_pending` by default.
const PENDING_MAX: u64 = 64 << 20;
/// Bytes of answers in flight that stay below that limit. The server counts what it is sending until all of it is sent,
/// and meanwhile adds the answers to new requests. 34 reads of 1 MB were cut off, 30 were not (2.9 and 2.12).
pub(super) const IN_FLIGHT_MAX: u64 = PENDING_MAX / 2;
/// Most repeats of a request to a consumer that some servers do not know yet.
const ASKED_AGAIN_MAX: u32 = 1000;

/// One connection to a server.
pub(crate) struct NatsSession {
    session: nats::Session,
    /// CONNECT options of the client, credentials included.
    connect: String,
    /// Name of this connection, unique in the cluster; empty before the handshake.
    name: String,
    open: bool,
    /// True if every replica answers reads; false if only the leader does.
    direct: bool,
    /// Operations in flight, by tag.
    pending: Vec<Option<OpenOperation>>,
    /// Number of operations so far.
    count: u64,
    /// Bytes of the longest value so far.
    longest: usize,
    subject: Vec<u8>,
    reply: String,
}

struct OpenOperation {
    /// Number of the operation on this connection.
    number: u64,
    step: Step,
}

enum Step {
    Write,
    /// Read that any replica answers, with the message itself.
    Direct,
    /// Read that the leader answers, with JSON.
    Leader,
    List(List),
}

#[derive(Default)]
struct List {
    /// True once the consumer was created.
    made: bool,
    /// Requested messages that have not arrived yet.
    due: u64,
    /// True if a message arrived since the last request.
    heard: bool,
    asked_again: u32,
    names: Vec<Vec<u8>>,
}

/// Next step of an operation after an answer.
enum NextStep {
    Done(BucketAnswer),
    /// Request up to this many messages from the consumer.
    Next(u64),
    Wait,
}

enum BucketAnswer {
    Written,
    Value(Vec<u8>),
    Missing,
    Failed(ErrorKind, String),
}

impl NatsSession {
    /// Returns a session. `direct`: every replica answers reads. `connect`: the client's CONNECT options.
    pub(super) fn new(direct: bool, connect: String) -> Self {
        Self {
            session: nats::Session::default(),
            connect,
            name: String::new(),
            open: false,
            direct,
            pending: Vec::new(),
            count: 0,
            longest: 0,
            subject: Vec::new(),
            reply: String::new(),
        }
    }

    /// Sends a request of an operation to the subject in `self.subject`.
    fn send(&mut self, tag: Tag, number: u64, payload: &[u8], out: &mut Vec<u8>) {
        self.address(tag, number);
        self.session.publish(&self.subject, self.reply.as_bytes(), payload, out);
    }

    fn address(&mut self, tag: Tag, number: u64) {
        self.reply.clear();
        let _ = write!(self.reply, "_INBOX.{}.{tag}.{number}", self.name);
    }

    fn set_subject(&mut self, parts: &[&[u8]]) {
        self.subject.clear();
        parts.iter().for_each(|part| self.subject.extend_from_slice(part));
    }

    /// Returns the name of a list's consumer.
    fn consumer(&self, tag: Tag, number: u64) -> String {
        format!("{}-{tag}-{number}", self.name)
    }

    /// Requests messages from a list's consumer.
    fn next(&mut self, tag: Tag, number: u64, asked: &[u8], out: &mut Vec<u8>) {
        let consumer = self.consumer(tag, number);
        self.set_subject(&[bucket::CONSUMER_NEXT.as_bytes(), consumer.as_bytes()]);
        self.send(tag, number, asked, out);
    }

    /// Deletes a list's consumer, without waiting for the answer.
    fn forget(&mut self, tag: Tag, number: u64, out: &mut Vec<u8>) {
        let consumer = self.consumer(tag, number);
        self.set_subject(&[bucket::CONSUMER_DELETE.as_bytes(), consumer.as_bytes()]);
        self.send(tag, number, b"", out);
    }

    /// Returns the operation that a message belongs to.
    fn addressee(&self, message: &Message<'_>) -> Option<(Tag, u64)> {
        let parse = |text: &str, between: char| {
            let rest = text.strip_prefix(self.name.as_str())?.strip_prefix(between)?;
            let (tag, number) = rest.split_once(between)?;
            Some((tag.parse().ok()?, number.parse().ok()?))
        };
        match message.subject.strip_prefix(b"_INBOX.") {
            Some(inbox) => parse(std::str::from_utf8(inbox).ok()?, '.'),
            None => parse(bucket::delivered(message.reply)?.consumer, '-'),
        }
    }

    /// Processes the greeting of a server.
    fn on_greeting(&mut self, info: &[u8], out: &mut Vec<u8>) -> Result<(), GreetingError> {
        if !self.name.is_empty() {
            return Ok(()); // the server reports a change in its cluster
        }
        self.name = Greeting::read(info)?.connection();
        self.session.connect(&self.connect, out);
        let inbox = format!("_INBOX.{}.>", self.name);
        self.session.subscribe(inbox.as_bytes(), SUBSCRIPTION, out);
        self.session.ping(out);
        Ok(())
    }

    fn answered(
        &mut self,
        message: &Message<'_>,
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Tag, Answer<'_>),
    ) {
        let Some((tag, number)) = self.addressee(message) else { return };
        let Some(slot) = self.pending.get_mut(tag as usize) else { return };
        let Some(pending) = slot.as_mut().filter(|pending| pending.number == number) else {
            return; // the operation has ended already
        };
        match pending.step.take(message) {
            NextStep::Wait => {}
            NextStep::Next(count) => self.next(tag, number, &bucket::next(count), out),
            NextStep::Done(answered) => {
                let Some(pending) = slot.take() else { return };
                if let Step::List(list) = pending.step {
                    if list.made {
                        self.forget(tag, number, out);
                    }
                    if matches!(answered, BucketAnswer::Written) {
                        return on(tag, Answer::Names(&mut list.names.iter().map(Vec::as_slice)));
                    }
                }
                match answered {
                    BucketAnswer::Written => on(tag, Answer::Done),
                    BucketAnswer::Value(value) => on(tag, Answer::Value(&value)),
                    BucketAnswer::Missing => on(tag, Answer::Missing),
                    BucketAnswer::Failed(kind, what) => on(tag, Answer::Failed(kind, what)),
                }
            }
        }
    }
}

impl Session for NatsSession {
    fn open(&mut self, _: &mut Vec<u8>) {}

    fn is_open(&self) -> bool {
        self.open
    }

    fn begins_tls(&self) -> bool {
        !self.name.is_empty()
    }

    fn abandon(&mut self, tag: Tag, _: &mut Vec<u8>) -> bool {
        if let Some(slot) = self.pending.get_mut(tag as usize) {
            *slot = None;
        }
        true
    }

    fn loss_reason(&self) -> Option<String> {
        let is_read = |one: &&OpenOperation| matches!(one.step, Step::Direct | Step::Leader);
        let reads = self.pending.iter().flatten().filter(is_read).count() as u64;
        let longest = ByteCount(self.longest as u64);
        (reads * longest.0 > IN_FLIGHT_MAX).then(|| {
            format!(
                "probably a slow consumer: {reads} reads of up to {longest} were in flight, and the server holds {} \
                 for a client (`max_pending`), twice what is in flight",
                ByteCount(PENDING_MAX)
            )
        })
    }

    fn keep_alive_every(&self) -> Option<Duration> {
        Some(bucket::SILENCE_MAX)
    }

    /// Repeats the requests to consumers of lists. If a message is replaced before delivery, some servers count it and
    /// hold the request until another one comes, which is for ever with the last list of a load (observed with 2.9).
    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        let lists = self.pending.iter_mut().zip(0..).filter_map(|(pending, tag)| {
            let OpenOperation { number, step: Step::List(list) } = pending.as_mut()? else {
                return None;
            };
            list.heard = false;
            list.made.then_some((tag, *number, list.due))
        });
        for (tag, number, due) in lists.collect::<Vec<(Tag, u64, u64)>>() {
            // If the server has noticed meanwhile, it answers at once; otherwise after the wait.
            let due = due.max(1);
            self.next(tag, number, &bucket::next(due), out);
            self.next(tag, number, &bucket::next_within(due), out);
        }
    }
}

impl KvSession for NatsSession {
    fn request(&mut self, tag: Tag, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        self.count += 1;
        self.longest = self.longest.max(request.value.len());
        let number = self.count;
        let mut key = Vec::with_capacity(request.key.len() + 16);
        bucket::write_subject(request.key, &mut key);
        let from_leader = !self.direct || request.reads == ReadConsistency::Linearizable;
        let step = match request.operation {
            Operation::Put => {
                self.set_subject(&[&key]);
                self.send(tag, number, request.value, out);
                Step::Write
            }
            Operation::Delete => {
                self.address(tag, number);
                let deleted = [(bucket::OPERATION, bucket::DELETED)];
                let (session, reply) = (&self.session, self.reply.as_bytes());
                session.publish_with_headers(&key, reply, &deleted, b"", out);
                Step::Write
            }
            Operation::Get if from_leader => {
                self.set_subject(&[bucket::LAST_OF_LEADER.as_bytes()]);
                self.send(tag, number, &bucket::last_of(&key), out);
                Step::Leader
            }
            Operation::Get => {
                self.set_subject(&[bucket::LAST_OF_ANY.as_bytes(), &key]);
                self.send(tag, number, b"", out);
                Step::Direct
            }
            Operation::List => {
                let consumer = self.consumer(tag, number);
                let create = bucket::CONSUMER_CREATE.as_bytes();
                self.set_subject(&[create, consumer.as_bytes(), b".", &key]);
                self.send(tag, number, &bucket::consumer(&consumer, &key), out);
                Step::List(List::default())
            }
            operation => crate::never_planned(operation),
        };
        let place = tag as usize;
        if self.pending.len() <= place {
            self.pending.resize_with(place + 1, || None);
        }
        self.pending[place] = Some(OpenOperation { number, step });
        true
    }

    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Tag, Answer<'_>),
    ) -> Result<(), ProtocolError> {
        let mut session = std::mem::take(&mut self.session);
        let mut wrong = None;
        let mut further = Vec::new();
        let received = session.receive(input, out, &mut |event| match event {
            Event::Info(info) => {
                let failed = self.on_greeting(info, &mut further).err();
                wrong = failed.map(|error| error.to_string()).or(wrong.take());
            }
            Event::Pong => self.open = true,
            Event::Error(error) => wrong = Some(String::from_utf8_lossy(error).into_owned()),
            Event::Message(message) => {
                self.longest = self.longest.max(message.payload.len());
                self.answered(&message, &mut further, on);
            }
        });
        self.session = session;
        out.append(&mut further);
        received?;
        wrong.map_or(Ok(()), |what| Err(ProtocolError::new(format!("the server said: {what}"))))
    }
}

impl Step {
    /// Takes an answer.
    fn take(&mut self, message: &Message<'_>) -> NextStep {
        if let Self::List(list) = self {
            return list.take(message);
        }
        let status = message.headers.status();
        NextStep::Done(match self {
            // A `503` reports that the subject has no receiver.
            Self::Write | Self::Leader if status.is_some() => refused(message),
            Self::Write => match read(message) {
                Ok(ApiAnswer { seq: Some(_), .. }) => BucketAnswer::Written,
                Ok(_) => unexpected(),
                Err(failed) => failed,
            },
            Self::Leader => from_leader(message),
            _ if status == Some(404) => BucketAnswer::Missing,
            _ if status.is_some() => refused(message),
            _ if message.headers.get(bucket::OPERATION).is_some() => BucketAnswer::Missing,
            _ => BucketAnswer::Value(message.payload.to_vec()),
        })
    }
}

impl List {
    fn take(&mut self, message: &Message<'_>) -> NextStep {
        match message.headers.status() {
            // The server was slow.
            Some(408) if self.made && self.heard => return self.more(self.due),
            // The consumer has no more messages: others deleted some of those that it counted.
            Some(404 | 408) if self.made => return NextStep::Done(BucketAnswer::Written),
            // The connected server does not know the consumer yet.
            Some(503) if self.made && self.asked_again < ASKED_AGAIN_MAX => {
                self.asked_again += 1;
                return NextStep::Next(self.due);
            }
            Some(_) => return NextStep::Done(refused(message)),
            None => {}
        }
        if !self.made {
            return match read(message) {
                Ok(ApiAnswer { num_pending: Some(pending), .. }) => {
                    self.made = true;
                    self.more(pending)
                }
                Ok(_) => NextStep::Done(unexpected()),
                Err(failed) => NextStep::Done(failed),
            };
        }
        let Some(DeliveredMessage { pending, .. }) = bucket::delivered(message.reply) else {
            return NextStep::Done(unexpected());
        };
        let name = bucket::name(message.subject);
        // A key written again meanwhile is delivered again. The last message counts.
        self.names.retain(|known| known != name);
        if message.headers.get(bucket::OPERATION).is_none() {
            self.names.push(name.to_vec());
        }
        self.due = self.due.saturating_sub(1);
        self.heard = true;
        if pending == 0 {
            return NextStep::Done(BucketAnswer::Written);
        }
        if self.due > 0 { NextStep::Wait } else { self.more(pending) }
    }

    fn more(&mut self, pending: u64) -> NextStep {
        self.due = pending;
        self.heard = false;
        if pending == 0 { NextStep::Done(BucketAnswer::Written) } else { NextStep::Next(pending) }
    }
}

/// Parses an API answer. An error in it is a failure.
fn read<'a>(message: &Message<'a>) -> Result<ApiAnswer<'a>, BucketAnswer> {
    let answer: ApiAnswer<'a> = serde_json::from_slice(message.payload).map_err(|error| {
        BucketAnswer::Failed(ErrorKind::Protocol, format!("an answer that is not JSON: {error}"))
    })?;
    match answer.error {
        Some(error) => Err(BucketAnswer::Failed(ErrorKind::Status, error.text())),
        None => Ok(answer),
    }
}

fn from_leader(message: &Message<'_>) -> BucketAnswer {
    let answer: ApiAnswer<'_> = match serde_json::from_slice(message.payload) {
        Ok(answer) => answer,
        Err(_) => return unexpected(),
    };
    match (answer.error, answer.message) {
        (Some(error), _) if error.is_no_message() => BucketAnswer::Missing,
        (Some(error), _) => BucketAnswer::Failed(ErrorKind::Status, error.text()),
        (None, Some(kept)) => {
            let headers = STANDARD.decode(&*kept.hdrs).unwrap_or_default();
            let deleted = bucket::OPERATION.as_bytes();
            if headers.windows(deleted.len()).any(|part| part == deleted) {
                return BucketAnswer::Missing;
            }
            STANDARD.decode(&*kept.data).map_or_else(|_| unexpected(), BucketAnswer::Value)
        }
        (None, None) => unexpected(),
    }
}

/// Converts a status without an answer to a failure.
fn refused(message: &Message<'_>) -> BucketAnswer {
    let status = message.headers.status().unwrap_or_default();
    let replied = String::from_utf8_lossy(message.headers.description()).into_owned();
    let what = match (status, replied.as_str()) {
        (503, "") => "503: no responders".to_owned(),
        (_, "") => status.to_string(),
        _ => format!("{status}: {replied}"),
    };
    BucketAnswer::Failed(ErrorKind::Status, what)
}

fn unexpected() -> BucketAnswer {
    let what = "an answer of an unexpected kind".to_owned();
    BucketAnswer::Failed(ErrorKind::Protocol, what)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::replay;

    const INFO: &str = "INFO {\"server_id\":\"NSERVER\",\"server_name\":\"n\",\"version\":\"2.12.4\",\
                        \"client_id\":7,\"jetstream\":true}\r\n";

    /// Returns an open session with a request under tag 3.
    fn asked(operation: Operation) -> NatsSession {
        let (mut session, mut out) = (NatsSession::new(true, "{}".to_owned()), Vec::new());
        assert!(!session.is_open() && !session.begins_tls());
        session.receive(INFO.as_bytes(), &mut out, &mut |_, _| {}).unwrap();
        assert!(session.begins_tls(), "it has been greeted");
        let replied = String::from_utf8(out).unwrap();
        assert_eq!(replied, "CONNECT {}\r\nSUB _INBOX.NSERVER7.> 1\r\nPING\r\n");
        session.receive(b"PONG\r\n", &mut Vec::new(), &mut |_, _| {}).unwrap();
        assert!(session.is_open());
        let key = if operation == Operation::List { "bakeoff/d1/" } else { "bakeoff/d1/a" };
        let request = replay::request(operation, key.as_bytes(), b"");
        assert!(session.request(3, &request, &mut Vec::new()));
        session
    }

    #[test]
    fn reads_beyond_the_limit_of_a_client_explain_a_lost_connection() {
        let (mut session, mut out) = (NatsSession::new(true, "{}".to_owned()), Vec::new());
        session.receive(INFO.as_bytes(), &mut out, &mut |_, _| {}).unwrap();
        let mut send = |tag, operation, value: &[u8]| {
            let request = replay::request(operation, b"bakeoff/d1/a", value);
            session.request(tag, &request, &mut Vec::new());
            session.loss_reason()
        };
        let value = vec![0; 1 << 20];
        assert_eq!(send(99, Operation::Put, &value), None);
        let reasons: Vec<_> = (0..33).map(|tag| send(tag, Operation::Get, b"")).collect();
        assert!(reasons[..32].iter().all(Option::is_none));
        let reason = reasons[32].as_deref().expect("33 MiB are more than 32");
        assert!(
            reason.starts_with("probably a slow consumer: 33 reads of up to 1 MiB"),
            "{reason}"
        );
    }

    /// Feeds the server's bytes to a session. Returns the answers, and the bytes that the session sends.
    fn heard(session: &mut NatsSession, words: &str) -> (Vec<String>, String) {
        let (mut out, mut seen) = (Vec::new(), Vec::new());
        let mut on = |tag, answer: Answer<'_>| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let answer = match answer {
                Answer::Done => "done".to_owned(),
                Answer::Value(value) => text(value),
                Answer::Missing => "missing".to_owned(),
                Answer::Names(names) => names.map(text).collect::<Vec<_>>().join(" "),
                Answer::Failed(_, what) => what,
                _ => "another".to_owned(),
            };
            seen.push(format!("{tag} {answer}"));
        };
        session.receive(words.as_bytes(), &mut out, &mut on).unwrap();
        (seen, String::from_utf8(out).unwrap())
    }

    fn message(subject: &str, payload: &str) -> String {
        format!("MSG {subject} 1 {}\r\n{payload}\r\n", payload.len())
    }

    /// Returns a message of a list's consumer with `pending` more to come.
    fn listed(key: &str, pending: u32, more: &str) -> String {
        let headers = format!("NATS/1.0\r\nNats-Msg-Size: 5\r\n{more}\r\n");
        let length = headers.len();
        let reply = format!("$JS.ACK.KV_bakeoff.NSERVER7-3-1.1.1.1.1.{pending}");
        format!("HMSG $KV.bakeoff.d1.{key} 1 {reply} {length} {length}\r\n{headers}\r\n")
    }

    #[test]
    fn write_is_done_once_the_stream_acknowledges() {
        let mut session = asked(Operation::Put);
        let (seen, _) =
            heard(&mut session, &message("_INBOX.NSERVER7.3.1", r#"{"stream":"s","seq":9}"#));
        assert_eq!(seen, ["3 done"]);
        for (answer, expected) in [
            (
                r#"{"error":{"code":503,"err_code":10077,"description":"full"}}"#,
                "3 503: full (10077)",
            ),
            (r#"{"stream":"s"}"#, "3 an answer of an unexpected kind"),
        ] {
            let mut session = asked(Operation::Put);
            let (seen, _) = heard(&mut session, &message("_INBOX.NSERVER7.3.1", answer));
            assert_eq!(seen, [expected]);
        }
        let nobody = "HMSG _INBOX.NSERVER7.3.1 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n";
        let (seen, _) = heard(&mut asked(Operation::Delete), nobody);
        assert_eq!(seen, ["3 503: no responders"]);
    }

    #[test]
    fn late_answer_is_not_taken_for_the_next_operation() {
        let mut session = asked(Operation::Put);
        assert!(session.abandon(3, &mut Vec::new()));
        let again = replay::request(Operation::Get, b"bakeoff/d1/a", b"");
        session.request(3, &again, &mut Vec::new());
        let late = message("_INBOX.NSERVER7.3.1", r#"{"stream":"s","seq":9}"#);
        assert_eq!(heard(&mut session, &late).0, [] as [&str; 0]);
        assert_eq!(heard(&mut session, &message("_INBOX.NSERVER7.3.2", "value")).0, ["3 value"]);
    }

    #[test]
    fn list_holds_delivered_keys_without_deleted_ones() {
        let mut session = asked(Operation::List);
        let made = message("_INBOX.NSERVER7.3.1", r#"{"num_pending":3}"#);
        let (seen, out) = heard(&mut session, &made);
        assert!(seen.is_empty() && out.contains("MSG.NEXT.KV_bakeoff.NSERVER7-3-1"), "{out}");
        let unknown = "HMSG _INBOX.NSERVER7.3.1 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n";
        assert!(heard(&mut session, unknown).1.contains("\"batch\":3"), "it is asked again");
        let some =
            [listed("a", 2, ""), listed("b", 1, ""), listed("c", 2, "KV-Operation: DEL\r\n")];
        let (seen, out) = heard(&mut session, &some.concat());
        assert!(
            seen.is_empty() && out.contains("\"batch\":2"),
            "two were written meanwhile: {out}"
        );
        let rest = [listed("b", 1, "KV-Operation: DEL\r\n"), listed("d", 0, "")];
        let (seen, out) = heard(&mut session, &rest.concat());
        assert_eq!(seen, ["3 a d"]);
        assert!(out.contains("CONSUMER.DELETE.KV_bakeoff.NSERVER7-3-1"), "{out}");
    }

    #[test]
    fn list_ends_when_counted_messages_are_gone() {
        let mut session = asked(Operation::List);
        heard(&mut session, &message("_INBOX.NSERVER7.3.1", r#"{"num_pending":3}"#));
        assert_eq!(heard(&mut session, &listed("a", 2, "")).0, [] as [&str; 0]);
        let mut again = Vec::new();
        session.keep_alive(&mut again);
        let again = String::from_utf8(again).unwrap();
        assert!(
            again.contains("\"batch\":2") && again.contains("\"expires\":1000000000"),
            "{again}"
        );
        let late = "HMSG _INBOX.NSERVER7.3.1 1 32 32\r\nNATS/1.0 408 Request Timeout\r\n\r\n\r\n";
        let (seen, out) = heard(&mut session, &(listed("b", 1, "") + late));
        assert!(seen.is_empty() && out.contains("\"batch\":1"), "it was slow: {out}");
        session.keep_alive(&mut Vec::new());
        assert_eq!(heard(&mut session, late).0, ["3 a b"]);
        let mut nothing = Vec::new();
        session.keep_alive(&mut nothing);
        assert!(nothing.is_empty(), "no list is under way");
    }
}
