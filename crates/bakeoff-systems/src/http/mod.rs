//! Loads any HTTP service that already runs at the study's endpoints.
//!
//! bakeoff neither starts nor clears the service; the workload defines the requests. It is ready once every endpoint
//! accepts a connection, with a TLS handshake for `https://`.
//!
//! Not here: a service that bakeoff starts (`process`), the requests (`http_requests`).

use bakeoff_core::study::{self, Kind, Operation};
use bakeoff_host::HostError;
use bakeoff_host::ports::Allocator;

use super::declaration::{Declaration, Origin};
use super::exchange;
use super::{Access, ClusterStatus, DescribeContext, Description, NotReady, System};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &Http;

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
            Origin::Study("it already runs, at the study's `endpoints`"),
        )
    }

    fn describe(
        &self,
        context: &DescribeContext<'_>,
        _: &mut Allocator,
    ) -> Result<Description, HostError> {
        Err(HostError::Spec {
            node: context.system.name.clone(),
            problem: "bakeoff does not start it; give its `endpoints`".into(),
        })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        // The caller has already completed the TLS handshakes.
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
            "it has no `endpoints`".to_owned(),
            "add `endpoints: [\"http://127.0.0.1:8080\"]`; bakeoff starts services of kind \
             `process`"
                .to_owned(),
        )),
    }
}
