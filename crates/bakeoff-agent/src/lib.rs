//! bakeoff on other machines: the agent, and the coordinator's end of the pipe to it.
//!
//! An agent is this machine's host behind a pipe. It launches servers, signals, samples and reaps them, and hands
//! what the binary adds (driving a share of a load) to whoever serves with it. When the pipe closes, all that it
//! started ends and its folder goes. There is no daemon and no port: a carrier (a child process, `ssh`, `kubectl
//! exec`) brings bytes to it and back.
//!
//! `docs/agent.md` describes the protocol. Both ends take any bytes: what is no frame, or no message, is an error.
//!
//! Not here: which machines a run uses (`bakeoff_core::places`), loads (the binary's `generators`).

mod carrier;
mod client;
mod clocks;
mod distant;
mod error;
mod frame;
mod line;
mod message;
mod order;
mod serve;
mod trips;
mod tunnel;
mod way;
mod workshop;

pub use carrier::{Carrier, Sent, own_machine};
pub use client::{Agent, Dialer, Exchange, Incoming};
pub use clocks::{Offset, Origin};
pub use error::{AgentError, AgentRefusal};
pub use frame::read_json;
pub use line::{Back, Line};
pub use message::{
    ClockReading, DialLine, FileStamp, Hello, LoadLine, NodeRequest, PROTOCOL, Request, TripsTold,
    WatchRequest,
};
pub use order::LaunchOrder;
pub use serve::{Duties, serve};
pub use workshop::Workshop;
