//! Storage in Consul.

use serde_json::json;

use super::Storage;

pub(super) const STORAGE: Storage = Storage {
    name: "consul",
    component: Some("consul"),
    // Each node has a server of Consul of its own to talk to, as one has an agent beside it.
    config: |node, _| {
        let servers = node.component.map(|component| &component.nodes);
        let server = servers.map(|servers| servers[node.index % servers.len()].authority.clone());
        json!({"address": server.unwrap_or_default(), "path": "vault/"})
    },
    ..Storage::PLAIN
};
