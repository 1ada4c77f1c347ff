//! Runs HAProxy in front of a cluster: clients connect to it, and it chooses the node for each connection or request.
//!
//! `to: leader` sends everything to the leader, `to: all` to every node that can serve. HAProxy finds these nodes
//! itself with HTTP health checks at the system's paths (`System::health`), as the vendors document it. `mode: tcp`
//! forwards connections with TLS untouched. `mode: http` forwards requests, which needs nodes without TLS.
//!
//! HAProxy is ready once its statistics show the expected number of nodes up after the first checks. Before its first
//! check it assumes that a node is up.
//!
//! Not here: the paths of the checks (each system's).

pub(crate) mod recipe;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::net::SocketAddr;

use bakeoff_core::record::Guarantees;
use bakeoff_core::study::{self, Kind, KindOption, OptionForm};
use bakeoff_engine::transport::Target;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{FileMode, HostError, NodeFile, NodeSpec};
use rustix::process::{Resource, getrlimit};

use super::declaration::{Declaration, GuaranteeRules, Origin};
use super::http_session::ask;
use super::{
    ASKED, Access, COMPOSITE, ClusterStatus, DescribeContext, Description, Memory, NotReady,
    System, setting,
};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &HaProxy;

#[derive(Debug)]
pub(crate) struct HaProxy;

const OPTIONS: &[KindOption] = &[
    KindOption {
        name: "to",
        form: OptionForm::Word(&["all", "leader"]),
        meaning: "nodes that get requests; all that can serve when absent",
    },
    KindOption {
        name: "mode",
        form: OptionForm::Word(&["tcp", "http"]),
        meaning: "whether it forwards connections or requests; connections when absent",
    },
    KindOption {
        name: "balance",
        form: OptionForm::Word(&["roundrobin", "leastconn"]),
        meaning: "choice of the next node; roundrobin when absent",
    },
    KindOption {
        name: "threads",
        form: OptionForm::Number,
        meaning: "number of threads; one per CPU when absent",
    },
];

/// Most client connections.
const CONNECTIONS_MAX: u64 = 20_000;
/// Interval between checks of each node. HAProxy's default is 2 s, and a change takes three answers.
const INTERVAL: &str = "500ms";
/// Longest idle time of a connection, longer than a study's load.
const IDLE: &str = "1h";

/// Values that a probe needs.
struct Front {
    statistics: Target,
    /// True if exactly one node must be up; otherwise all of `nodes`.
    to_leader: bool,
    nodes: usize,
}

impl System for HaProxy {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, ..GuaranteeRules::default() },
            ..Declaration::new(
                Kind { options: OPTIONS, ..Kind::new("haproxy") },
                Origin::Recipe(&recipe::RECIPE),
            )
        }
    }

    fn describe(
        &self,
        context: &DescribeContext<'_>,
        ports: &mut Allocator,
    ) -> Result<Description, HostError> {
        let installed = context.installed()?;
        let name = context.node_names().next().unwrap_or_default();
        let unsound =
            |problem: &str| HostError::Spec { node: name.clone(), problem: problem.into() };
        let fronted =
            context.neighbour(COMPOSITE).ok_or_else(|| unsound("it has no system behind it"))?;
        let health = fronted.system.declares().health;
        let health = health.ok_or_else(|| unsound("the system behind it has no health check"))?;
        let tls = fronted.nodes.iter().any(|node| node.target.tls.is_some());
        if tls && context.option("mode") == Some("http") {
            return Err(unsound("`mode: http` cannot pass TLS through; use `mode: tcp`"));
        }
        let to_leader = context.option("to") == Some("leader");
        let location = context.location(0);
        let (client, statistics) = (ports.take_for(location)?, ports.take_for(location)?);
        let plan = Plan {
            mode: context.option("mode").unwrap_or("tcp"),
            balance: context.option("balance").unwrap_or("roundrobin"),
            threads: context.option("threads"),
            connections: connections_max(),
            client: location.at(client),
            statistics: location.at(statistics),
            path: if to_leader { health.leader } else { health.any },
            tls,
            nodes: &fronted.nodes,
        };
        let node = NodeSpec {
            program: (&installed.command()[0]).into(),
            // Run in the foreground as one process that a signal ends.
            args: ["-db", "-f", "haproxy.cfg"].map(Into::into).to_vec(),
            env: installed.env(),
            files: vec![NodeFile {
                path: "haproxy.cfg".into(),
                contents: plan.configuration().into_bytes(),
                mode: FileMode::Readable,
            }],
            location,
            ports: vec![("client".into(), client), ("statistics".into(), statistics)],
            limits: context.system.limits.clone(),
            dir: context.dir.join(&name),
            name,
            ..NodeSpec::default()
        };
        let memory = Memory::default();
        memory.keep(Front {
            statistics: Target { address: location.at(statistics), tls: None },
            to_leader,
            nodes: fronted.nodes.len(),
        });
        let settings = plan.settings(context);
        Ok(Description { nodes: vec![node], settings, memory, ..Description::default() })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        let node = nodes.first().ok_or("it has no nodes")?;
        let front = node.memory.get::<Front>().ok_or("it was not started here")?;
        let statistics = Access {
            authority: front.statistics.address.to_string(),
            target: front.statistics.clone(),
            ..node.clone()
        };
        let (status, csv) = ask(&statistics, "GET", "/;csv")?;
        if status != 200 {
            return Err(format!("`{}`: its statistics answered {status}", node.name).into());
        }
        let up = nodes_up(&csv).map_err(|why| format!("`{}`: {why}", node.name))?;
        let wanted = if front.to_leader { 1 } else { front.nodes };
        if up.len() != wanted {
            let up = if up.is_empty() { "none".into() } else { up.join(", ") };
            let what = if front.to_leader { "one node" } else { "all nodes" };
            return Err(
                format!("`{}` should send to {what}, but these are up: {up}", node.name).into()
            );
        }
        Ok(ClusterStatus::default())
    }
}

