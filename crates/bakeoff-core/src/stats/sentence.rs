//! Writes the sentence that compares the systems of one workload and load.
//!
//! A claim names its conditions: anything that favours the better system besides its product appears in the same
//! clause.
//!
//! Not here: the test (`judge`), the choice of figures and conditions (`report`).

mod tail;

use std::fmt;

use super::judge::{Finding, TestResult};
use super::rounds::WithheldReason;
use super::{and, interval_text, middle, min_detectable_text, ratio_text, times_text};
use crate::units::{figure_text, trials_text};

pub use tail::{Tail, TailFound};

/// Describes one system under one workload and load to the sentence.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contender {
    /// Name of the system.
    pub name: String,
    /// Mean throughput of each valid trial, per second.
    pub rates: Vec<f64>,
    /// High percentile of its response time, such as `p99 response time 20.5 ms`. Shown if nothing is compared.
    pub tail: Option<String>,
    /// Unconditional caveats: errors, wrong answers, time without success.
    pub caveats: Vec<String>,
    /// Trials that failed through the system's own fault: `3 of etcd's 7 trials failed an audit`.
    pub failed: Option<String>,
    /// Reason to leave it out, as a clause: `consul has no valid trial (…)`.
    pub left_out: Option<String>,
    /// True if every valid trial of an open load kept up with the offered rate.
    pub kept_up: bool,
}

/// Holds the judgement of two systems' throughput. Everything refers to the rounds in which both are valid.
#[derive(Debug, Clone, PartialEq)]
pub struct ThroughputJudgement {
    /// Test result: the first system relative to the second.
    pub answer: TestResult,
    /// True if the run stopped at this result.
    pub early: bool,
    /// Number of rounds in the comparison.
    pub rounds: usize,
    /// Both medians over these rounds.
    pub medians: (f64, f64),
    /// Reason to withhold the claim, if there is one.
    pub withheld: Option<WithheldReason>,
    /// Both medians with failed trials counted as zero.
    pub worst: Option<(f64, f64)>,
    /// Conditions that favour the better system, as clauses about `it`.
    pub conditions: Vec<String>,
    /// Comparison of a high percentile of response time, if it was judged.
    pub tail: Option<Tail>,
}

/// Explains why two systems were not compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotCompared {
    /// Fewer than [`super::TRIALS_MIN`] rounds.
    TooFew,
    /// Another reason, as a clause.
    Because(String),
}

impl fmt::Display for NotCompared {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew => to.write_str("too few to call a difference"),
            Self::Because(why) => write!(to, "not compared: {why}"),
        }
    }
}

/// Describes what a sentence compares.
#[derive(Debug, Clone)]
pub struct Scene<'a> {
    /// Compared figure.
    pub counted: ComparedFigure<'a>,
    /// Workload and load: `create/steady`.
    pub place: &'a str,
    /// Kind of load: `closed load, 64 clients`.
    pub load: &'a str,
    /// True if operations are due at a rate that the systems do not control.
    pub open: bool,
    /// Clauses about response times, if these decide.
    pub deciding: Vec<String>,
}

/// Selects the figure that a sentence compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparedFigure<'a> {
    /// Operations per second: `puts`.
    PerSecond(&'a str),
    /// Highest rate that keeps this objective: `p99 < 50ms`.
    HighestRate(&'a str),
}

/// Claims about the first of two systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Higher,
    Lower,
    NoneShown,
    /// A difference was seen but is not claimed.
    Withheld(WithheldReason),
}

impl ThroughputJudgement {
    fn claim(&self) -> Claim {
        match (self.withheld, self.answer.finding) {
            (Some(why), _) => Claim::Withheld(why),
            (None, Finding::Higher) => Claim::Higher,
            (None, Finding::Lower) => Claim::Lower,
            (None, Finding::NoneShown { .. }) => Claim::NoneShown,
        }
    }

    /// Returns the comparison of the second with the first.
    pub fn turned(self) -> Self {
        let turn = |(a, b): (f64, f64)| (b, a);
        Self {
            answer: self.answer.turned(),
            medians: turn(self.medians),
            worst: self.worst.map(turn),
            tail: self.tail.map(Tail::turned),
            ..self
        }
    }
}

