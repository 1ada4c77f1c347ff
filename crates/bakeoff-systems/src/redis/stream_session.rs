//! Watches one key over one connection: reads of the key's stream that wait for the next entry.
//!
//! A stream keeps all entries, each with an identifier that rises. So a read names the last entry that the watcher knows
//! and misses none, also on a new connection. A read that waits occupies its connection, so each watcher has its own.
//!
//! A place is an identifier as one number: milliseconds in the upper bits, and the number within the millisecond.
//!
//! Source: <https://redis.io/docs/latest/commands/xread/>.
//!
//! Not here: writes and reads of clients (`session`), when to connect (`bakeoff_engine::watch`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bakeoff_core::watch::WatchStart;
use bakeoff_engine::watch::{WatchNews, WatchSession, WatcherRequest};
use bakeoff_engine::work::Session;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::resp::{self, Array, Reply};

use super::sign_in;
use crate::Login;

/// Time after which the server answers without an entry, in milliseconds.
const BLOCK_MS: &[u8] = b"4000";
/// Interval between looks for a server that no longer answers. It is longer than [`BLOCK_MS`].
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Most entries of an answer.
const ENTRIES_MAX: &[u8] = b"100";
/// Bits of a place for the number within a millisecond.
const NUMBER_BITS: u32 = 22;
/// Place before the first entry of any stream.
const FIRST_PLACE: u64 = 1;

/// One connection with one watcher.
pub(super) struct RedisStreamSession {
    session: resp::Session,
    login: Option<Arc<Login>>,
    watcher: Option<StreamWatcher>,
    /// Commands in flight, oldest first. Replies come in order.
    steps: VecDeque<Step>,
}

/// A watcher of a key.
struct StreamWatcher {
    number: u32,
    key: Vec<u8>,
    /// Place after which it reads; `None` for that of the newest entry at its creation.
    after: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    SignIn,
    /// Read of the newest entry.
    Newest,
    /// Read that waits for later entries.
    Entries,
}

impl RedisStreamSession {
    pub(super) fn new(login: Option<Arc<Login>>) -> Self {
        Self { session: resp::Session::default(), login, watcher: None, steps: VecDeque::new() }
    }

    fn send(&mut self, step: Step, words: &[&[u8]], out: &mut Vec<u8>) {
        if self.session.request(words, out).is_ok() {
            self.steps.push_back(step);
        }
    }

    /// Reads the entries after those that the watcher knows.
    fn read_on(&mut self, out: &mut Vec<u8>) {
        let Some(watcher) = &self.watcher else { return };
        let (key, after) = (watcher.key.clone(), id_of(watcher.after.unwrap_or(FIRST_PLACE)));
        let words: [&[u8]; 8] = [
            b"XREAD",
            b"COUNT",
            ENTRIES_MAX,
            b"BLOCK",
            BLOCK_MS,
            b"STREAMS",
            &key,
            after.as_bytes(),
        ];
        self.send(Step::Entries, &words, out);
    }

    /// Processes the reply to the oldest command. Returns true if the next read is due.
    fn on_reply(
        &mut self,
        reply: Reply<'_>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<bool, ProtocolError> {
        let Some(step) = self.steps.pop_front() else { return Ok(false) };
        if step == Step::SignIn {
            self.login = None;
            return match reply {
                Reply::Error(error) => Err(ProtocolError::new(text(error))),
                _ => Ok(false),
            };
        }
        let Some(watcher) = &mut self.watcher else { return Ok(false) };
        match (step, reply) {
            (_, Reply::Error(error)) => {
                on(WatchNews::Ended { watcher: watcher.number, why: text(error) });
                return Ok(false);
            }
            (Step::Newest, Reply::Array(mut entries)) => {
                let newest = entries.next().map(|one| entry(one).ok_or_else(malformed));
                let newest = newest.transpose()?.map_or(FIRST_PLACE, |(place, _)| place);
                let place = *watcher.after.get_or_insert(newest);
                on(WatchNews::Created { watcher: watcher.number, place: Some(place) });
            }
            (Step::Entries, Reply::Nil) => on(WatchNews::Asked),
            (Step::Entries, Reply::Array(streams)) => {
                watcher.on_entries(streams, on)?;
                on(WatchNews::Asked);
            }
            _ => return Err(malformed()),
        }
        Ok(true)
    }
}

impl StreamWatcher {
    /// Passes on the entries of an answer: for its only stream, the name and a list.
    fn on_entries(
        &mut self,
        streams: Array<'_>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<(), ProtocolError> {
        for stream in streams {
            let Reply::Array(mut stream) = stream else { return Err(malformed()) };
            let (Some(Reply::Bulk(key)), Some(Reply::Array(entries))) =
                (stream.next(), stream.next())
            else {
                return Err(malformed());
            };
            for one in entries {
                let (place, value) = entry(one).ok_or_else(malformed)?;
                self.after = Some(place);
                let (watcher, place, value) = (self.number, Some(place), Some(value));
                on(WatchNews::Event { watcher, place, key, value });
            }
        }
        Ok(())
    }
}

