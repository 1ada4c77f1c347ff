//! Gives each node on this machine an address whose paths to the others can be cut.
//!
//! A process of ours (`bakeoff __network`) holds a network namespace for each address and forwards the packets between
//! them. A cut path drops packets without an answer, as a broken cable does. A delayed path holds them back. An ordinary user needs a user namespace for
//! that. Where the kernel refuses namespaces, another process (`bakeoff __relays`) relays connections between loopback
//! addresses. All of it ends with the process: nothing of the machine's own network is changed.
//!
//! Not here: the messages to the kernel (`links`), the proof of a cut (`paths`), which paths a fault cuts
//! (`bakeoff_trial`).

mod delay;
mod enter;
mod forwarder;
mod links;
mod namespaces;
mod paths;
mod relays;

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::helper_process::HelperProcess;

pub use self::delay::PathDelay;
pub(super) use self::enter::{COMMAND as ENTER_COMMAND, run as enter};
pub(super) use self::namespaces::{COMMAND, run};
pub(super) use self::relays::{COMMAND as RELAYS_COMMAND, run as relay};

/// Directed path between two addresses: its first one sends, the second receives.
pub type CutPath = (Ipv4Addr, Ipv4Addr);

/// Selects the packets that a cut drops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CutConnections {
    /// All packets.
    #[default]
    All,
    /// Those of TCP connections that are open at that moment. New connections pass.
    Existing,
}

/// Orders for the process that holds the network.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NetworkOrder {
    /// Cut these paths.
    Cut { paths: Vec<CutPath>, connections: CutConnections },
    /// Delay what passes over these paths.
    Delay { paths: Vec<CutPath>, delay: PathDelay },
    /// Restore all paths.
    Heal,
    /// Count the connections of a process and its descendants as those of an address.
    Admit { address: Ipv4Addr, process: i32 },
    /// Let the others reach ports of an address.
    Open { address: Ipv4Addr, ports: Vec<u16> },
}

/// Answers: first the ready network, then one for each order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NetworkReply {
    /// The network is up. Holds the descriptor of each address's namespace; empty for relays.
    Ready(Vec<i32>),
    /// The order is carried out. Holds its proof.
    Done(String),
    /// The reason of a failure.
    Failed(String),
}

/// Addresses on this machine with paths that can be cut. Dropping it ends them.
pub struct Network {
    attendant: HelperProcess,
    addresses: Vec<Ipv4Addr>,
    /// Descriptors of the addresses' namespaces, in the process that holds them; empty for relays.
    descriptors: Vec<i32>,
}

impl Network {
    /// Makes a namespace for each address, with paths between all of them and to nowhere else.
    ///
    /// # Errors
    /// A reason, if the kernel refuses namespaces.
    pub fn begin(addresses: &[Ipv4Addr]) -> Result<Self, String> {
        Self::start(COMMAND, addresses.to_vec(), addresses)
    }

    /// Begins relays between addresses on loopback. `addresses`: the announced address of each node, and the one that it
    /// listens on.
    ///
    /// # Errors
    /// A reason, if an address cannot be bound.
    pub fn relayed(addresses: &[(Ipv4Addr, Ipv4Addr)]) -> Result<Self, String> {
        let announced = addresses.iter().map(|(announced, _)| *announced).collect();
        let both: Vec<Ipv4Addr> = addresses.iter().flat_map(|pair| [pair.0, pair.1]).collect();
        Self::start(RELAYS_COMMAND, announced, &both)
    }

    fn start(command: &str, addresses: Vec<Ipv4Addr>, args: &[Ipv4Addr]) -> Result<Self, String> {
        let args = args.iter().map(Ipv4Addr::to_string);
        let attendant = HelperProcess::start("the network of the nodes", command, args)?;
        match attendant.answer()? {
            NetworkReply::Ready(descriptors) => Ok(Self { attendant, addresses, descriptors }),
            NetworkReply::Done(text) | NetworkReply::Failed(text) => Err(text),
        }
    }

