//! Options of `bakeoff dbtester`: dbtester's own, and those of a run.
//!
//! Not here: their meaning (`commands::dbtester`).

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

#[derive(Debug, Subcommand)]
pub(crate) enum DbtesterCommand {
    /// Print that the servers' machines need no agent, and exit with 0
    #[command(disable_help_flag = true)]
    Agent {
        /// dbtester's options, all ignored
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        args: Vec<OsString>,
    },
    /// Start the databases of a configuration, load and check them, and write dbtester's files
    Control(Box<ControlArgs>),
    /// Make dbtester's tables, plots and README from the files of `control` or dbtester
    Analyze(AnalyzeArgs),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct ControlArgs {
    /// Configuration: dbtester's YAML
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Run only this database, and leave its files where dbtester leaves them too [default: all of
    /// `all_database_id_list`]
    #[arg(long, value_name = "ID")]
    pub(crate) database_id: Option<String>,
    /// Run all nodes on this machine and ignore `peer_ips`
    #[arg(long, conflicts_with = "on")]
    pub(crate) here: bool,
    /// Program or version to run for a database: `etcd__v3_3=./bin/etcd`, `etcd__tip=3.6.16`
    #[arg(long, value_name = "ID=PROGRAM|VERSION", value_parser = option)]
    pub(crate) build: Vec<(String, String)>,
    /// ZooKeeper's Java heap size; overrides `java_xms` and `java_xmx`
    #[arg(long, value_name = "SIZE")]
    pub(crate) zookeeper_heap: Option<String>,
    /// Folder to use instead of the configuration's `path_prefix`
    #[arg(long, value_name = "DIR")]
    pub(crate) path_prefix: Option<String>,
    /// Folder that the paths of `analyze` are relative to
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) results: PathBuf,
    /// Multiply all request counts by this factor, such as `0.01`; all output states it
    #[arg(long, value_name = "FACTOR")]
    pub(crate) scale: Option<f64>,
    /// Run nothing, and write the files of this run of the configuration, for example after resuming it
    #[arg(long, value_name = "RUN", conflicts_with_all = ["seed", "threads", "out", "base_port", "on"])]
    pub(crate) from: Option<PathBuf>,
    /// Ignored: disk figures come from each node's own processes
    #[arg(long, value_name = "DEVICE", hide = true)]
    pub(crate) disk_device: Option<String>,
    /// Ignored: network figures come from each node's own sockets
    #[arg(long, value_name = "INTERFACE", hide = true)]
    pub(crate) network_interface: Option<String>,
    #[command(flatten)]
    pub(crate) options: RunOptions,
}

#[derive(Debug, Args)]
pub(crate) struct AnalyzeArgs {
    /// Configuration: dbtester's YAML
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Folder that the configuration's paths are relative to
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) results: PathBuf,
}
