//! Whether systems differ, for each pair of them and each judged figure of a workload and load.
//!
//! The family is kept small: what the load was run for leads it (throughput, or the 99th percentile
//! of response time where all that was offered was done, or the highest rate that keeps an objective),
//! then come the median and the 99th percentile of response time, and what the servers used. With too few
//! operations for a p99 the highest percentile that they support takes its place, for all systems alike. Of a
//! sweep these percentiles are judged stage by stage, and the throughput too: those of all stages
//! together would mix what few clients had to wait for with what many had. If writes and reads go to nodes of
//! their own, each half has a throughput and a 99th percentile, and their sum is not compared: its parts depend
//! on how fast each half happened to be. Where a
//! rate was looked for each system has figures of its own one, so response times are not compared.
//! Systems that are left out of the ranking are not in it.
//!
//! Not here: one pair under one figure (`pair`), the statistics (`stats::judge`), tables of it (`tables`).

mod pair;
mod words;

use bakeoff_core::read_write_split::Side;
use bakeoff_core::stats::judge::{self, Correction, TestResult};
use bakeoff_core::stats::rounds::{Better, Withheld};
use bakeoff_core::stats::{Comparing, Figure, NotCompared};
use bakeoff_core::study::Load;
use bakeoff_core::units::plural;
use bakeoff_core::workload::mix64;

use crate::derive::conditions::Condition;
use crate::derive::not_comparable::NotComparable;
use crate::model::contender::Contender;
use crate::model::contest::Contest;
use crate::model::quantity::{Point, Quantity};

use pair::Pair;

/// Quantities that are judged, the leading one first where it leads.
pub(crate) const JUDGED: [Quantity; 10] = [
    Quantity::HighestRate,
    Quantity::ThroughputMean,
    Quantity::Response(Point::P50),
    Quantity::Response(Point::P99),
    Quantity::ThroughputOf(Side::Writes),
    Quantity::ThroughputOf(Side::Reads),
    Quantity::ResponseOf(Side::Writes, Point::P99),
    Quantity::ResponseOf(Side::Reads, Point::P99),
    Quantity::CpuPerOperation,
    Quantity::MemorySum,
];

/// Purpose of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LedBy {
    /// To see how much is done.
    Throughput,
    /// All that was offered was done, so that throughput is what was offered: to see how soon, at this point.
    Response(Point),
    /// To find the highest rate.
    HighestRate,
    /// To see how many writes and how many reads are done, each at their own speed.
    HalvesThroughput,
    /// All writes and reads that were offered were done: to see how soon each.
    HalvesResponse,
}

impl LedBy {
    /// Returns whether the load was run for a figure.
    fn leads(self, quantity: Quantity) -> bool {
        match self {
            Self::Throughput => quantity == Quantity::ThroughputMean,
            Self::Response(point) => quantity == Quantity::Response(point),
            Self::HighestRate => quantity == Quantity::HighestRate,
            Self::HalvesThroughput => matches!(quantity, Quantity::ThroughputOf(_)),
            Self::HalvesResponse => matches!(quantity, Quantity::ResponseOf(_, Point::P99)),
        }
    }

    /// Returns whether a figure is compared at all.
    fn takes(self, quantity: Quantity) -> bool {
        let of_a_half = matches!(quantity, Quantity::ThroughputOf(_) | Quantity::ResponseOf(..));
        match self {
            Self::Throughput | Self::Response(_) => true,
            Self::HighestRate => !of_a_half && !quantity.mixes_halves(),
            // The shares of writes and reads follow from their speeds, and CPU time follows from the shares.
            Self::HalvesThroughput => {
                !quantity.mixes_halves() && quantity != Quantity::CpuPerOperation
            }
            Self::HalvesResponse => !quantity.mixes_halves(),
        }
    }
}

