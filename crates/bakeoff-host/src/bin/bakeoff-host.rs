//! Runs only the internal commands, for the tests of this crate, because a test runner cannot run them itself.
//!
//! Not here: `bakeoff`, the program of users, which has the same commands.

use std::process::ExitCode;

fn main() -> ExitCode {
    bakeoff_host::internal_command().unwrap_or(ExitCode::from(2))
}
