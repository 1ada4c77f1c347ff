//! Sets the levels at which an adaptive run is judged, round by round.
//!
//! A run whose study asks for up to *n* rounds looks at its figures after each round from the third on. It stops once
//! it proves a difference in every leading question. Few rounds cannot rule a difference out: a system that starts
//! slowly now and then looks equal until a slow start appears. Each look is one more chance of a false claim, so the looks share the 5 %: those
//! before the last split [`EARLY_SHARE`] of it evenly, and the last has the rest. The levels add up to 5 %, so the bound
//! holds however the looks depend on each other (Bonferroni). The simulation is in `tests/statistics/sequential.rs`.
//!
//! The family of a look is judged by Holm's method, as in a run of a fixed number of rounds.
//!
//! Not here: the questions (`bakeoff_report`), stopping the run (`bakeoff_trial`).

use super::TRIALS_MIN;
use super::judge::{FALSE_ALARMS, Finding, TestResult};

/// Share of the false alarms that all looks before the last have together.
pub const EARLY_SHARE: f64 = 0.2;

/// Returns true if a run of up to `most` rounds is looked at after `rounds` of them. The last look is the run's end.
pub fn looks_after(rounds: u32, most: u32) -> bool {
    rounds >= TRIALS_MIN as u32 && rounds < most
}

/// Returns the probability of any false claim at which a family is judged after `rounds` of up to `most` rounds.
/// `None`: the run was not stopped early.
pub fn level(rounds: Option<u32>, most: u32) -> f64 {
    match (most.saturating_sub(TRIALS_MIN as u32), rounds) {
        (0, _) => FALSE_ALARMS,
        (looks, Some(_)) => FALSE_ALARMS * EARLY_SHARE / f64::from(looks),
        (_, None) => FALSE_ALARMS * (1.0 - EARLY_SHARE),
    }
}

/// Returns true if a question needs no more rounds: a difference is proven.
pub fn is_answered(answer: &TestResult) -> bool {
    !matches!(answer.finding, Finding::NoneShown { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_all_looks_add_up_to_the_false_alarms() {
        for most in [3, 4, 5, 9, 30] {
            let early = (1..most).filter(|&rounds| looks_after(rounds, most));
            let sum: f64 = early.map(|rounds| level(Some(rounds), most)).sum();
            let all = sum + level(None, most);
            assert!((all - FALSE_ALARMS).abs() < 1e-12, "{most}: {all}");
        }
        assert!(!looks_after(2, 5) && looks_after(3, 5) && !looks_after(5, 5));
    }

    #[test]
    fn only_proof_answers_a_question() {
        let answer = |interval, finding| TestResult {
            ratio: 1.0,
            interval,
            confidence: 0.99,
            finding,
            p_value: 0.5,
        };
        let none = Finding::NoneShown { min_detectable: 1.1 };
        assert!(is_answered(&answer((1.2, 1.3), Finding::Higher)));
        assert!(!is_answered(&answer((0.99, 1.01), none)), "a slow start may still come");
    }
}
