//! Decides which rounds of a run are repeated because the machine disturbed them.
//!
//! A neighbour that disturbs one round in three leaves too few rounds to judge. So a run gets an additional round for
//! each disturbed one, up to half as many as the study requests. Only checks of the machine select them, never a
//! figure; otherwise a run could continue until its result pleases. A repeated round includes all systems of its
//! comparison, so no system gets a second try alone. The disturbed trials stay in the record as not valid.
//!
//! A generator that stood still (`timers`) was held back by the machine as well, and repeats a round unless the nodes
//! themselves may have caused that (`check::explained`), the load was too much for it (`generator`), or the user says
//! that others work on the machine.
//!
//! Not here: running trials, the order of a round (`plan`), rounds that a gate adds because of scatter
//! (`stats::gate`).

use std::collections::BTreeMap;

use crate::plan::{self, Trial};
use crate::record::{Record, RepeatedRound, TrialRecord};
use crate::study::Study;
use crate::units::plural;
use crate::verdict::{Cause, CheckName};

/// Lists additional rounds of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraRounds {
    /// Disturbed rounds, one for each additional round.
    pub repeats: Vec<RepeatedRound>,
    /// Trials of the additional rounds.
    pub order: Vec<Trial>,
}

/// Returns the maximum number of additional rounds for one workload and load.
pub fn extra_rounds_max(study: &Study) -> u32 {
    study.trials.div_ceil(2)
}

/// Returns the additional rounds of a complete run; `None` if it lacks trials or repeats none.
pub fn extra_rounds(record: &Record) -> Option<ExtraRounds> {
    if !record.is_complete() || record.answered_after().is_some() {
        return None;
    }
    let study = &record.header.study;
    let known: Vec<&RepeatedRound> = record.extended.iter().flat_map(|one| &one.repeats).collect();
    let mut spoilt: Vec<RepeatedRound> = record
        .trials
        .iter()
        .filter_map(|one| Some(repeated(one, spoilt_by(record, one)?)))
        .collect();
    spoilt.sort_by(|a, b| (a.round, a.place()).cmp(&(b.round, b.place())));
    spoilt.dedup_by(|a, b| a.round == b.round && a.place() == b.place());
    let is_known = |one: &RepeatedRound| {
        known.iter().any(|it| it.round == one.round && it.place() == one.place())
    };
    spoilt.retain(|one| !is_known(one));
    let mut left: BTreeMap<(String, String), u32> = BTreeMap::new();
    spoilt.retain(|one| {
        let place = (one.workload.clone(), one.load.clone());
        let left = left.entry(place).or_insert_with(|| {
            let had = known.iter().filter(|it| it.place() == one.place()).count() as u32;
            extra_rounds_max(study).saturating_sub(had)
        });
        let may = *left > 0;
        *left = left.saturating_sub(1);
        may
    });
    let order = further(study, record.header.seed, &record.header.order, &spoilt);
    (!order.is_empty()).then_some(ExtraRounds { repeats: spoilt, order })
}

/// Returns true if the trials of a run follow its plan, its repeated rounds and the rounds that a gate added.
pub fn follows_plan(record: &Record) -> bool {
    let (study, seed) = (&record.header.study, record.header.seed);
    let begun = record.extended.first().map_or(study.trials, |one| one.before);
    if begun > study.trials {
        return false;
    }
    let mut order = plan::plan(&Study { trials: begun, ..study.clone() }, seed);
    if let Some(rounds) = record.answered_after() {
        order.retain(|trial| trial.round < rounds);
    }
    for extended in &record.extended {
        let added = extended.trials.min(study.trials).saturating_sub(extended.before);
        let more = match &extended.repeats[..] {
            [] => plan::further(study, seed, &order, |_, _| added),
            repeats => further(study, seed, &order, repeats),
        };
        order.extend(more);
    }
    order == record.header.order
}

