//! `restart`: one node after another is asked to end and started again, if asked with another version.
//!
//! Not here: finding the version's program (`bakeoff_install`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::target::{FaultNode, nodes, nodes_of};
use super::verb::{Action, FaultedSystem, OTHERS, Verb};
use crate::study::field::{Form, maybe};
use crate::study::tree::DiagnosticSink;
use crate::units::{self, duration_text};

/// Graceful stop and start of one node after another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Restart {
    /// Time from one node to the next.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub every: Duration,
    /// Version that the nodes are upgraded to; `None` if they keep theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

pub(super) const VERB: Verb<Restart> = Verb {
    name: "restart",
    fields: &[
        nodes_of("restart", "Nodes that are asked to end and started again, one after another."),
        maybe(
            "to",
            Form::Text,
            "3.6",
            "Version that restarted nodes are upgraded to, once in each trial, after all other faults.",
        ),
    ],
    shared: &["every"],
    required: &["restart"],
    read: |sink, fields| {
        let every = fields.duration(sink, "every");
        let to = match fields.node("to") {
            None => Some(None),
            Some(_) => fields.version(sink, "to").map(Some),
        };
        let target = nodes(sink, fields, "restart");
        Some((Restart { every: every?, to: to? }, target?))
    },
};

impl Action for Restart {
    fn lasts(&self, node: FaultNode, nodes: u32) -> Duration {
        match node {
            FaultNode::Each => self.every * nodes.max(1),
            _ => self.every,
        }
    }

    fn text(&self, whom: &str) -> String {
        let to = self.to.as_ref().map(|to| format!(" with version {to}"));
        let (to, every) = (to.unwrap_or_default(), duration_text(self.every));
        format!("{whom} restarted{to}, one every {every}")
    }

    fn is_rolling(&self) -> bool {
        true
    }

    fn ends_nodes(&self) -> bool {
        true
    }

    /// Checks that the nodes of an upgrade have a program with versions, and another one than the new.
    fn check(&self, sink: &mut DiagnosticSink<'_>, of: &FaultedSystem<'_>) {
        let (Some(to), Some(member)) = (&self.to, of.member()) else { return };
        let name = &member.name;
        let (what, hint) = if of.kind().is_some_and(|kind| kind.is_process) {
            (format!("`{name}` is a command, whose versions bakeoff does not know"), OTHERS)
        } else if member.program.is_some() {
            let hint = "leave its `program` out, so that bakeoff finds both versions";
            (format!("`{name}` has a program of its own"), hint)
        } else if member.version.as_ref() == Some(to) {
            (format!("`{name}` already has version {to}"), "write a newer version")
        } else if of.target.node != FaultNode::Each {
            let hint = "write `each`: all nodes of a system have one version in the end";
            (format!("{} upgrades `{}` alone", of.fields.what, of.target.node), hint)
        } else {
            return;
        };
        sink.hint(of.fields.value_at("to"), what, hint);
    }
}
