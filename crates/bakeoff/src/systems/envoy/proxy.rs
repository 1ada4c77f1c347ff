//! One Envoy of a mesh: what it is started with, and whether its control plane has programmed it.
//!
//! The bootstrap is written here, alike for every control plane but for what each needs: how the proxy
//! makes itself known, and where the control plane is. Everything else Envoy is told by its control
//! plane.
//!
//! Not here: what control planes are told (`consul`, `istio`).

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use bakeoff_core::record::Setting;
use serde_json::{Value, json};

use crate::engine::transport::Target;
use crate::host::ports::Allocator;
use crate::host::{FileMode, HostError, NodeFile, NodeSpec};
use crate::systems::http_session::ask;
use crate::systems::mesh::{At, Mesh, Place, Proxy, Upstream};
use crate::systems::talk::PATIENCE;
use crate::systems::{ASKED, Access, Asked, Description, Memory, Told, Unready, setting};

/// The bootstrap's file in the proxy's folder.
const BOOTSTRAP: &str = "envoy.json";
/// The option that says how many threads pass requests on.
pub(in crate::systems) const THREADS: &str = "threads";

/// How long a proxy may take until it is programmed and passes requests on. Half a second is what it
/// takes; a tenth of a CPU makes several of it.
pub(in crate::systems) const READY_WITHIN: Duration = Duration::from_secs(30);

/// What has to be remembered of a proxy to look at it.
struct Programmed {
    admin: Target,
    port: u16,
}

/// An Envoy in its place.
pub(in crate::systems) fn describe(
    asked: &Asked<'_>,
    place: Place,
    ports: &mut Allocator,
) -> Result<Description, HostError> {
    let installed = asked.installed()?;
    let mesh = Mesh::beside(asked)?;
    let proxy = mesh.proxy(place);
    let name = asked.node_names().next().unwrap_or_default();
    let dir = asked.dir.join(&name);
    let admin = ports.take()?;
    let threads = asked.option(THREADS);
    let program = &installed.command()[0];
    let bootstrap = NodeFile {
        path: BOOTSTRAP.into(),
        contents: bootstrap(proxy, admin).to_string().into_bytes(),
        mode: FileMode::Readable,
    };
    let mut args: Vec<String> =
        ["-c", BOOTSTRAP, "--disable-hot-restart", "--log-level", "warning"]
            .map(str::to_owned)
            .to_vec();
    if let Some(threads) = threads {
        args.extend(["--concurrency".to_owned(), threads.to_owned()]);
    }
    let spec = NodeSpec {
        program: program.into(),
        args: args.into_iter().map(Into::into).collect(),
        env: installed.env(),
        files: vec![bootstrap],
        dir,
        ports: vec![("client".into(), proxy.port), ("admin".into(), admin)],
        limits: asked.system.limits.clone(),
        name,
        ..NodeSpec::default()
    };
    let spec = match &proxy.agent {
        None => spec,
        Some(agent) => agent.starting(spec, BOOTSTRAP.as_ref(), admin, threads),
    };
    let memory = Memory::default();
    let admin = Target { address: ([127, 0, 0, 1], admin).into(), tls: None };
    memory.keep(Programmed { admin, port: proxy.port });
    let mut settings = settings(proxy);
    settings.extend(threads.map(|threads| setting("concurrency", threads, ASKED)));
    Ok(Description { nodes: vec![spec], settings, memory, ..Description::default() })
}

fn settings(proxy: &Proxy) -> Vec<Setting> {
    let mut settings = vec![
        setting("log-level", "warning", "as Istio's agent starts Envoy; the same for all"),
        setting("hot restart", "off", "two proxies on one machine would share its memory"),
    ];
    if proxy.agent.is_some() {
        settings.push(setting(
            "started by",
            "pilot-agent",
            "as in the containers of a mesh of Istio's; what it uses counts with Envoy's",
        ));
    }
    settings
}

/// What Envoy is started with: who it is, and where it is told the rest.
fn bootstrap(proxy: &Proxy, admin: u16) -> Value {
    let by_ads = json!({"ads": {}, "resource_api_version": "V3"});
    let ads = proxy.clusters.first().map_or("", |cluster| cluster.name);
    json!({
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": admin}}},
        "node": proxy.node,
        // Consul tells proxies who may call them by a longer expression than Envoy takes by default, and
        // raises this in the bootstraps that it writes itself.
        "layered_runtime": {"layers": [{
            "name": "static",
            "static_layer": {"re2.max_program_size.error_level": 1_048_576},
        }]},
        "static_resources": {"clusters": proxy.clusters.iter().map(cluster).collect::<Vec<_>>()},
        "dynamic_resources": {
            "lds_config": by_ads,
            "cds_config": by_ads,
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "transport_api_version": "V3",
                "set_node_on_first_message_only": true,
                "grpc_services": [{"envoy_grpc": {"cluster_name": ads}}],
            },
        },
    })
}

