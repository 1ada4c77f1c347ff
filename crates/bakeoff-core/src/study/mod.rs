//! What is asked: systems × workloads × loads, a number of trials, and published figures.
//!
//! The types here are a study after reading: defaults filled in, units resolved, every combination
//! checked. They are what the record keeps. `parse` turns YAML into them and is the only
//! place that knows file, line and column.
//!
//! Not here: which trials follow from a study, and in which order (`plan`); what a kind of system
//! can do (the binary's `systems`, handed to `parse` as [`Kind`]s).

mod diagnostic;
mod fields;
mod gate;
mod names;
mod parse;
mod reading;
mod scale;
pub mod schema;
pub mod shipped;
#[cfg(test)]
mod testing;
mod tree;

pub use diagnostic::{Diagnostic, Diagnostics, Place};
pub use gate::{BUILDS, Build, NoGate};
pub use parse::parse;
pub use reading::suggest;
pub use tree::STUDY_SIZE_MAX;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::condition::{Condition, Misread};
use crate::units;

/// A study, resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// The study's name: its file's stem, `kv-stores`.
    pub name: String,
    /// What it compares, in a line.
    pub title: String,
    /// What a reader should know of it, in a paragraph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The contenders, in the order of the file.
    pub systems: Vec<System>,
    /// What clients do.
    pub workloads: Vec<Workload>,
    /// How hard they do it.
    pub loads: Vec<Load>,
    /// How often each combination is run.
    pub trials: u32,
    /// How many acknowledged keys an audit reads back: all of them up to here, else a sample.
    pub audit_keys: u64,
    /// When its nodes are killed for the audit after a kill; `None`: as is usual for the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill: Option<Kill>,
    /// Time between two looks at what nodes use.
    #[serde(default = "sample_every", with = "units::duration")]
    pub sample_every: Duration,
    /// What each trial begins on.
    #[serde(default)]
    pub clusters: Clusters,
    /// Where the published figures come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publication: Option<Publication>,
    /// Figures from the literature, shown beside ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// By how much the counts of the file were shrunk: 1 is the study as it stands in the file.
    pub scale: f64,
}

impl Study {
    /// Returns whether any servers are started on this machine.
    pub fn starts_any(&self) -> bool {
        self.systems.iter().any(System::is_started)
    }
}

/// What records from before it was asked for were made with.
fn sample_every() -> Duration {
    Duration::from_secs(1)
}

/// No finer: a look at three servers takes about a millisecond.
pub const SAMPLE_EVERY_MIN: Duration = Duration::from_millis(100);

/// When all nodes are killed whose acknowledged writes are read back after their restart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kill {
    /// After the load was read back, while nobody asks them anything.
    #[default]
    AtRest,
    /// In the midst of further writes, which nobody measures.
    UnderLoad,
}

/// What each trial begins on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clusters {
    /// Servers started for it, with no data.
    #[default]
    Fresh,
    /// The servers that the system's first trial started, cleared of what earlier trials wrote.
    Kept,
}

/// A contender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct System {
    /// The study's own name for it.
    pub name: String,
    /// Which folder of `systems/` knows it: `etcd`, `zookeeper`, `consul`, `canary`.
    pub kind: String,
    /// The version asked for; a prefix of dotted numbers (`3.6`) takes the newest known match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// A program of the user's own, in place of whatever `install` would find.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// How many nodes to start; the number of `endpoints` where they are given.
    pub nodes: u32,
    /// Settings that this kind of system knows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// What each node may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Whose its servers are: bakeoff's, or somebody else's that run already.
    #[serde(default, rename = "endpoints", skip_serializing_if = "Servers::are_started")]
    pub servers: Servers,
    /// How TLS endpoints are verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// What else it is made of, by the role that each part plays: its storage, its balancer. A
    /// part's name is the system's and the role, `on-consul-storage`; parts have no parts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, System>,
    /// The command that it is, for a kind that runs whatever it is told to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
}

/// Whose a system's servers are. In a study and in a record it is the list of `endpoints`, which is
/// absent where bakeoff starts them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Endpoint>", into = "Vec<Endpoint>")]
pub enum Servers {
    /// bakeoff starts, kills and stops them.
    #[default]
    Started,
    /// They run at these addresses, and nothing of them is started or stopped.
    Running(Vec<Endpoint>),
}

