//! Runs a program that refuses to be root, when we are.
//!
//! PostgreSQL does. It is started in a user namespace that maps our user to nobody and no user to
//! root: it is told that it is an ordinary user and holds no rights, while the files that we made
//! for it are its own. Changing to another user instead would mean to hand directories over, to
//! let that user through all those above them, and to lose the parent-death signal (`shim`).
//!
//! `unshare` of util-linux becomes the program, so that its process id, group, cgroup, affinity
//! and parent-death signal stay what they are.
//!
//! Not here: limits (`cgroup`), starting (`process`).

use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The user and group `nobody`, as Debian and the kernel number them.
const BECOME_NOBODY: &[&str] =
    &["unshare", "--user", "--map-user=65534", "--map-group=65534", "--"];

/// Reason why a program that refuses root cannot be run as somebody else: the words of `unshare`.
#[derive(Debug, thiserror::Error)]
#[error(
    "it refuses to run as root, and cannot be run as anybody else here: {0}\n\
     hint: run bakeoff as an ordinary user, or allow user namespaces"
)]
pub(super) struct CannotDropRoot(String);

/// Returns the words before a program and its arguments: none for one that may be root, or where we
/// are not. The error says why it cannot be done, and what may help.
pub(super) fn prefix(never_root: bool) -> Result<&'static [&'static str], &'static CannotDropRoot> {
    if !never_root || !rustix::process::geteuid().is_root() {
        return Ok(&[]);
    }
    static WORKS: OnceLock<Result<(), CannotDropRoot>> = OnceLock::new();
    WORKS.get_or_init(try_it).as_ref().map(|()| BECOME_NOBODY)
}

/// `unshare` becomes the program or ends; only its own words say which, so it is tried on `true`.
fn try_it() -> Result<(), CannotDropRoot> {
    let mut command = Command::new(BECOME_NOBODY[0]);
    command.args(&BECOME_NOBODY[1..]).arg("true").env("LANG", "C").stdin(Stdio::null());
    let message = match command.output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => format!("unshare: {error}"),
    };
    Err(CannotDropRoot(message))
}