    /// Returns the arguments with which bakeoff runs a command of its own in the namespace of an address; none for
    /// relays, and for an unknown address.
    pub fn inside(&self, address: Ipv4Addr) -> Vec<OsString> {
        let place = self.addresses.iter().position(|one| *one == address);
        let Some(descriptor) = place.and_then(|place| self.descriptors.get(place)) else {
            return Vec::new();
        };
        let pid = self.attendant.pid();
        let args = [ENTER_COMMAND.to_owned(), pid.to_string(), descriptor.to_string()];
        args.into_iter().map(Into::into).collect()
    }

    /// Counts the connections of a process and its descendants as those of an address. The process leads a process
    /// group. Namespaces need no such order.
    ///
    /// # Errors
    /// A reason, if the address is unknown.
    pub fn admit(&self, address: Ipv4Addr, process: i32) -> Result<(), String> {
        self.order(&NetworkOrder::Admit { address, process }).map(drop)
    }

    /// Lets the others reach ports of an address, until the network ends. Namespaces need no such order.
    ///
    /// # Errors
    /// A reason, if a port is in use.
    pub fn open(&self, address: Ipv4Addr, ports: Vec<u16>) -> Result<(), String> {
        self.order(&NetworkOrder::Open { address, ports }).map(drop)
    }

    /// Returns the ID of the process that forwards or relays.
    pub fn process(&self) -> i32 {
        self.attendant.pid()
    }

    /// Returns all addresses.
    pub fn addresses(&self) -> &[Ipv4Addr] {
        &self.addresses
    }

    /// Cuts paths until [`Self::heal`]. Returns the proof: probes that did not arrive.
    ///
    /// # Errors
    /// A reason, if the kernel refuses or a probe arrives.
    pub fn cut(&self, paths: &[CutPath], connections: CutConnections) -> Result<String, String> {
        self.order(&NetworkOrder::Cut { paths: paths.to_vec(), connections })
    }

    /// Delays what passes over paths until [`Self::heal`]. Relays lose nothing. Returns the proof: the times of probes.
    ///
    /// # Errors
    /// A reason, if the kernel refuses or a probe arrives too early.
    pub fn delay(&self, paths: &[CutPath], delay: PathDelay) -> Result<String, String> {
        self.order(&NetworkOrder::Delay { paths: paths.to_vec(), delay })
    }

    /// Restores all paths. Returns the proof: probes that arrived.
    ///
    /// # Errors
    /// A reason, if the kernel refuses or a probe does not arrive.
    pub fn heal(&self) -> Result<String, String> {
        self.order(&NetworkOrder::Heal)
    }

    fn order(&self, order: &NetworkOrder) -> Result<String, String> {
        match self.attendant.order(order)? {
            NetworkReply::Done(proof) => Ok(proof),
            NetworkReply::Failed(why) => Err(why),
            NetworkReply::Ready(_) => Err("the network answered out of turn".to_owned()),
        }
    }
}

