//! Loads a system with plain HTTP requests: the workload's `request`, and the expected answer.
//!
//! For systems whose clients are browsers or services rather than a client library. An answer with another status,
//! length or text than expected is an error, never a success. Every kind with the operation `request` uses this
//! module, unless it drives them itself. A kind that distinguishes requests by sessions adds a header to each
//! ([`OwnField`]).
//!
//! Not here: requests of a system's own API (`http_session`), `bakeoff load`, HTTP itself
//! (`bakeoff_engine::works::http`).

use std::io::Write as _;
use std::sync::Arc;

use bakeoff_core::measurement::{ErrorKind, Measurement};
use bakeoff_core::schedule::LoadShare;
use bakeoff_core::study::{HttpRequest, Operation, Rows, Workload};
use bakeoff_core::template::{self, Table, Template, WordValues};
use bakeoff_core::units;
use bakeoff_engine::peer::Peer;
use bakeoff_engine::work::{Failure, IdleClose, NotIssued};
use bakeoff_engine::works::http::{
    Batch, Body, HeaderList, JudgeResponses, MakeRequests, OwnFields, Protocol, Response,
    ResponseVerdict, Source, Stream, StreamResponse, drive_sources, is_allowed_in_http2,
    refuses_plain_text,
};
use bakeoff_engine::works::keyed;
use bakeoff_engine::{Connections, EngineError};

use super::exchange::{self, HandshakeError};
use super::rows::RowTable;
use super::{Access, KvLoad, SystemError, variables};

/// Protocol name of HTTP/2 in TLS (RFC 9113 section 3.2).
const H2: &[u8] = b"h2";

/// A header whose value differs between requests.
#[derive(Clone, Copy)]
pub(super) struct OwnField {
    /// Name of the header: `Cookie`.
    pub(super) name: &'static str,
    /// Appends the value for an operation and the number of its key.
    pub(super) write: fn(Operation, u64, &mut Vec<u8>),
}

/// Requests of a workload.
struct Requests {
    request: HttpRequest,
    path: Template,
    /// Headers, with environment variables filled in.
    headers: Vec<(String, Template)>,
    body: Template,
    /// Rows for the templates; empty if the workload names no table.
    table: Table,
    own_field: Option<OwnField>,
}

/// Salts that separate the random words of path, body and headers. Headers use the third and later ones.
const PATH_SALT: u64 = 0;
const BODY_SALT: u64 = 1;
const HEADERS_SALT: u64 = 2;

impl Requests {
    /// Prepares the requests of a workload. Fails if an environment variable is not set or the table is invalid.
    fn new(workload: &Workload, own_field: Option<OwnField>) -> Result<Self, SystemError> {
        let plain = HttpRequest::default();
        let request = workload.request().unwrap_or(&plain);
        let table = request.rows.as_deref().map(table).transpose()?.unwrap_or_default();
        let template =
            |text: &str| Template::parse(text, &table.columns).map_err(|error| error.to_string());
        let mut headers = Vec::new();
        for (name, value) in &request.headers {
            let template = match value.strip_prefix('$') {
                Some(_) => Template::verbatim(variables::expanded(value)?),
                None => template(value)?,
            };
            table.check_header(name, &template)?;
            headers.push((name.clone(), template));
        }
        let path = template(&request.path)?;
        table.check_text("`path`", &path)?;
        let body = template(request.body.as_deref().unwrap_or_default())?;
        table.check_body(&body)?;
        Ok(Self { path, headers, body, request: request.clone(), table, own_field })
    }

    fn protocol(&self) -> Protocol {
        if self.request.http2 { Protocol::Two } else { Protocol::One }
    }

