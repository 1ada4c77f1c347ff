//! Runs `cargo xtask calibrate`, which measures two shares with real trials of the canary. One is how often `bakeoff
//! run` declares a difference between a server and itself. The other is how often it detects a server that is 10 %
//! slower.
//!
//! A trial takes seconds, and measuring a share of 5 % takes hundreds of comparisons. So it runs some rounds of real
//! trials with two equal systems and a slower one. Then it compares rounds drawn at random, five at a time. The
//! comparisons share trials, so the shares describe this machine during these rounds, and the number of rounds limits
//! their precision.
//!
//! Not here: simulated trials (`bakeoff-core`'s `tests/statistics/calibration.rs`).

use std::path::{Path, PathBuf};
use std::process::Command;

use bakeoff_core::record::{self, Record};
use bakeoff_core::workload::mix64;
use bakeoff_report::{self as report, Report};

use crate::Failure;

/// Rounds of real trials, with three systems each.
const ROUNDS: u32 = 20;
/// Comparisons drawn from the rounds.
const REPETITIONS: usize = 400;
/// Trials per system in a comparison, bakeoff's default.
const SHIPPED: usize = 5;

const STUDY: &str = "\
title: A canary against itself and against a slower one
systems:
  one: {kind: canary, options: {sync: none, delay: 5ms}}
  same: {kind: canary, options: {sync: none, delay: 5ms}}
  slower: {kind: canary, options: {sync: none, delay: 5500us}}
workloads:
  work: {mix: {put: 1}, keys: {count: 1000}}
loads:
  load: {clients: 16, warmup: 500ms, stop: {after: 2s}}
audit-keys: 100
";

/// Runs the study, or reads `--record FILE`, and prints both shares.
pub(crate) fn calibrate(options: &[&str]) -> Result<(), Failure> {
    let mut asked =
        CalibrateOptions { repetitions: REPETITIONS, rounds: ROUNDS, program: None, record: None };
    let mut left = options.iter();
    while let Some(option) = left.next() {
        let value = left.next().ok_or_else(|| format!("`{option}` needs a value"))?;
        let number = || value.parse().map_err(|_| format!("`{value}` is not a number"));
        match *option {
            "--repetitions" => asked.repetitions = number()?,
            "--rounds" => asked.rounds = u32::try_from(number()?).map_err(|e| e.to_string())?,
            "--program" => asked.program = Some(PathBuf::from(value)),
            "--record" => asked.record = Some(PathBuf::from(value)),
            _ => return Err(format!("`{option}` is not an option of `calibrate`")),
        }
    }
    let record = match &asked.record {
        Some(file) => read(file)?,
        None => asked.run()?,
    };
    shares(&record, asked.repetitions)
}

struct CalibrateOptions {
    repetitions: usize,
    rounds: u32,
    program: Option<PathBuf>,
    record: Option<PathBuf>,
}

impl CalibrateOptions {
    fn run(&self) -> Result<Record, Failure> {
        let program = match &self.program {
            Some(program) => program.clone(),
            None => {
                let mut build = crate::cargo();
                build.args(["build", "--release", "-p", "bakeoff"]);
                crate::run(build)?;
                crate::root().join("target/release/bakeoff")
            }
        };
        let out = std::env::temp_dir().join(format!("bakeoff-calibrate-{}", std::process::id()));
        std::fs::create_dir_all(&out).map_err(|error| error.to_string())?;
        let study = out.join("calibrate.yaml");
        std::fs::write(&study, STUDY).map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg("run").arg(&study).arg("--out").arg(&out);
        command.args(["--trials", &self.rounds.to_string()]);
        // Invalid trials are not used, so the exit code is ignored.
        command.status().map_err(|error| format!("cannot run bakeoff: {error}"))?;
        let folders = std::fs::read_dir(&out).map_err(|error| error.to_string())?;
        let run = folders.flatten().map(|entry| entry.path()).find(|path| path.is_dir());
        let record = read(&run.ok_or("the run left no folder")?.join("record.jsonl"))?;
        std::fs::remove_dir_all(&out).ok();
        Ok(record)
    }
}

fn read(file: &Path) -> Result<Record, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
    Ok(record::read(&text).map_err(|complaint| complaint.to_string())?.0)
}

/// Draws comparisons and counts the differences that their reports declare.
fn shares(record: &Record, repetitions: usize) -> Result<(), Failure> {
    let rounds = record.trials.iter().map(|trial| trial.trial.round).max().map_or(0, |max| max + 1);
    if (rounds as usize) < 2 * SHIPPED {
        return Err(format!("{rounds} rounds are too few to draw {SHIPPED} of them"));
    }
    let invalid = record.trials.iter().filter(|trial| !trial.invalid_because().is_empty()).count();
    println!(
        "{rounds} rounds of real trials, {invalid} of {} trials not valid; {repetitions} comparisons \
         of {SHIPPED} rounds drawn from them",
        record.trials.len()
    );
    for (other, what) in [("same", "the same server"), ("slower", "one 10 % slower")] {
        let (mut any, mut throughput) = (0, 0);
        for repetition in 0..repetitions {
            let drawn = draw(rounds, mix64(repetition as u64));
            let report = report::json(&Report::new(&part(record, other, &drawn)));
            let empty = Vec::new();
            let judgements =
                report["comparisons"][0]["judgements"].as_array().unwrap_or(&empty).iter();
            let declared = |one: &&serde_json::Value| {
                matches!(one["verdict"].as_str(), Some("higher" | "lower"))
            };
            let declared: Vec<_> = judgements.filter(declared).collect();
            any += usize::from(!declared.is_empty());
            throughput += usize::from(
                declared.iter().any(|one| one["quantity"] == "throughput_mean_per_second"),
            );
        }
        let percent = |count: usize| 100.0 * count as f64 / repetitions as f64;
        println!(
            "  against {what}: a difference of any figure declared in {:.1} %, of throughput in {:.1} %",
            percent(any),
            percent(throughput)
        );
    }
    Ok(())
}

/// Returns [`SHIPPED`] different rounds out of `rounds`.
fn draw(rounds: u32, seed: u64) -> Vec<u32> {
    let mut keyed: Vec<(u64, u32)> =
        (0..rounds).map(|round| (mix64(seed ^ u64::from(round) << 32), round)).collect();
    keyed.sort_unstable();
    keyed.into_iter().take(SHIPPED).map(|(_, round)| round).collect()
}

/// Returns the record of two systems, limited to these rounds.
fn part(record: &Record, other: &str, rounds: &[u32]) -> Record {
    let is_in = |trial: &bakeoff_core::plan::Trial| {
        rounds.contains(&trial.round) && (trial.system == "one" || trial.system == other)
    };
    let trials = record.trials.iter().filter(|trial| is_in(&trial.trial));
    let mut part = Record {
        header: record.header.clone(),
        trials: trials.cloned().collect(),
        resumed: Vec::new(),
        extended: Vec::new(),
        end: record.end.clone(),
    };
    part.header.study.systems.retain(|system| system.name == "one" || system.name == other);
    part.header.order.retain(is_in);
    part
}