/// Holds a clause and its qualifications.
struct Clause {
    text: String,
    but: Vec<String>,
}

impl Clause {
    fn plain(text: String) -> Self {
        Self { text, but: Vec::new() }
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.but.as_slice() {
            [] => to.write_str(&self.text),
            but => write!(to, "{}, but {}", self.text, and(but)),
        }
    }
}

type PairJudge<'a> = dyn Fn(usize, usize) -> Result<ThroughputJudgement, NotCompared> + 'a;

/// Writes the sentence about one workload and load.
///
/// `judged` compares the throughput of two contenders, given by index. Contenders that are `left_out` are named with
/// their reason and never ranked. Among the others, the best is the one with the most differences in its favour, and
/// on a tie the one with the highest median. The best is compared with each of the others. The ratio, interval,
/// medians and claim of a comparison refer to the same rounds, and a claim names the conditions that favour its
/// winner.
///
/// If all systems kept up with an open load, throughput equals the offered rate and is not compared. Caveats and
/// failures appear in the first clause.
pub fn sentence(scene: &Scene<'_>, contenders: &[Contender], judged: &PairJudge<'_>) -> String {
    let what = ComparisonSubject::new(scene);
    let takes_part =
        |(_, one): &(usize, &Contender)| one.left_out.is_none() && !one.rates.is_empty();
    let ranked: Vec<(usize, &Contender)> =
        contenders.iter().enumerate().filter(takes_part).collect();
    let all: Vec<&Contender> = ranked.iter().map(|(_, one)| *one).collect();
    let mut clauses = match all.as_slice() {
        [] => {
            vec![Clause::plain(format!("nothing can be said of {}{}", what.the(), what.full()))]
        }
        [only] => {
            let mut clauses = vec![Clause::plain(did(&all, &what, true))];
            clauses.extend(only.tail.clone().map(Clause::plain));
            if contenders.len() == 1 {
                clauses.push(Clause::plain("one system: nothing is compared".to_owned()));
            }
            clauses
        }
        all if scene.open && all.iter().all(|one| one.kept_up) => {
            let deciding = scene.deciding.iter().cloned().map(Clause::plain);
            std::iter::once(Clause::plain(kept_up(all, &what))).chain(deciding).collect()
        }
        _ => compared(ranked, &what, judged),
    };
    let mut caveats: Vec<String> = all.iter().flat_map(|one| one.caveats.clone()).collect();
    caveats.extend(all.iter().filter_map(|one| one.failed.clone()));
    // A claim with this condition mentions it already.
    caveats.retain(|caveat| !clauses.iter().any(|clause| clause.to_string().contains(caveat)));
    if let Some(first) = clauses.first_mut() {
        first.but.extend(caveats);
    }
    let left_out = contenders.iter().filter_map(|one| one.left_out.clone());
    let clauses = clauses.iter().map(Clause::to_string).chain(left_out);
    clauses.collect::<Vec<_>>().join("; ")
}

/// Words the subject of a comparison.
struct ComparisonSubject<'a> {
    /// Compared figure: `puts per second under create/steady`.
    figure: String,
    /// Kind of load: `closed load, 64 clients`.
    load: &'a str,
    /// Verb, such as `did`.
    verb: &'static str,
    /// Suffix of each number.
    unit: &'static str,
    /// Words between the numbers and the figure.
    as_the: &'static str,
}

impl<'a> ComparisonSubject<'a> {
    fn new(scene: &Scene<'a>) -> Self {
        let (place, load) = (scene.place, scene.load);
        match scene.counted {
            ComparedFigure::PerSecond(operations) => Self {
                figure: format!("{operations} per second under {place}"),
                load,
                verb: "did",
                unit: "",
                as_the: "",
            },
            ComparedFigure::HighestRate(objective) => Self {
                figure: format!("highest rate that keeps {objective} under {place}"),
                load,
                verb: "had",
                unit: "/s",
                as_the: "as the ",
            },
        }
    }

