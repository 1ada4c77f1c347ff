//! Decides if systems differ: intervals of ratios, and verdicts that hold for a whole family of questions.
//!
//! Figures are compared as logarithms, so differences are ratios. Trials of one round ran close in time. Within a run
//! each round therefore yields one difference, tested by Student's t over the rounds, and a slow quarter of an hour
//! that hit all systems cancels. Trials of two runs share no rounds; the distance between two runs of the same study
//! is estimated from several of them. Holm's method, with weights, corrects for the number of questions. Each
//! question's interval has the confidence of its Holm step, so a difference is declared exactly if the printed
//! interval excludes 1. The reasons, and simulations of this and other methods, are in `docs/method/comparison.md`
//! and `docs/evidence/statistics.md`.
//!
//! Not here: the choice of figures (`report`), the t distribution (`student`), the wording.

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{TRIALS_MIN, middle, student};

/// Probability of declaring any difference in a family that has none.
pub const FALSE_ALARMS: f64 = 0.05;
/// Share of [`FALSE_ALARMS`] that the family's leading questions divide. The others divide the rest, and inherit the
/// whole once the leading ones are declared.
pub const LEADING_SHARE: f64 = 0.8;
/// Probability of declaring a difference as large as `min_detectable`.
pub const SEEN_WITH: f64 = 0.9;
/// Quantile [`SEEN_WITH`] of the standard normal distribution.
const SEEN_QUANTILE: f64 = 1.281_551_6;
/// Minimum relative spread, given by the resolution of the histograms' buckets. Five trials whose p50 falls in one
/// bucket still have an error.
const SPREAD_MIN: f64 = 0.001;
/// Minimum number of runs for an estimate of the distance between runs.
pub const RUNS_MIN: usize = 5;
/// Number of bootstrap draws.
pub const RESAMPLES: usize = 2000;

/// Holds the figures of two systems in one quantity, all above zero.
#[derive(Debug, Clone, PartialEq)]
pub enum Trials {
    /// One run: both systems' figures of each round in which both have one.
    ByRound(Vec<(f64, f64)>),
    /// Two runs by their trials alone, without differences from run to run.
    Apart(Vec<f64>, Vec<f64>),
    /// Two runs of a study that was run more often.
    Runs {
        /// Figures of the first run.
        first: Vec<f64>,
        /// Figures of the second run.
        second: Vec<f64>,
        /// Figures of each run of the study, which show the distance between runs. The second may be one of them.
        runs: Vec<Vec<f64>>,
    },
}

/// Asks if one quantity differs between two systems.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Figures of both systems.
    pub trials: Trials,
    /// True if the load was run to answer this question.
    pub leading: bool,
    /// Scale of the comparison.
    pub scale: Scale,
}

/// Selects the scale of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Ratios of figures above zero.
    Ratio,
    /// Differences of shares, which may be zero.
    Points,
}

/// Selects the correction of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Correction {
    /// Holm's steps: for verdicts on the existence of a difference.
    Steps,
    /// All at once (Bonferroni): also for intervals that are compared with limits.
    AtOnce,
}

impl Scale {
    pub(super) fn apply(self, figure: f64) -> f64 {
        match self {
            Self::Ratio => figure.ln(),
            Self::Points => figure,
        }
    }

    pub(super) fn back(self, value: f64) -> f64 {
        match self {
            Self::Ratio => value.exp(),
            Self::Points => value,
        }
    }

    /// Returns the value that means no difference.
    fn none(self) -> f64 {
        match self {
            Self::Ratio => 1.0,
            Self::Points => 0.0,
        }
    }

    /// Returns the minimum spread.
    pub(super) fn spread_min(self) -> f64 {
        match self {
            Self::Ratio => SPREAD_MIN,
            Self::Points => SPREAD_MIN / 100.0,
        }
    }

    /// Returns the ratio of the first to the second, or their difference.
    pub fn between(self, first: f64, second: f64) -> f64 {
        match self {
            Self::Ratio => first / second,
            Self::Points => first - second,
        }
    }
}

/// Holds the result of a test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TestResult {
    /// Ratio of the medians, first to second; their difference for [`Scale::Points`].
    pub ratio: f64,
    /// Interval that decides the finding.
    pub interval: (f64, f64),
    /// Confidence of the interval: one minus the level, or more.
    pub confidence: f64,
    /// Declared finding.
    pub finding: Finding,
    /// Probability of figures at least this far apart without a difference.
    pub p_value: f64,
}

