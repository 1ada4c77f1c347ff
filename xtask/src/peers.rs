//! Other tools that do what bakeoff does, measured beside it.
//!
//! A claim about what bakeoff costs is worth something when anybody can repeat it, so a comparison
//! fetches the other tool itself, gives both the same work on the same machine in alternating
//! order, checks by the server's own counters that both did it, and writes down what came out.
//!
//! `kv`: etcd's `benchmark put`.

pub(crate) mod etcd;
pub(crate) mod kv;
mod measure;
mod summary;

use std::path::{Path, PathBuf};

use crate::Failure;

/// bakeoff's cache: `$BAKEOFF_CACHE`, else `$XDG_CACHE_HOME/bakeoff`, else `~/.cache/bakeoff`.
fn cache() -> Result<PathBuf, Failure> {
    let set =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(own) = set("BAKEOFF_CACHE") {
        return std::path::absolute(own).map_err(|error| format!("BAKEOFF_CACHE: {error}"));
    }
    let base = set("XDG_CACHE_HOME")
        .filter(|dir| dir.is_absolute())
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .ok_or("none of BAKEOFF_CACHE, XDG_CACHE_HOME and HOME is set")?;
    Ok(base.join("bakeoff"))
}

fn make_dir(dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir)
        .map_err(|error| format!("cannot make `{}`: {error}", dir.display()))
}
