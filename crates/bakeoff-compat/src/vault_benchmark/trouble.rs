//! Names the errors of a server or connection, each with a hint.
//!
//! Messages quote the server's answer, because its own words are the best evidence; answers hold no tokens. Statuses
//! of `sys/health`: 200 active, 429 standby, 472 disaster recovery secondary, 473 performance standby, 501 not
//! initialised, 503 sealed.
//!
//! Not here: retries and recovery (`client`, `cleanup`).

use std::fmt;
use std::io;

use bakeoff_engine::LoadError;
use bakeoff_engine::tls::refusal;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing listens there, or the server closed the connection.
    Unreachable,
    /// The server did not answer in time.
    Silent,
    /// The TLS handshake failed.
    Tls,
    Sealed,
    NotInitialised,
    /// The node cannot serve and knows no leader at present.
    NoLeader,
    /// The node never serves: a disaster recovery secondary.
    Secondary,
    /// Status 403.
    Denied,
    /// The namespace does not exist.
    NoNamespace,
    /// The mount path is in use.
    InUse,
    /// The object does not exist.
    NotFound,
    /// The mount is being made ready.
    NotYet,
    /// Any other failure status.
    Refused,
    /// Any other status from 500 on, which may pass.
    Failed,
    /// The user interrupted.
    Interrupted,
    /// The input is invalid.
    Input,
}

impl Kind {
    /// Returns true for a state that passes during set-up.
    pub(super) fn may_pass(self) -> bool {
        matches!(self, Self::NoLeader | Self::NotYet)
    }

    /// Returns true if the server certainly did not carry out the request.
    pub(super) fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::Denied | Self::NoNamespace | Self::NotFound | Self::InUse | Self::Refused
        )
    }

    /// Returns true for a state that passes if a server was reached before.
    pub(super) fn may_pass_later(self) -> bool {
        matches!(self, Self::Unreachable | Self::Silent | Self::Sealed | Self::Failed)
    }
}

#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) kind: Kind,
    pub(super) what: String,
    pub(super) hint: Option<&'static str>,
    /// True if the request was sent twice and the first one may have been obeyed.
    pub(super) repeated: bool,
}

impl Trouble {
    pub(super) fn new(kind: Kind, what: impl Into<String>) -> Self {
        let hint = match kind {
            Kind::Unreachable => Some(
                "is the server running, and is this its address (`-vault_addr`, `VAULT_ADDR`)? \
                 a server with TLS needs `https://`",
            ),
            Kind::Silent => Some("see its log"),
            Kind::Tls => Some(
                "`-ca_pem_file` or `VAULT_CACERT` names the authority that signed its certificate; \
                 `VAULT_TLS_SERVER_NAME` the name that stands in it",
            ),
            Kind::Sealed => Some("unseal it: `vault operator unseal`, `bao operator unseal`"),
            Kind::NotInitialised => {
                Some("initialise it: `vault operator init`, `bao operator init`, then unseal it")
            }
            Kind::NoLeader => {
                Some("check that a majority of its nodes runs; an election takes seconds")
            }
            Kind::Secondary => Some("give the address of the primary cluster"),
            Kind::NoNamespace => {
                Some("make it first, or leave out `-vault_namespace` and `VAULT_NAMESPACE`")
            }
            Kind::InUse => Some(
                "another `mount_name`, `-random_mounts=true`, or take away what an earlier run left",
            ),
            Kind::Denied
            | Kind::NotFound
            | Kind::NotYet
            | Kind::Refused
            | Kind::Failed
            | Kind::Interrupted
            | Kind::Input => None,
        };
        Self { kind, what: what.into(), hint, repeated: false }
    }

    pub(super) fn interrupted() -> Self {
        Self::new(Kind::Interrupted, "interrupted")
    }

    /// Prefixes the message with the action that failed.
    pub(super) fn while_doing(mut self, doing: &str) -> Self {
        self.what = format!("{doing}: {}", self.what);
        self
    }

    /// Judges a status of `sys/health`. `Ok` may hold a warning.
    pub(super) fn of_health(status: u16, address: &str) -> Result<Option<String>, Self> {
        let new = |kind, what: &str| Err(Self::new(kind, format!("`{address}` {what}")));
        match status {
            429 => Ok(Some(format!(
                "`{address}` is a standby (429): what it cannot answer itself it hands on to the \
                 leader, and the figures are those of both"
            ))),
            473 => Ok(Some(format!(
                "`{address}` is a performance standby (473): it answers reads itself and hands \
                 writes on to the leader"
            ))),
            472 => new(
                Kind::Secondary,
                "is a disaster recovery secondary (472): it serves no requests",
            ),
            501 => new(Kind::NotInitialised, "is not initialised (501)"),
            503 => new(Kind::Sealed, "is sealed (503)"),
            200..300 => Ok(None),
            _ => new(
                Kind::Refused,
                &format!("answered `sys/health` with status {status}: is it Vault or OpenBao?"),
            ),
        }
    }

