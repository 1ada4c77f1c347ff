//! `pause`: nodes stand still.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::verb::{Action, ReadAction, Verb, any_system, nodes, nodes_of, time};
use crate::study::FaultNode;
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

pub(super) const VERB: Verb = Verb {
    name: "pause",
    fields: &[nodes_of("pause", "Nodes that stand still: SIGSTOP, and SIGCONT after `for`.")],
    shared: &["for"],
    required: &["pause", "for"],
    read: |sink, fields| {
        let (lasts, target) = (time(sink, fields, "for"), nodes(sink, fields, "pause"));
        Some(ReadAction::new(Pause { lasts: lasts? }, target?))
    },
    check: any_system,
};

impl Action for Pause {
    fn lasts(&self, _: FaultNode, _: u32) -> Duration {
        self.lasts
    }

    fn text(&self, whom: &str) -> String {
        format!("{whom} paused for {}", duration_text(self.lasts))
    }
}
