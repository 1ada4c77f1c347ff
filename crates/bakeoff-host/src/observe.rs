//! Samples the servers, bakeoff itself and the machine over a trial.
//!
//! Samples are taken on a grid of the study's interval. One more is taken where a phase of the trial begins or ends, so
//! the usage of a phase lies between two samples. Two more are taken where the engine reports the beginning and end of
//! measuring. These two are quick, because they take time from the measurement. A sample of a node reads a few files of
//! `/proc`. Expensive parts (each thread, each socket, each file of the data directory) are sampled rarely enough to
//! stay within their share of a core. In between, their counters are taken to have grown evenly and their gauges to be
//! constant.
//!
//! Proportional memory is judged, so its values are never carried over. It has its own series, with the times at which
//! it was read. Each measured window has a reading at its end. Further readings start close together when the window
//! begins and then spread out. Each pause is at least 400 times the CPU time of the last reading.
//!
//! Not here: the readers (`census`, `sockets`, `machine`), the summary of a load (`usage`).

mod series;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_clock::Moment;
use bakeoff_core::trial_samples::{
    Column, ConnectionCount, ForeignCpu, GENERATOR, NodeSample, Phase, PhaseName, Series,
    TrialSamples, Turnover,
};

use self::series::{push, set, settle};
use super::NodeSpec;
use super::census::{Census, Family, Kinship};
use super::cgroup::Group;
use super::disk;
use super::foreign_processes::Scan;
use super::machine::Machine;
use super::sockets::{Counts, Owner, Sockets};

/// Name of the machine's series.
const MACHINE: &str = "machine";

/// A node or bakeoff itself, as the sampler sees it.
pub struct SampledProcess {
    name: String,
    family: Family,
    ports: Vec<u16>,
    /// Address at which a relay has the same ports.
    relay: Option<IpAddr>,
    dir: Option<PathBuf>,
    group: Option<Group>,
    /// One counter for each value of [`Group::throttled`].
    throttled: [ContinuedCounter; 3],
}

/// A counter of a node's cgroup that continues over restarts, although each restart creates a new group.
#[derive(Debug, Clone, Copy, Default)]
struct ContinuedCounter {
    before: f64,
    last: f64,
}

impl ContinuedCounter {
    /// Adds a value read from the current group and returns the total.
    fn take(&mut self, seen: f64) -> f64 {
        if seen < self.last {
            self.before += self.last;
        }
        self.last = seen;
        self.before + seen
    }
}

impl SampledProcess {
    /// Watches a node of this machine over all its restarts. `pid`: its process ID, 0 while it does not run.
    pub(super) fn node(spec: &NodeSpec, pid: Arc<AtomicI32>, group: Option<Group>) -> Self {
        Self {
            name: spec.name.clone(),
            family: Family::new(pid, Kinship::Node),
            ports: spec.ports.iter().map(|&(_, port)| port).collect(),
            relay: spec.location.relayed_to.map(|_| spec.location.address),
            dir: Some(spec.dir.clone()),
            group,
            throttled: Default::default(),
        }
    }

    /// Watches bakeoff itself, without its children, which are the nodes.
    fn ourselves() -> Self {
        let family = Family::new(ourselves(), Kinship::Alone);
        Self {
            name: GENERATOR.to_owned(),
            family,
            ports: Vec::new(),
            relay: None,
            dir: None,
            group: None,
            throttled: Default::default(),
        }
    }
}

fn ourselves() -> Arc<AtomicI32> {
    Arc::new(AtomicI32::new(std::process::id() as i32))
}

/// Samples in a thread until it is stopped, and additionally where a phase begins.
pub struct Sampler {
    observer: Arc<Mutex<Observer>>,
    /// Channel for the times at which measuring begins and ends.
    tell: mpsc::Sender<Moment>,
    stopped: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    began: Instant,
    interval: Duration,
    phases: Vec<Phase>,
}

