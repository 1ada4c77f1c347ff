//! Describes the faults of a study: what breaks, when, and when it heals.
//!
//! A load runs undisturbed first, and then once for each injection of a fault, all on the same cluster.
//!
//! Each verb has a file with its fields, its parser and its texts, and a line in `table`.
//!
//! Not here: making a fault happen (`bakeoff_trial`), what came of it (`crate::record::Injection`).

mod delay;
mod disk;
mod drop;
mod isolate;
mod kill;
mod maintenance;
mod partition;
mod pause;
mod restart;
mod run;
mod sequence;
mod silence;
mod stop;
mod table;
mod target;
mod verb;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::delay::PacketDelay;
pub use self::disk::{DiskBreak, DiskFault};
pub use self::drop::WatcherDrop;
pub use self::isolate::{CutDirection, Isolation};
pub use self::kill::NodeKill;
pub use self::maintenance::{Maintenance, MaintenanceOffer, MaintenanceScope};
pub use self::partition::Partition;
pub use self::pause::Pause;
pub use self::restart::Restart;
pub use self::run::MaintenanceRun;
pub use self::sequence::Sequence;
pub use self::silence::WatcherSilence;
pub use self::stop::NodeStop;
pub use self::table::FaultAction;
pub(super) use self::table::{FAULT, VERBS};
pub(super) use self::target::NODE_HINT;
pub use self::target::{FaultNode, FaultTarget};
pub(super) use self::verb::{FaultedSystem, OTHERS, Verb};
use super::tree::DiagnosticSink;
use super::{Study, System};
use crate::units;

/// Describes a fault of a study.
///
/// Its fields are those of records, which stay flat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fault {
    /// Name in the study.
    pub name: String,
    /// Event that happens to the nodes.
    #[serde(flatten)]
    pub action: FaultAction,
    /// Nodes that it happens to.
    #[serde(flatten)]
    pub target: FaultTarget,
    /// Time from the beginning of measuring to the fault.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub at: Duration,
    /// Names of its systems; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub systems: Vec<String>,
    /// False if it happens in sequences only.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub alone: bool,
}

fn yes() -> bool {
    true
}

fn is_yes(flag: &bool) -> bool {
    *flag
}

impl Fault {
    /// Returns true if the fault happens to this system.
    pub fn befalls(&self, system: &str) -> bool {
        self.systems.is_empty() || self.systems.iter().any(|name| name == system)
    }

    /// Returns the time from the beginning of measuring to the last planned step, for a system or part of `nodes`
    /// nodes. The faults of a sequence add their own.
    pub fn heals_at(&self, nodes: u32) -> Duration {
        self.at + self.action.action().lasts(self.target.node, nodes)
    }

    /// Describes the fault in a few words: `leader paused for 10s`.
    pub fn text(&self) -> String {
        let action = self.action.action();
        let node = match self.target.node {
            FaultNode::Each if action.is_rolling() => "one node after another".to_owned(),
            FaultNode::Each => "all nodes".to_owned(),
            node => node.to_string(),
        };
        let whom = match &self.target.part {
            Some(part) => format!("{node} of {part}"),
            None => node,
        };
        action.text(&whom)
    }
}

impl FaultAction {
    /// Checks that the fault can happen to a system.
    pub(super) fn check(&self, sink: &mut DiagnosticSink<'_>, of: &FaultedSystem<'_>) {
        self.action().check(sink, of);
    }

    /// Returns true if the fault ends the nodes' processes.
    pub fn ends_nodes(&self) -> bool {
        self.action().ends_nodes()
    }

    /// Returns true if the fault loses single packets of a connection.
    pub fn loses_packets(&self) -> bool {
        self.action().loses_packets()
    }

    /// Returns true if the fault needs a network for each node.
    pub fn needs_network(&self) -> bool {
        self.action().needs_network()
    }

    /// Returns the groups of nodes that a partition cuts from each other; empty for other faults.
    pub(super) fn groups(&self) -> &[Vec<FaultNode>] {
        match self {
            Self::Partition(partition) => &partition.groups,
            _ => &[],
        }
    }

    /// Returns the version that restarted nodes are upgraded to; `None` if they keep theirs.
    pub fn upgrades_to(&self) -> Option<&str> {
        match self {
            Self::Restart(restart) => restart.to.as_deref(),
            _ => None,
        }
    }

    /// Returns true if the fault happens to watchers, not to nodes.
    pub fn needs_watchers(&self) -> bool {
        matches!(self, Self::Drop(_) | Self::Silence(_))
    }

