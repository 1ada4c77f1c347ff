//! Key-value operations over HTTP/1.1, for systems that map them onto requests.
//!
//! Not here: the wire format (`bakeoff_wire::http1`), the mapping (each system's).

use bakeoff_wire::ProtocolError;
use bakeoff_wire::http1::{Connection, Limits, Response};

use super::Access;
use super::talk::{Listener, PATIENCE, talk};
use crate::engine::work::{Session, Tag};
use crate::kv::{Answer, KvSession, Request};
use bakeoff_core::study::Operation;

/// How a system maps operations onto requests and responses onto answers.
pub(crate) trait Mapping: Send {
    /// Appends method and target: `GET /v1/kv/key?raw`.
    fn write_target(&self, request: &Request<'_>, out: &mut Vec<u8>);

    /// Appends header lines of its own, each with its end.
    fn write_headers(&self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Appends the body; `false`: the request has none.
    fn write_body(&self, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(request.value);
        request.operation == Operation::Put
    }

    /// Yields the answer that a response is.
    fn read(&self, operation: Operation, status: u16, body: &[u8], on: &mut dyn FnMut(Answer<'_>));
}

/// One keep-alive connection; HTTP/1.1 carries one request at a time.
pub(crate) struct HttpSession<M> {
    connection: Connection,
    mapping: M,
    /// `Host` and all that is the same in each request, from the end of the target on.
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

fn rest_of_head(authority: &str) -> Vec<u8> {
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
    fn request(&mut self, tag: Tag, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        if self.under_way.is_some() || self.ending {
            return false;
        }
        self.head.clear();
        self.mapping.write_target(request, &mut self.head);
        self.head.extend_from_slice(&self.rest_of_head);
        self.body.clear();
        if self.mapping.write_body(request, &mut self.body) {
            self.head.extend_from_slice(b"Content-Length: ");
            self.head.extend_from_slice(self.body.len().to_string().as_bytes());
            self.head.extend_from_slice(b"\r\n");
        }
        self.head.extend_from_slice(b"\r\n");
        self.head.extend_from_slice(&self.body);
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
        on: &mut impl FnMut(Tag, Answer<'_>),
    ) -> Result<(), ProtocolError> {
        let Self { connection, mapping, under_way, ending, .. } = self;
        connection.receive(input, out, &mut |response: Response<'_>| {
            *ending |= !response.keep_alive;
            deliver(mapping, under_way, &response, on);
        })
    }

    fn receive_end(&mut self, on: &mut impl FnMut(Tag, Answer<'_>)) -> Result<(), ProtocolError> {
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
    on: &mut impl FnMut(Tag, Answer<'_>),
) {
    if let Some((tag, operation)) = under_way.take() {
        mapping.read(operation, response.status, response.body, &mut |answer| on(tag, answer));
    }
}

/// Asks a node one thing outside of a load; returns status and body.
pub(crate) fn ask(node: &Access, method: &str, target: &str) -> Result<(u16, String), String> {
    struct Question {
        connection: Connection,
        answer: Option<(u16, String)>,
    }
    impl Question {
        fn keep(answer: &mut Option<(u16, String)>, response: &Response<'_>) {
            let body = String::from_utf8_lossy(response.body).into_owned();
            *answer = Some((response.status, body));
        }
    }
    impl Listener for Question {
        fn hear(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<bool, ProtocolError> {
            let answer = &mut self.answer;
            self.connection.receive(input, out, &mut |response| Self::keep(answer, &response))?;
            Ok(self.answer.is_some())
        }

        fn hung_up(&mut self) -> Result<(), ProtocolError> {
            let answer = &mut self.answer;
            self.connection.closed(&mut |response| Self::keep(answer, &response))
        }
    }
    let mut head = format!("{method} {target}").into_bytes();
    head.extend_from_slice(&rest_of_head(&node.authority));
    head.extend_from_slice(b"\r\n");
    let mut out = Vec::new();
    let mut connection = Connection::new(Limits::default());
    connection.send_raw(method == "HEAD", &head, &mut out).map_err(|busy| busy.to_string())?;
    let mut question = Question { connection, answer: None };
    talk(node, PATIENCE, out, &mut question)?;
    question.answer.ok_or_else(|| format!("`{}` hung up without an answer", node.name))
}
