//! Other tools' command lines and outputs, so that scripts and habits carry over.
//!
//! A tool is had as a subcommand (`bakeoff hey …`) and by name: where bakeoff is installed as `hey`,
//! through a link, it is hey. What follows the tool's name is the tool's own and is read by it alone.
//!
//! Not here: the load itself (`bakeoff_engine`). A tool here is its flags, its checks and its output.

pub mod dbtester;
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

/// The exit code of a load without a single success.
pub(crate) const NOT_VALID: u8 = 1;

/// Returns what a user should know of a load and no figure of the other tools shows, a sentence each.
pub(crate) fn findings(measurement: &Measurement) -> impl Iterator<Item = String> {
    let throttled = check::generator_throttled(measurement);
    throttled.into_iter().chain(measurement.delayed_acks().map(|found| found.text()))
}

/// Where a tool prints.
pub trait Console {
    /// Prints what was asked for, to standard output.
    fn output(&self, text: &str);
    /// Tells that something was begun or done.
    fn step(&mut self, line: &str);
    /// Tells of something that went wrong and does not end the load.
    fn complain(&mut self, what: &str);
}

/// The tools, by the names that their users type.
const TOOLS: [&str; 3] = ["wrk", "hey", "vault-benchmark"];

/// The tool whose commands are bakeoff's own kind of command line, with help for each.
const COMMANDS: &str = "dbtester";

/// Returns whether bakeoff was called by that tool's name.
fn called_by_a_command(args: &[OsString]) -> bool {
    let name = args.first().and_then(|path| Path::new(path).file_name());
    name.is_some_and(|name| name == COMMANDS)
}

/// The program's arguments as the command line knows them: of a tool, with its name in second place
/// and the tool's own arguments behind `--`, so that nobody else takes them for theirs.
pub fn arguments(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let is_tool = |name: &OsString| TOOLS.iter().any(|tool| *name == **tool);
    let called = args.first().and_then(|path| Path::new(path).file_name()).map(OsString::from);
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
        check("bin/dbtester control -c x", "bin/dbtester dbtester control -c x");
    }

    #[test]
    fn everything_else_is_left_alone() {
        check("bakeoff run hey", "bakeoff run hey");
        check("bakeoff help hey", "bakeoff help hey");
        check("/hey/bakeoff", "/hey/bakeoff");
    }
}
