//! The internal commands by which bakeoff serves as a node of a system.
//!
//! Not here: the servers, which are above the systems, and the program that knows them (`bakeoff_host::own_program`).

/// Starts the canary, or the application: `bakeoff __canary --listen 127.0.0.1:PORT --data DIR …`.
pub const CANARY: &str = "__canary";

/// Starts the relay that adds a latency: `bakeoff __delay LISTEN TO LATENCY`, two addresses and a duration.
pub const DELAY: &str = "__delay";