impl TestResult {
    /// Returns the result for the second system relative to the first.
    pub fn turned(self) -> Self {
        let turned = |(low, high): (f64, f64)| (1.0 / high, 1.0 / low);
        Self {
            ratio: 1.0 / self.ratio,
            interval: turned(self.interval),
            finding: match self.finding {
                Finding::Higher => Finding::Lower,
                Finding::Lower => Finding::Higher,
                none => none,
            },
            ..self
        }
    }
}

/// Names the declared finding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Finding {
    /// The first is higher.
    Higher,
    /// The first is lower.
    Lower,
    /// No difference is shown.
    NoneShown {
        /// True ratio, above 1, that this many trials would have declared with probability [`SEEN_WITH`]; a
        /// difference for [`Scale::Points`]. It uses an upper bound of the spread with confidence [`SEEN_WITH`],
        /// because a few trials estimate it poorly.
        min_detectable: f64,
    },
}

/// Holds the estimated difference of logarithms.
#[derive(Debug, Clone, Copy)]
struct Difference {
    mean: f64,
    error: f64,
    freedom: f64,
}

impl Trials {
    /// Returns the number of trials of each system.
    pub fn counts(&self) -> (usize, usize) {
        match self {
            Self::ByRound(rounds) => (rounds.len(), rounds.len()),
            Self::Apart(first, second) | Self::Runs { first, second, .. } => {
                (first.len(), second.len())
            }
        }
    }

    /// Returns true if these are too few to declare a difference.
    pub fn too_few(&self) -> bool {
        let (first, second) = self.counts();
        let runs = match self {
            Self::Runs { runs, .. } => runs.len(),
            Self::ByRound(_) | Self::Apart(..) => RUNS_MIN,
        };
        first.min(second) < TRIALS_MIN || runs < RUNS_MIN
    }

    fn difference(&self, scale: Scale) -> Difference {
        let least = scale.spread_min().powi(2);
        match self {
            Self::ByRound(rounds) => {
                let logs: Vec<f64> =
                    rounds.iter().map(|&(a, b)| scale.apply(a) - scale.apply(b)).collect();
                let (mean, variance) = moments(&logs);
                let count = logs.len() as f64;
                // Two figures contribute, each with its minimum spread.
                let variance = variance.max(2.0 * least);
                Difference { mean, error: (variance / count).sqrt(), freedom: count - 1.0 }
            }
            Self::Apart(first, second) => {
                let of = |figures: &[f64]| {
                    let logs: Vec<f64> =
                        figures.iter().map(|&figure| scale.apply(figure)).collect();
                    let (mean, variance) = moments(&logs);
                    let count = logs.len() as f64;
                    (mean, variance.max(least) / count, count - 1.0)
                };
                let ((mean_a, a, free_a), (mean_b, b, free_b)) = (of(first), of(second));
                // Degrees of freedom by Welch and Satterthwaite.
                let freedom = (a + b).powi(2) / (a * a / free_a + b * b / free_b);
                Difference { mean: mean_a - mean_b, error: (a + b).sqrt(), freedom }
            }
            Self::Runs { first, second, runs } => {
                let logs = |figures: &Vec<f64>| -> Vec<f64> {
                    figures.iter().map(|&figure| scale.apply(figure)).collect()
                };
                let runs: Vec<Vec<f64>> = runs.iter().map(logs).collect();
                between_runs(&logs(first), &logs(second), &runs, least)
            }
        }
    }

    /// Returns the ratio of the medians, first to second.
    fn ratio(&self, scale: Scale) -> f64 {
        let (mut first, mut second): (Vec<f64>, Vec<f64>) = match self {
            Self::ByRound(rounds) => rounds.iter().copied().unzip(),
            Self::Apart(first, second) | Self::Runs { first, second, .. } => {
                (first.clone(), second.clone())
            }
        };
        scale.between(median(&mut first), median(&mut second))
    }

