//! Determines which systems are proven better under a workload and load, and summarizes a run.
//!
//! Not here: judgements (`judgement`), groups (`ranking`), the sentence of a single load (`comparison`).

use bakeoff_core::plan::load_kind;
use bakeoff_core::read_write_split::Side;
use bakeoff_core::stats::{Figure, and};
use bakeoff_core::units::share_text;

use super::conditions::{self, Condition};
use super::judgement::{self, JudgedAs, Judgement};
use super::ranking::Ranking;
use crate::derive::comparison::Comparison;
use crate::model::contender::Contender;
use crate::model::quantity::Quantity;

/// Most systems that fit into the sentence of a single load.
const IN_A_SENTENCE: usize = 3;
/// Most places to name; beyond this, only their number is given.
const NAMED: usize = 3;
/// Most lines of a run's summary.
const LINES: usize = 6;

/// The best system, as far as it is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leader<'a> {
    /// Proven better than every other ranked system, under conditions that do not favour it.
    Proven(&'a str),
    /// Proven better than every other ranked system, under conditions that favour it.
    Unequal(&'a str),
    /// No system is proven better than all others.
    NotShown,
    /// Nothing was compared.
    NotJudged,
}

/// Returns the deciding figures: one, or those of the writes and of the reads of a split load.
pub(crate) fn deciding(of: &Comparison) -> Vec<Quantity> {
    let mut leading: Vec<Quantity> =
        of.judgements.iter().filter(|one| one.leading).map(|one| one.quantity).collect();
    leading.dedup();
    match of.compared() {
        _ if !leading.is_empty() => leading,
        Quantity::ThroughputOf(_) => Side::BOTH.map(Quantity::ThroughputOf).to_vec(),
        compared => vec![compared],
    }
}

fn leading(of: &Comparison) -> impl Iterator<Item = &Judgement> {
    of.judgements.iter().filter(|one| one.leading)
}

/// Returns the best system by the deciding figures.
pub(crate) fn leader(of: &Comparison) -> Leader<'_> {
    if leading(of).all(|one| one.answer.is_none()) {
        return Leader::NotJudged;
    }
    let wins = |name: &str| {
        let mut own = leading(of).filter(|one| one.a == name || one.b == name).peekable();
        own.peek().is_some() && own.all(|one| one.winner() == Some(name))
    };
    let Some(best) = of.contenders.iter().find(|one| wins(&one.system)) else {
        return Leader::NotShown;
    };
    let mut won = leading(of).filter(|one| one.winner() == Some(&best.system));
    match won.all(|one| one.conditions.is_empty()) {
        true => Leader::Proven(&best.system),
        false => Leader::Unequal(&best.system),
    }
}

/// Ranks the systems by a deciding figure; `None` if nothing was compared by it.
pub(super) fn ranking(of: &Comparison, by: Quantity) -> Option<Ranking<'_>> {
    let leading = || leading(of).filter(|one| one.quantity == by);
    if leading().all(|one| one.answer.is_none()) {
        return None;
    }
    let is_ranked = |name: &str| leading().any(|one| one.a == name || one.b == name);
    let systems = of.contenders.iter().map(|one| one.system.as_str());
    let systems: Vec<&str> = systems.filter(|name| is_ranked(name)).collect();
    let beats = |one: &str, other: &str| {
        leading().any(|pair| pair.winner() == Some(one) && pair.loser() == Some(other))
    };
    Some(Ranking::new(&systems, beats))
}

/// Ranks the systems by each deciding figure with a comparison.
pub(crate) fn rankings(of: &Comparison) -> Vec<Ranking<'_>> {
    deciding(of).into_iter().filter_map(|quantity| ranking(of, quantity)).collect()
}

