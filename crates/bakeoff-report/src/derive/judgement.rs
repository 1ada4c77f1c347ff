//! Judges whether systems differ: each pair, by each judged figure of a workload and load.
//!
//! The family of comparisons is kept small. The figure that the load was run for leads it: throughput; or p99 response
//! time, if all systems kept up with the offered rate; or the highest rate that keeps an objective. Then come median
//! and p99 response time, and the servers' usage.
//!
//! - With too few operations for a p99, the highest percentile that all systems support replaces it.
//! - In a sweep, percentiles and throughput are judged stage by stage. Percentiles over all stages would mix waits of
//!   few and of many clients.
//! - If writes and reads go to separate nodes, each half has a throughput and a p99. Their sum is not compared, because
//!   it depends on the speed of each half.
//! - In a search, each system's figures belong to its own rate, so response times are not compared.
//! - With watchers, and if all systems kept up with the offered rate, the p99 time until a watcher knew a write leads.
//! - Systems that are left out of the ranking are not judged.
//!
//! Not here: one pair by one figure (`pair`), the statistics (`stats::judge`), tables (`tables`).

mod pair;
mod words;

use bakeoff_core::read_write_split::Side;
use bakeoff_core::stats::judge::{self, Correction, TestResult};
use bakeoff_core::stats::rounds::{Preference, WithheldReason};
use bakeoff_core::stats::{Figure, NotCompared, TOO_FEW, ThroughputJudgement, least_text};
use bakeoff_core::study::Load;
use bakeoff_core::units::{plural, trials_text};
use bakeoff_core::workload::mix64;

use crate::derive::conditions::Condition;
use crate::derive::not_comparable::NotComparable;
use crate::model::contender::Contender;
use crate::model::contest::Contest;
use crate::model::quantity::{Point, Quantity, WatchQuantity};

use pair::Pair;

/// Judged quantities, in order. The leading one of a load comes first.
pub(crate) const JUDGED: [Quantity; 11] = [
    Quantity::HighestRate,
    Quantity::ThroughputMean,
    Quantity::Response(Point::P50),
    Quantity::Response(Point::P99),
    KNOWN,
    Quantity::ThroughputOf(Side::Writes),
    Quantity::ThroughputOf(Side::Reads),
    Quantity::ResponseOf(Side::Writes, Point::P99),
    Quantity::ResponseOf(Side::Reads, Point::P99),
    Quantity::CpuPerOperation,
    Quantity::MemorySum,
];

/// Figure that compares watches. It means the same for systems that deliver each version and for those that skip some.
pub(crate) const KNOWN: Quantity = Quantity::Watch(WatchQuantity::Known(Point::P99));

/// The figure that a load was run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LedBy {
    /// Throughput.
    Throughput,
    /// Response time at this point, because all kept up and throughput equals the offered rate.
    Response(Point),
    /// Time until watchers know a write, because all kept up.
    Known,
    /// The highest rate.
    HighestRate,
    /// Throughput of writes and of reads, each at its own speed.
    HalvesThroughput,
    /// Response time of writes and of reads, because all kept up.
    HalvesResponse,
}

impl LedBy {
    /// Returns true if the load was run for this figure.
    fn leads(self, quantity: Quantity) -> bool {
        match self {
            Self::Throughput => quantity == Quantity::ThroughputMean,
            Self::Response(point) => quantity == Quantity::Response(point),
            Self::Known => quantity == KNOWN,
            Self::HighestRate => quantity == Quantity::HighestRate,
            Self::HalvesThroughput => matches!(quantity, Quantity::ThroughputOf(_)),
            Self::HalvesResponse => matches!(quantity, Quantity::ResponseOf(_, Point::P99)),
        }
    }

    /// Returns true if this figure is compared at all.
    fn takes(self, quantity: Quantity) -> bool {
        let of_a_half = matches!(quantity, Quantity::ThroughputOf(_) | Quantity::ResponseOf(..));
        match self {
            Self::Throughput | Self::Response(_) | Self::Known => true,
            Self::HighestRate => {
                !of_a_half && !quantity.mixes_halves() && !matches!(quantity, Quantity::Watch(_))
            }
            // The shares of writes and reads follow from their speeds, and CPU time follows from the shares.
            Self::HalvesThroughput => {
                !quantity.mixes_halves() && quantity != Quantity::CpuPerOperation
            }
            Self::HalvesResponse => !quantity.mixes_halves(),
        }
    }
}

