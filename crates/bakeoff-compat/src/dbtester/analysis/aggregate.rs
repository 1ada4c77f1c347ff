//! Joins the files of one database by second.

use std::collections::BTreeMap;

use super::{AnalysisError, Contender, File, Input};
use crate::dbtester::config::ResultFile;
use crate::dbtester::files::{TIMESERIES_HEADER, by_keys};
use crate::dbtester::frame::Frame;
use crate::dbtester::number;

/// Longest accepted load, in seconds.
const SECONDS_MAX: i64 = 200_000;
/// Largest accepted number of requests.
const REQUESTS_MAX: f64 = 1e9;

/// A column of the servers' metrics, and its name in the aggregated file.
struct MetricsColumn {
    column: &'static str,
    as_column: &'static str,
}

const fn taken(column: &'static str, as_column: &'static str) -> MetricsColumn {
    MetricsColumn { column, as_column }
}

/// Columns taken from each server, in the order of the aggregated file.
const TAKEN: [MetricsColumn; 20] = [
    taken("VOLUNTARY-CTXT-SWITCHES", "VOLUNTARY-CTXT-SWITCHES"),
    taken("NON-VOLUNTARY-CTXT-SWITCHES", "NON-VOLUNTARY-CTXT-SWITCHES"),
    taken("CPU-NUM", "CPU"),
    taken("LOAD-AVERAGE-1-MINUTE", "LOAD-AVERAGE-1-MINUTE"),
    taken("VMRSS-NUM", "VMRSS-MB"),
    taken("READS-COMPLETED", "READS-COMPLETED"),
    taken("READS-COMPLETED-DELTA", "READS-COMPLETED-DELTA"),
    taken("SECTORS-READ", "SECTORS-READ"),
    taken("SECTORS-READ-DELTA", "SECTORS-READ-DELTA"),
    taken("WRITES-COMPLETED", "WRITES-COMPLETED"),
    taken("WRITES-COMPLETED-DELTA", "WRITES-COMPLETED-DELTA"),
    taken("SECTORS-WRITTEN", "SECTORS-WRITTEN"),
    taken("SECTORS-WRITTEN-DELTA", "SECTORS-WRITTEN-DELTA"),
    taken("READ-BYTES-DELTA", "READ-BYTES-DELTA"),
    taken("WRITE-BYTES-DELTA", "WRITE-BYTES-DELTA"),
    taken("RECEIVE-BYTES-NUM", "RECEIVE-BYTES-NUM"),
    taken("RECEIVE-BYTES-NUM-DELTA", "RECEIVE-BYTES-NUM-DELTA"),
    taken("TRANSMIT-BYTES-NUM", "TRANSMIT-BYTES-NUM"),
    taken("TRANSMIT-BYTES-NUM-DELTA", "TRANSMIT-BYTES-NUM-DELTA"),
    taken("EXTRA", "CLIENT-NUM"),
];

/// Means over all servers, in the order of the aggregated file: the column and its source column.
const MEANS: [(&str, &str); 20] = [
    ("AVG-CPU", "CPU"),
    ("MAX-CPU", "CPU"),
    ("AVG-SYSTEM-LOAD-1-MIN", "LOAD-AVERAGE-1-MINUTE"),
    ("AVG-VMRSS-MB", "VMRSS-MB"),
    ("AVG-WRITES-COMPLETED", "WRITES-COMPLETED"),
    ("AVG-WRITES-COMPLETED-DELTA", "WRITES-COMPLETED-DELTA"),
    ("AVG-SECTORS-WRITTEN", "SECTORS-WRITTEN"),
    ("AVG-SECTORS-WRITTEN-DELTA", "SECTORS-WRITTEN-DELTA"),
    ("AVG-READS-COMPLETED", "READS-COMPLETED"),
    ("AVG-READS-COMPLETED-DELTA", "READS-COMPLETED-DELTA"),
    ("AVG-SECTORS-READ", "SECTORS-READ"),
    ("AVG-SECTORS-READ-DELTA", "SECTORS-READ-DELTA"),
    ("AVG-READ-BYTES-NUM-DELTA", "READ-BYTES-DELTA"),
    ("AVG-WRITE-BYTES-NUM-DELTA", "WRITE-BYTES-DELTA"),
    ("AVG-RECEIVE-BYTES-NUM", "RECEIVE-BYTES-NUM"),
    ("AVG-RECEIVE-BYTES-NUM-DELTA", "RECEIVE-BYTES-NUM-DELTA"),
    ("AVG-TRANSMIT-BYTES-NUM", "TRANSMIT-BYTES-NUM"),
    ("AVG-TRANSMIT-BYTES-NUM-DELTA", "TRANSMIT-BYTES-NUM-DELTA"),
    ("AVG-VOLUNTARY-CTXT-SWITCHES", "VOLUNTARY-CTXT-SWITCHES"),
    ("AVG-NON-VOLUNTARY-CTXT-SWITCHES", "NON-VOLUNTARY-CTXT-SWITCHES"),
];

