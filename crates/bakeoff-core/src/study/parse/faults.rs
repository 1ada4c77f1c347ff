//! Parses the faults of a study, and checks that each of them can happen.
//!
//! Not here: making faults happen (`bakeoff_trial`).

mod disk;
mod upgrade;

use std::time::Duration;

use super::loads::ReadLoad;
use super::systems::ReadSystem;
use super::{maintenance, sequence};
use crate::study::fault::{CutDirection, Fault, FaultAction, FaultNode, FaultTarget};
use crate::study::fields::{self, FAULT};
use crate::study::reading::{Fields, seen, text};
use crate::study::tree::{At, DiagnosticSink, Entry, Node, Value};
use crate::study::{Arrivals, Kind, Load, Routing, Servers, Stop, Targets};
use crate::suggest::suggest;
use crate::units::{duration_text, plural, shown};

/// Actions of a fault, each with the field that sets its time.
const ACTIONS: [(&str, &str); 8] = [
    ("pause", "for"),
    ("kill", "restart-after"),
    ("stop", "restart-after"),
    ("restart", "every"),
    ("isolate", "for"),
    ("partition", "for"),
    ("run", "run"),
    ("disk", "for"),
];
/// Fields that belong to one action, with that action.
const OWN: [(&str, &str); 7] = [
    ("direction", "isolate"),
    ("existing", "isolate"),
    ("sync-delay", "disk"),
    ("stall", "disk"),
    ("full", "disk"),
    ("to", "restart"),
    ("times", "run"),
];
const NODE_HINT: &str = "write `leader`, `follower-1`, `node-1` or `each`";

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
            is_steady(sink, load, resolved);
        }
    }
    let entries = top.named(sink, "faults", "fault");
    let mut all: Vec<Option<Fault>> = Vec::new();
    for entry in &entries {
        all.push(match sequence::is_sequence(entry) {
            true => None,
            false => fault(sink, entry, systems, loads, kinds),
        });
    }
    // A sequence may name later faults.
    for (place, entry) in entries.iter().enumerate() {
        if sequence::is_sequence(entry) {
            all[place] = sequence::read(sink, entry, (&entries[..], &all[..]), systems, loads);
        }
    }
    sequence::all_happen(sink, &entries, &all);
    upgrade::only_once(sink, &entries, &all, systems);
    let faults = all.into_iter().collect::<Option<Vec<_>>>().filter(|_| sink.len() == known);
    ReadFaults { faults, repeat }
}

fn fault(
    sink: &mut DiagnosticSink<'_>,
    entry: &Entry,
    systems: &[ReadSystem<'_>],
    loads: &[ReadLoad],
    kinds: &[Kind],
) -> Option<Fault> {
    let what = format!("fault `{}`", shown(&entry.key));
    let fields = Fields::open(sink, &FAULT, what, &entry.key_at, &entry.node)?;
    let at = fields.duration(sink, "at");
    let own = own_systems(sink, &fields, systems);
    let alone = fields.flag(sink, "alone");
    let to = upgrade::read(sink, &fields);
    if fields.node("rest").is_some() {
        let what = format!("{} has `rest` and no `sequence`", fields.what);
        sink.hint(
            fields.key_at("rest"),
            what,
            "`rest` is the time between the faults of a sequence",
        );
    }
    let Parsed { action, target, groups, at: target_at } = action(sink, &fields)?;
    let fault = Fault {
        name: entry.key.clone(),
        action,
        target,
        groups,
        to: to?,
        at: at?,
        systems: own?,
        sequence: Vec::new(),
        alone: alone?,
    };
    for system in systems.iter().filter(|system| fault.befalls(&system.name)) {
        can_befall(sink, &fault, system, target_at);
        maintenance::is_offered(sink, &fields, &fault, system, kinds);
        upgrade::is_possible(sink, &fields, &fault, system, kinds);
    }
    for load in loads.iter().filter_map(|load| load.load.as_ref()) {
        heals_in_time(sink, &fields, fault.at + lasts(&fault, systems), load);
    }
    Some(fault)
}

/// Holds the action of a fault and its nodes, with the position of the nodes.
struct Parsed<'a> {
    action: FaultAction,
    target: FaultTarget,
    groups: Vec<Vec<FaultNode>>,
    at: &'a At,
}

