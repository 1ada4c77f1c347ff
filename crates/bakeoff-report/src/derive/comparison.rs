//! One workload under one load, judged: the comparison of its systems, and the sentence about it.
//!
//! Not here: the trials and their figures (`model::contest`), the tests (`judgement`, `position`).

use std::collections::BTreeSet;
use std::ops::Deref;

use bakeoff_core::check::Cause;
use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::read_write_split::Side;
use bakeoff_core::record::Record;
use bakeoff_core::stats::{self, ComparedFigure, Figure, NotCompared, Scene, ThroughputJudgement};
use bakeoff_core::units::{share_text, trials_text};
use bakeoff_core::workload::mix64;

use crate::derive::judgement::{self, Judgement, LedBy};
use crate::derive::machine_baseline::Limits;
use crate::derive::outages::FaultOutages;
use crate::derive::position::Position;
use crate::derive::{conditions, outages};
use crate::model::contender::Contender;
use crate::model::contest::Contest;
use crate::model::quantity::{Point, Quantity};
use crate::model::trial::TrialFigures;

/// All systems under one workload and load, with the conclusions from their trials.
#[derive(Debug, Clone)]
pub(crate) struct Comparison {
    contest: Contest,
    /// Judgements by figure and pair; empty with fewer than two systems.
    pub(crate) judgements: Vec<Judgement>,
    /// The machine baseline, if it applies.
    pub(crate) limits: Option<Limits>,
    /// Effect of the place within a round; `None` if it cannot be tested.
    pub(crate) position: Option<Position>,
    /// Outages of each fault; empty without faults.
    pub(crate) outages: Vec<FaultOutages>,
}

/// Gives access to the measurements.
impl Deref for Comparison {
    type Target = Contest;

    fn deref(&self) -> &Contest {
        &self.contest
    }
}

impl Comparison {
    /// Returns every workload under each of its loads, judged: the one that carries the question, then the others in the
    /// study's order.
    pub(crate) fn all(record: &Record) -> Vec<Self> {
        let judge = |(place, contest): (u64, Contest)| Self {
            judgements: judged(
                &contest,
                (mix64(record.header.seed ^ place), record.false_alarms()),
            ),
            limits: Limits::from_record(record, &contest),
            position: None,
            outages: outages::outages(record, &contest),
            contest,
        };
        let mut all: Vec<Self> = (0..).zip(Contest::all(record)).map(judge).collect();
        let mut judgements: Vec<&mut Judgement> =
            all.iter_mut().flat_map(|one| &mut one.judgements).collect();
        let early = record.answered_after().is_some();
        judgements.iter_mut().for_each(|one| one.early = early);
        Judgement::hold_in_report(&mut judgements, record.false_alarms());
        let count = all.len();
        for one in &mut all {
            one.position = Position::judge(&one.contest, &one.judgements, count);
        }
        let (workload, load) = record.header.study.deciding_place();
        all.sort_by_key(|one| (&*one.workload.name, &*one.load.name) != (workload, load));
        all
    }

    /// Returns true if further rounds could add nothing: each pair of systems has an answer to each leading question.
    pub(super) fn is_answered(&self) -> bool {
        let systems = self.contenders.len();
        let mut leading = self.judgements.iter().filter(|one| one.leading).peekable();
        let pairs: BTreeSet<(&str, &str)> = leading.clone().map(|one| (&*one.a, &*one.b)).collect();
        pairs.len() == systems * systems.saturating_sub(1) / 2
            && leading.peek().is_some()
            && leading.all(Judgement::is_answered)
            && self.outages.iter().all(FaultOutages::is_answered)
    }

    /// Returns the finding as a sentence without its full stop; `None` if no trial ran.
    pub(crate) fn sentence(&self) -> Option<String> {
        if !self.was_run() {
            return None;
        }
        let wording = match self.compared() {
            Quantity::ThroughputOf(_) => {
                let halves = Side::BOTH.map(|side| self.wording(Quantity::ThroughputOf(side)));
                halves.join("; ")
            }
            compared => self.wording(compared),
        };
        Some(match self.of_these_servers() {
            Some(limited) => format!("{wording}; {limited}"),
            None => wording,
        })
    }

