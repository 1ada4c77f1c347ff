//! Deals the operations of a closed load to several servers by operation number.
//!
//! Each client is connected to every server, and the operation's number picks the server. If each client stayed with
//! one server, clients of a fast server would send more, regardless of the weights.
//!
//! Not here: open loads, whose due times are dealt to nodes (`bakeoff_core::lanes`), sending (`worker::round_robin`).

/// Maps the operations of a closed load to servers.
pub(crate) struct Turns {
    /// Server of each operation, by its number; the list repeats.
    order: Vec<usize>,
    /// Nodes of each server.
    nodes: Vec<Vec<usize>>,
}

impl Turns {
    /// Deals operations to servers in this order. `server_of` names the server of each node. Returns `None` for a
    /// single server, which gets every operation.
    pub(crate) fn new(order: Vec<usize>, server_of: &[usize]) -> Option<Self> {
        let servers = order.iter().max()? + 1;
        let nodes = |server| {
            let nodes = server_of.iter().enumerate().filter(move |(_, of)| **of == server);
            nodes.map(|(node, _)| node).collect()
        };
        (servers > 1).then(|| Self { order, nodes: (0..servers).map(nodes).collect() })
    }

    pub(crate) fn servers(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn server(&self, ticket: u64) -> usize {
        self.order[(ticket % self.order.len() as u64) as usize]
    }

    /// Returns the node of `server` that `client` connects to. Clients are spread over a server's addresses.
    pub(crate) fn node(&self, client: u32, server: usize) -> usize {
        let nodes = &self.nodes[server];
        nodes[client as usize % nodes.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_number_picks_the_server_and_clients_spread_over_its_addresses() {
        assert!(Turns::new(vec![0, 0], &[0, 0]).is_none(), "one server has them all");
        // The second server has two addresses.
        let turns = Turns::new(vec![0, 0, 1, 0], &[0, 1, 0, 1]).unwrap();
        assert_eq!(turns.servers(), 2);
        let servers: Vec<usize> = (2..8).map(|ticket| turns.server(ticket)).collect();
        assert_eq!(servers, [1, 0, 0, 0, 1, 0]);
        assert_eq!([0, 1, 2].map(|client| turns.node(client, 1)), [1, 3, 1]);
    }
}
