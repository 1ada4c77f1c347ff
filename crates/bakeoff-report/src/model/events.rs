//! Events of a trial for its charts: kills, restarts, exits of nodes, a change of leader.
//!
//! They come from the phases and samples of a record, including old ones. The exit of a node is placed at the first
//! sample without memory.
//!
//! Not here: drawing (`html`), the cause of a node's exit (the check `servers`).

use bakeoff_core::observed::{Column, GENERATOR, Observed, PhaseName, Series};

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

/// Returns a trial's events, sorted by time. `leaders`: the leader before the load, and the one after it.
pub(crate) fn events(observed: &Observed, leaders: Option<(&str, &str)>) -> Vec<Event> {
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
        let at = end_of(node)?;
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
fn kills(observed: &Observed) -> Vec<Event> {
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

/// Returns the time of the first sample without memory after one with memory.
fn end_of(node: &Series) -> Option<f64> {
    let resident = node.columns.get(&Column::Resident)?;
    let first = resident.iter().position(|bytes| *bytes > 0.0)?;
    let gone = resident[first..].iter().position(|bytes| *bytes == 0.0)?;
    node.at.get(first + gone).copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bakeoff_core::observed::Phase;

    use super::*;

    fn observed(phases: &[(PhaseName, f64, f64)], resident: &[f64]) -> Observed {
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
        Observed { phases, nodes: vec![node], ..Observed::default() }
    }

    fn seen(observed: Observed) -> Vec<(f64, String)> {
        events(&observed, None).into_iter().map(|event| (event.at, event.text)).collect()
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
    fn change_of_leader_is_an_event_at_the_loads_end() {
        let observed = observed(&[(PhaseName::Load, 0.0, 4.0)], &[9.0]);
        let text = "n-2 leads instead of n-1".to_owned();
        assert_eq!(
            events(&observed, Some(("n-1", "n-2"))),
            [Event { at: 4.0, kind: EventKind::Unplanned, text }]
        );
    }
}