    /// Returns the 95 % percentile bootstrap interval of the ratio of medians, uncorrected. It draws with replacement
    /// whole rounds, or each run's trials. The same seed gives the same draws. Returns `None` with too few trials.
    pub fn bootstrap(&self, scale: Scale, seed: u64) -> Option<(f64, f64)> {
        if self.too_few() {
            return None;
        }
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (count_a, count_b) = self.counts();
        let (mut first, mut second) = (vec![0.0; count_a], vec![0.0; count_b]);
        let mut draw = || {
            match self {
                Self::ByRound(rounds) => {
                    for (a, b) in first.iter_mut().zip(&mut second) {
                        (*a, *b) = rounds[rng.random_range(0..count_a)];
                    }
                }
                Self::Apart(one, other) | Self::Runs { first: one, second: other, .. } => {
                    first.iter_mut().for_each(|a| *a = one[rng.random_range(0..count_a)]);
                    second.iter_mut().for_each(|b| *b = other[rng.random_range(0..count_b)]);
                }
            }
            scale.between(median(&mut first), median(&mut second))
        };
        let mut ratios: Vec<f64> = (0..RESAMPLES).map(|_| draw()).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let tail = RESAMPLES / 40;
        Some((ratios[tail], ratios[RESAMPLES - 1 - tail]))
    }
}

/// Estimates the difference of two runs from the distance between runs, by a model of random effects.
///
/// A run's mean scatters by differences between runs and by its own trials. The variance of the means of several runs
/// contains both. So the difference of two has twice that variance, estimated with one degree of freedom less than
/// there are runs. If one of the two has fewer trials than those runs, the additional variance is added. The result
/// is never below the variance of their own trials. If the second run is one of `runs`, the test becomes
/// conservative, not wrong: an outlier also widens the error.
fn between_runs(first: &[f64], second: &[f64], runs: &[Vec<f64>], least: f64) -> Difference {
    let count = |of: &[f64]| of.len() as f64;
    let means: Vec<f64> = runs.iter().map(|run| moments(run).0).collect();
    let (_, of_means) = moments(&means);
    let squares: f64 = runs.iter().map(|run| moments(run).1 * (count(run) - 1.0)).sum();
    let free: f64 = runs.iter().map(|run| count(run) - 1.0).sum();
    let within = (squares / free).max(least);
    let of_one = runs.iter().map(|run| 1.0 / count(run)).sum::<f64>() / count(&means);
    let fewer = (1.0 / count(first) + 1.0 / count(second) - 2.0 * of_one).max(0.0);
    let ((mean_a, a), (mean_b, b)) = (moments(first), moments(second));
    let own = a.max(least) / count(first) + b.max(least) / count(second);
    let error = (2.0 * of_means + within * fewer).max(own).sqrt();
    Difference { mean: mean_a - mean_b, error, freedom: count(&means) - 1.0 }
}

fn median(of: &mut [f64]) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    middle(of)
}

/// Returns mean and variance, with n − 1, of at least two numbers.
fn moments(of: &[f64]) -> (f64, f64) {
    let count = of.len() as f64;
    let mean = of.iter().sum::<f64>() / count;
    let squares: f64 = of.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, squares / (count - 1.0))
}

/// Answers the questions of one family, in order. Returns `None` for those with too few trials, which do not count in
/// the family.
pub fn judge(family: &[Question], correction: Correction) -> Vec<Option<TestResult>> {
    judge_at(family, correction, FALSE_ALARMS)
}

/// Answers a family like [`judge`], with another probability of a false alarm than [`FALSE_ALARMS`], both sides
/// together.
pub fn judge_at(
    family: &[Question],
    correction: Correction,
    false_alarms: f64,
) -> Vec<Option<TestResult>> {
    let differences: Vec<Option<Difference>> = family
        .iter()
        .map(|one| (!one.trials.too_few()).then(|| one.trials.difference(one.scale)))
        .collect();
    let levels = levels(family, &differences, correction, false_alarms);
    let answer = |((question, difference), level): ((&Question, &Option<Difference>), f64)| {
        let difference = (*difference)?;
        Some(answer(&question.trials, question.scale, difference, level))
    };
    family.iter().zip(&differences).zip(levels).map(answer).collect()
}

/// Answers one question outside of any family, at this level; `None` with too few trials.
pub fn alone(trials: &Trials, scale: Scale, level: f64) -> Option<TestResult> {
    (!trials.too_few()).then(|| answer(trials, scale, trials.difference(scale), level))
}

