//! The command line: what can be asked, and its help.

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
use self::values::{loss, option};
use crate::failure::EXIT_CODES;

mod dbtester;
mod load;
#[cfg(test)]
mod reference;
mod values;

const EXAMPLES: &str = "\
Examples:
  bakeoff run quickstart               etcd against ZooKeeper, real servers, two minutes
  bakeoff run demo                     the same flow with nothing to fetch, under a minute
  bakeoff run kv-stores --scale 0.01   the published comparison, a hundredth of its size
  bakeoff run my.yaml --json           a study of your own, for a script to read
  bakeoff studies quickstart           a study's file, to copy and change";

/// Which of these should I run, what will it sustain, and what does it cost?
///
/// bakeoff starts real servers, loads each the same way over its own protocol, proves that what was
/// acknowledged is there, and says what it found, or that it found nothing.
#[derive(Debug, Parser)]
#[command(name = "bakeoff", version, max_term_width = 100)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a study: start its systems, load them, check them, compare them
    Run(RunArgs),
    /// Load a URL: closed or at a rate, or search for the highest rate that keeps an objective
    Load(Box<LoadArgs>),
    /// Start one system of a study as a trial would, and say where other tools can load it
    Start(StartArgs),
    /// Render a run again, from its record alone
    Report(ReportArgs),
    /// Check that a record is consistent and that its reports follow from it
    Verify(VerifyArgs),
    /// Run a recorded study again, here, and say claim by claim whether it is replicated
    Reproduce(ReproduceArgs),
    /// List the runs that are kept here: when, what, how it ended, what was found
    History(HistoryArgs),
    /// Put two runs side by side: what changed, and whether that is more than chance
    Compare(CompareArgs),
    /// Run two builds of one system in turn, and say by the exit code whether the new one may be merged
    Gate(Box<GateArgs>),
    /// List the studies that ship, or print one's file
    Studies {
        /// The study whose file to print
        name: Option<String>,
    },
    /// List the systems: where each comes from, what it can do, what it guarantees
    Systems {
        /// The system to show alone
        name: Option<String>,
    },
    /// Fetch a system's program into bakeoff's cache, without root
    Install {
        /// etcd, etcd@3.6, consul@1.20.1, …
        #[arg(required = true, value_name = "SYSTEM[@VERSION]")]
        systems: Vec<String>,
    },
    /// Write what a study of gateways needs on a Kubernetes cluster of yours, and the study to go with it
    Manifests(ManifestsArgs),
    /// Say what is missing for which study, and the command that mends it
    Doctor {
        /// Look at these studies only: names of those that ship, or files
        studies: Vec<String>,
        /// Look at the machines of this file, and at what they lack for these studies
        #[arg(long, value_name = "PLACES.yaml")]
        on: Option<PathBuf>,
    },
    /// Load a URL with wrk's command line and scripts, and print what wrk prints
    #[command(disable_help_flag = true)]
    Wrk {
        /// wrk's own (`bakeoff wrk -h`)
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        args: Vec<OsString>,
    },
    /// Load a URL with hey's command line, and print what hey prints
    #[command(disable_help_flag = true)]
    Hey {
        /// hey's own (`bakeoff hey -h`)
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        args: Vec<OsString>,
    },
    /// Load Vault or OpenBao with vault-benchmark's files, and print what vault-benchmark prints
    #[command(disable_help_flag = true)]
    VaultBenchmark {
        /// vault-benchmark's own (`bakeoff vault-benchmark run -h`)
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        args: Vec<OsString>,
    },
    /// Serve a coordinator on standard input and output: what bakeoff starts on other machines
    #[command(hide = true)]
    Agent {
        /// Be a pod's first process: wait for agents, and end a minute after the last one
        #[arg(long)]
        first: bool,
        /// Put this executable there, and end
        #[arg(long, value_name = "PATH", conflicts_with = "first")]
        install: Option<PathBuf>,
    },
    /// Run what a configuration of dbtester describes, and write dbtester's files and tables
    #[command(subcommand, arg_required_else_help = true)]
    Dbtester(DbtesterCommand),
    /// Print shell completions
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages into a folder
    Manual {
        /// The folder, which has to exist
        folder: PathBuf,
    },
}

