//! Where what is fetched is kept, and whose that is.
//!
//! Not here: what is in it (`cache`).

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// Returns bakeoff's cache, as this process's environment has it.
pub fn of_environment() -> Option<PathBuf> {
    cache(|name| std::env::var_os(name).map(PathBuf::from))
}

/// bakeoff's cache: `$BAKEOFF_CACHE`, else `$XDG_CACHE_HOME/bakeoff`, else `~/.cache/bakeoff`; `None`
/// when none of the three variables is set. `variable` reads the environment.
pub fn cache(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.as_os_str().is_empty());
    if let Some(own) = set("BAKEOFF_CACHE") {
        // Tools run elsewhere are told paths in here, so they must not depend on the folder.
        return Some(std::path::absolute(&own).unwrap_or(own));
    }
    // The XDG specification wants relative paths to be ignored.
    let xdg = set("XDG_CACHE_HOME").filter(|dir| dir.is_absolute());
    let base = xdg.or_else(|| set("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("bakeoff"))
}

/// Says, ready to stand after its name, why somebody else may have written a file or folder that names what we
/// execute; `None` where only we can.
pub fn foreign(found: &Metadata) -> Option<String> {
    let us = rustix::process::geteuid().as_raw();
    match (found.uid(), found.mode()) {
        (owner, _) if owner != us => Some(format!("is of the user with the id {owner}")),
        (_, mode) if mode & 0o022 != 0 => Some("can be written by other users".to_owned()),
        _ => None,
    }
}
