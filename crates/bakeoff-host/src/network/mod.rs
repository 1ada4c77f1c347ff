//! Gives each node on this machine a network of its own, and cuts paths between them.
//!
//! A process of ours (`bakeoff __network`) holds a network namespace for each address and forwards the packets between
//! them. A cut path drops packets without an answer, as a broken cable does. An ordinary user needs a user namespace for
//! that. All of it ends with the process: nothing of the machine's own network is changed.
//!
//! Not here: the namespaces (`serve`), the messages to the kernel (`links`), which paths a fault cuts (`bakeoff_trial`).

mod enter;
mod links;
mod serve;

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};

use super::attendant::Attendant;

pub(super) use self::enter::{COMMAND as ENTER_COMMAND, run as enter};
pub(super) use self::serve::{COMMAND, run};

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
    /// Restore all paths.
    Heal,
}

/// Answers: first the ready network, then one for each order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NetworkReply {
    /// The network is up. Holds the descriptor of each address's namespace.
    Ready(Vec<i32>),
    /// The order is carried out. Holds its proof.
    Done(String),
    /// The reason of a failure.
    Failed(String),
}

/// Network namespaces on this machine, one for each address. Dropping it ends them with the last process inside.
pub struct Network {
    attendant: Attendant,
    addresses: Vec<Ipv4Addr>,
    descriptors: Vec<i32>,
}

impl Network {
    /// Makes a namespace for each address, with paths between all of them and to nowhere else.
    ///
    /// # Errors
    /// A reason, if the kernel refuses namespaces.
    pub fn begin(addresses: &[Ipv4Addr]) -> Result<Self, String> {
        let args = addresses.iter().map(Ipv4Addr::to_string);
        let attendant = Attendant::start("the network of the nodes", COMMAND, args)?;
        match attendant.answer()? {
            NetworkReply::Ready(descriptors) => {
                Ok(Self { attendant, addresses: addresses.to_vec(), descriptors })
            }
            NetworkReply::Done(text) | NetworkReply::Failed(text) => Err(text),
        }
    }

    /// Returns the arguments with which bakeoff runs a command of its own in the namespace of an address; `None` for an
    /// unknown address.
    pub fn inside(&self, address: IpAddr) -> Option<Vec<OsString>> {
        let place = self.addresses.iter().position(|one| IpAddr::V4(*one) == address)?;
        let (pid, descriptor) = (self.attendant.pid(), self.descriptors.get(place)?);
        let args = [ENTER_COMMAND.to_owned(), pid.to_string(), descriptor.to_string()];
        Some(args.into_iter().map(Into::into).collect())
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

/// Checks that this user can make networks here and cut them.
///
/// # Errors
/// The reason, as the kernel gave it.
pub fn support() -> Result<(), String> {
    let ends = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)];
    let network = Network::begin(&ends)?;
    network.cut(&[(ends[0], ends[1])], CutConnections::All)?;
    network.heal().map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::procfs;

    const ENDS: [Ipv4Addr; 3] =
        [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 18, 0, 3)];

    /// Makes a network. Prints that the test is skipped where the kernel refuses.
    fn network() -> Option<Network> {
        match Network::begin(&ENDS) {
            Ok(network) => Some(network),
            Err(why) => {
                assert!(why.contains("cannot make a network namespace"), "{why}");
                writeln!(std::io::stderr(), "skipped: {why}").unwrap();
                None
            }
        }
    }

    #[test]
    fn cut_is_proven_in_one_direction_and_restored() {
        let Some(network) = network() else { return };
        let one_way = network.cut(&[(ENDS[0], ENDS[1])], CutConnections::All).unwrap();
        assert_eq!(one_way, "1 probe did not pass, 5 probes elsewhere did");
        let twice = network.cut(&[(ENDS[1], ENDS[2])], CutConnections::All).unwrap_err();
        assert_eq!(twice, "the network is cut already");
        assert_eq!(network.heal().unwrap(), "6 probes arrived");
        let paths = [(ENDS[0], ENDS[1]), (ENDS[1], ENDS[0])];
        let half_open = network.cut(&paths, CutConnections::Existing).unwrap();
        assert_eq!(
            half_open,
            "4 open connections cut, 2 probed ones carried nothing, 6 new probes passed"
        );
        assert_eq!(network.heal().unwrap(), "6 probes arrived");
        let unknown = [(ENDS[0], Ipv4Addr::LOCALHOST)];
        assert_eq!(network.cut(&unknown, CutConnections::All).unwrap_err(), "unknown address");
    }

    #[test]
    fn network_ends_with_its_process_and_changes_nothing_here() {
        let links = || std::fs::read_to_string("/proc/net/dev").unwrap().lines().count();
        let before = links();
        let Some(network) = network() else { return };
        assert_eq!(links(), before);
        let pid = network.attendant.pid();
        assert!(procfs::stat(pid).is_some());
        drop(network);
        assert!(procfs::stat(pid).is_none_or(|stat| !stat.lives()));
    }
}
