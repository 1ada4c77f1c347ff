//! Differences between two systems, besides the product, that favour the better one. A claim lists them.
//!
//! Durability, replication, freshness and verification are conditions of a system's work. Failures and time without
//! success are work it did not do. Only differences that favour the winner are conditions of its claim: a winner that
//! also syncs more needs no excuse.
//!
//! Not here: all differences of a run (`fairness`), the sentence (`bakeoff_core::stats`).

use bakeoff_core::measurement::STOOD_STILL_MIN;
use bakeoff_core::record::{AckLocation, Freshness, SystemRecord};
use bakeoff_core::stats::and;
use bakeoff_core::units::share_text;
use serde::Serialize;

use crate::derive::ack_locations::{acknowledged_words, medium, of_majority};
use crate::derive::node_failures::survives;
use crate::model::contender::{AuditCoverage, Contender};
use crate::model::contest::Contest;

/// Excess share of failures that qualifies a claim. It is a tenth of what a p99.9 leaves out, because immediate
/// failures may replace the slowest operations.
const FAILED_MORE: f64 = 0.0001;

/// One difference that favours a system.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Condition {
    /// It acknowledges writes in a less safe place.
    Durability { own: AckLocation, other: AckLocation },
    /// Its place of acknowledged writes is unknown, and the other's is known.
    UnknownDurability,
    /// It has fewer nodes and survives fewer failures.
    Nodes { own: u32, other: u32 },
    /// It survives fewer failed nodes.
    Failures,
    /// Its reads may be stale, the other's may not.
    StaleReads,
    /// The freshness of its reads is unknown, and the other's is known.
    UnknownReads,
    /// Fewer of its writes were read back.
    Audits(AuditCoverage),
    /// It failed more of its operations: this share.
    Failed { share: f64, how: &'static str },
    /// It stood still for more of the window: this share.
    StoodStill(f64),
}

/// A difference that favours a system.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FavouringCondition {
    /// Name of the system.
    favours: String,
    /// Difference: `durability`, `replication`, `freshness`, `verification`, `failures` or `stood-still`.
    by: &'static str,
    /// Condition as a clause.
    words: String,
}

impl Condition {
    /// Returns the clause with the system's name: `redis acknowledges writes before they are on disk`.
    pub(crate) fn named(&self, system: &str) -> String {
        self.clause(system, &format!("{system}'s"), system)
    }

    /// Returns the clause for a sentence with the system as its subject: `it acknowledges …`.
    pub(crate) fn of_it(&self, system: &str) -> String {
        self.clause("it", "its", system)
    }

    /// Returns true if it is a figure of one workload and load.
    pub(crate) fn is_figure(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::StoodStill(_))
    }

    /// `name` stands in figures, which a sentence's caveats word in the same way.
    fn clause(&self, it: &str, its: &str, name: &str) -> String {
        match self {
            Self::Durability { own, other } => {
                let replicas_alike = of_majority(*own) == of_majority(*other);
                match medium(*other) {
                    2 if replicas_alike => {
                        format!("{it} acknowledges writes before they are on disk")
                    }
                    _ => format!(
                        "{it} acknowledges writes {}, not {}",
                        acknowledged_words(*own),
                        acknowledged_words(*other)
                    ),
                }
            }
            Self::UnknownDurability => {
                format!("where {it} keeps acknowledged writes is unknown")
            }
            Self::Nodes { own, other } => match own {
                1 => format!("{it} is one node against {other}"),
                own => format!("{it} is {own} nodes against {other}"),
            },
            Self::Failures => format!("{it} survives fewer failures of nodes"),
            Self::StaleReads => format!("{its} reads may be stale"),
            Self::UnknownReads => format!("the freshness of {its} reads is unknown"),
            Self::Audits(AuditCoverage::No) => format!("{its} writes were not read back"),
            Self::Audits(_) => format!("not all of {its} audits took place"),
            Self::Failed { share, how } => {
                format!("{} of {name}'s operations {how}", share_text(*share))
            }
            Self::StoodStill(share) => stood_still(name, *share),
        }
    }

    /// Returns its name in JSON.
    fn name(&self) -> &'static str {
        match self {
            Self::Durability { .. } | Self::UnknownDurability => "durability",
            Self::Nodes { .. } | Self::Failures => "replication",
            Self::StaleReads | Self::UnknownReads => "freshness",
            Self::Audits(_) => "verification",
            Self::Failed { .. } => "failures",
            Self::StoodStill(_) => "stood-still",
        }
    }

    /// Describes the condition that favours a system, for JSON.
    pub(crate) fn favouring(&self, system: &str) -> FavouringCondition {
        FavouringCondition {
            favours: system.to_owned(),
            by: self.name(),
            words: self.named(system),
        }
    }
}

