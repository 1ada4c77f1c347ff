//! Checks the machine of a trial: CPU time taken by the hypervisor or other programs, a full disk, a stepped clock.
//!
//! Not here: sampling (the binary's `host::observe`), checks of the measurement (`check`).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::record::GeneratorPart;
use crate::stats::and;
use crate::study::Study;
use crate::trial_samples::{BusyBy, Column, ForeignCpu, Series, TrialSamples};
use crate::units::figure_text;
use crate::verdict::Verdict;

/// Maximum share of all CPUs' time that the hypervisor may give to others.
pub const STEAL_MAX: f64 = 0.05;
/// Minimum steal in seconds. Less is a few of the kernel's ticks and means nothing in a short load.
const STEAL_MIN: f64 = 0.1;
/// Maximum share of the machine that strangers may use in a study with absolute figures.
pub const NEIGHBOURS_MAX: f64 = 0.05;
/// Maximum share of the machine that strangers may use if systems are only compared within a round, in which they
/// share their neighbours.
pub const NEIGHBOURS_MAX_COMPARED: f64 = 0.1;
/// CPUs that strangers may always use next to idle systems, within their share of all CPUs. A quiet machine with many
/// CPUs runs as much in the background.
pub const NEIGHBOURS_FREE: f64 = 0.5;
/// Maximum number of commands named.
const COMMANDS_SHOWN: usize = 3;
/// Minimum CPU seconds of strangers. Less may be rounding to the ticks in which the kernel counts.
const NEIGHBOURS_MIN: f64 = 0.1;
/// Free bytes below which the disk counts as full.
pub const DISK_FREE_MIN: u64 = 64 << 20;
/// Maximum difference in seconds between the wall clock and the monotonic clock over a trial.
pub const CLOCK_STEP_MAX: f64 = 0.5;

/// Checks if the hypervisor took CPUs away during a load. `machine` is the machine's series, `cpus` its number of
/// CPUs, and `from` to `to` the load in seconds since the trial began.
pub fn steal(machine: &Series, cpus: u32, from: f64, to: f64) -> Verdict {
    let stolen = machine.growth(Column::Steal, from, to);
    let Some(stolen) = stolen.filter(|_| cpus > 0 && to > from) else {
        return Verdict::NotChecked(
            "the kernel does not report the CPU time that the hypervisor took".to_owned(),
        );
    };
    steal_between(stolen, cpus, to - from).map_or(Verdict::Passed, Verdict::Failed)
}

/// Maximum difference of generators' starts, as a share of the window; at least [`START_SKEW_MIN`].
pub const START_SKEW_MAX: f64 = 0.01;
/// Always allowed difference of starts, in seconds.
pub const START_SKEW_MIN: f64 = 0.005;

/// Checks if the generators of a stage began together. Each reports its delay by its own clock; the possible clock
/// error is added, so the judged difference is an upper bound. `window` is the stage's. Returns `None` for a single
/// generator.
pub fn generators_together<'p>(
    parts: impl ExactSizeIterator<Item = &'p GeneratorPart> + Clone,
    window: Duration,
) -> Option<Verdict> {
    let count = parts.len();
    if count < 2 {
        return None;
    }
    let skew = began_within_us(parts) / 1e6;
    let window = window.as_secs_f64();
    let allowed = START_SKEW_MIN.max(START_SKEW_MAX * window);
    Some(match skew <= allowed {
        true => Verdict::Passed,
        false => Verdict::Failed(format!(
            "{count} generators began up to {} ms apart; {} ms are allowed",
            figure_text(skew * 1e3),
            figure_text(allowed * 1e3)
        )),
    })
}

/// Returns the time within which all generators began, in microseconds, as far as their clocks agree.
pub fn began_within_us<'p>(parts: impl Iterator<Item = &'p GeneratorPart> + Clone) -> f64 {
    let latest = parts.clone().map(|one| one.late_us + one.clock_error_us).fold(f64::MIN, f64::max);
    let earliest = parts.map(|one| one.late_us - one.clock_error_us).fold(f64::MAX, f64::min);
    (latest - earliest).max(0.0)
}

