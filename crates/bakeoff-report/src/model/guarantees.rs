//! Finds the guarantees that systems are proven to have broken: linearizability, right and fresh answers, acknowledged
//! writes, guarantees of watches.
//!
//! They lead every form of a report. A system that broke one in any trial of a run is not ranked, whatever its speed.
//! What a system does not guarantee is no fault: such losses and stale reads are information.
//!
//! Not here: the sentence about power cuts (`derive::power_cuts`), the heading (`derive::headline`).

use bakeoff_core::check::{Audit, AuditSubject};
use bakeoff_core::linearizability::judged_history::{
    HistoryVerdict, JudgedHistory, ShownViolation,
};
use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::record::{Record, TrialRecord};
use bakeoff_core::stats::and;
use bakeoff_core::units::{count_text, plural, trials_text};

use crate::model::watches::JudgedWatches;

/// The guarantees that one system broke in a run; at least one.
#[derive(Debug, Clone)]
pub(crate) struct BrokenGuarantees {
    pub(crate) system: String,
    /// Clauses behind the name: `is not linearizable: 18 of 20 keys`.
    pub(crate) clauses: Vec<String>,
    /// Violation with the fewest operations, with the number of its trial.
    pub(crate) violation: Option<(u32, ShownViolation)>,
}

impl BrokenGuarantees {
    /// Returns a sentence without its full stop; `None` if only a power cut broke a guarantee.
    pub(crate) fn sentence(&self) -> Option<String> {
        (!self.clauses.is_empty()).then(|| format!("{} {}", self.system, self.text()))
    }

    /// Returns what it did, as a clause behind its name.
    pub(crate) fn text(&self) -> String {
        match &self.clauses[..] {
            [] => "lost acknowledged writes in a power cut".to_owned(),
            [first, rest @ ..] if first.contains(':') && !rest.is_empty() => {
                format!("{first}; it {}", and(rest))
            }
            clauses => and(clauses),
        }
    }
}

/// Returns the guarantees that a system broke in any trial of a run; `None` without one.
pub(crate) fn broken(record: &Record, system: &str) -> Option<BrokenGuarantees> {
    let trials: Vec<&TrialRecord> =
        record.trials.iter().filter(|one| one.trial.system == system && !one.not_tried).collect();
    let histories: Vec<(u32, &JudgedHistory)> = trials
        .iter()
        .filter_map(|one| Some((one.trial.number + 1, one.linearizability.as_ref()?)))
        .filter(|(_, one)| one.verdict == HistoryVerdict::Violated && !one.unguaranteed)
        .collect();
    let violation = histories
        .iter()
        .filter_map(|(number, one)| Some((*number, one.violation.as_ref()?)))
        .min_by_key(|(_, one)| one.operations.len() as u64 + one.more);
    let clauses: Vec<String> = [
        not_linearizable(&histories, trials.len()),
        untrue(&trials),
        lost(&trials),
        watches(&trials),
    ]
    .into_iter()
    .flatten()
    .collect();
    let power = trials
        .iter()
        .flat_map(|one| one.all_audits())
        .any(|audit| audit.power_cuts.is_some() && audit.verdict.failed() && found(audit) > 0);
    (power || !clauses.is_empty()).then(|| BrokenGuarantees {
        system: system.to_owned(),
        clauses,
        violation: violation.map(|(number, one)| (number, one.clone())),
    })
}

fn not_linearizable(of: &[(u32, &JudgedHistory)], trials: usize) -> Option<String> {
    let (_, worst) = of.iter().max_by_key(|(_, one)| one.keys_violated)?;
    let keys = format!("{} of {}", count_text(worst.keys_violated), plural(worst.keys, "key"));
    Some(match trials {
        1 => format!("is not linearizable: {keys}"),
        _ => format!("is not linearizable: {keys} (in {} of {})", of.len(), trials_text(trials)),
    })
}

/// Counts untrue answers in all loads, also while faults last.
fn untrue(of: &[&TrialRecord]) -> Option<String> {
    let stages = || {
        of.iter().flat_map(|one| {
            one.stages.iter().chain(one.injections.iter().map(|injection| &injection.stage))
        })
    };
    let count = |kind| stages().map(|stage| stage.measurement.errors_of(kind)).sum::<u64>();
    Some(match (count(ErrorKind::WrongValue), count(ErrorKind::StaleValue)) {
        (0, 0) => return None,
        (wrong, 0) => format!("gave {}", plural(wrong, "wrong answer")),
        (0, stale) => format!("gave {}", plural(stale, "stale answer")),
        (wrong, stale) => {
            format!("gave {} wrong and {}", count_text(wrong), plural(stale, "stale answer"))
        }
    })
}

/// Words the guarantees of its watches that it broke, in all loads and injections.
fn watches(of: &[&TrialRecord]) -> Option<String> {
    let judged = of.iter().filter_map(|trial| JudgedWatches::of_trial(trial));
    JudgedWatches::sum(judged)?.failure()
}

/// Words the worst audit that failed, besides those of power cuts.
fn lost(of: &[&TrialRecord]) -> Option<String> {
    let failed =
        |audit: &&Audit| audit.verdict.failed() && audit.power_cuts.is_none() && found(audit) > 0;
    let worst = of
        .iter()
        .flat_map(|one| one.all_audits())
        .filter(failed)
        .max_by_key(|audit| found(audit))?;
    let read = count_text(worst.read);
    if worst.of == AuditSubject::Passages {
        let found = count_text(found(worst));
        return Some(format!("let {found} of {read} requests through that nothing had granted"));
    }
    let parts = [
        ("lost", worst.lost),
        ("returned older values for", worst.older),
        ("returned wrong values for", worst.wrong.saturating_sub(worst.older)),
    ];
    let parts = parts.iter().filter(|(_, count)| *count > 0);
    let parts: Vec<String> =
        parts.map(|(what, count)| format!("{what} {}", count_text(*count))).collect();
    Some(format!("{} of {read} acknowledged keys {}", and(&parts), worst.when))
}

/// Returns the number of keys that an audit found lost or wrong.
fn found(of: &Audit) -> u64 {
    of.lost + of.wrong
}
