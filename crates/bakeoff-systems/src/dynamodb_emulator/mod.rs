//! Runs an emulator of DynamoDB on loopback: dynalite.
//!
//! It speaks the service's API and keeps items in files, so that stored data survives a kill. Unlike the service it
//! answers at once, from one machine and one thread, and does not sync its writes. `latency` puts a relay in front of
//! it that delays each request. Clients then have to use the last of its nodes, which is that relay.
//!
//! Not here: the relay (`remote_service`), the contents of tables.

pub(crate) mod recipe;
#[cfg(test)]
mod tests;

use bakeoff_core::record::Guarantees;
use bakeoff_core::study::{self, Kind};
use bakeoff_host::ports::Allocator;
use bakeoff_host::{HostError, NodeSpec};
use serde_json::json;

use super::declaration::{Declaration, GuaranteeRules, Origin};
use super::http_session::{Question, ask, question};
use super::{
    Access, ClusterStatus, DescribeContext, Description, NotReady, System, SystemError,
    remote_service, setting,
};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &DynamoDbEmulator;

#[derive(Debug)]
pub(crate) struct DynamoDbEmulator;

/// Creates a table with the keys of Vault's storage, unless it exists. Otherwise all nodes would try to create it as
/// they start. `entrance` is the last of the emulator's nodes.
pub(crate) fn make_table(entrance: &Access, name: &str) -> Result<(), SystemError> {
    let key = |name: &str, kind: &str| json!({"AttributeName": name, "KeyType": kind});
    let attribute = |name: &str| json!({"AttributeName": name, "AttributeType": "S"});
    let body = json!({
        "TableName": name,
        "KeySchema": [key("Path", "HASH"), key("Key", "RANGE")],
        "AttributeDefinitions": [attribute("Path"), attribute("Key")],
        "ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5},
    });
    let asked = Question {
        method: "POST",
        headers: &[
            ("X-Amz-Target", "DynamoDB_20120810.CreateTable"),
            ("X-Amz-Date", "20260101T000000Z"),
            ("Authorization", AUTHORIZATION),
        ],
        body: Some(&body),
        ..Question::default()
    };
    let reply = question(entrance, &asked)?;
    let there = reply.body.contains("ResourceInUseException");
    if there { Ok(()) } else { reply.success().map(|_| ()) }
}

/// Signature of the right form. The emulator checks no more than that.
const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 \
    Credential=emulated/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0";

impl System for DynamoDbEmulator {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, ..GuaranteeRules::default() },
            ..Declaration::new(
                Kind {
                    options: remote_service::OPTIONS,
                    emulates: Some("DynamoDB"),
                    ..Kind::new("dynamodb-emulator")
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
        let port = ports.take_for(location)?;
        let relay = remote_service::relay(context, &name, port, ports)?;
        let mut command = installed.command();
        let program = command.remove(0);
        let (host, own) = (location.address.to_string(), port.to_string());
        let args = ["--host", &host, "--port", &own, "--path", "items"];
        let emulator = NodeSpec {
            program: program.into(),
            args: command.into_iter().chain(args.map(Into::into)).collect(),
            env: installed.env(),
            location,
            ports: vec![("client".into(), port)],
            limits: context.system.limits.clone(),
            dir: context.dir.join(&name),
            name,
            ..NodeSpec::default()
        };
        let why = "otherwise it keeps items in memory, and a kill would lose them";
        let mut settings = vec![setting("path", "items", why)];
        settings.extend(remote_service::setting(context));
        let nodes = std::iter::once(emulator).chain(relay).collect();
        Ok(Description { nodes, settings, ..Description::default() })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        // A probe through the relay, if there is one, proves that both are up.
        let entrance = nodes.last().ok_or("it has no nodes")?;
        match ask(entrance, "GET", "/")? {
            (200, reply) if reply.starts_with("healthy") => Ok(ClusterStatus::default()),
            (status, reply) => {
                Err(format!("`{}` answered {status}: {}", entrance.name, reply.trim()).into())
            }
        }
    }
}

/// Returns the guarantees under these options.
fn guarantees(_: &study::System) -> Guarantees {
    remote_service::guarantees("the newest write, at every consistency")
}
