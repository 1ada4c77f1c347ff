//! Finds the runs from which a figure is different, in a series of one figure per run.
//!
//! Two tests share the work, because three runs cannot prove what thirty can:
//!
//! - **Confirmed** changes come from e-divisive (Matteson and James, <https://arxiv.org/abs/1306.4933>): it splits a
//!   window of runs where the energy distance between both parts is largest, and then the parts. As in Hunter (Fleming
//!   et al., <https://doi.org/10.1145/3578244.3583719>) and Apache Otava, Student's t decides if a split counts, not
//!   permutations: the result is deterministic, and four runs suffice. Splits at ten times the level are found first,
//!   and the weakest is removed until all hold.
//! - **New** changes are losses in the last two to eight runs, by Student's t against the runs since the last confirmed
//!   change. Their levels ([`NEW_LEVELS`]) are far more lenient. A new change that was noise is gone a few runs later.
//!
//! Otava's defaults (a level of 0.001 and nothing for the newest runs) find a loss of 5 % at a scatter of 2 % within
//! three runs in 68 to 81 % of cases, and raise 1.5 false alerts in 200 runs. The levels here were chosen by simulation:
//! `docs/evidence/trends.md` has their power and false alarms, `docs/trend.md` the reasons.
//!
//! Neighbouring runs may be alike, because a machine has good and bad days. Both tests count correlated runs as fewer
//! independent ones (`Noise`).
//!
//! Not here: which figures form a series (`report`), two runs or builds (`judge`, `gate`).

use super::judge::Scale;
use super::rounds::Preference;
use super::{middle, student};

/// Most runs on either side of a change that are compared, and the length of e-divisive's windows.
pub const WINDOW: usize = 100;
/// Fewest runs on either side of a confirmed change.
pub const CONFIRMED_RUNS: usize = 4;
/// Level of the t-test of a confirmed change.
pub const CONFIRMED_LEVEL: f64 = 1e-5;
/// Factor of that level for splits before the weakest are removed.
const WEAK: f64 = 10.0;
/// Levels of the t-test for the newest 1, 2, … runs, with [`HISTORY`] runs before them.
pub const NEW_LEVELS: [f64; 8] = [0.0, 0.0002, 0.012, 0.004, 0.0015, 0.0006, 0.0003, 0.0002];
/// Runs before a new change at which [`NEW_LEVELS`] apply as they are. Fewer runs know the past less well, so the levels
/// rise in proportion, to keep the power.
pub const HISTORY: usize = 70;
/// Smallest and largest factor of the levels.
const LEVEL_FACTORS: (f64, f64) = (1.0, 2.6);
/// Fewest runs before a new change.
pub const BEFORE_MIN: usize = 10;
/// Smallest reported change. Two builds of the same code may differ by less.
pub const CHANGE_MIN: f64 = 0.01;
/// Smallest reported change of shares, which are compared by their difference.
const POINTS_MIN: f64 = 0.001;
/// Distance in runs up to which two change points are the same alert.
const SAME_ALERT: usize = 3;
/// Alerts count as recent for this many runs.
pub const RECENT: usize = 10;
/// Most runs by which a confirmed change is moved to where both sides differ most.
const MOVE: usize = 2;
/// Confidence of the interval of a change, and of its first run.
const CONFIDENCE: f64 = 0.95;
/// Fewest runs that show a correlation.
const CORRELATION_RUNS: usize = 20;
/// Standard errors by which an estimated correlation must exceed 0 to count for confirmed changes.
const CONFIRMED_ERRORS: f64 = 1.5;
/// The same for new changes. Few runs mistake chance for correlation, and would lose their power.
const NEW_ERRORS: f64 = 3.0;
/// Standard deviations up to which the difference of two runs counts in full. A step is one large difference of
/// neighbours and two of runs two apart, which would look like correlation.
const DIFFERENCE_MAX: f64 = 2.5;
/// Median of the size of a normal variable with standard deviation 1.
const SIZE_OF_NORMAL: f64 = 0.6745;
/// Largest correlation. With a larger one, no number of runs shows a change.
const CORRELATION_MAX: f64 = 0.9;

