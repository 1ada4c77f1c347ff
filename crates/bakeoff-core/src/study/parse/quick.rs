//! Parses the quick form of a study.
//!
//! The form is a study of its own. [`check`] therefore parses the form's part of the file as a study, so that each rule
//! of studies applies to it: operations for each client, operations for a percentile, unique keys, faults that heal.
//!
//! Not here: deriving the form (`study::quick`).

use super::Scope;
use super::loads::{self, ReadLoad};
use super::systems::ReadSystem;
use super::workloads::{ReadWorkload, chosen};
use crate::stats::TRIALS_MIN;
use crate::study::fields;
use crate::study::reading::Fields;
use crate::study::tree::{ByteRange, DiagnosticSink, Entry, Node, Value};
use crate::study::{DecidingPlace, Load, QuickForm, Study, usual_warmup};
use crate::suggest::{list, suggest};
use crate::units::{plural, shown};

/// Holds a quick form and its positions.
pub(super) struct ReadQuick {
    pub(super) form: QuickForm,
    /// Position of its name.
    at: ByteRange,
    /// Name and position of each load that it names.
    loads_at: Vec<(String, ByteRange)>,
}

/// Holds the parts of a study that a quick form may keep.
#[derive(Clone, Copy)]
pub(super) struct QuickParts<'a> {
    pub(super) systems: &'a [ReadSystem<'a>],
    pub(super) workloads: &'a [ReadWorkload],
    pub(super) loads: &'a [ReadLoad],
    /// The outer `None` is a mistake.
    pub(super) question: Option<Option<&'a DecidingPlace>>,
}

impl<'a> QuickParts<'a> {
    /// Returns the workload and the name of the load that decide; `None` if they are not known.
    fn deciding(self) -> Option<(&'a ReadWorkload, &'a str)> {
        match self.question? {
            Some(one) => {
                let workload = self.workloads.iter().find(|it| it.name == one.workload)?;
                Some((workload, one.load.as_str()))
            }
            None => {
                let workload = self.workloads.first()?;
                Some((workload, workload.loads.first()?.as_str()))
            }
        }
    }
}

/// Parses `quick`; the outer `None` is a mistake.
pub(super) fn read(
    sink: &mut DiagnosticSink<'_>,
    top: &Fields<'_>,
    known: QuickParts<'_>,
) -> Option<Option<ReadQuick>> {
    if top.node("quick").is_none() {
        return Some(None);
    }
    let fields = top.table(sink, "quick")?;
    let trials = trials(sink, &fields);
    let workloads = workloads(sink, &fields, known);
    let systems = systems(sink, &fields, known, workloads.as_deref());
    let read = loads(sink, &fields, known, workloads.as_deref());
    let (workloads, systems, Loads { mut loads, at: loads_at }) = (workloads?, systems?, read?);
    keeps_question(sink, &fields, known, &workloads, &loads)?;
    for workload in &workloads {
        let what = if !loads.iter().any(|load| workload.loads.contains(&load.name)) {
            "load"
        } else if !workload.systems.is_empty()
            && !workload.systems.iter().any(|name| systems.contains(name))
        {
            "system"
        } else {
            continue;
        };
        let text = format!("the quick form has no {what} for workload `{}`", workload.name);
        let hint = format!("add one to its `{what}s`, or leave the workload out");
        sink.hint(&fields.at, text, hint);
        return None;
    }
    for load in &mut loads {
        load.clients_for.retain(|system, _| systems.contains(system));
    }
    let workloads = workloads.into_iter().map(|one| one.name.clone()).collect();
    let form = QuickForm { workloads, systems, loads, trials: u32::try_from(trials?).ok()? };
    Some(Some(ReadQuick { form, at: fields.at, loads_at }))
}

fn trials(sink: &mut DiagnosticSink<'_>, fields: &Fields<'_>) -> Option<u64> {
    let few = fields.node("trials").and_then(|node| node.scalar()?.parse::<usize>().ok());
    if let Some(few) = few.filter(|&few| few < TRIALS_MIN) {
        let few = plural(few as u64, "trial");
        let what = format!("the quick form has {few}, and fewer than {TRIALS_MIN} decide nothing");
        sink.hint(fields.value_at("trials"), what, format!("write `trials: {TRIALS_MIN}` or more"));
        return None;
    }
    fields.whole(sink, "trials")
}

