//! Decides how many rounds a gate needs, and judges an interval by a limit.
//!
//! A gate stops a merge if a figure is proven to be worse by more than [`MARGIN`], because code and data layout alone
//! moves figures by up to 1 %. It may be wrong in one merge of a thousand. It finds a loss of [`DETECT`] in nine of
//! ten merges that cause one.
//!
//! The required rounds depend on the scatter, which is unknown in advance. So a gate begins with the rounds that
//! suffice at a scatter of [`SCATTER`], estimates the scatter from them, and continues while they are too few
//! ([`shortfall`]; an internal pilot: Wittes and Brittain, Statistics in Medicine 9, 1990). It never looks at the
//! change itself before the end. Choosing rounds by the scatter raises the share of false stops by up to a factor of
//! two, which [`LEVEL`] allows for. The simulation is in `tests/statistics/gate.rs`.
//!
//! Not here: the test itself (`judge`), the choice of figures (`report::compare`).

use super::judge::LEADING_SHARE;
use super::{TRIALS_MIN, middle, student};

/// Probability of stopping a merge that changed nothing, over all questions of a gate.
pub const FALSE_STOPS: f64 = 0.001;
/// Loss that a gate must detect, as a share of the base's figure.
pub const DETECT: f64 = 0.05;
/// Loss that stops no merge by default, as a share of the base's figure.
pub const MARGIN: f64 = 0.01;
/// Assumed scatter of a figure from trial to trial, as a share of it.
pub const SCATTER: f64 = 0.015;
/// Level of a gate's family of questions. It covers both sides, but only one stops a merge. The other half pays for
/// choosing the rounds by the observed scatter.
pub const LEVEL: f64 = FALSE_STOPS;
/// Default maximum of rounds that the scatter may demand. They find [`DETECT`] up to a scatter of about 10 %.
pub const EXTENDED_MAX: u32 = 400;
/// Maximum number of proposed rounds.
pub const ROUNDS_MAX: u32 = 1000;
/// Share of merges that may remain without an answer.
const NO_ANSWER: f64 = 0.05;
/// Degrees of freedom from which Student's distribution counts as normal.
const NORMAL: f64 = 1e4;

/// Distance below the others, in spreads, at which a trial is slow. A normal trial is that slow once in millions.
const SLOW_SPREADS: f64 = 5.0;
/// Median absolute deviation of a normal distribution with standard deviation 1.
const MAD_OF_NORMAL: f64 = 0.6745;
/// Probability that an excluded share of slow trials would have shown at least one.
const SLOW_SEEN: f64 = 0.95;

/// Holds the losses that a gate distinguishes, as shares of the base's figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Losses {
    /// Loss that must be detected.
    pub detect: f64,
    /// Loss that stops no merge.
    pub margin: f64,
}

impl Losses {
    /// Returns the losses of a gate without conditions: the margin is [`MARGIN`], or half of `detect` if that is
    /// less.
    pub fn by_default(detect: f64) -> Self {
        Self { detect, margin: MARGIN.min(detect / 2.0) }
    }

    /// Returns the losses of a gate with this number of user conditions.
    pub fn asked(detect: f64, conditions: usize) -> Self {
        if conditions == 0 { Self::by_default(detect) } else { Self::exact(detect) }
    }

    /// Returns the losses of a gate with user conditions, which are exact: the margin is 0.
    pub fn exact(detect: f64) -> Self {
        Self { detect, margin: 0.0 }
    }
}

/// Locates an interval relative to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitPosition {
    /// All of it is beyond the limit: the change is proven.
    Beyond,
    /// None of it is beyond the limit by more than the slack: the change is ruled out.
    Within,
    /// Inconclusive.
    Across,
}

/// Locates an interval of changes. The question is a change below `limit`, or above it. A change beyond it by at most
/// `slack` need not be ruled out.
pub fn lies((low, high): (f64, f64), below: bool, limit: f64, slack: f64) -> LimitPosition {
    let (beyond, within) = match below {
        true => (high < limit, low >= limit - slack),
        false => (low > limit, high <= limit + slack),
    };
    match (beyond, within) {
        (true, _) => LimitPosition::Beyond,
        (_, true) => LimitPosition::Within,
        _ => LimitPosition::Across,
    }
}

