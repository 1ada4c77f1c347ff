//! Follows the lock of a connection's client, by the recipe of ZooKeeper's documentation.
//!
//! Each client creates a numbered node that ends with its session. The client with the lowest number holds the lock.
//! Any other watches the node just before its own, so a release wakes one client.
//!
//! Servers refuse the writes of a session that has ended, so each write of the holder depends on the lock.
//!
//! Not here: the session (`session`), holders of a lock (`bakeoff_engine::works::keyed`).

use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_engine::work::Tag;
use bakeoff_engine::works::keyed::Answer;
use bakeoff_wire::zookeeper::{CreateMode, ErrorCode, Reply, Request};

use crate::coordination::{LOCKS, lock_name};

/// Lock of a connection's client.
#[derive(Default)]
pub(super) struct ClientLock {
    /// Node whose children are the clients of the lock.
    parent: String,
    /// Client's own node, once created.
    own: String,
    /// Node that it waits for.
    before: String,
    next: LockRequest,
    /// Operation that waits for an event.
    waits: Option<Tag>,
    /// Sending of the last request for the lock.
    sent: Option<Instant>,
}

/// Request of a lock.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum LockRequest {
    /// Create the client's node.
    #[default]
    Create,
    /// List the clients' nodes.
    List,
    /// Watch the node before the own one.
    Watch,
    /// Delete the client's node.
    Release,
}

/// Returns the node of all locks.
pub(super) fn all() -> String {
    format!("/{KEY_PREFIX}{LOCKS}")
}

/// Returns the node whose children are the clients of a lock.
pub(super) fn parent(number: u64) -> String {
    format!("/{}", lock_name(number))
}

impl ClientLock {
    /// Returns the next request to acquire the lock of a key.
    pub(super) fn acquires(&mut self, number: u64) -> LockRequest {
        if self.next == LockRequest::Create {
            self.parent = parent(number);
        }
        self.sent = Some(clock::now());
        self.next
    }

    /// Returns the request on the wire. `path` is a buffer.
    pub(super) fn request<'a>(&'a self, request: LockRequest, path: &'a mut String) -> Request<'a> {
        match request {
            LockRequest::Create => {
                path.clone_from(&self.parent);
                path.push_str("/n-");
                Request::Create { path, data: b"", mode: CreateMode::EphemeralSequential }
            }
            LockRequest::List => Request::GetChildren { path: &self.parent },
            LockRequest::Watch => Request::Exists { path: &self.before, watch: true },
            LockRequest::Release => Request::Delete { path: &self.own, version: None },
        }
    }

