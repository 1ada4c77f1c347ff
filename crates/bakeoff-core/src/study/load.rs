//! Loads of a study: clients, arrivals, when a load ends, which nodes it goes to.
//!
//! Not here: what clients do (`workload`), the stages of a load (`crate::plan`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::condition::{Condition, Misread};
use crate::units;

/// Load of a study: how hard clients work.
///
/// Its fields are those of a load in a study's file and in records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The study's own name for it.
    pub name: String,
    /// The number of clients, stage after stage on the same cluster; one stage unless a sweep. An
    /// open load has exactly one stage.
    pub clients: Vec<u32>,
    /// Clients for one system in place of `clients`, by the system's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clients_for: BTreeMap<String, Vec<u32>>,
    /// When operations are due.
    pub arrivals: Arrivals,
    /// Operations each client may have under way at once.
    pub in_flight: u32,
    /// When the load, all stages together, ends. Stages share it evenly.
    pub stop: Stop,
    /// Time before measuring begins, in each stage.
    #[serde(with = "units::duration")]
    pub warmup: Duration,
    /// After this long without an answer an operation has failed.
    #[serde(with = "units::duration")]
    pub timeout: Duration,
    /// Which nodes the clients connect to, in turn.
    pub targets: Routing,
    /// Whether clients keep their connections; else each operation has one of its own.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub keep_alive: bool,
    /// Whether a client that connects again takes up its TLS session; else each connection is a
    /// first visit.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub tls_resumption: bool,
    /// From which share of failed operations on, 0 to 1, a trial says more of the failures than of the
    /// system, and does not count.
    #[serde(default = "errors_max", skip_serializing_if = "is_errors_max")]
    pub errors_max: f64,
    /// Search for the rate that keeps an objective; `arrivals` has the rate to begin with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find: Option<Find>,
}

/// A search for the highest rate that keeps an objective: an open load at one rate after the other,
/// each for the load's time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Find {
    /// Conditions that all have to hold, each readable as a [`crate::condition::Condition`]: `p99 < 50ms`.
    pub objective: Vec<String>,
}

impl Find {
    /// The objective, read; an error tells what is no condition. Reading a study finds none.
    pub fn conditions(&self) -> Result<Vec<Condition>, Misread> {
        self.objective.iter().map(|text| text.parse()).collect()
    }

    /// The objective in words: `p99 < 50ms and errors < 1%`.
    pub fn text(&self) -> String {
        self.objective.join(" and ")
    }
}

/// The share of failed operations that a trial may have where its load says nothing of it.
pub const ERRORS_MAX: f64 = 0.1;

fn errors_max() -> f64 {
    ERRORS_MAX
}

fn is_errors_max(share: &f64) -> bool {
    *share == ERRORS_MAX
}

fn yes() -> bool {
    true
}

fn is_yes(flag: &bool) -> bool {
    *flag
}

/// When operations are due.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Arrivals {
    /// A closed load: a client's next operation is due when its last one ended.
    Closed,
    /// An open load at equal distances.
    Constant {
        /// Operations per second, all clients together.
        rate: f64,
    },
    /// An open load whose distances are exponentially distributed.
    Poisson {
        /// Operations per second, all clients together.
        rate: f64,
    },
}

impl Arrivals {
    /// Operations that fall due per second, all clients together; none for a closed load.
    pub fn rate(self) -> Option<f64> {
        match self {
            Arrivals::Closed => None,
            Arrivals::Constant { rate } | Arrivals::Poisson { rate } => Some(rate),
        }
    }

    /// The same at another rate, operations per second; a closed load has none.
    pub fn at(self, rate: f64) -> Self {
        match self {
            Arrivals::Closed => Arrivals::Closed,
            Arrivals::Constant { .. } => Arrivals::Constant { rate },
            Arrivals::Poisson { .. } => Arrivals::Poisson { rate },
        }
    }
}

/// When a load ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// After this time, warm-up not counted.
    After(#[serde(with = "units::duration")] Duration),
    /// After so many operations, warm-up not counted.
    Operations(u64),
}

/// The usual warm-up is this part of what a stage is measured for,
const WARMUP_PART: u32 = 5;
/// at least so long, as the check for a steady state looks at whole seconds,
const WARMUP_MIN: Duration = Duration::from_secs(1);
/// and at most so long.
const WARMUP_MAX: Duration = Duration::from_secs(5);
/// The usual warm-up of a search's tries is at most so long: the try before was a warm-up.
const WARMUP_OF_A_TRY_MAX: Duration = Duration::from_secs(1);

/// Returns the warm-up of each stage of a load that names none, in a study and on the command line: a fifth of the time
/// that the stage is measured for, from 1 s to 5 s; of a search's try a fifth, at most 1 s. None in a load that ends by a
/// count: that is a whole job, and its cold start a part of it.
pub fn usual_warmup(stop: Stop, stages: usize, searches: bool) -> Duration {
    let Stop::After(time) = stop else { return Duration::ZERO };
    if searches {
        return (time / WARMUP_PART).min(WARMUP_OF_A_TRY_MAX);
    }
    let stage = time / u32::try_from(stages).unwrap_or(u32::MAX).max(1);
    (stage / WARMUP_PART).clamp(WARMUP_MIN, WARMUP_MAX)
}

/// Which nodes clients connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Targets {
    /// All of them, in turn.
    All,
    /// The leader only.
    Leader,
    /// All but the leader, in turn.
    Followers,
}

/// Which nodes clients connect to, by what they do there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Routing {
    /// The same for all operations.
    Same(Targets),
    /// Some for writes and others for reads, by clients of their own.
    Split {
        /// Where writes go.
        writes: Targets,
        /// Where reads go.
        reads: Targets,
    },
}

impl Routing {
    /// Returns where operations go that write, or that do not.
    pub fn choose(self, writes: bool) -> Targets {
        match self {
            Self::Same(targets) => targets,
            Self::Split { writes: targets, .. } if writes => targets,
            Self::Split { reads: targets, .. } => targets,
        }
    }

    /// Returns whether writes and reads go to nodes of their own.
    pub fn is_split(self) -> bool {
        matches!(self, Self::Split { .. })
    }
}
