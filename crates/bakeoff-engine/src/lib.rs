//! Drives a load: connects the clients, starts them together and adds up their measurements.
//!
//! Uses threads and `epoll`, no async runtime. Everything between an operation's due time and its bytes on the wire
//! is here, and can be read in one sitting.
//!
//! Not here: operations and the verification of answers (implementors of `work::Work`), the configuration of a load
//! (`bakeoff_core::study`).

pub mod address;
pub mod blocking_http;
mod client;
mod collector;
mod drive;
mod error;
mod latency_batch;
mod lookup;
pub mod open_files;
mod own_limits;
pub mod peer;
pub mod routes;
mod shared_versions;
mod stage;
pub mod start_barrier;
pub mod timer;
pub mod tls;
pub mod transport;
mod turns;
pub mod watch;
mod window;
pub mod window_signal;
pub mod work;
mod worker;
pub mod works;

#[cfg(test)]
mod tests;

pub use bakeoff_clock as clock;
pub use collector::LoadProgress;
use drive::drive;
pub use error::{EngineError, LoadError};
pub use own_limits::ports_exhausted;
pub use stage::{Connections, Drive, Seconds};
pub use window::Window;
