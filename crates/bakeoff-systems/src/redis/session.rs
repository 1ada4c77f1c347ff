//! Maps key-value operations onto Redis commands.
//!
//! A write that replicas must acknowledge is a `SET` or `DEL` and a `WAIT`, sent together. The `WAIT` counts the
//! replicas that have all writes of the connection. A `list` runs `SCAN` over all keys until the server reports the
//! end, because Redis has no index of names. All commands of a list count as one operation.
//!
//! A key may hold a stream instead of a string: each put appends an entry (`XADD`), and a get reads the newest one
//! (`XREVRANGE`).
//!
//! A lease is a key that expires (`SET … EX`), and is renewed by `EXPIRE`.
//!
//! A lock is a key that one client sets (`SET … NX`) to a word of its own. A script deletes it if it still has that word,
//! and another writes a value if it has. A refused client tries again after a random delay, as Redis' documentation
//! advises. The delay is a `BLPOP` of a list that stays empty, because sessions have no clock.
//!
//! A transaction watches its keys (`WATCH`) and reads them (`MGET`), then writes all (`MULTI`, `MSET`, `EXEC`). The `EXEC`
//! does nothing if a watched key was changed.
//!
//! With credentials, a session signs in first (`AUTH`), and opens once that is answered.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::study::Operation;
use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_engine::work::{Session, Tag};
use bakeoff_engine::works::keyed::{Answer, Compare, KvSession, LockStep, Request};
use bakeoff_wire::ProtocolError;
use bakeoff_wire::resp::{self, Reply};
use smallvec::SmallVec;

use super::ClientSettings;
use super::stream_session::{entry, newest};
use crate::Login;
use crate::coordination::{LOCKS, lock_name, random_word};

/// Timeout of a `WAIT` in milliseconds: longer than a typical operation timeout.
const WAIT_MS: &[u8] = b"60000";
/// Keys examined by each `SCAN`. The default of 10 would make a list many round trips.
const SCAN_COUNT: &[u8] = b"1000";
/// Most commands of a request.
const COMMANDS_MAX: usize = 4;
/// Delay of a client whose lock is taken, in milliseconds.
const LOCK_DELAY_MS: std::ops::Range<u32> = 5..15;
/// Begin of the error that scripts answer if the client does not hold the lock.
const NOT_HELD: &str = "NOTHELD";
/// Writes key 2 if key 1 has the client's word.
const FENCED_SET: &[u8] = b"if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('SET', KEYS[2], ARGV[2]) end return redis.error_reply('NOTHELD')";
/// Deletes key 1 if it has the client's word.
const RELEASE: &[u8] = b"if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return redis.error_reply('NOTHELD')";

/// One connection to a primary.
pub(crate) struct RedisSession {
    session: resp::Session,
    /// User to sign in; `None` once that is done.
    login: Option<Arc<Login>>,
    /// Replicas that must have a write before it is acknowledged, as a decimal number; `None` for none.
    wait: Option<String>,
    /// Steps in flight, oldest first. Replies come in order.
    steps: VecDeque<(Tag, Step)>,
    lists: Vec<List>,
    /// True if keys hold streams.
    streams: bool,
    /// Time to live of leases.
    lease_seconds: u64,
    /// Leases that are being set, oldest first.
    leases_asked: VecDeque<String>,
    lock: ClientLock,
}

/// Lock of a connection's client.
struct ClientLock {
    /// True if writes depend on the lock.
    fences: bool,
    /// Content of the key while the client holds the lock.
    word: String,
    /// Sending of the last request for it.
    sent: Instant,
    /// True if that was refused.
    is_refused: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    SignIn,
    /// A write acknowledged by its own reply.
    Write,
    /// A write followed by a `WAIT`. Its success is not yet an answer.
    WriteAndWait,
    Wait,
    /// The `WAIT` after a failed write, or a command whose failure a later answer repeats.
    Ignored,
    /// Read of a group of keys.
    GetAll,
    /// End of a transaction.
    Exec,
    /// End of a transaction, with a `WAIT` after it.
    ExecAndWait,
    Get,
    /// A read of a stream's newest entry.
    GetNewest,
    List,
    GrantLease,
    RenewLease,
    AcquireLock,
    LockDelay,
}

/// A `list` in progress.
struct List {
    tag: Tag,
    pattern: Vec<u8>,
    /// Names seen so far. A scan may return a name several times.
    names: Vec<Vec<u8>>,
}

