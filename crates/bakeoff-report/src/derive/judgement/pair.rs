//! Compares two systems by one figure: whether they are comparable, in which rounds, and the verdict.
//!
//! Not here: the choice of figures (`judgement`), the test (`stats::judge`).

use bakeoff_core::check::Cause;
use bakeoff_core::stats::Figure;
use bakeoff_core::stats::judge::{Finding, Question, Scale, TestResult, Trials};
use bakeoff_core::stats::rounds::{Rounds, Yield, medians};
use bakeoff_core::study::Load;

use super::{JudgedAs, Judgement, LedBy, Subject, better, clients};
use crate::derive::not_comparable::NotComparable;
use crate::derive::{conditions, nodes};
use crate::model::contender::Contender;
use crate::model::contest::Contest;
use crate::model::quantity::{Quantity, WatchQuantity};
use crate::model::trial::TrialFigures;

/// Two systems and one figure, before the family is judged.
pub(super) struct Pair<'c> {
    a: &'c Contender,
    b: &'c Contender,
    rounds: Rounds,
    judgement: Judgement,
}

impl<'c> Pair<'c> {
    /// Returns the pair and its question for the family. An incomparable pair has a question without trials, which
    /// leaves it out of the family. `seed`: seed of its bootstrap.
    pub(super) fn new(
        a: &'c Contender,
        b: &'c Contender,
        subject: Subject,
        led_by: LedBy,
        contest: &Contest,
        seed: u64,
    ) -> (Self, Question) {
        let Subject { quantity, stage } = subject;
        let leading = led_by.leads(quantity) && stage.is_none();
        let (rounds, incomparable) = match rounds(a, b, subject) {
            Ok(rounds) => (rounds, None),
            Err(why) => (Rounds::default(), Some(why)),
        };
        let not_compared = refusal(a, b, subject, led_by, &contest.load).or(incomparable);
        let valid = rounds.valid();
        let count = valid.len();
        let medians = match medians(&valid) {
            Some((a, b)) => (Figure::Value(a), Figure::Value(b)),
            None => (a.shown_of(quantity, stage), b.shown_of(quantity, stage)),
        };
        let worst = rounds.any_failed().then(|| rounds.worst_medians(better(quantity))).flatten();
        let trials = Trials::ByRound(if not_compared.is_some() { Vec::new() } else { valid });
        let judgement = Judgement {
            a: a.system.clone(),
            b: b.system.clone(),
            quantity,
            stage,
            clients: stage.map_or(0, |stage| clients(&contest.load, a, stage)),
            leading,
            medians,
            rounds: count,
            family: 0,
            answer: None,
            bootstrap: trials.bootstrap(Scale::Ratio, seed),
            worst,
            in_report: None,
            early: false,
            verdict: not_compared.map_or(JudgedAs::TooFew, JudgedAs::NotJudged),
            load: contest.load_text(),
            conditions: Vec::new(),
        };
        (Self { a, b, rounds, judgement }, Question { trials, leading, scale: Scale::Ratio })
    }

    /// Returns the judgement. `answer`: the result within the family; `None` if the pair is not in it.
    pub(super) fn judged(
        mut self,
        answer: Option<TestResult>,
        family: usize,
        contest: &Contest,
    ) -> Judgement {
        self.judgement.family = family;
        let Some(answer) = answer else { return self.judgement };
        self.judgement.verdict = self.verdict(&answer);
        self.judgement.answer = Some(answer);
        if self.judgement.claims() && self.is_within_delays() {
            self.judgement.verdict = JudgedAs::WithinDelays;
        }
        self.judgement.conditions = match self.judgement.winner() {
            Some(winner) if winner == self.a.system => {
                conditions::favouring(self.a, self.b, contest)
            }
            Some(_) => conditions::favouring(self.b, self.a, contest),
            None => Vec::new(),
        };
        self.judgement
    }

    /// Returns the verdict that follows from the result and from invalid trials.
    fn verdict(&self, answer: &TestResult) -> JudgedAs {
        let better = better(self.judgement.quantity);
        if let Some(why) = self.rounds.withheld(answer, Scale::Ratio, better) {
            return JudgedAs::Withheld { higher: answer.finding == Finding::Higher, why };
        }
        match answer.finding {
            Finding::Higher => JudgedAs::Higher,
            Finding::Lower => JudgedAs::Lower,
            Finding::NoneShown { min_detectable } => JudgedAs::NoneShown { min_detectable },
        }
    }

