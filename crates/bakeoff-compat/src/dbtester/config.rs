//! Reads dbtester's configuration: one YAML file for its agents, its `control` and its `analyze`.
//!
//! Refuses everything that dbtester refuses, with the line. Fields that dbtester ignores are ignored with a note. It
//! also refuses values that dbtester accepts but cannot run, such as zero clients of a `read`, for which dbtester
//! waits for ever.
//!
//! Not here: YAML's fields (`fields`), the run (the binary's `commands::dbtester`).

mod sections;

use std::collections::BTreeMap;
use std::net::IpAddr;

use bakeoff_core::study::{Diagnostics, YamlWords, read_yaml, suggest};
use bakeoff_core::units::shown;

pub use super::fields::LocatedValue;
use super::fields::{Reporter, Section};
use super::{Database, Product};

/// A parsed configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `test_title`.
    pub title: String,
    /// `test_description`, in Markdown.
    pub description: String,
    /// Files that `control` writes.
    pub client: ClientFiles,
    /// Databases in the order of `all_database_id_list`, then those that it leaves out.
    pub groups: Vec<Group>,
    /// Files of `analyze`, by database.
    pub analyses: BTreeMap<Database, Analysis>,
    /// Databases that `analyze` compares.
    pub compared: Vec<Database>,
    /// Path of the table of all databases, as CSV.
    pub all_csv: String,
    /// Path of the same table as text.
    pub all_txt: String,
    /// Folder for plots and the figures behind them.
    pub plot_folder: String,
    /// Plots of `analyze`, in the order of the file.
    pub plots: Vec<Plot>,
    /// Path of the README.
    pub readme: String,
    /// Pictures in the README.
    pub images: Vec<Image>,
}

/// A file that `control` or `analyze` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is a file of dbtester's")]
pub enum ResultFile {
    ClientMetrics,
    ClientMetricsInterpolated,
    Timeseries,
    DistributionAll,
    DistributionPercentile,
    DistributionSummary,
    LatencyByKey,
    DiskUsage,
    MemoryByKey,
    ReadBytesByKey,
    WriteBytesByKey,
    AllAggregated,
}

/// Files that `control` writes.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientFiles {
    /// Folder of the files; if empty, the working directory.
    pub prefix: LocatedValue<String>,
    /// File names, without the prefix.
    pub names: BTreeMap<ResultFile, String>,
    /// Folder of the bucket to which dbtester uploaded everything.
    pub bucket_folder: String,
}

/// Files of `analyze` for one database.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// Paths, prefix included.
    pub paths: BTreeMap<ResultFile, String>,
    /// Paths of the servers' metrics, one per node.
    pub servers: Vec<String>,
}

/// A database of the configuration, its machines and its load.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Database that these machines run.
    pub database: Database,
    /// Range of its id in the file, in bytes.
    pub at: std::ops::Range<usize>,
    /// `database_description`.
    pub description: String,
    /// Machines, one per node.
    pub nodes: Vec<Node>,
    /// Flags of the database's program, by their names in the file.
    pub flags: BTreeMap<&'static str, Flag>,
    /// `benchmark_options`.
    pub benchmark: Benchmark,
    /// `benchmark_steps`.
    pub steps: Steps,
}

/// A machine that runs one node of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Address, as written in `peer_ips`.
    pub host: String,
    /// Range of the address in the file, in bytes.
    pub at: std::ops::Range<usize>,
    /// Port for clients.
    pub database_port: u16,
    /// Port of dbtester's agent.
    pub agent_port: u16,
}

/// A flag of a database's program, with its range in the file.
pub type Flag = LocatedValue<String>;

/// The type of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkType {
    /// `write`: different keys, or one key for all writes.
    Write,
    /// `read`: one key.
    Read,
    /// `read-oneshot`: one key, over a new connection for each read.
    ReadOneshot,
}

