//! Words the answer of a run: one sentence for its heading, and a few that support it.
//!
//! Broken guarantees come first: wrong answers, lost writes, histories without an order. A difference that is not proven is not in the heading. A
//! condition that favours the winner is in it. A run without an answer starts with `Not decided`.
//!
//! Not here: the order of the systems (`leader`), judgements (`judgement`), the long sentence (`comparison`).

use bakeoff_core::read_write_split::Side;
use bakeoff_core::stats::rounds::{Preference, WithheldReason};
use bakeoff_core::stats::{Figure, and, interval_text, ratio_text};
use bakeoff_core::units::{capitalized, share_text, trials_text};

use super::judgement::{self, JudgedAs, Judgement};
use super::leader::{self, Leader};
use super::outage_sentence;
use super::power_cuts::{self, PowerLosses};
use super::published_figures;
use super::ranking::Ranking;
use super::watches;
use crate::derive::comparison::Comparison;
use crate::model::contender::Contender;
use crate::model::contest::Contest;
use crate::model::quantity::Quantity;

/// Most names in a list; beyond this, only their number is given.
const NAMED: usize = 3;
/// Beginning of a verdict without an answer.
const NOT_DECIDED: &str = "not decided";
/// Most supporting sentences about several loads.
const LINES: usize = 3;

/// The answer of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Headline {
    /// The answer, in one sentence.
    pub(crate) verdict: String,
    /// Sentences that support it: interval, conditions, what is not ranked.
    pub(crate) support: Vec<String>,
}

/// Words the answer of a run. `has_question`: the study names its deciding workload and load, which come first. `scale`:
/// a clause about scaled counts.
pub(crate) fn headline(of: &[Comparison], has_question: bool, scale: Option<String>) -> Headline {
    let run: Vec<&Comparison> = of.iter().filter(|one| one.was_run()).collect();
    let with_faults = run.iter().find(|one| !one.outages.is_empty());
    let mut found = match run[..] {
        _ if with_faults.is_some() => of_faults(&run),
        [] => Headline { verdict: "Not decided: nothing was measured".to_owned(), support: vec![] },
        [only] => of_one(only),
        [deciding, ref others @ ..] if has_question || run.iter().all(|one| is_single(one)) => {
            let mut found = of_one(deciding);
            found.support.extend(leader::summary(others).into_iter().take(LINES));
            found
        }
        _ => of_several(&run),
    };
    if let Some(order) = run.first().and_then(|one| published_figures::order(one)) {
        let line = match order.is_reversed {
            true => std::mem::replace(&mut found.verdict, order.sentence),
            false => order.sentence,
        };
        found.support.insert(0, line);
    }
    let mut broken = Contest::broken_guarantees(run.iter().map(|one| &***one));
    match power_cuts::losses(&run) {
        Some(PowerLosses::Lost(who)) => broken.push(who),
        Some(PowerLosses::Kept(who)) => found.support.push(who),
        None => {}
    }
    if !broken.is_empty() {
        let instead = std::mem::replace(&mut found.verdict, broken.join("; "));
        found.support.insert(0, instead);
    }
    found.support.extend(scale.map(|scale| format!("counts {scale}")));
    let verdict = std::mem::take(&mut found.verdict);
    Headline {
        verdict: format!("{}.", capital(&verdict, of)),
        support: found.support.iter().map(|line| format!("{}.", capital(line, of))).collect(),
    }
}

/// Capitalizes a sentence, unless it begins with a system's name or with a number.
fn capital(text: &str, of: &[Comparison]) -> String {
    let first = text.split([' ', '\'', ',', ';', ':']).next().unwrap_or_default();
    let is_name = |one: &Comparison| {
        one.contenders.iter().any(|one| one.system == first)
            || one.workload.name == first.split('/').next().unwrap_or_default()
    };
    // `p99` is written so everywhere.
    if of.iter().any(is_name) || first.chars().any(|char| char.is_ascii_digit()) {
        return text.to_owned();
    }
    capitalized(text)
}

