//! Executes SQL on a PostgreSQL node over one connection, and returns all rows.
//!
//! Not here: the protocol (`bakeoff_wire::postgres`), the queries.

use bakeoff_wire::ProtocolError;
use bakeoff_wire::postgres::{Event, Session};

use super::Credentials;
use crate::exchange::{PATIENCE, Patience, Receiver, exchange};
use crate::{Access, SystemError};

/// A row's columns as text; `None` is NULL.
pub(crate) type Row = Vec<Option<String>>;

/// Executes one or several SQL statements, and returns the rows of all. Several statements are one transaction.
pub(crate) fn execute(node: &Access, sql: &str) -> Result<Vec<Row>, SystemError> {
    execute_within(node, sql, PATIENCE.into())
}

/// Executes SQL like [`execute`], with other limits of the wait.
pub(super) fn execute_within(
    node: &Access,
    sql: &str,
    patience: Patience<'_>,
) -> Result<Vec<Row>, SystemError> {
    let credentials = node.memory.get::<Credentials>();
    let credentials =
        credentials.ok_or_else(|| SystemError::answered(node, "its password is unknown"))?;
    let Credentials { user, password, database } = &*credentials;
    let nonce = super::random_text();
    let mut session = Session::new(user, password, database, &nonce);
    let mut first = Vec::new();
    session.open(&mut first);
    let mut asking = SqlConversation {
        session,
        sql: Some(sql),
        rows: Vec::new(),
        failed: None,
        answered: false,
    };
    exchange(node, patience, first, &mut asking)?;
    match asking.failed {
        None => Ok(asking.rows),
        Some(why) => Err(SystemError::answered(node, why)),
    }
}

struct SqlConversation<'a> {
    session: Session,
    /// Statements that are still to be sent.
    sql: Option<&'a str>,
    rows: Vec<Row>,
    failed: Option<String>,
    answered: bool,
}

impl Receiver for SqlConversation<'_> {
    fn on_bytes(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<bool, ProtocolError> {
        let Self { session, sql, rows, failed, answered } = self;
        let mut ready = false;
        session.receive(input, out, &mut |event| match event {
            Event::Ready => ready = true,
            Event::Row(row) => {
                let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
                rows.push(row.map(|value| value.map(text)).collect());
            }
            Event::Failed(error) => *failed = Some(error.to_string()),
            Event::Parameter(..) => {}
        })?;
        if ready && let Some(sql) = sql.take() {
            session.query(sql, out);
        } else {
            *answered = ready;
        }
        // An error before the statements are sent ends the session.
        Ok(*answered || (failed.is_some() && sql.is_some()))
    }
}
