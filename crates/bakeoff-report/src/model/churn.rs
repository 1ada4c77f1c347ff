//! Finds churn between a system's parts: frequent new connections and processes.
//!
//! A storage that gets a new connection for each request spends its time on handshakes and forks, and no latency shows
//! why. The machine-wide count is exact. The nodes involved are known only from those that a sample happened to see.
//! So the exact count is reported, with their share of what was seen.
//!
//! Not here: sampling (`bakeoff_host::observe`), the sentences over several trials (`derive::churn`).

use std::collections::BTreeMap;

use bakeoff_core::record::TrialRecord;
use bakeoff_core::trial_samples::{Column, GENERATOR, TrialSamples, Turnover};
use bakeoff_core::units::{count_text, share_text};

use crate::model::figures;

/// Lowest rate per second to report,
const MANY: f64 = 10.0;
/// lowest ratio to the rate of operations,
const OF_OPERATIONS: f64 = 0.01;
/// and fewest sightings.
const SEEN_MIN: u64 = 5;

/// A frequent event of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FrequentEvent {
    /// Opened connections to another node.
    Opened { by: String, to: String },
    /// Started processes.
    Began { node: String },
}

/// How often an event happened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Frequency {
    /// All events of its kind on the machine per second: an exact count.
    pub(crate) per_second: f64,
    /// Share of this event among those that samples saw, 0 to 1.
    share: f64,
}

impl FrequentEvent {
    /// Returns `` `v-1` opened new connections to `pg-1` all the time: 96.0 % of those seen, and 118 a second were opened
    /// on the machine ``.
    pub(crate) fn text(&self, of: Frequency) -> String {
        let share = share_text(of.share);
        let all = count_text(of.per_second.round() as u64);
        match self {
            Self::Opened { by, to } => format!(
                "`{by}` opened new connections to `{to}` all the time: {share} of those seen, and {all} a second were \
                 opened on the machine"
            ),
            Self::Began { node } => format!(
                "`{node}` started new processes all the time: {share} of those seen, and {all} a second were started on \
                 the machine"
            ),
        }
    }
}

/// Returns the frequent events of a trial's nodes.
pub(crate) fn of_trial(trial: &TrialRecord) -> BTreeMap<FrequentEvent, Frequency> {
    let Some(observed) = &trial.observed else { return BTreeMap::new() };
    let windows = figures::measured(trial);
    let is_measured =
        |of: &&Turnover| windows.iter().any(|(from, to)| of.from < *to && of.to > *from);
    let turnover: Vec<&Turnover> = observed.turnover.iter().filter(is_measured).collect();
    opened(observed, &turnover, &windows)
        .into_iter()
        .chain(began(observed, &turnover, &windows))
        .filter(|(_, of)| {
            of.per_second * of.share >= MANY.max(OF_OPERATIONS * operations_per_second(trial))
        })
        .collect()
}

/// Returns the rate of finished operations during measuring, including failures.
fn operations_per_second(trial: &TrialRecord) -> f64 {
    let measurements = || trial.figured().iter().map(|stage| &stage.measurement);
    let ended: u64 = measurements().map(|of| of.verified() + of.error_count()).sum();
    let seconds: f64 = measurements().map(|of| of.window.as_secs_f64()).sum();
    if seconds > 0.0 { ended as f64 / seconds } else { 0.0 }
}

/// Returns the machine-wide rate of a counter per second.
fn rate(observed: &TrialSamples, column: Column, windows: &[(f64, f64)]) -> Option<f64> {
    let time: f64 = windows.iter().map(|(from, to)| to - from).sum();
    let grown = observed.machine.growth_over(column, windows)?;
    (time > 0.0).then(|| grown / time)
}

