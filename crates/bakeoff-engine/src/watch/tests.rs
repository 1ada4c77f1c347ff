//! Tests the watchers' thread against small nodes that speak lines.
//!
//! All nodes of a test share one list of changes. Nothing is timed: each test waits for what it needs.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bakeoff_core::ledger::{Write, WriteOutcome};
use bakeoff_core::study::{
    KeyOrder, Keys, Operation, Payload, ReadConsistency, SlowReaders, ValueSizes, Watchers,
    Workload,
};
use bakeoff_core::watch::{
    Delivery, WatchFigures, WatchGuarantee, WatchRange, WatchStart, Watches,
};
use bakeoff_core::workload::Stamp;
use bakeoff_wire::ProtocolError;

use super::party::CLOSED_BY_US;
use super::*;
use crate::address::Address;
use crate::peer::Peer;
use crate::shared_versions::VersionRecorder;
use crate::work::{OperationTiming, Session};
use crate::works::keyed::{KeyedState, StalenessTracking};
use crate::{EngineError, clock};

/// Number of keys.
const KEYS: u32 = 3;
/// Place in a request for the oldest event on.
const OLDEST: u64 = u64::MAX;
/// Longest wait for something that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Describes what all nodes of a test share.
#[derive(Default)]
struct Shared {
    /// Key and value of each change, in hexadecimal. The first has place 1.
    changes: Mutex<Vec<(String, String)>>,
    /// First place that is not lost.
    first: AtomicU64,
    /// Events that sessions received, by node.
    received: [AtomicU64; 2],
}

/// A node that sends changes to its watchers.
struct Node {
    address: SocketAddr,
    state: Arc<NodeState>,
}

#[derive(Default)]
struct NodeState {
    /// Watchers that it was asked for, each with the place to start after.
    requests: Mutex<Vec<(u32, u64)>>,
    open: Mutex<Vec<TcpStream>>,
    /// True if it sends nothing.
    is_mute: AtomicBool,
    is_gone: AtomicBool,
}

impl Node {
    fn start(shared: &Arc<Shared>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state: Arc<NodeState> = Arc::default();
        let (of_thread, shared) = (Arc::clone(&state), Arc::clone(shared));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if of_thread.is_gone.load(Ordering::Relaxed) {
                    return; // and stops listening
                }
                let stream = stream.unwrap();
                of_thread.open.lock().unwrap().push(stream.try_clone().unwrap());
                let (state, shared) = (Arc::clone(&of_thread), Arc::clone(&shared));
                std::thread::spawn(move || serve(stream, &state, &shared));
            }
        });
        Self { address, state }
    }

    fn requests(&self) -> Vec<(u32, u64)> {
        let mut requests = self.state.requests.lock().unwrap().clone();
        requests.sort_unstable();
        requests
    }

    /// Sends bytes on all connections.
    fn say(&self, bytes: &[u8]) {
        for mut stream in self.state.open.lock().unwrap().iter() {
            stream.write_all(bytes).unwrap();
        }
    }

    /// Closes all connections and listens no more.
    fn go(&self) {
        if self.state.is_gone.swap(true, Ordering::Relaxed) {
            return; // another listener may have its port
        }
        TcpStream::connect(self.address).ok(); // wakes the accept loop one last time
        while TcpStream::connect(self.address).is_ok() {}
        for stream in self.state.open.lock().unwrap().drain(..) {
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.go();
    }
}

