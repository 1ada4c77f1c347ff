//! Keys of a workload: their number, size and order.
//!
//! Not here: their names (`names`), which one is next (`choose`).

use serde::{Deserialize, Serialize};

/// Which keys a workload touches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Keys {
    /// Number of different keys.
    pub count: u64,
    /// Length of each key's name in bytes; at least [`bare_size`](super::bare_size) of the count.
    pub size: u64,
    /// In which order.
    pub order: KeyOrder,
    /// Number of keys in a directory, which one `list` returns. 0: no directories.
    pub per_directory: u64,
}

/// The order in which keys are touched.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyOrder {
    /// 0, 1, 2, …, and again from 0.
    Sequential,
    /// Every key once, in scrambled order, warm-up included. More operations than keys is an error:
    /// of the study where that can be foreseen, else of the trial that runs out of them (a closed
    /// load that ends by time).
    Unique,
    /// Each as likely as any other.
    Uniform,
    /// Zipf's law: the n-th most popular key has weight n^-exponent.
    Zipfian {
        /// 0.99 unless the study says otherwise.
        exponent: f64,
    },
    /// A part of the keys takes most of the operations, evenly; the others share the rest.
    Hotspot {
        /// The share of keys that are hot; 0.2 unless the study says otherwise.
        keys: f64,
        /// The share of operations that go to them; 0.8 unless the study says otherwise.
        operations: f64,
    },
    /// Writes go through the keys in turn, evenly dealt among the operations; others ask for the keys that were
    /// written last, by Zipf's law.
    Latest {
        /// 0.99 unless the study says otherwise.
        exponent: f64,
    },
    /// The first key always.
    Same,
}