    /// Returns true if response times differ by no more than the generator may have added to the longer one.
    fn is_within_delays(&self) -> bool {
        let delay = match self.judgement.quantity {
            Quantity::Response(point) => Quantity::Added(point),
            Quantity::Watch(WatchQuantity::Known(point)) => {
                Quantity::Watch(WatchQuantity::ReceiveLag(point))
            }
            _ => return false,
        };
        let (ours, theirs) = self.judgement.medians;
        let (Some(ours), Some(theirs)) = (ours.value(), theirs.value()) else { return false };
        let slower = if ours > theirs { self.a } else { self.b };
        let added = slower.shown(delay).value().unwrap_or(0.0);
        (ours - theirs).abs() <= added
    }
}

/// Returns why two systems are not compared by a figure, regardless of their measurements.
fn refusal(
    a: &Contender,
    b: &Contender,
    subject: Subject,
    led_by: LedBy,
    load: &Load,
) -> Option<NotComparable> {
    let kept_up = matches!(led_by, LedBy::Response(_) | LedBy::Known | LedBy::HalvesResponse);
    // Operations were due at the same rate, even if a system did not keep up.
    let open = load.arrivals.rate().is_some() && load.find.is_none();
    if let Some(why) = subject.stage.and_then(|stage| differ(load, a, b, stage)) {
        return Some(why);
    }
    match subject.quantity {
        Quantity::ThroughputMean | Quantity::ThroughputOf(_) if kept_up => {
            Some(NotComparable::BothKeptUp)
        }
        Quantity::Response(_) | Quantity::ResponseOf(..) | Quantity::Watch(_) if open => {
            behind(a, b)
        }
        quantity @ (Quantity::CpuPerOperation | Quantity::MemorySum) => {
            let memory = nodes::other_memory(quantity, a, b);
            nodes::of_other_things(a, b).or(memory.map(NotComparable::OtherMemory))
        }
        _ => None,
    }
}

/// Rejects a stage in which the two systems had different numbers of clients.
fn differ(load: &Load, a: &Contender, b: &Contender, stage: usize) -> Option<NotComparable> {
    let (ours, theirs) = (clients(load, a, stage), clients(load, b, stage));
    (ours != theirs)
        .then(|| NotComparable::OtherClients { system: b.system.clone(), clients: theirs })
}

/// Rejects response times of an open load if one of the two fell behind.
fn behind(a: &Contender, b: &Contender) -> Option<NotComparable> {
    let behind = [a, b].into_iter().find(|one| one.fell_behind())?;
    Some(NotComparable::FellBehind { system: behind.system.clone() })
}

/// Returns a trial's contribution to a comparison.
fn yielded(trial: Option<&TrialFigures>, subject: Subject) -> Yield {
    let Some(trial) = trial else { return Yield::Dropped };
    let figure =
        trial.of_stage(subject.quantity, subject.stage).value().filter(|&value| value > 0.0);
    match trial.validity.cause {
        None => figure.map_or(Yield::Dropped, Yield::Valid),
        Some(Cause::System) => Yield::Failed,
        Some(Cause::Unclear) => Yield::Unclear(figure),
        Some(Cause::Machine | Cause::Generator | Cause::User) => Yield::Dropped,
    }
}

/// Returns both systems' contributions in each round that either ran. The error says why their ratio is undefined.
fn rounds(a: &Contender, b: &Contender, subject: Subject) -> Result<Rounds, NotComparable> {
    let Subject { quantity, stage } = subject;
    let of = |one: &'_ Contender, round: u32| one.trials.iter().position(|t| t.round == round);
    let mut numbers: Vec<u32> = a.trials.iter().chain(&b.trials).map(|trial| trial.round).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut rounds = Vec::new();
    for round in numbers {
        let ours = of(a, round).map(|place| &a.trials[place]);
        let theirs = of(b, round).map(|place| &b.trials[place]);
        let both_valid = [ours, theirs].iter().all(|one| one.is_some_and(TrialFigures::valid));
        for (one, trial) in [(a, ours), (b, theirs)].into_iter().filter(|_| both_valid) {
            let system = || one.system.clone();
            let figure = trial.map(|trial| trial.of_stage(quantity, stage));
            if let Some(why) = figure.and_then(Figure::incomparable) {
                return Err(NotComparable::Incomparable { system: system(), why });
            }
            match figure {
                Some(Figure::Value(value)) if value <= 0.0 && quantity == Quantity::HighestRate => {
                    return Err(NotComparable::NoRateKept { system: system() });
                }
                Some(Figure::Value(value)) if value <= 0.0 => {
                    return Err(NotComparable::Zero { system: system() });
                }
                _ => {}
            }
        }
        rounds.push((yielded(ours, subject), yielded(theirs, subject)));
    }
    Ok(Rounds(rounds))
}
