//! Reads Envoy's admin interface: the configuration that the control plane sent, and the active part of it.
//!
//! Not here: the bootstrap of Envoy (`proxy`).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bakeoff_core::units;
use bakeoff_engine::routes;
use bakeoff_engine::transport::Target;
use serde_json::Value;

use crate::exchange::PATIENCE;
use crate::http_session::ask;
use crate::{Access, ConfigSnapshot, Memory, NotReady, SystemError};

/// A proxy that a control plane configures, as a probe needs it.
pub(super) struct ControlledProxy {
    admin: Target,
    port: u16,
}

impl ControlledProxy {
    /// Returns an Envoy with its admin address and the port on which it should accept requests.
    pub(super) fn new(admin: SocketAddr, port: u16) -> Self {
        Self { admin: Target { address: admin, tls: None }, port }
    }

    /// Returns access to the admin interface of a node's Envoy.
    fn admin(&self, node: &Access) -> Access {
        Access {
            name: format!("{}'s Envoy", node.name),
            authority: self.admin.address.to_string(),
            target: self.admin.clone(),
            memory: Memory::default(),
        }
    }
}

/// Checks that Envoy forwards requests on the port that its control plane should configure. The error describes the
/// configuration that it got instead.
pub(crate) fn probe(node: &Access) -> Result<(), NotReady> {
    let known = node.memory.get::<ControlledProxy>().ok_or("it was not described")?;
    let admin = known.admin(node);
    if !listens(&answered(&admin, "/listeners?format=json")?, known.port) {
        return Err(unprogrammed(&admin, node, known.port)?.into());
    }
    let listeners = dumped(&admin, LISTENERS)?;
    if !listeners.iter().any(|listener| takes_requests(listener, known.port)) {
        return Err(format!(
            "`{}` is configured to forward bytes instead of requests on port {}",
            node.name, known.port
        )
        .into());
    }
    // Envoy reports a listener before its workers have it, so connect as well.
    routes::connect(node.target.address, PATIENCE)
        .map_err(|error| SystemError::unreachable(node, error))?;
    Ok(())
}

/// Returns true if the proxy has refused the certificate of a server behind it. Envoy 1.40 no longer says so to clients.
pub(crate) fn has_refused_certificates(node: &Access) -> Result<bool, NotReady> {
    let known = node.memory.get::<ControlledProxy>().ok_or("it was not described")?;
    let (_, stats) = ask(&known.admin(node), "GET", "/stats?filter=ssl.fail_verify_error")?;
    let counts = stats.lines().filter_map(|line| line.rsplit(": ").next()?.parse::<u64>().ok());
    Ok(counts.sum::<u64>() > 0)
}

/// Returns the JSON answer of Envoy's admin interface at a path.
fn answered(admin: &Access, path: &str) -> Result<Value, SystemError> {
    let (status, reply) = ask(admin, "GET", path)?;
    serde_json::from_str(&reply)
        .map_err(|_| format!("{} answered {status}: {}", admin.name, reply.trim()).into())
}

/// Returns true if one of the listeners in an admin answer has this port.
fn listens(listeners: &Value, port: u16) -> bool {
    let statuses = listeners.get("listener_statuses").and_then(Value::as_array);
    let port_of =
        |status: &Value| status.pointer("/local_address/socket_address/port_value")?.as_u64();
    statuses.into_iter().flatten().any(|status| port_of(status) == Some(port.into()))
}

/// A kind of resource that a control plane sends to Envoy.
struct Resource {
    name: &'static str,
    /// Field in Envoy's dump.
    field: &'static str,
    /// Path of the active resource in an entry of that field.
    active: &'static str,
}

const LISTENERS: &Resource =
    &Resource { name: "listener", field: "dynamic_listeners", active: "/active_state/listener" };
const RESOURCES: [&Resource; 3] = [
    LISTENERS,
    &Resource { name: "cluster", field: "dynamic_active_clusters", active: "/cluster" },
    &Resource { name: "route", field: "dynamic_route_configs", active: "/route_config" },
];

/// Returns the active resources of a kind. The admin interface shows no private keys.
fn dumped(admin: &Access, resource: &Resource) -> Result<Vec<Value>, SystemError> {
    let dump = answered(admin, &format!("/config_dump?resource={}", resource.field))?;
    Ok(in_force(&dump, resource))
}

