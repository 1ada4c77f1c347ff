//! Creates pods in place of machines, by default in a namespace of the run: a StatefulSet of servers and an Indexed Job
//! of generators.
//!
//! The Job owns all other objects. Its pods end a minute after their last agent, which also removes whatever a killed
//! coordinator left behind. A generator's agent removes the namespace (`keeper`), if the user may grant it that right.
//!
//! Not here: the manifests (`manifests`), the agents in the pods.

mod failures;
pub(crate) mod keeper;
mod kubectl;
mod limits;
mod manifests;
mod names;
mod survey;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_agent::{Agent, AgentError, Carrier};
use bakeoff_clock as clock;
use bakeoff_core::places::{Kubernetes, Machine, Reach, ServerSelection};
use bakeoff_core::record::PodLimits;
use bakeoff_core::study::{self, Limits, Study};
use bakeoff_systems as systems;
use serde_json::Value;

use self::kubectl::{Kubectl, MissingRights};
use self::names::Names;
pub use self::survey::{ClusterTold, survey};
use super::order::{Order, duty};
use crate::error::FleetError;
use crate::warnings;

/// Time limit for pods to become ready, and the interval between checks.
const READY_WITHIN: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Time limit for Kubernetes to report the end of a pod.
const TOLD_WITHIN: Duration = Duration::from_secs(3);
/// Time for a pod to be created and to get a node before that counts as a failure.
const PLACED_WITHIN: Duration = Duration::from_secs(15);

/// The pods of a run. Dropping it removes them with their namespace.
pub struct Pods {
    kubectl: Kubectl,
    machines: Vec<Machine>,
    /// Reason why generators' pods may not remove the namespace; `None` if they may, or need not.
    lacks_keeper: Option<String>,
    /// True if the pods get bakeoff from an image.
    has_agent: bool,
    /// UID of each pod by name: a replacement pod may have the same name.
    uids: BTreeMap<String, String>,
    /// The `kubernetes` section of the places file.
    wanted: Kubernetes,
    /// Limits last given to the pods.
    given: limits::AppliedLimits,
}

impl Pods {
    /// Creates the pods of a run and waits until all are ready.
    ///
    /// # Errors
    /// When rights are missing, or a pod fails to start. The error names the rights, or the pod's last event.
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
        let limits_adjacent =
            studies.iter().any(|study| limits::are_asked(study, systems::goes_next_to));
        let MissingRights { keeper: lacks_keeper, resize, .. } = kubectl.demand_rights()?;
        if limited && resize {
            warnings::warn(
                "limits of servers will not be applied: you lack the right to patch pods/resize",
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
            given: limits::AppliedLimits::default(),
        };
        pods.lacks_keeper = match lacks_keeper {
            // In the user's namespace, only the Job's objects are removed, with the Job.
            _ if !is_own => None,
            None => manifests::keeper(&pods.kubectl.names().namespace)
                .iter()
                .find_map(|object| pods.kubectl.create(object).err())
                .map(|failure| failure.to_string()),
            Some(missing) => Some(format!("you lack the rights to {missing}")),
        };
        let names = pods.kubectl.names();
        let keeps = pods.lacks_keeper.is_none() && is_own;
        let job = pods.kubectl.create(&manifests::generators(wanted, names, keeps))?;
        let owner = manifests::owner(&job);
        pods.kubectl.create(&manifests::service(names, &owner))?;
        for set in &sets {
            let mut set_of_pods = manifests::servers(wanted, (names, limited), &owner, *set);
            // StatefulSets with a kind's own image take no servers of other kinds.
            if limits_adjacent && set.is_none() {
                manifests::add_next_to(&mut set_of_pods);
            }
            pods.kubectl.create(&set_of_pods)?;
        }
        let all = wanted.servers as usize * sets.len() + wanted.generators as usize;
        (pods.machines, pods.uids) = pods.wait(all, interrupted)?;
        Ok(pods)
    }

    /// Returns a machine for each container of the pods, those of servers first.
    pub fn machines(&self) -> Vec<Machine> {
        self.machines.clone()
    }

    /// Returns the carrier to a container of a pod.
    pub(super) fn carrier(&self, pod: &str, container: &str) -> Carrier {
        let (program, arguments) = self.kubectl.words();
        let (pod, container) = (pod.to_owned(), container.to_owned());
        let image_program = self.has_agent.then(|| manifests::PROGRAM.to_owned());
        Carrier::Kubectl { program, arguments, pod, container, image_program }
    }

