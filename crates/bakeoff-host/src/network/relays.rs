//! `bakeoff __relays PARENT ADDRESS LISTENS…`: relays connections and datagrams between nodes that share this machine's
//! network.
//!
//! Each node announces one loopback address and listens on another. This process accepts what arrives at the first and
//! passes it on to the second. So it can hold bytes back. A cut path carries none, and no connection is reset.
//!
//! A sender is known by its address if that is one that a node listens on. Otherwise the kernel knows the socket's inode,
//! and a process of the node holds it. What no node's process holds belongs to no end, and is never cut.
//!
//! A delayed path holds bytes back, and loses none of a connection.
//!
//! A relay is not a network. The kernel accepts a new connection before the relay knows its sender, so a cut lets
//! connections open that then carry nothing. Both kernels acknowledge bytes that the relay holds.
//!
//! Not here: the proof of a cut (`paths`).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::net::{
    IpAddr, Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket,
};
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_disk::answer;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with};
use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::time::Timespec;

use super::delay::{DelayClock, DelayLine, PathDelay};
use super::paths::{self, End, OPEN_WITHIN, PathEnds, Paths, Ways};
use super::{CutConnections, NetworkReply};
use crate::procfs;
use crate::sockets::{self, SocketOwner};

/// Name of the internal command.
pub(crate) const COMMAND: &str = "__relays";

/// Bytes per read. A datagram is at most this long.
const PIECE: usize = 64 << 10;
/// Stack bytes of a thread, which hold a piece.
const STACK: usize = 256 << 10;
/// Connections that wait to be accepted, at most.
const WAITING_MAX: i32 = 4096;
/// Pieces of a connection that wait for their delay, at most. Then its sender waits.
const HELD_MAX: usize = 64;
/// Pause after a failed `accept`, mostly for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs the command until its input ends.
pub(crate) fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    paths::run(args, |parent, addresses| {
        bakeoff_disk::end_with(parent)?;
        let mut files = getrlimit(Resource::Nofile);
        files.current = files.maximum;
        setrlimit(Resource::Nofile, files).ok();
        let refused = |error: io::Error| format!("cannot relay: {error}");
        let (relays, ends) = Relays::new(&addresses).map_err(refused)?;
        let mut paths = Paths::proven(relays, ends)?;
        answer(&NetworkReply::Ready(Vec::new())).map_err(|error| error.to_string())?;
        paths.serve()
    })
}

/// A datagram, the socket that passes it on, and its receiver.
type Datagram = (Arc<UdpSocket>, Vec<u8>, SocketAddrV4);

/// A node's two addresses.
#[derive(Debug, Clone, Copy)]
struct RelayedEnd {
    address: Ipv4Addr,
    listens: Ipv4Addr,
}

/// Relays for all ends.
struct Relays(Arc<RelayHub>);

struct RelayHub {
    ends: Vec<RelayedEnd>,
    state: Mutex<State>,
    /// Changes of the cut paths.
    changed: Condvar,
    members: Mutex<Members>,
}

#[derive(Default)]
struct State {
    cut: BTreeSet<PathEnds>,
    /// Delayed paths, with the queues of their datagrams.
    delayed: BTreeMap<PathEnds, (PathDelay, DelayLine<Datagram>)>,
    /// Connections that a cut holds.
    connections: CutConnections,
    /// Number of the next connection, and that of the first one after the cut.
    next: u64,
    after_cut: u64,
    /// Ends of the open connections, by number.
    open: BTreeMap<u64, PathEnds>,
    /// Sockets for datagrams, by announced address. Each open port has one.
    datagrams: HashMap<SocketAddrV4, Arc<UdpSocket>>,
}

impl State {
    /// Returns true if a path carries the bytes of a connection.
    fn carries(&self, between: PathEnds, connection: u64) -> bool {
        let feels = self.connections == CutConnections::All || connection < self.after_cut;
        !feels || !self.cut.contains(&between)
    }

    /// Returns true if new connections from some end to this one are cut.
    fn cuts_off(&self, end: usize) -> bool {
        self.connections == CutConnections::All && self.cut.iter().any(|&(_, to)| to == end)
    }
}

