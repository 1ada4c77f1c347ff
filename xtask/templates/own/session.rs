//! Maps key-value operations onto requests of Newcomer.
//!
//! FILL IN: the requests of each operation, and those that need several.

use std::collections::VecDeque;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::study::Operation;
use bakeoff_engine::work::{Session, Tag};
use bakeoff_engine::works::keyed::{Answer, KvSession, Request};
use bakeoff_wire::ProtocolError;

use super::wire::{self, Reply};

/// One connection to a server.
#[derive(Default)]
pub(crate) struct NewcomerSession {
    session: wire::Session,
    /// Operations in flight, oldest first. Replies come in order.
    pending: VecDeque<(Tag, Operation)>,
}

impl Session for NewcomerSession {
    fn open(&mut self, _: &mut Vec<u8>) {
        // FILL IN: the first bytes of a client, if any.
    }

    fn is_open(&self) -> bool {
        true
    }
}

impl KvSession for NewcomerSession {
    fn request(&mut self, tag: Tag, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        let (word, value): (&[u8], _) = match request.operation {
            Operation::Put => (b"PUT", Some(request.value)),
            Operation::Delete => (b"DELETE", None),
            Operation::Get => (b"GET", None),
            Operation::List => (b"LIST", None),
            operation => crate::never_planned(operation),
        };
        if self.session.request(&[word, request.key], value, out).is_err() {
            return false;
        }
        self.pending.push_back((tag, request.operation));
        true
    }

    fn receive(
        &mut self,
        input: &[u8],
        _: &mut Vec<u8>,
        on: &mut dyn FnMut(Tag, Answer<'_>),
    ) -> Result<(), ProtocolError> {
        let Self { session, pending } = self;
        session.receive(input, &mut |reply| {
            let Some((tag, operation)) = pending.pop_front() else { return };
            match (operation, reply) {
                (Operation::Put | Operation::Delete, Reply::Done) => on(tag, Answer::Done),
                (Operation::Get, Reply::Value(value)) => on(tag, Answer::Value(value)),
                (Operation::Get, Reply::Missing) => on(tag, Answer::Missing),
                (Operation::List, Reply::Names(names)) => {
                    let mut names = names.split(|&byte| byte == b' ').filter(|one| !one.is_empty());
                    on(tag, Answer::Names(&mut names));
                }
                (_, Reply::Error(error)) => {
                    let what = String::from_utf8_lossy(error).into_owned();
                    on(tag, Answer::Failed(ErrorKind::Status, what));
                }
                _ => {
                    let what = "an answer of an unexpected kind".to_owned();
                    on(tag, Answer::Failed(ErrorKind::Protocol, what));
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{self, request};

    /// FILL IN: every request of a session, with errors, binary values and 20,000 bytes; then the answers. Record
    /// `transcript.bin` with `BAKEOFF_RECORD=1 cargo test -p bakeoff-systems newcomer::`.
    #[test]
    #[ignore = "there is no transcript yet"]
    fn transcript_is_understood_at_every_split() {
        let requests = [
            request(Operation::Put, b"bakeoff/a", b"one"),
            request(Operation::Get, b"bakeoff/a", b""),
        ];
        let expected = ["1 done", "2 value one"];
        replay::check(super::super::SYSTEM, NewcomerSession::default, &requests, &expected);
    }
}
