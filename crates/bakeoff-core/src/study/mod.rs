//! Defines a study: systems × workloads × loads, a number of trials, and published figures.
//!
//! The types here are a study after parsing, with defaults filled in, units resolved and every combination checked.
//! Records store them. `parse` turns YAML into them and is the only place that knows file, line and column.
//!
//! Not here: deriving trials and their order (`plan`), the abilities of kinds of systems (the binary's `systems`,
//! passed to `parse` as [`Kind`]s).

mod diagnostic;
pub mod fault;
mod field;
mod fields;
mod gate;
mod kind;
mod load;
mod names;
mod parse;
mod placed;
mod question;
mod quick;
mod reading;
#[cfg(test)]
mod reference;
mod scale;
pub mod schema;
pub mod shipped;
mod source;
mod system;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod tree;
mod watchers;
mod workload;

pub use diagnostic::{Diagnostic, Diagnostics, Place};
pub use fault::{
    CutDirection, DiskFault, Fault, FaultAction, FaultNode, FaultTarget, Maintenance,
    MaintenanceOffer, MaintenanceScope,
};
pub use field::NAMES_MAX;
pub use gate::{BUILDS, Build, GateBuilds, NoGate};
pub use kind::{
    CredentialForm, FENCED, GROUP, GROUP_DEFAULT, GROUP_SIZES, GUARD, Kind, KindOption, LEASE_TTL,
    LEASES, OptionForm, PRODUCT, ProcessText, RENEWALS, Role, Tier, UnknownPlaceholder,
};
pub use load::{Arrivals, ERRORS_MAX, Find, Load, Routing, Stop, Targets, usual_warmup};
#[cfg(test)]
pub(crate) use parse::tests::{EVERY_FAULT, EVERY_FIELD};
pub use parse::{Surroundings, TableError, TableFile, UncheckedSurroundings, parse, parse_within};
pub use placed::{ByteRange, DiagnosticSink, PlacedEntry, PlacedNode, PlacedValue};
pub use question::DecidingPlace;
pub use quick::QuickForm;
pub(crate) use source::unplaced;
pub use source::{SourcedStudy, StudyChanges, StudyFiles, StudySource};
pub use system::{
    Credentials, Endpoint, Limits, MetricsUrl, Process, SecretSource, Servers, System, Tls,
};
pub use tree::{STUDY_SIZE_MAX, YamlWords, read_yaml};
pub use watchers::{SlowReaders, Watchers};
pub use workload::{HttpRequest, Payload, ReadConsistency, Rows, Workload};

pub use crate::suggest::suggest;
pub use crate::workload::{KeyOrder, Keys, Operation, ValueSizes};

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units;

/// Holds a resolved study.
///
/// Its fields are those of a study's file and of records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Study {
    /// Name: the stem of its file, such as `kv-stores`.
    pub name: String,
    /// Subject in one line.
    pub title: String,
    /// Description in one paragraph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Compared systems, in the order of the file.
    pub systems: Vec<System>,
    /// Workloads of the study.
    pub workloads: Vec<Workload>,
    /// Loads of the study.
    pub loads: Vec<Load>,
    /// Workload and load that carry the question; `None` for the first ones ([`Study::deciding_place`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<DecidingPlace>,
    /// Faults that happen in further runs of each load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// Number of injections of each fault in a trial.
    #[serde(default = "fault::repeat", skip_serializing_if = "is_one")]
    pub repeat: u32,
    /// Number of trials of each combination.
    pub trials: u32,
    /// Maximum acknowledged keys that an audit reads back; a sample if there are more.
    pub audit_keys: u64,
    /// Time of the kill before the audit; `None` for the kind's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill: Option<Kill>,
    /// Check of each key's history.
    #[serde(default, skip_serializing_if = "LinearizabilityCheck::is_off")]
    pub linearizability: LinearizabilityCheck,
    /// Power cuts of each trial; `None` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_cuts: Option<PowerCuts>,
    /// Nodes in whose data a bit is flipped at rest; `None` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bit_flip: Option<BitFlipOf>,
    /// Interval between samples of the nodes' usage.
    #[serde(default = "sample_every", with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub sample_every: Duration,
    /// Initial state of each trial.
    #[serde(default)]
    pub clusters: Clusters,
    /// Source of the published figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publication: Option<Publication>,
    /// Figures from the literature, shown next to ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedValue>,
    /// Short form that the file declares; `None` once it is applied, and in records.
    #[serde(skip)]
    pub quick: Option<QuickForm>,
    /// True if this is the quick form of its file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_quick: bool,
    /// Factor that the file's counts were scaled by: 1 is the study as written.
    pub scale: f64,
}