/// Words the outages of the first fault under the first load, and then of the others.
fn of_faults(run: &[&Comparison]) -> Headline {
    let several = run.len() > 1;
    let mut lines = run.iter().flat_map(|of| {
        let place = if several { format!("{}, ", of.place()) } else { String::new() };
        of.outages.iter().map(move |fault| outage_sentence::sentence(fault, &place))
    });
    let verdict = lines.next().unwrap_or_default();
    let mut support: Vec<String> = lines.collect();
    support.extend(run.iter().flat_map(|of| of.outages.iter().filter_map(watches::in_fault)));
    support.extend(run.iter().flat_map(|of| outage_sentence::without_figures(of, &of.outages)));
    if let [of] = run {
        support.push(format!("holds for {}: {}", of.place(), of.load_text()));
        support.extend(leader::failed(of));
        support.extend(of.of_these_servers());
    }
    Headline { verdict, support }
}

/// Words the answer under a single workload and load.
fn of_one(of: &Comparison) -> Headline {
    if let [only] = &of.contenders[..] {
        return alone(of, only.left_out(&of.place(), false));
    }
    // The heading names broken guarantees already.
    let others = of.contenders.iter().filter(|one| one.broken.is_none());
    let left_out: Vec<String> = others.filter_map(|one| one.left_out(&of.place(), false)).collect();
    let mut support = Vec::new();
    let answers: Vec<Answer> =
        leader::deciding(of).into_iter().filter_map(|quantity| answer(of, quantity)).collect();
    let is_undecided = answers.is_empty();
    let figures = leader::figures_text(of);
    let mut verdict = match is_undecided {
        true if is_single(of) && !figures.is_empty() => {
            format!("{}, one trial each: run 3 to compare (--trials 3)", figures.join(", "))
        }
        true => format!("{NOT_DECIDED}: {}", leader::not_judged(of, &[of])),
        false => answers.iter().map(|one| one.text.as_str()).collect::<Vec<_>>().join("; "),
    };
    let mut claims = of.judgements.iter().filter(|one| one.leading && one.claims());
    let conditions = match (claims.next(), claims.next()) {
        (Some(only), None) => {
            let winner = only.winner().unwrap_or_default();
            only.conditions.iter().map(|one| one.of_it(winner)).collect()
        }
        _ => leader::unequal(of),
    };
    if !conditions.is_empty() {
        verdict += &format!(", but {}", and(&conditions));
    }
    let (ranked, not_ranked): (Vec<&Contender>, Vec<&Contender>) =
        of.contenders.iter().partition(|one| one.left_out(&of.place(), false).is_none());
    if !is_undecided && !not_ranked.is_empty() {
        let are = if not_ranked.len() == 1 { "is" } else { "are" };
        let name = |one: &&Contender| match one.errors_worth_saying() {
            Some(share) => format!("{} ({} failed)", one.system, share_text(share)),
            None => one.system.clone(),
        };
        let names: Vec<String> = not_ranked.iter().map(name).collect();
        verdict += &format!("; {} {are} not ranked", and(&names));
    }
    let is_about_watches = !is_undecided && leader::deciding(of).contains(&judgement::KNOWN);
    let delivered = is_about_watches.then(|| watches::delivered(of)).flatten();
    verdict.extend(delivered.map(|clause| format!("; {clause}")));
    let failed = ranked.iter().filter_map(|one| leader::much_failed(of, one));
    verdict.extend(failed.map(|clause| format!("; {clause}")));
    support.extend(answers.into_iter().filter_map(|one| one.support));
    if is_about_watches && !verdict.contains(" told ") {
        support.extend(watches::figures(of));
    }
    let holds = if is_undecided || verdict.starts_with(NOT_DECIDED) {
        "measured under"
    } else {
        "holds for"
    };
    support.push(format!("{holds} {}: {}", of.place(), of.load_text()));
    support.extend(tails(of));
    support.extend(leader::failed(of));
    support.extend(left_out);
    support.extend(of.of_these_servers());
    Headline { verdict, support }
}