/// Describes a run from which a figure is different.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Index of the first run that is different.
    pub first: usize,
    /// Ratio of the level since then to the level before; their difference for [`Scale::Points`].
    pub ratio: f64,
    /// 95 % interval of the ratio, given that the change is there.
    pub interval: (f64, f64),
    /// Probability of runs at least this far apart without a change, for a place that was fixed beforehand.
    pub p_value: f64,
    /// False for a new change: the next runs confirm it, or it disappears.
    pub confirmed: bool,
    /// 95 % interval of the first different run: the earliest and the latest one, by index.
    pub first_runs: (usize, usize),
}

/// Counts how many alerts of a run are also alerts of the next run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AlertOverlap {
    /// Alerts that both of two neighbouring runs raise.
    pub both: usize,
    /// Alerts that at least one of them raises.
    pub either: usize,
}

impl AlertOverlap {
    /// Returns the share of alerts that neighbouring runs agree on, 0 to 1; `None` without alerts.
    pub fn share(self) -> Option<f64> {
        (self.either > 0).then(|| self.both as f64 / self.either as f64)
    }

    /// Adds the counts of another figure.
    pub fn add(&mut self, other: Self) {
        self.both += other.both;
        self.either += other.either;
    }
}

/// Finds the change points of a series, oldest first. `new`: also look in the last runs for
/// new changes for the worse of a figure that is better in this direction.
///
/// Values on [`Scale::Ratio`] have to be above zero.
///
/// ```
/// use bakeoff_core::stats::change_points::change_points;
/// use bakeoff_core::stats::judge::Scale;
/// use bakeoff_core::stats::rounds::Preference;
///
/// let mut runs: Vec<f64> = (0..30).map(|run| 1000.0 + f64::from(run % 5)).collect();
/// runs.extend([950.0, 952.0, 951.0]);
/// let found = change_points(&runs, Scale::Ratio, Some(Preference::More));
/// assert_eq!(found.len(), 1);
/// assert_eq!(found[0].first, 30);
/// assert!((found[0].ratio - 0.949).abs() < 0.001);
/// ```
pub fn change_points(values: &[f64], scale: Scale, new: Option<Preference>) -> Vec<ChangePoint> {
    let series: Vec<f64> = values.iter().map(|&value| scale.apply(value)).collect();
    let inflated = |of: &[f64], errors: f64| inflation(correlation(of, errors));
    // A new change must not look like correlation.
    let known = &series[..series.len().saturating_sub(NEW_LEVELS.len())];
    let inflations = [inflated(&series, CONFIRMED_ERRORS), inflated(known, NEW_ERRORS)];
    found(&series, inflations.map(|inflation| Noise { scale, inflation }), new)
}

/// Finds the change points as [`change_points`] does, as if runs were independent.
pub fn change_points_of_independent_runs(
    values: &[f64],
    scale: Scale,
    new: Option<Preference>,
) -> Vec<ChangePoint> {
    let series: Vec<f64> = values.iter().map(|&value| scale.apply(value)).collect();
    found(&series, [Noise { scale, inflation: 1.0 }; 2], new)
}

/// Returns the changes of a series, by the noise of confirmed and of new ones.
fn found(series: &[f64], noise: [Noise; 2], new: Option<Preference>) -> Vec<ChangePoint> {
    let mut found = confirmed(series, noise[0]);
    if let Some(better) = new {
        let from = found.last().map_or(0, |last| last.first);
        found.extend(newest(series, from, noise[1], better));
    }
    found
}

/// Describes the scatter of a series.
#[derive(Debug, Clone, Copy)]
struct Noise {
    scale: Scale,
    /// Correlated runs that know as much as one independent run.
    inflation: f64,
}

/// Returns the runs of this correlation that know as much as one independent run: (1 + r) / (1 - r), for the mean of many
/// runs of a first-order autoregression.
fn inflation(correlation: f64) -> f64 {
    (1.0 + correlation) / (1.0 - correlation)
}

