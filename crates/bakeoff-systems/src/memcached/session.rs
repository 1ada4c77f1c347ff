//! Maps key-value operations onto memcached's meta commands.
//!
//! Each operation is one command, except that a `compare-and-set` is two. The value's version is memcached's CAS
//! number. memcached has no command that lists keys.

use std::collections::VecDeque;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::study::Operation;
use bakeoff_engine::work::{Session, Tag};
use bakeoff_engine::works::keyed::{Answer, Compare, KvSession, Request};
use bakeoff_wire::ProtocolError;
use bakeoff_wire::memcached::{self as wire, Reply, StoreCondition};

/// One connection to a server.
#[derive(Default)]
pub(crate) struct MemcachedSession {
    session: wire::Session,
    /// Operations in flight, oldest first. Replies come in order.
    pending: VecDeque<(Tag, Operation)>,
}

impl Session for MemcachedSession {
    fn open(&mut self, _: &mut Vec<u8>) {}

    fn is_open(&self) -> bool {
        true
    }
}

impl KvSession for MemcachedSession {
    fn request(&mut self, tag: Tag, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        let &Request { operation, key, value, compare, .. } = request;
        let command = match (operation, compare) {
            (Operation::Put, _) => wire::Request::Set { key, value, when: StoreCondition::Always },
            (Operation::Delete, _) => wire::Request::Delete(key),
            (Operation::Get, _) => wire::Request::Get { key, versioned: false },
            (Operation::CompareAndSet, Compare::Read) => {
                wire::Request::Get { key, versioned: true }
            }
            (Operation::CompareAndSet, Compare::Replace(version)) => {
                let when = if version == 0 {
                    StoreCondition::Absent
                } else {
                    StoreCondition::Version(version)
                };
                wire::Request::Set { key, value, when }
            }
            (operation, _) => crate::never_planned(operation),
        };
        if self.session.request(command, out).is_err() {
            return false;
        }
        self.pending.push_back((tag, operation));
        true
    }

    fn receive(
        &mut self,
        input: &[u8],
        _: &mut Vec<u8>,
        on: &mut dyn FnMut(Tag, Answer<'_>),
    ) -> Result<(), ProtocolError> {
        let Self { session, pending } = self;
        // guide: receive
        session.receive(input, &mut |reply| {
            let Some((tag, operation)) = pending.pop_front() else { return };
            on(tag, answer(operation, reply));
        })
        // guide: end
    }
}

fn answer(operation: Operation, reply: Reply<'_>) -> Answer<'_> {
    match (operation, reply) {
        (Operation::Put | Operation::Delete | Operation::CompareAndSet, Reply::Done) => {
            Answer::Done
        }
        (Operation::Get, Reply::Value(value, _)) => Answer::Value(value),
        (Operation::CompareAndSet, Reply::Value(value, Some(version @ 1..))) => {
            Answer::Versioned(value, version)
        }
        (Operation::Get | Operation::Delete, Reply::Missing) => Answer::Missing,
        (Operation::CompareAndSet, Reply::Missing) => Answer::Missing,
        (Operation::CompareAndSet, Reply::NotStored) => Answer::Conflict,
        (_, Reply::Error(error)) => {
            Answer::Failed(ErrorKind::Status, String::from_utf8_lossy(error).into_owned())
        }
        _ => Answer::Failed(ErrorKind::Protocol, "a reply to another command".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::SYSTEM;
    use super::*;
    use crate::replay::{self, request};

    #[test]
    fn transcript_is_understood_at_every_split() {
        let (large, too_large) = ([b'x'; 20_000], vec![b'x'; 2 << 20]);
        let compare = |compare, value| Request {
            compare,
            ..request(Operation::CompareAndSet, b"bakeoff/a", value)
        };
        let requests = [
            request(Operation::Put, b"bakeoff/a", b"one"),
            request(Operation::Get, b"bakeoff/a", b""),
            request(Operation::Get, b"bakeoff/missing", b""),
            request(Operation::Put, b"bakeoff/binary", b"\r\nVA 5\r\n\x00\xff"),
            request(Operation::Get, b"bakeoff/binary", b""),
            request(Operation::Put, b"bakeoff/empty", b""),
            request(Operation::Get, b"bakeoff/empty", b""),
            request(Operation::Put, b"bakeoff/large", &large),
            request(Operation::Get, b"bakeoff/large", b""),
            request(Operation::Put, b"bakeoff/too-large", &too_large),
            request(Operation::Put, &[b'k'; 251], b"flush_all"),
            compare(Compare::Read, b""),
            compare(Compare::Replace(1), b"two"),
            compare(Compare::Replace(1), b"three"),
            compare(Compare::Replace(0), b"four"),
            request(Operation::Delete, b"bakeoff/a", b""),
            request(Operation::Delete, b"bakeoff/a", b""),
            compare(Compare::Read, b""),
            compare(Compare::Replace(5), b"five"),
            compare(Compare::Replace(0), b"six"),
            request(Operation::Get, b"bakeoff/a", b""),
        ];
        let expected = [
            "1 done",
            "2 value one",
            "3 missing",
            "4 done",
            r"5 value \r\nVA 5\r\n\x00\xff",
            "6 done",
            "7 value ",
            "8 done",
            "9 value 20000 bytes",
            "10 failed: SERVER_ERROR object too large for cache",
            "11 failed: ERROR",
            "12 value one version 1",
            "13 done",
            "14 conflict",
            "15 conflict",
            "16 done",
            "17 missing",
            "18 missing",
            "19 missing",
            "20 done",
            "21 value six",
        ];
        replay::check(SYSTEM, MemcachedSession::default, &requests, &expected);
    }
}
