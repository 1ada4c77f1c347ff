//! Pods in place of machines: a namespace of the run's own, with servers as a StatefulSet and generators as an Indexed Job.
//!
//! The Job owns everything else. Its pods end by themselves a minute after their last agent, and with it goes
//! whatever a coordinator that was killed could not remove. The namespace is removed by a generator's agent
//! (`keeper`), where the user may give it that right.
//!
//! Not here: the manifests (`manifests`), the agents in the pods.

pub(crate) mod keeper;
mod kubectl;
mod limits;
mod manifests;
mod names;
mod survey;
mod troubles;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_agent::{Agent, AgentError, Carrier};
use bakeoff_clock as clock;
use bakeoff_core::places::{Kubernetes, Machine, Reach, Takes};
use bakeoff_core::record::PodLimits;
use bakeoff_core::study::{self, Limits, Study};
use bakeoff_systems as systems;
use serde_json::Value;

use self::kubectl::{Kubectl, Lacking};
use self::names::Names;
pub use self::survey::{ClusterTold, survey};
use super::order::{Order, duty};
use crate::error::FleetError;
use crate::warnings;

/// How long pods may take to be ready, and how often that is looked at.
const READY_WITHIN: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// How long it may take until Kubernetes knows of a pod's end.
const TOLD_WITHIN: Duration = Duration::from_secs(3);
/// How long a pod may have no node, or not be there, before that is a failure.
const PLACED_WITHIN: Duration = Duration::from_secs(15);

/// The pods of a run. Dropping it removes their namespace.
pub struct Pods {
    kubectl: Kubectl,
    machines: Vec<Machine>,
    /// Why the pods of generators may not remove the namespace; `None` where they may.
    lacks_keeper: Option<String>,
    /// Whether pods have bakeoff from an image.
    has_agent: bool,
    /// Which one each pod is: another may come to have its name.
    uids: BTreeMap<String, String>,
    /// The section of the places file.
    wanted: Kubernetes,
    /// The limits that pods were given.
    given: limits::Given,
}

impl Pods {
    /// Makes the pods of a run, and waits until all are ready.
    ///
    /// # Errors
    /// With the rights that are missing, or with the pod that does not come up and its last event.
    pub fn make(
        wanted: &Kubernetes,
        (run, studies): (&str, &[&Study]),
        interrupted: &AtomicBool,
    ) -> Result<Self, FleetError> {
        let sets = server_sets(wanted, studies)?;
        let names = Names::new(run, wanted.namespace.as_deref());
        let is_own = names.has_own_namespace();
        let kubectl = Kubectl::new(wanted, names);
        if let Some(remedy) = kubectl.namespace_remedy() {
            let name = &kubectl.names().namespace;
            let what = format!("the Kubernetes cluster has no namespace `{name}`");
            return Err(FleetError::input(what, remedy));
        }
        let limited = studies.iter().any(|study| limits::are_asked(study, |_| true));
        let limits_besides =
            studies.iter().any(|study| limits::are_asked(study, systems::goes_beside));
        let Lacking { keeper: lacks_keeper, resize, .. } = kubectl.demand_rights()?;
        if limited && resize {
            warnings::warn(
                "limits of servers will not be applied: you have not the right to patch pods/resize",
            );
        }
        if is_own {
            kubectl.create(&manifests::namespace(kubectl.names()))?;
        }
        let has_agent = wanted.agent_image.is_some();
        let mut pods = Self {
            kubectl,
            machines: Vec::new(),
            lacks_keeper: None,
            has_agent,
            uids: BTreeMap::new(),
            wanted: wanted.clone(),
            given: limits::Given::default(),
        };
        pods.lacks_keeper = match lacks_keeper {
            // What is not the run's own goes with the Job.
            _ if !is_own => None,
            None => manifests::keeper(&pods.kubectl.names().namespace)
                .iter()
                .find_map(|object| pods.kubectl.create(object).err())
                .map(|failure| failure.to_string()),
            Some(missing) => Some(format!("you have not the rights to {missing}")),
        };
        let names = pods.kubectl.names();
        let keeps = pods.lacks_keeper.is_none() && is_own;
        let job = pods.kubectl.create(&manifests::generators(wanted, names, keeps))?;
        let owner = manifests::owner(&job);
        pods.kubectl.create(&manifests::service(names, &owner))?;
        for set in &sets {
            let mut set_of_pods = manifests::servers(wanted, (names, limited), &owner, *set);
            // Sets of a kind's own image have no room for other kinds.
            if limits_besides && set.is_none() {
                manifests::add_beside(&mut set_of_pods);
            }
            pods.kubectl.create(&set_of_pods)?;
        }
        let all = wanted.servers as usize * sets.len() + wanted.generators as usize;
        (pods.machines, pods.uids) = pods.wait(all, interrupted)?;
        Ok(pods)
    }

    /// Returns a machine for each pod: those of servers first.
    pub fn machines(&self) -> Vec<Machine> {
        self.machines.clone()
    }

