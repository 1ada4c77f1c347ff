//! Decides if the nodes themselves explain a delayed generator or a full disk.
//!
//! Nodes and generator share CPUs. A garbage collector that takes all of them for 200 ms delays the generator, and
//! the generator's own checks then fail. If that never counted against the system, its worst trials would vanish. If
//! the nodes used enough CPU time to have caused it, the cause is *unclear*, and the trial supports no claim of
//! superiority.
//!
//! While a generator waits for a CPU for `s` seconds, all CPUs run something else. Its other threads can fill all but
//! one of the generator's share, so other processes used the rest for `s` seconds. The nodes explain the wait if they
//! used that much, and at least as much as strangers did. Samples are a second apart, so this shows a possible cause,
//! not a proven one.
//!
//! Not here: neighbours and the free space itself (`machine`), generators on separate machines, which share no CPU.

use crate::record::{Injection, StageRecord};
use crate::trial_samples::{Column, GENERATOR, Series, TrialSamples};
use crate::units::figure_text;
use crate::verdict::{Cause, Check, CheckName, Verdict};

use super::machine;

/// Share of time that a generator must have waited for a CPU to count as delayed by that.
const WAITED_MIN: f64 = 0.001;
/// Share of the vanished free space that nodes must have written to explain a full disk.
const WRITTEN_MIN: f64 = 0.5;

/// Holds the measured stages of a trial, and the CPUs that nodes and generator shared.
#[derive(Debug, Clone, Copy)]
pub struct SharedCpus<'a> {
    /// Number of CPUs.
    pub cpus: u32,
    /// Stages that the trial's figures come from.
    pub stages: &'a [StageRecord],
    /// Their measured windows, in seconds since the trial began.
    pub windows: &'a [(f64, f64)],
}

/// Describes a delay of the generator.
struct HeldBack {
    /// Examined intervals, in seconds since the trial began.
    times: Vec<(f64, f64)>,
    /// Seconds for which a thread was delayed.
    seconds: f64,
}

/// Makes the cause of failed generator checks unclear if the nodes' CPU time explains them.
pub fn by_cpu_time(checks: &mut [Check], observed: &TrialSamples, shared: SharedCpus<'_>) {
    for check in checks.iter_mut().filter(|check| check.verdict.failed()) {
        let held = match check.name {
            CheckName::Timers => stood_still(observed, shared),
            CheckName::Generator | CheckName::Schedule | CheckName::ReceiveLag => {
                waited(observed, shared)
            }
            _ => None,
        };
        let used = held.and_then(|held| used_by_nodes(observed, shared, &held));
        if let (Some(used), Verdict::Failed(why)) = (used, &mut check.verdict) {
            *why = format!("{why}; {used}, enough to delay it");
            check.cause = Some(Cause::Unclear);
        }
    }
}

/// Records the CPU time of the nodes in each injection whose stalls it explains. `cpus` is the number of CPUs that
/// nodes and generator share. Such an injection counts: without it, a system that takes all CPUs to recover would lose
/// its worst injections.
pub fn stalls(injections: &mut [Injection], observed: &TrialSamples, cpus: u32) {
    for injection in injections {
        let Some(begin) = injection.stage.measured_from else { continue };
        let windows = [(begin, begin + injection.stage.measurement.window.as_secs_f64())];
        let stages = std::slice::from_ref(&injection.stage);
        let shared = SharedCpus { cpus, stages, windows: &windows };
        let held = stood_still(observed, shared).filter(|held| held.seconds > 0.0);
        injection.stalls_explained = held.and_then(|held| used_by_nodes(observed, shared, &held));
    }
}

/// Makes the cause of a full disk unclear if the nodes wrote most of the vanished free space.
pub fn by_writes(check: &mut Check, observed: &[&TrialSamples]) {
    let explained = observed.iter().find_map(|observed| wrote(observed));
    if let (Some(wrote), Verdict::Failed(why)) = (explained, &mut check.verdict) {
        *why = format!("{why}; {wrote}");
        check.cause = Some(Cause::Unclear);
    }
}

/// Returns the stalls of the most stalled thread, with the samples around them.
fn stood_still(observed: &TrialSamples, shared: SharedCpus<'_>) -> Option<HeldBack> {
    let looks = &observed.machine.at;
    let mut held = HeldBack { times: Vec::new(), seconds: 0.0 };
    for (stage, (begin, _)) in shared.stages.iter().zip(shared.windows) {
        let Some((thread, stalled)) = stage.measurement.most_stalled() else { continue };
        held.seconds += stalled.as_secs_f64();
        for stall in stage.measurement.stalls.iter().filter(|stall| stall.thread == thread) {
            let (from, to) = (begin + stall.from, begin + stall.from + stall.seconds);
            let first = looks.partition_point(|&at| at <= from).checked_sub(1)?;
            let last = looks.partition_point(|&at| at < to).min(looks.len().checked_sub(1)?);
            let pairs = looks.get(first..=last)?.windows(2);
            held.times.extend(pairs.map(|pair| (pair[0], pair[1])));
        }
    }
    held.times.sort_by(|a, b| a.0.total_cmp(&b.0));
    held.times.dedup();
    Some(held)
}