/// Returns the guarantees under these options.
fn guarantees(system: &study::System) -> Guarantees {
    let reads = match super::option(system, "to") {
        Some("leader") => "the leader's answer",
        _ => "the answer of the chosen node",
    };
    Guarantees {
        replication: "none: it has no data".into(),
        acknowledged: "when the node behind it does".into(),
        reads: reads.into(),
        ..Guarantees::default()
    }
}

/// Returns the limit of client connections. Each needs two files: one more for the connection to a node.
fn connections_max() -> u64 {
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    (files.saturating_sub(100) / 2).clamp(100, CONNECTIONS_MAX)
}

/// Values of a configuration.
struct Plan<'a> {
    mode: &'a str,
    balance: &'a str,
    threads: Option<&'a str>,
    connections: u64,
    client: SocketAddr,
    statistics: SocketAddr,
    /// Path of each node's health check.
    path: &'a str,
    tls: bool,
    nodes: &'a [Access],
}

impl Plan<'_> {
    fn configuration(&self) -> String {
        let Self { mode, balance, connections, client, statistics, path, .. } = self;
        let mut text = format!("global\n    maxconn {connections}\n");
        if let Some(threads) = self.threads {
            let _ = writeln!(text, "    nbthread {threads}");
        }
        let _ = write!(
            text,
            "defaults\n    \
                 timeout connect 5s\n    \
                 timeout client {IDLE}\n    \
                 timeout server {IDLE}\n\
             frontend clients\n    \
                 mode {mode}\n    \
                 bind {client}\n    \
                 default_backend nodes\n\
             backend nodes\n    \
                 mode {mode}\n    \
                 balance {balance}\n    \
                 option httpchk\n    \
                 http-check send meth GET uri {path} ver HTTP/1.1 hdr Host bakeoff\n    \
                 http-check expect status 200\n    \
                 default-server inter {INTERVAL} fall 1 rise 1\n"
        );
        // Health checks need no verified certificate, because clients verify the nodes.
        let check = if self.tls { "check check-ssl verify none" } else { "check" };
        for node in self.nodes {
            let _ = writeln!(text, "    server {} {} {check}", node.name, node.target.address);
        }
        let _ = write!(
            text,
            "frontend statistics\n    \
                 mode http\n    \
                 bind {statistics}\n    \
                 stats enable\n    \
                 stats uri /\n"
        );
        text
    }

    fn settings(&self, context: &DescribeContext<'_>) -> Vec<bakeoff_core::record::Setting> {
        let mut settings = vec![
            setting(
                "maxconn",
                self.connections,
                "otherwise derived from the limit of open files, which varies",
            ),
            setting(
                "timeout client, server",
                IDLE,
                "it warns without one; the value exceeds any load, so no connection is cut",
            ),
            setting("timeout connect", "5s", "it warns without one"),
            setting("httpchk", self.path, "what the vendor documents for a load balancer"),
            setting(
                "inter, fall, rise",
                format!("{INTERVAL}, 1, 1"),
                "it finds a new leader within half a second instead of six",
            ),
        ];
        for option in OPTIONS {
            settings.extend(context.option(option.name).map(|it| setting(option.name, it, ASKED)));
        }
        settings
    }
}

/// Reason why statistics do not show which nodes are up.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum StatisticsError {
    #[error("its statistics have no `{0}`")]
    NoColumn(&'static str),
    /// The node was not checked yet but counts as up.
    #[error("it has not yet checked `{0}`")]
    NotAsked(String),
}

/// Returns the names of the nodes that are up, from the statistics as CSV. Fails if a node was not checked yet: it
/// then counts as up and gets requests.
fn nodes_up(csv: &str) -> Result<Vec<&str>, StatisticsError> {
    let mut lines = csv.lines();
    let head = lines.next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
    let head: Vec<&str> = head.split(',').collect();
    let column = |name: &'static str| {
        let found = head.iter().position(|&column| column == name);
        found.ok_or(StatisticsError::NoColumn(name))
    };
    let (proxy, server) = (column("pxname")?, column("svname")?);
    let (status, check) = (column("status")?, column("check_status")?);
    let mut up = Vec::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let field = |column: usize| fields.get(column).copied().unwrap_or_default();
        if field(proxy) != "nodes" || field(server) == "BACKEND" {
            continue;
        }
        // `* ` marks a check in progress.
        if matches!(field(check).trim_start_matches("* "), "" | "INI") {
            return Err(StatisticsError::NotAsked(field(server).to_owned()));
        }
        if field(status).starts_with("UP") {
            up.push(field(server));
        }
    }
    Ok(up)
}
