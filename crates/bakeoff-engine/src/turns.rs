//! Deals the operations of a closed load to several servers by their numbers.
//!
//! Each client has a connection to each server, and its next operation goes wherever its number leads. If clients
//! stayed with one server each, those of a quick server would send more, whatever the weights say.
//!
//! Not here: open loads, whose due times are dealt to nodes (`bakeoff_core::lanes`), who sends an operation
//! (`worker::turning`).

/// The servers that each client of a closed load asks in turn.
pub(crate) struct Turns {
    /// The server of each operation, by its number, over and over.
    order: Vec<usize>,
    /// The nodes of each server.
    nodes: Vec<Vec<usize>>,
}

impl Turns {
    /// Deals operations to servers in this order; `server_of` names the server of each node. `None` for a single server,
    /// which has every operation.
    pub(crate) fn new(order: Vec<usize>, server_of: &[usize]) -> Option<Self> {
        let servers = order.iter().max()? + 1;
        let nodes = |server| {
            let nodes = server_of.iter().enumerate().filter(move |(_, of)| **of == server);
            nodes.map(|(node, _)| node).collect()
        };
        (servers > 1).then(|| Self { order, nodes: (0..servers).map(nodes).collect() })
    }

    /// Returns the number of servers.
    pub(crate) fn servers(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the server of the operation with this number.
    pub(crate) fn server(&self, ticket: u64) -> usize {
        self.order[(ticket % self.order.len() as u64) as usize]
    }

    /// Returns the node of a server that a client connects to: clients are spread over a server's addresses.
    pub(crate) fn node(&self, client: u32, server: usize) -> usize {
        let nodes = &self.nodes[server];
        nodes[client as usize % nodes.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_lead_to_servers_by_their_numbers_and_clients_to_all_addresses() {
        assert!(Turns::new(vec![0, 0], &[0, 0]).is_none(), "one server has them all");
        // The second server has two addresses.
        let turns = Turns::new(vec![0, 0, 1, 0], &[0, 1, 0, 1]).unwrap();
        assert_eq!(turns.servers(), 2);
        let servers: Vec<usize> = (2..8).map(|ticket| turns.server(ticket)).collect();
        assert_eq!(servers, [1, 0, 0, 0, 1, 0]);
        assert_eq!([0, 1, 2].map(|client| turns.node(client, 1)), [1, 3, 1]);
    }
}
