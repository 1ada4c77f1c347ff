//! Connects a worker's clients before the load begins.
//!
//! Not here: connections that are lost and had again during the load (`connecting`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::Events;

use super::super::client::{Client, Connection};
use super::super::transport::Link;
use super::super::work::Work;
use super::super::{Connections, EngineError, clock};
use super::{SCAN_EVERY, Worker, ignore_interrupt};

/// How long clients go on connecting before the load begins without any of them coming up.
const CONNECT_WITHIN: Duration = Duration::from_secs(20);
/// How often each client without a connection was turned away before a load begins with the others alone.
const TURNED_AWAY_MIN: u32 = 4;
/// How often each was before a load is given up that has none: some two seconds of tries.
const TURNED_AWAY_MAX: u32 = 9;

impl<W: Work> Worker<'_, W> {
    /// Connects all clients that keep a connection. An error names the node that could not be had.
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
            self.look_after_connections(now);
            let waiting = self.clients.iter().find(|client| !client.is_up());
            let Some(waiting) = waiting else { return Ok(()) };
            if self.shared.interrupted.load(Ordering::Relaxed) {
                return Err(EngineError::Interrupted);
            }
            let up = self.clients.iter().filter(|client| client.is_up()).count();
            if up > most_up {
                // A server whose handshakes take long is given its time.
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

    /// Returns true if all clients that are not connected were turned away so often.
    fn are_turned_away(&self, times: u32) -> bool {
        let mut down = self.clients.iter().filter(|client| !client.is_up());
        down.all(|client| client.turned_away >= times)
    }
}

/// Says what a server that took a connection did not send in time.
pub(super) fn silence(link: &Link) -> &'static str {
    match link.is_agreed() {
        true => "it took the connection and did not greet in time",
        false => "it took the connection and did not shake hands in time: does the port speak TLS?",
    }
}
