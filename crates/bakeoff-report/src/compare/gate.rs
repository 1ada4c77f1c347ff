//! Compares two builds of one system, interleaved in one run: may the new one be merged?
//!
//! Rounds pair the builds, so a slow quarter of an hour affects both and cancels. Both run on one machine within the
//! same hour. Only the conditions are judged, at a level that stops a merge without changes once in a thousand. All
//! other figures are in the run's report. Without conditions, the figure of each load must not be worse by more than a
//! margin, and no more operations may fail.
//!
//! Not here: the level and the number of rounds (`stats::gate`), the study (`study::gate`).

use std::collections::BTreeMap;
use std::fmt;

use bakeoff_core::check::Cause;
use bakeoff_core::condition::ConditionError;
use bakeoff_core::record::{Gate, Record, SystemRecord, TrialRecord};
use bakeoff_core::stats::gate::{self, LEVEL, Losses, Shortfall, SlowTrials};
use bakeoff_core::stats::judge::{self, Correction, Question, Scale, Trials};
use bakeoff_core::stats::rounds::Preference;
use bakeoff_core::stats::{Figure, TRIALS_MIN, and};
use bakeoff_core::study::BUILDS;
use bakeoff_core::units::{share_text, trials_text};

use super::not_judged::{NotJudged, Side};
use super::{
    Change, FailIf, FailIfOutcome, RunComparison, Section, Subject, same_memory, scale, unlike,
};
use crate::derive::comparison::Comparison;
use crate::derive::conditions::lesser_guarantees;
use crate::derive::durability;
use crate::derive::judgement::{self, better, clients, subjects};
use crate::derive::leader::deciding;
use crate::model::contender::Contender;
use crate::model::contest::Contest;
use crate::model::quantity::Quantity;

/// Confidence: one minus [`LEVEL`].
pub(super) const CONFIDENCE: &str = "99.9 %";
/// Share of operations by which errors may exceed their limit without having to be ruled out.
pub(super) const ERRORS_SLACK: f64 = 0.001;
/// Default condition on errors: more of the new build's operations fail, by more than noise.
const MORE_ERRORS: &str = "errors > +0%";

/// Outcome of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateOutcome {
    /// Every condition is ruled out.
    Yes,
    /// A condition is proven.
    No,
    /// Trials failed because of a build, so the gate cannot be judged.
    NotValid,
    /// No condition is proven, but a loss is not ruled out.
    CannotTell,
}

/// The reason why a gate cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The run is not one of `bakeoff gate`.
    #[error("not a run of `bakeoff gate`, which compares two builds of one system")]
    NoGate,
    /// One of its conditions cannot be parsed.
    #[error("{0}")]
    Condition(#[source] ConditionError),
}

impl RunComparison {
    /// Judges the run of a gate.
    ///
    /// # Errors
    /// When the run is not a gate, or its conditions cannot be parsed.
    pub fn gate(record: &Record) -> Result<Self, GateError> {
        let record = &*durability::lowered(record);
        let asked = record.header.gate.as_ref().ok_or(GateError::NoGate)?;
        let comparisons = Comparison::all(record);
        let losses = Losses::asked(asked.detect, asked.fail_if.len());
        let read = |text: &String| text.parse::<FailIf>().map_err(GateError::Condition);
        let conditions: Vec<FailIf> = match asked.fail_if.is_empty() {
            false => asked.fail_if.iter().map(read).collect::<Result<_, _>>()?,
            true => comparisons
                .iter()
                .flat_map(|one| {
                    let worse = |quantity| FailIf::worse(&one.place(), quantity, losses.margin);
                    deciding(one).into_iter().map(worse)
                })
                .chain([read(&MORE_ERRORS.to_owned())?])
                .collect(),
        };
        let mut sections = Vec::new();
        let mut questions = Vec::new();
        for one in &comparisons {
            let changes = changes(one, &asked.system, &conditions, &mut questions);
            sections.push(Section {
                place: one.place(),
                load_kind: bakeoff_core::plan::load_kind(&one.load),
                load: one.load_text(),
                family: 0,
                changes,
            });
        }
        let answers = judge::judge_at(&questions, Correction::AtOnce, LEVEL);
        let family = answers.iter().flatten().count();
        let leading = questions.iter().filter(|one| one.leading).count();
        let mut lacking: Vec<Shortfall> = Vec::new();
        let ran = trials_of_each(record);
        let changes = sections.iter_mut().flat_map(|section| &mut section.changes);
        for ((change, answer), question) in changes.zip(answers).zip(&questions) {
            change.answer = answer;
            if answer.is_none() && change.why_not.is_none() {
                change.why_not = Some(NotJudged::TooFewRounds(question.trials.counts().0));
            }
            let Some(gains) = gains(question, change.quantity) else { continue };
            let lacks = gate::shortfall(&gains, losses, leading);
            change.slow = gate::slow_trials(&gains, losses.detect);
            lacking.extend(lacks);
            let enough = gate::rounds(losses, gate::SCATTER, leading);
            change.more_trials = Some(MoreTrials::new(ran, gains.len(), lacks, enough));
        }
        sections.iter_mut().for_each(|section| section.family = family);
        let mut compared = Self {
            base: build(record, 0),
            new: build(record, 1),
            differences: differences(record, &comparisons),
            runs: None,
            unproven: None,
            sections,
            outcomes: Vec::new(),
            gate: Some(asked.clone()),
            own_failures: record.trials.iter().any(failed_by_itself),
            broken: Contest::broken_guarantees(comparisons.iter().map(|one| &**one)),
            weaker: weaker(&comparisons),
            fewest_rounds: fewest_rounds(&questions),
            shortfall: lacking.into_iter().max_by_key(|lacks| lacks.rounds),
        };
        compared.outcomes =
            conditions.iter().map(|one| (one.to_string(), one.ask(&compared))).collect();
        for condition in &conditions {
            condition.check_names(&compared).map_err(GateError::Condition)?;
        }
        Ok(compared)
    }

