//! Holds where a study comes from: its text, the files that the text refers to, and the command line's changes.
//!
//! A record keeps all three next to the resolved study. Before a study from a record runs again, its text is parsed
//! and changed once more, and must give the same study. So a record's author can ask for nothing that a file cannot.
//!
//! Not here: the check of a record's study (`record::source`), what trusts a record (`bakeoff_trial::run::trust`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use super::fields::{REPEAT_MAX, TRIALS_EACH_MAX};
use super::gate::GateBuilds;
use super::parse::{Surroundings, TableError, TableFile, parse_within};
use super::reading::is_version;
use super::{Diagnostic, Diagnostics, Kind, Study, TRIALS_MAX};
use crate::digest::sha256;
use crate::suggest::suggest;
use crate::units::{count_text, shown};

/// Holds a study to run, and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct SourcedStudy {
    /// Study with all changes.
    pub study: Study,
    /// Its text and changes.
    pub source: StudySource,
}

/// Holds a study's text as read, and what the command line changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudySource {
    /// Name of its file without folder and extension.
    pub name: String,
    /// Text of its file.
    pub text: String,
    /// SHA-256 of the text.
    pub sha256: String,
    /// Other files that the text refers to.
    #[serde(default, skip_serializing_if = "StudyFiles::is_empty")]
    pub files: StudyFiles,
    /// Changes of the command line.
    #[serde(default)]
    pub changes: StudyChanges,
}

/// Holds the files that a study's text refers to, as they were read, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyFiles {
    /// Columns and hash of each table of requests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, TableFile>,
    /// Content of each file of sizes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub texts: BTreeMap<String, String>,
}

/// Changes a study as the command line asks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StudyChanges {
    /// True for the study's quick form.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quick: bool,
    /// Factor of its counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// System of a gate and its two builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateBuilds>,
    /// Number of trials of each combination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<u32>,
    /// Names of the faults to keep; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// Number of injections of each fault in a trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// Versions that an earlier run found: by system, and by `system/role` for its parts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
}

impl SourcedStudy {
    /// Parses the study `name` from `text` and applies the changes. `file` is its source in messages.
    ///
    /// # Errors
    /// Reports every fault of the text with its place, or the first change that the study does not allow.
    pub fn read(
        (name, file, text): (&str, &str, &str),
        changes: StudyChanges,
        kinds: &[Kind],
        surroundings: &dyn Surroundings,
    ) -> Result<Self, Diagnostics> {
        let reading = FilesOnRead { of: surroundings, files: RefCell::default() };
        let study = parse_within(name, file, text, kinds, &reading)?;
        let source = StudySource {
            name: name.to_owned(),
            text: text.to_owned(),
            sha256: sha256(text.as_bytes()),
            files: reading.files.into_inner(),
            changes,
        };
        Ok(Self { study: source.changes.apply(study, kinds)?, source })
    }

    /// Returns the study with other changes.
    ///
    /// # Errors
    /// Reports the first change that the study does not allow.
    pub fn changed(self, changes: StudyChanges, kinds: &[Kind]) -> Result<Self, Diagnostics> {
        let source = StudySource { changes, ..self.source };
        Ok(Self { study: source.study(&source.name, kinds)?, source })
    }
}

impl StudySource {
    /// Parses the text once more and applies the changes. `file` is the source in messages.
    pub(crate) fn study(&self, file: &str, kinds: &[Kind]) -> Result<Study, Diagnostics> {
        let study = parse_within(&self.name, file, &self.text, kinds, &self.files)?;
        self.changes.apply(study, kinds)
    }

    /// Returns true if the hash is that of the text, and the name is safe as part of a folder's name.
    pub(crate) fn is_sound(&self) -> bool {
        let is_file_name = !self.name.is_empty()
            && !self.name.starts_with('.')
            && !self.name.contains(['/', '\0']);
        is_file_name && self.sha256 == sha256(self.text.as_bytes())
    }
}

