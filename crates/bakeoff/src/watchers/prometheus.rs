//! Exports a run to Prometheus: serves `/metrics` in the OpenMetrics text format while the run lasts.
//!
//! Not here: the metrics (`metrics`), the connections (`server`).

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::metrics::{Metric, MetricKind, MetricUnit, metrics};
use super::server::{Answer, LoopbackServer};
use super::{SharedStatus, locked};
use crate::failure::Failure;

/// Name of the threads that serve metrics.
const THREAD: &str = "prometheus";
/// Prefix of all metrics.
const PREFIX: &str = "bakeoff";
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0";

/// Serves the metrics on this port, or on a free one for 0.
///
/// # Errors
/// Fails if the port is in use.
pub(super) fn serve(port: u16, status: &SharedStatus) -> Result<LoopbackServer, Failure> {
    let status = Arc::clone(status);
    LoopbackServer::start(("--export prometheus", port), THREAD, move |path| match path {
        "/metrics" => {
            let metrics = metrics(&locked(&status)); // unlocked before they are written
            Answer::Text(MEDIA_TYPE, written(metrics))
        }
        _ => Answer::Absent,
    })
}

/// Returns the metrics as text.
fn written(metrics: Vec<Metric>) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(MetricSet(metrics)));
    let mut text = String::new();
    text::encode(&mut text, &registry).expect("a text can be written to");
    text
}

#[derive(Debug)]
struct MetricSet(Vec<Metric>);

impl Collector for MetricSet {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for Metric { name, help, unit, kind, points } in &self.0 {
            let unit = match unit {
                MetricUnit::Operations => None,
                MetricUnit::Seconds => Some(Unit::Seconds),
                MetricUnit::Bytes => Some(Unit::Bytes),
            };
            let of = match kind {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge => MetricType::Gauge,
            };
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), of)?;
            for point in points {
                let mut one = family.encode_family(&point.labels)?;
                match kind {
                    MetricKind::Counter => {
                        one.encode_counter::<NoLabelSet, _, u64>(&point.value, None)?;
                    }
                    MetricKind::Gauge => one.encode_gauge(&point.value)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::metrics::Point;
    use super::*;

    #[test]
    fn metrics_are_written_in_the_text_format() {
        let point = |label: &str, value| Point { labels: vec![("node", label.to_owned())], value };
        let metrics = vec![
            Metric {
                name: "node_cpu",
                help: "CPU time",
                unit: MetricUnit::Seconds,
                kind: MetricKind::Counter,
                points: vec![point("a", 1.5), point("b\"\n", 2.0)],
            },
            Metric {
                name: "node_memory",
                help: "Memory",
                unit: MetricUnit::Bytes,
                kind: MetricKind::Gauge,
                points: vec![point("a", 4096.0)],
            },
        ];
        let expected = "\
# HELP bakeoff_node_cpu_seconds CPU time
# TYPE bakeoff_node_cpu_seconds counter
# UNIT bakeoff_node_cpu_seconds seconds
bakeoff_node_cpu_seconds_total{node=\"a\"} 1.5
bakeoff_node_cpu_seconds_total{node=\"b\\\"\\n\"} 2.0
# HELP bakeoff_node_memory_bytes Memory
# TYPE bakeoff_node_memory_bytes gauge
# UNIT bakeoff_node_memory_bytes bytes
bakeoff_node_memory_bytes{node=\"a\"} 4096.0
# EOF
";
        assert_eq!(written(metrics), expected);
    }
}
