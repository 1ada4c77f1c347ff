//! Estimates the time that a run has left, and sums up its rates so far.
//!
//! A trial is expected to take as long as earlier trials of its system, workload and load. Before the first of them,
//! the estimate is the time that the study asks for, times the excess of the other trials. The forecast before the
//! start is the same estimate.
//!
//! Not here: printing (the binary's `messages`), conclusions (`bakeoff_report`).

use std::time::Duration;

use bakeoff_core::plan::order::PAUSE_MAX;
use bakeoff_core::plan::{self, Trial};
use bakeoff_core::record::{TrialOutcome, TrialRecord};
use bakeoff_core::search::CONFIRM_TIMES;
use bakeoff_core::stats;
use bakeoff_core::study::{Clusters, Load, Stop, Study};
use bakeoff_core::units::{figure_text, trials_text};
use bakeoff_systems as systems;

/// Assumed time of each phase around a load: start, sync count, audit, kill, restart, stop.
const PHASE: Duration = Duration::from_secs(2);
/// Assumed time of a phase of bakeoff's own server or of a study's command, which start at once.
const QUICK_PHASE: Duration = Duration::from_millis(80);
/// Assumed time of the machine baseline before the first trial.
const BASELINE: Duration = Duration::from_secs(2);
/// Assumed time of the disk measurement between two rounds.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(500);
/// Usual number of rates that a search tries before the last one.
const TRIES: u32 = 15;
/// Assumed rate of the fill, in keys per second.
const FILLED_PER_SECOND: u64 = 5_000;
/// Assumed time of a closed load that ends after a number of operations.
const COUNTED_LOAD: Duration = Duration::from_secs(10);

/// Durations and rates of the trials that ran so far.
pub struct Progress<'a> {
    study: &'a Study,
    /// Completed trials with their durations.
    took: Vec<(Trial, Duration)>,
    /// Time spent between rounds, one entry each.
    between: Vec<Duration>,
    /// Systems whose other trials are skipped.
    given_up: Vec<String>,
    /// Rates of valid trials, including those before a resume.
    rates: Vec<(Trial, f64)>,
}

impl<'a> Progress<'a> {
    /// Starts with the trials that a run has already.
    pub fn new(study: &'a Study, before: &[TrialRecord]) -> Self {
        let (between, given_up) = (Vec::new(), Vec::new());
        let mut progress = Self { study, took: Vec::new(), between, given_up, rates: Vec::new() };
        before.iter().for_each(|record| progress.note_rate(record));
        progress
    }

    /// Adds a finished trial. The duration of a failed trial is ignored.
    pub fn ended(&mut self, record: &TrialRecord, took: Duration) {
        if record.outcome == TrialOutcome::Completed {
            self.took.push((record.trial.clone(), took));
        }
        self.note_rate(record);
    }

    /// Adds the time that preparing a further round took.
    pub fn round_begins(&mut self, took: Duration) {
        self.between.push(took);
    }

    /// Expects no further trial of this system.
    pub fn gives_up(&mut self, system: &str) {
        self.given_up.push(system.to_owned());
    }

    fn note_rate(&mut self, record: &TrialRecord) {
        let rate = record.measurement().and_then(|measurement| measurement.throughput());
        if let Some(rate) = rate.filter(|_| record.invalid_because().is_empty()) {
            self.rates.push((record.trial.clone(), rate));
        }
    }

    /// Estimates the duration of a run of these trials, with the baseline.
    pub fn whole(&self, trials: &[Trial]) -> Duration {
        let baseline = if self.study.starts_any() { BASELINE } else { Duration::ZERO };
        baseline + self.left(trials)
    }

    /// Estimates the duration of these trials.
    pub fn left(&self, trials: &[Trial]) -> Duration {
        let rounds = trials.windows(2).filter(|pair| pair[0].round < pair[1].round).count() as u32;
        let expected: Duration = trials.iter().map(|trial| self.expected(trial)).sum();
        expected + self.between_rounds() * rounds
    }

    fn between_rounds(&self) -> Duration {
        match u32::try_from(self.between.len()) {
            Ok(count @ 1..) => self.between.iter().sum::<Duration>() / count,
            _ if self.study.starts_any() => BETWEEN_ROUNDS,
            _ => Duration::ZERO,
        }
    }

