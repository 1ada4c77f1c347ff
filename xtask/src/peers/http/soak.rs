//! Runs `cargo xtask peers http --soak`: `bakeoff load` at full speed for ten minutes, checking that its memory stays
//! flat.
//!
//! Samples memory a hundred times a second, and keeps the maximum of each minute. Memory may grow in the first minute,
//! while buffers and histograms reach their size. No later maximum may exceed the second minute's by more than a bound
//! below one leaked byte per request.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::super::Comparison;
use super::super::measure::{self, ResourceUse};
use super::super::summary::{mib, table};
use super::document::machine;
use super::tools::{self, Tool, ToolFigures};
use super::{Case, Stand, honest};
use crate::Failure;

const GROWTH_MIB_MAX: f64 = 1.0;
const CONNECTIONS: u32 = 64;

pub(super) fn run(stand: &Stand, length: Duration, dry: bool) -> Result<(), Failure> {
    let tool = if stand.programs[&Tool::Load].is_ok() { Tool::Load } else { Tool::OurWrk };
    let program = stand.programs[&tool].as_ref().map_err(Clone::clone)?;
    let nginx = stand.start(CONNECTIONS)?;
    let job = stand.job(Case::Plain64, length.as_secs() as u32, &nginx);
    let dir = stand.scratch.path();
    let command = stand.become_(tools::command(tool, program, &job, dir)?);
    let began = Instant::now();
    let mut minutes: Vec<u64> = Vec::new();
    let mut look = |pid: u32| {
        let minute = (began.elapsed().as_secs() / 60) as usize;
        let rss = measure::memory(pid, "VmRSS:").unwrap_or(0);
        // The end may be slightly past the last minute.
        if minute as u64 * 60 < length.as_secs() {
            if minutes.len() <= minute {
                if let Some(last) = minutes.last() {
                    println!("minute {minute}: at most {:.1} MiB", mib(*last));
                }
                minutes.resize(minute + 1, 0);
            }
            minutes[minute] = minutes[minute].max(rss);
        }
    };
    let before = nginx.requests()?;
    let (used, output) =
        stand.place(tool).run_watched(command, &dir.join("soak.log"), &mut look)?;
    let reported = tools::read(tool, program, &output, dir)?;
    honest(tool, &reported, nginx.requests()? - before - 1, CONNECTIONS)?;

    let measured = SoakRun {
        machine: machine(stand)?,
        tool: tool.name().to_owned(),
        seconds: length.as_secs(),
        used,
        reported,
        minutes: minutes.into_iter().map(mib).collect(),
    };
    let growth = growth(&measured.minutes).ok_or("the run was shorter than two minutes")?;
    println!("\n{}", measured.section());
    if !dry {
        measured.publish()?;
    }
    let kept = growth <= GROWTH_MIB_MAX;
    if kept { Ok(()) } else { Err(format!("memory grew by {growth:.1} MiB")) }
}

/// A run at full speed.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) struct SoakRun {
    machine: String,
    tool: String,
    seconds: u64,
    used: ResourceUse,
    reported: ToolFigures,
    /// Most memory of each minute, in MiB.
    minutes: Vec<f64>,
}

impl Comparison for SoakRun {
    const NAME: &'static str = "http-soak";

    fn section(&self) -> String {
        let Self { machine, tool, seconds, used, reported, minutes } = self;
        let growth = growth(minutes).unwrap_or_default();
        let rows: Vec<Vec<String>> = (1..)
            .zip(minutes)
            .map(|(minute, most): (u32, _)| vec![minute.to_string(), format!("{most:.1}")])
            .collect();
        format!(
            "{machine}\n\n{tool} for {} minutes at full speed, {CONNECTIONS} connections: {} requests, {:.0} per second, \
             {:.2} µs of CPU each.\n\n{}\n\nGrowth after the second minute: **{growth:.1} MiB**. The bound of \
             {GROWTH_MIB_MAX} MiB is {}.",
            seconds / 60,
            reported.requests,
            reported.per_second,
            used.cpu().as_secs_f64() * 1e6 / reported.requests as f64,
            table(&["minute", "most memory, MiB"], &rows),
            if growth <= GROWTH_MIB_MAX { "kept" } else { "**missed**" },
        )
    }
}

/// Returns the growth from the second minute's maximum to the largest later one.
fn growth(minutes: &[f64]) -> Option<f64> {
    let second = minutes.get(1)?;
    let most = minutes[1..].iter().copied().fold(*second, f64::max);
    Some(most - second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_counted_from_the_second_minute() {
        assert_eq!(growth(&[5.0, 20.0, 20.0, 19.0]), Some(0.0));
        assert_eq!(growth(&[5.0, 20.0, 21.0, 24.5]), Some(4.5));
        assert_eq!(growth(&[5.0]), None);
    }
}