/// Returns true if a trial's round was repeated because the machine disturbed it. The run does not use this trial.
pub fn is_repeated(record: &Record, trial: &TrialRecord) -> bool {
    let is_it = |one: &RepeatedRound| {
        let of = &trial.trial;
        (of.round, &*of.workload, &*of.load) == (one.round, &*one.workload, &*one.load)
    };
    spoilt_by(record, trial).is_some()
        && record.extended.iter().flat_map(|one| &one.repeats).any(is_it)
}

/// Describes the additional rounds: `2 extra rounds under w/l: neighbours disturbed rounds 2 and 4`.
pub fn texts(repeats: &[RepeatedRound]) -> Vec<String> {
    let mut places: BTreeMap<(&str, &str), BTreeMap<CheckName, Vec<u32>>> = BTreeMap::new();
    for one in repeats {
        let checks = places.entry(one.place()).or_default();
        checks.entry(one.check).or_default().push(one.round.saturating_add(1));
    }
    let text = |((workload, load), checks): (_, BTreeMap<CheckName, Vec<u32>>)| {
        let count = checks.values().map(|rounds| rounds.len() as u64).sum();
        let why: Vec<String> = checks.iter().map(|(check, rounds)| why(*check, rounds)).collect();
        format!("{} under {workload}/{load}: {}", plural(count, "extra round"), why.join("; "))
    };
    places.into_iter().map(text).collect()
}

fn why(check: CheckName, rounds: &[u32]) -> String {
    let what = match check {
        CheckName::Steal => "the hypervisor's other guests",
        CheckName::Disk => "a full disk",
        CheckName::Clock => "a stepped clock",
        CheckName::Neighbours => "neighbours",
        CheckName::Timers => "stalls of the generator",
        other => return format!("{other} failed in {}", listed(rounds)),
    };
    format!("{what} disturbed {}", listed(rounds))
}

/// Formats rounds: `round 2`, `rounds 2, 3 and 4`.
fn listed(rounds: &[u32]) -> String {
    let words: Vec<String> = rounds.iter().map(u32::to_string).collect();
    match &words[..] {
        [one] => format!("round {one}"),
        [first @ .., last] => format!("rounds {} and {last}", first.join(", ")),
        [] => "no round".to_owned(),
    }
}

fn repeated(trial: &TrialRecord, check: CheckName) -> RepeatedRound {
    let Trial { workload, load, round, .. } = trial.trial.clone();
    RepeatedRound { workload, load, round, check }
}

/// Returns the check by which the machine disturbed a trial; `None` if it did not.
fn spoilt_by(record: &Record, trial: &TrialRecord) -> Option<CheckName> {
    // A trial that a lost machine interrupted runs again under its own number.
    if trial.outcome.is_broken_off() {
        return None;
    }
    let cause = trial.cause()?;
    let failed = || trial.checks.iter().filter(|one| one.verdict.failed() && one.cause() == cause);
    let has = |name| failed().any(|check| check.name == name);
    match cause {
        Cause::Machine => failed().next().map(|check| check.name),
        // Others' work is expected on a shared machine, so another round would fare no better.
        Cause::Generator if record.header.environment.shared_machine => None,
        Cause::Generator => {
            let stalled = has(CheckName::Timers) && !has(CheckName::Generator);
            stalled.then_some(CheckName::Timers)
        }
        _ => None,
    }
}

