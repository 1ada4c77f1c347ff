//! Clients of a closed load that ask several servers: each operation goes to the connection that its number leads to.
//!
//! A client's connections stand side by side among the worker's clients, one for each server. One of them has the
//! client's turn in each slot, and the others' slots are [`Slot::Elsewhere`].
//!
//! Not here: which number leads where (`turns`).

use std::time::{Duration, Instant};

use super::super::Connections;
use super::super::client::{Seen, Slot, Waiting};
use super::super::work::{Tag, Work};
use super::Worker;

impl<W: Work> Worker<'_, W> {
    /// Returns true if a client's turns begin at this connection.
    pub(super) fn begins_turns(&self, index: usize) -> bool {
        index.is_multiple_of(self.part.per_client)
    }

    /// Returns true if a connection that is down may pass an operation on to another of the same client.
    pub(super) fn passes_on(&self) -> bool {
        self.part.per_client > 1
    }

    /// Gives each client its turns as the load begins.
    pub(super) fn begin_clients(&mut self, start: Instant) {
        for index in 0..self.clients.len() {
            let begins = self.begins_turns(index);
            let client = &mut self.clients[index];
            client.lost_at = client.lost_at.map(|_| start);
            for slot in &mut client.slots {
                *slot = if begins { Slot::Free { since: start } } else { Slot::Elsewhere };
            }
        }
    }

    /// Begins an operation on the connection that its number leads to; one that is down sends it once it is up.
    pub(super) fn take_turn(&mut self, index: usize, tag: Tag, waiting: Waiting) {
        let ticket = self.pacing.take_ticket(&mut self.work);
        let Some(turns) = &self.part.turns else { return };
        let server = turns.server(ticket);
        let waiting = Waiting { again: Some(ticket), ..waiting };
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

    /// Counts clients by what came of their operations, wherever these went.
    pub(super) fn count_clients(&mut self, window: Duration) {
        let slice = &mut self.recorder.slice;
        for client in self.clients.chunks(self.part.per_client) {
            let seen = client.iter().map(|connection| connection.seen);
            let seen = seen.reduce(Seen::and).unwrap_or_default();
            slice.unserved_clients += u64::from(seen.is_unserved(window));
            slice.clients_with_work += u64::from(seen.had_work());
            slice.clients_without_success += u64::from(seen.had_work() && !seen.success_in_window);
        }
    }
}
