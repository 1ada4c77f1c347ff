//! What a run verified, in a few facts: writes read back, answers, trials, rules for measurements, the generator.
//!
//! What was not checked says so.
//!
//! Not here: the audits of each system (`words::audits`), the rules (`derive::method`).

use bakeoff_core::check::{Audit, AuditSubject};
use bakeoff_core::linearizability::judged_history::{HistoryVerdict, JudgedHistory};
use bakeoff_core::stats::and;
use bakeoff_core::units::{count_text, plural, trials_text};

use crate::derive::method::Compliance;
use crate::document::report::Report;
use crate::model::changed_keys::ChangedKeys;
use crate::model::quantity::Quantity;
use crate::model::trial::TrialFigures;
use crate::model::watches::JudgedWatches;

/// Returns the facts: a label and its value.
pub(crate) fn verified(of: &Report) -> Vec<(&'static str, String)> {
    let trials: Vec<&TrialFigures> = tried(of).collect();
    let mut facts = Vec::new();
    let audits: Vec<&Audit> = trials.iter().flat_map(|trial| &trial.verdicts.audits).collect();
    if of.comparisons.iter().any(|one| one.was_run() && one.writes()) {
        facts.push(("writes read back", read_back(&audits, AuditSubject::Writes)));
    }
    if audits.iter().any(|audit| audit.of == AuditSubject::Passages) {
        facts.push(("requests let through", read_back(&audits, AuditSubject::Passages)));
    }
    facts.extend(histories(&trials).map(|text| ("linearizability", text)));
    facts.extend(watches(&trials).map(|text| ("watches", text)));
    let sum = |quantity| -> f64 { trials.iter().map(|trial| trial.number_of(quantity)).sum() };
    let number = |value: f64| count_text(value as u64);
    let (verified, requests) = (sum(Quantity::Verified), sum(Quantity::Requests));
    facts.push(("answers verified", format!("{} of {}", number(verified), number(requests))));
    facts.push(("trials valid", self::trials(of)));
    facts.push(("rules for measurements", rules(of)));
    let busiest = trials.iter().filter_map(|trial| trial.get(Quantity::GeneratorCpu).value());
    if let Some(busiest) = busiest.reduce(f64::max) {
        facts.push(("generator's own share", format!("up to {busiest:.0} % of a CPU")));
    }
    facts
}

/// Returns the trials that ran.
fn tried(of: &Report) -> impl Iterator<Item = &TrialFigures> {
    let contenders = of.comparisons.iter().flat_map(|one| &one.contenders);
    contenders.flat_map(|one| &one.trials).filter(|trial| !trial.validity.not_tried)
}

/// Returns `10 of 12`: the valid trials of those that ran.
pub(crate) fn trials(of: &Report) -> String {
    let valid = tried(of).filter(|trial| trial.valid()).count();
    format!("{valid} of {}", tried(of).count())
}

/// Returns true if no trial that ran is invalid.
pub(crate) fn all_are_valid(of: &Report) -> bool {
    tried(of).all(TrialFigures::valid)
}

/// Returns how many keys with acknowledged writes were read back.
fn read_back(audits: &[&Audit], of: AuditSubject) -> String {
    let audits: Vec<&&Audit> = audits.iter().filter(|audit| audit.of == of).collect();
    let failed = audits.iter().filter(|audit| audit.verdict.failed()).count();
    if failed > 0 {
        return format!("{} failed", plural(failed as u64, "audit"));
    }
    let passed: Vec<&&&Audit> = audits.iter().filter(|audit| audit.verdict.passed()).collect();
    if passed.is_empty() {
        return "not checked".to_owned();
    }
    let read: u64 = passed.iter().map(|audit| audit.read).sum();
    // A loss that breaks no guarantee is no failure, and still a loss.
    let changed = audits.iter().map(|audit| ChangedKeys::found_by(audit));
    let changed = changed.fold(ChangedKeys::default(), |sum, one| sum + one);
    let lost = changed.all();
    let partly = match (lost, passed.len() < audits.len()) {
        (1.., _) => format!("; beyond any guarantee, the systems {}", changed.words(None)),
        (0, true) => "; partly not checked".to_owned(),
        (0, false) => String::new(),
    };
    match of {
        AuditSubject::Writes => {
            let any = |is: fn(&Audit) -> bool| passed.iter().any(|audit| is(audit));
            let after = [
                any(|audit| audit.when.contains("kill")).then_some("a kill"),
                any(|audit| audit.power_cuts.is_some()).then_some("power cuts"),
                any(|audit| audit.flipped.is_some()).then_some("a flipped bit"),
            ];
            let after: Vec<&str> = after.into_iter().flatten().collect();
            let also = match after.is_empty() {
                true => String::new(),
                false => format!(", also after {}", and(&after)),
            };
            let kept = if lost > 0 { "kept as guaranteed" } else { "none lost" };
            format!("{} keys, {kept}{also}{partly}", count_text(read))
        }
        AuditSubject::Passages => format!("{}, all granted{partly}", count_text(read)),
    }
}

/// Returns the verdict on the histories of all trials; `None` if none was to be judged.
fn histories(trials: &[&TrialFigures]) -> Option<String> {
    let all: Vec<&JudgedHistory> =
        trials.iter().filter_map(|trial| trial.verdicts.history.as_ref()).collect();
    let count =
        |holds: &dyn Fn(&JudgedHistory) -> bool| all.iter().filter(|one| holds(one)).count();
    let violated = |one: &JudgedHistory| one.verdict == HistoryVerdict::Violated;
    let broken = count(&|one| violated(one) && !one.unguaranteed);
    let allowed = count(&|one| violated(one) && one.unguaranteed);
    let held = count(&|one| one.verdict == HistoryVerdict::Linearizable);
    Some(match (broken, allowed, held, all.len()) {
        (_, _, _, 0) => return None,
        (0, 0, 0, _) => "not decided".to_owned(),
        (0, 0, held, all) => {
            let partly = if held < all { "; partly not decided" } else { "" };
            format!("held in {}{partly}", trials_text(held))
        }
        (0, allowed, ..) => format!("not held in {}, as allowed", trials_text(allowed)),
        (broken, ..) => format!("violated in {}", trials_text(broken)),
    })
}

/// Returns the verdict on the watches of all trials; `None` without watchers.
fn watches(trials: &[&TrialFigures]) -> Option<String> {
    let all: Vec<&JudgedWatches> =
        trials.iter().filter_map(|trial| trial.verdicts.watches.as_ref()).collect();
    let broken = all.iter().filter(|one| one.has_failed()).count();
    let unjudged = all.iter().any(|one| one.counts.unjudged > 0);
    let events = all.iter().fold(0, |sum: u64, one| sum.saturating_add(one.counts.events));
    Some(match (broken, all.len()) {
        (_, 0) => return None,
        (0, _) if events == 0 => "no event came".to_owned(),
        (0, _) => {
            let partly = if unjudged { "; skipped versions partly not judged" } else { "" };
            format!("{}, guarantees kept{partly}", plural(events, "event"))
        }
        (broken, _) => format!("guarantees broken in {}", trials_text(broken)),
    })
}

/// Returns how many published rules the run meets.
pub(crate) fn rules(of: &Report) -> String {
    let count = |met: Compliance| of.method.iter().filter(|one| one.met == met).count();
    let parts =
        [(Compliance::Yes, "met"), (Compliance::InPart, "in part"), (Compliance::No, "not met")];
    let parts = parts.map(|(met, name)| (count(met), name)).into_iter();
    let parts: Vec<String> = parts
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    parts.join(", ")
}
