//! Writes the clause about a high percentile of response time, with a verdict for each pair.
//!
//! Not here: the judgement (`report`), the rest of the sentence (`sentence`).

use super::super::and;
use super::{Contender, NotCompared, ThroughputJudgement};

/// Holds the judgement of a high percentile of two systems' response times.
#[derive(Debug, Clone, PartialEq)]
pub struct Tail {
    /// Name, such as `p99 response time`.
    pub name: String,
    /// Verdict on the first system.
    pub found: TailFound,
    /// Both medians as texts.
    pub medians: (String, String),
}

/// Selects the verdict on the first of two systems' response times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TailFound {
    /// It is lower.
    Lower,
    /// It is higher.
    Higher,
    /// No difference is shown.
    NoneShown,
    /// A difference was seen but is not claimed, for this reason.
    NotClaimed(String),
}

impl Tail {
    pub(super) fn turned(self) -> Self {
        let found = match self.found {
            TailFound::Lower => TailFound::Higher,
            TailFound::Higher => TailFound::Lower,
            other => other,
        };
        Self { found, medians: (self.medians.1, self.medians.0), ..self }
    }

    /// Returns `was lower than zookeeper's (20.5 ms against 41.0 ms)`. `alone`: the other system need not be named.
    fn text(&self, other: &str, alone: bool) -> String {
        let other = |word: &str| match alone {
            true => String::new(),
            false => format!(" {word} {other}'s"),
        };
        let (a, b) = &self.medians;
        match &self.found {
            TailFound::Lower => format!("was lower{} ({a} against {b})", other("than")),
            TailFound::Higher => format!("was higher{} ({a} against {b})", other("than")),
            TailFound::NoneShown => format!("showed no difference{} ({a} and {b})", other("to")),
            TailFound::NotClaimed(why) => {
                format!("is not claimed to differ{} ({a} and {b}): {why}", other("from"))
            }
        }
    }
}

/// Writes `etcd's p99 response time was lower (20.5 ms against 41.0 ms)`; `None` if no pair was judged.
pub(super) fn clause(
    best: &Contender,
    others: &[(&Contender, Result<ThroughputJudgement, NotCompared>)],
) -> Option<String> {
    let judged = |(other, comparing): &(&Contender, Result<ThroughputJudgement, NotCompared>)| {
        let tail = comparing.as_ref().ok()?.tail.clone()?;
        let text = tail.text(&other.name, others.len() == 1);
        Some((tail.name, text))
    };
    let texts: Vec<(String, String)> = others.iter().filter_map(judged).collect();
    let (name, _) = texts.first()?;
    let each: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
    Some(format!("{}'s {name} {}", best.name, and(&each)))
}
