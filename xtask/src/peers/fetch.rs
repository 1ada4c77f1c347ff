//! Fetches other tools' programs from package registries into bakeoff's cache, without root.
//!
//! Installed programs are used as they are. The machine's apt fetches Debian packages, which are unpacked into the
//! cache. Go programs are built by a wrapper module, so that Go's checksum database verifies them; it is never
//! switched off. Crates are installed by `cargo install` with their published lock file. A program in the cache is
//! always complete, because it is renamed into place last.
//!
//! Not here: installing the systems that bakeoff compares (`bakeoff_install`), which records far more about them.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bakeoff_install::apt;

use super::{cache, make_dir};
use crate::{Failure, run};

#[derive(Debug, Clone)]
pub(crate) struct Program {
    path: PathBuf,
    /// Folder of its shared libraries, if the system does not have them.
    libraries: Option<PathBuf>,
    pub(super) version: String,
}

impl Program {
    /// Returns a program without additional libraries.
    pub(crate) fn at(path: PathBuf, version: &str) -> Self {
        Self { path, libraries: None, version: version.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn command(&self) -> Command {
        self.prepare(Command::new(&self.path))
    }

    /// Makes `command`, which will become this program, find its libraries.
    pub(super) fn prepare(&self, mut command: Command) -> Command {
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command
    }
}

/// Returns a Go main package, built into the cache as `NAME-VERSION` if it is missing.
pub(super) fn go(
    name: &str,
    module: &str,
    package: &str,
    version: &str,
) -> Result<Program, Failure> {
    let peers = peers()?;
    let program = peers.join(format!("{name}-{version}"));
    if program.is_file() {
        return Ok(Program::at(program, version));
    }
    let go = |args: &[&str], dir: &Path| {
        let mut go = Command::new("go");
        go.args(args).current_dir(dir);
        go.env("CGO_ENABLED", "0").env("GOWORK", "off").env("GOFLAGS", "-mod=mod -buildvcs=false");
        go
    };
    let sums = go(&["env", "GOSUMDB"], &peers)
        .output()
        .map_err(|error| format!("cannot run `go`: {error}\nhint: {name} is built with Go"))?;
    if String::from_utf8_lossy(&sums.stdout).trim() == "off" {
        return Err("GOSUMDB is off, so downloaded modules cannot be verified".into());
    }
    println!("building {name} {version}");
    let scratch = scratch(&peers)?;
    let dir = scratch.path();
    run(go(&["mod", "init", "wrapper"], dir))?;
    run(go(&["get", &format!("{package}@v{version}")], dir))?;
    run(go(&["build", "-trimpath", "-ldflags", "-s -w", "-o", "program", package], dir))?;
    let built = dir.join("program");
    let about = go(&["version", "-m", "program"], dir).output();
    let about = about.map_err(|error| format!("cannot run `go version -m`: {error}"))?;
    let about = String::from_utf8_lossy(&about.stdout).into_owned();
    if !about.contains(&format!("{module}\tv{version}\t")) {
        return Err(format!("the built program does not report {module} v{version}"));
    }
    keep(&built, &program)?;
    Ok(Program::at(program, version))
}

/// Returns a crate's program, installed into the cache if it is missing.
pub(crate) fn from_crate(name: &str, version: &str) -> Result<Program, Failure> {
    let peers = peers()?;
    let place = peers.join(format!("{name}-{version}"));
    let program = place.join("bin").join(name);
    if program.is_file() {
        return Ok(Program::at(program, version));
    }
    println!("building {name} {version}");
    let scratch = scratch(&peers)?;
    let root = scratch.path().join("root");
    let mut install = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    install.args(["install", "--locked", "--version", version, name]);
    install.arg("--root").arg(&root).arg("--target-dir").arg(scratch.path().join("target"));
    // Run in a folder without a toolchain file or settings of this checkout.
    install.current_dir(scratch.path());
    run(install).map_err(|error| format!("cannot build {name} {version}: {error}"))?;
    keep(&root, &place)?;
    Ok(Program::at(program, version))
}

/// Debian's packages. The lists are fetched on first use and deleted at the end.
#[derive(Default)]
pub(crate) struct Debian {
    lists: OnceCell<tempfile::TempDir>,
}

impl Debian {
    /// Returns the program on `PATH`, or else the package's. `libraries` are packages of shared libraries that it
    /// needs and the machine may lack.
    pub(crate) fn program(
        &self,
        name: &str,
        package: &str,
        libraries: &[&str],
    ) -> Result<Program, Failure> {
        if let Some(path) = on_path(name) {
            let version = installed_version(package).unwrap_or_else(|| "as installed".to_owned());
            return Ok(Program { path, libraries: None, version });
        }
        let place = peers()?.join(format!("debian-{package}"));
        if !place.is_dir() {
            self.fetch(package, libraries, &place)?;
        }
        let version = fs::read_to_string(place.join("VERSION"))
            .map_err(|error| format!("cannot read the version of {package}: {error}"))?;
        let path = ["usr/bin", "usr/sbin", "bin"].map(|dir| place.join(dir).join(name));
        let path = path.into_iter().find(|path| path.is_file());
        let path = path.ok_or_else(|| format!("Debian's {package} has no `{name}`"))?;
        Ok(Program { path, libraries: Some(library_dirs(&place)?), version })
    }

    fn fetch(&self, package: &str, libraries: &[&str], place: &Path) -> Result<(), Failure> {
        println!("fetching Debian's {package}");
        let lists = match self.lists.get() {
            Some(lists) => lists,
            None => {
                let made = update()?;
                self.lists.get_or_init(|| made)
            }
        };
        let work = scratch(&peers()?)?;
        let debs = work.path().join("debs");
        make_dir(&debs)?;
        let mut download = apt_get(lists.path())?;
        download.current_dir(&debs).arg("download").arg(package).args(libraries);
        run(download).map_err(|error| format!("cannot fetch Debian's {package}: {error}"))?;
        let root = work.path().join("root");
        let items =
            fs::read_dir(&debs).map_err(|error| format!("cannot read a folder: {error}"))?;
        for deb in items.flatten().map(|item| item.path()) {
            let mut unpack = Command::new("dpkg");
            unpack.arg("-x").arg(&deb).arg(&root);
            run(unpack)?;
            // Names are like `wrk_4.1.0-3_amd64.deb`; a colon in the version is written as `%3a`.
            let file = deb.file_name().unwrap_or_default().to_string_lossy().replace("%3a", ":");
            let mut parts = file.split('_');
            if let (Some(name), Some(version)) = (parts.next(), parts.next())
                && name == package
            {
                fs::write(root.join("VERSION"), version)
                    .map_err(|error| format!("cannot write a version: {error}"))?;
            }
        }
        keep(&root, place)
    }
}

fn apt_get(dir: &Path) -> Result<Command, Failure> {
    let mut apt_get = Command::new("apt-get");
    apt::apart(&mut apt_get, dir)
        .map_err(|error| format!("cannot make `{}`: {error}", dir.display()))?;
    apt_get.arg("-qq");
    Ok(apt_get)
}

fn update() -> Result<tempfile::TempDir, Failure> {
    let dir = scratch(&peers()?)?;
    let mut update = apt_get(dir.path())?;
    update.arg("update");
    // Some of the machine's sources may be unreachable. Only the download of the packages counts.
    if let Err(error) = run(update) {
        println!("apt-get update: {error}");
    }
    Ok(dir)
}

/// Returns a program of the machine. Ignores links to bakeoff under the tool's name.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(OsString::from(":/usr/sbin:/usr/local/sbin"));
    let found =
        std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())?;
    let real = found.canonicalize().ok()?;
    (real.file_name()? != "bakeoff").then_some(found)
}

