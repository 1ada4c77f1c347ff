//! The supported systems, one folder each, and their registry.
//!
//! A folder declares what its system is, guarantees and needs ([`declaration::Declaration`]), and says how it is
//! configured, asked for its leader and spoken to. It starts nothing and measures nothing: a host runs what [`System::describe`] yields,
//! the engine drives the sessions. The command line, the tables of the docs and the tests derive
//! from [`registry`].

pub(crate) mod carried;
#[cfg(test)]
mod consistency;
pub(crate) mod declaration;
mod distant;
#[cfg(test)]
mod documented;
pub(crate) mod error;
pub(crate) mod exchange;
#[cfg(test)]
mod guide;
mod http_requests;
mod http_session;
#[cfg(test)]
mod kinds_file;
mod mesh;
#[cfg(test)]
pub(crate) mod replay;
#[cfg(test)]
mod seated;
#[cfg(test)]
mod table;
// Not systems: the skeletons of `cargo xtask new-system`, which so cannot fall behind what they use.
#[cfg(test)]
#[path = "../../../../xtask/templates/http/mod.rs"]
mod template_http;
#[cfg(test)]
#[path = "../../../../xtask/templates/own/mod.rs"]
mod template_own;
#[cfg(test)]
pub(crate) mod testing;

// The registry: a line a system, in the order of tables. `build.rs` makes the list of them, which is all
// that there is to do. An empty line between two keeps `cargo fmt` from sorting them.

pub(crate) mod etcd;

pub(crate) mod zookeeper;

pub(crate) mod consul;

pub(crate) mod vault;

pub(crate) mod openbao;

pub(crate) mod canary;

pub(crate) mod postgresql;

pub(crate) mod gcs_emulator;

pub(crate) mod dynamodb_emulator;

pub(crate) mod haproxy;

pub(crate) mod http;

pub(crate) mod tarantool;

pub(crate) mod redis;

pub(crate) mod nats;

pub(crate) mod ingress_gateway;

pub(crate) mod envoy;

pub(crate) mod istio;

pub(crate) mod application;

pub(crate) mod process;

pub(crate) mod nginx;

pub(crate) mod access_gateway;

pub(crate) mod memcached;

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::{Acknowledged, Encryption, Setting};
use bakeoff_core::schedule::LoadShare;
use bakeoff_core::secrets;
use bakeoff_core::study::{self, Kind, Operation, OptionForm, Workload};
use bakeoff_core::units::{self, ByteCount};
use bakeoff_engine::peer::Peer;
use bakeoff_engine::tls::refusal::{self, Wording};
use bakeoff_engine::together::Together;
use bakeoff_engine::transport::{Target, TlsTarget};
use bakeoff_engine::works::http::{PLAIN_TEXT_REFUSED, refuses_plain_text};
use bakeoff_engine::works::keyed::{self, Keyed, KvSession, KvWork, Reading, Source};
use bakeoff_engine::{Connections, Drive, EngineError, Live};
use bakeoff_host::ports::Allocator;
use bakeoff_host::{HostError, NodeSpec, Seat};
use bakeoff_install::{Installed, Recipe};
use bakeoff_wire::ProtocolError;

use self::declaration::Declaration;
pub(crate) use self::error::SystemError;

/// All systems, in the order of tables.
pub(crate) fn registry() -> &'static [&'static dyn System] {
    // `&[etcd::SYSTEM, …]`, of the lines above.
    include!(concat!(env!("OUT_DIR"), "/registry.rs"))
}

/// The system of a kind.
pub(crate) fn by_kind(kind: &str) -> Option<&'static dyn System> {
    registry().iter().copied().find(|system| system.kind().name == kind)
}

/// Returns whether servers of a kind go beside those of another, on their machine.
pub(crate) fn goes_beside(kind: &str) -> bool {
    by_kind(kind).is_some_and(|system| system.declares().seated_with.is_some())
}

/// Returns whether the program of a kind runs where servers go beside those of another: its own, or those that it starts.
pub(crate) fn runs_beside(kind: &str) -> bool {
    goes_beside(kind) || by_kind(kind).is_some_and(|system| system.declares().starts_besides)
}

