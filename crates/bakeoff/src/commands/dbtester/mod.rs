//! `bakeoff dbtester`: runs dbtester's commands with the loop, record and audits of `bakeoff run`.
//!
//! `control` turns a configuration into a study (`study`), runs it, and writes dbtester's files from the record.
//! `analyze` reads such files, from `control` or from dbtester.
//!
//! Not here: the configuration, the files, the tables (`bakeoff_compat::dbtester`).

mod analyze;
mod control;
mod nodes;
mod study;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use bakeoff_compat::dbtester::{self, Config};
use bakeoff_files as files;
use bakeoff_fleet::warnings;
use bakeoff_trial::event::Reporter;

use crate::cli::DbtesterCommand;
use crate::failure::Failure;
use crate::messages;

pub(crate) fn run(
    command: &DbtesterCommand,
    reporter: &mut dyn Reporter,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    match command {
        DbtesterCommand::Agent { .. } => {
            messages::output(AGENT);
            Ok(ExitCode::SUCCESS)
        }
        DbtesterCommand::Control(args) => control::run(args, reporter, interrupted),
        DbtesterCommand::Analyze(args) => analyze::run(args),
    }
}

const AGENT: &str = "\
There is no agent to start: `bakeoff dbtester control` starts, samples and stops the databases itself, and leaves
nothing listening. This command exits at once with 0, so that scripts which start dbtester's agent continue. The
agent's options have these counterparts:
  --etcd-exec, --consul-exec PATH         control --build ID=PATH
  --agent-port, --agent-log, *-data-dir   none: data and logs are in the run's folder, below `runs`
  --system-metrics-csv PATH               `server-system-metrics` files next to those that `analyze` reads";

/// Most bytes of a configuration.
const CONFIG_MAX: u64 = 16 << 20;

struct ConfigFile {
    /// Path as the user gave it.
    name: String,
    text: String,
    config: Config,
}

impl ConfigFile {
    /// Reads the file, and warns of fields that dbtester ignored.
    fn read(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let text = files::read_text(path, CONFIG_MAX).map_err(|error| {
            Failure::input(
                format!("cannot read configuration `{name}`: {error}"),
                "name a dbtester configuration: `--config FILE`",
            )
        })?;
        warnings::warn_of_foreign_code(path);
        let (config, notes) = dbtester::read(&name, &text)?;
        notes.iter().for_each(|note| messages::warn(note));
        Ok(Self { name, text, config })
    }
}

/// Writes files, below `folder` unless a path is absolute, and creates their folders.
fn write_all(folder: &Path, files: &[(String, String)]) -> Result<Vec<PathBuf>, Failure> {
    let mut written = Vec::new();
    for (name, text) in files {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(|error| Failure::file("make", parent, &error))?;
        files::replace(&path, text.as_bytes(), files::SHARED)
            .map_err(|error| Failure::file("write", &path, &error))?;
        written.push(path);
    }
    Ok(written)
}