    /// Returns the comparison by one figure as text.
    fn wording(&self, compared: Quantity) -> String {
        let place = self.place();
        let said = |one: &Contender| for_the_sentence(one, self, compared, &place);
        // The clause about writes has already named the excluded systems and the caveats.
        let again = compared == Quantity::ThroughputOf(Side::Reads);
        let shown: Vec<&Contender> =
            self.contenders.iter().filter(|one| !again || said(one).left_out.is_none()).collect();
        let mut contenders: Vec<_> = shown.iter().map(|one| said(one)).collect();
        if again {
            for one in &mut contenders {
                (one.caveats, one.failed) = (Vec::new(), None);
            }
        }
        let find = self.load.find.as_ref().map(|find| find.text());
        let scene = Scene {
            counted: match (&find, compared) {
                (Some(objective), _) => ComparedFigure::HighestRate(objective),
                (None, Quantity::ThroughputOf(side)) => ComparedFigure::PerSecond(side.name()),
                (None, _) => ComparedFigure::PerSecond(self.counted()),
            },
            place: &place,
            load: &self.load_text(),
            open: self.is_open() && find.is_none(),
            deciding: self.deciding(compared),
        };
        let judged = |a: usize, b: usize| self.comparing(compared, shown[a], shown[b]);
        stats::sentence(&scene, &contenders, &judged)
    }

    /// Returns the high percentile that accompanies a figure.
    fn tail_next_to(&self, compared: Quantity) -> Quantity {
        match compared {
            Quantity::ThroughputOf(side) => Quantity::ResponseOf(side, Point::P99),
            _ => Quantity::Response(self.tail(None)),
        }
    }

    /// Returns the comparison of two systems by a figure. Includes the verdict about a high percentile unless one of
    /// them stood still, because a closed load hides stalls from percentiles.
    fn comparing(
        &self,
        compared: Quantity,
        a: &Contender,
        b: &Contender,
    ) -> Result<ThroughputJudgement, NotCompared> {
        let of_pair = |quantity: Quantity| {
            self.judgements.iter().find_map(|one| {
                let turned = !one.is_of(&a.system, &b.system)?;
                (one.quantity == quantity && one.stage.is_none()).then_some((one, turned))
            })
        };
        let still = [a, b].into_iter().any(|one| one.stood_still().is_some());
        let tail = of_pair(self.tail_next_to(compared)).filter(|_| !still);
        let (judgement, turned) = of_pair(compared).ok_or(NotCompared::TooFew)?;
        let comparing = judgement.comparing(tail.map(|(one, _)| one))?;
        Ok(if turned { comparing.turned() } else { comparing })
    }

    /// Returns the clauses about response times, if these decide: all declared differences, or each pair's verdict if
    /// there are none. `compared`: the throughput that they accompany.
    fn deciding(&self, compared: Quantity) -> Vec<String> {
        let decides = |one: &&Judgement| match (one.quantity, compared) {
            (Quantity::ResponseOf(side, _), Quantity::ThroughputOf(of)) => {
                one.leading && side == of
            }
            (Quantity::Response(_) | Quantity::Watch(_), _) => one.leading,
            _ => false,
        };
        let leading: Vec<&Judgement> = self.judgements.iter().filter(decides).collect();
        let declared: Vec<String> =
            leading.iter().filter(|one| one.claims()).map(|one| one.words()).collect();
        match declared.is_empty() {
            true => leading.iter().map(|one| one.words()).collect(),
            false => declared,
        }
    }
}

