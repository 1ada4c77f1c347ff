//! Watches keys over one connection with blocking queries.
//!
//! A query names the index of the last answer. The server answers when the state has a later index, at the latest
//! after [`WAIT`]. An answer holds the state of a key, or of all keys below a prefix, with the index of each key's last
//! write. The session compares it with the answer before: other indexes are writes, missing keys are deletes. Versions
//! between two answers are never seen.
//!
//! An index may fall, for example after a snapshot was restored. The next query then names none, as Consul's
//! documentation demands: <https://developer.hashicorp.com/consul/api-docs/features/blocking>.
//!
//! Not here: the wire format (`bakeoff_wire::http1`), what events prove (`bakeoff_core::watch`).

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use bakeoff_engine::watch::{WatchNews, WatchSession, WatcherRequest};
use bakeoff_engine::work::Session;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::http1::{Connection, Limits, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::kv_api::write_token;
use crate::http_session::{http_status_text, rest_of_head};
use crate::{Access, ClientToken};

/// Time after which the server answers without a change. It adds up to a sixteenth. A server that is silent for much
/// longer is dead.
const WAIT: Duration = Duration::from_secs(5);
/// Maximum bytes of an answer, which holds all keys below a prefix.
const ANSWER_MAX: usize = 1 << 30;
/// Header field with the index of an answer.
const INDEX: &str = "X-Consul-Index";

/// One connection with one watcher.
pub(super) struct ConsulWatchSession {
    connection: Connection,
    /// Constant part of the head, from the end of the target on.
    rest_of_head: Vec<u8>,
    query: Vec<u8>,
    is_ending: bool,
    watcher: Watcher,
}

/// State of a watcher.
#[derive(Default)]
struct Watcher {
    number: u32,
    /// Name of the key, or the prefix of all keys.
    name: Vec<u8>,
    is_prefix: bool,
    /// Index up to which an earlier connection showed writes; 0 if there was none.
    after: u64,
    /// Index of the last answer; 0 to ask for the state at once.
    index: u64,
    /// Greatest index of the news so far.
    place: u64,
    /// Number of answers.
    answers: u64,
    /// Keys of the last answer.
    known: HashMap<String, KnownKey>,
    value: Vec<u8>,
}

/// State of a key.
struct KnownKey {
    /// Index of its last write.
    index: u64,
    /// Number of the last answer that had it.
    answer: u64,
}

/// A key in an answer. Base64 has no characters that JSON escapes.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Pair<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    modify_index: u64,
    value: Option<&'a str>,
}

impl ConsulWatchSession {
    pub(super) fn new(node: &Access) -> Self {
        let mut rest_of_head = rest_of_head(&node.authority);
        write_token(node.memory.get::<ClientToken>().as_deref(), &mut rest_of_head);
        rest_of_head.extend_from_slice(b"\r\n");
        let limits = Limits { max_body: ANSWER_MAX, kept_body: ANSWER_MAX, ..Limits::default() };
        Self {
            connection: Connection::new(limits),
            rest_of_head,
            query: Vec::new(),
            is_ending: false,
            watcher: Watcher::default(),
        }
    }

    /// Sends the next query. Returns false if the connection accepts none.
    fn ask(&mut self, out: &mut Vec<u8>) -> bool {
        let Self { connection, rest_of_head, query, watcher, .. } = self;
        query.clear();
        watcher.write_target(query);
        query.extend_from_slice(rest_of_head);
        connection.send_raw(false, query, out).is_ok()
    }
}

impl Session for ConsulWatchSession {
    fn open(&mut self, _: &mut Vec<u8>) {}

    fn is_open(&self) -> bool {
        true
    }

    fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Returns the interval of the queries' answers. They show that the server lives; nothing needs to be sent.
    fn keep_alive_every(&self) -> Option<Duration> {
        Some(WAIT)
    }
}

impl WatchSession for ConsulWatchSession {
    fn watch(&mut self, request: &WatcherRequest<'_>, out: &mut Vec<u8>) {
        self.watcher = Watcher {
            number: request.watcher,
            name: request.name.to_vec(),
            is_prefix: request.is_prefix,
            after: request.after,
            place: request.after,
            ..Watcher::default()
        };
        self.is_ending |= !self.ask(out);
    }

    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<(), ProtocolError> {
        let Self { connection, is_ending, watcher, .. } = self;
        let mut handled = Ok(false);
        connection.receive(input, out, &mut |response| {
            *is_ending |= !response.keep_alive;
            handled = watcher.answered(&response, on);
        })?;
        if handled? && !self.is_ending && self.ask(out) {
            on(WatchNews::Asked);
        }
        Ok(())
    }
}

