//! Implements the two kinds of work: operations on keys, and HTTP requests.

pub mod http;
pub mod keyed;
