//! Declares a kind of system as data.
//!
//! Code that depends on a kind reads its declaration and never compares names. Studies are checked against it, and the
//! tables and the command line derive from it. A capability of some kinds is a function that other kinds leave out.
//!
//! Not here: the functions of every kind ([`System`]), the list of kinds (`registry`).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_core::check::Audit;
use bakeoff_core::log_findings::LevelWord;
use bakeoff_core::record::{Freshness, Guarantees};
use bakeoff_core::study::fault::MaintenanceRun;
use bakeoff_core::study::{self, Kind, Maintenance, ReadConsistency, Watchers};
use bakeoff_core::watch::Watches;
use bakeoff_engine::EngineError;
use bakeoff_engine::transport::TlsBegins;
use bakeoff_engine::watch::{
    SharedVersions, StudyWatchers, VersionObserver, WatchSession, WatchSettings,
};
use bakeoff_engine::works::keyed::KeyedState;
use bakeoff_install::Recipe;

use super::carried_access::CarriedMemory;
use super::exchange::Patience;
use super::route_change::RouteChange;
use super::{Access, ConfigSnapshot, Neighbour, System, SystemError};

/// Declaration of a kind.
#[derive(Debug, Clone)]
pub struct Declaration {
    /// Name, operations and options.
    pub kind: Kind,
    /// Source of its program.
    pub origin: Origin,
    /// Guarantees under its options.
    pub(crate) guarantees: GuaranteeRules,
    /// Protocol of its clients.
    pub clients: Clients,
    /// Longest time from start to ready. Electing a leader takes most of it.
    pub ready_within: Duration,
    /// Part whose locations its nodes share, for a kind that must run on that part's machine. A sidecar runs next to its
    /// application. `None` if the nodes may run anywhere.
    pub located_with: Option<&'static str>,
    /// True if its program starts the processes next to other servers, as Istio's agent starts a sidecar.
    pub(crate) starts_adjacent: bool,
    /// True if its nodes can announce another address than they listen on. A relay can then stand before each.
    pub announces: bool,
    /// Health checks of a load balancer; `None` if none can stand in front of it.
    pub(crate) health: Option<Health>,
    /// Optional capabilities.
    pub hooks: Hooks,
    /// Completeness of its lists.
    pub lists: Lists,
    /// Words for levels in its log, besides the common ones (`[error]`, `level=warn`, `ERROR`).
    pub(crate) level_words: &'static [LevelWord],
    /// Settings that switch off syncs, by name and unsafe values in lower case. They may be arguments or environment
    /// variables. A running server with one of them loses its guarantee of disks.
    pub unsafe_settings: &'static [(&'static str, &'static [&'static str])],
    /// Role in a Kubernetes cluster; `None` if bakeoff writes no manifests for it.
    pub in_kubernetes: Option<InKubernetes>,
}

impl Declaration {
    /// Declares a kind with only its options and its source; all other fields have defaults.
    pub(crate) fn new(kind: Kind, origin: Origin) -> Self {
        Self {
            kind,
            origin,
            guarantees: GuaranteeRules::default(),
            clients: Clients::default(),
            ready_within: Duration::from_secs(60),
            located_with: None,
            starts_adjacent: false,
            announces: false,
            health: None,
            hooks: Hooks::default(),
            lists: Lists::Complete,
            level_words: &[],
            unsafe_settings: &[],
            in_kubernetes: None,
        }
    }
}

/// Unsafe values of a flag that is unsafe when on; the empty text stands for no value.
pub(crate) const ON: &[&str] = &["", "true", "t", "1"];

/// Source of a kind's program.
#[derive(Debug, Clone, Copy)]
pub enum Origin {
    /// A recipe finds or fetches it.
    Recipe(&'static Recipe),
    /// The system's options select one of several recipes. The default is the first.
    Recipes {
        /// All recipes, at least one.
        all: &'static [&'static Recipe],
        /// Returns the name of the recipe for a system with these options; `None` for the default.
        select: fn(&study::System) -> Option<&str>,
    },
    /// It is part of bakeoff.
    Bakeoff,
    /// The study gives its location, described by this text.
    Study(&'static str),
}

impl Origin {
    /// Returns all recipes, the default first. Empty if bakeoff does not fetch the program.
    pub fn recipes(&self) -> &[&'static Recipe] {
        match self {
            Self::Recipe(recipe) => std::slice::from_ref(recipe),
            Self::Recipes { all, .. } => all,
            Self::Bakeoff | Self::Study(_) => &[],
        }
    }

    /// Returns the default recipe.
    pub fn recipe(&self) -> Option<&'static Recipe> {
        self.recipes().first().copied()
    }

