//! `drop`: connections of watchers break.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::target::{FaultNode, FaultTarget};
use super::verb::{Action, Verb};
use crate::study::field::{Form, default, maybe};
use crate::study::reading::Fields;
use crate::study::tree::DiagnosticSink;
use crate::units::share_text;

/// The connections of some watchers break. Each watcher connects to the next node and resumes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatcherDrop {
    /// Share of the connections, 0 to 1; at least one breaks.
    pub share: f64,
}

/// Words for the clients that a fault may happen to.
pub(super) const CLIENTS: Form = Form::Word(&["watchers"]);
/// Target of a fault that happens to clients.
pub(super) const NO_NODE: FaultTarget = FaultTarget { part: None, node: FaultNode::Each };

pub(super) const VERB: Verb<WatcherDrop> = Verb {
    name: "drop",
    fields: &[
        maybe(
            "drop",
            CLIENTS,
            "watchers",
            "Clients whose connections break: `watchers`. They connect to the next node and resume.",
        ),
        default(
            "share",
            Form::Share,
            "100%",
            "Share of the connections that `drop` or `silence` affects.",
        ),
    ],
    shared: &[],
    required: &["drop"],
    read: |sink, fields| {
        clients(sink, fields, "drop")?;
        Some((WatcherDrop { share: share(sink, fields)? }, NO_NODE))
    },
};

/// Parses the clients of a verb.
pub(super) fn clients(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    verb: &str,
) -> Option<()> {
    fields.word(sink, verb, &[()])
}

/// Parses the share of connections.
pub(super) fn share(sink: &mut DiagnosticSink<'_>, fields: &Fields<'_>) -> Option<f64> {
    fields.share(sink, "share")
}

/// Describes the affected connections: `30 % of the watchers' connections`.
pub(super) fn whom(share: f64) -> String {
    match share >= 1.0 {
        true => "the watchers' connections".to_owned(),
        false => format!("{} of the watchers' connections", share_text(share)),
    }
}

impl Action for WatcherDrop {
    fn lasts(&self, _: FaultNode, _: u32) -> Duration {
        Duration::ZERO
    }

    fn text(&self, _: &str) -> String {
        format!("{} broken", whom(self.share))
    }
}
