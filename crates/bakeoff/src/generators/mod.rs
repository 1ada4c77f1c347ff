//! Load generators on other machines: shares of a load, each driven by an agent that owns its keys.
//!
//! Not here: the loop (`bakeoff_engine`), the way to an agent (`bakeoff_agent`).

mod begin;
pub(crate) mod drive;
mod http;
pub(crate) mod order;
pub(crate) mod requests;
pub(crate) mod serve;
