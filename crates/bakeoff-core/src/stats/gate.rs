//! What a gate needs to know: how many rounds it takes, and what an interval says of a limit.
//!
//! A gate stops a merge when a figure is proven to be worse. It may be wrong in one merge of a thousand,
//! on that side alone, so that intervals are two-sided at twice that. It has enough rounds to find a
//! loss of [`DETECT`] in nine of ten merges that bring one, where figures scatter by [`SCATTER`] from trial
//! to trial. The simulation of both is in `tests/gate.rs`.
//!
//! Not here: the test itself (`judge`), which figures are asked (`report::compare`).

use super::judge::LEADING_SHARE;
use super::{TRIALS_MIN, student};

/// The probability of stopping a merge that changed nothing, over all that a gate asks.
pub const FALSE_STOPS: f64 = 0.001;
/// The loss that must not pass unnoticed, as a part of the base's figure.
pub const DETECT: f64 = 0.05;
/// How much a figure scatters from trial to trial, as a part of it, where nothing else is known.
pub const SCATTER: f64 = 0.015;
/// The level at which a gate's family is judged: both sides, of which one stops a merge.
pub const LEVEL: f64 = 2.0 * FALSE_STOPS;
/// More rounds are not proposed.
pub const ROUNDS_MAX: u32 = 1000;
/// The share of merges without an answer.
const NO_ANSWER: f64 = 0.05;
/// So many degrees of freedom make Student's distribution the normal one.
const NORMAL: f64 = 1e6;

/// Where an interval lies, seen from a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lies {
    /// All of it is beyond: the change is proven.
    Beyond,
    /// None of it is beyond by more than the slack: the change is ruled out.
    Within,
    /// Nobody can tell.
    Across,
}

/// Where an interval of changes lies. What is asked for is a change below `limit`, or above it;
/// one that is beyond it by no more than `slack` need not be ruled out.
pub fn lies((low, high): (f64, f64), below: bool, limit: f64, slack: f64) -> Lies {
    let (beyond, within) = match below {
        true => (high < limit, low >= limit - slack),
        false => (low > limit, high <= limit + slack),
    };
    match (beyond, within) {
        (true, _) => Lies::Beyond,
        (_, true) => Lies::Within,
        _ => Lies::Across,
    }
}

/// How many rounds answer whether there is a loss of `detect` in nineteen of twenty merges, with this
/// scatter from trial to trial and so many leading questions; an even number, so that each build goes
/// first as often as the other.
pub fn rounds(detect: f64, scatter: f64, leading: usize) -> u32 {
    let leading = leading.max(1) as f64;
    let level = LEVEL * LEADING_SHARE / leading;
    let reach = student::critical(2.0 * NO_ANSWER / leading, NORMAL);
    // Two trials make a round's difference.
    let difference = -(1.0 - detect).ln() / (scatter * 2.0_f64.sqrt());
    let enough = |rounds: &u32| {
        let freedom = f64::from(rounds - 1);
        let critical = student::critical(level, freedom);
        let errors = student::detectable(critical, freedom, reach);
        errors <= difference * f64::from(*rounds).sqrt()
    };
    (TRIALS_MIN as u32 + 1..ROUNDS_MAX).step_by(2).find(enough).unwrap_or(ROUNDS_MAX)
}

/// How much the figures of a trial scatter, from the differences of rounds; needs two of them.
pub fn scatter(differences: &[f64]) -> Option<f64> {
    let count = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / count;
    let squares: f64 = differences.iter().map(|one| (one - mean).powi(2)).sum();
    (differences.len() > 1).then(|| (squares / (count - 1.0) / 2.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_lies_beyond_a_limit_within_it_or_across() {
        for (interval, expected) in [
            ((-0.08, -0.01), Lies::Beyond),
            ((-0.04, 0.01), Lies::Within),
            ((-0.06, 0.01), Lies::Across),
            ((0.01, 0.02), Lies::Within),
        ] {
            assert_eq!(lies(interval, true, 0.0, 0.05), expected, "{interval:?}");
            let (low, high) = interval;
            assert_eq!(lies((-high, -low), false, 0.0, 0.05), expected, "{interval:?}");
        }
        assert_eq!(lies((-0.04, 0.01), true, 0.0, 0.0), Lies::Across, "without slack");
    }

    #[test]
    fn more_is_needed_for_less_and_with_more_scatter_or_more_questions() {
        let default = rounds(DETECT, SCATTER, 1);
        assert_eq!(default, 10);
        assert!(rounds(0.02, SCATTER, 1) > 2 * default);
        assert!(rounds(DETECT, 0.03, 1) >= 2 * default);
        assert!(rounds(DETECT, SCATTER, 4) > default && rounds(DETECT, SCATTER, 4) < 2 * default);
        assert_eq!(rounds(1e-4, 1.0, 1), ROUNDS_MAX);
        assert!(rounds(0.5, 1e-6, 1) >= TRIALS_MIN as u32);
    }

    #[test]
    fn a_round_scatters_as_two_trials_do() {
        let scattered = scatter(&[0.02, -0.02, 0.02, -0.02]).unwrap();
        assert!((scattered - 0.0004_f64.sqrt() * (4.0_f64 / 3.0 / 2.0).sqrt()).abs() < 1e-12);
        assert_eq!(scatter(&[0.1]), None);
    }
}
