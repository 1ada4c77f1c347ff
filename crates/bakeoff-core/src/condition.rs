//! Parses and judges conditions on the figures of a load: `p99 > 20ms`, `errors > 0.1%`, `throughput < 1000/s`.
//!
//! A condition compares one figure with one limit. Several conditions are stated separately, so that a message can
//! name the one that applied. If the figure does not exist (a percentile of nothing, or of too few operations), the
//! condition is neither true nor false, and [`ConditionResult::Unknown`] makes every caller handle that. A figure
//! that failures reach has a known lower bound. That decides a lower limit but not a higher one. A percentile to which the
//! generator may have added much is known between two bounds, and decides what both decide.
//!
//! Not here: the use of a condition (`--fail-if`, `--slo`), and the exit code.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use crate::histogram::Latencies;
use crate::lateness::{added_to, is_bound};
use crate::measurement::{Measurement, SILENCE_MIN};
use crate::ranked_latencies::{Percentile, RankedLatencies, sample_min};
use crate::units::{self, Unreadable, count_text, figure_text, latency_text, rate_text};

const METRICS: &str = "the figures are p50, p99, p99.9 and so on, max, mean, each also as \
                       `service p99` or `schedule lag p99`; throughput; errors; longest-silence";

/// Compares one figure with one limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    text: String,
    operator: Operator,
    limit: Limit,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Metric {
    Latency(LatencyKind, Point),
    Throughput,
    Errors,
    LongestSilence,
}

/// Selects a latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LatencyKind {
    /// From due to done.
    Response,
    /// From sent to done.
    Service,
    /// From due to sent.
    ScheduleLag,
}

/// Selects a position in a distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Point {
    /// Quantile, above 0 and below 1.
    Quantile(f64),
    Max,
    Mean,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Below,
    AtMost,
    Above,
    AtLeast,
}

/// Holds a figure and its limit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    Latency(LatencyKind, Point, Duration),
    Throughput(f64),
    Errors(u64),
    /// Share of all operations, 0 to 1.
    ErrorShare(f64),
    /// Longest time without a success; at least [`SILENCE_MIN`], because shorter ones are unknown.
    LongestSilence(Duration),
}

/// Holds the figures of one load that conditions refer to.
#[derive(Debug, Clone)]
pub struct Figures {
    response: RankedLatencies<'static>,
    service: RankedLatencies<'static>,
    schedule_lag: RankedLatencies<'static>,
    /// Response times without the generator's own delays.
    undelayed: Latencies,
    verified: u64,
    errors: u64,
    throughput: Option<f64>,
    longest_silence: Duration,
}

impl Figures {
    /// Combines all operations of a measurement.
    pub fn from_measurement(measurement: &Measurement) -> Self {
        let total = measurement.total();
        Self {
            verified: total.verified,
            errors: total.error_count(),
            response: total.responses().into_owned(),
            service: total.services().into_owned(),
            schedule_lag: RankedLatencies::of_values(&measurement.schedule_lag).into_owned(),
            undelayed: measurement.undelayed.clone(),
            throughput: measurement.throughput(),
            longest_silence: measurement.longest_silence(),
        }
    }

    /// Returns what the generator may have added to a percentile; zero for other figures.
    fn added(&self, which: LatencyKind, point: Point) -> Duration {
        let (LatencyKind::Response, Point::Quantile(quantile)) = (which, point) else {
            return Duration::ZERO;
        };
        added_to(self.response.successes(), &self.undelayed, quantile).unwrap_or_default()
    }
}

/// Holds the result of a condition, with the observed figure: `p99 is 23.1 ms`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConditionResult {
    /// The condition holds.
    Holds(String),
    /// The condition does not hold.
    HoldsNot(String),
    /// The figure does not exist, for this reason.
    Unknown(String),
}

/// Describes an error in a condition's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionError {
    /// Whole text.
    pub text: String,
    /// Byte range of the wrong part.
    pub place: Range<usize>,
    /// Fault, and the suggested fix.
    pub what: String,
}

impl fmt::Display for ConditionError {
    /// Writes the fault, then the text with the wrong part marked.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = |text: &str| text.chars().count();
        let before = columns(&self.text[..self.place.start]);
        let marks = columns(&self.text[self.place.clone()]).max(1);
        write!(to, "{}\n  {}\n  ", self.what, units::harmless(&self.text))?;
        write!(to, "{}{}", " ".repeat(before), "^".repeat(marks))
    }
}

