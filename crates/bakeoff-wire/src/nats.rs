//! Implements a client session with NATS: its text protocol, with headers.
//!
//! The server greets with `INFO`. The client identifies itself (`CONNECT`), subscribes and publishes. A request is a
//! message with a reply subject, and its answer is a message to a subject that the client is subscribed to. Answers
//! can come in any order.
//!
//! Source: <https://docs.nats.io/reference/reference-protocols/nats-protocol>; headers: ADR-4 of
//! <https://github.com/nats-io/nats-architecture-and-design>.
//!
//! Not here: the JSON in `INFO` and in answers, the subject that means "put" (`bakeoff_systems::nats`), TLS, which
//! begins after `INFO`, authentication by signed nonces.

use crate::ProtocolError;
use crate::overhead::Overhead;

/// Maximum length of a received line. `INFO` is the longest, because it names all servers of a cluster.
const LINE_MAX: usize = 64 << 10;

/// Sets the limits of a session.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum size of a message in bytes, headers and payload. A server's default is 1 MiB; it can be configured up
    /// to 64 MiB.
    pub max_message: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_message: 64 << 20 }
    }
}

/// Holds one message of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// Description of the server as JSON. Comes first, and again after each change.
    Info(&'a [u8]),
    /// Message on a subscribed subject.
    Message(Message<'a>),
    /// Answer to a `PING`. The server has processed everything sent before it.
    Pong,
    /// Error in the server's words. It closes the connection after most errors.
    Error(&'a [u8]),
}

/// Holds a message on a subscribed subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message<'a> {
    /// Subject to which it was published.
    pub subject: &'a [u8],
    /// Number of the subscription, as given to [`Session::subscribe`].
    pub subscription: u64,
    /// Subject for the reply; empty if none is expected.
    pub reply: &'a [u8],
    /// Headers, possibly with a status.
    pub headers: Headers<'a>,
    /// Body of any bytes.
    pub payload: &'a [u8],
}

/// Gives access to the headers of a message, and to the status of a server's own messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Headers<'a>(&'a [u8]);

impl<'a> Headers<'a> {
    /// Returns the status, such as 503 if a request's subject has no subscriber. `None` for most messages.
    pub fn status(self) -> Option<u16> {
        let code = self.first_line().get(..3)?;
        std::str::from_utf8(code).ok()?.parse().ok()
    }

    /// Returns the text of the status; empty if there is none.
    pub fn description(self) -> &'a [u8] {
        self.first_line().get(3..).unwrap_or_default().trim_ascii()
    }

    /// Returns the value of the first header of this name. Names are case-sensitive.
    pub fn get(self, name: &str) -> Option<&'a [u8]> {
        self.lines().skip(1).find_map(|line| {
            let value = line.strip_prefix(name.as_bytes())?.strip_prefix(b":")?;
            Some(value.trim_ascii())
        })
    }

    fn lines(self) -> impl Iterator<Item = &'a [u8]> {
        self.0.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii)
    }

    /// Returns the rest of the first line: the status, if there is one.
    fn first_line(self) -> &'a [u8] {
        let first = self.lines().next().unwrap_or_default();
        first.strip_prefix(HEADERS.as_bytes()).unwrap_or_default().trim_ascii()
    }
}

/// First line of headers.
const HEADERS: &str = "NATS/1.0";

/// Holds one session on one connection.
#[derive(Debug, Default)]
pub struct Session {
    limits: Limits,
    /// Start of an incomplete message.
    partial: Vec<u8>,
    /// Number of bytes needed before parsing continues.
    wanted: usize,
    greeted: bool,
    failed: bool,
    /// Lines other than messages since the last message.
    overhead: Overhead,
}

