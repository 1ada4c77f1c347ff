//! Lowers a claim of disk durability to what a run's trials observed, and reports it.
//!
//! A report uses one guarantee per system, so the claim is lowered once, before anything is derived. The original claim
//! stays next to it.
//!
//! Not here: counting and judging syncs (`bakeoff_core::record::durability`).

use std::borrow::Cow;

use bakeoff_core::check::Verdict;
use bakeoff_core::record::{Durability, Record, SystemRecord, TrialRecord};

use super::ack_locations::{acknowledged_words, claim_words};
use super::findings::{Cause, Finding};

/// Returns the record, with the disk claims that any trial contradicted lowered.
pub(crate) fn lowered(record: &Record) -> Cow<'_, Record> {
    let mut lowered = Cow::Borrowed(record);
    for (place, system) in record.header.systems.iter().enumerate() {
        let claim = system.guarantees.acknowledged_in.filter(|claim| claim.is_on_disk());
        if let Some(claim) = claim
            && contradiction(record, &system.name).is_some()
        {
            let guarantees = &mut lowered.to_mut().header.systems[place].guarantees;
            let left = claim.without_syncs();
            guarantees.acknowledged = format!(
                "observed {}; it claims: {}",
                acknowledged_words(left),
                guarantees.acknowledged
            );
            guarantees.acknowledged_in = Some(left);
            guarantees.claimed_in = Some(claim);
        }
    }
    lowered
}

/// Returns the evidence against each lowered claim.
pub(crate) fn findings(record: &Record) -> Vec<Finding> {
    let finding = |system: &SystemRecord| {
        let claimed = claim_words(system.guarantees.claimed_in?);
        let why = contradiction(record, &system.name)?;
        let text = format!("{} claims {claimed} for acknowledged writes, but {why}", system.name);
        Some(Finding::of_run(Cause::Durability, text))
    };
    record.header.systems.iter().filter_map(finding).collect()
}

/// Returns the first evidence that a system syncs less than it claims.
fn contradiction<'a>(record: &'a Record, system: &str) -> Option<&'a str> {
    observed(record.trials.iter().filter(|trial| trial.trial.system == system)).find_map(|seen| {
        match &seen.verdict {
            Verdict::Failed(why) => Some(why.as_str()),
            Verdict::Passed | Verdict::NotChecked(_) => None,
        }
    })
}

/// Returns the observations of these trials.
pub(crate) fn observed<'a>(
    trials: impl Iterator<Item = &'a TrialRecord>,
) -> impl Iterator<Item = &'a Durability> {
    trials.filter_map(|trial| trial.durability.as_ref())
}
