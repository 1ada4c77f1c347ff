//! Systems in a record: their programs, settings, guarantees and parts.
//!
//! Not here: what they did (`trial`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::study::ReadConsistency;

/// A contender as it really is.
///
/// Each field is one of the record's, which stays flat, so that old ones load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemRecord {
    /// The study's name for it.
    pub name: String,
    /// `etcd`.
    pub kind: String,
    /// The program's or the running system's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where the program came from: `Debian package etcd-server 3.4.23+dfsg-4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// SHA-256 of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// When the program was built, or its version was made: `2024-10-29`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Whether it ran already and was only loaded.
    pub already_running: bool,
    /// Version of TLS between clients and system: `TLS 1.3` as a running system agreed to, or `TLS` for one that
    /// is started so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_version: Option<String>,
    /// Authentication of its clients, beyond TLS: `a token with each request`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<String>,
    /// Protocol between its components, where it says so: `mTLS, TLS 1.3`, `plain HTTP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<String>,
    /// Whether that is encrypted; records before it was kept say so in [`Self::between`] alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption_between: Option<Encryption>,
    /// Nodes.
    pub nodes: u32,
    /// Its guarantees.
    #[serde(rename = "promises", alias = "guarantees")]
    pub guarantees: Guarantees,
    /// Settings that depart from the system's own defaults, each with its reason.
    pub settings: Vec<Setting>,
    /// Its parts, in the order of their start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartRecord>,
}

/// A part of a system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartRecord {
    /// `storage`.
    pub role: String,
    /// The part as a system; its name is the system's and the role.
    #[serde(flatten)]
    pub part: SystemRecord,
}

/// Guarantees of a system, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarantees {
    /// Replication of data.
    pub replication: String,
    /// When a write is acknowledged.
    pub acknowledged: String,
    /// Values that reads may return, by how they are asked for.
    pub reads: String,
    /// Where a write is when it is acknowledged; `None` where that is not known: in records from
    /// before it was said, and of systems that bakeoff did not start and configure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_in: Option<Acknowledged>,
    /// Place that it claimed, if a run's trials contradicted that; [`Self::acknowledged_in`] is then what is left of it.
    /// Reports derive it: a record's first line is written before any trial.
    #[serde(skip)]
    pub claimed_in: Option<Acknowledged>,
    /// Freshness of reads, by how they are asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub freshness: BTreeMap<ReadConsistency, Freshness>,
}

/// Where a write is, at the least, when it is acknowledged. What is in a kernel's page cache
/// survives the program and not a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acknowledged {
    /// One node's own memory.
    Memory,
    /// The page cache of one node's kernel.
    PageCache,
    /// One node's disk.
    Disk,
    /// The own memory of a majority of the nodes.
    MajorityMemory,
    /// The page caches of a majority's kernels.
    MajorityPageCaches,
    /// A majority's disks.
    MajorityDisks,
}

/// Freshness of a read's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Freshness {
    /// The newest acknowledged value, as if there were one copy.
    Linearizable,
    /// The leader's value: stale only if it was deposed and does not know yet.
    Leader,
    /// The asked node's value, which may be stale.
    NodeAsked,
}

/// A setting that departs from a system's own default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// `maxClientCnxns`.
    pub name: String,
    /// `0`.
    pub value: String,
    /// Reason for the departure.
    pub reason: String,
}

/// Whether bytes on their way are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encryption {
    /// They are not.
    Plain,
    /// They are, by TLS.
    Tls,
}

impl SystemRecord {
    /// Returns whether what it is made of encrypts what it says to each other; `None` where nobody says.
    pub fn encryption_between(&self) -> Option<Encryption> {
        let of_words = |words: &String| match words.contains("TLS") {
            true => Encryption::Tls,
            false => Encryption::Plain,
        };
        self.encryption_between.or_else(|| self.between.as_ref().map(of_words))
    }

    /// Returns where an acknowledged write is; `None` for a system that somebody else configured.
    pub fn acknowledged_in(&self) -> Option<Acknowledged> {
        self.guarantees.acknowledged_in.filter(|_| !self.already_running)
    }
}