/// Returns why the stolen CPU seconds are too many for an interval of that length; `None` if they are not.
pub fn steal_between(stolen: f64, cpus: u32, seconds: f64) -> Option<String> {
    let share = stolen / (f64::from(cpus) * seconds);
    (share > STEAL_MAX && stolen >= STEAL_MIN).then(|| {
        let share = figure_text(share * 100.0);
        format!("the hypervisor gave {share} % of this machine's CPU time to others")
    })
}

/// Returns the share of the machine that strangers may use in a study. It is larger if all results compare systems
/// within a round: two or more systems, no search for a rate, whose answer is an absolute figure, and no published
/// figures to compare with.
pub fn neighbours_max(study: &Study) -> f64 {
    let compares = study.systems.len() > 1
        && study.published.is_empty()
        && study.loads.iter().all(|load| load.find.is_none());
    if compares { NEIGHBOURS_MAX_COMPARED } else { NEIGHBOURS_MAX }
}

/// Checks if processes other than nodes and bakeoff's used the machine's CPUs. The machine's exact busy time over the
/// measured windows is compared with all attributed time. The kernel's own threads are excluded, because they work
/// for any process. `windows` are in seconds since the trial began, `cpus` is the machine's number of CPUs, and
/// `share_max` the share that strangers may use.
pub fn neighbours(
    observed: &TrialSamples,
    windows: &[(f64, f64)],
    cpus: u32,
    share_max: f64,
) -> Verdict {
    let time: f64 = windows.iter().map(|(from, to)| to - from).sum();
    let Some(strange) = strange(observed, windows).filter(|_| cpus > 0 && time > 0.0) else {
        return Verdict::NotChecked(
            "the machine's running time over the measured windows is not known".to_owned(),
        );
    };
    let share = strange / (f64::from(cpus) * time);
    let used = attributed(observed, windows).unwrap_or(0.0) / time;
    if strange / time > neighbours_cpus_max(share_max, cpus, used) && strange >= NEIGHBOURS_MIN {
        let percent = figure_text(share * 100.0);
        let adjacent = match share > share_max {
            true => String::new(),
            false => format!(
                ", {} CPUs, next to {} CPUs that systems and generator used",
                figure_text(strange / time),
                figure_text(used)
            ),
        };
        let who = commands(observed, windows, strange);
        let kernel = match shares(observed, windows).any(|(of, _)| of.kernel_unseen) {
            true => {
                "; the kernel's own threads, which cannot be seen from a container, count as others"
            }
            false => "",
        };
        return Verdict::Failed(format!(
            "others used {percent} % of this machine's CPU time{adjacent}{who}{kernel}"
        ));
    }
    match observed.busy_by {
        Some(BusyBy::Cgroup | BusyBy::SchedStat) => Verdict::Passed,
        _ => Verdict::NotChecked(
            "this kernel tells the machine's running time in clock ticks alone, which miss what runs \
             for less than one"
                .to_owned(),
        ),
    }
}

/// Returns the CPUs that strangers may use if `share_max` of all `cpus` is the maximum. Next to a system that uses two
/// of 64 CPUs, six busy neighbours would pass as 10 %. So they may use twice that share of the CPUs that nodes and
/// generator used, or [`NEIGHBOURS_FREE`] if that is more. With up to five CPUs this changes nothing.
fn neighbours_cpus_max(share_max: f64, cpus: u32, used: f64) -> f64 {
    let adjacent = (2.0 * share_max * used).max(NEIGHBOURS_FREE);
    adjacent.min(share_max * f64::from(cpus))
}

/// Returns the CPU seconds in these intervals that nodes, generator and helpers used.
fn attributed(observed: &TrialSamples, windows: &[(f64, f64)]) -> Option<f64> {
    let of_node = |node: &Series| {
        let grown = |column| node.growth_over(column, windows);
        Some(grown(Column::CpuUser)? + grown(Column::CpuSystem)?)
    };
    let nodes: Option<f64> = observed.nodes.iter().map(of_node).sum();
    Some(nodes? + observed.machine.growth_over(Column::Helpers, windows)?)
}

/// Returns the CPU seconds in these intervals that are not attributed.
pub(super) fn strange(observed: &TrialSamples, windows: &[(f64, f64)]) -> Option<f64> {
    let busy = observed.machine.growth_over(Column::Busy, windows)?;
    let left = busy - attributed(observed, windows)?;
    let kernel: f64 = shares(observed, windows).map(|(of, share)| of.kernel_seconds * share).sum();
    Some((left - kernel).max(0.0))
}