/// Returns true if no system has more than one trial.
fn is_single(of: &Comparison) -> bool {
    of.contenders.iter().all(|one| one.trials.len() <= 1)
}

/// Words the result of a run with one system.
fn alone(of: &Comparison, left_out: Option<String>) -> Headline {
    let mut support = vec![format!("holds for {}: {}", of.place(), of.load_text())];
    support.extend(tails(of));
    support.extend(leader::failed(of));
    let did = |quantity: Quantity| {
        let one = &of.contenders[0];
        let figure = quantity.short(one.shown(quantity));
        match quantity {
            Quantity::HighestRate => {
                format!("{} kept {} up to {figure}/s", one.system, objective(of))
            }
            _ => format!("{} sustained {figure} {} per second", one.system, counted(of, quantity)),
        }
    };
    let rates = match of.compared() {
        Quantity::ThroughputOf(_) => Side::BOTH.map(Quantity::ThroughputOf).to_vec(),
        compared => vec![compared],
    };
    let told = of.is_open().then(|| watches::told(of, &[&of.contenders[0].system])).flatten();
    let told = told.filter(|_| !of.contenders[0].fell_behind());
    let verdict = match (left_out, told) {
        (Some(why), _) => format!("{NOT_DECIDED}: {why}"),
        (None, Some(told)) => {
            let delivered = watches::delivered(of);
            delivered.map_or(told.clone(), |delivered| format!("{told}; {delivered}"))
        }
        (None, None) => rates.into_iter().map(did).collect::<Vec<_>>().join("; "),
    };
    support.push("one system: nothing is compared".to_owned());
    Headline { verdict, support }
}

/// The order by one deciding figure, in words.
struct Answer {
    text: String,
    /// Intervals and trials.
    support: Option<String>,
}

/// Words the order by one deciding figure; `None` if nothing was compared by it.
fn answer(of: &Comparison, by: Quantity) -> Option<Answer> {
    let what = judgement::what(by);
    let pairs: Vec<&Judgement> =
        of.judgements.iter().filter(|one| one.leading && one.quantity == by).collect();
    Some(match leader::ranking(of, by)? {
        Ranking::Groups(groups) => {
            let (first, rest) = groups.split_first()?;
            let beaten = rest.concat();
            let leads: Vec<Lead> = leads(&pairs, first, &beaten, by);
            let least = leads.iter().min_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
            let trials = leads.iter().map(|one| one.rounds).min().unwrap_or(0);
            let (text, intervals) = match (&first[..], &leads[..]) {
                ([best], [one]) => (times(of, by, best, &[one]), vec![one.shown(by)]),
                ([best], [one, other]) => {
                    (times(of, by, best, &[one, other]), vec![one.shown(by), other.shown(by)])
                }
                _ => {
                    let lead = if first.len() == 1 { "leads" } else { "lead" };
                    let between = match first.len() {
                        1 => "",
                        2 => "; no difference is shown between the two",
                        _ => "; no difference is shown between them",
                    };
                    let text = format!(
                        "{} {lead} {} in {what}, by {} times or more{between}",
                        and(first),
                        few(&beaten, "others"),
                        ratio_text(least.ratio)
                    );
                    (text, vec![least.interval])
                }
            };
            let intervals: Vec<String> = intervals.into_iter().map(interval_text).collect();
            let support = match (intervals.len(), leads.len()) {
                (1, 1) => format!("95 % interval {}", intervals[0]),
                (1, _) => format!("95 % interval of the smallest lead {}", intervals[0]),
                _ => format!("95 % intervals {}", and(&intervals)),
            };
            // A sentence about watchers has figures in place of ratios.
            let support = match by {
                judgement::KNOWN if intervals.len() == leads.len() => {
                    let ratios: Vec<String> =
                        leads.iter().map(|one| ratio_text(1.0 / one.ratio)).collect();
                    let ratio = if ratios.len() == 1 { "ratio" } else { "ratios" };
                    format!("{ratio} {}, {support}", and(&ratios))
                }
                _ => support,
            };
            Answer { text, support: Some(format!("{support}, {} each", trials_text(trials))) }
        }
        Ranking::Pairs(pairs) => {
            let ahead: Vec<String> = pairs
                .iter()
                .map(|(one, others)| format!("{one} is ahead of {}", few(others, "others")))
                .collect();
            let more = ahead.len().saturating_sub(NAMED);
            let text = format!(
                "{} in {what}; {}",
                ahead[..ahead.len() - more].join("; "),
                if more > 0 { "the table has more" } else { "no other difference is shown" }
            );
            Answer { text, support: None }
        }
        Ranking::NoneShown => none_shown(of, &pairs, &what),
    })
}

