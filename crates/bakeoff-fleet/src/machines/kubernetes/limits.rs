//! Applies limits of servers as limits of their containers.
//!
//! A process in a restricted pod cannot limit another. But a pod can be resized while it runs (Kubernetes 1.33 and
//! later). A pod with a single server of a system therefore gets that server's limits for its trials, and its own
//! limits afterwards. The limits in effect are read inside the pod, because a request alone does not apply them.
//!
//! Not here: reading limits (`bakeoff_host`), judging them (the binary's `trial::verdicts`).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bakeoff_agent::AgentError;
use bakeoff_clock as clock;
use bakeoff_core::places::{Kubernetes, Machine, ServerSelection};
use bakeoff_core::record::PodLimits;
use bakeoff_core::study::{self, Limits, Study};
use serde_json::{Value, json};

use super::kubectl::Kubectl;

/// Time limit for a pod to get other limits.
const RESIZED_WITHIN: Duration = Duration::from_secs(10);
/// Time limit for a pod to get less memory. A kubelet compares it with usage from up to 20 s before, and retries about
/// 15 s after it refused.
const LESS_MEMORY_WITHIN: Duration = Duration::from_secs(60);
/// Interval between checks of the limits.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Values for "no limit", because a limit cannot be removed later, and the default requests.
const NO_CPU: &str = "1000";
const NO_MEMORY: &str = "1Pi";
const SOME_CPU: &str = "10m";
const SOME_MEMORY: &str = "16Mi";

/// Returns true if a study limits CPU or memory of any server of these kinds.
pub(super) fn are_asked(study: &Study, of: impl Fn(&str) -> bool) -> bool {
    let all = study.systems.iter().flat_map(study::System::members);
    let all = all.filter(|member| of(&member.kind));
    let mut limits = all.filter_map(|one| one.limits.as_ref());
    limits.any(|limits| limits.cpu.is_some() || limits.memory.is_some())
}

/// CPU and memory of a container without server limits, in Kubernetes' notation, and as limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Amounts {
    cpu: Option<String>,
    memory: Option<String>,
    pub(super) limits: PodLimits,
}

impl Amounts {
    /// Returns the amounts of the places file.
    pub(super) fn wanted(wanted: &Kubernetes) -> Self {
        let limits = PodLimits { cpu: wanted.cpus(), memory_bytes: wanted.memory_bytes() };
        Self { cpu: wanted.cpu.clone(), memory: wanted.memory.clone(), limits }
    }

    /// Returns the amounts of a machine. A second container next to other servers has none.
    pub(super) fn for_machine(wanted: &Kubernetes, machine: &Machine) -> Self {
        match machine.servers {
            ServerSelection::Adjacent(_) => Self::default(),
            _ => Self::wanted(wanted),
        }
    }
}

/// Returns the resources of a container whose limits may change later.
pub(super) fn resources(own: &Amounts, limits: Option<&Limits>) -> Value {
    let cpu = limits.and_then(|limits| limits.cpu).map(|cores| format!("{cores}"));
    let memory = limits.and_then(|limits| limits.memory).map(|bytes| bytes.0.to_string());
    let one =
        |name: &str, own: &Option<String>, limit: Option<String>, (some, no): (&str, &str)| {
            let limit = limit.or_else(|| own.clone()).unwrap_or_else(|| no.to_owned());
            // If request and limit were equal, they stay equal: a pod cannot change its QoS class.
            let request = if own.is_some() { limit.clone() } else { some.to_owned() };
            (name.to_owned(), json!(request), json!(limit))
        };
    let both = [
        one("cpu", &own.cpu, cpu, (SOME_CPU, NO_CPU)),
        one("memory", &own.memory, memory, (SOME_MEMORY, NO_MEMORY)),
    ];
    let [mut requests, mut most] = [json!({}), json!({})];
    for (name, request, limit) in both {
        requests[&name] = request;
        most[&name] = limit;
    }
    json!({"requests": requests, "limits": most})
}

/// The last limits given to each machine, by name, including failed attempts.
#[derive(Default)]
pub(super) struct AppliedLimits(Mutex<BTreeMap<String, Limits>>);

impl AppliedLimits {
    /// Records the limits of a machine. Returns true if they differ from its last ones.
    pub(super) fn is_new(&self, machine: &str, limits: &Limits) -> bool {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = given.insert(machine.to_owned(), limits.clone());
        before.unwrap_or_default() != *limits
    }
}

/// Gives a pod's container these limits instead of its own amounts. Returns the reason if they did not take effect.
///
/// # Errors
/// When the pod is lost.
pub(super) fn give(
    kubectl: &Kubectl,
    (pod, container): (&str, &str),
    (own, limits): (&Amounts, &Limits),
    read: &dyn Fn() -> Result<PodLimits, AgentError>,
) -> Result<Option<String>, AgentError> {
    let container = json!({"name": container, "resources": resources(own, Some(limits))});
    let patch = json!({"spec": {"containers": [container]}});
    if let Err(failure) = kubectl.resize(pod, &patch) {
        return Ok(Some(failure.to_string()));
    }
    let expected = PodLimits {
        cpu: limits.cpu.or(own.limits.cpu),
        memory_bytes: limits.memory.map(|bytes| bytes.0).or(own.limits.memory_bytes),
    };
    let within = match limits.memory {
        Some(_) => LESS_MEMORY_WITHIN,
        None => RESIZED_WITHIN,
    };
    let until = clock::now() + within;
    loop {
        let has = read()?;
        if bakeoff_host::are_same(&has, &expected) {
            return Ok(None);
        }
        if clock::now() >= until {
            let why =
                kubectl.resize_pending(pod).unwrap_or_else(|| "Kubernetes gives no reason".into());
            return Ok(Some(format!("after {within:?} the pod has {has}: {why}")));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use bakeoff_core::places::Places;
    use bakeoff_core::units::ByteCount;

    use super::*;

    #[test]
    fn pod_is_resized_only_if_its_limits_change() {
        let given = AppliedLimits::default();
        let limits = Limits { cpu: Some(0.25), ..Limits::default() };
        let own = Limits::default();
        let asked = [(&own, false), (&limits, true), (&limits, false), (&own, true), (&own, false)];
        for (place, (limits, is_new)) in asked.into_iter().enumerate() {
            assert_eq!(given.is_new("servers-0", limits), is_new, "{place}");
        }
        assert!(given.is_new("servers-1", &limits), "another pod");
    }

    #[test]
    fn pod_has_its_servers_limits_or_those_of_the_places_file() {
        let wanted =
            |text: &str| Amounts::wanted(&Places::parse("p", text).unwrap().kubernetes.unwrap());
        let limits = Limits { cpu: Some(0.25), memory: Some(ByteCount(100 << 20)), cpus: vec![] };
        let same = json!({"cpu": "0.25", "memory": "104857600"});
        let found = resources(&wanted("kubernetes: {cpu: 2, memory: 4Gi}"), Some(&limits));
        assert_eq!(found, json!({"requests": same, "limits": same}));
        let found = resources(&wanted("kubernetes: {cpu: 2}"), None);
        let requests = json!({"cpu": "2", "memory": "16Mi"});
        assert_eq!(found, json!({"requests": requests, "limits": {"cpu": "2", "memory": "1Pi"}}));
    }
}
