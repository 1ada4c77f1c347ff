//! Creates and removes the parent nodes of keys, outside of a load.
//!
//! One session carries many requests. Servers accept 60 connections per client by default (`maxClientCnxns`), and
//! count those that have just ended.
//!
//! Not here: keys under load (`session`).

use std::time::Duration;

use bakeoff_wire::ProtocolError;
use bakeoff_wire::zookeeper::{CreateMode, ErrorCode, Event, Reply, Request, Session};

use super::session;
use crate::exchange::{Receiver, exchange};
use crate::{Access, Login, NotReady, SystemError};

/// Requests per session, fewer than may be in flight.
const BATCH: usize = 500;
/// Longest time for the requests of one session.
const PATIENCE: Duration = Duration::from_secs(10);

/// Content of the nodes that bakeoff creates. A top node without it belongs to the user and stays.
pub(super) const MADE_BY: &str = "made by bakeoff";

/// Names of a node's children or its content; empty for other requests.
type Answer = Result<Vec<String>, ErrorCode>;

/// Creates the missing ones of these nodes, in order.
pub(super) fn create(node: &Access, paths: &[String]) -> Result<(), SystemError> {
    let mode = CreateMode::Persistent;
    let create = |path| Request::Create { path, data: MADE_BY.as_bytes(), mode };
    for (path, answer) in paths.iter().zip(ask_each(node, paths, create)?) {
        match answer {
            Ok(_) | Err(ErrorCode::NODE_EXISTS) => {}
            // A client without the right to create is refused before the server looks for the node.
            Err(ErrorCode::NO_AUTH) if exists(node, path)? => {}
            Err(code) => {
                return Err(SystemError::answered(node, format!("creating `{path}`: {code}")));
            }
        }
    }
    Ok(())
}

fn exists(node: &Access, path: &str) -> Result<bool, SystemError> {
    match ask(node, &[Request::Exists { path, watch: false }])?.into_iter().next() {
        Some(Ok(_)) => Ok(true),
        Some(Err(code)) if code != ErrorCode::NO_NODE => {
            Err(SystemError::answered(node, format!("looking for `{path}`: {code}")))
        }
        _ => Ok(false),
    }
}

/// Deletes everything below a node, and the node itself if bakeoff created it.
pub(super) fn delete(node: &Access, path: &str) -> Result<(), SystemError> {
    let mut levels = vec![vec![path.to_owned()]];
    while let Some(parents) = levels.last().filter(|level| !level.is_empty()) {
        let mut below = Vec::new();
        let answers = ask_each(node, parents, |path| Request::GetChildren { path })?;
        for (path, answer) in parents.iter().zip(answers) {
            match answer {
                Ok(children) => {
                    below.extend(children.iter().map(|child| format!("{path}/{child}")))
                }
                Err(ErrorCode::NO_NODE) => {}
                Err(code) => return Err(format!("listing `{path}`: {code}").into()),
            }
        }
        levels.push(below);
    }
    let content = ask(node, &[Request::GetData { path }])?.into_iter().next();
    let is_own = matches!(content, Some(Ok(content)) if content == [MADE_BY]);
    for level in levels.iter().skip(usize::from(!is_own)).rev() {
        let answers = ask_each(node, level, |path| Request::Delete { path, version: None })?;
        for (path, answer) in level.iter().zip(answers) {
            match answer {
                Ok(_) | Err(ErrorCode::NO_NODE) => {}
                Err(code) => return Err(format!("deleting `{path}`: {code}").into()),
            }
        }
    }
    Ok(())
}

/// Checks that the client may create a node, or a child of it if it exists. Creates a test node and removes it.
pub(super) fn may_create(node: &Access, path: &str) -> Result<(), NotReady> {
    let (parent, path) = match exists(node, path)? {
        true => (path, format!("{path}/rights")),
        false => ("/", path.to_owned()),
    };
    let path = &[path];
    match create(node, path) {
        Ok(()) => {}
        Err(error) if error.to_string().contains("NoAuth") => {
            let hint = match node.memory.get::<Login>() {
                None => format!(
                    "the ACL of `{parent}` needs a user: add `credentials: {{user: NAME, password: $ZK_PASSWORD}}`, \
                     or create a node `/bakeoff` there with an open ACL"
                ),
                Some(_) => format!(
                    "the ACL of `{parent}` refuses the user or password in the study's `credentials`"
                ),
            };
            return Err(NotReady::Never { seen: error.to_string(), hint });
        }
        Err(error) => return Err(error.into()),
    }
    let deleted = ask_each(node, path, |path| Request::Delete { path, version: None });
    deleted.map(drop).map_err(NotReady::from)
}

/// Sends the same request for many nodes. The answers are in the order of the nodes.
fn ask_each<'a>(
    node: &Access,
    paths: &'a [String],
    request: impl Fn(&'a str) -> Request<'a>,
) -> Result<Vec<Answer>, SystemError> {
    let mut answers = Vec::with_capacity(paths.len());
    for batch in paths.chunks(BATCH) {
        let requests: Vec<Request<'_>> = batch.iter().map(|path| request(path)).collect();
        answers.extend(ask(node, &requests)?);
    }
    Ok(answers)
}

/// Sends requests in a separate session.
fn ask(node: &Access, requests: &[Request<'_>]) -> Result<Vec<Answer>, SystemError> {
    struct Questions<'a> {
        session: Session,
        requests: &'a [Request<'a>],
        answers: Vec<Answer>,
    }
    impl Receiver for Questions<'_> {
        fn on_bytes(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<bool, ProtocolError> {
            let (mut connected, mut closed) = (false, false);
            self.session.receive(input, out, &mut |event| match event {
                Event::Connected { .. } => connected = true,
                Event::Reply { result: Ok(Reply::Closed), .. } => closed = true,
                Event::Reply { result, .. } => {
                    self.answers.push(result.map(|reply| match reply {
                        Reply::Children(names) => names.map(str::to_owned).collect(),
                        Reply::Data { data, .. } => vec![String::from_utf8_lossy(data).into()],
                        _ => Vec::new(),
                    }));
                }
                Event::Expired | Event::Pong | Event::Watched { .. } => {}
            })?;
            if connected {
                for request in self.requests {
                    self.session.request(*request, out).map_err(|busy| busy.to_string())?;
                }
                self.session.request(Request::Close, out).map_err(|busy| busy.to_string())?;
            }
            Ok(closed)
        }

        fn hung_up(&mut self) -> Result<(), ProtocolError> {
            // The server closes the connection once the session is closed.
            match self.answers.len() == self.requests.len() {
                true => Ok(()),
                false => Err("the server closed the connection without an answer".into()),
            }
        }
    }
    let mut session = session::session(node);
    let mut out = Vec::new();
    session.open(&mut out);
    let mut questions = Questions { session, requests, answers: Vec::new() };
    exchange(node, PATIENCE, out, &mut questions)?;
    Ok(questions.answers)
}
