//! Names the maintenance that systems offer while they serve: defragment, compact, snapshot.
//!
//! Not here: who offers it (`kind`), doing it (`bakeoff_systems`).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::study::{Kind, System};

/// Selects a maintenance operation of a running system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Maintenance {
    /// Replaces a route of a gateway, next to the one that its requests take.
    ChangeRoutes,
    /// Writes all changed pages to disk.
    Checkpoint,
    /// Drops the history of keys.
    Compact,
    /// Returns free space of the database to the disk.
    Defragment,
    /// Replaces the log of writes by a shorter one with the same result.
    RewriteLog,
    /// Encrypts new data with a new key.
    Rotate,
    /// Writes or sends a copy of all data.
    Snapshot,
    /// Frees the space of deleted rows.
    Vacuum,
}

impl Maintenance {
    /// Lists all operations, in the order of their names.
    pub const ALL: [Self; 8] = [
        Self::ChangeRoutes,
        Self::Checkpoint,
        Self::Compact,
        Self::Defragment,
        Self::RewriteLog,
        Self::Rotate,
        Self::Snapshot,
        Self::Vacuum,
    ];

    /// Returns its name in a study: `rewrite-log`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ChangeRoutes => "change-routes",
            Self::Checkpoint => "checkpoint",
            Self::Compact => "compact",
            Self::Defragment => "defragment",
            Self::RewriteLog => "rewrite-log",
            Self::Rotate => "rotate",
            Self::Snapshot => "snapshot",
            Self::Vacuum => "vacuum",
        }
    }

    /// Returns the operation with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }
}

impl fmt::Display for Maintenance {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

/// Selects the place where a maintenance operation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaintenanceScope {
    /// On one node, for this node.
    Node,
    /// Once for the whole system, at its leader.
    System,
}

/// Declares a maintenance operation of a kind.
#[derive(Debug, Clone, Copy)]
pub struct MaintenanceOffer {
    /// The operation.
    pub operation: Maintenance,
    /// Place where it runs.
    pub scope: MaintenanceScope,
    /// Returns why a system with this configuration lacks it; `None` if it offers it.
    pub lacks: fn(&System) -> Option<&'static str>,
}

impl MaintenanceOffer {
    /// Declares an operation that every system of the kind offers.
    pub const fn new(operation: Maintenance, scope: MaintenanceScope) -> Self {
        Self { operation, scope, lacks: |_| None }
    }
}

impl Kind {
    /// Returns the declaration of a maintenance operation; `None` if the kind does not offer it.
    pub fn offer(&self, operation: Maintenance) -> Option<&'static MaintenanceOffer> {
        self.maintenance.iter().find(|offer| offer.operation == operation)
    }
}
