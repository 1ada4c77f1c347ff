//! Sums up a node's samples over a period.
//!
//! Not here: sampling (`observe`).

use bakeoff_core::memory::{self, MemoryGrowth, NodeReadings, NodesMemory};
use bakeoff_core::record::Usage;
use bakeoff_core::trial_samples::{Column, GENERATOR, MeteredSeries, Series, TrialSamples};

/// Shortest time for a share of CPU, in seconds; samples may come a little early. The kernel counts in ticks of
/// commonly 10 ms, so shorter times give coarse figures.
const WINDOW: f64 = 0.95;
/// A requested sample is taken within this time, in seconds.
const AT_ONCE: f64 = 0.05;

/// Sums up each node over the measured windows (in order, in seconds since the trial began), or over the whole load if
/// nothing was measured. If the windows contain fewer than two samples, counters cover the time between the samples
/// around them, and gauges without a sample are unknown. A node without two samples around the windows has no summary.
///
/// Mean CPU covers the windows only, as operations do: a server that hangs while the load drains must not seem to use
/// less CPU per operation. The other figures cover the time from the start of the first window to the end of the last.
///
/// Nodes that report their own metrics come last, over the samples around those times.
pub fn summarize(observed: &TrialSamples, windows: &[(f64, f64)], load: (f64, f64)) -> Vec<Usage> {
    let measured = windows.first().zip(windows.last()).map(|(first, last)| (first.0, last.1));
    // The samples at a window's edges come a moment after them.
    let look = |moment| next_look(&observed.machine.at, moment);
    let measured = measured.map(|(from, to)| (look(from), look(to)));
    let one = |node: &Series| {
        let usage = match measured {
            Some((from, to)) => of_node(node, from, to).or_else(|| around(node, from, to)),
            None => of_node(node, load.0, load.1),
        }?;
        let mean = mean_percent(node, windows).unwrap_or(usage.cpu_mean_percent);
        let memory = observed.memory.iter().find(|one| one.name == node.name);
        let read =
            |&(from, to): &(f64, f64)| memory?.most(Column::Proportional, from, to + AT_ONCE);
        let proportional = windows.iter().filter_map(read).reduce(f64::max);
        let pss_max_bytes = proportional.map(|bytes| bytes.max(0.0) as u64);
        Some(Usage { cpu_mean_percent: mean, pss_max_bytes, ..usage })
    };
    let metered = |node: &MeteredSeries| of_metrics(node, windows, load);
    let nodes = observed.nodes.iter().filter_map(one);
    nodes.chain(observed.metrics.iter().filter_map(metered)).collect()
}

/// Sums up a node that reports metrics at times of its own: from the last sample before the windows to the first after
/// them.
fn of_metrics(node: &MeteredSeries, windows: &[(f64, f64)], load: (f64, f64)) -> Option<Usage> {
    let series = &node.series;
    let measured = windows.first().zip(windows.last()).map(|(first, last)| (first.0, last.1));
    let usage = match measured {
        Some((from, to)) => around(series, from, to),
        None => of_node(series, load.0, load.1),
    }?;
    let mean = mean_percent(series, windows).unwrap_or(usage.cpu_mean_percent);
    Some(Usage { cpu_mean_percent: mean, metrics_of: Some(node.of), ..usage })
}

/// Sums up a node from the last sample before a period to the first after it. Gauges cover the period only.
fn around(node: &Series, from: f64, to: f64) -> Option<Usage> {
    let within = of_node(node, from, node.next_look(to).unwrap_or(to))?;
    let most = |column| node.most(column, from, to).map(|most| most.max(0.0) as u64);
    Some(Usage {
        rss_max_bytes: most(Column::Resident),
        processes_max: most(Column::Processes).unwrap_or(within.processes_max),
        threads_max: most(Column::Threads).unwrap_or(0),
        open_files_max: most(Column::OpenFiles),
        data_bytes: most(Column::DataDirectory),
        ..within
    })
}

/// The servers of one machine.
#[derive(Debug, Clone, Copy)]
pub struct MachineServers<'a> {
    /// The machine's samples.
    pub observed: &'a TrialSamples,
    /// Names of its servers; `None` if all processes but the generator are servers.
    pub names: Option<&'a [String]>,
}

impl MachineServers<'_> {
    fn has(&self, node: &Series) -> bool {
        self.names.map_or(node.name != GENERATOR, |names| names.contains(&node.name))
    }
}

