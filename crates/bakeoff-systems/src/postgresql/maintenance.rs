//! Runs maintenance on a PostgreSQL primary: `CHECKPOINT` and `VACUUM`.
//!
//! Not here: the time of it (`bakeoff_trial`).

use bakeoff_core::study::fault::MaintenanceRun;
use bakeoff_core::study::{Maintenance, MaintenanceOffer, MaintenanceScope};

use super::sql::execute_within;
use crate::declaration::never_offered;
use crate::exchange::Patience;
use crate::{Access, SystemError};

pub(super) const OFFERS: &[MaintenanceOffer] = &[
    MaintenanceOffer::new(Maintenance::Checkpoint, MaintenanceScope::System),
    MaintenanceOffer::new(Maintenance::Vacuum, MaintenanceScope::System),
];

pub(super) fn maintain(
    node: &Access,
    run: &MaintenanceRun,
    patience: Patience<'_>,
) -> Result<String, SystemError> {
    let command = match run.operation {
        Maintenance::Checkpoint => "CHECKPOINT",
        Maintenance::Vacuum => "VACUUM",
        operation => return Err(never_offered(node, operation)),
    };
    execute_within(node, command, patience)?;
    Ok(format!("`{command}` returned without an error"))
}