fn opened(
    observed: &TrialSamples,
    turnover: &[&Turnover],
    windows: &[(f64, f64)],
) -> Vec<(FrequentEvent, Frequency)> {
    let Some(per_second) = rate(observed, Column::ConnectionsOpened, windows) else {
        return Vec::new();
    };
    let links = || turnover.iter().flat_map(|of| &of.connections);
    let others: u64 = turnover.iter().map(|of| of.other_connections).sum();
    let all = links().map(|link| link.seen).sum::<u64>() + others;
    let mut seen: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    // Connections from unknown nodes are attributed in proportion to the known ones.
    let (mut known, mut to_each) = (BTreeMap::<&str, u64>::new(), BTreeMap::<&str, u64>::new());
    for link in links() {
        *to_each.entry(&link.to).or_default() += link.seen;
        if let Some(by) = &link.by {
            *known.entry(&link.to).or_default() += link.seen;
            *seen.entry((by, &link.to)).or_default() += link.seen;
        }
    }
    let between = |&((by, _), count): &((&str, &str), u64)| by != GENERATOR && count >= SEEN_MIN;
    let of_link = |((by, to), count): ((&str, &str), u64)| {
        let share = count as f64 / known[to] as f64 * to_each[to] as f64 / all as f64;
        (
            FrequentEvent::Opened { by: by.to_owned(), to: to.to_owned() },
            Frequency { per_second, share },
        )
    };
    seen.into_iter().filter(between).map(of_link).collect()
}

fn began(
    observed: &TrialSamples,
    turnover: &[&Turnover],
    windows: &[(f64, f64)],
) -> Vec<(FrequentEvent, Frequency)> {
    let Some(per_second) = rate(observed, Column::TasksBegun, windows) else { return Vec::new() };
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for (node, count) in turnover.iter().flat_map(|of| &of.processes) {
        *seen.entry(node).or_default() += count;
    }
    let others: u64 = turnover.iter().map(|of| of.other_processes).sum();
    let all = seen.values().sum::<u64>() + others;
    let of_nodes = seen.into_iter().filter(|&(node, count)| node != GENERATOR && count >= SEEN_MIN);
    let of_node = |(node, count): (&str, u64)| {
        let share = count as f64 / all as f64;
        (FrequentEvent::Began { node: node.to_owned() }, Frequency { per_second, share })
    };
    of_nodes.map(of_node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bakeoff_core::trial_samples::{ConnectionCount, Series};

    fn link(by: Option<&str>, to: &str, seen: u64) -> ConnectionCount {
        ConnectionCount { by: by.map(str::to_owned), to: to.to_owned(), seen }
    }

    /// Ten seconds in which 1,200 connections were opened and 1,500 tasks started.
    fn observed(connections: Vec<ConnectionCount>, others: u64) -> TrialSamples {
        let at = vec![0.0, 10.0];
        let columns = [
            (Column::ConnectionsOpened, vec![100.0, 1_300.0]),
            (Column::TasksBegun, vec![50.0, 1_550.0]),
        ];
        TrialSamples {
            machine: Series { name: "machine".to_owned(), at, columns: columns.into() },
            turnover: vec![Turnover {
                from: 0.0,
                to: 10.0,
                processes: [("pg-1".to_owned(), 16), ("v-1".to_owned(), 1)].into(),
                other_processes: 3,
                connections,
                other_connections: others,
            }],
            ..TrialSamples::default()
        }
    }

    #[test]
    fn exact_total_is_reported_with_the_share_seen() {
        let of = observed(vec![link(Some("v-1"), "pg-1", 9), link(None, "pg-1", 3)], 0);
        let turnover: Vec<&Turnover> = of.turnover.iter().collect();
        let found = opened(&of, &turnover, &[(0.0, 10.0)]);
        let [(often, of_it)] = &found[..] else { panic!("{found:?}") };
        let text = "`v-1` opened new connections to `pg-1` all the time: 100 % of those seen, and 120 a second were \
                    opened on the machine";
        assert_eq!(often.text(*of_it), text);
        let found = began(&of, &turnover, &[(0.0, 10.0)]);
        let [(often, of_it)] = &found[..] else {
            panic!("one of one process is no pattern: {found:?}")
        };
        let text = "`pg-1` started new processes all the time: 80.0 % of those seen, and 150 a second were started on \
                    the machine";
        assert_eq!(often.text(*of_it), text);
    }

    #[test]
    fn connections_of_generator_and_strangers_are_no_finding() {
        let of = observed(vec![link(Some(GENERATOR), "v-1", 30), link(Some("v-1"), "pg-1", 6)], 24);
        let turnover: Vec<&Turnover> = of.turnover.iter().collect();
        let found = opened(&of, &turnover, &[(0.0, 10.0)]);
        let [(_, of_it)] = &found[..] else { panic!("{found:?}") };
        assert!((of_it.share - 0.1).abs() < 1e-9, "6 of 60: {of_it:?}");
        assert!(opened(&of, &turnover, &[]).is_empty());
    }
}
