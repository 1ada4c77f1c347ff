//! Tests whether the place within a round mattered, under one workload and load.
//!
//! Tests the figure that the load was run for, over valid trials. All workloads and loads of the report share the
//! level, so about one report in twenty finds an effect by chance.
//!
//! Not here: the test (`stats::position`), the order (`plan`).

use bakeoff_core::stats::judge::FALSE_ALARMS;
use bakeoff_core::stats::position::{self, Effect, PlacedFigure};
use bakeoff_core::stats::{and, ratio_text};
use serde::Serialize;

use crate::derive::judgement::{self, Judgement};
use crate::model::contest::Contest;
use crate::model::quantity::Quantity;
use crate::model::trial::TrialFigures;

/// Result of the test.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Position {
    /// Tested figure.
    quantity: Quantity,
    effect: Effect,
    /// Level: a smaller p-value means an effect.
    level: f64,
}

/// Effect of the place within a round on a figure.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct OrderEffect {
    /// Name of the figure.
    quantity: String,
    /// True if the place matters.
    found: bool,
    /// p value of the test.
    p_value: f64,
    /// Level: a smaller p value means an effect.
    level: f64,
    /// Ratio to the mean at each place.
    ratio_to_mean_by_place: Vec<f64>,
}

impl Position {
    /// Tests one of `comparisons` comparisons of a report; `None` with too few trials.
    pub(crate) fn judge(
        contest: &Contest,
        judgements: &[Judgement],
        comparisons: usize,
    ) -> Option<Self> {
        let leading = judgements.iter().find(|one| one.leading);
        let quantity = leading.map_or(contest.compared(), |one| one.quantity);
        let all = || {
            let contenders = contest.contenders.iter().enumerate();
            contenders.flat_map(|(system, one)| one.trials.iter().map(move |trial| (system, trial)))
        };
        let placed = |(system, trial): (usize, &TrialFigures)| {
            let before = |(_, other): &(usize, &TrialFigures)| {
                other.round == trial.round && other.number < trial.number
            };
            let figure =
                trial.get(quantity).value().filter(|&value| trial.valid() && value > 0.0)?;
            let (round, place) = (trial.round as usize, all().filter(before).count());
            Some(PlacedFigure { system, round, place, figure })
        };
        let trials: Vec<PlacedFigure> = all().filter_map(placed).collect();
        let level = FALSE_ALARMS / comparisons.max(1) as f64;
        Some(Self { quantity, effect: position::effect(&trials)?, level })
    }

    fn found(&self) -> bool {
        self.effect.p_value < self.level
    }

    /// Returns the finding; `None` without an effect.
    pub(crate) fn finding(&self, place: &str) -> Option<String> {
        if !self.found() {
            return None;
        }
        let each: Vec<String> = (1..)
            .zip(&self.effect.ratios)
            .map(|(place, &ratio)| format!("{} at place {place}", ratio_text(ratio)))
            .collect();
        Some(format!(
            "the order within rounds mattered under {place}: {} was about {} times the mean of all, \
             regardless of the system",
            judgement::what(self.quantity),
            and(&each)
        ))
    }

    /// Describes the result for JSON.
    pub(crate) fn summary(&self) -> OrderEffect {
        OrderEffect {
            quantity: self.quantity.name(),
            found: self.found(),
            p_value: self.effect.p_value,
            level: self.level,
            ratio_to_mean_by_place: self.effect.ratios.clone(),
        }
    }
}
