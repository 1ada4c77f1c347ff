//! The generator's side: what an agent does when it is asked to drive a share of a load.

use bakeoff_agent::{Duties, Line, Refusal, Workshop};
use serde_json::Value;

/// Drives shares of loads for a coordinator.
#[derive(Default)]
pub(crate) struct Generator {}

impl Duties for Generator {
    fn perform(&self, _: Value, _: &Workshop, _: &Line) -> Result<Value, Refusal> {
        Err(Refusal::new("not yet"))
    }
}
