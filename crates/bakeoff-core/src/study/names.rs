//! Names the choices of a study, as in studies, records, the command line and reports.
//!
//! serde writes the same words; a test compares the two.

use super::{BitFlipOf, Clusters, Kill, Metric, PowerCutOf, ReadConsistency, Targets};
use crate::named::named;

named!(ReadConsistency:
    Linearizable = "linearizable",
    Default = "default",
    Stale = "stale",
    Freshest = "freshest",
);
named!(Targets: All = "all", Leader = "leader", Followers = "followers");
named!(Clusters: Fresh = "fresh", Kept = "kept");
named!(Kill: AtRest = "at-rest", UnderLoad = "under-load");
named!(PowerCutOf: All = "all", One = "one");
named!(BitFlipOf: One = "one");
named!(Metric:
    Seconds = "seconds",
    Requests = "requests",
    ThroughputMax = "throughput-max",
    ThroughputMean = "throughput-mean",
    ThroughputMin = "throughput-min",
    LatencyMinMs = "latency-min-ms",
    LatencyMeanMs = "latency-mean-ms",
    LatencyMaxMs = "latency-max-ms",
    LatencyP10Ms = "latency-p10-ms",
    LatencyP25Ms = "latency-p25-ms",
    LatencyP50Ms = "latency-p50-ms",
    LatencyP75Ms = "latency-p75-ms",
    LatencyP90Ms = "latency-p90-ms",
    LatencyP95Ms = "latency-p95-ms",
    LatencyP99Ms = "latency-p99-ms",
    LatencyP999Ms = "latency-p999-ms",
    Errors = "errors",
    OutageMinS = "outage-min-s",
    OutageMaxS = "outage-max-s",
    ServerCpuMaxPercent = "server-cpu-max-percent",
    ServerMemoryMaxBytes = "server-memory-max-bytes",
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Operation;

    fn check<T: serde::Serialize + Copy>(all: &[T], names: &[&str], name: fn(T) -> &'static str) {
        assert_eq!(serde_json::to_value(all).unwrap(), serde_json::to_value(names).unwrap());
        assert!(all.iter().map(|one| name(*one)).eq(names.iter().copied()));
    }

    #[test]
    fn record_uses_the_words_of_the_study() {
        check(Operation::ALL, Operation::NAMES, Operation::name);
        check(ReadConsistency::ALL, ReadConsistency::NAMES, ReadConsistency::name);
        check(Targets::ALL, Targets::NAMES, Targets::name);
        check(Metric::ALL, Metric::NAMES, Metric::name);
    }
}
