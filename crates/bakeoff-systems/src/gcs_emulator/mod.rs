//! Runs an emulator of Google Cloud Storage on loopback: fake-gcs-server.
//!
//! It speaks the service's JSON API and keeps objects as files, so that stored data survives a kill. Unlike the
//! service it answers at once, from one machine, and does not sync its writes. `latency` puts a relay in front of it
//! that delays each request. Clients then have to use the last of its nodes, which is that relay.
//!
//! Not here: the relay (`remote_service`).

pub(crate) mod recipe;
#[cfg(test)]
mod tests;

use bakeoff_core::record::Guarantees;
use bakeoff_core::study::{self, Kind};
use bakeoff_host::ports::Allocator;
use bakeoff_host::{HostError, NodeSpec};

use super::declaration::{Declaration, GuaranteeRules, Origin};
use super::http_session::{Question, ask, question};
use super::{
    Access, ClusterStatus, DescribeContext, Description, NotReady, System, SystemError,
    remote_service, setting,
};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &GcsEmulator;

#[derive(Debug)]
pub(crate) struct GcsEmulator;

/// Project of the buckets. The emulator knows no other.
const PROJECT: &str = "bakeoff";

/// Creates a bucket, unless it exists. `entrance` is the last of the emulator's nodes.
pub(crate) fn make_bucket(entrance: &Access, name: &str) -> Result<(), SystemError> {
    let body = serde_json::json!({ "name": name });
    let target = format!("/storage/v1/b?project={PROJECT}");
    let asked =
        Question { method: "POST", target: &target, body: Some(&body), ..Question::default() };
    let reply = question(entrance, &asked)?;
    if reply.status == 409 { Ok(()) } else { reply.success().map(|_| ()) }
}

impl System for GcsEmulator {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, ..GuaranteeRules::default() },
            ..Declaration::new(
                Kind {
                    options: remote_service::OPTIONS,
                    emulates: Some("Google Cloud Storage"),
                    ..Kind::new("gcs-emulator")
                },
                Origin::Recipe(&recipe::RECIPE),
            )
        }
    }

    fn describe(
        &self,
        context: &DescribeContext<'_>,
        ports: &mut Allocator,
    ) -> Result<Description, HostError> {
        let installed = context.installed()?;
        let name = context.node_names().next().unwrap_or_default();
        let location = context.location(0);
        let dir = context.dir.join(&name);
        let port = ports.take_for(location)?;
        let relay = remote_service::relay(context, &name, port, ports)?;
        // Answers hold addresses of objects, which clients must be able to reach.
        let public = location.at(relay.as_ref().map_or(port, |relay| relay.port("client")));
        let args = [
            "-scheme".into(),
            "http".into(),
            "-host".into(),
            location.address.to_string(),
            "-port".into(),
            port.to_string(),
            "-backend".into(),
            "filesystem".into(),
            "-filesystem-root".into(),
            "objects".into(),
            "-external-url".into(),
            format!("http://{public}"),
            "-public-host".into(),
            public.to_string(),
            // Logging each request would affect the measurement.
            "-log-level".into(),
            "warn".into(),
        ];
        let emulator = NodeSpec {
            program: (&installed.command()[0]).into(),
            args: args.into_iter().map(Into::into).collect(),
            env: installed.env(),
            location,
            ports: vec![("client".into(), port)],
            limits: context.system.limits.clone(),
            dir,
            name,
            ..NodeSpec::default()
        };
        let mut settings = vec![
            setting("backend", "filesystem", "its default too; stored objects survive a kill"),
            setting("log-level", "warn", "its default writes a line for each request"),
        ];
        settings.extend(remote_service::setting(context));
        let nodes = std::iter::once(emulator).chain(relay).collect();
        Ok(Description { nodes, settings, ..Description::default() })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        // A probe through the relay, if there is one, proves that both are up.
        let entrance = nodes.last().ok_or("it has no nodes")?;
        match ask(entrance, "GET", &format!("/storage/v1/b?project={PROJECT}"))? {
            (200, _) => Ok(ClusterStatus::default()),
            (status, reply) => {
                Err(format!("`{}` answered {status}: {}", entrance.name, reply.trim()).into())
            }
        }
    }
}

/// Returns the guarantees under these options.
fn guarantees(_: &study::System) -> Guarantees {
    remote_service::guarantees("the newest write")
}