/// Words that no pair is proven to differ.
fn none_shown(of: &Comparison, pairs: &[&Judgement], what: &str) -> Answer {
    if let [only] = pairs {
        let why = match &only.verdict {
            JudgedAs::Withheld { why: WithheldReason::Failed(1), .. } => {
                Some("1 trial failed because of the system")
            }
            JudgedAs::Withheld { why: WithheldReason::Failed(_), .. } => {
                Some("trials failed because of the system")
            }
            JudgedAs::Withheld { why: WithheldReason::Unclear(_), .. } => {
                Some("trials were not steady")
            }
            JudgedAs::WithinDelays => Some("the difference is within the generator's own delay"),
            _ => None,
        };
        if let Some(why) = why {
            return Answer { text: format!("{NOT_DECIDED}: {why}"), support: Some(only.words()) };
        }
    }
    let compared = |name: &str| pairs.iter().any(|one| one.a == name || one.b == name);
    let names: Vec<&str> =
        of.contenders.iter().map(|one| one.system.as_str()).filter(|name| compared(name)).collect();
    let detectable = pairs.iter().filter_map(|one| match one.verdict {
        JudgedAs::NoneShown { min_detectable } => Some(min_detectable),
        _ => None,
    });
    let trials = pairs.iter().filter(|one| one.answer.is_some()).map(|one| one.rounds).min();
    let power = detectable.reduce(f64::max).zip(trials);
    let support = power.map(|(ratio, trials)| judgement::power_text(trials, ratio));
    Answer {
        text: format!("no difference shown between {} in {what}", few(&names, "systems")),
        support,
    }
}

/// A proven lead of one system over another.
struct Lead<'a> {
    loser: &'a str,
    /// Better figure over worse one by their sizes: above 1. The interval's lower end if the run stopped early.
    ratio: f64,
    early: bool,
    interval: (f64, f64),
    rounds: usize,
}

impl Lead<'_> {
    /// Returns the interval as the heading has it: of response times, the winner's over the loser's.
    fn shown(&self, by: Quantity) -> (f64, f64) {
        match judgement::better(by) {
            Preference::More => self.interval,
            Preference::Less => (1.0 / self.interval.1, 1.0 / self.interval.0),
        }
    }
}

/// Returns the leads of the first group over all others, in the order of the losers.
fn leads<'a>(
    pairs: &[&Judgement],
    first: &[&str],
    beaten: &[&'a str],
    by: Quantity,
) -> Vec<Lead<'a>> {
    let mut found = Vec::new();
    for loser in beaten {
        for winner in first {
            let pair =
                pairs.iter().find(|one| one.winner() == Some(winner) && one.loser() == Some(loser));
            let Some((pair, answer)) = pair.and_then(|one| Some((one, one.answer?))) else {
                continue;
            };
            // The result is the first system's figure over the second's.
            let is_higher = (pair.a == *winner) == (judgement::better(by) == Preference::More);
            let answer = if is_higher { answer } else { answer.turned() };
            let (early, interval) = (pair.early, answer.interval);
            let ratio = if early { interval.0 } else { answer.ratio };
            found.push(Lead { loser, ratio, early, interval, rounds: pair.rounds });
        }
    }
    found
}