/// Returns the place and the value of an entry: an identifier, and a list of one field and its value.
pub(super) fn entry(reply: Reply<'_>) -> Option<(u64, &[u8])> {
    let Reply::Array(mut entry) = reply else { return None };
    let (Reply::Bulk(id), Reply::Array(mut fields)) = (entry.next()?, entry.next()?) else {
        return None;
    };
    let (Reply::Bulk(_), Reply::Bulk(value)) = (fields.next()?, fields.next()?) else {
        return None;
    };
    Some((place_of(id)?, value))
}

/// Returns the place of an identifier such as `1700000000000-3`.
fn place_of(id: &[u8]) -> Option<u64> {
    let (ms, number) = std::str::from_utf8(id).ok()?.split_once('-')?;
    let (ms, number) = (ms.parse::<u64>().ok()?, number.parse::<u64>().ok()?);
    let fits = ms < 1 << (u64::BITS - NUMBER_BITS) && number < 1 << NUMBER_BITS;
    fits.then_some(ms << NUMBER_BITS | number)
}

fn id_of(place: u64) -> String {
    format!("{}-{}", place >> NUMBER_BITS, place & ((1 << NUMBER_BITS) - 1))
}

fn malformed() -> ProtocolError {
    ProtocolError::new("an answer that holds no entries of a stream")
}

fn text(error: &[u8]) -> String {
    String::from_utf8_lossy(error).into_owned()
}

impl Session for RedisStreamSession {
    fn open(&mut self, out: &mut Vec<u8>) {
        if let Some(login) = self.login.clone() {
            self.send(Step::SignIn, &sign_in(&login), out);
        }
    }

    fn is_open(&self) -> bool {
        self.login.is_none()
    }

    fn keep_alive_every(&self) -> Option<Duration> {
        Some(LOOK_EVERY)
    }

    /// Sends nothing: a read that waits is answered in time.
    fn keep_alive(&mut self, _: &mut Vec<u8>) {}
}

impl WatchSession for RedisStreamSession {
    fn watch(&mut self, request: &WatcherRequest<'_>, out: &mut Vec<u8>) {
        let after = match (request.after, request.from) {
            (0, WatchStart::Now) => None,
            (0, WatchStart::Oldest) => Some(FIRST_PLACE),
            (known, _) => Some(known),
        };
        let (number, key) = (request.watcher, request.name.to_vec());
        self.watcher = Some(StreamWatcher { number, key, after });
        let words = newest(request.name);
        self.send(Step::Newest, &words, out);
    }

    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<(), ProtocolError> {
        let mut session = std::mem::take(&mut self.session);
        let (mut wrong, mut reads_on) = (None, false);
        let received = session.receive(input, &mut |reply| {
            if wrong.is_none() {
                match self.on_reply(reply, on) {
                    Ok(is_due) => reads_on |= is_due,
                    Err(error) => wrong = Some(error),
                }
            }
        });
        self.session = session;
        received?;
        wrong.map_or(Ok(()), Err)?;
        if reads_on {
            self.read_on(out);
        }
        Ok(())
    }
}

