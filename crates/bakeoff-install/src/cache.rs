//! Stores fetched programs, and checks that their files have not changed.
//!
//! - `CACHE/etcd/3.4.23-debian-1f0c52a9/` holds one program. Its `manifest.json`, written last, has the SHA-256 of
//!   every file. The folder's name ends in a hash of the build inputs, so two versions of bakeoff never replace each
//!   other's programs.
//! - `CACHE/etcd/.work-…` holds a program while it is fetched. It is then renamed into place, so a folder with a
//!   manifest is complete.
//! - `CACHE/etcd/.lock` prevents two bakeoffs from fetching the same system at once.
//! - `CACHE/logs/` holds the tools' output.
//! - `CACHE/hashes/` holds hashes of unchanged files (`hashes`).

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::thread;
use std::time::Duration;

use bakeoff_files::{self as files, foreign, foreign_between};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::error::InstallError;
use super::hashes::{hash, hex, sha256_of, sha256_of_text};
use super::place;
use super::refusal::Damage;
use super::tool::Watcher;

/// Format of the manifest. Format 1 listed only a program's own files and libraries; its programs are fetched again.
const FORMAT: u32 = 2;
const MANIFEST: &str = "manifest.json";
const WORK_PREFIX: &str = ".work-";

/// Folder of fetched programs.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// Name, version and hashes of a cached program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) format: u32,
    pub(super) system: String,
    pub(super) version: String,
    pub(super) source: String,
    /// Kind of its source: `debian`, `go`, `maven`, `archive`, …. The file calls it `rung`.
    #[serde(rename = "rung")]
    pub(super) source_kind: String,
    /// Date of the build or of the version: `2024-10-29`.
    #[serde(default)]
    pub(super) date: Option<String>,
    /// SHA-256 of the recipe's build inputs.
    pub(super) ingredients_sha256: String,
    /// The executable, then other executables; or the jars in class-path order.
    pub(super) files: Vec<CachedFile>,
    /// Shared libraries to start the executable with.
    pub(super) libraries: Vec<CachedFile>,
    /// All other regular files in its folder, sorted by path.
    pub(super) others: Vec<CachedFile>,
    /// Links in its folder, sorted by path.
    pub(super) links: Vec<Link>,
}

/// A symbolic link of a cached program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Link {
    /// Relative to the program's folder.
    pub(super) path: PathBuf,
    /// Target, as written in the link.
    pub(super) target: PathBuf,
}

/// One file of a cached program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CachedFile {
    /// Relative to the program's folder.
    pub(super) path: PathBuf,
    pub(super) sha256: String,
    pub(super) size_bytes: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) dir: PathBuf,
    pub(super) manifest: Manifest,
}

/// Depth of the check of a cached program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Checks that all listed files exist and have their sizes.
    Glance,
    /// Also checks every SHA-256, and that there are no other files or links.
    Hash,
}

