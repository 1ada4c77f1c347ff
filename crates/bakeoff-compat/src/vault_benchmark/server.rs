//! Resolves a server's address and its TLS settings.
//!
//! As in Vault's own clients, TLS settings come from the environment: `VAULT_CACERT`, `VAULT_CLIENT_CERT`,
//! `VAULT_CLIENT_KEY`, `VAULT_SKIP_VERIFY` and `VAULT_TLS_SERVER_NAME`. The same names with `BAO_` take precedence.
//!
//! Not here: the requests on a connection (`client`, `load`).

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bakeoff_engine::LoadError;
use bakeoff_engine::blocking_http::shake_hands;
use bakeoff_engine::tls::{Pem, TlsOptions};
use bakeoff_engine::transport::Target;
use bakeoff_engine::works::http::{Url, tls_target};
use rustls::ClientConfig;

use super::trouble::{Kind, Trouble};

/// Longest wait for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// TLS settings of the client.
#[derive(Debug, Clone, Default)]
pub(super) struct TlsSettings {
    pub(super) options: TlsOptions,
    /// Name in the server's certificate, if it differs from the address.
    pub(super) name: Option<String>,
}

impl TlsSettings {
    /// Reads the environment as Vault's clients do. `ca` comes from the command line.
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
                    "name one PEM file of authorities with `-ca_pem_file FILE` or `VAULT_CACERT`",
                ));
            }
        }
        let cert = match (get("CLIENT_CERT"), get("CLIENT_KEY")) {
            (Some(cert), Some(key)) => Some((Pem::File(cert.into()), Pem::File(key.into()))),
            (None, None) => None,
            _ => {
                return Err(LoadError::input(
                    "only one of `VAULT_CLIENT_CERT` and `VAULT_CLIENT_KEY` is set",
                    "a client certificate needs its key: set both or neither",
                ));
            }
        };
        let insecure = match get("SKIP_VERIFY").as_deref() {
            None | Some("0" | "f" | "F" | "false" | "FALSE" | "False") => false,
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => true,
            Some(_) => {
                return Err(LoadError::input(
                    "`VAULT_SKIP_VERIFY` is not a truth value",
                    "set it to `true` to trust any certificate, or to `false`",
                ));
            }
        };
        let ca = ca.or_else(|| get("CACERT").map(PathBuf::from)).map(Pem::File);
        let options = TlsOptions { ca, cert, insecure };
        Ok(Self { options, name: get("TLS_SERVER_NAME") })
    }
}

/// A server that accepts connections.
#[derive(Debug, Clone)]
pub(super) struct Server {
    /// Address as given, without a trailing slash.
    pub(super) address: String,
    /// Host and port for the `Host` field.
    pub(super) authority: String,
    /// Target for HTTP/1.1.
    pub(super) target: Target,
    /// Target for HTTP/2, if the server offers it.
    pub(super) target_two: Option<Target>,
    tls: TlsSettings,
}

impl Server {
    /// Resolves a server and checks that it accepts a connection, including the TLS handshake.
    pub(super) fn find(address: &str, tls: &TlsSettings) -> Result<Self, LoadError> {
        let url = Url::parse(address).map_err(|what| {
            LoadError::input(
                format!("invalid address `{address}`: {what}"),
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

    /// Returns the server that a redirect points to, with the same TLS settings.
    pub(super) fn elsewhere(&self, location: &str) -> Result<Self, Trouble> {
        let lost = |what: String| {
            Trouble::new(
                Kind::NoLeader,
                format!("`{}` redirected the request, but {what}", self.address),
            )
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
            Trouble::new(Kind::Unreachable, format!("cannot resolve `{}`: {error}", url.host))
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
    fn reads_trust_from_the_environment() {
        let both = settings(&[("VAULT_CACERT", "a"), ("BAO_CACERT", "b")]).unwrap();
        assert_eq!(both.options.ca, Some(Pem::File("b".into())));
        assert!(settings(&[("VAULT_SKIP_VERIFY", "true")]).unwrap().options.insecure);
        assert!(!settings(&[("VAULT_SKIP_VERIFY", "0")]).unwrap().options.insecure);
        for (set, expected) in [
            ([("VAULT_SKIP_VERIFY", "yes")], "truth value"),
            ([("VAULT_CLIENT_CERT", "x")], "only one of"),
            ([("VAULT_CAPATH", "/x")], "VAULT_CAPATH"),
        ] {
            let error = settings(&set).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