    /// Returns the outcome; `None` if this is not a gate.
    pub fn passed(&self) -> Option<GateOutcome> {
        self.gate.as_ref()?;
        let any = |is: fn(&FailIfOutcome) -> bool| self.outcomes.iter().any(|(_, one)| is(one));
        Some(if any(|one| matches!(one, FailIfOutcome::Proven(_))) {
            GateOutcome::No
        } else if self.own_failures {
            GateOutcome::NotValid
        } else if any(|one| matches!(one, FailIfOutcome::CannotTell(_))) {
            GateOutcome::CannotTell
        } else {
            GateOutcome::Yes
        })
    }

    /// Returns the rounds that a gate lacks to detect its smallest loss. They follow from the scatter of the trials,
    /// never from the observed change. `None` if the rounds suffice, or if a build spoiled trials, so that more rounds
    /// would not help.
    pub fn shortfall(&self) -> Option<Shortfall> {
        self.shortfall.filter(|_| !self.own_failures)
    }

    /// Returns the outcome of a gate as a sentence without its full stop.
    pub(crate) fn verdict(&self) -> Option<String> {
        let Gate { system, detect, .. } = self.gate.as_ref()?;
        let detect = share_text(*detect);
        let proven = |(condition, outcome): &(String, FailIfOutcome)| {
            matches!(outcome, FailIfOutcome::Proven(_)).then(|| condition.clone())
        };
        let proven: Vec<String> = self.outcomes.iter().filter_map(proven).collect();
        if !self.broken.is_empty() {
            return Some(format!("stop: {}", [self.broken.clone(), proven].concat().join("; ")));
        }
        Some(match self.passed()? {
            GateOutcome::No => {
                format!("stop: proven for the new build of {system}: {}", proven.join("; "))
            }
            GateOutcome::NotValid => format!(
                "stop: {system} itself made trials not valid, so they cannot judge the new build"
            ),
            GateOutcome::CannotTell => {
                let why = match self.changes().find_map(|(_, change)| change.slow_text()) {
                    Some(slow) => slow,
                    None => match self.more_trials() {
                        Some(more) => format!("a loss of {detect} is still possible: {more}"),
                        None => format!("a loss of {detect} is still possible"),
                    },
                };
                format!(
                    "inconclusive: no condition is proven for the new build of {system}, but {why}"
                )
            }
            GateOutcome::Yes => {
                let mut text =
                    format!("pass: no condition is proven for the new build of {system}");
                if let Some(rounds) = self.fewest_rounds {
                    text += &format!(
                        ", and a loss of {detect} in its ordinary trials is ruled out; {}",
                        unseen_text(rounds)
                    );
                }
                if !self.weaker.is_empty() {
                    text += &format!("; but {}", and(&self.weaker));
                }
                text
            }
        })
    }

    /// Returns the most trials that any unanswered figure needs, with the reason.
    fn more_trials(&self) -> Option<&MoreTrials> {
        let unanswered = |of: &&Change| of.answer.is_some() && of.slow.is_none();
        let changes = self.changes().map(|(_, change)| change).filter(unanswered);
        changes.filter_map(|change| change.more_trials.as_ref()).max_by_key(|more| more.trials)
    }

    /// Returns the largest share of slow trials, 0 to 1, that could have gone undetected in the new build. `None` if
    /// this is not a gate, if nothing was judged, or if there were slow trials.
    pub(crate) fn unseen_share(&self) -> Option<f64> {
        let any_slow = self.changes().any(|(_, change)| change.slow.is_some());
        self.fewest_rounds.filter(|_| !any_slow).map(gate::unseen_share)
    }
}

