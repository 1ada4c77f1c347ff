//! The client for set-up and clean-up: one request after another, blocking, over HTTP/1.1.
//!
//! It names what servers say: sealed, not initialised, a token that is not accepted, a namespace
//! that is not there, a path in use, a node that does not lead. What passes by itself, as a change
//! of leader does, is waited for.
//!
//! Not here: the measured requests (`load`), how a test is set up (`tests`).

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_engine::asking::{BlockingConnection, HttpReply, LOOK_EVERY};
use bakeoff_wire::http1::Request;
use serde_json::Value;

use super::interrupts::Interrupts;
use super::request::{Draw, Piece, Pieces, Template, USER_AGENT};
use super::server::Server;
use super::trouble::{Kind, Trouble};

/// How long one answer may take: what Vault's own client waits.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long what may pass by itself is waited for.
const SET_UP_PATIENCE: Duration = Duration::from_secs(10);
/// In a clean-up: an election, and a large mount, whose every secret the server has to delete.
const CLEAN_UP_PATIENCE: Duration = Duration::from_secs(120);
/// How long one answer may take then.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(300);
/// How long a clean-up may take after the user asked for the end: as long as Kubernetes waits after SIGTERM.
pub(super) const CLEAN_UP_AFTER_SIGNAL: Duration = Duration::from_secs(30);
/// Redirects to the leader that are followed for one request.
const HOPS_MAX: u32 = 3;

/// Returns whether work has to end: after more interrupts than it tolerates, or some time after the first.
fn is_over(interrupts: &Interrupts, tolerates: u32) -> bool {
    let waited = interrupts.since_first().unwrap_or_default();
    interrupts.count() > tolerates || waited > CLEAN_UP_AFTER_SIGNAL
}

/// A client of one server, with a token.
pub(super) struct Client {
    server: Arc<Server>,
    token: String,
    namespace: String,
    interrupts: Arc<Interrupts>,
    /// How many interrupts it takes before this client gives up.
    tolerates: u32,
    patience: Duration,
    timeout: Duration,
    line: Option<BlockingConnection>,
}

/// HttpReply to a request.
pub(super) struct Reply {
    /// The answer's body as JSON; `Null` for none.
    pub(super) body: Value,
}

impl Reply {
    /// A field of the answer's `data`, as text.
    pub(super) fn data(&self, name: &str) -> Option<&str> {
        self.body.get("data")?.get(name)?.as_str().filter(|text| !text.is_empty())
    }
}

impl Client {
    pub(super) fn new(
        server: Arc<Server>,
        token: String,
        namespace: String,
        interrupts: Arc<Interrupts>,
    ) -> Self {
        let (patience, timeout) = (SET_UP_PATIENCE, TIMEOUT);
        Self { server, token, namespace, interrupts, tolerates: 0, patience, timeout, line: None }
    }

    /// The same client for the clean-up: it outlives one interrupt, and waits longer.
    pub(super) fn for_clean_up(mut self) -> Self {
        self.tolerates = 1;
        self.patience = CLEAN_UP_PATIENCE;
        self.timeout = CLEAN_UP_TIMEOUT;
        self
    }

    /// As the URL says it, without a slash at its end.
    pub(super) fn address(&self) -> &str {
        &self.server.address
    }

    /// Returns the headers of the load's requests: the token, and the namespace if there is one.
    pub(super) fn headers(&self) -> Vec<(String, String)> {
        let mut headers = vec![("X-Vault-Token".to_owned(), self.token.clone())];
        if !self.namespace.is_empty() {
            headers.push(("X-Vault-Namespace".to_owned(), self.namespace.clone()));
        }
        headers
    }

    /// Returns whether the user wants the end of what this client does.
    pub(super) fn is_interrupted(&self) -> bool {
        is_over(&self.interrupts, self.tolerates)
    }