    /// Returns the recipe that a system's options select.
    pub(crate) fn recipe_for(&self, system: &study::System) -> Option<&'static Recipe> {
        let selected = match self {
            Self::Recipes { select, .. } => select(system),
            _ => None,
        };
        let named = self.recipes().iter().find(|recipe| Some(recipe.system) == selected);
        named.copied().or_else(|| self.recipe())
    }
}

/// Functions that compute a system's guarantees from its options.
#[derive(Clone, Copy)]
pub(crate) struct GuaranteeRules {
    /// Returns the guarantees in words, and the durability of an acknowledged write. `freshness` gives the rest. The
    /// system of a part answers for the part.
    pub(crate) guarantees: fn(&study::System) -> Guarantees,
    /// Returns the freshness of reads with this consistency.
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

/// Completeness of a system's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lists {
    /// Each list has every key written before the request.
    Complete,
    /// A list may lack keys that are written while it is made.
    ShortNextToWriters,
}

/// Protocol of a system's clients.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clients {
    /// True if they speak HTTP/1.1, so that other HTTP tools can load it. Kinds that take a workload's requests always
    /// do.
    pub(crate) http: bool,
    /// Form of their authentication; none by default.
    pub authentication: Option<&'static str>,
    /// Protocols to offer over TLS (RFC 7301); none by default.
    pub alpn: &'static [&'static [u8]],
    /// Start of TLS; immediately by default.
    pub tls_begins: TlsBegins,
}

/// Paths at which a load balancer checks a node over HTTP. The node is healthy if it answers 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Health {
    /// Path that answers 200 only on the leader.
    pub(crate) leader: &'static str,
    /// Path that answers 200 on every node that can serve.
    pub(crate) any: &'static str,
}

type PrepareParts = fn(&study::System, &[Neighbour]) -> Result<(), SystemError>;
type Settle = fn(&[Access]) -> Result<(), SystemError>;
type Account = fn(&[Access]) -> Option<Box<dyn FnOnce() -> Audit>>;
type Limit = fn(&Access) -> Option<ConnectionLimit>;
type Maintain = fn(&Access, &MaintenanceRun, Patience<'_>) -> Result<String, SystemError>;
type ChangeRoutes = fn(&Access) -> Result<RouteChange, SystemError>;
type WatchSessions = fn(&Access) -> Box<dyn WatchSession>;
type Snapshot = fn(&Access) -> Option<Result<ConfigSnapshot, SystemError>>;

/// Optional capabilities; `None` for a kind without one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hooks {
    /// Creates the objects that nodes need in their ready parts, such as a bucket or tables.
    pub prepare_parts: Option<PrepareParts>,
    /// Waits until all nodes have every acknowledged write, for a system that replicates after the acknowledgement and
    /// has no leader. The error names the nodes that lack writes or hold other values for good. Called after all keys
    /// are written and before the read-back.
    pub(crate) settle: Option<Settle>,
    /// Counts before a load the events that an audit compares, such as served and granted requests. The returned
    /// function counts again after the load and audits the difference.
    pub account: Option<Account>,
    /// Returns the configuration in force that another server has given to a node; `None` if there is no such server.
    /// It must be the same before and after a load.
    pub(crate) config_snapshot: Option<Snapshot>,
    /// Runs maintenance that the kind offers, on this node or through it, until it is done. Returns the evidence of its
    /// success, as in `the database had 12 MiB before and 4 MiB after`.
    pub(crate) maintain: Option<Maintain>,
    /// Returns the next change of a gateway's routes.
    pub(crate) change_routes: Option<ChangeRoutes>,
    /// Creates a session for watchers of a node.
    pub(crate) watch: Option<WatchSessions>,
    /// Returns how a node notifies watchers if its configuration changes that.
    pub(crate) other_watches: Option<fn(&Access) -> Option<Watches>>,
    /// Returns a node's limit of connections per address; `None` if there is no limit, or it is unknown.
    pub connection_limit: Option<Limit>,
    /// Transfers the values that sessions need to generators on other machines.
    pub(crate) carried: Option<CarriedMemory>,
}

/// Returns the error of an operation that the kind does not offer. The study parser refuses it earlier.
pub(crate) fn never_offered(node: &Access, operation: Maintenance) -> SystemError {
    SystemError::answered(node, format_args!("it does not offer `{operation}`"))
}

/// Limit of connections that a server accepts from one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimit {
    /// Number of connections.
    pub connections: u64,
    /// Setting with the limit, as the server documents it.
    pub setting: &'static str,
}

/// Returns the number of clients on one machine for work outside of a load: `most`, or half of a node's limit if that
/// is less.
pub fn fitting_clients(system: &dyn System, nodes: &[Access], most: u32) -> u32 {
    let limit_of = system.declares().hooks.connection_limit;
    let limits = nodes.iter().filter_map(|node| Some(limit_of?(node)?.connections / 2));
    limits.map(|half| u32::try_from(half).unwrap_or(most)).fold(most, u32::min).max(1)
}

