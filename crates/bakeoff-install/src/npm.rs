//! Fetches an npm package and its dependencies with the `npm` client, and finds Node.js.
//!
//! The recipe has a lock file with every package's checksum. So npm refuses changed packages, and every machine gets
//! the same ones. Packages run no scripts during installation. bakeoff does not fetch Node.js, because npm comes with
//! it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::error::{RuntimeMissing, SourceError};
use super::refusal::{PackageError, Refusal};
use super::version::{VersionRequest, version_in};
use super::{FetchedFiles, Host, Job, tool};

/// A suitable Node.js.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) program: PathBuf,
    /// Version that it prints: `20.20.2`.
    pub(super) version: String,
}

/// Returns the Node.js on `PATH` if its major version is at least `needed`. The error has its version, if any.
pub(super) fn node(host: &Host, needed: u32) -> Result<Node, RuntimeMissing> {
    let program = tool::on_path("node", host.path.as_deref())
        .ok_or_else(|| RuntimeMissing::one("no `node` on PATH"))?;
    let (version, major) = ask(&program)?;
    if major < needed {
        let seen = format!("`{}` is Node.js {version}", program.display());
        return Err(RuntimeMissing::one(seen));
    }
    Ok(Node { program, version })
}

/// Runs Node.js to read its version. Returns the version and its major number.
pub(super) fn ask(program: &Path) -> Result<(String, u32), RuntimeMissing> {
    let output = tool::ask(Command::new(program).arg("--version"), Duration::from_secs(20))
        .map_err(|error| RuntimeMissing::one(error.to_string()))?;
    let version = version_in(&output);
    let major = |version: &String| version.split('.').next()?.parse::<u32>().ok();
    let numbered = version.and_then(|version| Some((version.clone(), major(&version)?)));
    numbered.ok_or_else(|| RuntimeMissing::without_version(program, "--version"))
}

/// Returns the reason why this machine cannot fetch npm packages; `None` if it can.
pub(super) fn unable(host: &Host) -> Option<String> {
    tool::on_path("npm", host.path.as_deref())
        .is_none()
        .then(|| "this machine has no `npm`".to_owned())
}

/// A package to fetch, as in [`Source::Npm`](super::Source::Npm).
#[derive(Debug, Clone, Copy)]
pub(super) struct LockedPackage<'a> {
    pub(super) package: &'a str,
    pub(super) version: &'a str,
    pub(super) script: &'a str,
    pub(super) lock: &'a str,
}

/// Installs the package into the job's tree.
pub(super) fn fetch(
    job: &mut Job<'_, '_>,
    locked: LockedPackage<'_>,
) -> Result<FetchedFiles, SourceError> {
    let LockedPackage { package, version, script, lock } = locked;
    VersionRequest::among(job.wanted, &[version]).map_err(SourceError::passed_over)?;
    if let Some(reason) = unable(job.host) {
        return Err(SourceError::PassedOver(reason));
    }
    for (name, text) in
        [("package.json", project(package, version)), ("package-lock.json", lock.into())]
    {
        let path = job.tree.join(name);
        fs::write(&path, text).map_err(|e| SourceError::io("write", &path, &e))?;
    }
    let doing = format!("{} {version}: fetching npm package {package}", job.system);
    job.watcher.say(&doing);
    let mut npm = job.host.command("npm");
    npm.current_dir(job.tree).args([
        "ci",
        "--ignore-scripts",
        "--omit=dev",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
    ]);
    job.call(&doing, Duration::from_secs(600)).run(&mut npm, job.watcher)?;
    let script = Path::new("node_modules").join(package).join(script);
    if !job.tree.join(&script).is_file() {
        return Err(SourceError::failed(format!("the package holds no `{}`", script.display())));
    }
    let mut files = Vec::new();
    plain_files(job.tree, Path::new("node_modules"), &mut files)
        .map_err(|e| SourceError::io("read", job.tree, &e))?;
    files.retain(|file| *file != script);
    files.sort();
    files.insert(0, script);
    Ok(FetchedFiles {
        source: format!("npm package {package} {version}"),
        version: version.to_owned(),
        files,
        libraries: Vec::new(),
        vouched: None,
        date: None,
    })
}

fn project(package: &str, version: &str) -> String {
    serde_json::json!({"private": true, "dependencies": {package: version}}).to_string()
}

/// Collects all regular files below a folder of the tree. Skips links.
fn plain_files(tree: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(tree.join(folder))? {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, folder.join(entry.file_name()));
        if kind.is_dir() {
            plain_files(tree, &path, found)?;
        } else if kind.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

/// Reads the version from the `package.json` next to a script.
pub(super) fn version_of(script: &Path) -> Result<String, Refusal> {
    let path = script.with_file_name("package.json");
    let refused = |error| Refusal::Package(path.clone(), error);
    let text = fs::read_to_string(&path).map_err(|e| refused(PackageError::Unreadable(e)))?;
    let package: serde_json::Value =
        serde_json::from_str(&text).map_err(|e| refused(PackageError::NotJson(e)))?;
    let version = package.get("version").and_then(serde_json::Value::as_str);
    version.and_then(version_in).ok_or_else(|| refused(PackageError::NoVersion))
}
