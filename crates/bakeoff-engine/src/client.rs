//! Holds one client of a load: its connection and its operations in flight.
//!
//! Not here: the loop that drives it (`worker`).

use std::time::{Duration, Instant};

use bakeoff_core::measurement::ErrorKind;
use smallvec::SmallVec;

use super::transport::Link;
use super::work::{Pendings, Session as _, Tag, Work};

/// Initial reconnect backoff. It doubles after each failure, up to [`BACKOFF_MAX`].
pub(super) const BACKOFF_MIN: Duration = Duration::from_millis(10);
/// Longest reconnect backoff.
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Failures without any success that make a client unserved. One or two may be chance.
const UNSERVED_FROM: u64 = 3;
/// Share of the window that an operation must have waited for a single failure to be enough.
const UNSERVED_WAIT: f64 = 0.5;

/// Holds one operation of a client.
pub(super) enum Slot {
    Free {
        since: Instant,
    },
    Elsewhere,
    /// The operation waits for its connection.
    Waiting(QueuedOperation),
    Busy(Flight),
}

/// Describes an operation that is sent as soon as the client's connection accepts it.
#[derive(Clone, Copy)]
pub(super) struct QueuedOperation {
    pub(super) due: Instant,
    /// Time when its connection was started, or when it was first sent.
    pub(super) sent: Instant,
    /// Operation number, if already drawn: it was sent before, or its number picked this connection.
    pub(super) again: Option<u64>,
    /// Number of times it was sent.
    pub(super) tries: u8,
    /// Part of the time from due to sent that the generator caused.
    pub(super) lag: Duration,
}

/// Describes an operation in flight.
#[derive(Clone, Copy)]
pub(super) struct Flight {
    /// Index of its operation in the outline of the work.
    pub(super) operation: usize,
    /// Number of times it was sent.
    pub(super) tries: u8,
    /// Number within the load.
    pub(super) ticket: u64,
    pub(super) due: Instant,
    /// Time when it was first sent.
    pub(super) sent: Instant,
    /// Part of the time from due to sent that the generator caused.
    pub(super) lag: Duration,
}

/// Holds one client. Most clients have one operation at a time, which is stored inline: memory behind a pointer costs
/// another fetch per operation.
pub(super) struct Client<W: Work> {
    pub(super) number: u32,
    pub(super) node: usize,
    /// Index of the worker's lane that it sends for in an open load.
    pub(super) lane: usize,
    pub(super) connection: Connection<W::Session>,
    pub(super) slots: SmallVec<[Slot; 1]>,
    /// The work's state of each busy slot.
    pub(super) pendings: SmallVec<[Option<W::State>; 1]>,
    /// True if the client is queued until something is due.
    pub(super) idle: bool,
    /// Time when the connection was lost; `None` once there is a new one.
    pub(super) lost_at: Option<Instant>,
    /// Time when its first connection was established.
    pub(super) connected_at: Option<Instant>,
    pub(super) backoff: Duration,
    /// Refusals by the server since the client was last served.
    pub(super) turned_away: u32,
    /// True if the last connection attempt was refused, not merely unanswered.
    pub(super) refused: bool,
    pub(super) last_sent: Instant,
    /// True if its connection has answered an operation.
    pub(super) has_answered: bool,
    /// Time when bytes last arrived on its connection.
    pub(super) received_at: Instant,
    pub(super) seen: ClientOutcomes,
    /// Bytes received on its connection since the last complete answer.
    pub(super) held: usize,
}

/// Holds the outcomes of a client's operations since measuring began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClientOutcomes {
    pub(super) success_in_window: bool,
    /// True if an operation succeeded within the window or after it.
    pub(super) success: bool,
    failures: u64,
    /// Longest time that a failed operation had waited.
    failed_after: Duration,
}

impl ClientOutcomes {
    pub(super) fn count_failure(&mut self, waited: Duration) {
        self.failures += 1;
        self.failed_after = self.failed_after.max(waited);
    }

