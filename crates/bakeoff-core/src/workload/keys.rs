//! Describes the keys of a workload: number, size and order.
//!
//! Not here: their names (`names`), the choice of the next one (`choose`).

use serde::{Deserialize, Serialize};

/// Describes the keys that a workload uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Keys {
    /// Number of different keys.
    pub count: u64,
    /// Length of each key's name in bytes; at least [`bare_size`](super::bare_size) of the count.
    pub size: u64,
    /// Order of access.
    pub order: KeyOrder,
    /// Number of keys in a directory, which one `list` returns; 0 without directories.
    pub per_directory: u64,
}

/// Selects the order in which keys are accessed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum KeyOrder {
    /// 0, 1, 2, …, and again from 0.
    Sequential,
    /// Every key once, in scrambled order, including the warm-up. More operations than keys is an error: of the study
    /// if that is foreseeable, otherwise of the trial that runs out of keys (a closed load that ends by time).
    Unique,
    /// All keys equally likely.
    Uniform,
    /// Zipf's law: the n-th most popular key has weight n^-exponent.
    Zipfian {
        /// Exponent; default 0.99.
        exponent: f64,
    },
    /// A share of the keys takes most of the operations, evenly; the other keys share the rest.
    Hotspot {
        /// Share of hot keys; default 0.2.
        keys: f64,
        /// Share of operations on hot keys; default 0.8.
        operations: f64,
    },
    /// Writes rotate through the keys, evenly spread among the operations. Other operations access the latest written
    /// keys, by Zipf's law.
    Latest {
        /// Exponent; default 0.99.
        exponent: f64,
    },
    /// Always the first key.
    Same,
}