/// Returns all rankings as one text; `None` if nothing was compared.
pub(crate) fn rankings_text(of: &Comparison) -> Option<String> {
    let texts: Vec<String> = rankings(of).iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Returns the conditions that favour winners, as clauses with their names.
pub(crate) fn unequal(of: &Comparison) -> Vec<String> {
    unequal_in_words(of, &Condition::named)
}

/// Returns the conditions that favour winners. `clause` words a condition of a winner.
pub(super) fn unequal_in_words(
    of: &Comparison,
    clause: &dyn Fn(&Condition, &str) -> String,
) -> Vec<String> {
    let claim = |one: &'_ Judgement| -> Option<(String, String, Vec<Condition>)> {
        Some((one.winner()?.to_owned(), one.loser()?.to_owned(), one.conditions.clone()))
    };
    let claims: Vec<_> = leading(of).filter_map(claim).collect();
    let claims: Vec<(&str, &str, &[Condition])> =
        claims.iter().map(|(one, other, found)| (&**one, &**other, &**found)).collect();
    conditions::together(&claims, clause)
}

/// Returns a summary of a run in lines without full stops; empty if nothing ran. A single workload and load with few
/// systems has its own sentence. Otherwise failures come first, then the order of the systems under each load.
pub(crate) fn summary(run: &[&Comparison]) -> Vec<String> {
    if let [only] = run[..]
        && only.contenders.len() <= IN_A_SENTENCE
    {
        return only.sentence().into_iter().collect();
    }
    let failures: Vec<String> = run.iter().flat_map(|one| failed(one)).collect();
    let mut found: Vec<(String, Vec<&Comparison>)> = Vec::new();
    for &one in run {
        let text = order(one, run);
        match found.iter_mut().find(|(same, _)| *same == text) {
            Some((_, places)) => places.push(one),
            None => found.push((text, vec![one])),
        }
    }
    let line = |(text, places): (String, Vec<&Comparison>)| match places.len() == run.len() {
        true if places.len() > NAMED => format!("all {} workloads and loads: {text}", run.len()),
        _ => format!("{}: {text}", named(&places, run.len())),
    };
    let mut lines: Vec<String> = Vec::new();
    if !failures.is_empty() {
        let more = failures.len().saturating_sub(NAMED);
        let mut shown = failures[..failures.len() - more].join("; ");
        if more > 0 {
            shown += &format!("; and {more} more");
        }
        lines.push(shown);
    }
    lines.extend(found.into_iter().map(line));
    let more = lines.len().saturating_sub(LINES);
    if more > 0 {
        lines.truncate(LINES);
        lines.push(format!("the table shows {more} more results"));
    }
    lines
}

/// Returns the order of the systems under a workload and load, or why there is none.
fn order(of: &Comparison, run: &[&Comparison]) -> String {
    let by = |quantity: Quantity| {
        let what = judgement::what(quantity);
        match ranking(of, quantity)? {
            ranking @ Ranking::NoneShown => Some(format!("{ranking} in {what}")),
            ranking => Some(format!("by {what} {ranking}")),
        }
    };
    let orders: Vec<String> = deciding(of).into_iter().filter_map(by).collect();
    if orders.is_empty() {
        return not_judged(of, run);
    }
    let conditions = unequal(of);
    let but =
        if conditions.is_empty() { String::new() } else { format!(", but {}", and(&conditions)) };
    format!("{}{but}", orders.join("; "))
}

/// Returns the deciding figure of each system with a valid trial: `pooled 5,559/s`, `etcd p99 22.8 ms`. A system that is
/// not ranked says how much failed.
pub(crate) fn figures_text(of: &Comparison) -> Vec<String> {
    let Some(&by) = deciding(of).first() else { return Vec::new() };
    let figure = |one: &Contender| {
        let figure = one.shown(by).value()?;
        let text = by.short(Figure::Value(figure));
        let text = match by {
            Quantity::Response(point) => format!("{} {} {text}", one.system, point.name()),
            Quantity::ResponseOf(side, point) => {
                format!("{} {} of {} {text}", one.system, point.name(), side.name())
            }
            Quantity::Watch(of) => format!("{} {} {text}", one.system, of.in_a_sentence()),
            _ => format!("{} {text}/s", one.system),
        };
        let failed = one.errors_worth_saying();
        Some(match failed {
            Some(share) => format!("{text} ({} failed)", share_text(share)),
            None => text,
        })
    };
    of.contenders.iter().filter_map(figure).collect()
}

