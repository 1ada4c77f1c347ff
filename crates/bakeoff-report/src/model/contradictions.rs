//! Detects a search result that another load of the same run contradicts.
//!
//! A search makes short tries one after another, and a temporary disturbance of the machine can lower its result. A
//! load at a higher rate that kept the same objective proves that the result is too low, whatever the cause. The rate
//! is then shown but not ranked.
//!
//! Not here: the search (`bakeoff_core::search`), keeping an objective ([`TriedRate`]).

use bakeoff_core::record::{Record, TrialRecord};
use bakeoff_core::search::{FoundRate, TriedRate};
use bakeoff_core::stats::{Figure, summary};
use bakeoff_core::study::{Load, Workload};
use bakeoff_core::units::{rate_text, trials_text};

/// Ratio by which a search may be below the true rate: its resolution.
const GAP: f64 = 1.05;

/// Returns the evidence against the rate that a system's searches found; `None` if there is none.
pub(crate) fn by(
    record: &Record,
    system: &str,
    workload: &Workload,
    searched: &Load,
) -> Option<String> {
    let objective = searched.find.as_ref()?.conditions().ok()?;
    let trials = |load: &str| {
        let of = |trial: &&TrialRecord| {
            trial.trial.system == system
                && trial.trial.workload == workload.name
                && trial.trial.load == load
                && trial.invalid_because().is_empty()
        };
        record.trials.iter().filter(of).collect::<Vec<_>>()
    };
    let rates = trials(&searched.name).into_iter().filter_map(|trial| match trial.found? {
        FoundRate::Rate(rate) => Some(rate),
        FoundRate::Nothing(_) => Some(0.0),
        FoundRate::NoLimit(_) | FoundRate::Unsteady(_) | FoundRate::OutOfTime(_) => None,
    });
    let found = summary(rates.map(Figure::Value)).median.value()?;

    let loads = record.header.study.loads.iter().filter(|load| workload.loads.contains(&load.name));
    let mut proof: Option<(f64, String)> = None;
    for load in loads.filter(|load| is_no_easier(load, searched, system)) {
        let Some(rate) = load.arrivals.rate().filter(|&rate| rate > found * GAP) else { continue };
        let kept = |trial: &&TrialRecord| {
            let measured = trial.measurement();
            measured.is_some_and(|of| TriedRate::judged(rate, false, &of, &objective).kept())
        };
        let all = trials(&load.name);
        let count = all.iter().filter(|trial| kept(trial)).count();
        if count * 2 > all.len() && proof.as_ref().is_none_or(|(most, _)| *most < rate) {
            let of = trials_text(all.len());
            proof =
                Some((rate, format!("{} in {count} of {of} under {}", rate_text(rate), load.name)));
        }
    }
    proof.map(|(_, proof)| {
        format!("its search found {}, but it kept the same objective at {proof}", rate_text(found))
    })
}

/// Returns true if a load at a fixed rate gives a system no better conditions than the search.
fn is_no_easier(load: &Load, searched: &Load, system: &str) -> bool {
    let most = |load: &Load| load.clients_on(system).iter().max().copied();
    load.find.is_none()
        && most(load) <= most(searched)
        && load.in_flight <= searched.in_flight
        && load.targets == searched.targets
        && load.keep_alive == searched.keep_alive
        && load.tls_resumption == searched.tls_resumption
}