/// Judges the ranked systems.
fn judged(of: &Contest, by: (u64, f64)) -> Vec<Judgement> {
    let (place, open) = (of.place(), of.is_open());
    let compared = of.compared();
    let has_rate = |one: &&Contender| one.shown(compared) != Figure::Absent;
    let ranked: Vec<&Contender> = of
        .contenders
        .iter()
        .filter(|one| has_rate(one) && one.left_out(&place, false).is_none())
        .collect();
    let kept_up = open && ranked.iter().all(|one| one.valid().all(TrialFigures::kept_up));
    let for_what = match (&of.load.find, of.is_split(), kept_up) {
        (Some(_), _, _) => LedBy::HighestRate,
        (None, true, true) => LedBy::HalvesResponse,
        (None, true, false) => LedBy::HalvesThroughput,
        (None, false, true) if ranked.iter().any(|one| has_known(one)) => LedBy::Known,
        (None, false, true) => LedBy::Response(of.tail(None)),
        (None, false, false) => LedBy::Throughput,
    };
    Judgement::all(&ranked, for_what, of, by)
}

/// Returns true if the time until its watchers knew a write was measured.
fn has_known(of: &Contender) -> bool {
    of.shown(judgement::KNOWN) != Figure::Absent
}

/// Returns a system's input for the sentence. `of`: workload and load; `compared`: the figure.
fn for_the_sentence(
    one: &Contender,
    of: &Comparison,
    compared: Quantity,
    place: &str,
) -> stats::Contender {
    let name = &one.system;
    let rates: Vec<f64> = one.valid().filter_map(|t| t.get(compared).value()).collect();
    let mut caveats = Vec::new();
    if let Some(share) = one.errors_worth_saying() {
        let failed = one.failed();
        caveats.push(format!("{} of {name}'s operations {failed}", share_text(share)));
    }
    if untrue_answers(one) > 0.0 {
        // Staleness of HTTP answers is never known.
        let kinds = if of.workload.request().is_some() { "wrong" } else { "wrong or stale" };
        caveats.push(format!("{name} gave {kinds} answers"));
    }
    if let Some(share) = one.stood_still_by_itself() {
        caveats.push(conditions::stood_still(name, share));
    }
    let high = of.tail_next_to(compared);
    // A sweep's stages have different numbers of clients; do not mix them.
    let tail = match one.shown(high) {
        Figure::Absent => None,
        _ if of.load.clients.len() > 1 || one.stood_still().is_some() => None,
        figure => Some(format!("{} {}", judgement::what(high), high.text(figure))),
    };
    stats::Contender {
        name: name.clone(),
        kept_up: of.is_open()
            && matches!(compared, Quantity::ThroughputMean | Quantity::ThroughputOf(_))
            && !rates.is_empty()
            && one.valid().all(TrialFigures::kept_up),
        left_out: one.left_out(place, rates.is_empty()),
        failed: own_failures(one),
        rates,
        tail,
        caveats,
    }
}

/// Returns a clause about its trials that failed because of the system.
fn own_failures(one: &Contender) -> Option<String> {
    let own: Vec<&TrialFigures> =
        one.trials.iter().filter(|trial| trial.validity.cause == Some(Cause::System)).collect();
    let first = own.first()?.validity.invalid_because.first()?;
    let how = if own.len() == one.audits_failed() {
        "failed an audit".to_owned()
    } else {
        let how = first.split_once("; ").map_or(first.as_str(), |(how, _)| how);
        let more = if own.len() > 1 { ", …" } else { "" };
        format!("failed because of the system ({how}{more})")
    };
    let (name, of) = (&one.system, trials_text(one.trials.len()));
    Some(format!("{} of {name}'s {of} {how}", own.len()))
}

/// Counts wrong or stale answers in all its trials.
fn untrue_answers(one: &Contender) -> f64 {
    let kinds = [ErrorKind::WrongValue, ErrorKind::StaleValue].map(Quantity::ErrorsOf);
    let each = |trial: &TrialFigures| {
        let undisturbed: f64 = kinds.iter().map(|kind| trial.number_of(*kind)).sum();
        undisturbed + trial.errors.untrue_in_injections as f64
    };
    one.trials.iter().map(each).sum()
}
