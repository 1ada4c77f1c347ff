//! Checks a run before it is resumed or reproduced.
//!
//! Its record names programs that will be executed and folders that will be removed. Nothing is executed here.
//!
//! Not here: changes of the machine and of programs (`refusals`), which executes programs to learn their versions.

use std::fs;
use std::path::Path;

use bakeoff_core::record::{Record, RunHeader, SystemRecord};
use bakeoff_core::repeat::follows_plan;
use bakeoff_core::study;
use bakeoff_install as install;
use bakeoff_systems as systems;

use bakeoff_fleet::error::FleetError;

const HINT: &str = "`bakeoff report` shows a record and executes nothing";

/// Refuses a record that another user wrote or could have changed.
///
/// # Errors
/// Names the file or folder, its owner or mode, and `--trust`.
pub fn refuse_foreign(file: &Path) -> Result<(), FleetError> {
    // Write access to the folder is enough to replace the record.
    let file = file.canonicalize().map_err(|error| FleetError::file("look at", file, &error))?;
    for path in file.ancestors().take(2) {
        let found =
            fs::metadata(path).map_err(|error| FleetError::file("look at", path, &error))?;
        let Some(why) = install::foreign(&found) else { continue };
        return Err(FleetError::input(
            format!("`{}` {why}, and resuming executes the programs that it names", path.display()),
            "check the programs in its first line, then add `--trust`",
        ));
    }
    Ok(())
}

/// Refuses a record that bakeoff cannot have written: an invalid study, an order of trials that does not follow from
/// the seed, or programs with another hash.
pub(super) fn refuse_altered(record: &Record, file: &Path) -> Result<(), FleetError> {
    let header = &record.header;
    let name = file.display().to_string();
    study::recheck(&header.study, &name, &systems::kinds())?;
    let names = |trial: &bakeoff_core::plan::Trial| {
        header.study.systems.iter().any(|one| one.name == trial.system)
            && header.study.workloads.iter().any(|one| one.name == trial.workload)
            && header.study.loads.iter().any(|one| one.name == trial.load)
    };
    let numbered = (0..).zip(&header.order).all(|(number, trial)| trial.number == number);
    // The number of a gate's later trials depends on measured figures.
    let by_figures = header.gate.is_some() && !record.extended.is_empty();
    let follows = by_figures || follows_plan(record);
    if !numbered || !header.order.iter().all(names) || !follows {
        let what =
            format!("the order of trials in `{name}` does not follow from its study and seed");
        return Err(FleetError::input(what, HINT));
    }
    refuse_changed_programs(header, &name)
}

/// Refuses programs whose hash differs from the record.
fn refuse_changed_programs(header: &RunHeader, name: &str) -> Result<(), FleetError> {
    for asked in header.study.systems.iter().filter(|system| system.is_started()) {
        let recorded = header.systems.iter().find(|recorded| recorded.name == asked.name);
        refuse_changed(asked, recorded, name)?;
        for (role, part) in &asked.parts {
            let parts = recorded.into_iter().flat_map(|recorded| &recorded.parts);
            let recorded = parts.into_iter().find(|one| one.role == *role).map(|one| &one.part);
            refuse_changed(part, recorded, name)?;
        }
    }
    Ok(())
}

/// Refuses a program whose hash differs from the one in the record `name`.
fn refuse_changed(
    asked: &study::System,
    recorded: Option<&SystemRecord>,
    name: &str,
) -> Result<(), FleetError> {
    let recorded = recorded.ok_or_else(|| {
        let what = format!("`{name}` does not name the program of `{}`", asked.name);
        FleetError::input(what, HINT)
    })?;
    let found = match (&asked.program, &asked.process) {
        (Some(program), _) => systems::recipe_for(asked)
            .map(|recipe| install::own_sha256(recipe, Path::new(program)))
            .transpose()?,
        // A command's program that bakeoff does not fetch has no version: it is hashed, not executed.
        (None, Some(process)) if systems::recipe_for(asked).is_none() => {
            let word = process.command.first().map_or("", String::as_str);
            Some(install::named(&asked.name, word, None)?.sha256)
        }
        (None, _) => None,
    };
    match (found, &recorded.sha256) {
        (None, _) => Ok(()),
        (Some(found), Some(recorded)) if found == *recorded => Ok(()),
        (Some(found), recorded) => Err(FleetError::input(
            format!(
                "the program of `{}` has the SHA-256 {found}, but the run began with {}; it was not executed",
                asked.name,
                recorded.as_deref().unwrap_or("a program without a hash in its record")
            ),
            "start a new run of the study",
        )),
    }
}
