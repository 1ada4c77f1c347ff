//! Parses the loads of a study.

use std::collections::BTreeMap;
use std::time::Duration;

use super::systems::ReadSystem;
use crate::condition::{Condition, least_rate};
use crate::study::field::STAGES_MAX;
use crate::study::fields::{self, CLIENTS};
use crate::study::reading::{Fields, text, whole, word};
use crate::study::tree::{ByteRange, DiagnosticSink, Entry, Node, Value};
use crate::study::{Arrivals, Find, Load, Routing, Stop, Targets, usual_warmup};
use crate::suggest::suggest;
use crate::units::{count_text, duration_text, rate_text, shown};

/// Maximum length of a load in seconds.
const LONGEST: f64 = 24.0 * 3600.0;

/// Holds a load as far as it could be parsed, and its positions.
pub(super) struct ReadLoad {
    pub(super) name: String,
    pub(super) at: ByteRange,
    /// Positions of each stage's clients.
    pub(super) clients_at: Vec<ByteRange>,
    /// Positions of each stage's clients, for systems with their own.
    pub(super) clients_for_at: BTreeMap<String, Vec<ByteRange>>,
    pub(super) in_flight_at: ByteRange,
    pub(super) targets_at: ByteRange,
    pub(super) keep_alive_at: ByteRange,
    pub(super) stop_at: ByteRange,
    /// True if the study omits the warm-up, so the default applies.
    pub(super) usual_warmup: bool,
    /// `None` if any part of it is invalid.
    pub(super) load: Option<Load>,
}

pub(super) fn read(
    sink: &mut DiagnosticSink<'_>,
    top: &Fields<'_>,
    systems: &[ReadSystem<'_>],
) -> Vec<ReadLoad> {
    let entries = top.named(sink, "loads", "load");
    entries.into_iter().map(|entry| load(sink, entry, systems)).collect()
}

fn load(sink: &mut DiagnosticSink<'_>, entry: &Entry, systems: &[ReadSystem<'_>]) -> ReadLoad {
    let name = entry.key.clone();
    let what = format!("load `{}`", shown(&name));
    let at = entry.key_at.clone();
    let mut read = ReadLoad {
        name: name.clone(),
        clients_at: Vec::new(),
        clients_for_at: BTreeMap::new(),
        in_flight_at: at.clone(),
        targets_at: at.clone(),
        keep_alive_at: at.clone(),
        stop_at: at.clone(),
        usual_warmup: false,
        load: None,
        at,
    };
    let Some(fields) = Fields::open(sink, &fields::LOAD, what, &entry.key_at, &entry.node) else {
        return read;
    };
    read.in_flight_at = fields.value_at("in-flight").clone();
    read.targets_at = fields.value_at("targets").clone();
    read.keep_alive_at = fields.value_at("keep-alive").clone();
    read.stop_at = fields.value_at("stop").clone();
    let clients = fields
        .list(sink, "clients")
        .and_then(|items| stages(sink, "clients", items, &mut read.clients_at));
    let clients_for = clients_for(sink, &fields, systems, clients.as_deref(), &mut read);
    let arrivals = arrivals(sink, &fields);
    if let (Some(clients), Some(arrivals)) = (&clients, arrivals)
        && arrivals != Arrivals::Closed
        && clients.len() > 1
    {
        let what = format!("{} has a `rate` and a list of clients", fields.what);
        let hint = "an open load has one number of clients; give each rate its own load";
        sink.hint(fields.value_at("clients"), what, hint);
    }
    let in_flight = fields.whole(sink, "in-flight");
    let stop = stop(sink, &fields);
    if let (Some(Stop::Operations(operations)), Some(rate)) =
        (stop, arrivals.and_then(Arrivals::rate))
        && operations as f64 / rate > LONGEST
    {
        let what = format!("{} needs more than 24h for its operations at its rate", fields.what);
        sink.hint(&read.stop_at, what, "raise the rate, or end the load earlier");
    }
    read.usual_warmup = fields.node("warmup").is_none();
    let warmup = match (read.usual_warmup, &clients, stop) {
        (true, Some(clients), Some(stop)) => {
            Some(usual_warmup(stop, clients.len(), fields.node("find").is_some()))
        }
        (true, ..) => None,
        (false, ..) => fields.duration(sink, "warmup"),
    };
    let timeout = fields.duration(sink, "timeout");
    let targets = targets(sink, &fields);
    let keep_alive = fields.word(sink, "keep-alive", &[true, false]);
    if let (Some(false), Some(2..)) = (keep_alive, in_flight) {
        let what =
            format!("{} has `keep-alive: off` and operations in flight together", fields.what);
        let hint = "each operation has its own connection; leave `in-flight` out";
        sink.hint(&read.in_flight_at, what, hint);
    }
    let tls_resumption = fields.word(sink, "tls-resumption", &[true, false]);
    let errors_max = fields.share(sink, "errors-max");
    let find = find(sink, &fields, arrivals, stop);
    read.load = (|| {
        Some(Load {
            name,
            clients: clients?,
            clients_for: clients_for?,
            arrivals: arrivals?,
            in_flight: u32::try_from(in_flight?).ok()?,
            stop: stop?,
            warmup: warmup?,
            timeout: timeout?,
            targets: targets?,
            keep_alive: keep_alive?,
            tls_resumption: tls_resumption?,
            errors_max: errors_max?,
            find: find?,
        })
    })();
    read
}

