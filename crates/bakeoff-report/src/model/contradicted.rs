//! Whether the rate that a search found is contradicted by another load of the same run.
//!
//! A search makes short tries, one after the other, and a machine that is disturbed for a while can
//! cap its answer. A load at a higher rate that kept the same objective proves that the answer is too
//! low, whatever made it so. Then the rate is said and not ranked.
//!
//! Not here: the search (`bakeoff_core::search`), what keeping means ([`Tried`]).

use bakeoff_core::record::{Record, TrialRecord};
use bakeoff_core::search::{Found, Tried};
use bakeoff_core::stats::{Figure, summary};
use bakeoff_core::study::{Load, Workload};
use bakeoff_core::units::{rate_text, trials_text};

/// By so much a search may be below what is true: the gap down to which it looks.
const GAP: f64 = 1.05;

/// Says why the rate that a system's searches found is doubtful; `None` where nothing contradicts it.
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
        Found::Rate(rate) => Some(rate),
        Found::Nothing(_) => Some(0.0),
        Found::NoLimit(_) | Found::Unsteady(_) | Found::OutOfTime(_) => None,
    });
    let found = summary(rates.map(Figure::Value)).median.value()?;

    let loads = record.header.study.loads.iter().filter(|load| workload.loads.contains(&load.name));
    let mut proof: Option<(f64, String)> = None;
    for load in loads.filter(|load| is_no_easier(load, searched, system)) {
        let Some(rate) = load.arrivals.rate().filter(|&rate| rate > found * GAP) else { continue };
        let kept = |trial: &&TrialRecord| {
            let measured = trial.measurement();
            measured.is_some_and(|of| Tried::judged(rate, false, &of, &objective).kept())
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
        format!("its search found {}, and it kept the same objective at {proof}", rate_text(found))
    })
}

/// Returns whether a load at a fixed rate gives a system no better conditions than a search does.
fn is_no_easier(load: &Load, searched: &Load, system: &str) -> bool {
    let most = |load: &Load| load.clients_on(system).iter().max().copied();
    load.find.is_none()
        && most(load) <= most(searched)
        && load.in_flight <= searched.in_flight
        && load.targets == searched.targets
        && load.keep_alive == searched.keep_alive
        && load.tls_resumption == searched.tls_resumption
}
