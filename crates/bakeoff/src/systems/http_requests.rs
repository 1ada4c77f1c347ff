//! Plain HTTP requests as a load: what a workload's `request` says, and what must come back.
//!
//! For every system whose clients are browsers or services rather than its own client library. An
//! answer of another status, length or text than the workload expects is an error, never a success.
//! Every kind that has the operation `request` is prepared and driven by this, unless it does so
//! itself: one that tells requests apart by their sessions adds a header to each ([`OwnField`]).
//!
//! Not here: requests of a system's own API (`http_session`), `bakeoff load`, HTTP itself
//! (`bakeoff_engine::works::http`).

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use bakeoff_core::measurement::{ErrorKind, Measurement};
use bakeoff_core::study::{HttpRequest, Operation, Workload};
use bakeoff_engine::transport::Target;
use bakeoff_engine::work::{Failure, NotIssued};
use bakeoff_engine::works::http::{
    Answers, Batch, HeaderList, HttpWork, Protocol, Source, Stream, is_allowed_in_http2,
};
use bakeoff_engine::works::keyed;
use bakeoff_engine::{Connections, EngineError, drive_together};

use super::exchange::{self, HandshakeError};
use super::{Access, KvLoad, SystemError};
use crate::environment;

/// HTTP/2's name where TLS agrees on a protocol (RFC 9113 section 3.2).
const H2: &[u8] = b"h2";

/// A header that differs from request to request.
#[derive(Clone, Copy)]
pub(super) struct OwnField {
    /// `Cookie`.
    pub(super) name: &'static str,
    /// Appends its value for an operation and the number of its key.
    pub(super) write: fn(Operation, u64, &mut Vec<u8>),
}

/// A workload's requests.
struct Requests {
    request: HttpRequest,
    /// The path before, between and after each `{key}`.
    path: Vec<String>,
    /// With what the environment holds in place of its names.
    headers: Vec<(String, String)>,
    own_field: Option<OwnField>,
}

impl Requests {
    /// The requests of a workload; an error names an environment variable that is not set.
    fn new(workload: &Workload, own_field: Option<OwnField>) -> Result<Self, SystemError> {
        let plain = HttpRequest::default();
        let request = workload.request().unwrap_or(&plain);
        let headers = request.headers.iter();
        let headers =
            headers.map(|(name, value)| Ok((name.clone(), environment::expanded(value)?)));
        Ok(Self {
            path: request.path.split("{key}").map(str::to_owned).collect(),
            headers: headers.collect::<Result<_, SystemError>>()?,
            request: request.clone(),
            own_field,
        })
    }

    fn protocol(&self) -> Protocol {
        if self.request.http2 { Protocol::Two } else { Protocol::One }
    }

    /// Appends the path for a key.
    fn write_path(&self, number: u64, out: &mut Vec<u8>) {
        for (place, part) in self.path.iter().enumerate() {
            if place > 0 {
                let _ = write!(out, "{number}"); // writing into a vector cannot fail
            }
            out.extend_from_slice(part.as_bytes());
        }
    }

    /// Returns the part of a head that all requests to a node share: from the path on, without the own field.
    fn rest_of_head(&self, node: &Access, keep_alive: bool) -> Vec<u8> {
        let mut rest = format!(" HTTP/1.1\r\nHost: {}\r\n", node.authority);
        for (name, value) in &self.headers {
            rest.push_str(&format!("{name}: {value}\r\n"));
        }
        if !keep_alive {
            rest.push_str("Connection: close\r\n");
        }
        rest.into_bytes()
    }

    /// Returns the headers that all HTTP/2 requests to a node share: all but a path that differs and the own field.
    fn header_list(&self, node: &Access) -> HeaderList {
        let scheme = if node.target.tls.is_some() { "https" } else { "http" };
        let mut list = vec![
            (":method".to_owned(), self.request.method.clone()),
            (":scheme".to_owned(), scheme.to_owned()),
            (":authority".to_owned(), node.authority.clone()),
        ];
        if let [path] = &self.path[..] {
            list.push((":path".to_owned(), path.clone()));
        }
        let own = self.headers.iter().filter(|(name, _)| is_allowed_in_http2(name));
        list.extend(own.map(|(name, value)| (name.to_ascii_lowercase(), value.clone())));
        if let Some(body) = &self.request.body {
            list.push(("content-length".to_owned(), body.len().to_string()));
        }
        list
    }
}

/// Has the nodes remember the requests of a workload, for [`drive`]. An error tells why they cannot be
/// made.
pub(super) fn prepare(
    first: &Access,
    workload: &Workload,
    own_field: Option<OwnField>,
) -> Result<(), SystemError> {
    let requests = Requests::new(workload, own_field)?;
    if requests.protocol() == Protocol::Two && first.target.tls.is_some() {
        let agreed =
            exchange::agreed_protocol(&offering_h2(first)).map_err(HandshakeError::seen)?;
        if agreed.as_deref() != Some(H2) {
            return Err(format!(
                "`{}` at {} does not offer HTTP/2 over TLS, and the workload's `request` asks for it",
                first.name, first.authority
            ).into());
        }
    }
    first.memory.keep(requests);
    Ok(())
}

/// The same node, spoken to over HTTP/2 where it is spoken to over TLS.
fn offering_h2(node: &Access) -> Access {
    let mut node = node.clone();
    if let Some(tls) = &mut node.target.tls {
        let mut config = (*tls.config).clone();
        config.alpn_protocols = vec![H2.to_vec()];
        tls.config = Arc::new(config);
    }
    node
}