fn cluster(upstream: &Upstream) -> Value {
    let address = match upstream.at {
        At::Port(port) => {
            json!({"socket_address": {"address": "127.0.0.1", "port_value": port}})
        }
        At::Pipe(path) => json!({"pipe": {"path": path}}),
    };
    json!({
        "name": upstream.name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            },
        },
        "load_assignment": {
            "cluster_name": upstream.name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
    })
}

impl Programmed {
    /// The administration of a node's Envoy.
    fn admin(&self, node: &Access) -> Access {
        Access {
            name: format!("{}'s Envoy", node.name),
            authority: self.admin.address.to_string(),
            target: self.admin.clone(),
            memory: Memory::default(),
        }
    }
}

/// Whether Envoy passes requests on where its control plane was to tell it to; an error tells what it
/// was told instead.
pub(in crate::systems) fn look(node: &Access) -> Result<(), Unready> {
    let known = node.memory.get::<Programmed>().ok_or("it was not described")?;
    let admin = known.admin(node);
    let (status, said) = ask(&admin, "GET", "/listeners?format=json")?;
    let listeners: Value = serde_json::from_str(&said)
        .map_err(|_| format!("{} answered {status}: {}", admin.name, said.trim()))?;
    if !listens(&listeners, known.port) {
        return Err(unprogrammed(&admin, node, known.port)?.into());
    }
    let listeners = dumped(&admin, LISTENERS)?;
    if !listeners.iter().any(|listener| takes_requests(listener, known.port)) {
        return Err(format!(
            "`{}` has been told to pass on bytes rather than requests at port {}",
            node.name, known.port
        )
        .into());
    }
    // The listener is known to Envoy before its workers have it.
    TcpStream::connect_timeout(&node.target.address, PATIENCE)
        .map_err(|error| format!("`{}` at {}: {error}", node.name, node.authority))?;
    Ok(())
}

/// Whether one of the listeners in what Envoy's administration says has this port.
fn listens(listeners: &Value, port: u16) -> bool {
    let statuses = listeners.get("listener_statuses").and_then(Value::as_array);
    let port_of =
        |status: &Value| status.pointer("/local_address/socket_address/port_value")?.as_u64();
    statuses.into_iter().flatten().any(|status| port_of(status) == Some(port.into()))
}

/// A kind of things that Envoy is told by its control plane.
struct Resource {
    name: &'static str,
    /// Its field in Envoy's dump.
    field: &'static str,
    /// Where an entry of that field has the thing as it is in force.
    active: &'static str,
}

const LISTENERS: &Resource =
    &Resource { name: "listener", field: "dynamic_listeners", active: "/active_state/listener" };
const RESOURCES: [&Resource; 3] = [
    LISTENERS,
    &Resource { name: "cluster", field: "dynamic_active_clusters", active: "/cluster" },
    &Resource { name: "route", field: "dynamic_route_configs", active: "/route_config" },
];

/// The things of a kind that are in force, as Envoy's administration shows them: without keys.
fn dumped(admin: &Access, resource: &Resource) -> Result<Vec<Value>, String> {
    let (status, said) = ask(admin, "GET", &format!("/config_dump?resource={}", resource.field))?;
    let dump: Value = serde_json::from_str(&said)
        .map_err(|_| format!("{} answered {status}: {}", admin.name, said.trim()))?;
    Ok(in_force(&dump, resource))
}

fn in_force(dump: &Value, resource: &Resource) -> Vec<Value> {
    let entries = dump.get("configs").and_then(Value::as_array);
    let active = entries.into_iter().flatten().filter_map(|entry| entry.pointer(resource.active));
    active.cloned().collect()
}

/// Whether a listener is of this port and passes requests on, rather than bytes.
fn takes_requests(listener: &Value, port: u16) -> bool {
    let own = listener.pointer("/address/socket_address/port_value").and_then(Value::as_u64);
    let chains = listener.get("filter_chains").and_then(Value::as_array);
    let filters = chains.into_iter().flatten().filter_map(|chain| chain.get("filters")?.as_array());
    let mut kinds = filters
        .flatten()
        .filter_map(|filter| filter.pointer("/typed_config/@type").and_then(Value::as_str));
    own == Some(port.into()) && kinds.any(|kind| kind.ends_with(".HttpConnectionManager"))
}

