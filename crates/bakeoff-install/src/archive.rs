//! Fetches a release archive and checks it against a pin or published checksums.
//!
//! A recipe pins the checksums of known versions, so no server can change the archive unnoticed. Other versions are
//! *unpinned*. Their checksum comes from the publisher's host, never from a mirror. It proves that the archive is the
//! host's, not that the host is honest. An archive without a checksum is refused. Signatures are not checked.
//!
//! Only the requested files are extracted. An archive with a path outside itself is refused as a whole.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256, Sha512};

use super::download::{Limits, download};
use super::error::SourceError;
use super::hashes::hex;
use super::recipe::{Algorithm, ChecksumOrigin, Member, Pin, processor};
use super::version::VersionRequest;
use super::{FetchedFiles, Job};

/// Largest size of an unpacked file.
const MEMBER_BYTES_MAX: u64 = 1 << 30;
/// Largest number of files in an archive.
const MEMBERS_MAX: usize = 100_000;

/// A release archive, as in [`Source::Archive`](super::Source::Archive).
#[derive(Debug, Clone, Copy)]
pub(super) struct Release<'a> {
    pub(super) url: &'a str,
    pub(super) packager: Option<&'a str>,
    pub(super) checksums: &'a str,
    pub(super) algorithm: Algorithm,
    pub(super) member: Member,
    pub(super) versions: &'a [&'a str],
    pub(super) pins: &'a [Pin],
}

/// Fetches the archive, checks its checksum, and extracts the requested members into the job's tree.
pub(super) fn fetch(
    job: &mut Job<'_, '_>,
    release: Release<'_>,
    limits: Limits,
) -> Result<FetchedFiles, SourceError> {
    let version =
        VersionRequest::choose(job.wanted, release.versions).map_err(SourceError::passed_over)?;
    let arch = processor();
    let fill = |template: &str| filled(template, &version, arch);
    let url = fill(release.url);
    let mirror = job.host.mirror.as_deref();
    let name = url.rsplit('/').next().unwrap_or(&url).to_owned();

    job.watcher.say(&format!("{} {version}: fetching the release archive {name}", job.system));
    let (expected, vouched) = match Pin::find(release.pins, &version, arch) {
        Some(checksum) => (checksum.to_owned(), ChecksumOrigin::Pinned),
        None => {
            let sums_from = fill(release.checksums);
            let sum = published_at(job, &sums_from, &name, release.algorithm, limits)?;
            (sum, ChecksumOrigin::Unpinned)
        }
    };

    let path = job.scratch.join("archive");
    let HashedDownload { from, size, checksum } =
        fetch_hashed(job, &url, &path, release.algorithm, limits)?;
    if checksum != expected {
        return Err(SourceError::failed(format!(
            "{from} ({size} bytes) has checksum {checksum}, not {expected} as {}",
            match vouched {
                ChecksumOrigin::Pinned => "pinned",
                ChecksumOrigin::Unpinned => "published",
            }
        )));
    }

    let damaged = |reason: ArchiveError| SourceError::failed(format!("{name}: {reason}"));
    // Extracts the requested members. Fails if the archive has none.
    let unpack = |wanted: &MemberSelection, into: &Path| {
        fs::create_dir_all(into).map_err(|e| SourceError::io("make", into, &e))?;
        let archive = File::open(&path).map_err(|e| SourceError::io("read", &path, &e))?;
        let unpacked = if name.ends_with(".zip") || name.ends_with(".jar") {
            from_zip(archive, wanted, into)
        } else {
            from_tar_gz(archive, wanted, into)
        };
        let mut names = unpacked.map_err(damaged)?;
        names.sort();
        if names.is_empty() {
            return Err(SourceError::failed(format!("{name} holds no {}", wanted.title())));
        }
        let folder = Path::new(wanted.folder());
        Ok(names.into_iter().map(|file| folder.join(file)).collect::<Vec<_>>())
    };
    let files = match release.member {
        Member::File(template) => {
            let executable = job.executable.unwrap_or("program").to_owned();
            let wanted = MemberSelection::File { path: fill(template), name: executable };
            unpack(&wanted, &job.tree.join(wanted.folder()))?
        }
        Member::Jars(template) => {
            let wanted = MemberSelection::Jars { dir: fill(template) };
            unpack(&wanted, &job.tree.join(wanted.folder()))?
        }
        Member::Nested { archive: template, executable } => {
            let wanted = MemberSelection::File { path: fill(template), name: "inner".to_owned() };
            unpack(&wanted, job.scratch)?;
            let inner = job.scratch.join("inner");
            let packed = File::open(&inner).map_err(|e| SourceError::io("read", &inner, &e))?;
            let plain = lzma_rust2::XzReader::new(BufReader::new(packed), true);
            from_tar(plain, &MemberSelection::All, job.tree).map_err(damaged)?;
            if !job.tree.join(executable).is_file() {
                return Err(SourceError::failed(format!("{name} holds no `{executable}`")));
            }
            vec![PathBuf::from(executable)]
        }
    };
    let origin = mirror.map_or(String::new(), |mirror| format!(" (from the mirror {mirror})"));
    let (what, packager) = match release.packager {
        None => ("release archive", String::new()),
        Some(packager) => ("archive", format!(", repackaged by {packager}")),
    };
    Ok(FetchedFiles {
        source: format!(
            "{what} {url}{origin}{packager}, {} {expected}, {}",
            release.algorithm.title(),
            vouched.word()
        ),
        version,
        files,
        libraries: Vec::new(),
        vouched: None,
        date: None, // `Search::installed` uses the file's date
    })
}

