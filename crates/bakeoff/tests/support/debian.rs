//! Fetches programs for tests as Debian packages into bakeoff's cache, without root.
//!
//! The machine's apt fetches the packages and their dependencies, except the C library, which must be the machine's.
//! They are unpacked below `CACHE/tools`. A program is kept only if it runs. It is renamed into place last, and a lock
//! prevents concurrent fetches.
//!
//! Not here: programs that users run too (`bakeoff_install`).

#![allow(clippy::disallowed_macros, reason = "a fetch takes minutes, and says so")]

use std::fs::{self, File, TryLockError};
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bakeoff_install::{apt, place};

/// Timeouts: for another fetch, package lists, packages, unpacking one, and an answer.
const LOCKED: Duration = Duration::from_secs(1500);
const LISTS: Duration = Duration::from_secs(180);
const PACKAGES: Duration = Duration::from_secs(900);
const UNPACKED: Duration = Duration::from_secs(120);
pub(crate) const ANSWER: Duration = Duration::from_secs(30);

/// Reason why a program is missing.
#[derive(Debug, Clone)]
pub(crate) enum FetchProblem {
    /// This machine cannot fetch it, even with a network.
    Unable(String),
    /// Fetching failed.
    Failed(String),
}

/// A program in Debian packages.
pub(crate) struct DebianProgram {
    /// Package that names the folder in the cache.
    pub(crate) package: &'static str,
    /// Packages needed besides its dependencies.
    pub(crate) adjacent: &'static [&'static str],
    /// Packages that apt treats as installed.
    pub(crate) there_already: &'static [&'static str],
    /// Additional file: path and text.
    pub(crate) file: Option<(&'static str, &'static str)>,
    /// Checks that the program in this tree runs. The error is the reason why not.
    pub(crate) runs: fn(&Path) -> Result<(), String>,
}

impl DebianProgram {
    /// Returns the folder of the unpacked program, fetched now or earlier.
    pub(crate) fn tree(&self) -> Result<PathBuf, FetchProblem> {
        let lacking: Vec<&str> =
            ["apt-get", "dpkg"].into_iter().filter(|tool| on_path(tool).is_none()).collect();
        let package = self.package;
        if !lacking.is_empty() {
            let lacking = lacking.join(", ");
            return Err(FetchProblem::Unable(format!(
                "{package} not found (this machine has no {lacking} to fetch it with)"
            )));
        }
        self.fetched().map_err(|why| {
            FetchProblem::Failed(format!(
                "{package} not found, and not fetched: {why}\nhint: install it"
            ))
        })
    }

    fn fetched(&self) -> Result<PathBuf, String> {
        let tools = cache()?.join("tools");
        if tools.to_string_lossy().contains(':') {
            return Err(format!(
                "a folder of libraries may have no colon in it: {}",
                tools.display()
            ));
        }
        let place = tools.join(format!("debian-{}-{}", self.package, std::env::consts::ARCH));
        fs::create_dir_all(&tools).map_err(|error| io_text(&tools, &error))?;
        let lock_file = tools.join(".lock");
        let lock = File::create(&lock_file).map_err(|error| io_text(&lock_file, &error))?;
        take(&lock, &lock_file)?;
        if !place.is_dir() {
            // A killed fetch no longer holds the lock.
            for entry in fs::read_dir(&tools).into_iter().flatten().flatten() {
                if entry.file_name().as_encoded_bytes().starts_with(b".work-") {
                    let _ = fs::remove_dir_all(entry.path());
                }
            }
            let work = tempfile::Builder::new().prefix(".work-").tempdir_in(&tools);
            let work = work.map_err(|error| io_text(&tools, &error))?;
            let tree = work.path().join("tree");
            self.fetch(work.path(), &tree)?;
            (self.runs)(&tree).map_err(|why| format!("what was fetched does not run: {why}"))?;
            fs::rename(&tree, &place).map_err(|error| io_text(&place, &error))?;
        }
        (self.runs)(&place).map_err(|why| {
            format!("the one in {} does not run (delete it): {why}", place.display())
        })?;
        Ok(place)
    }

