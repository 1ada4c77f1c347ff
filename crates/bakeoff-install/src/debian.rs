//! Debian packages, fetched by the machine's own apt and unpacked without root.
//!
//! Some of the machine's sources may be unreachable: what counts is whether the packages were found.
//!
//! Not here: which libraries a package needs (`libraries`), and how apt is kept from the machine's own
//! lists and cache (`apt`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::error::SourceError;
use super::recipe::Libraries;
use super::version::{VersionRequest, upstream};
use super::{Fetched, Host, Job, apt, tool};

mod libraries;

/// Why this machine cannot do it, if it cannot.
pub(super) fn unable(host: &Host) -> Option<String> {
    let missing = |name| tool::on_path(name, host.path.as_deref()).is_none();
    let absent: Vec<&str> =
        ["apt-get", "apt-cache", "dpkg"].into_iter().filter(|name| missing(name)).collect();
    (!absent.is_empty()).then(|| format!("this machine has no `{}`", absent.join("` and no `")))
}

/// A request to the machine's package sources.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packages<'a> {
    pub(super) packages: &'a [&'a str],
    pub(super) files: &'a [&'a str],
    pub(super) series: &'a [&'a str],
    pub(super) libraries: Libraries,
}

/// Fetches and unpacks the packages into the job's tree.
pub(super) fn fetch(job: &mut Job<'_, '_>, asked: Packages<'_>) -> Result<Fetched, SourceError> {
    if let Some(reason) = unable(job.host) {
        return Err(SourceError::PassedOver(reason));
    }
    let folder = apt::Folder::make(job.scratch);
    let folder = folder.map_err(|e| SourceError::io("make a folder in", job.scratch, &e))?;
    let apt = Apt { dir: folder.path().to_owned(), host: job.host };
    job.watcher.say(&format!("{}: reading Debian's package lists", job.system));
    let updated = job
        .call("apt-get update", Duration::from_secs(180))
        .run(apt.command("apt-get")?.arg("update"), job.watcher);
    if let Err(SourceError::Interrupted) = updated {
        return Err(SourceError::Interrupted);
    }
    let Chosen { packages, version, series } = match choose_package(job, &apt, asked)? {
        Ok(chosen) => chosen,
        Err(NotOffered::Package(reason)) => {
            // Without lists the failure of the update is what the user must hear of.
            updated?;
            return Err(SourceError::PassedOver(reason));
        }
        Err(NotOffered::Version(reason)) => return Err(SourceError::PassedOver(reason)),
    };
    let main = &packages[0];
    let more = match asked.libraries {
        Libraries::Named => Vec::new(),
        Libraries::Unpacked => libraries::needed(job, &apt, &packages)?,
    };
    job.watcher.say(&match more.len() {
        0 => format!("{}: fetching Debian's {main} {version}", job.system),
        n => format!("{}: fetching Debian's {main} {version} and {n} libraries", job.system),
    });
    let debs = folder.downloads();
    let mut download = apt.command("apt-get")?;
    download
        .current_dir(&debs)
        .arg("download")
        .arg(format!("{main}={version}"))
        .args(packages[1..].iter().chain(&more));
    job.call("apt-get download", Duration::from_secs(900)).run(&mut download, job.watcher)?;
    for deb in listing(&debs)? {
        let mut unpack = job.host.command("dpkg");
        unpack.arg("-x").arg(&deb).arg(job.tree);
        job.call("dpkg -x", Duration::from_secs(120)).run(&mut unpack, job.watcher)?;
    }
    let unpacked = |file: &&str| {
        let file = in_series(file, series);
        let target = resolved(job.tree, &file)?;
        // A program may do what it is called: Debian's `redis-server` is a link to `redis-check-rdb`.
        Ok(if job.executable.is_some() { PathBuf::from(file) } else { target })
    };
    let files = asked.files.iter().map(unpacked).collect::<Result<_, SourceError>>()?;
    let libraries = match asked.libraries {
        Libraries::Named => Vec::new(),
        Libraries::Unpacked => libraries::unpacked(job.tree)?,
    };
    Ok(Fetched {
        version: upstream(&version).to_owned(),
        source: format!("Debian package {main} {version}"),
        files,
        libraries,
        vouched: None,
        date: None, // its files have one
    })
}

/// The packages to fetch, in the series found.
struct Chosen<'a> {
    /// At least one.
    packages: Vec<String>,
    /// Of the first one.
    version: String,
    series: &'a str,
}

/// The packages that the package sources lack.
enum NotOffered {
    Package(String),
    Version(String),
}

fn in_series(name: &str, series: &str) -> String {
    name.replace("{series}", series)
}