/// Returns the checksum of `name` from the publisher's list at `url`.
fn published_at(
    job: &mut Job<'_, '_>,
    url: &str,
    name: &str,
    algorithm: Algorithm,
    limits: Limits,
) -> Result<String, SourceError> {
    let publisher = job.host.publisher.as_deref();
    let from = mirrored(url, publisher);
    let small = Limits {
        size_bytes: Limits::CHECKSUMS.size_bytes,
        total: limits.total.min(Limits::CHECKSUMS.total),
        ..limits
    };
    let mut sums = Vec::new();
    let fetched = download(&from, publisher.is_some(), small, &mut sums, job.watcher);
    fetched.map_err(|error| match (error, &job.host.mirror) {
        (SourceError::Failed(mut failure), Some(_)) => {
            failure.what +=
                "; this version has no pin, and bakeoff takes no checksum from a mirror";
            SourceError::Failed(failure)
        }
        (error, _) => error,
    })?;
    published(&String::from_utf8_lossy(&sums), name, algorithm)
        .ok_or_else(|| SourceError::failed(format!("{from} holds no checksum of `{name}`")))
}

/// Fills version and processor into a template. `arch` is in Go's naming.
fn filled(template: &str, version: &str, arch: &str) -> String {
    let mut text = template.replace("{version}", version).replace("{arch}", arch);
    while let Some((before, rest)) = text.split_once("{arch:") {
        let Some((names, after)) = rest.split_once('}') else { break };
        let (x86_64, arm64) = names.split_once('|').unwrap_or((names, "arm64"));
        let name = match arch {
            "amd64" => x86_64,
            "arm64" => arm64,
            other => other,
        };
        text = [before, name, after].concat();
    }
    text
}

/// A file that was downloaded and hashed.
pub(super) struct HashedDownload {
    /// Address of the download. A mirror's, if one is set.
    pub(super) from: String,
    size: u64,
    /// Checksum in lower-case hexadecimal.
    checksum: String,
}

/// Downloads a file and hashes it. Uses the mirror, if one is set.
pub(super) fn fetch_hashed(
    job: &mut Job<'_, '_>,
    url: &str,
    path: &Path,
    algorithm: Algorithm,
    limits: Limits,
) -> Result<HashedDownload, SourceError> {
    let mirror = job.host.mirror.as_deref();
    let from = mirrored(url, mirror);
    let mut file = File::create_new(path).map_err(|e| SourceError::io("write", path, &e))?;
    let mut proof = Proof::new(algorithm);
    let mut both = HashingWriter(&mut file, &mut proof);
    let size = download(&from, mirror.is_some(), limits, &mut both, job.watcher)?;
    Ok(HashedDownload { from, size, checksum: proof.finish() })
}

/// Downloads a file and compares its SHA-256 with the recipe's pin.
pub(super) fn fetch_pinned(
    job: &mut Job<'_, '_>,
    url: &str,
    path: &Path,
    sha256: &str,
) -> Result<(), SourceError> {
    let HashedDownload { from, checksum, .. } =
        fetch_hashed(job, url, path, Algorithm::Sha256, Limits::ARCHIVE)?;
    match checksum == sha256 {
        true => Ok(()),
        false => Err(SourceError::failed(format!(
            "{from} has SHA-256 {checksum}, not {sha256} as pinned"
        ))),
    }
}

