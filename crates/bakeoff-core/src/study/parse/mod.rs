//! Parses YAML text into a resolved study, or reports all its faults.
//!
//! Parsing continues after a fault where possible. A study is often written far from the machine that runs it, and
//! one round of fixes is better than five. Nothing is adjusted to make a study work, because that would be another
//! experiment.
//!
//! Not here: the fields (`fields`), parsing one value (`reading`), YAML itself (`tree`).

mod combine;
mod faults;
mod keyed;
mod loads;
mod published;
mod question;
mod quick;
mod request;
mod running;
mod surroundings;
pub(super) mod systems;
mod watchers;
mod workloads;

#[cfg(test)]
pub(crate) mod tests;

use std::time::Duration;

pub use surroundings::{Surroundings, TableError, TableFile, UncheckedSurroundings};

use super::diagnostic::{Diagnostic, Diagnostics};
use super::fields;
use super::reading::Fields;
use super::tree::{self, ByteRange, DiagnosticSink, Node};
use super::{
    BitFlipOf, Clusters, Kill, Kind, LinearizabilityCheck, PowerCutOf, PowerCuts, Publication,
    SAMPLE_EVERY_MIN, Study, TRIALS_MAX,
};
use crate::units::{count_text, duration_text, shown};

/// Parses the study `name` from `text`. `file` is its source in messages; `kinds` declares the abilities of each kind
/// of system.
///
/// # Errors
/// Reports every fault with its place, in the order of the text.
pub fn parse(name: &str, file: &str, text: &str, kinds: &[Kind]) -> Result<Study, Diagnostics> {
    parse_within(name, file, text, kinds, &UncheckedSurroundings)
}

/// Parses a study like [`parse`], and checks that `surroundings` have the files and variables that it refers to.
///
/// # Errors
/// Reports every fault, like [`parse`].
pub fn parse_within(
    name: &str,
    file: &str,
    text: &str,
    kinds: &[Kind],
    surroundings: &dyn Surroundings,
) -> Result<Study, Diagnostics> {
    let mut sink = DiagnosticSink::new(file, text);
    let study = tree::read(text, &mut sink)
        .and_then(|root| study(&mut sink, name, &root, Scope { kinds, surroundings }));
    match study {
        Some(study) if sink.is_empty() => Ok(study),
        _ if sink.is_empty() => Err(Diagnostics::from(Diagnostic {
            what: format!("`{file}` could not be read as a study, and bakeoff does not know why"),
            place: None,
            hint: Some("this is a mistake in bakeoff; please report it with the file".to_owned()),
        })),
        _ => Err(sink.into_diagnostics()),
    }
}

/// Holds the kinds and the machine that a study is checked against.
#[derive(Clone, Copy)]
struct Scope<'a> {
    kinds: &'a [Kind],
    surroundings: &'a dyn Surroundings,
}

/// Reports a value `$NAME` of a variable that is missing in bakeoff's environment.
fn is_set(sink: &mut DiagnosticSink<'_>, value: &str, at: &ByteRange, scope: Scope<'_>) {
    let Some(name) = value.strip_prefix('$') else { return };
    if !scope.surroundings.has_variable(name) {
        let what = format!("`${}` is not set in bakeoff's environment", shown(name));
        sink.hint(at, what, format!("run `export {}=…` first", shown(name)));
    }
}

fn study(
    sink: &mut DiagnosticSink<'_>,
    name: &str,
    root: &Node,
    scope: Scope<'_>,
) -> Option<Study> {
    let top = Fields::open(sink, &fields::STUDY, "the study", &(0..0), root)?;
    let title = top.text(sink, "title");
    let description = top.text(sink, "description");
    let systems = systems::read(sink, &top, scope);
    let loads = loads::read(sink, &top, &systems);
    let known = workloads::WorkloadReferences { systems: &systems, loads: &loads, scope };
    let workloads = workloads::read(sink, &top, known);
    let clusters = top.word(sink, "clusters", Clusters::ALL);
    let read_faults = faults::read(sink, &top, &systems, &loads, scope.kinds);
    combine::check(sink, &systems, &workloads, &loads, clusters);
    combine::keys_last(sink, &workloads, &loads, &read_faults);
    combine::watchers_exist(sink, &top, &workloads, &read_faults);
    let question = question::read(sink, &top, &workloads);
    let known = quick::QuickParts {
        systems: &systems,
        workloads: &workloads,
        loads: &loads,
        question: question.as_ref().map(Option::as_ref),
    };
    let quick = quick::read(sink, &top, known);
    let trials = top.whole(sink, "trials");
    let audit_keys = top.whole(sink, "audit-keys");
    let audit = top.table(sink, "audit");
    let kill = audit.as_ref().filter(|audit| audit.node("kill").is_some());
    let kill = kill.map(|audit| audit.word(sink, "kill", Kill::ALL));
    let linearizability = linearizability(sink, audit.as_ref());
    let power_cuts = power_cuts(sink, audit.as_ref(), clusters);
    let bit_flip = bit_flip(sink, audit.as_ref(), clusters);
    let sample_every = sample_every(sink, &top);
    let publication = top
        .table(sink, "publication")
        .and_then(|publication| self::publication(sink, &publication));
    let faults = read_faults.faults.as_deref();
    let published = published::read(sink, &top, &systems, &workloads, &loads, faults);
    let quick = quick?;
    let study = Study {
        name: name.to_owned(),
        title: title?,
        description,
        systems: systems.into_iter().map(|read| read.system).collect::<Option<_>>()?,
        workloads: workloads.into_iter().map(|read| read.workload).collect::<Option<_>>()?,
        loads: loads.into_iter().map(|read| read.load).collect::<Option<_>>()?,
        question: question?,
        faults: read_faults.faults?,
        repeat: read_faults.repeat?,
        trials: u32::try_from(trials?).ok()?,
        audit_keys: audit_keys?,
        kill: kill.map_or(Some(None), |kill| kill.map(Some))?,
        linearizability: linearizability?,
        power_cuts: power_cuts?,
        bit_flip: bit_flip?,
        sample_every: sample_every?,
        clusters: clusters?,
        publication,
        published,
        quick: quick.as_ref().map(|read| read.form.clone()),
        is_quick: false,
        scale: 1.0,
    };
    let planned = study.planned_trials();
    if planned > TRIALS_MAX {
        let (planned, most) = (count_text(planned), count_text(TRIALS_MAX));
        let what = format!("the study plans {planned} trials, and at most {most} are possible");
        sink.hint(top.value_at("trials"), what, "lower `trials`, or give workloads fewer `loads`");
    }
    if let Some(quick) = quick.filter(|_| sink.is_empty()) {
        quick::check(sink, &study, &quick, (root, scope));
    }
    Some(study)
}

