//! `delay`: the network holds the packets of nodes back, and may lose some.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::target::{FaultNode, nodes, nodes_of};
use super::verb::{Action, TIME, Verb, time};
use crate::study::field::{Form, default, maybe};
use crate::units::{self, duration_text, share_text};

/// The network delays the nodes' packets, to and from everybody.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketDelay {
    /// Time until packets pass as before.
    #[serde(rename = "for", with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub lasts: Duration,
    /// Mean delay of a packet, in each direction.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub by: Duration,
    /// Largest difference from the mean.
    #[serde(default, with = "units::duration", skip_serializing_if = "Duration::is_zero")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub jitter: Duration,
    /// Share of packets that are lost, 0 to 1.
    #[serde(default, skip_serializing_if = "is_none")]
    pub loss: f64,
}

fn is_none(loss: &f64) -> bool {
    *loss == 0.0
}

/// Largest share of lost packets. Beyond it, no connection gets through.
const LOSS_MAX: f64 = 0.5;

pub(super) const VERB: Verb<PacketDelay> = Verb {
    name: "delay",
    fields: &[
        nodes_of(
            "delay",
            "Nodes whose packets the network holds back, to and from everybody, until `for` is over.",
        ),
        maybe("by", TIME, "50ms", "Time by which a packet arrives later, in each direction."),
        default(
            "jitter",
            Form::Duration { zero: true, max: "1h" },
            "0s",
            "Largest difference of a packet's delay from `by`. Packets keep their order.",
        ),
        default("loss", Form::Share, "0%", "Share of packets that are lost; at most half."),
    ],
    shared: &["for"],
    required: &["delay", "by", "for"],
    read: |sink, fields| {
        let (lasts, by) = (time(sink, fields, "for"), fields.duration(sink, "by"));
        if fields.node("by").is_none() {
            let what = format!("{} delays nothing", fields.what);
            sink.hint(fields.key_at("delay"), what, "add `by: 50ms`");
        }
        let (jitter, loss) = (fields.duration(sink, "jitter"), fields.share(sink, "loss"));
        let target = nodes(sink, fields, "delay");
        let (lasts, by, jitter, loss) = (lasts?, by?, jitter?, loss?);
        if jitter > by {
            let hint = "a packet cannot arrive before it was sent: write at most `by`";
            sink.hint(fields.value_at("jitter"), "`jitter` is longer than `by`", hint);
            return None;
        }
        if loss > LOSS_MAX {
            let hint = "write at most 50%, or cut the nodes off with `isolate`";
            sink.hint(fields.value_at("loss"), "`loss` is more than half of the packets", hint);
            return None;
        }
        Some((PacketDelay { lasts, by, jitter, loss }, target?))
    },
};

impl Action for PacketDelay {
    fn lasts(&self, _: FaultNode, _: u32) -> Duration {
        self.lasts
    }

    fn text(&self, whom: &str) -> String {
        let jitter = match self.jitter.is_zero() {
            true => String::new(),
            false => format!(" ± {}", duration_text(self.jitter)),
        };
        let loss = match self.loss > 0.0 {
            true => format!(", {} of the packets lost", share_text(self.loss)),
            false => String::new(),
        };
        let (by, lasts) = (duration_text(self.by), duration_text(self.lasts));
        format!("packets of {whom} {by}{jitter} late for {lasts}{loss}")
    }

    fn needs_network(&self) -> bool {
        true
    }

    fn loses_packets(&self) -> bool {
        self.loss > 0.0
    }
}