/// Returns the recipe of the program that a study asks for; `None` if bakeoff does not fetch it.
pub(crate) fn recipe_for(asked: &study::System) -> Option<&'static Recipe> {
    by_kind(&asked.kind)?.declares().origin.recipe_for(asked)
}

/// Returns the recipe of a product, or of a kind's default product, by its name: `etcd`, `valkey`.
pub(crate) fn recipe_of(product: &str) -> Option<&'static Recipe> {
    let origins = registry().iter().map(|system| system.declares().origin);
    origins.flat_map(|origin| origin.recipes().to_vec()).find(|recipe| recipe.system == product)
}

/// Returns a system and its parts, each with its role.
pub(crate) fn by_role(system: &study::System) -> impl Iterator<Item = (&str, &study::System)> {
    let parts = system.parts.iter().map(|(role, part)| (role.as_str(), part));
    std::iter::once((COMPOSITE, system)).chain(parts)
}

/// Returns the kinds that every study is checked against.
pub(crate) fn kinds() -> Vec<Kind> {
    registry().iter().map(|system| system.kind()).collect()
}

/// The duties of every kind of system. Capabilities of only some are functions in their declaration.
pub(crate) trait System: fmt::Debug + Sync {
    /// Says what it is, what it guarantees, and how its program can be had.
    fn declares(&self) -> Declaration;

    /// The nodes to run, each with a port named `client`, and the settings that depart from the
    /// system's own defaults.
    fn describe(&self, asked: &Asked<'_>, ports: &mut Allocator) -> Result<Description, HostError>;

    /// Looks whether the cluster has a leader that can serve; an error tells what was seen instead,
    /// and whether waiting may help. Asked again and again until it can, so what opens a system (to
    /// initialise it, to unseal it) is done here too.
    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady>;

    /// Makes what a workload needs before its first operation, which may go to any of the nodes.
    /// `first` is the node that leads, where one does.
    fn prepare(
        &self,
        first: &Access,
        nodes: &[Access],
        workload: &Workload,
        keyed: &Keyed,
    ) -> Result<(), SystemError> {
        let _ = (nodes, keyed);
        match self.declares().kind.takes_requests() {
            true => http_requests::prepare(first, workload, None),
            false => Ok(()),
        }
    }

    /// Removes every key that begins with `bakeoff/`, and what [`Self::prepare`] made.
    fn clear(&self, node: &Access) -> Result<(), SystemError> {
        let _ = node;
        Ok(())
    }

    /// Returns the command by which its own client removes every key that begins with `bakeoff/`, for people; `None`
    /// where there is no single one.
    fn removal(&self, node: &Access) -> Option<String> {
        let _ = node;
        None
    }

    /// Finds out whether clients may read keys of `bakeoff/` on a node of a cluster that runs already.
    fn may_use(&self, node: &Access) -> Result<(), NotReady> {
        let _ = node;
        Ok(())
    }

    /// Drives a load over sessions of this system.
    fn drive(&self, load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
        let kind = self.declares().kind;
        if kind.takes_requests() {
            return http_requests::drive(load);
        }
        unreachable!("a study was read in which `{}` is more than a part", kind.name)
    }
}

/// A system to be described.
pub(crate) struct Asked<'a> {
    /// The study's words.
    pub(crate) system: &'a study::System,
    /// Its role in the composite system: `storage`, or [`COMPOSITE`].
    pub(crate) role: &'a str,
    /// The composite system that it is, or is a part of, as the study has it.
    pub(crate) composite: &'a study::System,
    /// Its program; `None` for a system that is part of bakeoff.
    pub(crate) program: Option<&'a Installed>,
    /// Where each node gets a directory of its own.
    pub(crate) dir: &'a Path,
    /// Where its nodes run, in their order, one at least; where it has more nodes, it begins again.
    pub(crate) seats: &'a [Seat],
    /// The roles of all members of the composite system, its own among them, and where their nodes run: known before
    /// any of them is described.
    pub(crate) members: &'a [(&'a str, Vec<Seat>)],
    /// Where clients of the composite system connect from.
    pub(crate) clients: &'a [IpAddr],
    /// The seed of the order of faults, where a system has any.
    pub(crate) seed: u64,
    /// The members of the same system that were described before it: its parts, for one behind which they stand;
    /// parts and the system itself (role `system`), for one in front of it.
    pub(crate) neighbours: &'a [Neighbour],
}

