//! Connects a worker's clients before the load begins.
//!
//! Not here: connections lost and reopened during the load (`connecting`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::Events;

use super::super::client::{Client, Connection};
use super::super::transport::Link;
use super::super::work::Work;
use super::super::{Connections, EngineError, clock};
use super::{SCAN_EVERY, Worker, ignore_interrupt};

/// Time without any client connecting after which the load is given up.
const CONNECT_WITHIN: Duration = Duration::from_secs(20);
/// Number of refusals of each unconnected client after which a load begins with the other clients.
const TURNED_AWAY_MIN: u32 = 4;
/// Number of refusals of each client after which a load without any connection is given up, about two seconds of
/// tries.
const TURNED_AWAY_MAX: u32 = 9;

impl<W: Work> Worker<'_, W> {
    /// Connects all clients that keep a connection. The error names the unreachable node.
    pub(in super::super) fn connect(&mut self) -> Result<(), EngineError> {
        if self.part.connections == Connections::OneEach {
            for client in &mut self.clients {
                client.connection = Connection::Resting;
            }
            return Ok(());
        }
        let mut give_up_at = clock::now() + CONNECT_WITHIN;
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
                (most_up, give_up_at) = (up, now + CONNECT_WITHIN);
            }
            if let Some(wants) = self.wants.take() {
                return Err(wants);
            }
            let none = most_up == 0 && self.are_turned_away(TURNED_AWAY_MAX);
            if now > give_up_at || self.refused_tls || none {
                return Err(self.unreachable(waiting));
            }
            if most_up > 0 && self.part.begins_short && self.are_turned_away(TURNED_AWAY_MIN) {
                return Ok(());
            }
            self.poll.poll(&mut events, Some(SCAN_EVERY)).or_else(ignore_interrupt)?;
            for event in &events {
                self.on_event(event.token(), event.is_read_closed());
            }
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

    /// Returns true if all unconnected clients were turned away at least `times` times.
    fn are_turned_away(&self, times: u32) -> bool {
        let mut down = self.clients.iter().filter(|client| !client.is_up());
        down.all(|client| client.turned_away >= times)
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
