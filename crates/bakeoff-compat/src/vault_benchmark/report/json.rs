//! Writes the line that `review` reads, and reads it from bakeoff or vault-benchmark.

use std::path::Path;

use bakeoff_engine::LoadError;
use bakeoff_files as files;

use super::Report;

/// Largest accepted file of results, in bytes.
const SIZE_MAX: u64 = 64 << 20;

pub(super) fn render(report: &Report) -> String {
    // Maps with text keys and finite numbers always serialize.
    serde_json::to_string(report).unwrap_or_default() + "\n"
}

/// Reads all reports of a file. They follow each other.
pub(super) fn read(path: &Path) -> Result<Vec<Report>, LoadError> {
    let hint = "`run -report_mode=json` prints results to review";
    let cannot = |what: &dyn std::fmt::Display| {
        LoadError::input(format!("cannot review `{}`: {what}", path.display()), hint)
    };
    let text = files::read_text(path, SIZE_MAX).map_err(|error| cannot(&error))?;
    let reports: Result<Vec<Report>, _> =
        serde_json::Deserializer::from_str(&text).into_iter().collect();
    match reports {
        Ok(reports) if reports.is_empty() => Err(cannot(&"it holds no results")),
        Ok(reports) => Ok(reports),
        Err(error) => Err(cannot(&error)),
    }
}