/// Returns the rounds that answer whether there is a loss of `detect`, in nineteen of twenty merges, at this scatter
/// and number of leading questions. The number is even.
pub fn rounds(losses: Losses, scatter: f64, leading: usize) -> u32 {
    // More rounds are always better, so bisection finds the minimum.
    let (mut low, mut high) = (TRIALS_MIN as u32 / 2 + 1, ROUNDS_MAX / 2);
    while low < high {
        let middle = low.midpoint(high);
        match suffice(2 * middle, losses, scatter, leading) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    2 * low
}

/// Returns true if this many rounds answer the question of [`rounds`].
fn suffice(rounds: u32, losses: Losses, scatter: f64, leading: usize) -> bool {
    let leading = leading.max(1) as f64;
    let reach = student::critical(2.0 * NO_ANSWER / leading, NORMAL);
    let freedom = f64::from(rounds - 1);
    let critical = student::critical(LEVEL * LEADING_SHARE / leading, freedom);
    // The difference of a round has the scatter of two trials.
    let apart = (-losses.margin).ln_1p() - (-losses.detect).ln_1p();
    let difference = apart / (scatter * 2.0_f64.sqrt());
    student::detectable(critical, freedom, reach) <= difference * f64::from(rounds).sqrt()
}

/// Describes the rounds that a gate lacks to detect a loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shortfall {
    /// Number of additional rounds with valid trials of both builds.
    pub rounds: u32,
    /// Scatter of the figure that needs the most rounds, from trial to trial, as a share of it.
    pub scatter: f64,
}

/// Returns the missing rounds to detect a loss of `detect`, from differences of logarithms and the number of leading
/// questions. Returns `None` with at most [`TRIALS_MIN`] rounds, or if there are enough.
pub fn shortfall(differences: &[f64], losses: Losses, leading: usize) -> Option<Shortfall> {
    let valid = differences.len();
    let scatter = scatter(differences).filter(|_| valid > TRIALS_MIN)?;
    if suffice(valid as u32, losses, scatter, leading) {
        return None;
    }
    // At least one round is missing, even if the maximum would not suffice.
    let rounds = (rounds(losses, scatter, leading) as usize).saturating_sub(valid).max(1) as u32;
    Some(Shortfall { rounds, scatter })
}

/// Returns the total number of rounds after `run`, if `missing` more valid ones are needed: an even number more, at
/// most `most`. Returns `None` if none are missing, or if it would take more than twice `most`. The scatter is then
/// too large for an answer, and more rounds would waste time.
pub fn extended(run: u32, missing: u32, most: u32) -> Option<u32> {
    let rounds = run.saturating_add(missing.next_multiple_of(2));
    let hopeless = rounds > most.saturating_mul(2);
    (missing > 0 && run < most && !hopeless).then_some(rounds.min(most))
}

/// Returns the scatter of a trial's figures from the differences of rounds; `None` for fewer than two.
pub fn scatter(differences: &[f64]) -> Option<f64> {
    let count = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / count;
    let squares: f64 = differences.iter().map(|one| (one - mean).powi(2)).sum();
    (differences.len() > 1).then(|| (squares / (count - 1.0) / 2.0).sqrt())
}

/// Counts trials of the new build that are far below its others and are not explained by the base's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowTrials {
    /// Number of slow trials of the new build, at least 1.
    pub new: usize,
    /// Number of slow trials of the base.
    pub base: usize,
    /// Loss in the slowest round, as a share of the base's figure in that round.
    pub worst: f64,
}

/// Counts slow trials of the new build, from its gains in logarithms per round; negative gains are losses.
///
/// A trial is slow if it lost more than `detect` against the base, and if its round lies below the rounds' median by
/// more than that and by more than five spreads. The spread comes from the median absolute deviation. A slow trial of
/// the base puts its round as far above. Returns `None` if the base has slow trials too, unless the new build has
/// more by two standard errors.
pub fn slow_trials(gains: &[f64], detect: f64) -> Option<SlowTrials> {
    let middle_of = |values: &mut dyn Iterator<Item = f64>| {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_unstable_by(f64::total_cmp);
        (!sorted.is_empty()).then(|| middle(&sorted))
    };
    let centre = middle_of(&mut gains.iter().copied())?;
    let deviation = middle_of(&mut gains.iter().map(|gain| (gain - centre).abs()))?;
    let loss = -(-detect).ln_1p();
    let far = (SLOW_SPREADS * deviation / MAD_OF_NORMAL).max(loss);
    let new = gains.iter().filter(|&&gain| gain < -loss && centre - gain > far).count();
    let base = gains.iter().filter(|&&gain| gain - centre > far).count();
    let more = new as f64 - base as f64;
    let unexplained = base == 0 || more > 2.0 * ((new + base) as f64).sqrt();
    let worst = -gains.iter().copied().fold(0.0, f64::min).exp_m1();
    (new > 0 && unexplained).then_some(SlowTrials { new, base, worst })
}