impl std::error::Error for ConditionError {}

impl ConditionError {
    /// Creates an error for a range of a text, trimmed of surrounding space.
    pub fn at(text: &str, place: Range<usize>, what: String) -> Self {
        Self { text: text.to_owned(), place: trimmed(text, place), what }
    }
}

/// Returns the ranges before, of and after the comparison in a text. `none` is the error of a text without one.
pub fn split(text: &str, none: &str) -> Result<[Range<usize>; 3], ConditionError> {
    let Some(at) = text.find(['<', '>', '=', '!']) else {
        let what = format!("`{}`: {none}", units::shown(text.trim()));
        return Err(ConditionError::at(text, 0..text.len(), what));
    };
    let end = text.len() - text[at..].trim_start_matches(['<', '>', '=', '!']).len();
    Ok([0..at, at..end, end..text.len()])
}

impl fmt::Display for Condition {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let misread = |place, what| ConditionError::at(text, place, what);
        let what = "a condition compares a figure with a limit: `p99 > 20ms`";
        let [left, symbol, right] = split(text, what)?;
        let operator = match &text[symbol.clone()] {
            "<" => Operator::Below,
            "<=" => Operator::AtMost,
            ">" => Operator::Above,
            ">=" => Operator::AtLeast,
            other => {
                let what = "is not a comparison; use one of `<`, `<=`, `>` and `>=`";
                let what = format!("`{}` {what}", units::shown(other));
                return Err(misread(symbol, what));
            }
        };
        let metric =
            metric(&text[left.clone()]).map_err(|error| misread(left, error.to_string()))?;
        let limit = limit(metric, &text[right.clone()])
            .map_err(|error| misread(right, error.to_string()))?;
        let words: Vec<&str> = text.split_whitespace().collect();
        Ok(Self { text: words.join(" "), operator, limit })
    }
}

/// Trims white space off both ends of a range.
pub fn trimmed(text: &str, place: Range<usize>) -> Range<usize> {
    let part = &text[place.clone()];
    if part.trim().is_empty() {
        return place.start..place.start;
    }
    let start = place.start + part.len() - part.trim_start().len();
    start..start + part.trim().len()
}

/// Explains why a text names no figure.
#[derive(Debug, thiserror::Error)]
enum MetricError {
    #[error("there is no figure before the comparison; {METRICS}")]
    Missing,
    /// The text is not a figure. `near` is the figure that was probably meant.
    #[error(fmt = unknown_metric)]
    Unknown { text: String, near: Option<String> },
}

fn unknown_metric(text: &str, near: &Option<String>, to: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(to, "`{}` is not a figure; ", units::shown(text))?;
    if let Some(near) = near {
        write!(to, "did you mean `{near}`? ")?;
    }
    to.write_str(METRICS)
}

/// Explains why a text is not a limit for its figure.
#[derive(Debug, thiserror::Error)]
enum LimitError {
    /// There is no limit after the comparison with this figure.
    #[error("there is no limit after the comparison: write `{}`", example(.0))]
    Missing(Metric),
    /// The text is not a quantity of the figure's unit.
    #[error("{0}")]
    Unreadable(#[from] Unreadable),
    /// The text is a bare number, but the figure is a latency.
    #[error("`{0}` is not a duration; it has no unit; did you mean `{0}ms`?")]
    NoUnit(f64),
    #[error("silences are known from {} on: write a longer time", latency_text(SILENCE_MIN))]
    ShortSilence,
    #[error(
        "`{}` is not a number of errors; write a count, `0`, or their share of all operations, `0.1%`",
        units::shown(.0)
    )]
    NoCount(String),
}

/// Returns example limits of a metric, to stand between backticks.
fn example(metric: &Metric) -> &'static str {
    match metric {
        Metric::Latency(..) => "20ms",
        Metric::Throughput => "1000/s",
        Metric::Errors => "0` or `0.1%",
        Metric::LongestSilence => "500ms",
    }
}

