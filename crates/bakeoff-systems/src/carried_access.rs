//! Sends access to nodes to generators on other machines: addresses, TLS trust, and the values that sessions need.
//!
//! It holds tokens and passwords. It goes only over the pipe to an agent. It has no `Debug` and is in no record.
//!
//! Not here: the pipe (`bakeoff_agent`), the load (`generators` in the crate `bakeoff`).

use std::net::SocketAddr;

use bakeoff_engine::tls::{self, CaPem, TlsTexts, Trust};
use bakeoff_engine::transport::{Target, TlsTarget};
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Access, ClientToken, Login, Memory, System, SystemError};

/// Functions that transfer the values that a kind's sessions need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CarriedMemory {
    /// Returns the values for the sessions, or `None` if there are none.
    pub(crate) give: fn(&Memory) -> Option<Value>,
    /// Stores the values, or returns `None` if they are invalid.
    pub(crate) take: fn(Value, &Memory) -> Option<()>,
}

/// Trust and identity of clients of a cluster that bakeoff did not start.
#[derive(Clone, Serialize, Deserialize)]
pub struct ClientTrust {
    /// Authorities that clients trust, and their own certificate.
    pub texts: TlsTexts,
    /// Trust to use if no authority is named.
    pub otherwise: Trust,
}

impl ClientTrust {
    /// Returns the trust of these nodes' clients, if it is known.
    fn known(memory: &Memory) -> Option<Self> {
        memory.get::<Self>().map(|own| (*own).clone()).or_else(|| {
            let ca = memory.get::<CaPem>()?;
            Some(Self { texts: TlsTexts::trusting(&ca.0), otherwise: Trust::Nobody })
        })
    }
}

/// Access to one node in a form that can be sent to another machine.
#[derive(Clone, Serialize, Deserialize)]
pub struct CarriedAccess {
    name: String,
    authority: String,
    address: SocketAddr,
    tls: Option<CarriedTls>,
    token: Option<String>,
    login: Option<(String, String)>,
    own: Option<Value>,
}

#[derive(Clone, Serialize, Deserialize)]
struct CarriedTls {
    name: String,
    trusted: ClientTrust,
    alpn: Vec<Vec<u8>>,
    /// True if connections resume their own earlier TLS sessions.
    resumed: bool,
}

impl CarriedAccess {
    /// Converts access to a node. `resumed`: whether clients may resume TLS sessions.
    ///
    /// # Errors
    /// When the trust in its certificate cannot be sent.
    pub fn new(system: &dyn System, node: &Access, resumed: bool) -> Result<Self, SystemError> {
        let tls = match &node.target.tls {
            None => None,
            Some(tls) => {
                let trusted = ClientTrust::known(&node.memory).ok_or_else(|| {
                    format!("the authorities that clients of `{}` trust are unknown", node.name)
                })?;
                Some(CarriedTls {
                    name: tls.name.to_str().into_owned(),
                    trusted,
                    alpn: tls.config.alpn_protocols.clone(),
                    resumed,
                })
            }
        };
        let own = system.declares().hooks.carried.and_then(|carried| (carried.give)(&node.memory));
        let login = node.memory.get::<Login>();
        Ok(Self {
            name: node.name.clone(),
            authority: node.authority.clone(),
            address: node.target.address,
            tls,
            token: node.memory.get::<ClientToken>().map(|token| token.0.clone()),
            login: login.map(|login| (login.user.clone(), login.password.clone())),
            own,
        })
    }

    /// Restores access for sessions on this machine.
    ///
    /// # Errors
    /// When the data was not written by [`Self::new`].
    pub fn access(self, system: &dyn System) -> Result<Access, SystemError> {
        let unsound = |what: &str| SystemError::from(format!("the received access has no {what}"));
        let memory = Memory::default();
        if let Some(token) = self.token {
            memory.keep(ClientToken(token));
        }
        if let Some((user, password)) = self.login {
            memory.keep(Login { user, password });
        }
        if let Some((own, carried)) = self.own.zip(system.declares().hooks.carried) {
            (carried.take)(own, &memory).ok_or_else(|| unsound("session values"))?;
        }
        let tls = match self.tls {
            None => None,
            Some(carried) => {
                let alpn: Vec<&[u8]> = carried.alpn.iter().map(Vec::as_slice).collect();
                let ClientTrust { texts, otherwise } = carried.trusted;
                let config = texts
                    .options()
                    .client_config(otherwise, &alpn)
                    .map_err(|error| SystemError::from(error.to_string()))?;
                let config = match carried.resumed {
                    true => tls::with_sessions_of_its_own(&config),
                    false => tls::without_resumption(&config),
                };
                let name = ServerName::try_from(carried.name).map_err(|_| unsound("a name"))?;
                let begins = system.declares().clients.tls_begins;
                Some(TlsTarget { name, config, begins })
            }
        };
        Ok(Access {
            name: self.name,
            authority: self.authority,
            target: Target { address: self.address, tls },
            memory,
        })
    }
}
