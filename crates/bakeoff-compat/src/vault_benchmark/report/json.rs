//! Writes the line that `review` reads, and reads it from bakeoff or vault-benchmark.

use std::io::Read as _;
use std::path::Path;

use bakeoff_engine::LoadError;

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
    let file = std::fs::File::open(path).map_err(|error| cannot(&error))?;
    let mut text = String::new();
    file.take(SIZE_MAX + 1).read_to_string(&mut text).map_err(|error| cannot(&error))?;
    if text.len() as u64 > SIZE_MAX {
        return Err(cannot(&format!("it is larger than {} MiB", SIZE_MAX >> 20)));
    }
    let reports: Result<Vec<Report>, _> =
        serde_json::Deserializer::from_str(&text).into_iter().collect();
    match reports {
        Ok(reports) if reports.is_empty() => Err(cannot(&"it holds no results")),
        Ok(reports) => Ok(reports),
        Err(error) => Err(cannot(&error)),
    }
}
