//! Reads tables of values for requests: CSV files (RFC 4180) whose first row names the columns.
//!
//! Not here: the study's reference to a table (`bakeoff_core::study`), the use of a row (`http_requests`).

use std::io;
use std::path::Path;

use bakeoff_core::digest;
use bakeoff_core::study::{Surroundings, TableError, TableFile};
use bakeoff_core::template::{self, Table};
use bakeoff_files as files;

/// Largest CSV file, in bytes. A load keeps it in memory.
const FILE_MAX: u64 = 256 << 20;
/// Largest text file, in bytes.
const TEXT_MAX: u64 = 512 << 10;

/// A CSV file in memory.
#[derive(Debug)]
pub struct RowTable {
    /// Table with at least one row.
    pub table: Table,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
}

/// A fault of a CSV file.
#[derive(Debug, thiserror::Error)]
enum RowsError {
    #[error("{0}")]
    Unreadable(#[source] io::Error),
    #[error(
        "its first row has the invalid column name `{0}`; use letters, digits, `-`, `_` and `.`"
    )]
    ColumnName(String),
    #[error("two of its columns are called `{0}`")]
    ColumnTwice(String),
    #[error("{}", csv_text(.0))]
    Csv(#[source] csv::Error),
    #[error("there is no row below the column names")]
    NoRow,
}

/// Describes a line that violates CSV.
fn csv_text(error: &csv::Error) -> String {
    let line = error.position().map_or(1, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::Utf8 { .. } => format!("line {line} is not UTF-8"),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("line {line} has {len} values, but the first row names {expected_len} columns")
        }
        _ => format!("line {line}: {error}"),
    }
}

impl RowTable {
    /// Reads a CSV file.
    ///
    /// # Errors
    /// When the file is unreadable, too large, or not a table.
    pub fn read(path: &str) -> Result<Self, TableError> {
        Self::of_file(Path::new(path))
            .map_err(|error| TableError { path: path.to_owned(), source: error.into() })
    }

    fn of_file(path: &Path) -> Result<Self, RowsError> {
        let bytes = files::read(path, FILE_MAX).map_err(RowsError::Unreadable)?;
        let sha256 = digest::sha256(&bytes);
        let mut reader = csv::Reader::from_reader(&bytes[..]);
        let header = reader.headers().map_err(RowsError::Csv)?;
        let columns: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
        for (place, name) in columns.iter().enumerate() {
            if !template::is_word(name) {
                return Err(RowsError::ColumnName(name.clone()));
            }
            if columns[..place].contains(name) {
                return Err(RowsError::ColumnTwice(name.clone()));
            }
        }
        let rows = reader.records().map(|record| {
            record.map(|record| record.iter().map(str::to_owned).collect::<Vec<String>>())
        });
        let rows: Vec<Vec<String>> = rows.collect::<Result<_, _>>().map_err(RowsError::Csv)?;
        if rows.is_empty() {
            return Err(RowsError::NoRow);
        }
        Ok(Self { table: Table { columns, rows }, sha256 })
    }
}

/// Access to this machine's files, for studies that refer to them.
pub struct ThisMachine;

impl Surroundings for ThisMachine {
    fn table(&self, path: &str) -> Result<Option<TableFile>, TableError> {
        let RowTable { table, sha256 } = RowTable::read(path)?;
        Ok(Some(TableFile { columns: table.columns, sha256 }))
    }

    fn file(&self, path: &str) -> Result<(), io::Error> {
        files::open(Path::new(path)).map(drop)
    }

    fn text(&self, path: &str) -> Result<Option<String>, io::Error> {
        files::read_text(Path::new(path), TEXT_MAX).map(Some)
    }

    fn has_variable(&self, name: &str) -> bool {
        std::env::var(name).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read(text: &[u8]) -> Result<RowTable, RowsError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        RowTable::of_file(file.path())
    }

    #[test]
    fn rows_are_used_in_rotation() {
        let RowTable { table, sha256 } = read(b"user,page\nann,\"a \"\"b\"\"\"\nbob,c\n").unwrap();
        assert_eq!(table.columns, ["user", "page"]);
        assert_eq!(table.row(0), ["ann", "a \"b\""]);
        assert_eq!(table.row(3), ["bob", "c"]);
        assert_eq!(sha256.len(), 64);
    }

    #[test]
    fn invalid_tables_are_refused_with_their_line() {
        for (text, wording) in [
            (&b"user\n"[..], "there is no row"),
            (b"", "there is no row"),
            (b"a user\nx\n", "invalid column name `a user`"),
            (b"user,user\na,b\n", "two of its columns are called `user`"),
            (b"user,page\nann,x\nbob\n", "line 3 has 1 values, but the first row names 2 columns"),
            (b"user\n\xff\n", "line 2 is not UTF-8"),
        ] {
            let printed = read(text).unwrap_err().to_string();
            assert!(printed.contains(wording), "{printed}");
        }
        let printed = RowTable::read("/nonexistent.csv").unwrap_err().to_string();
        assert!(
            printed.contains("`/nonexistent.csv`") && printed.contains("No such file"),
            "{printed}"
        );
    }
}
