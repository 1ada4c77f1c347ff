//! Counts the TCP bytes that nodes sent and received, from the kernel's counters of each socket.
//!
//! The kernel lists its sockets over `NETLINK_SOCK_DIAG` (`sock_diag(7)`), each with a `tcp_info` that holds
//! `tcpi_bytes_acked` and `tcpi_bytes_received`. A socket belongs to the node that owns its local port. Any other
//! socket belongs to the process that holds its inode, which is looked up once per socket. A thousand open connections
//! therefore cost one dump per sample. The kernel walks its whole table, about 3 ms on a machine of 24 GiB, so IPv4 and
//! IPv6 are requested together.
//!
//! Bytes that a connection moved between its last sample and its end are lost, as are connections that begin and end
//! between two samples. Counts are too low, never too high. Both ends of a local connection are sockets: one node sends
//! what the other receives. The end that closes first loses its counters; those of the other end then serve for both.
//!
//! The connections that are new in a sample show who opens many to whom, but not how many.
//!
//! Listening sockets are requested separately. The kernel then skips all connections, including the thousands in
//! TIME-WAIT that a load leaves behind.
//!
//! Not here: when to sample (`observe`), protocols other than TCP.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use super::procfs;

/// Bytes sent and acknowledged, and bytes received.
pub(super) type TransferredBytes = (u64, u64);

/// A node whose sockets are counted.
#[derive(Default)]
pub(super) struct Owner {
    /// Its local ports.
    pub(super) ports: Vec<u16>,
    /// Address at which sockets with these ports are a relay's.
    pub(super) relay: Option<IpAddr>,
    /// Its process IDs.
    pub(super) pids: Vec<i32>,
}

impl Owner {
    fn owns(&self, end: SocketAddr) -> bool {
        self.ports.contains(&end.port()) && self.relay != Some(end.ip())
    }
}

/// Tracks every TCP socket of the machine.
pub(super) struct Sockets {
    kernel: Kernel,
    /// Open sockets by cookie, which the kernel never reuses.
    known: HashMap<u64, TrackedConnection>,
    /// Bytes of closed sockets, by owner.
    gone: Vec<TransferredBytes>,
    opened: Counts,
}

/// New connections seen in samples so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Connections to owners, by opener (if known) and target.
    pub(super) to_owners: BTreeMap<(Option<usize>, usize), u64>,
    /// Ends of connections that involve no owner.
    pub(super) others: u64,
}

struct TrackedConnection {
    owner: Option<usize>,
    /// Owner of the other end's port, until the connection is counted.
    opens: Option<usize>,
    /// Failed searches for its inode: a socket may be seen before its descriptor is.
    searches: u8,
    inode: u32,
    ends: Ends,
    moved: TransferredBytes,
    seen: u32,
}

/// A connection's local and remote address.
pub(super) type Ends = (SocketAddr, SocketAddr);

const SEARCHES_MAX: u8 = 2;

impl Sockets {
    /// Opens the netlink socket; `None` if the kernel refuses.
    pub(super) fn open() -> Option<Self> {
        let kernel = Kernel::open()?;
        let opened = Counts::default();
        Some(Self { kernel, known: HashMap::new(), gone: Vec::new(), opened })
    }

    /// Returns the bytes that each owner has moved since the first sample; `None` if the kernel no longer answers.
    pub(super) fn sample(&mut self, owners: &[Owner]) -> Option<Vec<TransferredBytes>> {
        let found = self.kernel.dump(OPEN)?;
        self.gone.resize(owners.len().max(self.gone.len()), (0, 0));
        let round = self.kernel.sequence;
        let mut unknown = false;
        let has = |end: SocketAddr| owners.iter().position(|one| one.owns(end));
        for socket in &found {
            let (here, there) = socket.ends;
            if !self.known.contains_key(&socket.cookie)
                && has(here).is_none()
                && has(there).is_none()
            {
                self.opened.others += 1;
            }
            let known = self.known.entry(socket.cookie).or_insert_with(|| TrackedConnection {
                owner: has(here),
                opens: has(there).filter(|_| has(here).is_none()),
                searches: 0,
                inode: 0,
                ends: socket.ends,
                moved: (0, 0),
                seen: 0,
            });
            known.inode = socket.inode;
            known.moved = socket.moved;
            known.seen = round;
            unknown |= known.is_sought();
        }
        if unknown {
            self.search(owners);
        }
        self.count();
        self.ask_other_ends(&found);
        let gone = &mut self.gone;
        self.known.retain(|_, known| {
            if known.seen != round
                && let Some(owner) = known.owner
            {
                add(&mut gone[owner], known.moved);
            }
            known.seen == round
        });
        let mut moved = self.gone.clone();
        for known in self.known.values() {
            if let Some(owner) = known.owner {
                add(&mut moved[owner], known.moved);
            }
        }
        Some(moved)
    }