/// Serves one connection until it ends.
fn serve(mut stream: TcpStream, state: &NodeState, shared: &Shared) {
    stream.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let (mut input, mut piece) = (Vec::new(), [0; 4096]);
    let mut watchers: Vec<(u32, u64, String)> = Vec::new();
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return,
            Ok(count) => input.extend_from_slice(&piece[..count]),
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {}
            Err(_) => return,
        }
        let mut out = String::new();
        while let Some(end) = input.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = input.drain(..=end).collect();
            let line = String::from_utf8(line).unwrap();
            let [number, after, name] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                panic!("`{line}` is no request");
            };
            let (number, mut after) = (number.parse().unwrap(), after.parse().unwrap());
            state.requests.lock().unwrap().push((number, after));
            let first = shared.first.load(Ordering::Relaxed);
            if after > 0 && after < OLDEST && after + 1 < first {
                out += &format!("gone {number} {first}\n");
                continue;
            }
            if after == OLDEST {
                after = first.saturating_sub(1);
            } else if after == 0 {
                after = shared.changes.lock().unwrap().len() as u64;
            }
            // Like etcd, it names the newest place, also if older events follow.
            let newest = shared.changes.lock().unwrap().len();
            out += &format!("created {number} {newest}\n");
            watchers.push((number, after, name.to_owned()));
        }
        if state.is_mute.load(Ordering::Relaxed) {
            continue;
        }
        let changes = shared.changes.lock().unwrap().clone();
        for (number, sent, name) in &mut watchers {
            for (key, value) in &changes[*sent as usize..] {
                *sent += 1;
                if key.starts_with(&*name) {
                    out += &format!("event {number} {sent} {key} {value}\n");
                }
            }
        }
        if stream.write_all(out.as_bytes()).is_err() {
            return;
        }
    }
}

/// Speaks lines.
struct LineSession {
    node: usize,
    shared: Arc<Shared>,
    partial: Vec<u8>,
}

impl Session for LineSession {
    fn open(&mut self, _: &mut Vec<u8>) {}

    fn is_open(&self) -> bool {
        true
    }
}

impl WatchSession for LineSession {
    fn watch(&mut self, request: &WatcherRequest<'_>, out: &mut Vec<u8>) {
        let WatcherRequest { watcher, name, mut after, from, .. } = *request;
        if after == 0 && from == WatchStart::Oldest {
            after = OLDEST;
        }
        let name = String::from_utf8(name.to_vec()).unwrap();
        out.extend_from_slice(format!("{watcher} {after} {name}\n").as_bytes());
    }

    fn receive(
        &mut self,
        input: &[u8],
        _: &mut Vec<u8>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<(), ProtocolError> {
        self.partial.extend_from_slice(input);
        while let Some(end) = self.partial.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            let line = String::from_utf8(line).unwrap();
            let words: Vec<_> = line.split_whitespace().collect();
            let number = |at: usize| words[at].parse::<u64>().unwrap();
            let watcher = || number(1) as u32;
            match words[0] {
                "created" => {
                    on(WatchNews::Created { watcher: watcher(), place: Some(number(2)) });
                }
                "gone" => on(WatchNews::Gone { watcher: watcher(), place: number(2) }),
                "event" => {
                    let (place, value) = (Some(number(2)), from_hexadecimal(words[4]));
                    let (key, value) = (words[3].as_bytes(), Some(&value[..]));
                    on(WatchNews::Event { watcher: watcher(), place, key, value });
                    self.shared.received[self.node].fetch_add(1, Ordering::Relaxed);
                }
                _ => return Err(ProtocolError::new("a line without news")),
            }
        }
        Ok(())
    }
}

fn from_hexadecimal(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}

/// A system of nodes, and the writer of its keys.
struct Bench {
    nodes: Vec<Node>,
    shared: Arc<Shared>,
    keyed: Arc<KeyedState>,
    versions: Arc<SharedVersions>,
    recorder: VersionRecorder,
}

impl Bench {
    fn new(nodes: usize) -> Self {
        let workload = Workload {
            name: "w".to_owned(),
            mix: BTreeMap::from([(Operation::Put, 1)]),
            keys: Keys { count: KEYS.into(), size: 64, order: KeyOrder::Uniform, per_directory: 0 },
            payload: Payload::Values(ValueSizes::Fixed(100)),
            with: BTreeMap::new(),
            reads: ReadConsistency::Default,
            fill: false,
            watchers: None,
            loads: Vec::new(),
            systems: Vec::new(),
        };
        let keyed = Arc::new(KeyedState::new(&workload, 7, StalenessTracking::NotMeasured));
        let shared: Arc<Shared> = Arc::default();
        let versions = Arc::new(SharedVersions::new(KEYS, |_| 0));
        versions.measure_from(clock::now());
        let recorder = VersionRecorder::new(Arc::clone(&versions));
        let nodes = (0..nodes).map(|_| Node::start(&shared)).collect();
        Self { nodes, shared, keyed, versions, recorder }
    }