/// Returns `pulse stood still for 10 % of the window`.
pub(crate) fn stood_still(name: &str, share: f64) -> String {
    format!("{name} stood still for {} of the window", share_text(share))
}

/// Returns the differences that favour `winner` over `loser` in this contest.
///
/// Guarantees about data count only if clients read or write data, not for services. Durability and audits count only
/// if clients write.
pub(crate) fn favouring(winner: &Contender, loser: &Contender, of: &Contest) -> Vec<Condition> {
    let mut found = Vec::new();
    if of.workload.request().is_none() {
        found.extend(of_guarantees(&winner.is, &loser.is, of));
        if of.writes() {
            let kept = [winner, loser].map(|one| one.is.acknowledged_in());
            // The condition about nodes already says that a single node has no majority.
            let alone = found.iter().any(|one| matches!(one, Condition::Nodes { own: 1, .. }));
            let places = durability(kept[0], kept[1], alone);
            if places.is_some() {
                found.retain(|one| *one != Condition::Failures);
            }
            found.splice(0..0, places);
            let (own, other) = (winner.audited(), loser.audited());
            found.extend((own < other).then_some(Condition::Audits(own)));
        }
    }
    let share = |one: &Contender| one.error_share().unwrap_or(0.0);
    if share(winner) - share(loser) > FAILED_MORE {
        let (share, how) = (share(winner), winner.failed());
        found.push(Condition::Failed { share, how });
    }
    let still = |one: &Contender| one.stood_still_by_itself().unwrap_or(0.0);
    if still(winner) - still(loser) >= STOOD_STILL_MIN {
        found.push(Condition::StoodStill(still(winner)));
    }
    found
}

/// Compares durability. `alone`: only the medium counts.
fn durability(
    own: Option<AckLocation>,
    other: Option<AckLocation>,
    alone: bool,
) -> Option<Condition> {
    let (own, other) = match (own, other) {
        (Some(own), Some(other)) => (own, other),
        (None, Some(_)) => return Some(Condition::UnknownDurability),
        (_, None) => return None,
    };
    let fewer = !alone && !of_majority(own) && of_majority(other);
    let less = medium(own) < medium(other) || fewer;
    less.then_some(Condition::Durability { own, other })
}

fn of_guarantees(own: &SystemRecord, other: &SystemRecord, of: &Contest) -> Vec<Condition> {
    let mut found = Vec::new();
    if let (Some(ours), Some(theirs)) = (survives(own), survives(other))
        && ours < theirs
    {
        if own.nodes < other.nodes {
            found.push(Condition::Nodes { own: own.nodes, other: other.nodes });
        } else if of.writes() {
            found.push(Condition::Failures);
        }
    }
    if of.reads() {
        let may_be_stale = |is: &SystemRecord| {
            let freshness = is.guarantees.freshness.get(&of.workload.reads)?;
            let is_only = is.nodes == 1 && !is.already_running;
            Some(*freshness == Freshness::NodeAsked && !is_only)
        };
        match (may_be_stale(own), may_be_stale(other)) {
            (Some(true), Some(false)) => found.push(Condition::StaleReads),
            (None, Some(_)) => found.push(Condition::UnknownReads),
            _ => {}
        }
    }
    found
}

/// Returns the guarantees and checks that favour a new build or run over its base, as clauses about `name`. Leaves out
/// failures and stalls, which have figures.
pub(crate) fn lesser_guarantees(
    new: &Contender,
    base: &Contender,
    of: &Contest,
    name: &str,
) -> Vec<String> {
    let found = favouring(new, base, of).into_iter().filter(|one| !one.is_figure());
    found.map(|one| one.named(name)).collect()
}

/// Joins conditions of several claims: `redis acknowledges …`, with `(unlike etcd)` for those that do not hold against
/// every beaten system. Each claim is a winner, a loser and the conditions. `clause` words a condition of a winner.
pub(crate) fn together(
    claims: &[(&str, &str, &[Condition])],
    clause: &dyn Fn(&Condition, &str) -> String,
) -> Vec<String> {
    let mut found: Vec<(&str, String, Vec<&str>)> = Vec::new();
    for (winner, loser, conditions) in claims {
        for condition in *conditions {
            let text = clause(condition, winner);
            match found.iter_mut().find(|(who, same, _)| who == winner && *same == text) {
                Some((_, _, unlike)) => unlike.push(loser),
                None => found.push((winner, text, vec![loser])),
            }
        }
    }
    let text = |(winner, text, unlike): (&str, String, Vec<&str>)| {
        let beaten = claims.iter().filter(|(who, ..)| *who == winner).count();
        match unlike.len() == beaten {
            true => text,
            false => format!("{text} (unlike {})", and(&unlike)),
        }
    };
    found.into_iter().map(text).collect()
}
