//! Drives a generator's share of a load of requests (`bakeoff load --on`).
//!
//! Not here: the order (`requests`), the loop (`bakeoff_engine`), giving orders (`drive`).

use bakeoff_agent::{AgentRefusal, Line, Workshop};
use bakeoff_engine::moments::MomentSender;
use bakeoff_engine::together::Together;
use bakeoff_engine::{Drive, LoadError, open_files};
use serde_json::Value;

use super::begin::{Begun, begin_when_told, refusal, told};
use crate::machines::affinity::Kept;
use crate::machines::order::{HttpTold, StageTold};
use crate::machines::requests::{AnswersTold, HttpOrder};

fn refused(error: LoadError) -> AgentRefusal {
    refusal(&error, matches!(error, LoadError::Interrupted))
}

/// Drives this machine's share.
pub(super) fn drive(
    order: HttpOrder,
    workshop: &Workshop,
    line: &Line,
) -> Result<Value, AgentRefusal> {
    let drive = Drive { moments: workshop.moments().map(MomentSender::new), ..order.drive() };
    let plan = order.plan();
    let clients = drive.share.count(drive.clients.into()) as u32;
    let connections = plan.connections(clients, drive.arrivals.is_some());
    open_files::raise_for(connections).map_err(refused)?;
    let ready = plan.ready(!order.one_each).map_err(refused)?;
    let (driven, begun) = begin_when_told(line, workshop, |gate, stop, progress| {
        let together = Together::gated(1, gate);
        ready.drive_together(&drive, Some(&together), stop, progress)
    });
    let driven = driven.map_err(refused)?;
    let Begun { asked, began } = begun;
    let answers = AnswersTold {
        statuses: driven.answers.statuses,
        bytes_received: driven.answers.bytes_received,
        body_bytes: driven.answers.body_bytes,
    };
    let stage = StageTold {
        measurement: driven.measurement,
        next_ticket: 0,
        asked,
        began,
        kept: Kept::default(),
    };
    told(&HttpTold { stage, answers })
}