    fn the(&self) -> &'static str {
        self.as_the.strip_prefix("as ").unwrap_or_default()
    }

    /// Returns the figure with the kind of load.
    fn full(&self) -> String {
        format!("{} ({})", self.figure, self.load)
    }
}

fn kept_up(all: &[&Contender], what: &ComparisonSubject<'_>) -> String {
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    let rates: Vec<String> = all.iter().map(|one| median(one)).collect();
    format!(
        "{} kept up with what was offered: {} {} {}",
        and(&names),
        and(&rates),
        what.full(),
        in_trials(all)
    )
}

/// Returns the clauses that compare the best with each other system.
fn compared(
    ranked: Vec<(usize, &Contender)>,
    what: &ComparisonSubject<'_>,
    judged: &PairJudge<'_>,
) -> Vec<Clause> {
    let (best_place, best) = the_best(&ranked, judged);
    let others: Vec<(&Contender, Result<ThroughputJudgement, NotCompared>)> =
        others(&ranked, best_place).map(|(place, one)| (one, judged(best_place, place))).collect();
    if let Some(why) = not_compared(&others) {
        let in_order: Vec<&Contender> = ranked.iter().map(|(_, one)| *one).collect();
        let did = did(&in_order, what, true);
        let once = in_order.iter().all(|one| one.rates.len() == 1);
        return vec![Clause::plain(match why {
            NotCompared::TooFew if once => {
                format!("{did}: one trial per system, nothing is compared")
            }
            why => format!("{did}: {why}"),
        })];
    }
    let tail = tail::clause(best, &others);
    let higher: Vec<(&Contender, ThroughputJudgement)> = others
        .iter()
        .filter_map(|(other, comparing)| Some((*other, comparing.clone().ok()?)))
        .filter(|(_, comparing)| comparing.claim() == Claim::Higher)
        .collect();
    let mut clauses = Vec::new();
    // Comparisons over the same rounds share a clause.
    let mut grouped: Vec<(&Contender, ThroughputJudgement)> = Vec::new();
    for one in higher {
        let alike = |other: &ThroughputJudgement| {
            other.rounds == one.1.rounds && other.medians.0.to_bits() == one.1.medians.0.to_bits()
        };
        if !grouped.is_empty() && !grouped.iter().all(|(_, other)| alike(other)) {
            clauses.push(sustained(best, &std::mem::take(&mut grouped), what, clauses.is_empty()));
        }
        grouped.push(one);
    }
    if !grouped.is_empty() {
        clauses.push(sustained(best, &grouped, what, clauses.is_empty()));
    }
    for (other, comparing) in others {
        let is_first = clauses.is_empty();
        let under = match is_first {
            true => format!(" in {}{}", what.the(), what.full()),
            false => String::new(),
        };
        let comparing = match comparing {
            Ok(comparing) => comparing,
            Err(why) => {
                let did = did(&[best, other], what, is_first);
                clauses.push(Clause::plain(format!("{did}: {why}")));
                continue;
            }
        };
        clauses.push(match comparing.claim() {
            Claim::Higher => continue,
            Claim::Lower => sustained(other, &[(best, comparing.turned())], what, is_first),
            Claim::NoneShown => Clause::plain(no_difference(best, other, &under, &comparing)),
            Claim::Withheld(why) => Clause::plain(withheld((best, other), &under, &comparing, why)),
        });
    }
    clauses.extend(tail.map(Clause::plain));
    clauses
}

/// Returns the first reason if no pair was compared.
fn not_compared(
    others: &[(&Contender, Result<ThroughputJudgement, NotCompared>)],
) -> Option<NotCompared> {
    let reasons: Option<Vec<&NotCompared>> =
        others.iter().map(|(_, comparing)| comparing.as_ref().err()).collect();
    reasons?.first().map(|why| (*why).clone())
}

