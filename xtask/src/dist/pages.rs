//! Writes manual pages and shell completions, as bakeoff itself prints them.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::archive::PackageFile;
use crate::{Failure, run};

/// Where shells look for completions below `/usr`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/bakeoff"),
    ("zsh", "share/zsh/site-functions/_bakeoff"),
    ("fish", "share/fish/vendor_completions.d/bakeoff.fish"),
];

/// Returns the pages and completions of a bakeoff that runs on this machine, with their paths below `/usr`.
pub(super) fn pages(bakeoff: &Path) -> Result<Vec<PackageFile>, Failure> {
    let mut pages = Vec::new();
    for (shell, path) in COMPLETIONS {
        let printed = Command::new(bakeoff).args(["completions", shell]).output();
        let printed = printed.map_err(|error| format!("cannot run bakeoff: {error}"))?;
        pages.push(PackageFile::new(path, printed.stdout, 0o644));
    }
    let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    let mut manual = Command::new(bakeoff);
    manual.arg("manual").arg(folder.path());
    run(manual)?;
    let cannot = |error: std::io::Error| format!("cannot read the manual pages: {error}");
    for entry in fs::read_dir(folder.path()).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let path = format!("share/man/man1/{}", entry.file_name().to_string_lossy());
        pages.push(PackageFile::new(path, fs::read(entry.path()).map_err(cannot)?, 0o644));
    }
    pages.sort_by(|one, other| one.path.cmp(&other.path));
    match pages.iter().find(|page| page.bytes.is_empty()) {
        None => Ok(pages),
        Some(empty) => Err(format!("bakeoff printed nothing for `{}`", empty.path)),
    }
}
