//! The loads of a study: how hard the clients work.

use std::collections::BTreeMap;
use std::time::Duration;

use super::systems::ReadSystem;
use crate::condition::Condition;
use crate::search::least_rate;
use crate::study::fields::{self, CLIENTS, STAGES_MAX};
use crate::study::reading::{Fields, suggest, text, whole, word};
use crate::study::tree::{At, Entry, Mistaken, Node, Value};
use crate::study::{Arrivals, Find, Load, Routing, Stop, Targets};
use crate::units::{count_text, duration_text, rate_text, shown};

/// The longest load, in seconds.
const LONGEST: f64 = 24.0 * 3600.0;

/// The usual warm-up is this part of what a stage is measured for,
const WARMUP_PART: u32 = 5;
/// at least so long, as the check for a steady state looks at whole seconds,
const WARMUP_MIN: Duration = Duration::from_secs(1);
/// and at most so long.
const WARMUP_MAX: Duration = Duration::from_secs(5);

/// A load as far as it could be read, and its places.
pub(super) struct ReadLoad {
    pub(super) name: String,
    pub(super) at: At,
    /// Where each stage's clients stand.
    pub(super) clients_at: Vec<At>,
    /// The same for each system that has its own.
    pub(super) clients_for_at: BTreeMap<String, Vec<At>>,
    pub(super) in_flight_at: At,
    pub(super) targets_at: At,
    pub(super) keep_alive_at: At,
    pub(super) stop_at: At,
    /// Whether the warm-up is the usual one, of which the study says nothing.
    pub(super) usual_warmup: bool,
    /// None when something in it is mistaken.
    pub(super) load: Option<Load>,
}