/// Returns the 95 % interval of one system's figure by Student's t, stretched to include the median; `None` with too
/// few values. The interval is not corrected for other questions.
pub fn interval_alone(values: &[f64], scale: Scale) -> Option<(f64, f64)> {
    if values.len() < TRIALS_MIN {
        return None;
    }
    let logs: Vec<f64> = values.iter().map(|&value| scale.apply(value)).collect();
    let (mean, variance) = moments(&logs);
    let count = logs.len() as f64;
    let error = (variance.max(scale.spread_min().powi(2)) / count).sqrt();
    let reach = student::critical(FALSE_ALARMS, count - 1.0) * error;
    let median = median(&mut values.to_vec());
    Some((scale.back(mean - reach).min(median), scale.back(mean + reach).max(median)))
}

fn answer(trials: &Trials, scale: Scale, difference: Difference, level: f64) -> TestResult {
    let Difference { mean, error, freedom } = difference;
    let critical = student::critical(level, freedom);
    let ratio = trials.ratio(scale);
    let reach = critical * error;
    // The interval is centered on the mean of logarithms. It is stretched to include the printed ratio of medians.
    let low = scale.back(mean - reach).min(ratio);
    let high = scale.back(mean + reach).max(ratio);
    let finding = if low > scale.none() {
        Finding::Higher
    } else if high < scale.none() {
        Finding::Lower
    } else {
        let error = error * student::scatter_bound(freedom, SEEN_QUANTILE);
        let least = student::detectable(critical, freedom, SEEN_QUANTILE) * error;
        Finding::NoneShown { min_detectable: scale.back(least) }
    };
    let p_value = student::two_sided(mean.abs() / error, freedom);
    TestResult { ratio, interval: (low, high), confidence: 1.0 - level, finding, p_value }
}

/// Judges p-values as one family by Holm's method. Returns true for each that is declared. With a probability of at
/// most `false_alarms`, any of them is declared without a difference.
pub fn declared_together(p_values: &[f64], false_alarms: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut declared = vec![false; p_values.len()];
    for (before, place) in order.into_iter().enumerate() {
        let left = (p_values.len() - before) as f64;
        if p_values[place] >= false_alarms / left {
            break;
        }
        declared[place] = true;
    }
    declared
}