/// Estimates the correlation of neighbouring runs, 0 to [`CORRELATION_MAX`].
///
/// Runs two apart differ more than neighbours do, by the factor 1 + r of a first-order autoregression. Differences hide
/// the level, and large ones are cut, so a change of it hardly matters. With *n* independent runs the estimate scatters by √(2/*n*). One of less
/// than `errors` times that counts as 0.
fn correlation(series: &[f64], errors: f64) -> f64 {
    let last = &series[series.len().saturating_sub(2 * WINDOW)..];
    if last.len() < CORRELATION_RUNS {
        return 0.0;
    }
    let apart = |by: usize| {
        let sizes = last.iter().zip(&last[by..]).map(|(one, other)| (one - other).abs());
        let mut sizes: Vec<f64> = sizes.collect();
        sizes.sort_unstable_by(f64::total_cmp);
        let most = DIFFERENCE_MAX * middle(&sizes) / SIZE_OF_NORMAL;
        sizes.iter().map(|size| size.min(most).powi(2)).sum::<f64>() / sizes.len() as f64
    };
    let (neighbours, second) = (apart(1), apart(2));
    let correlation = if neighbours > 0.0 { second / neighbours - 1.0 } else { 0.0 };
    let error = (2.0 / last.len() as f64).sqrt();
    match correlation >= errors * error {
        true => correlation.min(CORRELATION_MAX),
        false => 0.0,
    }
}

/// Counts, over the last [`WINDOW`] runs, how many recent alerts neighbouring runs agree on. Alerts of a real change stay,
/// and those of noise come and go.
pub fn alert_overlap(values: &[f64], scale: Scale, new: Option<Preference>) -> AlertOverlap {
    let mut overlap = AlertOverlap::default();
    let alerts = |runs: usize| change_points(&values[..runs], scale, new);
    let mut before: Option<Vec<ChangePoint>> = None;
    for runs in values.len().saturating_sub(WINDOW).max(1)..=values.len() {
        let now = alerts(runs);
        if let Some(before) = before {
            let recent = |one: &&ChangePoint| one.first + RECENT >= runs;
            let (of_now, of_before) =
                (now.iter().filter(recent).count(), before.iter().filter(recent).count());
            let kept = now.iter().filter(recent).filter(|one| {
                before.iter().any(|other| other.first.abs_diff(one.first) <= SAME_ALERT)
            });
            let both = kept.count();
            overlap.add(AlertOverlap { both, either: of_now + of_before.saturating_sub(both) });
        }
        before = Some(now);
    }
    overlap
}

/// Returns the level of some runs: their geometric mean; their mean for [`Scale::Points`].
pub fn level(values: &[f64], scale: Scale) -> f64 {
    let sum: f64 = values.iter().map(|&value| scale.apply(value)).sum();
    scale.back(sum / values.len() as f64)
}

/// Two neighbouring parts of a series, compared by Student's t with a common variance. With one run in a part, Welch's
/// test would have no variance for it.
#[derive(Debug, Clone, Copy)]
struct SplitTest {
    difference: f64,
    error: f64,
    freedom: f64,
}

impl SplitTest {
    fn new(before: &[f64], after: &[f64], noise: Noise) -> Self {
        let (mean_before, squares_before) = mean_and_squares(before);
        let (mean_after, squares_after) = mean_and_squares(after);
        let independent = |of: &[f64]| of.len() as f64 / noise.inflation;
        let (count_before, count_after) = (independent(before), independent(after));
        // With one degree of freedom nothing is found, and with fewer there is no distribution.
        let freedom = (count_before + count_after - 2.0).max(1.0);
        let squares = squares_before + squares_after;
        let variance = squares / (freedom * noise.inflation);
        let variance = variance.max(noise.scale.spread_min().powi(2));
        let error = (variance * (1.0 / count_before + 1.0 / count_after)).sqrt();
        Self { difference: mean_after - mean_before, error, freedom }
    }

    /// Returns the distance of both means in standard errors.
    fn distance(self) -> f64 {
        (self.difference / self.error).abs()
    }

