//! Watches keys over one connection: all watchers share one call.

use std::time::Duration;

use bakeoff_core::watch::WatchStart;
use bakeoff_engine::watch::{WatchNews, WatchSession, WatcherRequest};
use bakeoff_engine::work::Session;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::grpc::{CallId, CallReply, Client, MethodId};
use bakeoff_wire::http2::Settings;

use super::super::{Access, ClientToken};
use super::messages::{self, WatchCreation};

/// Interval between pings of an idle connection. etcd refuses pings more often than each 5 s.
const PING_EVERY: Duration = Duration::from_secs(6);
/// Maximum size of a response. A server sends up to 1,000 revisions at once to a watcher that lags behind.
const RESPONSE_MAX: usize = 2 << 30;

/// One connection of watchers.
pub(super) struct EtcdWatchSession {
    client: Client,
    watch: MethodId,
    /// Call of all watchers, once the first was created.
    call: Option<CallId>,
    /// Watcher of each number of the call, from 1; `None` once the server has cancelled it. etcd keeps a cancelled
    /// number, so none is used twice.
    numbers: Vec<Option<u32>>,
    message: Vec<u8>,
    /// Reason why the call ended.
    ended: Option<String>,
}

impl EtcdWatchSession {
    pub(super) fn new(node: &Access) -> Self {
        let token = node.memory.get::<ClientToken>();
        let token = token.as_deref().map(messages::metadata);
        let metadata: Vec<_> = token.into_iter().collect();
        Self::with_metadata(&node.authority, node.target.tls.is_some(), &metadata)
    }

    fn with_metadata(authority: &str, is_tls: bool, metadata: &[(&str, &str)]) -> Self {
        let settings = Settings { max_streams: 1, max_body: RESPONSE_MAX, ..Settings::default() };
        // A node without a leader then ends the call, as for clients of Kubernetes.
        let metadata: Vec<_> = [("hasleader", "true")].iter().chain(metadata).copied().collect();
        let mut client = Client::with_settings(authority, is_tls, &metadata, settings);
        let watch = client.method(messages::WATCH);
        Self { client, watch, call: None, numbers: Vec::new(), message: Vec::new(), ended: None }
    }

    /// Sends the message on the watchers' call.
    fn send(&mut self, out: &mut Vec<u8>) {
        let sent = match self.call {
            Some(call) => self.client.send(call, &self.message, out),
            None => {
                let call = self.client.call_standing(self.watch, &self.message, out);
                call.map(|call| self.call = Some(call))
            }
        };
        if sent.is_err() {
            self.ended = Some("the call of the watchers has ended".to_owned());
        }
    }
}

/// Returns a watch session with the etcd node `authority`, whose calls have this metadata.
pub fn etcd_watch_session(
    authority: &str,
    is_tls: bool,
    metadata: &[(String, String)],
) -> Box<dyn WatchSession> {
    let metadata: Vec<_> =
        metadata.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    Box::new(EtcdWatchSession::with_metadata(authority, is_tls, &metadata))
}

impl Session for EtcdWatchSession {
    fn open(&mut self, out: &mut Vec<u8>) {
        self.client.open(out);
    }

    fn is_open(&self) -> bool {
        self.client.is_settled()
    }

    fn is_ending(&self) -> bool {
        self.ended.is_some() || self.client.going_away().is_some()
    }

    fn loss_reason(&self) -> Option<String> {
        self.ended.clone()
    }

    fn keep_alive_every(&self) -> Option<Duration> {
        Some(PING_EVERY)
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        self.client.ping(out);
    }
}

impl WatchSession for EtcdWatchSession {
    fn watch(&mut self, request: &WatcherRequest<'_>, out: &mut Vec<u8>) {
        let end = if request.is_prefix { messages::prefix_end(request.name) } else { Vec::new() };
        let creation = WatchCreation {
            key: request.name,
            range_end: &end,
            start_revision: match (request.after, request.from) {
                (0, WatchStart::Now) => 0,
                // If the first revisions were compacted, the server names the oldest that it has.
                (after, _) => after + 1,
            },
            previous: request.previous,
            watch_id: self.numbers.len() as u64 + 1,
        };
        self.numbers.push(Some(request.watcher));
        self.message.clear();
        messages::write_watch_of(&creation, &mut self.message);
        self.send(out);
    }

