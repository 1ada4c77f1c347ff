//! How a server and a client say who they are.

use std::fmt;

use serde::Deserialize;
use serde_json::json;

use crate::{Access, ClientToken, Login};

/// Says who a client is: headers, a `503` where nobody listens to a request, and the study's credentials.
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

/// Who a server is.
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

/// A greeting that is no JSON.
#[derive(Debug)]
pub(super) struct GreetingError(serde_json::Error);

impl fmt::Display for GreetingError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "a greeting that is no JSON: {}", self.0)
    }
}

impl std::error::Error for GreetingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl Greeting {
    pub(super) fn read(info: &[u8]) -> Result<Self, GreetingError> {
        serde_json::from_slice(info).map_err(GreetingError)
    }

    /// Returns a name for the connection that no other of the cluster has: the server's random one, cut as
    /// its own clients' are, and the connection's number there.
    pub(super) fn connection(&self) -> String {
        let server = self.server_id.get(..22).unwrap_or(&self.server_id);
        format!("{server}{}", self.client_id)
    }
}
