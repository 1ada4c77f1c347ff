//! Where a system's program comes from.
//!
//! A program is looked for where the user says, then on `PATH`, then in bakeoff's cache; only then
//! is one fetched, by the chain of sources that the system's recipe names. A source that
//! cannot deliver is passed over with its reason, and when all of them fail the error tells what
//! each of them said. Whatever was found is asked for its version and hashed, because a comparison
//! is worth nothing when it is not known what was compared.
//!
//! Nothing here needs root or changes the machine: everything fetched is in the cache (and in the
//! user's own caches of Go and npm, where those fetch).
//!
//! Not here: what a program is started with (`bakeoff_systems`), and starting it (`process`).

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

use serde::{Deserialize, Serialize};

pub use availability::{Availability, describe};
pub use cache::Cache;
pub use error::{InstallError, RuntimeMissing, SourceError};
pub use find::{is_on_path, named, own_sha256};
pub use hashes::sha256_of;
pub use place::foreign;
pub use recipe::{Algorithm, Jar, Libraries, Member, Pin, Recipe, Shape, Source};
pub use refusal::{AskError, Damage, PackageError, Refusal};
pub use runtime::{Runtime, RuntimeFound};
pub use seal::Seal;
pub use version::VersionRequest;

use cache::{Locked, Manifest};
use download::Limits;
use go_module::Build;
use tool::{Call, Watcher};
use version::upstream;

/// A program that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// The system that it is the program of.
    pub system: String,
    /// The version, as the program says or its build information proves; empty for a command that
    /// was not asked.
    pub version: String,
    /// Where it came from: `Debian package etcd-server 3.4.23-4+b4`.
    pub source: String,
    /// Path and arguments to execute.
    pub program: Program,
    /// The folders of the shared libraries that it is started with; none where it needs only the machine's.
    pub library_path: Vec<PathBuf>,
    /// SHA-256 of the executable or, for jars and scripts, of the sorted list of `sha256  name` lines.
    pub sha256: String,
    /// When it was built, or its version was made (`2024-10-29`): as the program says, as the module's
    /// commit, the package or the archive is dated.
    pub date: Option<String>,
    /// The folder that holds all of it, where it is in the cache.
    pub folder: Option<PathBuf>,
}

/// Path and arguments to execute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Program {
    /// An executable file.
    Binary(PathBuf),
    /// Jars for a Java runtime.
    Java {
        /// The machine's runtime.
        java: PathBuf,
        /// The runtime's version.
        java_version: String,
        /// The jars, in order.
        class_path: Vec<PathBuf>,
        /// The class that is the server.
        main_class: String,
    },
    /// A script for Node.js.
    Node {
        /// The machine's Node.js.
        node: PathBuf,
        /// Its version.
        node_version: String,
        /// The script.
        script: PathBuf,
    },
}

impl Installed {
    /// The program and its leading arguments. For Java they end with the class path: options of the
    /// runtime may follow, then the main class.
    pub fn command(&self) -> Vec<OsString> {
        match &self.program {
            Program::Binary(path) => vec![path.clone().into()],
            Program::Node { node, script, .. } => vec![node.clone().into(), script.clone().into()],
            Program::Java { java, class_path, .. } => {
                // No path holds a colon: a class path of such could not be asked for its version.
                let joined = class_path.iter().map(|jar| jar.as_os_str()).collect::<Vec<_>>();
                vec![java.clone().into(), "-cp".into(), joined.join(std::ffi::OsStr::new(":"))]
            }
        }
    }

    /// Environment variables for it and for every program beside it.
    pub fn env(&self) -> Vec<(String, String)> {
        library_path(&self.library_path).into_iter().collect()
    }

    /// The executable of another name that came with it: `initdb` of PostgreSQL. It is where the
    /// executable itself is, or where that one's link leads.
    pub fn beside(&self, name: &str) -> Option<PathBuf> {
        let Program::Binary(path) = &self.program else { return None };
        let real = path.canonicalize().ok();
        let places = [real.as_deref(), Some(path.as_path())];
        let beside = places.into_iter().flatten().map(|place| place.with_file_name(name));
        beside.into_iter().find(|path| tool::is_executable(path))
    }
}

