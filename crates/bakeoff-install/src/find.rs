//! Finds a program that is already on this machine: the user's own, one on `PATH`, or one in the cache.
//!
//! Uses no network and builds nothing. A program outside the cache must report the requested version. In the cache, the
//! manifest has the version.

use std::cmp::Ordering;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::cache::{Cache, Entry, Look, hash_of_held, program_hash};
use super::error::InstallError;
use super::hashes::{sha256_of, sha256_of_text};
use super::java::{self, Java};
use super::npm::Node;
use super::recipe::{Recipe, Shape, Source};
use super::refusal::{Damage, Refusal};
use super::version::{VersionRequest, date_in, version_in};
use super::{Host, InstalledProgram, Program, go_module, jars_in, library_path, npm, tool};

/// Longest time for a program to print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(30);

/// Version and build date that a program printed.
#[derive(Debug)]
pub(super) struct PrintedVersion {
    pub(super) version: String,
    pub(super) date: Option<String>,
}

/// Result of a search.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a search makes one of them")]
pub(super) enum Finding {
    /// The first suitable program.
    Found(InstalledProgram),
    /// No program was suitable. Lists the unsuitable ones.
    Refused(Vec<RefusedProgram>),
}

/// A program that was found but is unsuitable.
#[derive(Debug)]
pub(super) struct RefusedProgram {
    pub(super) place: Place,
    /// Text that follows the place: `prints no version`.
    pub(super) reason: Refusal,
}

/// Place of a program that was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Path of the program on `PATH`.
    OnPath(PathBuf),
    /// Version of the program in the cache.
    InCache(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::OnPath(path) => write!(f, "`{}` on PATH", path.display()),
            Place::InCache(version) => write!(f, "`{version}` in the cache"),
        }
    }
}

impl fmt::Display for RefusedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.place, self.reason)
    }
}

/// Search for one program on one machine.
pub(super) struct Search<'a> {
    pub(super) host: &'a Host,
    pub(super) recipe: &'a Recipe,
    pub(super) wanted: Option<&'a VersionRequest>,
    cache: &'a Cache,
    /// Present for Java systems only.
    java: Option<Java>,
    /// Present for Node.js systems only.
    node: Option<Node>,
}

impl<'a> Search<'a> {
    /// Finds the runtime, if the system needs one.
    ///
    /// # Errors
    /// If no suitable Java runtime or Node.js was found.
    pub(super) fn new(
        host: &'a Host,
        recipe: &'a Recipe,
        wanted: Option<&'a VersionRequest>,
        cache: &'a Cache,
    ) -> Result<Self, InstallError> {
        let java = match recipe.shape {
            Shape::Binary { .. }
            | Shape::Accompanied { .. }
            | Shape::Go { .. }
            | Shape::Node { .. } => None,
            Shape::Java { java_major_min, .. } => {
                let lacking = |seen| InstallError::Java {
                    system: recipe.system.to_owned(),
                    needed: java_major_min,
                    seen,
                };
                Some(
                    java::find(host, || cached_java(host, cache), java_major_min)
                        .map_err(lacking)?,
                )
            }
        };
        let node = match recipe.shape {
            Shape::Binary { .. }
            | Shape::Accompanied { .. }
            | Shape::Go { .. }
            | Shape::Java { .. } => None,
            Shape::Node { node_major_min: needed, .. } => {
                let system = recipe.system.to_owned();
                let lacking = |seen| InstallError::Node { system, needed, seen };
                Some(npm::node(host, needed).map_err(lacking)?)
            }
        };
        Ok(Search { host, recipe, wanted, cache, java, node })
    }

    /// Returns the same search for another version.
    pub(super) fn for_version(&self, wanted: Option<&'a VersionRequest>) -> Self {
        Self { wanted, java: self.java.clone(), node: self.node.clone(), ..*self }
    }

    /// Finds the user's own program if given. Otherwise searches `PATH`, then the cache. A damaged program in the cache
    /// is found no more, and no other version in its place.
    pub(super) fn find(
        &self,
        own_program: Option<&Path>,
        look: Look,
    ) -> Result<Finding, InstallError> {
        if let Some(path) = own_program {
            let refuse = |reason| InstallError::OwnProgram {
                system: self.recipe.system.to_owned(),
                path: path.to_owned(),
                reason: Box::new(reason),
            };
            return self.own(path).map(Finding::Found).map_err(refuse);
        }
        let mut refused = Vec::new();
        if let Some(path) = self.candidate_on_path() {
            match self.on_path(&path) {
                Ok(found) => return Ok(Finding::Found(found)),
                Err(reason) => refused.push(RefusedProgram { place: Place::OnPath(path), reason }),
            }
        }
        self.cache.check_folders(self.recipe.system)?;
        let (found, broken) = self.in_cache(look);
        let found = found.filter(|_| broken.is_empty());
        refused.extend(broken.into_iter().map(|(entry, reason)| RefusedProgram {
            place: Place::InCache(entry.manifest.version),
            reason: Refusal::Damaged(reason),
        }));
        Ok(found.map_or(Finding::Refused(refused), Finding::Found))
    }

