//! Describes the machines of a run with places, and their differences.
//!
//! Not here: each machine's samples (`model`), the common start of generators (core's `check`).

use std::collections::{BTreeMap, BTreeSet};

use bakeoff_core::record::{
    Environment, MachineTrial, PodLimits, Record, RunMachine, RunPod, TrialRecord,
};
use bakeoff_core::stats::and;
use bakeoff_core::units::ByteCount;

use super::{Fact, Row, Side, Weight, plain};

/// Returns the row of the machines of each system's servers; `None` for a run without places.
pub(super) fn row(record: &Record, sides: &[Side<'_>]) -> Option<(Row, Option<String>)> {
    if !record.header.environment.has_places() {
        return None;
    }
    Some(plain("machines of its servers", sides, Weight::Matters, |side| {
        side.trials.iter().find_map(|trial| spread(trial)).map_or(Fact::Unknown, Fact::Known)
    }))
}

/// Returns `one server each on h1, h2 and h3`.
fn spread(trial: &TrialRecord) -> Option<String> {
    let with = trial.machines.iter().filter(|machine| !machine.servers.is_empty());
    let with: Vec<_> = with.collect();
    with.first()?;
    let names: Vec<String> = with.iter().map(|machine| machine.name.clone()).collect();
    if with.iter().all(|machine| machine.servers.len() == 1) {
        return Some(format!("one server each on {}", and(&names)));
    }
    let each: Vec<String> = with
        .iter()
        .map(|machine| format!("{} on {}", and(&machine.servers), machine.name))
        .collect();
    Some(each.join("; "))
}

/// Returns findings about differences between the machines of a run.
pub(super) fn findings(record: &Record) -> Vec<String> {
    let machines = &record.header.environment.machines;
    if record.header.environment.has_own_networks() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let both: Vec<String> = machines
        .iter()
        .filter(|machine| machine.servers && machine.generator)
        .map(|machine| machine.name.clone())
        .collect();
    if !both.is_empty() {
        found.push(format!("servers and a load generator share {}", and(&both)));
    }
    found.extend(one_kernel(machines));
    found.extend(unequal(machines));
    found.extend(tunnelled(machines));
    let mut shared: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for trial in &record.trials {
        for machine in trial.machines.iter().filter(|machine| machine.servers.len() > 1) {
            shared.insert((&trial.trial.system, &machine.name), machine.servers.len());
        }
    }
    let several =
        |((system, machine), count)| format!("{count} servers of {system} share {machine}");
    found.extend(shared.into_iter().map(several));
    found.extend(one_node(record));
    found.extend(machines.iter().filter_map(other_limits));
    found
}

/// Returns which machines share a kernel: namespaces, containers or pods. Pods on one node have their own finding.
fn one_kernel(machines: &[RunMachine]) -> Vec<String> {
    let node = |of: &RunMachine| of.pod.as_ref().map(|pod| pod.node.clone());
    let mut found = Vec::new();
    for first in machines.iter().filter(|machine| machine.same_kernel_as.is_none()) {
        let is_one = |of: &&RunMachine| {
            of.name == first.name || of.same_kernel_as.as_ref() == Some(&first.name)
        };
        let one: Vec<&RunMachine> = machines.iter().filter(is_one).collect();
        let is_node = node(first).is_some() && one.iter().all(|of| node(of) == node(first));
        if one.len() > 1 && !is_node {
            let names: Vec<String> = one.iter().map(|of| of.name.clone()).collect();
            found.push(format!(
                "{} are one machine: they share a kernel and its CPUs, without a network between them",
                and(&names)
            ));
        }
    }
    found
}

/// Returns which machines the coordinator reached through a tunnel. It set up their servers through it, so times until
/// ready include a round trip.
fn tunnelled(machines: &[RunMachine]) -> Option<String> {
    let through: Vec<String> = machines
        .iter()
        .filter(|machine| machine.tunnel)
        .map(|machine| machine.name.clone())
        .collect();
    (!through.is_empty()).then(|| {
        format!(
            "bakeoff set up the servers on {} through a tunnel: times until ready include its round trips, but no load \
             went through it",
            and(&through)
        )
    })
}

/// Returns which pods that worked in the same trial were on the same node.
fn one_node(record: &Record) -> BTreeSet<String> {
    let machines = &record.header.environment.machines;
    let node = |name: &str| {
        let of = machines.iter().find(|machine| machine.name == name)?;
        of.pod.as_ref().map(|pod| pod.node.as_str())
    };
    let mut found = BTreeSet::new();
    for trial in &record.trials {
        let mut on: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let works =
            |machine: &&MachineTrial| !machine.servers.is_empty() || !machine.generated.is_empty();
        for machine in trial.machines.iter().filter(works) {
            if let Some(node) = node(&machine.name) {
                on.entry(node).or_default().push(machine.name.clone());
            }
        }
        let several = on.into_iter().filter(|(_, pods)| pods.len() > 1);
        found.extend(several.map(|(node, pods)| format!("{} share the node {node}", and(&pods))));
    }
    found
}

/// Largest page size of any kernel, in bytes: records lack the machine's own.
const PAGE_MAX: u64 = 64 << 10;

/// Returns how a pod's limits differ from the requested ones.
fn other_limits(machine: &RunMachine) -> Option<String> {
    let RunPod { asked, read, .. } = machine.pod.as_ref()?;
    let words = |limits: &PodLimits| {
        let cpu = limits.cpu.map_or("no limit".to_owned(), |cores| cores.to_string());
        let memory = limits.memory_bytes.map(|bytes| ByteCount(bytes).to_string());
        format!("{cpu} of CPU and {} of memory", memory.unwrap_or("no limit".to_owned()))
    };
    (!asked.is_same_as(read, PAGE_MAX)).then(|| {
        format!("{} has {}, but {} was requested", machine.name, words(read), words(asked))
    })
}

/// Returns how machines with servers differ.
fn unequal(machines: &[RunMachine]) -> Option<String> {
    let takes: Vec<&RunMachine> = machines.iter().filter(|machine| machine.servers).collect();
    let kind = |of: &Environment| {
        // Kernels reserve different amounts of memory.
        let gib = of.memory_bytes.div_ceil(1 << 30);
        (of.cpu_model.clone(), of.cpus, gib, of.file_system.clone())
    };
    let (first, rest) = takes.split_first()?;
    let other = rest.iter().find(|one| kind(&one.environment) != kind(&first.environment))?;
    let words = |of: &RunMachine| {
        let is = &of.environment;
        let memory = ByteCount(is.memory_bytes);
        format!("{} has {} × {}, {memory}, {}", of.name, is.cpus, is.cpu_model, is.file_system)
    };
    Some(format!("machines that take servers are unequal: {}; {}", words(first), words(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, servers: bool, cpus: u32) -> RunMachine {
        let environment = serde_json::json!({
            "kernel": "Linux", "cpu_model": "A", "cpus": cpus, "memory_bytes": 1 << 30,
            "file_system": "ext4", "disk_free_bytes": 1, "open_files_max": 1,
            "generator_threads": 1, "shared_with_servers": false,
        });
        RunMachine {
            data: None,
            name: name.to_owned(),
            address: String::new(),
            servers,
            generator: !servers,
            cpus: Vec::new(),
            clock_error_us: 0.0,
            tunnel: name == "far",
            same_kernel_as: None,
            namespace: false,
            relayed_to: None,
            environment: Box::new(serde_json::from_value(environment).unwrap()),
            pod: None,
        }
    }

    #[test]
    fn unequal_server_machines_are_reported_but_not_generators() {
        let machines = [machine("a", true, 2), machine("b", true, 4), machine("g", false, 8)];
        let lines = unequal(&machines).unwrap();
        assert!(lines.contains("a has 2 × A") && lines.contains("b has 4 × A"), "{lines}");
        assert_eq!(unequal(&[machine("a", true, 2), machine("g", false, 8)]), None);
    }

    #[test]
    fn machines_with_one_kernel_are_reported_as_one() {
        let on = |name: &str, first: &str| RunMachine {
            same_kernel_as: Some(first.to_owned()),
            ..machine(name, true, 2)
        };
        let far = || machine("b", true, 2);
        assert_eq!(one_kernel(&[machine("a", true, 2), far()]), Vec::<String>::new());
        let lines = one_kernel(&[machine("a", true, 2), far(), on("c", "a"), on("d", "a")]);
        assert!(lines[0].starts_with("a, c and d are one machine: "), "{lines:?}");
        assert_eq!(lines.len(), 1);
        let pod = |of: RunMachine| {
            let limits = PodLimits { cpu: None, memory_bytes: None };
            let pod = RunPod { node: "n1".to_owned(), asked: limits, read: limits };
            RunMachine { pod: Some(pod), ..of }
        };
        let lines = one_kernel(&[pod(machine("a", true, 2)), pod(on("c", "a"))]);
        assert_eq!(lines, Vec::<String>::new(), "one node");
    }

    #[test]
    fn machines_behind_a_tunnel_are_reported() {
        let near = machine("a", true, 2);
        assert_eq!(tunnelled(std::slice::from_ref(&near)), None);
        let lines = tunnelled(&[near, machine("far", true, 2)]).unwrap();
        assert!(lines.contains("the servers on far through a tunnel: "), "{lines}");
    }

    #[test]
    fn pod_without_the_requested_limits_is_reported() {
        let pod = |read: Option<f64>| {
            let limits = |cpu| PodLimits { cpu, memory_bytes: Some(1 << 30) };
            let pod =
                RunPod { node: "n1".to_owned(), asked: limits(Some(0.5)), read: limits(read) };
            other_limits(&RunMachine { pod: Some(pod), ..machine("a", true, 2) })
        };
        assert_eq!(pod(Some(0.5)), None);
        let wanted = "a has no limit of CPU and 1 GiB of memory, but 0.5 of CPU and 1 GiB of memory was requested";
        assert_eq!(pod(None).unwrap(), wanted);
    }
}
