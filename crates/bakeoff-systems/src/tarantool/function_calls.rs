//! Calls functions of a node outside the measured loop: status, counts, creation of sessions.
//!
//! Not here: the protocol (`bakeoff_wire::iproto`), the functions (`node.lua`).

use std::time::Duration;

use bakeoff_wire::ProtocolError;
use bakeoff_wire::iproto::{Event, Request, Session};
use bakeoff_wire::msgpack::{Array, Value};

use super::Credentials;
use crate::exchange::{PATIENCE, Receiver, exchange};
use crate::{Access, SystemError};

/// Status that a node reports.
pub(super) struct NodeStatus {
    /// Version: `2.6.0-0-g47aa4e01e`.
    pub(super) version: String,
    /// Status: `running`.
    pub(super) status: String,
    /// Number of nodes with which it replicates in both directions.
    pub(super) both: u64,
    /// Message about the others.
    pub(super) trouble: String,
    /// Number of writes that it has of each node.
    pub(super) came: Vec<u64>,
}

pub(super) fn probe(node: &Access) -> Result<NodeStatus, SystemError> {
    call(node, PATIENCE, "bakeoff.look", &[], |mut reply| {
        let text = |value: Value<'_>| Some(String::from_utf8_lossy(value.bytes()?).into_owned());
        Some(NodeStatus {
            version: text(reply.next()?)?,
            status: text(reply.next()?)?,
            both: reply.next()?.unsigned()?,
            trouble: text(reply.next()?)?,
            came: match reply.next()? {
                Value::Array(came) => came.map(|one| one.unsigned()).collect::<Option<_>>()?,
                _ => return None,
            },
        })
    })
}

/// Longest time for a node to process all its keys. A million keys take seconds.
const SUMMED_WITHIN: Duration = Duration::from_secs(60);

/// Checks that nodes with each other's writes hold the same data. They do not if a key was written at two nodes at
/// once: each may keep a different value for good.
pub(super) fn alike(nodes: &[Access]) -> Result<(), SystemError> {
    let mut first = None;
    for node in nodes {
        let sum = call(node, SUMMED_WITHIN, "bakeoff.sum", &[], |mut reply| {
            let mut next = || reply.next()?.unsigned();
            Some((next()?, next()?))
        })?;
        let (with, theirs) = first.get_or_insert((node, sum));
        if *theirs != sum {
            return Err(format!(
                "`{}` and `{}` have each other's writes but differ for good: after two concurrent writes \
                 of a key each kept a different one",
                with.name, node.name
            ).into());
        }
    }
    Ok(())
}

/// Calls a function once. `read` converts its result, and returns `None` if that is unexpected.
pub(super) fn call<T>(
    node: &Access,
    patience: Duration,
    function: &str,
    arguments: &[Value<'_>],
    read: impl FnMut(Array<'_>) -> Option<T>,
) -> Result<T, SystemError> {
    let mut answers = calls(node, patience, function, &[arguments], read)?;
    answers.pop().ok_or_else(|| format!("`{}` returned no answer", node.name).into())
}

/// Calls a function concurrently with each of these arguments. Answers are in no particular order.
pub(super) fn calls<'a, T, A: AsRef<[Value<'a>]>>(
    node: &Access,
    patience: Duration,
    function: &str,
    arguments: &[A],
    read: impl FnMut(Array<'_>) -> Option<T>,
) -> Result<Vec<T>, SystemError> {
    let credentials = node.memory.get::<Credentials>();
    let credentials =
        credentials.ok_or_else(|| SystemError::answered(node, "its password is unknown"))?;
    let Credentials { user, password } = &*credentials;
    let session = Session::new(user, password);
    let left = arguments.iter();
    let mut calling =
        FunctionCalls { session, function, left, read, answers: Vec::new(), failed: None };
    exchange(node, patience, Vec::new(), &mut calling)?;
    match calling.failed {
        None => Ok(calling.answers),
        Some(why) => Err(SystemError::answered(node, why)),
    }
}

struct FunctionCalls<'a, T, A, R> {
    session: Session,
    function: &'a str,
    left: std::slice::Iter<'a, A>,
    read: R,
    answers: Vec<T>,
    failed: Option<String>,
}

impl<'v, T, A, R> Receiver for FunctionCalls<'_, T, A, R>
where
    A: AsRef<[Value<'v>]>,
    R: FnMut(Array<'_>) -> Option<T>,
{
    fn on_bytes(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<bool, ProtocolError> {
        let Self { session, function, left, read, answers, failed } = self;
        session.receive(input, out, &mut |event| match event {
            Event::Ready { .. } => {}
            Event::Refused(error) => *failed = Some(error.to_string()),
            Event::Answer { result: Err(error), .. } => {
                *failed = Some(format!("{function}: {error}"));
            }
            Event::Answer { result: Ok(reply), .. } => match read(reply) {
                Some(answer) => answers.push(answer),
                None => *failed = Some(format!("{function} returned an unexpected result")),
            },
        })?;
        while session.capacity() > 0
            && let Some(arguments) = left.next()
        {
            let arguments = arguments.as_ref();
            session.request(Request::Call { function, arguments }, out).ok();
        }
        let opened = session.capacity() > 0;
        Ok(failed.is_some() || (opened && session.in_flight() == 0))
    }
}
