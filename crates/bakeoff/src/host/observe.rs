//! Samples what servers use, and what bakeoff itself uses, from `/proc`.
//!
//! A node is its server process and all that descends from it or is in its group. Counters go on
//! over restarts: what a process had used when it was last seen is kept when it is gone. What it
//! used after that, and a child that lived and ended between two looks, is missed; both are short.
//!
//! The resident memory of a node with several processes counts the pages that they share once for
//! each of them. Linux counts CPU time in ticks of `CLK_TCK`, commonly 10 ms, so that figures over
//! less than a second are coarse; [`summarize`] takes none.
//!
//! Not here: cgroup figures, the machine's own (steal time, disk), sockets.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Process;
use super::procfs::{self, Stat};
use crate::engine::clock;

/// One look at one node. Counters count from its first start.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// Since the beginning that the sampler was given.
    pub(crate) at: Duration,
    /// `etcd-1`, or [`OURSELVES`].
    pub(crate) node: Arc<str>,
    /// CPU seconds in user space.
    pub(crate) cpu_user_s: f64,
    /// CPU seconds in the kernel.
    pub(crate) cpu_system_s: f64,
    /// Resident memory now.
    pub(crate) rss_bytes: u64,
    /// Processes now; 0 while the node is down.
    pub(crate) processes: u64,
    /// Threads now.
    pub(crate) threads: u64,
    /// Page faults that took no disk access.
    pub(crate) faults_minor: u64,
    /// Page faults that did.
    pub(crate) faults_major: u64,
    /// Context switches because a thread waited; looked at once a second at most.
    pub(crate) switches_voluntary: u64,
    /// Context switches because a thread's time was up.
    pub(crate) switches_involuntary: u64,
    /// Fetched from storage; `None` where the kernel does not let us see it.
    pub(crate) read_bytes: Option<u64>,
    /// Sent to storage, or to be sent; `None` as above.
    pub(crate) write_bytes: Option<u64>,
}

/// The name under which bakeoff itself is sampled.
pub(crate) const OURSELVES: &str = "bakeoff";

/// What is to be sampled.
pub(crate) struct Watched {
    name: Arc<str>,
    pid: Arc<AtomicI32>,
    /// Whether its children count as it.
    family: bool,
}

impl Watched {
    /// A node, over all its restarts.
    pub(crate) fn node(process: &Process) -> Self {
        Self { name: process.name().into(), pid: process.pid_cell(), family: true }
    }

    /// bakeoff itself; its children are the nodes.
    pub(crate) fn ourselves() -> Self {
        let pid = AtomicI32::new(std::process::id() as i32);
        Self { name: OURSELVES.into(), pid: Arc::new(pid), family: false }
    }
}

/// A thread that samples until it is stopped.
pub(crate) struct Sampler {
    stop: mpsc::Sender<()>,
    samples: Arc<Mutex<Vec<Sample>>>,
    thread: JoinHandle<Duration>,
}

/// What a sampler saw.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    /// In order of time; of each node at each time.
    pub(crate) samples: Vec<Sample>,
    /// The CPU time that sampling itself took.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test holds it to its bound"))]
    pub(crate) cost: Duration,
}

/// No finer: a look at three servers takes about a millisecond.
pub(crate) const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// How often new processes and context switches are looked for, which costs more than the rest.
const CENSUS: Duration = Duration::from_millis(990);

impl Sampler {
    /// Samples now and then every `interval`, which is at least [`INTERVAL_MIN`].
    pub(crate) fn start(watched: Vec<Watched>, interval: Duration, began: Instant) -> Self {
        let interval = interval.max(INTERVAL_MIN);
        let (stop, stopped) = mpsc::channel::<()>();
        let samples = Arc::<Mutex<Vec<Sample>>>::default();
        let seen = Arc::clone(&samples);
        let look_until_stopped = move || {
            let mut nodes = watched.into_iter().map(Node::new).collect::<Vec<_>>();
            let mut census = Census::default();
            let mut due = clock::now();
            loop {
                let found = look(&mut nodes, &mut census, began);
                seen.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
                if due < clock::now() {
                    // On a grid, so that samples do not drift; late ones are not made up for.
                    let behind = clock::now().duration_since(due).as_nanos();
                    due += interval * (behind / interval.as_nanos() + 1) as u32;
                }
                match stopped.recv_timeout(due.saturating_duration_since(clock::now())) {
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                    _ => break,
                }
            }
            let last = look(&mut nodes, &mut census, began);
            seen.lock().unwrap_or_else(PoisonError::into_inner).extend(last);
            let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
        };
        let thread = std::thread::Builder::new().name("sampler".into());
        let thread = thread.spawn(look_until_stopped).expect("a thread can be started");
        Self { stop, samples, thread }
    }

