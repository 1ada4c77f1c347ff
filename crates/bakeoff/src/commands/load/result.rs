//! Result of a load, without a search.
//!
//! It holds no secrets: URLs are masked, and headers are names without values.
//!
//! Not here: running its trials (`loader`), rendering (`text`, `json`), a search (`search_result`).

use std::time::Duration;

use bakeoff_core::condition::{Condition, ConditionResult, Figures};
use bakeoff_core::measurement::{ErrorKind, Example, Measurement};
use bakeoff_core::units::rate_text;
use bakeoff_engine::LoadProgress;
use bakeoff_report::ci::{Case, CaseOutcome};

use super::generator_parts::{self, GeneratorShown};
use super::settings::Settings;

/// Result of one step: an open load at one rate, a ramp or a closed load.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    /// Rate of an open load, or the mean rate of a ramp. `None` for a closed load and for merged steps.
    pub(super) rate: Option<f64>,
    pub(super) measurement: Measurement,
    /// Progress reports, one for each second.
    pub(super) seconds: Vec<LoadProgress>,
    /// Reasons why the figures are not valid; empty if they are valid.
    pub(super) reasons: Vec<String>,
    /// Each generator's share of the load, with `--on`.
    pub(super) generators: Vec<GeneratorShown>,
}

impl Part {
    /// Merges the next step into this one.
    pub(super) fn append(&mut self, later: &Self) {
        self.rate = None;
        self.measurement.append(&later.measurement);
        let offset = self.seconds.last().map_or(0, |last| last.second + 1);
        self.seconds.extend(
            later
                .seconds
                .iter()
                .map(|live| LoadProgress { second: live.second + offset, ..live.clone() }),
        );
        generator_parts::append(&mut self.generators, &later.generators);
    }

    /// Returns the number of successful and failed requests.
    pub(super) fn requests(&self) -> u64 {
        self.measurement.verified() + self.measurement.error_count()
    }

    /// Returns error counts by kind, without kinds that did not occur.
    pub(super) fn errors(&self) -> Vec<(ErrorKind, u64)> {
        let of = |kind| (kind, self.measurement.errors_of(kind));
        ErrorKind::ALL.into_iter().map(of).filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the earliest examples of a kind of error, at most `max`.
    pub(super) fn examples(&self, kind: ErrorKind, max: usize) -> Vec<&Example> {
        let examples = self.measurement.error_examples().filter(|(of, _)| *of == kind);
        let mut examples: Vec<&Example> = examples.map(|(_, example)| example).collect();
        examples.sort_by(|a, b| a.at_seconds.total_cmp(&b.at_seconds));
        examples.truncate(max);
        examples
    }

    /// Returns the generator's CPU time per request, warm-up included.
    pub(super) fn cpu_per_request(&self) -> Option<Duration> {
        let requests = self.requests() + self.measurement.warmup_operations;
        let each = self.measurement.generator_cpu.as_secs_f64() / requests as f64;
        (requests > 0).then(|| Duration::from_secs_f64(each))
    }

    /// Returns the share of an open load's requests that waited for a free client or a connection. Their wait counts
    /// in the response time, but not in the schedule lag.
    pub(super) fn waited(&self) -> Option<f64> {
        self.rate?;
        let sent = self.measurement.schedule_lag.count();
        let all = self.requests();
        (all > 0).then(|| all.saturating_sub(sent) as f64 / all as f64)
    }
}

/// A `--fail-if` condition and its outcome.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Gate {
    pub(super) condition: Condition,
    pub(super) finding: ConditionResult,
}

impl Gate {
    pub(super) fn check(condition: &Condition, figures: &Figures) -> Self {
        Self { condition: condition.clone(), finding: condition.check(figures) }
    }

    /// Returns true unless the condition is known not to hold. An unknown figure fails the gate.
    pub(super) fn failed(&self) -> bool {
        !matches!(self.finding, ConditionResult::HoldsNot(_))
    }

    /// Returns the case that CI gets for this condition.
    pub(super) fn case(&self) -> Case {
        let seen = vec![self.seen().to_owned()];
        let outcome = match &self.finding {
            ConditionResult::Holds(_) => CaseOutcome::Failed(seen),
            ConditionResult::HoldsNot(_) => CaseOutcome::Passed,
            ConditionResult::Unknown(_) => CaseOutcome::Unknown(seen),
        };
        Case { name: self.condition.to_string(), outcome }
    }

    /// Returns the figure as text, or why it is unknown.
    pub(super) fn seen(&self) -> &str {
        match &self.finding {
            ConditionResult::Holds(seen)
            | ConditionResult::HoldsNot(seen)
            | ConditionResult::Unknown(seen) => seen,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct LoadResult {
    pub(super) settings: Settings,
    /// All steps merged.
    pub(super) whole: Part,
    /// One result for each rate of `--steps`; empty for other loads.
    pub(super) steps: Vec<Part>,
    pub(super) gates: Vec<Gate>,
    /// Peak memory of this process; `None` with `--on`.
    pub(super) peak_rss_bytes: Option<u64>,
}

impl LoadResult {
    /// Returns the reasons why the load is not valid, each with the rate of its step. Empty if it is valid.
    pub(super) fn reasons(&self) -> Vec<String> {
        if self.steps.is_empty() {
            return self.whole.reasons.clone();
        }
        let of = |part: &Part| {
            let rate = part.rate.map(rate_text).unwrap_or_default();
            part.reasons.clone().into_iter().map(move |why| format!("at {rate}: {why}"))
        };
        self.steps.iter().flat_map(of).collect()
    }
}
