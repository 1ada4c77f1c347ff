//! Writes the files that compare all databases: the plots and the figures behind them.

use std::collections::BTreeMap;

use super::aggregate::{self, Second};
use super::plot::{self, Curve};
use super::{AnalysisError, Contender, File};
use crate::dbtester::config::{Config, Plot, ResultFile};
use crate::dbtester::frame::Frame;
use bakeoff_core::study::suggest;

/// A plot by number of keys that `analyze` always draws.
struct ByKey {
    file: ResultFile,
    column: &'static str,
    y_axis: &'static str,
    /// Columns of its CSV besides the keys.
    columns: &'static [&'static str],
    /// Columns of a second CSV that adds minimum and maximum.
    with_range: Option<&'static [&'static str]>,
}

const BY_KEY: [ByKey; 4] = [
    ByKey {
        file: ResultFile::LatencyByKey,
        column: "AVG-LATENCY-MS",
        y_axis: "Latency(millisecond) by Keys",
        columns: &["AVG-LATENCY-MS"],
        with_range: Some(&["MIN-LATENCY-MS", "AVG-LATENCY-MS", "MAX-LATENCY-MS"]),
    },
    ByKey {
        file: ResultFile::MemoryByKey,
        column: "AVG-VMRSS-MB",
        y_axis: "Memory(MB) by Keys",
        columns: &["AVG-VMRSS-MB"],
        with_range: Some(&["MIN-VMRSS-MB", "AVG-VMRSS-MB", "MAX-VMRSS-MB"]),
    },
    ByKey {
        file: ResultFile::ReadBytesByKey,
        column: "AVG-READ-BYTES-NUM-DELTA",
        y_axis: "Average Read Bytes Delta by Keys",
        columns: &["AVG-READ-BYTES-NUM-DELTA", "AVG-READ-BYTES"],
        with_range: None,
    },
    ByKey {
        file: ResultFile::WriteBytesByKey,
        column: "AVG-WRITE-BYTES-NUM-DELTA",
        y_axis: "Average Write Bytes Delta by Keys",
        columns: &["AVG-WRITE-BYTES-NUM-DELTA", "AVG-WRITE-BYTES"],
        with_range: None,
    },
];