impl RedisSession {
    /// Returns a session with a primary. Its writes wait for the configured replicas, and its leases live `lease_seconds`.
    /// `fences`: writes of a `lock` depend on the lock.
    pub(super) fn new(
        settings: &ClientSettings,
        login: Option<Arc<Login>>,
        lease_seconds: u64,
        fences: bool,
    ) -> Self {
        let wait = (settings.waited_for > 0).then(|| settings.waited_for.to_string());
        let session = resp::Session::default();
        Self {
            session,
            login,
            wait,
            steps: VecDeque::new(),
            lists: Vec::new(),
            streams: settings.streams,
            lease_seconds,
            leases_asked: VecDeque::new(),
            lock: ClientLock { fences, word: random_word(), sent: clock::now(), is_refused: false },
        }
    }

    /// Sends a command. The caller has checked that there is room for it.
    fn send(&mut self, tag: Tag, step: Step, words: &[&[u8]], out: &mut Vec<u8>) {
        if self.session.request(words, out).is_ok() {
            self.steps.push_back((tag, step));
        }
    }

    fn write(&mut self, tag: Tag, words: &[&[u8]], out: &mut Vec<u8>) {
        let Some(replicas) = self.wait.clone() else {
            return self.send(tag, Step::Write, words, out);
        };
        self.send(tag, Step::WriteAndWait, words, out);
        self.send(tag, Step::Wait, &[b"WAIT", replicas.as_bytes(), WAIT_MS], out);
    }

    /// Reads a group of keys, or writes it if none has changed since its read.
    fn transact(&mut self, tag: Tag, request: &Request<'_>, out: &mut Vec<u8>) {
        let names = request.group.iter().map(|key| &*key.name);
        if request.compare == Compare::Read {
            if request.operation == Operation::Move {
                self.send(tag, Step::Ignored, &words(b"WATCH", names.clone()), out);
            }
            return self.send(tag, Step::GetAll, &words(b"MGET", names), out);
        }
        self.send(tag, Step::Ignored, &[b"MULTI"], out);
        let pairs = request.group.iter().flat_map(|key| [&*key.name, &*key.value]);
        self.send(tag, Step::Ignored, &words(b"MSET", pairs), out);
        let Some(replicas) = self.wait.clone() else {
            return self.send(tag, Step::Exec, &[b"EXEC"], out);
        };
        self.send(tag, Step::ExecAndWait, &[b"EXEC"], out);
        self.send(tag, Step::Wait, &[b"WAIT", replicas.as_bytes(), WAIT_MS], out);
    }

    /// Renews a lease, or sets one.
    fn keep_lease(&mut self, tag: Tag, lease: &str, out: &mut Vec<u8>) {
        let seconds = self.lease_seconds.to_string();
        if !lease.is_empty() {
            let words: [&[u8]; 3] = [b"EXPIRE", lease.as_bytes(), seconds.as_bytes()];
            return self.send(tag, Step::RenewLease, &words, out);
        }
        let key = format!("{KEY_PREFIX}leases/{}", random_word());
        let words: [&[u8]; 5] = [b"SET", key.as_bytes(), b"", b"EX", seconds.as_bytes()];
        self.send(tag, Step::GrantLease, &words, out);
        self.leases_asked.push_back(key);
    }

    /// Sends the next request of a `lock`.
    fn work_on_lock(&mut self, tag: Tag, request: &Request<'_>, out: &mut Vec<u8>) {
        let (name, word) = (lock_name(request.number), self.lock.word.clone());
        let (name, word) = (name.as_bytes(), word.as_bytes());
        match request.lock {
            LockStep::Acquire if self.lock.is_refused => {
                self.lock.is_refused = false;
                let seconds = format!("0.{:03}", rand::random_range(LOCK_DELAY_MS));
                let list = format!("{KEY_PREFIX}{LOCKS}/delay");
                let words: [&[u8]; 3] = [b"BLPOP", list.as_bytes(), seconds.as_bytes()];
                self.send(tag, Step::LockDelay, &words, out);
            }
            LockStep::Acquire => {
                self.lock.sent = clock::now();
                let seconds = self.lease_seconds.to_string();
                let words: [&[u8]; 6] = [b"SET", name, word, b"NX", b"EX", seconds.as_bytes()];
                self.send(tag, Step::AcquireLock, &words, out);
            }
            LockStep::Write if self.lock.fences => {
                let (key, value) = (request.key, request.value);
                self.write(tag, &[b"EVAL", FENCED_SET, b"2", name, key, word, value], out);
            }
            LockStep::Write => self.write(tag, &[b"SET", request.key, request.value], out),
            LockStep::Release => {
                self.send(tag, Step::Write, &[b"EVAL", RELEASE, b"1", name, word], out);
            }
        }
    }
}