/// Processes of the ends.
#[derive(Default)]
struct Members {
    /// First process of each end, which leads a process group.
    first: Vec<(usize, i32)>,
    /// All processes as last seen.
    all: Vec<(usize, i32)>,
}

impl Members {
    /// Returns the end whose processes hold a socket.
    fn holder(&mut self, inode: u32) -> Option<usize> {
        let holds = |&&(_, pid): &&(usize, i32)| procfs::sockets(pid).contains(&inode);
        if let Some((end, _)) = self.all.iter().find(holds) {
            return Some(*end);
        }
        let family = |&(end, first): &(usize, i32)| {
            procfs::family(first).into_iter().map(move |stat| (end, stat.pid))
        };
        self.all = self.first.iter().flat_map(family).collect();
        self.all.iter().find(holds).map(|(end, _)| *end)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn(what: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().stack_size(STACK).spawn(what).map(drop)
}

impl Relays {
    /// Makes relays between ends. `addresses`: the announced address of each, and the one that it listens on.
    fn new(addresses: &[Ipv4Addr]) -> io::Result<(Self, Vec<End>)> {
        let (pairs, _) = addresses.as_chunks::<2>();
        let relayed = pairs.iter().map(|&[address, listens]| RelayedEnd { address, listens });
        let mut relays = Self(Arc::new(RelayHub {
            ends: relayed.collect(),
            state: Mutex::default(),
            changed: Condvar::new(),
            members: Mutex::default(),
        }));
        let mut ends = Vec::new();
        for (place, &[address, listens]) in pairs.iter().enumerate() {
            let probes = UdpSocket::bind((listens, 0))?;
            probes.set_nonblocking(true)?;
            let port = probes.local_addr()?.port();
            relays.open(place, &[port])?;
            ends.push(End { address, probes, probed_at: (address, port).into() });
        }
        Ok((relays, ends))
    }
}

impl Ways for Relays {
    fn cut(&mut self, between: PathEnds, connections: CutConnections) -> io::Result<usize> {
        let mut state = lock(&self.0.state);
        if state.cut.is_empty() {
            (state.connections, state.after_cut) = (connections, state.next);
        }
        state.cut.insert(between);
        let (from, to) = between;
        let over = |ends: &&PathEnds| **ends == (from, to) || **ends == (to, from);
        Ok(state.open.values().filter(over).count())
    }

    fn delay(&mut self, between: PathEnds, delay: PathDelay) -> io::Result<()> {
        let clock = DelayClock::new(delay, between.0 as u64);
        let datagrams = DelayLine::start(clock, |(through, bytes, to): Datagram| {
            let _ = through.send_to(&bytes, to);
        })?;
        lock(&self.0.state).delayed.insert(between, (delay, datagrams));
        Ok(())
    }

    fn restore(&mut self) -> io::Result<()> {
        let mut state = lock(&self.0.state);
        state.cut.clear();
        state.delayed.clear();
        drop(state);
        self.0.changed.notify_all();
        Ok(())
    }

    fn connect(&mut self, (from, to): PathEnds) -> io::Result<(TcpStream, TcpStream)> {
        let [from, target] = [from, to].map(|place| self.0.ends[place]);
        let listener = TcpListener::bind((target.listens, 0))?;
        let port = listener.local_addr()?.port();
        self.open(to, &[port])?;
        let sender =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        bind(&sender, &SocketAddrV4::new(from.listens, 0))?;
        connect(&sender, &SocketAddrV4::new(target.address, port))?;
        Ok((sender.into(), listener.accept()?.0))
    }

    fn admit(&mut self, end: usize, process: i32) {
        lock(&self.0.members).first.push((end, process));
    }

    fn open(&mut self, end: usize, ports: &[u16]) -> io::Result<()> {
        let address = self.0.ends[end].address;
        for &port in ports {
            let at = SocketAddrV4::new(address, port);
            // A node that starts again has the same ports.
            if lock(&self.0.state).datagrams.contains_key(&at) {
                continue;
            }
            let listener = TcpListener::bind(at)?;
            listen(&listener, WAITING_MAX)?;
            let datagrams = Arc::new(UdpSocket::bind(at)?);
            lock(&self.0.state).datagrams.insert(at, Arc::clone(&datagrams));
            let (shared, to) = (Arc::clone(&self.0), (end, port));
            spawn(move || shared.accept(&listener, to))?;
            let shared = Arc::clone(&self.0);
            spawn(move || shared.pass_datagrams(&datagrams, to))?;
        }
        Ok(())
    }
}

/// Who opened a connection.
enum Sender {
    /// An end.
    End(usize),
    /// A process of no end.
    Stranger,
    /// A process that has closed it already.
    Gone,
}

/// An end and a port of it.
type Port = (usize, u16);

impl RelayHub {
    /// Relays each connection to a port.
    fn accept(self: Arc<Self>, listener: &TcpListener, to: Port) {
        loop {
            let Ok((client, peer)) = listener.accept() else {
                std::thread::sleep(PAUSE);
                continue;
            };
            let shared = Arc::clone(&self);
            // If this fails, the client finds its connection closed.
            let _ = spawn(move || drop(shared.relay(&client, peer, to)));
        }
    }

    /// Relays one connection until both sides have ended.
    fn relay(&self, client: &TcpStream, peer: SocketAddr, (end, port): Port) -> io::Result<()> {
        let path = match self.sender((peer, client.local_addr()?)) {
            Sender::End(from) => Some((from, end)),
            Sender::Stranger => None,
            Sender::Gone if lock(&self.state).cuts_off(end) => return Ok(()),
            Sender::Gone => None,
        };
        let number = {
            let mut state = lock(&self.state);
            let number = state.next;
            state.next += 1;
            state.open.extend(path.map(|path| (number, path)));
            number
        };
        let carried = self.carry(client, (self.ends[end].listens, port).into(), number, path);
        lock(&self.state).open.remove(&number);
        carried
    }

    /// Connects to a node, and passes bytes on in both directions.
    fn carry(
        &self,
        client: &TcpStream,
        node: SocketAddr,
        number: u64,
        path: Option<PathEnds>,
    ) -> io::Result<()> {
        let back = path.map(|(from, to)| (to, from));
        // A handshake needs both directions.
        if (self.wait(number, path) | self.wait(number, back)) && has_hung_up(client) {
            return Ok(());
        }
        if let Some(delay) = self.delay_of(path) {
            std::thread::sleep(delay.by);
        }
        let server =
            TcpStream::connect_timeout(&node, OPEN_WITHIN).inspect_err(|_| reset(client))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK);
            thread.spawn_scoped(scope, || self.pump(client, &server, number, path))?;
            self.pump(&server, client, number, back);
            Ok(())
        })
    }

    /// Passes bytes on in one direction until it ends.
    fn pump(&self, from: &TcpStream, to: &TcpStream, number: u64, path: Option<PathEnds>) {
        let mut buffer = [0; PIECE];
        let mut held = HeldBytes::default();
        loop {
            let (mut reader, mut writer) = (from, to);
            if !held.pass_due(from, to) {
                continue;
            }
            let read = reader.read(&mut buffer);
            self.wait(number, path);
            if let Ok(count) = read
                && let Some(leaves_at) = held.leaves_at(self.delay_of(path), number)
            {
                held.waiting.push_back((leaves_at, buffer[..count].to_vec()));
                if count > 0 {
                    continue;
                }
                held.pass_all(to);
            }
            match read {
                Ok(0) => {
                    let _ = to.shutdown(Shutdown::Write);
                    return;
                }
                Ok(count) if writer.write_all(&buffer[..count]).is_ok() => {}
                // One side was reset, so the other is, too.
                _ => {
                    reset(from);
                    reset(to);
                    return;
                }
            }
        }
    }

    /// Returns the delay of a path; `None` without one.
    fn delay_of(&self, path: Option<PathEnds>) -> Option<PathDelay> {
        let state = lock(&self.state);
        path.and_then(|path| state.delayed.get(&path)).map(|(delay, _)| *delay)
    }

    /// Waits until a path carries a connection's bytes. Returns true if it did not at first.
    fn wait(&self, number: u64, path: Option<PathEnds>) -> bool {
        let Some(path) = path else { return false };
        let mut state = lock(&self.state);
        let mut waited = false;
        while !state.carries(path, number) {
            waited = true;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        waited
    }

    /// Passes on the datagrams that a port gets, from the announced address of their sender.
    fn pass_datagrams(&self, socket: &Arc<UdpSocket>, (end, port): Port) {
        let mut buffer = [0; PIECE];
        loop {
            let Ok((count, from)) = socket.recv_from(&mut buffer) else {
                std::thread::sleep(PAUSE);
                continue;
            };
            let sender = self.listening_at(from.ip());
            let mut state = lock(&self.state);
            let own = sender.and_then(|sender| {
                let announced = SocketAddrV4::new(self.ends[sender].address, from.port());
                state.datagrams.get(&announced).cloned()
            });
            // A cut of open connections drops no datagram.
            let passes = sender.is_none_or(|sender| state.carries((sender, end), u64::MAX));
            let target = SocketAddrV4::new(self.ends[end].listens, port);
            let through = own.as_ref().unwrap_or(socket);
            let line = sender.and_then(|sender| state.delayed.get_mut(&(sender, end)));
            match line {
                _ if !passes => {}
                Some((_, line)) => line.push((through.clone(), buffer[..count].to_vec(), target)),
                None => {
                    drop(state);
                    let _ = through.send_to(&buffer[..count], target);
                }
            }
        }
    }

    /// Returns who opened a connection between the sender's own address and a relay's.
    fn sender(&self, (peer, relay): (SocketAddr, SocketAddr)) -> Sender {
        if let Some(end) = self.listening_at(peer.ip()) {
            return Sender::End(end);
        }
        match sockets::socket_owner(peer, relay) {
            None | Some(SocketOwner { inode: 0, .. }) => Sender::Gone,
            Some(SocketOwner { inode, .. }) => {
                lock(&self.members).holder(inode).map_or(Sender::Stranger, Sender::End)
            }
        }
    }

    fn listening_at(&self, address: IpAddr) -> Option<usize> {
        self.ends.iter().position(|end| address == end.listens)
    }
}

