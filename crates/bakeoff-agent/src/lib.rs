//! bakeoff on other machines: the agent, and the coordinator's end of the pipe to it.
//!
//! An agent is a process on another machine that launches, signals, samples and reaps servers there. It hands orders
//! that only the binary knows, such as driving a share of a load, to the program around it ([`Duties`]). If the pipe
//! closes, the agent ends every process it started and removes its folder.
//!
//! There is no daemon and no port. A carrier (a child process, `ssh` or `kubectl exec`) moves the bytes both ways.
//!
//! `docs/agent.md` describes the protocol. Both ends accept any bytes and report an invalid frame or message as an
//! error.
//!
//! Not here: which machines a run uses (`bakeoff_core::places`), loads (the binary's `generators`).

mod agent_state;
mod carrier;
mod client;
mod clocks;
mod error;
mod frame;
mod frame_sender;
mod line;
mod message;
mod order;
mod remote_server;
mod round_trips;
mod serve;
pub mod transfer;
mod tunnel;

pub use agent_state::AgentState;
pub use carrier::{AgentExecutable, Carrier, own_machine};
pub use client::{Agent, Dialer, Exchange, IncomingFrame};
pub use clocks::{Offset, Origin};
pub use error::{AgentError, AgentRefusal};
pub use frame::read_json;
pub use line::{Line, ReplySender};
pub use message::{
    ClockReading, DialLine, FileStamp, Hello, LoadLine, NodeRequest, PROTOCOL, Request, TripTimes,
    WatchRequest,
};
pub use order::LaunchOrder;
pub use serve::{Duties, serve};
