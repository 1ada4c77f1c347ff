//! Decides how invalid trials affect the comparison of two systems.
//!
//! A difference is computed from the rounds in which both trials are valid. A claim needs more: if the better
//! system's own failures were dropped, its good days alone would decide. So a system with a trial that failed through
//! its own fault is not declared better. If the cause is unclear, the claim must also hold with the figures of those
//! trials.
//!
//! A round is dropped only for the two compared systems. A neighbour that disturbed a third system says nothing about
//! these two, whose own trials passed the same checks.
//!
//! Not here: the test (`judge`), the cause (`check`), the wording (`sentence`).

use super::judge::{self, Finding, Scale, TestResult, Trials};
use super::middle;

/// Describes what a system's trial contributes to a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Yield {
    /// Figure of a valid trial.
    Valid(f64),
    /// No usable figure, through no fault of the system.
    Dropped,
    /// Failure through the system's own fault.
    Failed,
    /// Not valid, for an unclear cause. Holds the measured value, if there is one.
    Unclear(Option<f64>),
}

/// Selects which of two figures is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preference {
    /// The higher one, for throughput.
    More,
    /// The lower one, for latency.
    Less,
}

/// Explains why a difference between valid rounds is not claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithheldReason {
    /// Number of the better system's trials that failed through its own fault.
    Failed(usize),
    /// Number of trials that are invalid for an unclear cause; with their figures the difference disappears.
    Unclear(usize),
}

/// Holds two systems' trials of each round.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rounds(pub Vec<(Yield, Yield)>);

impl Rounds {
    /// Returns the figures of the rounds in which both trials are valid.
    pub fn valid(&self) -> Vec<(f64, f64)> {
        self.0
            .iter()
            .filter_map(|round| match round {
                (Yield::Valid(a), Yield::Valid(b)) => Some((*a, *b)),
                _ => None,
            })
            .collect()
    }

    /// Returns true if a trial of either system failed through its own fault.
    pub fn any_failed(&self) -> bool {
        self.0.iter().any(|&(a, b)| a == Yield::Failed || b == Yield::Failed)
    }

    /// Returns why the difference between the valid rounds must not be claimed; `None` if it may be, or if there is
    /// none.
    pub fn withheld(
        &self,
        answer: &TestResult,
        scale: Scale,
        better: Preference,
    ) -> Option<WithheldReason> {
        let first_is_better = match (answer.finding, better) {
            (Finding::NoneShown { .. }, _) => return None,
            (Finding::Higher, Preference::More) | (Finding::Lower, Preference::Less) => true,
            (Finding::Lower, Preference::More) | (Finding::Higher, Preference::Less) => false,
        };
        let of_the_better = |&(a, b): &(Yield, Yield)| if first_is_better { a } else { b };
        let failed = self.0.iter().map(of_the_better).filter(|one| *one == Yield::Failed).count();
        if failed > 0 {
            return Some(WithheldReason::Failed(failed));
        }
        let unclear = |one: Yield| usize::from(matches!(one, Yield::Unclear(_)));
        let count = self.0.iter().map(|&(a, b)| unclear(a) + unclear(b)).sum();
        if count == 0 {
            return None;
        }
        let nothing = self.0.iter().map(of_the_better).any(|one| one == Yield::Unclear(None));
        let trials = Trials::ByRound(self.as_measured());
        let holds = !nothing
            && judge::alone(&trials, scale, 1.0 - answer.confidence).is_some_and(|all| {
                std::mem::discriminant(&all.finding) == std::mem::discriminant(&answer.finding)
            });
        (!holds).then_some(WithheldReason::Unclear(count))
    }

    /// Returns the figures of all rounds in which both have one, including trials with an unclear cause.
    fn as_measured(&self) -> Vec<(f64, f64)> {
        let figure = |one: Yield| match one {
            Yield::Valid(figure) | Yield::Unclear(Some(figure)) => Some(figure),
            Yield::Dropped | Yield::Failed | Yield::Unclear(None) => None,
        };
        self.0.iter().filter_map(|&(a, b)| Some((figure(a)?, figure(b)?))).collect()
    }

