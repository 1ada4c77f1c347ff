//! Resolves the options of the command line, the environment and the file.
//!
//! As in vault-benchmark, the command line comes first, then the environment (even an empty variable), then the file,
//! then the default. vault-benchmark replaces an invalid value by the default; bakeoff reports an error.
//!
//! Not here: the tests of the file (`config`, `tests`).

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bakeoff_core::units::shown;
use bakeoff_engine::LoadError;

use super::config::Config;
use super::fields::Environment;
use crate::flags::{self, CommandLine, FlagArity, Unreadable};

pub(super) const USAGE: &str = "\
Usage: bakeoff vault-benchmark <command> [options]

Commands:
    run       Run the tests of a configuration file against a Vault or OpenBao server
    review    Print the results that an earlier run wrote as JSON

`bakeoff vault-benchmark run -h` and `bakeoff vault-benchmark review -h` list the options.
";

pub(super) const REVIEW_USAGE: &str = "\
Usage: bakeoff vault-benchmark review -results_file=FILE [options]

  -results_file=FILE     What `run -report_mode=json` has printed.
  -report_mode=MODE      terse or verbose [default: terse]
";

pub(super) const RUN_USAGE: &str = "\
Usage: bakeoff vault-benchmark run -config=FILE [options]

All but -config can also stand in the file, without the hyphen: `duration = \"30s\"`. The command
line wins over the environment, and the environment over the file.

  -config=FILE           The tests: docs/vault-benchmark.md
  -vault_addr=URL        The server [env: VAULT_ADDR; default: http://127.0.0.1:8200]
  -vault_token=TOKEN     With which tests are set up. Better kept in the environment, where no
                         list of processes shows it [env: VAULT_TOKEN]
  -vault_namespace=NAME  In which tests are mounted [env: VAULT_NAMESPACE]
  -cluster_json=FILE     Servers and token: {\"vault_addrs\": [\"…\"], \"token\": \"…\"}
  -ca_pem_file=FILE      Whose certificates are trusted, as PEM [env: VAULT_CACERT]
  -duration=TIME         How long requests are sent [default: 10s]
  -workers=N             How many requests are under way at most [default: 10]
  -rps=N                 Requests a second; 0 is as fast as the workers can [default: 0]
  -report_mode=MODE      terse, verbose or json [default: terse]
  -random_mounts=BOOL    Mount under random names and not under the tests' own [default: true]
  -cleanup               Remove everything again at the end; needs random mounts
  -audit_path=FILE       Where the server writes an audit log while tests run
  -annotate=A=B,C=D      What stands with the results
  -disable_http2         Speak HTTP/1.1, also where the server offers HTTP/2
  -disable_keep_alive    A new connection for each request
  -pprof_interval=TIME   How often `vault debug` collects profiles of the server [default: never]
  -log_level=LEVEL       error, warn, info, debug or trace
                         [env: VAULT_BENCHMARK_LOG_LEVEL; default: info]
  -debug                 Show each test's first request and its answer before the load
";

/// A token or password, which prints as asterisks.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Secret(String);

impl Secret {
    pub(super) fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// Returns the secret itself, for the request that needs it.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("***")
    }
}

#[derive(Debug)]
pub(super) enum Command {
    /// Prints this text.
    Help(&'static str),
    Run(RunFlags),
    Review(Review),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Review {
    pub(super) results_file: PathBuf,
    /// Terse or verbose.
    pub(super) report_mode: ReportMode,
}

/// Flags of `run`, unparsed.
#[derive(Debug)]
pub(super) struct RunFlags(BTreeMap<String, String>);

/// All settings of `run`, resolved.
#[derive(Debug)]
pub(super) struct Options {
    /// One or more servers. Tests are set up through the first; the load goes to each.
    pub(super) addresses: Vec<String>,
    pub(super) token: Secret,
    /// Namespace; `None` for the root.
    pub(super) namespace: Option<String>,
    pub(super) ca_pem_file: Option<PathBuf>,
    /// Always above zero.
    pub(super) duration: Duration,
    /// At least 1.
    pub(super) workers: u32,
    /// Requests per second; `None` for no limit.
    pub(super) rps: Option<u32>,
    pub(super) report_mode: ReportMode,
    pub(super) random_mounts: bool,
    /// Only true with random mounts.
    pub(super) cleanup: bool,
    pub(super) audit_path: Option<String>,
    pub(super) annotations: Vec<(String, String)>,
    pub(super) disable_http2: bool,
    pub(super) disable_keep_alive: bool,
    pub(super) pprof_interval: Option<Duration>,
    pub(super) log_level: LogLevel,
    pub(super) debug: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReportMode {
    Terse,
    Verbose,
    Json,
}

/// Levels of progress messages. Each includes the levels before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

const MODES: [(&str, ReportMode); 3] =
    [("terse", ReportMode::Terse), ("verbose", ReportMode::Verbose), ("json", ReportMode::Json)];

const LEVELS: [(&str, LogLevel); 6] = [
    ("off", LogLevel::Off),
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

/// Flags of `run` that take a value.
const VALUES: [&str; 14] = [
    "config",
    "vault_addr",
    "vault_token",
    "vault_namespace",
    "workers",
    "rps",
    "duration",
    "report_mode",
    "pprof_interval",
    "annotate",
    "audit_path",
    "ca_pem_file",
    "cluster_json",
    "log_level",
];

/// Flags of `run` that take no value.
const SWITCHES: [&str; 5] =
    ["random_mounts", "cleanup", "debug", "disable_http2", "disable_keep_alive"];

/// Parses the command line after `vault-benchmark`.
///
/// # Errors
///
/// When a command or flag is unknown, or a value is missing.
pub(super) fn command(args: &[String]) -> Result<Command, LoadError> {
    let Some((command, args)) = args.split_first() else {
        return Err(LoadError::Input(format!("no command given\n\n{USAGE}"), None));
    };
    match &**command {
        "run" => run(args),
        "review" => review(args),
        "-h" | "-help" | "--help" | "help" => Ok(Command::Help(USAGE)),
        other => {
            let what = format!("unknown command `{}` of vault-benchmark\n\n{USAGE}", shown(other));
            Err(LoadError::Input(what, None))
        }
    }
}

fn run(args: &[String]) -> Result<Command, LoadError> {
    let takes = |name: &str| match name {
        name if VALUES.contains(&name) => Some(FlagArity::Value),
        name if SWITCHES.contains(&name) => Some(FlagArity::Nothing),
        _ => None,
    };
    Ok(match flags(args, takes, "run")? {
        Some(flags) => Command::Run(RunFlags(flags)),
        None => Command::Help(RUN_USAGE),
    })
}

fn review(args: &[String]) -> Result<Command, LoadError> {
    let takes = |name: &str| match name {
        "results_file" | "report_mode" => Some(FlagArity::Value),
        _ => None,
    };
    let Some(mut flags) = flags(args, takes, "review")? else {
        return Ok(Command::Help(REVIEW_USAGE));
    };
    let Some(results_file) = flags.remove("results_file") else {
        let hint = "`-results_file=FILE` names what `run -report_mode=json` has printed";
        return Err(LoadError::input("review needs the results of a run", hint));
    };
    let report_mode = match flags.remove("report_mode").as_deref() {
        None | Some("terse") => ReportMode::Terse,
        Some("verbose") => ReportMode::Verbose,
        Some(other) => {
            let what = format!("`-report_mode` cannot be `{}` in a review", shown(other));
            return Err(LoadError::input(what, "it is `terse` or `verbose`"));
        }
    };
    Ok(Command::Review(Review { results_file: results_file.into(), report_mode }))
}

/// Returns flags by name, keeping the last of each; `None` if the user asks for help.
fn flags(
    args: &[String],
    takes: impl Fn(&str) -> Option<FlagArity>,
    command: &str,
) -> Result<Option<BTreeMap<String, String>>, LoadError> {
    let hint = format!("`bakeoff vault-benchmark {command} -h` lists the options");
    match flags::read(args, &takes) {
        // A help flag with a value, such as `-h x`, counts as a mistake.
        _ if args.iter().any(|arg| matches!(&**arg, "-h" | "--h" | "-help" | "--help")) => Ok(None),
        Ok(CommandLine { flags, rest }) => match rest.first() {
            None => Ok(Some(flags.into_iter().collect())),
            Some(rest) => {
                let what = format!("`{}` is not an option of `{command}`", shown(rest));
                let hint = "options begin with a hyphen, and a switch takes its value after `=`: \
                            `-random_mounts=false`";
                Err(LoadError::input(what, hint))
            }
        },
        Err(Unreadable::Help) => Ok(None),
        Err(Unreadable::Wrong(what)) => Err(LoadError::input(what.to_string(), hint)),
    }
}

impl RunFlags {
    /// Reads the file and resolves all options. The caller still has to build the tests and to call `Config::finish`.
    ///
    /// # Errors
    ///
    /// When a value is invalid or a file cannot be read. `Config::finish` reports faults of the file's options,
    /// together with all others in the file.
    pub(super) fn resolve(self, environment: &Environment) -> Result<(Options, Config), LoadError> {
        let Some(path) = self.0.get("config") else {
            let hint = "`-config=FILE` names a file of tests; see docs/vault-benchmark.md";
            return Err(LoadError::input("no configuration file given", hint));
        };
        let config = Config::read(path.as_ref(), environment.clone())?;
        let options = Resolve { flags: &self.0, environment, config: &config }.options()?;
        Ok((options, config))
    }
}

enum Origin {
    Flag,
    Variable(&'static str),
    File,
}

struct Resolve<'r> {
    flags: &'r BTreeMap<String, String>,
    environment: &'r Environment,
    config: &'r Config,
}

impl Resolve<'_> {
    fn options(&self) -> Result<Options, LoadError> {
        let text = |name, variable| self.text(name, variable).map(|(text, _)| text);
        let filled =
            |name, variable| Some(text(name, variable)?).filter(|text: &String| !text.is_empty());
        let (addresses, token) = self.cluster()?;
        // The option has no effect, but vault-benchmark accepts it.
        self.config.options.flag("input_results");
        let duration = self.duration("duration")?.unwrap_or(Duration::from_secs(10));
        if duration.is_zero() {
            return Err(self.wrong("duration", "`duration` must be more than 0"));
        }
        let random_mounts = self.flag("random_mounts")?.unwrap_or(true);
        let cleanup = self.flag("cleanup")?.unwrap_or(false);
        if cleanup && !random_mounts {
            return Err(LoadError::input(
                "`cleanup` needs random mounts",
                "mounts with names of your own may hold other data; add `-random_mounts=true`",
            ));
        }
        let whole = |name, min| self.whole(name, min);
        let workers = whole("workers", 1)?.unwrap_or(10);
        Ok(Options {
            addresses,
            token,
            namespace: filled("vault_namespace", Some("VAULT_NAMESPACE")),
            ca_pem_file: filled("ca_pem_file", Some("VAULT_CACERT")).map(PathBuf::from),
            duration,
            workers,
            rps: whole("rps", 0)?.filter(|rps| *rps > 0),
            report_mode: self.word("report_mode", None, &MODES)?.unwrap_or(ReportMode::Terse),
            random_mounts,
            cleanup,
            audit_path: filled("audit_path", None),
            annotations: self.annotations()?,
            disable_http2: self.flag("disable_http2")?.unwrap_or(false),
            disable_keep_alive: self.flag("disable_keep_alive")?.unwrap_or(false),
            pprof_interval: self.duration("pprof_interval")?.filter(|every| !every.is_zero()),
            log_level: self
                .word("log_level", Some("VAULT_BENCHMARK_LOG_LEVEL"), &LEVELS)?
                .unwrap_or(LogLevel::Info),
            debug: self.flag("debug")?.unwrap_or(false),
        })
    }

    /// Returns the value of a text option. Always reads it from the file, so that it counts as known.
    fn text(&self, name: &'static str, variable: Option<&'static str>) -> Option<(String, Origin)> {
        let file = self.config.options.text(name).filter(|text| !text.is_empty());
        if let Some(text) = self.flags.get(name) {
            return Some((text.clone(), Origin::Flag));
        }
        if let Some(variable) = variable
            && let Some(text) = self.environment.get(variable)
        {
            return Some((text.to_owned(), Origin::Variable(variable)));
        }
        Some((file?, Origin::File))
    }

    fn word<T: Copy>(
        &self,
        name: &'static str,
        variable: Option<&'static str>,
        words: &[(&str, T)],
    ) -> Result<Option<T>, LoadError> {
        let Some((text, origin)) = self.text(name, variable) else { return Ok(None) };
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text.trim()));
        if let Some((_, value)) = found {
            return Ok(Some(*value));
        }
        let all: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        let hint = format!("it is one of {}", all.join(", "));
        let what = |name: &str| format!("`{name}` cannot be `{}`", shown(&text));
        match origin {
            Origin::Flag => Err(LoadError::input(what(&format!("-{name}")), hint)),
            Origin::Variable(variable) => Err(LoadError::input(what(variable), hint)),
            Origin::File => {
                self.config.diagnostic(name, what(name), hint);
                Ok(None)
            }
        }
    }

    fn flag(&self, name: &'static str) -> Result<Option<bool>, LoadError> {
        let file = self.config.options.flag(name);
        let Some(text) = self.flags.get(name) else { return Ok(file) };
        let flag = flags::switch(text).ok_or_else(|| self.unread(name, text, "`true` or `false`"));
        flag.map(Some)
    }

    fn whole(&self, name: &'static str, min: u32) -> Result<Option<u32>, LoadError> {
        let file = self.config.options.whole_from(name, i64::from(min));
        let number = match self.flags.get(name) {
            Some(text) => {
                let wanted = format!("a whole number of at least {min}");
                let number = flags::integer(text).filter(|number| *number >= i64::from(min));
                Some(number.ok_or_else(|| self.unread(name, text, &wanted))?)
            }
            None => file,
        };
        let number = number.map(u32::try_from).transpose();
        number.map_err(|_| self.wrong(name, &format!("`{name}` is too large")))
    }

    fn duration(&self, name: &'static str) -> Result<Option<Duration>, LoadError> {
        // An empty text counts as missing, as in vault-benchmark.
        let file = match self.config.options.is_empty_text(name) {
            true => None,
            false => self.config.options.duration(name),
        };
        let Some(text) = self.flags.get(name) else { return Ok(file) };
        // Only on the command line, a number without a unit means seconds.
        let has_unit = text.ends_with(['s', 'm', 'h']);
        let duration = match has_unit {
            true => flags::duration(text),
            false => flags::duration(&format!("{text}s")),
        };
        duration.map(Some).ok_or_else(|| self.unread(name, text, "a duration such as `1m30s`"))
    }

    fn unread(&self, name: &str, text: &str, wanted: &str) -> LoadError {
        let what = format!("`-{name}` must be {wanted}, not `{}`", shown(text));
        LoadError::input(what, "`bakeoff vault-benchmark run -h` lists the options")
    }

    /// Reports a value that can be parsed but is invalid.
    fn wrong(&self, name: &str, what: &str) -> LoadError {
        let from =
            if self.flags.contains_key(name) { "on the command line" } else { "in the file" };
        LoadError::Input(format!("{what}: {from}"), None)
    }

    fn annotations(&self) -> Result<Vec<(String, String)>, LoadError> {
        let Some((text, _)) = self.text("annotate", None) else { return Ok(Vec::new()) };
        let pair = |pair: &str| match pair.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => Err(LoadError::input(
                format!("`annotate` cannot be `{}`", shown(&text)),
                "write `name=value`, with commas between several",
            )),
        };
        text.split(',').filter(|_| !text.is_empty()).map(pair).collect()
    }

    /// Returns the servers and the token.
    fn cluster(&self) -> Result<(Vec<String>, Secret), LoadError> {
        let mut addresses = Vec::new();
        let token = self.text("vault_token", Some("VAULT_TOKEN")).map(|(token, _)| token);
        let mut token = Secret::new(token.unwrap_or_default());
        let address = self.text("vault_addr", Some("VAULT_ADDR"));
        let address = address.map_or_else(|| "http://127.0.0.1:8200".into(), |(text, _)| text);
        match self.text("cluster_json", None).filter(|(path, _)| !path.is_empty()) {
            Some((path, _)) => {
                let cluster = Cluster::read(&path)?;
                addresses.extend(cluster.vault_addrs);
                if token.is_empty() {
                    token = Secret::new(cluster.token);
                }
                if addresses.is_empty() {
                    let what = format!("`{path}` names no server");
                    return Err(LoadError::input(what, "it needs a list of URLs, `vault_addrs`"));
                }
            }
            None if address.is_empty() => {
                let hint = "give `-vault_addr=URL`, `VAULT_ADDR`, or `-cluster_json=FILE`";
                return Err(LoadError::input("no server address given", hint));
            }
            None => addresses.push(address),
        }
        if token.is_empty() {
            let hint = "set `VAULT_TOKEN`, or `vault_token` in the file";
            return Err(LoadError::input(
                "no Vault token given; the tests need one for their setup",
                hint,
            ));
        }
        if token.reveal().bytes().any(|byte| !(b'!'..=b'~').contains(&byte)) {
            let hint = "a token has no spaces and no line breaks";
            return Err(LoadError::input(
                "the token holds characters that a header cannot carry",
                hint,
            ));
        }
        for address in &mut addresses {
            *address = address.trim_end_matches('/').to_owned();
        }
        Ok((addresses, token))
    }
}

#[derive(serde::Deserialize)]
struct Cluster {
    #[serde(default)]
    token: String,
    #[serde(default)]
    vault_addrs: Vec<String>,
}

/// Most bytes of a cluster file.
const CLUSTER_MAX: u64 = 1 << 20;

impl Cluster {
    fn read(path: &str) -> Result<Self, LoadError> {
        let hint = "it is `{\"vault_addrs\": [\"http://…\"], \"token\": \"…\"}`";
        let text = bakeoff_files::read_text(path.as_ref(), CLUSTER_MAX).map_err(|error| {
            LoadError::input(format!("cannot read the cluster file `{path}`: {error}"), hint)
        })?;
        // The error gives only line and column, because the text may be the token.
        serde_json::from_str(&text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let what = format!("cannot read the cluster file `{path}` at {line}:{column}");
            LoadError::input(what, hint)
        })
    }
}

#[cfg(test)]
mod tests;
