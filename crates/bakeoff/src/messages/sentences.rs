//! Words the events of a run: the sentences that are printed once, without the line that changes.
//!
//! Not here: when and where they are printed (`messages`), conclusions (`bakeoff_report`).

use std::path::Path;
use std::time::Duration;

use bakeoff_core::plan;
use bakeoff_core::ranked::{self, Percentile};
use bakeoff_core::record::{TrialOutcome, TrialRecord};
use bakeoff_core::search::Found;
use bakeoff_core::stats::gate::{self as rounds, Losses};
use bakeoff_core::study::{Load, Study};
use bakeoff_core::units::{count_text, plural, rate_text, share_text, trials_text};
use bakeoff_engine::Live;
use bakeoff_trial::event::{GateExtended, GateStarted, Resumed};

/// Returns `1 min 25 s`, in steps that an estimate can bear.
pub(super) fn left_text(left: Duration) -> String {
    match left.as_secs() {
        seconds if seconds < 60 => format!("{seconds} s"),
        seconds if seconds < 600 => format!("{} min {} s", seconds / 60, seconds % 60 / 5 * 5),
        seconds if seconds < 7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Returns how a run is opened: `TITLE: 10 trials, seed 7, in runs/…`.
pub(super) fn run_started(study: &Study, seed: u64, trials: usize, folder: &Path) -> String {
    let scale = if study.scale == 1.0 {
        String::new()
    } else {
        format!(" (scaled to {} of the study's counts)", study.scale)
    };
    let mut text = format!(
        "{}{scale}: {}, seed {seed}, in {}",
        study.title,
        trials_text(trials),
        folder.display()
    );
    for line in study.loads.iter().filter_map(few_operations) {
        text.push('\n');
        text.push_str(&line);
    }
    text
}

/// Returns which percentile of response time is judged under a load that has too few operations for a p99. Those of a
/// closed load that lasts for a time are unknown beforehand.
fn few_operations(load: &Load) -> Option<String> {
    let operations = plan::forecast(load)?;
    let (name, _) = ranked::tail(operations);
    let (highest, quantile) = ranked::TAILS[0];
    (name != highest).then(|| {
        format!(
            "load {}: about {} a trial: {name} takes the place of {highest}, which needs {}",
            load.name,
            plural(operations, "operation"),
            count_text(ranked::sample_min(quantile))
        )
    })
}

/// Returns with what a run goes on.
pub(super) fn run_resumed(resumed: &Resumed<'_>) -> String {
    format!(
        "{}: going on with {} of {}, seed {}, in {}",
        resumed.title,
        count_text(resumed.missing as u64),
        trials_text(resumed.trials),
        resumed.seed,
        resumed.folder.display()
    )
}

/// Returns `etcd of kv-stores, base against new`, how many trials there are and may be, and how long they
/// take.
pub(super) fn gate_started(started: &GateStarted<'_>) -> String {
    let GateStarted { study, gate, trials, takes } = started;
    let mut text = format!(
        "{}\n  {} trials of base and of new in turn, {} in all, which take about {}: a loss of {} is \
         found in nineteen of twenty merges where figures scatter by {} from trial to trial, and a \
         merge that changes nothing is stopped at most once in a thousand",
        study.title,
        study.trials,
        trials,
        left_text(*takes),
        share_text(gate.detect),
        scatter_text(Losses::asked(gate.detect, gate.fail_if.len()), study),
    );
    if let Some(most) = gate.trials_max.filter(|&most| most > study.trials) {
        let longest = takes.mul_f64(f64::from(most) / f64::from(study.trials));
        text += &format!(
            "\n  if they scatter more, it goes on until that is true: up to {most} trials of each, about {} \
             in all",
            left_text(longest)
        );
    }
    text
}

/// Returns why a gate goes on.
pub(super) fn gate_extended(extended: &GateExtended<'_>) -> String {
    let GateExtended { gate, shortfall, before, trials, takes } = extended;
    format!(
        "figures scatter by {} from trial to trial: to find a loss of {}, {trials} trials of each build \
         are run, not {before}, which takes about {} more",
        share_text((shortfall.scatter * 1000.0).round() / 1000.0),
        share_text(gate.detect),
        left_text(*takes),
    )
}

/// Returns how much figures may scatter for a gate's trials to be enough, in percent.
fn scatter_text(losses: Losses, study: &Study) -> String {
    let places: usize = study.workloads.iter().map(|one| one.loads.len()).sum();
    let enough =
        |tenths: &u32| rounds::rounds(losses, f64::from(*tenths) / 1000.0, places) <= study.trials;
    let most = (1..1000).take_while(enough).last().unwrap_or(0);
    if most == 0 { "less than 0.1 %".to_owned() } else { share_text(f64::from(most) / 1000.0) }
}

/// Returns how many clients work, and how they did in the last second.
pub(super) fn loading(clients: u32, live: Option<&Live>) -> String {
    let clients = if clients == 1 { "1 client".into() } else { format!("{clients} clients") };
    let Some(live) = live else { return clients };
    // A second of a slow load has too few operations for a p99.
    let latency = match live.p99 {
        Percentile::TooFew { .. } => format!(", p50 {}", live.p50.text()),
        // Of writes and reads that are driven apart.
        Percentile::Nothing => String::new(),
        p99 => format!(", p99 {}", p99.text()),
    };
    let errors = match live.errors {
        0 => String::new(),
        errors => format!(", {} errors/s", count_text(errors)),
    };
    format!("{clients}, {} s: {}/s{latency}{errors}", live.second + 1, count_text(live.verified))
}

/// Returns what came of a trial.
pub(super) fn trial_finished(record: &TrialRecord) -> String {
    let invalid = record.invalid_because();
    match (&record.outcome, invalid.first()) {
        (TrialOutcome::Interrupted, _) => "interrupted".to_owned(),
        (_, Some(why)) => format!("not valid: {}", short(why)),
        (_, None) => figures(record),
    }
}

/// Returns a trial's figures in a line.
fn figures(record: &TrialRecord) -> String {
    let Some(measurement) = record.measurement() else { return "nothing was measured".to_owned() };
    let rate = measurement.throughput().map_or(0, |rate| rate.round() as u64);
    let p99 = measurement.total().responses().percentile(0.99).text();
    let errors = match measurement.error_count() {
        0 => "no errors".to_owned(),
        errors => format!("{} errors", count_text(errors)),
    };
    let found = match record.found {
        Some(Found::Rate(rate)) => format!("the highest rate is {}: ", rate_text(rate)),
        Some(Found::NoLimit(rate)) => format!("the highest rate is beyond {}: ", rate_text(rate)),
        Some(Found::Nothing(rate)) => {
            return format!("no rate kept the objective, down to {}", rate_text(rate));
        }
        Some(Found::Unsteady(_) | Found::OutOfTime(_)) | None => String::new(),
    };
    format!("{found}{}/s, p99 {p99}, {errors}", count_text(rate))
}

/// Returns the start of a text, with `…` where there is more.
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
    fn percentile_that_takes_the_place_of_p99_is_said_beforehand() {
        let text = |rate: &str| {
            let load = format!("{{rate: {rate}, clients: 4, stop: {{after: 40s}}}}");
            let study = format!(
                "title: T\nsystems: {{a: {{kind: canary}}}}\nworkloads: {{w: {{mix: {{put: 1}}, keys: \
                 {{count: 9, size: 16}}, values: {{size: 64}}}}}}\nloads: {{slow: {load}}}\ntrials: 3\n"
            );
            let study = study::parse("t", "t.yaml", &study, &kinds()).expect("it is a study");
            run_started(&study, 7, 3, Path::new("/runs/1"))
        };
        let expected = "T: 3 trials, seed 7, in /runs/1\nload slow: about 200 operations a trial: p95 takes \
                        the place of p99, which needs 1,000";
        assert_eq!(text("5/s"), expected);
        assert!(!text("50/s").contains("p99"));
    }
}