/// Replaces the URL's scheme and host with the mirror's.
pub(super) fn mirrored(url: &str, mirror: Option<&str>) -> String {
    let path =
        url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map(|(_, path)| path);
    match (mirror, path) {
        (Some(mirror), Some(path)) => format!("{}/{path}", mirror.trim_end_matches('/')),
        _ => url.to_owned(),
    }
}

/// Finds the checksum of `name` in a published list: `HEX  NAME` lines, or one bare `HEX`.
fn published(list: &str, name: &str, algorithm: Algorithm) -> Option<String> {
    let sound = |word: &str| {
        word.len() == algorithm.hex_digits() && word.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let mut lines = list.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    let first = *lines.peek()?;
    if sound(first) && list.split_whitespace().count() == 1 {
        return Some(first.to_ascii_lowercase());
    }
    lines.find_map(|line| {
        let (sum, file) = line.split_once(char::is_whitespace)?;
        let file = file.trim().trim_start_matches('*');
        let file = file.rsplit('/').next().unwrap_or(file);
        (file == name && sound(sum)).then(|| sum.to_ascii_lowercase())
    })
}

impl Algorithm {
    fn hex_digits(self) -> usize {
        match self {
            Algorithm::Sha256 => 64,
            Algorithm::Sha512 => 128,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Algorithm::Sha256 => "SHA-256",
            Algorithm::Sha512 => "SHA-512",
        }
    }
}

enum Proof {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Proof {
    fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha256 => Proof::Sha256(Sha256::new()),
            Algorithm::Sha512 => Proof::Sha512(Sha512::new()),
        }
    }

    fn finish(self) -> String {
        match self {
            Proof::Sha256(hash) => hex(&hash.finalize()),
            Proof::Sha512(hash) => hex(&hash.finalize()),
        }
    }
}

/// Writes to a file and a hash.
struct HashingWriter<'a>(&'a mut File, &'a mut Proof);