/// Returns the names of the deciding figures.
fn deciding_text(of: &Comparison) -> String {
    and(&deciding(of).into_iter().map(judgement::what).collect::<Vec<_>>())
}

/// Returns why nothing is compared under a workload and load.
pub(super) fn not_judged(of: &Comparison, run: &[&Comparison]) -> String {
    let place = of.place();
    let once = |one: &Comparison| one.contenders.iter().all(|of| of.trials.len() <= 1);
    let several = run.iter().any(|one| one.contenders.len() > 1);
    let ranked = of.contenders.iter().filter(|one| one.left_out(&place, false).is_none()).count();
    let refused = leading(of).find_map(|one| match &one.verdict {
        JudgedAs::NotJudged(why) => Some(why.to_string()),
        _ => None,
    });
    match (ranked, refused) {
        _ if several && run.iter().all(|one| once(one)) => {
            "one trial per system, nothing is compared".to_owned()
        }
        _ if of.contenders.len() == 1 => "one system, nothing is compared".to_owned(),
        (0, _) if of.contenders.iter().any(|one| one.valid_count() > 0) => {
            "no system can be ranked, nothing is compared".to_owned()
        }
        (0, _) => "no system has a valid trial, nothing is compared".to_owned(),
        (1, _) => {
            let why = of.contenders.iter().find_map(|one| one.left_out(&place, false));
            format!("{}, so nothing is compared", why.unwrap_or_default())
        }
        (_, Some(why)) => format!("{} not compared: {why}", deciding_text(of)),
        (_, None) if once(of) => "one trial per system, nothing is compared".to_owned(),
        (_, None) => "too few rounds with valid trials of both to call a difference".to_owned(),
    }
}

/// Returns `greets-again failed 50.0 % of its requests`; `None` if it failed little.
pub(super) fn much_failed(of: &Comparison, one: &Contender) -> Option<String> {
    let what = if of.workload.request().is_some() { "requests" } else { of.counted() };
    let how = match one.failed() {
        "failed" => "failed",
        _ => "failed or dropped",
    };
    let share = share_text(one.errors_worth_saying()?);
    Some(format!("{} {how} {share} of its {what}", one.system))
}

/// Returns clauses about systems that failed much of their work, even if they are not compared: `greets-again failed
/// 50.0 % of its requests under granted/as-published (closed load, 32 clients)`.
pub(super) fn failed(of: &Comparison) -> Vec<String> {
    let place = of.place_and_load();
    let mut found = Vec::new();
    for one in &of.contenders {
        let name = &one.system;
        found.extend(much_failed(of, one).map(|clause| format!("{clause} under {place}")));
        let audits = one.audits_failed();
        if audits > 0 {
            let all = one.trials.len();
            found
                .push(format!("{name} failed the audit in {audits} of {all} trials under {place}"));
        }
    }
    found
}

/// Names a few places with their loads; for many, gives the number and the kinds of load.
fn named(places: &[&Comparison], all: usize) -> String {
    let kinds = || places.iter().map(|one| load_kind(&one.load));
    if places.len() > NAMED {
        let kinds = match (kinds().any(|one| one == "closed"), kinds().any(|one| one == "open")) {
            (true, true) => "closed and open loads",
            (true, false) => "closed loads",
            _ => "open loads",
        };
        return format!("{} of {all} workloads and loads ({kinds})", places.len());
    }
    let first = places.first().map(|one| one.load_text()).unwrap_or_default();
    match places.iter().all(|one| one.load_text() == first) {
        true => {
            let names: Vec<String> = places.iter().map(|one| one.place()).collect();
            format!("{} ({first})", and(&names))
        }
        false => and(&places.iter().map(|one| one.place_and_load()).collect::<Vec<_>>()),
    }
}
