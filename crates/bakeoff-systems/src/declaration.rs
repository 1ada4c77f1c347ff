//! A system kind's declaration, as data.
//!
//! Whoever wants to know something of a kind asks here and never for its name: studies are checked
//! against it, tables and the command line are written from it, and what only some kinds can do is a
//! function in it that the others lack.
//!
//! Not here: what every kind has to do ([`System`]), the list of kinds (`registry`).

use std::fmt;
use std::time::Duration;

use bakeoff_core::check::Audit;
use bakeoff_core::log_findings::LevelWord;
use bakeoff_core::record::{Freshness, Guarantees};
use bakeoff_core::study::{self, Kind, PRODUCT, ReadConsistency};
use bakeoff_engine::transport::TlsBegins;
use bakeoff_install::Recipe;

use super::carried::CarriedMemory;
use super::{Access, ConfigSnapshot, Neighbour, System, SystemError, option};

/// A kind's declaration of itself.
#[derive(Debug, Clone)]
pub struct Declaration {
    /// Its name and what a study may ask of it.
    pub kind: Kind,
    /// Where its program comes from.
    pub origin: Origin,
    /// Its guarantees.
    pub(crate) guarantees: GuaranteeRules,
    /// How its clients speak to it.
    pub clients: Clients,
    /// How long its nodes may take to be ready, once they are started: to elect a leader, mostly.
    pub ready_within: Duration,
    /// The part whose seats its nodes take, where they have to be on its machine: a sidecar is beside what it serves.
    /// `None` for one whose nodes may be anywhere.
    pub seated_with: Option<&'static str>,
    /// Whether its program starts what goes beside other servers, as Istio's agent does a sidecar.
    pub(crate) starts_besides: bool,
    /// Where a load balancer asks whether a node may be sent requests; `None` for a system that none
    /// can stand in front of.
    pub(crate) health: Option<Health>,
    /// Its capabilities beyond those of every system.
    pub hooks: Hooks,
    /// How complete its lists are.
    pub lists: Lists,
    /// The words by which its log names levels, besides those that are common (`[error]`, `level=warn`, `ERROR`).
    pub(crate) level_words: &'static [LevelWord],
    /// Settings that switch syncs off, by name and unsafe values in lower case, as arguments and environment variables
    /// have them. A running server that has one loses its claim of disks.
    pub unsafe_settings: &'static [(&'static str, &'static [&'static str])],
    /// Its place in a Kubernetes cluster; `None` where no manifests are written for it.
    pub in_kubernetes: Option<InKubernetes>,
}

impl Declaration {
    /// Declares a kind of which nothing is known but what a study may ask of it and where it comes from.
    pub(crate) fn new(kind: Kind, origin: Origin) -> Self {
        Self {
            kind,
            origin,
            guarantees: GuaranteeRules::default(),
            clients: Clients::default(),
            ready_within: Duration::from_secs(60),
            seated_with: None,
            starts_besides: false,
            health: None,
            hooks: Hooks::default(),
            lists: Lists::Complete,
            level_words: &[],
            unsafe_settings: &[],
            in_kubernetes: None,
        }
    }
}

/// Values of a flag that is unsafe when it is on; empty without a value.
pub(crate) const ON: &[&str] = &["", "true", "t", "1"];

/// Where the program of a kind comes from.
#[derive(Debug, Clone, Copy)]
pub enum Origin {
    /// It is found or fetched by a recipe.
    Recipe(&'static Recipe),
    /// Several products speak the same protocol. The option [`PRODUCT`] names the recipe; the first if it is not set.
    Products(&'static [&'static Recipe]),
    /// It is part of bakeoff.
    Bakeoff,
    /// The study says where it is; in words.
    Study(&'static str),
}

impl Origin {
    /// Returns the recipes of all its products, the default first; none if bakeoff does not fetch its program.
    pub fn recipes(&self) -> &[&'static Recipe] {
        match self {
            Self::Recipe(recipe) => std::slice::from_ref(recipe),
            Self::Products(recipes) => recipes,
            Self::Bakeoff | Self::Study(_) => &[],
        }
    }

    /// Returns the recipe of the default product.
    pub fn recipe(&self) -> Option<&'static Recipe> {
        self.recipes().first().copied()
    }

    /// Returns the recipe of the product that a study asks for.
    pub(crate) fn recipe_for(&self, asked: &study::System) -> Option<&'static Recipe> {
        let product = option(asked, PRODUCT);
        let named = self.recipes().iter().find(|recipe| Some(recipe.system) == product);
        named.copied().or_else(|| self.recipe())
    }
}

/// The guarantees of a system under its options.
#[derive(Clone, Copy)]
pub(crate) struct GuaranteeRules {
    /// Says it in words, and where an acknowledged write is. What reads return is taken from
    /// `freshness`. A part's guarantees are its system's affair.
    pub(crate) guarantees: fn(&study::System) -> Guarantees,
    /// Says what reads that are asked for like this return.
    pub(crate) freshness: fn(&study::System, ReadConsistency) -> Freshness,
}

impl Default for GuaranteeRules {
    fn default() -> Self {
        Self { guarantees: |_| Guarantees::default(), freshness: |_, _| Freshness::NodeAsked }
    }
}

impl fmt::Debug for GuaranteeRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guarantees")
    }
}

/// How complete a system's lists are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lists {
    /// They have every key that was there before they were asked for.
    Complete,
    /// They may lack keys that are written while they are made.
    ShortBesideWriters,
}

