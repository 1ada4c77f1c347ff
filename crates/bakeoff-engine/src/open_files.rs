//! This process's limits: sockets for its clients, CPUs for its threads.
//!
//! Not here: the machine as a record describes it (the binary).

use bakeoff_core::units::{count_text, plural};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::LoadError;

/// Open files of a generator besides connections: polls, timers, logs, pipes and the like.
pub const OTHER_FILES: u64 = 50;

/// Returns how many CPUs this process may run on.
pub fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// Raises the limit on open files as far as the system lets us, and returns it.
fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let now =
        if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    now.unwrap_or(u64::MAX)
}

/// Raises the limit on open files and returns it.
///
/// # Errors
/// When so many clients cannot have a socket each.
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
