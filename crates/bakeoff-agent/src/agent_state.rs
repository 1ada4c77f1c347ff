//! The state of an agent: the run's folder, servers, samples, marks in logs.
//!
//! An agent is this machine's host behind a pipe. Each request does what the coordinator would do on its own machine.
//!
//! Not here: receiving requests (`serve`), the host (`bakeoff_host`).

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{IpAddr, TcpListener};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bakeoff_clock::{self as clock, Moment, wall};
use bakeoff_core::trial_samples::{PhaseName, TrialSamples};
use bakeoff_files as files;
use bakeoff_host::ports::Allocator;
use bakeoff_host::watch::{LocalWatch, Watch as _};
use bakeoff_host::{Host, HostError, LimitsApplied, Location, Process, RemovedIfKilled};
use bakeoff_install::Cache;
use flate2::write::GzDecoder;
use rustix::process::Signal;
use serde::Serialize;
use serde_json::{Value, json};

use super::client::IncomingFrame;
use super::clocks::Origin;
use super::error::AgentRefusal;
use super::line::Line;
use super::message::{ClockReading, FileStamp, NodeRequest, Request, WatchRequest};
use super::order::LaunchOrder;
use super::{round_trips, tunnel};

/// Most bytes of a log to send, counted from its end.
const LOG_MAX: u64 = 64 << 20;
/// Most bytes of a log per read.
const READ: usize = 64 << 10;

/// The state of an agent.
pub struct AgentState {
    origin: Origin,
    folder: Mutex<Option<Folder>>,
    nodes: Mutex<BTreeMap<u32, Arc<Process>>>,
    /// Log of each launched server. Kept until the trial's logs are deleted, because ended servers still have logs to
    /// send.
    logs: Mutex<BTreeMap<u32, PathBuf>>,
    next: AtomicU32,
    watch: Mutex<Option<LocalWatch>>,
    /// Servers that the current trial samples. Servers kept from earlier trials may not be among them.
    watched: Mutex<Vec<u32>>,
    ports: Mutex<Option<Allocator>>,
}

/// Folder of a run.
struct Folder {
    path: PathBuf,
    /// Name of the folder with the current trial's logs.
    trial: String,
    _removed: RemovedIfKilled,
}

impl Folder {
    /// Returns true if a path lies below the run's folder and has no `..`.
    fn holds(&self, path: &Path) -> bool {
        let plain = path.components().all(|part| part != Component::ParentDir);
        plain && path != self.path && path.starts_with(&self.path)
    }
}

