//! Opens a cluster of Vault or OpenBao, and finds its leader.
//!
//! bakeoff initialises its own cluster with one key share, unseals it, and joins the nodes. The cluster is ready when
//! each node is unsealed and, on Raft, has a vote. Earlier, fewer disks than the study asks for would acknowledge a
//! write. The key and the root token stay in memory; only `bakeoff start` writes the token to a file.
//!
//! A cluster that bakeoff did not start must be open, with its token in `VAULT_TOKEN` or `BAO_TOKEN`. Otherwise the
//! probe fails at once, because waiting does not help.
//!
//! Not here: the needs of a workload (`prepare`).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::secrets;
use serde_json::{Value, json};

use crate::http_session::{Question, question};
use crate::{Access, ClientToken, ClusterStatus, NotReady, SystemError};

/// Longest time for a node to initialise or unseal itself.
const INIT_PATIENCE: Duration = Duration::from_secs(30);

/// Marks a cluster that bakeoff may initialise.
pub(super) struct OwnCluster;

/// Unseal keys and root token. Has no `Debug`, so that nothing prints them.
pub(crate) struct Keys {
    pub(crate) token: String,
    unseal: Vec<String>,
}

/// Nodes that took their key while they join, each with the time from which it may be sent again.
///
/// Such a node answers that it is sealed and unseals itself within seconds. A second key meanwhile makes Vault 1.21.0 and
/// OpenBao 2.7.2 wait for leadership twice. The node then ignores that it lost leadership, and serves old values.
#[derive(Default)]
struct JoiningNodes(Mutex<BTreeMap<String, Instant>>);

/// Header with the token.
pub(super) const TOKEN_HEADER: &str = "X-Vault-Token";

/// Variables with the token of a cluster that bakeoff did not start.
const TOKEN_VARIABLES: [&str; 2] = ["VAULT_TOKEN", "BAO_TOKEN"];

/// Opens bakeoff's own cluster as far as possible, and checks that all nodes can serve.
pub(crate) fn probe(nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
    let ours = nodes[0].memory.get::<OwnCluster>().is_some();
    let mut view = ClusterStatus::default();
    let mut raft = false;
    for (index, node) in nodes.iter().enumerate() {
        let mut status = seal_status(node)?;
        if !is(&status, "initialized") {
            match (ours, index) {
                (true, 0) if node.memory.get::<Keys>().is_none() => initialise(node)?,
                (true, 0) if storage_of(&status) == Some("inmem") => {
                    return never(
                        format!("`{}` lost all data when it was killed", node.name),
                        "storage `inmem` loses all data in a kill; load it only with operations that do not write",
                    );
                }
                (true, _) => {
                    return Err(format!("`{}` has not joined the others yet", node.name).into());
                }
                (false, _) => {
                    return never(
                        format!("`{}` is not initialised", node.name),
                        "initialise and unseal it with its own client (`operator init`)",
                    );
                }
            }
            status = seal_status(node)?;
        }
        if is(&status, "sealed") {
            if !ours {
                return never(
                    format!("`{}` is sealed", node.name),
                    "unseal it with its own client and its keys (`operator unseal`)",
                );
            }
            if !is_joining(node) {
                unseal(node)?;
            }
            status = seal_status(node)?;
        }
        if is(&status, "sealed") {
            return Err(format!("`{}` is still sealed", node.name).into());
        }
        raft |= storage_of(&status) == Some("raft");
        if let Some(version) = status.get("version").and_then(Value::as_str) {
            view.version = Some(version.to_owned());
        }
    }
    let mut elsewhere = None;
    for (index, node) in nodes.iter().enumerate() {
        let leader = get(node, "/v1/sys/leader")?;
        if is(&leader, "is_self") || !is(&leader, "ha_enabled") {
            view.leader = Some(index);
        }
        let address = leader.get("leader_address").and_then(Value::as_str);
        elsewhere = elsewhere.or(address.filter(|address| !address.is_empty()).map(str::to_owned));
    }
    let Some(leader) = view.leader else { return Err(no_leader(ours, elsewhere).into()) };
    let leader = &nodes[leader];
    // The token must be valid. After an election the leader is not active at once.
    let token = match token(leader) {
        Ok(token) => token,
        Err(why) => {
            return never(
                why.to_string(),
                "give the token in `VAULT_TOKEN` or `BAO_TOKEN`, or in the study's `credentials`",
            );
        }
    };
    let asked = Question {
        target: "/v1/auth/token/lookup-self",
        headers: &[(TOKEN_HEADER, &token)],
        ..Question::default()
    };
    let reply = question(leader, &asked)?;
    if reply.status == 403 && !ours {
        return never(
            format!("`{}` refuses the token", leader.name),
            "it may be expired or belong to another cluster; give a valid one in the study's `credentials`, or in `VAULT_TOKEN`",
        );
    }
    reply.success()?;
    if raft && ours && nodes.len() > 1 {
        all_have_votes(leader, &token, nodes.len())?;
    }
    Ok(view)
}

