//! The flags of `bakeoff dbtester`: dbtester's own, and those of a run.
//!
//! Not here: what they mean (`commands::dbtester`).

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::RunOptions;
use super::values::option;
use crate::failure::EXIT_CODES;

const EXAMPLES: &str = "\
Examples:
  bakeoff dbtester control -c write-1M-keys.yaml --here --scale 0.01
  bakeoff dbtester analyze -c write-1M-keys.yaml";

/// dbtester's commands.
#[derive(Debug, Subcommand)]
pub(crate) enum DbtesterCommand {
    /// Say that nothing has to be started on the servers' machines, and end with 0
    #[command(disable_help_flag = true)]
    Agent {
        /// dbtester's own flags, none of which is needed
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        args: Vec<OsString>,
    },
    /// Start the databases of a configuration, load them, check them, and write dbtester's files
    Control(Box<ControlArgs>),
    /// Make of the files of `control`, or of dbtester's own, its tables, its plots and its README
    Analyze(AnalyzeArgs),
}

/// `bakeoff dbtester control`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct ControlArgs {
    /// The configuration: dbtester's YAML
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Run this database alone, and leave its files where dbtester leaves them too [default: all of
    /// `all_database_id_list`]
    #[arg(long, value_name = "ID")]
    pub(crate) database_id: Option<String>,
    /// Run all nodes on this machine, whatever `peer_ips` says
    #[arg(long, conflicts_with = "on")]
    pub(crate) here: bool,
    /// Run this program, or this version, for a database: `etcd__v3_3=./bin/etcd`, `etcd__tip=3.6.16`
    #[arg(long, value_name = "ID=PROGRAM|VERSION", value_parser = option)]
    pub(crate) build: Vec<(String, String)>,
    /// The size of ZooKeeper's Java heap, in place of `java_xms` and `java_xmx`
    #[arg(long, value_name = "SIZE")]
    pub(crate) zookeeper_heap: Option<String>,
    /// The folder in place of the configuration's `path_prefix`
    #[arg(long, value_name = "DIR")]
    pub(crate) path_prefix: Option<String>,
    /// The folder that the paths of `analyze` are relative to
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) results: PathBuf,
    /// Multiply the numbers of requests, evenly; said in all that is printed
    #[arg(long, value_name = "FACTOR")]
    pub(crate) scale: Option<f64>,
    /// Run nothing, and write the files of this run of the configuration: one that was resumed, say
    #[arg(long, value_name = "RUN", conflicts_with_all = ["seed", "threads", "out", "base_port", "on"])]
    pub(crate) from: Option<PathBuf>,
    /// Taken and not used: disk figures are of each node's own processes
    #[arg(long, value_name = "DEVICE", hide = true)]
    pub(crate) disk_device: Option<String>,
    /// Taken and not used: network figures are of each node's own sockets
    #[arg(long, value_name = "INTERFACE", hide = true)]
    pub(crate) network_interface: Option<String>,
    #[command(flatten)]
    pub(crate) options: RunOptions,
}

/// `bakeoff dbtester analyze`.
#[derive(Debug, Args)]
pub(crate) struct AnalyzeArgs {
    /// The configuration: dbtester's YAML
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// The folder that its paths are relative to
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) results: PathBuf,
}