fn further(study: &Study, seed: u64, order: &[Trial], repeats: &[RepeatedRound]) -> Vec<Trial> {
    let count = |workload: &str, load: &str| {
        repeats.iter().filter(|one| one.place() == (workload, load)).count() as u32
    };
    plan::further(study, seed, order, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{RecordLine, RunExtended, RunHeader};
    use crate::study::{self, testing};

    /// Returns a complete run of two systems under two loads in five rounds. `spoilt` lists by trial the checks that
    /// failed.
    fn run(spoilt: &[(u32, &str)]) -> Record {
        let text = "title: t\nsystems: {a: {kind: canary}, b: {kind: canary}}\n\
                    workloads: {w: {mix: {put: 1}, keys: {count: 10}, loads: [x, y]}}\n\
                    loads:\n  x: {clients: 1, stop: {after: 1s}}\n  y: {clients: 2, stop: {after: 1s}}\n\
                    trials: 5\n";
        let study = study::parse("t", "t.yaml", text, &testing::kinds()).expect("it is a study");
        let header = RunHeader::of_study(study, 7);
        let order = header.order.clone();
        let mut record = Record {
            header,
            trials: Vec::new(),
            resumed: Vec::new(),
            extended: Vec::new(),
            end: None,
        };
        order.iter().for_each(|trial| add(&mut record, trial, spoilt));
        record
    }

    fn add(record: &mut Record, trial: &Trial, spoilt: &[(u32, &str)]) {
        let failed = spoilt.iter().filter(|(number, _)| *number == trial.number);
        let check = |(_, name): &(u32, &str)| serde_json::json!({"name": name, "verdict": {"verdict": "failed", "why": "so"}});
        let line = serde_json::json!({
            "line": "trial", "trial": trial, "started": "", "ready_after": 1.0, "targets": [],
            "stages": [], "usage": [], "audits": [], "outcome": {"ended": "completed"},
            "checks": failed.map(check).collect::<Vec<_>>(),
        });
        match RecordLine::parse(&line.to_string()) {
            Ok(RecordLine::Trial(trial)) => record.trials.push(trial),
            other => panic!("{other:?}"),
        }
    }

    /// Adds further rounds. The trials in `spoilt` are disturbed.
    fn extend(record: &mut Record, more: ExtraRounds, spoilt: &[(u32, &str)]) {
        let ExtraRounds { repeats, order } = more;
        order.iter().for_each(|trial| add(record, trial, spoilt));
        record.header.order.extend(order.iter().cloned());
        let (trials, before) = (5, 5);
        record.extended.push(RunExtended {
            extended: String::new(),
            trials,
            before,
            repeats,
            order,
        });
    }

    #[test]
    fn round_with_a_disturbed_trial_is_repeated_for_all_systems() {
        // Trials 0 and 1 are round 0 under x, 2 and 3 are round 0 under y, 4 and 5 are round 1 under x.
        let mut record = run(&[(1, "neighbours"), (5, "steal")]);
        let more = extra_rounds(&record).expect("rounds were spoilt");
        assert_eq!(
            texts(&more.repeats),
            ["2 extra rounds under w/x: the hypervisor's other guests disturbed round 2; neighbours disturbed round 1"]
                .map(str::to_owned)
        );
        let numbers: Vec<(u32, u32, &str)> =
            more.order.iter().map(|one| (one.number, one.round, &*one.load)).collect();
        assert_eq!(numbers, [(20, 5, "x"), (21, 5, "x"), (22, 6, "x"), (23, 6, "x")]);
        let mut systems = [&*more.order[0].system, &*more.order[1].system];
        systems.sort_unstable();
        assert_eq!(systems, ["a", "b"]);
        let longer = Study { trials: 7, ..record.header.study.clone() };
        let planned = plan::plan(&longer, 7);
        let same = |one: &&Trial| one.round == 5 && one.load == "x";
        let planned: Vec<(&str, u64)> =
            planned.iter().filter(same).map(|one| (&*one.system, one.seed)).collect();
        let extra = more.order[..2].iter().map(|one| (&*one.system, one.seed));
        assert_eq!(extra.collect::<Vec<_>>(), planned, "as if they had been planned");

        // One of the additional rounds is disturbed too. The third one is the last possible.
        extend(&mut record, more, &[(22, "neighbours")]);
        assert!(follows_plan(&record) && is_repeated(&record, &record.trials[1]));
        assert!(!is_repeated(&record, &record.trials[22]));
        let more = extra_rounds(&record).expect("one was spoilt");
        assert_eq!((more.repeats[0].round, more.order.len(), more.order[0].round), (6, 2, 7));
        extend(&mut record, more, &[(24, "neighbours")]);
        assert_eq!(extra_rounds(&record), None, "half as many, rounded up");
        assert!(follows_plan(&record));
        record.header.order[20].seed ^= 1;
        assert!(!follows_plan(&record), "another order");
    }

    #[test]
    fn rounds_that_a_gate_adds_follow_the_plan() {
        let mut record = run(&[]);
        let study = record.header.study.clone();
        let order = plan::further(&study, 7, &record.header.order, |_, _| 2);
        assert_eq!(order.len(), 8);
        let (extended, repeats) = (String::new(), Vec::new());
        record.header.study.trials = 7;
        record.header.order.extend(order.iter().cloned());
        record.extended.push(RunExtended { extended, trials: 7, before: 5, repeats, order });
        assert!(follows_plan(&record));
        record.header.order.swap(20, 21);
        assert!(!follows_plan(&record), "the builds are swapped");
        record.extended[0].before = u32::MAX;
        assert!(!follows_plan(&record), "more rounds than the run has");
    }

    #[test]
    fn only_the_machine_repeats_rounds() {
        for check in ["generator", "schedule", "errors", "stationary", "answers", "keys"] {
            assert_eq!(extra_rounds(&run(&[(1, check)])), None, "{check}");
        }
        assert_eq!(extra_rounds(&run(&[])), None);
        let wrong = run(&[(1, "neighbours"), (1, "answers")]);
        assert_eq!(extra_rounds(&wrong), None, "it would hide a wrong answer");
        let failed = run(&[(1, "neighbours"), (1, "errors")]);
        assert!(extra_rounds(&failed).is_some(), "whatever else was amiss");
        let mut incomplete = run(&[(1, "neighbours")]);
        incomplete.trials.pop();
        assert_eq!(extra_rounds(&incomplete), None, "first what is missing");
        let mut unclear = run(&[(1, "disk")]);
        assert!(extra_rounds(&unclear).is_some());
        unclear.trials[1].checks[0].cause = Some(Cause::Unclear);
        assert_eq!(extra_rounds(&unclear), None, "the nodes filled the disk");
    }

    #[test]
    fn stall_of_the_generator_repeats_a_round() {
        let mut stalled = run(&[(1, "schedule"), (1, "timers")]);
        let more = extra_rounds(&stalled).expect("it stood still");
        let expected = "1 extra round under w/x: stalls of the generator disturbed round 1";
        assert_eq!(texts(&more.repeats), [expected]);
        extend(&mut stalled, more, &[]);
        assert!(is_repeated(&stalled, &stalled.trials[1]));
        assert!(!is_repeated(&stalled, &stalled.trials[0]));
        let busy = run(&[(1, "generator"), (1, "timers")]);
        assert_eq!(extra_rounds(&busy), None, "the load is too much for it");
        let mut unclear = run(&[(1, "timers")]);
        unclear.trials[1].checks[0].cause = Some(Cause::Unclear);
        assert_eq!(extra_rounds(&unclear), None, "the nodes may have caused it");
        let mut shared = run(&[(1, "timers")]);
        shared.header.environment.shared_machine = true;
        assert_eq!(extra_rounds(&shared), None, "it would stand still again");
        let failed = run(&[(1, "timers"), (1, "errors")]);
        assert_eq!(extra_rounds(&failed), None, "the failure is the system's");
    }

    #[test]
    fn each_load_has_its_own_rounds() {
        let spoilt: Vec<(u32, &str)> = (0..20).map(|number| (number, "neighbours")).collect();
        let mut record = run(&spoilt);
        let more = extra_rounds(&record).expect("all were spoilt");
        let of = |load| more.repeats.iter().filter(|one| one.load == load).count();
        assert_eq!((of("x"), of("y"), more.order.len()), (3, 3, 12));
        extend(&mut record, more, &[]);
        assert_eq!(extra_rounds(&record), None);
        assert!(follows_plan(&record));
    }
}