/// Returns the scans around these intervals, each with the share of its time that was measured.
fn shares<'a>(
    observed: &'a TrialSamples,
    windows: &'a [(f64, f64)],
) -> impl Iterator<Item = (&'a ForeignCpu, f64)> {
    observed.strangers.iter().map(|of| {
        let within = |&(from, to): &(f64, f64)| (to.min(of.to) - from.max(of.from)).max(0.0);
        let measured: f64 = windows.iter().map(within).sum();
        (of, (measured / (of.to - of.from).max(f64::MIN_POSITIVE)).min(1.0))
    })
}

/// Formats the main commands: `, most of it `rustc` (9.10 s), `cc1` (3.00 s) and `ld` (0.40 s)`. `strange` is the
/// total; commands with less than half of it are not called most.
fn commands(observed: &TrialSamples, windows: &[(f64, f64)], strange: f64) -> String {
    let mut all: BTreeMap<&str, f64> = BTreeMap::new();
    // A scan begins shortly before the window, and counts use until it ends.
    for (of, share) in shares(observed, windows).filter(|(_, share)| *share > 0.0) {
        for command in &of.commands {
            *all.entry(&command.name).or_default() += command.seconds * share;
        }
    }
    let mut all: Vec<(&str, f64)> = all.into_iter().collect();
    all.sort_by(|one, other| other.1.total_cmp(&one.1));
    all.truncate(COMMANDS_SHOWN);
    if all.is_empty() {
        return String::new();
    }
    let wording: Vec<String> = all
        .iter()
        .map(|(name, seconds)| format!("`{name}` ({} s)", figure_text(*seconds)))
        .collect();
    let seen: f64 = all.iter().map(|(_, seconds)| seconds).sum();
    match seen >= strange / 2.0 {
        true => format!(", most of it {}", and(&wording)),
        false => format!(", seen were {}", and(&wording)),
    }
}

/// Checks if the disk that holds the data ran full. `complainant` is a node whose log reports it.
pub fn disk(machine: &Series, complainant: Option<&str>) -> Verdict {
    if let Some(node) = complainant {
        return Verdict::Failed(format!(
            "no space left on device, says `{node}`: the disk that holds its data is full"
        ));
    }
    let free = machine.columns.get(&Column::DiskFree).into_iter().flatten();
    match free.copied().reduce(f64::min) {
        Some(free) if free < DISK_FREE_MIN as f64 => Verdict::Failed(format!(
            "the disk that holds the data ran full: {} MiB were left",
            figure_text(free / f64::from(1 << 20))
        )),
        Some(_) => Verdict::Passed,
        None => Verdict::NotChecked("the free space of the disk could not be seen".to_owned()),
    }
}

