//! Exchanges the identities of server and client.

use serde::Deserialize;
use serde_json::json;

use crate::{Access, ClientToken, Login};

/// Returns the client's CONNECT options: headers, a `503` for a request without a receiver, and the study's
/// credentials.
pub(super) fn connect(node: &Access) -> String {
    let mut client = json!({
        "verbose": false,
        "pedantic": false,
        "headers": true,
        "no_responders": true,
        "lang": "bakeoff",
        "version": env!("CARGO_PKG_VERSION"),
        "protocol": 1,
        "tls_required": node.target.tls.is_some(),
    });
    if let Some(login) = node.memory.get::<Login>() {
        client["user"] = login.user.as_str().into();
        client["pass"] = login.password.as_str().into();
    }
    if let Some(token) = node.memory.get::<ClientToken>() {
        client["auth_token"] = token.0.as_str().into();
    }
    client.to_string()
}

/// Identity of a server.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Greeting {
    server_id: String,
    pub(super) server_name: String,
    pub(super) version: String,
    #[serde(default)]
    client_id: u64,
    #[serde(default)]
    pub(super) jetstream: bool,
    #[serde(default)]
    pub(super) tls_required: bool,
}

/// A greeting that is not JSON.
#[derive(Debug, thiserror::Error)]
#[error("a greeting that is not JSON: {0}")]
pub(super) struct GreetingError(#[source] serde_json::Error);

impl Greeting {
    pub(super) fn read(info: &[u8]) -> Result<Self, GreetingError> {
        serde_json::from_slice(info).map_err(GreetingError)
    }

    /// Returns a name that is unique in the cluster: the server's random id, shortened as in NATS' own clients, and
    /// the connection's number there.
    pub(super) fn connection(&self) -> String {
        let server = self.server_id.get(..22).unwrap_or(&self.server_id);
        format!("{server}{}", self.client_id)
    }
}
