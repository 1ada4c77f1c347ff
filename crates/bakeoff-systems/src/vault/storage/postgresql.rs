//! Storage in a database of PostgreSQL.

use bakeoff_core::study::{KindOption, OptionForm};
use serde_json::json;

use super::{Storage, high_availability};
use crate::vault::Product;
use crate::{ASKED, postgresql, setting};

/// The option that says how many connections are kept.
const MAX_IDLE_CONNECTIONS: KindOption = KindOption {
    name: "max-idle-connections",
    form: OptionForm::Number,
    meaning: "how many idle connections each node keeps to a PostgreSQL that is its storage; 2 by \
              default, and any more are opened anew for each request",
};

pub(super) const STORAGE: Storage = Storage {
    name: "postgresql",
    component: Some("postgresql"),
    options: &[MAX_IDLE_CONNECTIONS],
    exclusive: Some((MAX_IDLE_CONNECTIONS.name, "keep data in PostgreSQL")),
    settings: |asked| {
        let name = "storage.postgresql.max_idle_connections";
        let kept = asked.option(MAX_IDLE_CONNECTIONS.name).map(|kept| setting(name, kept, ASKED));
        kept.into_iter().chain(high_availability(asked)).collect()
    },
    config: |node, _| {
        let url = node.component.and_then(|component| postgresql::url(&component.nodes[0]));
        let mut storage = json!({
            "connection_url": url.unwrap_or_default(),
            "ha_enabled": node.high_availability(),
        });
        if let Some(kept) = node.asked.option(MAX_IDLE_CONNECTIONS.name) {
            storage["max_idle_connections"] = json!(kept);
        }
        storage
    },
    prepare: |product, component| match product {
        Product::Vault => {
            postgresql::execute(&component.nodes[0], postgresql::VAULT_TABLES).map(|_| ())
        }
        // It makes its own.
        Product::OpenBao => Ok(()),
    },
    ..Storage::PLAIN
};
