//! `bakeoff __network PARENT ADDRESS…`: holds a network namespace for each address, forwards between them, takes orders.
//!
//! This process is the router. Each address has a namespace with one link to it, and a route over the router to all
//! others. A cut is a routing rule for the two addresses: the router then drops what it would forward, silently. The
//! rule is asked for each packet, so that open connections feel it like new ones.
//!
//! Nothing here is connected to the machine's own network.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::net::{AddrParseError, IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::process::ExitCode;
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::units::plural;
use bakeoff_disk::answer;
use nix::sched::{CloneFlags, setns, unshare};

use super::links::{CutRule, LOOPBACK, Links};
use super::{CutConnections, CutPath, NetworkOrder, NetworkReply};
use crate::sockets;

/// Name of the internal command.
pub(crate) const COMMAND: &str = "__network";

/// Most addresses: one byte of the router's own addresses numbers them.
const ADDRESSES_MAX: usize = 250;
/// Index of the link in each namespace, and of the first link of the router.
const LINK: u32 = 2;
const FIRST_LINK: u32 = 10;
/// UDP port of the probes in each namespace.
const PROBE_PORT: u16 = 9;
/// Time in which a probe must not arrive over a cut path. It takes some 50 µs over an open one.
const CUT_FOR: Duration = Duration::from_millis(50);
/// Time limit for a probe over an open path, and the interval at which it is sent again.
const OPEN_WITHIN: Duration = Duration::from_secs(2);
const AGAIN_AFTER: Duration = Duration::from_millis(10);
const CHECK_EVERY: Duration = Duration::from_micros(200);

/// Runs the command until its input ends.
pub(crate) fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    match serve(&args.collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            answer(&NetworkReply::Failed(why)).ok();
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &[OsString]) -> Result<(), String> {
    let (parent, addresses) = args.split_first().ok_or("needs a parent and addresses")?;
    let addresses = addresses.iter().map(|word| word.to_str().unwrap_or_default().parse());
    let addresses: Result<Vec<Ipv4Addr>, AddrParseError> = addresses.collect();
    let addresses = addresses.map_err(|error| error.to_string())?;
    bakeoff_disk::isolate(CloneFlags::CLONE_NEWNET)
        .map_err(|error| format!("cannot make a network namespace: {error}"))?;
    bakeoff_disk::end_with(parent)?;
    let mut router = Router::new(&addresses)?;
    let descriptors = router.ends.iter().map(|end| end.namespace.as_raw_fd()).collect();
    answer(&NetworkReply::Ready(descriptors)).map_err(|error| error.to_string())?;
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let done = match serde_json::from_str(&line) {
            Ok(NetworkOrder::Cut { paths, connections }) => router.cut(&paths, connections),
            Ok(NetworkOrder::Heal) => router.heal(),
            Err(error) => Err(format!("no order: {error}")),
        };
        let reply = done.map_or_else(NetworkReply::Failed, NetworkReply::Done);
        answer(&reply).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// A namespace with one address.
struct End {
    address: Ipv4Addr,
    namespace: File,
    /// Sends and receives probes.
    probes: UdpSocket,
}

impl End {
    /// Makes a namespace and links it to the router. `number`: its place among the addresses, from 1.
    fn new(links: &Links, address: Ipv4Addr, number: u8) -> io::Result<Self> {
        let namespace = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        let namespace = namespace.join().map_err(|_| io::Error::other("no thread"))??;
        let (link, gateway) = (FIRST_LINK + u32::from(number), gateway(number));
        links.pair((link, &format!("node{number}")), LINK, namespace.as_fd())?;
        links.address(link, gateway)?;
        links.up(link)?;
        links.neighbour(link, address)?;
        let probes = inside(&namespace, || {
            let links = Links::open()?;
            links.up(LOOPBACK)?;
            links.address(LINK, address)?;
            links.up(LINK)?;
            links.neighbour(LINK, gateway)?;
            links.default_route(LINK, gateway)?;
            let probes = UdpSocket::bind((address, PROBE_PORT))?;
            probes.set_nonblocking(true)?;
            Ok(probes)
        })?;
        Ok(Self { address, namespace, probes })
    }
}

/// Returns the router's address on the link to a namespace. None of them is a node's.
fn gateway(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 19, 255, number)
}

