//! Finds out what else uses this machine, and which bakeoff runs on it.
//!
//! Not here: its description for the record (`bakeoff_fleet::environment`).

use std::net::{SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::path::Path;
use std::sync::OnceLock;

use bakeoff_core::study::{Study, System};
use bakeoff_host::beside::Presence;

use crate::failure::Failure;

/// Says that others work on this machine, like `--shared-machine`, where it is `1`: for tests that run
/// beside each other.
const SHARED_MACHINE: &str = "BAKEOFF_SHARED_MACHINE";

/// Returns whether bakeoff's environment says that others work on this machine.
pub(crate) fn is_machine_shared() -> bool {
    std::env::var(SHARED_MACHINE).is_ok_and(|value| value == "1")
}

/// Refuses a machine whose root lacks what servers are started and watched by: a chroot may.
pub(crate) fn refuse_bare_root() -> Result<(), Failure> {
    let needed = [
        ("/proc/self/exe", "mount -t proc proc /proc"),
        ("/dev/null", "mount --bind the host's /dev, or mknod /dev/null"),
    ];
    match needed.into_iter().find(|(path, _)| !Path::new(path).exists()) {
        None => Ok(()),
        Some((path, mend)) => Err(Failure::machine(format!(
            "`{path}` is not there, and bakeoff starts and watches servers by it\nhint: this may be a chroot: `{mend}`"
        ))),
    }
}

/// Returns whether another bakeoff measures on this machine, and says to others from the first call on that this one
/// does. `false` where others work on this machine anyway, as bakeoff was told.
pub(crate) fn is_another_bakeoff_here() -> bool {
    static PRESENCE: OnceLock<Presence> = OnceLock::new();
    PRESENCE.get_or_init(Presence::announce).is_another() && !is_machine_shared()
}

/// Returns true if an endpoint of a system that runs already is this machine's.
pub(crate) fn is_loaded_here(study: &Study) -> bool {
    // Only an address of its own can be bound.
    let is_own = |address: SocketAddr| UdpSocket::bind((address.ip(), 0)).is_ok();
    let endpoints = study.systems.iter().flat_map(System::endpoints);
    let mut found = endpoints.filter_map(|one| (&*one.host, one.port).to_socket_addrs().ok());
    found.any(|mut addresses| addresses.any(is_own))
}

/// Returns the SHA-256 of the bakeoff that runs; `None` where its file cannot be read.
pub(crate) fn own_sha256() -> Option<String> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    FOUND.get_or_init(|| bakeoff_install::sha256_of(Path::new("/proc/self/exe")).ok()).clone()
}