/// Drives the requests that [`prepare`] was told of.
pub(super) fn drive(load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
    let KvLoad { nodes, keyed, source, drive, together, interrupted, progress, .. } = load;
    let requests = nodes.first().and_then(|node| node.memory.get::<Requests>());
    let requests = requests.expect("a load is prepared before it is driven");
    let protocol = requests.protocol();
    let keep_alive = drive.connections == Connections::Kept;
    let to: Arc<[Node]> = nodes
        .iter()
        .map(|node| Node {
            rest_of_head: requests.rest_of_head(node, keep_alive),
            header_list: requests.header_list(node),
        })
        .collect();
    let target = |node: &Access| match protocol {
        Protocol::One => node.target.clone(),
        Protocol::Two => offering_h2(node).target,
    };
    let targets: Vec<Target> = nodes.iter().map(target).collect();
    let keys = keyed.space.count();
    // What a trial keeps of answers is in its measurement.
    let answers = Arc::new(Mutex::new(Answers::default()));
    let works = |share| {
        let asking = Asking {
            requests: requests.clone(),
            nodes: to.clone(),
            source: source(share),
            keys,
            path: Vec::new(),
            field: Vec::new(),
        };
        HttpWork::new(asking, protocol, drive, 0, answers.clone())
    };
    drive_together(&targets, drive, together, works, interrupted, progress)
}

/// The shared parts of requests to one node.
struct Node {
    rest_of_head: Vec<u8>,
    header_list: HeaderList,
}

/// Where one worker's requests come from: operations and keys as the workload draws them.
struct Asking {
    requests: Arc<Requests>,
    nodes: Arc<[Node]>,
    source: keyed::Source,
    keys: u64,
    path: Vec<u8>,
    field: Vec<u8>,
}

impl Asking {
    fn choose(&mut self, ticket: u64) -> Result<(usize, u64), NotIssued> {
        self.source.choose(ticket, self.keys).ok_or(NotIssued::Exhausted)
    }
}

impl Source for Asking {
    fn operations(&self) -> Vec<String> {
        let operations = self.source.operations().iter();
        operations.map(|operation| operation.name().to_owned()).collect()
    }

    fn request(
        &mut self,
        _: u32,
        node: usize,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<Batch, NotIssued> {
        let (place, number) = self.choose(ticket)?;
        let requests = &*self.requests;
        let request = &requests.request;
        out.extend_from_slice(request.method.as_bytes());
        out.push(b' ');
        requests.write_path(number, out);
        out.extend_from_slice(&self.nodes[node].rest_of_head);
        if let Some(own) = &requests.own_field {
            out.extend_from_slice(own.name.as_bytes());
            out.extend_from_slice(b": ");
            (own.write)(self.source.operations()[place], number, out);
            out.extend_from_slice(b"\r\n");
        }
        if let Some(body) = &request.body {
            let _ = write!(out, "Content-Length: {}\r\n", body.len());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(request.body.as_deref().unwrap_or_default().as_bytes());
        Ok(Batch { operation: place, responses: 1, is_head: request.method == "HEAD" })
    }

    fn header_lists(&self, node: usize) -> Vec<Option<HeaderList>> {
        let list = &self.nodes[node].header_list;
        self.source.operations().iter().map(|_| Some(list.clone())).collect()
    }

    fn stream(&mut self, _: usize, ticket: u64) -> Result<Stream<'_>, NotIssued> {
        let (operation, number) = self.choose(ticket)?;
        let Self { requests, source, path, field, .. } = self;
        path.clear();
        requests.write_path(number, path);
        field.clear();
        let own_field = requests.own_field.as_ref().map(|own| {
            field.extend(own.name.bytes().map(|byte| byte.to_ascii_lowercase()));
            (own.write)(source.operations()[operation], number, field);
            field.split_at(own.name.len())
        });
        Ok(Stream {
            operation,
            path: (requests.path.len() > 1).then_some(path),
            field: own_field,
            body: requests.request.body.as_deref().unwrap_or_default().as_bytes(),
        })
    }

    fn judge(&mut self, place: usize, status: u16, body: &[u8]) -> Result<(), Failure> {
        match self.source.operations()[place] {
            Operation::Denied => denied(status, body),
            _ => answered(&self.requests.request, status, body),
        }
    }

    fn skip(&mut self, _: usize, ticket: u64) -> Option<usize> {
        self.choose(ticket).ok().map(|(place, _)| place)
    }
}

/// Returns whether an answer is what the workload expects.
fn answered(expected: &HttpRequest, status: u16, body: &[u8]) -> Result<(), Failure> {
    if status != expected.status {
        return Err(Failure::new(ErrorKind::Status, super::http_status_text(status, body)));
    }
    let size = body.len() as u64;
    if let Some(wanted) = expected.body_size.filter(|&wanted| wanted != size) {
        let what = format!("{status} with a body of {size} bytes, where {wanted} are right");
        return Err(Failure::new(ErrorKind::WrongValue, what));
    }
    let holds = |text: &String| memchr::memmem::find(body, text.as_bytes()).is_some();
    if let Some(text) = expected.contains.as_ref().filter(|&text| !holds(text)) {
        let what = format!("{status} with a body that does not hold `{text}`");
        return Err(Failure::new(ErrorKind::WrongValue, what));
    }
    Ok(())
}

/// A refusal alone is right: 401 or 403.
fn denied(status: u16, body: &[u8]) -> Result<(), Failure> {
    let failure = |kind, what| Err(Failure::new(kind, what));
    match status {
        401 | 403 => Ok(()),
        200..=299 => {
            failure(ErrorKind::WrongValue, format!("{status}: it passed, and had no right to"))
        }
        _ => failure(ErrorKind::Status, super::http_status_text(status, body)),
    }
}
