//! `pause`: nodes stand still.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::target::{FaultNode, nodes, nodes_of};
use super::verb::{Action, Verb, time};
use crate::units::{self, duration_text};

/// SIGSTOP, then SIGCONT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pause {
    /// Time between the two.
    #[serde(rename = "for", with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub lasts: Duration,
}

pub(super) const VERB: Verb<Pause> = Verb {
    name: "pause",
    fields: &[nodes_of("pause", "Nodes that stand still: SIGSTOP, and SIGCONT after `for`.")],
    shared: &["for"],
    required: &["pause", "for"],
    read: |sink, fields| {
        let (lasts, target) = (time(sink, fields, "for"), nodes(sink, fields, "pause"));
        Some((Pause { lasts: lasts? }, target?))
    },
};

impl Action for Pause {
    fn lasts(&self, _: FaultNode, _: u32) -> Duration {
        self.lasts
    }

    fn text(&self, whom: &str) -> String {
        format!("{whom} paused for {}", duration_text(self.lasts))
    }
}
