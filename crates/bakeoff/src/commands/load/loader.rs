//! Drives what `bakeoff load` was asked, one rate after the other, and records it where that is asked.
//!
//! Not here: what was asked (`ask`), the search for the highest rate (`find`), how it looks (`text`, `json`).

use std::sync::atomic::{AtomicBool, Ordering};

use bakeoff_core::condition::Figures;
use bakeoff_core::ranked::Percentile;
use bakeoff_core::schedule::RateProfile;
use bakeoff_core::study::Stop;
use bakeoff_core::units::rate_text;
use bakeoff_engine::{Live, Seconds};

use super::ask::Asked;
use super::recorded::Recorded;
use super::result::{Began, Gate, LoadResult, Part};
use super::settings::Course;
use super::shared::Driver;
use super::{settings_text, text};
use crate::failure::Failure;
use crate::messages::Messages;

/// Drives what was asked, one rate after the other.
pub(super) struct Loader<'a> {
    pub(super) asked: &'a Asked,
    pub(super) driver: &'a Driver,
    pub(super) messages: &'a mut Messages,
    pub(super) interrupted: &'a AtomicBool,
    /// The number of loads that were driven.
    pub(super) driven: u64,
    /// The run that is left, with `--out`.
    pub(super) recorded: Option<Recorded<'a>>,
    /// The reasons for which its trials are not valid.
    pub(super) not_valid: Vec<String>,
}

impl Loader<'_> {
    /// All of a load but a search. A failure after the first step comes with what was measured
    /// before it.
    pub(super) fn course(&mut self) -> Result<(LoadResult, Option<Failure>), Failure> {
        let settings = &self.asked.settings;
        let what = settings_text::requests_text(settings);
        let (mut steps, mut failure) = (Vec::new(), None);
        let whole = match &settings.course {
            Course::Steps(rates) => {
                for (number, &rate) in rates.iter().enumerate() {
                    let label = format!("[{}/{}] {}", number + 1, rates.len(), rate_text(rate));
                    match self.trial(Some(RateProfile::Constant { rate }), Some(rate), &label) {
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
                whole.rate = None;
                whole
            }
            Course::Ramp(ramp) => {
                let over = match self.asked.drive(None, 0).stop {
                    Stop::After(time) => time,
                    Stop::Operations(_) => unreachable!("a ramp has a time"),
                };
                let (from, to) = (ramp.from, ramp.to);
                let pace = RateProfile::Ramp { from, to, over };
                self.trial(Some(pace), Some(f64::midpoint(from, to)), &what)?
            }
            Course::Rate(rate) => {
                self.trial(Some(RateProfile::Constant { rate: *rate }), Some(*rate), &what)?
            }
            Course::Closed | Course::FindMax { .. } => self.trial(None, None, &what)?,
        };
        let figures = Figures::from_measurement(&whole.measurement);
        let gates = self.asked.fail_if.iter().map(|one| Gate::check(one, &figures)).collect();
        // Of other machines' memory nothing is known here.
        let is_here = matches!(self.driver, Driver::Here(_));
        let peak_rss_bytes = is_here.then(peak_rss_bytes).flatten();
        let result = LoadResult { settings: settings.clone(), whole, steps, gates, peak_rss_bytes };
        Ok((result, failure))
    }

    /// One load at one pace, which is a trial where it is recorded.
    fn trial(
        &mut self,
        pace: Option<RateProfile>,
        rate: Option<f64>,
        label: &str,
    ) -> Result<Part, Failure> {
        self.recorded.iter_mut().try_for_each(Recorded::trial_begins)?;
        let part = self.part(pace, rate, label, 1)?;
        if let Some(recorded) = &mut self.recorded {
            let interrupted = part.measurement.interrupted;
            let stages = std::iter::once((&part, None));
            self.not_valid.extend(recorded.trial_ends(stages, None, interrupted)?);
        }
        Ok(part)
    }

    /// Ends the run that is left, if one is, and says where it is, and why its trials are not valid as far as
    /// that was not `told` yet. Returns whether they are.
    pub(super) fn conclude(&mut self, json: bool, told: &[String]) -> Result<bool, Failure> {
        let Some(recorded) = self.recorded.take() else { return Ok(true) };
        if let Some((page, run)) = recorded.end(self.interrupted.load(Ordering::Relaxed))?
            && !json
        {
            let new = self.not_told(told);
            let mut lines: Vec<String> =
                new.map(|why| format!("not valid as a trial: {why}")).collect();
            lines.push(format!("Report: {}\nRun: {}", page.display(), run.display()));
            self.messages.output(&format!("\n{}", lines.join("\n")));
        }
        Ok(self.not_valid.is_empty())
    }

    /// Returns the reasons for which its trials are not valid, without those that were told.
    pub(super) fn not_told(&self, told: &[String]) -> impl Iterator<Item = &String> {
        // The same reason is told after its step by the one, after the check's name by the other.
        self.not_valid.iter().filter(move |why| {
            told.iter().all(|told| !why.ends_with(told.rsplit(": ").next().unwrap_or(told)))
        })
    }

    /// One load at one pace, for some times what was asked.
    pub(super) fn part(
        &mut self,
        pace: Option<RateProfile>,
        rate: Option<f64>,
        label: &str,
        times: u32,
    ) -> Result<Part, Failure> {
        let mut drive = self.asked.drive(pace, self.driven);
        self.driven += 1;
        if let Stop::After(time) = &mut drive.stop {
            *time *= times;
        }
        let recording = self.recorded.as_ref().and_then(|recorded| recorded.part_begins());
        if let Some((moments, _)) = &recording {
            drive.seconds = Seconds::Kept;
            drive.moments = Some(moments.clone());
        }
        self.messages.load_begins(label);
        let Self { asked, driver, messages, interrupted, .. } = self;
        let mut seconds = Vec::new();
        let driven = driver.drive(asked, &drive, interrupted, &mut |live| {
            messages.load_goes_on(live);
            seconds.push(live.clone());
        });
        self.messages.load_ended();
        let driven = driven?;
        let began = match (&self.recorded, &recording) {
            (Some(recorded), Some((moments, from))) => recorded.began(moments, *from),
            _ => Began::default(),
        };
        // The load's end commonly lies in a second in which nothing is measured any more. An empty second within
        // the window is none of these: nothing succeeded in it.
        let whole = driven.measurement.window.as_secs_f64().ceil();
        let is_behind = |live: &Live| {
            let is_empty = live.verified + live.errors == 0 && live.p50 == Percentile::Nothing;
            is_empty && f64::from(live.second) >= whole
        };
        while seconds.pop_if(|last| is_behind(last)).is_some() {}
        Ok(Part { rate, seconds, began, ..driven })
    }
}

/// The most memory that this process has had, as the kernel tells it.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
