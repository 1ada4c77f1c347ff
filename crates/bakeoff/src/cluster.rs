//! A system's running servers: launched, then ready, then loaded, then stopped.
//!
//! Only a [`Ready`] cluster can be loaded; there is no other way to get one than to wait for its
//! leader. A system that runs already goes the same way, but nothing of it is started or stopped.
//!
//! Not here: how processes are run (`host`), what a system needs (`systems`).

use std::net::ToSocketAddrs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_core::study::{self, Endpoint, Targets};

use crate::engine::transport::{Target, TlsTarget};
use crate::failure::Failure;
use crate::host::{self, Host, HostError, LimitsApplied, Probe, Process, terminate_all};
use crate::systems::{Access, Description, System, View};
use crate::tls;

/// How long a fresh cluster may take to elect a leader.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long a cluster may take that first reads back what it had written before it was killed.
const RECOVERED_WITHIN: Duration = Duration::from_secs(300);
/// How long a system that runs already may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long servers may take to end when asked. Their data is thrown away next, so that nothing is
/// gained by waiting for all that they would still do: an etcd that leads, for one, spends 7 s on
/// handing that on to a node that is ending too.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Servers that were started and are not known to be ready.
pub(crate) struct Launched {
    /// The study's name for it.
    name: String,
    /// How long it may take to have a leader.
    within: Duration,
    system: &'static dyn System,
    processes: Vec<Process>,
    nodes: Vec<Access>,
}

/// A cluster that has a leader.
pub(crate) struct Ready {
    name: String,
    system: &'static dyn System,
    processes: Vec<Process>,
    pub(crate) nodes: Vec<Access>,
    pub(crate) view: View,
    /// From launch to leader.
    pub(crate) after: Duration,
}

/// Starts the nodes of a description on this machine.
pub(crate) fn launch(
    name: &str,
    system: &'static dyn System,
    description: Description,
    trial_dir: &Path,
) -> Result<Launched, HostError> {
    let host = Host::new(trial_dir)?;
    let processes = description
        .nodes
        .into_iter()
        .map(|spec| host.launch(spec))
        .collect::<Result<Vec<_>, _>>()?;
    let nodes = processes.iter().map(|process| {
        let port = process.port("client");
        Access {
            name: process.name().to_owned(),
            authority: format!("127.0.0.1:{port}"),
            target: Target { address: ([127, 0, 0, 1], port).into(), tls: None },
        }
    });
    let nodes = nodes.collect();
    Ok(Launched { name: name.to_owned(), within: READY_WITHIN, system, processes, nodes })
}

/// A system that runs already.
pub(crate) fn attach(
    system: &'static dyn System,
    asked: &study::System,
) -> Result<Launched, Failure> {
    let config = match &asked.tls {
        _ if !asked.endpoints.iter().any(|endpoint| endpoint.tls) => None,
        tls => Some(tls::client_config(tls.as_ref(), tls::Trust::Nobody, system.alpn())?),
    };
    let nodes = asked.endpoints.iter().map(|endpoint| {
        let target = resolve(endpoint, config.as_ref()).map_err(|error| {
            Failure::Unreachable(format!(
                "endpoint `{}:{}` of system `{}`: {error}",
                endpoint.host, endpoint.port, asked.name
            ))
        })?;
        let authority = match endpoint.host.contains(':') {
            true => format!("[{}]:{}", endpoint.host, endpoint.port),
            false => format!("{}:{}", endpoint.host, endpoint.port),
        };
        Ok(Access { name: authority.clone(), authority, target })
    });
    let nodes = nodes.collect::<Result<_, Failure>>()?;
    let name = asked.name.clone();
    Ok(Launched { name, within: ANSWER_WITHIN, system, processes: Vec::new(), nodes })
}

fn resolve(
    endpoint: &Endpoint,
    config: Option<&Arc<rustls::ClientConfig>>,
) -> Result<Target, String> {
    let mut found = (endpoint.host.as_str(), endpoint.port)
        .to_socket_addrs()
        .map_err(|error| format!("cannot be resolved: {error}"))?;
    let address = found.next().ok_or("resolves to no address")?;
    let tls = match config.filter(|_| endpoint.tls) {
        None => None,
        Some(config) => Some(TlsTarget {
            name: endpoint.host.clone().try_into().map_err(|_| "is no name that TLS can verify")?,
            config: config.clone(),
        }),
    };
    Ok(Target { address, tls })
}

