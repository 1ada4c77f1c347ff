//! Compares a publication's figures with the run's own: figure by figure, and the order of the systems.
//!
//! Absolute figures of two machines say nothing about the systems. Their order and ratio do, so only these are judged.
//!
//! Not here: the study's figures (`model::contender`), their table (`document::published_figures`).

use std::cmp::Reverse;

use bakeoff_core::stats::rounds::Preference;
use bakeoff_core::stats::{Figure, TRIALS_MIN, and, ratio_text};
use bakeoff_core::study::Operation;

use super::judgement::{self, Judgement};
use super::leader;
use crate::derive::comparison::Comparison;
use crate::model::contender::Contender;
use crate::model::quantity::{Point, Quantity};

/// Most pairs of systems to name.
const NAMED: usize = 3;

/// A figure that a publication and the run have in common: that of an operation, or of all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) operation: Option<Operation>,
    pub(crate) quantity: Quantity,
}

/// A published figure of a system, and the run's own.
#[derive(Debug, Clone)]
pub(crate) struct PublishedFigure<'a> {
    pub(crate) system: &'a Contender,
    pub(crate) subject: Subject,
    pub(crate) published: f64,
    pub(crate) measured: Figure,
}

impl PublishedFigure<'_> {
    /// Returns the measured figure over the published one; `None` if either is no number above zero.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let measured = self.measured.value()?;
        (measured > 0.0 && self.published > 0.0).then(|| measured / self.published)
    }
}

/// The order of the systems in a publication, compared with the run's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublishedOrder {
    /// True if a pair of systems is proven to be in the other order.
    pub(crate) is_reversed: bool,
    /// The comparison, as a sentence without a full stop.
    pub(crate) sentence: String,
}

/// Returns the published figures with a counterpart in the run. Those that decide come first.
pub(crate) fn figures(of: &Comparison) -> Vec<PublishedFigure<'_>> {
    let mut found: Vec<PublishedFigure<'_>> = of.contenders.iter().flat_map(of_system).collect();
    found.retain(|one| one.measured != Figure::Absent);
    let deciding = leader::deciding(of);
    // Figures of all operations come before those of one, and those of the most frequent one before others.
    let rank = |one: &PublishedFigure<'_>| {
        let Subject { operation, quantity } = one.subject;
        let weight = operation
            .map_or(u32::MAX, |name| of.workload.mix.get(&name).copied().unwrap_or_default());
        let decides = deciding.contains(&quantity);
        (!decides, Reverse(weight), quantity != Quantity::ThroughputMean, quantity)
    };
    found.sort_by_key(rank);
    found
}

/// Returns a system's published figures with a counterpart. Counts depend on the length of the load, so errors are
/// compared by their share.
fn of_system(of: &Contender) -> Vec<PublishedFigure<'_>> {
    let figure = |operation: Option<Operation>, quantity: Quantity, published: f64| {
        let measured = match operation {
            None => of.shown(quantity),
            Some(operation) => of.operation(operation.name(), quantity),
        };
        PublishedFigure {
            system: of,
            subject: Subject { operation, quantity },
            published,
            measured,
        }
    };
    let is_comparable = |quantity: &Quantity| {
        matches!(
            quantity,
            Quantity::ThroughputMax
                | Quantity::ThroughputMean
                | Quantity::ThroughputMin
                | Quantity::Response(_)
        )
    };
    let of_all = of.published.iter().filter(|(quantity, _)| is_comparable(quantity));
    let of_each = of.published_of.iter().filter(|((_, quantity), _)| is_comparable(quantity));
    let mut found: Vec<PublishedFigure<'_>> =
        of_all.map(|(&quantity, &value)| figure(None, quantity, value)).collect();
    found.extend(of_each.map(|(&(op, quantity), &value)| figure(Some(op), quantity, value)));
    let share = of.published.get(&Quantity::Errors).zip(of.published.get(&Quantity::Requests));
    if let Some((errors, requests)) = share.filter(|(errors, _)| **errors > 0.0) {
        found.push(PublishedFigure {
            measured: of.error_share().into(),
            ..figure(None, Quantity::ErrorShare, errors / requests)
        });
    }
    found
}

