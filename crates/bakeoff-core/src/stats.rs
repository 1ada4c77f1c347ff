//! What several trials say together: medians, ranges, and the sentence that compares systems.
//!
//! Simple on purpose. Each trial yields one figure; trials are combined by their median and shown
//! with their range. Two systems differ only when each has [`TRIALS_MIN`] valid trials and no trial
//! of one lies within the range of the other's. With three trials each and no difference at all,
//! that happens by chance once in ten times (2 of the 20 ways in which six values can be ordered),
//! so it is evidence, not proof; with five each it is once in 126.
//!
//! Not here: intervals and corrections for the number of comparisons; how figures are shown
//! (`report`).

use crate::units::figure_text;

/// Fewer valid trials of a system than this are an observation, and no finding.
pub const TRIALS_MIN: usize = 3;

/// One figure of one trial, or of several.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    /// There is none: nothing was recorded.
    Absent,
    /// A number, in its quantity's unit.
    Value(f64),
    /// A latency beyond the longest that is told apart: more than an hour, by an unknown amount.
    Beyond,
}

impl Figure {
    /// The number, where there is one.
    pub fn value(self) -> Option<f64> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Beyond => None,
        }
    }
}

impl From<Option<f64>> for Figure {
    fn from(value: Option<f64>) -> Self {
        value.filter(|value| value.is_finite()).map_or(Self::Absent, Self::Value)
    }
}

/// What the trials of one system yielded for one quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The middle one; the mean of the two middle ones of an even number.
    pub median: Figure,
    /// The least.
    pub min: Figure,
    /// The most.
    pub max: Figure,
    /// How many trials had a figure.
    pub trials: usize,
}

/// Combines one quantity's figures of several trials.
///
/// Trials without a figure are left out and not counted. `Beyond` is more than every number; an
/// even number of trials whose upper middle one is `Beyond` has the median `Beyond`, since half of
/// what is unknown is unknown.
pub fn summary(figures: impl IntoIterator<Item = Figure>) -> Summary {
    let mut known: Vec<f64> = figures
        .into_iter()
        .filter_map(|figure| match figure {
            Figure::Absent => None,
            Figure::Value(value) => Some(value),
            Figure::Beyond => Some(f64::INFINITY),
        })
        .collect();
    known.sort_by(f64::total_cmp);
    let figure = |value: f64| {
        if value.is_finite() { Figure::Value(value) } else { Figure::Beyond }
    };
    match known.as_slice() {
        [] => {
            Summary { median: Figure::Absent, min: Figure::Absent, max: Figure::Absent, trials: 0 }
        }
        [first, .., last] | [first @ last] => Summary {
            median: figure(middle(&known)),
            min: figure(*first),
            max: figure(*last),
            trials: known.len(),
        },
    }
}

/// The median of sorted numbers, of which there is at least one.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

/// How the rates of two systems compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pair {
    /// One of them has fewer than [`TRIALS_MIN`] valid trials.
    TooFew,
    /// Their ranges overlap or touch.
    Overlap,
    /// Every trial of the one is above every trial of the other.
    Apart {
        /// The higher median divided by the lower one; infinite when that is zero.
        ratio: f64,
        /// The lowest of the higher trials divided by the highest of the lower: the least ratio of
        /// any two trials.
        least: f64,
        /// The greatest ratio of any two trials.
        most: f64,
    },
}

/// Compares the rates of two systems' valid trials; `higher` is the one with the higher median.
pub fn pair(higher: &[f64], lower: &[f64]) -> Pair {
    if higher.len().min(lower.len()) < TRIALS_MIN {
        return Pair::TooFew;
    }
    let (high, low) = (Range::of(higher), Range::of(lower));
    if high.min <= low.max {
        return Pair::Overlap;
    }
    Pair::Apart {
        ratio: high.median / low.median,
        least: high.min / low.max,
        most: high.max / low.min,
    }
}

struct Range {
    min: f64,
    median: f64,
    max: f64,
}

impl Range {
    /// Of at least one number.
    fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self { min: sorted[0], median: middle(&sorted), max: sorted[sorted.len() - 1] }
    }
}

