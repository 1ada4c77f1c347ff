//! Defines the commands, their options and their help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use bakeoff_core::record::RoundCount;
use bakeoff_core::units::parse_duration;
use bakeoff_report::compare::FailIf;
use bakeoff_trial::run::RunSettings;
use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use self::dbtester::{AnalyzeArgs, ControlArgs, DbtesterCommand};
pub(crate) use self::load::{LoadArgs, ResultArgs, Spread};
pub(crate) use self::values::Ramp;
use self::values::{loss, option, port};
use crate::failure::EXIT_CODES;

mod dbtester;
pub(crate) mod exposed_secrets;
mod load;
#[cfg(test)]
mod reference;
mod values;

const EXAMPLES: &str = "\
Examples:
  bakeoff run quickstart               etcd against ZooKeeper, real servers, 2 minutes
  bakeoff run demo                     the same steps with nothing to fetch, under a minute
  bakeoff run kv-stores --quick        a published comparison in its short form, 5 minutes
  bakeoff run my.yaml --json           your own study, with JSON for scripts
  bakeoff studies quickstart           print a study's file, to copy and change";

/// Which of these should I run, what will it sustain, and what does it cost?
///
/// bakeoff starts real servers and loads each the same way over its own protocol. It checks that acknowledged
/// writes are there, and reports the differences that it can prove, or that it found none.
#[derive(Debug, Parser)]
#[command(name = "bakeoff", version, max_term_width = 100)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a study: start its systems, load them, check them, compare them
    Run(RunArgs),
    /// Load a URL: closed, at a rate, or in search of the highest rate that keeps an objective
    Load(Box<LoadArgs>),
    /// Start one system of a study as a trial would, and print its addresses for other tools
    Start(StartArgs),
    /// Render a run's report again from its record
    Report(ReportArgs),
    /// Check that a record is consistent and that its reports and histories match it
    Verify(VerifyArgs),
    /// Judge whether a history of operations is linearizable: one of bakeoff, or of a Jepsen register
    Judge(JudgeArgs),
    /// Run a recorded study again on this machine, and check which of its claims replicate
    Reproduce(ReproduceArgs),
    /// List the stored runs with their date, study, state and result
    History(HistoryArgs),
    /// Write static pages from the records of many runs
    Site(SiteArgs),
    /// Compare two runs: list the changes, and whether they exceed chance
    Compare(CompareArgs),
    /// Run two builds of one system in turn; the exit code says whether the new one may be merged
    Gate(Box<GateArgs>),
    /// List the studies that ship with bakeoff, or print the file of one
    Studies {
        /// Study to print
        name: Option<String>,
    },
    /// List the systems with their source, operations and guarantees
    Systems {
        /// System to show [default: all]
        name: Option<String>,
    },
    /// Fetch a system's program into bakeoff's cache; needs no root
    Install {
        /// Systems to fetch, such as etcd, etcd@3.6 or consul@1.20.1
        #[arg(required = true, value_name = "SYSTEM[@VERSION]")]
        systems: Vec<String>,
    },
    /// Write the Kubernetes manifests that a study of gateways needs, and the study to run with them
    Manifests(ManifestsArgs),
    /// List what each study lacks on this machine, and how to fix it
    Doctor {
        /// Check only these studies: names of shipped ones, or files [default: all that ship]
        studies: Vec<String>,
        /// Also check the machines of this file for these studies
        #[arg(long, value_name = "PLACES.yaml")]
        on: Option<PathBuf>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove what bakeoff keeps in the caches of other machines: itself, and the systems' programs
    ClearCache {
        /// Machines whose caches to clear; this machine's own stays
        #[arg(long, value_name = "PLACES.yaml")]
        on: PathBuf,
    },
    /// Load a URL with wrk's options and scripts, and print wrk's output
    #[command(disable_help_flag = true)]
    Wrk {
        /// wrk's options (`bakeoff wrk -h`)
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        args: Vec<OsString>,
    },
    /// Load a URL with hey's options, and print hey's output
    #[command(disable_help_flag = true)]
    Hey {
        /// hey's options (`bakeoff hey -h`)
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        args: Vec<OsString>,
    },
    /// Load Vault or OpenBao with vault-benchmark's files, and print vault-benchmark's output
    #[command(disable_help_flag = true)]
    VaultBenchmark {
        /// vault-benchmark's options (`bakeoff vault-benchmark run -h`)
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        args: Vec<OsString>,
    },
    /// Load etcd with the options of its own `benchmark`, and print its report
    #[command(disable_help_flag = true)]
    EtcdBenchmark {
        /// etcd's benchmark's options (`bakeoff etcd-benchmark -h`)
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        args: Vec<OsString>,
    },
    /// Serve a coordinator on standard input and output; bakeoff starts this on other machines
    #[command(hide = true)]
    Agent {
        /// Run as a pod's first process: wait for agents, and exit a minute after the last one
        #[arg(long)]
        first: bool,
        /// Copy this executable to PATH, and exit
        #[arg(long, value_name = "PATH", conflicts_with = "first")]
        install: Option<PathBuf>,
    },
    /// Run a dbtester configuration, and write dbtester's files and tables
    #[command(subcommand, arg_required_else_help = true)]
    Dbtester(DbtesterCommand),
    /// Print shell completions
    Completions {
        /// Shell to complete for
        shell: clap_complete::Shell,
    },
    /// Write manual pages into a folder
    Manual {
        /// The folder, which has to exist
        folder: PathBuf,
    },
}

