//! How nodes of Vault and OpenBao are configured, on each of their storages.
//!
//! Not here: opening them once they run (`open`).

#[cfg(test)]
mod tests;

use std::path::Path;

use bakeoff_core::record::Setting;
use bakeoff_core::study;
use bakeoff_engine::LoadError;
use bakeoff_engine::tls::{Authority, CaPem, LOOPBACK};
use bakeoff_host::ports::Allocator;
use bakeoff_host::{FileMode, HostError, NodeFile, NodeSpec};
use serde_json::{Map, Value, json};

use super::open::Ours;
use super::prepare::Database;
use super::{MAX_IDLE_CONNECTIONS, Product, STANDBY_READS, is_on};
use crate::systems::{
    ASKED, Asked, Description, Memory, Neighbour, dynamodb_emulator, gcs_emulator, option,
    postgresql, setting,
};

/// The bucket of an emulated Google Cloud Storage.
const BUCKET: &str = "vault";
/// The table of an emulated DynamoDB.
const TABLE: &str = "vault";
/// The region that an emulated DynamoDB is asked in; any will do.
const REGION: &str = "us-east-1";

/// The kind of part that a storage is, and the storage that a part is.
const PARTS: &[(&str, &str)] = &[
    ("consul", "consul"),
    ("postgresql", "postgresql"),
    ("gcs", "gcs-emulator"),
    ("dynamodb", "dynamodb-emulator"),
];

/// What a system keeps its data in.
pub(in crate::systems) fn storage_of(asked: &study::System) -> &str {
    let part = asked.parts.get("storage").map(|part| part.kind.as_str());
    let follows = PARTS.iter().find(|(_, kind)| part == Some(kind)).map(|(storage, _)| *storage);
    option(asked, "storage").or(follows).unwrap_or("raft")
}

/// Whether a system of this product can be run as a study has it.
pub(in crate::systems) fn sound(
    product: Product,
    asked: &study::System,
) -> Result<(), (String, String)> {
    let wrong = |what: &str, hint: &str| Err((what.to_owned(), hint.to_owned()));
    let storage = storage_of(asked);
    let kind = PARTS.iter().find(|(name, _)| *name == storage).map(|(_, kind)| *kind);
    let part = asked.parts.get("storage").map(|part| part.kind.as_str());
    let given = |name| option(asked, name).is_some();
    match (kind, part) {
        _ if !asked.is_started() => {}
        (kind, Some(part)) if kind != Some(part) => {
            return Err((
                format!("its storage is `{storage}` and its part `storage` of kind `{part}`"),
                "leave `storage` out of its options: it follows from the part".to_owned(),
            ));
        }
        (Some(_), None) if storage == "gcs" && given("bucket") && given("credentials") => {}
        (Some(_), None) if storage == "dynamodb" && given("table") && given("region") => {}
        (Some(kind), None) => {
            let real = match storage {
                "gcs" => ", or `bucket` and `credentials` for the real service",
                "dynamodb" => ", or `table` and `region` for the real service",
                _ => "",
            };
            return Err((
                format!("its storage is `{storage}`, of which it has none"),
                format!("add `parts: {{storage: {{kind: {kind}}}}}`{real}"),
            ));
        }
        _ => {}
    }
    if matches!(storage, "file" | "inmem") && asked.nodes > 1 {
        return Err((
            format!("it has {} nodes, and storage `{storage}` serves one", asked.nodes),
            "write `nodes: 1`, or another storage".to_owned(),
        ));
    }
    if given("raft-multiplier") && storage != "raft" {
        return wrong("it has `raft-multiplier` and does not keep data by Raft", "leave it out");
    }
    if given(MAX_IDLE_CONNECTIONS) && storage != "postgresql" {
        return wrong(
            "it has `max-idle-connections` and does not keep data in PostgreSQL",
            "leave it out",
        );
    }
    if is_on(asked, STANDBY_READS) && storage != "raft" {
        return wrong(
            "its standbys are to answer reads, which they do on Raft storage only",
            "leave its storage or `standby-reads` out",
        );
    }
    if product == Product::OpenBao && is_on(asked, STANDBY_READS) && reads_at_leader_only(asked) {
        return wrong(
            "its standbys are to answer reads, which they do from version 2.5 on",
            "ask for `version: \"2.5\"` or newer, or leave `standby-reads` out",
        );
    }
    Ok(())
}

/// Whether the version asked for is from before standbys answered reads. One that is not said may
/// be any.
pub(in crate::systems) fn reads_at_leader_only(asked: &study::System) -> bool {
    let Some(version) = &asked.version else { return false };
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(u32::MAX));
    (numbers.next(), numbers.next().unwrap_or(u32::MAX)) < (Some(2), 5)
}

