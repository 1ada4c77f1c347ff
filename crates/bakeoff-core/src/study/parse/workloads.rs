//! The workloads of a study: what the clients do.

use std::collections::BTreeMap;

use super::Scope;
use super::loads::ReadLoad;
use super::systems::ReadSystem;
use super::{keyed, request};
use crate::study::fields::{self, WEIGHT};
use crate::study::reading::{Fields, as_written, text, whole};
use crate::study::tree::{At, DiagnosticSink, Entry, Value};
use crate::study::{
    HttpRequest, KeyOrder, Keys, Operation, Payload, ReadConsistency, ValueSizes, Workload,
};
use crate::suggest::suggest;
use crate::units::shown;

/// The most keys that a `scan` asks for.
const SCAN_MAX: u32 = 10_000;

/// A workload as far as it could be read, and its places.
pub(super) struct ReadWorkload {
    pub(super) name: String,
    pub(super) mix_at: BTreeMap<Operation, At>,
    pub(super) reads: Option<ReadConsistency>,
    pub(super) reads_at: At,
    /// Whether the study says how fresh reads must be.
    pub(super) says_reads: bool,
    /// The largest size of a value, in bytes.
    pub(super) value_size: Option<u64>,
    pub(super) value_size_at: At,
    pub(super) key_size_at: At,
    pub(super) order_at: At,
    /// Entries of its `with`.
    pub(super) with: Vec<Entry>,
    /// Names of the systems that it names; none: all.
    pub(super) systems: Vec<String>,
    /// Names of the loads that could be found.
    pub(super) loads: Vec<String>,
    /// None when something in it is mistaken.
    pub(super) workload: Option<Workload>,
}

impl ReadWorkload {
    /// Returns whether a system is put to this work.
    pub(super) fn is_done_by(&self, system: &ReadSystem<'_>) -> bool {
        self.systems.is_empty() || self.systems.contains(&system.name)
    }
}

