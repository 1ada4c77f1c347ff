//! The programs of a cluster, in bakeoff's cache: nothing is installed on the machine.
//!
//! Kubernetes and CoreDNS are built from their Go modules, with the versions that their own `go.mod` names, so that Go's checksum database
//! vouches for all of it; etcd comes by bakeoff's own recipe; containerd, runc and the tools of the network from Debian.
//! What is in the cache is whole: it is renamed into place last.
//!
//! Not here: Debian's packages (`debian`).

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_install::{Cache, Program, Recipe, Shape, Source, VersionRequest, install};
use sha2::{Digest as _, Sha256};

use super::debian::{self, WORK};
use super::error::{ClusterError, Lack};
use super::process::{finish, follow};
use super::run::wait_for_lock;

const BRIEF: Duration = Duration::from_secs(60);
const LOCKED: Duration = Duration::from_secs(1800);

/// A program in Go with a main package of ours.
struct GoProgram {
    name: &'static str,
    main: &'static str,
    library: Option<Library>,
    /// Variables that hold the version in the project's own builds, and their values.
    stamps: &'static [(&'static str, &'static str)],
    takes: &'static str,
}

/// The module that a program is made of.
struct Library {
    module: &'static str,
    version: &'static str,
    /// The published version of modules that it keeps in folders of its own.
    staging: Option<&'static str>,
}

/// Kubernetes writes its version into several variables; without them a server takes itself for 0.0.0.
const KUBERNETES: GoProgram = GoProgram {
    name: "kubernetes",
    main: include_str!("go/kubernetes.go"),
    library: Some(Library {
        module: "k8s.io/kubernetes",
        version: "v1.34.4",
        staging: Some("v0.34.4"),
    }),
    stamps: &[
        ("k8s.io/component-base/version.gitVersion", "v1.34.4"),
        ("k8s.io/component-base/version.gitMajor", "1"),
        ("k8s.io/component-base/version.gitMinor", "34"),
        ("k8s.io/component-base/version.gitTreeState", "clean"),
        ("k8s.io/component-base/version.buildDate", "2026-01-01T00:00:00Z"),
    ],
    takes: "7 minutes and 3 GB of memory",
};

const COREDNS: GoProgram = GoProgram {
    name: "coredns",
    main: include_str!("go/coredns.go"),
    library: Some(Library {
        module: "github.com/coredns/coredns",
        version: "v1.13.1",
        staging: None,
    }),
    stamps: &[],
    takes: "a minute",
};

const INIT: GoProgram = GoProgram {
    name: "init",
    main: include_str!("go/init.go"),
    library: None,
    stamps: &[],
    takes: "seconds",
};

/// The same versions as bakeoff's etcd, so that the cache holds one.
const ETCD: Recipe = Recipe {
    system: "etcd",
    shape: Shape::Binary { executable: "etcd", version_args: &["--version"] },
    sources: &[Source::GoModule {
        module: "go.etcd.io/etcd/server/v3",
        package: "go.etcd.io/etcd/server/v3",
        versions: &["3.6.16"],
        takes: "2 minutes",
    }],
};

/// The programs of a cluster.
#[derive(Debug)]
pub(super) struct Programs {
    /// All of Kubernetes; its first word says which program it is.
    pub(super) kubernetes: PathBuf,
    pub(super) coredns: PathBuf,
    /// The first process of a machine and of a pod.
    pub(super) init: PathBuf,
    pub(super) etcd: PathBuf,
    tools: PathBuf,
    libraries: OsString,
}

/// bakeoff's cache, where it is allowed to be.
pub(super) fn cache() -> Result<PathBuf, ClusterError> {
    let found = bakeoff_install::place::of_environment();
    found.ok_or(ClusterError::NoCache)
}

impl Programs {
    /// Finds them in the cache, or fetches and builds those that are not there.
    pub(super) fn have(cache: &Path) -> Result<Self, ClusterError> {
        let place = cluster_folder(cache)?;
        let _lock = lock(&place)?;
        let tools = debian::tools(&place)?;
        let libraries = debian::library_path(&tools);
        Ok(Self {
            init: INIT.have(&place)?,
            coredns: COREDNS.have(&place)?,
            kubernetes: KUBERNETES.have(&place)?,
            etcd: etcd()?,
            tools,
            libraries,
        })
    }

    /// Returns a program of Debian's, `ctr`.
    pub(super) fn tool(&self, name: &str) -> PathBuf {
        let places =
            ["usr/bin", "usr/sbin", "bin", "sbin"].map(|dir| self.tools.join(dir).join(name));
        let found = places.into_iter().find(|path| path.exists());
        // The tree has been looked at when it was made; one that was damaged since yields an error that names it.
        found.unwrap_or_else(|| self.tools.join("usr/bin").join(name))
    }