/// The variable that makes a loader look into these folders first; `None` where there are none.
fn library_path(folders: &[PathBuf]) -> Option<(String, String)> {
    // bakeoff's own folder in the cache: a name that is not UTF-8 or holds a colon has been found to
    // fail when the program was asked for its version.
    let joined: Vec<_> = folders.iter().map(|folder| folder.to_string_lossy()).collect();
    (!joined.is_empty()).then(|| ("LD_LIBRARY_PATH".to_owned(), joined.join(":")))
}

/// Facts of the machine, gathered once, so that tests can make up another.
#[derive(Debug, Clone)]
pub struct Host {
    /// `PATH`.
    path: Option<OsString>,
    /// `JAVA_HOME`.
    java_home: Option<PathBuf>,
    /// `BAKEOFF_MIRROR`: `http://127.0.0.1:8080`, in place of scheme and host of every archive.
    mirror: Option<String>,
    /// The index of Python packages: `PIP_INDEX_URL`.
    index: String,
    /// Stands in for the host of every publisher's checksums: in tests alone, which reach no other.
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

    /// A call of the tool that this machine has under this name.
    fn command(&self, name: &str) -> Command {
        Command::new(tool::on_path(name, self.path.as_deref()).unwrap_or_else(|| name.into()))
    }
}

/// Place and tools that a source works with.
struct Job<'a, 'w> {
    system: &'static str,
    /// The executable's name; `None` for jars and scripts.
    executable: Option<&'static str>,
    wanted: Option<&'a VersionRequest>,
    host: &'a Host,
    /// For whatever is not kept.
    scratch: &'a Path,
    /// Folder for everything that is kept.
    tree: &'a Path,
    log: &'a Path,
    watcher: &'a mut Watcher<'w>,
}

impl<'a> Job<'a, '_> {
    /// A call of a tool whose output goes to this source's log.
    fn call<'d>(&self, doing: &'d str, limit: Duration) -> Call<'d>
    where
        'a: 'd,
    {
        Call { doing, log: self.log, limit }
    }
}

/// Delivery of a source in the job's tree.
#[derive(Debug)]
struct Fetched {
    version: String,
    source: String,
    /// The executable and those beside it or, in class-path order, the jars, relative to the tree.
    files: Vec<PathBuf>,
    /// The shared libraries that the executable is started with, relative to the tree.
    libraries: Vec<PathBuf>,
    /// The version proven by build information, which then counts for more than the program's word:
    /// a version number that release builds are given from outside is not in a Go module.
    vouched: Option<String>,
    /// When the version was made, where the source knows: the program itself may not.
    date: Option<String>,
}