/// Returns the command that reads the newest entry of a stream.
pub(super) fn newest(key: &[u8]) -> [&[u8]; 6] {
    [b"XREVRANGE", key, b"+", b"-", b"COUNT", b"1"]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the server's words: a bulk string.
    fn bulk(text: &str) -> String {
        format!("${}\r\n{text}\r\n", text.len())
    }

    fn entries(all: &[(&str, &str)]) -> String {
        let one = |(id, value): &(&str, &str)| {
            format!("*2\r\n{}*2\r\n{}{}", bulk(id), bulk("v"), bulk(value))
        };
        format!("*{}\r\n{}", all.len(), all.iter().map(one).collect::<String>())
    }

    /// Returns the answer of a read that waited.
    fn read(all: &[(&str, &str)]) -> String {
        format!("*1\r\n*2\r\n{}{}", bulk("bakeoff/a"), entries(all))
    }

    /// Feeds the server's bytes to a session. Returns the news, and the bytes that the session sends.
    fn heard(
        session: &mut RedisStreamSession,
        bytes: &str,
    ) -> Result<(Vec<String>, String), String> {
        let (mut out, mut seen) = (Vec::new(), Vec::new());
        let received = session.receive(bytes.as_bytes(), &mut out, &mut |news| {
            seen.push(match news {
                WatchNews::Created { watcher, place } => {
                    format!("created {watcher} at {}", id_of(place.unwrap()))
                }
                WatchNews::Event { watcher, place, value, .. } => {
                    let value = String::from_utf8_lossy(value.unwrap()).into_owned();
                    format!("{watcher}: {value} at {}", id_of(place.unwrap()))
                }
                WatchNews::Ended { watcher, why } => format!("{watcher} ended: {why}"),
                WatchNews::Asked => "asked".to_owned(),
                other => format!("{other:?}"),
            });
        });
        let sent = String::from_utf8_lossy(&out).into_owned();
        received.map(|()| (seen, sent)).map_err(|error| error.what)
    }

    fn requested(after: u64, from: WatchStart) -> RedisStreamSession {
        let (mut session, mut out) = (RedisStreamSession::new(None), Vec::new());
        session.open(&mut out);
        assert!(session.is_open() && out.is_empty());
        let (watcher, name, is_prefix, previous) = (5, &b"bakeoff/a"[..], false, false);
        let request = WatcherRequest { watcher, name, is_prefix, after, from, previous };
        session.watch(&request, &mut out);
        let sent = String::from_utf8(out).unwrap();
        assert!(sent.contains("XREVRANGE\r\n$9\r\nbakeoff/a\r\n$1\r\n+\r\n$1\r\n-\r\n"), "{sent}");
        session
    }

    #[test]
    fn watcher_reads_after_the_newest_entry_or_from_where_it_was() {
        let known = place_of(b"1700000000000-3").unwrap();
        for (after, from, stream, expected) in [
            (0, WatchStart::Now, entries(&[("1700000000009-2", "x")]), "1700000000009-2"),
            (0, WatchStart::Now, "*0\r\n".to_owned(), "0-1"),
            (0, WatchStart::Oldest, entries(&[("1700000000009-2", "x")]), "0-1"),
            (known, WatchStart::Oldest, entries(&[("1700000000009-2", "x")]), "1700000000000-3"),
            (known, WatchStart::Now, "*0\r\n".to_owned(), "1700000000000-3"),
        ] {
            let mut session = requested(after, from);
            let (news, sent) = heard(&mut session, &stream).unwrap();
            assert_eq!(news, [format!("created 5 at {expected}")]);
            let tail = bulk("STREAMS") + &bulk("bakeoff/a") + &bulk(expected);
            assert!(sent.contains("XREAD") && sent.ends_with(&tail), "{sent}");
        }
    }

    #[test]
    fn entries_are_events_and_each_answer_is_followed_by_a_read() {
        let mut session = requested(0, WatchStart::Now);
        heard(&mut session, "*0\r\n").unwrap();
        let (news, sent) =
            heard(&mut session, &read(&[("1700000000000-0", "one"), ("1700000000000-1", "two")]))
                .unwrap();
        assert_eq!(news, ["5: one at 1700000000000-0", "5: two at 1700000000000-1", "asked"]);
        assert!(sent.ends_with(&bulk("1700000000000-1")), "{sent}");
        let (news, again) = heard(&mut session, "*-1\r\n").unwrap();
        assert_eq!((news, again), (vec!["asked".to_owned()], sent), "nothing came in time");
    }

    #[test]
    fn refused_reads_end_the_watcher_and_malformed_ones_the_connection() {
        let mut session = requested(0, WatchStart::Now);
        let (news, sent) = heard(&mut session, "-WRONGTYPE a string\r\n").unwrap();
        assert_eq!((news, sent), (vec!["5 ended: WRONGTYPE a string".to_owned()], String::new()));
        for answer in ["+OK\r\n", "*1\r\n*1\r\n$1\r\na\r\n", &entries(&[("17", "x")])] {
            let error = heard(&mut requested(0, WatchStart::Now), answer).unwrap_err();
            assert_eq!(error, "an answer that holds no entries of a stream", "{answer}");
        }
        let login = Login { user: "me".into(), password: "s3 cret".into() };
        let mut session = RedisStreamSession::new(Some(Arc::new(login)));
        session.open(&mut Vec::new());
        assert!(!session.is_open());
        assert_eq!(heard(&mut session, "-WRONGPASS no\r\n"), Err("WRONGPASS no".to_owned()));
    }

    #[test]
    fn split_or_altered_bytes_give_the_same_news() {
        let outcome = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let (mut session, mut seen) = (requested(0, WatchStart::Now), Vec::new());
            for piece in pieces {
                let on = &mut |news: WatchNews<'_>| seen.push(format!("{news:?}"));
                if let Err(error) = session.receive(piece, &mut Vec::new(), on) {
                    return (seen, Some(error.what));
                }
            }
            (seen, None)
        };
        let answers = [
            entries(&[("1700000000000-0", "one")]),
            read(&[("1700000000001-0", "two"), ("1700000000001-1", "three")]),
            "*-1\r\n".to_owned(),
        ];
        let whole = outcome(&mut answers.iter().map(String::as_bytes));
        assert_eq!((whole.0.len(), &whole.1), (5, &None));
        for size in 1..40 {
            let mut pieces = answers.iter().flat_map(|answer| answer.as_bytes().chunks(size));
            assert_eq!(outcome(&mut pieces), whole, "in pieces of {size}");
        }
        let bytes = answers.concat();
        let words = ["\r\n", "*2\r\n", "*-1\r\n", "*0\r\n", "-0\r\n", "$1\r\nv\r\n"];
        bakeoff_fuzz::run("redis streams", &[bytes.as_bytes()], &words, |input| {
            outcome(&mut input.chunks(7));
        });
    }
}
