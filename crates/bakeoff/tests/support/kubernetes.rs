//! Runs a real Kubernetes for a test with `cargo xtask cluster`, and removes it when dropped.
//!
//! Not here: starting it (`xtask/src/cluster.rs`).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{DirEntry, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use super::CommandOutput;
use super::skip::SkipReason;

/// A cluster or the place for one, separate from other clusters on this machine.
pub(crate) struct Cluster {
    folder: tempfile::TempDir,
}

impl Cluster {
    /// Checks that a cluster can be started here, without starting one.
    ///
    /// # Errors
    /// Returns what the machine lacks.
    pub(crate) fn place() -> Result<Self, SkipReason> {
        if !rustix::process::geteuid().is_root() {
            return Err(SkipReason::Machine("only root can start a Kubernetes cluster".to_owned()));
        }
        let cluster = Self { folder: tempfile::tempdir().expect("there is room for a test") };
        let checked = cluster.xtask(&["check"]);
        match checked.code {
            Some(0) => Ok(cluster),
            _ => Err(SkipReason::Machine(checked.stderr)),
        }
    }

    /// Starts a cluster.
    pub(crate) fn start(nodes: usize) -> Result<Self, SkipReason> {
        let cluster = Self::place()?;
        cluster.up(nodes);
        Ok(cluster)
    }

    /// Starts the cluster and returns the output.
    pub(crate) fn up(&self, nodes: usize) -> String {
        self.xtask(&["up", "--nodes", &nodes.to_string()]).ends_with(0).stdout
    }

    /// Begins to start the cluster, and discards the output.
    pub(crate) fn begin_up(&self) -> Child {
        let mut up = self.command(&["up"]);
        up.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        up.spawn().expect("xtask starts")
    }

    /// Runs `cargo xtask cluster WORDS`.
    pub(crate) fn xtask(&self, words: &[&str]) -> CommandOutput {
        CommandOutput::run(self.command(words).stdin(Stdio::null()))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(xtask());
        command.arg("cluster").args(words).env("BAKEOFF_CLUSTER", self.folder());
        command
    }

    /// Returns the folder with all files of the cluster.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Returns the folder of a `kubectl` for the cluster, to put on `PATH`.
    pub(crate) fn bin(&self) -> PathBuf {
        self.folder().join("bin")
    }

    /// Returns name, machines and processes.
    pub(crate) fn status(&self) -> Value {
        let ran = self.xtask(&["status", "--json"]).ends_with(0);
        serde_json::from_str(&ran.stdout).expect("it is JSON")
    }

    /// Imports an image into each node: the path of a tar, or `debian`.
    pub(crate) fn import(&self, image: &str) {
        self.xtask(&["image", image]).ends_with(0);
    }

    /// Runs `kubectl` with an input.
    pub(crate) fn kubectl(&self, arguments: &[&str], input: &str) -> CommandOutput {
        let mut command = Command::new(self.bin().join("kubectl"));
        command.args(arguments).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // If it does not read its input, its exit tells the result.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        CommandOutput::from_output(child.wait_with_output().unwrap())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.command(&["down"]).stdin(Stdio::null()).output();
    }
}

/// Builds `xtask` once.
fn xtask() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // With the same features as the build of all tests, so that it exists already.
        cargo.args([
            "test",
            "--workspace",
            "--no-run",
            "--quiet",
            "--test",
            "chores",
            "--message-format",
            "json-render-diagnostics",
        ]);
        cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
        // cargo's variables for the test would rebuild some dependencies.
        for (name, _) in std::env::vars_os() {
            let name_of = name.to_string_lossy();
            let of_the_test = ["CARGO_PKG_", "CARGO_MANIFEST_", "OUT_DIR"];
            if of_the_test.iter().any(|start| name_of.starts_with(start)) {
                cargo.env_remove(name);
            }
        }
        let ran = CommandOutput::run(cargo.stdin(Stdio::null())).ends_with(0);
        let messages = ran.stdout.lines().filter_map(|line| serde_json::from_str(line).ok());
        let executable = |message: Value| {
            (message["target"]["name"] == "xtask" && message["target"]["kind"][0] == "bin")
                .then(|| message["executable"].as_str().map(PathBuf::from))?
        };
        messages.filter_map(executable).next_back().expect("cargo says where xtask is")
    })
}

/// Returns a description of everything that a cluster of this name and folder left on this machine.
pub(crate) fn left_of(name: &str, folder: &Path) -> Vec<String> {
    let mut left = Vec::new();
    let mark = format!("BAKEOFF_CLUSTER_NAME={name}");
    for entry in std::fs::read_dir("/proc").expect("this is Linux").flatten() {
        let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
        let has = |bytes: Vec<u8>, text: &str| String::from_utf8_lossy(&bytes).contains(text);
        let is_process = entry.file_name().to_string_lossy().parse::<u32>().is_ok();
        if is_process && (has(read("environ"), &mark) || has(read("cgroup"), name)) {
            left.push(format!("process {}", entry.path().display()));
        }
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("this is Linux");
    let place = format!("{}/", folder.display());
    let is_ours = |line: &&str| line.contains(&place);
    left.extend(mounts.lines().filter(is_ours).map(|line| format!("mount {line}")));
    left.extend(folders_named(Path::new("/sys/fs/cgroup"), OsStr::new(name)));
    if folder.exists() {
        left.push(format!("folder {}", folder.display()));
    }
    left
}

/// Returns the existing folders among those that Kubernetes programs create by default.
pub(crate) fn usual_folders() -> Vec<&'static str> {
    let usual = [
        "/etc/cni",
        "/opt/cni",
        "/opt/containerd",
        "/run/containerd",
        "/run/runc",
        "/usr/libexec/kubernetes",
        "/var/lib/cni",
        "/var/lib/containerd",
        "/var/lib/kubelet",
        "/var/log/containers",
        "/var/log/pods",
        "/var/run/kubernetes",
    ];
    usual.into_iter().filter(|folder| Path::new(folder).exists()).collect()
}

fn folders_named(top: &Path, name: &OsStr) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(folder) = waiting.pop() {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            if entry.file_name() == name {
                found.push(format!("cgroup {}", entry.path().display()));
            }
            waiting.push(entry.path());
        }
    }
    found
}

const NAMESPACES: [&str; 5] = ["net", "mnt", "pid", "uts", "ipc"];

/// Namespaces of processes, held open so that their names are not reused.
pub(crate) struct Namespaces(Vec<(PathBuf, File)>);

impl Namespaces {
    /// Holds the namespaces of processes.
    pub(crate) fn hold(pids: &[u64]) -> Self {
        let paths =
            pids.iter().flat_map(|pid| NAMESPACES.map(|one| format!("/proc/{pid}/ns/{one}")));
        let held =
            paths.map(|path| (std::fs::read_link(&path).unwrap(), File::open(&path).unwrap()));
        Self(held.collect())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|(name, _)| name).collect::<BTreeSet<_>>().len()
    }

    /// Returns the namespaces that any process uses.
    pub(crate) fn used(&self) -> BTreeSet<PathBuf> {
        let entries = std::fs::read_dir("/proc").expect("this is Linux").flatten();
        // A zombie has no network namespace.
        let runs = |entry: &DirEntry| std::fs::read_link(entry.path().join("ns/net")).is_ok();
        let links = entries
            .filter(runs)
            .flat_map(|entry| NAMESPACES.map(|one| entry.path().join("ns").join(one)));
        let names = links.filter_map(|link| std::fs::read_link(link).ok());
        names.filter(|name| self.0.iter().any(|(held, _)| held == name)).collect()
    }
}
