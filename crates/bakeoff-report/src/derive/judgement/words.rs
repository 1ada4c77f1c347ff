//! Texts of a judgement: clauses, table cells, names of verdicts.
//!
//! Not here: judging (`judgement`), the sentence about a whole load (`bakeoff_core::stats`).

use bakeoff_core::stats::judge::TestResult;
use bakeoff_core::stats::rounds::{Preference, WithheldReason};
use bakeoff_core::stats::{
    Tail, TailFound, and, interval_text, least_text, min_detectable_text, ratio_text, times_text,
};
use bakeoff_core::units::plural;

use super::{JudgedAs, Judgement, better, label, what};

/// Reason why a difference of response times below 1 ms is not claimed.
const WITHIN_DELAYS: &str = "the generator's own delays may have added as much";

impl Judgement {
    /// Returns the ratio, if there is one.
    pub(crate) fn ratio(&self) -> Option<String> {
        self.answer.map(|answer| ratio_text(answer.ratio))
    }

    /// Returns the interval that the verdict is based on.
    pub(crate) fn interval(&self) -> Option<String> {
        self.answer.map(|answer| interval_text(answer.interval))
    }

    /// Returns the bootstrap interval of this ratio alone.
    pub(crate) fn bootstrap(&self) -> Option<String> {
        self.bootstrap.map(interval_text)
    }

    /// Returns the verdict in one or two words.
    pub(crate) fn found(&self) -> String {
        match &self.verdict {
            JudgedAs::Higher => "higher".to_owned(),
            JudgedAs::Lower => "lower".to_owned(),
            JudgedAs::NoneShown { .. } => "none shown".to_owned(),
            JudgedAs::Withheld { .. } | JudgedAs::WithinDelays => "not claimed".to_owned(),
            JudgedAs::TooFew => "too few".to_owned(),
            JudgedAs::NotJudged(_) => "not judged".to_owned(),
        }
    }

    /// Returns the minimum detectable effect, if no difference is shown.
    pub(crate) fn min_detectable(&self) -> Option<String> {
        match self.verdict {
            JudgedAs::NoneShown { min_detectable } => Some(least_text(min_detectable)),
            _ => None,
        }
    }

    /// Returns the verdict as a clause.
    pub(crate) fn words(&self) -> String {
        let what = self.what();
        let trials = format!("{} trials each", self.rounds);
        let claim = |high: &str, low: &str, answer: TestResult| {
            let (times, interval) =
                (times_text(&answer, self.early), interval_text(answer.interval));
            let (load, medians) = (&self.load, self.medians_text(high == self.a));
            format!(
                "{high}'s {what} was {times} {low}'s ({load}; 95 % interval {interval}, \
                 {trials}; medians {medians})"
            )
        };
        let (a, b) = (&self.a, &self.b);
        match (&self.verdict, self.answer) {
            (JudgedAs::Higher, Some(answer)) => self.qualified(claim(a, b, answer)),
            (JudgedAs::Lower, Some(answer)) => self.qualified(claim(b, a, answer.turned())),
            (JudgedAs::WithinDelays, _) => {
                let medians = self.medians_text(true);
                format!(
                    "{what} of {a} and {b} ({}; {trials}; medians {medians}): not claimed: \
                     {WITHIN_DELAYS}",
                    self.load
                )
            }
            (JudgedAs::Withheld { higher, why }, Some(answer)) => {
                let better =
                    if *higher == (better(self.quantity) == Preference::More) { a } else { b };
                let seen = if *higher { claim(a, b, answer) } else { claim(b, a, answer.turned()) };
                let why = match why {
                    WithheldReason::Failed(1) => "1 trial failed because of the system".to_owned(),
                    WithheldReason::Failed(trials) => {
                        format!("{trials} trials failed because of the system")
                    }
                    WithheldReason::Unclear(_) => {
                        "with the figures of the trials that were not steady, it is not shown"
                            .to_owned()
                    }
                };
                format!("{seen}, but {better} is not declared better: {why}")
            }
            (JudgedAs::NotJudged(why), _) => {
                format!("{what} of {a} and {b} ({}) not judged: {why}", self.load)
            }
            (JudgedAs::NoneShown { min_detectable }, _) => {
                let seen = min_detectable_text(*min_detectable);
                let (load, medians) = (&self.load, self.medians_text(true));
                format!(
                    "no difference shown between {a} and {b} in {what} ({load}); {seen} ({trials}; \
                     medians {medians})"
                )
            }
            _ => format!(
                "{what} of {a} and {b} ({}): too few trials to call a difference",
                self.load
            ),
        }
    }

    /// Adds the conditions that favour the winner to a claim.
    fn qualified(&self, claim: String) -> String {
        let Some(winner) = self.winner().filter(|_| !self.conditions.is_empty()) else {
            return claim;
        };
        let conditions: Vec<String> =
            self.conditions.iter().map(|condition| condition.named(winner)).collect();
        format!("{claim}, but {}", and(&conditions))
    }

    /// Returns `20.5 ms and 41.0 ms`: both medians. `first`: in the order of the systems.
    fn medians_text(&self, first: bool) -> String {
        let text = |figure| self.quantity.short(figure);
        let (a, b) = (text(self.medians.0), text(self.medians.1));
        if first { format!("{a} and {b}") } else { format!("{b} and {a}") }
    }

    /// Returns the verdict about this high percentile, for a sentence that begins with `a`'s throughput.
    pub(crate) fn tail(&self) -> Option<Tail> {
        let found = match self.verdict {
            JudgedAs::Higher => TailFound::Higher,
            JudgedAs::Lower => TailFound::Lower,
            JudgedAs::NoneShown { .. } => TailFound::NoneShown,
            JudgedAs::WithinDelays => TailFound::NotClaimed(WITHIN_DELAYS.to_owned()),
            JudgedAs::Withheld { .. } | JudgedAs::TooFew | JudgedAs::NotJudged(_) => return None,
        };
        let text = |figure| self.quantity.short(figure);
        let medians = (text(self.medians.0), text(self.medians.1));
        Some(Tail { name: self.what(), found, medians })
    }

    /// Returns true if both are about the same figure and stage.
    pub(crate) fn is_about_what(&self, other: &Self) -> bool {
        (self.quantity, self.stage) == (other.quantity, other.stage)
    }

    /// Returns the compared figure in a sentence: `p99 response time with 64 clients`.
    pub(crate) fn what(&self) -> String {
        match self.stage {
            None => what(self.quantity),
            Some(_) => format!("{} with {}", what(self.quantity), self.clients_text()),
        }
    }

    /// Returns the compared figure as a row label.
    pub(crate) fn label(&self) -> String {
        label(self.quantity, self.stage.map(|_| self.clients))
    }

    /// Returns the number of clients of its stage.
    fn clients_text(&self) -> String {
        plural(self.clients.into(), "client")
    }

    /// Returns the verdict's name in JSON.
    pub(crate) fn verdict_name(&self) -> &'static str {
        match self.verdict {
            JudgedAs::Higher => "higher",
            JudgedAs::Lower => "lower",
            JudgedAs::NoneShown { .. } => "none-shown",
            JudgedAs::Withheld { .. } | JudgedAs::WithinDelays => "not-claimed",
            JudgedAs::TooFew => "too-few",
            JudgedAs::NotJudged(_) => "not-judged",
        }
    }
}
