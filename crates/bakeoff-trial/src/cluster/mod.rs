//! Starts, loads and stops a system's servers.
//!
//! Only a [`ReadyCluster`] can be loaded, and the only way to get one is to wait for its leader. A system that already
//! runs goes the same way, but bakeoff does not start or stop it.
//!
//! Not here: running processes (`bakeoff_host`), the needs of a system (`bakeoff_systems`).

mod attach;
pub mod contenders;
mod credentials;
pub(crate) mod damage;
mod endpoints;
mod error;
mod live_nodes;
pub(crate) mod metrics;
pub(crate) mod power;
pub(crate) mod syncs;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::study::{ReadConsistency, Targets, Tier};
use bakeoff_core::units;
use bakeoff_engine::transport::Target;
use bakeoff_files as files;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{
    self as host, Host, HostError, LimitsApplied, NodeDisk, NodeSpec, Probe, Process, kill_all,
    terminate_all,
};
use bakeoff_install::Seal;
use bakeoff_systems::declaration::Declaration;
use bakeoff_systems::exchange;
use bakeoff_systems::location_plan::LocationPlan;
use bakeoff_systems::topology::{self, Component, Member};
use bakeoff_systems::{Access, ClusterStatus, ConfigSnapshot, NotReady, System, SystemError};

pub(crate) use self::attach::attach;
pub use self::error::NoTargets;
pub(crate) use self::live_nodes::clear;
use crate::event::{Event, Reporter};
use bakeoff_fleet::error::FleetError;
use bakeoff_fleet::machines::NodesOf;
use bakeoff_fleet::machines::fleet::Fleet;

/// Maximum time until a killed cluster is ready again, which includes its recovery.
pub(crate) const RECOVERED_WITHIN: Duration = Duration::from_secs(300);
/// Maximum time until a system that already runs answers.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Time that servers get to end by themselves. Their data is deleted next, so waiting longer gains nothing: a leading
/// etcd spends 7 s handing over to a node that is also ending.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Lines of each log in an error.
const LINES: usize = 10;
/// Time after which a command that listens only on wrong ports is rejected.
const MISPLACED_AFTER: Duration = Duration::from_secs(10);
const LISTEN_HINT: &str =
    "make it listen at the study's address: use `{port}` in its command, environment or files";

/// Servers of a system or part that are not ready yet.
pub(crate) struct LaunchedCluster {
    /// Name in the study.
    name: String,
    /// Maximum time until it has a leader.
    within: Duration,
    system: &'static dyn System,
    processes: Vec<Process>,
    nodes: Vec<Access>,
    /// Endpoints of an already running cluster that accept no connections.
    missing: Vec<String>,
}

/// A cluster with a leader, and its parts.
pub struct ReadyCluster {
    /// Parts that the system needs, in the order of their start.
    backends: Vec<ReadyCluster>,
    /// Parts in front of the system, in the order of their start.
    frontends: Vec<ReadyCluster>,
    name: String,
    pub(crate) system: &'static dyn System,
    processes: Vec<Process>,
    /// Nodes, with the addresses that clients use.
    pub nodes: Vec<Access>,
    /// Endpoints that accepted no connections, of a cluster that bakeoff did not start.
    pub(crate) missing: Vec<String>,
    pub(crate) view: ClusterStatus,
    /// Time from launch to leader, including parts.
    pub after: Duration,
}

/// A system to start, and its place.
pub struct ClusterStart<'a> {
    /// Components in the order of their start.
    pub components: &'a [Component<'a>],
    /// Folder of the nodes' data.
    pub nodes: &'a Path,
    /// Folder of the logs.
    pub dir: &'a Path,
    /// Seed of names and secrets in the configuration.
    pub seed: u64,
    /// Locations of the nodes.
    pub locating: &'a LocationPlan,
    /// Machines of the run, and the owner of the data there.
    pub on: (&'a Fleet, NodesOf<'a>),
    /// File system of the nodes' directories.
    pub disk: NodeDisk,
}

/// Attempts to start a system whose ports another process takes between the check and the start.
const PORT_ATTEMPTS: u32 = 3;