impl Cache {
    /// Returns the cache in a folder.
    #[cfg(test)]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Cache { root: root.into() }
    }

    /// Returns the user's cache: `$BAKEOFF_CACHE`, else `$XDG_CACHE_HOME/bakeoff`, else `~/.cache/bakeoff`.
    ///
    /// # Errors
    /// If none of `BAKEOFF_CACHE`, `XDG_CACHE_HOME` and `HOME` is set, or another user can write to the cache.
    pub fn from_environment() -> Result<Self, InstallError> {
        let cache = place::of_environment().map(|root| Cache { root });
        let cache = cache.ok_or(InstallError::NoCache)?;
        cache.check_owner()?;
        Ok(cache)
    }

    /// Refuses a cache that another user can write to, because bakeoff executes its files. Accepts a missing one, which
    /// bakeoff later creates for its own user only.
    fn check_owner(&self) -> Result<(), InstallError> {
        let Ok(found) = fs::metadata(&self.root) else { return Ok(()) };
        match foreign(&found) {
            Some(why) => Err(InstallError::UnsafeCache { path: self.root.clone(), why }),
            None => Ok(()),
        }
    }

    /// Refuses a folder between the cache's root and a system's programs that another user can write to, because its
    /// programs could be replaced after their hash was checked.
    pub(super) fn check_folders(&self, system: &str) -> Result<(), InstallError> {
        let folders = self.entries(system).into_iter().flat_map(|entry| {
            let held: Vec<PathBuf> =
                entry.manifest.held().map(|held| entry.dir.join(&held.path)).collect();
            held.into_iter().filter_map(|file| file.parent().map(Path::to_owned))
        });
        let folders: BTreeSet<PathBuf> = folders.collect();
        let mut foreign = folders.iter().filter_map(|dir| foreign_between(&self.root, dir));
        match foreign.next() {
            Some((path, why)) => Err(InstallError::UnsafeCache { path, why }),
            None => Ok(()),
        }
    }

    /// Returns the cache's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Removes what bakeoff keeps there: programs with their manifests, and the folders for agents. Other files stay, and
    /// no link is followed. Returns the freed bytes.
    ///
    /// # Errors
    /// If the folder is a link, or something cannot be removed.
    pub fn clear(&self) -> io::Result<u64> {
        match fs::symlink_metadata(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Ok(found) if found.is_dir() => {}
            found => return Err(found.err().unwrap_or_else(|| io::Error::other("it is a link"))),
        }
        let mut freed = 0;
        for item in fs::read_dir(&self.root)? {
            let item = item?;
            let name = item.file_name();
            if !item.file_type()?.is_dir() {
                continue;
            }
            if OF_AGENTS.iter().any(|one| name == *one) {
                freed += remove(&item.path())?;
                continue;
            }
            for Entry { dir, .. } in self.entries(&name.to_string_lossy()) {
                // An entry behind a link is not in this cache.
                if fs::symlink_metadata(&dir)?.is_dir() {
                    freed += remove(&dir)?;
                }
            }
        }
        Ok(freed)
    }

    pub(super) fn system_dir(&self, system: &str) -> PathBuf {
        self.root.join(system)
    }

    /// Creates an empty log for one source of one system, replacing an older one.
    pub(super) fn fresh_log(
        &self,
        system: &str,
        source_kind: &str,
    ) -> Result<PathBuf, InstallError> {
        let dir = self.root.join("logs");
        make_dirs(&dir).map_err(|e| cannot("make", &dir, e))?;
        let log = dir.join(format!("{system}-{source_kind}.log"));
        File::create(&log).map_err(|e| cannot("write", &log, e))?;
        Ok(log)
    }

    /// Returns the entries of a system that have a valid manifest. Does not check their files.
    pub(super) fn entries(&self, system: &str) -> Vec<Entry> {
        let Ok(listing) = fs::read_dir(self.system_dir(system)) else { return Vec::new() };
        let mut entries: Vec<Entry> = listing
            .flatten()
            .filter(|item| !item.file_name().as_encoded_bytes().starts_with(b"."))
            .filter_map(|item| Entry::read(&item.path(), system))
            .collect();
        entries.sort_by(|a, b| a.dir.cmp(&b.dir));
        entries
    }

    /// Takes the system's lock. Reports progress and waits if another bakeoff holds it.
    pub(super) fn lock(
        &self,
        system: &str,
        watcher: &mut Watcher<'_>,
    ) -> Result<CacheLock, InstallError> {
        let dir = self.system_dir(system);
        make_dirs(&dir).map_err(|e| cannot("make", &dir, e))?;
        let path = dir.join(".lock");
        let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = open.map_err(|e| cannot("open", &path, e))?;
        let mut reported = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(CacheLock { dir, _file: file }),
                Err(TryLockError::Error(e)) => return Err(cannot("lock", &path, e)),
                Err(TryLockError::WouldBlock) => {}
            }
            if watcher.stopped() {
                return Err(InstallError::Interrupted);
            }
            if !reported {
                reported = true;
                watcher.say(&format!("another bakeoff is fetching {system}: waiting for it"));
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Folders in the cache without a manifest: executables of agents, and programs that a coordinator sent.
const OF_AGENTS: [&str; 2] = ["agents", "sent"];

/// Removes a folder and returns the size of its files.
fn remove(folder: &Path) -> io::Result<u64> {
    let size = size_of(folder)?;
    files::remove(folder)?;
    Ok(size)
}

fn size_of(folder: &Path) -> io::Result<u64> {
    let sizes = fs::read_dir(folder)?.map(|item| {
        let item = item?;
        match item.file_type()?.is_dir() {
            true => size_of(&item.path()),
            false => Ok(item.metadata()?.len()),
        }
    });
    sizes.sum()
}

/// Creates folders that only their owner can enter.
fn make_dirs(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).recursive(true).create(dir)
}