/// How one figure of two systems compares.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judgement {
    /// The first system, in the study's order.
    pub(crate) a: String,
    /// The second.
    pub(crate) b: String,
    /// Which figure.
    pub(crate) quantity: Quantity,
    /// Of which stage of a sweep, by its place; of all where there is none.
    pub(crate) stage: Option<usize>,
    /// The first's clients there.
    pub(crate) clients: u32,
    /// Whether it is what the load was run for.
    pub(crate) leading: bool,
    /// Medians of the trials that were compared, in the quantity's unit; of all valid ones where none
    /// were.
    pub(crate) medians: (Figure, Figure),
    /// Rounds in which both had a valid trial with this figure.
    pub(crate) rounds: usize,
    /// How many comparisons the intervals are corrected for.
    pub(crate) family: usize,
    /// The first's figure by the second's; `None` when it was not judged.
    pub(crate) answer: Option<TestResult>,
    /// The 95 % bootstrap interval of this ratio of medians alone, uncorrected.
    pub(crate) bootstrap: Option<(f64, f64)>,
    /// The medians with trials that failed through the system's own doing taken as the worst there is:
    /// nothing done, or an infinite latency. `None` where no such trial is known of the two.
    pub(crate) worst: Option<(f64, f64)>,
    /// Its verdict.
    pub(crate) verdict: JudgedAs,
    /// The kind of load that it is of: `closed load, 64 clients`.
    pub(crate) load: String,
    /// Conditions that favour the better one of a declared difference.
    pub(crate) conditions: Vec<Condition>,
    /// Whether a leading claim holds at 5 % for all workloads and loads of the report together; `None`
    /// of what is no claim, or does not lead.
    pub(crate) in_report: Option<bool>,
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
        /// The ratio, above 1, that would have been declared with probability
        /// [`judge::SEEN_WITH`].
        min_detectable: f64,
    },
    /// The valid rounds show a difference, and it is not claimed.
    Withheld {
        /// Whether they show the first's figure as the higher one.
        higher: bool,
        /// Why it is not claimed.
        why: Withheld,
    },
    /// A difference below 1 ms that is as small as the receive lag of the generator.
    BelowLag,
    /// Fewer than [`bakeoff_core::stats::TRIALS_MIN`] rounds.
    TooFew,
    /// It was not looked for, because of this.
    NotJudged(NotComparable),
}

impl Judgement {
    /// Judges every pair of systems by every figure that any of them has, as one family.
    pub(crate) fn all(
        contenders: &[&Contender],
        led_by: LedBy,
        contest: &Contest,
        seed: u64,
    ) -> Vec<Self> {
        let (mut pairs, mut questions) = (Vec::new(), Vec::new());
        for subject in judged_subjects(contenders, led_by, contest) {
            for (place, a) in contenders.iter().enumerate() {
                for b in &contenders[place + 1..] {
                    // Each pair draws for itself, whatever other pairs there are.
                    let seed = mix64(seed ^ pairs.len() as u64);
                    let (pair, question) = Pair::new(a, b, subject, led_by, contest, seed);
                    pairs.push(pair);
                    questions.push(question);
                }
            }
        }
        let answers = judge::judge(&questions, Correction::Steps);
        let family = answers.iter().flatten().count();
        let answered = pairs.into_iter().zip(answers);
        answered.map(|(pair, answer)| pair.judged(answer, family, contest)).collect()
    }

    /// Returns whether it declares a difference.
    pub(crate) fn claims(&self) -> bool {
        matches!(self.verdict, JudgedAs::Higher | JudgedAs::Lower)
    }

    /// Returns the better one of a declared difference.
    pub(crate) fn winner(&self) -> Option<&str> {
        let more = better(self.quantity) == Better::More;
        match self.verdict {
            JudgedAs::Higher => Some(if more { &self.a } else { &self.b }),
            JudgedAs::Lower => Some(if more { &self.b } else { &self.a }),
            _ => None,
        }
    }

    /// Returns the other one of a declared difference.
    pub(crate) fn loser(&self) -> Option<&str> {
        let winner = self.winner()?;
        Some(if winner == self.a { &self.b } else { &self.a })
    }

