//! `bakeoff __network PARENT ADDRESS…`: holds a network namespace for each address and forwards between them.
//!
//! This process is the router. Each address has a namespace with one link to it, and a route over the router to all
//! others. A cut is a routing rule for the two addresses: the router then drops what it would forward, silently. The
//! rule is asked for each packet, so that open connections feel it like new ones. A delay is a rule as well, which sends
//! the packets through a forwarder.
//!
//! Nothing here is connected to the machine's own network.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::process::ExitCode;

use bakeoff_disk::answer;
use nix::sched::{CloneFlags, setns, unshare};

use super::delay::PathDelay;
use super::forwarder::{DEVICE, Forwarder};
use super::links::{LOOPBACK, Links, PathRule};
use super::paths::{self, End, OPEN_WITHIN, PathEnds, Paths, Ways};
use super::{CutConnections, NetworkReply};
use crate::sockets;

/// Name of the internal command.
pub(crate) const COMMAND: &str = "__network";

/// Most addresses: one byte of the router's own addresses numbers them.
const ADDRESSES_MAX: usize = 250;
/// Index of the link in each namespace, and of the first link of the router.
const LINK: u32 = 2;
const FIRST_LINK: u32 = 10;
/// Packets that wait for the forwarder, at most.
const WAITING_MAX: u32 = 10_000;
/// UDP port of the probes in each namespace.
const PROBE_PORT: u16 = 9;

/// Runs the command until its input ends.
pub(crate) fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    paths::run(args, |parent, addresses| {
        bakeoff_disk::isolate(CloneFlags::CLONE_NEWNET)
            .map_err(|error| format!("cannot make a network namespace: {error}"))?;
        bakeoff_disk::end_with(parent)?;
        let (router, ends) = Router::new(&addresses)?;
        let descriptors = router.namespaces.iter().map(|(_, file)| file.as_raw_fd()).collect();
        let mut paths = Paths::proven(router, ends)?;
        answer(&NetworkReply::Ready(descriptors)).map_err(|error| error.to_string())?;
        paths.serve()
    })
}

/// Makes a namespace with one address and links it to the router. `number`: its place among the addresses, from 1.
fn namespace(links: &Links, address: Ipv4Addr, number: u8) -> io::Result<(File, End)> {
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
    let probed_at = probes.local_addr()?;
    Ok((namespace, End { address, probes, probed_at }))
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
    /// Namespaces with their addresses.
    namespaces: Vec<(Ipv4Addr, File)>,
    rules: Vec<PathRule>,
    /// Holds packets back, once a path was delayed.
    forwarder: Option<Forwarder>,
}

impl Router {
    fn new(addresses: &[Ipv4Addr]) -> Result<(Self, Vec<End>), String> {
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
        let (mut namespaces, mut ends) = (Vec::new(), Vec::new());
        for (&address, number) in addresses.iter().zip(1..) {
            let (file, end) = namespace(&links, address, number).map_err(refused)?;
            namespaces.push((address, file));
            ends.push(end);
        }
        Ok((Self { links, namespaces, rules: Vec::new(), forwarder: None }, ends))
    }

    /// Adds a rule until the paths are restored.
    fn add(&mut self, rule: PathRule) -> io::Result<()> {
        self.links.add(&rule)?;
        self.rules.push(rule);
        Ok(())
    }

    /// Returns the ports of the TCP connections that are open over a path.
    fn open_connections(&self, (from, to): PathEnds) -> io::Result<Vec<(u16, u16)>> {
        let ((from, inside_from), (to, _)) = (&self.namespaces[from], &self.namespaces[to]);
        let all = inside(inside_from, || {
            sockets::connections().ok_or_else(|| io::Error::other("the kernel lists no sockets"))
        })?;
        let (from, to) = (IpAddr::V4(*from), IpAddr::V4(*to));
        let over = all.iter().filter(|(here, there)| here.ip() == from && there.ip() == to);
        Ok(over.map(|(here, there)| (here.port(), there.port())).collect())
    }
}

impl Ways for Router {
    fn cut(&mut self, between: PathEnds, connections: CutConnections) -> io::Result<usize> {
        let path = (self.namespaces[between.0].0, self.namespaces[between.1].0);
        let rules = match connections {
            CutConnections::All => vec![PathRule::all(path)],
            CutConnections::Existing => {
                let open = self.open_connections(between)?;
                open.into_iter().map(|ports| PathRule::connection(path, ports)).collect()
            }
        };
        let count = rules.len();
        rules.into_iter().try_for_each(|rule| self.add(rule))?;
        Ok(count)
    }

    fn delay(&mut self, between: PathEnds, delay: PathDelay) -> io::Result<()> {
        if self.forwarder.is_none() {
            let forwarder = Forwarder::open()?;
            self.links.delays((forwarder.index()?, DEVICE), WAITING_MAX)?;
            self.forwarder = Some(forwarder);
        }
        let path = (self.namespaces[between.0].0, self.namespaces[between.1].0);
        if let Some(forwarder) = &self.forwarder {
            forwarder.delay(path, delay, (between.0 * ADDRESSES_MAX + between.1) as u64)?;
        }
        self.add(PathRule::delayed(path))
    }

    fn restore(&mut self) -> io::Result<()> {
        while let Some(rule) = self.rules.last() {
            self.links.remove(rule)?;
            self.rules.pop();
        }
        self.forwarder.iter().for_each(Forwarder::clear);
        Ok(())
    }

    fn connect(&mut self, (from, to): PathEnds) -> io::Result<(TcpStream, TcpStream)> {
        let ((_, from), (address, to)) = (&self.namespaces[from], &self.namespaces[to]);
        let listener = inside(to, || TcpListener::bind((*address, 0)))?;
        let target = listener.local_addr()?;
        let sender = inside(from, || TcpStream::connect_timeout(&target, OPEN_WITHIN))?;
        Ok((sender, listener.accept()?.0))
    }
}