/// The trials that would answer a figure's question, and why those that ran did not.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MoreTrials {
    /// Trials of each build, more than ran.
    trials: u32,
    /// Trials of each build that ran, also those that the machine disturbed.
    ran: u32,
    why: TooFewBecause,
}

/// The reason why a gate's trials did not answer a question.
#[derive(Debug, Clone, Copy, PartialEq)]
enum TooFewBecause {
    /// The figure scatters this much from trial to trial, as a share of it.
    Scatter(f64),
    /// The valid trials are too few to know the scatter.
    UnknownScatter,
    /// They answer in 19 of 20 merges, and this is another one.
    Chance,
}

impl MoreTrials {
    /// Words the need for trials after `ran` of them, of which `valid` count. `lacks`: the missing rounds by the scatter.
    /// `enough`: the trials that a gate begins with.
    fn new(ran: u32, valid: usize, lacks: Option<Shortfall>, enough: u32) -> Self {
        let (trials, why) = match lacks {
            Some(Shortfall { rounds, scatter }) => (ran + rounds, TooFewBecause::Scatter(scatter)),
            None if valid <= TRIALS_MIN => (enough.max(ran + 1), TooFewBecause::UnknownScatter),
            None => (ran * 2, TooFewBecause::Chance),
        };
        Self { trials, ran, why }
    }
}

/// Writes `figures scatter by 8.0 % between trials, so about 40 trials of each build are needed, and 6 ran`.
impl fmt::Display for MoreTrials {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trials, ran, why } = self;
        match why {
            TooFewBecause::Scatter(scatter) => {
                let scatter = share_text((scatter * 1000.0).ceil() / 1000.0);
                write!(to, "figures scatter by {scatter} between trials, so ")?;
            }
            TooFewBecause::UnknownScatter => {
                to.write_str("too few trials are valid to know their scatter; ")?;
            }
            TooFewBecause::Chance => {
                to.write_str("chance left the interval across the limit; ")?;
            }
        }
        write!(to, "about {trials} trials of each build are needed, and {ran} ran")
    }
}