    /// Names the error of an answer. `path` follows `/v1/`.
    pub(super) fn of_answer(
        method: &str,
        path: &str,
        status: u16,
        body: &[u8],
        namespace: &str,
    ) -> Self {
        let message = message(body);
        let has = |text: &str| message.to_ascii_lowercase().contains(text);
        let in_namespace = !namespace.is_empty();
        let kind = match status {
            400 if has("path is already in use") || has("existing mount at") => Kind::InUse,
            400 if has("upgrading from non-versioned") => Kind::NotYet,
            403 if in_namespace && has("namespace not authorized") => Kind::NoNamespace,
            403 => Kind::Denied,
            404 if in_namespace && (has("no handler for route") || has("namespace")) => {
                Kind::NoNamespace
            }
            404 => Kind::NotFound,
            412 => Kind::NotYet,
            472 => Kind::Secondary,
            429 | 473 => Kind::NoLeader,
            500..600 if has("sealed") => Kind::Sealed,
            500..600 if has("not initialized") => Kind::NotInitialised,
            500 if has("local node not active") || has("no active") || has("standby") => {
                Kind::NoLeader
            }
            502..505 => Kind::NoLeader,
            500..600 => Kind::Failed,
            _ => Kind::Refused,
        };
        let (path, _) = path.split_once('?').unwrap_or((path, ""));
        let mut what = match kind {
            Kind::NoNamespace => {
                format!(
                    "there is no namespace `{namespace}`: `{method} {path}` was answered {status}"
                )
            }
            Kind::Sealed => {
                format!("the server is sealed: `{method} {path}` was answered {status}")
            }
            Kind::InUse => {
                let mount = path.strip_prefix("sys/mounts/").or(path.strip_prefix("sys/auth/"));
                let mount = mount.unwrap_or(path);
                format!("`{mount}` is in use: `{method} {path}` was answered {status}")
            }
            _ => format!("`{method} {path}` was answered {status}"),
        };
        if !message.is_empty() {
            what = format!("{what}: {message}");
        }
        Self::new(kind, what)
    }

    /// Refines a refused token: `is_known` is true if the server knows it.
    pub(super) fn denied(mut self, is_known: bool) -> Self {
        if is_known {
            self.what = format!("the token lacks permission: {}", self.what);
            self.hint = Some("set-up needs a token that may mount, such as a root token");
        } else {
            self.what = format!("the token is invalid or expired: {}", self.what);
            self.hint = Some("set the token with `-vault_token` or `VAULT_TOKEN`");
        }
        self
    }

    /// Names a socket error.
    pub(super) fn of_io(error: &io::Error, address: &str) -> Self {
        let new = |kind, what: String| Self::new(kind, what);
        if let Some(tls) = refusal::of_io(error) {
            let what = format!("TLS handshake failed with `{address}`: {}", refusal::text(tls));
            let mut trouble = new(Kind::Tls, what);
            if matches!(tls, rustls::Error::InvalidMessage(_)) {
                trouble.hint = Some("does this port use TLS? if not, write `http://`");
            }
            return trouble;
        }
        match error.kind() {
            io::ErrorKind::Interrupted => Self::interrupted(),
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                new(Kind::Silent, format!("`{address}` did not answer in time"))
            }
            io::ErrorKind::UnexpectedEof => new(
                Kind::Unreachable,
                format!("`{address}` closed the connection without an answer"),
            ),
            _ => new(Kind::Unreachable, format!("`{address}` is unreachable: {error}")),
        }
    }
}

/// Returns the `errors` of an answer's body on one line, shortened.
pub(super) fn message(body: &[u8]) -> String {
    const SHOWN: usize = 300;
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let errors = parsed.as_ref().and_then(|parsed| parsed.get("errors")?.as_array());
    let text = match errors {
        Some(errors) => errors.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; "),
        // A body that is no list of errors may be a secret.
        None => String::new(),
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.what)
    }
}

impl From<Trouble> for LoadError {
    fn from(trouble: Trouble) -> Self {
        let Trouble { kind, what, hint, .. } = trouble;
        match kind {
            Kind::Interrupted => Self::Interrupted,
            Kind::InUse
            | Kind::Denied
            | Kind::NoNamespace
            | Kind::NotFound
            | Kind::Refused
            | Kind::Input => Self::Input(what, hint.map(str::to_owned)),
            _ => Self::Unreachable(match hint {
                Some(hint) => format!("{what}\nhint: {hint}"),
                None => what,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, errors: &str, namespace: &str, expected: Kind) {
        let body = format!("{{\"errors\":[\"{errors}\"]}}");
        let trouble =
            Trouble::of_answer("POST", "sys/mounts/x", status, body.as_bytes(), namespace);
        assert_eq!(trouble.kind, expected, "{status} {errors}: {trouble}");
    }

    #[test]
    fn errors_of_servers_have_a_kind() {
        check(400, "path is already in use at x/", "", Kind::InUse);
        check(400, "existing mount at x/", "", Kind::InUse);
        check(400, "something else", "", Kind::Refused);
        check(403, "permission denied", "", Kind::Denied);
        check(404, "no handler for route", "nowhere", Kind::NoNamespace);
        check(404, "no handler for route", "", Kind::NotFound);
        check(412, "required index state not present", "", Kind::NotYet);
        check(429, "", "", Kind::NoLeader);
        check(472, "", "", Kind::Secondary);
        check(473, "", "", Kind::NoLeader);
        check(500, "local node not active but active cluster node not found", "", Kind::NoLeader);
        check(500, "internal error", "", Kind::Failed);
        check(503, "Vault is sealed", "", Kind::Sealed);
        check(503, "", "", Kind::NoLeader);
    }

    #[test]
    fn health_status_names_nodes_that_cannot_serve() {
        let of = |status| Trouble::of_health(status, "a").map_err(|trouble| trouble.kind);
        assert_eq!(of(200), Ok(None));
        assert!(of(429).unwrap().unwrap().contains("429"));
        assert!(of(473).unwrap().unwrap().contains("473"));
        assert_eq!(of(472), Err(Kind::Secondary));
        assert_eq!(of(501), Err(Kind::NotInitialised));
        assert_eq!(of(503), Err(Kind::Sealed));
        assert_eq!(of(404), Err(Kind::Refused));
    }

    #[test]
    fn an_answer_that_is_no_error_is_not_shown() {
        let trouble = Trouble::of_answer("PUT", "x", 418, b"{\"token\":\"hvs.secret\"}", "");
        assert_eq!(trouble.what, "`PUT x` was answered 418");
    }
}
