//! Builds a file from a source archive against Debian's development packages, unpacked without root.
//!
//! Not here: the packages of the program itself (`debian`), the commands of the build (a system's recipe).

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use super::super::archive::{MemberSelection, fetch_hashed, from_tar_gz};
use super::super::cache::program_hash;
use super::super::download::Limits;
use super::super::error::SourceError;
use super::super::recipe::{Algorithm, SourceBuild};
use super::super::{Host, Job, hashes, tool};
use super::{Apt, apt, unpack};

/// Returns the reason why this machine cannot run the build; `None` if it can.
pub(in super::super) fn unable(host: &Host, build: &SourceBuild) -> Option<String> {
    let mut tools = build.tools.iter();
    let missing = tools.find(|name| tool::on_path(name, host.path.as_deref()).is_none())?;
    Some(format!("this machine has no `{missing}` to build {}", build.name))
}

/// Builds the file into the job's tree.
pub(super) fn run(
    job: &mut Job<'_, '_>,
    apt: &Apt<'_>,
    folder: &apt::Folder,
    build: &SourceBuild,
) -> Result<(), SourceError> {
    let SourceBuild { name, version, .. } = build;
    job.watcher.say(&format!(
        "{}: fetching the sources and development packages of {name} {version}",
        job.system
    ));
    let (development, source) = (job.scratch.join("development"), job.scratch.join("source"));
    for dir in [&development, &source] {
        fs::create_dir(dir).map_err(|e| SourceError::io("make", dir, &e))?;
    }
    unpack(job, apt, folder, build.packages, &development)?;

    let archive = job.scratch.join("archive");
    let url = build.archive.replace("{version}", version);
    let fetched = fetch_hashed(job, &url, &archive, Algorithm::Sha256, Limits::ARCHIVE)?;
    let packed = File::open(&archive).map_err(|e| SourceError::io("read", &archive, &e))?;
    let names = from_tar_gz(packed, &MemberSelection::All, &source)
        .map_err(|reason| SourceError::failed(format!("{}: {reason}", fetched.from)))?;
    let checksum = checksum(&source, names)?;
    if checksum != build.sha256 {
        return Err(SourceError::failed(format!(
            "the files of {} have SHA-256 {checksum}, not {} as pinned",
            fetched.from, build.sha256
        )));
    }

    job.watcher.say(&format!("{}: building {name} {version}, {}", job.system, build.takes));
    let mut script = job.host.command("sh");
    script
        .args(["-euc", build.script])
        .current_dir(&source)
        .env("DEVELOPMENT", &development)
        .env("TREE", job.tree);
    job.call(name, Duration::from_secs(600)).run(&mut script, job.watcher)
}

/// Returns the hash of the archive's files, which does not depend on its compression: hosts change that.
fn checksum(dir: &Path, names: Vec<String>) -> Result<String, SourceError> {
    let hashed = names.into_iter().map(|name| {
        let path = dir.join(&name);
        let sha256 = hashes::sha256_of(&path).map_err(|e| SourceError::io("read", &path, &e))?;
        Ok((name, sha256))
    });
    Ok(program_hash(&hashed.collect::<Result<Vec<_>, _>>()?))
}