/// Returns the trials of each build that ran, of the workload and load with the most.
fn trials_of_each(record: &Record) -> u32 {
    let mut counts: BTreeMap<(&str, &str, &str), u32> = BTreeMap::new();
    for TrialRecord { trial, .. } in &record.trials {
        *counts.entry((&trial.system, &trial.workload, &trial.load)).or_default() += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

/// Returns the fewest rounds of any judged ratio.
fn fewest_rounds(questions: &[Question]) -> Option<usize> {
    let ratios = questions.iter().filter(|one| one.scale == Scale::Ratio);
    ratios.filter(|one| !one.trials.too_few()).map(|one| one.trials.counts().0).min()
}

/// Returns `14 trials of each: a build that is slow in fewer than 20 % of its trials could have passed undetected`.
fn unseen_text(rounds: usize) -> String {
    let percent = (gate::unseen_share(rounds) * 100.0).ceil();
    format!(
        "{rounds} trials of each: a build that is slow in fewer than {percent} % of its trials could have \
         passed undetected"
    )
}

/// Returns `1 of its 14 trials was slow (worse by up to 50 %, and none of the base's)`.
pub(super) fn slow_text(slow: &SlowTrials, trials: usize) -> String {
    let SlowTrials { new, base, worst } = *slow;
    let were = if new == 1 { "was" } else { "were" };
    let others = if base == 0 { "none".to_owned() } else { base.to_string() };
    format!(
        "{new} of its {} {were} slow (worse by up to {:.0} %, and {others} of the base's)",
        trials_text(trials),
        worst * 100.0
    )
}

/// Returns the guarantees and checks that favour the new build, as clauses.
fn weaker(comparisons: &[Comparison]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for of in comparisons {
        let [base, new] = BUILDS.map(|name| of.contenders.iter().find(|one| one.system == name));
        let (Some(base), Some(new)) = (base, new) else { continue };
        for one in lesser_guarantees(new, base, of, "the new build") {
            if !found.contains(&one) {
                found.push(one);
            }
        }
    }
    found
}

/// Returns true if a trial is invalid for another reason than a disturbed machine or generator.
fn failed_by_itself(trial: &TrialRecord) -> bool {
    matches!(trial.cause(), Some(Cause::System | Cause::User | Cause::Unclear))
}

/// Returns the changes that conditions ask for under one workload and load, and appends a question for each.
fn changes(
    of: &Comparison,
    system: &str,
    conditions: &[FailIf],
    questions: &mut Vec<Question>,
) -> Vec<Change> {
    let place = of.place();
    let builds = BUILDS.map(|name| of.contenders.iter().find(|one| one.system == name));
    let [Some(base), Some(new)] = builds else { return Vec::new() };
    let about = conditions.iter().filter(|one| one.is_about(&place, system));
    let mut asked: Vec<Quantity> = about.map(FailIf::quantity).collect();
    asked.sort_unstable();
    asked.dedup();
    let mut changes = Vec::new();
    let stages = of.load.clients.len();
    let subjects = asked.iter().flat_map(|&quantity| subjects(quantity, stages));
    for judgement::Subject { quantity, stage } in subjects {
        let scale = scale(quantity);
        let subject = Subject { quantity, stage, scale };
        let mixed = (of.is_split() && quantity.mixes_halves()).then_some(NotJudged::MixesHalves);
        let pairs = match mixed {
            Some(why) => Err(why),
            None => same_memory(quantity, base, new).and_then(|()| rounds(new, base, subject)),
        };
        let (pairs, why_not) = match pairs {
            Ok(pairs) => (pairs, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let medians = (new.summary_of(quantity, stage), base.summary_of(quantity, stage));
        let trials = Trials::ByRound(pairs);
        let ratio = match (medians.0.median.value(), medians.1.median.value()) {
            (Some(new), Some(base)) if why_not.is_none() => Some(scale.between(new, base)),
            _ => None,
        };
        // There are usually no errors, so this question takes little from the others.
        let leading = quantity != Quantity::ErrorShare || asked.len() == 1;
        questions.push(Question { trials, leading, scale });
        changes.push(Change {
            system: system.to_owned(),
            quantity,
            clients: stage.map(|stage| clients(&of.load, new, stage)),
            base: medians.1,
            new: medians.0,
            ratio,
            answer: None,
            why_not,
            more_trials: None,
            slow: None,
        });
    }
    changes
}

/// Returns both builds' figures of each round in which both have a valid trial. The error says why they are not
/// comparable.
fn rounds(
    new: &Contender,
    base: &Contender,
    subject: Subject,
) -> Result<Vec<(f64, f64)>, NotJudged> {
    let Subject { quantity, stage, scale } = subject;
    let mut rounds = Vec::new();
    for ours in new.valid() {
        let Some(theirs) = base.valid().find(|theirs| theirs.round == ours.round) else { continue };
        let mut pair = [0.0; 2];
        let figures = [(Side::NewBuild, ours), (Side::BaseBuild, theirs)]
            .map(|(side, trial)| (side, trial.of_stage(quantity, stage)));
        for (place, (side, figure)) in pair.iter_mut().zip(figures) {
            if let Some(why) = figure.incomparable() {
                return Err(NotJudged::Incomparable { side, why });
            }
            *place = match figure {
                Figure::Value(value) if value > 0.0 || scale == Scale::Points => value,
                Figure::Value(_) => return Err(NotJudged::Zero(side)),
                _ => return Err(NotJudged::NoFigure(side)),
            };
        }
        rounds.push((pair[0], pair[1]));
    }
    Ok(rounds)
}

/// Returns the new build's gains by round, as logarithms. Losses are negative for every figure. `None` for shares,
/// which may be 0.
fn gains(question: &Question, quantity: Quantity) -> Option<Vec<f64>> {
    let Trials::ByRound(rounds) = &question.trials else { return None };
    if scale(quantity) == Scale::Points {
        return None;
    }
    let sign = if better(quantity) == Preference::More { 1.0 } else { -1.0 };
    Some(rounds.iter().map(|(new, base)| sign * (new / base).ln()).collect())
}

/// Describes a build: `etcd 3.6.1, program given: /tmp/etcd`.
fn build(record: &Record, place: usize) -> String {
    let Some(SystemRecord { kind, version, source, .. }) = record.header.systems.get(place) else {
        return "unknown".to_owned();
    };
    let version = version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let source = source.as_ref().map(|source| format!(", {source}")).unwrap_or_default();
    format!("{kind}{version}{source}")
}

/// Returns the differences between the builds, and what to know before any figure.
fn differences(record: &Record, comparisons: &[Comparison]) -> Vec<String> {
    let mut found = Vec::new();
    let run = record.trials.len();
    if !record.is_complete() {
        let of = trials_text(record.header.order.len());
        found.push(format!("the run is incomplete: {run} of {of}"));
    }
    let value = |place: usize| {
        let system = record.header.systems.get(place).cloned().unwrap_or_default();
        let parts = Vec::new();
        serde_json::to_value(SystemRecord { name: String::new(), parts, ..system })
            .unwrap_or_default()
    };
    let mut changed = Vec::new();
    unlike("", &value(0), &value(1), &mut changed);
    if !changed.is_empty() {
        found.push(format!("base and new differ: {}", changed.join("; ")));
    }
    found.extend(weaker(comparisons));
    found.extend(
        comparisons.iter().flat_map(crate::derive::findings::findings).map(|finding| finding.text),
    );
    found
}
