//! Checks a run before it is resumed or reproduced.
//!
//! Its record names programs that will be executed, and folders that will be removed. A record that this user's bakeoff
//! did not write is code of a stranger: it needs `--trust`, and its commands are listed first. Nothing is executed here.
//!
//! Not here: changes of the machine and of programs (`refusals`), which executes programs to learn their versions.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bakeoff_core::record::{Record, RunHeader, SystemRecord};
use bakeoff_core::repeat::follows_plan;
use bakeoff_core::study::{self, Payload, SecretSource, Study};
use bakeoff_core::units::harmless;
use bakeoff_files as files;
use bakeoff_install as install;
use bakeoff_systems as systems;

use super::origin;
use bakeoff_fleet::error::FleetError;
use bakeoff_fleet::warnings;

const HINT: &str = "`bakeoff report` shows a record and executes nothing";

/// Selects the records whose programs are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordTrust {
    /// Only those that this user's bakeoff wrote.
    Own,
    /// Any, because the user passed `--trust`.
    Any,
    /// The one that this process wrote.
    Written,
}

impl From<bool> for RecordTrust {
    /// Returns the trust for the option `--trust`.
    fn from(given: bool) -> Self {
        if given { Self::Any } else { Self::Own }
    }
}

impl RecordTrust {
    /// Refuses a record that this user's bakeoff did not write, or that another user could have changed. With
    /// [`RecordTrust::Any`] only warns. Both list what the record would have executed. `text` holds the record's bytes.
    ///
    /// # Errors
    /// Names the file or folder, the reason, the commands, and `--trust`.
    pub fn check(self, file: &Path, text: &[u8], header: &RunHeader) -> Result<(), FleetError> {
        if self == Self::Written {
            return Ok(());
        }
        let Some(why) = foreign(file, text)? else { return Ok(()) };
        let commands = commands(&header.study);
        let listed: String = commands.iter().map(|line| format!("\n  {line}")).collect();
        match self {
            Self::Own => Err(FleetError::input(
                format!("{why}; nothing was executed. It asks for:{listed}"),
                "read these lines as you would read a shell script, then add `--trust`",
            )),
            _ => {
                warnings::warn(&format!("{why}; it is trusted, and asks for:{listed}"));
                Ok(())
            }
        }
    }
}

/// Returns the reason why somebody else may have written a record; `None` if this user's bakeoff did.
fn foreign(file: &Path, text: &[u8]) -> Result<Option<String>, FleetError> {
    // Write access to the folder is enough to replace the record.
    let file = file.canonicalize().map_err(|error| FleetError::file("look at", file, &error))?;
    for path in file.ancestors().take(2) {
        let found =
            fs::metadata(path).map_err(|error| FleetError::file("look at", path, &error))?;
        if let Some(why) = files::foreign(&found) {
            return Ok(Some(format!("`{}` {why}", path.display())));
        }
    }
    let is_own = origin::known_key().is_some_and(|key| key.vouches_for(text));
    let why = || {
        format!(
            "bakeoff on this machine did not write `{}`, or it was changed since",
            file.display()
        )
    };
    Ok((!is_own).then(why))
}

/// Lists what a study executes and connects to, a line for each system and part.
fn commands(study: &Study) -> Vec<String> {
    let members = study.systems.iter().flat_map(study::System::members);
    let mut lines: Vec<String> =
        members.map(|one| harmless(&format!("{}: {}", one.name, command(one)))).collect();
    for workload in &study.workloads {
        let Payload::Request(request) = &workload.payload else { continue };
        let secret = request.headers.iter().filter(|(_, value)| value.contains('$'));
        let sent = secret.map(|(name, value)| format!("header {name}: {}", quoted(value)));
        let rows = request.rows.iter().map(|rows| format!("rows of file {}", quoted(&rows.file)));
        let sent: Vec<String> = sent.chain(rows).collect();
        if !sent.is_empty() {
            lines.push(harmless(&format!(
                "requests of {} send {}",
                workload.name,
                sent.join(", ")
            )));
        }
    }
    lines
}

