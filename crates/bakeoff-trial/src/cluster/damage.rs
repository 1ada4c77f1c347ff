//! Damages the data of a stopped node, and starts the cluster again.
//!
//! Not here: choosing the bit (`bakeoff_host`), the audit (`trial::bit_flip`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::check::FlippedBit;
use bakeoff_core::workload::mix64;
use bakeoff_host::{FlipIn, Process, flip_a_bit};

use super::ReadyCluster;

/// Starts of a node that ends by itself, and the pause before each: its peers may not be there yet.
const STARTS_MAX: u32 = 4;
const START_PAUSE: Duration = Duration::from_millis(500);
const PROBE_PAUSE: Duration = Duration::from_millis(100);

impl ReadyCluster {
    /// Flips a bit of one node's data. All nodes are stopped. `None` if no node has a data file.
    ///
    /// # Errors
    /// Fails with a message if a file cannot be read or written.
    pub(crate) fn flip_a_bit(
        &self,
        chosen: FlipIn,
        seed: u64,
    ) -> Result<Option<FlippedBit>, String> {
        let all: Vec<&Process> = self.processes().collect();
        let first = seed.checked_rem(all.len() as u64).unwrap_or(0) as usize;
        for process in all.iter().cycle().skip(first).take(all.len()) {
            let spec = process.spec();
            let configured = spec.files.iter().map(|file| &file.path).chain(&spec.logs);
            let mut spared: Vec<_> = configured.map(|path| spec.dir.join(path)).collect();
            spared.push(spec.dir.join("tmp"));
            let flipped = flip_a_bit(&spec.dir, &spared, chosen, mix64(seed))
                .map_err(|error| format!("cannot damage `{}`: {error}", process.name()))?;
            if let Some(flip) = flipped {
                return Ok(Some(FlippedBit {
                    node: process.name().to_owned(),
                    file: flip.file.display().to_string(),
                    size: flip.size,
                    offset: flip.offset,
                    bit: flip.bit,
                    ended: None,
                }));
            }
        }
        Ok(None)
    }

    /// Returns the number of nodes of the system or part that a node belongs to, without that node.
    pub(crate) fn nodes_next_to(&self, node: &str) -> usize {
        let own = |member: &&ReadyCluster| member.processes.iter().any(|one| one.name() == node);
        self.members().find(own).map_or(0, |member| member.processes.len() - 1)
    }

    /// Starts the stopped nodes again, and waits up to `within` for each member to serve. A node that ends by itself is
    /// started a few times; then the damaged one may be missing.
    ///
    /// # Errors
    /// Fails with a message if a member does not serve in time, or another node ends.
    pub(crate) fn restart_damaged(
        &self,
        damaged: &str,
        within: Duration,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        self.members().try_for_each(|member| member.serve_damaged(damaged, within, stop))
    }

    fn serve_damaged(
        &self,
        damaged: &str,
        within: Duration,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let deadline = clock::now() + within;
        let mut starts = vec![0; self.processes.len()];
        loop {
            let mut ended = false;
            for (process, starts) in self.processes.iter().zip(&mut starts) {
                let Some(exit) = process.exit() else { continue };
                if *starts == STARTS_MAX && process.name() == damaged {
                    continue;
                }
                if *starts == STARTS_MAX {
                    return Err(format!("`{}` {exit}", process.name()));
                }
                if *starts > 0 {
                    std::thread::sleep(START_PAUSE);
                }
                process.restart().map_err(|error| error.to_string())?;
                *starts += 1;
                ended = true;
            }
            let live = self.live_nodes();
            let seen = match self.system.probe(&live) {
                _ if ended => "nodes ended".to_owned(),
                _ if live.is_empty() => return Ok(()),
                Ok(_) => return Ok(()),
                Err(not_ready) => format!("{not_ready:?}"),
            };
            if stop.load(Ordering::Relaxed) || clock::now() > deadline {
                return Err(format!("no service within {} s: {seen}", within.as_secs()));
            }
            std::thread::sleep(PROBE_PAUSE);
        }
    }
}
