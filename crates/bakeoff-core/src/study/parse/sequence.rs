//! Parses sequences of faults: several faults of the study, one after another in one run of the load.
//!
//! Not here: single faults (`faults`).

use std::time::Duration;

use super::faults::{heals_in_time, lasts};
use super::loads::ReadLoad;
use super::systems::ReadSystem;
use crate::study::fault::{Fault, FaultAction, FaultNode, FaultTarget};
use crate::study::fields::FAULT;
use crate::study::reading::{Fields, text};
use crate::study::tree::{DiagnosticSink, Entry, Node, Value};
use crate::suggest::suggest;
use crate::units::shown;

/// Fields of a sequence; those of single faults do not belong to it.
const OWN: [&str; 4] = ["sequence", "at", "rest", "alone"];

/// Returns a field of a fault, before the fault is checked.
fn field<'a>(of: &'a Entry, name: &str) -> Option<&'a Entry> {
    match &of.node.value {
        Value::Map(fields) => fields.iter().find(|one| one.key == name),
        _ => None,
    }
}

pub(super) fn is_sequence(of: &Entry) -> bool {
    field(of, "sequence").is_some()
}

/// Parses a sequence. `entries` are all faults of the study, `known` those of them that could be parsed.
pub(super) fn read(
    sink: &mut DiagnosticSink<'_>,
    entry: &Entry,
    (entries, known): (&[&Entry], &[Option<Fault>]),
    systems: &[ReadSystem<'_>],
    loads: &[ReadLoad],
) -> Option<Fault> {
    let what = format!("fault `{}`", shown(&entry.key));
    let fields = Fields::open(sink, &FAULT, what, &entry.key_at, &entry.node)?;
    let others = FAULT.fields.iter().map(|field| field.name).filter(|name| !OWN.contains(name));
    for name in others.filter(|name| fields.node(name).is_some()) {
        let what = format!("{} has `sequence` and `{name}`", fields.what);
        let hint =
            "leave it out: the faults of a sequence have nodes, times and systems themselves";
        sink.hint(fields.key_at(name), what, hint);
    }
    let (at, rest) = (fields.duration(sink, "at"), fields.duration(sink, "rest"));
    let alone = fields.flag(sink, "alone");
    let items = fields.list(sink, "sequence")?;
    if items.len() < 2 {
        let what = format!("{} is a sequence of fewer than two faults", fields.what);
        sink.hint(fields.value_at("sequence"), what, "name two faults of the study, or more");
        return None;
    }
    let mut members: Vec<&Fault> = Vec::new();
    for item in items {
        let member = member(sink, &fields, item, entries, known)?;
        if let Some(to) = &member.to {
            let what = format!("{} holds `{}`, which upgrades to {to}", fields.what, member.name);
            sink.hint(&item.at, what, "an upgrade happens by itself, after all other faults");
        }
        if members.iter().any(|one| one.name == member.name) {
            let what = format!("{} has `{}` twice", fields.what, member.name);
            sink.hint(&item.at, what, "define the fault again under another name");
        } else if let Some(first) = members.first().filter(|one| one.systems != member.systems) {
            let (one, other) = (&first.name, &member.name);
            let what = format!("`{one}` and `{other}` happen to different systems");
            sink.hint(&item.at, what, "write the same `systems` in both");
        }
        members.push(member);
    }
    let (at, rest) = (at?, rest?);
    let lengths: Duration = members.iter().map(|one| lasts(one, systems)).sum();
    let heals = at + lengths + rest * (members.len() as u32 - 1);
    for load in loads.iter().filter_map(|load| load.load.as_ref()) {
        heals_in_time(sink, &fields, heals, load);
    }
    Some(Fault {
        name: entry.key.clone(),
        action: FaultAction::Sequence { rest },
        target: FaultTarget { part: None, node: FaultNode::Leader },
        groups: Vec::new(),
        to: None,
        at,
        systems: members[0].systems.clone(),
        sequence: members.iter().map(|one| one.name.clone()).collect(),
        alone: alone?,
    })
}

/// Returns the fault that an item of a sequence names; `None` if it has faults of its own.
fn member<'f>(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    item: &Node,
    entries: &[&Entry],
    known: &'f [Option<Fault>],
) -> Option<&'f Fault> {
    let name = text(sink, "sequence", item)?;
    let Some(place) = entries.iter().position(|one| one.key == name) else {
        let plain = entries.iter().filter(|one| !is_sequence(one)).map(|one| one.key.as_str());
        let hint = suggest(&name, plain, "known faults:");
        sink.unknown(&item.at, "fault", &name, &fields.what, hint);
        return None;
    };
    if is_sequence(entries[place]) {
        let what = format!("{} holds `{}`, which is a sequence", fields.what, shown(&name));
        sink.hint(&item.at, what, "name the faults of that sequence");
        return None;
    }
    known[place].as_ref()
}

/// Checks that each fault with `alone: false` is in a sequence.
pub(super) fn all_happen(
    sink: &mut DiagnosticSink<'_>,
    entries: &[&Entry],
    faults: &[Option<Fault>],
) {
    let Some(all) = faults.iter().map(Option::as_ref).collect::<Option<Vec<&Fault>>>() else {
        return;
    };
    for (fault, entry) in all.iter().zip(entries).filter(|(fault, _)| !fault.alone) {
        let is_used = all.iter().any(|one| one.sequence.contains(&fault.name));
        if let Some(alone) = field(entry, "alone").filter(|_| !is_used) {
            let what =
                format!("fault `{}` never happens: no sequence names it", shown(&fault.name));
            sink.hint(&alone.node.at, what, "leave `alone` out, or name the fault in a `sequence`");
        }
    }
}
