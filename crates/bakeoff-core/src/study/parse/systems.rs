//! Parses the systems of a study: started by bakeoff, or already running.

use std::collections::{BTreeMap, BTreeSet};

use super::{Scope, is_set, running};
use crate::study::field::Form;
use crate::study::fields;
use crate::study::reading::{self, Fields, as_written, unit, whole};
use crate::study::tree::{DiagnosticSink, Entry, Node, Value};
use crate::study::{
    Kind, Limits, OptionForm, Process, ProcessText, Servers, System, UnknownPlaceholder,
};
use crate::suggest::{list, suggest};
use crate::units::{self, ByteCount, Unreadable, shown};

/// Holds a system as far as it could be parsed.
pub(super) struct ReadSystem<'k> {
    pub(super) name: String,
    pub(super) kind: Option<&'k Kind>,
    /// Number of nodes, if it could be parsed.
    pub(super) nodes: Option<u32>,
    /// `None` if any part of it is invalid.
    pub(super) system: Option<System>,
}

pub(super) fn read<'k>(
    sink: &mut DiagnosticSink<'_>,
    top: &Fields<'_>,
    scope: Scope<'k>,
) -> Vec<ReadSystem<'k>> {
    let entries = top.named(sink, "systems", "system");
    let one = |entry| system(sink, entry, scope);
    entries.into_iter().map(one).collect()
}

fn system<'k>(sink: &mut DiagnosticSink<'_>, entry: &Entry, scope: Scope<'k>) -> ReadSystem<'k> {
    let kinds = scope.kinds;
    let name = entry.key.clone();
    let what = format!("system `{}`", shown(&name));
    let mut read = ReadSystem { name: name.clone(), kind: None, nodes: None, system: None };
    let Some(fields) = Fields::open(sink, &fields::SYSTEM, what, &entry.key_at, &entry.node) else {
        return read;
    };
    let contenders = kinds.iter().filter(|kind| !kind.is_part()).map(|kind| kind.name);
    read.kind = kind(sink, &fields, kinds, contenders).filter(|kind| contends(sink, &fields, kind));
    let started = started(sink, &fields, &name, read.kind, scope);
    let endpoints = running::endpoints(sink, &fields);
    let metrics = running::metrics(sink, &fields);
    let mut asked = endpoints.clone();
    asked
        .iter_mut()
        .for_each(|all| all.extend(metrics.iter().flatten().map(|url| url.endpoint.clone())));
    let tls = running::tls(sink, &fields, asked.as_deref(), scope);
    let credentials = running::credentials(sink, &fields, read.kind, scope);
    let parts = parts(sink, &fields, &name, read.kind, scope);
    read.nodes = match &endpoints {
        Some(endpoints) if !endpoints.is_empty() => u32::try_from(endpoints.len()).ok(),
        _ => started.nodes,
    };
    if let (Some(kind), Some(nodes), Some(system), Some(endpoints), Some(metrics), Some(parts)) =
        (read.kind, read.nodes, started.system, endpoints, metrics, parts)
    {
        let servers = endpoints.into();
        let system = System { nodes, servers, metrics, tls, credentials, parts, ..system };
        read.system = is_sound(sink, &fields, kind, &system).then_some(system);
    }
    read
}

/// Reports why a system cannot run, at the unknown word if there is one. Returns true if it can.
fn is_sound(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    kind: &Kind,
    system: &System,
) -> bool {
    let misspelt = (kind.misspelt)(system);
    for UnknownPlaceholder { within, word, what, hint } in &misspelt {
        let text = fields.node("process").and_then(|process| text_of(process, within));
        let at = text.map_or(fields.at.clone(), |text| sink.piece(&text.at, word));
        sink.hint(&at, format!("{}: {what}", fields.what), hint);
    }
    if !misspelt.is_empty() {
        return false;
    }
    match (kind.sound)(system) {
        Ok(()) => true,
        Err((what, hint)) => {
            sink.hint(&fields.at, format!("{}: {what}", fields.what), hint);
            false
        }
    }
}

/// Returns the node of a text of a `process`.
fn text_of<'n>(process: &'n Node, text: &ProcessText) -> Option<&'n Node> {
    let below = |node: &'n Node, name: &str| {
        Some(&entries_of(node).iter().find(|entry| entry.key == name)?.node)
    };
    match text {
        ProcessText::Command(place) => match &below(process, "command")?.value {
            Value::List(words) => words.get(*place),
            _ => None,
        },
        ProcessText::Environment(name) => below(below(process, "environment")?, name),
        ProcessText::File(path) => below(below(process, "files")?, path),
    }
}