    /// Handles a reply. Returns the answer to the operation; `None` if it waits for an event.
    pub(super) fn answered(
        &mut self,
        tag: Tag,
        request: LockRequest,
        result: Result<Reply<'_>, ErrorCode>,
        timeout: Duration,
    ) -> Option<Answer<'static>> {
        Some(match (request, result) {
            (LockRequest::Create, Ok(Reply::Created(path))) => {
                path.clone_into(&mut self.own);
                self.next = LockRequest::List;
                Answer::Again
            }
            (LockRequest::List, Ok(Reply::Children(names))) => self.place(names, timeout),
            (LockRequest::Watch, Ok(_)) => {
                self.waits = Some(tag);
                return None;
            }
            (LockRequest::Watch, Err(ErrorCode::NO_NODE)) => {
                self.next = LockRequest::List;
                Answer::Again
            }
            (LockRequest::Release, Ok(_)) => {
                self.next = LockRequest::Create;
                Answer::Done
            }
            (LockRequest::Release, Err(ErrorCode::NO_NODE)) => {
                self.next = LockRequest::Create;
                Answer::NotHeld { at_grant: false }
            }
            (LockRequest::Create, Err(ErrorCode::SESSION_EXPIRED)) => {
                Answer::Unprocessed(ErrorCode::SESSION_EXPIRED.to_string())
            }
            (_, Err(code)) => Answer::Failed(ErrorKind::Status, code.to_string()),
            (_, Ok(_)) => {
                Answer::Failed(ErrorKind::Protocol, "unexpected answer to a `lock`".to_owned())
            }
        })
    }

    /// Finds the client's place among all clients of the lock.
    fn place<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
        timeout: Duration,
    ) -> Answer<'static> {
        let own = number(&self.own);
        let (mut is_there, mut before) = (false, None::<(u64, &str)>);
        for name in names {
            let other = number(name);
            is_there |= other == own;
            if other < own && before.is_none_or(|(known, _)| known < other) {
                before = Some((other, name));
            }
        }
        match before {
            _ if !is_there => {
                self.next = LockRequest::Create;
                let what = "the client's node in the lock is gone".to_owned();
                Answer::Failed(ErrorKind::WrongValue, what)
            }
            Some((_, name)) => {
                self.before = format!("{}/{name}", self.parent);
                self.next = LockRequest::Watch;
                Answer::Again
            }
            // Tokens begin at 1; 0 stands for none.
            None => {
                let until = self.sent.unwrap_or_else(clock::now) + timeout;
                Answer::Held { token: own + 1, until }
            }
        }
    }

    /// Handles the event of a node. Returns the operation that goes on.
    pub(super) fn changed(&mut self, path: &str) -> Option<Tag> {
        let tag = self.waits.take_if(|_| path == self.before);
        if tag.is_some() {
            self.next = LockRequest::List;
        }
        tag
    }
}

/// Returns the number that the server appended to a node's name: ten digits.
fn number(name: &str) -> u64 {
    name.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    /// Returns a lock whose client created this node.
    fn created(path: &str) -> ClientLock {
        let mut lock = ClientLock::default();
        assert_eq!(lock.acquires(4), LockRequest::Create);
        let reply = Ok(Reply::Created(path));
        let answer = lock.answered(0, LockRequest::Create, reply, TIMEOUT);
        assert!(matches!(answer, Some(Answer::Again)));
        assert_eq!(lock.acquires(4), LockRequest::List);
        lock
    }

    #[test]
    fn lowest_number_holds_the_lock() {
        let mut lock = created("/bakeoff/locks/4/n-0000000011");
        let held = lock.place(["n-0000000012", "n-0000000011"].into_iter(), TIMEOUT);
        assert!(matches!(held, Answer::Held { token: 12, .. }), "0 stands for no token");
    }

    #[test]
    fn other_client_waits_for_the_node_before_its_own() {
        let mut lock = created("/bakeoff/locks/4/n-0000000011");
        let names = ["n-0000000007", "n-0000000012", "n-0000000011", "n-0000000009"];
        assert!(matches!(lock.place(names.into_iter(), TIMEOUT), Answer::Again));
        assert_eq!(lock.acquires(4), LockRequest::Watch);
        let before = "/bakeoff/locks/4/n-0000000009";
        let mut buffer = String::new();
        let asked = lock.request(LockRequest::Watch, &mut buffer);
        assert_eq!(asked, Request::Exists { path: before, watch: true });
        let stat = Ok(Reply::Synced);
        assert!(lock.answered(3, LockRequest::Watch, stat, TIMEOUT).is_none(), "it waits");
        assert_eq!(lock.changed("/bakeoff/locks/4/n-0000000007"), None);
        assert_eq!(lock.changed(before), Some(3));
        assert_eq!(lock.acquires(4), LockRequest::List, "it looks again");
        assert_eq!(lock.changed(before), None, "an event wakes it once");
    }

    #[test]
    fn lock_without_the_clients_node_is_a_wrong_answer() {
        let mut lock = created("/bakeoff/locks/4/n-0000000011");
        let gone = lock.place(["n-0000000012"].into_iter(), TIMEOUT);
        assert!(matches!(gone, Answer::Failed(ErrorKind::WrongValue, _)));
    }
}
