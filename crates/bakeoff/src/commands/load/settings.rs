//! The settings of `bakeoff load`, as its results repeat them.
//!
//! Nothing in it is secret: URLs come masked, headers by name alone.
//!
//! Not here: reading it from flags (`ask`), how it looks (`settings_text`, `json`).

use bakeoff_core::condition::Condition;
use bakeoff_core::schedule::Spacing;
use bakeoff_core::study::Rows;
use bakeoff_engine::{Connections, Drive};

use crate::cli::Ramp;

/// The settings of a load.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) requests: Vec<RequestShown>,
    /// The file with values for the requests' words.
    pub(super) rows: Option<Rows>,
    pub(super) course: Course,
    /// The distances between requests of an open load.
    pub(super) spacing: Spacing,
    pub(super) http2: bool,
    /// The path of the Unix domain socket that all connections go to.
    pub(super) unix_socket: Option<String>,
    /// Whether any certificate is accepted.
    pub(super) insecure: bool,
    /// Whether requests have words that are drawn at random.
    pub(super) is_random: bool,
    /// Each load of the course, but for its arrivals.
    pub(super) drive: Drive,
}

impl Settings {
    /// Returns how requests arrive, as records and JSON name it: `closed`, `constant`, `poisson`.
    pub(super) fn arrivals(&self) -> &'static str {
        match (&self.course, self.spacing) {
            (Course::Closed, _) => "closed",
            (_, Spacing::Constant) => "constant",
            (_, Spacing::Poisson) => "poisson",
        }
    }

    /// Returns the one rate of a load; a search has none.
    pub(super) fn rate(&self) -> Option<f64> {
        match self.course {
            Course::Rate(rate) => Some(rate),
            _ => None,
        }
    }

    /// Returns the rates of `--steps`.
    pub(super) fn steps(&self) -> &[f64] {
        match &self.course {
            Course::Steps(rates) => rates,
            _ => &[],
        }
    }

    /// Returns from which rate to which a ramp leads.
    pub(super) fn ramp(&self) -> Option<(f64, f64)> {
        match self.course {
            Course::Ramp(ramp) => Some((ramp.from, ramp.to)),
            _ => None,
        }
    }

    /// Returns whether connections serve more than one request.
    pub(super) fn keep_alive(&self) -> bool {
        self.drive.connections == Connections::Kept
    }
}

/// The rates of a load, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Course {
    /// A closed load.
    Closed,
    /// One rate, whose result is the load's.
    Rate(f64),
    /// From one rate to another, evenly.
    Ramp(Ramp),
    /// Several, each a row.
    Steps(Vec<f64>),
    /// The highest one that keeps all of this, from a first one on.
    FindMax { first: f64, objective: Vec<Condition> },
}

/// One of the requests.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RequestShown {
    /// Its row in tables, and its key in the measurement.
    pub(super) name: String,
    pub(super) method: String,
    /// Without what is secret.
    pub(super) url: String,
    pub(super) header_names: Vec<String>,
    pub(super) body_bytes: usize,
    pub(super) weight: u32,
}
