//! `sequence`: several faults of the study, one after another in one run of the load.
//!
//! Not here: looking up its faults, which needs the whole study (`parse`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::target::{FaultNode, FaultTarget};
use super::verb::{Action, TIME, Verb};
use crate::stats::and;
use crate::study::field::{Form, default, maybe};
use crate::units;

/// Several faults, one after another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sequence {
    /// Names of the faults, in their order.
    #[serde(rename = "sequence")]
    pub faults: Vec<String>,
    /// Time from the end of one to the next.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub rest: Duration,
}

pub(super) const VERB: Verb<Sequence> = Verb {
    name: "sequence",
    fields: &[
        maybe(
            "sequence",
            Form::List(&Form::Text),
            "[leader-paused, leader-killed]",
            "Names of other faults, which happen one after another. Their own `at` does not count.",
        ),
        default(
            "rest",
            TIME,
            "10s",
            "Time from the end of one fault of a sequence to the next one.",
        ),
    ],
    shared: &[],
    required: &["sequence"],
    read: |sink, fields| {
        let rest = fields.duration(sink, "rest")?;
        let none = FaultTarget { part: None, node: FaultNode::Leader };
        Some((Sequence { faults: Vec::new(), rest }, none))
    },
};

impl Action for Sequence {
    /// Returns zero: its faults have their own times.
    fn lasts(&self, _: FaultNode, _: u32) -> Duration {
        Duration::ZERO
    }

    fn text(&self, _: &str) -> String {
        format!("{}, one after another", and(&self.faults))
    }
}