impl Study {
    /// Returns true if bakeoff starts servers for any system.
    pub fn starts_any(&self) -> bool {
        self.systems.iter().any(System::is_started)
    }

    /// Returns the title, with the difference of this run's study from its file: `t (quick form, scaled to 0.01 of the
    /// study's counts)`.
    pub fn full_title(&self) -> String {
        let scale =
            self.scale_text().map(|scale| format!("scaled to {scale} of the study's counts"));
        let form = self.is_quick.then(|| "quick form".to_owned());
        let differs: Vec<String> = form.into_iter().chain(scale).collect();
        match &differs[..] {
            [] => self.title.clone(),
            differs => format!("{} ({})", self.title, differs.join(", ")),
        }
    }

    /// Returns the number of trials that it plans, before any extension.
    pub fn planned_trials(&self) -> u64 {
        let of = |workload: &Workload| {
            let systems = self.systems.iter().filter(|system| workload.is_done_by(system)).count();
            (systems * workload.loads.len()) as u64
        };
        let round: u64 = self.workloads.iter().map(of).sum();
        round.saturating_mul(self.trials.into())
    }
}

/// Maximum number of planned trials: a year with one in five minutes.
pub const TRIALS_MAX: u64 = 100_000;

fn is_one(count: &u32) -> bool {
    *count == 1
}

/// Returns the interval of records from before it was configurable.
fn sample_every() -> Duration {
    Duration::from_secs(1)
}

/// Minimum sampling interval: sampling three servers takes about a millisecond.
pub const SAMPLE_EVERY_MIN: Duration = Duration::from_millis(100);

/// Selects when all nodes are killed before acknowledged writes are read back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Kill {
    /// After the load was read back, while the nodes are idle.
    #[default]
    AtRest,
    /// During further, unmeasured writes.
    UnderLoad,
}

/// Selects whether the histories of keys are checked for linearizability.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LinearizabilityCheck {
    /// They are not recorded.
    #[default]
    Off,
    /// They are recorded and judged. One with a violation is kept in the run's folder.
    On,
    /// They are recorded, judged and always kept.
    KeepingHistory,
}

impl LinearizabilityCheck {
    /// Returns true if histories are not recorded.
    pub fn is_off(&self) -> bool {
        *self == Self::Off
    }
}

/// Power cuts of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PowerCuts {
    /// Nodes that lose their power.
    pub of: PowerCutOf,
    /// Number of cuts, at least 1.
    pub cuts: u32,
}

/// Selects the nodes that lose their power at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PowerCutOf {
    /// All nodes.
    All,
    /// One node, while others are paused.
    One,
}

/// Selects the nodes in whose data a bit is flipped at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BitFlipOf {
    /// One node.
    One,
}

/// Selects the initial state of each trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Clusters {
    /// Servers started for the trial, without data.
    #[default]
    Fresh,
    /// Servers started by the system's first trial, cleared of earlier writes.
    Kept,
}

/// Describes the source of published figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Publication {
    /// Title and date.
    pub title: String,
    /// Hardware of the publication.
    pub hardware: String,
    /// Versions that it compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<String>,
}

/// Holds one figure from the literature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishedValue {
    /// Name of one of the study's systems.
    pub system: String,
    /// Name of one of its workloads.
    pub workload: String,
    /// Name of one of its loads.
    pub load: String,
    /// Operation of the mix; `None` for all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// Name of one of its faults, of an outage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Metric of the value.
    pub metric: Metric,
    /// Value in the metric's own unit.
    pub value: f64,
    /// Remark of the publication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Names a figure that a table can show. The name carries the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    OutageMinS,
    OutageMaxS,
    ServerCpuMaxPercent,
    ServerMemoryMaxBytes,
}