    /// Returns the values of the words in one request.
    fn values(&self, client: u32, sequence: u64, key: u64, seed: u64) -> WordValues<'_> {
        WordValues { key, sequence, client, seed, row: self.table.row(sequence) }
    }

    fn write_path(&self, values: &WordValues<'_>, out: &mut Vec<u8>) {
        self.path.write(values, PATH_SALT, template::percent_encoded, out);
    }

    /// Returns the body of a request. Uses `room` for a body that differs between requests.
    fn body<'a>(&'a self, values: &WordValues<'_>, room: &'a mut Vec<u8>) -> &'a [u8] {
        if let Some(text) = self.body.plain() {
            return text.as_bytes();
        }
        room.clear();
        self.body.write(values, BODY_SALT, template::verbatim, room);
        room
    }

    /// Returns the headers that differ between requests, each with its salt.
    fn changing_headers(&self) -> impl Iterator<Item = (u64, &str, &Template)> {
        let headers = (HEADERS_SALT..).zip(&self.headers);
        headers
            .filter(|(_, (_, value))| value.plain().is_none())
            .map(|(salt, (name, value))| (salt, name.as_str(), value))
    }

    /// Returns the headers that all requests share.
    fn shared_headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.plain()?)))
    }

    /// Returns the part of the head that all requests to a node share: everything after the path, without the own
    /// field.
    fn rest_of_head(&self, node: &Access, keep_alive: bool) -> Vec<u8> {
        let mut rest = format!(" HTTP/1.1\r\nHost: {}\r\n", node.authority);
        for (name, value) in self.shared_headers() {
            rest.push_str(&format!("{name}: {value}\r\n"));
        }
        if !keep_alive {
            rest.push_str("Connection: close\r\n");
        }
        rest.into_bytes()
    }

    /// Returns the headers that all HTTP/2 requests to a node share: all except a varying path and the own field.
    fn header_list(&self, node: &Access) -> HeaderList {
        let scheme = if node.target.tls.is_some() { "https" } else { "http" };
        let mut list = vec![
            (":method".to_owned(), self.request.method.clone()),
            (":scheme".to_owned(), scheme.to_owned()),
            (":authority".to_owned(), node.authority.clone()),
        ];
        if let Some(path) = self.path.plain() {
            list.push((":path".to_owned(), path.to_owned()));
        }
        let own = self.shared_headers().filter(|(name, _)| is_allowed_in_http2(name));
        list.extend(own.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())));
        // HTTP/2 frames give the length of a varying body.
        if let Some(body) = self.body.plain().filter(|_| self.request.body.is_some()) {
            list.push(("content-length".to_owned(), body.len().to_string()));
        }
        list
    }
}

/// Reads a request's table. Fails if it differs from the one that the study was read with.
fn table(rows: &Rows) -> Result<Table, SystemError> {
    let RowTable { table, sha256: seen } =
        RowTable::read(&rows.file).map_err(|error| error.to_string())?;
    if let Some(known) = rows.sha256.as_ref().filter(|known| **known != seen) {
        return Err(format!("`{}` has SHA-256 {seen}, not {known} as before", rows.file).into());
    }
    Ok(table)
}

/// Stores the requests of a workload with the nodes, for [`drive`]. Fails if they cannot be built.
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
                "`{}` at {} does not offer HTTP/2 over TLS, but the workload's `request` needs it",
                first.name, first.authority
            )
            .into());
        }
    }
    first.memory.keep(requests);
    Ok(())
}

/// Returns the node with HTTP/2 offered in TLS, if it uses TLS.
fn offering_h2(node: &Access) -> Access {
    let mut node = node.clone();
    if let Some(tls) = &mut node.target.tls {
        let mut config = (*tls.config).clone();
        config.alpn_protocols = vec![H2.to_vec()];
        tls.config = Arc::new(config);
    }
    node
}

/// Sends the requests that [`prepare`] stored.
pub(super) fn drive(load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
    let KvLoad { nodes, keyed, source, drive, barrier, interrupted, progress, .. } = load;
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
    let peer = |node: &Access| match protocol {
        Protocol::One => node.peer(),
        Protocol::Two => offering_h2(node).peer(),
    };
    let peers: Vec<Peer> = nodes.iter().map(peer).collect();
    let keys = keyed.space.count();
    let sources = &mut |share| -> Box<dyn Source> {
        Box::new(RequestSource {
            requests: requests.clone(),
            nodes: to.clone(),
            source: source(share),
            keys,
            share: keyed.share(),
            path: Vec::new(),
            body: Vec::new(),
            fields: Vec::new(),
            field_ends: Vec::new(),
        })
    };
    // The measurement holds everything that a trial keeps.
    let (outcome, next) =
        drive_sources(protocol, &peers, drive, barrier, sources, interrupted, progress)?;
    Ok((outcome.measurement, next))
}

