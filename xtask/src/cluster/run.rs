//! Manages the run folder of a cluster: its files, its name, and its lock.
//!
//! The name derives from the folder's path. So leftovers of a cluster can be found even without the folder: the name
//! is in the environment of its processes and in the names of its cgroups.
//!
//! Not here: the contents of the folder (`control`, `node`), ending processes (`down`).

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::error::ClusterError;
use super::process_id::ProcessId;

/// Variable that selects another run folder, for a second cluster.
pub(super) const RUN_VARIABLE: &str = "BAKEOFF_CLUSTER";

/// Variable in the environment of each process of a cluster.
pub(super) const MARK: &str = "BAKEOFF_CLUSTER_NAME";

/// Longest wait for another process that starts or ends the same cluster: it may be building Kubernetes.
const LOCKED: Duration = Duration::from_secs(1800);

#[derive(Debug, Clone)]
pub(super) struct Run {
    folder: PathBuf,
    name: String,
}

impl Run {
    /// Returns the folder in `BAKEOFF_CLUSTER`, or `cluster/run` in the cache.
    pub(super) fn find(cache: &Path) -> Self {
        let named = std::env::var_os(RUN_VARIABLE).filter(|value| !value.is_empty());
        let folder = named.map_or_else(|| cache.join("cluster/run"), PathBuf::from);
        Self::at(&std::path::absolute(&folder).unwrap_or(folder))
    }

    pub(super) fn at(folder: &Path) -> Self {
        let hash = Sha256::digest(folder.as_os_str().as_encoded_bytes());
        let short: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        Self { folder: folder.to_owned(), name: format!("bakeoff-cluster-{short}") }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the name: `bakeoff-cluster-1f0c52a9`.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn path(&self, inside: &str) -> PathBuf {
        self.folder.join(inside)
    }

    /// Returns the path of a server's log.
    pub(super) fn log(&self, server: &str) -> PathBuf {
        self.folder.join("logs").join(format!("{server}.log"))
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.path("kubeconfig")
    }

    /// Returns the script that replaces `kubectl` outside of the cluster's network.
    pub(super) fn kubectl(&self) -> PathBuf {
        self.path("bin/kubectl")
    }

    /// Creates a folder in the run folder, private to root.
    pub(super) fn make_folder(&self, inside: &str) -> Result<PathBuf, ClusterError> {
        let folder = self.path(inside);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(ClusterError::file("make", &folder))?;
        Ok(folder)
    }

    /// Writes a file that only root can read.
    pub(super) fn write(&self, inside: &str, text: &str) -> Result<PathBuf, ClusterError> {
        self.write_with_mode(inside, text, 0o600)
    }

    pub(super) fn write_with_mode(
        &self,
        inside: &str,
        text: &str,
        mode: u32,
    ) -> Result<PathBuf, ClusterError> {
        let path = self.path(inside);
        let write = || {
            let mut options = File::options();
            options.write(true).create(true).truncate(true).mode(mode);
            options.open(&path)?.write_all(text.as_bytes())
        };
        write().map_err(ClusterError::file("write", &path))?;
        Ok(path)
    }

    /// Locks this cluster for starting or ending, until the process ends.
    ///
    /// # Errors
    /// When another process holds the lock for half an hour.
    pub(super) fn lock(&self, cache: &Path) -> Result<Lock, ClusterError> {
        let locks = cache.join("cluster");
        fs::create_dir_all(&locks).map_err(ClusterError::file("make", &locks))?;
        let path = locks.join(format!(".{}.lock", self.name));
        loop {
            let file = File::create(&path).map_err(ClusterError::file("open", &path))?;
            wait_for_lock(&file, &path, LOCKED)?;
            let lock = Lock { file, path: path.clone() };
            // The previous holder may have removed the lock file with its cluster.
            if lock.is_in_place() {
                return Ok(lock);
            }
        }
    }

    fn state_file(&self) -> PathBuf {
        self.path("cluster.json")
    }

    /// Writes the state file of a running cluster.
    pub(super) fn write_state(&self, state: &State) -> Result<(), ClusterError> {
        // Rename it into place, so that readers see only a complete file.
        let fresh = self.write("cluster.json.new", &state.to_json().to_string())?;
        let path = self.state_file();
        fs::rename(&fresh, &path).map_err(ClusterError::file("write", &path))
    }

    /// Returns the running cluster: it has a state file, and its control plane's machine runs.
    pub(super) fn state(&self) -> Option<State> {
        let text = fs::read_to_string(self.state_file()).ok()?;
        let state = State::parse(&serde_json::from_str(&text).ok()?)?;
        state.control().init.is_running().then_some(state)
    }
}

/// Lock for starting or ending a cluster, released when dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    fn is_in_place(&self) -> bool {
        let held = self.file.metadata().map(|found| (found.dev(), found.ino()));
        let there = fs::metadata(&self.path).map(|found| (found.dev(), found.ino()));
        matches!((held, there), (Ok(held), Ok(there)) if held == there)
    }

    /// Releases the lock and removes its file.
    pub(super) fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Waits for a lock on a file, which is released when its holder ends.
