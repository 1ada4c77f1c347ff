//! Chooses the nodes of a cluster that a load's clients connect to.
//!
//! Not here: the split of a load into writes and reads (`bakeoff_fleet::generators::split_load`,
//! `bakeoff_core::read_write_split`).

use bakeoff_core::read_write_split;
use bakeoff_core::staleness::Staleness;
use bakeoff_core::study::{Load, Workload};
use bakeoff_engine::tls;
use bakeoff_systems::Access;

use crate::cluster::{NoTargets, ReadyCluster};

pub(crate) enum Routes {
    Same(Vec<Access>),
    /// Separate nodes for writes and reads.
    Split {
        writes: Vec<Access>,
        reads: Vec<Access>,
    },
}

impl Routes {
    /// Chooses the nodes of a load. Fails if the cluster has no matching node.
    pub(crate) fn choose(
        cluster: &ReadyCluster,
        workload: &Workload,
        load: &Load,
    ) -> Result<Self, NoTargets> {
        let targets = |writes| cluster.targets(load.targets.choose(writes));
        if read_write_split::is_split(workload, load) {
            return Ok(Self::Split { writes: targets(true)?, reads: targets(false)? });
        }
        targets(workload.writes()).map(Self::Same)
    }

    /// Starts with fresh TLS sessions. If `resumed`, connections may resume only sessions of this load: readiness
    /// probes are not its clients. Otherwise they resume none.
    pub(crate) fn sessions(&mut self, resumed: bool) {
        let nodes = match self {
            Self::Same(nodes) => nodes.iter_mut().chain([].iter_mut()),
            Self::Split { writes, reads } => writes.iter_mut().chain(reads.iter_mut()),
        };
        for tls in nodes.filter_map(|node| node.target.tls.as_mut()) {
            tls.config = match resumed {
                true => tls::with_sessions_of_its_own(&tls.config),
                false => tls::without_resumption(&tls.config),
            };
        }
    }

    /// Returns the nodes for all operations; or those for writes and those for reads.
    pub(crate) fn writes_and_reads(&self) -> (&[Access], Option<&[Access]>) {
        match self {
            Self::Same(nodes) => (nodes, None),
            Self::Split { writes, reads } => (writes, Some(reads)),
        }
    }

    /// Returns the nodes for writes.
    pub(crate) fn to_write_to(&self) -> &[Access] {
        self.writes_and_reads().0
    }

    /// Returns each node once, in the order of a measurement's nodes.
    pub(crate) fn all(&self) -> Vec<&Access> {
        match self {
            Self::Same(nodes) => nodes.iter().collect(),
            Self::Split { writes, reads } => {
                let is_new = |node: &&Access| writes.iter().all(|one| one.name != node.name);
                writes.iter().chain(reads.iter().filter(is_new)).collect()
            }
        }
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.all().into_iter().map(|node| node.name.clone()).collect()
    }

    /// Replaces addresses by node names.
    pub(crate) fn name(&self, staleness: &mut [Staleness]) {
        for of in staleness {
            let is_it = |node: &&&Access| node.target.address.to_string() == of.node;
            if let Some(node) = self.all().iter().find(is_it) {
                of.node.clone_from(&node.name);
            }
        }
    }
}
