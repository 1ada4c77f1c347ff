//! `run`: maintenance of one node after another, or of the whole system.
//!
//! Not here: what kinds offer (`bakeoff_systems`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::maintenance::{Maintenance, MaintenanceScope};
use super::target::{FaultNode, FaultTarget, NODES, nodes};
use super::verb::{Action, FaultedSystem, OTHERS, Verb};
use crate::study::field::{Form, default, maybe};
use crate::study::reading::Fields;
use crate::study::tree::DiagnosticSink;
use crate::suggest::{list, suggest};
use crate::units::{self, duration_text, plural};

/// Maintenance of one node after another, or of the whole system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MaintenanceRun {
    /// The operation. It lasts as long as the system takes.
    pub operation: Maintenance,
    /// Time from one time to the next; zero if it runs once.
    #[serde(default, with = "units::duration", skip_serializing_if = "Duration::is_zero")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub every: Duration,
    /// Number of times.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub times: u32,
    /// Number of the latest writes whose history `compact` keeps.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub keep: u64,
}

fn once() -> u32 {
    1
}

fn is_once(times: &u32) -> bool {
    *times == 1
}

/// Nodes by default: the leader, or whatever runs maintenance of the whole system.
const USUAL: FaultTarget = FaultTarget { part: None, node: FaultNode::Leader };

pub(super) const VERB: Verb<MaintenanceRun> = Verb {
    name: "run",
    fields: &[
        maybe(
            "run",
            Form::Text,
            "defragment",
            "Maintenance that the system offers, such as `defragment`, `compact` or `snapshot`.",
        ),
        maybe(
            "node",
            NODES,
            "each",
            "Nodes that `run` maintains, one after another; the leader by default.",
        ),
        maybe(
            "times",
            Form::Whole { min: 2, max: 1000 },
            "10",
            "Number of times for which `run` happens; once by default.",
        ),
        default(
            "keep",
            Form::Whole { min: 0, max: 1_000_000_000 },
            "0",
            "Number of the latest writes whose history `run: compact` keeps.",
        ),
    ],
    shared: &["every"],
    required: &["run"],
    read,
};

fn read(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
) -> Option<(MaintenanceRun, FaultTarget)> {
    let written = fields.text(sink, "run")?;
    let operation = Maintenance::named(&written);
    if operation.is_none() {
        let known = Maintenance::ALL.iter().map(|one| one.name());
        let hint = suggest(&written, known, "known words:");
        sink.unknown(fields.value_at("run"), "maintenance", &written, &fields.what, hint);
    }
    let target = match fields.node("node") {
        Some(_) => nodes(sink, fields, "node"),
        None => Some(USUAL),
    };
    let (every, times) = repeated(sink, fields)?;
    let keep = fields.whole(sink, "keep")?;
    if let (Some(other), true) = (operation, fields.gives("keep"))
        && other != Maintenance::Compact
    {
        let what = format!("`{other}` keeps no history");
        sink.hint(fields.key_at("keep"), what, "leave `keep` out");
        return None;
    }
    Some((MaintenanceRun { operation: operation?, every, times, keep }, target?))
}

/// Parses the interval and the number of times, which come together.
fn repeated(sink: &mut DiagnosticSink<'_>, fields: &Fields<'_>) -> Option<(Duration, u32)> {
    let (with, without, hint) = match ["every", "times"].map(|field| fields.node(field).is_some()) {
        [false, false] => return Some((Duration::ZERO, 1)),
        [true, true] => {
            let times = fields.whole(sink, "times").and_then(|times| u32::try_from(times).ok());
            return fields.duration(sink, "every").zip(times);
        }
        [true, false] => ("every", "times", "add `times: 10`, or leave `every` out to run it once"),
        [false, true] => ("times", "every", "add `every: 1s`, or leave `times` out to run it once"),
    };
    let what = format!("{} has `run` and `{with}`, and no `{without}`", fields.what);
    sink.hint(fields.key_at(with), what, hint);
    None
}

impl Action for MaintenanceRun {
    fn lasts(&self, _: FaultNode, _: u32) -> Duration {
        self.every * self.times
    }

    fn text(&self, whom: &str) -> String {
        let what = match self.operation {
            Maintenance::ChangeRoutes => "routes changed".to_owned(),
            operation if self.keep > 0 => {
                format!("{operation} on {whom}, with {} kept", plural(self.keep, "write"))
            }
            operation => format!("{operation} on {whom}"),
        };
        match self.times {
            1 => what,
            times => format!("{what} {times} times, every {}", duration_text(self.every)),
        }
    }

    fn is_rolling(&self) -> bool {
        true
    }

    /// Checks that the system, or the part that the fault names, offers the maintenance.
    fn check(&self, sink: &mut DiagnosticSink<'_>, of: &FaultedSystem<'_>) {
        let operation = self.operation;
        let FaultTarget { part, node } = of.target;
        let (Some(member), Some(kind)) = (of.member(), of.kind()) else { return };
        let at = of.fields.value_at("run");
        let whose = match part {
            Some(role) => format!("part `{role}` of system `{}`", of.system.name),
            None => format!("system `{}`", of.system.name),
        };
        let Some(offer) = kind.offer(operation) else {
            let offers: Vec<&str> =
                kind.maintenance.iter().map(|one| one.operation.name()).collect();
            let hint = match offers.is_empty() {
                true => format!("kind `{}` offers no maintenance; {OTHERS}", kind.name),
                false => format!("kind `{}` offers {}; or {OTHERS}", kind.name, list(&offers)),
            };
            return sink.hint(at, format!("{whose} does not offer `{operation}`"), hint);
        };
        if let Some(why) = (offer.lacks)(member) {
            return sink.hint(at, format!("{whose} does not offer `{operation}`: {why}"), OTHERS);
        }
        if offer.scope == MaintenanceScope::System && *node != FaultNode::Leader {
            let what = format!("`{operation}` of {whose} runs once, not on a node");
            let hint = match part {
                Some(role) => format!("write `node: {{part: {role}}}`, or {OTHERS}"),
                None => format!("leave `node` out, or {OTHERS}"),
            };
            sink.hint(of.fields.value_at("node"), what, hint);
        }
    }
}
