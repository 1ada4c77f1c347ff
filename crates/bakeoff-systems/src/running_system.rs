//! Runs systems and their parts in the tests of their folders.
//!
//! Not here: their programs, and the studies (`testing`).

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::study;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{Host, HostError, Probe, Process, await_ready, kill_all, terminate_all};
use bakeoff_install::InstalledProgram;
use tempfile::TempDir;

use super::location_plan::LocationPlan;
use super::topology::{Component, Member, compose};
use super::{Access, COMPOSITE, ClusterStatus, NotReady, System};

/// Ready servers of a system and its parts.
pub(crate) struct Ready {
    /// Nodes of the system itself.
    pub(crate) nodes: Vec<Access>,
    /// Status of the system itself.
    pub(crate) view: ClusterStatus,
    /// System and parts, in the order of their start.
    members: Vec<StartedSystem>,
}

struct StartedSystem {
    role: String,
    system: &'static dyn System,
    nodes: Vec<Access>,
    processes: Vec<Process>,
}

impl StartedSystem {
    /// Waits until the servers can serve.
    fn status(&self) -> Result<ClusterStatus, HostError> {
        let never = AtomicBool::new(false);
        let mut view = ClusterStatus::default();
        await_ready(&self.processes, READY_WITHIN, &never, || {
            match self.system.probe(&self.nodes) {
                Ok(found) => {
                    view = found;
                    Probe::Ready
                }
                Err(NotReady::NotYet(seen) | NotReady::Odd { seen, .. }) => Probe::NotYet(seen),
                Err(NotReady::Never { seen, hint }) => Probe::Never { seen, hint },
            }
        })?;
        Ok(view)
    }
}

/// Longest time for servers to get ready.
const READY_WITHIN: Duration = Duration::from_secs(300);
/// Time for servers to stop when asked.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Starts the members of a system in order, each after the earlier ones are ready.
///
/// # Errors
/// When a member cannot be started, or does not get ready.
pub(crate) fn launch(members: Vec<Member<'_>>, dir: &Path) -> Result<Ready, HostError> {
    let mut ready =
        Ready { nodes: Vec::new(), view: ClusterStatus::default(), members: Vec::new() };
    let host = Host::new(dir)?;
    for Member { of, description, nodes } in members {
        let launched = description.nodes.into_iter().map(|spec| host.launch(spec));
        let processes = launched.collect::<Result<_, _>>()?;
        ready.add(StartedSystem {
            role: of.role.to_owned(),
            system: of.system,
            nodes,
            processes,
        })?;
    }
    Ok(ready)
}

impl Ready {
    /// Waits for a member and adds it.
    fn add(&mut self, member: StartedSystem) -> Result<(), HostError> {
        let view = member.status()?;
        if member.role == COMPOSITE {
            (self.view, self.nodes) = (view, member.nodes.clone());
        }
        self.members.push(member);
        Ok(())
    }

    /// Returns the processes of all nodes, those of parts included.
    pub(crate) fn processes(&self) -> impl Iterator<Item = &Process> {
        self.members.iter().flat_map(|member| &member.processes)
    }

    fn kill9(&self) {
        kill_all(self.processes());
    }

    /// Restarts killed nodes in order.
    fn restarted(self) -> Result<Self, HostError> {
        let mut ready = Self { members: Vec::new(), ..self };
        for member in self.members {
            member.processes.iter().try_for_each(Process::restart)?;
            ready.add(member)?;
        }
        Ok(ready)
    }

    /// Stops all nodes in reverse order.
    fn stop(self) {
        for member in self.members.into_iter().rev() {
            terminate_all(&member.processes, STOP_GRACE);
        }
    }
}

/// A running system in a temporary folder.
pub(crate) struct RunningSystem {
    pub(crate) ready: Ready,
    pub(crate) dir: TempDir,
    /// All process ids seen so far.
    seen: Vec<i32>,
}

/// Starts a system on this machine and waits until it is ready.
pub(crate) fn start(
    system: &'static dyn System,
    study_system: &study::System,
    program: Option<InstalledProgram>,
) -> RunningSystem {
    let dir = TempDir::new().unwrap();
    let components = [Component {
        role: COMPOSITE,
        tier: None,
        study_system,
        system,
        program,
        seal: None,
        upgrade: None,
    }];
    let mut ports = Allocator::new(None);
    let members = compose(&components, dir.path(), 7, &LocationPlan::here(), &mut ports).unwrap();
    let ready = launch(members, dir.path()).unwrap_or_else(|error| panic!("{error}"));
    RunningSystem::new(ready, dir)
}

impl RunningSystem {
    /// Wraps a system that was started otherwise.
    pub(crate) fn new(ready: Ready, dir: TempDir) -> Self {
        Self { ready, dir, seen: Vec::new() }
    }

    /// Kills all nodes, restarts them and waits until they are ready.
    pub(crate) fn killed_and_restarted(mut self) -> Self {
        self.note();
        self.ready.kill9();
        let ready = self.ready.restarted().unwrap_or_else(|error| panic!("{error}"));
        Self { ready, ..self }
    }

    /// Returns the command lines of all its processes, which every user of the machine can read.
    pub(crate) fn command_lines(&mut self) -> String {
        self.note();
        let read = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let lines = self.seen.iter().map(read);
        lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).collect()
    }

    fn note(&mut self) {
        let leaders: Vec<i32> = self.ready.processes().filter_map(|node| node.pid()).collect();
        self.seen.extend(descendants(&leaders));
    }

    /// Stops the system, and fails if any process still runs.
    pub(crate) fn stopped(mut self) {
        self.note();
        let Self { ready, seen, dir } = self;
        assert!(seen.iter().any(|&pid| lives(pid)));
        ready.stop();
        let deadline = clock::now() + Duration::from_secs(5);
        while let Some(pid) = seen.iter().find(|&&pid| lives(pid)) {
            assert!(clock::now() < deadline, "{pid} still runs");
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(dir);
    }
}

/// Returns the processes and all their descendants.
fn descendants(leaders: &[i32]) -> Vec<i32> {
    let mut family = leaders.to_vec();
    let mut next = 0;
    while let Some(pid) = family.get(next) {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(path).unwrap_or_default();
        family.extend(children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        next += 1;
    }
    family
}

fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Returns a file below a directory that holds a text and is readable by other users.
pub(crate) fn shown_to_others(dir: &Path, text: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            if let Some(found) = shown_to_others(&path, text) {
                return Some(found);
            }
            continue;
        }
        let public = metadata.is_file() && metadata.permissions().mode() & 0o077 != 0;
        let has = |bytes: Vec<u8>| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        if public && std::fs::read(&path).is_ok_and(has) {
            return Some(path);
        }
    }
    None
}