    /// Returns both medians with each failed trial counted as the worst value: zero throughput, or infinite latency.
    /// Rounds without information about one of the two are skipped. Returns `None` if no round is left.
    pub fn worst_medians(&self, better: Preference) -> Option<(f64, f64)> {
        let worst = match better {
            Preference::More => 0.0,
            Preference::Less => f64::INFINITY,
        };
        let figure = |one: Yield| match one {
            Yield::Valid(figure) | Yield::Unclear(Some(figure)) => Some(figure),
            Yield::Failed | Yield::Unclear(None) => Some(worst),
            Yield::Dropped => None,
        };
        let both: Vec<(f64, f64)> =
            self.0.iter().filter_map(|&(a, b)| Some((figure(a)?, figure(b)?))).collect();
        medians(&both)
    }
}

/// Returns the median of each side; `None` without rounds.
pub fn medians(rounds: &[(f64, f64)]) -> Option<(f64, f64)> {
    if rounds.is_empty() {
        return None;
    }
    let (mut first, mut second): (Vec<f64>, Vec<f64>) = rounds.iter().copied().unzip();
    first.sort_unstable_by(f64::total_cmp);
    second.sort_unstable_by(f64::total_cmp);
    Some((middle(&first), middle(&second)))
}

#[cfg(test)]
mod tests {
    use super::Yield::{Dropped, Failed, Unclear, Valid};
    use super::*;

    /// Returns four rounds with ten percent more, then these.
    fn rounds(more: &[(Yield, Yield)]) -> Rounds {
        let valid = [(110.0, 100.0), (111.0, 100.0), (110.0, 101.0), (109.0, 99.0)];
        let valid = valid.map(|(a, b)| (Valid(a), Valid(b)));
        Rounds(valid.into_iter().chain(more.iter().copied()).collect())
    }

    fn check(more: &[(Yield, Yield)], better: Preference, expected: Option<WithheldReason>) {
        let of = rounds(more);
        let trials = Trials::ByRound(of.valid());
        let answer = judge::alone(&trials, Scale::Ratio, 0.05).expect("there are enough rounds");
        assert_eq!(answer.finding, Finding::Higher);
        assert_eq!(of.withheld(&answer, Scale::Ratio, better), expected, "{more:?}");
        // Compare in the other direction, too.
        let turned = Rounds(of.0.iter().map(|&(a, b)| (b, a)).collect());
        assert_eq!(turned.withheld(&answer.turned(), Scale::Ratio, better), expected, "{more:?}");
    }

    #[test]
    fn own_failures_of_the_better_system_withhold_a_claim() {
        check(&[], Preference::More, None);
        check(&[(Dropped, Valid(100.0))], Preference::More, None);
        check(&[(Failed, Valid(100.0))], Preference::More, Some(WithheldReason::Failed(1)));
        check(
            &[(Failed, Dropped), (Failed, Failed)],
            Preference::More,
            Some(WithheldReason::Failed(2)),
        );
        // If less is better, the second system is better, and failures of the first do not matter.
        check(&[(Failed, Valid(100.0))], Preference::Less, None);
        check(&[(Valid(110.0), Failed)], Preference::Less, Some(WithheldReason::Failed(1)));
        check(&[(Valid(110.0), Failed)], Preference::More, None);
    }

    #[test]
    fn claim_must_hold_with_the_figures_of_unclear_trials() {
        check(&[(Unclear(Some(110.0)), Valid(100.0))], Preference::More, None);
        check(
            &[(Unclear(Some(60.0)), Valid(100.0))],
            Preference::More,
            Some(WithheldReason::Unclear(1)),
        );
        check(&[(Unclear(None), Valid(100.0))], Preference::More, Some(WithheldReason::Unclear(1)));
        check(&[(Valid(110.0), Unclear(None))], Preference::More, None);
        check(
            &[(Valid(110.0), Unclear(Some(200.0)))],
            Preference::More,
            Some(WithheldReason::Unclear(1)),
        );
    }

    #[test]
    fn failed_trial_counts_as_the_worst_value() {
        let of = rounds(&[(Failed, Valid(100.0)), (Failed, Valid(100.0)), (Dropped, Valid(9e9))]);
        assert_eq!(of.worst_medians(Preference::More), Some((109.5, 100.0)));
        assert_eq!(of.worst_medians(Preference::Less), Some((110.5, 100.0)));
        let all = Rounds(vec![(Failed, Valid(1.0)); 3]);
        assert_eq!(all.worst_medians(Preference::Less), Some((f64::INFINITY, 1.0)));
        assert_eq!(Rounds(vec![(Dropped, Valid(1.0))]).worst_medians(Preference::More), None);
    }
}