impl Write for HashingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(bytes)?;
        match &mut self.1 {
            Proof::Sha256(hash) => hash.update(bytes),
            Proof::Sha512(hash) => hash.update(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Reason why an archive was not unpacked.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArchiveError {
    /// The `.tar.gz` is damaged or incomplete.
    #[error("it cannot be read: {0}")]
    Tar(#[source] io::Error),
    /// The `.zip` is damaged or incomplete.
    #[error("it cannot be read: {0}")]
    Zip(#[source] zip::result::ZipError),
    #[error("it holds more than {MEMBERS_MAX} files")]
    TooManyFiles,
    #[error("it contains `{0}`, which points outside the archive")]
    LeadsOut(PathBuf),
    /// A requested file is a link, a folder or a device.
    #[error("`{0}` in it is not a regular file")]
    NotPlain(PathBuf),
    #[error("`{0}` cannot be unpacked: {1}")]
    NotUnpacked(PathBuf, #[source] io::Error),
    #[error("a file in it exceeds the limit of {MEMBER_BYTES_MAX} bytes")]
    TooLarge,
}

/// Members to extract, with the version filled in.
pub(super) enum MemberSelection {
    File {
        path: String,
        name: String,
    },
    Jars {
        dir: String,
    },
    /// All files, at their own paths.
    All,
}

impl MemberSelection {
    /// Returns the folder of the tree to extract into.
    fn folder(&self) -> &'static str {
        match self {
            MemberSelection::File { .. } => "bin",
            MemberSelection::Jars { .. } => "jars",
            MemberSelection::All => "",
        }
    }

    fn title(&self) -> String {
        match self {
            MemberSelection::File { path, .. } => format!("`{path}`"),
            MemberSelection::Jars { dir } => format!("jars in `{dir}`"),
            MemberSelection::All => "files".to_owned(),
        }
    }

    /// Returns the name for a requested member, and `None` for others. Fails if the path points outside the archive.
    fn name_for(&self, member: &Path) -> Result<Option<String>, ArchiveError> {
        let outward =
            |part: Component<'_>| !matches!(part, Component::Normal(_) | Component::CurDir);
        if member.components().any(outward) {
            return Err(ArchiveError::LeadsOut(member.to_owned()));
        }
        // `./etcd` and `etcd` are the same path.
        let inside: PathBuf =
            member.components().filter(|part| *part != Component::CurDir).collect();
        Ok(match self {
            MemberSelection::File { path, name } => {
                (inside == Path::new(path)).then(|| name.clone())
            }
            MemberSelection::Jars { dir } => {
                let here = inside.parent() == Some(Path::new(dir))
                    && inside.extension().is_some_and(|ext| ext == "jar");
                inside
                    .file_name()
                    .filter(|_| here)
                    .and_then(|name| name.to_str())
                    .map(str::to_owned)
            }
            MemberSelection::All => inside.to_str().map(str::to_owned),
        })
    }
}

pub(super) fn from_tar_gz(
    archive: File,
    wanted: &MemberSelection,
    into: &Path,
) -> Result<Vec<String>, ArchiveError> {
    from_tar(flate2::read::GzDecoder::new(BufReader::new(archive)), wanted, into)
}

fn from_tar(
    archive: impl Read,
    wanted: &MemberSelection,
    into: &Path,
) -> Result<Vec<String>, ArchiveError> {
    let mut tar = tar::Archive::new(archive);
    let mut names = Vec::new();
    let damaged = ArchiveError::Tar;
    for (count, member) in tar.entries().map_err(damaged)?.enumerate() {
        let mut member = member.map_err(damaged)?;
        if count >= MEMBERS_MAX {
            return Err(ArchiveError::TooManyFiles);
        }
        let path = member.path().map_err(damaged)?.into_owned();
        if let Some(name) = wanted.name_for(&path)? {
            let kind = member.header().entry_type();
            if matches!(wanted, MemberSelection::All) {
                // `git archive` begins with a global header that names the commit.
                if kind.is_dir() || kind.is_pax_global_extensions() {
                    continue;
                }
                if kind.is_symlink() {
                    let target = member.link_name().map_err(damaged)?.unwrap_or_default();
                    write_link(&target, &into.join(&name))?;
                    continue;
                }
            }
            if !kind.is_file() {
                return Err(ArchiveError::NotPlain(path));
            }
            let made = member.header().mtime().ok().map(Duration::from_secs);
            let file = write_member(&mut member, &into.join(&name))?;
            // The member's time is the best available build date.
            if let Some(made) = made.and_then(|made| SystemTime::UNIX_EPOCH.checked_add(made)) {
                file.set_modified(made).ok(); // the file system may not support the date
            }
            names.push(name);
        }
    }
    // The checksum is at the end of the compressed data, so read all of it.
    let mut rest = tar.into_inner().take(MEMBER_BYTES_MAX);
    io::copy(&mut rest, &mut io::sink()).map_err(damaged)?;
    Ok(names)
}

pub(super) fn from_zip(
    archive: impl Read + Seek,
    wanted: &MemberSelection,
    into: &Path,
) -> Result<Vec<String>, ArchiveError> {
    let damaged = ArchiveError::Zip;
    let mut zip = zip::ZipArchive::new(archive).map_err(damaged)?;
    if zip.len() > MEMBERS_MAX {
        return Err(ArchiveError::TooManyFiles);
    }
    let mut names = Vec::new();
    for index in 0..zip.len() {
        let mut member = zip.by_index(index).map_err(damaged)?;
        let path = PathBuf::from(member.name().map_err(damaged)?.as_ref());
        if let Some(name) = wanted.name_for(&path)? {
            if member.is_dir() && matches!(wanted, MemberSelection::All) {
                continue;
            }
            if !member.is_file() {
                return Err(ArchiveError::NotPlain(path));
            }
            write_member(&mut member, &into.join(&name))?;
            names.push(name);
        }
    }
    Ok(names)
}

/// Writes a link to a file next to it or in a folder below. All other targets are refused, so no link leaves the tree.
fn write_link(target: &Path, path: &Path) -> Result<(), ArchiveError> {
    let is_below = target.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_below || target.as_os_str().is_empty() {
        return Err(ArchiveError::LeadsOut(target.to_owned()));
    }
    let failed = |e| ArchiveError::NotUnpacked(path.to_owned(), e);
    make_parent(path).and_then(|()| symlink(target, path)).map_err(failed)
}

fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

fn write_member(member: &mut dyn Read, path: &Path) -> Result<File, ArchiveError> {
    let failed = |e| ArchiveError::NotUnpacked(path.to_owned(), e);
    make_parent(path).map_err(failed)?;
    // A duplicate name is an error: such an archive may be crafted.
    let mut file = File::create_new(path).map_err(failed)?;
    let written = io::copy(&mut member.take(MEMBER_BYTES_MAX + 1), &mut file).map_err(failed)?;
    if written > MEMBER_BYTES_MAX {
        return Err(ArchiveError::TooLarge);
    }
    file.set_permissions(fs::Permissions::from_mode(0o755)).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