impl Command {
    /// Returns whether it may start servers here, or says what that would need.
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

    /// Returns whether it loads servers.
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
                | Self::Dbtester(DbtesterCommand::Control(_))
        )
    }

    /// Returns the runs that it names, each of which may be `latest`.
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

/// `bakeoff run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RunArgs {
    /// A study's file, or the name of one that ships (`bakeoff studies`)
    #[arg(required_unless_present = "resume")]
    pub(crate) study: Option<String>,
    /// Go on with a run that was interrupted or killed: its missing trials, and the rounds that the machine spoilt
    #[arg(long, value_name = "RUN")]
    #[arg(conflicts_with_all = ["study", "scale", "trials", "seed", "threads", "out"])]
    pub(crate) resume: Option<PathBuf>,
    /// Resume a run that another user recorded, or could have changed: its record names the programs that are
    /// executed
    #[arg(long, requires = "resume")]
    pub(crate) trust: bool,
    /// When a machine is lost, wait until all are back and run the trial again, this often; never with fewer machines
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        requires = "on",
        allow_negative_numbers = true
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) retry_lost: u32,
    /// Print the comparison as JSON on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// Show every table, check, setting and note, not the first screen alone
    #[arg(long, conflicts_with = "json")]
    pub(crate) all: bool,
    /// Multiply all counts of operations and keys, evenly; said in all that is printed
    #[arg(long, value_name = "FACTOR", value_parser = factor, allow_negative_numbers = true)]
    pub(crate) scale: Option<f64>,
    /// Run each combination exactly this often [default: until the leading questions are answered, at most as often
    /// as the study says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) trials: Option<u32>,
    #[command(flatten)]
    pub(crate) options: RunOptions,
}

/// Reads a factor.
fn factor(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "a factor is a number: `0.01` for a hundredth".to_owned())
}

/// Flags that each command with a run has.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunOptions {
    /// The seed of the order, the keys and the arrivals [default: a fresh one, printed]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Threads of the load generator [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub(crate) out: PathBuf,
    /// Others work on this machine: check neither for neighbours nor for CPU time that the hypervisor gave
    /// to others, and say so in the report; so does BAKEOFF_SHARED_MACHINE=1
    #[arg(long)]
    pub(crate) shared_machine: bool,
    #[command(flatten)]
    pub(crate) ports: PortOptions,
    /// Run servers and generators on the machines of this file, reached over SSH, or in pods that it describes;
    /// `kubernetes`: in pods of the current context [default: all on this machine]
    #[arg(long, value_name = "PLACES.yaml")]
    pub(crate) on: Option<PathBuf>,
}

impl RunOptions {
    /// Returns the settings of a run.
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

/// The ports of servers.
#[derive(Debug, Clone, Args)]
pub(crate) struct PortOptions {
    /// Use ports from here on [default: free ones below the ephemeral range]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1024..))]
    pub(crate) base_port: Option<u16>,
}

/// `bakeoff start`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct StartArgs {
    /// A study's file, or the name of one that ships (`bakeoff studies`)
    pub(crate) study: String,
    /// Which of its systems; may be left out where it has one
    pub(crate) system: Option<String>,
    /// Prepare it for this workload of the study: sessions, mounts, roles, but no keys [default: the
    /// first that it is put to]
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: Option<String>,
    /// End by itself after this time: `10m` [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) time: Option<Duration>,
    /// Print one line of JSON on standard output, once it is ready
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) ports: PortOptions,
}

/// `bakeoff report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// A run's folder, its `record.jsonl`, or `latest` of those in `runs`
    pub(crate) run: PathBuf,
    /// In which form, on standard output [default: terminal, and `report.html` beside the record]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// Write it to this file instead; its ending tells the form: .html, .md, .csv, .json, .txt
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The same as `--format json`
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Tell which of the field's demands on a measurement the run met, and what says so
    #[arg(long, conflicts_with_all = ["format", "json", "output"])]
    pub(crate) method: bool,
    /// Show every table, check, setting and note, not the first screen alone
    #[arg(long, conflicts_with_all = ["json", "method"])]
    pub(crate) all: bool,
}

