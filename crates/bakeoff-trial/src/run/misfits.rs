//! Rules that a study and a places file must meet together.
//!
//! They ask no machine and create no pod. `run` refuses a study by the first broken rule, and `doctor` lists all of them.
//!
//! Not here: what only a machine can answer (`refusals`, and the binary's `commands::doctor`), rules of a places file alone
//! (`bakeoff_core::places`).

use std::collections::BTreeSet;

use bakeoff_core::places::{Places, ServerSelection};
use bakeoff_core::study::{Study, suggest};
use bakeoff_core::units::ranges_text;
use bakeoff_fleet::error::FleetError;
use bakeoff_systems as systems;

/// A reason why the machines of a places file cannot run a study.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// Reason, as a clause.
    pub what: String,
    /// Fix.
    pub hint: String,
}

/// Returns each reason why the machines of a places file cannot run a study.
pub fn misfits(study: &Study, places: &Places) -> Vec<Misfit> {
    [network_faults, disk_faults, several_generators, homeless, pins]
        .iter()
        .filter_map(|rule| rule(study, places))
        .collect()
}

/// Refuses a study that does not fit the places file.
pub(super) fn refuse(study: &Study, places: &Places) -> Result<(), FleetError> {
    match misfits(study, places).into_iter().next() {
        None => Ok(()),
        Some(Misfit { what, hint }) => Err(FleetError::input(what, hint)),
    }
}

/// Returns faults that cut networks, on machines whose network is not bakeoff's.
fn network_faults(study: &Study, places: &Places) -> Option<Misfit> {
    let fault = study.faults.iter().find(|fault| fault.action.needs_network());
    let fault = fault.filter(|_| !places.can_be_cut())?;
    let verb = fault.action.name();
    Some(Misfit {
        what: format!("fault `{}` cannot `{verb}` nodes on other machines", fault.name),
        hint: "bakeoff cuts networks that it made: run the study without `--on`, or leave the fault out with `--faults`"
            .to_owned(),
    })
}

/// Returns a system whose disks would break in pods, which may not mount file systems.
fn disk_faults(study: &Study, places: &Places) -> Option<Misfit> {
    places.kubernetes.as_ref()?;
    let system = study.with_disk_faults()?;
    Some(Misfit {
        what: format!("cannot break the disks of system `{}`: pods may not mount file systems", system.name),
        hint: "list machines that `ssh` reaches, run the study without `--on`, or leave those faults out with `--faults`"
            .to_owned(),
    })
}

/// Returns a workload with watchers, if several generators would each know only a part of the writes.
fn several_generators(study: &Study, places: &Places) -> Option<Misfit> {
    let workload = study.workloads.iter().find(|workload| workload.watchers.is_some())?;
    let generators = places.generators().len();
    (generators > 1).then(|| Misfit {
        what: format!(
            "workload `{}` has watchers, and the places file has {generators} generators, whose clocks differ",
            workload.name
        ),
        hint: "let one machine be the generator".to_owned(),
    })
}

/// Returns the first role of a study that no machine takes.
fn homeless(study: &Study, places: &Places) -> Option<Misfit> {
    // Pods do not exist yet, and take servers of all roles.
    if places.kubernetes.is_some() {
        return None;
    }
    if let Some(unknown) = unknown_role(places) {
        return Some(unknown);
    }
    let started = || study.systems.iter().filter(|system| system.is_started());
    for system in started() {
        for (role, one) in systems::by_role(system) {
            if !places.servers_of(role, &one.kind).is_empty() {
                continue;
            }
            let roles = started().flat_map(systems::by_role).map(|(role, _)| role);
            let roles: BTreeSet<String> = roles.map(|role| format!("`{role}`")).collect();
            let roles = roles.into_iter().collect::<Vec<_>>().join(", ");
            return Some(Misfit {
                what: format!(
                    "no machine of the places file takes the servers of role `{role}` of system `{}`",
                    system.name
                ),
                hint: format!(
                    "set `servers: true` on a machine, or list roles of study `{}`: {roles}",
                    study.name
                ),
            });
        }
    }
    None
}

/// Returns an unknown role in `servers`. Roles of other studies are known.
fn unknown_role(places: &Places) -> Option<Misfit> {
    let kinds = systems::kinds();
    let roles = || kinds.iter().flat_map(|kind| kind.roles).map(|role| role.name);
    let known = || std::iter::once(systems::COMPOSITE).chain(roles());
    places.machines.iter().find_map(|machine| {
        let ServerSelection::Roles(words) = &machine.servers else { return None };
        let unknown = words.iter().find(|word| known().all(|role| role != word.as_str()))?;
        let what = format!(
            "machine `{}` takes the servers of role `{unknown}`, which no system has",
            machine.name
        );
        Some(Misfit { what, hint: suggest(unknown, known(), "the roles:") })
    })
}

/// Returns a server pinned to a CPU that the places file withholds.
fn pins(study: &Study, places: &Places) -> Option<Misfit> {
    for system in study.systems.iter().filter(|system| system.is_started()) {
        for (role, one) in systems::by_role(system) {
            let pinned = one.limits.iter().flat_map(|limits| &limits.cpus);
            for place in places.servers_of(role, &one.kind) {
                let machine = &places.machines[place];
                let gives = |cpu: &&u32| machine.cpus.is_empty() || machine.cpus.contains(cpu);
                let Some(cpu) = pinned.clone().find(|cpu| !gives(cpu)) else { continue };
                return Some(Misfit {
                    what: format!(
                        "`{}` is pinned to CPU {cpu}, but `{}` gives CPUs {}",
                        one.name,
                        machine.name,
                        ranges_text(&machine.cpus)
                    ),
                    hint:
                        "change `cpus` of the system's limits, or of the machine in the places file"
                            .to_owned(),
                });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_a_role_that_no_system_has() {
        let places = |servers: &str| {
            let text = format!(
                "machines:\n  h1: {{ssh: h1, address: 198.18.0.2, servers: [{servers}]}}\n  \
                 h2: {{ssh: h2, address: 198.18.0.3, servers: true, generator: true}}\n"
            );
            Places::parse("places.yaml", &text).unwrap_or_else(|error| panic!("{error}"))
        };
        assert_eq!(unknown_role(&places("storage, system")), None);
        let Misfit { what, hint } = unknown_role(&places("storrage")).unwrap();
        assert_eq!(what, "machine `h1` takes the servers of role `storrage`, which no system has");
        assert!(hint.contains("`storage`"), "{hint}");
    }
}