/// How clients speak to a system.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clients {
    /// Whether they speak HTTP/1.1, so that other tools for HTTP can load it. What takes a workload's
    /// requests does in any case.
    pub(crate) http: bool,
    /// How they say who they are; not at all by default.
    pub authentication: Option<&'static str>,
    /// The protocols to offer over TLS (RFC 7301); none by default.
    pub alpn: &'static [&'static [u8]],
    /// When TLS begins; at once by default.
    pub tls_begins: TlsBegins,
}

/// Where a load balancer asks a node over HTTP whether it may be sent requests; the answer is yes
/// when it is 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Health {
    /// The path that answers 200 on the node that leads only.
    pub(crate) leader: &'static str,
    /// The path that answers 200 on every node that can serve.
    pub(crate) any: &'static str,
}

type PrepareParts = fn(&study::System, &[Neighbour]) -> Result<(), SystemError>;
type Settle = fn(&[Access]) -> Result<(), SystemError>;
type Account = fn(&[Access]) -> Option<Box<dyn FnOnce() -> Audit>>;
type Limit = fn(&Access) -> Option<ConnectionLimit>;
type Snapshot = fn(&Access) -> Option<Result<ConfigSnapshot, SystemError>>;

/// Capabilities of some kinds; each is `None` for those without it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hooks {
    /// Makes what the nodes need of the parts behind them, which are ready: a bucket, tables.
    pub prepare_parts: Option<PrepareParts>,
    /// Waits until what was acknowledged is on all nodes, for a system that hands it on after it has
    /// acknowledged it and has no leader to ask; an error tells which nodes lack it, or hold
    /// something else for good. Called once all keys are written, and before what was acknowledged is
    /// read back.
    pub(crate) settle: Option<Settle>,
    /// Counts what is held against each other once a load is over, before it begins: what was let
    /// through, and what was granted. What it returns counts again and says what it found.
    pub account: Option<Account>,
    /// Returns what a node has been told by another server since it runs, and is in force; `None` where
    /// nobody tells it anything. It has to be the same after a load as before.
    pub(crate) config_snapshot: Option<Snapshot>,
    /// Returns the most connections that a node takes from one address; `None` if there is no limit, or the node does not
    /// say.
    pub connection_limit: Option<Limit>,
    /// Takes along what sessions need of the memory of a cluster, for generators on other machines.
    pub(crate) carried: Option<CarriedMemory>,
}

/// The most connections that a server takes from one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimit {
    /// The number of connections.
    pub connections: u64,
    /// The setting that says so, as its documentation names it.
    pub setting: &'static str,
}

/// Returns how many clients of one machine write or read outside of a load: `most`, or half of what a node takes if
/// that is less.
pub fn fitting_clients(system: &dyn System, nodes: &[Access], most: u32) -> u32 {
    let limit_of = system.declares().hooks.connection_limit;
    let limits = nodes.iter().filter_map(|node| Some(limit_of?(node)?.connections / 2));
    limits.map(|half| u32::try_from(half).unwrap_or(most)).fold(most, u32::min).max(1)
}

/// A kind in the manifests for a Kubernetes cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InKubernetes {
    /// Its role there.
    pub does: Does,
    /// The options that the manifests carry out, each with the one value that they can have; any value
    /// where that is `None`.
    pub carries: &'static [(&'static str, Option<&'static str>)],
}

/// The role of a kind in a Kubernetes cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// It answers requests.
    Answers,
    /// It passes requests on to what answers.
    PassesOn,
    /// It tells gateways and sidecars what to do.
    Controls(Plane),
}

/// Whose mesh it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plane {
    /// Consul's.
    Consul,
    /// Istio's.
    Istio,
}

/// Answers that follow from a declaration.
impl dyn System + '_ {
    /// Returns its name and what a study may ask of it.
    pub fn kind(&self) -> Kind {
        self.declares().kind
    }

    /// Returns what it guarantees under these options.
    pub fn guarantees(&self, asked: &study::System) -> Guarantees {
        let Declaration { kind, guarantees, .. } = self.declares();
        let freshness = |&reads: &ReadConsistency| (reads, (guarantees.freshness)(asked, reads));
        let freshness = kind.reads.iter().map(freshness).collect();
        Guarantees { freshness, ..(guarantees.guarantees)(asked) }
    }

    /// Says what reads that are asked for like this return.
    pub fn freshness(&self, asked: &study::System, reads: ReadConsistency) -> Freshness {
        (self.declares().guarantees.freshness)(asked, reads)
    }

    /// Returns whether reads of this kind may return something older than was acknowledged.
    pub fn may_be_stale(&self, asked: &study::System, reads: ReadConsistency) -> bool {
        self.freshness(asked, reads) == Freshness::NodeAsked
    }

    /// Returns whether its clients speak HTTP/1.1, so that other tools for HTTP can load it.
    pub fn speaks_http(&self) -> bool {
        let Declaration { kind, clients, .. } = self.declares();
        clients.http || kind.takes_requests()
    }

    /// Waits until what was acknowledged is on all nodes.
    pub fn settle(&self, nodes: &[Access]) -> Result<(), SystemError> {
        self.declares().hooks.settle.map_or(Ok(()), |settle| settle(nodes))
    }

    /// Returns what a node has been told by another server.
    pub fn config_snapshot(&self, node: &Access) -> Option<Result<ConfigSnapshot, SystemError>> {
        self.declares().hooks.config_snapshot.and_then(|snapshot| snapshot(node))
    }
}
