//! Any HTTP service that runs already, at the endpoints of the study.
//!
//! Nothing of it is started, asked or cleared: what it is asked for is what the workload says. It
//! can be loaded once every endpoint takes a connection and, for `https://`, agrees on TLS.
//!
//! Not here: a service that bakeoff starts (`process`), the requests (`http_requests`).

use bakeoff_core::study::{self, Kind, Operation};
use bakeoff_host::HostError;
use bakeoff_host::ports::Allocator;

use super::declaration::{Declaration, Origin};
use super::exchange;
use super::{Access, Asked, ClusterStatus, Description, NotReady, System};

/// The system for the registry.
pub(crate) const SYSTEM: &dyn System = &Http;

/// A service of somebody else's.
#[derive(Debug)]
pub(crate) struct Http;

impl System for Http {
    fn declares(&self) -> Declaration {
        Declaration::new(
            Kind {
                operations: &[Operation::Request, Operation::Denied],
                sound,
                ..Kind::new("http")
            },
            Origin::Study("it runs already, at the study's `endpoints`"),
        )
    }

    fn describe(&self, asked: &Asked<'_>, _: &mut Allocator) -> Result<Description, HostError> {
        Err(HostError::Spec {
            node: asked.system.name.clone(),
            problem: "there is nothing to start; it needs `endpoints`".into(),
        })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        // Those that speak TLS have been greeted by whoever looks.
        for node in nodes.iter().filter(|node| node.target.tls.is_none()) {
            exchange::handshake(node)?;
        }
        Ok(ClusterStatus::default())
    }
}

fn sound(system: &study::System) -> Result<(), (String, String)> {
    match system.is_started() {
        false => Ok(()),
        true => Err((
            "it does not say where the service runs".to_owned(),
            "add `endpoints: [\"http://127.0.0.1:8080\"]`; what bakeoff is to start is of kind \
             `process`"
                .to_owned(),
        )),
    }
}
