//! Which system is best under a workload and load, as far as that is proven, and the run in a sentence.
//!
//! Not here: the judgements (`judgement`), each load's own sentence (`comparison`).

use bakeoff_core::stats::and;

use super::judgement::{JudgedAs, Judgement, better};
use crate::derive::comparison::Comparison;
use crate::model::quantity::Quantity;
use bakeoff_core::stats::rounds::Better;

/// So many systems still fit into one load's own sentence.
const IN_A_SENTENCE: usize = 3;
/// So many places are named; of more the count is told.
const NAMED: usize = 3;

/// The best system, as far as that is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leader<'a> {
    /// Proven better than each other system that is ranked.
    Proven(&'a str),
    /// No system is proven better than all others.
    NotShown,
    /// Nothing was compared.
    NotJudged,
}

/// Returns the figure that decides.
pub(crate) fn deciding(of: &Comparison) -> Quantity {
    of.judgements.iter().find(|one| one.leading).map_or_else(|| of.compared(), |one| one.quantity)
}

/// Returns the system that is best by the deciding figure.
pub(crate) fn leader(of: &Comparison) -> Leader<'_> {
    let leading = || of.judgements.iter().filter(|one| one.leading);
    if leading().all(|one| one.answer.is_none()) {
        return Leader::NotJudged;
    }
    let wins = |name: &str| {
        let mut own = leading().filter(|one| one.a == name || one.b == name).peekable();
        own.peek().is_some() && own.all(|one| beats(one, name))
    };
    let best = of.contenders.iter().find(|one| wins(&one.system));
    best.map_or(Leader::NotShown, |one| Leader::Proven(&one.system))
}

/// Returns whether a judgement proves this one of its two systems better.
fn beats(of: &Judgement, name: &str) -> bool {
    let more = better(of.quantity) == Better::More;
    match of.verdict {
        JudgedAs::Higher => (of.a == name) == more,
        JudgedAs::Lower => (of.b == name) == more,
        _ => false,
    }
}

/// Returns a whole run in a sentence without its full stop; `None` where nothing was run.
pub(crate) fn summary(of: &[Comparison]) -> Option<String> {
    let run: Vec<&Comparison> = of.iter().filter(|one| one.was_run()).collect();
    if let [only] = run[..]
        && only.contenders.len() <= IN_A_SENTENCE
    {
        return only.sentence();
    }
    if run.is_empty() {
        return None;
    }
    let (mut best, mut not_shown, mut not_judged) = (Vec::new(), Vec::new(), Vec::new());
    for one in &run {
        match leader(one) {
            Leader::Proven(name) => {
                match best.iter_mut().find(|(same, _): &&mut (&str, Vec<String>)| *same == name) {
                    Some((_, places)) => places.push(one.place()),
                    None => best.push((name, vec![one.place()])),
                }
            }
            Leader::NotShown => not_shown.push(one.place()),
            Leader::NotJudged => not_judged.push(one.place()),
        }
    }
    let all = run.len();
    let mut clauses: Vec<String> = best
        .iter()
        .map(|(name, places)| format!("{name} is best under {}", counted(places, all)))
        .collect();
    if !not_shown.is_empty() {
        clauses.push(format!("under {} no system is shown to be best", counted(&not_shown, all)));
    }
    if !not_judged.is_empty() {
        let places = counted(&not_judged, all);
        clauses.push(format!("under {places} there are too few valid trials or systems to judge"));
    }
    Some(clauses.join("; "))
}

/// Returns a few places by name, of many how many they are.
fn counted(places: &[String], all: usize) -> String {
    let names: Vec<&str> = places.iter().map(String::as_str).collect();
    match places.len() {
        count if count <= NAMED => and(&names),
        count if count == all => format!("all {all} workloads and loads"),
        count => format!("{count} of {all} workloads and loads"),
    }
}