    /// Every node's newest sample.
    #[cfg(test)]
    fn latest(&self) -> Vec<Sample> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = samples.last().map(|last| last.at);
        samples.iter().rev().take_while(|s| Some(s.at) == newest).cloned().collect()
    }

    /// Takes a last sample and yields all.
    pub(crate) fn stop(self) -> Observed {
        drop(self.stop);
        let cost = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let samples =
            std::mem::take(&mut *self.samples.lock().unwrap_or_else(PoisonError::into_inner));
        Observed { samples, cost }
    }
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    user_ticks: u64,
    system_ticks: u64,
    faults_minor: u64,
    faults_major: u64,
    io: Option<(u64, u64)>,
}

impl Used {
    fn of(stat: &Stat) -> Self {
        Self {
            user_ticks: stat.user_ticks,
            system_ticks: stat.system_ticks,
            faults_minor: stat.faults_minor,
            faults_major: stat.faults_major,
            io: procfs::io(stat.pid),
        }
    }

    fn add(&mut self, other: &Self) {
        self.user_ticks += other.user_ticks;
        self.system_ticks += other.system_ticks;
        self.faults_minor += other.faults_minor;
        self.faults_major += other.faults_major;
        let sum = |a: Option<(u64, u64)>, b: (u64, u64)| {
            let (read, written) = a.unwrap_or_default();
            (read + b.0, written + b.1)
        };
        self.io = other.io.map(|io| sum(self.io, io)).or(self.io);
    }
}

struct Member {
    start_ticks: u64,
    used: Used,
    /// Voluntary and involuntary context switches of each of its threads, by id.
    switches: HashMap<i32, (u64, u64)>,
}

struct Node {
    watched: Watched,
    members: HashMap<i32, Member>,
    /// What members that are gone had used.
    gone: Used,
    switches_gone: (u64, u64),
}

impl Node {
    fn new(watched: Watched) -> Self {
        let (members, gone) = (HashMap::new(), Used::default());
        Self { watched, members, gone, switches_gone: (0, 0) }
    }

    fn join(&mut self, stat: &Stat) {
        let used = Used::default();
        let member = Member { start_ticks: stat.start_ticks, used, switches: HashMap::new() };
        self.members.insert(stat.pid, member);
    }

    fn sample(&mut self, at: Duration, switches_too: bool) -> Sample {
        let (mut total, mut switches) = (Used::default(), (0, 0));
        let (mut rss_pages, mut threads) = (0, 0);
        let (gone, switches_gone) = (&mut self.gone, &mut self.switches_gone);
        self.members.retain(|&pid, member| {
            let stat = procfs::stat(pid).filter(|stat| stat.start_ticks == member.start_ticks);
            if let Some(stat) = &stat {
                // The last figures of one that has ended can be read until it is reaped; what it
                // did to the disk cannot.
                let io = member.used.io;
                member.used = Used::of(stat);
                member.used.io = member.used.io.or(io);
            }
            let Some(stat) = stat.filter(Stat::lives) else {
                gone.add(&member.used);
                member.switches.values().for_each(|s| add(switches_gone, *s));
                return false;
            };
            if switches_too {
                let old = std::mem::replace(&mut member.switches, procfs::switches(pid));
                let ended = old.iter().filter(|(id, _)| !member.switches.contains_key(id));
                ended.for_each(|(_, s)| add(switches_gone, *s));
            }
            member.switches.values().for_each(|s| add(&mut switches, *s));
            total.add(&member.used);
            rss_pages += stat.rss_pages;
            threads += stat.threads;
            true
        });
        total.add(gone);
        add(&mut switches, *switches_gone);
        let tick = 1.0 / rustix::param::clock_ticks_per_second() as f64;
        Sample {
            at,
            node: Arc::clone(&self.watched.name),
            cpu_user_s: total.user_ticks as f64 * tick,
            cpu_system_s: total.system_ticks as f64 * tick,
            rss_bytes: rss_pages * rustix::param::page_size() as u64,
            processes: self.members.len() as u64,
            threads,
            faults_minor: total.faults_minor,
            faults_major: total.faults_major,
            switches_voluntary: switches.0,
            switches_involuntary: switches.1,
            read_bytes: total.io.map(|io| io.0),
            write_bytes: total.io.map(|io| io.1),
        }
    }
}

fn add(to: &mut (u64, u64), more: (u64, u64)) {
    *to = (to.0 + more.0, to.1 + more.1);
}

/// Knows which process belongs to which node, and asks about each only once: a process keeps its
/// forebears.
#[derive(Default)]
struct Census {
    taken: Option<Instant>,
    leaders: Vec<i32>,
    /// The node's index, or none of them.
    owners: HashMap<i32, Option<usize>>,
}

