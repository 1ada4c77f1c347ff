//! Where the tests of the report's page have a browser from: `CHROMIUM`, else the first of the usual
//! names on `PATH`, else Debian's headless Chromium, fetched once into bakeoff's cache.
//!
//! The fonts of one package come with it, so that what the tests see does not depend on what else is
//! installed.
//!
//! Not here: what is done with the browser (`report_html`), fetching (`debian`).

use std::path::{Path, PathBuf};
use std::process::Command;

use super::debian::{ANSWER, Missing, Packaged, finish, library_folders, on_path};

const NAMES: [&str; 5] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chromium-headless-shell",
];
const PROGRAM: &str = "usr/lib/chromium/chromium-headless-shell";
const PACKAGED: Packaged = Packaged {
    package: "chromium-headless-shell",
    // Without a font no text has a width.
    besides: &["fonts-dejavu-core"],
    // The C library, which must fit the machine's loader, and tools of a desktop that no headless browser
    // calls, but that weigh 50 MB.
    there_already: &["libc6", "x11-utils", "xdg-utils"],
    file: Some(("fonts.conf", FONTS_CONF)),
    runs: |tree| Chromium::in_tree(tree).version().map(drop),
};
/// The fonts beside this file and no others. What is found out about them is kept with the profile.
const FONTS_CONF: &str = r#"<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir prefix="relative">usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
  <alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>serif</family><prefer><family>DejaVu Serif</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"#;

/// A browser that can be started.
#[derive(Debug)]
pub(crate) struct Chromium {
    program: PathBuf,
    /// Where it was unpacked, if it was not installed.
    tree: Option<PathBuf>,
}

impl Chromium {
    /// The browser of this machine, else one that is fetched now if it was not before.
    pub(crate) fn find() -> Result<Self, Missing> {
        let installed = |program: PathBuf| Self { program, tree: None };
        if let Some(asked) = std::env::var_os("CHROMIUM") {
            let asked = installed(asked.into());
            asked.version().map_err(|why| Missing::Failed(format!("CHROMIUM: {why}")))?;
            return Ok(asked);
        }
        // Some distributions have a program of this name that only tells how to install another.
        let mut candidates = NAMES.iter().filter_map(|name| on_path(name)).map(installed);
        if let Some(found) = candidates.find(|candidate| candidate.version().is_ok()) {
            return Ok(found);
        }
        let tree = PACKAGED.tree()?;
        Ok(Self::in_tree(&tree))
    }

    fn in_tree(tree: &Path) -> Self {
        Self { program: tree.join(PROGRAM), tree: Some(tree.to_owned()) }
    }

    /// The browser's program, to be given its options, with `home` for whatever it leaves behind.
    pub(crate) fn command(&self, home: &Path) -> Command {
        // The pipe of its developer tools is on descriptors 3 and 4.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"]);
        command.arg(&self.program);
        self.prepare(&mut command, home);
        command
    }

    /// Returns the browser's program without pipes, for one picture.
    pub(crate) fn plain(&self, home: &Path) -> Command {
        let mut command = Command::new(&self.program);
        self.prepare(&mut command, home);
        command
    }

    fn prepare(&self, command: &mut Command, home: &Path) {
        if let Some(tree) = &self.tree {
            let libraries = std::env::join_paths(library_folders(tree));
            command.env("LD_LIBRARY_PATH", libraries.expect("a cache has no colon in its path"));
            command.env("FONTCONFIG_FILE", tree.join("fonts.conf")).env("XDG_CACHE_HOME", home);
        }
    }

    /// Returns its version: proof that it starts, with all its libraries.
    fn version(&self) -> Result<String, String> {
        let home = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        let mut command = Command::new(&self.program);
        self.prepare(&mut command, home.path());
        let name = format!("{} --version", self.program.display());
        finish(&name, command.args(["--no-sandbox", "--version"]), ANSWER)
    }
}