/// Parts that all requests to one node share.
struct Node {
    rest_of_head: Vec<u8>,
    header_list: HeaderList,
}

/// Source of one worker's requests. The workload draws operations and keys.
struct RequestSource {
    requests: Arc<Requests>,
    nodes: Arc<[Node]>,
    source: keyed::Source,
    keys: u64,
    /// This generator's share of the requests.
    share: LoadShare,
    path: Vec<u8>,
    body: Vec<u8>,
    /// Headers of one HTTP/2 request, and the ends of each name and value.
    fields: Vec<u8>,
    field_ends: Vec<(usize, usize)>,
}

impl RequestSource {
    fn choose(&mut self, ticket: u64) -> Result<(usize, u64), NotIssued> {
        self.source
            .choose(self.share.nth(ticket), self.keys, LoadShare::WHOLE)
            .ok_or(NotIssued::Exhausted)
    }

    /// Checks an answer, including its header fields.
    fn judge_answer<'h, F: Iterator<Item = (&'h [u8], &'h [u8])>>(
        &self,
        place: usize,
        (status, body): (u16, Body<'_>),
        fields: impl Fn() -> F,
    ) -> Result<(), Failure> {
        match self.source.operations()[place] {
            Operation::Denied => denied(status, body.bytes),
            _ => answered(&self.requests.request, status, body, fields),
        }
    }
}

impl MakeRequests for RequestSource {
    fn request(
        &mut self,
        client: u32,
        node: usize,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<Batch, NotIssued> {
        let (place, number) = self.choose(ticket)?;
        let requests = &*self.requests;
        let request = &requests.request;
        let values = requests.values(client, ticket, number, self.source.seed());
        out.extend_from_slice(request.method.as_bytes());
        out.push(b' ');
        requests.write_path(&values, out);
        out.extend_from_slice(&self.nodes[node].rest_of_head);
        for (salt, name, value) in requests.changing_headers() {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            value.write(&values, salt, template::verbatim, out);
            out.extend_from_slice(b"\r\n");
        }
        if let Some(own) = &requests.own_field {
            out.extend_from_slice(own.name.as_bytes());
            out.extend_from_slice(b": ");
            (own.write)(self.source.operations()[place], number, out);
            out.extend_from_slice(b"\r\n");
        }
        let body = requests.body(&values, &mut self.body);
        if request.body.is_some() {
            let _ = write!(out, "Content-Length: {}\r\n", body.len());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body);
        let is_head = request.method == "HEAD";
        let idle_close = IdleClose::of_method(&request.method);
        Ok(Batch { operation: place, responses: 1, is_head, idle_close })
    }

    fn header_lists(&self, node: usize) -> Vec<Option<HeaderList>> {
        let list = &self.nodes[node].header_list;
        self.source.operations().iter().map(|_| Some(list.clone())).collect()
    }

    fn stream(&mut self, client: u32, _: usize, ticket: u64) -> Result<Stream<'_>, NotIssued> {
        let (operation, number) = self.choose(ticket)?;
        let Self { requests, source, path, body, fields, field_ends, .. } = self;
        let values = requests.values(client, ticket, number, source.seed());
        path.clear();
        requests.write_path(&values, path);
        fields.clear();
        field_ends.clear();
        let mut field = |name: &str, write: &dyn Fn(&mut Vec<u8>)| {
            fields.extend(name.bytes().map(|byte| byte.to_ascii_lowercase()));
            let name_end = fields.len();
            write(fields);
            field_ends.push((name_end, fields.len()));
        };
        for (salt, name, value) in requests.changing_headers() {
            field(name, &|out| value.write(&values, salt, template::verbatim, out));
        }
        if let Some(own) = &requests.own_field {
            field(own.name, &|out| (own.write)(source.operations()[operation], number, out));
        }
        Ok(Stream {
            operation,
            path: requests.path.plain().is_none().then_some(path),
            fields: OwnFields { bytes: fields, ends: field_ends },
            body: requests.body(&values, body),
            idle_close: IdleClose::of_method(&requests.request.method),
        })
    }