impl Census {
    fn take(&mut self, nodes: &mut [Node]) {
        let mut found = HashMap::new();
        let mut unknown = Vec::new();
        for (index, node) in nodes.iter_mut().enumerate() {
            let leader = self.leaders[index];
            if leader != 0
                && !node.members.contains_key(&leader)
                && let Some(stat) = procfs::stat(leader).filter(Stat::lives)
            {
                node.join(&stat);
            }
            if leader != 0 {
                found.insert(leader, node.watched.family.then_some(index));
            }
        }
        for pid in procfs::pids() {
            if let Some(owner) = self.owners.get(&pid) {
                found.entry(pid).or_insert(*owner);
            } else if !found.contains_key(&pid)
                && let Some(stat) = procfs::stat(pid)
            {
                unknown.push(stat);
            }
        }
        // Parents mostly have lower ids than their children, but ids wrap around.
        unknown.sort_by_key(|stat| stat.start_ticks);
        for stat in unknown {
            // The kernel's own threads are in group 0, which is also how a node that is down looks.
            let leads = |&leader: &i32| leader != 0 && leader == stat.group;
            let by_group = self.leaders.iter().position(leads);
            let by_group = by_group.filter(|&index| nodes[index].watched.family);
            let owner = by_group.or_else(|| found.get(&stat.parent).copied().flatten());
            if let Some(index) = owner.filter(|_| stat.lives())
                && !nodes[index].members.contains_key(&stat.pid)
            {
                nodes[index].join(&stat);
            }
            found.insert(stat.pid, owner);
        }
        self.owners = found;
    }
}

fn look(nodes: &mut [Node], census: &mut Census, began: Instant) -> Vec<Sample> {
    let now = clock::now();
    let leaders = nodes.iter().map(|node| node.watched.pid.load(Ordering::Acquire));
    let leaders = leaders.collect::<Vec<_>>();
    let due = census.taken.is_none_or(|taken| now.duration_since(taken) >= CENSUS);
    if due || leaders != census.leaders {
        if leaders != census.leaders {
            // A node's processes may have been seen before it was known to be there.
            census.owners.clear();
        }
        (census.leaders, census.taken) = (leaders, Some(now));
        census.take(nodes);
    }
    let at = now.saturating_duration_since(began);
    nodes.iter_mut().map(|node| node.sample(at, due)).collect()
}

/// What a node used between two times.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Summary {
    /// `etcd-1`.
    pub(crate) node: Arc<str>,
    /// CPU seconds, user and system.
    pub(crate) cpu_s: f64,
    /// Most CPU within about a second, in percent of one core.
    pub(crate) cpu_max_percent: f64,
    /// CPU over the whole time, in percent of one core.
    pub(crate) cpu_mean_percent: f64,
    /// Most resident memory seen.
    pub(crate) rss_bytes_max: u64,
    /// Most threads seen.
    pub(crate) threads_max: u64,
    /// From storage.
    pub(crate) read_bytes: Option<u64>,
    /// To storage.
    pub(crate) write_bytes: Option<u64>,
}

/// The shortest time that a share of CPU is computed over; samples may come a little early.
const WINDOW: Duration = Duration::from_millis(950);

/// Sums each node up over the samples from `from` to `to`. A node with fewer than two of them has
/// no summary: nothing can be said of it.
pub(crate) fn summarize(samples: &[Sample], from: Duration, to: Duration) -> Vec<Summary> {
    let mut nodes: Vec<(Arc<str>, Vec<&Sample>)> = Vec::new();
    for sample in samples.iter().filter(|s| (from..=to).contains(&s.at)) {
        match nodes.iter_mut().find(|(name, _)| *name == sample.node) {
            Some((_, of_node)) => of_node.push(sample),
            None => nodes.push((Arc::clone(&sample.node), vec![sample])),
        }
    }
    nodes.into_iter().filter_map(|(node, samples)| summarize_node(node, &samples)).collect()
}

