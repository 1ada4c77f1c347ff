//! Writes a report as JSON for perfdash, the dashboard of Kubernetes' performance tests (`--report-perfdash`).
//!
//! The bytes are those of `pkg/report` in etcd 3.7 for equal numbers. perfdash reads every number of `data` as a
//! series, and every label as a part of the series' name, so nothing is added.
//!
//! Not here: the figures (`report`), bakeoff's own JSON (`record`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::report::{Distribution, shortest};

/// Variable with the folder of results, as Kubernetes' test jobs set it.
const FOLDER: &str = "ARTIFACTS";
/// Folder of results if the variable is not set or empty.
const DEFAULT_FOLDER: &str = "./_artifacts";

/// Writes the report of one operation, such as `txn-put`, and returns the path as etcd's benchmark prints it. `moment`
/// is the time in UTC as `2026-11-21T20:24:50Z`.
pub(super) fn write(operation: &str, times: &Distribution, moment: &str) -> io::Result<String> {
    let folder = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty());
    let folder = folder.map_or_else(|| PathBuf::from(DEFAULT_FOLDER), PathBuf::from);
    let name = format!("EtcdAPI_benchmark_{operation}_{moment}.json");
    // Other programs of a test job read the folder, so it has the usual mode.
    fs::create_dir_all(&folder)?;
    let path = cleaned(&folder.join(name));
    bakeoff_files::replace(&path, json(operation, times).as_bytes(), 0o644)?;
    Ok(path.display().to_string())
}

/// Returns a path without `.` parts, as Go's `filepath.Join` does.
fn cleaned(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect()
}

/// Returns the JSON of a report.
pub fn json(operation: &str, times: &Distribution) -> String {
    let percentiles = times.percentiles();
    let milliseconds = |wanted: f64| {
        let found = percentiles.iter().find(|(percentile, _)| *percentile == wanted);
        let milliseconds = found.map_or(0.0, |(_, seconds)| seconds * 1000.0);
        shortest_plain((milliseconds * 10_000.0).round() / 10_000.0)
    };
    let [median, p90, p99] = [50.0, 90.0, 99.0].map(milliseconds);
    let operation = operation.to_uppercase();
    format!(
        "{{\n  \"version\": \"v1\",\n  \"dataItems\": [\n    {{\n      \"data\": {{\n        \"Perc50\": {median},\n        \
         \"Perc90\": {p90},\n        \"Perc99\": {p99}\n      }},\n      \"labels\": {{\n        \"Operation\": \
         \"{operation}\"\n      }},\n      \"unit\": \"ms\"\n    }}\n  ]\n}}"
    )
}

/// Formats a number as Go's JSON does: with an exponent only from 1e21 on.
fn shortest_plain(number: f64) -> String {
    if number < 1e21 { number.to_string() } else { shortest(number) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json as value};

    use super::*;

    #[test]
    fn milliseconds_have_four_digits_and_unreached_percentiles_are_zero() {
        let times = (1..=60).map(|time| (Duration::from_nanos(time * 1_234_567), 1));
        let text = json("txn-mixed-read", &Distribution::new(times));
        let read: Value = serde_json::from_str(&text).unwrap();
        let expected = value!({
            "version": "v1",
            "dataItems": [{
                "data": {"Perc50": 38.2716, "Perc90": 67.9012, "Perc99": 0},
                "labels": {"Operation": "TXN-MIXED-READ"},
                "unit": "ms",
            }],
        });
        assert_eq!(read, expected, "{text}");
    }

    #[test]
    fn paths_are_shown_without_dots() {
        assert_eq!(cleaned(Path::new("./_artifacts/x")), Path::new("_artifacts/x"));
        assert_eq!(cleaned(Path::new("/a/./b")), Path::new("/a/b"));
    }
}
