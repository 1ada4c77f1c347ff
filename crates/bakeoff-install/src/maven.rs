//! Fetches the jars of a program from Maven Central over HTTPS, without Maven.
//!
//! The recipe lists each jar with its SHA-256. So bakeoff parses no POM, and every machine has the same class path.

use std::fs;
use std::path::{Path, PathBuf};

use super::archive::fetch_pinned;
use super::error::SourceError;
use super::recipe::Jar;
use super::version::VersionRequest;
use super::{FetchedFiles, Job};

/// Base URL of Maven Central.
const CENTRAL: &str = "https://repo1.maven.org/maven2";

/// Fetches the jars into the job's tree.
pub(super) fn fetch(
    job: &mut Job<'_, '_>,
    (artifact, version): (&str, &str),
    jars: &[Jar],
) -> Result<FetchedFiles, SourceError> {
    VersionRequest::among(job.wanted, &[version]).map_err(SourceError::passed_over)?;
    let count = jars.len();
    job.watcher.say(&format!("{} {version}: fetching {count} jars from Maven Central", job.system));
    let into = job.tree.join("jars");
    fs::create_dir(&into).map_err(|e| SourceError::io("make", &into, &e))?;
    let mut files: Vec<PathBuf> = Vec::new();
    for jar in jars {
        let Some((folder, name)) = place(jar.artifact) else {
            return Err(SourceError::failed(format!("`{}` is not an artifact", jar.artifact)));
        };
        let url = format!("{CENTRAL}/{folder}/{name}");
        fetch_pinned(job, &url, &into.join(&name), jar.sha256)?;
        files.push(Path::new("jars").join(name));
    }
    files.sort();
    Ok(FetchedFiles {
        source: format!("Maven artifact {artifact}:{version}, pinned"),
        version: version.to_owned(),
        files,
        libraries: Vec::new(),
        vouched: None,
        date: None,
    })
}

/// Returns folder and file name of `group:artifact:version[:classifier]` in a Maven repository.
fn place(artifact: &str) -> Option<(String, String)> {
    let mut parts = artifact.split(':');
    let (group, id, version) = (parts.next()?, parts.next()?, parts.next()?);
    let classifier = parts.next().map_or(String::new(), |classifier| format!("-{classifier}"));
    let folder = format!("{}/{id}/{version}", group.replace('.', "/"));
    Some((folder, format!("{id}-{version}{classifier}.jar")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_give_the_path_of_a_jar() {
        let placed = |artifact| place(artifact).map(|(folder, name)| format!("{folder}/{name}"));
        assert_eq!(placed("a.b:c:1.2").as_deref(), Some("a/b/c/1.2/c-1.2.jar"));
        assert_eq!(placed("a:c:1:linux").as_deref(), Some("a/c/1/c-1-linux.jar"));
        assert_eq!(placed("a:c"), None);
    }
}
