//! What a study refers to and does not hold itself: files and variables of the machine that runs it.
//!
//! Not here: looking at them, which is the program's.

use std::error::Error;
use std::io;

/// Columns and hash of a CSV file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFile {
    /// The names in its first row.
    pub columns: Vec<String>,
    /// The file's SHA-256, in hexadecimal digits.
    pub sha256: String,
}

/// A file that is no table.
#[derive(Debug, thiserror::Error)]
#[error("cannot read `{path}` as a table: {source}")]
pub struct TableError {
    /// The file, as the study names it.
    pub path: String,
    /// Fault of the file.
    pub source: Box<dyn Error + Send + Sync>,
}

/// The machine that a study is read on.
pub trait Surroundings {
    /// Looks at a CSV file; none where nobody looks.
    ///
    /// # Errors
    /// The file cannot be read, or is no table.
    fn table(&self, path: &str) -> Result<Option<TableFile>, TableError>;

    /// Finds out whether a file can be read; any can, where nobody looks.
    ///
    /// # Errors
    /// Why it cannot.
    fn file(&self, path: &str) -> Result<(), io::Error>;

    /// Reads a file of text of at most a mebibyte; none where nobody looks.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn text(&self, path: &str) -> Result<Option<String>, io::Error> {
        let _ = path;
        Ok(None)
    }

    /// Returns whether the environment has a variable, as UTF-8; `true` where nobody looks.
    fn has_variable(&self, name: &str) -> bool;
}

/// No machine: the study is to run elsewhere, and nothing that it refers to is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Elsewhere;

impl Surroundings for Elsewhere {
    fn table(&self, _: &str) -> Result<Option<TableFile>, TableError> {
        Ok(None)
    }

    fn file(&self, _: &str) -> Result<(), io::Error> {
        Ok(())
    }

    fn has_variable(&self, _: &str) -> bool {
        true
    }
}
