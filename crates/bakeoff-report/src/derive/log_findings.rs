//! Collects findings in servers' logs during the load.
//!
//! Adds up all trials, valid or not, because the log often explains a failed trial.
//!
//! Not here: the rules for findings, and grouping similar lines (`bakeoff_core::log_findings`).

use bakeoff_core::log_findings::{Level, LogKind};
use bakeoff_core::units::{ByteCount, count_text, plural, trials_text};
use serde::Serialize;

use crate::derive::comparison::Comparison;
use crate::model::contender::Contender;

/// Fewest lines for a finding.
const LINES_WORTH_SAYING: u64 = 20;
/// Most kinds of lines that a finding names.
const KINDS_ABOVE: usize = 2;
/// Most kinds per system in a terminal and Markdown.
const KINDS_SHOWN: usize = 6;

/// Similar lines that a node wrote.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Complaint {
    /// Name of the node.
    pub(crate) node: String,
    /// Level of the lines.
    pub(crate) level: Level,
    /// Text without the parts that vary.
    pub(crate) what: String,
    /// Number of lines.
    pub(crate) count: u64,
    /// First of these lines, without its secrets.
    pub(crate) example: String,
    /// Number of trials.
    pub(crate) trials: usize,
}

/// Returns the log findings of a system's nodes: errors before warnings, the most frequent first.
pub(crate) fn complaints(of: &Contender) -> Vec<Complaint> {
    let mut all: Vec<Complaint> = Vec::new();
    for log in of.trials.iter().flat_map(|trial| &trial.servers.log_findings) {
        for LogKind { level, what, count, example } in &log.kinds {
            let is_it = |one: &&mut Complaint| {
                one.node == log.node && one.level == *level && one.what == *what
            };
            match all.iter_mut().find(is_it) {
                Some(one) => {
                    one.count += count;
                    one.trials += 1;
                }
                None => all.push(Complaint {
                    node: log.node.clone(),
                    level: *level,
                    what: what.clone(),
                    count: *count,
                    example: example.clone(),
                    trials: 1,
                }),
            }
        }
    }
    all.sort_by_key(|one| (one.level < Level::Error, std::cmp::Reverse(one.count)));
    all
}

/// Returns the number of lines of all kinds, and the bytes of logs that were not read.
fn totals(of: &Contender) -> (u64, u64) {
    let logs = || of.trials.iter().flat_map(|trial| &trial.servers.log_findings);
    (logs().map(|log| log.lines).sum(), logs().map(|log| log.unread_bytes).sum())
}

/// Returns the finding above the tables, if there are enough errors.
pub(crate) fn finding(of: &Contender, place: &str) -> Option<String> {
    let errors: Vec<Complaint> =
        complaints(of).into_iter().filter(|one| one.level >= Level::Error).collect();
    let all: u64 = errors.iter().map(|one| one.count).sum();
    if all < LINES_WORTH_SAYING {
        return None;
    }
    let most = errors.iter().take(KINDS_ABOVE);
    let most: Vec<String> = most
        .map(|one| format!("{} × on {}: {}", count_text(one.count), one.node, one.what))
        .collect();
    Some(format!(
        "{}'s servers logged {} during the load under {place}: {}",
        of.system,
        plural(all, "error"),
        most.join("; ")
    ))
}

/// Returns the lines for a terminal and Markdown.
pub(crate) fn lines(of: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    for one in &of.contenders {
        let all = complaints(one);
        for (place, complaint) in all.iter().take(KINDS_SHOWN).enumerate() {
            let example =
                if place < 2 { format!("; first: {}", complaint.example) } else { String::new() };
            lines.push(format!(
                "{}: {} × {} in {}: {}{example}",
                complaint.node,
                count_text(complaint.count),
                complaint.level.name(),
                trials_text(complaint.trials),
                complaint.what
            ));
        }
        let (total, unread) = totals(one);
        let shown: u64 = all.iter().take(KINDS_SHOWN).map(|complaint| complaint.count).sum();
        if total > shown {
            let more = plural(total - shown, "further line");
            lines.push(format!("{}: {more} of other kinds", one.system));
        }
        if unread > 0 {
            lines.push(format!(
                "{}: {} of logs were not read, so the counts are lower bounds",
                one.system,
                ByteCount(unread)
            ));
        }
    }
    lines
}
