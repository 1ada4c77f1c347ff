//! Words what each effect of a fault cost: each change of a configuration, each node of a rolling restart.
//!
//! Not here: which operations belong to an effect (`bakeoff_core::attribution`).

use std::collections::BTreeMap;

use bakeoff_core::record::{FaultHit, HitCost};
use bakeoff_core::stats::{and, middle};
use bakeoff_core::study::fault::MaintenanceRun;
use bakeoff_core::study::{Fault, FaultAction, Maintenance};
use bakeoff_core::units::count_text;

use super::outages::{FaultOutages, SystemOutages, seconds_text};

/// A figure of effects: its name and its text for a system.
type EffectFigure = (&'static str, fn(&Fault, &SystemOutages) -> Option<String>);

const ARRIVAL: [EffectFigure; 2] = [
    ("change until the gateway has it, median", |_, of| Some(seconds_text(middle(&arrived(of)?)))),
    ("change until the gateway has it, longest", |_, of| {
        arrived(of)?.last().copied().map(seconds_text)
    }),
];
const COSTS: [EffectFigure; 2] = [
    ("failed and unknown outcomes by effect", |fault, of| {
        by_effect(fault, of, |cost| Some(cost.failed + cost.unknown))
    }),
    ("delayed operations by effect", |fault, of| by_effect(fault, of, |cost| cost.delayed)),
];
/// Number of effects that a text names.
const NAMED: usize = 3;

/// Returns the figures of a fault with several effects; empty for others.
pub(crate) fn figures(of: &FaultOutages) -> Vec<EffectFigure> {
    let mut effects = of.systems.iter().flat_map(effects);
    let costs = if effects.any(|hit| hit.cost.is_some()) { &COSTS[..] } else { &[] };
    let arrival = if changes_routes(&of.fault) { &ARRIVAL[..] } else { &[] };
    arrival.iter().chain(costs).copied().collect()
}

/// Words when gateways had the changes of their routes: `; changes arrived after 0.21 s in consul and 0.17 s in istio`.
/// Empty for other faults.
pub(crate) fn arrivals(of: &FaultOutages) -> String {
    let of_system = of.systems.iter().filter(|_| changes_routes(&of.fault)).filter_map(|one| {
        Some(format!("{} in {}", seconds_text(middle(&arrived(one)?)), one.system))
    });
    let all: Vec<String> = of_system.collect();
    match all.is_empty() {
        true => String::new(),
        false => format!("; changes arrived after {}", and(&all)),
    }
}

fn changes_routes(fault: &Fault) -> bool {
    matches!(
        fault.action,
        FaultAction::Run(MaintenanceRun { operation: Maintenance::ChangeRoutes, .. })
    )
}

fn effects(of: &SystemOutages) -> impl Iterator<Item = &FaultHit> {
    of.counted().flat_map(|one| &one.effects)
}

/// Returns the times from each effect to its end, in ascending order; `None` without one.
fn arrived(of: &SystemOutages) -> Option<Vec<f64>> {
    let lasted = effects(of).filter_map(|hit| Some(hit.to? - hit.from));
    let mut all: Vec<f64> = lasted.collect();
    all.sort_unstable_by(f64::total_cmp);
    (!all.is_empty()).then_some(all)
}

/// Words a count by effect, the largest first: `4 (3 in change 4, 1 in change 7)`. `None` if a count is unknown.
fn by_effect(
    fault: &Fault,
    of: &SystemOutages,
    count: fn(&HitCost) -> Option<u64>,
) -> Option<String> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut names: Vec<String> = Vec::new();
    for one in of.counted() {
        for (number, hit) in (1..).zip(&one.effects) {
            let name = effect_name(fault, hit, number);
            let sum = counts.entry(name.clone()).or_insert_with(|| {
                names.push(name);
                0
            });
            *sum += count(hit.cost.as_ref()?)?;
        }
    }
    let mut costly: Vec<(u64, &String)> =
        names.iter().map(|name| (counts[name], name)).filter(|one| one.0 > 0).collect();
    // A stable sort: effects with equal counts keep their order.
    costly.sort_by_key(|one| std::cmp::Reverse(one.0));
    let sum: u64 = costly.iter().map(|one| one.0).sum();
    let named =
        costly.iter().take(NAMED).map(|(count, name)| format!("{} in {name}", count_text(*count)));
    let mut parts: Vec<String> = named.collect();
    let rest: u64 = costly.iter().skip(NAMED).map(|one| one.0).sum();
    if rest > 0 {
        parts.push(format!("{} in others", count_text(rest)));
    }
    match (names.is_empty(), sum) {
        (true, _) => None,
        (false, 0) => Some("none".to_owned()),
        (false, _) => Some(format!("{} ({})", count_text(sum), parts.join(", "))),
    }
}

/// Names an effect: the fault of a sequence, the change, or the nodes.
fn effect_name(fault: &Fault, hit: &FaultHit, number: u32) -> String {
    match (&hit.fault, changes_routes(fault)) {
        (Some(name), _) => name.clone(),
        (None, true) => format!("change {number}"),
        (None, false) => and(&hit.nodes),
    }
}