/// A kind in manifests for a Kubernetes cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InKubernetes {
    /// Role in the cluster.
    pub does: KubernetesRole,
    /// Options that the manifests support, each with its only possible value, or `None` if any value works.
    pub carries: &'static [(&'static str, Option<&'static str>)],
}

/// Role of a kind in a Kubernetes cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KubernetesRole {
    /// Answers requests.
    Answers,
    /// Passes requests on to another service.
    PassesOn,
    /// Configures gateways and sidecars.
    Controls(Plane),
}

/// Product of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plane {
    /// Consul.
    Consul,
    /// Istio.
    Istio,
}

/// Functions derived from a declaration.
impl dyn System + '_ {
    /// Returns the name, operations and options.
    pub fn kind(&self) -> Kind {
        self.declares().kind
    }

    /// Returns the guarantees under these options.
    pub fn guarantees(&self, system: &study::System) -> Guarantees {
        let Declaration { kind, guarantees, .. } = self.declares();
        let freshest = (!kind.reads.is_empty()).then_some(ReadConsistency::Freshest);
        let reads = kind.reads.iter().copied().chain(freshest);
        let freshness = reads.map(|reads| (reads, self.freshness(system, reads))).collect();
        Guarantees { freshness, ..(guarantees.guarantees)(system) }
    }

    /// Returns the freshness of reads with this consistency.
    pub fn freshness(&self, system: &study::System, reads: ReadConsistency) -> Freshness {
        (self.declares().guarantees.freshness)(system, reads.of_request())
    }

    /// Returns true if reads may return values older than the last acknowledged write.
    pub fn may_be_stale(&self, system: &study::System, reads: ReadConsistency) -> bool {
        self.freshness(system, reads) == Freshness::NodeAsked
    }

    /// Returns true if its clients speak HTTP/1.1, so that other HTTP tools can load it.
    pub fn speaks_http(&self) -> bool {
        let Declaration { kind, clients, .. } = self.declares();
        clients.http || kind.takes_requests()
    }

    /// Waits until all nodes have every acknowledged write.
    pub fn settle(&self, nodes: &[Access]) -> Result<(), SystemError> {
        self.declares().hooks.settle.map_or(Ok(()), |settle| settle(nodes))
    }

    /// Runs maintenance on a node, or through it for the whole system. Returns the evidence of its success.
    ///
    /// # Errors
    /// If the system refuses, fails, or does not answer in time.
    pub fn maintain(
        &self,
        node: &Access,
        run: &MaintenanceRun,
        patience: Patience<'_>,
    ) -> Result<String, SystemError> {
        match self.declares().hooks.maintain {
            Some(maintain) => maintain(node, run, patience),
            None => Err(never_offered(node, run.operation)),
        }
    }

    /// Returns the next change of a gateway's routes.
    ///
    /// # Errors
    /// If the node is no gateway.
    pub fn change_routes(&self, node: &Access) -> Result<RouteChange, SystemError> {
        match self.declares().hooks.change_routes {
            Some(change) => change(node),
            None => Err(never_offered(node, Maintenance::ChangeRoutes)),
        }
    }

    /// Creates all watchers of a workload at `nodes`, and returns once they exist. `None` if the kind has no watches.
    ///
    /// # Errors
    /// If a node cannot be reached or refuses a watcher, or the user interrupts.
    pub fn watch(
        &self,
        nodes: &[Access],
        watchers: &Watchers,
        keyed: &Arc<KeyedState>,
        versions: &Arc<SharedVersions>,
        interrupted: &AtomicBool,
    ) -> Result<Option<StudyWatchers>, EngineError> {
        let Declaration { kind, hooks, .. } = self.declares();
        let (Some(watches), Some(connect)) = (kind.watches, hooks.watch) else { return Ok(None) };
        let other = hooks.other_watches.zip(nodes.first()).and_then(|(of, node)| of(node));
        let watches = other.unwrap_or(watches);
        let settings = WatchSettings::for_study(watchers, &watches);
        let of_session = nodes.to_vec();
        let session = Box::new(move |node: usize| connect(&of_session[node]));
        let peers = nodes.iter().map(Access::peer).collect();
        let (keyed, versions) = (Arc::clone(keyed), Arc::clone(versions));
        let observer = VersionObserver::new(keyed, versions, watches, watchers);
        StudyWatchers::start(peers, settings, observer, session, interrupted).map(Some)
    }

    /// Returns the configuration that another server has given to a node.
    pub fn config_snapshot(&self, node: &Access) -> Option<Result<ConfigSnapshot, SystemError>> {
        self.declares().hooks.config_snapshot.and_then(|snapshot| snapshot(node))
    }
}
