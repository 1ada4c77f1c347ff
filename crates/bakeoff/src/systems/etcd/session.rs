//! Key-value operations as calls of etcd's v3 API.

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::study::{Operation, ReadConsistency};
use bakeoff_engine::work::{Session, Tag};
use bakeoff_engine::works::keyed::{Answer, KvSession, Request};
use bakeoff_wire::ProtocolError;
use bakeoff_wire::grpc::{CallId, Client, MethodId, Status};
use bakeoff_wire::http2::Settings;

use super::super::{Access, ClientToken};
use super::messages;

/// One connection to an etcd node; calls are streams of it.
pub(crate) struct EtcdSession {
    client: Client,
    put: MethodId,
    range: MethodId,
    delete_range: MethodId,
    /// Calls under way: at most as many as the load's `in_flight`.
    calls: Vec<(CallId, Tag, Operation)>,
    message: Vec<u8>,
}

impl EtcdSession {
    /// A session with at most `in_flight` calls under way: memory is set aside for each.
    pub(super) fn new(node: &Access, in_flight: u32) -> Self {
        let settings = Settings { max_streams: in_flight, ..Settings::default() };
        let tls = node.target.tls.is_some();
        let token = node.memory.get::<ClientToken>();
        let metadata = token.as_deref().map(messages::metadata);
        let mut client = Client::with_settings(&node.authority, tls, metadata.as_slice(), settings);
        Self {
            put: client.method(messages::PUT),
            range: client.method(messages::RANGE),
            delete_range: client.method(messages::DELETE_RANGE),
            client,
            calls: Vec::new(),
            message: Vec::new(),
        }
    }
}

impl Session for EtcdSession {
    fn open(&mut self, out: &mut Vec<u8>) {
        self.client.open(out);
    }

    fn is_open(&self) -> bool {
        true
    }

    fn is_ending(&self) -> bool {
        self.client.going_away().is_some()
    }

    fn abandon(&mut self, tag: Tag, out: &mut Vec<u8>) -> bool {
        if let Some(place) = self.calls.iter().position(|&(_, of, _)| of == tag) {
            let (call, _, _) = self.calls.swap_remove(place);
            self.client.cancel(call, out);
        }
        true
    }
}

impl KvSession for EtcdSession {
    fn request(&mut self, tag: Tag, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        let serializable = request.reads == ReadConsistency::Stale;
        self.message.clear();
        let method = match request.operation {
            Operation::Put => {
                messages::write_put(request.key, request.value, &mut self.message);
                self.put
            }
            Operation::Get => {
                messages::write_get(request.key, serializable, &mut self.message);
                self.range
            }
            Operation::List => {
                messages::write_list(request.key, serializable, &mut self.message);
                self.range
            }
            Operation::Delete => {
                messages::write_delete(request.key, &mut self.message);
                self.delete_range
            }
            operation => crate::systems::never_planned(operation),
        };
        match self.client.call(method, &self.message, out) {
            Ok(call) => {
                self.calls.push((call, tag, request.operation));
                true
            }
            Err(_busy) => false,
        }
    }

    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut impl FnMut(Tag, Answer<'_>),
    ) -> Result<(), ProtocolError> {
        let calls = &mut self.calls;
        self.client.receive(input, out, &mut |call, answer| {
            if let Some(place) = calls.iter().position(|&(of, _, _)| of == call) {
                let (_, tag, operation) = calls.swap_remove(place);
                deliver(tag, operation, answer, on);
            }
        })
    }
}

fn deliver(
    tag: Tag,
    operation: Operation,
    answer: Result<&[u8], Status<'_>>,
    on: &mut impl FnMut(Tag, Answer<'_>),
) {
    let message = match answer {
        Ok(message) => message,
        Err(status) => return on(tag, Answer::Failed(ErrorKind::Status, status.to_string())),
    };
    let broken = |error: ProtocolError| Answer::Failed(ErrorKind::Protocol, error.to_string());
    match operation {
        Operation::Put => on(tag, Answer::Done),
        Operation::Delete => match messages::read_deleted(message) {
            Ok(0) => on(tag, Answer::Missing),
            Ok(_) => on(tag, Answer::Done),
            Err(error) => on(tag, broken(error)),
        },
        Operation::Get => {
            let mut found = None;
            match messages::read_range(message, |_, value| found = Some(value)) {
                Ok(()) => on(tag, found.map_or(Answer::Missing, Answer::Value)),
                Err(error) => on(tag, broken(error)),
            }
        }
        Operation::List => {
            let mut names = Vec::new();
            match messages::read_range(message, |key, _| names.push(key)) {
                Ok(()) => on(tag, Answer::Names(&mut names.into_iter())),
                Err(error) => on(tag, broken(error)),
            }
        }
        operation => crate::systems::never_planned(operation),
    }
}
