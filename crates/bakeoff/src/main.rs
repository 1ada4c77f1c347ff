//! placeholder
mod canary;
mod engine;
mod host;
mod install;
mod kv;
mod systems;

use std::process::ExitCode;

fn main() -> ExitCode {
    // bakeoff starts itself for these, before any argument of a user's is looked at.
    if let Some(code) = host::internal_command().or_else(canary::internal_command) {
        return code;
    }
    ExitCode::SUCCESS
}
