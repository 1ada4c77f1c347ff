//! Removes the namespace of a run when its coordinator is gone: a pod sends the request with its own account.
//!
//! The account may only delete this one namespace. The right is tested when the run begins, so a missing right is
//! reported while the user is watching.
//!
//! Not here: the account and its role (`manifests`), detecting that a coordinator is gone (`bakeoff_agent`).

use std::fs;
use std::io;
use std::net::ToSocketAddrs as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bakeoff_agent::AgentRefusal;
use bakeoff_clock as clock;
use bakeoff_engine::blocking_http::BlockingConnection;
use bakeoff_engine::tls::{TlsTexts, Trust};
use bakeoff_engine::transport::Target;
use bakeoff_engine::works::http::tls_target;
use bakeoff_wire::http1::Request;

/// Folder in which Kubernetes mounts an account's token and the API server's CA certificate.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Time limits of one request and of all attempts, and the pause between attempts.
const PATIENCE: Duration = Duration::from_secs(5);
const TRIED_FOR: Duration = Duration::from_secs(40);
const TRIED_FIRST_FOR: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(500);

/// Hint for a pod whose connections to the API server fail.
const UNREACHED: &str = "let pods connect to the API server: check network policies for egress, and proxies between them";

/// An account that may delete a namespace, and the address of the API server.
#[derive(Debug, Clone)]
pub(crate) struct Keeper {
    namespace: String,
    account: PathBuf,
    server: (String, u16),
}

impl Keeper {
    /// Tests this pod's right to delete a namespace, and keeps what is needed for it.
    ///
    /// # Errors
    /// When the right is missing, or the API server cannot be reached.
    pub(crate) fn in_pod(namespace: &str) -> Result<Self, AgentRefusal> {
        let word = |name: &str| std::env::var(name).ok();
        let host = word("KUBERNETES_SERVICE_HOST")
            .ok_or_else(|| AgentRefusal::new("this is not a pod"))?;
        let port = word("KUBERNETES_SERVICE_PORT").and_then(|port| port.parse().ok());
        let keeper = Self {
            namespace: namespace.to_owned(),
            account: ACCOUNT.into(),
            server: (host, port.unwrap_or(443)),
        };
        // A role created a moment ago may not have reached this API server yet, so retry.
        keeper.delete("?dryRun=All", TRIED_FIRST_FOR)?;
        Ok(keeper)
    }

    /// Deletes the namespace, including this pod.
    ///
    /// # Errors
    /// When deleting still fails after 40 s.
    pub(crate) fn remove(&self) -> Result<(), AgentRefusal> {
        self.delete("", TRIED_FOR)
    }

    fn delete(&self, query: &str, within: Duration) -> Result<(), AgentRefusal> {
        let until = clock::now() + within;
        loop {
            let why = match self.ask(query) {
                // Deleted already, or being deleted.
                Ok((200 | 202 | 404 | 409, _)) => return Ok(()),
                Ok((status, body)) => format!("the API server answered {status}: {body}"),
                Err(error) => format!("cannot reach the API server: {error}\nhint: {UNREACHED}"),
            };
            if clock::now() >= until {
                return Err(AgentRefusal::new(why));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn ask(&self, query: &str) -> io::Result<(u16, String)> {
        let (host, port) = (&*self.server.0, self.server.1);
        let token = text(&self.account.join("token"))?;
        let authority = text(&self.account.join("ca.crt"))?;
        let trusted = TlsTexts::trusting(&authority);
        let config = trusted.options().client_config(Trust::Nobody, &[]);
        let config = config.map_err(io::Error::other)?;
        let address = (host, port).to_socket_addrs()?.next();
        let address = address.ok_or_else(|| io::Error::other("its host name has no address"))?;
        let tls = Some(tls_target(host, &config).map_err(io::Error::other)?);
        let mut connection = BlockingConnection::connect(&Target { address, tls }, PATIENCE)?;
        let until = clock::now() + PATIENCE;
        let go_on = || match clock::now() < until {
            true => Ok(()),
            false => Err(io::ErrorKind::TimedOut.into()),
        };
        let request = Request {
            method: "DELETE",
            target: &format!("/api/v1/namespaces/{}{query}", self.namespace),
            headers: &[
                ("host", &address.to_string()),
                ("authorization", &format!("Bearer {}", token.trim())),
                ("accept", "application/json"),
            ],
            body: b"",
            expect_continue: false,
        };
        let reply = connection.ask(&request, &go_on)?;
        Ok((reply.status, String::from_utf8_lossy(&reply.body).chars().take(300).collect()))
    }
}

fn text(path: &Path) -> io::Result<String> {
    fs::read_to_string(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
