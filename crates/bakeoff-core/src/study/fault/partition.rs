//! `partition`: the network cuts groups of nodes from each other.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::target::{FaultNode, FaultTarget};
use super::verb::{Action, Verb, time};
use crate::study::field::{Form, maybe};
use crate::study::reading::{Fields, seen, text};
use crate::study::tree::{DiagnosticSink, Value};
use crate::units::{self, duration_text, shown};

const HINT: &str = "write at least two groups: `[[leader, follower-1], [follower-2]]`";

/// The network drops packets between groups of nodes. Clients reach all nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Partition {
    /// Groups of nodes that are cut from each other.
    pub groups: Vec<Vec<FaultNode>>,
    /// Time until packets pass again.
    #[serde(rename = "for", with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub lasts: Duration,
}

pub(super) const VERB: Verb<Partition> = Verb {
    name: "partition",
    fields: &[maybe(
        "partition",
        Form::List(&Form::List(&Form::Text)),
        "[[leader, follower-1], [follower-2]]",
        "Groups of nodes that the network cuts from each other until `for` is over. Clients reach all nodes.",
    )],
    shared: &["for"],
    required: &["partition", "for"],
    read: |sink, fields| {
        let (lasts, groups) = (time(sink, fields, "for"), groups(sink, fields));
        let all = FaultTarget { part: None, node: FaultNode::Each };
        Some((Partition { groups: groups?, lasts: lasts? }, all))
    },
};

/// Parses the groups.
fn groups(sink: &mut DiagnosticSink<'_>, fields: &Fields<'_>) -> Option<Vec<Vec<FaultNode>>> {
    let written = fields.list(sink, "partition")?;
    let mut groups: Vec<Vec<FaultNode>> = Vec::new();
    for group in written {
        let Value::List(nodes) = &group.value else {
            let what = format!("`partition` must be a list of groups, not {}", seen(group));
            sink.hint(&group.at, what, HINT);
            return None;
        };
        let mut own = Vec::new();
        for node in nodes {
            let word = text(sink, "partition", node)?;
            let parsed = word.parse::<FaultNode>().ok().filter(|node| *node != FaultNode::Each);
            let Some(parsed) = parsed else {
                let what = format!("`partition`: `{}` is not one node", shown(&word));
                sink.hint(&node.at, what, "write `leader`, `follower-1` or `node-1`");
                return None;
            };
            if own.contains(&parsed) || groups.iter().any(|group| group.contains(&parsed)) {
                let what = format!("`partition` has `{parsed}` twice");
                sink.hint(&node.at, what, "put each node into one group");
                return None;
            }
            own.push(parsed);
        }
        groups.push(own);
    }
    if groups.len() < 2 || groups.iter().any(Vec::is_empty) {
        let what = format!("{} separates nothing", fields.what);
        sink.hint(fields.value_at("partition"), what, HINT);
        return None;
    }
    Some(groups)
}

impl Action for Partition {
    fn lasts(&self, _: FaultNode, _: u32) -> Duration {
        self.lasts
    }

    fn text(&self, _: &str) -> String {
        let groups = self
            .groups
            .iter()
            .map(|group| group.iter().map(FaultNode::to_string).collect::<Vec<_>>().join(" and "));
        let groups = groups.collect::<Vec<_>>().join(" cut off from ");
        format!("{groups} for {}", duration_text(self.lasts))
    }

    fn needs_network(&self) -> bool {
        true
    }
}
