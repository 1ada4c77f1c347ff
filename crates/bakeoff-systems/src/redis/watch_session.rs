//! Watches keys over one connection: notifications of changes, and a read after each.
//!
//! Redis publishes the name of a changed key without its value (`notify-keyspace-events`). So the session reads the key
//! after each notification. Notifications and reads share the connection, which version 3 of the protocol allows.
//! Notifications during a read of their key cause one more read, however many they are.
//!
//! Redis keeps no notifications, so a client misses those published while it is not connected. A watcher of one key
//! reads it after it has subscribed. Then it knows the present value, but not that the key was deleted meanwhile. A
//! watcher of all keys learns of a missed change with the next change of that key.
//!
//! Source: <https://redis.io/docs/latest/develop/pubsub/keyspace-notifications/>.
//!
//! Not here: the setting that switches notifications on (`mod.rs`), when to connect (`bakeoff_engine::watch`).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bakeoff_engine::watch::{WatchNews, WatchSession, WatcherRequest};
use bakeoff_engine::work::Session;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::resp::{self, Array, Reply};

use super::{NOTIFIED_EVENTS, sign_in};
use crate::Login;

/// Interval between pings of the connection.
const PING_EVERY: Duration = Duration::from_secs(5);
/// Prefix of the channel of a key in the only database that bakeoff uses.
const CHANNEL: &[u8] = b"__keyspace@0__:";
/// Setting that switches notifications on.
const SETTING: &[u8] = b"notify-keyspace-events";
/// Most keys that are read, or wait to be read.
const READS_MAX: usize = 1 << 20;

/// One connection with one watcher.
pub(super) struct RedisWatchSession {
    session: resp::Session,
    login: Option<Arc<Login>>,
    is_open: bool,
    /// Number of the watcher.
    watcher: u32,
    /// Commands in flight, oldest first. Replies come in order.
    steps: VecDeque<Step>,
    /// Keys that changed and were not read since.
    reads: HashMap<Vec<u8>, ReadState>,
    /// Keys of [`ReadState::Due`], in order.
    due: VecDeque<Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    SignIn,
    Hello,
    Settings,
    Subscribe,
    /// Read of a key that may have changed before the watcher existed.
    FirstRead(Vec<u8>),
    Read(Vec<u8>),
    Ping,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadState {
    /// The read is not sent yet.
    Due,
    Sent,
    /// The key changed after the read was sent.
    Outdated,
}

impl RedisWatchSession {
    pub(super) fn new(login: Option<Arc<Login>>) -> Self {
        Self {
            session: resp::Session::version_3(),
            login,
            is_open: false,
            watcher: 0,
            steps: VecDeque::new(),
            reads: HashMap::new(),
            due: VecDeque::new(),
        }
    }

    fn send(&mut self, step: Step, words: &[&[u8]], out: &mut Vec<u8>) {
        if self.session.request(words, out).is_ok() {
            self.steps.push_back(step);
        }
    }

