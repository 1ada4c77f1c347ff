//! Finds the most memory that all nodes of a system held at one moment.
//!
//! Proportional and resident memory treat shared pages differently. A page mapped by several processes counts once in
//! proportional memory, and once per process in resident memory. A sum uses only one of the two. Only readings within
//! a measured window count; an earlier reading does not stand in for a missing one.
//!
//! Proportional memory shrinks when a stranger's process maps the same file. Runs of several nights therefore compare
//! private memory.
//!
//! Not here: the readings (`bakeoff_host::observe`), the choice of trials to compare (`bakeoff_report`).

use serde::{Deserialize, Serialize};

use crate::trial_samples::{Column, Series};

/// Names a measure of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MemoryOf {
    /// Proportional set size: a page that *n* processes map counts as an *n*th for each.
    Proportional,
    /// Resident set size: a shared page counts once for each process.
    Resident,
}

impl MemoryOf {
    /// Returns the name in tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Proportional => "proportional memory",
            Self::Resident => "resident memory",
        }
    }
}

/// Holds the memory of all nodes of a trial within its measured windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodesMemory {
    /// Measure of all values.
    pub of: MemoryOf,
    /// Maximum sum of all nodes at one moment, in bytes.
    pub sum_max_bytes: u64,
    /// Maximum of one node, in bytes.
    pub node_max_bytes: u64,
    /// Number of moments at which the memory of all nodes was known.
    pub moments: u64,
    /// Maximum sum of all nodes' private memory at one moment, in bytes; `None` if it was not read for all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_sum_max_bytes: Option<u64>,
}

/// Holds how the resident memory of all nodes grew from one window to a later one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryGrowth {
    /// Median sum of all nodes in the first window, in bytes.
    pub before_bytes: u64,
    /// Median sum of all nodes in the second window, in bytes.
    pub after_bytes: u64,
    /// Sum of both windows' differences between their largest and their smallest sum, in bytes. A growth below it may be
    /// chance.
    pub variation_bytes: u64,
}

impl MemoryGrowth {
    /// Returns the growth in bytes; `None` if it is not above the variation.
    pub fn shown(&self) -> Option<u64> {
        let grown = self.after_bytes.saturating_sub(self.before_bytes);
        (grown > self.variation_bytes).then_some(grown)
    }
}

/// Returns how the resident memory of all `nodes` grew from the window `before` to the window `after`. `None` if a window
/// has fewer than two moments at which that of all nodes is known, or a node has several processes.
pub fn growth(
    nodes: &[NodeReadings<'_>],
    before: (f64, f64),
    after: (f64, f64),
) -> Option<MemoryGrowth> {
    if nodes.is_empty() || nodes.iter().any(|node| node.processes_max > 1) {
        return None;
    }
    let resident: Vec<&Series> = nodes.iter().map(|node| node.resident).collect();
    let sums = |window| {
        let mut sums = moments(&resident, Column::Resident, window)?.sums;
        sums.sort_by(f64::total_cmp);
        (sums.len() >= 2).then_some(sums)
    };
    let (before, after) = (sums(before)?, sums(after)?);
    let median = |sums: &[f64]| sums[sums.len() / 2] as u64;
    let spread = |sums: &[f64]| (sums[sums.len() - 1] - sums[0]) as u64;
    Some(MemoryGrowth {
        before_bytes: median(&before),
        after_bytes: median(&after),
        variation_bytes: spread(&before) + spread(&after),
    })
}

/// Holds the readings of one node.
#[derive(Debug, Clone, Copy)]
pub struct NodeReadings<'a> {
    /// Readings of proportional and private memory, if the kernel gave any.
    pub detailed: Option<&'a Series>,
    /// Readings of resident memory.
    pub resident: &'a Series,
    /// Maximum number of processes of the node. Resident memory of several processes is not summed.
    pub processes_max: u64,
}