/// `bakeoff verify`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct VerifyArgs {
    /// The run's folder, its `record.jsonl`, or `latest` of those in `runs`
    pub(crate) run: PathBuf,
    /// The SHA-256 that the record's last line must have, as it was published
    #[arg(long, value_name = "SHA256")]
    pub(crate) head: Option<String>,
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const REPRODUCE_EXAMPLES: &str = "\
Examples:
  bakeoff reproduce runs/2026-11-22-183016-kv-stores
  bakeoff reproduce theirs/record.jsonl --trust     read its first line before: its programs are executed
  bakeoff reproduce THEIRS --with OURS --json       two runs that are there already";

/// `bakeoff reproduce`.
#[derive(Debug, Args)]
#[command(after_help = REPRODUCE_EXAMPLES, after_long_help = format!("{REPRODUCE_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct ReproduceArgs {
    /// The run whose claims to try: its folder, its `record.jsonl`, or `latest` of those in `runs`
    pub(crate) run: PathBuf,
    /// Ask this run of the same study instead of running it
    #[arg(long, value_name = "RUN", conflicts_with_all = ["threads", "out", "base_port", "trust"])]
    pub(crate) with: Option<PathBuf>,
    /// Run what another user recorded, or could have changed: its record names the programs that are executed
    #[arg(long)]
    pub(crate) trust: bool,
    /// Print it as JSON on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// Threads of the load generator [default: as many as the run had]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub(crate) out: PathBuf,
    /// Others work on this machine: check neither for neighbours nor for CPU time that the hypervisor gave
    /// to others, and say so in the report; so does BAKEOFF_SHARED_MACHINE=1
    #[arg(long)]
    pub(crate) shared_machine: bool,
    #[command(flatten)]
    pub(crate) ports: PortOptions,
}

/// `bakeoff manifests`.
#[derive(Debug, Args)]
pub(crate) struct ManifestsArgs {
    /// A study of ingress gateways: its file, or the name of one that ships
    pub(crate) study: String,
    /// The folder to write to; it must not be there yet, or be empty
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// The name or address of a node of the cluster, by which its node ports are reached
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) node: String,
}

/// The forms of a comparison of two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    /// Tables for a terminal
    Terminal,
    /// For a pull request
    Markdown,
    /// For a program
    Json,
}

/// `bakeoff history`.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub(crate) out: PathBuf,
    /// Print a JSON list
    #[arg(long, conflicts_with = "prune")]
    pub(crate) json: bool,
    /// Remove this of each run: `logs` of its servers, or `all` of it, its record last; runs that go on are left alone
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) prune: Option<Prune>,
    /// Only of runs that ended so long ago: `720h`
    #[arg(long, value_name = "AGE", value_parser = parse_duration, requires = "prune")]
    pub(crate) older_than: Option<Duration>,
}

/// Parts of a run that can be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Prune {
    /// Logs of its servers, and data that a kill left; the record and reports stay
    Logs,
    /// Everything
    All,
}

/// `bakeoff compare`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct CompareArgs {
    /// The run to compare with: its folder, its `record.jsonl`, or `latest~1`, the one before the newest in `runs`
    pub(crate) base: PathBuf,
    /// The run that is compared with it, likewise
    pub(crate) new: PathBuf,
    /// End with 6 when this is proven, and with 7 when nobody can tell:
    /// `[WORKLOAD/LOAD] [SYSTEM:] throughput < -5%`, `p99 > +10%`, errors, cpu, memory
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true)]
    pub(crate) fail_if: Vec<FailIf>,
    /// Write what became of each condition to this file in JUnit's form
    #[arg(long, value_name = "FILE", requires = "fail_if")]
    pub(crate) junit: Option<PathBuf>,
    /// Where further runs of the base's study are, which tell how far runs lie apart; five are needed
    /// for anything to be proven [default: the folder that the base's is in]
    #[arg(long, value_name = "DIR")]
    pub(crate) history: Option<PathBuf>,
    /// In which form
    #[arg(long, value_enum, default_value_t = CompareFormat::Terminal)]
    pub(crate) format: CompareFormat,
    /// The same as `--format json`
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