    /// Finds which leading claims of a report hold with all its leading questions as one family.
    pub(crate) fn hold_in_report(all: &mut [&mut Self]) {
        let asked: Vec<usize> = (0..all.len())
            .filter(|&place| all[place].leading && all[place].answer.is_some())
            .collect();
        let p_values: Vec<f64> = asked
            .iter()
            .filter_map(|&place| all[place].answer.map(|answer| answer.p_value))
            .collect();
        for (place, holds) in asked.into_iter().zip(judge::declared_together(&p_values)) {
            all[place].in_report = all[place].claims().then_some(holds);
        }
    }

    /// The same for the sentence; `tail` is the pair's judgement of a high percentile.
    pub(crate) fn comparing(&self, tail: Option<&Self>) -> Result<Comparing, NotCompared> {
        let medians = self.medians.0.value().zip(self.medians.1.value());
        let (Some(answer), Some(medians)) = (self.answer, medians) else {
            return Err(match &self.verdict {
                JudgedAs::NotJudged(why) => NotCompared::Because(why.to_string()),
                _ => NotCompared::TooFew,
            });
        };
        let winner = self.winner().unwrap_or_default();
        Ok(Comparing {
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

    /// Returns whether it is about these two, and whether they stand in this order.
    pub(crate) fn is_of(&self, a: &str, b: &str) -> Option<bool> {
        match () {
            () if self.a == a && self.b == b => Some(true),
            () if self.a == b && self.b == a => Some(false),
            () => None,
        }
    }
}

/// The label of a row with a figure: `p99, 64 clients` where it is of a stage with so many.
pub(crate) fn label(quantity: Quantity, clients: Option<u32>) -> String {
    match clients {
        None => quantity.label(),
        Some(clients) => format!("{}, {}", quantity.label(), plural(clients.into(), "client")),
    }
}

/// Returns the name of a judged quantity in words.
pub(crate) fn what(quantity: Quantity) -> String {
    match quantity {
        Quantity::HighestRate => "highest rate that keeps the objective".to_owned(),
        Quantity::ThroughputMean => "throughput".to_owned(),
        Quantity::Response(point) => format!("{} response time", point.name()),
        Quantity::ThroughputOf(side) => format!("throughput of {}", side.name()),
        Quantity::ResponseOf(side, point) => {
            format!("{} response time of {}", point.name(), side.name())
        }
        Quantity::CpuPerOperation => "servers' CPU time per operation".to_owned(),
        Quantity::MemorySum => "servers' memory".to_owned(),
        other => other.label(),
    }
}

/// Subject of a judgement: a figure of one stage of a sweep, or of the whole load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) quantity: Quantity,
    /// Place of the stage; `None` for the whole load.
    pub(crate) stage: Option<usize>,
}

/// Returns the subjects of a figure under a load with `stages` stages. Latencies of all stages of a sweep are no figure;
/// throughput is one, beside each stage's.
pub(crate) fn subjects(quantity: Quantity, stages: usize) -> Vec<Subject> {
    let whole = Subject { quantity, stage: None };
    let by_stage = (0..stages).map(|stage| Subject { quantity, stage: Some(stage) });
    match quantity {
        Quantity::Response(_) | Quantity::ResponseOf(..) | Quantity::Service(_) if stages > 1 => {
            by_stage.collect()
        }
        Quantity::ThroughputMean | Quantity::ThroughputOf(_) if stages > 1 => {
            std::iter::once(whole).chain(by_stage).collect()
        }
        _ => vec![whole],
    }
}

/// Returns the subjects that systems are judged by, the leading one first. The highest percentile that all support takes
/// the place of the 99th; if that is the median, it is judged once.
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

/// Returns how many clients a system has in a stage.
pub(crate) fn clients(load: &Load, of: &Contender, stage: usize) -> u32 {
    load.clients_on(&of.system).get(stage).copied().unwrap_or(0)
}

/// Returns which of two figures is better.
pub(crate) fn better(quantity: Quantity) -> Better {
    match quantity {
        Quantity::HighestRate | Quantity::ThroughputMean | Quantity::ThroughputOf(_) => {
            Better::More
        }
        _ => Better::Less,
    }
}
