//! Conditions on changes between two runs: `throughput < -5%`, `create/steady etcd: p99 > +10%`.
//!
//! A condition is met only if that is proven: the whole interval of the change lies beyond the limit. It is not met if
//! the whole interval lies on the other side. Otherwise the outcome is unknown.
//!
//! Not here: conditions on the figures of one load (`condition`), the exit code.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use bakeoff_core::condition::{ConditionError, split, trimmed};
use bakeoff_core::read_write_split::Side;
use bakeoff_core::stats::gate::{self, LimitPosition};
use bakeoff_core::stats::judge::Scale;
use bakeoff_core::stats::rounds::Preference;
use bakeoff_core::units::{self, count_text, figure_text, plural};

use super::{RunComparison, scale};
use crate::derive::judgement::better;
use crate::model::quantity::{Point, Quantity, WatchQuantity};

const METRICS: &str = "the figures are throughput; p50, p90, p95, p99, p99.9, mean and max, each \
                       also as `service p99`; errors, cpu, memory; of a read/write split `writes \
                       throughput`, `reads p99` and the like; of watchers `known p50`, `known p99`";

/// A limit on the change of one figure.
#[derive(Debug, Clone, PartialEq)]
pub struct FailIf {
    /// The condition as given. Ranges refer to it.
    raw: String,
    text: String,
    place: QuotedName,
    system: QuotedName,
    quantity: Quantity,
    below: bool,
    /// Relative to the base's figure; for errors, a share of all operations.
    limit: f64,
    /// Share of a gate's loss that the limit already allows; 0 for a user's condition.
    margin: f64,
}

/// Outcome of a condition. The texts give the place and the observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailIfOutcome {
    /// Proven at these places.
    Proven(Vec<String>),
    /// Proven nowhere, but not ruled out at these places.
    CannotTell(Vec<String>),
    /// Proven not to hold.
    HoldsNot,
}

impl fmt::Display for FailIf {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

impl FromStr for FailIf {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let misread = |place, what| ConditionError::at(text, place, what);
        let what = "a condition compares a change with a limit: `throughput < -5%`";
        let [left, symbol, right] = split(text, what)?;
        let below = match &text[symbol.clone()] {
            "<" => true,
            ">" => false,
            other => {
                let what =
                    format!("`{}` cannot compare changes; write `<` or `>`", units::shown(other));
                return Err(misread(symbol, what));
            }
        };
        let (place, system, figure) = about(text, left.end)?;
        let quantity =
            quantity(&text[figure.clone()]).map_err(|error| misread(figure, error.to_string()))?;
        let limit = percent(&text[right.clone()])
            .map_err(|error| misread(right.clone(), error.to_string()))?;
        let bare = text[right.clone()].trim();
        if below && limit > 0.0 && !bare.starts_with('+') {
            let what = format!(
                "`{bare}` has no sign, so every loss is below it: write `-{bare}` for a loss, `+{bare}` for a gain"
            );
            return Err(misread(right, what));
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        Ok(Self {
            raw: text.to_owned(),
            text: words.join(" "),
            place,
            system,
            quantity,
            below,
            limit,
            margin: 0.0,
        })
    }
}

type QuotedName = Option<(String, Range<usize>)>;
/// Place, system, and range of the figure.
type FigurePlace = (QuotedName, QuotedName, Range<usize>);

/// Parses the text before the comparison, up to byte `end`: place, system, and range of the figure.
fn about(text: &str, end: usize) -> Result<FigurePlace, ConditionError> {
    let left = &text[..end];
    let mut from = left.len() - left.trim_start().len();
    let mut place = None;
    let first = left[from..].split_whitespace().next().unwrap_or_default();
    if first.contains('/') {
        place = Some((first.to_owned(), from..from + first.len()));
        from += first.len();
    }
    let mut system = None;
    if let Some(colon) = left[from..].find(':') {
        let range = trimmed(text, from..from + colon);
        let name = text[range.clone()].to_owned();
        if name.is_empty() || name.contains(char::is_whitespace) {
            let what = "the text before the colon is not the name of one system".to_owned();
            return Err(ConditionError::at(text, range, what));
        }
        system = Some((name, range));
        from += colon + 1;
    }
    Ok((place, system, from..end))
}

/// A part of a condition without a valid figure or change.
#[derive(Debug, thiserror::Error)]
enum PartError {
    #[error("no figure before the comparison; {METRICS}")]
    NoFigure,
    #[error("unknown figure `{}`; {METRICS}", units::shown(.0))]
    UnknownFigure(String),
    #[error("no limit after the comparison: write `-5%` or `+10%`")]
    NoLimit,
    #[error(
        "`{}` is not a change; a change is relative to the base run's figure: write `-5%` or `+10%`",
        units::shown(.0)
    )]
    NoChange(String),
}

