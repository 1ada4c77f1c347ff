//! Parses sequences of faults: several faults of the study, one after another in one run of the load.
//!
//! Not here: single faults (`single`).

use std::time::Duration;

use super::super::loads::ReadLoad;
use super::super::systems::ReadSystem;
use super::checks::{heals_in_time, lasts};
use super::single::verb;
use crate::study::fault::{FAULT, Sequence};
use crate::study::reading::{Fields, text, unchecked};
use crate::study::tree::{DiagnosticSink, Entry, Node};
use crate::study::{Fault, FaultAction};
use crate::suggest::suggest;
use crate::units::shown;

pub(super) fn is_sequence(of: &Entry) -> bool {
    unchecked(of, "sequence").is_some()
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
    if fields.node("systems").is_some() {
        let what = format!("{} has `sequence` and `systems`", fields.what);
        sink.hint(fields.key_at("systems"), what, "its faults have systems themselves");
    }
    let (at, alone) = (fields.duration(sink, "at"), fields.flag(sink, "alone"));
    let verb = verb(sink, &fields)?;
    let read = (verb.read)(sink, &fields);
    let items = fields.list(sink, "sequence")?;
    if items.len() < 2 {
        let what = format!("{} is a sequence of fewer than two faults", fields.what);
        sink.hint(fields.value_at("sequence"), what, "name two faults of the study, or more");
        return None;
    }
    let mut members: Vec<&Fault> = Vec::new();
    for item in items {
        let member = member(sink, &fields, item, entries, known)?;
        if let Some(to) = member.action.upgrades_to() {
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
    let (at, (action, target)) = (at?, read?);
    let FaultAction::Sequence(Sequence { rest, .. }) = action else { return None };
    let faults = members.iter().map(|one| one.name.clone()).collect();
    let lengths: Duration = members.iter().map(|one| lasts(one, systems)).sum();
    let heals = at + lengths + rest * (members.len() as u32 - 1);
    for load in loads.iter().filter_map(|load| load.load.as_ref()) {
        heals_in_time(sink, &fields, heals, load);
    }
    Some(Fault {
        name: entry.key.clone(),
        action: FaultAction::Sequence(Sequence { faults, rest }),
        target,
        at,
        systems: members[0].systems.clone(),
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
