//! Runs a cluster of Consul servers and opens sessions to its key-value store. Also runs it as the control plane of a
//! service mesh.
//!
//! Consul syncs its Raft log before it acknowledges a write. bakeoff leaves that on, and Raft's timing at its default,
//! unless the study sets it.
//!
//! Not here: the wire format (`bakeoff_wire::http1`), timing (`engine`).

mod kv_api;
mod lock;
mod mesh;
pub(crate) mod recipe;
mod transaction;
mod watch_session;

use std::sync::Arc;

use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::{Freshness, Guarantees};
use bakeoff_core::study::fault::MaintenanceRun;
use bakeoff_core::study::{
    self, CredentialForm, GROUP, GUARD, Kill, Kind, KindOption, LEASE_TTL, Maintenance,
    MaintenanceOffer, MaintenanceScope, Operation, OptionForm, ReadConsistency,
};
use bakeoff_core::watch::{Delivery, WatchGuarantee, Watches};
use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_engine::EngineError;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{FileMode, HostError, NodeFile, NodeSpec};
use rustix::process::{Resource, getrlimit};

use self::kv_api::KvApi;
use self::watch_session::ConsulWatchSession;
use super::declaration::{
    Clients, ConnectionLimit, Declaration, GuaranteeRules, Hooks, InKubernetes, KubernetesRole,
    Origin, Plane, never_offered,
};
use super::exchange::Patience;
use super::http_session::{HttpSession, Question, question, snapshot};
use super::mesh::CONTROL_PLANE;
use super::{
    ASKED, Access, ClientToken, ClusterStatus, DescribeContext, Description, KvLoad, Memory,
    NotReady, System, SystemError, http_status_text, majority_disks, setting, synced_by,
};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &Consul;

#[derive(Debug)]
pub(crate) struct Consul;

const OPTIONS: &[KindOption] = &[KindOption {
    name: "raft-multiplier",
    form: OptionForm::Number,
    meaning: "multiplier of Raft's timeouts; HashiCorp advises 1 for production, the default is 5",
}];

/// A lease is a session.
const OPERATIONS: &[Operation] = &Operation::extended::<11>(
    Operation::CONDITIONAL,
    &[
        Operation::GrantLease,
        Operation::KeepLease,
        Operation::Lock,
        Operation::Look,
        Operation::Move,
    ],
);

const OFFERS: &[MaintenanceOffer] =
    &[MaintenanceOffer::new(Maintenance::Snapshot, MaintenanceScope::System)];

/// Blocking queries. An answer holds the state, so versions between two answers are never seen.
const WATCHES: Watches = Watches {
    form: "blocking query",
    delivery: Delivery::Latest,
    guarantees: &[WatchGuarantee::Ordered, WatchGuarantee::Reliable],
    per_connection_max: 1,
    previous: false,
    prefix: true,
    oldest: false,
};