/// Checks if a machine's wall clock was stepped. `step` is the trial's length by the wall clock minus that by the
/// monotonic clock, in seconds.
pub fn clock(step: f64) -> Verdict {
    if step.abs() <= CLOCK_STEP_MAX {
        return Verdict::Passed;
    }
    let way = if step > 0.0 { "forward" } else { "back" };
    Verdict::Failed(format!(
        "the machine's clock was set {way} by {} s during the trial, or the machine slept",
        figure_text(step.abs())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial_samples::Command;

    fn machine(column: Column, values: &[f64]) -> Series {
        Series {
            name: "machine".to_owned(),
            at: (0..values.len()).map(|at| at as f64).collect(),
            columns: [(column, values.to_vec())].into(),
        }
    }

    fn check(verdict: Verdict, expected: &str) {
        let seen = match &verdict {
            Verdict::Passed => "passed".to_owned(),
            Verdict::Failed(why) => format!("failed: {why}"),
            Verdict::NotChecked(why) => format!("not checked: {why}"),
        };
        assert!(seen.starts_with(expected), "{seen}");
    }

    #[test]
    fn generators_that_began_apart_fail_the_check() {
        let part = |late_us, clock_error_us| GeneratorPart {
            late_us,
            clock_error_us,
            ..GeneratorPart::default()
        };
        let judged = |parts: &[GeneratorPart], window| {
            generators_together(parts.iter(), Duration::from_secs_f64(window))
        };
        assert_eq!(judged(&[part(9e9, 0.0)], 1.0), None, "it is alone");
        assert_eq!(judged(&[part(0.0, 50.0), part(4000.0, 50.0)], 0.1), Some(Verdict::Passed));
        let apart = judged(&[part(0.0, 50.0), part(4950.0, 50.0)], 0.1);
        let Some(Verdict::Failed(why)) = apart else { panic!("{apart:?}") };
        assert_eq!(why, "2 generators began up to 5.05 ms apart; 5.00 ms are allowed");
        let long = judged(&[part(0.0, 0.0), part(90_000.0, 0.0)], 10.0);
        assert_eq!(long, Some(Verdict::Passed), "a hundredth of a long window");
        let unknown = judged(&[part(0.0, 3000.0), part(0.0, 3000.0)], 0.1);
        assert!(matches!(unknown, Some(Verdict::Failed(_))), "clocks may be off by more");
    }

    #[test]
    fn stolen_time_is_a_share_of_all_cpus_over_the_load() {
        let of =
            |values: &[f64], cpus, from, to| steal(&machine(Column::Steal, values), cpus, from, to);
        check(of(&[7.0, 7.0, 7.19, 7.19], 2, 1.0, 3.0), "passed"); // 0.19 s of 4 s
        check(of(&[7.0, 7.0, 7.3, 7.3], 2, 1.0, 3.0), "failed: the hypervisor gave 7.50 %");
        check(of(&[0.0, 9.0, 9.0, 9.0], 2, 1.0, 3.0), "passed"); // before the load
        check(of(&[0.0, 0.0, 0.09], 1, 1.5, 2.1), "passed"); // 15 %, of nine ticks
        check(of(&[0.0, 0.0, 0.11], 1, 1.5, 2.1), "failed");
        check(steal(&Series::default(), 2, 0.0, 9.0), "not checked: the kernel");
    }

    /// Returns ten seconds of two CPUs; the second to the eighth are measured. `busy`, `node` and `ours` are CPU
    /// seconds per second.
    fn ten_seconds(busy: f64, node: f64, ours: f64, kernel: f64, by: BusyBy) -> TrialSamples {
        let at: Vec<f64> = (0..=10).map(f64::from).collect();
        let counter = |rate: f64| at.iter().map(|at| at * rate).collect::<Vec<f64>>();
        let series = |name: &str, columns: &[(Column, f64)]| Series {
            name: name.to_owned(),
            at: at.clone(),
            columns: columns.iter().map(|&(column, rate)| (column, counter(rate))).collect(),
        };
        let process = |name, rate| {
            series(name, &[(Column::CpuUser, rate * 0.75), (Column::CpuSystem, rate * 0.25)])
        };
        let command = |name: &str, seconds| Command { name: name.to_owned(), seconds };
        TrialSamples {
            nodes: vec![process("generator", ours), process("n-1", node)],
            machine: series("machine", &[(Column::Busy, busy), (Column::Helpers, 0.0)]),
            busy_by: Some(by),
            strangers: vec![ForeignCpu {
                from: 0.0,
                to: 10.0,
                kernel_seconds: kernel * 10.0,
                commands: vec![command("rustc", 3.0), command("ld", 0.25)],
                ..ForeignCpu::default()
            }],
            ..TrialSamples::default()
        }
    }

    #[test]
    fn neighbours_limit_follows_what_the_systems_used() {
        let of = |share_max, cpus, used| {
            (neighbours_cpus_max(share_max, cpus, used) * 1e3).round() / 1e3
        };
        // Two CPUs: 5 % and 10 % of all, for any use.
        for used in [0.0, 0.5, 2.0] {
            assert_eq!((of(0.05, 2, used), of(0.1, 2, used)), (0.1, 0.2));
        }
        // Eight CPUs: unchanged at 5 %; at 10 % half a CPU next to up to two and a half.
        assert_eq!([1.0, 4.0, 8.0].map(|used| of(0.05, 8, used)), [0.4, 0.4, 0.4]);
        assert_eq!([1.0, 3.0, 8.0].map(|used| of(0.1, 8, used)), [0.5, 0.6, 0.8]);
        // 64 CPUs: half a CPU next to a server and a generator of one thread each, not 3.2 and 6.4.
        assert_eq!([2.0, 16.0, 64.0].map(|used| of(0.05, 64, used)), [0.5, 1.6, 3.2]);
        assert_eq!([2.0, 16.0, 64.0].map(|used| of(0.1, 64, used)), [0.5, 3.2, 6.4]);
    }

    #[test]
    fn six_busy_neighbours_on_64_cpus_fail() {
        let observed = ten_seconds(7.8, 1.2, 0.2, 0.0, BusyBy::Cgroup);
        check(
            neighbours(&observed, &[(2.0, 8.0)], 64, NEIGHBOURS_MAX_COMPARED),
            "failed: others used 10.0 % of this machine's CPU time, 6.40 CPUs, next to 1.40 CPUs that systems and",
        );
        let quiet = ten_seconds(1.8, 1.2, 0.2, 0.0, BusyBy::Cgroup);
        check(neighbours(&quiet, &[(2.0, 8.0)], 64, NEIGHBOURS_MAX), "passed");
    }

    #[test]
    fn unattributed_cpu_time_counts_as_neighbours() {
        let of = |busy, node, ours, kernel, by| {
            let observed = ten_seconds(busy, node, ours, kernel, by);
            neighbours(&observed, &[(2.0, 8.0)], 2, NEIGHBOURS_MAX)
        };
        check(of(1.5, 1.2, 0.21, 0.0, BusyBy::Cgroup), "passed"); // 4.5 % of two CPUs
        check(
            of(1.5, 0.9, 0.2, 0.0, BusyBy::SchedStat),
            "failed: others used 20.0 % of this machine's CPU time, most of it `rustc` (1.80 s) and `ld` \
             (0.15 s)",
        );
        check(of(1.5, 1.1, 0.2, 0.15, BusyBy::Cgroup), "passed"); // the kernel had 0.15 of 0.2
        check(of(1.0, 1.1, 0.2, 0.0, BusyBy::Ticks), "not checked: this kernel tells");
        check(of(1.9, 1.1, 0.2, 0.0, BusyBy::Ticks), "failed: others used 30.0 %");
        check(
            neighbours(&TrialSamples::default(), &[(2.0, 8.0)], 2, 0.05),
            "not checked: the machine's",
        );
        check(
            of(1.9, 0.1, 0.2, 0.0, BusyBy::Cgroup),
            "failed: others used 80.0 % of this machine's CPU time, seen were `rustc` (1.80 s) and",
        );
        let mut contained = ten_seconds(1.5, 0.9, 0.2, 0.0, BusyBy::Cgroup);
        contained.strangers[0].kernel_unseen = true;
        let Verdict::Failed(why) = neighbours(&contained, &[(2.0, 8.0)], 2, 0.05) else { panic!() };
        assert!(why.ends_with("(0.15 s); the kernel's own threads, which cannot be seen from a container, count as others"), "{why}");
        let observed = ten_seconds(2.0, 0.9, 0.2, 0.0, BusyBy::Cgroup);
        check(neighbours(&observed, &[(2.0, 2.05)], 2, 0.05), "passed"); // ticks
        check(neighbours(&observed, &[(2.0, 18.0)], 2, 0.05), "not checked"); // nothing is known of then
        check(neighbours(&observed, &[], 2, 0.05), "not checked");
    }

    #[test]
    fn disk_is_full_if_little_is_left_or_a_node_reports_it() {
        let mib = |count: u32| f64::from(count << 20);
        let of = |values: &[f64]| disk(&machine(Column::DiskFree, values), None);
        check(of(&[mib(900), mib(64), mib(900)]), "passed");
        check(
            of(&[mib(900), mib(63), mib(900)]),
            "failed: the disk that holds the data ran full: 63",
        );
        check(disk(&Series::default(), None), "not checked");
        let full = disk(&machine(Column::DiskFree, &[mib(900)]), Some("etcd-1"));
        check(full, "failed: no space left on device, says `etcd-1`");
    }

    #[test]
    fn stepped_clock_is_distinguished_from_drift() {
        check(clock(0.4), "passed");
        check(clock(-0.4), "passed");
        check(clock(5.0), "failed: the machine's clock was set forward by 5.00 s");
        check(clock(-3600.0), "failed: the machine's clock was set back by 3,600 s");
    }
}
