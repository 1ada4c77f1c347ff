//! `stop`: nodes are asked to end, and started again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::target::{FaultNode, nodes, nodes_of};
use super::verb::{Action, Verb, time};
use crate::units::{self, duration_text};

/// The stop signal, then a start on the same data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeStop {
    /// Time from the signal to the start. A node that is still ending then is killed.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub restart_after: Duration,
}

pub(super) const VERB: Verb<NodeStop> = Verb {
    name: "stop",
    fields: &[nodes_of(
        "stop",
        "Nodes that are asked to end, and started on their data after `restart-after`.",
    )],
    shared: &["restart-after"],
    required: &["stop", "restart-after"],
    read: |sink, fields| {
        let restart_after = time(sink, fields, "restart-after");
        let target = nodes(sink, fields, "stop");
        Some((NodeStop { restart_after: restart_after? }, target?))
    },
};

impl Action for NodeStop {
    fn lasts(&self, _: FaultNode, _: u32) -> Duration {
        self.restart_after
    }

    fn text(&self, whom: &str) -> String {
        format!("{whom} stopped, restarted after {}", duration_text(self.restart_after))
    }

    fn ends_nodes(&self) -> bool {
        true
    }
}