/// Shortest interval: a sample of three servers takes about a millisecond.
pub const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Shortest pause between searches for new processes, threads and sockets. Just below a second, so that an interval of
/// one second always includes them.
const THOROUGH: Duration = Duration::from_millis(900);
/// Longest pause between two readings of proportional memory, if they are cheap.
const PROPORTIONAL: Duration = Duration::from_millis(4_900);
/// Shortest pause between two readings of proportional memory, when a measured window begins.
const PROPORTIONAL_MIN: Duration = Duration::from_millis(100);
/// Shortest pause between two walks of the data directories.
const WALK: Duration = Duration::from_millis(2_900);
/// Reciprocal of the share of a core that expensive samples may use.
const SHARE: u32 = 400;

/// Most files of a data directory to count.
const FILES_MAX: usize = 20_000;

impl Sampler {
    /// Starts sampling bakeoff and the machine every `interval`, at least [`INTERVAL_MIN`]. `began`: start of the
    /// trial, the origin of all times. `data`: a directory on the disk that holds the servers' data.
    pub fn start(data: &Path, interval: Duration, began: Instant) -> Self {
        let interval = interval.max(INTERVAL_MIN);
        let mut observer = Observer::new(data, interval, began);
        observer.watch(SampledProcess::ourselves());
        observer.sample(Occasion::Grid);
        let observer = Arc::new(Mutex::new(observer));
        let (tell, marks) = mpsc::channel();
        let stopped = Arc::new(AtomicBool::new(false));
        let (shared, is_stopped) = (Arc::clone(&observer), Arc::clone(&stopped));
        let work = move || sample_until(&is_stopped, &shared, &marks, interval);
        let thread = std::thread::Builder::new().name("sampler".into());
        let thread = thread.spawn(work).expect("a thread can be started");
        Self { observer, tell, stopped, thread, began, interval, phases: Vec::new() }
    }

    /// Returns a channel for the times at which measuring begins and ends, for each stage of a load.
    pub fn moments(&self) -> mpsc::Sender<Moment> {
        self.tell.clone()
    }

    /// Adds nodes to the samples.
    pub fn watch(&self, nodes: impl IntoIterator<Item = SampledProcess>) {
        let mut observer = lock(&self.observer);
        nodes.into_iter().for_each(|node| observer.watch(node));
        observer.sample(Occasion::Asked);
    }

    /// Counts a process and its descendants as part of the trial, each process once.
    pub fn count_helper(&self, process: i32) {
        let helpers = &mut lock(&self.observer).helpers;
        if helpers.iter().all(|one| one.pid.load(Ordering::Acquire) != process) {
            helpers.push(Family::new(Arc::new(AtomicI32::new(process)), Kinship::Tree));
        }
    }

    /// Ends the current phase of the trial and begins another.
    pub fn phase(&mut self, name: PhaseName) {
        let now = self.end_phase();
        self.phases.push(Phase { name: name.text().to_owned(), from: now, to: now });
    }

    /// Returns the samples so far, after measuring has ended. Takes the sample of that moment if the sampler's thread
    /// has not done so yet.
    pub fn so_far(&self) -> TrialSamples {
        let mut observer = lock(&self.observer);
        observer.sample(Occasion::Moment);
        observer.after_measuring();
        observer.observed(self.interval, self.phases.clone())
    }

    /// Returns the last sample of each node and of bakeoff itself, without taking one.
    pub fn last_samples(&self) -> Vec<NodeSample> {
        let observer = lock(&self.observer);
        let last = |node: &Node| {
            let series = &node.series;
            series.last_sample(observer.memory.iter().find(|memory| memory.name == series.name))
        };
        observer.nodes.iter().filter_map(last).collect()
    }

    /// Takes a last sample and returns all.
    pub fn stop(mut self) -> TrialSamples {
        self.end_phase();
        self.stopped.store(true, Ordering::Release);
        // Any message wakes the thread.
        self.tell.send(Moment::End(self.began)).ok();
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        lock(&self.observer).observed(self.interval, self.phases)
    }