/// Evidence of the run about two systems whose published figures differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OrderEvidence {
    Same,
    Reversed,
    /// No difference is shown.
    Open,
    /// Too few trials to compare. The figures have the published order, or another.
    TooFew {
        same: bool,
    },
}

/// A pair of systems in the published order.
struct Pair<'a> {
    first: &'a str,
    second: &'a str,
    /// The better published figure over the worse one by their sizes.
    published: f64,
    /// The same of the run's figures: below 1 if their order is reversed.
    measured: f64,
    shown: OrderEvidence,
}

impl Pair<'_> {
    /// Returns `etcd over zookeeper`.
    fn text(&self) -> String {
        format!("{} over {}", self.first, self.second)
    }

    /// Returns `etcd over zookeeper (3.00 times published, 1.76 here)`.
    fn with_ratios(&self) -> String {
        let (published, measured) = (ratio_text(self.published), ratio_text(self.measured));
        format!("{} ({published} times published, {measured} here)", self.text())
    }

    /// Returns `etcd led zookeeper by 1.10 times, here zookeeper leads by 1.76`.
    fn reversed_text(&self) -> String {
        let Self { first, second, .. } = self;
        let (published, measured) = (ratio_text(self.published), ratio_text(1.0 / self.measured));
        format!("{first} led {second} by {published} times, here {second} leads by {measured}")
    }
}

/// Compares the published order of the systems with the run's, by the figure that decides or the closest published one.
/// Returns `None` if fewer than two systems have both figures.
pub(crate) fn order(of: &Comparison) -> Option<PublishedOrder> {
    let all = figures(of);
    let mut subjects: Vec<Subject> = all.iter().map(|one| one.subject).collect();
    subjects.dedup();
    let orders = |one: &&Subject| one.quantity != Quantity::ErrorShare;
    let pairs = subjects.iter().filter(orders).find_map(|subject| {
        let pairs = pairs(of, *subject, &all);
        (!pairs.is_empty()).then_some((*subject, pairs))
    });
    let (subject, pairs) = pairs?;
    let by = format!("the published order by {}", what(of, subject));
    let those = |is: fn(OrderEvidence) -> bool| -> Vec<&Pair<'_>> {
        pairs.iter().filter(|one| is(one.shown)).collect()
    };
    let reversed = those(|shown| shown == OrderEvidence::Reversed);
    let too_few = those(|shown| matches!(shown, OrderEvidence::TooFew { .. }));
    let same = those(|shown| shown == OrderEvidence::Same);
    let open = those(|shown| shown == OrderEvidence::Open);
    let sentence = if !reversed.is_empty() {
        format!("{by} does not hold: {}", listed(&reversed, Pair::reversed_text))
    } else if same.len() == pairs.len() {
        let most = pairs.iter().max_by(|a, b| a.published.total_cmp(&b.published))?;
        let (published, measured) = (ratio_text(most.published), ratio_text(most.measured));
        let order = in_order(&pairs);
        format!("{by} holds: {order}; the ratio was {published}, here {measured}")
    } else if !too_few.is_empty() {
        let all = pairs.iter().all(|one| one.shown == OrderEvidence::TooFew { same: true });
        let is = if all { "the trials have it" } else { "the trials do not all have it" };
        let pairs: Vec<&Pair<'_>> = pairs.iter().collect();
        format!(
            "{by} cannot be proven by so few trials; {is}: {}",
            listed(&pairs, Pair::with_ratios)
        )
    } else {
        let holds = match same.is_empty() {
            true => String::new(),
            false => format!(" holds for {}, and", listed(&same, Pair::text)),
        };
        format!("{by}{holds} is not shown for {}", listed(&open, Pair::with_ratios))
    };
    Some(PublishedOrder { is_reversed: !reversed.is_empty(), sentence })
}