impl Session {
    /// Creates a session with these limits.
    pub fn with_limits(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Writes the client's options, as JSON. Call it once, after the first [`Event::Info`].
    pub fn connect(&self, options: &str, out: &mut Vec<u8>) {
        line(out, b"CONNECT ", &[options.as_bytes()]);
    }

    /// Writes a subscription to a subject, which may have wildcards. The caller chooses `number`.
    pub fn subscribe(&self, subject: &[u8], number: u64, out: &mut Vec<u8>) {
        line(out, b"SUB ", &[subject, b" ", number.to_string().as_bytes()]);
    }

    /// Writes the end of a subscription.
    pub fn unsubscribe(&self, number: u64, out: &mut Vec<u8>) {
        line(out, b"UNSUB ", &[number.to_string().as_bytes()]);
    }

    /// Writes a message. `reply` is the subject for the answer, or empty.
    pub fn publish(&self, subject: &[u8], reply: &[u8], payload: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(b"PUB ");
        self.address(subject, reply, out);
        put_number(payload.len(), out);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(payload);
        out.extend_from_slice(b"\r\n");
    }

    /// Writes a message with headers. Names and values must not contain line breaks.
    pub fn publish_with_headers(
        &self,
        subject: &[u8],
        reply: &[u8],
        headers: &[(&str, &str)],
        payload: &[u8],
        out: &mut Vec<u8>,
    ) {
        // The first line and its end, the last line's end, and for each header a colon, a space and a line end.
        let length = |(name, value): &(&str, &str)| name.len() + value.len() + 4;
        let length = HEADERS.len() + 4 + headers.iter().map(length).sum::<usize>();
        out.extend_from_slice(b"HPUB ");
        self.address(subject, reply, out);
        put_number(length, out);
        out.push(b' ');
        put_number(length + payload.len(), out);
        line(out, b"\r\n", &[HEADERS.as_bytes()]);
        for (name, value) in headers {
            line(out, name.as_bytes(), &[b": ", value.as_bytes()]);
        }
        line(out, b"", &[]);
        out.extend_from_slice(payload);
        out.extend_from_slice(b"\r\n");
    }

    fn address(&self, subject: &[u8], reply: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(subject);
        out.push(b' ');
        if !reply.is_empty() {
            out.extend_from_slice(reply);
            out.push(b' ');
        }
    }

    /// Writes a `PING`, which is answered by [`Event::Pong`].
    pub fn ping(&self, out: &mut Vec<u8>) {
        line(out, b"PING", &[]);
    }

    /// Consumes all of `input`, calls `on` with each event, and writes answers to the server's pings.
    ///
    /// # Errors
    /// Fails if the server breaks the protocol. The connection is then unusable, and all further calls fail.
    pub fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), ProtocolError> {
        let result = match self.failed {
            true => Err(ProtocolError::new("received after an error")),
            false => self.events(input, out, on),
        };
        self.failed = result.is_err();
        result.map_err(|error| error.within("nats"))
    }

    fn events(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), ProtocolError> {
        if self.partial.is_empty() {
            let taken = self.whole_events(input, out, on)?;
            self.partial.extend_from_slice(input.get(taken..).unwrap_or_default());
            return Ok(());
        }
        self.partial.extend_from_slice(input);
        if self.partial.len() < self.wanted {
            return Ok(());
        }
        let mut partial = std::mem::take(&mut self.partial);
        let taken = self.whole_events(&partial, out, on)?;
        partial.drain(..taken);
        if partial.is_empty() && partial.capacity() > 64 << 10 {
            partial = Vec::new();
        }
        self.partial = partial;
        Ok(())
    }

    /// Passes on all complete events and returns their length in bytes.
    fn whole_events(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<usize, ProtocolError> {
        let mut taken = 0;
        self.wanted = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            let Some((replied, length)) = first_line(rest)? else { break };
            let (word, arguments) = split_word(replied);
            if !self.greeted && !is(word, "INFO") {
                return Err(ProtocolError::new(format!(
                    "`{}` instead of `INFO`",
                    word.escape_ascii()
                )));
            }
            if is(word, "MSG") || is(word, "HMSG") {
                let head = Head::read(arguments, is(word, "HMSG"))?;
                if head.total > self.limits.max_message {
                    return Err(ProtocolError::new(format!("a message of {} bytes", head.total)));
                }
                let body = rest.get(length..).unwrap_or_default();
                let Some(ending) = body.get(head.total..head.total + 2) else {
                    self.wanted = length + head.total + 2;
                    break;
                };
                if ending != b"\r\n" {
                    return Err(ProtocolError::new("a message without its end"));
                }
                self.overhead.reset();
                on(Event::Message(head.message(body)));
                taken += length + head.total + 2;
                continue;
            }
            self.overhead.add(length, "lines")?;
            match () {
                () if is(word, "INFO") => {
                    self.greeted = true;
                    on(Event::Info(arguments));
                }
                () if is(word, "PING") => line(out, b"PONG", &[]),
                () if is(word, "PONG") => on(Event::Pong),
                () if is(word, "+OK") => {}
                () if is(word, "-ERR") => on(Event::Error(unquoted(arguments))),
                () => {
                    return Err(ProtocolError::new(format!(
                        "unknown message `{}`",
                        word.escape_ascii()
                    )));
                }
            }
            taken += length;
        }
        Ok(taken)
    }
}

