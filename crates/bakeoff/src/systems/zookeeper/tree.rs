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
use crate::systems::exchange::{Receiver, exchange};
use crate::systems::{Access, Login, NotReady, SystemError};

/// Requests of one session: fewer than may be in flight.
const BATCH: usize = 500;
/// How long the requests of one session may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The names of a node's children, or nothing for other requests.
type Answer = Result<Vec<String>, ErrorCode>;

/// Creates nodes that are not there, in this order.
pub(super) fn create(node: &Access, paths: &[String]) -> Result<(), SystemError> {
    let mode = CreateMode::Persistent;
    let create = |path| Request::Create { path, data: b"", mode };
    for (path, answer) in paths.iter().zip(ask_each(node, paths, create)?) {
        match answer {
            Ok(_) | Err(ErrorCode::NODE_EXISTS) => {}
            Err(code) => {
                return Err(SystemError::answered(node, format!("creating `{path}`: {code}")));
            }
        }
    }
    Ok(())
}

/// Deletes a node and all below it.
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
    for level in levels.iter().rev() {
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

/// Finds out whether the client may create nodes at the top, by creating one that it removes again.
pub(super) fn may_create(node: &Access, path: &str) -> Result<(), NotReady> {
    match create(node, &[path.to_owned()]) {
        Ok(()) => {}
        Err(error) if error.to_string().contains("NoAuth") => {
            let hint = match node.memory.get::<Login>() {
                None => {
                    "the ACL of `/` demands a user: add `credentials: {user: NAME, password: $ZK_PASSWORD}`, or create \
                     `/bakeoff` with an ACL for anyone"
                }
                Some(_) => {
                    "the ACL of `/` refuses the user of the study's `credentials`, or the password"
                }
            };
            return Err(NotReady::Never { seen: error.to_string(), hint: hint.to_owned() });
        }
        Err(error) => return Err(error.into()),
    }
    let deleted =
        ask_each(node, &[path.to_owned()], |path| Request::Delete { path, version: None });
    // Keys of a run that was killed are below it: they are cleared before the load.
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
