//! The trials of a study, interleaved in seeded order.
//!
//! Every round holds each combination of system, workload and load once. Within a round the
//! combinations of one workload and load stand together, so that what is compared with each other
//! ran close in time, and their systems are shuffled, so that none always goes first.
//!
//! Not here: running them.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::study::{Arrivals, Load, Stop, Study};

/// One system under one workload at one load, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// Its place in the run, from 0.
    pub number: u32,
    /// The round that it belongs to, from 0.
    pub round: u32,
    /// The system's name.
    pub system: String,
    /// The workload's name.
    pub workload: String,
    /// The load's name.
    pub load: String,
    /// Seeds its keys, values and arrivals. Trials of the same round, workload and load have the
    /// same: the contenders meet the same requests.
    pub seed: u64,
}

/// The trials in the order in which they will run.
pub fn plan(study: &Study, seed: u64) -> Vec<Trial> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut trials = Vec::new();
    for round in 0..study.trials {
        for workload in &study.workloads {
            for load in workload.loads.iter() {
                let shared_seed = rand::RngExt::random(&mut rng);
                let mut systems: Vec<&str> = study
                    .systems
                    .iter()
                    .filter(|system| workload.is_done_by(system))
                    .map(|system| system.name.as_str())
                    .collect();
                systems.shuffle(&mut rng);
                trials.extend(systems.into_iter().map(|system| Trial {
                    number: 0,
                    round,
                    system: system.to_owned(),
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

/// One stage of a load for one system.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stage {
    /// How many clients.
    pub clients: u32,
    /// When it ends.
    pub stop: Stop,
}

/// The stages of a load: a sweep has one for each number of clients, and they share its operations
/// or its time.
pub fn stages(load: &Load, system: &str) -> Vec<Stage> {
    let clients = load.clients_on(system);
    let stop = |place| load.stop.of_stage(place, clients.len());
    clients
        .iter()
        .enumerate()
        .map(|(place, &clients)| Stage { clients, stop: stop(place) })
        .collect()
}

/// `closed` or `open`, as every table names a load.
pub fn load_kind(load: &Load) -> &'static str {
    match load.arrivals {
        Arrivals::Closed => "closed",
        Arrivals::Constant { .. } | Arrivals::Poisson { .. } => "open",
    }
}