    fn watch(&self, watchers: Watchers) -> StudyWatchers {
        self.try_to_watch(watchers, &AtomicBool::new(false)).unwrap()
    }

    fn try_to_watch(
        &self,
        watchers: Watchers,
        interrupted: &AtomicBool,
    ) -> Result<StudyWatchers, EngineError> {
        let peer = |node: &Node| Peer { address: Address::Tcp(node.address), tls: None };
        let watches = Watches {
            form: "lines",
            delivery: Delivery::Each,
            guarantees: WatchGuarantee::ALL,
            per_connection_max: u32::MAX,
            previous: false,
            prefix: true,
            oldest: true,
        };
        let shared = Arc::clone(&self.shared);
        let session = move |node| -> Box<dyn WatchSession> {
            Box::new(LineSession { node, shared: Arc::clone(&shared), partial: Vec::new() })
        };
        let (keyed, versions) = (Arc::clone(&self.keyed), Arc::clone(&self.versions));
        StudyWatchers::start(
            self.nodes.iter().map(peer).collect(),
            WatchSettings::for_study(&watchers, &watches),
            VersionObserver::new(keyed, versions, watches, &watchers),
            Box::new(session),
            interrupted,
        )
    }

    /// Writes a key, and sends the event before the acknowledgement.
    fn write(&mut self, key: u32) {
        let due = clock::now();
        let version = self.versions.log(key).newest() + 1;
        self.recorder.begin(key.into(), version, Write::Put);
        let (mut name, mut value) = (Vec::new(), Vec::new());
        self.keyed.space.write_key(key.into(), &mut name);
        let stamp = Stamp { writer: 0, sequence: version.into() };
        self.keyed.values.write_value(key.into(), stamp, &mut value);
        let value = value.iter().map(|byte| format!("{byte:02x}")).collect();
        let change = (String::from_utf8(name).unwrap(), value);
        self.shared.changes.lock().unwrap().push(change);
        self.recorder.end(key.into(), version, WriteOutcome::Acknowledged, false);
        self.recorder.ended(Some((key.into(), version)));
        self.recorder.answered(&OperationTiming { due, sent: due, done: clock::now() });
    }

    fn received(&self, node: usize) -> u64 {
        self.shared.received[node].load(Ordering::Relaxed)
    }
}

fn watchers(count: u32, connections: u32) -> Watchers {
    Watchers { count, of: WatchRange::Prefix, connections, ..Watchers::default() }
}