/// Parses the search for a rate; `None` if it is invalid.
fn find(
    sink: &mut DiagnosticSink<'_>,
    load: &Fields<'_>,
    arrivals: Option<Arrivals>,
    stop: Option<Stop>,
) -> Option<Option<Find>> {
    if load.node("find").is_none() {
        return Some(None);
    }
    let find = load.table(sink, "find")?;
    if arrivals == Some(Arrivals::Closed) {
        let what = format!("{} searches for a rate but has none to start with", load.what);
        sink.hint(&find.at, what, "add `rate: 100/s`, the rate that is tried first");
    }
    if let Some(Stop::Operations(_)) = stop {
        let what = format!("{} searches for a rate but ends by a count", load.what);
        let hint = "each rate is tried for a time: write `stop: {after: 10s}`";
        sink.hint(load.value_at("stop"), what, hint);
    }
    let items = find.list(sink, "objective")?;
    let mut objective = Vec::new();
    for item in items {
        let Some(written) = text(sink, "objective", item) else { continue };
        match written.parse::<Condition>() {
            Ok(condition) => {
                sample(sink, load, &condition, arrivals, stop, item);
                objective.push(written);
            }
            Err(why) => sink.add(&item.at, format!("`objective`: {why}")),
        }
    }
    (objective.len() == items.len()).then_some(Some(Find { objective }))
}

/// Reports a try with fewer operations than a percentile needs.
fn sample(
    sink: &mut DiagnosticSink<'_>,
    load: &Fields<'_>,
    condition: &Condition,
    arrivals: Option<Arrivals>,
    stop: Option<Stop>,
    item: &Node,
) {
    let (Some(arrivals), Some(Stop::After(time))) = (arrivals, stop) else { return };
    let Some(rate) = arrivals.rate() else { return };
    let by_chance = matches!(arrivals, Arrivals::Poisson { .. });
    let least = least_rate(std::slice::from_ref(condition), time, by_chance);
    if rate < least {
        let had = count_text((rate * time.as_secs_f64()) as u64);
        let needed = count_text((least * time.as_secs_f64()).ceil() as u64);
        let what = format!(
            "`{condition}` needs {needed} operations, and a try of {} has {had}: {} for {}",
            load.what,
            rate_text(rate),
            duration_text(time)
        );
        let longer = Duration::from_secs_f64((least * time.as_secs_f64() / rate).ceil());
        let hint = format!(
            "try each rate for {} or longer, begin at {} or more, or ask for a lower percentile",
            duration_text(longer),
            rate_text(least.ceil())
        );
        sink.hint(&item.at, what, hint);
    }
}

/// Parses the target nodes: one word for all operations, or separate ones for writes and reads.
fn targets(sink: &mut DiagnosticSink<'_>, load: &Fields<'_>) -> Option<Routing> {
    let Some(node) = load.node("targets") else { return Some(Routing::Same(Targets::All)) };
    let Value::Map(_) = node.value else {
        let place = word(sink, "targets", Targets::NAMES, node)?;
        return Targets::ALL.get(place).copied().map(Routing::Same);
    };
    let what = format!("`targets` of {}", load.what);
    let own = Fields::open(sink, &fields::TARGETS, what, load.key_at("targets"), node)?;
    let writes = own.word(sink, "writes", Targets::ALL);
    let reads = own.word(sink, "reads", Targets::ALL);
    Some(Routing::Split { writes: writes?, reads: reads? })
}

