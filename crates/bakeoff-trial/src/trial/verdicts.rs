//! Checks a trial besides its figures: limits, ended servers, changed configuration.
//!
//! Not here: audits (`audit`), other work on the machine (`neighbours`), validity of measurements
//! (`bakeoff_core::check`).

use std::collections::BTreeSet;

use bakeoff_core::check::{self, Audit, CheckName, Verdict};
use bakeoff_core::record::{Check, GeneratorPart, TrialRecord};
use bakeoff_host::LimitsApplied;
use bakeoff_systems::{ConfigSnapshot, SystemError};

use crate::cluster::ReadyCluster;

/// Checks that the configured limits hold. `None` if none are configured.
pub(super) fn limits_check(cluster: &ReadyCluster) -> Option<Check> {
    let mut verdict = None;
    for limits in cluster.limits() {
        match limits {
            LimitsApplied::NotAsked => {}
            LimitsApplied::Applied { .. } | LimitsApplied::ByContainer { .. } => {
                verdict = verdict.or(Some(Verdict::Passed));
            }
            LimitsApplied::NotApplied { why } => {
                verdict = verdict.filter(Verdict::failed).or(Some(Verdict::NotChecked(why)));
            }
            LimitsApplied::Differs { why } => verdict = Some(Verdict::Failed(why)),
        }
    }
    verdict.map(|verdict| Check::new(CheckName::Limits, verdict))
}

/// Checks that the generators of each stage with figures began together. `None` for a single generator.
pub(super) fn together_check(parts: &[Vec<GeneratorPart>], record: &TrialRecord) -> Option<Check> {
    let parts = parts.iter().skip(record.figured_places().start);
    let judged = parts.zip(record.figured()).filter_map(|(parts, stage)| {
        check::machine::generators_together(parts.iter(), stage.measurement.window)
    });
    let all: Vec<Verdict> = judged.collect();
    let worst = all.iter().find(|verdict| verdict.failed()).or(all.first()).cloned()?;
    Some(Check::new(CheckName::GeneratorsTogether, worst))
}

/// Checks that generators kept off the CPUs of pinned servers on their machines. `None` without pinned servers. `names`
/// are the machines' names.
pub(super) fn apart_check(parts: &[Vec<GeneratorPart>], names: &[String]) -> Option<Check> {
    let all = parts.iter().flat_map(|parts| parts.iter().zip(names));
    let pinned: Vec<_> =
        all.filter(|(part, _)| !part.cpus.is_empty() || part.not_apart.is_some()).collect();
    let why = pinned
        .iter()
        .find_map(|(part, name)| part.not_apart.as_ref().map(|why| format!("on `{name}`: {why}")));
    let verdict = why.map_or(Verdict::Passed, Verdict::NotChecked);
    (!pinned.is_empty()).then_some(Check::new(CheckName::GeneratorApart, verdict))
}

/// Checks that no server ended during the load: the figures of one that did mean nothing.
pub(super) fn servers_check(cluster: &ReadyCluster) -> Option<Check> {
    let (died, strays) = (cluster.died(), cluster.strays());
    let verdict = if !died.is_empty() {
        Verdict::Failed(format!("during the load {}", died.join(", ")))
    } else if !strays.is_empty() {
        let strays = strays.join("; ");
        Verdict::Failed(format!(
            "{strays} as a daemon, whose CPU time and memory count in no figure; bakeoff stops it after the trial"
        ))
    } else {
        Verdict::Passed
    };
    cluster.processes().next().is_some().then_some(Check::new(CheckName::Servers, verdict))
}

/// Fails the check of servers that run but did not answer an audit. Their keys may not be lost, but the servers are
/// unreliable.
pub(super) fn expect_answers(record: &mut TrialRecord) {
    let is_unread = |audit: &&Audit| audit.unreadable > 0 && audit.lost + audit.wrong == 0;
    let Some(audit) = record.all_audits().find(is_unread) else { return };
    let (Verdict::NotChecked(why) | Verdict::Failed(why)) = &audit.verdict else { return };
    let why = format!("{}: {why}", audit.when);
    let servers = record.checks.iter_mut().find(|check| check.name == CheckName::Servers);
    if let Some(servers) = servers.filter(|servers| servers.verdict.passed()) {
        servers.verdict = Verdict::Failed(why);
    }
}

