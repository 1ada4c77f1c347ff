//! Checks of a trial besides its figures: limits, servers that ended, settings that changed.
//!
//! Not here: audits (`audit`), others on the machine (`neighbours`), what a measurement says of its own
//! validity (`bakeoff_core::check`).

use std::collections::BTreeSet;

use bakeoff_core::check::{CheckName, Verdict};
use bakeoff_core::record::Check;
use bakeoff_host::LimitsApplied;

use crate::cluster::Ready;
use crate::systems::{ConfigSnapshot, SystemError};

/// Tells whether the limits that were asked for hold.
pub(super) fn limits_check(cluster: &Ready) -> Option<Check> {
    let mut verdict = None;
    for limits in cluster.limits() {
        match limits {
            LimitsApplied::NotAsked => {}
            LimitsApplied::Applied { .. } => verdict = verdict.or(Some(Verdict::Passed)),
            LimitsApplied::NotApplied { why } => {
                verdict = verdict.filter(Verdict::failed).or(Some(Verdict::NotChecked(why)));
            }
            LimitsApplied::Differs { why } => verdict = Some(Verdict::Failed(why)),
        }
    }
    verdict.map(|verdict| Check { name: CheckName::Limits, verdict })
}

/// Tells whether a server ended while it was loaded: it answers for nothing that was measured.
pub(super) fn servers_check(cluster: &Ready) -> Option<Check> {
    let (died, strays) = (cluster.died(), cluster.strays());
    let verdict = if !died.is_empty() {
        Verdict::Failed(format!("{} during the load", died.join(", ")))
    } else if !strays.is_empty() {
        let strays = strays.join("; ");
        Verdict::Failed(format!(
            "{strays} as a daemon, whose CPU time and memory are in no figure; it is ended with the trial"
        ))
    } else {
        Verdict::Passed
    };
    cluster.processes().next().is_some().then_some(Check { name: CheckName::Servers, verdict })
}

/// Tells whether servers were told something else while they were loaded: they were not one system.
pub(super) fn configuration_check(
    before: Result<ConfigSnapshot, SystemError>,
    after: Result<ConfigSnapshot, SystemError>,
) -> Check {
    let verdict = match (before, after) {
        (Ok(before), Ok(after)) => {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            let mut changed = names.into_iter().filter(|&name| before.get(name) != after.get(name));
            match (changed.next(), changed.count()) {
                (None, _) => Verdict::Passed,
                (Some(one), 0) => Verdict::Failed(format!("{one} changed during the load")),
                (Some(one), more) => {
                    Verdict::Failed(format!("{one} and {more} more changed during the load"))
                }
            }
        }
        (Err(why), _) | (_, Err(why)) => Verdict::NotChecked(why.to_string()),
    };
    Check { name: CheckName::Configuration, verdict }
}