/// Returns the average time for which the generator's threads waited for a CPU.
fn waited(observed: &TrialSamples, shared: SharedCpus<'_>) -> Option<HeldBack> {
    let generator = observed.nodes.iter().find(|node| node.name == GENERATOR)?;
    let waited = generator.growth_over(Column::CpuWait, shared.windows)?;
    let seconds = waited / f64::from(threads(shared.stages));
    let time: f64 = shared.windows.iter().map(|(from, to)| to - from).sum();
    let times = shared.windows.to_vec();
    (seconds >= time * WAITED_MIN).then_some(HeldBack { times, seconds })
}

fn threads(stages: &[StageRecord]) -> u32 {
    stages.iter().map(|stage| stage.measurement.generator_threads).max().unwrap_or(1).max(1)
}

/// Returns the nodes' CPU use in a clause, if it explains that the generator was delayed.
fn used_by_nodes(
    observed: &TrialSamples,
    shared: SharedCpus<'_>,
    held: &HeldBack,
) -> Option<String> {
    let of_node = |node: &Series| {
        let grown = |column| node.growth_over(column, &held.times);
        Some(grown(Column::CpuUser)? + grown(Column::CpuSystem)?)
    };
    let nodes = observed.nodes.iter().filter(|node| node.name != GENERATOR);
    let nodes: f64 = nodes.map(of_node).sum::<Option<f64>>()?;
    let strangers = machine::strange(observed, &held.times).unwrap_or(0.0);
    let others = threads(shared.stages) - 1;
    let filled = held.seconds * f64::from(shared.cpus.saturating_sub(others).max(1));
    let time: f64 = held.times.iter().map(|(from, to)| to - from).sum();
    (nodes > 0.0 && nodes >= strangers && nodes >= filled).then(|| {
        format!(
            "the system's own nodes used {} s of CPU time in these {} s",
            figure_text(nodes),
            figure_text(time)
        )
    })
}