/// Returns the most memory that all `nodes` held together within `windows`.
///
/// Uses proportional memory if every node has a reading of it within the windows, otherwise resident memory if each
/// node is a single process. Returns `None` if neither is known for all nodes, or if there are no nodes.
pub fn most(nodes: &[NodeReadings<'_>], windows: &[(f64, f64)]) -> Option<NodesMemory> {
    let detailed: Option<Vec<&Series>> = nodes.iter().map(|node| node.detailed).collect();
    let single = nodes.iter().all(|node| node.processes_max <= 1);
    let resident = || nodes.iter().map(|node| node.resident).collect::<Vec<_>>();
    let read = |column| Maxima::within(detailed.as_ref()?, column, windows);
    let (of, maxima) = read(Column::Proportional)
        .map(|maxima| (MemoryOf::Proportional, maxima))
        .or_else(|| {
            let maxima = Maxima::within(&resident(), Column::Resident, windows);
            maxima.filter(|_| single).map(|maxima| (MemoryOf::Resident, maxima))
        })?;
    Some(NodesMemory {
        of,
        sum_max_bytes: maxima.sum as u64,
        node_max_bytes: maxima.node as u64,
        moments: maxima.moments,
        private_sum_max_bytes: read(Column::Private).map(|private| private.sum as u64),
    })
}

/// Largest values of a column, in bytes.
struct Maxima {
    sum: f64,
    node: f64,
    moments: u64,
}

impl Maxima {
    /// Finds the largest values within `windows`; `None` if a node lacks the column or a reading.
    fn within(series: &[&Series], column: Column, windows: &[(f64, f64)]) -> Option<Self> {
        let (mut sums, mut nodes) = (Vec::new(), Vec::new());
        for &window in windows {
            let read = moments(series, column, window)?;
            sums.extend(read.sums);
            nodes.extend(read.nodes);
        }
        let most =
            |values: &[f64]| values.iter().copied().reduce(f64::max).filter(|_| !series.is_empty());
        Some(Self { sum: most(&sums)?, node: most(&nodes)?, moments: sums.len() as u64 })
    }
}

/// Values of a column in a window, in bytes.
struct Moments {
    /// Sum of all nodes at each moment at which that of all is known.
    sums: Vec<f64>,
    /// Each reading.
    nodes: Vec<f64>,
}

/// Returns the values of a column in a window; `None` if a node lacks the column.
fn moments(series: &[&Series], column: Column, (from, to): (f64, f64)) -> Option<Moments> {
    let mut moments = Moments { sums: Vec::new(), nodes: Vec::new() };
    // Sort the readings in the window by time. Those of one moment belong together.
    let mut readings: Vec<(f64, usize, f64)> = Vec::new();
    for (node, one) in series.iter().enumerate() {
        let values = one.columns.get(&column)?;
        let within = one.at.iter().zip(values).filter(|(at, _)| (from..=to).contains(*at));
        readings.extend(within.map(|(at, bytes)| (*at, node, *bytes)));
    }
    readings.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut last: Vec<Option<f64>> = vec![None; series.len()];
    for (place, (at, node, bytes)) in readings.iter().enumerate() {
        last[*node] = Some(*bytes);
        moments.nodes.push(*bytes);
        let more_of_it = readings.get(place + 1).is_some_and(|next| next.0 == *at);
        if !more_of_it && let Some(sum) = last.iter().copied().sum::<Option<f64>>() {
            moments.sums.push(sum);
        }
    }
    Some(moments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(column: Column, readings: &[(f64, f64)]) -> Series {
        let (at, values) = readings.iter().copied().unzip();
        Series { name: "n".into(), at, columns: [(column, values)].into() }
    }

    fn proportional(readings: &[(f64, f64)]) -> Series {
        series(Column::Proportional, readings)
    }

    fn resident(readings: &[(f64, f64)]) -> Series {
        series(Column::Resident, readings)
    }

    fn node<'a>(detailed: Option<&'a Series>, resident: &'a Series) -> NodeReadings<'a> {
        NodeReadings { detailed, resident, processes_max: 1 }
    }

    #[test]
    fn reading_before_the_window_does_not_count() {
        let (early, rss) = (proportional(&[(0.5, 9e9)]), resident(&[]));
        assert_eq!(most(&[node(Some(&early), &rss)], &[(1.0, 3.0)]), None);
        let both = proportional(&[(0.5, 9e9), (2.0, 5.0)]);
        let found = most(&[node(Some(&both), &rss)], &[(1.0, 3.0)]).unwrap();
        assert_eq!((found.of, found.sum_max_bytes), (MemoryOf::Proportional, 5));
    }

    #[test]
    fn nodes_that_peak_at_different_times_are_summed_at_one_moment() {
        let (a, b) =
            (proportional(&[(1.0, 10.0), (2.0, 1.0)]), proportional(&[(1.0, 1.0), (2.0, 10.0)]));
        let rss = resident(&[]);
        let nodes = [node(Some(&a), &rss), node(Some(&b), &rss)];
        let found = most(&nodes, &[(0.0, 3.0)]).unwrap();
        assert_eq!((found.sum_max_bytes, found.node_max_bytes, found.moments), (11, 10, 2));
        // On two machines the reading times differ. The last reading of each node counts.
        let b = proportional(&[(1.1, 1.0), (1.9, 10.0)]);
        let found = most(&[node(Some(&a), &rss), node(Some(&b), &rss)], &[(0.0, 3.0)]).unwrap();
        assert_eq!((found.sum_max_bytes, found.moments), (20, 3));
    }

    #[test]
    fn growth_is_shown_only_above_the_variation() {
        let a = resident(&[(1.0, 10.0), (2.0, 14.0), (3.0, 12.0), (4.0, 40.0), (5.0, 41.0)]);
        let b = resident(&[(1.0, 5.0), (2.0, 5.0), (3.0, 5.0), (4.0, 5.0), (5.0, 5.0)]);
        let nodes = [node(None, &a), node(None, &b)];
        let grown = growth(&nodes, (0.0, 3.0), (3.5, 6.0)).unwrap();
        assert_eq!((grown.before_bytes, grown.after_bytes, grown.variation_bytes), (17, 46, 5));
        assert_eq!(grown.shown(), Some(29));
        let same = growth(&nodes, (0.0, 2.5), (2.5, 3.5));
        assert_eq!(same, None, "one moment has no variation");
        let noise = growth(&nodes, (0.0, 2.5), (1.5, 3.5)).unwrap();
        assert_eq!((noise.variation_bytes, noise.shown()), (6, None));
        assert_eq!(MemoryGrowth { after_bytes: 22, ..grown }.shown(), None);
        let several = NodeReadings { processes_max: 2, ..node(None, &a) };
        assert_eq!(growth(&[several], (0.0, 3.0), (3.5, 6.0)), None);
    }

    #[test]
    fn resident_and_proportional_memory_are_not_added() {
        let (pss, rss) = (proportional(&[(1.0, 7.0)]), resident(&[(1.0, 100.0)]));
        let mixed = [node(Some(&pss), &rss), node(None, &rss)];
        let found = most(&mixed, &[(0.0, 2.0)]).unwrap();
        assert_eq!((found.of, found.sum_max_bytes), (MemoryOf::Resident, 200));
        let several = NodeReadings { processes_max: 2, ..node(None, &rss) };
        assert_eq!(most(&[node(Some(&pss), &rss), several], &[(0.0, 2.0)]), None);
        assert_eq!(most(&[], &[(0.0, 2.0)]), None, "no nodes");
        assert_eq!(most(&mixed, &[]), None, "no window");
    }

    #[test]
    fn private_memory_needs_a_reading_of_each_node() {
        let both = |readings: &[(f64, f64)]| {
            let mut of_node = proportional(readings);
            let private = readings.iter().map(|(_, bytes)| bytes / 2.0).collect();
            of_node.columns.insert(Column::Private, private);
            of_node
        };
        let (a, b, rss) = (both(&[(1.0, 10.0)]), both(&[(1.0, 4.0)]), resident(&[]));
        let found = most(&[node(Some(&a), &rss), node(Some(&b), &rss)], &[(0.0, 2.0)]).unwrap();
        assert_eq!((found.sum_max_bytes, found.private_sum_max_bytes), (14, Some(7)));
        let b = proportional(&[(1.0, 4.0)]);
        let found = most(&[node(Some(&a), &rss), node(Some(&b), &rss)], &[(0.0, 2.0)]).unwrap();
        assert_eq!(found.private_sum_max_bytes, None, "one node lacks it");
    }
}
