//! Finds the study that a command names: a file, or one that ships.
//!
//! Not here: parsing it (`bakeoff_core::study`).

use std::io;
use std::path::PathBuf;

use bakeoff_core::study::{self, SourcedStudy, Study, StudyChanges, shipped};
use bakeoff_files as files;
use bakeoff_fleet::warnings;
use bakeoff_systems as systems;
use bakeoff_systems::rows::ThisMachine;

use crate::failure::Failure;

/// Most bytes of a study. The largest that ships has 20 KB.
const STUDY_MAX: u64 = 16 << 20;

/// Parses a study, given by its path or by the name of one that ships.
pub(crate) fn load_study(asked: &str) -> Result<Study, Failure> {
    let StudyText { name, file, text } = study_text(asked)?;
    Ok(study::parse_within(&name, &file, &text, &systems::kinds(), &ThisMachine)?)
}

/// Parses a study like [`load_study`], and applies the changes of the command line.
pub(crate) fn changed_study(asked: &str, changes: StudyChanges) -> Result<SourcedStudy, Failure> {
    let StudyText { name, file, text } = study_text(asked)?;
    let of = (&*name, &*file, &*text);
    Ok(SourcedStudy::read(of, changes, &systems::kinds(), &ThisMachine)?)
}

/// Text of a study.
pub(crate) struct StudyText {
    /// Name without folder and extension, such as `ingress`.
    pub(crate) name: String,
    /// Path for messages, such as `studies/ingress.yaml`.
    pub(crate) file: String,
    pub(crate) text: String,
}

/// Reads the text of a study, given by its path or by the name of one that ships.
pub(crate) fn study_text(asked: &str) -> Result<StudyText, Failure> {
    let path = PathBuf::from(asked);
    if let Some((name, text)) = shipped::shipped().iter().find(|(name, _)| *name == asked)
        && !path.is_file()
    {
        let (name, file) = ((*name).to_owned(), format!("studies/{name}.yaml"));
        return Ok(StudyText { name, file, text: (*text).to_owned() });
    }
    let text = files::read_text(&path, STUDY_MAX).map_err(|error| {
        let names: Vec<&str> = shipped::shipped().iter().map(|(name, _)| *name).collect();
        let hint = match error.kind() {
            io::ErrorKind::InvalidData => "save it as UTF-8: studies are YAML text".to_owned(),
            _ => {
                study::suggest(asked, names.into_iter(), "name a study's file, or one that ships:")
            }
        };
        Failure::input(format!("cannot read study `{asked}`: {error}"), hint)
    })?;
    warnings::warn_of_foreign_code(&path);
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("study");
    Ok(StudyText { name: stem.to_owned(), file: asked.to_owned(), text })
}