fn installed_version(package: &str) -> Option<String> {
    let asked =
        Command::new("dpkg-query").args(["-W", "-f", "${Version}", package]).output().ok()?;
    let version = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
    (asked.status.success() && !version.is_empty()).then_some(version)
}

/// Returns the library folder, such as `usr/lib/x86_64-linux-gnu`.
fn library_dirs(place: &Path) -> Result<PathBuf, Failure> {
    let lib = place.join("usr/lib");
    let mut dirs = fs::read_dir(&lib).into_iter().flatten().flatten().map(|entry| entry.path());
    let found = dirs.find(|dir| dir.to_string_lossy().contains("-linux-"));
    Ok(found.unwrap_or(lib))
}

fn peers() -> Result<PathBuf, Failure> {
    let peers = cache()?.join("peers");
    make_dir(&peers)?;
    Ok(peers)
}

/// Creates a temporary folder next to the final place, so that a rename suffices.
fn scratch(peers: &Path) -> Result<tempfile::TempDir, Failure> {
    let made = tempfile::Builder::new().prefix(".work-").tempdir_in(peers);
    made.map_err(|error| format!("cannot make a folder: {error}"))
}

fn keep(built: &Path, place: &Path) -> Result<(), Failure> {
    fs::rename(built, place).map_err(|error| format!("cannot keep a tool: {error}"))
}
