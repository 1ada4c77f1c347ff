//! Debian's apt with package lists and a cache in a folder of ours: it needs no rights and leaves the
//! machine as it was. Sources and keys are the machine's, so that signatures and hashes are verified
//! as for any installation.
//!
//! Not here: what is fetched, and how long it may take (`debian`).

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// Gives a call of `apt-get` or `apt-cache` the folder `dir` to work in, made if it is not there.
///
/// # Errors
/// When the folder cannot be made.
pub fn apart(command: &mut Command, dir: &Path) -> io::Result<()> {
    for folder in ["lists/partial", "archives/partial"] {
        fs::create_dir_all(dir.join(folder))?;
    }
    let mut option = |name: &str, value: &str| {
        command.arg("-o").arg(format!("{name}={value}"));
    };
    let dir = dir.display().to_string();
    option("Dir::State::Lists", &format!("{dir}/lists"));
    option("Dir::Cache", &dir);
    option("Acquire::Languages", "none");
    // Only what names packages is needed, not descriptions for software centres.
    for index in
        ["DEP-11", "DEP-11-icons-small", "DEP-11-icons", "DEP-11-icons-hidpi", "Contents-deb"]
    {
        option(&format!("Acquire::IndexTargets::deb::{index}::DefaultEnabled"), "false");
    }
    option("Acquire::Retries", "1");
    option("Acquire::http::Timeout", "15");
    option("Acquire::https::Timeout", "15");
    if rustix::process::geteuid().is_root() {
        // The user `_apt` cannot write into folders of ours.
        option("APT::Sandbox::User", "root");
    }
    command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
    Ok(())
}
