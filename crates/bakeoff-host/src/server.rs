//! One running server on this machine: signals, exit, log.
//!
//! A server leads its own process group and is stopped with its group and descendants: Java wrappers, shells and
//! PostgreSQL fork. Its exit is read without reaping it, because reaping frees its ID, which also names the group. A
//! daemon leaves both its group and its parents. It is found by the node's mark in its environment.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::record::durability::{self, UnsafeSetting};
use bakeoff_core::study::DiskFault;
use bakeoff_files as files;
use rustix::process::{Pid, Signal};

use super::cgroup::Group;
use super::child::{Exit, end, peek};
use super::ending::{EndingCause, ServerEnding};
use super::error::LogTail;
use super::observe::SampledProcess;
use super::process::{Server, StopResult};
use super::syncs::{SyncTracer, SyncsSeen};
use super::volatile_disk::VolatileDisk;
use super::{
    Confine, CutLosses, HostError, LimitsApplied, NodeDisk, NodeSpec, UnsyncedFate, Upgrade, disk,
    launcher, listening, logs, pause, procfs, setup_commands, shim, unprivileged, warden,
    warden_line,
};

/// A launched server. Dropping it kills the server.
pub(super) struct LocalServer {
    spec: NodeSpec,
    program: PathBuf,
    log: PathBuf,
    /// Length of the log before this launch: an earlier trial may have written to it.
    log_from: u64,
    confine: Arc<dyn Confine>,
    limits: Mutex<(LimitsApplied, Option<Group>)>,
    /// The leader's ID for the sampler, updated at restarts; 0 while there is no leader.
    pid: Arc<AtomicI32>,
    state: Mutex<State>,
    /// Counts syncs while requested.
    tracer: Mutex<Option<SyncTracer>>,
    /// Value of the environment variable that marks the node's processes.
    mark: String,
    /// True once it starts with the other version of its program.
    upgraded: AtomicBool,
    /// Holds its directory, if that can lose what was not synced.
    disk: Option<VolatileDisk>,
    /// Listeners on the ports that the node must find in use.
    _held: Vec<TcpListener>,
}

enum State {
    /// Started and not reaped. The process may have exited.
    Started(Child),
    /// Reaped, or never started.
    Ended(Option<Exit>),
}

/// Share of throttled periods from which an error mentions the CPU limit.
const THROTTLED_MATTERS: f64 = 0.5;

const ENDED: &str = "it does not run";

/// Attempts and pause while waiting for killed daemons to disappear.
const STRAYS_LOOKS: u32 = 100;
const STRAYS_PAUSE: Duration = Duration::from_millis(10);

impl LocalServer {
    pub(super) fn start(
        spec: NodeSpec,
        program: PathBuf,
        log: PathBuf,
        confine: Arc<dyn Confine>,
    ) -> Result<Self, HostError> {
        static NODES: AtomicU64 = AtomicU64::new(0);
        let number = NODES.fetch_add(1, Ordering::Relaxed);
        let address = spec.location.listens();
        let hold = |&port: &u16| {
            TcpListener::bind((address, port)).map_err(|error| HostError::PortInUse {
                address,
                port,
                error,
            })
        };
        let held = spec.held.iter().map(hold).collect::<Result<_, _>>()?;
        let disk = match spec.disk {
            NodeDisk::Machine => None,
            NodeDisk::Forgetful | NodeDisk::Breakable => {
                Some(VolatileDisk::mount(&spec.dir).map_err(|problem| HostError::Launch {
                    node: spec.name.clone(),
                    program: "__disk".into(),
                    problem,
                })?)
            }
        };
        let process = Self {
            disk,
            upgraded: AtomicBool::new(false),
            mark: format!("{}.{number}", launcher::mark().1),
            spec,
            program,
            log_from: log.metadata().map_or(0, |file| file.len()),
            log,
            confine,
            limits: Mutex::new((LimitsApplied::NotAsked, None)),
            pid: Arc::default(),
            state: Mutex::new(State::Ended(None)),
            tracer: Mutex::default(),
            _held: held,
        };
        process.spawn()?;
        Ok(process)
    }

    /// Returns its cgroup. A restart creates it again at the same path.
    pub(super) fn group(&self) -> Option<Group> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Returns the other version of its program, once it starts with that.
    fn other_version(&self) -> Option<&Upgrade> {
        self.spec.upgrade.as_ref().filter(|_| self.upgraded.load(Ordering::Relaxed))
    }

