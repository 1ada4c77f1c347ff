//! A run's folder and its record on disk.
//!
//! A line is written and synced before the next trial begins, so that a later crash loses nothing.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use bakeoff_core::record::{self, Complaint, Line, Record};

use crate::environment::utc_folder;
use crate::failure::Failure;

/// The record's name in a run's folder.
pub(crate) const RECORD: &str = "record.jsonl";

/// A run's folder, with its record open for writing.
pub(crate) struct RunFolder {
    pub(crate) path: PathBuf,
    record: File,
    /// Whether the record has a first line. A run that never began leaves no folder behind.
    begun: bool,
}

impl RunFolder {
    /// Makes `OUT/2026-11-21-202450-STUDY`, or the like if that is taken.
    pub(crate) fn create(out: &Path, study: &str) -> Result<Self, Failure> {
        fs::create_dir_all(out).map_err(|error| Failure::file("make", out, &error))?;
        let base = format!("{}-{study}", utc_folder());
        let names = std::iter::once(base.clone()).chain((2..).map(|n| format!("{base}-{n}")));
        for name in names {
            let path = out.join(name);
            match fs::create_dir(&path) {
                Ok(()) => {
                    let file = path.join(RECORD);
                    let record = OpenOptions::new().create_new(true).append(true).open(&file);
                    let record = record.map_err(|error| Failure::file("make", &file, &error))?;
                    return Ok(Self { path, record, begun: false });
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Failure::file("make", &path, &error)),
            }
        }
        unreachable!("there is always a next number")
    }

    /// Appends a line and waits until it is on disk.
    pub(crate) fn push(&mut self, line: &Line) -> Result<(), Failure> {
        let text = record::write_line(line);
        let written = self.record.write_all(text.as_bytes()).and_then(|()| self.record.sync_data());
        self.begun |= written.is_ok();
        written.map_err(|error| Failure::file("write", &self.path.join(RECORD), &error))
    }

    /// Writes a file of the run.
    pub(crate) fn write(&self, name: &str, contents: &str) -> Result<(), Failure> {
        let path = self.path.join(name);
        fs::write(&path, contents).map_err(|error| Failure::file("write", &path, &error))
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if !self.begun {
            fs::remove_file(self.path.join(RECORD)).ok();
            fs::remove_dir(&self.path).ok(); // not if anybody put something there
        }
    }
}

/// Reads the record of a run: its folder, or the file itself.
pub(crate) fn read(run: &Path) -> Result<(Record, Vec<Complaint>), Failure> {
    let file = if run.is_dir() { run.join(RECORD) } else { run.to_owned() };
    let hint = "a run is a folder below `runs/`, or its `record.jsonl`";
    let text = fs::read(&file).map_err(|error| {
        Failure::input(format!("cannot read `{}`: {error}", file.display()), hint)
    })?;
    let text = String::from_utf8_lossy(&text);
    record::read(&text)
        .map_err(|complaint| Failure::input(format!("`{}`: {complaint}", file.display()), hint))
}
