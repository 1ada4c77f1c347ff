//! Runs the trials of a load, one for each rate, and merges their figures.
//!
//! Trials use the same engine, samples and checks as those of a study.
//!
//! Not here: flags (`load_request`), running one trial (`bakeoff_trial::trial`), rendering (`text`, `json`, `curve`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use bakeoff_core::condition::Figures;
use bakeoff_core::plan::Trial;
use bakeoff_core::ranked_latencies::Percentile;
use bakeoff_core::record::TrialRecord;
use bakeoff_core::search;
use bakeoff_core::study::{ERRORS_MAX, Study};
use bakeoff_core::units::rate_text;
use bakeoff_engine::{LoadProgress, Seconds};
use bakeoff_trial::cluster::contenders::PreparedSystem;
use bakeoff_trial::event::{Event, Reporter, TrialStarted};
use bakeoff_trial::run::progress::Progress;
use bakeoff_trial::this_machine;
use bakeoff_trial::trial::{self, TrialContext};

use super::generator_parts::GeneratorShown;
use super::load_request::LoadRequest;
use super::load_site::LoadSite;
use super::result::{Gate, LoadResult, Part};
use super::run_recorder::RunRecorder;
use super::settings::Course;
use super::{settings_text, text};
use crate::failure::Failure;
use crate::messages::Messages;
use crate::watchers::Watchers;
use bakeoff_fleet::machines::requests::Requests;

/// A load's study, and everything that its trials need.
pub(super) struct Loader<'a> {
    pub(super) request: &'a LoadRequest,
    pub(super) study: &'a Study,
    pub(super) contender: &'a PreparedSystem<'a>,
    pub(super) order: &'a [Trial],
    pub(super) reached: &'a LoadSite,
    pub(super) messages: &'a mut Messages,
    pub(super) watchers: &'a mut Watchers,
    pub(super) interrupted: &'a AtomicBool,
    /// Run on disk, with `--out`.
    pub(super) recorded: Option<RunRecorder>,
}

pub(super) struct LoadOutcome {
    pub(super) record: TrialRecord,
    /// Progress reports of each stage, one for each second.
    pub(super) seconds: Vec<Vec<LoadProgress>>,
    /// Reason for an early end.
    pub(super) failure: Option<Failure>,
}

impl Loader<'_> {
    /// Runs a trial and, with `--out`, writes its record. Progress shows it as `label`.
    pub(super) fn trial(&mut self, place: usize, label: &str) -> Result<LoadOutcome, Failure> {
        let LoadSite { fleet, ready } = self.reached;
        let mut requests = Requests { ready: ready.clone(), ..self.request.requests() };
        if self.recorded.is_some() {
            requests.seconds = Seconds::Kept;
        }
        let temporary = std::env::temp_dir();
        let mut context = TrialContext {
            study: self.study,
            threads: self.request.settings.drive.threads,
            run_dir: self.recorded.as_ref().map_or(&temporary, |recorded| &recorded.path),
            ports: fleet.ports(None),
            locating: fleet.locating(),
            interrupted: self.interrupted,
            shared_machine: this_machine::is_machine_shared(),
            fleet,
            kept: BTreeMap::new(),
        };
        let progress = Progress::new(self.study, &[]);
        let trial = &self.order[place];
        let started = TrialStarted {
            trial,
            trials: self.order.len(),
            begins_round: false,
            left: progress.left(&self.order[place..]),
            found: None,
        };
        self.messages.load_trial_begins(self.study, &started);
        self.watchers.report(&Event::TrialStarted(started));
        let (messages, watchers) = (&mut *self.messages, &mut *self.watchers);
        let mut listener = Listener { messages, watchers, label, seconds: Vec::new() };
        let (record, failure) =
            trial::run_requests(&mut context, self.contender, trial, &requests, &mut listener);
        let seconds = listener.seconds;
        let left = progress.left(&self.order[place + 1..]);
        self.watchers.report(&Event::TrialFinished { record: &record, left });
        self.messages.load_ended(&record);
        if let Some(recorded) = &mut self.recorded {
            recorded.push(&record)?;
        }
        let failure = failure.or_else(|| fleet.lost().map(|lost| lost.clone().into()));
        Ok(LoadOutcome { record, seconds, failure })
    }

    /// Runs all trials of a load without a search. A failure after the first step is returned with the result of the
    /// steps before it.
    pub(super) fn course(&mut self) -> Result<(LoadResult, Option<Failure>), Failure> {
        let settings = &self.request.settings;
        let what = settings_text::requests_text(settings);
        let (mut steps, mut failure) = (Vec::new(), None);
        let whole = match &settings.course {
            Course::Steps(rates) => {
                for (number, &rate) in rates.iter().enumerate() {
                    let label = format!("[{}/{}] {}", number + 1, rates.len(), rate_text(rate));
                    match self.part(number, Some(rate), &label) {
                        Ok(part) => {
                            self.messages.step(&format!("{label}: {}", text::in_short(&part)));
                            steps.push(part);
                        }
                        Err(error) if steps.is_empty() => return Err(error),
                        Err(error) => failure = Some(error),
                    }
                    if failure.is_some() || self.interrupted.load(Ordering::Relaxed) {
                        break;
                    }
                }
                let mut whole = steps[0].clone();
                steps[1..].iter().for_each(|step| whole.append(step));
                whole
            }
            Course::Ramp(ramp) => self.part(0, Some(f64::midpoint(ramp.from, ramp.to)), &what)?,
            Course::Rate(rate) => self.part(0, Some(*rate), &what)?,
            Course::Closed | Course::FindMax { .. } => self.part(0, None, &what)?,
        };
        let figures = Figures::from_measurement(&whole.measurement);
        let gates = self.request.fail_if.iter().map(|one| Gate::check(one, &figures)).collect();
        // With `--on`, this process does not generate the load.
        let peak_rss_bytes = self.reached.fleet.placed().is_none().then(peak_rss_bytes).flatten();
        let result = LoadResult { settings: settings.clone(), whole, steps, gates, peak_rss_bytes };
        Ok((result, failure))
    }

    /// Runs a trial with one stage, and returns its figures.
    fn part(&mut self, place: usize, rate: Option<f64>, label: &str) -> Result<Part, Failure> {
        let LoadOutcome { mut record, seconds, failure } = self.trial(place, label)?;
        let reasons = record.invalid_because();
        let part = parts(&mut record, seconds).into_iter().next();
        match (part, failure) {
            (Some(part), None) => Ok(Part { rate, reasons, ..part }),
            (_, failure) => Err(failure.unwrap_or(Failure::INTERRUPTED)),
        }
    }

    /// Completes the run on disk, if there is one. Prints its location, unless `json`.
    pub(super) fn conclude(&mut self, json: bool) -> Result<(), Failure> {
        let Some(recorded) = self.recorded.take() else { return Ok(()) };
        if let Some((page, run)) = recorded.end(self.interrupted.load(Ordering::Relaxed))?
            && !json
        {
            let lines = format!("\nReport: {}\nRun: {}", page.display(), run.display());
            self.messages.output(&lines);
        }
        Ok(())
    }
}

