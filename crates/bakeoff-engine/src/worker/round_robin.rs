//! Sends operations of a closed load to several servers: the operation's number picks the connection.
//!
//! A client's connections, one per server, are adjacent among the worker's clients. For each slot one of them has the
//! client's turn; on the others it is [`Slot::Elsewhere`].
//!
//! Not here: which number picks which server (`turns`).

use std::time::{Duration, Instant};

use super::super::Connections;
use super::super::client::{ClientOutcomes, QueuedOperation, Slot};
use super::super::work::{Tag, Work};
use super::Worker;

impl<W: Work> Worker<'_, W> {
    /// Returns true if this is the client's first connection, on which its turns begin.
    pub(super) fn begins_turns(&self, index: usize) -> bool {
        index.is_multiple_of(self.part.per_client)
    }

    /// Returns true if a connection that is down may pass an operation to another one of the same client.
    pub(super) fn passes_on(&self) -> bool {
        self.part.per_client > 1
    }

    pub(super) fn begin_clients(&mut self, start: Instant) {
        for index in 0..self.clients.len() {
            let begins = self.begins_turns(index);
            let client = &mut self.clients[index];
            client.lost_at = (!client.is_connected()).then_some(start);
            let slots = if begins { self.part.slots_of(client.number) } else { 0 };
            for (tag, slot) in client.slots.iter_mut().enumerate() {
                *slot = if tag < slots { Slot::Free { since: start } } else { Slot::Elsewhere };
            }
        }
    }

    /// Starts an operation on the connection that its number picks. A connection that is down sends it once it is up.
    pub(super) fn take_turn(&mut self, index: usize, tag: Tag, waiting: QueuedOperation) {
        let ticket = self.pacing.take_ticket(&mut self.work);
        let Some(turns) = &self.part.turns else { return };
        let server = turns.server(ticket);
        let waiting = QueuedOperation { again: Some(ticket), ..waiting };
        if self.part.connections == Connections::OneEach {
            let client = &mut self.clients[index];
            client.node = turns.node(client.number, server);
            client.slots[tag as usize] = Slot::Waiting(waiting);
            return;
        }
        let to = index - index % self.part.per_client + server;
        self.clients[index].slots[tag as usize] = Slot::Elsewhere;
        self.clients[to].slots[tag as usize] = Slot::Waiting(waiting);
        if self.clients[to].is_up() {
            self.send(to, tag, waiting);
        }
        if to != index {
            self.flush(to);
        }
    }

    /// Counts connected, served and unserved clients, combining each client's connections.
    pub(super) fn count_clients(&mut self, window: Duration) {
        let start = self.recorder.window.start;
        let slice = &mut self.recorder.slice;
        for client in self.clients.chunks(self.part.per_client) {
            let seen = client.iter().map(|connection| connection.seen);
            let seen = seen.reduce(ClientOutcomes::and).unwrap_or_default();
            slice.unserved_clients += u64::from(seen.is_unserved(window));
            slice.clients_with_work += u64::from(seen.had_work());
            slice.clients_without_success += u64::from(seen.had_work() && !seen.success_in_window);
            if self.part.connections == Connections::Kept {
                let connected = || client.iter().map(|connection| connection.connected_at);
                let all_connected = connected().all(|at| at.is_some());
                let any_late = connected().any(|at| at > Some(start));
                slice.late_clients += u64::from(all_connected && any_late);
                slice.unconnected_clients += u64::from(!all_connected);
            }
        }
    }
}