impl Servers {
    fn are_started(&self) -> bool {
        matches!(self, Self::Started)
    }
}

impl From<Vec<Endpoint>> for Servers {
    fn from(endpoints: Vec<Endpoint>) -> Self {
        if endpoints.is_empty() { Self::Started } else { Self::Running(endpoints) }
    }
}

impl From<Servers> for Vec<Endpoint> {
    fn from(servers: Servers) -> Self {
        match servers {
            Servers::Started => Vec::new(),
            Servers::Running(endpoints) => endpoints,
        }
    }
}

/// A command that serves, and how to tell that it does.
///
/// In its words, its environment and its files `{port}` stands for the port that clients connect to,
/// `{port:NAME}` for another one of its own, `{dir}` for the folder of its data, `{here}` for the
/// folder that bakeoff was started in, `{node}` for its name and `{ROLE}` for the address of a part,
/// `127.0.0.1:8080`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What its environment holds beyond `PATH` and the like; `$NAME` is what bakeoff's own holds,
    /// so that a record has no secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Files that are written before it starts, by their paths in its folder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// The path that answers with a success once it can serve; without one, that it takes a
    /// connection is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
}

impl System {
    /// Returns whether its servers are started for it; else it runs already.
    pub fn is_started(&self) -> bool {
        self.servers.are_started()
    }

    /// Returns where it runs already; nothing for a system that is started.
    pub fn endpoints(&self) -> &[Endpoint] {
        match &self.servers {
            Servers::Started => &[],
            Servers::Running(endpoints) => endpoints,
        }
    }

    /// Returns how many nodes run for it, those of its parts among them.
    pub fn nodes_in_all(&self) -> u32 {
        self.nodes + self.parts.values().map(|part| part.nodes).sum::<u32>()
    }
}

/// One address of a system that already runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Whether it is spoken to over TLS (`https://`).
    pub tls: bool,
    /// A name or an address, without brackets.
    pub host: String,
    /// Its TCP port.
    pub port: u16,
}

/// Which certificates are trusted and shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tls {
    /// PEM file of the authorities to trust, in place of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// PEM file of the client's certificate chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// PEM file of the client's private key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Accept any certificate; said in the report.
    #[serde(default)]
    pub insecure: bool,
}

/// CPU and memory of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// In cores: 0.5 is half of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// In bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<units::ByteCount>,
    /// The CPUs that it may run on, by their numbers; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
}

/// What the clients do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The study's own name for it.
    pub name: String,
    /// Operations and their weights, which need not add up to 100; no weight is zero.
    pub mix: BTreeMap<Operation, u32>,
    /// Which keys.
    pub keys: Keys,
    /// Size of a value in bytes; at least [`crate::workload::VALUE_SIZE_MIN`].
    pub value_size: u64,
    /// What the operations are done with, beyond keys and values: settings that the kinds of system
    /// know, such as the type of a key to sign with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, String>,
    /// How fresh a `get` or `list` must be.
    pub reads: ReadConsistency,
    /// What a `request` asks for over HTTP, and what its answer must be.
    #[serde(default, skip_serializing_if = "HttpRequest::is_plain")]
    pub request: HttpRequest,
    /// Whether all keys are written before the load begins, unmeasured.
    pub fill: bool,
    /// Names of the loads that this workload is put under; all loads of the study by default.
    pub loads: Vec<String>,
    /// Names of the systems that are put to this work; none: all of the study.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub systems: Vec<String>,
}

/// A request over HTTP, and what must come back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpRequest {
    /// `GET`.
    pub method: String,
    /// Path and query; `{key}` in it is the number of the key.
    pub path: String,
    /// Headers beyond `Host` and those of the body; `$NAME` is what bakeoff's environment holds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Whether it is asked over HTTP/2, which has as many requests under way on a connection as the load
    /// says; else over HTTP/1.1.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub http2: bool,
    /// What is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The status of a right answer.
    pub status: u16,
    /// How long the body of a right answer is, in bytes; any length when `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_size: Option<u64>,
    /// What the body of a right answer holds; anything when `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
}

impl Default for HttpRequest {
    /// `GET /`, to be answered 200.
    fn default() -> Self {
        Self {
            method: "GET".to_owned(),
            path: "/".to_owned(),
            headers: BTreeMap::new(),
            http2: false,
            body: None,
            status: 200,
            body_size: None,
            contains: None,
        }
    }
}

