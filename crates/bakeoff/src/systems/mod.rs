//! What is known about each system, one folder each.

pub mod consul;
pub mod etcd;
pub mod zookeeper;