    /// Returns the way to a container of a pod.
    pub(super) fn carrier(&self, pod: &str, container: &str) -> Carrier {
        let (program, arguments) = self.kubectl.words();
        let (pod, container) = (pod.to_owned(), container.to_owned());
        let image_program = self.has_agent.then(|| manifests::PROGRAM.to_owned());
        Carrier::Kubectl { program, arguments, pod, container, image_program }
    }

    /// Has an agent remove the namespace once the coordinator is gone; says so where that cannot be.
    pub(super) fn keep(&self, agent: &Agent) -> Result<(), AgentError> {
        if !self.kubectl.names().has_own_namespace() {
            return Ok(());
        }
        let name = &self.kubectl.names().namespace;
        let why = match &self.lacks_keeper {
            Some(why) => why.clone(),
            None => match duty::<()>(agent, &Order::Keep { namespace: name.clone() }) {
                Ok(()) => return Ok(()),
                Err(error) if error.is_loss() => return Err(error),
                Err(error) => error.to_string(),
            },
        };
        warnings::warn(&format!(
            "should bakeoff be killed, the empty namespace `{name}` stays: {why}\nhint: the rights to create \
             serviceaccounts, roles and rolebindings have it removed by a pod"
        ));
        Ok(())
    }

    /// Gives a pod's container the limits of the one server that it is to take, or its own ones back; says so where that
    /// cannot be.
    ///
    /// # Errors
    /// When the pod is lost.
    pub(super) fn confine(
        &self,
        machine: &Machine,
        limits: &Limits,
        agent: &Agent,
    ) -> Result<(), AgentError> {
        let Reach::Pod { pod, container } = &machine.reach else { return Ok(()) };
        if !self.given.is_new(&machine.name, limits) {
            return Ok(());
        }
        if limits.memory.is_some() {
            let folders = vec![agent.hello().cache.clone(), manifests::DATA.into()];
            duty::<()>(agent, &Order::ReleaseFiles { folders })?;
        }
        let read = || duty(agent, &Order::OwnLimits);
        let own = limits::Amounts::for_machine(&self.wanted, machine);
        let why = limits::give(&self.kubectl, (pod, container), (&own, limits), &read)?;
        if let Some(why) = why {
            let name = &machine.name;
            warnings::warn(&format!(
                "the limits of servers on `{name}` are not its own: {why}\nhint: its node needs room for them, and no pod is limited \
                 to less memory than it uses"
            ));
        }
        Ok(())
    }

