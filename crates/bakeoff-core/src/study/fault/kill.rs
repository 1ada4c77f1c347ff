//! `kill`: nodes are killed, and started again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::target::{FaultNode, nodes, nodes_of};
use super::verb::{Action, Verb, time};
use crate::units::{self, duration_text};

/// SIGKILL, then a start on the same data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeKill {
    /// Time between the two.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub restart_after: Duration,
}

pub(super) const VERB: Verb<NodeKill> = Verb {
    name: "kill",
    fields: &[nodes_of(
        "kill",
        "Nodes that are killed with SIGKILL, and started on their data after `restart-after`.",
    )],
    shared: &["restart-after"],
    required: &["kill", "restart-after"],
    read: |sink, fields| {
        let restart_after = time(sink, fields, "restart-after");
        let target = nodes(sink, fields, "kill");
        Some((NodeKill { restart_after: restart_after? }, target?))
    },
};

impl Action for NodeKill {
    fn lasts(&self, _: FaultNode, _: u32) -> Duration {
        self.restart_after
    }

    fn text(&self, whom: &str) -> String {
        format!("{whom} killed, restarted after {}", duration_text(self.restart_after))
    }

    fn ends_nodes(&self) -> bool {
        true
    }
}
