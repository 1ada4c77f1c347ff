//! Settings of `bakeoff load`, as its results show them.
//!
//! They hold no secrets: URLs are masked, and headers are names without values.
//!
//! Not here: parsing flags (`load_request`), rendering (`settings_text`, `json`).

use bakeoff_core::condition::Condition;
use bakeoff_core::schedule::Spacing;
use bakeoff_core::study::Rows;
use bakeoff_engine::{Connections, Drive};

use crate::cli::Ramp;

#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) requests: Vec<RequestShown>,
    /// File with values for the words in requests.
    pub(super) rows: Option<Rows>,
    pub(super) course: Course,
    /// Spacing between the requests of an open load.
    pub(super) spacing: Spacing,
    pub(super) http2: bool,
    /// Path of the Unix domain socket for all connections.
    pub(super) unix_socket: Option<String>,
    /// True if bakeoff accepts any certificate.
    pub(super) insecure: bool,
    /// True if requests contain random words.
    pub(super) is_random: bool,
    /// Settings of each load of the course, without its arrivals.
    pub(super) drive: Drive,
}

impl Settings {
    /// Returns the arrivals by their name in records and JSON: `closed`, `constant` or `poisson`.
    pub(super) fn arrivals(&self) -> &'static str {
        match (&self.course, self.spacing) {
            (Course::Closed, _) => "closed",
            (_, Spacing::Constant) => "constant",
            (_, Spacing::Poisson) => "poisson",
        }
    }

    /// Returns the rate of an open load at a single rate.
    pub(super) fn rate(&self) -> Option<f64> {
        match self.course {
            Course::Rate(rate) => Some(rate),
            _ => None,
        }
    }

    /// Returns the rates of `--steps`, or an empty list.
    pub(super) fn steps(&self) -> &[f64] {
        match &self.course {
            Course::Steps(rates) => rates,
            _ => &[],
        }
    }

    /// Returns the first and the last rate of a ramp.
    pub(super) fn ramp(&self) -> Option<(f64, f64)> {
        match self.course {
            Course::Ramp(ramp) => Some((ramp.from, ramp.to)),
            _ => None,
        }
    }

    /// Returns true if connections serve more than one request.
    pub(super) fn keep_alive(&self) -> bool {
        self.drive.connections == Connections::Kept
    }
}

/// Rates of a load over time, per second.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Course {
    /// No rate: clients send as fast as they get answers.
    Closed,
    /// One constant rate.
    Rate(f64),
    /// Even change from one rate to another.
    Ramp(Ramp),
    /// Several rates in turn, each a row of the result.
    Steps(Vec<f64>),
    /// Search for the highest rate that keeps the whole objective, starting at `first`.
    FindMax { first: f64, objective: Vec<Condition> },
}

/// The parts of a request that can be shown.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RequestShown {
    /// Row name in tables, and key in the measurement.
    pub(super) name: String,
    pub(super) method: String,
    /// URL with its secrets masked.
    pub(super) url: String,
    pub(super) header_names: Vec<String>,
    pub(super) body_bytes: usize,
    pub(super) weight: u32,
}