/// `benchmark_options`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Benchmark {
    /// Type; `None` if it is not one of dbtester's.
    pub work: LocatedValue<Option<WorkType>>,
    /// Total requests.
    pub requests: LocatedValue<u64>,
    /// Number of connections.
    pub connections: LocatedValue<u64>,
    /// Number of clients, which share the connections.
    pub clients: LocatedValue<u64>,
    /// Clients of each step, one connection each; replaces `connections` and `clients`.
    pub steps: Vec<LocatedValue<u64>>,
    /// Requests per second; 0 for no limit.
    pub rate: LocatedValue<u64>,
    /// True if all writes go to one key.
    pub same_key: bool,
    /// Key size in bytes.
    pub key_size: LocatedValue<u64>,
    /// Value size in bytes.
    pub value_size: LocatedValue<u64>,
    /// True if reads may be stale.
    pub stale_read: bool,
}

/// `benchmark_steps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    /// True to start the database; false if it already runs.
    pub start: LocatedValue<bool>,
    /// True to load it.
    pub stress: LocatedValue<bool>,
    /// True to stop it.
    pub stop: LocatedValue<bool>,
    /// True to upload all files.
    pub upload: LocatedValue<bool>,
}

/// A plot of `analyze`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plot {
    /// Column of the aggregated figures.
    pub column: LocatedValue<String>,
    /// Title of the horizontal axis.
    pub x_axis: String,
    /// Title of the vertical axis.
    pub y_axis: String,
}

/// A picture of the README.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Title above the picture.
    pub title: String,
    /// Path or URL.
    pub path: String,
    /// True if the path is next to the README; false for a URL.
    pub local: bool,
}

const WORDS: YamlWords = YamlWords {
    noun: "configuration",
    empty: "start from a file in `test-configs` of dbtester's repository",
    long: "a configuration names databases and files and holds no data",
};

/// Largest quota that dbtester accepts for etcd, in bytes.
const QUOTA_MAX: u64 = 8_000_000_000;

/// Reads a configuration. Also returns notes on fields that dbtester ignores.
///
/// # Errors
/// When the configuration is wrong; the error lists each fault with its place.
pub fn read(file: &str, text: &str) -> Result<(Config, Vec<String>), Diagnostics> {
    let mut reporter = Reporter::new(file, text);
    let config = read_yaml(text, &WORDS, &mut reporter.sink)
        .map(|root| sections::config(&mut reporter, &root))
        .filter(|_| reporter.sink.is_empty());
    match config {
        Some(config) => Ok((config, reporter.notes)),
        None => Err(reporter.sink.into_diagnostics()),
    }
}

impl ResultFile {
    /// Files that `control` writes.
    pub const OF_CLIENT: [Self; 8] = [
        Self::ClientMetrics,
        Self::ClientMetricsInterpolated,
        Self::Timeseries,
        Self::DistributionAll,
        Self::DistributionPercentile,
        Self::DistributionSummary,
        Self::LatencyByKey,
        Self::DiskUsage,
    ];
    /// Files that `analyze` reads or writes, besides the servers' metrics.
    pub const OF_ANALYSIS: [Self; 11] = [
        Self::ClientMetricsInterpolated,
        Self::Timeseries,
        Self::DistributionAll,
        Self::DistributionPercentile,
        Self::DistributionSummary,
        Self::LatencyByKey,
        Self::DiskUsage,
        Self::MemoryByKey,
        Self::ReadBytesByKey,
        Self::WriteBytesByKey,
        Self::AllAggregated,
    ];

    /// Returns the configuration field that names the file.
    pub fn field(self) -> &'static str {
        match self {
            Self::ClientMetrics => "client_system_metrics_path",
            Self::ClientMetricsInterpolated => "client_system_metrics_interpolated_path",
            Self::Timeseries => "client_latency_throughput_timeseries_path",
            Self::DistributionAll => "client_latency_distribution_all_path",
            Self::DistributionPercentile => "client_latency_distribution_percentile_path",
            Self::DistributionSummary => "client_latency_distribution_summary_path",
            Self::LatencyByKey => "client_latency_by_key_number_path",
            Self::DiskUsage => "server_disk_space_usage_summary_path",
            Self::MemoryByKey => "server_memory_by_key_number_path",
            Self::ReadBytesByKey => "server_read_bytes_delta_by_key_number_path",
            Self::WriteBytesByKey => "server_write_bytes_delta_by_key_number_path",
            Self::AllAggregated => "all_aggregated_output_path",
        }
    }

    /// Returns the file's name in all of dbtester's own configurations.
    pub fn usual_name(self) -> String {
        let field = self.field();
        let stem = field.strip_suffix("_path").unwrap_or(field);
        format!("{}.csv", stem.strip_suffix("_output").unwrap_or(stem).replace('_', "-"))
    }
}

