//! Says what trials that are not valid do to a comparison of two systems, round by round.
//!
//! A figure of a difference comes from the rounds in which both trials are valid. A claim needs more: had
//! the better one's own failures dropped out, it would be judged by its good days alone. So a system with
//! a trial that failed through its own doing is not declared better. Where it is not known whose doing it
//! was, a claim has to hold with the figures that such trials had all the same.
//!
//! A round is dropped for the two that are compared, not for all systems of a workload and load: what a
//! neighbour did to a third one says nothing of these two, whose own trials passed the same checks.
//!
//! Not here: the test (`judge`), whose doing it was (`check`), words (`sentence`).

use super::judge::{self, Finding, Scale, TestResult, Trials};
use super::middle;

/// Yield of a system's trial of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Yield {
    /// A figure of a valid trial.
    Valid(f64),
    /// Nothing that can be used, and not through the system's doing.
    Dropped,
    /// It failed through the system's own doing.
    Failed,
    /// It is not valid, and whose doing that is, is not known; with the figure that it had all the same.
    Unclear(Option<f64>),
}

/// Which of two figures is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The higher one: throughput.
    More,
    /// The lower one: a latency.
    Less,
}

/// Reason not to claim a difference that the rounds with two valid trials show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withheld {
    /// Number of trials of the better one that failed through its own doing.
    Failed(usize),
    /// Number of the two's trials that are not valid for an unknown reason, and with whose figures the difference
    /// is not shown.
    Unclear(usize),
}

/// Two systems' trials of each round that was run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rounds(pub Vec<(Yield, Yield)>);

impl Rounds {
    /// The figures of the rounds in which both are valid.
    pub fn valid(&self) -> Vec<(f64, f64)> {
        self.0
            .iter()
            .filter_map(|round| match round {
                (Yield::Valid(a), Yield::Valid(b)) => Some((*a, *b)),
                _ => None,
            })
            .collect()
    }

    /// Returns whether a trial of either failed through its system's own doing.
    pub fn any_failed(&self) -> bool {
        self.0.iter().any(|&(a, b)| a == Yield::Failed || b == Yield::Failed)
    }

    /// Returns why the difference that the valid rounds show must not be claimed; `None` where it may, and where
    /// none is shown.
    pub fn withheld(&self, answer: &TestResult, scale: Scale, better: Better) -> Option<Withheld> {
        let first_is_better = match (answer.finding, better) {
            (Finding::NoneShown { .. }, _) => return None,
            (Finding::Higher, Better::More) | (Finding::Lower, Better::Less) => true,
            (Finding::Lower, Better::More) | (Finding::Higher, Better::Less) => false,
        };
        let of_the_better = |&(a, b): &(Yield, Yield)| if first_is_better { a } else { b };
        let failed = self.0.iter().map(of_the_better).filter(|one| *one == Yield::Failed).count();
        if failed > 0 {
            return Some(Withheld::Failed(failed));
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
        (!holds).then_some(Withheld::Unclear(count))
    }

    /// The figures of all rounds in which both have one, whether or not somebody knows why a trial was
    /// not steady.
    fn as_measured(&self) -> Vec<(f64, f64)> {
        let figure = |one: Yield| match one {
            Yield::Valid(figure) | Yield::Unclear(Some(figure)) => Some(figure),
            Yield::Dropped | Yield::Failed | Yield::Unclear(None) => None,
        };
        self.0.iter().filter_map(|&(a, b)| Some((figure(a)?, figure(b)?))).collect()
    }

    /// Both medians with each failed trial taken as the worst there is: nothing done, or no end of a
    /// latency (infinite). Rounds that tell nothing of one of the two are left out. `None` where none
    /// is left.
    pub fn worst_medians(&self, better: Better) -> Option<(f64, f64)> {
        let worst = match better {
            Better::More => 0.0,
            Better::Less => f64::INFINITY,
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

/// The median of each side; `None` of nothing.
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

    /// Ten percent more in each of four rounds, then these.
    fn rounds(more: &[(Yield, Yield)]) -> Rounds {
        let valid = [(110.0, 100.0), (111.0, 100.0), (110.0, 101.0), (109.0, 99.0)];
        let valid = valid.map(|(a, b)| (Valid(a), Valid(b)));
        Rounds(valid.into_iter().chain(more.iter().copied()).collect())
    }

    fn check(more: &[(Yield, Yield)], better: Better, expected: Option<Withheld>) {
        let of = rounds(more);
        let trials = Trials::ByRound(of.valid());
        let answer = judge::alone(&trials, Scale::Ratio, 0.05).expect("there are enough rounds");
        assert_eq!(answer.finding, Finding::Higher);
        assert_eq!(of.withheld(&answer, Scale::Ratio, better), expected, "{more:?}");
        // The same, seen from the other.
        let turned = Rounds(of.0.iter().map(|&(a, b)| (b, a)).collect());
        assert_eq!(turned.withheld(&answer.turned(), Scale::Ratio, better), expected, "{more:?}");
    }

    #[test]
    fn the_better_ones_own_failures_withhold_a_claim() {
        check(&[], Better::More, None);
        check(&[(Dropped, Valid(100.0))], Better::More, None);
        check(&[(Failed, Valid(100.0))], Better::More, Some(Withheld::Failed(1)));
        check(&[(Failed, Dropped), (Failed, Failed)], Better::More, Some(Withheld::Failed(2)));
        // Where less is better, the second is: and what the first fails is no defence of it.
        check(&[(Failed, Valid(100.0))], Better::Less, None);
        check(&[(Valid(110.0), Failed)], Better::Less, Some(Withheld::Failed(1)));
        check(&[(Valid(110.0), Failed)], Better::More, None);
    }

    #[test]
    fn a_claim_holds_with_what_unsteady_trials_measured_or_is_withheld() {
        check(&[(Unclear(Some(110.0)), Valid(100.0))], Better::More, None);
        check(&[(Unclear(Some(60.0)), Valid(100.0))], Better::More, Some(Withheld::Unclear(1)));
        check(&[(Unclear(None), Valid(100.0))], Better::More, Some(Withheld::Unclear(1)));
        check(&[(Valid(110.0), Unclear(None))], Better::More, None);
        check(&[(Valid(110.0), Unclear(Some(200.0)))], Better::More, Some(Withheld::Unclear(1)));
    }

    #[test]
    fn a_failed_trial_is_the_worst_there_is() {
        let of = rounds(&[(Failed, Valid(100.0)), (Failed, Valid(100.0)), (Dropped, Valid(9e9))]);
        assert_eq!(of.worst_medians(Better::More), Some((109.5, 100.0)));
        assert_eq!(of.worst_medians(Better::Less), Some((110.5, 100.0)));
        let all = Rounds(vec![(Failed, Valid(1.0)); 3]);
        assert_eq!(all.worst_medians(Better::Less), Some((f64::INFINITY, 1.0)));
        assert_eq!(Rounds(vec![(Dropped, Valid(1.0))]).worst_medians(Better::More), None);
    }
}