/// Bytes of a connection that wait for their delay, in order.
#[derive(Default)]
struct HeldBytes {
    waiting: VecDeque<(Instant, Vec<u8>)>,
    clock: Option<DelayClock>,
}

impl HeldBytes {
    /// Returns when bytes that were read now leave; `None` if they leave at once. Bytes leave in order, even if the delay
    /// ends meanwhile.
    fn leaves_at(&mut self, delay: Option<PathDelay>, seed: u64) -> Option<Instant> {
        let Some(delay) = delay else {
            self.clock = None;
            return self.waiting.back().map(|(leaves_at, _)| *leaves_at);
        };
        // A connection loses nothing.
        let whole = PathDelay { loss: 0.0, ..delay };
        self.clock.get_or_insert_with(|| DelayClock::new(whole, seed)).leaves_at()
    }

    /// Passes on what is due. Returns true once there is more to read, or nothing waits.
    fn pass_due(&mut self, from: &TcpStream, to: &TcpStream) -> bool {
        let Some((leaves_at, _)) = self.waiting.front() else { return true };
        let left = leaves_at.saturating_duration_since(clock::now());
        if left.is_zero() {
            self.pass_first(to);
            return false;
        }
        if self.waiting.len() >= HELD_MAX {
            std::thread::sleep(left);
            return false;
        }
        let left = Timespec::try_from(left).ok();
        let mut asked = [PollFd::new(from, PollFlags::IN)];
        poll(&mut asked, left.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// Passes on everything, each piece when it is due.
    fn pass_all(&mut self, to: &TcpStream) {
        while let Some((leaves_at, _)) = self.waiting.front() {
            std::thread::sleep(leaves_at.saturating_duration_since(clock::now()));
            self.pass_first(to);
        }
    }

    fn pass_first(&mut self, mut to: &TcpStream) {
        if let Some((_, bytes)) = self.waiting.pop_front() {
            // The reader meets a broken connection, too.
            let _ = to.write_all(&bytes);
        }
    }
}

/// Makes the end of a connection a reset, and wakes its reader.
fn reset(stream: &TcpStream) {
    let _ = set_socket_linger(stream, Some(Duration::ZERO));
    let _ = stream.shutdown(Shutdown::Read);
}

/// Returns true if the other side has closed a connection or was reset.
fn has_hung_up(stream: &TcpStream) -> bool {
    let mut asked = [PollFd::new(stream, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&now)).is_ok()
        && asked[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
}
