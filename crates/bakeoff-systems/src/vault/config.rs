//! Configures the nodes of Vault and OpenBao.
//!
//! Not here: their storages (`storage`), opening the running nodes (`open`).

#[cfg(test)]
mod tests;

use bakeoff_core::record::Setting;
use bakeoff_core::study;
use bakeoff_engine::LoadError;
use bakeoff_engine::tls::{Authority, CaPem};
use bakeoff_host::ports::Allocator;
use bakeoff_host::{FileMode, HostError, NodeFile, NodeSpec};
use serde_json::json;

use super::open::OwnCluster;
use super::prepare::Database;
use super::storage::{NodeStorage, Storage, raft};
use super::{Product, STANDBY_READS, SystemError, is_on};
use crate::{ASKED, DescribeContext, Description, Memory, Neighbour, option, setting};

/// Checks that a system of this product can run with the study's options.
pub(crate) fn sound(product: Product, system: &study::System) -> Result<(), (String, String)> {
    let wrong = |what: &str, hint: &str| Err((what.to_owned(), hint.to_owned()));
    let storage = Storage::configured(system);
    storage.check(system)?;
    if is_on(system, STANDBY_READS) && storage.name != raft::STORAGE.name {
        return wrong(
            "`standby-reads: on` needs Raft storage",
            "leave out `storage` or `standby-reads`",
        );
    }
    if product == Product::OpenBao && is_on(system, STANDBY_READS) && reads_at_leader_only(system) {
        return wrong(
            "`standby-reads: on` needs version 2.5 or newer",
            "write `version: \"2.5\"` or newer, or leave out `standby-reads`",
        );
    }
    Ok(())
}

/// Returns true if the study's version is older than reads on standbys. Without a version it may be any.
pub(crate) fn reads_at_leader_only(system: &study::System) -> bool {
    let Some(version) = &system.version else { return false };
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(u32::MAX));
    (numbers.next(), numbers.next().unwrap_or(u32::MAX)) < (Some(2), 5)
}

pub(crate) fn describe(
    product: Product,
    context: &DescribeContext<'_>,
    ports: &mut Allocator,
) -> Result<Description, HostError> {
    let program = context.program.expect("it is not part of bakeoff").command();
    let mut nodes = Vec::new();
    for (name, location) in context.located() {
        nodes.push((name, location, ports.take_for(location)?, ports.take_for(location)?));
    }
    let name = &context.system.name;
    let authority = match is_on(context.system, "tls") {
        true => Some(Authority::new().map_err(unmade(name))?),
        false => None,
    };
    let scheme = if authority.is_some() { "https" } else { "http" };
    let api: Vec<String> = nodes
        .iter()
        .map(|(_, location, port, _)| format!("{scheme}://{}", location.at(*port)))
        .collect();
    let memory = Memory::default();
    memory.keep(OwnCluster);
    let mut description = Description { memory, ..Description::default() };
    description.settings = settings(product, context);
    if let Some(database) = context.neighbour("database") {
        description.memory.keep(Database(database.nodes[0].clone()));
    }
    if let Some(authority) = &authority {
        let config = authority.client_config(super::ALPN).map_err(unmade(name))?;
        description.tls = Some(config);
        description.memory.keep(CaPem(authority.ca_pem()));
    }
    for (index, (name, location, client, cluster)) in nodes.into_iter().enumerate() {
        let dir = context.dir.join(&name);
        let mut env = Vec::new();
        let storage = Storage::configured(context.system);
        let node = NodeStorage {
            context,
            component: context.neighbour("storage"),
            index,
            name: &name,
            dir: &dir,
            api: &api,
            tls: authority.is_some(),
        };
        let storage_config = (storage.config)(&node, &mut env);
        let mut listener = json!({
            "address": location.listens_at(client),
            "cluster_address": location.listens_at(cluster),
        });
        let mut files = Vec::new();
        match &authority {
            None => listener["tls_disable"] = json!(true),
            Some(authority) => {
                let identity = authority.server_at(location.address).map_err(unmade(&name))?;
                listener["tls_cert_file"] = json!(dir.join("server.pem"));
                listener["tls_key_file"] = json!(dir.join("server.key"));
                files.push(file("server.pem", identity.cert_pem, FileMode::Readable));
                files.push(file("server.key", identity.key_pem, FileMode::Private));
                files.push(file("ca.pem", authority.ca_pem(), FileMode::Readable));
            }
        }
        let mut config = json!({
            "storage": {storage.name: storage_config},
            "listener": [{"tcp": listener}],
            "api_addr": api[index],
            "cluster_addr": format!("https://{}", location.at(cluster)),
        });
        if product == Product::Vault {
            config["disable_mlock"] = json!(true);
        }
        if context.option(STANDBY_READS) == Some("off") {
            config["disable_standby_reads"] = json!(true);
        }
        // Private, because it may hold the password of the storage.
        files.push(file("config.json", config.to_string(), FileMode::Private));
        description.nodes.push(NodeSpec {
            args: vec!["server".into(), "-config".into(), dir.join("config.json").into()],
            env,
            files,
            location,
            ports: vec![("client".into(), client), ("cluster".into(), cluster)],
            limits: context.system.limits.clone(),
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

/// Returns the settings that differ from the product's defaults.
fn settings(product: Product, context: &DescribeContext<'_>) -> Vec<Setting> {
    let mut settings = Vec::new();
    if product == Product::Vault {
        let why = "only privileged programs can lock memory, and Raft's file should not be locked";
        settings.push(setting("disable_mlock", true, why));
    }
    match option(context.system, "tls") {
        Some("on") => {
            settings.push(setting("listener.tcp.tls_cert_file", "generated at the start", ASKED))
        }
        Some(_) => settings.push(setting("listener.tcp.tls_disable", true, ASKED)),
        None => {
            let why = "plain connections, unless the study asks for `tls: on`";
            settings.push(setting("listener.tcp.tls_disable", true, why));
        }
    }
    let storage = (Storage::configured(context.system).settings)(context);
    let (chosen, implied): (Vec<_>, Vec<_>) =
        storage.into_iter().partition(|setting| setting.reason == ASKED);
    settings.extend(chosen);
    if context.option(STANDBY_READS) == Some("off") {
        settings.push(setting("disable_standby_reads", true, ASKED));
    }
    settings.extend(implied);
    settings
}

/// Creates the objects that nodes need in their storage before they start.
pub(crate) fn prepare_parts(
    product: Product,
    system: &study::System,
    behind: &[Neighbour],
) -> Result<(), SystemError> {
    let component = behind.iter().find(|component| component.role == "storage");
    component.map_or(Ok(()), |component| (Storage::configured(system).prepare)(product, component))
}