/// Returns the most memory that all servers held together at one moment of the windows.
pub fn memory(machines: &[MachineServers<'_>], windows: &[(f64, f64)]) -> Option<NodesMemory> {
    let windows: Vec<(f64, f64)> = windows.iter().map(|&(from, to)| (from, to + AT_ONCE)).collect();
    memory::most(&readings(machines, &windows), &windows)
}

/// Returns how the memory of all servers grew from the window `before` to the window `after`.
pub fn memory_growth(
    machines: &[MachineServers<'_>],
    before: (f64, f64),
    after: (f64, f64),
) -> Option<MemoryGrowth> {
    memory::growth(&readings(machines, &[before, after]), before, after)
}

/// Returns the readings of all servers. `windows`: those to use.
fn readings<'a>(machines: &[MachineServers<'a>], windows: &[(f64, f64)]) -> Vec<NodeReadings<'a>> {
    let mut nodes: Vec<NodeReadings<'_>> = Vec::new();
    for machine in machines {
        let observed = machine.observed;
        let servers = observed.nodes.iter().filter(|node| machine.has(node));
        nodes.extend(servers.map(|node| NodeReadings {
            detailed: observed.memory.iter().find(|one| one.name == node.name),
            resident: node,
            processes_max: most_processes(node, windows),
        }));
        let metered = observed.metrics.iter().map(|node| &node.series);
        nodes.extend(metered.map(|series| NodeReadings {
            detailed: None,
            resident: series,
            processes_max: 1,
        }));
    }
    nodes
}

/// Returns the largest number of processes; `u64::MAX` if unknown, because resident memory then may count shared pages
/// twice.
fn most_processes(node: &Series, windows: &[(f64, f64)]) -> u64 {
    let within = windows.iter().filter_map(|&(from, to)| node.most(Column::Processes, from, to));
    within.reduce(f64::max).map_or(u64::MAX, |most| most.max(0.0) as u64)
}

/// Returns the time of the sample taken for this moment: the first one after it, if it came at once.
fn next_look(looks: &[f64], moment: f64) -> f64 {
    let next = looks.get(looks.partition_point(|&at| at < moment));
    next.copied().filter(|at| at - moment <= AT_ONCE).unwrap_or(moment)
}

/// Returns the mean CPU within these windows, in percent of one core. `None` if a window has no sample before or after
/// it, or all are empty.
pub fn mean_percent(node: &Series, windows: &[(f64, f64)]) -> Option<f64> {
    let time: f64 = windows.iter().map(|(from, to)| to - from).sum();
    let grown = |column| node.growth_over(column, windows);
    let parts = || Some(grown(Column::CpuUser)? + grown(Column::CpuSystem)?);
    let cpu = grown(Column::Cpu).or_else(parts)?;
    (time > 0.0).then(|| 100.0 * cpu.max(0.0) / time)
}

fn of_node(node: &Series, from: f64, to: f64) -> Option<Usage> {
    let growth = |column| node.growth(column, from, to);
    let whole = |column| growth(column).map(|grown| grown.max(0.0).round() as u64);
    let most = |column| node.most(column, from, to).map(|most| most.max(0.0) as u64);
    let (mean, highest) = cpu_percent(node, from, to)?;
    Some(Usage {
        name: node.name.clone(),
        cpu_mean_percent: mean,
        cpu_max_percent: highest,
        rss_max_bytes: most(Column::Resident),
        pss_max_bytes: None,
        processes_max: most(Column::Processes).unwrap_or(0),
        written_bytes: whole(Column::DiskWritten).unwrap_or(0),
        throttled_seconds: growth(Column::CpuThrottled),
        periods: whole(Column::CpuPeriods),
        periods_throttled: whole(Column::CpuPeriodsThrottled),
        threads_max: most(Column::Threads).unwrap_or(0),
        open_files_max: most(Column::OpenFiles),
        read_bytes: whole(Column::DiskRead),
        sent_bytes: whole(Column::SocketSent),
        received_bytes: whole(Column::SocketReceived),
        data_bytes: most(Column::DataDirectory),
        metrics_of: None,
    })
}

/// Returns the mean CPU, and the largest within about a second, in percent of one core.
fn cpu_percent(node: &Series, from: f64, to: f64) -> Option<(f64, f64)> {
    let begin = node.at.partition_point(|&at| at <= from).saturating_sub(1);
    let end = node.at.partition_point(|&at| at <= to);
    let at = node.at.get(begin..end)?;
    let column = |column| node.columns.get(&column)?.get(begin..end);
    let cpu = match column(Column::Cpu) {
        Some(whole) => whole.to_vec(),
        None => {
            let (user, system) = (column(Column::CpuUser)?, column(Column::CpuSystem)?);
            user.iter().zip(system).map(|(user, system)| user + system).collect::<Vec<f64>>()
        }
    };
    let percent = |a: usize, b: usize| 100.0 * (cpu[b] - cpu[a]).max(0.0) / (at[b] - at[a]);
    let last = at.len().checked_sub(1).filter(|&last| at[last] > at[0])?;
    let mean = percent(0, last);
    let mut start = 0;
    let mut highest: Option<f64> = None;
    for end in 1..=last {
        // The latest sample that is a window or more before this one.
        while at[end] - at[start + 1] >= WINDOW {
            start += 1;
        }
        if at[end] - at[start] >= WINDOW {
            highest = Some(percent(start, end).max(highest.unwrap_or(0.0)));
        }
    }
    Some((mean, highest.unwrap_or(mean)))
}

#[cfg(test)]
mod tests {
    use bakeoff_core::trial_samples::MetricsSubject;

    use super::*;

