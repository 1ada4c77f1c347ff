//! Checks faults against the rest of a study: systems, loads and each other.
//!
//! Not here: checks of one verb (`study::fault`).

use std::time::Duration;

use super::super::loads::ReadLoad;
use super::super::systems::ReadSystem;
use crate::study::fault::{FaultedSystem, NODE_HINT, OTHERS};
use crate::study::reading::{Fields, unchecked};
use crate::study::tree::{DiagnosticSink, Entry};
use crate::study::{
    Arrivals, Fault, FaultNode, FaultTarget, Kind, Load, Routing, Servers, Stop, Targets,
};
use crate::suggest::suggest;
use crate::units::{duration_text, plural, shown};

/// Checks that bakeoff can do this to the system.
pub(super) fn can_befall(
    sink: &mut DiagnosticSink<'_>,
    fault: &Fault,
    of: &FaultedSystem<'_>,
    kind: Option<&Kind>,
) {
    let (system, verb) = (of.system, fault.action.name());
    let (target_at, name) = (of.fields.value_at(verb), &system.name);
    if system.servers != Servers::Started {
        let what = format!("bakeoff cannot `{verb}` system `{name}`, which runs already");
        sink.hint(target_at, what, OTHERS);
        return;
    }
    let known = sink.len();
    fault.action.check(sink, of);
    if sink.len() > known {
        return;
    }
    let FaultTarget { part, node } = &fault.target;
    let Some(nodes) = system.nodes_of(part.as_deref()) else {
        let role = part.as_deref().unwrap_or_default();
        let what = format!("system `{name}` has no part `{}`", shown(role));
        let hint = suggest(role, system.parts.keys().map(String::as_str), "its parts:");
        sink.hint(target_at, what, if system.parts.is_empty() { OTHERS.to_owned() } else { hint });
        return;
    };
    let named = fault.action.groups().iter().flatten().max_by_key(|node| node.nodes_min());
    let node = named.unwrap_or(node);
    if nodes < node.nodes_min() {
        let whose = part.as_ref().map_or(String::new(), |part| format!("part `{part}` of "));
        let what = format!(
            "{whose}system `{name}` has {}, and so no `{node}`",
            plural(nodes.into(), "node")
        );
        sink.hint(target_at, what, format!("{NODE_HINT}, or {OTHERS}"));
    } else if let Some((leader, one, other)) = same_node(fault.action.groups(), nodes) {
        let what = match leader {
            _ if nodes == 1 => {
                format!("`{one}` and `{other}` are the only node of system `{name}`")
            }
            leader => format!(
                "if `node-{leader}` of system `{name}` leads, `{one}` and `{other}` are the same node"
            ),
        };
        sink.hint(target_at, what, "name all nodes of a partition by role, or all by number");
    } else if part.is_none() && is_leaderless(kind, nodes) && by_role(fault) {
        let what = format!("bakeoff cannot know which node of system `{name}` leads");
        sink.hint(target_at, what, format!("name its nodes by number: `node-1`; or {OTHERS}"));
    }
}

/// Returns true if no probe tells which of several nodes leads: a process of the user's own has no protocol for it.
fn is_leaderless(kind: Option<&Kind>, nodes: u32) -> bool {
    nodes > 1 && kind.is_some_and(|kind| kind.is_process)
}

/// Returns true if a fault names a node by its role.
fn by_role(fault: &Fault) -> bool {
    let named = fault.action.groups().iter().flatten().chain([&fault.target.node]);
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
pub(super) fn is_steady(sink: &mut DiagnosticSink<'_>, read: &ReadLoad, load: &Load) {
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

/// Checks that no system or part is upgraded twice, because a trial cannot go back.
pub(super) fn upgrades_once(
    sink: &mut DiagnosticSink<'_>,
    entries: &[&Entry],
    faults: &[Option<Fault>],
    systems: &[ReadSystem<'_>],
) {
    let upgrades: Vec<(&Entry, &Fault)> = entries
        .iter()
        .zip(faults)
        .filter_map(|(entry, fault)| Some((*entry, fault.as_ref()?)))
        .filter(|(_, fault)| fault.action.upgrades_to().is_some())
        .collect();
    for (place, (entry, fault)) in upgrades.iter().enumerate() {
        let befalls = |one: &Fault, other: &Fault, system: &ReadSystem<'_>| {
            one.target.part == other.target.part
                && one.befalls(&system.name)
                && other.befalls(&system.name)
        };
        let earlier = upgrades[..place].iter().find_map(|(_, earlier)| {
            let system = systems.iter().find(|system| befalls(earlier, fault, system))?;
            Some((earlier, system))
        });
        if let Some((earlier, system)) = earlier {
            let what = format!(
                "`{}` upgrades system `{}`, and so does `{}`",
                shown(&fault.name),
                system.name,
                shown(&earlier.name)
            );
            sink.hint(&entry.key_at, what, "upgrade a system once in a study");
        }
    }
}

/// Checks that each fault with `alone: false` is in a sequence.
pub(super) fn all_happen(
    sink: &mut DiagnosticSink<'_>,
    entries: &[&Entry],
    faults: &[Option<Fault>],
) {
    let Some(all) = faults.iter().map(Option::as_ref).collect::<Option<Vec<&Fault>>>() else {
        return;
    };
    for (fault, entry) in all.iter().zip(entries).filter(|(fault, _)| !fault.alone) {
        let is_used = all.iter().any(|one| one.action.steps().contains(&fault.name));
        if let Some(alone) = unchecked(entry, "alone").filter(|_| !is_used) {
            let what =
                format!("fault `{}` never happens: no sequence names it", shown(&fault.name));
            sink.hint(&alone.node.at, what, "leave `alone` out, or name the fault in a `sequence`");
        }
    }
}