    fn p_value(self) -> f64 {
        student::two_sided(self.distance(), self.freedom)
    }

    /// Returns true if the change is large enough to be reported.
    fn matters(self, scale: Scale) -> bool {
        self.difference.abs() >= smallest(scale)
    }

    fn change_point(
        self,
        (first, first_runs): (usize, (usize, usize)),
        scale: Scale,
        confirmed: bool,
    ) -> ChangePoint {
        let reach = student::critical(1.0 - CONFIDENCE, self.freedom) * self.error;
        let back = |difference: f64| scale.back(difference);
        ChangePoint {
            first,
            ratio: back(self.difference),
            interval: (back(self.difference - reach), back(self.difference + reach)),
            p_value: self.p_value(),
            confirmed,
            first_runs,
        }
    }
}

fn smallest(scale: Scale) -> f64 {
    match scale {
        Scale::Ratio => CHANGE_MIN.ln_1p(),
        Scale::Points => POINTS_MIN,
    }
}

fn mean_and_squares(of: &[f64]) -> (f64, f64) {
    let mean = of.iter().sum::<f64>() / of.len() as f64;
    (mean, of.iter().map(|value| (value - mean).powi(2)).sum())
}

/// Returns the confirmed changes of a series.
fn confirmed(series: &[f64], noise: Noise) -> Vec<ChangePoint> {
    let mut places = weak_splits(series, noise);
    loop {
        // A change that is too small counts as the weakest.
        let weakness = |(nth, &place)| {
            let split = split_at(&places, nth, place, series, noise);
            (nth, if split.matters(noise.scale) { split.p_value() } else { 1.0 })
        };
        let weakest = places.iter().enumerate().map(weakness);
        let weakest = weakest.max_by(|(_, one), (_, other)| one.total_cmp(other));
        match weakest {
            Some((nth, p_value)) if p_value > CONFIRMED_LEVEL => {
                places.remove(nth);
            }
            _ => return (0..places.len()).map(|nth| moved(&places, nth, series, noise)).collect(),
        }
    }
}

/// Returns a confirmed change at the place, at most [`MOVE`] runs away, where both sides differ most. E-divisive cannot
/// place a change nearer to the end than [`CONFIRMED_RUNS`].
fn moved(places: &[usize], nth: usize, series: &[f64], noise: Noise) -> ChangePoint {
    let split = |place| (place, split_at(places, nth, place, series, noise));
    let from = nth.checked_sub(1).map_or(0, |nth| places[nth]) + CONFIRMED_RUNS - MOVE;
    let to = places.get(nth + 1).copied().unwrap_or(series.len()) + MOVE - CONFIRMED_RUNS;
    let near = from.max(places[nth] - MOVE)..=to.min(places[nth] + MOVE);
    let best =
        near.map(split).max_by(|(_, one), (_, other)| one.distance().total_cmp(&other.distance()));
    let (place, split) = best.unwrap_or_else(|| split(places[nth]));
    let firsts = first_runs(series, around(places, nth, place, series.len()), place, noise);
    split.change_point((place, firsts), noise.scale, true)
}

/// Compares the runs before and after a place between its neighbouring changes.
fn split_at(places: &[usize], nth: usize, place: usize, series: &[f64], noise: Noise) -> SplitTest {
    let (from, to) = around(places, nth, place, series.len());
    SplitTest::new(&series[from..place], &series[place..to], noise)
}

/// Returns the runs between the neighbouring changes of a place, at most [`WINDOW`] on each side.
fn around(places: &[usize], nth: usize, place: usize, runs: usize) -> (usize, usize) {
    let from = nth.checked_sub(1).map_or(0, |nth| places[nth]).max(place.saturating_sub(WINDOW));
    (from, places.get(nth + 1).copied().unwrap_or(runs).min(place + WINDOW))
}

