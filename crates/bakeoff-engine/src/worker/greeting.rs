//! Connects a worker's clients before the load begins.
//!
//! A server may take one connection at a time, and the next one only after a request. So a load does not wait for
//! every client: once all servers are reached and no further client gets through, it begins with the others.
//!
//! Not here: connections lost and reopened during the load (`connecting`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::Events;

use super::super::client::{Client, Connection};
use super::super::transport::Link;
use super::super::work::Work;
use super::super::{Connections, EngineError, clock};
use super::{SCAN_EVERY, SharedState, Worker, ignore_interrupt};

/// Time without any client connecting after which the load is given up, or begins if each server has accepted a
/// client.
const CONNECT_WITHIN: Duration = Duration::from_secs(20);
/// The same for loads that [may begin short](super::super::work::Outline::begins_short), if each server has accepted
/// a client. Longer than the kernel waits before it repeats an unanswered connection request, which is 1 s.
const SHORT_WITHIN: Duration = Duration::from_millis(1500);
/// Number of refusals of each unconnected client after which a load begins with the other clients.
const TURNED_AWAY_MIN: u32 = 4;
/// Number of refusals of each client after which a load without any connection is given up, about two seconds of
/// tries.
const TURNED_AWAY_MAX: u32 = 9;

impl<W: Work> Worker<'_, W> {
    /// Connects the clients that keep a connection. Returns once all are connected, or as many as the servers accept
    /// before the first request. The error names the unreachable node.
    pub(in super::super) fn connect(&mut self) -> Result<(), EngineError> {
        if self.part.connections == Connections::OneEach {
            for client in &mut self.clients {
                client.connection = Connection::Resting;
            }
            return Ok(());
        }
        let mut quiet_since = clock::now();
        let mut most_up = 0;
        let mut events = Events::with_capacity(1024);
        loop {
            let now = clock::now();
            self.check_connections(now);
            let waiting = self.clients.iter().find(|client| !client.is_up());
            let Some(waiting) = waiting else { return Ok(()) };
            if self.shared.interrupted.load(Ordering::Relaxed) {
                return Err(EngineError::Interrupted);
            }
            let up = self.clients.iter().filter(|client| client.is_up()).count();
            if up > most_up {
                // Restart the time limit for a server with slow handshakes.
                (most_up, quiet_since) = (up, now);
            }
            if let Some(wants) = self.wants.take() {
                return Err(wants);
            }
            let is_reached = self.are_servers_reached();
            let none = !is_reached && self.are_turned_away(TURNED_AWAY_MAX);
            if self.refused_tls || none {
                return Err(self.unreachable(waiting));
            }
            let quiet = now.saturating_duration_since(quiet_since);
            if self.begins_without_the_rest(is_reached, quiet) {
                return Ok(());
            }
            if quiet > self.part.connect_within.unwrap_or(CONNECT_WITHIN) {
                return Err(self.unreachable(waiting));
            }
            let wait = if self.unread.is_empty() { SCAN_EVERY } else { Duration::ZERO };
            self.poll.poll(&mut events, Some(wait)).or_else(ignore_interrupt)?;
            self.serve_events(&events);
        }
    }

    fn unreachable(&self, waiting: &Client<W>) -> EngineError {
        let seen = self.recorder.slice.connection_errors.examples.first();
        let what = match (seen, &waiting.connection) {
            (Some(example), _) => &example.what,
            (None, Connection::Greeting { link, .. }) => silence(link),
            (None, _) => "no answer",
        };
        let address = self.recorder.addresses.at(waiting.node).clone();
        EngineError::Unreachable { address, what: what.to_owned() }
    }

    /// Returns true if the load begins although some clients have no connection. `quiet`: time since the last client
    /// connected. Refusals fail a load that may not begin short: waiting would not help.
    fn begins_without_the_rest(&self, is_reached: bool, quiet: Duration) -> bool {
        match self.part.begins_short {
            // One generator cannot see whether another one keeps the server busy.
            true if !is_reached => {
                self.part.is_shared && quiet > SHORT_WITHIN && !self.any_refused()
            }
            true => quiet > SHORT_WITHIN || self.are_turned_away(TURNED_AWAY_MIN),
            false => is_reached && quiet > CONNECT_WITHIN && !self.any_refused(),
        }
    }

    fn unconnected(&self) -> impl Iterator<Item = &Client<W>> {
        self.clients.iter().filter(|client| !client.is_up())
    }

    /// Returns true if the server of each unconnected client has accepted another client, of any worker.
    fn are_servers_reached(&self) -> bool {
        let SharedState { places, reached, .. } = self.shared;
        self.unconnected().all(|client| reached[places[client.node]].load(Ordering::Relaxed))
    }

    fn any_refused(&self) -> bool {
        self.unconnected().any(|client| client.refused)
    }

    /// Returns true if all unconnected clients were turned away at least `times` times.
    fn are_turned_away(&self, times: u32) -> bool {
        self.unconnected().all(|client| client.turned_away >= times)
    }
}

/// Describes which handshake a server did not complete in time after it accepted.
pub(super) fn silence(link: &Link) -> &'static str {
    match link.is_agreed() {
        true => "it accepted the connection but sent no greeting in time",
        false => {
            "it accepted the connection but did not complete the TLS handshake in time: does the port speak TLS?"
        }
    }
}