    /// Returns the file system of bakeoff's own that holds its directory.
    fn own_disk(&self) -> Result<&VolatileDisk, String> {
        let disk = self.disk.as_ref();
        disk.ok_or_else(|| "its directory is on the machine's file system".to_owned())
    }

    fn strays_of(&self, group: i32) -> Vec<(String, procfs::Stat)> {
        let marked = format!("{}={}", warden_line::NODE_MARK, self.mark);
        let family: Vec<i32> = match group {
            0 => Vec::new(),
            group => procfs::family(group).iter().map(|stat| stat.pid).collect(),
        };
        let all = procfs::pids().into_iter().filter_map(procfs::named);
        all.filter(|(_, stat)| stat.lives() && stat.pid != group && !family.contains(&stat.pid))
            .filter(|(_, stat)| warden::is_marked(stat, marked.as_bytes()))
            .collect()
    }

    /// Kills the daemons that it left behind and waits until they are gone.
    fn end_strays(&self) {
        // Repeat: a process may fork between the scan and the kill.
        for _ in 0..STRAYS_LOOKS {
            // The group is gone, so every marked process is a stray.
            let strays = self.strays_of(0);
            if strays.is_empty() {
                return;
            }
            strays.iter().for_each(|(_, stat)| procfs::kill(stat));
            std::thread::sleep(STRAYS_PAUSE);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(&self) -> Result<(), HostError> {
        let spec = &self.spec;
        let log_error = |e| HostError::io("write a log", &self.log, e);
        let mut log = files::append(&self.log, true);
        let log = log.as_mut().map_err(|e| log_error(std::io::Error::from(e.kind())))?;
        let again = matches!(*self.state(), State::Ended(Some(_)));
        if again || self.log_from > 0 {
            let word = if again { "restarts" } else { "starts" };
            let _ = writeln!(log, "--- bakeoff {word} `{}` ---", spec.name);
        }
        let confinement = self.confine.confine(spec);
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) =
            (confinement.limits, confinement.group);

        let started = match again {
            true => Ok(()),
            false => self.prepare(&confinement.enter, log),
        };
        let new = self.other_version();
        let (program, args) =
            new.map_or((&self.program, &spec.args), |new| (&new.program, &new.args));
        let started = started.and_then(|()| self.fork(program, args, &confinement.enter, log));
        let child = started.inspect_err(|_| self.confine.release(spec))?;
        let pid = child.id() as i32;
        *self.state() = State::Started(child);
        self.pid.store(pid, Ordering::Release);
        Ok(())
    }

    /// Runs the `before` commands in order. Returns the first failure.
    fn prepare(&self, enter: &[PathBuf], log: &File) -> Result<(), HostError> {
        self.spec.before.iter().try_for_each(|command| {
            let begin = || self.fork(&command.program, &command.args, enter, log);
            setup_commands::run(command, begin)?.map_err(|unprepared| HostError::Before {
                node: self.spec.name.clone(),
                program: command.program.clone(),
                how: unprepared.to_string(),
                log: self.log_tail(LogTail::LINES),
            })
        })
    }

    /// Starts a program with the node's environment, limits and log, in its own process group. Returns once the program
    /// runs.
    fn fork(
        &self,
        program: &Path,
        args: &[OsString],
        enter: &[PathBuf],
        log: &File,
    ) -> Result<Child, HostError> {
        let spec = &self.spec;
        let launch_error = |problem: String| HostError::Launch {
            node: spec.name.clone(),
            program: program.to_owned(),
            problem,
        };
        let log_error = |e| HostError::io("write a log", &self.log, e);
        let mut command = launcher::ourselves();
        command.args([shim::COMMAND, "--parent", &std::process::id().to_string()]);
        let cpus = spec.limits.as_ref().map_or(&[][..], |limits| &limits.cpus);
        if !cpus.is_empty() {
            let cpus = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            command.args(["--cpus", &cpus]);
        }
        for file in enter {
            command.arg("--enter").arg(file);
        }
        if let Some(disk) = &self.disk {
            command.args(["--within", &disk.pid().to_string()]);
        }
        let unprivileged =
            unprivileged::prefix(spec.never_root).map_err(|e| launch_error(e.to_string()))?;
        command.arg("--").args(unprivileged).arg(program).args(args);
        command.current_dir(&spec.dir).process_group(0).env_clear();
        for name in ["PATH", "HOME"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        let (mark, marked) = launcher::mark();
        command.env("LANG", "C").env("TMPDIR", spec.dir.join("tmp")).env(mark, marked);
        command.env(warden_line::NODE_MARK, &self.mark);
        let env = self.other_version().map_or(&spec.env, |new| &new.env);
        command.envs(env.iter().map(|(name, value)| (name, value)));
        let (mut reason, report) = std::io::pipe().map_err(|e| launch_error(e.to_string()))?;
        command.stdin(report);
        command.stdout(log.try_clone().map_err(log_error)?);
        command.stderr(Stdio::from(log.try_clone().map_err(log_error)?));

        let unguarded = |e| {
            launch_error(format!("cannot start the warden that would stop it with bakeoff: {e}"))
        };
        launcher::guard().map_err(unguarded)?;
        let mut child = launcher::spawn(command).map_err(|e| launch_error(e.to_string()))?;
        let pid = child.id() as i32;
        // Not reaped yet, so its entry exists even if it has exited.
        let start_ticks = procfs::stat(pid).map_or(0, |stat| stat.start_ticks);
        let mut problem = String::new();
        match launcher::watch(pid, start_ticks) {
            Ok(()) => drop(reason.read_to_string(&mut problem)),
            Err(e) => problem = format!("cannot register it with the warden: {e}"),
        }
        if !problem.is_empty() {
            end(&mut child);
            launcher::forget(pid);
            return Err(launch_error(problem));
        }
        Ok(child)
    }
}

impl Server for LocalServer {
    fn spec(&self) -> &NodeSpec {
        &self.spec
    }

    fn ending(&self) -> Option<ServerEnding> {
        let exit = self.exit()?;
        let limit = self.spec.limits.as_ref().and_then(|limits| limits.memory);
        let kills = self.group().map_or(0, |group| group.memory_kills());
        let cause = match limit {
            Some(limit) if kills > 0 => Some(EndingCause::MemoryLimit { limit, kills }),
            _ if disk::is_full(&self.spec.dir)
                || logs::speaks_of_a_full_disk(&self.log, self.log_from) =>
            {
                Some(EndingCause::FullDisk)
            }
            _ => None,
        };
        Some(ServerEnding { exit, cause })
    }

    fn exit(&self) -> Option<Exit> {
        match &*self.state() {
            State::Started(child) => peek(child),
            State::Ended(exit) => *exit,
        }
    }

    fn limits(&self) -> LimitsApplied {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    fn held_by_limits(&self) -> Option<String> {
        let (group, limits) = (self.group()?, self.spec.limits.as_ref()?);
        let kills = group.memory_kills();
        if let Some(memory) = limits.memory.filter(|_| kills > 0) {
            return Some(format!(
                "the kernel killed a process of it at the memory limit of {memory} (oom_kill {kills})"
            ));
        }
        let (cpu, share) = (limits.cpu?, group.share_throttled()?);
        let held =
            || format!("its limit of {cpu} CPUs throttled it {:.0} % of the time", share * 100.0);
        (share >= THROTTLED_MATTERS).then(held)
    }

    fn listens_on(&self) -> Vec<SocketAddr> {
        self.pid().map(listening::addresses).unwrap_or_default()
    }

    fn strays(&self) -> Vec<String> {
        let group = self.pid().unwrap_or(0);
        self.strays_of(group).iter().map(|(name, stat)| format!("{name} ({})", stat.pid)).collect()
    }

    fn begin_counting_syncs(&self) -> Result<(), String> {
        let group = self.pid().ok_or(ENDED)?;
        *self.tracer.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(SyncTracer::begin(group)?);
        Ok(())
    }

    fn end_counting_syncs(&self) -> SyncsSeen {
        let tracer = self.tracer.lock().unwrap_or_else(PoisonError::into_inner).take();
        tracer.map_or_else(|| SyncsSeen::unseen("its syncs were not counted"), SyncTracer::end)
    }

    fn unsafe_settings(&self, known: &[UnsafeSetting]) -> Vec<String> {
        let Some(group) = self.pid() else { return Vec::new() };
        let of_process = |process: procfs::Stat| {
            let (args, env) = (procfs::args(process.pid), procfs::environment(process.pid));
            durability::unsafe_settings(known, &args, &env)
        };
        let found = procfs::family(group).into_iter().flat_map(of_process);
        found.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn signal(&self, signal: Signal) {
        // Under the lock, so that no other thread reaps the leader and frees its ID meanwhile.
        let state = self.state();
        if let (State::Started(_), Some(group)) = (&*state, self.pid().and_then(Pid::from_raw)) {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    fn pause(&self) -> Result<usize, String> {
        pause::stop(self.pid().ok_or(ENDED)?)
    }

    fn resume(&self) -> Result<usize, String> {
        pause::resume(self.pid().ok_or(ENDED)?)
    }

    fn kill9(&self) -> Exit {
        let mut state = self.state();
        let child = match &mut *state {
            State::Started(child) => child,
            State::Ended(exit) => return exit.expect("a process that never started is not kept"),
        };
        if let (Some(disk), Some(group)) = (&self.disk, Pid::from_raw(child.id() as i32)) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
            disk.release();
        }
        let exit = end(child);
        self.end_strays();
        *state = State::Ended(Some(exit));
        let group = self.pid.swap(0, Ordering::AcqRel);
        launcher::forget(group);
        self.confine.release(&self.spec);
        exit
    }

    fn restart(&self) -> Result<(), HostError> {
        self.kill9();
        let broken = self.disk.as_ref().map_or(Ok(()), VolatileDisk::break_again);
        broken.map_err(|problem| HostError::Launch {
            node: self.spec.name.clone(),
            program: "__disk".into(),
            problem,
        })?;
        self.spawn()
    }

    fn upgrade(&self) -> Result<String, String> {
        let new = self.spec.upgrade.as_ref().ok_or("its description has no other version")?;
        self.upgraded.store(true, Ordering::Relaxed);
        Ok(new.version.clone())
    }

    fn break_disk(&self, fault: DiskFault) -> Result<String, String> {
        self.own_disk()?.break_by(fault)
    }

    fn heal_disk(&self) -> Result<String, String> {
        self.own_disk()?.heal()
    }

    fn replace_file(&self, path: &Path, contents: &[u8]) -> Result<(), String> {
        if self.disk.is_some() {
            return Err("its files are on a file system of its own".to_owned());
        }
        let file = self.spec.files.iter().find(|file| file.path == path);
        let file = file.ok_or_else(|| format!("it has no file `{}`", path.display()))?;
        let path = self.spec.dir.join(path);
        files::replace(&path, contents, file.mode.bits())
            .map_err(|error| format!("cannot replace `{}`: {error}", path.display()))
    }

    fn write_back(&self) -> Result<(), String> {
        self.own_disk()?.write_back()
    }

    fn cut_power(&self, seed: u64, unsynced: UnsyncedFate) -> Result<CutLosses, String> {
        let disk = self.own_disk()?;
        self.kill9();
        disk.cut(seed, unsynced)
    }

    fn ask_to_end(&self) {
        self.signal(self.spec.stop_signal.unwrap_or(Signal::TERM));
    }

    fn finish_within(&self, grace: Duration) -> StopResult {
        let deadline = clock::now() + grace;
        let mut pause = Duration::from_millis(1);
        while self.exit().is_none() {
            let left = deadline.saturating_duration_since(clock::now());
            if left.is_zero() {
                return StopResult { exit: self.kill9(), forced: true };
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        StopResult { exit: self.kill9(), forced: false }
    }

    fn log_tail(&self, lines: usize) -> LogTail {
        LogTail::read(&self.log, self.log_from, lines)
    }

    fn pid(&self) -> Option<i32> {
        Some(self.pid.load(Ordering::Acquire)).filter(|&pid| pid != 0)
    }

    fn cpu_used(&self) -> Option<Duration> {
        let stat = procfs::stat(self.pid()?)?;
        let ticks = stat.own.ticks() as f64;
        Some(Duration::from_secs_f64(ticks / rustix::param::clock_ticks_per_second() as f64))
    }

    fn logs(&self) -> Vec<PathBuf> {
        let further = self.spec.logs.iter().map(|path| self.spec.dir.join(path));
        std::iter::once(self.log.clone()).chain(further).collect()
    }

    fn watched(&self) -> Option<SampledProcess> {
        Some(SampledProcess::node(&self.spec, Arc::clone(&self.pid), self.group()))
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        let started = matches!(*self.state(), State::Started(_));
        if started {
            self.kill9();
        }
    }
}
