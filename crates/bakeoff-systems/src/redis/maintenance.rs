//! Runs maintenance on Redis: a snapshot (`BGSAVE`), and a shorter log of writes (`BGREWRITEAOF`).
//!
//! Both begin with a fork, which stops the server, and go on in the child. bakeoff waits for the child.
//!
//! Not here: the time of it (`bakeoff_trial`).

use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::study::fault::MaintenanceRun;
use bakeoff_core::study::{Maintenance, MaintenanceOffer, MaintenanceScope};

use super::{APPENDFSYNC, ask};
use crate::declaration::never_offered;
use crate::exchange::Patience;
use crate::{Access, SystemError, option};

pub(super) const OFFERS: &[MaintenanceOffer] = &[
    MaintenanceOffer {
        operation: Maintenance::RewriteLog,
        scope: MaintenanceScope::System,
        lacks: |system| {
            option(system, APPENDFSYNC)
                .is_none()
                .then_some("it keeps a log only with the option `appendfsync`")
        },
    },
    MaintenanceOffer::new(Maintenance::Snapshot, MaintenanceScope::System),
];

/// Interval between questions whether the child has ended.
const ASK_EVERY: Duration = Duration::from_millis(20);

pub(super) fn maintain(
    node: &Access,
    run: &MaintenanceRun,
    patience: Patience<'_>,
) -> Result<String, SystemError> {
    let (command, state): (&[u8], _) = match run.operation {
        Maintenance::RewriteLog => {
            (b"BGREWRITEAOF", ["aof_rewrite_in_progress", "aof_last_bgrewrite_status"])
        }
        Maintenance::Snapshot => (b"BGSAVE", ["rdb_bgsave_in_progress", "rdb_last_bgsave_status"]),
        operation => return Err(never_offered(node, operation)),
    };
    let [busy, status] = state;
    ask(node, &[command])?;
    let deadline = clock::now() + patience.within;
    while clock::now() < deadline && (patience.go_on)() {
        let info = ask(node, &[b"INFO"])?;
        let text = String::from_utf8_lossy(info.first().map_or(&[][..], Vec::as_slice));
        let field =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        // Without another child, a rewrite that waits for it begins at once.
        let is_done = field(busy) == Some("0") && field("aof_rewrite_scheduled") != Some("1");
        match field(status) {
            Some("ok") if is_done => {
                let fork = field("latest_fork_usec").unwrap_or("?");
                return Ok(format!("the child ended with success; the fork took {fork} µs"));
            }
            Some(other) if is_done => {
                return Err(SystemError::answered(node, format!("the child ended with {other}")));
            }
            _ => std::thread::sleep(ASK_EVERY),
        }
    }
    Err(SystemError::answered(node, "the child has not ended"))
}
