//! dbtester's configuration: one YAML file for its agents, its `control` and its `analyze`.
//!
//! What dbtester refuses is refused here, with its line; fields that it ignored are ignored, and noted. What it
//! accepted and then did wrong is refused where nothing good can be made of it: zero clients of a `read`, say, for
//! which it waited for ever.
//!
//! Not here: YAML's fields (`fields`), what is run (the binary's `commands::dbtester`).

mod sections;

use std::collections::BTreeMap;
use std::net::IpAddr;

use bakeoff_core::study::{Diagnostics, YamlWords, read_yaml, suggest};
use bakeoff_core::units::shown;

pub use super::fields::Located;
use super::fields::{Section, Told};
use super::{Database, Product};

/// A configuration, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `test_title`.
    pub title: String,
    /// `test_description`, in Markdown.
    pub description: String,
    /// The files of `control`.
    pub client: ClientFiles,
    /// The databases, in the order of `all_database_id_list`; those that it leaves out follow.
    pub groups: Vec<Group>,
    /// The files of `analyze`, by database.
    pub analyses: BTreeMap<Database, Analysis>,
    /// The databases that `analyze` puts side by side.
    pub compared: Vec<Database>,
    /// Where the table of all databases goes, as CSV.
    pub all_csv: String,
    /// Where it goes as text.
    pub all_txt: String,
    /// The folder of plots and of the figures behind them.
    pub plot_folder: String,
    /// The plots.
    pub plots: Vec<Plot>,
    /// Where the README goes.
    pub readme: String,
    /// The pictures that it shows.
    pub images: Vec<Image>,
}

/// A file that `control` writes, or `analyze`.
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

/// The files of `control`.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientFiles {
    /// The folder that they lie in; where it is empty, the working directory.
    pub prefix: Located<String>,
    /// Their names.
    pub names: BTreeMap<ResultFile, String>,
    /// Folder of the bucket to which dbtester uploaded everything.
    pub bucket_folder: String,
}

/// The files of `analyze` for one database.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// Their paths, prefix included.
    pub paths: BTreeMap<ResultFile, String>,
    /// Paths of the servers' metrics, one a node.
    pub servers: Vec<String>,
}

/// A database of the configuration, its machines and its load.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Which.
    pub database: Database,
    /// Where its id stands.
    pub at: std::ops::Range<usize>,
    /// `database_description`.
    pub description: String,
    /// The machines, one node each.
    pub nodes: Vec<Node>,
    /// Flags of the program, by their names in the file.
    pub flags: BTreeMap<&'static str, Flag>,
    /// `benchmark_options`.
    pub benchmark: Benchmark,
    /// `benchmark_steps`.
    pub steps: Steps,
}

/// A machine that takes one node of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its address, as `peer_ips` has it.
    pub host: String,
    /// Where it stands.
    pub at: std::ops::Range<usize>,
    /// The port that clients connect to.
    pub database_port: u16,
    /// The port of dbtester's agent.
    pub agent_port: u16,
}

/// A flag of a database's program, and where its value stands.
pub type Flag = Located<String>;

/// The type of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkType {
    /// `write`: keys of their own, or one same key.
    Write,
    /// `read`: one key.
    Read,
    /// `read-oneshot`: one key, each time over a connection of its own.
    ReadOneshot,
}

/// `benchmark_options`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Benchmark {
    /// Its type; none where it is not one of dbtester's.
    pub work: Located<Option<WorkType>>,
    /// Requests in all.
    pub requests: Located<u64>,
    /// Connections.
    pub connections: Located<u64>,
    /// Clients, which share the connections.
    pub clients: Located<u64>,
    /// Clients of each step, with a connection each; in place of the two above.
    pub steps: Vec<Located<u64>>,
    /// Requests a second; 0: as fast as answers come.
    pub rate: Located<u64>,
    /// Whether all writes go to one key.
    pub same_key: bool,
    /// Bytes of a key.
    pub key_size: Located<u64>,
    /// Bytes of a value.
    pub value_size: Located<u64>,
    /// Whether reads may be stale.
    pub stale_read: bool,
}

/// `benchmark_steps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    /// Start the database; else it runs already.
    pub start: Located<bool>,
    /// Load it.
    pub stress: Located<bool>,
    /// Stop it.
    pub stop: Located<bool>,
    /// Upload all files.
    pub upload: Located<bool>,
}

