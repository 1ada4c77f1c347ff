//! Where what is fetched is kept.
//!
//! Not here: what is in it (`cache`).

use std::path::PathBuf;

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