impl Watcher {
    /// Appends method and target of the next query. The server's default consistency is that of most watchers.
    fn write_target(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"GET /v1/kv/");
        out.extend_from_slice(&self.name); // bakeoff's keys need no escaping
        let (recurse, separator) = if self.is_prefix { ("?recurse", '&') } else { ("", '?') };
        out.extend_from_slice(recurse.as_bytes());
        if self.index > 0 {
            let wait = WAIT.as_secs();
            let blocking = format!("{separator}index={}&wait={wait}s", self.index);
            out.extend_from_slice(blocking.as_bytes());
        }
    }

    /// Handles an answer. Returns false if the watcher has ended.
    fn answered(
        &mut self,
        response: &Response<'_>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<bool, ProtocolError> {
        let mut pairs: Vec<Pair<'_>> = match response.status {
            200 => serde_json::from_slice(response.body)
                .map_err(|error| format!("an answer that is no list of keys: {error}"))?,
            404 => Vec::new(),
            status => {
                let why = http_status_text(status, response.body);
                on(WatchNews::Ended { watcher: self.number, why });
                return Ok(false);
            }
        };
        let index = response.headers.get(INDEX).and_then(|index| str::from_utf8(index).ok());
        let index = index.and_then(|index| index.parse::<u64>().ok());
        let index = index.ok_or_else(|| format!("an answer without a valid {INDEX}"))?;
        pairs.sort_unstable_by_key(|pair| pair.modify_index);
        self.compare(&pairs, index, on)?;
        // An index of 0 would not block.
        let index = index.max(1);
        self.index = if index < self.index { 0 } else { index };
        Ok(true)
    }

    /// Reports how a state differs from the one before. `pairs` are in the order of their indexes.
    fn compare(
        &mut self,
        pairs: &[Pair<'_>],
        index: u64,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<(), ProtocolError> {
        self.answers += 1;
        let is_first = self.answers == 1;
        if is_first {
            on(WatchNews::Created { watcher: self.number, place: Some(index) });
        }
        for pair in pairs {
            if self.note(pair, is_first) {
                let value = pair.value.unwrap_or_default();
                self.value.clear();
                STANDARD
                    .decode_vec(value, &mut self.value)
                    .map_err(|error| format!("a value that is not base64: {error}"))?;
                let (watcher, place) = (self.number, self.place_of(pair.modify_index));
                let (key, value) = (pair.key.as_bytes(), Some(&*self.value));
                on(WatchNews::Event { watcher, place, key, value });
            }
        }
        self.report_deletes(pairs.len(), index, on);
        let is_resumed = is_first && self.after > 0;
        if is_resumed && !self.is_prefix && pairs.is_empty() {
            let (watcher, place) = (self.number, self.place_of(index));
            on(WatchNews::Event { watcher, place, key: &self.name, value: None });
        }
        Ok(())
    }

    /// Notes a key of an answer. Returns true if it was written since the last one. Before the first one, an earlier
    /// connection showed writes up to `after`. A new watcher does not want the writes before it.
    fn note(&mut self, pair: &Pair<'_>, is_first: bool) -> bool {
        let (index, answer) = (pair.modify_index, self.answers);
        if let Some(known) = self.known.get_mut(&*pair.key) {
            known.answer = answer;
            return std::mem::replace(&mut known.index, index) != index;
        }
        self.known.insert(pair.key.clone().into_owned(), KnownKey { index, answer });
        !is_first || (self.after > 0 && index > self.after)
    }

    /// Reports known keys that the last answer, of `count` keys, lacks.
    fn report_deletes(&mut self, count: usize, index: u64, on: &mut dyn FnMut(WatchNews<'_>)) {
        if self.known.len() <= count {
            return;
        }
        let (watcher, place, answer) = (self.number, self.place_of(index), self.answers);
        self.known.retain(|key, known| {
            let exists = known.answer == answer;
            if !exists {
                on(WatchNews::Event { watcher, place, key: key.as_bytes(), value: None });
            }
            exists
        });
    }

    /// Returns an index as a place; `None` if it has fallen, which is no disorder of events.
    fn place_of(&mut self, index: u64) -> Option<u64> {
        let is_fallen = index < self.place;
        self.place = self.place.max(index);
        (!is_fallen).then_some(index)
    }
}

#[cfg(test)]
mod tests;