/// Returns the 95 % interval of the first run after a change in `series[from..to]`, around `place`.
///
/// Each place is as probable as its split makes the runs, for normal noise of unknown size: the sum of squares around both
/// means, to the power of minus half the number of independent runs.
fn first_runs(
    series: &[f64],
    (from, to): (usize, usize),
    place: usize,
    noise: Noise,
) -> (usize, usize) {
    let part = &series[from..to];
    let count = part.len();
    let (mean, squares) = mean_and_squares(part);
    let power = count as f64 / noise.inflation / 2.0;
    let least = noise.scale.spread_min().powi(2) * count as f64;
    let mut before = 0.0;
    // The logarithm of the probability of each place from the second run on, up to a constant.
    let logs: Vec<f64> = (1..count)
        .map(|place| {
            before += part[place - 1] - mean;
            let explained = before * before * (1.0 / place as f64 + 1.0 / (count - place) as f64);
            -power * (squares - explained).max(least).ln()
        })
        .collect();
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|log| (log - most).exp()).collect();
    let all: f64 = weights.iter().sum();
    let at = (place - from).saturating_sub(1).min(weights.len().saturating_sub(1));
    let (mut low, mut high) = (at, at);
    let mut sum = weights.get(at).copied().unwrap_or(0.0);
    while sum < CONFIDENCE * all && (low > 0 || high + 1 < weights.len()) {
        let below = low.checked_sub(1).map_or(-1.0, |low| weights[low]);
        let above = weights.get(high + 1).copied().unwrap_or(-1.0);
        if below > above {
            (low, sum) = (low - 1, sum + below);
        } else {
            (high, sum) = (high + 1, sum + above);
        }
    }
    (from + low + 1, from + high + 1)
}

/// Returns true if another system changed as this one did, so that the machine is the likely cause: in the same direction,
/// by at least half as much, and their ratio shows no change at 5 %. Both have a figure above zero for each run; the
/// change is at `first`.
pub fn moved_alike(own: &[f64], other: &[f64], first: usize) -> bool {
    let runs = own.len().min(other.len());
    if first == 0 || first >= runs || runs < 3 {
        return false;
    }
    let logs = |of: &[f64]| -> Vec<f64> { of[..runs].iter().map(|value| value.ln()).collect() };
    let (own, other) = (logs(own), logs(other));
    let ratio: Vec<f64> = own.iter().zip(&other).map(|(own, other)| own - other).collect();
    let noise = Noise { scale: Scale::Ratio, inflation: 1.0 };
    let split = |of: &[f64]| SplitTest::new(&of[..first], &of[first..], noise);
    let share = split(&other).difference / split(&own).difference;
    share >= 0.5 && split(&ratio).p_value() > 1.0 - CONFIDENCE
}

/// Splits overlapping windows of a series as long as a split reaches the weak level. Returns the places in ascending
/// order.
fn weak_splits(series: &[f64], noise: Noise) -> Vec<usize> {
    let mut places = Vec::new();
    let mut start = 0;
    loop {
        let end = (start + WINDOW).min(series.len());
        let mut parts = vec![(start, end)];
        let mut last = start;
        while let Some((from, to)) = parts.pop() {
            let Some((place, end)) = most_different(&series[from..to]) else { continue };
            let (place, end) = (from + place, from + end);
            let split = SplitTest::new(&series[from..place], &series[place..end], noise);
            if split.p_value() <= CONFIRMED_LEVEL * WEAK {
                places.push(place);
                last = last.max(place);
                parts.extend([(from, place), (place, to)]);
            }
        }
        if end == series.len() {
            break;
        }
        start = last.max(start + WINDOW / 2);
    }
    places.sort_unstable();
    places.dedup();
    // Windows that overlap may place one change twice; the later one has more runs behind it.
    places.dedup_by(|later, earlier| {
        let same = *later - *earlier < CONFIRMED_RUNS;
        if same {
            *earlier = *later;
        }
        same
    });
    places
}

