//! Parses the faults of a study, and checks that each of them can happen.
//!
//! Not here: the fields of each verb (`study::fault`), making faults happen (`bakeoff_trial`).

mod checks;
mod sequence;
mod single;

use super::loads::ReadLoad;
use super::systems::ReadSystem;
use crate::study::reading::Fields;
use crate::study::tree::DiagnosticSink;
use crate::study::{Fault, Kind};

/// Holds the faults as far as they could be parsed.
pub(super) struct ReadFaults {
    /// `None` if any part is invalid.
    pub(super) faults: Option<Vec<Fault>>,
    /// Number of injections of each fault in a trial.
    pub(super) repeat: Option<u32>,
}

pub(super) fn read(
    sink: &mut DiagnosticSink<'_>,
    top: &Fields<'_>,
    systems: &[ReadSystem<'_>],
    loads: &[ReadLoad],
    kinds: &[Kind],
) -> ReadFaults {
    let repeat = top.whole(sink, "repeat").and_then(|repeat| u32::try_from(repeat).ok());
    if top.node("faults").is_none() {
        if top.node("repeat").is_some() {
            let hint = "`repeat` is the number of injections of each fault; `trials` repeats loads";
            sink.hint(top.key_at("repeat"), "the study has `repeat` and no `faults`", hint);
        }
        return ReadFaults { faults: Some(Vec::new()), repeat };
    }
    let known = sink.len();
    for load in loads {
        if let Some(resolved) = &load.load {
            checks::is_steady(sink, load, resolved);
        }
    }
    let entries = top.named(sink, "faults", "fault");
    let mut all: Vec<Option<Fault>> = Vec::new();
    for entry in &entries {
        all.push(match sequence::is_sequence(entry) {
            true => None,
            false => single::read(sink, entry, systems, loads, kinds),
        });
    }
    // A sequence may name later faults.
    for (place, entry) in entries.iter().enumerate() {
        if sequence::is_sequence(entry) {
            all[place] = sequence::read(sink, entry, (&entries[..], &all[..]), systems, loads);
        }
    }
    checks::all_happen(sink, &entries, &all);
    checks::upgrades_once(sink, &entries, &all, systems);
    let faults = all.into_iter().collect::<Option<Vec<_>>>().filter(|_| sink.len() == known);
    ReadFaults { faults, repeat }
}