impl HttpRequest {
    /// Returns whether it is the one of a workload that says nothing of it.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// An operation: those of a key-value store first, then those of a secret store, then those of a
/// gateway and what it asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Create or update one key.
    Put,
    /// Read one key.
    Get,
    /// Remove one key.
    Delete,
    /// The names in one directory of keys.
    List,
    /// Exchange a name and a password for a token.
    LoginUserpass,
    /// Exchange a role's id and secret for a token.
    LoginApprole,
    /// Ask what one's own token is worth.
    LookupToken,
    /// Have a text encrypted by a key that stays with the server.
    Encrypt,
    /// Have it decrypted again.
    Decrypt,
    /// Have a text signed by a key that stays with the server.
    Sign,
    /// Have a key pair made and certified.
    IssueCertificate,
    /// Have a key of one's own certified.
    SignCertificate,
    /// Have a user of a database made.
    IssueCredentials,
    /// Read a policy.
    ReadPolicy,
    /// Read the settings of a mount.
    ReadMount,
    /// Create one key that is not there yet.
    Insert,
    /// Ask for a sign of life.
    Ping,
    /// Ask whether a session may have a resource, which it may.
    CheckAccess,
    /// Ask for what the workload's `request` says, over HTTP.
    Request,
    /// Ask for what one may not have; a refusal alone is right.
    Denied,
}

impl Workload {
    /// Returns whether clients write, so that there is something to audit.
    pub fn writes(&self) -> bool {
        self.mix.keys().any(|operation| operation.writes())
    }

    /// Returns whether a system is put to this work.
    pub fn is_done_by(&self, system: &System) -> bool {
        self.systems.is_empty() || self.systems.contains(&system.name)
    }

    /// Returns whether clients read.
    pub fn reads_any(&self) -> bool {
        self.mix.keys().any(|operation| operation.reads())
    }
}

impl Operation {
    /// Returns whether it changes what is stored under a key.
    pub fn writes(self) -> bool {
        matches!(self, Self::Put | Self::Insert | Self::Delete)
    }

    /// Returns whether it works on a text that its clients send or are sent.
    pub fn takes_text(self) -> bool {
        matches!(self, Self::Encrypt | Self::Decrypt | Self::Sign)
    }

    /// Returns whether it reads what is stored under keys.
    pub fn reads(self) -> bool {
        matches!(self, Self::Get | Self::List)
    }
}

/// Which keys a workload touches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Keys {
    /// How many different ones.
    pub count: u64,
    /// Length of each key's name in bytes; at least [`crate::workload::KEY_SIZE_MIN`].
    pub size: u64,
    /// In which order.
    pub order: KeyOrder,
    /// How many keys share a directory: what one `list` returns. 0: no directories.
    pub per_directory: u64,
}

/// The order in which keys are touched.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyOrder {
    /// 0, 1, 2, …, and again from 0.
    Sequential,
    /// Every key once, in scrambled order, warm-up included. More operations than keys is an error:
    /// of the study where that can be foreseen, else of the trial that runs out of them (a closed
    /// load that ends by time).
    Unique,
    /// Each as likely as any other.
    Uniform,
    /// Zipf's law: the n-th most popular key has weight n^-exponent.
    Zipfian {
        /// 0.99 unless the study says otherwise.
        exponent: f64,
    },
    /// The first key always.
    Same,
}

/// What a read is allowed to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadConsistency {
    /// The newest acknowledged value, as if there were one copy.
    Linearizable,
    /// What the system's clients do when they ask for nothing.
    Default,
    /// Whatever the node asked has at hand.
    Stale,
}