    fn own(&self, path: &Path) -> Result<InstalledProgram, Refusal> {
        let path = std::path::absolute(path).map_err(Refusal::NotFound)?;
        let files = own_files(self.recipe.shape, &path)?;
        self.proven(&files, format!("program given: {}", path.display()))
    }

    /// Returns the path of the recipe's executable on `PATH`.
    fn candidate_on_path(&self) -> Option<PathBuf> {
        let executable = self.recipe.shape.executable()?;
        tool::on_path(executable, self.host.path.as_deref())
    }

    /// Checks a program on `PATH`.
    fn on_path(&self, path: &Path) -> Result<InstalledProgram, Refusal> {
        let path = match self.recipe.shape {
            // `PATH` has a link to the script in its package.
            Shape::Node { .. } => path.canonicalize().map_err(Refusal::NotFound)?,
            _ => path.to_owned(),
        };
        let source = format!("found on PATH: {}", path.display());
        self.proven(&[path], source)
    }

    /// Accepts these files if they report the requested version.
    fn proven(&self, files: &[PathBuf], source: String) -> Result<InstalledProgram, Refusal> {
        let output = self.printed_version(files, &[])?;
        if let Some(wanted) = self.wanted.filter(|wanted| !wanted.matches(&output.version)) {
            return Err(Refusal::WrongVersion(output.version, wanted.clone()));
        }
        self.of_files(files, output, source)
    }

    /// Returns the best cached program, and damaged entries that would have been better.
    ///
    /// The best is the newest that matches the request. Of equal versions it is the one from the recipe's first source.
    pub(super) fn in_cache(&self, look: Look) -> (Option<InstalledProgram>, Vec<(Entry, Damage)>) {
        let rank = |entry: &Entry| {
            let at = |source: &Source| source.slug() == entry.manifest.source_kind;
            self.recipe.sources.iter().position(at).unwrap_or(usize::MAX)
        };
        // Another version of bakeoff may have built the program from other inputs.
        let current = |entry: &Entry| {
            let source = self.recipe.sources.get(rank(entry));
            source.is_some_and(|source| {
                sha256_of_text(&source.ingredients()) == entry.manifest.ingredients_sha256
            })
        };
        let mut entries = self.cache.entries(self.recipe.system);
        entries.retain(|entry| {
            self.wanted.is_none_or(|wanted| wanted.matches(&entry.manifest.version))
                && current(entry)
        });
        entries.sort_by(|a, b| {
            let newest = newer(&b.manifest.version, &a.manifest.version);
            let first = rank(a).cmp(&rank(b));
            newest.then(first)
        });
        let mut broken = Vec::new();
        for entry in entries {
            match entry.check(look) {
                Ok(()) => return (Some(self.installed(&entry)), broken),
                Err(reason) => broken.push((entry, reason)),
            }
        }
        (None, broken)
    }

    /// Describes a cached program.
    pub(super) fn installed(&self, entry: &Entry) -> InstalledProgram {
        let held = &entry.manifest.files;
        InstalledProgram {
            system: self.recipe.system.to_owned(),
            version: entry.manifest.version.clone(),
            source: entry.manifest.source.clone(),
            program: self.program(&entry.paths()),
            library_path: entry.library_path(),
            sha256: match (self.recipe.shape, held.as_slice()) {
                (Shape::Binary { .. } | Shape::Accompanied { .. }, [first, ..]) => {
                    first.sha256.clone()
                }
                _ => hash_of_held(held),
            },
            folder: Some(entry.dir.clone()),
            date: entry.manifest.date.clone().or_else(|| {
                let dated = ["debian", "archive"].contains(&entry.manifest.source_kind.as_str());
                entry.paths().first().filter(|_| dated).and_then(|path| file_date(path))
            }),
        }
    }

    fn of_files(
        &self,
        files: &[PathBuf],
        output: PrintedVersion,
        source: String,
    ) -> Result<InstalledProgram, Refusal> {
        Ok(InstalledProgram {
            system: self.recipe.system.to_owned(),
            version: output.version,
            source,
            program: self.program(files),
            library_path: Vec::new(),
            sha256: hash_of_files(files)?,
            date: output.date,
            folder: None,
        })
    }

