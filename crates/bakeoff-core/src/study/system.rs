//! Systems of a study: what is compared, which servers they have and what each may use.
//!
//! Not here: what a kind of system can do (`kind`), how a system is read (`parse::systems`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::units;

/// A contender.
///
/// Its fields are those of a system in a study's file and in records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct System {
    /// The study's own name for it.
    pub name: String,
    /// Which folder of `bakeoff-systems` knows it: `etcd`, `zookeeper`, `consul`, `canary`.
    pub kind: String,
    /// The version asked for; a prefix of dotted numbers (`3.6`) takes the newest known match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// A program of the user's own, in place of whatever `install` would find.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Number of nodes to start; the number of `endpoints` where they are given.
    pub nodes: u32,
    /// Settings that this kind of system knows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Limits of each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Owner of its servers: bakeoff, or somebody else whose servers run already.
    #[serde(default, rename = "endpoints", skip_serializing_if = "Servers::are_started")]
    pub servers: Servers,
    /// Where its nodes tell CPU and memory, where it runs already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricsUrl>,
    /// Verification of TLS endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Who clients are to a system that runs already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// Its parts, by their roles: its storage, its balancer. A part's name is the system's and the role,
    /// `on-consul-storage`; parts have no parts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, System>,
    /// The command that it is, for a kind that runs whatever it is told to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
}

/// Owner of a system's servers. In a study and in a record it is the list of `endpoints`, which is absent
/// where bakeoff starts them.
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
/// In its words, its environment and its files `{address}` stands for the address that it is to listen
/// on, `{port}` for the port that clients connect to, `{port:NAME}` for another one of its own, `{dir}`
/// for the folder of its data, `{here}` for the folder that bakeoff was started in, `{node}` for its name
/// and `{ROLE}` for the address of a part, `127.0.0.1:8080`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Its environment beyond `PATH` and the like; `$NAME` is taken from bakeoff's own, so that a record has no
    /// secrets.
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
    /// Words how clients speak to it: the version of TLS, and whether they check certificates.
    pub fn tls_text(&self, version: String) -> String {
        match &self.tls {
            Some(Tls { insecure: true, .. }) => format!("{version}, certificates not checked"),
            _ => version,
        }
    }

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

    /// Returns the system itself, and then its parts.
    pub fn members(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.parts.values())
    }

    /// Returns how many nodes run for it, those of its parts among them.
    pub fn nodes_in_all(&self) -> u32 {
        self.members().map(|member| member.nodes).sum()
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

impl Endpoint {
    /// Returns host and port as URLs have them: `10.0.0.5:2379`, `[::1]:2379`.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Where a node that runs already tells its metrics, in Prometheus' text format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricsUrl {
    /// Where it is asked.
    #[serde(flatten)]
    pub endpoint: Endpoint,
    /// Path and query: `/metrics`.
    pub path: String,
}

impl MetricsUrl {
    /// Returns the whole URL: `http://10.0.0.5:2379/metrics`.
    pub fn text(&self) -> String {
        let scheme = if self.endpoint.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.endpoint.authority(), self.path)
    }
}

/// Which certificates are trusted and shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// Who clients say that they are, to a system that runs already. Secrets are named and never held, so that a
/// record has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// A user's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Where the user's password is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretSource>,
    /// Where a token is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<SecretSource>,
}

/// Where a secret is to be found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecretSource {
    /// A variable of bakeoff's environment, by its name without `$`.
    Variable(String),
    /// A file, by its path; white space at its end is no part of the secret.
    File(String),
}

/// CPU and memory of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
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