/// Holds the settings of servers to start, of a system or of a part.
struct ServerSettings {
    /// `None` if invalid, including too many.
    nodes: Option<u32>,
    /// `None` if anything except the nodes is invalid.
    system: Option<System>,
}

fn started(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    name: &str,
    kind: Option<&Kind>,
    scope: Scope<'_>,
) -> ServerSettings {
    let version = fields.version(sink, "version");
    let program = fields.text(sink, "program");
    let options = options(sink, fields, kind);
    let limits = limits(sink, fields);
    let process = process(sink, fields, scope);
    let given = fields.node("process").is_some();
    if let Some(kind) = kind.filter(|kind| kind.is_process != given) {
        let (at, what, hint) = match given {
            true => (
                fields.key_at("process"),
                format!("{} has a `process` and is of kind `{}`", fields.what, kind.name),
                "bakeoff knows how that is started; leave `process` out, or write `kind: process`",
            ),
            false => (
                &fields.at,
                format!("{} does not name its command", fields.what),
                "add `process: {command: [./gateway, --listen, \"{address}:{port}\"]}`",
            ),
        };
        // A running system is of another kind, which `sound` reports.
        if given || !fields.gives("endpoints") {
            sink.hint(at, what, hint);
        }
    }
    let nodes = fields.whole(sink, "nodes").and_then(|nodes| u32::try_from(nodes).ok());
    let nodes = match (nodes, kind) {
        (Some(nodes), Some(kind)) if nodes > kind.nodes_max => {
            let most = kind.nodes_max;
            let plural = if most == 1 { "node" } else { "nodes" };
            let what = format!("{} asks for {nodes} nodes", fields.what);
            let hint = format!("a system of kind `{}` has at most {most} {plural}", kind.name);
            sink.hint(fields.value_at("nodes"), what, hint);
            None
        }
        (nodes, _) => nodes,
    };
    let system = kind.zip(options).map(|(kind, options)| System {
        name: name.to_owned(),
        kind: kind.name.to_owned(),
        version,
        program,
        nodes: nodes.unwrap_or(1),
        options,
        limits,
        servers: Servers::Started,
        metrics: Vec::new(),
        tls: None,
        credentials: None,
        parts: BTreeMap::new(),
        process,
    });
    ServerSettings { nodes, system }
}

/// Checks that the kind can be loaded directly.
fn contends(sink: &mut DiagnosticSink<'_>, fields: &Fields<'_>, kind: &Kind) -> bool {
    if kind.is_part() {
        let what =
            format!("{} is of kind `{}`, which is only a part of others", fields.what, kind.name);
        let hint =
            "name it in the `parts` of a system that can have it; `bakeoff systems` lists them";
        sink.hint(fields.value_at("kind"), what, hint);
    }
    !kind.is_part()
}

/// Parses the parts of a system, by role.
fn parts(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    name: &str,
    kind: Option<&Kind>,
    scope: Scope<'_>,
) -> Option<BTreeMap<String, System>> {
    let mut parts = BTreeMap::new();
    if fields.node("parts").is_none() {
        return Some(parts);
    }
    if fields.node("endpoints").is_some() {
        let what = format!("{} has both `endpoints` and `parts`", fields.what);
        let hint = "a system with `endpoints` already runs, with all that it is made of";
        sink.hint(fields.key_at("parts"), what, hint);
    }
    let entries = fields.entries(sink, "parts")?;
    let kind = kind?;
    for entry in entries {
        if let Some(part) = part(sink, fields, name, entry, kind, scope) {
            parts.insert(entry.key.clone(), part);
        }
    }
    (parts.len() == entries.len()).then_some(parts)
}