/// Returns the place where a series is most different before and after, by the energy distance with exponent 1, and the
/// end of the part behind it. `None` if it is too short.
///
/// The part behind the place may end anywhere, so that a change that was undone is found too. The statistic is the
/// divergence of Matteson and James, scaled by the lengths of both parts. Sums are carried along, so it takes n² steps.
fn most_different(series: &[f64]) -> Option<(usize, usize)> {
    let count = series.len();
    let distance = |i: usize, j: usize| (series[i] - series[j]).abs();
    // Sum of the distances of each run to all before it.
    let to_earlier: Vec<f64> =
        (0..count).map(|run| (0..run).map(|earlier| distance(earlier, run)).sum()).collect();
    let mut best: Option<(f64, (usize, usize))> = None;
    // Sum of the distances of each run to those before the place, and of the distances among those.
    let (mut to_left, mut among_left) = (vec![0.0; count], 0.0);
    for place in 1..count {
        among_left += to_earlier[place - 1];
        for (run, sum) in to_left.iter_mut().enumerate().skip(place) {
            *sum += distance(place - 1, run);
        }
        if place < CONFIRMED_RUNS {
            continue;
        }
        let (mut across, mut among_right) = (0.0, 0.0);
        for run in place..count {
            across += to_left[run];
            among_right += to_earlier[run] - to_left[run];
            if run + 1 - place < CONFIRMED_RUNS {
                continue;
            }
            let (left, right) = (place as f64, (run + 1 - place) as f64);
            let within = right / (left - 1.0) * among_left + left / (right - 1.0) * among_right;
            let energy = 2.0 / (left + right) * (across - within);
            if best.is_none_or(|(most, _)| energy > most) {
                best = Some((energy, (place, run + 1)));
            }
        }
    }
    best.map(|(_, places)| places)
}

/// Returns a change for the worse in the last runs, compared with those from `from` on.
fn newest(series: &[f64], from: usize, noise: Noise, better: Preference) -> Option<ChangePoint> {
    let mut best: Option<(f64, ChangePoint)> = None;
    for (runs, level) in (1..).zip(NEW_LEVELS) {
        let Some(first) = series.len().checked_sub(runs) else { break };
        let from = from.max(first.saturating_sub(WINDOW));
        if first < from + BEFORE_MIN {
            break;
        }
        let (before, after) = (&series[from..first], &series[first..]);
        let split = SplitTest::new(before, after, noise);
        let is_worse = (split.difference < 0.0) == (better == Preference::More);
        if !is_worse || !split.matters(noise.scale) || !most_are_beyond(before, after, better) {
            continue;
        }
        let (least, most) = LEVEL_FACTORS;
        let level = level * (HISTORY as f64 / before.len() as f64).clamp(least, most);
        let distance = split.distance();
        if split.p_value() <= level && best.is_none_or(|(most, _)| distance > most) {
            let firsts = first_runs(series, (from, series.len()), first, noise);
            best = Some((distance, split.change_point((first, firsts), noise.scale, false)));
        }
    }
    best.map(|(_, found)| found)
}

