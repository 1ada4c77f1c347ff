//! Fetches Debian packages with the machine's apt, and unpacks them without root.
//!
//! Some of the machine's package sources may be unreachable, as long as the packages are found.
//!
//! Not here: the libraries of a package (`libraries`), the separation from the machine's own lists and cache (`apt`).

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::error::SourceError;
use super::recipe::{Libraries, SourceBuild};
use super::version::{VersionRequest, upstream};
use super::{FetchedFiles, Host, Job, apt, tool};

pub(super) mod build;
mod libraries;

/// Returns the reason why this machine cannot fetch Debian packages; `None` if it can.
pub(super) fn unable(host: &Host) -> Option<String> {
    let missing = |name| tool::on_path(name, host.path.as_deref()).is_none();
    let absent: Vec<&str> =
        ["apt-get", "apt-cache", "dpkg"].into_iter().filter(|name| missing(name)).collect();
    (!absent.is_empty()).then(|| format!("this machine has no `{}`", absent.join("` and no `")))
}

/// Packages to fetch, as in [`Source::Debian`](super::Source::Debian).
#[derive(Debug, Clone, Copy)]
pub(super) struct Packages<'a> {
    pub(super) packages: &'a [&'a str],
    pub(super) files: &'a [&'a str],
    pub(super) series: &'a [&'a str],
    pub(super) libraries: Libraries,
    /// File to build into the same tree.
    pub(super) build: Option<&'a SourceBuild>,
}

/// Fetches and unpacks the packages into the job's tree.
pub(super) fn fetch(
    job: &mut Job<'_, '_>,
    asked: Packages<'_>,
) -> Result<FetchedFiles, SourceError> {
    let no_tool = || asked.build.and_then(|build| build::unable(job.host, build));
    if let Some(reason) = unable(job.host).or_else(no_tool) {
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
    let SeriesPackages { packages, version, series } = match choose_package(job, &apt, asked)? {
        Ok(chosen) => chosen,
        Err(NotOffered::Package(reason)) => {
            // A failed update explains the missing package.
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
    let mut all = vec![format!("{main}={version}")];
    all.extend(packages[1..].iter().chain(&more).cloned());
    let adjacent = asked.build.map_or(&[][..], |build| build.runs_with);
    all.extend(adjacent.iter().map(|package| (*package).to_owned()));
    unpack(job, &apt, &folder, &all, job.tree)?;
    if let Some(build) = asked.build {
        build::run(job, &apt, &folder, build)?;
    }
    let unpacked = |file: &&str| {
        let file = in_series(file, series);
        let target = resolved(job.tree, &file)?;
        // A program may act on the name it is started by: Debian's `redis-server` is a link to `redis-check-rdb`.
        Ok(if job.executable.is_some() { PathBuf::from(file) } else { target })
    };
    let files = asked.files.iter().map(unpacked).collect::<Result<_, SourceError>>()?;
    let libraries = match asked.libraries {
        Libraries::Named => Vec::new(),
        Libraries::Unpacked => libraries::unpacked(job.tree)?,
    };
    Ok(FetchedFiles {
        version: upstream(&version).to_owned(),
        source: match asked.build {
            None => format!("Debian package {main} {version}"),
            Some(SourceBuild { name, version: built, .. }) => {
                format!("Debian package {main} {version}, with {name} {built} built here")
            }
        },
        files,
        libraries,
        vouched: None,
        date: None, // `Search::installed` uses the file's date
    })
}

/// Downloads packages, each a name or `NAME=VERSION`, and unpacks them into a folder.
fn unpack(
    job: &mut Job<'_, '_>,
    apt: &Apt<'_>,
    folder: &apt::Folder,
    packages: &[impl AsRef<OsStr>],
    into: &Path,
) -> Result<(), SourceError> {
    let debs = folder.downloads();
    let mut download = apt.command("apt-get")?;
    download.current_dir(&debs).arg("download").args(packages);
    job.call("apt-get download", Duration::from_secs(900)).run(&mut download, job.watcher)?;
    for deb in listing(&debs)? {
        let mut unpack = job.host.command("dpkg");
        unpack.arg("-x").arg(&deb).arg(into);
        job.call("dpkg -x", Duration::from_secs(120)).run(&mut unpack, job.watcher)?;
        fs::remove_file(&deb).map_err(|e| SourceError::io("remove", &deb, &e))?;
    }
    Ok(())
}

/// Packages of the chosen series.
struct SeriesPackages<'a> {
    /// At least one.
    packages: Vec<String>,
    /// Version of the first package.
    version: String,
    series: &'a str,
}

/// Reason why the package sources have no match.
enum NotOffered {
    Package(String),
    Version(String),
}

fn in_series(name: &str, series: &str) -> String {
    name.replace("{series}", series)
}

/// Chooses the first series whose packages have the requested version.
fn choose_package<'a>(
    job: &mut Job<'_, '_>,
    apt: &Apt<'_>,
    asked: Packages<'a>,
) -> Result<Result<SeriesPackages<'a>, NotOffered>, SourceError> {
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
            return Ok(Ok(SeriesPackages { packages, version, series }));
        }
        seen.extend(offered);
    }
    Ok(Err(if seen.is_empty() {
        let name = in_series(first, &all.join("|"));
        NotOffered::Package(format!("this machine's package sources have no `{name}`"))
    } else {
        NotOffered::Version(format!("it only has {}", seen.join(", ")))
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

/// Returns the versions of `package` in the output of `apt-cache madison`, the newest first.
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

/// Follows links of a path in the unpacked tree. Fails if the target is outside the tree.
fn resolved(tree: &Path, file: &str) -> Result<PathBuf, SourceError> {
    let path = tree.join(file);
    let root = tree.canonicalize().map_err(|e| SourceError::io("find", tree, &e))?;
    let real = path
        .canonicalize()
        .map_err(|e| SourceError::failed(format!("the packages hold no `{file}`: {e}")))?;
    match real.strip_prefix(&root) {
        Ok(inside) => Ok(inside.to_owned()),
        Err(_) => Err(SourceError::failed(format!(
            "`{file}` in the packages links to a file outside them"
        ))),
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
    fn chooses_newest_matching_package() {
        let offered = offered_versions(MADISON, "zookeeper");
        assert_eq!(offered, ["3.8.0-11+deb12u2", "3.8.0-11+deb12u1"]);
        let choose = |wanted: &str| choose(&offered, Some(&wanted.parse().unwrap()));
        assert_eq!(choose("3.8").as_deref(), Some("3.8.0-11+deb12u2"));
        assert_eq!(choose("3.8.0").as_deref(), Some("3.8.0-11+deb12u2"));
        assert_eq!(choose("3.9"), None);
        assert!(offered_versions("", "zookeeper").is_empty());
    }

    #[test]
    fn refuses_links_out_of_the_unpacked_tree() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("real"), "x").unwrap();
        std::os::unix::fs::symlink("real", tree.join("inside")).unwrap();
        std::os::unix::fs::symlink("/bin/sh", tree.join("outside")).unwrap();
        assert_eq!(resolved(&tree, "inside").unwrap(), Path::new("real"));
        assert!(resolved(&tree, "outside").unwrap_err().to_string().contains("outside them"));
        assert!(resolved(&tree, "absent").unwrap_err().to_string().contains("hold no"));
    }
}
