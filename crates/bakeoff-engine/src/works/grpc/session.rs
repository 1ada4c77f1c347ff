//! Holds one connection of a load of calls, and the operation of each call.
//!
//! Not here: the wire format (`bakeoff_wire::grpc`), the calls themselves (`call_work`).

use bakeoff_wire::Busy;
use bakeoff_wire::grpc::{CallId, Client, MethodId};
use bakeoff_wire::http2::Settings;

use super::{Call, CallForm, CallTargets};
use crate::work::{Session, Tag};

/// Maximum bytes of a message, as large as a gRPC message can reasonably be.
const MESSAGE_MAX: usize = 1 << 30;

/// Holds a client's connection to a server.
pub(crate) struct CallSession {
    pub(super) client: Client,
    /// Number of the client.
    pub(super) number: u32,
    methods: Vec<MethodId>,
    pub(super) flights: Flights,
    pub(super) standing: StandingCalls,
}

/// Holds the standing calls of a connection. Each operation in flight keeps its own.
#[derive(Default)]
pub(super) struct StandingCalls(Vec<StandingCall>);

struct StandingCall {
    tag: Tag,
    method: usize,
    call: CallId,
}

impl StandingCalls {
    /// Returns true if a slot keeps this call.
    pub(super) fn has(&self, call: CallId) -> bool {
        self.0.iter().any(|one| one.call == call)
    }

    /// Returns true if the slot keeps a call, so that a request needs no new one.
    pub(super) fn is_kept_by(&self, tag: Tag) -> bool {
        self.0.iter().any(|one| one.tag == tag)
    }

    fn kept_call(&self, tag: Tag, method: usize) -> Option<CallId> {
        let kept = self.0.iter().find(|one| one.tag == tag && one.method == method)?;
        Some(kept.call)
    }

    /// Forgets a call that has ended.
    pub(super) fn forget(&mut self, call: CallId) {
        self.0.retain(|one| one.call != call);
    }
}

/// Maps calls in flight to operations, by [`CallId::slot`].
pub(super) struct Flights(Vec<Option<(CallId, Tag)>>);

impl Flights {
    /// Returns the operation of a call in flight.
    pub(super) fn tag(&self, call: CallId) -> Option<Tag> {
        let (of, tag) = (*self.0.get(call.slot(self.0.len()))?)?;
        (of == call).then_some(tag)
    }

    /// Removes a call that has ended.
    pub(super) fn remove(&mut self, call: CallId) {
        let slots = self.0.len();
        if let Some(flight) = self.0.get_mut(call.slot(slots)) {
            *flight = None;
        }
    }

    fn add(&mut self, call: CallId, tag: Tag) {
        let slots = self.0.len();
        if let Some(flight) = self.0.get_mut(call.slot(slots)) {
            *flight = Some((call, tag));
        }
    }

    /// Removes and returns the call of an operation.
    fn take(&mut self, tag: Tag) -> Option<CallId> {
        let flight = self.0.iter_mut().find(|flight| flight.is_some_and(|(_, of)| of == tag))?;
        flight.take().map(|(call, _)| call)
    }
}

impl CallSession {
    /// Creates the session of client `number` with server `node`, for up to `in_flight` calls of these methods.
    pub(super) fn new(
        targets: &CallTargets,
        methods: &[&str],
        (number, node, in_flight): (u32, usize, u32),
    ) -> Self {
        let settings = Settings {
            max_streams: in_flight,
            max_body: MESSAGE_MAX,
            kept_body: MESSAGE_MAX,
            ..Settings::default()
        };
        let metadata: Vec<_> =
            targets.metadata.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let is_tls = targets.peers[node].tls.is_some();
        let mut client =
            Client::with_settings(&targets.authorities[node], is_tls, &metadata, settings);
        let methods = methods.iter().map(|path| client.method(path)).collect();
        let flights = Flights(vec![None; client.slots()]);
        let standing = StandingCalls::default();
        Self { client, number, methods, flights, standing }
    }

    /// Sends a call for an operation.
    pub(super) fn send(
        &mut self,
        tag: Tag,
        call: Call,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Busy> {
        let method = self.methods[call.method];
        let sent = match call.form {
            CallForm::Unary => self.client.call(method, message, out),
            CallForm::ServerStream => self.client.call_streaming(method, message, out),
            CallForm::Standing => self.send_standing(tag, call.method, message, out),
        };
        self.flights.add(sent?, tag);
        Ok(())
    }

    /// Sends a request on the slot's stream. Opens one if there is none, or if the server has ended it.
    fn send_standing(
        &mut self,
        tag: Tag,
        method: usize,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<CallId, Busy> {
        if let Some(call) = self.standing.kept_call(tag, method) {
            if self.client.send(call, message, out).is_ok() {
                return Ok(call);
            }
            self.standing.forget(call);
        }
        let call = self.client.call_standing(self.methods[method], message, out)?;
        self.standing.0.push(StandingCall { tag, method, call });
        Ok(call)
    }
}

impl Session for CallSession {
    fn open(&mut self, out: &mut Vec<u8>) {
        self.client.open(out);
    }

    /// Waits for the server's limit on concurrent calls before the first call.
    fn is_open(&self) -> bool {
        self.client.is_settled()
    }

    fn is_ending(&self) -> bool {
        self.client.going_away().is_some()
    }

    fn abandon(&mut self, tag: Tag, out: &mut Vec<u8>) -> bool {
        if let Some(call) = self.flights.take(tag) {
            self.standing.forget(call);
            self.client.cancel(call, out);
        }
        true
    }
}
