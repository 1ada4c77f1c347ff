//! `disk`: the disk of nodes is slow, stands still or is full.
//!
//! Not here: the disk (`bakeoff_disk`).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::target::{FaultNode, nodes, nodes_of};
use super::verb::{Action, FaultedSystem, OTHERS, TIME, Verb, time};
use crate::study::field::{Form, maybe};
use crate::study::reading::Fields;
use crate::study::tree::DiagnosticSink;
use crate::units::{self, duration_text};

/// A disk that is slow, stands still or is full, then a healthy one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiskBreak {
    /// State of the disk meanwhile.
    #[serde(flatten)]
    pub fault: DiskFault,
    /// Time until it is healed.
    #[serde(rename = "for", with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub lasts: Duration,
}

/// Names what happens to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "disk")]
pub enum DiskFault {
    /// Each sync takes longer.
    Slow {
        /// Time by which each sync takes longer.
        #[serde(with = "units::duration")]
        #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
        sync_delay: Duration,
    },
    /// Syncs and writes wait until it is healed.
    Stalled,
    /// It has no space: `ENOSPC`.
    Full,
}

impl fmt::Display for DiskFault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slow { sync_delay } => {
                write!(to, "slower by {} a sync", duration_text(*sync_delay))
            }
            Self::Stalled => to.write_str("stalled"),
            Self::Full => to.write_str("full"),
        }
    }
}

/// States of a disk that a fault may have.
const STATES: [&str; 3] = ["sync-delay", "stall", "full"];
/// Shortest delay of a sync that differs from a busy machine's own.
const DELAY_MIN: Duration = Duration::from_millis(10);

pub(super) const VERB: Verb<DiskBreak> = Verb {
    name: "disk",
    fields: &[
        nodes_of(
            "disk",
            "Nodes whose disk is slow (`sync-delay`), stands still (`stall`) or is full (`full`).",
        ),
        maybe("sync-delay", TIME, "100ms", "Time by which each sync of the disk takes longer."),
        maybe("stall", Form::Flag, "true", "True: syncs and writes wait until the disk is healed."),
        maybe(
            "full",
            Form::Flag,
            "true",
            "True: what needs space on the disk is refused with `ENOSPC`.",
        ),
    ],
    shared: &["for"],
    required: &["disk", "for"],
    read: |sink, fields| {
        let lasts = time(sink, fields, "for");
        let (target, fault) = (nodes(sink, fields, "disk"), state(sink, fields, lasts));
        Some((DiskBreak { fault: fault?, lasts: lasts? }, target?))
    },
};

/// Parses the state of the disk.
fn state(
    sink: &mut DiagnosticSink<'_>,
    fields: &Fields<'_>,
    lasts: Option<Duration>,
) -> Option<DiskFault> {
    let mut given = STATES.into_iter().filter(|state| fields.node(state).is_some());
    let Some(state) = given.next() else {
        let what = format!("{} leaves the disk as it is", fields.what);
        let hint = "add `sync-delay: 100ms`, `stall: true` or `full: true`";
        sink.hint(fields.key_at("disk"), what, hint);
        return None;
    };
    if let Some(other) = given.next() {
        let what = format!("{} has both `{state}` and `{other}`", fields.what);
        sink.hint(fields.key_at(other), what, "a fault is one action; write two faults");
        return None;
    }
    if state == "sync-delay" {
        let sync_delay = fields.duration(sink, state)?;
        let within = lasts.is_none_or(|lasts| sync_delay < lasts);
        if sync_delay < DELAY_MIN || !within {
            let what = format!("a `sync-delay` of {} cannot be proven", duration_text(sync_delay));
            let hint = "a sync is timed during the fault: write at least 10ms, and less than `for`";
            sink.hint(fields.value_at(state), what, hint);
            return None;
        }
        return Some(DiskFault::Slow { sync_delay });
    }
    match (fields.flag(sink, state)?, state) {
        (true, "stall") => Some(DiskFault::Stalled),
        (true, _) => Some(DiskFault::Full),
        (false, _) => {
            let what = format!("{} leaves the disk as it is", fields.what);
            sink.hint(fields.value_at(state), what, format!("write `{state}: true`"));
            None
        }
    }
}

impl Action for DiskBreak {
    fn lasts(&self, _: FaultNode, _: u32) -> Duration {
        self.lasts
    }

    fn text(&self, whom: &str) -> String {
        format!("disk of {whom} {} for {}", self.fault, duration_text(self.lasts))
    }

    /// Checks that the system's own nodes keep data.
    fn check(&self, sink: &mut DiagnosticSink<'_>, of: &FaultedSystem<'_>) {
        let keeps_none = of.kind().is_some_and(|kind| kind.takes_requests() && !kind.is_process);
        if of.target.part.is_none() && keeps_none {
            let what = format!("nodes of system `{}` keep no data on a disk", of.system.name);
            sink.hint(of.fields.value_at("disk"), what, OTHERS);
        }
    }
}