/// Another member of a composite system, as far as its members need to know it.
#[derive(Debug, Clone)]
pub(crate) struct Neighbour {
    /// `storage`; `system` for the system itself.
    pub(crate) role: String,
    pub(crate) system: &'static dyn System,
    /// Its nodes, none of which need be running yet.
    pub(crate) nodes: Vec<Access>,
}

/// The role of a system among its parts.
pub(crate) const COMPOSITE: &str = "system";

impl Asked<'_> {
    /// `etcd-1`, …: the names of the nodes.
    pub(crate) fn node_names(&self) -> impl Iterator<Item = String> {
        (1..=self.system.nodes).map(|number| format!("{}-{number}", self.system.name))
    }

    /// Returns where its nth node runs, counted from 0.
    pub(crate) fn seat(&self, index: usize) -> Seat {
        self.seats[index % self.seats.len()]
    }

    /// The names of its nodes and where they run.
    pub(crate) fn seated(&self) -> impl Iterator<Item = (String, Seat)> {
        self.node_names().enumerate().map(|(index, name)| (name, self.seat(index)))
    }

    /// Returns where the first node of a member of the composite system runs, described or not.
    pub(crate) fn seat_of(&self, role: &str) -> Option<Seat> {
        let (_, seats) = self.members.iter().find(|(member, _)| *member == role)?;
        seats.first().copied()
    }

    /// Returns the addresses that its nodes may be connected to from, each once: those of its own nodes, of all other
    /// members and of clients.
    fn reached_from(&self) -> Vec<IpAddr> {
        let members = self.members.iter().flat_map(|(_, seats)| seats);
        let seats = self.seats.iter().chain(members).map(|seat| seat.address);
        let mut each = Vec::new();
        for address in seats.chain(self.clients.iter().copied()) {
            if !each.contains(&address) {
                each.push(address);
            }
        }
        each
    }

    /// The program of a system that is none of bakeoff's own.
    fn installed(&self) -> Result<&'_ Installed, HostError> {
        self.program.ok_or_else(|| HostError::Spec {
            node: self.system.name.clone(),
            problem: "it was given no program".into(),
        })
    }

    /// The value of an option, if the study sets it.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        option(self.system, name)
    }

    /// Returns the member beside it that has a role.
    pub(crate) fn neighbour(&self, role: &str) -> Option<&Neighbour> {
        self.neighbours.iter().find(|neighbour| neighbour.role == role)
    }
}

/// Returns where an acknowledged write is in a cluster that waits for a majority's disks: one node is a
/// majority of one.
fn majority_disks(asked: &study::System) -> Acknowledged {
    if asked.nodes == 1 { Acknowledged::Disk } else { Acknowledged::MajorityDisks }
}

/// The same in words.
fn synced_by(asked: &study::System) -> &'static str {
    if asked.nodes == 1 {
        "after it is synced to disk"
    } else {
        "after a majority has synced it to disk"
    }
}

/// A study was read in which a system is asked for what it cannot do: a bug.
fn never_planned(operation: Operation) -> ! {
    unreachable!("a study was read in which a system without `{operation}` is asked for it")
}

/// The value of an option, if the study sets it.
pub(crate) fn option<'a>(system: &'a study::System, name: &str) -> Option<&'a str> {
    system.options.get(name).map(String::as_str)
}

/// An option's value as programs take it: milliseconds, bytes, or the study's own text. The study
/// was checked when it was read; what is no such value is passed on as it stands.
pub(crate) fn plain_value(form: &OptionForm, text: &str) -> String {
    match form {
        OptionForm::Duration => units::parse_duration(text)
            .map_or_else(|_| text.to_owned(), |duration| duration.as_millis().to_string()),
        OptionForm::Size => {
            text.parse::<ByteCount>().map_or_else(|_| text.to_owned(), |size| size.0.to_string())
        }
        _ => text.to_owned(),
    }
}