    /// Reads the keys that are due, as far as the connection takes requests.
    fn send_reads(&mut self, out: &mut Vec<u8>, on: &mut dyn FnMut(WatchNews<'_>)) {
        while self.session.capacity() > 0 {
            let Some(key) = self.due.pop_front() else { return };
            if let Some(state) = self.reads.get_mut(&key) {
                *state = ReadState::Sent;
            }
            let words = [b"GET", key.as_slice()];
            if self.session.request(&words, out).is_ok() {
                self.steps.push_back(Step::Read(key));
                on(WatchNews::Asked);
            }
        }
    }

    /// Notes that a key changed.
    fn on_change(&mut self, key: &[u8]) -> Result<(), ProtocolError> {
        let count = self.reads.len();
        match self.reads.get_mut(key) {
            Some(ReadState::Due) => {}
            Some(state) => *state = ReadState::Outdated,
            None if count == READS_MAX => {
                return Err(ProtocolError::new(format!("more than {READS_MAX} changed keys")));
            }
            None => {
                self.reads.insert(key.to_vec(), ReadState::Due);
                self.due.push_back(key.to_vec());
            }
        }
        Ok(())
    }

    /// Notes that a read was answered. Another is due if the key changed meanwhile.
    fn on_read(&mut self, key: Vec<u8>) {
        match self.reads.get_mut(&key) {
            Some(state @ ReadState::Outdated) => {
                *state = ReadState::Due;
                self.due.push_back(key);
            }
            _ => _ = self.reads.remove(&key),
        }
    }

    /// Processes a pushed message.
    fn on_push(
        &mut self,
        mut message: Array<'_>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<(), ProtocolError> {
        let Some(Reply::Bulk(kind)) = message.next() else { return Ok(()) };
        let channel = match kind {
            b"subscribe" | b"psubscribe" => {
                if self.steps.pop_front() != Some(Step::Subscribe) {
                    return Err(ProtocolError::new(
                        "a subscription before the replies ahead of it",
                    ));
                }
                on(WatchNews::Created { watcher: self.watcher, place: None });
                return Ok(());
            }
            b"message" => message.next(),
            b"pmessage" => message.nth(1), // the pattern comes first
            _ => None,
        };
        match channel {
            Some(Reply::Bulk(channel)) => match channel.strip_prefix(CHANNEL) {
                Some(key) => self.on_change(key),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Processes the reply to the oldest command.
    fn on_reply(
        &mut self,
        reply: Reply<'_>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<(), ProtocolError> {
        let Some(step) = self.steps.pop_front() else { return Ok(()) };
        let watcher = self.watcher;
        let mut ended = |why: String| on(WatchNews::Ended { watcher, why });
        match (step, reply) {
            (Step::SignIn, Reply::Error(error)) => return Err(ProtocolError::new(text(error))),
            (Step::Hello, Reply::Error(error)) => {
                let error = text(error);
                let what =
                    format!("watchers need version 3 of the protocol, from Redis 6 on: {error}");
                return Err(ProtocolError::new(what));
            }
            (Step::Hello, _) => self.is_open = true,
            (Step::Settings, Reply::Array(setting)) => {
                if let Some(why) = silence(setting) {
                    ended(why);
                }
            }
            // Not every user may read settings.
            (Step::SignIn | Step::Settings | Step::Ping, _) => {}
            (Step::Subscribe | Step::Read(_) | Step::FirstRead(_), Reply::Error(error)) => {
                ended(text(error));
            }
            (Step::FirstRead(key), Reply::Bulk(value)) => {
                on(WatchNews::Event { watcher, place: None, key: &key, value: Some(value) });
            }
            (Step::FirstRead(_), Reply::Nil) => {}
            (Step::Read(key), reply @ (Reply::Bulk(_) | Reply::Nil)) => {
                let value = if let Reply::Bulk(value) = reply { Some(value) } else { None };
                on(WatchNews::Event { watcher, place: None, key: &key, value });
                self.on_read(key);
            }
            _ => ended("an answer of an unexpected kind".to_owned()),
        }
        Ok(())
    }
}

impl Session for RedisWatchSession {
    fn open(&mut self, out: &mut Vec<u8>) {
        if let Some(login) = self.login.clone() {
            self.send(Step::SignIn, &sign_in(&login), out);
        }
        self.send(Step::Hello, &[b"HELLO", b"3"], out);
    }

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn keep_alive_every(&self) -> Option<Duration> {
        Some(PING_EVERY)
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        self.send(Step::Ping, &[b"PING"], out);
    }
}

impl WatchSession for RedisWatchSession {
    fn watch(&mut self, request: &WatcherRequest<'_>, out: &mut Vec<u8>) {
        self.watcher = request.watcher;
        self.send(Step::Settings, &[b"CONFIG", b"GET", SETTING], out);
        let channel = [CHANNEL, request.name].concat();
        if request.is_prefix {
            // bakeoff's keys hold no pattern characters.
            let pattern = [&channel, &b"*"[..]].concat();
            self.send(Step::Subscribe, &[b"PSUBSCRIBE", &pattern], out);
        } else {
            self.send(Step::Subscribe, &[b"SUBSCRIBE", &channel], out);
            self.send(Step::FirstRead(request.name.to_vec()), &[b"GET", request.name], out);
        }
    }

    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<(), ProtocolError> {
        let mut session = std::mem::take(&mut self.session);
        let mut wrong = None;
        let received = session.receive(input, &mut |reply| {
            if wrong.is_some() {
                return;
            }
            let taken = match reply {
                Reply::Push(message) => self.on_push(message, on),
                reply => self.on_reply(reply, on),
            };
            wrong = taken.err();
        });
        self.session = session;
        received?;
        wrong.map_or(Ok(()), Err)?;
        self.send_reads(out, on);
        Ok(())
    }
}

/// Returns why a server with this setting notifies no watcher; `None` if it does, or the setting is unknown.
fn silence(mut setting: Array<'_>) -> Option<String> {
    let (Some(Reply::Bulk(SETTING)), Some(Reply::Bulk(flags))) = (setting.next(), setting.next())
    else {
        return None;
    };
    let has = |flag: u8| flags.contains(&flag);
    let notifies = has(b'K') && (has(b'A') || (has(b'$') && has(b'g')));
    (!notifies).then(|| {
        format!(
            "the server publishes no changes: its `notify-keyspace-events` is `{}`, and watchers need `{NOTIFIED_EVENTS}`",
            flags.escape_ascii()
        )
    })
}

fn text(error: &[u8]) -> String {
    String::from_utf8_lossy(error).into_owned()
}

#[cfg(test)]
mod tests {
    use bakeoff_core::watch::WatchStart;

    use super::*;

    const HELLO: &str = "%1\r\n$5\r\nproto\r\n:3\r\n";
    const SETTINGS: &str = "%1\r\n$22\r\nnotify-keyspace-events\r\n$4\r\ng$xK\r\n";
    const NONE: [&str; 0] = [];

    /// Returns the server's words: a bulk string.
    fn bulk(text: &str) -> String {
        format!("${}\r\n{text}\r\n", text.len())
    }

    fn subscribed(kind: &str, channel: &str) -> String {
        format!(">3\r\n{}{}:1\r\n", bulk(kind), bulk(channel))
    }

    fn changed(key: &str) -> String {
        let channel = format!("__keyspace@0__:{key}");
        format!(">3\r\n{}{}{}", bulk("message"), bulk(&channel), bulk("set"))
    }

    fn get(key: &str) -> String {
        format!("*2\r\n{}{}", bulk("GET"), bulk(key))
    }

    /// Feeds the server's bytes to a session. Returns the news, and the bytes that the session sends.
    fn heard(
        session: &mut RedisWatchSession,
        bytes: &str,
    ) -> Result<(Vec<String>, String), String> {
        let (mut out, mut seen) = (Vec::new(), Vec::new());
        let received = session.receive(bytes.as_bytes(), &mut out, &mut |news| {
            seen.push(match news {
                WatchNews::Created { watcher, place } => format!("created {watcher} at {place:?}"),
                WatchNews::Event { watcher, place: None, key, value } => {
                    let value = value.map_or("gone".into(), String::from_utf8_lossy);
                    format!("{watcher}: {}={value}", key.escape_ascii())
                }
                WatchNews::Ended { watcher, why } => format!("{watcher} ended: {why}"),
                WatchNews::Asked => "asked".to_owned(),
                other => format!("{other:?}"),
            });
        });
        let sent = String::from_utf8_lossy(&out).into_owned();
        received.map(|()| (seen, sent)).map_err(|error| error.what)
    }

    /// Returns a session with watcher 5 that has been requested, and the request.
    fn requested(is_prefix: bool) -> (RedisWatchSession, String) {
        let (mut session, mut out) = (RedisWatchSession::new(None), Vec::new());
        session.open(&mut out);
        assert_eq!(out, b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n");
        assert!(!session.is_open());
        heard(&mut session, HELLO).unwrap();
        assert!(session.is_open());
        let name: &[u8] = if is_prefix { b"bakeoff/" } else { b"bakeoff/a" };
        let request = WatcherRequest {
            watcher: 5,
            name,
            is_prefix,
            after: 0,
            from: WatchStart::Now,
            previous: false,
        };
        let mut out = Vec::new();
        session.watch(&request, &mut out);
        (session, String::from_utf8(out).unwrap())
    }

    /// Returns a session whose watcher of all keys exists.
    fn watching() -> RedisWatchSession {
        let (mut session, sent) = requested(true);
        let pattern = "__keyspace@0__:bakeoff/*";
        assert!(sent.ends_with(&(bulk("PSUBSCRIBE") + &bulk(pattern))), "{sent}");
        let answers = SETTINGS.to_owned() + &subscribed("psubscribe", pattern);
        assert_eq!(heard(&mut session, &answers).unwrap().0, ["created 5 at None"]);
        session
    }

    #[test]
    fn watcher_of_a_key_reads_it_once_it_has_subscribed() {
        let channel = "__keyspace@0__:bakeoff/a";
        for (value, expected) in [
            (bulk("one"), vec!["created 5 at None", "5: bakeoff/a=one"]),
            ("_\r\n".into(), vec!["created 5 at None"]),
        ] {
            let (mut session, sent) = requested(false);
            assert!(sent.ends_with(&(bulk("SUBSCRIBE") + &bulk(channel) + &get("bakeoff/a"))));
            let answers = SETTINGS.to_owned() + &subscribed("subscribe", channel) + &value;
            assert_eq!(heard(&mut session, &answers).unwrap().0, expected);
        }
    }

    #[test]
    fn change_is_read_and_reported() {
        let mut session = watching();
        let channel = "__keyspace@0__:bakeoff/b";
        let pattern = bulk("pmessage") + &bulk("__keyspace@0__:bakeoff/*") + &bulk(channel);
        let (news, sent) = heard(&mut session, &format!(">4\r\n{pattern}{}", bulk("set"))).unwrap();
        assert_eq!((news, sent), (vec!["asked".to_owned()], get("bakeoff/b")));
        let (news, sent) = heard(&mut session, &bulk("one")).unwrap();
        assert_eq!((news, sent.as_str()), (vec!["5: bakeoff/b=one".to_owned()], ""));
        heard(&mut session, &changed("bakeoff/b")).unwrap();
        assert_eq!(heard(&mut session, "_\r\n").unwrap().0, ["5: bakeoff/b=gone"]);
    }

    #[test]
    fn changes_during_a_read_cause_one_more_read() {
        let mut session = watching();
        let (_, sent) = heard(&mut session, &changed("a").repeat(3)).unwrap();
        assert_eq!(sent, get("a"), "one read of changes that came together");
        assert_eq!(heard(&mut session, &changed("a").repeat(3)).unwrap().1, "");
        let (news, sent) = heard(&mut session, &bulk("one")).unwrap();
        assert_eq!((news, sent), (vec!["5: a=one".to_owned(), "asked".to_owned()], get("a")));
        assert_eq!(heard(&mut session, &bulk("two")).unwrap().1, "");
        assert!(session.reads.is_empty() && session.due.is_empty());
    }

    #[test]
    fn server_without_notifications_is_refused() {
        let ended = |settings: &str| {
            let (mut session, _) = requested(true);
            let news = heard(&mut session, settings).unwrap().0;
            assert!(news.len() <= 1, "{news:?}");
            news.into_iter().next().unwrap_or_default()
        };
        for flags in ["", "K", "g$x", "Kx"] {
            let settings = format!("%1\r\n{}{}", bulk("notify-keyspace-events"), bulk(flags));
            let seen = ended(&settings);
            let expected = format!(
                "5 ended: the server publishes no changes: its `notify-keyspace-events` is `{flags}`"
            );
            assert!(seen.starts_with(&expected), "{seen}");
        }
        for settings in [SETTINGS, &SETTINGS.replace("g$xK", "AKEx"), "-NOPERM no\r\n", "%0\r\n"] {
            assert_eq!(ended(settings), "", "{settings}");
        }
    }

    #[test]
    fn refused_commands_end_the_watcher_or_the_connection() {
        let mut session = watching();
        heard(&mut session, &changed("a")).unwrap();
        assert_eq!(heard(&mut session, "-LOADING data\r\n").unwrap().0, ["5 ended: LOADING data"]);
        let (mut session, _) = requested(true);
        let refused = SETTINGS.to_owned() + "-NOPERM no channels\r\n";
        assert_eq!(heard(&mut session, &refused).unwrap().0, ["5 ended: NOPERM no channels"]);
        let mut old = RedisWatchSession::new(None);
        old.open(&mut Vec::new());
        let error = heard(&mut old, "-ERR unknown command `HELLO`\r\n").unwrap_err();
        assert!(error.ends_with("from Redis 6 on: ERR unknown command `HELLO`"), "{error}");
        let (mut early, _) = requested(true);
        let error = heard(&mut early, &subscribed("psubscribe", "c")).unwrap_err();
        assert_eq!(error, "a subscription before the replies ahead of it");
    }

    #[test]
    fn session_with_credentials_signs_in_first() {
        let login = Login { user: "me".into(), password: "s3 cret".into() };
        let mut session = RedisWatchSession::new(Some(Arc::new(login)));
        let mut out = Vec::new();
        session.open(&mut out);
        let sent = String::from_utf8(out).unwrap();
        assert!(sent.starts_with("*3\r\n$4\r\nAUTH\r\n") && sent.contains("HELLO"), "{sent}");
        assert_eq!(heard(&mut session, "-WRONGPASS no\r\n"), Err("WRONGPASS no".to_owned()));
    }

    #[test]
    fn pings_do_not_disturb_reads() {
        let mut session = watching();
        heard(&mut session, &changed("a")).unwrap();
        let mut out = Vec::new();
        session.keep_alive(&mut out);
        assert_eq!(out, b"*1\r\n$4\r\nPING\r\n");
        let (news, _) = heard(&mut session, &(bulk("one") + "+PONG\r\n")).unwrap();
        assert_eq!(news, ["5: a=one"]);
        assert_eq!(heard(&mut session, ">2\r\n$10\r\ninvalidate\r\n_\r\n").unwrap().0, NONE);
    }

    #[test]
    fn split_or_altered_bytes_give_the_same_news() {
        // Changes that arrive together are read once, so requests are not compared.
        let outcome = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let (mut session, _) = requested(false);
            let mut seen = Vec::new();
            for piece in pieces {
                let on = &mut |news: WatchNews<'_>| match news {
                    WatchNews::Asked => {}
                    news => seen.push(format!("{news:?}")),
                };
                if let Err(error) = session.receive(piece, &mut Vec::new(), on) {
                    return (seen, Some(error.what));
                }
            }
            (seen, None)
        };
        let answers = [
            SETTINGS.to_owned(),
            subscribed("subscribe", "__keyspace@0__:bakeoff/a"),
            bulk("one"),
            changed("bakeoff/a"),
            bulk("two"),
            changed("bakeoff/a"),
            "_\r\n".to_owned(),
        ];
        let whole = outcome(&mut answers.iter().map(String::as_bytes));
        assert_eq!((whole.0.len(), &whole.1), (4, &None));
        for size in 1..40 {
            let mut pieces = answers.iter().flat_map(|answer| answer.as_bytes().chunks(size));
            assert_eq!(outcome(&mut pieces), whole, "in pieces of {size}");
        }
        let bytes = answers.concat();
        let words = ["\r\n", ">3\r\n", "_\r\n", "$7\r\nmessage\r\n", "__keyspace@0__:", "%1\r\n"];
        bakeoff_fuzz::run("redis watchers", &[bytes.as_bytes()], &words, |input| {
            outcome(&mut input.chunks(7));
        });
    }
}
