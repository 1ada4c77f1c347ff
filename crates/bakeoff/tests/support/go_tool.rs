//! Builds Go programs for tests into bakeoff's cache, from the module proxy.
//!
//! An empty wrapper module requires the program's modules, so Go's checksum database verifies them. A program is renamed
//! into place last, and a lock prevents concurrent builds.
//!
//! Not here: programs that users run too (`bakeoff_install`).

#![allow(clippy::disallowed_macros, reason = "a build takes minutes, and says so")]

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::debian::{FetchProblem, cache, finish, io_text, on_path, take};

/// Timeouts of downloads and of a build.
const DOWNLOADED: Duration = Duration::from_secs(600);
const BUILT: Duration = Duration::from_secs(1200);

/// A Go program.
#[derive(Debug, Hash)]
pub(crate) struct GoTool {
    pub(crate) name: &'static str,
    /// Modules with their versions: `example.org/module@v1.2.3`.
    pub(crate) requires: &'static [&'static str],
    pub(crate) main: GoMain,
    /// Build tags.
    pub(crate) tags: &'static str,
}

/// The main package of a Go program.
#[derive(Debug, Hash)]
pub(crate) enum GoMain {
    /// A package of one of its modules.
    Package(&'static str),
    /// Text of our own.
    Text(&'static str),
}

impl GoTool {
    /// Returns the program, built now or earlier.
    pub(crate) fn program(&self) -> Result<PathBuf, FetchProblem> {
        let name = self.name;
        if on_path("go").is_none() {
            return Err(FetchProblem::Unable(format!(
                "{name} is built with Go, which is not installed"
            )));
        }
        self.built().map_err(|why| FetchProblem::Failed(format!("{name} was not built: {why}")))
    }

    fn built(&self) -> Result<PathBuf, String> {
        let tools = cache()?.join("tools");
        let mut recipe = DefaultHasher::new();
        self.hash(&mut recipe);
        let program = tools.join(format!("go-{}-{:016x}", self.name, recipe.finish()));
        fs::create_dir_all(&tools).map_err(|error| io_text(&tools, &error))?;
        let lock_file = tools.join(".go-lock");
        let lock = File::create(&lock_file).map_err(|error| io_text(&lock_file, &error))?;
        take(&lock, &lock_file)?;
        if !program.is_file() {
            let work = tempfile::Builder::new().prefix(".go-work-").tempdir_in(&tools);
            let work = work.map_err(|error| io_text(&tools, &error))?;
            let built = self.build(work.path())?;
            fs::rename(&built, &program).map_err(|error| io_text(&program, &error))?;
        }
        Ok(program)
    }

    fn build(&self, dir: &Path) -> Result<PathBuf, String> {
        eprintln!("building {} with Go into bakeoff's cache", self.name);
        let began = Instant::now();
        let go = |args: &[&str], within| {
            let mut go = Command::new("go");
            go.args(args).current_dir(dir).env("CGO_ENABLED", "0").env("GOWORK", "off");
            go.env("GOFLAGS", "-mod=mod -buildvcs=false");
            finish(&format!("go {}", args[0]), &mut go, within)
        };
        if go(&["env", "GOSUMDB"], DOWNLOADED)?.trim() == "off" {
            return Err("GOSUMDB is off, so downloaded modules cannot be verified".into());
        }
        let package = match self.main {
            GoMain::Package(package) => package,
            GoMain::Text(text) => {
                let main = dir.join("main.go");
                fs::write(&main, text).map_err(|error| io_text(&main, &error))?;
                "."
            }
        };
        go(&["mod", "init", "wrapper"], DOWNLOADED)?;
        go(&[&["get"], self.requires].concat(), DOWNLOADED)?;
        let options = ["build", "-trimpath", "-ldflags", "-s -w", "-tags", self.tags];
        go(&[&options[..], &["-o", "program", package]].concat(), BUILT)?;
        eprintln!("built in {:.0} s", began.elapsed().as_secs_f64());
        Ok(dir.join("program"))
    }
}
