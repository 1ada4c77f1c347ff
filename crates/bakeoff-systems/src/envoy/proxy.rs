//! Describes one Envoy of a mesh: its bootstrap, and a probe with plain requests.
//!
//! The bootstrap differs between control planes only in the identity of the proxy and the address of the control
//! plane. Envoy gets everything else from its control plane.
//!
//! Not here: the configuration of control planes (`consul`, `istio`), the configuration that Envoy received (`admin`).

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

use bakeoff_core::record::Setting;
use bakeoff_engine::routes;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{FileMode, HostError, NodeFile, NodeSpec};
use serde_json::{Value, json};

use super::admin::ControlledProxy;
use crate::exchange::PATIENCE;
use crate::mesh::{Mesh, Place, Proxy, ProxyEndpoint, Upstream};
use crate::{ASKED, Access, DescribeContext, Description, Memory, SystemError, setting};

/// Name of the bootstrap file in the proxy's folder.
const BOOTSTRAP: &str = "envoy.json";
/// Option for the number of threads that forward requests.
pub(crate) const THREADS: &str = "threads";

/// Longest time until a proxy is configured and forwards requests. Usually this takes half a second, but several
/// seconds with a tenth of a CPU.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(30);

/// Describes the Envoy of the gateway or of the sidecar.
pub(crate) fn describe(
    context: &DescribeContext<'_>,
    place: Place,
    ports: &mut Allocator,
) -> Result<Description, HostError> {
    let installed = context.installed()?;
    let mesh = Mesh::adjacent(context)?;
    let proxy = mesh.proxy(place);
    let name = context.node_names().next().unwrap_or_default();
    let dir = context.dir.join(&name);
    let location = context.location(0);
    let admin = ports.take_for(location)?;
    let threads = context.option(THREADS);
    let program = &installed.command()[0];
    let bootstrap = NodeFile {
        path: BOOTSTRAP.into(),
        contents: bootstrap(proxy, location.at(admin)).to_string().into_bytes(),
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
        location,
        ports: vec![("client".into(), proxy.port), ("admin".into(), admin)],
        limits: context.system.limits.clone(),
        name,
        ..NodeSpec::default()
    };
    let spec = match &proxy.agent {
        None => spec,
        Some(agent) => agent.starting(spec, BOOTSTRAP.as_ref(), admin, threads),
    };
    let memory = Memory::default();
    memory.keep(ControlledProxy::new(location.at(admin), proxy.port));
    let mut settings = settings(proxy);
    settings.extend(threads.map(|threads| setting("concurrency", threads, ASKED)));
    Ok(Description { nodes: vec![spec], settings, memory, ..Description::default() })
}

fn settings(proxy: &Proxy) -> Vec<Setting> {
    let mut settings = vec![
        setting(
            "log-level",
            "warning",
            "as Istio's agent starts Envoy; used for every control plane",
        ),
        setting("hot restart", "off", "two proxies on one machine would share its memory"),
    ];
    if proxy.agent.is_some() {
        settings.push(setting(
            "started by",
            "pilot-agent",
            "as in the containers of an Istio mesh; its usage counts with Envoy's",
        ));
    }
    settings
}

/// Returns Envoy's bootstrap: its identity, and the address of its control plane.
fn bootstrap(proxy: &Proxy, admin: SocketAddr) -> Value {
    let by_ads = json!({"ads": {}, "resource_api_version": "V3"});
    let ads = proxy.clusters.first().map_or("", |cluster| cluster.name);
    json!({
        "admin": {"address": socket(admin)},
        "node": proxy.node,
        // Consul's expression for allowed callers exceeds Envoy's default limit. Consul raises it too in the
        // bootstraps that it writes itself.
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

/// Returns an address in Envoy's format.
fn socket(at: SocketAddr) -> Value {
    json!({"socket_address": {"address": at.ip(), "port_value": at.port()}})
}

fn cluster(upstream: &Upstream) -> Value {
    let address = match upstream.at {
        ProxyEndpoint::Address(address) => socket(address),
        ProxyEndpoint::Pipe(path) => json!({"pipe": {"path": path}}),
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

/// Reaction of a mesh port to an unencrypted request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plain {
    /// Answered, with this reply.
    Answered(String),
    /// Refused.
    Refused,
}

/// Sends a plain HTTP request to a proxy.
pub(crate) fn plain(node: &Access) -> Result<Plain, SystemError> {
    let at = |error| SystemError::unreachable(node, error);
    let mut socket = routes::connect(node.target.address, PATIENCE).map_err(at)?;
    socket.set_read_timeout(Some(PATIENCE)).map_err(at)?;
    socket.set_write_timeout(Some(PATIENCE)).map_err(at)?;
    let request =
        format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", node.authority);
    // A server that wants TLS may close the connection before the whole request is sent.
    let mut answer = [0; 64];
    let count = match socket.write_all(request.as_bytes()).and_then(|()| socket.read(&mut answer)) {
        Ok(count) => count,
        Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
            return Err(at(io::Error::other(
                "it neither answers a plain request nor closes the connection",
            )));
        }
        Err(_) => 0,
    };
    let reply = String::from_utf8_lossy(&answer[..count]).into_owned();
    Ok(match reply.strip_prefix("HTTP/") {
        Some(_) => Plain::Answered(reply.lines().next().unwrap_or_default().to_owned()),
        None => Plain::Refused,
    })
}