/// A response that is no success, in words: `500: No cluster leader`.
fn http_status_text(status: u16, body: &[u8]) -> String {
    let body = String::from_utf8_lossy(&body[..body.len().min(secrets::SEARCHED_MAX)]);
    let reply = body.split_whitespace().collect::<Vec<_>>().join(" ");
    let hint = if refuses_plain_text(status, body.as_bytes()) { PLAIN_TEXT_REFUSED } else { "" };
    match reply.is_empty() {
        true => status.to_string(),
        false => format!("{status}{hint}: {}", units::server_text(&reply)),
    }
}

/// The nodes of a system and their settings.
#[derive(Default)]
pub(crate) struct Description {
    pub(crate) nodes: Vec<NodeSpec>,
    pub(crate) settings: Vec<Setting>,
    /// How clients verify its nodes, where they speak TLS.
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
    /// Its memory from the start, such as the passwords that its nodes are given.
    pub(crate) memory: Memory,
    /// How this member and those beside it speak to each other, in words (`plain HTTP`), and whether that
    /// is encrypted. Any member of a system may say it.
    pub(crate) between: Option<(&'static str, Encryption)>,
}

impl Description {
    /// Returns how its nodes are reached once they run.
    pub(crate) fn accesses(&self) -> Vec<Access> {
        let access = |spec: &NodeSpec| {
            let address = spec.seat.at(spec.port("client"));
            let tls = self.tls.as_ref().map(|config| {
                let name = rustls::pki_types::ServerName::IpAddress(spec.seat.address.into());
                TlsTarget::new(name, config.clone())
            });
            Access {
                name: spec.name.clone(),
                authority: address.to_string(),
                target: Target { address, tls },
                memory: self.memory.clone(),
            }
        };
        // Nodes that no client connects to have no such port.
        let reached = |spec: &&NodeSpec| spec.ports.iter().any(|(purpose, _)| purpose == "client");
        self.nodes.iter().filter(reached).map(access).collect()
    }
}

/// The memory of one cluster from one call to the next: a root token, the keys
/// that unseal it, the objects made for a workload. One value of each type; shared by its clones. It is
/// never printed, for much of it is secret.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>);

impl Memory {
    /// Keeps a value, in place of one of its type that is there.
    pub(crate) fn keep<T: Any + Send + Sync>(&self, value: T) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// The value of a type, if there is one.
    pub(crate) fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Memory(…)")
    }
}

/// The token that clients of a cluster of ours send with each request. It has no `Debug`, so that nothing
/// prints it.
pub(crate) struct ClientToken(pub(crate) String);

/// User and password with which clients of a cluster that runs already sign in. It has no `Debug`, so that
/// nothing prints it.
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// A setting with its reason.
pub(crate) fn setting(name: &str, value: impl ToString, reason: &str) -> Setting {
    Setting { name: name.to_owned(), value: value.to_string(), reason: reason.to_owned() }
}

/// The reason of a setting that the study asks for.
pub(crate) const ASKED: &str = "the study asks for it";

/// How clients reach one node.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// `etcd-1`.
    pub(crate) name: String,
    /// `127.0.0.1:2379`, as it is named in requests.
    pub(crate) authority: String,
    pub(crate) target: Target,
    /// The memory of its cluster's system.
    pub(crate) memory: Memory,
}

impl Access {
    /// Returns the node as clients of a load connect to it.
    pub(crate) fn peer(&self) -> Peer {
        Peer::new(&self.target, &self.authority)
    }
}

/// The configuration that a server was given by another one, each thing under a name that can stand in
/// a sentence.
pub(crate) type ConfigSnapshot = BTreeMap<String, serde_json::Value>;

/// The status of a cluster that can serve.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClusterStatus {
    /// Which of the nodes leads; `None` for a system without a leader.
    pub(crate) leader: Option<usize>,
    /// The version that the leader reports.
    pub(crate) version: Option<String>,
}

