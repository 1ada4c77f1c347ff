//! Draws a run's conclusion for a reader who must choose: which system under which condition, what it costs, what failed
//! and why, what would change the answer.
//!
//! Each line follows from the record by a rule. Nothing is said that the figures do not show.
//!
//! Not here: the verdict (`headline`), the published order (`published_figures`).

use bakeoff_core::stats::{Figure, and};
use bakeoff_core::units::share_text;

use super::anomalies;
use super::judgement::{self, JudgedAs};
use super::leader::{self, Leader};
use crate::derive::comparison::Comparison;
use crate::model::contender::Contender;
use crate::model::quantity::Quantity;

/// Most lines of a conclusion.
const LINES: usize = 5;
/// Most systems whose costs fit into a line.
const SYSTEMS: usize = 4;
/// Most differences in figures that do not decide.
const PRICES: usize = 3;
/// Share of the measured time in which tasks waited for a CPU, from which the CPUs limited a system.
const CPU_LIMITED: f64 = 0.25;

/// Returns the conclusion in at most five sentences without full stops; empty if nothing was compared.
pub(crate) fn conclusion(of: &Comparison) -> Vec<String> {
    if of.contenders.len() < 2 || !of.outages.is_empty() {
        return Vec::new();
    }
    let mut lines: Vec<String> = choice(of).into_iter().collect();
    lines.extend(of.contenders.iter().filter_map(failures));
    match leader::leader(of) {
        Leader::NotJudged => {}
        Leader::NotShown => lines.extend(more_trials(of).into_iter().chain(cpu_limit(of))),
        Leader::Proven(_) | Leader::Unequal(_) => lines.extend(cpu_limit(of)),
    }
    lines.extend(costs(of));
    lines.truncate(LINES);
    lines
}

/// Returns which system to take by the deciding figure, and which others are better in something else.
fn choice(of: &Comparison) -> Option<String> {
    let what = and(&leader::deciding(of).into_iter().map(judgement::what).collect::<Vec<_>>());
    match leader::leader(of) {
        Leader::NotJudged => None,
        Leader::Proven(best) => Some(format!("take {best} for {what}{}", price(of, Some(best)))),
        Leader::Unequal(best) => Some(format!(
            "take {best} for {what} if you accept that {}{}",
            and(&leader::unequal(of)),
            price(of, Some(best))
        )),
        Leader::NotShown => {
            let shows_none = of.judgements.iter().filter(|one| one.leading);
            let shows_none = shows_none
                .filter(|one| one.answer.is_some())
                .all(|one| matches!(one.verdict, JudgedAs::NoneShown { .. }));
            let differences = price(of, None);
            (shows_none && !differences.is_empty())
                .then(|| format!("{what} decides nothing{differences}"))
        }
    }
}

/// A verb for one system and for several.
type Verbs = (&'static str, &'static str);
const NEED: Verbs = ("needs", "need");
const HAVE: Verbs = ("has", "have");

/// Returns proven differences in figures that do not decide: those in which another system is better than `than`, or
/// all of them.
fn price(of: &Comparison, than: Option<&str>) -> String {
    // Systems with the same advantage share a clause.
    let mut advantages: Vec<(Verbs, String, Vec<&str>)> = Vec::new();
    for one in of.judgements.iter().filter(|one| !one.leading && one.stage.is_none()) {
        let (Some(winner), Some(loser)) = (one.winner(), one.loser()) else { continue };
        let (verbs, what) = match one.quantity {
            Quantity::CpuPerOperation => (NEED, "less CPU time per operation".to_owned()),
            Quantity::MemorySum => (NEED, "less memory".to_owned()),
            Quantity::Response(at) => (HAVE, format!("the shorter {} response time", at.name())),
            _ => continue,
        };
        let what = match than {
            Some(best) if best == loser => what,
            Some(_) => continue,
            None => format!("{what} than {loser}"),
        };
        match advantages.iter_mut().find(|(_, known, _)| *known == what) {
            Some((.., winners)) => winners.push(winner),
            None => advantages.push((verbs, what, vec![winner])),
        }
    }
    let clauses = advantages.iter().map(|((one, several), what, winners)| {
        let verb = if winners.len() == 1 { one } else { several };
        format!("{} {verb} {what}", and(winners))
    });
    let clauses: Vec<String> = clauses.collect();
    let more = clauses.len().saturating_sub(PRICES);
    match (clauses.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!("; {}", clauses.join("; ")),
        (false, more) => format!("; {}; and {more} more", clauses[..PRICES].join("; ")),
    }
}

/// Returns what an operation costs on each ranked system.
fn costs(of: &Comparison) -> Option<String> {
    let place = of.place();
    let cost = |one: &Contender| {
        let figure = |quantity: Quantity| match one.shown(quantity) {
            Figure::Value(value) => Some(quantity.short(Figure::Value(value))),
            _ => None,
        };
        let cpu = figure(Quantity::CpuPerOperation)?;
        let memory = figure(Quantity::MemorySum);
        let memory = memory.map_or_else(String::new, |memory| format!(" and {memory}"));
        Some(format!("{} {cpu}{memory}", one.system))
    };
    let ranked = of.contenders.iter().filter(|one| one.left_out(&place, false).is_none());
    let costs: Vec<String> = ranked.filter_map(cost).collect();
    let is_some = (1..=SYSTEMS).contains(&costs.len());
    is_some.then(|| format!("the servers' CPU time per operation and memory: {}", costs.join("; ")))
}

/// Returns what failed on a system and why: the common duration of its failures, or their texts.
fn failures(of: &Contender) -> Option<String> {
    let share = share_text(of.errors_worth_saying()?);
    let lasted = of.trials.iter().find_map(|trial| trial.anomalies.lasted);
    let cause = lasted.map(|lasted| lasted.text());
    let cause = cause.or_else(|| of.trials.first().map(anomalies::errors_text))?;
    let cause = if cause.is_empty() { cause } else { format!(": {cause}") };
    Some(format!("{share} of {}'s operations {}{cause}", of.system, of.failed()))
}

/// Names the two systems that need further trials most: a difference between them could be the largest unseen one.
fn more_trials(of: &Comparison) -> Option<String> {
    let open = of.judgements.iter().filter(|one| one.leading && one.answer.is_some());
    let open = open.filter_map(|one| match one.verdict {
        JudgedAs::NoneShown { min_detectable } => Some((one, min_detectable)),
        _ => None,
    });
    let (pair, least) = open.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let power = judgement::power_text(pair.rounds, least);
    // With no difference at all, the support of the verdict says so.
    let is_new = of.judgements.iter().any(|one| one.leading && one.claims());
    is_new.then(|| format!("more trials may tell {} and {} apart: {power}", pair.a, pair.b))
}

/// Returns that the machine's CPUs limited a system.
fn cpu_limit(of: &Comparison) -> Option<String> {
    let waited = |one: &Contender| one.shown(Quantity::PressureCpu).value();
    let most = of.contenders.iter().filter_map(waited).reduce(f64::max)?;
    (most >= CPU_LIMITED).then(|| {
        format!(
            "more CPUs may change the answer: tasks of this machine waited for one in up to {} of the time",
            share_text(most)
        )
    })
}
