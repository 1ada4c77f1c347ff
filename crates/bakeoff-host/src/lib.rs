//! Runs the servers that systems describe: launch, await ready, signal, sample, reap.
//!
//! A system's folder yields a [`NodeSpec`] for each node and starts nothing itself; a [`Host`]
//! makes a [`Process`] of it. On other machines an agent does the same from the same description
//! (`bakeoff-agent`), and its servers are [`Server`].
//!
//! Nothing is left running, whatever kills bakeoff. Three things see to it, each for what the
//! others cannot: dropping a [`Process`] kills and reaps it (returns, errors, panics); the kernel
//! kills each server when bakeoff dies (`shim`: `PR_SET_PDEATHSIG`); and a process that watches
//! bakeoff through a pipe kills what those servers had started in turn (`warden`).
//!
//! Not here: what to run and how to ask whether it is ready (`bakeoff_systems`), the load (`engine`).

mod before;
pub mod beside;
mod census;
mod cgroup;
mod child;
pub mod cpu_set;
pub mod disk;
mod ending;
mod error;
pub mod hardware;
mod hold;
mod launcher;
mod listening;
pub mod logs;
pub mod machine;
pub mod observe;
pub mod page_cache;
pub mod ports;
pub mod private;
mod process;
mod procfs;
mod ready;
mod running;
pub mod seat;
mod server;
mod shim;
mod sockets;
mod strangers;
mod syncs;
mod unprivileged;
pub mod usage;
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
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use self::server::LocalServer;

pub use cgroup::{LimitSupport, are_same, limit_support, own_limits};
pub use child::Exit;
pub use ending::{Ending, EndingCause, Life};
pub use error::{HostError, LogTail};
pub use launcher::{end_if_stopped, own_program};
pub use process::{Process, Server, terminate_all};
pub use ready::{Probe, await_ready};
pub use seat::{MachineId, Seat};
pub use server::Stopped;
pub use syncs::SyncsSeen;

/// One server process to run, described.
#[derive(Debug, Clone, Default)]
pub struct NodeSpec {
    /// `etcd-1`: names its log, and the node in every message.
    pub name: String,
    /// A path, or a name to be found on `PATH`.
    pub program: PathBuf,
    /// Its arguments, the program's own name not among them.
    pub args: Vec<OsString>,
    /// Added to an environment that is otherwise `PATH`, `HOME`, `LANG=C`, `TMPDIR` and a mark.
    pub env: Vec<(String, String)>,
    /// Written before the first start; a restart leaves them as they are.
    pub files: Vec<NodeFile>,
    /// The node's own directory, made by the host; the process starts in it.
    pub dir: PathBuf,
    /// Where it runs, and the address that it listens on.
    pub seat: Seat,
    /// Its listening ports by purpose: `("client", 17001)`.
    pub ports: Vec<(String, u16)>,
    /// Ports that it would listen on at all addresses and cannot be told to leave alone. They are held at the address
    /// of its seat from before its start until it is dropped, so that it finds them taken.
    pub held: Vec<u16>,
    /// Its resource limits.
    pub limits: Option<Limits>,
    /// Commands that run to their end before the first start, one after the other; not at a restart.
    pub before: Vec<Before>,
    /// Whether it refuses to run as root: then it and what runs before it are somebody else, to
    /// whom the files of this run's user belong (`unprivileged`).
    pub never_root: bool,
    /// The signal that asks it to end; `SIGTERM` when `None`.
    pub stop_signal: Option<Signal>,
    /// Files that it writes its errors into besides its output, relative to its directory; they
    /// need not be there. What they say while a load runs is in the record, as is what its output
    /// says.
    pub logs: Vec<PathBuf>,
    /// The words by which it names the levels of its lines, besides those that are common.
    pub level_words: &'static [LevelWord],
}

/// A command that makes what a server needs: a database's directory, a copy of another's.
///
/// It has the server's directory, environment, limits and log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Before {
    /// A path, or a name to be found on `PATH`.
    pub program: PathBuf,
    /// Its arguments, the program's own name not among them.
    pub args: Vec<OsString>,
    /// How long it may take, all tries together.
    pub within: Duration,
    /// The consequence of a failure.
    pub failure: OnFailure,
}

/// The consequence of a failed command before a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFailure {
    /// The node cannot be started.
    GiveUp,
    /// Its prerequisite is not there yet: it is run again until it succeeds.
    #[cfg_attr(not(test), allow(dead_code, reason = "no system needs it yet"))]
    TryAgain,
}

impl NodeSpec {
    /// A node that runs a program without arguments in a directory of its own.
    pub fn new(name: String, program: impl Into<PathBuf>, dir: PathBuf) -> Self {
        Self {
            name,
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            files: Vec::new(),
            dir,
            seat: Seat::HERE,
            ports: Vec::new(),
            held: Vec::new(),
            limits: None,
            before: Vec::new(),
            never_root: false,
            stop_signal: None,
            logs: Vec::new(),
            level_words: &[],
        }
    }

    /// The port for a purpose. Asking for one that the description lacks is a bug.
    pub fn port(&self, purpose: &str) -> u16 {
        let found = self.ports.iter().find(|(name, _)| name == purpose);
        found.unwrap_or_else(|| panic!("`{}` has no `{purpose}` port", self.name)).1
    }
}

/// A file that a node needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeFile {
    /// Relative to the node's directory; directories on the way are made.
    pub path: PathBuf,
    /// Its content.
    pub contents: Vec<u8>,
    /// Its permissions.
    pub mode: FileMode,
}