/// Runs something in a namespace, in a thread of its own. Sockets that it opens stay there.
fn inside<T: Send>(namespace: &File, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            act()
        });
        inside.join().unwrap_or_else(|_| Err(io::Error::other("its thread failed")))
    })
}

/// The namespaces, and the cuts between them.
struct Router {
    links: Links,
    ends: Vec<End>,
    rules: Vec<CutRule>,
    /// Number of the last probe, so that a late one is not taken for a new one.
    probed: u32,
}

/// A directed path between two ends, by their places.
type Between = (usize, usize);

impl Router {
    fn new(addresses: &[Ipv4Addr]) -> Result<Self, String> {
        if addresses.len() > ADDRESSES_MAX {
            return Err(format!("a network has at most {ADDRESSES_MAX} addresses"));
        }
        // A reverse-path check would ask the rules of the other direction, and one-way cuts would cut both.
        for (setting, value) in
            [("ip_forward", "1"), ("conf/all/rp_filter", "0"), ("conf/default/rp_filter", "0")]
        {
            let path = format!("/proc/sys/net/ipv4/{setting}");
            fs::write(&path, value).map_err(|error| format!("cannot write `{path}`: {error}"))?;
        }
        let refused = |error: io::Error| format!("cannot make the links of a network: {error}");
        let links = Links::open().map_err(refused)?;
        let ends = addresses
            .iter()
            .zip(1..)
            .map(|(address, number)| End::new(&links, *address, number).map_err(refused));
        let ends = ends.collect::<Result<Vec<_>, String>>()?;
        let mut router = Self { links, ends, rules: Vec::new(), probed: 0 };
        router.prove_open(&router.all())?;
        Ok(router)
    }

    /// Returns all paths.
    fn all(&self) -> Vec<Between> {
        let places = 0..self.ends.len();
        places
            .clone()
            .flat_map(|from| places.clone().map(move |to| (from, to)))
            .filter(|(a, b)| a != b)
            .collect()
    }

    /// Cuts paths, and proves that they are cut and the others are not.
    fn cut(&mut self, paths: &[CutPath], connections: CutConnections) -> Result<String, String> {
        if !self.rules.is_empty() {
            return Err("the network is cut already".to_owned());
        }
        let cut: BTreeSet<Between> = paths
            .iter()
            .map(|&path| self.between(path))
            .collect::<Option<_>>()
            .ok_or("unknown address")?;
        let mut held = Vec::new();
        if connections == CutConnections::Existing {
            for &between in &cut {
                held.push(self.connect(between).map_err(|error| self.failed(between, &error))?);
            }
        }
        for &between in &cut {
            let added = self.add_rules(between, connections);
            if let Err(error) = added {
                let why = self.failed(between, &error);
                self.remove_rules().ok();
                return Err(why);
            }
        }
        let proven = match connections {
            CutConnections::All => self.prove_cut(&cut),
            CutConnections::Existing => self.prove_held(held),
        };
        if proven.is_err() {
            self.remove_rules().ok();
        }
        proven
    }

    fn add_rules(&mut self, between: Between, connections: CutConnections) -> io::Result<()> {
        let path = self.path(between);
        let rules = match connections {
            CutConnections::All => vec![CutRule::all(path)],
            CutConnections::Existing => {
                let open = self.open_connections(between)?;
                open.into_iter().map(|ports| CutRule::connection(path, ports)).collect()
            }
        };
        for rule in rules {
            self.links.add(&rule)?;
            self.rules.push(rule);
        }
        Ok(())
    }

    /// Restores all paths, and proves it.
    fn heal(&mut self) -> Result<String, String> {
        self.remove_rules().map_err(|error| format!("cannot restore the network: {error}"))?;
        let all = self.all();
        self.prove_open(&all)?;
        Ok(format!("{} arrived", plural(all.len() as u64, "probe")))
    }

    fn remove_rules(&mut self) -> io::Result<()> {
        while let Some(rule) = self.rules.last() {
            self.links.remove(rule)?;
            self.rules.pop();
        }
        Ok(())
    }

    fn path(&self, (from, to): Between) -> CutPath {
        (self.ends[from].address, self.ends[to].address)
    }

    fn between(&self, (from, to): CutPath) -> Option<Between> {
        let place = |address| self.ends.iter().position(|end| end.address == address);
        Some((place(from)?, place(to)?))
    }

