//! Runs other tools' command lines and prints their output, so that scripts and habits carry over.
//!
//! A tool is available as a subcommand (`bakeoff hey …`) and by name: a link to bakeoff called `hey` runs hey.
//! Everything after the tool's name belongs to the tool.
//!
//! Not here: the load itself (`bakeoff_engine`). Each tool here is its flags, its checks and its output.

pub mod dbtester;
pub mod etcd_benchmark;
mod flags;
#[cfg(test)]
mod fuzz;
pub mod hey;
pub mod vault_benchmark;
pub mod wrk;

use std::ffi::OsString;
use std::path::Path;

use bakeoff_core::check;
use bakeoff_core::measurement::Measurement;
use bakeoff_engine::LoadError;

/// Exit code of a load without a single success.
pub(crate) const NOT_VALID: u8 = 1;

/// Returns findings about a load that the tool's own figures do not show, one sentence each.
pub(crate) fn findings(measurement: &Measurement) -> impl Iterator<Item = String> {
    let throttled = check::generator_throttled(measurement);
    let delayed = measurement.delayed_acks().map(|found| found.text());
    throttled.into_iter().chain(measurement.notes_on_clients()).chain(delayed)
}

/// Returns the arguments of a command line as UTF-8.
pub(crate) fn utf8_arguments(args: &[OsString]) -> Result<Vec<String>, LoadError> {
    let text = |arg: &OsString| {
        let shown = || format!("`{}` is not UTF-8", arg.to_string_lossy());
        arg.to_str().map(str::to_owned).ok_or_else(|| LoadError::Input(shown(), None))
    };
    args.iter().map(text).collect()
}

/// Variable with the user and password of requests, as `USER:PASSWORD`.
const USER: &str = "BAKEOFF_USER";

/// Returns user and password of the variable `BAKEOFF_USER`, which no list of processes shows to other users.
///
/// # Errors
/// If the variable is not `USER:PASSWORD`.
pub fn user_of_environment() -> Result<Option<(String, String)>, &'static str> {
    match std::env::var_os(USER).filter(|value| !value.is_empty()) {
        None => Ok(None),
        Some(value) => parse_user(value.to_str().ok_or("it is not UTF-8")?).map(Some),
    }
}

/// Splits `USER:PASSWORD` at its first colon.
///
/// # Errors
/// If it has no colon, or more than one line.
pub fn parse_user(text: &str) -> Result<(String, String), &'static str> {
    if text.contains(char::is_control) {
        return Err("it has control characters or several lines");
    }
    let (user, password) = text.split_once(':').ok_or("it has no `:` between user and password")?;
    Ok((user.to_owned(), password.to_owned()))
}

/// Output of a tool.
pub trait Console {
    /// Prints results to standard output.
    fn output(&self, text: &str);
    /// Reports progress.
    fn step(&mut self, line: &str);
    /// Reports a problem that does not end the load.
    fn complain(&mut self, what: &str);
}

const TOOLS: [&str; 4] = ["wrk", "hey", "vault-benchmark", ETCD_BENCHMARK];

const ETCD_BENCHMARK: &str = "etcd-benchmark";

/// Name of etcd's own program, which is taken only from a link: `bakeoff benchmark` could be anything.
const ETCDS_NAME: &str = "benchmark";

/// Tool with subcommands and help in bakeoff's own style.
const COMMANDS: &str = "dbtester";

/// Returns true if the program was called by the name [`COMMANDS`].
fn called_by_a_command(args: &[OsString]) -> bool {
    let name = args.first().and_then(|path| Path::new(path).file_name());
    name.is_some_and(|name| name == COMMANDS)
}

/// Returns the program's arguments in the form of the command line parser. A tool's name comes second, and its own
/// arguments follow `--`, so that bakeoff does not read them.
pub fn arguments(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let is_tool = |name: &OsString| TOOLS.iter().any(|tool| *name == **tool);
    let called = args.first().and_then(|path| Path::new(path).file_name()).map(OsString::from);
    let called = called.map(|name| if name == ETCDS_NAME { ETCD_BENCHMARK.into() } else { name });
    match called.filter(is_tool) {
        Some(tool) => drop(args.splice(1..1, [tool, "--".into()])),
        None if called_by_a_command(&args) => args.insert(1, COMMANDS.into()),
        None if args.get(1).is_some_and(is_tool) => args.insert(2, "--".into()),
        None => {}
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &str, expected: &str) {
        let words = args.split(' ').map(OsString::from);
        let expected: Vec<OsString> = expected.split(' ').map(OsString::from).collect();
        assert_eq!(arguments(words), expected);
    }

    #[test]
    fn a_tool_keeps_its_own_arguments() {
        check("bakeoff hey -n 5 -- x --help", "bakeoff hey -- -n 5 -- x --help");
        check("bakeoff hey", "bakeoff hey --");
    }

    #[test]
    fn a_link_by_the_name_of_a_tool_is_that_tool() {
        check("/usr/local/bin/hey -n 5 u", "/usr/local/bin/hey hey -- -n 5 u");
        check("hey", "hey hey --");
        check("vault-benchmark run -h", "vault-benchmark vault-benchmark -- run -h");
        check("hey run u", "hey hey -- run u");
        check("benchmark put", "benchmark etcd-benchmark -- put");
        check("etcd-benchmark --conns 3 put", "etcd-benchmark etcd-benchmark -- --conns 3 put");
        check("bin/dbtester control -c x", "bin/dbtester dbtester control -c x");
    }

    #[test]
    fn everything_else_is_left_alone() {
        check("bakeoff run hey", "bakeoff run hey");
        check("bakeoff help hey", "bakeoff help hey");
        check("bakeoff benchmark", "bakeoff benchmark");
        check("/hey/bakeoff", "/hey/bakeoff");
    }
}
