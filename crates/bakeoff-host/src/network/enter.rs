//! `bakeoff __in-network PID DESCRIPTOR ARGS…`: runs bakeoff itself in a network namespace that another process holds.
//!
//! An ordinary user enters the holder's user namespace first. The program then has no rights over the network: they end
//! with `exec`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use nix::sched::{CloneFlags, setns};

/// Name of the internal command.
pub(crate) const COMMAND: &str = "__in-network";

/// Enters the namespace and becomes bakeoff with the remaining arguments. Returns only on failure.
pub(crate) fn run(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(pid), Some(descriptor)) = (args.next(), args.next()) else {
        return failed("a process and a descriptor are needed");
    };
    match enter(&Path::new("/proc").join(pid), Path::new(&descriptor)) {
        Ok(()) => {
            let error = Command::new("/proc/self/exe").arg0("bakeoff").args(args).exec();
            failed(&format!("cannot execute bakeoff: {error}"))
        }
        Err(error) => failed(&format!("cannot enter the node's network: {error}")),
    }
}

fn failed(why: &str) -> ExitCode {
    use std::io::Write as _;

    writeln!(io::stderr(), "{why}").ok();
    ExitCode::FAILURE
}

fn enter(holder: &Path, descriptor: &Path) -> io::Result<()> {
    let network = File::open(holder.join("fd").join(descriptor))?;
    let theirs = holder.join("ns/user");
    if fs::read_link(&theirs)? != fs::read_link("/proc/self/ns/user")? {
        setns(File::open(&theirs)?, CloneFlags::CLONE_NEWUSER)?;
    }
    Ok(setns(network, CloneFlags::CLONE_NEWNET)?)
}
