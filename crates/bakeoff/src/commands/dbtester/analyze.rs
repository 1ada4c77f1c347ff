//! `bakeoff dbtester analyze`: reads the files of `control` or dbtester, and writes tables, plots and the README.
//!
//! Not here: the analysis (`bakeoff_compat::dbtester::analysis`).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use bakeoff_compat::dbtester::Database;
use bakeoff_compat::dbtester::analysis::{self, Input};
use bakeoff_files as files;

use super::{ConfigFile, write_all};
use crate::cli::AnalyzeArgs;
use crate::failure::Failure;
use crate::messages;

/// Maximum bytes of a file to read. A day of metrics has about 30 MB.
const FILE_MAX: u64 = 1 << 30;

/// Analyses the databases, prints their table, and names the folder of the files.
pub(super) fn run(args: &AnalyzeArgs) -> Result<ExitCode, Failure> {
    let file = ConfigFile::read(&args.config)?;
    let config = &file.config;
    if config.compared.is_empty() {
        return Err(Failure::input(
            format!("`{}` names no database in `all_database_id_list`", file.name),
            "list the databases to analyse there",
        ));
    }
    let mut analyses = BTreeMap::new();
    for &database in &config.compared {
        let found = config.analysis(database).ok_or_else(|| {
            let id = database.id();
            Failure::input(
                format!("`{}` does not describe `{id}`", file.name),
                "describe it in `datatbase_id_to_config_client_machine_agent_control`",
            )
        })?;
        analyses.insert(database, found);
    }
    let mut inputs: BTreeMap<Database, Input<'_>> = BTreeMap::new();
    for (&database, analysis) in &analyses {
        let mut texts = BTreeMap::new();
        for path in analysis::paths(analysis) {
            texts.insert(path, read(&args.results.join(path), database)?);
        }
        inputs.insert(database, Input { analysis, texts });
    }
    let analyzed = analysis::analyze(config, &inputs).map_err(|error| {
        Failure::input(
            error.to_string(),
            "run `bakeoff dbtester control` again, or restore the original file",
        )
    })?;
    analyzed.notes.iter().for_each(|note| messages::warn(note));
    let paths = write_all(&args.results, &analyzed.files)?;
    messages::output(analyzed.table.trim_end());
    messages::output(&format!("\n{} files in {}", paths.len(), args.results.display()));
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path, database: Database) -> Result<String, Failure> {
    files::read_text(path, FILE_MAX).map_err(|error| {
        Failure::input(
            format!("cannot read `{}` of `{}`: {error}", path.display(), database.id()),
            "`bakeoff dbtester control` writes it; set `--results DIR` to the folder that paths are relative to",
        )
    })
}