    fn node(looks: impl IntoIterator<Item = (f64, f64, f64)>) -> Series {
        let mut node = Series { name: "n".into(), ..Series::default() };
        for (at, cpu, resident) in looks {
            node.at.push(at);
            for (column, value) in [
                (Column::CpuUser, cpu),
                (Column::CpuSystem, 0.0),
                (Column::Resident, resident),
                (Column::Threads, 1.0),
                (Column::DiskWritten, at * 1000.0),
            ] {
                node.columns.entry(column).or_default().push(value);
            }
        }
        node
    }

    #[test]
    fn highest_cpu_is_over_a_second_at_any_interval() {
        // Half a core for 2 s, with a burst of 100 ms at two cores in the middle.
        let mut cpu = 0.0;
        let looks = (0..=20u32).map(|n| {
            cpu += if n == 10 { 0.2 } else { 0.05 };
            (f64::from(n) / 10.0, cpu, f64::from(n))
        });
        let usage = of_node(&node(looks), 0.0, 9.0).unwrap();
        assert!((usage.cpu_max_percent - 65.0).abs() < 1e-6, "{usage:?}");
        assert!((usage.cpu_mean_percent - 57.5).abs() < 1e-6, "{usage:?}");
        assert_eq!((usage.rss_max_bytes, usage.read_bytes), (Some(20), None));
        assert_eq!((usage.written_bytes, usage.throttled_seconds), (2000, None));
    }

    #[test]
    fn short_period_uses_its_mean_and_one_sample_yields_nothing() {
        let short = node([(0.0, 0.0, 1.0), (0.1, 0.05, 1.0)]);
        assert!((of_node(&short, 0.0, 1.0).unwrap().cpu_max_percent - 50.0).abs() < 1e-6);
        assert_eq!(of_node(&node([(0.0, 0.0, 1.0)]), 0.0, 1.0), None);
        assert_eq!(of_node(&short, 0.1, 0.2), None, "its last look begins the time");
        assert_eq!(of_node(&Series::default(), 0.0, 1.0), None);
    }

    #[test]
    fn hang_during_the_drain_does_not_lower_mean_cpu() {
        // One core during the measured seconds 2 to 12, then nothing until the last request times out ten seconds
        // later.
        let cpu = |at: u32| f64::from(at.clamp(2, 12) - 2);
        let node = node((0..=22u32).map(|at| (f64::from(at), cpu(at), 1.0)));
        let machine = Series { at: node.at.clone(), ..Series::default() };
        let observed = TrialSamples { nodes: vec![node], machine, ..TrialSamples::default() };
        let load = (0.0, 22.0);
        let mean = |windows: &[(f64, f64)]| summarize(&observed, windows, load)[0].cpu_mean_percent;
        assert!((mean(&[]) - 45.45).abs() < 0.01, "over the whole load it is less");
        assert!((mean(&[(2.0, 12.0)]) - 100.0).abs() < 1e-6);
        assert!((mean(&[(1.5, 2.5), (11.5, 12.5)]) - 50.0).abs() < 1e-6, "edges between looks");
    }

    #[test]
    fn metrics_around_a_short_load_give_its_usage() {
        let series = Series {
            name: "far".into(),
            at: vec![0.9, 1.9, 3.9],
            columns: [(Column::Cpu, vec![5.0, 6.0, 7.0]), (Column::Resident, vec![3.0, 9.0, 4.0])]
                .into(),
        };
        let metered = MeteredSeries { of: MetricsSubject::Machine, series };
        let observed = TrialSamples { metrics: vec![metered], ..TrialSamples::default() };
        let summed = |from: f64, to: f64| summarize(&observed, &[(from, to)], (from, to));
        let [usage] = &summed(2.4, 2.9)[..] else { panic!("one node") };
        assert!((usage.cpu_mean_percent - 50.0).abs() < 1e-6, "{usage:?}");
        assert_eq!((usage.rss_max_bytes, usage.metrics_of), (None, Some(MetricsSubject::Machine)));
        let [usage] = &summed(1.8, 2.9)[..] else { panic!("one node") };
        assert_eq!(usage.rss_max_bytes, Some(9), "4 was read later");
        let [usage] = &summed(0.9, 3.9)[..] else { panic!("one node") };
        assert!((usage.cpu_mean_percent - 200.0 / 3.0).abs() < 1e-6, "{usage:?}");
        assert!((usage.cpu_max_percent - 100.0).abs() < 1e-6, "{usage:?}");
        assert_eq!(summed(4.0, 5.0), [], "nothing is known of after the last look");
    }

    #[test]
    fn only_usage_within_the_period_counts() {
        let usage =
            of_node(&node((0..10).map(|n| (f64::from(n), f64::from(n * n), 1.0))), 2.0, 5.0);
        let usage = usage.unwrap();
        assert!((usage.cpu_mean_percent - 700.0).abs() < 1e-6, "{usage:?}"); // (25 − 4) / 3 s
        assert!((usage.cpu_max_percent - 900.0).abs() < 1e-6, "{usage:?}");
        assert_eq!(usage.written_bytes, 3000);
    }
}