pub(super) fn read(
    mistaken: &mut Mistaken<'_>,
    top: &Fields<'_>,
    systems: &[ReadSystem<'_>],
) -> Vec<ReadLoad> {
    let entries = top.named(mistaken, "loads", "load");
    entries.into_iter().map(|entry| load(mistaken, entry, systems)).collect()
}

fn load(mistaken: &mut Mistaken<'_>, entry: &Entry, systems: &[ReadSystem<'_>]) -> ReadLoad {
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
    let Some(fields) = Fields::open(mistaken, &fields::LOAD, what, &entry.key_at, &entry.node)
    else {
        return read;
    };
    read.in_flight_at = fields.value_at("in-flight").clone();
    read.targets_at = fields.value_at("targets").clone();
    read.keep_alive_at = fields.value_at("keep-alive").clone();
    read.stop_at = fields.value_at("stop").clone();
    let clients = fields
        .list(mistaken, "clients")
        .and_then(|items| stages(mistaken, "clients", items, &mut read.clients_at));
    let clients_for = clients_for(mistaken, &fields, systems, clients.as_deref(), &mut read);
    let arrivals = arrivals(mistaken, &fields);
    if let (Some(clients), Some(arrivals)) = (&clients, arrivals)
        && arrivals != Arrivals::Closed
        && clients.len() > 1
    {
        let what = format!("{} has a `rate` and a list of clients", fields.what);
        let hint = "an open load has one number of clients; give each rate a load of its own";
        mistaken.hint(fields.value_at("clients"), what, hint);
    }
    let in_flight = fields.whole(mistaken, "in-flight");
    let stop = stop(mistaken, &fields);
    if let (Some(Stop::Operations(operations)), Some(rate)) =
        (stop, arrivals.and_then(Arrivals::rate))
        && operations as f64 / rate > LONGEST
    {
        let what = format!("{} needs more than 24h for its operations at its rate", fields.what);
        mistaken.hint(&read.stop_at, what, "raise the rate, or end the load earlier");
    }
    read.usual_warmup = fields.node("warmup").is_none();
    let warmup = match (read.usual_warmup, &clients, stop) {
        (true, Some(clients), Some(stop)) => Some(usual_warmup(stop, clients.len())),
        (true, ..) => None,
        (false, ..) => fields.duration(mistaken, "warmup"),
    };
    let timeout = fields.duration(mistaken, "timeout");
    let targets = targets(mistaken, &fields);
    let keep_alive = fields.word(mistaken, "keep-alive", &[true, false]);
    if let (Some(false), Some(2..)) = (keep_alive, in_flight) {
        let what =
            format!("{} has `keep-alive: off` and operations in flight together", fields.what);
        let hint = "each operation has a connection of its own; leave `in-flight` out";
        mistaken.hint(&read.in_flight_at, what, hint);
    }
    let tls_resumption = fields.word(mistaken, "tls-resumption", &[true, false]);
    let errors_max = fields.share(mistaken, "errors-max");
    let find = find(mistaken, &fields, arrivals, stop);
    read.load = (|| {
        Some(Load {
            name,
            clients: clients?,
            clients_for: clients_for?,
            arrivals: arrivals?,
            in_flight: u32::try_from(in_flight?).ok()?,
            stop: stop?,
            warmup: match (&find, stop) {
                (Some(Some(_)), Some(Stop::After(time))) if read.usual_warmup => {
                    warmup_of_a_try(time)
                }
                _ => warmup?,
            },
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

/// Returns how long each try of a search warms up where its load does not say: what the try before it left
/// would else be in its first moments.
fn warmup_of_a_try(time: Duration) -> Duration {
    (time / 5).min(Duration::from_secs(1))
}

/// The warm-up of each stage where the study says nothing of it: a fifth of the time that the stage is
/// measured for, from 1 s to 5 s. None in a load that ends by a count: that is a whole job, and its cold
/// start a part of it.
fn usual_warmup(stop: Stop, stages: usize) -> Duration {
    match stop {
        Stop::Operations(_) => Duration::ZERO,
        Stop::After(time) => {
            let stage = time / u32::try_from(stages).unwrap_or(u32::MAX).max(1);
            (stage / WARMUP_PART).clamp(WARMUP_MIN, WARMUP_MAX)
        }
    }
}

/// What rate is looked for, if any; `None` when that is mistaken.
fn find(
    mistaken: &mut Mistaken<'_>,
    load: &Fields<'_>,
    arrivals: Option<Arrivals>,
    stop: Option<Stop>,
) -> Option<Option<Find>> {
    if load.node("find").is_none() {
        return Some(None);
    }
    let find = load.table(mistaken, "find")?;
    if arrivals == Some(Arrivals::Closed) {
        let what = format!("{} looks for a rate and has none to begin with", load.what);
        mistaken.hint(&find.at, what, "add `rate: 100/s`, the rate that is tried first");
    }
    if let Some(Stop::Operations(_)) = stop {
        let what = format!("{} looks for a rate and ends by a count", load.what);
        let hint = "each rate is tried for a time: write `stop: {after: 10s}`";
        mistaken.hint(load.value_at("stop"), what, hint);
    }
    let items = find.list(mistaken, "objective")?;
    let mut objective = Vec::new();
    for item in items {
        let Some(written) = text(mistaken, "objective", item) else { continue };
        match written.parse::<Condition>() {
            Ok(condition) => {
                sample(mistaken, load, &condition, arrivals, stop, item);
                objective.push(written);
            }
            Err(why) => mistaken.add(&item.at, format!("`objective`: {why}")),
        }
    }
    (objective.len() == items.len()).then_some(Some(Find { objective }))
}

/// A try must have the operations that a percentile needs.
fn sample(
    mistaken: &mut Mistaken<'_>,
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
        mistaken.hint(&item.at, what, hint);
    }
}

/// Returns which nodes are asked: one word for all operations, or one each for writes and reads.
fn targets(mistaken: &mut Mistaken<'_>, load: &Fields<'_>) -> Option<Routing> {
    let Some(node) = load.node("targets") else { return Some(Routing::Same(Targets::All)) };
    let Value::Map(_) = node.value else {
        let place = word(mistaken, "targets", Targets::NAMES, node)?;
        return Targets::ALL.get(place).copied().map(Routing::Same);
    };
    let what = format!("`targets` of {}", load.what);
    let own = Fields::open(mistaken, &fields::TARGETS, what, load.key_at("targets"), node)?;
    let writes = own.word(mistaken, "writes", Targets::ALL);
    let reads = own.word(mistaken, "reads", Targets::ALL);
    Some(Routing::Split { writes: writes?, reads: reads? })
}

/// The clients of each stage, and where they stand.
fn stages(
    mistaken: &mut Mistaken<'_>,
    name: &str,
    items: &[Node],
    places: &mut Vec<At>,
) -> Option<Vec<u32>> {
    if let Some(surplus) = items.get(STAGES_MAX) {
        mistaken.add(&surplus.at, format!("`{name}` has more than {STAGES_MAX} stages"));
        return None;
    }
    let mut stages = Vec::new();
    for item in items {
        places.push(item.at.clone());
        if let Some(clients) = whole(mistaken, name, &CLIENTS, item) {
            stages.extend(u32::try_from(clients).ok());
        }
    }
    (stages.len() == items.len()).then_some(stages)
}

fn clients_for(
    mistaken: &mut Mistaken<'_>,
    fields: &Fields<'_>,
    systems: &[ReadSystem<'_>],
    clients: Option<&[u32]>,
    read: &mut ReadLoad,
) -> Option<BTreeMap<String, Vec<u32>>> {
    let mut clients_for = BTreeMap::new();
    if fields.node("clients-for").is_none() {
        return Some(clients_for);
    }
    let entries = fields.entries(mistaken, "clients-for")?;
    for entry in entries {
        if !systems.iter().any(|system| system.name == entry.key) {
            let what = format!("unknown system `{}` in {}", shown(&entry.key), fields.what);
            let names = systems.iter().map(|system| system.name.as_str());
            mistaken.hint(&entry.key_at, what, suggest(&entry.key, names, "known systems:"));
            continue;
        }
        let items = match &entry.node.value {
            Value::List(items) if !items.is_empty() => items.as_slice(),
            _ => std::slice::from_ref(&entry.node),
        };
        let mut places = Vec::new();
        let Some(own) = stages(mistaken, "clients-for", items, &mut places) else { continue };
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
            mistaken.hint(&entry.node.at, what, hint);
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

fn arrivals(mistaken: &mut Mistaken<'_>, fields: &Fields<'_>) -> Option<Arrivals> {
    let spaced: Option<fn(f64) -> Arrivals> = fields.word(
        mistaken,
        "arrivals",
        &[|rate| Arrivals::Constant { rate }, |rate| Arrivals::Poisson { rate }],
    );
    if fields.node("rate").is_none() {
        if fields.node("arrivals").is_some() {
            let what = format!("{} has `arrivals` and no `rate`", fields.what);
            let hint = "add `rate: 1000/s`; without a rate the load is closed, and each client's \
                        next operation follows its last";
            mistaken.hint(fields.key_at("arrivals"), what, hint);
            return None;
        }
        return Some(Arrivals::Closed);
    }
    let rate = fields.rate(mistaken, "rate")?;
    match (spaced, fields.node("arrivals")) {
        (Some(spaced), _) => Some(spaced(rate)),
        (None, None) => Some(Arrivals::Constant { rate }),
        (None, Some(_)) => None,
    }
}

fn stop(mistaken: &mut Mistaken<'_>, load: &Fields<'_>) -> Option<Stop> {
    let stop = load.table(mistaken, "stop")?;
    let after = stop.duration(mistaken, "after");
    let operations = stop.whole(mistaken, "operations");
    let hint = "write `stop: {after: 30s}` or `stop: {operations: 100000}`";
    match (stop.node("after").is_some(), stop.node("operations").is_some()) {
        (true, false) => after.map(Stop::After),
        (false, true) => operations.map(Stop::Operations),
        (true, true) => {
            let what = format!("{} has both `after` and `operations`", stop.what);
            mistaken.hint(stop.key_at("operations"), what, hint);
            None
        }
        (false, false) => {
            mistaken.hint(
                &stop.at,
                format!("{} says neither when nor after how much", stop.what),
                hint,
            );
            None
        }
    }
}