impl Session for RedisSession {
    fn open(&mut self, out: &mut Vec<u8>) {
        if let Some(login) = self.login.clone() {
            self.send(Tag::MAX, Step::SignIn, &sign_in(&login), out);
        }
    }

    fn is_open(&self) -> bool {
        self.login.is_none()
    }
}

impl KvSession for RedisSession {
    fn request(&mut self, tag: Tag, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        if self.session.capacity() < COMMANDS_MAX {
            return false;
        }
        match request.operation {
            Operation::Put if self.streams => {
                self.write(tag, &[b"XADD", request.key, b"*", b"v", request.value], out);
            }
            Operation::Get if self.streams => {
                self.send(tag, Step::GetNewest, &newest(request.key), out);
            }
            Operation::Put => self.write(tag, &[b"SET", request.key, request.value], out),
            Operation::Delete => self.write(tag, &[b"DEL", request.key], out),
            Operation::Get => self.send(tag, Step::Get, &[b"GET", request.key], out),
            operation if operation.is_of_leases() => self.keep_lease(tag, request.lease, out),
            Operation::Lock => self.work_on_lock(tag, request, out),
            Operation::Look | Operation::Move => self.transact(tag, request, out),
            Operation::List => {
                // bakeoff's keys hold no pattern characters.
                let pattern = [request.key, b"*"].concat();
                self.send(tag, Step::List, &scan(b"0", &pattern), out);
                self.lists.push(List { tag, pattern, names: Vec::new() });
            }
            operation => crate::never_planned(operation),
        }
        true
    }

    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Tag, Answer<'_>),
    ) -> Result<(), ProtocolError> {
        let Self { session, login, wait, steps, lists, lease_seconds, leases_asked, lock, .. } =
            self;
        let lasts = Duration::from_secs(*lease_seconds);
        let mut further: Vec<(Tag, Vec<u8>)> = Vec::new();
        let mut refused = None;
        let received = session.receive(input, &mut |reply| {
            let Some((tag, step)) = steps.pop_front() else { return };
            let asked = if step == Step::GrantLease { leases_asked.pop_front() } else { None };
            match (step, reply) {
                (Step::Ignored, _) => {}
                (Step::SignIn, Reply::Error(error)) => {
                    refused = Some(String::from_utf8_lossy(error).into_owned());
                }
                (Step::SignIn, _) => *login = None,
                (
                    Step::WriteAndWait | Step::ExecAndWait,
                    reply @ (Reply::Error(_) | Reply::Nil),
                ) => {
                    // The `WAIT` sent with a write that did not happen has no meaning.
                    if let Some((_, wait)) = steps.front_mut() {
                        *wait = Step::Ignored;
                    }
                    on(tag, not_written(reply));
                }
                (Step::WriteAndWait | Step::ExecAndWait, _) => {}
                (step, Reply::Error(error)) => {
                    if step == Step::List {
                        lists.retain(|list| list.tag != tag);
                    }
                    on(tag, failed(error));
                }
                (Step::Exec, Reply::Array(_)) => on(tag, Answer::Done),
                (Step::Exec, reply @ Reply::Nil) => on(tag, not_written(reply)),
                (Step::GetAll, Reply::Array(values)) => {
                    let mut values = values.map(|value| match value {
                        Reply::Bulk(value) => Some(value),
                        _ => None,
                    });
                    on(tag, Answer::Group(&mut values, 0));
                }
                (Step::Write, Reply::Status(_) | Reply::Integer(_) | Reply::Bulk(_))
                | (Step::RenewLease, Reply::Integer(1)) => on(tag, Answer::Done),
                (Step::RenewLease, Reply::Integer(0)) => on(tag, Answer::LeaseExpired(lasts)),
                (Step::GrantLease, Reply::Status(_)) => match &asked {
                    Some(name) => on(tag, Answer::Granted(name)),
                    None => on(tag, unexpected()),
                },
                (Step::AcquireLock, Reply::Status(_)) => {
                    on(tag, Answer::Held { token: 0, until: lock.sent + lasts });
                }
                (Step::AcquireLock, Reply::Nil) => {
                    lock.is_refused = true;
                    on(tag, Answer::Again);
                }
                (Step::LockDelay, Reply::Nil) => on(tag, Answer::Again),
                (Step::Wait, Reply::Integer(have)) => on(tag, waited(have, wait.as_deref())),
                (Step::Get, Reply::Bulk(value)) => on(tag, Answer::Value(value)),
                (Step::Get, Reply::Nil) => on(tag, Answer::Missing),
                (Step::GetNewest, Reply::Array(mut entries)) => match entries.next().map(entry) {
                    Some(Some((_, value))) => on(tag, Answer::Value(value)),
                    Some(None) => on(tag, unexpected()),
                    None => on(tag, Answer::Missing),
                },
                (Step::List, Reply::Array(page)) => match listed(page, tag, lists) {
                    Some(cursor) if cursor != b"0" => further.push((tag, cursor)),
                    Some(_) => {
                        let Some(place) = lists.iter().position(|list| list.tag == tag) else {
                            return;
                        };
                        let mut names = lists.swap_remove(place).names;
                        names.sort_unstable();
                        names.dedup();
                        on(tag, Answer::Names(&mut names.iter().map(Vec::as_slice)));
                    }
                    None => on(tag, unexpected()),
                },
                _ => on(tag, unexpected()),
            }
        });
        for (tag, cursor) in further {
            if let Some(list) = self.lists.iter().find(|list| list.tag == tag) {
                let pattern = list.pattern.clone();
                self.send(tag, Step::List, &scan(&cursor, &pattern), out);
            }
        }
        received?;
        refused.map_or(Ok(()), |why| Err(ProtocolError::new(why)))
    }
}