    /// Waits, unless the user wants the end.
    pub(super) fn wait(&self, time: Duration) -> Result<(), Trouble> {
        let until = clock::now() + time;
        loop {
            if self.is_interrupted() {
                return Err(Trouble::interrupted());
            }
            let left = until.saturating_duration_since(clock::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK_EVERY));
        }
    }

    /// Looks how the server is, before anything is asked of it. `Ok` may hold a remark.
    pub(super) fn look(&mut self) -> Result<Option<String>, Trouble> {
        let answer = self.ask("GET", "sys/health", None, &[])?;
        Trouble::of_health(answer.status, self.address())
    }

    pub(super) fn read(&mut self, path: &str) -> Result<Reply, Trouble> {
        self.call("GET", path, None)
    }

    pub(super) fn list(&mut self, path: &str) -> Result<Reply, Trouble> {
        self.call("GET", &format!("{path}?list=true"), None)
    }

    pub(super) fn write(&mut self, path: &str, body: &Value) -> Result<Reply, Trouble> {
        self.call("PUT", path, Some(body))
    }

    pub(super) fn post(&mut self, path: &str, body: &Value) -> Result<Reply, Trouble> {
        self.call("POST", path, Some(body))
    }

    pub(super) fn delete(&mut self, path: &str) -> Result<Reply, Trouble> {
        self.call("DELETE", path, None)
    }

    /// Makes a request until it is answered with a success, or it is clear that it will not be.
    /// `path` comes after `/v1/`. What may pass by itself is tried again for a while.
    fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<Reply, Trouble> {
        let body = body.map(Value::to_string);
        let give_up_at = clock::now() + self.patience;
        let mut pause = Duration::from_millis(50);
        let headers = self.headers();
        let mut repeated = false;
        loop {
            let trouble = match self.ask(method, path, body.as_deref(), &headers) {
                Ok(answer) if (200..300).contains(&answer.status) => {
                    let body = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
                    return Ok(Reply { body });
                }
                Ok(answer) => {
                    let namespace = &self.namespace;
                    Trouble::of_answer(method, path, answer.status, &answer.body, namespace)
                }
                Err(trouble) => trouble,
            };
            let trouble = Trouble { repeated, ..trouble };
            let waits =
                trouble.kind.may_pass() || (self.tolerates > 0 && trouble.kind.may_pass_later());
            if !waits || clock::now() + pause > give_up_at {
                return Err(match trouble.kind {
                    Kind::Denied => self.look_into_denial(trouble),
                    _ => trouble,
                });
            }
            self.wait(pause)?;
            pause = (pause * 2).min(Duration::from_secs(1));
            repeated = true;
        }
    }

    /// Makes a test's request once, as the load will; returns path, status and length of the answer.
    pub(super) fn probe(
        &mut self,
        template: &Template,
        draw: &Draw,
    ) -> Result<(String, u16, usize), Trouble> {
        let text = |pieces: &[Piece]| {
            let mut out = Vec::new();
            Pieces::new(pieces).write(draw, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        };
        let (path, body) = (text(&template.path), text(&template.body));
        let body = Some(&*body).filter(|body| !body.is_empty());
        let path = path.trim_start_matches("/v1/");
        let answer = self.ask(template.method, path, body, &template.headers)?;
        Ok((format!("/v1/{path}"), answer.status, answer.body.len()))
    }

    /// A token may be refused because it is none any more, or because it may not do this.
    fn look_into_denial(&mut self, trouble: Trouble) -> Trouble {
        let headers = self.headers();
        let own = self.ask("GET", "auth/token/lookup-self", None, &headers);
        trouble.denied(own.is_ok_and(|answer| answer.status == 200))
    }

    /// Makes one request, and follows a standby's word where the leader is.
    fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&str>,
        headers: &[(String, String)],
    ) -> Result<HttpReply, Trouble> {
        // A server that answers at once leaves no pause in which this would be noticed.
        if self.is_interrupted() {
            return Err(Trouble::interrupted());
        }
        for _ in 0..HOPS_MAX {
            let answer = self.ask_once(method, path, body, headers)?;
            let Some(location) = answer.location.as_deref().filter(|_| answer.status == 307) else {
                return Ok(answer);
            };
            let leader = self.server.elsewhere(location)?;
            self.line = None;
            self.server = Arc::new(leader);
        }
        Err(Trouble::new(Kind::NoLeader, "nodes send requests to each other, and none takes them"))
    }

    fn ask_once(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&str>,
        headers: &[(String, String)],
    ) -> Result<HttpReply, Trouble> {
        let authority = self.server.authority.clone();
        let mut fields = vec![("Host", &*authority), ("User-Agent", USER_AGENT)];
        fields.extend(headers.iter().map(|(name, value)| (&**name, &**value)));
        fields.push(("X-Vault-Request", "true"));
        let target = format!("/v1/{path}");
        let request = Request {
            method,
            target: &target,
            headers: &fields,
            body: body.unwrap_or_default().as_bytes(),
            expect_continue: false,
        };
        let deadline = clock::now() + self.timeout;
        let interrupts = self.interrupts.clone();
        let tolerates = self.tolerates;
        let go_on = || {
            if is_over(&interrupts, tolerates) {
                return Err(io::Error::from(io::ErrorKind::Interrupted));
            }
            if clock::now() > deadline { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
        };
        // A connection that was kept may be gone by now, which says nothing about the server.
        if let Some(mut line) = self.line.take()
            && let Ok(answer) = line.ask(&request, &go_on)
        {
            self.line = line.is_usable().then_some(line);
            return Ok(answer);
        }
        if self.is_interrupted() {
            return Err(Trouble::interrupted());
        }
        let fail = |error: io::Error| Trouble::of_io(&error, &self.server.address);
        let left = deadline.saturating_duration_since(clock::now()).max(LOOK_EVERY);
        let mut line = BlockingConnection::connect(&self.server.target, left.min(CONNECT_WITHIN))
            .map_err(fail)?;
        let answer = line.ask(&request, &go_on).map_err(fail)?;
        self.line = line.is_usable().then_some(line);
        Ok(answer)
    }
}
