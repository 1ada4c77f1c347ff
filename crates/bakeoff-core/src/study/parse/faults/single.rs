//! Parses a single fault by its verb.
//!
//! Not here: sequences of faults (`sequence`), checks against the rest of the study (`checks`).

use super::super::loads::ReadLoad;
use super::super::systems::ReadSystem;
use super::checks;
use crate::study::fault::{FAULT, FaultAction, FaultedSystem, VERBS, Verb};
use crate::study::reading::{Fields, text};
use crate::study::tree::{DiagnosticSink, Entry};
use crate::study::{Fault, Kind};
use crate::suggest::{list, suggest};
use crate::units::shown;

/// Fields of verbs that set a time.
const TIMES: [&str; 3] = ["for", "restart-after", "every"];

pub(super) fn read(
    sink: &mut DiagnosticSink<'_>,
    entry: &Entry,
    systems: &[ReadSystem<'_>],
    loads: &[ReadLoad],
    kinds: &[Kind],
) -> Option<Fault> {
    let what = format!("fault `{}`", shown(&entry.key));
    let fields = Fields::open(sink, &FAULT, what, &entry.key_at, &entry.node)?;
    let at = fields.duration(sink, "at");
    let own = own_systems(sink, &fields, systems);
    let alone = fields.flag(sink, "alone");
    let verb = verb(sink, &fields)?;
    let (action, target) = (verb.read)(sink, &fields)?;
    let name = entry.key.clone();
    let fault = Fault { name, action, target, at: at?, systems: own?, alone: alone? };
    for read in systems.iter().filter(|read| fault.befalls(&read.name)) {
        let Some(system) = &read.system else { continue };
        let of = FaultedSystem { fields: &fields, target: &fault.target, system, kinds };
        checks::can_befall(sink, &fault, &of, read.kind);
    }
    for load in loads.iter().filter_map(|load| load.load.as_ref()) {
        checks::heals_in_time(sink, &fields, fault.at + checks::lasts(&fault, systems), load);
    }
    Some(fault)
}

/// Returns the verb of a fault. Reports fields of other verbs.
pub(super) fn verb(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
) -> Option<&'static Verb<FaultAction>> {
    let mut given = VERBS.iter().filter(|verb| fields.node(verb.name).is_some());
    let Some(verb) = given.next() else {
        let hint = "add an action, such as `pause: leader`, `isolate: leader`, `disk: leader`, `run: snapshot` or a \
                    `sequence`";
        sink.hint(&fields.at, format!("{} breaks nothing", fields.what), hint);
        return None;
    };
    let name = verb.name;
    if let Some(other) = given.next() {
        let what = format!("{} has both `{name}` and `{}`", fields.what, other.name);
        sink.hint(fields.key_at(other.name), what, "a fault is one action; write two faults");
        return None;
    }
    for field in FAULT.fields.iter().map(|field| field.name) {
        let owners: Vec<&str> =
            VERBS.iter().filter(|verb| verb.has(field)).map(|verb| verb.name).collect();
        if owners.is_empty() || owners.contains(&name) || fields.node(field).is_none() {
            continue;
        }
        let time = TIMES.into_iter().find(|time| verb.required.contains(time));
        let hint = match time.filter(|_| TIMES.contains(&field)) {
            Some(time) => format!("the time of `{name}` is `{time}`"),
            None => format!("`{field}` belongs to {}", list(&owners)),
        };
        sink.hint(
            fields.key_at(field),
            format!("{} has `{name}` and `{field}`", fields.what),
            hint,
        );
    }
    Some(verb)
}

fn own_systems(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    systems: &[ReadSystem<'_>],
) -> Option<Vec<String>> {
    if fields.node("systems").is_none() {
        return Some(Vec::new());
    }
    let items = fields.list(sink, "systems")?;
    let mut names = Vec::new();
    for item in items {
        let Some(name) = text(sink, "systems", item) else { continue };
        if systems.iter().any(|system| system.name == name) {
            names.push(name);
        } else {
            let known = systems.iter().map(|system| system.name.as_str());
            let hint = suggest(&name, known, "known systems:");
            sink.unknown(&item.at, "system", &name, &fields.what, hint);
        }
    }
    (names.len() == items.len()).then_some(names)
}
