//! Events of a trial for its charts: kills, restarts, exits of nodes, a change of leader.
//!
//! They come from the phases and samples of a record, including old ones. The exit of a node is placed at the first
//! sample without memory. A study's own kills and stops of nodes are no events: their injections show them.
//!
//! Not here: drawing (`html`), the cause of a node's exit (the check `servers`).

use bakeoff_core::record::Injection;
use bakeoff_core::study::Fault;
use bakeoff_core::trial_samples::{Column, GENERATOR, PhaseName, Series, TrialSamples};

/// An event of a trial.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    /// Time in seconds since the trial began.
    pub(crate) at: f64,
    pub(crate) kind: EventKind,
    /// Text without the time: `etcd-1 had ended by itself`.
    pub(crate) text: String,
}

/// The cause of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// The trial, as in every trial.
    Planned,
    /// The servers.
    Unplanned,
}

/// A time in which a fault kept a node down, in seconds since the trial began.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedEnd<'a> {
    node: &'a str,
    from: f64,
    to: f64,
}

/// Returns the times in which injections kept nodes down.
pub(crate) fn planned_ends<'a>(
    injections: &'a [Injection],
    faults: &[Fault],
) -> Vec<PlannedEnd<'a>> {
    let mut planned = Vec::new();
    for injection in injections {
        let begin = injection.stage.measured_from.unwrap_or(injection.stage.began);
        for hit in &injection.hits {
            let name = hit.fault.as_ref().unwrap_or(&injection.fault);
            let fault = faults.iter().find(|fault| fault.name == *name);
            if fault.is_some_and(|fault| fault.action.ends_nodes()) {
                let (from, to) = (begin + hit.from, hit.to.map_or(f64::INFINITY, |to| begin + to));
                planned.extend(hit.nodes.iter().map(|node| PlannedEnd { node, from, to }));
            }
        }
    }
    planned
}

/// Returns a trial's events, sorted by time. `leaders`: the leader before the load, and the one after it. `planned`: the
/// ends of nodes that the study asked for.
pub(crate) fn events(
    observed: &TrialSamples,
    leaders: Option<(&str, &str)>,
    planned: &[PlannedEnd<'_>],
) -> Vec<Event> {
    let mut events = kills(observed);
    // From this phase on, the trial itself ends nodes.
    let ends = [
        PhaseName::KillingUnderLoad,
        PhaseName::KillingAndRestarting,
        PhaseName::CuttingPower,
        PhaseName::FlippingBit,
        PhaseName::Stopping,
    ];
    let is_by_trial =
        |name: &String| PhaseName::read(name).is_some_and(|name| ends.contains(&name));
    let by_trial = observed.phases.iter().find(|phase| is_by_trial(&phase.name));
    let by_itself = by_trial.map_or(f64::INFINITY, |phase| phase.from);
    let nodes = observed.nodes.iter().filter(|node| node.name != GENERATOR);
    events.extend(nodes.filter_map(|node| {
        let own = || planned.iter().filter(|one| one.node == node.name);
        let at = ends_of(node).find(|end| !own().any(|one| one.explains(end)))?.seen;
        let text = format!("{} had ended by itself", node.name);
        (at < by_itself).then_some(Event { at, kind: EventKind::Unplanned, text })
    }));
    let load = observed.phases.iter().rfind(|phase| phase.name == PhaseName::Load.text());
    if let Some(((before, after), load)) = leaders.zip(load) {
        let text = format!("{after} leads instead of {before}");
        events.push(Event { at: load.to, kind: EventKind::Unplanned, text });
    }
    events.sort_by(|one, other| one.at.total_cmp(&other.at));
    events
}

/// Returns the kill of all nodes, and their return if they returned.
fn kills(observed: &TrialSamples) -> Vec<Event> {
    let name = PhaseName::KillingAndRestarting.text();
    let Some(place) = observed.phases.iter().position(|phase| phase.name == name) else {
        return Vec::new();
    };
    let phase = &observed.phases[place];
    let event = |at, text: &str| Event { at, kind: EventKind::Planned, text: text.to_owned() };
    let mut events = vec![event(phase.from, "kill -9 and restart of all nodes")];
    if observed.phases.len() > place + 1 {
        events.push(event(phase.to, "ready again"));
    }
    events
}

/// An end of a node, between two samples.
struct End {
    /// Time of the last sample with memory.
    ran: f64,
    /// Time of the first one without.
    seen: f64,
}

impl PlannedEnd<'_> {
    /// Returns true if the fault ended the node then.
    fn explains(&self, end: &End) -> bool {
        end.seen >= self.from && end.ran <= self.to
    }
}

