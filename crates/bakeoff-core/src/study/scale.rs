//! Stages of a load, and a study at another scale.
//!
//! A scale shrinks what is counted and nothing else: a load that ends by time is as long as it
//! was, and as many clients work. Where that leaves a client without an operation the study is
//! refused, since another number of clients would be another experiment.

use std::fmt;
use std::time::Duration;

use super::mistake::{Mistake, Mistakes};
use super::{Load, Stop, Study};

/// The largest scale.
const SCALE_MAX: f64 = 100.0;

/// A stage of a load that has more clients than operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TooFew {
    load: String,
    /// The system whose own number of clients it is.
    system: Option<String>,
    pub(super) stage: usize,
    stages: usize,
    clients: u32,
    in_flight: u32,
    operations: u64,
}

impl TooFew {
    fn at_once(&self) -> u64 {
        u64::from(self.clients) * u64::from(self.in_flight)
    }

    /// What to try in the study's file.
    pub(super) fn hint(&self) -> String {
        let needed = self.at_once().saturating_mul(self.stages as u64);
        let shared = if self.stages > 1 { "; stages share the operations evenly" } else { "" };
        format!("write `operations: {needed}` or more, or fewer clients{shared}")
    }
}

impl fmt::Display for TooFew {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooFew { load, system, clients, in_flight, operations, .. } = self;
        let plural = if *operations == 1 { "operation" } else { "operations" };
        let stage = if self.stages > 1 { " in this stage" } else { "" };
        write!(to, "load `{load}` has {clients} clients")?;
        if *in_flight > 1 {
            write!(to, " with {in_flight} operations in flight each")?;
        }
        if let Some(system) = system {
            write!(to, " on system `{system}`")?;
        }
        write!(to, ", and {operations} {plural}{stage}")
    }
}

impl Stop {
    /// The part of stage `stage` (from 0) of `stages`, which share evenly; of operations that do
    /// not divide, the first stages have one more.
    pub fn of_stage(self, stage: usize, stages: usize) -> Stop {
        let (stage, stages) = (stage as u64, (stages as u64).max(1));
        match self {
            Stop::After(time) => {
                let nanos = time.as_nanos() / u128::from(stages);
                Stop::After(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
            }
            Stop::Operations(all) => {
                Stop::Operations(all / stages + u64::from(stage < all % stages))
            }
        }
    }
}

impl Load {
    /// The clients of each stage on the system of this name.
    pub fn clients_on(&self, system: &str) -> &[u32] {
        self.clients_for.get(system).unwrap_or(&self.clients)
    }

    /// The stages that leave a client without an operation.
    pub(super) fn too_few_operations(&self, system: &str) -> Vec<TooFew> {
        let clients = self.clients_on(system);
        let stages = clients.len();
        let one = |(stage, clients): (usize, &u32)| {
            let Stop::Operations(operations) = self.stop.of_stage(stage, stages) else {
                return None;
            };
            let too_few = TooFew {
                load: self.name.clone(),
                system: self.clients_for.contains_key(system).then(|| system.to_owned()),
                stage,
                stages,
                clients: *clients,
                in_flight: self.in_flight,
                operations,
            };
            (too_few.at_once() > operations).then_some(too_few)
        };
        clients.iter().enumerate().filter_map(one).collect()
    }
}

impl Study {
    /// The study with its counts of operations and keys multiplied by `factor`, rounded up and at
    /// least one. Durations, clients and everything else stay as they are.
    ///
    /// # Errors
    /// When `factor` is not more than 0 and at most 100, or a stage of a load would be left with
    /// fewer operations than clients.
    pub fn scaled(&self, factor: f64) -> Result<Study, Mistakes> {
        if !(factor > 0.0 && factor <= SCALE_MAX) {
            return Err(Mistakes::from(Mistake {
                what: format!("a study cannot have the scale `{factor}`"),
                place: None,
                hint: Some("a scale is more than 0 and at most 100: `0.01`".to_owned()),
            }));
        }
        let mut scaled = self.clone();
        scaled.scale *= factor;
        for load in &mut scaled.loads {
            if let Stop::Operations(operations) = &mut load.stop {
                *operations = scale_count(*operations, factor);
            }
        }
        for workload in &mut scaled.workloads {
            workload.keys.count = scale_count(workload.keys.count, factor);
        }
        let mistakes: Vec<Mistake> = scaled
            .loads
            .iter()
            .filter_map(|load| {
                let short = |system: &super::System| load.too_few_operations(&system.name);
                let worst = scaled.systems.iter().flat_map(short).max_by_key(TooFew::at_once)?;
                let least = self.least_factor(load);
                Some(Mistake {
                    what: format!("at scale {}, {worst}", scaled.scale),
                    place: None,
                    hint: Some(format!("the smallest scale for it is {}", least * self.scale)),
                })
            })
            .collect();
        if mistakes.is_empty() { Ok(scaled) } else { Err(Mistakes(mistakes)) }
    }

    /// The smallest factor, to three digits, that leaves this load enough operations.
    fn least_factor(&self, load: &Load) -> f64 {
        let Some(Stop::Operations(operations)) =
            self.loads.iter().find(|own| own.name == load.name).map(|own| own.stop)
        else {
            return 1.0;
        };
        let need = |system: &super::System| {
            let clients = load.clients_on(&system.name);
            let most = clients.iter().copied().max().unwrap_or(1);
            u64::from(most) * u64::from(load.in_flight) * clients.len() as u64
        };
        let needed = self.systems.iter().map(need).max().unwrap_or(1);
        let exact = needed as f64 / operations as f64;
        // Up to three significant digits, so that what the hint says works.
        let unit = 10f64.powf(exact.log10().floor() - 2.0);
        let rounded = (exact / unit - 1e-9).ceil() * unit;
        format!("{rounded:.9}").parse().unwrap_or(rounded)
    }
}

/// `count` times `factor`, rounded up, at least 1.
fn scale_count(count: u64, factor: f64) -> u64 {
    let exact = count as f64 * factor;
    // 100 times 0.07 is a little more than 7 in binary, and 7 is meant.
    let up = (exact - exact * 1e-12).ceil();
    (up as u64).max(1)
}
