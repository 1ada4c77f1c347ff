//! Builds the table of all databases: one row per figure, one column per database.

use super::{AnalysisError, Contender};
use crate::dbtester::config::ResultFile;
use crate::dbtester::frame::{self, FrameError};
use crate::dbtester::number::{bytes, commas};

/// Rows of the table in order. Rows with `false` appear only in the CSV.
const ROWS: [(&str, bool); 34] = [
    ("TOTAL-SECONDS", true),
    ("TOTAL-REQUEST-NUMBER", true),
    ("MAX-THROUGHPUT", true),
    ("AVG-THROUGHPUT", true),
    ("MIN-THROUGHPUT", true),
    ("FASTEST-LATENCY", true),
    ("AVG-LATENCY", true),
    ("SLOWEST-LATENCY", true),
    ("Latency p10", true),
    ("Latency p25", true),
    ("Latency p50", true),
    ("Latency p75", true),
    ("Latency p90", true),
    ("Latency p95", true),
    ("Latency p99", true),
    ("Latency p99.9", true),
    ("SERVER-TOTAL-NETWORK-RX-DATA-SUM", true),
    ("SERVER-TOTAL-NETWORK-RX-DATA-BYTES-SUM-RAW", false),
    ("SERVER-TOTAL-NETWORK-TX-DATA-SUM", true),
    ("SERVER-TOTAL-NETWORK-TX-DATA-BYTES-SUM-RAW", false),
    ("CLIENT-TOTAL-NETWORK-RX-SUM", true),
    ("CLIENT-TOTAL-NETWORK-RX-BYTES-SUM-RAW", false),
    ("CLIENT-TOTAL-NETWORK-TX-SUM", true),
    ("CLIENT-TOTAL-NETWORK-TX-BYTES-SUM-RAW", false),
    ("SERVER-MAX-CPU-USAGE", true),
    ("SERVER-MAX-MEMORY-USAGE", true),
    ("CLIENT-MAX-CPU-USAGE", true),
    ("CLIENT-MAX-MEMORY-USAGE", true),
    ("CLIENT-ERROR-COUNT", true),
    ("SERVER-AVG-READS-COMPLETED-DELTA-SUM", true),
    ("SERVER-AVG-SECTORS-READS-DELTA-SUM", true),
    ("SERVER-AVG-WRITES-COMPLETED-DELTA-SUM", true),
    ("SERVER-AVG-SECTORS-WRITTEN-DELTA-SUM", true),
    ("SERVER-AVG-DISK-SPACE-USAGE", true),
];

pub(super) struct Table {
    tags: Vec<String>,
    /// Values of [`ROWS`] by database; `None` for an unknown figure.
    columns: Vec<[Option<String>; ROWS.len()]>,
    /// Failures by database; databases without failures are left out.
    failures: Vec<(String, Vec<String>)>,
}

