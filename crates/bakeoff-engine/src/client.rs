//! A client of a load: one connection at a time, and the operations that it has under way.
//!
//! Not here: what happens to it (`worker`).

use std::time::{Duration, Instant};

use bakeoff_core::measurement::ErrorKind;
use smallvec::SmallVec;

use super::transport::Link;
use super::work::{Pendings, Session as _, Tag, Work};

/// How long a client waits before it tries to connect again, at first.
pub(super) const BACKOFF_MIN: Duration = Duration::from_millis(10);
/// How long it waits at most: each failure doubles the wait.
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Failures without a success in the window that make a client unserved: one or two may be chance.
const UNSERVED_FROM: u64 = 3;
/// One failure is enough if the operation waited for this share of the window.
const UNSERVED_WAIT: f64 = 0.5;

/// One place for an operation under way.
pub(super) enum Slot {
    Free {
        since: Instant,
    },
    /// Another connection of the client has its turn.
    Elsewhere,
    /// An operation waits for its connection.
    Waiting(Waiting),
    Busy(Flight),
}

/// An operation that goes out as soon as the client's connection takes it.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    pub(super) due: Instant,
    /// When its connection was begun, or when it was first sent.
    pub(super) sent: Instant,
    /// Its number, if it has one: it was sent before, or its number led it here.
    pub(super) again: Option<u64>,
    /// How often it was sent.
    pub(super) tries: u8,
}

/// An operation under way.
#[derive(Clone, Copy)]
pub(super) struct Flight {
    /// Index of its operation in the outline of the work.
    pub(super) operation: usize,
    /// How often it was sent.
    pub(super) tries: u8,
    /// Its number among those of the load.
    pub(super) ticket: u64,
    pub(super) due: Instant,
    /// When it was first sent.
    pub(super) sent: Instant,
}

/// One client: its connection, and what it has under way. Most have one operation at a time, which lies with them:
/// each piece of memory elsewhere is one more to fetch for each operation.
pub(super) struct Client<W: Work> {
    pub(super) number: u32,
    pub(super) node: usize,
    /// Which of its worker's lanes it sends for in an open load.
    pub(super) lane: usize,
    pub(super) connection: Connection<W::Session>,
    pub(super) slots: SmallVec<[Slot; 1]>,
    /// The work's state of each busy slot.
    pub(super) pendings: SmallVec<[Option<W::Pending>; 1]>,
    /// Whether it stands in the queue of clients that wait for something to become due.
    pub(super) idle: bool,
    /// When the connection was lost, until there is a new one.
    pub(super) lost_at: Option<Instant>,
    pub(super) backoff: Duration,
    /// How often the server has turned it away since it was last served.
    pub(super) turned_away: u32,
    /// Whether its last attempt to connect was turned down, and not just unanswered.
    pub(super) refused: bool,
    pub(super) last_sent: Instant,
    /// Whether an operation was answered on its connection.
    pub(super) has_answered: bool,
    /// When bytes last came on its connection.
    pub(super) heard_at: Instant,
    /// Outcomes of its operations since measuring began.
    pub(super) seen: Seen,
    /// Bytes received on its connection since an answer was complete.
    pub(super) held: usize,
}

/// Outcomes of a client's operations since measuring began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    /// True if one succeeded within the window.
    pub(super) success_in_window: bool,
    /// True if one succeeded within the window or after it.
    pub(super) success: bool,
    /// Operations that failed.
    failures: u64,
    /// The longest that a failed operation had waited.
    failed_after: Duration,
}

impl Seen {
    /// Counts an operation that failed after it had waited this long.
    pub(super) fn count_failure(&mut self, waited: Duration) {
        self.failures += 1;
        self.failed_after = self.failed_after.max(waited);
    }

    /// Adds the outcomes on another connection of the client.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            success_in_window: self.success_in_window || other.success_in_window,
            success: self.success || other.success,
            failures: self.failures + other.failures,
            failed_after: self.failed_after.max(other.failed_after),
        }
    }

    /// Returns true if the client had an operation.
    pub(super) fn had_work(&self) -> bool {
        self.success || self.failures > 0
    }

    /// Returns true if the client had only failures in a window of this length, and too many or too long ones to be
    /// chance.
    pub(super) fn is_unserved(&self, window: Duration) -> bool {
        let long = self.failed_after.as_secs_f64() >= UNSERVED_WAIT * window.as_secs_f64();
        !self.success && (self.failures >= UNSERVED_FROM || (self.failures > 0 && long))
    }
}

/// How far a client's connection has come.
pub(super) enum Connection<S: ?Sized> {
    /// There is none on purpose: each operation has one of its own.
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
    /// A client that is to connect at once.
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
            backoff: BACKOFF_MIN,
            turned_away: 0,
            refused: false,
            last_sent: now,
            has_answered: false,
            heard_at: now,
            seen: Seen::default(),
            held: 0,
        }
    }

    /// Returns whether operations can be sent.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.connection, Connection::Up { .. })
    }

    /// Returns whether operations can be sent, or could as soon as a connection is begun.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.connection, Connection::Up { .. } | Connection::Resting)
    }

    /// Returns the kind of failure of an operation that waited for its connection.
    pub(super) fn unconnected(&self) -> ErrorKind {
        if self.refused { ErrorKind::Refused } else { ErrorKind::Timeout }
    }

    /// Notes that bytes came on its connection. Returns the pause since the bytes before them, if nothing was sent
    /// between.
    #[inline]
    pub(super) fn hear(&mut self, now: Instant) -> Option<Duration> {
        let before = std::mem::replace(&mut self.heard_at, now);
        (before > self.last_sent).then(|| now.saturating_duration_since(before))
    }

    /// Returns whether nothing is under way on its connection.
    pub(super) fn is_idle(&self) -> bool {
        !self.slots.iter().any(|slot| matches!(slot, Slot::Busy(_)))
    }

    /// Returns whether nothing is under way, and nothing waits for a connection.
    pub(super) fn is_quiet(&self) -> bool {
        self.slots.iter().all(|slot| matches!(slot, Slot::Free { .. } | Slot::Elsewhere))
    }

    /// The link and its session, once the peer has accepted.
    pub(super) fn link(&mut self) -> Option<(&mut Link, &mut W::Session)> {
        match &mut self.connection {
            Connection::Greeting { link, session, .. } | Connection::Up { link, session } => {
                Some((link, session))
            }
            Connection::Connecting { .. } | Connection::Down { .. } | Connection::Resting => None,
        }
    }

    /// The peer has accepted: say what a new connection says first.
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
