//! Finds live nodes of a cluster that already runs, and removes bakeoff's keys from it.
//!
//! Not here: nodes that bakeoff started, whose processes are known (`mod`).

use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::units::plural;
use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_engine::routes;
use bakeoff_engine::transport::Target;
use bakeoff_systems::{Access, System, SystemError};

use bakeoff_fleet::error::FleetError;

/// Timeout of a connection to a node.
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

/// Maximum time to wait for a leader before the removal of keys fails.
const LEADS_WITHIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);

/// Returns true if a node redirects its clients to the current or former leader.
fn awaits_a_leader(error: &SystemError) -> bool {
    matches!(error, SystemError::Status { answer, .. } if answer.starts_with('3'))
}

/// Returns true if a server that speaks a part of a protocol says so in its error. The usual command would make the same
/// call.
fn says_it_lacks_a_call(error: &str) -> bool {
    let error = error.to_ascii_lowercase();
    ["not supported", "unsupported", "unimplemented", "not implemented", "grpc status 12"]
        .iter()
        .any(|words| error.contains(words))
}

/// Removes bakeoff's keys from a cluster that it did not start, through the first node at which `remove` succeeds.
/// `keys_max` is the maximum number of keys for the message.
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
    let lacks_the_call = reasons.iter().any(|why| says_it_lacks_a_call(why));
    let by_hand = match nodes.first().and_then(|node| system.removal(node)) {
        _ if lacks_the_call => format!(
            "it does not offer the call that removes many keys: list those that begin with `{KEY_PREFIX}`, and remove \
             each"
        ),
        Some(command) => format!("once it answers, remove them with `{command}`"),
        None => format!("once it answers, remove all keys that begin with `{KEY_PREFIX}`"),
    };
    let keys = plural(keys_max, "key");
    Err(FleetError::unreachable(format!(
        "bakeoff may have left up to {keys} on the cluster: no node removed them\n  {}\nhint: {by_hand}",
        reasons.join("\n  ")
    )))
}