/// Returns the ends of a node: a sample without memory after one with memory.
fn ends_of(node: &Series) -> impl Iterator<Item = End> {
    let resident = node.columns.get(&Column::Resident).map_or(&[][..], |bytes| bytes);
    let pairs = resident.windows(2).zip(node.at.windows(2));
    pairs
        .filter(|(bytes, _)| bytes[0] > 0.0 && bytes[1] == 0.0)
        .map(|(_, at)| End { ran: at[0], seen: at[1] })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bakeoff_core::trial_samples::Phase;

    use super::*;

    fn observed(phases: &[(PhaseName, f64, f64)], resident: &[f64]) -> TrialSamples {
        let phase = |&(name, from, to): &(PhaseName, f64, f64)| Phase {
            name: name.text().to_owned(),
            from,
            to,
        };
        let node = Series {
            name: "n-1".into(),
            at: (0..resident.len()).map(|second| second as f64).collect(),
            columns: BTreeMap::from([(Column::Resident, resident.to_vec())]),
        };
        let phases = phases.iter().map(phase).collect();
        TrialSamples { phases, nodes: vec![node], ..TrialSamples::default() }
    }

    fn seen(observed: TrialSamples) -> Vec<(f64, String)> {
        events(&observed, None, &[]).into_iter().map(|event| (event.at, event.text)).collect()
    }

    #[test]
    fn kill_and_return_of_nodes_are_events_but_their_stop_is_not() {
        let phases = [
            (PhaseName::Load, 0.0, 1.0),
            (PhaseName::KillingUnderLoad, 1.0, 2.0),
            (PhaseName::KillingAndRestarting, 2.0, 3.5),
            (PhaseName::ReadingBack, 3.5, 4.0),
            (PhaseName::Stopping, 4.0, 5.0),
        ];
        let both =
            [(2.0, "kill -9 and restart of all nodes".to_owned()), (3.5, "ready again".to_owned())];
        assert_eq!(seen(observed(&phases, &[9.0, 9.0, 0.0, 0.0, 9.0, 0.0])), both);
        assert_eq!(seen(observed(&phases[..3], &[9.0, 9.0])), both[..1], "they did not return");
    }

    #[test]
    fn a_node_that_ends_in_the_load_is_an_event() {
        let phases = [(PhaseName::Load, 0.0, 4.0), (PhaseName::Stopping, 4.0, 5.0)];
        let ended = [(2.0, "n-1 had ended by itself".to_owned())];
        assert_eq!(seen(observed(&phases, &[0.0, 9.0, 0.0, 0.0, 0.0])), ended);
        assert_eq!(seen(observed(&phases, &[0.0, 9.0, 9.0, 9.0, 9.0])), []);
    }

    #[test]
    fn node_that_a_fault_ends_is_no_event_and_its_later_end_is() {
        let phases = [(PhaseName::Load, 0.0, 1.0), (PhaseName::Injecting, 1.0, 9.0)];
        let of = |node, resident: &[f64]| {
            let planned = [PlannedEnd { node, from: 2.5, to: 4.5 }];
            let events = events(&observed(&phases, resident), None, &planned).into_iter();
            events.map(|event| event.at).collect::<Vec<_>>()
        };
        let killed = [9.0, 9.0, 9.0, 0.0, 0.0, 9.0, 9.0];
        assert!(of("n-1", &killed).is_empty());
        assert_eq!(of("n-2", &killed), [3.0], "another node was to end");
        assert_eq!(of("n-1", &[9.0, 9.0, 0.0, 0.0, 0.0, 9.0]), [2.0], "it ended before the fault");
        assert_eq!(of("n-1", &[9.0, 9.0, 9.0, 0.0, 9.0, 9.0, 0.0]), [6.0], "and later by itself");
    }

    #[test]
    fn change_of_leader_is_an_event_at_the_loads_end() {
        let observed = observed(&[(PhaseName::Load, 0.0, 4.0)], &[9.0]);
        let text = "n-2 leads instead of n-1".to_owned();
        assert_eq!(
            events(&observed, Some(("n-1", "n-2")), &[]),
            [Event { at: 4.0, kind: EventKind::Unplanned, text }]
        );
    }
}