/// One database's load and servers, second by second.
pub(super) struct DatabaseSeconds {
    /// Consecutive seconds, without gaps.
    pub(super) seconds: Vec<Second>,
    /// Rows by step. A second in which two steps met appears twice; seconds without a row are left out.
    pub(super) by_step: Vec<Second>,
    /// Number of servers with metrics.
    pub(super) servers: usize,
}

/// One second of a load with its server metrics.
#[derive(Debug, Clone, Default)]
pub(super) struct Second {
    unix: i64,
    pub(super) clients: f64,
    /// Minimum, mean and maximum in milliseconds; `None` without an answer.
    pub(super) latency: Option<[f64; 3]>,
    pub(super) throughput: f64,
    /// True if the file has a row for this second. Seconds between two steps have none.
    pub(super) listed: bool,
    /// Values by server, in the order of [`TAKEN`].
    servers: Vec<[Option<f64>; TAKEN.len()]>,
}

impl Second {
    /// Returns each server's value of a column, by its name in the aggregated file.
    fn values(&self, column: &str) -> Vec<f64> {
        let place = TAKEN.iter().position(|taken| taken.as_column == column);
        let of = |server: &[Option<f64>; TAKEN.len()]| place.and_then(|place| server[place]);
        self.servers.iter().filter_map(of).collect()
    }

    /// Returns a column's mean over the servers, or `None` if it is unknown.
    fn mean(&self, column: &str) -> Option<f64> {
        let of = match column {
            "AVG-CLIENT-NUM" => "CLIENT-NUM",
            _ => MEANS.iter().find(|(mean, _)| *mean == column)?.1,
        };
        let values = self.values(of);
        match column.starts_with("MAX-") {
            true => values.into_iter().reduce(f64::max),
            false => {
                let count = values.len();
                (count > 0).then(|| values.into_iter().sum::<f64>() / count as f64)
            }
        }
    }

    /// Returns the value of any aggregated column that belongs to no single server.
    pub(super) fn value(&self, column: &str) -> Option<f64> {
        match column {
            "MIN-LATENCY-MS" => self.latency.map(|[least, ..]| least),
            "AVG-LATENCY-MS" => self.latency.map(|[_, mean, _]| mean),
            "MAX-LATENCY-MS" => self.latency.map(|[.., most]| most),
            "AVG-THROUGHPUT" => Some(self.throughput),
            "CONTROL-CLIENT-NUM" => Some(self.clients),
            other => self.mean(other),
        }
    }

    pub(super) fn sum(&self, column: &str) -> Option<f64> {
        let values = self.values(column);
        (!values.is_empty()).then(|| values.into_iter().sum())
    }

    /// Returns a column's value as the CSV shows it.
    pub(super) fn text(&self, column: &str) -> String {
        let Some(value) = self.value(column) else { return String::new() };
        match column {
            "MIN-LATENCY-MS" | "AVG-LATENCY-MS" | "MAX-LATENCY-MS" | "AVG-THROUGHPUT"
            | "CONTROL-CLIENT-NUM" => value.to_string(),
            _ => format!("{value:.2}"),
        }
    }
}

