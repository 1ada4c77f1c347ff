//! Key-value operations as requests of Newcomer.
//!
//! FILL IN: which request is which operation, and what is only an operation together.

use std::collections::VecDeque;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::study::Operation;
use bakeoff_engine::work::{Session, Tag};
use bakeoff_engine::works::keyed::{Answer, KvSession, Request};
use bakeoff_wire::ProtocolError;

use super::wire::{self, Reply};

/// One connection.
#[derive(Default)]
pub(crate) struct NewcomerSession {
    session: wire::Session,
    /// Operations under way, oldest first: replies come in order.
    pending: VecDeque<(Tag, Operation)>,
}

impl Session for NewcomerSession {
    fn open(&mut self, _: &mut Vec<u8>) {
        // FILL IN: what a client says first, if anything.
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
                    let what = "an answer of another kind than was asked for".to_owned();
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

    /// FILL IN: everything that a session asks, with errors, binary and 20,000 bytes; then the answers. Take
    /// `transcript.bin` by `BAKEOFF_RECORD=1 cargo test -p bakeoff-systems newcomer::`.
    #[test]
    #[ignore = "there is no transcript yet"]
    fn transcript_is_understood_however_it_is_cut() {
        let requests = [
            request(Operation::Put, b"bakeoff/a", b"one"),
            request(Operation::Get, b"bakeoff/a", b""),
        ];
        let expected = ["1 done", "2 value one"];
        replay::check(super::super::SYSTEM, NewcomerSession::default, &requests, &expected);
    }
}
