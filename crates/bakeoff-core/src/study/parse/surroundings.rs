//! Gives access to files and variables that a study refers to on the machine that runs it.
//!
//! Not here: reading them, which the program does.

use std::error::Error;
use std::io;

use serde::{Deserialize, Serialize};

/// Holds columns and hash of a CSV file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TableFile {
    /// Names in its first row.
    pub columns: Vec<String>,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
}

/// Explains why a file is not a table.
#[derive(Debug, thiserror::Error)]
#[error("cannot read `{path}` as a table: {source}")]
pub struct TableError {
    /// File as the study names it.
    pub path: String,
    /// Fault of the file.
    pub source: Box<dyn Error + Send + Sync>,
}

/// Reads files and variables of the machine that a study runs on.
pub trait Surroundings {
    /// Reads a CSV file; returns `None` if files are not checked.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or is not a table.
    fn table(&self, path: &str) -> Result<Option<TableFile>, TableError>;

    /// Checks that a file can be read; succeeds if files are not checked.
    ///
    /// # Errors
    /// Returns why the file cannot be read.
    fn file(&self, path: &str) -> Result<(), io::Error>;

    /// Reads a text file of at most 512 KiB; returns `None` if files are not checked.
    ///
    /// # Errors
    /// Returns why the file cannot be read.
    fn text(&self, path: &str) -> Result<Option<String>, io::Error> {
        let _ = path;
        Ok(None)
    }

    /// Returns true if the environment has a variable in UTF-8, or if variables are not checked.
    fn has_variable(&self, name: &str) -> bool;
}

/// Checks nothing, for a study that will run on another machine.
#[derive(Debug, Clone, Copy)]
pub struct UncheckedSurroundings;

impl Surroundings for UncheckedSurroundings {
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