impl Command {
    /// Returns true if the command may start servers on this machine, or checks whether it could.
    pub(crate) fn starts_servers(&self) -> bool {
        matches!(
            self,
            Self::Run(_)
                | Self::Start(_)
                | Self::Reproduce(_)
                | Self::Gate(_)
                | Self::Doctor { .. }
        )
    }

    /// Returns true if the command reads files and writes reports, and starts nothing.
    pub(crate) fn only_reads(&self) -> bool {
        match self {
            Self::Report(_)
            | Self::Verify(_)
            | Self::Judge(_)
            | Self::History(_)
            | Self::Site(_)
            | Self::Compare(_)
            | Self::Studies { .. }
            | Self::Systems { .. }
            | Self::Manifests(_)
            | Self::Dbtester(DbtesterCommand::Agent { .. } | DbtesterCommand::Analyze(_))
            | Self::Completions { .. }
            | Self::Manual { .. } => true,
            Self::Reproduce(args) => args.with.is_some(),
            Self::Dbtester(DbtesterCommand::Control(args)) => args.from.is_some(),
            _ => false,
        }
    }

    /// Returns true if the command loads servers.
    pub(crate) fn measures(&self) -> bool {
        matches!(
            self,
            Self::Run(_)
                | Self::Load(_)
                | Self::Gate(_)
                | Self::Reproduce(_)
                | Self::Hey { .. }
                | Self::Wrk { .. }
                | Self::VaultBenchmark { .. }
                | Self::EtcdBenchmark { .. }
                | Self::Dbtester(DbtesterCommand::Control(_))
        )
    }

    /// Returns where a command that makes a run shows it besides the terminal.
    pub(crate) fn watch(&self) -> WatchOptions {
        let options = match self {
            Self::Run(args) => &args.options.watch,
            Self::Load(args) => &args.result.watch,
            Self::Gate(args) => &args.options.watch,
            Self::Reproduce(args) => &args.watch,
            Self::Dbtester(DbtesterCommand::Control(args)) => &args.options.watch,
            _ => return WatchOptions::default(),
        };
        options.clone()
    }

    /// Returns the run paths in the command's arguments, each of which may be `latest`.
    pub(crate) fn runs(&mut self) -> Vec<&mut PathBuf> {
        match self {
            Self::Run(args) => args.resume.iter_mut().collect(),
            Self::Gate(args) => args.resume.iter_mut().collect(),
            Self::Report(args) => vec![&mut args.run],
            Self::Verify(args) => vec![&mut args.run],
            Self::Reproduce(args) => std::iter::once(&mut args.run).chain(&mut args.with).collect(),
            Self::Compare(args) => vec![&mut args.base, &mut args.new],
            Self::Dbtester(DbtesterCommand::Control(args)) => args.from.iter_mut().collect(),
            _ => Vec::new(),
        }
    }
}

