//! Runs an etcd cluster and opens sessions to it.
//!
//! etcd syncs its log before it acknowledges a write. We leave that on: a faster number without it
//! would answer a different question. All of its own defaults stay as they are, unless the study
//! says otherwise.
//!
//! Not here: the wire format (`bakeoff_wire::grpc`), timing (`engine`).

pub(crate) mod recipe;
