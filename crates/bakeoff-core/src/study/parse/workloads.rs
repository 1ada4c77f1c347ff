//! Parses the workloads of a study.

use std::collections::BTreeMap;

use super::Scope;
use super::loads::ReadLoad;
use super::systems::ReadSystem;
use super::{keyed, request, watchers};
use crate::study::fields::{self, WEIGHT};
use crate::study::reading::{Fields, as_written, text, whole};
use crate::study::tree::{ByteRange, DiagnosticSink, Entry, Value};
use crate::study::{
    GROUP, GROUP_SIZES, HttpRequest, KeyOrder, Keys, Operation, Payload, ReadConsistency,
    ValueSizes, Workload,
};
use crate::suggest::suggest;
use crate::units::shown;

/// Maximum keys of a `scan`.
const SCAN_MAX: u32 = 10_000;

/// Operations and their weights.
pub(super) type Mix = BTreeMap<Operation, u32>;

/// Holds a workload as far as it could be parsed, and its positions.
pub(super) struct ReadWorkload {
    pub(super) name: String,
    pub(super) mix_at: BTreeMap<Operation, ByteRange>,
    pub(super) reads: Option<ReadConsistency>,
    pub(super) reads_at: ByteRange,
    /// True if the study sets the freshness of reads.
    pub(super) says_reads: bool,
    /// Largest size of a value in bytes.
    pub(super) value_size: Option<u64>,
    pub(super) value_size_at: ByteRange,
    pub(super) key_size_at: ByteRange,
    pub(super) order_at: ByteRange,
    pub(super) watchers_at: ByteRange,
    /// Entries of its `with`.
    pub(super) with: Vec<Entry>,
    /// Names of its systems; empty for all.
    pub(super) systems: Vec<String>,
    /// Names of its known loads.
    pub(super) loads: Vec<String>,
    /// `None` if any part of it is invalid.
    pub(super) workload: Option<Workload>,
}

impl ReadWorkload {
    /// Creates the workload before its fields are parsed: each position is that of its name, and it has all loads.
    fn unread(entry: &Entry, loads: &[ReadLoad]) -> Self {
        let at = &entry.key_at;
        Self {
            name: entry.key.clone(),
            mix_at: BTreeMap::new(),
            reads: None,
            reads_at: at.clone(),
            says_reads: false,
            value_size: None,
            value_size_at: at.clone(),
            key_size_at: at.clone(),
            order_at: at.clone(),
            watchers_at: at.clone(),
            with: Vec::new(),
            systems: Vec::new(),
            loads: loads.iter().map(|load| load.name.clone()).collect(),
            workload: None,
        }
    }

    /// Returns true if a system runs this workload.
    pub(super) fn is_done_by(&self, system: &ReadSystem<'_>) -> bool {
        self.systems.is_empty() || self.systems.contains(&system.name)
    }
}

/// Holds the rest of a study, which a workload refers to by name.
#[derive(Clone, Copy)]
pub(super) struct WorkloadReferences<'a> {
    pub(super) systems: &'a [ReadSystem<'a>],
    pub(super) loads: &'a [ReadLoad],
    pub(super) scope: Scope<'a>,
}

pub(super) fn read(
    sink: &mut DiagnosticSink<'_>,
    top: &Fields<'_>,
    known: WorkloadReferences<'_>,
) -> Vec<ReadWorkload> {
    let entries = top.named(sink, "workloads", "workload");
    entries.into_iter().map(|entry| workload(sink, entry, known)).collect()
}

fn workload(
    sink: &mut DiagnosticSink<'_>,
    entry: &Entry,
    known: WorkloadReferences<'_>,
) -> ReadWorkload {
    let mut read = ReadWorkload::unread(entry, known.loads);
    let what = format!("workload `{}`", shown(&entry.key));
    if let Some(fields) = Fields::open(sink, &fields::WORKLOAD, what, &entry.key_at, &entry.node) {
        read.workload = whole_workload(sink, &fields, known, &mut read);
    }
    read
}

/// Parses every field before it needs one, so that one pass finds all faults.
fn whole_workload(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    known: WorkloadReferences<'_>,
    read: &mut ReadWorkload,
) -> Option<Workload> {
    let mix = mix(sink, fields, read);
    let keys = keys(sink, fields, mix.as_ref(), read);
    let value_sizes = value_sizes(sink, fields, known.scope, read);
    let with = with(sink, fields, read);
    all_of_groups(sink, fields, mix.as_ref());
    let reads = reads(sink, fields, read);
    let fill = fill(sink, fields, mix.as_ref());
    if let (Some(mix), Some(false), Some(keys)) = (&mix, fill, &keys) {
        report_gets_of_missing_keys(sink, fields, mix, keys);
    }
    let request = request::read(sink, fields, mix.as_ref(), known.scope);
    read.watchers_at = fields.value_at("watchers").clone();
    let watchers = watchers::watchers(sink, fields, mix.as_ref(), keys.as_ref());
    let loads = loads(sink, fields, known.loads, read);
    let systems = systems(sink, fields, known.systems, read);
    Some(Workload {
        name: read.name.clone(),
        payload: payload(mix.as_ref()?, value_sizes, request)?,
        mix: mix?,
        keys: keys?,
        with: with?,
        reads: reads?,
        fill: fill?,
        watchers: watchers?,
        loads: loads?,
        systems: systems?,
    })
}