/// Returns the level of each question. In steps: Holm's method with weights (Holm, 1979). Each remaining question
/// gets its weight's share of `false_alarms`. If its p-value is at most that, it is declared and leaves its share to
/// the others, until none is. A declared question keeps its level.
fn levels(
    family: &[Question],
    differences: &[Option<Difference>],
    correction: Correction,
    false_alarms: f64,
) -> Vec<f64> {
    let count = |leading: bool| {
        let asked = family.iter().zip(differences);
        asked.filter(|(one, known)| known.is_some() && one.leading == leading).count()
    };
    let (leading, others) = (count(true), count(false));
    let weight = |one: &Question| match (leading, others) {
        (0, _) | (_, 0) => 1.0,
        _ if one.leading => LEADING_SHARE / leading as f64,
        _ => (1.0 - LEADING_SHARE) / others as f64,
    };
    let weights: Vec<f64> = family.iter().map(weight).collect();
    let p_value =
        |known: &Difference| student::two_sided(known.mean.abs() / known.error, known.freedom);
    let p_values: Vec<Option<f64>> =
        differences.iter().map(|known| known.as_ref().map(p_value)).collect();
    let mut levels: Vec<Option<f64>> = vec![None; family.len()];
    loop {
        let left = |place: &usize| p_values[*place].is_some() && levels[*place].is_none();
        let open: Vec<usize> = (0..family.len()).filter(left).collect();
        let all: f64 = open.iter().map(|&place| weights[place]).sum();
        let level = |place: usize| false_alarms * weights[place] / all;
        let declared: Vec<usize> = open
            .iter()
            .copied()
            .filter(|&place| p_values[place].is_some_and(|p| p < level(place)))
            .collect();
        if declared.is_empty() || correction == Correction::AtOnce {
            return (0..family.len())
                .map(|place| levels[place].unwrap_or_else(|| level(place)))
                .collect();
        }
        for place in declared {
            levels[place] = Some(level(place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_round(rounds: &[(f64, f64)]) -> Question {
        Question { trials: Trials::ByRound(rounds.to_vec()), leading: true, scale: Scale::Ratio }
    }

    fn only(question: Question) -> TestResult {
        judge(&[question], Correction::Steps)[0].expect("there are enough trials")
    }

    const DRIFTING: [(f64, f64); 5] =
        [(110.0, 100.0), (99.0, 90.0), (133.0, 120.0), (66.0, 60.5), (221.0, 200.0)];

    #[test]
    fn drift_between_rounds_cancels() {
        let answer = only(by_round(&DRIFTING));
        assert_eq!(answer.finding, Finding::Higher);
        assert_eq!(answer.ratio, 1.1, "110 by 100, the medians");
        let (low, high) = answer.interval;
        assert!(low > 1.09 && high < 1.12, "{answer:?}");
        let (first, second) = DRIFTING.iter().copied().unzip();
        let apart = only(Question {
            trials: Trials::Apart(first, second),
            leading: true,
            scale: Scale::Ratio,
        });
        assert!(matches!(apart.finding, Finding::NoneShown { .. }), "{apart:?}");
    }

    #[test]
    fn first_is_higher_exactly_if_second_is_lower() {
        let turned: Vec<(f64, f64)> = DRIFTING.iter().map(|&(a, b)| (b, a)).collect();
        let (one, other) = (only(by_round(&DRIFTING)), only(by_round(&turned)));
        assert_eq!(other.finding, Finding::Lower);
        assert!((one.interval.0 * other.interval.1 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn interval_is_students() {
        // Five logarithms of ratios with mean 0.1 and standard deviation 0.1; t is 2.776.
        let root = 0.1 * 2.0_f64.sqrt();
        let logs = [0.1 - root, 0.1, 0.1, 0.1, 0.1 + root].map(|log: f64| (log.exp(), 1.0));
        let answer = only(by_round(&logs));
        let reach = 2.7764 * 0.1 / 5.0_f64.sqrt();
        assert!((answer.interval.0.ln() - (0.1 - reach)).abs() < 1e-5, "{answer:?}");
        assert!((answer.interval.1.ln() - (0.1 + reach)).abs() < 1e-5, "{answer:?}");
        assert!((answer.confidence - 0.95).abs() < 1e-12);
    }

    #[test]
    fn two_runs_are_compared_by_welchs_test() {
        // Variances 0.04 and 0.01 of 3 and 4 logarithms: an error of 0.1258 with 2.78 degrees of freedom.
        let first = [-0.2_f64, 0.0, 0.2].map(f64::exp).to_vec();
        let half = 0.1 * 0.75_f64.sqrt();
        let second = [-half, -half, half, half].map(f64::exp).to_vec();
        let known = Trials::Apart(first, second).difference(Scale::Ratio);
        assert!((known.error - (0.04_f64 / 3.0 + 0.01 / 4.0).sqrt()).abs() < 1e-12, "{known:?}");
        let freedom =
            0.0158333_f64.powi(2) / (0.0133333_f64.powi(2) / 2.0 + 0.0025_f64.powi(2) / 3.0);
        assert!((known.freedom - freedom).abs() < 1e-3, "{known:?} {freedom}");
    }

    #[test]
    fn variance_between_runs_counts_for_both_runs() {
        // Five means of logarithms spaced by 0.1: a variance of 0.025 between runs, none within.
        let run = |place: i32| vec![(0.1 * f64::from(place)).exp(); 3];
        let runs: Vec<Vec<f64>> = (-2..=2).map(run).collect();
        let known = |first: usize| {
            let trials =
                Trials::Runs { first: vec![1.0; first], second: run(-2), runs: runs.clone() };
            assert!(!trials.too_few());
            trials.difference(Scale::Ratio)
        };
        let Difference { mean, error, freedom } = known(3);
        assert!((mean - 0.2).abs() < 1e-12 && (error - 0.05_f64.sqrt()).abs() < 1e-12, "{error}");
        assert_eq!(freedom, 4.0);
        assert_eq!(known(6).error, error, "more trials than usual do not bring runs together");
        let four = Trials::Runs { first: run(0), second: run(0), runs: runs[..4].to_vec() };
        assert!(four.too_few());
    }

    #[test]
    fn level_determines_the_confidence() {
        let answers = judge_at(&[by_round(&DRIFTING)], Correction::AtOnce, 0.002);
        assert!((answers[0].unwrap().confidence - 0.998).abs() < 1e-12, "{answers:?}");
    }

    #[test]
    fn more_questions_make_each_harder_to_answer() {
        let clear = by_round(&DRIFTING);
        let noise = |leading| Question {
            trials: Trials::ByRound(vec![(1.0, 1.2), (1.2, 1.0), (1.0, 1.1), (1.1, 1.0)]),
            leading,
            scale: Scale::Ratio,
        };
        let alone = only(clear.clone());
        let family = judge(&[clear.clone(), noise(true), noise(false)], Correction::Steps);
        let among = family[0].unwrap();
        assert!((alone.confidence - 0.95).abs() < 1e-12);
        assert!((among.confidence - 0.98).abs() < 1e-12, "half of 80 % of 5 %: {among:?}");
        assert!(among.interval.0 < alone.interval.0);
        // The declared first question leaves its share to the others: 0.4 of 0.6, and 0.2 of 0.6.
        assert!((family[1].unwrap().confidence - (1.0 - 0.05 * 0.4 / 0.6)).abs() < 1e-12);
        assert!((family[2].unwrap().confidence - (1.0 - 0.05 * 0.2 / 0.6)).abs() < 1e-12);
        // An unanswerable question takes nothing from the others.
        let short = Question {
            trials: Trials::ByRound(vec![(1.0, 2.0); 2]),
            leading: true,
            scale: Scale::Ratio,
        };
        let family = judge(&[clear, short], Correction::Steps);
        assert_eq!(family[1], None);
        assert!((family[0].unwrap().confidence - 0.95).abs() < 1e-12);
    }

    #[test]
    fn each_holm_step_leaves_more_to_the_rest() {
        assert_eq!(
            declared_together(&[0.03, 0.001, 0.02, 0.04], FALSE_ALARMS),
            [false, true, false, false]
        );
        assert_eq!(declared_together(&[0.03, 0.001, 0.012], FALSE_ALARMS), [true, true, true]);
        assert_eq!(declared_together(&[0.04], FALSE_ALARMS), [true]);
        assert!(declared_together(&[], FALSE_ALARMS).is_empty());
    }

    #[test]
    fn bonferroni_inherits_nothing() {
        let short = by_round(&[(1.0, 1.2), (1.2, 1.0), (1.0, 1.1)]);
        let both = [by_round(&DRIFTING), short];
        for (correction, expected) in [(Correction::AtOnce, 0.975), (Correction::Steps, 0.95)] {
            let confidence = judge(&both, correction)[1].unwrap().confidence;
            assert!((confidence - expected).abs() < 1e-12, "{correction:?}: {confidence}");
        }
    }

    #[test]
    fn shares_are_compared_as_differences() {
        let trials = Trials::Apart(vec![0.02, 0.021, 0.019], vec![0.0; 3]);
        let answer = only(Question { trials, leading: true, scale: Scale::Points });
        assert_eq!((answer.ratio, answer.finding), (0.02, Finding::Higher));
        assert!(answer.interval.0 > 0.017 && answer.interval.1 < 0.023, "{answer:?}");
        let none = Question {
            trials: Trials::Apart(vec![0.0; 3], vec![0.0; 3]),
            leading: true,
            scale: Scale::Points,
        };
        assert!(matches!(only(none).finding, Finding::NoneShown { .. }));
    }

    #[test]
    fn values_in_one_histogram_bucket_do_not_differ() {
        let same = |ratio: f64| only(by_round(&[(ratio, 1.0); 5])).finding;
        assert!(matches!(same(1.001), Finding::NoneShown { .. }));
        assert_eq!(same(1.01), Finding::Higher);
    }

    #[test]
    fn same_seed_draws_the_same_interval() {
        let rounds = |place: u32| {
            let place = f64::from(place);
            (100.0 + place * place, 100.0 - place)
        };
        let trials = Trials::ByRound((1..=7).map(rounds).collect());
        let drawn = trials.bootstrap(Scale::Ratio, 1);
        assert_eq!(drawn, trials.bootstrap(Scale::Ratio, 1));
        let (low, high) = drawn.expect("there are enough trials");
        let ratio = trials.ratio(Scale::Ratio);
        assert!(low < ratio && ratio < high, "{low} {ratio} {high}");
        // Nine in ten medians of seven draws with replacement are among the middle five.
        assert!(low >= 101.0 / 99.0 && high <= 149.0 / 93.0, "{low} {high}");
        assert_eq!(Trials::ByRound(vec![(1.0, 2.0); 2]).bootstrap(Scale::Ratio, 1), None);
    }
}
