//! Watches keys over one connection: all watchers share one call.

use std::time::Duration;

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
    /// Watcher of each number of the call, from 1. etcd keeps a cancelled number, so none is used twice.
    numbers: Vec<u32>,
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
            start_revision: if request.after == 0 { 0 } else { request.after + 1 },
            previous: request.previous,
            watch_id: self.numbers.len() as u64 + 1,
        };
        self.numbers.push(request.watcher);
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
fn read(
    message: &[u8],
    numbers: &[u32],
    on: &mut dyn FnMut(WatchNews<'_>),
) -> Result<(), ProtocolError> {
    let watcher_of = |id: u64| {
        let place = usize::try_from(id.saturating_sub(1)).unwrap_or(usize::MAX);
        numbers.get(place).copied().unwrap_or(u32::MAX)
    };
    let state = messages::read_watch(message, |id, event| {
        let (watcher, place) = (watcher_of(id), Some(event.revision));
        let value = event.is_put.then_some(event.value);
        on(WatchNews::Event { watcher, place, key: event.key, value });
    })?;
    let watcher = state.watch_id.map(watcher_of);
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