/// Lists pairs, or a few of them and the number of the others.
fn listed<'a>(pairs: &[&Pair<'a>], text: fn(&Pair<'a>) -> String) -> String {
    let shown: Vec<String> = pairs.iter().take(NAMED).map(|one| text(one)).collect();
    match pairs.len().saturating_sub(NAMED) {
        0 => and(&shown),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Returns the systems of pairs in the published order: `a over b over c`.
fn in_order(pairs: &[Pair<'_>]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in pairs.iter().flat_map(|one| [one.first, one.second]) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" over ")
}

/// Returns all pairs of systems with both figures, in the published order.
fn pairs<'a>(of: &Comparison, subject: Subject, all: &[PublishedFigure<'a>]) -> Vec<Pair<'a>> {
    let better = judgement::better(subject.quantity);
    let mut with: Vec<&PublishedFigure<'a>> =
        all.iter().filter(|one| one.subject == subject && one.ratio().is_some()).collect();
    let by_better = |a: f64, b: f64| match better {
        Preference::More => b.total_cmp(&a),
        Preference::Less => a.total_cmp(&b),
    };
    with.sort_by(|a, b| by_better(a.published, b.published));
    let size = |first: f64, second: f64| match better {
        Preference::More => first / second,
        Preference::Less => second / first,
    };
    let mut found = Vec::new();
    for (place, first) in with.iter().enumerate() {
        for second in &with[place + 1..] {
            let measured = first.measured.value().zip(second.measured.value());
            let Some((a, b)) = measured.filter(|_| first.published != second.published) else {
                continue;
            };
            found.push(Pair {
                first: &first.system.system,
                second: &second.system.system,
                published: size(first.published, second.published),
                measured: size(a, b),
                shown: shown(of, subject, first.system, second.system),
            });
        }
    }
    found
}

/// Returns what the run shows of a pair: its judgement, or else whether each trial of one is better than each of the
/// other. A system that failed much has no judgement.
fn shown(
    of: &Comparison,
    subject: Subject,
    first: &Contender,
    second: &Contender,
) -> OrderEvidence {
    let is_it = |one: &&Judgement| {
        subject.operation.is_none()
            && one.quantity == subject.quantity
            && one.stage.is_none()
            && one.answer.is_some()
            && one.is_of(&first.system, &second.system).is_some()
    };
    if let Some(judgement) = of.judgements.iter().find(is_it) {
        return match judgement.winner() {
            Some(winner) if winner == first.system => OrderEvidence::Same,
            Some(_) => OrderEvidence::Reversed,
            None => OrderEvidence::Open,
        };
    }
    let (a, b) = (trials(first, subject), trials(second, subject));
    let better = |a: f64, b: f64| match judgement::better(subject.quantity) {
        Preference::More => a > b,
        Preference::Less => a < b,
    };
    let all = |one: &[f64], other: &[f64]| one.iter().all(|&a| other.iter().all(|&b| better(a, b)));
    match () {
        () if a.len().min(b.len()) < TRIALS_MIN => OrderEvidence::TooFew { same: all(&a, &b) },
        () if all(&a, &b) => OrderEvidence::Same,
        () if all(&b, &a) => OrderEvidence::Reversed,
        () => OrderEvidence::Open,
    }
}

/// Returns the figures of a system's valid trials.
fn trials(of: &Contender, subject: Subject) -> Vec<f64> {
    let figure = |trial: &crate::model::trial::TrialFigures| match subject.operation {
        None => trial.get(subject.quantity).value(),
        Some(operation) => {
            let of_it = trial.measured.operations.get(operation.name())?;
            of_it.get(&subject.quantity)?.value()
        }
    };
    of.valid().filter_map(figure).collect()
}

/// Names a subject in a sentence: `throughput`, `p99 response time of get`.
pub(crate) fn what(of: &Comparison, subject: Subject) -> String {
    let what = match subject.quantity {
        Quantity::Response(Point::Mean) => "mean response time".to_owned(),
        quantity => judgement::what(quantity),
    };
    match subject.operation {
        Some(operation) if of.workload.mix.len() > 1 => format!("{what} of {}", operation.name()),
        _ => what,
    }
}