/// Returns all contenders except the one at index `but`, the highest median first.
fn others<'a>(
    ranked: &'a [(usize, &'a Contender)],
    but: usize,
) -> impl Iterator<Item = (usize, &'a Contender)> {
    let mut others: Vec<(usize, &Contender)> =
        ranked.iter().filter(|(place, _)| *place != but).copied().collect();
    others.sort_by(|(_, a), (_, b)| middle_of(&b.rates).total_cmp(&middle_of(&a.rates)));
    others.into_iter()
}

/// Returns the best contender: the one with the most claims for it minus those against it. A tie goes to the higher
/// median in most pairs, each over the pair's common rounds, then to the highest median of all its trials.
fn the_best<'a>(
    ranked: &[(usize, &'a Contender)],
    judged: &PairJudge<'_>,
) -> (usize, &'a Contender) {
    let net = |at: usize| -> (i32, i32) {
        let mut sum = (0, 0);
        for &(other, _) in ranked.iter().filter(|(place, _)| *place != at) {
            let Ok(comparing) = judged(at, other) else { continue };
            sum.0 += match comparing.claim() {
                Claim::Higher => 1,
                Claim::Lower => -1,
                Claim::NoneShown | Claim::Withheld(_) => 0,
            };
            sum.1 += match comparing.medians {
                (a, b) if a > b => 1,
                (a, b) if a < b => -1,
                _ => 0,
            };
        }
        sum
    };
    let better = |a: &&(usize, &Contender), b: &&(usize, &Contender)| {
        let medians = middle_of(&a.1.rates).total_cmp(&middle_of(&b.1.rates));
        // On a complete tie the first one wins.
        net(a.0).cmp(&net(b.0)).then(medians).then(b.0.cmp(&a.0))
    };
    *ranked.iter().max_by(better).expect("there are at least two")
}

/// Writes `etcd sustained 1.74 times zookeeper's puts per second under create/steady (closed load, 64 clients; 95 %
/// interval 1.61 to 1.88, 7 trials each; medians 5,100 and 2,930)`. `whole`: no earlier clause named the figure.
fn sustained(
    best: &Contender,
    apart: &[(&Contender, ThroughputJudgement)],
    what: &ComparisonSubject<'_>,
    whole: bool,
) -> Clause {
    let rounds = apart.first().map_or(0, |(_, comparing)| comparing.rounds);
    let mut all = vec![best];
    all.extend(apart.iter().map(|(other, _)| *other));
    let best_median = apart.first().map(|(_, comparing)| comparing.medians.0);
    let medians: Vec<String> = best_median
        .into_iter()
        .chain(apart.iter().map(|(_, comparing)| comparing.medians.1))
        .map(figure_text)
        .collect();
    let trials = rounds_text(&all, rounds);
    let interval = |comparing: &ThroughputJudgement| interval_text(comparing.answer.interval);
    let (times, intervals) = match apart {
        [(other, comparing)] => (
            format!("{} {}'s", times_text(&comparing.answer, comparing.early), other.name),
            format!("95 % interval {}", interval(comparing)),
        ),
        several => {
            let times = several.iter().map(|(other, comparing)| {
                let times = times_text(&comparing.answer, comparing.early);
                format!("{times} {}'s ({})", other.name, interval(comparing))
            });
            (and(&times.collect::<Vec<_>>()), "95 % intervals".to_owned())
        }
    };
    let medians = and(&medians);
    let (figure, load) = match whole {
        true => (format!(" {}", what.figure), format!("{}; ", what.load)),
        false => (String::new(), String::new()),
    };
    let text = format!(
        "{} sustained {times}{figure} ({load}{intervals}, {trials}; medians {medians})",
        best.name
    );
    Clause { text, but: conditions(apart) }
}

/// Returns the conditions of a claim over several systems, each once. `(unlike consul)` follows those that do not
/// hold against all.
fn conditions(apart: &[(&Contender, ThroughputJudgement)]) -> Vec<String> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for (other, comparing) in apart {
        for condition in &comparing.conditions {
            match found.iter_mut().find(|(same, _)| same == condition) {
                Some((_, unlike)) => unlike.push(&other.name),
                None => found.push((condition, vec![&other.name])),
            }
        }
    }
    let text = |(condition, unlike): (&str, Vec<&str>)| match unlike.len() == apart.len() {
        true => condition.to_owned(),
        false => format!("{condition} (unlike {})", and(&unlike)),
    };
    found.into_iter().map(text).collect()
}

