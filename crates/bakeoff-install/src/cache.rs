//! The folder where fetched programs live, and the proof that they are still what was fetched.
//!
//! `CACHE/etcd/3.4.23-debian-1f0c52a9/` holds one program and, written last, a `manifest.json` with the
//! SHA-256 of every file. Its name ends in a hash of what it was built from, so that two versions of bakeoff
//! never replace each other's programs. A program is put together in `CACHE/etcd/.work-…` and
//! renamed into place, so that a folder with a manifest is whole. `CACHE/etcd/.lock` keeps two
//! bakeoffs from fetching the same thing at once. `CACHE/logs/` keeps what the tools wrote, `CACHE/hashes/` the hashes of
//! files that have not changed since (`hashes`).

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::error::InstallError;
use super::hashes::{hash, hex, sha256_of, sha256_of_text};
use super::place::{self, foreign};
use super::refusal::Damage;
use super::tool::Watcher;

/// The version of the manifest's form. The first listed a program's own files and libraries only, so that programs
/// of that time are fetched anew.
const FORMAT: u32 = 2;
const MANIFEST: &str = "manifest.json";
const WORK_PREFIX: &str = ".work-";

/// bakeoff's own folder for fetched programs.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// A cached program's name, version and hashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) format: u32,
    pub(super) system: String,
    pub(super) version: String,
    pub(super) source: String,
    /// The kind of source that it came from: `debian`, `go`, `maven`, `archive`, …. The file calls it `rung`.
    #[serde(rename = "rung")]
    pub(super) source_kind: String,
    /// When it was built, where the program says so.
    #[serde(default)]
    pub(super) date: Option<String>,
    /// The SHA-256 of what the recipe makes it of.
    pub(super) ingredients_sha256: String,
    /// The executable and those beside it or, in class-path order, the jars.
    pub(super) files: Vec<Held>,
    /// The shared libraries that the executable is started with.
    pub(super) libraries: Vec<Held>,
    /// All other plain files of its folder, by their paths.
    pub(super) others: Vec<Held>,
    /// The links of its folder, by their paths.
    pub(super) links: Vec<Link>,
}

/// A link of a cached program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Link {
    /// Relative to the program's folder.
    pub(super) path: PathBuf,
    /// Where it leads, as it stands in the link.
    pub(super) target: PathBuf,
}

/// One file of a cached program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    /// Relative to the program's folder.
    pub(super) path: PathBuf,
    pub(super) sha256: String,
    pub(super) size_bytes: u64,
}

/// A program in the cache.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) dir: PathBuf,
    pub(super) manifest: Manifest,
}

/// How closely a cached program is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Its files are there and have their sizes.
    Glance,
    /// Their SHA-256 is what it was.
    Hash,
}

impl Cache {
    /// The cache in the folder given.
    #[cfg(test)]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Cache { root: root.into() }
    }

    /// The user's cache: `$BAKEOFF_CACHE`, else `$XDG_CACHE_HOME/bakeoff`, else `~/.cache/bakeoff`.
    ///
    /// # Errors
    /// When none of the three variables is set, or somebody else can write to the cache.
    pub fn from_environment() -> Result<Self, InstallError> {
        let cache = place::of_environment().map(|root| Cache { root });
        let cache = cache.ok_or(InstallError::NoCache)?;
        cache.check_owner()?;
        Ok(cache)
    }

    /// Refuses a cache from which others could have us execute what they like. One that is not there yet is
    /// made for us alone.
    fn check_owner(&self) -> Result<(), InstallError> {
        let Ok(found) = fs::metadata(&self.root) else { return Ok(()) };
        match foreign(&found) {
            Some(why) => Err(InstallError::UnsafeCache { path: self.root.clone(), why }),
            None => Ok(()),
        }
    }

    /// The folder itself.
    #[cfg(test)]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of one system.
    pub(super) fn system_dir(&self, system: &str) -> PathBuf {
        self.root.join(system)
    }

    /// Returns where the log of one source of one system is kept; an older one is forgotten.
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

    /// All whole programs of a system, whatever their state; unreadable ones are left out.
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

    /// Takes the system's lock, waiting for another bakeoff that holds it and saying so.
    pub(super) fn lock(
        &self,
        system: &str,
        watcher: &mut Watcher<'_>,
    ) -> Result<Locked, InstallError> {
        let dir = self.system_dir(system);
        make_dirs(&dir).map_err(|e| cannot("make", &dir, e))?;
        let path = dir.join(".lock");
        let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = open.map_err(|e| cannot("open", &path, e))?;
        let mut reported = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Locked { dir, _file: file }),
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

/// Makes folders, which their owner alone may enter.
fn make_dirs(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).recursive(true).create(dir)
}

/// The right to change one system's folder in the cache; given up when dropped.
pub(super) struct Locked {
    dir: PathBuf,
    _file: File,
}

impl Locked {
    /// A new empty folder to work in, removed when dropped. What a killed bakeoff left is removed.
    pub(super) fn work_dir(&self) -> Result<TempDir, InstallError> {
        for item in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            if item.file_name().as_encoded_bytes().starts_with(WORK_PREFIX.as_bytes()) {
                let _ = fs::remove_dir_all(item.path());
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
        match fs::remove_dir_all(&dir) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(cannot("replace", &dir, e));
            }
            _ => {}
        }
        fs::rename(tree, &dir).map_err(|e| cannot("move a program to", &dir, e))?;
        Ok(Entry { dir, manifest })
    }
}

