//! Looks at a run before it is resumed or reproduced: its record names programs that will be executed and folders that will be
//! removed.
//!
//! Nothing is executed here. Not here: whether machine and programs are those of before (`refusals`), which starts
//! programs to ask for their versions.

use std::fs;
use std::path::Path;

use bakeoff_core::record::{Record, RunHeader, SystemRecord};
use bakeoff_core::repeat::follows_plan;
use bakeoff_core::study;
use bakeoff_install as install;
use bakeoff_systems as systems;

use crate::failure::Failure;

const HINT: &str = "`bakeoff report` shows a record and executes nothing";

/// Refuses a record that another user wrote or could have changed.
pub(crate) fn refuse_foreign(file: &Path) -> Result<(), Failure> {
    // Who can write to the folder can put another record in its place.
    let file = file.canonicalize().map_err(|error| Failure::file("look at", file, &error))?;
    for path in file.ancestors().take(2) {
        let found = fs::metadata(path).map_err(|error| Failure::file("look at", path, &error))?;
        let Some(why) = install::foreign(&found) else { continue };
        return Err(Failure::input(
            format!(
                "`{}` {why}, and going on from it executes the programs that it names",
                path.display()
            ),
            "read its first line, and add `--trust` if it names what you expect",
        ));
    }
    Ok(())
}

/// Refuses a record that is none of a run of this bakeoff: a study that no file could hold, an order that does not
/// follow from it, or programs that changed.
pub(super) fn refuse_altered(record: &Record, file: &Path) -> Result<(), Failure> {
    let header = &record.header;
    let name = file.display().to_string();
    study::recheck(&header.study, &name, &systems::kinds())?;
    let names = |trial: &bakeoff_core::plan::Trial| {
        header.study.systems.iter().any(|one| one.name == trial.system)
            && header.study.workloads.iter().any(|one| one.name == trial.workload)
            && header.study.loads.iter().any(|one| one.name == trial.load)
    };
    let numbered = (0..).zip(&header.order).all(|(number, trial)| trial.number == number);
    // A gate's later trials depend on figures.
    let by_figures = header.gate.is_some() && !record.extended.is_empty();
    let follows = by_figures || follows_plan(record);
    if !numbered || !header.order.iter().all(names) || !follows {
        let what =
            format!("the order of trials in `{name}` does not follow from its study and seed");
        return Err(Failure::input(what, HINT));
    }
    refuse_changed_programs(header, &name)
}

/// Refuses programs, given by their paths, that are not those that the run began with.
fn refuse_changed_programs(header: &RunHeader, name: &str) -> Result<(), Failure> {
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

/// Refuses one that is not the recorded one, of the record called `name`.
fn refuse_changed(
    asked: &study::System,
    recorded: Option<&SystemRecord>,
    name: &str,
) -> Result<(), Failure> {
    let recorded = recorded.ok_or_else(|| {
        let what = format!("`{name}` does not say which program `{}` was", asked.name);
        Failure::input(what, HINT)
    })?;
    let found = match (&asked.program, &asked.process) {
        (Some(program), _) => systems::recipe_for(asked)
            .map(|recipe| install::own_sha256(recipe, Path::new(program)))
            .transpose()?,
        // Without a version to compare it with, a command's program is found and hashed, and not executed.
        (None, Some(process)) => {
            let word = process.command.first().map_or("", String::as_str);
            Some(install::named(&asked.name, word, None)?.sha256)
        }
        (None, None) => None,
    };
    match (found, &recorded.sha256) {
        (None, _) => Ok(()),
        (Some(found), Some(recorded)) if found == *recorded => Ok(()),
        (Some(found), recorded) => Err(Failure::input(
            format!(
                "the program of `{}` has the SHA-256 {found}, and the run began with {}; it was not executed",
                asked.name,
                recorded.as_deref().unwrap_or("one that its record does not name")
            ),
            "run the study anew",
        )),
    }
}