    fn skip(&mut self, _: usize, ticket: u64) -> Option<usize> {
        self.choose(ticket).ok().map(|(place, _)| place)
    }
}

impl JudgeResponses for RequestSource {
    fn reads_bodies(&self) -> bool {
        self.requests.request.contains.is_some()
    }

    fn judge(&mut self, place: usize, status: u16, body: Body<'_>) -> Result<(), Failure> {
        self.judge_answer(place, (status, body), std::iter::empty)
    }

    fn response(&mut self, place: usize, response: &Response<'_>) -> ResponseVerdict {
        let (status, headers) = (response.status, response.headers);
        let body = Body { bytes: response.body, length: response.length };
        let fields = || headers.iter().map(|(name, value)| (name.as_bytes(), value));
        self.judge_answer(place, (status, body), fields).into()
    }

    fn stream_response(
        &mut self,
        place: usize,
        response: &StreamResponse<'_>,
    ) -> Result<(), Failure> {
        let (status, headers) = (response.status, response.headers);
        let body = Body { bytes: response.body, length: response.length };
        self.judge_answer(place, (status, body), || headers.iter())
    }
}

impl Source for RequestSource {
    fn operations(&self) -> Vec<String> {
        let operations = self.source.operations().iter();
        operations.map(|operation| operation.name().to_owned()).collect()
    }
}

/// Checks that an answer is the expected one.
fn answered<'h, F: Iterator<Item = (&'h [u8], &'h [u8])>>(
    expected: &HttpRequest,
    status: u16,
    body: Body<'_>,
    fields: impl Fn() -> F,
) -> Result<(), Failure> {
    if !expected.statuses.has(status) {
        let failure = Failure::new(ErrorKind::Status, super::http_status_text(status, body.bytes));
        let refuses_plain_text = refuses_plain_text(status, body.bytes);
        return Err(Failure { refuses_plain_text, ..failure });
    }
    for (name, value) in &expected.expected_headers {
        let is_it = |(found, _): &(&[u8], _)| found.eq_ignore_ascii_case(name.as_bytes());
        let mut seen = fields().filter(is_it).map(|(_, seen)| seen);
        if !seen.any(|seen| seen == value.as_bytes()) {
            let seen = fields().find(is_it).map(|(_, seen)| seen);
            return Err(wrong_header(status, (name, value), seen));
        }
    }
    let size = body.length as u64;
    if let Some(wanted) = expected.body_size.filter(|&wanted| wanted != size) {
        let what = format!("{status} with a body of {size} bytes instead of {wanted}");
        return Err(Failure::new(ErrorKind::WrongValue, what));
    }
    let holds = |text: &String| memchr::memmem::find(body.bytes, text.as_bytes()).is_some();
    if let Some(text) = expected.contains.as_ref().filter(|&text| !holds(text)) {
        let what = format!("{status} with a body without `{text}`");
        return Err(Failure::new(ErrorKind::WrongValue, what));
    }
    Ok(())
}

/// Returns the failure for a header field that is missing or has another value.
#[cold]
fn wrong_header(status: u16, (name, value): (&str, &str), seen: Option<&[u8]>) -> Failure {
    let what = match seen {
        None => format!("{status} without the header `{name}: {value}`"),
        Some(seen) => {
            let seen = units::server_text(&String::from_utf8_lossy(seen));
            format!("{status} with the header `{name}: {seen}` instead of `{value}`")
        }
    };
    Failure::new(ErrorKind::WrongValue, what)
}