    /// Returns what became of a machine that was lost, where Kubernetes knows.
    pub(super) fn why_lost(&self, machine: &Machine) -> Option<String> {
        let Reach::Pod { pod, container } = &machine.reach else { return None };
        let uid = self.uids.get(pod)?;
        let until = clock::now() + TOLD_WITHIN;
        loop {
            let pods = self.kubectl.get_own("pods").ok()?;
            let events = self.kubectl.get("events").ok()?;
            let now = pods["items"].as_array()?.iter().find(|one| one["metadata"]["name"] == **pod);
            let why = troubles::of_lost(now, (uid, container), &events);
            if why.is_some() || clock::now() >= until {
                return why;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn wait(
        &self,
        all: usize,
        interrupted: &AtomicBool,
    ) -> Result<(Vec<Machine>, BTreeMap<String, String>), FleetError> {
        let began = clock::now();
        loop {
            if interrupted.load(Ordering::Relaxed) {
                return Err(FleetError::INTERRUPTED);
            }
            let seen = self.kubectl.get_own("pods")?;
            let pods = seen["items"].as_array().map_or(&[][..], Vec::as_slice);
            let prefix = &self.kubectl.names().prefix;
            let ready: Vec<_> = pods.iter().filter_map(|pod| ready(pod, prefix)).collect();
            if ready.len() == all {
                let mut machines: Vec<Machine> = ready.into_iter().flatten().collect();
                machines.sort_by(|a, b| {
                    let key = |one: &Machine| {
                        (one.generator, !one.is_home(), one.kind.clone(), number(&one.name))
                    };
                    key(a).cmp(&key(b))
                });
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let metadata = pods.iter().map(|pod| &pod["metadata"]);
                let uids = metadata.map(|one| (text(&one["name"]), text(&one["uid"]))).collect();
                return Ok((machines, uids));
            }
            let waited = clock::now().saturating_duration_since(began);
            let trouble = troubles::of_pods(pods, waited >= PLACED_WITHIN)
                .or_else(|| (pods.len() < all && waited >= PLACED_WITHIN).then(troubles::missing))
                .or_else(|| (waited >= READY_WITHIN).then(|| troubles::late(READY_WITHIN)));
            if let Some(trouble) = trouble {
                let events = self.kubectl.get("events").unwrap_or_default();
                return Err(FleetError::unreachable(
                    trouble.told(&events, &self.kubectl.names().prefix),
                ));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        self.kubectl.remove_all();
    }
}

/// Returns the limits that a machine has of its own, whatever servers are there.
pub(super) fn own_limits(wanted: &Kubernetes, machine: &Machine) -> PodLimits {
    limits::Amounts::for_machine(wanted, machine).limits
}

/// Returns the sets of pods that take servers of studies: for each kind with an image of its own its image, and the
/// one of all others.
fn server_sets<'a>(
    wanted: &'a Kubernetes,
    studies: &[&Study],
) -> Result<Vec<Option<(&'a str, &'a str)>>, FleetError> {
    for (kind, image) in &wanted.images {
        let Some(system) = systems::by_kind(kind) else {
            return Err(FleetError::input(
                format!("`images` of the places file names `{kind}`, and there is no such kind"),
                "`bakeoff systems` lists them",
            ));
        };
        let declared = system.declares();
        let why = match (declared.origin.recipe(), declared.seated_with) {
            (None, _) => "it is bakeoff itself",
            (_, Some(_)) => "its servers go beside those of another kind",
            _ => continue,
        };
        return Err(FleetError::input(
            format!("`{kind}` cannot come from the image `{image}`: {why}"),
            format!("leave `{kind}` out of `images`"),
        ));
    }
    let systems = studies.iter().flat_map(|study| &study.systems);
    let systems = systems.filter(|system| system.is_started());
    let kinds: Vec<&str> = systems.flat_map(study::System::members).map(|one| &*one.kind).collect();
    let images = wanted.images.iter().map(|(kind, image)| (kind.as_str(), image.as_str()));
    let mut sets: Vec<_> = images.filter(|(kind, _)| kinds.contains(kind)).map(Some).collect();
    let has_own = |kind: &&str| wanted.images.iter().any(|(own, _)| own == kind);
    if !kinds.iter().all(has_own) || sets.is_empty() {
        sets.insert(0, None);
    }
    Ok(sets)
}

/// Returns the machine that each container of a pod is, once all are ready. `prefix`: before its name.
fn ready(pod: &Value, prefix: &str) -> Option<Vec<Machine>> {
    let containers = pod["spec"]["containers"].as_array()?;
    let statuses = pod["status"]["containerStatuses"].as_array()?;
    let all_ready = statuses.len() == containers.len()
        && statuses.iter().all(|status| status["ready"].as_bool() == Some(true));
    let address: IpAddr = pod["status"]["podIP"].as_str()?.parse().ok()?;
    let name = pod["metadata"]["name"].as_str()?;
    let generator = pod["metadata"]["labels"][manifests::TAKES] == "generators";
    let shown = match &pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] {
        Value::String(index) => format!("generators-{index}"),
        _ => name.strip_prefix(prefix).unwrap_or(name).to_owned(),
    };
    let word = |value: &Value| value.as_str().map(str::to_owned);
    let reach =
        |container: &str| Reach::Pod { pod: name.to_owned(), container: container.to_owned() };
    let first = Machine {
        name: shown,
        reach: reach(manifests::AGENT),
        address,
        data: Some(manifests::DATA.to_owned()),
        servers: if generator { Takes::Nothing } else { Takes::Any },
        generator,
        kind: word(&pod["metadata"]["labels"][manifests::KIND]).filter(|kind| !kind.is_empty()),
        node: word(&pod["spec"]["nodeName"]),
        cpus: Vec::new(),
    };
    let is_beside = |one: &&Value| one["name"] == manifests::BESIDE;
    let beside = containers.iter().find(is_beside).map(|_| Machine {
        name: format!("{}-{}", manifests::BESIDE, number(&first.name)),
        reach: reach(manifests::BESIDE),
        servers: Takes::Beside(first.name.clone()),
        ..first.clone()
    });
    all_ready.then(|| [first].into_iter().chain(beside).collect())
}

/// Returns the number at a name's end.
fn number(name: &str) -> u32 {
    name.rsplit('-').next().and_then(|end| end.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_named_as_kubernetes_wants_it() {
        let study = "My-Study-of-very-many-letters-indeed";
        let name = Names::new(study, None).namespace;
        assert!(name.starts_with("bakeoff-mystudyofverymanylet-") && name.len() <= 63, "{name}");
        let given = Names::new(study, Some("bench"));
        assert_eq!((given.namespace.as_str(), given.has_own_namespace()), ("bench", false));
        assert!(given.prefix.len() <= 32, "{given:?}");
    }

    #[test]
    fn a_pod_that_is_not_ready_is_no_machine() {
        let pod = |ready: bool| {
            serde_json::json!({
                "metadata": {"name": "servers-1", "labels": {"bakeoff.dev/takes": "servers"}},
                "spec": {"containers": [{"name": "agent"}, {"name": "beside"}]},
                "status": {
                    "podIP": "10.1.2.3",
                    "containerStatuses": [{"ready": true}, {"ready": ready}],
                },
            })
        };
        assert_eq!(ready(&pod(false), ""), None);
        let [first, beside] = &ready(&pod(true), "").unwrap()[..] else { panic!("two containers") };
        assert_eq!((&first.servers, first.generator), (&Takes::Any, false));
        assert_eq!((&*beside.name, beside.address), ("beside-1", first.address));
        assert_eq!(beside.servers, Takes::Beside("servers-1".into()));
    }
}