pub(super) fn wait_for_lock(
    file: &File,
    path: &Path,
    within: Duration,
) -> Result<(), ClusterError> {
    let give_up = Instant::now() + within;
    let mut printed = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(ClusterError::file("lock", path)(error)),
            Err(TryLockError::WouldBlock) if Instant::now() > give_up => {
                return Err(ClusterError::Locked { lock: path.to_owned(), within });
            }
            Err(TryLockError::WouldBlock) => {
                if !printed {
                    eprintln!("waiting for another process that holds `{}`", path.display());
                    printed = true;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// A machine of a running cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Machine {
    /// Name: `control`, `n1`.
    pub(super) name: String,
    pub(super) address: String,
    /// First process of its namespaces, which end with it.
    pub(super) init: ProcessId,
}

/// A running cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    /// Machines: the control plane's first, then the nodes'.
    pub(super) machines: Vec<Machine>,
}

impl State {
    pub(super) fn control(&self) -> &Machine {
        &self.machines[0]
    }

    pub(super) fn nodes(&self) -> &[Machine] {
        &self.machines[1..]
    }

    /// Returns the nodes whose machine runs. A test may have killed some.
    pub(super) fn running_nodes(&self) -> impl Iterator<Item = &Machine> {
        self.nodes().iter().filter(|node| node.init.is_running())
    }

    fn to_json(&self) -> Value {
        let machine = |one: &Machine| {
            json!({"name": one.name, "address": one.address,
                   "pid": one.init.pid, "start_ticks": one.init.start_ticks})
        };
        json!({"machines": self.machines.iter().map(machine).collect::<Vec<_>>()})
    }

    fn parse(json: &Value) -> Option<Self> {
        let machine = |one: &Value| {
            Some(Machine {
                name: one["name"].as_str()?.to_owned(),
                address: one["address"].as_str()?.to_owned(),
                init: ProcessId {
                    pid: one["pid"].as_i64()?.try_into().ok()?,
                    start_ticks: one["start_ticks"].as_u64()?,
                },
            })
        };
        let machines: Vec<_> =
            json["machines"].as_array()?.iter().map(machine).collect::<Option<_>>()?;
        (machines.len() >= 2).then_some(Self { machines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_is_up_while_its_control_plane_runs() {
        let dir = tempfile::tempdir().unwrap();
        let run = Run::at(dir.path());
        assert_eq!(run.state(), None);
        let us = ProcessId::read(std::process::id().try_into().unwrap()).unwrap();
        // The same id, but a different process.
        let other = ProcessId { start_ticks: us.start_ticks + 1, ..us };
        let note = |control, node| {
            let machine = |name: &str, init| Machine {
                name: name.to_owned(),
                address: "198.19.0.1".to_owned(),
                init,
            };
            let state = State { machines: vec![machine("control", control), machine("n1", node)] };
            run.write_state(&state).unwrap();
            state
        };
        let state = note(us, us);
        assert_eq!((state.running_nodes().count(), run.state()), (1, Some(state)));
        let state = note(us, other);
        assert_eq!((state.running_nodes().count(), run.state()), (0, Some(state)));
        note(other, us);
        assert_eq!(run.state(), None);
    }

    #[test]
    fn incomplete_state_files_are_ignored() {
        for torn in ["{}", "[]", r#"{"machines": [{"name": "control"}]}"#, r#"{"machines": []}"#] {
            assert_eq!(State::parse(&serde_json::from_str(torn).unwrap()), None, "{torn}");
        }
    }

    #[test]
    fn two_folders_are_two_clusters() {
        let (one, other) = (Run::at(Path::new("/a/run")), Run::at(Path::new("/b/run")));
        assert_ne!(one.name(), other.name());
        assert_eq!(one.name(), Run::at(Path::new("/a/run")).name());
    }

    #[test]
    fn removed_lock_file_is_locked_again() {
        let dir = tempfile::tempdir().unwrap();
        let run = Run::at(dir.path());
        let first = run.lock(dir.path()).unwrap();
        let path = first.path.clone();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| run.lock(dir.path()).unwrap());
            std::thread::sleep(Duration::from_millis(100));
            assert!(!second.is_finished());
            first.remove();
            assert!(second.join().unwrap().is_in_place());
        });
        assert!(path.exists());
    }

    #[test]
    fn second_holder_of_a_lock_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let (one, other) = (File::create(&path).unwrap(), File::create(&path).unwrap());
        let brief = Duration::from_millis(100);
        wait_for_lock(&one, &path, brief).unwrap();
        let refused = wait_for_lock(&other, &path, brief).unwrap_err().to_string();
        assert!(refused.contains("another `cargo xtask cluster` has held"), "{refused}");
        drop(one);
        wait_for_lock(&other, &path, brief).unwrap();
    }
}