/// Returns the nodes' writes in a clause, if they explain that the disk ran full.
fn wrote(observed: &TrialSamples) -> Option<String> {
    let free = observed.machine.columns.get(&Column::DiskFree)?;
    let (first, least) = (*free.first()?, free.iter().copied().reduce(f64::min)?);
    let min = machine::DISK_FREE_MIN as f64;
    let vanished = first - least;
    // A disk that was full from the start was filled by someone else.
    if first < min || least >= min {
        return None;
    }
    let written = |node: &Series| {
        let of =
            |column| node.columns.get(&column).and_then(|all| Some(all.last()? - all.first()?));
        let data = node.columns.get(&Column::DataDirectory);
        let data = data.and_then(|all| Some(all.iter().copied().reduce(f64::max)? - all.first()?));
        of(Column::DiskWritten).into_iter().chain(data).reduce(f64::max).unwrap_or(0.0)
    };
    let nodes = observed.nodes.iter().filter(|node| node.name != GENERATOR);
    let written: f64 = nodes.map(written).sum();
    (written >= vanished * WRITTEN_MIN).then(|| {
        let mib = |bytes: f64| figure_text(bytes / f64::from(1 << 20));
        format!(
            "the system's own nodes wrote {} MiB while {} MiB vanished",
            mib(written),
            mib(vanished)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{GeneratorStall, Measurement};
    use crate::trial_samples::BusyBy;

    /// Returns ten seconds of two CPUs, given CPU seconds per second; the second value is for the fifth second.
    fn samples(nodes: [f64; 2], strangers: [f64; 2], waited: f64) -> TrialSamples {
        let counter = |[usual, fifth]: [f64; 2]| {
            let mut sum = 0.0;
            let growth = (0..=10).map(|second| match second {
                0 => 0.0,
                5 => fifth,
                _ => usual,
            });
            growth
                .map(|grown| {
                    sum += grown;
                    sum
                })
                .collect::<Vec<f64>>()
        };
        let series = |name: &str, columns: Vec<(Column, Vec<f64>)>| Series {
            name: name.to_owned(),
            at: (0..=10).map(f64::from).collect(),
            columns: columns.into_iter().collect(),
        };
        let process = |name, cpu: [f64; 2], waited: f64| {
            let columns = vec![
                (Column::CpuUser, counter(cpu)),
                (Column::CpuSystem, counter([0.0; 2])),
                (Column::CpuWait, counter([waited; 2])),
            ];
            series(name, columns)
        };
        let busy = [nodes[0] + strangers[0] + 0.1, nodes[1] + strangers[1] + 0.1];
        let columns = vec![(Column::Busy, counter(busy)), (Column::Helpers, counter([0.0; 2]))];
        TrialSamples {
            nodes: vec![process(GENERATOR, [0.1; 2], waited), process("n-1", nodes, 0.0)],
            machine: series("machine", columns),
            busy_by: Some(BusyBy::Cgroup),
            ..TrialSamples::default()
        }
    }

    /// Returns the cause of this check if a generator of two threads stalled for 200 ms in the fifth second.
    fn cause(name: CheckName, observed: &TrialSamples) -> Cause {
        let stall = GeneratorStall { thread: 1, from: 3.4, seconds: 0.2 };
        let measurement = Measurement {
            window: std::time::Duration::from_secs(8),
            stalls: vec![stall],
            generator_threads: 2,
            ..Measurement::default()
        };
        let (clients, began, measured_from, tried) = (1, 1.0, Some(1.0), None);
        let stages = [StageRecord { clients, began, measured_from, measurement, tried }];
        let mut checks = [Check::new(name, Verdict::Failed("so".to_owned()))];
        let shared = SharedCpus { cpus: 2, stages: &stages, windows: &[(1.0, 9.0)] };
        by_cpu_time(&mut checks, observed, shared);
        checks[0].cause()
    }

    #[test]
    fn burst_of_the_nodes_makes_a_stall_unclear() {
        let of = |nodes, strangers| cause(CheckName::Timers, &samples(nodes, strangers, 0.0));
        assert_eq!(of([0.1, 0.5], [0.0, 0.0]), Cause::Unclear);
        assert_eq!(of([0.1, 0.15], [0.0, 0.0]), Cause::Generator, "too little for 200 ms");
        assert_eq!(of([0.5, 0.1], [0.0, 0.0]), Cause::Generator, "in other seconds");
        assert_eq!(of([0.1, 0.5], [0.0, 0.9]), Cause::Generator, "strangers used more");
    }

    #[test]
    fn stall_of_an_injection_is_explained_by_a_burst_of_the_nodes() {
        let of = |nodes, strangers, stalls: Vec<GeneratorStall>| {
            let window = std::time::Duration::from_secs(8);
            let measurement =
                Measurement { window, stalls, generator_threads: 2, ..Measurement::default() };
            let (clients, began, measured_from, tried) = (1, 1.0, Some(1.0), None);
            let mut injection = [Injection {
                fault: "paused".to_owned(),
                repeat: 1,
                stage: StageRecord { clients, began, measured_from, measurement, tried },
                hits: Vec::new(),
                unproven: None,
                stalls_explained: None,
                audit: None,
            }];
            super::stalls(&mut injection, &samples(nodes, strangers, 0.0), 2);
            injection[0].stalls_explained.clone()
        };
        let stall = || vec![GeneratorStall { thread: 1, from: 3.4, seconds: 0.2 }];
        let used = of([0.1, 0.5], [0.0, 0.0], stall()).expect("the nodes used 0.5 s");
        assert_eq!(used, "the system's own nodes used 0.50 s of CPU time in these 1.00 s");
        assert_eq!(of([0.1, 0.15], [0.0, 0.0], stall()), None, "too little for 200 ms");
        assert_eq!(of([0.1, 0.5], [0.0, 0.9], stall()), None, "strangers used more");
        assert_eq!(of([0.1, 0.5], [0.0, 0.0], Vec::new()), None, "it did not stand still");
    }

    #[test]
    fn generator_that_waited_while_nodes_ran_is_unclear() {
        for name in [CheckName::Generator, CheckName::Schedule, CheckName::ReceiveLag] {
            let of = |nodes, strangers, waited| cause(name, &samples(nodes, strangers, waited));
            assert_eq!(of([1.2; 2], [0.0; 2], 0.6), Cause::Unclear);
            assert_eq!(of([1.2; 2], [0.0; 2], 0.0), Cause::Generator, "it lacked no CPU");
            assert_eq!(of([0.2; 2], [0.0; 2], 0.6), Cause::Generator, "too little");
            assert_eq!(of([0.4; 2], [1.2; 2], 0.6), Cause::Generator, "strangers used more");
        }
        assert_eq!(cause(CheckName::Errors, &samples([1.2; 2], [0.0; 2], 0.6)), Cause::System);
    }

    #[test]
    fn full_disk_is_unclear_if_the_nodes_wrote_what_vanished() {
        let of = |free: &[f64], written: f64| {
            let mut observed = samples([0.1; 2], [0.0; 2], 0.0);
            let mib = |free: &f64| free * f64::from(1 << 20);
            let free: Vec<f64> = free.iter().map(mib).collect();
            observed.machine.columns.insert(Column::DiskFree, free);
            let written = vec![0.0, written * f64::from(1 << 20)];
            observed.nodes[1].columns.insert(Column::DiskWritten, written);
            let verdict = machine::disk(&observed.machine, None);
            let mut check = Check::new(CheckName::Disk, verdict);
            by_writes(&mut check, &[&observed]);
            check.cause()
        };
        assert_eq!(of(&[500.0, 300.0, 10.0], 450.0), Cause::Unclear);
        assert_eq!(of(&[500.0, 300.0, 10.0], 100.0), Cause::Machine, "somebody else's");
        assert_eq!(of(&[40.0, 10.0], 30.0), Cause::Machine, "full from the beginning");
    }
}
