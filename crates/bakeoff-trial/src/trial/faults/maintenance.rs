//! Runs maintenance while a load runs: on one node after another, or once for the whole system.
//!
//! The system's answer is the proof. The maintenance lasts from the request to that answer.
//!
//! Not here: the requests of each kind (`bakeoff_systems`).

use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::record::FaultHit;
use bakeoff_core::study::fault::MaintenanceRun;
use bakeoff_host::Process;
use bakeoff_systems::exchange::Patience;

use super::{Injector, NotInjected};

/// Longest wait for maintenance. The load ends earlier.
const ENDS_WITHIN: Duration = Duration::from_secs(24 * 3600);

impl Injector<'_> {
    /// Runs maintenance on these nodes, without a pause between them. Stops at the first failure, or with the load.
    pub(super) fn maintain(
        &self,
        run: &MaintenanceRun,
        processes: &[&Process],
        since: impl Fn(Instant) -> f64,
        hits: &mut Vec<FaultHit>,
    ) -> Result<(), NotInjected> {
        let operation = run.operation;
        let member = self.member()?;
        for process in processes {
            let name = process.name();
            let node = member.nodes.iter().find(|node| node.name == name);
            let node = node.ok_or_else(|| format!("clients do not connect to `{name}`"))?;
            let from = since(clock::now());
            let go_on = || !self.is_over();
            let patience = Patience { within: ENDS_WITHIN, go_on: &go_on };
            let done = member.system.maintain(node, run, patience);
            let ended = done.is_ok().then(|| since(clock::now()));
            let proof = done.iter().map(|seen| format!("`{operation}` of `{name}`: {seen}"));
            let proof = proof.collect();
            let nodes = vec![name.to_owned()];
            hits.push(FaultHit {
                nodes,
                from,
                seen: ended,
                to: ended,
                proof,
                ..FaultHit::default()
            });
            if self.is_over() {
                let why = format!("the load ended before `{operation}` of `{name}` did");
                return Err(NotInjected::too_late(why));
            }
            if let Err(why) = done {
                return Err(format!("`{operation}` of `{name}` failed: {why}").into());
            }
        }
        Ok(())
    }
}