    /// The folder of the network's plugins.
    pub(super) fn network_plugins(&self) -> PathBuf {
        self.tools.join("usr/lib/cni")
    }

    /// Lets a command, and what it starts, find Debian's programs and their libraries.
    pub(super) fn prepare(&self, command: &mut Command) {
        let own = ["usr/bin", "usr/sbin", "bin", "sbin"].map(|dir| self.tools.join(dir));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let standard = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from);
        let folders = own.into_iter().chain(std::env::split_paths(&path)).chain(standard);
        if let Ok(joined) = std::env::join_paths(folders) {
            command.env("PATH", joined);
        }
        command.env("LD_LIBRARY_PATH", &self.libraries);
    }
}

/// Takes the right to add to the cache, which ends when the file is closed; removes what somebody left who was killed.
pub(super) fn lock(place: &Path) -> Result<File, ClusterError> {
    let path = place.join(".programs.lock");
    let lock = File::create(&path).map_err(ClusterError::file("open", &path))?;
    wait_for_lock(&lock, &path, LOCKED)?;
    remove_unfinished(place);
    Ok(lock)
}

fn remove_unfinished(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(WORK.as_bytes()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns whether nothing has to be fetched or built.
pub(super) fn are_cached(cache: &Path) -> bool {
    let place = cache.join("cluster");
    let built = [&INIT, &COREDNS, &KUBERNETES].iter().all(|one| one.program(&place).is_file());
    built && debian::has_tools(&place)
}

/// Lists the tools that this machine lacks to fetch and build what is not in the cache.
pub(super) fn lacking(cache: &Path) -> Vec<Lack> {
    if are_cached(cache) {
        return Vec::new();
    }
    let tools = [
        ("go", "install Go 1.24 or newer: Kubernetes and CoreDNS are built with it"),
        ("apt-get", "use Debian or one like it: containerd and runc come from its packages"),
        ("dpkg", "use Debian or one like it: containerd and runc come from its packages"),
    ];
    tools.iter().filter_map(|(tool, hint)| Lack::of_tool(tool, hint)).collect()
}

/// The folder of everything that belongs to clusters, made if it is not there.
pub(super) fn cluster_folder(cache: &Path) -> Result<PathBuf, ClusterError> {
    let place = cache.join("cluster");
    fs::create_dir_all(&place).map_err(ClusterError::file("make", &place))?;
    Ok(place)
}

fn etcd() -> Result<PathBuf, ClusterError> {
    let wanted: VersionRequest = "3.6".parse().expect("it is a version");
    let stop = AtomicBool::new(false);
    let mut progress = |line: &str| eprintln!("{line}");
    let cache = Cache::from_environment()?;
    let found = install(&ETCD, Some(&wanted), None, &cache, &mut progress, &stop)?;
    match found.program {
        Program::Binary(path) => Ok(path),
        Program::Java { .. } | Program::Node { .. } => unreachable!("the recipe is of a binary"),
    }
}

impl GoProgram {
    fn version(&self) -> &'static str {
        self.library.as_ref().map_or("1", |library| library.version)
    }

    /// Returns where the program is in the cache, once it was built.
    fn program(&self, place: &Path) -> PathBuf {
        let folder = format!("{}-{}-{}", self.name, self.version(), self.fingerprint());
        place.join(folder).join(self.name)
    }

    /// Returns the program in the cache, built now if it is not there.
    fn have(&self, place: &Path) -> Result<PathBuf, ClusterError> {
        let program = self.program(place);
        if program.is_file() {
            return Ok(program);
        }
        let version = self.version();
        let sums = finish(Command::new("go").args(["env", "GOSUMDB"]), BRIEF)?;
        if sums.trim() == "off" {
            return Err(ClusterError::Machine(vec![Lack::new(
                "GOSUMDB is off: what would be built could not be verified",
                "`go env -u GOSUMDB`, and unset it in the environment",
            )]));
        }
        eprintln!("building {} {version}, which takes {} the first time", self.name, self.takes);
        let work = tempfile::Builder::new().prefix(WORK).tempdir_in(place);
        let work = work.map_err(ClusterError::file("make a folder in", place))?;
        let source = work.path().join("source");
        fs::create_dir(&source).map_err(ClusterError::file("make", &source))?;
        match &self.library {
            Some(library) => library.take_over(&source)?,
            None => drop(finish(go(&source).args(["mod", "init", "wrapper"]), BRIEF)?),
        }
        let main = source.join("main.go");
        fs::write(&main, self.main).map_err(ClusterError::file("write", &main))?;
        let built = work.path().join("built");
        fs::create_dir(&built).map_err(ClusterError::file("make", &built))?;
        let mut build = go(&source);
        build.args(["build", "-trimpath", "-ldflags", &self.linked(), "-o"]);
        follow(build.arg(built.join(self.name)).arg("."))?;
        let folder = program.parent().unwrap_or(place);
        let _ = fs::remove_dir_all(folder);
        fs::rename(&built, folder).map_err(ClusterError::file("keep a program in", folder))?;
        Ok(program)
    }

    /// Options of the linker: without tables for debuggers, with the version.
    fn linked(&self) -> String {
        let stamps = self.stamps.iter().map(|(variable, value)| format!(" -X {variable}={value}"));
        format!("-s -w{}", stamps.collect::<String>())
    }

    /// Tells programs of different text apart.
    fn fingerprint(&self) -> String {
        let module = self.library.as_ref().map_or("", |library| library.module);
        let hash = Sha256::digest(format!("{module} {} {}", self.linked(), self.main));
        hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Library {
    /// Takes the module's `go.mod` and `go.sum` over: they hold the versions that its authors build it with. Modules that it
    /// keeps in folders of its own come as published.
    fn take_over(&self, source: &Path) -> Result<(), ClusterError> {
        let wanted = format!("{}@{}", self.module, self.version);
        let mut download = go(source);
        let told = finish(download.args(["mod", "download", "-json", &wanted]), LOCKED)?;
        let told: serde_json::Value = serde_json::from_str(&told).unwrap_or_default();
        let folder = PathBuf::from(told["Dir"].as_str().unwrap_or_default());
        for name in ["go.mod", "go.sum"] {
            let (from, to) = (folder.join(name), source.join(name));
            // The original is read-only: its text is copied, not its mode.
            let copy = || fs::write(&to, fs::read(&from)?);
            copy().map_err(ClusterError::file("copy", &from))?;
        }
        let go_mod = finish(go(source).args(["mod", "edit", "-json"]), BRIEF)?;
        let go_mod = serde_json::from_str(&go_mod).unwrap_or_default();
        finish(go(source).args(self.edits(&go_mod)), BRIEF).map(drop)
    }

    /// The call of Go that makes the module's `go.mod` ours.
    fn edits(&self, go_mod: &serde_json::Value) -> Vec<String> {
        let mut edits = vec!["mod".to_owned(), "edit".to_owned(), "-module=wrapper".to_owned()];
        for replaced in go_mod["Replace"].as_array().into_iter().flatten() {
            let old = replaced["Old"]["Path"].as_str().unwrap_or_default();
            let new = replaced["New"]["Path"].as_str().unwrap_or_default();
            if new.starts_with('.') {
                edits.push(match self.staging {
                    Some(version) => format!("-replace={old}={old}@{version}"),
                    None => format!("-dropreplace={old}"),
                });
            }
        }
        edits.push(format!("-require={}@{}", self.module, self.version));
        edits
    }
}

fn go(folder: &Path) -> Command {
    let mut go = Command::new("go");
    go.current_dir(folder).env("CGO_ENABLED", "0").env("GOWORK", "off");
    go.env("GOFLAGS", "-mod=mod -buildvcs=false").env_remove("GOOS").env_remove("GOARCH");
    go
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_in_folders_come_as_published() {
        let go_mod = serde_json::json!({"Replace": [
            {"Old": {"Path": "k8s.io/api"}, "New": {"Path": "./staging/src/k8s.io/api"}},
            {"Old": {"Path": "x.invalid/y"}, "New": {"Path": "z.invalid/y", "Version": "v1.0.0"}},
        ]});
        let library = KUBERNETES.library.unwrap();
        let edits =
            ["-replace=k8s.io/api=k8s.io/api@v0.34.4", "-require=k8s.io/kubernetes@v1.34.4"];
        assert_eq!(library.edits(&go_mod)[3..], edits);
        let library = COREDNS.library.unwrap();
        assert_eq!(library.edits(&go_mod)[3], "-dropreplace=k8s.io/api");
    }

    #[test]
    fn another_text_is_another_program() {
        let other = GoProgram { main: "package main\n", ..KUBERNETES };
        assert_ne!(other.fingerprint(), KUBERNETES.fingerprint());
        assert!(
            KUBERNETES.linked().contains(" -X k8s.io/component-base/version.gitVersion=v1.34.4")
        );
    }
}