/// Returns the command that signs a user in.
pub(super) fn sign_in(login: &Login) -> [&[u8]; 3] {
    [b"AUTH", login.user.as_bytes(), login.password.as_bytes()]
}

/// Returns a command and its arguments.
fn words<'a>(
    command: &'a [u8],
    arguments: impl Iterator<Item = &'a [u8]>,
) -> SmallVec<[&'a [u8]; 16]> {
    std::iter::once(command).chain(arguments).collect()
}

fn scan<'a>(cursor: &'a [u8], pattern: &'a [u8]) -> [&'a [u8]; 6] {
    [b"SCAN", cursor, b"MATCH", pattern, b"COUNT", SCAN_COUNT]
}

/// Stores the names of a page. Returns the cursor of the next one, `0` after the last.
fn listed(mut page: resp::Array<'_>, tag: Tag, lists: &mut [List]) -> Option<Vec<u8>> {
    let (Some(Reply::Bulk(cursor)), Some(Reply::Array(names))) = (page.next(), page.next()) else {
        return None;
    };
    let list = lists.iter_mut().find(|list| list.tag == tag)?;
    for name in names {
        let Reply::Bulk(name) = name else { return None };
        list.names.push(name.to_vec());
    }
    Some(cursor.to_vec())
}

fn waited(have: i64, wanted: Option<&str>) -> Answer<'static> {
    let wanted = wanted.unwrap_or("0");
    match wanted.parse::<i64>().is_ok_and(|wanted| have >= wanted) {
        true => Answer::Done,
        false => {
            let what = format!("{have} of {wanted} replicas have the write");
            Answer::Failed(ErrorKind::Status, what)
        }
    }
}

/// Returns the answer of a write that did not happen.
fn not_written(reply: Reply<'_>) -> Answer<'static> {
    match reply {
        Reply::Error(error) => failed(error),
        _ => Answer::Conflict,
    }
}

fn failed(error: &[u8]) -> Answer<'static> {
    if error.starts_with(NOT_HELD.as_bytes()) {
        return Answer::NotHeld { at_grant: false };
    }
    let mut what = String::from_utf8_lossy(error).into_owned();
    if what.starts_with("READONLY ") {
        what += " It became a replica: writes that it acknowledged shortly before may be lost, also on the new primary.";
    }
    Answer::Failed(ErrorKind::Status, what)
}