fn keys(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    mix: Option<&Mix>,
    read: &mut ReadWorkload,
) -> Option<Keys> {
    if fields.node("keys").is_none() {
        return no_keys(sink, fields, mix);
    }
    let keys = fields.table(sink, "keys")?;
    read.key_size_at = keys.value_at("size").clone();
    read.order_at = keys.value_at("order").clone();
    keyed::keys(sink, &keys, mix, &read.name)
}

fn value_sizes(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    scope: Scope<'_>,
    read: &mut ReadWorkload,
) -> Option<ValueSizes> {
    let values = match fields.node("values") {
        None => Fields::absent(&fields::VALUES),
        Some(_) => fields.table(sink, "values")?,
    };
    read.value_size_at = values.value_at("size").clone();
    let sizes = keyed::value_sizes(sink, &values, scope);
    read.value_size = sizes.as_ref().map(ValueSizes::most);
    sizes
}

fn reads(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    read: &mut ReadWorkload,
) -> Option<ReadConsistency> {
    read.reads = fields.word(sink, "reads", ReadConsistency::ALL);
    read.reads_at = fields.value_at("reads").clone();
    read.says_reads = fields.gives("reads");
    read.reads
}

/// Parses `fill`. By default all keys are written first if an operation reads or deletes one.
fn fill(sink: &mut DiagnosticSink<'_>, fields: &Fields<'_>, mix: Option<&Mix>) -> Option<bool> {
    let needs_keys = |operation: &Operation| operation.reads() || *operation == Operation::Delete;
    match fields.node("fill") {
        Some(_) => fields.flag(sink, "fill"),
        None => mix.map(|mix| mix.keys().any(needs_keys)),
    }
}

/// Reports gets that would find nothing, in a workload that does not fill its keys first.
fn report_gets_of_missing_keys(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    mix: &Mix,
    keys: &Keys,
) {
    if !mix.contains_key(&Operation::Get) {
        return;
    }
    let what = match mix.contains_key(&Operation::Put) {
        false => format!("{} reads keys that are never written", fields.what),
        true if keys.order == KeyOrder::Unique => {
            format!("{} gets each key once, and never one that it has put", fields.what)
        }
        true => return,
    };
    let hint = "leave `fill` out, and all keys are written before the load begins";
    sink.hint(fields.value_at("fill"), what, hint);
}

/// Parses the names of the workload's loads; all by default.
fn loads(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    known: &[ReadLoad],
    read: &mut ReadWorkload,
) -> Option<Vec<String>> {
    if fields.node("loads").is_some() {
        read.loads = chosen(sink, fields, "load", known.iter().map(|load| load.name.as_str()))?;
    }
    Some(read.loads.clone())
}

