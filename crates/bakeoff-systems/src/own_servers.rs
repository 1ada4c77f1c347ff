//! Names the internal commands that run bakeoff as a node of a system.
//!
//! Not here: the servers, which are in the crate `bakeoff`, and the path of the program (`bakeoff_host::own_program`).

/// Starts the canary, or the application: `bakeoff __canary --listen 127.0.0.1:PORT --data DIR …`.
pub const CANARY: &str = "__canary";

/// Starts the relay that adds a latency: `bakeoff __delay LISTEN TO LATENCY`, two addresses and a duration.
pub const DELAY: &str = "__delay";
