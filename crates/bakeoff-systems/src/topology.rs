//! Describes the components of a system: its own nodes and those of its parts, in the order of their start.
//!
//! Backends start before the system, frontends after it. All components are described before any of them starts, with
//! their ports and passwords, so that each can refer to the earlier ones.
//!
//! Not here: starting the components (`cluster` in the crate `bakeoff`), the needs of each kind (its folder).

use std::path::Path;

use bakeoff_core::study::{self, Tier};
use bakeoff_core::workload::mix64;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{HostError, Location, Upgrade};
use bakeoff_install::{InstalledProgram, Seal};

use super::location_plan::LocationPlan;
use super::{Access, DescribeContext, Description, Neighbour, System};

/// A system or one of its parts, with its program.
pub struct Component<'a> {
    /// Role: `storage`, or [`COMPOSITE`](super::COMPOSITE) for the system itself.
    pub role: &'a str,
    /// Tier; `None` for the system itself.
    pub tier: Option<Tier>,
    /// System as the study declares it.
    pub study_system: &'a study::System,
    /// Implementation of its kind.
    pub system: &'static dyn System,
    /// Program; `None` for a kind that is part of bakeoff.
    pub program: Option<InstalledProgram>,
    /// State of the program's files when it was found.
    pub seal: Option<Seal>,
    /// Program of the version that a fault upgrades it to, with the state of its files.
    pub upgrade: Option<(InstalledProgram, Seal)>,
}

/// A described component.
pub struct Member<'a> {
    /// Component.
    pub of: &'a Component<'a>,
    /// Nodes and settings.
    pub description: Description,
    /// Access to the nodes once they run.
    pub nodes: Vec<Access>,
}

impl Member<'_> {
    fn neighbour(&self) -> Neighbour {
        let Component { role, system, .. } = *self.of;
        Neighbour { role: role.to_owned(), system, nodes: self.nodes.clone() }
    }
}

/// Describes a system's components in order, with data below `dir`. `seed` determines the order of injected faults.
/// `locating` determines the machine of each node.
pub fn compose<'a>(
    components: &'a [Component<'a>],
    dir: &Path,
    seed: u64,
    locating: &LocationPlan,
    ports: &mut Allocator,
) -> Result<Vec<Member<'a>>, HostError> {
    let mut members: Vec<Member<'a>> = Vec::new();
    let composite = components.iter().find(|of| of.tier.is_none());
    let dealt = deal(locating, components);
    for (of, (_, locations)) in components.iter().zip(&dealt) {
        let neighbours = neighbours(&members);
        let program = of.program.as_ref();
        let (system, role) = (of.study_system, of.role);
        let composite = composite.map_or(system, |composite| composite.study_system);
        let context = DescribeContext {
            system,
            role,
            composite,
            program,
            dir,
            locations,
            members: &dealt,
            seed,
            neighbours: &neighbours,
        };
        let given = ports.given();
        let mut description = of.system.describe(&context, ports)?;
        if let Some((program, _)) = &of.upgrade {
            let context = DescribeContext { program: Some(program), ..context };
            let new = of.system.describe(&context, &mut ports.replay(given))?;
            for (node, new) in description.nodes.iter_mut().zip(new.nodes) {
                let env = [new.env, vec![padding(seed)]].concat();
                let version = program.version.clone();
                node.upgrade = Some(Upgrade { version, program: new.program, args: new.args, env });
            }
        }
        let level_words = of.system.declares().level_words;
        for node in &mut description.nodes {
            node.env.push(padding(seed));
            node.level_words = level_words;
        }
        let nodes = description.accesses();
        members.push(Member { of, description, nodes });
    }
    Ok(members)
}

/// Returns the role of each component and the locations of its nodes, in the order of the components.
///
/// Nodes get locations in rotation across all components, so that they spread over the machines. A component that must be
/// on another's machine takes that one's locations: a sidecar runs next to its application.
fn deal<'a>(
    locating: &LocationPlan,
    components: &[Component<'a>],
) -> Vec<(&'a str, Vec<Location>)> {
    let mut turn = 0;
    let mut dealt: Vec<(&str, Vec<Location>)> = Vec::new();
    for component in components {
        let adjacent = component.system.declares().located_with;
        let adjacent = adjacent.and_then(|role| dealt.iter().find(|(other, _)| *other == role));
        let locations = match adjacent {
            Some((_, locations)) => {
                locations.iter().map(|&location| locating.adjacent(location)).collect()
            }
            None => {
                let locations = locating.of_role(component.role, &component.study_system.kind);
                let nodes = component.study_system.nodes as usize;
                turn += nodes;
                (turn - nodes..turn).map(|turn| locations[turn % locations.len()]).collect()
            }
        };
        dealt.push((component.role, locations));
    }
    dealt
}

