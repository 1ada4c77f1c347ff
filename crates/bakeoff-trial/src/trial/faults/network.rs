//! Cuts the network of nodes, of one from everybody or of groups from each other, or delays it.
//!
//! Not here: the network and the proof of a cut (`bakeoff_host::network`).

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use bakeoff_core::record::FaultHit;
use bakeoff_core::study::fault::PacketDelay;
use bakeoff_core::study::{CutDirection, FaultNode};
use bakeoff_host::Process;
use bakeoff_host::network::{CutConnections, CutPath, Network, PathDelay};

use super::{Injector, NotInjected};

impl Injector<'_> {
    /// Cuts nodes off from everybody for a time, in some directions. `existing`: cuts only open connections.
    pub(super) fn isolate(
        &self,
        nodes: &[&Process],
        since: impl Fn(Instant) -> f64,
        hits: &mut Vec<FaultHit>,
        lasts: Duration,
        (direction, existing): (CutDirection, bool),
    ) -> Result<(), NotInjected> {
        let paths = isolated(self.network()?, nodes, direction);
        let connections = if existing { CutConnections::Existing } else { CutConnections::All };
        self.cut(nodes, since, hits, lasts, (&paths, connections))
    }

    /// Cuts groups of nodes off from each other for a time.
    pub(super) fn separate(
        &self,
        groups: &[Vec<FaultNode>],
        since: impl Fn(Instant) -> f64,
        hits: &mut Vec<FaultHit>,
        lasts: Duration,
    ) -> Result<(), NotInjected> {
        let (groups, cut_off) = self.groups(groups)?;
        self.cut(&cut_off, since, hits, lasts, (&separated(&groups), CutConnections::All))
    }

    /// Delays the packets of nodes for a time.
    pub(super) fn delay(
        &self,
        nodes: &[&Process],
        since: impl Fn(Instant) -> f64,
        hits: &mut Vec<FaultHit>,
        PacketDelay { lasts, by, jitter, loss }: PacketDelay,
    ) -> Result<(), NotInjected> {
        let network = self.network()?;
        let paths = isolated(network, nodes, CutDirection::Both);
        let begin = |_: &[&Process]| network.delay(&paths, PathDelay { by, jitter, loss });
        self.break_and_heal(nodes, since, hits, lasts, begin, |_: &[&Process]| network.heal())
    }

    /// Cuts paths of the network for a time. `nodes`: those that are cut off.
    fn cut(
        &self,
        nodes: &[&Process],
        since: impl Fn(Instant) -> f64,
        hits: &mut Vec<FaultHit>,
        lasts: Duration,
        (paths, connections): (&[CutPath], CutConnections),
    ) -> Result<(), NotInjected> {
        let network = self.network()?;
        let begin = |_: &[&Process]| network.cut(paths, connections);
        self.break_and_heal(nodes, since, hits, lasts, begin, |_: &[&Process]| network.heal())
    }

    /// Returns the network of the nodes, which bakeoff made for them.
    fn network(&self) -> Result<&Network, NotInjected> {
        let why = || NotInjected::impossible("the nodes share this machine's network".to_owned());
        self.network.ok_or_else(why)
    }

    /// Looks up the groups of a partition. Also returns the nodes outside the largest group, which are cut off.
    fn groups(
        &self,
        named: &[Vec<FaultNode>],
    ) -> Result<(Vec<Vec<&Process>>, Vec<&Process>), NotInjected> {
        let mut groups: Vec<Vec<&Process>> = Vec::new();
        let leader = self.leads_if_asked(named.iter().flatten())?;
        for group in named {
            let nodes = group.iter().map(|node| self.node(*node, leader));
            groups.push(nodes.collect::<Result<_, NotInjected>>()?);
        }
        let names: Vec<&str> = groups.iter().flatten().map(|node| node.name()).collect();
        let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
        if let Some((_, name)) = twice {
            let why = format!("`{name}` is in two groups at this moment");
            return Err(NotInjected::impossible(why));
        }
        let largest = groups.iter().map(Vec::len).max().unwrap_or(0);
        let largest = groups.iter().position(|group| group.len() == largest);
        let others = groups.iter().enumerate().filter(|(at, _)| Some(*at) != largest);
        let cut_off = others.flat_map(|(_, group)| group.iter().copied()).collect();
        Ok((groups, cut_off))
    }
}

/// Returns the paths between these nodes and everybody else, in the directions that are cut.
fn isolated(network: &Network, nodes: &[&Process], direction: CutDirection) -> Vec<CutPath> {
    let mut paths = Vec::new();
    for node in nodes.iter().filter_map(|node| address(node)) {
        for other in network.addresses().iter().copied().filter(|other| *other != node) {
            let (out, into) = ((node, other), (other, node));
            match direction {
                CutDirection::Both => paths.extend([out, into]),
                CutDirection::In => paths.push(into),
                CutDirection::Out => paths.push(out),
            }
        }
    }
    paths
}

/// Returns the paths between nodes of different groups.
fn separated(groups: &[Vec<&Process>]) -> Vec<CutPath> {
    let all = groups.iter().enumerate();
    let all = all.flat_map(|(group, nodes)| nodes.iter().map(move |node| (group, node)));
    let all: Vec<(usize, Ipv4Addr)> =
        all.filter_map(|(group, node)| Some((group, address(node)?))).collect();
    let pairs = all.iter().flat_map(|from| all.iter().map(move |to| (from, to)));
    pairs.filter(|(from, to)| from.0 != to.0).map(|(from, to)| (from.1, to.1)).collect()
}

/// Returns the address of a node's network; `None` if it has none of its own.
fn address(process: &Process) -> Option<Ipv4Addr> {
    match process.location().address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}
