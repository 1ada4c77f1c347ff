//! Checks whether other processes used the machines' CPUs during a trial, if that can be known.
//!
//! Not here: the rules (`bakeoff_core::check::machine`), sampling (`bakeoff_host::observe`).

use std::net::IpAddr;

use bakeoff_core::check::{Verdict, machine};
use bakeoff_core::study::{self, Study};

use bakeoff_fleet::machines::seen::MachineSeen;

/// Reason not to check for steal and neighbours.
pub(super) const SHARED_MACHINE: &str = "machine shared with other work (`--shared-machine`)";

/// Checks whether other processes used a machine's CPUs. `asked` is the loaded system. `windows` are the measured
/// times, in seconds since the trial began.
pub(crate) fn check(
    study: &Study,
    asked: &study::System,
    machine: &MachineSeen<'_>,
    windows: &[(f64, f64)],
) -> Verdict {
    let is_here = |one: &study::Endpoint| match one.host.trim_matches(['[', ']']).parse::<IpAddr>()
    {
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => one.host == "localhost",
    };
    if asked.endpoints().iter().any(is_here) {
        return Verdict::NotChecked(
            "this machine has servers that bakeoff did not start, and their CPU time looks like that of other work"
                .to_owned(),
        );
    }
    let share_max = machine::neighbours_max(study);
    machine.named(machine::neighbours(&machine.attributed(), windows, machine.cpus, share_max))
}

/// Returns the disturbances of the machines in a window, in seconds since the trial began: steal by the hypervisor, and
/// other work. `shared_machine` skips the check for other work.
pub(crate) fn disturbed(
    study: &Study,
    asked: &study::System,
    (seen, shared_machine): (&[MachineSeen<'_>], bool),
    window: (f64, f64),
) -> Vec<String> {
    let mut disturbed_by = Vec::new();
    for machine in seen {
        let others = (!shared_machine).then(|| check(study, asked, machine, &[window]));
        let reasons = [Some(machine.steal(window)), others];
        disturbed_by.extend(reasons.into_iter().flatten().filter_map(Verdict::into_failure));
    }
    disturbed_by
}

#[cfg(test)]
mod tests {
    use bakeoff_core::observed::{BusyBy, Column, Observed, Series};
    use bakeoff_systems as systems;

    use super::*;

    /// Returns samples of four seconds. `steal` and `busy` are CPU seconds per second taken by the hypervisor and by
    /// all work.
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
            let machines = vec![("h1", 2, samples(0.0, 0.0)), ("h2", 2, second)];
            let seen = MachineSeen::so_far(machines, &[0, 1]);
            disturbed(&study, &study.systems[0], (&seen, shared), (1.0, 3.0))
        };
        assert_eq!(of(false, samples(0.0, 0.0)), Vec::<String>::new());
        let stolen = "on `h2`: the hypervisor gave 20.0 % of this machine's CPU time to others";
        assert_eq!(of(true, samples(0.4, 0.0)), [stolen]);
        let others = "on `h2`: others used 20.0 % of this machine's CPU time";
        assert_eq!(of(false, samples(0.0, 0.4)), [others]);
        assert_eq!(
            of(true, samples(0.0, 0.4)),
            Vec::<String>::new(),
            "`--shared-machine` skips the check"
        );
    }
}
