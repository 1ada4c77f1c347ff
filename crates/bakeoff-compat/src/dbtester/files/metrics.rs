//! Writes the metrics of a process, in the columns of linux-inspect, which dbtester used.
//!
//! Each row of the interpolated file covers its own second from beginning to end; dbtester's rows cover roughly the
//! second before. Disk and network figures belong to the process; dbtester's belong to a whole disk and network
//! interface.

use bakeoff_core::trial_samples::{Column, PhaseName, Series};

use super::{DatabaseTrial, is_client};
use crate::dbtester::frame::Frame;
use crate::dbtester::number;

/// Columns of a file of metrics.
pub const METRICS_HEADER: [&str; 50] = [
    "UNIX-NANOSECOND",
    "UNIX-SECOND",
    "PROGRAM",
    "STATE",
    "PID",
    "PPID",
    "CPU",
    "VMRSS",
    "VMSIZE",
    "FD",
    "THREADS",
    "VOLUNTARY-CTXT-SWITCHES",
    "NON-VOLUNTARY-CTXT-SWITCHES",
    "CPU-NUM",
    "VMRSS-NUM",
    "VMSIZE-NUM",
    "LOAD-AVERAGE-1-MINUTE",
    "LOAD-AVERAGE-5-MINUTE",
    "LOAD-AVERAGE-15-MINUTE",
    "DEVICE",
    "READS-COMPLETED",
    "SECTORS-READ",
    "TIME(READS)",
    "WRITES-COMPLETED",
    "SECTORS-WRITTEN",
    "TIME(WRITES)",
    "MILLISECONDS(READS)",
    "MILLISECONDS(WRITES)",
    "INTERFACE",
    "RECEIVE-BYTES",
    "RECEIVE-PACKETS",
    "TRANSMIT-BYTES",
    "TRANSMIT-PACKETS",
    "RECEIVE-BYTES-NUM",
    "TRANSMIT-BYTES-NUM",
    "READS-COMPLETED-DELTA",
    "SECTORS-READ-DELTA",
    "WRITES-COMPLETED-DELTA",
    "SECTORS-WRITTEN-DELTA",
    "READ-BYTES-DELTA",
    "READ-MEGABYTES-DELTA",
    "WRITE-BYTES-DELTA",
    "WRITE-MEGABYTES-DELTA",
    "RECEIVE-BYTES-DELTA",
    "RECEIVE-PACKETS-DELTA",
    "TRANSMIT-BYTES-DELTA",
    "TRANSMIT-PACKETS-DELTA",
    "RECEIVE-BYTES-NUM-DELTA",
    "TRANSMIT-BYTES-NUM-DELTA",
    "EXTRA",
];

/// Size of a sector in bytes, as the kernel counts.
const SECTOR: f64 = 512.0;

/// Period that a trial's metrics cover: from its beginning to the end of its load.
pub(super) struct MetricsPeriod {
    /// Unix time in seconds.
    began: f64,
    /// Seconds since the trial began.
    until: f64,
    /// Start and clients of each stage.
    stages: Vec<(f64, u64)>,
    counted: Vec<StageBytes>,
}

/// Bytes of a stage, counted by the generator. Includes connections that close between two samples.
struct StageBytes {
    /// Start and end, in seconds since the trial began.
    time: (f64, f64),
    sent: f64,
    received: f64,
}

impl StageBytes {
    /// Returns the bytes of one direction in a period, assuming an even spread over the stage.
    fn within(&self, column: Column, from: f64, to: f64) -> f64 {
        let (began, ended) = self.time;
        let share =
            (to.min(ended) - from.max(began)).max(0.0) / (ended - began).max(f64::MIN_POSITIVE);
        share * if column == Column::SocketSent { self.sent } else { self.received }
    }
}

impl MetricsPeriod {
    pub(super) fn new(measured: &DatabaseTrial<'_>, began: f64) -> Self {
        let machines = measured.record.machines.iter().map(|machine| &machine.observed);
        let observed = measured.record.observed.iter().chain(machines);
        let phases = observed.flat_map(|observed| &observed.phases);
        let loads = phases.filter(|phase| phase.name == PhaseName::Load.text());
        let until = loads.map(|phase| phase.to).fold(0.0, f64::max);
        let stages = measured.record.stages.iter();
        let counted = stages.clone().map(|stage| {
            let of = &stage.measurement;
            let from = stage.measured_from.unwrap_or(stage.began);
            let time = (stage.began, from + of.window.as_secs_f64());
            StageBytes { time, sent: of.bytes_sent as f64, received: of.bytes_received as f64 }
        });
        let counted = counted.collect();
        let clients = |clients: u32| u64::from(clients) * measured.clients_each;
        let stages = stages.map(|stage| (stage.began, clients(stage.clients))).collect();
        Self { began, until, stages, counted }
    }

    /// Returns one row per sample.
    pub(super) fn samples(&self, series: &Series, program: &str) -> Frame {
        let mut frame = Frame::new(METRICS_HEADER);
        let mut before = None;
        let within = series.at.partition_point(|&at| at < self.until);
        // The sample for the end of the load comes shortly after it.
        for &at in series.at.iter().take(within + 1) {
            let nanoseconds = ((self.began + at) * 1e9) as i128;
            frame.rows.push(self.row(series, program, nanoseconds, (before, at)));
            before = Some(at);
        }
        frame
    }