/// Parses the names of the workload's systems; empty by default, which means all.
fn systems(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    known: &[ReadSystem<'_>],
    read: &mut ReadWorkload,
) -> Option<Vec<String>> {
    if fields.node("systems").is_some() {
        let names = known.iter().map(|system| system.name.as_str());
        read.systems = chosen(sink, fields, "system", names)?;
    }
    Some(read.systems.clone())
}

/// Returns the keys of a workload without `keys`: one, if it stores nothing under keys.
fn no_keys(sink: &mut DiagnosticSink<'_>, fields: &Fields<'_>, mix: Option<&Mix>) -> Option<Keys> {
    let keyed = |operation: &Operation| operation.is_stored();
    if mix?.keys().any(keyed) {
        let what = format!("{} has no `keys`", fields.what);
        sink.hint(&fields.at, what, "add `keys: {count: 10000}`");
        return None;
    }
    let absent = Fields::absent(&fields::KEYS);
    let size = absent.size(sink, "size")?;
    Some(Keys { count: 1, size, order: KeyOrder::Uniform, per_directory: 0 })
}

/// Parses the operations' parameters, as far as that does not depend on the systems.
fn with(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    read: &mut ReadWorkload,
) -> Option<BTreeMap<String, String>> {
    if fields.node("with").is_none() {
        return Some(BTreeMap::new());
    }
    let entries = fields.entries(sink, "with")?;
    read.with = entries.to_vec();
    let texts = entries.iter().map(|entry| {
        let text = as_written(sink, &entry.key, &entry.node)?;
        // Client and judge must both know it, because scans are verified.
        let scan = || text.trim().parse().is_ok_and(|keys| (1..=SCAN_MAX).contains(&keys));
        if entry.key == "scan" && !scan() {
            let what = format!("`scan` must be from 1 to {SCAN_MAX} keys, not `{}`", shown(&text));
            sink.hint(&entry.node.at, what, "write `with: {scan: 100}`");
            return None;
        }
        let group = || text.trim().parse().is_ok_and(|keys| GROUP_SIZES.contains(&keys));
        if entry.key == GROUP.name && !group() {
            let (least, most) = (GROUP_SIZES.start(), GROUP_SIZES.end());
            let what =
                format!("`group` must be from {least} to {most} keys, not `{}`", shown(&text));
            sink.hint(&entry.node.at, what, "write `with: {group: 4}`");
            return None;
        }
        Some((entry.key.clone(), text.trim().to_owned()))
    });
    texts.collect()
}

/// Reports a mix of transactions and other operations on keys. They would see a group in part.
fn all_of_groups(sink: &mut DiagnosticSink<'_>, fields: &Fields<'_>, mix: Option<&Mix>) {
    let Some(mix) = mix else { return };
    let transaction = mix.keys().find(|operation| operation.is_of_groups());
    let other = mix.keys().find(|operation| operation.is_stored() && !operation.is_of_groups());
    if let (Some(transaction), Some(other)) = (transaction, other) {
        let what = format!("{} has `{transaction}` and `{other}` in its mix", fields.what);
        let hint = "a `look` or `move` is for groups of keys; put the other operations into a workload of their own";
        sink.hint(fields.value_at("mix"), what, hint);
    }
}

fn mix(sink: &mut DiagnosticSink<'_>, fields: &Fields<'_>, read: &mut ReadWorkload) -> Option<Mix> {
    if fields.node("mix").is_none() && fields.node("request").is_some() {
        let what = format!("{} has no `mix`", fields.what);
        sink.hint(&fields.at, what, "it sends HTTP requests: add `mix: {request: 1}`");
        return None;
    }
    let entries = fields.entries(sink, "mix")?;
    let mut mix = BTreeMap::new();
    let mut sound = true;
    for entry in entries {
        let found = Operation::ALL.iter().find(|operation| operation.name() == entry.key);
        if found.is_none() {
            let what = format!("unknown operation `{}` in {}", shown(&entry.key), fields.what);
            let names = Operation::NAMES.iter().copied();
            sink.hint(&entry.key_at, what, suggest(&entry.key, names, "known operations:"));
        }
        let weight = weight(sink, entry);
        match (found, weight.and_then(|weight| u32::try_from(weight).ok())) {
            (Some(operation), Some(weight)) => {
                if weight > 0 {
                    mix.insert(*operation, weight);
                    read.mix_at.insert(*operation, entry.key_at.clone());
                }
            }
            _ => sound = false,
        }
    }
    if sound && mix.is_empty() {
        let hint = "give at least one operation a weight: `mix: {get: 90, put: 10}`";
        sink.hint(fields.value_at("mix"), format!("the mix of {} is empty", fields.what), hint);
        sound = false;
    }
    sound.then_some(mix)
}

/// Parses `90`, or `90%` with the same meaning.
fn weight(sink: &mut DiagnosticSink<'_>, entry: &Entry) -> Option<u64> {
    let name = shown(&entry.key);
    if let Value::Scalar { text, plain } = &entry.node.value
        && let Some(number) = text.strip_suffix('%')
    {
        let value = Value::Scalar { text: number.trim().to_owned(), plain: *plain };
        return whole(sink, &name, &WEIGHT, &entry.node.holding(value));
    }
    whole(sink, &name, &WEIGHT, &entry.node)
}

/// Returns the payload of a mix: the request if an operation sends it, otherwise values.
fn payload(
    mix: &Mix,
    value_sizes: Option<ValueSizes>,
    request: Option<HttpRequest>,
) -> Option<Payload> {
    // Parse both before either is needed, so that all diagnostics are reported.
    let (sizes, request) = (value_sizes?, request?);
    Some(match mix.keys().any(|operation| operation.asks_over_http()) {
        true => Payload::Request(request),
        false => Payload::Values(sizes),
    })
}

/// Returns the names in a list that the study has.
pub(super) fn chosen<'n>(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    noun: &str,
    known: impl Iterator<Item = &'n str> + Clone,
) -> Option<Vec<String>> {
    let field = format!("{noun}s");
    let items = fields.list(sink, &field)?;
    let mut named: Vec<String> = Vec::new();
    for item in items {
        let Some(name) = text(sink, &field, item) else { continue };
        if !known.clone().any(|one| one == name) {
            let what = format!("unknown {noun} `{}` in {}", shown(&name), fields.what);
            let otherwise = format!("known {noun}s:");
            sink.hint(&item.at, what, suggest(&name, known.clone(), &otherwise));
        } else if named.contains(&name) {
            sink.add(&item.at, format!("{noun} `{}` is listed twice", shown(&name)));
        } else {
            named.push(name);
        }
    }
    (named.len() == items.len()).then_some(named)
}