/// Parses the action of a fault and its nodes.
fn action<'a>(sink: &mut DiagnosticSink<'_>, fields: &Fields<'a>) -> Option<Parsed<'a>> {
    let mut given = ACTIONS.iter().filter(|(verb, _)| fields.node(verb).is_some());
    let Some(&(verb, time)) = given.next() else {
        let hint = "add an action, such as `pause: leader`, `isolate: leader`, `disk: leader`, `run: snapshot` or a \
                    `sequence`";
        sink.hint(&fields.at, format!("{} breaks nothing", fields.what), hint);
        return None;
    };
    if let Some((other, _)) = given.next() {
        let what = format!("{} has both `{verb}` and `{other}`", fields.what);
        sink.hint(fields.key_at(other), what, "a fault is one action; write two faults");
        return None;
    }
    for (field, owner) in OWN {
        if verb != owner && fields.node(field).is_some() {
            let what = format!("{} has `{verb}` and `{field}`", fields.what);
            sink.hint(fields.key_at(field), what, format!("`{field}` belongs to `{owner}`"));
        }
    }
    if verb == "run" {
        let (action, target, at) = maintenance::read(sink, fields)?;
        return Some(Parsed { action, target, groups: Vec::new(), at });
    }
    if fields.node("node").is_some() {
        let what = format!("{} has `{verb}` and `node`", fields.what);
        sink.hint(fields.key_at("node"), what, format!("name the nodes in `{verb}`"));
    }
    for field in ["for", "restart-after", "every"] {
        if field != time && fields.node(field).is_some() {
            let what = format!("{} has `{verb}` and `{field}`", fields.what);
            sink.hint(fields.key_at(field), what, format!("the time of `{verb}` is `{time}`"));
        }
    }
    let lasts = fields.duration(sink, time);
    if lasts.is_none() && fields.node(time).is_none() {
        let what = format!("{} does not say when it heals", fields.what);
        sink.hint(&fields.at, what, format!("add `{time}: 10s`"));
    }
    let direction = fields.word(sink, "direction", &CutDirection::ALL.map(|(_, way)| way));
    let existing = fields.node("existing").is_some();
    let existing = if existing { fields.word(sink, "existing", &[true]) } else { Some(false) };
    let node = fields.node(verb)?;
    let (target, groups) = match verb {
        "partition" => {
            let all = FaultTarget { part: None, node: FaultNode::Each };
            (Some(all), groups(sink, fields))
        }
        _ => (target(sink, verb, fields.key_at(verb), node), Some(Vec::new())),
    };
    let disk = if verb == "disk" { disk::read(sink, fields, lasts) } else { None };
    let (lasts, target, groups) = (lasts?, target?, groups?);
    let action = match verb {
        "isolate" => FaultAction::Isolate { lasts, direction: direction?, existing: existing? },
        "partition" => FaultAction::Partition { lasts },
        "pause" => FaultAction::Pause { lasts },
        "kill" => FaultAction::Kill { restart_after: lasts },
        "stop" => FaultAction::Stop { restart_after: lasts },
        "disk" => FaultAction::Disk { fault: disk?, lasts },
        _ => FaultAction::Restart { every: lasts },
    };
    Some(Parsed { action, target, groups, at: &node.at })
}

/// Parses the groups of a partition.
fn groups(sink: &mut DiagnosticSink<'_>, fields: &Fields<'_>) -> Option<Vec<Vec<FaultNode>>> {
    const HINT: &str = "write at least two groups: `[[leader, follower-1], [follower-2]]`";
    let written = fields.list(sink, "partition")?;
    let mut groups: Vec<Vec<FaultNode>> = Vec::new();
    for group in written {
        let Value::List(nodes) = &group.value else {
            let what = format!("`partition` must be a list of groups, not {}", seen(group));
            sink.hint(&group.at, what, HINT);
            return None;
        };
        let mut own = Vec::new();
        for node in nodes {
            let word = text(sink, "partition", node)?;
            let parsed = word.parse::<FaultNode>().ok().filter(|node| *node != FaultNode::Each);
            let Some(parsed) = parsed else {
                let what = format!("`partition`: `{}` is not one node", shown(&word));
                sink.hint(&node.at, what, "write `leader`, `follower-1` or `node-1`");
                return None;
            };
            if own.contains(&parsed) || groups.iter().any(|group| group.contains(&parsed)) {
                let what = format!("`partition` has `{parsed}` twice");
                sink.hint(&node.at, what, "put each node into one group");
                return None;
            }
            own.push(parsed);
        }
        groups.push(own);
    }
    if groups.len() < 2 || groups.iter().any(Vec::is_empty) {
        let what = format!("{} separates nothing", fields.what);
        sink.hint(fields.value_at("partition"), what, HINT);
        return None;
    }
    Some(groups)
}