/// Lock on one system's folder in the cache, released when dropped.
pub(super) struct CacheLock {
    dir: PathBuf,
    _file: File,
}

impl CacheLock {
    /// Creates an empty work folder, removed when dropped. Also removes leftovers of a killed bakeoff.
    pub(super) fn work_dir(&self) -> Result<TempDir, InstallError> {
        for item in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            if item.file_name().as_encoded_bytes().starts_with(WORK_PREFIX.as_bytes()) {
                let _ = files::remove(&item.path());
            }
        }
        let made = tempfile::Builder::new().prefix(WORK_PREFIX).tempdir_in(&self.dir);
        made.map_err(|e| cannot("make a folder in", &self.dir, e))
    }

    /// Writes the manifest into `tree` and moves it into place.
    pub(super) fn keep(&self, tree: &Path, manifest: Manifest) -> Result<Entry, InstallError> {
        let dir = self.dir.join(manifest.folder_name());
        let path = tree.join(MANIFEST);
        let json = serde_json::to_string_pretty(&manifest).unwrap_or_default();
        let write = || -> io::Result<()> {
            fs::write(&path, json + "\n")?;
            File::open(&path)?.sync_all()
        };
        write().map_err(|e| cannot("write", &path, e))?;
        close(tree).map_err(|e| cannot("set the mode of a folder in", tree, e))?;
        files::remove(&dir).map_err(|e| cannot("replace", &dir, e))?;
        fs::rename(tree, &dir).map_err(|e| cannot("move a program to", &dir, e))?;
        Ok(Entry { dir, manifest })
    }
}

/// Takes the right to write from everybody else, in all folders of a program. An archive or the umask may have given it.
fn close(tree: &Path) -> io::Result<()> {
    for folder in Tree::read(tree)?.folders {
        let folder = tree.join(folder);
        let mode = fs::metadata(&folder)?.permissions().mode();
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode & !0o022))?;
    }
    Ok(())
}

impl Entry {
    fn read(dir: &Path, system: &str) -> Option<Entry> {
        let text = fs::read_to_string(dir.join(MANIFEST)).ok()?;
        let manifest = Manifest::parse(&text, system)?;
        Some(Entry { dir: dir.to_owned(), manifest })
    }