/// Reads whether histories are checked, and kept.
fn linearizability(
    sink: &mut DiagnosticSink<'_>,
    audit: Option<&Fields<'_>>,
) -> Option<LinearizabilityCheck> {
    let Some(audit) = audit else { return Some(LinearizabilityCheck::Off) };
    let judged = audit.flag(sink, "linearizability")?;
    match (judged, audit.flag(sink, "history")?) {
        (false, false) => Some(LinearizabilityCheck::Off),
        (true, false) => Some(LinearizabilityCheck::On),
        (true, true) => Some(LinearizabilityCheck::KeepingHistory),
        (false, true) => {
            let what = "`history` needs the check that records it";
            sink.hint(audit.value_at("history"), what, "add `linearizability: true` to `audit`");
            None
        }
    }
}

/// Reads the power cuts of an `audit`. The outer `None` is a mistake.
fn power_cuts(
    sink: &mut DiagnosticSink<'_>,
    audit: Option<&Fields<'_>>,
    clusters: Option<Clusters>,
) -> Option<Option<PowerCuts>> {
    let Some(audit) = audit else { return Some(None) };
    if !audit.gives("power-cut") {
        if audit.gives("cuts") {
            let what = "`cuts` needs `power-cut`";
            sink.hint(audit.key_at("cuts"), what, "add `power-cut: all`");
            return None;
        }
        return Some(None);
    }
    let (of, cuts) = (audit.word(sink, "power-cut", PowerCutOf::ALL), audit.whole(sink, "cuts"));
    if clusters == Some(Clusters::Kept) {
        let what = "`power-cut` needs fresh clusters: it ends with a cluster of its own";
        sink.hint(audit.key_at("power-cut"), what, "write `clusters: fresh`");
        return None;
    }
    Some(Some(PowerCuts { of: of?, cuts: u32::try_from(cuts?).ok()? }))
}

/// Reads the flipped bit of an `audit`. The outer `None` is a mistake.
fn bit_flip(
    sink: &mut DiagnosticSink<'_>,
    audit: Option<&Fields<'_>>,
    clusters: Option<Clusters>,
) -> Option<Option<BitFlipOf>> {
    let Some(audit) = audit.filter(|audit| audit.gives("bit-flip")) else { return Some(None) };
    let nodes = audit.word(sink, "bit-flip", BitFlipOf::ALL)?;
    if clusters == Some(Clusters::Kept) {
        let what = "`bit-flip` needs fresh clusters: it damages the data of a node";
        sink.hint(audit.key_at("bit-flip"), what, "write `clusters: fresh`");
        return None;
    }
    Some(Some(nodes))
}

fn sample_every(sink: &mut DiagnosticSink<'_>, top: &Fields<'_>) -> Option<Duration> {
    let every = top.duration(sink, "sample-every")?;
    if every < SAMPLE_EVERY_MIN {
        let least = duration_text(SAMPLE_EVERY_MIN);
        let what = format!("`sample-every` must be at least {least}");
        sink.hint(
            top.value_at("sample-every"),
            what,
            "each look at the processes costs time of its own",
        );
        return None;
    }
    Some(every)
}

fn publication(sink: &mut DiagnosticSink<'_>, fields: &Fields<'_>) -> Option<Publication> {
    let title = fields.text(sink, "title");
    let hardware = fields.text(sink, "hardware");
    let versions = fields.text(sink, "versions");
    Some(Publication { title: title?, hardware: hardware?, versions })
}
