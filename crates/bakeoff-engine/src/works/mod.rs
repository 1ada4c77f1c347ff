//! Implements the three kinds of work: operations on keys, HTTP requests, and gRPC calls.

pub mod grpc;
pub mod http;
pub mod keyed;