/// Checks that the configuration did not change during the load. Otherwise the figures mix two systems.
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
    Check::new(CheckName::Configuration, verdict)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bakeoff_core::measurement::Measurement;
    use bakeoff_core::plan::Trial;
    use bakeoff_core::record::{Injection, StageRecord};
    use bakeoff_core::search::TriedRate;

    use super::*;
    use crate::trial;

    /// Returns a stage of one second, or a try of a search.
    fn stage(tried: Option<TriedRate>) -> StageRecord {
        let measurement = Measurement { window: Duration::from_secs(1), ..Measurement::default() };
        StageRecord { clients: 2, began: 0.0, measured_from: None, measurement, tried }
    }

    fn planned() -> Trial {
        Trial {
            number: 0,
            round: 0,
            system: "a".to_owned(),
            workload: "w".to_owned(),
            load: "l".to_owned(),
            seed: 1,
        }
    }

    fn began(late_us: f64) -> GeneratorPart {
        GeneratorPart { late_us, ..GeneratorPart::default() }
    }

    #[test]
    fn generators_must_begin_together_in_stages_with_figures() {
        let apart = || vec![began(0.0), began(30_000.0)];
        let together = || vec![began(0.0), began(30.0)];
        let judged = |parts: [Vec<GeneratorPart>; 2], kept: [Option<bool>; 2]| {
            let tried = |kept: bool| TriedRate {
                rate: 100.0,
                confirming: false,
                broken_by: if kept { Vec::new() } else { vec!["p99 is 9 s".to_owned()] },
                void: false,
                disturbed_by: Vec::new(),
            };
            let stages = kept.map(|kept| stage(kept.map(tried))).to_vec();
            let record = TrialRecord { stages, ..trial::begun(&planned(), String::new()) };
            together_check(&parts, &record).expect("there are two generators").verdict
        };
        let steps = [None, None];
        assert_eq!(judged([together(), together()], steps), Verdict::Passed);
        assert!(judged([together(), apart()], steps).failed());
        assert!(judged([apart(), together()], steps).failed());
        let tries = [Some(true), Some(false)];
        assert_eq!(judged([together(), apart()], tries), Verdict::Passed);
        assert!(judged([apart(), together()], tries).failed());
    }

    #[test]
    fn unanswered_audit_fails_the_servers_check() {
        let audit = |unreadable, lost| {
            let why = Verdict::NotChecked("9 keys could not be read back".into());
            Audit { unreadable, lost, ..Audit::new("after the load", why) }
        };
        let empty = |servers| {
            let checks = vec![Check::new(CheckName::Servers, servers)];
            TrialRecord { checks, ..trial::begun(&planned(), String::new()) }
        };
        let judged = |unreadable, lost, servers: Verdict| {
            let mut record = empty(servers);
            record.audits.push(audit(unreadable, lost));
            expect_answers(&mut record);
            record.checks.swap_remove(0).verdict
        };
        let why = "after the load: 9 keys could not be read back";
        assert_eq!(judged(9, 0, Verdict::Passed), Verdict::Failed(why.into()));
        let died = Verdict::Failed("during the load it died".into());
        assert_eq!(judged(9, 0, died.clone()), died, "keeps the cause");
        assert_eq!(judged(0, 0, Verdict::Passed), Verdict::Passed);
        assert_eq!(judged(9, 1, Verdict::Passed), Verdict::Passed, "the audit failed itself");
        let mut faulty = empty(Verdict::Passed);
        faulty.injections.push(Injection {
            fault: "paused".to_owned(),
            repeat: 1,
            stage: stage(None),
            hits: Vec::new(),
            unproven: None,
            stalls_explained: None,
            audit: Some(audit(9, 0)),
        });
        expect_answers(&mut faulty);
        assert!(faulty.checks[0].verdict.failed(), "audits after injections count as well");
    }
}