#[derive(Debug, Clone, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RunArgs {
    /// Study file, or the name of a study that ships (`bakeoff studies`)
    #[arg(required_unless_present = "resume")]
    pub(crate) study: Option<String>,
    /// Resume an interrupted or killed run: run its missing trials, and repeat the rounds that the machine disturbed
    #[arg(long, value_name = "RUN")]
    #[arg(conflicts_with_all = [
        "study", "quick", "scale", "trials", "faults", "repeat", "seed", "threads", "out",
    ])]
    pub(crate) resume: Option<PathBuf>,
    /// Resume a run that your bakeoff did not record, or that was changed since; lists the commands first. Or one whose
    /// machines changed
    #[arg(long, requires = "resume")]
    pub(crate) trust: bool,
    /// Fetch the study's programs, send them to the machines of `--on`, and run nothing
    #[arg(long, conflicts_with_all = ["resume", "json", "all"])]
    pub(crate) prepare: bool,
    /// If the run loses a machine, wait up to 15 minutes until all are back and resume, at most N times; never
    /// continues with fewer machines
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        requires = "on",
        allow_negative_numbers = true
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) retry_lost: u32,
    /// Print only the comparison, as JSON, on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Show all tables, checks, settings and notes instead of the first screen only
    #[arg(long, conflicts_with = "json")]
    pub(crate) all: bool,
    /// Run the study's quick form, which answers its question in minutes: fewer workloads and shorter loads, with enough
    /// trials to compare. `--trials`, `--scale`, `--faults` and `--repeat` change it
    #[arg(long)]
    pub(crate) quick: bool,
    /// Multiply all operation and key counts by this factor, such as `0.01`; all output states it
    #[arg(long, value_name = "FACTOR", value_parser = factor, allow_negative_numbers = true)]
    pub(crate) scale: Option<f64>,
    /// Trials of each combination [default: until the leading questions are answered, at most the study's number]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) trials: Option<u32>,
    /// Inject only these faults of the study
    #[arg(long, value_name = "FAULT,…", value_delimiter = ',')]
    pub(crate) faults: Vec<String>,
    /// Injections of each fault in a trial [default: the study's number]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeat: Option<u32>,
    #[command(flatten)]
    pub(crate) options: RunOptions,
}

fn factor(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "write a number, such as `0.01` for a hundredth".to_owned())
}

/// Options of every command that makes a run.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunOptions {
    /// Seed of the trial order, keys and arrivals [default: random, printed]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Threads of the load generator [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Folder that holds the runs
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub(crate) out: PathBuf,
    /// Other work shares this machine: skip the checks for neighbours and for CPU time that the hypervisor gave
    /// away, and say so in the report; BAKEOFF_SHARED_MACHINE=1 does the same
    #[arg(long)]
    pub(crate) shared_machine: bool,
    #[command(flatten)]
    pub(crate) ports: PortOptions,
    /// Run servers and generators on the machines of this file, over SSH, or in the pods that it describes;
    /// `kubernetes`: in pods of the current context [default: this machine only]
    #[arg(long, value_name = "PLACES.yaml")]
    pub(crate) on: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) watch: WatchOptions,
}

/// Says where to show a run while it lasts, besides the terminal.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WatchOptions {
    /// Serve a page on 127.0.0.1 that shows the run while it lasts, and then its report [default port: a free one]
    #[arg(long, value_name = "PORT", value_parser = port, num_args = 0..=1)]
    #[arg(default_missing_value = "0", require_equals = true)]
    pub(crate) live: Option<u16>,
    /// Export each second of the run: `prometheus` serves `/metrics` on 127.0.0.1, at a free port or at
    /// `prometheus=PORT`; `otlp=URL` sends to an OpenTelemetry collector over HTTP; repeatable
    #[arg(long, value_name = "TO")]
    pub(crate) export: Vec<String>,
}

