//! Changes the routes of a gateway, and proves that the gateway has the change.
//!
//! A change replaces one route: that of the path which carries the change's name. Responses on it carry the name in a
//! header field, so one request proves that the gateway has this change. The route of the load's requests stays as it
//! is, so a change that costs a request is a finding.
//!
//! Not here: the configuration of control planes (`consul`, `istio`), the time of a change (`bakeoff_trial`).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::exchange::Patience;
use super::http_session::{Question, question};
use super::mesh::{Mesh, TakesChanges};
use super::{Access, SystemError};

/// Header field with the name of a change.
pub(crate) const FIELD: &str = "x-bakeoff-change";

/// Makes the changes of one gateway, each with a name of its own.
pub(super) struct RouteChanges {
    pub(super) mesh: Arc<Mesh>,
    /// First node of the control plane.
    pub(super) plane: Access,
    pub(super) made: AtomicU32,
}

/// A change to make.
pub struct RouteChange {
    name: String,
    changes: Arc<RouteChanges>,
}

impl RouteChange {
    /// Returns the next change of a gateway. Fails if the node is no gateway.
    pub(crate) fn next(gateway: &Access) -> Result<Self, SystemError> {
        let changes = gateway.memory.get::<RouteChanges>();
        let changes = changes.ok_or_else(|| SystemError::answered(gateway, "it has no routes"))?;
        let number = changes.made.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Self { name: format!("bakeoff-change-{number}"), changes })
    }

    /// Hands the change to the control plane, and returns once it is accepted. `replace` replaces a file of a node.
    ///
    /// # Errors
    /// If the control plane refuses, or does not answer in time.
    pub fn hand_over(
        &self,
        patience: Patience<'_>,
        replace: impl FnOnce(&str, &Path, &[u8]) -> Result<(), String>,
    ) -> Result<(), SystemError> {
        let plane = &self.changes.plane;
        match &self.changes.mesh.takes {
            TakesChanges::ByRequest(target, entry) => {
                let body = Some(&entry(&self.name));
                let put = Question { method: "PUT", target, body, patience, ..Question::default() };
                question(plane, &put)?.succeeded()
            }
            TakesChanges::ByFile(path, contents) => {
                let contents = contents(&self.name).to_string();
                replace(&plane.name, Path::new(path), contents.as_bytes())
                    .map_err(|why| SystemError::answered(plane, why))
            }
        }
    }

    /// Returns true if the gateway has the change: a request on its path gets its name.
    ///
    /// # Errors
    /// If the gateway does not answer.
    pub fn has_arrived(
        &self,
        gateway: &Access,
        patience: Patience<'_>,
    ) -> Result<bool, SystemError> {
        let target = &self.path();
        let reply = question(gateway, &Question { target, patience, ..Question::default() })?;
        Ok(reply.header(FIELD).as_deref() == Some(&*self.name))
    }

    /// Returns the path of its route.
    pub fn path(&self) -> String {
        path(&self.name)
    }
}

/// Returns the path of a change's route.
pub(super) fn path(name: &str) -> String {
    format!("/{name}")
}