/// Returns the workloads of the form, in the study's order: by default, the one of the question.
fn workloads<'a>(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    known: QuickParts<'a>,
) -> Option<Vec<&'a ReadWorkload>> {
    if fields.node("workloads").is_none() {
        return Some(vec![known.deciding()?.0]);
    }
    let names = known.workloads.iter().map(|one| one.name.as_str());
    let names = chosen(sink, fields, "workload", names)?;
    Some(known.workloads.iter().filter(|one| names.contains(&one.name)).collect())
}

/// Returns the names of the form's systems, in the study's order: by default, all that run its workloads.
fn systems(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    known: QuickParts<'_>,
    workloads: Option<&[&ReadWorkload]>,
) -> Option<Vec<String>> {
    let all = || known.systems.iter().map(|one| one.name.as_str());
    let named = match fields.node("systems") {
        Some(_) => Some(chosen(sink, fields, "system", all())?),
        None => None,
    };
    let workloads = workloads?;
    let runs = |system: &&ReadSystem<'_>| workloads.iter().any(|one| one.is_done_by(system));
    let able: Vec<&str> = known.systems.iter().filter(runs).map(|one| one.name.as_str()).collect();
    let Some(named) = named else { return Some(able.into_iter().map(str::to_owned).collect()) };
    let items = fields.list(sink, "systems")?;
    let mut sound = true;
    for (name, item) in named.iter().zip(items).filter(|(name, _)| !able.contains(&name.as_str())) {
        let what = format!("system `{name}` runs no workload of the quick form");
        sink.hint(&item.at, what, format!("those that do: {}", list(&able)));
        sound = false;
    }
    let kept = all().filter(|name| named.iter().any(|one| one == name));
    sound.then(|| kept.map(str::to_owned).collect())
}

/// Holds the loads of a form, and the position of each that it names.
struct Loads {
    loads: Vec<Load>,
    at: Vec<(String, ByteRange)>,
}

/// Returns the loads of the form, in the study's order: by default, all of its workloads, unchanged.
fn loads(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    known: QuickParts<'_>,
    workloads: Option<&[&ReadWorkload]>,
) -> Option<Loads> {
    let is_used = |name: &String| {
        workloads.is_none_or(|workloads| workloads.iter().any(|one| one.loads.contains(name)))
    };
    let used: Vec<&ReadLoad> = known.loads.iter().filter(|one| is_used(&one.name)).collect();
    if fields.node("loads").is_none() {
        let loads = used.into_iter().map(|one| one.load.clone()).collect::<Option<_>>()?;
        return Some(Loads { loads, at: Vec::new() });
    }
    let mut shortened = Vec::new();
    let mut at = Vec::new();
    let mut sound = true;
    for entry in fields.entries(sink, "loads")? {
        let place = known.loads.iter().position(|one| one.name == entry.key);
        let names = || used.iter().map(|one| one.name.as_str());
        match place {
            None => {
                let hint = suggest(&entry.key, names(), "its loads:");
                sink.unknown(&entry.key_at, "load", &entry.key, &fields.what, hint);
                sound = false;
            }
            Some(_) if !is_used(&entry.key) => {
                let what = format!("no workload of the quick form uses load `{}`", entry.key);
                let names: Vec<&str> = names().collect();
                sink.hint(&entry.key_at, what, format!("its loads: {}", list(&names)));
                sound = false;
            }
            Some(place) => match shorter(sink, entry, &known.loads[place]) {
                Some(load) => {
                    at.push((entry.key.clone(), entry.key_at.clone()));
                    shortened.push((place, load));
                }
                None => sound = false,
            },
        }
    }
    shortened.sort_by_key(|(place, _)| *place);
    let loads = shortened.into_iter().map(|(_, load)| load).collect();
    sound.then_some(Loads { loads, at })
}

/// Returns a load of the study with the warm-up and end of its entry in the form.
fn shorter(sink: &mut DiagnosticSink<'_>, entry: &Entry, read: &ReadLoad) -> Option<Load> {
    let what = format!("load `{}` of `quick`", shown(&entry.key));
    let own = Fields::open(sink, &fields::QUICK_LOAD, what, &entry.key_at, &entry.node)?;
    let stop = own.node("stop").is_some().then(|| loads::stop(sink, &own));
    let warmup = own.node("warmup").is_some().then(|| own.duration(sink, "warmup"));
    let mut load = read.load.clone()?;
    if let Some(stop) = stop {
        load.stop = stop?;
    }
    if let Some(warmup) = warmup {
        load.warmup = warmup?;
    } else if read.usual_warmup {
        load.warmup = usual_warmup(load.stop, load.clients.len(), load.find.is_some());
    }
    Some(load)
}

