//! Declares what a verb of a fault is: its fields in a study, how they are parsed, and what follows from them.
//!
//! Each verb has one file with all of that, and one line in `table`.
//!
//! Not here: making a fault happen (`bakeoff_trial`).

use std::time::Duration;

use super::target::{FaultNode, FaultTarget};
use crate::study::field::{Field, Form};
use crate::study::reading::Fields;
use crate::study::tree::DiagnosticSink;
use crate::study::{Kind, System};

/// Form of a time within a fault.
pub(super) const TIME: Form = Form::Duration { zero: false, max: "1h" };

pub(in crate::study) const OTHERS: &str = "name the others in the fault's `systems`";

/// Declares a verb of a fault. `A`: its action.
pub(in crate::study) struct Verb<A> {
    pub(in crate::study) name: &'static str,
    /// Fields that belong to no other verb, the verb itself first.
    pub(in crate::study) fields: &'static [Field],
    /// Names of the fields that it shares with other verbs.
    pub(in crate::study) shared: &'static [&'static str],
    /// Fields that a study must give for it.
    pub(in crate::study) required: &'static [&'static str],
    /// Parses its fields: the action, and its nodes. `None` after a diagnostic.
    pub(in crate::study) read: fn(&mut DiagnosticSink<'_>, &Fields<'_>) -> Option<(A, FaultTarget)>,
}

impl<A> Verb<A> {
    /// Returns true if a field belongs to it.
    pub(in crate::study) fn has(&self, field: &str) -> bool {
        self.shared.contains(&field) || self.fields.iter().any(|own| own.name == field)
    }
}

/// Holds the fields and nodes of a fault, and a system that it happens to.
pub(in crate::study) struct FaultedSystem<'a> {
    pub(in crate::study) fields: &'a Fields<'a>,
    pub(in crate::study) target: &'a FaultTarget,
    pub(in crate::study) system: &'a System,
    pub(in crate::study) kinds: &'a [Kind],
}

impl<'a> FaultedSystem<'a> {
    /// Returns the system, or the part that the fault names; `None` without such a part, which has its own message.
    pub(super) fn member(&self) -> Option<&'a System> {
        self.system.member(self.target.part.as_deref())
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

    /// Checks that it can happen to a system.
    fn check(&self, _: &mut DiagnosticSink<'_>, _: &FaultedSystem<'_>) {}

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