    /// Returns the names of the faults of a sequence, in their order; empty for a single fault.
    pub fn steps(&self) -> &[String] {
        match self {
            Self::Sequence(sequence) => &sequence.faults,
            _ => &[],
        }
    }
}

impl System {
    /// Returns the system or one of its parts; `None` without such a part.
    pub(crate) fn member(&self, part: Option<&str>) -> Option<&Self> {
        part.map_or(Some(self), |role| self.parts.get(role))
    }

    /// Returns the number of nodes of the system or of one of its parts; `None` without such a part.
    pub fn nodes_of(&self, part: Option<&str>) -> Option<u32> {
        self.member(part).map(|member| member.nodes)
    }
}

impl Study {
    /// Returns true if a fault needs a network for each node.
    pub fn needs_network(&self) -> bool {
        self.faults.iter().any(|fault| fault.action.needs_network())
    }

    /// Returns the version that a fault upgrades a system or one of its parts to; `None` if no fault does.
    pub fn upgrade_of(&self, system: &str, part: Option<&str>) -> Option<&str> {
        let mut own = self.faults_of(system).filter(|one| one.target.part.as_deref() == part);
        own.find_map(|one| one.action.upgrades_to())
    }

    /// Returns the faults that happen to a system.
    pub fn faults_of(&self, system: &str) -> impl Iterator<Item = &Fault> {
        self.faults.iter().filter(move |fault| fault.befalls(system))
    }

    /// Returns true if a fault delays packets.
    pub fn delays_packets(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault.action, FaultAction::Delay(_)))
    }

    /// Returns the disk faults that happen to a system. Its nodes then run on file systems of bakeoff's own.
    pub fn disk_faults_of(&self, system: &str) -> impl Iterator<Item = DiskFault> {
        self.faults_of(system).filter_map(|fault| match fault.action {
            FaultAction::Disk(DiskBreak { fault, .. }) => Some(fault),
            _ => None,
        })
    }

    /// Returns the first system whose disks break; `None` without such a fault.
    pub fn with_disk_faults(&self) -> Option<&System> {
        self.systems.iter().find(|system| self.disk_faults_of(&system.name).next().is_some())
    }
}

/// Number of injections of each fault in a trial unless the study says otherwise.
pub(super) fn repeat() -> u32 {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_hold_a_fault_as_flat_fields() {
        let (lasts, every) = (Duration::from_secs(5), Duration::from_secs(5));
        let sync_delay = Duration::from_millis(100);
        let groups = vec![vec![FaultNode::Leader], vec![FaultNode::Numbered(2)]];
        let faults = vec!["paused".into(), "killed".into()];
        let cases = [
            (
                FaultAction::Kill(NodeKill { restart_after: lasts }),
                serde_json::json!({"action": "kill", "restart_after": 5.0}),
                "leader of storage killed, restarted after 5s",
            ),
            (
                FaultAction::Disk(DiskBreak { fault: DiskFault::Slow { sync_delay }, lasts }),
                serde_json::json!({"action": "disk", "disk": "slow", "sync_delay": 0.1, "for": 5.0}),
                "disk of leader of storage slower by 100ms a sync for 5s",
            ),
            (
                FaultAction::Partition(Partition { groups, lasts }),
                serde_json::json!({"action": "partition", "groups": [["leader"], ["node-2"]], "for": 5.0}),
                "leader cut off from node-2 for 5s",
            ),
            (
                FaultAction::Restart(Restart { every, to: Some("3.6".into()) }),
                serde_json::json!({"action": "restart", "every": 5.0, "to": "3.6"}),
                "leader of storage restarted with version 3.6, one every 5s",
            ),
            (
                FaultAction::Sequence(Sequence { faults, rest: every }),
                serde_json::json!({"action": "sequence", "sequence": ["paused", "killed"], "rest": 5.0}),
                "paused and killed, one after another",
            ),
        ];
        for (action, mut fields, text) in cases {
            let fault = Fault {
                name: "broken".into(),
                action,
                target: FaultTarget { part: Some("storage".into()), node: FaultNode::Leader },
                at: Duration::from_secs(20),
                systems: Vec::new(),
                alone: true,
            };
            let shared = serde_json::json!({"name": "broken", "part": "storage", "node": "leader", "at": 20.0});
            fields.as_object_mut().unwrap().extend(shared.as_object().unwrap().clone());
            let value = serde_json::to_value(&fault).unwrap();
            assert_eq!(value, fields);
            assert_eq!(serde_json::from_value::<Fault>(value).unwrap(), fault);
            assert_eq!(fault.text(), text);
            let lasts = if fault.action.steps().is_empty() { 5 } else { 0 };
            assert_eq!(fault.heals_at(3), Duration::from_secs(20 + lasts));
        }
    }
}
