//! Whether systems differ, for each pair of them and each judged figure of a workload and load.
//!
//! The family is kept small: what the load was run for leads it (throughput, or the 99th percentile
//! of response time where all that was offered was done, or the highest rate that keeps an objective),
//! then come the median and the 99th percentile of response time, and what the servers used. Where a
//! rate was looked for each system has figures of its own one, so response times are not compared.
//! Systems that are left out of the ranking are not in it.
//!
//! Not here: the statistics (`stats::judge`), tables of it (`tables`).

use crate::stats::judge::{self, Answer, Correction, Finding, Question, Scale, Trials};
use crate::stats::{
    Comparing, Figure, interval_text, least_text, ratio_text, would_have_seen_text,
};
use crate::workload::mix64;

use super::comparison::Contender;
use super::figures::{Point, Quantity};

/// What is judged, the leading one first where it leads.
pub(super) const JUDGED: [Quantity; 6] = [
    Quantity::HighestRate,
    Quantity::ThroughputMean,
    Quantity::Response(Point::P50),
    Quantity::Response(Point::P99),
    Quantity::CpuPerOperation,
    Quantity::MemorySum,
];

/// What a load was run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LedBy {
    /// To see how much is done.
    Throughput,
    /// All that was offered was done, so that throughput is what was offered: to see how soon.
    Response,
    /// To find the highest rate.
    HighestRate,
}

impl LedBy {
    fn quantity(self) -> Quantity {
        match self {
            Self::Throughput => Quantity::ThroughputMean,
            Self::Response => Quantity::Response(Point::P99),
            Self::HighestRate => Quantity::HighestRate,
        }
    }

    /// Whether a figure is compared at all.
    fn takes(self, quantity: Quantity) -> bool {
        let of_the_load = matches!(quantity, Quantity::ThroughputMean | Quantity::Response(_));
        self != Self::HighestRate || !of_the_load
    }
}

/// How one figure of two systems compares.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judgement {
    /// The first system, in the study's order.
    pub(super) a: String,
    /// The second.
    pub(super) b: String,
    /// Which figure.
    pub(super) quantity: Quantity,
    /// Whether it is what the load was run for.
    pub(super) leading: bool,
    /// Medians of the trials that were compared, in the quantity's unit.
    pub(super) medians: (Figure, Figure),
    /// Rounds in which both had a valid trial with this figure.
    pub(super) rounds: usize,
    /// How many comparisons the intervals are corrected for.
    pub(super) family: usize,
    /// The first's figure by the second's; `None` when it was not judged.
    pub(super) answer: Option<Answer>,
    /// The 95 % bootstrap interval of this ratio of medians alone, uncorrected.
    pub(super) bootstrap: Option<(f64, f64)>,
    /// What follows.
    pub(super) verdict: JudgedAs,
}

/// What a comparison of two systems came to.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum JudgedAs {
    /// The first's figure is higher.
    Higher,
    /// The first's figure is lower.
    Lower,
    /// No difference is shown.
    NoneShown {
        /// The ratio, above 1, that would have been declared with probability
        /// [`judge::SEEN_WITH`].
        would_have_seen: f64,
    },
    /// Fewer than [`crate::stats::TRIALS_MIN`] rounds.
    TooFew,
    /// It was not looked for, because of this.
    NotJudged(String),
}

impl Judgement {
    /// Every pair of those that take part, under each judged quantity that any of them has.
    pub(super) fn all(contenders: &[&Contender], led_by: LedBy, seed: u64) -> Vec<Self> {
        let mut judgements = Vec::new();
        let mut questions = Vec::new();
        let leading = led_by.quantity();
        let kept_up = led_by == LedBy::Response;
        let known = |quantity: &Quantity| {
            led_by.takes(*quantity)
                && contenders.iter().any(|one| one.shown(*quantity) != Figure::Absent)
        };
        for quantity in JUDGED.into_iter().filter(known) {
            for (place, a) in contenders.iter().enumerate() {
                for b in &contenders[place + 1..] {
                    let refused = match quantity {
                        Quantity::ThroughputMean if kept_up => {
                            Some("both kept up with what was offered".to_owned())
                        }
                        _ => None,
                    };
                    let rounds = rounds(a, b, quantity);
                    let medians = (a.shown(quantity), b.shown(quantity));
                    let (count, pairs) = match &rounds {
                        Ok(pairs) => (pairs.len(), pairs.clone()),
                        Err(_) => (0, Vec::new()),
                    };
                    let why = refused.or(rounds.err());
                    // What is not judged is no part of the family: it has no trials there.
                    let trials = if why.is_some() { Vec::new() } else { pairs };
                    let trials = Trials::ByRound(trials);
                    // Each draws for itself, whatever others there are.
                    let bootstrap =
                        trials.bootstrap(Scale::Ratio, mix64(seed ^ judgements.len() as u64));
                    questions.push(Question {
                        trials,
                        leading: quantity == leading,
                        scale: Scale::Ratio,
                    });
                    judgements.push(Self {
                        a: a.system.clone(),
                        b: b.system.clone(),
                        quantity,
                        leading: quantity == leading,
                        medians,
                        rounds: count,
                        family: 0,
                        answer: None,
                        bootstrap,
                        verdict: why.map_or(JudgedAs::TooFew, JudgedAs::NotJudged),
                    });
                }
            }
        }
        let answers = judge::judge(&questions, Correction::Steps);
        let family = answers.iter().flatten().count();
        for (judgement, answer) in judgements.iter_mut().zip(answers) {
            judgement.family = family;
            let Some(answer) = answer else { continue };
            judgement.verdict = match answer.finding {
                Finding::Higher => JudgedAs::Higher,
                Finding::Lower => JudgedAs::Lower,
                Finding::NoneShown { would_have_seen } => JudgedAs::NoneShown { would_have_seen },
            };
            judgement.answer = Some(answer);
        }
        judgements
    }

