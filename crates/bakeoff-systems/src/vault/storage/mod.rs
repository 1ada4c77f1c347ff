//! Defines the storages of Vault and OpenBao: one file each, and one line in [`STORAGES`].
//!
//! A storage checks a study's options, writes its part of the nodes' configuration, and states its guarantees.
//!
//! Not here: the systems that a storage runs on (`consul` and others), the rest of a node's configuration (`config`).

mod consul;
mod dynamodb;
mod file;
mod gcs;
mod inmem;
pub(crate) mod postgresql;
pub(crate) mod raft;

use std::path::Path;
use std::sync::LazyLock;

use bakeoff_core::record::{AckLocation, Setting};
use bakeoff_core::study::{self, KindOption};
use serde_json::{Value, json};

use super::Product;
use crate::{DescribeContext, Neighbour, SystemError, option, setting};

/// Every storage; the first one is the default.
const STORAGES: &[&Storage] = &[
    &raft::STORAGE,
    &consul::STORAGE,
    &postgresql::STORAGE,
    &gcs::STORAGE,
    &dynamodb::STORAGE,
    &file::STORAGE,
    &inmem::STORAGE,
];

/// Values of the option `storage`.
pub(crate) static NAMES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| STORAGES.iter().map(|storage| storage.name).collect());

/// Kinds of component that can be a storage.
pub(crate) static COMPONENTS: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| STORAGES.iter().filter_map(|storage| storage.component).collect());

pub(crate) struct Storage {
    /// Name in the configuration of nodes and in the option `storage`.
    pub(crate) name: &'static str,
    /// Kind of the component that holds the data; `None` if the nodes hold it.
    pub(super) component: Option<&'static str>,
    /// Options that name a real service instead of the component.
    service: &'static [&'static str],
    serves_one_node: bool,
    /// Options, in the order of the documentation.
    pub(super) options: &'static [KindOption],
    /// Option that only this storage has, and the effect that other systems lack.
    exclusive: Option<(&'static str, &'static str)>,
    /// Returns the settings that differ from the product's defaults.
    pub(super) settings: fn(&DescribeContext<'_>) -> Vec<Setting>,
    /// Returns its part of a node's configuration. May append to the node's environment.
    pub(super) config: fn(&NodeStorage<'_>, &mut Vec<(String, String)>) -> Value,
    /// Creates the objects that nodes need in the component before they start.
    pub(super) prepare: fn(Product, &Neighbour) -> Result<(), SystemError>,
    /// Guarantees; `None` if those of the component apply.
    pub(super) guarantees: Option<fn(&study::System) -> StorageGuarantees>,
}

pub(super) struct StorageGuarantees {
    pub(super) replication: String,
    pub(super) acknowledged: String,
    pub(super) acknowledged_in: Option<AckLocation>,
}

/// Node whose storage is configured.
pub(super) struct NodeStorage<'a> {
    pub(super) context: &'a DescribeContext<'a>,
    pub(super) component: Option<&'a Neighbour>,
    /// Index of the node, from 0.
    pub(super) index: usize,
    pub(super) name: &'a str,
    pub(super) dir: &'a Path,
    /// Addresses of all nodes.
    pub(super) api: &'a [String],
    pub(super) tls: bool,
}

impl NodeStorage<'_> {
    /// Returns the address of the component's last node, which is the relay of an emulator with a latency.
    fn entrance(&self) -> String {
        let node = self.component.and_then(|component| component.nodes.last());
        node.map(|node| node.authority.clone()).unwrap_or_default()
    }

    /// Returns whether several nodes share the storage, as a text for Vault.
    fn high_availability(&self) -> &'static str {
        if self.context.system.nodes > 1 { "true" } else { "false" }
    }
}

impl Storage {
    /// A storage without special needs, as a base for others.
    const PLAIN: Self = Self {
        name: "",
        component: None,
        service: &[],
        serves_one_node: false,
        options: &[],
        exclusive: None,
        settings: |_| Vec::new(),
        config: |_, _| json!({}),
        prepare: |_, _| Ok(()),
        guarantees: None,
    };

    /// Returns the storage of a system.
    pub(crate) fn configured(system: &study::System) -> &'static Storage {
        let component = system.parts.get("storage").map(|part| part.kind.as_str());
        let follows = STORAGES.iter().find(|s| component.is_some() && s.component == component);
        let named = option(system, "storage");
        let named = named.and_then(|name| STORAGES.iter().find(|storage| storage.name == name));
        named.or(follows).copied().unwrap_or(STORAGES[0])
    }

    /// Returns the options of all storages, in the order of the documentation.
    pub(super) fn all_options() -> impl Iterator<Item = KindOption> {
        STORAGES.iter().flat_map(|storage| storage.options).cloned()
    }

    /// Refuses a system whose nodes, component and options do not fit its storage. The error holds the fix.
    pub(super) fn check(&self, system: &study::System) -> Result<(), (String, String)> {
        let name = self.name;
        let given = |name: &str| option(system, name).is_some();
        let component = system.parts.get("storage").map(|part| part.kind.as_str());
        let has_service = !self.service.is_empty() && self.service.iter().all(|name| given(name));
        match (self.component, component) {
            _ if !system.is_started() => {}
            (kind, Some(component)) if kind != Some(component) => {
                return Err((
                    format!("its storage is `{name}` and its part `storage` of kind `{component}`"),
                    "leave `storage` out of its options, because it follows from the part"
                        .to_owned(),
                ));
            }
            (Some(kind), None) if !has_service => {
                let quoted: Vec<_> = self.service.iter().map(|name| format!("`{name}`")).collect();
                let real = match &*quoted.join(" and ") {
                    "" => String::new(),
                    options => format!(", or {options} for the real service"),
                };
                return Err((
                    format!("its storage is `{name}`, but it has no part with it"),
                    format!("add `parts: {{storage: {{kind: {kind}}}}}`{real}"),
                ));
            }
            _ => {}
        }
        if self.serves_one_node && system.nodes > 1 {
            return Err((
                format!("it has {} nodes, but storage `{name}` serves only one", system.nodes),
                "write `nodes: 1`, or choose another storage".to_owned(),
            ));
        }
        let others = STORAGES.iter().filter(|other| other.name != name);
        for (option, does) in others.filter_map(|other| other.exclusive) {
            if given(option) {
                let what = format!("it has `{option}` but does not {does}");
                return Err((what, "leave it out".to_owned()));
            }
        }
        Ok(())
    }
}

/// Returns the high availability setting of a storage that several nodes share.
fn high_availability(context: &DescribeContext<'_>) -> Option<Setting> {
    let why = "several nodes need an active one among them";
    (context.system.nodes > 1).then(|| setting("storage.ha_enabled", true, why))
}
