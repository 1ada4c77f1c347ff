//! `bakeoff load`: requests to a URL, closed or open, judged, timed and held against conditions.
//!
//! What was asked is read whole before anything is connected to (`ask`), then each rate is driven in
//! turn, and the result is a value of which the terminal's text and the JSON are functions
//! (`result`, `text`, `json`).
//!
//! Not here: making requests and judging responses (`bakeoff_engine::works::http`), the search for the highest rate
//! (`find`).

mod args;
mod ask;
mod curve;
mod find;
mod json;
mod knee;
mod result;
mod targets;
#[cfg(test)]
mod testing;
mod text;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use bakeoff_core::condition::Figures;
use bakeoff_core::ranked::Place;
use bakeoff_core::schedule::Pace;
use bakeoff_core::study::Stop;
use bakeoff_core::units::rate_text;
use bakeoff_engine::Live;
use bakeoff_engine::works::http::{Outcome, Ready};

pub(crate) use args::LoadArgs;
use ask::{Asked, Course};
use result::{Gate, LoadResult, Part};

use crate::failure::{Failure, NOT_VALID};
use crate::messages::{self, Messages};

/// Loads a URL and prints what came of it.
pub(crate) fn run(
    args: &LoadArgs,
    messages: &mut Messages,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let asked = ask::read(args)?;
    bakeoff_engine::open_files::raise_for(asked.settings.clients)?;
    let ready = asked.plan.clone().ready(asked.settings.keep_alive)?;
    if !messages.is_live() {
        messages.step(&text::asked_text(&asked.settings));
    }
    let mut loader = Loader { asked: &asked, ready, messages, interrupted, driven: 0 };
    if let Course::FindMax { first, objective } = &asked.course {
        return find::run(&mut loader, *first, objective, args.json);
    }
    let (result, failure) = loader.course()?;
    messages.finish();
    messages.output(&if args.json {
        format!("{:#}", json::json(&result))
    } else {
        text::text(&result, messages::style())
    });
    if let Some(failure) = failure {
        return Err(failure); // after what was measured until then
    }
    if result.whole.measurement.interrupted || interrupted.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(Failure::Interrupted.exit_code()));
    }
    let passed = result.reasons().is_empty() && !result.gates.iter().any(Gate::failed);
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::from(NOT_VALID) })
}

/// Drives what was asked, one rate after the other.
struct Loader<'a> {
    asked: &'a Asked,
    ready: Ready,
    messages: &'a mut Messages,
    interrupted: &'a AtomicBool,
    /// How many loads were driven.
    driven: u64,
}

impl Loader<'_> {
    /// All of a load but a search. A failure after the first step comes with what was measured
    /// before it.
    fn course(&mut self) -> Result<(LoadResult, Option<Failure>), Failure> {
        let settings = &self.asked.settings;
        let what = text::requests_text(settings);
        let (mut steps, mut failure) = (Vec::new(), None);
        let whole = match &self.asked.course {
            Course::Steps(rates) => {
                for (number, &rate) in rates.iter().enumerate() {
                    let label = format!("[{}/{}] {}", number + 1, rates.len(), rate_text(rate));
                    match self.part(Some(Pace::Constant { rate }), Some(rate), &label, 1) {
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
                let pace = Pace::Ramp { from, to, over };
                self.part(Some(pace), Some(f64::midpoint(from, to)), &what, 1)?
            }
            Course::Rate(rate) => {
                self.part(Some(Pace::Constant { rate: *rate }), Some(*rate), &what, 1)?
            }
            Course::Closed | Course::FindMax { .. } => self.part(None, None, &what, 1)?,
        };
        let figures = Figures::of(&whole.measurement);
        let gates = self.asked.fail_if.iter().map(|one| Gate::check(one, &figures)).collect();
        let peak_rss_bytes = peak_rss_bytes();
        let result = LoadResult { settings: settings.clone(), whole, steps, gates, peak_rss_bytes };
        Ok((result, failure))
    }

    /// One load at one pace, for some times what was asked.
    fn part(
        &mut self,
        pace: Option<Pace>,
        rate: Option<f64>,
        label: &str,
        times: u32,
    ) -> Result<Part, Failure> {
        let mut drive = self.asked.drive(pace, self.driven);
        self.driven += 1;
        if let Stop::After(time) = &mut drive.stop {
            *time *= times;
        }
        self.messages.load_begins(label);
        let Self { ready, messages, interrupted, .. } = self;
        let mut seconds = Vec::new();
        let outcome = ready.drive(&drive, interrupted, &mut |live| {
            messages.load_goes_on(live);
            seconds.push(live.clone());
        });
        self.messages.load_ended();
        let Outcome { measurement, answers } = outcome?;
        // The load's end commonly lies in a second in which nothing is measured any more.
        let is_empty = |live: &Live| live.verified + live.errors == 0 && live.p50 == Place::Nothing;
        while seconds.pop_if(|last| is_empty(last)).is_some() {}
        Ok(Part {
            rate,
            measurement,
            seconds,
            statuses: answers.statuses,
            bytes_received: answers.bytes_received,
            body_bytes: answers.body_bytes,
        })
    }
}

/// The most memory that this process has had, as the kernel tells it.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