impl RunOptions {
    pub(crate) fn settings(&self) -> RunSettings<'_> {
        RunSettings {
            out: &self.out,
            on: self.on.as_deref(),
            base_port: self.ports.base_port,
            threads: self.threads,
            shared_machine: self.shared_machine,
            rounds: RoundCount::Fixed,
        }
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct PortOptions {
    /// First port that servers may use [default: free ports below the ephemeral range]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1024..))]
    pub(crate) base_port: Option<u16>,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct StartArgs {
    /// Study file, or the name of a study that ships (`bakeoff studies`)
    pub(crate) study: String,
    /// System to start; optional if the study has only one
    pub(crate) system: Option<String>,
    /// Prepare the system for this workload: sessions, mounts and roles, but no keys [default: the system's first
    /// workload]
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: Option<String>,
    /// Stop after this time, such as `10m` [default: run until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) time: Option<Duration>,
    /// Print one line of JSON on standard output once the system is ready
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) ports: PortOptions,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Run folder, its `record.jsonl`, or `latest` for the newest in `runs`
    pub(crate) run: PathBuf,
    /// Format to print on standard output [default: terminal, and `report.html` next to the record]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// Write the report to this file; its extension selects the format: .html, .md, .csv, .json, .txt
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Same as `--format json`
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Show which published rules for measurements the run meets, with evidence
    #[arg(long, conflicts_with_all = ["format", "json", "output"])]
    pub(crate) method: bool,
    /// Show all tables, checks, settings and notes instead of the first screen only
    #[arg(long, conflicts_with_all = ["json", "method"])]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct VerifyArgs {
    /// Run folder, its `record.jsonl`, or `latest` for the newest in `runs`
    pub(crate) run: PathBuf,
    /// Published SHA-256 that the record's last line must have
    #[arg(long, value_name = "SHA256")]
    pub(crate) head: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct JudgeArgs {
    /// History: a trial's `history.jsonl`, the log of a Jepsen register test, or Jepsen's `history.edn`
    pub(crate) history: PathBuf,
    /// Print the verdict as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const REPRODUCE_EXAMPLES: &str = "\
Examples:
  bakeoff reproduce runs/2026-11-22-183016-kv-stores
  bakeoff reproduce theirs/record.jsonl             lists what it would execute; `--trust` executes it
  bakeoff reproduce THEIRS --with OURS --json       compares two existing runs";

#[derive(Debug, Args)]
#[command(after_help = REPRODUCE_EXAMPLES, after_long_help = format!("{REPRODUCE_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct ReproduceArgs {
    /// Run to reproduce: its folder, its `record.jsonl`, or `latest` for the newest in `runs`
    pub(crate) run: PathBuf,
    /// Use this run of the same study instead of running it again
    #[arg(long, value_name = "RUN", conflicts_with_all = ["threads", "out", "base_port", "trust", "live", "export"])]
    pub(crate) with: Option<PathBuf>,
    /// Run a study that your bakeoff did not record, or that was changed since; lists the commands first
    #[arg(long)]
    pub(crate) trust: bool,
    /// Print only the result, as JSON, on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Threads of the load generator [default: the recorded run's number]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Folder that holds the runs
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub(crate) out: PathBuf,
    /// Other work shares this machine: skip the checks for neighbours and for CPU time that the hypervisor gave
    /// away, and say so in the report; BAKEOFF_SHARED_MACHINE=1 does the same
    #[arg(long)]
    pub(crate) shared_machine: bool,
    #[command(flatten)]
    pub(crate) ports: PortOptions,
    #[command(flatten)]
    pub(crate) watch: WatchOptions,
}

#[derive(Debug, Args)]
pub(crate) struct ManifestsArgs {
    /// Study of ingress gateways: its file, or the name of one that ships
    pub(crate) study: String,
    /// Folder to write to; must be new or empty
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Name or address of a cluster node, used to reach its node ports
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) node: String,
}

/// Formats of a comparison of two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    /// Tables for a terminal
    Terminal,
    /// For a pull request
    Markdown,
    /// For a program
    Json,
}

const HISTORY_EXAMPLES: &str = "\
Examples:
  bakeoff history                                     all runs, newest first
  bakeoff history --trend quickstart -o trend.html    a page with a chart for each figure
  bakeoff history --trend quickstart --format markdown
  bakeoff history --trend quickstart --reset 2026-11-22-183016-quickstart --because 'new disk'";

