//! Checks this machine before a run: other runs on it, a bare root, its own endpoints.
//!
//! Not here: its description for the record (`bakeoff_fleet::environment`).

use std::net::{SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::path::Path;
use std::sync::OnceLock;

use bakeoff_core::study::{Study, System};
use bakeoff_fleet::error::FleetError;
use bakeoff_host::instance_lock::Presence;

/// Environment variable that has the effect of `--shared-machine` if it is `1`. Tests run next to each other with it.
const SHARED_MACHINE: &str = "BAKEOFF_SHARED_MACHINE";

/// Returns true if the environment variable `BAKEOFF_SHARED_MACHINE` is `1`.
pub fn is_machine_shared() -> bool {
    std::env::var(SHARED_MACHINE).is_ok_and(|value| value == "1")
}

/// Refuses a root without `/proc` or `/dev/null`, such as a bare chroot.
///
/// # Errors
/// Names the missing file and the command that mounts it.
pub fn refuse_bare_root() -> Result<(), FleetError> {
    let needed = [
        ("/proc/self/exe", "mount -t proc proc /proc"),
        ("/dev/null", "mount --bind the host's /dev, or mknod /dev/null"),
    ];
    match needed.into_iter().find(|(path, _)| !Path::new(path).exists()) {
        None => Ok(()),
        Some((path, mend)) => Err(FleetError::machine(format!(
            "`{path}` does not exist; bakeoff needs it to start and watch servers\nhint: this may be a chroot: `{mend}`"
        ))),
    }
}

/// Announces this run to other runs on this machine, and returns true if there is one.
///
/// Returns false if the environment variable `BAKEOFF_SHARED_MACHINE` is `1`.
pub fn is_another_bakeoff_here() -> bool {
    static PRESENCE: OnceLock<Presence> = OnceLock::new();
    PRESENCE.get_or_init(Presence::announce).is_another() && !is_machine_shared()
}

/// Returns true if a system that runs already has an endpoint on this machine.
pub fn is_loaded_here(study: &Study) -> bool {
    // A machine can bind its own addresses only.
    let is_own = |address: SocketAddr| UdpSocket::bind((address.ip(), 0)).is_ok();
    let endpoints = study.systems.iter().flat_map(System::endpoints);
    let mut found = endpoints.filter_map(|one| (&*one.host, one.port).to_socket_addrs().ok());
    found.any(|mut addresses| addresses.any(is_own))
}

/// Returns the SHA-256 of this program in hexadecimal, or `None` if its file cannot be read.
pub fn own_sha256() -> Option<String> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    FOUND.get_or_init(|| bakeoff_install::sha256_of(Path::new("/proc/self/exe")).ok()).clone()
}
