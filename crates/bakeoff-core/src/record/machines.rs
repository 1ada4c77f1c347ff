//! Compares the machines of a resumed run with those that it began on.
//!
//! A trial on another machine measures that machine too. Figures of one run would then mix two disks or two processors.
//!
//! Not here: whether two runs can be compared (`bakeoff_report::compare`), describing a machine (`bakeoff_fleet`).

use crate::record::{Environment, Hardware, Record, RunMachine};
use crate::units::{ByteCount, latency_text};
use std::time::Duration;

/// Largest relative difference of the same memory: kernels reserve different amounts.
const MEMORY_SAME: f64 = 0.02;
/// Largest ratio of two shortest times of a durable append to the same disk.
const APPEND_RATIO_MAX: f64 = 3.0;
/// Difference of two such times that is always accepted, in microseconds. Appends to memory take less.
const APPEND_SAME_US: f64 = 50.0;

/// Returns what differs between the machines that a run began on and those of now, as clauses: `the file system of `db1`
/// was ext4 and is tmpfs`. Properties that one side does not know are not compared.
pub fn machine_changes(then: &Environment, now: &Environment) -> Vec<String> {
    let mut changes = Vec::new();
    let at = |machine: &RunMachine| format!(" of `{}`", machine.name);
    let holds_data = !then.has_places() && then.shared_with_servers;
    let shared = then.shared_machine;
    compare(then, now, Scope { of: "", is_pod: false, holds_data, shared }, &mut changes);
    for (servers, pods) in [(true, "server pods"), (false, "generator pods")] {
        let (then, now) = (nodes(then, servers), nodes(now, servers));
        if then != now {
            changes.push(format!("{pods} were on {then} and are on {now}"));
        }
    }
    for (then, now) in then.machines.iter().zip(&now.machines) {
        // Namespaces and relays are on the coordinator's machine, which is compared already.
        if then.namespace || then.relayed_to.is_some() {
            continue;
        }
        let (of, is_pod, holds_data) = (&*at(then), then.pod.is_some(), then.servers);
        if !is_pod {
            let folder = |machine: &RunMachine| machine.data.clone();
            known(&mut changes, &format!("`data`{of}"), folder(then), folder(now));
        }
        let scope = Scope { of, is_pod, holds_data, shared };
        compare(&then.environment, &now.environment, scope, &mut changes);
    }
    changes
}

/// Returns the nodes of the cluster that pods for servers, or all others, run on: `n1, n2`; empty without pods. Pods may
/// swap nodes.
fn nodes(of: &Environment, servers: bool) -> String {
    let pods = of.machines.iter().filter(|machine| machine.servers == servers);
    let mut nodes: Vec<&str> =
        pods.filter_map(|machine| Some(machine.pod.as_ref()?.node.as_str())).collect();
    nodes.sort_unstable();
    nodes.join(", ")
}

/// How one machine is compared.
#[derive(Clone, Copy)]
struct Scope<'a> {
    /// Suffix that names the machine; empty for the coordinator's.
    of: &'a str,
    /// True for a pod, whose host name is new each time.
    is_pod: bool,
    /// True if servers keep data there.
    holds_data: bool,
    /// True if others work on the machine, so that the speed of its disk varies.
    shared: bool,
}

fn compare(then: &Environment, now: &Environment, scope: Scope<'_>, changes: &mut Vec<String>) {
    let Scope { of, is_pod, holds_data, shared } = scope;
    let named = |what: &str| format!("{what}{of}");
    if !is_pod {
        known(changes, &named("the host name"), own_name(then), own_name(now));
        let id = |of: &Environment| of.machine_id.clone();
        known(changes, &named("the machine ID (hashed)"), id(then), id(now));
    }
    differs(changes, &named("the processor"), &then.cpu_model, &now.cpu_model);
    let cpus = |of: &Environment| of.cpus.to_string();
    differs(changes, &named("the number of CPUs"), &cpus(then), &cpus(now));
    let (old, new) = (then.memory_bytes, now.memory_bytes);
    if old.abs_diff(new) as f64 > MEMORY_SAME * old as f64 && old > 0 && new > 0 {
        let text = |bytes| ByteCount(bytes).to_string();
        changes.push(changed(&named("the memory"), &text(old), &text(new)));
    }
    differs(changes, &named("the kernel"), &then.kernel, &now.kernel);
    if of.is_empty() || holds_data {
        differs(changes, &named("the file system"), &then.file_system, &now.file_system);
    }
    if !holds_data {
        return;
    }
    let model = |of: &Environment| {
        of.hardware.as_ref().and_then(|hardware: &Hardware| hardware.disk_model.clone())
    };
    known(changes, &named("the disk's model"), model(then), model(now));
    if let (Some(old), Some(new)) = (then.disk_sync_least_us, now.disk_sync_least_us)
        && !shared
        && !is_same_speed(old, new)
    {
        let text = |us: f64| latency_text(Duration::from_secs_f64(us.max(0.0) / 1e6));
        changes.push(changed(
            &named("the shortest durable append to the disk"),
            &text(old),
            &text(new),
        ));
    }
}

