//! Checks of the machine that a trial ran on: whether somebody else had its CPUs, its disk ran
//! full, or its clock was stepped.
//!
//! Not here: who looks (the binary's `host::observe`), checks of what was measured (`check`).

use std::time::Duration;

use super::Verdict;
use crate::observed::{Column, Series};
use crate::units::figure_text;

/// The hypervisor may give this share of all CPUs' time to others.
pub const STEAL_MAX: f64 = 0.05;
/// Less than this, in seconds, is a few of the kernel's ticks and says nothing of a short load.
const STEAL_MIN: f64 = 0.1;
/// With less than this free at any look, the disk is taken to have been full.
pub const DISK_FREE_MIN: u64 = 64 << 20;
/// By so much may the wall clock and the monotonic clock differ in a trial's length.
pub const CLOCK_STEP_MAX: f64 = 0.5;

/// Whether the hypervisor took CPUs away over a load. `machine`: the machine's series; `cpus`: how
/// many it has; `from` and `to`: the load, in seconds since the trial began.
pub fn steal(machine: &Series, cpus: u32, from: f64, to: f64) -> Verdict {
    let stolen = machine.growth(Column::Steal, from, to);
    let Some(stolen) = stolen.filter(|_| cpus > 0 && to > from) else {
        return Verdict::NotChecked(
            "the kernel does not say how much CPU time the hypervisor took".to_owned(),
        );
    };
    let share = stolen / (f64::from(cpus) * (to - from));
    if share <= STEAL_MAX || stolen < STEAL_MIN {
        return Verdict::Passed;
    }
    Verdict::Failed(format!(
        "the hypervisor gave {} % of this machine's CPU time to others",
        figure_text(share * 100.0)
    ))
}

/// Whether the disk that holds the data ran full. `complainant`: a node whose log says so.
pub fn disk(machine: &Series, complainant: Option<&str>) -> Verdict {
    if let Some(node) = complainant {
        return Verdict::Failed(format!("`{node}` found no space left on its disk"));
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

/// Whether the wall clock was stepped. `wall`: the trial's length by the wall clock in seconds,
/// which may be negative; `monotonic`: by the clock that nobody sets.
pub fn clock(wall: f64, monotonic: Duration) -> Verdict {
    let step = wall - monotonic.as_secs_f64();
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

    #[test]
    fn a_disk_is_full_when_little_is_left_or_a_node_says_so() {
        let mib = |count: u32| f64::from(count << 20);
        let of = |values: &[f64]| disk(&machine(Column::DiskFree, values), None);
        check(of(&[mib(900), mib(64), mib(900)]), "passed");
        check(
            of(&[mib(900), mib(63), mib(900)]),
            "failed: the disk that holds the data ran full: 63",
        );
        check(disk(&Series::default(), None), "not checked");
        let full = disk(&machine(Column::DiskFree, &[mib(900)]), Some("etcd-1"));
        check(full, "failed: `etcd-1` found no space left");
    }

    #[test]
    fn a_clock_that_was_stepped_either_way_is_told_from_one_that_drifts() {
        let ten = Duration::from_secs(10);
        check(clock(10.4, ten), "passed");
        check(clock(9.6, ten), "passed");
        check(clock(15.0, ten), "failed: the machine's clock was set forward by 5.00 s");
        check(clock(-3590.0, ten), "failed: the machine's clock was set back by 3,600 s");
    }
}