/// How hard the clients work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The study's own name for it.
    pub name: String,
    /// The number of clients, stage after stage on the same cluster; one stage unless a sweep. An
    /// open load has exactly one stage.
    pub clients: Vec<u32>,
    /// Clients for one system in place of `clients`, by the system's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clients_for: BTreeMap<String, Vec<u32>>,
    /// When operations are due.
    pub arrivals: Arrivals,
    /// Operations each client may have under way at once.
    pub in_flight: u32,
    /// When the load, all stages together, ends. Stages share it evenly.
    pub stop: Stop,
    /// Time before measuring begins, in each stage.
    #[serde(with = "units::duration")]
    pub warmup: Duration,
    /// After this long without an answer an operation has failed.
    #[serde(with = "units::duration")]
    pub timeout: Duration,
    /// Which nodes the clients connect to, in turn.
    pub targets: Routing,
    /// Whether clients keep their connections; else each operation has one of its own.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub keep_alive: bool,
    /// Whether a client that connects again takes up its TLS session; else each connection is a
    /// first visit.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub tls_resumption: bool,
    /// From which share of failed operations on, 0 to 1, a trial says more of the failures than of the
    /// system, and does not count.
    #[serde(default = "errors_max", skip_serializing_if = "is_errors_max")]
    pub errors_max: f64,
    /// What the rate is looked for that keeps it; `arrivals` has the rate to begin with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find: Option<Find>,
}

/// A search for the highest rate that keeps an objective: an open load at one rate after the other,
/// each for the load's time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Find {
    /// What has to hold, all of it, each readable as a [`crate::condition::Condition`]: `p99 < 50ms`.
    pub objective: Vec<String>,
}

impl Find {
    /// The objective, read; an error tells what is no condition. Reading a study finds none.
    pub fn conditions(&self) -> Result<Vec<Condition>, Misread> {
        self.objective.iter().map(|text| text.parse()).collect()
    }

    /// The objective in words: `p99 < 50ms and errors < 1%`.
    pub fn text(&self) -> String {
        self.objective.join(" and ")
    }
}

/// The share of failed operations that a trial may have where its load says nothing of it.
pub const ERRORS_MAX: f64 = 0.1;

fn errors_max() -> f64 {
    ERRORS_MAX
}

fn is_errors_max(share: &f64) -> bool {
    *share == ERRORS_MAX
}

fn yes() -> bool {
    true
}

fn is_yes(flag: &bool) -> bool {
    *flag
}

/// When operations are due.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Arrivals {
    /// A closed load: a client's next operation is due when its last one ended.
    Closed,
    /// An open load at equal distances.
    Constant {
        /// Operations per second, all clients together.
        rate: f64,
    },
    /// An open load whose distances are exponentially distributed.
    Poisson {
        /// Operations per second, all clients together.
        rate: f64,
    },
}

impl Arrivals {
    /// Operations that fall due per second, all clients together; none for a closed load.
    pub fn rate(self) -> Option<f64> {
        match self {
            Arrivals::Closed => None,
            Arrivals::Constant { rate } | Arrivals::Poisson { rate } => Some(rate),
        }
    }

    /// The same at another rate, operations per second; a closed load has none.
    pub fn at(self, rate: f64) -> Self {
        match self {
            Arrivals::Closed => Arrivals::Closed,
            Arrivals::Constant { .. } => Arrivals::Constant { rate },
            Arrivals::Poisson { .. } => Arrivals::Poisson { rate },
        }
    }
}

/// When a load ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// After this time, warm-up not counted.
    After(#[serde(with = "units::duration")] Duration),
    /// After so many operations, warm-up not counted.
    Operations(u64),
}

/// Which nodes clients connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Targets {
    /// All of them, in turn.
    All,
    /// The leader only.
    Leader,
    /// All but the leader, in turn.
    Followers,
}

/// Which nodes clients connect to, by what they do there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Routing {
    /// The same for all operations.
    Same(Targets),
    /// Some for writes and others for reads, by clients of their own.
    Split {
        /// Where writes go.
        writes: Targets,
        /// Where reads go.
        reads: Targets,
    },
}

impl Routing {
    /// Returns where operations go that write, or that do not.
    pub fn choose(self, writes: bool) -> Targets {
        match self {
            Self::Same(targets) => targets,
            Self::Split { writes: targets, .. } if writes => targets,
            Self::Split { reads: targets, .. } => targets,
        }
    }

    /// Returns whether writes and reads go to nodes of their own.
    pub fn is_split(self) -> bool {
        matches!(self, Self::Split { .. })
    }
}

/// Where published figures come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publication {
    /// What it is called, and when it appeared.
    pub title: String,
    /// What it ran on.
    pub hardware: String,
    /// Which versions it compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<String>,
}

