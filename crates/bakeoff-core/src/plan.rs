//! Plans the trials of a study, interleaved and in random order.
//!
//! Every round contains each combination of system, workload and load once. Within a round, the combinations of one
//! workload and load are adjacent, so that compared trials run close in time, and their order is random (`order`).
//!
//! Not here: running the trials, the effect of the place (`stats::position`).

pub mod order;

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::time::Duration;

use rand::SeedableRng;
use rand::seq::SliceRandom as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::study::{Arrivals, Fault, Load, Stop, Study};
use crate::units::{plural, rate_text};
use crate::workload::mix64;

use order::RoundOrders;

/// Time of load after which a started system counts as warm. ZooKeeper's JVM did a quarter of its puts in the first two
/// seconds and its usual number from the fifth on.
const WARM_AFTER: Duration = Duration::from_secs(5);

/// Describes one run of a system under a workload at a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trial {
    /// Position in the run, from 0.
    pub number: u32,
    /// Round, from 0.
    pub round: u32,
    /// Name of the system.
    pub system: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the load.
    pub load: String,
    /// Seed of keys, values and arrivals. Trials of the same round, workload and load share it, so all systems get
    /// the same requests.
    pub seed: u64,
}

/// Returns the trials in the order in which they will run.
pub fn plan(study: &Study, seed: u64) -> Vec<Trial> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut orders: HashMap<(&str, &str), RoundOrders> = HashMap::new();
    let mut trials = Vec::new();
    for round in 0..study.trials {
        for workload in &study.workloads {
            for load in workload.loads.iter() {
                let shared_seed = rand::RngExt::random(&mut rng);
                let systems: Vec<&str> = study
                    .systems
                    .iter()
                    .filter(|system| workload.is_done_by(system))
                    .map(|system| system.name.as_str())
                    .collect();
                let orders = orders
                    .entry((workload.name.as_str(), load.as_str()))
                    .or_insert_with(|| RoundOrders::new(systems.len()));
                trials.extend(orders.next_round(&mut rng).into_iter().map(|place| Trial {
                    number: 0,
                    round,
                    system: systems[place].to_owned(),
                    workload: workload.name.clone(),
                    load: load.clone(),
                    seed: shared_seed,
                }));
            }
        }
    }
    for (number, trial) in (0..).zip(&mut trials) {
        trial.number = number;
    }
    trials
}

/// Returns the trials of additional rounds, as if the study had requested them from the start.
///
/// `count` returns the number of additional rounds of a workload and load. They follow the rounds in `order`, and
/// their trials are numbered after those of `order`.
pub fn further(
    study: &Study,
    seed: u64,
    order: &[Trial],
    count: impl Fn(&str, &str) -> u32,
) -> Vec<Trial> {
    let mut rounds: HashMap<(&str, &str), BTreeSet<u32>> = HashMap::new();
    for trial in order {
        rounds.entry((&trial.workload, &trial.load)).or_default().insert(trial.round);
    }
    let places = study.workloads.iter().flat_map(|workload| {
        workload.loads.iter().map(|load| (workload.name.as_str(), load.as_str()))
    });
    let wanted: HashMap<(&str, &str), Range<u32>> = places
        .map(|place| {
            let had = rounds.get(&place).map_or(0, BTreeSet::len) as u32;
            (place, had..had.saturating_add(count(place.0, place.1)))
        })
        .collect();
    let most = wanted.values().filter(|rounds| !rounds.is_empty()).map(|rounds| rounds.end).max();
    let mut trials = plan(&Study { trials: most.unwrap_or(0), ..study.clone() }, seed);
    trials.retain(|trial| wanted[&(&*trial.workload, &*trial.load)].contains(&trial.round));
    for (number, trial) in (order.len() as u32..).zip(&mut trials) {
        trial.number = number;
    }
    trials
}

