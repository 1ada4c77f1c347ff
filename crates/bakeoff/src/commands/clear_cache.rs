//! `bakeoff clear-cache`: removes what bakeoff keeps in the caches of other machines.
//!
//! Runs leave it there on purpose, so that the next one sends nothing. This machine's own cache stays.
//!
//! Not here: what is removed (`bakeoff_install::Cache::clear`).

use std::path::Path;
use std::process::ExitCode;

use bakeoff_agent::Request;
use bakeoff_core::places::{Purpose, Reach};
use bakeoff_core::units::ByteCount;
use bakeoff_fleet::machines::{self, RunSurroundings};

use crate::failure::Failure;
use crate::messages;

/// Clears the caches of all machines that can be reached, and fails if one could not be cleared.
pub(crate) fn run(on: &Path) -> Result<ExitCode, Failure> {
    let places = machines::read_places(on, Purpose::Doctor)?;
    if places.kubernetes.is_some() {
        let what = format!("`{}` describes pods, which keep no cache", on.display());
        return Err(Failure::input(what, "pods and their disks end with their run"));
    }
    let (_, sent) = machines::sent(&places)?;
    let mut failure = None;
    for machine in &places.machines {
        let name = &machine.name;
        if machine.reach == Reach::Here {
            messages::output(&format!("{name}: this machine; its cache stays"));
            continue;
        }
        let cleared = machines::begin(&places, machine, &sent, RunSurroundings::default())
            .and_then(|agent| {
                Ok((agent.ask::<u64>(&Request::ClearCache)?, agent.hello().cache.clone()))
            });
        match cleared {
            Ok((freed, cache)) => {
                messages::output(&format!(
                    "{name}: freed {} in {}",
                    ByteCount(freed),
                    cache.display()
                ));
            }
            Err(error) if failure.is_none() => failure = Some(error),
            Err(error) => messages::warn(&error.to_string()),
        }
    }
    failure.map_or(Ok(ExitCode::SUCCESS), |error| Err(Failure::from(error)))
}