    fn failed(&self, between: Between, error: &io::Error) -> String {
        let (from, to) = self.path(between);
        format!("cannot cut the path from {from} to {to}: {error}")
    }

    /// Returns the ports of the TCP connections that are open over a path.
    fn open_connections(&self, (from, to): Between) -> io::Result<Vec<(u16, u16)>> {
        let all = inside(&self.ends[from].namespace, || {
            sockets::connections().ok_or_else(|| io::Error::other("the kernel lists no sockets"))
        })?;
        let (from, to) = (IpAddr::V4(self.ends[from].address), IpAddr::V4(self.ends[to].address));
        let over = all.iter().filter(|(here, there)| here.ip() == from && there.ip() == to);
        Ok(over.map(|(here, there)| (here.port(), there.port())).collect())
    }

    /// Proves that probes pass over all paths except these, and over none of these.
    fn prove_cut(&mut self, cut: &BTreeSet<Between>) -> Result<String, String> {
        let open: Vec<Between> =
            self.all().into_iter().filter(|path| !cut.contains(path)).collect();
        self.prove_open(&open)?;
        let cut: Vec<Between> = cut.iter().copied().collect();
        let arrived = self.probe(&cut, CUT_FOR, CUT_FOR).map_err(|error| error.to_string())?;
        if let Some(&between) = arrived.iter().next() {
            let (from, to) = self.path(between);
            return Err(format!("a probe from {from} to {to} passed through the cut"));
        }
        let kept = match open.len() {
            0 => String::new(),
            open => format!(", {} elsewhere did", plural(open as u64, "probe")),
        };
        Ok(format!("{} did not pass{kept}", plural(cut.len() as u64, "probe")))
    }

    /// Proves that probes pass over these paths.
    fn prove_open(&mut self, paths: &[Between]) -> Result<(), String> {
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
        paths: &[Between],
        within: Duration,
        again: Duration,
    ) -> io::Result<BTreeSet<Between>> {
        self.probed += 1;
        let until = clock::now() + within;
        let mut sent = None;
        let mut arrived = BTreeSet::new();
        while arrived.len() < paths.len() && clock::now() < until {
            if sent.is_none_or(|sent| clock::now() >= sent + again) {
                sent = Some(clock::now());
                for &(from, to) in paths.iter().filter(|path| !arrived.contains(*path)) {
                    let words = [self.probed, from as u32, to as u32].map(u32::to_ne_bytes);
                    let target = (self.ends[to].address, PROBE_PORT);
                    self.ends[from].probes.send_to(words.as_flattened(), target)?;
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
    fn connect(&self, between: Between) -> io::Result<Held> {
        let [from, to] = [between.0, between.1].map(|place| &self.ends[place]);
        let listener = inside(&to.namespace, || TcpListener::bind((to.address, 0)))?;
        let target = listener.local_addr()?;
        let sender = inside(&from.namespace, || TcpStream::connect_timeout(&target, OPEN_WITHIN))?;
        let (receiver, _) = listener.accept()?;
        sender.set_nodelay(true)?;
        let mut held = Held { between, sender, receiver };
        match held.passes(OPEN_WITHIN)? {
            true => Ok(held),
            false => Err(io::Error::other("a connection over it carries nothing")),
        }
    }

    /// Proves that open connections carry nothing although probes pass.
    fn prove_held(&mut self, held: Vec<Held>) -> Result<String, String> {
        let (count, mut connections) = (held.len(), held);
        for connection in &mut connections {
            connection.send().map_err(|error| error.to_string())?;
        }
        std::thread::sleep(CUT_FOR);
        for connection in &mut connections {
            if connection.receives(Duration::from_millis(1)).map_err(|error| error.to_string())? {
                let (from, to) = self.path(connection.between);
                return Err(format!(
                    "an open connection from {from} to {to} passed through the cut"
                ));
            }
        }
        let all = self.all();
        self.prove_open(&all)?;
        Ok(format!(
            "{} cut, {} carried nothing, {} passed",
            plural(self.rules.len() as u64, "open connection"),
            plural(count as u64, "probed one"),
            plural(all.len() as u64, "new probe")
        ))
    }
}

/// A connection over a path, for the proof.
struct Held {
    between: Between,
    sender: TcpStream,
    receiver: TcpStream,
}

impl Held {
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

    fn passes(&mut self, within: Duration) -> io::Result<bool> {
        self.send()?;
        self.receives(within)
    }
}