    /// Returns absolute paths of the program's files, in the manifest's order.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.manifest.files.iter().map(|held| self.dir.join(&held.path)).collect()
    }

    /// Returns absolute paths of the folders of its shared libraries.
    pub(super) fn library_path(&self) -> Vec<PathBuf> {
        let libraries: Vec<_> = self.manifest.libraries.iter().map(|held| &held.path).collect();
        folders_of(&self.dir, &libraries)
    }

    /// Checks the entry's files against the manifest.
    pub(super) fn check(&self, look: Look) -> Result<(), Damage> {
        if look == Look::Hash {
            self.check_listing()?;
        }
        for held in self.manifest.held() {
            let path = self.dir.join(&held.path);
            let size = fs::metadata(&path).map_err(|e| Damage::Unreadable(path.clone(), e))?.len();
            if size != held.size_bytes {
                return Err(Damage::Size { path, found: size, fetched: held.size_bytes });
            }
            if look == Look::Hash {
                let found = sha256_of(&path).map_err(|e| Damage::Unreadable(path.clone(), e))?;
                if found != held.sha256 {
                    return Err(Damage::Hash { path, found, fetched: held.sha256.clone() });
                }
            }
        }
        Ok(())
    }

    /// Checks that every file in the folder is listed, and that the links are unchanged.
    fn check_listing(&self) -> Result<(), Damage> {
        let unreadable = |e| Damage::Unreadable(self.dir.clone(), e);
        let tree = Tree::read(&self.dir).map_err(unreadable)?;
        let listed: BTreeSet<&Path> =
            self.manifest.held().map(|held| held.path.as_path()).collect();
        let is_extra = |path: &&PathBuf| !listed.contains(path.as_path()) && **path != *MANIFEST;
        if let Some(path) = tree.files.iter().find(is_extra) {
            return Err(Damage::Extra(self.dir.join(path)));
        }
        let differs = tree.links.iter().find(|link| !self.manifest.links.contains(link));
        let lacking = self.manifest.links.iter().find(|link| !tree.links.contains(link));
        match differs.or(lacking) {
            Some(link) => Err(Damage::Link(self.dir.join(&link.path))),
            None => Ok(()),
        }
    }
}

/// Files, folders and links below a folder, by relative path. Links are not followed.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) files: Vec<PathBuf>,
    /// Includes the root as the empty path.
    pub(super) folders: Vec<PathBuf>,
    links: Vec<Link>,
}

impl Tree {
    pub(super) fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for item in fs::read_dir(root.join(&folder))? {
                let item = item?;
                let (path, kind) = (folder.join(item.file_name()), item.file_type()?);
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_symlink() {
                    let target = fs::read_link(root.join(&path))?;
                    tree.links.push(Link { path, target });
                } else {
                    tree.files.push(path);
                }
            }
            tree.folders.push(folder);
        }
        tree.files.sort();
        tree.links.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }
}

/// Returns the folders of these files in a tree, without duplicates.
pub(super) fn folders_of(tree: &Path, files: &[impl AsRef<Path>]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        files.iter().filter_map(|file| file.as_ref().parent()).map(|dir| tree.join(dir)).collect();
    folders.sort();
    folders.dedup();
    folders
}

impl Manifest {
    /// Reads the manifest of a program of this system. `None` if it is invalid or names files outside its folder.
    pub(super) fn parse(text: &str, system: &str) -> Option<Self> {
        let manifest: Self = serde_json::from_str(text).ok()?;
        let stays_inside =
            |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
        let sound = manifest.format == FORMAT
            && manifest.system == system
            && !manifest.files.is_empty()
            && manifest.held().all(|held| stays_inside(&held.path))
            && manifest.links.iter().all(|link| stays_inside(&link.path));
        sound.then_some(manifest)
    }

    /// Returns all regular files.
    fn held(&self) -> impl Iterator<Item = &CachedFile> {
        self.files.iter().chain(&self.libraries).chain(&self.others)
    }

    /// Hashes and adds the files of `tree` that are not listed yet, and adds its links.
    pub(super) fn hold_others(&mut self, tree: &Path) -> io::Result<()> {
        let Tree { mut files, links, .. } = Tree::read(tree)?;
        let listed: BTreeSet<&PathBuf> = self.held().map(|held| &held.path).collect();
        files.retain(|path| !listed.contains(path));
        self.others = Self::read(tree, &files)?;
        self.links = links;
        Ok(())
    }

    /// Returns the name of the program's folder: version, kind of source, and hash of the build inputs
    /// (`3.6.16-go-1f0c52a9`).
    fn folder_name(&self) -> String {
        let Self { version, source, source_kind, ingredients_sha256, .. } = self;
        let built_from = sha256_of_text(&format!("{ingredients_sha256} {source}"));
        format!("{version}-{source_kind}-{}", &built_from[..8])
    }

