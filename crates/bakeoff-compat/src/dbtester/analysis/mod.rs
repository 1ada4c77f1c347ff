//! Turns dbtester's files into the output of its `analyze`: aggregated files, a table of all databases, and a README.
//!
//! Accepts files of bakeoff and of dbtester. Files, rows and columns have dbtester's names and meanings, except for
//! the dbtester bugs that `docs/dbtester.md` lists.
//!
//! Not here: reading and writing files (the binary's `commands::dbtester`), pictures (`plot`).

mod aggregate;
mod comparison_files;
mod plot;
mod readme;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::config::{Config, ResultFile};
use super::frame::{self, Frame, FrameError};
use super::{Analysis, Database};

use self::aggregate::DatabaseSeconds;

/// A file's path and its text.
pub type File = (String, String);

/// The files of one database, by their paths.
#[derive(Debug, Clone)]
pub struct Input<'a> {
    /// Paths from the configuration.
    pub analysis: &'a Analysis,
    /// Contents by path.
    pub texts: BTreeMap<&'a str, String>,
}

/// Result of an analysis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnalysisOutput {
    /// Paths and contents to write.
    pub files: Vec<File>,
    /// Table of all databases, as text.
    pub table: String,
    /// Notes on plots and figures that could not be made.
    pub notes: Vec<String>,
}

/// Reason why files cannot be analysed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnalysisError {
    /// A file has the wrong format.
    #[error("`{path}`: {error}")]
    File {
        /// Its path.
        path: String,
        /// The fault.
        error: FrameError,
    },
    /// A file covers far more seconds or requests than any load.
    #[error("`{path}` covers more seconds or requests than any load")]
    TooLarge {
        /// Its path.
        path: String,
    },
    /// A file has no row.
    #[error("`{path}` has no rows: nothing was measured")]
    NoRows {
        /// Its path.
        path: String,
    },
}

/// One database, analysed.
struct Contender<'a> {
    tag: String,
    database: Database,
    input: &'a Input<'a>,
    aggregated: DatabaseSeconds,
}

impl Contender<'_> {
    fn path(&self, file: ResultFile) -> &str {
        &self.input.analysis.paths[&file]
    }

    fn text(&self, file: ResultFile) -> &str {
        self.input.texts.get(self.path(file)).map_or("", String::as_str)
    }

    fn frame(&self, file: ResultFile) -> Result<Frame, AnalysisError> {
        Frame::read(self.text(file)).map_err(|error| self.fault(file, error))
    }

    fn fault(&self, file: ResultFile, error: FrameError) -> AnalysisError {
        AnalysisError::File { path: self.path(file).to_owned(), error }
    }

    fn numbers(
        &self,
        file: ResultFile,
        frame: &Frame,
        column: &str,
    ) -> Result<Vec<Option<f64>>, AnalysisError> {
        frame.numbers(column).map_err(|error| self.fault(file, error))
    }

    /// Returns the rows of a file without columns.
    fn lines(&self, file: ResultFile) -> Result<Vec<Vec<String>>, AnalysisError> {
        let lines = frame::lines(self.text(file)).map_err(|error| self.fault(file, error))?;
        Ok(lines.into_iter().map(|(_, row)| row).collect())
    }
}

/// Returns the paths that an analysis reads.
pub fn paths(analysis: &Analysis) -> impl Iterator<Item = &str> {
    const READ: [ResultFile; 6] = [
        ResultFile::ClientMetricsInterpolated,
        ResultFile::Timeseries,
        ResultFile::DistributionPercentile,
        ResultFile::DistributionSummary,
        ResultFile::LatencyByKey,
        ResultFile::DiskUsage,
    ];
    let files = READ.iter().map(|file| analysis.paths[file].as_str());
    analysis.servers.iter().map(String::as_str).chain(files)
}

/// Analyses the files of all databases that a configuration puts side by side, in its order.
///
/// # Errors
/// When a file has the wrong format.
pub fn analyze(
    config: &Config,
    inputs: &BTreeMap<Database, Input<'_>>,
) -> Result<AnalysisOutput, AnalysisError> {
    let mut contenders = Vec::new();
    for (&database, input) in inputs {
        let tag = config.group(database).map(super::Group::tag).unwrap_or_default();
        let aggregated = aggregate::aggregate(input)?;
        contenders.push(Contender { tag, database, input, aggregated });
    }
    let rank = |one: &Contender<'_>| config.compared.iter().position(|it| *it == one.database);
    contenders.sort_by_key(rank);

    let mut notes = Vec::new();
    let mut files: Vec<File> = Vec::new();
    for contender in &contenders {
        files.extend(aggregate::files(contender)?);
    }
    let table = table::table(&contenders)?;
    if !config.all_csv.is_empty() {
        files.push((config.all_csv.clone(), table.csv()));
    }
    let text = table.text();
    if !config.all_txt.is_empty() {
        let name = config.all_txt.rsplit_once('.').filter(|(_, end)| !end.contains('/'));
        let path = name.map_or(config.all_txt.clone(), |(stem, _)| format!("{stem}.txt"));
        files.push((path, text.clone()));
    }
    files.extend(comparison_files::files(config, &contenders, &mut notes)?);
    if !config.readme.is_empty() {
        files.push((config.readme.clone(), readme::readme(config, &text)));
    }
    Ok(AnalysisOutput { files, table: text, notes })
}