/// The nodes to run.
pub(in crate::systems) fn describe(
    product: Product,
    asked: &Asked<'_>,
    ports: &mut Allocator,
) -> Result<Description, HostError> {
    let program = asked.program.expect("it is not part of bakeoff").command();
    let mut nodes = Vec::new();
    for name in asked.node_names() {
        nodes.push((name, ports.take()?, ports.take()?));
    }
    let name = &asked.system.name;
    let authority = match is_on(asked.system, "tls") {
        true => Some(Authority::new().map_err(unmade(name))?),
        false => None,
    };
    let scheme = if authority.is_some() { "https" } else { "http" };
    let api: Vec<String> =
        nodes.iter().map(|(_, port, _)| format!("{scheme}://127.0.0.1:{port}")).collect();
    let memory = Memory::default();
    memory.keep(Ours);
    let mut description = Description { memory, ..Description::default() };
    description.settings = settings(product, asked);
    if let Some(database) = asked.neighbour("database") {
        description.memory.keep(Database(database.nodes[0].clone()));
    }
    if let Some(authority) = &authority {
        let config = authority.client_config(super::ALPN).map_err(unmade(name))?;
        description.tls = Some(config);
        description.memory.keep(CaPem(authority.ca_pem()));
    }
    for (index, (name, client, cluster)) in nodes.into_iter().enumerate() {
        let dir = asked.dir.join(&name);
        let mut env = Vec::new();
        let storage = storage(asked, index, &name, &dir, &api, authority.is_some(), &mut env);
        let mut listener = json!({
            "address": format!("127.0.0.1:{client}"),
            "cluster_address": format!("127.0.0.1:{cluster}"),
        });
        let mut files = Vec::new();
        match &authority {
            None => listener["tls_disable"] = json!(true),
            Some(authority) => {
                let identity = authority.server(LOOPBACK).map_err(unmade(&name))?;
                listener["tls_cert_file"] = json!(dir.join("server.pem"));
                listener["tls_key_file"] = json!(dir.join("server.key"));
                files.push(file("server.pem", identity.cert_pem, FileMode::Readable));
                files.push(file("server.key", identity.key_pem, FileMode::Private));
                files.push(file("ca.pem", authority.ca_pem(), FileMode::Readable));
            }
        }
        let mut config = json!({
            "storage": {storage.0: storage.1},
            "listener": [{"tcp": listener}],
            "api_addr": api[index],
            "cluster_addr": format!("https://127.0.0.1:{cluster}"),
        });
        if product == Product::Vault {
            config["disable_mlock"] = json!(true);
        }
        if asked.option(STANDBY_READS) == Some("off") {
            config["disable_standby_reads"] = json!(true);
        }
        // Private, for a storage's password may be among it.
        files.push(file("config.json", config.to_string(), FileMode::Private));
        description.nodes.push(NodeSpec {
            args: vec!["server".into(), "-config".into(), dir.join("config.json").into()],
            env,
            files,
            ports: vec![("client".into(), client), ("cluster".into(), cluster)],
            limits: asked.system.limits.clone(),
            ..NodeSpec::new(name, &program[0], dir)
        });
    }
    Ok(description)
}

fn file(name: &str, contents: String, mode: FileMode) -> NodeFile {
    NodeFile { path: name.into(), contents: contents.into_bytes(), mode }
}

fn unmade(node: &str) -> impl Fn(LoadError) -> HostError {
    move |failure| HostError::Spec { node: node.to_owned(), problem: failure.to_string() }
}

/// What departs from the product's own defaults.
fn settings(product: Product, asked: &Asked<'_>) -> Vec<Setting> {
    let mut settings = Vec::new();
    if product == Product::Vault {
        let why = "memory is locked only by programs that may, and Raft's file is not to be";
        settings.push(setting("disable_mlock", true, why));
    }
    match option(asked.system, "tls") {
        Some("on") => settings.push(setting("listener.tcp.tls_cert_file", "made at start", ASKED)),
        Some(_) => settings.push(setting("listener.tcp.tls_disable", true, ASKED)),
        None => {
            let why = "plain connections, unless the study asks for `tls: on`";
            settings.push(setting("listener.tcp.tls_disable", true, why));
        }
    }
    if let Some(multiplier) = asked.option("raft-multiplier") {
        settings.push(setting("storage.raft.performance_multiplier", multiplier, ASKED));
    }
    if let Some(kept) = asked.option(MAX_IDLE_CONNECTIONS) {
        settings.push(setting("storage.postgresql.max_idle_connections", kept, ASKED));
    }
    if asked.option(STANDBY_READS) == Some("off") {
        settings.push(setting("disable_standby_reads", true, ASKED));
    }
    match storage_of(asked.system) {
        "raft" if asked.system.nodes > 1 => settings.push(setting(
            "storage.raft.retry_join",
            "all nodes",
            "they are joined without a hand",
        )),
        "postgresql" | "gcs" | "dynamodb" if asked.system.nodes > 1 => settings.push(setting(
            "storage.ha_enabled",
            true,
            "several nodes need one that is active",
        )),
        _ => {}
    }
    settings
}