/// Returns the smallest lead of these systems over all others by the deciding figures; `None` if they have none.
fn least_lead(of: &Comparison, first: &[&str]) -> Option<f64> {
    let others: Vec<&str> = of.contenders.iter().map(|one| one.system.as_str()).collect();
    let ratio = |by: Quantity| {
        let pairs: Vec<&Judgement> =
            of.judgements.iter().filter(|one| one.leading && one.quantity == by).collect();
        let leads = leads(&pairs, first, &others, by).into_iter().map(|one| one.ratio);
        leads.reduce(f64::min)
    };
    leader::deciding(of).into_iter().filter_map(ratio).reduce(f64::min)
}

/// Returns `etcd sustained 1.57 times zookeeper's puts per second`.
fn times(of: &Comparison, by: Quantity, best: &str, over: &[&Lead<'_>]) -> String {
    let ratio = |one: &Lead<'_>| match judgement::better(by) {
        Preference::More if one.early => format!("at least {} times", ratio_text(one.ratio)),
        Preference::More => format!("{} times", ratio_text(one.ratio)),
        Preference::Less if one.early => format!("at most {} of", ratio_text(1.0 / one.ratio)),
        Preference::Less => format!("{} of", ratio_text(1.0 / one.ratio)),
    };
    let [first, others @ ..] = over else { return String::new() };
    let others: String =
        others.iter().map(|one| format!(" and {} {}'s", ratio(one), one.loser)).collect();
    let (ratio, loser) = (ratio(first), first.loser);
    match by {
        Quantity::HighestRate => {
            format!("{best} kept {} at {ratio} {loser}'s rate{others}", objective(of))
        }
        Quantity::ThroughputMean | Quantity::ThroughputOf(_) => {
            let counted = counted(of, by);
            format!("{best} sustained {ratio} {loser}'s {counted} per second{others}")
        }
        judgement::KNOWN => {
            let losers = over.iter().map(|one| one.loser);
            let systems: Vec<&str> = std::iter::once(best).chain(losers).collect();
            watches::told(of, &systems).unwrap_or_default()
        }
        other => format!("{best}'s {} was {ratio} {loser}'s{others}", judgement::what(other)),
    }
}

/// Returns the counted operations: `puts`, `requests`, `writes`.
pub(crate) fn counted(of: &Comparison, by: Quantity) -> &'static str {
    match by {
        Quantity::ThroughputOf(side) => side.name(),
        _ if of.workload.request().is_some() => "requests",
        _ => of.counted(),
    }
}

/// Returns the objective of a search: `p99 < 20ms`.
fn objective(of: &Comparison) -> String {
    of.load.find.as_ref().map_or_else(String::new, |find| find.text())
}

/// Returns a high percentile of each ranked system, unless it decides: `p99: etcd 22.8 ms, zookeeper 49.5 ms`.
fn tails(of: &Comparison) -> Option<String> {
    let tail = of.tail(None);
    let quantity = Quantity::Response(tail);
    if of.is_split() || of.load.clients.len() > 1 || leader::deciding(of).contains(&quantity) {
        return None;
    }
    let figures: Vec<String> = of
        .contenders
        .iter()
        .filter(|one| one.shown(quantity) != Figure::Absent && one.stood_still().is_none())
        .map(|one| format!("{} {}", one.system, quantity.short(one.shown(quantity))))
        .collect();
    let name = match leader::deciding(of).contains(&judgement::KNOWN) {
        true => judgement::what(quantity),
        false => tail.name().to_owned(),
    };
    (!figures.is_empty()).then(|| format!("{name}: {}", figures.join(", ")))
}

/// Joins a few names, or gives their number.
fn few(names: &[&str], what: &str) -> String {
    if names.len() > NAMED { format!("{} {what}", names.len()) } else { and(names) }
}

/// The answer under one of several workloads and loads.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    /// These systems lead.
    Lead(Vec<String>),
    /// Some pairs differ, and no group leads.
    Some,
    NoneShown,
    NotJudged(String),
}

