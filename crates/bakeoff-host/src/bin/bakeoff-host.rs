//! The internal commands alone, for the tests of this crate: a test runner cannot be started again as one
//! of them.
//!
//! Not here: `bakeoff`, which answers the same commands and is what users have.

use std::process::ExitCode;

fn main() -> ExitCode {
    bakeoff_host::internal_command().unwrap_or(ExitCode::from(2))
}