/// One figure from the literature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Name of one of the study's systems.
    pub system: String,
    /// Name of one of its workloads.
    pub workload: String,
    /// Name of one of its loads.
    pub load: String,
    /// Of which operation of the mix it is; of all together when `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// What was measured.
    pub metric: Metric,
    /// Its value in the metric's own unit.
    pub value: f64,
    /// What else the publication says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A figure that a table can show. The name carries the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each name says what it is")]
pub enum Metric {
    Seconds,
    Requests,
    ThroughputMax,
    ThroughputMean,
    ThroughputMin,
    LatencyMinMs,
    LatencyMeanMs,
    LatencyMaxMs,
    LatencyP10Ms,
    LatencyP25Ms,
    LatencyP50Ms,
    LatencyP75Ms,
    LatencyP90Ms,
    LatencyP95Ms,
    LatencyP99Ms,
    LatencyP999Ms,
    Errors,
    ServerCpuMaxPercent,
    ServerMemoryMaxBytes,
}

/// What `parse` must know of a kind of system, so that asking it for what it lacks is an error with
/// a place, before anything is started.
#[derive(Debug, Clone)]
pub struct Kind {
    /// `etcd`.
    pub name: &'static str,
    /// What it can do; nothing, for what is only ever a part of other systems.
    pub operations: &'static [Operation],
    /// What workloads may say of its operations in their `with`.
    pub parameters: &'static [KindOption],
    /// The parts that it may have.
    pub roles: &'static [Role],
    /// Of which service it is no more than an emulation; a system with such a part must say so in
    /// its name.
    pub emulates: Option<&'static str>,
    /// Whether a system of this kind, otherwise well read, can be run; what is wrong with it, and
    /// what to write instead.
    pub sound: fn(&System) -> Result<(), (String, String)>,
    /// Why a system of this kind, as it is set up, cannot do what its kind can.
    pub lacks: fn(&System, Operation) -> Option<String>,
    /// How its reads can be had.
    pub reads: &'static [ReadConsistency],
    /// Its options: name, how a value is to look, what it means.
    pub options: &'static [KindOption],
    /// The most nodes that can be started.
    pub nodes_max: u32,
    /// Most bytes in a value, where the system has a limit of its own.
    pub value_size_max: u64,
    /// When its nodes are killed for the audit after a kill, where a study does not say.
    pub kill: Kill,
    /// Most operations under way on one session.
    pub in_flight_max: u32,
    /// Whether an operation can have a connection of its own, as with `keep-alive: off`.
    pub connection_each: bool,
    /// Whether it is whatever its `process` says, which must then be given, and must not otherwise.
    pub is_process: bool,
}

impl Kind {
    /// A kind of which nothing is known but its name: a part, of one node, with no options.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            operations: &[],
            parameters: &[],
            roles: &[],
            emulates: None,
            sound: |_| Ok(()),
            lacks: |_, _| None,
            reads: &[],
            options: &[],
            nodes_max: 1,
            value_size_max: u64::MAX,
            kill: Kill::AtRest,
            in_flight_max: 1,
            connection_each: true,
            is_process: false,
        }
    }

    /// Returns whether its clients ask it for what a workload's `request` says, rather than for operations of
    /// its own.
    pub fn takes_requests(&self) -> bool {
        self.operations.contains(&Operation::Request)
    }

    /// Returns whether it is only ever a part of other systems.
    pub fn is_part(&self) -> bool {
        self.operations.is_empty()
    }
}

/// A role that a part can play in a system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// `storage`.
    pub name: &'static str,
    /// The kinds that can play it.
    pub kinds: &'static [&'static str],
    /// Its tier.
    pub tier: Tier,
    /// What it does, in a line.
    pub meaning: &'static str,
}

/// Tier of a part, seen from the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Backend: the system needs it, so it is started first.
    Backend,
    /// Frontend: started last. Clients of a load with `targets: all` connect to it.
    Frontend,
}

/// One option of a kind of system.
#[derive(Debug, Clone, PartialEq)]
pub struct KindOption {
    /// `heap`.
    pub name: &'static str,
    /// How its value is read.
    pub form: OptionForm,
    /// What it does, in a line.
    pub meaning: &'static str,
}

/// How the value of an option is read.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionForm {
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number.
    Number,
    /// A size: `1GiB`.
    Size,
    /// A duration: `500ms`.
    Duration,
    /// A share: `1%` or `0.01`.
    Share,
    /// Any text.
    Text,
}