    /// Hashes files in `tree`.
    pub(super) fn read(tree: &Path, files: &[PathBuf]) -> io::Result<Vec<CachedFile>> {
        let hold = |path: &PathBuf| {
            let whole = tree.join(path);
            Ok(CachedFile {
                path: path.clone(),
                sha256: hash(&whole)?,
                size_bytes: fs::metadata(&whole)?.len(),
            })
        };
        files.iter().map(hold).collect()
    }

    /// Creates a manifest in the current format, without files.
    pub(super) fn new(system: &str, version: String, source: String, source_kind: &str) -> Self {
        Manifest {
            format: FORMAT,
            system: system.to_owned(),
            version,
            source,
            source_kind: source_kind.to_owned(),
            date: None,
            ingredients_sha256: String::new(),
            files: Vec::new(),
            libraries: Vec::new(),
            others: Vec::new(),
            links: Vec::new(),
        }
    }
}

/// Returns a program's hash: its executable's, or that of the sorted `sha256  name` lines of its jars.
pub(super) fn program_hash(files: &[(String, String)]) -> String {
    if let [(_, only)] = files {
        return only.clone();
    }
    let mut lines: Vec<String> =
        files.iter().map(|(name, sha256)| format!("{sha256}  {name}\n")).collect();
    lines.sort();
    hex(&Sha256::digest(lines.concat().as_bytes()))
}

/// Returns the program hash of files in the cache.
pub(super) fn hash_of_held(files: &[CachedFile]) -> String {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let files: Vec<_> = files.iter().map(|held| (name(&held.path), held.sha256.clone())).collect();
    program_hash(&files)
}

