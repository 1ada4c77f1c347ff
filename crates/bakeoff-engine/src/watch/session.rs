//! The interface of a system's watch session.

use bakeoff_core::watch::WatchStart;
use bakeoff_wire::ProtocolError;

use crate::work::Session;

/// Describes a watcher to create.
#[derive(Debug, Clone, Copy)]
pub struct WatcherRequest<'a> {
    /// Number of the watcher, which its news name.
    pub watcher: u32,
    /// Name of the key, or the prefix of all keys.
    pub name: &'a [u8],
    /// True if `name` is a prefix.
    pub is_prefix: bool,
    /// Place in the system's order after which events are wanted; 0 if none is known, so that `from` counts.
    pub after: u64,
    /// First events of a watcher that knows no place.
    pub from: WatchStart,
    /// True if events must hold the value before the write.
    pub previous: bool,
}

/// Holds what a server reported to a watcher.
#[derive(Debug)]
pub enum WatchNews<'a> {
    /// The watcher exists. All later writes are observed.
    Created {
        /// Number of the watcher.
        watcher: u32,
        /// Place in the system's order after which it observes; `None` if the system does not name it.
        place: Option<u64>,
    },
    /// A key changed.
    Event {
        /// Number of the watcher.
        watcher: u32,
        /// Place in the system's order; `None` if the system does not name it.
        place: Option<u64>,
        /// Name of the key.
        key: &'a [u8],
        /// New value; `None` if the key was deleted.
        value: Option<&'a [u8]>,
    },
    /// No event up to this place follows.
    Progress {
        /// Number of the watcher; `None` for all of the connection.
        watcher: Option<u32>,
        /// Place in the system's order.
        place: u64,
    },
    /// The system no longer has events before this place, from which the watcher must be created again.
    Gone {
        /// Number of the watcher.
        watcher: u32,
        /// First place that the system still has.
        place: u64,
    },
    /// The watcher ended. It must be created again, on a connection to another node.
    Ended {
        /// Number of the watcher.
        watcher: u32,
        /// Reason in words.
        why: String,
    },
    /// The session sent a request of its own to learn of a change.
    Asked,
}

/// Speaks a system's watches over one connection.
pub trait WatchSession: Session + Send {
    /// Appends the request that creates a watcher.
    fn watch(&mut self, request: &WatcherRequest<'_>, out: &mut Vec<u8>);

    /// Appends a request for a report of progress. Does nothing if the protocol has none.
    fn ask_progress(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Consumes bytes from the connection and passes the news that they complete to `on`.
    ///
    /// # Errors
    /// If the server violates the protocol.
    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<(), ProtocolError>;
}