/// Puts the figures of all databases side by side.
pub(super) fn table(contenders: &[Contender<'_>]) -> Result<Table, AnalysisError> {
    let mut table = Table { tags: Vec::new(), columns: Vec::new(), failures: Vec::new() };
    for contender in contenders {
        let (values, failures) = column(contender)?;
        table.tags.push(contender.tag.clone());
        table.columns.push(ROWS.map(|(name, _)| values.get(name).cloned()));
        if !failures.is_empty() {
            table.failures.push((contender.database.id().to_owned(), failures));
        }
    }
    Ok(table)
}

type Values = std::collections::BTreeMap<&'static str, String>;

fn column(contender: &Contender<'_>) -> Result<(Values, Vec<String>), AnalysisError> {
    let mut values = Values::new();
    let (failures, mean) = summary(contender, &mut values)?;
    servers(contender, mean, &mut values);
    client(contender, &mut values)?;
    percentiles(contender, &mut values)?;
    let file = ResultFile::DiskUsage;
    let disk = contender.frame(file)?;
    let sizes = contender.numbers(file, &disk, "DISK-SPACE-USAGE-BYTES-NUM")?;
    let sizes: Vec<f64> = sizes.into_iter().flatten().collect();
    if !sizes.is_empty() {
        let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
        values.insert("SERVER-AVG-DISK-SPACE-USAGE", bytes(mean));
    }
    Ok((values, failures))
}

/// Adds the figures of the servers and of the seconds. `mean` is the throughput of the whole load.
fn servers(contender: &Contender<'_>, mean: Option<f64>, values: &mut Values) {
    let aggregated = &contender.aggregated;
    let seconds = &aggregated.seconds;
    // Skip the first and the last second: the load covers only part of them.
    let whole = if seconds.len() > 2 { &seconds[1..seconds.len() - 1] } else { &seconds[..] };
    let listed = || whole.iter().filter(|second| second.listed);
    let throughput = || listed().map(|second| second.throughput);
    // The mean includes the partial seconds, so it can lie outside the range of the others.
    let most = throughput().chain(mean).fold(0.0, f64::max);
    let least = throughput().chain(mean).fold(f64::INFINITY, f64::min);
    values.insert("MAX-THROUGHPUT", format!("{} req/sec", commas(most as u64)));
    values.insert("MIN-THROUGHPUT", format!("{} req/sec", commas(least as u64)));
    if aggregated.servers == 0 {
        return;
    }
    let sum = |column: &str| {
        let known: Vec<f64> = seconds.iter().filter_map(|second| second.sum(column)).collect();
        (!known.is_empty()).then(|| known.into_iter().sum::<f64>())
    };
    let most =
        |column: &str| seconds.iter().filter_map(|second| second.value(column)).reduce(f64::max);
    let mut put = |name, value: Option<String>| {
        if let Some(value) = value {
            values.insert(name, value);
        }
    };
    let (received, sent) = (sum("RECEIVE-BYTES-NUM-DELTA"), sum("TRANSMIT-BYTES-NUM-DELTA"));
    put("SERVER-TOTAL-NETWORK-RX-DATA-SUM", received.map(bytes));
    put("SERVER-TOTAL-NETWORK-RX-DATA-BYTES-SUM-RAW", received.map(raw));
    put("SERVER-TOTAL-NETWORK-TX-DATA-SUM", sent.map(bytes));
    put("SERVER-TOTAL-NETWORK-TX-DATA-BYTES-SUM-RAW", sent.map(raw));
    put("SERVER-MAX-CPU-USAGE", most("AVG-CPU").map(percent));
    put("SERVER-MAX-MEMORY-USAGE", most("AVG-VMRSS-MB").map(|megabytes| bytes(megabytes * 1e6)));
    for (name, column) in [
        ("SERVER-AVG-READS-COMPLETED-DELTA-SUM", "READS-COMPLETED-DELTA"),
        ("SERVER-AVG-SECTORS-READS-DELTA-SUM", "SECTORS-READ-DELTA"),
        ("SERVER-AVG-WRITES-COMPLETED-DELTA-SUM", "WRITES-COMPLETED-DELTA"),
        ("SERVER-AVG-SECTORS-WRITTEN-DELTA-SUM", "SECTORS-WRITTEN-DELTA"),
    ] {
        put(name, sum(column).map(|sum| commas(sum.max(0.0) as u64)));
    }
}

fn client(contender: &Contender<'_>, values: &mut Values) -> Result<(), AnalysisError> {
    let file = ResultFile::ClientMetricsInterpolated;
    let frame = contender.frame(file)?;
    let known = |column: &str| -> Result<Vec<f64>, AnalysisError> {
        Ok(contender.numbers(file, &frame, column)?.into_iter().flatten().collect())
    };
    let sum = |values: Vec<f64>| (!values.is_empty()).then(|| values.into_iter().sum::<f64>());
    let most = |values: Vec<f64>| values.into_iter().reduce(f64::max);
    let received = sum(known("RECEIVE-BYTES-NUM-DELTA")?);
    let sent = sum(known("TRANSMIT-BYTES-NUM-DELTA")?);
    let figures = [
        ("CLIENT-TOTAL-NETWORK-RX-SUM", received.map(bytes)),
        ("CLIENT-TOTAL-NETWORK-RX-BYTES-SUM-RAW", received.map(raw)),
        ("CLIENT-TOTAL-NETWORK-TX-SUM", sent.map(bytes)),
        ("CLIENT-TOTAL-NETWORK-TX-BYTES-SUM-RAW", sent.map(raw)),
        ("CLIENT-MAX-CPU-USAGE", most(known("CPU-NUM")?).map(percent)),
        ("CLIENT-MAX-MEMORY-USAGE", most(known("VMRSS-NUM")?).map(bytes)),
    ];
    values.extend(figures.into_iter().filter_map(|(name, value)| Some((name, value?))));
    Ok(())
}

/// Adds the figures of the whole load. Returns its failures as lines, and its throughput.
fn summary(
    contender: &Contender<'_>,
    values: &mut Values,
) -> Result<(Vec<String>, Option<f64>), AnalysisError> {
    let file = ResultFile::DistributionSummary;
    let mut failures = Vec::new();
    let (mut failed, mut mean) = (0u64, None);
    for (place, row) in contender.lines(file)?.iter().enumerate() {
        let [name, value] = &row[..] else { continue };
        let not_a_number = || {
            let (column, seen) = (name.clone(), value.clone());
            contender.fault(file, FrameError::NotANumber { column, row: place + 1, seen })
        };
        let known = !value.is_empty();
        match name.as_str() {
            "TOTAL-SECONDS" if known => {
                values.insert("TOTAL-SECONDS", format!("{value} sec"));
            }
            "REQUESTS-PER-SECOND" if known => {
                let rate: f64 = value.parse().map_err(|_| not_a_number())?;
                values.insert("AVG-THROUGHPUT", format!("{} req/sec", commas(rate as u64)));
                mean = Some(rate);
            }
            "SLOWEST-LATENCY-MS" if known => {
                values.insert("SLOWEST-LATENCY", format!("{value} ms"));
            }
            "FASTEST-LATENCY-MS" if known => {
                values.insert("FASTEST-LATENCY", format!("{value} ms"));
            }
            "AVERAGE-LATENCY-MS" if known => {
                values.insert("AVG-LATENCY", format!("{value} ms"));
            }
            _ => {
                let Some(kind) = name.strip_prefix("ERROR:") else { continue };
                let count: u64 = value.parse().map_err(|_| not_a_number())?;
                failed = failed.saturating_add(count);
                failures.push(format!("{} (count {})", kind.trim(), commas(count)));
            }
        }
    }
    values.insert("CLIENT-ERROR-COUNT", commas(failed));
    let seconds = &contender.aggregated.seconds;
    let answered = seconds.iter().map(|second| second.throughput).sum::<f64>() as u64;
    values.insert("TOTAL-REQUEST-NUMBER", commas(answered.saturating_add(failed)));
    Ok((failures, mean))
}

fn percentiles(contender: &Contender<'_>, values: &mut Values) -> Result<(), AnalysisError> {
    for row in contender.lines(ResultFile::DistributionPercentile)?.iter().skip(1) {
        let [label, value] = &row[..] else { continue };
        let name = ROWS.iter().find(|(row, _)| row.strip_prefix("Latency ") == Some(label));
        if let Some((name, _)) = name.filter(|_| !value.is_empty()) {
            values.insert(name, format!("{value} ms"));
        }
    }
    Ok(())
}

fn raw(value: f64) -> String {
    format!("{value:.2}")
}

fn percent(value: f64) -> String {
    format!("{value:.2} %")
}

impl Table {
    /// Returns the table as CSV. An unknown figure is an empty field.
    pub(super) fn csv(&self) -> String {
        let header = std::iter::once(String::new()).chain(self.tags.iter().cloned());
        let row = |place: usize| {
            let values = self.columns.iter().map(|column| column[place].clone());
            let values = values.map(Option::unwrap_or_default);
            std::iter::once(ROWS[place].0.to_owned()).chain(values).collect::<Vec<_>>()
        };
        let rows: Vec<Vec<String>> =
            std::iter::once(header.collect()).chain((0..ROWS.len()).map(row)).collect();
        frame::csv(&rows)
    }

    /// Returns the table as text, with the failures below. An unknown figure is a dash.
    pub(super) fn text(&self) -> String {
        let mut rows: Vec<Vec<String>> =
            vec![std::iter::once(String::new()).chain(self.tags.iter().cloned()).collect()];
        for (place, (name, _)) in ROWS.iter().enumerate().filter(|(_, (_, shown))| *shown) {
            let values = self.columns.iter().map(|column| column[place].clone());
            let values = values.map(|value| value.unwrap_or_else(|| "-".to_owned()));
            rows.push(std::iter::once((*name).to_owned()).chain(values).collect());
        }
        let width =
            |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..=self.tags.len()).map(width).collect();
        let rule: String =
            widths.iter().map(|width| format!("+{}", "-".repeat(width + 2))).collect();
        let rule = format!("{rule}+\n");
        let mut text = rule.clone();
        for (place, row) in rows.iter().enumerate() {
            for (field, &width) in row.iter().zip(&widths) {
                match place {
                    0 => text.push_str(&format!("| {field:^width$} ")),
                    _ => text.push_str(&format!("| {field:>width$} ")),
                }
            }
            text.push_str("|\n");
            if place == 0 {
                text.push_str(&rule);
            }
        }
        text.push_str(&rule);
        if !self.failures.is_empty() {
            text.push_str("\n\n");
        }
        for (id, failures) in &self.failures {
            text.push_str(&format!("{id} errors:\n{}\n", failures.join("\n")));
        }
        text
    }
}
