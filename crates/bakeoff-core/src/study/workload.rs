//! Describes the workloads of a study: mixed operations, reads, requests.
//!
//! Not here: the load on clients (`load`), operations, keys and values (`crate::workload`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{GROUP, GROUP_DEFAULT, LEASES, System, Watchers};
use crate::statuses::Statuses;
use crate::workload::{Keys, Operation, ValueSizes};

/// Size of a value in records of workloads that send none, in bytes.
const VALUE_SIZE: u64 = 1024;

/// Describes a workload of a study: what clients do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "RecordedWorkload", into = "RecordedWorkload")]
pub struct Workload {
    /// Name in the study.
    pub name: String,
    /// Operations and their weights, which need not add up to 100; no weight is zero.
    pub mix: BTreeMap<Operation, u32>,
    /// Keys that it uses.
    pub keys: Keys,
    /// Payload of operations, besides a key.
    pub payload: Payload,
    /// Further parameters of the operations that the kinds of system know, such as the type of a key to sign with.
    pub with: BTreeMap<String, String>,
    /// Consistency of a `get` or `list`.
    pub reads: ReadConsistency,
    /// True if all keys are written, unmeasured, before the load begins.
    pub fill: bool,
    /// Watchers of its keys; `None` for none.
    pub watchers: Option<Box<Watchers>>,
    /// Names of its loads; by default all of the study.
    pub loads: Vec<String>,
    /// Names of the systems that run it; empty for all of the study.
    pub systems: Vec<String>,
}

/// Selects the payload of a workload's operations, besides a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// Values of these sizes.
    Values(ValueSizes),
    /// HTTP request and its expected answer.
    Request(HttpRequest),
}

/// Describes a workload of a study: what clients do.
///
/// Records always have a (mean) size of a value, all sizes if there are several, and a request unless it is the default.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Workload"))]
struct RecordedWorkload {
    /// Name in the study.
    name: String,
    /// Weight of each operation.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::KeyedMap<Operation, u32>"))]
    mix: BTreeMap<Operation, u32>,
    /// Keys that it uses.
    keys: Keys,
    /// Size of each value in bytes; the mean of several sizes.
    value_size: u64,
    /// Sizes of values, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_sizes: Option<ValueSizes>,
    /// Further parameters of the operations, such as the type of a key to sign with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    with: BTreeMap<String, String>,
    /// Consistency of a `get` or `list`.
    reads: ReadConsistency,
    /// Request of the operation `request`; absent for `GET /`.
    #[serde(default, skip_serializing_if = "HttpRequest::is_plain")]
    request: HttpRequest,
    /// True if all keys are written, unmeasured, before the load begins.
    fill: bool,
    /// Watchers of its keys; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    watchers: Option<Box<Watchers>>,
    /// Names of its loads.
    loads: Vec<String>,
    /// Names of the systems that run it; absent for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    systems: Vec<String>,
}

impl From<RecordedWorkload> for Workload {
    fn from(recorded: RecordedWorkload) -> Self {
        let RecordedWorkload { name, mix, keys, value_size, value_sizes, with, .. } = recorded;
        let payload = match mix.keys().any(|operation| operation.asks_over_http()) {
            true => Payload::Request(recorded.request),
            false => Payload::Values(value_sizes.unwrap_or(ValueSizes::Fixed(value_size))),
        };
        let RecordedWorkload { reads, fill, watchers, loads, systems, .. } = recorded;
        Self { name, mix, keys, payload, with, reads, fill, watchers, loads, systems }
    }
}

impl From<Workload> for RecordedWorkload {
    fn from(workload: Workload) -> Self {
        let Workload { name, mix, keys, payload, with, reads, .. } = workload;
        let Workload { fill, watchers, loads, systems, .. } = workload;
        let (sizes, request) = match payload {
            Payload::Values(sizes) => (sizes, HttpRequest::default()),
            Payload::Request(request) => (ValueSizes::Fixed(VALUE_SIZE), request),
        };
        let value_size = sizes.mean();
        let value_sizes = (!sizes.is_fixed()).then_some(sizes);
        Self {
            name,
            mix,
            keys,
            value_size,
            value_sizes,
            with,
            reads,
            request,
            fill,
            watchers,
            loads,
            systems,
        }
    }
}

/// Describes an HTTP request and its expected answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HttpRequest {
    /// Method, such as `GET`.
    pub method: String,
    /// Path and query. Like the headers' values and the body, it may have words in braces ([`crate::template`]).
    pub path: String,
    /// Headers besides `Host` and those of the body. `$NAME` is read from bakeoff's environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// True for HTTP/2, with the load's number of requests in flight per connection; false for HTTP/1.1.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub http2: bool,
    /// Table whose columns the words in braces may name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<Box<Rows>>,
    /// Request body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Accepted statuses.
    #[serde(rename = "status")]
    pub statuses: Statuses,
    /// Header fields of a right answer: a field of this name has exactly this value. Capitals in names do not
    /// matter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expected_headers: BTreeMap<String, String>,
    /// Required length of the body in bytes; `None` accepts any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_size: Option<u64>,
    /// Required text in the body; `None` accepts any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
}

