//! Sends the requests of set-up and clean-up: one after another, blocking, over HTTP/1.1.
//!
//! Turns server states into named errors: sealed, not initialised, token refused, unknown namespace, path in use, no
//! leader. Retries states that pass, such as a change of leader.
//!
//! Not here: the measured requests (`load`), the set-up of a test (`tests`).

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_engine::blocking_http::{BlockingConnection, HttpReply, LOOK_EVERY};
use bakeoff_wire::http1::Request;
use serde_json::Value;

use super::interrupts::Interrupts;
use super::request::{Draw, Piece, Pieces, Template, USER_AGENT};
use super::server::Server;
use super::trouble::{Kind, Trouble};

/// Longest wait for one answer, as in Vault's own client.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Longest time to retry a passing state.
const SET_UP_PATIENCE: Duration = Duration::from_secs(10);
/// The same during clean-up: long enough for an election, or for a mount with many secrets to delete.
const CLEAN_UP_PATIENCE: Duration = Duration::from_secs(120);
/// Longest wait for one answer during clean-up.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(300);
/// Longest clean-up after an interrupt, equal to Kubernetes' default grace period after SIGTERM.
pub(super) const CLEAN_UP_AFTER_SIGNAL: Duration = Duration::from_secs(30);
/// Most redirects to the leader followed for one request.
const HOPS_MAX: u32 = 3;

/// Returns true after more than `tolerates` interrupts, or too long after the first one.
fn is_over(interrupts: &Interrupts, tolerates: u32) -> bool {
    let waited = interrupts.since_first().unwrap_or_default();
    interrupts.count() > tolerates || waited > CLEAN_UP_AFTER_SIGNAL
}

pub(super) struct Client {
    server: Arc<Server>,
    token: String,
    namespace: String,
    interrupts: Arc<Interrupts>,
    /// Interrupts that this client survives.
    tolerates: u32,
    patience: Duration,
    timeout: Duration,
    line: Option<BlockingConnection>,
}

/// Successful reply to a request.
pub(super) struct Reply {
    /// Body as JSON; `Null` if it is empty.
    pub(super) body: Value,
}

impl Reply {
    /// Returns a non-empty text field of the reply's `data`.
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

    /// Converts the client for clean-up: it survives one interrupt and waits longer.
    pub(super) fn for_clean_up(mut self) -> Self {
        self.tolerates = 1;
        self.patience = CLEAN_UP_PATIENCE;
        self.timeout = CLEAN_UP_TIMEOUT;
        self
    }

    /// Returns the address as given, without a trailing slash.
    pub(super) fn address(&self) -> &str {
        &self.server.address
    }

    /// Returns the headers of the load's requests: the token, and the namespace if set.
    pub(super) fn headers(&self) -> Vec<(String, String)> {
        let mut headers = vec![("X-Vault-Token".to_owned(), self.token.clone())];
        if !self.namespace.is_empty() {
            headers.push(("X-Vault-Namespace".to_owned(), self.namespace.clone()));
        }
        headers
    }

    /// Returns true if the user interrupted this client's work.
    pub(super) fn is_interrupted(&self) -> bool {
        is_over(&self.interrupts, self.tolerates)
    }

    /// Waits, or fails if the user interrupts.
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

    /// Checks the server's health before the first request. `Ok` may hold a warning.
    pub(super) fn check_health(&mut self) -> Result<Option<String>, Trouble> {
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

    /// Repeats a request until it succeeds or fails for good. `path` follows `/v1/`. Retries passing states for a
    /// limited time.
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
                    Kind::Denied => self.explain_denial(trouble),
                    _ => trouble,
                });
            }
            self.wait(pause)?;
            pause = (pause * 2).min(Duration::from_secs(1));
            repeated = true;
        }
    }

    /// Sends a test's request once, as the load will. Returns its path, and the status and length of the answer.
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

    /// Checks whether a refused token is unknown or only lacks the permission.
    fn explain_denial(&mut self, trouble: Trouble) -> Trouble {
        let headers = self.headers();
        let own = self.ask("GET", "auth/token/lookup-self", None, &headers);
        trouble.denied(own.is_ok_and(|answer| answer.status == 200))
    }

    /// Sends one request, and follows a standby's redirects to the leader.
    fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&str>,
        headers: &[(String, String)],
    ) -> Result<HttpReply, Trouble> {
        // Fast answers leave no pause in which an interrupt would be noticed.
        if self.is_interrupted() {
            return Err(Trouble::interrupted());
        }
        for _ in 0..HOPS_MAX {
            let answer = self.ask_once(method, path, body, headers)?;
            let Some(location) = answer.header("location").filter(|_| answer.status == 307) else {
                return Ok(answer);
            };
            let leader = self.server.elsewhere(&location)?;
            self.line = None;
            self.server = Arc::new(leader);
        }
        Err(Trouble::new(
            Kind::NoLeader,
            "the nodes redirect requests to each other and none answers",
        ))
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
        // A kept connection may be closed by now, which is no fault of the server.
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