pub(super) fn read(
    sink: &mut DiagnosticSink<'_>,
    top: &Fields<'_>,
    known: (&[ReadSystem<'_>], &[ReadLoad]),
    scope: Scope<'_>,
) -> Vec<ReadWorkload> {
    let entries = top.named(sink, "workloads", "workload");
    entries.into_iter().map(|entry| workload(sink, entry, known, scope)).collect()
}

fn workload(
    sink: &mut DiagnosticSink<'_>,
    entry: &Entry,
    (systems, loads): (&[ReadSystem<'_>], &[ReadLoad]),
    scope: Scope<'_>,
) -> ReadWorkload {
    let name = entry.key.clone();
    let what = format!("workload `{}`", shown(&name));
    let at = entry.key_at.clone();
    let mut read = ReadWorkload {
        name: name.clone(),
        mix_at: BTreeMap::new(),
        reads: None,
        reads_at: at.clone(),
        says_reads: false,
        value_size: None,
        value_size_at: at.clone(),
        key_size_at: at.clone(),
        order_at: at,
        with: Vec::new(),
        systems: Vec::new(),
        loads: loads.iter().map(|load| load.name.clone()).collect(),
        workload: None,
    };
    let Some(fields) = Fields::open(sink, &fields::WORKLOAD, what, &entry.key_at, &entry.node)
    else {
        return read;
    };
    let mix = mix(sink, &fields, &mut read);
    let keys = match fields.node("keys") {
        None => no_keys(sink, &fields, mix.as_ref()),
        Some(_) => fields.table(sink, "keys").and_then(|keys| {
            read.key_size_at = keys.value_at("size").clone();
            read.order_at = keys.value_at("order").clone();
            keyed::keys(sink, &keys, mix.as_ref(), &name)
        }),
    };
    let values = match fields.node("values") {
        None => Some(Fields::absent(&fields::VALUES)),
        Some(_) => fields.table(sink, "values"),
    };
    let value_sizes = values.and_then(|values| {
        read.value_size_at = values.value_at("size").clone();
        keyed::value_sizes(sink, &values, scope)
    });
    let with = with(sink, &fields, &mut read);
    let reads = fields.word(sink, "reads", ReadConsistency::ALL);
    read.reads = reads;
    read.says_reads = fields.gives("reads");
    read.value_size = value_sizes.as_ref().map(ValueSizes::most);
    read.reads_at = fields.value_at("reads").clone();
    let needs_keys = |mix: &BTreeMap<Operation, u32>| {
        mix.keys().any(|operation| operation.reads() || *operation == Operation::Delete)
    };
    let fill = match fields.node("fill") {
        Some(_) => fields.flag(sink, "fill"),
        None => mix.as_ref().map(needs_keys),
    };
    if let (Some(mix), Some(false), Some(keys)) = (&mix, fill, &keys)
        && mix.contains_key(&Operation::Get)
    {
        let hint = "leave `fill` out, and all keys are written before the load begins";
        if !mix.contains_key(&Operation::Put) {
            let what = format!("{} reads keys that nobody writes", fields.what);
            sink.hint(fields.value_at("fill"), what, hint);
        } else if keys.order == KeyOrder::Unique {
            let what = format!("{} gets each key once, and never one that it has put", fields.what);
            sink.hint(fields.value_at("fill"), what, hint);
        }
    }
    let request = request::read(sink, &fields, mix.as_ref(), scope);
    let known = loads.iter().map(|load| load.name.as_str());
    let named = match fields.node("loads") {
        None => Some(known.map(str::to_owned).collect()),
        Some(_) => chosen(sink, &fields, "load", known),
    };
    if let Some(named) = &named {
        read.loads.clone_from(named);
    }
    let systems = match fields.node("systems") {
        None => Some(Vec::new()),
        Some(_) => {
            let known = systems.iter().map(|system| system.name.as_str());
            chosen(sink, &fields, "system", known)
        }
    };
    read.systems = systems.clone().unwrap_or_default();
    read.workload = (|| {
        Some(Workload {
            name,
            payload: payload(mix.as_ref()?, value_sizes, request)?,
            mix: mix?,
            keys: keys?,
            with: with?,
            reads: reads?,
            fill: fill?,
            loads: named?,
            systems: systems?,
        })
    })();
    read
}

/// The keys of a workload that says nothing of them: one, where nothing is stored under keys.
fn no_keys(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    mix: Option<&BTreeMap<Operation, u32>>,
) -> Option<Keys> {
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

/// Reads the operations' parameters, as far as that is possible without knowing the systems.
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
        // Both ends of the wire have to know it: what is scanned is verified.
        let scan = || text.trim().parse().is_ok_and(|keys| (1..=SCAN_MAX).contains(&keys));
        if entry.key == "scan" && !scan() {
            let what = format!("`scan` must be from 1 to {SCAN_MAX} keys, not `{}`", shown(&text));
            sink.hint(&entry.node.at, what, "write `with: {scan: 100}`");
            return None;
        }
        Some((entry.key.clone(), text.trim().to_owned()))
    });
    texts.collect()
}

fn mix(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    read: &mut ReadWorkload,
) -> Option<BTreeMap<Operation, u32>> {
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

/// `90`, or `90%` for the same.
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

/// Returns what the operations of a mix send: the request where one of them asks for it, else values.
fn payload(
    mix: &BTreeMap<Operation, u32>,
    value_sizes: Option<ValueSizes>,
    request: Option<HttpRequest>,
) -> Option<Payload> {
    // Both are read before either is needed, so that every diagnostic is told.
    let (sizes, request) = (value_sizes?, request?);
    Some(match mix.keys().any(|operation| operation.asks_over_http()) {
        true => Payload::Request(request),
        false => Payload::Values(sizes),
    })
}

/// The names that a list chooses of those that the study has.
fn chosen<'n>(
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