impl Config {
    /// Returns the files of `analyze` for a database. If the configuration has none, returns those that dbtester's
    /// upload would have made.
    pub fn analysis(&self, database: Database) -> Option<Analysis> {
        if let Some(analysis) = self.analyses.get(&database) {
            return Some(analysis.clone());
        }
        let group = self.group(database)?;
        let folder = match self.client.bucket_folder.trim_end_matches('/') {
            "" => String::new(),
            folder => format!("{folder}/"),
        };
        let prefix = format!("{folder}{}", group.tag());
        let path = |file: ResultFile| (file, format!("{prefix}-{}", file.usual_name()));
        let server = |node| format!("{prefix}-{node}-server-system-metrics-interpolated.csv");
        Some(Analysis {
            paths: ResultFile::OF_ANALYSIS.map(path).into(),
            servers: (1..=group.nodes.len()).map(server).collect(),
        })
    }

    /// Returns the path of a file that `control` writes.
    pub fn client_path(&self, file: ResultFile, prefix: Option<&str>) -> String {
        let name = self.client.names.get(&file).map_or("", String::as_str);
        match prefix.unwrap_or(&self.client.prefix.value).trim_end_matches('/') {
            "" => name.to_owned(),
            folder => format!("{folder}/{name}"),
        }
    }

    /// Returns the group of a database, if the configuration has it.
    pub fn group(&self, database: Database) -> Option<&Group> {
        self.groups.iter().find(|group| group.database == database)
    }
}

impl Group {
    /// Returns the tag in the names of its files and columns: `etcd-v3.3.0-go1.9.2`.
    pub fn tag(&self) -> String {
        let lower = self.description.to_lowercase();
        let joined = lower.replace("go ", "go").replace("java ", "java");
        joined.replace(['(', ')'], "").replace(' ', "-")
    }
}

impl Node {
    /// Returns true if the address is this machine's loopback.
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
    }
}

impl WorkType {
    /// Returns the type's name in a configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::ReadOneshot => "read-oneshot",
        }
    }

    pub(super) const ALL: [Self; 3] = [Self::Write, Self::Read, Self::ReadOneshot];
}

/// Reports an id that is not one of dbtester's databases.
fn unknown(reporter: &mut Reporter<'_>, at: &std::ops::Range<usize>, id: &str) {
    let known = Database::ALL.iter().map(|one| one.id());
    let hint = suggest(id, known, "its databases:");
    reporter.sink.hint(at, format!("`{}` is no database of dbtester", shown(id)), hint);
}

/// Refuses flags and connections that dbtester refuses for a database.
fn refuse(reporter: &mut Reporter<'_>, group: &Group) {
    let Benchmark { connections, clients, .. } = &group.benchmark;
    let id = group.database.id();
    if group.database.product() != Product::Etcd && connections.value != clients.value {
        let what = format!(
            "`{id}` has {} connections and {} clients, but only etcd clients can share connections",
            connections.value, clients.value
        );
        reporter.sink.hint(
            &connections.at,
            what,
            format!("write `connection_number: {}`", clients.value),
        );
    }
    if let Some(quota) = group.flags.get("quota_size_bytes")
        && quota.value.parse().is_ok_and(|bytes: u64| bytes > QUOTA_MAX)
    {
        let what = format!("`quota_size_bytes` must be at most {QUOTA_MAX}, not `{}`", quota.value);
        reporter.sink.add(&quota.at, what);
    }
}

#[cfg(test)]
pub(super) mod tests;
