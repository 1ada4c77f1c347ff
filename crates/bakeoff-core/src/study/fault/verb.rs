//! Declares what a verb of a fault is: its fields in a study, how they are parsed, and what follows from them.
//!
//! Each verb has one file with all of that, and one line in `table`.
//!
//! Not here: making a fault happen (`bakeoff_trial`).

use std::time::Duration;

use super::{Fault, FaultAction, FaultNode, FaultTarget};
use crate::study::field::{Field, Form, maybe};
use crate::study::reading::{Fields, seen, text};
use crate::study::tree::{ByteRange, DiagnosticSink, Node, Value};
use crate::study::{Kind, System};

/// Form of the nodes that a fault happens to.
pub(super) const NODES: Form = Form::Either(&[Form::Text, Form::Table(&super::table::FAULT_NODE)]);
/// Form of a time within a fault.
pub(super) const TIME: Form = Form::Duration { zero: false, max: "1h" };

pub(in crate::study) const NODE_HINT: &str = "write `leader`, `follower-1`, `node-1` or `each`";
pub(in crate::study) const OTHERS: &str = "name the others in the fault's `systems`";

/// Declares a verb of a fault.
pub(in crate::study) struct Verb {
    pub(in crate::study) name: &'static str,
    /// Fields that belong to no other verb, the verb itself first.
    pub(in crate::study) fields: &'static [Field],
    /// Names of the fields that it shares with other verbs.
    pub(in crate::study) shared: &'static [&'static str],
    /// Fields that a study must give for it.
    pub(in crate::study) required: &'static [&'static str],
    /// Parses its fields; `None` after a diagnostic.
    pub(in crate::study) read: fn(&mut DiagnosticSink<'_>, &Fields<'_>) -> Option<ReadAction>,
    /// Checks that it can happen to a system.
    pub(in crate::study) check: fn(&mut DiagnosticSink<'_>, &FaultedSystem<'_>),
}

impl Verb {
    /// Returns true if a field belongs to it.
    pub(in crate::study) fn has(&self, field: &str) -> bool {
        self.shared.contains(&field) || self.fields.iter().any(|own| own.name == field)
    }
}

/// Holds a parsed action and its nodes.
pub(in crate::study) struct ReadAction {
    pub(in crate::study) action: FaultAction,
    pub(in crate::study) target: FaultTarget,
}

impl ReadAction {
    pub(super) fn new(action: impl Into<FaultAction>, target: FaultTarget) -> Self {
        Self { action: action.into(), target }
    }
}

/// Holds a fault, and a system that it happens to.
pub(in crate::study) struct FaultedSystem<'a> {
    pub(in crate::study) fields: &'a Fields<'a>,
    pub(in crate::study) fault: &'a Fault,
    pub(in crate::study) system: &'a System,
    pub(in crate::study) kinds: &'a [Kind],
}

impl<'a> FaultedSystem<'a> {
    /// Returns the system, or the part that the fault names; `None` without such a part, which has its own message.
    pub(super) fn member(&self) -> Option<&'a System> {
        self.system.member(self.fault.target.part.as_deref())
    }

    /// Returns the kind of the system or part; `None` for an unknown kind, which has its own message.
    pub(super) fn kind(&self) -> Option<&'a Kind> {
        let member = self.member()?;
        self.kinds.iter().find(|kind| kind.name == member.kind)
    }
}

/// Describes what follows from a verb's fields.
pub(super) trait Action {
    /// Returns the time from the fault to its last planned step, for a system or part of `nodes` nodes.
    fn lasts(&self, node: FaultNode, nodes: u32) -> Duration;

    /// Describes the fault in a few words: `leader paused for 10s`. `whom`: its nodes.
    fn text(&self, whom: &str) -> String;

    /// Returns true if it takes one of `each` node after another.
    fn is_rolling(&self) -> bool {
        false
    }

    /// Returns true if it ends the nodes' processes.
    fn ends_nodes(&self) -> bool {
        false
    }

    /// Returns true if it needs a network for each node.
    fn needs_network(&self) -> bool {
        false
    }

    /// Returns true if it loses single packets, which relays cannot.
    fn loses_packets(&self) -> bool {
        false
    }
}

/// Declares the field of a verb with its nodes.
pub(super) const fn nodes_of(verb: &'static str, meaning: &'static str) -> Field {
    maybe(verb, NODES, "leader", meaning)
}

/// Accepts every system.
pub(super) fn any_system(_: &mut DiagnosticSink<'_>, _: &FaultedSystem<'_>) {}

/// Parses the required time of a fault.
pub(super) fn time(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    field: &str,
) -> Option<Duration> {
    if fields.node(field).is_none() {
        let what = format!("{} does not say when it heals", fields.what);
        sink.hint(&fields.at, what, format!("add `{field}: 10s`"));
        return None;
    }
    fields.duration(sink, field)
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
            let table = &super::table::FAULT_NODE;
            let own = Fields::open(sink, table, format!("`{verb}`"), at, node)?;
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