fn unexpected() -> Answer<'static> {
    Answer::Failed(ErrorKind::Protocol, "an answer of an unexpected kind".to_owned())
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::replay;

    fn with_credentials() -> (RedisSession, String) {
        let login = Login { user: "me".into(), password: "s3 cret".into() };
        let mut session =
            RedisSession::new(&ClientSettings::default(), Some(Arc::new(login)), 60, true);
        let mut out = Vec::new();
        session.open(&mut out);
        (session, String::from_utf8(out).unwrap())
    }

    fn heard(session: &mut RedisSession, bytes: &[u8]) -> Result<Vec<String>, String> {
        let mut seen = Vec::new();
        let mut on = |tag, answer: Answer<'_>| {
            let text = match answer {
                Answer::Value(value) => String::from_utf8_lossy(value).into_owned(),
                _ => "another".to_owned(),
            };
            seen.push(format!("{tag} {text}"));
        };
        let received = session.receive(bytes, &mut Vec::new(), &mut on);
        received.map(|()| seen).map_err(|error| error.what)
    }

    #[test]
    fn session_with_credentials_signs_in_before_it_is_open() {
        let (mut session, asked) = with_credentials();
        assert_eq!(asked, "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$7\r\ns3 cret\r\n");
        assert!(!session.is_open());
        assert_eq!(heard(&mut session, b"+O"), Ok(vec![]));
        assert!(!session.is_open());
        assert_eq!(heard(&mut session, b"K\r\n"), Ok(vec![]));
        assert!(session.is_open());
        let request = replay::request(Operation::Get, b"bakeoff/a", b"");
        assert!(session.request(3, &request, &mut Vec::new()));
        assert_eq!(heard(&mut session, b"$3\r\none\r\n"), Ok(vec!["3 one".to_owned()]));
    }

    #[test]
    fn refused_password_ends_the_connection_in_the_servers_words() {
        let (mut session, _) = with_credentials();
        let words = "WRONGPASS invalid username-password pair or user is disabled.";
        let refused = heard(&mut session, format!("-{words}\r\n").as_bytes());
        assert_eq!(refused, Err(words.to_owned()));
        assert!(!session.is_open());
    }

    #[test]
    fn refused_lock_is_tried_again_after_a_delay() {
        let mut session = RedisSession::new(&ClientSettings::default(), None, 60, true);
        let asked = |session: &mut RedisSession| {
            let request = replay::request(Operation::Lock, b"bakeoff/a", b"");
            let mut out = Vec::new();
            assert!(session.request(3, &request, &mut out));
            String::from_utf8(out).unwrap()
        };
        let answered = |session: &mut RedisSession, bytes: &[u8]| {
            let mut is_held = None;
            let mut on = |_, answer: Answer<'_>| match answer {
                Answer::Again => is_held = Some(false),
                Answer::Held { token: 0, .. } => is_held = Some(true),
                _ => {}
            };
            session.receive(bytes, &mut Vec::new(), &mut on).unwrap();
            is_held
        };
        let tries = asked(&mut session);
        assert!(tries.contains("SET\r\n") && tries.contains("NX\r\n"), "{tries}");
        assert_eq!(answered(&mut session, b"$-1\r\n"), Some(false));
        let waits = asked(&mut session);
        assert!(waits.contains("BLPOP\r\n") && waits.contains("\r\n0.0"), "{waits}");
        assert_eq!(answered(&mut session, b"*-1\r\n"), Some(false));
        assert_eq!(asked(&mut session), tries);
        assert_eq!(answered(&mut session, b"+OK\r\n"), Some(true));
    }

    #[test]
    fn stream_is_written_by_appending_and_read_at_its_end() {
        let settings = ClientSettings { streams: true, ..ClientSettings::default() };
        let mut session = RedisSession::new(&settings, None, 60, true);
        let asked = |session: &mut RedisSession, operation| {
            let mut out = Vec::new();
            let request = replay::request(operation, b"bakeoff/a", b"one");
            assert!(session.request(3, &request, &mut out));
            String::from_utf8(out).unwrap()
        };
        let put = "*5\r\n$4\r\nXADD\r\n$9\r\nbakeoff/a\r\n$1\r\n*\r\n$1\r\nv\r\n$3\r\none\r\n";
        assert_eq!(asked(&mut session, Operation::Put), put);
        assert_eq!(
            heard(&mut session, b"$15\r\n1700000000000-0\r\n"),
            Ok(vec!["3 another".into()])
        );
        for (answer, expected) in [
            (&b"*1\r\n*2\r\n$15\r\n1700000000000-0\r\n*2\r\n$1\r\nv\r\n$3\r\none\r\n"[..], "3 one"),
            (b"*0\r\n", "3 another"),
            (b"*1\r\n$1\r\na\r\n", "3 another"),
        ] {
            assert!(asked(&mut session, Operation::Get).contains("XREVRANGE"));
            assert_eq!(heard(&mut session, answer), Ok(vec![expected.to_owned()]));
        }
    }

    #[test]
    fn session_without_credentials_is_open_at_once() {
        let mut session = RedisSession::new(&ClientSettings::default(), None, 60, true);
        let mut out = Vec::new();
        session.open(&mut out);
        assert!(out.is_empty() && session.is_open());
    }
}