/// A plot of `analyze`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plot {
    /// The column of the aggregated figures.
    pub column: Located<String>,
    /// Title of the horizontal axis.
    pub x_axis: String,
    /// Title of the vertical axis.
    pub y_axis: String,
}

/// A picture of the README.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its title.
    pub title: String,
    /// Its path or URL.
    pub path: String,
    /// Whether it lies beside the README, rather than at a URL.
    pub local: bool,
}

const WORDS: YamlWords = YamlWords {
    noun: "configuration",
    empty: "the folder `test-configs` of dbtester's repository has some to start from",
    long: "a configuration names databases and files; it holds no data",
};

/// The largest quota that dbtester lets etcd have, in bytes.
const QUOTA_MAX: u64 = 8_000_000_000;

/// Reads a configuration; the notes are of what dbtester ignored.
///
/// # Errors
/// All that is wrong with it, each with its place.
pub fn read(file: &str, text: &str) -> Result<(Config, Vec<String>), Diagnostics> {
    let mut told = Told::new(file, text);
    let config = read_yaml(text, &WORDS, &mut told.sink)
        .map(|root| sections::config(&mut told, &root))
        .filter(|_| told.sink.is_empty());
    match config {
        Some(config) => Ok((config, told.notes)),
        None => Err(told.sink.into_diagnostics()),
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
    /// Files that `analyze` reads or writes, beside the servers' metrics.
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

    /// Returns the field that names it.
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

    /// Returns its name in every configuration of dbtester's own.
    pub fn usual_name(self) -> String {
        let field = self.field();
        let stem = field.strip_suffix("_path").unwrap_or(field);
        format!("{}.csv", stem.strip_suffix("_output").unwrap_or(stem).replace('_', "-"))
    }
}

impl Config {
    /// Returns the files of `analyze` for a database: those of the configuration, else those that dbtester's upload
    /// would have made.
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

    /// Returns the path of a file of `control` itself.
    pub fn client_path(&self, file: ResultFile, prefix: Option<&str>) -> String {
        let name = self.client.names.get(&file).map_or("", String::as_str);
        match prefix.unwrap_or(&self.client.prefix.value).trim_end_matches('/') {
            "" => name.to_owned(),
            folder => format!("{folder}/{name}"),
        }
    }

    /// Returns the group of a database.
    pub fn group(&self, database: Database) -> Option<&Group> {
        self.groups.iter().find(|group| group.database == database)
    }
}

impl Group {
    /// Returns the tag that names its files and its columns: `etcd-v3.3.0-go1.9.2`.
    pub fn tag(&self) -> String {
        let lower = self.description.to_lowercase();
        let joined = lower.replace("go ", "go").replace("java ", "java");
        joined.replace(['(', ')'], "").replace(' ', "-")
    }
}

impl Node {
    /// Returns whether it is this machine by its address.
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
    }
}

impl WorkType {
    /// Its word in a configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::ReadOneshot => "read-oneshot",
        }
    }

    pub(super) const ALL: [Self; 3] = [Self::Write, Self::Read, Self::ReadOneshot];
}

/// Reports an id that is no database of dbtester's.
fn unknown(told: &mut Told<'_>, at: &std::ops::Range<usize>, id: &str) {
    let known = Database::ALL.iter().map(|one| one.id());
    let hint = suggest(id, known, "its databases:");
    told.sink.hint(at, format!("`{}` is no database of dbtester", shown(id)), hint);
}

/// Refuses what dbtester refuses of a database's flags and connections.
fn refuse(told: &mut Told<'_>, group: &Group) {
    let Benchmark { connections, clients, .. } = &group.benchmark;
    let id = group.database.id();
    if group.database.product() != Product::Etcd && connections.value != clients.value {
        let what = format!(
            "`{id}` has {} connections and {} clients, and only clients of etcd share connections",
            connections.value, clients.value
        );
        told.sink.hint(
            &connections.at,
            what,
            format!("write `connection_number: {}`", clients.value),
        );
    }
    if let Some(quota) = group.flags.get("quota_size_bytes")
        && quota.value.parse().is_ok_and(|bytes: u64| bytes > QUOTA_MAX)
    {
        let what = format!("`quota_size_bytes` must be at most {QUOTA_MAX}, not `{}`", quota.value);
        told.sink.add(&quota.at, what);
    }
}

#[cfg(test)]
pub(super) mod tests;