#[derive(Debug, Args)]
#[command(after_help = HISTORY_EXAMPLES)]
pub(crate) struct HistoryArgs {
    /// Folder that holds the runs
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub(crate) out: PathBuf,
    /// Print the list as JSON; with `--trend` same as `--format json`
    #[arg(long, conflicts_with_all = ["prune", "format"])]
    pub(crate) json: bool,
    /// Show each figure of this study over time, with the first bad run of each change; uses only complete runs with the
    /// newest run's study and machine
    #[arg(long, value_name = "STUDY", conflicts_with = "prune")]
    pub(crate) trend: Option<String>,
    /// Format of the trend [default: terminal, or by the extension of `--output`]
    #[arg(long, value_enum, requires = "trend")]
    pub(crate) format: Option<TrendFormat>,
    /// Write the trend to this new file; its extension selects the format: .html, .md, .json, .txt
    #[arg(long, short, value_name = "FILE", requires = "trend")]
    pub(crate) output: Option<PathBuf>,
    /// Begin the trend anew with this run, after a known change: stores a file `trend-reset` in its folder
    #[arg(long, value_name = "RUN", requires = "trend")]
    #[arg(conflicts_with_all = ["format", "output", "json"])]
    pub(crate) reset: Option<PathBuf>,
    /// Reason of the reset, shown with the trend
    #[arg(long, value_name = "TEXT", requires = "reset", default_value = "known change")]
    pub(crate) because: String,
    /// Delete part of each run: `logs` of its servers, or `all` that bakeoff wrote, its record last; skips runs in progress
    /// and links
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) prune: Option<Prune>,
    /// Only for runs that ended at least this long ago, such as `720h`
    #[arg(long, value_name = "AGE", value_parser = parse_duration, requires = "prune")]
    pub(crate) older_than: Option<Duration>,
}

/// Formats of a trend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TrendFormat {
    /// Table for a terminal
    Terminal,
    /// Comment for a merge request; empty if no figure changed in the last 10 runs
    Markdown,
    /// For a program
    Json,
    /// One self-contained page with charts
    Html,
    /// Newest run, for `bencher run --adapter json`
    Bencher,
    /// Newest run's throughput, for github-action-benchmark's `customBiggerIsBetter`
    GithubBigger,
    /// Newest run's other figures, for github-action-benchmark's `customSmallerIsBetter`
    GithubSmaller,
    /// All runs, as OpenMetrics text
    Openmetrics,
}

/// Parts of a run that can be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Prune {
    /// Server logs, and data left by a kill; keeps the record and reports
    Logs,
    /// Everything
    All,
}

#[derive(Debug, Args)]
pub(crate) struct SiteArgs {
    /// Runs, or folders of runs
    #[arg(required = true, value_name = "DIR")]
    pub(crate) runs: Vec<PathBuf>,
    /// New folder for the pages
    #[arg(long, value_name = "SITE")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct CompareArgs {
    /// Baseline run: its folder, its `record.jsonl`, or `latest~1`, the second newest in `runs`
    pub(crate) base: PathBuf,
    /// New run, given in the same ways
    pub(crate) new: PathBuf,
    /// Exit with 6 if this is proven, and with 7 if that is inconclusive: `[WORKLOAD/LOAD] [SYSTEM:] throughput < -5%`,
    /// `p99 > +10%`, errors, cpu, memory
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true)]
    pub(crate) fail_if: Vec<FailIf>,
    /// Write the outcome of each condition to this file, in JUnit format
    #[arg(long, value_name = "FILE", requires = "fail_if")]
    pub(crate) junit: Option<PathBuf>,
    /// Folder with earlier runs of the same study, which show how much runs vary; nothing is proven without five of
    /// them [default: the folder that holds the base run]
    #[arg(long, value_name = "DIR")]
    pub(crate) history: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = CompareFormat::Terminal)]
    pub(crate) format: CompareFormat,
    /// Same as `--format json`
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