fn outcome(of: &Comparison, run: &[&Comparison]) -> Outcome {
    let firsts: Vec<Outcome> = leader::rankings(of)
        .iter()
        .map(|ranking| match ranking {
            Ranking::Groups(groups) => Outcome::Lead(
                groups.first().into_iter().flatten().map(|&name| name.to_owned()).collect(),
            ),
            Ranking::Pairs(_) => Outcome::Some,
            Ranking::NoneShown => Outcome::NoneShown,
        })
        .collect();
    match firsts.split_first() {
        None => Outcome::NotJudged(leader::not_judged(of, run)),
        Some((first, others)) if others.iter().all(|one| one == first) => first.clone(),
        Some(_) => Outcome::Some,
    }
}

/// Words the answers under several workloads and loads together.
fn of_several(run: &[&Comparison]) -> Headline {
    let is_open = |of: &Outcome| matches!(of, Outcome::NotJudged(_));
    let mut found: Vec<(Outcome, Vec<&Comparison>)> = Vec::new();
    for one in run {
        let outcome = outcome(one, run);
        // Loads without an answer are together, whatever their reasons.
        let is_same = |other: &Outcome| *other == outcome || is_open(other) && is_open(&outcome);
        match found.iter_mut().find(|(other, _)| is_same(other)) {
            Some((same, places)) => {
                if *same != outcome {
                    *same = Outcome::NotJudged("no load has enough valid trials".to_owned());
                }
                places.push(one);
            }
            None => found.push((outcome, vec![one])),
        }
    }
    // The most frequent answer first, and those without one last.
    found.sort_by_key(|(of, places)| (is_open(of), std::cmp::Reverse(places.len())));
    let support = leader::summary(run).into_iter().take(LINES).collect();
    if let [(Outcome::NotJudged(why), _)] = &found[..] {
        return Headline { verdict: format!("{NOT_DECIDED}: {why}"), support };
    }
    let mut clauses: Vec<String> = found
        .iter()
        .map(|(of, places)| {
            let under = under(places, run.len());
            match of {
                Outcome::Lead(names) => {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    let lead = if names.len() == 1 { "leads" } else { "lead" };
                    let least = places.iter().filter_map(|one| least_lead(one, &names));
                    let least = least.reduce(f64::min);
                    let by = least.map_or_else(String::new, |ratio| {
                        format!(" by {} times or more", ratio_text(ratio))
                    });
                    format!("{} {lead} {under}{by}", few(&names, "systems"))
                }
                Outcome::Some => format!("some differences are shown {under}"),
                Outcome::NoneShown => format!("no difference is shown {under}"),
                Outcome::NotJudged(_) => format!("nothing is decided {under}"),
            }
        })
        .collect();
    let mut failed = run.iter().flat_map(|one| leader::failed(one));
    clauses.extend(failed.next());
    Headline { verdict: format!("{}{}", clauses.join("; "), but(run)), support }
}

/// Returns the conditions that favour a leader under any load, as a clause. A figure is of one load, which it names.
fn but(run: &[&Comparison]) -> String {
    let of_load = |one: &&Comparison| {
        let (place, several) = (one.place(), run.len() > 1);
        leader::unequal_in_words(one, &|condition, winner| match condition.is_figure() && several {
            true => format!("{} under {place}", condition.named(winner)),
            false => condition.named(winner),
        })
    };
    let unequal = run.iter().filter(|one| matches!(leader::leader(one), Leader::Unequal(_)));
    let mut conditions: Vec<String> = unequal.flat_map(of_load).collect();
    conditions.sort();
    conditions.dedup();
    match conditions.len() {
        0 => String::new(),
        1 | 2 => format!(", but {}", and(&conditions)),
        _ => ", but under unequal conditions".to_owned(),
    }
}

/// Returns `under create/best and create/sweep`, or `under 4 of 9 loads`.
fn under(places: &[&Comparison], all: usize) -> String {
    match places.len() {
        count if count == all && all > 2 => format!("under all {all} loads"),
        count if count == all => "under both loads".to_owned(),
        count if count > NAMED => format!("under {count} of {all} loads"),
        _ => {
            let names: Vec<String> = places.iter().map(|one| one.place()).collect();
            format!("under {}", and(&names))
        }
    }
}
