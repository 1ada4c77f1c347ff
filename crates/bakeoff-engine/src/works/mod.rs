//! What the engine can be given to do: operations on keys, and requests over HTTP.

pub mod http;
pub mod keyed;
