//! Creates sessions with rights before a load, and counts the checks of them.
//!
//! A gateway calls `check_access(session, resource)` for each request. Each node counts its own answers and reports the
//! start of its count. The counts are also in a file mapped into the node's memory, so they survive a kill.
//!
//! Not here: `check_access` itself (`node.lua`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bakeoff_wire::msgpack::Value;

use super::function_calls::{call, calls};
use crate::exchange::PATIENCE;
use crate::{Access, SystemError};

/// Sessions created by one call, which is one transaction.
const BATCH: u64 = 1000;
/// Longest time for the creation of all sessions.
const MADE_WITHIN: Duration = Duration::from_secs(120);
/// Prefix of the resources that sessions may access.
const RESOURCES: &[u8] = b"/";

/// Returns the name of a session that may access every resource.
pub(crate) fn session_name(number: u64) -> String {
    format!("session-{number}")
}

/// Returns the name of a session that does not exist, so it may access nothing.
pub(crate) fn stranger_name(number: u64) -> String {
    format!("stranger-{number}")
}

/// Answered checks of all nodes together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Checks answered with yes.
    pub(crate) granted: u64,
    /// Checks answered with no.
    pub(crate) refused: u64,
    /// Start of each node's count, in microseconds of its wall clock. A restarted node counts anew, and its earlier
    /// checks are missing here.
    pub(crate) since: Vec<u64>,
}

/// Files with the counts, by node name.
pub(super) struct Files(pub(super) BTreeMap<String, PathBuf>);

/// Name of that file in a node's folder.
pub(super) const FILE: &str = "checks";

/// Returns the checks that the nodes have answered since their start, including nodes that have ended meanwhile.
pub(crate) fn granted(nodes: &[Access]) -> Result<Counts, SystemError> {
    let mut counts = Counts { granted: 0, refused: 0, since: Vec::new() };
    for node in nodes {
        let asked = call(node, PATIENCE, "bakeoff.counts", &[], |mut reply| {
            let mut next = || reply.next()?.unsigned();
            Some([next()?, next()?, next()?])
        });
        let [granted, refused, since] = asked.or_else(|why| {
            let files = node.memory.get::<Files>();
            files.and_then(|files| left_in(files.0.get(&node.name)?)).ok_or(why)
        })?;
        counts.granted += granted;
        counts.refused += refused;
        counts.since.push(since);
    }
    Ok(counts)
}

/// Returns the three counts in a file, which are LuaJIT numbers in native byte order.
fn left_in(path: &Path) -> Option<[u64; 3]> {
    let bytes = std::fs::read(path).ok()?;
    let mut numbers = bytes.chunks_exact(8).map(|number| {
        let number = f64::from_ne_bytes(number.try_into().ok()?);
        // Counts are whole numbers far below 2^53.
        (number >= 0.0 && number.fract() == 0.0).then_some(number as u64)
    });
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// Replaces all sessions with those numbered from 0 to below `count`. They may access every resource whose name starts
/// with `/`. All nodes know them when this returns.
pub(crate) fn fill_sessions(nodes: &[Access], count: u64) -> Result<(), SystemError> {
    let first = nodes.first().ok_or("there is no node to create sessions on")?;
    call(first, PATIENCE, "bakeoff.forget_sessions", &[], |_| Some(()))?;
    let batches = (0..count.div_ceil(BATCH)).map(|batch| {
        let (from, to) = (batch * BATCH, count.min((batch + 1) * BATCH));
        [Value::Unsigned(from), Value::Unsigned(to), Value::Text(RESOURCES)]
    });
    let batches: Vec<[Value<'_>; 3]> = batches.collect();
    calls(first, MADE_WITHIN, "bakeoff.make_sessions", &batches, |_| Some(()))?;
    super::settle(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_the_file_of_a_killed_node() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let left = |numbers: &[f64]| {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
            std::fs::write(&path, bytes).unwrap();
            left_in(&path)
        };
        let since = 1_795_340_000_123_456.0;
        assert_eq!(left(&[100_001.0, 3.0, since]), Some([100_001, 3, 1_795_340_000_123_456]));
        for broken in [&[][..], &[1.0, 2.0], &[1.0, -2.0, since], &[1.5, 2.0, since]] {
            assert_eq!(left(broken), None, "{broken:?}");
        }
        assert_eq!(left_in(Path::new("/absent")), None);
    }
}