/// Returns the files of all plots.
pub(super) fn files(
    config: &Config,
    contenders: &[Contender<'_>],
    notes: &mut Vec<String>,
) -> Result<Vec<File>, AnalysisError> {
    let mut files = Vec::new();
    if config.plots.is_empty() {
        return Ok(files);
    }
    let path = |name: &str| match config.plot_folder.trim_end_matches('/') {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    };
    let made: BTreeMap<String, String> = contenders
        .iter()
        .map(aggregate::files)
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .flatten()
        .collect();
    for by_key in &BY_KEY {
        let frames: Vec<Frame> = contenders
            .iter()
            .map(|contender| match made.get(contender.path(by_key.file)) {
                Some(text) => Frame::read(text).map_err(|e| contender.fault(by_key.file, e)),
                None => contender.frame(by_key.file),
            })
            .collect::<Result<_, _>>()?;
        let name = format!("{}-BY-KEY", by_key.column);
        files.push((
            path(&format!("{name}.csv")),
            keyed(by_key.columns, contenders, &frames)?.csv(),
        ));
        let mut curves = Vec::new();
        for (contender, frame) in contenders.iter().zip(&frames) {
            let keys = contender.numbers(by_key.file, frame, "KEYS")?;
            let values = contender.numbers(by_key.file, frame, by_key.column)?;
            curves.push(Curve::new(contender, keys.into_iter().zip(values)));
        }
        let titles = [config.title.as_str(), "Cumulative Number of Keys", by_key.y_axis];
        files.push((path(&format!("{name}.svg")), plot::svg(titles, &curves)));
        if let Some(columns) = by_key.with_range {
            let frame = keyed(columns, contenders, &frames)?;
            files.push((path(&format!("{name}-ERROR-POINTS.csv")), frame.csv()));
        }
    }
    for one in &config.plots {
        let column = one.column.value.as_str();
        if !aggregate::has_column(column) {
            let hint = suggest(column, aggregate::columns(), "columns that can be plotted:");
            notes.push(format!("no plot of `{column}`: the figures have no such column; {hint}"));
            continue;
        }
        files.extend(plotted(config, one, contenders, &path));
    }
    Ok(files)
}

/// Joins columns of all databases by number of keys.
fn keyed(
    columns: &[&str],
    contenders: &[Contender<'_>],
    frames: &[Frame],
) -> Result<Frame, AnalysisError> {
    let mut all = Vec::new();
    for (contender, frame) in contenders.iter().zip(frames) {
        for name in std::iter::once(&"KEYS").chain(columns) {
            let values = frame.column(name).map_err(|error| AnalysisError::File {
                path: contender.path(ResultFile::LatencyByKey).to_owned(),
                error,
            })?;
            let values = values.into_iter().map(str::to_owned).collect();
            all.push((format!("{name}-{}", contender.tag), values));
        }
    }
    Ok(Frame::from_columns(all))
}

/// Returns the files of one plot over time.
fn plotted(
    config: &Config,
    plot: &Plot,
    contenders: &[Contender<'_>],
    path: &impl Fn(&str) -> String,
) -> Vec<File> {
    let column = plot.column.value.as_str();
    let texts = |contender: &Contender<'_>, column: &str| {
        let values = contender.aggregated.seconds.iter().map(|second| second.text(column));
        (format!("{column}-{}", contender.tag), values.collect::<Vec<_>>())
    };
    let alone = Frame::from_columns(contenders.iter().map(|one| texts(one, column)).collect());
    let both =
        contenders.iter().flat_map(|one| [texts(one, "CONTROL-CLIENT-NUM"), texts(one, column)]);
    let by_clients = Frame::from_columns(both.collect());
    let curves: Vec<Curve> = contenders
        .iter()
        .map(|contender| {
            let seconds = contender.aggregated.seconds.iter().enumerate();
            let points = seconds.map(|(at, second)| (Some(at as f64), second.value(column)));
            Curve::new(contender, points)
        })
        .collect();
    let titles = [config.title.as_str(), &plot.x_axis, &plot.y_axis];
    let mut files = vec![
        (path(&format!("{column}.svg")), plot::svg(titles, &curves)),
        (path(&format!("{column}.csv")), alone.csv()),
        (path(&format!("{column}-BY-CLIENT-NUM.csv")), by_clients.csv()),
    ];
    let first = contenders.first().and_then(|one| config.group(one.database));
    if first.is_some_and(|group| !group.benchmark.steps.is_empty()) {
        let frame = by_step(column, contenders);
        files.push((path(&format!("{column}-BY-CLIENT-NUM-aggregated.csv")), frame.csv()));
    }
    files
}

/// Returns a column's mean for each number of clients. Latencies are weighted by their requests.
fn by_step(column: &str, contenders: &[Contender<'_>]) -> Frame {
    let steps = |contender: &Contender<'_>| {
        let mut steps: BTreeMap<u64, Vec<Second>> = BTreeMap::new();
        for second in &contender.aggregated.by_step {
            steps.entry(second.clients as u64).or_default().push(second.clone());
        }
        steps
    };
    let all: Vec<_> = contenders.iter().map(steps).collect();
    let clients: std::collections::BTreeSet<u64> =
        all.iter().flat_map(|steps| steps.keys().copied()).collect();
    let mut columns = vec![(
        "CONTROL-CLIENT-NUM".to_owned(),
        clients.iter().map(ToString::to_string).collect::<Vec<_>>(),
    )];
    for (contender, steps) in contenders.iter().zip(&all) {
        let value = |clients: &u64| {
            let mean = steps.get(clients).and_then(|seconds| mean(column, seconds));
            mean.map(|mean| format!("{mean:.4}")).unwrap_or_default()
        };
        let values = clients.iter().map(value).collect();
        columns.push((format!("{column}-{}", contender.tag), values));
    }
    Frame::from_columns(columns)
}

fn mean(column: &str, seconds: &[Second]) -> Option<f64> {
    let known = || seconds.iter().filter_map(|second| Some((second, second.value(column)?)));
    match column {
        "MIN-LATENCY-MS" => known().map(|(_, value)| value).reduce(f64::min),
        "MAX-LATENCY-MS" => known().map(|(_, value)| value).reduce(f64::max),
        _ => {
            let by_requests = column == "AVG-LATENCY-MS";
            let weight = |second: &Second| if by_requests { second.throughput } else { 1.0 };
            let weights: f64 = known().map(|(second, _)| weight(second)).sum();
            let sum: f64 = known().map(|(second, value)| weight(second) * value).sum();
            (weights > 0.0).then(|| sum / weights)
        }
    }
}