/// Checks that the form still answers the study's question.
fn keeps_question(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    known: QuickParts<'_>,
    workloads: &[&ReadWorkload],
    loads: &[Load],
) -> Option<()> {
    let (workload, load) = known.deciding()?;
    let (name, other) = (&workload.name, "or give the study another `question`");
    let what = format!("the quick form leaves out `{name}/{load}`, the study's question");
    if !workloads.iter().any(|one| one.name == *name) {
        sink.hint(fields.value_at("workloads"), what, format!("add `{name}`, {other}"));
        return None;
    }
    if !loads.iter().any(|one| one.name == load) {
        sink.hint(fields.key_at("loads"), what, format!("add `{load}: {{}}`, {other}"));
        return None;
    }
    Some(())
}

/// Checks the quick form of a study by the rules of studies. Reports a fault at the load that it names, or at the
/// form. `root`: the study's file.
pub(super) fn check(
    sink: &mut DiagnosticSink<'_>,
    study: &Study,
    quick: &ReadQuick,
    (root, scope): (&Node, Scope<'_>),
) {
    let Ok(form) = study.clone().quick_form() else { return };
    let mut own = DiagnosticSink::new("quick", "");
    super::study(&mut own, &form.name, &part_of(root, &form), scope);
    for one in own.into_diagnostics().0 {
        let names = |name: &str| one.what.contains(&format!("load `{name}`"));
        let load = quick.loads_at.iter().find(|(name, _)| names(name));
        let at = load.map_or(&quick.at, |(_, at)| at);
        let what = format!("in the quick form, {}", one.what);
        match one.hint {
            Some(hint) => sink.hint(at, what, hint),
            None => sink.add(at, what),
        }
    }
}

/// Returns the part of a study's file that a quick form keeps, with the form's own loads.
fn part_of(root: &Node, form: &Study) -> Node {
    let keeps = |field: &str, name: &str| match (field, name) {
        ("study", "quick" | "publication" | "published" | "trials") => false,
        ("study", "repeat") => !form.faults.is_empty(),
        ("systems" | "clients-for", _) => form.systems.iter().any(|one| one.name == name),
        ("workloads", _) => form.workloads.iter().any(|one| one.name == name),
        ("loads", _) => form.loads.iter().any(|one| one.name == name),
        ("faults", _) => form.faults.iter().any(|one| one.name == name),
        _ => true,
    };
    let mut kept = pruned("study", root, &keeps);
    let changes = root.entry("quick").and_then(|quick| quick.entry("loads"));
    if let (Some(changes), Value::Map(entries)) = (changes, &mut kept.value)
        && let Some(loads) = entries.iter_mut().find(|entry| entry.key == "loads")
        && let Value::Map(loads) = &mut loads.node.value
    {
        for load in loads {
            let own = changes.entry(&load.key);
            load.node = own.map_or_else(|| load.node.clone(), |own| load.node.with(own));
        }
    }
    kept
}

/// Returns a node without the names that `keeps` refuses for their field, and without what is empty then.
fn pruned(field: &str, node: &Node, keeps: &impl Fn(&str, &str) -> bool) -> Node {
    let value = match &node.value {
        Value::Scalar { .. } => return node.clone(),
        Value::List(items) => {
            let named = |item: &&Node| item.scalar().is_none_or(|name| keeps(field, name));
            Value::List(items.iter().filter(named).cloned().collect())
        }
        Value::Map(entries) => {
            // A section's entries have names of the author's choice, which are no fields.
            let is_section = matches!(field, "systems" | "workloads" | "loads" | "faults");
            let kept = entries.iter().filter(|entry| keeps(field, &entry.key)).map(|entry| {
                let below = if is_section { "" } else { entry.key.as_str() };
                Entry { node: pruned(below, &entry.node, keeps), ..entry.clone() }
            });
            Value::Map(kept.filter(|entry| !entry.node.is_empty()).collect())
        }
    };
    node.holding(value)
}
