//! Calls functions of a node outside the measured loop: how it is, what it counted, make sessions.
//!
//! Not here: the protocol (`bakeoff_wire::iproto`), the functions (`node.lua`).

use std::time::Duration;

use bakeoff_wire::ProtocolError;
use bakeoff_wire::iproto::{Event, Request, Session};
use bakeoff_wire::msgpack::{Array, Value};

use super::Credentials;
use crate::exchange::{PATIENCE, Receiver, exchange};
use crate::{Access, SystemError};

/// How a node is, in its own words.
pub(super) struct Probed {
    /// `2.6.0-0-g47aa4e01e`
    pub(super) version: String,
    /// `running`
    pub(super) status: String,
    /// How many others it follows and is followed by.
    pub(super) both: u64,
    /// Its message about those that it does not.
    pub(super) trouble: String,
    /// How many writes of each node it has.
    pub(super) came: Vec<u64>,
}

/// Asks a node how it is.
pub(super) fn probe(node: &Access) -> Result<Probed, SystemError> {
    call(node, PATIENCE, "bakeoff.look", &[], |mut reply| {
        let text = |value: Value<'_>| Some(String::from_utf8_lossy(value.bytes()?).into_owned());
        Some(Probed {
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

/// How long a node may take to go through all that it has: a million keys take seconds.
const SUMMED_WITHIN: Duration = Duration::from_secs(60);

/// Returns whether nodes that have each other's writes hold the same. They do not where a key was written
/// at two of them at once: each may have kept another value, for good.
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
                "`{}` and `{}` have each other's writes and differ for good: of two writes of a key \
                 at two nodes at once each has kept another",
                with.name, node.name
            ).into());
        }
    }
    Ok(())
}

/// Calls a function once. `read` makes of what it returns what is wanted of it, if it is that.
pub(super) fn call<T>(
    node: &Access,
    patience: Duration,
    function: &str,
    arguments: &[Value<'_>],
    read: impl FnMut(Array<'_>) -> Option<T>,
) -> Result<T, SystemError> {
    let mut answers = calls(node, patience, function, &[arguments], read)?;
    answers.pop().ok_or_else(|| format!("`{}` answered nothing", node.name).into())
}

/// Calls a function with each of these arguments, all calls at once. Answers are in no order.
pub(super) fn calls<'a, T, A: AsRef<[Value<'a>]>>(
    node: &Access,
    patience: Duration,
    function: &str,
    arguments: &[A],
    read: impl FnMut(Array<'_>) -> Option<T>,
) -> Result<Vec<T>, SystemError> {
    let credentials = node.memory.get::<Credentials>();
    let credentials =
        credentials.ok_or_else(|| SystemError::answered(node, "no password is known"))?;
    let Credentials { user, password } = &*credentials;
    let session = Session::new(user, password);
    let left = arguments.iter();
    let mut calling = Calling { session, function, left, read, answers: Vec::new(), failed: None };
    exchange(node, patience, Vec::new(), &mut calling)?;
    match calling.failed {
        None => Ok(calling.answers),
        Some(why) => Err(SystemError::answered(node, why)),
    }
}

struct Calling<'a, T, A, R> {
    session: Session,
    function: &'a str,
    left: std::slice::Iter<'a, A>,
    read: R,
    answers: Vec<T>,
    failed: Option<String>,
}

impl<'v, T, A, R> Receiver for Calling<'_, T, A, R>
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
                None => *failed = Some(format!("{function} answered with something else")),
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
