//! Divides a load into stages, and scales a study.
//!
//! A scale shrinks only counts: a load that ends by time keeps its length, and the clients stay the same. If that
//! leaves a client without an operation, the study is rejected, because another number of clients would be another
//! experiment.

use std::fmt;
use std::time::Duration;

use super::diagnostic::{Diagnostic, Diagnostics};
use super::{Load, Stop, Study};
use crate::workload;

/// Largest scale.
const SCALE_MAX: f64 = 100.0;

/// Describes a stage of a load that has more clients than operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TooFew {
    load: String,
    /// System whose own number of clients it is.
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

    /// Returns a hint for the study's file.
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
    /// Returns the part of stage `stage` (from 0) of `stages`, which share evenly. The first stages get the remaining
    /// operations, one each.
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
    /// Returns the clients of each stage on the named system.
    pub fn clients_on(&self, system: &str) -> &[u32] {
        self.clients_for.get(system).unwrap_or(&self.clients)
    }

    /// Returns the stages that leave a client without an operation.
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
    /// Returns the scale without rounding noise, and `None` for an unscaled study.
    pub fn scale_text(&self) -> Option<String> {
        let text = format!("{:.9}", self.scale);
        let text = text.trim_end_matches('0').trim_end_matches('.');
        ((self.scale - 1.0).abs() > 1e-9).then(|| text.to_owned())
    }

    /// Returns the study with its counts of operations and keys multiplied by `factor`, rounded up, at least one.
    /// Durations, clients and everything else stay the same.
    ///
    /// # Errors
    /// Fails if `factor` is not in the range above 0 to 100, or if a stage of a load would have fewer operations than
    /// clients.
    pub fn scaled(&self, factor: f64) -> Result<Study, Diagnostics> {
        if !(factor > 0.0 && factor <= SCALE_MAX) {
            return Err(Diagnostics::from(Diagnostic {
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
        let keys = scaled.workloads.iter().filter_map(|workload| {
            let (size, least) = (workload.keys.size, workload::bare_size(workload.keys.count));
            (size < least).then(|| Diagnostic {
                what: format!(
                    "at scale {}, workload `{}` has {} keys, and their {size} bytes have fewer names",
                    scaled.scale, workload.name, workload.keys.count
                ),
                place: None,
                hint: Some(format!("give keys `size: {least}`, or take a smaller scale")),
            })
        });
        let diagnostics: Vec<Diagnostic> = scaled
            .loads
            .iter()
            .filter_map(|load| {
                let short = |system: &super::System| load.too_few_operations(&system.name);
                let worst = scaled.systems.iter().flat_map(short).max_by_key(TooFew::at_once)?;
                let least = self.least_factor(load);
                Some(Diagnostic {
                    what: format!("at scale {}, {worst}", scaled.scale),
                    place: None,
                    hint: Some(format!("the smallest scale for it is {}", least * self.scale)),
                })
            })
            .chain(keys)
            .collect();
        if diagnostics.is_empty() { Ok(scaled) } else { Err(Diagnostics(diagnostics)) }
    }

    /// Returns the smallest factor, to three digits, that leaves this load enough operations.
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
        // Round up to three significant digits, so that the hint works.
        let unit = 10f64.powf(exact.log10().floor() - 2.0);
        let rounded = (exact / unit - 1e-9).ceil() * unit;
        format!("{rounded:.9}").parse().unwrap_or(rounded)
    }
}

/// Returns `count` times `factor`, rounded up, at least 1.
fn scale_count(count: u64, factor: f64) -> u64 {
    let exact = count as f64 * factor;
    // In binary, 100 times 0.07 is slightly more than 7, but 7 is meant.
    let up = (exact - exact * 4.0 * f64::EPSILON).ceil();
    (up as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::parse::tests::{EVERY_FIELD, read_shipped};
    use super::super::testing::kinds;
    use super::*;

    fn kv_stores() -> Study {
        read_shipped("kv-stores")
    }

    fn refused(study: &Study, factor: f64) -> String {
        study.scaled(factor).expect_err("it cannot be scaled so").to_string()
    }

    #[test]
    fn scale_shrinks_only_counts() {
        let whole = kv_stores();
        let small = whole.scaled(0.01).expect("a hundredth");
        assert_eq!(small.scale, 0.01);
        assert!(small.loads.iter().all(|load| load.stop == Stop::Operations(10_000)));
        assert_eq!(small.workloads[0].keys.count, 10_000);
        // A single key cannot shrink.
        assert_eq!(small.workloads[1].keys.count, 1);
        let mut back = small.scaled(100.0).expect("and back");
        assert_eq!(back.scale, 1.0);
        back.workloads[1].keys.count = 1;
        back.workloads[2].keys.count = 1;
        assert_eq!(back, whole);
    }

    #[test]
    fn scale_does_not_change_durations() {
        let study = parse("my", "my.yaml", EVERY_FIELD, &kinds()).expect("a study");
        let half = study.scaled(0.5).expect("half of it");
        assert_eq!(half.loads[0].stop, Stop::Operations(500));
        assert_eq!(half.loads[1], study.loads[1]);
        assert_eq!(half.systems, study.systems);
    }

    #[test]
    fn scale_that_leaves_clients_idle_is_rejected() {
        assert_eq!(
            refused(&kv_stores(), 0.001),
            "error: at scale 0.001, load `sweep` has 1000 clients, and 125 operations in this \
             stage\nhint: the smallest scale for it is 0.008",
        );
        assert!(kv_stores().scaled(0.008).is_ok());
        assert_eq!(
            refused(&kv_stores(), 0.00005),
            "error: at scale 0.00005, load `sweep` has 1000 clients, and 6 operations in this stage\n\
             hint: the smallest scale for it is 0.008\n\n\
             error: at scale 0.00005, load `best` has 1000 clients on system `etcd`, and 50 \
             operations\n\
             hint: the smallest scale for it is 0.001\n\n\
             error: at scale 0.00005, load `read` has 100 clients, and 50 operations\n\
             hint: the smallest scale for it is 0.0001",
        );
    }

    #[test]
    fn scale_is_a_positive_number() {
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY, 100.5] {
            let hint = "a scale is more than 0 and at most 100: `0.01`";
            let expected = format!("error: a study cannot have the scale `{factor}`\nhint: {hint}");
            assert_eq!(refused(&kv_stores(), factor), expected);
        }
    }

    #[test]
    fn counts_are_rounded_up() {
        assert_eq!(scale_count(100, 0.07), 7);
        assert_eq!(scale_count(101, 0.07), 8);
        assert_eq!(scale_count(1, 0.0001), 1);
        assert_eq!(scale_count(1_000_000_000_000, 100.0), 100_000_000_000_000);
    }

    #[test]
    fn stages_share_a_load_evenly() {
        let shares = |stop: Stop| (0..3).map(|stage| stop.of_stage(stage, 3)).collect::<Vec<_>>();
        assert_eq!(shares(Stop::Operations(10)), [4, 3, 3].map(Stop::Operations));
        let second = Stop::After(Duration::from_secs(1));
        assert_eq!(shares(Stop::After(Duration::from_secs(3))), [second; 3]);
    }

    #[test]
    fn suggested_smallest_scale_works() {
        for (clients, operations) in [(7, 1000), (3, 777), (999, 1000), (1, 3), (5, 5)] {
            let mut study = kv_stores();
            study.workloads.truncate(1);
            study.loads.truncate(1);
            study.loads[0].clients = vec![clients];
            study.loads[0].stop = Stop::Operations(operations);
            let least = study.least_factor(&study.loads[0]);
            assert!(study.scaled(least).is_ok(), "{clients} clients, {operations}: {least}");
        }
    }
}
