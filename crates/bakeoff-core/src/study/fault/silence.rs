//! `silence`: connections of watchers stop reading and writing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::drop::{CLIENTS, NO_NODE, clients, share, whom};
use super::target::FaultNode;
use super::verb::{Action, Verb, time};
use crate::study::field::maybe;
use crate::units::{self, duration_text};

/// The connections of some watchers neither read nor write, as when their process stands still.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatcherSilence {
    /// Share of the connections, 0 to 1; at least one falls silent.
    pub share: f64,
    /// Time until they go on.
    #[serde(rename = "for", with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub lasts: Duration,
}

pub(super) const VERB: Verb<WatcherSilence> = Verb {
    name: "silence",
    fields: &[maybe(
        "silence",
        CLIENTS,
        "watchers",
        "Clients that neither read nor write until `for` is over: `watchers`.",
    )],
    shared: &["for", "share"],
    required: &["silence", "for"],
    read: |sink, fields| {
        clients(sink, fields, "silence")?;
        let (share, lasts) = (share(sink, fields), time(sink, fields, "for"));
        Some((WatcherSilence { share: share?, lasts: lasts? }, NO_NODE))
    },
};

impl Action for WatcherSilence {
    fn lasts(&self, _: FaultNode, _: u32) -> Duration {
        self.lasts
    }

    fn text(&self, _: &str) -> String {
        format!("{} silent for {}", whom(self.share), duration_text(self.lasts))
    }
}