    fn program(&self, files: &[PathBuf]) -> Program {
        if let Some(node) = &self.node {
            return Program::Node {
                node: node.program.clone(),
                node_version: node.version.clone(),
                script: files.first().cloned().unwrap_or_default(),
            };
        }
        match (self.recipe.shape, &self.java) {
            (Shape::Java { main_class, .. }, Some(java)) => Program::Java {
                java: java.program.clone(),
                java_version: java.version.clone(),
                class_path: files.to_vec(),
                main_class: main_class.to_owned(),
            },
            _ => Program::Binary(files.first().cloned().unwrap_or_default()),
        }
    }

    /// Reads the version of a program, from its output or its files. `libraries`: folders of shared libraries.
    pub(super) fn printed_version(
        &self,
        files: &[PathBuf],
        libraries: &[PathBuf],
    ) -> Result<PrintedVersion, Refusal> {
        if let (Shape::Accompanied { lacks, .. }, Some(program)) =
            (self.recipe.shape, files.first())
            && let Some(lacking) = lacks(program)
        {
            return Err(Refusal::Lacks(lacking));
        }
        let mut command = match (self.recipe.shape, &self.java) {
            (Shape::Binary { version_args, .. } | Shape::Accompanied { version_args, .. }, _) => {
                let mut command = Command::new(files.first().cloned().unwrap_or_default());
                command.args(version_args);
                command
            }
            (Shape::Java { version_class, .. }, Some(java)) => {
                let class_path = std::env::join_paths(files).map_err(Refusal::ClassPath)?;
                let mut command = Command::new(&java.program);
                command.arg("-cp").arg(class_path).arg(version_class);
                command
            }
            (Shape::Go { module, .. }, _) => {
                let program = files.first().map_or(Path::new(""), PathBuf::as_path);
                return Ok(PrintedVersion {
                    version: go_module::version_within(program, module)?,
                    date: None,
                });
            }
            (Shape::Node { .. }, _) => {
                let script = files.first().map_or(Path::new(""), PathBuf::as_path);
                return Ok(PrintedVersion { version: npm::version_of(script)?, date: None });
            }
            (Shape::Java { .. }, None) => return Err(Refusal::NeedsJava),
        };
        command.envs(library_path(libraries));
        let output = tool::ask(&mut command, VERSION_LIMIT).map_err(Refusal::Silent)?;
        match version_in(&output) {
            Some(version) => Ok(PrintedVersion { version, date: date_in(&output) }),
            None => Err(Refusal::NoVersion(None)),
        }
    }
}

/// Returns the Java runtime in the cache.
fn cached_java(host: &Host, cache: &Cache) -> Option<PathBuf> {
    let search = Search::new(host, &java::RECIPE, None, cache).ok()?;
    let (found, broken) = search.in_cache(Look::Hash);
    match found.filter(|_| broken.is_empty())?.program {
        Program::Binary(path) => Some(path),
        _ => None,
    }
}

/// Returns the files of a user's own program. `path` is absolute.
fn own_files(shape: Shape, path: &Path) -> Result<Vec<PathBuf>, Refusal> {
    Ok(match shape {
        _ if !path.exists() => return Err(Refusal::Missing),
        Shape::Binary { .. } | Shape::Accompanied { .. } | Shape::Go { .. }
            if tool::is_executable(path) =>
        {
            vec![path.to_owned()]
        }
        Shape::Binary { .. } | Shape::Accompanied { .. } | Shape::Go { .. } => {
            return Err(Refusal::NotExecutable);
        }
        Shape::Java { .. } => own_jars(path)?,
        // The path may be a link to the script in its package.
        Shape::Node { .. } => vec![path.canonicalize().map_err(Refusal::NotFound)?],
    })
}

fn hash_of_files(files: &[PathBuf]) -> Result<String, Refusal> {
    let mut hashes = Vec::new();
    for file in files {
        let sha256 = sha256_of(file).map_err(|e| Refusal::Unreadable(Some(file.clone()), e))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        hashes.push((name, sha256));
    }
    Ok(program_hash(&hashes))
}

/// Finds the program on `PATH` only. `None` if `PATH` has none.
pub(super) fn on_path(
    host: &Host,
    recipe: &Recipe,
    wanted: Option<&VersionRequest>,
    cache: &Cache,
) -> Result<Option<InstalledProgram>, InstallError> {
    let search = Search::new(host, recipe, wanted, cache)?;
    let Some(path) = search.candidate_on_path() else { return Ok(None) };
    let found = search.on_path(&path).map_err(|reason| InstallError::OwnProgram {
        system: recipe.system.to_owned(),
        path,
        reason: Box::new(reason),
    });
    found.map(Some)
}