/// One system under one workload and load, as the sentence sees it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contender {
    /// Its name.
    pub name: String,
    /// Mean throughput of each valid trial, per second.
    pub rates: Vec<f64>,
    /// Median over its valid trials of the 99th percentile of response time, as text.
    pub p99: Option<String>,
    /// What must be said wherever it is said to be better: errors, failed audits.
    pub caveats: Vec<String>,
    /// Why it takes no part, as a clause: `consul has no valid trial (…)`.
    pub left_out: Option<String>,
    /// Whether all that was offered in an open load was done in time, in every valid trial.
    pub kept_up: bool,
}

/// The sentence about one workload and load.
///
/// `operations` is what is counted (`puts`), `place` where (`create/steady`), `open` whether the
/// load was open. Contenders that are `left_out` are named with their reason and never ranked. The
/// rest is ranked by median, and the best is compared with each of the others by [`pair`]. In an
/// open load that all kept up with, throughput is what was offered and shows no difference, so none
/// is looked for. Caveats stand in the same sentence.
pub fn sentence(operations: &str, place: &str, open: bool, contenders: &[Contender]) -> String {
    let takes_part = |one: &&Contender| one.left_out.is_none() && !one.rates.is_empty();
    let ranked: Vec<&Contender> = contenders.iter().filter(takes_part).collect();
    let what = format!("{operations} per second under {place}");
    let mut clauses = match ranked.as_slice() {
        [] => vec![format!("nothing can be said of {what}")],
        [only] => vec![format!("{} did {} {what} {}", only.name, median(only), in_trials(&ranked))],
        all if open && all.iter().all(|one| one.kept_up) => vec![kept_up(all, &what)],
        all => compared(all, operations, place),
    };
    let p99: Vec<String> = ranked
        .iter()
        .filter_map(|one| Some(format!("{} {}", one.name, one.p99.as_ref()?)))
        .collect();
    if !p99.is_empty() {
        clauses.push(format!("p99 response time: {}", p99.join(", ")));
    }
    let caveats: Vec<&str> =
        ranked.iter().flat_map(|one| one.caveats.iter().map(String::as_str)).collect();
    if !caveats.is_empty() {
        // Right behind the claim that it qualifies.
        clauses.insert(1, format!("but {}", and(&caveats)));
    }
    clauses.extend(contenders.iter().filter_map(|one| one.left_out.clone()));
    clauses.join("; ")
}

fn kept_up(all: &[&Contender], what: &str) -> String {
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    let rates: Vec<String> = all.iter().map(|one| median(one)).collect();
    format!(
        "{} kept up with what was offered: {} {what} {}",
        and(&names),
        and(&rates),
        in_trials(all)
    )
}

/// The clauses that compare the best with each other.
fn compared(all: &[&Contender], operations: &str, place: &str) -> Vec<String> {
    if all.iter().all(|one| one.rates.len() < TRIALS_MIN) {
        return vec![observed(all, operations, place)];
    }
    let mut ranked = all.to_vec();
    ranked.sort_by(|a, b| Range::of(&b.rates).median.total_cmp(&Range::of(&a.rates).median));
    let (best, others) = (ranked[0], &ranked[1..]);
    let (mut apart, mut rest, mut compared) = (Vec::new(), Vec::new(), vec![best]);
    for other in others {
        match pair(&best.rates, &other.rates) {
            Pair::Apart { ratio, least, most } => {
                compared.push(other);
                let range = format!("{} to {}", ratio_text(least), ratio_text(most));
                apart.push((ratio_text(ratio), range, &other.name));
            }
            Pair::Overlap => rest.push((false, *other)),
            Pair::TooFew => rest.push((true, *other)),
        }
    }
    let mut clauses = Vec::new();
    if !apart.is_empty() {
        let medians: Vec<String> = compared.iter().map(|one| median(one)).collect();
        let (times, pairs) = match apart.as_slice() {
            [(ratio, range, other)] => {
                (format!("{ratio} times {other}'s"), format!("{range} over all pairs of trials"))
            }
            several => {
                let times = several
                    .iter()
                    .map(|(ratio, range, other)| format!("{ratio} times {other}'s ({range})"));
                let pairs = "ranges are over all pairs of trials".to_owned();
                (and(&times.collect::<Vec<_>>()), pairs)
            }
        };
        clauses.push(format!(
            "{} sustained {times} {operations} per second under {place} (medians {} {}; {pairs})",
            best.name,
            and(&medians),
            in_trials(&compared),
        ));
    }
    for (too_few, other) in rest {
        let of = if clauses.is_empty() {
            format!(" {operations} per second under {place}")
        } else {
            String::new()
        };
        clauses.push(if too_few {
            format!("{}: too few to call a difference", did(&[best, other], &of))
        } else {
            let (ours, theirs) = (range(best), range(other));
            let of = if of.is_empty() { of } else { format!(" in{of}") };
            format!(
                "no difference shown between {} and {}{of} (their trials overlap: {ours} and {theirs})",
                best.name, other.name,
            )
        });
    }
    clauses
}