fn in_force(dump: &Value, resource: &Resource) -> Vec<Value> {
    let entries = dump.get("configs").and_then(Value::as_array);
    let active = entries.into_iter().flatten().filter_map(|entry| entry.pointer(resource.active));
    active.cloned().collect()
}

/// Returns true if a listener has this port and forwards requests rather than bytes.
fn takes_requests(listener: &Value, port: u16) -> bool {
    let own = listener.pointer("/address/socket_address/port_value").and_then(Value::as_u64);
    let chains = listener.get("filter_chains").and_then(Value::as_array);
    let filters = chains.into_iter().flatten().filter_map(|chain| chain.get("filters")?.as_array());
    let mut kinds = filters
        .flatten()
        .filter_map(|filter| filter.pointer("/typed_config/@type").and_then(Value::as_str));
    own == Some(port.into()) && kinds.any(|kind| kind.ends_with(".HttpConnectionManager"))
}

/// Returns the active configuration that a control plane sent to an Envoy, by resource; `None` if bakeoff did not
/// start it.
pub(crate) fn config_snapshot(node: &Access) -> Option<Result<ConfigSnapshot, SystemError>> {
    let admin = node.memory.get::<ControlledProxy>()?.admin(node);
    let mut all = ConfigSnapshot::new();
    for resource in RESOURCES {
        let things = match dumped(&admin, resource) {
            Ok(things) => things,
            Err(why) => return Some(Err(why)),
        };
        for thing in things {
            let own = thing.get("name").and_then(Value::as_str).unwrap_or_default();
            all.insert(format!("{} `{own}` of `{}`", resource.name, node.name), thing);
        }
    }
    Some(Ok(all))
}

/// Describes the configuration received by an Envoy that does not listen on its port.
fn unprogrammed(admin: &Access, node: &Access, port: u16) -> Result<String, SystemError> {
    let filter = "control_plane%7Clds%7Ccds";
    let (_, reply) = ask(admin, "GET", &format!("/stats?filter={filter}"))?;
    let mut seen = counted(&reply);
    if seen.rejected > 0
        && let Ok((200, dump)) = ask(admin, "GET", "/config_dump")
    {
        seen.why = refused(&dump);
    }
    Ok(format!("`{}` has no listener on port {port}: {seen}", node.name))
}

/// Counters of the configuration received from a control plane.
#[derive(Debug, Default, PartialEq, Eq)]
struct ConfigCounters {
    connected: bool,
    clusters: u64,
    listeners: u64,
    rejected: u64,
    why: Option<String>,
}

impl std::fmt::Display for ConfigCounters {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { connected, clusters, listeners, rejected, why } = self;
        match connected {
            true => write!(to, "its control plane is connected")?,
            false => write!(to, "no control plane is connected")?,
        }
        write!(to, ", clusters were sent {clusters} times and listeners {listeners} times")?;
        if *rejected > 0 {
            write!(to, " ({rejected} refused)")?;
        }
        why.as_ref().map_or(Ok(()), |why| write!(to, ": {why}"))
    }
}

/// Parses Envoy's counters, lines of the form `name: number`.
fn counted(stats: &str) -> ConfigCounters {
    let numbers: BTreeMap<&str, u64> = stats
        .lines()
        .filter_map(|line| line.split_once(": "))
        .filter_map(|(name, number)| Some((name, number.trim().parse().ok()?)))
        .collect();
    let of = |name: &str| numbers.get(name).copied().unwrap_or(0);
    let (cds, lds) = ("cluster_manager.cds.update_", "listener_manager.lds.update_");
    let sum = |of_what: &str| {
        of(&format!("{of_what}success")).saturating_add(of(&format!("{of_what}rejected")))
    };
    ConfigCounters {
        connected: of("control_plane.connected_state") == 1,
        clusters: sum(cds),
        listeners: sum(lds),
        rejected: of(&format!("{cds}rejected")).saturating_add(of(&format!("{lds}rejected"))),
        why: None,
    }
}

/// Returns the first reason in the dump for which Envoy rejected a resource.
fn refused(dump: &str) -> Option<String> {
    let dump: Value = serde_json::from_str(dump).ok()?;
    let mut left = vec![&dump];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(fields) => {
                let reply = fields.get("error_state").and_then(|state| state.get("details"));
                if let Some(reply) = reply.and_then(Value::as_str) {
                    return Some(units::server_text(reply));
                }
                left.extend(fields.values());
            }
            Value::Array(values) => left.extend(values),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
