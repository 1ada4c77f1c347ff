//! Which server is loaded: its address, and how it is spoken to over TLS.
//!
//! TLS is Vault's own clients' affair of environment variables: `VAULT_CACERT`, `VAULT_CLIENT_CERT`,
//! `VAULT_CLIENT_KEY`, `VAULT_SKIP_VERIFY`, `VAULT_TLS_SERVER_NAME`, each also as `BAO_…`, which goes
//! before.
//!
//! Not here: what is said on a connection (`client`, `load`).

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bakeoff_engine::LoadError;
use bakeoff_engine::asking::shake_hands;
use bakeoff_engine::tls::{Pem, TlsOptions};
use bakeoff_engine::transport::Target;
use bakeoff_engine::works::http::{Url, tls_target};
use rustls::ClientConfig;

use super::trouble::{Kind, Trouble};

/// How long a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// Whom to trust and what to show, over TLS.
#[derive(Debug, Clone, Default)]
pub(super) struct TlsSettings {
    pub(super) options: TlsOptions,
    /// The name in the server's certificate, where it is not that of the address.
    pub(super) name: Option<String>,
}

impl TlsSettings {
    /// Reads the environment as Vault's clients do; `ca` comes from the command line.
    pub(super) fn from_environment(
        ca: Option<PathBuf>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, LoadError> {
        let get = |name: &str| {
            let of = |prefix: &str| variable(&format!("{prefix}_{name}")).filter(|v| !v.is_empty());
            of("BAO").or_else(|| of("VAULT"))
        };
        for name in ["CAPATH", "CACERT_BYTES"] {
            if ca.is_none() && get("CACERT").is_none() && get(name).is_some() {
                return Err(LoadError::input(
                    format!("`VAULT_{name}` is set, which is not supported"),
                    "`-ca_pem_file FILE` or `VAULT_CACERT` name one PEM file of authorities",
                ));
            }
        }
        let cert = match (get("CLIENT_CERT"), get("CLIENT_KEY")) {
            (Some(cert), Some(key)) => Some((Pem::File(cert.into()), Pem::File(key.into()))),
            (None, None) => None,
            _ => {
                return Err(LoadError::input(
                    "of `VAULT_CLIENT_CERT` and `VAULT_CLIENT_KEY` only one is set",
                    "a client's certificate is shown with its key: set both or neither",
                ));
            }
        };
        let insecure = match get("SKIP_VERIFY").as_deref() {
            None | Some("0" | "f" | "F" | "false" | "FALSE" | "False") => false,
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => true,
            Some(_) => {
                return Err(LoadError::input(
                    "`VAULT_SKIP_VERIFY` is no truth value",
                    "`true` trusts any certificate, `false` does not",
                ));
            }
        };
        let ca = ca.or_else(|| get("CACERT").map(PathBuf::from)).map(Pem::File);
        let options = TlsOptions { ca, cert, insecure };
        Ok(Self { options, name: get("TLS_SERVER_NAME") })
    }
}

/// A server that takes connections.
#[derive(Debug, Clone)]
pub(super) struct Server {
    /// As it was given, without a slash at its end.
    pub(super) address: String,
    /// As the `Host` field says it.
    pub(super) authority: String,
    /// How it is spoken to over HTTP/1.1.
    pub(super) target: Target,
    /// How it is spoken to over HTTP/2, if it offers that.
    pub(super) target_two: Option<Target>,
    tls: TlsSettings,
}

impl Server {
    /// Looks a server up and sees that it takes a connection, over TLS that both agree on.
    pub(super) fn find(address: &str, tls: &TlsSettings) -> Result<Self, LoadError> {
        let url = Url::parse(address).map_err(|what| {
            LoadError::input(
                format!("the address `{address}` cannot be used: {what}"),
                "write it as `http://127.0.0.1:8200`",
            )
        })?;
        let configs = match url.tls {
            true => {
                Some((tls.options.offering(&[HTTP_1])?, tls.options.offering(&[HTTP_2, HTTP_1])?))
            }
            false => None,
        };
        Ok(Self::reach(address, &url, tls, configs)?)
    }

    /// Returns where a redirect points: the same kind of server at another address.
    pub(super) fn elsewhere(&self, location: &str) -> Result<Self, Trouble> {
        let lost = |what: String| {
            Trouble::new(Kind::NoLeader, format!("`{}` sent us on, but {what}", self.address))
        };
        let url = Url::parse(location).map_err(|error| lost(error.to_string()))?;
        let address = format!("{}://{}", url.scheme(), url.authority);
        Self::find(&address, &self.tls).map_err(|failure| lost(failure.to_string()))
    }

    fn reach(
        address: &str,
        url: &Url,
        tls: &TlsSettings,
        configs: Option<(Arc<ClientConfig>, Arc<ClientConfig>)>,
    ) -> Result<Self, Trouble> {
        let found: io::Result<Vec<SocketAddr>> =
            (&*url.host, url.port).to_socket_addrs().map(Iterator::collect);
        let found = found.map_err(|error| {
            Trouble::new(Kind::Unreachable, format!("`{}` has no address: {error}", url.host))
        })?;
        let mut seen = io::Error::other("the name has no address");
        for at in found {
            let mut socket = match TcpStream::connect_timeout(&at, CONNECT_WITHIN) {
                Ok(socket) => socket,
                Err(error) => {
                    seen = error;
                    continue;
                }
            };
            let mut server = Self {
                address: address.trim_end_matches('/').to_owned(),
                authority: url.authority.clone(),
                target: Target { address: at, tls: None },
                target_two: None,
                tls: tls.clone(),
            };
            if let Some((one, two)) = configs {
                let name = tls.name.as_deref().unwrap_or(&url.host);
                let named = |config| {
                    tls_target(name, config)
                        .map_err(|failure| Trouble::new(Kind::Input, failure.to_string()))
                };
                let (one, two) = (named(&one)?, named(&two)?);
                let agreed = shake_hands(&mut socket, &two, CONNECT_WITHIN)
                    .map_err(|error| Trouble::of_io(&error, address))?;
                let agreed = agreed.alpn_protocol();
                server.target.tls = Some(one);
                server.target_two =
                    (agreed == Some(HTTP_2)).then(|| Target { address: at, tls: Some(two) });
            }
            return Ok(server);
        }
        Err(Trouble::of_io(&seen, address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(set: &[(&str, &str)]) -> Result<TlsSettings, String> {
        let get = |name: &str| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        TlsSettings::from_environment(None, get).map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_environment_says_whom_to_trust() {
        let both = settings(&[("VAULT_CACERT", "a"), ("BAO_CACERT", "b")]).unwrap();
        assert_eq!(both.options.ca, Some(Pem::File("b".into())));
        assert!(settings(&[("VAULT_SKIP_VERIFY", "true")]).unwrap().options.insecure);
        assert!(!settings(&[("VAULT_SKIP_VERIFY", "0")]).unwrap().options.insecure);
        for (set, expected) in [
            ([("VAULT_SKIP_VERIFY", "yes")], "truth value"),
            ([("VAULT_CLIENT_CERT", "x")], "only one is set"),
            ([("VAULT_CAPATH", "/x")], "VAULT_CAPATH"),
        ] {
            let error = settings(&set).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
