//! Which nodes of a cluster that runs already can be connected to, and what bakeoff leaves on it.
//!
//! Not here: nodes that bakeoff started, whose processes tell (`mod`).

use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::units::plural;
use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_engine::routes;
use bakeoff_engine::transport::Target;
use bakeoff_systems::{Access, System, SystemError};

use bakeoff_fleet::error::FleetError;

/// The longest that a node takes to accept a connection.
const CONNECTS_WITHIN: Duration = Duration::from_secs(1);

/// Separates the nodes that accept connections from those that do not.
pub(super) fn split(nodes: Vec<Access>) -> (Vec<Access>, Vec<Access>) {
    nodes.into_iter().partition(|node| accepts(&node.target))
}

/// Returns the addresses of one name that accept connections; the first if none does.
pub(super) fn accepting(mut targets: Vec<Target>) -> Vec<Target> {
    if targets.len() > 1 {
        let first = targets.first().cloned();
        targets.retain(accepts);
        if targets.is_empty() {
            targets.extend(first);
        }
    }
    targets
}

fn accepts(target: &Target) -> bool {
    routes::connect(target.address, CONNECTS_WITHIN).is_ok()
}

/// How long a cluster without a leader may take to have one that removes what bakeoff made.
const LEADS_WITHIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);

/// Returns whether a node does not lead and sends its clients to the one that does, or did.
fn awaits_a_leader(error: &SystemError) -> bool {
    matches!(error, SystemError::Status { answer, .. } if answer.starts_with('3'))
}

/// Removes all that bakeoff made on somebody else's cluster, through the first node at which `remove` succeeds.
/// `keys_max`: the most keys that may be there.
pub(crate) fn clear(
    system: &dyn System,
    nodes: &[Access],
    keys_max: u64,
    remove: impl Fn(&Access) -> Result<(), SystemError>,
) -> Result<(), FleetError> {
    let deadline = clock::now() + LEADS_WITHIN;
    let reasons: Vec<String> = loop {
        let mut errors = Vec::new();
        for node in nodes {
            match remove(node) {
                Ok(()) => return Ok(()),
                Err(error) => errors.push((&node.name, error)),
            }
        }
        if clock::now() < deadline && errors.iter().any(|(_, error)| awaits_a_leader(error)) {
            std::thread::sleep(PAUSE);
            continue;
        }
        break errors.iter().map(|(node, error)| format!("{node}: {error}")).collect();
    };
    let by_hand = match nodes.first().and_then(|node| system.removal(node)) {
        Some(command) => format!("once it answers, remove them with `{command}`"),
        None => format!("once it answers, remove what begins with `{KEY_PREFIX}`"),
    };
    let keys = plural(keys_max, "key");
    Err(FleetError::unreachable(format!(
        "up to {keys} of bakeoff's may be left on the cluster: no node removed them\n  {}\nhint: {by_hand}",
        reasons.join("\n  ")
    )))
}
