//! Study: systems × workloads × loads, a number of trials, and published figures.
//!
//! The types here are a study after reading: defaults filled in, units resolved, every combination
//! checked. They are what the record keeps. `parse` turns YAML into them and is the only
//! place that knows file, line and column.
//!
//! Not here: which trials follow from a study, and in which order (`plan`); what a kind of system
//! can do (the binary's `systems`, handed to `parse` as [`Kind`]s).

mod diagnostic;
mod fields;
mod gate;
mod kind;
mod load;
mod names;
mod parse;
mod placed;
mod reading;
mod scale;
pub mod schema;
pub mod shipped;
mod system;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod tree;
mod workload;
mod write;

pub use diagnostic::{Diagnostic, Diagnostics, Place};
pub use gate::{BUILDS, Build, NoGate};
pub use kind::{
    CredentialForm, Kind, KindOption, Misspelt, OptionForm, PRODUCT, ProcessText, Role, Tier,
};
pub use load::{Arrivals, ERRORS_MAX, Find, Load, Routing, Stop, Targets, usual_warmup};
pub use parse::{Elsewhere, Surroundings, TableError, TableFile, parse, parse_within};
pub use placed::{At, DiagnosticSink, PlacedEntry, PlacedNode, PlacedValue};
pub use system::{
    Credentials, Endpoint, Limits, MetricsUrl, Process, SecretSource, Servers, System, Tls,
};
pub use tree::{STUDY_SIZE_MAX, YamlWords, read_yaml};
pub use workload::{HttpRequest, Payload, ReadConsistency, Rows, Workload};
pub use write::recheck;

pub use crate::suggest::suggest;
pub use crate::workload::{KeyOrder, Keys, Operation, ValueSizes};

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units;

/// A study, resolved.
///
/// Its fields are those of a study's file and of records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// The study's name: its file's stem, `kv-stores`.
    pub name: String,
    /// Its subject, in a line.
    pub title: String,
    /// Its description, in a paragraph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The contenders, in the order of the file.
    pub systems: Vec<System>,
    /// Its workloads.
    pub workloads: Vec<Workload>,
    /// Its loads.
    pub loads: Vec<Load>,
    /// Number of trials of each combination.
    pub trials: u32,
    /// Most acknowledged keys that an audit reads back; of more, a sample.
    pub audit_keys: u64,
    /// When its nodes are killed for the audit after a kill; `None`: as is usual for the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill: Option<Kill>,
    /// Time between two looks at what nodes use.
    #[serde(default = "sample_every", with = "units::duration")]
    pub sample_every: Duration,
    /// State that each trial begins on.
    #[serde(default)]
    pub clusters: Clusters,
    /// Where the published figures come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publication: Option<Publication>,
    /// Figures from the literature, shown beside ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// By how much the counts of the file were shrunk: 1 is the study as it stands in the file.
    pub scale: f64,
}

impl Study {
    /// Returns whether any servers are started on this machine.
    pub fn starts_any(&self) -> bool {
        self.systems.iter().any(System::is_started)
    }
}

/// Returns the interval of records from before it could be set.
fn sample_every() -> Duration {
    Duration::from_secs(1)
}

/// No finer: a look at three servers takes about a millisecond.
pub const SAMPLE_EVERY_MIN: Duration = Duration::from_millis(100);

/// When all nodes are killed whose acknowledged writes are read back after their restart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kill {
    /// After the load was read back, while nobody asks them anything.
    #[default]
    AtRest,
    /// In the midst of further writes, which nobody measures.
    UnderLoad,
}

/// State that each trial begins on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clusters {
    /// Servers started for it, with no data.
    #[default]
    Fresh,
    /// The servers that the system's first trial started, cleared of what earlier trials wrote.
    Kept,
}

/// Where published figures come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publication {
    /// Its title and date.
    pub title: String,
    /// Its hardware.
    pub hardware: String,
    /// Which versions it compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<String>,
}

/// One figure from the literature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Name of one of the study's systems.
    pub system: String,
    /// Name of one of its workloads.
    pub workload: String,
    /// Name of one of its loads.
    pub load: String,
    /// Its operation of the mix; all together when `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// Its metric.
    pub metric: Metric,
    /// Its value in the metric's own unit.
    pub value: f64,
    /// Remark of the publication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A figure that a table can show. The name carries the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each name says what it is")]
pub enum Metric {
    Seconds,
    Requests,
    ThroughputMax,
    ThroughputMean,
    ThroughputMin,
    LatencyMinMs,
    LatencyMeanMs,
    LatencyMaxMs,
    LatencyP10Ms,
    LatencyP25Ms,
    LatencyP50Ms,
    LatencyP75Ms,
    LatencyP90Ms,
    LatencyP95Ms,
    LatencyP99Ms,
    LatencyP999Ms,
    Errors,
    ServerCpuMaxPercent,
    ServerMemoryMaxBytes,
}