    /// Completes the counters of closed sockets from their other ends, if those are still open.
    fn ask_other_ends(&mut self, found: &[Socket]) {
        let round = self.kernel.sequence;
        if self.known.values().all(|known| known.seen == round) {
            return;
        }
        let ends: HashMap<Ends, TransferredBytes> =
            found.iter().map(|socket| (socket.ends, socket.moved)).collect();
        for known in self.known.values_mut().filter(|known| known.seen != round) {
            let (here, there) = known.ends;
            if let Some(&(sent, received)) = ends.get(&(there, here)) {
                known.moved = (known.moved.0.max(received), known.moved.1.max(sent));
            }
        }
    }

    /// Returns the new connections seen so far.
    pub(super) fn opened(&self) -> &Counts {
        &self.opened
    }

    /// Counts each connection to an owner once, when its opener is known or will never be.
    fn count(&mut self) {
        let round = self.kernel.sequence;
        for known in self.known.values_mut() {
            let is_settled = known.owner.is_some() || known.seen != round || !known.is_sought();
            if let Some(to) = known.opens.filter(|_| is_settled) {
                *self.opened.to_owners.entry((known.owner, to)).or_default() += 1;
                known.opens = None;
            }
        }
    }

    /// Searches the descriptors of all owners for sockets without an owner.
    fn search(&mut self, owners: &[Owner]) {
        let mut holders = HashMap::new();
        for (index, owner) in owners.iter().enumerate() {
            let inodes = owner.pids.iter().flat_map(|&pid| procfs::sockets(pid));
            holders.extend(inodes.map(|inode| (inode, index)));
        }
        for known in self.known.values_mut().filter(|known| known.is_sought()) {
            known.owner = holders.get(&known.inode).copied();
            known.searches += 1;
        }
    }
}

/// Returns the address and inode of each listening TCP socket; `None` if the kernel does not report them.
pub(super) fn listeners() -> Option<Vec<(SocketAddr, u32)>> {
    let found = Kernel::open()?.dump(LISTENING)?;
    Some(found.into_iter().map(|socket| (socket.ends.0, socket.inode)).collect())
}

/// Returns the local and remote address of each TCP connection of this thread's network namespace; `None` if the kernel
/// does not report them.
pub(super) fn connections() -> Option<Vec<Ends>> {
    let found = Kernel::open()?.dump(OPEN)?;
    Some(found.into_iter().map(|socket| socket.ends).collect())
}

/// The owner of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOwner {
    /// The number by which descriptors name the socket; 0 once no process holds it.
    pub inode: u32,
    /// The user who made the socket.
    pub uid: u32,
}

/// Returns the owner of the TCP socket with this local and remote address, in this thread's network namespace. `None`:
/// there is no such socket, or the kernel does not report it. The kernel looks up one socket and walks no table.
pub fn socket_owner(local: SocketAddr, remote: SocketAddr) -> Option<SocketOwner> {
    Kernel::open()?.find((local, remote))
}

