//! Holds where a study comes from: its text, the files that the text refers to, and the command line's changes.
//!
//! A record keeps all three beside the resolved study. Before a study from a record runs again, its text is parsed
//! and changed once more, and must give the same study. So a record's author can ask for nothing that a file cannot.
//!
//! Not here: what trusts a record (`bakeoff_trial::run::trust`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use super::fields::{REPEAT_MAX, TRIALS_EACH_MAX};
use super::gate::GateBuilds;
use super::parse::{Surroundings, TableError, TableFile, parse_within};
use super::reading::is_version;
use super::{Diagnostic, Diagnostics, Kind, Study, TRIALS_MAX};
use crate::record::Record;
use crate::record::chain::sha256;
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
    fn study(&self, file: &str, kinds: &[Kind]) -> Result<Study, Diagnostics> {
        let study = parse_within(&self.name, file, &self.text, kinds, &self.files)?;
        self.changes.apply(study, kinds)
    }

    /// Returns true if the hash is that of the text, and the name is safe as part of a folder's name.
    fn is_sound(&self) -> bool {
        let is_file_name = !self.name.is_empty()
            && !self.name.starts_with('.')
            && !self.name.contains(['/', '\0']);
        is_file_name && self.sha256 == sha256(self.text.as_bytes())
    }
}

impl Record {
    /// Checks that the study follows from its text, its files and the changes, and returns these. `file` is the
    /// record's name in messages.
    ///
    /// # Errors
    /// Reports the faults of the text. Reports one without a place if the text is missing, or gives another study.
    pub fn check_study(&self, file: &str, kinds: &[Kind]) -> Result<&StudySource, Diagnostics> {
        let hint = "run the study's own file, and inspect the record with `bakeoff report`";
        let Some(source) = &self.header.source else {
            return Err(unplaced(format!("`{file}` holds no text of its study"), hint));
        };
        let read = source.study(file, kinds)?;
        // Further rounds are no part of the study.
        let trials = self.extended.first().map_or(self.header.study.trials, |first| first.before);
        let recorded = Study { trials, ..self.header.study.clone() };
        // As a record holds numbers, and without what it leaves out.
        let read = serde_json::to_string(&read).and_then(|text| serde_json::from_str(&text));
        match read {
            Ok(read) if source.is_sound() && recorded == read => Ok(source),
            _ => {
                let what = format!("the study in `{file}` does not follow from its text");
                Err(unplaced(what, hint))
            }
        }
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
        let members: Vec<String> = named.flat_map(|fault| fault.sequence.clone()).collect();
        for fault in &mut self.faults {
            fault.alone = names.contains(&fault.name);
        }
        self.faults.retain(|fault| fault.alone || members.contains(&fault.name));
        Ok(())
    }
}

