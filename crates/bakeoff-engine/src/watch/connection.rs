//! Holds one connection of watchers: its state, its watchers, its pauses.

use std::io;
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::client::{BACKOFF_MAX, BACKOFF_MIN};
use crate::peer::Peer;
use crate::transport::Link;

use super::session::WatchSession;

/// Time limit for a new connection and its handshakes.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Holds the state of a connection.
pub(super) enum Connection {
    Down {
        retry_at: Instant,
    },
    /// The peer has not accepted, or a handshake is not done.
    Opening {
        link: Box<Link>,
        session: Box<dyn WatchSession>,
        is_accepted: bool,
        deadline: Instant,
    },
    Up {
        link: Box<Link>,
        session: Box<dyn WatchSession>,
    },
}

impl Connection {
    /// Returns the link and its session once the peer has accepted.
    pub(super) fn link(&mut self) -> Option<(&mut Link, &mut dyn WatchSession)> {
        match self {
            Self::Opening { link, session, is_accepted: true, .. } | Self::Up { link, session } => {
                Some((link, session.as_mut()))
            }
            _ => None,
        }
    }
}

/// Holds one connection and its watchers.
pub(super) struct WatchConnection {
    /// Index of its node.
    pub(super) node: usize,
    /// Numbers of its watchers.
    pub(super) watchers: Vec<u32>,
    /// Number of its watchers that do not exist yet.
    pub(super) missing: usize,
    pub(super) connection: Connection,
    backoff: Duration,
    /// Time when it was last up with all watchers, or lost; for the time limit of silence.
    pub(super) received_at: Instant,
    pub(super) sent_at: Instant,
    /// Time until which it does not read; `None` while it reads.
    pub(super) paused_until: Option<Instant>,
    /// True if it was up before, so its watchers resume.
    pub(super) was_up: bool,
}

impl WatchConnection {
    pub(super) fn new(node: usize, watchers: Vec<u32>, now: Instant) -> Self {
        Self {
            node,
            missing: watchers.len(),
            watchers,
            connection: Connection::Down { retry_at: now },
            backoff: BACKOFF_MIN,
            received_at: now,
            sent_at: now,
            paused_until: None,
            was_up: false,
        }
    }

    /// Starts to connect. `register` adds the link to the poll.
    pub(super) fn begin(
        &mut self,
        peer: &Peer,
        session: Box<dyn WatchSession>,
        now: Instant,
        register: impl FnOnce(&mut Link) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut link = Box::new(Link::connect(&address(peer), peer.tls.as_ref())?);
        register(&mut link)?;
        let deadline = now + CONNECT_WITHIN;
        self.connection = Connection::Opening { link, session, is_accepted: false, deadline };
        Ok(())
    }

    /// Continues to open. Returns true if the connection has just come up.
    pub(super) fn advance(&mut self) -> io::Result<bool> {
        let Connection::Opening { link, session, is_accepted, .. } = &mut self.connection else {
            return Ok(false);
        };
        if !*is_accepted {
            if !link.is_connected()? {
                return Ok(false);
            }
            *is_accepted = true;
            session.open(&mut link.out);
        }
        if !(session.is_open() && link.is_agreed()) {
            return Ok(false);
        }
        let down = Connection::Down { retry_at: self.sent_at };
        if let Connection::Opening { link, session, .. } =
            std::mem::replace(&mut self.connection, down)
        {
            self.connection = Connection::Up { link, session };
        }
        self.backoff = BACKOFF_MIN;
        Ok(true)
    }

    /// Drops the connection. The next one goes to the node after its own.
    pub(super) fn lose(&mut self, nodes: usize, now: Instant) {
        self.connection = Connection::Down { retry_at: now + self.backoff };
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        self.node = (self.node + 1) % nodes.max(1);
        self.missing = self.watchers.len();
    }

    /// Returns the link and its session once the peer has accepted.
    pub(super) fn link(&mut self) -> Option<(&mut Link, &mut dyn WatchSession)> {
        self.connection.link()
    }

    /// Returns true if all its watchers exist.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.connection, Connection::Up { .. }) && self.missing == 0
    }
}

fn address(peer: &Peer) -> Address {
    peer.address.clone()
}