/// The comparison of two systems by one figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judgement {
    /// First system, in the study's order.
    pub(crate) a: String,
    /// Second system.
    pub(crate) b: String,
    /// Compared figure.
    pub(crate) quantity: Quantity,
    /// Index of the stage of a sweep; `None` for the whole load.
    pub(crate) stage: Option<usize>,
    /// Clients of the first system in that stage.
    pub(crate) clients: u32,
    /// True if the load was run for this figure.
    pub(crate) leading: bool,
    /// Medians of the compared trials, in the quantity's unit; of all valid trials if none were compared.
    pub(crate) medians: (Figure, Figure),
    /// Rounds in which both had a valid trial with this figure.
    pub(crate) rounds: usize,
    /// Number of comparisons that the intervals are corrected for.
    pub(crate) family: usize,
    /// Ratio of the first figure to the second; `None` if it was not judged.
    pub(crate) answer: Option<TestResult>,
    /// Uncorrected 95 % bootstrap interval of this ratio of medians.
    pub(crate) bootstrap: Option<(f64, f64)>,
    /// Medians with trials that failed because of the system counted as worst: zero throughput or infinite latency.
    /// `None` without such trials.
    pub(crate) worst: Option<(f64, f64)>,
    /// Verdict.
    pub(crate) verdict: JudgedAs,
    /// Kind of load: `closed load, 64 clients`.
    pub(crate) load: String,
    /// Conditions that favour the winner of a declared difference.
    pub(crate) conditions: Vec<Condition>,
    /// True if the leading claim holds at 5 % across the whole report. `None` if this is no leading claim.
    pub(crate) in_report: Option<bool>,
    /// True if the run stopped at this result. A run stops at a large ratio, so texts name its least size.
    pub(crate) early: bool,
}

/// Verdict of a comparison of two systems.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum JudgedAs {
    /// The first's figure is higher.
    Higher,
    /// The first's figure is lower.
    Lower,
    /// No difference is shown.
    NoneShown {
        /// Ratio, above 1, that would have been declared with probability [`judge::SEEN_WITH`].
        min_detectable: f64,
    },
    /// The valid rounds show a difference, but it is not claimed.
    Withheld {
        /// True if they show the first's figure as the higher one.
        higher: bool,
        /// Reason.
        why: WithheldReason,
    },
    /// A difference of response times that does not exceed what the generator may have added to the longer one.
    WithinDelays,
    /// Fewer than [`bakeoff_core::stats::TRIALS_MIN`] rounds.
    TooFew,
    /// Not judged, for this reason.
    NotJudged(NotComparable),
}

impl Judgement {
    /// Judges every pair of systems by every figure that any of them has, as one family. `false_alarms`: the
    /// probability of any false claim in it.
    pub(crate) fn all(
        contenders: &[&Contender],
        led_by: LedBy,
        contest: &Contest,
        (seed, false_alarms): (u64, f64),
    ) -> Vec<Self> {
        let (mut pairs, mut questions) = (Vec::new(), Vec::new());
        for subject in judged_subjects(contenders, led_by, contest) {
            for (place, a) in contenders.iter().enumerate() {
                for b in &contenders[place + 1..] {
                    // Each pair has its own seed, independent of the other pairs.
                    let seed = mix64(seed ^ pairs.len() as u64);
                    let (pair, question) = Pair::new(a, b, subject, led_by, contest, seed);
                    pairs.push(pair);
                    questions.push(question);
                }
            }
        }
        let answers = judge::judge_at(&questions, Correction::Steps, false_alarms);
        let family = answers.iter().flatten().count();
        let answered = pairs.into_iter().zip(answers);
        answered.map(|(pair, answer)| pair.judged(answer, family, contest)).collect()
    }

    /// Returns true if it declares a difference.
    pub(crate) fn claims(&self) -> bool {
        matches!(self.verdict, JudgedAs::Higher | JudgedAs::Lower)
    }

    /// Returns true if further rounds of an adaptive run could add nothing: the claim holds in the whole report.
    pub(super) fn is_answered(&self) -> bool {
        self.claims() && self.in_report == Some(true)
    }

    /// Returns the better system of a declared difference.
    pub(crate) fn winner(&self) -> Option<&str> {
        let more = better(self.quantity) == Preference::More;
        match self.verdict {
            JudgedAs::Higher => Some(if more { &self.a } else { &self.b }),
            JudgedAs::Lower => Some(if more { &self.b } else { &self.a }),
            _ => None,
        }
    }

    /// Returns the worse system of a declared difference.
    pub(crate) fn loser(&self) -> Option<&str> {
        let winner = self.winner()?;
        Some(if winner == self.a { &self.b } else { &self.a })
    }

    /// Determines which leading claims of a report hold if all its leading comparisons form one family.
    pub(crate) fn hold_in_report(all: &mut [&mut Self], false_alarms: f64) {
        let asked: Vec<usize> = (0..all.len())
            .filter(|&place| all[place].leading && all[place].answer.is_some())
            .collect();
        let p_values: Vec<f64> = asked
            .iter()
            .filter_map(|&place| all[place].answer.map(|answer| answer.p_value))
            .collect();
        for (place, holds) in
            asked.into_iter().zip(judge::declared_together(&p_values, false_alarms))
        {
            all[place].in_report = all[place].claims().then_some(holds);
        }
    }