impl System for Consul {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, freshness },
            clients: Clients { http: true, alpn: &[b"http/1.1"], ..Clients::default() },
            hooks: Hooks {
                connection_limit: Some(connection_limit),
                maintain: Some(maintain),
                watch: Some(|node| Box::new(ConsulWatchSession::new(node))),
                ..Hooks::default()
            },
            in_kubernetes: Some(InKubernetes {
                does: KubernetesRole::Controls(Plane::Consul),
                carries: &[("raft-multiplier", None)],
            }),
            announces: true,
            ..Declaration::new(
                Kind {
                    operations: OPERATIONS,
                    parameters: &[LEASE_TTL, GROUP, GUARD],
                    watches: Some(WATCHES),
                    reads: ReadConsistency::REQUESTED,
                    options: OPTIONS,
                    maintenance: OFFERS,
                    nodes_max: 9,
                    value_size_max: 512 << 10, // kv_max_value_size
                    in_flight_max: 1,          // HTTP/1.1
                    credentials: CredentialForm::Token,
                    kill: Kill::UnderLoad,
                    ..Kind::new("consul")
                },
                Origin::Recipe(&recipe::RECIPE),
            )
        }
    }

    fn describe(
        &self,
        context: &DescribeContext<'_>,
        ports: &mut Allocator,
    ) -> Result<Description, HostError> {
        let program = context.program.expect("Consul is not part of bakeoff").command();
        let mut nodes = Vec::new();
        for (name, location) in context.located() {
            let mut port = || ports.take_for(location);
            nodes.push((name, location, port()?, port()?, port()?, port()?));
        }
        let memory = Memory::default();
        let mesh = match context.role {
            CONTROL_PLANE => Some(mesh::Plan::allocate(context, ports)?),
            _ => None,
        };
        let joins: Vec<String> =
            nodes.iter().map(|(_, location, _, serf, ..)| location.at(*serf).to_string()).collect();
        let connections = connections_max();
        let mut settings = vec![
            setting(
                "limits.http_max_conns_per_client",
                connections,
                "all clients have one address, and the default limit is 200 connections per address",
            ),
            setting("disable_update_check", true, "bakeoff's servers only contact this machine"),
            setting("ports.dns, serf_wan, grpc_tls", -1, "they are unused and would need ports"),
        ];
        let mut performance = serde_json::Map::new();
        if let Some(multiplier) = context.option("raft-multiplier") {
            settings.push(setting("performance.raft_multiplier", multiplier, ASKED));
            performance.insert(
                "raft_multiplier".into(),
                multiplier.parse().unwrap_or(serde_json::Value::Null),
            );
        }
        if let (Some(mesh), Some((_, location, .., grpc))) = (&mesh, nodes.first()) {
            settings.extend(mesh::settings());
            memory.keep(mesh.mesh(location.at(*grpc)));
        }
        let count = nodes.len();
        let first = nodes.first().map(|(name, ..)| name.clone());
        let specs = nodes.into_iter().map(|(name, location, client, serf, server, grpc)| {
            let dir = context.dir.join(&name);
            let mut config = serde_json::json!({
                "node_name": name,
                "server": true,
                "bootstrap_expect": count,
                "data_dir": dir.join("data"),
                "bind_addr": location.listens(),
                "client_addr": location.listens(),
                "ports": {
                    "http": client, "serf_lan": serf, "server": server, "grpc": grpc,
                    "dns": -1, "serf_wan": -1, "grpc_tls": -1,
                },
                "retry_join": joins,
                "retry_interval": "1s",
                "disable_update_check": true,
                "limits": {"http_max_conns_per_client": connections},
                "performance": performance,
            });
            if location.relayed_to.is_some() {
                config["advertise_addr"] = serde_json::json!(location.address);
            }
            if let Some(mesh) = &mesh {
                mesh.add_to(&mut config, first.as_ref() == Some(&name));
            }
            NodeSpec {
                program: (&program[0]).into(),
                args: vec!["agent".into(), "-config-file".into(), dir.join("consul.json").into()],
                env: Vec::new(),
                files: vec![NodeFile {
                    path: "consul.json".into(),
                    contents: config.to_string().into_bytes(),
                    mode: FileMode::Readable,
                }],
                dir,
                location,
                ports: vec![
                    ("client".into(), client),
                    ("serf".into(), serf),
                    ("server".into(), server),
                    ("grpc".into(), grpc),
                ],
                limits: context.system.limits.clone(),
                name,
                ..NodeSpec::default()
            }
        });
        Ok(Description { nodes: specs.collect(), settings, memory, ..Description::default() })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        let mut view = ClusterStatus::default();
        for (index, node) in nodes.iter().enumerate() {
            // This read of a missing key needs a leader, so an answer proves that the node knows one and serves.
            let (status, body) = ask(node, "GET", "/v1/kv/bakeoff/looks?consistent")?;
            if status != 200 && status != 404 {
                return Err(not_served(node, status, &body));
            }
            let (status, body) = ask(node, "GET", "/v1/agent/self")?;
            // The token may only allow key access. The leader is then unknown.
            if status == 403 {
                continue;
            }
            let about: serde_json::Value =
                serde_json::from_str(&body).map_err(|_| answered(node, status, &body))?;
            if about.pointer("/Stats/consul/leader").and_then(|reply| reply.as_str())
                == Some("true")
            {
                view.leader = Some(index);
            }
            if let Some(version) = about.pointer("/Config/Version").and_then(|reply| reply.as_str())
            {
                view.version = Some(version.to_owned());
            }
        }
        Ok(view)
    }

    fn removal(&self, node: &Access) -> Option<String> {
        let (scheme, trusts) = match node.target.tls {
            Some(_) => ("https", " -ca-file=FILE"),
            None => ("http", ""),
        };
        let token = node.memory.get::<ClientToken>().map_or("", |_| " -token-file=FILE");
        let authority = &node.authority;
        Some(format!(
            "consul kv delete -http-addr={scheme}://{authority}{trusts}{token} -recurse {KEY_PREFIX}"
        ))
    }

    fn clear(&self, node: &Access) -> Result<(), SystemError> {
        match ask(node, "DELETE", &format!("/v1/kv/{KEY_PREFIX}?recurse"))? {
            (200, _) => Ok(()),
            (status, body) => Err(answered(node, status, &body)),
        }
    }

    fn drive(&self, load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
        let (lease_seconds, fences) = (load.keyed.lease_seconds, load.keyed.fences);
        load.over(move |node| HttpSession::new(node, KvApi::new(node, lease_seconds, fences)))
    }
}

