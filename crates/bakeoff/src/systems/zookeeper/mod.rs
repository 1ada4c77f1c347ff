//! Runs a ZooKeeper ensemble and opens sessions to it.
//!
//! ZooKeeper syncs its transaction log before it acknowledges a write (`forceSync`). We leave that
//! on unless the study says `sync: none`. It stores no settings of its own making: what its own
//! start script sets (the heap) is set here too, and named.
//!
//! Not here: the wire format (`bakeoff_wire::zookeeper`), timing (`engine`).

pub(crate) mod recipe;
