//! Parses the maintenance of a fault, and checks that the systems offer it.
//!
//! Not here: the nodes of a fault (`faults`), what kinds offer (`bakeoff_systems`).

use std::time::Duration;

use super::faults;
use super::systems::ReadSystem;
use crate::study::fault::{Fault, FaultAction, FaultNode, FaultTarget};
use crate::study::reading::Fields;
use crate::study::tree::{At, DiagnosticSink};
use crate::study::{Kind, Maintenance, MaintenanceScope};
use crate::suggest::{list, suggest};

/// Fields of other faults.
const FOREIGN: [&str; 2] = ["for", "restart-after"];

/// Parses `run` and its nodes, with the position for messages about them.
pub(super) fn read<'a>(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'a>,
) -> Option<(FaultAction, FaultTarget, &'a At)> {
    for field in FOREIGN.into_iter().filter(|field| fields.node(field).is_some()) {
        let what = format!("{} has `run` and `{field}`", fields.what);
        let hint = "leave it out: maintenance lasts as long as the system takes";
        sink.hint(fields.key_at(field), what, hint);
    }
    let written = fields.text(sink, "run")?;
    let operation = Maintenance::named(&written);
    if operation.is_none() {
        let known = Maintenance::ALL.iter().map(|one| one.name());
        let hint = suggest(&written, known, "known words:");
        sink.unknown(fields.value_at("run"), "maintenance", &written, &fields.what, hint);
    }
    let target = match fields.node("node") {
        Some(node) => faults::target(sink, "node", fields.key_at("node"), node),
        None => Some(FaultTarget { part: None, node: FaultNode::Leader }),
    };
    let (every, times) = repeated(sink, fields)?;
    let action = FaultAction::Run { operation: operation?, every, times };
    Some((action, target?, &fields.node("run")?.at))
}

/// Parses the interval and the number of times of maintenance, which come together.
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

/// Checks that the system, or the part that the fault names, offers the maintenance.
pub(super) fn is_offered(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    fault: &Fault,
    read: &ReadSystem<'_>,
    kinds: &[Kind],
) {
    let (FaultAction::Run { operation, .. }, Some(system)) = (fault.action, &read.system) else {
        return;
    };
    let role = fault.target.part.as_deref();
    // A missing part has its own message.
    let Some(asked) = system.member(role) else { return };
    let Some(kind) = kinds.iter().find(|kind| kind.name == asked.kind) else { return };
    let (at, others) = (fields.value_at("run"), "name the others in the fault's `systems`");
    let whose = match role {
        Some(role) => format!("part `{role}` of system `{}`", system.name),
        None => format!("system `{}`", system.name),
    };
    let Some(offer) = kind.offer(operation) else {
        let offers: Vec<&str> = kind.maintenance.iter().map(|one| one.operation.name()).collect();
        let hint = match offers.is_empty() {
            true => format!("kind `{}` offers no maintenance; {others}", kind.name),
            false => format!("kind `{}` offers {}; or {others}", kind.name, list(&offers)),
        };
        return sink.hint(at, format!("{whose} does not offer `{operation}`"), hint);
    };
    if let Some(why) = (offer.lacks)(asked) {
        return sink.hint(at, format!("{whose} does not offer `{operation}`: {why}"), others);
    }
    if offer.scope == MaintenanceScope::System && fault.target.node != FaultNode::Leader {
        let what = format!("`{operation}` of {whose} runs once, not on a node");
        let hint = match role {
            Some(role) => format!("write `node: {{part: {role}}}`, or {others}"),
            None => format!("leave `node` out, or {others}"),
        };
        sink.hint(fields.value_at("node"), what, hint);
    }
}
