//! Stores data in a PostgreSQL database.

use bakeoff_core::study::{KindOption, OptionForm};
use serde_json::json;

use super::{Storage, high_availability};
use crate::vault::Product;
use crate::{ASKED, postgresql, setting};

/// Option for the number of idle connections.
const MAX_IDLE_CONNECTIONS: KindOption = KindOption {
    name: "max-idle-connections",
    form: OptionForm::Number,
    meaning: "number of idle connections that each node keeps to PostgreSQL as its storage; 2 by \
              default, and each request opens any further ones",
};

pub(super) const STORAGE: Storage = Storage {
    name: "postgresql",
    component: Some("postgresql"),
    options: &[MAX_IDLE_CONNECTIONS],
    exclusive: Some((MAX_IDLE_CONNECTIONS.name, "keep data in PostgreSQL")),
    settings: |context| {
        let name = "storage.postgresql.max_idle_connections";
        let kept = context.option(MAX_IDLE_CONNECTIONS.name).map(|kept| setting(name, kept, ASKED));
        kept.into_iter().chain(high_availability(context)).collect()
    },
    config: |node, _| {
        let url = node.component.and_then(|component| postgresql::url(&component.nodes[0]));
        let mut storage = json!({
            "connection_url": url.unwrap_or_default(),
            "ha_enabled": node.high_availability(),
        });
        if let Some(kept) = node.context.option(MAX_IDLE_CONNECTIONS.name) {
            storage["max_idle_connections"] = json!(kept);
        }
        storage
    },
    prepare: |product, component| match product {
        Product::Vault => {
            postgresql::execute(&component.nodes[0], postgresql::VAULT_TABLES).map(|_| ())
        }
        // OpenBao creates its own tables.
        Product::OpenBao => Ok(()),
    },
    ..Storage::PLAIN
};
