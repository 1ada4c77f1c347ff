//! Access to nodes as it goes to generators on other machines: addresses, whom to trust, what sessions need to know.
//!
//! It holds tokens and passwords. It goes over the pipe to an agent and nowhere else: it has no `Debug`, and is in no
//! record.
//!
//! Not here: the pipe (`bakeoff_agent`), driving (`generators` of the crate `bakeoff`).

use std::net::SocketAddr;

use bakeoff_engine::tls::{self, CaPem, TlsTexts, Trust};
use bakeoff_engine::transport::{Target, TlsTarget};
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Access, ClientToken, Login, Memory, System, SystemError};

/// A cluster's memory as a kind's sessions need it, taken along and kept anew.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CarriedMemory {
    /// Returns what sessions need; `None` where there is nothing.
    pub(crate) give: fn(&Memory) -> Option<Value>,
    /// Keeps it; `None` when it is not what was given.
    pub(crate) take: fn(Value, &Memory) -> Option<()>,
}

/// Whom clients of a system that runs already trust, and what they show of themselves.
#[derive(Clone, Serialize, Deserialize)]
pub struct Trusted {
    /// The authorities that they trust, and their own certificate.
    pub texts: TlsTexts,
    /// Whom they trust where no authority is named.
    pub otherwise: Trust,
}

impl Trusted {
    /// Returns whom clients of these nodes trust, where that is known.
    fn known(memory: &Memory) -> Option<Self> {
        memory.get::<Self>().map(|own| (*own).clone()).or_else(|| {
            let ca = memory.get::<CaPem>()?;
            Some(Self { texts: TlsTexts::trusting(&ca.0), otherwise: Trust::Nobody })
        })
    }
}

/// How clients on another machine reach one node.
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
    trusted: Trusted,
    alpn: Vec<Vec<u8>>,
    /// Whether connections take up sessions that they had themselves.
    resumed: bool,
}

impl CarriedAccess {
    /// Takes access to a node along. `resumed`: whether clients may resume TLS sessions.
    ///
    /// # Errors
    /// When its certificate is trusted in a way that cannot be taken along.
    pub fn new(system: &dyn System, node: &Access, resumed: bool) -> Result<Self, SystemError> {
        let tls = match &node.target.tls {
            None => None,
            Some(tls) => {
                let trusted = Trusted::known(&node.memory)
                    .ok_or_else(|| format!("whom clients of `{}` trust is not known", node.name))?;
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

    /// Returns access for sessions on this machine.
    ///
    /// # Errors
    /// When it is not what [`Self::new`] wrote.
    pub fn access(self, system: &dyn System) -> Result<Access, SystemError> {
        let unsound = |what: &str| SystemError::from(format!("access came without {what}"));
        let memory = Memory::default();
        if let Some(token) = self.token {
            memory.keep(ClientToken(token));
        }
        if let Some((user, password)) = self.login {
            memory.keep(Login { user, password });
        }
        if let Some((own, carried)) = self.own.zip(system.declares().hooks.carried) {
            (carried.take)(own, &memory).ok_or_else(|| unsound("what its sessions need"))?;
        }
        let tls = match self.tls {
            None => None,
            Some(carried) => {
                let alpn: Vec<&[u8]> = carried.alpn.iter().map(Vec::as_slice).collect();
                let Trusted { texts, otherwise } = carried.trusted;
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