impl Entry {
    fn read(dir: &Path, system: &str) -> Option<Entry> {
        let text = fs::read_to_string(dir.join(MANIFEST)).ok()?;
        let manifest = Manifest::parse(&text, system)?;
        Some(Entry { dir: dir.to_owned(), manifest })
    }

    /// The program's files, absolute, in the manifest's order.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.manifest.files.iter().map(|held| self.dir.join(&held.path)).collect()
    }

    /// The folders of its shared libraries, absolute.
    pub(super) fn library_path(&self) -> Vec<PathBuf> {
        let libraries: Vec<_> = self.manifest.libraries.iter().map(|held| &held.path).collect();
        folders_of(&self.dir, &libraries)
    }

    /// Checks that its folder still holds what was fetched and nothing else.
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

    /// Checks that each file and link of its folder is listed, and leads where it did.
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

/// The contents of a folder, all the way down, by paths relative to it. Links are not followed.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) files: Vec<PathBuf>,
    /// The root itself is the empty path.
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

/// The folders of these files of a tree, each once.
pub(super) fn folders_of(tree: &Path, files: &[impl AsRef<Path>]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        files.iter().filter_map(|file| file.as_ref().parent()).map(|dir| tree.join(dir)).collect();
    folders.sort();
    folders.dedup();
    folders
}

impl Manifest {
    /// Reads the manifest of one of this system's programs; `None` where it is none, or names files outside of the
    /// program's folder.
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

    /// All plain files.
    fn held(&self) -> impl Iterator<Item = &Held> {
        self.files.iter().chain(&self.libraries).chain(&self.others)
    }

    /// Adds the files of `tree` that are not listed yet, hashed now, and its links.
    pub(super) fn hold_others(&mut self, tree: &Path) -> io::Result<()> {
        let Tree { mut files, links, .. } = Tree::read(tree)?;
        let listed: BTreeSet<&PathBuf> = self.held().map(|held| &held.path).collect();
        files.retain(|path| !listed.contains(path));
        self.others = Self::read(tree, &files)?;
        self.links = links;
        Ok(())
    }

    /// Names the program's folder: `3.6.16-go-1f0c52a9`, by its version, its source and what it was built from.
    fn folder_name(&self) -> String {
        let Self { version, source, source_kind, ingredients_sha256, .. } = self;
        let built_from = sha256_of_text(&format!("{ingredients_sha256} {source}"));
        format!("{version}-{source_kind}-{}", &built_from[..8])
    }

    /// A manifest of files in `tree`, hashed now.
    pub(super) fn read(tree: &Path, files: &[PathBuf]) -> io::Result<Vec<Held>> {
        let hold = |path: &PathBuf| {
            let whole = tree.join(path);
            Ok(Held {
                path: path.clone(),
                sha256: hash(&whole)?,
                size_bytes: fs::metadata(&whole)?.len(),
            })
        };
        files.iter().map(hold).collect()
    }

    /// A manifest with the current form.
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

/// The one hash that stands for a program: its executable's, or that of the sorted list of its
/// jars, a `sha256  name` line each.
pub(super) fn program_hash(files: &[(String, String)]) -> String {
    if let [(_, only)] = files {
        return only.clone();
    }
    let mut lines: Vec<String> =
        files.iter().map(|(name, sha256)| format!("{sha256}  {name}\n")).collect();
    lines.sort();
    hex(&Sha256::digest(lines.concat().as_bytes()))
}

/// The same of a program's files in the cache.
pub(super) fn hash_of_held(files: &[Held]) -> String {
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
    fn the_cache_is_where_the_environment_says() {
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
        assert!(cache.check_owner().is_ok(), "it is not there yet");
        make_dirs(&cache.system_dir("etcd")).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(cache.root()), mode(&cache.system_dir("etcd"))), (0o700, 0o700));
        for (mode, taken) in [(0o755, true), (0o775, false), (0o707, false)] {
            fs::set_permissions(cache.root(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(cache.check_owner().is_ok(), taken, "{mode:o}");
        }
        let told = cache.check_owner().unwrap_err().to_string();
        assert!(
            told.contains("can be written by other users") && told.contains("chmod go-w"),
            "{told}"
        );
    }

    #[test]
    fn a_manifest_that_points_out_of_its_folder_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let entry = dir.path().join("etcd/1-x");
        fs::create_dir_all(&entry).unwrap();
        let cache = Cache::at(dir.path());
        let mut manifest = Manifest::new("etcd", "1.0.0".into(), "s".into(), "x");
        for (path, seen) in [("bin/etcd", 1), ("../../etcd", 0), ("/bin/sh", 0)] {
            manifest.files = vec![Held { path: path.into(), sha256: String::new(), size_bytes: 0 }];
            fs::write(entry.join(MANIFEST), serde_json::to_string(&manifest).unwrap()).unwrap();
            assert_eq!(cache.entries("etcd").len(), seen, "{path}");
        }
        for torn in ["", "{", "[]", "{\"format\": 99}"] {
            fs::write(entry.join(MANIFEST), torn).unwrap();
            assert!(cache.entries("etcd").is_empty());
        }
    }

    #[test]
    fn a_programs_hash_does_not_depend_on_the_order_of_its_jars() {
        let (a, b) = (("a.jar".to_owned(), "11".to_owned()), ("b.jar".to_owned(), "22".to_owned()));
        assert_eq!(program_hash(&[a.clone(), b.clone()]), program_hash(&[b.clone(), a.clone()]));
        assert_eq!(program_hash(&[a]), "11");
    }

    #[test]
    fn no_manifest_makes_its_reader_panic_or_leads_out_of_the_cache() {
        let held = Held { path: "bin/etcd".into(), sha256: "00".into(), size_bytes: 1 };
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