/// The storage of one node: its name, and what is said of it.
fn storage(
    asked: &Asked<'_>,
    index: usize,
    name: &str,
    dir: &Path,
    api: &[String],
    tls: bool,
    env: &mut Vec<(String, String)>,
) -> (String, Value) {
    let system = asked.system;
    let storage = storage_of(system);
    let part = asked.neighbour("storage");
    let at = |index: usize| {
        part.map(|part| part.nodes[index % part.nodes.len()].authority.clone()).unwrap_or_default()
    };
    // An emulator's last node is the one to connect to: its latency, where it has one.
    let entrance = || {
        part.and_then(|part| part.nodes.last())
            .map(|node| node.authority.clone())
            .unwrap_or_default()
    };
    let high_availability = if system.nodes > 1 { "true" } else { "false" };
    let reply = match storage {
        "raft" => {
            // It must be there already.
            let mut raft = json!({"path": dir, "node_id": name});
            if let Some(multiplier) = asked.option("raft-multiplier") {
                raft["performance_multiplier"] = json!(multiplier);
            }
            let join = |api: &String| {
                let mut join = Map::from_iter([("leader_api_addr".to_owned(), json!(api))]);
                if tls {
                    join.insert("leader_ca_cert_file".to_owned(), json!(dir.join("ca.pem")));
                }
                Value::Object(join)
            };
            if api.len() > 1 {
                let others = api.iter().enumerate().filter(|&(other, _)| other != index);
                raft["retry_join"] = others.map(|(_, api)| join(api)).collect();
            }
            raft
        }
        // Each has its own server of Consul to talk to, as one has an agent beside it.
        "consul" => json!({"address": at(index), "path": "vault/"}),
        "postgresql" => {
            let url = part.and_then(|part| postgresql::url(&part.nodes[0]));
            let mut storage = json!({
                "connection_url": url.unwrap_or_default(),
                "ha_enabled": high_availability,
            });
            if let Some(kept) = asked.option(MAX_IDLE_CONNECTIONS) {
                storage["max_idle_connections"] = json!(kept);
            }
            storage
        }
        "gcs" => {
            if part.is_some() {
                env.push(("STORAGE_EMULATOR_HOST".to_owned(), format!("http://{}", entrance())));
            } else if let Some(file) = asked.option("credentials") {
                // Nodes have a working directory of their own.
                let file = std::path::absolute(file).unwrap_or_else(|_| file.into());
                let file = file.display().to_string();
                env.push(("GOOGLE_APPLICATION_CREDENTIALS".to_owned(), file));
            }
            let bucket = asked.option("bucket").unwrap_or(BUCKET);
            json!({"bucket": bucket, "ha_enabled": high_availability})
        }
        "dynamodb" => {
            let mut table = json!({
                "table": asked.option("table").unwrap_or(TABLE),
                "region": asked.option("region").unwrap_or(REGION),
                "ha_enabled": high_availability,
            });
            if part.is_some() {
                table["endpoint"] = json!(format!("http://{}", entrance()));
                env.push(("AWS_ACCESS_KEY_ID".to_owned(), "emulated".to_owned()));
                env.push(("AWS_SECRET_ACCESS_KEY".to_owned(), "emulated".to_owned()));
            } else {
                for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"] {
                    env.extend(std::env::var(name).ok().map(|value| (name.to_owned(), value)));
                }
            }
            table
        }
        "file" => json!({"path": dir.join("data")}),
        _ => json!({}),
    };
    (storage.to_owned(), reply)
}

/// What nodes need of their storage before they start.
pub(in crate::systems) fn prepare_parts(
    product: Product,
    asked: &study::System,
    behind: &[Neighbour],
) -> Result<(), String> {
    let Some(part) = behind.iter().find(|part| part.role == "storage") else { return Ok(()) };
    let entrance = part.nodes.last();
    match storage_of(asked) {
        "gcs" => entrance.map_or(Ok(()), |node| gcs_emulator::make_bucket(node, BUCKET)),
        "dynamodb" => entrance.map_or(Ok(()), |node| dynamodb_emulator::make_table(node, TABLE)),
        // OpenBao makes its own.
        "postgresql" if product == Product::Vault => {
            postgresql::execute(&part.nodes[0], postgresql::VAULT_TABLES).map(|_| ())
        }
        _ => Ok(()),
    }
}
