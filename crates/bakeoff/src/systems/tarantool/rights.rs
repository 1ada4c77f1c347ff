//! Sessions and what they may have: made before a load, and the checks of them counted.
//!
//! A gate asks `check_access(session, resource)` for each request. Each node counts its own answers
//! in its memory, and tells since when; all nodes together have answered what was asked of any.
//!
//! Not here: `check_access` itself (`node.lua`).

use std::time::Duration;

use bakeoff_wire::msgpack::Value;

use super::Tarantool;
use super::ask::{call, calls};
use crate::systems::talk::PATIENCE;
use crate::systems::{Access, System as _};

/// How many sessions are made by one call, which is one transaction.
const BATCH: u64 = 1000;
/// How long all of them may take.
const MADE_WITHIN: Duration = Duration::from_secs(120);
/// What sessions may have: everything whose name begins so.
const RESOURCES: &[u8] = b"/";

/// The name of a session that may have every resource.
pub(crate) fn session_name(number: u64) -> String {
    format!("session-{number}")
}

/// The name of a session that there is none of, so that it may have nothing.
pub(crate) fn stranger_name(number: u64) -> String {
    format!("stranger-{number}")
}

/// How often checks were answered, by all nodes together.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "what stands before it asks"))]
pub(crate) struct Counts {
    /// With yes.
    pub(crate) granted: u64,
    /// With no.
    pub(crate) refused: u64,
    /// Since when each node has counted, in microseconds of its wall clock: a node that was started
    /// again since counts anew, and what it had counted before is not in here.
    pub(crate) since: Vec<u64>,
}

/// How often the nodes have answered checks since they were started.
#[cfg_attr(not(test), allow(dead_code, reason = "what stands before it asks"))]
pub(crate) fn granted(nodes: &[Access]) -> Result<Counts, String> {
    let mut counts = Counts { granted: 0, refused: 0, since: Vec::new() };
    for node in nodes {
        let [granted, refused, since] = call(node, PATIENCE, "bakeoff.counts", &[], |mut said| {
            let mut next = || said.next()?.unsigned();
            Some([next()?, next()?, next()?])
        })?;
        counts.granted += granted;
        counts.refused += refused;
        counts.since.push(since);
    }
    Ok(counts)
}

/// Makes the sessions from 0 to before `count`, and no other: they may have every resource whose
/// name begins with `/`. All nodes know them when this returns.
pub(crate) fn fill_sessions(nodes: &[Access], count: u64) -> Result<(), String> {
    let first = nodes.first().ok_or("there is no node to make sessions at")?;
    call(first, PATIENCE, "bakeoff.forget_sessions", &[], |_| Some(()))?;
    let batches = (0..count.div_ceil(BATCH)).map(|batch| {
        let (from, to) = (batch * BATCH, count.min((batch + 1) * BATCH));
        [Value::Unsigned(from), Value::Unsigned(to), Value::Text(RESOURCES)]
    });
    let batches: Vec<[Value<'_>; 3]> = batches.collect();
    calls(first, MADE_WITHIN, "bakeoff.make_sessions", &batches, |_| Some(()))?;
    Tarantool.settle(nodes)
}
