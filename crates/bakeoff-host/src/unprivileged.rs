//! Runs a program that refuses to be root, when bakeoff runs as root.
//!
//! PostgreSQL refuses root. It starts in a user namespace that maps our user to `nobody` and no user to root. The
//! program then sees an ordinary user without privileges, and owns the files that we created for it. Switching to
//! another user would require changing the owner of directories, opening all parent directories to that user, and
//! losing the parent-death signal (`shim`).
//!
//! `unshare` of util-linux replaces itself with the program, so the process ID, group, cgroup, affinity and
//! parent-death signal stay.
//!
//! Not here: limits (`cgroup`), starting (`process`).

use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Arguments that map us to user and group `nobody`, as Debian and the kernel number them.
const BECOME_NOBODY: &[&str] =
    &["unshare", "--user", "--map-user=65534", "--map-group=65534", "--"];

/// The reason why a program cannot run as another user: the message of `unshare`.
#[derive(Debug, thiserror::Error)]
#[error(
    "it refuses to run as root, and this machine cannot run it as another user: {0}\n\
     hint: run bakeoff as an ordinary user, or allow user namespaces"
)]
pub(super) struct CannotDropRoot(String);

/// Returns the command prefix for a program; empty if it may be root or we are not root.
pub(super) fn prefix(never_root: bool) -> Result<&'static [&'static str], &'static CannotDropRoot> {
    if !never_root || !rustix::process::geteuid().is_root() {
        return Ok(&[]);
    }
    static WORKS: OnceLock<Result<(), CannotDropRoot>> = OnceLock::new();
    WORKS.get_or_init(try_it).as_ref().map(|()| BECOME_NOBODY)
}

/// Tests `unshare` with `true`. After `unshare` has become the program, the exit code could be of either.
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
