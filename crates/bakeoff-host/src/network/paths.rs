//! Cuts or delays paths between ends and restores them, and proves it with probes.
//!
//! A probe is a datagram from one end's socket to another's. Each cut path also has a connection that was opened before,
//! and a byte on it must not arrive.
//!
//! Not here: how a path is cut (`namespaces`, `relays`).

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::net::{AddrParseError, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::units::{latency_text, plural};
use bakeoff_disk::answer;
use rustix::net::sockopt::set_socket_linger;

use super::delay::PathDelay;
use super::{CutConnections, CutPath, NetworkOrder, NetworkReply};

/// Time in which a probe must not arrive over a cut path. It takes some 50 µs over an open one.
const CUT_FOR: Duration = Duration::from_millis(50);
/// Time limit for a probe over an open path, and the interval at which it is sent again.
pub(super) const OPEN_WITHIN: Duration = Duration::from_secs(2);
const AGAIN_AFTER: Duration = Duration::from_millis(10);
const CHECK_EVERY: Duration = Duration::from_micros(200);

/// Time by which a probe may be later than its delay.
const LATE_MAX: Duration = Duration::from_millis(500);
/// Probes that are sent over a path that may lose some.
const PROBES_MAX: usize = 10;

/// A directed path between two ends, by their places.
pub(super) type PathEnds = (usize, usize);

/// An address of the network.
pub(super) struct End {
    /// Address by which the others reach it.
    pub(super) address: Ipv4Addr,
    /// Sends and receives its probes.
    pub(super) probes: UdpSocket,
    /// Address at which probes reach that socket.
    pub(super) probed_at: SocketAddr,
}

/// The connections of ends with each other, which can be cut.
pub(super) trait Ways {
    /// Cuts a path. Returns the number of open connections that it cut, if it cuts only those.
    fn cut(&mut self, between: PathEnds, connections: CutConnections) -> io::Result<usize>;

    /// Delays what passes over a path.
    fn delay(&mut self, between: PathEnds, delay: PathDelay) -> io::Result<()>;

    /// Restores all paths.
    fn restore(&mut self) -> io::Result<()>;

    /// Connects one end to another. Returns both sockets, the connecting one first.
    fn connect(&mut self, between: PathEnds) -> io::Result<(TcpStream, TcpStream)>;

    /// Counts the connections of a process and its descendants as those of an end.
    fn admit(&mut self, _end: usize, _process: i32) {}

    /// Lets the others reach ports of an end.
    fn open(&mut self, _end: usize, _ports: &[u16]) -> io::Result<()> {
        Ok(())
    }
}

/// Shortest and longest time of some probes.
struct Times {
    least: Duration,
    most: Duration,
}

/// The paths between all ends.
pub(super) struct Paths<W> {
    ways: W,
    ends: Vec<End>,
    is_cut: bool,
    /// Number of the last probe, so that a late one is not taken for a new one.
    probed: u32,
}

impl<W: Ways> Paths<W> {
    /// Returns the paths between these ends, after a probe over each.
    ///
    /// # Errors
    /// If a probe does not arrive.
    pub(super) fn proven(ways: W, ends: Vec<End>) -> Result<Self, String> {
        let mut paths = Self { ways, ends, is_cut: false, probed: 0 };
        paths.prove_open(&paths.all())?;
        Ok(paths)
    }

    /// Carries out orders from standard input until it ends.
    ///
    /// # Errors
    /// If the answers have no reader.
    pub(super) fn serve(&mut self) -> Result<(), String> {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let done = match serde_json::from_str(&line) {
                Ok(order) => self.obey(order),
                Err(error) => Err(format!("no order: {error}")),
            };
            let reply = done.map_or_else(NetworkReply::Failed, NetworkReply::Done);
            answer(&reply).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn obey(&mut self, order: NetworkOrder) -> Result<String, String> {
        match order {
            NetworkOrder::Cut { paths, connections } => self.cut(&paths, connections),
            NetworkOrder::Delay { paths, delay } => self.delay(&paths, delay),
            NetworkOrder::Heal => self.heal(),
            NetworkOrder::Admit { address, process } => {
                let end = self.end(address).ok_or(UNKNOWN)?;
                self.ways.admit(end, process);
                Ok(String::new())
            }
            NetworkOrder::Open { address, ports } => {
                let end = self.end(address).ok_or(UNKNOWN)?;
                let opened = self.ways.open(end, &ports);
                let failed = |error| format!("cannot relay to {address}: {error}");
                opened.map(|()| String::new()).map_err(failed)
            }
        }
    }

    fn end(&self, address: Ipv4Addr) -> Option<usize> {
        self.ends.iter().position(|end| end.address == address)
    }

    /// Returns all paths.
    fn all(&self) -> Vec<PathEnds> {
        let places = 0..self.ends.len();
        places
            .clone()
            .flat_map(|from| places.clone().map(move |to| (from, to)))
            .filter(|(a, b)| a != b)
            .collect()
    }

    /// Returns paths by the places of their ends, if all paths are whole.
    fn whole(&self, paths: &[CutPath]) -> Result<BTreeSet<PathEnds>, String> {
        if self.is_cut {
            return Err("the network is cut already".to_owned());
        }
        let between = |&(from, to): &CutPath| Some((self.end(from)?, self.end(to)?));
        Ok(paths.iter().map(between).collect::<Option<_>>().ok_or(UNKNOWN)?)
    }

    /// Restores all paths if a change of them was not proven.
    fn restore_unless(&mut self, proven: Result<String, String>) -> Result<String, String> {
        proven.inspect_err(|_| drop(self.restore()))
    }

    /// Delays paths, and proves that probes take as long over them, and less over the others.
    fn delay(&mut self, paths: &[CutPath], delay: PathDelay) -> Result<String, String> {
        let delayed = self.whole(paths)?;
        let before = self.times(&delayed, OPEN_WITHIN)?;
        self.is_cut = true;
        let proven = self.delay_and_prove(&delayed, delay, before);
        self.restore_unless(proven)
    }

    fn delay_and_prove(
        &mut self,
        delayed: &BTreeSet<PathEnds>,
        delay: PathDelay,
        before: Times,
    ) -> Result<String, String> {
        for &between in delayed {
            let done = self.ways.delay(between, delay);
            done.map_err(|error| self.failed(between, &error))?;
        }
        let after = self.times(delayed, delay.by + delay.jitter + LATE_MAX)?;
        let text = |time| latency_text(time);
        if after.least < delay.least() {
            return Err(format!("a probe over a delayed path took only {}", text(after.least)));
        }
        let others = self.all().into_iter().filter(|path| !delayed.contains(path)).collect();
        let others = match self.times(&others, OPEN_WITHIN)? {
            Times { least: Duration::MAX, .. } => String::new(),
            times => format!(", {} to {} elsewhere", text(times.least), text(times.most)),
        };
        Ok(format!(
            "probes took {} to {}, and {} to {} before{others}",
            text(after.least),
            text(after.most),
            text(before.least),
            text(before.most)
        ))
    }

    /// Measures how long a probe takes over each of these paths. One that does not arrive within `within` is sent again.
    fn times(&mut self, paths: &BTreeSet<PathEnds>, within: Duration) -> Result<Times, String> {
        let mut times = Times { least: Duration::MAX, most: Duration::ZERO };
        for &between in paths {
            let mut took = None;
            for _ in 0..PROBES_MAX {
                let began = clock::now();
                let arrived = self.probe(&[between], within, within);
                if !arrived.map_err(|error| error.to_string())?.is_empty() {
                    took = Some(clock::now() - began);
                    break;
                }
            }
            let (from, to) = self.path(between);
            let took = took.ok_or_else(|| format!("no probe from {from} to {to} arrived"))?;
            times = Times { least: times.least.min(took), most: times.most.max(took) };
        }
        Ok(times)
    }

    /// Cuts paths, and proves that they are cut and the others are not.
    fn cut(&mut self, paths: &[CutPath], connections: CutConnections) -> Result<String, String> {
        let cut = self.whole(paths)?;
        let mut held = Vec::new();
        for &between in &cut {
            held.push(self.connect(between).map_err(|error| self.failed(between, &error))?);
        }
        self.is_cut = true;
        let proven = self.cut_and_prove(&cut, held, connections);
        self.restore_unless(proven)
    }

    fn cut_and_prove(
        &mut self,
        cut: &BTreeSet<PathEnds>,
        held: Vec<ProbeConnection>,
        connections: CutConnections,
    ) -> Result<String, String> {
        let mut open = 0;
        for &between in cut {
            let done = self.ways.cut(between, connections);
            open += done.map_err(|error| self.failed(between, &error))?;
        }
        let bytes = held.len() as u64;
        let all = self.all();
        match connections {
            CutConnections::All => {
                let others: Vec<PathEnds> =
                    all.into_iter().filter(|path| !cut.contains(path)).collect();
                self.prove_open(&others)?;
                self.prove_cut(cut)?;
                self.prove_held(held)?;
                let others = match others.len() {
                    0 => String::new(),
                    others => format!(", {} elsewhere did", plural(others as u64, "probe")),
                };
                let probes = plural(cut.len() as u64, "probe");
                let on = plural(bytes, "open connection");
                Ok(format!("{probes} and a byte on {on} did not pass{others}"))
            }
            CutConnections::Existing => {
                self.prove_held(held)?;
                self.prove_open(&all)?;
                let (open, new) =
                    (plural(open as u64, "open connection"), plural(all.len() as u64, "new probe"));
                Ok(format!("{open} cut, a byte on {bytes} of them did not pass, {new} did"))
            }
        }
    }

    /// Restores all paths, and proves it.
    fn heal(&mut self) -> Result<String, String> {
        self.restore().map_err(|error| format!("cannot restore the network: {error}"))?;
        let all = self.all();
        self.prove_open(&all)?;
        Ok(format!("{} arrived", plural(all.len() as u64, "probe")))
    }

    fn restore(&mut self) -> io::Result<()> {
        self.ways.restore()?;
        self.is_cut = false;
        Ok(())
    }

    fn path(&self, (from, to): PathEnds) -> CutPath {
        (self.ends[from].address, self.ends[to].address)
    }

    fn failed(&self, between: PathEnds, error: &io::Error) -> String {
        let (from, to) = self.path(between);
        format!("cannot change the path from {from} to {to}: {error}")
    }

    /// Proves that no probe passes over these paths.
    fn prove_cut(&mut self, cut: &BTreeSet<PathEnds>) -> Result<(), String> {
        let cut: Vec<PathEnds> = cut.iter().copied().collect();
        let arrived = self.probe(&cut, CUT_FOR, CUT_FOR).map_err(|error| error.to_string())?;
        arrived.iter().next().map_or(Ok(()), |&between| {
            let (from, to) = self.path(between);
            Err(format!("a probe from {from} to {to} passed through the cut"))
        })
    }

    /// Proves that probes pass over these paths.
    fn prove_open(&mut self, paths: &[PathEnds]) -> Result<(), String> {
        let arrived =
            self.probe(paths, OPEN_WITHIN, AGAIN_AFTER).map_err(|error| error.to_string())?;
        let lost = paths.iter().find(|path| !arrived.contains(path));
        lost.map_or(Ok(()), |&between| {
            let (from, to) = self.path(between);
            Err(format!("no probe from {from} to {to} arrived within {OPEN_WITHIN:?}"))
        })
    }

    /// Sends a probe over each path, again after `again` until it arrives, and returns the paths over which one arrived
    /// in time.
    fn probe(
        &mut self,
        paths: &[PathEnds],
        within: Duration,
        again: Duration,
    ) -> io::Result<BTreeSet<PathEnds>> {
        self.probed += 1;
        let until = clock::now() + within;
        let mut sent = None;
        let mut arrived = BTreeSet::new();
        while arrived.len() < paths.len() && clock::now() < until {
            if sent.is_none_or(|sent| clock::now() >= sent + again) {
                sent = Some(clock::now());
                for &(from, to) in paths.iter().filter(|path| !arrived.contains(*path)) {
                    let words = [self.probed, from as u32, to as u32].map(u32::to_ne_bytes);
                    let target = self.ends[to].probed_at;
                    match self.ends[from].probes.send_to(words.as_flattened(), target) {
                        // The kernel still holds earlier probes, as on a busy machine. The next one follows soon.
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        sent => drop(sent?),
                    }
                }
            }
            std::thread::sleep(CHECK_EVERY);
            for (to, end) in self.ends.iter().enumerate() {
                let mut words = [0; 12];
                while let Ok(12) = end.probes.recv(&mut words) {
                    let word =
                        |at: usize| words[at..at + 4].try_into().map_or(0, u32::from_ne_bytes);
                    if word(0) == self.probed && word(8) as usize == to {
                        arrived.insert((word(4) as usize, to));
                    }
                }
            }
        }
        Ok(arrived)
    }

    /// Opens a connection over a path, and proves that a byte passes.
    fn connect(&mut self, between: PathEnds) -> io::Result<ProbeConnection> {
        let (sender, receiver) = self.ways.connect(between)?;
        sender.set_nodelay(true)?;
        // Their ends must not outlive them, or a later cut would count them as open.
        for end in [&sender, &receiver] {
            set_socket_linger(end, Some(Duration::ZERO))?;
        }
        let mut held = ProbeConnection { between, sender, receiver };
        held.send()?;
        match held.receives(OPEN_WITHIN)? {
            true => Ok(held),
            false => Err(io::Error::other("a connection over it carries nothing")),
        }
    }

    /// Proves that open connections carry nothing.
    fn prove_held(&self, mut held: Vec<ProbeConnection>) -> Result<(), String> {
        for connection in &mut held {
            connection.send().map_err(|error| error.to_string())?;
        }
        std::thread::sleep(CUT_FOR);
        for connection in &mut held {
            if connection.receives(Duration::from_millis(1)).map_err(|error| error.to_string())? {
                let (from, to) = self.path(connection.between);
                return Err(format!(
                    "an open connection from {from} to {to} passed through the cut"
                ));
            }
        }
        Ok(())
    }
}

/// A connection over a path, for the proof.
struct ProbeConnection {
    between: PathEnds,
    sender: TcpStream,
    receiver: TcpStream,
}

impl ProbeConnection {
    fn send(&mut self) -> io::Result<()> {
        self.sender.write_all(&[1])
    }

    fn receives(&mut self, within: Duration) -> io::Result<bool> {
        self.receiver.set_read_timeout(Some(within))?;
        match self.receiver.read(&mut [0]) {
            Ok(read) => Ok(read == 1),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Answer to an order about an address that no end has.
const UNKNOWN: &str = "unknown address";

/// Runs an internal command whose arguments are a parent process and addresses, and answers a failure.
pub(super) fn run(
    args: impl Iterator<Item = OsString>,
    serve: impl FnOnce(&OsStr, Vec<Ipv4Addr>) -> Result<(), String>,
) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let (parent, addresses) = match args.split_first() {
        Some((parent, addresses)) => (parent.as_os_str(), addresses),
        None => (OsStr::new(""), &[][..]),
    };
    let addresses = addresses.iter().map(|word| word.to_str().unwrap_or_default().parse());
    let addresses: Result<Vec<Ipv4Addr>, AddrParseError> = addresses.collect();
    let served =
        addresses.map_err(|error| error.to_string()).and_then(|addresses| serve(parent, addresses));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            answer(&NetworkReply::Failed(why)).ok();
            ExitCode::FAILURE
        }
    }
}