    fn expected(&self, trial: &Trial) -> Duration {
        if self.given_up.contains(&trial.system) {
            return Duration::ZERO;
        }
        let here = |other: &Trial| other.workload == trial.workload && other.load == trial.load;
        let same = |other: &Trial| here(other) && other.system == trial.system;
        let mean = |is: &dyn Fn(&Trial) -> bool| {
            let of: Vec<Duration> =
                self.took.iter().filter(|(other, _)| is(other)).map(|(_, took)| *took).collect();
            let count = u32::try_from(of.len()).ok().filter(|&count| count > 0)?;
            Some(of.iter().sum::<Duration>() / count)
        };
        mean(&same).or_else(|| mean(&here)).unwrap_or_else(|| {
            let nominal: Duration = self.took.iter().map(|(other, _)| self.nominal(other)).sum();
            let took: Duration = self.took.iter().map(|(_, took)| *took).sum();
            let longer = if nominal.is_zero() { 1.0 } else { took.div_duration_f64(nominal) };
            self.nominal(trial).mul_f64(longer)
        })
    }

    /// Estimates the duration of a trial from its study alone.
    fn nominal(&self, trial: &Trial) -> Duration {
        let load = self.study.loads.iter().find(|load| load.name == trial.load);
        let workload = self.study.workloads.iter().find(|one| one.name == trial.workload);
        let keys = workload.filter(|one| one.fill).map_or(0, |one| one.keys.count);
        let filled = Duration::from_secs(keys / FILLED_PER_SECOND);
        let loaded = load.map_or(COUNTED_LOAD, |load| loaded(load, &trial.system));
        let injections = plan::injections(self.study, trial).len() as u32;
        // After each injection, nodes recover and keys are read back.
        let injected = (loaded + PHASE) * injections;
        PAUSE_MAX / 2 + self.around_a_load(trial) + filled + loaded + injected
    }

    /// Estimates the time of a trial without fill and load.
    fn around_a_load(&self, trial: &Trial) -> Duration {
        let Some(system) = self.study.systems.iter().find(|one| one.name == trial.system) else {
            return Duration::ZERO;
        };
        let workload = self.study.workloads.iter().find(|one| one.name == trial.workload);
        let started = system.is_started();
        let start_and_stop = match self.study.clusters {
            Clusters::Fresh if started => 2,
            _ => 0,
        };
        let audits = match workload.is_some_and(|workload| workload.writes()) {
            // Sync count, audit, kill, restart, audit.
            true if started => 5,
            true => 1,
            false => 0,
        };
        let kind = systems::by_kind(&system.kind);
        let is_quick = kind.is_some_and(|kind| kind.declares().origin.recipe().is_none());
        let phase = if is_quick { QUICK_PHASE } else { PHASE };
        phase * (start_and_stop * (1 + system.parts.len() as u32) + audits)
    }

    /// Returns the median rates so far under the workload and load of `trial`. `None` before the first valid trial.
    pub fn found(&self, trial: &Trial) -> Option<String> {
        let each = self.study.systems.iter().filter_map(|system| {
            let of_system = |(other, rate): &(Trial, f64)| {
                let same = other.system == system.name
                    && other.workload == trial.workload
                    && other.load == trial.load;
                same.then_some(stats::Figure::Value(*rate))
            };
            let summary = stats::summary(self.rates.iter().filter_map(of_system));
            let median = figure_text(summary.median.value()?);
            Some(format!("{} {median}/s ({})", system.name, trials_text(summary.trials)))
        });
        let each: Vec<String> = each.collect();
        (!each.is_empty())
            .then(|| format!("{}/{} so far: {}", trial.workload, trial.load, each.join(", ")))
    }
}

/// Returns the duration of a load, with its warm-ups.
fn loaded(load: &Load, system: &str) -> Duration {
    let stages = load.clients_on(system).len() as u32;
    let measured = match load.stop {
        Stop::After(time) => time,
        Stop::Operations(count) => match load.arrivals.rate() {
            Some(rate) => Duration::try_from_secs_f64(count as f64 / rate).unwrap_or(COUNTED_LOAD),
            None => COUNTED_LOAD,
        },
    };
    if load.find.is_some() {
        return (load.warmup + measured) * TRIES + load.warmup + measured * CONFIRM_TIMES;
    }
    load.warmup * stages + measured
}

#[cfg(test)]
mod tests {
    use bakeoff_core::measurement::{Measurement, OperationFigures};
    use bakeoff_core::plan;
    use bakeoff_core::record::{StageRecord, TrialOutcome};

    use bakeoff_core::study::{parse_within, shipped};
    use bakeoff_systems::rows::ThisMachine;

    use super::*;
    use crate::trial;

    /// Returns a study that ships.
    fn load_study(name: &str) -> Option<Study> {
        let (_, text) = shipped::shipped().iter().find(|(shipped, _)| *shipped == name)?;
        parse_within(name, name, text, &systems::kinds(), &ThisMachine).ok()
    }

