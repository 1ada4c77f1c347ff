//! Implements wire protocols as values: bytes in, bytes out.
//!
//! Each file turns requests into bytes and received bytes into outcomes. Nothing here opens a socket, reads a clock,
//! knows a system or trusts its peer. Any input yields events or a [`ProtocolError`], never a panic, and every buffer
//! has a limit. So each protocol can be tested from a transcript, fuzzed, and run under TLS unchanged.
//!
//! ```
//! use bakeoff_wire::grpc::Client;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut client = Client::new("127.0.0.1:2379", false, &[]);
//! let mut out = Vec::new(); // the owner of the socket sends and clears it
//! client.open(&mut out);
//! let put = client.method("/etcdserverpb.KV/Put");
//! let asked = client.call(put, b"\x0a\x01k\x12\x01v", &mut out)?;
//! let received = b"\0\0\0\x04\0\0\0\0\0"; // an empty SETTINGS frame
//! client.receive(received, &mut out, &mut |answered, result| {
//!     assert_eq!(answered, asked);
//!     assert!(result.is_ok());
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! Not here: sockets, TLS, time and schedules (`bakeoff::engine`); the request that means "put" for a product
//! (`bakeoff_systems`).

pub mod canary;
mod error;
pub mod etcd;
pub mod grpc;
pub mod hpack;
mod hpack_tables;
pub mod http1;
pub mod http2;
pub mod in_order;
pub mod iproto;
pub mod memcached;
pub mod msgpack;
pub mod nats;
mod overhead;
pub mod postgres;
pub mod prometheus;
pub mod protobuf;
pub mod resp;
mod scram;
pub mod zookeeper;

pub use error::{Busy, ProtocolError};
