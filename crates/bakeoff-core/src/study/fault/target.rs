//! Selects the nodes that a fault happens to.
//!
//! Not here: looking a leader up (`bakeoff_trial`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::study::field::{Field, Form, Table, always, default, maybe};
use crate::study::reading::{Fields, seen, text};
use crate::study::tree::{ByteRange, DiagnosticSink, Node, Value};
use crate::units;

/// Selects the nodes that a fault happens to, when it happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FaultTarget {
    /// Role of the part that the nodes belong to; `None` for the system's own nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Nodes of the system or part.
    pub node: FaultNode,
}

/// Selects nodes by their role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub enum FaultNode {
    /// The leader, looked up at that moment; the only node of a system of one.
    Leader,
    /// A node that does not lead, by its place among these, from 1.
    Follower(u32),
    /// A node by its place in the cluster, from 1.
    Numbered(u32),
    /// All nodes: at the same time, or one after another in a restart or in maintenance.
    Each,
}

impl FaultNode {
    /// Returns the smallest number of nodes that have such a node.
    pub fn nodes_min(self) -> u32 {
        match self {
            Self::Leader | Self::Each => 1,
            Self::Follower(place) => place + 1,
            Self::Numbered(place) => place,
        }
    }
}

impl fmt::Display for FaultNode {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leader => to.write_str("leader"),
            Self::Follower(place) => write!(to, "follower-{place}"),
            Self::Numbered(place) => write!(to, "node-{place}"),
            Self::Each => to.write_str("each"),
        }
    }
}

impl FromStr for FaultNode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let place = |prefix: &str| {
            let digits = text.strip_prefix(prefix)?;
            let place = digits.parse::<u32>().ok().filter(|place| (1..=99).contains(place))?;
            (place.to_string() == digits).then_some(place)
        };
        match text {
            "leader" => Ok(Self::Leader),
            "each" => Ok(Self::Each),
            _ => place("follower-")
                .map(Self::Follower)
                .or_else(|| place("node-").map(Self::Numbered))
                .ok_or_else(|| format!("`{}` is not a node", units::shown(text))),
        }
    }
}

impl TryFrom<String> for FaultNode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<FaultNode> for String {
    fn from(node: FaultNode) -> Self {
        node.to_string()
    }
}

static FAULT_NODE: Table = Table {
    name: "fault-node",
    meaning: "Nodes of a part of the system.",
    one_of: &[],
    fields: &[
        always("part", Form::Text, "storage", "Role of the part."),
        default("node", Form::Text, "leader", "Nodes of the part."),
    ],
};

/// Form of the nodes that a fault happens to.
pub(super) const NODES: Form = Form::Either(&[Form::Text, Form::Table(&FAULT_NODE)]);

pub(in crate::study) const NODE_HINT: &str = "write `leader`, `follower-1`, `node-1` or `each`";

/// Declares the field of a verb with its nodes.
pub(super) const fn nodes_of(verb: &'static str, meaning: &'static str) -> Field {
    maybe(verb, NODES, "leader", meaning)
}

/// Parses the nodes that a verb names.
pub(super) fn nodes(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    verb: &str,
) -> Option<FaultTarget> {
    target(sink, verb, fields.key_at(verb), fields.node(verb)?)
}

/// Parses the nodes of a fault: a word, or a part with a word.
fn target(
    sink: &mut DiagnosticSink<'_>,
    verb: &str,
    at: &ByteRange,
    node: &Node,
) -> Option<FaultTarget> {
    let word = |sink: &mut DiagnosticSink<'_>, written: &str, at: &ByteRange| {
        let parsed = written.parse::<FaultNode>();
        parsed.map_err(|why| sink.hint(at, format!("`{verb}`: {why}"), NODE_HINT)).ok()
    };
    match &node.value {
        Value::Map(_) => {
            let own = Fields::open(sink, &FAULT_NODE, format!("`{verb}`"), at, node)?;
            let part = own.text(sink, "part");
            let written = own.text(sink, "node")?;
            let node = word(sink, &written, own.value_at("node"));
            Some(FaultTarget { part: Some(part?), node: node? })
        }
        Value::Scalar { .. } => {
            let written = text(sink, verb, node)?;
            Some(FaultTarget { part: None, node: word(sink, &written, &node.at)? })
        }
        Value::List(_) => {
            sink.hint(&node.at, format!("`{verb}` must be a node, not {}", seen(node)), NODE_HINT);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_read_and_write_the_words_of_a_study() {
        for text in ["leader", "follower-1", "node-99", "each"] {
            let node: FaultNode = text.parse().unwrap();
            assert_eq!(node.to_string(), text);
        }
        for text in ["", "follower", "follower-0", "node-01", "node-100", "node--1", "Leader"] {
            text.parse::<FaultNode>().unwrap_err();
        }
    }
}
