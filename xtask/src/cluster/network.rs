//! Sets up the network of a cluster: a bridge on the control plane's machine, interfaces to each node, routes to its
//! pods.
//!
//! There is no route out. All addresses are in 198.18.0.0/15, which is reserved for tests.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use super::error::ClusterError;
use super::process::finish;
use super::programs::Programs;
use super::run::{Machine, Run};

/// Address of the control plane: API server and DNS.
pub(super) const CONTROL: &str = "198.19.0.1";
/// Addresses of services.
pub(super) const SERVICES: &str = "198.18.255.0/24";
/// Address of the API server's service.
pub(super) const API_SERVICE: &str = "198.18.255.1";
/// Addresses of pods and services.
pub(super) const PODS: &str = "198.18.0.0/16";
/// Most nodes that the addresses allow.
pub(super) const NODES_MAX: usize = 9;

const BRIEF: Duration = Duration::from_secs(20);

/// Returns the address of a node, numbered from 1.
pub(super) fn node_address(number: usize) -> String {
    format!("198.19.0.{}", 10 + number)
}

/// Returns the addresses of a node's pods.
pub(super) fn pod_subnet(number: usize) -> String {
    format!("198.18.{number}.0/24")
}

/// Connects the machines, the control plane's first.
pub(super) fn join(
    run: &Run,
    programs: &Programs,
    control: &Machine,
    nodes: &[Machine],
) -> Result<(), ClusterError> {
    let pids: Vec<i32> = nodes.iter().map(|node| node.init.pid).collect();
    apply(run, programs, control, &control_batch(&pids))?;
    for (number, node) in (1..).zip(nodes) {
        apply(run, programs, node, &node_batch(number, nodes.len()))?;
    }
    Ok(())
}

fn control_batch(pids: &[i32]) -> String {
    let mut batch =
        format!("link add br0 type bridge\naddr add {CONTROL}/24 dev br0\nlink set br0 up\n");
    for (number, pid) in (1..).zip(pids) {
        let _ = write!(
            batch,
            "link add p{number} type veth peer name eth0 netns {pid}\n\
             link set p{number} master br0 up\n\
             route add {} via {}\n",
            pod_subnet(number),
            node_address(number)
        );
    }
    batch
}

fn node_batch(number: usize, count: usize) -> String {
    let mut batch = format!(
        "addr add {}/24 dev eth0\nlink set eth0 up\nroute add {SERVICES} via {CONTROL}\n",
        node_address(number)
    );
    for other in (1..=count).filter(|other| *other != number) {
        let _ = writeln!(batch, "route add {} via {}", pod_subnet(other), node_address(other));
    }
    batch
}

fn apply(
    run: &Run,
    programs: &Programs,
    machine: &Machine,
    batch: &str,
) -> Result<(), ClusterError> {
    let file = run.write(&format!("{}/network.batch", machine.name), batch)?;
    let mut ip = machine.in_network(Path::new(programs.tool("ip").as_os_str()));
    ip.arg("-batch").arg(file);
    programs.prepare(&mut ip);
    finish(&mut ip, BRIEF).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_routes_to_the_pods_of_all_others() {
        assert_eq!(
            node_batch(2, 3),
            "addr add 198.19.0.12/24 dev eth0\nlink set eth0 up\n\
             route add 198.18.255.0/24 via 198.19.0.1\n\
             route add 198.18.1.0/24 via 198.19.0.11\nroute add 198.18.3.0/24 via 198.19.0.13\n"
        );
    }

    #[test]
    fn all_addresses_are_reserved_for_tests() {
        let batch = control_batch(&[10, 20]) + &node_batch(NODES_MAX, NODES_MAX);
        let is_address = |word: &&str| word.matches('.').count() == 3;
        let addresses: Vec<_> = batch.split_whitespace().filter(is_address).collect();
        assert!(addresses.len() > 10);
        let is_ours = |word: &&str| word.starts_with("198.18.") || word.starts_with("198.19.");
        assert!(addresses.iter().all(is_ours), "{addresses:?}");
    }
}