/// Returns the largest share of slow trials, 0 to 1, with which a build shows none in one gate of twenty.
pub fn unseen_share(trials: usize) -> f64 {
    1.0 - (1.0 - SLOW_SEEN).powf(1.0 / trials.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOSSES: Losses = Losses { detect: DETECT, margin: MARGIN };

    #[test]
    fn slow_trial_of_only_the_new_build_is_reported() {
        let even = [0.01, -0.01, 0.005, -0.005, 0.0, 0.012];
        let with = |more: &[f64]| slow_trials(&[&even[..], more].concat(), DETECT);
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[-0.04]), None, "less than the loss that is looked for");
        let slow = with(&[0.5_f64.ln()]).unwrap();
        assert_eq!((slow.new, slow.base), (1, 0));
        assert!((slow.worst - 0.5).abs() < 1e-12);
        let faster: Vec<f64> = even.iter().map(|gain| gain + 2.0).chain([1.0]).collect();
        assert_eq!(slow_trials(&faster, DETECT), None, "it is quicker than the base in all");
        assert_eq!(with(&[-0.7, 0.7]), None, "the machine does it to both");
        assert_eq!(with(&[0.7]), None, "only the base is slow");
        let noisy: Vec<f64> = (0..12).map(|at| 0.1 * f64::from(at % 5 - 2)).collect();
        assert_eq!(slow_trials(&[&noisy[..], &[-0.4]].concat(), DETECT), None);
        assert_eq!(slow_trials(&[], DETECT), None);
    }

    #[test]
    fn unseen_share_of_slow_trials_falls_with_more_trials() {
        for (trials, expected) in [(1, 0.95), (7, 0.348), (14, 0.193), (59, 0.0495)] {
            let share = unseen_share(trials);
            assert!((share - expected).abs() < 5e-4, "{trials}: {share}");
            assert!(((1.0 - share).powi(trials as i32) - 0.05).abs() < 1e-12);
        }
    }

    #[test]
    fn interval_lies_beyond_within_or_across_a_limit() {
        for (interval, expected) in [
            ((-0.08, -0.01), LimitPosition::Beyond),
            ((-0.04, 0.01), LimitPosition::Within),
            ((-0.06, 0.01), LimitPosition::Across),
            ((0.01, 0.02), LimitPosition::Within),
        ] {
            assert_eq!(lies(interval, true, 0.0, 0.05), expected, "{interval:?}");
            let (low, high) = interval;
            assert_eq!(lies((-high, -low), false, 0.0, 0.05), expected, "{interval:?}");
        }
        assert_eq!(lies((-0.04, 0.01), true, 0.0, 0.0), LimitPosition::Across, "without slack");
    }

    #[test]
    fn smaller_losses_and_more_scatter_or_questions_need_more_rounds() {
        let default = rounds(LOSSES, SCATTER, 1);
        assert_eq!(default, 14);
        assert_eq!(rounds(Losses::exact(DETECT), SCATTER, 1), 10);
        assert!(rounds(Losses::by_default(0.02), SCATTER, 1) > 2 * default);
        assert!(rounds(LOSSES, 0.03, 1) >= 2 * default);
        assert!(rounds(LOSSES, SCATTER, 4) > default && rounds(LOSSES, SCATTER, 4) < 2 * default);
        assert_eq!(rounds(Losses::by_default(1e-4), 1.0, 1), ROUNDS_MAX);
        assert!(rounds(Losses::by_default(0.5), 1e-6, 1) >= TRIALS_MIN as u32);
    }

    #[test]
    fn rounds_are_added_until_sufficient_or_hopeless() {
        let quiet: Vec<f64> = (0..20).map(|at| 0.01 * f64::from(at % 2)).collect();
        assert_eq!(shortfall(&quiet, LOSSES, 1), None);
        let noisy: Vec<f64> = (0..12).map(|at| 0.1 * f64::from(at % 2)).collect();
        let lacks = shortfall(&noisy, LOSSES, 1).unwrap();
        let spread = 0.1 / 2.0 * (12.0_f64 / 11.0 / 2.0).sqrt();
        assert!((lacks.scatter - spread).abs() < 1e-12, "{lacks:?}");
        assert_eq!(lacks.rounds + 12, rounds(LOSSES, spread, 1));
        assert_eq!(shortfall(&noisy[..3], LOSSES, 1), None, "too few to know their scatter");
        assert_eq!(extended(12, 31, 100), Some(44));
        assert_eq!(extended(12, 0, 100), None);
        assert_eq!(extended(12, 120, 100), Some(100), "by the scatter of a few rounds");
        assert_eq!(extended(100, 20, 100), None, "all are run");
        assert_eq!(extended(12, 190, 100), None, "far more than are allowed");
    }

    #[test]
    fn round_scatters_like_two_trials() {
        let scattered = scatter(&[0.02, -0.02, 0.02, -0.02]).unwrap();
        assert!((scattered - 0.0004_f64.sqrt() * (4.0_f64 / 3.0 / 2.0).sqrt()).abs() < 1e-12);
        assert_eq!(scatter(&[0.1]), None);
    }
}
