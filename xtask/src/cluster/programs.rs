//! Provides the programs of a cluster in bakeoff's cache, without installing anything on the machine.
//!
//! Kubernetes and CoreDNS are built from their Go modules, with the versions in their own `go.mod`, so that Go's
//! checksum database verifies all of it. etcd comes from bakeoff's recipe. containerd, runc and the network tools come
//! from Debian. A file in the cache is always complete, because it is renamed into place last.
//!
//! Not here: Debian's packages (`debian`).

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_install::{
    Cache, InstallMessage, Program, Recipe, Shape, Source, VersionRequest, install,
};
use sha2::{Digest as _, Sha256};

use super::debian::{self, WORK};
use super::error::{ClusterError, Lack};
use super::process::{finish, follow};
use super::run::wait_for_lock;

const BRIEF: Duration = Duration::from_secs(60);
const LOCKED: Duration = Duration::from_secs(1800);

/// A Go program with a main package in this repository.
struct GoProgram {
    name: &'static str,
    main: &'static str,
    library: Option<Library>,
    /// Variables that hold the version in the project's own builds, with their values.
    stamps: &'static [(&'static str, &'static str)],
    takes: &'static str,
}

/// Module that a program is built from.
struct Library {
    module: &'static str,
    version: &'static str,
    /// Published version of the modules that it keeps in its own folders.
    staging: Option<&'static str>,
}

/// Kubernetes stores its version in several variables. Without them a server reports version 0.0.0.
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

/// Same versions as bakeoff's etcd, so that the cache holds only one.
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

#[derive(Debug)]
pub(super) struct Programs {
    /// Kubernetes' programs in one binary. Its first argument selects the program.
    pub(super) kubernetes: PathBuf,
    pub(super) coredns: PathBuf,
    /// First process of a machine and of a pod.
    pub(super) init: PathBuf,
    pub(super) etcd: PathBuf,
    tools: PathBuf,
    libraries: OsString,
}

/// Returns bakeoff's cache folder.
pub(super) fn cache() -> Result<PathBuf, ClusterError> {
    let found = bakeoff_install::place::of_environment();
    found.ok_or(ClusterError::NoCache)
}

impl Programs {
    /// Finds the programs in the cache. Fetches and builds missing ones.
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

    /// Returns a program from Debian, such as `ctr`.
    pub(super) fn tool(&self, name: &str) -> PathBuf {
        let places =
            ["usr/bin", "usr/sbin", "bin", "sbin"].map(|dir| self.tools.join(dir).join(name));
        let found = places.into_iter().find(|path| path.exists());
        // A complete tree has every program. For a damaged one, this path makes the error name the program.
        found.unwrap_or_else(|| self.tools.join("usr/bin").join(name))
    }

    /// Returns the folder of the network plugins.
    pub(super) fn network_plugins(&self) -> PathBuf {
        self.tools.join("usr/lib/cni")
    }

    /// Makes a command and its children find Debian's programs and libraries.
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

/// Locks the cache until the file is closed. Removes leftovers of killed processes.
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

/// Returns true if nothing has to be fetched or built.
pub(super) fn are_cached(cache: &Path) -> bool {
    let place = cache.join("cluster");
    let built = [&INIT, &COREDNS, &KUBERNETES].iter().all(|one| one.program(&place).is_file());
    built && debian::has_tools(&place)
}

/// Returns the tools that this machine lacks to fetch and build missing programs.
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

/// Returns the folder of all cluster files, created if it is missing.
pub(super) fn cluster_folder(cache: &Path) -> Result<PathBuf, ClusterError> {
    let place = cache.join("cluster");
    fs::create_dir_all(&place).map_err(ClusterError::file("make", &place))?;
    Ok(place)
}

fn etcd() -> Result<PathBuf, ClusterError> {
    let wanted: VersionRequest = "3.6".parse().expect("it is a version");
    let stop = AtomicBool::new(false);
    let mut progress = |message: InstallMessage<'_>| {
        let (InstallMessage::Step(line) | InstallMessage::State(line)) = message;
        eprintln!("{line}");
    };
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

    /// Returns the program's path in the cache, which need not exist yet.
    fn program(&self, place: &Path) -> PathBuf {
        let folder = format!("{}-{}-{}", self.name, self.version(), self.fingerprint());
        place.join(folder).join(self.name)
    }

    /// Returns the program in the cache, built if it is missing.
    fn have(&self, place: &Path) -> Result<PathBuf, ClusterError> {
        let program = self.program(place);
        if program.is_file() {
            return Ok(program);
        }
        let version = self.version();
        let sums = finish(Command::new("go").args(["env", "GOSUMDB"]), BRIEF)?;
        if sums.trim() == "off" {
            return Err(ClusterError::Machine(vec![Lack::new(
                "GOSUMDB is off, so downloaded modules cannot be verified",
                "run `go env -u GOSUMDB`, and unset it in the environment",
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

    /// Returns the linker's options: without debug tables, with the version.
    fn linked(&self) -> String {
        let stamps = self.stamps.iter().map(|(variable, value)| format!(" -X {variable}={value}"));
        format!("-s -w{}", stamps.collect::<String>())
    }

    /// Returns a hash that differs for programs built from different inputs.
    fn fingerprint(&self) -> String {
        let module = self.library.as_ref().map_or("", |library| library.module);
        let hash = Sha256::digest(format!("{module} {} {}", self.linked(), self.main));
        hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Library {
    /// Copies the module's `go.mod` and `go.sum`, which hold the versions that its authors build with. Modules in its
    /// own folders are replaced by their published versions.
    fn take_over(&self, source: &Path) -> Result<(), ClusterError> {
        let wanted = format!("{}@{}", self.module, self.version);
        let mut download = go(source);
        let printed = finish(download.args(["mod", "download", "-json", &wanted]), LOCKED)?;
        let printed: serde_json::Value = serde_json::from_str(&printed).unwrap_or_default();
        let folder = PathBuf::from(printed["Dir"].as_str().unwrap_or_default());
        for name in ["go.mod", "go.sum"] {
            let (from, to) = (folder.join(name), source.join(name));
            // Copy only the text: the original is read-only.
            let copy = || fs::write(&to, fs::read(&from)?);
            copy().map_err(ClusterError::file("copy", &from))?;
        }
        let go_mod = finish(go(source).args(["mod", "edit", "-json"]), BRIEF)?;
        let go_mod = serde_json::from_str(&go_mod).unwrap_or_default();
        finish(go(source).args(self.edits(&go_mod)), BRIEF).map(drop)
    }

    /// Returns the `go mod edit` arguments that adapt the module's `go.mod`.
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
    fn modules_in_folders_are_replaced_by_published_ones() {
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
    fn different_inputs_give_a_different_program() {
        let other = GoProgram { main: "package main\n", ..KUBERNETES };
        assert_ne!(other.fingerprint(), KUBERNETES.fingerprint());
        assert!(
            KUBERNETES.linked().contains(" -X k8s.io/component-base/version.gitVersion=v1.34.4")
        );
    }
}