/// What was seen in too few trials to call it more; in the study's order.
fn observed(all: &[&Contender], operations: &str, place: &str) -> String {
    let what = format!(" {operations} per second under {place}");
    format!("{}: too few to call a difference", did(all, &what))
}

/// `etcd did 2,921 and zookeeper 3,115 puts per second under create/best in 1 trial each`.
fn did(all: &[&Contender], what: &str) -> String {
    let each: Vec<String> = (0..)
        .zip(all)
        .map(|(place, one)| {
            let did = if place == 0 { " did" } else { "" };
            format!("{}{did} {}", one.name, median(one))
        })
        .collect();
    format!("{}{what} {}", and(&each), in_trials(all))
}

/// `in 1 trial each`; `in 3 and 1 trials`.
fn in_trials(all: &[&Contender]) -> String {
    let counts: Vec<usize> = all.iter().map(|one| one.rates.len()).collect();
    let plural = |count: usize| if count == 1 { "trial" } else { "trials" };
    match counts.as_slice() {
        [only] => format!("in {only} {}", plural(*only)),
        [first, others @ ..] if others.iter().all(|count| count == first) => {
            format!("in {first} {} each", plural(*first))
        }
        _ => {
            let texts: Vec<String> = counts.iter().map(usize::to_string).collect();
            format!("in {} trials", and(&texts))
        }
    }
}

fn median(of: &Contender) -> String {
    figure_text(Range::of(&of.rates).median)
}

fn range(of: &Contender) -> String {
    let range = Range::of(&of.rates);
    format!("{} to {}", figure_text(range.min), figure_text(range.max))
}

