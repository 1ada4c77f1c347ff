//! Limits of servers as limits of the containers that they are in.
//!
//! A process in a restricted pod can limit no other. A pod can be resized while it runs (Kubernetes 1.33 and later), so
//! one that takes a single server of a system gets that server's limits for its trials, and its own ones back. What
//! holds is read inside of it: nothing is taken for applied because it was asked for.
//!
//! Not here: reading limits (`bakeoff_host`), judging them (the binary's `trial::verdicts`).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bakeoff_agent::AgentError;
use bakeoff_clock as clock;
use bakeoff_core::places::{Kubernetes, Machine, Takes};
use bakeoff_core::record::PodLimits;
use bakeoff_core::study::{self, Limits, Study};
use serde_json::{Value, json};

use super::kubectl::Kubectl;

/// How long a pod may take to have other limits.
const RESIZED_WITHIN: Duration = Duration::from_secs(10);
/// The same with less memory: a kubelet holds it against the pod's usage as it was up to 20 s before, and looks again
/// some 15 s after it refused.
const LESS_MEMORY_WITHIN: Duration = Duration::from_secs(60);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Stand for no limit, which could not be taken away again; and the requests where nothing is named.
const NO_CPU: &str = "1000";
const NO_MEMORY: &str = "1Pi";
const SOME_CPU: &str = "10m";
const SOME_MEMORY: &str = "16Mi";

/// Returns whether a study limits CPU or memory of any server of these kinds.
pub(super) fn are_asked(study: &Study, of: impl Fn(&str) -> bool) -> bool {
    let all = study.systems.iter().flat_map(study::System::members);
    let all = all.filter(|member| of(&member.kind));
    let mut limits = all.filter_map(|one| one.limits.as_ref());
    limits.any(|limits| limits.cpu.is_some() || limits.memory.is_some())
}

/// The CPU and the memory that a container has where no server's limits hold, as Kubernetes writes them, and as limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Amounts {
    cpu: Option<String>,
    memory: Option<String>,
    pub(super) limits: PodLimits,
}

impl Amounts {
    /// Those of the places file.
    pub(super) fn wanted(wanted: &Kubernetes) -> Self {
        let limits = PodLimits { cpu: wanted.cpus(), memory_bytes: wanted.memory_bytes() };
        Self { cpu: wanted.cpu.clone(), memory: wanted.memory.clone(), limits }
    }

    /// Those of a machine: what goes beside others' servers has none of its own.
    pub(super) fn for_machine(wanted: &Kubernetes, machine: &Machine) -> Self {
        match machine.servers {
            Takes::Beside(_) => Self::default(),
            _ => Self::wanted(wanted),
        }
    }
}

/// Returns the resources of a container that may have other limits later.
pub(super) fn resources(own: &Amounts, limits: Option<&Limits>) -> Value {
    let cpu = limits.and_then(|limits| limits.cpu).map(|cores| format!("{cores}"));
    let memory = limits.and_then(|limits| limits.memory).map(|bytes| bytes.0.to_string());
    let one =
        |name: &str, own: &Option<String>, limit: Option<String>, (some, no): (&str, &str)| {
            let limit = limit.or_else(|| own.clone()).unwrap_or_else(|| no.to_owned());
            // With an amount that is requested and at most, both stay the same: Kubernetes lets no pod change its class.
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

/// The limits that machines were given, or were not to be given, by their names.
#[derive(Default)]
pub(super) struct Given(Mutex<BTreeMap<String, Limits>>);

impl Given {
    /// Returns whether a machine was not given these limits last, and keeps that it is now.
    pub(super) fn is_new(&self, machine: &str, limits: &Limits) -> bool {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = given.insert(machine.to_owned(), limits.clone());
        before.unwrap_or_default() != *limits
    }
}

/// Gives a container of a pod these limits instead of its own amounts. Returns why it has not got them.
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
                kubectl.resize_pending(pod).unwrap_or_else(|| "the event is not known".into());
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
    fn a_pod_is_given_limits_when_they_are_others_than_its_last_ones() {
        let given = Given::default();
        let limits = Limits { cpu: Some(0.25), ..Limits::default() };
        let own = Limits::default();
        let asked = [(&own, false), (&limits, true), (&limits, false), (&own, true), (&own, false)];
        for (place, (limits, is_new)) in asked.into_iter().enumerate() {
            assert_eq!(given.is_new("servers-0", limits), is_new, "{place}");
        }
        assert!(given.is_new("servers-1", &limits), "another pod");
    }

    #[test]
    fn a_pod_has_the_limits_of_its_server_or_those_of_its_places() {
        let wanted =
            |text: &str| Amounts::wanted(&Places::parse("p", text).unwrap().kubernetes.unwrap());
        let limits = Limits { cpu: Some(0.25), memory: Some(ByteCount(100 << 20)), cpus: vec![] };
        let same = json!({"cpu": "0.25", "memory": "104857600"});
        let told = resources(&wanted("kubernetes: {cpu: 2, memory: 4Gi}"), Some(&limits));
        assert_eq!(told, json!({"requests": same, "limits": same}));
        let told = resources(&wanted("kubernetes: {cpu: 2}"), None);
        let requests = json!({"cpu": "2", "memory": "16Mi"});
        assert_eq!(told, json!({"requests": requests, "limits": {"cpu": "2", "memory": "1Pi"}}));
    }
}