/// The permissions of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileMode {
    /// Its owner only (0600): keys, tokens, passwords.
    #[cfg_attr(not(test), allow(dead_code, reason = "no system has secrets yet"))]
    Private,
    /// Anybody (0644).
    Readable,
}

/// The fate of a node's limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitsApplied {
    /// The study asks for none.
    NotAsked,
    /// They hold, and were read back.
    Applied {
        /// Where: the path of a cgroup.
        by: String,
    },
    /// They are those of the container that it is in, as was read there: a pod that is its own.
    ByContainer {
        /// `0.5 CPU and 1 GiB of memory`.
        limits: String,
    },
    /// They do not hold; a report must say so.
    NotApplied {
        /// In words for that report.
        why: String,
    },
    /// They were set, and something else was read back; nothing was left in place.
    Differs {
        /// The limits set and the limits read back.
        why: String,
    },
}

/// Puts nodes under their limits.
pub trait Confine: Send + Sync {
    /// Called before a node is started, and again before a restart.
    fn confine(&self, spec: &NodeSpec) -> Confinement;
    /// Called once a node's processes are gone.
    fn release(&self, spec: &NodeSpec);
}

/// Limits that [`Confine`] prepared for one node.
#[derive(Debug, Clone)]
pub struct Confinement {
    /// Files that the process writes its own id into before it becomes the server
    /// (`cgroup.procs`), so that not even its first instruction runs outside.
    pub enter: Vec<PathBuf>,
    /// The report on them.
    pub limits: LimitsApplied,
    /// Where its own figures are, when it has a group of its own.
    pub group: Option<cgroup::Group>,
}

/// Where servers run: this machine.
pub struct Host {
    logs: PathBuf,
    confine: Arc<dyn Confine>,
}

impl Host {
    /// Servers of one run; their output goes to `<run_dir>/logs/<name>.log`.
    pub fn new(run_dir: &Path) -> Result<Self, HostError> {
        Self::confining(run_dir, Arc::new(cgroup::Cgroups::mounted()))
    }

    /// As [`Host::new`], with limits applied by `confine`.
    pub fn confining(run_dir: &Path, confine: Arc<dyn Confine>) -> Result<Self, HostError> {
        // Absolute, for a node starts in its own directory.
        let logs = std::path::absolute(run_dir.join("logs"))
            .and_then(|logs| private::make_dirs(&logs).map(|()| logs))
            .map_err(|e| HostError::io("make the directory for logs", run_dir, e))?;
        Ok(Self { logs, confine })
    }

    /// Writes the node's files and starts it. When this returns, the program itself runs: that it
    /// could not be executed is an error here. Whether it is ready is [`await_ready`]'s.
    pub fn launch(&self, mut spec: NodeSpec) -> Result<Process, HostError> {
        let one_name = Path::new(&spec.name).components().collect::<Vec<_>>();
        if !matches!(one_name[..], [Component::Normal(_)]) {
            return Err(HostError::Spec {
                problem: "its name cannot name a file".into(),
                node: spec.name,
            });
        }
        let program = resolve_program(&spec, &spec.program)?;
        for index in 0..spec.before.len() {
            spec.before[index].program = resolve_program(&spec, &spec.before[index].program)?;
        }
        spec.dir = std::path::absolute(&spec.dir)
            .map_err(|e| HostError::io("use the node's directory", &spec.dir, e))?;
        // Before it is there: whoever is killed in between leaves nothing.
        launcher::remove_folder(&spec.dir)
            .map_err(|e| HostError::io("have a folder removed", &spec.dir, e))?;
        write_files(&spec)?;
        let log = self.logs.join(format!("{}.log", spec.name));
        let server = LocalServer::start(spec, program, log, Arc::clone(&self.confine))?;
        Ok(Process::new(Box::new(server)))
    }
}

/// A folder that goes when bakeoff is killed: its warden removes it. Whoever drops this decides of the folder.
pub struct RemovedIfKilled(PathBuf);

impl RemovedIfKilled {
    /// Has the folder removed, whose path is absolute.
    ///
    /// # Errors
    /// When there can be no warden.
    pub fn new(dir: &Path) -> Result<Self, HostError> {
        launcher::remove_folder(dir).map_err(|e| HostError::io("have a folder removed", dir, e))?;
        Ok(Self(dir.to_owned()))
    }
}

impl Drop for RemovedIfKilled {
    fn drop(&mut self) {
        launcher::keep_folder(&self.0);
    }
}

/// The commands that bakeoff starts itself with; `None` when this process is none of them.
pub fn internal_command() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    match args.next()?.to_str()? {
        shim::COMMAND => Some(shim::run(args)),
        warden_line::COMMAND => Some(warden::run(args)),
        hold::COMMAND => Some(hold::run(args)),
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
        let mode = match file.mode {
            FileMode::Private => 0o600,
            FileMode::Readable => 0o644,
        };
        // A file that is there keeps its mode on opening, so an old one goes first.
        let _ = std::fs::remove_file(&path);
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)
            .and_then(|mut to| to.write_all(&file.contents))
            .map_err(|e| HostError::io("write a node's file", &path, e))?;
    }
    Ok(())
}

/// The program's absolute path, known to be an executable file.
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
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => fail("there is no such file"),
        Err(e) => fail(&e.to_string()),
        Ok(m) if !m.is_file() => fail("it is not a file"),
        Ok(_) if !executable(&path) => fail("it is not executable"),
        Ok(_) => Ok(path),
    }
}

#[cfg(test)]
mod tests;
