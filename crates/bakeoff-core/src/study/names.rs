//! The words that studies, records, command line and reports use for the choices of a study.
//!
//! serde writes the same words; a test holds the two together.

use std::fmt;

use super::{Clusters, Kill, Metric, Operation, ReadConsistency, Targets};

macro_rules! named {
    ($type:ident: $($variant:ident = $name:literal),+ $(,)?) => {
        impl $type {
            /// Every one, in the order of the documentation.
            pub const ALL: &'static [$type] = &[$($type::$variant),+];
            /// The names of [`Self::ALL`], in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// The word for it in studies, records and reports.
            pub const fn name(self) -> &'static str {
                match self { $($type::$variant => $name),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.pad(self.name())
            }
        }
    };
}

named!(Operation:
    Put = "put",
    Get = "get",
    Delete = "delete",
    List = "list",
    LoginUserpass = "login-userpass",
    LoginApprole = "login-approle",
    LookupToken = "lookup-token",
    Encrypt = "encrypt",
    Decrypt = "decrypt",
    Sign = "sign",
    IssueCertificate = "issue-certificate",
    SignCertificate = "sign-certificate",
    IssueCredentials = "issue-credentials",
    ReadPolicy = "read-policy",
    ReadMount = "read-mount",
    Insert = "insert",
    Ping = "ping",
    CheckAccess = "check-access",
    Request = "request",
    Denied = "denied",
    ReadModifyWrite = "read-modify-write",
    CompareAndSet = "compare-and-set",
    Scan = "scan",
    GrantLease = "grant-lease",
    KeepLease = "keep-lease",
    Watch = "watch",
);

impl Operation {
    /// Those of a key-value store.
    pub const KEY_VALUE: &'static [Operation] =
        &[Self::Put, Self::Get, Self::Delete, Self::List, Self::ReadModifyWrite];

    /// Those of a key-value store that can also write on a condition.
    pub const CONDITIONAL: &'static [Operation] = &[
        Self::Put,
        Self::Get,
        Self::Delete,
        Self::List,
        Self::ReadModifyWrite,
        Self::CompareAndSet,
    ];

    /// Those of a secret store.
    pub const SECRETS: &'static [Operation] = &[
        Self::Put,
        Self::Get,
        Self::Delete,
        Self::List,
        Self::LoginUserpass,
        Self::LoginApprole,
        Self::LookupToken,
        Self::Encrypt,
        Self::Decrypt,
        Self::Sign,
        Self::IssueCertificate,
        Self::SignCertificate,
        Self::IssueCredentials,
        Self::ReadPolicy,
        Self::ReadMount,
        Self::ReadModifyWrite,
    ];
}

named!(ReadConsistency: Linearizable = "linearizable", Default = "default", Stale = "stale");
named!(Targets: All = "all", Leader = "leader", Followers = "followers");
named!(Clusters: Fresh = "fresh", Kept = "kept");
named!(Kill: AtRest = "at-rest", UnderLoad = "under-load");
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
    ServerCpuMaxPercent = "server-cpu-max-percent",
    ServerMemoryMaxBytes = "server-memory-max-bytes",
);

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: serde::Serialize + Copy>(all: &[T], names: &[&str], name: fn(T) -> &'static str) {
        assert_eq!(serde_json::to_value(all).unwrap(), serde_json::to_value(names).unwrap());
        assert!(all.iter().map(|one| name(*one)).eq(names.iter().copied()));
    }

    #[test]
    fn a_record_says_the_words_of_the_study() {
        check(Operation::ALL, Operation::NAMES, Operation::name);
        check(ReadConsistency::ALL, ReadConsistency::NAMES, ReadConsistency::name);
        check(Targets::ALL, Targets::NAMES, Targets::name);
        check(Metric::ALL, Metric::NAMES, Metric::name);
    }
}