pub(super) fn cannot(doing: &'static str, path: &Path, error: io::Error) -> InstallError {
    InstallError::Cache { path: path.to_owned(), doing, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn environment_sets_the_cache_folder() {
        let cases = [
            (&[("BAKEOFF_CACHE", "/b"), ("HOME", "/h")][..], Some("/b")),
            (&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")], Some("/x/bakeoff")),
            (&[("XDG_CACHE_HOME", "relative"), ("HOME", "/h")], Some("/h/.cache/bakeoff")),
            (&[("BAKEOFF_CACHE", ""), ("HOME", "/h")], Some("/h/.cache/bakeoff")),
            (&[], None),
        ];
        for (variables, expected) in cases {
            let variables: HashMap<_, _> = variables.iter().copied().collect();
            let cache = place::cache(|name| variables.get(name).map(PathBuf::from));
            assert_eq!(cache.as_deref(), expected.map(Path::new), "{variables:?}");
        }
    }

    #[test]
    fn cache_that_others_can_write_is_refused() {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("cache"));
        assert!(cache.check_owner().is_ok(), "it does not exist yet");
        make_dirs(&cache.system_dir("etcd")).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(cache.root()), mode(&cache.system_dir("etcd"))), (0o700, 0o700));
        for (mode, accepted) in [(0o755, true), (0o775, false), (0o707, false)] {
            fs::set_permissions(cache.root(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(cache.check_owner().is_ok(), accepted, "{mode:o}");
        }
        let error = cache.check_owner().unwrap_err().to_string();
        assert!(
            error.contains("can be written by other users") && error.contains("chmod go-w"),
            "{error}"
        );
    }

    #[test]
    fn manifest_with_paths_outside_its_folder_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let entry = dir.path().join("etcd/1-x");
        fs::create_dir_all(&entry).unwrap();
        let cache = Cache::at(dir.path());
        let mut manifest = Manifest::new("etcd", "1.0.0".into(), "s".into(), "x");
        for (path, seen) in [("bin/etcd", 1), ("../../etcd", 0), ("/bin/sh", 0)] {
            manifest.files =
                vec![CachedFile { path: path.into(), sha256: String::new(), size_bytes: 0 }];
            fs::write(entry.join(MANIFEST), serde_json::to_string(&manifest).unwrap()).unwrap();
            assert_eq!(cache.entries("etcd").len(), seen, "{path}");
        }
        for torn in ["", "{", "[]", "{\"format\": 99}"] {
            fs::write(entry.join(MANIFEST), torn).unwrap();
            assert!(cache.entries("etcd").is_empty());
        }
    }

    #[test]
    fn clearing_removes_what_bakeoff_keeps_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let (root, foreign) = (dir.path().join("cache"), dir.path().join("foreign"));
        let file = |path: PathBuf| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, [0; 1000]).unwrap();
        };
        let manifest = |folder: &Path| {
            let held =
                CachedFile { path: "bin/etcd".into(), sha256: "00".into(), size_bytes: 1000 };
            let manifest = Manifest {
                files: vec![held],
                ..Manifest::new("etcd", "1.0.0".into(), "s".into(), "x")
            };
            fs::write(folder.join(MANIFEST), serde_json::to_string(&manifest).unwrap()).unwrap();
        };
        file(root.join("agents/bakeoff-00"));
        file(root.join("sent/00/etcd"));
        file(root.join("etcd/1.0.0-x/bin/etcd"));
        manifest(&root.join("etcd/1.0.0-x"));
        for other in ["etcd/.lock", "etcd/mine/notes", "photos/1.jpg", "readme"] {
            file(root.join(other));
        }
        file(foreign.join("bin/etcd"));
        manifest(&foreign);
        std::os::unix::fs::symlink(&foreign, root.join("etcd/2.0.0-x")).unwrap();

        let freed = Cache::at(&root).clear().unwrap();
        assert!((3000..4000).contains(&freed), "{freed}");
        let gone = ["agents", "sent", "etcd/1.0.0-x"];
        assert!(gone.iter().all(|path| !root.join(path).exists()));
        let stays =
            ["etcd/.lock", "etcd/mine/notes", "photos/1.jpg", "readme", "etcd/2.0.0-x/bin/etcd"];
        assert!(stays.iter().all(|path| root.join(path).exists()), "{stays:?}");

        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&root, &link).unwrap();
        assert_eq!(Cache::at(&link).clear().unwrap_err().to_string(), "it is a link");
        assert_eq!(Cache::at(dir.path().join("none")).clear().unwrap(), 0);
    }

    #[test]
    fn program_hash_ignores_the_order_of_jars() {
        let (a, b) = (("a.jar".to_owned(), "11".to_owned()), ("b.jar".to_owned(), "22".to_owned()));
        assert_eq!(program_hash(&[a.clone(), b.clone()]), program_hash(&[b.clone(), a.clone()]));
        assert_eq!(program_hash(&[a]), "11");
    }

    #[test]
    fn fuzzed_manifests_neither_panic_nor_leave_the_cache() {
        let held = CachedFile { path: "bin/etcd".into(), sha256: "00".into(), size_bytes: 1 };
        let link = Link { path: "bin/link".into(), target: "etcd".into() };
        let manifest = Manifest {
            files: vec![held.clone()],
            others: vec![held],
            links: vec![link],
            ..Manifest::new("etcd", "1".into(), "a test".into(), "go")
        };
        let text = serde_json::to_string(&manifest).unwrap();
        assert!(Manifest::parse(&text, "etcd").is_some());
        let pieces = ["../", "/etc/passwd", "..", "null", "[]", "\\u0000", "{", "}"];
        bakeoff_fuzz::run("manifest", &[text.as_bytes()], &pieces, |input| {
            let read = Manifest::parse(&String::from_utf8_lossy(input), "etcd");
            for held in read.iter().flat_map(Manifest::held) {
                let joined = Path::new("/cache/etcd/1").join(&held.path);
                let is_inside = joined.starts_with("/cache/etcd/1")
                    && joined.components().all(|part| part != Component::ParentDir);
                assert!(is_inside, "{joined:?}");
            }
        });
    }
}