/// Parses the clients of each stage, and records their positions.
fn stages(
    sink: &mut DiagnosticSink<'_>,
    name: &str,
    items: &[Node],
    places: &mut Vec<ByteRange>,
) -> Option<Vec<u32>> {
    if let Some(surplus) = items.get(STAGES_MAX) {
        sink.add(&surplus.at, format!("`{name}` has more than {STAGES_MAX} stages"));
        return None;
    }
    let mut stages = Vec::new();
    for item in items {
        places.push(item.at.clone());
        if let Some(clients) = whole(sink, name, &CLIENTS, item) {
            stages.extend(u32::try_from(clients).ok());
        }
    }
    (stages.len() == items.len()).then_some(stages)
}

fn clients_for(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    systems: &[ReadSystem<'_>],
    clients: Option<&[u32]>,
    read: &mut ReadLoad,
) -> Option<BTreeMap<String, Vec<u32>>> {
    let mut clients_for = BTreeMap::new();
    if fields.node("clients-for").is_none() {
        return Some(clients_for);
    }
    let entries = fields.entries(sink, "clients-for")?;
    for entry in entries {
        if !systems.iter().any(|system| system.name == entry.key) {
            let what = format!("unknown system `{}` in {}", shown(&entry.key), fields.what);
            let names = systems.iter().map(|system| system.name.as_str());
            sink.hint(&entry.key_at, what, suggest(&entry.key, names, "known systems:"));
            continue;
        }
        let items = match &entry.node.value {
            Value::List(items) if !items.is_empty() => items.as_slice(),
            _ => std::slice::from_ref(&entry.node),
        };
        let mut places = Vec::new();
        let Some(own) = stages(sink, "clients-for", items, &mut places) else { continue };
        if let Some(all) = clients
            && all.len() != own.len()
        {
            let what = format!(
                "`clients-for` of `{}` has {} and `clients` has {}",
                entry.key,
                stages_text(own.len()),
                stages_text(all.len())
            );
            let hint = "stages are compared one by one, so that each system needs as many";
            sink.hint(&entry.node.at, what, hint);
            continue;
        }
        read.clients_for_at.insert(entry.key.clone(), places);
        clients_for.insert(entry.key.clone(), own);
    }
    (clients_for.len() == entries.len()).then_some(clients_for)
}

fn stages_text(stages: usize) -> String {
    if stages == 1 { "1 stage".to_owned() } else { format!("{stages} stages") }
}

fn arrivals(sink: &mut DiagnosticSink<'_>, fields: &Fields<'_>) -> Option<Arrivals> {
    let spaced: Option<fn(f64) -> Arrivals> = fields.word(
        sink,
        "arrivals",
        &[|rate| Arrivals::Constant { rate }, |rate| Arrivals::Poisson { rate }],
    );
    if fields.node("rate").is_none() {
        if fields.node("arrivals").is_some() {
            let what = format!("{} has `arrivals` and no `rate`", fields.what);
            let hint = "add `rate: 1000/s`; without a rate the load is closed, and each client's \
                        next operation follows its last";
            sink.hint(fields.key_at("arrivals"), what, hint);
            return None;
        }
        return Some(Arrivals::Closed);
    }
    let rate = fields.rate(sink, "rate")?;
    match (spaced, fields.node("arrivals")) {
        (Some(spaced), _) => Some(spaced(rate)),
        (None, None) => Some(Arrivals::Constant { rate }),
        (None, Some(_)) => None,
    }
}

/// Parses the end of a load, or that of a quick form's load.
pub(super) fn stop(sink: &mut DiagnosticSink<'_>, load: &Fields<'_>) -> Option<Stop> {
    let stop = load.table(sink, "stop")?;
    let after = stop.duration(sink, "after");
    let operations = stop.whole(sink, "operations");
    let hint = "write `stop: {after: 30s}` or `stop: {operations: 100000}`";
    match (stop.node("after").is_some(), stop.node("operations").is_some()) {
        (true, false) => after.map(Stop::After),
        (false, true) => operations.map(Stop::Operations),
        (true, true) => {
            let what = format!("{} has both `after` and `operations`", stop.what);
            sink.hint(stop.key_at("operations"), what, hint);
            None
        }
        (false, false) => {
            sink.hint(
                &stop.at,
                format!("{} has neither `after` nor `operations`", stop.what),
                hint,
            );
            None
        }
    }
}
