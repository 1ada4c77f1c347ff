//! Compares the systems' limits, and the origin of the load.
//!
//! Not here: the other rows of the sheet (`fairness`), throttling by a limit (`nodes`).

use std::time::Duration;

use bakeoff_core::check::{CheckName, Verdict};
use bakeoff_core::lateness::{self, is_bound};
use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::TrialRecord;
use bakeoff_core::stats::and;
use bakeoff_core::study::{self, Limits};
use bakeoff_core::units::{share_text, trials_text};

use super::{Fact, Row, Side, UNKNOWN, Weight, by_group, plain};

/// Returns the limits that the study sets for a system and its parts; `None` without limits.
fn asked(side: &Side<'_>) -> Option<String> {
    let own = side.asked.limits.as_ref().and_then(words);
    let part = |(role, part): (&String, &study::System)| {
        Some(format!("{role}: {}", part.limits.as_ref().and_then(words)?))
    };
    let parts = side.asked.parts.iter().filter_map(part);
    let all: Vec<String> = own.into_iter().chain(parts).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Returns `0.5 CPUs and 1 GiB memory a node, on CPUs 0 and 1 alone`.
fn words(limits: &Limits) -> Option<String> {
    let cpu =
        limits.cpu.map(|cpu| if cpu == 1.0 { "1 CPU".to_owned() } else { format!("{cpu} CPUs") });
    let memory = limits.memory.map(|memory| format!("{memory} memory"));
    let used: Vec<String> = cpu.into_iter().chain(memory).collect();
    let used = (!used.is_empty()).then(|| format!("{} a node", used.join(" and ")));
    let pinned = (!limits.cpus.is_empty()).then(|| format!("{} alone", cpus(&limits.cpus)));
    match (used, pinned) {
        (Some(used), Some(pinned)) => Some(format!("{used}, on {pinned}")),
        (used, pinned) => used.or(pinned),
    }
}

/// Returns `CPU 3`, `CPUs 0 and 1`.
fn cpus(numbers: &[u32]) -> String {
    let names: Vec<String> = numbers.iter().map(u32::to_string).collect();
    format!("CPU{} {}", if numbers.len() == 1 { "" } else { "s" }, and(&names))
}

/// Returns why limits were not applied, and in how many trials.
fn not_applied(side: &Side<'_>) -> Option<(String, usize)> {
    asked(side)?;
    let why = |trial: &&&TrialRecord| {
        let check = trial.checks.iter().find(|check| check.name == CheckName::Limits)?;
        match &check.verdict {
            Verdict::Passed => None,
            Verdict::Failed(why) | Verdict::NotChecked(why) => Some(why.clone()),
        }
    };
    let reasons: Vec<String> = side.trials.iter().filter_map(|trial| why(&trial)).collect();
    Some((reasons.first()?.clone(), reasons.len()))
}

/// Returns the row of CPU and memory limits, and of the CPUs that nodes are pinned to.
pub(super) fn row(sides: &[Side<'_>]) -> (Row, Option<String>) {
    let (mut row, _) = plain("CPU and memory limits", sides, Weight::Decides, |side| {
        let checked = side
            .trials
            .iter()
            .any(|trial| trial.checks.iter().any(|check| check.name == CheckName::Limits));
        match (asked(side), not_applied(side)) {
            (None, _) if side.is.already_running => "none by bakeoff".to_owned(),
            (None, _) => "none".to_owned(),
            (Some(asked), Some(_)) => format!("{asked}, requested but not applied"),
            (Some(asked), None) if checked => format!("{asked}, applied"),
            (Some(asked), None) => format!("{asked}, {UNKNOWN} whether applied"),
        }
    });
    let unapplied: Vec<String> = sides
        .iter()
        .filter_map(|side| Some((asked(side)?, not_applied(side)?, side)))
        .map(|(asked, (why, trials), side)| {
            let of = trials_text(side.trials.len());
            format!("{} ({asked}) in {trials} of {of}: {why}", side.name)
        })
        .collect();
    if !unapplied.is_empty() {
        row.weight = Weight::Decides;
        let finding = format!(
            "requested limits were not applied to {}; without them a program uses all it can \
             get, so these figures say little about its performance, or a comparison, \
             within the limits",
            unapplied.join("; ")
        );
        return (row, Some(finding));
    }
    let held: Vec<String> = by_group(sides, asked)
        .into_iter()
        .map(|(limits, names)| match limits {
            None => format!("{names} with no limits"),
            Some(limits) => format!("{names} with {limits}"),
        })
        .collect();
    if held.len() < 2 {
        return (row, None);
    }
    (row, Some(format!("the systems have different limits: {}", held.join(", "))))
}

/// Returns the row of the largest share of a p99 response time that the generator's delays may have added, in any trial.
/// `None` if no delay was recorded. Also names the systems whose p99 is an upper bound.
pub(super) fn generator_delays(sides: &[Side<'_>]) -> Option<(Row, Option<String>)> {
    let recorded = sides.iter().flat_map(measured).any(|of| !of.undelayed.is_empty());
    let p99 =
        |of: &Measurement| Some((of.total().response.quantile(0.99)?, lateness::added(of)(0.99)?));
    let share = |(p99, added): (Duration, Duration)| added.as_secs_f64() / p99.as_secs_f64();
    let (mut row, _) = plain("delays in the generator", sides, Weight::Matters, |side| {
        match measured(side).filter_map(p99).map(share).max_by(f64::total_cmp) {
            None => Fact::NotMeasured,
            Some(share) if share <= lateness::ADDED_SHARE_MAX => {
                Fact::Known("less than a tenth of a p99".to_owned())
            }
            Some(share) => Fact::Known(format!("up to {} of a p99", share_text(share))),
        }
    });
    let bounds = sides.iter().filter_map(|side| {
        let bounds = measured(side).filter_map(p99).filter(|&(p99, added)| is_bound(p99, added));
        let most = bounds.map(share).max_by(f64::total_cmp)?;
        Some(format!("{} (up to {})", side.name, share_text(most)))
    });
    let bounds: Vec<String> = bounds.collect();
    let finding = (!bounds.is_empty()).then(|| {
        row.weight = Weight::Decides;
        format!("the generator may have added to the p99 of {}: it is an upper bound", and(&bounds))
    });
    recorded.then_some((row, finding))
}

fn measured<'a>(side: &'a Side<'a>) -> impl Iterator<Item = &'a Measurement> {
    side.trials.iter().flat_map(|trial| &trial.stages).map(|stage| &stage.measurement)
}

/// Returns the origin of the load. `shared`: servers run on the same machine.
pub(super) fn generator(side: &Side<'_>, shared: bool) -> String {
    let local = |host: &str| host == "localhost" || host == "::1" || host.starts_with("127.");
    let own = side.trials.iter().find(|trial| !trial.generator_cpus.is_empty());
    match (side.is.already_running, own) {
        (false, Some(trial)) => {
            let own = cpus(&trial.generator_cpus);
            let apart = trial.checks.iter().find(|check| check.name == CheckName::GeneratorApart);
            match apart.is_some_and(|check| !check.verdict.passed()) {
                false => format!("on the servers' machine, on {own} of its own"),
                true => format!("on the servers' machine, on {own}, shared with nodes"),
            }
        }
        (false, None) if shared => "on the servers' machine, sharing its CPUs".to_owned(),
        (false, None) => "on the servers' machine".to_owned(),
        (true, _) if side.asked.endpoints().iter().all(|endpoint| local(&endpoint.host)) => {
            "on the machine of its endpoints".to_owned()
        }
        (true, _) => "on another machine, according to its endpoints".to_owned(),
    }
}