    fn record(trial: &Trial, rate: u64) -> TrialRecord {
        let figures = OperationFigures { verified_in_window: rate, ..OperationFigures::default() };
        let measurement = Measurement {
            window: Duration::from_secs(1),
            operations: [("put".to_owned(), figures)].into(),
            ..Measurement::default()
        };
        TrialRecord {
            stages: vec![StageRecord {
                clients: 1,
                began: 0.0,
                measured_from: None,
                measurement,
                tried: None,
            }],
            ..trial::begun(trial, String::new())
        }
    }

    #[test]
    fn time_left_is_learned_from_earlier_trials() {
        let mut study = load_study("demo").unwrap();
        study.trials = 2;
        let load = &mut study.loads[0];
        (load.warmup, load.stop) = (Duration::ZERO, Stop::After(Duration::from_secs(2)));
        let order = plan::plan(&study, 1);
        let mut progress = Progress::new(&study, &[]);
        let nominal = PAUSE_MAX / 2 + QUICK_PHASE * 7 + Duration::from_secs(2);
        assert_eq!(progress.left(&order), nominal * 4 + BETWEEN_ROUNDS, "what the study says");
        assert_eq!(progress.whole(&order), progress.left(&order) + BASELINE, "the same estimate");
        let failed = TrialOutcome::Failed("it did not start".to_owned());
        let failed = TrialRecord { outcome: failed, ..record(&order[0], 0) };
        progress.ended(&failed, Duration::from_millis(10));
        assert_eq!(progress.left(&order), nominal * 4 + BETWEEN_ROUNDS, "it says nothing");
        let second = Duration::from_secs(1);
        progress.ended(&record(&order[0], 10), second * 3);
        assert_eq!(progress.left(&order[1..]), second * 9 + BETWEEN_ROUNDS, "as the first");
        progress.ended(&record(&order[1], 10), second * 5);
        progress.round_begins(second * 2);
        assert_eq!(progress.left(&order[2..]), second * 8, "one of each");
        assert_eq!(progress.left(&order), second * 18, "the disk is measured once more");
        progress.gives_up(&order[1].system);
        assert_eq!(progress.left(&order[2..]), second * 3, "its trials are skipped");
    }

    #[test]
    fn audits_add_to_the_expected_time() {
        let study = load_study("quickstart").unwrap();
        let trial = plan::plan(&study, 1).remove(0);
        let progress = Progress::new(&study, &[]);
        assert_eq!(progress.around_a_load(&trial), PHASE * 7, "start, stop, two audits and a kill");
    }

    #[test]
    fn observed_slowdown_applies_to_other_loads() {
        let mut study = load_study("demo").unwrap();
        let load = &mut study.loads[0];
        (load.warmup, load.stop) = (Duration::ZERO, Stop::After(Duration::from_secs(2)));
        let mut longer = study.loads[0].clone();
        (longer.name, longer.stop) = ("longer".into(), Stop::After(Duration::from_secs(16)));
        study.loads.push(longer);
        let order = plan::plan(&study, 1);
        let mut progress = Progress::new(&study, &[]);
        let around = PAUSE_MAX / 2 + QUICK_PHASE * 7;
        progress.ended(&record(&order[0], 10), (around + Duration::from_secs(2)) * 2);
        let other = Trial { load: "longer".into(), ..order[0].clone() };
        let twice = (around + Duration::from_secs(16)) * 2;
        assert_eq!(progress.left(&[other]).as_millis(), twice.as_millis(), "as it took twice");
    }

    #[test]
    fn findings_are_grouped_by_system() {
        let study = load_study("demo").unwrap();
        let order = plan::plan(&study, 1);
        let of = |system: &str| order.iter().find(|trial| trial.system == system).unwrap();
        let mut progress = Progress::new(&study, &[record(of("synced"), 100)]);
        assert_eq!(
            progress.found(&order[0]).as_deref(),
            Some("write/steady so far: synced 100/s (1 trial)")
        );
        let invalid =
            TrialRecord { outcome: TrialOutcome::Failed("x".into()), ..record(of("synced"), 9000) };
        progress.ended(&invalid, Duration::ZERO);
        progress.ended(&record(of("unsynced"), 200), Duration::ZERO);
        progress.ended(&record(of("unsynced"), 300), Duration::ZERO);
        assert_eq!(
            progress.found(&order[0]).as_deref(),
            Some("write/steady so far: synced 100/s (1 trial), unsynced 250/s (2 trials)")
        );
    }
}