/// Holds the fields of the line before a message.
struct Head<'a> {
    subject: &'a [u8],
    subscription: u64,
    reply: &'a [u8],
    /// Number of bytes of the headers, and of headers and payload.
    headers: usize,
    total: usize,
}

impl<'a> Head<'a> {
    fn read(arguments: &'a [u8], with_headers: bool) -> Result<Self, ProtocolError> {
        let wrong =
            || ProtocolError::new(format!("a message headed `{}`", arguments.escape_ascii()));
        let mut words = [&[][..]; 5];
        let mut count = 0;
        for word in arguments.split(|byte| byte.is_ascii_whitespace()) {
            if !word.is_empty() {
                *words.get_mut(count).ok_or_else(wrong)? = word;
                count += 1;
            }
        }
        let number = |word: &[u8]| {
            let digits = std::str::from_utf8(word).ok().filter(|text| !text.starts_with('+'));
            digits.and_then(|text| text.parse::<u64>().ok()).ok_or_else(wrong)
        };
        let none = &[][..];
        let (subject, subscription, reply, headers, total) = match (with_headers, count, words) {
            (false, 3, [subject, id, total, ..]) => (subject, id, none, none, total),
            (false, 4, [subject, id, reply, total, _]) => (subject, id, reply, none, total),
            (true, 4, [subject, id, headers, total, _]) => (subject, id, none, headers, total),
            (true, 5, [subject, id, reply, headers, total]) => (subject, id, reply, headers, total),
            _ => return Err(wrong()),
        };
        let subscription = number(subscription)?;
        let size = |word| number(word).and_then(|size| usize::try_from(size).map_err(|_| wrong()));
        let headers = if headers.is_empty() { 0 } else { size(headers)? };
        let total = size(total)?;
        match headers <= total {
            true => Ok(Self { subject, subscription, reply, headers, total }),
            false => Err(wrong()),
        }
    }

    /// Returns the message whose headers and payload start `body`.
    fn message(&self, body: &'a [u8]) -> Message<'a> {
        Message {
            subject: self.subject,
            subscription: self.subscription,
            reply: self.reply,
            headers: Headers(body.get(..self.headers).unwrap_or_default()),
            payload: body.get(self.headers..self.total).unwrap_or_default(),
        }
    }
}

/// Returns the first line without its end, and its length including it; `None` if it is incomplete.
fn first_line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, ProtocolError> {
    let head = bytes.get(..LINE_MAX.min(bytes.len())).unwrap_or_default();
    match head.iter().position(|&byte| byte == b'\n') {
        Some(at) => match head.get(..at).and_then(|line| line.strip_suffix(b"\r")) {
            Some(line) => Ok(Some((line, at + 1))),
            None => Err(ProtocolError::new("a line that ends in a line feed alone")),
        },
        None if bytes.len() >= LINE_MAX => {
            Err(ProtocolError::new(format!("a line of more than {LINE_MAX} bytes")))
        }
        None => Ok(None),
    }
}

fn split_word(line: &[u8]) -> (&[u8], &[u8]) {
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (word, rest) = line.split_at(end);
    (word, rest.trim_ascii())
}

fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}

fn unquoted(text: &[u8]) -> &[u8] {
    let inner = text.strip_prefix(b"'").and_then(|text| text.strip_suffix(b"'"));
    inner.unwrap_or(text)
}

fn line(out: &mut Vec<u8>, first: &[u8], rest: &[&[u8]]) {
    out.extend_from_slice(first);
    for part in rest {
        out.extend_from_slice(part);
    }
    out.extend_from_slice(b"\r\n");
}

