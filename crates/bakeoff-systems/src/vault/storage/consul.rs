//! Stores data in Consul.

use serde_json::json;

use super::Storage;

pub(super) const STORAGE: Storage = Storage {
    name: "consul",
    component: Some("consul"),
    // Each node uses a different Consul server, as in production it would use the agent next to it.
    config: |node, _| {
        let servers = node.component.map(|component| &component.nodes);
        let server = servers.map(|servers| servers[node.index % servers.len()].authority.clone());
        json!({"address": server.unwrap_or_default(), "path": "vault/"})
    },
    ..Storage::PLAIN
};
