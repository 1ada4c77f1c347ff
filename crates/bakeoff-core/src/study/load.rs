//! Describes the loads of a study: clients, arrivals, end, target nodes.
//!
//! Not here: operations of clients (`workload`), the stages of a load (`crate::plan`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::condition::{Condition, ConditionError};
use crate::units;

/// Describes a load of a study: how hard clients work.
///
/// Its fields are those of a load in a study's file and in records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Load {
    /// Name in the study.
    pub name: String,
    /// Number of clients of each stage on the same cluster. A sweep has several stages; an open load has exactly one.
    pub clients: Vec<u32>,
    /// Clients of single systems in place of `clients`, by system name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clients_for: BTreeMap<String, Vec<u32>>,
    /// Arrivals of operations.
    pub arrivals: Arrivals,
    /// Maximum operations in flight per client.
    pub in_flight: u32,
    /// End of the load. Stages share it evenly.
    pub stop: Stop,
    /// Warm-up time of each stage before measuring.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub warmup: Duration,
    /// Time after which an unanswered operation counts as failed.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub timeout: Duration,
    /// Nodes that clients connect to, in turn.
    pub targets: Routing,
    /// True if clients keep their connections; otherwise each operation opens its own.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub keep_alive: bool,
    /// True if a client that reconnects resumes its TLS session; otherwise each connection does a full handshake.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub tls_resumption: bool,
    /// Share of failed operations, 0 to 1, from which a trial describes the failures more than the system, and does
    /// not count.
    #[serde(default = "errors_max", skip_serializing_if = "is_errors_max")]
    pub errors_max: f64,
    /// Search for the rate that keeps an objective, starting with the rate in `arrivals`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find: Option<Find>,
}

/// Searches for the highest rate that keeps an objective: an open load at one rate after another, each for the load's
/// time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Find {
    /// Conditions that must all hold, such as `p99 < 50ms` ([`crate::condition::Condition`]).
    pub objective: Vec<String>,
}

impl Find {
    /// Parses the objective. The error describes an invalid condition, which a parsed study does not contain.
    pub fn conditions(&self) -> Result<Vec<Condition>, ConditionError> {
        self.objective.iter().map(|text| text.parse()).collect()
    }

    /// Formats the objective: `p99 < 50ms and errors < 1%`.
    pub fn text(&self) -> String {
        self.objective.join(" and ")
    }
}

/// Default maximum share of failed operations in a trial.
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

/// Selects when operations are due.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Arrivals {
    /// Closed load: a client's next operation is due when its last one ends.
    Closed,
    /// Open load with even spacing.
    Constant {
        /// Operations per second of all clients together.
        rate: f64,
    },
    /// Open load with exponentially distributed spacing.
    Poisson {
        /// Operations per second of all clients together.
        rate: f64,
    },
}

impl Arrivals {
    /// Returns the operations due per second of all clients together; `None` for a closed load.
    pub fn rate(self) -> Option<f64> {
        match self {
            Arrivals::Closed => None,
            Arrivals::Constant { rate } | Arrivals::Poisson { rate } => Some(rate),
        }
    }

    /// Replaces the rate, in operations per second; a closed load stays unchanged.
    pub fn at(self, rate: f64) -> Self {
        match self {
            Arrivals::Closed => Arrivals::Closed,
            Arrivals::Constant { .. } => Arrivals::Constant { rate },
            Arrivals::Poisson { .. } => Arrivals::Poisson { rate },
        }
    }
}

/// Selects when a load ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// After this time, without the warm-up.
    After(
        #[serde(with = "units::duration")]
        #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
        Duration,
    ),
    /// After this many operations, without the warm-up.
    Operations(u64),
}

/// Divisor of a stage's measured time that gives the default warm-up.
const WARMUP_PART: u32 = 5;
/// Minimum default warm-up, because the check for a steady state uses whole seconds.
const WARMUP_MIN: Duration = Duration::from_secs(1);
/// Maximum default warm-up.
const WARMUP_MAX: Duration = Duration::from_secs(5);
/// Maximum default warm-up of a search's try: the previous try was a warm-up.
const WARMUP_OF_A_TRY_MAX: Duration = Duration::from_secs(1);

/// Returns the default warm-up of each stage, in a study and on the command line: a fifth of the stage's measured
/// time, from 1 s to 5 s; for a search's try at most 1 s. A load that ends by a count has none: it is a whole job
/// that includes its cold start.
pub fn usual_warmup(stop: Stop, stages: usize, searches: bool) -> Duration {
    let Stop::After(time) = stop else { return Duration::ZERO };
    if searches {
        return (time / WARMUP_PART).min(WARMUP_OF_A_TRY_MAX);
    }
    let stage = time / u32::try_from(stages).unwrap_or(u32::MAX).max(1);
    (stage / WARMUP_PART).clamp(WARMUP_MIN, WARMUP_MAX)
}

/// Selects the nodes that clients connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Targets {
    /// All nodes, in turn.
    All,
    /// Only the leader.
    Leader,
    /// All nodes except the leader, in turn.
    Followers,
}

/// Selects the nodes for writes and reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Routing {
    /// Same nodes for all operations.
    Same(Targets),
    /// Separate nodes for writes and reads, with separate clients.
    Split {
        /// Nodes for writes.
        writes: Targets,
        /// Nodes for reads.
        reads: Targets,
    },
}

impl Routing {
    /// Returns the nodes for operations that write, or do not.
    pub fn choose(self, writes: bool) -> Targets {
        match self {
            Self::Same(targets) => targets,
            Self::Split { writes: targets, .. } if writes => targets,
            Self::Split { reads: targets, .. } => targets,
        }
    }

    /// Returns true if writes and reads go to separate nodes.
    pub fn is_split(self) -> bool {
        matches!(self, Self::Split { .. })
    }
}
