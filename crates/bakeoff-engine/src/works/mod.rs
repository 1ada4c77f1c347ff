//! The engine's two works: operations on keys, and requests over HTTP.

pub mod http;
pub mod keyed;
