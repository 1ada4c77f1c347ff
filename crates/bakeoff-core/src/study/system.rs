//! Describes the systems of a study: what is compared, its servers and their limits.
//!
//! Not here: the abilities of a kind (`kind`), parsing a system (`parse::systems`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::units;

/// Describes one compared system.
///
/// Its fields are those of a system in a study's file and in records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct System {
    /// Name in the study.
    pub name: String,
    /// Kind, which names its folder in `bakeoff-systems`: `etcd`, `zookeeper`, `consul`, `canary`.
    pub kind: String,
    /// Requested version; a prefix of dotted numbers (`3.6`) selects the newest known match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// User's own program, in place of the one that `install` would find.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Number of nodes to start; with `endpoints`, their number.
    pub nodes: u32,
    /// Options of this kind of system.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Limits of each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Owner of its servers: bakeoff, or someone else whose servers already run.
    #[serde(default, rename = "endpoints", skip_serializing_if = "Servers::are_started")]
    pub servers: Servers,
    /// URLs of CPU and memory metrics of its nodes, if it already runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricsUrl>,
    /// Verification of TLS endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Credentials of clients for a system that already runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// Parts by role, such as storage or balancer. A part's name is the system's and the role, `on-consul-storage`.
    /// Parts have no parts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, System>,
    /// Command of a kind that runs any command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
}

/// Selects the owner of a system's servers. In a study and in a record it is the list of `endpoints`, which is absent
/// if bakeoff starts them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "Vec<Endpoint>", into = "Vec<Endpoint>")]
pub enum Servers {
    /// bakeoff starts, kills and stops them.
    #[default]
    Started,
    /// They already run at these addresses; bakeoff does not start or stop them.
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

/// Describes a command that serves, and its readiness check.
///
/// Some words are replaced in its arguments, environment and files. `{address}` is the address to listen on, `{port}`
/// the port for clients, `{port:NAME}` another port of its own. `{dir}` is its data folder, `{here}` the folder that
/// bakeoff was started in, `{node}` its name. `{ROLE}` is the address of a part, such as `127.0.0.1:8080`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Process {
    /// Program and its arguments.
    pub command: Vec<String>,
    /// Environment besides `PATH` and similar variables. `$NAME` is read from bakeoff's own environment, so a record
    /// contains no secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Files to write before it starts, by path in its folder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Path that answers with success once it is ready. Without one, accepting a connection is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
}

impl System {
    /// Describes the clients' TLS: its version, and whether they check certificates.
    pub fn tls_text(&self, version: String) -> String {
        match &self.tls {
            Some(Tls { insecure: true, .. }) => format!("{version}, certificates not checked"),
            _ => version,
        }
    }

    /// Returns true if bakeoff starts its servers; otherwise they already run.
    pub fn is_started(&self) -> bool {
        self.servers.are_started()
    }

    /// Returns the endpoints of a running system; empty if bakeoff starts it.
    pub fn endpoints(&self) -> &[Endpoint] {
        match &self.servers {
            Servers::Started => &[],
            Servers::Running(endpoints) => endpoints,
        }
    }

    /// Returns the system itself, followed by its parts.
    pub fn members(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.parts.values())
    }

    /// Returns the number of nodes, including those of its parts.
    pub fn nodes_in_all(&self) -> u32 {
        self.members().map(|member| member.nodes).sum()
    }
}

/// Addresses a system that already runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Endpoint {
    /// True for TLS (`https://`).
    pub tls: bool,
    /// Name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Endpoint {
    /// Returns host and port in URL syntax: `10.0.0.5:2379`, `[::1]:2379`.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Locates the metrics of a running node, in Prometheus' text format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricsUrl {
    /// Host and port of the URL.
    #[serde(flatten)]
    pub endpoint: Endpoint,
    /// Path and query, such as `/metrics`.
    pub path: String,
}

impl MetricsUrl {
    /// Returns the whole URL: `http://10.0.0.5:2379/metrics`.
    pub fn text(&self) -> String {
        let scheme = if self.endpoint.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.endpoint.authority(), self.path)
    }
}

/// Selects trusted authorities and the client's certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tls {
    /// PEM file of the trusted authorities; `None` trusts none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// PEM file of the client's certificate chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// PEM file of the client's private key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// True to accept any certificate, which the report mentions.
    #[serde(default)]
    pub insecure: bool,
}

/// Holds the credentials of clients for a system that already runs. Secrets are referenced, never stored, so a record
/// contains none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Credentials {
    /// Name of a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Source of the user's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretSource>,
    /// Source of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<SecretSource>,
}

/// Locates a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SecretSource {
    /// Environment variable of bakeoff, by name without `$`.
    Variable(String),
    /// File, by path; trailing white space is not part of the secret.
    File(String),
}

/// Holds the limits of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limits {
    /// CPU limit in cores: 0.5 is half of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Memory limit in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<units::ByteCount>,
    /// CPUs that it may run on, by number; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
}