pub(super) fn aggregate(input: &Input<'_>) -> Result<DatabaseSeconds, AnalysisError> {
    let path = &input.analysis.paths[&ResultFile::Timeseries];
    let frame = read(input, path)?;
    let (mut seconds, mut by_step) = load(path, &frame)?;
    let mut servers = 0;
    for path in &input.analysis.servers {
        let frame = read(input, path)?;
        servers += usize::from(!frame.rows.is_empty());
        let rows = server(path, &frame)?;
        for second in seconds.iter_mut().chain(&mut by_step) {
            second.servers.push(rows.get(&second.unix).copied().unwrap_or_default());
        }
    }
    Ok(DatabaseSeconds { seconds, by_step, servers })
}

fn read(input: &Input<'_>, path: &str) -> Result<Frame, AnalysisError> {
    let text = input.texts.get(path).map_or("", String::as_str);
    Frame::read(text).map_err(|error| AnalysisError::File { path: path.to_owned(), error })
}

/// Returns the seconds of a load, and its rows unchanged. If two steps share a second, their throughput adds up and
/// each step's latency counts by its requests.
fn load(path: &str, frame: &Frame) -> Result<(Vec<Second>, Vec<Second>), AnalysisError> {
    let column = |name: &str| {
        let fault = |error| AnalysisError::File { path: path.to_owned(), error };
        frame.numbers(name).map_err(fault)
    };
    let [unix, clients, least, mean, most, throughput] = TIMESERIES_HEADER.map(column);
    let (unix, clients, throughput) = (unix?, clients?, throughput?);
    let (least, mean, most) = (least?, mean?, most?);
    let mut merged: BTreeMap<i64, Second> = BTreeMap::new();
    let mut by_step = Vec::new();
    let mut sum = 0.0;
    for (row, unix) in unix.iter().enumerate() {
        let Some(unix) = unix.map(|unix| unix as i64) else { continue };
        let done = throughput[row].unwrap_or(0.0).max(0.0);
        sum += done;
        let second = merged.entry(unix).or_default();
        second.unix = unix;
        second.listed = true;
        second.clients = clients[row].unwrap_or(0.0);
        let (Some(least), Some(mean), Some(most)) = (least[row], mean[row], most[row]) else {
            continue;
        };
        if done == 0.0 {
            continue; // dbtester writes zeros when there is no latency
        }
        let (clients, latency) = (second.clients, Some([least, mean, most]));
        let throughput = done;
        by_step.push(Second { unix, clients, latency, throughput, ..Second::default() });
        let before = second.throughput;
        second.throughput += done;
        second.latency = Some(match second.latency {
            None => [least, mean, most],
            Some([l, m, h]) => {
                let weighed = (m * before + mean * done) / (before + done);
                [l.min(least), weighed, h.max(most)]
            }
        });
    }
    let ends = merged.keys().next().copied().zip(merged.keys().next_back().copied());
    let Some((first, last)) = ends else {
        return Err(AnalysisError::NoRows { path: path.to_owned() });
    };
    if last.saturating_sub(first) > SECONDS_MAX || sum > REQUESTS_MAX {
        return Err(AnalysisError::TooLarge { path: path.to_owned() });
    }
    let mut seconds: Vec<Second> = Vec::new();
    for unix in first..=last {
        let clients = seconds.last().map_or(0.0, |before| before.clients);
        let silent = || Second { unix, clients, ..Second::default() };
        seconds.push(merged.remove(&unix).unwrap_or_else(silent));
    }
    Ok((seconds, by_step))
}

/// Returns a server's values by second.
fn server(
    path: &str,
    frame: &Frame,
) -> Result<BTreeMap<i64, [Option<f64>; TAKEN.len()]>, AnalysisError> {
    let fault = |error| AnalysisError::File { path: path.to_owned(), error };
    let unix = frame.numbers("UNIX-SECOND").map_err(fault)?;
    let mut rows = BTreeMap::new();
    for (place, taken) in TAKEN.iter().enumerate() {
        let values = frame.numbers(taken.column).map_err(fault)?;
        for (unix, value) in unix.iter().zip(values) {
            let Some(unix) = unix else { continue };
            let row: &mut [Option<f64>; TAKEN.len()] = rows.entry(*unix as i64).or_default();
            row[place] = match taken.as_column {
                "VMRSS-MB" => value.map(|bytes| bytes * 1e-6),
                _ => value,
            };
        }
    }
    Ok(rows)
}