/// Starts a system on free ports, and on other ports if another process took one first.
///
/// Two bakeoffs that start at the same time may find the same free ports. Each new attempt is reported.
///
/// # Errors
/// If a node does not start or does not become ready.
pub fn start_on_free_ports(
    of: ClusterStart<'_>,
    ports: &mut Allocator,
    stop: &AtomicBool,
    reporter: &mut dyn Reporter,
    mut watch: impl FnMut(&[Process]),
) -> Result<ReadyCluster, FleetError> {
    let mut attempt = 1;
    loop {
        let members = topology::compose(of.components, of.nodes, of.seed, of.locating, ports)?;
        match start(members, &of, stop, &mut watch) {
            Err(FleetError::Host(error))
                if error.is_of_a_port() && !ports.is_exact() && attempt < PORT_ATTEMPTS =>
            {
                let why = error.to_string();
                reporter.report(&Event::PortTaken { why: why.lines().next().unwrap_or_default() });
                // Data written with the old ports is useless.
                files::remove(of.nodes).ok();
                let (fleet, whose) = of.on;
                fleet.discard(whose)?;
                attempt += 1;
            }
            started => return started,
        }
    }
}

/// Starts all members of a system, each when those before it are ready. Calls `watch` with the processes as soon as
/// they run.
pub(crate) fn start(
    members: Vec<Member<'_>>,
    starting: &ClusterStart<'_>,
    stop: &AtomicBool,
    mut watch: impl FnMut(&[Process]),
) -> Result<ReadyCluster, FleetError> {
    let neighbours = topology::neighbours(&members);
    let (fleet, whose) = starting.on;
    fleet.confine(members.iter().flat_map(|member| &member.description.nodes))?;
    let mut composite: Option<ReadyCluster> = None;
    let mut backends = Vec::new();
    for member in members {
        let Member { of, description, nodes } = member;
        let Declaration { ready_within, hooks, .. } = of.system.declares();
        let prepare_parts =
            hooks.prepare_parts.filter(|_| of.tier.is_none() && !backends.is_empty());
        if let Some(prepare_parts) = prepare_parts {
            prepare_parts(of.study_system, &neighbours).map_err(|why| {
                FleetError::machine(format!(
                    "cannot prepare the parts of `{}`: {why}",
                    of.study_system.name
                ))
            })?;
        }
        check_program(of)?;
        let host = Host::new(starting.dir)?;
        let mut launched = LaunchedCluster {
            missing: Vec::new(),
            name: of.study_system.name.clone(),
            within: ready_within,
            system: of.system,
            processes: Vec::new(),
            nodes,
        };
        for spec in description.nodes {
            let spec = NodeSpec { disk: starting.disk, ..spec };
            launched.processes.push(fleet.launch(&host, spec, (starting.nodes, whose))?);
        }
        watch(&launched.processes);
        let ready = launched.ready(stop).map_err(|failure| with_logs_of(&backends, failure))?;
        match (&mut composite, of.tier) {
            (_, Some(Tier::Backend)) => backends.push(ready),
            (Some(composite), _) => {
                composite.after += ready.after;
                composite.frontends.push(ready);
            }
            (None, _) => {
                let before: Duration = backends.iter().map(|part: &ReadyCluster| part.after).sum();
                let backends = std::mem::take(&mut backends);
                composite = Some(ReadyCluster { backends, after: ready.after + before, ..ready });
            }
        }
    }
    Ok(composite.expect("a system is one of its own members"))
}

/// Rejects a program that changed since its version and hash were recorded.
fn check_program(of: &Component<'_>) -> Result<(), FleetError> {
    let upgrade = of.upgrade.as_ref().map(|(_, seal)| seal);
    let found = of.seal.iter().chain(upgrade).try_for_each(Seal::check);
    found.map_err(|damage| {
        FleetError::machine(format!(
            "the program of `{}` is not the one that this run began with: {damage}\nhint: start a new run, and change \
             programs only between runs",
            of.study_system.name
        ))
    })
}

/// Adds the last log lines of the backends to a failure of the member that needs them: they may be its cause.
fn with_logs_of(backends: &[ReadyCluster], failure: FleetError) -> FleetError {
    match failure {
        FleetError::Host(HostError::NotReady { nodes, within, again, seen, limits, mut logs }) => {
            let processes = backends.iter().flat_map(|part| &part.processes);
            logs.extend(processes.map(|process| process.log_tail(LAST_WORDS)));
            FleetError::Host(HostError::NotReady { nodes, within, again, seen, limits, logs })
        }
        other => other,
    }
}

