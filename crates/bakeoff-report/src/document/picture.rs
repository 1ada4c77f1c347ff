//! The picture of a workload and load: every trial, the medians, and how far each system is from the leader.
//!
//! It holds values and texts. Page, share image and terminal draw the same picture.
//!
//! Not here: drawing it up (`pictures`, `outages`), positions and marks (`render`).

use bakeoff_core::stats::rounds::Preference;
use bakeoff_core::units::figure_text;

/// The picture of one workload and load: throughput, and the deciding latency.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    /// `create/steady`.
    pub(crate) place: String,
    /// Kind of load, in words.
    pub(crate) load: String,
    /// Proven order of the systems; `None` if nothing was compared.
    pub(crate) order: Option<String>,
    pub(crate) panels: Vec<Panel>,
    /// True for a gate, which has a verdict of its own.
    pub(crate) is_gate: bool,
    /// Meaning of a dot: `a trial`.
    pub(crate) dot: &'static str,
}

impl Picture {
    /// Returns the median of a system by the deciding figure.
    pub(crate) fn median(&self, system: &str) -> Option<f64> {
        let rows = self.panels.first().into_iter().flat_map(|panel| &panel.rows);
        rows.filter(|row| row.system == system).find_map(|row| row.median)
    }
}

/// The trials of all systems by one figure.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    /// `Puts per second`.
    pub(crate) title: String,
    pub(crate) better: Preference,
    /// Unit after a number: ` ms`, ` per second`.
    pub(crate) unit: &'static str,
    pub(crate) rows: Vec<Row>,
    /// Leader and its median; `None` if fewer than two systems are ranked.
    pub(crate) leader: Option<(String, f64)>,
    pub(crate) limit: Option<Limit>,
    /// Sentence about the bars.
    pub(crate) says: String,
}

/// One system by one figure.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) system: String,
    /// Version, or what else sets it apart.
    pub(crate) sub: String,
    /// Index in the study, which sets colour and mark.
    pub(crate) look: usize,
    pub(crate) dots: Vec<Dot>,
    pub(crate) median: Option<f64>,
    /// The median as text, or the reason why it is missing.
    pub(crate) value: String,
    /// 95 % interval of its ratio to the leader, times the leader's median.
    pub(crate) bar: Option<(f64, f64)>,
    pub(crate) published: Vec<f64>,
    /// Outage of the broken nodes' clients in seconds; `None` without a fault, or if it is unknown.
    pub(crate) broken_clients: Option<f64>,
}

/// A limit of the machine.
#[derive(Debug, Clone)]
pub(crate) struct Limit {
    pub(crate) per_second: f64,
    /// `limit of this disk`.
    pub(crate) name: &'static str,
    /// `65,262 synced appends per second`.
    pub(crate) text: String,
}

/// One trial.
#[derive(Debug, Clone)]
pub(crate) struct Dot {
    pub(crate) value: f64,
    pub(crate) valid: bool,
    /// System, trial, figure, and why it does not count.
    pub(crate) says: String,
}

/// Formats a number of a panel, without its unit.
pub(crate) fn number(value: f64) -> String {
    figure_text(value)
}