/// Parses the nodes of a fault: a word, or a part with a word.
pub(super) fn target(
    sink: &mut DiagnosticSink<'_>,
    verb: &str,
    at: &At,
    node: &Node,
) -> Option<FaultTarget> {
    let word = |sink: &mut DiagnosticSink<'_>, written: &str, at: &At| {
        let parsed = written.parse::<FaultNode>();
        parsed.map_err(|why| sink.hint(at, format!("`{verb}`: {why}"), NODE_HINT)).ok()
    };
    match &node.value {
        Value::Map(_) => {
            let own = Fields::open(sink, &fields::FAULT_NODE, format!("`{verb}`"), at, node)?;
            let part = own.text(sink, "part");
            let written = own.text(sink, "node")?;
            let node = word(sink, &written, own.value_at("node"));
            Some(FaultTarget { part: Some(part?), node: node? })
        }
        Value::Scalar { .. } => {
            let written = text(sink, verb, node)?;
            Some(FaultTarget { part: None, node: word(sink, &written, &node.at)? })
        }
        Value::List(_) => {
            sink.hint(&node.at, format!("`{verb}` must be a node, not {}", seen(node)), NODE_HINT);
            None
        }
    }
}

fn own_systems(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    systems: &[ReadSystem<'_>],
) -> Option<Vec<String>> {
    if fields.node("systems").is_none() {
        return Some(Vec::new());
    }
    let items = fields.list(sink, "systems")?;
    let mut names = Vec::new();
    for item in items {
        let Some(name) = text(sink, "systems", item) else { continue };
        if systems.iter().any(|system| system.name == name) {
            names.push(name);
        } else {
            let known = systems.iter().map(|system| system.name.as_str());
            let hint = suggest(&name, known, "known systems:");
            sink.unknown(&item.at, "system", &name, &fields.what, hint);
        }
    }
    (names.len() == items.len()).then_some(names)
}

/// Checks that bakeoff can do this to the system.
fn can_befall(sink: &mut DiagnosticSink<'_>, fault: &Fault, read: &ReadSystem<'_>, target_at: &At) {
    let Some(system) = &read.system else { return };
    let (verb, name) = (fault.action.name(), &system.name);
    let others = "name the others in the fault's `systems`";
    if system.servers != Servers::Started {
        let what = match fault.action {
            FaultAction::Run { .. } => {
                format!("bakeoff runs no maintenance of system `{name}`, which it did not start")
            }
            _ => format!("bakeoff cannot `{verb}` nodes of system `{name}`, which runs already"),
        };
        sink.hint(target_at, what, others);
        return;
    }
    let FaultTarget { part, node } = &fault.target;
    let keeps_none = |kind: &Kind| kind.takes_requests() && !kind.is_process;
    if verb == "disk" && part.is_none() && read.kind.is_some_and(keeps_none) {
        let what = format!("nodes of system `{name}` keep no data on a disk");
        sink.hint(target_at, what, others);
        return;
    }
    let Some(nodes) = system.nodes_of(part.as_deref()) else {
        let role = part.as_deref().unwrap_or_default();
        let what = format!("system `{name}` has no part `{}`", shown(role));
        let hint = suggest(role, system.parts.keys().map(String::as_str), "its parts:");
        sink.hint(target_at, what, if system.parts.is_empty() { others.to_owned() } else { hint });
        return;
    };
    let named = fault.groups.iter().flatten().max_by_key(|node| node.nodes_min());
    let node = named.unwrap_or(node);
    if nodes < node.nodes_min() {
        let whose = part.as_ref().map_or(String::new(), |part| format!("part `{part}` of "));
        let what = format!(
            "{whose}system `{name}` has {}, and so no `{node}`",
            plural(nodes.into(), "node")
        );
        sink.hint(target_at, what, format!("{NODE_HINT}, or {others}"));
    } else if let Some((leader, one, other)) = same_node(&fault.groups, nodes) {
        let what = match leader {
            _ if nodes == 1 => {
                format!("`{one}` and `{other}` are the only node of system `{name}`")
            }
            leader => format!(
                "if `node-{leader}` of system `{name}` leads, `{one}` and `{other}` are the same node"
            ),
        };
        sink.hint(target_at, what, "name all nodes of a partition by role, or all by number");
    } else if part.is_none() && is_leaderless(read.kind, nodes) && by_role(fault) {
        let what = format!("bakeoff cannot know which node of system `{name}` leads");
        sink.hint(target_at, what, format!("name its nodes by number: `node-1`; or {others}"));
    }
}

/// Returns true if no probe tells which of several nodes leads: a process of the user's own has no protocol for it.
fn is_leaderless(kind: Option<&Kind>, nodes: u32) -> bool {
    nodes > 1 && kind.is_some_and(|kind| kind.is_process)
}

/// Returns true if a fault names a node by its role.
fn by_role(fault: &Fault) -> bool {
    let named = fault.groups.iter().flatten().chain([&fault.target.node]);
    let mut named = named.filter(|node| matches!(node, FaultNode::Leader | FaultNode::Follower(_)));
    named.next().is_some()
}

/// Returns a leader that makes two nodes of a partition the same, and these. `None` if no leader does.
fn same_node(groups: &[Vec<FaultNode>], nodes: u32) -> Option<(u32, FaultNode, FaultNode)> {
    let all: Vec<FaultNode> = groups.iter().flatten().copied().collect();
    let place = |node: FaultNode, leader: u32| match node {
        FaultNode::Each => None,
        FaultNode::Leader => Some(leader),
        FaultNode::Numbered(place) => Some(place),
        FaultNode::Follower(place) => Some(if place < leader { place } else { place + 1 }),
    };
    (1..=nodes).find_map(|leader| {
        let mut pairs = all
            .iter()
            .enumerate()
            .flat_map(|(at, one)| all[..at].iter().map(move |other| (*other, *one)));
        let (one, other) =
            pairs.find(|(one, other)| place(*one, leader) == place(*other, leader))?;
        Some((leader, one, other))
    })
}

/// Returns the planned time from a fault to its end, for the largest of its systems.
pub(super) fn lasts(fault: &Fault, systems: &[ReadSystem<'_>]) -> Duration {
    let befallen = systems.iter().filter(|system| fault.befalls(&system.name));
    let nodes = befallen.filter_map(|one| {
        one.system.as_ref().and_then(|system| system.nodes_of(fault.target.part.as_deref()))
    });
    fault.heals_at(nodes.max().unwrap_or(1)) - fault.at
}

/// Checks that a fault heals while the load runs.
pub(super) fn heals_in_time(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    heals: Duration,
    load: &Load,
) {
    let Stop::After(time) = load.stop else { return };
    if heals >= time {
        let what = format!(
            "{} heals after {}, and load `{}` ends after {}",
            fields.what,
            duration_text(heals),
            load.name,
            duration_text(time)
        );
        let hint = "let the load run longer: the recovery after the fault is measured, too";
        sink.hint(fields.value_at("at"), what, hint);
    }
}

/// Checks that outages can be measured under the load.
fn is_steady(sink: &mut DiagnosticSink<'_>, read: &ReadLoad, load: &Load) {
    if load.arrivals == Arrivals::Closed {
        let what = format!("load `{}` is closed, and the study has faults", load.name);
        let hint = "a closed load sends nothing while its clients wait; add `rate: 1000/s`";
        sink.hint(&read.at, what, hint);
    }
    if let Stop::Operations(_) = load.stop {
        let what = format!("load `{}` ends by a count, and faults happen at set times", load.name);
        sink.hint(&read.stop_at, what, "write `stop: {after: 60s}`");
    }
    if load.find.is_some() {
        let what = format!("load `{}` searches for a rate, and the study has faults", load.name);
        sink.hint(&read.at, what, "search in a study of its own");
    }
    if load.targets != Routing::Same(Targets::All) {
        let what = format!("clients of load `{}` do not follow a new leader", load.name);
        sink.hint(&read.targets_at, what, "with faults, write `targets: all`");
    }
}
