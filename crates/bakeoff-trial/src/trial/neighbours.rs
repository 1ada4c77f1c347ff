//! Checks whether other processes used the machines' CPUs during a trial, if that can be known.
//!
//! Not here: the rules (`bakeoff_core::check::machine`), sampling (`bakeoff_host::observe`).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use bakeoff_core::check::{Verdict, machine};
use bakeoff_core::study::{Endpoint, Study};

use bakeoff_fleet::machines::machine_samples::MachineSamples;

/// Reason not to check for steal and neighbours.
pub(super) const SHARED_MACHINE: &str = "machine shared with other work (`--shared-machine`)";

/// Returns the addresses of an endpoint if they are loopback addresses.
pub(super) fn loopback(of: &Endpoint) -> Vec<SocketAddr> {
    let addresses = match of.host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() => vec![IpAddr::from([127, 0, 0, 1])],
        Ok(address) => vec![address],
        Err(_) if of.host == "localhost" => {
            vec![IpAddr::from([127, 0, 0, 1]), Ipv6Addr::LOCALHOST.into()]
        }
        Err(_) => Vec::new(),
    };
    let here = addresses.into_iter().filter(IpAddr::is_loopback);
    here.map(|address| SocketAddr::new(address, of.port)).collect()
}

/// Checks whether other processes used a machine's CPUs. `unattributed`: why the CPU time of some servers looks like
/// that of other work. `windows` are the measured times, in seconds since the trial began.
pub(crate) fn check(
    study: &Study,
    unattributed: Option<&str>,
    machine: &MachineSamples<'_>,
    windows: &[(f64, f64)],
) -> Verdict {
    if let Some(why) = unattributed {
        return Verdict::NotChecked(why.to_owned());
    }
    let share_max = machine::neighbours_max(study);
    machine.named(machine::neighbours(&machine.attributed(), windows, machine.cpus, share_max))
}

/// Returns the disturbances of the machines in a window, in seconds since the trial began: steal by the hypervisor, and
/// other work. `shared_machine` skips the check for other work.
pub(crate) fn disturbed(
    study: &Study,
    unattributed: Option<&str>,
    (seen, shared_machine): (&[MachineSamples<'_>], bool),
    window: (f64, f64),
) -> Vec<String> {
    let mut disturbed_by = Vec::new();
    for machine in seen {
        let others = (!shared_machine).then(|| check(study, unattributed, machine, &[window]));
        let reasons = [Some(machine.steal(window)), others];
        disturbed_by.extend(reasons.into_iter().flatten().filter_map(Verdict::into_failure));
    }
    disturbed_by
}

#[cfg(test)]
mod tests {
    use bakeoff_core::trial_samples::{BusyBy, Column, Series, TrialSamples};
    use bakeoff_systems as systems;

    use super::*;

    /// Returns samples of four seconds. `steal` and `busy` are CPU seconds per second taken by the hypervisor and by
    /// all work.
    fn samples(steal: f64, busy: f64) -> TrialSamples {
        let at: Vec<f64> = (0..=4).map(f64::from).collect();
        let counter = |rate: f64| at.iter().map(|at| at * rate).collect::<Vec<f64>>();
        let rates = [(Column::Steal, steal), (Column::Busy, busy), (Column::Helpers, 0.0)];
        let columns = rates.into_iter().map(|(column, rate)| (column, counter(rate))).collect();
        let machine = Series { name: "machine".to_owned(), at: at.clone(), columns };
        TrialSamples { machine, busy_by: Some(BusyBy::Cgroup), ..TrialSamples::default() }
    }

    #[test]
    fn endpoints_on_loopback_are_found_by_name_and_address() {
        let of = |host: &str| {
            let found = loopback(&Endpoint { tls: false, host: host.to_owned(), port: 80 });
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(of("127.0.0.2"), ["127.0.0.2:80"]);
        assert_eq!(of("0.0.0.0"), ["127.0.0.1:80"]);
        assert_eq!(of("localhost"), ["127.0.0.1:80", "[::1]:80"]);
        assert_eq!(of("[::1]"), ["[::1]:80"]);
        assert!(of("198.18.0.1").is_empty() && of("etcd.example").is_empty());
    }

    #[test]
    fn machine_that_was_disturbed_is_named() {
        let text = "title: t\nsystems: {a: {kind: canary}}\nworkloads: {w: {mix: {get: 1}, keys: {count: 1}}}\n\
                    loads: {l: {clients: 1, stop: {after: 1s}}}\ntrials: 1\n";
        let study = bakeoff_core::study::parse("t", "t.yaml", text, &systems::kinds()).unwrap();
        let of = |shared, second: TrialSamples| {
            let machines = vec![("h1", 2, samples(0.0, 0.0)), ("h2", 2, second)];
            let seen = MachineSamples::so_far(machines, &[0, 1]);
            disturbed(&study, None, (&seen, shared), (1.0, 3.0))
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
