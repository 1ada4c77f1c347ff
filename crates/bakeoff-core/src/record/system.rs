//! Describes the systems in a record: programs, settings, guarantees and parts.
//!
//! Not here: their behaviour (`trial`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::study::ReadConsistency;

/// Describes a system as resolved.
///
/// Each field belongs to the record, which stays flat, so that old ones load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SystemRecord {
    /// Study's name of the system.
    pub name: String,
    /// Kind, such as `etcd`.
    pub kind: String,
    /// Version of the program or the running system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Source of the program, such as `Debian package etcd-server 3.4.23+dfsg-4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// SHA-256 of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Build or release date of the program, such as `2024-10-29`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Version that a fault upgrades its nodes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<UpgradeRecord>,
    /// True if bakeoff did not start it.
    pub already_running: bool,
    /// Version of TLS between clients and system: `TLS 1.3` as negotiated with a running system, or `TLS` for one
    /// that bakeoff starts with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_version: Option<String>,
    /// Authentication of its clients beyond TLS, such as `a token with each request`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<String>,
    /// Protocol between its components, if declared: `mTLS, TLS 1.3`, `plain HTTP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<String>,
    /// Encryption between its components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption_between: Option<Encryption>,
    /// Number of nodes.
    pub nodes: u32,
    /// Guarantees of the system.
    pub guarantees: Guarantees,
    /// Settings that differ from the system's defaults, each with its reason.
    pub settings: Vec<Setting>,
    /// Parts in the order of their start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartRecord>,
}

/// Describes the program that a fault upgrades nodes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UpgradeRecord {
    /// Version of the program.
    pub version: String,
    /// Source of the program.
    pub source: String,
    /// SHA-256 of the program.
    pub sha256: String,
}

/// Describes a part of a system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartRecord {
    /// Role, such as `storage`.
    pub role: String,
    /// Part as a system. Its name is the system's and the role.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Flat<SystemRecord>"))]
    pub part: SystemRecord,
}

/// Describes the guarantees of a system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Guarantees {
    /// Replication of data.
    pub replication: String,
    /// Point at which a write is acknowledged.
    pub acknowledged: String,
    /// Values that reads may return, by how they are requested.
    pub reads: String,
    /// Location of a write when it is acknowledged. `None` for systems that bakeoff
    /// did not start and configure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_in: Option<AckLocation>,
    /// Claimed location, if a run's trials contradicted it; [`Self::acknowledged_in`] is then the remaining one.
    /// Reports derive it, because a record's first line is written before any trial.
    #[serde(skip)]
    pub claimed_in: Option<AckLocation>,
    /// Freshness of reads, by how they are requested.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "crate::schema::KeyedMap<ReadConsistency, Freshness>")
    )]
    pub freshness: BTreeMap<ReadConsistency, Freshness>,
}

/// Names the weakest location of a write when it is acknowledged. A kernel's page cache survives the program but not
/// a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AckLocation {
    /// Memory of one node's process.
    Memory,
    /// Page cache of one node's kernel.
    PageCache,
    /// Disk of one node.
    Disk,
    /// Memory of the processes of a majority of nodes.
    MajorityMemory,
    /// Page caches of a majority's kernels.
    MajorityPageCaches,
    /// Disks of a majority.
    MajorityDisks,
}

/// Names the freshness of a read's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Freshness {
    /// Newest acknowledged value, as if there were one copy.
    Linearizable,
    /// Leader's value: stale only if it was deposed and does not know yet.
    Leader,
    /// Value of the queried node, which may be stale.
    NodeAsked,
}

/// Describes a setting that differs from a system's default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Setting {
    /// Name, such as `maxClientCnxns`.
    pub name: String,
    /// Value, such as `0`.
    pub value: String,
    /// Reason for the difference.
    pub reason: String,
}

/// Describes the encryption of transmitted bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Encryption {
    /// Not encrypted.
    Plain,
    /// Encrypted by TLS.
    Tls,
}

impl SystemRecord {
    /// Returns whether the components encrypt their communication; `None` if undeclared.
    pub fn encryption_between(&self) -> Option<Encryption> {
        let of_words = |words: &String| match words.contains("TLS") {
            true => Encryption::Tls,
            false => Encryption::Plain,
        };
        self.encryption_between.or_else(|| self.between.as_ref().map(of_words))
    }

    /// Returns the location of an acknowledged write; `None` for a system that bakeoff did not configure.
    pub fn acknowledged_in(&self) -> Option<AckLocation> {
        self.guarantees.acknowledged_in.filter(|_| !self.already_running)
    }
}
