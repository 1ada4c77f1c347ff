//! Runs a cluster of Consul servers and opens sessions to its key-value store.
//!
//! Consul syncs its Raft log before it acknowledges a write. We leave that on, and its Raft timing
//! as it comes, unless the study says otherwise.
//!
//! Not here: the wire format (`bakeoff_wire::http1`), timing (`engine`).

pub(crate) mod recipe;