/// Returns true if most of the new runs, and at least two, are worse than the mean of the earlier ones by more than a
/// standard deviation. A single bad run is an outlier, whatever it does to a mean.
fn most_are_beyond(before: &[f64], after: &[f64], better: Preference) -> bool {
    let (mean, squares) = mean_and_squares(before);
    let deviation = (squares / (before.len() as f64 - 1.0)).sqrt();
    let is_beyond = |value: &&f64| match better {
        Preference::More => **value < mean - deviation,
        Preference::Less => **value > mean + deviation,
    };
    let beyond = after.iter().filter(is_beyond).count();
    beyond >= 2 && 2 * beyond > after.len()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_distr::{Distribution as _, StandardNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// Returns runs at these levels, each with a length, that alternate by 1 %.
    fn runs(levels: &[(f64, usize)]) -> Vec<f64> {
        let of_one = |&(level, count): &(f64, usize)| {
            (0..count).map(move |run| level * if run % 2 == 0 { 0.995 } else { 1.005 })
        };
        levels.iter().flat_map(of_one).collect()
    }

    fn firsts(values: &[f64], new: Option<Preference>) -> Vec<(usize, bool)> {
        let found = change_points(values, Scale::Ratio, new);
        found.iter().map(|one| (one.first, one.confirmed)).collect()
    }

    #[test]
    fn step_is_no_correlation() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let runs = |rng: &mut Xoshiro256PlusPlus, correlation: f64, step: f64| -> Vec<f64> {
            let mut noise = 0.0;
            let run = |run: usize| {
                let normal: f64 = StandardNormal.sample(rng);
                noise = correlation * noise + normal;
                0.01 * noise + if run < 30 { 0.0 } else { step }
            };
            (0..40).map(run).collect()
        };
        let mut mean = |correlation: f64, step: f64| -> f64 {
            let of = |_| super::correlation(&runs(&mut rng, correlation, step), CONFIRMED_ERRORS);
            (0..200).map(of).sum::<f64>() / 200.0
        };
        let none = mean(0.0, 0.0);
        for step in [0.05, 0.2, 3.0] {
            let with = mean(0.0, step);
            assert!(with < none + 0.15, "{step}: {none} {with}");
        }
        assert!(mean(0.7, 0.0) > 0.5);
    }

    #[test]
    fn steps_are_placed_at_their_first_run() {
        let lower = runs(&[(100.0, 30), (90.0, 20)]);
        assert_eq!(firsts(&lower, None), [(30, true)]);
        let undone = runs(&[(100.0, 30), (90.0, 10), (100.0, 30)]);
        assert_eq!(firsts(&undone, None), [(30, true), (40, true)]);
        let far = runs(&[(100.0, 170), (96.0, 80), (92.0, 60)]);
        assert_eq!(firsts(&far, None), [(170, true), (250, true)]);
        let found = change_points(&lower, Scale::Ratio, None)[0];
        assert!((found.ratio - 0.9).abs() < 1e-9 && found.p_value < 1e-9, "{found:?}");
        assert!(found.interval.0 < 0.9 && 0.9 < found.interval.1, "{found:?}");
    }

    #[test]
    fn new_losses_are_found_in_the_better_direction_only() {
        let lower = runs(&[(100.0, 20), (98.0, 3)]);
        assert_eq!(firsts(&lower, Some(Preference::More)), [(20, false)]);
        assert_eq!(firsts(&lower, Some(Preference::Less)), []);
        assert_eq!(firsts(&lower, None), []);
        // Nine runs know too little of the past.
        assert_eq!(firsts(&lower[11..], Some(Preference::More)), []);
    }

    #[test]
    fn outliers_small_changes_and_short_series_are_no_changes() {
        let mut outlier = runs(&[(100.0, 40)]);
        outlier[38] = 70.0;
        assert_eq!(firsts(&outlier, Some(Preference::More)), []);
        assert_eq!(firsts(&runs(&[(100.0, 60), (99.2, 60)]), Some(Preference::More)), []);
        assert_eq!(firsts(&[100.0; 50], Some(Preference::More)), []);
        for length in 0..9 {
            assert_eq!(firsts(&runs(&[(100.0, length)]), Some(Preference::More)), []);
        }
    }

    #[test]
    fn shares_are_compared_by_their_difference() {
        let values = [[0.0; 20].as_slice(), &[0.05; 10]].concat();
        let found = change_points(&values, Scale::Points, Some(Preference::Less));
        assert_eq!(found.len(), 1);
        assert!(found[0].first == 20 && (found[0].ratio - 0.05).abs() < 1e-9, "{found:?}");
        assert!((level(&values, Scale::Points) - 0.05 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn overlap_distinguishes_a_step_from_a_blip() {
        let step = runs(&[(100.0, 30), (90.0, 20)]);
        let share = alert_overlap(&step, Scale::Ratio, Some(Preference::More)).share().unwrap();
        assert!(share > 0.8, "{share}");
        let blip = runs(&[(100.0, 30), (98.0, 3), (100.0, 20)]);
        let share = alert_overlap(&blip, Scale::Ratio, Some(Preference::More)).share().unwrap();
        assert!(share <= 0.6, "{share}");
        assert_eq!(alert_overlap(&[100.0; 40], Scale::Ratio, None).share(), None);
    }
}
