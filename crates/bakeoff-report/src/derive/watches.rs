//! Words what watchers observed: how soon systems told them, and which versions they got.
//!
//! Not here: broken guarantees (`model::guarantees`), tables (`document::watches`).

use bakeoff_core::stats::{Figure, and};
use bakeoff_core::units::{plural, share_text};
use bakeoff_core::watch::WatchRange;

use super::judgement::{self, KNOWN};
use super::outages::{FaultOutages, SystemOutages, seconds_text};
use crate::derive::comparison::Comparison;
use crate::model::contender::Contender;
use crate::model::quantity::{Quantity, WatchCount, WatchQuantity};

/// Most systems that a sentence names one by one.
const NAMED: usize = 4;

/// Words how soon watchers knew a write: `etcd told 1,000 watchers of a write within 14.0 ms (p99), zookeeper within
/// 31.0 ms`. The first system has the whole clause. `None` without figures.
pub(super) fn told(of: &Comparison, systems: &[&str]) -> Option<String> {
    let within = |name: &str| {
        let one = of.contenders.iter().find(|one| one.system == name)?;
        let figure = one.shown(KNOWN).value()?;
        Some(format!("within {}", KNOWN.short(Figure::Value(figure))))
    };
    let (first, others) = systems.split_first()?;
    let told = format!("{first} told {} {} (p99)", watchers(of), within(first)?);
    let others = others.iter().filter_map(|name| Some(format!(", {name} {}", within(name)?)));
    Some(others.fold(told, |text, other| text + &other))
}

/// Returns `1,000 watchers of a write`, or `a key's watchers of a write` if each watches one key.
fn watchers(of: &Comparison) -> String {
    match of.workload.watchers.as_deref() {
        Some(watchers) if watchers.of == WatchRange::Key => {
            "a key's watchers of a write".to_owned()
        }
        Some(watchers) => format!("{} of a write", plural(watchers.count.into(), "watcher")),
        None => "watchers of a write".to_owned(),
    }
}

/// Words which versions the ranked systems delivered: `etcd delivered every version, consul 38.0 % of them, the last one
/// always`. `None` without figures.
pub(super) fn delivered(of: &Comparison) -> Option<String> {
    let place = of.place();
    let ranked = of.contenders.iter().filter(|one| one.left_out(&place, false).is_none());
    let shares: Vec<(&Contender, f64)> =
        ranked.filter_map(|one| Some((one, least_share(one)?))).collect();
    let (all, some): (Vec<_>, Vec<_>) = shares.iter().partition(|(_, share)| *share >= 1.0);
    if shares.is_empty() || shares.len() > NAMED {
        return None;
    }
    let names: Vec<&str> = all.iter().map(|(one, _)| one.system.as_str()).collect();
    let every = match (names.len(), some.is_empty()) {
        (0, _) => None,
        (1, true) => Some("every version was delivered".to_owned()),
        (2, true) => Some("both delivered every version".to_owned()),
        (_, true) => Some("each delivered every version".to_owned()),
        (_, false) => Some(format!("{} delivered every version", and(&names))),
    };
    let mut verb = if every.is_some() { "" } else { "delivered " };
    let part = |(one, _): &(&Contender, f64)| {
        let share = one.shown(Quantity::Watch(WatchQuantity::Delivered)).value().unwrap_or(0.0);
        let what = if verb.is_empty() { "of them" } else { "of the versions" };
        let last = if has_last(one) { ", the last one always" } else { "" };
        let text = format!("{} {verb}{} {what}{last}", one.system, share_text(share));
        verb = "";
        text
    };
    let parts = some.iter().map(part).collect::<Vec<_>>();
    Some(every.into_iter().chain(parts).collect::<Vec<_>>().join(", "))
}

/// Lists how soon watchers of each system knew a write, without an order: `p99 time until watchers know a write: etcd
/// 14.0 ms, zookeeper 14.2 ms`. `None` without figures.
pub(super) fn figures(of: &Comparison) -> Option<String> {
    let figure = |one: &Contender| {
        let value = one.shown(KNOWN).value()?;
        Some(format!("{} {}", one.system, KNOWN.short(Figure::Value(value))))
    };
    let figures: Vec<String> = of.contenders.iter().filter_map(figure).collect();
    let what = judgement::what(KNOWN);
    (!figures.is_empty()).then(|| format!("{what}: {}", figures.join(", ")))
}

/// Returns the least share of versions that watchers observed in a valid trial.
fn least_share(of: &Contender) -> Option<f64> {
    of.summary(Quantity::Watch(WatchQuantity::Delivered)).min.value()
}

/// Returns true if each watcher got the last version in all trials, and all of it was judged.
fn has_last(of: &Contender) -> bool {
    let counts = of.watches().map(|judged| judged.counts).unwrap_or_default();
    let missing = [counts.lost, counts.lost_on_resume, counts.undelivered, counts.unjudged];
    missing.iter().all(|count| *count == 0)
}

/// Returns a finding about watches that were interrupted although no fault was injected.
pub(super) fn interrupted(of: &Contender, place: &str) -> Option<String> {
    let sum = |count| {
        let quantity = Quantity::Watch(WatchQuantity::Count(count));
        of.trials.iter().map(|trial| trial.number_of(quantity)).sum::<f64>() as u64
    };
    let (resumes, gone) = (sum(WatchCount::Resumes), sum(WatchCount::HistoriesGone));
    let mut met = Vec::new();
    if resumes > 0 {
        met.push(format!("were created again {}", plural(resumes, "time")));
    }
    if gone > 0 {
        met.push(format!("lost their history {}", plural(gone, "time")));
    }
    (!met.is_empty()).then(|| format!("{} under {place}: watchers {}", of.system, and(&met)))
}

/// Words what watchers met in a fault: `leader killed: etcd's watchers had no event for up to 1.20 s, nats' for up to
/// 12.1 s, and got 340 events twice`. `None` without watchers.
pub(super) fn in_fault(of: &FaultOutages) -> Option<String> {
    let clauses: Vec<String> = of.systems.iter().filter_map(clause).collect();
    let fault = of.fault.text();
    match clauses.len() {
        0 => None,
        count if count > NAMED => None,
        _ => Some(format!("{fault}: {}", clauses.join("; "))),
    }
}

fn clause(of: &SystemOutages) -> Option<String> {
    let silence = of.watch_silence()?;
    let name = &of.system;
    let owner = if name.ends_with('s') { format!("{name}'") } else { format!("{name}'s") };
    let silent = format!("{owner} watchers had no event for up to {}", seconds_text(silence));
    let counts = of.watch_counts();
    let lost = counts.lost.saturating_add(counts.lost_on_resume).saturating_add(counts.undelivered);
    let met = [
        (lost, "lost", ""),
        (counts.repeated, "got", " twice"),
        (counts.gone, "missed", " whose history was gone"),
    ];
    let met = met.iter().filter(|(count, ..)| *count > 0);
    let met: Vec<String> = met
        .map(|(count, verb, after)| format!("{verb} {}{after}", plural(*count, "event")))
        .collect();
    Some(match met.is_empty() {
        true => format!("{silent} and lost none"),
        false => format!("{silent}, {}", and(&met)),
    })
}