impl StudyChanges {
    /// Returns the changed study.
    ///
    /// # Errors
    /// Reports the first change that the study does not allow.
    pub fn apply(&self, study: Study, kinds: &[Kind]) -> Result<Study, Diagnostics> {
        let mut study =
            if self.quick { study.quick_form()? } else { Study { quick: None, ..study } };
        if let Some(scale) = self.scale {
            study = study.scaled(scale)?;
        }
        if let Some(GateBuilds { system, builds }) = &self.gate {
            let gate = study.gate(system, builds, kinds);
            study = gate.map_err(|(what, hint)| unplaced(what, hint))?;
        }
        if let Some(trials) = self.trials {
            within("trials", trials, TRIALS_EACH_MAX)?;
            study.trials = trials;
        }
        study.keep_faults(&self.faults)?;
        if let Some(repeat) = self.repeat.filter(|_| !study.faults.is_empty()) {
            within("repeat", repeat, REPEAT_MAX)?;
            study.repeat = repeat;
        }
        for system in &mut study.systems {
            if let Some(version) = self.versions.get(&system.name) {
                system.version = Some(checked(version)?);
            }
            for (role, part) in &mut system.parts {
                if let Some(version) = self.versions.get(&format!("{}/{role}", system.name)) {
                    part.version = Some(checked(version)?);
                }
            }
        }
        let planned = study.planned_trials();
        if planned > TRIALS_MAX {
            let (planned, most) = (count_text(planned), count_text(TRIALS_MAX));
            let what = format!("the run plans {planned} trials, and at most {most} are possible");
            return Err(unplaced(what, "ask for fewer trials"));
        }
        Ok(study)
    }
}

impl Study {
    /// Keeps only the named faults, and those of named sequences, in the study's order; all without names.
    fn keep_faults(&mut self, names: &[String]) -> Result<(), Diagnostics> {
        let known = || self.faults.iter().map(|fault| fault.name.as_str());
        if let Some(unknown) = names.iter().find(|name| known().all(|known| known != *name)) {
            let what = format!("study `{}` has no fault `{}`", self.name, shown(unknown));
            return Err(match self.faults.is_empty() {
                true => unplaced(what, "add `faults` to the study"),
                false => unplaced(what, suggest(unknown, known(), "its faults:")),
            });
        }
        if names.is_empty() {
            return Ok(());
        }
        let named = self.faults.iter().filter(|fault| names.contains(&fault.name));
        let members: Vec<String> = named.flat_map(|fault| fault.action.steps().to_vec()).collect();
        for fault in &mut self.faults {
            fault.alone = names.contains(&fault.name);
        }
        self.faults.retain(|fault| fault.alone || members.contains(&fault.name));
        Ok(())
    }
}

pub(crate) fn unplaced(what: impl Into<String>, hint: impl Into<String>) -> Diagnostics {
    let (what, hint) = (what.into(), Some(hint.into()));
    Diagnostics::from(Diagnostic { what, place: None, hint })
}

fn within(name: &str, number: u32, most: u64) -> Result<(), Diagnostics> {
    if (1..=most).contains(&u64::from(number)) {
        return Ok(());
    }
    let what = format!("`{name}` must be from 1 to {most}, not `{number}`");
    Err(unplaced(what, "ask for a number in this range"))
}

fn checked(version: &str) -> Result<String, Diagnostics> {
    if is_version(version) {
        return Ok(version.to_owned());
    }
    let what = format!("`{}` is not a version", shown(version));
    Err(unplaced(what, "a version has dotted numbers: `3.6.1`"))
}

impl StudyFiles {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Surroundings for StudyFiles {
    fn table(&self, path: &str) -> Result<Option<TableFile>, TableError> {
        Ok(self.tables.get(path).cloned())
    }

    fn file(&self, _: &str) -> Result<(), io::Error> {
        Ok(())
    }

    fn text(&self, path: &str) -> Result<Option<String>, io::Error> {
        Ok(self.texts.get(path).cloned())
    }

    fn has_variable(&self, _: &str) -> bool {
        true
    }
}

/// Reads files through other surroundings, and keeps what they held.
struct FilesOnRead<'a> {
    of: &'a dyn Surroundings,
    files: RefCell<StudyFiles>,
}

impl Surroundings for FilesOnRead<'_> {
    fn table(&self, path: &str) -> Result<Option<TableFile>, TableError> {
        let table = self.of.table(path)?;
        let kept = table.clone().map(|table| (path.to_owned(), table));
        self.files.borrow_mut().tables.extend(kept);
        Ok(table)
    }

    fn file(&self, path: &str) -> Result<(), io::Error> {
        self.of.file(path)
    }

    fn text(&self, path: &str) -> Result<Option<String>, io::Error> {
        let text = self.of.text(path)?;
        let kept = text.clone().map(|text| (path.to_owned(), text));
        self.files.borrow_mut().texts.extend(kept);
        Ok(text)
    }

    fn has_variable(&self, name: &str) -> bool {
        self.of.has_variable(name)
    }
}