/// Checks that a program starts and reports its version.
pub(super) fn starts(
    host: &Host,
    recipe: &Recipe,
    (program, libraries): (&Path, &[PathBuf]),
    cache: &Cache,
) -> Result<(), InstallError> {
    let search = Search::new(host, recipe, None, cache)?;
    let version = search.printed_version(&[program.to_owned()], libraries);
    version.map(drop).map_err(|reason| InstallError::OwnProgram {
        system: recipe.system.to_owned(),
        path: program.to_owned(),
        reason: Box::new(reason),
    })
}

/// Returns the SHA-256 of a user's own program, as in [`crate::InstalledProgram`], without executing it.
///
/// # Errors
/// If the program is missing, or does not have the recipe's shape.
pub fn own_sha256(recipe: &Recipe, path: &Path) -> Result<String, InstallError> {
    let hash = std::path::absolute(path)
        .map_err(Refusal::NotFound)
        .and_then(|path| hash_of_files(&own_files(recipe.shape, &path)?));
    hash.map_err(|reason| InstallError::OwnProgram {
        system: recipe.system.to_owned(),
        path: path.to_owned(),
        reason: Box::new(reason),
    })
}

/// Returns true if `PATH` has an executable of this name.
pub fn is_on_path(name: &str) -> bool {
    tool::on_path(name, Host::from_environment().path.as_deref()).is_some()
}

/// Finds the program of a command: a path, or a name on `PATH`. If `wanted` is given, the program must report that
/// version with `--version`. Otherwise the program is not started.
///
/// # Errors
/// If the program is missing, not executable, unreadable, or another version.
pub fn named(
    system: &str,
    word: &str,
    wanted: Option<&VersionRequest>,
) -> Result<InstalledProgram, InstallError> {
    let refuse = |reason| InstallError::Command {
        system: system.to_owned(),
        word: word.to_owned(),
        reason: Box::new(reason),
    };
    let host = Host::from_environment();
    let (path, source) = if word.contains('/') {
        let path = std::path::absolute(word).map_err(|error| refuse(Refusal::NotFound(error)))?;
        if !path.exists() {
            return Err(refuse(Refusal::Missing));
        }
        if !tool::is_executable(&path) {
            return Err(refuse(Refusal::NotExecutable));
        }
        let source = format!("command given: {}", path.display());
        (path, source)
    } else {
        let path = tool::on_path(word, host.path.as_deref());
        let path = path.ok_or_else(|| refuse(Refusal::NotOnPath))?;
        let source = format!("found on PATH: {}", path.display());
        (path, source)
    };
    let output = match wanted {
        None => PrintedVersion { version: String::new(), date: None },
        Some(wanted) => {
            let output = tool::ask(Command::new(&path).arg("--version"), VERSION_LIMIT);
            let output = output.map_err(|error| refuse(Refusal::Silent(error)))?;
            let version =
                version_in(&output).ok_or_else(|| refuse(Refusal::NoVersion(Some("--version"))))?;
            if !wanted.matches(&version) {
                return Err(refuse(Refusal::WrongVersion(version, wanted.clone())));
            }
            PrintedVersion { version, date: date_in(&output) }
        }
    };
    let sha256 = sha256_of(&path).map_err(|error| refuse(Refusal::Unreadable(None, error)))?;
    Ok(InstalledProgram {
        system: system.to_owned(),
        version: output.version,
        source,
        program: Program::Binary(path),
        library_path: Vec::new(),
        sha256,
        date: output.date,
        folder: None,
    })
}

/// Returns the date of a file's last change, which packages and archives preserve.
fn file_date(path: &Path) -> Option<String> {
    let modified = path.metadata().and_then(|file| file.modified()).ok()?;
    let date = jiff::Timestamp::try_from(modified).ok()?.strftime("%Y-%m-%d").to_string();
    // A build without a date has 1970, or 1980 in a zip.
    (!["1970", "1980"].contains(&&date[..4])).then_some(date)
}

/// Returns the jars at a user's path: one jar, a folder of jars, or an unpacked release with `lib/`.
fn own_jars(path: &Path) -> Result<Vec<PathBuf>, Refusal> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    for dir in [path.to_owned(), path.join("lib")] {
        match jars_in(&dir) {
            Ok(jars) if !jars.is_empty() => return Ok(jars),
            _ => {}
        }
    }
    Err(Refusal::NoJars)
}

/// Compares versions by their numbers, then as text.
fn newer(a: &str, b: &str) -> Ordering {
    let numbers = |version: &str| -> Vec<u64> {
        version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0)).collect()
    };
    numbers(a).cmp(&numbers(b)).then_with(|| a.cmp(b))
}
