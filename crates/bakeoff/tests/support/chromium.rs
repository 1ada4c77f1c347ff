//! Finds a browser for tests of the report's page: `CHROMIUM`, else the first usual name on `PATH`, else Debian's
//! headless Chromium, fetched once into bakeoff's cache.
//!
//! It comes with the fonts of one package, so that results do not depend on installed fonts.
//!
//! Not here: using the browser (`report_html`), fetching (`debian`).

use std::path::{Path, PathBuf};
use std::process::Command;

use super::debian::{ANSWER, DebianProgram, FetchProblem, finish, library_folders, on_path};

const NAMES: [&str; 5] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chromium-headless-shell",
];
const PROGRAM: &str = "usr/lib/chromium/chromium-headless-shell";
const PACKAGED: DebianProgram = DebianProgram {
    package: "chromium-headless-shell",
    // Without a font, text has no width.
    adjacent: &["fonts-dejavu-core"],
    // The C library must match the machine's loader. The desktop tools weigh 50 MB, and a headless browser never calls
    // them.
    there_already: &["libc6", "x11-utils", "xdg-utils"],
    file: Some(("fonts.conf", FONTS_CONF)),
    runs: |tree| Chromium::in_tree(tree).version().map(drop),
};
/// Only the fonts next to this file. The font cache is in the profile.
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

#[derive(Debug)]
pub(crate) struct Chromium {
    program: PathBuf,
    /// Folder of an unpacked package; `None` if installed.
    tree: Option<PathBuf>,
}

impl Chromium {
    /// Returns this machine's browser, else a cached or newly fetched one.
    pub(crate) fn find() -> Result<Self, FetchProblem> {
        let installed = |program: PathBuf| Self { program, tree: None };
        if let Some(asked) = std::env::var_os("CHROMIUM") {
            let asked = installed(asked.into());
            asked.version().map_err(|why| FetchProblem::Failed(format!("CHROMIUM: {why}")))?;
            return Ok(asked);
        }
        // On some distributions a program of this name only explains how to install another.
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

    /// Returns a command for the browser, with `home` for its files.
    pub(crate) fn command(&self, home: &Path) -> Command {
        // The DevTools pipe uses descriptors 3 and 4.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"]);
        command.arg(&self.program);
        self.prepare(&mut command, home);
        command
    }

    /// Returns a command for the browser without pipes, to take a picture.
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

    /// Returns the version, which proves that it starts with all its libraries.
    fn version(&self) -> Result<String, String> {
        let home = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        let mut command = Command::new(&self.program);
        self.prepare(&mut command, home.path());
        let name = format!("{} --version", self.program.display());
        finish(&name, command.args(["--no-sandbox", "--version"]), ANSWER)
    }
}