/// Returns the aggregated files of a database.
pub(super) fn files(contender: &Contender<'_>) -> Result<Vec<File>, AnalysisError> {
    let seconds = &contender.aggregated.seconds;
    let requests = seconds.iter().map(|second| second.throughput).sum::<f64>() as u64;
    let keys = by_keys(seconds, |second| second.throughput as u64, requests);
    let two = |value: Option<f64>| value.map(|v| format!("{v:.2}")).unwrap_or_default();
    let size = |value: Option<f64>| value.map(number::bytes).unwrap_or_default();
    let mut memory = Frame::new(["KEYS", "MIN-VMRSS-MB", "AVG-VMRSS-MB", "MAX-VMRSS-MB"]);
    let mut read = Frame::new(["KEYS", "AVG-READ-BYTES-NUM-DELTA", "AVG-READ-BYTES"]);
    let mut written = Frame::new(["KEYS", "AVG-WRITE-BYTES-NUM-DELTA", "AVG-WRITE-BYTES"]);
    for (keys, second) in keys {
        let keys = keys.to_string();
        let values = second.map(|second| second.values("VMRSS-MB")).unwrap_or_default();
        let least = two(values.iter().copied().reduce(f64::min));
        let most = two(values.iter().copied().reduce(f64::max));
        let value = |column| second.and_then(|second| second.value(column));
        memory.rows.push(vec![keys.clone(), least, two(value("AVG-VMRSS-MB")), most]);
        let bytes = value("AVG-READ-BYTES-NUM-DELTA");
        read.rows.push(vec![keys.clone(), two(bytes), size(bytes)]);
        let bytes = value("AVG-WRITE-BYTES-NUM-DELTA");
        written.rows.push(vec![keys, two(bytes), size(bytes)]);
    }
    let file = |file, frame: &Frame| (contender.path(file).to_owned(), frame.csv());
    Ok(vec![
        file(ResultFile::MemoryByKey, &memory),
        file(ResultFile::ReadBytesByKey, &read),
        file(ResultFile::WriteBytesByKey, &written),
        file(ResultFile::AllAggregated, &whole(&contender.aggregated)),
    ])
}

/// Returns the aggregated file of a database, one row per second.
fn whole(aggregated: &DatabaseSeconds) -> Frame {
    const LEADING: [&str; 9] = [
        "UNIX-SECOND",
        "SECOND",
        "AVG-CLIENT-NUM",
        "CONTROL-CLIENT-NUM",
        "MIN-LATENCY-MS",
        "AVG-THROUGHPUT",
        "AVG-LATENCY-MS",
        "MAX-LATENCY-MS",
        "CUMULATIVE-THROUGHPUT",
    ];
    let mut frame = Frame::new(LEADING.into_iter().chain(MEANS.iter().map(|(mean, _)| *mean)));
    let servers = aggregated.seconds.first().map_or(0, |second| second.servers.len());
    for server in 1..=servers {
        frame.header.extend(TAKEN.iter().map(|taken| format!("{}-{server}", taken.as_column)));
    }
    let mut cumulative = 0.0;
    for (place, second) in aggregated.seconds.iter().enumerate() {
        cumulative += second.throughput;
        let mut row = vec![second.unix.to_string(), place.to_string()];
        row.extend(LEADING[2..8].iter().map(|column| second.text(column)));
        row.push(cumulative.to_string());
        row.extend(MEANS.iter().map(|(mean, _)| second.text(mean)));
        for values in &second.servers {
            row.extend(TAKEN.iter().zip(values).map(|(taken, value)| match value {
                Some(value)
                    if matches!(taken.as_column, "CPU" | "LOAD-AVERAGE-1-MINUTE" | "VMRSS-MB") =>
                {
                    format!("{value:.2}")
                }
                Some(value) => value.to_string(),
                None => String::new(),
            }));
        }
        frame.rows.push(row);
    }
    frame
}

/// Returns true if the aggregated file has a column of this name that belongs to no single server.
pub(super) fn has_column(name: &str) -> bool {
    columns().any(|column| column == name)
}

/// Returns the columns that can be plotted.
pub(super) fn columns() -> impl Iterator<Item = &'static str> {
    let load = TIMESERIES_HEADER[1..].iter().copied();
    load.chain(["AVG-CLIENT-NUM"]).chain(MEANS.iter().map(|(mean, _)| *mean))
}
