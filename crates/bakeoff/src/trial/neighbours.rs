//! Judges whether others had the machine's CPUs during a trial, where that can be known.
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
