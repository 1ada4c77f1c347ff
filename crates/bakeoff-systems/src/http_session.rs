//! Runs key-value operations over HTTP/1.1, for systems that map them onto requests.
//!
//! Not here: the wire format (`bakeoff_wire::http1`), the mapping (in each system).

use std::io;

use bakeoff_clock as clock;
use bakeoff_core::secrets;
use bakeoff_core::study::Operation;
use bakeoff_core::units::{self, ByteCount};
use bakeoff_engine::blocking_http::{self, BlockingConnection};
use bakeoff_engine::work::{Session, Tag};
use bakeoff_engine::works::http::{PLAIN_TEXT_REFUSED, refuses_plain_text};
use bakeoff_engine::works::keyed::{Answer, KvSession, Request};
use bakeoff_wire::ProtocolError;
use bakeoff_wire::http1::{self, Connection, Limits, Response};
use serde_json::Value;

use super::exchange::{self, PATIENCE, Patience};
use super::{Access, SystemError};

/// Maps operations onto requests, and responses onto answers.
pub(crate) trait Mapping: Send {
    /// Appends method and target: `GET /v1/kv/key?raw`.
    fn write_target(&self, request: &Request<'_>, out: &mut Vec<u8>);

    /// Appends additional header lines with their ends. They are the same in each request.
    fn write_headers(&self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Appends the body. Returns false if the request has none.
    fn write_body(&self, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(request.value);
        request.operation == Operation::Put
    }

    /// Converts a response to an answer.
    fn read(&self, operation: Operation, status: u16, body: &[u8], on: &mut dyn FnMut(Answer<'_>));
}

/// One connection, kept open unless it is for [one operation](KvSession::only_one). Sends one request at a time.
pub(crate) struct HttpSession<M> {
    connection: Connection,
    mapping: M,
    /// Constant part of the head, from the end of the target on.
    rest_of_head: Vec<u8>,
    under_way: Option<(Tag, Operation)>,
    ending: bool,
    head: Vec<u8>,
    body: Vec<u8>,
}

impl<M: Mapping> HttpSession<M> {
    pub(crate) fn new(node: &Access, mapping: M) -> Self {
        let mut rest_of_head = rest_of_head(&node.authority);
        mapping.write_headers(&mut rest_of_head);
        Self {
            connection: Connection::new(Limits::default()),
            mapping,
            rest_of_head,
            under_way: None,
            ending: false,
            head: Vec::new(),
            body: Vec::new(),
        }
    }
}

/// Writes a request into `head`, using `body` as a buffer for its body.
fn write_request(
    mapping: &impl Mapping,
    rest_of_head: &[u8],
    request: &Request<'_>,
    head: &mut Vec<u8>,
    body: &mut Vec<u8>,
) {
    head.clear();
    mapping.write_target(request, head);
    head.extend_from_slice(rest_of_head);
    body.clear();
    if mapping.write_body(request, body) {
        head.extend_from_slice(b"Content-Length: ");
        head.extend_from_slice(body.len().to_string().as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head.extend_from_slice(body);
}

/// Returns the head of a request from the end of the target on, without the line that ends it.
pub(crate) fn rest_of_head(authority: &str) -> Vec<u8> {
    format!(" HTTP/1.1\r\nHost: {authority}\r\n").into_bytes()
}

impl<M: Mapping> Session for HttpSession<M> {
    fn open(&mut self, _: &mut Vec<u8>) {}

    fn is_open(&self) -> bool {
        true
    }

    fn is_ending(&self) -> bool {
        self.ending
    }
}

impl<M: Mapping> KvSession for HttpSession<M> {
    fn may_close_idle(&self) -> bool {
        true
    }

    fn only_one(&mut self) {
        self.rest_of_head.extend_from_slice(b"Connection: close\r\n");
    }

    fn request(&mut self, tag: Tag, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        if self.under_way.is_some() || self.ending {
            return false;
        }
        let Self { mapping, rest_of_head, head, body, .. } = self;
        write_request(mapping, rest_of_head, request, head, body);
        let sent = self.connection.send_raw(false, &self.head, out).is_ok();
        if sent {
            self.under_way = Some((tag, request.operation));
        }
        sent
    }

    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Tag, Answer<'_>),
    ) -> Result<(), ProtocolError> {
        let Self { connection, mapping, under_way, ending, .. } = self;
        connection.receive(input, out, &mut |response: Response<'_>| {
            *ending |= !response.keep_alive;
            deliver(mapping, under_way, &response, on);
        })
    }

    fn receive_end(&mut self, on: &mut dyn FnMut(Tag, Answer<'_>)) -> Result<(), ProtocolError> {
        let Self { connection, mapping, under_way, ending, .. } = self;
        connection.closed(&mut |response: Response<'_>| {
            *ending = true;
            deliver(mapping, under_way, &response, on);
        })
    }
}

fn deliver<M: Mapping>(
    mapping: &M,
    under_way: &mut Option<(Tag, Operation)>,
    response: &Response<'_>,
    on: &mut dyn FnMut(Tag, Answer<'_>),
) {
    if let Some((tag, operation)) = under_way.take() {
        mapping.read(operation, response.status, response.body, &mut |answer| on(tag, answer));
    }
}

/// A request to a node outside of a load.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    /// Method: `GET`, `POST`, ….
    pub(crate) method: &'a str,
    /// Target: `/v1/sys/health`.
    pub(crate) target: &'a str,
    /// Additional header fields.
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: Option<&'a Value>,
    /// Limits of the wait for the answer.
    pub(crate) patience: Patience<'a>,
    /// Maximum bytes of the answer's body.
    pub(crate) body_max: usize,
}

impl Default for Question<'_> {
    fn default() -> Self {
        let body_max = http1::Limits::default().max_body;
        let patience = PATIENCE.into();
        Self { method: "GET", target: "/", headers: &[], body: None, patience, body_max }
    }
}

/// Answer of a node.
pub(crate) struct NodeReply {
    head: Vec<u8>,
    /// Request in messages: `` `GET /v1/sys/health` of `vault-1` ``.
    asked: String,
    pub(crate) status: u16,
    pub(crate) body: String,
    /// Length of the body in bytes.
    pub(crate) length: usize,
}

impl NodeReply {
    /// Returns the value of a header field.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let value = http1::Headers { head: &self.head }.get(name)?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// Returns the JSON of a successful answer, null for an empty one. The error holds any other answer.
    pub(crate) fn success(&self) -> Result<Value, SystemError> {
        let Self { asked, body, .. } = self;
        self.succeeded()?;
        if body.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(body)
            .map_err(|source| SystemError::NoJson { asked: asked.clone(), source })
    }

    /// Checks that the status is a success, for an answer that is not JSON.
    pub(crate) fn succeeded(&self) -> Result<(), SystemError> {
        let Self { asked, status, body, .. } = self;
        if (200..300).contains(status) {
            return Ok(());
        }
        let answer = http_status_text(*status, body.as_bytes());
        Err(SystemError::Status { asked: asked.clone(), answer })
    }
}

/// Sends a request to a node. Fails if the node does not answer.
pub(crate) fn question(node: &Access, asked: &Question<'_>) -> Result<NodeReply, SystemError> {
    let Question { method, target, headers, body, patience, body_max } = *asked;
    let body = body.map(Value::to_string);
    let mut fields = vec![("Host", &*node.authority)];
    fields.extend(headers);
    if body.is_some() {
        fields.push(("Content-Type", "application/json"));
    }
    let request = http1::Request {
        method,
        target,
        headers: &fields,
        body: body.as_deref().unwrap_or_default().as_bytes(),
        expect_continue: false,
    };
    let answer = on_a_line(node, patience, body_max, |line, go_on| line.ask(&request, go_on))?;
    let asked = format!("`{method} {target}` of `{}`", node.name);
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    Ok(NodeReply { head: answer.head, asked, status: answer.status, body, length: answer.length })
}

/// Receives a snapshot, and drops it. Returns its size in words.
pub(crate) fn snapshot(
    node: &Access,
    target: &str,
    headers: &[(&str, &str)],
    patience: Patience<'_>,
) -> Result<String, SystemError> {
    let asked = Question { target, headers, patience, body_max: usize::MAX, ..Question::default() };
    let reply = question(node, &asked)?;
    reply.succeeded()?;
    match reply.length {
        0 => Err(SystemError::answered(node, "the snapshot is empty")),
        length => Ok(format!("the snapshot has {}", ByteCount(length as u64))),
    }
}

/// Sends a request outside of a load. Returns status and body.
pub(crate) fn ask(node: &Access, method: &str, target: &str) -> Result<(u16, String), SystemError> {
    let reply = question(node, &Question { method, target, ..Question::default() })?;
    Ok((reply.status, reply.body))
}

/// Runs one operation outside of a load, as a session would. Fails if there is no answer.
pub(crate) fn try_mapping(
    node: &Access,
    mapping: &impl Mapping,
    request: &Request<'_>,
    on: &mut dyn FnMut(Answer<'_>),
) -> Result<(), SystemError> {
    let (mut head, mut body) = (Vec::new(), Vec::new());
    let mut rest = rest_of_head(&node.authority);
    mapping.write_headers(&mut rest);
    write_request(mapping, &rest, request, &mut head, &mut body);
    let body_max = http1::Limits::default().max_body;
    let answer =
        on_a_line(node, PATIENCE.into(), body_max, |line, go_on| line.ask_raw(&head, go_on))?;
    mapping.read(request.operation, answer.status, &answer.body, on);
    Ok(())
}

/// Connects to a node and runs `ask` within its time limit. The error text can follow the node's name.
fn on_a_line(
    node: &Access,
    patience: Patience<'_>,
    body_max: usize,
    ask: impl FnOnce(
        &mut BlockingConnection,
        &dyn Fn() -> io::Result<()>,
    ) -> io::Result<blocking_http::HttpReply>,
) -> Result<blocking_http::HttpReply, SystemError> {
    let deadline = clock::now() + patience.within;
    let go_on = || match clock::now() < deadline && (patience.go_on)() {
        true => Ok(()),
        false => Err(exchange::no_answer()),
    };
    let reply = BlockingConnection::connect(&node.target, patience.connects_within())
        .and_then(|line| ask(&mut line.with_body_max(body_max), &go_on));
    reply.map_err(|error| {
        let seen = match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::other(ProtocolError::new(
                "the server closed the connection without an answer",
            )),
            _ => error,
        };
        SystemError::unreachable(node, seen)
    })
}

/// Returns the text of an unsuccessful response: `500: No cluster leader`.
pub(crate) fn http_status_text(status: u16, body: &[u8]) -> String {
    let body = String::from_utf8_lossy(&body[..body.len().min(secrets::SEARCHED_MAX)]);
    let reply = body.split_whitespace().collect::<Vec<_>>().join(" ");
    let hint = if refuses_plain_text(status, body.as_bytes()) { PLAIN_TEXT_REFUSED } else { "" };
    match reply.is_empty() {
        true => status.to_string(),
        false => format!("{status}{hint}: {}", units::server_text(&reply)),
    }
}