/// Returns the injections of a trial in the order in which they will run: each fault once in seeded order, then each
/// again. Trials with the same seed have the same order, so that systems are broken alike. Each injection has its
/// number among those of its fault, from 1. An upgrade comes last and once, because nothing leads back.
pub fn injections<'a>(study: &'a Study, trial: &Trial) -> Vec<(&'a Fault, u32)> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(mix64(trial.seed ^ FAULTS));
    let mut injections = Vec::new();
    for repeat in 1..=study.repeat {
        // All faults are shuffled, and those of other systems left out, so that the order is the same for all systems.
        let mut order: Vec<&Fault> = study.faults.iter().collect();
        order.shuffle(&mut rng);
        order.retain(|fault| fault.alone && fault.befalls(&trial.system));
        let again = order.into_iter().filter(|fault| fault.action.upgrades_to().is_none());
        injections.extend(again.map(|fault| (fault, repeat)));
    }
    let upgrades =
        study.faults_of(&trial.system).filter(|fault| fault.action.upgrades_to().is_some());
    injections.extend(upgrades.map(|fault| (fault, 1)));
    injections
}

/// Separates the order of faults from other draws of a trial's seed.
const FAULTS: u64 = 0x6661_756c_7473;

/// Describes one stage of a load for one system.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stage {
    /// Number of clients.
    pub clients: u32,
    /// Condition that ends the stage.
    pub stop: Stop,
}

/// Returns the stages of a load. A sweep has one for each number of clients, and they share its operations or its
/// time.
pub fn stages(load: &Load, system: &str) -> Vec<Stage> {
    let clients = load.clients_on(system);
    let stop = |place| load.stop.of_stage(place, clients.len());
    clients
        .iter()
        .enumerate()
        .map(|(place, &clients)| Stage { clients, stop: stop(place) })
        .collect()
}

/// Returns `closed` or `open`, as all tables name a load.
pub fn load_kind(load: &Load) -> &'static str {
    match load.arrivals {
        Arrivals::Closed => "closed",
        Arrivals::Constant { .. } | Arrivals::Poisson { .. } => "open",
    }
}

/// Describes a load in a few words: `closed load, 16 clients`, `open load, 1,000/s`. A search is just `open load`,
/// because each of its tries has its own rate.
pub fn load_text(load: &Load) -> String {
    let kind = load_kind(load);
    match (load.arrivals.rate(), &load.find) {
        (_, Some(_)) => format!("{kind} load"),
        (Some(rate), None) => format!("{kind} load, {}", rate_text(rate)),
        (None, None) => {
            let own = load.clients_for.values().flatten();
            let clients: Vec<u32> = load.clients.iter().chain(own).copied().collect();
            format!("{kind} load, {}", clients_text(&clients))
        }
    }
}

/// Returns the time since the start of a system up to which a load measures, if it measures a start: its window ends
/// before a JVM has compiled its hot code.
pub fn measured_start(load: &Load) -> Option<Duration> {
    match (load.stop, &load.find) {
        (Stop::After(time), None) => Some(load.warmup + time).filter(|end| *end < WARM_AFTER),
        _ => None,
    }
}

/// Describes the clients of a load's stages: `64 clients`, `1 to 100 clients`.
pub fn clients_text(stages: &[u32]) -> String {
    let least = stages.iter().min().copied().unwrap_or_default();
    let most = stages.iter().max().copied().unwrap_or_default();
    match least == most {
        true => plural(most.into(), "client"),
        false => format!("{least} to {most} clients"),
    }
}

/// Returns the expected operations of a trial, or of one stage of a sweep; `None` if they depend on the system's
/// speed.
pub fn forecast(load: &Load) -> Option<u64> {
    let stages = load.clients.len().max(1) as u64;
    match (load.stop, load.arrivals.rate()) {
        _ if load.find.is_some() => None,
        (Stop::Operations(count), _) => Some(count / stages),
        (Stop::After(time), Some(rate)) => {
            Some((rate * time.as_secs_f64() / stages as f64).round() as u64)
        }
        (Stop::After(_), None) => None,
    }
}