fn put_number(number: usize, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut left = number;
    let mut at = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
        at -= 1;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(at..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &[u8] = b"INFO {}\r\n";

    /// Returns the events of a session after the greeting, and what it sends.
    fn events_of(bytes: &[u8]) -> Result<(Vec<String>, Vec<u8>), String> {
        let mut session = Session::with_limits(Limits { max_message: 1000 });
        let (mut out, mut seen) = (Vec::new(), Vec::new());
        session.receive(INFO, &mut out, &mut |_| {}).unwrap();
        let result = session.receive(bytes, &mut out, &mut |event| seen.push(format!("{event:?}")));
        if result.is_err() {
            assert!(session.receive(b"", &mut out, &mut |_| {}).is_err());
        }
        result.map(|()| (seen, out)).map_err(|error| error.what)
    }

    #[test]
    fn writes_messages_with_their_lengths() {
        let (session, mut out) = (Session::default(), Vec::new());
        session.connect(r#"{"verbose":false}"#, &mut out);
        session.subscribe(b"inbox.>", 7, &mut out);
        session.publish(b"a.b", b"inbox.1", b"hello", &mut out);
        session.publish(b"a.b", b"", b"", &mut out);
        session.publish_with_headers(b"a", b"r", &[("One", "1"), ("Two", "")], b"xyz", &mut out);
        session.unsubscribe(7, &mut out);
        session.ping(&mut out);
        let expected = "CONNECT {\"verbose\":false}\r\nSUB inbox.> 7\r\nPUB a.b inbox.1 5\r\nhello\r\n\
                        PUB a.b 0\r\n\r\nHPUB a r 27 30\r\nNATS/1.0\r\nOne: 1\r\nTwo: \r\n\r\nxyz\r\n\
                        UNSUB 7\r\nPING\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn reads_the_status_and_the_headers_of_a_message() {
        let headers = Headers(b"NATS/1.0 404 No Messages\r\nKV-Operation: DEL\r\nEmpty:\r\n\r\n");
        assert_eq!((headers.status(), headers.description()), (Some(404), &b"No Messages"[..]));
        assert_eq!(headers.get("KV-Operation"), Some(&b"DEL"[..]));
        assert_eq!((headers.get("Empty"), headers.get("KV")), (Some(&b""[..]), None));
        let plain = Headers(b"NATS/1.0\r\nA: 503\r\n\r\n");
        assert_eq!((plain.status(), plain.get("A")), (None, Some(&b"503"[..])));
        assert_eq!(Headers::default().status(), None);
    }

    #[test]
    fn answers_a_ping_and_ignores_case() {
        let (seen, out) = events_of(b"PING\r\n+OK\r\npong\r\n-ERR 'Slow Consumer'\r\n").unwrap();
        assert_eq!(out, b"PONG\r\n");
        assert_eq!(seen, ["Pong", &format!("{:?}", Event::Error(b"Slow Consumer"))]);
    }

    #[test]
    fn lines_besides_messages_are_limited() {
        for line in ["PING\r\n", "PONG\r\n", "+OK\r\n", "INFO {}\r\n"] {
            let refused = events_of(line.repeat(300_000).as_bytes()).map(drop).unwrap_err();
            assert_eq!(refused, "nats: more than 1 MiB of lines without an answer");
        }
        let between = "PING\r\n".repeat(100_000) + "MSG a 1 0\r\n\r\n";
        assert!(events_of(between.repeat(3).as_bytes()).is_ok());
    }

    #[test]
    fn refuses_bytes_that_break_the_protocol() {
        let cases: [(&[u8], &str); 11] = [
            (b"PONG\n", "a line that ends in a line feed alone"),
            (b"PUB a 1\r\n", "unknown message `PUB`"),
            (b"MSG a 1\r\n", "a message headed `a 1`"),
            (b"MSG a one 1\r\n", "a message headed `a one 1`"),
            (b"MSG a 1 +1\r\n", "a message headed `a 1 +1`"),
            (b"MSG a 1 b -1\r\n", "a message headed `a 1 b -1`"),
            (b"HMSG a 1 b 9 8\r\n", "a message headed `a 1 b 9 8`"),
            (b"HMSG a 1 b 1 2 3\r\n", "a message headed `a 1 b 1 2 3`"),
            (b"MSG a 1 1001\r\n", "a message of 1001 bytes"),
            (b"MSG a 1 1\r\nabc", "a message without its end"),
            (b"MSG a 1 600\r\nabc", ""),
        ];
        for (bytes, expected) in cases {
            match events_of(bytes) {
                Err(what) => assert_eq!(what, format!("nats: {expected}")),
                Ok(_) => assert_eq!(expected, "", "{}", bytes.escape_ascii()),
            }
        }
        assert!(events_of(&[b'x'; LINE_MAX]).is_err());
        let mut session = Session::default();
        let first = session.receive(b"PING\r\n", &mut Vec::new(), &mut |_| {});
        assert_eq!(first.unwrap_err().what, "nats: `PING` instead of `INFO`");
    }
}