/// Names a table of values for requests: a CSV file whose first row names the columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rows {
    /// Path, relative to the folder that bakeoff was started in.
    pub file: String,
    /// SHA-256 of the file in hexadecimal digits; `None` if the file was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl Default for HttpRequest {
    /// Returns `GET /` with any successful answer.
    fn default() -> Self {
        Self {
            method: "GET".to_owned(),
            path: "/".to_owned(),
            headers: BTreeMap::new(),
            http2: false,
            rows: None,
            body: None,
            statuses: Statuses::default(),
            expected_headers: BTreeMap::new(),
            body_size: None,
            contains: None,
        }
    }
}

impl HttpRequest {
    /// Returns true if it is the default request.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

impl Workload {
    /// Returns true if clients write, so that an audit is possible.
    pub fn writes(&self) -> bool {
        self.mix.keys().any(|operation| operation.writes())
    }

    /// Returns the number of leases that exist before the load.
    pub fn leases(&self) -> u64 {
        self.with.get(LEASES).and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    /// Returns the number of keys of each transaction; `None` without transactions.
    pub fn group(&self) -> Option<u32> {
        let is_of_groups = self.mix.keys().any(|operation| operation.is_of_groups());
        let keys = || self.with.get(GROUP.name).and_then(|keys| keys.parse().ok());
        is_of_groups.then(|| keys().unwrap_or(GROUP_DEFAULT))
    }

    /// Returns true if nothing of it remains in a system: leases expire by themselves.
    pub fn leaves_nothing(&self) -> bool {
        !self.fill && self.mix.keys().all(|operation| operation.is_of_leases())
    }

    /// Returns true if some operations write keys and others do not, so that a load can drive them separately.
    pub fn can_split(&self) -> bool {
        self.writes() && self.mix.keys().any(|operation| !operation.writes())
    }

    /// Returns the sizes of values; `None` if none are sent.
    pub fn value_sizes(&self) -> Option<&ValueSizes> {
        match &self.payload {
            Payload::Values(sizes) => Some(sizes),
            Payload::Request(_) => None,
        }
    }

    /// Returns the mean size of a value in bytes; `None` if none are sent.
    pub fn value_size(&self) -> Option<u64> {
        self.value_sizes().map(ValueSizes::mean)
    }

    /// Returns the HTTP request; `None` if values are sent.
    pub fn request(&self) -> Option<&HttpRequest> {
        match &self.payload {
            Payload::Values(_) => None,
            Payload::Request(request) => Some(request),
        }
    }

    /// Returns true if a system runs this workload.
    pub fn is_done_by(&self, system: &System) -> bool {
        self.systems.is_empty() || self.systems.contains(&system.name)
    }

    /// Returns true if clients read.
    pub fn reads_any(&self) -> bool {
        self.mix.keys().any(|operation| operation.reads())
    }
}

/// Selects the requested consistency of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ReadConsistency {
    /// Newest acknowledged value, as if there were one copy.
    Linearizable,
    /// Default of the system's clients.
    Default,
    /// Value of the queried node, which may be stale.
    Stale,
    /// Freshest value that the system offers. Systems without linearizable reads take part with it.
    Freshest,
}

impl ReadConsistency {
    /// Consistencies that a request can have. Kinds offer some of these.
    pub const REQUESTED: &'static [Self] = &[Self::Linearizable, Self::Default, Self::Stale];

    /// Returns the consistency to request from a system. A session answers `Linearizable` with its strongest read.
    pub fn of_request(self) -> Self {
        match self {
            Self::Freshest => Self::Linearizable,
            named => named,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a workload as in records, with this text after its keys.
    fn recorded(mix: &str, rest: &str) -> String {
        format!(
            "{{\"name\":\"w\",\"mix\":{{{mix}}},\"keys\":{{\"count\":1,\"size\":64,\"order\":\"same\",\
             \"per_directory\":0}},\"value_size\":1024,\"reads\":\"default\",{rest}\"fill\":false,\
             \"loads\":[\"l\"]}}"
        )
    }

    fn stays(text: &str) -> Workload {
        let read: Workload = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        read
    }

    #[test]
    fn records_keep_their_bytes_for_any_payload() {
        let values = stays(&recorded("\"put\":1", ""));
        assert_eq!((values.value_size(), values.request()), (Some(1024), None));
        let plain = stays(&recorded("\"request\":1", ""));
        assert_eq!((plain.value_size(), plain.request()), (None, Some(&HttpRequest::default())));
        let request = "\"request\":{\"method\":\"HEAD\",\"path\":\"/a\",\"status\":204},";
        let asked = stays(&recorded("\"request\":1,\"denied\":1", request));
        assert_eq!(asked.request().unwrap().statuses.single(), Some(204));
    }
}