/// Moves the figures of each stage out of a record.
pub(super) fn parts(record: &mut TrialRecord, seconds: Vec<Vec<LoadProgress>>) -> Vec<Part> {
    let mut seconds = seconds.into_iter();
    let stages = std::mem::take(&mut record.stages).into_iter().enumerate();
    let parts = stages.map(|(place, stage)| {
        let generators = record.machines.iter().filter_map(|machine| {
            let (machine, part) = (machine.name.clone(), machine.generated.get(place)?.clone());
            Some(GeneratorShown { machine, part })
        });
        let window = stage.measurement.window.as_secs_f64();
        Part {
            rate: stage.tried.as_ref().map(|tried| tried.rate),
            reasons: search::invalid_because(&stage.measurement, ERRORS_MAX),
            seconds: measured(seconds.next().unwrap_or_default(), window),
            generators: generators.collect(),
            measurement: stage.measurement,
        }
    });
    parts.collect()
}

/// Drops empty seconds after the measured window of `window` seconds. Empty seconds within the window stay, because
/// they are stalls.
fn measured(mut seconds: Vec<LoadProgress>, window: f64) -> Vec<LoadProgress> {
    let is_behind = |live: &mut LoadProgress| {
        let is_empty = live.verified + live.errors == 0 && live.p50 == Percentile::Nothing;
        is_empty && f64::from(live.second) >= window.ceil()
    };
    while seconds.pop_if(is_behind).is_some() {}
    seconds
}

/// Shows a trial's progress and collects its seconds.
struct Listener<'a> {
    messages: &'a mut Messages,
    watchers: &'a mut Watchers,
    label: &'a str,
    seconds: Vec<Vec<LoadProgress>>,
}

impl Reporter for Listener<'_> {
    fn report(&mut self, event: &Event<'_>) {
        self.watchers.report(event);
        match event {
            Event::LoadStarted { .. } => {
                self.messages.load_begins(self.label);
                self.seconds.push(Vec::new());
            }
            Event::Observed { live, .. } => {
                self.messages.load_goes_on(live);
                self.seconds.last_mut().iter_mut().for_each(|stage| stage.push((*live).clone()));
            }
            Event::RateTried { .. } => self.messages.report(event),
            // `load` reports failures when it ends, and its trial has no phases to show.
            _ => {}
        }
    }
}

/// Returns this process's peak resident memory, from `/proc/self/status`.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