/// Writes `no difference shown between etcd and zookeeper in puts per second under create/steady; a difference of
/// more than 6.0 % would have been detected if all trials scatter as these do (5 trials each; medians 5,100 and
/// 5,080)`.
fn no_difference(
    best: &Contender,
    other: &Contender,
    under: &str,
    of: &ThroughputJudgement,
) -> String {
    let seen = match of.answer.finding {
        Finding::NoneShown { min_detectable } => min_detectable_text(min_detectable),
        Finding::Higher | Finding::Lower => String::new(),
    };
    format!(
        "no difference shown between {} and {}{under}; {seen} ({}; medians {} and {})",
        best.name,
        other.name,
        rounds_text(&[best, other], of.rounds),
        figure_text(of.medians.0),
        figure_text(of.medians.1)
    )
}

/// Writes `etcd is not said to be better than zookeeper in puts per second under create/steady, though its median is
/// 1.05 times the other's in the 4 rounds with valid trials of both (95 % interval 1.04 to 1.06; medians 5,250 and
/// 5,000): with its 3 failed trials taken as 0 the medians are 5,100 and 5,000`.
fn withheld(
    both: (&Contender, &Contender),
    under: &str,
    of: &ThroughputJudgement,
    why: WithheldReason,
) -> String {
    let of = of.clone();
    let first_is_higher = of.answer.finding == Finding::Higher;
    let ((higher, other), of) =
        if first_is_higher { (both, of) } else { ((both.1, both.0), of.turned()) };
    let why = match (why, of.worst) {
        (WithheldReason::Failed(trials), Some((a, b))) => format!(
            "with failed trials ({trials} of {}) taken as 0 the medians are {} and {}",
            higher.name,
            figure_text(a),
            figure_text(b)
        ),
        (WithheldReason::Failed(trials), None) => format!("{trials} of its trials failed"),
        (WithheldReason::Unclear(trials), _) => {
            let were = if trials == 1 { "was" } else { "were" };
            format!(
                "with what was measured in {} that {were} not steady it is not shown",
                trials_text(trials)
            )
        }
    };
    format!(
        "{} is not said to be better than {}{under}, though its median is {} times the other's in the \
         {} rounds with valid trials of both (95 % interval {}; medians {} and {}): {why}",
        higher.name,
        other.name,
        ratio_text(of.answer.ratio),
        of.rounds,
        interval_text(of.answer.interval),
        figure_text(of.medians.0),
        figure_text(of.medians.1)
    )
}

/// Returns `5 trials each`, or the number of rounds with valid trials of both if others lack them.
fn rounds_text(all: &[&Contender], rounds: usize) -> String {
    if all.iter().all(|one| one.rates.len() == rounds) {
        format!("{rounds} trials each")
    } else {
        format!("{rounds} rounds with valid trials of both")
    }
}

/// Writes `etcd did 2,921 and zookeeper 3,115 puts per second under create/best in 1 trial each`. `whole`: no earlier
/// clause named the figure.
fn did(all: &[&Contender], what: &ComparisonSubject<'_>, whole: bool) -> String {
    let each: Vec<String> = (0..)
        .zip(all)
        .map(|(place, one)| {
            let did = if place == 0 { format!(" {}", what.verb) } else { String::new() };
            format!("{}{did} {}{}", one.name, median(one), what.unit)
        })
        .collect();
    let figure = if whole { format!(" {}{}", what.as_the, what.full()) } else { String::new() };
    format!("{}{figure} {}", and(&each), in_trials(all))
}

/// Returns `in 1 trial each` or `in 3 and 1 trials`.
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
    figure_text(middle_of(&of.rates))
}

/// Returns the median of at least one number.
fn middle_of(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    middle(&sorted)
}

#[cfg(test)]
mod tests;
