//! Runs the servers that systems describe: launch, wait until ready, signal, sample, reap.
//!
//! A system's folder builds a [`NodeSpec`] for each node and starts nothing itself. A [`Host`] launches it as a
//! [`Process`]. On another machine, an agent does the same from the same description (`bakeoff-agent`); its servers
//! also implement [`Server`].
//!
//! No server outlives bakeoff, however bakeoff ends. Three mechanisms cover each other's gaps:
//! - Dropping a [`Process`] kills and reaps it. This covers returns, errors and panics.
//! - The kernel kills each server when bakeoff dies (`shim`: `PR_SET_PDEATHSIG`).
//! - A process that watches bakeoff through a pipe kills what those servers started (`warden`).
//!
//! Not here: programs and readiness probes (`bakeoff_systems`), the load (`engine`).

mod busy_time;
mod census;
mod cgroup;
mod child;
pub mod cpu_set;
pub mod disk;
mod disk_fault;
mod disk_probe;
mod ending;
mod error;
mod flip;
mod foreign_processes;
pub mod hardware;
mod helper_process;
mod hold;
pub mod instance_lock;
mod launcher;
mod listening;
pub mod location;
pub mod logs;
pub mod machine;
pub mod network;
pub mod observe;
mod other_work;
pub mod page_cache;
mod pause;
pub mod ports;
mod process;
mod procfs;
mod ready;
mod server;
mod setup_commands;
mod shim;
mod sockets;
mod syncs;
mod unprivileged;
pub mod usage;
mod volatile_disk;
mod warden;
mod warden_line;
pub mod watch;

use std::ffi::OsString;
use std::fs::Permissions;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bakeoff_core::log_findings::LevelWord;
use bakeoff_core::study::Limits;
use bakeoff_files as files;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use self::server::LocalServer;

pub use bakeoff_disk::{CutLosses, UnsyncedFate};
pub use cgroup::{LimitSupport, are_same, limit_support, own_limits};
pub use child::Exit;
pub use ending::{EndingCause, Life, ServerEnding};
pub use error::{HostError, LogTail};
pub use flip::{Flip, FlipIn, flip_a_bit};
pub use launcher::{end_if_stopped, own_program};
pub use location::{Location, MachineId};
pub use other_work::{OtherWork, other_work};
pub use process::{Process, Server, StopResult, kill_all, terminate_all};
pub use ready::{Probe, await_ready};
pub use sockets::{SocketOwner, socket_owner};
pub use syncs::SyncsSeen;
pub use volatile_disk::support as volatile_disk_support;

/// Describes one server process to run.
#[derive(Debug, Clone, Default)]
pub struct NodeSpec {
    /// Node name, such as `etcd-1`. Used for the log's file name and in messages.
    pub name: String,
    /// Path, or a name to look up on `PATH`.
    pub program: PathBuf,
    /// Arguments, without the program's name.
    pub args: Vec<OsString>,
    /// Variables added to the environment, which otherwise holds `PATH`, `HOME`, `LANG=C`, `TMPDIR` and bakeoff's
    /// marks.
    pub env: Vec<(String, String)>,
    /// Files to write before the first start. A restart does not write them again.
    pub files: Vec<NodeFile>,
    /// The node's directory. The host creates it and the process starts in it.
    pub dir: PathBuf,
    /// Machine, and address to listen on.
    pub location: Location,
    /// Listening ports by purpose: `("client", 17001)`.
    pub ports: Vec<(String, u16)>,
    /// Ports that the server would otherwise open on all addresses and has no option to disable. The host listens on
    /// them at the location's address until the process is dropped, so the server finds them in use.
    pub held: Vec<u16>,
    /// Resource limits; `None` for no limits.
    pub limits: Option<Limits>,
    /// Commands to run before the first start, in order. A restart does not run them.
    pub before: Vec<SetupCommand>,
    /// True if the server refuses to run as root. It and its `before` commands then run as another user, who owns this
    /// run's files (`unprivileged`).
    pub never_root: bool,
    /// Signal that stops the server; `SIGTERM` if `None`.
    pub stop_signal: Option<Signal>,
    /// Log files besides standard output, relative to `dir`. They may be missing. Findings in them during a load go
    /// into the record, as those in standard output do.
    pub logs: Vec<PathBuf>,
    /// The server's own words for log levels, besides the common ones.
    pub level_words: &'static [LevelWord],
    /// File system of the node's directory.
    pub disk: NodeDisk,
    /// Another version of its program, for [`Server::upgrade`].
    pub upgrade: Option<Upgrade>,
}

/// Another version of a node's program. It starts in the same directory, on the same files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgrade {
    /// Version, for messages.
    pub version: String,
    /// Path, or a name to look up on `PATH`.
    pub program: PathBuf,
    /// Arguments, without the program's name.
    pub args: Vec<OsString>,
    /// Variables added to the environment, instead of those of the first version.
    pub env: Vec<(String, String)>,
}

