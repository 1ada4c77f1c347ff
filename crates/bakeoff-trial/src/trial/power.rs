//! Cuts the power of a fresh cluster amid writes, and reads acknowledged keys back.
//!
//! The nodes run on file systems that can drop what was not synced (`bakeoff_disk`). They make servers slower or faster
//! than a disk does, so nothing here is timed, and the cluster that was measured is gone.
//!
//! Not here: what a cut drops (`bakeoff_disk`), the writes (`crash`), reading back (`audit`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bakeoff_core::check::{Audit, PowerCutsMade, Verdict};
use bakeoff_core::study::{PowerCutOf, PowerCuts};
use bakeoff_core::trial_samples::PhaseName;
use bakeoff_core::units::{count_text, plural};
use bakeoff_core::workload::mix64;
use bakeoff_engine::works::keyed::{KeyedState, StalenessTracking};
use bakeoff_host::{CutLosses, NodeDisk, UnsyncedFate, volatile_disk_support};

use super::audit;
use super::routes::Routes;
use super::trial_end::TrialEnd;
use super::{Combination, TrialRunner, crash};
use crate::cluster::RECOVERED_WITHIN;

/// Longest time until a system is ready that need not start again after a power cut.
const UNGUARANTEED_WITHIN: Duration = Duration::from_secs(20);

impl TrialRunner<'_, '_> {
    /// Cuts the power as often as the study says, or until acknowledged keys are lost.
    pub(super) fn cut_power(&mut self, cuts: PowerCuts) -> Result<Audit, TrialEnd> {
        let when = match cuts.of {
            PowerCutOf::All => "after a power cut of all nodes",
            PowerCutOf::One => "after a power cut of one node",
        };
        let not_checked = |why: String| Ok(Audit::new(when, Verdict::NotChecked(why)));
        let Combination { contender, trial, workload, load } = self.of;
        if !contender.study_system.is_started() {
            return not_checked("bakeoff did not start these servers".into());
        }
        if self.context.fleet.placed().is_some() {
            return not_checked("power cuts work without a places file only".into());
        }
        if let Err(why) = volatile_disk_support() {
            return not_checked(format!("this machine cannot mount a file system for it: {why}"));
        }
        self.phase(PhaseName::CuttingPower);
        let (system, interrupted) = (contender.system, self.context.interrupted);
        let seed = mix64(trial.seed ^ 0x0070_6f77_6572);
        let keyed = Arc::new(KeyedState::new(workload, seed, StalenessTracking::NotMeasured));
        let generators = &self.generators(&keyed, seed, StalenessTracking::NotMeasured)?;
        let mut cluster = match self.start(NodeDisk::Forgetful) {
            Ok(cluster) => cluster,
            Err(TrialEnd::Failed(failed)) => {
                return not_checked(format!("no start on such a file system: {}", failed.headline));
            }
            Err(interrupted) => return Err(interrupted),
        };
        system.prepare(cluster.first(), &cluster.nodes, workload, &keyed)?;
        let mut routes = Routes::choose(&cluster, workload, load)?;
        routes.sessions(load.tls_resumption);
        let auditor = self.auditor(generators, seed);
        let guarantees = &contender.record.guarantees;

        let mut made = PowerCutsMade::default();
        loop {
            let number = made.cuts + 1;
            let cut = format!("cut {number} of {}", cuts.cuts);
            if let Err(why) = cluster.write_back() {
                return not_checked(format!("{cut}: {why}"));
            }
            let writes = self.writes(&routes, generators, mix64(seed ^ u64::from(number)));
            let mut dropped = Err("the power was not cut".to_owned());
            let mut apart = None;
            let strike = || {
                dropped = match cuts.of {
                    PowerCutOf::All => cluster.cut_power(writes.seed, unsynced(number)),
                    PowerCutOf::One => {
                        let done = cluster.cut_power_of_one(writes.seed, unsynced(number));
                        done.map(|(dropped, nodes)| {
                            apart = Some(nodes);
                            dropped
                        })
                    }
                };
            };
            let written = crash::under_load(&writes, interrupted, strike);
            if interrupted.load(Ordering::Relaxed) {
                return Err(TrialEnd::Interrupted);
            }
            match (written, dropped) {
                (Err(why), _) => return not_checked(format!("{cut}: {why}")),
                (_, Err(why)) => return not_checked(format!("{cut}: {why}")),
                (Ok(written), Ok(dropped)) => count(&mut made, written.acknowledged, dropped),
            }
            let within = match guarantees.claims_disks() {
                true => RECOVERED_WITHIN,
                false => UNGUARANTEED_WITHIN,
            };
            let restarted = match apart.map(|apart| cluster.rejoin(&apart)) {
                None => cluster.restart_within(within, interrupted),
                Some(Ok(())) => cluster.again_within(within, interrupted),
                Some(Err(error)) => Err(error.into()),
            };
            cluster = match restarted.map_err(TrialEnd::from) {
                Ok(cluster) => cluster,
                Err(TrialEnd::Failed(failed)) => {
                    let why = format!("{cut}: no start after it: {}", failed.headline);
                    made.found_in = Some(number);
                    let verdict = match guarantees.claims_disks() {
                        true => Verdict::Failed(why),
                        false => Verdict::NotChecked(format!("{why}, which breaks no guarantee")),
                    };
                    let examples = failed.text.lines().map(str::to_owned).collect();
                    let power_cuts = Some(made);
                    return Ok(Audit { power_cuts, examples, ..Audit::new(when, verdict) });
                }
                Err(interrupted) => return Err(interrupted),
            };
            let audit = audit::after_a_power_cut(auditor.judge(&cluster, when), guarantees);
            let is_lost = audit.lost + audit.wrong > 0;
            let is_last = number >= cuts.cuts || !audit.verdict.passed();
            if !is_last {
                continue;
            }
            made.found_in = is_lost.then_some(number);
            cluster.stop();
            let seen = || format!("{cut}, which dropped {}", dropped_text(&made));
            let verdict = match audit.verdict {
                Verdict::Failed(why) => Verdict::Failed(format!("{}: {why}", seen())),
                Verdict::NotChecked(why) => Verdict::NotChecked(format!("{}: {why}", seen())),
                Verdict::Passed => Verdict::Passed,
            };
            return Ok(Audit { verdict, power_cuts: Some(made), ..audit });
        }
    }
}

/// Returns the fate of what was not synced: all lost at every other cut, which finds the most, and partly kept at the
/// others, which finds what relies on order.
fn unsynced(number: u32) -> UnsyncedFate {
    if number % 2 == 1 { UnsyncedFate::Lost } else { UnsyncedFate::PartlyKept }
}

fn count(made: &mut PowerCutsMade, acknowledged: u64, dropped: CutLosses) {
    made.cuts += 1;
    made.acknowledged += acknowledged;
    made.dropped_bytes += dropped.bytes;
    made.dropped_files += dropped.files;
    made.dropped_names += dropped.names;
    made.syncs += dropped.syncs;
}

/// Returns `12,288 bytes of 3 files and 2 changes of names`: what the cuts dropped.
fn dropped_text(made: &PowerCutsMade) -> String {
    format!(
        "{} bytes of {} and {} of names",
        count_text(made.dropped_bytes),
        plural(made.dropped_files, "file"),
        plural(made.dropped_names, "change"),
    )
}
