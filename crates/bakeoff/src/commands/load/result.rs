//! The result of a load, ready to be shown; `text` and `json` are functions of it.
//!
//! Nothing in it is secret: URLs come masked, headers by name alone.
//!
//! Not here: running its trials (`loader`), how it looks (`text`, `json`, `curve`).

use std::time::Duration;

use bakeoff_core::condition::{Condition, ConditionResult, Figures};
use bakeoff_core::measurement::{ErrorKind, Example, Measurement};
use bakeoff_core::units::rate_text;
use bakeoff_engine::Live;
use bakeoff_report::ci::{Case, CaseOutcome};

use super::generator_parts::{self, GeneratorShown};
use super::settings::Settings;

/// The result of one load at one rate, or of a closed one.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    /// The rate of an open load; the mean of a ramp, `None` for several steps.
    pub(super) rate: Option<f64>,
    pub(super) measurement: Measurement,
    /// Second by second, as they were reported while the load ran.
    pub(super) seconds: Vec<Live>,
    /// The reasons for which its figures are not valid; empty when they are.
    pub(super) reasons: Vec<String>,
    /// Each generator's part, where several machines shared the load.
    pub(super) generators: Vec<GeneratorShown>,
}

impl Part {
    /// Appends a step that came after.
    pub(super) fn append(&mut self, later: &Self) {
        self.rate = None;
        self.measurement.append(&later.measurement);
        let offset = self.seconds.last().map_or(0, |last| last.second + 1);
        self.seconds.extend(
            later.seconds.iter().map(|live| Live { second: live.second + offset, ..live.clone() }),
        );
        generator_parts::append(&mut self.generators, &later.generators);
    }

    /// Requests that ended in the measured window, well or not.
    pub(super) fn requests(&self) -> u64 {
        self.measurement.verified() + self.measurement.error_count()
    }

    /// Errors by kind, all requests together; kinds that did not occur are absent.
    pub(super) fn errors(&self) -> Vec<(ErrorKind, u64)> {
        let of = |kind| (kind, self.measurement.errors_of(kind));
        ErrorKind::ALL.into_iter().map(of).filter(|(_, count)| *count > 0).collect()
    }

    /// The first errors of a kind, at most `max`.
    pub(super) fn examples(&self, kind: ErrorKind, max: usize) -> Vec<&Example> {
        let examples = self.measurement.error_examples().filter(|(of, _)| *of == kind);
        let mut examples: Vec<&Example> = examples.map(|(_, example)| example).collect();
        examples.sort_by(|a, b| a.at_seconds.total_cmp(&b.at_seconds));
        examples.truncate(max);
        examples
    }

    /// CPU time of the generator for each request.
    pub(super) fn cpu_per_request(&self) -> Option<Duration> {
        let requests = self.requests() + self.measurement.warmup_operations;
        let each = self.measurement.generator_cpu.as_secs_f64() / requests as f64;
        (requests > 0).then(|| Duration::from_secs_f64(each))
    }

    /// Returns which share of the requests of an open load waited for a free client or a connection; their
    /// wait is in the response time and not in the schedule lag.
    pub(super) fn waited(&self) -> Option<f64> {
        self.rate?;
        let sent = self.measurement.schedule_lag.count();
        let all = self.requests();
        (all > 0).then(|| all.saturating_sub(sent) as f64 / all as f64)
    }
}

/// A `--fail-if` condition and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Gate {
    pub(super) condition: Condition,
    pub(super) finding: ConditionResult,
}

impl Gate {
    pub(super) fn check(condition: &Condition, figures: &Figures) -> Self {
        Self { condition: condition.clone(), finding: condition.check(figures) }
    }

    /// A figure that does not exist passes nothing.
    pub(super) fn failed(&self) -> bool {
        !matches!(self.finding, ConditionResult::HoldsNot(_))
    }

    /// Returns it as a build's service is told of it.
    pub(super) fn case(&self) -> Case {
        let seen = vec![self.seen().to_owned()];
        let outcome = match &self.finding {
            ConditionResult::Holds(_) => CaseOutcome::Failed(seen),
            ConditionResult::HoldsNot(_) => CaseOutcome::Passed,
            ConditionResult::Unknown(_) => CaseOutcome::Unknown(seen),
        };
        Case { name: self.condition.to_string(), outcome }
    }

    /// The figure as it was, or why there is none.
    pub(super) fn seen(&self) -> &str {
        match &self.finding {
            ConditionResult::Holds(seen)
            | ConditionResult::HoldsNot(seen)
            | ConditionResult::Unknown(seen) => seen,
        }
    }
}

/// The result of a load.
#[derive(Debug, Clone)]
pub(super) struct LoadResult {
    pub(super) settings: Settings,
    /// All steps together.
    pub(super) whole: Part,
    /// Each rate of `--steps` or `--ramp`; empty for a load at one rate.
    pub(super) steps: Vec<Part>,
    pub(super) gates: Vec<Gate>,
    /// The most memory that bakeoff has had.
    pub(super) peak_rss_bytes: Option<u64>,
}

impl LoadResult {
    /// Returns the reasons for which it is not valid, each with its step; empty when it is.
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
