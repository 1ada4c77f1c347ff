//! Judges whether others had the machines' CPUs during a trial, where that can be known.
//!
//! Not here: how it is told (core's `check::machine`), who samples (`host::observe`).

use std::net::IpAddr;

use bakeoff_core::check::{Verdict, machine};
use bakeoff_core::observed::Observed;
use bakeoff_core::study::{self, Study};
use bakeoff_host as host;

/// Why nothing is checked that others on the machine would fail.
pub(super) const TOLD: &str = "others work on this machine, as bakeoff was told";

/// Returns whether others had the machine's CPUs, as far as that can be told. `shared_machine`: whether the user
/// says that others work on it; `asked`: the system that was loaded; `windows`: what was measured, in
/// seconds since the trial began.
pub(crate) fn check(
    study: &Study,
    shared_machine: bool,
    asked: &study::System,
    observed: &Observed,
    windows: &[(f64, f64)],
) -> Verdict {
    if shared_machine {
        return Verdict::NotChecked(TOLD.to_owned());
    }
    let is_here = |one: &study::Endpoint| match one.host.trim_matches(['[', ']']).parse::<IpAddr>()
    {
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => one.host == "localhost",
    };
    if asked.endpoints().iter().any(is_here) {
        return Verdict::NotChecked(
            "servers that bakeoff did not start are on this machine, and their CPU time cannot be told \
             from others'"
                .to_owned(),
        );
    }
    let cpus = host::machine::cpus_online().unwrap_or(0);
    let share_max = machine::neighbours_max(study);
    machine::neighbours(observed, windows, cpus, share_max)
}

/// Returns what disturbed the machines of a run with places over a window, in seconds since the trial began: the
/// hypervisor, or others at work. `seen`: each machine's name, CPUs and samples.
pub(crate) fn disturbed_elsewhere(
    study: &Study,
    shared_machine: bool,
    seen: &[(&str, u32, Observed)],
    window: (f64, f64),
) -> Vec<String> {
    let share_max = machine::neighbours_max(study);
    let mut disturbed_by = Vec::new();
    for (name, cpus, observed) in seen {
        let steal = machine::steal(&observed.machine, *cpus, window.0, window.1);
        let others =
            (!shared_machine).then(|| machine::neighbours(observed, &[window], *cpus, share_max));
        let reasons = [Some(steal), others].into_iter().flatten().filter_map(Verdict::into_failure);
        disturbed_by.extend(reasons.map(|why| format!("on `{name}`: {why}")));
    }
    disturbed_by
}

#[cfg(test)]
mod tests {
    use bakeoff_core::observed::{BusyBy, Column, Series};

    use super::*;
    use crate::systems;

    /// Samples of four seconds in which the hypervisor took so many seconds of CPU each second, and others as many.
    fn samples(steal: f64, busy: f64) -> Observed {
        let at: Vec<f64> = (0..=4).map(f64::from).collect();
        let counter = |rate: f64| at.iter().map(|at| at * rate).collect::<Vec<f64>>();
        let rates = [(Column::Steal, steal), (Column::Busy, busy), (Column::Helpers, 0.0)];
        let columns = rates.into_iter().map(|(column, rate)| (column, counter(rate))).collect();
        let machine = Series { name: "machine".to_owned(), at: at.clone(), columns };
        Observed { machine, busy_by: Some(BusyBy::Cgroup), ..Observed::default() }
    }

    #[test]
    fn machine_that_was_disturbed_is_named() {
        let text = "title: t\nsystems: {a: {kind: canary}}\nworkloads: {w: {mix: {get: 1}, keys: {count: 1}}}\n\
                    loads: {l: {clients: 1, stop: {after: 1s}}}\ntrials: 1\n";
        let study = bakeoff_core::study::parse("t", "t.yaml", text, &systems::kinds()).unwrap();
        let of = |shared, second: Observed| {
            let seen = [("h1", 2, samples(0.0, 0.0)), ("h2", 2, second)];
            disturbed_elsewhere(&study, shared, &seen, (1.0, 3.0))
        };
        assert_eq!(of(false, samples(0.0, 0.0)), Vec::<String>::new());
        let stolen = "on `h2`: the hypervisor gave 20.0 % of this machine's CPU time to others";
        assert_eq!(of(true, samples(0.4, 0.0)), [stolen]);
        let others = "on `h2`: others used 20.0 % of this machine's CPU time";
        assert_eq!(of(false, samples(0.0, 0.4)), [others]);
        assert_eq!(of(true, samples(0.0, 0.4)), Vec::<String>::new(), "as bakeoff was told");
    }
}
