//! Writes files that must not exist yet, so that nothing is overwritten.
//!
//! Not here: reports next to a record, which are rendered again (`report`).

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use crate::failure::Failure;

/// Writes a new file. `hint`: what to do if it exists.
pub(super) fn write(file: &Path, content: &[u8], hint: &str) -> Result<(), Failure> {
    let created = OpenOptions::new().write(true).create_new(true).open(file);
    let written = created.and_then(|mut to| to.write_all(content));
    written.map_err(|error| not_written(file, &error, hint))
}

/// Explains why a new file was not written.
pub(super) fn not_written(file: &Path, error: &io::Error, hint: &str) -> Failure {
    match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::input(
            format!("`{}` exists, and is not overwritten", file.display()),
            hint.to_owned(),
        ),
        _ => Failure::file("write", file, error),
    }
}
