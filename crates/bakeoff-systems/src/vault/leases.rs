//! Creates leases before a load, one for each login.
//!
//! A secret store reads all leases again when a node takes over, so their number is a part of an outage.
//!
//! Not here: the role of the logins, and the removal of its mount with all leases (`prepare`).

use std::io;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use bakeoff_engine::blocking_http::BlockingConnection;
use bakeoff_wire::http1::Request;

use super::load_secrets::LEASES;
use crate::{Access, SystemError};

/// Connections that log in at the same time.
const CONNECTIONS: u64 = 16;
/// Most leases. More take longer than a trial should.
const LEASES_MAX: u64 = 1_000_000;
/// Longest time until a connection is open.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Logs in `count` times. `login` is the body of each login.
pub(super) fn create(node: &Access, login: &str, count: u64) -> Result<(), SystemError> {
    if count > LEASES_MAX {
        return Err(format!("`leases: {count}` is more than {LEASES_MAX}").into());
    }
    let failed = OnceLock::new();
    let started = thread::scope(|scope| {
        for at in 0..CONNECTIONS {
            let failed = &failed;
            let share = (count + CONNECTIONS - 1 - at) / CONNECTIONS;
            thread::Builder::new().spawn_scoped(scope, move || {
                if let Err(error) = log_in_often(node, login, share, failed) {
                    failed.set(error).ok();
                }
            })?;
        }
        Ok(())
    });
    let ended = started.and(failed.into_inner().map_or(Ok(()), Err));
    ended.map_err(|error: io::Error| SystemError::unreachable(node, error))
}

/// Logs in over one connection, until another one has failed.
fn log_in_often(
    node: &Access,
    login: &str,
    count: u64,
    failed: &OnceLock<io::Error>,
) -> io::Result<()> {
    let target = format!("/v1/auth/{LEASES}/login");
    let request = Request {
        method: "POST",
        target: &target,
        headers: &[("host", &node.authority)],
        body: login.as_bytes(),
        expect_continue: false,
    };
    let go_on = || match failed.get() {
        Some(_) => Err(io::Error::other("another login has failed")),
        None => Ok(()),
    };
    let mut connection = BlockingConnection::connect(&node.target, CONNECT_WITHIN)?;
    for _ in 0..count {
        if !connection.is_usable() {
            connection = BlockingConnection::connect(&node.target, CONNECT_WITHIN)?;
        }
        let reply = connection.ask(&request, &go_on)?;
        if reply.status != 200 {
            let body = String::from_utf8_lossy(&reply.body).into_owned();
            return Err(io::Error::other(format!("a login got status {}: {body}", reply.status)));
        }
    }
    Ok(())
}