fn quantity(text: &str) -> Result<Quantity, PartError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let point = |name: &str| {
        Some(match name {
            "p10" => Point::P10,
            "p25" => Point::P25,
            "p50" => Point::P50,
            "p75" => Point::P75,
            "p90" => Point::P90,
            "p95" => Point::P95,
            "p99" => Point::P99,
            "p99.9" | "p999" => Point::P999,
            "mean" => Point::Mean,
            "max" => Point::Slowest,
            _ => return None,
        })
    };
    let found = match words[..] {
        [] => return Err(PartError::NoFigure),
        ["throughput" | "rate"] => Some(Quantity::ThroughputMean),
        ["errors"] => Some(Quantity::ErrorShare),
        ["cpu"] => Some(Quantity::CpuPerOperation),
        ["memory"] => Some(Quantity::MemorySum),
        ["writes", "throughput" | "rate"] => Some(Quantity::ThroughputOf(Side::Writes)),
        ["reads", "throughput" | "rate"] => Some(Quantity::ThroughputOf(Side::Reads)),
        ["writes", name @ ("p50" | "p99")] => {
            point(name).map(|point| Quantity::ResponseOf(Side::Writes, point))
        }
        ["reads", name @ ("p50" | "p99")] => {
            point(name).map(|point| Quantity::ResponseOf(Side::Reads, point))
        }
        ["known", name @ ("p50" | "p99")] => {
            point(name).map(|point| Quantity::Watch(WatchQuantity::Known(point)))
        }
        [name] | ["response", name] => point(name).map(Quantity::Response),
        ["service", name] => point(name).map(Quantity::Service),
        _ => None,
    };
    found.ok_or_else(|| PartError::UnknownFigure(text.trim().to_owned()))
}

/// Parses `-5%` as -0.05.
fn percent(text: &str) -> Result<f64, PartError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(PartError::NoLimit);
    }
    let plain = |number: &str| {
        let digits = number.trim_start_matches(['+', '-', '\u{2212}']);
        digits.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    let number = text.strip_suffix('%').map(|number| number.trim_end().replace('\u{2212}', "-"));
    let number = number.filter(|number| plain(number)).and_then(|number| number.parse().ok());
    number.map(|percent: f64| percent / 100.0).ok_or_else(|| PartError::NoChange(text.to_owned()))
}

impl FailIf {
    /// Returns a gate's default condition: this figure is worse at this place by more than `margin`.
    pub(super) fn worse(place: &str, quantity: Quantity, margin: f64) -> Self {
        let below = better(quantity) == Preference::More;
        let (what, sign) = if below { ("lower", -1.0) } else { ("higher", 1.0) };
        let by = figure_text(margin * 100.0);
        let text = format!("{place}: {} is {what} by more than {by} %", quantity.label());
        let place = Some((place.to_owned(), 0..0));
        let limit = sign * margin;
        Self { raw: text.clone(), text, place, system: None, quantity, below, limit, margin }
    }

    /// Returns true if the condition is about a figure that became worse.
    fn is_of_a_loss(&self) -> bool {
        self.below == (better(self.quantity) == Preference::More)
    }

    pub(super) fn quantity(&self) -> Quantity {
        self.quantity
    }

    /// Returns true if the condition is about this system at this place.
    pub(super) fn is_about(&self, place: &str, system: &str) -> bool {
        let is = |named: &QuotedName, name: &str| named.as_ref().is_none_or(|(one, _)| one == name);
        is(&self.place, place) && is(&self.system, system)
    }

    /// Checks that its names occur in the comparison.
    pub fn check_names(&self, compared: &RunComparison) -> Result<(), ConditionError> {
        let places = compared.sections.iter().map(|section| section.place.as_str());
        let systems = compared.changes().map(|(_, change)| change.system.as_str());
        self.check_among(&places.collect::<Vec<_>>(), &systems.collect::<Vec<_>>(), "in both runs")
    }

    /// Checks that its names are among these places (`create/steady`) and systems. `there`: where they should occur,
    /// for the error.
    pub fn check_among(
        &self,
        places: &[&str],
        systems: &[&str],
        there: &str,
    ) -> Result<(), ConditionError> {
        for (named, known) in [(&self.place, places), (&self.system, systems)] {
            let Some((name, at)) = named.as_ref().filter(|(name, _)| !known.contains(&&**name))
            else {
                continue;
            };
            let mut all: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            all.sort_unstable();
            all.dedup();
            let all = if all.is_empty() { "nothing".to_owned() } else { all.join(", ") };
            let what = format!("`{name}` is not {there}; known: {all}");
            return Err(ConditionError { text: self.raw.clone(), place: at.clone(), what });
        }
        Ok(())
    }