/// Returns the token for all requests.
pub(crate) fn token(node: &Access) -> Result<String, SystemError> {
    if let Some(keys) = node.memory.get::<Keys>() {
        return Ok(keys.token.clone());
    }
    if let Some(token) = node.memory.get::<ClientToken>() {
        return Ok(token.0.clone());
    }
    let given = TOKEN_VARIABLES.iter().find_map(|name| std::env::var(name).ok());
    given
        .filter(|token| !token.is_empty())
        .inspect(|token| secrets::note(token))
        .ok_or_else(|| format!("no token is set for `{}`", node.name).into())
}

fn never<T>(seen: String, hint: &str) -> Result<T, NotReady> {
    Err(NotReady::Never { seen, hint: hint.to_owned() })
}

/// Explains that no node is active. That may pass: the nodes may elect a leader, or a load balancer may lead to
/// another node next time.
fn no_leader(ours: bool, elsewhere: Option<String>) -> String {
    match elsewhere {
        Some(address) if !ours => {
            format!("all endpoints are standbys; add the active node `{address}` to the endpoints")
        }
        _ => "no node is active yet".to_owned(),
    }
}

fn storage_of(status: &Value) -> Option<&str> {
    status.get("storage_type").and_then(Value::as_str)
}

fn get(node: &Access, target: &str) -> Result<Value, SystemError> {
    question(node, &Question { target, ..Question::default() })?.success()
}

fn seal_status(node: &Access) -> Result<Value, SystemError> {
    get(node, "/v1/sys/seal-status")
}

fn is(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool) == Some(true)
}

fn initialise(node: &Access) -> Result<(), SystemError> {
    let body = json!({"secret_shares": 1, "secret_threshold": 1});
    let asked = Question {
        method: "PUT",
        target: "/v1/sys/init",
        body: Some(&body),
        // The key is returned only once. On a remote storage the request takes about a hundred storage operations.
        patience: INIT_PATIENCE.into(),
        ..Question::default()
    };
    let reply = question(node, &asked)?.success()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let unseal: Option<Vec<String>> = reply
        .get("keys_base64")
        .and_then(Value::as_array)
        .map(|keys| keys.iter().filter_map(text).collect());
    match (reply.get("root_token").and_then(text), unseal) {
        (Some(token), Some(unseal)) => {
            secrets::note(&token);
            node.memory.keep(ClientToken(token.clone()));
            node.memory.keep(Keys { token, unseal });
            Ok(())
        }
        _ => Err(format!("`{}` was initialised but returned no keys", node.name).into()),
    }
}

fn is_joining(node: &Access) -> bool {
    node.memory.get::<JoiningNodes>().is_some_and(|joining| {
        let joining = joining.0.lock().unwrap_or_else(PoisonError::into_inner);
        joining.get(&node.name).is_some_and(|until| clock::now() < *until)
    })
}

fn unseal(node: &Access) -> Result<(), SystemError> {
    let keys = node.memory.get::<Keys>();
    let keys = keys.ok_or_else(|| format!("`{}` is sealed, and its key is unknown", node.name))?;
    for key in &keys.unseal {
        let body = json!({ "key": key });
        let asked = Question {
            method: "PUT",
            target: "/v1/sys/unseal",
            body: Some(&body),
            patience: INIT_PATIENCE.into(),
            ..Question::default()
        };
        let status = question(node, &asked)?.success()?;
        // A node that joins took the key if it asks for no further one.
        let progress = status.get("progress").and_then(Value::as_u64);
        if is(&status, "sealed") && progress == Some(0) {
            if node.memory.get::<JoiningNodes>().is_none() {
                node.memory.keep(JoiningNodes::default());
            }
            let joining = node.memory.get::<JoiningNodes>().expect("it was just kept");
            let mut joining = joining.0.lock().unwrap_or_else(PoisonError::into_inner);
            joining.insert(node.name.clone(), clock::now() + INIT_PATIENCE);
        }
    }
    Ok(())
}

/// Checks that all nodes have votes. A node that joins gets its vote after ten seconds.
fn all_have_votes(leader: &Access, token: &str, nodes: usize) -> Result<(), SystemError> {
    let target = "/v1/sys/storage/raft/configuration";
    let headers = &[(TOKEN_HEADER, token)];
    let reply =
        question(leader, &Question { target, headers, ..Question::default() })?.success()?;
    let servers = reply.pointer("/data/config/servers").and_then(Value::as_array);
    let votes = servers.map_or(0, |servers| servers.iter().filter(|one| is(one, "voter")).count());
    // The configuration may include a node that has exited.
    if votes >= nodes {
        return Ok(());
    }
    Err(format!("{votes} of {nodes} nodes have a vote").into())
}