impl Default for AgentState {
    fn default() -> Self {
        Self {
            origin: Origin::now(),
            folder: Mutex::default(),
            nodes: Mutex::default(),
            logs: Mutex::default(),
            next: AtomicU32::new(1),
            watch: Mutex::default(),
            watched: Mutex::default(),
            ports: Mutex::default(),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl From<HostError> for AgentRefusal {
    fn from(error: HostError) -> Self {
        Self::new(error)
    }
}

/// Encodes an answer as JSON.
fn as_json(answer: impl Serialize) -> Result<Value, AgentRefusal> {
    serde_json::to_value(answer)
        .map_err(|error| AgentRefusal::new(format!("cannot encode the answer: {error}")))
}

fn no_server(number: u32) -> AgentRefusal {
    AgentRefusal::new(format!("this agent has no server {number}"))
}

fn outside(path: &Path) -> AgentRefusal {
    AgentRefusal::new(format!("`{}` is outside the run's folder", path.display()))
}

fn io_refusal(what: &str, path: &Path) -> impl Fn(std::io::Error) -> AgentRefusal {
    move |error| AgentRefusal::new(format!("cannot {what}: `{}`: {error}", path.display()))
}

impl AgentState {
    /// Reads the agent's clock and the machine's wall clock.
    pub(crate) fn read_clocks(&self) -> ClockReading {
        ClockReading { nanos: self.origin.nanos(clock::now()), wall: wall::seconds() }
    }

    /// Returns the agent's clock.
    pub fn clock(&self) -> Origin {
        self.origin
    }

    /// Returns a channel for the times at which measuring begins and ends; `None` while nothing is sampled.
    pub fn moments(&self) -> Option<Sender<Moment>> {
        locked(&self.watch).as_ref().map(LocalWatch::moments)
    }

    /// Returns the pinned CPUs of each watched server that is alive; an empty list for an unpinned server.
    pub fn pinned(&self) -> Vec<Vec<u32>> {
        let (watched, nodes) = (locked(&self.watched), locked(&self.nodes));
        let watched = watched.iter().filter_map(|number| nodes.get(number));
        let alive = watched.filter(|node| node.is_alive());
        alive.map(|node| node.cpus().to_vec()).collect()
    }

    /// Kills every server and removes the run's folder.
    pub fn end_all(&self) {
        let nodes = std::mem::take(&mut *locked(&self.nodes));
        nodes.values().for_each(|node| node.signal(Signal::KILL));
        for node in nodes.values() {
            node.kill9();
        }
        drop(nodes);
        if let Some(folder) = locked(&self.folder).take() {
            files::remove(&folder.path).ok();
        }
    }

    fn node(&self, number: u32) -> Result<Arc<Process>, AgentRefusal> {
        let found = locked(&self.nodes).get(&number).cloned();
        found.ok_or_else(|| no_server(number))
    }

    fn nodes(&self, numbers: &[u32]) -> Result<Vec<Arc<Process>>, AgentRefusal> {
        numbers.iter().map(|&number| self.node(number)).collect()
    }

    /// Calls the current trial's watch, if there is one, with these servers.
    fn watching(
        &self,
        numbers: &[u32],
        call: impl Fn(&LocalWatch, &[&Process]),
    ) -> Result<(), AgentRefusal> {
        let nodes = self.nodes(numbers)?;
        let servers: Vec<&Process> = nodes.iter().map(|node| &**node).collect();
        locked(&self.watch).iter().for_each(|watch| call(watch, &servers));
        Ok(())
    }

    /// Serves a request to the host.
    pub(crate) fn perform(&self, request: Request, line: &Line) -> Result<Value, AgentRefusal> {
        match request {
            Request::Now => Ok(json!(self.read_clocks())),
            Request::Prepare { run, data, cpus } => {
                if !cpus.is_empty() {
                    bakeoff_host::cpu_set::keep_to(&cpus).map_err(AgentRefusal::new)?;
                }
                self.prepare(&run, data)
            }
            Request::Trial { name, keeps } => self.trial(name, keeps),
            Request::Discard { path } => self.discard(&path),
            Request::Launch { node } => self.launch(*node),
            Request::Node { node, ask } => self.ask_node(node, ask),
            Request::Log { node } => self.log(node, line),
            Request::Port { address, base } => self.port(address, base),
            Request::IsFree { address, port } => is_free(address, port),
            Request::LacksOwnDisks => as_json(bakeoff_host::volatile_disk_support().err()),
            Request::Space => self.space(),
            Request::Watch(ask) => self.ask_watch(ask),
            Request::Lacks { files } => {
                let lacks = files.iter().filter(|file| !is_whole(file));
                as_json(lacks.collect::<Vec<_>>())
            }
            Request::Put { file, mode } => put(&file, mode, line),
            Request::Link { path, to } => link(&path, &to),
            Request::ClearCache => clear_cache(),
            Request::Find { program } => find(&program),
            Request::Dial { address, within_ms } => {
                tunnel::dial(address, Duration::from_millis(within_ms), line)
            }
            Request::Echo { address } => round_trips::echo(address, line),
            Request::Trips { address } => as_json(round_trips::measure(address)?),
            Request::Duty { .. } => Err(AgentRefusal::new("this agent carries out no orders")),
        }
    }

    /// Serves a request to one server.
    fn ask_node(&self, node: u32, ask: NodeRequest) -> Result<Value, AgentRefusal> {
        let server = self.node(node)?;
        let done = |()| Value::Null;
        match ask {
            NodeRequest::Signal(signal) => {
                let signal = Signal::from_named_raw(signal)
                    .ok_or_else(|| AgentRefusal::new(format!("unknown signal {signal}")))?;
                server.signal(signal);
                Ok(Value::Null)
            }
            NodeRequest::Pause => as_json(server.pause().map_err(AgentRefusal::new)?),
            NodeRequest::Resume => as_json(server.resume().map_err(AgentRefusal::new)?),
            NodeRequest::BreakDisk(fault) => {
                as_json(server.break_disk(fault).map_err(AgentRefusal::new)?)
            }
            NodeRequest::HealDisk => as_json(server.heal_disk().map_err(AgentRefusal::new)?),
            NodeRequest::ReplaceFile { path, contents } => {
                as_json(server.replace_file(&path, &contents).map_err(AgentRefusal::new)?)
            }
            NodeRequest::Kill => as_json(server.kill9()),
            NodeRequest::Restart => Ok(server.restart().map(done)?),
            NodeRequest::Upgrade => as_json(server.upgrade().map_err(AgentRefusal::new)?),
            NodeRequest::AskToEnd => {
                server.ask_to_end();
                Ok(Value::Null)
            }
            NodeRequest::Finish(grace_ms) => {
                as_json(server.finish_within(Duration::from_millis(grace_ms)))
            }
            NodeRequest::Forget => {
                locked(&self.nodes).remove(&node);
                Ok(Value::Null)
            }
            NodeRequest::Ending => as_json(server.ending()),
            NodeRequest::Limits => as_json(self.limits(&server)),
            NodeRequest::Held => as_json(server.held_by_limits()),
            NodeRequest::Listening => as_json(server.listens_on()),
            NodeRequest::Strays => as_json(server.strays()),
            NodeRequest::CountSyncs => {
                server.begin_counting_syncs().map(done).map_err(AgentRefusal::new)
            }
            NodeRequest::SyncsCounted => as_json(server.end_counting_syncs()),
            NodeRequest::UnsafeSettings(known) => as_json(server.unsafe_settings(&known)),
            NodeRequest::LogTail(lines) => as_json(server.log_tail(lines.min(1000))),
        }
    }

    /// Serves a request about samples. Does nothing if no sampling is under way.
    fn ask_watch(&self, ask: WatchRequest) -> Result<Value, AgentRefusal> {
        match ask {
            WatchRequest::Begin(every_ms) => self.observe(Duration::from_millis(every_ms)),
            WatchRequest::Helper(process) => {
                locked(&self.watch).iter().for_each(|watch| watch.count_helper(process));
                Ok(Value::Null)
            }
            WatchRequest::Servers(nodes) => {
                self.watching(&nodes, LocalWatch::watch)?;
                locked(&self.watched).extend(nodes);
                Ok(Value::Null)
            }
            WatchRequest::Phase(name) => {
                let phase = PhaseName::read(&name)
                    .ok_or_else(|| AgentRefusal::new(format!("unknown phase `{name}`")))?;
                locked(&self.watch).iter().for_each(|watch| watch.phase(phase));
                Ok(Value::Null)
            }
            WatchRequest::Moments { begin, end } => {
                if let Some(moments) = self.moments() {
                    moments.send(Moment::Begin(self.origin.instant(begin))).ok();
                    end.map(|end| moments.send(Moment::End(self.origin.instant(end))).ok());
                }
                Ok(Value::Null)
            }
            WatchRequest::Samples => {
                let observed = locked(&self.watch).as_ref().map(LocalWatch::so_far);
                as_json(observed.unwrap_or_default())
            }
            WatchRequest::End => {
                let watch = locked(&self.watch).take();
                let observed: TrialSamples = watch.map(LocalWatch::end).unwrap_or_default();
                as_json(observed)
            }
            WatchRequest::MarkLogs(nodes) => {
                self.watching(&nodes, LocalWatch::mark_logs)?;
                Ok(Value::Null)
            }
            WatchRequest::EndMarks => {
                locked(&self.watch).iter().for_each(LocalWatch::end_marks);
                Ok(Value::Null)
            }
            WatchRequest::Complaints => {
                let complaints = locked(&self.watch).as_ref().map(LocalWatch::complaints);
                as_json(complaints.unwrap_or_default())
            }
        }
    }

    fn prepare(&self, run: &str, data: Option<PathBuf>) -> Result<Value, AgentRefusal> {
        let is_plain =
            !run.is_empty() && run.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if !is_plain {
            return Err(AgentRefusal::new(format!("`{run}` is not a valid folder name")));
        }
        let data = data.unwrap_or_else(|| "/var/tmp".into());
        if !data.is_dir() {
            return Err(AgentRefusal::new(format!(
                "the data folder `{}` does not exist\nhint: create it, or set `data` in the places file to another folder",
                data.display()
            )));
        }
        let path = data.join(format!("bakeoff-{run}"));
        files::make_dir(&path).map_err(io_refusal("make the run's folder", &path))?;
        let removed = RemovedIfKilled::new(&path)?;
        let folder_path = json!(path);
        *locked(&self.folder) = Some(Folder { path, trial: "first".into(), _removed: removed });
        Ok(folder_path)
    }

    fn with_folder<T>(&self, of: impl FnOnce(&mut Folder) -> T) -> Result<T, AgentRefusal> {
        locked(&self.folder).as_mut().map(of).ok_or_else(|| AgentRefusal::new("no run is prepared"))
    }

    fn trial(&self, name: String, keeps: bool) -> Result<Value, AgentRefusal> {
        self.with_folder(|folder| {
            let logs = folder.path.join(&name);
            if !folder.holds(&logs) {
                return Err(outside(&logs));
            }
            if !keeps {
                files::remove_below(&folder.path, Path::new("nodes")).ok();
                files::remove_below(&folder.path, Path::new(&folder.trial)).ok();
                locked(&self.logs).clear();
            }
            folder.trial = name;
            Ok(Value::Null)
        })?
    }

    fn discard(&self, path: &Path) -> Result<Value, AgentRefusal> {
        let removed = self.with_folder(|folder| {
            let inside = path.strip_prefix(&folder.path).ok().filter(|_| folder.holds(path))?;
            Some(files::remove_below(&folder.path, inside))
        })?;
        let removed = removed.ok_or_else(|| outside(path))?;
        removed.map(|()| Value::Null).map_err(io_refusal("remove a folder", path))
    }

    fn launch(&self, order: LaunchOrder) -> Result<Value, AgentRefusal> {
        let spec = order.spec()?;
        let dir = self.with_folder(|folder| {
            folder.holds(&spec.dir).then(|| folder.path.join(&folder.trial))
        })?;
        let Some(dir) = dir else {
            return Err(outside(&spec.dir));
        };
        let process = Host::new(&dir)?.launch(spec)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        locked(&self.logs).extend(process.logs().into_iter().next().map(|log| (number, log)));
        locked(&self.nodes).insert(number, Arc::new(process));
        Ok(json!(number))
    }

    /// Returns how a server's limits were applied. The limits of a container count only for a server that is alone in
    /// it.
    fn limits(&self, server: &Process) -> LimitsApplied {
        let alive = locked(&self.nodes).values().filter(|node| node.is_alive()).count();
        match server.limits() {
            LimitsApplied::ByContainer { limits } if alive > 1 => LimitsApplied::NotApplied {
                why: format!("{alive} servers share its container, which has {limits}"),
            },
            limits => limits,
        }
    }

    fn log(&self, node: u32, line: &Line) -> Result<Value, AgentRefusal> {
        let Some(path) = locked(&self.logs).get(&node).cloned() else {
            return Err(no_server(node));
        };
        let failed = io_refusal("read a log", &path);
        let mut file = fs::File::open(&path).map_err(&failed)?;
        let size = file.metadata().map_err(&failed)?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(LOG_MAX))).map_err(&failed)?;
        let mut part = vec![0; READ];
        let mut left = LOG_MAX;
        loop {
            let read = file.read(&mut part).map_err(&failed)?;
            if read == 0 || left == 0 {
                break;
            }
            let read = read.min(usize::try_from(left).unwrap_or(read));
            left -= read as u64;
            line.back.data(&part[..read]).map_err(&failed)?;
        }
        line.back.end().map_err(&failed)?;
        Ok(Value::Null)
    }

    fn port(&self, address: IpAddr, base: Option<u16>) -> Result<Value, AgentRefusal> {
        // Check the address first. A wrong one would otherwise look like a thousand ports in use.
        is_free(address, 0)?;
        let mut ports = locked(&self.ports);
        let ports = ports.get_or_insert_with(|| Allocator::new(base));
        Ok(json!(ports.take_for(Location { address, ..Location::HERE })?))
    }

    fn space(&self) -> Result<Value, AgentRefusal> {
        let path = self.with_folder(|folder| folder.path.clone())?;
        let space = rustix::fs::statvfs(&path)
            .map_err(|error| io_refusal("ask for free space", &path)(error.into()))?;
        Ok(json!(space.f_bavail * space.f_frsize))
    }

    fn observe(&self, every: Duration) -> Result<Value, AgentRefusal> {
        let data = self.with_folder(|folder| folder.path.clone())?;
        let began = clock::now();
        locked(&self.watched).clear();
        *locked(&self.watch) = Some(LocalWatch::begin(&data, every, began));
        Ok(json!(self.origin.nanos(began)))
    }
}

/// Fails if the port is in use or the address is not the machine's.
fn is_free(address: IpAddr, port: u16) -> Result<Value, AgentRefusal> {
    if let Err(error) = TcpListener::bind((address, 0)) {
        return Err(AgentRefusal::new(format!(
            "`{address}` is not an address of this machine: {error}\nhint: set `address` in the places file to the one \
             that the other machines connect to"
        )));
    }
    bakeoff_host::ports::try_bind(address, port).map_err(|error| HostError::PortInUse {
        address,
        port,
        error,
    })?;
    Ok(Value::Null)
}

/// Returns true if the file exists with the given size and SHA-256.
fn is_whole(file: &FileStamp) -> bool {
    let Ok(found) = file.path.symlink_metadata() else { return false };
    found.is_file()
        && found.len() == file.size
        && bakeoff_install::sha256_of(&file.path).is_ok_and(|seen| seen == file.sha256)
}

/// Removes what bakeoff keeps in its cache. The agent's own executable goes too; it is already open.
fn clear_cache() -> Result<Value, AgentRefusal> {
    let cache = Cache::from_environment().map_err(AgentRefusal::new)?;
    let root = cache.root();
    if let Some(user) = process_below(root) {
        let text = format!("`{}` is in use by {user}\nhint: end it first", root.display());
        return Err(AgentRefusal::new(text));
    }
    cache.clear().map(|freed| json!(freed)).map_err(io_refusal("clear the cache", root))
}

/// Returns the first other process whose program is below a folder: `process 17 (`etcd`)`.
fn process_below(root: &Path) -> Option<String> {
    let own = std::process::id();
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let exe = fs::read_link(entry.path().join("exe")).ok()?;
        let is_ours = pid == own || is_child_of(&entry.path(), own);
        (exe.starts_with(root) && !is_ours).then(|| {
            let name = exe.file_name().unwrap_or_default().to_string_lossy().into_owned();
            format!("process {pid} (`{name}`)")
        })
    })
}

