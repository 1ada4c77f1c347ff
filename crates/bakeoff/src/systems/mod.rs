//! What is known about each system, one folder each, and the registry that makes them exist.
//!
//! A folder says how its system is had, configured, asked for its leader, spoken to, and what it
//! promises. It starts nothing and measures nothing: a host runs what [`System::describe`] yields,
//! the engine drives the sessions. The command line, the tables of the docs and the tests derive
//! from [`registry`].

pub(crate) mod consul;
pub(crate) mod etcd;
pub(crate) mod zookeeper;
