//! Runs `bakeoff vault-benchmark`: vault-benchmark's files, command line and reports.
//!
//! Not here: the command line (`options`), the file (`config`, and `fields` and `hcl` below it).

mod cleanup;
mod client;
mod config;
mod fields;
mod hcl;
mod interrupts;
mod load;
mod options;
mod profiles;
mod report;
mod request;
mod run;
mod server;
mod tests;
mod trouble;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use bakeoff_engine::LoadError;

use self::options::Command;
use crate::Console;

/// Runs vault-benchmark with these arguments.
pub fn run(
    args: &[OsString],
    messages: &mut dyn Console,
    interrupted: &AtomicBool,
) -> Result<ExitCode, LoadError> {
    let args = crate::utf8_arguments(args)?;
    match options::command(&args)? {
        Command::Help(usage) => messages.output(usage),
        Command::Run(flags) => return run::run(flags, messages, interrupted),
        Command::Review(review) => {
            let (text, notes) = report::review(&review)?;
            messages.output(&text);
            notes.iter().for_each(|note| messages.complain(note));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses a configuration's text and returns the messages for its user.
#[cfg(test)]
pub(crate) fn messages_for(text: &str) -> String {
    let read = config::Config::parse("fuzz.hcl", text, fields::Environment::default());
    match read.map(|config| config.finish()) {
        Ok(Ok(())) => String::new(),
        Ok(Err(diagnostics)) | Err(diagnostics) => diagnostics.to_string(),
    }
}