/// Returns true if a process's parent has this ID, as the agent's warden does.
fn is_child_of(process: &Path, parent: u32) -> bool {
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let mut parents = status.lines().filter_map(|line| line.strip_prefix("PPid:"));
    parents.any(|id| id.trim().parse() == Ok(parent))
}

/// Receives a file as data and moves it into place once its hash matches.
fn put(file: &FileStamp, mode: u32, line: &Line) -> Result<Value, AgentRefusal> {
    let failed = io_refusal("keep a file", &file.path);
    if !file.path.is_absolute() {
        return Err(AgentRefusal::new(format!(
            "`{}` is not an absolute path",
            file.path.display()
        )));
    }
    let folder = file.path.parent().unwrap_or(Path::new("/"));
    files::make_dirs(folder).map_err(&failed)?;
    let adjacent = file.path.with_extension(format!("{}.part", std::process::id()));
    let taken = take(&adjacent, mode, line).and_then(|()| {
        let part = FileStamp { path: adjacent.clone(), ..file.clone() };
        match is_whole(&part) {
            true => fs::rename(&adjacent, &file.path).map_err(&failed),
            false => Err(AgentRefusal::new(format!(
                "`{}` does not match its SHA-256 after the transfer",
                file.path.display()
            ))),
        }
    });
    if taken.is_err() {
        fs::remove_file(&adjacent).ok();
    }
    taken.map(|()| Value::Null)
}