fn part(
    sink: &mut DiagnosticSink<'_>,
    of: &Fields<'_>,
    system: &str,
    entry: &Entry,
    whole: &Kind,
    scope: Scope<'_>,
) -> Option<System> {
    let Some(role) = whole.roles.iter().find(|role| role.name == entry.key) else {
        let what = format!("kind `{}` has no part `{}`", whole.name, shown(&entry.key));
        let names = whole.roles.iter().map(|role| role.name);
        sink.hint(&entry.key_at, what, suggest(&entry.key, names, "its parts:"));
        return None;
    };
    let what = format!("part `{}` of {}", role.name, of.what);
    let fields = Fields::open(sink, &fields::PART, what, &entry.key_at, &entry.node)?;
    let kind = kind(sink, &fields, scope.kinds, role.kinds.iter().copied())?;
    if !role.kinds.contains(&kind.name) {
        let what = format!("a system of kind `{}` cannot be {}", kind.name, fields.what);
        sink.hint(fields.value_at("kind"), what, format!("it can be {}", list(role.kinds)));
        return None;
    }
    if let Some(service) = kind.emulates
        && !system.contains("emulated")
    {
        let what = format!("{} only emulates {service}, and its name does not say so", fields.what);
        let hint = format!(
            "call the system `{system}-emulated`, so that its figures are not mistaken for those of {service}"
        );
        sink.hint(&of.at, what, hint);
    }
    let started = started(sink, &fields, &format!("{system}-{}", role.name), Some(kind), scope);
    let nodes = started.nodes?;
    let part = System { nodes, ..started.system? };
    is_sound(sink, &fields, kind, &part).then_some(part)
}

fn kind<'k>(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    kinds: &'k [Kind],
    fitting: impl Iterator<Item = &'k str>,
) -> Option<&'k Kind> {
    let written = fields.text(sink, "kind")?;
    let kind = kinds.iter().find(|kind| kind.name == written);
    if kind.is_none() {
        let what = format!("unknown kind `{}` of {}", shown(&written), fields.what);
        let of_product = kinds.iter().find(|kind| kind.has_product(&written));
        let hint = of_product.map_or_else(
            || suggest(&written, fitting, "known kinds:"),
            |kind| format!("write `kind: {}` and `options: {{product: {written}}}`", kind.name),
        );
        sink.hint(fields.value_at("kind"), what, hint);
    }
    kind
}

fn options(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    kind: Option<&Kind>,
) -> Option<BTreeMap<String, String>> {
    let mut options = BTreeMap::new();
    if fields.node("options").is_none() {
        return Some(options);
    }
    let entries = fields.entries(sink, "options")?;
    let kind = kind?;
    let mut sound = true;
    let mut one = |sink: &mut DiagnosticSink<'_>, name: &str, entry: &Entry| {
        let Some(option) = kind.options.iter().find(|option| option.name == name) else {
            let what = format!("kind `{}` has no option `{}`", kind.name, shown(name));
            let names = kind.options.iter().map(|option| option.name);
            sink.hint(&entry.key_at, what, suggest(name, names, "its options:"));
            sound = false;
            return;
        };
        match option_value(sink, option.name, &option.form, &entry.node) {
            Some(value) => drop(options.insert(name.to_owned(), value)),
            None => sound = false,
        }
    };
    for entry in entries {
        let below = format!("{}.", entry.key);
        match &entry.node.value {
            // `connector: {path: …, module: …}` sets the options `connector.path` and `connector.module`.
            Value::Map(own) if kind.options.iter().any(|one| one.name.starts_with(&below)) => {
                for entry in own {
                    one(sink, &format!("{below}{}", entry.key), entry);
                }
            }
            _ => one(sink, &entry.key, entry),
        }
    }
    sound.then_some(options)
}

/// Parses the command of a system, if it has one.
fn process(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    scope: Scope<'_>,
) -> Option<Process> {
    let process = fields.table(sink, "process")?;
    let words = process.list(sink, "command")?;
    let command: Option<Vec<String>> =
        words.iter().map(|word| as_written(sink, "command", word)).collect();
    let environment = texts(sink, &process, "environment")?;
    for entry in process.node("environment").map(entries_of).unwrap_or_default() {
        let value = environment.get(&entry.key);
        secret(sink, entry, value, "PASSWORD SECRET TOKEN CREDENTIAL");
        if let Some(value) = value {
            is_set(sink, value, &entry.node.at, scope);
        }
    }
    let files = texts(sink, &process, "files")?;
    for entry in process.node("files").map(entries_of).unwrap_or_default() {
        let inside = |part| matches!(part, std::path::Component::Normal(_));
        if !std::path::Path::new(&entry.key).components().all(inside) || entry.key.is_empty() {
            let what = format!("file `{}` is not in the folder of the process", shown(&entry.key));
            sink.hint(&entry.key_at, what, "write a relative path without `..`: `conf/a.conf`");
        }
    }
    let ready = process.text(sink, "ready");
    if let Some(path) = &ready
        && !path.starts_with('/')
    {
        let what = format!("`ready` is a path and begins with `/`, unlike `{}`", shown(path));
        sink.hint(process.value_at("ready"), what, "write `ready: /health`");
    }
    Some(Process { command: command?, environment, files, ready })
}