    /// The same seen from `a`: what the sentence asks for.
    pub(super) fn comparing(&self, a: &str, b: &str) -> Option<Comparing> {
        let answer = self.answer?;
        let answer = match () {
            () if self.a == a && self.b == b => answer,
            () if self.a == b && self.b == a => answer.turned(),
            () => return None,
        };
        Some(Comparing { answer, rounds: self.rounds })
    }

    /// The ratio, `–` where there is none.
    pub(super) fn ratio(&self) -> String {
        self.answer.map_or_else(|| "–".to_owned(), |answer| ratio_text(answer.ratio))
    }

    /// The interval that the verdict is made by.
    pub(super) fn interval(&self) -> String {
        self.answer.map_or_else(|| "–".to_owned(), |answer| interval_text(answer.interval))
    }

    /// The bootstrap interval of this ratio alone.
    pub(super) fn bootstrap(&self) -> String {
        self.bootstrap.map_or_else(|| "–".to_owned(), interval_text)
    }

    /// The verdict in two words.
    pub(super) fn found(&self) -> String {
        match &self.verdict {
            JudgedAs::Higher => "higher".to_owned(),
            JudgedAs::Lower => "lower".to_owned(),
            JudgedAs::NoneShown { .. } => "none shown".to_owned(),
            JudgedAs::TooFew => "too few".to_owned(),
            JudgedAs::NotJudged(_) => "not judged".to_owned(),
        }
    }

    /// The least difference that would have been seen, where none is shown.
    pub(super) fn would_have_seen(&self) -> String {
        match self.verdict {
            JudgedAs::NoneShown { would_have_seen } => least_text(would_have_seen),
            _ => "–".to_owned(),
        }
    }

    /// The verdict as a clause that stands alone.
    pub(super) fn words(&self) -> String {
        let what = what(self.quantity);
        let trials = format!("{} trials each", self.rounds);
        let claim = |high: &str, low: &str, answer: Answer| {
            let (ratio, interval) = (ratio_text(answer.ratio), interval_text(answer.interval));
            format!(
                "{high}'s {what} was {ratio} times {low}'s (95 % interval {interval}, {trials})"
            )
        };
        let (a, b) = (&self.a, &self.b);
        match (&self.verdict, self.answer) {
            (JudgedAs::Higher, Some(answer)) => claim(a, b, answer),
            (JudgedAs::Lower, Some(answer)) => claim(b, a, answer.turned()),
            (JudgedAs::NotJudged(why), _) => format!("{what} of {a} and {b} not judged: {why}"),
            (JudgedAs::NoneShown { would_have_seen }, _) => {
                let seen = would_have_seen_text(*would_have_seen);
                format!("no difference shown between {a} and {b} in {what}; {seen} ({trials})")
            }
            _ => format!("{what} of {a} and {b}: too few trials to call a difference"),
        }
    }

    /// The verdict in JSON.
    pub(super) fn verdict_name(&self) -> &'static str {
        match self.verdict {
            JudgedAs::Higher => "higher",
            JudgedAs::Lower => "lower",
            JudgedAs::NoneShown { .. } => "none-shown",
            JudgedAs::TooFew => "too-few",
            JudgedAs::NotJudged(_) => "not-judged",
        }
    }
}

/// What a judged quantity is called in words.
pub(super) fn what(quantity: Quantity) -> String {
    match quantity {
        Quantity::HighestRate => "highest rate that keeps the objective".to_owned(),
        Quantity::ThroughputMean => "throughput".to_owned(),
        Quantity::Response(Point::P50) => "p50 response time".to_owned(),
        Quantity::Response(Point::P99) => "p99 response time".to_owned(),
        Quantity::CpuPerOperation => "servers' CPU time per operation".to_owned(),
        Quantity::MemorySum => "servers' memory".to_owned(),
        other => other.label(),
    }
}

/// Both systems' figures of each round in which both have a valid trial with one; or why they cannot
/// be compared as ratios.
fn rounds(a: &Contender, b: &Contender, quantity: Quantity) -> Result<Vec<(f64, f64)>, String> {
    let mut rounds = Vec::new();
    for ours in a.valid() {
        let Some(theirs) = b.valid().find(|theirs| theirs.round == ours.round) else { continue };
        for (one, figure) in [(a, ours.get(quantity)), (b, theirs.get(quantity))] {
            match figure {
                Figure::Beyond => {
                    return Err(format!("{} had a trial beyond an hour", one.system));
                }
                Figure::Value(value) if value <= 0.0 && quantity == Quantity::HighestRate => {
                    return Err(format!("{} had a trial in which no rate kept it", one.system));
                }
                Figure::Value(value) if value <= 0.0 => {
                    return Err(format!("{} had a trial with 0", one.system));
                }
                Figure::Value(_) | Figure::Absent => {}
            }
        }
        let both = (ours.get(quantity).value(), theirs.get(quantity).value());
        if let (Some(ours), Some(theirs)) = both {
            rounds.push((ours, theirs));
        }
    }
    Ok(rounds)
}
