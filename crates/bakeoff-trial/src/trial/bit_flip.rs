//! Flips a bit of one node's data at rest, and reads acknowledged keys back.
//!
//! A replicated store has to notice the damage or to heal it. A node may refuse to start: then the others answer.
//!
//! Not here: the flip and the restart (`cluster::damage`), reading back (`audit`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use bakeoff_core::check::{Audit, Verdict};
use bakeoff_core::trial_samples::PhaseName;
use bakeoff_core::workload::mix64;
use bakeoff_host::{FlipIn, NodeDisk};

use super::{Combination, TrialEnd, TrialRunner, audit};
use crate::cluster::ReadyCluster;
use bakeoff_fleet::generators::all_generators::Generators;

/// Moment of the audit in records.
const WHEN: &str = "after a flipped bit of one node";
/// Longest time until a system serves again.
const SERVES_WITHIN: Duration = Duration::from_secs(60);
/// Lines of the log of a node that ended.
const LAST_WORDS: usize = 5;

impl TrialRunner<'_, '_> {
    /// Stops the cluster, damages a node, starts the cluster and reads back.
    pub(super) fn flip_a_bit(
        &mut self,
        cluster: &ReadyCluster,
        generators: &Generators<'_>,
    ) -> Result<Audit, TrialEnd> {
        let not_checked = |why: String| Ok(Audit::new(WHEN, Verdict::NotChecked(why)));
        let Combination { contender, trial, .. } = self.of;
        if !contender.study_system.is_started() {
            return not_checked("bakeoff did not start these servers".into());
        }
        if self.context.fleet.placed().is_some() {
            return not_checked("bit flips work without a places file only".into());
        }
        if self.disk() != NodeDisk::Machine {
            return not_checked("faults of their disks keep the nodes' data in memory".into());
        }
        self.phase(PhaseName::FlippingBit);
        let interrupted = self.context.interrupted;
        let seed = mix64(trial.seed ^ 0x0066_6c69_7073);
        cluster.halt();
        let chosen = if trial.round % 2 == 0 { FlipIn::Largest } else { FlipIn::Newest };
        let mut flipped = match cluster.flip_a_bit(chosen, seed) {
            Ok(Some(flipped)) => flipped,
            Ok(None) => return not_checked("no node has a data file".into()),
            Err(why) => return not_checked(why),
        };
        let served = cluster.restart_damaged(&flipped.node, SERVES_WITHIN, interrupted);
        if interrupted.load(Ordering::Relaxed) {
            return Err(TrialEnd::Interrupted);
        }
        let audit = match served {
            Ok(()) => self.auditor(generators, seed).judge(cluster, WHEN),
            Err(why) => Audit::new(WHEN, Verdict::NotChecked(why)),
        };
        let damaged = cluster.processes().find(|process| process.name() == flipped.node);
        flipped.ended = damaged.and_then(|process| Some(process.exit()?.to_string()));
        let guarantees = &contender.record.guarantees;
        let copies = cluster.nodes_next_to(&flipped.node);
        let mut audit = audit::after_a_flipped_bit(audit, guarantees, copies);
        if let Some(process) = damaged.filter(|_| flipped.ended.is_some()) {
            audit.examples.extend(process.log_tail(LAST_WORDS).lines);
        }
        let text = flipped.text();
        audit.verdict = match audit.verdict {
            Verdict::Failed(why) => Verdict::Failed(format!("{text}: {why}")),
            Verdict::NotChecked(why) => Verdict::NotChecked(format!("{text}: {why}")),
            Verdict::Passed => Verdict::Passed,
        };
        Ok(Audit { flipped: Some(flipped), ..audit })
    }
}