/// Log lines of each backend in an error.
const LAST_WORDS: usize = 3;

/// Queries the system's status, after a TLS handshake with each node that uses TLS.
fn probe(system: &dyn System, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
    for node in nodes.iter().filter(|node| node.target.tls.is_some()) {
        exchange::handshake(node)?;
    }
    system.probe(nodes)
}

/// An unexpected answer of an already running system, with the time since when it stays the same.
#[derive(Default)]
struct OddAnswer {
    seen: Option<(String, Instant)>,
}

impl OddAnswer {
    /// Time after which the answer is final. A node that just restarted recovers sooner.
    const LASTS: Duration = Duration::from_secs(1);

    /// Records an answer. Returns true if it stayed the same for [`Self::LASTS`].
    fn lasts(&mut self, now: &str) -> bool {
        match &self.seen {
            Some((seen, since)) if seen == now => since.elapsed() >= Self::LASTS,
            _ => {
                self.seen = Some((now.to_owned(), clock::now()));
                false
            }
        }
    }
}

/// Returns a hint about TLS if the nodes speak it unexpectedly, else `hint`.
fn fitting(nodes: &[Access], hint: &'static str) -> &'static str {
    let plain = nodes.iter().filter(|node| node.target.tls.is_none());
    match plain.take(1).any(exchange::speaks_tls) {
        true => "it speaks TLS there: write the endpoint with `https://`, `rediss://` or `tls://`",
        false => hint,
    }
}

/// Returns a message if a command listens, but on none of its own ports.
fn misplaced(processes: &[Process]) -> Option<String> {
    processes.iter().find_map(|process| {
        let at = process.listens_on();
        let (name, location) = (process.name(), process.location());
        let ports: Vec<u16> = process.ports().collect();
        is_misplaced(&at, location.listens(), &ports).then(|| {
            let wanted = location.listens_at(process.port("client"));
            format!("`{name}` listens on {} instead of {wanted}", addresses_text(&at))
        })
    })
}

/// Returns true if a node listens, but on none of its own ports and addresses.
fn is_misplaced(at: &[SocketAddr], own: IpAddr, ports: &[u16]) -> bool {
    let is_own = |address: &&SocketAddr| {
        ports.contains(&address.port()) && (address.ip() == own || address.ip().is_unspecified())
    };
    !at.is_empty() && !at.iter().any(|address| is_own(&address))
}

/// Returns a warning if a server listens on addresses besides loopback and its own.
fn exposure_warning(name: &str, own: IpAddr, at: &[SocketAddr]) -> Option<String> {
    let is_meant = |address: &SocketAddr| address.ip().is_loopback() || address.ip() == own;
    let open: Vec<SocketAddr> = at.iter().filter(|address| !is_meant(address)).copied().collect();
    (!open.is_empty()).then(|| {
        format!(
            "`{name}` listens on {}, where other machines may reach it; make it listen on {own}",
            addresses_text(&open)
        )
    })
}

fn addresses_text(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ")
}

impl LaunchedCluster {
    /// Waits until the cluster has a leader.
    pub(crate) fn ready(self, stop: &AtomicBool) -> Result<ReadyCluster, FleetError> {
        let Self { name, within, system, processes, nodes, missing } = self;
        let is_process = system.kind().is_process;
        let began = clock::now();
        let is_own = !processes.is_empty();
        let mut view = ClusterStatus::default();
        let mut seen = String::new();
        let mut odd = OddAnswer::default();
        let query = || {
            let found = probe(system, &nodes)?;
            match nodes.first().filter(|_| !is_own) {
                Some(node) => system.may_use(node).map(|()| found),
                None => Ok(found),
            }
        };
        let readiness = host::await_ready(&processes, within, stop, || match query() {
            Ok(now) => {
                view = now;
                Probe::Ready
            }
            Err(NotReady::NotYet(now)) => {
                let now = units::server_text(&now);
                seen.clone_from(&now);
                let late = is_process && began.elapsed() > MISPLACED_AFTER;
                match late.then(|| misplaced(&processes)).flatten() {
                    Some(seen) => Probe::Never { seen, hint: LISTEN_HINT.to_owned() },
                    None => Probe::NotYet(now),
                }
            }
            Err(NotReady::Odd { seen: now, hint }) => {
                let now = units::server_text(&now);
                seen.clone_from(&now);
                match !is_own && odd.lasts(&now) {
                    true => Probe::Never { seen: now, hint: fitting(&nodes, hint).to_owned() },
                    false => Probe::NotYet(now),
                }
            }
            Err(NotReady::Never { seen, hint }) => {
                Probe::Never { seen: units::server_text(&seen), hint }
            }
        });
        match readiness {
            Ok(after) => {
                let (backends, frontends) = (Vec::new(), Vec::new());
                Ok(ReadyCluster {
                    backends,
                    frontends,
                    name,
                    system,
                    processes,
                    nodes,
                    missing,
                    view,
                    after,
                })
            }
            Err(HostError::NotReady { .. }) if processes.is_empty() => {
                let (wanted, client) = match system.kind().takes_requests() {
                    true => ("", "`curl -v`"),
                    false => (" as a cluster with a leader", "the system's own client"),
                };
                Err(FleetError::unreachable(format!(
                    "system `{name}` did not answer{wanted} within {within:?}\n  \
                     seen: {seen}\nhint: check the endpoints with {client}",
                )))
            }
            Err(HostError::CannotServe { seen, hint }) => {
                let logs = processes.iter().map(|process| format!("\n{}", process.log_tail(LINES)));
                let logs: String = logs.collect();
                Err(FleetError::unreachable(format!(
                    "system `{name}` cannot be loaded: {seen}{logs}\nhint: {hint}"
                )))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl ReadyCluster {
    /// Returns the system and its parts, in the order of their start.
    fn members(&self) -> impl Iterator<Item = &ReadyCluster> {
        self.backends.iter().chain(std::iter::once(self)).chain(&self.frontends)
    }

    /// Returns the processes of all nodes and parts; none for a system that already ran.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.members().flat_map(|member| &member.processes)
    }

    /// Returns the node for queries that any can answer: the leader if known.
    pub fn first(&self) -> &Access {
        &self.nodes[self.view.leader.unwrap_or(0)]
    }

    /// Returns the nodes that can answer: those that did not end; for a cluster that already ran, those that accept
    /// connections.
    pub(crate) fn live_nodes(&self) -> Vec<Access> {
        if self.processes.is_empty() {
            return live_nodes::split(self.nodes.clone()).0;
        }
        let dead: Vec<&str> = self
            .processes
            .iter()
            .filter(|process| process.exit().is_some())
            .map(Process::name)
            .collect();
        self.nodes.iter().filter(|node| !dead.contains(&node.name.as_str())).cloned().collect()
    }

    /// Returns the nodes that answer with acknowledged values: all live ones, or only the current leader if other nodes
    /// may answer with old values and linearizable reads are not available.
    pub(crate) fn to_read_from(&self) -> Vec<Access> {
        let fresh = self.system.kind().reads.contains(&ReadConsistency::Linearizable);
        let mut live = self.live_nodes();
        let Some(known) = self.leader().filter(|_| !fresh) else { return live };
        let leader = match self.system.probe(&live) {
            Ok(ClusterStatus { leader: Some(leader), .. }) => live[leader].name.clone(),
            _ => known,
        };
        live.retain(|node| node.name == leader);
        live
    }

    /// Returns the nodes that clients of a load connect to. If they may connect to any node, those in front of the
    /// cluster if there are some.
    pub fn targets(&self, targets: Targets) -> Result<Vec<Access>, NoTargets> {
        let leader = match (targets, self.view.leader) {
            (Targets::All, _) => {
                let front = self.frontends.last();
                // Sessions need the nodes' memory; the front only forwards.
                let through = |node: &Access| Access {
                    memory: self.nodes[0].memory.clone(),
                    target: Target { tls: self.nodes[0].target.tls.clone(), ..node.target.clone() },
                    ..node.clone()
                };
                return Ok(match front {
                    None => self.nodes.clone(),
                    Some(front) => front.nodes.iter().map(through).collect(),
                });
            }
            (_, Some(leader)) => leader,
            (_, None) => return Err(NoTargets::NoLeader),
        };
        let chosen = self.nodes.iter().enumerate();
        let chosen = chosen.filter(|&(index, _)| (index == leader) == (targets == Targets::Leader));
        let chosen: Vec<Access> = chosen.map(|(_, node)| node.clone()).collect();
        if chosen.is_empty() { Err(NoTargets::NoFollowers) } else { Ok(chosen) }
    }

    /// Returns the leader's name at the time the cluster was ready.
    pub fn leader(&self) -> Option<String> {
        self.view.leader.map(|index| self.nodes[index].name.clone())
    }

    /// Returns the current leader's name, if it changed since the cluster was ready.
    pub(crate) fn new_leader(&self) -> Option<String> {
        let known = self.leader().filter(|_| self.nodes.len() > 1)?;
        let live = self.live_nodes();
        let leader = self.system.probe(&live).ok()?.leader?;
        let now = &live.get(leader)?.name;
        (*now != known).then(|| now.clone())
    }

    /// Returns the configuration that control planes gave to the nodes and parts. `None` if no server is configured by
    /// another.
    pub(crate) fn config_snapshot(&self) -> Option<Result<ConfigSnapshot, SystemError>> {
        let of = |member: &'_ ReadyCluster| -> Vec<_> {
            member.nodes.iter().filter_map(|node| member.system.config_snapshot(node)).collect()
        };
        let each: Vec<Result<ConfigSnapshot, SystemError>> = self.members().flat_map(of).collect();
        let all = |each: Vec<_>| -> Result<Vec<ConfigSnapshot>, SystemError> {
            each.into_iter().collect()
        };
        (!each.is_empty()).then(|| all(each).map(|each| each.into_iter().flatten().collect()))
    }

    /// Returns, per node, whether the limits of the study were applied.
    pub fn limits(&self) -> Vec<LimitsApplied> {
        self.processes().map(|process| process.limits()).collect()
    }

    /// Returns the nodes that ended by themselves, with the exit and its cause.
    pub fn died(&self) -> Vec<String> {
        let ended = self.processes().filter_map(|process| {
            process.ending().map(|ending| format!("`{}` {ending}", process.name()))
        });
        ended.collect()
    }

    /// Returns the nodes that left daemons running, with the daemons.
    pub(crate) fn strays(&self) -> Vec<String> {
        let each = self.processes().map(|process| (process.name(), process.strays()));
        let some = each.filter(|(_, strays)| !strays.is_empty());
        some.map(|(name, strays)| format!("`{name}` left running {}", strays.join(", "))).collect()
    }

    /// Returns a warning for each server that listens on addresses besides loopback and its own.
    pub fn exposed(&self) -> Vec<String> {
        self.processes()
            .filter_map(|process| {
                exposure_warning(
                    process.name(),
                    process.location().listens(),
                    &process.listens_on(),
                )
            })
            .collect()
    }

    /// Kills all nodes and parts at once with SIGKILL.
    pub(crate) fn kill9(&self) {
        kill_all(self.processes());
    }

    /// Restarts killed nodes in their order, and waits for a leader.
    pub(crate) fn restart(self, stop: &AtomicBool) -> Result<Self, FleetError> {
        self.restart_within(RECOVERED_WITHIN, stop)
    }

    /// Restarts killed nodes as [`Self::restart`] does, and waits up to `within` for a leader.
    pub(crate) fn restart_within(
        self,
        within: Duration,
        stop: &AtomicBool,
    ) -> Result<Self, FleetError> {
        self.each_again(within, stop, &|processes| processes.iter().try_for_each(Process::restart))
    }

    /// Returns the system, or its part with this name in the study.
    pub(crate) fn member(&self, part: Option<&str>) -> Option<&ReadyCluster> {
        match part {
            None => Some(self),
            Some(name) => self.members().find(|member| member.name == name),
        }
    }

    /// Returns the processes of this system or part alone, in the order of its nodes.
    pub(crate) fn own_processes(&self) -> &[Process] {
        &self.processes
    }

    /// Returns true if the system and its parts serve. The probe opens what starts closed.
    pub fn all_serve(&self) -> bool {
        self.members().all(|member| member.system.probe(&member.nodes).is_ok())
    }

    /// Looks up the current leader's place among the nodes.
    ///
    /// # Errors
    /// The observed state, if the system does not answer as one with a leader.
    pub(crate) fn leads_now(&self) -> Result<Option<usize>, NotReady> {
        Ok(self.system.probe(&self.nodes)?.leader)
    }

    /// Waits for the same servers to be ready for another trial.
    pub(crate) fn again(self, stop: &AtomicBool) -> Result<Self, FleetError> {
        let within = self.system.declares().ready_within;
        self.again_within(within, stop)
    }

    /// Waits up to `within` for the same servers to be ready. Starts those that give up meanwhile after a restart.
    pub(crate) fn again_within(
        self,
        within: Duration,
        stop: &AtomicBool,
    ) -> Result<Self, FleetError> {
        self.each_again(within, stop, &|_| Ok(()))
    }

    /// Waits for each member to be ready, after `before` was applied to its processes.
    fn each_again(
        self,
        within: Duration,
        stop: &AtomicBool,
        before: &dyn Fn(&[Process]) -> Result<(), HostError>,
    ) -> Result<Self, FleetError> {
        let Self { backends, frontends, name, system, processes, nodes, .. } = self;
        let each = |parts: Vec<ReadyCluster>| -> Result<Vec<ReadyCluster>, FleetError> {
            parts.into_iter().map(|part| part.each_again(within, stop, before)).collect()
        };
        let backends = each(backends)?;
        before(&processes)?;
        let ready = LaunchedCluster { name, within, system, processes, nodes, missing: Vec::new() }
            .ready(stop)?;
        Ok(ReadyCluster { backends, frontends: each(frontends)?, ..ready })
    }

    /// Stops the servers in reverse order. Kills those that do not end in time.
    pub fn stop(self) {
        self.halt();
    }

    /// Stops the servers as [`Self::stop`] does. They can be restarted.
    pub(crate) fn halt(&self) {
        let members: Vec<&ReadyCluster> = self.members().collect();
        for member in members.into_iter().rev() {
            terminate_all(&member.processes, STOP_GRACE);
        }
    }
}

#[cfg(test)]
mod tests {
    use bakeoff_host::Location;

    use super::*;

    #[test]
    fn warns_only_about_addresses_beyond_loopback() {
        let at = |addresses: &[&str]| {
            let addresses: Vec<SocketAddr> =
                addresses.iter().map(|address| address.parse().unwrap()).collect();
            exposure_warning("web-1", Location::HERE.address, &addresses)
        };
        assert_eq!(at(&["127.0.0.1:1", "127.9.9.9:2", "[::1]:3"]), None);
        assert_eq!(at(&[]), None);
        let message = at(&["127.0.0.1:1", "0.0.0.0:2", "[::]:3", "192.0.2.1:4"]).unwrap();
        assert!(
            message.starts_with("`web-1` listens on 0.0.0.0:2, [::]:3, 192.0.2.1:4, where"),
            "{message}"
        );
        assert!(message.ends_with("make it listen on 127.0.0.1"), "{message}");
    }

    #[test]
    fn warns_about_addresses_other_than_its_own() {
        let own: IpAddr = "192.0.2.1".parse().unwrap();
        let at = |address: &str| exposure_warning("web-1", own, &[address.parse().unwrap()]);
        assert_eq!(at("192.0.2.1:4"), None);
        assert_eq!(at("127.0.0.1:4"), None, "loopback is private");
        for open in ["192.0.2.2:4", "0.0.0.0:4", "[::]:4"] {
            let message = at(open).unwrap();
            assert!(message.contains(open), "{message}");
            assert!(message.ends_with("make it listen on 192.0.2.1"), "{message}");
        }
    }

    #[test]
    fn command_is_misplaced_unless_at_its_address_and_port() {
        let own: IpAddr = "192.0.2.1".parse().unwrap();
        let misplaced = |at: &[&str]| {
            let at: Vec<SocketAddr> = at.iter().map(|address| address.parse().unwrap()).collect();
            is_misplaced(&at, own, &[80, 81])
        };
        assert!(!misplaced(&[]), "it may listen yet");
        for found in ["192.0.2.1:81", "0.0.0.0:80", "[::]:80"] {
            assert!(!misplaced(&["127.0.0.1:9", found]), "{found}");
        }
        for lost in ["192.0.2.1:82", "127.0.0.1:80", "192.0.2.2:80"] {
            assert!(misplaced(&[lost]), "{lost}");
        }
    }
}
