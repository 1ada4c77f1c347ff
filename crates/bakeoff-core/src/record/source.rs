//! Checks that a record's study follows from its text.

use super::Record;
use crate::study::{Diagnostics, Kind, Study, StudySource, unplaced};

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::RunHeader;
    use crate::study::shipped::shipped;
    use crate::study::testing::kinds;
    use crate::study::{
        Build, EVERY_FAULT, EVERY_FIELD, GateBuilds, Limits, SourcedStudy, StudyChanges,
        UncheckedSurroundings,
    };

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

    #[test]
    fn quick_runs_are_named_and_repeated_as_such() {
        let quick = StudyChanges { quick: true, ..StudyChanges::default() };
        let (name, text) = shipped().iter().find(|(name, _)| *name == "kv-stores").expect("it");
        let header = record_of(read(name, text, quick).expect("its quick form")).header;
        assert!(header.study.full_title().ends_with(" (quick form)"));
        assert_eq!(header.repeat_command(), "bakeoff run kv-stores --quick --trials 3 --seed 1",);
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