fn unplaced(what: impl Into<String>, hint: impl Into<String>) -> Diagnostics {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::RunHeader;
    use crate::study::parse::tests::{EVERY_FAULT, EVERY_FIELD};
    use crate::study::shipped::shipped;
    use crate::study::testing::kinds;
    use crate::study::{Build, Limits, UncheckedSurroundings};

    fn read(name: &str, text: &str, changes: StudyChanges) -> Result<SourcedStudy, Diagnostics> {
        SourcedStudy::read((name, name, text), changes, &kinds(), &UncheckedSurroundings)
    }

    /// Returns the record of a run that has just begun, as another program reads it.
    fn record_of(sourced: SourcedStudy) -> Record {
        let SourcedStudy { study, source } = sourced;
        let header = RunHeader { source: Some(source), ..RunHeader::of_study(study, 1) };
        let text = serde_json::to_string(&header).expect("a header is JSON");
        Record {
            header: serde_json::from_str(&text).expect("a header"),
            trials: Vec::new(),
            resumed: Vec::new(),
            extended: Vec::new(),
            end: None,
        }
    }

    #[test]
    fn every_study_follows_from_its_text_and_changes() {
        let own = [("own", EVERY_FIELD), ("faults", EVERY_FAULT)];
        let mut changed = 0;
        for (name, text) in shipped().iter().copied().chain(own) {
            let scaled = |scale| StudyChanges { scale: Some(scale), ..StudyChanges::default() };
            let quick = StudyChanges { quick: true, ..StudyChanges::default() };
            for changes in [StudyChanges::default(), scaled(0.1), scaled(3.0), quick] {
                let Ok(sourced) = read(name, text, changes.clone()) else { continue };
                changed += usize::from(changes != StudyChanges::default());
                let record = record_of(sourced);
                record.check_study("record", &kinds()).unwrap_or_else(|why| panic!("{why}"));
            }
        }
        assert!(changed > 20, "{changed}");
    }

    /// Reads the study of all fields with these changes, or returns the message.
    fn with(change: impl FnOnce(&mut StudyChanges)) -> Result<Study, String> {
        let mut changes = StudyChanges::default();
        change(&mut changes);
        let text = EVERY_FAULT;
        read("faults", text, changes).map(|it| it.study).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn changes_are_bounded_like_the_fields_that_they_replace() {
        let refused = |change: fn(&mut StudyChanges), expected: &str| {
            let error = with(change).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        };
        refused(|it| it.trials = Some(0), "`trials` must be from 1 to 1000, not `0`");
        refused(|it| it.trials = Some(1001), "`trials` must be from 1 to 1000");
        refused(|it| it.repeat = Some(101), "`repeat` must be from 1 to 100");
        refused(|it| it.scale = Some(-1.0), "scale");
        refused(|it| it.quick = true, "no quick form");
        refused(|it| it.faults = vec!["x\u{1b}".into()], "no fault `x\u{fffd}`");
        let version = |it: &mut StudyChanges| {
            it.versions = BTreeMap::from([("one".to_owned(), "$(id)".to_owned())]);
        };
        refused(version, "`$(id)` is not a version");
        let gate = |it: &mut StudyChanges| {
            let builds = [Build::default(), Build::default()];
            it.gate = Some(GateBuilds { system: "one".into(), builds });
        };
        refused(gate, "same program");
        assert_eq!(with(|it| it.trials = Some(9)).expect("trials").trials, 9);
    }

    #[test]
    fn altered_records_are_refused() {
        let whole = || record_of(read("my", EVERY_FIELD, StudyChanges::default()).expect("it"));
        let refused = |change: &dyn Fn(&mut RunHeader), expected: &str| {
            let mut record = whole();
            change(&mut record.header);
            let error = record.check_study("record.jsonl", &kinds()).expect_err(expected);
            assert!(error.to_string().contains(expected), "{error}");
        };
        let foreign = "the study in `record.jsonl` does not follow from its text";
        refused(&|it| it.study.systems[0].name = "../../home".into(), foreign);
        refused(&|it| it.study.name = "../away".into(), foreign);
        refused(&|it| it.study.trials += 1, foreign);
        refused(&|it| it.study.systems[0].kind = "sh".into(), foreign);
        let limits = Limits { cpu: None, memory: None, cpus: vec![1, 0] };
        refused(&|it| it.study.systems[0].limits = Some(limits.clone()), foreign);
        refused(&|it| it.source = None, "holds no text of its study");
        let source = |change: fn(&mut StudySource)| {
            move |it: &mut RunHeader| change(it.source.as_mut().expect("a source"))
        };
        refused(&source(|it| it.sha256 = String::new()), foreign);
        refused(&source(|it| it.changes.trials = Some(2)), foreign);
        refused(&source(|it| it.text = "title: [".into()), "this is not YAML");
        let away = |it: &mut RunHeader| {
            it.study.name = "../away".into();
            it.source.as_mut().expect("a source").name = "../away".into();
        };
        refused(&away, foreign);
        whole().check_study("record", &kinds()).expect("unchanged");
    }
}
