//! Reports this process's limits: sockets for clients, CPUs for threads.
//!
//! Not here: the machine description in a record (the binary).

use bakeoff_core::units::{count_text, plural};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::LoadError;

/// Open files of a generator other than connections, such as polls, timers, logs and pipes.
pub const OTHER_FILES: u64 = 50;

/// Returns the number of CPUs this process may run on.
pub fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// Raises the limit on open files to the hard limit and returns it.
fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let now =
        if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    now.unwrap_or(u64::MAX)
}

/// Raises the limit on open files for `clients` connections and returns the new limit.
///
/// # Errors
/// Fails if the limit is too low for one socket per client.
pub fn raise_for(clients: u32) -> Result<u64, LoadError> {
    let allowed = raise();
    let needed = u64::from(clients) + OTHER_FILES;
    if needed <= allowed {
        return Ok(allowed);
    }
    let verb = if clients == 1 { "needs" } else { "need" };
    Err(LoadError::Machine(format!(
        "{} {verb} {} open files, and this process may have {}\nhint: raise the limit (`ulimit -Hn`), or use \
         fewer clients",
        plural(clients.into(), "client"),
        count_text(needed),
        count_text(allowed)
    )))
}
