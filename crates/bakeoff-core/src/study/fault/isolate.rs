//! `isolate`: the network drops the packets of nodes, to and from everybody.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::target::{FaultNode, nodes, nodes_of};
use super::verb::{Action, Verb, time};
use crate::study::field::{Form, default, maybe};
use crate::units::{self, duration_text};

/// The network drops the nodes' packets, to and from everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Isolation {
    /// Time until packets pass again.
    #[serde(rename = "for", with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub lasts: Duration,
    /// Packets that are dropped.
    #[serde(default, skip_serializing_if = "CutDirection::is_both")]
    pub direction: CutDirection,
    /// True if only TCP connections that are open at that moment are cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub existing: bool,
}

/// Selects the packets of an isolated node that are dropped, by their way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CutDirection {
    /// Those that it sends and those that it is sent.
    #[default]
    Both,
    /// Those that it is sent.
    In,
    /// Those that it sends.
    Out,
}

impl CutDirection {
    /// All directions, in the order of their words.
    const ALL: [Self; 3] = [Self::Both, Self::In, Self::Out];
    /// Words in a study.
    const WORDS: [&str; 3] = ["both", "in", "out"];

    fn is_both(&self) -> bool {
        *self == Self::Both
    }
}

pub(super) const VERB: Verb<Isolation> = Verb {
    name: "isolate",
    fields: &[
        nodes_of(
            "isolate",
            "Nodes whose packets the network drops, to and from everybody, until `for` is over.",
        ),
        default(
            "direction",
            Form::Word(&CutDirection::WORDS),
            "both",
            "Packets of isolated nodes that are dropped: `in` those that they are sent, `out` those that they send.",
        ),
        maybe(
            "existing",
            Form::Word(&["only"]),
            "only",
            "Drops only the packets of connections that are open at that moment. They get no reset.",
        ),
    ],
    shared: &["for"],
    required: &["isolate", "for"],
    read: |sink, fields| {
        let lasts = time(sink, fields, "for");
        let direction = fields.word(sink, "direction", &CutDirection::ALL);
        let existing = fields.node("existing").is_some();
        let existing = if existing { fields.word(sink, "existing", &[true]) } else { Some(false) };
        let target = nodes(sink, fields, "isolate");
        let (lasts, direction, existing) = (lasts?, direction?, existing?);
        Some((Isolation { lasts, direction, existing }, target?))
    },
};

impl Action for Isolation {
    fn lasts(&self, _: FaultNode, _: u32) -> Duration {
        self.lasts
    }

    fn text(&self, whom: &str) -> String {
        let way = match self.direction {
            CutDirection::Both => "",
            CutDirection::In => ", nothing reaches it",
            CutDirection::Out => ", nothing leaves it",
        };
        let existing = if self.existing { ", open connections only" } else { "" };
        format!("{whom} cut off for {}{way}{existing}", duration_text(self.lasts))
    }

    fn needs_network(&self) -> bool {
        true
    }
}