    fn ask_progress(&mut self, out: &mut Vec<u8>) {
        if self.call.is_some() {
            self.message.clear();
            messages::write_progress_request(&mut self.message);
            self.send(out);
        }
    }

    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<(), ProtocolError> {
        let Self { client, numbers, ended, .. } = self;
        let mut broken = None;
        client.receive_replies(input, out, &mut |_, reply| match reply {
            CallReply::Message(message) => {
                if let Err(error) = read(message, numbers, on) {
                    broken.get_or_insert(error);
                }
            }
            CallReply::Ended(Ok(())) => *ended = Some("the server ended the watch".to_owned()),
            CallReply::Ended(Err(status)) => *ended = Some(status.to_string()),
            CallReply::Answer(_) => {}
        })?;
        broken.map_or(Ok(()), Err)
    }
}

/// Reads a response of the watchers' call.
///
/// Responses for a cancelled number are ignored, as etcd's own client does: the server may report a compaction twice
/// ([#21174](https://github.com/etcd-io/etcd/pull/21174)), and a watcher would then be created twice.
fn read(
    message: &[u8],
    numbers: &mut [Option<u32>],
    on: &mut dyn FnMut(WatchNews<'_>),
) -> Result<(), ProtocolError> {
    let place = |id: u64| usize::try_from(id.saturating_sub(1)).unwrap_or(usize::MAX);
    // A number that was never given belongs to no watcher.
    let watcher_of = |numbers: &[Option<u32>], id: u64| {
        numbers.get(place(id)).copied().unwrap_or(Some(u32::MAX))
    };
    let state = messages::read_watch(message, |id, event| {
        let Some(watcher) = watcher_of(numbers, id) else { return };
        let (place, value) = (Some(event.revision), event.is_put.then_some(event.value));
        on(WatchNews::Event { watcher, place, key: event.key, value });
    })?;
    let watcher = match state.watch_id.map(|id| watcher_of(numbers, id)) {
        Some(None) => return Ok(()),
        Some(watcher) => watcher,
        None => None,
    };
    if let (Some(id), Some(_)) = (state.watch_id, &state.cancelled)
        && let Some(number) = numbers.get_mut(place(id))
    {
        *number = None;
    }
    let named = || watcher.ok_or_else(|| ProtocolError::new("a watch response without a watcher"));
    if state.created && state.cancelled.is_none() {
        on(WatchNews::Created { watcher: named()?, place: Some(state.revision) });
    } else if let Some(why) = state.cancelled {
        let watcher = named()?;
        on(match state.compact_revision {
            0 => WatchNews::Ended { watcher, why },
            place => WatchNews::Gone { watcher, place },
        });
    } else if state.events == 0 {
        on(WatchNews::Progress { watcher, place: state.revision });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bakeoff_wire::protobuf::{put_bytes, put_uint};

    use super::*;

    /// Returns the response that a watcher's start is compacted.
    fn compacted(id: u64, revision: u64) -> Vec<u8> {
        let mut message = Vec::new();
        [(2, id), (4, 1), (5, revision)]
            .into_iter()
            .for_each(|(field, value)| put_uint(&mut message, field, value));
        message
    }

    /// Returns a response with the event of a put.
    fn event(id: u64, revision: u64) -> Vec<u8> {
        let (mut pair, mut event, mut message) = (Vec::new(), Vec::new(), Vec::new());
        put_bytes(&mut pair, 1, b"k");
        put_uint(&mut pair, 3, revision);
        put_bytes(&mut event, 2, &pair);
        put_uint(&mut message, 2, id);
        put_bytes(&mut message, 11, &event);
        message
    }

    #[test]
    fn cancelled_number_is_silent_from_then_on() {
        let mut numbers = vec![Some(7), Some(8)];
        let mut heard = |message: &[u8]| {
            let mut news = Vec::new();
            read(message, &mut numbers, &mut |one| news.push(format!("{one:?}"))).unwrap();
            news.join("; ")
        };
        assert!(heard(&event(1, 40)).contains("watcher: 7, place: Some(40)"));
        assert_eq!(heard(&compacted(1, 50)), "Gone { watcher: 7, place: 50 }");
        assert_eq!(heard(&compacted(1, 50)), "", "a second report");
        assert_eq!(heard(&event(1, 51)), "", "a late event");
        assert!(heard(&event(2, 51)).contains("watcher: 8, "), "another watcher");
        assert!(heard(&event(3, 51)).contains("watcher: 4294967295"), "nobody's");
    }
}