fn take(path: &Path, mode: u32, line: &Line) -> Result<(), AgentRefusal> {
    let failed = io_refusal("write a file", path);
    fs::remove_file(path).ok();
    let file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(&failed)?;
    let mut file = GzDecoder::new(file);
    loop {
        match line.next() {
            Some(IncomingFrame::Data(bytes)) => file.write_all(&bytes).map_err(&failed)?,
            Some(IncomingFrame::End) => break,
            Some(_) => {}
            None => return Err(AgentRefusal::new("the coordinator is gone")),
        }
    }
    let file = file.finish().map_err(&failed)?;
    file.set_permissions(fs::Permissions::from_mode(mode & 0o777)).map_err(&failed)
}

fn link(path: &Path, to: &Path) -> Result<Value, AgentRefusal> {
    let failed = io_refusal("make a link", path);
    if fs::read_link(path).is_ok_and(|known| known == to) {
        return Ok(Value::Null);
    }
    files::make_dirs(path.parent().unwrap_or(Path::new("/"))).map_err(&failed)?;
    fs::remove_file(path).ok();
    std::os::unix::fs::symlink(to, path).map_err(&failed)?;
    Ok(Value::Null)
}

/// Finds a program at its path, or by its name on `PATH`.
fn find(program: &Path) -> Result<Value, AgentRefusal> {
    let is_program = |path: &Path| {
        path.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if program.is_absolute() && is_program(program) {
        return Ok(json!(program));
    }
    let name = program.file_name().unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| is_program(path));
    Ok(json!(found))
}
