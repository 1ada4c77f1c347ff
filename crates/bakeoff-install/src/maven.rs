//! Maven artifacts with all that they depend on, through the `mvn` client.
//!
//! A project description with nothing but the artifacts is written, and Maven copies their run-time
//! dependencies; with `--strict-checksums` a jar that is not what was published ends the fetch.
//! Maven's own repository in the user's home serves and is filled as for any build.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::cache::{self, Manifest};
use super::error::SourceError;
use super::recipe::{Pin, Vouched};
use super::version::VersionRequest;
use super::{Fetched, Host, Job, tool};

/// The plugin that copies; fixed, so that every machine runs the same.
const PLUGIN: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";

/// Why this machine cannot do it, if it cannot.
pub(super) fn unable(host: &Host) -> Option<String> {
    tool::on_path("mvn", host.path.as_deref())
        .is_none()
        .then(|| "this machine has no `mvn`".to_owned())
}

/// Fetches the artifacts into the job's tree.
pub(super) fn fetch(
    job: &mut Job<'_, '_>,
    artifacts: &[&str],
    versions: &[&str],
    pins: &[Pin],
) -> Result<Fetched, SourceError> {
    let version = VersionRequest::choose(job.wanted, versions).map_err(SourceError::passed_over)?;
    if let Some(reason) = unable(job.host) {
        return Err(SourceError::PassedOver(reason));
    }
    let pom = job.scratch.join("pom.xml");
    fs::write(&pom, project(artifacts, &version))
        .map_err(|e| SourceError::io("write", &pom, &e))?;
    let jars = job.tree.join("jars");
    let doing = format!("{} {version}: fetching Maven artifacts", job.system);
    job.watcher.say(&doing);
    let mut mvn = job.host.command("mvn");
    mvn.current_dir(job.scratch);
    mvn.args(["--batch-mode", "--no-transfer-progress", "--strict-checksums", "--file"])
        .arg(&pom)
        .arg(PLUGIN);
    mvn.arg("-DincludeScope=runtime").arg(format!("-DoutputDirectory={}", jars.display()));
    job.call(&doing, Duration::from_secs(900)).run(&mut mvn, job.watcher)?;
    let files = super::jars_in(&jars).map_err(|e| SourceError::io("read", &jars, &e))?;
    let first = artifacts.first().map_or(String::new(), |a| a.replace("{version}", &version));
    let inside = |jar: PathBuf| jar.file_name().map(|name| PathBuf::from("jars").join(name));
    let files: Vec<PathBuf> = files.into_iter().filter_map(inside).collect();
    let held = Manifest::read(job.tree, &files);
    let found = cache::hash_of_held(&held.map_err(|e| SourceError::io("read", job.tree, &e))?);
    let vouched = match Pin::find(pins, &version, "") {
        None => Vouched::Unpinned,
        Some(expected) if expected == found => Vouched::Pinned,
        Some(expected) => {
            return Err(SourceError::failed(format!(
                "the jars of {first} have SHA-256 {found}, and {expected} is pinned"
            )));
        }
    };
    Ok(Fetched {
        source: format!("Maven artifact {first}, {}", vouched.word()),
        version,
        files,
        libraries: Vec::new(),
        vouched: None,
        date: None,
    })
}

fn project(artifacts: &[&str], version: &str) -> String {
    let mut dependencies = String::new();
    for artifact in artifacts {
        let named = artifact.replace("{version}", version);
        let mut parts = named.split(':');
        let (group, id, version) = (parts.next(), parts.next(), parts.next());
        if let (Some(group), Some(id), Some(version)) = (group, id, version) {
            dependencies += &format!(
                "    <dependency><groupId>{group}</groupId><artifactId>{id}</artifactId>\
                 <version>{version}</version></dependency>\n"
            );
        }
    }
    format!(
        "<project>\n  <modelVersion>4.0.0</modelVersion>\n  <groupId>bakeoff</groupId>\n  \
         <artifactId>wrapper</artifactId>\n  <version>1</version>\n  <packaging>pom</packaging>\n  \
         <dependencies>\n{dependencies}  </dependencies>\n</project>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_names_each_artifact_with_its_version() {
        let text = project(&["g:a:{version}", "h:b:1.2", "no-version"], "3.9.3");
        assert!(
            text.contains("<groupId>g</groupId><artifactId>a</artifactId><version>3.9.3</version>")
        );
        assert!(text.contains("<artifactId>b</artifactId><version>1.2</version>"));
        assert_eq!(text.matches("<dependency>").count(), 2);
    }
}