#[track_caller]
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up = clock::now() + PATIENCE;
    while !holds() {
        assert!(clock::now() < give_up, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Asserts that every acknowledged version came to each of its watchers.
#[track_caller]
fn is_complete(figures: &WatchFigures) {
    let counts = &figures.counts;
    assert!(!figures.has_failed(), "{:?}", counts.examples);
    assert_eq!(counts.delivered, counts.expected);
}

#[test]
fn every_watcher_is_created_on_its_connection() {
    let mut bench = Bench::new(2);
    let party = bench.watch(watchers(10, 3));
    // Connections take watchers and nodes in turn.
    let of = |watchers: &[u32]| watchers.iter().map(|&watcher| (watcher, 0)).collect::<Vec<_>>();
    assert_eq!(bench.nodes[0].requests(), of(&[0, 2, 3, 5, 6, 8, 9]));
    assert_eq!(bench.nodes[1].requests(), of(&[1, 4, 7]));
    bench.write(1);
    let figures = party.figures(&AtomicBool::new(false));
    assert_eq!((figures.watchers, figures.connections), (10, 3));
    assert_eq!((figures.counts.events, figures.counts.resumes), (10, 0));
    is_complete(&figures);
}

#[test]
fn watchers_of_one_key_receive_that_key_alone() {
    let mut bench = Bench::new(1);
    let party = bench.watch(Watchers { of: WatchRange::Key, ..watchers(5, 2) });
    (0..KEYS).for_each(|key| bench.write(key));
    let figures = party.figures(&AtomicBool::new(false));
    assert_eq!((figures.counts.events, figures.counts.expected), (5, 5));
    is_complete(&figures);
}

#[test]
fn each_write_is_timed_to_its_first_and_last_watcher() {
    let mut bench = Bench::new(2);
    let party = bench.watch(watchers(4, 2));
    let began = clock::now();
    for number in 0..20 {
        bench.write(number % KEYS);
    }
    let figures = party.figures(&AtomicBool::new(false));
    let took = clock::now().saturating_duration_since(began);
    is_complete(&figures);
    assert_eq!((figures.counts.expected, figures.timed), (80, 20));
    assert_eq!((figures.first.count(), figures.last.count()), (20, 20));
    assert_eq!((figures.due_to_last.count(), figures.known.count()), (20, 80));
    let max = |latencies: &bakeoff_core::histogram::Latencies| latencies.max().unwrap();
    assert!(max(&figures.first) <= max(&figures.last));
    // A histogram has three digits.
    assert!(max(&figures.last) <= took + took / 500, "{figures:?}");
    assert_eq!(max(&figures.known), max(&figures.last), "the last watcher is one of all");
    assert!(figures.receive_lag.count() > 0 && figures.bytes_received > 0);
}

#[test]
fn old_events_are_judged_and_their_delay_is_not_measured() {
    let mut bench = Bench::new(2);
    bench.versions.measure_later();
    for number in 0..9 {
        bench.write(number % KEYS);
    }
    let party = bench.watch(Watchers { from: WatchStart::Oldest, ..watchers(4, 2) });
    bench.versions.measure_from(clock::now());
    (0..KEYS).for_each(|key| bench.write(key));
    let figures = party.figures(&AtomicBool::new(false));
    is_complete(&figures);
    assert_eq!((figures.counts.events, figures.counts.expected), (48, 48));
    assert_eq!((figures.timed, figures.known.count()), (3, 12), "only of the load");
    let catch_up = figures.catch_up.as_deref().expect("they caught up");
    assert_eq!((catch_up.watchers, catch_up.events), (4, 36));
    assert!(catch_up.is_complete() && catch_up.took.count() == 4, "{catch_up:?}");
    assert!(catch_up.lasted + catch_up.lasted / 100 >= catch_up.took.max().unwrap());
    assert_eq!(figures.load_events(), 12);
}

#[test]
fn watchers_of_unwritten_keys_have_nothing_to_catch_up_with() {
    let mut bench = Bench::new(1);
    bench.write(1);
    let own = Watchers { of: WatchRange::Key, from: WatchStart::Oldest, ..watchers(6, 2) };
    let party = bench.watch(own);
    let figures = party.figures(&AtomicBool::new(false));
    is_complete(&figures);
    let catch_up = figures.catch_up.as_deref().expect("two watchers of key 1 caught up");
    assert_eq!((catch_up.watchers, catch_up.events, catch_up.took.count()), (2, 2, 2));
}

#[test]
fn lost_connection_resumes_after_its_known_place_on_the_next_node() {
    for breaks_protocol in [false, true] {
        let mut bench = Bench::new(2);
        let party = bench.watch(watchers(1, 1));
        bench.write(0);
        bench.write(1);
        wait_for("two events", || bench.received(0) == 2);
        let why = match breaks_protocol {
            true => {
                bench.nodes[0].say(b"nonsense\n");
                "a line without news"
            }
            false => {
                bench.nodes[0].go();
                ""
            }
        };
        wait_for("a resume", || !bench.nodes[1].requests().is_empty());
        assert_eq!(bench.nodes[1].requests(), [(0, 2)]);
        bench.write(2);
        let figures = party.figures(&AtomicBool::new(false));
        assert_eq!((figures.counts.events, figures.counts.resumes), (3, 1));
        is_complete(&figures);
        let [interruption] = &figures.interruptions[..] else { panic!("{figures:?}") };
        assert!(interruption.contains(&bench.nodes[0].address.to_string()), "{interruption}");
        assert!(interruption.contains(why), "{interruption}");
    }
}

#[test]
fn watcher_without_its_history_is_created_after_the_gap() {
    let mut bench = Bench::new(2);
    let party = bench.watch(watchers(1, 1));
    bench.write(0);
    wait_for("an event", || bench.received(0) == 1);
    bench.nodes[0].state.is_mute.store(true, Ordering::Relaxed);
    (0..4).for_each(|_| bench.write(0));
    bench.shared.first.store(4, Ordering::Relaxed);
    bench.nodes[0].go();
    wait_for("two resumes", || bench.nodes[1].requests().len() == 2);
    assert_eq!(bench.nodes[1].requests(), [(0, 1), (0, 3)]);
    let figures = party.figures(&AtomicBool::new(false));
    assert_eq!((figures.counts.histories_gone, figures.counts.gone), (1, 2));
    assert!(!figures.has_failed(), "{:?}", figures.counts.examples);
}

#[test]
fn slow_connection_stops_reading_and_the_others_go_on() {
    let mut bench = Bench::new(2);
    let (every, pause) = (Duration::from_millis(20), Duration::from_secs(3600));
    let slow = SlowReaders { connections: 1, every, pause };
    let party = bench.watch(Watchers { slow: Some(slow), ..watchers(2, 2) });
    wait_for("a slow reader", || {
        bench.write(0);
        bench.received(1) >= bench.received(0) + 20
    });
    let figures = party.figures(&AtomicBool::new(true));
    assert!(figures.counts.delivered < figures.counts.expected);
}

#[test]
fn slow_connection_receives_everything_after_its_pause() {
    let mut bench = Bench::new(1);
    // The thread looks at its timers each 10 ms, so a pause may last that much longer.
    let (every, pause) = (Duration::from_millis(60), Duration::from_millis(20));
    let slow = SlowReaders { connections: 2, every, pause };
    let party = bench.watch(Watchers { slow: Some(slow), ..watchers(3, 2) });
    for number in 0..60 {
        bench.write(number % KEYS);
        std::thread::sleep(Duration::from_millis(2));
    }
    let figures = party.figures(&AtomicBool::new(false));
    assert_eq!(figures.counts.expected, 180);
    is_complete(&figures);
}

#[test]
fn churn_closes_one_connection_after_another_and_loses_nothing() {
    let mut bench = Bench::new(2);
    let churn = Duration::from_millis(20);
    let party = bench.watch(Watchers { churn, ..watchers(4, 2) });
    let mut number = 0;
    wait_for("each watcher on each node", || {
        bench.write(number % KEYS);
        number += 1;
        bench.nodes.iter().all(|node| {
            let requests = node.requests();
            (0..4).all(|watcher| requests.iter().any(|&(resumed, _)| resumed == watcher))
        })
    });
    let figures = party.figures(&AtomicBool::new(false));
    assert!(figures.counts.resumes >= 4, "{figures:?}");
    assert_eq!(figures.counts.delivered, figures.counts.expected);
    is_complete(&figures);
    assert!(figures.interruptions.iter().all(|why| why.ends_with(CLOSED_BY_US)), "{figures:?}");
}

#[test]
fn interruption_ends_the_setup() {
    let bench = Bench::new(1);
    bench.nodes[0].state.is_mute.store(true, Ordering::Relaxed);
    let interrupted = AtomicBool::new(true);
    let is_interrupted = |bench: &Bench| {
        let party = bench.try_to_watch(watchers(3, 1), &interrupted);
        matches!(party, Err(EngineError::Interrupted))
    };
    assert!(is_interrupted(&bench), "the node does not answer");
    bench.nodes[0].go();
    assert!(is_interrupted(&bench), "there is no node");
}