/// Describes what one system or part executes, or connects to.
fn command(system: &study::System) -> String {
    let pairs = |pairs: &BTreeMap<String, String>| {
        let each = pairs.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        each.collect::<Vec<_>>().join(" ")
    };
    let mut text = match (&system.process, &system.program) {
        _ if !system.is_started() => {
            let at: Vec<String> =
                system.endpoints().iter().map(study::Endpoint::authority).collect();
            format!("connect to {}", at.join(", "))
        }
        (Some(process), _) => {
            let words: Vec<String> = process.command.iter().map(|word| quoted(word)).collect();
            words.join(" ")
        }
        (None, Some(program)) => quoted(program),
        (None, None) if systems::recipe_for(system).is_none() => {
            format!("{}, part of bakeoff", system.kind)
        }
        (None, None) => match &system.version {
            Some(version) => format!("{} {version}, found or fetched by bakeoff", system.kind),
            None => format!("{}, found or fetched by bakeoff", system.kind),
        },
    };
    if let Some(process) = &system.process {
        if !process.environment.is_empty() {
            text.push_str(&format!(", with environment {}", pairs(&process.environment)));
        }
        for (name, content) in &process.files {
            text.push_str(&format!(", with file {}: {}", quoted(name), quoted(content)));
        }
    }
    if !system.options.is_empty() {
        text.push_str(&format!(", with options {}", pairs(&system.options)));
    }
    if let Some(credentials) = &system.credentials {
        for secret in credentials.password.iter().chain(&credentials.token) {
            match secret {
                SecretSource::Variable(name) => {
                    text.push_str(&format!(", which gets the secret in ${name}"))
                }
                SecretSource::File(path) => {
                    text.push_str(&format!(", which gets the secret in file {}", quoted(path)));
                }
            }
        }
    }
    for url in &system.metrics {
        text.push_str(&format!(", with metrics from {}", url.text()));
    }
    text
}

/// Quotes a word as a shell would need it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,{}".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Refuses a record that bakeoff cannot have written: an invalid study, an order of trials that does not follow from
/// the seed, or programs with another hash.
pub(super) fn refuse_altered(record: &Record, file: &Path) -> Result<(), FleetError> {
    let header = &record.header;
    let name = file.display().to_string();
    record.check_study(&name, &systems::kinds())?;
    let names = |trial: &bakeoff_core::plan::Trial| {
        header.study.systems.iter().any(|one| one.name == trial.system)
            && header.study.workloads.iter().any(|one| one.name == trial.workload)
            && header.study.loads.iter().any(|one| one.name == trial.load)
    };
    let numbered = (0..).zip(&header.order).all(|(number, trial)| trial.number == number);
    if !numbered || !header.order.iter().all(names) || !follows_plan(record) {
        let what =
            format!("the order of trials in `{name}` does not follow from its study and seed");
        return Err(FleetError::input(what, HINT));
    }
    refuse_changed_programs(header, &name)
}

/// Refuses programs whose hash differs from the record. `name`: the record's path.
///
/// # Errors
/// Names the program and both hashes. It was not executed.
pub fn refuse_changed_programs(header: &RunHeader, name: &str) -> Result<(), FleetError> {
    for study_system in header.study.systems.iter().filter(|system| system.is_started()) {
        let recorded = header.systems.iter().find(|recorded| recorded.name == study_system.name);
        refuse_changed(study_system, recorded, name)?;
        for (role, part) in &study_system.parts {
            let parts = recorded.into_iter().flat_map(|recorded| &recorded.parts);
            let recorded = parts.into_iter().find(|one| one.role == *role).map(|one| &one.part);
            refuse_changed(part, recorded, name)?;
        }
    }
    Ok(())
}

/// Refuses a program whose hash differs from the one in the record `name`.
fn refuse_changed(
    study_system: &study::System,
    recorded: Option<&SystemRecord>,
    name: &str,
) -> Result<(), FleetError> {
    let recorded = recorded.ok_or_else(|| {
        let what = format!("`{name}` does not name the program of `{}`", study_system.name);
        FleetError::input(what, HINT)
    })?;
    let found = match (&study_system.program, &study_system.process) {
        (Some(program), _) => systems::recipe_for(study_system)
            .map(|recipe| install::own_sha256(recipe, Path::new(program)))
            .transpose()?,
        // A command's program that bakeoff does not fetch has no version: it is hashed, not executed.
        (None, Some(process)) if systems::recipe_for(study_system).is_none() => {
            let word = process.command.first().map_or("", String::as_str);
            Some(install::named(&study_system.name, word, None)?.sha256)
        }
        (None, _) => None,
    };
    match (found, &recorded.sha256) {
        (None, _) => Ok(()),
        (Some(found), Some(recorded)) if found == *recorded => Ok(()),
        (Some(found), recorded) => Err(FleetError::input(
            format!(
                "the program of `{}` has the SHA-256 {found}, but the run began with {}; it was not executed",
                study_system.name,
                recorded.as_deref().unwrap_or("a program without a hash in its record")
            ),
            "start a new run of the study",
        )),
    }
}