    /// Adds the outcomes of another connection of the client.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            success_in_window: self.success_in_window || other.success_in_window,
            success: self.success || other.success,
            failures: self.failures + other.failures,
            failed_after: self.failed_after.max(other.failed_after),
        }
    }

    pub(super) fn had_work(&self) -> bool {
        self.success || self.failures > 0
    }

    /// Returns true if the client had only failures, too many or too slow to be chance in a window of this length.
    pub(super) fn is_unserved(&self, window: Duration) -> bool {
        let long = self.failed_after.as_secs_f64() >= UNSERVED_WAIT * window.as_secs_f64();
        !self.success && (self.failures >= UNSERVED_FROM || (self.failures > 0 && long))
    }
}

pub(super) enum Connection<S: ?Sized> {
    /// Closed on purpose: each operation opens its own.
    Resting,
    Down {
        retry_at: Instant,
    },
    Connecting {
        link: Link,
        session: Box<S>,
        deadline: Instant,
    },
    Greeting {
        link: Link,
        session: Box<S>,
        deadline: Instant,
    },
    Up {
        link: Link,
        session: Box<S>,
    },
}

impl<P> Pendings<P> for SmallVec<[Option<P>; 1]> {
    fn take(&mut self, tag: Tag) -> Option<P> {
        self.get_mut(tag as usize)?.take()
    }

    fn put_back(&mut self, tag: Tag, pending: P) {
        if let Some(place) = self.get_mut(tag as usize) {
            *place = Some(pending);
        }
    }
}

impl<W: Work> Client<W> {
    /// Creates a client that connects at once.
    pub(super) fn new(number: u32, node: usize, lane: usize, in_flight: u32, now: Instant) -> Self {
        Self {
            number,
            node,
            lane,
            connection: Connection::Down { retry_at: now },
            slots: (0..in_flight).map(|_| Slot::Free { since: now }).collect(),
            pendings: (0..in_flight).map(|_| None).collect(),
            idle: false,
            lost_at: None,
            connected_at: None,
            backoff: BACKOFF_MIN,
            turned_away: 0,
            refused: false,
            last_sent: now,
            has_answered: false,
            received_at: now,
            seen: ClientOutcomes::default(),
            held: 0,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.connection, Connection::Up { .. })
    }

    /// Returns true if operations can be sent now, or once their own connection is open.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.connection, Connection::Up { .. } | Connection::Resting)
    }

    /// Returns the error kind of an operation that waited for its connection.
    pub(super) fn unconnected(&self) -> ErrorKind {
        if self.refused { ErrorKind::Refused } else { ErrorKind::Timeout }
    }

    /// Records that bytes arrived. Returns the time since the previous bytes if nothing was sent in between.
    #[inline]
    pub(super) fn note_received(&mut self, now: Instant) -> Option<Duration> {
        let before = std::mem::replace(&mut self.received_at, now);
        (before > self.last_sent).then(|| now.saturating_duration_since(before))
    }

    /// Returns true if no operation is in flight on its connection.
    pub(super) fn is_idle(&self) -> bool {
        !self.slots.iter().any(|slot| matches!(slot, Slot::Busy(_)))
    }

    /// Returns true if no operation is in flight or waits for a connection.
    pub(super) fn is_quiet(&self) -> bool {
        self.slots.iter().all(|slot| matches!(slot, Slot::Free { .. } | Slot::Elsewhere))
    }

    /// Returns the link and its session once the peer has accepted.
    pub(super) fn link(&mut self) -> Option<(&mut Link, &mut W::Session)> {
        match &mut self.connection {
            Connection::Greeting { link, session, .. } | Connection::Up { link, session } => {
                Some((link, session))
            }
            Connection::Connecting { .. } | Connection::Down { .. } | Connection::Resting => None,
        }
    }

    /// Ends its connection with the protocol's goodbye. Returns the number of bytes sent.
    pub(super) fn close(&mut self, next: Connection<W::Session>) -> u64 {
        let Connection::Up { mut link, mut session } =
            std::mem::replace(&mut self.connection, next)
        else {
            return 0;
        };
        session.close(&mut link.out);
        link.flush().ok(); // the peer may be gone already
        link.handed_on
    }

    /// Starts the protocol's handshake after the peer has accepted.
    pub(super) fn begin_handshake(&mut self) {
        let retry_at = self.last_sent;
        let down = Connection::Down { retry_at };
        if let Connection::Connecting { mut link, mut session, deadline } =
            std::mem::replace(&mut self.connection, down)
        {
            session.open(&mut link.out);
            self.connection = Connection::Greeting { link, session, deadline };
        }
    }
}