    /// Evaluates the condition on all changes that it is about.
    pub(super) fn ask(&self, compared: &RunComparison) -> FailIfOutcome {
        let (mut proven, mut unclear) = (Vec::new(), Vec::new());
        let mut any = false;
        for (section, change) in compared.changes() {
            let (place, load) = (&section.place, &section.load);
            if change.quantity != self.quantity || !self.is_about(place, &change.system) {
                continue;
            }
            any = true;
            let with = change.clients.map(|clients| plural(clients.into(), "client"));
            let with = with.map(|with| format!(" with {with}")).unwrap_or_default();
            let at = format!("{place} {}{with}", change.system);
            let Some((low, high)) = change.interval() else {
                unclear.push(match &change.why_not {
                    Some(why) => format!("{at}: {why}"),
                    None => format!("{at}: not judged"),
                });
                continue;
            };
            let seen = format!(
                "{at}: {} ({load}; {} interval {} to {})",
                self.signed(change.change().unwrap_or_default()),
                compared.confidence_text(),
                self.signed(low),
                self.signed(high)
            );
            let slack = compared.slack(scale(self.quantity)) - self.margin;
            let slow = change.slow_text().filter(|_| self.is_of_a_loss());
            match gate::lies((low, high), self.below, self.limit, slack) {
                LimitPosition::Beyond => proven.push(seen),
                LimitPosition::Within => unclear.extend(slow.map(|slow| format!("{seen}; {slow}"))),
                LimitPosition::Across if slow.is_some() => {
                    unclear.extend(slow.map(|slow| format!("{seen}; {slow}")));
                }
                LimitPosition::Across => unclear.push(match &change.more_trials {
                    Some(more) => format!("{seen}; {more}"),
                    None => seen,
                }),
            }
        }
        if !any {
            unclear.push("none of its figures was compared".to_owned());
        }
        match (proven.is_empty(), unclear.is_empty()) {
            (false, _) => FailIfOutcome::Proven(proven),
            (true, false) => FailIfOutcome::CannotTell(unclear),
            (true, true) => FailIfOutcome::HoldsNot,
        }
    }

    fn signed(&self, change: f64) -> String {
        signed(change, scale(self.quantity))
    }
}

/// Formats a change: `+3.2 %`, `-12 %`; for shares `+3.2 points`.
pub(crate) fn signed(change: f64, scale: Scale) -> String {
    // A change that rounds to 0 has no sign. A hundredfold growth and more is a factor.
    if scale == Scale::Ratio && change >= 100.0 {
        return format!("to {} times", figure_text(change + 1.0));
    }
    let sign = match change {
        change if (change * 1000.0).round() == 0.0 => "",
        change if change < 0.0 => "-",
        _ => "+",
    };
    let unit = match scale {
        Scale::Ratio => "%",
        Scale::Points => "points",
    };
    let size = change.abs() * 100.0;
    let text = match size {
        size if size < 10.0 => format!("{size:.1}"),
        size => count_text(size.round() as u64),
    };
    format!("{sign}{text} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn misread(text: &str, expected: &str) {
        let misread = text.parse::<FailIf>().expect_err(text).to_string();
        assert!(misread.starts_with(expected), "{misread}");
    }

    #[test]
    fn condition_names_place_system_and_figure() {
        let read = |text: &str| text.parse::<FailIf>().unwrap_or_else(|error| panic!("{error}"));
        let all = read("throughput < -5%");
        assert_eq!((all.quantity, all.below, all.limit), (Quantity::ThroughputMean, true, -0.05));
        assert!(all.is_about("create/steady", "etcd"));
        let one = read("create/steady etcd:  service p99.9 > +10 %");
        assert_eq!((one.quantity, one.below), (Quantity::Service(Point::P999), false));
        assert!((one.limit - 0.1).abs() < 1e-12);
        assert!(one.is_about("create/steady", "etcd"));
        assert!(!one.is_about("create/steady", "consul") && !one.is_about("read/steady", "etcd"));
        assert!(read("etcd: errors > 0.1%").is_about("read/steady", "etcd"));
        assert_eq!(read(" cpu  >  5% ").to_string(), "cpu > 5%");
    }

    #[test]
    fn loss_without_a_sign_is_rejected() {
        misread("throughput < 5%", "`5%` has no sign, so every loss is below it: write `-5%`");
        for fine in ["throughput < -5%", "throughput < +5%", "memory > 50%", "throughput < 0%"] {
            assert!(fine.parse::<FailIf>().is_ok(), "{fine}");
        }
    }

    #[test]
    fn points_at_the_wrong_word() {
        misread("throughput", "`throughput`: a condition compares a change with a limit");
        misread("throughput < 5", "`5` is not a change; a change is relative");
        misread("throughput <", "no limit after");
        misread("throughput == 5%", "`==` cannot compare changes");
        misread("etcd: p98 > 5%", "unknown figure `p98`; the figures are");
        misread("a b: p99 > 5%", "the text before the colon is not the name of one system");
        misread("p99 > inf%", "`inf%` is not a change");
        let place = "etcd: p98 > 5%".parse::<FailIf>().unwrap_err().place;
        assert_eq!(place, 6..9);
    }
}