/// Selects the file system of a node's directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeDisk {
    /// The machine's file system.
    #[default]
    Machine,
    /// A file system in memory that can lose what was not synced ([`Server::cut_power`]). Only the node's processes see
    /// it: log files and sizes in the directory are unknown to the host.
    Forgetful,
    /// The same file system, for a node whose disk breaks while it is measured ([`Server::break_disk`]).
    Breakable,
}

/// A command that prepares a server, such as creating its database directory.
///
/// Runs with the server's directory, environment, limits and log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetupCommand {
    /// Path, or a name to look up on `PATH`.
    pub program: PathBuf,
    /// Arguments, without the program's name.
    pub args: Vec<OsString>,
    /// Time limit for all attempts together.
    pub within: Duration,
    /// Reaction to a failure.
    pub failure: OnFailure,
}

/// Reaction to a failed `before` command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFailure {
    /// Fail the node's start.
    GiveUp,
    /// Run the command again until it succeeds: its prerequisite is not there yet.
    TryAgain,
}

impl NodeSpec {
    /// Creates a node that runs a program without arguments in `dir`.
    pub fn new(name: String, program: impl Into<PathBuf>, dir: PathBuf) -> Self {
        Self {
            name,
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            files: Vec::new(),
            dir,
            location: Location::HERE,
            ports: Vec::new(),
            held: Vec::new(),
            limits: None,
            before: Vec::new(),
            never_root: false,
            stop_signal: None,
            logs: Vec::new(),
            level_words: &[],
            disk: NodeDisk::Machine,
            upgrade: None,
        }
    }

    /// Returns the port for a purpose. Panics if there is none, which is a bug.
    pub fn port(&self, purpose: &str) -> u16 {
        let found = self.ports.iter().find(|(name, _)| name == purpose);
        found.unwrap_or_else(|| panic!("`{}` has no `{purpose}` port", self.name)).1
    }
}

/// A file to write before the node starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeFile {
    /// Path relative to the node's directory. Missing directories are created.
    pub path: PathBuf,
    /// Content.
    pub contents: Vec<u8>,
    /// Permissions.
    pub mode: FileMode,
}

/// Permissions of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileMode {
    /// Readable by the owner only (0600): keys, tokens, passwords.
    Private,
    /// Readable by everyone (0644).
    Readable,
}

impl FileMode {
    /// Returns the permissions as bits.
    fn bits(self) -> u32 {
        match self {
            Self::Private => 0o600,
            Self::Readable => 0o644,
        }
    }
}

/// Outcome of applying a node's limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitsApplied {
    /// The study sets no limits.
    NotAsked,
    /// The limits are in place and were read back.
    Applied {
        /// Mechanism: the path of a cgroup, or `CPU affinity`.
        by: String,
    },
    /// The node's container has the same limits, as with a pod for this node alone.
    ByContainer {
        /// Limits of the container: `0.5 CPU and 1 GiB of memory`.
        limits: String,
    },
    /// The limits are not in place; a report must show this.
    NotApplied {
        /// Reason, for the report.
        why: String,
    },
    /// The limits read back differ from those set. They were removed again.
    Differs {
        /// Limits set and limits read back.
        why: String,
    },
}

/// Applies limits to nodes.
pub trait Confine: Send + Sync {
    /// Prepares a node's limits. Called before each start and restart.
    fn confine(&self, spec: &NodeSpec) -> Confinement;
    /// Removes a node's limits. Called once its processes are gone.
    fn release(&self, spec: &NodeSpec);
}

/// Limits that [`Confine`] prepared for one node.
#[derive(Debug, Clone)]
pub struct Confinement {
    /// `cgroup.procs` files. The process writes its ID into them before it becomes the server, so that not even its
    /// first instruction runs outside its limits.
    pub enter: Vec<PathBuf>,
    /// Outcome, for the report.
    pub limits: LimitsApplied,
    /// Cgroup to read the node's figures from, if it has one.
    pub group: Option<cgroup::Group>,
}

/// Launches servers on this machine.
pub struct Host {
    logs: PathBuf,
    confine: Arc<dyn Confine>,
}

impl Host {
    /// Creates a host for the servers of one run. Their output goes to `<run_dir>/logs/<name>.log`.
    pub fn new(run_dir: &Path) -> Result<Self, HostError> {
        Self::confining(run_dir, Arc::new(cgroup::Cgroups::mounted()))
    }

    /// Creates a host that applies limits through `confine`.
    pub fn confining(run_dir: &Path, confine: Arc<dyn Confine>) -> Result<Self, HostError> {
        // Absolute, because a node starts in its own directory.
        let logs = std::path::absolute(run_dir.join("logs"))
            .and_then(|logs| files::make_dirs(&logs).map(|()| logs))
            .map_err(|e| HostError::io("make the directory for logs", run_dir, e))?;
        Ok(Self { logs, confine })
    }