    /// Returns the comparison for the sentence. `tail`: the pair's judgement of a high percentile.
    pub(crate) fn comparing(
        &self,
        tail: Option<&Self>,
    ) -> Result<ThroughputJudgement, NotCompared> {
        let medians = self.medians.0.value().zip(self.medians.1.value());
        let (Some(answer), Some(medians)) = (self.answer, medians) else {
            return Err(match &self.verdict {
                JudgedAs::NotJudged(why) => NotCompared::Because(why.to_string()),
                _ => NotCompared::TooFew,
            });
        };
        let winner = self.winner().unwrap_or_default();
        Ok(ThroughputJudgement {
            early: self.early,
            answer,
            rounds: self.rounds,
            medians,
            withheld: match self.verdict {
                JudgedAs::Withheld { why, .. } => Some(why),
                _ => None,
            },
            worst: self.worst,
            conditions: self.conditions.iter().map(|one| one.of_it(winner)).collect(),
            tail: tail.and_then(Self::tail),
        })
    }

    /// Returns whether it is about this pair: true in this order, false in the other, `None` if not.
    pub(crate) fn is_of(&self, a: &str, b: &str) -> Option<bool> {
        match () {
            () if self.a == a && self.b == b => Some(true),
            () if self.a == b && self.b == a => Some(false),
            () => None,
        }
    }
}

/// Returns the label of a figure's row: `p99, 64 clients` for a stage.
pub(crate) fn label(quantity: Quantity, clients: Option<u32>) -> String {
    match clients {
        None => quantity.label(),
        Some(clients) => format!("{}, {}", quantity.label(), plural(clients.into(), "client")),
    }
}

/// Returns the name of a judged quantity in a sentence.
pub(crate) fn what(quantity: Quantity) -> String {
    match quantity {
        Quantity::HighestRate => "highest rate that keeps the objective".to_owned(),
        Quantity::ThroughputMean => "throughput".to_owned(),
        Quantity::Response(point) => format!("{} response time", point.name()),
        Quantity::ThroughputOf(side) => format!("throughput of {}", side.name()),
        Quantity::ResponseOf(side, point) => {
            format!("{} response time of {}", point.name(), side.name())
        }
        Quantity::Watch(of) => of.in_a_sentence(),
        Quantity::CpuPerOperation => "servers' CPU time per operation".to_owned(),
        Quantity::MemorySum => "servers' memory".to_owned(),
        Quantity::MemoryPrivate => "servers' private memory".to_owned(),
        other => other.label(),
    }
}

/// Words the smallest ratio that this number of trials would have shown.
pub(crate) fn power_text(trials: usize, ratio: f64) -> String {
    let trials = trials_text(trials);
    match least_text(ratio).as_str() {
        TOO_FEW => format!("{trials} each are too few to show even a tenfold difference"),
        least => format!("{trials} each would have shown a difference of more than {least}"),
    }
}

/// A judged figure of one stage of a sweep, or of the whole load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) quantity: Quantity,
    /// Index of the stage; `None` for the whole load.
    pub(crate) stage: Option<usize>,
}

/// Returns the subjects of a figure under a load with `stages` stages. A sweep has no latency over all stages, but has
/// a throughput over all, next to each stage's.
pub(crate) fn subjects(quantity: Quantity, stages: usize) -> Vec<Subject> {
    let whole = Subject { quantity, stage: None };
    let by_stage = (0..stages).map(|stage| Subject { quantity, stage: Some(stage) });
    match quantity {
        Quantity::Response(_)
        | Quantity::ResponseOf(..)
        | Quantity::Service(_)
        | Quantity::Watch(_)
            if stages > 1 =>
        {
            by_stage.collect()
        }
        Quantity::ThroughputMean | Quantity::ThroughputOf(_) if stages > 1 => {
            std::iter::once(whole).chain(by_stage).collect()
        }
        _ => vec![whole],
    }
}

/// Returns the subjects that systems are judged by, the leading one first. The highest percentile that all systems
/// support replaces the p99; if that is the median, it is judged once.
fn judged_subjects(contenders: &[&Contender], led_by: LedBy, contest: &Contest) -> Vec<Subject> {
    let known = |quantity: &Quantity| {
        led_by.takes(*quantity)
            && contenders.iter().any(|one| one.shown(*quantity) != Figure::Absent)
    };
    let stages = contest.load.clients.len();
    let all = JUDGED.into_iter().filter(known).flat_map(|quantity| subjects(quantity, stages));
    let mut judged = Vec::new();
    for Subject { quantity, stage } in all {
        let quantity = match quantity {
            Quantity::Response(Point::P99) => Quantity::Response(contest.tail(stage)),
            other => other,
        };
        let subject = Subject { quantity, stage };
        if !judged.contains(&subject) {
            judged.push(subject);
        }
    }
    judged
}

/// Returns the number of a system's clients in a stage.
pub(crate) fn clients(load: &Load, of: &Contender, stage: usize) -> u32 {
    load.clients_on(&of.system).get(stage).copied().unwrap_or(0)
}

/// Returns the better direction of a figure.
pub(crate) fn better(quantity: Quantity) -> Preference {
    match quantity {
        Quantity::HighestRate | Quantity::ThroughputMean | Quantity::ThroughputOf(_) => {
            Preference::More
        }
        _ => Preference::Less,
    }
}