/// Returns the host name, unless it is the ID of a container, which is new each time: 12 hexadecimal digits.
fn own_name(of: &Environment) -> Option<String> {
    let container = of.hardware.as_ref().and_then(|hardware| hardware.container.as_deref());
    let is_container = container.is_some_and(|name| name != "none");
    let is_id = |name: &str| name.len() == 12 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    of.host.clone().filter(|name| !(is_container && is_id(name)))
}

/// Returns true if two shortest times of an append, in microseconds, may be those of one disk.
fn is_same_speed(one: f64, other: f64) -> bool {
    (one - other).abs() <= APPEND_SAME_US || one.max(other) <= APPEND_RATIO_MAX * one.min(other)
}

fn changed(what: &str, then: &str, now: &str) -> String {
    format!("{what} was {then} and is {now}")
}

fn differs(changes: &mut Vec<String>, what: &str, then: &str, now: &str) {
    if then != now {
        changes.push(changed(what, then, now));
    }
}

/// Compares a property that both sides must know.
fn known(changes: &mut Vec<String>, what: &str, then: Option<String>, now: Option<String>) {
    if let (Some(then), Some(now)) = (then, now) {
        differs(changes, what, &then, &now);
    }
}

impl Record {
    /// Returns what differed between the machines of each continuation and those of the beginning, once each. Empty if
    /// all trials ran on the same machines.
    pub fn machine_changes(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for now in self.resumed.iter().map(|one| &*one.environment) {
            let then = &self.header.environment;
            let new = machine_changes(then, now).into_iter().filter(|one| !all.contains(one));
            all.extend(new.collect::<Vec<_>>());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{PodLimits, RunPod};

    fn environment() -> Environment {
        Environment {
            host: Some("db1".to_owned()),
            machine_id: Some("a1".to_owned()),
            cpu_model: "Xeon".to_owned(),
            cpus: 2,
            memory_bytes: 8 << 30,
            kernel: "Linux 6.1".to_owned(),
            file_system: "ext4".to_owned(),
            disk_sync_least_us: Some(200.0),
            shared_with_servers: true,
            ..Environment::default()
        }
    }

    fn machine(environment: Environment) -> RunMachine {
        RunMachine {
            name: "h1".to_owned(),
            address: "10.0.0.1".to_owned(),
            servers: true,
            generator: false,
            cpus: Vec::new(),
            data: Some("/mnt/nvme".to_owned()),
            clock_error_us: 1.0,
            tunnel: false,
            same_kernel_as: None,
            namespace: false,
            relayed_to: None,
            environment: Box::new(environment),
            pod: None,
        }
    }

    /// Compares a run on this machine, and one whose only other machine is that one.
    fn check(change: impl Fn(&mut Environment), expected: &[&str]) {
        let (then, mut now) = (environment(), environment());
        change(&mut now);
        assert_eq!(machine_changes(&then, &now), expected);
        let placed = |of: &Environment| Environment {
            machines: vec![machine(of.clone())],
            ..Environment::default()
        };
        let of = |text: &&str| text.replacen(" was ", " of `h1` was ", 1);
        let expected: Vec<String> = expected.iter().map(of).collect();
        assert_eq!(machine_changes(&placed(&then), &placed(&now)), expected);
    }

    #[test]
    fn other_machines_are_noticed_by_each_property() {
        check(|_| {}, &[]);
        check(|now| now.host = Some("db9".to_owned()), &["the host name was db1 and is db9"]);
        check(
            |now| now.machine_id = Some("b2".to_owned()),
            &["the machine ID (hashed) was a1 and is b2"],
        );
        check(|now| now.cpu_model = "EPYC".to_owned(), &["the processor was Xeon and is EPYC"]);
        check(|now| now.cpus = 4, &["the number of CPUs was 2 and is 4"]);
        check(|now| now.memory_bytes = 16 << 30, &["the memory was 8 GiB and is 16 GiB"]);
        check(|now| now.memory_bytes += 16 << 20, &[]);
        check(
            |now| now.kernel = "Linux 6.2".to_owned(),
            &["the kernel was Linux 6.1 and is Linux 6.2"],
        );
        check(
            |now| now.file_system = "tmpfs".to_owned(),
            &["the file system was ext4 and is tmpfs"],
        );
        let speed = |us| move |now: &mut Environment| now.disk_sync_least_us = Some(us);
        check(speed(590.0), &[]);
        check(speed(70.0), &[]);
        check(
            speed(1200.0),
            &["the shortest durable append to the disk was 200 µs and is 1.20 ms"],
        );
        check(speed(2.0), &["the shortest durable append to the disk was 200 µs and is 2.00 µs"]);
        let container = |host: &str| {
            let host = Some(host.to_owned());
            let container = Some("docker".to_owned());
            let hardware = Some(Hardware { container, ..Hardware::default() });
            Environment { host, hardware, ..environment() }
        };
        let of = |host: &str| machine_changes(&container("0123456789ab"), &container(host));
        assert_eq!(of("ba9876543210"), [""; 0]);
        let of = |host: &str| machine_changes(&container("db1"), &container(host));
        assert_eq!(of("db9"), ["the host name was db1 and is db9"]);
        // Neither is known everywhere.
        check(|now| (now.host, now.machine_id) = (None, None), &[]);
    }

    #[test]
    fn disk_of_a_shared_machine_may_vary_and_that_of_a_generator_too() {
        let mut then = environment();
        then.shared_machine = true;
        let now = Environment { disk_sync_least_us: Some(9000.0), ..then.clone() };
        assert_eq!(machine_changes(&then, &now), [""; 0]);
        let generator = |disk: &str| {
            let of = Environment { file_system: disk.to_owned(), ..environment() };
            let machine = RunMachine { servers: false, generator: true, ..machine(of) };
            Environment { machines: vec![machine], ..Environment::default() }
        };
        assert_eq!(machine_changes(&generator("ext4"), &generator("tmpfs")), [""; 0]);
    }

    #[test]
    fn folder_of_data_and_nodes_of_pods_count_but_not_the_names_of_pods() {
        let of =
            |machine: RunMachine| Environment { machines: vec![machine], ..Environment::default() };
        let elsewhere = RunMachine { data: Some("/dev/shm".to_owned()), ..machine(environment()) };
        let changes = machine_changes(&of(machine(environment())), &of(elsewhere));
        assert_eq!(changes, ["`data` of `h1` was /mnt/nvme and is /dev/shm"]);
        let pod = |node: &str, host: &str| {
            let limits = PodLimits::default();
            let pod = RunPod { node: node.to_owned(), asked: limits, read: limits };
            let environment = Environment { host: Some(host.to_owned()), ..environment() };
            of(RunMachine { pod: Some(pod), ..machine(environment) })
        };
        assert_eq!(machine_changes(&pod("n1", "a"), &pod("n1", "b")), [""; 0]);
        let changes = machine_changes(&pod("n1", "a"), &pod("n2", "a"));
        assert_eq!(changes, ["server pods were on n1 and are on n2"]);
        let swapped = |nodes: [&str; 2]| Environment {
            machines: nodes.map(|node| pod(node, "a").machines.remove(0)).into(),
            ..Environment::default()
        };
        let both = [swapped(["n1", "n2"]), swapped(["n2", "n1"])];
        assert_eq!(machine_changes(&both[0], &both[1]), [""; 0]);
    }
}