/// Variable that lengthens a server's environment.
const PADDING: &str = "BAKEOFF_PADDING";
/// Upper bound of its length in bytes, exclusive.
const PADDING_MAX: u64 = 4096;

/// Returns a variable whose length follows from the trial's seed. It is the same for all systems of a round, and
/// differs in the next round.
///
/// The length of the environment moves a program's stack, and so changes which data share a cache line. This alone can
/// change run times by up to a tenth (Mytkowicz, Diwan, Hauswirth and Sweeney, Producing Wrong Data Without Doing
/// Anything Obviously Wrong, ASPLOS 2009). Drawn anew for each round, it adds scatter instead of bias.
fn padding(seed: u64) -> (String, String) {
    let length = mix64(seed) % PADDING_MAX;
    (PADDING.to_owned(), "x".repeat(length as usize))
}

/// Returns the members as their neighbours see them.
pub fn neighbours(members: &[Member<'_>]) -> Vec<Neighbour> {
    members.iter().map(Member::neighbour).collect()
}

/// Returns a component's rank in the order of starts: backends, the system, frontends.
pub fn order(tier: Option<Tier>) -> u8 {
    match tier {
        Some(Tier::Backend) => 0,
        None => 1,
        Some(Tier::Frontend) => 2,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bakeoff_host::{Location, MachineId};

    use super::*;
    use crate::by_kind;
    use crate::testing::study_system;

    #[test]
    fn nodes_rotate_over_locations_and_a_sidecar_joins_its_application() {
        let location = |last: u8| Location { address: [127, 0, 0, last].into(), ..Location::HERE };
        let dealt =
            |locating: &LocationPlan, of: &[(&'static str, &str, u32)]| -> Vec<Vec<Location>> {
                let all: Vec<_> =
                    of.iter().map(|(_, kind, nodes)| study_system(kind, *nodes, &[])).collect();
                let component = |((role, kind, _), study_system)| {
                    let system = by_kind(kind).unwrap();
                    Component {
                        role,
                        tier: None,
                        study_system,
                        system,
                        program: None,
                        seal: None,
                        upgrade: None,
                    }
                };
                let components: Vec<_> = of.iter().copied().zip(&all).map(component).collect();
                deal(locating, &components).into_iter().map(|(_, locations)| locations).collect()
            };
        let three = LocationPlan::spread(vec![location(2), location(3), location(4)]);
        assert_eq!(
            dealt(&three, &[("storage", "consul", 2), ("system", "vault", 3)]),
            [vec![location(2), location(3)], vec![location(4), location(2), location(3)]]
        );
        let mesh = [
            ("application", "application", 1),
            ("control-plane", "istio", 1),
            ("sidecar", "envoy", 1),
        ];
        let gateway = ("system", "ingress-gateway", 1);
        assert_eq!(
            dealt(&three, &[mesh[0], mesh[1], mesh[2], gateway]),
            [vec![location(2)], vec![location(3)], vec![location(2)], vec![location(4)]]
        );
        let place = move |place: usize, last: u8| Location {
            machine: MachineId::Place(place),
            ..location(last)
        };
        let with_adjacent =
            LocationPlan::spread(vec![place(0, 2), place(1, 3)]).with_adjacent(move |location| {
                if location == place(0, 2) { place(5, 2) } else { location }
            });
        assert_eq!(
            dealt(&with_adjacent, &mesh),
            [vec![place(0, 2)], vec![place(1, 3)], vec![place(5, 2)]],
            "in a container of its own at its application's address"
        );
        assert_eq!(dealt(&LocationPlan::here(), &[("system", "etcd", 2)]), [[Location::HERE; 2]]);
    }

    #[test]
    fn pads_environments_by_another_length_each_round() {
        let lengths: BTreeSet<usize> = (0..20).map(|seed| padding(seed).1.len()).collect();
        assert!(lengths.len() > 15 && lengths.iter().all(|&length| length < 4096), "{lengths:?}");
        assert_eq!(padding(7), padding(7), "the systems of a round have the same");
    }
}