impl Launched {
    /// The processes of the nodes; none for a system that ran already.
    pub(crate) fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Waits for a leader.
    pub(crate) fn ready(self, stop: &AtomicBool) -> Result<Ready, Failure> {
        let Self { name, within, system, processes, nodes } = self;
        let mut view = View::default();
        let mut seen = String::new();
        let looked = host::await_ready(&processes, within, stop, || match system.look(&nodes) {
            Ok(now) => {
                view = now;
                Probe::Ready
            }
            Err(now) => {
                seen.clone_from(&now);
                Probe::NotYet(now)
            }
        });
        match looked {
            Ok(after) => Ok(Ready { name, system, processes, nodes, view, after }),
            Err(HostError::NotReady { .. }) if processes.is_empty() => {
                Err(Failure::Unreachable(format!(
                    "system `{name}` did not answer as a cluster with a leader within {within:?}\n  \
                     seen: {seen}\nhint: check the endpoints with the system's own client",
                )))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Ready {
    /// The processes of the nodes; none for a system that ran already.
    pub(crate) fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// The node to ask what any may be asked: the leader where there is one.
    pub(crate) fn first(&self) -> &Access {
        &self.nodes[self.view.leader.unwrap_or(0)]
    }

    /// The nodes that can be asked: all but those that ended by themselves.
    pub(crate) fn live_nodes(&self) -> Vec<Access> {
        let dead: Vec<&str> = self
            .processes
            .iter()
            .filter(|process| process.exit().is_some())
            .map(Process::name)
            .collect();
        self.nodes.iter().filter(|node| !dead.contains(&node.name.as_str())).cloned().collect()
    }

    /// The nodes that clients of a load connect to.
    pub(crate) fn targets(&self, targets: Targets) -> Result<Vec<Access>, String> {
        let leader = match (targets, self.view.leader) {
            (Targets::All, _) => return Ok(self.nodes.clone()),
            (_, Some(leader)) => leader,
            (_, None) => return Err("none of the nodes is known to lead".into()),
        };
        let chosen = self.nodes.iter().enumerate();
        let chosen = chosen.filter(|&(index, _)| (index == leader) == (targets == Targets::Leader));
        let chosen: Vec<Access> = chosen.map(|(_, node)| node.clone()).collect();
        if chosen.is_empty() { Err("there are no followers".into()) } else { Ok(chosen) }
    }

    /// Name of the node that leads.
    pub(crate) fn leader(&self) -> Option<String> {
        self.view.leader.map(|index| self.nodes[index].name.clone())
    }

    /// What became of the limits that the study asks for, node by node.
    pub(crate) fn limits(&self) -> Vec<LimitsApplied> {
        self.processes.iter().map(Process::limits).collect()
    }

    /// Nodes that ended by themselves, each with how.
    pub(crate) fn died(&self) -> Vec<String> {
        let ended = self.processes.iter().filter_map(|process| {
            process.exit().map(|exit| format!("`{}` {exit}", process.name()))
        });
        ended.collect()
    }

    /// Kills all nodes at once with SIGKILL, starts them again and waits for a leader.
    pub(crate) fn crash_and_restart(self, stop: &AtomicBool) -> Result<Self, Failure> {
        let Self { name, system, processes, nodes, .. } = self;
        for process in &processes {
            process.kill9();
        }
        for process in &processes {
            process.restart()?;
        }
        Launched { name, within: RECOVERED_WITHIN, system, processes, nodes }.ready(stop)
    }

    /// The same servers, for another trial.
    pub(crate) fn again(self) -> Launched {
        let Self { name, system, processes, nodes, .. } = self;
        Launched { name, within: READY_WITHIN, system, processes, nodes }
    }

    /// Stops what was started; what does not end when asked is killed.
    pub(crate) fn stop(self) {
        terminate_all(&self.processes, STOP_GRACE);
    }
}