    /// Writes the node's files and starts it. Returns once the program itself runs; failing to execute it is an error
    /// here. Use [`await_ready`] to wait until it is ready.
    pub fn launch(&self, mut spec: NodeSpec) -> Result<Process, HostError> {
        let one_name = Path::new(&spec.name).components().collect::<Vec<_>>();
        if !matches!(one_name[..], [Component::Normal(_)]) {
            return Err(HostError::Spec {
                problem: "its name is not a valid file name".into(),
                node: spec.name,
            });
        }
        let program = resolve_program(&spec, &spec.program)?;
        for index in 0..spec.before.len() {
            spec.before[index].program = resolve_program(&spec, &spec.before[index].program)?;
        }
        if let Some(mut upgrade) = spec.upgrade.take() {
            upgrade.program = resolve_program(&spec, &upgrade.program)?;
            spec.upgrade = Some(upgrade);
        }
        spec.dir = std::path::absolute(&spec.dir)
            .map_err(|e| HostError::io("use the node's directory", &spec.dir, e))?;
        // Register the folder before creating it: a bakeoff killed in between then leaves nothing.
        launcher::remove_folder(&spec.dir)
            .map_err(|e| HostError::io("register a folder for removal", &spec.dir, e))?;
        write_files(&spec)?;
        let log = self.logs.join(format!("{}.log", spec.name));
        let server = LocalServer::start(spec, program, log, Arc::clone(&self.confine))?;
        Ok(Process::new(Box::new(server)))
    }
}

/// A folder that the warden removes if bakeoff is killed. On drop, the folder stays; its owner decides.
pub struct RemovedIfKilled(PathBuf);

impl RemovedIfKilled {
    /// Registers an absolute path for removal.
    ///
    /// # Errors
    /// When the warden cannot be started.
    pub fn new(dir: &Path) -> Result<Self, HostError> {
        launcher::remove_folder(dir)
            .map_err(|e| HostError::io("register a folder for removal", dir, e))?;
        Ok(Self(dir.to_owned()))
    }
}

impl Drop for RemovedIfKilled {
    fn drop(&mut self) {
        launcher::keep_folder(&self.0);
    }
}

/// Runs one of bakeoff's internal commands, if the arguments name one. Returns `None` for other arguments.
pub fn internal_command() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    match args.next()?.to_str()? {
        shim::COMMAND => Some(shim::run(args)),
        warden_line::COMMAND => Some(warden::run(args)),
        hold::COMMAND => Some(hold::run(args)),
        bakeoff_disk::COMMAND => Some(bakeoff_disk::run(args)),
        network::COMMAND => Some(network::run(args)),
        network::ENTER_COMMAND => Some(network::enter(args)),
        network::RELAYS_COMMAND => Some(network::relay(args)),
        disk_probe::COMMAND => Some(disk_probe::run(args)),
        _ => None,
    }
}

fn write_files(spec: &NodeSpec) -> Result<(), HostError> {
    use std::io::Write;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

    let tmp = spec.dir.join("tmp");
    // Some servers keep keys there in files that others could read.
    std::fs::create_dir_all(&tmp)
        .and_then(|()| std::fs::set_permissions(&spec.dir, Permissions::from_mode(0o700)))
        .map_err(|e| HostError::io("make a directory", &tmp, e))?;
    for file in &spec.files {
        let inside = file.path.components().all(|part| matches!(part, Component::Normal(_)));
        if !inside || file.path.as_os_str().is_empty() {
            return Err(HostError::Spec {
                node: spec.name.clone(),
                problem: format!("its file `{}` is outside its directory", file.path.display()),
            });
        }
        let path = spec.dir.join(&file.path);
        let parent = path.parent().unwrap_or(&spec.dir);
        std::fs::create_dir_all(parent)
            .map_err(|e| HostError::io("make a directory", parent, e))?;
        // Opening an existing file keeps its mode, so remove it first.
        let _ = std::fs::remove_file(&path);
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(file.mode.bits())
            .open(&path)
            .and_then(|mut to| to.write_all(&file.contents))
            .map_err(|e| HostError::io("write a node's file", &path, e))?;
    }
    Ok(())
}

/// Returns the program's absolute path, after checking that it is an executable file.
fn resolve_program(spec: &NodeSpec, program: &Path) -> Result<PathBuf, HostError> {
    use std::os::unix::fs::PermissionsExt;

    let fail = |problem: &str| {
        Err(HostError::Program {
            node: spec.name.clone(),
            program: program.to_owned(),
            problem: problem.into(),
        })
    };
    let executable = |path: &Path| {
        path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if program.components().count() == 1 && !program.is_absolute() {
        let path = spec.env.iter().find(|(name, _)| name == "PATH").map(|(_, p)| p.into());
        let path = path.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
        let found = std::env::split_paths(&path).map(|dir| dir.join(program));
        return match found.into_iter().find(|p| executable(p)) {
            Some(found) => Ok(std::path::absolute(&found).unwrap_or(found)),
            None => fail("it is not on `PATH`"),
        };
    }
    let path = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
    match path.metadata() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => fail("the file does not exist"),
        Err(e) => fail(&e.to_string()),
        Ok(m) if !m.is_file() => fail("it is not a file"),
        Ok(_) if !executable(&path) => fail("it is not executable"),
        Ok(_) => Ok(path),
    }
}

#[cfg(test)]
mod tests;