/// Three digits where the ratio is near 1, so that a difference is never shown as `1.00 times`.
fn ratio_text(ratio: f64) -> String {
    match ratio {
        ratio if !ratio.is_finite() => "infinitely many".to_owned(),
        ratio if ratio < 1.01 => format!("{ratio:.4}"),
        ratio if ratio < 1.1 => format!("{ratio:.3}"),
        ratio => figure_text(ratio),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn and<T: AsRef<str>>(items: &[T]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    match items.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::Figure::{Absent, Beyond, Value};
    use super::*;

    #[test]
    fn trials_are_combined_by_their_median() {
        let check = |figures: &[Figure], median, min, max, trials| {
            let expected = Summary { median, min, max, trials };
            assert_eq!(summary(figures.iter().copied()), expected, "{figures:?}");
        };
        check(&[], Absent, Absent, Absent, 0);
        check(&[Absent], Absent, Absent, Absent, 0);
        check(&[Value(3.0)], Value(3.0), Value(3.0), Value(3.0), 1);
        check(&[Value(9.0), Value(1.0), Value(2.0)], Value(2.0), Value(1.0), Value(9.0), 3);
        check(&[Value(4.0), Absent, Value(1.0)], Value(2.5), Value(1.0), Value(4.0), 2);
        check(&[Value(1.0), Beyond, Value(2.0)], Value(2.0), Value(1.0), Beyond, 3);
        check(&[Value(1.0), Beyond], Beyond, Value(1.0), Beyond, 2);
    }

    #[test]
    fn ranges_that_touch_show_no_difference() {
        assert_eq!(pair(&[3.0, 4.0, 5.0], &[1.0, 2.0, 3.0]), Pair::Overlap);
        assert_eq!(pair(&[4.0, 5.0], &[1.0, 2.0, 3.0]), Pair::TooFew);
        assert_eq!(
            pair(&[4.0, 8.0, 6.0], &[1.0, 2.0, 3.0]),
            Pair::Apart { ratio: 3.0, least: 4.0 / 3.0, most: 8.0 }
        );
    }

    fn did(name: &str, rates: &[f64]) -> Contender {
        Contender { name: name.into(), rates: rates.to_vec(), ..Contender::default() }
    }

    fn check(contenders: &[Contender], expected: &str) {
        assert_eq!(sentence("puts", "create/steady", false, contenders), expected);
    }

    const HIGH: &[f64] = &[5200.0, 5000.0, 5100.0];
    const LOW: &[f64] = &[2900.0, 3000.0, 2950.0];

    #[test]
    fn a_difference_needs_three_trials_each_that_do_not_overlap() {
        check(
            &[did("zookeeper", LOW), did("etcd", HIGH)],
            "etcd sustained 1.73 times zookeeper's puts per second under create/steady (medians \
             5,100 and 2,950 in 3 trials each; 1.67 to 1.79 over all pairs of trials)",
        );
        check(
            &[did("etcd", HIGH), did("zookeeper", &[5150.0, 5900.0, 5800.0])],
            "no difference shown between zookeeper and etcd in puts per second under create/steady \
             (their trials overlap: 5,150 to 5,900 and 5,000 to 5,200)",
        );
        check(
            &[did("etcd", &[2921.0]), did("zookeeper", &[3115.0])],
            "etcd did 2,921 and zookeeper 3,115 puts per second under create/steady in 1 trial \
             each: too few to call a difference",
        );
        check(
            &[did("etcd", HIGH), did("zookeeper", &[3115.0])],
            "etcd did 5,100 and zookeeper 3,115 puts per second under create/steady in 3 and 1 \
             trials: too few to call a difference",
        );
    }

    #[test]
    fn the_best_is_compared_with_each_of_the_others() {
        check(
            &[did("consul", &[1000.0; 3]), did("etcd", HIGH), did("zookeeper", &[5150.0; 3])],
            "zookeeper sustained 5.15 times consul's puts per second under create/steady (medians \
             5,150 and 1,000 in 3 trials each; 5.15 to 5.15 over all pairs of trials); no \
             difference shown between zookeeper and etcd (their trials overlap: 5,150 to 5,150 and \
             5,000 to 5,200)",
        );
        check(
            &[did("consul", &[1000.0; 3]), did("etcd", HIGH), did("zookeeper", LOW)],
            "etcd sustained 1.73 times zookeeper's (1.67 to 1.79) and 5.10 times consul's (5.00 to \
             5.20) puts per second under create/steady (medians 5,100, 2,950 and 1,000 in 3 trials \
             each; ranges are over all pairs of trials)",
        );
    }

    #[test]
    fn errors_are_said_in_the_sentence_that_calls_a_system_better() {
        let caveats = vec!["5.2 % of etcd's operations failed".to_owned()];
        let etcd = Contender { caveats, p99: Some("12.0 ms".into()), ..did("etcd", HIGH) };
        check(
            &[etcd, did("zookeeper", LOW)],
            "etcd sustained 1.73 times zookeeper's puts per second under create/steady (medians \
             5,100 and 2,950 in 3 trials each; 1.67 to 1.79 over all pairs of trials); but 5.2 % of \
             etcd's operations failed; p99 response time: etcd 12.0 ms",
        );
    }

    #[test]
    fn a_system_without_a_valid_trial_is_named_and_not_ranked() {
        let why = Some("consul has no valid trial (it was interrupted)".to_owned());
        let consul = Contender { left_out: why, ..did("consul", &[9e9]) };
        check(
            &[did("etcd", &[2921.0]), consul.clone()],
            "etcd did 2,921 puts per second under create/steady in 1 trial; consul has no valid \
             trial (it was interrupted)",
        );
        check(
            &[consul],
            "nothing can be said of puts per second under create/steady; consul has no valid trial \
             (it was interrupted)",
        );
    }

    #[test]
    fn an_open_load_that_all_kept_up_with_shows_no_difference_in_throughput() {
        let kept_up = |name, rates| Contender { kept_up: true, ..did(name, rates) };
        let both = [kept_up("etcd", &[1000.0; 3]), kept_up("zookeeper", &[999.0; 3])];
        assert_eq!(
            sentence("operations", "mixed/open", true, &both),
            "etcd and zookeeper kept up with what was offered: 1,000 and 999 operations per second \
             under mixed/open in 3 trials each"
        );
    }

    #[test]
    fn a_small_difference_is_not_shown_as_none() {
        assert_eq!(ratio_text(1.002), "1.0020");
        assert_eq!(ratio_text(1.05), "1.050");
        assert_eq!(ratio_text(1.74), "1.74");
        assert_eq!(ratio_text(f64::INFINITY), "infinitely many");
    }
}