/// Accepts only a refusal: 401 or 403.
fn denied(status: u16, body: &[u8]) -> Result<(), Failure> {
    let failure = |kind, what| Err(Failure::new(kind, what));
    match status {
        401 | 403 => Ok(()),
        200..=299 => {
            failure(ErrorKind::WrongValue, format!("{status}: it passed without permission"))
        }
        _ => failure(ErrorKind::Status, super::http_status_text(status, body)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use bakeoff_core::study;
    use tempfile::NamedTempFile;

    use super::*;
    use crate::kinds;

    /// Returns a worker's source of a workload's requests.
    fn asking(request: &str, rows: &NamedTempFile) -> Result<RequestSource, SystemError> {
        let rows = rows.path().display();
        let text = format!(
            "title: t\n\
             systems: {{web: {{kind: http, endpoints: [\"http://127.0.0.1:1\"]}}}}\n\
             workloads: {{w: {{mix: {{request: 1}}, keys: {{count: 1}}, request: {{{request}, rows: {{file: \"{rows}\"}}}}}}}}\n\
             loads: {{l: {{clients: 1, stop: {{operations: 1}}}}}}\n"
        );
        let study = study::parse("t", "t.yaml", &text, &kinds()).unwrap();
        let workload = &study.workloads[0];
        let requests = Requests::new(workload, None)?;
        let shared: String =
            requests.shared_headers().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let node = Node {
            rest_of_head: format!(" HTTP/1.1\r\nHost: h\r\n{shared}").into_bytes(),
            header_list: Vec::new(),
        };
        Ok(RequestSource {
            requests: Arc::new(requests),
            nodes: [node].into(),
            source: keyed::Source::mix(workload, 1, 1),
            keys: 1,
            share: LoadShare::WHOLE,
            path: Vec::new(),
            body: Vec::new(),
            fields: Vec::new(),
            field_ends: Vec::new(),
        })
    }

    fn table(text: &str) -> NamedTempFile {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    const WORDS: &str = r#"method: POST, path: "/{user}?k={key}", body: '{"n": {sequence}, "u": "{user:json}"}',
        headers: {X-Id: "c{client}", accept: x}"#;

    #[test]
    fn words_are_written_over_http1() {
        let users = table("user\nann\n\"b \"\"b\"\n");
        let mut out = Vec::new();
        let batch = asking(WORDS, &users).unwrap().request(7, 0, 11, &mut out);
        assert_eq!(batch.map(|batch| batch.responses).ok(), Some(1));
        let expected = "POST /b%20%22b?k=0 HTTP/1.1\r\nHost: h\r\naccept: x\r\nX-Id: c7\r\n\
                        Content-Length: 23\r\n\r\n{\"n\": 11, \"u\": \"b \\\"b\"}";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn words_are_written_over_http2() {
        let users = table("user\nann\nb b\n");
        let mut asking = asking(WORDS, &users).unwrap();
        let Ok(stream) = asking.stream(7, 0, 10) else { panic!("there is a stream") };
        assert_eq!(stream.path, Some(&b"/ann?k=0"[..]));
        assert_eq!(stream.body, b"{\"n\": 10, \"u\": \"ann\"}");
        assert_eq!((stream.fields.bytes, stream.fields.ends), (&b"x-idc7"[..], &[(4, 6)][..]));
    }

    #[test]
    fn values_that_would_end_a_line_and_other_files_are_refused() {
        let users = table("user\n\"a\nb\"\n");
        let printed = asking("headers: {x-user: \"{user}\"}", &users).err().unwrap().to_string();
        assert!(
            printed.contains("row 1 of the table") && printed.contains("header `x-user`"),
            "{printed}"
        );
        assert!(asking("path: \"/{user}\"", &users).is_ok(), "it is percent-encoded there");
        let rows = Rows { file: users.path().display().to_string(), sha256: Some("ab".to_owned()) };
        let printed = super::table(&rows).unwrap_err().to_string();
        assert!(printed.contains("not ab as before"), "{printed}");
    }
}
