//! Wire protocols as values: bytes in, bytes out.
//!
//! Each file turns requests into bytes and received bytes into outcomes. Nothing here opens a
//! socket, reads a clock, knows a system, or trusts its peer: any input yields events or a
//! [`ProtocolError`], never a panic, and every buffer has a limit. So each protocol can be tested
//! from a transcript, fuzzed, and run under TLS unchanged.
//!
//! Not here: sockets, TLS, time and schedules (`bakeoff::engine`); which request means "put"
//! for which product (`bakeoff::systems`).

mod error;
pub mod grpc;
pub mod hpack;
mod hpack_tables;
pub mod http1;
pub mod http2;
pub mod protobuf;
pub mod zookeeper;

pub use error::{Busy, ProtocolError};