/// Finds the program or fetches it, telling `progress` a line for each step. Setting `stop` ends
/// what is being done.
///
/// # Errors
/// When the user's own program will not do, no Java runtime is there for a system that needs one,
/// the cache cannot be used, no source could deliver, or `stop` was set.
pub fn install(
    recipe: &Recipe,
    wanted: Option<&VersionRequest>,
    own_program: Option<&Path>,
    cache: &Cache,
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<Installed, InstallError> {
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
) -> Result<Installed, InstallError> {
    let search = match find::Search::new(host, recipe, wanted, cache) {
        Err(InstallError::Java { system, needed, mut seen }) => {
            // With its version, so that an older one on `PATH` will not do.
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
    // Whoever held the lock may have fetched just this.
    let (found, broken) = search.in_cache(cache::Look::Hash);
    for (entry, reason) in broken {
        watcher.say(&format!(
            "{} {} in the cache is not what was fetched: {reason}; fetching it again",
            recipe.system, entry.manifest.version
        ));
        fs::remove_dir_all(&entry.dir).map_err(|e| cache::cannot("remove", &entry.dir, e))?;
    }
    if let Some(found) = found {
        return Ok(found);
    }
    let mut tried = Vec::new();
    // What was broken in the cache has been told of and removed.
    let on_path = |one: &find::Refused| matches!(one.place, find::Place::OnPath(_));
    for find::Refused { place, reason } in refused.into_iter().filter(on_path) {
        watcher.say(&format!("{}: {place} {reason}", recipe.system));
        tried.push((place.to_string(), SourceError::PassedOver(format!("it {reason}"))));
    }
    // A source that lists what is wanted comes before one that can only ask its host for it.
    let mut sources: Vec<&Source> = recipe.sources.iter().collect();
    sources.sort_by_key(|source| wanted.is_some() && source.guesses(wanted));
    for source in sources {
        match try_source(&search, source, &locked, cache, watcher)? {
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

/// Finds the program that `PATH` has, and no other. `None` when it has none.
///
/// # Errors
/// When a runtime is missing, or the program that is there will not do.
pub fn on_path(
    recipe: &Recipe,
    wanted: Option<&VersionRequest>,
) -> Result<Option<Installed>, InstallError> {
    find::on_path(&Host::from_environment(), recipe, wanted, &Cache::from_environment()?)
}

/// Starts a program as far as it takes to say its version: with its libraries, where they are.
///
/// # Errors
/// When it does not start, or says none.
pub fn starts(recipe: &Recipe, program: &Path, libraries: &[PathBuf]) -> Result<(), InstallError> {
    let (host, cache) = (Host::from_environment(), Cache::from_environment()?);
    find::starts(&host, recipe, (program, libraries), &cache)
}

/// Tries a source: fetches, asks for the version, hashes, and moves into the cache.
fn try_source(
    search: &find::Search<'_>,
    source: &Source,
    locked: &Locked,
    cache: &Cache,
    watcher: &mut Watcher<'_>,
) -> Result<Result<Installed, SourceError>, InstallError> {
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
            debian::fetch(&mut job, debian::Packages { packages, files, series, libraries })
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
            npm::fetch(&mut job, npm::Locked { package, version, script, lock })
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
        "{} {} is there: {}",
        recipe.system, entry.manifest.version, entry.manifest.source
    ));
    Ok(Ok(search.installed(&entry)))
}

/// The manifest of what was fetched, once the program has said that it is what was wanted.
fn proven(
    search: &find::Search<'_>,
    source: &Source,
    tree: &Path,
    fetched: Fetched,
) -> Result<Manifest, SourceError> {
    if fetched.files.is_empty() {
        return Err(SourceError::failed("it delivered no program"));
    }
    let paths: Vec<PathBuf> = fetched.files.iter().map(|file| tree.join(file)).collect();
    let library_path = cache::folders_of(tree, &fetched.libraries);
    let output = search.printed_version(&paths, &library_path).map_err(SourceError::failed)?;
    // A package's program may say the package's version, one of a wheel its commit: HAProxy's `2.8.25-5cf5d0683`.
    let may_extend = matches!(source, Source::Debian { .. } | Source::PyPi { .. });
    let packaged = may_extend.then(|| upstream(&output.version));
    let same = [Some(output.version.as_str()), packaged].contains(&Some(fetched.version.as_str()));
    if !same && fetched.vouched.is_none() {
        let (output, expected) = (&output.version, &fetched.version);
        return Err(SourceError::failed(format!(
            "what it delivered says that it is `{output}`, not `{expected}`"
        )));
    }
    if search.wanted.is_some_and(|wanted| !wanted.matches(&fetched.version)) {
        return Err(SourceError::failed(format!("it delivered `{}`", fetched.version)));
    }
    let mut manifest =
        Manifest::new(search.recipe.system, fetched.version, fetched.source, source.slug());
    manifest.date = match &fetched.vouched {
        // Vault says that it was built a year ago when nobody told it when it was.
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

/// The jars directly in a folder, sorted by name.
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