/// Why a cluster cannot serve: what was seen of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotReady {
    /// It may before long.
    NotYet(String),
    /// It is there, and does not answer as such a system does. One that is starting may get over it; one that has
    /// been running for long does not.
    Odd {
        /// `` `10.0.0.5:2379`: grpc status 13 ``.
        seen: String,
        /// Without `hint: `.
        hint: &'static str,
    },
    /// Waiting does not help: what was seen, and what to try.
    Never {
        /// `` `vault-1` is sealed ``.
        seen: String,
        /// Without `hint: `.
        hint: String,
    },
}

impl From<String> for NotReady {
    fn from(seen: String) -> Self {
        Self::NotYet(seen)
    }
}

impl From<SystemError> for NotReady {
    fn from(seen: SystemError) -> Self {
        match &seen {
            SystemError::Unreachable { source, .. } => match source.get_ref() {
                Some(inner) if inner.is::<rustls::Error>() => Self::Never {
                    hint: refusal::hint(inner.downcast_ref(), Wording::Study).to_owned(),
                    seen: seen.to_string(),
                },
                Some(inner) if inner.is::<ProtocolError>() => {
                    Self::Odd { seen: seen.to_string(), hint: ANOTHER_PROTOCOL }
                }
                _ if is_broken_off(source.kind()) => {
                    Self::Odd { seen: seen.to_string(), hint: ANOTHER_PROTOCOL }
                }
                _ => Self::NotYet(seen.to_string()),
            },
            // Servers say so while they elect one of them.
            SystemError::Status { answer, .. } if answer.starts_with('5') => {
                Self::NotYet(seen.to_string())
            }
            SystemError::Answered { .. }
            | SystemError::Status { .. }
            | SystemError::NoJson { .. } => Self::Odd { seen: seen.to_string(), hint: OWN_CLIENT },
            SystemError::Unset(_) | SystemError::State(_) => Self::NotYet(seen.to_string()),
        }
    }
}

/// Returns whether a conversation ended so that one who speaks otherwise may have ended it.
fn is_broken_off(how: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof};
    [BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof].contains(&how)
}

const ANOTHER_PROTOCOL: &str =
    "this is not how such a system speaks: look at the endpoint's port, and at the study's `kind`";
const OWN_CLIENT: &str = "look at the endpoint with the system's own client";

impl From<&str> for NotReady {
    fn from(seen: &str) -> Self {
        Self::NotYet(seen.to_owned())
    }
}

/// A key-value load for a system to drive.
pub(crate) struct KvLoad<'a> {
    /// The nodes that clients connect to, in turn.
    pub(crate) nodes: &'a [Access],
    pub(crate) keyed: &'a Arc<Keyed>,
    /// Where each worker's operations come from.
    pub(crate) source: &'a mut dyn FnMut(LoadShare) -> Source,
    pub(crate) reading: Reading,
    pub(crate) drive: &'a Drive,
    /// The loads that it begins together with, if any.
    pub(crate) together: Option<&'a Together>,
    pub(crate) interrupted: &'a AtomicBool,
    pub(crate) progress: &'a mut dyn FnMut(&Live),
}

impl KvLoad<'_> {
    /// Drives it over sessions that `connect` makes for a node.
    pub(crate) fn over<S, C>(self, connect: C) -> Result<(Measurement, u64), EngineError>
    where
        S: KvSession + 'static,
        C: Fn(&Access) -> S + Clone + Send + 'static,
    {
        let Self { nodes, keyed, source, reading, drive, together, interrupted, progress } = self;
        let one_each = drive.connections == Connections::OneEach;
        let works = &mut |share| {
            let connect = connect.clone();
            let nodes = nodes.to_vec();
            let session = move |_client: u32, node: usize| -> Box<dyn KvSession> {
                let mut session = connect(&nodes[node]);
                if one_each {
                    session.only_one();
                }
                Box::new(session)
            };
            KvWork::new(keyed.clone(), source(share), reading, share, Box::new(session))
        };
        let peers: Vec<Peer> = nodes.iter().map(Access::peer).collect();
        keyed::drive(&peers, drive, together, works, interrupted, progress)
    }
}