    /// Makes an agent remove the namespace if the coordinator is killed. Warns if it cannot.
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
        // A pod that cannot reach the API server says what to do, and lacks no right.
        let hint = match why.contains("\nhint: ") {
            true => "",
            false => {
                "\nhint: with the rights to create serviceaccounts, roles and rolebindings, a pod removes it"
            }
        };
        warnings::warn(&format!(
            "if bakeoff is killed, the empty namespace `{name}` stays: {why}{hint}"
        ));
        Ok(())
    }

    /// Gives a pod's container the limits of its only server, or restores its own limits. Warns if it cannot.
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
                "cannot apply the limits of servers on `{name}`: {why}\nhint: its node needs room for them, and no pod can be limited \
                 to less memory than it uses"
            ));
        }
        Ok(())
    }

    /// Returns what happened to a lost machine, if Kubernetes knows.
    pub(super) fn why_lost(&self, machine: &Machine) -> Option<String> {
        let Reach::Pod { pod, container } = &machine.reach else { return None };
        let uid = self.uids.get(pod)?;
        let until = clock::now() + TOLD_WITHIN;
        loop {
            let pods = self.kubectl.get_own("pods").ok()?;
            let events = self.kubectl.get("events").ok()?;
            let now = pods["items"].as_array()?.iter().find(|one| one["metadata"]["name"] == **pod);
            let why = failures::of_lost(now, (uid, container), &events);
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
            let failure = failures::of_pods(pods, waited >= PLACED_WITHIN)
                .or_else(|| (pods.len() < all && waited >= PLACED_WITHIN).then(failures::missing))
                .or_else(|| (waited >= READY_WITHIN).then(|| failures::late(READY_WITHIN)));
            if let Some(failure) = failure {
                let events = self.kubectl.get("events").unwrap_or_default();
                return Err(FleetError::unreachable(
                    failure.message(&events, &self.kubectl.names().prefix),
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

/// Returns the limits of a machine itself, without those of its servers.
pub(super) fn own_limits(wanted: &Kubernetes, machine: &Machine) -> PodLimits {
    limits::Amounts::for_machine(wanted, machine).limits
}

/// Returns the sets of pods for the servers of some studies: one per kind with its own image, and `None` for the set of
/// all others.
fn server_sets<'a>(
    wanted: &'a Kubernetes,
    studies: &[&Study],
) -> Result<Vec<Option<(&'a str, &'a str)>>, FleetError> {
    for (kind, image) in &wanted.images {
        let Some(system) = systems::by_kind(kind) else {
            return Err(FleetError::input(
                format!("`images` of the places file names the unknown kind `{kind}`"),
                "`bakeoff systems` lists the kinds",
            ));
        };
        let declared = system.declares();
        let why = match (declared.origin.recipe(), declared.located_with) {
            (None, _) => "it is part of bakeoff itself",
            (_, Some(_)) => "its servers run next to those of another kind",
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

/// Returns a machine for each container of a pod, once all are ready. `prefix`: first part of the pod's name.
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
        servers: if generator { ServerSelection::Nothing } else { ServerSelection::Any },
        generator,
        kind: word(&pod["metadata"]["labels"][manifests::KIND]).filter(|kind| !kind.is_empty()),
        node: word(&pod["spec"]["nodeName"]),
        cpus: Vec::new(),
        listed_at: None,
    };
    let is_next_to = |one: &&Value| one["name"] == manifests::ADJACENT;
    let adjacent = containers.iter().find(is_next_to).map(|_| Machine {
        name: format!("{}-{}", manifests::ADJACENT, number(&first.name)),
        reach: reach(manifests::ADJACENT),
        servers: ServerSelection::Adjacent(first.name.clone()),
        ..first.clone()
    });
    all_ready.then(|| [first].into_iter().chain(adjacent).collect())
}

/// Returns the number at the end of a name, or 0.
fn number(name: &str) -> u32 {
    name.rsplit('-').next().and_then(|end| end.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_name_is_valid_for_kubernetes() {
        let study = "My-Study-of-very-many-letters-indeed";
        let name = Names::new(study, None).namespace;
        assert!(name.starts_with("bakeoff-mystudyofverymanylet-") && name.len() <= 63, "{name}");
        let given = Names::new(study, Some("bench"));
        assert_eq!((given.namespace.as_str(), given.has_own_namespace()), ("bench", false));
        assert!(given.prefix.len() <= 32, "{given:?}");
    }

    #[test]
    fn pod_that_is_not_ready_is_skipped() {
        let pod = |ready: bool| {
            serde_json::json!({
                "metadata": {"name": "servers-1", "labels": {"bakeoff.dev/takes": "servers"}},
                "spec": {"containers": [{"name": "agent"}, {"name": "adjacent"}]},
                "status": {
                    "podIP": "10.1.2.3",
                    "containerStatuses": [{"ready": true}, {"ready": ready}],
                },
            })
        };
        assert_eq!(ready(&pod(false), ""), None);
        let [first, adjacent] = &ready(&pod(true), "").unwrap()[..] else {
            panic!("two containers")
        };
        assert_eq!((&first.servers, first.generator), (&ServerSelection::Any, false));
        assert_eq!((&*adjacent.name, adjacent.address), ("adjacent-1", first.address));
        assert_eq!(adjacent.servers, ServerSelection::Adjacent("servers-1".into()));
    }
}