    /// Unpacks the packages and their dependencies into `tree`.
    fn fetch(&self, work: &Path, tree: &Path) -> Result<(), String> {
        eprintln!("fetching Debian's {} and its libraries into bakeoff's cache", self.package);
        let began = Instant::now();
        let apt_get = || -> Result<Command, String> {
            let mut command = Command::new("apt-get");
            apt::apart(&mut command, work).map_err(|error| io_text(work, &error))?;
            for (option, name) in [("Dir::State", ""), ("Dir::State::status", "status")] {
                command.arg("-o").arg(format!("{option}={}", work.join(name).display()));
            }
            command.arg("-qq");
            Ok(command)
        };
        let architecture = finish(
            "dpkg --print-architecture",
            Command::new("dpkg").arg("--print-architecture"),
            ANSWER,
        )?;
        let installed = self.there_already.iter().map(|package| {
            // Newer than any dependency demands.
            format!(
                "Package: {package}\nStatus: install ok installed\nArchitecture: {}\nVersion: 99:0\n\n",
                architecture.trim()
            )
        });
        fs::write(work.join("status"), installed.collect::<String>())
            .map_err(|error| io_text(work, &error))?;

        // Some package sources may be unreachable; only the packages matter.
        let updated = finish("apt-get update", apt_get()?.arg("update"), LISTS);
        let mut install = apt_get()?;
        install.args(["--yes", "--no-install-recommends", "--download-only", "install"]);
        finish("apt-get install", install.arg(self.package).args(self.adjacent), PACKAGES)
            .map_err(|why| match updated {
                Ok(_) => why,
                Err(first) => format!("{first}\n{why}"),
            })?;
        let archives = work.join("archives");
        let archives = fs::read_dir(&archives).map_err(|error| io_text(&archives, &error))?;
        for package in archives.flatten().map(|entry| entry.path()) {
            if package.extension().is_some_and(|extension| extension == "deb") {
                finish("dpkg -x", Command::new("dpkg").arg("-x").arg(package).arg(tree), UNPACKED)?;
            }
        }
        if let Some((path, text)) = self.file {
            let path = tree.join(path);
            fs::write(&path, text).map_err(|error| io_text(&path, &error))?;
        }
        eprintln!("fetched in {:.0} s", began.elapsed().as_secs_f64());
        Ok(())
    }
}

/// Returns the folders below `lib` and `usr/lib` with shared libraries.
pub(crate) fn library_folders(tree: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![tree.join("usr/lib"), tree.join("lib")];
    while let Some(folder) = waiting.pop() {
        let mut holds = false;
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                _ => holds |= entry.file_name().to_string_lossy().contains(".so"),
            }
        }
        if holds {
            found.push(folder);
        }
    }
    found
}

/// bakeoff's cache.
pub(crate) fn cache() -> Result<PathBuf, String> {
    let found = place::of_environment();
    found.ok_or_else(|| "none of BAKEOFF_CACHE, XDG_CACHE_HOME and HOME is set".to_owned())
}

pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|program| program.is_file())
}

/// Waits for the lock, which ends with its holder.
pub(crate) fn take(lock: &File, path: &Path) -> Result<(), String> {
    let give_up = Instant::now() + LOCKED;
    let mut reported = false;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(io_text(path, &error)),
            Err(TryLockError::WouldBlock) if Instant::now() > give_up => {
                return Err(format!("another holds {} for {LOCKED:?}", path.display()));
            }
            Err(TryLockError::WouldBlock) => {
                if !reported {
                    eprintln!("waiting for another that holds {}", path.display());
                    reported = true;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

/// Runs a program to its end and returns its output. An error has its name and the end of the output.
pub(crate) fn finish(
    name: &str,
    command: &mut Command,
    within: Duration,
) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("`{name}` cannot be run: {error}");
    let mut written = tempfile::tempfile().map_err(cannot)?;
    command.stdin(Stdio::null());
    command.stdout(written.try_clone().map_err(cannot)?);
    command.stderr(written.try_clone().map_err(cannot)?);
    let mut child = command.spawn().map_err(cannot)?;
    let give_up = Instant::now() + within;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(cannot)? {
            break status;
        }
        if Instant::now() > give_up {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("`{name}` was given up after {within:?}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut bytes = Vec::new();
    written.rewind().and_then(|()| written.read_to_end(&mut bytes)).map_err(cannot)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if status.success() {
        return Ok(text);
    }
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(8)..].join("\n  ");
    Err(format!("`{name}` ended with {status}\n  {last}"))
}

pub(crate) fn io_text(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