/// All that a control plane has told an Envoy and that is in force, by what it is; `None` for one that
/// was not started here.
pub(in crate::systems) fn told(node: &Access) -> Option<Result<Told, String>> {
    let admin = node.memory.get::<Programmed>()?.admin(node);
    let mut all = Told::new();
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

/// What a control plane has told an Envoy that does not listen.
fn unprogrammed(admin: &Access, node: &Access, port: u16) -> Result<String, String> {
    let filter = "control_plane%7Clds%7Ccds";
    let (_, said) = ask(admin, "GET", &format!("/stats?filter={filter}"))?;
    let mut seen = counted(&said);
    if seen.rejected > 0
        && let Ok((200, dump)) = ask(admin, "GET", "/config_dump")
    {
        seen.why = refused(&dump);
    }
    Ok(format!("`{}` has not been told to listen on port {port}: {seen}", node.name))
}

/// What came of what the control plane sent.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sent {
    connected: bool,
    clusters: u64,
    listeners: u64,
    rejected: u64,
    why: Option<String>,
}

impl std::fmt::Display for Sent {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { connected, clusters, listeners, rejected, why } = self;
        match connected {
            true => write!(to, "its control plane is connected")?,
            false => write!(to, "no control plane is connected")?,
        }
        write!(to, ", clusters were sent {clusters} times and listeners {listeners} times")?;
        if *rejected > 0 {
            write!(to, ", {rejected} of which it refused")?;
        }
        why.as_ref().map_or(Ok(()), |why| write!(to, ": {why}"))
    }
}

/// Reads Envoy's counters, `name: number` lines.
fn counted(stats: &str) -> Sent {
    let numbers: BTreeMap<&str, u64> = stats
        .lines()
        .filter_map(|line| line.split_once(": "))
        .filter_map(|(name, number)| Some((name, number.trim().parse().ok()?)))
        .collect();
    let of = |name: &str| numbers.get(name).copied().unwrap_or(0);
    let (cds, lds) = ("cluster_manager.cds.update_", "listener_manager.lds.update_");
    let sum = |of_what: &str| of(&format!("{of_what}success")) + of(&format!("{of_what}rejected"));
    Sent {
        connected: of("control_plane.connected_state") == 1,
        clusters: sum(cds),
        listeners: sum(lds),
        rejected: of(&format!("{cds}rejected")) + of(&format!("{lds}rejected")),
        why: None,
    }
}

/// Why Envoy refused what it was sent: the first reason in its dump.
fn refused(dump: &str) -> Option<String> {
    let dump: Value = serde_json::from_str(dump).ok()?;
    let mut left = vec![&dump];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(fields) => {
                let said = fields.get("error_state").and_then(|state| state.get("details"));
                if let Some(said) = said.and_then(Value::as_str) {
                    return Some(said.to_owned());
                }
                left.extend(fields.values());
            }
            Value::Array(values) => left.extend(values),
            _ => {}
        }
    }
    None
}

/// What a port of the mesh does with a request that is not encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::systems) enum Plain {
    /// It answers it.
    Answered(String),
    /// It does not.
    Refused,
}

/// Asks a proxy for something in plain HTTP.
pub(in crate::systems) fn plain(node: &Access) -> Result<Plain, String> {
    let at = |error| format!("`{}` at {}: {error}", node.name, node.authority);
    let mut socket = TcpStream::connect_timeout(&node.target.address, PATIENCE).map_err(at)?;
    socket.set_read_timeout(Some(PATIENCE)).map_err(at)?;
    socket.set_write_timeout(Some(PATIENCE)).map_err(at)?;
    let request =
        format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", node.authority);
    // Whoever wants TLS may hang up before all of it is sent.
    let mut answer = [0; 64];
    let count = match socket.write_all(request.as_bytes()).and_then(|()| socket.read(&mut answer)) {
        Ok(count) => count,
        Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
            return Err(at(io::Error::other("it neither answers a plain request nor hangs up")));
        }
        Err(_) => 0,
    };
    let said = String::from_utf8_lossy(&answer[..count]).into_owned();
    Ok(match said.strip_prefix("HTTP/") {
        Some(_) => Plain::Answered(said.lines().next().unwrap_or_default().to_owned()),
        None => Plain::Refused,
    })
}

#[cfg(test)]
mod tests;