fn entries_of(node: &Node) -> &[Entry] {
    match &node.value {
        Value::Map(entries) => entries,
        _ => &[],
    }
}

/// Parses a mapping from user-chosen names to texts; empty if omitted.
pub(super) fn texts(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    name: &str,
) -> Option<BTreeMap<String, String>> {
    if fields.node(name).is_none() {
        return Some(BTreeMap::new());
    }
    let entries = fields.entries(sink, name)?;
    let one = |entry: &Entry| {
        as_written(sink, &entry.key, &entry.node).map(|text| (entry.key.clone(), text))
    };
    entries.iter().map(one).collect()
}

/// Reports a probable secret in the study, which would end up in records.
pub(super) fn secret(
    sink: &mut DiagnosticSink<'_>,
    entry: &Entry,
    value: Option<&String>,
    words: &str,
) {
    let upper = entry.key.to_ascii_uppercase();
    let looks = words.split(' ').any(|word| upper.contains(word));
    if looks && value.is_some_and(|value| !value.is_empty() && !value.starts_with('$')) {
        let name = shown(&entry.key);
        let what = format!("`{name}` looks like a secret, and a record keeps the study");
        let variable = upper.replace('-', "_");
        let hint =
            format!("write `{}: ${variable}` and set it in bakeoff's environment", entry.key);
        sink.hint_secret(&entry.node.at, what, hint);
    }
}

/// Returns the value of an option as written, after checking its form.
pub(super) fn option_value(
    sink: &mut DiagnosticSink<'_>,
    name: &str,
    form: &OptionForm,
    node: &Node,
) -> Option<String> {
    let value = as_written(sink, name, node)?.trim().to_owned();
    if let OptionForm::Word(words) = form {
        return reading::word(sink, name, words, node).map(|_| value);
    }
    let read = option_form(name, form, &value);
    unit(sink, name, node, |_| read).map(|()| value)
}

/// Checks the form of an option's value.
pub(in crate::study) fn option_form(
    name: &str,
    form: &OptionForm,
    value: &str,
) -> Result<(), Unreadable> {
    match form {
        OptionForm::Text => Ok(()),
        OptionForm::Word(words) if words.contains(&value) => Ok(()),
        OptionForm::Word(words) => Err(Unreadable {
            what: format!("`{name}` cannot be `{}`", shown(value)),
            hint: suggest(value, words.iter().copied(), "known words:"),
        }),
        OptionForm::Number => value.parse::<u64>().map(|_| ()).map_err(|_| Unreadable {
            what: format!("`{}` is not a whole number", shown(value)),
            hint: "write it in digits alone: `10000`".to_owned(),
        }),
        OptionForm::Size => value.parse::<ByteCount>().map(|_| ()),
        OptionForm::Duration => units::parse_duration(value).map(|_| ()),
        OptionForm::Share => units::parse_share(value).map(|_| ()),
    }
}

fn limits(sink: &mut DiagnosticSink<'_>, fields: &Fields<'_>) -> Option<Limits> {
    let limits = fields.table(sink, "limits")?;
    if ["cpu", "memory", "cpus"].iter().all(|name| limits.node(name).is_none()) {
        let what = format!("{} limits nothing", limits.what);
        sink.hint(&limits.at, what, "write `limits: {cpu: 0.5, memory: 1GiB}`, or leave it out");
    }
    let cpu = limits.number(sink, "cpu");
    let memory = limits.size(sink, "memory").map(ByteCount);
    let cpus = cpus(sink, &limits);
    Some(Limits { cpu, memory, cpus })
}

/// Parses the CPUs of a node, in ascending order.
fn cpus(sink: &mut DiagnosticSink<'_>, limits: &Fields<'_>) -> Vec<u32> {
    let Some(items) = limits.node("cpus").and_then(|_| limits.list(sink, "cpus")) else {
        return Vec::new();
    };
    let form = Form::Whole { min: 0, max: 4095 };
    let one = |item| whole(sink, "cpus", &form, item).and_then(|cpu| u32::try_from(cpu).ok());
    let cpus: BTreeSet<u32> = items.iter().filter_map(one).collect();
    cpus.into_iter().collect()
}

/// Describes a kind's operations for a message.
pub(super) fn abilities(kind: &Kind) -> String {
    let operations: Vec<_> = kind.operations.iter().map(|operation| operation.name()).collect();
    format!("kind `{}` can {}", kind.name, list(&operations))
}