const GATE_EXAMPLES: &str = "\
Examples:
  bakeoff gate kv-stores --system etcd --base 3.6.1 --new ./bin/etcd
  bakeoff gate kv.yaml --base ./old/server --new ./new/server --fail-if 'p99 > +10%'
  bakeoff gate demo --system unsynced --new-option delay=1ms
  bakeoff gate --resume runs/2026-11-22-183016-kv-gate";

/// `bakeoff gate`.
#[derive(Debug, Args)]
#[command(after_help = GATE_EXAMPLES, after_long_help = format!("{GATE_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct GateArgs {
    /// A study's file, or the name of one that ships (`bakeoff studies`)
    #[arg(required_unless_present = "resume")]
    pub(crate) study: Option<String>,
    #[command(flatten)]
    pub(crate) builds: BuildArgs,
    #[command(flatten)]
    pub(crate) demands: GateDemands,
    /// Multiply all counts of operations and keys, evenly
    #[arg(long, value_name = "FACTOR", value_parser = factor, allow_negative_numbers = true)]
    pub(crate) scale: Option<f64>,
    #[command(flatten)]
    pub(crate) options: RunOptions,
    /// Go on with a gate that was interrupted or killed, and judge it; one that is complete is judged again
    #[arg(long, value_name = "RUN")]
    #[arg(conflicts_with_all = [
        "study", "system", "base", "new", "base_option", "new_option", "fail_if", "detect", "trials",
        "max_trials", "scale", "seed", "threads", "out",
    ])]
    pub(crate) resume: Option<PathBuf>,
    /// Resume a gate that another user recorded, or could have changed: its record names the programs that are
    /// executed
    #[arg(long, requires = "resume")]
    pub(crate) trust: bool,
    /// Write what became of each condition to this file in JUnit's form
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// In which form
    #[arg(long, value_enum, default_value_t = CompareFormat::Terminal)]
    pub(crate) format: CompareFormat,
    /// The same as `--format json`
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

/// The two builds of a gate.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// Of which of its systems there are two builds; may be left out where it has one
    #[arg(long, value_name = "NAME")]
    pub(crate) system: Option<String>,
    /// The build to compare with: a path, or a version that `bakeoff install` can fetch [default: what the
    /// study names]
    #[arg(long, value_name = "PROGRAM|VERSION")]
    pub(crate) base: Option<String>,
    /// The build that may be merged, likewise
    #[arg(long, value_name = "PROGRAM|VERSION")]
    pub(crate) new: Option<String>,
    /// An option that the base has of its own, in place of the study's
    #[arg(long, value_name = "NAME=VALUE", value_parser = option)]
    pub(crate) base_option: Vec<(String, String)>,
    /// An option that the new one has of its own
    #[arg(long, value_name = "NAME=VALUE", value_parser = option)]
    pub(crate) new_option: Vec<(String, String)>,
}

/// The demands of a gate on the new build, and the trials that prove them.
#[derive(Debug, Args)]
pub(crate) struct GateDemands {
    /// The changes that stop the merge when they are proven: `[WORKLOAD/LOAD] [SYSTEM:] throughput < -5%`, `p99 > +10%`,
    /// errors, cpu, memory [default: the figure each load was run for is worse by more than 1 %, or errors > +0%]
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true)]
    pub(crate) fail_if: Vec<FailIf>,
    /// The loss that must not pass unnoticed: it is found, or nobody can tell [default: 5%]
    #[arg(long, value_name = "SHARE", value_parser = loss)]
    pub(crate) detect: Option<f64>,
    /// Run each build exactly so often [default: as often as finds that loss at the scatter that is seen]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=1000))]
    #[arg(conflicts_with = "max_trials")]
    pub(crate) trials: Option<u32>,
    /// Run each build at most so often; where far more would be needed, stop early [default: 400]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..=1000))]
    pub(crate) max_trials: Option<u32>,
}

/// The forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for a terminal
    Terminal,
    /// For a pull request
    Markdown,
    /// For a program
    Json,
    /// One page that needs nothing else
    Html,
    /// One row a trial
    Csv,
}