/// A netlink socket to `NETLINK_SOCK_DIAG`.
struct Kernel {
    netlink: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Kernel {
    fn open() -> Option<Self> {
        let flags = SocketFlags::CLOEXEC;
        let kind = SocketType::RAW;
        let of = Some(netlink::SOCK_DIAG);
        let netlink = socket_with(AddressFamily::NETLINK, kind, flags, of).ok()?;
        // The kernel answers at once. If it does not, fail rather than hang.
        set_socket_timeout(&netlink, Timeout::Recv, Some(Duration::from_secs(1))).ok()?;
        Some(Self { netlink, sequence: 0, buffer: vec![0; 64 << 10] })
    }

    /// Lists all TCP sockets in one of these states.
    fn dump(&mut self, states: u32) -> Option<Vec<Socket>> {
        let sequence = self.sequence.wrapping_add(1);
        self.sequence = sequence;
        self.send(&request(sequence, states))?;
        let mut found = Vec::new();
        loop {
            match parse(self.receive()?, sequence, &mut found)? {
                Answer::GoesOn => {}
                Answer::Ended => return Some(found),
            }
        }
    }

    /// Returns the owner of the TCP socket with these ends.
    fn find(&mut self, ends: Ends) -> Option<SocketOwner> {
        self.send(&request_for(ends))?;
        owner(self.receive()?)
    }

    fn send(&self, request: &[u8]) -> Option<()> {
        let sent = send(&self.netlink, request, SendFlags::empty()).ok()?;
        (sent == request.len()).then_some(())
    }

    fn receive(&mut self) -> Option<&[u8]> {
        let (read, _) = recv(&self.netlink, &mut self.buffer[..], RecvFlags::empty()).ok()?;
        self.buffer.get(..read)
    }
}

impl TrackedConnection {
    fn is_sought(&self) -> bool {
        self.owner.is_none() && self.inode != 0 && self.searches < SEARCHES_MAX
    }
}

fn add(to: &mut TransferredBytes, more: TransferredBytes) {
    *to = (to.0 + more.0, to.1 + more.1);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Socket {
    cookie: u64,
    inode: u32,
    ends: Ends,
    moved: TransferredBytes,
}

/// `TCPDIAG_GETSOCK`: requests sockets of all address families.
const GET: u16 = 18;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const ASK_ALL: u16 = 0x301;
/// `SOCK_DIAG_BY_FAMILY`: requests a socket of one address family.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`.
const ASK_ONE: u16 = 1;
/// `IPPROTO_TCP`.
const TCP: u8 = 6;
/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `INET_DIAG_INFO`: the attribute that holds a `tcp_info`.
const INFO: u16 = 2;
/// States in which a socket carries or may still carry data: established, FIN-WAIT-1 and -2, CLOSE-WAIT, LAST-ACK and
/// CLOSING, as bits (`net/tcp_states.h`).
const OPEN: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;
/// LISTEN, as a bit.
const LISTENING: u32 = 1 << 10;
/// Sizes of `nlmsghdr` and `inet_diag_msg`, in bytes.
const HEADER: usize = 16;
const MESSAGE: usize = 72;
/// Offset of `tcpi_bytes_acked` in `tcp_info`; `tcpi_bytes_received` follows it.
const BYTES_ACKED: usize = 120;

/// Encodes a `nlmsghdr` and an `inet_diag_req` (`linux/inet_diag.h`). The newer form is limited to one address family.
fn request(sequence: u32, states: u32) -> [u8; 76] {
    let mut request = [0; 76];
    request[0..4].copy_from_slice(&76u32.to_ne_bytes());
    request[4..6].copy_from_slice(&GET.to_ne_bytes());
    request[6..8].copy_from_slice(&ASK_ALL.to_ne_bytes());
    request[8..12].copy_from_slice(&sequence.to_ne_bytes());
    request[19] = 1 << (INFO - 1);
    request[68..72].copy_from_slice(&states.to_ne_bytes());
    request
}

/// Encodes a `nlmsghdr` and an `inet_diag_req_v2` (`linux/inet_diag.h`) for the socket with these ends. A cookie of
/// all ones means any (`INET_DIAG_NOCOOKIE`).
fn request_for((here, there): Ends) -> [u8; 72] {
    let mut request = [0; 72];
    request[0..4].copy_from_slice(&72u32.to_ne_bytes());
    request[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&ASK_ONE.to_ne_bytes());
    let family = if here.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    request[16] = family.as_raw() as u8;
    request[17] = TCP;
    for (end, port, address) in [(here, 24, 28), (there, 26, 44)] {
        request[port..port + 2].copy_from_slice(&end.port().to_be_bytes());
        match end.ip() {
            IpAddr::V4(ip) => request[address..address + 4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => request[address..address + 16].copy_from_slice(&ip.octets()),
        }
    }
    request[64..72].fill(0xff);
    request
}

/// Parses an answer to `request_for`; `None` if it is an error or malformed.
fn owner(datagram: &[u8]) -> Option<SocketOwner> {
    let message = datagram.get(HEADER..HEADER + MESSAGE)?;
    let is_it = u16_at(datagram, 4)? == BY_FAMILY;
    is_it.then_some(SocketOwner { inode: u32_at(message, 68)?, uid: u32_at(message, 64)? })
}

enum Answer {
    GoesOn,
    Ended,
}

/// Parses one datagram of an answer; `None` if it is an error or malformed.
fn parse(mut datagram: &[u8], sequence: u32, found: &mut Vec<Socket>) -> Option<Answer> {
    while datagram.len() >= HEADER {
        let length = u32_at(datagram, 0)? as usize;
        let kind = u16_at(datagram, 4)?;
        let body = datagram.get(HEADER..length)?;
        // Skip answers to an earlier request that was abandoned.
        if u32_at(datagram, 8)? == sequence {
            match kind {
                DONE => return Some(Answer::Ended),
                ERROR => return None,
                GET => found.extend(socket(body)),
                _ => {}
            }
        }
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(Answer::GoesOn)
}

/// Parses an `inet_diag_msg` and its attributes; `None` without a `tcp_info`, as in TIME-WAIT.
fn socket(message: &[u8]) -> Option<Socket> {
    let mut attributes = message.get(MESSAGE..)?;
    loop {
        let length = u16_at(attributes, 0)? as usize;
        let value = attributes.get(4..length)?;
        if u16_at(attributes, 2)? == INFO {
            return Some(Socket {
                cookie: u64_at(message, 44)?,
                inode: u32_at(message, 68)?,
                ends: (end(message, 8, 4)?, end(message, 24, 6)?),
                moved: (u64_at(value, BYTES_ACKED)?, u64_at(value, BYTES_ACKED + 8)?),
            });
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// Parses an address and a port of an `inet_diag_msg`. IPv4-mapped IPv6 addresses become IPv4.
fn end(message: &[u8], address: usize, port: usize) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(message.get(port..port + 2)?.try_into().ok()?);
    let bytes: [u8; 16] = message.get(address..address + 16)?.try_into().ok()?;
    let &[a, b, c, d, ..] = &bytes;
    let address = match AddressFamily::from_raw(u16::from(*message.first()?)) {
        AddressFamily::INET => IpAddr::from([a, b, c, d]),
        _ => IpAddr::from(bytes).to_canonical(),
    };
    Some(SocketAddr::new(address, port))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::super::tests::wait_for;
    use super::*;

    #[test]
    fn bytes_of_both_ends_are_counted_and_kept_after_close() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 5_000]).unwrap();
        server.read_exact(&mut [0; 5_000]).unwrap();
        server.write_all(&[7; 300]).unwrap();
        client.read_exact(&mut [0; 300]).unwrap();

        let mut sockets = Sockets::open().expect("the kernel lists its sockets");
        // One owner by its port; the other, this process, by its descriptors. It also holds sockets of other tests.
        let us = Owner { pids: vec![std::process::id() as i32], ..Owner::default() };
        let owners = [Owner { ports: vec![port], ..Owner::default() }, us];
        let mut moved = Vec::new();
        // A receiver may acknowledge late.
        wait_for("all bytes", || {
            moved = sockets.sample(&owners).unwrap();
            moved[0] == (300, 5_000)
        });
        assert!(moved[1].0 >= 5_000 && moved[1].1 >= 300, "{moved:?}");
        let opened = sockets.opened().to_owners.clone();
        assert_eq!(opened, BTreeMap::from([((Some(1), 0), 1)]), "one, however often it is seen");
        drop((client, server));
        let after = sockets.sample(&owners).unwrap();
        assert!(after[0] >= (300, 5_000), "{after:?}");
        assert!(after[0].1 <= 5_001 && after[1].0 >= 5_000, "{after:?}");
    }

    #[test]
    fn end_closed_first_takes_the_other_ends_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let owners = [Owner { ports: vec![port], ..Owner::default() }];
        let mut sockets = Sockets::open().unwrap();
        assert_eq!(sockets.sample(&owners).unwrap()[0], (0, 0));
        client.write_all(&[7; 5_000]).unwrap();
        server.read_exact(&mut [0; 5_000]).unwrap();
        server.write_all(&[7; 300]).unwrap();
        client.read_exact(&mut [0; 300]).unwrap();
        drop(server);
        // Until the client's kernel has acknowledged it, the closed end keeps its counters.
        let mut adjacent = Sockets::open().unwrap();
        wait_for("its counters' end", || {
            adjacent.kernel.dump(OPEN).unwrap().iter().all(|socket| socket.ends.0.port() != port)
        });
        let (sent, received) = sockets.sample(&owners).unwrap()[0];
        // A connection's SYN and FIN each count as a byte.
        let near = |count: u64, bytes: u64| (bytes..=bytes + 2).contains(&count);
        assert!(near(sent, 300) && near(received, 5_000), "{sent} {received}");
        drop(client);
        assert_eq!(sockets.sample(&owners).unwrap()[0], (sent, received), "kept");
    }

    #[test]
    fn sockets_at_a_relays_address_are_not_the_nodes() {
        let relay = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = relay.local_addr().unwrap();
        let mut client = TcpStream::connect(at).unwrap();
        let (mut relayed, _) = relay.accept().unwrap();
        client.write_all(&[7; 40]).unwrap();
        relayed.read_exact(&mut [0; 40]).unwrap();
        let received = |relay: Option<IpAddr>| {
            let owner = Owner { ports: vec![at.port()], relay, ..Owner::default() };
            Sockets::open().unwrap().sample(&[owner]).unwrap()[0].1
        };
        assert_eq!(received(None), 40);
        assert_eq!(received(Some(at.ip())), 0);
    }

    #[test]
    fn a_connection_over_ipv6_counts() {
        let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
        let port = listener.local_addr().unwrap().port();
        let mut client = TcpStream::connect(("::1", port)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 40]).unwrap();
        server.read_exact(&mut [0; 40]).unwrap();
        let owners = [Owner { ports: vec![port], ..Owner::default() }];
        assert_eq!(Sockets::open().unwrap().sample(&owners).unwrap()[0].1, 40);
    }

    #[test]
    fn owner_of_one_socket_is_found_by_its_ends() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (local, remote) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            let owner = socket_owner(local, remote).expect("the kernel knows the socket");
            assert_eq!(owner.uid, rustix::process::geteuid().as_raw());
            assert!(procfs::sockets(std::process::id() as i32).contains(&owner.inode));
            let other = SocketAddr::new(local.ip(), local.port() ^ 1);
            assert_ne!(socket_owner(other, remote), Some(owner));
            drop(client);
            assert!(
                socket_owner(local, remote).is_none_or(|owner| owner.inode == 0),
                "nobody holds it"
            );
        }
    }

    #[test]
    fn malformed_answer_is_rejected() {
        let mut found = Vec::new();
        let mut error = request(5, OPEN);
        error[4..6].copy_from_slice(&ERROR.to_ne_bytes());
        assert!(parse(&error, 5, &mut found).is_none());
        assert!(parse(&error, 6, &mut found).is_some(), "an answer to another request");
        for length in [0u32, 15, 77, u32::MAX] {
            error[0..4].copy_from_slice(&length.to_ne_bytes());
            assert!(parse(&error, 5, &mut found).is_none(), "{length}");
        }
        assert!(socket(&[0; 80]).is_none() && socket(&[0xff; 90]).is_none());
        assert!(found.is_empty());
        assert_eq!(owner(&error), None);
        assert_eq!(owner(&[0xff; 87]), None);
    }
}