fn summarize_node(node: Arc<str>, samples: &[&Sample]) -> Option<Summary> {
    let [first, .., last] = samples else { return None };
    let cpu_s = |a: &Sample, b: &Sample| {
        (b.cpu_user_s + b.cpu_system_s - a.cpu_user_s - a.cpu_system_s).max(0.0)
    };
    let percent = |a: &Sample, b: &Sample| {
        100.0 * cpu_s(a, b) / b.at.saturating_sub(a.at).as_secs_f64().max(1e-9)
    };
    let mean = percent(first, last);
    let mut start = 0;
    let mut most = None;
    for end in samples {
        // The latest sample that is a window or more before this one.
        while samples.get(start + 1).is_some_and(|s| end.at.saturating_sub(s.at) >= WINDOW) {
            start += 1;
        }
        if end.at.saturating_sub(samples[start].at) >= WINDOW {
            most = Some(percent(samples[start], end).max(most.unwrap_or(0.0)));
        }
    }
    let bytes = |of: fn(&Sample) -> Option<u64>| Some(of(last)?.saturating_sub(of(first)?));
    Some(Summary {
        node,
        cpu_s: cpu_s(first, last),
        cpu_max_percent: most.unwrap_or(mean),
        cpu_mean_percent: mean,
        rss_bytes_max: samples.iter().map(|s| s.rss_bytes).max()?,
        threads_max: samples.iter().map(|s| s.threads).max()?,
        read_bytes: bytes(|s| s.read_bytes),
        write_bytes: bytes(|s| s.write_bytes),
    })
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::super::tests::{launch, sh, wait_for};
    use super::*;

    fn sample(at_ms: u64, cpu_s: f64, rss_bytes: u64) -> Sample {
        Sample {
            at: Duration::from_millis(at_ms),
            node: "n".into(),
            cpu_user_s: cpu_s,
            cpu_system_s: 0.0,
            rss_bytes,
            processes: 1,
            threads: 1,
            faults_minor: 0,
            faults_major: 0,
            switches_voluntary: 0,
            switches_involuntary: 0,
            read_bytes: None,
            write_bytes: Some(at_ms),
        }
    }

    fn summary(samples: &[Sample]) -> Summary {
        summarize(samples, Duration::ZERO, Duration::MAX).remove(0)
    }

    #[test]
    fn the_most_cpu_is_over_a_second_however_fine_the_samples() {
        // Half a core for 2 s, with a burst of 100 ms at two cores in the middle.
        let mut cpu = 0.0;
        let samples = (0..=20).map(|n| {
            cpu += if n == 10 { 0.2 } else { 0.05 };
            sample(n * 100, cpu, n)
        });
        let summary = summary(&samples.collect::<Vec<_>>());
        assert!((summary.cpu_max_percent - 65.0).abs() < 1e-6, "{summary:?}");
        assert!((summary.cpu_mean_percent - 57.5).abs() < 1e-6, "{summary:?}");
        assert_eq!((summary.rss_bytes_max, summary.read_bytes), (20, None));
        assert_eq!(summary.write_bytes, Some(2000));
    }

    #[test]
    fn a_short_time_has_its_mean_for_its_most_and_a_single_sample_has_nothing() {
        let short = [sample(0, 0.0, 1), sample(100, 0.05, 1)];
        assert!((summary(&short).cpu_max_percent - 50.0).abs() < 1e-6);
        assert!(summarize(&short[..1], Duration::ZERO, Duration::MAX).is_empty());
        assert!(summarize(&short, Duration::from_millis(50), Duration::MAX).is_empty());
    }

    #[test]
    fn cpu_of_a_node_and_its_child_is_seen_and_kept_over_a_restart() {
        let dir = TempDir::new().unwrap();
        // The child burns, in a session of its own; then all is quiet.
        let script = "setsid sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 60' & \
                      wait";
        let process = launch(sh(&dir, script)).unwrap();
        let watched = vec![Watched::node(&process), Watched::ourselves()];
        let sampler = Sampler::start(watched, INTERVAL_MIN, clock::now());
        let newest = || {
            let latest = sampler.latest();
            latest.into_iter().find(|s| &*s.node == "node-1")
        };
        wait_for("a sample", || newest().is_some());
        let newest = || newest().unwrap();
        let cpu_s = |s: &Sample| s.cpu_user_s + s.cpu_system_s;
        wait_for("cpu of the child", || cpu_s(&newest()) > 0.04);
        assert!(newest().rss_bytes > 100_000 && newest().processes >= 2);
        process.kill9();
        wait_for("the end", || newest().processes == 0);
        let before = cpu_s(&newest());
        assert!(before > 0.04);
        process.restart().unwrap();
        wait_for("cpu after the restart", || cpu_s(&newest()) > before + 0.03);
        let observed = sampler.stop();
        let looks = observed.samples.len() / 2;
        let each = observed.cost / looks as u32;
        assert!(each < Duration::from_millis(10), "a look took {each:?}");
        let of_node = observed.samples.iter().filter(|s| &*s.node == "node-1");
        assert!(of_node.map(cpu_s).is_sorted(), "a counter never goes back");
        let ours = observed.samples.iter().rfind(|s| &*s.node == OURSELVES).unwrap();
        assert_eq!(ours.processes, 1, "the nodes are not counted as bakeoff");
        assert!(ours.threads >= 2 && ours.switches_voluntary > 0);
    }
}