fn metric(text: &str) -> Result<Metric, MetricError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (which, name) = match words[..] {
        [] => return Err(MetricError::Missing),
        ["throughput" | "rate"] => return Ok(Metric::Throughput),
        ["errors"] => return Ok(Metric::Errors),
        ["longest-silence"] | ["longest", "silence"] => return Ok(Metric::LongestSilence),
        [name] => (LatencyKind::Response, name),
        ["response", name] => (LatencyKind::Response, name),
        ["service", name] => (LatencyKind::Service, name),
        ["schedule", "lag", name] => (LatencyKind::ScheduleLag, name),
        _ => return Err(MetricError::Unknown { text: text.trim().to_owned(), near: None }),
    };
    let point =
        match name {
            "max" => Point::Max,
            "mean" => Point::Mean,
            _ => Point::Quantile(quantile(name).ok_or_else(|| MetricError::Unknown {
                text: name.to_owned(),
                near: nearest(name),
            })?),
        };
    Ok(Metric::Latency(which, point))
}

/// Parses `p99.9` as 0.999.
fn quantile(name: &str) -> Option<f64> {
    let digits = name.strip_prefix('p')?;
    let plain = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let percent: f64 = digits.parse().ok().filter(|_| plain)?;
    (percent > 0.0 && percent < 100.0).then_some(percent / 100.0)
}

/// Returns the figure that was probably meant by a name.
fn nearest(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "rps" | "qps" | "req/s" | "requests/s" => Some("throughput".to_owned()),
        "error" | "failures" | "errs" => Some("errors".to_owned()),
        "silence" | "stall" | "longest-stall" => Some("longest-silence".to_owned()),
        "avg" | "average" => Some("mean".to_owned()),
        "median" => Some("p50".to_owned()),
        "p100" | "maximum" => Some("max".to_owned()),
        "p999" => Some("p99.9".to_owned()),
        "p9999" => Some("p99.99".to_owned()),
        _ if quantile(&lower).is_some() => Some(lower),
        _ => ["throughput", "errors", "mean", "max", "longest-silence"]
            .into_iter()
            .find(|known| strsim::osa_distance(known, &lower) <= 2)
            .map(str::to_owned),
    }
}

fn limit(metric: Metric, text: &str) -> Result<Limit, LimitError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(LimitError::Missing(metric));
    }
    if let (Metric::Latency(..), Ok(number)) = (metric, text.parse::<f64>())
        && number.is_finite()
        && number >= 0.0
    {
        return Err(LimitError::NoUnit(number));
    }
    Ok(match metric {
        Metric::Latency(which, point) => Limit::Latency(which, point, units::parse_duration(text)?),
        Metric::Throughput => Limit::Throughput(units::parse_rate(text)?),
        Metric::LongestSilence => {
            let limit = units::parse_duration(text)?;
            if limit < SILENCE_MIN {
                return Err(LimitError::ShortSilence);
            }
            Limit::LongestSilence(limit)
        }
        Metric::Errors if text.ends_with('%') => Limit::ErrorShare(units::parse_share(text)?),
        Metric::Errors => {
            Limit::Errors(text.parse().map_err(|_| LimitError::NoCount(text.to_owned()))?)
        }
    })
}

impl Operator {
    fn holds<T: PartialOrd>(self, figure: T, limit: T) -> bool {
        match self {
            Self::Below => figure < limit,
            Self::AtMost => figure <= limit,
            Self::Above => figure > limit,
            Self::AtLeast => figure >= limit,
        }
    }
}

impl Operator {
    /// Returns whether it holds for a figure of at least `least`; `None` if that is undecided.
    fn holds_from<T: PartialOrd>(self, least: T, limit: T) -> Option<bool> {
        match self {
            Self::Below if least >= limit => Some(false),
            Self::AtMost if least > limit => Some(false),
            Self::Above if least > limit => Some(true),
            Self::AtLeast if least >= limit => Some(true),
            _ => None,
        }
    }
}