const GATE_EXAMPLES: &str = "\
Examples:
  bakeoff gate kv-stores --system etcd --base 3.6.1 --new ./bin/etcd
  bakeoff gate kv.yaml --base ./old/server --new ./new/server --fail-if 'p99 > +10%'
  bakeoff gate demo --system unsynced --new-option delay=1ms
  bakeoff gate --resume runs/2026-11-22-183016-kv-gate";

#[derive(Debug, Args)]
#[command(after_help = GATE_EXAMPLES, after_long_help = format!("{GATE_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct GateArgs {
    /// Study file, or the name of a study that ships (`bakeoff studies`)
    #[arg(required_unless_present = "resume")]
    pub(crate) study: Option<String>,
    #[command(flatten)]
    pub(crate) builds: BuildArgs,
    #[command(flatten)]
    pub(crate) demands: GateDemands,
    /// Multiply all operation and key counts by this factor, such as `0.01`
    #[arg(long, value_name = "FACTOR", value_parser = factor, allow_negative_numbers = true)]
    pub(crate) scale: Option<f64>,
    #[command(flatten)]
    pub(crate) options: RunOptions,
    /// Resume an interrupted or killed gate and judge it; judges a complete one again
    #[arg(long, value_name = "RUN")]
    #[arg(conflicts_with_all = [
        "study", "system", "base", "new", "base_option", "new_option", "fail_if", "detect", "trials",
        "max_trials", "scale", "seed", "threads", "out",
    ])]
    pub(crate) resume: Option<PathBuf>,
    /// Resume a gate that your bakeoff did not record, or that was changed since; lists the commands first. Or one whose
    /// machines changed
    #[arg(long, requires = "resume")]
    pub(crate) trust: bool,
    /// Write the outcome of each condition to this file, in JUnit format
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = CompareFormat::Terminal)]
    pub(crate) format: CompareFormat,
    /// Same as `--format json`
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

/// The two builds of a gate.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// System that has two builds; optional if the study has only one
    #[arg(long, value_name = "NAME")]
    pub(crate) system: Option<String>,
    /// Baseline build: a path, or a version that `bakeoff install` can fetch [default: the study's]
    #[arg(long, value_name = "PROGRAM|VERSION")]
    pub(crate) base: Option<String>,
    /// New build, given in the same ways [default: the study's]
    #[arg(long, value_name = "PROGRAM|VERSION")]
    pub(crate) new: Option<String>,
    /// Option of the base build only; overrides the study's
    #[arg(long, value_name = "NAME=VALUE", value_parser = option)]
    pub(crate) base_option: Vec<(String, String)>,
    /// Option of the new build only; overrides the study's
    #[arg(long, value_name = "NAME=VALUE", value_parser = option)]
    pub(crate) new_option: Vec<(String, String)>,
}

/// Conditions of a gate, and the number of trials that judge them.
#[derive(Debug, Args)]
pub(crate) struct GateDemands {
    /// Change that stops the merge if it is proven: `[WORKLOAD/LOAD] [SYSTEM:] throughput < -5%`, `p99 > +10%`, errors,
    /// cpu, memory [default: the figure that each load measures is worse by more than 1 %, or errors > +0%]
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true)]
    pub(crate) fail_if: Vec<FailIf>,
    /// Smallest loss to detect; a gate that could have missed it is inconclusive [default: 5%]
    #[arg(long, value_name = "SHARE", value_parser = loss)]
    pub(crate) detect: Option<f64>,
    /// Trials of each build [default: enough to detect the loss, given the observed scatter]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=1000))]
    #[arg(conflicts_with = "max_trials")]
    pub(crate) trials: Option<u32>,
    /// Maximum trials of each build; the gate stops early if far more are needed [default: 400]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..=1000))]
    pub(crate) max_trials: Option<u32>,
}

/// Formats of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for a terminal
    Terminal,
    /// For a pull request
    Markdown,
    /// For a program
    Json,
    /// One self-contained page
    Html,
    /// One row per trial
    Csv,
    /// The answer and its picture as an image, 1200 by 630
    Svg,
    /// The same image in pixels; needs `--output`
    Png,
}
