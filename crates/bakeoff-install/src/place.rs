//! Locates the cache folder.
//!
//! Not here: the contents of the cache (`cache`).

use std::path::PathBuf;

/// Returns the path of bakeoff's cache, according to this process's environment. See [`cache`].
pub fn of_environment() -> Option<PathBuf> {
    cache(|name| std::env::var_os(name).map(PathBuf::from))
}

/// Returns the path of bakeoff's cache: `$BAKEOFF_CACHE`, else `$XDG_CACHE_HOME/bakeoff`, else `~/.cache/bakeoff`.
/// `None` if none of the three variables is set. `variable` reads the environment.
pub fn cache(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.as_os_str().is_empty());
    if let Some(own) = set("BAKEOFF_CACHE") {
        // Tools that run in other folders get paths in the cache, so they must be absolute.
        return Some(std::path::absolute(&own).unwrap_or(own));
    }
    // The XDG specification ignores relative paths.
    let xdg = set("XDG_CACHE_HOME").filter(|dir| dir.is_absolute());
    let base = xdg.or_else(|| set("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("bakeoff"))
}
