//! Writes the text of a run's events, each printed once.
//!
//! Not here: the changing progress line (`messages`), conclusions (`bakeoff_report`).

use std::path::Path;
use std::time::Duration;

use bakeoff_agent::transfer::{Transfer, TransferState};
use bakeoff_core::plan;
use bakeoff_core::ranked_latencies::{self, Percentile};
use bakeoff_core::record::{TrialOutcome, TrialRecord};
use bakeoff_core::search::FoundRate;
use bakeoff_core::stats::gate::{self as rounds, Losses};
use bakeoff_core::study::{Load, Study};
use bakeoff_core::units::{
    ByteCount, count_text, latency_text, plural, rate_text, share_text, trials_text,
};
use bakeoff_engine::LoadProgress;
use bakeoff_trial::event::{GateExtended, GateStarted, ResumedRun};

/// Returns a rounded duration, such as `1 min 25 s`.
pub(super) fn left_text(left: Duration) -> String {
    match left.as_secs() {
        seconds if seconds < 60 => format!("{seconds} s"),
        seconds if seconds < 600 => format!("{} min {} s", seconds / 60, seconds % 60 / 5 * 5),
        seconds if seconds < 7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Returns the first line of a run: `TITLE: 10 trials, seed 7, in runs/…`. Adds a line per load with too few operations
/// for p99.
pub(super) fn run_started(study: &Study, seed: u64, trials: usize, folder: &Path) -> String {
    let mut text = format!(
        "{}: {}, seed {seed}, in {}",
        study.full_title(),
        trials_text(trials),
        folder.display()
    );
    for line in study.loads.iter().filter_map(few_operations) {
        text.push('\n');
        text.push_str(&line);
    }
    text
}

/// Returns the percentile that replaces p99 under a load with too few operations. `None` if p99 is used, or if the
/// number is unknown, as in a closed load for a time.
fn few_operations(load: &Load) -> Option<String> {
    let operations = plan::forecast(load)?;
    let (name, _) = ranked_latencies::tail(operations);
    let (highest, quantile) = ranked_latencies::TAILS[0];
    (name != highest).then(|| {
        format!(
            "load {}: about {} per trial, so {name} replaces {highest}, which needs {}",
            load.name,
            plural(operations, "operation"),
            count_text(ranked_latencies::sample_min(quantile))
        )
    })
}

/// Returns a line about a transfer: what it costs, how far it has come, and how long it takes.
pub(super) fn transfer(of: &Transfer<'_>) -> String {
    let Transfer { machine, what, total, state } = *of;
    let sending = format!("sending {what} to `{machine}`");
    match state {
        TransferState::Begun => format!("{sending}: {} before compression", ByteCount(total)),
        TransferState::UnderWay { done, took } => {
            let share = done as f64 / total.max(1) as f64;
            let left = took.mul_f64((1.0 - share).max(0.0) / share.max(0.001));
            format!("{sending}: {}, about {} left", share_text(share), left_text(left))
        }
        TransferState::Ended { carried, took } => {
            format!("sent {what} to `{machine}`: {} in {}", ByteCount(carried), latency_text(took))
        }
    }
}

/// Returns the first line of a resumed run.
pub(super) fn run_resumed(resumed: &ResumedRun<'_>) -> String {
    format!(
        "{}: resuming with {} of {} left, seed {}, in {}",
        resumed.study.full_title(),
        count_text(resumed.missing as u64),
        trials_text(resumed.trials),
        resumed.seed,
        resumed.folder.display()
    )
}

/// Returns the first lines of a gate: its title, the number of trials, their time and what they can detect.
pub(super) fn gate_started(started: &GateStarted<'_>) -> String {
    let GateStarted { study, gate, trials, takes, longest } = started;
    let mut text = format!(
        "{}\n  {} trials of base and of new in turn, {} in all, take about {}\n  they find a loss of {} in 19 of 20 \
         merges if figures scatter by {} between trials, and stop at most one in 1,000 merges that change nothing",
        study.title,
        study.trials,
        trials,
        left_text(*takes),
        share_text(gate.detect),
        scatter_text(Losses::asked(gate.detect, gate.fail_if.len()), study),
    );
    if let Some(most) = gate.trials_max.filter(|&most| most > study.trials) {
        text += &format!(
            "\n  if figures scatter more, the gate adds trials: up to {most} of each build, and at most {} in all",
            left_text(*longest)
        );
    }
    text
}

/// Returns the reason why a gate adds trials.
pub(super) fn gate_extended(extended: &GateExtended<'_>) -> String {
    let GateExtended { gate, shortfall, before, trials, takes } = extended;
    format!(
        "figures scatter by {} between trials: finding a loss of {} needs {trials} trials of each build instead of \
         {before}, about {} more",
        share_text((shortfall.scatter * 1000.0).round() / 1000.0),
        share_text(gate.detect),
        left_text(*takes),
    )
}

/// Returns the largest scatter, in percent, at which a gate's trials are enough.
fn scatter_text(losses: Losses, study: &Study) -> String {
    let places: usize = study.workloads.iter().map(|one| one.loads.len()).sum();
    let enough =
        |tenths: &u32| rounds::rounds(losses, f64::from(*tenths) / 1000.0, places) <= study.trials;
    let most = (1..1000).take_while(enough).last().unwrap_or(0);
    if most == 0 { "less than 0.1 %".to_owned() } else { share_text(f64::from(most) / 1000.0) }
}

/// Returns the number of clients and the figures of the last second.
pub(super) fn loading(clients: u32, live: Option<&LoadProgress>) -> String {
    let clients = if clients == 1 { "1 client".into() } else { format!("{clients} clients") };
    let Some(live) = live else { return clients };
    format!("{clients}, {} s: {}", live.second + 1, second(live))
}

/// Returns the figures of the last second.
pub(super) fn second(live: &LoadProgress) -> String {
    // One second of a slow load has too few operations for p99.
    let latency = match live.p99 {
        Percentile::TooFew { .. } => format!(", p50 {}", live.p50.text()),
        // Writes and reads with separate clients have no common percentile.
        Percentile::Nothing => String::new(),
        p99 => format!(", p99 {}", p99.text()),
    };
    let errors = match live.errors {
        0 => String::new(),
        errors => format!(", {} errors/s", count_text(errors)),
    };
    format!("{}/s{latency}{errors}", count_text(live.verified))
}

/// Returns a trial's figures, or the reason why it is not valid.
pub(super) fn trial_finished(record: &TrialRecord) -> String {
    let invalid = record.invalid_because();
    match (&record.outcome, invalid.first()) {
        (TrialOutcome::Interrupted, _) => "interrupted".to_owned(),
        (_, Some(why)) => format!("not valid: {}", short(why)),
        (_, None) => figures(record),
    }
}

/// Returns the throughput and p99 of a trial; `None` if nothing was measured.
pub(super) fn rate_and_p99(record: &TrialRecord) -> Option<String> {
    let measurement = record.measurement()?;
    let rate = measurement.throughput().map_or(0, |rate| rate.round() as u64);
    let p99 = measurement.total().responses().percentile(0.99).text();
    Some(format!("{}/s, p99 {p99}", count_text(rate)))
}

fn figures(record: &TrialRecord) -> String {
    let Some((measurement, rate_and_p99)) = record.measurement().zip(rate_and_p99(record)) else {
        return "nothing was measured".to_owned();
    };
    let errors = match measurement.error_count() {
        0 => "no errors".to_owned(),
        errors => format!("{} errors", count_text(errors)),
    };
    let found = match record.found {
        Some(FoundRate::Rate(rate)) => format!("the highest rate is {}: ", rate_text(rate)),
        Some(FoundRate::NoLimit(rate)) => {
            format!("the highest rate is beyond {}: ", rate_text(rate))
        }
        Some(FoundRate::Nothing(rate)) => {
            return format!("no rate kept the objective, down to {}", rate_text(rate));
        }
        Some(FoundRate::Unsteady(_) | FoundRate::OutOfTime(_)) | None => String::new(),
    };
    format!("{found}{rate_and_p99}, {errors}")
}

/// Returns the first 160 characters, and `…` if there are more.
fn short(text: &str) -> String {
    let mut characters = text.chars();
    let start: String = characters.by_ref().take(160).collect();
    if characters.next().is_some() { format!("{start}…") } else { start }
}

#[cfg(test)]
mod tests {
    use bakeoff_core::study;
    use bakeoff_systems::kinds;

    use super::*;

    #[test]
    fn announces_the_percentile_that_replaces_p99() {
        let text = |rate: &str| {
            let load = format!("{{rate: {rate}, clients: 4, stop: {{after: 40s}}}}");
            let study = format!(
                "title: T\nsystems: {{a: {{kind: canary}}}}\nworkloads: {{w: {{mix: {{put: 1}}, keys: \
                 {{count: 9, size: 16}}, values: {{size: 64}}}}}}\nloads: {{slow: {load}}}\ntrials: 3\n"
            );
            let study = study::parse("t", "t.yaml", &study, &kinds()).expect("it is a study");
            run_started(&study, 7, 3, Path::new("/runs/1"))
        };
        let expected = "T: 3 trials, seed 7, in /runs/1\nload slow: about 200 operations per trial, so p95 \
                        replaces p99, which needs 1,000";
        assert_eq!(text("5/s"), expected);
        assert!(!text("50/s").contains("p99"));
    }
}