/// Header with a client's token.
const TOKEN: &str = "X-Consul-Token";

/// Sends one request outside of a load, with the token of its clients, if there is one.
fn ask(node: &Access, method: &str, target: &str) -> Result<(u16, String), SystemError> {
    let token: Option<Arc<ClientToken>> = node.memory.get();
    let header = token.as_ref().map(|token| (TOKEN, token.0.as_str()));
    let headers = header.as_slice();
    let reply = question(node, &Question { method, target, headers, ..Question::default() })?;
    Ok((reply.status, reply.body))
}

/// Returns the error for an unsuccessful answer.
fn answered(node: &Access, status: u16, body: &str) -> SystemError {
    let answer = http_status_text(status, body.as_bytes());
    SystemError::answered(node, format!("answered {answer}"))
}

/// Returns the reason why a node does not serve keys.
fn not_served(node: &Access, status: u16, body: &str) -> NotReady {
    let seen = answered(node, status, body);
    match (status, node.memory.get::<ClientToken>()) {
        (401 | 403, None) => NotReady::Never {
            seen: seen.to_string(),
            hint: "its ACLs need a token that may read and write keys below `bakeoff/`: add \
                   `credentials: {token: $CONSUL_HTTP_TOKEN}`"
                .to_owned(),
        },
        (401 | 403, Some(_)) => NotReady::Never {
            seen: seen.to_string(),
            hint: "its ACLs refuse the token in the study's `credentials`, which must be able to read and write keys \
                   below `bakeoff/`"
                .to_owned(),
        },
        // For example `No cluster leader`.
        (500.., _) => NotReady::NotYet(seen.to_string()),
        _ => seen.into(),
    }
}

fn maintain(
    node: &Access,
    run: &MaintenanceRun,
    patience: Patience<'_>,
) -> Result<String, SystemError> {
    match run.operation {
        Maintenance::Snapshot => snapshot(node, "/v1/snapshot", &[], patience),
        operation => Err(never_offered(node, operation)),
    }
}

/// Returns the guarantees under these options.
fn guarantees(system: &study::System) -> Guarantees {
    Guarantees {
        replication: "Raft: every server holds all data; a majority must live".into(),
        acknowledged: synced_by(system).into(),
        reads: "by default from the leader, stale only if it was just deposed; linearizable reads \
                (`consistent`) ask a majority first; `stale` ones answer from the contacted node"
            .into(),
        acknowledged_in: Some(majority_disks(system)),
        ..Guarantees::default()
    }
}

/// Returns the freshness of reads.
fn freshness(_: &study::System, reads: ReadConsistency) -> Freshness {
    match reads {
        ReadConsistency::Default => Freshness::Leader,
        ReadConsistency::Stale => Freshness::NodeAsked,
        ReadConsistency::Linearizable | ReadConsistency::Freshest => Freshness::Linearizable,
    }
}

/// Returns an agent's limit of connections per address, if the token may read its settings.
fn connection_limit(node: &Access) -> Option<ConnectionLimit> {
    let (_, body) = ask(node, "GET", "/v1/agent/self").ok()?;
    let about: serde_json::Value = serde_json::from_str(&body).ok()?;
    let connections = about.pointer("/DebugConfig/HTTPMaxConnsPerClient")?.as_u64()?;
    let setting = "limits.http_max_conns_per_client";
    (connections > 0).then_some(ConnectionLimit { connections, setting })
}

/// Returns the limit of connections per address for bakeoff's servers. Consul refuses to start with a limit above the
/// number of files that it may open, which it inherits from bakeoff.
fn connections_max() -> u64 {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    files.saturating_sub(FILES_OF_ITS_OWN).clamp(200, 100_000)
}

/// Files reserved for the server itself.
const FILES_OF_ITS_OWN: u64 = 500;
