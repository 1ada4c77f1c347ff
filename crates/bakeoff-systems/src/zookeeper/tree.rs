//! Makes and removes the nodes that keys lie below, outside of a load.
//!
//! Many requests share a session: servers take 60 connections of one client unless they are told otherwise
//! (`maxClientCnxns`), and count those that have just ended.
//!
//! Not here: keys under load (`session`).

use std::time::Duration;

use bakeoff_wire::ProtocolError;
use bakeoff_wire::zookeeper::{CreateMode, ErrorCode, Event, Reply, Request, Session};

use super::session;
use crate::exchange::{Receiver, exchange};
use crate::{Access, Login, NotReady, SystemError};

/// Requests of one session: fewer than may be in flight.
const BATCH: usize = 500;
/// How long the requests of one session may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The content of the nodes that bakeoff makes. A node at the top without it is the user's own, and stays.
const MADE_BY: &str = "made by bakeoff";

/// The names of a node's children or its content, or nothing for other requests.
type Answer = Result<Vec<String>, ErrorCode>;

/// Creates nodes that are not there, in this order.
pub(super) fn create(node: &Access, paths: &[String]) -> Result<(), SystemError> {
    let mode = CreateMode::Persistent;
    let create = |path| Request::Create { path, data: MADE_BY.as_bytes(), mode };
    for (path, answer) in paths.iter().zip(ask_each(node, paths, create)?) {
        match answer {
            Ok(_) | Err(ErrorCode::NODE_EXISTS) => {}
            // Who may not create nodes beside it is refused before it is looked for.
            Err(ErrorCode::NO_AUTH) if exists(node, path)? => {}
            Err(code) => {
                return Err(SystemError::answered(node, format!("creating `{path}`: {code}")));
            }
        }
    }
    Ok(())
}

/// Returns whether a node is there.
fn exists(node: &Access, path: &str) -> Result<bool, SystemError> {
    match ask(node, &[Request::Exists { path }])?.into_iter().next() {
        Some(Ok(_)) => Ok(true),
        Some(Err(code)) if code != ErrorCode::NO_NODE => {
            Err(SystemError::answered(node, format!("looking for `{path}`: {code}")))
        }
        _ => Ok(false),
    }
}

/// Deletes all below a node, and the node itself if bakeoff made it.
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

/// Finds out whether the client may create a node, or one below it if it is there, by creating one that it removes
/// again.
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
                    "the ACL of `{parent}` demands a user: add `credentials: {{user: NAME, password: $ZK_PASSWORD}}`, \
                     or have a node `/bakeoff` there with an ACL for anyone"
                ),
                Some(_) => format!(
                    "the ACL of `{parent}` refuses the user of the study's `credentials`, or the password"
                ),
            };
            return Err(NotReady::Never { seen: error.to_string(), hint });
        }
        Err(error) => return Err(error.into()),
    }
    let deleted = ask_each(node, path, |path| Request::Delete { path, version: None });
    deleted.map(drop).map_err(NotReady::from)
}

/// Asks the same of many nodes; the answers are in their order.
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

/// Asks in a session of its own.
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
                Event::Expired | Event::Pong => {}
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
            // The server hangs up once the session is closed.
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
