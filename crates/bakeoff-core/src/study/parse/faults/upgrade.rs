//! Parses the version of an upgrade, and checks that the systems can be upgraded.
//!
//! Not here: the restarts (`faults`), finding the version's program (`bakeoff_install`).

use super::super::systems::{ReadSystem, version};
use crate::study::Kind;
use crate::study::fault::{Fault, FaultNode};
use crate::study::reading::Fields;
use crate::study::tree::{DiagnosticSink, Entry};
use crate::units::shown;

const OTHERS: &str = "name the others in the fault's `systems`";

/// Parses `to`. Returns `Some(None)` for a fault without it, and `None` for a bad version.
pub(super) fn read(sink: &mut DiagnosticSink<'_>, fields: &Fields<'_>) -> Option<Option<String>> {
    match fields.node("to") {
        None => Some(None),
        Some(_) => version(sink, fields, "to").map(Some),
    }
}

/// Checks that the nodes of an upgrade have a program with versions, and another one than the new.
pub(super) fn is_possible(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    fault: &Fault,
    read: &ReadSystem<'_>,
    kinds: &[Kind],
) {
    let (Some(to), Some(system)) = (&fault.to, &read.system) else { return };
    // A missing part has its own message.
    let Some(asked) = system.member(fault.target.part.as_deref()) else { return };
    let name = &asked.name;
    let is_process = kinds.iter().any(|kind| kind.name == asked.kind && kind.is_process);
    let (what, hint) = if is_process {
        (format!("`{name}` is a command, whose versions bakeoff does not know"), OTHERS)
    } else if asked.program.is_some() {
        let hint = "leave its `program` out, so that bakeoff finds both versions";
        (format!("`{name}` has a program of its own"), hint)
    } else if asked.version.as_ref() == Some(to) {
        (format!("`{name}` already has version {to}"), "write a newer version")
    } else if fault.target.node != FaultNode::Each {
        let hint = "write `each`: all nodes of a system have one version in the end";
        (format!("{} upgrades `{}` alone", fields.what, fault.target.node), hint)
    } else {
        return;
    };
    sink.hint(fields.value_at("to"), what, hint);
}

/// Checks that no system or part is upgraded twice, because a trial cannot go back.
pub(super) fn only_once(
    sink: &mut DiagnosticSink<'_>,
    entries: &[&Entry],
    faults: &[Option<Fault>],
    systems: &[ReadSystem<'_>],
) {
    let upgrades: Vec<(&Entry, &Fault)> = entries
        .iter()
        .zip(faults)
        .filter_map(|(entry, fault)| Some((*entry, fault.as_ref()?)))
        .filter(|(_, fault)| fault.to.is_some())
        .collect();
    for (place, (entry, fault)) in upgrades.iter().enumerate() {
        let befalls = |one: &Fault, other: &Fault, system: &ReadSystem<'_>| {
            one.target.part == other.target.part
                && one.befalls(&system.name)
                && other.befalls(&system.name)
        };
        let earlier = upgrades[..place].iter().find_map(|(_, earlier)| {
            let system = systems.iter().find(|system| befalls(earlier, fault, system))?;
            Some((earlier, system))
        });
        if let Some((earlier, system)) = earlier {
            let what = format!(
                "`{}` upgrades system `{}`, and so does `{}`",
                shown(&fault.name),
                system.name,
                shown(&earlier.name)
            );
            sink.hint(&entry.key_at, what, "upgrade a system once in a study");
        }
    }
}
