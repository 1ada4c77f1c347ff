//! Workloads of a study: the mix of operations, reads, requests.
//!
//! Not here: how hard clients work (`load`), operations, keys and values (`crate::workload`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::System;
use crate::statuses::Statuses;
use crate::workload::{Keys, Operation, ValueSizes};

/// Size that records give for a value, in bytes, where a workload sends none.
const VALUE_SIZE: u64 = 1024;

/// Workload of a study: what clients do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Recorded", into = "Recorded")]
pub struct Workload {
    /// The study's own name for it.
    pub name: String,
    /// Operations and their weights, which need not add up to 100; no weight is zero.
    pub mix: BTreeMap<Operation, u32>,
    /// Which keys.
    pub keys: Keys,
    /// The payload of operations, beside a key.
    pub payload: Payload,
    /// Parameters of the operations beyond keys and values, which the kinds of system know: the type of a key to
    /// sign with.
    pub with: BTreeMap<String, String>,
    /// Consistency of a `get` or `list`.
    pub reads: ReadConsistency,
    /// Whether all keys are written before the load begins, unmeasured.
    pub fill: bool,
    /// Names of the loads that this workload is put under; all loads of the study by default.
    pub loads: Vec<String>,
    /// Names of the systems that are put to this work; none: all of the study.
    pub systems: Vec<String>,
}

/// The payload of a workload's operations, beside a key: values, or a request of the study's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// Values of these sizes.
    Values(ValueSizes),
    /// A request over HTTP, and its right answer.
    Request(HttpRequest),
}

/// A workload as records hold it: with the (mean) size of a value whatever it sends, the sizes where there are several,
/// and a request where it is not the plain one.
#[derive(Serialize, Deserialize)]
struct Recorded {
    name: String,
    mix: BTreeMap<Operation, u32>,
    keys: Keys,
    value_size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_sizes: Option<ValueSizes>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    with: BTreeMap<String, String>,
    reads: ReadConsistency,
    #[serde(default, skip_serializing_if = "HttpRequest::is_plain")]
    request: HttpRequest,
    fill: bool,
    loads: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    systems: Vec<String>,
}

impl From<Recorded> for Workload {
    fn from(recorded: Recorded) -> Self {
        let Recorded { name, mix, keys, value_size, value_sizes, with, .. } = recorded;
        let payload = match mix.keys().any(|operation| operation.asks_over_http()) {
            true => Payload::Request(recorded.request),
            false => Payload::Values(value_sizes.unwrap_or(ValueSizes::Fixed(value_size))),
        };
        let Recorded { reads, fill, loads, systems, .. } = recorded;
        Self { name, mix, keys, payload, with, reads, fill, loads, systems }
    }
}

impl From<Workload> for Recorded {
    fn from(workload: Workload) -> Self {
        let Workload { name, mix, keys, payload, with, reads, fill, loads, systems } = workload;
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
            loads,
            systems,
        }
    }
}

/// A request over HTTP, and what must come back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpRequest {
    /// `GET`.
    pub method: String,
    /// Path and query; a [template](crate::template), like the headers' values and the body.
    pub path: String,
    /// Headers beyond `Host` and those of the body; `$NAME` is what bakeoff's environment holds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Whether it is asked over HTTP/2, which has as many requests under way on a connection as the load
    /// says; else over HTTP/1.1.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub http2: bool,
    /// The table whose columns the words in braces may name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<Box<Rows>>,
    /// Body that is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The statuses of a right answer.
    #[serde(rename = "status")]
    pub statuses: Statuses,
    /// Header fields of a right answer: a field of this name has exactly this value. Capitals in names do not
    /// matter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expected_headers: BTreeMap<String, String>,
    /// Length of a right answer's body, in bytes; any length when `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_size: Option<u64>,
    /// Text in the body of a right answer; anything when `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
}

/// A table of values for requests: a CSV file whose first row names the columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    /// Its path, from the folder that bakeoff was started in.
    pub file: String,
    /// The SHA-256 of the file, in hexadecimal digits; none where nobody has looked at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl Default for HttpRequest {
    /// `GET /`, to be answered with a success.
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
    /// Returns whether it is the one of a workload that says nothing of it.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

impl Workload {
    /// Returns whether clients write, so that there is something to audit.
    pub fn writes(&self) -> bool {
        self.mix.keys().any(|operation| operation.writes())
    }

    /// Returns true if some operations write keys and others do not, so that a load can drive them apart.
    pub fn can_split(&self) -> bool {
        self.writes() && self.mix.keys().any(|operation| !operation.writes())
    }

    /// Returns the sizes of values; `None` where no values are sent.
    pub fn value_sizes(&self) -> Option<&ValueSizes> {
        match &self.payload {
            Payload::Values(sizes) => Some(sizes),
            Payload::Request(_) => None,
        }
    }

    /// Returns the mean size of a value in bytes; `None` where no values are sent.
    pub fn value_size(&self) -> Option<u64> {
        self.value_sizes().map(ValueSizes::mean)
    }

    /// Returns the request over HTTP; `None` where values are sent.
    pub fn request(&self) -> Option<&HttpRequest> {
        match &self.payload {
            Payload::Values(_) => None,
            Payload::Request(request) => Some(request),
        }
    }

    /// Returns whether a system is put to this work.
    pub fn is_done_by(&self, system: &System) -> bool {
        self.systems.is_empty() || self.systems.contains(&system.name)
    }

    /// Returns whether clients read.
    pub fn reads_any(&self) -> bool {
        self.mix.keys().any(|operation| operation.reads())
    }
}

/// Consistency that a read asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadConsistency {
    /// The newest acknowledged value, as if there were one copy.
    Linearizable,
    /// Default of the system's clients.
    Default,
    /// The asked node's own value, which may be stale.
    Stale,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workload as records hold it, with this after its keys.
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
    fn records_keep_their_bytes_whatever_a_workload_sends() {
        let values = stays(&recorded("\"put\":1", ""));
        assert_eq!((values.value_size(), values.request()), (Some(1024), None));
        let plain = stays(&recorded("\"request\":1", ""));
        assert_eq!((plain.value_size(), plain.request()), (None, Some(&HttpRequest::default())));
        let request = "\"request\":{\"method\":\"HEAD\",\"path\":\"/a\",\"status\":204},";
        let asked = stays(&recorded("\"request\":1,\"denied\":1", request));
        assert_eq!(asked.request().unwrap().statuses.single(), Some(204));
    }
}