    fn end_phase(&mut self) -> f64 {
        lock(&self.observer).sample(Occasion::Asked);
        // Read after the sample, which therefore lies before the phase.
        let now = self.began.elapsed().as_secs_f64();
        if let Some(last) = self.phases.last_mut() {
            last.to = now;
        }
        now
    }
}

/// Samples every `interval` and at the announced moments.
fn sample_until(
    stopped: &AtomicBool,
    observer: &Mutex<Observer>,
    marks: &mpsc::Receiver<Moment>,
    interval: Duration,
) {
    let mut due = clock::now() + interval;
    let mut moments: Vec<Moment> = Vec::new();
    let time = |moment: &Moment| match *moment {
        Moment::Begin(at) | Moment::End(at) => at,
    };
    loop {
        let next = moments.iter().map(time).fold(due, Instant::min);
        let memory = lock(observer).memory_due();
        let next = memory.map_or(next, |memory| memory.min(next));
        match marks.recv_timeout(next.saturating_duration_since(clock::now())) {
            Ok(_) if stopped.load(Ordering::Acquire) => return,
            Ok(moment) => {
                // Announced ahead, so this scan takes no time from the measurement.
                if matches!(moment, Moment::Begin(_)) {
                    lock(observer).before_measuring();
                }
                moments.push(moment);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
        let now = clock::now();
        let (come, later): (Vec<_>, Vec<_>) = moments.iter().partition(|one| time(one) <= now);
        moments = later;
        if !come.is_empty() {
            lock(observer).sample(Occasion::Moment);
        }
        if come.iter().any(|one| matches!(one, Moment::End(_))) {
            lock(observer).window_ended(now);
        }
        if let Some(begin) = come.iter().find(|one| matches!(one, Moment::Begin(_))) {
            lock(observer).window_began(time(begin));
        }
        lock(observer).read_memory_between(now);
        if due <= now {
            lock(observer).sample(Occasion::Grid);
            // The grid keeps samples from drifting; missed ones are skipped.
            let behind = clock::now().saturating_duration_since(due).as_nanos();
            due += interval * (behind / interval.as_nanos() + 1) as u32;
        }
    }
}

fn lock(observer: &Mutex<Observer>) -> MutexGuard<'_, Observer> {
    observer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reason for a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// The interval has elapsed.
    Grid,
    /// A phase begins or ends.
    Asked,
    /// Measuring begins or ends.
    Moment,
}

struct Observer {
    began: Instant,
    interval: Duration,
    nodes: Vec<Node>,
    census: Census,
    thorough: Pace,
    /// `None` if the kernel does not report its sockets.
    sockets: Option<Sockets>,
    sockets_pace: Pace,
    walk: Pace,
    machine: Machine,
    machine_series: Series,
    /// Processes that bakeoff has started besides the nodes.
    helpers: Vec<Family>,
    /// State before the current measurement.
    before: Option<Baseline>,
    strangers: Vec<ForeignCpu>,
    turnover: Vec<Turnover>,
    proportional: Pace,
    /// Proportional memory of each node, at the times of its readings.
    memory: Vec<Series>,
    /// Start of the current measured window.
    measuring_since: Option<Instant>,
    last: Option<(Instant, Occasion)>,
    cost: Duration,
}

/// The state before measuring began.
struct Baseline {
    at: f64,
    processes: Scan,
    /// Processes that had joined each node. `strangers`: processes outside all nodes.
    joined: Vec<u64>,
    strangers: u64,
    opened: Counts,
}

struct Node {
    watched: SampledProcess,
    series: Series,
}

/// Limits how often an expensive sample is taken.
struct Pace {
    at_least: Duration,
    last: Option<Instant>,
    cost: Duration,
}

impl Pace {
    fn new(at_least: Duration) -> Self {
        Self { at_least, last: None, cost: Duration::ZERO }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.due().is_none_or(|due| now >= due)
    }

    /// Returns when the next sample may be taken; `None` if there was none yet.
    fn due(&self) -> Option<Instant> {
        Some(self.last? + self.at_least.max(self.cost * SHARE))
    }

    fn taken(&mut self, now: Instant, cpu_before: Duration) {
        self.last = Some(now);
        self.cost = clock::thread_cpu().saturating_sub(cpu_before);
    }
}

impl Observer {
    fn new(data: &Path, interval: Duration, began: Instant) -> Self {
        Self {
            began,
            interval,
            nodes: Vec::new(),
            census: Census::default(),
            thorough: Pace::new(THOROUGH),
            sockets: Sockets::open(),
            sockets_pace: Pace::new(THOROUGH),
            walk: Pace::new(WALK),
            machine: Machine::new(data),
            machine_series: Series { name: MACHINE.to_owned(), ..Series::default() },
            helpers: vec![Family::new(ourselves(), Kinship::Descendants)],
            before: None,
            strangers: Vec::new(),
            turnover: Vec::new(),
            proportional: Pace::new(PROPORTIONAL),
            memory: Vec::new(),
            measuring_since: None,
            last: None,
            cost: Duration::ZERO,
        }
    }

    fn watch(&mut self, watched: SampledProcess) {
        let series = Series { name: watched.name.clone(), ..Series::default() };
        self.nodes.push(Node { watched, series });
    }

    fn sample(&mut self, occasion: Occasion) {
        let cpu_before = clock::thread_cpu();
        let now = clock::now();
        // Rates over a small part of an interval would show the kernel's ticks. Of two close samples, the one on the
        // grid gives way.
        if let Some((last, why)) = self.last
            && now.saturating_duration_since(last) < self.interval / 2
        {
            match (why, occasion) {
                (_, Occasion::Grid) => return,
                (Occasion::Grid, _) => self.forget(last),
                (Occasion::Asked | Occasion::Moment, _) => {}
            }
        }
        self.last = Some((now, occasion));
        let at = self.at(now);
        let asked = occasion == Occasion::Asked;
        self.sample_processes(at, now, asked);
        if occasion != Occasion::Moment {
            self.read_memory_if_due(now);
            self.sample_sockets(now, false);
            self.sample_directories(now, asked);
        }
        let mut row = self.machine.sample();
        let helpers = self.helpers.iter_mut().map(Family::cpu).sum();
        row.push((Column::Helpers, helpers));
        push(&mut self.machine_series, at, row);
        self.cost += clock::thread_cpu().saturating_sub(cpu_before);
    }

    /// Returns a time in seconds, rounded down, so that a sample is never later than what follows it.
    fn at(&self, now: Instant) -> f64 {
        (now.saturating_duration_since(self.began).as_secs_f64() * 1e4).floor() / 1e4
    }

    fn sample_processes(&mut self, at: f64, now: Instant, asked: bool) {
        let cpu_before = clock::thread_cpu();
        let leaders = self.leaders();
        let thoroughly = asked || self.thorough.is_due(now);
        if thoroughly || self.census.is_outdated(&leaders) {
            self.take_census(leaders);
        }
        for node in &mut self.nodes {
            let SampledProcess { family, group, throttled, .. } = &mut node.watched;
            let mut row = family.sample(thoroughly);
            if let Some(group) = group {
                let columns =
                    [Column::CpuThrottled, Column::CpuPeriods, Column::CpuPeriodsThrottled];
                let seen = group.throttled().into_iter().flatten();
                let seen = seen.zip(throttled.iter_mut()).map(|(seen, of)| of.take(seen));
                row.extend(columns.into_iter().zip(seen));
                row.extend(group.memory().map(|bytes| (Column::CgroupMemory, bytes)));
            }
            push(&mut node.series, at, row);
        }
        if thoroughly {
            self.thorough.taken(now, cpu_before);
        }
    }

    fn leaders(&self) -> Vec<i32> {
        let families = self.nodes.iter().map(|node| &node.watched.family);
        let families = families.chain(&self.helpers);
        families.map(|family| family.pid.load(Ordering::Acquire)).collect()
    }

    fn take_census(&mut self, leaders: Vec<i32>) {
        let families = self.nodes.iter_mut().map(|node| &mut node.watched.family);
        let families = families.chain(&mut self.helpers);
        self.census.take(&mut families.collect::<Vec<_>>(), leaders);
    }

    /// Records the state just before measuring begins.
    fn before_measuring(&mut self) {
        let cpu_before = clock::thread_cpu();
        self.take_census(self.leaders());
        self.sample_sockets(clock::now(), true);
        let at = self.at(clock::now());
        self.before = Some(Baseline {
            at,
            processes: Scan::take(at),
            joined: self.nodes.iter().map(|node| node.watched.family.joined()).collect(),
            strangers: self.census.strangers(),
            opened: self.opened(),
        });
        self.cost += clock::thread_cpu().saturating_sub(cpu_before);
    }

    /// Records what has changed since [`Self::before_measuring`].
    fn after_measuring(&mut self) {
        let cpu_before = clock::thread_cpu();
        let Some(before) = self.before.take() else { return };
        self.take_census(self.leaders());
        let census = &self.census;
        let at = self.at(clock::now());
        self.strangers.push(before.processes.since(at, |pid| census.is_ours(pid)));
        self.sample_sockets(clock::now(), true);
        self.turnover.push(self.turnover(&before, at));
        self.cost += clock::thread_cpu().saturating_sub(cpu_before);
    }

    /// Returns all samples, with their columns filled in.
    fn observed(&self, interval: Duration, phases: Vec<Phase>) -> TrialSamples {
        TrialSamples {
            interval,
            cost: self.cost,
            phases,
            nodes: self.nodes.iter().map(|node| settle(node.series.clone())).collect(),
            memory: self.memory.clone(),
            metrics: Vec::new(),
            machine: settle(self.machine_series.clone()),
            busy_by: Some(self.machine.busy_by()),
            strangers: self.strangers.clone(),
            turnover: self.turnover.clone(),
        }
    }

    fn opened(&self) -> Counts {
        self.sockets.as_ref().map(|sockets| sockets.opened().clone()).unwrap_or_default()
    }

    /// Returns the processes and connections that have begun since then, as far as they were seen.
    fn turnover(&self, before: &Baseline, at: f64) -> Turnover {
        let name = |place: usize| self.nodes.get(place).map(|node| node.series.name.clone());
        let joined = self.nodes.iter().zip(&before.joined).filter_map(|(node, before)| {
            let new = node.watched.family.joined() - before;
            (new > 0).then(|| (node.series.name.clone(), new))
        });
        let opened = self.opened();
        let connections = opened.to_owners.iter().filter_map(|(&(by, to), &count)| {
            let had = before.opened.to_owners.get(&(by, to)).copied().unwrap_or(0);
            let seen = count - had;
            (seen > 0).then_some(ConnectionCount { by: by.and_then(name), to: name(to)?, seen })
        });
        Turnover {
            from: before.at,
            to: at,
            processes: joined.collect(),
            other_processes: self.census.strangers() - before.strangers,
            connections: connections.collect(),
            // Each connection has two ends.
            other_connections: (opened.others - before.opened.others) / 2,
        }
    }

    /// Samples the sockets if that is due or `must` be. Phases may follow each other within milliseconds and a dump of
    /// all sockets is expensive, so a phase's end alone does not force one.
    fn sample_sockets(&mut self, now: Instant, must: bool) {
        if !must && !self.sockets_pace.is_due(now) {
            return;
        }
        let Some(sockets) = &mut self.sockets else { return };
        let cpu_before = clock::thread_cpu();
        let owner = |node: &Node| Owner {
            ports: node.watched.ports.clone(),
            relay: node.watched.relay,
            pids: node.watched.family.pids(),
        };
        match sockets.sample(&self.nodes.iter().map(owner).collect::<Vec<_>>()) {
            Some(moved) => {
                for (node, (sent, received)) in self.nodes.iter_mut().zip(moved) {
                    set(&mut node.series, Column::SocketSent, sent as f64);
                    set(&mut node.series, Column::SocketReceived, received as f64);
                }
            }
            // Constant columns from here on would suggest that no bytes were sent.
            None => {
                self.sockets = None;
                for node in &mut self.nodes {
                    node.series.columns.remove(&Column::SocketSent);
                    node.series.columns.remove(&Column::SocketReceived);
                }
            }
        }
        self.sockets_pace.taken(now, cpu_before);
    }

    /// Returns when the next reading of proportional memory is due in the current window.
    fn memory_due(&self) -> Option<Instant> {
        self.measuring_since?;
        self.proportional.due()
    }

    fn read_memory_if_due(&mut self, now: Instant) {
        if self.proportional.is_due(now) {
            self.read_memory(now);
        }
    }

    /// Reads proportional memory between two samples, if that is due in the current window.
    fn read_memory_between(&mut self, now: Instant) {
        let cpu_before = clock::thread_cpu();
        if self.measuring_since.is_some() {
            self.read_memory_if_due(now);
        }
        self.cost += clock::thread_cpu().saturating_sub(cpu_before);
    }

    /// Reads the proportional and private memory of all nodes, with the same timestamp.
    fn read_memory(&mut self, now: Instant) {
        let cpu_before = clock::thread_cpu();
        let at = self.at(now);
        for node in &self.nodes {
            let name = &node.series.name;
            if node.watched.dir.is_none() && name == GENERATOR {
                continue;
            }
            // A reading of only some processes would be too low.
            let Some(memory) = node.watched.family.memory() else { continue };
            let place = self.memory.iter().position(|known| known.name == *name);
            let place = place.unwrap_or_else(|| {
                self.memory.push(Series { name: name.clone(), ..Series::default() });
                self.memory.len() - 1
            });
            let series = &mut self.memory[place];
            if series.at.last().is_none_or(|&last| last < at) {
                let values = [
                    (Column::Proportional, memory.proportional as f64),
                    (Column::Private, memory.private as f64),
                ];
                push(series, at, values.to_vec());
            }
        }
        // Pause as long as the window so far: five readings in two seconds, and a few more in a minute.
        let pause = self.measuring_since.map(|since| now.saturating_duration_since(since));
        self.proportional.at_least =
            pause.map_or(PROPORTIONAL, |pause| pause.clamp(PROPORTIONAL_MIN, PROPORTIONAL));
        self.proportional.taken(now, cpu_before);
    }

    /// Begins a measured window, with frequent readings of memory at first.
    fn window_began(&mut self, at: Instant) {
        self.measuring_since = Some(at);
        self.proportional.at_least = PROPORTIONAL_MIN;
    }

    /// Ends a measured window and reads memory and disk space at once.
    fn window_ended(&mut self, now: Instant) {
        let cpu_before = clock::thread_cpu();
        self.measuring_since = None;
        self.read_memory(now);
        self.sample_directories(now, true);
        self.cost += clock::thread_cpu().saturating_sub(cpu_before);
        self.after_measuring();
    }

    fn sample_directories(&mut self, now: Instant, asked: bool) {
        if !asked && !self.walk.is_due(now) {
            return;
        }
        let cpu_before = clock::thread_cpu();
        for node in &mut self.nodes {
            let Some(dir) = &node.watched.dir else { continue };
            match disk::space(dir, FILES_MAX) {
                Some(bytes) => set(&mut node.series, Column::DataDirectory, bytes as f64),
                // Too many files: stop walking, and drop the old figures.
                None => {
                    node.watched.dir = None;
                    node.series.columns.remove(&Column::DataDirectory);
                }
            }
        }
        self.walk.taken(now, cpu_before);
    }

    /// Removes the last sample.
    fn forget(&mut self, last: Instant) {
        let at = self.at(last);
        let all = self.nodes.iter_mut().map(|node| &mut node.series);
        for series in all.chain([&mut self.machine_series]) {
            if series.at.last() == Some(&at) {
                series.at.pop();
                for column in series.columns.values_mut() {
                    column.pop();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