/// The first series of which the package sources have what is wanted.
fn choose_package<'a>(
    job: &mut Job<'_, '_>,
    apt: &Apt<'_>,
    asked: Packages<'a>,
) -> Result<Result<Chosen<'a>, NotOffered>, SourceError> {
    let Some(first) = asked.packages.first() else {
        return Err(SourceError::PassedOver("the recipe names no package".to_owned()));
    };
    let all = if asked.series.is_empty() { &[""][..] } else { asked.series };
    let mut seen = Vec::new();
    for series in all {
        let main = in_series(first, series);
        let madison = job
            .call("apt-cache madison", Duration::from_secs(60))
            .read(apt.command("apt-cache")?.args(["madison", &main]), job.watcher)?;
        let offered = offered_versions(&madison, &main);
        if let Some(version) = choose(&offered, job.wanted) {
            let packages = asked.packages.iter().map(|name| in_series(name, series)).collect();
            return Ok(Ok(Chosen { packages, version, series }));
        }
        seen.extend(offered);
    }
    Ok(Err(if seen.is_empty() {
        let name = in_series(first, &all.join("|"));
        NotOffered::Package(format!("this machine's package sources have no `{name}`"))
    } else {
        NotOffered::Version(format!("it has {}", seen.join(", ")))
    }))
}

struct Apt<'a> {
    dir: PathBuf,
    host: &'a Host,
}

impl Apt<'_> {
    fn command(&self, tool: &str) -> Result<Command, SourceError> {
        let mut command = self.host.command(tool);
        apt::apart(&mut command, &self.dir).map_err(|e| SourceError::io("make", &self.dir, &e))?;
        Ok(command)
    }
}

/// The versions of `package` in what `apt-cache madison` prints, the newest first.
fn offered_versions(madison: &str, package: &str) -> Vec<String> {
    let mut versions: Vec<String> = Vec::new();
    for line in madison.lines() {
        let mut columns = line.split('|').map(str::trim);
        if let (Some(name), Some(version), Some(from)) =
            (columns.next(), columns.next(), columns.next())
        {
            let sound = !version.is_empty()
                && !version.starts_with('-')
                && !version.contains(char::is_whitespace);
            if name == package
                && sound
                && !from.ends_with("Sources")
                && !versions.iter().any(|v| v == version)
            {
                versions.push(version.to_owned());
            }
        }
    }
    versions
}

fn choose(offered: &[String], wanted: Option<&VersionRequest>) -> Option<String> {
    let fits = |version: &&String| wanted.is_none_or(|wanted| wanted.matches(upstream(version)));
    offered.iter().find(fits).cloned()
}

fn listing(dir: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let items = fs::read_dir(dir).map_err(|e| SourceError::io("read", dir, &e))?;
    let mut files: Vec<PathBuf> = items.flatten().map(|item| item.path()).collect();
    files.retain(|file| file.extension().is_some_and(|ext| ext == "deb"));
    files.sort();
    Ok(files)
}

/// The file behind a name in the unpacked tree, which may be a link to another in it.
fn resolved(tree: &Path, file: &str) -> Result<PathBuf, SourceError> {
    let path = tree.join(file);
    let root = tree.canonicalize().map_err(|e| SourceError::io("find", tree, &e))?;
    let real = path
        .canonicalize()
        .map_err(|e| SourceError::failed(format!("the packages hold no `{file}`: {e}")))?;
    match real.strip_prefix(&root) {
        Ok(inside) => Ok(inside.to_owned()),
        Err(_) => Err(SourceError::failed(format!("`{file}` in the packages links out of them"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADISON: &str = "\
 zookeeper | 3.8.0-11+deb12u2 | http://mirror.example/debian bookworm/main amd64 Packages
 zookeeper | 3.8.0-11+deb12u1 | http://mirror.example/security bookworm-security/main amd64 Packages
 zookeeper | 3.8.0-11+deb12u1 | http://mirror.example/debian bookworm/main Sources
zookeeper-bin | 9.9 | http://mirror.example/debian bookworm/main amd64 Packages
 rubbish
";

    #[test]
    fn the_newest_package_that_fits_is_chosen() {
        let offered = offered_versions(MADISON, "zookeeper");
        assert_eq!(offered, ["3.8.0-11+deb12u2", "3.8.0-11+deb12u1"]);
        let choose = |wanted: &str| choose(&offered, Some(&wanted.parse().unwrap()));
        assert_eq!(choose("3.8").as_deref(), Some("3.8.0-11+deb12u2"));
        assert_eq!(choose("3.8.0").as_deref(), Some("3.8.0-11+deb12u2"));
        assert_eq!(choose("3.9"), None);
        assert!(offered_versions("", "zookeeper").is_empty());
    }

    #[test]
    fn a_link_out_of_the_unpacked_tree_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("real"), "x").unwrap();
        std::os::unix::fs::symlink("real", tree.join("inside")).unwrap();
        std::os::unix::fs::symlink("/bin/sh", tree.join("outside")).unwrap();
        assert_eq!(resolved(&tree, "inside").unwrap(), Path::new("real"));
        assert!(resolved(&tree, "outside").unwrap_err().to_string().contains("links out"));
        assert!(resolved(&tree, "absent").unwrap_err().to_string().contains("hold no"));
    }
}