impl Condition {
    /// Judges these figures.
    pub fn check(&self, figures: &Figures) -> ConditionResult {
        let unknown =
            |why: &str| ConditionResult::Unknown(format!("{} is unknown: {why}", self.name()));
        let (holds, seen) = match self.limit {
            Limit::Latency(which, point, limit) => {
                let place = match latency(figures, which, point) {
                    Ok(place) => place,
                    Err(why) => return unknown(why),
                };
                let why = place.why_not().unwrap_or_default();
                match (place.latency(), place.least()) {
                    (Some(figure), _) => {
                        let holds = self.operator.holds(figure, limit);
                        let added = figures.added(which, point);
                        let own = figure.saturating_sub(added);
                        if is_bound(figure, added) && holds != self.operator.holds(own, limit) {
                            return unknown(&format!(
                                "to {} the generator may have added {}",
                                latency_text(figure),
                                latency_text(added)
                            ));
                        }
                        (holds, latency_text(figure))
                    }
                    (None, Some(least)) => match self.operator.holds_from(least, limit) {
                        Some(holds) => (holds, format!("at least {}: {why}", latency_text(least))),
                        None => return unknown(&why),
                    },
                    (None, None) => return unknown(&why),
                }
            }
            Limit::Throughput(limit) => match figures.throughput {
                Some(figure) => (self.operator.holds(figure, limit), rate_text(figure)),
                None => return unknown("no time passed"),
            },
            Limit::LongestSilence(limit) => {
                let known = figures.longest_silence;
                let seen = match known.is_zero() {
                    true => format!("below {}", latency_text(SILENCE_MIN)),
                    false => latency_text(known),
                };
                (self.operator.holds(known, limit), seen)
            }
            Limit::Errors(limit) => {
                (self.operator.holds(figures.errors, limit), count_text(figures.errors))
            }
            Limit::ErrorShare(limit) => {
                let all = figures.verified + figures.errors;
                if all == 0 {
                    return unknown("nothing ended that they could be a share of");
                }
                let share = figures.errors as f64 / all as f64;
                (self.operator.holds(share, limit), format!("{} %", figure_text(share * 100.0)))
            }
        };
        let seen = format!("{} is {seen}", self.name());
        if holds { ConditionResult::Holds(seen) } else { ConditionResult::HoldsNot(seen) }
    }

    /// Returns the figure's name as written: `service p99`.
    pub fn name(&self) -> &str {
        self.text.split(['<', '>']).next().unwrap_or_default().trim_end()
    }

    /// Returns the latency that it refers to, for a curve; `None` for another figure or a missing value.
    pub fn latency_of(&self, figures: &Figures) -> Option<Duration> {
        match self.limit {
            Limit::Latency(which, point, _) => latency(figures, which, point).ok()?.latency(),
            _ => None,
        }
    }

    /// Returns the number of operations that its percentile needs; `None` for another figure.
    pub fn sample_min(&self) -> Option<u64> {
        match self.limit {
            Limit::Latency(_, Point::Quantile(quantile), _) => Some(sample_min(quantile)),
            _ => None,
        }
    }

    /// Returns its latency limit; `None` for another figure.
    pub fn latency_limit(&self) -> Option<Duration> {
        match self.limit {
            Limit::Latency(_, _, limit) => Some(limit),
            _ => None,
        }
    }

    /// Returns the maximum latency that it allows; `None` for another figure.
    pub fn latency_max(&self) -> Option<Duration> {
        self.latency_limit().filter(|_| matches!(self.operator, Operator::Below | Operator::AtMost))
    }

    /// Returns true if it limits errors, so that the user has chosen the tolerated number.
    pub fn is_about_errors(&self) -> bool {
        matches!(self.limit, Limit::Errors(_) | Limit::ErrorShare(_))
    }
}

/// Returns the percentile, or why there is none.
fn latency(
    figures: &Figures,
    which: LatencyKind,
    point: Point,
) -> Result<Percentile, &'static str> {
    let of = match which {
        LatencyKind::Response => &figures.response,
        LatencyKind::Service => &figures.service,
        LatencyKind::ScheduleLag => &figures.schedule_lag,
    };
    if which != LatencyKind::ScheduleLag && figures.verified == 0 {
        return Err("there was no success");
    }
    if which == LatencyKind::ScheduleLag && of.count() == 0 {
        return Err("a closed load has no due times to be late for");
    }
    Ok(match point {
        Point::Quantile(quantile) => of.percentile(quantile),
        Point::Max => of.max(),
        Point::Mean => of.mean(),
    })
}

/// Returns the lowest rate, in operations per second, at which one try has enough operations for each percentile of
/// an objective; 0 without percentiles. `by_chance`: arrivals are random, so a try may have fewer than expected.
pub fn least_rate(objective: &[Condition], time: Duration, by_chance: bool) -> f64 {
    let needed = objective.iter().filter_map(Condition::sample_min).max().unwrap_or(0) as f64;
    // Adds three standard deviations of a Poisson process.
    let more = if by_chance { 3.0 * needed.sqrt() } else { 0.0 };
    (needed + more) / time.as_secs_f64()
}

#[cfg(test)]
mod tests;