/// Checks that this user can make namespaces here and cut the paths between them, and delay them if `delays`.
///
/// # Errors
/// The reason, as the kernel gave it.
pub fn support(delays: bool) -> Result<(), String> {
    let ends = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)];
    let network = Network::begin(&ends)?;
    network.cut(&[(ends[0], ends[1])], CutConnections::All)?;
    network.heal()?;
    if delays {
        let (by, jitter) = (Duration::from_millis(1), Duration::ZERO);
        network.delay(&[(ends[0], ends[1])], PathDelay { by, jitter, loss: 0.0 })?;
        network.heal()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;
    use crate::procfs;

    const ENDS: [Ipv4Addr; 3] =
        [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 18, 0, 3)];

    /// Makes a network of namespaces. Prints that the test is skipped where the kernel refuses.
    fn namespaces() -> Option<Network> {
        match Network::begin(&ENDS) {
            Ok(network) => Some(network),
            Err(why) => {
                assert!(why.contains("cannot "), "{why}");
                writeln!(std::io::stderr(), "skipped: {why}").unwrap();
                None
            }
        }
    }

    /// Makes relays. `net`: a number that no other test has. Returns the announced and the listening addresses, too.
    fn relays(net: u8) -> (Network, [Ipv4Addr; 3], [Ipv4Addr; 3]) {
        let [announced, listening] =
            [198, 199].map(|kind| [1, 2, 3].map(|end| Ipv4Addr::new(127, kind, net, end)));
        let pairs: Vec<_> = announced.into_iter().zip(listening).collect();
        (Network::relayed(&pairs).unwrap(), announced, listening)
    }

    #[test]
    fn cut_of_namespaces_is_proven_in_one_direction_and_restored() {
        let Some(network) = namespaces() else { return };
        is_cut_and_restored(&network);
    }

    #[test]
    fn cut_of_relays_is_proven_in_one_direction_and_restored() {
        is_cut_and_restored(&relays(1).0);
    }

    fn is_cut_and_restored(network: &Network) {
        let ends = network.addresses();
        let one_way = network.cut(&[(ends[0], ends[1])], CutConnections::All).unwrap();
        let text = "1 probe and a byte on 1 open connection did not pass, 5 probes elsewhere did";
        assert_eq!(one_way, text);
        let twice = network.cut(&[(ends[1], ends[2])], CutConnections::All).unwrap_err();
        assert_eq!(twice, "the network is cut already");
        assert_eq!(network.heal().unwrap(), "6 probes arrived");
        let paths = [(ends[0], ends[1]), (ends[1], ends[0])];
        let half_open = network.cut(&paths, CutConnections::Existing).unwrap();
        // A relay may still hold connections of earlier probes that are about to close.
        let (cut, proof) = half_open.split_once(' ').unwrap();
        assert!(cut.parse::<u32>().unwrap() >= 4, "{half_open}");
        assert_eq!(
            proof,
            "open connections cut, a byte on 2 of them did not pass, 6 new probes did"
        );
        assert_eq!(network.heal().unwrap(), "6 probes arrived");
        let unknown = [(ends[0], Ipv4Addr::LOCALHOST)];
        assert_eq!(network.cut(&unknown, CutConnections::All).unwrap_err(), "unknown address");
    }

    #[test]
    fn delay_of_namespaces_is_proven_and_healed() {
        let Some(network) = namespaces() else { return };
        is_delayed_and_healed(&network);
        let lossy = PathDelay { loss: 0.5, ..SLOW };
        network.delay(&[(ENDS[0], ENDS[1])], lossy).unwrap();
        network.heal().unwrap();
    }

    #[test]
    fn delay_of_relays_is_proven_and_healed() {
        is_delayed_and_healed(&relays(6).0);
    }

    const SLOW: PathDelay =
        PathDelay { by: Duration::from_millis(60), jitter: Duration::from_millis(20), loss: 0.0 };

    fn is_delayed_and_healed(network: &Network) {
        let ends = network.addresses();
        for _ in 0..2 {
            let proof = network.delay(&[(ends[0], ends[1]), (ends[1], ends[0])], SLOW).unwrap();
            assert!(proof.starts_with("probes took ") && proof.ends_with(" elsewhere"), "{proof}");
            let twice = network.cut(&[(ends[1], ends[2])], CutConnections::All).unwrap_err();
            assert_eq!(twice, "the network is cut already");
            assert_eq!(network.heal().unwrap(), "6 probes arrived");
        }
        network.cut(&[(ends[0], ends[1])], CutConnections::All).unwrap();
        network.heal().unwrap();
    }

    #[test]
    fn delayed_connection_carries_all_bytes_in_order() {
        let (network, announced, listening) = relays(7);
        let (server, port) = relayed_server(&network, announced[1], listening[1]);
        let group = rustix::process::getpgrp().as_raw_nonzero().get();
        network.admit(announced[0], group).unwrap();
        let mut client = TcpStream::connect((announced[1], port)).unwrap();
        let (mut served, _) = server.accept().unwrap();
        network.delay(&[(announced[0], announced[1])], SLOW).unwrap();
        let began = bakeoff_clock::now();
        client.write_all(&[0]).unwrap();
        served.read_exact(&mut [7]).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(40), "it waits at least 60 - 20 ms");
        // More than waits at once.
        let bytes: Vec<u8> = (0..20_u32 << 20).map(|place| (place / 251) as u8).collect();
        let sent = bytes.clone();
        let sender = std::thread::spawn(move || client.write_all(&sent).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        network.heal().unwrap();
        let mut read = vec![0; bytes.len()];
        served.read_exact(&mut read).unwrap();
        assert!(read == bytes, "the bytes arrived in another order");
        sender.join().unwrap();
    }

    /// Starts a server behind a relay. Returns its port, too.
    fn relayed_server(
        network: &Network,
        announced: Ipv4Addr,
        listens: Ipv4Addr,
    ) -> (TcpListener, u16) {
        let server = TcpListener::bind((listens, 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        network.open(announced, vec![port]).unwrap();
        (server, port)
    }

    #[test]
    fn relay_knows_senders_by_their_processes_and_passes_all_when_it_heals() {
        let (network, announced, listening) = relays(2);
        let (server, port) = relayed_server(&network, announced[1], listening[1]);
        let connect = || {
            let client = TcpStream::connect((announced[1], port)).unwrap();
            let (served, _) = server.accept().unwrap();
            served.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            (client, served)
        };
        let passes = |(client, served): &mut (TcpStream, TcpStream)| {
            client.write_all(&[7]).unwrap();
            served.read_exact(&mut [0]).is_ok()
        };
        // No end has admitted this process yet, so no cut touches it.
        let mut strangers = connect();
        network.cut(&[(announced[0], announced[1])], CutConnections::All).unwrap();
        assert!(passes(&mut strangers));
        network.heal().unwrap();

        let group = rustix::process::getpgrp().as_raw_nonzero().get();
        network.admit(announced[0], group).unwrap();
        let mut ours = connect();
        assert!(passes(&mut ours));
        network.cut(&[(announced[0], announced[1])], CutConnections::All).unwrap();
        assert!(!passes(&mut ours));
        let mut late = TcpStream::connect((announced[1], port)).unwrap();
        late.write_all(&[8]).unwrap();
        // One closes before the relay can know its sender, and one while the cut holds it.
        drop(TcpStream::connect((announced[1], port)).unwrap());
        let gone = TcpStream::connect((announced[1], port)).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        drop(gone);
        network.heal().unwrap();
        ours.1.read_exact(&mut [0]).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        server.set_nonblocking(true).unwrap();
        let mut served: Vec<TcpStream> =
            std::iter::from_fn(|| Some(server.accept().ok()?.0)).collect();
        assert_eq!(served.len(), 1, "the closed connections do not arrive");
        let mut byte = [0];
        served[0].read_exact(&mut byte).unwrap();
        assert_eq!(byte, [8]);
    }

    #[test]
    fn relayed_connection_ends_as_a_direct_one_does() {
        let (network, announced, listening) = relays(3);
        let (server, port) = relayed_server(&network, announced[0], listening[0]);
        let connect = || TcpStream::connect((announced[0], port)).unwrap();
        // An end of sending: the other direction goes on.
        let (mut client, (mut served, _)) = (connect(), server.accept().unwrap());
        client.write_all(b"ask").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut asked = String::new();
        served.read_to_string(&mut asked).unwrap();
        served.write_all(asked.as_bytes()).unwrap();
        drop(served);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "ask");
        // A server that is gone.
        drop(server);
        let ended = connect().read(&mut [0]).unwrap_or(0);
        assert_eq!(ended, 0);
    }

    #[test]
    fn relayed_datagrams_come_from_the_announced_address() {
        let (network, announced, listening) = relays(4);
        let sockets = [0, 1].map(|end| UdpSocket::bind((listening[end], 0)).unwrap());
        let ports = [0, 1].map(|end: usize| sockets[end].local_addr().unwrap().port());
        (0..2).for_each(|end| network.open(announced[end], vec![ports[end]]).unwrap());
        sockets[1].set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        sockets[0].send_to(&[7], (announced[1], ports[1])).unwrap();
        let (_, from) = sockets[1].recv_from(&mut [0]).unwrap();
        assert_eq!(from, (announced[0], ports[0]).into());
    }

    #[test]
    fn network_ends_with_its_process_and_changes_nothing_here() {
        let links = || std::fs::read_to_string("/proc/net/dev").unwrap().lines().count();
        let before = links();
        for network in [namespaces(), Some(relays(5).0)].into_iter().flatten() {
            assert_eq!(links(), before);
            let pid = network.attendant.pid();
            assert!(procfs::stat(pid).is_some());
            drop(network);
            assert!(procfs::stat(pid).is_none_or(|stat| !stat.lives()));
        }
    }
}