    /// Returns one row per second, for the events within that second.
    pub(super) fn seconds(&self, series: &Series, program: &str) -> Frame {
        let mut frame = Frame::new(METRICS_HEADER);
        let (Some(&first), Some(&last)) = (series.at.first(), series.at.last()) else {
            return frame;
        };
        let from = (self.began + first).floor() as i64;
        let to = (self.began + last.min(self.until) - 1e-6).ceil() as i64;
        for second in from..to {
            let begins = (second as f64 - self.began).max(first);
            let ends = (second as f64 + 1.0 - self.began).min(last).min(self.until);
            let nanoseconds = i128::from(second) * 1_000_000_000;
            frame.rows.push(self.row(series, program, nanoseconds, (Some(begins), ends)));
        }
        frame
    }

    /// Returns the row for a period, in seconds since the trial began.
    fn row(
        &self,
        series: &Series,
        program: &str,
        nanoseconds: i128,
        (from, to): (Option<f64>, f64),
    ) -> Vec<String> {
        let counts = is_client(series);
        let counted = |column, from, to| {
            matches!(column, Column::SocketSent | Column::SocketReceived).then(|| {
                self.counted.iter().map(|stage| stage.within(column, from, to)).sum::<f64>()
            })
        };
        let grown = |column| {
            let from = from.filter(|from| to > *from)?;
            let counted = counted(column, from, to).filter(|_| counts);
            let grown = counted.or_else(|| series.growth_between(column, from, to));
            grown.map(|grown| grown.max(0.0))
        };
        let gauge = |column| {
            let place = series.at.partition_point(|&at| at <= to).checked_sub(1)?;
            series.columns.get(&column)?.get(place).copied()
        };
        let counter = |column| {
            if let Some(counted) = counted(column, 0.0, to).filter(|_| counts) {
                return Some(counted);
            }
            let first = *series.columns.get(&column)?.first()?;
            let grown = series.growth_between(column, *series.at.first()?, to)?;
            Some(first + grown)
        };
        let whole = |value: Option<f64>| value.map(|v| format!("{v:.0}")).unwrap_or_default();
        let size = |value: Option<f64>| value.map(number::bytes).unwrap_or_default();
        let sectors = |value: Option<f64>| whole(value.map(|bytes| (bytes / SECTOR).floor()));
        let megabytes = |value: Option<f64>| whole(value.map(|bytes| (bytes / 1e6).floor()));
        let cpu = [Column::Cpu, Column::CpuUser, Column::CpuSystem];
        let cpu: Vec<f64> = cpu.into_iter().filter_map(grown).collect();
        let cpu = from
            .filter(|_| !cpu.is_empty())
            .map(|from| format!("{:.2}", cpu.iter().sum::<f64>() / (to - from) * 100.0));
        let clients = self.stages.iter().rev().find(|(began, _)| *began <= to);
        let clients = clients.or(self.stages.first()).map(|(_, clients)| clients.to_string());
        let second = nanoseconds.div_euclid(1_000_000_000).to_string();
        let field = |name: &str| match name {
            "UNIX-NANOSECOND" => nanoseconds.to_string(),
            "UNIX-SECOND" => second.clone(),
            "PROGRAM" => program.to_owned(),
            "CPU" => cpu.as_ref().map(|cpu| format!("{cpu} %")).unwrap_or_default(),
            "CPU-NUM" => cpu.clone().unwrap_or_default(),
            "VMRSS" => size(gauge(Column::Resident)),
            "VMRSS-NUM" => whole(gauge(Column::Resident)),
            "FD" => whole(gauge(Column::OpenFiles)),
            "THREADS" => whole(gauge(Column::Threads)),
            "VOLUNTARY-CTXT-SWITCHES" => whole(counter(Column::SwitchesVoluntary)),
            "NON-VOLUNTARY-CTXT-SWITCHES" => whole(counter(Column::SwitchesInvoluntary)),
            "READS-COMPLETED" => whole(counter(Column::DiskReads)),
            "SECTORS-READ" => sectors(counter(Column::DiskRead)),
            "WRITES-COMPLETED" => whole(counter(Column::DiskWrites)),
            "SECTORS-WRITTEN" => sectors(counter(Column::DiskWritten)),
            "RECEIVE-BYTES" => size(counter(Column::SocketReceived)),
            "TRANSMIT-BYTES" => size(counter(Column::SocketSent)),
            "RECEIVE-BYTES-NUM" => whole(counter(Column::SocketReceived)),
            "TRANSMIT-BYTES-NUM" => whole(counter(Column::SocketSent)),
            "READS-COMPLETED-DELTA" => whole(grown(Column::DiskReads)),
            "SECTORS-READ-DELTA" => sectors(grown(Column::DiskRead)),
            "WRITES-COMPLETED-DELTA" => whole(grown(Column::DiskWrites)),
            "SECTORS-WRITTEN-DELTA" => sectors(grown(Column::DiskWritten)),
            "READ-BYTES-DELTA" => whole(grown(Column::DiskRead)),
            "READ-MEGABYTES-DELTA" => megabytes(grown(Column::DiskRead)),
            "WRITE-BYTES-DELTA" => whole(grown(Column::DiskWritten)),
            "WRITE-MEGABYTES-DELTA" => megabytes(grown(Column::DiskWritten)),
            "RECEIVE-BYTES-DELTA" => size(grown(Column::SocketReceived)),
            "TRANSMIT-BYTES-DELTA" => size(grown(Column::SocketSent)),
            "RECEIVE-BYTES-NUM-DELTA" => whole(grown(Column::SocketReceived)),
            "TRANSMIT-BYTES-NUM-DELTA" => whole(grown(Column::SocketSent)),
            "EXTRA" => clients.clone().unwrap_or_default(),
            _ => String::new(),
        };
        METRICS_HEADER.into_iter().map(field).collect()
    }
}
